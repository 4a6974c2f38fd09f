"""The inverse circular functions."""

import numpy as np
from jax import Array, lax

from geodyn._engine.elementary.angles import PI_2, PI_2_REST
from geodyn._engine.elementary.bits import bits_of, polynomial, where, with_sign

# (arctan(t)/t − 1)/z with z = t², t ≤ 3/8
ARCTANGENT = (
    0.02582566777000939,
    -0.04687302407608756,
    0.05792705503202853,
    -0.06658012732177329,
    0.0769178384129884,
    -0.0909088963804024,
    0.11111110694128454,
    -0.14285714281158882,
    0.19999999999980642,
    -0.3333333333333332,
)

# (arcsin(t)/t − 1)/z with z = t², t ≤ 1/2
ARCSINE = (
    0.028757851367421566,
    -0.014851887071247204,
    0.01740087944269402,
    0.005457506718640358,
    0.01032281435018578,
    0.011479177415184906,
    0.013971212973552933,
    0.017352392720869973,
    0.02237217294214989,
    0.030381944138531247,
    0.04464285714635543,
    0.07499999999998433,
    0.16666666666666669,
)

# arctan ½ and its rounding error
ATAN_HALF = float.fromhex("0x1.dac670561bb4fp-2")
ATAN_HALF_REST = float.fromhex("0x1.a2b7f222f65e2p-56")


def _first_octant(n: Array, d: Array) -> Array:
    """arctan(n/d) for 0 ≤ n ≤ d: that of 0, 1/2 or 1, and of the quotient that is left."""
    above, far_above = n > 0.375 * d, n > 0.75 * d
    numerator = where(far_above, n - d, where(above, n - 0.5 * d, n))
    denominator = where(far_above, n + d, where(above, d + 0.5 * n, d))
    base = where(far_above, PI_2 / 2, where(above, ATAN_HALF, 0.0))
    base_rest = where(far_above, PI_2_REST / 2, where(above, ATAN_HALF_REST, 0.0))
    t = numerator / denominator
    z = t * t
    return base + (t + (t * (z * polynomial(ARCTANGENT, z)) + base_rest))


def _within(low: Array, size: Array, most: float, rest: float) -> Array:
    """most − size where the truth value is set, else the size; `rest` is the constant's rounding error."""
    return where(low, most - (size - rest), size)


def arctangent(x: Array) -> Array:
    """arctan x; error ≤ 1.35 ulp."""
    size = abs(x)
    steep = size > 1
    angle = _first_octant(where(steep, 1.0, size), where(steep, size, 1.0))
    return with_sign(_within(steep, angle, PI_2, PI_2_REST), x)


def arctangent_of_two(y: Array, x: Array) -> Array:
    """The angle of the point (x, y); error ≤ 1.55 ulp."""
    width, height = abs(x), abs(y)
    steep = height > width
    less, more = where(steep, width, height), where(steep, height, width)
    # No sum overflows and each half is a number; of two infinities, or two zeros, the quotient is known.
    scale = where(more > 2.0**1000, 2.0**-100, where(more < 2.0**-900, 2.0**100, 1.0))
    less = where(less == np.inf, 1.0, less * scale)
    more = where((more == np.inf) & (less == 1), 1.0, where(more == 0, 1.0, more * scale))
    angle = _within(steep, _first_octant(less, more), PI_2, PI_2_REST)
    left = bits_of(x) < 0
    return with_sign(_within(left, angle, 2 * PI_2, 2 * PI_2_REST), y)


def _arcsine_parts(x: Array) -> tuple[Array, Array, Array, Array]:
    """(|x| < 1/2, t, arcsin(t) − t, |x|), where t is |x| or, where that is large, √((1 − |x|)/2)."""
    size = abs(x)
    small = size < 0.5
    z = where(small, size * size, 0.5 - 0.5 * size)
    t = where(small, size, lax.sqrt(z))
    return small, t, t * (z * polynomial(ARCSINE, z)), size


def arcsine(x: Array) -> Array:
    """arcsin x; error ≤ 1.3 ulp."""
    small, t, more, _ = _arcsine_parts(x)
    of_large = PI_2 / 2 - ((2 * more - PI_2_REST) - (PI_2 / 2 - 2 * t))
    return with_sign(where(small, t + more, of_large), x)


def arccosine(x: Array) -> Array:
    """arccos x; error ≤ 1.15 ulp."""
    small, t, more, _ = _arcsine_parts(x)
    negative = x < 0
    of_small = PI_2 - (x - (PI_2_REST - where(negative, -more, more)))
    of_large = where(negative, 2 * (PI_2 - (t + (more - PI_2_REST))), 2 * (t + more))
    return where(small, of_small, of_large)
