"""Model spaces: spaces of constant curvature, an inhomogeneous space with closed-form distances, products, surfaces.

Charts of `Euclidean`, `Sphere` and `Hyperbolic` are chosen by name; the default is regular at the origin. `space.embed`
and `space.coordinates` go to and from the embedding space (`geodyn._geometry.models.charts`). Lengths are in units of
the radius of curvature.
"""

import abc
import functools
from collections.abc import Callable
from itertools import combinations
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import as_pytree
from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.checks import shown
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Scalar
from geodyn._geometry.manifold.arguments import check_dim, check_period, check_traceable
from geodyn._geometry.manifold.manifold import AbstractManifold, Domain, diameter_of, domain_of, period_of, within
from geodyn._geometry.models.charts import (
    AbstractChart,
    Ball,
    Cartesian,
    HalfSpace,
    Polar,
    Stereographic,
    arcs,
    rounding_in,
)
from geodyn._geometry.models.travelling import MovingHalfSpace, StereographicPair


class AbstractModelSpace(AbstractManifold):
    """A space whose distances and isometries are known in closed form; a base class.

    Beside `metric` a subclass has the methods `embed(x[n]) -> X[D]`, into an embedding space, and its inverse
    `coordinates(X)`; `squared_distance(x, y)`, smooth where the points coincide; and `killing_fields(x) -> [K, n]`, the
    generators of its isometries as vectors of the chart.

    Example:
        A circle of a given radius.

        >>> class Circle(gd.spaces.AbstractModelSpace):
        ...     radius: float
        ...     dim = 1
        ...     def metric(self, x):
        ...         return jnp.array([[self.radius**2]])
        ...     def embed(self, x):
        ...         return self.radius * jnp.stack([jnp.cos(x[0]), jnp.sin(x[0])])
        ...     def coordinates(self, X):
        ...         return jnp.arctan2(X[1], X[0])[None]
        ...     def squared_distance(self, x, y):
        ...         return (self.radius * (jnp.remainder(y[0] - x[0] + jnp.pi, 2 * jnp.pi) - jnp.pi)) ** 2
        ...     def killing_fields(self, x):
        ...         return jnp.ones((1, 1))
        >>> body = gd.System(Circle(2.0), [1.0, 1.0], gd.Spring([(0, 1)], stiffness=1.0, length=0.0))
        >>> turning = gd.builders.velocities(body.space, 0, [[0.0], [0.1]])
        >>> print(f"{gd.distance(body.space, [3.1], [-3.1]):.6f} {gd.energy(body, [[0.0], [0.1]], turning):.6f}")
        0.166371 4.020000
    """

    @abc.abstractmethod
    def embed(self, x: Float[Array, " n"]) -> Float[Array, " D"]:
        """The point X of the embedding space."""

    @abc.abstractmethod
    def coordinates(self, X: Float[Array, " D"]) -> Float[Array, " n"]:
        """The coordinates of X, the inverse of `embed`."""

    @abc.abstractmethod
    def squared_distance(self, x: Float[Array, " n"], y: Float[Array, " n"]) -> Scalar:
        """Squared distance of two points, smooth where they coincide."""

    @abc.abstractmethod
    def killing_fields(self, x: Float[Array, " n"]) -> Float[Array, "K n"]:
        """The generators of the isometry group at x, as vectors of the chart."""


class AbstractKnownGeodesics(AbstractManifold):
    """A space whose geodesics are known in closed form, which `gd.geodesic` and `gd.exp` then use; a base class."""

    @abc.abstractmethod
    def exp(self, x: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " n"]:
        """The point of the geodesic from x with velocity v at time 1."""


