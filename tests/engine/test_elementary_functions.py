"""The compiler's elementary functions against long double: as near as their docstrings say, and as IEEE at the edges.

Each is computed twice: operation by operation in NumPy, where a product and a sum are rounded twice and small numbers
keep all their digits; and by XLA, which may round them once.
"""

import re
from fractions import Fraction

import jax
import numpy as np
import pytest
from jax.extend.core import Literal

from geodyn._engine.elementary.formulas import FORMULAS, SELDOM

LONG = np.longdouble
pytestmark = [
    pytest.mark.skipif(np.finfo(LONG).nmant < 63, reason="long double is no longer than double here"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
TWO_ARGUMENTS = ("atan2", "pow")
SIZES = "0 5e-324 1e-310 2.2250738585072014e-308 1e-300 1e-16 0.375 0.49999999999999994 0.5 0.75 0.9999999999999999 1"
SIZES += (
    " 1.0000000000000002 0.7853981633974483 1.5707963267948966 2 3 3.141592653589793 19 27.2 28 37 700.5 709.78 709.79"
)
SIZES += " 710.4 710.48 745.1 745.2 1023.9999 1024 1074 1075.1 26353589.25 2.7e7 9007199254740992 9007199254740994 1e22"
SIZES += " 1e301 1.7976931348623157e308 inf nan"
EDGES = np.array(SIZES.split(), float)
EDGES = np.concatenate([EDGES, -EDGES])


# ----------------------------------------------------------------------------------------------- what is right


def error_series(x):
    """erf x = 2/√π x e^(−x²) Σ (2x²)^n/(2n + 1)!!, whose terms are all positive."""
    term = total = np.ones_like(x)
    for n in range(1, 60):
        term = term * (2 * x * x) / (2 * n + 1)
        total = total + term
    return 2 / np.sqrt(4 * np.arctan(LONG(1))) * x * np.exp(-x * x) * total


def tail_fraction(x):
    """erfc x for x ≥ 1, by its continued fraction; the square in the exponent has twice the digits of x."""
    below = x
    for n in range(500, 0, -1):
        below = x + n / 2 / below
    top = x.astype(np.float32).astype(LONG)
    gauss = np.exp(-top * top) * np.exp(-(x - top) * (x + top))
    return gauss / np.sqrt(4 * np.arctan(LONG(1))) / below


def error_function(x):
    size = np.minimum(abs(x), 40)
    return np.copysign(np.where(size < 1, error_series(np.minimum(size, 1)), 1 - tail_fraction(np.maximum(size, 1))), x)


def complementary(x):
    tail = tail_fraction(np.clip(abs(x), 1, 200))
    return np.where(abs(x) < 1, 1 - error_function(x), np.where(x < 0, 2 - tail, tail)) + 0 * np.where(x == x, 0, x)


REFERENCES = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "logistic": lambda x: np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x))),
    "log": np.log,
    "log1p": np.log1p,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "pow": np.power,
    "cbrt": np.cbrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": error_function,
    "erfc": complementary,
}


def stated(name):
    """The error, in units of the last place, that the docstring allows."""
    return float(re.search(r"error ≤ ([\d.]+) ulp", FORMULAS[name].__doc__)[1])


# ------------------------------------------------------------------------------------- a program, step by step


def shifted_right(x, by):
    return (x.view(np.uint64) >> np.asarray(by).astype(np.uint64)).view(np.int64)


# What the compiler understands; no formula may use anything else.
OPERATIONS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "round": np.rint,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "gt": np.greater,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shift_left": np.left_shift,
    "shift_right_logical": shifted_right,
    "select_n": lambda which, no, yes: np.where(which, yes, no),
    "convert_element_type": lambda x, new_dtype: x.astype(new_dtype),
    "bitcast_convert_type": lambda x, new_dtype: x.view(new_dtype),
    "broadcast_in_dim": lambda x, shape: np.broadcast_to(x, shape),
}
KEPT = ("new_dtype", "shape")


