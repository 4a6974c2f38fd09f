"""Programs of one member as one primitive of JAX, which batches and transposes them.

On a CPU they are compiled to machine code of our own (`program/`); elsewhere, and where that cannot be, they run as JAX
runs them. The parts of JAX that this needs are in `internals.py`.
"""

import functools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._compile import internals
from geodyn._compile.internals import ClosedJaxpr, programs_in
from geodyn._compile.program import members

# Larger states are programs on large arrays, of which XLA makes good code.
LARGEST = 64


def native(function: Callable, *args, size: int, in_batches: Callable | None = None):
    """`function(*args)` on arrays. On the CPU it is machine code of our own if its state has few numbers (`size`), and
    if its operations allow it; else it runs as it is. Under `vmap` it is `in_batches`, the same function written for
    many members at once. Its derivatives are those of the plain program."""
    if size > LARGEST or not is_usable():
        return function(*args)
    return _call(function, in_batches or function, args, args, size=size)


def native_linear(function: Callable, known, t, *, size: int, in_batches: Callable):
    """`function(known, t)`, linear in the arrays t, as a native function (see `native`), also when it is differentiated
    in either mode."""
    if not is_usable():
        return function(known, t)
    return _call(function, in_batches, (known, t), (known,), size=size)


def _call(function, in_batches, args, nonlinear, **params):
    leaves, structure = jax.tree.flatten(args)
    out = []

    def flat(function):
        def on_leaves(*x):
            values, form = jax.tree.flatten(function(*structure.unflatten(x)))
            out.append(form)
            return values

        return on_leaves

    values = _bind(flat(function), flat(in_batches), leaves, len(jax.tree.leaves(nonlinear)), **params)
    return out[0].unflatten(values)


# The batched or transposed form of a program is traced when it is lowered, and not before: often it is only transformed
# further.
class Members(NamedTuple):
    """The program of a batch: the program of one member, the batch axis of each argument (None for an argument that all
    members share), and the number of members."""

    program: Any  # A closed jaxpr, or a Members or Transposed of one.
    axes: tuple[int | None, ...]
    size: int

    @property
    def in_avals(self):
        pairs = zip(self.program.in_avals, self.axes, strict=True)
        return [x if axis is None else _widened(x, axis, self.size) for x, axis in pairs]

    @property
    def out_avals(self):
        return [_widened(x, 0, self.size) for x in self.program.out_avals]

    @property
    def jaxpr(self):
        return _derived(self).jaxpr

    def together(self, one: Callable) -> Callable:
        """The program of one member applied to all members of a batch."""
        return jax.vmap(one, self.axes, axis_size=self.size)


class Transposed(NamedTuple):
    """The transpose of a program that is linear in its arguments from the place `nonlinear` on: it maps the arguments
    before, and the cotangents of the results, to the cotangents of the linear arguments."""

    program: Any  # A closed jaxpr, or a Members or Transposed of one.
    nonlinear: int

    @property
    def in_avals(self):
        return [*self.program.in_avals[: self.nonlinear], *self.program.out_avals]

    @property
    def out_avals(self):
        return self.program.in_avals[self.nonlinear :]

    @property
    def jaxpr(self):
        return _derived(self).jaxpr


def _derived(program: Members | Transposed):
    return _traced(partial(evaluated, program), program.in_avals)


def _widened(x, axis: int, size: int):
    return internals.ShapedArray((*x.shape[:axis], size, *x.shape[axis:]), x.dtype, weak_type=x.weak_type)


def _traced(function, avals):
    return jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in avals))


def _bind(function, in_batches, args, nonlinear, **params):
    """The results of a function of arrays, bound as one primitive; it is linear in the arguments from the place
    `nonlinear` on."""
    program, consts = closure_converted(_traced(function, args))
    if internals.is_high(program.jaxpr):
        return evaluated(program, *consts, *args)
    if consts:
        in_batches = partial(evaluated, program)
    params |= {"in_batches": in_batches, "nonlinear": len(consts) + nonlinear}
    return program_p.bind(*consts, *args, program=program, **params)


def evaluated(program, *args):
    """The values of the program, which JAX runs as it is."""
    if isinstance(program, Members):
        return program.together(partial(evaluated, program.program))(*args)
    if isinstance(program, Transposed):
        return _backwards(partial(evaluated, program.program), program.out_avals, program.nonlinear)(*args)
    return internals.eval_jaxpr(program.jaxpr, program.consts, *args)


def closure_converted(closed):
    """(program, constants): the program with its traced constants as further first arguments, and these constants."""
    jaxpr, traced = closed.jaxpr, [isinstance(x, jax.core.Tracer) for x in closed.consts]
    given = [v for v, moved in zip(jaxpr.constvars, traced, strict=True) if moved]
    kept = [v for v, moved in zip(jaxpr.constvars, traced, strict=True) if not moved]
    consts = [x for x, moved in zip(closed.consts, traced, strict=True) if not moved]
    names = jaxpr.debug_info.with_unknown_names()
    program = jaxpr.replace(constvars=kept, invars=[*given, *jaxpr.invars], debug_info=names)
    return ClosedJaxpr(program, consts), [x for x, moved in zip(closed.consts, traced, strict=True) if moved]


def _batched(args, axes, *, in_batches, program, **params):
    (size,) = {x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None}
    axes = tuple(axes)
    one = program if isinstance(program, Members) else _traced(in_batches, program.in_avals)
    values = program_p.bind(*args, program=Members(one, axes, size), in_batches=in_batches, **params)
    return values, [0] * len(values)


