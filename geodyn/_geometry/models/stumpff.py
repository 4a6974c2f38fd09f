"""Stumpff's functions: trigonometric functions of an angle, divided by its powers, written in its square.

They are exact to rounding and smooth where the angle is zero. Source: Battin, *Astrodynamics* (1999), section 4.5.
"""

from math import factorial

import jax.numpy as jnp

from geodyn._foundations.typing import Array, Scalar


def _split(y: Scalar) -> tuple[Array, Scalar, Scalar]:
    """(whether y is small, y for the series, y for the closed form). In the formula that is not used, y is replaced by
    0 or by 1, so that it stays finite."""
    small = y < 1.0
    low = jnp.where(small, y, 0.0)
    high = jnp.where(small, 1.0, y)
    return small, low, high


def _series(k: int, y: Scalar) -> Scalar:
    """Stumpff's `c_k(y) = Σ_n (−y)ⁿ/(2n+k)!` for |y| < 1."""
    total = jnp.full_like(y, 1 / factorial(20 + k))
    for n in range(9, -1, -1):
        total = 1 / factorial(2 * n + k) - y * total
    return total


def sine_ratio(y: Scalar) -> Scalar:
    """Stumpff's `c_1 = sin θ/θ` with y = θ²."""
    small, low, high = _split(y)
    angle = jnp.sqrt(high)
    return jnp.where(small, _series(1, low), jnp.sin(angle) / angle)


def stumpff(y: Scalar) -> tuple[Scalar, ...]:
    """Stumpff's c_k, k = 1…4: `sin θ/θ`, `(1−cos θ)/θ²`, … with y = θ²."""
    small, low, high = _split(y)
    # c₁ and c₂ follow from c₃ and c₄ by cₖ = 1/k! − y cₖ₊₂, and these from those where they are not small.
    c3 = _series(3, low)
    c4 = _series(4, low)
    series = (1 - low * c3, 0.5 - low * c4, c3, c4)
    angle = jnp.sqrt(high)
    d1 = jnp.sin(angle) / angle
    d2 = (1 - jnp.cos(angle)) / high
    closed = (d1, d2, (1 - d1) / high, (0.5 - d2) / high)
    return tuple(jnp.where(small, a, b) for a, b in zip(series, closed, strict=True))
