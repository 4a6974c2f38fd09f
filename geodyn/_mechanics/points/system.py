"""Point masses in a space with elements that act on them; energy and momenta of a system."""

from itertools import chain

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import jit
from geodyn._engine.native import for_points
from geodyn._engine.numerics.failure import in_range_or_nan, nan_unless
from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.checks import is_finite, numbers, shaped
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, ArrayLike, Bool, Each, Float, Number, Scalar
from geodyn._geometry.derived.patches import atlas_of
from geodyn._geometry.manifold.manifold import ANYWHERE, AbstractManifold, check_metric, domain_of, in_chart
from geodyn._geometry.models.spaces import rounding_of
from geodyn._integrators.contract.charts import Charts
from geodyn._integrators.contract.constraints import check_constraints
from geodyn._integrators.contract.dissipation import check_dissipation
from geodyn._integrators.contract.system import (
    AbstractSystem,
    Couplings,
    is_configuration,
    rounding,
    takes_any_configuration,
)
from geodyn._mechanics.elements.abstract import AbstractConstraint, AbstractDissipation, AbstractPfaffian
from geodyn._mechanics.elements.contact import AbstractContact
from geodyn._mechanics.elements.parts import coupled_points, point_lists
from geodyn._mechanics.elements.poses import AbstractOnBodies
from geodyn._mechanics.points.body import (
    AbstractBody,
    Element,
    check_elements,
    constraint_names,
    elements_of,
    seen_by_contacts,
)
from geodyn._mechanics.points.charts import check_charts
from geodyn._mechanics.touching.together import check_contacts


