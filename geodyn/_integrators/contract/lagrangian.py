"""Systems given by a Lagrangian, a function of flat coordinates."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import as_pytree, jit, with_time
from geodyn._engine.numerics.linalg import solve
from geodyn._engine.numerics.roots import root
from geodyn._foundations.checks import check_arguments, one_number, returned, row
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, ArrayLike, Float, Number, Scalar
from geodyn._integrators.contract.charts import Charts, check_charts
from geodyn._integrators.contract.constraints import check_constraints, constraint_state
from geodyn._integrators.contract.contacts import Contacts, check_contacts
from geodyn._integrators.contract.dissipation import check_dissipation
from geodyn._integrators.contract.system import AbstractLagrangianSystem, constraint_rate


class AbstractFlatLagrangian(AbstractLagrangianSystem):
    """A system in flat coordinates q[n] whose momentum ∂L/∂v is inverted by Newton's method; a base class.

    `gd.Lagrangian` makes one from functions. A subclass has the methods `lagrangian_at(t, q, v) -> L`,
    `rayleigh_at(t, q, v) -> R` and `constraint(t, q) -> φ[c]` (of shape [0] if there is none).

    Example:
        A bead of unit mass on a hoop that rotates with the rate ω about the vertical stays where cos θ = g/(r ω²), with
        the angle θ from the lowest point. Its momentum is r² θ'.

        >>> class Hoop(gd.systems.AbstractFlatLagrangian):
        ...     radius: float
        ...     spin: float
        ...     def lagrangian_at(self, t, q, v):
        ...         turning = v[0] ** 2 + (self.spin * jnp.sin(q[0])) ** 2
        ...         return self.radius**2 * turning / 2 + 9.81 * self.radius * jnp.cos(q[0])
        ...     def rayleigh_at(self, t, q, v):
        ...         return jnp.zeros((), v.dtype)
        ...     def constraint(self, t, q):
        ...         return jnp.zeros(0, q.dtype)
        >>> hoop = Hoop(2.0, 3.0)
        >>> rest = jnp.arccos(jnp.array([9.81 / (2.0 * 3.0**2)]))
        >>> trajectory = gd.integrate(hoop, rest, t1=1.0, steps=20)
        >>> print(bool(jnp.allclose(trajectory.q[-1], rest)), f"{gd.momentum(hoop, rest, jnp.array([0.5]))[0]:.6f}")
        True 2.000000
    """

    def count_constraints(self, q: Array | np.ndarray) -> int:
        return jax.eval_shape(lambda q: _rate(self, q), q.reshape(-1)).size

    def momentum(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " n"]:
        return jax.grad(self.lagrangian_at, 2)(t, q, v)

    def velocity(
        self, t: Number, q: Float[Array, " n"], p: Float[Array, " n"], v: Float[Array, " n"] | None = None
    ) -> Float[Array, " n"]:
        if v is not None:
            mass = jax.hessian(self.lagrangian_at, 2)(t, q, v)
            return v + solve(mass, p - self.momentum(t, q, v))
        return root(lambda v: self.momentum(t, q, v), p, jnp.zeros_like(q))

    def check(self, t: Number, q: np.ndarray, v: np.ndarray):
        if q.ndim != 1:
            raise ValueError(f"q0 of a {type(self).__name__} must be flat [n], got shape {q.shape}")
        if np.shape(v) != q.shape:
            raise ValueError(f"v0 of a {type(self).__name__} must have the shape of q0, {q.shape}; got {np.shape(v)}")
        start = jnp.asarray(t, jnp.result_type(q, float)), jnp.asarray(q)
        if self.contacts is not None:
            check_contacts(self.contacts, *start, jnp.asarray(v))
        if self.charts is not None:
            check_charts(self.charts, start[1])
        if getattr(self, "dissipation", None) is not None:
            check_dissipation(self.rayleigh_at, t, q, v)
        count = self.count_constraints(q)
        if count:
            holonomic = constraint_state(self, jnp.asarray(q), jnp.asarray(v), t)[0].size
            names = [f"constraint[{i}]" for i in range(holonomic)]
            names += [f"nonholonomic[{i}]" for i in range(count - holonomic)]
            try:
                check_constraints(self, names, q, v, t)
            except ValueError:
                check_kinetic(self, t, q, v)
                raise


@jit
def _rate(system: AbstractFlatLagrangian, q: Float[Array, " n"]) -> Float[Array, " c"]:
    """The constraints at the velocity level; jitted, so that their number is found without tracing the user's function
    again."""
    return constraint_rate(system, jnp.zeros((), q.dtype), q, q)


@jit
def _mass(
    system: AbstractFlatLagrangian, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]
) -> Float[Array, "n n"]:
    return jax.hessian(system.lagrangian_at, 2)(t, q, v)


def check_kinetic(system: AbstractFlatLagrangian, t: Number, q: ArrayLike, v: ArrayLike | None) -> None:
    """Raises ValueError if ∂²L/∂v² is singular at q[n], v[n], so that the momentum does not determine the velocity."""
    q = jnp.asarray(q)
    mass = np.asarray(_mass(system, jnp.asarray(t, q.dtype), q.reshape(-1), jnp.asarray(v, q.dtype).reshape(-1)))
    if not np.all(np.isfinite(mass)):
        return
    scale = np.sqrt(np.max(np.abs(mass), axis=1))
    scale[scale == 0] = 1
    if np.linalg.matrix_rank(mass / np.outer(scale, scale)) < len(mass):
        raise ValueError(
            f"lagrangian must have a kinetic energy of every velocity: ∂²L/∂v² is singular at q0, v0, it is\n{mass}\n"
            "Add what is missing, such as m * v @ v / 2; in quasi-static motion any mass m > 0 does"
        )


class Lagrangian(AbstractFlatLagrangian):
    """A system given by its Lagrangian, a plain function of flat coordinates.

    Its equations are d/dt ∂L/∂v = ∂L/∂q − ∂R/∂v + φ'ᵀλ + Aᵀλ. A multiplier λ has the sign of the force: a stretched rod
    has λ < 0. Multipliers of the nonholonomic constraints come last. A function that names a parameter `t`, without a
    default, is given the time. A function may be an `eqx.Module`; its arrays, and the numbers that any function closes
    over, can be differentiated. Any consistent units.

    Args:
        lagrangian: function (q[n], v[n]) -> L, with a kinetic energy of every velocity.
        constraint: function q[n] -> φ[c], held at zero.
        dissipation: function (q[n], v[n]) -> R, the Rayleigh function.
        nonholonomic: function (q[n], v[n]) -> A(q)v − b(q) [k], affine in v, held at zero, as for rolling and blades.
        contacts: a `gd.systems.Contacts`.
        charts: a `gd.systems.Charts`.

    Raises:
        ValueError: for what is no function of these arguments.

    Example:
        A pendulum of unit length, released from the horizontal. The multiplier of (q·q − 1)/2 is minus the tension,
        v² − g·q. A blade, which cannot slip sideways, is
        `gd.Lagrangian(lambda q, v: v @ v / 2, nonholonomic=lambda q, v: v[1] * jnp.cos(q[2]) - v[0] * jnp.sin(q[2]))`.

        >>> pendulum = gd.Lagrangian(lambda q, v: v @ v / 2 - 9.81 * q[1], constraint=lambda q: (q @ q - 1) / 2)
        >>> end = gd.integrate(pendulum, jnp.array([1.0, 0.0]), t1=1.0, steps=100)
        >>> q, v = end.q[-1], end.v[-1]
        >>> print(f"{q @ q:.6f} {abs(end.multipliers[-1, 0] + (v @ v - 9.81 * q[1])):.3f}")
        1.000000 0.000

    Source:
        Hairer, Lubich & Wanner, *Geometric Numerical Integration*, VI.1 and VII.1; for nonholonomic constraints
        (Lagrange–d'Alembert) Bloch, *Nonholonomic Mechanics and Control*, 1.3.
    """

    lagrangian: Callable
    constraints: Callable | None
    dissipation: Callable | None
    nonholonomic: Callable | None
    touching: Contacts | None
    patches: Charts | None

    @checked
    def __init__(
        self,
        lagrangian: Callable,
        constraint: Callable | None = None,
        dissipation: Callable | None = None,
        nonholonomic: Callable | None = None,
        *,
        contacts: Contacts | None = None,
        charts: Charts | None = None,
    ):
        functions = {"constraint": constraint, "dissipation": dissipation, "nonholonomic": nonholonomic}
        for name, function in {"lagrangian": lagrangian, **functions}.items():
            if function is not None:
                check_arguments(name, function, *("q" if name == "constraint" else "qv"))
        self.lagrangian = as_pytree(lagrangian)
        self.constraints, self.dissipation, self.nonholonomic = (f and as_pytree(f) for f in functions.values())
        self.touching, self.patches = (
            jax.tree.map(lambda x: as_pytree(x) if callable(x) else x, given, is_leaf=callable)
            for given in (contacts, charts)
        )

    @property
    def contacts(self) -> Contacts | None:
        return self.touching

    @property
    def charts(self) -> Charts | None:
        return self.patches

    def lagrangian_at(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        return one_number("lagrangian", returned("lagrangian", with_time(self.lagrangian, 2), t, q, v))

    def rayleigh_at(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        if self.dissipation is None:
            return jnp.zeros((), v.dtype)
        return one_number("dissipation", returned("dissipation", with_time(self.dissipation, 2), t, q, v))

    def constraint(self, t: Number, q: Float[Array, " n"]) -> Float[Array, " c"]:
        if self.constraints is None:
            return jnp.zeros(0, q.dtype)
        return row("constraint", returned("constraint", with_time(self.constraints, 1), t, q))

    def pfaffian(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " k"]:
        if self.nonholonomic is None:
            return jnp.zeros(0, q.dtype)
        return row("nonholonomic", returned("nonholonomic", with_time(self.nonholonomic, 2), t, q, v))