class AbstractConstantCurvature(AbstractModelSpace, AbstractKnownGeodesics):
    """A space of constant curvature in one of its charts; the base class of `Euclidean`, `Sphere` and `Hyperbolic`.

    Such a space has, beside `metric`, the closed forms `embed(x)` and its inverse `coordinates(X)`,
    `squared_distance(x, y)`, `exp(x, v)`, and `killing_fields(x)`: the n translations of the origin, then for every
    pair i < j the rotation of X_i into X_j. The embedding is X in Rⁿ for Euclidean space, else (X', w) in Rⁿ⁺¹ with
    |X'|² + w² = 1 on the sphere and |X'|² − w² = −1 in hyperbolic space. Some elements and functions, such as
    `gd.cells.RigidArea` and `gd.groups.isometry_group`, are for these spaces only.

    Example:
        Points at the distances d = 0.3, 0.6 and 0.6 from the origin, where the metric is I, 4I, 4I: d, sin d, sinh d.

        >>> for space in (gd.spaces.Euclidean(3), gd.spaces.Sphere(3), gd.spaces.Hyperbolic(3)):
        ...     X = space.embed(space.exp(jnp.zeros(3), jnp.array([0.3, 0.0, 0.0])))
        ...     print(isinstance(space, gd.spaces.AbstractConstantCurvature), X.shape, f"{X[0]:.6f}")
        True (3,) 0.300000
        True (4,) 0.564642
        True (4,) 0.636654
    """

    chart: eqx.AbstractVar[AbstractChart]

    @checked
    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """The metric of the chart at x."""
        return self.chart.metric(x)

    @checked
    def embed(self, x: Float[Array, " n"]) -> Float[Array, " D"]:
        """X in Rⁿ (Euclidean), or (X', w) in Rⁿ⁺¹ with |X'|² ± w² = ±1 (sphere +, hyperbolic −)."""
        if x.shape != (self.dim,):
            raise ValueError(f"x must have shape ({self.dim},) in this space of dim {self.dim}, got {x.shape}")
        return self.chart.embed(x)

    @checked
    def coordinates(self, X: Float[Array, " D"]) -> Float[Array, " n"]:
        """The coordinates of X, the inverse of `embed`."""
        self._check_embedded(X)
        return self.chart.coordinates(X)

    def _check_embedded(self, X: Float[Array, " D"]) -> None:
        """Raises ValueError unless X is a point of the embedded space, as far as its numbers are known."""
        curvature = self.chart.curvature
        size = self.dim + (curvature != 0)
        if X.shape != (size,):
            raise ValueError(f"X must have shape ({size},), a point of the embedding space; got {X.shape}")
        if curvature == 0 or isinstance(X, Tracer):
            return
        known = np.asarray(X)
        *across, w = known.tolist()
        square = sum(x * x for x in across)
        off = abs(square + curvature * w * w - curvature)
        half_the_digits = 1e-8 if known.itemsize > 4 else 3e-4
        if off > half_the_digits * (1 + square + w * w) or (curvature < 0 and w < 0):
            surface = "|X| = 1" if curvature > 0 else "|X'|² − w² = −1 and w > 0, with X = (X', w)"
            raise ValueError(f"X must be on the embedded space, where {surface}; got {shown(X)}: embed makes such X")

    @checked
    def squared_distance(self, x: Float[Array, " n"], y: Float[Array, " n"]) -> Scalar:
        """Squared distance of two points, smooth where they coincide."""
        return self.chart.squared_distance(x, y)

    @checked
    def exp(self, x: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " n"]:
        """The point of the geodesic from x with velocity v at time 1."""
        return within(self, self.chart.exp(x, v))

    @checked
    def killing_fields(self, x: Float[Array, " n"]) -> Float[Array, "K n"]:
        """K = n(n+1)/2 generators at x: first the n that translate the origin along X_i, then, for every pair i < j,
        the rotation of X_i into X_j. Polar coordinates must be in their ranges (a > 0, b between 0 and π)."""
        X = self.embed(x)
        curvature = self.chart.curvature
        generators = jnp.asarray(_generators(self.dim, curvature), X.dtype)
        moved = generators[:, : X.shape[0]] @ (jnp.append(X, 1.0) if curvature == 0 else X)
        # On the sphere `coordinates` may be those of another chart than that of x, so `embed` is used. In hyperbolic
        # space that would cancel far out.
        if curvature > 0:
            lowered = moved @ jax.jacfwd(self.embed)(x)
            return jax.vmap(lambda u: solve(self.metric(x), u))(lowered)
        return jax.vmap(lambda V: jax.jvp(self.coordinates, (X,), (V,))[1])(moved)


