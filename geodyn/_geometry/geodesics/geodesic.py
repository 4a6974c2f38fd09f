"""Geodesics of any metric: closed forms where a space has them, integration and a boundary-value solve elsewhere.

Everything is differentiable in both modes, to any order that the metric allows, with respect to points, vectors, times
and the numbers in the space. Any consistent units. Two keywords set the effort in spaces without closed form: `steps`,
Gauss steps of order 12 to each time (in each interval, for a transport), and `nodes`, the most that a path between two
points may have: it takes as many as resolve its energy to rounding, or its length to a relative `tolerance`."""

import functools
import itertools
import warnings
from collections.abc import Callable
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import jit, static_count
from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.checks import is_finite, returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Numbers, PyTree, Scalar
from geodyn._geometry.geodesics.between import energy_between
from geodyn._geometry.geodesics.relaxation import Effort
from geodyn._geometry.manifold.manifold import (
    AbstractManifold,
    AbstractMetric,
    check_metric,
    check_symmetric,
    checked_points,
    checked_vectors,
    christoffel,
    inner,
    knows_distances,
    period_of,
    safe_sqrt,
    signature_of,
    within,
)
from geodyn._geometry.models.spaces import AbstractConstantCurvature, Embedded, Product
from geodyn._geometry.models.thurston import SL2, Nil
from geodyn._integrators.contract.lagrangian import Lagrangian
from geodyn._integrators.contract.tableau import gauss
from geodyn._integrators.integrate import integrate
from geodyn._integrators.step.methods import AbstractMethod, Gauss

# 32 pieces of 12 nodes.
NODES = 384
STEPS = 48
NOT_FOUND = (
    "no shortest geodesic between these points was found; they must be in the chart, or table, and no conjugate point "
    f"between them. For long ones give more nodes: the default is nodes={NODES}; or a tolerance, such as tolerance=1e-8"
)
TOO_LONG = (
    "the geodesic is too long for its steps, or leaves the chart. In a space without closed form give more steps: the "
    f"default is steps={STEPS}; far out in hyperbolic space only the chart 'polar' has digits left"
)


@checked
def geodesic(
    space: AbstractMetric,
    x: Numbers,
    v: Numbers,
    ts: Numbers,
    *,
    steps: Count = STEPS,
) -> tuple[Float[Array, "T n"], Float[Array, "T n"]]:
    """Positions and velocities along the geodesic with position x and velocity v at time 0: x'' + Γ(x', x') = 0.

    Spaces with a closed form (constant curvature) use it. Elsewhere each time is integrated to separately, in parallel,
    by Gauss steps of order 12. Of a `gd.surfaces.LevelSet`, such as the configurations of a linkage, it is the geodesic
    of the set, from a point x on it with the tangent part of v, in the coordinates of the space around it, by Radau
    steps of order 5; so are `gd.exp`, `gd.log` and `gd.distance`. The result can be differentiated with respect to
    points, vectors, times and the numbers in the space.

    Args:
        space: a space or a `gd.surfaces.LevelSet`.
        x: the point at time 0, its coordinates [n].
        v: the velocity at time 0 [n].
        ts: the times [T], in any order and of any sign.
        steps: number of integration steps to each time, where there is no closed form.

    Returns:
        Positions [T, n] and velocities [T, n]. They are NaN, of which a call outside of jit warns, where the steps are
        too long: one did not converge, or the speed |x'|, which is constant on a geodesic, changed in half of its
        digits.

    Raises:
        ValueError: for arguments of wrong shapes.

    Example:
        A great circle from the origin of stereographic coordinates, at unit speed: x = tan(t/2).

        >>> sphere = gd.Manifold(lambda x: 4 / (1 + x @ x) ** 2 * jnp.eye(2), dim=2)
        >>> positions, velocities = gd.geodesic(sphere, [0.0, 0.0], [0.5, 0.0], [-1.0, np.pi / 2])
        >>> print(positions.shape, f"{positions[0, 0]:.6f} {positions[1, 0]:.6f}")
        (2, 2) -0.546302 1.000000
    """
    x, v = checked_points(space, x=x, v=v)
    positions_and_velocities = geodesic_of(space, x, v, _times(ts, x), steps)
    return with_warning(positions_and_velocities, TOO_LONG)


