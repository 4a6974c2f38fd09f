"""Unilateral contacts, gap ≥ 0: hard spheres, walls, and any gap function of the user."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import as_pytree, jit, with_time
from geodyn._foundations.checks import check_arguments, one_number, returned, row
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Count, Each, Float, Indices, Int, Number, Scalar
from geodyn._geometry.geodesics.geodesic import distance_or_far, is_solved
from geodyn._geometry.geodesics.relaxation import Effort
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._geometry.models.spaces import Product
from geodyn._integrators.contract.contacts import Neighbours, pick
from geodyn._integrators.impacts.gaps import nearest
from geodyn._mechanics.elements.abstract import (
    Tuples,
    curvature_of,
    index_tuples,
    number,
    once_each,
    one_per_point,
    path_effort,
)
from geodyn._mechanics.elements.friction import slip_of_pair, slip_on_wall
from geodyn._mechanics.elements.poses import Poses

LISTED_PER_POINT = 8

Points = Float[Array, "N dim"]
# What a contact acts on; spheres act on points.
Seen = Points | Poses


class AbstractContact(eqx.Module):
    """Unilateral contacts, whose gaps stay ≥ 0; the base class of contacts.

    Subclass it with a field `restitution` (Newton's coefficient e from 0 to 1, one number or [c]) and a method
    `gap(space, x[N, dim]) -> [c]`: the room left at every contact, with a gradient that does not vanish where it is
    zero. A method that names a parameter `t` is given the time.

    Where a gap closes, the system is reflected in its kinetic metric: v⁺ = v − (1 + e)<v, n>n, with the unit normal n
    of gap = 0. Contacts that approach at the same time are struck one after the other where the order does not matter
    (normals orthogonal, or e = 1 and angles as of equal masses in a row), else together; what they set in motion
    follows. A contact without velocity of approach that is pressed stays closed, whatever its restitution. So does one
    of a restitution below 1 that would open for less than a sixteenth of a step: there the ever shorter flights of a
    bouncing ball end, and the energy they had left is lost; shorter steps follow them further.

    The static field `elastic=True` says that all restitutions are 1, so that no contact is followed to rest; contacts
    that are pressed at the start then need `System(…, resting=True)`, which `gd.integrate` sees to outside of jit. The
    class attribute `jumping = True` says that gaps are not continuous, which only `gd.methods.Moreau()` can follow.

    Example:
        A point in the unit circle, which it meets at t = 1, 3 and 5.

        >>> class Circle(gd.contact.AbstractContact):
        ...     restitution: jax.Array
        ...     def gap(self, space, x):
        ...         return 1 - jnp.sum(x**2, axis=1)
        >>> body = gd.System(gd.spaces.Euclidean(2), [1.0], Circle(jnp.array(1.0)))
        >>> impacts = gd.integrate(body, [[0.0, 0.0]], [[0.6, 0.8]], t1=6.0, steps=20).impacts
        >>> print([f"{t:.6f}" for t in impacts.t[: impacts.count]])
        ['1.000000', '3.000000', '5.000000']

    Source:
        Glocker, *Set-Valued Force Laws* (2001); Brogliato, *Nonsmooth Mechanics* (2016).
    """

    jumping: ClassVar[bool] = False
    restitution: eqx.AbstractVar[Array]
    elastic: bool = eqx.field(static=True, default=False, kw_only=True)

    @abc.abstractmethod
    def gap(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " c"]:
        """The gaps [c]: positive where nothing touches, zero at contact, with a gradient that does not vanish at zero.
        If the method has a parameter `t` it is given the time, for walls that move."""


class AbstractFrictionalContact(AbstractContact):
    """Contacts with Coulomb friction; the base class of such contacts.

    Subclass it, beside what `gd.contact.AbstractContact` needs, with a field `friction` (the coefficient μ, one number
    or [c], or None) and a method `slip(space, x[N, dim], v[N, dim]) -> [c, s]`: the velocities along every contact of
    what touches there, in an orthonormal frame, affine in v. Where the gap is no distance, the slip is to be multiplied
    by the rate at which the gap grows with distance. A method that names a parameter `t` is given the time.

    The impulse of an impact has a part along the slip too, in Coulomb's cone |f_t| ≤ μ f_n: it ends the slip, or has
    the size μ f_n and acts against it. Kinetic energy never grows. Contacts with friction that rest or slide need
    `method=gd.methods.Moreau()`.

    Example:
        Balls that turn, above the floor z = 0. `slip` is that of the lowest point, v − ω × r e_z; of a ball of radius
        0.5 that moves at 0.7 along x and turns with the rate 1 about y it is 0.2.

        >>> class OnFloor(gd.contact.AbstractFrictionalContact, gd.rigid.AbstractOnBodies):
        ...     radius: float
        ...     restitution: jax.Array
        ...     friction: jax.Array
        ...     def gap(self, space, bodies):
        ...         return bodies.position[:, 2] - self.radius
        ...     def slip(self, space, bodies, rates):
        ...         turning = rates.rotation @ jnp.swapaxes(bodies.rotation, 1, 2)
        ...         return rates.position[:, :2] - self.radius * turning[:, :2, 2]
        >>> floor = OnFloor(0.5, jnp.array(0.8), jnp.array(0.3))
        >>> ball = gd.rigid.RigidBodies([0.1, 0.1, 0.1], 1.0, floor)
        >>> q0, v0 = ball.state(position=[0, 0, 1.5], velocity=[0.7, 0, 0], angular_velocity=[0, 1.0, 0])
        >>> time, q, v = jnp.array(0.0), q0.reshape(-1), v0.reshape(-1)
        >>> gap, slip = ball.contacts.gap(time, q), ball.contacts.slip(time, q, v)
        >>> print(f"{gap[0]:.6f} {slip[0, 0]:.6f} {abs(slip[0, 1]):.6f}")
        1.000000 0.200000 0.000000

    Source:
        Moreau, *Unilateral contact and dry friction in finite freedom dynamics*, in *Nonsmooth Mechanics and
        Applications*, CISM 302 (1988) 1.
    """

    friction: eqx.AbstractVar[Array | None]

    @abc.abstractmethod
    def slip(self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"]) -> Float[Array, "c s"]:
        """The slip velocities [c, s]: the relative velocity tangential to each contact, in an orthonormal frame; affine
        in v. For a gap that is not a distance, it is multiplied by the norm of the gradient of the gap. If the method
        has a parameter `t` it is given the time, for belts that run."""


class AbstractSpheres(AbstractFrictionalContact):
    """Contacts between spheres of given `radii`, one for each of the `pairs`, by default all pairs; a base class."""

    radii: Float[Array, "..."]
    restitution: Float[Array, "..."]
    friction: Float[Array, "..."] | None
    pairs: Tuples | None = eqx.field(static=True)

    @checked
    def __init__(self, radii: Each, restitution: Each = 1.0, friction: Each = 0.0, pairs: Indices | None = None):
        self.radii = number("radii", radii, positive=True)
        self.friction = coefficient(friction)
        self.restitution = number("restitution", restitution, most=1.0)
        self.elastic = is_elastic(restitution)
        self.pairs = None if pairs is None else once_each("pairs", index_tuples("pairs", pairs, 2))

    def pairs_of(self, x: Float[Array, "N dim"]) -> Int[np.ndarray, "c 2"]:
        """The pairs that may touch. Raises ValueError if there are none, or if they name points that do not exist."""
        pairs = np.stack(np.triu_indices(len(x), 1), axis=1) if self.pairs is None else np.array(self.pairs)
        name = type(self).__name__
        if not len(pairs):
            raise ValueError(f"{name} needs two or more points; for one point against a wall use gd.Wall(gap)")
        if pairs.max() >= len(x):
            raise ValueError(f"pairs of {name} name point {pairs.max()}, but there are {len(x)} points")
        return pairs


class Contact(AbstractSpheres):
    """Hard spheres: contacts with the gap dist(x_i, x_j) − (r_i + r_j) between points.

    Contacts stand in the order (0, 1), (0, 2), … of the pairs. Of many pairs only those that are near are watched,
    until others may have come as near; this does not change the result. With friction the spheres slip on each other as
    bodies that do not spin: the slip is the relative velocity of the points. Balls that spin are `gd.rigid.RigidBodies`
    with `gd.rigid.Balls`.

    Spheres are sets of points at a distance, that of `gd.distance`. For a metric without closed form it is the distance
    along the geodesic found there; where none is found and the segment in the chart is more than twice as long as the
    radii, the length of the segment is taken, because such spheres are far apart. Radii have to stay below the size
    where such a metric has conjugate points, which is not checked.

    Args:
        radii: radii > 0, one number or one per point [N].
        restitution: Newton's coefficient of restitution, from 0 to 1, one number or one per pair.
        friction: Coulomb's coefficient of friction ≥ 0, one number or one per pair.
        pairs: the pairs of points [c, 2] that may touch; by default all.
        nodes: the largest number of nodes of `gd.distance`, for metrics without distances in closed form; by default
            256.
        tolerance: a relative error of the distances that is good enough, for such metrics.

    Raises:
        ValueError: for radii that are not positive, a restitution outside [0, 1], a friction below 0, and pairs that
            are none; in `gd.integrate`, for spheres that overlap at the start, and that are too large for the sphere or
            product of spheres in which they live. Inside jit nothing can be raised: there an overlap is a status of the
            result.

    Example:
        Two equal discs on a line, whose surfaces are 1 apart, meet at t = 1 and exchange their velocities.

        >>> discs = gd.System(gd.spaces.Euclidean(1), [1.0, 1.0], gd.Contact(0.25, restitution=1.0))
        >>> trajectory = gd.integrate(discs, [[0.0], [1.5]], [[1.0], [0.0]], t1=2.0, steps=10)
        >>> print(f"{trajectory.impacts.t[0]:.6f} {abs(trajectory.v[-1, 0, 0]):.6f} {trajectory.v[-1, 1, 0]:.6f}")
        1.000000 0.000000 1.000000
    """

    effort: Effort = eqx.field(static=True)

    @checked
    def __init__(
        self,
        radii: Each,
        restitution: Each = 1.0,
        friction: Each = 0.0,
        pairs: Indices | None = None,
        nodes: Count | None = None,
        tolerance: Number = 0.0,
    ):
        super().__init__(radii, restitution, friction, pairs)
        self.effort = path_effort(nodes, tolerance)

    def reach(self, x: Float[Array, "N dim"], pairs: Int[Array | np.ndarray, "c 2"]) -> Float[Array, " c"]:
        """r_i + r_j for the given pairs."""
        radii = one_per_point("radii", self.radii, x)
        return radii[pairs[:, 0]] + radii[pairs[:, 1]]

    def gap(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " c"]:
        return self.room(space, x, self.pairs_of(x))

    def room(
        self, space: AbstractManifold, x: Float[Array, "N dim"], pairs: Int[Array | np.ndarray, "c 2"]
    ) -> Float[Array, " c"]:
        """The gaps of the given pairs."""
        reach = self.reach(x, pairs)
        first = x[pairs[:, 0]]
        second = x[pairs[:, 1]]
        distances = jax.vmap(lambda x, y, near: distance_or_far(space, x, y, self.effort, near))(first, second, reach)
        return distances - reach

    def slip(self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"]) -> Float[Array, "c s"]:
        return self.slips(space, x, v, self.pairs_of(x))

    def slips(
        self, space: AbstractManifold, x: Float[Array, "N dim"], v: Points, pairs: Int[Array | np.ndarray, "c 2"]
    ) -> Float[Array, "c s"]:
        """The slip velocities of the given pairs. If the space needs a boundary-value solve, which may fail for distant
        points, the second point of a pair farther apart than 2(r_i + r_j) is replaced by one near the first."""
        first = x[pairs[:, 0]]
        second = x[pairs[:, 1]]
        rate_of_first = v[pairs[:, 0]]
        rate_of_second = v[pairs[:, 1]]
        if is_solved(space):
            reach = self.reach(x, pairs)
            far = jax.lax.stop_gradient(self.room(space, x, pairs) > reach)
            second = jax.vmap(lambda *pair: brought_near(space, *pair))(first, second, far, reach)
        return jax.vmap(lambda x, y, u, w: slip_of_pair(space, x, y, u, w))(
            first, second, rate_of_first, rate_of_second
        )


class Wall(AbstractFrictionalContact):
    """A wall for every point: contacts with a gap that is a function of the position.

    There is one contact for each point. For a sphere, let the gap vanish where the centre is a radius away from the
    wall.

    Where a "point" is the configuration of a rigid body, friction needs to know how fast the body slips: `slip`, and
    then the gap must be a distance. The disc of radius r, mass m and moment of inertia I, with the coordinates (x, y,
    angle anticlockwise), has the metric diag(m, m, I), the slip v[0] + r v[2] on the floor, and
    `gd.Gravity(m * 9.81, axis=1)` in a system with the mass 1.

    Args:
        gap: function x[dim] -> room left, positive inside; it need not be a distance. If it names a parameter `t`, it
            is given the time. It may be an `eqx.Module`, whose arrays are traced and can be differentiated.
        restitution: Newton's coefficient of restitution, from 0 to 1, one number or one per point [N].
        friction: Coulomb's coefficient of friction ≥ 0, one number or one per point [N].
        slip: function (x[dim], v[dim]) -> velocity along the wall, a number or [s], affine in v; it may name `t` as
            well. By default it is the velocity of the point along the wall, in the metric.

    Raises:
        ValueError: for a gap or a slip that is no function of these arguments, a restitution outside [0, 1], and a
            friction below 0.

    Example:
        A disc that does not spin falls, from the height 1, on a floor with friction and bounces. The friction ends the
        slip, which leaves 1/(1 + I/(m r²)) = 2/3 of the velocity along the floor.

        >>> r, inertia = 0.5, 0.125
        >>> def slip(x, v):
        ...     return v[0] + r * v[2]
        >>> floor = gd.Wall(lambda x: x[1] - r, restitution=0.5, friction=0.3, slip=slip)
        >>> space = gd.Manifold(lambda x: jnp.diag(jnp.array([1.0, 1.0, inertia])), 3)
        >>> disc = gd.System(space, [1.0], gd.Gravity(9.81, axis=1), floor)
        >>> trajectory = gd.integrate(disc, [[0.0, 1.5, 0.0]], [[1.0, 0.0, 0.0]], t1=0.5, steps=20)
        >>> print(f"{trajectory.impacts.t[0]:.6f} {np.sqrt(2 / 9.81):.6f} {trajectory.v[-1, 0, 0]:.6f}")
        0.451524 0.451524 0.666667
    """

    function: Callable
    restitution: Float[Array, "..."]
    friction: Float[Array, "..."] | None
    sliding: Callable | None

    @checked
    def __init__(self, gap: Callable, restitution: Each = 1.0, friction: Each = 0.0, slip: Callable | None = None):
        check_arguments("gap", gap, "x")
        if slip is not None:
            check_arguments("slip", slip, "x", "v")
        self.function = as_pytree(gap)
        self.sliding = None if slip is None else as_pytree(slip)
        self.friction = coefficient(friction)
        self.restitution = number("restitution", restitution, most=1.0)
        self.elastic = is_elastic(restitution)

    def gap(self, space: AbstractManifold, x: Float[Array, "N dim"], t: Number) -> Float[Array, " c"]:
        return jax.vmap(lambda x: one_number("gap", returned("gap", with_time(self.function, 1), t, x)))(x)

    def slip(
        self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"], t: Number
    ) -> Float[Array, "c s"]:
        def gap(x: Float[Array, " dim"]) -> Scalar:
            return one_number("gap", returned("gap", with_time(self.function, 1), t, x))

        sliding = self.sliding
        if sliding is None:
            return jax.vmap(lambda x, v: slip_on_wall(gap, space, x, v))(x, v)
        return jax.vmap(lambda x, v: row("slip", returned("slip", with_time(sliding, 2), t, x, v)))(x, v)


def brought_near(
    space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"], far: Bool[Array, ""], reach: Scalar
) -> Float[Array, " n"]:
    """The point y, or one at about the distance `reach` from x where it is `far`."""
    scale = jnp.sqrt(jnp.trace(space.metric(x)))
    return jnp.where(far, x + reach / scale, y)


def gaps(
    contact: AbstractContact, t: Number, space: AbstractManifold, x: Seen, which: Array | None = None
) -> Float[Array, " c"]:
    """The gaps of a contact at time t, or those numbered `which`; x is what the contact acts on, points or poses.
    Raises ValueError if the gap function returns another shape."""
    if isinstance(contact, Contact) and which is not None:
        points = cast(Points, x)
        return contact.room(space, points, jnp.asarray(contact.pairs_of(points))[which])
    name = type(contact).__name__
    value = returned(f"gap of {name}", with_time(contact.gap, 2), t, space, x)
    if jnp.ndim(value) != 1:
        wanted = "a number for each point" if isinstance(contact, Wall) else "shape [c]"
        raise ValueError(f"gap of {name} must return {wanted}, got {jnp.shape(value)}")
    for what, given in (("restitution", contact.restitution), ("friction", friction_of(contact))):
        if given is not None and jnp.shape(given) not in ((), value.shape):
            wanted = f"one number or one per contact ({value.size})"
            raise ValueError(f"{what} of {name} must be {wanted}, got shape {jnp.shape(given)}")
    return value if which is None else value[which]


def friction_of(contact: AbstractContact) -> Array | None:
    """The coefficient of friction of a contact; None if it has none."""
    return contact.friction if isinstance(contact, AbstractFrictionalContact) else None


def sizes(contacts: list[AbstractContact], space: AbstractManifold, seen: list) -> list[int]:
    """The number of gaps of each contact; `seen` holds what each contact acts on, points or poses."""

    def size(e: AbstractContact, x: Seen) -> int:
        return jax.eval_shape(lambda x: gaps(e, jnp.zeros(()), space, x), x).size

    found = []
    for contact, x in zip(contacts, seen, strict=True):
        # Of many spheres all gaps would take long to trace, only to be counted.
        count = len(contact.pairs_of(x)) if isinstance(contact, Contact) else size(contact, x)
        found.append(count)
    return found


def gaps_of(
    contacts: list[AbstractContact],
    t: Scalar,
    space: AbstractManifold,
    seen: list,
    which: Int[Array, " K"] | None = None,
) -> Float[Array, " c"]:
    """The gaps [c] of several contacts, concatenated, or those numbered `which`."""
    return _in_a_row(gaps, (), contacts, t, space, [(x,) for x in seen], which)


def slips_of(
    contacts: list[AbstractContact],
    t: Scalar,
    space: AbstractManifold,
    seen: list,
    rates: list,
    which: Int[Array, " K"] | None = None,
) -> Float[Array, "c s"]:
    """The slip velocities [c, s] of several contacts, concatenated and padded with zeros to the largest s, or those
    numbered `which`."""
    widest = 0
    for contact, x, v in zip(contacts, seen, rates, strict=True):
        shape = jax.eval_shape(lambda x, v, contact=contact: slips(contact, t, space, x, v), x, v).shape
        widest = max(widest, shape[1])

    def padded_slips(contact: AbstractContact, *args: Any) -> Float[Array, "c s"]:
        value = slips(contact, *args)
        return jnp.pad(value, ((0, 0), (0, widest - value.shape[1])))

    return _in_a_row(padded_slips, (widest,), contacts, t, space, list(zip(seen, rates, strict=True)), which)


def _in_a_row(
    measure: Callable,
    shape: tuple[int, ...],
    contacts: list[AbstractContact],
    t: Scalar,
    space: AbstractManifold,
    seen: list[tuple[Any, ...]],
    which: Int[Array, " K"] | None,
) -> Float[Array, "c ..."]:
    """What is measured at the gaps of all contacts, an array of this shape at each, or at those numbered `which`."""
    sized = sizes(contacts, space, [x for x, *_ in seen])
    if which is None or which.size == sum(sized):
        each = [measure(e, t, space, *x) for e, x in zip(contacts, seen, strict=True)]
        return jnp.concatenate([jnp.zeros((0, *shape), jnp.result_type(t)), *each])
    value = jnp.zeros((which.size, *shape), jnp.result_type(t))
    start = 0
    for contact, x, size in zip(contacts, seen, sized, strict=True):
        is_of_contact = (which >= start) & (which < start + size)
        here = is_of_contact.reshape(-1, *[1] * len(shape))
        measured = measure(contact, t, space, *x, jnp.clip(which - start, 0, size - 1))
        value = jnp.where(here, measured, value)
        start += size
    return value


def slips(
    contact: AbstractContact, t: Scalar, space: AbstractManifold, x: Seen, v: Seen, which: Array | None = None
) -> Float[Array, "c s"]:
    """The slip velocities [c, s] of a contact, or those numbered `which`; s = 0 without friction. Raises ValueError if
    the method `slip` returns another shape."""
    size = sizes([contact], space, [x])[0]
    if friction_of(contact) is None:
        return jnp.zeros((size if which is None else which.size, 0), jnp.result_type(t))
    if isinstance(contact, Contact) and which is not None:
        points = cast(Points, x)
        return contact.slips(space, points, cast(Points, v), jnp.asarray(contact.pairs_of(points))[which])
    slip = cast(AbstractFrictionalContact, contact).slip
    value = returned(f"slip of {type(contact).__name__}", with_time(slip, 3), t, space, x, v)
    if jnp.ndim(value) != 2 or len(value) != size:
        raise ValueError(f"slip of {type(contact).__name__} must return shape [{size}, s], got {jnp.shape(value)}")
    return value if which is None else value[which]


def restitutions_of(
    contacts: list[AbstractContact],
    space: AbstractManifold,
    seen: list,
    dtype: np.dtype,
    which: Int[Array, " K"] | None = None,
) -> Float[Array, " c"]:
    """The coefficients of restitution [c] of all gaps, or those numbered `which`."""
    return _one_per_gap([e.restitution for e in contacts], sizes(contacts, space, seen), dtype, which)


def frictions_of(
    contacts: list[AbstractContact],
    space: AbstractManifold,
    seen: list,
    dtype: np.dtype,
    which: Int[Array, " K"] | None = None,
) -> Float[Array, " c"]:
    """The coefficients of friction [c] of all gaps, or those numbered `which`."""
    values = []
    for contact in contacts:
        friction = friction_of(contact)
        values.append(0.0 if friction is None else friction)
    return _one_per_gap(values, sizes(contacts, space, seen), dtype, which)


def _one_per_gap(values: list, sized: list[int], dtype: np.dtype, which: Int[Array, " K"] | None) -> Float[Array, " c"]:
    """The values of all contacts, one number or one for each gap, as one for each gap."""
    each = [jnp.zeros(0, dtype)]
    for value, size in zip(values, sized, strict=True):
        each.append(jnp.broadcast_to(jnp.asarray(value, dtype), size))
    return pick(jnp.concatenate(each), which)


def neighbours_of(
    contacts: list[AbstractContact], t: Scalar, space: AbstractManifold, seen: list, points: int
) -> Neighbours | None:
    """The contacts that must be watched: of hard spheres with more than 8 pairs per point the nearest pairs, and all
    contacts of other elements. None if no element has so many pairs."""
    most = LISTED_PER_POINT * points
    sized = sizes(contacts, space, seen)
    many = [isinstance(e, Contact) and n > most for e, n in zip(contacts, sized, strict=True)]
    if not any(many):
        return None
    lists = []
    start = 0
    for contact, x, size, listed in zip(contacts, seen, sized, many, strict=True):
        everything = Neighbours(jnp.arange(size), jnp.asarray(jnp.inf, jnp.result_type(t)))
        near = nearest(gaps(contact, t, space, x), most) if listed else everything
        lists.append(Neighbours(start + near.which, near.room))
        start += size
    which = jnp.concatenate([each.which for each in lists])
    room = jnp.min(jnp.stack([each.room for each in lists]))
    return Neighbours(which, room)


def is_elastic(restitution: Each) -> bool:
    """Whether the coefficients of restitution are known to be 1. Then nothing comes to rest, and a smaller program
    without resting contacts is compiled."""
    return not isinstance(restitution, Tracer) and bool(np.all(np.asarray(restitution) == 1))


def coefficient(friction: Each) -> Array | None:
    """A coefficient of friction as an array; None if it is known to be 0. Then a smaller program without friction cones
    is compiled. Raises ValueError if it is negative."""
    # Test the argument itself: inside jit its conversion to an array is traced even if it is a constant.
    nothing = not isinstance(friction, Tracer) and bool(np.all(np.asarray(friction) == 0))
    return None if nothing else number("friction", friction)


def check_contacts(space: AbstractManifold, contacts: list[AbstractContact], t: Number, seen: list) -> None:
    """Raises ValueError if spheres do not fit into the space, if a contact is violated, or if a gap is not finite, or
    zero without a gradient; `seen` holds what each contact acts on, points or poses."""
    for contact, x in zip(contacts, seen, strict=True):
        name = type(contact).__name__
        values, change, reach = map(np.asarray, _at_start(contact, t, space, x))
        if isinstance(contact, Contact):
            most = diameter(space)
            if reach.max() >= most:
                raise ValueError(
                    f"radii {_label(contact, x, int(np.argmax(reach)))} add up to {reach.max():.6g}, but no two points "
                    f"of this space are further apart than {most:.6g}: make them smaller"
                )

        def largest(x: Any) -> float:
            return max(np.abs(np.asarray(leaf)).max() for leaf in jax.tree.leaves(x))

        for i in np.flatnonzero(~np.isfinite(values + change)):
            raise ValueError(f"the gap of {name} {_label(contact, x, i)} or its gradient is not finite at q0")
        touching = np.flatnonzero(values <= 0)  # Only these need gradients.
        if not touching.size:
            continue
        back = jax.vjp(lambda x, contact=contact: gaps(contact, t, space, x), x)[1]
        for i in touching:
            size = largest(back(jnp.asarray(np.arange(len(values)) == i, values.dtype))[0])
            if values[i] < -(np.finfo(values.dtype).eps ** 0.5) * size * (1 + largest(x)):
                room = f"they overlap by {-values[i]:.6g}; start from gaps ≥ 0"
                raise ValueError(f"q0 violates {name} {_label(contact, x, i)}: {room}")
            if size == 0:
                raise ValueError(f"the gap of {name} {_label(contact, x, i)} is zero at q0 and has no gradient there")


@jit
def _at_start(
    contact: AbstractContact, t: Scalar, space: AbstractManifold, x: Seen
) -> tuple[Float[Array, " c"], Float[Array, " c"], Float[Array, "..."]]:
    """(gaps, their derivative along 1 + |x|, which is not finite if a gradient is not, and r_i + r_j of spheres)."""
    way = jax.tree.map(lambda x: 1 + jnp.abs(x), x)
    values, change = jax.jvp(lambda x: gaps(contact, t, space, x), (x,), (way,))
    reach = jnp.zeros(0)
    if isinstance(contact, Contact):
        points = cast(Points, x)
        reach = contact.reach(points, contact.pairs_of(points))
    return values, change, reach


def diameter(space: AbstractManifold) -> float:
    """The largest distance of two points: π on the unit sphere, by Pythagoras in a product; infinite if not known."""
    if isinstance(space, Product):
        return float(np.hypot(diameter(space.a), diameter(space.b)))
    return np.pi if curvature_of(space) > 0 else np.inf


def _label(contact: AbstractContact, x: Seen, i: int | np.integer) -> str:
    if not isinstance(contact, Contact):
        return f"number {i}"
    pair = contact.pairs_of(cast(Points, x))[i]
    return f"between points {tuple(pair.tolist())}"
