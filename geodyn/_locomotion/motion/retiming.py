"""MOTION: strokes made from other strokes: reversed, shifted, cut, joined, and reparametrised to constant power."""

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import jit
from geodyn._engine.numerics.failure import nan_unless
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Number, Scalar
from geodyn._locomotion.connections.connection import AbstractInvariantMetric
from geodyn._locomotion.motion import costs
from geodyn._locomotion.motion.holonomy import NODES, WEIGHTS, require_defined_along, step_ends
from geodyn._locomotion.strokes.stroke import (
    Stroke,
    breaks,
    check_closed,
    floating,
    shape_and_rate,
    shape_at,
    shapes_at,
)

ACCURATE = 1e-6
"""The largest relative error of the lengths of a stroke, and so about that of the power that shall be constant."""


class RetimedStroke(eqx.Module):
    """A stroke with another time: `r(t) = stroke(start + rate t)`, |rate| ≤ 1; where `round`, the stroke goes round and
    round, that is, its time start + rate t is taken modulo 1."""

    stroke: Stroke
    start: Number = eqx.field(converter=floating)
    rate: Number = eqx.field(converter=floating)
    round: bool = eqx.field(static=True, default=False)

    @property
    def breaks(self) -> Float[Array, " B"]:
        """The breaks of the stroke and the start of its period, in the new time; those outside of [0, 1] become 1."""
        times = (jnp.append(breaks(self.stroke), 0.0) - self.start) / self.rate
        return jnp.clip(jnp.mod(times, 1 / jnp.abs(self.rate)), 0.0, 1.0)

    @checked
    def __call__(self, t: Number) -> Float[Array, " m"]:
        """The shape at time t."""
        time: Scalar = self.start + self.rate * t
        return shape_at(self.stroke, jnp.mod(time, 1.0) if self.round else time)


@checked
def reverse(stroke: Stroke) -> RetimedStroke:
    """A stroke backwards, from its end to its start.

    Its holonomy is the inverse, its cost the same.

    Args:
        stroke: function t -> r[m], t from 0 to 1.

    Returns:
        The stroke `t -> stroke(1 − t)`.

    Example:
        >>> swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(1.0)
        >>> there, back = (gd.holonomy(swimmer, s) for s in (stroke, gd.strokes.reverse(stroke)))
        >>> print(bool(jnp.allclose(there @ back, jnp.eye(3))))
        True
    """
    return RetimedStroke(stroke, 1.0, -1.0)


@checked
def shift(stroke: Stroke, phase: Number) -> RetimedStroke:
    """A closed stroke that begins at another of its shapes, that of the time `phase`.

    Its cost is the same; its holonomy is the same motion seen from the frame of the body at that time,
    `g(phase)⁻¹ g(1) g(phase)`.

    Args:
        stroke: closed stroke, a function t -> r[m], t from 0 to 1.
        phase: time from 0 to 1.

    Returns:
        The stroke `t -> stroke(t + phase)`, with the time modulo 1.

    Raises:
        ValueError: if the stroke is not closed.

    Example:
        >>> stroke = gd.FourierStroke.circle(1.0)
        >>> later = gd.strokes.shift(stroke, 0.25)
        >>> print((later(0.0) - stroke(0.25)).round(6) + 0.0)
        [0. 0.]
    """
    check_closed(stroke)
    return RetimedStroke(stroke, phase, 1.0, round=True)


@checked
def segment(stroke: Stroke, start: Number, end: Number) -> RetimedStroke:
    """The part of a stroke between two times, run through in the time 1.

    Args:
        stroke: function t -> r[m], t from 0 to 1.
        start: time where it begins.
        end: time where it ends.

    Returns:
        The stroke `t -> stroke(start + (end − start) t)`.

    Raises:
        ValueError: unless 0 ≤ start < end ≤ 1.

    Example:
        >>> half = gd.strokes.segment(gd.FourierStroke.circle(1.0), 0.0, 0.5)
        >>> print(half(0.0).round(6) + 0.0, half(1.0).round(6) + 0.0)
        [1. 0.] [-1.  0.]
    """
    if not isinstance(start - end, Tracer) and not 0 <= start < end <= 1:
        raise ValueError(f"segment: want 0 ≤ start < end ≤ 1, got start {start}, end {end}.")
    return RetimedStroke(stroke, start, end - start)


