"""Elementary functions in double precision, written with operations that XLA:CPU vectorises.

XLA:CPU itself calls the C library once for each number.

Argument reduction after Cody & Waite, Software Manual for the Elementary Functions (1980), with the parts of π/2 short
enough that their multiples are exact up to |x| = 3e9; polynomials of Sun Microsystems' fdlibm (k_sin.c, k_cos.c).
Errors of sine and cosine are below one unit in the last place up to 3e9; beyond, the library is called after all.
"""

import jax.numpy as jnp
import numpy as np
from jax import lax

from geodyn._compile.expressions import FOLDED, Graph, Node

BOOL, DOUBLE = np.dtype(bool), np.dtype(np.float64)
FARTHEST = 3e9
HALF_PI = (
    *(float.fromhex(x) for x in ("0x1.921fbp+0", "0x1.5110bp-22", "0x1.1846980000000p-44", "0x1.31988p-69")),
    float.fromhex("0x1.1701b839a2520p-88"),
)
SINE = (1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06)
SINE += (-1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01)
COSINE = (-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07)
COSINE += (2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02)


class Formula:
    """A number of a graph with Python's arithmetic operators."""

    def __init__(self, graph: Graph, scalar):
        self.graph, self.scalar = graph, scalar

    def _with(self, function, *others):
        other = [x.scalar if isinstance(x, Formula) else np.float64(x) for x in others]
        return Formula(self.graph, function(*other))

    def __add__(self, x):
        return self._with(lambda b: self.graph.add(self.scalar, b), x)

    def __sub__(self, x):
        return self._with(lambda b: self.graph.subtract(self.scalar, b), x)

    def __rsub__(self, x):
        return self._with(lambda a: self.graph.subtract(a, self.scalar), x)

    def __mul__(self, x):
        return self._with(lambda b: self.graph.multiply(self.scalar, b), x)

    def __truediv__(self, x):
        return self._with(lambda b: self.graph.divide(self.scalar, b), x)

    def __rtruediv__(self, x):
        return self._with(lambda a: self.graph.divide(a, self.scalar), x)

    __radd__, __rmul__ = __add__, __mul__

    def apply(self, primitive, *others, dtype=DOUBLE, **params):
        """The result of a JAX primitive applied to this number and others."""
        return self._with(lambda *b: self.graph.apply(primitive, params, (self.scalar, *b), dtype), *others)

    def where(self, yes, no):
        """`yes` where this truth value holds, else `no`."""
        return self._with(lambda a, b: self.graph.select(self.scalar, b, a), yes, no)


def _polynomial(coefficients, z):
    total = coefficients[0]
    for c in coefficients[1:]:
        total = total * z + c
    return total


def _quadrant(x):
    """(k mod 4, r, s) with x = k π/2 + r + s, |r| ≤ π/4, s the rounding error of r."""
    k = (x * (2 / np.pi)).apply(lax.round_p, rounding_method=lax.RoundingMethod.TO_NEAREST_EVEN)
    first, second, third, fourth, fifth = (k * part for part in HALF_PI)
    near = x - first - second
    high = near - third
    low = ((near - high) - third) - (fourth + fifth)
    r = high + low
    return k - 4 * (k * 0.25).apply(lax.floor_p), r, (high - r) + low


def _sine_and_cosine(r, s):
    """The sine and the cosine of r + s, for |r| ≤ π/4."""
    z = r * r
    cube = z * r
    inner = _polynomial(SINE[:-1], z)
    sine = r - ((z * (0.5 * s - cube * inner) - s) - cube * SINE[-1])
    half = 0.5 * z
    one = 1 - half
    cosine = one + (((1 - one) - half) + (z * (z * _polynomial(COSINE, z)) - r * s))
    return sine, cosine


def _circular(graph, x):
    """(sine of the reduced argument, its cosine, the function either(i, j): whether the quadrant is i or j)."""
    quadrant, r, rest = _quadrant(Formula(graph, x))
    is_number = [quadrant.apply(lax.eq_p, number, dtype=BOOL) for number in range(4)]

    def either(i, j):
        return is_number[i].apply(lax.or_p, is_number[j], dtype=BOOL)

    return *_sine_and_cosine(r, rest), either


def _sine(graph, x):
    sine, cosine, either = _circular(graph, x)
    value = either(1, 3).where(cosine, sine)
    return _unless_far(graph, lax.sin_p, x, either(2, 3).where(0 - value, value).scalar)


def _cosine(graph, x):
    sine, cosine, either = _circular(graph, x)
    value = either(1, 3).where(sine, cosine)
    return _unless_far(graph, lax.cos_p, x, either(1, 2).where(0 - value, value).scalar)


def _unless_far(graph, function, x, near):
    """The value `near`, or that of JAX's function if x is too large for the formula. It is a loop of at most one turn,
    since a batch would compute both branches of a `cond`."""
    far = Formula(graph, x).apply(lax.abs_p).apply(lax.gt_p, FARTHEST, dtype=BOOL).scalar

    def mend(far, x, near):
        any_far = jnp.any(far)

        def turn(state):
            return (False & state[0], jnp.where(far, function.bind(x, accuracy=None), state[1]))

        return lax.while_loop(lambda state: state[0], turn, (any_far, near))[1]

    return graph.node(f"{function.name}, far", (far, x, near), DOUBLE, mend)


def _exponential(graph, x):
    """(e^y − 1, whether |x| is large). Here y is |x|, or |x| − 1 if |x| is so large that e^|x| could overflow."""
    size = Formula(graph, x).apply(lax.abs_p)
    large = size.apply(lax.gt_p, 700, dtype=BOOL)
    return large.where(size - 1, size).apply(lax.expm1_p, accuracy=None), large


def _hyperbolic_sine(graph, x):
    less, large = _exponential(graph, x)
    half = large.where((0.5 * np.e) * less, 0.5 * (less + less / (less + 1)))
    return Formula(graph, x).apply(lax.lt_p, 0, dtype=BOOL).where(0 - half, half).scalar


def _hyperbolic_cosine(graph, x):
    less, large = _exponential(graph, x)
    return large.where((0.5 * np.e) * less, 0.5 * (less + 1) + 0.5 / (less + 1)).scalar


def _reciprocal_root(graph, x):
    if not isinstance(x, Node):
        return 1 / np.sqrt(x)
    return (1 / Formula(graph, x).apply(lax.sqrt_p, accuracy=None)).scalar


def _or_constant(name, formula):
    """The formula, or the value where the argument is known now."""

    def of(graph, x):
        return formula(graph, x) if isinstance(x, Node) or name not in FOLDED else FOLDED[name](x)

    return of


_FORMULAS = {"sin": _sine, "cos": _cosine, "sinh": _hyperbolic_sine, "cosh": _hyperbolic_cosine}
_FORMULAS |= {"rsqrt": _reciprocal_root}
# The functions of (graph, number) by the names of the operations.
ELEMENTARY = {name: _or_constant(name, formula) for name, formula in _FORMULAS.items()}
