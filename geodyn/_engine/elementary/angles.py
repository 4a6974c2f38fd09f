"""An angle without its multiples of π/2."""

from itertools import pairwise

import jax
import numpy as np
from jax import Array, lax

from geodyn._engine.elementary.bits import MANTISSA, ROUNDER, bits_of, first_half, nearest_whole, number_of, where

# π/2 in parts of 29, 23, 29 and 53 bits: the multiples by up to 2^24 of the first three are exact.
HALF_PI = tuple(
    float.fromhex(x) for x in ("0x1.921fb54p+0", "0x1.10b46p-30", "0x1.1a62633p-54", "0x1.45c06e0e68948p-86")
)

FARTHEST = 2.0**24 * HALF_PI[0]
# π/2 and its rounding error
PI_2 = np.pi / 2
PI_2_REST = 6.123233995736766e-17


def _two_over_pi(words: int) -> list[np.int64]:
    """The binary digits of 2/π in words of 64, after one word of zeros; π by Machin's formula in integers."""
    kept = 64 * (words - 1)
    digits = kept + 64  # of π, more than are kept

    def arccotangent(n: int) -> int:
        total, power, k = 0, (1 << digits) // n, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= n * n
            k += 1
        return total

    pi = 4 * (4 * arccotangent(5) - arccotangent(239))
    value = (2 << kept + digits) // pi
    each = [(value >> (64 * k)) & (2**64 - 1) for k in range(words - 1, -1, -1)]
    return [np.int64(word - (word >> 63 << 64)) for word in each]


TWO_OVER_PI = _two_over_pi(20)


def reduce_angle(x: Array) -> tuple[Array, Array, Array]:
    """(n, r, s): x = k π/2 + r + s, where |r| ≤ π/4, s is r's rounding error, and n are bits that end in k mod 4."""
    _, n = nearest_whole(x * (2 / np.pi))
    k = number_of(n) - ROUNDER  # never −0, which would take the sign of x = −0
    near = (x - k * HALF_PI[0]) - k * HALF_PI[1]
    third = k * HALF_PI[2]
    r = near - third
    s = ((near - r) - third) - k * HALF_PI[3]
    size = abs(x)
    far = (size > FARTHEST) & (size < np.inf)
    return reduced_where_far(far, x, n, r, s)


@jax.jit
def reduced_where_far(far: Array, x: Array, *near: Array) -> list[Array]:
    """(n, r, s), of other digits of 2/π where x is far. It has a name, by which our compiler knows it (`SELDOM`)."""
    return [lax.select(far, a, b) for a, b in zip(reduce_far(x), near)]


def reduce_far(x: Array) -> tuple[Array, Array, Array]:
    """(n, r, s) of a far x: its mantissa times those digits of 2/π that matter, modulo 4 (Payne & Hanek)."""
    bits = bits_of(abs(x))
    mantissa = (bits & MANTISSA) | (MANTISSA + 1)
    # x = mantissa 2^(exponent − 1075); digits of 2/π that give multiples of 4 with it are left out.
    first = lax.shift_right_logical(bits, np.int64(52)) - (1075 + 2 - 64)
    limbs = _halves(_window(first))
    low = mantissa & 0xFFFFFFFF
    high = lax.shift_right_logical(mantissa, np.int64(32))
    of_product = []
    carry = above = 0
    for k, limb in enumerate(limbs):
        one = low * limb
        column = (one & 0xFFFFFFFF) + above + carry
        if k:
            column = column + high * limbs[k - 1]
        of_product.append(column & 0xFFFFFFFF)
        carry = lax.shift_right_logical(column, np.int64(32))
        above = lax.shift_right_logical(one, np.int64(32))
    # Of 192 bits the first two are the quadrant; as whole words, 128 of them.
    head = (of_product[5] << 32) | of_product[4]
    tail = (of_product[3] << 32) | of_product[2]
    n = lax.shift_right_logical(head + (1 << 61), np.int64(62))
    part = ((head - (n << 62)) << 1) | lax.shift_right_logical(tail, np.int64(63))
    # (part + tail/2^63) 2^−63 quadrants, as the sum of two doubles
    f = part.astype(np.float64)
    below = lax.shift_right_logical(tail << 1, np.int64(11)).astype(np.float64) * 2.0**-53
    rest = (part - f.astype(np.int64)).astype(np.float64) + below
    unit = PI_2 * 2.0**-63
    unit_rest = PI_2_REST * 2.0**-63
    unit_top = float.fromhex("0x1.921fb5p-63")  # 26 bits
    top = first_half(f)
    exact = top * unit_top
    rest = top * ((unit - unit_top) + unit_rest) + ((f - top) * unit + rest * unit)
    r = exact + rest
    s = (exact - r) + rest
    negative = x < 0
    return lax.select(negative, -n, n), where(negative, -r, r), where(negative, -s, s)


def _window(first: Array) -> list[Array]:
    """192 digits of 2/π from the given one on, in three words; by halving the choice of the first word."""
    words = [np.full(first.shape, word) for word in TWO_OVER_PI]
    for step in (16, 8, 4, 2, 1):
        jump = (first & (64 * step)) != 0
        later = words[step:]
        chosen = [lax.select(jump, then, here) for here, then in zip(words, later)]
        words = (chosen + words[len(later) :])[: 4 + step - 1]
    shift = first & 63
    back = 63 - shift
    return [
        lax.shift_left(here, shift) | lax.shift_right_logical(lax.shift_right_logical(after, np.int64(1)), back)
        for here, after in pairwise(words)
    ]


def _halves(words: list[Array]) -> list[Array]:
    """Words of 64 bits as numbers of 32, the least first."""
    return [half for word in words[::-1] for half in (word & 0xFFFFFFFF, lax.shift_right_logical(word, np.int64(32)))]
