"""What bodies are held together by: springs and rods between points, and points held in place."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._checks import check_arguments, numbers
from geodyn._compile.jit import as_pytree
from geodyn._typing import Array, Float
from geodyn.geometry.geodesics.relaxation import Effort
from geodyn.mechanics.elements.abstract import (
    AbstractConstraint,
    AbstractPotential,
    Tuples,
    distances,
    index_tuples,
    one_each,
    path_effort,
)


class Spring(AbstractPotential):
    """Springs along edges (i, j): V = Σ ½ k (dist(x_i, x_j) − ℓ)²; stiffness and length are one number or [E].
    Where a metric has no distances in closed form, `nodes` are the most that `gd.distance` may take, and `tolerance` is
    the relative error that is good enough.

    Raises ValueError for edges that are no pairs of distinct points, and for lengths or stiffnesses that are negative,
    not finite, or not one per edge.
    """

    points: Tuples = eqx.field(static=True)
    stiffness: Float[Array, " E"]
    length: Float[Array, " E"]
    effort: Effort = eqx.field(static=True)

    def __init__(self, edges, stiffness, length, nodes=None, tolerance=0.0):
        self.effort = path_effort(nodes, tolerance)
        self.points = index_tuples("edges", edges, 2)
        self.stiffness = one_each("stiffness", stiffness, self.points)
        self.length = one_each("length", length, self.points)

    def energy(self, space, x):
        stretch = distances(space, x, self.points, self.effort) - self.length.astype(x.dtype)
        return 0.5 * jnp.dot(self.stiffness.astype(x.dtype), stretch**2)


class Rod(AbstractConstraint):
    """Rigid massless rods along edges (i, j): dist(x_i, x_j) = ℓ > 0, so λ is the force along the rod, negative where
    it is stretched; `nodes` and `tolerance` as for `Spring`. Raises ValueError as `Spring` does."""

    points: Tuples = eqx.field(static=True)
    length: Float[Array, " E"]
    size: int = eqx.field(static=True)
    effort: Effort = eqx.field(static=True)

    def __init__(self, edges, length, nodes=None, tolerance=0.0):
        self.effort = path_effort(nodes, tolerance)
        self.points = index_tuples("edges", edges, 2)
        self.length = one_each("length", length, self.points, positive=True)
        self.size = len(self.points)

    def residual(self, space, x):
        return distances(space, x, self.points, self.effort) - self.length.astype(x.dtype)


class Driven(AbstractConstraint):
    """Point `index` moved along `motion(t) -> [dim]`, its coordinates at every time; the multipliers are the force that
    does it. `motion` may be an `eqx.Module`, whose arrays are differentiable. Raises ValueError where it is no function
    of time with values [dim]."""

    points: Tuples = eqx.field(static=True)
    motion: Callable
    size: int = eqx.field(static=True)

    def __init__(self, index, motion):
        if not callable(motion):
            raise ValueError(f"motion must be a function t -> [dim], got {motion!r}; a point at rest is a FixedPoint")
        check_arguments("motion", motion, "t", named=())
        self.points, self.motion = index_tuples("index", [(index,)], 1), as_pytree(motion)
        self.size = jax.eval_shape(motion, jax.ShapeDtypeStruct((), jnp.result_type(float))).size

    def residual(self, space, x, t):
        position = jnp.asarray(self.motion(t), x.dtype)
        if position.shape != (space.dim,):
            raise ValueError(f"motion must return shape ({space.dim},), the coordinates; got {position.shape}")
        return x[self.points[0][0]] - position


class FixedPoint(AbstractConstraint):
    """Point `index` held at the coordinates `position[dim]`. Raises ValueError for a position of another shape."""

    points: Tuples = eqx.field(static=True)
    position: Float[Array, " dim"]
    size: int = eqx.field(static=True)

    def __init__(self, index, position):
        self.points, self.position = index_tuples("index", [(index,)], 1), numbers("position", position).astype(float)
        self.size = self.position.size

    def residual(self, space, x):
        if self.position.shape != (space.dim,):
            raise ValueError(f"position must have shape ({space.dim},), the coordinates; got {self.position.shape}")
        return x[self.points[0][0]] - self.position.astype(x.dtype)
