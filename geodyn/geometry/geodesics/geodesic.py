"""Geodesics of any metric: closed forms where a space has them, integration and a boundary-value solve elsewhere.

Everything is differentiable in both modes, to any order that the metric allows, with respect to points, vectors, times
and the numbers in the space. Any consistent units. Two keywords set the effort in spaces without closed form: `steps`,
Gauss steps of order 12 to each time (in each interval, for a transport), and `nodes`, the most that a path between two
points may have: it takes as many as resolve its energy to rounding, or its length to a relative `tolerance`."""

import functools
import itertools
import warnings
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._compile.jit import jit, static_count
from geodyn._numerics.linalg import solve
from geodyn._typing import Array, Count, Float, Numbers, Scalar
from geodyn.geometry.geodesics.between import energy_between
from geodyn.geometry.geodesics.relaxation import Effort
from geodyn.geometry.manifold.manifold import (
    AbstractManifold,
    AbstractMetric,
    Manifold,
    check_metric,
    checked_points,
    christoffel,
    inner,
    knows_distances,
    period_of,
    safe_sqrt,
)
from geodyn.geometry.models.spaces import AbstractConstantCurvature, Product
from geodyn.integrators.contract.lagrangian import Lagrangian
from geodyn.integrators.contract.tableau import gauss
from geodyn.integrators.integrate import integrate
from geodyn.integrators.step.methods import AbstractMethod, Gauss

NODES = 256
STEPS = 48


def geodesic(
    space: AbstractMetric,
    x: Numbers,
    v: Numbers,
    ts: Numbers,
    *,
    steps: Count = STEPS,
) -> tuple[Float[Array, "T n"], Float[Array, "T n"]]:
    """Positions and velocities at the times ts of the geodesic with position x and velocity v at time 0:
    x'' + Γ(x', x') = 0. The times may have any order and sign; each is integrated to on its own, all side by side.
    Of a `LevelSet`, such as the configurations of a linkage, it is that of the set, from x on it with the tangent part
    of v, in the coordinates of the space around, by Radau steps of order 5; so are `exp`, `log` and `distance`.

    NaN, of which a call outside of jit warns, where the steps are too long: one did not converge, or |x'|, which is
    constant, has changed in half of its digits. Raises ValueError for wrong shapes.
    """
    x, v = checked_points(space, x=x, v=v)
    return told(geodesic_of(space, x, v, _times(ts, x), steps), TOO_LONG)


@jit
def exp(space: AbstractMetric, x: Numbers, v: Numbers, *, steps: Count = STEPS) -> Float[Array, " n"]:
    """The exponential map: where the geodesic from x with velocity v is at time 1. NaN as `geodesic` says."""
    return told(jit(_exp)(space, *checked_points(space, x=x, v=v), steps), TOO_LONG)


def log(
    space: AbstractMetric, x: Numbers, y: Numbers, *, nodes: Count = NODES, tolerance: float = 0.0
) -> Float[Array, " n"]:
    """The velocity with which the geodesic from x arrives in y at time 1: −g⁻¹ ∂/∂x ½ dist²(x, y) (first variation;
    Sakai, *Riemannian Geometry*, III.2). Fails as `distance` does. Of a `LevelSet` it is found by shooting, from the
    tangent part of y − x; NaN where that leads elsewhere, and for y off the set."""
    return told(jit(log_of)(space, *checked_points(space, x=x, y=y), effort_of(nodes, tolerance)))


@functools.singledispatch
def log_of(space, x, y, nodes):
    """`log`; a space with one of its own registers here."""
    return solve(space.metric(x), -jax.grad(half_square, 1)(space, x, y, nodes))


def distance(
    space: AbstractMetric, x: Numbers, y: Numbers, *, nodes: Count | Effort = NODES, tolerance: float = 0.0
) -> Scalar:
    """Distance of two points: of a space of constant curvature, a product or `Inhomogeneous` in closed form, of one's
    own with a method `squared_distance` by that, of a `Tabulated` one from its table, else by a boundary-value solve.

    The solve relaxes the straight segment of the chart to a shortest path. So no path leaves the chart, and identified
    coordinates (an angle beyond its period) are different points unless the space has a `period`; of several geodesics
    it is that to which the segment relaxes, a local minimum of the length. NaN, derivatives included, of which a call
    outside of jit warns, and which stops an integration with a status: if none is found, if it is so long that `nodes`
    do not resolve its energy to rounding (then give more), or beyond a conjugate point, where it is no minimum. First
    derivatives are those of the first variation, second ones come from the implicit-function theorem.

    A relative error that is good enough is a `tolerance`, where that takes fewer nodes than rounding: measured with
    1e-6 up to 26 times faster, where 12 are then enough, else one to three times. The error is estimated; first
    derivatives were up to ten times, second ones 1e4 times, less exact.

    Where the distance has no derivative: at coincident points 0 is given, so that a spring of any rest length exerts no
    force there (`squared_distance` is smooth); at antipodal points of a sphere, or conjugate ones of any space, the
    derivative is finite, that along one of the shortest geodesics or their mean, 0, but of no use, as are second
    derivatives nearby, which grow without bound; the solve may give NaN there.

    Raises ValueError for a metric declared indefinite, a tolerance that is not in [0, 1), and nodes that are no
    positive whole number.
    """
    return safe_sqrt(squared_distance(space, x, y, nodes=nodes, tolerance=tolerance))


