"""Logarithms, and the inverse hyperbolic functions, which are logarithms."""

import numpy as np
from jax import Array, lax

from geodyn._engine.elementary.bits import (
    INTEGER_BITS,
    INTEGERS,
    LEAST_NORMAL,
    MANTISSA,
    ONE,
    bits_of,
    number_of,
    polynomial,
    quick_sum_and_loss,
    sum_and_loss,
    where,
    with_sign,
)
from geodyn._engine.elementary.exponentials import LOG_2

# (2 artanh(s)/s − 2)/z with z = s², √z ≤ 3 − √8
LOGARITHM = (
    0.1461712977637282,
    0.15331666565172825,
    0.18182890781379937,
    0.22222211112058893,
    0.28571428626114803,
    0.399999999998992,
    0.666666666666667,
)

ROOT_HALF = np.int64(0x3FE6A09E667F3BCD)


def _binary(x: Array) -> tuple[Array, Array]:
    """(k, m) with x = 2^k m and √½ ≤ m < √2, for normal positive x."""
    bits = bits_of(x) + (ONE - ROOT_HALF)
    exponent = lax.shift_right_logical(bits, np.int64(52))
    k = number_of(exponent | INTEGER_BITS) - (INTEGERS + 1023)
    return k, number_of((bits & MANTISSA) + ROOT_HALF)


def binary_of_any(x: Array) -> tuple[Array, Array]:
    """The same, of positive numbers below the normal ones as well."""
    tiny = x < LEAST_NORMAL
    k, m = _binary(where(tiny, x * 2.0**54, x))
    return k - where(tiny, 54.0, 0.0), m


def _logarithm(x: Array, k: Array, m: Array, rest: Array | float = 0.0) -> Array:
    """log(2^k m) + rest, for x = 2^k m if that is positive and finite; else as log x is."""
    f = m - 1
    s = f / (f + 2)
    z = s * s
    half = 0.5 * f * f
    low = s * (half + z * polynomial(LOGARITHM, z)) + (k * LOG_2[1] + rest)
    value = k * LOG_2[0] - ((half - low) - f)
    outside = where(x == 0, -np.inf, where(x < 0, np.nan, x))
    return where((x > 0) & (x < np.inf), value, outside)


def logarithm(x: Array) -> Array:
    """log x; error ≤ 0.85 ulp."""
    return _logarithm(x, *binary_of_any(x))


def logarithm_of_one_and(x: Array) -> Array:
    """log(1 + x); error ≤ 0.9 ulp."""
    u, lost = sum_and_loss(1.0, x)
    return where(abs(x) < 2.0**-54, x, _logarithm(u, *_binary(u), lost / u))


def inverse_hyperbolic_sine(x: Array) -> Array:
    """arsinh x = log(1 + |x| + x²/(1 + √(1 + x²))), with its sign; error ≤ 1.25 ulp."""
    size = abs(x)
    square = size * size
    t, lost = quick_sum_and_loss(size, square / (1 + lax.sqrt(1 + square)))
    return with_sign(_logarithm_of_sum(size, t, lost), x)


def inverse_hyperbolic_cosine(x: Array) -> Array:
    """arcosh x = log(1 + t + √(t (t + 2))) with t = x − 1; error ≤ 1.75 ulp."""
    less = x - 1
    t, lost = quick_sum_and_loss(lax.sqrt(less * (less + 2)), less)
    return where(x < 1, np.nan, _logarithm_of_sum(x, t, lost))


def _logarithm_of_sum(x: Array, t: Array, lost: Array) -> Array:
    """log(1 + t + lost), or log(2 x) where x is so large that the one is its rounding."""
    large = x > 2.0**30
    u, lost_too = sum_and_loss(1.0, t)
    rest = where(large, 0.0, (lost + lost_too) / u)
    u = where(large, x, u)
    k, m = _binary(u)
    return _logarithm(u, k + where(large, 1.0, 0.0), m, rest)


def inverse_hyperbolic_tangent(x: Array) -> Array:
    """artanh x = log(1 + 2|x| + 2x²/(1 − |x|))/2, with its sign; error ≤ 1.7 ulp."""
    size = abs(x)
    twice = 2 * size
    u, lost = sum_and_loss(1.0, twice + twice * (size / (1 - size)))
    value = with_sign(0.5 * _logarithm(u, *_binary(u), lost / u), x)
    return where(size < 2.0**-28, x, where(size > 1, np.nan, value))
