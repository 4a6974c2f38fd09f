"""Spaces with a name: constant curvature, the inhomogeneous space of closed-form distances, products, surfaces.

Charts of `Euclidean`, `Sphere` and `Hyperbolic` are chosen by name; the default is regular at the origin. `space.embed`
and `space.coordinates` go to and from the embedding space (`geodyn.geometry.models.charts`). Lengths are in units of
the radius of curvature.
"""

import abc
import functools
from collections.abc import Callable
from itertools import combinations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._compile.jit import as_pytree
from geodyn._numerics.linalg import solve
from geodyn._typing import Array, Float, Scalar
from geodyn.geometry.manifold.manifold import (
    AbstractManifold,
    Domain,
    check_dim,
    check_period,
    check_traceable,
    domain_of,
    period_of,
)
from geodyn.geometry.models.charts import (
    AbstractChart,
    Ball,
    Cartesian,
    HalfSpace,
    Polar,
    Stereographic,
    arc_ratio,
    rounding_in,
)
from geodyn.geometry.models.travelling import MovingHalfSpace, StereographicPair


class AbstractModelSpace(AbstractManifold):
    """A space whose distances and isometries are known in closed form."""

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


class AbstractConstantCurvature(AbstractModelSpace):
    """A space of constant curvature in one of its charts."""

    chart: eqx.AbstractVar[AbstractChart]

    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """The metric of the chart at x."""
        return self.chart.metric(x)

    def embed(self, x: Float[Array, " n"]) -> Float[Array, " D"]:
        """X in Rⁿ (Euclidean), or (X', w) in Rⁿ⁺¹ with |X'|² ± w² = ±1 (sphere +, hyperbolic −)."""
        return self.chart.embed(x)

    def coordinates(self, X: Float[Array, " D"]) -> Float[Array, " n"]:
        """The coordinates of X, the inverse of `embed`."""
        return self.chart.coordinates(X)

    def squared_distance(self, x: Float[Array, " n"], y: Float[Array, " n"]) -> Scalar:
        """Squared distance of two points, smooth where they coincide."""
        return self.chart.squared_distance(x, y)

    def exp(self, x: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " n"]:
        """Where the geodesic from x with velocity v is at time 1."""
        return self.chart.exp(x, v)

    def killing_fields(self, x: Float[Array, " n"]) -> Float[Array, "K n"]:
        """K = n(n+1)/2 generators at x: first the n that translate the origin along X_i, then, for every pair i < j,
        the rotation of X_i into X_j. Polar coordinates must be in their ranges (a > 0, b between 0 and π)."""
        X = self.embed(x)
        curvature = self.chart.curvature
        generators = jnp.asarray(_generators(self.dim, curvature), X.dtype)
        moved = generators[:, : X.shape[0]] @ (jnp.append(X, 1.0) if curvature == 0 else X)
        if curvature > 0:  # In the chart of x, which `coordinates` need not find. Elsewhere this would cancel far out.
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
    """Euclidean space Eⁿ: `Euclidean(n, chart="cartesian")`, or "polar"."""

    dim: int = eqx.field(static=True)
    chart: AbstractChart

    def __init__(self, n, chart="cartesian"):
        self.dim, self.chart = _choose(n, chart, {"cartesian": Cartesian, "polar": lambda: Polar(0)})


class Sphere(AbstractConstantCurvature):
    """Unit sphere Sⁿ: `Sphere(n, chart="stereographic")`, "polar", or "stereographic pair", in which a body moves
    through all points alike: each of its points is in the one or the other of two charts (`StereographicPair`)."""

    dim: int = eqx.field(static=True)
    chart: AbstractChart

    def __init__(self, n, chart="stereographic"):
        self.dim, self.chart = _choose(
            n,
            chart,
            {"stereographic": Stereographic, "stereographic pair": StereographicPair, "polar": lambda: Polar(1)},
        )


class Hyperbolic(AbstractConstantCurvature):
    """Hyperbolic space Hⁿ of curvature −1: `Hyperbolic(n, chart="ball")`, "polar", "halfspace" or "moving halfspace",
    which a body takes along however far it goes (`MovingHalfSpace`), if all that acts on it is invariant under
    isometries: within a body no digits are lost, and `trajectory.embedding` tells where it is."""

    dim: int = eqx.field(static=True)
    chart: AbstractChart

    def __init__(self, n, chart="ball"):
        charts = {"ball": Ball, "polar": lambda: Polar(-1), "halfspace": HalfSpace, "moving halfspace": MovingHalfSpace}
        self.dim, self.chart = _choose(n, chart, charts)


def _choose(n, name, charts: dict[str, Callable]) -> tuple[int, AbstractChart]:
    if name not in charts:
        raise ValueError(f"chart must be one of {', '.join(map(repr, charts))}; got {name!r}")
    return check_dim(n, 2 if name == "polar" else 1), charts[name]()


