"""PURPOSE: many loops through one shape, with the displacement and the length of each: what a route is made of."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._engine.native import native_rows
from geodyn._foundations.typing import Array, ArrayLike, Bool, Float, Scalar
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._locomotion.connections.connection import AbstractConnection
from geodyn._locomotion.connections.force_balance import metric_of, name_of
from geodyn._locomotion.motion import costs
from geodyn._locomotion.motion.costs import Costly
from geodyn._locomotion.motion.holonomy import gauss_times, magnus
from geodyn._locomotion.strokes.stroke import FourierStroke, shape_and_rate

LOOPS = 2048
"""How many loops are tried."""

FEW_LOOPS = 256
"""How many loops are tried of a body without a connection, which is slow to ask."""

STEPS = 16
"""Steps along each of them."""

DIRECTIONS = 32
"""Along how many random directions of the displacement, besides the axes, the best loops are kept."""

SIZES = 4
"""In how many groups, by their lengths, the best loops are sought."""

GENERATIONS = 12
"""How often the best of them are varied."""


class Loops(eqx.Module):
    """L loops through one shape `home`, and as many ways round them, W = 2 L: the way i + L is the loop i backwards.

    `poses` are those at the ends of the steps of each loop, from the identity, with the `shapes` there; `lengths` are
    their costs in units of a length, and `unit` is the largest displacement per length along each coordinate.
    """

    home: Float[Array, " m"]
    cosine: Float[Array, "L m 2"]
    sine: Float[Array, "L m 2"]
    poses: Float[Array, "W S d d"]
    shapes: Float[Array, "W S m"]
    lengths: Float[Array, " W"]
    unit: Float[Array, " k"]

    @property
    def displacements(self) -> Float[Array, "W d d"]:
        """The holonomy of each loop."""
        return self.poses[:, -1]

    def shape(self, loop: int, t: np.ndarray) -> np.ndarray:
        """The shapes [T, m] of one of the loops at times t [T] from 0 to 1."""
        count = self.cosine.shape[0]
        backwards = loop >= count
        angles = 2 * np.pi * np.outer(np.arange(1, 3), 1 - t if backwards else t)
        cosine = np.asarray(self.cosine[loop % count])
        sine = np.asarray(self.sine[loop % count])
        return np.asarray(self.home) + (cosine @ (np.cos(angles) - 1) + sine @ np.sin(angles)).T


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
    both = np.concatenate([kept, kept + count])
    return Loops(
        home,
        tried.cosine[kept],
        tried.sine[kept],
        tried.poses[both],
        tried.shapes[both],
        tried.lengths[both],
        tried.unit,
    )


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


def _measure(
    swimmer: Costly,
    home: Float[Array, " m"],
    cosine: Float[Array, "L m 2"],
    sine: Float[Array, "L m 2"],
) -> Loops:
    """The loops of these coefficients, all of them."""
    poses, shapes, lengths = _along(swimmer, home, cosine, sine)
    if isinstance(swimmer, AbstractConnection):
        back_poses, back_shapes = _reverse(swimmer.group, poses, shapes, home)
    else:  # Such a body need not go back the way that it came, as a snake on its scales does not.
        back_poses, back_shapes, _ = _along(swimmer, home, cosine, -sine)
    return Loops(
        home,
        cosine,
        sine,
        jnp.concatenate([poses, back_poses]),
        jnp.concatenate([shapes, back_shapes]),
        jnp.tile(lengths, 2),
        jnp.zeros(swimmer.group.dim),
    )


def _along(
    swimmer: Costly, home: Float[Array, " m"], cosine: Float[Array, "L m 2"], sine: Float[Array, "L m 2"]
) -> tuple[Float[Array, "L S d d"], Float[Array, "L S m"], Float[Array, " L"]]:
    """The poses and the shapes at the ends of the steps of each loop, and the lengths of the loops."""
    times = gauss_times(STEPS)
    ends = jnp.arange(1, STEPS + 1) / STEPS
    # A body without a connection has no length of its own, but one that is like it.
    metric = metric_of(swimmer)

    def measures(r: Float[Array, " m"], rdot: Float[Array, " m"]) -> tuple[Float[Array, " k"], Scalar]:
        return swimmer.velocity(r, rdot), costs.energy(metric, r, rdot)

    def of_loop(cosine: Float[Array, "m 2"], sine: Float[Array, "m 2"]):
        stroke = FourierStroke(home - jnp.sum(cosine, axis=1), cosine, sine)
        shapes, rates = jax.vmap(lambda t: shape_and_rate(stroke, t))(times)
        return shapes, rates, jax.vmap(stroke)(ends)

    shapes, rates, at_ends = jax.vmap(of_loop)(cosine, sine)
    flat = (x.reshape(-1, home.size) for x in (shapes, rates))
    velocities, powers = native_rows(measures, *flat)
    loops = cosine.shape[0]
    poses = jax.vmap(lambda xi: magnus(swimmer.group, xi))(velocities.reshape(loops, times.size, -1))
    lengths = jnp.mean(jnp.sqrt(jnp.abs(powers)).reshape(loops, -1), axis=1)
    return poses, at_ends, lengths


def _reverse(
    group: AbstractLieGroup, poses: Float[Array, "L S d d"], shapes: Float[Array, "L S m"], home: Float[Array, " m"]
) -> tuple[Float[Array, "L S d d"], Float[Array, "L S m"]]:
    """Poses and shapes of the loops run through backwards: they begin where the others end."""

    def of_loop(poses: Float[Array, "S d d"], shapes: Float[Array, "S m"]):
        back = group.inverse(poses[-1])
        earlier = jnp.concatenate([group.identity().astype(poses.dtype)[None], poses[:-1]])[::-1]
        before = jnp.concatenate([home[None], shapes[:-1]])[::-1]
        return jax.vmap(lambda g: group.compose(back, g))(earlier), before

    return jax.vmap(of_loop)(poses, shapes)


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
