"""Random programs by our compiler: what JAX computes, with the same integers, NaN and
infinities. Floats are small whole numbers, so that sums and products are exact in any order; one function of the list
comes last, to a few units in the last place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from geodyn._engine.cells import has_rule
from geodyn._engine.internals import inner_program
from geodyn._engine.program.members import natively

pytestmark = [pytest.mark.users, pytest.mark.float32, pytest.mark.newest]

UNARY = {
    "neg": lambda x: -x,
    "abs": jnp.abs,
    "sign": jnp.sign,
    "square": jnp.square,
    "cube": lambda x: x**3,
    "times zero": lambda x: 0 * x,
    "times zeros and ones": lambda x: x * np.array([1, 0, 3], x.dtype)[None],
    "plus nothing": lambda x: x + np.zeros((), x.dtype),
    "rows": lambda x: x[::-1],
    "turned": lambda x: jnp.roll(x, 1, 1),
    "sums": lambda x: jnp.broadcast_to(x.sum(0), x.shape),
    "largest": lambda x: jnp.broadcast_to(x.max(1)[:, None], x.shape),
    "smallest": lambda x: jnp.broadcast_to(x.min(0), x.shape),
    "Gram": lambda x: x @ x.T @ x,
    "through a diagonal": lambda x: x @ jnp.diag(x[0]),
    "stacked": lambda x: jnp.stack([x[1], x[0]]),
    "unstacked": lambda x: jnp.stack([a + b for a, b in zip(*x)] * 2).reshape(x.shape),
    "numbers unstacked": lambda x: jnp.stack([*x[1], *x[0]]).reshape(x.shape),
    "running sum of numbers": lambda x: jnp.cumsum(x.reshape(-1)).reshape(x.shape),
    "tiled": lambda x: jnp.tile(x[:1], (2, 1)),
    "running sums": lambda x: jnp.cumsum(x, 1),
    "running sums back": lambda x: jax.lax.cumsum(x, 0, reverse=True),
    "product": lambda x: jnp.broadcast_to(x.prod(0), x.shape),
    "loop": lambda x: jax.lax.fori_loop(0, 2, lambda _, y: y + x, x),
    "loop until": lambda x: jax.lax.while_loop(lambda y: jnp.any(jnp.abs(y) < 4), lambda y: 2 * jnp.abs(y) + 1, x),
    "scan": lambda x: jax.lax.scan(lambda c, row: (c + row, c * row), x[0], x)[1],
    "branch": lambda x: jax.lax.cond(x[0, 0] > 1, lambda x: x + 1, lambda x: x * x[1, 1], x),
}
BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "where": lambda x, y: jnp.where(x < y, x, y + 1),
    "where not": lambda x, y: jnp.where(~(x <= y) | (x == 0), x, -y),
    "rem": lambda x, y: jax.lax.rem(x, y),
    "outer": lambda x, y: x[:1] * y[1:, :1] + x,
}
WHOLE = {"div": lambda x, y: jax.lax.div(x, y), "mod": jnp.mod, "xor": lambda x, y: x ^ y, "and": lambda x, y: x & y}
LAST = (
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "exp",
    "expm1",
    "log",
    "log1p",
    "sqrt",
    "cbrt",
    "arctan",
    "arcsinh",
)
FLOATS = [0.0, 1.0, -1.0, 2.0, 3.0, -5.0, 12.0, np.inf, -np.inf, np.nan]
LARGE = [*FLOATS, 709.9, -710.3, 711.0, 89.1, 3.1e9, 1e22]
WHOLES = [0, 1, -1, 2, 7, -9, 2**30, 2**53 + 1, -(2**63)]
COUNTS = [0, 1, 2, 7, 2**31, 2**32 - 1]

TYPES = {"float64": FLOATS, "float32": FLOATS, "int64": WHOLES, "uint32": COUNTS}


@st.composite
def programs(draw, dtype):
    """(a function of two arrays [2, 3], these, the name of its last operation): each step of it has one or two of what
    came before."""
    whole = np.issubdtype(dtype, np.integer)
    binary = BINARY | (WHOLE if whole else {})
    names = st.sampled_from([*UNARY, *binary])
    steps = draw(st.lists(st.tuples(names, st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=6))
    last = None if whole else draw(st.sampled_from([None, *LAST]))
    values = st.sampled_from(TYPES[dtype] if last is None or len(steps) > 1 else LARGE)
    x, y = (np.array(draw(st.lists(values, min_size=6, max_size=6))).reshape(2, 3) for _ in range(2))
    if whole:  # Division by zero is undefined.
        y = np.where(y == 0, 1, y)
        steps = [(name, i, 1 if name in ("div", "mod", "rem") else j) for name, i, j in steps if name != "loop until"]

    def function(x, y):
        known = [x, y]
        for name, i, j in steps:
            i, j = (k % len(known) for k in (i, j))
            known.append(UNARY[name](known[i]) if name in UNARY else binary[name](known[i], known[j]))
        result = known[-1]
        return known[2:] if last is None else [*known[2:], getattr(jnp, last)(result)]

    return function, x.astype(dtype), y.astype(dtype), last


def units_off(got, want):
    """The largest difference, in roundings of what is wanted: 0 where both are equal, NaN, or infinite alike; any at
    all between integers is infinite."""
    if np.issubdtype(want.dtype, np.integer):
        return 0.0 if np.array_equal(got, want) else np.inf
    got, want = np.asarray(got), np.asarray(want)
    same = (got == want) | np.isnan(got) & np.isnan(want)
    with np.errstate(all="ignore"):
        off = np.abs(got - want) / (np.finfo(want.dtype).eps * np.abs(want))
    return np.max(np.where(same, 0, np.nan_to_num(off, nan=np.inf)))


@pytest.mark.long
@pytest.mark.parametrize("dtype", TYPES)
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_programs(dtype, data):
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        return
    function, x, y, last = data.draw(programs(dtype))
    want = jax.jit(function)(x, y)
    if want[-1].dtype == float and last is not None:  # XLA's sinh is off by hundreds of units where it is large.
        with np.errstate(all="ignore"):
            want[-1] = jnp.asarray(getattr(np, last)(np.asarray(want[-2])))
    closed = jax.make_jaxpr(function)(x, y)
    alone = jax.jit(lambda x, y: natively(closed, [x, y], ()))(x, y)
    together = jax.jit(lambda x, y: natively(closed, [x, y], (3,)))(np.stack([y, x, y], -1), np.stack([y] * 3, -1))
    together = [z[..., 1] for z in together]
    types = [(a.dtype, a.shape) for a in want]
    assert [(a.dtype, a.shape) for a in alone] == types == [(a.dtype, a.shape) for a in together]
    for a, b, c in zip(alone, together, want, strict=True):  # Only the last functions may be off at all.
        assert units_off(a, c) <= 8 and units_off(b, c) <= 8


def is_arithmetic(jaxpr) -> bool:
    """Whether every operation of the program has a rule for single numbers."""
    inner = [inner_program(equation) for equation in jaxpr.eqns]
    pairs = zip(jaxpr.eqns, inner, strict=True)
    return all(has_rule(equation) if program is None else is_arithmetic(program.jaxpr) for equation, program in pairs)


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_each_operation(name):
    """Each operation of the list, on whole numbers: the numbers of JAX, and all but loops and choices have a rule, on
    any version of JAX. (JAX 0.12 made `stack` an operation of its own, and silently most bodies ran as arrays.)"""
    function = (UNARY | BINARY)[name]
    args = [np.array([[1.0, -2.0, 3.0], [5.0, 0.5, -7.0]]), np.array([[2.0, 4.0, -1.0], [3.0, 8.0, 0.25]])]
    args = args[: 1 if name in UNARY else 2]
    closed = jax.make_jaxpr(function)(*args)
    alone = jax.jit(lambda *x: natively(closed, x, ()))(*args)
    for got, want in zip(alone, jax.tree.leaves(jax.jit(function)(*args)), strict=True):
        np.testing.assert_array_equal(got, want)
    assert is_arithmetic(closed.jaxpr) or name in ("loop", "loop until", "scan", "branch")


@pytest.mark.parametrize("name", LAST)
def test_functions_have_rules(name):
    """Each function of one number and its second derivative are arithmetic, on any version of JAX."""
    function = getattr(jnp, name)
    closed = jax.make_jaxpr(lambda x: (function(x), jax.grad(jax.grad(function))(x)))(0.5)
    assert is_arithmetic(closed.jaxpr)
