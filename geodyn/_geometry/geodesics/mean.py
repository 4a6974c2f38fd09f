"""The mean of points of a curved space: the place from which the weighted squares of the distances sum to the least."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import jit
from geodyn._engine.native import native_of
from geodyn._engine.numerics.linalg import cholesky, solve
from geodyn._engine.numerics.roots import with_derivative, without_derivatives
from geodyn._engine.tracing import batched_as
from geodyn._foundations.checks import floats
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Count, Each, Float, Int, Numbers, Scalar
from geodyn._geometry.geodesics.distances import half_square, is_solved
from geodyn._geometry.geodesics.limits import NODES, effort_of, with_warning
from geodyn._geometry.geodesics.relaxation import Effort
from geodyn._geometry.manifold.manifold import (
    AbstractManifold,
    as_floats,
    check_symmetric,
    christoffel,
    count_coordinates,
    in_chart,
    within,
)

MOST_TURNS = 60
NOT_FOUND = (
    "no mean of these points was found; there must be one place from which all of them are seen along shortest "
    "geodesics of the chart, as for points in a small ball. Take points that are nearer to each other, or more nodes: "
    f"the default is nodes={NODES}"
)


@checked
def mean_point(
    space: AbstractManifold, points: Numbers, weights: Each | None = None, *, nodes: Count = NODES
) -> Float[Array, " n"]:
    """The Karcher mean of points: the place c where Σ m_i dist²(c, x_i) is least, so that Σ m_i log_c x_i = 0.

    In Euclidean space it is the centre of mass. On a complete space it is unique for points in a ball that is small
    enough, as a ball smaller than a hemisphere, and for any points where no curvature is positive. Elsewhere it is a
    local minimum, found from the heaviest of the points.

    It is a place and not a law: in a curved space it does not move on a geodesic if the body is free, and no other
    point does in general. What is conserved is the momentum of the symmetries, `gd.hamilton.killing_momentum`.

    The result can be differentiated with respect to points, weights and the numbers in the space.

    Args:
        space: a space with a positive definite metric.
        points: their coordinates [N, n].
        weights: m_i ≥ 0, one number for each point [N], of which one is positive; None: equal ones.
        nodes: the largest number of nodes of the geodesics, see `gd.distance`.

    Returns:
        The mean [n], to rounding. NaN, derivatives included, of which a call outside of jit warns, where none is found.

    Raises:
        ValueError: for points that are not [N, n] with N ≥ 1, weights that are negative, not finite, all zero or not
            one for each point, and a metric declared indefinite.

    Example:
        Of two points it is the midpoint of their geodesic. With weights 1 and 3 it is three quarters of the way.

        >>> space, ends = gd.spaces.Hyperbolic(2, "halfspace"), [[0.0, 1.0], [0.0, np.e]]
        >>> print(np.round(np.log([gd.mean_point(space, ends)[1], gd.mean_point(space, ends, [1.0, 3.0])[1]]), 6))
        [0.5  0.75]

    Source:
        Karcher, *Comm. Pure Appl. Math.* 30 (1977) 509; Afsari, Tron & Vidal, *SIAM J. Control Optim.* 51 (2013) 2230.
    """
    x = _points_of(space, points)
    m = _weights_of(weights, x)
    check_symmetric(space, x[0])
    return with_warning(_mean(space, x, m, effort_of(nodes)), NOT_FOUND)


def _points_of(space: AbstractManifold, points: Numbers) -> Float[Array, "N n"]:
    """The points as an array; ValueError unless they are one or more points of the chart."""
    size = count_coordinates(space)
    x = as_floats(points if isinstance(points, jax.Array) else floats("points", points))
    if x.ndim != 2 or x.shape[1] != size or not len(x):
        raise ValueError(
            f"points must have shape [N, {size}], a row of coordinates for each of one or more points; got {x.shape}"
        )
    return jnp.stack([in_chart(space, f"points[{i}]", point) for i, point in enumerate(x)])


def _weights_of(weights: Each | None, x: Float[Array, "N n"]) -> Float[Array, " N"]:
    """The weights, relative to the largest. ValueError unless there is one for each point, none is negative, and one is
    positive; NaN where weights are traced."""
    if weights is None:
        return jnp.ones(len(x), x.dtype)
    m = floats("weights", weights).astype(x.dtype)
    if m.shape != (len(x),):
        raise ValueError(f"weights must be one number for each of the {len(x)} points, got shape {m.shape}")
    least = jnp.min(m)
    most = jnp.max(m)
    good = (least >= 0) & (most > 0) & jnp.isfinite(most)
    if not isinstance(good, Tracer) and not good:
        raise ValueError(f"weights must be ≥ 0, finite, and one of them positive; got {np.asarray(m).tolist()}")
    scale = jax.lax.stop_gradient(jnp.where(good, most, jnp.nan))
    return m / scale


@jit
def _mean(space: AbstractManifold, x: Float[Array, "N n"], m: Float[Array, " N"], effort: Effort) -> Float[Array, " n"]:
    x = jax.vmap(lambda x: within(space, x))(x)
    constants = *without_derivatives((space, x, m)), effort
    # Where geodesics are solved for, that is already done by a program of our compiler's.
    found = _minimise(*constants) if is_solved(space) else native_of(_minimise, *constants)
    return with_derivative(lambda c: jax.grad(_spread)(c, space, x, m, effort), found)


def _spread(
    c: Float[Array, " n"], space: AbstractManifold, x: Float[Array, "N n"], m: Float[Array, " N"], effort: Effort
) -> Scalar:
    """Σ ½ m dist²(c, x), which the mean makes stationary."""
    return jnp.sum(m * jax.vmap(lambda x: half_square(space, c, x, effort))(x))


class Descent(NamedTuple):
    """A place and the spread there, the part of Newton's step that is tried next, whether it is `done`, and how many
    turns were taken."""

    c: Float[Array, " n"]
    spread: Scalar
    part: Scalar
    done: Bool[Array, ""]
    turns: Int[Array, ""]


def _minimise(
    space: AbstractManifold, x: Float[Array, "N n"], m: Float[Array, " N"], effort: Effort
) -> Float[Array, " n"]:
    """The mean by Newton's method, with steps that are halved until the spread grows no more; NaN if that finds no
    minimum. It begins at the heaviest point: the mean of coordinates need not be near."""
    near = jnp.finfo(x.dtype).eps ** 0.75
    size = jnp.max(jnp.abs(x))

    def spread(c: Float[Array, " n"]) -> Scalar:
        return _spread(c, space, x, m, effort)

    def step(c: Float[Array, " n"]) -> tuple[Float[Array, " n"], Bool[Array, ""]]:
        """Newton's step with the covariant second derivative, and whether that is positive definite. Where it is not,
        the step of steepest descent that leads to the mean in flat space."""
        slope = jax.grad(spread)(c)
        hessian = jax.jacfwd(jax.grad(spread))(c) - jnp.einsum("kij,k->ij", christoffel(space, c), slope)
        metric = space.metric(c)
        convex = jnp.all(jnp.isfinite(cholesky(hessian)))
        curved: Array = jnp.where(convex, hessian, jnp.sum(m) * metric)
        return -solve(curved, slope), convex

    def turn(at: Descent) -> Descent:
        change, convex = step(at.c)
        trial = at.c + at.part * change
        there = spread(trial)
        short = jnp.max(jnp.abs(change)) <= near * (size + jnp.max(jnp.abs(at.c)))
        # What is left of the spread near its minimum is rounding, which must stop no step.
        lower = short | (there <= at.spread * (1 + 100 * jnp.finfo(x.dtype).eps))
        c = jnp.where(lower, trial, at.c)
        # Newton's steps double the digits: after one that is so small nothing but rounding is left.
        done = short & convex & (at.part == 1)
        part = jnp.where(lower, jnp.minimum(2 * at.part, 1), at.part / 2)
        return Descent(c, jnp.where(lower, there, at.spread), part, done, at.turns + 1)

    heaviest = jnp.argmax(m)
    start = jnp.sum(jnp.where((jnp.arange(len(x)) == heaviest)[:, None], x, 0), axis=0)
    begin = Descent(start, spread(start), jnp.ones((), x.dtype), jnp.zeros((), bool), jnp.zeros((), int))
    end = jax.lax.while_loop(lambda at: ~at.done & (at.turns < MOST_TURNS), turn, batched_as((x, m), begin))
    return jnp.where(end.done, end.c, jnp.nan)
