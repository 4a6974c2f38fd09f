"""Geodesics of any metric from a point with a velocity: closed forms where a space has them, integration elsewhere.

Everything is differentiable in both modes, to any order that the metric allows, with respect to points, vectors, times
and the numbers in the space. Any consistent units."""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._engine.jit import jit
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Numbers, Scalar
from geodyn._geometry.geodesics.limits import STEPS, TOO_LONG, with_warning, with_warning_of
from geodyn._geometry.manifold.manifold import AbstractMetric, checked_points, checked_vectors, inner, within
from geodyn._geometry.models.spaces import AbstractKnownGeodesics, Product
from geodyn._integrators.contract.lagrangian import Lagrangian
from geodyn._integrators.integrate import integrate
from geodyn._integrators.step.methods import AbstractMethod, Gauss


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
    positions_and_velocities = geodesic_of(space, x, v, times_of(ts, x), steps)
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
    return with_warning_of(space, {"x": x}, value, TOO_LONG)


def _exp_within(
    space: AbstractMetric, x: Float[Array, " n"], v: Float[Array, " n"], steps: Count
) -> Float[Array, " n"]:
    return _exp(space, within(space, x), v, steps)


def times_of(ts: Numbers, x: Array) -> Float[Array, " T"]:
    ts = jnp.asarray(ts, x.dtype)
    if ts.ndim != 1 or ts.size == 0:
        raise ValueError(f"ts must be a list of one or more times, got shape {ts.shape}")
    return ts


@functools.singledispatch
def geodesic_of(
    space: AbstractMetric, x: Float[Array, " n"], v: Float[Array, " n"], ts: Float[Array, " T"], steps: Count
) -> tuple[Float[Array, "T n"], Float[Array, "T n"]]:
    """The computation of `geodesic`; spaces with another formula register here."""
    return _by_integration(space, x, v, ts, steps)


@geodesic_of.register
@jit
def _(
    space: AbstractKnownGeodesics,
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
def _(space: AbstractKnownGeodesics, x: Float[Array, " n"], v: Float[Array, " n"], steps: Count) -> Float[Array, " n"]:
    return space.exp(x, v)


@_exp.register
def _(space: Product, x: Float[Array, " n"], v: Float[Array, " n"], steps: Count) -> Float[Array, " n"]:
    xa, xb = space.split(x)
    va, vb = space.split(v)
    return jnp.concatenate([_exp(space.a, xa, va, steps), _exp(space.b, xb, vb, steps)])


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
