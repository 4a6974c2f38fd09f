"""Small programs as one native function instead of one kernel per operation.

A step of a small system is thousands of tiny operations, whose dispatch by XLA:CPU costs more than their arithmetic. A
call that carries the attribute `xla_cpu_small_call` is compiled into one function (XLA's own pass for small while loops
sets it). The attribute is undocumented: this is the one place that knows it, and `is_suitable` says where it is used.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

# What XLA:CPU cannot compile inside of such a function: calls into libraries, and a few operations.
UNSUITABLE = (
    "callback cholesky conv_general cum custom_call eig eigh ffi fft geqrf hessenberg householder infeed lu outfeed qr random "
    "reduce_window rng schur scatter select_and sort svd top_k triangular tridiagonal"
).split()
LARGEST = 64


def native(function: Callable, *args, size: int):
    """`function(*args)`, differentiable in both modes; one native function on the CPU if its state of `size` numbers is
    small and its operations allow it, else as it is."""
    leaves, structure = jax.tree.flatten(args)
    out = []

    def flat(*leaves):
        values, tree = jax.tree.flatten(function(*structure.unflatten(leaves)))
        out[:] = [tree]
        return values

    closed = jax.make_jaxpr(flat)(*leaves)
    if size > LARGEST or not is_suitable(closed.jaxpr):
        return function(*args)
    return out[0].unflatten(_differentiable(lambda *x: jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *x))(*leaves))


def is_suitable(jaxpr) -> bool:
    """No operation of the program, at any depth, is one that a native function may not hold."""
    for equation in jaxpr.eqns:
        if any(equation.primitive.name.startswith(name) or f"_{name}" in equation.primitive.name for name in UNSUITABLE):
            return False
    return all(is_suitable(inner) for equation in jaxpr.eqns for inner in _jaxprs(equation.params))


def _jaxprs(params):
    leaves = jax.tree.leaves(list(params.values()), is_leaf=lambda x: hasattr(x, "eqns"))
    return [x for x in leaves if hasattr(x, "eqns")]


def _differentiable(function):
    """The native call of a function of a list of arrays. Its derivative is native as well: linearised once, applied
    forwards or transposed as the solution of the square system (t, y − T t) = (b, 0), whose rules JAX knows."""

    @jax.custom_jvp
    def call(*args):
        return _call(function, args)

    def rule(primals, tangents):
        moving = [i for i, t in enumerate(tangents) if type(t) is not jax.custom_derivatives.SymbolicZero]
        linear = []

        def linearise(*args):
            moved = [args[i] for i in moving]
            values, apply, rest = jax.linearize(lambda *x: _split(function(*_replaced(args, moving, x))), *moved, has_aux=True)
            closed = jax.make_jaxpr(apply)(*moved)
            linear[:] = [closed.jaxpr]
            return [*_joined(values, rest), *closed.consts]

        values = _differentiable(linearise)(*primals)
        count = len(values) - len(linear[0].constvars)
        values, residuals = values[:count], values[count:]
        tangent = _linear_call(linear[0], residuals, [tangents[i] for i in moving])
        return values, _with_zeros(values, tangent)

    call.defjvp(rule, symbolic_zeros=True)
    return call


def _linear_call(jaxpr, residuals, t):
    apply = lambda residuals, t: jax.core.eval_jaxpr(jaxpr, residuals, *t)  # noqa: E731
    split = len(residuals)
    forwards = _differentiable(lambda *x: apply(x[:split], x[split:]))
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in t]

    def transpose(*x):
        return jax.linear_transpose(lambda *t: apply(x[:split], t), *shapes)(list(x[split:]))

    backwards = _differentiable(transpose)
    add = lambda a, b: [x + y for x, y in zip(a, b, strict=True)]  # noqa: E731

    def matvec(ty):
        return ty[0], [y - z for y, z in zip(ty[1], apply(residuals, ty[0]), strict=True)]

    def solve(_, b):
        return b[0], add(b[1], forwards(*residuals, *b[0]))

    def transpose_solve(_, b):
        return add(b[0], backwards(*residuals, *b[1])), b[1]

    # Zeros that depend on t: the transposition of the solve wants its whole right-hand side to be linear.
    nothing = sum(0 * x.reshape(-1)[:1].sum() for x in t)
    zeros = [jnp.broadcast_to(nothing, y.shape).astype(y.dtype) for y in jax.eval_shape(apply, residuals, t)]
    return jax.lax.custom_linear_solve(matvec, (list(t), zeros), solve, transpose_solve)[1]


def _call(function, args):
    """The call itself, on one packed array. XLA aborts on an argument that the program does not use, as is one that was
    a constant, or whose results nobody wants. So there is one argument, behind a barrier, and all results depend on it.
    """
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in args]

    def program(packed):
        zero = jnp.minimum((packed[0] != packed[0]).astype(jnp.int32), 0)  # XLA does not know that it is zero.
        values = function(*_unpacked(packed, shapes))
        return [x ^ (zero < 0) if x.dtype == bool else x + zero.astype(x.dtype) for x in values]

    # What is traced inside says "false", for what JAX derives from it later, and keeps, must not carry the attribute.
    packed = jax.lax.optimization_barrier(_packed(args))
    with set_xla_metadata(xla_cpu_small_call="false", inlineable="true"):
        closed = jax.make_jaxpr(jax.jit(program))(packed)
    (equation,) = closed.jaxpr.eqns
    bound = dict(zip(closed.jaxpr.constvars + closed.jaxpr.invars, [*closed.consts, packed], strict=True))
    read = lambda atom: atom.val if hasattr(atom, "val") else bound[atom]  # noqa: E731
    with set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
        values = equation.primitive.bind(*map(read, equation.invars), **equation.params)
    bound |= dict(zip(equation.outvars, values, strict=True))
    return [read(atom) for atom in closed.jaxpr.outvars]


def _packed(args):
    real = [part for x in args for part in ((x.real, x.imag) if jnp.iscomplexobj(x) else (x,))]
    wide = jnp.result_type(float)
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


def _split(values):
    """The floating values, and the others with None in the place of those."""
    floating = [jnp.issubdtype(x.dtype, jnp.inexact) for x in values]
    return [x for x, f in zip(values, floating, strict=True) if f], [
        None if f else x for x, f in zip(values, floating, strict=True)
    ]


def _joined(floating, rest):
    floating = iter(floating)
    return [next(floating) if x is None else x for x in rest]


def _replaced(args, indices, values):
    args = list(args)
    for i, x in zip(indices, values, strict=True):
        args[i] = x
    return args


def _with_zeros(values, tangent):
    """Tangents of all values from those of the floating ones."""
    rest = _split(values)[1]
    return _joined(tangent, [None if x is None else np.zeros(x.shape, jax.dtypes.float0) for x in rest])
