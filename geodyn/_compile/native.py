"""Small programs compiled into one native function, instead of one kernel per operation.

A step of a small system is thousands of tiny operations, whose dispatch by XLA:CPU costs more than their arithmetic. A
call that carries the attribute `xla_cpu_small_call` is compiled into one function (XLA's own pass for small while loops
sets it); `is_suitable` says which programs can be. The parts of JAX that this needs are in `internals.py`.
"""

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._compile import internals
from geodyn._compile.internals import ClosedJaxpr, Literal, programs_in
from geodyn._compile.llvm import members
from geodyn._compile.scalars import scalar_program

# Operations that XLA:CPU cannot compile inside of such a function: calls into libraries, and a few others.
UNSUITABLE = (
    *("callback", "cholesky", "conv_general", "cum", "custom_call", "eig", "ffi", "fft", "geqrf", "hessenberg"),
    *("householder", "infeed", "lu", "outfeed", "qr", "random", "reduce_window", "rng", "schur", "scatter"),
    *("select_and", "sort", "svd", "top_k", "triangular", "tridiagonal"),
)
LARGEST = 64
# Compiling one function takes more than twice as long if it is twice as long. With more operations on arrays than
# this, as in motions with several gaps, it takes up to ten seconds longer than compiling their kernels, and saves
# milliseconds in each run. With more operations on scalars it takes minutes.
MOST_OPERATIONS = 4_000
MOST_OF_SCALARS = 10_000


def native(function: Callable, *args, size: int, in_batches: Callable | None = None, small: bool = True):
    """`function(*args)` on arrays. On the CPU it is one native function if it is `small`, if its state has few numbers
    (`size`), and if its operations allow it; else it runs as it is. Under `vmap` it is `in_batches`, the same function
    written for many members at once. Its derivatives are those of the plain program."""
    if size > LARGEST or not is_usable():
        return function(*args)
    return _call(function, in_batches or function, args, args, size=size, small=small)


def native_linear(function: Callable, known, t, *, size: int, in_batches: Callable, small: bool = True):
    """`function(known, t)`, linear in the arrays t, as a native function (see `native`), also when it is differentiated
    in either mode."""
    if not is_usable():
        return function(known, t)
    return _call(function, in_batches, (known, t), (known,), size=size, small=small)


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
    # The attribute is "false" inside: programs that JAX derives from this one later, and caches, must not have it.
    with internals.set_xla_metadata(xla_cpu_small_call="false", inlineable="true"):
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
    return values, rates[0] if len(rates) == 1 else [x + y for x, y in zip(*rates, strict=True)]


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


def _on_cpu(*args, program, size, small, alone, **_):
    # If several devices share a batch, a loop must ask all of them whether to go on, which a native function cannot do.
    if size <= LARGEST and alone:
        values = _natively(program, args)
        if values is not None:
            return values
    is_one = alone and not isinstance(program, Members)
    if not (small and size <= LARGEST and is_one and internals.HAS_SMALL_CALLS):
        return evaluated(program, *args)
    return small_call(partial(evaluated, program), MOST_OPERATIONS, *args)


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
    """Whether a small program of scalars gives the right numbers. Nothing is compiled: numpy does the arithmetic."""
    x = np.arange(6.0).reshape(2, 3)

    def moves(x):
        return (x.T[1:] @ x - jnp.pad(x, ((0, 0), (1, 0)))[:, :3], jnp.where(x > 2, x, -x)[::-1].sum(0))

    got = scalar_program(jax.make_jaxpr(moves)(x))(x)
    want = x.T[1:] @ x - np.array([[0, 0, 1], [0, 3, 4]]), np.array([3, 3, 3])
    return all(np.allclose(*pair) for pair in zip(got, want, strict=True))


def is_suitable(jaxpr) -> bool:
    """Whether XLA can compile all operations of the program, at any depth, inside of one native function."""
    names = (equation.primitive.name for equation in jaxpr.eqns)
    if any(name.startswith(bad) or f"_{bad}" in name for name in names for bad in UNSUITABLE):
        return False
    return all(is_suitable(inner) for equation in jaxpr.eqns for inner in programs_in(equation.params))


def length(jaxpr) -> int:
    """The number of operations of the program, at any depth; a call, loop or branch is those of its programs."""
    inner = [programs_in(equation.params) for equation in jaxpr.eqns]
    return sum(sum(map(length, programs)) if programs else 1 for programs in inner)


