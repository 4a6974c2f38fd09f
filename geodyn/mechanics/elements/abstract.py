"""What bodies are made of: potentials, dissipations and constraints, each one function of the positions; and the checks
that their arguments share."""

import abc
from collections.abc import Callable
from functools import partial
from inspect import signature

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._checks import numbers
from geodyn._compile.jit import static_count
from geodyn._typing import Array, Float, Scalar
from geodyn.geometry.geodesics.geodesic import NODES, distance, effort_of
from geodyn.geometry.geodesics.relaxation import Effort
from geodyn.geometry.manifold.manifold import AbstractManifold
from geodyn.geometry.models.spaces import AbstractConstantCurvature

Tuples = tuple[tuple[int, ...], ...]
"""The points that an element joins: one tuple of indices for each edge, triangle, …"""

NUMERALS = {1: "one", 2: "two", 3: "three", 4: "four"}
NOUNS = {2: "edge", 3: "triple of points", 4: "tetrahedron"}
LARGEST_PRODUCT = 32


class AbstractPotential(eqx.Module):
    """A force that is the gradient of an energy. A method of an element that names a parameter `t` is given the time,
    one that names a parameter `masses` those of the system: [N], of the points x (of poses, of the bodies; contacts
    have no use for them).

        class Centrifugal(gd.AbstractPotential):
            rate: float
            def energy(self, space, x, masses):
                return -0.5 * self.rate**2 * jnp.sum(masses[:, None] * x**2)

    An element of any kind may say that it is a sum over `points`, a static tuple of tuples of indices: each of its
    terms, or residuals, depends on the points of one tuple, or on a single point. Bodies of many points all of whose
    elements say so have sparse Newton matrices; an element without `points` may couple all of them.
    """

    @abc.abstractmethod
    def energy(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Scalar:
        """Potential energy of the points x[N, dim]."""


class AbstractDissipation(eqx.Module):
    """A force −∂R/∂v from a Rayleigh function, half the power dissipated where R is quadratic in v."""

    @abc.abstractmethod
    def rayleigh(self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"]) -> Scalar:
        """R(x, v) of the points x[N, dim] with coordinate velocities v[N, dim]."""


class AbstractFriction(eqx.Module):
    """Dry friction: the Rayleigh function R = Σ F_i |s_i| of slip velocities s_i, with a corner where a slip stops:
    there the force is whatever holds it, up to F_i (Coulomb). Steps of `gd.friction.IncrementalPotential` follow it.

    `strength` F ≥ 0 is one number or [c]. A method that names a parameter `t` is given the time:

        class Belt(gd.friction.AbstractFriction):
            strength: jax.Array
            def slip(self, space, x, v, t):
                return v - jnp.array([jnp.sin(t), 0.0])
    """

    strength: eqx.AbstractVar[Array]

    @abc.abstractmethod
    def slip(self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"]) -> Float[Array, "c d"]:
        """The velocities s_i of what slides, affine in v, in orthonormal components."""


class AbstractPlasticity(eqx.Module):
    """Perfect plasticity: a force k (e − e_p) along a strain e(x) that never exceeds the yield force Y: there the
    plastic strain e_p flows, and dissipates Y |e_p'| (Simo & Hughes, *Computational Inelasticity*, 1.2). Steps of
    `gd.friction.IncrementalPotential` follow it; at the start e_p is what lies beyond the yield, 0 below it.

    `stiffness` and `yield_force` are [c], positive.
    """

    stiffness: eqx.AbstractVar[Array]
    yield_force: eqx.AbstractVar[Array]

    @abc.abstractmethod
    def strain(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " c"]:
        """e(x), zero where nothing is loaded."""


class AbstractConstraint(eqx.Module):
    """Holonomic constraints, held at zero by multipliers: subclass it with `size`, how many there are (a static field,
    as in `size: int = eqx.field(static=True, default=1)`), and the one method `residual`."""

    size: eqx.AbstractVar[int]

    @abc.abstractmethod
    def residual(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " size"]:
        """What vanishes where the constraints hold, shape [size]."""


class AbstractPfaffian(eqx.Module):
    """Nonholonomic constraints, A(x)v = b(x), held by reactions that do no work on the velocities with Av = 0: rolling,
    blades, wheels (Lagrange–d'Alembert; Bloch, *Nonholonomic Mechanics and Control*, 1.3)."""

    size: eqx.AbstractVar[int]

    @abc.abstractmethod
    def rate(
        self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"]
    ) -> Float[Array, " size"]:
        """A(x)v − b(x), affine in the coordinate velocities v[N, dim]: what vanishes, shape [size]."""


def asking(method: Callable, masses: Float[Array, " N"]) -> Callable:
    """The method of an element, with the masses of its system if it names a parameter `masses`."""
    return partial(method, masses=masses) if "masses" in signature(method).parameters else method


def curvature_of(space: AbstractManifold) -> int:
    """The curvature of a space where it is constant: 1, 0 or −1; 0 for any other."""
    return space.chart.curvature if isinstance(space, AbstractConstantCurvature) else 0


def measured(measure, space: AbstractManifold, x: Float[Array, "N dim"], points) -> Float[Array, " E"]:
    """`measure(space, x_i, x_j, …)` of every tuple of points: lengths of edges, areas of triangles, …"""
    corners = (points if isinstance(points, Array) else np.array(points)).T
    return jax.vmap(lambda *corners: measure(space, *corners))(*(select(x, index) for index in corners))


def distances(space: AbstractManifold, x: Float[Array, "N dim"], pairs, effort: Effort) -> Float[Array, " E"]:
    """The distances of pairs of points."""
    return measured(lambda space, x, y: distance(space, x, y, nodes=effort), space, x, pairs)


def path_effort(nodes, tolerance) -> Effort:
    """The `nodes` and `tolerance` of an element, by default those of `gd.distance`; ValueError unless a positive whole
    number and a relative error."""
    return effort_of(NODES if nodes is None else static_count("nodes", nodes), float(tolerance))


def select(x: Float[Array, "N dim"], indices) -> Float[Array, "E dim"]:
    """x[indices]; of few points by a product, since an index differentiates into a scatter, which is slow where all
    else of a step is one native function."""
    if x.shape[0] > LARGEST_PRODUCT:
        return x[indices]
    return jnp.asarray(indices[:, None] == np.arange(x.shape[0])[None, :], x.dtype) @ x


def index_tuples(name: str, value, count: int) -> Tuples:
    """`value` as tuples of `count` different indices ≥ 0; else ValueError."""
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(0)
    if array.ndim != 2 or array.shape[1] != count or not np.issubdtype(array.dtype, np.integer):
        kind = "pairs" if count == 2 else f"{count}-tuples"
        raise ValueError(f"{name} must be {kind} of point indices [E, {count}], got {value!r}")
    for row in array.tolist():
        if min(row) < 0 or len(set(row)) < count:
            raise ValueError(f"{name} must join {NUMERALS[count]} different points with indices ≥ 0, got {tuple(row)}")
    return tuple(map(tuple, array.tolist()))


def number(name: str, value, *, positive: bool = False, most: float = np.inf) -> Array:
    """`value` as an array of finite numbers from 0 to `most`, or strictly between them; else ValueError."""
    value = numbers(name, value).astype(float)
    if not isinstance(value, jax.core.Tracer):
        x = np.asarray(value)
        if not np.all(np.isfinite(x) & ((x > 0) & (x < most) if positive else (x >= 0) & (x <= most))):
            limit = "" if most == np.inf else f", {'less than' if positive else 'at most'} {most:.6g},"
            raise ValueError(f"{name} must be {'positive' if positive else '≥ 0'}{limit} and finite, got {x}")
    return value


def one_each(name: str, value, points: Tuples, *, positive: bool = False, most: float = np.inf) -> Float[Array, " E"]:
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
