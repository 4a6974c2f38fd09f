"""Elementary functions in double precision, as ordinary JAX programs of additions, products and bits.

A processor adds, multiplies, divides and takes square roots of many numbers at a time; a sine it does not have, and the
C library's takes one number a call. So the compiler puts these programs in the place of JAX's elementary functions:
straight lines without tables or loops, in which each choice is a selection, so that every lane of a SIMD register takes
the same way. They all have three parts, as in Cody & Waite, *Software Manual for the Elementary Functions* (1980):

1. *Reduction*: x is brought near zero by what the function repeats or multiplies: x = k π/2 + r for the circular
   functions, x = k log 2 + r for exponentials, x = 2^k m for logarithms. What is subtracted is a constant in few-bit
   parts, so that its multiples are exact.
2. *A polynomial* of the small argument, whose first terms are written so that rounding hits only the small ones.
3. *Reconstruction*: the quadrant's sign, or 2^k, by arithmetic on the bits of the numbers.

Nothing here relies on whether a*b + c is rounded once or twice: a product whose rounding would matter is exact, since
its factors have few bits (those of Dekker's splitting, by a mask, 26). It does rely on the order of sums, on signed
zeros and on NaN: no "fast math" beyond contraction, and no rule that takes (1 + x) − 1 for x, as XLA's simplifier does.

One branch is left. Where an argument of the circular functions is beyond 2.6e7, many more digits of 2/π are needed
(Payne & Hanek 1983). That is long and seldom needed: a function apart (`SELDOM`), which the compiler calls where any
lane is far, once for all functions of the same argument, as they share the rest of their reduction. Infinities and NaN
do not take it.

Sources: Sun Microsystems' fdlibm (the order of operations in the kernels of sin, cos, log, expm1, pow; the coefficients
of sin and cos); Muller et al., *Handbook of Floating-Point Arithmetic* (2018), for sums and products without error;
Johnson's Faddeeva package for the form of erfc. All other polynomials are interpolants at Chebyshev points of the
function named beside them, by mpmath with 60 digits. HALF_PI and LOG_2 are the binary digits, cut, the last part
rounded; those of 2/π are computed here, by integers.

Errors in the docstrings, in units of the last place (ulp) of the result, bound all that was seen over nine million
random arguments of all sizes, with contraction and without, against long double (erf, erfc: half a million, mpmath).
Results below the normal numbers keep all the digits that they have. Derivatives are JAX's, taken before the functions
are replaced.
"""

from collections.abc import Callable
from itertools import pairwise

import jax
import numpy as np
from jax import Array, lax

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
# (3 artanh(s)/s − 3 − z)/z², likewise
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
# ∛m for 1 ≤ m ≤ 2
CUBE_ROOT = (
    0.005072953325277491,
    -0.04831832068166114,
    0.19665479701360078,
    -0.4602977267696209,
    0.8317431442479309,
    0.47514693623890253,
)
# erf(x)/x − 1 in z = x², x ≤ 1
ERROR = (
    -7.795898827002142e-10,
    1.3720064546777686e-08,
    -1.6208483801871705e-07,
    1.6447424703317362e-06,
    -1.492473690741966e-05,
    0.00012055294904839707,
    -0.0008548325975389692,
    0.0052239776071164225,
    -0.02686617064323777,
    0.11283791670945006,
    -0.37612638903183543,
    0.12837916709551256,
)
# (1 + 2 x) e^{x²} erfc(x) − 1 in t = (x − 4)/(x + 4), 1/2 ≤ x ≤ 28
ERROR_TAIL = (
    -1.0476718674668371e-08,
    -1.2224048303152388e-08,
    1.0568025135820959e-07,
    6.702452833728971e-08,
    -8.22559563206072e-07,
    2.9955790685567077e-07,
    5.7086428044048145e-06,
    -1.12247322473501e-05,
    -2.4398983809134553e-05,
    0.00015062249512264785,
    -0.00019925671345040716,
    -0.0007577734486762808,
    0.0050319699756138135,
    -0.01619773403826592,
    0.03716751553818893,
    -0.06633036581360713,
    0.09373283499828751,
    -0.10103906603625375,
    0.0680970542546948,
    0.015379652102619027,
    -0.13962111684056253,
    0.2329951186255526,
)

