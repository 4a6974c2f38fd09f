"""Riemannian manifolds given by their metric: Christoffel symbols and curvature by automatic differentiation.

Conventions: Γ[k, i, j] = Γ^k_ij; R[a, b, c, d] = R^a_bcd = ∂_c Γ^a_db − ∂_d Γ^a_cb + Γ^a_ce Γ^e_db − Γ^a_de Γ^e_cb, so
that the unit sphere has sectional curvature +1 (Misner, Thorne & Wheeler, *Gravitation* (1973), chapters 8 and 11). The
curvatures hold for a nondegenerate metric of any signature. Single precision works, with its rounding: about 1e-4 in a
curvature. Lengths in any consistent units.
"""

import abc
import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.devices import placed_anywhere
from geodyn._engine.jit import as_pytree, jit
from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.checks import returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Count, Float, Numbers, Scalar
from geodyn._geometry.manifold.arguments import (
    check_dim,
    check_embedding,
    check_period,
    check_signature,
    check_traceable,
)
from geodyn._geometry.manifold.matrices import check_matrices, check_symmetric_matrix


class AbstractMetric(eqx.Module):
    """A base class of everything with a metric in coordinates x[n]: spaces, and level sets in the coordinates of the
    space around them."""

    dim: eqx.AbstractVar[int]

    @abc.abstractmethod
    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """The matrix g of the metric at the point x, written with jax.numpy: squared lengths are vᵀ g(x) v."""


class AbstractManifold(AbstractMetric):
    """A space, given by its metric; the base class of all spaces.

    Subclass it with `dim`, the number of coordinates, and the method `metric(x[n]) -> g[n, n]`, written with jax.numpy:
    squared lengths of tangent vectors are vᵀ g(x) v. A subclass is an `equinox.Module`, so every number in it can be
    traced and differentiated. Three additions are optional:

    - A method `squared_distance(x[n], y[n])`, if distances are known (the square, because it is smooth where the points
      coincide). `gd.distance`, `gd.log` and all that measures distances (springs, rods, contacts, pictures) then use it
      instead of solving for the geodesic, and `gd.check_manifold` compares it with the metric.
    - A class attribute `period`, such as `period = (2 * np.pi, np.inf)`, if coordinates are periodic (infinite or None
      for those that are not). A geodesic to a point then leads to that of its images to which the segment in the chart
      is shortest.
    - A method `embedding(x[n]) -> X[2 or 3]`, if the space is known as a curve or surface in the plane or in ordinary
      space. Pictures then show it as that, and `gd.check_manifold` compares it with the metric.

    Raises:
        TypeError: for a subclass with a method `distance` or `log` but without `squared_distance`, because nothing
            would call that method.

    Example:
        A cylinder of radius 2 that knows its distances: the angles 0.1 and 6.2 are 2π − 6.1 = 0.183185 apart.

        >>> class Cylinder(gd.AbstractManifold):
        ...     radius: float
        ...     dim = 2
        ...     period = (np.inf, 2 * np.pi)
        ...     def metric(self, x):
        ...         return jnp.diag(jnp.array([1.0, self.radius**2]))
        ...     def squared_distance(self, x, y):
        ...         return (x[0] - y[0]) ** 2 + self.radius**2 * (x[1] - y[1]) ** 2
        >>> space = Cylinder(2.0)
        >>> gd.check_manifold(space, [0.0, 0.1])
        >>> print(f"{gd.distance(space, [0.0, 0.1], [0.0, 6.2]):.6f}")
        0.366371
    """

    dim: eqx.AbstractVar[int]
    period: ClassVar[tuple[float | None, ...] | None] = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name in ("distance", "log"):
            if callable(getattr(cls, name, None)) and not knows_distances(cls):
                raise TypeError(
                    f"{cls.__name__} has a method {name}, which nothing calls: give it squared_distance(x, y), from "
                    "which gd.distance and gd.log follow"
                )


def knows_distances(space: Any) -> bool:
    """Whether a space, or a class of spaces, has a `squared_distance`."""
    # A method of the class is found in a hundredth of the time of one of the object, which equinox makes anew.
    kind = space if isinstance(space, type) else type(space)
    return callable(getattr(kind, "squared_distance", None)) or "squared_distance" in getattr(space, "__dict__", ())