@checked
def exp(space: AbstractMetric, x: Numbers, v: Numbers, *, steps: Count = STEPS) -> Float[Array, " n"]:
    """The exponential map: the point where the geodesic from x with velocity v is at time 1.

    Args:
        space: a space or a `gd.surfaces.LevelSet`.
        x: the start, its coordinates [n].
        v: the velocity there [n]; its length is the length of the geodesic.
        steps: number of integration steps, where there is no closed form.

    Returns:
        The end point [n]; NaN where `gd.geodesic` gives NaN.

    Raises:
        ValueError: unless x and v have shape [n].

    Example:
        In the Poincaré ball a point at the distance d from the origin has |x| = tanh(d/2).

        >>> y = gd.exp(gd.spaces.Hyperbolic(2), [0.0, 0.0], [0.5, 0.0])
        >>> print(f"{y[0]:.6f} {np.tanh(0.5):.6f}")
        0.462117 0.462117
    """
    x, v = checked_vectors(space, x=x, v=v)
    value = jit(_exp_within)(space, x, v, steps)
    return _with_warning_of(space, {"x": x}, value, TOO_LONG)


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
    return _with_warning_of(space, points, value)


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
    return _with_warning_of(space, points, value)


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
    return _with_warning_of(space, points, value)


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


def _exp_within(
    space: AbstractMetric, x: Float[Array, " n"], v: Float[Array, " n"], steps: Count
) -> Float[Array, " n"]:
    return _exp(space, within(space, x), v, steps)


def _with_warning_of(space: AbstractMetric, points: dict[str, Any], value: PyTree, why: str = NOT_FOUND) -> Any:
    """The value of a function of `points`. If it is NaN: ValueError for a point outside of the chart, else a warning.
    To look at each point before would take a quarter of the time of a call."""
    if _is_nan(value):
        checked_points(space, **points)
        warnings.warn(f"NaN: {why}", stacklevel=4)
    return value


def effort_of(nodes: Count | Effort, tolerance: float = 0.0) -> Effort:
    """The `Effort` with these options; ValueError for a tolerance outside [0, 1), and for nodes that are not a positive
    whole number."""
    if isinstance(nodes, Effort):
        return nodes
    if not isinstance(tolerance, Tracer) and not 0 <= tolerance < 1:
        raise ValueError(f"tolerance, a relative error, must be at least 0 and less than 1, got {tolerance}")
    return Effort(static_count("nodes", nodes), tolerance=tolerance)


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


def is_solved(space: AbstractMetric) -> bool:
    """Whether distances in the space are found by solving a boundary-value problem."""
    if isinstance(space, Product):
        return is_solved(space.a) or is_solved(space.b)
    return isinstance(space, AbstractManifold) and not knows_distances(space)


def with_warning(value: PyTree, why: str = NOT_FOUND) -> Any:
    """The value, with a warning if it is NaN. Inside of jit there is no warning, since the value is not known."""
    if _is_nan(value):
        warnings.warn(f"NaN: {why}", stacklevel=4)
    return value


def _is_nan(value: PyTree) -> bool:
    # An array alone is looked at first, since to go through a pytree takes time.
    if isinstance(value, jax.Array) and not isinstance(value, Tracer):
        known = np.asarray(value)
        return not is_finite(known) and bool(np.isnan(known).any())
    leaves = jax.tree.leaves(value)
    known = [np.asarray(x) for x in leaves if not isinstance(x, Tracer)]
    return len(known) == len(leaves) and any(not is_finite(x) and np.isnan(x).any() for x in known)