# A whole number k of less than 51 bits stands in the last bits of k + ROUNDER, and if not negative of k + INTEGERS.
ROUNDER = 1.5 * 2.0**52
INTEGERS = 2.0**52
ONE = np.int64(0x3FF0000000000000)
ROOT_HALF = np.int64(0x3FE6A09E667F3BCD)
INTEGER_BITS = np.int64(0x4330000000000000)
MANTISSA = np.int64(0x000FFFFFFFFFFFFF)
TOP_HALF = np.int64(-(1 << 27))
SIGN = np.int64(-(1 << 63))
LEAST_NORMAL = 2.0**-1022

# π/2 in parts of 29, 23, 29 and 53 bits: the multiples by up to 2^24 of the first three are exact.
HALF_PI = tuple(
    float.fromhex(x) for x in ("0x1.921fb54p+0", "0x1.10b46p-30", "0x1.1a62633p-54", "0x1.45c06e0e68948p-86")
)
FARTHEST = 2.0**24 * HALF_PI[0]
PI_2, PI_2_REST = np.pi / 2, 6.123233995736766e-17
ATAN_HALF, ATAN_HALF_REST = float.fromhex("0x1.dac670561bb4fp-2"), float.fromhex("0x1.a2b7f222f65e2p-56")
# log 2: its first 42 bits and the rest, whose multiples by k are exact; whole, its first 26 bits and the rest
LOG_2 = float.fromhex("0x1.62e42fefa38p-1"), float.fromhex("0x1.ef35793c7673p-45")
LOG_2_WHOLE, LOG_2_TOP, LOG_2_BELOW = (
    float.fromhex(x) for x in ("0x1.62e42fefa39efp-1", "0x1.62e42f8p-1", "0x1.be8e7bcd5e4f2p-27")
)
# 2/(3 log 2): whole, its first 26 bits and the rest
UNIT, UNIT_TOP, UNIT_REST = (
    float.fromhex(x) for x in ("0x1.ec709dc3a03fdp-1", "0x1.ec709d8p-1", "0x1.0e80ff5d27f05p-27")
)


# ---------------------------------------------------------------------------------------------- what the others use


def _bits(x: Array) -> Array:
    return lax.bitcast_convert_type(x, np.int64)


def _number(bits: Array) -> Array:
    return lax.bitcast_convert_type(bits, np.float64)


def _where(condition: Array, yes: Array | float, no: Array | float) -> Array:
    """A selection whose choices may be constants."""
    of_numbers = [x if isinstance(x, Array) else np.full(condition.shape, x) for x in (yes, no)]
    return lax.select(condition, *of_numbers)


def _at_most(x: Array, bound: float) -> Array:
    """x, but not above the bound; NaN stays."""
    return _where(x > bound, bound, x)


def _at_least(x: Array, bound: float) -> Array:
    """x, but not below the bound; NaN stays."""
    return _where(x < bound, bound, x)


def _rounded(x: Array) -> tuple[Array, Array]:
    """The nearest whole number k, and bits that end in it.

    It is rounded by the instruction: x would be a product, and (x + ROUNDER) − ROUNDER may be another number where x is
    not rounded in one of two copies of it.
    """
    k = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    return k, _bits(k + ROUNDER)


def _signed(size: Array, x: Array) -> Array:
    """The number with this size, which is not negative, and the sign of x."""
    return _number(_bits(size) | (_bits(x) & SIGN))


def _top(x: Array) -> Array:
    """The first 26 bits of x, as a number: products of two such are exact."""
    return _number(_bits(x) & TOP_HALF)


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    """Horner's rule, highest power first."""
    total = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        total = total * x + coefficient
    return total


def _sum(a: Array | float, b: Array) -> tuple[Array, Array]:
    """a + b and what was lost in rounding it (Knuth)."""
    total = a + b
    of_b = total - a
    lost = (a - (total - of_b)) + (b - of_b)
    return total, lost


