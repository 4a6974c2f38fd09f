"""MOTION: strokes made from strokes: backwards, later, in part, one after the other, and at constant power."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._compile.jit import jit
from geodyn._typing import Array, Float, Number, Scalar
from geodyn.locomotion.connections.connection import AbstractInvariantMetric
from geodyn.locomotion.motion import costs
from geodyn.locomotion.motion.holonomy import NODES, WEIGHTS, gauss_times, require_defined_along, step_ends
from geodyn.locomotion.strokes.stroke import Stroke, breaks, check_closed, floating, shape_and_rate


class RetimedStroke(eqx.Module):
    """A stroke at another time: `r(t) = stroke(start + rate t)`, |rate| ≤ 1; modulo 1 if it goes `round`."""

    stroke: Stroke
    start: Number = eqx.field(converter=floating)
    rate: Number = eqx.field(converter=floating)
    round: bool = eqx.field(static=True, default=False)

    @property
    def breaks(self) -> Float[Array, " B"]:
        """The breaks of the stroke and the moment where it begins anew, those that come in [0, 1]."""
        times = (jnp.append(breaks(self.stroke), 0.0) - self.start) / self.rate
        return jnp.clip(jnp.mod(times, 1 / jnp.abs(self.rate)), 0.0, 1.0)

    def __call__(self, t: Number) -> Float[Array, " m"]:
        """The shape at time t."""
        time = self.start + self.rate * t
        return self.stroke(jnp.mod(time, 1.0) if self.round else time)


def reverse(stroke: Stroke) -> RetimedStroke:
    """The stroke backwards, from its end to its start: its holonomy is the inverse, its cost the same."""
    return RetimedStroke(stroke, 1.0, -1.0)


def shift(stroke: Stroke, phase: Number) -> RetimedStroke:
    """The closed stroke begun at the time `phase`: its cost is the same, its holonomy that seen from another frame.

    Raises ValueError if the stroke is not closed.
    """
    check_closed(stroke)
    return RetimedStroke(stroke, phase, 1.0, round=True)


def segment(stroke: Stroke, start: Number, end: Number) -> RetimedStroke:
    """The part of a stroke between two times, in the time 1. Raises ValueError unless 0 ≤ start < end ≤ 1."""
    if not isinstance(start - end, jax.core.Tracer) and not 0 <= start < end <= 1:
        raise ValueError(f"segment: want 0 ≤ start < end ≤ 1, got start {start}, end {end}.")
    return RetimedStroke(stroke, start, end - start)


class JoinedStroke(eqx.Module):
    """Strokes one after the other, each in the same share of the time."""

    strokes: tuple[Stroke, ...]

    @property
    def breaks(self) -> Float[Array, " B"]:
        """The moments of change, and the breaks of each stroke."""
        own = [(i + jnp.append(breaks(stroke), 0.0)) / len(self.strokes) for i, stroke in enumerate(self.strokes)]
        return jnp.concatenate(own)

    def __call__(self, t: Number) -> Float[Array, " m"]:
        """The shape at time t of [0, 1]."""
        place = len(self.strokes) * jnp.asarray(t)
        now = jnp.clip(jnp.floor(place), 0, len(self.strokes) - 1).astype(int)
        shapes = jnp.stack([stroke(jnp.where(now == i, place - i, 0.5)) for i, stroke in enumerate(self.strokes)])
        return shapes[now]


def join(*strokes: Stroke) -> JoinedStroke:
    """Strokes one after the other: the holonomy is the product, the cost n times the sum, each being n times as fast.

    Raises ValueError unless each starts where the one before it ends, to half the digits.
    """
    ends = [jax.vmap(stroke)(jnp.array([0.0, 1.0])) for stroke in strokes]
    for i, (before, after) in enumerate(itertools.pairwise(ends)):
        if before.shape != after.shape:
            raise ValueError(
                f"join: stroke {i} has {before.shape[1]} shape variables, stroke {i + 1} {after.shape[1]}."
            )
        apart = jnp.max(jnp.abs(before[1] - after[0]))
        size = 1 + jnp.max(jnp.abs(before[1]))
        if not isinstance(apart, jax.core.Tracer) and not apart <= jnp.sqrt(jnp.finfo(apart.dtype).eps) * size:
            raise ValueError(
                f"join: stroke {i} ends at the shape {np.asarray(before[1])}, but stroke {i + 1} starts at"
                f" {np.asarray(after[0])}."
            )
    return JoinedStroke(tuple(strokes))


class ArclengthStroke(eqx.Module):
    """A stroke run through at constant power; `by_arclength` makes it. `lengths[i]` is run through at `times[i]`."""

    swimmer: AbstractInvariantMetric
    stroke: Stroke
    times: Float[Array, " T"]
    lengths: Float[Array, " T"]

    @property
    def breaks(self) -> Float[Array, " B"]:
        """The breaks of the stroke, at their new times."""
        return jnp.interp(breaks(self.stroke), self.times, self.lengths / self.lengths[-1])

    def __call__(self, t: Number) -> Float[Array, " m"]:
        """The shape at time t of [0, 1]."""
        length = self.lengths[-1] * t
        i = jnp.clip(jnp.searchsorted(self.lengths, length, side="right") - 1, 0, self.times.shape[0] - 2)
        first, before = self.times[i], self.lengths[i]

        def newton(_, time):
            nodes = first + (time - first) * jnp.append(jnp.asarray(NODES, time.dtype), 1.0)
            speeds = jax.vmap(lambda s: _speed(self.swimmer, self.stroke, s))(nodes)
            passed = (time - first) * (speeds[:3] @ jnp.asarray(WEIGHTS, time.dtype))
            return time - (before + passed - length) / speeds[3]

        # From an error of h² the second step is at rounding, and so are the derivatives of the third.
        return self.stroke(jax.lax.fori_loop(0, 3, newton, jnp.interp(length, self.lengths, self.times)))


def _speed(swimmer, stroke, t) -> Scalar:
    return costs.length(swimmer, *shape_and_rate(stroke, t))


@jit
def _lengths(swimmer, stroke, steps):
    """The ends of the steps, the lengths up to them, and the least speed at them and at Gauss's nodes."""
    ends, times = step_ends(steps, breaks(stroke)), gauss_times(steps, breaks(stroke))
    speeds = jax.vmap(lambda t: _speed(swimmer, stroke, t))(jnp.concatenate([times, ends]))
    within = speeds[: times.shape[0]].reshape(-1, 3) @ jnp.asarray(WEIGHTS, speeds.dtype)
    passed = jnp.cumsum(jnp.diff(ends) * within)
    return ends, jnp.append(jnp.zeros(1, passed.dtype), passed), jnp.min(speeds)


def by_arclength(swimmer: AbstractInvariantMetric, stroke: Stroke, *, steps: int = 128) -> ArclengthStroke:
    """The same way at constant power, which costs least: its energy is its length squared.

    Lengths are those of the shape metric, `∫ √(r'ᵀ G r') dt`, to O(steps⁻⁶). Raises ValueError if the stroke stands
    still somewhere, or is slower there than the steps can tell from it: it has no direction there; and where the body
    cannot have a shape of the stroke.
    """
    times, lengths, slowest = _lengths(swimmer, stroke, steps=steps)
    require_defined_along("by_arclength", swimmer, stroke, lengths)
    # Nodes are less than half a step apart, so that near a halt one of them is slower than this.
    still = slowest <= 2 / steps * lengths[-1]
    if not isinstance(still, jax.core.Tracer) and still:
        raise ValueError(
            f"by_arclength: the stroke stands still somewhere, as far as {steps} steps tell (its least speed is "
            f"{float(slowest / lengths[-1]):.1e} of the mean); cut it there, gd.strokes.segment(stroke, start, end), "
            "or use more steps=."
        )
    return ArclengthStroke(swimmer, stroke, times, lengths)
