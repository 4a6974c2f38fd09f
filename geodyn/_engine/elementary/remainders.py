"""The remainder of a division."""

import numpy as np
from jax import Array, lax

from geodyn._engine.elementary.bits import MANTISSA, SIGN, bits_of, where, with_sign
from geodyn._engine.elementary.exponentials import two_to


def remainder(x: Array, y: Array) -> Array:
    """x − n y, where n is x/y without its fraction: exact, by long division, ten binary digits at a time.

    A processor has it, a graphics processor has not.
    """
    whole_x, exponent_x = _whole(x)
    whole_y, exponent_y = _whole(y)
    is_number = (abs(x) < np.inf) & (y != 0) & (y == y)
    divisor = lax.select(is_number, whole_y, np.full(whole_y.shape, 1))

    def goes_on(state: tuple[Array, Array]) -> Array:
        _, left = state
        return lax.reduce(left > 0, np.False_, lax.bitwise_or, range(left.ndim))

    def next_digits(state: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, left = state
        # The rest is less than the divisor, which has 53 digits: with 10 more it is below 2⁶³.
        digits = lax.clamp(np.int64(0), left, np.int64(10))
        longer = lax.shift_left(rest, digits)
        return lax.rem(longer, divisor), left - digits

    # The dividend is whole_x followed by so many zeros. Where there would be fewer than none, x is less than y.
    none = np.zeros(exponent_x.shape, np.int64)
    zeros = lax.select(is_number & (exponent_x >= exponent_y), exponent_x - exponent_y, none)
    rest, _ = lax.while_loop(goes_on, next_digits, (lax.rem(whole_x, divisor), zeros))
    # By the power of two in two factors: both are normal numbers, also where the power itself is none.
    power = exponent_y - 1075
    half = lax.shift_right_arithmetic(power, np.int64(1))
    found = rest.astype(np.float64) * two_to(half) * two_to(power - half)
    of_numbers = where(abs(x) < abs(y), x, with_sign(found, x))
    return where(is_number, of_numbers, np.nan)


def _whole(x: Array) -> tuple[Array, Array]:
    """(m, k), whole numbers, with |x| = m 2^(k − 1075)."""
    bits = bits_of(x) & ~SIGN
    exponent = lax.shift_right_logical(bits, np.int64(52))
    # The first digit of a normal number is 1, and is not written. Numbers below the normal ones, with the exponent 0,
    # have no such digit, and the power of two of the exponent 1.
    hidden_digit = np.full(bits.shape, MANTISSA + 1)
    none = np.zeros(bits.shape, np.int64)
    first_digit = lax.select(exponent > 0, hidden_digit, none)
    return (bits & MANTISSA) | first_digit, lax.max(exponent, np.int64(1))