@checked
def parallel_transport(
    space: AbstractManifold,
    curve: Callable[[Scalar], Array],
    w: Numbers,
    ts: Numbers,
    *,
    steps: Count = STEPS,
) -> Float[Array, "T n"]:
    """A vector carried along a curve by parallel transport: w' + Γ(x', w) = 0.

    Args:
        space: the space.
        curve: function t -> x[n], written with jax.numpy.
        w: the vector at curve(ts[0]), its components [n].
        ts: the times [T], in the order in which the curve is followed.
        steps: number of Gauss steps of order 12 in each interval of time.

    Returns:
        The vectors [T, n] at these times, the first being w.

    Raises:
        ValueError: for arguments of wrong shapes.

    Example:
        Around the circle of latitude at the polar distance a, a vector turns by 2π cos a: by half a turn for a = π/3.

        >>> sphere = gd.spaces.Sphere(2, "polar")
        >>> w = gd.parallel_transport(sphere, lambda t: jnp.stack([np.pi / 3 + 0 * t, t]), [1.0, 0.0], [0.0, 2 * np.pi])
        >>> print(f"{w[1, 0]:.6f}")
        -1.000000
    """
    (w,) = checked_vectors(space, w=w)
    ts = _times(ts, w)
    points, velocities = _curve_at_nodes(curve, ts, static_count("steps", steps), w.size)
    return _transport(space, points, velocities, w, ts)


@checked
def jacobi_field(
    space: AbstractManifold,
    x: Numbers,
    v: Numbers,
    j: Numbers,
    dj: Numbers,
    ts: Numbers,
    *,
    steps: Count = STEPS,
) -> tuple[Float[Array, "T n"], Float[Array, "T n"]]:
    """Jacobi field J along a geodesic, the deviation of neighbouring geodesics: D²J/dt² = −R(J, x')x'.

    It is computed as the derivative of the geodesic with respect to its initial data.

    Args:
        space: the space.
        x, v: position and velocity of the geodesic at time 0 [n].
        j, dj: J and its covariant derivative DJ/dt at time 0 [n].
        ts: the times [T], in any order and of any sign.
        steps: number of integration steps to each time, where there is no closed form.

    Returns:
        J [T, n] and DJ/dt [T, n] at these times. Inside jit they are NaN where the geodesic is too long for its steps.

    Raises:
        ValueError: where the geodesic is too long for its steps, or leaves the chart; for arguments of wrong shapes.

    Example:
        On the unit sphere a field that starts from 0 with unit rate, across the geodesic, has the length sin t.

        >>> sphere = gd.spaces.Sphere(2)
        >>> J, _ = gd.jacobi_field(sphere, [0.0, 0.0], [0.5, 0.0], [0.0, 0.0], [0.0, 0.5], [1.0])
        >>> x, _ = gd.geodesic(sphere, [0.0, 0.0], [0.5, 0.0], [1.0])
        >>> print(f"{gd.norm(sphere, x[0], J[0]):.6f} {np.sin(1.0):.6f}")
        0.841471 0.841471

    Source:
        do Carmo, *Riemannian Geometry*, chapter 5.
    """
    x, v, j, dj = checked_points(space, x=x, v=v, j=j, dj=dj)
    found = _jacobi_field(space, x, v, j, dj, _times(ts, x), steps)
    if _is_nan(found):
        raise ValueError(f"v or ts: {TOO_LONG}")
    return found


@jit
def _jacobi_field(
    space: AbstractMetric,
    x: Float[Array, " n"],
    v: Float[Array, " n"],
    j: Float[Array, " n"],
    dj: Float[Array, " n"],
    ts: Float[Array, " T"],
    steps: Count,
) -> tuple[Float[Array, "T n"], Float[Array, "T n"]]:
    # DJ/dt = J' + Γ(x', J). J' at the start is how the initial velocity of the neighbouring geodesics differs from v.
    dv = dj - jnp.einsum("kij,i,j", christoffel(space, x), v, j)

    def flow(x: Float[Array, " n"], v: Float[Array, " n"]) -> tuple[Float[Array, "T n"], Float[Array, "T n"]]:
        return geodesic_of(space, x, v, ts, steps)

    # The field is the derivative of the geodesic with respect to its start and its initial velocity.
    (xs, vs), (J, dJ) = jax.jvp(flow, (x, v), (j, dv))
    symbols = jax.vmap(lambda x: christoffel(space, x))(xs)
    return J, dJ + jnp.einsum("tkij,ti,tj->tk", symbols, vs, J)


@functools.singledispatch
def geodesic_of(
    space: AbstractMetric, x: Float[Array, " n"], v: Float[Array, " n"], ts: Float[Array, " T"], steps: Count
) -> tuple[Float[Array, "T n"], Float[Array, "T n"]]:
    """The computation of `geodesic`; spaces with another formula register here."""
    return _by_integration(space, x, v, ts, steps)


