"""PURPOSE: many loops through one shape, with the displacement and the length of each: what a route is made of.

They are random ones, of which the best are kept, or the strokes of a map, each with the way to it and back.

Letters of the shapes: L loops, W ways round them, S steps and Q quadrature nodes along each, T points of its outline.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._engine.native import native_rows
from geodyn._foundations.typing import Array, ArrayLike, Bool, Float, Int, PyTree, Scalar
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._locomotion.connections.connection import AbstractConnection
from geodyn._locomotion.connections.force_balance import metric_of, name_of
from geodyn._locomotion.motion import costs
from geodyn._locomotion.motion.costs import Costly
from geodyn._locomotion.motion.holonomy import gauss_times, magnus
from geodyn._locomotion.strokes.stroke import FourierStroke, OpenStroke, Stroke, shape_and_rate

LOOPS = 2048
"""How many loops are tried."""

FEW_LOOPS = 256
"""How many loops are tried of a body without a connection, which is slow to ask."""

STEPS = 16
"""Steps along each of them."""

SAMPLES = 64
"""Shapes of the outline of each of them."""

DIRECTIONS = 32
"""Along how many random directions of the displacement, besides the axes, the best loops are kept."""

SIZES = 4
"""In how many groups, by their lengths, the best loops are sought."""

GENERATIONS = 12
"""How often the best of them are varied."""


class Loops(eqx.Module):
    """L loops through one shape `home`, and as many ways round them, W = 2 L: the way i + L is the loop i backwards.

    `outlines` are shapes along each loop, from `home` on, at even times; the first `aside` of them and the last lie on
    the way to a stroke and back. `poses` are those at the ends of the steps of each loop, from the identity, with the
    `shapes` there; `lengths` are their costs in units of a length, and `unit` is the largest displacement per length
    along each coordinate.
    """

    home: Float[Array, " m"]
    outlines: Float[Array, "L T m"]
    aside: int = eqx.field(static=True)
    poses: Float[Array, "W S d d"]
    shapes: Float[Array, "W S m"]
    lengths: Float[Array, " W"]
    unit: Float[Array, " k"]

    @property
    def displacements(self) -> Float[Array, "W d d"]:
        """The holonomy of each loop."""
        return self.poses[:, -1]

    def outline(self, loop: int) -> Float[np.ndarray, "T m"]:
        """The shapes along one of the ways, from `home` on."""
        count = len(self.outlines)
        outline = np.asarray(self.outlines[loop % count])
        return outline if loop < count else np.concatenate([outline[:1], outline[:0:-1]])

    def along(self, loops: tuple[int, ...]) -> Float[np.ndarray, "_ m"]:
        """The shapes along these ways, one after the other; between two times round the same stroke none goes home."""
        parts = []
        for place, loop in enumerate(loops):
            part = self.outline(loop)
            last = len(part)
            if place + 1 < len(loops) and loops[place + 1] == loop:
                last -= self.aside
            first = self.aside if place > 0 and loops[place - 1] == loop else 0
            parts.append(part[first:last])
        return np.concatenate(parts)


class Curves(NamedTuple):
    """Loops in the space of shapes: shapes and rates at the quadrature nodes, shapes at the ends of the steps, and
    along the outlines."""

    shapes: Float[Array, "L Q m"]
    rates: Float[Array, "L Q m"]
    ends: Float[Array, "L S m"]
    outlines: Float[Array, "L T m"]


def best_loops(
    swimmer: Costly,
    home: Float[Array, " m"],
    reach: tuple[Float[ArrayLike, " m"], Float[ArrayLike, " m"]],
    bounds: tuple[Float[ArrayLike, " m"], Float[ArrayLike, " m"]],
    seed: int,
) -> Loops:
    """Of many random loops through `home`, those that lead farthest for their length, along many directions.

    The loops span a part of the box `reach` of shapes, and keep within the bounds.
    """
    # A body without a connection is slow to ask: its loops are sought by the metric that is like it.
    metric = metric_of(swimmer)
    random = np.random.default_rng(seed)
    directions = _directions(swimmer.group.dim, random)
    lower, upper = np.asarray(reach)
    room = np.minimum(upper - np.asarray(home), np.asarray(home) - lower)
    count = LOOPS if metric is swimmer else FEW_LOOPS
    waves = _random_loops(count, room, random)
    tried, kept = _best_of(metric, home, waves, bounds, directions)
    for _ in range(GENERATIONS):
        waves = _vary(count, waves[:, kept], random)
        tried, kept = _best_of(metric, home, waves, bounds, directions)
    if metric is not swimmer:
        found = jit(_measure)(swimmer, home, *jnp.asarray(waves[:, kept]))
        return eqx.tree_at(lambda loops: loops.unit, found, jnp.asarray(_gains(swimmer, found, bounds)[1]))
    return _only(tried, kept)


def _best_of(
    swimmer: Costly,
    home: Float[Array, " m"],
    waves: np.ndarray,
    bounds: tuple[Float[ArrayLike, " m"], Float[ArrayLike, " m"]],
    directions: Float[np.ndarray, "D k"],
) -> tuple[Loops, np.ndarray]:
    """The loops of these coefficients [2, L, m, 2], of the cosines and the sines, and the indices of the best."""
    tried = jit(_measure)(swimmer, home, *jnp.asarray(waves))
    moves, unit, possible = _gains(swimmer, tried, bounds)
    kept = _kept(moves, np.asarray(tried.lengths), possible, directions)
    return eqx.tree_at(lambda loops: loops.unit, tried, jnp.asarray(unit)), np.unique(kept % waves.shape[1])


def _gains(
    swimmer: Costly, tried: Loops, bounds: tuple[Float[ArrayLike, " m"], Float[ArrayLike, " m"]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each loop the displacement in units of a length, [W, k]; the largest displacement per length along each
    coordinate [k]; whether the body can do the loop within the bounds [W]. ValueError if it can do none."""
    shapes = np.asarray(tried.shapes)
    lengths = np.asarray(tried.lengths)
    inside = np.all((shapes >= np.asarray(bounds[0])) & (shapes <= np.asarray(bounds[1])), axis=(1, 2))
    logs = np.asarray(jit(_logs)(swimmer.group, tried.displacements))
    possible = inside & np.isfinite(lengths) & (lengths > 0) & np.all(np.isfinite(logs), axis=1)
    if not np.any(possible):
        raise ValueError(
            f"plan: {name_of(swimmer)} can do none of {len(lengths) // 2} loops through the shape"
            f" {np.asarray(tried.home)}: pass base= or ends= with another shape, or wider bounds."
        )
    unit = np.max(np.abs(logs[possible]) / lengths[possible][:, None], axis=0)
    return logs / np.where(unit > 0, unit, 1.0), unit, possible