def _quick_sum(a: Array | float, b: Array | float) -> tuple[Array, Array]:
    """a + b and what was lost in rounding it, for |a| ≥ |b| (Dekker)."""
    total = a + b
    return total, (a - total) + b


# -------------------------------------------------------------------------------------------------- circular functions


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


def _reduced(x: Array) -> tuple[Array, Array, Array]:
    """(n, r, s): x = k π/2 + r + s, where |r| ≤ π/4, s is r's rounding error, and n are bits that end in k mod 4."""
    _, n = _rounded(x * (2 / np.pi))
    k = _number(n) - ROUNDER  # never −0, which would take the sign of x = −0
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
    return [lax.select(far, a, b) for a, b in zip(_reduced_far(x), near)]


def _reduced_far(x: Array) -> tuple[Array, Array, Array]:
    """(n, r, s) of a far x: its mantissa times those digits of 2/π that matter, modulo 4 (Payne & Hanek)."""
    bits = _bits(abs(x))
    mantissa = (bits & MANTISSA) | (MANTISSA + 1)
    # x = mantissa 2^(exponent − 1075); digits of 2/π that give multiples of 4 with it are left out.
    first = lax.shift_right_logical(bits, np.int64(52)) - (1075 + 2 - 64)
    limbs = _halves(_window(first))
    low, high = mantissa & 0xFFFFFFFF, lax.shift_right_logical(mantissa, np.int64(32))
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
    unit, unit_rest = PI_2 * 2.0**-63, PI_2_REST * 2.0**-63
    unit_top = float.fromhex("0x1.921fb5p-63")  # 26 bits
    top = _top(f)
    exact = top * unit_top
    rest = top * ((unit - unit_top) + unit_rest) + ((f - top) * unit + rest * unit)
    r = exact + rest
    s = (exact - r) + rest
    negative = x < 0
    return lax.select(negative, -n, n), _where(negative, -r, r), _where(negative, -s, s)


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


def _sine_parts(r: Array, s: Array) -> tuple[Array, Array]:
    """The sine of r + s, |r| ≤ π/4: the first number less the second, which is small."""
    z = r * r
    cube = z * r
    inner = 0.5 * s - cube * _polynomial(SINE, z)
    return r, (z * inner - s) - cube * SINE_FIRST


def _cosine_parts(r: Array, s: Array) -> tuple[Array, Array]:
    """The cosine of r + s, |r| ≤ π/4: the first number and the second, which is small."""
    z = r * r
    half = 0.5 * z
    one = 1 - half
    lost = (1 - one) - half
    return one, lost + (z * (z * _polynomial(COSINE, z)) - r * s)


def _near(r: Array, s: Array) -> tuple[Array, Array]:
    """The sine and the cosine of r + s."""
    of_sine, of_cosine = _sine_parts(r, s), _cosine_parts(r, s)
    return of_sine[0] - of_sine[1], of_cosine[0] + of_cosine[1]


def _is_odd(n: Array) -> Array:
    return (n & 1) != 0


def _turned(value: Array, n: Array) -> Array:
    """The value, negated where the second last bit of n is set."""
    return _number(_bits(value) ^ ((n & 2) << 62))


def sine(x: Array) -> Array:
    """sin x; error ≤ 0.8 ulp."""
    n, r, s = _reduced(x)
    near_sine, near_cosine = _near(r, s)
    return _turned(_where(_is_odd(n), near_cosine, near_sine), n)


def cosine(x: Array) -> Array:
    """cos x; error ≤ 0.8 ulp."""
    n, r, s = _reduced(x)
    near_sine, near_cosine = _near(r, s)
    return _turned(_where(_is_odd(n), near_sine, near_cosine), n + 1)


def tangent(x: Array) -> Array:
    """tan x; error ≤ 1.4 ulp."""
    n, r, s = _reduced(x)
    (sine_first, sine_less), (cosine_first, cosine_more) = _sine_parts(r, s), _cosine_parts(r, s)
    near_sine, near_cosine = sine_first - sine_less, cosine_first + cosine_more
    sine_lost = (sine_first - near_sine) - sine_less
    cosine_lost = (cosine_first - near_cosine) + cosine_more
    odd = _is_odd(n)
    below = _where(odd, near_sine, near_cosine)
    quotient = _where(odd, near_cosine, near_sine) / below
    lost = _where(odd, cosine_lost, sine_lost) - quotient * _where(odd, sine_lost, cosine_lost)
    # Added as a difference, which leaves the sign of zero.
    return _turned(quotient - (0 - lost) / below, n << 1)


