"""Elements with a threshold force: dry friction and plastic springs."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Each, Float, Indices, Number
from geodyn._geometry.geodesics.relaxation import Effort
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._mechanics.elements.abstract import (
    AbstractFriction,
    AbstractPlasticity,
    Tuples,
    distances,
    index_tuples,
    number,
    one_each,
    one_per_point,
    path_effort,
)


class DryFriction(AbstractFriction):
    """Dry friction of every point on its space: R = Σ F_i |v_i|.

    A moving point is held back by the force F_i, and a point at rest stays there, with velocity exactly 0, until more
    than F_i acts on it. `gd.friction.IncrementalPotential` steps it; friction that follows the normal force of a
    contact is the `friction` of `gd.Wall` and `gd.Contact`.

    Args:
        strength: F = μN ≥ 0, one number or one per point [N]; 0 for points that slide freely.

    Raises:
        ValueError: for a strength that is negative or not one per point.

    Example:
        A block slides until it stops, after v²/(2F/m).

        >>> block = gd.System(gd.spaces.Euclidean(1), [2.0], gd.friction.DryFriction(3.0))
        >>> method = gd.friction.IncrementalPotential(theta=0.5)
        >>> trajectory = gd.integrate(block, [[0.0]], [[3.0]], t1=3.0, steps=300, method=method)
        >>> print(f"{trajectory.q[-1, 0, 0]:.3f} {abs(trajectory.v[-1, 0, 0]):.6f}")
        3.000 0.000000
    """

    points: ClassVar[Tuples] = ()
    strength: Float[Array, "..."]

    @checked
    def __init__(self, strength: Each):
        self.strength = number("strength", strength)

    def slip(
        self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"]
    ) -> Float[Array, "N dim"]:
        one_per_point("strength", self.strength, x)
        return jax.vmap(lambda x, v: jnp.linalg.cholesky(space.metric(x)).T @ v)(x, v)


class PlasticSpring(AbstractPlasticity):
    """Springs along edges (i, j) that yield: the force is k (dist(x_i, x_j) − ℓ − e_p), at most the yield force Y.

    Where the force reaches Y, the permanent lengthening e_p flows (elastic, perfectly plastic).
    `gd.friction.IncrementalPotential` steps it. The forces λ are the last of `trajectory.multipliers`, with the sign of
    those of `gd.Rod`: negative where a spring is stretched. So e_p = dist − ℓ + λ/k.

    Args:
        edges: pairs of different indices of points [E, 2].
        stiffness: k > 0, one number or one per edge [E].
        length: rest length ℓ ≥ 0, one number or one per edge [E].
        yield_force: Y > 0, one number or one per edge [E].
        nodes: the largest number of nodes of `gd.distance`, for metrics without distances in closed form; by default
            256.
        tolerance: a relative error of the distances that is good enough, for such metrics.

    Raises:
        ValueError: for edges that are no pairs of different points, and for numbers that are not positive (a length may
            be 0) or not one per edge.

    Example:
        A spring with k = 4 and Y = 1 is stretched by 0.5: 0.25 of it is permanent.

        >>> spring = gd.friction.PlasticSpring([(0, 1)], stiffness=4.0, length=1.0, yield_force=1.0)
        >>> pull = gd.loads.Driven(1, lambda t: jnp.array([1.0 + 0.5 * t]))
        >>> body = gd.System(gd.spaces.Euclidean(1), [1.0, 1.0], gd.Pin(0, [0.0]), pull, spring)
        >>> trajectory = gd.friction.quasi_static(body, [[0.0], [1.0]], t1=1.0, steps=10)
        >>> force = trajectory.multipliers[-1, -1]
        >>> print(f"{force:.6f} {0.5 + force / 4:.6f}")
        -1.000000 0.250000
    """

    points: Tuples = eqx.field(static=True)
    stiffness: Float[Array, " E"]
    length: Float[Array, " E"]
    yield_force: Float[Array, " E"]
    effort: Effort = eqx.field(static=True)

    @checked
    def __init__(
        self,
        edges: Indices,
        stiffness: Each,
        length: Each,
        yield_force: Each,
        nodes: Count | None = None,
        tolerance: Number = 0.0,
    ):
        self.effort = path_effort(nodes, tolerance)
        self.points = index_tuples("edges", edges, 2)
        self.stiffness = one_each("stiffness", stiffness, self.points, positive=True)
        self.length = one_each("length", length, self.points)
        self.yield_force = one_each("yield_force", yield_force, self.points, positive=True)

    def strain(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " E"]:
        return distances(space, x, self.points, self.effort) - self.length.astype(x.dtype)
