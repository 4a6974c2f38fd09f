"""Bodies of capsules on a wall, which is the level set of a function: geodesic segments, and where they are nearest."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import as_pytree, custom_jvp, jit, with_time
from geodyn._engine.native import native_of
from geodyn._engine.numerics.roots import with_derivative, without_derivatives
from geodyn._engine.tracing import batched_as
from geodyn._foundations.checks import check_arguments, one_number, returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Each, Float, Indices, Int, Number, Scalar
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._mechanics.elements.abstract import Tuples, index_tuples, number, once_each
from geodyn._mechanics.elements.contact import AbstractFrictionalContact, coefficient, is_elastic
from geodyn._mechanics.elements.friction import slip_on_wall
from geodyn._mechanics.touching.segments import Arc, Path, segment_of

# Parameters at which the room is compared before the search, the middle first: it is taken where all are equal.
PLACES = np.array([0.5, 0.0, 1.0, 0.25, 0.75, 0.125, 0.375, 0.625, 0.875])
APART = 0.125
MOST_TURNS = 60


class CapsulesOnWall(AbstractFrictionalContact):
    """A wall for geodesic segments: contacts of rods, and of the links of chains, with an obstacle of any shape.

    Each segment lies between two points of the body, which something holds apart, such as a `gd.Rod` or a `gd.Spring`.
    Its gap is the least that the function leaves for a point of the segment, and an impact acts there. So a rod lands
    on a ball or over an edge with its side, which `gd.Wall` would let pass between the two points. There is one contact
    for each segment. On a wall that is flat, or bulges away from the body, the ends are what touches: there `gd.Wall`
    is better, with a contact for each of them.

    With friction a segment slips as a body that does not spin about its axis, with the velocity of its point there.

    Args:
        segments: pairs of points [S, 2], the ends of each segment.
        gap: function x[dim] -> room left for a point, positive inside; it need not be a distance. Let it vanish where
            the axis of the capsule is a radius away from the wall. If it names a parameter `t`, it is given the time.
            It may be an `eqx.Module`, whose arrays are traced and can be differentiated. It should have no more than
            one valley in an eighth of a segment.
        restitution: Newton's coefficient of restitution, from 0 to 1, one number or one per segment.
        friction: Coulomb's coefficient of friction ≥ 0, one number or one per segment.

    Raises:
        ValueError: for segments that are no pairs of different points, or name points that do not exist; for a gap that
            is no function of these arguments, a restitution outside [0, 1] and a friction below 0.

    Example:
        A rod falls with its middle on a ball of radius 1, and bounces.

        >>> ball = gd.contact.CapsulesOnWall([(0, 1)], lambda x: jnp.linalg.norm(x) - 1.0)
        >>> rod = gd.System(gd.spaces.Euclidean(2), [1.0, 1.0], gd.Rod([(0, 1)], length=4.0), ball)
        >>> motion = gd.integrate(rod, [[-2.0, 1.5], [2.0, 1.5]], [[0.0, -1.0], [0.0, -1.0]], t1=1.0, steps=10)
        >>> print(f"{motion.impacts.t[0]:.6f}", motion.v[-1, :, 1].round(6))
        0.500000 [1. 1.]
    """

    segments: Tuples = eqx.field(static=True)
    function: Callable
    restitution: Float[Array, "..."]
    friction: Float[Array, "..."] | None

    @checked
    def __init__(self, segments: Indices, gap: Callable, restitution: Each = 1.0, friction: Each = 0.0):
        check_arguments("gap", gap, "x")
        self.segments = once_each("segments", index_tuples("segments", segments, 2))
        self.function = as_pytree(gap)
        self.restitution = number("restitution", restitution, most=1.0)
        self.elastic = is_elastic(restitution)
        self.friction = coefficient(friction)

    def gap(self, space: AbstractManifold, x: Float[Array, "N dim"], t: Number) -> Float[Array, " c"]:
        return least_rooms(space, self.function, t, self._ends(x))

    def slip(
        self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"], t: Number
    ) -> Float[Array, "c s"]:
        ends = self._ends(x)
        nearest = nearest_places(space, self.function, t, ends)

        def slip(ends: Float[Array, "2 n"], rates: Float[Array, "2 n"], at: Scalar) -> Float[Array, " s"]:
            def point(ends: Float[Array, "2 n"]) -> Float[Array, " n"]:
                return segment_of(space, ends[0], ends[1]).at(at)

            here, velocity = jax.jvp(point, (ends,), (rates,))
            return slip_on_wall(lambda x: room_at(self.function, t, x), space, here, velocity)

        return jax.vmap(slip)(ends, v[np.array(self.segments)], nearest)

    def _points_at(self, points: int, contacts: int) -> list[tuple[int, ...]]:
        return list(self.segments)

    def _ends(self, x: Float[Array, "N dim"]) -> Float[Array, "c 2 dim"]:
        """The points at the ends of each segment. Raises ValueError if they do not exist."""
        segments = np.array(self.segments)
        if segments.max() >= len(x):
            raise ValueError(f"segments of CapsulesOnWall name point {segments.max()}, but there are {len(x)} points")
        return x[segments]


class OnWall(eqx.Module):
    """A segment at a wall."""

    segment: Path | Arc
    function: Callable
    time: Number

    def room(self, s: Scalar) -> Scalar:
        """The room that is left for the point at a parameter."""
        return room_at(self.function, self.time, self.segment.at(s))

    def slope(self, s: Scalar) -> Scalar:
        """How the room grows with the parameter."""
        return jax.grad(self.room)(s)


def room_at(function: Callable, t: Number, x: Float[Array, " n"]) -> Scalar:
    """The room that a function of the user leaves for a point."""
    return one_number("gap", returned("gap", with_time(function, 1), t, x))


@jit
def least_rooms(
    space: AbstractManifold, function: Callable, t: Number, ends: Float[Array, "c 2 n"]
) -> Float[Array, " c"]:
    """The least room that is left for a point of each segment."""
    return jax.vmap(lambda ends: _least_room(OnWall(segment_of(space, ends[0], ends[1]), function, t)))(ends)


@jit
def nearest_places(
    space: AbstractManifold, function: Callable, t: Number, ends: Float[Array, "c 2 n"]
) -> Float[Array, " c"]:
    """The parameter at which each segment is nearest to the wall."""
    return jax.vmap(lambda ends: nearest_place(OnWall(segment_of(space, ends[0], ends[1]), function, t)))(ends)


@custom_jvp
def _least_room(wall: OnWall) -> Scalar:
    return wall.room(_found(wall))


@_least_room.def_jvp
def _(primals: tuple[OnWall], tangents: tuple[OnWall]) -> tuple[Scalar, Scalar]:
    # Where the room is least it has no slope, or the place is an end: as far as it moves, the room stays as it is.
    (wall,) = primals
    at = nearest_place(wall)
    return eqx.filter_jvp(lambda wall: wall.room(at), primals, tangents)


def nearest_place(wall: OnWall) -> Scalar:
    """The parameter at which a segment is nearest to the wall, with its derivatives. Where it is as near along a whole
    stretch, the place stays where it is."""
    at = jax.lax.stop_gradient(_found(wall))
    bend = jax.lax.stop_gradient(jax.grad(wall.slope)(at))
    is_free = (at > 0) & (at < 1) & (bend > 0)

    def residual(s: Float[Array, "1"]) -> Float[Array, "1"]:
        return jnp.where(is_free, jax.vmap(wall.slope)(s), s - at)

    return with_derivative(residual, at[None])[0]


class Bracket(NamedTuple):
    """A parameter, those below and above it between which the slope changes its sign, by how much the parameter has
    moved, and the number of turns."""

    at: Scalar
    below: Scalar
    above: Scalar
    moved: Scalar
    turns: Int[Array, ""]


def _found(wall: OnWall) -> Scalar:
    return native_of(_search, without_derivatives(wall))


def _search(wall: OnWall) -> Scalar:
    """The best of a few places, and from there Newton's method for the slope, or a bisection where Newton's step leaves
    the bracket."""
    dtype = wall.segment.start.dtype
    places = jnp.asarray(PLACES, dtype)
    rooms = jax.vmap(wall.room)(places)
    start = places[jnp.argmin(rooms)]

    def goes_on(state: Bracket) -> Bool[Array, ""]:
        return (state.moved > jnp.finfo(dtype).eps ** 0.75) & (state.turns < MOST_TURNS)

    def turn(state: Bracket) -> Bracket:
        slope, bend = jax.jvp(wall.slope, (state.at,), (jnp.ones((), dtype),))
        below = jnp.where(slope < 0, state.at, state.below)
        above = jnp.where(slope > 0, state.at, state.above)
        newton = state.at - slope / jnp.where(bend > 0, bend, 1)
        is_inside = (bend > 0) & (below <= newton) & (newton <= above)
        middle = (below + above) / 2
        at = jnp.asarray(jnp.where(is_inside, newton, middle), dtype)
        return Bracket(at, below, above, jnp.abs(at - state.at), state.turns + 1)

    below = jnp.maximum(start - APART, 0)
    above = jnp.minimum(start + APART, 1)
    begin = Bracket(start, below, above, jnp.ones((), dtype), jnp.zeros((), int))
    return jax.lax.while_loop(goes_on, turn, batched_as(wall, begin)).at