def _generators(n: int, curvature: int) -> np.ndarray:
    """Matrices [K, n+1, n+1] that act on (X', w), w = 1 in Euclidean space."""
    unit = np.eye(n + 1)
    boosts = [np.outer(unit[i], unit[n]) - curvature * np.outer(unit[n], unit[i]) for i in range(n)]
    return np.array(boosts + [_rotation(unit, i, j) for i, j in combinations(range(n), 2)])


def _rotation(unit: np.ndarray, i: int, j: int) -> np.ndarray:
    return np.outer(unit[j], unit[i]) - np.outer(unit[i], unit[j])


class Euclidean(AbstractConstantCurvature):
    """Euclidean space Eⁿ.

    Polar coordinates are (r, φ), or (r, θ, φ) with X = (r sin θ cos φ, r sin θ sin φ, r cos θ), and so on; they are
    singular at the origin and on the axis.

    Args:
        n: the dimension; for "polar" at least 2.
        chart: "cartesian" or "polar".

    Raises:
        ValueError: for another chart or dimension.

    Example:
        >>> plane = gd.spaces.Euclidean(2, "polar")
        >>> print(f"{gd.distance(plane, [1.0, 0.0], [1.0, np.pi / 2]):.6f} {np.sqrt(2):.6f}")
        1.414214 1.414214
    """

    dim: int = eqx.field(static=True)
    chart: AbstractChart

    @checked
    def __init__(self, n: Count, chart: str = "cartesian"):
        self.dim, self.chart = _choose(n, chart, {"cartesian": Cartesian, "polar": lambda: Polar(0)})


class Sphere(AbstractConstantCurvature):
    """The unit sphere Sⁿ, of curvature 1.

    Lengths are in units of its radius. `space.embed(x)` and `space.coordinates(X)` go to the unit sphere in Rⁿ⁺¹ and
    back. The stereographic chart x = X'/(1 + w) is regular at the origin and reaches all points but one. In
    "stereographic pair" a body moves through all points alike: each of its points is in one or the other of two charts,
    and `trajectory.embedding` tells where it is. "polar" is (a, φ), or (a, b, φ), singular on its axis.

    Args:
        n: the dimension; for "polar" at least 2.
        chart: "stereographic", "stereographic pair" or "polar".

    Raises:
        ValueError: for another chart or dimension.

    Example:
        From the origin to the equator |x| = 1 it is a quarter of a great circle.

        >>> sphere = gd.spaces.Sphere(2)
        >>> print(f"{gd.distance(sphere, [0.0, 0.0], [1.0, 0.0]):.6f}", sphere.embed(jnp.array([1.0, 0.0])).tolist())
        1.570796 [1.0, 0.0, 0.0]

    Source:
        Ratcliffe, *Foundations of Hyperbolic Manifolds*, 2.1 (the sphere) and 4.2 (stereographic projection).
    """

    dim: int = eqx.field(static=True)
    chart: AbstractChart

    @checked
    def __init__(self, n: Count, chart: str = "stereographic"):
        self.dim, self.chart = _choose(
            n,
            chart,
            {"stereographic": Stereographic, "stereographic pair": StereographicPair, "polar": lambda: Polar(1)},
        )