class Inhomogeneous(AbstractModelSpace):
    """The space with metric (|x|² + 2) I on Rⁿ: not homogeneous, yet its distances are closed.

    Geodesics are x(τ) = x₁ cosh τ + Q sinh τ with |x'|² = |x|² + 2, the motion of an inverted oscillator; with T the
    time between two points and C = cosh T = (−x·y + √((x·y)² + 2(|x|² + |y|² + 2)))/2, dist = T + sinh T (C + x·y).
    Its isometries are the rotations about the origin. The embedding is the chart itself.
    """

    dim: int = eqx.field(static=True)

    def __init__(self, n):
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
        return 4 * hav * (arc_ratio(-1, hav, hav) + jnp.sqrt(1 + hav) * total) ** 2

    def killing_fields(self, x: Float[Array, " n"]) -> Float[Array, "K n"]:
        """K = n(n−1)/2 rotations at x, of x_i into x_j for every pair i < j."""
        unit = np.eye(self.dim)
        rotations = [_rotation(unit, i, j) for i, j in combinations(range(self.dim), 2)]
        return jnp.asarray(np.reshape(rotations, (-1, self.dim, self.dim)), x.dtype) @ x


class Product(AbstractManifold):
    """The product of two spaces, `Product(a, b)`: g = g_a ⊕ g_b, so that squared distances add; x = (x_a, x_b)."""

    a: AbstractManifold
    b: AbstractManifold
    dim: int = eqx.field(static=True)

    def __init__(self, a, b):
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
    """A surface in an ambient space, with the metric it has from there: `Embedded(embedding, ambient, dim,
    period=None)`.

    `embedding(x[dim]) -> X` gives the point in the chart of `ambient`, a space or the dimension of a Euclidean one; g =
    JᵀGJ with J = ∂X/∂x; `period` [dim] as for `gd.Manifold`. It may be an `eqx.Module`, whose arrays are traced and
    differentiable. Raises ValueError if `embedding` is no such function."""

    embedding: Callable
    ambient: AbstractManifold
    dim: int = eqx.field(static=True)
    period: tuple[float, ...] | None = eqx.field(static=True)

    def __init__(self, embedding, ambient, dim, period=None):
        if not isinstance(ambient, AbstractManifold | int | np.integer):
            raise ValueError(f"ambient must be a space or the dimension of a Euclidean one, got {ambient!r}")
        self.ambient = ambient if isinstance(ambient, AbstractManifold) else Euclidean(ambient)
        self.dim, self.period = check_dim(dim), check_period(period, dim)
        check_traceable("embedding", embedding, dim, (self.ambient.dim,))
        self.embedding = as_pytree(embedding)

    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """The pull-back JᵀGJ."""
        J = jax.jacfwd(self.embedding)(x)
        return J.T @ self.ambient.metric(self.embedding(x)) @ J

    def embed(self, x: Float[Array, " n"]) -> Float[Array, " D"]:
        """The point in the chart of the ambient space."""
        return self.embedding(x)


class Conformal(AbstractManifold):
    """A space with its metric multiplied by a positive function: `Conformal(factor, space, period=None)`, g = factor(x)
    g_space, with the `period` [n] of that space unless another is given."""

    factor: Callable
    space: AbstractManifold
    dim: int = eqx.field(static=True)
    period: tuple[float, ...] | None = eqx.field(static=True)

    def __init__(self, factor, space, period=None):
        check_traceable("factor", factor, space.dim, ())
        self.period = period_of(space) if period is None else check_period(period, space.dim)
        self.factor, self.space, self.dim = as_pytree(factor), space, space.dim

    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """factor(x) g(x)."""
        return self.factor(x) * self.space.metric(x)


@domain_of.register
def _(space: AbstractConstantCurvature):
    return space.chart.domain


@domain_of.register
def _(space: Conformal):
    return domain_of(space.space)


@domain_of.register
def _(space: Product):
    a, b = domain_of(space.a), domain_of(space.b)

    def both(xa, xb):
        return a.holds(xa) & b.holds(xb)

    return Domain(f"({a.words}, {b.words})", lambda x: both(*space.split(x)))


@period_of.register
def _(space: Product):
    a, b = (period_of(factor) or (np.inf,) * factor.dim for factor in (space.a, space.b))
    return check_period(a + b, space.dim)


@functools.singledispatch
def rounding_of(space: AbstractManifold, x: Float[Array, " n"]) -> Scalar:
    """`rounding_in` the chart of a space."""
    return jnp.ones((), x.dtype)


@rounding_of.register
def _(space: AbstractConstantCurvature, x):
    return rounding_in(space.chart, x)


@rounding_of.register
def _(space: Product, x):
    return jnp.maximum(*(rounding_of(*part) for part in zip((space.a, space.b), space.split(x))))
