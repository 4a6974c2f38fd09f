"""External fields on all points: gravity, central potentials, given loads, and linear drag."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import as_pytree
from geodyn._foundations.checks import check_arguments, floats, returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Each, Float, Number, Numbers, Row, Rows, Scalar
from geodyn._geometry.geodesics.distances import squared_distance
from geodyn._geometry.geodesics.relaxation import Effort
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._geometry.models.charts import cosine, sine_ratio
from geodyn._mechanics.elements.abstract import (
    AbstractDissipation,
    AbstractPotential,
    Tuples,
    curvature_of,
    number,
    one_per_point,
    path_effort,
)

TAKES_NO_MASSES = "Gravity(strength=9.81, *, axis=-1) takes no masses: it sees those of its system"


def _without_masses(init: Callable) -> Callable:
    """Decorator of the constructor of `Gravity`: for other arguments, such as the masses that earlier versions took,
    the error says how to write the call."""

    @wraps(init)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            signature(init).bind(*args, **kwargs)
        except TypeError as error:
            raise ValueError(f"{TAKES_NO_MASSES}; got other arguments ({error})") from None
        init(*args, **kwargs)

    return call


class Gravity(AbstractPotential):
    """A uniform field along one coordinate, V = strength · Σ m_i x_i[axis], with the masses of the system.

    For charts in which straight lines are straight in the coordinates, such as Cartesian ones.

    Args:
        strength: the acceleration, one number, by default 9.81.
        axis: index of the coordinate that counts upwards, by default the last.

    Raises:
        ValueError: for a strength that is not one number (it takes no masses, since it sees those of the system), and
            for an axis beyond the coordinates.

    Example:
        Free fall for one second: ½ · 9.81.

        >>> stone = gd.System(gd.spaces.Euclidean(2), [2.0], gd.Gravity(9.81))
        >>> trajectory = gd.integrate(stone, [[0.0, 0.0]], t1=1.0, steps=10)
        >>> print(f"{trajectory.q[-1, 0, 1]:.6f}")
        -4.905000
    """

    points: ClassVar[Tuples] = ()
    strength: Float[Array, ""]
    axis: int = eqx.field(static=True)

    @_without_masses
    @checked
    def __init__(self, strength: Numbers = 9.81, *, axis: int = -1):
        self.strength = floats("strength", strength)
        self.axis = axis
        if self.strength.ndim:
            raise ValueError(f"strength must be one number, got shape {self.strength.shape}: {TAKES_NO_MASSES}")
        if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
            raise ValueError(f"axis must be the number of a coordinate, got {axis!r}")

    def energy(self, space: AbstractManifold, x: Float[Array, "N dim"], masses: Float[Array, " N"]) -> Scalar:
        if not -x.shape[1] <= self.axis < x.shape[1]:
            raise ValueError(f"axis must be one of the coordinates 0 to {x.shape[1] - 1}, got {self.axis}")
        return self.strength.astype(x.dtype) * jnp.dot(masses.astype(x.dtype), x[:, self.axis])

    @property
    def _pulls_at_masses(self) -> bool:
        return True


class PointLoad(AbstractPotential):
    """Given forces on the points, V = −Σ f_i · x_i.

    For charts in which straight lines are straight in the coordinates, such as Cartesian ones.

    Args:
        force: the forces [N, dim], or a function of time t -> [N, dim], which may be an `eqx.Module`, whose arrays can
            be differentiated.
        per_mass: True if they are forces per unit mass, accelerations: V = −Σ m_i f_i · x_i with the masses of the
            system.

    Raises:
        ValueError: for forces of another shape.

    Example:
        A force that grows like t gives the mass 2 the velocity t²/4.

        >>> load = gd.loads.PointLoad(lambda t: jnp.array([[1.0, 0.0]]) * t)
        >>> body = gd.System(gd.spaces.Euclidean(2), [2.0], load)
        >>> trajectory = gd.integrate(body, [[0.0, 0.0]], t1=3.0, steps=10)
        >>> print(f"{trajectory.v[-1, 0, 0]:.6f}")
        2.250000
    """

    points: ClassVar[Tuples] = ()
    force: Float[Array, "N dim"] | Callable
    per_mass: bool = eqx.field(static=True)

    @checked
    def __init__(self, force: Callable | Rows, *, per_mass: bool = False):
        if callable(force):
            check_arguments("force", force, "t", named=())
        self.force = as_pytree(force) if callable(force) else floats("force", force)
        self.per_mass = per_mass

    def energy(
        self, space: AbstractManifold, x: Float[Array, "N dim"], t: Scalar, masses: Float[Array, " N"]
    ) -> Scalar:
        given = returned("force", self.force, t) if callable(self.force) else self.force
        force = given.astype(x.dtype)
        if force.shape != x.shape:
            raise ValueError(f"force must have the shape of the points, {x.shape}; got {force.shape}")
        factor = masses.astype(x.dtype)[:, None] if self.per_mass else 1
        return -jnp.sum(factor * force * x)

    @property
    def _pulls_at_masses(self) -> bool:
        return self.per_mass


class Kepler(AbstractPotential):
    """The attraction of points by a fixed centre, as of planets by the Sun: V = −Σ k_i/d_i with their distances d_i.

    On the unit sphere it is −Σ k_i cot d_i and in hyperbolic space −Σ k_i coth d_i, so that bounded orbits close
    wherever the curvature is constant. In any other space it is −Σ k_i/d_i.

    Args:
        strength: k, one number or one per point [N]; negative where the centre repels.
        centre: coordinates of the centre [dim].
        per_mass: True if `strength` is that of a unit mass, k_i = m_i · strength with the masses of the system.
        nodes: the largest number of nodes of `gd.distance`, for metrics without distances in closed form; by default
            256.
        tolerance: a relative error of the distances that is good enough, for such metrics.

    Raises:
        ValueError: for numbers that are not one per point, and a centre that is not [dim].

    Example:
        An ellipse with the major semi-axis a = 1/1.36 closes after 2π a^1.5 (Kepler's third law).

        >>> planet = gd.System(gd.spaces.Euclidean(2), [1.0], gd.Kepler(1.0, [0.0, 0.0]))
        >>> period = 2 * np.pi * (1 / 1.36) ** 1.5
        >>> trajectory = gd.integrate(planet, [[1.0, 0.0]], [[0.0, 0.8]], t1=period, steps=200)
        >>> print(f"{trajectory.q[-1, 0, 0]:.6f} {abs(trajectory.q[-1, 0, 1]):.6f}")
        1.000000 0.000000

    Source:
        Higgs, *J. Phys. A* 12 (1979) 309; Kozlov & Harin, *Celest. Mech. Dyn. Astron.* 54 (1992) 393.
    """

    points: ClassVar[Tuples] = ()
    strength: Float[Array, "..."]
    centre: Float[Array, " dim"]
    per_mass: bool = eqx.field(static=True)
    effort: Effort = eqx.field(static=True)

    @checked
    def __init__(
        self,
        strength: Each,
        centre: Row,
        *,
        per_mass: bool = False,
        nodes: Count | None = None,
        tolerance: Number = 0.0,
    ):
        self.strength = floats("strength", strength)
        self.centre = _place(centre)
        self.per_mass = per_mass
        self.effort = path_effort(nodes, tolerance)

    def energy(self, space: AbstractManifold, x: Float[Array, "N dim"], masses: Float[Array, " N"]) -> Scalar:
        cosines, squared_sines = _from_centre(space, x, self.centre, self.effort)
        strength = _of_masses("strength", self.strength, x, masses, self.per_mass)
        return -jnp.dot(strength, cosines / jnp.sqrt(squared_sines))

    @property
    def _pulls_at_masses(self) -> bool:
        return self.per_mass


class Harmonic(AbstractPotential):
    """The harmonic pull of a fixed centre: V = Σ ½ k_i d_i², d_i being the distance of x_i from it.

    On the unit sphere it is Σ ½ k_i tan² d_i (finite on a hemisphere) and in hyperbolic space Σ ½ k_i tanh² d_i, so
    that all bounded orbits close wherever the curvature is constant. In any other space it is Σ ½ k_i d_i².

    Args:
        stiffness: k ≥ 0, one number or one per point [N].
        centre: coordinates of the centre [dim].
        per_mass: True if `stiffness` is that of a unit mass, a squared angular frequency: k_i = m_i · stiffness with
            the masses of the system.
        nodes: the largest number of nodes of `gd.distance`, for metrics without distances in closed form; by default
            256.
        tolerance: a relative error of the distances that is good enough, for such metrics.

    Raises:
        ValueError: for numbers that are negative or not one per point, and a centre that is not [dim].

    Example:
        On the unit sphere an oscillation through the centre with the amplitude d has the period 2π cos d/√k.

        >>> body = gd.System(gd.spaces.Sphere(2), [1.0], gd.Harmonic(1.0, [0.0, 0.0]))
        >>> start = [[np.tan(0.25), 0.0]]
        >>> trajectory = gd.integrate(body, start, t1=2 * np.pi * np.cos(0.5), steps=100)
        >>> print(f"{gd.distance(body.space, trajectory.q[-1, 0], [0.0, 0.0]):.6f}")
        0.500000

    Source:
        Higgs, *J. Phys. A* 12 (1979) 309; Kozlov & Harin, *Celest. Mech. Dyn. Astron.* 54 (1992) 393.
    """

    points: ClassVar[Tuples] = ()
    stiffness: Float[Array, "..."]
    centre: Float[Array, " dim"]
    per_mass: bool = eqx.field(static=True)
    effort: Effort = eqx.field(static=True)

    @checked
    def __init__(
        self,
        stiffness: Each,
        centre: Row,
        *,
        per_mass: bool = False,
        nodes: Count | None = None,
        tolerance: Number = 0.0,
    ):
        self.stiffness = number("stiffness", stiffness)
        self.centre = _place(centre)
        self.per_mass = per_mass
        self.effort = path_effort(nodes, tolerance)

    def energy(self, space: AbstractManifold, x: Float[Array, "N dim"], masses: Float[Array, " N"]) -> Scalar:
        cosines, squared_sines = _from_centre(space, x, self.centre, self.effort)
        stiffness = _of_masses("stiffness", self.stiffness, x, masses, self.per_mass)
        return 0.5 * jnp.dot(stiffness, squared_sines / cosines**2)

    @property
    def _pulls_at_masses(self) -> bool:
        return self.per_mass


class Drag(AbstractDissipation):
    """Linear drag on every point, with the Rayleigh function R = ½ Σ c_i g(x_i)(v_i, v_i): the force −c_i g(x_i) v_i.

    Args:
        coefficient: c ≥ 0, one number or one per point [N].

    Raises:
        ValueError: for numbers that are negative, not finite, or not one per point.

    Example:
        The velocity decays like e^(−ct/m).

        >>> body = gd.System(gd.spaces.Euclidean(1), [2.0], gd.Drag(1.0))
        >>> trajectory = gd.integrate(body, [[0.0]], [[1.0]], t1=2.0, steps=20)
        >>> print(f"{trajectory.v[-1, 0, 0]:.6f} {np.exp(-1.0):.6f}")
        0.367879 0.367879
    """

    points: ClassVar[Tuples] = ()
    coefficient: Float[Array, "..."]

    @checked
    def __init__(self, coefficient: Each):
        self.coefficient = number("coefficient", coefficient)

    def rayleigh(self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"]) -> Scalar:
        squares = jax.vmap(lambda x, v: v @ space.metric(x) @ v)(x, v)
        return 0.5 * jnp.dot(one_per_point("coefficient", self.coefficient, x), squares)


def _place(centre: Row) -> Float[Array, " dim"]:
    return floats("centre", centre, "the coordinates of a point")


def _of_masses(
    name: str, value: Float[Array, "..."], x: Float[Array, "N dim"], masses: Float[Array, " N"], per_mass: bool
) -> Float[Array, " N"]:
    """`value` for each point [N], times the mass of the point if it is given per unit mass."""
    return one_per_point(name, value, x) * (masses.astype(x.dtype) if per_mass else 1)


def _from_centre(
    space: AbstractManifold, x: Float[Array, "N dim"], centre: Float[Array, "..."], effort: Effort
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """cos d and sin² d of the distances d from the centre for curvature 1; cosh d and sinh² d for −1; else 1 and d²."""
    if centre.shape != (space.dim,):
        raise ValueError(f"centre must have shape ({space.dim},), the coordinates of a point; got {centre.shape}")
    curvature = curvature_of(space)
    squares = jax.vmap(lambda x: squared_distance(space, x, centre.astype(x.dtype), nodes=effort))(x)
    ratios = jax.vmap(lambda square: sine_ratio(curvature, square))(squares)
    return jax.vmap(lambda square: cosine(curvature, square))(squares), squares * ratios**2
