"""Unilateral contacts, gap ≥ 0: hard spheres, walls, and any gap function of the user."""

import abc
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import as_pytree, with_time
from geodyn._foundations.checks import check_arguments, one_number, returned, row
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Count, Each, Float, Indices, Int, Number, Scalar
from geodyn._geometry.geodesics.distances import distance_or_far, is_solved
from geodyn._geometry.geodesics.relaxation import Effort
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._integrators.contract.contacts import Neighbours
from geodyn._integrators.impacts.gaps import nearest
from geodyn._mechanics.elements.abstract import (
    Tuples,
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

    # What a body asks of its contacts besides, and what holds for contacts of any kind. Those that know more say so.

    @property
    def _coefficient(self) -> Array | None:
        """The coefficient of friction, one number or [c]; None without friction."""
        return None

    def _count_at(self, space: AbstractManifold, x: Seen) -> int:
        """The number of contacts."""
        return jax.eval_shape(lambda x: self._gaps_at(jnp.zeros(()), space, x), x).size

    def _gaps_at(self, t: Number, space: AbstractManifold, x: Seen, which: Array | None = None) -> Float[Array, " c"]:
        """The gaps at time t, or those numbered `which`. Raises ValueError if the method `gap` returns another shape,
        or if coefficients are not one number or one for each contact."""
        name = type(self).__name__
        value = returned(f"gap of {name}", with_time(self.gap, 2), t, space, x)
        if jnp.ndim(value) != 1:
            raise ValueError(f"gap of {name} must return shape [c], got {jnp.shape(value)}")
        for what, given in (("restitution", self.restitution), ("friction", self._coefficient)):
            if given is not None and jnp.shape(given) not in ((), value.shape):
                wanted = f"one number or one per contact ({value.size})"
                raise ValueError(f"{what} of {name} must be {wanted}, got shape {jnp.shape(given)}")
        return value if which is None else value[which]

    def _slips_at(
        self, t: Number, space: AbstractManifold, x: Seen, v: Seen, which: Array | None = None
    ) -> Float[Array, "c s"]:
        """The slip velocities at time t, or those numbered `which`; s = 0 without friction."""
        count = self._count_at(space, x) if which is None else which.size
        return jnp.zeros((count, 0), jnp.result_type(t))

    def _nearest_at(self, t: Number, space: AbstractManifold, x: Seen) -> Neighbours | None:
        """The contacts to watch, of so many that most are far from closed; None: all of them."""
        return None

    def _least_distances(self, x: Seen) -> Float[Array, " c"]:
        """The least distance of the two points of each contact, for contacts that keep two points apart; else [0]."""
        return jnp.zeros(0)

    def _label_at(self, x: Seen, i: int | np.integer) -> str:
        """What messages call the contact of this number."""
        return f"number {i}"

    def _points_at(self, points: int, contacts: int) -> list[tuple[int, ...]]:
        """The points that meet at each contact, where there are so many of both: each point by itself, as at a wall, or
        any of them where there are more contacts than points."""
        if contacts <= points:
            return [(i,) for i in range(contacts)]
        return [tuple(range(points))] * contacts

    def _radii_at(self, points: int) -> np.ndarray | None:
        """The radius of the ball around each point; None without balls."""
        radii = getattr(self, "radii", None)
        return None if radii is None else np.broadcast_to(np.asarray(radii), points)


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

    @property
    def _coefficient(self) -> Array | None:
        return self.friction

    def _slips_at(
        self, t: Number, space: AbstractManifold, x: Seen, v: Seen, which: Array | None = None
    ) -> Float[Array, "c s"]:
        """As above. Raises ValueError if the method `slip` returns another shape."""
        if self.friction is None:
            return super()._slips_at(t, space, x, v, which)
        count = self._count_at(space, x)
        name = type(self).__name__
        value = returned(f"slip of {name}", with_time(self.slip, 3), t, space, x, v)
        if jnp.ndim(value) != 2 or len(value) != count:
            raise ValueError(f"slip of {name} must return shape [{count}, s], got {jnp.shape(value)}")
        return value if which is None else value[which]


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

    def _points_at(self, points: int, contacts: int) -> list[tuple[int, ...]]:
        # Which pairs there are depends on the number of points only.
        return [tuple(pair) for pair in self.pairs_of(jnp.zeros((points, 1))).tolist()]


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

    def _count_at(self, space: AbstractManifold, x: Points) -> int:
        # Of many spheres all gaps would take long to trace, only to be counted.
        return len(self.pairs_of(x))

    def _gaps_at(self, t: Number, space: AbstractManifold, x: Points, which: Array | None = None) -> Float[Array, " c"]:
        if which is None:
            return super()._gaps_at(t, space, x)
        return self.room(space, x, jnp.asarray(self.pairs_of(x))[which])

    def _slips_at(
        self, t: Number, space: AbstractManifold, x: Points, v: Points, which: Array | None = None
    ) -> Float[Array, "c s"]:
        if which is None or self.friction is None:
            return super()._slips_at(t, space, x, v, which)
        return self.slips(space, x, v, jnp.asarray(self.pairs_of(x))[which])

    def _nearest_at(self, t: Number, space: AbstractManifold, x: Points) -> Neighbours | None:
        most = LISTED_PER_POINT * len(x)
        return nearest(self._gaps_at(t, space, x), most) if len(self.pairs_of(x)) > most else None

    def _least_distances(self, x: Points) -> Float[Array, " c"]:
        return self.reach(x, self.pairs_of(x))

    def _label_at(self, x: Points, i: int | np.integer) -> str:
        return f"between points {tuple(self.pairs_of(x)[i].tolist())}"


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
