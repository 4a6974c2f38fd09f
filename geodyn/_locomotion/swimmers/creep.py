"""MOTION: links whose resistance depends on the direction of their velocity, but not on its size, as in sand.

Such a resistance jumps where a link comes to rest, so that it may balance at no velocity of the body. Therefore pieces
creep: below a small speed, which is a given part of the speed of the body, their resistance falls to zero with their
velocity. A link that would stick moves with about this speed.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._engine.numerics.roots import root, without_derivatives
from geodyn._foundations.typing import Array, Bool, Float, Int, Number, Scalar

CREEP = 0.6
"""The least creep is eps to this power: pieces creep below 4e-10 of the speed of the body in double precision."""

STAGE = 0.115
"""`creeping_guess` reduces the creep in each of its stages by this factor or a weaker one: in ten stages from 1 to the
least creep of double precision."""


class Lines(NamedTuple):
    """Links by their velocities `along` themselves, `across` themselves in the middle, and `turning`, `half` their
    lengths, and `reach`, the velocity along with the speed of creep added in quadrature, so that it is never 0."""

    along: Float[Array, " L"]
    across: Float[Array, " L"]
    turning: Float[Array, " L"]
    half: Float[Array, " L"]
    reach: Float[Array, " L"]


def creeping_lines(velocities: Float[Array, "L 3"], lengths: Float[Array, " L"], slow: Number) -> Lines:
    """The links, which creep below the speed `slow`."""
    along, across, turning = velocities.T
    half = lengths / 2
    reach = jnp.sqrt(along**2 + slow**2)
    # Forces are divided by the reach and by its square, also those of a body at rest: neither may be rounded to 0. The
    # square of this bound is tiny^0.8, and remains a normal number in products with other small ones.
    least = jnp.finfo(reach.dtype).tiny ** 0.4
    return Lines(along, across, turning, half, jnp.maximum(reach, least))


def speed_of(velocities: Float[Array, "L 3"], lengths: Float[Array, " L"]) -> Scalar:
    """The speed of all links together: the root of the sum of the squares of their velocities along and across and of
    those of their ends by turning."""
    along, across, turning = velocities.T
    return jnp.sqrt(jnp.sum(along**2 + across**2 + (turning * lengths / 2) ** 2))


def least_creep(dtype: Any) -> float:
    """The part of the speed of a body below which its pieces creep, in this precision, where no other is asked for."""
    return float(jnp.finfo(dtype).eps) ** CREEP


@jit
def creeping_guess(
    body: Any, r: Float[Array, " m"], rdot: Float[Array, " m"], start: Array, least: Scalar
) -> Float[Array, "3"]:
    """The velocity at which the forces `body.creeping_forces(velocities, creep)` balance for the creep `least`. It is
    found in stages of less and less creep, from `start`, which is nearly right for the creep 1. It has no derivatives.
    """
    # JAX cannot transpose a loop whose length depends on numbers.
    body, r, rdot, start, least = without_derivatives((body, r, rdot, start, least))
    zero = jnp.zeros_like(start)
    stages = jnp.ceil(jnp.log(least) / np.log(STAGE))

    def creep_less(i: Int[Array, ""], xi: Float[Array, "3"]) -> Float[Array, "3"]:
        creep = least ** ((i + 1) / stages)

        def resistance(xi: Float[Array, "3"]) -> Float[Array, "3"]:
            velocities, pull = jax.vjp(lambda xi: body.velocities(r, xi, rdot), xi)
            return pull(body.creeping_forces(velocities, creep))[0]

        found = root(resistance, zero, xi)
        # A stage that fails is left out.
        return jnp.where(jnp.isnan(found), xi, found)

    return jax.lax.fori_loop(0, stages.astype(int), creep_less, start)


def turns_about_itself(velocities: Float[Array, "L 3"], lengths: Float[Array, " L"]) -> Bool[Array, ""]:
    """Whether a link turns about a point of itself and moves along itself no faster than it creeps. The slope of the
    force along it is logarithmic there, infinite if it were not for the creep."""
    along, across, turning = jnp.abs(velocities.T)
    swept = turning * lengths / 2
    speed = jnp.sqrt(jnp.sum(along**2 + across**2 + swept**2))
    least = 10 * least_creep(velocities.dtype) * speed
    return jnp.any((along <= least) & (across <= swept) & (swept > least))


def inverse_tangent(d: Scalar, z: Float[Array, " n"]) -> Float[Array, " n"]:
    """`arctan(√d z) / √d`, which is `artanh(√−d z) / √−d` for negative d, and z for d = 0."""
    square = d * z**2
    is_small = jnp.abs(square) < 0.01
    # Near 0 the closed forms lose digits: there by the series Σ (−d z²)ᵏ/(2k + 1), summed by Horner's rule.
    series = jnp.zeros_like(z)
    for k in reversed(range(9)):
        series = 1 / (2 * k + 1) - square * series
    # Each of the closed forms is evaluated at a harmless number where another one is taken.
    not_small = jnp.where(is_small, 1.0, square)
    scale = jnp.sqrt(jnp.abs(not_small))
    positive = jnp.arctan2(jnp.where(not_small > 0, scale, 0.5), jnp.ones_like(scale))
    tanh = jnp.where(not_small < 0, scale, 0.5)
    negative = jnp.log((1 + tanh) / (1 - tanh)) / 2  # artanh
    closed = jnp.where(not_small > 0, positive, negative) / scale
    return z * jnp.where(is_small, series, closed)
