"""What acts on every point from outside: potentials with a centre or a direction, and drag."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._checks import check_arguments, numbers
from geodyn._compile.jit import as_pytree
from geodyn._typing import Array, Float
from geodyn.geometry.geodesics.geodesic import squared_distance
from geodyn.geometry.geodesics.relaxation import Effort
from geodyn.geometry.manifold.manifold import AbstractManifold
from geodyn.geometry.models.charts import cosine, sine_ratio
from geodyn.mechanics.elements.abstract import (
    AbstractDissipation,
    AbstractPotential,
    Tuples,
    curvature_of,
    number,
    one_per_point,
    path_effort,
)

TAKES_NO_MASSES = "Gravity(strength=9.81, *, axis=-1) takes no masses: it sees those of its system"


def _without_masses(init):
    """The constructor of `Gravity`, which says how to write the calls of earlier versions, with masses."""

    @wraps(init)
    def checked(*args, **kwargs):
        try:
            signature(init).bind(*args, **kwargs)
        except TypeError as error:
            raise ValueError(f"{TAKES_NO_MASSES}; got other arguments ({error})") from None
        init(*args, **kwargs)

    return checked


class Gravity(AbstractPotential):
    """A uniform field along a coordinate: `Gravity(strength=9.81, *, axis=-1)`, V = strength · Σ m_i x_i[axis] with the
    masses of the system, for Cartesian-like charts. `axis` is the coordinate that counts upwards.

    Raises ValueError for a strength that is not one number, as masses are not, and an axis beyond the coordinates.
    """

    points: ClassVar[Tuples] = ()
    strength: Float[Array, ""]
    axis: int = eqx.field(static=True)

    @_without_masses
    def __init__(self, strength=9.81, *, axis=-1):
        self.strength, self.axis = numbers("strength", strength).astype(float), axis
        if self.strength.ndim:
            raise ValueError(f"strength must be one number, got shape {self.strength.shape}: {TAKES_NO_MASSES}")
        if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
            raise ValueError(f"axis must be the number of a coordinate, got {axis!r}")

    def energy(self, space, x, masses):
        if not -x.shape[1] <= self.axis < x.shape[1]:
            raise ValueError(f"axis must be one of the coordinates 0 to {x.shape[1] - 1}, got {self.axis}")
        return self.strength.astype(x.dtype) * jnp.dot(masses.astype(x.dtype), x[:, self.axis])


class PointLoad(AbstractPotential):
    """Given forces on the points: V = −Σ f_i · x_i, in Cartesian-like charts; `force` is [N, dim], or a function of
    time t -> [N, dim] (an `eqx.Module` too, whose arrays are then differentiable). With `per_mass=True` they are forces
    per unit mass, accelerations: V = −Σ m_i f_i · x_i with the masses of the system. Raises ValueError for other
    shapes."""

    points: ClassVar[Tuples] = ()
    force: Float[Array, "N dim"] | Callable
    per_mass: bool = eqx.field(static=True)

    def __init__(self, force, *, per_mass=False):
        if callable(force):
            check_arguments("force", force, "t", named=())
        self.force = as_pytree(force) if callable(force) else numbers("force", force).astype(float)
        self.per_mass = per_mass

    def energy(self, space, x, t, masses):
        force = jnp.asarray(self.force(t) if callable(self.force) else self.force, x.dtype)
        if force.shape != x.shape:
            raise ValueError(f"force must have the shape of the points, {x.shape}; got {force.shape}")
        return -jnp.sum((masses.astype(x.dtype)[:, None] if self.per_mass else 1) * force * x)


class Kepler(AbstractPotential):
    """The attraction of a fixed centre[dim]: V = −Σ k_i cot d_i on the unit sphere, −Σ k_i coth d_i in hyperbolic space
    and −Σ k_i/d_i in any other, d_i the distance of x_i; its bounded orbits close wherever the curvature is constant.

    `strength` k is one number or [N], negative where the centre repels; with `per_mass=True` it is that of a unit mass,
    k_i = m_i · strength with the masses of the system, as of the Sun on planets. `nodes` and `tolerance` as for
    `Spring`. Raises ValueError for numbers that are not one per point. Source: Higgs, *J. Phys. A* 12 (1979) 309;
    Kozlov & Harin, *Celest. Mech. Dyn. Astron.* 54 (1992) 393.
    """

    points: ClassVar[Tuples] = ()
    strength: Float[Array, "..."]
    centre: Float[Array, " dim"]
    per_mass: bool = eqx.field(static=True)
    effort: Effort = eqx.field(static=True)

    def __init__(self, strength, centre, *, per_mass=False, nodes=None, tolerance=0.0):
        self.strength, self.centre = numbers("strength", strength).astype(float), _place(centre)
        self.per_mass, self.effort = per_mass, path_effort(nodes, tolerance)

    def energy(self, space, x, masses):
        cosines, squared_sines = _from_centre(space, x, self.centre, self.effort)
        strength = _of_masses("strength", self.strength, x, masses, self.per_mass)
        return -jnp.dot(strength, cosines / jnp.sqrt(squared_sines))


class Harmonic(AbstractPotential):
    """The pull of a fixed centre[dim] that makes all orbits close: V = Σ ½ k_i tan² d_i on the unit sphere (finite on
    a hemisphere), ½ k_i tanh² d_i in hyperbolic space and ½ k_i d_i² in any other; the source is that of `Kepler`.

    `stiffness` k ≥ 0 is one number or [N]; with `per_mass=True` it is that of a unit mass, a squared frequency:
    k_i = m_i · stiffness with the masses of the system. `nodes` and `tolerance` as for `Spring`. Raises ValueError
    for numbers that are negative or not one per point.
    """

    points: ClassVar[Tuples] = ()
    stiffness: Float[Array, "..."]
    centre: Float[Array, " dim"]
    per_mass: bool = eqx.field(static=True)
    effort: Effort = eqx.field(static=True)

    def __init__(self, stiffness, centre, *, per_mass=False, nodes=None, tolerance=0.0):
        self.stiffness, self.centre = number("stiffness", stiffness), _place(centre)
        self.per_mass, self.effort = per_mass, path_effort(nodes, tolerance)

    def energy(self, space, x, masses):
        cosines, squared_sines = _from_centre(space, x, self.centre, self.effort)
        stiffness = _of_masses("stiffness", self.stiffness, x, masses, self.per_mass)
        return 0.5 * jnp.dot(stiffness, squared_sines / cosines**2)


class Drag(AbstractDissipation):
    """Linear drag on every point: R = ½ Σ c_i g(x_i)(v_i, v_i); coefficient ≥ 0, one number or [N]."""

    points: ClassVar[Tuples] = ()
    coefficient: Float[Array, "..."]

    def __init__(self, coefficient):
        self.coefficient = number("coefficient", coefficient)

    def rayleigh(self, space, x, v):
        squares = jax.vmap(lambda x, v: v @ space.metric(x) @ v)(x, v)
        return 0.5 * jnp.dot(one_per_point("coefficient", self.coefficient, x), squares)


def _place(centre) -> Float[Array, " dim"]:
    return numbers("centre", centre, "the coordinates of a point").astype(float)


def _of_masses(name, value, x, masses, per_mass: bool) -> Float[Array, " N"]:
    """`value` of each point, times its mass where it is per unit mass."""
    return one_per_point(name, value, x) * (masses.astype(x.dtype) if per_mass else 1)


def _from_centre(
    space: AbstractManifold, x: Float[Array, "N dim"], centre: Float[Array, "..."], effort: Effort
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """cos d and sin² d of the distances from the centre; 1 and d², cosh d and sinh² d where the curvature is 0, −1."""
    if centre.shape != (space.dim,):
        raise ValueError(f"centre must have shape ({space.dim},), the coordinates of a point; got {centre.shape}")
    curvature = curvature_of(space)
    squares = jax.vmap(lambda x: squared_distance(space, x, centre.astype(x.dtype), nodes=effort))(x)
    ratios = jax.vmap(lambda square: sine_ratio(curvature, square))(squares)
    return jax.vmap(lambda square: cosine(curvature, square))(squares), squares * ratios**2
