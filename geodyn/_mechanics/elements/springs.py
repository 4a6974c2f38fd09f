"""Springs and rods between points, and points that are fixed or moved along a given path."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._engine.jit import as_pytree
from geodyn._foundations.checks import check_arguments, floats, returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Each, Float, Index, Indices, Number, Row, Scalar
from geodyn._geometry.geodesics.relaxation import Effort
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._mechanics.elements.abstract import (
    AbstractConstraint,
    AbstractPotential,
    Tuples,
    distances,
    index_tuples,
    one_each,
    path_effort,
)


class Spring(AbstractPotential):
    """Springs along edges (i, j): V = Σ ½ k (dist(x_i, x_j) − ℓ)², with the distance of the space, `gd.distance`.

    Args:
        edges: pairs of different indices of points [E, 2].
        stiffness: k ≥ 0, one number or one per edge [E].
        length: rest length ℓ ≥ 0, one number or one per edge [E].
        nodes: the largest number of nodes of `gd.distance`, for metrics without distances in closed form; by default
            256.
        tolerance: a relative error of the distances that is good enough, for such metrics.

    Raises:
        ValueError: for edges that are no pairs of different points, and for lengths or stiffnesses that are negative,
            not finite, or not one per edge.

    Example:
        Half the stiffness times the square of the stretch, here 0.2.

        >>> body = gd.System(gd.spaces.Sphere(2, "polar"), [1.0, 1.0], gd.Spring([(0, 1)], stiffness=3.0, length=0.5))
        >>> q = jnp.array([[1.0, 0.0], [1.7, 0.0]])
        >>> print(f"{gd.energy(body, q, jnp.zeros((2, 2))):.6f}")
        0.060000
    """

    points: Tuples = eqx.field(static=True)
    stiffness: Float[Array, " E"]
    length: Float[Array, " E"]
    effort: Effort = eqx.field(static=True)

    @checked
    def __init__(
        self, edges: Indices, stiffness: Each, length: Each, nodes: Count | None = None, tolerance: Number = 0.0
    ):
        self.effort = path_effort(nodes, tolerance)
        self.points = index_tuples("edges", edges, 2)
        self.stiffness = one_each("stiffness", stiffness, self.points)
        self.length = one_each("length", length, self.points)

    def energy(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Scalar:
        stretch = distances(space, x, self.points, self.effort) - self.length.astype(x.dtype)
        return 0.5 * jnp.dot(self.stiffness.astype(x.dtype), stretch**2)


class Rod(AbstractConstraint):
    """Rigid massless rods along edges (i, j): the constraint dist(x_i, x_j) = ℓ.

    Its multiplier λ is the force along the rod, negative where the rod is stretched.

    Args:
        edges: pairs of different indices of points [E, 2].
        length: length ℓ > 0, one number or one per edge [E].
        nodes: the largest number of nodes of `gd.distance`, for metrics without distances in closed form; by default
            256.
        tolerance: a relative error of the distances that is good enough, for such metrics.

    Raises:
        ValueError: for edges that are no pairs of different points, and for lengths that are not positive and finite,
            or not one per edge.

    Example:
        A mass of 2 hangs at rest on a rod: the tension is its weight. The multiplier of the rod comes after the two of
        the fixed point.

        >>> held, rod = gd.Pin(0, [0.0, 0.0]), gd.Rod([(0, 1)], length=1.0)
        >>> pendulum = gd.System(gd.spaces.Euclidean(2), [1.0, 2.0], held, rod, gd.Gravity(9.81))
        >>> trajectory = gd.integrate(pendulum, [[0.0, 0.0], [0.0, -1.0]], t1=1.0, steps=10)
        >>> print(f"{trajectory.multipliers[-1, 2]:.6f}")
        -19.620000
    """

    points: Tuples = eqx.field(static=True)
    length: Float[Array, " E"]
    size: int = eqx.field(static=True)
    effort: Effort = eqx.field(static=True)

    @checked
    def __init__(self, edges: Indices, length: Each, nodes: Count | None = None, tolerance: Number = 0.0):
        self.effort = path_effort(nodes, tolerance)
        self.points = index_tuples("edges", edges, 2)
        self.length = one_each("length", length, self.points, positive=True)
        self.size = len(self.points)

    def residual(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " size"]:
        return distances(space, x, self.points, self.effort) - self.length.astype(x.dtype)


class Driven(AbstractConstraint):
    """A point moved along a given path: the constraint x_index = motion(t).

    Its multipliers [dim] are the force that moves the point. With `gd.friction.quasi_static` it drives a body through a
    hysteresis loop.

    Args:
        index: index of the point.
        motion: function t -> [dim], the coordinates at every time, written with jax.numpy. It may be an `eqx.Module`,
            whose arrays can be differentiated.

    Raises:
        ValueError: where `motion` is no function of time with values [dim].

    Example:
        A point is pulled by 0.5 t against a spring of stiffness 2 whose other end is fixed: at t = 1 the force is 1.

        >>> pull = gd.loads.Driven(1, lambda t: jnp.array([1.0 + 0.5 * t]))
        >>> elements = gd.Pin(0, [0.0]), gd.Spring([(0, 1)], stiffness=2.0, length=1.0), pull
        >>> body = gd.System(gd.spaces.Euclidean(1), [1.0, 1.0], *elements)
        >>> trajectory = gd.friction.quasi_static(body, [[0.0], [1.0]], t1=1.0, steps=10)
        >>> print(f"{trajectory.multipliers[-1, 1]:.6f}")
        1.000000
    """

    points: Tuples = eqx.field(static=True)
    motion: Callable
    size: int = eqx.field(static=True)

    @checked
    def __init__(self, index: Index, motion: Callable):
        check_arguments("motion", motion, "t", named=())
        self.points = index_tuples("index", [(index,)], 1)
        self.motion = as_pytree(motion)
        self.size = jax.eval_shape(motion, jax.ShapeDtypeStruct((), jnp.result_type(float))).size

    def residual(self, space: AbstractManifold, x: Float[Array, "N dim"], t: Scalar) -> Float[Array, " size"]:
        position = returned("motion", self.motion, t).astype(x.dtype)
        if position.shape != (space.dim,):
            raise ValueError(f"motion must return shape ({space.dim},), the coordinates; got {position.shape}")
        return x[self.points[0][0]] - position


class Pin(AbstractConstraint):
    """A point held in place: the constraint x_index = position.

    Its multipliers [dim] are the force that holds the point.

    Args:
        index: index of the point.
        position: the coordinates [dim].

    Raises:
        ValueError: for a position of another shape.

    Example:
        A point on a spring: the first is fixed, the second oscillates with the angular frequency √(k/m) = 2.

        >>> elements = gd.Pin(0, [0.0]), gd.Spring([(0, 1)], stiffness=4.0, length=1.0)
        >>> body = gd.System(gd.spaces.Euclidean(1), [1.0, 1.0], *elements)
        >>> trajectory = gd.integrate(body, [[0.0], [1.5]], t1=np.pi / 2, steps=40)
        >>> print(f"{abs(trajectory.q[-1, 0, 0]):.6f} {trajectory.q[-1, 1, 0]:.6f}")
        0.000000 0.500000
    """

    points: Tuples = eqx.field(static=True)
    position: Float[Array, " dim"]
    size: int = eqx.field(static=True)

    @checked
    def __init__(self, index: Index, position: Row):
        self.points = index_tuples("index", [(index,)], 1)
        self.position = floats("position", position)
        self.size = self.position.size

    def residual(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " size"]:
        if self.position.shape != (space.dim,):
            raise ValueError(f"position must have shape ({space.dim},), the coordinates; got {self.position.shape}")
        return x[self.points[0][0]] - self.position.astype(x.dtype)
