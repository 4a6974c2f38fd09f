"""The remainder of a division."""

import numpy as np
from jax import Array, lax

from geodyn._engine.elementary.bits import MANTISSA, SIGN, bits_of, where, with_sign
from geodyn._engine.elementary.exponentials import two_to


def remainder(x: Array, y: Array) -> Array:
    """x − n y, where n is x/y without its fraction: exact, by long division, ten binary digits at a time.

    A processor has it, a graphics processor has not.
    """
    (first, size), (second, unit) = _whole(x), _whole(y)
    is_number = (abs(x) < np.inf) & (y != 0) & (y == y)
    divisor = lax.select(is_number, second, np.full(second.shape, 1))

    def goes_on(state: tuple[Array, Array]) -> Array:
        _, left = state
        return lax.reduce(left > 0, np.False_, lax.bitwise_or, range(left.ndim))

    def next_digits(state: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, left = state
        digits = lax.clamp(np.int64(0), left, np.int64(10))
        return lax.rem(lax.shift_left(rest, digits), divisor), left - digits

    left = lax.select(is_number & (size >= unit), size - unit, np.zeros(size.shape, np.int64))
    rest, _ = lax.while_loop(goes_on, next_digits, (lax.rem(first, divisor), left))
    half = lax.shift_right_arithmetic(unit - 1075, np.int64(1))  # In two factors: both are normal numbers.
    found = rest.astype(np.float64) * two_to(half) * two_to(unit - 1075 - half)
    return where(is_number, where(abs(x) < abs(y), x, with_sign(found, x)), np.nan)


def _whole(x: Array) -> tuple[Array, Array]:
    """(m, k), whole numbers, with |x| = m 2^(k − 1075)."""
    bits = bits_of(x) & ~SIGN
    exponent = lax.shift_right_logical(bits, np.int64(52))
    # Numbers below the normal ones have no first digit that is not written.
    first_digit = lax.select(exponent > 0, np.full(bits.shape, MANTISSA + 1), np.zeros(bits.shape, np.int64))
    return (bits & MANTISSA) | first_digit, lax.max(exponent, np.int64(1))
