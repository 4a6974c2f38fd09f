"""What holds up to a force, and gives way there: dry friction, and springs that yield."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._typing import Array, Float
from geodyn.geometry.geodesics.relaxation import Effort
from geodyn.mechanics.elements.abstract import (
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
    """Dry friction of every point on its space: R = Σ F_i |v_i|, so that a moving point is held back by the force F_i,
    and one at rest stays there until more than F_i acts on it. `gd.friction.IncrementalPotential` steps it.

        slope = gd.friction.PointLoad([[m * g * sin(a)]]), gd.friction.DryFriction(mu * m * g * cos(a))
        block = gd.System(gd.spaces.Euclidean(1), [m], *slope)
        trajectory = gd.integrate(block, [[0.0]], [[v]], t1=2.0, steps=200,
        method=gd.friction.IncrementalPotential(theta=0.5))

    `strength` F = μN ≥ 0 is one number or [N], 0 for points that slide freely. Raises ValueError where it is negative
    or not one per point.
    """

    points: ClassVar[Tuples] = ()
    strength: Float[Array, "..."]

    def __init__(self, strength):
        self.strength = number("strength", strength)

    def slip(self, space, x, v):
        one_per_point("strength", self.strength, x)
        return jax.vmap(lambda x, v: jnp.linalg.cholesky(space.metric(x)).T @ v)(x, v)


class PlasticSpring(AbstractPlasticity):
    """Springs along edges (i, j) that yield: the force is k (dist(x_i, x_j) − ℓ − e_p) up to the yield force Y, where
    the permanent lengthening e_p flows (elastic, perfectly plastic). `gd.friction.IncrementalPotential` steps it; the
    forces are the last of `trajectory.multipliers`, with the sign of `Rod`'s: negative where a spring is stretched. So
    e_p is dist − ℓ + λ/k. `nodes` and `tolerance` as for `Spring`.

    `stiffness`, `length`, `yield_force` are one number or [E]. Raises ValueError for edges that are no pairs of
    distinct points, and for numbers that are not positive (a length ≥ 0) or not one per edge.
    """

    points: Tuples = eqx.field(static=True)
    stiffness: Float[Array, " E"]
    length: Float[Array, " E"]
    yield_force: Float[Array, " E"]
    effort: Effort = eqx.field(static=True)

    def __init__(self, edges, stiffness, length, yield_force, nodes=None, tolerance=0.0):
        self.effort = path_effort(nodes, tolerance)
        self.points = index_tuples("edges", edges, 2)
        self.stiffness = one_each("stiffness", stiffness, self.points, positive=True)
        self.length = one_each("length", length, self.points)
        self.yield_force = one_each("yield_force", yield_force, self.points, positive=True)

    def strain(self, space, x):
        return distances(space, x, self.points, self.effort) - self.length.astype(x.dtype)
