"""MOTION: where a stroke leads, and what it costs.

`g' = −g A(r) r'` is solved by the Magnus method of order 6 on three Gauss nodes a step, so that g never leaves the
group; the same nodes carry the integral of the power. Source: Blanes, Casas, Oteo & Ros, *Phys. Rep.* 470 (2009)
151, section 5.5; brackets change sign here, because the velocity multiplies g from the right.
"""

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._jit import jit
from geodyn._typing import Array, Float, Number, Scalar
from geodyn.geometry.groups import AbstractLieGroup
from geodyn.locomotion.connection import AbstractConnection, AbstractSwimmer, connection, reduction
from geodyn.locomotion.stroke import Stroke, shape_and_rate

_NODES = 0.5 + np.sqrt(0.15) * np.array([-1.0, 0.0, 1.0])
_WEIGHTS = np.array([5.0, 8.0, 5.0]) / 18


def gauss_times(steps: int) -> Float[Array, " Q"]:
    """The three Gauss nodes of each of `steps` equal steps of [0, 1], in order. Raises ValueError unless steps ≥ 1."""
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}; 64 to 256 suit most strokes.")
    return jnp.asarray(((np.arange(steps)[:, None] + _NODES) / steps).ravel(), float)


def mean(powers: Float[Array, " Q"]) -> Scalar:
    """The integral over [0, 1] of values at `gauss_times`."""
    return jnp.mean(powers.reshape(-1, 3) @ jnp.asarray(_WEIGHTS, powers.dtype))


def _increment(group: AbstractLieGroup, xi: Float[Array, "3 k"], h: float) -> Float[Array, " k"]:
    """The exponential coordinates of one step of length h from the body velocities at its three nodes."""
    a1, a2, a3 = h * xi[1], np.sqrt(15) / 3 * h * (xi[2] - xi[0]), 10 / 3 * h * (xi[2] - 2 * xi[1] + xi[0])
    c1 = -group.bracket(a1, a2)
    c2 = group.bracket(a1, 2 * a3 + c1) / 60
    return a1 + a3 / 12 - group.bracket(-20 * a1 - a3 + c1, a2 + c2) / 240


def magnus(group: AbstractLieGroup, xi: Float[Array, "Q k"]) -> Float[Array, "T d d"]:
    """The path of `g' = g ξ` from the identity, from ξ at `gauss_times(T)`: g at the end of each of the T steps."""
    steps = xi.shape[0] // 3
    increments = jax.vmap(lambda x: group.exp(_increment(group, x, 1 / steps)))(xi.reshape(steps, 3, -1))
    follow = lambda g, step: (group.compose(g, step),) * 2  # noqa: E731
    return jax.lax.scan(follow, group.identity().astype(xi.dtype), increments)[1]


@jit
def path(
    swimmer: AbstractSwimmer | AbstractConnection, stroke: Stroke, *, steps: int = 128
) -> Float[Array, "points d d"]:
    """The group elements g(t) at t = 0, 1/steps, … 1 along a stroke, from the identity.

    Error O(steps⁻⁶) for strokes that are smooth inside each of the equal steps. Raises ValueError unless steps ≥ 1.
    """

    def velocity(t):
        r, rdot = shape_and_rate(stroke, t)
        return -connection(swimmer, r) @ rdot

    elements = magnus(swimmer.group, jax.vmap(velocity)(gauss_times(steps)))
    return jnp.concatenate([swimmer.group.identity()[None], elements])


@jit
def holonomy(swimmer: AbstractSwimmer | AbstractConnection, stroke: Stroke, *, steps: int = 128) -> Float[Array, "d d"]:
    """The group element that one stroke adds, the last of `path`; `swimmer.group.log` gives its coordinates."""
    return path(swimmer, stroke, steps=steps)[-1]


@jit
def power(swimmer: AbstractSwimmer, stroke: Stroke, t: Number) -> Scalar:
    """The power `r'ᵀ G r'` dissipated at time t of a stroke of period 1."""
    r, rdot = shape_and_rate(stroke, t)
    return rdot @ reduction(swimmer, r)[1] @ rdot


@jit
def cost(swimmer: AbstractSwimmer, stroke: Stroke, *, steps: int = 128) -> Scalar:
    """The energy `E = ∫₀¹ r'ᵀ G r' dt` that one stroke of period 1 dissipates, by Gauss's rule of order 6."""
    return mean(jax.vmap(lambda t: power(swimmer, stroke, t))(gauss_times(steps)))