def _first_octant(n: Array, d: Array) -> Array:
    """arctan(n/d) for 0 ≤ n ≤ d: that of 0, 1/2 or 1, and of the quotient that is left."""
    above, far_above = n > 0.375 * d, n > 0.75 * d
    numerator = _where(far_above, n - d, _where(above, n - 0.5 * d, n))
    denominator = _where(far_above, n + d, _where(above, d + 0.5 * n, d))
    base = _where(far_above, PI_2 / 2, _where(above, ATAN_HALF, 0.0))
    base_rest = _where(far_above, PI_2_REST / 2, _where(above, ATAN_HALF_REST, 0.0))
    t = numerator / denominator
    z = t * t
    return base + (t + (t * (z * _polynomial(ARCTANGENT, z)) + base_rest))


def _within(low: Array, size: Array, most: float, rest: float) -> Array:
    """most − size where the truth value is set, else the size; `rest` is the constant's rounding error."""
    return _where(low, most - (size - rest), size)


def arctangent(x: Array) -> Array:
    """arctan x; error ≤ 1.35 ulp."""
    size = abs(x)
    steep = size > 1
    angle = _first_octant(_where(steep, 1.0, size), _where(steep, size, 1.0))
    return _signed(_within(steep, angle, PI_2, PI_2_REST), x)


def arctangent_of_two(y: Array, x: Array) -> Array:
    """The angle of the point (x, y); error ≤ 1.55 ulp."""
    width, height = abs(x), abs(y)
    steep = height > width
    less, more = _where(steep, width, height), _where(steep, height, width)
    # No sum overflows and each half is a number; of two infinities, or two zeros, the quotient is known.
    scale = _where(more > 2.0**1000, 2.0**-100, _where(more < 2.0**-900, 2.0**100, 1.0))
    less = _where(less == np.inf, 1.0, less * scale)
    more = _where((more == np.inf) & (less == 1), 1.0, _where(more == 0, 1.0, more * scale))
    angle = _within(steep, _first_octant(less, more), PI_2, PI_2_REST)
    left = _bits(x) < 0
    return _signed(_within(left, angle, 2 * PI_2, 2 * PI_2_REST), y)


def _arcsine_parts(x: Array) -> tuple[Array, Array, Array, Array]:
    """(|x| < 1/2, t, arcsin(t) − t, |x|), where t is |x| or, where that is large, √((1 − |x|)/2)."""
    size = abs(x)
    small = size < 0.5
    z = _where(small, size * size, 0.5 - 0.5 * size)
    t = _where(small, size, lax.sqrt(z))
    return small, t, t * (z * _polynomial(ARCSINE, z)), size


def arcsine(x: Array) -> Array:
    """arcsin x; error ≤ 1.3 ulp."""
    small, t, more, _ = _arcsine_parts(x)
    of_large = PI_2 / 2 - ((2 * more - PI_2_REST) - (PI_2 / 2 - 2 * t))
    return _signed(_where(small, t + more, of_large), x)


def arccosine(x: Array) -> Array:
    """arccos x; error ≤ 1.15 ulp."""
    small, t, more, _ = _arcsine_parts(x)
    negative = x < 0
    of_small = PI_2 - (x - (PI_2_REST - _where(negative, -more, more)))
    of_large = _where(negative, 2 * (PI_2 - (t + (more - PI_2_REST))), 2 * (t + more))
    return _where(small, of_small, of_large)


# ------------------------------------------------------------------------------------------ exponentials, hyperbolic


