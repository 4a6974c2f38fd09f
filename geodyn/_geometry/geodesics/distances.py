"""Distances and logarithms of any metric: closed forms where a space has them, a boundary-value solve elsewhere.

Everything is differentiable in both modes, to any order that the metric allows, with respect to points and the numbers
in the space. Any consistent units."""

import functools
import itertools
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Numbers, Scalar
from geodyn._geometry.geodesics.between import energy_between
from geodyn._geometry.geodesics.limits import NODES, effort_of, with_warning_of
from geodyn._geometry.geodesics.relaxation import Effort
from geodyn._geometry.manifold.manifold import (
    AbstractManifold,
    AbstractMetric,
    check_symmetric,
    checked_vectors,
    knows_distances,
    period_of,
    safe_sqrt,
    signature_of,
    within,
)
from geodyn._geometry.models.spaces import Product


@checked
def log(
    space: AbstractMetric, x: Numbers, y: Numbers, *, nodes: Count = NODES, tolerance: float = 0.0
) -> Float[Array, " n"]:
    """The logarithm map: the velocity at x with which the geodesic arrives in y at time 1, the inverse of `gd.exp`.

    It is −g⁻¹ ∂/∂x ½ dist²(x, y), by the formula of the first variation. Of a `gd.surfaces.LevelSet` it is found by
    shooting, starting with the tangent part of y − x.

    Args:
        space: a space or a `gd.surfaces.LevelSet`.
        x, y: the two points, their coordinates [n].
        nodes: the largest number of nodes of the path, see `gd.distance`.
        tolerance: a relative error of the length that is good enough, see `gd.distance`.

    Returns:
        The velocity [n]. NaN where `gd.distance` gives NaN; of a level set also where the shooting leads elsewhere, and
        for y off the set.

    Raises:
        ValueError: as `gd.distance` does.

    Example:
        >>> space = gd.spaces.Hyperbolic(2)
        >>> v = gd.log(space, [0.1, 0.2], [-0.3, 0.4])
        >>> there = gd.exp(space, [0.1, 0.2], v)
        >>> print(f"{there[0]:.6f} {there[1]:.6f}")
        -0.300000 0.400000

    Source:
        Sakai, *Riemannian Geometry*, III.2.
    """
    points, value = _value_at_two(log_of, space, x, y, effort_of(nodes, tolerance))
    return with_warning_of(space, points, value)


@functools.singledispatch
def log_of(space: AbstractMetric, x: Float[Array, " n"], y: Float[Array, " n"], nodes: Any) -> Float[Array, " n"]:
    """The computation of `log`; spaces with another formula register here."""
    return solve(space.metric(x), -jax.grad(half_square, 1)(space, x, y, nodes))


@checked
def distance(
    space: AbstractMetric, x: Numbers, y: Numbers, *, nodes: Count | Effort = NODES, tolerance: float = 0.0
) -> Scalar:
    """Distance of two points, the length of the geodesic between them.

    It has a closed form in spaces of constant curvature, in `gd.spaces.Inhomogeneous` and in products of such; a space
    with a method `squared_distance` is asked for it, and `gd.spaces.Tabulated` looks it up in its table. In any other
    space a boundary-value problem is solved: the straight segment of the chart is relaxed to a shortest path. So no
    path leaves the chart, and points whose coordinates differ by a full turn are different points unless the space has
    a `period`. Where there are several geodesics the result belongs to the one to which the segment relaxes, a local
    minimum of the length.

    First derivatives are those of the first variation; second derivatives come from the implicit-function theorem. At
    coincident points the distance has no derivative, and 0 is given, so that a spring of any rest length exerts no
    force there; `gd.squared_distance` is smooth there. At antipodal points of a sphere, or conjugate points of any
    space, the derivative is finite (that along one of the shortest geodesics, or their mean, 0) but of no use, as are
    second derivatives nearby, which grow without bound; the solve may give NaN there.

    Args:
        space: a space or a `gd.surfaces.LevelSet`.
        x, y: the two points, their coordinates [n].
        nodes: the largest number of nodes that the path may take; it takes as many as resolve its energy to rounding.
        tolerance: a relative error of the length that is good enough, from 0 to less than 1, where that takes fewer
            nodes. With 1e-6 a solve was measured to be up to 26 times faster where 12 nodes are then enough, else one
            to three times. The error is estimated; first derivatives were up to ten times less accurate than the
            distance, second ones 1e4 times.

    Returns:
        The distance, one number. NaN, derivatives included, if no geodesic is found, if `nodes` do not resolve it (then
        give more, or a tolerance), or beyond a conjugate point, where the geodesic is not a minimum. Outside of jit a
        warning is given; an integration stops with a status.

    Raises:
        ValueError: for a metric declared indefinite, points that are not [n], a tolerance outside [0, 1), and `nodes`
            that are no positive whole number.

    Example:
        In the half-plane the points (0, 1) and (0, e) are at distance 1, by the closed form and by the solve.

        >>> space = gd.spaces.Hyperbolic(2, "halfspace")
        >>> same = gd.Manifold(lambda x: jnp.eye(2) / x[1] ** 2, dim=2)
        >>> print([f"{gd.distance(s, [0.0, 1.0], [0.0, np.e]):.6f}" for s in (space, same)])
        ['1.000000', '1.000000']
    """
    points, value = _value_at_two(_distance, space, x, y, effort_of(nodes, tolerance))
    return with_warning_of(space, points, value)