class System(AbstractBody):
    """A body: N point masses in a space, and the elements that act on them.

    Its Lagrangian is L = ½ Σ m_i g(x_i)(v_i, v_i) − Σ V. Potentials add to V, dissipations add to the Rayleigh
    function, constraints are held at zero by multipliers, and contacts keep their gaps ≥ 0. Multipliers stand in the
    order of the elements, those of nonholonomic constraints (`gd.nonholonomic.AbstractPfaffian`, not together with
    contacts) after the others. Dry friction and plasticity (`gd.friction.DryFriction`, `gd.friction.PlasticSpring`)
    need `method=gd.friction.IncrementalPotential()`. Positions and velocities are [N, dim], in the coordinates of the
    space. Every number in the space, the masses and the elements can be differentiated.

    Args:
        space: the space in which the points move.
        masses: the masses [N], positive, in any consistent units.
        *elements: potentials, dissipations, constraints, contacts, friction and plasticity, such as `gd.Spring`.
        resting: True says that contacts of restitution 1 may be at rest, which cannot be found out inside jit. (Outside
            of jit `gd.integrate` finds it out; contacts of a restitution below 1 always may be.)

    Raises:
        ValueError: for masses that are not positive and finite, and for elements of an unknown kind.

    Example:
        Two unit masses on a spring of stiffness 2 oscillate with the angular frequency √(2 + 2) = 2.

        >>> body = gd.System(gd.spaces.Euclidean(2), [1.0, 1.0], gd.Spring([(0, 1)], stiffness=2.0, length=1.0))
        >>> trajectory = gd.integrate(body, [[0.0, 0.0], [1.1, 0.0]], t1=3.0, steps=60)
        >>> separation = trajectory.q[-1, 1, 0] - trajectory.q[-1, 0, 0]
        >>> print(f"{separation:.6f} {1 + 0.1 * np.cos(2 * 3.0):.6f}")
        1.096017 1.096017
    """

    space: AbstractManifold
    masses: Float[Array, " N"]
    elements: tuple[Element, ...]
    resting: bool = eqx.field(static=True)

    @checked
    def __init__(self, space: AbstractManifold, masses: Each, *elements: Element, resting: bool = False):
        if not isinstance(space, AbstractManifold):
            raise ValueError(f"space must be a manifold such as gd.Manifold(metric, dim); got {type(space).__name__}")
        self.space, self.elements, self.masses, self.resting = space, elements, _masses(masses), resting
        for element in elements:
            if isinstance(element, AbstractOnBodies):
                raise ValueError(f"{type(element).__name__} acts on rigid bodies: give it to gd.rigid.RigidBodies")
        check_elements(elements, len(self.masses), "masses")

    def _points(self, q: Float[Array, " n"]) -> Float[Array, "N dim"]:
        return shaped(q, (self.masses.shape[0], self.space.dim), "masses, dim")

    def points(self, q: Float[Array, " n"]) -> Float[Array, "N dim"]:
        return self._points(q)

    def seen_by(self, element: Element, q: Float[Array, " n"]) -> Float[Array, "N dim"]:
        return self._points(q)

    def masses_seen_by(self, element: Element) -> Float[Array, " N"]:
        return self.masses

    def kinetic_energy(self, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        x = self._points(q)
        u = self._points(v)
        squares = for_points(lambda x, u: u @ self.space.metric(x) @ u, x, u)
        return 0.5 * jnp.dot(self.masses.astype(x.dtype), squares)

    def momentum(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Array:
        x = self._points(q)
        u = self._points(v)
        masses = self.masses.astype(x.dtype)
        lowered = for_points(lambda m, x, u: m * (self.space.metric(x) @ u), masses, x, u)
        return lowered.reshape(-1)

    def velocity(
        self, t: Number, q: Float[Array, " n"], p: Array, v: Float[Array, " n"] | None = None
    ) -> Float[Array, " n"]:
        x = self._points(q)
        p = self._points(p)
        masses = self.masses.astype(x.dtype)
        raised = for_points(lambda m, x, p: solve(self.space.metric(x), p) / m, masses, x, p)
        return raised.reshape(-1)

    @property
    def couplings(self) -> Couplings | None:
        if elements_of(self, AbstractPfaffian):
            return None
        sets = []
        rows = []
        damped = False
        for element in self.elements:
            # What a contact does is no part of the equations of a step.
            if isinstance(element, AbstractContact):
                continue
            points = coupled_points(element)
            if points is None:
                return None
            sets.extend(points)
            if isinstance(element, AbstractConstraint):
                rows.extend(_rows(element))
            if isinstance(element, AbstractDissipation):
                damped = damped or bool(points)
        if not all(rows):
            return None
        return Couplings(len(self.masses), tuple(sets), tuple(rows), damped)

    def without_idle(
        self, q: Float[Array, " n"], p: Float[Array, " n"]
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        return q, p

    def with_rest(self) -> "System":
        return System(self.space, self.masses, *self.elements, resting=True)

    @property
    def charts(self) -> Charts | None:
        atlas = atlas_of(self.space)
        points = self._points
        if atlas is None:
            return None
        return Charts(
            lambda q: atlas.switch(points(q)),
            lambda switch, q: atlas.switched(switch, points(q)).reshape(-1),
            lambda q: atlas.start_frame(points(q)),
            atlas.moved_frame,
            lambda frame, q: atlas.from_frame(frame, points(q)).reshape(-1),
        )

    def embedding(self, q: Float[Array, " n"]) -> Float[Array, "N D"]:
        embed = getattr(self.space, "embed", None)
        if embed is None:
            raise ValueError(f"{type(self.space).__name__} has no embedding: a space has one if it has a method embed")
        return jax.vmap(embed)(self._points(q))

    def check(self, t: Number, q: np.ndarray, v: np.ndarray) -> None:
        wanted = (self.masses.shape[0], self.space.dim)
        for name, value in (("q0", q), ("v0", v)):
            if np.shape(value) != wanted:
                raise ValueError(f"{name} must have shape {wanted} (masses, dim), got {np.shape(value)}")
        check_metric(self.space, q)
        if elements_of(self, AbstractConstraint | AbstractPfaffian):
            check_constraints(self, constraint_names(self), np.ravel(q), np.ravel(v), t)
        if contacts := elements_of(self, AbstractContact):
            check_contacts(self.space, contacts, t, seen_by_contacts(self, jnp.asarray(q).reshape(-1)))
        check_charts(self.space, self.elements, self.masses, t, q, v)
        if elements_of(self, AbstractDissipation):
            check_dissipation(self.rayleigh_at, t, np.ravel(q), np.ravel(v))


@takes_any_configuration.register
def _(system: System) -> bool:
    return domain_of(system.space) is ANYWHERE


@is_configuration.register
def _(system: System, q: Float[Array, " n"]) -> Bool[Array, ""]:
    if takes_any_configuration(system):
        return jnp.ones((), bool)
    return jnp.all(jax.vmap(domain_of(system.space).holds)(system.points(q)))


@rounding.register
def _(system: System, q: Float[Array, " n"]) -> Scalar:
    return jnp.max(jax.vmap(lambda x: rounding_of(system.space, x))(system.points(q)))


def _masses(masses: Each) -> Float[Array, " N"]:
    masses = numbers("masses", masses)
    masses = masses if jnp.issubdtype(masses.dtype, jnp.floating) else masses.astype(float)
    if masses.ndim != 1 or masses.shape[0] == 0:
        raise ValueError(f"masses must be a non-empty list [N], got shape {masses.shape}")
    if isinstance(masses, Tracer):
        return in_range_or_nan(masses, 0.0, np.inf, False)
    for i, mass in enumerate(np.asarray(masses)):
        if not (np.isfinite(mass) and mass > 0):
            raise ValueError(f"masses must be positive and finite; masses[{i}] is {mass}")
    return masses


def _rows(constraint: AbstractConstraint) -> tuple[tuple[int, ...], ...]:
    """For each residual of a constraint, the indices of the points that it depends on."""
    points = coupled_points(constraint) or ()
    if len(points) == constraint.size:
        return points
    of_all = tuple(chain.from_iterable(points))
    return (of_all,) * constraint.size


@checked
def edges(system: AbstractBody) -> list[tuple[int, int]]:
    """The pairs of points that springs and rods of a body join, as pictures need them.

    Args:
        system: a `System` or another body with elements.

    Returns:
        The list of pairs (i, j) of indices of points.

    Raises:
        ValueError: for what is no body.

    Example:
        >>> system, q0 = gd.builders.triangle(gd.spaces.Sphere(2))
        >>> print(gd.builders.edges(system))
        [(0, 1), (0, 2), (1, 2)]
    """
    return [pair for element in system.elements for pair in point_lists(element) if len(pair) == 2]


def _flat(system: AbstractSystem, q: ArrayLike, v: ArrayLike) -> tuple[Scalar, Float[Array, " n"], Float[Array, " n"]]:
    """The time 0, and q and v, flat and of floating-point numbers."""
    q = numbers("q", q)
    v = numbers("v or p", v)
    q = q.astype(jnp.result_type(q.dtype, float))
    v = v.astype(jnp.result_type(v.dtype, float))
    return jnp.zeros((), q.dtype), q.reshape(-1), v.reshape(-1)


@checked
def energy(
    system: AbstractSystem, q: Float[ArrayLike, "*shape"], v: Float[ArrayLike, "*shape"], t: Number = 0.0
) -> Scalar:
    """Energy <∂L/∂v, v> − L of a system at a position and a velocity: kinetic plus potential energy for L = K − V.

    Args:
        system: a `System`, a `Lagrangian` or another system.
        q: the configuration, [N, dim] of a `System`, [n] of a `Lagrangian`.
        v: the velocity, in the shape of q.
        t: the time, for systems that depend on it.

    Returns:
        The energy, one number.

    Raises:
        ValueError: for what is no system, for q of another shape or outside of the chart (NaN inside of jit), and for
            an `ODE`, which has no energy.

    Example:
        A mass of 2 at the height 3, with the speed 4: ½ · 2 · 4² + 2 · 9.81 · 3.

        >>> stone = gd.System(gd.spaces.Euclidean(2), [2.0], gd.Gravity(9.81))
        >>> print(f"{gd.energy(stone, [[0.0, 3.0]], [[4.0, 0.0]]):.6f}")
        74.860000
    """
    return _of_configuration(system, q, _energy(system, q, v, t))


@jit
def _energy(system: AbstractSystem, q: Float[ArrayLike, "*shape"], v: Float[ArrayLike, "*shape"], t: Number) -> Scalar:
    zero, q, v = _flat(system, q, v)
    return _nan_elsewhere(system, q, system.energy(zero + t, q, v), v, t)


def _nan_elsewhere(system: AbstractSystem, q: Float[Array, " n"], value: Array, v: ArrayLike, t: Number) -> Array:
    """`value`, computed at q, v and t; NaN where q is no configuration."""
    if takes_any_configuration(system):
        return value
    return nan_unless(is_configuration(system, q), value, (system, q, v, t))


def _of_configuration(system: AbstractSystem, q: ArrayLike, value: Array) -> Array:
    """`value`, computed at q; ValueError if it is known to be NaN since q is no configuration."""
    if isinstance(value, Tracer) or is_finite(np.asarray(value)) or takes_any_configuration(system):
        return value
    if np.any(np.isnan(value)) and not is_configuration(system, jnp.asarray(q, float).reshape(-1)):
        if isinstance(system, System):
            for i, x in enumerate(np.asarray(q)):
                in_chart(system.space, f"q[{i}]", jnp.asarray(x))
        raise ValueError(
            f"q is no configuration of this {type(system).__name__}, got {np.asarray(q).tolist()}: the quaternions of "
            "rigid bodies have unit length, take what bodies.state(rotation, …) returns"
        )
    return value


@checked
def momentum(
    system: AbstractSystem, q: Float[ArrayLike, "*shape"], v: Float[ArrayLike, "*shape"], t: Number = 0.0
) -> Array:
    """Momentum p = ∂L/∂v of a system at a position and a velocity; for points in a space p_i = m_i g(x_i) v_i.

    Args:
        system: a `System`, a `Lagrangian` or another system.
        q: the configuration, [N, dim] of a `System`, [n] of a `Lagrangian`.
        v: the velocity, in the shape of q.
        t: the time, for systems that depend on it.

    Returns:
        The momentum, in the shape of v; its components are covariant (lower indices).

    Raises:
        ValueError: for what is no system, and for q of another shape.

    Example:
        In polar coordinates (r, θ) the momentum conjugate to θ is the angular momentum m r² θ'.

        >>> body = gd.System(gd.spaces.Euclidean(2, "polar"), [2.0])
        >>> p = gd.momentum(body, jnp.array([[3.0, 0.5]]), jnp.array([[0.0, 0.1]]))
        >>> print(p.shape, f"{p[0, 1]:.6f}")
        (1, 2) 1.800000
    """
    return _of_configuration(system, q, _momentum(system, q, v, t))


@jit
def _momentum(
    system: AbstractSystem, q: Float[ArrayLike, "*shape"], v: Float[ArrayLike, "*shape"], t: Number
) -> Float[Array, "*shape"]:
    zero, flat_q, flat_v = _flat(system, q, v)
    p = system.momentum(zero + t, flat_q, flat_v).reshape(jnp.asarray(v).shape)
    return _nan_elsewhere(system, flat_q, p, v, t)


@checked
@jit
def hamiltonian(
    system: AbstractSystem, q: Float[ArrayLike, "*shape"], p: Float[ArrayLike, "*shape"], t: Number = 0.0
) -> Scalar:
    """The Hamiltonian of a state, `H(q, p) = <p, v> − L` at the velocity v that belongs to the momentum p.

    Args:
        system: a `gd.System`, `gd.Lagrangian` or another system.
        q: configuration.
        p: momentum, in the shape of q.
        t: the time.

    Returns:
        The energy, a number.

    Example:
        A mass 2 in uniform gravity.

        >>> stone = gd.System(gd.spaces.Euclidean(3), [2.0], gd.Gravity(9.81))
        >>> q, p = jnp.array([[0.0, 0.0, 5.0]]), jnp.array([[1.0, 2.0, 0.0]])
        >>> print(f"{gd.hamilton.hamiltonian(stone, q, p):.6f} {5.0 / (2 * 2.0) + 2.0 * 9.81 * 5.0:.6f}")
        99.350000 99.350000
    """
    zero, flat_q, flat_p = _flat(system, q, p)
    return system.energy(zero + t, flat_q, system.velocity(zero + t, flat_q, flat_p))


@checked
@jit
def killing_momentum(system: System, q: Float[ArrayLike, "N dim"], v: Float[ArrayLike, "N dim"]) -> Float[Array, " K"]:
    """The momenta `Σ m_i g(K, v_i)` of a system for every Killing field K of its space.

    They are conserved where the elements share the symmetry (Noether's theorem).

    Args:
        system: a `gd.System` in a space that has a list of its Killing fields, as the homogeneous ones of `gd.spaces`
            do.
        q: configuration [N, dim].
        v: velocity [N, dim].

    Returns:
        The momenta [K], in the order of the Killing fields of the space.

    Raises:
        ValueError: for a space that has no list of them.

    Example:
        Two masses on a spring in a sphere conserve all three.

        >>> body = gd.System(gd.spaces.Sphere(2), [1.0, 2.0], gd.Spring([(0, 1)], stiffness=1.0, length=0.5))
        >>> q0, v0 = [[0.0, 0.0], [0.5, 0.2]], [[0.3, 0.4], [0.0, 0.4]]
        >>> motion = gd.integrate(body, jnp.array(q0), jnp.array(v0), t1=2.0, steps=40)
        >>> first, last = (gd.hamilton.killing_momentum(body, motion.q[i], motion.v[i]) for i in (0, -1))
        >>> print(first.shape, bool(jnp.max(jnp.abs(last - first)) < 1e-9))
        (3,) True

    Source:
        do Carmo, *Riemannian Geometry*, ex. 3.5.
    """
    p = momentum(system, q, v)
    return jnp.einsum("nkd,nd->k", killing_fields(system.space, jnp.asarray(q, p.dtype)), p)


@jit
def killing_fields(space: AbstractManifold, q: Float[Array, "N dim"]) -> Float[Array, "N K dim"]:
    """The Killing fields of a space at the points q. Raises ValueError for a space that has no list of them."""
    fields = getattr(space, "killing_fields", None)
    if fields is None:
        raise ValueError(
            f"{type(space).__name__} has no list of Killing fields: gd.symmetries(space, x).space is the same space "
            "with those that its metric has; gd.builders.velocities takes a function x -> v as well"
        )
    return jax.vmap(fields)(q)