class JoinedStroke(eqx.Module):
    """Several strokes one after the other, in equal parts of the period."""

    strokes: tuple[Stroke, ...]

    @property
    def breaks(self) -> Float[Array, " B"]:
        """The times at which the strokes begin, and their breaks."""
        of_each = [(i + jnp.append(breaks(stroke), 0.0)) / len(self.strokes) for i, stroke in enumerate(self.strokes)]
        return jnp.concatenate(of_each)

    @checked
    def __call__(self, t: Number) -> Float[Array, " m"]:
        """The shape at time t of [0, 1]."""
        place = len(self.strokes) * jnp.asarray(t)
        now = jnp.clip(jnp.floor(place), 0, len(self.strokes) - 1).astype(int)
        # All strokes are evaluated, those whose turn it is not in their middle, where they have shapes and derivatives.
        shapes = jnp.stack([stroke(jnp.where(now == i, place - i, 0.5)) for i, stroke in enumerate(self.strokes)])
        return shapes[now]


def _ends_of(i: int, stroke: Any) -> Float[Array, "2 m"]:
    """The first and the last shape of the i-th of several strokes."""
    try:
        return shapes_at(stroke, jnp.array([0.0, 1.0]))
    except ValueError as error:
        raise ValueError(f"strokes[{i}]: {error}") from None


@checked
def join(*strokes: Stroke) -> JoinedStroke:
    """Strokes one after the other, each in the same share of the time.

    The holonomy is the product of theirs. The energy is n times the sum of theirs, since each of the n strokes runs n
    times as fast.

    Args:
        strokes: strokes, functions t -> r[m], each of which starts where the one before it ends.

    Returns:
        The joined stroke.

    Raises:
        ValueError: unless each starts where the one before it ends, to half of the digits.

    Example:
        >>> swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(1.0)
        >>> twice = gd.strokes.join(stroke, stroke)
        >>> once = gd.holonomy(swimmer, stroke)
        >>> print(bool(jnp.allclose(gd.holonomy(swimmer, twice), once @ once)))
        True
        >>> print(f"{gd.cost(swimmer, twice) / gd.cost(swimmer, stroke):.6f}")
        4.000000
    """
    ends = [_ends_of(i, stroke) for i, stroke in enumerate(strokes)]
    for i, (before, after) in enumerate(itertools.pairwise(ends)):
        if before.shape != after.shape:
            raise ValueError(
                f"join: strokes[{i}] has {before.shape[1]} shape variables, strokes[{i + 1}] {after.shape[1]}."
            )
        apart = jnp.max(jnp.abs(before[1] - after[0]))
        size = 1 + jnp.max(jnp.abs(before[1]))
        if not isinstance(apart, Tracer) and not apart <= jnp.sqrt(jnp.finfo(apart.dtype).eps) * size:
            raise ValueError(
                f"join: stroke {i} ends at the shape {np.asarray(before[1])}, but stroke {i + 1} starts at"
                f" {np.asarray(after[0])}."
            )
    return JoinedStroke(tuple(strokes))


class ArclengthStroke(eqx.Module):
    """A stroke at constant power, from `by_arclength`. `lengths[i]` is the length of the given stroke up to the time
    `times[i]`."""

    swimmer: AbstractInvariantMetric
    stroke: Stroke
    times: Float[Array, " T"]
    lengths: Float[Array, " T"]

    @property
    def breaks(self) -> Float[Array, " B"]:
        """The breaks of the stroke, at their new times."""
        return jnp.interp(breaks(self.stroke), self.times, self.lengths / self.lengths[-1])

    @checked
    def __call__(self, t: Number) -> Float[Array, " m"]:
        """The shape at time t of [0, 1]."""
        length = self.lengths[-1] * t
        i = jnp.clip(jnp.searchsorted(self.lengths, length, side="right") - 1, 0, self.times.shape[0] - 2)
        start = self.times[i]
        length_before = self.lengths[i]

        def newton(_: Any, time: Scalar) -> Scalar:
            """A step to the time at which the stroke has the length; lengths since `start` are by Gauss's rule."""
            times = start + (time - start) * jnp.append(jnp.asarray(NODES, time.dtype), 1.0)
            speeds = jax.vmap(lambda s: _speed(self.swimmer, self.stroke, s))(times)
            passed = (time - start) * (speeds[:3] @ jnp.asarray(WEIGHTS, time.dtype))
            speed_now = speeds[3]
            return time - (length_before + passed - length) / speed_now

        # From an error of h² two Newton steps reach rounding, and the third also makes the derivatives exact.
        guess = jnp.interp(length, self.lengths, self.times)
        return self.stroke(jax.lax.fori_loop(0, 3, newton, guess))


def _speed(swimmer: Any, stroke: Stroke, t: Scalar) -> Scalar:
    """The speed of a stroke in the shape metric, `√(r'ᵀ G r')`."""
    r, rdot = shape_and_rate(stroke, t)
    return costs.length(swimmer, r, rdot)


