"""Small programs as one native function instead of one kernel per operation.

A step of a small system is thousands of tiny operations, whose dispatch by XLA:CPU costs more than their arithmetic. A
call that carries the attribute `xla_cpu_small_call` is compiled into one function (XLA's own pass for small while loops
sets it). The attribute is undocumented: this is the one place that knows it, and `is_suitable` says where it is used.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import Literal

from geodyn._scalars import scalar_program

# What XLA:CPU cannot compile inside of such a function: calls into libraries, and a few operations.
UNSUITABLE = (
    *("callback", "cholesky", "conv_general", "cum", "custom_call", "eig", "ffi", "fft", "geqrf", "hessenberg"),
    *("householder", "infeed", "lu", "outfeed", "qr", "random", "reduce_window", "rng", "schur", "scatter"),
    *("select_and", "sort", "svd", "top_k", "triangular", "tridiagonal"),
)
LARGEST = 64
# Scalars run three to five times faster, and take half as long again to compile: worth it for so many turns.
FEWEST_TURNS = 50
LARGEST_PROGRAM = 20000


def native(function: Callable, *args, size: int, turns: int, in_batches: Callable | None = None):
    """`function(*args)` on arrays, where it is not differentiated: on the CPU one native function if its state of
    `size` numbers is small and its operations allow it, of scalars if it takes many `turns`; else as it is. Under
    `vmap` it is `in_batches`, the same written for many at once."""
    if in_batches is not None:
        alone = jax.custom_batching.custom_vmap(lambda *args: native(function, *args, size=size, turns=turns))
        together = lambda *args: native(in_batches, *args, size=size, turns=turns)  # noqa: E731
        alone.def_vmap(partial(_batched, together))
        return alone(*args)
    # A batch that several devices share asks all of them whether to go on: a native function cannot.
    if size > LARGEST or jax.local_device_count("cpu") > 1:
        return function(*args)
    leaves, structure = jax.tree.flatten(args)
    # What is traced inside says "false", for what JAX derives from it later, and keeps, must not carry the attribute.
    with set_xla_metadata(xla_cpu_small_call="false", inlineable="true"):
        closed, out = jax.make_jaxpr(lambda *x: function(*structure.unflatten(x)), return_shape=True)(*leaves)
        if not is_suitable(closed.jaxpr):
            return function(*args)
    values = jax.lax.platform_dependent(
        *leaves,
        cpu=lambda *leaves: _native(closed, leaves, turns),
        default=lambda *leaves: jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *leaves),
    )
    return jax.tree.unflatten(jax.tree.structure(out), values)


def _batched(function, axis_size, batched, *args):
    """The rule of a function under `vmap`: another function under `vmap`."""
    axes = jax.tree.map(lambda x: 0 if x else None, tuple(batched))
    out = jax.vmap(function, axes, axis_size=axis_size)(*args)
    return out, jax.tree.map(lambda _: True, out)


def _native(closed, leaves, turns):
    """The program as one native function, or as it is."""
    with set_xla_metadata(xla_cpu_small_call="false", inlineable="true"):
        chosen = closed
        if turns >= FEWEST_TURNS:
            scalar = jax.make_jaxpr(scalar_program(closed))(*leaves)
            chosen = scalar if length(scalar.jaxpr) <= LARGEST_PROGRAM else closed
        program, packed = _packed_program(chosen, [*chosen.consts, *leaves])
        outer = jax.make_jaxpr(jax.jit(program))(packed)
        if len(outer.jaxpr.eqns) != 1 or len(outer.jaxpr.eqns[0].invars) != 1:
            return jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *leaves)
    with set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
        return _bind(outer, packed)


def native_linear(function: Callable, known, t, *, size: int, turns: int, in_batches: Callable):
    """`function(known, t)`, linear in the arrays t, as native calls in both modes: it is posed as the solution of the
    square system (t, y − function(known, t)) = (t, 0), whose derivatives and transposition JAX knows. Under `vmap` it
    is `in_batches`, the same written for many at once."""
    apply, out = _traced_once(function, known, t)
    turns = turns // 4  # A derivative is that much longer a program.

    def backwards(function):
        return lambda known, y: jax.linear_transpose(lambda t: function(known, t), t)(y)[0]

    def matvec(ty):
        return ty[0], jax.tree.map(jnp.subtract, ty[1], apply(known, ty[0]))

    def solve(_, b):
        y = native(apply, known, b[0], size=size, turns=turns, in_batches=in_batches)
        return b[0], jax.tree.map(jnp.add, b[1], y)

    def transpose_solve(_, b):
        x = native(backwards(apply), known, b[1], size=size, turns=turns, in_batches=backwards(in_batches))
        return jax.tree.map(jnp.add, b[0], x), b[1]

    # A zero that depends on t, added to all: the transposition wants the whole right-hand side of the solve linear.
    nothing = sum(0 * x.reshape(-1)[:1].sum() for x in jax.tree.leaves(t))
    zeros = jax.tree.map(lambda y: jnp.zeros(y.shape, y.dtype), out)
    b = jax.tree.map(lambda x: x + nothing.astype(x.dtype), (t, zeros))
    return jax.lax.custom_linear_solve(matvec, b, solve, transpose_solve)[1]


def _traced_once(function, *args):
    """The function, traced for these arguments, and the shape of its result."""
    closed, out = jax.make_jaxpr(function, return_shape=True)(*args)
    structure = jax.tree.structure(out)

    def traced(*args):
        return structure.unflatten(jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *jax.tree.leaves(args)))

    return traced, out


def is_suitable(jaxpr) -> bool:
    """No operation of the program, at any depth, is one that a native function may not hold."""
    names = (equation.primitive.name for equation in jaxpr.eqns)
    if any(name.startswith(bad) or f"_{bad}" in name for name in names for bad in UNSUITABLE):
        return False
    return all(is_suitable(inner) for equation in jaxpr.eqns for inner in _jaxprs(equation.params))


def length(jaxpr) -> int:
    """Operations of a program, those inside of others counted once."""
    inner = [_jaxprs(equation.params) for equation in jaxpr.eqns]
    return sum(sum(map(length, programs)) if programs else 1 for programs in inner)


def _jaxprs(params):
    """The programs among the parameters of an operation, closed or open."""
    opened = [getattr(x, "jaxpr", x) for x in jax.tree.leaves(list(params.values()), is_leaf=_is_program)]
    return [x for x in opened if isinstance(getattr(x, "eqns", None), list)]


def _is_program(x):
    return getattr(x, "eqns", None) is not None or getattr(x, "jaxpr", None) is not None


def _packed_program(closed, args):  # args: its constants, then its arguments
    """The program as a function of one packed array. XLA aborts on an argument that such a call does not use, as is one
    that was a constant, or whose results nobody wants: so there is one, behind a barrier, and all results depend on it.
    """
    shapes = [jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in args]

    def program(packed):
        zero = jnp.minimum((packed[0] != packed[0]).astype(jnp.int32), 0)  # XLA does not know that it is zero.
        values = _unpacked(packed, shapes)
        values = jax.core.eval_jaxpr(closed.jaxpr, values[: len(closed.consts)], *values[len(closed.consts) :])
        return [x ^ (zero < 0) if x.dtype == bool else x + zero.astype(x.dtype) for x in values]

    return program, jax.lax.optimization_barrier(_packed(args))


def _packed(args):
    wide = jnp.result_type(float)
    real = [part for x in args for part in ((x.real, x.imag) if jnp.iscomplexobj(x) else (x,))]
    return jnp.concatenate([jnp.zeros(1, wide), *(x.reshape(-1).astype(wide) for x in real)])


def _unpacked(packed, shapes):
    args, begin = [], 1
    for shape in shapes:
        parts = []
        for _ in range(2 if jnp.issubdtype(shape.dtype, jnp.complexfloating) else 1):
            parts.append(packed[begin : begin + shape.size].reshape(shape.shape))
            begin += shape.size
        args.append((jax.lax.complex(*parts) if len(parts) == 2 else parts[0]).astype(shape.dtype))
    return args


def _bind(outer, packed):
    """The one call of which a program of a jitted function consists, in the present context instead of its own."""
    (call,) = outer.jaxpr.eqns
    bound = dict(zip(outer.jaxpr.constvars + outer.jaxpr.invars, [*outer.consts, packed], strict=True))
    read = lambda atom: atom.val if isinstance(atom, Literal) else bound[atom]  # noqa: E731
    values = call.primitive.bind(*map(read, call.invars), **call.params)
    bound |= dict(zip(call.outvars, values, strict=True))
    return [read(atom) for atom in outer.jaxpr.outvars]
