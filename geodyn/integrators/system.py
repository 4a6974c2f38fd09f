"""The contract between time and matter: what a system tells the integrator, and no more."""

import abc
import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._checks import check_arguments, returned
from geodyn._compile.jit import as_pytree
from geodyn._typing import Array, Float, Int, Scalar


class Couplings(NamedTuple):
    """What depends on what in a body of as many `points`, which have equally many coordinates each: `joined`, the sets
    of points that act on one another; `rows`, the points of each constraint; whether the sets also act by way of
    velocities. The metric is that of each point by itself."""

    points: int
    joined: tuple[tuple[int, ...], ...]
    rows: tuple[tuple[int, ...], ...]
    by_velocity: bool


class AbstractSystem(eqx.Module):
    """A system in position and momentum, on flat arrays q[n], v[n], p[n], λ[c]:

        q' = v,   p' = force(t, q, v, λ),   0 = residual(t, q, v, p, λ),   v = velocity(t, q, p).

    Momentum rather than velocity because Gauss collocation is symplectic in (q, p) and not in (q, v) when the metric
    depends on q. A first-order equation y' = f(t, y) has an empty momentum.
    """

    @abc.abstractmethod
    def force(self, t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"], lam: Float[Array, " c"]) -> Array:
        """p' = ∂L/∂q − ∂R/∂v + φ'ᵀλ."""

    @abc.abstractmethod
    def momentum(self, t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"]) -> Array:
        """p = ∂L/∂v."""

    @abc.abstractmethod
    def velocity(self, t: Scalar, q: Float[Array, " n"], p: Array, v: Array | None = None) -> Float[Array, " n"]:
        """The v with momentum(t, q, v) = p; given a v near it, one Newton correction of that (exact for kinetic
        energies quadratic in v)."""

    @abc.abstractmethod
    def constraint(self, t: Scalar, q: Float[Array, " n"]) -> Float[Array, " c"]:
        """Holonomic constraints φ(t, q) = 0."""

    @abc.abstractmethod
    def count_constraints(self, q: Array) -> int:
        """The number of multipliers λ at a q of this shape: of the holonomic constraints, then of the nonholonomic."""

    @abc.abstractmethod
    def energy(self, t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        """<p, v> − L."""

    @abc.abstractmethod
    def check(self, t: Scalar, q: np.ndarray, v: np.ndarray | None) -> None:
        """Raises ValueError where a concrete initial position and velocity, in the user's shapes, do not fit."""

    @property
    def starts_at_rest(self) -> bool:
        """Whether a motion without v0 does; else it has to be told how it starts, or has no velocity of its own."""
        return False

    @property
    def couplings(self) -> Couplings | None:
        """What depends on what, for the linear algebra of large bodies; None where everything may on everything."""
        return None

    @property
    def is_smooth(self) -> bool:
        """Whether forces are functions of (t, q, v) alone: not with dry friction, nor with plasticity."""
        return True

    @property
    def shares_jacobian(self) -> bool:
        """Whether Newton's method may take one Jacobian for all stages of a step."""
        return True

    def residual(self, t, q, v, p, lam) -> tuple[Array, Array, Array]:
        """(∂L/∂v − p, φ(q), A(q)v − b): what vanishes along a motion."""
        return self.momentum(t, q, v) - p, self.constraint(t, q), pfaffian(self, t, q, v)


class AbstractNonholonomicSystem(AbstractSystem):
    """A system whose velocities are bound as well, A(t, q)v = b(t, q), by reactions Aᵀλ that do no work on the
    velocities with Av = 0 (Lagrange–d'Alembert; Bloch, Nonholonomic Mechanics and Control, 1.3)."""

    @abc.abstractmethod
    def pfaffian(self, t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " k"]:
        """A(t, q)v − b(t, q)."""


def pfaffian(system: AbstractSystem, t, q, v) -> Float[Array, " k"]:
    """A v − b of the nonholonomic constraints, of which a system may have none."""
    return system.pfaffian(t, q, v) if isinstance(system, AbstractNonholonomicSystem) else jnp.zeros(0, q.dtype)


def constraint_rate(system: AbstractSystem, t, q, v) -> Float[Array, " c"]:
    """All constraints as bounds of the velocity: dφ/dt = φ_t + φ_q v, then A v − b."""
    rate = jax.jvp(system.constraint, (t, q), (jnp.ones_like(t), v))[1]
    return jnp.concatenate([rate, pfaffian(system, t, q, v)])


class Neighbours(NamedTuple):
    """The contacts that are watched, of many: `which` [K]. None of the others can close before two points have together
    travelled further than `room` (the lists of Verlet, Phys. Rev. 159 (1967) 98; by the triangle inequality they hold
    for any distance)."""

    which: Int[Array, " K"]
    room: Scalar


class AbstractCollidingSystem(AbstractSystem):
    """A system with unilateral contacts gap(t, q) ≥ 0, at which it is reflected."""

    @abc.abstractmethod
    def gap(self, t: Scalar, q: Float[Array, " n"], which: Int[Array, " K"] | None = None) -> Float[Array, " g"]:
        """What stays ≥ 0: the room that is left at every contact, or at those of the numbers `which`."""

    @abc.abstractmethod
    def restitution(self, q: Float[Array, " n"], which: Int[Array, " K"] | None = None) -> Float[Array, " g"]:
        """Newton's coefficient of these contacts: rate of separation over rate of approach, from 0 to 1."""

    @abc.abstractmethod
    def friction(self, q: Float[Array, " n"], which: Int[Array, " K"] | None = None) -> Float[Array, " g"]:
        """Coulomb's coefficient of these contacts."""

    @abc.abstractmethod
    def slip(self, t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"], which: Int[Array, " K"] | None = None):
        """[g, s]: the velocities along these contacts, affine in v, orthonormal in the units of the gaps' rates."""

    @property
    @abc.abstractmethod
    def frictional(self) -> bool:
        """Whether any contact has friction; if not, `friction` and `slip` are not asked for."""

    @abc.abstractmethod
    def neighbours(self, t: Scalar, q: Float[Array, " n"]) -> Neighbours | None:
        """Of many contacts those that are near; None where there are so few that all are watched."""

    @abc.abstractmethod
    def closing(self, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        """A bound of the rate at which the `room` of neighbours is used up."""

    @abc.abstractmethod
    def without_idle(self, q: Float[Array, " n"], p: Float[Array, " n"]) -> tuple[Array, Array]:
        """(q, p) of the same state, where coordinates on which nothing depends are put back and have no momentum."""

    @property
    @abc.abstractmethod
    def jumping(self) -> bool:
        """Whether any gap jumps, so that no root of it is the moment of an impact."""

    @property
    @abc.abstractmethod
    def elastic(self) -> bool:
        """Whether all restitutions are known to be 1, so that no contact is followed to rest."""

    @abc.abstractmethod
    def with_rest(self) -> "AbstractCollidingSystem":
        """The same system, not `elastic`: its contacts may be at rest."""

    @property
    @abc.abstractmethod
    def has_contacts(self) -> bool:
        """Whether there are any."""


class AbstractChartedSystem(AbstractSystem):
    """A system whose configurations have several charts, between which it moves after a step.

    A `switch` is the numbers that say to which charts, zeros for none; a `frame` those that say where the charts stand
    by now, where they move with the system. Both are piecewise constant and have no derivatives.
    """

    @property
    @abc.abstractmethod
    def has_charts(self) -> bool:
        """Whether there are several."""

    @abc.abstractmethod
    def switch(self, q: Float[Array, " n"]) -> Float[Array, " s"]:
        """The switch to the charts that suit q, zeros if it is in them."""

    @abc.abstractmethod
    def switched(self, switch: Float[Array, " s"], q: Float[Array, " n"]) -> Float[Array, " n"]:
        """The same configuration in those charts; anything finite where the switch is zeros."""

    @abc.abstractmethod
    def start_frame(self, q: Float[Array, " n"]) -> Float[Array, " f"]:
        """The frame of the charts at the start of a motion."""

    @abc.abstractmethod
    def moved_frame(self, frame: Float[Array, " f"], switch: Float[Array, " s"]) -> Float[Array, " f"]:
        """The frame after a switch."""

    @abc.abstractmethod
    def from_frame(self, frame: Float[Array, " f"], q: Float[Array, " n"]) -> Float[Array, " n"]:
        """q of charts in this frame as the charts of the start have it."""

    @abc.abstractmethod
    def embedding(self, q: Float[Array, " n"]) -> Array:
        """The points in the embedding of their space, whatever their charts."""


class AbstractYieldingSystem(AbstractSystem):
    """A system in which some of the multipliers are the forces of springs that yield, and keep an energy."""

    @abc.abstractmethod
    def stored_energy(self, t: Scalar, q: Float[Array, " n"], lam: Array) -> Scalar:
        """That energy."""


def total_energy(system: AbstractSystem, t, q, v, lam) -> Scalar:
    """The energy, with what multipliers keep of it."""
    keeps = isinstance(system, AbstractYieldingSystem) and not system.is_smooth
    return system.energy(t, q, v) + (system.stored_energy(t, q, lam) if keeps else 0)


class AbstractLagrangianSystem(AbstractSystem):
    """A system whose equations come from a Lagrangian, a Rayleigh function and its constraints by autodiff.

    d/dt ∂L/∂v = ∂L/∂q − ∂R/∂v + (φ'ᵀ Aᵀ)λ (Hairer, Lubich & Wanner VI.1 and VII.1; Goldstein 1.5 for R).
    """

    @abc.abstractmethod
    def lagrangian_at(self, t, q, v) -> Scalar:
        """L(t, q, v)."""

    @abc.abstractmethod
    def rayleigh_at(self, t, q, v) -> Scalar:
        """R(t, q, v): the force of dissipation is −∂R/∂v."""

    @property
    def starts_at_rest(self):
        return True

    def force(self, t, q, v, lam):
        applied = jax.grad(self.lagrangian_at, 1)(t, q, v) - jax.grad(self.rayleigh_at, 2)(t, q, v)
        if lam.size == 0:
            return applied
        return applied + jax.vjp(lambda v: constraint_rate(self, t, q, v), v)[1](lam)[0]

    def energy(self, t, q, v):
        return jnp.dot(self.momentum(t, q, v), v) - self.lagrangian_at(t, q, v)


class ODE(AbstractSystem):
    """A first-order equation y' = f(t, y), integrated with `v0=None`; `vector_field(t, y) -> [n]`."""

    vector_field: Callable

    def __init__(self, vector_field):
        if not callable(vector_field):
            raise ValueError(f"vector_field must be a function f(t, y), got {vector_field!r}")
        check_arguments("vector_field", vector_field, "t", "y", named=())
        self.vector_field = as_pytree(vector_field)

    def force(self, t, q, v, lam):
        return jnp.zeros(0, q.dtype)

    def momentum(self, t, q, v):
        return jnp.zeros(0, q.dtype)

    def velocity(self, t, q, p, v=None):
        return returned("vector_field", self.vector_field, t, q)

    def constraint(self, t, q):
        return jnp.zeros(0, q.dtype)

    def count_constraints(self, q):
        return 0

    def energy(self, t, q, v):
        raise ValueError("an ODE has no energy: give the system as a Lagrangian, or evaluate your own along .q")

    def check(self, t, q, v):
        if v is not None:
            raise ValueError("v0 of an ODE must be None: its velocity is the vector field at q0")
        got = jax.eval_shape(lambda q: self.velocity(jnp.zeros((), q.dtype), q, q[:0]), q.reshape(-1))
        if got.shape != (q.size,):
            raise ValueError(f"vector_field must return shape ({q.size},), the shape of y; got {got.shape}")


@functools.singledispatch
def rounding(system: AbstractSystem, q: Float[Array, " n"]) -> Scalar:
    """How many times the rounding unit is the relative error of what follows from the positions q, since these are
    rounded: 1, unless a system that knows its chart to be short of digits there registers here. Above 1e-4 the
    integration ends with a status."""
    return jnp.ones((), q.dtype)
