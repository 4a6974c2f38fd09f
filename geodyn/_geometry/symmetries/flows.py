"""Motions along the Killing fields that were found in a space."""

import jax.numpy as jnp

from geodyn._engine.jit import jit
from geodyn._foundations.typing import Array, Float
from geodyn._geometry.groups.frames import carry_frame, frame_at
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._geometry.symmetries.fields import Seeds, pairs_at


@jit
def carried_along(
    space: AbstractManifold, seeds: Seeds, xi: Float[Array, " K"], x: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Where the flow of the Killing field Σ ξ_a K_a takes x in unit time; NaN where it is not found."""
    fields, slopes = pairs_at(space, seeds, x)
    return carry_frame(space, frame_at(x), xi @ fields, jnp.tensordot(xi, slopes, 1))[:-1, -1]
