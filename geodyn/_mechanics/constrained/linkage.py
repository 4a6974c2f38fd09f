"""Linkages: rigid rods between hinged joints, some of which are pinned.

A rod of mass m whose ends move with velocities u, v has the kinetic energy m (|u|² + u·v + |v|²)/6. With masses at the
hinges, K = ½ q̇ᵀ(M ⊗ I)q̇ with a constant matrix M. For rods of mass m_e in a row, with hinge masses m_v, M has
2m_e/3 + m_v on the diagonal and m_e/6 next to it.
"""

import itertools
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.checks import floats, shaped
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, ArrayLike, Count, Each, Float, Indices, Number, Numbers, Scalar
from geodyn._geometry.models.spaces import Euclidean
from geodyn._integrators.contract.constraints import check_constraints, constraint_state, dependent_rows
from geodyn._mechanics.elements.abstract import Tuples, number, one_each
from geodyn._mechanics.elements.contact import AbstractContact
from geodyn._mechanics.elements.fields import Gravity
from geodyn._mechanics.elements.springs import Rod
from geodyn._mechanics.points.body import (
    AbstractBody,
    Element,
    check_elements,
    constraint_names,
    elements_of,
    seen_by_contacts,
)
from geodyn._mechanics.points.projection import project
from geodyn._mechanics.touching.together import check_contacts