class _Lengths(NamedTuple):
    """The times of the `ends` of steps, the `lengths` of the stroke up to them, the `slowest` speed there and at the
    nodes of Gauss's rule, and the `error` of the lengths: by how much they differ from those by steps of half the size,
    as a part of the whole length."""

    ends: Float[Array, " T"]
    lengths: Float[Array, " T"]
    slowest: Scalar
    error: Scalar


@jit
def _lengths(swimmer: costs.Costly, stroke: Stroke, steps: Count) -> _Lengths:
    def speeds_at(times: Float[Array, " Q"]) -> Float[Array, " Q"]:
        return jax.vmap(lambda t: _speed(swimmer, stroke, t))(times)

    def passed(ends: Float[Array, " T"]) -> tuple[Float[Array, " _"], Scalar]:
        """(the length of each step between these ends, the least speed at Gauss's nodes in them)."""
        durations = jnp.diff(ends)
        times = ends[:-1, None] + durations[:, None] * jnp.asarray(NODES, ends.dtype)[None]
        speeds = speeds_at(times.ravel())
        means = speeds.reshape(-1, 3) @ jnp.asarray(WEIGHTS, speeds.dtype)
        return durations * means, jnp.min(speeds)

    ends = step_ends(steps, breaks(stroke))
    middles = (ends[1:] + ends[:-1]) / 2
    halved = jnp.append(jnp.stack([ends[:-1], middles], axis=1).ravel(), ends[-1])
    by_steps, slowest_within = passed(ends)
    by_halves = jnp.sum(passed(halved)[0].reshape(-1, 2), axis=1)
    lengths = jnp.append(jnp.zeros(1, by_steps.dtype), jnp.cumsum(by_steps))
    error = jnp.sum(jnp.abs(by_steps - by_halves)) / lengths[-1]
    slowest = jnp.minimum(slowest_within, jnp.min(speeds_at(ends)))
    return _Lengths(ends, lengths, slowest, error)


@checked
def by_arclength(swimmer: AbstractInvariantMetric, stroke: Stroke, *, steps: Count = 128) -> ArclengthStroke:
    """The same way through shapes at constant power, which costs least: its energy is the square of its length.

    Lengths are those of the shape metric, `∫ √(r'ᵀ G r') dt`, to O(steps⁻⁶); their error is estimated by steps of half
    the size, and may be at most a millionth. Inside jit, what is refused outside of it is NaN.

    Args:
        swimmer: body with a metric of shapes.
        stroke: function t -> r[m], t from 0 to 1, that stands still nowhere.
        steps: number of equal steps in which lengths are computed.

    Returns:
        The stroke in its new time.

    Raises:
        ValueError: if the stroke stands still somewhere, or is slower there than the steps can tell from it; if it is
            so uneven that its lengths need more steps; and where the body cannot have a shape of the stroke.

    Example:
        >>> swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(1.0)
        >>> steady = gd.strokes.by_arclength(swimmer, stroke)
        >>> length = gd.cost(swimmer, stroke, density=gd.costs.length)
        >>> print(f"{gd.cost(swimmer, stroke):.6f} then {gd.cost(swimmer, steady):.6f} = {length**2:.6f}")
        7.453724 then 7.084398 = 7.084398
    """
    ends, lengths, slowest, error = _lengths(swimmer, stroke, steps=steps)
    require_defined_along("by_arclength", swimmer, stroke, lengths)
    # Nodes are less than half a step apart, so that if the stroke halts, the speed at one of them is below this bound.
    stands_still = slowest <= 2 / steps * lengths[-1]
    if not isinstance(stands_still, Tracer) and stands_still:
        raise ValueError(
            f"by_arclength: the stroke stands still somewhere, as far as {steps} steps tell (its least speed is "
            f"{float(slowest / lengths[-1]):.1e} of the mean); cut it there, gd.strokes.segment(stroke, start, end), "
            "or use more steps=."
        )
    accurate = error <= max(ACCURATE, 100 * float(jnp.finfo(error.dtype).eps))
    if not isinstance(accurate, Tracer) and not accurate:
        raise ValueError(
            f"by_arclength: the stroke is so uneven that its lengths by {steps} steps have an error of"
            f" {float(error):.1e}; use steps={4 * steps}, or give its corners as `breaks`, as the strokes of gd.strokes"
            " do."
        )
    return ArclengthStroke(swimmer, stroke, ends, nan_unless(~stands_still & accurate, lengths, (swimmer, stroke)))