class Hyperbolic(AbstractConstantCurvature):
    """Hyperbolic space Hⁿ, of curvature −1.

    Lengths are in units of the radius of curvature. `space.embed(x)` and `space.coordinates(X)` go to the hyperboloid
    |X'|² − w² = −1 in Rⁿ⁺¹ and back. The default chart, Poincaré's ball |x| < 1, is regular at the origin. "halfspace"
    is Poincaré's half-space, with the height as the last coordinate. The chart "moving halfspace" goes along with a
    body, however far it travels, so that no digits are lost within it; all that acts on the body must be invariant
    under isometries, and `trajectory.embedding` tells where it is. "polar" is (a, φ), or (a, b, φ), singular on its
    axis.

    Args:
        n: the dimension; for "polar" at least 2.
        chart: "ball", "polar", "halfspace" or "moving halfspace".

    Raises:
        ValueError: for another chart or dimension.

    Example:
        In the ball the distance from the origin is 2 artanh |x|.

        >>> print(f"{gd.distance(gd.spaces.Hyperbolic(3), [0, 0, 0], [0.5, 0, 0]):.6f} {2 * np.arctanh(0.5):.6f}")
        1.098612 1.098612

    Source:
        Ratcliffe, *Foundations of Hyperbolic Manifolds*, 3.2 (the hyperboloid), 4.5 (the ball), 4.6 (the
        half-space).
    """

    dim: int = eqx.field(static=True)
    chart: AbstractChart

    @checked
    def __init__(self, n: Count, chart: str = "ball"):
        charts = {"ball": Ball, "polar": lambda: Polar(-1), "halfspace": HalfSpace, "moving halfspace": MovingHalfSpace}
        self.dim, self.chart = _choose(n, chart, charts)


def _choose(n: Any, name: Any, charts: dict[str, Callable]) -> tuple[int, AbstractChart]:
    if name not in charts:
        raise ValueError(f"chart must be one of {', '.join(map(repr, charts))}; got {name!r}")
    return check_dim(n, 2 if name == "polar" else 1), charts[name]()


