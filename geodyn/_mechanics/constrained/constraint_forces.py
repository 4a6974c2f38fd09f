"""Constraint forces as functions of the state, with Baumgarte's stabilisation: a classical baseline for `RadauIIA`."""

import jax.numpy as jnp
import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Number, Scalar
from geodyn._integrators.contract.constraints import reactions
from geodyn._integrators.contract.system import AbstractSystem, constraint_rate
from geodyn._mechanics.elements.abstract import number


class ConstraintForces(AbstractSystem):
    """A system with constraints as one without, with the constraint forces as functions of the state; for any method.

    The multipliers solve `J M⁻¹Jᵀ λ = …`, for d²φ/dt² = 0 of holonomic and d(Av − b)/dt = 0 of nonholonomic
    constraints. So nothing brings back what the errors of the steps add up to: φ drifts away. With a rate `baumgarte` α
    > 0 it is `d²φ/dt² + 2α dφ/dt + α²φ = 0`, and α(Av − b) beside the rate of that, which bounds the drift; a
    large α is stiff. It is a baseline: `gd.RadauIIA` holds constraints to rounding. `multipliers(t, q, v)` are those
    of a state, flat.

    Args:
        system: a system with constraints.
        baumgarte: the rate α, in 1/time.

    Raises:
        ValueError: for a system without constraints, with contacts, dry friction or several charts, and for α < 0.

    Example:
        A pendulum, hanging at rest, is held by its weight; after a swing its rod has changed its length a little.

        >>> pendulum = gd.linkages.Linkage([(0, 1)], 1.0, {0: [0.0, 0.0]}, gravity=9.81)
        >>> free = gd.methods.ConstraintForces(pendulum)
        >>> print(free.multipliers(jnp.zeros(()), jnp.array([0.0, -1.0]), jnp.zeros(2)).round(6))
        [-9.81]
        >>> motion = gd.integrate(free, jnp.array([[1.0, 0.0]]), t1=2.0, steps=40, method=gd.Gauss(2))
        >>> print(f"{jnp.max(jnp.abs(jnp.linalg.norm(motion.q[:, 0], axis=1) - 1)):.0e}")
        6e-06

    Source:
        Baraff, SIGGRAPH 96, 137; Baumgarte, *Comput. Methods Appl. Mech. Eng.* 1 (1972) 1.
    """

    system: AbstractSystem
    baumgarte: Scalar

    @checked
    def __init__(self, system: AbstractSystem, baumgarte: Number = 0.0):
        require_plain("ConstraintForces", system)
        self.system, self.baumgarte = system, number("baumgarte", baumgarte)

    @checked
    def multipliers(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " c"]:
        """λ of all constraints, holonomic ones first."""
        residual, rate = self.system.constraint(t, q), constraint_rate(self.system, t, q, v)
        alpha, bound = self.baumgarte.astype(q.dtype), rate.size - residual.size
        weights = alpha * jnp.concatenate([jnp.full(residual.size, 2.0, q.dtype), jnp.ones(bound, q.dtype)])
        wanted = -weights * rate - alpha**2 * jnp.concatenate([residual, jnp.zeros(bound, q.dtype)])
        return reactions(self.system, t, q, self.system.momentum(t, q, v), v, wanted)

    def force(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"], lam: Float[Array, " c"]) -> Array:
        return self.system.force(t, q, v, self.multipliers(t, q, v))

    def momentum(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Array:
        return self.system.momentum(t, q, v)

    def velocity(
        self, t: Number, q: Float[Array, " n"], p: Array, v: Float[Array, " n"] | None = None
    ) -> Float[Array, " n"]:
        return self.system.velocity(t, q, p, v)

    @property
    def starts_at_rest(self) -> bool:
        return self.system.starts_at_rest

    def constraint(self, t: Number, q: Float[Array, " n"]) -> Float[Array, " c"]:
        return jnp.zeros(0, q.dtype)

    def count_constraints(self, q: Array | np.ndarray) -> int:
        return 0

    def energy(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        return self.system.energy(t, q, v)

    def check(self, t: Number, q: np.ndarray, v: np.ndarray) -> None:
        if self.system.count_constraints(q) == 0:
            raise ValueError("system has no constraints, of which ConstraintForces would be: integrate it as it is")
        self.system.check(t, q, v)


def require_plain(name: str, system: object) -> None:
    """Raises ValueError unless `system` is a system without contacts, dry friction and several charts, which its
    wrapper `name` does not support."""
    if not isinstance(system, AbstractSystem):
        raise ValueError(f"system of {name} must be a System or Lagrangian; got {type(system).__name__}")
    if system.contacts is not None:
        raise ValueError(f"{name} knows no contacts: leave them out, or integrate the system itself by gd.RadauIIA(3)")
    if not system.is_smooth:
        raise ValueError(
            f"{name} knows no dry friction: integrate the system itself with method=gd.friction.IncrementalPotential()"
        )
    if system.charts is not None:
        raise ValueError(f"{name} needs a space of a single chart: give the space another chart")
