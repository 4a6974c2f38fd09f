"""PURPOSE: the starting point of a search if no small stroke about the shape has the displacement: many random strokes,
moved to the displacement by gradient descent."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._control.methods.descent import Descent
from geodyn._control.methods.method import steps_of
from geodyn._control.problem.problem import StrokeProblem
from geodyn._control.search.guess import locked_factor, unknowns
from geodyn._engine.jit import for_few_runs
from geodyn._engine.numerics.roots import without_derivatives
from geodyn._foundations.typing import Array, Float, Scalar
from geodyn._locomotion.connections.connection import curvature, reduction
from geodyn._locomotion.connections.force_balance import metric_of
from geodyn._locomotion.motion.costs import Costly, Density
from geodyn._locomotion.strokes.stroke import FourierStroke, Stroke

STARTS = 32
LED_MISS = 0.3
"""The largest relative error of the displacement with which such a stroke is a start."""

_COARSE = Descent(harmonics=3, steps=8, tolerance=0.01, max_iterations=60)


def _random_loop(
    swimmer: Costly, centre: Float[Array, " m"], target: Float[Array, " k"], width: Scalar, key: Array
) -> FourierStroke:
    """A random loop of about the size that the curvature requires for the displacement, at most 1, about a random
    shape whose distance from `centre` is about `width` times this size."""
    swimmer = metric_of(swimmer)
    _, metric = reduction(swimmer, centre)
    frame = jnp.linalg.inv(jnp.linalg.cholesky(metric)).T  # orthonormal in the metric of shapes
    factor = locked_factor(swimmer, centre)
    field = jnp.tensordot(factor, curvature(swimmer, centre), 1)
    flux = jnp.einsum("ip,aij,jq->apq", frame, field, frame)
    area = jnp.linalg.norm(factor @ target) / jnp.linalg.norm(flux)
    unit = jnp.sqrt(jnp.minimum(area, 1 / jnp.max(frame**2))) * frame
    waves = jax.random.normal(key, (centre.size, 2 * _COARSE.harmonics + 1), centre.dtype)
    k = np.arange(1, _COARSE.harmonics + 1)
    of_cosine, of_sine = jnp.split(waves[:, 1:], 2, axis=1)
    return FourierStroke(
        mean=centre + width * unit @ waves[:, 0],
        cosine=unit @ of_cosine / k[None] ** 2,
        sine=unit @ of_sine / k[None] ** 2,
    )


class Led(eqx.Module):
    """A coarse stroke, its cost, its relative error of the displacement, and its least distance from the bounds."""

    stroke: Stroke
    cost: Scalar
    miss: Scalar
    room: Scalar


@for_few_runs
def led_stroke(
    swimmer: Costly,
    centre: Float[Array, " m"],
    target: Float[Array, " k"],
    base: Float[Array, " m"] | None,
    limits: tuple[Float[Array, " b"], Float[Array, " b"]],
    bounded: tuple[int, ...],
    density: Density,
    free: tuple[int, ...] = (),
) -> Led:
    """The best of many coarse strokes about a shape after gradient descent: the cheapest of those that reach the
    displacement within the bounds; if there is none, the one that reaches it and violates the bounds least; if none
    reaches it, the one with the smallest error."""
    swimmer, centre, target, base = without_derivatives((swimmer, centre, target, base))

    def one(width: Scalar, key: Array) -> Led:
        loop = _random_loop(swimmer, centre, target, width, key)
        start = loop if base is None else FourierStroke(loop.mean + base - loop(0.0), loop.cosine, loop.sine)
        x, energy = unknowns(swimmer, start, base, target, _COARSE, None, density)
        steps = steps_of(_COARSE, x)
        no_limits = (jnp.zeros(0), jnp.zeros(0))
        # The descent knows no bounds: those with them only say how far the stroke is from them.
        unbounded = StrokeProblem(swimmer, target, energy, base, no_limits, (), steps, None, density, None, free)
        walls = StrokeProblem(swimmer, target, energy, base, limits, bounded, steps, None, density, None, free)
        x = _COARSE.solve(unbounded, x, False).x
        cost, miss, gaps = walls(x)
        return Led(unbounded.stroke(x), energy * cost, jnp.linalg.norm(miss), jnp.min(gaps, initial=jnp.inf))

    led = jax.vmap(one)(jnp.linspace(0.0, 2.0, STARTS), jax.random.split(jax.random.key(0), STARTS))
    miss = jnp.where(jnp.isfinite(led.cost), led.miss, jnp.inf)
    there = miss < 0.1
    inside = there & (led.room > 0)
    outside = jnp.where(jnp.any(there), jnp.where(there, -led.room, jnp.inf), miss)
    best = jnp.argmin(jnp.where(jnp.any(inside), jnp.where(inside, led.cost, jnp.inf), outside))
    return jax.tree.map(lambda leaf: leaf[best], led)
