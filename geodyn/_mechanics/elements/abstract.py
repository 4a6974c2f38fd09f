"""Base classes of the elements of a body (potentials, dissipation, friction, plasticity, constraints), and checks of
their arguments."""

import abc
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import static_count
from geodyn._engine.native import for_points
from geodyn._engine.numerics.failure import in_range_or_nan
from geodyn._foundations.checks import floats
from geodyn._foundations.typing import Array, Count, Float, Indices, Number, Scalar
from geodyn._geometry.geodesics.distances import distance
from geodyn._geometry.geodesics.limits import NODES, effort_of
from geodyn._geometry.geodesics.relaxation import Effort
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._geometry.models.spaces import AbstractConstantCurvature

Tuples = tuple[tuple[int, ...], ...]
"""The points that an element joins: one tuple of indices for each edge, triangle, …"""

NUMERALS = {1: "one", 2: "two", 3: "three", 4: "four"}
NOUNS = {2: "edge", 3: "triple of points", 4: "tetrahedron"}


class AbstractPotential(eqx.Module):
    """A potential, whose gradient is a force; the base class of such elements.

    Subclass it with a method `energy(space, x[N, dim]) -> V`, written with jax.numpy. A method of an element that names
    a parameter `t` is given the time, and one that names a parameter `masses` the masses of the system [N], those of
    the points x (of poses, those of the bodies; contacts are not given them).

    An element of any kind may have a static field or class attribute `points`, a tuple of tuples of indices, which says
    that it is a sum over them: each of its terms, or residuals, depends on the points of one tuple, or on a single
    point. Bodies of many points all of whose elements have `points` get sparse Newton matrices. An element without it
    may couple all of the points.

    Example:
        The centrifugal potential of a frame that turns with the rate ω: a point released at rest moves away as cosh ωt.

        >>> class Centrifugal(gd.AbstractPotential):
        ...     rate: float
        ...     def energy(self, space, x, masses):
        ...         return -0.5 * self.rate**2 * jnp.sum(masses[:, None] * x**2)
        >>> body = gd.System(gd.spaces.Euclidean(2), [3.0], Centrifugal(2.0))
        >>> trajectory = gd.integrate(body, [[1.0, 0.0]], t1=1.0, steps=40)
        >>> print(f"{trajectory.q[-1, 0, 0]:.6f} {np.cosh(2.0):.6f}")
        3.762196 3.762196
    """

    @abc.abstractmethod
    def energy(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Scalar:
        """Potential energy of the points x[N, dim]."""

    @property
    def _pulls_at_masses(self) -> bool:
        """Whether all of its forces are in proportion to the masses of the points, so that others feel none."""
        return False


class AbstractDissipation(eqx.Module):
    """A dissipation, given by its Rayleigh function R: the force −∂R/∂v; the base class of such elements.

    Subclass it with a method `rayleigh(space, x[N, dim], v[N, dim]) -> R`, written with jax.numpy, of the points and
    their coordinate velocities; it may name `t` and `masses` (see `gd.AbstractPotential`). Where R is quadratic in v,
    it is half of the power dissipated.

    Example:
        Quadratic drag, R = c |v|³/3: the velocity is v/(1 + c v t/m).

        >>> class QuadraticDrag(gd.AbstractDissipation):
        ...     c: float
        ...     def rayleigh(self, space, x, v):
        ...         return self.c / 3 * jnp.sum(jax.vmap(lambda x, v: gd.norm(space, x, v) ** 3)(x, v))
        >>> body = gd.System(gd.spaces.Euclidean(2), [1.0], QuadraticDrag(0.5))
        >>> trajectory = gd.integrate(body, [[0.0, 0.0]], [[2.0, 0.0]], t1=3.0, steps=30)
        >>> print(f"{trajectory.v[-1, 0, 0]:.6f} {2 / (1 + 0.5 * 2 * 3):.6f}")
        0.500000 0.500000
    """

    @abc.abstractmethod
    def rayleigh(self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"]) -> Scalar:
        """R(x, v) of the points x[N, dim] with coordinate velocities v[N, dim]."""

    @property
    def _drives(self) -> bool:
        """Whether it is the power of given forces, which may push as well."""
        return False


class AbstractFriction(eqx.Module):
    """Dry friction, with the Rayleigh function R = Σ F_i |s_i| of slip velocities s_i; the base class of such elements.

    R has a corner where a slip stops: there the force is whatever holds it, up to F_i (Coulomb). Subclass it with a
    field `strength` (F ≥ 0, one number or [c]) and a method `slip(space, x[N, dim], v[N, dim]) -> [c, d]`, the
    velocities of what slides, affine in v, in orthonormal components. The method may name `t` and `masses` (see
    `gd.AbstractPotential`). `gd.friction.IncrementalPotential` steps such systems.

    Example:
        A block on a belt that runs at speed 1: the force F takes the block with it, until it sticks.

        >>> class Belt(gd.friction.AbstractFriction):
        ...     strength: jax.Array
        ...     def slip(self, space, x, v, t):
        ...         return v - 1.0
        >>> block = gd.System(gd.spaces.Euclidean(1), [2.0], Belt(jnp.array(4.0)))
        >>> method = gd.friction.IncrementalPotential()
        >>> trajectory = gd.integrate(block, [[0.0]], t1=1.0, steps=20, method=method)
        >>> print(f"{trajectory.v[4, 0, 0]:.6f} {trajectory.v[-1, 0, 0]:.6f}")
        0.400000 1.000000

    Source:
        Moreau, *C. R. Acad. Sci. Paris* A 271 (1970) 608, for friction as what follows from such a function.
    """

    strength: eqx.AbstractVar[Array]

    @abc.abstractmethod
    def slip(self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"]) -> Float[Array, "c d"]:
        """The slip velocities s_i [c, d], affine in v, in orthonormal components."""


class AbstractPlasticity(eqx.Module):
    """Perfect plasticity: a force k (e − e_p) along a strain e(x) that never exceeds the yield force Y.

    Where the force reaches Y, the plastic strain e_p flows and dissipates Y |e_p'|. At the start e_p is what lies
    beyond the yield, 0 below it. Subclass it with fields `stiffness` and `yield_force` (k and Y, both [c], positive)
    and a method `strain(space, x[N, dim]) -> [c]`, zero where nothing is loaded, which may name `t` and `masses` (see
    `gd.AbstractPotential`). `gd.friction.IncrementalPotential` steps such systems.

    Example:
        A bar with k = 4 and Y = 1 is pulled by 0.5: the force stays at Y, and acts against the pull.

        >>> class Bar(gd.friction.AbstractPlasticity):
        ...     stiffness: jax.Array
        ...     yield_force: jax.Array
        ...     def strain(self, space, x):
        ...         return x[:, 0]
        >>> elements = Bar(jnp.array([4.0]), jnp.array([1.0])), gd.loads.Driven(0, lambda t: jnp.array([0.5]) * t)
        >>> body = gd.System(gd.spaces.Euclidean(1), [1.0], *elements)
        >>> trajectory = gd.friction.quasi_static(body, [[0.0]], t1=1.0, steps=10)
        >>> print([f"{pull:.6f}" for pull in trajectory.multipliers[jnp.array([2, 5, 10]), 0]])
        ['0.400000', '1.000000', '1.000000']

    Source:
        Simo & Hughes, *Computational Inelasticity*, 1.2.
    """

    stiffness: eqx.AbstractVar[Array]
    yield_force: eqx.AbstractVar[Array]

    @abc.abstractmethod
    def strain(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " c"]:
        """The strains e(x) [c], zero in the unloaded state."""


class AbstractConstraint(eqx.Module):
    """Holonomic constraints, held at zero by multipliers; the base class of such elements.

    Subclass it with `size`, the number of constraints (a static field, as below), and a method
    `residual(space, x[N, dim]) -> [size]` that vanishes where they hold. The method may name `t` and `masses` (see
    `gd.AbstractPotential`).

    Example:
        A bead on the parabola y = x² keeps to it, and keeps its energy.

        >>> class Parabola(gd.AbstractConstraint):
        ...     size: int = eqx.field(static=True, default=1)
        ...     def residual(self, space, x):
        ...         return x[:, 1] - x[:, 0] ** 2
        >>> bead = gd.System(gd.spaces.Euclidean(2), [1.0], Parabola(), gd.Gravity(9.81))
        >>> trajectory = gd.integrate(bead, [[1.0, 1.0]], t1=2.0, steps=100)
        >>> x, y = trajectory.q[-1, 0]
        >>> print(f"{abs(y - x**2):.6f} {trajectory.energy[0]:.2f} {trajectory.energy[-1]:.2f}")
        0.000000 9.81 9.81
    """

    size: eqx.AbstractVar[int]

    @abc.abstractmethod
    def residual(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " size"]:
        """The constraint functions φ(x) [size], zero where the constraints hold."""


class AbstractPfaffian(eqx.Module):
    """Nonholonomic constraints `A(x)v = b(x)` on a body: rolling, blades, wheels; an element of a `gd.System`.

    They are held by reactions that do no work on the velocities with Av = 0 (Lagrange and d'Alembert). A subclass has a
    static field `size`, the number of constraints, and defines `rate(space, x[N, dim], v[N, dim]) -> [size]`, the
    values `A(x)v − b(x)` that must vanish, affine in the coordinate velocities v.

    Example:
        A free particle with z' = y x': y' is conserved, and so is √(1 + y²) x'.

        >>> class Slope(gd.nonholonomic.AbstractPfaffian):
        ...     size: int = eqx.field(static=True, default=1)
        ...     def rate(self, space, x, v):
        ...         return v[:, 2] - x[:, 1] * v[:, 0]
        >>> particle = gd.System(gd.spaces.Euclidean(3), [1.0], Slope())
        >>> motion = gd.integrate(particle, jnp.zeros((1, 3)), jnp.array([[1.0, 0.5, 0.0]]), t1=2.0, steps=40)
        >>> (x, y, z), (u, v, w) = motion.q[-1, 0], motion.v[-1, 0]
        >>> print(f"{v:.6f} {jnp.sqrt(1 + y**2) * u:.6f}")
        0.500000 1.000000

    Source:
        Bloch, *Nonholonomic Mechanics and Control*, 1.3.
    """

    size: eqx.AbstractVar[int]

    @abc.abstractmethod
    def rate(
        self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"]
    ) -> Float[Array, " size"]:
        """A(x)v − b(x) [size], affine in the coordinate velocities v[N, dim]; zero where the constraints hold."""


def with_masses(method: Callable, masses: Float[Array, " N"]) -> Callable:
    """The method of an element, with `masses` bound to it if it has a parameter of that name."""
    return partial(method, masses=masses) if "masses" in signature(method).parameters else method


def curvature_of(space: AbstractManifold) -> int:
    """The curvature 1, 0 or −1 of a space of constant curvature; 0 for any other space."""
    return space.chart.curvature if isinstance(space, AbstractConstantCurvature) else 0


def measure_each(
    measure: Callable, space: AbstractManifold, x: Float[Array, "N dim"], points: Indices
) -> Float[Array, " E"]:
    """`measure(space, x_i, x_j, …)` for every tuple of point indices: lengths of edges, areas of triangles, …"""
    indices = points if isinstance(points, Array) else np.array(points)
    # The first points of all tuples, their second ones, …
    corners = [x[index] for index in indices.T]
    return for_points(lambda *corners: measure(space, *corners), *corners)


def distances(space: AbstractManifold, x: Float[Array, "N dim"], pairs: Indices, effort: Effort) -> Float[Array, " E"]:
    """The distances of pairs of points."""
    return measure_each(lambda space, x, y: distance(space, x, y, nodes=effort), space, x, pairs)


def path_effort(nodes: Count | None, tolerance: Number) -> Effort:
    """The accuracy settings of distances from the arguments `nodes` and `tolerance` of an element; nodes=None means the
    default of `gd.distance`. Raises ValueError unless nodes is a positive whole number and 0 ≤ tolerance < 1."""
    most = NODES if nodes is None else static_count("nodes", nodes)
    tolerance = cast(float, tolerance)  # No complex number is admitted.
    return effort_of(most, float(tolerance))


def index_tuples(name: str, value: Any, count: int) -> Tuples:
    """`value` as tuples of `count` different indices ≥ 0; else ValueError."""
    try:
        array = np.asarray(value)
    except ValueError:
        # Rows of different lengths: refused below, as a number is.
        array = np.asarray(0)
    if array.ndim != 2 or array.shape[1] != count or not np.issubdtype(array.dtype, np.integer):
        kind = "pairs" if count == 2 else f"{count}-tuples"
        raise ValueError(f"{name} must be {kind} of point indices [E, {count}], got {value!r}")
    for row in array.tolist():
        if min(row) < 0 or len(set(row)) < count:
            raise ValueError(f"{name} must join {NUMERALS[count]} different points with indices ≥ 0, got {tuple(row)}")
    return tuple(map(tuple, array.tolist()))


def once_each(name: str, found: Tuples) -> Tuples:
    """The tuples of indices; ValueError where the same ones stand there twice, since what touches would touch twice."""
    seen = set()
    for indices in found:
        if frozenset(indices) in seen:
            raise ValueError(f"{name} must have each once, but {indices} stand there twice: leave one out")
        seen.add(frozenset(indices))
    return found


def number(name: str, value: Any, *, positive: bool = False, most: float = np.inf) -> Array:
    """`value` as an array of finite numbers in [0, most], or in (0, most) if `positive`; else ValueError, or NaN where
    a number is traced."""
    value = floats(name, value)
    if isinstance(value, Tracer):
        return in_range_or_nan(value, 0.0, most, not positive)
    x = np.asarray(value)
    in_range = (x > 0) & (x < most) if positive else (x >= 0) & (x <= most)
    if not np.all(np.isfinite(x) & in_range):
        least = "positive" if positive else "≥ 0"
        bound = "less than" if positive else "at most"
        limit = "" if most == np.inf else f", {bound} {most:.6g},"
        raise ValueError(f"{name} must be {least}{limit} and finite, got {x}")
    return value


def one_each(
    name: str, value: Any, points: Tuples, *, positive: bool = False, most: float = np.inf
) -> Float[Array, " E"]:
    """`value`, one number or one for each tuple of points, as [E]; else ValueError."""
    value = number(name, value, positive=positive, most=most)
    if value.shape not in ((), (len(points),)):
        raise ValueError(
            f"{name} must be one number or one per {NOUNS[len(points[0])]} ({len(points)}), got shape {value.shape}"
        )
    return jnp.broadcast_to(value, (len(points),))


def one_per_point(name: str, value: Array, x: Float[Array, "N dim"]) -> Float[Array, " N"]:
    """`value`, one number or one for each point, as [N]; else ValueError."""
    if value.shape not in ((), x.shape[:1]):
        raise ValueError(f"{name} must be one number or one per point ({x.shape[0]}), got shape {value.shape}")
    return jnp.broadcast_to(value.astype(x.dtype), x.shape[:1])
