"""A short function at many points as one native loop, and its derivatives point by point.

Under `vmap` XLA:CPU computes a function of few numbers array by array, and most of its time moves them about. As a
program of scalars in a native loop the same takes a tenth of the time.
"""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._cells import MOVES
from geodyn._jax import programs_in
from geodyn._native import closure_converted, evaluated, is_suitable, is_usable, native
from geodyn._scalars import scalar_program
from geodyn._typing import Array, Float

# Beyond, the compiler takes longer than the loop saves.
LARGEST_WORK = 20000
LONGEST = 4000
# XLA shares larger arrays among threads, and a native function cannot.
LARGEST_RESULT = 2**13


def pointwise(function: Callable[[Float[Array, " n"]], Array]) -> Callable[[Float[Array, "Q n"]], Array]:
    """`vmap(function)` that forms its derivatives point by point, once, before any direction is applied.

    It pays where directions are many (the unknowns of a stroke) and arguments few (shape and rate). Derivatives with
    respect to what the function closes over are not available.
    """
    return lambda points: _with_slopes(function, 0)(points)[0]


def _with_slopes(function, order: int):
    """From points[Q, n] to the values of the function, and of its derivatives up to an order."""

    @jax.custom_jvp
    def values(points):
        return each(jet(function, order), points)

    @values.defjvp
    def _(points, directions):
        known, (directions,) = _with_slopes(function, order + 1)(*points), directions
        # Sums so short are slow as matrix products, for which XLA:CPU copies.
        along = lambda slope: jnp.sum(slope * jnp.expand_dims(directions, range(1, slope.ndim - 1)), -1)  # noqa: E731
        return known[:-1], tuple(map(along, known[1:]))

    return values


def jet(function, order: int):
    """From a point to the value of the function and of its derivatives up to an order."""
    if order == 0:
        return lambda point: (function(point),)

    def last(point):
        known = jet(function, order - 1)(point)
        return known[-1], known

    def values(point):
        slope, known = jax.jacfwd(last, has_aux=True)(point)
        if order > 1:  # Half of the second derivatives are the others.
            upper = np.triu(np.ones((point.size, point.size), bool))
            slope = jnp.where(upper, slope, jnp.swapaxes(slope, -1, -2))
        return *known, slope

    return values


def each(function: Callable, *args: Float[Array, "Q *_"]):
    """`vmap(function)(*args)`. On the CPU a native loop over the points, of all members of a batch, where the function
    is a short program of scalars; derivatives are not available."""
    shapes = [x.shape[1:] for x in args]
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]

    def of_point(point):
        return function(*[x.reshape(shape) for x, shape in zip(jnp.split(point, ends), shapes, strict=True)])

    if not is_usable():
        return jax.vmap(function)(*args)
    points = jnp.concatenate([x.reshape(x.shape[0], math.prod(x.shape[1:])) for x in args], axis=1)
    closed, form = jax.make_jaxpr(of_point, return_shape=True)(jax.ShapeDtypeStruct(points.shape[1:], points.dtype))
    program, known = closure_converted(closed)
    together = jax.vmap(partial(evaluated, program), (*[None] * len(known), 0))
    scalar = _short_scalar_program(program) if jax.local_device_count("cpu") == 1 else None

    def loop(*args):
        return jax.lax.map(lambda point: evaluated(scalar, *args[:-1], point), args[-1])

    def on_cpu(*args):
        *known, points = args
        parts = points.reshape(_parts(program, points.shape[0]), -1, points.shape[1])
        values = jax.lax.map(lambda part: native(loop, *known, part, size=points.shape[1]), parts)
        return [x.reshape(points.shape[0], *x.shape[2:]) for x in values]

    @jax.custom_batching.custom_vmap
    def run(*args):
        return jax.lax.platform_dependent(*args, cpu=on_cpu, default=together)

    @run.def_vmap
    def _(size, batched, *args):
        *known, points = args
        if any(batched[:-1]):
            values = jax.vmap(together, [0 if moves else None for moves in batched])(*args)
        else:
            values = run(*known, points.reshape(-1, points.shape[-1]))
            values = [x.reshape(size, -1, *x.shape[1:]) for x in values]
        return values, [True] * len(values)

    return jax.tree.unflatten(jax.tree.structure(form), (together if scalar is None else run)(*known, points))


def _parts(program, count: int) -> int:
    """In how many equal parts to take the points."""
    results = sum(math.prod(x.shape) for x in program.out_avals)
    fits = lambda n: count % n == 0 and count // n * results <= LARGEST_RESULT  # noqa: E731
    return next(filter(fits, range(1, count)), count)


def _short_scalar_program(closed):
    """The program on scalars, or None if it is long, or not all of it can be."""
    if _work(closed.jaxpr) > LARGEST_WORK or not is_suitable(closed.jaxpr):
        return None
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in closed.in_avals]
    scalar = jax.make_jaxpr(scalar_program(closed))(*shapes)
    return scalar if length(scalar.jaxpr) <= LONGEST else None


def _work(jaxpr) -> int:
    """How many numbers the operations of a program make or read, other than to move them about."""
    inner = [programs_in(equation.params) for equation in jaxpr.eqns]
    return sum(
        sum(map(_work, programs)) if programs else _numbers(e) for e, programs in zip(jaxpr.eqns, inner, strict=True)
    )


def _numbers(equation):
    if equation.primitive.name in MOVES and equation.primitive.name != "dot_general":
        return 0
    return max(math.prod(v.aval.shape) for v in (*equation.outvars, *equation.invars))


def length(jaxpr) -> int:
    """Operations of a program, those inside of others counted once."""
    inner = [programs_in(equation.params) for equation in jaxpr.eqns]
    return sum(sum(map(length, programs)) if programs else 1 for programs in inner)
