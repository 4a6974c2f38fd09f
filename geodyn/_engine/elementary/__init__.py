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
