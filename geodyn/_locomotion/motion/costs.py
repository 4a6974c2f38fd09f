"""MOTION: costs of a stroke, as densities (swimmer, r, r') → power that `gd.cost` integrates over the period.

Any function of this form can be used, and any (swimmer, r, r', r'') that takes accelerations. For the energy and length
of a stroke in the shape metric G, energy ≥ length², with equality if the power is constant (Cauchy and Schwarz).
"""

import inspect
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer

from geodyn._engine.jit import jit, unwrapped
from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.checks import one_number, returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Scalar, TypeAliasType
from geodyn._locomotion.connections.checks import require_defined, require_positive
from geodyn._locomotion.connections.connection import (
    AbstractInvariantMetric,
    AbstractSwimmer,
    check_law,
    law,
    power_of,
    reduction,
)
from geodyn._locomotion.connections.force_balance import AbstractForceBalance
from geodyn._locomotion.connections.locomotion import AbstractLocomotion
from geodyn._locomotion.strokes.stroke import floating

Costly = AbstractInvariantMetric | AbstractForceBalance
"""Bodies whose strokes have a cost: those with a metric of shapes, and those that balance forces."""

Density = TypeAliasType(
    "Density",
    Callable[[Costly, Float[Array, " m"], Float[Array, " m"]], Scalar]
    | Callable[[Costly, Float[Array, " m"], Float[Array, " m"], Float[Array, " m"]], Scalar],
)


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
    _require_metric(swimmer, r)
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
    # At rest the root is not taken of 0, where its derivative is infinite.
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
    _require_metric(swimmer, r)
    return jnp.sum((reduction(swimmer, r)[1] @ rdot) ** 2)  # The second of the reduction is the metric.


@checked
def covariant_acceleration(
    swimmer: AbstractInvariantMetric, r: Float[Array, " m"], rdot: Float[Array, " m"], rddot: Float[Array, " m"]
) -> Scalar:
    """The square of the acceleration on the space of shapes, `aᵀ G a` with `a = ∇r'/dt` of its metric G.

    In coordinates `a = r'' + Γ(r', r')`, with the Christoffel symbols of G, so that the number does not depend on the
    choice of shape variables. It is 0 along a geodesic of G, on which a free body without momentum changes its shape by
    itself. A density for `gd.cost` and `gd.optimal_stroke`.

    Args:
        swimmer: body with a metric of shapes.
        r: shape [m].
        rdot: rate r' [m].
        rddot: rate of the rate, r'' [m].

    Returns:
        The square of the acceleration, a number.

    Example:
        The plane in polar coordinates: on a circle of radius 2 at the angular velocity 3 it is `(2 · 3²)²`.

        >>> polar = gd.bundles.KaluzaKlein(gd.swimmers.KinematicCar(), lambda r: jnp.diag(jnp.stack([1.0, r[0] ** 2])))
        >>> at = jnp.array([2.0, 0.0]), jnp.array([0.0, 3.0]), jnp.zeros(2)
        >>> print(f"{gd.costs.covariant_acceleration(polar, *at):.6f}")
        324.000000

    Source:
        Hatton et al., *IEEE Trans. Robot.* 38 (2022) 3279 (the cost); do Carmo, *Riemannian Geometry* (1992), chapter
        2.
    """
    _require_metric(swimmer, r)
    metric, forces = _metric_and_forces(swimmer, r, rdot, rddot)
    return forces @ solve(metric, forces)


@checked
def inertial_torque(
    swimmer: AbstractInvariantMetric, r: Float[Array, " m"], rdot: Float[Array, " m"], rddot: Float[Array, " m"]
) -> Scalar:
    """The square of the forces on the shape variables of a body with kinetic energy, `|τ|²`; a density for `gd.cost`.

    By the Euler–Lagrange equations of the body with no momentum, `τ = d/dt (G r') − ½ r'ᵀ ∂G r'`: what its motors have
    to do against its own inertia, and against that of the fluid around it.

    Args:
        swimmer: body whose metric is its kinetic energy, such as a `gd.bundles.AbstractDeformableBody`.
        r: shape [m].
        rdot: rate r' [m].
        rddot: rate of the rate, r'' [m].

    Returns:
        |τ|², a number.

    Raises:
        ValueError: for a swimmer without inertia, whose torques are those of `gd.costs.torque`.

    Example:
        Two discs of inertia 3 and 1 on one axle, free to turn together: the motor between them feels 3 · 1/(3 + 1).

        >>> beanie = gd.swimmers.Beanie(inertias=(3.0, 1.0))
        >>> at = jnp.array([0.0]), jnp.array([2.0]), jnp.array([4.0])
        >>> print(f"{gd.costs.inertial_torque(beanie, *at):.6f} {(3.0 * 1.0 / (3.0 + 1.0) * 4.0) ** 2:.6f}")
        9.000000 9.000000

    Source:
        Hatton et al., *IEEE Trans. Robot.* 38 (2022) 3279.
    """
    if isinstance(swimmer, AbstractSwimmer):
        raise ValueError(
            f"inertial_torque: {type(swimmer).__name__} has no inertia, its metric is the power that it dissipates: its"
            " torques are those of gd.costs.torque."
        )
    _require_metric(swimmer, r)
    _, forces = _metric_and_forces(swimmer, r, rdot, rddot)
    return jnp.sum(forces**2)