@checked
def squared_distance(
    space: AbstractMetric, x: Numbers, y: Numbers, *, nodes: Count | Effort = NODES, tolerance: float = 0.0
) -> Scalar:
    """The square of `gd.distance`, which is smooth where the points coincide.

    Args:
        space: a space or a `gd.surfaces.LevelSet`.
        x, y: the two points, their coordinates [n].
        nodes: the largest number of nodes of the path, see `gd.distance`.
        tolerance: a relative error of the length that is good enough, see `gd.distance`.

    Returns:
        The squared distance, one number; NaN where `gd.distance` gives NaN.

    Raises:
        ValueError: as `gd.distance` does.

    Example:
        At coincident points its Hessian is 2g, here 8 times the unit matrix.

        >>> sphere, x = gd.spaces.Sphere(2), jnp.zeros(2)
        >>> print(f"{gd.squared_distance(sphere, x, [1.0, 0.0]):.6f} {(np.pi / 2) ** 2:.6f}")
        2.467401 2.467401
        >>> hessian = jax.hessian(lambda y: gd.squared_distance(sphere, x, y))(x)
        >>> print(bool(jnp.allclose(hessian, 8 * jnp.eye(2))))
        True
    """
    points, value = _value_at_two(_square_of_distance, space, x, y, effort_of(nodes, tolerance))
    return with_warning_of(space, points, value)


def _square_of_distance(space: AbstractMetric, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort) -> Scalar:
    return 2 * half_square(space, x, y, effort)


def _distance(space: AbstractMetric, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort) -> Scalar:
    return safe_sqrt(_square_of_distance(space, x, y, effort))


def _value_at_two(
    function: Callable[..., Array], space: AbstractMetric, x: Numbers, y: Numbers, effort: Effort
) -> tuple[dict[str, Array], Array]:
    """(the two points by name, a function of them); ValueError unless each is [n], and for a metric that is not
    symmetric at x."""
    x, y = checked_vectors(space, x=x, y=y)
    if is_solved(space):
        check_symmetric(space, x)
    return {"x": x, "y": y}, jit(_value_within)(function, space, x, y, effort)


def _value_within(
    function: Callable[..., Array], space: AbstractMetric, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort
) -> Array:
    """A function of two points; NaN for a point outside of the chart."""
    return function(space, within(space, x), within(space, y), effort)


def distance_or_far(
    space: AbstractMetric, x: Float[Array, " n"], y: Float[Array, " n"], nodes: Count | Effort, near: Scalar
) -> Scalar:
    """The distance. If its geodesic is not found, it is the length of the straight segment of the chart if that is more
    than twice `near`, else NaN."""
    if not is_solved(space):
        return distance(space, x, y, nodes=nodes)
    length = safe_sqrt(2 * half_square(space, x, y, effort_of(nodes)._replace(far=True)))
    chart = cast(AbstractManifold, space)
    segment = jax.lax.stop_gradient(chord(chart, x, nearest_image(chart, x, y)))
    if_not_found = jnp.where(segment > 2 * near, segment, jnp.nan)
    return jnp.where(jnp.isinf(length), if_not_found, length)


