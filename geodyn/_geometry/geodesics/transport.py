"""What is carried along curves and geodesics: vectors by parallel transport, Jacobi fields."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit, static_count
from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.checks import returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Numbers, Scalar
from geodyn._geometry.geodesics.geodesic import geodesic_of, times_of
from geodyn._geometry.geodesics.limits import STEPS, TOO_LONG, is_nan
from geodyn._geometry.manifold.manifold import (
    AbstractManifold,
    AbstractMetric,
    checked_points,
    checked_vectors,
    christoffel,
)
from geodyn._integrators.contract.tableau import gauss


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
    ts = times_of(ts, w)
    points, velocities = _curve_at_nodes(curve, ts, static_count("steps", steps), w.size)
    return _transport(space, points, velocities, w, ts)


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
    found = _jacobi_field(space, x, v, j, dj, times_of(ts, x), steps)
    if is_nan(found):
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
