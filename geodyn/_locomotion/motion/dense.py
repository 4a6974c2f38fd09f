"""MOTION: the pose of a body at any time of a stroke."""

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._engine.jit import as_pytree, jit
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Number, Scalar
from geodyn._locomotion.connections.locomotion import AbstractLocomotion
from geodyn._locomotion.motion.holonomy import NODES, gauss_times, magnus, require_defined_along, step_ends, true_along
from geodyn._locomotion.strokes.stroke import Stroke, breaks, floating, shape_and_rate


class DensePath(eqx.Module):
    """A function t ↦ g(t), the group element at any time, with g(0) = 1; the result of `gd.bundles.dense_path`.

    It takes one step of the same order from the last stored element before t, so that no accuracy is lost between the
    steps. Outside of [0, 1] a closed stroke is repeated, forwards and backwards: `g(t + 1) = g(1) g(t)`.
    """

    swimmer: AbstractLocomotion
    stroke: Stroke
    ends: Float[Array, " T"]
    elements: Float[Array, "T d d"]

    @checked
    def __call__(self, t: Number) -> Float[Array, "d d"]:
        """The group element at time t."""
        group, t = self.swimmer.group, floating(t, "t")
        periods = jnp.floor(t)
        time = t - periods
        last = jnp.clip(jnp.searchsorted(self.ends, time, side="right") - 1, 0, self.ends.shape[0] - 2)
        start, h = self.ends[last], time - self.ends[last]
        velocities = jax.vmap(lambda s: _velocity(self.swimmer, self.stroke, start + h * s))(
            jnp.asarray(NODES, h.dtype)
        )
        here = group.compose(self.elements[last], magnus(group, velocities, h[None])[0])
        return group.compose(group.exp(periods * group.log(self.elements[-1])), here)


def _velocity(swimmer: AbstractLocomotion, stroke: Stroke, t: Scalar) -> Float[Array, " k"]:
    r, rdot = shape_and_rate(stroke, t)
    return swimmer.velocity(r, rdot)


@checked
def dense_path(swimmer: AbstractLocomotion, stroke: Stroke, *, steps: Count = 128) -> DensePath:
    """The motion along a stroke as a function of time: `gd.path` at any time.

    The error is that of `gd.path`, O(steps⁻⁶): from the last known element it takes one step of the same order, so that
    a call costs three evaluations of the connection. Beyond [0, 1] a closed stroke is repeated, forwards and backwards:
    `g(t + 1) = g(1) g(t)`.

    Args:
        swimmer: body that moves by its shape.
        stroke: function t -> r[m], t from 0 to 1.
        steps: number of equal steps.

    Returns:
        A function t -> group element [d, d], the identity at t = 0; it can be compiled and differentiated.

    Raises:
        ValueError: unless steps ≥ 1, and for shapes that the body cannot have.

    Example:
        >>> swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(1.0)
        >>> g = gd.bundles.dense_path(swimmer, stroke)
        >>> print(bool(jnp.allclose(g(0.5), gd.path(swimmer, stroke)[64])), bool(jnp.allclose(g(1.3), g(1.0) @ g(0.3))))
        True True
    """
    ends, elements = _elements(swimmer, stroke, steps)
    elements = require_defined_along("dense_path", swimmer, stroke, elements)
    return DensePath(swimmer, as_pytree(stroke), ends, elements)


@jit
def _elements(
    swimmer: AbstractLocomotion, stroke: Stroke, steps: Count
) -> tuple[Float[Array, " T"], Float[Array, "T d d"]]:
    corners = breaks(stroke)
    ends = step_ends(steps, corners)
    times = gauss_times(steps, corners)
    velocities = true_along(swimmer, stroke, times) * jax.vmap(lambda t: _velocity(swimmer, stroke, t))(times)
    elements = magnus(swimmer.group, velocities, jnp.diff(ends))
    return ends, jnp.concatenate([swimmer.group.identity()[None], elements])
