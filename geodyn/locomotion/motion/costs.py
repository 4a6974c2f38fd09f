"""MOTION: what a stroke costs: densities (swimmer, r, r') → power, which `gd.cost` integrates over the period.

Any function of that form is one. With the shape metric G: the energy is the square of the length where the power is
constant, and never less (Cauchy and Schwarz).
"""

from collections.abc import Callable

import jax.numpy as jnp

from geodyn._typing import Array, Float, Scalar, TypeAliasType
from geodyn.locomotion.connections.connection import AbstractInvariantMetric, reduction

Density = TypeAliasType("Density", Callable[[AbstractInvariantMetric, Float[Array, " m"], Float[Array, " m"]], Scalar])


def energy(swimmer: AbstractInvariantMetric, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> Scalar:
    """The power dissipated, `r'ᵀ G r'`."""
    return rdot @ reduction(swimmer, r)[1] @ rdot


def length(swimmer: AbstractInvariantMetric, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> Scalar:
    """The speed on the space of shapes, `√(r'ᵀ G r')`; its integral is the same at any pace."""
    power = energy(swimmer, r, rdot)
    moving = power > 0
    return jnp.where(moving, jnp.sqrt(jnp.where(moving, power, 1.0)), 0.0)


def torque(swimmer: AbstractInvariantMetric, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> Scalar:
    """The square of the forces on the shape variables, `|τ|²` with `τ = G r'`: torques of hinges, forces of arms."""
    return jnp.sum((reduction(swimmer, r)[1] @ rdot) ** 2)


def is_energy(density: Density) -> bool:
    """Whether a density is `energy`, whose form in r' is known: by itself, or as `as_pytree` wraps it."""
    return getattr(density, "func", density) is energy