def _reduced_exponent(x: Array, less: Array | None = None) -> tuple[Array, Array, Array]:
    """(n, r, q): e^(x − less) = 2^k (1 + r + q), n are bits that end in k; r is exact, |r| ≤ log(2)/2, and q is small.

    Here |x| < 1500, and |less| < 1e-4.
    """
    k, n = _rounded(x * (1 / np.log(2)))
    r = x - k * LOG_2[0]
    less = k * LOG_2[1] if less is None else k * LOG_2[1] + less
    whole = r - less
    return n, r, whole * whole * _polynomial(EXPONENTIAL, whole) - less


def _power_of_two(n: Array, less: int = 0) -> Array:
    """2^(k − less) for normal numbers; n are bits that end in k."""
    return _number((n << 52) + (ONE - (np.int64(less) << 52)))


def _scaled(x: Array | float, n: Array) -> Array:
    """x 2^k, also where 2^k is no double; n are bits that end in k."""
    half = lax.shift_right_logical(n, np.int64(1))
    return x * _power_of_two(half) * _power_of_two(n - half)


def exponential(x: Array) -> Array:
    """e^x; error ≤ 1.0 ulp."""
    n, r, q = _reduced_exponent(_at_most(_at_least(x, -746.0), 710.0))
    return _scaled(1 + (r + q), n)


def power_of_two(x: Array) -> Array:
    """2^x; error ≤ 1.15 ulp."""
    x = _at_most(_at_least(x, -1077.0), 1025.0)
    k, n = _rounded(x)
    r = (x - k) * np.log(2)
    return _scaled(1 + (r + r * r * _polynomial(EXPONENTIAL, r)), n)


def exponential_less_one(x: Array) -> Array:
    """e^x − 1; error ≤ 1.45 ulp."""
    n, r, q = _reduced_exponent(_at_most(_at_least(x, -40.0), 710.0))
    half = _power_of_two(n, 1)
    value = 2 * ((half * r + (half - 0.5)) + half * q)
    return _where(abs(x) < 2.0**-54, x, value)


def _quarter(x: Array) -> tuple[Array, Array, Array]:
    """(e^|x| − 1)/4, what was lost in rounding it, and e^|x|/4: so |x| may be as large as sinh and cosh allow."""
    n, r, q = _reduced_exponent(_at_most(abs(x), 710.5))
    power = _power_of_two(n, 2)
    less, lost = _quick_sum(power * r + (power - 0.25), power * q)
    return less, lost, less + 0.25


def hyperbolic_sine(x: Array) -> Array:
    """sinh x = (u + u/(u + 1))/2 with u = e^|x| − 1, and its sign; error ≤ 1.9 ulp."""
    less, lost, quarter = _quarter(x)
    size = 2 * (less + (less * (0.25 / quarter) + lost))
    return _where(abs(x) < 2.0**-28, x, _signed(size, x))


def hyperbolic_cosine(x: Array) -> Array:
    """cosh x = (e^|x| + e^−|x|)/2; error ≤ 1.75 ulp."""
    _, _, quarter = _quarter(x)
    return 2 * (quarter + 0.25 * (0.25 / quarter))


def hyperbolic_tangent(x: Array) -> Array:
    """tanh x; error ≤ 1.45 ulp."""
    n, r, q = _reduced_exponent(_at_most(2 * abs(x), 40.0))
    power = _power_of_two(n)
    less, lost = _quick_sum(power * r + (power - 1), power * q)
    below, below_lost = _sum(2.0, less)
    # What was lost changes the quotient u/(u + 2) by the following, since 1/(u + 2) = (1 − quotient)/2.
    quotient = less / below
    other = 1 - quotient
    return _signed(quotient + 0.5 * other * (lost * other - quotient * below_lost), x)


def logistic(x: Array) -> Array:
    """1/(1 + e^−x); error ≤ 1.55 ulp."""
    # 1/(1 + e^|x|) = 2^−k/(2^−k + 1 + r + q)
    n, r, q = _reduced_exponent(_at_most(abs(x), 746.0))
    most, lost = _quick_sum(1.0, _scaled(1.0, -n))
    most, lost_too = _quick_sum(most, r)
    less = _scaled(1 / (most + (lost + lost_too + q)), -n)
    return _where(x < 0, less, 1 - less)