def squared_distance(
    space: AbstractMetric, x: Numbers, y: Numbers, *, nodes: Count | Effort = NODES, tolerance: float = 0.0
) -> Scalar:
    """Squared `distance`, smooth where the points coincide."""
    return told(2 * jit(half_square)(space, *checked_points(space, x=x, y=y), effort_of(nodes, tolerance)))


def effort_of(nodes: Count | Effort, tolerance: float = 0.0) -> Effort:
    """What paths may cost; ValueError for a tolerance outside [0, 1), and nodes that are no positive whole number."""
    if isinstance(nodes, Effort):
        return nodes
    if not isinstance(tolerance, jax.core.Tracer) and not 0 <= tolerance < 1:
        raise ValueError(f"tolerance, a relative error, must be at least 0 and less than 1, got {tolerance}")
    return Effort(static_count("nodes", nodes), tolerance=tolerance)


def distance_or_far(
    space: AbstractMetric, x: Float[Array, " n"], y: Float[Array, " n"], nodes: Count | Effort, near: Scalar
) -> Scalar:
    """The distance; where its geodesic is not found, the length of the chart's segment if that is more than twice as
    far as `near`, else NaN."""
    if not is_solved(space):
        return distance(space, x, y, nodes=nodes)
    length = safe_sqrt(2 * half_square(space, x, y, effort_of(nodes)._replace(far=True)))
    segment = jax.lax.stop_gradient(chord(space, x, nearest_image(space, x, y)))
    return jnp.where(jnp.isinf(length), jnp.where(segment > 2 * near, segment, jnp.nan), length)


def is_solved(space: AbstractMetric) -> bool:
    """Whether distances are those of a boundary-value solve."""
    if isinstance(space, Product):
        return is_solved(space.a) or is_solved(space.b)
    return isinstance(space, AbstractManifold) and not knows_distances(space)


NOT_FOUND = (
    "no shortest geodesic between these points was found; they must be in the chart, or table, and no conjugate point "
    f"between them. For long ones give more nodes: the default is nodes={NODES}"
)
TOO_LONG = (
    "the geodesic is too long for its steps, or leaves the chart. In a space without closed form give more steps: the "
    f"default is steps={STEPS}; far out in hyperbolic space only the chart 'polar' has digits left"
)


def told(value, why=NOT_FOUND):
    """The value, with a warning where it is NaN, as far as that can be seen, which is outside of jit."""
    if _is_nan(value):
        warnings.warn(f"NaN: {why}", stacklevel=3)
    return value


def _is_nan(value):
    leaves = jax.tree.leaves(value)
    return not any(isinstance(x, jax.core.Tracer) for x in leaves) and any(np.any(np.isnan(x)) for x in leaves)


def parallel_transport(
    space: AbstractManifold,
    curve: Callable,
    w: Numbers,
    ts: Numbers,
    *,
    steps: Count = STEPS,
) -> Float[Array, "T n"]:
    """The vector w at curve(ts[0]), transported along `curve(t) -> x[n]` to each of the times: w' + Γ(x', w) = 0."""
    (w,) = checked_points(space, w=w)
    return _transport(space, curve, w, _times(ts, w), steps)


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
    """J and DJ/dt at the times ts along the geodesic of x, v at time 0, where they are j and dj: D²J/dt² = −R(J, x')x'.

    The field is the derivative of the geodesic in its initial data (do Carmo, *Riemannian Geometry*, chapter 5). Raises
    ValueError where the geodesic is too long for its steps, or leaves the chart; inside jit the field is NaN there.
    """
    x, v, j, dj = checked_points(space, x=x, v=v, j=j, dj=dj)
    found = _jacobi_field(space, x, v, j, dj, _times(ts, x), steps)
    if _is_nan(found):
        raise ValueError(f"ts: {TOO_LONG}")
    return found


