"""Relaxation of a path between two points to a shortest one, a geodesic, on as many pieces as resolve it."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.tracing import batched_as, once
from geodyn._foundations.typing import Array, Bool, Float, Int, Number, Scalar
from geodyn._geometry.geodesics.paths import (
    Ends,
    Metric,
    cut,
    defect,
    ends,
    energy_at,
    gauss,
    joints,
    on_pieces,
    piece,
    residual,
    tail,
    total,
)

# The nodes of a piece.
NODES = 12
# The largest number of steps.
ITERATIONS = 3000
ITERATIONS_IF_FAR = 100
# After so many steps without a smaller residual the path is as good as it gets; after the larger number it is given up.
PATIENCE = 20
HOPELESS = 300
# A path is resolved if the unresolved fraction of its energy is so many rounding errors, or this part of the tolerance.
RESOLVED = 64
SAFETY = 0.1
# On pieces that do not resolve the path its residual is small enough if its square is this part of what is unresolved.
COARSE = 1e-3
# A residual of so many rounding errors is as small as it can be.
ROUNDED = 2
# The square of a step is at most this part of that of the path, and the energy may rise by this part at the start.
REACH = 0.5
RISE = 0.1
# The bounds of the length of a step; 1 leads to the next iterate of fixed-point iteration.
SHORTEST = 0.25
LONGEST = 64.0
# The size of the perturbation of a guess.
BUMP = 1e-3
# A path with a larger `defect` misses the metric between its nodes.
COLLAPSED = 0.5
# In so many intervals the length of the straight segment is measured.
SAMPLES = 64


def most_pieces(nodes: int) -> int:
    """The largest number of pieces of a path with up to so many nodes: a power of 2."""
    pieces = -(-nodes // NODES)
    return 2 ** (pieces - 1).bit_length()


class Effort(NamedTuple):
    """The effort for finding a path: the largest number of `nodes`, and the relative error of its length that is good
    enough (`tolerance`). A path that is not found is NaN. With `far` it is infinitely long, with zero derivatives, and
    the search is given up after fewer iterations."""

    nodes: int
    far: bool = False
    tolerance: float = 0.0

    def enough(self, rounding: Number) -> Scalar:
        """The fraction of the energy that may be unresolved, at least `rounding`."""
        return jnp.maximum(rounding, SAFETY * self.tolerance)


class Path(NamedTuple):
    """A path of `pieces` pieces, in arrays with room for more: the velocities u, the `ends`, and the
    fraction of the energy that it does not resolve (`tail`): that in the last modes, or the square of the `defect` if
    that is more."""

    u: Float[Array, "k q n"]
    pieces: Int[Array, ""]
    ends: Ends
    tail: Scalar

    @property
    def on_all_pieces(self) -> Float[Array, "k q n"]:
        """The velocities of the same path, cut into as many pieces as there is room for."""

        def has_room(state: tuple[Float[Array, "k q n"], Int[Array, ""]]) -> Bool[Array, ""]:
            _, pieces = state
            return pieces < len(self.u)

        def halve(state: tuple[Float[Array, "k q n"], Int[Array, ""]]) -> tuple[Float[Array, "k q n"], Int[Array, ""]]:
            u, pieces = state
            return cut(u, 2)[: len(u)], 2 * pieces

        u, _ = jax.lax.while_loop(has_room, halve, (self.u, self.pieces))
        return u


def lengths(u: Float[Array, "k q n"], pieces: Int[Array, ""]) -> Float[Array, " k"]:
    """The lengths of the pieces of u: 1/pieces for the first `pieces` of them, 0 for the unused ones."""
    return jnp.where(jnp.arange(len(u)) < pieces, 1 / pieces, 0).astype(u.dtype)


class _Trial(NamedTuple):
    """A path, its residual `r`, and the products of this with itself (`square`) and with the residual before (`along`),
    in the metric and integrated over the path."""

    path: Path
    r: Float[Array, "k q n"]
    square: Scalar
    along: Scalar


class _Relaxing(NamedTuple):
    """The state of the relaxation: the velocities `u`, the residual `r` there and its `square`, and the length of the
    next step along it; the best path so far with this number of pieces and the square of its residual (`least`); the
    steps since then (`stalled`), whether these steps begin (`fresh`), and the number of all steps (`count`); the energy
    that none of them may exceed (`highest`); and whether these steps are over."""

    u: Float[Array, "k q n"]
    r: Float[Array, "k q n"]
    square: Scalar
    length: Scalar
    best: Path
    least: Scalar
    stalled: Int[Array, ""]
    fresh: Bool[Array, ""]
    count: Int[Array, ""]
    highest: Scalar
    over: Bool[Array, ""]


def relax(
    metric: Metric,
    x: Float[Array, " n"],
    y: Float[Array, " n"],
    u: Float[Array, "1 q n"],
    inverses: Float[Array, "2 n n"],
    effort: Effort,
) -> Path:
    """The shortest path to which the path u of one piece relaxes. The pieces are halved until they resolve the path, up
    to the number of nodes in `effort`. If these do not suffice, or the result is not a minimum, u is NaN and the ends
    are as `effort` says. `inverses` are g⁻¹ at both ends.

    The path descends along the residual, with a step length that follows from the change of the residual in the last
    step (Barzilai & Borwein, *IMA J. Numer. Anal.* 8 (1988) 141). The length is reduced if the energy would exceed that
    of the start, and no step is longer than a fraction of the path, since beyond that the metric is another one. The
    path never converges to one that is not a minimum, since no step of positive length is stable there. It descends
    until the residual is `ROUNDED` times the rounding error of the velocities, or as small as it gets in `PATIENCE`
    steps; on pieces that do not resolve the path and can still be halved, only as far as they are accurate. All of this
    is one loop, since two nested loops take half as long again to compile.

    The few nodes of long pieces may miss the metric between them. The energy that they see may then fall where that of
    the path rises, until the nodes lie where there is no metric to speak of. The speed at the ends tells this
    (`defect`): such a path is not halved, but the straight segment of the chart starts again on more pieces.
    """
    eps = jnp.finfo(x.dtype).eps
    room = most_pieces(effort.nodes)
    most = ITERATIONS_IF_FAR if effort.far else ITERATIONS

    def is_resolved(path: Path) -> Bool[Array, ""]:
        return path.tail <= effort.enough(RESOLVED * eps)

    def is_minimum(least: Scalar, highest: Scalar) -> Bool[Array, ""]:
        """Whether a path is a minimum to rounding."""
        return least <= highest * eps**1.25

    # The points are in the carry and change sign, since otherwise XLA would compute the segment before the loops.
    def refine(
        u: Float[Array, "k q n"], pieces: Int[Array, ""], tail: Scalar, x: Float[Array, " n"], y: Float[Array, " n"]
    ) -> tuple[Float[Array, "k q n"], Int[Array, ""], Scalar, Float[Array, " n"], Float[Array, " n"]]:
        """The same path on twice as many pieces, or the straight segment where it misses the metric."""
        halves = cut(u, 2)[:room]
        segment = polygon(metric, x, y, u, 2 * pieces)
        return jnp.where(tail < COLLAPSED**2, halves, segment), 2 * pieces, tail, -x, -y

    def evaluate(u: Float[Array, "k q n"], pieces: Int[Array, ""], before: Float[Array, "k q n"]) -> _Trial:
        """The path u as a `_Trial`, after a step along the residual `before`."""
        h = lengths(u, pieces)
        starts, _ = joints(x, h, u)
        at = on_pieces(lambda k: piece(metric, starts[k], h[k], u[k]), room, pieces)
        r, lowered = residual(x, y, h, u, at)
        found = ends(h, at)

        def product(v: Float[Array, "k q n"]) -> Scalar:
            return total(h, jnp.sum(v * lowered, axis=2))

        along = product(before)
        square = product(r)
        unresolved = jnp.maximum(tail(at), defect(inverses, found) ** 2)
        return _Trial(Path(u, pieces, found, unresolved), r, square, along)

    def step(s: _Relaxing) -> _Relaxing:
        refined: tuple[Array, ...] = once(s.over, refine, s.u, s.best.pieces, s.best.tail, x, y)
        u, pieces, *_ = refined
        # The first step with a number of pieces has the length 0: it evaluates the path where it is.
        fresh = s.over | s.fresh
        r = jnp.where(fresh, 0, s.r)
        before = jnp.where(fresh, 0, s.square)
        length = jnp.where(fresh, 0, s.length)
        least = jnp.where(fresh, jnp.inf, s.least)
        stalled = jnp.where(fresh, 0, s.stalled)

        trial = evaluate(u - length * r, pieces, r)
        energy = trial.path.ends.energy
        at_first = energy * (1 + 64 * eps) + jnp.minimum(LONGEST**2 * trial.square, RISE * energy)
        highest = jnp.where(fresh, at_first, s.highest)
        below = energy <= highest
        square = jnp.where(below, trial.square, jnp.inf)

        better = square < least
        best: Path = jax.tree.map(lambda new, old: jnp.where(better | fresh, new, old), trial.path, s.best)
        least = jnp.where(better, square, least)
        stalled = jnp.where(better, 0, stalled + 1)

        # Barzilai and Borwein's length, where the residual along the last step has become smaller.
        smaller_by = before - trial.along
        wanted = jnp.where(smaller_by > 0, length * before / smaller_by, 1.0)
        longest = jnp.sqrt(REACH * highest / jnp.where(square > 0, square, 1))
        next_length = jnp.minimum(jnp.clip(wanted, SHORTEST, LONGEST), longest)

        coarse = (pieces < room) & ~is_resolved(best)
        accurate = least <= highest * (ROUNDED * eps) ** 2
        accurate_for_coarse = coarse & (least <= COARSE * best.tail * highest)
        stuck = (stalled >= PATIENCE) & (is_minimum(least, highest) | coarse) | (stalled >= HOPELESS)
        over = accurate | accurate_for_coarse | stuck | (s.count + 1 >= most)
        # A step to a higher energy is taken back, and is tried again with a quarter of its length.
        return _Relaxing(
            u=jnp.where(over, best.u, jnp.where(below, trial.path.u, u)),
            r=jnp.where(below, trial.r, r),
            square=jnp.where(below, square, before),
            length=jnp.where(below, next_length, length / 4),
            best=best,
            least=least,
            stalled=stalled,
            fresh=jnp.zeros_like(over),
            count=s.count + 1,
            highest=highest,
            over=over,
        )

    def goes_on(s: _Relaxing) -> Bool[Array, ""]:
        can_be_refined = ~is_resolved(s.best) & (s.best.pieces < room)
        return (s.count < most) & (~s.over | can_be_refined)

    last = jax.lax.while_loop(goes_on, step, batched_as(u, _start(u, x, room)))
    found = is_minimum(last.least, last.highest) & is_resolved(last.best)
    lost = (jnp.inf, 0, 0) if effort.far else (jnp.nan, jnp.nan, jnp.nan)
    at_ends = Ends(*(jnp.where(found, known, unknown) for known, unknown in zip(last.best.ends, lost)))
    return last.best._replace(u=jnp.where(found, last.best.u, jnp.nan), ends=at_ends)


def _start(u: Float[Array, "1 q n"], x: Float[Array, " n"], room: int) -> _Relaxing:
    """The state before the first step, with one piece in arrays for `room` pieces."""
    zero = jnp.zeros((), x.dtype)
    none = jnp.zeros((), int)
    no = jnp.zeros((), bool)
    u = jnp.concatenate([u, jnp.zeros((room - 1, *u.shape[1:]), u.dtype)])
    return _Relaxing(
        u=u,
        r=0 * u,
        square=zero,
        length=zero,
        best=Path(u, none + 1, Ends(zero, x, x), zero),
        least=zero,
        stalled=none,
        fresh=~no,
        count=none,
        highest=zero,
        over=no,
    )


def straight(
    metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], u: Float[Array, "q n"]
) -> Float[Array, "q n"]:
    """The velocities, in an array like u, of the straight segment of the chart."""
    times = jnp.asarray(gauss(len(u)).nodes, x.dtype)
    return (y - x)[None, :] + bump(metric, x, y, times)


def bump(metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], t: Float[Array, " q"]) -> Float[Array, "q n"]:
    """A small perturbation of the velocities at the times t, in every direction: with it the descent leaves a geodesic
    that is not a minimum, where it would stand still."""
    d = y - x
    g = metric((x + y) / 2)
    # Of about the same length in every direction, with signs that differ.
    directions = jnp.cos(1 + jnp.arange(x.size, dtype=x.dtype))
    size = BUMP * jnp.sqrt(d @ g @ d / jnp.diag(g)) * directions
    return (1 - 2 * t)[:, None] * size[None, :]


def polygon(
    metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], u: Float[Array, "k q n"], pieces: Int[Array, ""]
) -> Float[Array, "k q n"]:
    """The velocities, in an array like u, of the straight segment of the chart, as so many pieces of the same length in
    the metric, each with a constant velocity."""
    count, nodes, _ = u.shape
    d = y - x
    at_joints = _joints_of_segment(metric, x, d, count, pieces)
    steps = pieces.astype(x.dtype) * (at_joints[1:] - at_joints[:-1])
    starts = jnp.arange(count, dtype=x.dtype)[:, None]
    times = (starts + jnp.asarray(gauss(nodes).nodes, x.dtype)[None]) / pieces.astype(x.dtype)
    return steps[:, None, None] * d[None, None] + bump(metric, x, y, times.reshape(-1)).reshape(u.shape)


def _joints_of_segment(
    metric: Metric, x: Float[Array, " n"], d: Float[Array, " n"], count: int, pieces: Int[Array, ""]
) -> Float[Array, " joints"]:
    """The parameters t of the joints of `pieces` pieces of the same length, into which the segment x + t d is cut, and
    1 for the unused ones of `count` pieces."""
    middles, widths = _intervals()
    t = jnp.asarray(middles, x.dtype)
    width = jnp.asarray(widths, x.dtype)
    parts = width * jax.vmap(lambda t: jnp.sqrt(2 * energy_at(metric, x + t * d, d)))(t)
    before = jnp.sum(jnp.where(np.tri(len(t), k=-1, dtype=bool), parts[None], 0), axis=1)
    wanted = jnp.sum(parts) * jnp.minimum(jnp.arange(count + 1, dtype=x.dtype) / pieces.astype(x.dtype), 1)
    # The fraction of every interval that lies before each joint: the length is linear within an interval.
    inside = jnp.clip((wanted[:, None] - before[None]) / parts[None], 0, 1)
    return jnp.sum(width[None] * inside, axis=1)


@functools.cache
def _intervals() -> tuple[Float[np.ndarray, " i"], Float[np.ndarray, " i"]]:
    """The middles and the widths of intervals from 0 to 1 that are short at both ends."""
    bounds = (1 - np.cos(np.linspace(0, np.pi, SAMPLES + 1))) / 2
    return (bounds[1:] + bounds[:-1]) / 2, np.diff(bounds)
