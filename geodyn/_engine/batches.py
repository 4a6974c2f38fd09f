"""What a program of one member is for a batch, as JAX computes it.

A batch has the axes of its members behind an array's own axes: of their number, or of length one if all members share
the values.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from geodyn._engine import internals
from geodyn._engine.internals import ClosedJaxpr
from geodyn._foundations.typing import Array

# The name of the operation of `native.py`.
NATIVE = "native_program"
# For each result, over which axes of the batch it is summed.
Summed = tuple[tuple[bool, ...], ...]


class Transposed(NamedTuple):
    """The transpose of a program that is linear in its arguments from the place `nonlinear` on: it maps the arguments
    before, and the cotangents of the results, to the cotangents of the linear arguments. It is traced when it is
    lowered, and not before: often it is only transformed further."""

    program: Any  # A closed jaxpr, or a Transposed of one.
    nonlinear: int

    @property
    def in_avals(self) -> list:
        return [*self.program.in_avals[: self.nonlinear], *self.program.out_avals]

    @property
    def out_avals(self) -> list:
        return self.program.in_avals[self.nonlinear :]

    def closed_jaxpr(self) -> ClosedJaxpr:
        """The program as a jaxpr."""
        return trace(partial(evaluate, self, batch=()), self.in_avals)


# What is computed for every member.
Program = ClosedJaxpr | Transposed


def trace(function: Callable, like: Sequence[Any]) -> ClosedJaxpr:
    with jax.disable_jit(False):  # Else every turn of a loop would be traced.
        return jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in like))


def evaluate(program: Program, *args: Array, batch: tuple[int, ...], summed: Summed = ()) -> list[Array]:
    """The results of a program for a batch, which JAX runs as it is."""
    if batch:
        return of_members(partial(evaluate, program, batch=()), *args, batch=batch, summed=summed)
    if not isinstance(program, Transposed):
        return internals.eval_jaxpr(program.jaxpr, program.consts, *args)
    known, cts = args[: program.nonlinear], args[program.nonlinear :]
    likes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in program.out_avals]
    return jax.linear_transpose(lambda *t: evaluate(program.program, *known, *t, batch=()), *likes)(list(cts))


def of_members(
    one: Callable, *args: Array, batch: tuple[int, ...], summed: Summed, over: Callable = jax.vmap
) -> list[Array]:
    """The results of the function of `one` member for a batch. `over` is `jax.vmap`, or does the same."""
    return summed_over(over_last(one, batch, over)(*args), batch, summed)


def summed_over(values: Sequence[Array], batch: tuple[int, ...], summed: Summed) -> list:
    """The results for every member, summed over those axes of the batch over which they are to be."""
    axes = [
        [x.ndim - len(batch) + k for k, is_sum in enumerate(sums) if is_sum]
        for x, sums in zip(values, summed, strict=True)
    ]
    return [jnp.sum(x, which, keepdims=True) if which else x for x, which in zip(values, axes, strict=True)]


def in_turn(function: Callable, axes: list[int | None], _: int, axis_size: int) -> Callable:
    """`jax.vmap` over last axes, as a loop."""

    def over(*args: Array) -> list[Array]:
        moving = [jnp.moveaxis(x, -1, 0) for x, axis in zip(args, axes, strict=True) if axis is not None]

        def turn(_: None, row: list) -> tuple[None, list]:
            rows = iter(row)
            return None, function(*(x if axis is None else next(rows) for x, axis in zip(args, axes, strict=True)))

        values = jax.lax.scan(turn, None, moving, axis_size)[1]
        return [jnp.moveaxis(x, 0, -1) for x in values]

    return over


def over_last(function: Callable, batch: tuple[int, ...], over: Callable = jax.vmap) -> Callable:
    """A function of the arrays of one member as one of those of a batch."""

    def of(*args: Array) -> list:
        trails = [x.shape[x.ndim - len(batch) :] for x in args]
        mapped = function
        for i, size in enumerate(batch):
            axes = [None if trail[i] == 1 and size != 1 else -1 for trail in trails]
            # The innermost `vmap` is that of the first of these axes, which is the last one that is left there.
            mapped = over(mapped, axes, -1, axis_size=size)
        shapes = [
            (*x.shape[: x.ndim - len(batch)], *(a for a, b in zip(trail, batch, strict=True) if a != 1 or b == 1))
            for x, trail in zip(args, trails, strict=True)
        ]
        return mapped(*(x.reshape(shape) for x, shape in zip(args, shapes, strict=True)))

    return of
