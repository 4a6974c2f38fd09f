"""Linkages: rigid rods between hinges, some of them pinned, and their configuration space as a surface.

A rod of mass m whose ends move with velocities u, v has the kinetic energy m (|u|² + u·v + |v|²)/6, so that with hinge
masses K = ½ q̇ᵀ(M ⊗ I)q̇ with a constant M: of n unit rods in a row 2m_e/3 + m_v on the diagonal and m_e/6 beside.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

from geodyn._linalg import solve
from geodyn._typing import Array, Float, Numbers
from geodyn.geometry import LevelSet, Manifold
from geodyn.geometry.spaces import Euclidean
from geodyn.integrators.constraints import check_constraints, constraint_state, dependent_rows
from geodyn.integrators.system import AbstractSystem
from geodyn.mechanics.bodies import Rod
from geodyn.mechanics.body import AbstractBody, Element, check_elements, constraint_names
from geodyn.mechanics.contact import check_contacts
from geodyn.mechanics.elements import Tuples, number, one_each
from geodyn.mechanics.fields import Gravity
from geodyn.mechanics.projection import project


class Linkage(AbstractBody):
    """`Linkage(edges, lengths, pins, *elements)`: rigid rods along the edges (i, j) between joints 0 to N − 1 in the
    plane or in space (dim=3), of which `pins`, a dictionary {joint: position[dim]}, are held.

    Configurations are the positions [F, d] of the other joints, in their order; `joints(q)` are all [N, d].
    `rod_masses`, one number or one per edge, are spread evenly along the rods; `hinge_masses`, one number or [N], sit
    on the joints (those of pins do not matter); `gravity` pulls down along the last coordinate. Elements act on all
    joints [N, d], as they do on the points of a `System`: springs, drag, a slider as a constraint. Chains may be open
    or closed. λ is the force along a rod, negative where it is stretched. Any consistent units.

    Raises ValueError for edges, lengths, masses and pins that are none or do not fit together, and where a motion
    starts from a configuration in which the rods are dependent: a singular linkage.
    """

    space: Euclidean
    elements: tuple[Element, ...]
    anchors: Float[Array, "P d"]
    rod_masses: Float[Array, " E"]
    hinge_masses: Float[Array, " F"]
    pins: tuple[int, ...] = eqx.field(static=True)
    free: tuple[int, ...] = eqx.field(static=True)
    resting: bool = eqx.field(static=True)

    def __init__(
        self, edges, lengths, pins, *elements, rod_masses=0.0, hinge_masses=1.0, gravity=None, dim=2, resting=False
    ):
        rods = Rod(edges, lengths)
        count = 1 + max(max(edge) for edge in rods.points)
        self.pins = tuple(sorted(pins))
        if not set(self.pins) < set(range(count)):
            raise ValueError(f"pins must be some of the joints 0 to {count - 1}, and not all; got {list(pins)}")
        self.anchors = jnp.asarray([pins[i] for i in self.pins], float) if self.pins else jnp.zeros((0, dim))
        if self.anchors.shape != (len(self.pins), dim):
            raise ValueError(f"pins must be positions [{dim}] in dim={dim}, got {dict(pins)}")
        for edge in rods.points:
            if set(edge) <= set(self.pins):
                raise ValueError(f"edges must not join two pins, which do not move: {edge}")
        self.free = tuple(i for i in range(count) if i not in self.pins)
        self.rod_masses = one_each("rod_masses", rod_masses, rods.points)
        masses = number("hinge_masses", hinge_masses)
        if masses.shape not in ((), (count,)):
            raise ValueError(f"hinge_masses must be one number or one per joint ({count}), got shape {masses.shape}")
        lumped = jnp.broadcast_to(masses, (count,)) + 0.5 * self.rod_masses @ jnp.asarray(
            _incidence(rods.points, count)
        )
        self.hinge_masses = jnp.broadcast_to(masses, (count,))[np.array(self.free)]
        falling = () if gravity is None else (Gravity(lumped, number("gravity", gravity)),)
        self.space, self.elements, self.resting = Euclidean(dim), (rods, *falling, *elements), resting
        check_elements(elements, count, "joints")
        _check_masses(self.free, lumped)

    @property
    def edges(self) -> Tuples:
        """The joints that each rod joins."""
        return self.elements[0].points

    @property
    def mass(self) -> Float[Array, "F F"]:
        """M of K = ½ q̇ᵀ(M ⊗ I)q̇."""
        ends = _incidence(self.edges, 1 + max(map(max, self.edges)))[:, list(self.free)]
        one_rod = ends[:, :, None] * ends[:, None, :] * (1 + np.eye(len(self.free))) / 6
        return jnp.diag(self.hinge_masses) + jnp.tensordot(self.rod_masses, jnp.asarray(one_rod), 1)

    def joints(self, q: Float[Array, "..."]) -> Float[Array, "N d"]:
        """The positions of all joints, pins included, from those of the free ones, [F, d] or flat."""
        # Products with constant matrices: an index would differentiate into a scatter.
        place = np.eye(len(self.pins) + len(self.free))
        held, moved = (jnp.asarray(place[:, list(which)], q.dtype) for which in (self.pins, self.free))
        return held @ self.anchors.astype(q.dtype) + moved @ q.reshape(len(self.free), self.space.dim)

    def points(self, q):
        return self.joints(q)

    def seen_by(self, element, q):
        return self.joints(q)

    def kinetic_energy(self, q, v):
        return 0.5 * jnp.dot(v, self.momentum(jnp.zeros_like(v[0]), q, v))

    def momentum(self, t, q, v):
        return (self.mass.astype(v.dtype) @ v.reshape(len(self.free), -1)).reshape(-1)

    def velocity(self, t, q, p, v=None):
        return jax.vmap(solve, (None, 1), 1)(self.mass.astype(p.dtype), p.reshape(len(self.free), -1)).reshape(-1)

    def with_rest(self):
        return eqx.tree_at(lambda s: s.resting, self, True)

    def check(self, t, q, v):
        wanted = (len(self.free), self.space.dim)
        for name, value in (("q0", q), ("v0", v)):
            if np.shape(value) != wanted:
                raise ValueError(f"{name} must have shape {wanted} (free joints, dim), got {np.shape(value)}")
        check_regular(self, q, v, t)
        check_constraints(self, constraint_names(self), np.ravel(q), np.ravel(v), t)
        check_contacts(self.space, self.contacts, t, self.seen_by_contacts(jnp.asarray(q).reshape(-1)))


def _incidence(edges: Tuples, count: int) -> np.ndarray:
    """[E, N]: 1 where an edge ends in a joint."""
    return np.array([[float(i in edge) for i in range(count)] for edge in edges])


def _check_masses(free, lumped):
    if isinstance(lumped, jax.core.Tracer):
        return
    massless = [i for i in free if not lumped[i] > 0]
    if massless:
        raise ValueError(f"joint {massless[0]} has no mass: give rod_masses or hinge_masses that are positive there")


def check_regular(linkage: Linkage, q, v, t=0.0) -> None:
    """Raises ValueError where the rods of a linkage are dependent, with their names: there its configuration space may
    be singular. For concrete numbers."""
    flat = jnp.asarray(q, float).reshape(-1)
    _, _, gram = constraint_state(linkage, flat, jnp.asarray(v, float).reshape(-1), jnp.asarray(t, flat.dtype))
    names = constraint_names(linkage)
    if dependent := [names[i] for i in dependent_rows(np.asarray(gram))]:
        raise ValueError(
            f"the linkage is singular at this configuration: {', '.join(dependent)} are dependent, as where rods lie "
            "on one line between pins (a chain stretched tight cannot move, one folded flat goes on in several ways). "
            "Start from another configuration, change a length or the place of a pin, or leave out a rod that braces "
            "what is rigid already"
        )


def linkage(
    joints: Numbers, edges, *elements, pins=(), lengths=None, rod_masses=0.0, hinge_masses=1.0, gravity=None
) -> tuple[Linkage, Float[Array, "F d"]]:
    """(system, q0) of a linkage from a drawing: joints[N, d], the edges (i, j) that are rods and the joints that are
    `pins`. Rods are as long as drawn, or have the `lengths` given, one number or [E]; then q0 is the configuration near
    the drawing. The rest as for `Linkage`.

    Raises ValueError as `Linkage` does, for pins that are too far apart for the rods, and for a singular linkage.
    """
    joints = jnp.asarray(joints, float)
    if joints.ndim != 2:
        raise ValueError(f"joints must be positions [N, d], got shape {joints.shape}")
    drawn = Rod(edges, 1.0).points
    if sorted({i for edge in drawn for i in edge}) != list(range(len(joints))):
        raise ValueError(f"edges must join all of the {len(joints)} joints and no others, got {drawn}")
    ends = np.array(drawn)
    apart = jnp.sqrt(jnp.sum((joints[ends[:, 0]] - joints[ends[:, 1]]) ** 2, axis=1))
    lengths = apart if lengths is None else one_each("lengths", lengths, drawn, positive=True)
    held, masses = {i: joints[i] for i in pins}, {"rod_masses": rod_masses, "hinge_masses": hinge_masses}
    system = Linkage(drawn, lengths, held, *elements, **masses, gravity=gravity, dim=joints.shape[1])
    q0 = joints[np.array(system.free)]
    if not any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((system, q0))):
        _check_reach(drawn, lengths, held)
        check_regular(system, q0, jnp.zeros_like(q0))
    return system, project(system, q0, jnp.zeros_like(q0))[0]


def _check_reach(edges, lengths, pins) -> None:
    """Pins further apart than the rods between them reach, or just as far."""
    count = 1 + max(map(max, edges))
    rows, columns = np.array(edges).T
    reach = shortest_path(coo_array((np.asarray(lengths), (rows, columns)), (count, count)).tocsr(), directed=False)
    for i, j in ((i, j) for i in pins for j in pins if i < j):
        apart = float(np.linalg.norm(np.asarray(pins[i]) - np.asarray(pins[j])))
        if apart >= reach[i, j] * (1 - 1e-9):
            what = "cannot be assembled" if apart > reach[i, j] * (1 + 1e-9) else "is singular: it cannot move"
            raise ValueError(
                f"pins {i} and {j} are {apart:.6g} apart and the rods between them reach {reach[i, j]:.6g}, so that "
                f"the linkage {what}. Bring the pins closer together, or make rods longer"
            )


def pinned_chain(
    count: int = 4, span=3.0, *, rod_mass=0.0, hinge_mass=1.0, gravity=None, dim: int = 2
) -> tuple[Linkage, Float[Array, "F d"]]:
    """(system, q0) of `count` unit rods in a row, pinned at 0 and at `span` on the first axis, hanging up in an arc.

    With four rods and 2 < span < 4 the configurations in the plane are a sphere, M⁴_L: `four_rod_configuration`.
    Raises ValueError for a span that is not between 0 and `count`: at span = count the chain is tight, and singular.
    """
    if count < 2 or dim < 2:
        raise ValueError(f"a pinned chain has at least 2 rods in at least 2 dimensions, got count={count}, dim={dim}")
    span = number("span", span)
    fraction = jnp.arange(count + 1) / count
    sag = jnp.sqrt(jnp.maximum(count**2 - span**2, 0.0)) * 2 * fraction * (1 - fraction)
    joints = jnp.stack([span * fraction, *[0 * sag] * (dim - 2), sag], axis=1)
    edges = [(i, i + 1) for i in range(count)]
    masses = {"rod_masses": rod_mass, "hinge_masses": hinge_mass, "gravity": gravity}
    return linkage(joints, edges, pins=(0, count), lengths=1.0, **masses)


def four_rod_configuration(span, X: Float[Array, "3"]) -> Float[Array, "3 2"]:
    """The configuration [3, 2] of four unit rods pinned at (0, 0) and (span, 0) that belongs to the point X of the unit
    sphere: an analytic embedding of S² in the plane's hinges, onto all of M⁴_L, for 2 < span < 4.

    The rods of a pair turn by 4 arcsin(ρX₁) and 4 arcsin(ρX₂) against each other, ρ² = 1 − span/4, and the sign of the
    middle hinge's height is that of X₃: at ±e₃ elbows are straight. Raises ValueError for other spans.
    """
    span = jnp.asarray(span, X.dtype)
    if not isinstance(span, jax.core.Tracer) and not 2 < float(span) < 4:
        raise ValueError(
            f"span must lie between 2 and 4, got {float(span):.6g}: at 4 four unit rods are stretched tight, at 2 they "
            "can lie on one line, and the configurations are no smooth sphere"
        )
    rho = jnp.sqrt(1 - span / 4)
    a, b = rho * X[0], rho * X[1]
    left, right = 2 * (1 - 2 * a**2), 2 * (1 - 2 * b**2)
    # Heron's formula, in which left + right − span = (2ρX₃)² on the sphere.
    height = rho * X[2] * jnp.sqrt((left + right + span) * (span**2 - (left - right) ** 2)) / span
    middle = jnp.stack([(span**2 + left**2 - right**2) / (2 * span), height])
    end = jnp.stack([span, jnp.zeros_like(span)])
    return jnp.stack([_elbow(jnp.zeros_like(end), middle, left, a), middle, _elbow(middle, end, right, b)])


def four_rod_point(span, q: Float[Array, "3 2"]) -> Float[Array, "3"]:
    """The point X of the unit sphere to which a configuration belongs: the inverse of `four_rod_configuration`."""
    span, ends = jnp.asarray(span, q.dtype), jnp.zeros((2, 1), q.dtype)
    rods = jnp.diff(q, axis=0, prepend=ends.T, append=jnp.concatenate([span[None, None], ends[:1]], axis=1))
    first, second = rods[::2], rods[1::2]
    turns = jnp.arctan2(first[:, 1] * second[:, 0] - first[:, 0] * second[:, 1], jnp.sum(first * second, axis=1))
    rho = jnp.sqrt(1 - span / 4)
    left, right = 2 * jnp.cos(turns / 2)
    height = q[1, 1] * span / (rho * jnp.sqrt((left + right + span) * (span**2 - (left - right) ** 2)))
    return jnp.append(jnp.sin(turns / 4) / rho, height)


def _elbow(start, end, apart, a):
    """The hinge of two unit rods whose ends are `apart` = 2 cos(s/2), a = sin(s/4): on their left where a > 0."""
    along = (end - start) / apart
    return (start + end) / 2 + 2 * a * jnp.sqrt(1 - a**2) * jnp.stack([-along[1], along[0]])


class _Kinetic(eqx.Module):
    """∂p/∂v, the metric of the kinetic energy."""

    system: AbstractSystem

    def __call__(self, x):
        return jax.jacfwd(self.system.momentum, 2)(jnp.zeros_like(x[0]), x, jnp.zeros_like(x))


class _Held(eqx.Module):
    """The constraints of a system."""

    system: AbstractSystem

    def __call__(self, x):
        return self.system.constraint(jnp.zeros_like(x[0]), x)


def configuration_space(system: AbstractSystem, q: Numbers) -> LevelSet:
    """The configurations that the constraints of a system allow, as a level set with the kinetic metric: x is a
    configuration such as q, flattened. Its geodesics are the free motions (at time 0, where things depend on time), and
    `total_bending` says how hard the constraints push. Raises ValueError for a system without constraints."""
    q = jnp.asarray(q, float)
    if system.count_constraints(q) == 0:
        raise ValueError("system has no constraints: its configurations are all of its space")
    return LevelSet(Manifold(_Kinetic(system), q.size), _Held(system))