def run(closed, arguments):
    """The results of a traced program, each operation by NumPy."""
    known = dict(zip(closed.jaxpr.invars, arguments)) | dict(zip(closed.jaxpr.constvars, closed.consts))

    def value(variable):
        number = variable.val if isinstance(variable, Literal) else known[variable]
        return np.asarray(number, variable.aval.dtype)

    for equation in closed.jaxpr.eqns:
        operands = [value(variable) for variable in equation.invars]
        if equation.params.get("name") in SELDOM:
            results = run(equation.params["jaxpr"], operands)
        else:
            params = {name: x for name, x in equation.params.items() if name in KEPT}
            results = [OPERATIONS[equation.primitive.name](*operands, **params)]
        known.update(zip(equation.outvars, results))
    return [known[variable] for variable in closed.jaxpr.outvars]


def step_by_step(name, arguments):
    return run(jax.make_jaxpr(FORMULAS[name])(*arguments), arguments)[0]


def by_xla(name, arguments):
    """Compiled, but not by the rules of algebra: XLA takes (1 + x) − 1 for x."""
    options = {"xla_disable_hlo_passes": "algsimp"}
    return np.asarray(jax.jit(FORMULAS[name]).lower(*arguments).compile(compiler_options=options)(*arguments))


# --------------------------------------------------------------------------------------------------- the tests


def arguments(name, n, seed):
    """Numbers of all sizes, and those where something happens: near 1, near multiples of π/2, below normal numbers."""
    rng = np.random.default_rng(seed)

    def numbers():
        sizes = [rng.uniform(-x, x, n) for x in (1, 4, 40, 760, 1100, 1e-307)]
        wide = np.exp(rng.uniform(-40, 20, n)) * rng.choice([-1, 1], n)
        any_bits = rng.integers(-(2**63), 2**63 - 1, n).view(np.float64)
        near_one = 1 + rng.uniform(-1, 1, n) * np.exp(rng.uniform(-36, 0, n))
        multiples = np.round(rng.uniform(-1, 1, n) * np.exp(rng.uniform(0, 17, n))) * (np.pi / 2)
        return np.concatenate([*sizes, wide, any_bits, near_one, multiples])

    x = numbers()
    if name not in TWO_ARGUMENTS:
        return (x,)
    if name == "atan2":
        similar = x[::2] * np.exp(rng.uniform(-3, 3, x[::2].size)), x[::2]
        return np.concatenate([similar[0], rng.permutation(x)]), np.concatenate([similar[1], numbers()])
    base = abs(x)
    moderate = rng.uniform(-750, 750, x.size) / np.log(base)
    whole = np.round(rng.uniform(-20, 20, x.size))
    return np.concatenate([base, x, x]), np.concatenate([moderate, whole, rng.permutation(x)])


def edges(name):
    return (EDGES,) if name not in TWO_ARGUMENTS else tuple(x.ravel() for x in np.meshgrid(EDGES, EDGES))


def distance(found, exact):
    """In units of the last place of the double that is nearest to the exact value."""
    nearest = exact.astype(float)
    finite = np.isfinite(nearest) & np.isfinite(found)
    unit = np.spacing(np.where(finite, abs(nearest), 1)).astype(LONG)
    alike = (found == nearest) | (np.isnan(found) & np.isnan(nearest))
    return np.where(
        finite, abs(np.where(finite, found, 0) - np.where(finite, exact, 0)) / unit, np.where(alike, 0, np.inf)
    )


def check(name, n, seed):
    given = arguments(name, n, seed)
    exact = REFERENCES[name](*(x.astype(LONG) for x in given))
    plain = distance(step_by_step(name, given), exact)
    # XLA takes what is below the normal numbers for zero.
    normal = np.all([(abs(x) >= 2.0**-1022) | (x == 0) for x in given], axis=0) & ~(abs(exact) < 2.0**-1021)
    fused = np.where(normal, distance(by_xla(name, given), exact), 0)
    for error in (plain, fused):
        worst = np.argmax(error)
        assert error[worst] <= stated(name), [x[worst] for x in given]