@geodesic_of.register
@jit
def _(
    space: AbstractConstantCurvature | Nil | SL2,
    x: Float[Array, " n"],
    v: Float[Array, " n"],
    ts: Float[Array, " T"],
    steps: Count,
) -> tuple[Float[Array, "T n"], Float[Array, "T n"]]:
    def position(t: Scalar) -> Float[Array, " n"]:
        return space.exp(x, t * v)

    def position_and_velocity(t: Scalar) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        return jax.jvp(position, (t,), (jnp.ones_like(t),))

    return jax.vmap(position_and_velocity)(ts)


@geodesic_of.register
def _(
    space: Product, x: Float[Array, " n"], v: Float[Array, " n"], ts: Float[Array, " T"], steps: Count
) -> tuple[Float[Array, "T n"], Float[Array, "T n"]]:
    xa, xb = space.split(x)
    va, vb = space.split(v)
    positions_a, velocities_a = geodesic_of(space.a, xa, va, ts, steps)
    positions_b, velocities_b = geodesic_of(space.b, xb, vb, ts, steps)
    positions = jnp.concatenate([positions_a, positions_b], axis=1)
    velocities = jnp.concatenate([velocities_a, velocities_b], axis=1)
    return positions, velocities


@functools.singledispatch
def _exp(space: AbstractMetric, x: Float[Array, " n"], v: Float[Array, " n"], steps: Count) -> Float[Array, " n"]:
    positions, _ = geodesic_of(space, x, v, jnp.ones(1, x.dtype), steps)
    return positions[0]


@_exp.register
def _(
    space: AbstractConstantCurvature | Nil | SL2, x: Float[Array, " n"], v: Float[Array, " n"], steps: Count
) -> Float[Array, " n"]:
    return space.exp(x, v)


@_exp.register
def _(space: Product, x: Float[Array, " n"], v: Float[Array, " n"], steps: Count) -> Float[Array, " n"]:
    xa, xb = space.split(x)
    va, vb = space.split(v)
    return jnp.concatenate([_exp(space.a, xa, va, steps), _exp(space.b, xb, vb, steps)])


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


def _scalar(square: Any, space: AbstractMetric) -> Any:
    if jnp.shape(square) != ():
        raise ValueError(
            f"squared_distance of {type(space).__name__} must return one number, got shape {jnp.shape(square)}"
        )
    return square


@half_square.register
def _(space: Product, x: Float[Array, " n"], y: Float[Array, " n"], nodes: Any) -> Scalar:
    xa, xb = space.split(x)
    ya, yb = space.split(y)
    return half_square(space.a, xa, ya, nodes) + half_square(space.b, xb, yb, nodes)


