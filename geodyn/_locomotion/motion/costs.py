"""MOTION: costs of a stroke, as densities (swimmer, r, r') → power that `gd.cost` integrates over the period.

Any function of this form can be used. For the energy and length of a stroke in the shape metric G, energy ≥ length²,
with equality if the power is constant (Cauchy and Schwarz).
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax.core import Tracer

from geodyn._engine.jit import jit
from geodyn._foundations.checks import one_number, returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Scalar, TypeAliasType
from geodyn._locomotion.connections.checks import require_defined
from geodyn._locomotion.connections.connection import AbstractInvariantMetric, check_law, law, power_of, reduction
from geodyn._locomotion.connections.force_balance import AbstractForceBalance
from geodyn._locomotion.connections.locomotion import AbstractLocomotion

Costly = AbstractInvariantMetric | AbstractForceBalance
"""What strokes of a body cost: bodies with a metric of shapes, and those that balance forces."""

Density = TypeAliasType("Density", Callable[[Costly, Float[Array, " m"], Float[Array, " m"]], Scalar])


@checked
def energy(swimmer: Costly, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> Scalar:
    """The power of a swimmer at the shape r and the rate r', `r'ᵀ G r'` of a metric G; the default cost of a stroke.

    Its integral over the period 1 is the energy of a stroke. It is the square of the length where the power is
    constant, and never less (Cauchy and Schwarz).

    Args:
        swimmer: body with a metric of shapes, or one that balances forces.
        r: shape [m].
        rdot: rate r' [m].

    Returns:
        The power, a number; for a free body, twice its kinetic energy.

    Example:
        >>> beanie = gd.swimmers.Beanie(inertias=(3.0, 1.0))
        >>> print(gd.costs.energy(beanie, jnp.array([0.0]), jnp.array([2.0])), 3.0 * 1.0 / (3.0 + 1.0) * 2.0**2)
        3.0 3.0
    """
    _ask(swimmer, r)
    return power_of(swimmer, r, rdot)


@checked
def length(swimmer: AbstractInvariantMetric, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> Scalar:
    """The speed on the space of shapes, `√(r'ᵀ G r')`; a density for `gd.cost`.

    Its integral is the length of a stroke, the same at any pace. So it is no density for `gd.optimal_stroke`: the
    stroke of least energy is also a shortest one.

    Args:
        swimmer: body with a metric of shapes.
        r: shape [m].
        rdot: rate r' [m].

    Returns:
        The speed, a number; 0 with the derivative 0 where the shape rests.

    Example:
        The same circle at a pace that varies: more energy, the same length.

        >>> def unsteady(t):
        ...     angle = 2 * jnp.pi * t + 0.5 * jnp.sin(2 * jnp.pi * t)
        ...     return jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        >>> cat, steady = gd.swimmers.FallingCat(), gd.FourierStroke.circle(1.0)
        >>> print([f"{gd.cost(cat, s, density=gd.costs.length):.6f} {gd.cost(cat, s):.6f}" for s in (steady, unsteady)])
        ['2.716284 7.378198', '2.716284 8.300473']
    """
    power = energy(swimmer, r, rdot)
    moving = power > 0
    return jnp.where(moving, jnp.sqrt(jnp.where(moving, power, 1.0)), 0.0)


@checked
def torque(swimmer: AbstractInvariantMetric, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> Scalar:
    """The square of the forces on the shape variables, `|τ|²` with `τ = G r'`; a density for `gd.cost`.

    The forces are torques of hinges and forces of arms, those that drive a swimmer without inertia.

    Args:
        swimmer: body with a metric of shapes.
        r: shape [m].
        rdot: rate r' [m].

    Returns:
        |τ|², a number.

    Example:
        >>> swimmer, r, rdot = gd.swimmers.Purcell(), jnp.array([0.3, 0.5]), jnp.array([1.0, -0.5])
        >>> torques = gd.shape_metric(swimmer, r) @ rdot
        >>> print(f"{gd.costs.torque(swimmer, r, rdot):.6f} {torques @ torques:.6f}")
        0.019957 0.019957
    """
    _ask(swimmer, r)
    return jnp.sum((reduction(swimmer, r)[1] @ rdot) ** 2)


def _ask(swimmer: AbstractLocomotion, r: Float[Array, " m"]) -> None:
    """Raises ValueError if the metric of a swimmer is none; inside jit `gd.cost` asks."""
    if not isinstance(r, Tracer):
        require_defined("cost", swimmer, check_law, r, _law(swimmer, r))


@jit
def _law(swimmer: AbstractLocomotion, r: Float[Array, " m"]) -> Scalar:
    return law(swimmer, r)


def value_of(density: Density, swimmer: Costly, r: Float[Array, " m"], rdot: Float[Array, " m"]):
    """The number that a density gives at the shape r and the rate r'; ValueError if it gives something else."""
    return one_number("density", returned("density", density, swimmer, r, rdot))


def is_energy(density: Density) -> bool:
    """Whether a density is the function `energy`, which is known to be quadratic in r', also wrapped by `as_pytree`."""
    return getattr(density, "func", density) is energy
