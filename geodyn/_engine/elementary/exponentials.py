"""Exponentials, and what is made of them: the hyperbolic functions and the logistic one."""

import numpy as np
from jax import Array, lax

from geodyn._engine.elementary.bits import (
    ONE,
    at_least,
    at_most,
    nearest_whole,
    number_of,
    polynomial,
    quick_sum_and_loss,
    sum_and_loss,
    where,
    with_sign,
)

# (e^r − 1 − r)/r² for |r| ≤ log(2)/2
EXPONENTIAL = (
    2.5100388772450645e-08,
    2.7620092706650667e-07,
    2.7557268453107527e-06,
    2.480152128699544e-05,
    0.00019841269863058052,
    0.0013888888917219482,
    0.008333333333330062,
    0.041666666666624115,
    0.16666666666666669,
    0.5000000000000001,
)

# log 2: its first 42 bits, whose multiples by k are exact, and the rest
LOG_2 = float.fromhex("0x1.62e42fefa38p-1"), float.fromhex("0x1.ef35793c7673p-45")


def reduce_exponent(x: Array, less: Array | None = None) -> tuple[Array, Array, Array]:
    """(n, r, q): e^(x − less) = 2^k (1 + r + q), n are bits that end in k; r is exact, |r| ≤ log(2)/2, and q is small.

    Here |x| < 1500, and |less| < 1e-4.
    """
    k, n = nearest_whole(x * (1 / np.log(2)))
    r = x - k * LOG_2[0]
    less = k * LOG_2[1] if less is None else k * LOG_2[1] + less
    whole = r - less
    return n, r, whole * whole * polynomial(EXPONENTIAL, whole) - less


def two_to(n: Array, less: int = 0) -> Array:
    """2^(k − less) for normal numbers; n are bits that end in k."""
    return number_of((n << 52) + (ONE - (np.int64(less) << 52)))


def times_two_to(x: Array | float, n: Array) -> Array:
    """x 2^k, also where 2^k is no double; n are bits that end in k."""
    half = lax.shift_right_logical(n, np.int64(1))
    return x * two_to(half) * two_to(n - half)


def exponential(x: Array) -> Array:
    """e^x; error ≤ 1.0 ulp."""
    n, r, q = reduce_exponent(at_most(at_least(x, -746.0), 710.0))
    return times_two_to(1 + (r + q), n)


def power_of_two(x: Array) -> Array:
    """2^x; error ≤ 1.15 ulp."""
    x = at_most(at_least(x, -1077.0), 1025.0)
    k, n = nearest_whole(x)
    r = (x - k) * np.log(2)
    return times_two_to(1 + (r + r * r * polynomial(EXPONENTIAL, r)), n)


def exponential_less_one(x: Array) -> Array:
    """e^x − 1; error ≤ 1.45 ulp."""
    n, r, q = reduce_exponent(at_most(at_least(x, -40.0), 710.0))
    half = two_to(n, 1)
    value = 2 * ((half * r + (half - 0.5)) + half * q)
    return where(abs(x) < 2.0**-54, x, value)


def _quarter(x: Array) -> tuple[Array, Array, Array]:
    """(e^|x| − 1)/4, what was lost in rounding it, and e^|x|/4: so |x| may be as large as sinh and cosh allow."""
    n, r, q = reduce_exponent(at_most(abs(x), 710.5))
    power = two_to(n, 2)
    less, lost = quick_sum_and_loss(power * r + (power - 0.25), power * q)
    return less, lost, less + 0.25


def hyperbolic_sine(x: Array) -> Array:
    """sinh x = (u + u/(u + 1))/2 with u = e^|x| − 1, and its sign; error ≤ 1.9 ulp."""
    less, lost, quarter = _quarter(x)
    size = 2 * (less + (less * (0.25 / quarter) + lost))
    return where(abs(x) < 2.0**-28, x, with_sign(size, x))


def hyperbolic_cosine(x: Array) -> Array:
    """cosh x = (e^|x| + e^−|x|)/2; error ≤ 1.75 ulp."""
    _, _, quarter = _quarter(x)
    return 2 * (quarter + 0.25 * (0.25 / quarter))


def hyperbolic_tangent(x: Array) -> Array:
    """tanh x; error ≤ 1.45 ulp."""
    n, r, q = reduce_exponent(at_most(2 * abs(x), 40.0))
    power = two_to(n)
    less, lost = quick_sum_and_loss(power * r + (power - 1), power * q)
    below, below_lost = sum_and_loss(2.0, less)
    # What was lost changes the quotient u/(u + 2) by the following, since 1/(u + 2) = (1 − quotient)/2.
    quotient = less / below
    other = 1 - quotient
    return with_sign(quotient + 0.5 * other * (lost * other - quotient * below_lost), x)


def logistic(x: Array) -> Array:
    """1/(1 + e^−x); error ≤ 1.55 ulp."""
    # 1/(1 + e^|x|) = 2^−k/(2^−k + 1 + r + q)
    n, r, q = reduce_exponent(at_most(abs(x), 746.0))
    most, lost = quick_sum_and_loss(1.0, times_two_to(1.0, -n))
    most, lost_too = quick_sum_and_loss(most, r)
    less = times_two_to(1 / (most + (lost + lost_too + q)), -n)
    return where(x < 0, less, 1 - less)
