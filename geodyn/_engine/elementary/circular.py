"""Sine, cosine and tangent."""

from jax import Array

from geodyn._engine.elementary.angles import reduce_angle
from geodyn._engine.elementary.bits import bits_of, number_of, polynomial, where

# (sin r − r)/r³ but for its first term, that term, and (cos r − 1 + r²/2)/r⁴; highest power first, as all below.
SINE = (
    1.58969099521155010221e-10,
    -2.50507602534068634195e-08,
    2.75573137070700676789e-06,
    -1.98412698298579493134e-04,
    8.33333333332248946124e-03,
)

SINE_FIRST = -1.66666666666666324348e-01
COSINE = (
    -1.13596475577881948265e-11,
    2.08757232129817482790e-09,
    -2.75573143513906633035e-07,
    2.48015872894767294178e-05,
    -1.38888888888741095749e-03,
    4.16666666666666019037e-02,
)


def _sine_parts(r: Array, s: Array) -> tuple[Array, Array]:
    """The sine of r + s, |r| ≤ π/4: the first number less the second, which is small."""
    z = r * r
    cube = z * r
    inner = 0.5 * s - cube * polynomial(SINE, z)
    return r, (z * inner - s) - cube * SINE_FIRST


def _cosine_parts(r: Array, s: Array) -> tuple[Array, Array]:
    """The cosine of r + s, |r| ≤ π/4: the first number and the second, which is small.

    cos r = 1 − r²/2 + r⁴ P(r²), and cos(r + s) ≈ cos r − s sin r ≈ cos r − r s: s is the rounding error of r, so that
    what this leaves out, s r³/6 and less, is below 0.1 ulp.
    """
    z = r * r
    half = 0.5 * z
    first = 1 - half
    # What was lost in rounding 1 − half, exactly, since half < 1 (Dekker; as in `quick_sum_and_loss`).
    lost = (1 - first) - half
    return first, lost + (z * (z * polynomial(COSINE, z)) - r * s)


def _near(r: Array, s: Array) -> tuple[Array, Array]:
    """The sine and the cosine of r + s."""
    of_sine, of_cosine = _sine_parts(r, s), _cosine_parts(r, s)
    return of_sine[0] - of_sine[1], of_cosine[0] + of_cosine[1]


def _is_odd(n: Array) -> Array:
    return (n & 1) != 0


def _negate_by_quadrant(value: Array, n: Array) -> Array:
    """The value, negated where the second last bit of n is set."""
    return number_of(bits_of(value) ^ ((n & 2) << 62))


def sine(x: Array) -> Array:
    """sin x; error ≤ 0.8 ulp."""
    n, r, s = reduce_angle(x)
    near_sine, near_cosine = _near(r, s)
    return _negate_by_quadrant(where(_is_odd(n), near_cosine, near_sine), n)


def cosine(x: Array) -> Array:
    """cos x; error ≤ 0.8 ulp."""
    n, r, s = reduce_angle(x)
    near_sine, near_cosine = _near(r, s)
    return _negate_by_quadrant(where(_is_odd(n), near_sine, near_cosine), n + 1)


def tangent(x: Array) -> Array:
    """tan x; error ≤ 1.4 ulp."""
    n, r, s = reduce_angle(x)
    (sine_first, sine_less), (cosine_first, cosine_more) = _sine_parts(r, s), _cosine_parts(r, s)
    near_sine, near_cosine = sine_first - sine_less, cosine_first + cosine_more
    sine_lost = (sine_first - near_sine) - sine_less
    cosine_lost = (cosine_first - near_cosine) + cosine_more
    odd = _is_odd(n)
    below = where(odd, near_sine, near_cosine)
    quotient = where(odd, near_cosine, near_sine) / below
    lost = where(odd, cosine_lost, sine_lost) - quotient * where(odd, sine_lost, cosine_lost)
    # Added as a difference, which leaves the sign of zero.
    return _negate_by_quadrant(quotient - (0 - lost) / below, n << 1)