def _pushed_forward(primals, tangents, *, program, nonlinear, **params):
    bind = partial(program_p.bind, program=program, nonlinear=nonlinear, **params)
    return pushed_forward(bind, partial(evaluated, program), nonlinear, primals, tangents)


def pushed_forward(bind, plain, nonlinear: int, primals, tangents):
    """(values, tangents) of an operation `bind` that is linear in its arguments from the place `nonlinear` on; `plain`
    is the same function, which JAX differentiates with respect to the other arguments."""
    values = bind(*primals)
    # Zeros of numpy, since those of JAX may be programs of their own, which are compiled.
    changes = [_zeros(x.aval) if internals.is_zero(x) else x for x in tangents]
    known, t, rates = primals[:nonlinear], primals[nonlinear:], []
    if any(not internals.is_zero(x) for x in tangents[:nonlinear]):
        rates.append(jax.jvp(lambda *known: plain(*known, *t), known, tuple(changes[:nonlinear]))[1])
    if any(not internals.is_zero(x) for x in tangents[nonlinear:]):
        rates.append(bind(*known, *changes[nonlinear:]))
    return values, rates[0] if len(rates) == 1 else [jax.lax.add(x, y) for x, y in zip(*rates, strict=True)]


def _zeros(like):
    return np.broadcast_to(np.zeros((), like.dtype), like.shape)


def _backwards(function, like, nonlinear):
    """The transpose of a function that is linear in its last arguments, which have the shapes of `like`: it maps the
    first arguments and the cotangents of the results to the cotangents of the last arguments."""
    like = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in like]

    def pull(*args):
        known, cts = args[:nonlinear], args[nonlinear:]
        return jax.linear_transpose(lambda *t: function(*known, *t), *like)(list(cts))

    return pull


def _pulled_back(cts, *args, program, in_batches, nonlinear, **params):
    known, t = args[:nonlinear], args[nonlinear:]
    pairs = zip(cts, program.out_avals, strict=True)
    cts = [jnp.zeros(y.shape, y.dtype) if internals.is_zero(x) else x for x, y in pairs]
    if isinstance(program, Members):
        axes = (*program.axes[:nonlinear], *[0] * len(cts))
        pulling, many = Members(Transposed(program.program, nonlinear), axes, program.size), in_batches
    else:
        pulling, many = Transposed(program, nonlinear), _backwards(in_batches, program.in_avals[nonlinear:], nonlinear)
    pulled = program_p.bind(*known, *cts, program=pulling, in_batches=many, nonlinear=nonlinear, **params)
    if isinstance(program, Members):  # The cotangent of an argument that all members share is a sum over the members.
        pairs = zip(pulled, program.axes[nonlinear:], strict=True)
        pulled = [jnp.sum(x, 0) if axis is None else jnp.moveaxis(x, 0, axis) for x, axis in pairs]
    return [None] * nonlinear + [x if internals.is_unknown(y) else None for x, y in zip(pulled, t, strict=True)]


def _on_cpu(*args, program, size, alone, **_):
    values = _natively(program, args) if size <= LARGEST and alone else None
    return evaluated(program, *args) if values is None else values


def _natively(program, args) -> list | None:
    """The values of the program by machine code of our own; None where that cannot be."""
    batch, axes = (), [() for _ in args]
    while isinstance(program, Members):
        batch = (*batch, program.size)
        axes = [(*x, axis) for x, axis in zip(axes, program.axes, strict=True)]
        program = program.program
    closed = program if isinstance(program, ClosedJaxpr) else _derived(program)
    full = []
    for x, places, aval in zip(args, axes, closed.in_avals, strict=True):
        for place in places:
            x = x[..., None] if place is None else jnp.moveaxis(x, place, -1)
        shared = all(place is None for place in places)
        full.append(x.reshape(aval.shape) if shared else jnp.broadcast_to(x, (*aval.shape, *batch)))
    values = members.natively(closed, full, batch)
    if values is None:
        return None
    count = len(batch)
    return [jnp.moveaxis(x, range(x.ndim - count, x.ndim), range(count)) for x in values]


def _as_written(*args, program, **_):
    return evaluated(program, *args)


# One primitive of JAX, so that every transformation traces the program once, and so that its batching and its transpose
# can be defined: a `custom_linear_solve` with these rules was traced six times and more.
program_p = internals.new_operation(
    "native_program",
    run=_as_written,
    abstract=lambda *args, program, **_: program.out_avals,
    batched=_batched,
    pushed_forward=_pushed_forward,
    pulled_back=_pulled_back,
    lowered=_as_written,
    lowered_on_cpu=_on_cpu,
)


@functools.cache
def is_usable() -> bool:
    """Whether this version of JAX allows programs to be rewritten and compiled in this way."""
    return internals.passes(_trial)


def _trial() -> bool:
    """Whether a batch of transposes has the right shapes. Nothing is compiled."""

    def twice(known, t):
        return [known * t]

    def of(x):
        return _call(twice, twice, (x, x), (x,), size=3)[0]

    x = np.zeros((2, 3))
    program = jax.make_jaxpr(jax.vmap(lambda x: jax.vjp(of, x)[1](x)[0]))(x)
    return [v.shape for v in program.out_avals] == [x.shape]


def length(jaxpr) -> int:
    """The number of operations of the program, at any depth; a call, loop or branch is those of its programs."""
    inner = [programs_in(equation.params) for equation in jaxpr.eqns]
    return sum(sum(map(length, programs)) if programs else 1 for programs in inner)
