"""Bodies of capsules, which touch in any space: all points within a radius of a geodesic segment between two points."""

import equinox as eqx
import jax
import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Count, Each, Float, Indices, Number, Scalar
from geodyn._geometry.geodesics.relaxation import Effort
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._mechanics.elements.abstract import Tuples, index_tuples, number, once_each, one_each, path_effort
from geodyn._mechanics.elements.contact import AbstractFrictionalContact, brought_near, coefficient, is_elastic
from geodyn._mechanics.elements.friction import slip_of_pair
from geodyn._mechanics.touching.pairs import meeting, pairs_of
from geodyn._mechanics.touching.segments import least_distances, nearest_places, segment_of


class Capsules(AbstractFrictionalContact):
    """Hard capsules: contacts with the gap dist(segment, segment) − (r₁ + r₂) between geodesic segments of any space.

    Each segment lies between two points of the body, which something holds apart, such as a `gd.Rod` or a `gd.Spring`.
    So rods collide, and the links of a chain with each other. An impact acts where the two segments are nearest, along
    the geodesic there, ends of segments included; it moves the points at the ends of a segment. So the momenta of all
    symmetries of the space are conserved, and with the restitution 1 the energy.

    In constant curvature and products of such spaces the distance of two segments follows from those of their ends. In
    any other space it is found by Newton's method from the momenta of the geodesics between their points. There a
    segment must be so short that a polynomial of 16 nodes resolves it, else the gap is NaN; and the first motion takes
    tens of seconds to compile. Two capsules have one contact: if they are parallel and side by side, it is at one place
    of the stretch where they are nearest.

    Where a curvature is positive, segments that run side by side have several places where nothing near is nearer. In
    constant curvature the nearest of all is found, in other spaces the best of five searches is taken, of which none
    was wrong in 21600 drawn pairs in S² × E.

    With friction they slip on each other as bodies that do not spin about their axes: the slip is the relative velocity
    of the points of the segments, whatever the radii.

    Args:
        segments: pairs of points [S, 2], the ends of each segment.
        radii: radii > 0, one number or one per segment [S].
        restitution: Newton's coefficient of restitution, from 0 to 1, one number or one per pair.
        friction: Coulomb's coefficient of friction ≥ 0, one number or one per pair.
        pairs: the pairs of segments [c, 2], by their numbers, that may touch; by default all that have no point in
            common.
        nodes: the largest number of nodes of `gd.distance`, for metrics without distances in closed form.
        tolerance: a relative error of the distances that is good enough, for such metrics.

    Raises:
        ValueError: for segments that are no pairs of different points, name points that do not exist, or stand there
            twice; for radii that are not positive, a restitution outside [0, 1] and a friction below 0; and for pairs
            that are none, name segments that do not exist, have a point in common, or stand there twice.

    Example:
        A rod falls across one that lies still: crossed in the middle, equal ones exchange their velocities.

        >>> touching = gd.contact.Capsules([(0, 1), (2, 3)], radii=0.1)
        >>> bars = gd.Rod([(0, 1), (2, 3)], length=2.0)
        >>> rods = gd.System(gd.spaces.Euclidean(3), [1.0] * 4, bars, touching)
        >>> q0 = [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, -1.0, 1.0], [0.0, 1.0, 1.0]]
        >>> v0 = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 0.0, -1.0]]
        >>> motion = gd.integrate(rods, q0, v0, t1=2.0, steps=20)
        >>> print(f"{motion.impacts.t[0]:.6f}", motion.v[-1, :, 2].round(6))
        0.800000 [-1. -1.  0.  0.]

    Source:
        Bertsekas, *SIAM J. Control Optim.* 20 (1982) 221; in flat space Ericson, *Real-Time Collision Detection*
        (2005), section 5.1.9.
    """

    segments: Tuples = eqx.field(static=True)
    radii: Float[Array, " S"]
    restitution: Float[Array, "..."]
    friction: Float[Array, "..."] | None
    pairs: Tuples = eqx.field(static=True)
    effort: Effort = eqx.field(static=True)

    @checked
    def __init__(
        self,
        segments: Indices,
        radii: Each,
        restitution: Each = 1.0,
        friction: Each = 0.0,
        pairs: Indices | None = None,
        nodes: Count | None = None,
        tolerance: Number = 0.0,
    ):
        self.segments = once_each("segments", index_tuples("segments", segments, 2))
        self.radii = one_each("radii", radii, self.segments, positive=True)
        self.restitution = number("restitution", restitution, most=1.0)
        self.elastic = is_elastic(restitution)
        self.friction = coefficient(friction)
        self.pairs = pairs_of("Capsules", "segment", self.segments, pairs)
        self.effort = path_effort(nodes, tolerance)

    def gap(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " c"]:
        reach = self._reach(x)
        return least_distances(space, x[self._ends(x)], reach, self.effort) - reach

    def slip(self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"]) -> Float[Array, "c s"]:
        reach = self._reach(x)
        ends = x[self._ends(x)]
        pairs = space, ends, reach, self.effort
        far = jax.lax.stop_gradient(least_distances(*pairs) > 2 * reach)
        at = nearest_places(*pairs)

        def slip(
            ends: Float[Array, "4 n"],
            rates: Float[Array, "4 n"],
            at: Float[Array, "2"],
            far: Bool[Array, ""],
            reach: Scalar,
        ) -> Float[Array, " s"]:
            def points(ends: Float[Array, "4 n"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
                return segment_of(space, *ends[:2]).at(at[0]), segment_of(space, *ends[2:]).at(at[1])

            (first, second), moved = jax.jvp(points, (ends,), (rates,))
            return slip_of_pair(space, first, brought_near(space, first, second, far, reach), *moved)

        return jax.vmap(slip)(ends, v[self._ends(x)], at, far, reach)

    def _ends(self, x: Float[Array, "N dim"]) -> np.ndarray:
        """The points [c, 4] at the ends of both segments of each pair. Raises ValueError if they do not exist."""
        segments = np.array(self.segments)
        if segments.max() >= len(x):
            raise ValueError(f"segments of Capsules name point {segments.max()}, but there are {len(x)} points")
        return segments[np.array(self.pairs)].reshape(-1, 4)

    def _points_at(self, points: int, contacts: int) -> list[tuple[int, ...]]:
        return meeting(self.segments, self.pairs)

    def _radii_at(self, points: int) -> np.ndarray:
        """A capsule ends in half a ball: the largest one around each point."""
        radii = np.zeros(points)
        np.maximum.at(radii, np.array(self.segments), np.asarray(self.radii)[:, None])
        return radii

    def _reach(self, x: Float[Array, "N dim"]) -> Float[Array, " c"]:
        first, second = np.array(self.pairs).T
        radii = self.radii.astype(x.dtype)
        return radii[first] + radii[second]