class Domain(NamedTuple):
    """The domain of a chart: which coordinates x[n] belong to a point, in words and as a condition."""

    words: str
    holds: Callable[[Float[Array | np.ndarray, " n"]], Bool[Array | np.ndarray, ""]]


# A comparison of x, so that `holds` is an array with the axes of a batch where x is traced.
ANYWHERE = Domain("any x", lambda x: x[0] == x[0])


@functools.singledispatch
def domain_of(space: AbstractMetric) -> Domain:
    """The domain of the chart of a space: all coordinates, unless a space with a smaller chart registers here."""
    return ANYWHERE


@functools.singledispatch
def diameter_of(space: AbstractMetric) -> float:
    """The largest distance of two points; infinite if not known, unless a space that knows it registers here."""
    return np.inf


class Manifold(AbstractManifold):
    """A space made from a plain function, its metric.

    Args:
        metric: function x[n] -> g[n, n], written with jax.numpy. It may be an `eqx.Module`, whose arrays are traced and
            can be differentiated.
        dim: number of coordinates n.
        signature: (p, q), the numbers of positive and of negative squares, p + q = dim; by default (dim, 0), a positive
            definite metric. A metric that is not positive definite must declare its signature.
        period: periods of the coordinates [n], for coordinates such as angles: (2π, 2π) on a torus; None or infinite
            for those that are not periodic. By default none is.
        embedding: function x[n] -> X[2 or 3], the point in the plane or in ordinary space, if the space is known as a
            curve or surface in it. Only pictures use it. (`gd.spaces.Embedded` takes its metric from an embedding.)

    Raises:
        ValueError: if `metric` is no such function (found before anything is compiled), or `signature`, `period` or
            `embedding` does not fit `dim`.

    Example:
        A torus of the radii 2 and 1. Its scalar curvature at the outer rim is 2/(1 · 3).

        >>> def torus(x):
        ...     return jnp.diag(jnp.stack([jnp.ones(()), (2.0 + jnp.cos(x[0])) ** 2]))
        >>> space = gd.Manifold(torus, dim=2, period=(2 * np.pi, 2 * np.pi))
        >>> print(f"{gd.scalar_curvature(space, [0.0, 0.0]):.6f}")
        0.666667
    """

    function: Callable
    dim: int = eqx.field(static=True)
    signature: tuple[int, int] = eqx.field(static=True)
    period: tuple[float, ...] | None = eqx.field(static=True)
    embedding: Callable | None

    @checked
    def __init__(
        self,
        metric: Callable[[Array], Array],
        dim: Count,
        signature: Any = None,
        period: Any = None,
        embedding: Callable[[Array], Array] | None = None,
    ):
        self.dim = check_dim(dim)
        self.period = check_period(period, self.dim)
        self.signature = check_signature(signature, self.dim)
        check_traceable("metric", metric, self.dim, (self.dim, self.dim))
        self.function = as_pytree(metric)
        if embedding is not None:
            check_embedding(embedding, self.dim)
        self.embedding = None if embedding is None else as_pytree(embedding)

    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """The function at x."""
        return self.function(x)


def signature_of(space: Any) -> tuple[int, int]:
    """The numbers of positive and of negative squares in the metric: what the space declares, else none is negative."""
    return getattr(space, "signature", (space.dim, 0))


@functools.singledispatch
def count_coordinates(space: AbstractMetric) -> int:
    """The number of coordinates of a point."""
    return space.dim


# How far the metric a period further may be from that here, in units of √eps of its size: a period that is given to
# seven digits, such as 6.283185, passes, and one of six does not.
SAME_METRIC = 100
# The names of arguments that are tangent vectors and not points.
VECTORS = "u", "v", "j", "dj"


def checked_points(space: AbstractMetric, **points) -> list[Array]:
    """The points and vectors as arrays of floats; ValueError unless each is [n] and each point in the chart. A traced
    point outside of the chart becomes NaN."""
    found = checked_vectors(space, **points)
    domain = domain_of(space)
    if domain is ANYWHERE:
        return found
    return [x if name in VECTORS else in_chart(space, name, x, domain) for name, x in zip(points, found)]