@functools.singledispatch
def is_solved(space: AbstractMetric) -> bool:
    """Whether distances in the space are found by solving a boundary-value problem; spaces that find them otherwise
    register here, as in `half_square`."""
    return False


@is_solved.register
def _(space: AbstractManifold) -> bool:
    return not knows_distances(space)


@is_solved.register
def _(space: Product) -> bool:
    return is_solved(space.a) or is_solved(space.b)


@functools.singledispatch
def half_square(space: Any, x: Float[Array, " n"], y: Float[Array, " n"], nodes: Any) -> Scalar:
    """½ dist², by the space's own `squared_distance` if it has one; spaces made of other spaces register here."""
    y = nearest_image(space, x, y)
    if knows_distances(space):
        return _scalar(space.squared_distance(x, y), space) / 2
    signature = signature_of(space)
    if signature[1] > 0:
        raise ValueError(f"distance and log need a positive definite metric; this one has signature {signature}")
    return energy_between(space, x, y, effort_of(nodes))


@half_square.register
def _(space: Product, x: Float[Array, " n"], y: Float[Array, " n"], nodes: Any) -> Scalar:
    xa, xb = space.split(x)
    ya, yb = space.split(y)
    return half_square(space.a, xa, ya, nodes) + half_square(space.b, xb, yb, nodes)


def _scalar(square: Any, space: AbstractMetric) -> Any:
    if jnp.shape(square) != ():
        raise ValueError(
            f"squared_distance of {type(space).__name__} must return one number, got shape {jnp.shape(square)}"
        )
    return square


def nearest_image(space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"]) -> Float[Array, " n"]:
    """The image of y that is nearest to x, among its shifts by whole periods of the coordinates: the one to which the
    straight segment of the chart is shortest, or in a space that knows its distances, the one at the shortest
    distance."""
    if period_of(space) is None:
        return y
    period = np.array(period_of(space))
    is_periodic = np.isfinite(period)
    period = jnp.asarray(np.where(is_periodic, period, 1.0), x.dtype)
    turns = -jnp.where(jnp.asarray(is_periodic), jnp.round((y - x) / period), 0)
    # Two images are tried for each periodic coordinate: the one that is nearest in this coordinate, and the next one on
    # the other side of x, which may be nearer in the metric.
    other = jnp.where(y - x + turns * period > 0, -1.0, 1.0)
    choices = [(0, 1) if p else (0,) for p in is_periodic]
    sides = np.array(list(itertools.product(*choices)))
    images = (y + turns * period)[None] + jnp.asarray(sides, x.dtype) * (other * period)[None]
    if knows_distances(space):
        square = space.squared_distance  # pyright: ignore[reportAttributeAccessIssue]: it is optional
    else:

        def square(x: Float[Array, " n"], y: Float[Array, " n"]) -> Scalar:
            return chord(space, x, y) ** 2

    squares = jax.vmap(square, (None, 0))(*jax.lax.stop_gradient((x, images)))
    is_nearest = jnp.arange(len(sides)) == jnp.argmin(squares)
    # Chosen by a sum, whose derivative has no scatter.
    return jnp.sum(jnp.where(is_nearest[:, None], images, 0), axis=0)


def chord(space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"]) -> Scalar:
    """The root of twice the energy of the straight segment of the chart between two points, by Gauss quadrature with
    eight nodes: its length if its speed in the metric is constant, else more."""
    # On [−1, 1], with weights whose sum is 2.
    z, weights = (jnp.asarray(a, x.dtype) for a in np.polynomial.legendre.leggauss(8))
    d = y - x
    squares = jax.vmap(lambda z: d @ space.metric(x + (1 + z) / 2 * d) @ d)(z)
    return safe_sqrt(jnp.dot(weights, squares) / 2)
