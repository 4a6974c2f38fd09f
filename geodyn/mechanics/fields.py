"""What acts on every point from outside: potentials with a centre or a direction, and drag."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._jit import as_pytree
from geodyn._typing import Array, Float
from geodyn.geometry.charts import cosine, sine_ratio
from geodyn.geometry.geodesic import squared_distance
from geodyn.geometry.manifold import AbstractManifold
from geodyn.mechanics.elements import (
    AbstractDissipation,
    AbstractPotential,
    Tuples,
    curvature_of,
    most_nodes,
    number,
    one_per_point,
)


class Gravity(AbstractPotential):
    """A uniform field along a coordinate: V = strength · Σ m_i x_i[axis], for Cartesian-like charts.

    `masses[N]` are those of the system; `axis` is the coordinate that counts upwards, by default the last.
    """

    points: ClassVar[Tuples] = ()
    masses: Float[Array, "..."]
    strength: Float[Array, ""]
    axis: int = eqx.field(static=True)

    def __init__(self, masses, strength=9.81, axis=-1):
        self.masses, self.strength, self.axis = jnp.asarray(masses, float), jnp.asarray(strength, float), axis

    def energy(self, space, x):
        return self.strength.astype(x.dtype) * jnp.dot(one_per_point("masses", self.masses, x), x[:, self.axis])


class PointLoad(AbstractPotential):
    """Given forces on the points: V = −Σ f_i · x_i, in Cartesian-like charts; `force` is [N, dim], or a function of
    time t -> [N, dim] (an `eqx.Module` too, whose arrays are then differentiable). Raises ValueError for other
    shapes."""

    points: ClassVar[Tuples] = ()
    force: Float[Array, "N dim"] | Callable

    def __init__(self, force):
        self.force = as_pytree(force) if callable(force) else jnp.asarray(force, float)

    def energy(self, space, x, t):
        force = jnp.asarray(self.force(t) if callable(self.force) else self.force, x.dtype)
        if force.shape != x.shape:
            raise ValueError(f"force must have the shape of the points, {x.shape}; got {force.shape}")
        return -jnp.sum(force * x)


class Kepler(AbstractPotential):
    """The attraction of a fixed centre[dim]: V = −Σ k_i cot d_i on the unit sphere, −Σ k_i coth d_i in hyperbolic space
    and −Σ k_i/d_i in any other, d_i the distance of x_i; its bounded orbits close wherever the curvature is constant.

    `strength` k is one number or [N], negative where the centre repels (Higgs, *J. Phys. A* 12 (1979) 309; Kozlov &
    Harin, *Celest. Mech. Dyn. Astron.* 54 (1992) 393). `nodes` as for `Spring`. Raises ValueError for numbers that are
    not one per point."""

    points: ClassVar[Tuples] = ()
    strength: Float[Array, "..."]
    centre: Float[Array, " dim"]
    nodes: int = eqx.field(static=True)

    def __init__(self, strength, centre, nodes=None):
        self.nodes = most_nodes(nodes)
        self.strength, self.centre = jnp.asarray(strength, float), jnp.asarray(centre, float)

    def energy(self, space, x):
        cosines, squared_sines = _from_centre(space, x, self.centre, self.nodes)
        return -jnp.dot(one_per_point("strength", self.strength, x), cosines / jnp.sqrt(squared_sines))


class Harmonic(AbstractPotential):
    """The pull of a fixed centre[dim] that makes all orbits close: V = Σ ½ k_i tan² d_i on the unit sphere (finite on
    a hemisphere), ½ k_i tanh² d_i in hyperbolic space and ½ k_i d_i² in any other; the source is that of `Kepler`.

    `stiffness` k ≥ 0 is one number or [N]; `nodes` as for `Spring`. Raises ValueError for numbers that are negative or
    not one per point."""

    points: ClassVar[Tuples] = ()
    stiffness: Float[Array, "..."]
    centre: Float[Array, " dim"]
    nodes: int = eqx.field(static=True)

    def __init__(self, stiffness, centre, nodes=None):
        self.nodes = most_nodes(nodes)
        self.stiffness, self.centre = number("stiffness", stiffness), jnp.asarray(centre, float)

    def energy(self, space, x):
        cosines, squared_sines = _from_centre(space, x, self.centre, self.nodes)
        return 0.5 * jnp.dot(one_per_point("stiffness", self.stiffness, x), squared_sines / cosines**2)


class Drag(AbstractDissipation):
    """Linear drag on every point: R = ½ Σ c_i g(x_i)(v_i, v_i); coefficient ≥ 0, one number or [N]."""

    points: ClassVar[Tuples] = ()
    coefficient: Float[Array, "..."]

    def __init__(self, coefficient):
        self.coefficient = number("coefficient", coefficient)

    def rayleigh(self, space, x, v):
        squares = jax.vmap(lambda x, v: v @ space.metric(x) @ v)(x, v)
        return 0.5 * jnp.dot(one_per_point("coefficient", self.coefficient, x), squares)


def _from_centre(
    space: AbstractManifold, x: Float[Array, "N dim"], centre: Float[Array, "..."], nodes: int
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """cos d and sin² d of the distances from the centre; 1 and d², cosh d and sinh² d where the curvature is 0, −1."""
    if centre.shape != (space.dim,):
        raise ValueError(f"centre must have shape ({space.dim},), the coordinates of a point; got {centre.shape}")
    curvature = curvature_of(space)
    squares = jax.vmap(lambda x: squared_distance(space, x, centre.astype(x.dtype), nodes=nodes))(x)
    ratios = jax.vmap(lambda square: sine_ratio(curvature, square))(squares)
    return jax.vmap(lambda square: cosine(curvature, square))(squares), squares * ratios**2