def _random_loops(count: int, room: Float[np.ndarray, " m"], random: np.random.Generator) -> np.ndarray:
    """Coefficients [2, L, m, 2] of loops, those of the cosines and of the sines, of the first and, smaller, of the
    second harmonic, of sizes between a tenth and all of the room."""
    sizes = np.exp(random.uniform(np.log(0.1), 0.0, size=(1, count, 1, 1)))
    waves = random.normal(size=(2, count, room.size, 2)) * np.array([1.0, 0.3])
    return sizes * room[:, None] * waves


def _vary(count: int, waves: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """So many loops: these, and others that differ from them by a random part of their size."""
    first = waves.shape[1]
    waves = waves[:, np.resize(np.arange(first), count)]
    size = np.sqrt(np.mean(waves**2, axis=(0, 2, 3), keepdims=True))
    amount = np.exp(random.uniform(np.log(0.02), np.log(0.5), size=(1, count, 1, 1)))
    amount[:, :first] = 0.0
    return waves + amount * size * random.normal(size=waves.shape)


def loops_of(
    swimmer: Costly,
    home: Float[Array, " m"],
    strokes: PyTree,
    bounds: tuple[Float[ArrayLike, " m"], Float[ArrayLike, " m"]],
) -> Loops:
    """The closed strokes, stacked in one pytree, each of them with the straight way to it from `home` and back."""
    found = jit(_measure_strokes)(swimmer, home, strokes)
    _, unit, possible = _gains(swimmer, found, bounds)
    found = eqx.tree_at(lambda loops: loops.unit, found, jnp.asarray(unit))
    return _only(found, np.unique(np.flatnonzero(possible) % len(found.outlines)))


def _only(loops: Loops, kept: Int[np.ndarray, " K"]) -> Loops:
    """Those of the loops with these indices, both ways round."""
    both = np.concatenate([kept, kept + len(loops.outlines)])
    return Loops(
        loops.home,
        loops.outlines[kept],
        loops.aside,
        loops.poses[both],
        loops.shapes[both],
        loops.lengths[both],
        loops.unit,
    )


def meeting_shape(strokes: PyTree) -> Float[Array, " m"]:
    """The shape on one of the closed strokes, stacked in one pytree, from which it is least far to all the others."""
    outlines = jax.vmap(lambda stroke: jax.vmap(stroke)(jnp.arange(SAMPLES) / SAMPLES))(strokes)
    middle = outlines[len(outlines) // 2]

    def far(shape: Float[Array, " m"]) -> Scalar:
        distances = jnp.sum((outlines - shape[None, None]) ** 2, axis=2)
        return jnp.sum(jnp.sqrt(jnp.min(distances, axis=1)))

    return middle[jnp.argmin(jax.vmap(far)(middle))]


def _measure(
    swimmer: Costly, home: Float[Array, " m"], cosine: Float[Array, "L m 2"], sine: Float[Array, "L m 2"]
) -> Loops:
    """The loops of these coefficients, all of them."""

    def curve(cosine: Float[Array, "m 2"], sine: Float[Array, "m 2"]) -> Curves:
        return _sampled(FourierStroke(home - jnp.sum(cosine, axis=1), cosine, sine))

    return _measured(swimmer, home, jax.vmap(curve)(cosine, sine), 0)


def _measure_strokes(swimmer: Costly, home: Float[Array, " m"], strokes: PyTree) -> Loops:
    """The strokes of a stack as loops through `home`."""

    def curve(stroke: Stroke) -> Curves:
        times = jnp.arange(SAMPLES) / SAMPLES
        distances = jnp.sum((jax.vmap(stroke)(times) - home[None]) ** 2, axis=1)
        begin = times[jnp.argmin(distances)]
        there = stroke(begin)
        straight = jnp.zeros((home.size, 1), home.dtype)
        parts = [
            _sampled(OpenStroke(home, there, straight)),
            _sampled(lambda t: stroke(begin + t)),
            _sampled(OpenStroke(there, home, straight)),
        ]
        whole = jax.tree.map(lambda *parts: jnp.concatenate(parts), *parts)
        # In the time 1 all three of them.
        return whole._replace(rates=3 * whole.rates)

    return _measured(swimmer, home, jax.vmap(curve)(strokes), SAMPLES)


def _sampled(stroke: Stroke) -> Curves:
    """One curve, without the axis of the loops."""
    shapes, rates = jax.vmap(lambda t: shape_and_rate(stroke, t))(gauss_times(STEPS))
    ends = jax.vmap(stroke)(jnp.arange(1, STEPS + 1) / STEPS)
    outline = jax.vmap(stroke)(jnp.arange(SAMPLES) / SAMPLES)
    return Curves(shapes, rates, ends, outline)


def _measured(swimmer: Costly, home: Float[Array, " m"], curves: Curves, aside: int) -> Loops:
    """Loops both ways round."""
    poses, lengths = _along(swimmer, curves.shapes, curves.rates)
    back_ends = jax.vmap(lambda ends: jnp.concatenate([ends[-2::-1], home[None]]))(curves.ends)
    if isinstance(swimmer, AbstractConnection):
        back_poses = _reverse(swimmer.group, poses)
    else:  # Such a body need not go back the way that it came, as a snake on its scales does not.
        back_poses, _ = _along(swimmer, curves.shapes[:, ::-1], -curves.rates[:, ::-1])
    return Loops(
        home,
        curves.outlines,
        aside,
        jnp.concatenate([poses, back_poses]),
        jnp.concatenate([curves.ends, back_ends]),
        jnp.tile(lengths, 2),
        jnp.zeros(swimmer.group.dim),
    )


def _along(
    swimmer: Costly, shapes: Float[Array, "L Q m"], rates: Float[Array, "L Q m"]
) -> tuple[Float[Array, "L S d d"], Float[Array, " L"]]:
    """The poses at the ends of the steps of each loop, and the lengths of the loops."""
    # A body without a connection has no length of its own, but one that is like it.
    metric = metric_of(swimmer)

    def measures(r: Float[Array, " m"], rdot: Float[Array, " m"]) -> tuple[Float[Array, " k"], Scalar]:
        return swimmer.velocity(r, rdot), costs.energy(metric, r, rdot)

    loops, nodes, m = shapes.shape
    velocities, powers = native_rows(measures, shapes.reshape(-1, m), rates.reshape(-1, m))
    poses = jax.vmap(lambda xi: magnus(swimmer.group, xi))(velocities.reshape(loops, nodes, -1))
    lengths = jnp.mean(jnp.sqrt(jnp.abs(powers)).reshape(loops, -1), axis=1)
    return poses, lengths


def _reverse(group: AbstractLieGroup, poses: Float[Array, "L S d d"]) -> Float[Array, "L S d d"]:
    """Poses of the loops run through backwards: they begin where the others end."""

    def of_loop(poses: Float[Array, "S d d"]) -> Float[Array, "S d d"]:
        back = group.inverse(poses[-1])
        earlier = jnp.concatenate([poses[-2::-1], group.identity().astype(poses.dtype)[None]])
        return jax.vmap(lambda g: group.compose(back, g))(earlier)

    return jax.vmap(of_loop)(poses)


def _logs(group: AbstractLieGroup, elements: Float[Array, "W d d"]) -> Float[Array, "W k"]:
    return jax.vmap(group.log)(elements)


def _directions(k: int, random: np.random.Generator) -> Float[np.ndarray, "D k"]:
    """The axes and random directions, of length 1."""
    directions = np.concatenate([np.eye(k), random.normal(size=(DIRECTIONS, k))])
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


def _kept(
    moves: Float[np.ndarray, "W k"],
    lengths: Float[np.ndarray, " W"],
    possible: Bool[np.ndarray, " W"],
    directions: Float[np.ndarray, "D k"],
) -> np.ndarray:
    """The indices of the loops that lead farthest along some direction, for their length and with little to the side,
    in each group of lengths; `moves` are the displacements in units of a length."""
    edges = np.quantile(lengths[possible], np.arange(1, SIZES) / SIZES)
    groups = np.digitize(lengths, edges)
    ahead = moves @ directions.T
    aside = np.sqrt(np.maximum(np.sum(moves**2, axis=1, keepdims=True) - ahead**2, 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        merit = (ahead - aside / 2) / lengths[:, None]
    best = []
    for group in range(SIZES):
        inside = possible & (groups == group)
        best.append(np.argmax(np.where(inside[:, None], merit, -np.inf), axis=0))
    return np.concatenate(best)