@pytest.mark.users
@pytest.mark.parametrize("name", FORMULAS)
def test_it_is_as_near_as_stated(name):
    assert stated(name) <= 2
    check(name, 2000, 1)


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.users
@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("seed", range(2))
def test_millions_are_as_near_as_stated(name, seed):
    check(name, 10_000 if name in ("erf", "erfc") else 100_000, 100 + seed)


@pytest.mark.parametrize("name", FORMULAS)
def test_edges_are_as_in_ieee(name):
    """Zeros with their signs, infinities, NaN, the last finite results, and the numbers below the normal ones."""
    given = edges(name)
    found, exact = step_by_step(name, given), REFERENCES[name](*(x.astype(LONG) for x in given))
    error = distance(found, exact)
    other_sign = (np.signbit(found) != np.signbit(exact)) & ~np.isnan(found)
    for wrong in (error > stated(name), other_sign):
        assert not wrong.any(), [(float(x[wrong][0]), float(found[wrong][0])) for x in given]


def pi_times(power):
    """π 2^power, cut to a whole number, by Machin's formula."""

    def arccotangent(n):
        total, term, k = 0, (1 << power + 20) // n, 0
        while term:
            total, term, k = total + (-1) ** k * (term // (2 * k + 1)), term // (n * n), k + 1
        return total

    return 4 * (4 * arccotangent(5) - arccotangent(239)) >> 20


def exact_sine(x):
    """The sine of a double, by whole numbers only: x modulo 2π and the series, with 300 digits after the point."""
    pi = Fraction(pi_times(2400), 1 << 2400)
    y = Fraction(x)
    y -= round(y / (2 * pi)) * 2 * pi
    y = Fraction(round(y * (1 << 300)), 1 << 300)
    term = total = y
    for k in range(1, 60):
        term = Fraction(round(-term * y * y / (2 * k * (2 * k + 1)) * (1 << 400)), 1 << 400)
        total += term
    return total


@pytest.mark.parametrize("x", [1e22, float.fromhex("0x1.6ac5b262ca1ffp+849"), np.finfo(float).max, 2.7e7, 1.5e300, 3.0])
def test_far_angles_have_all_digits(x):
    """Among them the double that is nearest to a multiple of π/2 (Muller, Elementary Functions, table 11.1)."""
    for name, exact in (("sin", exact_sine(x)), ("cos", 1 - 2 * exact_half_square(x))):
        found = step_by_step(name, (np.array([x, -x]),))
        assert abs(Fraction(found[0]) - exact) <= stated(name) * Fraction(np.spacing(abs(found[0])))
        assert found[1] == (-found[0] if name == "sin" else found[0])


def exact_half_square(x):
    """sin²(x/2)."""
    return exact_sine(x / 2) ** 2


def shared(*names):
    """How many different operations the functions of one scalar have together, and how many of them seldom needed."""
    closed = jax.make_jaxpr(lambda x: [FORMULAS[name](x) for name in names])(np.float64(1))
    of_result, numbers = {}, {}
    for equation in closed.jaxpr.eqns:
        operands = [x if isinstance(x, Literal) else of_result.get(x, x) for x in equation.invars]
        params = [x for name, x in equation.params.items() if name != "jaxpr"]
        number = numbers.setdefault(str((equation.primitive, operands, params)), len(numbers))
        of_result.update((x, (number, k)) for k, x in enumerate(equation.outvars))
    return len(numbers), sum("reduced_where_far" in key for key in numbers)


def test_functions_of_one_argument_share_their_reduction():
    assert shared("sin", "cos", "tan")[1] == 1
    assert shared("sin", "cos")[0] <= shared("sin")[0] + 8
    assert shared("sinh", "cosh")[0] <= shared("sinh")[0] + 4
    assert shared("erf", "erfc")[0] <= shared("erfc")[0] + 6


def test_one_number_at_a_time():
    """A scalar's program, and one whose choice is each member's own."""
    x = np.array([0.3, -2.0, 1e9, np.inf, np.nan, 5e200])
    together = step_by_step("sin", (x,))
    np.testing.assert_array_equal([step_by_step("sin", (each,)) for each in x], together)
    np.testing.assert_allclose(jax.vmap(FORMULAS["sin"])(x), together, rtol=1e-15)