class Inhomogeneous(AbstractModelSpace):
    """The space with the metric (|x|² + 2) I on Rⁿ: not homogeneous, but with distances in closed form.

    Geodesics are x(τ) = x₁ cosh τ + Q sinh τ with |x'|² = |x|² + 2, the motion of an inverted oscillator. With the time
    T between two points and C = cosh T = (−x·y + √((x·y)² + 2(|x|² + |y|² + 2)))/2, their distance is T + sinh T (C +
    x·y). Its isometries are the rotations about the origin. `embed` is the identity.

    Args:
        n: the dimension.

    Raises:
        ValueError: unless n is a positive whole number.

    Example:
        The distance from the origin is the integral of √(r² + 2); the scalar curvature there is −3 in three dimensions.

        >>> space = gd.spaces.Inhomogeneous(3)
        >>> print(f"{gd.distance(space, [0, 0, 0], [1.0, 0, 0]):.6f} {np.sqrt(3) / 2 + np.arcsinh(np.sqrt(0.5)):.6f}")
        1.524504 1.524504
        >>> print(f"{gd.scalar_curvature(space, [0, 0, 0]):.6f}")
        -3.000000
    """

    dim: int = eqx.field(static=True)

    @checked
    def __init__(self, n: Count):
        self.dim = check_dim(n)

    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """(|x|² + 2) I."""
        return (x @ x + 2) * jnp.eye(self.dim, dtype=x.dtype)

    def embed(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        """x itself."""
        return x

    def coordinates(self, X: Float[Array, " n"]) -> Float[Array, " n"]:
        """X itself."""
        return X

    def squared_distance(self, x: Float[Array, " n"], y: Float[Array, " n"]) -> Scalar:
        """Squared distance of two points: the formula of the class in terms that are all positive."""
        product, square = x @ y, jnp.sum((x - y) ** 2)
        root = jnp.sqrt((product + 2) ** 2 + 2 * square)
        near = product > -2
        hav = jnp.where(near, square / (2 * jnp.where(near, root + product + 2, 1.0)), (root - product - 2) / 4)
        ahead = product > 0
        total = jnp.where(ahead, (root + product) / 2, (2 + x @ x + y @ y) / jnp.where(ahead, 1.0, root - product))
        return 4 * hav * (1 + hav) * (arcs(-1, 1, hav, 1 - hav)[1] + total) ** 2

    def killing_fields(self, x: Float[Array, " n"]) -> Float[Array, "K n"]:
        """K = n(n−1)/2 rotations at x, of x_i into x_j for every pair i < j."""
        unit = np.eye(self.dim)
        rotations = [_rotation(unit, i, j) for i, j in combinations(range(self.dim), 2)]
        return jnp.asarray(np.reshape(rotations, (-1, self.dim, self.dim)), x.dtype) @ x


class Product(AbstractManifold):
    """The product of two spaces, with the metric g_a ⊕ g_b, so that squared distances add.

    Its coordinates are those of the first factor, then those of the second. `embed` and `killing_fields` are those of
    both, where the factors have them. Products of more spaces are products of products.

    Args:
        a, b: the factors.

    Raises:
        ValueError: for what is no space.

    Example:
        >>> space = gd.spaces.Product(gd.spaces.Sphere(2), gd.spaces.Euclidean(1))
        >>> print(space.dim, f"{gd.distance(space, [0, 0, 0], [1.0, 0, 2.0]):.6f} {np.hypot(np.pi / 2, 2):.6f}")
        3 2.543109 2.543109
    """

    a: AbstractManifold
    b: AbstractManifold
    dim: int = eqx.field(static=True)

    @checked
    def __init__(self, a: AbstractManifold, b: AbstractManifold):
        for name, factor in (("a", a), ("b", b)):
            if not isinstance(factor, AbstractManifold):
                raise ValueError(f"{name} must be a space (gd.AbstractManifold), got {factor!r}")
        self.a, self.b, self.dim = a, b, a.dim + b.dim

    def split(self, x: Float[Array, " n"]) -> tuple[Array, Array]:
        """The parts of x in the two factors, or those of a tangent vector."""
        return x[: self.a.dim], x[self.a.dim :]

    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """The block-diagonal metric."""
        xa, xb = self.split(x)
        return jax.scipy.linalg.block_diag(self.a.metric(xa), self.b.metric(xb))

    def embed(self, x: Float[Array, " n"]) -> Float[Array, " D"]:
        """(X_a, X_b), of factors that have an `embed`."""
        xa, xb = self.split(x)
        return jnp.concatenate([self.a.embed(xa), self.b.embed(xb)])

    def coordinates(self, X: Float[Array, " D"]) -> Float[Array, " n"]:
        """The inverse of `embed`."""
        middle = jax.eval_shape(self.a.embed, jax.ShapeDtypeStruct((self.a.dim,), X.dtype)).shape[0]
        return jnp.concatenate([self.a.coordinates(X[:middle]), self.b.coordinates(X[middle:])])

    def killing_fields(self, x: Float[Array, " n"]) -> Float[Array, "K n"]:
        """The generators of the first factor, then those of the second."""
        xa, xb = self.split(x)
        return jax.scipy.linalg.block_diag(self.a.killing_fields(xa), self.b.killing_fields(xb))


class Embedded(AbstractManifold):
    """A surface in an ambient space, with the metric that it has from there: g = JᵀGJ with J = ∂X/∂x.

    Args:
        embedding: function x[dim] -> X, the point in the chart of the ambient space. It may be an `eqx.Module`, whose
            arrays are traced and can be differentiated.
        ambient: the ambient space, or the dimension of a Euclidean one.
        dim: the dimension of the surface.
        period: periods of the coordinates [dim], as for `gd.Manifold`.

    Raises:
        ValueError: if `embedding` is no such function, and for an ambient space that is none.

    Example:
        The top of the paraboloid z = (x² + y²)/2 has Gauss's curvature 1.

        >>> bowl = gd.spaces.Embedded(lambda x: jnp.append(x, x @ x / 2), ambient=3, dim=2)
        >>> print(f"{gd.surfaces.gaussian_curvature(bowl, [0.0, 0.0]):.6f}")
        1.000000
    """

    embedding: Callable
    ambient: AbstractManifold
    dim: int = eqx.field(static=True)
    period: tuple[float, ...] | None = eqx.field(static=True)

    @checked
    def __init__(
        self, embedding: Callable[[Array], Array], ambient: Count | AbstractManifold, dim: Count, period: Any = None
    ):
        if not isinstance(ambient, AbstractManifold | int | np.integer):
            raise ValueError(f"ambient must be a space or the dimension of a Euclidean one, got {ambient!r}")
        self.ambient = ambient if isinstance(ambient, AbstractManifold) else Euclidean(ambient)
        self.dim = check_dim(dim)
        self.period = check_period(period, self.dim)
        check_traceable("embedding", embedding, self.dim, (self.ambient.dim,), " (dim coordinates into ambient)")
        self.embedding = as_pytree(embedding)

    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """The pull-back JᵀGJ."""
        J = jax.jacfwd(self.embedding)(x)
        return J.T @ self.ambient.metric(self.embedding(x)) @ J

    def embed(self, x: Float[Array, " n"]) -> Float[Array, " D"]:
        """The point in the chart of the ambient space."""
        return self.embedding(x)


class Conformal(AbstractManifold):
    """A space with its metric multiplied by a positive function: g = factor(x) g_space.

    Args:
        factor: function x[n] -> number > 0. It may be an `eqx.Module`, whose arrays are traced and can be
            differentiated.
        space: the space.
        period: periods of the coordinates [n], as for `gd.Manifold`; by default those of the space.

    Raises:
        ValueError: if `factor` is no such function.

    Example:
        The plane with the factor 1/y² is the hyperbolic half-plane.

        >>> halfplane = gd.spaces.Conformal(lambda x: 1 / x[1] ** 2, gd.spaces.Euclidean(2))
        >>> print(f"{gd.surfaces.gaussian_curvature(halfplane, [0.3, 2.0]):.6f}")
        -1.000000
    """

    factor: Callable
    space: AbstractManifold
    dim: int = eqx.field(static=True)
    period: tuple[float, ...] | None = eqx.field(static=True)

    @checked
    def __init__(self, factor: Callable[[Array], Scalar], space: AbstractManifold, period: Any = None):
        check_traceable("factor", factor, space.dim, ())
        self.period = period_of(space) if period is None else check_period(period, space.dim)
        self.factor, self.space, self.dim = as_pytree(factor), space, space.dim

    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """factor(x) g(x)."""
        return self.factor(x) * self.space.metric(x)


@diameter_of.register
def _(space: AbstractConstantCurvature) -> float:
    return np.pi if space.chart.curvature > 0 else np.inf


@diameter_of.register
def _(space: Product) -> float:
    return float(np.hypot(diameter_of(space.a), diameter_of(space.b)))


@domain_of.register
def _(space: AbstractConstantCurvature):
    return space.chart.domain


@domain_of.register
def _(space: Conformal):
    return domain_of(space.space)


@domain_of.register
def _(space: Product):
    a, b = domain_of(space.a), domain_of(space.b)

    def both(xa: Array | np.ndarray, xb: Array | np.ndarray):
        return a.holds(xa) & b.holds(xb)

    return Domain(f"({a.words}, {b.words})", lambda x: both(x[: space.a.dim], x[space.a.dim :]))


@period_of.register
def _(space: Product):
    a, b = (period_of(factor) or (np.inf,) * factor.dim for factor in (space.a, space.b))
    return check_period(a + b, space.dim)


@functools.singledispatch
def rounding_of(space: AbstractManifold, x: Float[Array, " n"]) -> Scalar:
    """The `rounding_in` of the chart of a space; 1 for spaces that do not register here."""
    return jnp.ones((), x.dtype)


@rounding_of.register
def _(space: AbstractConstantCurvature, x: Float[Array, " n"]) -> Scalar:
    return rounding_in(space.chart, x)


@rounding_of.register
def _(space: Product, x: Float[Array, " n"]) -> Scalar:
    return jnp.maximum(*(rounding_of(*part) for part in zip((space.a, space.b), space.split(x))))
