"""The interface between systems and integrators: base classes of systems, and first-order equations."""

import abc
import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import as_pytree
from geodyn._foundations.checks import check_arguments, returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Float, Number, Scalar
from geodyn._integrators.contract.charts import Charts
from geodyn._integrators.contract.contacts import Contacts


class Couplings(NamedTuple):
    """The sparsity of a body of `points` points with equally many coordinates each: `joined` are the sets of points
    that act on one another, `rows` the points of each constraint, and `by_velocity` says whether the points of a set
    also act by their velocities. The metric does not couple different points."""

    points: int
    joined: tuple[tuple[int, ...], ...]
    rows: tuple[tuple[int, ...], ...]
    by_velocity: bool


class AbstractSystem(eqx.Module):
    """A system in position and momentum; what the integrator has to know of it.

    On flat arrays q[n], v[n], p[n] and λ[c] it obeys

        q' = v,   p' = force(t, q, v, λ),   0 = residual(t, q, v, p, λ),   v = velocity(t, q, p).

    Momentum rather than velocity is integrated, because Gauss collocation is symplectic in (q, p) and not in (q, v)
    where the metric depends on q. A first-order equation y' = f(t, y) has an empty momentum. What a system may have in
    addition stands in properties, which are None where it has none: `pfaffian`, `contacts`, `charts`, `embedding`,
    `stored_energy`.

    A subclass has the methods `force`, `momentum`, `velocity`, `constraint`, `count_constraints`, `energy` and `check`.

    Example:
        A charge in the field of a magnetic monopole has no simple Lagrangian, but it has these equations. Its speed is
        constant.

        >>> class Monopole(gd.systems.AbstractSystem):
        ...     strength: float
        ...     def force(self, t, q, v, lam):
        ...         return self.strength * jnp.cross(v, q) / jnp.linalg.norm(q) ** 3
        ...     def momentum(self, t, q, v):
        ...         return v
        ...     def velocity(self, t, q, p, v=None):
        ...         return p
        ...     def constraint(self, t, q):
        ...         return jnp.zeros(0, q.dtype)
        ...     def count_constraints(self, q):
        ...         return 0
        ...     def energy(self, t, q, v):
        ...         return v @ v / 2
        ...     def check(self, t, q, v):
        ...         pass
        >>> trajectory = gd.integrate(Monopole(2.0), jnp.array([1.0, 0, 0]), jnp.array([0, 1.0, 0]), t1=3.0, steps=100)
        >>> print(f"{jnp.linalg.norm(trajectory.v[-1]):.6f}")
        1.000000
    """

    @abc.abstractmethod
    def force(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"], lam: Float[Array, " c"]) -> Array:
        """p' = ∂L/∂q − ∂R/∂v + φ'ᵀλ."""

    @abc.abstractmethod
    def momentum(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Array:
        """p = ∂L/∂v."""

    @abc.abstractmethod
    def velocity(self, t: Number, q: Float[Array, " n"], p: Array, v: Array | None = None) -> Float[Array, " n"]:
        """The v with momentum(t, q, v) = p. If a v near the solution is given, the result is one Newton correction of
        it, which is exact for kinetic energies quadratic in v."""

    @abc.abstractmethod
    def constraint(self, t: Number, q: Float[Array, " n"]) -> Float[Array, " c"]:
        """Holonomic constraints φ(t, q) = 0."""

    @abc.abstractmethod
    def count_constraints(self, q: Array | np.ndarray) -> int:
        """The number of multipliers λ for a q of this shape. Those of the holonomic constraints come first, then those
        of the nonholonomic ones."""

    @abc.abstractmethod
    def energy(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        """<p, v> − L."""

    @abc.abstractmethod
    def check(self, t: Number, q: np.ndarray, v: np.ndarray | None) -> None:
        """Raises ValueError if a concrete initial position and velocity, in the user's shapes, do not fit the
        system."""

    @property
    def starts_at_rest(self) -> bool:
        """Whether a motion without a given v0 starts from rest. Otherwise v0 is required, or follows from q0."""
        return False

    @property
    def couplings(self) -> Couplings | None:
        """The sparsity of the system, for the linear algebra of large bodies; None if everything may depend on
        everything."""
        return None

    @property
    def is_smooth(self) -> bool:
        """Whether forces are functions of (t, q, v) alone, which they are not with dry friction or plasticity."""
        return True

    @property
    def shares_jacobian(self) -> bool:
        """Whether Newton's method may take one Jacobian for all stages of a step."""
        return True

    @property
    def pfaffian(self) -> Callable | None:
        """Nonholonomic constraints (t, q, v) -> A(t, q)v − b(t, q) [k], whose reactions Aᵀλ do no work on the
        velocities with Av = 0 (Lagrange–d'Alembert; Bloch, Nonholonomic Mechanics and Control, 1.3)."""
        return None

    @property
    def contacts(self) -> Contacts | None:
        """Contacts at which the system is reflected."""
        return None

    @property
    def charts(self) -> Charts | None:
        """The charts of the configurations, if there are several."""
        return None

    @property
    def embedding(self) -> Callable | None:
        """Function q[n] -> the points in the embedding of their space, which does not depend on their charts."""
        return None

    @property
    def stored_energy(self) -> Callable | None:
        """Function (t, q, λ) -> the energy that is stored in multipliers, as by springs that yield."""
        return None

    def residual(
        self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"], p: Array, lam: Float[Array, " c"]
    ) -> tuple[Array, Array, Array]:
        """(∂L/∂v − p, φ(q), A(q)v − b), which vanish along a motion."""
        return self.momentum(t, q, v) - p, self.constraint(t, q), pfaffian(self, t, q, v)


def pfaffian(system: AbstractSystem, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " k"]:
    """A v − b of the nonholonomic constraints; empty for a system without any."""
    return jnp.zeros(0, q.dtype) if system.pfaffian is None else system.pfaffian(t, q, v)


def constraint_rate(
    system: AbstractSystem, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]
) -> Float[Array, " c"]:
    """All constraints at the velocity level: dφ/dt = φ_t + φ_q v, then A v − b."""
    rate = jax.jvp(system.constraint, (t, q), (jnp.ones_like(t), v))[1]
    return jnp.concatenate([rate, pfaffian(system, t, q, v)])


def total_energy(
    system: AbstractSystem, t: Number, q: Float[Array, " n"], v: Float[Array, " n"], lam: Float[Array, " c"]
) -> Scalar:
    """The energy, including the part that the multipliers store."""
    energy = system.energy(t, q, v)
    return energy if system.stored_energy is None or system.is_smooth else energy + system.stored_energy(t, q, lam)


class AbstractLagrangianSystem(AbstractSystem):
    """A system whose equations follow from a Lagrangian, a Rayleigh function and constraints; a base class.

    They are d/dt ∂L/∂v = ∂L/∂q − ∂R/∂v + (φ'ᵀ Aᵀ)λ, by automatic differentiation. Beside `lagrangian_at(t, q, v)` and
    `rayleigh_at(t, q, v)` a subclass has the methods `momentum`, `velocity`, `constraint`, `count_constraints` and
    `check` of `gd.systems.AbstractSystem`. It pays where the momentum has a known inverse;
    `gd.systems.AbstractFlatLagrangian` finds it by Newton's method.

    Example:
        A relativistic particle in one dimension under a constant force: x = √(1 + t²) − 1.

        >>> class Relativistic(gd.systems.AbstractLagrangianSystem):
        ...     def lagrangian_at(self, t, q, v):
        ...         return -jnp.sqrt(1 - v @ v) + q[0]
        ...     def rayleigh_at(self, t, q, v):
        ...         return jnp.zeros((), v.dtype)
        ...     def momentum(self, t, q, v):
        ...         return v / jnp.sqrt(1 - v @ v)
        ...     def velocity(self, t, q, p, v=None):
        ...         return p / jnp.sqrt(1 + p @ p)
        ...     def constraint(self, t, q):
        ...         return jnp.zeros(0, q.dtype)
        ...     def count_constraints(self, q):
        ...         return 0
        ...     def check(self, t, q, v):
        ...         pass
        >>> trajectory = gd.integrate(Relativistic(), [0.0], t1=2.0, steps=20)
        >>> print(f"{trajectory.q[-1, 0]:.6f} {np.sqrt(5) - 1:.6f}")
        1.236068 1.236068

    Source:
        Hairer, Lubich & Wanner, *Geometric Numerical Integration*, VI.1 and VII.1; Goldstein, *Classical Mechanics*,
        1.5.
    """

    @abc.abstractmethod
    def lagrangian_at(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        """L(t, q, v)."""

    @abc.abstractmethod
    def rayleigh_at(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        """R(t, q, v): the force of dissipation is −∂R/∂v."""

    @property
    def starts_at_rest(self) -> bool:
        return True

    def force(
        self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"], lam: Float[Array, " c"]
    ) -> Float[Array, " n"]:
        applied = jax.grad(self.lagrangian_at, 1)(t, q, v) - jax.grad(self.rayleigh_at, 2)(t, q, v)
        if lam.size == 0:
            return applied
        return applied + jax.vjp(lambda v: constraint_rate(self, t, q, v), v)[1](lam)[0]

    def energy(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        return jnp.dot(self.momentum(t, q, v), v) - self.lagrangian_at(t, q, v)


class ODE(AbstractSystem):
    """A first-order equation y' = f(t, y), integrated without an initial velocity.

    Args:
        vector_field: function (t, y[n]) -> y'[n], written with jax.numpy. It may be an `eqx.Module`, whose arrays can
            be differentiated.

    Raises:
        ValueError: for what is no function of (t, y).

    Example:
        >>> growth = gd.ODE(lambda t, y: y * jnp.cos(t))
        >>> trajectory = gd.integrate(growth, [1.0], t1=2.0, steps=20)
        >>> print(f"{trajectory.q[-1, 0]:.6f} {np.exp(np.sin(2.0)):.6f}")
        2.482578 2.482578
    """

    vector_field: Callable

    @checked
    def __init__(self, vector_field: Callable):
        check_arguments("vector_field", vector_field, "t", "y", named=())
        self.vector_field = as_pytree(vector_field)

    def force(
        self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"], lam: Float[Array, " c"]
    ) -> Float[Array, " 0"]:
        return jnp.zeros(0, q.dtype)

    def momentum(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " 0"]:
        return jnp.zeros(0, q.dtype)

    def velocity(
        self, t: Number, q: Float[Array, " n"], p: Array, v: Float[Array, " n"] | None = None
    ) -> Array:  # What the user's function returns, the shape of which `check` is to say.
        return returned("vector_field", self.vector_field, t, q)

    def constraint(self, t: Number, q: Float[Array, " n"]) -> Float[Array, " 0"]:
        return jnp.zeros(0, q.dtype)

    def count_constraints(self, q: Array | np.ndarray) -> int:
        return 0

    def energy(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        raise ValueError("an ODE has no energy: give the system as a Lagrangian, or evaluate your own along .q")

    def check(self, t: Number, q: np.ndarray, v: np.ndarray | None):
        if v is not None:
            raise ValueError("v0 of an ODE must be None: its velocity is the vector field at q0")
        got = jax.eval_shape(lambda q: self.velocity(jnp.zeros((), q.dtype), q, q[:0]), q.reshape(-1))
        if got.shape != (q.size,):
            raise ValueError(f"vector_field must return shape ({q.size},), the shape of y; got {got.shape}")


@functools.singledispatch
def is_configuration(system: AbstractSystem, q: Float[Array, " n"]) -> Bool[Array, ""]:
    """Whether q is a configuration of the system. It is, whatever its numbers are; a class of systems that knows better
    registers its own function here."""
    return jnp.ones((), bool)


@functools.singledispatch
def takes_any_configuration(system: AbstractSystem) -> bool:
    """Whether all numbers are configurations of the system, as far as its class tells."""
    return is_configuration.dispatch(type(system)) is is_configuration.dispatch(AbstractSystem)


@functools.singledispatch
def rounding(system: AbstractSystem, q: Float[Array, " n"]) -> Scalar:
    """The relative error, in units of the machine epsilon, that the rounding of the positions q causes in quantities
    computed from them. It is 1; a class of systems whose charts lose digits registers its own function here. If the
    error exceeds 1e-4, the integration ends with the result `digits_lost`."""
    return jnp.ones((), q.dtype)