def in_chart(
    space: AbstractMetric, name: str, x: Float[Array, " n"], domain: Domain | None = None
) -> Float[Array, " n"]:
    """The point x. Outside of the chart it is a ValueError, or NaN where x is traced."""
    domain = domain or domain_of(space)
    if domain is ANYWHERE:
        return x
    if isinstance(x, Tracer):
        return within(space, x)
    if not domain.holds(np.asarray(x)):
        raise ValueError(f"{name} = {x.tolist()} is no point of {type(space).__name__}: this chart has {domain.words}")
    return x


def within(space: AbstractMetric, x: Float[Array, " n"]) -> Float[Array, " n"]:
    """The point x; NaN, derivatives included, outside of the chart."""
    domain = domain_of(space)
    return x if domain is ANYWHERE else _within(domain, x)


@placed_anywhere
def _within(domain: Domain, x: Float[Array, " n"]) -> Float[Array, " n"]:
    return x * jnp.where(domain.holds(x), 1, jnp.nan).astype(x.dtype)


def checked_vectors(space: AbstractMetric, **points) -> list[Array]:
    """The vectors as arrays of floats, all of one precision; ValueError unless each is [n]. That they are finite is
    found by `checked`."""
    size = count_coordinates(space)
    found = [as_floats(x) for x in points.values()]
    for name, point in zip(points, found):
        if point.shape != (size,):
            why = ", the coordinates in one row;" if point.ndim != 1 else f" in this space of dim {space.dim},"
            raise ValueError(f"{name} must have shape ({size},){why} got {point.shape}")
    if any(x.dtype != found[0].dtype for x in found):
        return [x.astype(jnp.result_type(*found)) for x in found]
    return found


def as_floats(x: Any) -> Array:
    """x as an array of floats; an array that is one is returned as it is, since conversions take longer than a call."""
    if isinstance(x, jax.Array) and x.dtype.kind == "f":
        return x
    x = jnp.asarray(x)
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.result_type(float))