@jit
def _jacobi_field(space, x, v, j, dj, ts, steps):
    turning = dj - jnp.einsum("kij,i,j", christoffel(space, x), v, j)

    def flow(x, v):
        return geodesic_of(space, x, v, ts, steps)

    (xs, vs), (J, dJ) = jax.jvp(flow, (x, v), (j, turning))
    return J, dJ + jnp.einsum("tkij,ti,tj->tk", jax.vmap(lambda x: christoffel(space, x))(xs), vs, J)


@functools.singledispatch
def geodesic_of(space, x, v, ts, steps):
    """`geodesic`; a space with one of its own registers here."""
    return _integrated(space, x, v, ts, steps)


@geodesic_of.register
@jit
def _(space: AbstractConstantCurvature, x, v, ts, steps):
    return jax.vmap(lambda t: jax.jvp(lambda t: space.exp(x, t * v), (t,), (jnp.ones_like(t),)))(ts)


@geodesic_of.register
def _(space: Product, x, v, ts, steps):
    parts = [
        geodesic_of(factor, *point, ts, steps)
        for factor, *point in zip((space.a, space.b), space.split(x), space.split(v))
    ]
    return tuple(jnp.concatenate(part, axis=1) for part in zip(*parts))


@functools.singledispatch
def _exp(space, x, v, steps):
    return geodesic_of(space, x, v, jnp.ones(1, x.dtype), steps)[0][0]


@_exp.register
def _(space: AbstractConstantCurvature, x, v, steps):
    return space.exp(x, v)


@_exp.register
def _(space: Product, x, v, steps):
    factors = zip((space.a, space.b), space.split(x), space.split(v))
    return jnp.concatenate([_exp(*factor, steps) for factor in factors])


@functools.singledispatch
def half_square(space, x, y, nodes):
    """½ dist², by the space's own `squared_distance` if it has one; what is made of other spaces registers here."""
    y = nearest_image(space, x, y)
    if knows_distances(space):
        return _scalar(space.squared_distance(x, y), space) / 2
    if isinstance(space, Manifold) and space.signature[1] > 0:
        raise ValueError(f"distance and log need a positive definite metric; this one has signature {space.signature}")
    return energy_between(space, x, y, effort_of(nodes))


