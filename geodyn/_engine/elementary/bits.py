"""What the elementary functions share: the bits of numbers, selections, and sums whose rounding is known."""

import numpy as np
from jax import Array, lax

# A whole number k of less than 51 bits stands in the last bits of k + ROUNDER, and if not negative of k + INTEGERS.
ROUNDER = 1.5 * 2.0**52
INTEGERS = 2.0**52
ONE = np.int64(0x3FF0000000000000)
INTEGER_BITS = np.int64(0x4330000000000000)
MANTISSA = np.int64(0x000FFFFFFFFFFFFF)
TOP_HALF = np.int64(-(1 << 27))
SIGN = np.int64(-(1 << 63))
LEAST_NORMAL = 2.0**-1022


def bits_of(x: Array) -> Array:
    return lax.bitcast_convert_type(x, np.int64)


def number_of(bits: Array) -> Array:
    return lax.bitcast_convert_type(bits, np.float64)


def where(condition: Array, yes: Array | float, no: Array | float) -> Array:
    """A selection whose choices may be constants."""
    of_numbers = [x if isinstance(x, Array) else np.full(condition.shape, x) for x in (yes, no)]
    return lax.select(condition, *of_numbers)


def at_most(x: Array, bound: float) -> Array:
    """x, but not above the bound; NaN stays."""
    return where(x > bound, bound, x)


def at_least(x: Array, bound: float) -> Array:
    """x, but not below the bound; NaN stays."""
    return where(x < bound, bound, x)


def nearest_whole(x: Array) -> tuple[Array, Array]:
    """The nearest whole number k, and bits that end in it.

    It is rounded by the instruction: x would be a product, and (x + ROUNDER) − ROUNDER may be another number where x is
    not rounded in one of two copies of it.
    """
    k = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    return k, bits_of(k + ROUNDER)


def with_sign(size: Array, x: Array) -> Array:
    """The number with this size, which is not negative, and the sign of x."""
    return number_of(bits_of(size) | (bits_of(x) & SIGN))


def first_half(x: Array) -> Array:
    """The first 26 bits of x, as a number: products of two such are exact."""
    return number_of(bits_of(x) & TOP_HALF)


def polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    """Horner's rule, highest power first."""
    total = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        total = total * x + coefficient
    return total


def sum_and_loss(a: Array | float, b: Array) -> tuple[Array, Array]:
    """a + b and what was lost in rounding it (Knuth)."""
    total = a + b
    of_b = total - a
    lost = (a - (total - of_b)) + (b - of_b)
    return total, lost


def quick_sum_and_loss(a: Array | float, b: Array | float) -> tuple[Array, Array]:
    """a + b and what was lost in rounding it, for |a| ≥ |b| (Dekker)."""
    total = a + b
    return total, (a - total) + b
