"""Powers and roots."""

import numpy as np
from jax import Array, lax

from geodyn._engine.elementary.bits import (
    INTEGER_BITS,
    INTEGERS,
    LEAST_NORMAL,
    MANTISSA,
    ONE,
    SIGN,
    at_least,
    at_most,
    bits_of,
    first_half,
    nearest_whole,
    number_of,
    polynomial,
    where,
    with_sign,
)
from geodyn._engine.elementary.exponentials import EXPONENTIAL, times_two_to
from geodyn._engine.elementary.logarithms import binary_of_any

# (3 artanh(s)/s − 3 − z)/z² with z = s², √z ≤ 3 − √8
LOGARITHM_TAIL = (
    0.1758553547645022,
    0.17559281094277465,
    0.20002209782895375,
    0.23076892393348564,
    0.2727272750356127,
    0.33333333332481746,
    0.42857142857144054,
    0.6,
)

# ∛m for 1 ≤ m ≤ 2
CUBE_ROOT = (
    0.005072953325277491,
    -0.04831832068166114,
    0.19665479701360078,
    -0.4602977267696209,
    0.8317431442479309,
    0.47514693623890253,
)

# log 2: whole, its first 26 bits and the rest
LOG_2_WHOLE = float.fromhex("0x1.62e42fefa39efp-1")
LOG_2_TOP = float.fromhex("0x1.62e42f8p-1")
LOG_2_BELOW = float.fromhex("0x1.be8e7bcd5e4f2p-27")
# 2/(3 log 2): whole, its first 26 bits and the rest
UNIT = float.fromhex("0x1.ec709dc3a03fdp-1")
UNIT_TOP = float.fromhex("0x1.ec709d8p-1")
UNIT_REST = float.fromhex("0x1.0e80ff5d27f05p-27")


def power(x: Array, y: Array) -> Array:
    """x^y as in IEEE 754: NaN for x < 0 but where y is whole; x^0 = 1^y = 1; error ≤ 1.3 ulp."""
    size = abs(x)
    exponent = at_most(at_least(y, -(2.0**70)), 2.0**70)
    high, low = _binary_logarithm(size)
    y_top = first_half(exponent)
    z, lost = y_top * high, (exponent - y_top) * high + exponent * low
    total = z + lost
    outside = abs(total) > 1100
    z = where(outside, at_most(at_least(total, -1100.0), 1100.0), z)
    lost = where(outside, 0.0, lost)
    value = _power_of_two_of_sum(z, lost)

    whole = lax.floor(y) == y
    odd = whole & (lax.floor(0.5 * y) != 0.5 * y)
    grows = (y > 0) == (size > 1)
    value = where((size == 0) | (size == np.inf), where(grows, np.inf, 0.0), value)
    value = where((x < 0) & ~whole & (size < np.inf), np.nan, value)
    value = number_of(lax.select(odd, bits_of(value) | (bits_of(x) & SIGN), bits_of(value)))
    value = where((x != x) | (y != y), np.nan, value)
    return where((y == 0) | (x == 1), 1.0, value)


def _binary_logarithm(x: Array) -> tuple[Array, Array]:
    """log₂ x of a positive number as a sum, the first with 26 bits; relative error about 2^−66 (fdlibm's e_pow.c)."""
    k, m = binary_of_any(x)
    f, d = m - 1, m + 1
    inverse = 1 / d
    s = f * inverse
    s_top, d_top = first_half(s), first_half(d)
    s_rest = inverse * ((f - s_top * d_top) - s_top * (m - (d_top - 1)))
    # log m = 2/3 s (3 + s² + z² P(z)), z = s²
    z = s * s
    more = z * z * polynomial(LOGARITHM_TAIL, z) + s_rest * (s_top + s)
    square = s_top * s_top
    sum_top = first_half(3 + square + more)
    sum_rest = more - ((sum_top - 3) - square)
    u = s_top * sum_top
    v = s_rest * sum_top + sum_rest * s
    of_m = first_half(u + v)
    of_m_rest = v - (of_m - u)
    a = UNIT_TOP * of_m
    b = UNIT_REST * of_m + of_m_rest * UNIT
    high = first_half((a + b) + k)
    return high, b - ((high - k) - a)


def _power_of_two_of_sum(z: Array, rest: Array) -> Array:
    """2^(z + rest)."""
    k, n = nearest_whole(z + rest)
    part = z - k
    r = part + rest
    r_rest = (part - r) + rest
    r_top = first_half(r)
    exact = r_top * LOG_2_TOP
    more = (r - r_top) * LOG_2_WHOLE + (r_top * LOG_2_BELOW + r_rest * LOG_2_WHOLE)
    t = exact + more
    more = (exact - t) + more
    return times_two_to(1 + (t + (t * t * polynomial(EXPONENTIAL, t) + more)), n)


def cube_root(x: Array) -> Array:
    """∛x: a polynomial's, improved by one step of Halley's method; error ≤ 0.75 ulp."""
    size = abs(x)
    tiny = size < LEAST_NORMAL
    bits = bits_of(where(tiny, size * 2.0**54, size))
    m = number_of((bits & MANTISSA) | ONE)
    # With e the biased exponent, e − 1 = 3 q + j, j = −1, 0, 1; and 3 · 341 = 1023.
    less = number_of(lax.shift_right_logical(bits, np.int64(52)) | INTEGER_BITS) - (INTEGERS + 1)
    q, q_bits = nearest_whole(less * (1 / 3))
    j = less - 3 * q
    m = m * where(j > 0, 4.0, where(j < 0, 1.0, 2.0))
    guess = polynomial(CUBE_ROOT, number_of((bits & MANTISSA) | ONE))
    guess = guess * where(j > 0, 4 ** (1 / 3), where(j < 0, 1.0, 2 ** (1 / 3)))
    t = first_half(guess)
    quotient = m / (t * t)
    root = t + t * ((quotient - t) / (2 * t + quotient))
    shift = 341 + 18 * tiny.astype(bits.dtype)
    root = with_sign(number_of(bits_of(root) + ((q_bits - shift) << 52)), x)
    return where((size > 0) & (size < np.inf), root, x)


def reciprocal_root(x: Array) -> Array:
    """1/√x; error ≤ 1.55 ulp."""
    return 1 / lax.sqrt(x)