def nearest_image(space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"]) -> Float[Array, " n"]:
    """The image of y, whole periods of the coordinates away, to which the segment of the chart from x is shortest; for
    a space that knows its distances, that of the shortest distance."""
    if period_of(space) is None:
        return y
    period = np.array(period_of(space))
    round_ = jnp.asarray(np.isfinite(period))
    period = jnp.asarray(np.where(np.isfinite(period), period, 1.0), x.dtype)
    turns = -jnp.where(round_, jnp.round((y - x) / period), 0)
    # The nearest one in coordinates, and the next ones on the other side.
    other = jnp.where(y - x + turns * period > 0, -1.0, 1.0)
    sides = np.array(list(itertools.product(*[(0, 1) if p else (0,) for p in np.isfinite(period_of(space))])))
    images = (y + turns * period)[None] + jnp.asarray(sides, x.dtype) * (other * period)[None]
    square = space.squared_distance if knows_distances(space) else lambda x, y: chord(space, x, y) ** 2
    nearest = jnp.argmin(jax.vmap(square, (None, 0))(*jax.lax.stop_gradient((x, images))))
    return jnp.sum(jnp.where((jnp.arange(len(sides)) == nearest)[:, None], images, 0), axis=0)


def chord(space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"]) -> Scalar:
    """Length of the segment of the chart between two points, by the energy at eight of Gauss' nodes."""
    t, b = (jnp.asarray(a, x.dtype) for a in (np.polynomial.legendre.leggauss(8)))
    d = y - x
    squares = jax.vmap(lambda t: d @ space.metric(x + (1 + t) / 2 * d) @ d)(t)
    return safe_sqrt(jnp.dot(b, squares) / 2)


def _scalar(square, space):
    if jnp.shape(square) != ():
        raise ValueError(
            f"squared_distance of {type(space).__name__} must return one number, got shape {jnp.shape(square)}"
        )
    return square


@half_square.register
def _(space: Product, x, y, nodes):
    (xa, xb), (ya, yb) = space.split(x), space.split(y)
    return half_square(space.a, xa, ya, nodes) + half_square(space.b, xb, yb, nodes)


class _Kinetic(eqx.Module):
    """½ g(v, v)."""

    metric: Callable

    def __call__(self, q, v):
        return 0.5 * v @ self.metric(q) @ v


@jit
def _integrated(space, x, v, ts, steps):
    qs, vs = rays(space.metric, None, Gauss(6), x, v, ts, steps)
    # |x'|² is constant; a null vector's too, which has no size of its own.
    change = jax.vmap(lambda q, u: inner(space, q, u, u))(qs, vs) - inner(space, x, v, v)
    scale = jnp.abs(v) @ jnp.abs(space.metric(x)) @ jnp.abs(v)
    good = (jnp.abs(change) <= jnp.finfo(x.dtype).eps ** 0.5 * scale)[:, None]
    return jnp.where(good, qs, jnp.nan), jnp.where(good, vs, jnp.nan)


def rays(metric: Callable, constraint: Callable | None, method: AbstractMethod, x, v, ts, steps: int):
    """Positions and velocities at the times ts of what moves by its kinetic energy alone."""
    metric, constraint = (f and eqx.filter_closure_convert(f, x) for f in (metric, constraint))
    system = Lagrangian(_Kinetic(metric), constraint)

    def at(t):
        # Time is the size of the velocity, so that t may be negative, or zero.
        trajectory = integrate(system, x, t * v, t1=1.0, steps=steps, method=method, save_every=steps)
        start = t == 0
        return trajectory.q[-1], jnp.where(start, v, trajectory.v[-1] / jnp.where(start, 1.0, t))

    return jax.vmap(at)(ts)


@jit
def _transport(space, curve, w, ts, steps):
    """Gauss collocation; the equation is linear, w' = M(t) w, so that each step is one linear solve for its stages."""
    tableau = gauss(6)
    a, b, c = (jnp.asarray(array, w.dtype) for array in (tableau.a, tableau.b, tableau.c))

    def generator(t):
        x, velocity = jax.jvp(curve, (t,), (jnp.ones_like(t),))
        return -jnp.einsum("kij,i->kj", christoffel(space, x), velocity)

    def step(w, t, h):
        M = jax.vmap(generator)(t + c * h)
        size = M.shape[0] * M.shape[1]
        matrix = jnp.eye(size, dtype=w.dtype) - h * jnp.einsum("ij,iab->iajb", a, M).reshape(size, size)
        slopes = solve(matrix, (M @ w).reshape(-1)).reshape(M.shape[:2])
        return w + h * (b @ slopes)

    def interval(w, times):
        t, h = times[0], (times[1] - times[0]) / steps
        w = jax.lax.scan(lambda w, k: (step(w, t + k * h, h), None), w, jnp.arange(steps))[0]
        return w, w

    return jax.lax.scan(interval, w, jnp.stack([jnp.append(ts[0], ts[:-1]), ts], axis=1))[1]


def _times(ts, x: Array) -> Float[Array, " T"]:
    ts = jnp.asarray(ts, x.dtype)
    if ts.ndim != 1 or ts.size == 0:
        raise ValueError(f"ts must be a list of one or more times, got shape {ts.shape}")
    return ts


def check_manifold(space: AbstractManifold, x: Numbers) -> None:
    """Raises ValueError, saying what is wrong, unless the metric can be traced and is finite, symmetric and of the
    declared signature at x and, where the space has a `squared_distance`, that fits the metric around x: it is 0 and
    smooth where the points coincide, with the Hessian 2g there, symmetric in the points, and |grad dist| = 1 in both
    (the eikonal equation). For concrete numbers."""
    (x,) = checked_points(space, x=x)
    check_metric(space, x, signature=space.signature if isinstance(space, Manifold) else None)
    if knows_distances(space):
        _check_distances(space, x)


def _check_distances(space, x):
    wanted = "squared_distance does not fit the metric: "
    enough = max(100 * float(jnp.finfo(x.dtype).eps) ** 0.5, 1000 * getattr(space, "error", 0.0))  # that of `Tabulated`
    scale = jnp.sqrt(jnp.diag(space.metric(x)))
    here, hessian = (f(lambda y: squared_distance(space, x, y))(x) for f in (lambda f: f, jax.hessian))
    error = hessian / jnp.outer(scale, scale) / 2 - space.metric(x) / jnp.outer(scale, scale)
    if not (abs(here) <= enough**2 and jnp.max(jnp.abs(error)) < enough):
        raise ValueError(
            f"{wanted}at coincident points x = {x.tolist()} it must be 0, got {here}, and smooth, with the Hessian 2g "
            f"in the second one, got\n{hessian}"
        )
    for direction in np.cos(1 + np.arange(3 * x.size).reshape(3, -1) ** 1.5):
        y = x + 0.01 * direction / scale
        there, back = squared_distance(space, x, y), squared_distance(space, y, x)
        if not abs(there - back) <= enough * there:
            raise ValueError(f"{wanted}it must be symmetric, got {there} from {x.tolist()} to {y}, and {back} back")
        for slope, point in zip(jax.grad(distance, (1, 2))(space, x, y), (x, y)):
            size = float(jnp.sqrt(slope @ solve(space.metric(point), slope)))
            if not abs(size - 1) < enough:
                raise ValueError(f"{wanted}|grad distance| must be 1, got {size} at {point}")