# ----------------------------------------------------------------------------------------- logarithms, powers and roots


def _binary(x: Array) -> tuple[Array, Array]:
    """(k, m) with x = 2^k m and √½ ≤ m < √2, for normal positive x."""
    bits = _bits(x) + (ONE - ROOT_HALF)
    exponent = lax.shift_right_logical(bits, np.int64(52))
    k = _number(exponent | INTEGER_BITS) - (INTEGERS + 1023)
    return k, _number((bits & MANTISSA) + ROOT_HALF)


def _binary_of_any(x: Array) -> tuple[Array, Array]:
    """The same, of positive numbers below the normal ones as well."""
    tiny = x < LEAST_NORMAL
    k, m = _binary(_where(tiny, x * 2.0**54, x))
    return k - _where(tiny, 54.0, 0.0), m


def _logarithm(x: Array, k: Array, m: Array, rest: Array | float = 0.0) -> Array:
    """log(2^k m) + rest, for x = 2^k m if that is positive and finite; else as log x is."""
    f = m - 1
    s = f / (f + 2)
    z = s * s
    half = 0.5 * f * f
    low = s * (half + z * _polynomial(LOGARITHM, z)) + (k * LOG_2[1] + rest)
    value = k * LOG_2[0] - ((half - low) - f)
    outside = _where(x == 0, -np.inf, _where(x < 0, np.nan, x))
    return _where((x > 0) & (x < np.inf), value, outside)


def logarithm(x: Array) -> Array:
    """log x; error ≤ 0.85 ulp."""
    return _logarithm(x, *_binary_of_any(x))


def logarithm_of_one_and(x: Array) -> Array:
    """log(1 + x); error ≤ 0.9 ulp."""
    u, lost = _sum(1.0, x)
    return _where(abs(x) < 2.0**-54, x, _logarithm(u, *_binary(u), lost / u))


def inverse_hyperbolic_sine(x: Array) -> Array:
    """arsinh x = log(1 + |x| + x²/(1 + √(1 + x²))), with its sign; error ≤ 1.25 ulp."""
    size = abs(x)
    square = size * size
    t, lost = _quick_sum(size, square / (1 + lax.sqrt(1 + square)))
    return _signed(_logarithm_of_sum(size, t, lost), x)


def inverse_hyperbolic_cosine(x: Array) -> Array:
    """arcosh x = log(1 + t + √(t (t + 2))) with t = x − 1; error ≤ 1.75 ulp."""
    less = x - 1
    t, lost = _quick_sum(lax.sqrt(less * (less + 2)), less)
    return _where(x < 1, np.nan, _logarithm_of_sum(x, t, lost))


def _logarithm_of_sum(x: Array, t: Array, lost: Array) -> Array:
    """log(1 + t + lost), or log(2 x) where x is so large that the one is its rounding."""
    large = x > 2.0**30
    u, lost_too = _sum(1.0, t)
    rest = _where(large, 0.0, (lost + lost_too) / u)
    u = _where(large, x, u)
    k, m = _binary(u)
    return _logarithm(u, k + _where(large, 1.0, 0.0), m, rest)


def inverse_hyperbolic_tangent(x: Array) -> Array:
    """artanh x = log(1 + 2|x| + 2x²/(1 − |x|))/2, with its sign; error ≤ 1.7 ulp."""
    size = abs(x)
    twice = 2 * size
    u, lost = _sum(1.0, twice + twice * (size / (1 - size)))
    value = _signed(0.5 * _logarithm(u, *_binary(u), lost / u), x)
    return _where(size < 2.0**-28, x, _where(size > 1, np.nan, value))


