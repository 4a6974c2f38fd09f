"""The error function."""

from jax import Array

from geodyn._engine.elementary.bits import at_most, first_half, polynomial, quick_sum_and_loss, where, with_sign
from geodyn._engine.elementary.exponentials import reduce_exponent, times_two_to

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


def _error_parts(x: Array) -> tuple[Array, Array, Array]:
    """(|x|, erf |x| for |x| ≤ 1, erfc |x| for |x| ≥ 1/2)."""
    size = abs(x)
    z = size * size
    small = size + size * polynomial(ERROR, z)
    a = at_most(size, 28.0)
    top = first_half(a)
    n, r, q = reduce_exponent(-(top * top), (a - top) * (a + top))
    more, of_tail = r + q, polynomial(ERROR_TAIL, (a - 4) / (a + 4))
    product, lost = quick_sum_and_loss(1.0, r + (q + (of_tail + more * of_tail)))
    # (product + lost)/(1 + 2 a): 26 digits of the quotient, and what is left of the product divided by the same
    below = 1 + 2 * a
    below_top = first_half(below)
    below_rest = 2 * a - (below_top - 1)
    inverse = 1 / below
    quotient = first_half(product * inverse)
    left = (product - quotient * below_top) + (lost - quotient * below_rest)
    return size, small, times_two_to(quotient + left * inverse, n)


def error_function(x: Array) -> Array:
    """erf x; error ≤ 1.55 ulp."""
    size, small, tail = _error_parts(x)
    return with_sign(where(size < 1, small, 1 - tail), x)


def complementary_error_function(x: Array) -> Array:
    """1 − erf x; error ≤ 1.85 ulp."""
    size, small, tail = _error_parts(x)
    near = 1 - with_sign(small, x)
    return where(size < 0.5, near, where(x < 0, 2 - tail, tail))