def _metric_and_forces(
    swimmer: AbstractInvariantMetric, r: Float[Array, " m"], rdot: Float[Array, " m"], rddot: Float[Array, " m"]
) -> tuple[Float[Array, "m m"], Float[Array, " m"]]:
    """The metric G, and `d/dt (G r') − ½ r'ᵀ ∂G r'`, which is G times the acceleration."""

    def metric_twice(r: Float[Array, " m"]) -> tuple[Float[Array, "m m"], Float[Array, "m m"]]:
        """The metric to be differentiated, and again as what jacfwd returns besides the derivative."""
        metric = reduction(swimmer, r)[1]
        return metric, metric

    slope, metric = jax.jacfwd(metric_twice, has_aux=True)(r)  # slope[i, j, k] = ∂_k G_ij
    momentum_slope = jnp.sum(slope * rdot[None, :, None], axis=1)  # [i, k] = ∂_k G_ij r'^j
    return metric, metric @ rddot + momentum_slope @ rdot - rdot @ momentum_slope / 2


@checked
class PeakRate(eqx.Module):
    """The highest rate of a shape variable, as the mean of a high power p of the rates; a density for `gd.cost`.

    It is `Σ |r'_i/limit_i|^p / m`. The root `cost^(1/p)` of what it gives for a stroke is at most the highest
    `|r'_i|/limit_i` along it, and nears that for high p: the least time that the stroke takes where no motor may be
    faster than its limit. For higher p the rates of a best stroke jump more suddenly from limit to limit, which takes
    more harmonics; with 16 of them the search finds strokes up to p = 8.

    Args:
        power: p, even, at least 2.
        limits: of the rates, [m] or one number; they are compared in these units.

    Raises:
        ValueError: unless the power is even and at least 2, and the limits are positive.

    Example:
        An ellipse of which one motor is twice as fast as the other; the highest rate is 2π.

        >>> ellipse = gd.FourierStroke([0.0, 0.0], [[1.0], [0.0]], [[0.0], [0.5]])
        >>> for power in (8, 64):
        ...     highest = gd.cost(gd.swimmers.Purcell(), ellipse, density=gd.costs.PeakRate(power))
        ...     print(f"{highest ** (1 / power):.3f}")
        4.902
        5.995
    """

    power: Count = eqx.field(static=True, default=8)
    limits: Float[Array, "..."] = eqx.field(default=1.0, converter=floating)

    def __check_init__(self):
        if self.power < 2 or self.power % 2:
            raise ValueError(f"PeakRate: power must be even and at least 2, got {self.power}; 8 suits most searches.")
        require_positive("PeakRate", limits=self.limits)

    def __call__(self, swimmer: Costly, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> Scalar:
        """The mean of the powers of the rates."""
        if self.limits.shape not in ((), rdot.shape):
            raise ValueError(
                f"PeakRate: limits must be one number or one for each of the {rdot.size} shape variables, got shape"
                f" {self.limits.shape}."
            )
        return jnp.mean((rdot / self.limits) ** self.power)


def _require_metric(swimmer: AbstractLocomotion, r: Float[Array, " m"]) -> None:
    """Raise ValueError if what a swimmer gives as its metric is none at the shape r, such as one that is not positive;
    inside jit values are not known, and `gd.cost` checks them outside."""
    if not isinstance(r, Tracer):
        require_defined("cost", swimmer, check_law, r, _law(swimmer, r))


@jit
def _law(swimmer: AbstractLocomotion, r: Float[Array, " m"]) -> Scalar:
    return law(swimmer, r)


def derivatives_taken(density: Density) -> int:
    """How many derivatives of the shape a density takes: 2 if it is a function (swimmer, r, r', r''), else 1."""
    try:
        parameters = inspect.signature(unwrapped(density)).parameters.values()
    except (TypeError, ValueError):  # Some built-in functions have no signature.
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    # Parameters with a default value are settings, as in `lambda swimmer, r, rdot, weight=2.0: …`, and no derivatives.
    required = [x for x in parameters if x.kind in positional and x.default is inspect.Parameter.empty]
    return 2 if len(required) > 3 else 1


def value_of(density: Density, swimmer: Costly, state: tuple[Float[Array, " m"], ...]):
    """The number that a density gives at a state (r, r', …); ValueError if it gives something else."""
    return one_number("density", returned("density", density, swimmer, *state))


def is_energy(density: Density) -> bool:
    """Whether a density is the function `energy`, also wrapped by `as_pytree`: of it more is known than of others."""
    return unwrapped(density) is energy
