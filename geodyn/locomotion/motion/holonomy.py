"""MOTION: where a stroke leads, and what it costs.

`g' = −g A(r) r'` is solved by the Magnus method of order 6 on three Gauss nodes a step, so that g never leaves the
group; the same nodes carry the integral of the power. Source: Blanes, Casas, Oteo & Ros, *Phys. Rep.* 470 (2009)
151, section 5.5; brackets change sign here, because the velocity multiplies g from the right.
"""

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._compile.jit import jit
from geodyn._typing import Array, ArrayLike, Float, Number, Scalar
from geodyn.geometry.groups.lie_group import AbstractLieGroup
from geodyn.locomotion.connections.connection import (
    AbstractConnection,
    AbstractInvariantMetric,
    check_swimmer,
    connection,
)
from geodyn.locomotion.motion import costs
from geodyn.locomotion.strokes.stroke import Stroke, breaks, shape_and_rate

NODES = 0.5 + np.sqrt(0.15) * np.array([-1.0, 0.0, 1.0])
WEIGHTS = np.array([5.0, 8.0, 5.0]) / 18


def step_ends(steps: int, breaks: Float[ArrayLike, " B"] | tuple = ()) -> Float[Array, " T"]:
    """The times 0 … 1 between `steps` equal steps, and the breaks of a stroke among them.

    Raises ValueError unless steps ≥ 1.
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}; 64 to 256 suit most strokes.")
    equal = jnp.asarray(np.arange(steps + 1) / steps, float)
    return jnp.sort(jnp.concatenate([equal, breaks])) if len(breaks) else equal


def gauss_times(steps: int, breaks: Float[ArrayLike, " B"] | tuple = ()) -> Float[Array, " Q"]:
    """The three Gauss nodes of each step between `step_ends`, in order. Raises ValueError unless steps ≥ 1."""
    ends = step_ends(steps, breaks)
    return (ends[:-1, None] + jnp.diff(ends)[:, None] * jnp.asarray(NODES, ends.dtype)[None]).ravel()


def mean(powers: Float[Array, " Q"], widths: Float[Array, " T"] | None = None) -> Scalar:
    """The integral over [0, 1] of values at `gauss_times`, of steps of these widths (None: equal ones)."""
    means = powers.reshape(-1, 3) @ jnp.asarray(WEIGHTS, powers.dtype)
    return jnp.mean(means) if widths is None else means @ widths


def increment(group: AbstractLieGroup, xi: Float[Array, "3 k"], h: Number) -> Float[Array, " k"]:
    """The exponential coordinates of one step of length h from the body velocities at its three nodes."""
    a1, a2, a3 = h * xi[1], np.sqrt(15) / 3 * h * (xi[2] - xi[0]), 10 / 3 * h * (xi[2] - 2 * xi[1] + xi[0])
    c1 = -group.bracket(a1, a2)
    c2 = group.bracket(a1, 2 * a3 + c1) / 60
    return a1 + a3 / 12 - group.bracket(-20 * a1 - a3 + c1, a2 + c2) / 240


def magnus(
    group: AbstractLieGroup, xi: Float[Array, "Q k"], widths: Float[Array, " T"] | None = None
) -> Float[Array, "T d d"]:
    """The path of `g' = g ξ` from the identity, from ξ at `gauss_times`: g at the end of each of the T steps.

    `widths` of the steps; None: equal ones.
    """
    steps = xi.shape[0] // 3
    widths = jnp.full(steps, 1 / steps, xi.dtype) if widths is None else widths
    increments = jax.vmap(lambda x, h: group.exp(increment(group, x, h)))(xi.reshape(steps, 3, -1), widths)

    def follow(g, step):
        return (group.compose(g, step),) * 2

    return jax.lax.scan(follow, group.identity().astype(xi.dtype), increments)[1]


@jit
def _path(swimmer, stroke, steps):
    corners = breaks(stroke)

    def velocity(t):
        r, rdot = shape_and_rate(stroke, t)
        return -connection(swimmer, r) @ rdot

    ends = step_ends(steps, corners)
    elements = magnus(swimmer.group, jax.vmap(velocity)(gauss_times(steps, corners)), jnp.diff(ends))
    elements = jnp.concatenate([swimmer.group.identity()[None], elements])
    return elements[jnp.searchsorted(ends, step_ends(steps))] if corners.size else elements


def path(swimmer: AbstractConnection, stroke: Stroke, *, steps: int = 128) -> Float[Array, "points d d"]:
    """The group elements g(t) at t = 0, 1/steps, … 1 along a stroke, from the identity.

    Error O(steps⁻⁶) for strokes that are smooth inside each of the equal steps, or say where they are not (`breaks`).
    Raises ValueError unless steps ≥ 1, and where the body cannot have a shape of the stroke.
    """
    check_swimmer(swimmer)
    return require_defined_along("path", swimmer, stroke, _path(swimmer, stroke, steps=steps))


def holonomy(swimmer: AbstractConnection, stroke: Stroke, *, steps: int = 128) -> Float[Array, "d d"]:
    """The group element that one stroke adds, the last of `path`; `swimmer.group.log` gives its coordinates."""
    check_swimmer(swimmer)
    return require_defined_along("holonomy", swimmer, stroke, _path(swimmer, stroke, steps=steps)[-1])


@jit
def power(swimmer: AbstractInvariantMetric, stroke: Stroke, t: Number) -> Scalar:
    """The power `r'ᵀ G r'` dissipated at time t of a stroke of period 1."""
    return costs.energy(swimmer, *shape_and_rate(stroke, t))


@jit
def _cost(swimmer, stroke, density, steps):
    corners = breaks(stroke)
    values = jax.vmap(lambda t: density(swimmer, *shape_and_rate(stroke, t)))(gauss_times(steps, corners))
    if jnp.ndim(values) != 1:
        raise ValueError(f"cost: density(swimmer, r, r') must give a number, got shape {jnp.shape(values)[1:]}.")
    return mean(values, jnp.diff(step_ends(steps, corners)))


def cost(
    swimmer: AbstractInvariantMetric, stroke: Stroke, *, density: costs.Density = costs.energy, steps: int = 128
) -> Scalar:
    """The integral of a density (swimmer, r, r') over one stroke of period 1, by Gauss's rule of order 6.

    By default the energy `E = ∫₀¹ r'ᵀ G r' dt`; `gd.costs` has others, and any function of this form is one.
    Raises ValueError where the body cannot have a shape of the stroke.
    """
    return require_defined_along("cost", swimmer, stroke, _cost(swimmer, stroke, density, steps=steps))


def require_defined_along(name, swimmer, stroke, value):
    """The value; ValueError that names the first shape at which the swimmer is not defined, if it is not a number."""
    if isinstance(value, jax.core.Tracer) or bool(jnp.all(jnp.isfinite(value))):
        return value
    times = gauss_times(128, breaks(stroke))
    shapes = jax.vmap(stroke)(times)
    bad = ~np.isfinite(jax.vmap(lambda r: connection(swimmer, r))(shapes)).all(axis=(1, 2))
    if not bad.any():
        raise ValueError(f"{name}: not a finite number; check the shapes and rates of the stroke, and the density.")
    raise ValueError(
        f"{name}: {type(swimmer).__name__} is singular at the shape {np.asarray(shapes[bad][0])}, t ="
        f" {float(times[bad][0]):.3g}: its docstring says which shapes it can have, and the stroke must keep to them."
    )