def power(x: Array, y: Array) -> Array:
    """x^y as in IEEE 754: NaN for x < 0 but where y is whole; x^0 = 1^y = 1; error ≤ 1.3 ulp."""
    size = abs(x)
    exponent = _at_most(_at_least(y, -(2.0**70)), 2.0**70)
    high, low = _binary_logarithm(size)
    y_top = _top(exponent)
    z, lost = y_top * high, (exponent - y_top) * high + exponent * low
    total = z + lost
    outside = abs(total) > 1100
    z = _where(outside, _at_most(_at_least(total, -1100.0), 1100.0), z)
    lost = _where(outside, 0.0, lost)
    value = _power_of_two_of_sum(z, lost)

    whole = lax.floor(y) == y
    odd = whole & (lax.floor(0.5 * y) != 0.5 * y)
    grows = (y > 0) == (size > 1)
    value = _where((size == 0) | (size == np.inf), _where(grows, np.inf, 0.0), value)
    value = _where((x < 0) & ~whole & (size < np.inf), np.nan, value)
    value = _number(lax.select(odd, _bits(value) | (_bits(x) & SIGN), _bits(value)))
    value = _where((x != x) | (y != y), np.nan, value)
    return _where((y == 0) | (x == 1), 1.0, value)


def _binary_logarithm(x: Array) -> tuple[Array, Array]:
    """log₂ x of a positive number as a sum, the first with 26 bits; relative error about 2^−66 (fdlibm's e_pow.c)."""
    k, m = _binary_of_any(x)
    f, d = m - 1, m + 1
    inverse = 1 / d
    s = f * inverse
    s_top, d_top = _top(s), _top(d)
    s_rest = inverse * ((f - s_top * d_top) - s_top * (m - (d_top - 1)))
    # log m = 2/3 s (3 + s² + z² P(z)), z = s²
    z = s * s
    more = z * z * _polynomial(LOGARITHM_TAIL, z) + s_rest * (s_top + s)
    square = s_top * s_top
    sum_top = _top(3 + square + more)
    sum_rest = more - ((sum_top - 3) - square)
    u = s_top * sum_top
    v = s_rest * sum_top + sum_rest * s
    of_m = _top(u + v)
    of_m_rest = v - (of_m - u)
    a = UNIT_TOP * of_m
    b = UNIT_REST * of_m + of_m_rest * UNIT
    high = _top((a + b) + k)
    return high, b - ((high - k) - a)


def _power_of_two_of_sum(z: Array, rest: Array) -> Array:
    """2^(z + rest)."""
    k, n = _rounded(z + rest)
    part = z - k
    r = part + rest
    r_rest = (part - r) + rest
    r_top = _top(r)
    exact = r_top * LOG_2_TOP
    more = (r - r_top) * LOG_2_WHOLE + (r_top * LOG_2_BELOW + r_rest * LOG_2_WHOLE)
    t = exact + more
    more = (exact - t) + more
    return _scaled(1 + (t + (t * t * _polynomial(EXPONENTIAL, t) + more)), n)


def cube_root(x: Array) -> Array:
    """∛x: a polynomial's, improved by one step of Halley's method; error ≤ 0.75 ulp."""
    size = abs(x)
    tiny = size < LEAST_NORMAL
    bits = _bits(_where(tiny, size * 2.0**54, size))
    m = _number((bits & MANTISSA) | ONE)
    # With e the biased exponent, e − 1 = 3 q + j, j = −1, 0, 1; and 3 · 341 = 1023.
    less = _number(lax.shift_right_logical(bits, np.int64(52)) | INTEGER_BITS) - (INTEGERS + 1)
    q, q_bits = _rounded(less * (1 / 3))
    j = less - 3 * q
    m = m * _where(j > 0, 4.0, _where(j < 0, 1.0, 2.0))
    guess = _polynomial(CUBE_ROOT, _number((bits & MANTISSA) | ONE))
    guess = guess * _where(j > 0, 4 ** (1 / 3), _where(j < 0, 1.0, 2 ** (1 / 3)))
    t = _top(guess)
    quotient = m / (t * t)
    root = t + t * ((quotient - t) / (2 * t + quotient))
    shift = 341 + 18 * tiny.astype(bits.dtype)
    root = _signed(_number(_bits(root) + ((q_bits - shift) << 52)), x)
    return _where((size > 0) & (size < np.inf), root, x)


def reciprocal_root(x: Array) -> Array:
    """1/√x; error ≤ 1.55 ulp."""
    return 1 / lax.sqrt(x)


# ------------------------------------------------------------------------------------------------------ error function