def is_arithmetic(function: Callable, *args) -> bool:
    """Whether a function of arrays is arithmetic on few numbers, which is faster as one native function. It is not if
    it has loops or branches of its own, which take five times as long to compile, or matrix products as large as those
    of a neural network, whose program on scalars takes ten times as long to compile."""
    return is_usable() and _is_arithmetic(jax.make_jaxpr(function)(*args).jaxpr)


def _is_arithmetic(jaxpr) -> bool:
    for equation in jaxpr.eqns:
        name, sizes = equation.primitive.name, [math.prod(v.aval.shape) for v in equation.invars]
        if name in ("while", "scan", "cond", "call_hi_primitive") or (
            name == "dot_general" and max(sizes) > 2 * LARGEST
        ):
            return False
        if not all(map(_is_arithmetic, programs_in(equation.params))):
            return False
    return True


def _packed_program(closed, args):  # args: its constants, then its arguments
    """The program as a function of one packed array. XLA aborts if such a call does not use an argument, which happens
    if the argument was a constant, or if results that depend on it are not wanted. So there is a single argument,
    behind a barrier, and all results depend on it."""
    shapes = [jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in args]

    def program(packed):
        zero = jnp.minimum((packed[0] != packed[0]).astype(jnp.int32), 0)  # XLA does not know that it is zero.
        values = _unpacked(packed, shapes)
        values = internals.eval_jaxpr(closed.jaxpr, values[: len(closed.consts)], *values[len(closed.consts) :])
        # In reverse order, for the same reason as in `Graph._compute`.
        return [x ^ (zero < 0) if x.dtype == bool else x + zero.astype(x.dtype) for x in values[::-1]]

    return program, jax.lax.optimization_barrier(_packed(args))


def _packed(args):
    """All numbers as one array of floats. Integers are stored by their bits, since a float may not represent them."""
    parts = [jnp.zeros(1)]
    for x in map(jnp.asarray, args):
        for part in (x.real, x.imag) if jnp.iscomplexobj(x) else (x,):
            wide = part.reshape(-1).astype(_wide(part.dtype))
            parts.append(jax.lax.bitcast_convert_type(wide, parts[0].dtype))
    return jnp.concatenate(parts)


def _wide(dtype):
    """The data type of the same kind (integer, float, …) that has as many bits as a float."""
    kind = next(
        k for k in (jnp.unsignedinteger, jnp.signedinteger, jnp.floating, jnp.bool_) if jnp.issubdtype(dtype, k)
    )
    return jnp.result_type({jnp.unsignedinteger: jnp.uint, jnp.signedinteger: int}.get(kind, float))


def _unpacked(packed, shapes):
    args, begin = [], 1
    for shape in shapes:
        is_complex, parts = jnp.issubdtype(shape.dtype, jnp.complexfloating), []
        for _ in range(2 if is_complex else 1):
            part = packed[begin : begin + shape.size].reshape(shape.shape)
            parts.append(part if is_complex else jax.lax.bitcast_convert_type(part, _wide(shape.dtype)))
            begin += shape.size
        args.append((jax.lax.complex(*parts) if is_complex else parts[0]).astype(shape.dtype))
    return args


def _bind_outer(outer, packed):
    """Binds the one call of which `outer`, the program of a jitted function, consists, in the present context instead
    of that in which it was traced: the call gets the attributes that are set now."""
    (call,) = outer.jaxpr.eqns
    bound = dict(zip(outer.jaxpr.constvars + outer.jaxpr.invars, [*outer.consts, packed], strict=True))

    def read(atom):
        return atom.val if isinstance(atom, Literal) else bound[atom]

    values = call.primitive.bind(*map(read, call.invars), **call.params)
    bound |= dict(zip(call.outvars, values, strict=True))
    return [read(atom) for atom in outer.jaxpr.outvars][::-1]


def small_call(function: Callable, most: int, *args):
    """`function(*args)`, a list of arrays, as one native function where its operations allow it and are not more than
    `most`."""
    closed = _traced(function, [jax.typeof(x) for x in args])
    if not is_suitable(closed.jaxpr) or length(closed.jaxpr) > most:
        return function(*args)
    with internals.set_xla_metadata(xla_cpu_small_call="false", inlineable="true"):
        program, packed = _packed_program(closed, [*closed.consts, *args])
        outer = jax.make_jaxpr(jax.jit(program))(packed)
    if len(outer.jaxpr.eqns) != 1 or len(outer.jaxpr.eqns[0].invars) != 1:
        return function(*args)
    with internals.set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
        return _bind_outer(outer, packed)