def at_a_point(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jit` of function(space, x, …) for a point and vectors, given as arrays or lists of any numbers. The result
    raises ValueError unless each is [n], and, for concrete numbers, unless the metric at x is symmetric."""
    compiled = jit(function)
    parameters = inspect.signature(function)

    @functools.wraps(function)
    def call(*args, **kwargs):
        (_, space), *named = parameters.bind(*args, **kwargs).arguments.items()
        points = checked_points(space, **dict(named))
        check_symmetric(space, points[0])
        return compiled(space, *points)

    return call


def check_symmetric(space: AbstractMetric, x: Float[Array, " n"]) -> None:
    """Raises ValueError unless the metric of the space at x is symmetric, for concrete numbers."""
    if not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((space, x))):
        check_symmetric_matrix(x, _metric(space, x))


@jit
def _metric(space: AbstractMetric, x: Float[Array, " n"]) -> Array:
    return space.metric(x)


@checked
def inner(space: AbstractMetric, x: Numbers, u: Numbers, v: Numbers) -> Scalar:
    """Inner product g(x)(u, v) of two tangent vectors at a point.

    Args:
        space: a space or a `gd.surfaces.LevelSet`.
        x: the point, its coordinates [n].
        u, v: tangent vectors at x, their components [n].

    Returns:
        The inner product, one number, in squared units of length.

    Raises:
        ValueError: unless x, u and v have shape [n].

    Example:
        The metric of the sphere in stereographic coordinates is 4/(1 + |x|²)² I.

        >>> sphere = gd.spaces.Sphere(2)
        >>> print(f"{gd.inner(sphere, [1.0, 0.0], [1.0, 0.0], [3.0, 1.0]):.6f}")
        3.000000
    """
    x, u, v = checked_points(space, x=x, u=u, v=v)
    product, g = _inner(space, x, u, v)
    check_symmetric_matrix(x, g)
    return product


@jit
def _inner(
    space: AbstractMetric, x: Float[Array, " n"], u: Float[Array, " n"], v: Float[Array, " n"]
) -> tuple[Scalar, Array]:
    g = space.metric(x)
    return u @ g @ v, g


@checked
def norm(space: AbstractMetric, x: Numbers, v: Numbers) -> Scalar:
    """Length √g(x)(v, v) of a tangent vector at a point.

    At v = 0, where the length has no derivative, its derivative is given as 0.

    Args:
        space: a space or a `gd.surfaces.LevelSet`.
        x: the point, its coordinates [n].
        v: tangent vector at x, its components [n].

    Returns:
        The length, one number; NaN where g(v, v) < 0, which an indefinite metric allows.

    Raises:
        ValueError: unless x and v have shape [n].

    Example:
        In polar coordinates (r, θ) of the plane the vector ∂/∂θ has the length r.

        >>> plane = gd.spaces.Euclidean(2, "polar")
        >>> print(f"{gd.norm(plane, [3.0, 0.5], [0.0, 1.0]):.6f}")
        3.000000
    """
    x, v = checked_points(space, x=x, v=v)
    return safe_sqrt(inner(space, x, v, v))


def safe_sqrt(square: Scalar) -> Scalar:
    """√square, whose derivatives at 0 are given as 0 instead of infinity; NaN where square < 0."""
    zero = square == 0
    # The root is taken of 1 there: an infinite derivative would be NaN though the outer choice leaves it out.
    return jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, square)))


@checked
@at_a_point
def christoffel(space: AbstractManifold, x: Float[Array, " n"]) -> Float[Array, "n n n"]:
    """Christoffel symbols Γ[k, i, j] = Γ^k_ij = ½ g^kl (∂_i g_lj + ∂_j g_li − ∂_l g_ij) at a point.

    Args:
        space: the space.
        x: the point, its coordinates [n].

    Returns:
        The symbols [n, n, n], the upper index first.

    Raises:
        ValueError: unless x has shape [n], and for a metric that is not symmetric at x.

    Example:
        In polar coordinates (r, θ) of the plane, at r = 2: Γ^r_θθ = −r and Γ^θ_rθ = 1/r.

        >>> symbols = gd.christoffel(gd.spaces.Euclidean(2, "polar"), [2.0, 0.5])
        >>> print(f"{symbols[0, 1, 1]:.6f} {symbols[1, 0, 1]:.6f}")
        -2.000000 0.500000

    Source:
        Misner, Thorne & Wheeler, *Gravitation* (1973), chapter 8.
    """
    derivative = jax.jacfwd(space.metric)(x)  # [i, j, k] = ∂_k g_ij
    lowered = 0.5 * (derivative.transpose(0, 2, 1) + derivative - derivative.transpose(2, 0, 1))
    return _raise_index(space.metric(x), lowered)


@checked
@at_a_point
def riemann(space: AbstractMetric, x: Float[Array, " n"]) -> Float[Array, "n n n n"]:
    """Riemann curvature tensor R[a, b, c, d] = R^a_bcd = ∂_c Γ^a_db − ∂_d Γ^a_cb + Γ^a_ce Γ^e_db − Γ^a_de Γ^e_cb.

    In this convention the sectional curvature of the unit sphere is +1. The metric may have any signature; it must not
    be degenerate. In single precision a curvature is accurate to about 1e-4. Of a `gd.surfaces.LevelSet` it is the
    curvature of the set, in the coordinates of the space around it.

    Args:
        space: a space or a `gd.surfaces.LevelSet`.
        x: the point, its coordinates [n].

    Returns:
        The tensor [n, n, n, n], the upper index first.

    Raises:
        ValueError: unless x has shape [n], and for a metric that is not symmetric at x.

    Example:
        On the unit sphere in polar coordinates (a, φ), R^a_φaφ = sin² a.

        >>> tensor = gd.riemann(gd.spaces.Sphere(2, "polar"), [1.0, 0.0])
        >>> print(f"{tensor[0, 1, 0, 1]:.6f} {np.sin(1.0) ** 2:.6f}")
        0.708073 0.708073

    Source:
        Misner, Thorne & Wheeler, *Gravitation* (1973), chapters 8 and 11.
    """
    return riemann_of(space, x)


@functools.singledispatch
def riemann_of(space: AbstractMetric, x: Float[Array, " n"]) -> Float[Array, "n n n n"]:
    """The computation of `riemann`; spaces with another formula register here."""
    gamma = christoffel(space, x)
    derivative = jax.jacfwd(lambda y: christoffel(space, y))(x)  # [a, d, b, c] = ∂_c Γ^a_db
    # The terms that are added; those that are subtracted are the same with c and d exchanged.
    half = derivative.transpose(0, 2, 3, 1) + jnp.einsum("ace,edb->abcd", gamma, gamma)
    return half - half.swapaxes(2, 3)


@checked
@at_a_point
def ricci(space: AbstractMetric, x: Float[Array, " n"]) -> Float[Array, "n n"]:
    """Ricci tensor R_bd = R^a_bad, a contraction of `gd.riemann`.

    Args:
        space: a space or a `gd.surfaces.LevelSet`.
        x: the point, its coordinates [n].

    Returns:
        The tensor [n, n], both indices below.

    Raises:
        ValueError: unless x has shape [n], and for a metric that is not symmetric at x.

    Example:
        The unit sphere Sⁿ has the Ricci tensor (n − 1) g.

        >>> sphere, x = gd.spaces.Sphere(3), jnp.array([0.1, 0.2, 0.3])
        >>> print(jnp.allclose(gd.ricci(sphere, x), 2 * sphere.metric(x)))
        True
    """
    return jnp.einsum("abad->bd", riemann(space, x))


@checked
@at_a_point
def scalar_curvature(space: AbstractMetric, x: Float[Array, " n"]) -> Scalar:
    """Scalar curvature R = g^bd R_bd, which is n(n − 1) on the unit sphere Sⁿ.

    Args:
        space: a space or a `gd.surfaces.LevelSet`.
        x: the point, its coordinates [n].

    Returns:
        The curvature, one number, in units of 1/length².

    Raises:
        ValueError: unless x has shape [n], and for a metric that is not symmetric at x.

    Example:
        >>> print(f"{gd.scalar_curvature(gd.spaces.Sphere(3), [0.1, 0.2, 0.3]):.6f}")
        6.000000
        >>> print(f"{gd.scalar_curvature(gd.spaces.Hyperbolic(2), [0.1, 0.2]):.6f}")
        -2.000000
    """
    return jnp.trace(_raise_index(space.metric(x), ricci(space, x)))


@checked
@at_a_point
def sectional_curvature(
    space: AbstractMetric, x: Float[Array, " n"], u: Float[Array, " n"], v: Float[Array, " n"]
) -> Scalar:
    """Sectional curvature R_abcd u^a v^b u^c v^d / (|u|²|v|² − <u, v>²) of the plane spanned by two vectors at a point.

    It is +1 on the unit sphere.

    Args:
        space: a space or a `gd.surfaces.LevelSet`; of the latter u and v must be tangent to the set.
        x: the point, its coordinates [n].
        u, v: tangent vectors at x [n], of any length.

    Returns:
        The curvature, one number, in units of 1/length²; NaN if u and v are parallel, or span a plane on which the
        metric is degenerate.

    Raises:
        ValueError: unless x, u and v have shape [n], and for a metric that is not symmetric at x.

    Example:
        In the product S² × R, a plane tangent to the sphere has the curvature 1, one that contains the line is flat.

        >>> space = gd.spaces.Product(gd.spaces.Sphere(2), gd.spaces.Euclidean(1))
        >>> x, e = jnp.array([0.2, 0.1, 0.0]), jnp.eye(3)
        >>> print(f"{gd.sectional_curvature(space, x, e[0], e[1]):.6f}")
        1.000000
        >>> print(f"{abs(gd.sectional_curvature(space, x, e[0], e[2])):.6f}")
        0.000000
    """
    g = space.metric(x)
    squared_area = (u @ g @ u) * (v @ g @ v) - (u @ g @ v) ** 2
    return jnp.einsum("abcd,a,b,c,d", riemann(space, x), g @ u, v, u, v) / squared_area


@checked
def killing_defect(space: AbstractManifold, field: Callable[[Array], Array], x: Numbers) -> Float[Array, "n n"]:
    """How far a vector field is from generating isometries: ∇_a K_b + ∇_b K_a, which vanishes for a Killing field.

    It is computed as K^c ∂_c g_ab + g_cb ∂_a K^c + g_ac ∂_b K^c, the Lie derivative of the metric along K.

    Args:
        space: the space.
        field: function x[n] -> K[n], written with jax.numpy.
        x: the point, its coordinates [n].

    Returns:
        The symmetric tensor [n, n]; zero at every x if the field generates isometries.

    Raises:
        ValueError: unless x has shape [n].

    Example:
        A rotation of the plane is an isometry; scaling by the factor 1 + ε stretches the metric by 2ε.

        >>> plane, x = gd.spaces.Euclidean(2), jnp.array([0.3, 0.4])
        >>> rotation = gd.killing_defect(plane, lambda x: jnp.array([-x[1], x[0]]), x)
        >>> scaling = gd.killing_defect(plane, lambda x: x, x)
        >>> print(bool(jnp.all(rotation == 0)), bool(jnp.allclose(scaling, 2 * jnp.eye(2))))
        True True

    Source:
        Wald, *General Relativity* (1984), appendix C.
    """
    (x,) = checked_points(space, x=x)

    def vector(x: Float[Array, " n"]) -> Float[Array, " n"]:
        v = returned("field", field, x)
        if v.shape != x.shape:
            raise ValueError(f"field must return v{list(x.shape)}, a vector of the space; got shape {v.shape}")
        return v.astype(x.dtype)

    g, change_along = jax.jvp(space.metric, (x,), (vector(x),))
    lowered = g @ jax.jacfwd(vector)(x)  # [a, b] = g_ac ∂_b K^c
    return change_along + lowered + lowered.T


def _raise_index(g: Float[Array, "n n"], tensor: Array) -> Array:
    """g⁻¹ applied to the first index, in one system of equations for each value of the others."""
    flat = tensor.reshape(g.shape[0], -1)
    return jax.vmap(solve, in_axes=(None, 1), out_axes=1)(g, flat).reshape(tensor.shape)


@functools.singledispatch
def period_of(space: AbstractMetric) -> tuple[float, ...] | None:
    """The periods of the coordinates of a space; None if none is periodic. Spaces made of other spaces register
    here."""
    return check_period(getattr(space, "period", None), space.dim)


def check_metric(space: AbstractManifold, x: Numbers, *, signature: tuple[int, int] | None = None) -> None:
    """Raises ValueError unless the point x[n], or each of x[..., n], is in the chart, and the metric there is finite,
    symmetric and of this signature; by default it must be positive definite, as dynamics requires. For concrete
    numbers only.
    """
    x = np.asarray(x, dtype=jnp.result_type(float))
    if x.shape[-1:] != (space.dim,):
        raise ValueError(f"x must have shape (..., {space.dim}) in this space of dim {space.dim}, got {x.shape}")
    if not np.all(np.isfinite(x)):
        raise ValueError(f"x must be finite, got {x.tolist()}")
    points = x.reshape(-1, space.dim)
    try:
        metrics, inside = map(np.asarray, _metrics(space, points))
    except Exception:
        check_traceable("metric", space.metric, space.dim, (space.dim, space.dim))
        raise
    if metrics.shape[1:] != (space.dim, space.dim):
        check_traceable("metric", space.metric, space.dim, (space.dim, space.dim))
    if not np.all(inside):
        raise ValueError(
            f"x = {points[np.argmin(inside)].tolist()} is no point of {type(space).__name__}: this chart has "
            f"{domain_of(space).words}"
        )
    check_matrices(metrics, points, wanted=signature or (space.dim, 0), declared=signature_of(space))
    _check_periods(space, points, metrics)


def _check_periods(
    space: AbstractManifold, points: Float[np.ndarray, "P n"], metrics: Float[np.ndarray, "P n n"]
) -> None:
    """Raises ValueError where the metric is not the same a period further."""
    periods = period_of(space)
    if periods is None:
        return
    squares = np.einsum("pii->pi", np.abs(metrics))
    # No entry of a positive definite matrix is larger than that.
    size = np.sqrt(np.einsum("pi,pj->pij", squares, squares))
    tolerance = SAME_METRIC * np.finfo(metrics.dtype).eps ** 0.5 * size
    axes = np.eye(space.dim, dtype=points.dtype)
    for i, period in enumerate(periods):
        if np.isfinite(period):
            there = np.asarray(_metrics(space, points + period * axes[i])[0])
            if np.any(np.abs(there - metrics) > tolerance):
                raise ValueError(
                    f"the metric is not the same a period further: period[{i}] is {period}, and from "
                    f"{points[0].tolist()} on it changes from\n{metrics[0]} to\n{there[0]}"
                )


@jit
def _metrics(space: AbstractManifold, points: Float[Array, "P n"]) -> tuple[Array, Bool[Array, " P"]]:
    return jax.vmap(lambda x: (space.metric(x), domain_of(space).holds(x)))(points)