class Linkage(AbstractBody):
    """Rigid rods between hinged joints in the plane or in space, some of which are pinned.

    Configurations are the positions [F, d] of the joints that are not pinned, in their order; `joints(q)` are all [N,
    d]. A rod of the mass m whose ends move with u and v has the kinetic energy m (|u|² + u·v + |v|²)/6. Elements act on
    all joints [N, d], as they do on the points of a `gd.System`: springs, drag, a slider as a constraint; the mass of a
    joint is then that of its hinge and of half of each of its rods. Chains may be open or closed. The multiplier λ of a
    rod is the force along it, negative where it is stretched. `gd.linkages.linkage` makes one from a drawing. Any
    consistent units.

    Args:
        edges: pairs (i, j) of joints that rods join, the joints being 0 to N − 1.
        lengths: of the rods, one number or [E].
        pins: dictionary {joint: position[dim]} of the joints that are held.
        elements: potentials, dissipation, constraints and contacts.
        rod_masses: one number or [E], spread evenly along the rods.
        hinge_masses: one number or [N], at the joints; those of pins do not matter.
        gravity: acceleration along minus the last coordinate; None: none.
        dim: 2 or 3.
        resting: whether contacts may stay closed; the integrator sets it, leave it out.

    Raises:
        ValueError: for edges, lengths, masses and pins that do not fit together, and where a motion starts from a
            configuration in which the rods are dependent (a singular linkage).

    Example:
        A uniform rod that swings down from the horizontal: it is as fast at the end as ω² = 3 g/l says.

        >>> rod = gd.linkages.Linkage([(0, 1)], 1.0, {0: [0.0, 0.0]}, rod_masses=1.0, hinge_masses=0.0, gravity=9.81)
        >>> motion = gd.integrate(rod, jnp.array([[1.0, 0.0]]), t1=1.0, steps=100)
        >>> x, y = motion.q[:, 0].T
        >>> speed = jnp.linalg.norm(motion.v[:, 0], axis=1)
        >>> print(bool(jnp.allclose(x**2 + y**2, 1.0)), bool(jnp.allclose(speed**2, -3 * 9.81 * y, atol=1e-6)))
        True True
    """

    space: Euclidean
    elements: tuple[Element, ...]
    anchors: Float[Array, "P d"]
    rod_masses: Float[Array, " E"]
    hinge_masses: Float[Array, " N"]
    pins: tuple[int, ...] = eqx.field(static=True)
    free: tuple[int, ...] = eqx.field(static=True)
    resting: bool = eqx.field(static=True)

    @checked
    def __init__(
        self,
        edges: Indices,
        lengths: Each,
        pins: dict,
        *elements: Element,
        rod_masses: Each = 0.0,
        hinge_masses: Each = 1.0,
        gravity: Number | None = None,
        dim: Count = 2,
        resting: bool = False,
    ):
        rods = Rod(edges, lengths)
        count = 1 + max(max(edge) for edge in rods.points)
        if len({i for edge in rods.points for i in edge}) != count:
            raise ValueError(f"edges must join all joints from 0 to {count - 1}, got {rods.points}")
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
        self.hinge_masses = jnp.broadcast_to(masses, (count,))
        falling = () if gravity is None else (Gravity(number("gravity", gravity)),)
        self.space = Euclidean(dim)
        self.elements = (rods, *falling, *elements)
        self.resting = resting
        check_elements(elements, count, "joints")
        _check_masses(self.free, self.masses_seen_by(rods))

    @property
    def edges(self) -> Tuples:
        """The two joints of each rod."""
        return cast(Rod, self.elements[0]).points

    @property
    def mass(self) -> Float[Array, "F F"]:
        """The matrix M of the kinetic energy K = ½ q̇ᵀ(M ⊗ I)q̇."""
        ends = _incidence(self.edges, len(self.hinge_masses))[:, list(self.free)]
        # A uniform rod of mass m between moving joints has the matrix m/6 [[2, 1], [1, 2]].
        one_rod = ends[:, :, None] * ends[:, None, :] * (1 + np.eye(len(self.free))) / 6
        free = jnp.asarray(np.eye(len(self.hinge_masses))[list(self.free)], self.hinge_masses.dtype)
        return jnp.diag(free @ self.hinge_masses) + jnp.tensordot(self.rod_masses, jnp.asarray(one_rod), 1)

    @checked
    def joints(self, q: Float[Array, "..."]) -> Float[Array, "N d"]:
        """The positions of all joints, pins included, from those of the free ones, [F, d] or flat."""
        # Products with constant matrices, since the derivative of indexing would be a scatter.
        place = np.eye(len(self.pins) + len(self.free))
        held = jnp.asarray(place[:, list(self.pins)], q.dtype)
        moved = jnp.asarray(place[:, list(self.free)], q.dtype)
        return held @ self.anchors.astype(q.dtype) + moved @ self._points(q)

    def _points(self, q: Array) -> Float[Array, "F d"]:
        return shaped(q, (len(self.free), self.space.dim), "free joints, dim")

    def points(self, q: Float[Array, " n"]) -> Float[Array, "N d"]:
        return self.joints(q)

    def seen_by(self, element: Element, q: Float[Array, " n"]) -> Float[Array, "N d"]:
        return self.joints(q)

    def masses_seen_by(self, element: Element) -> Float[Array, " N"]:
        # Half of a rod at each of its ends: what acts in proportion to the masses pulls at its middle.
        ends = jnp.asarray(_incidence(self.edges, len(self.hinge_masses)), self.rod_masses.dtype)
        return self.hinge_masses + 0.5 * self.rod_masses @ ends

    def kinetic_energy(self, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        return 0.5 * jnp.dot(v, self.momentum(jnp.zeros_like(v[0]), q, v))

    def momentum(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Array:
        return (self.mass.astype(v.dtype) @ self._points(v)).reshape(-1)

    def velocity(
        self, t: Number, q: Float[Array, " n"], p: Array, v: Float[Array, " n"] | None = None
    ) -> Float[Array, " n"]:
        return jax.vmap(solve, (None, 1), 1)(self.mass.astype(p.dtype), self._points(p)).reshape(-1)

    def without_idle(
        self, q: Float[Array, " n"], p: Float[Array, " n"]
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        return q, p

    def with_rest(self) -> "Linkage":
        return eqx.tree_at(lambda s: s.resting, self, True)

    def check(self, t: Number, q: np.ndarray, v: np.ndarray) -> None:
        wanted = (len(self.free), self.space.dim)
        for name, value in (("q0", q), ("v0", v)):
            if np.shape(value) != wanted:
                raise ValueError(f"{name} must have shape {wanted} (free joints, dim), got {np.shape(value)}")
        check_regular(self, q, v, t)
        check_constraints(self, constraint_names(self), np.ravel(q), np.ravel(v), t)
        seen = seen_by_contacts(self, jnp.asarray(q).reshape(-1))
        check_contacts(self.space, elements_of(self, AbstractContact), t, seen)


def _incidence(edges: Tuples, count: int) -> np.ndarray:
    """The incidence matrix [E, N]: 1 if the joint is an end of the edge, else 0."""
    return np.array([[float(i in edge) for i in range(count)] for edge in edges])


def _check_masses(free: tuple[int, ...], lumped: Float[Array, " N"]) -> None:
    """Raises ValueError for a free joint without mass."""
    if isinstance(lumped, Tracer):
        return
    massless = [i for i in free if not lumped[i] > 0]
    if massless:
        raise ValueError(
            f"joint {massless[0]} has no mass: give rod_masses or hinge_masses (rod_mass, "
            "hinge_mass of a chain) that are positive there"
        )


def check_regular(linkage: Linkage, q: ArrayLike, v: ArrayLike, t: ArrayLike = 0.0) -> None:
    """Raises ValueError, with the names of the rods, if the constraints of a linkage are linearly dependent at q: there
    its configuration space may be singular. Not for traced values."""
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


@checked
def linkage(
    joints: Numbers,
    edges: Indices,
    *elements: Element,
    pins: Indices = (),
    lengths: Each | None = None,
    rod_masses: Each = 0.0,
    hinge_masses: Each = 1.0,
    gravity: Number | None = None,
) -> tuple[Linkage, Float[Array, "F d"]]:
    """A linkage from a drawing of it, with its configuration.

    Rods are as long as drawn, or have the `lengths` given; then the configuration is the one near the drawing.

    Args:
        joints: positions [N, d].
        edges: pairs (i, j) of joints that rods join.
        elements: potentials, dissipation, constraints and contacts.
        pins: numbers of the joints that are held.
        lengths: of the rods, one number or [E]; None: as drawn.
        rod_masses, hinge_masses, gravity: as for `gd.linkages.Linkage`.

    Returns:
        (system, q0), a Linkage and the positions [F, d] of its free joints.

    Raises:
        ValueError: as `gd.linkages.Linkage` does, for pins that are too far apart for the rods, and for a singular
            linkage.

    Example:
        A four-bar linkage drawn roughly, with rods of the lengths 1, 2 and 1.

        >>> drawing = [[0.0, 0.0], [0.1, 0.9], [2.0, 1.1], [2.0, 0.0]]
        >>> system, q0 = gd.linkages.linkage(drawing, [(0, 1), (1, 2), (2, 3)], pins=(0, 3), lengths=[1.0, 2.0, 1.0])
        >>> print(q0.shape, jnp.linalg.norm(jnp.diff(system.joints(q0), axis=0), axis=1).round(6))
        (2, 2) [1. 2. 1.]
    """
    joints = floats("joints", joints)
    if joints.ndim != 2:
        raise ValueError(f"joints must be positions [N, d], got shape {joints.shape}")
    drawn = Rod(edges, 1.0).points
    if sorted({i for edge in drawn for i in edge}) != list(range(len(joints))):
        raise ValueError(f"edges must join all of the {len(joints)} joints and no others, got {drawn}")
    ends = np.array(drawn)
    apart = jnp.sqrt(jnp.sum((joints[ends[:, 0]] - joints[ends[:, 1]]) ** 2, axis=1))
    lengths = apart if lengths is None else one_each("lengths", lengths, drawn, positive=True)
    if not np.ndim(pins) == 1 or not set(np.ravel(pins).tolist()) <= set(range(len(joints))):
        raise ValueError(f"pins must be numbers of joints, 0 to {len(joints) - 1}; got {pins!r}")
    held = {i: joints[i] for i in np.ravel(pins).tolist()}
    system = Linkage(
        drawn,
        lengths,
        held,
        *elements,
        rod_masses=rod_masses,
        hinge_masses=hinge_masses,
        gravity=gravity,
        dim=joints.shape[1],
    )
    q0 = joints[np.array(system.free)]
    if not any(isinstance(x, Tracer) for x in jax.tree.leaves((system, q0))):
        _check_reach(drawn, lengths, held)
        check_regular(system, q0, jnp.zeros_like(q0))
    return system, project(system, q0, jnp.zeros_like(q0))[0]


def _check_reach(edges: Tuples, lengths: Float[Array, " E"], pins: dict[int, Array]) -> None:
    """Raises ValueError if two pins are farther apart than the rods between them reach, or exactly as far."""
    count = 1 + max(map(max, edges))
    rows, columns = np.array(edges).T
    graph = coo_array((np.asarray(lengths), (rows, columns)), (count, count))
    reach = shortest_path(graph.tocsr(), directed=False)
    for i, j in itertools.combinations(sorted(pins), 2):
        apart = float(np.linalg.norm(np.asarray(pins[i]) - np.asarray(pins[j])))
        if apart >= reach[i, j] * (1 - 1e-9):
            what = "cannot be assembled" if apart > reach[i, j] * (1 + 1e-9) else "is singular: it cannot move"
            raise ValueError(
                f"pins {i} and {j} are {apart:.6g} apart and the rods between them reach {reach[i, j]:.6g}, so that "
                f"the linkage {what}. Bring the pins closer together (a smaller span), make rods longer, or take more "
                "of them (a larger count)"
            )