def _error_parts(x: Array) -> tuple[Array, Array, Array]:
    """(|x|, erf |x| for |x| ≤ 1, erfc |x| for |x| ≥ 1/2)."""
    size = abs(x)
    z = size * size
    small = size + size * _polynomial(ERROR, z)
    a = _at_most(size, 28.0)
    top = _top(a)
    n, r, q = _reduced_exponent(-(top * top), (a - top) * (a + top))
    more, of_tail = r + q, _polynomial(ERROR_TAIL, (a - 4) / (a + 4))
    product, lost = _quick_sum(1.0, r + (q + (of_tail + more * of_tail)))
    # (product + lost)/(1 + 2 a): 26 digits of the quotient, and what is left of the product divided by the same
    below = 1 + 2 * a
    below_top = _top(below)
    below_rest = 2 * a - (below_top - 1)
    inverse = 1 / below
    quotient = _top(product * inverse)
    left = (product - quotient * below_top) + (lost - quotient * below_rest)
    return size, small, _scaled(quotient + left * inverse, n)


def error_function(x: Array) -> Array:
    """erf x; error ≤ 1.55 ulp."""
    size, small, tail = _error_parts(x)
    return _signed(_where(size < 1, small, 1 - tail), x)


def complementary_error_function(x: Array) -> Array:
    """1 − erf x; error ≤ 1.85 ulp."""
    size, small, tail = _error_parts(x)
    near = 1 - _signed(small, x)
    return _where(size < 0.5, near, _where(x < 0, 2 - tail, tail))


# ------------------------------------------------------------------------------------------------------- remainders


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

    def divided(state: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, left = state
        digits = lax.clamp(np.int64(0), left, np.int64(10))
        return lax.rem(lax.shift_left(rest, digits), divisor), left - digits

    left = lax.select(is_number & (size >= unit), size - unit, np.zeros(size.shape, np.int64))
    rest, _ = lax.while_loop(goes_on, divided, (lax.rem(first, divisor), left))
    half = lax.shift_right_arithmetic(unit - 1075, np.int64(1))  # In two factors: both are normal numbers.
    found = rest.astype(np.float64) * _power_of_two(half) * _power_of_two(unit - 1075 - half)
    return _where(is_number, _where(abs(x) < abs(y), x, _signed(found, x)), np.nan)


def _whole(x: Array) -> tuple[Array, Array]:
    """(m, k), whole numbers, with |x| = m 2^(k − 1075)."""
    bits = _bits(x) & ~SIGN
    exponent = lax.shift_right_logical(bits, np.int64(52))
    # Numbers below the normal ones have no first digit that is not written.
    first_digit = lax.select(exponent > 0, np.full(bits.shape, MANTISSA + 1), np.zeros(bits.shape, np.int64))
    return (bits & MANTISSA) | first_digit, lax.max(exponent, np.int64(1))


FORMULAS: dict[str, Callable[..., Array]] = {
    "sin": sine,
    "cos": cosine,
    "tan": tangent,
    "asin": arcsine,
    "acos": arccosine,
    "atan": arctangent,
    "atan2": arctangent_of_two,
    "exp": exponential,
    "exp2": power_of_two,
    "expm1": exponential_less_one,
    "sinh": hyperbolic_sine,
    "cosh": hyperbolic_cosine,
    "tanh": hyperbolic_tangent,
    "logistic": logistic,
    "log": logarithm,
    "log1p": logarithm_of_one_and,
    "asinh": inverse_hyperbolic_sine,
    "acosh": inverse_hyperbolic_cosine,
    "atanh": inverse_hyperbolic_tangent,
    "pow": power,
    "cbrt": cube_root,
    "rsqrt": reciprocal_root,
    "erf": error_function,
    "erfc": complementary_error_function,
}

FORMULAS_OF_GRAPHICS = FORMULAS | {"rem": remainder}

# What is long and seldom needed: of the function that chooses it, the one that computes it, of one number.
SELDOM: dict[str, Callable[[Array], tuple[Array, ...]]] = {
    reduced_where_far.__name__: _reduced_far  # pyright: ignore[reportAttributeAccessIssue]: `jit` keeps the name
}