class _Kinetic(eqx.Module):
    """The Lagrangian ½ g(v, v) of a motion along geodesics."""

    metric: Callable

    def __call__(self, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        return 0.5 * v @ self.metric(q) @ v


@jit
def _by_integration(
    space: AbstractMetric, x: Float[Array, " n"], v: Float[Array, " n"], ts: Float[Array, " T"], steps: int
) -> tuple[Float[Array, "T n"], Float[Array, "T n"]]:
    qs, vs = rays(space.metric, None, Gauss(6), x, v, ts, steps)
    # |x'|² is constant. The scale of its change is positive even for a null vector, for which |x'|² is zero.
    change = jax.vmap(lambda q, u: inner(space, q, u, u))(qs, vs) - inner(space, x, v, v)
    scale = jnp.abs(v) @ jnp.abs(space.metric(x)) @ jnp.abs(v)
    is_good = (jnp.abs(change) <= jnp.finfo(x.dtype).eps ** 0.5 * scale)[:, None]
    return jnp.where(is_good, qs, jnp.nan), jnp.where(is_good, vs, jnp.nan)


def rays(
    metric: Callable,
    constraint: Callable | None,
    method: AbstractMethod,
    x: Float[Array, " n"],
    v: Float[Array, " n"],
    ts: Float[Array, " T"],
    steps: Count,
) -> tuple[Float[Array, "T n"], Float[Array, "T n"]]:
    """Positions and velocities at the times ts of the motion without forces from x with the velocity v: a geodesic, of
    the set where the `constraint` vanishes if there is one."""
    # As pytrees, so that the numbers in them are traced.
    metric = eqx.filter_closure_convert(metric, x)
    if constraint is not None:
        constraint = eqx.filter_closure_convert(constraint, x)
    system = Lagrangian(_Kinetic(metric), constraint)

    def at(t: Scalar) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        # The motion to the time t is the motion to the time 1 with the velocity t v: so t may be negative or zero.
        trajectory = integrate(system, x, t * v, t1=1.0, steps=steps, method=method, save_every=steps)
        at_start = t == 0
        velocity = trajectory.v[-1] / jnp.where(at_start, 1.0, t)
        return trajectory.q[-1], jnp.where(at_start, v, velocity)

    return jax.vmap(at)(ts)


def _curve_at_nodes(
    curve: Callable[[Scalar], Array], ts: Float[Array, " T"], steps: int, size: int
) -> list[Float[Array, "T steps 6 n"]]:
    """The points and velocities [T, steps, 6, n] of a curve at the nodes of the Gauss steps to each time. The program
    of the transport takes these and not the curve, so that another curve compiles nothing. Raises ValueError unless
    the curve gives points of `size` coordinates."""
    # The step before the first time has the length 0.
    starts = jnp.append(ts[:1], ts[:-1])
    # In parts of the interval up to each time.
    places = (np.arange(steps)[:, None] + np.asarray(gauss(6).c, float)).reshape(-1) / steps
    nodes = starts[:, None] + (ts - starts)[:, None] * jnp.asarray(places, ts.dtype)[None]

    def point(t: Scalar) -> Float[Array, " n"]:
        x = returned("curve", curve, t)
        if x.shape != (size,):
            raise ValueError(f"curve must return x[{size}], a point of the space; got shape {x.shape}")
        return x.astype(ts.dtype)

    found = jax.vmap(lambda t: jax.jvp(point, (t,), (jnp.ones_like(t),)))(nodes.reshape(-1))
    return [x.reshape(len(ts), steps, -1, x.shape[-1]) for x in found]


@jit
def _transport(
    space: AbstractMetric,
    points: Float[Array, "T steps 6 n"],
    velocities: Float[Array, "T steps 6 n"],
    w: Float[Array, " n"],
    ts: Float[Array, " T"],
) -> Float[Array, "T n"]:
    """Parallel transport by Gauss collocation. The equation w' = M(t) w is linear, so that each step is one linear
    solve for its stages."""
    steps = points.shape[1]
    tableau = gauss(6)
    a = jnp.asarray(tableau.a, w.dtype)
    b = jnp.asarray(tableau.b, w.dtype)

    def generator(x: Float[Array, " n"], velocity: Float[Array, " n"]) -> Float[Array, "n n"]:
        return -jnp.einsum("kij,i->kj", christoffel(space, x), velocity)

    def step(
        w: Float[Array, " n"],
        at: tuple[Float[Array, "6 n"], Float[Array, "6 n"]] | list[Float[Array, "6 n"]],
        h: Scalar,
    ) -> Float[Array, " n"]:
        M = jax.vmap(generator)(*at)
        # The slopes k_i = M_i (w + h Σ_j a_ij k_j) of the stages i: (1 − h a_ij M_i) k = M_i w.
        size = M.shape[0] * M.shape[1]
        matrix = jnp.eye(size, dtype=w.dtype) - h * jnp.einsum("ij,iab->iajb", a, M).reshape(size, size)
        slopes = solve(matrix, (M @ w).reshape(-1)).reshape(M.shape[:2])
        return (w + h * (b @ slopes)).astype(w.dtype)

    def interval(
        w: Float[Array, " n"], given: tuple[Array, Array, Array]
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        h, *at = given
        w, _ = jax.lax.scan(lambda w, at: (step(w, at, h / steps), None), w, at)
        return w, w

    intervals = jnp.diff(ts, prepend=ts[:1])
    _, vectors = jax.lax.scan(interval, w, (intervals, points, velocities))
    return vectors


def _times(ts: Numbers, x: Array) -> Float[Array, " T"]:
    ts = jnp.asarray(ts, x.dtype)
    if ts.ndim != 1 or ts.size == 0:
        raise ValueError(f"ts must be a list of one or more times, got shape {ts.shape}")
    return ts


@checked
def check_manifold(space: AbstractManifold, x: Numbers) -> None:
    """Checks at a point that a space is well defined, and says what is wrong if it is not.

    The metric must be traceable by JAX, finite, symmetric, and of the declared signature at x. A `squared_distance` of
    the space must fit the metric around x: it must be 0 and smooth where the points coincide, with the Hessian 2g,
    symmetric in the points, and satisfy |grad dist| = 1 in both of them (the eikonal equation). An `embedding` with
    the Jacobian J must have the metric JᵀJ. For concrete numbers, outside of jit.

    Args:
        space: the space.
        x: the point, its coordinates [n].

    Returns:
        None, if all is well.

    Raises:
        ValueError: if the metric, the distance or the embedding does not pass; the message says what is wrong and
            where.

    Example:
        >>> gd.check_manifold(gd.spaces.Sphere(2), [0.3, 0.1])
        >>> skewed = gd.Manifold(lambda x: jnp.array([[1.0, 0.5], [0.0, 1.0]]), dim=2)
        >>> try:
        ...     gd.check_manifold(skewed, [0.3, 0.1])
        ... except ValueError as error:
        ...     print(str(error).splitlines()[0])
        the metric at x = [0.3, 0.1] must be symmetric, got
    """
    (x,) = checked_points(space, x=x)
    check_metric(space, x, signature=signature_of(space))
    if knows_distances(space):
        _check_distances(space, x)
    if callable(getattr(space, "embedding", None)) and not isinstance(space, Embedded):
        _check_embedding(space, x)


def _check_embedding(space: Any, x: Float[Array, " n"]) -> None:
    J = jax.jacfwd(space.embedding)(x)
    g = space.metric(x)
    scale = jnp.sqrt(jnp.abs(jnp.diag(g)))
    error = float(jnp.max(jnp.abs((J.T @ J - g) / jnp.outer(scale, scale))))
    # Formulas may lose half of their digits, as where they take the root of a difference; two more are left to them.
    if not error < 100 * float(jnp.finfo(x.dtype).eps) ** 0.5:
        raise ValueError(
            f"embedding does not fit the metric: at x = {x.tolist()} lengths in it have the metric\n{J.T @ J}\nbut the"
            f" metric is\n{g}"
        )


def _check_distances(space: AbstractManifold, x: Float[Array, " n"]) -> None:
    wanted = "squared_distance does not fit the metric: "
    # The same six digits as of an embedding. A `Tabulated` space knows its `error`; the second derivatives of its
    # distances have some hundred times that, and ten times as much is let pass.
    enough = max(100 * float(jnp.finfo(x.dtype).eps) ** 0.5, 1000 * getattr(space, "error", 0.0))
    scale = jnp.sqrt(jnp.diag(space.metric(x)))

    def square(y: Float[Array, " n"]) -> Scalar:
        return squared_distance(space, x, y)

    here = square(x)
    hessian = jax.hessian(square)(x)
    units = jnp.outer(scale, scale)
    error = hessian / units / 2 - space.metric(x) / units
    if not (abs(here) <= enough**2 and jnp.max(jnp.abs(error)) < enough):
        raise ValueError(
            f"{wanted}at coincident points x = {x.tolist()} it must be 0, got {here}, and smooth, with the Hessian 2g "
            f"in the second one, got\n{hessian}"
        )
    # Three fixed directions.
    for direction in np.cos(1 + np.arange(3 * x.size).reshape(3, -1) ** 1.5):
        # About a hundredth of a unit of length away.
        y = x + 0.01 * direction / scale
        there = squared_distance(space, x, y)
        back = squared_distance(space, y, x)
        if not abs(there - back) <= enough * there:
            raise ValueError(f"{wanted}it must be symmetric, got {there} from {x.tolist()} to {y}, and {back} back")
        for slope, point in zip(jax.grad(distance, (1, 2))(space, x, y), (x, y)):
            size = float(jnp.sqrt(slope @ solve(space.metric(point), slope)))
            if not abs(size - 1) < enough:
                raise ValueError(f"{wanted}|grad distance| must be 1, got {size} at {point}")
