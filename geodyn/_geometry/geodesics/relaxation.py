"""Relaxation of a path between two points to a shortest one, a geodesic, on as many pieces as resolve it."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.tracing import batched_as, once
from geodyn._foundations.typing import Array, Float, Int, Number, Scalar
from geodyn._geometry.geodesics.paths import (
    Ends,
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

NODES = 12
ITERATIONS = 3000
ITERATIONS_IF_FAR = 100
PATIENCE = 20
HOPELESS = 300
RESOLVED = 64
COARSE = 1e-3
SAFETY = 0.1
ROUNDED = 2
REACH = 0.5
RISE = 0.1
SHORTEST, LONGEST = 0.25, 64.0
BUMP = 1e-3
COLLAPSED = 0.5
SAMPLES = 64


def most_pieces(nodes: int) -> int:
    """The largest number of pieces of a path with up to so many nodes: a power of 2."""
    return 2 ** (-(-nodes // NODES) - 1).bit_length()


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

        def more(state):
            return state[1] < len(self.u)

        def halved(state):
            u, pieces = state
            return cut(u, 2)[: len(u)], 2 * pieces

        return jax.lax.while_loop(more, halved, (self.u, self.pieces))[0]


def lengths(u, pieces):
    """The lengths of the pieces of u: 1/pieces for the first `pieces` of them, 0 for the unused ones."""
    return jnp.where(jnp.arange(len(u)) < pieces, 1 / pieces, 0).astype(u.dtype)


class _Relaxing(NamedTuple):
    """The state of the relaxation: the velocities `u`, the residual `r` there and its `square`, and the length of the
    next step along it; the best path so far with this number of pieces and the square of its residual (`least`); the
    steps since then (`stalled`), whether these steps begin (`fresh`), and the number of all steps (`count`); the energy
    that none of them may exceed (`highest`); and whether these steps are over."""

    u: Array
    r: Array
    square: Scalar
    length: Scalar
    best: Path
    least: Scalar
    stalled: Array
    fresh: Array
    count: Array
    highest: Scalar
    over: Array


def relaxed(metric, x, y, u, inverses, effort: Effort) -> Path:
    """The shortest path to which the path u of one piece relaxes. The pieces are halved until they resolve the path, up
    to the number of nodes in `effort`. If these do not suffice, or the result is not a minimum, u is NaN and the ends
    are as `effort` says. `inverses` are g⁻¹ at both ends [2, n, n].

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
    eps, room = jnp.finfo(x.dtype).eps, most_pieces(effort.nodes)
    most = ITERATIONS_IF_FAR if effort.far else ITERATIONS

    def resolved(path):
        return path.tail <= effort.enough(RESOLVED * eps)

    def converged(least, highest):
        """Whether a path is a minimum to rounding."""
        return least <= highest * eps**1.25

    # The points are in the carry and change sign, since otherwise XLA would compute the segment before the loops.
    def finer(u, pieces, tail, x, y):
        halves, segment = cut(u, 2)[:room], polygon(metric, x, y, u, 2 * pieces)
        return jnp.where(tail < COLLAPSED**2, halves, segment), 2 * pieces, tail, -x, -y

    def step(s):
        u, pieces, *_ = once(s.over, finer, s.u, s.best.pieces, s.best.tail, x, y)
        fresh = s.over | s.fresh
        known = (0, s.r), (0, s.square), (0, s.length), (jnp.inf, s.least), (0, s.stalled)
        r, before, length, least, stalled = (jnp.where(fresh, *pair) for pair in known)
        trial, h = u - length * r, lengths(u, pieces)
        starts, _ = joints(x, h, trial)
        at = on_pieces(lambda k: piece(metric, starts[k], h[k], trial[k]), room, pieces)
        (new, lowered), found = residual(x, y, h, trial, at), ends(h, at)

        def inner(v):
            return total(h, jnp.sum(v * lowered, axis=2))

        turned, square = before - inner(r), inner(new)
        higher = found[0] * (1 + 64 * eps) + jnp.minimum(LONGEST**2 * square, RISE * found[0])
        highest = jnp.where(fresh, higher, s.highest)
        below = found[0] <= highest
        square = jnp.where(below, square, jnp.inf)
        longer = jnp.clip(jnp.where(turned > 0, length * before / turned, 1.0), SHORTEST, LONGEST)
        longest = jnp.sqrt(REACH * highest / jnp.where(square > 0, square, 1))
        better = square < least

        def keep(new, old, where=below):
            return jnp.where(where, new, old)

        this = Path(trial, pieces, found, jnp.maximum(tail(at), defect(inverses, found) ** 2))
        best = jax.tree.map(lambda new, old: keep(new, old, better | fresh), this, s.best)
        least, stalled = keep(square, least, better), jnp.where(better, 0, stalled + 1)
        coarse = (pieces < room) & ~resolved(best)
        enough = (least <= highest * (ROUNDED * eps) ** 2) | coarse & (least <= COARSE * best.tail * highest)
        stuck = (stalled >= PATIENCE) & (converged(least, highest) | coarse) | (stalled >= HOPELESS)
        over = enough | stuck | (s.count + 1 >= most)
        u = jnp.where(over, best.u, keep(trial, u))
        length = keep(jnp.minimum(longer, longest), length / 4)
        step = keep(new, r), keep(square, before), length
        return _Relaxing(u, *step, best, least, stalled, jnp.zeros_like(over), s.count + 1, highest, over)

    zero, none, no = jnp.zeros((), x.dtype), jnp.zeros((), int), jnp.zeros((), bool)
    u = jnp.concatenate([u, jnp.zeros((room - 1, *u.shape[1:]), u.dtype)])
    path = Path(u, none + 1, Ends(zero, x, x), zero)
    start = _Relaxing(u, 0 * u, zero, zero, path, zero, none, ~no, none, zero, no)

    def going(s):
        return (s.count < most) & (~s.over | ~resolved(s.best) & (s.best.pieces < room))

    last = jax.lax.while_loop(going, step, batched_as(u, start))
    end, found = last.best, converged(last.least, last.highest) & resolved(last.best)
    lost = (jnp.inf, 0, 0) if effort.far else (jnp.nan, jnp.nan, jnp.nan)
    known = Ends(*(jnp.where(found, a, b) for a, b in zip(end.ends, lost)))
    return end._replace(u=jnp.where(found, end.u, jnp.nan), ends=known)


def straight(metric, x, y, u):
    """The velocities, in an array like u[q, n], of the straight segment of the chart."""
    return (y - x)[None, :] + bump(metric, x, y, jnp.asarray(gauss(len(u)).nodes, x.dtype))


def bump(metric, x, y, t):
    """A small perturbation [q, n] of the velocities at the times t[q], in every direction: with it the descent leaves a
    geodesic that is not a minimum, where it would stand still."""
    d, g = y - x, metric((x + y) / 2)
    size = BUMP * jnp.sqrt(d @ g @ d / jnp.diag(g)) * jnp.cos(1 + jnp.arange(x.size, dtype=x.dtype))
    return (1 - 2 * t)[:, None] * size[None, :]


def polygon(metric, x, y, u, pieces):
    """The velocities, in an array like u[k, q, n], of the straight segment of the chart, as so many pieces of the same
    length in the metric, each with a constant velocity."""
    (count, nodes, _), d = u.shape, y - x
    t, width = (jnp.asarray(a, x.dtype) for a in _samples())
    parts = width * jax.vmap(lambda t: jnp.sqrt(2 * energy_at(metric, x + t * d, d)))(t)
    before = jnp.sum(jnp.where(np.tri(len(t), k=-1, dtype=bool), parts[None], 0), axis=1)
    wanted = jnp.sum(parts) * jnp.minimum(jnp.arange(count + 1, dtype=x.dtype) / pieces.astype(x.dtype), 1)
    inside = jnp.clip((wanted[:, None] - before[None]) / parts[None], 0, 1)
    at = jnp.sum(width[None] * inside, axis=1)
    starts = jnp.arange(count, dtype=x.dtype)[:, None]
    times = (starts + jnp.asarray(gauss(nodes).nodes, x.dtype)[None]) / pieces.astype(x.dtype)
    steps = pieces.astype(x.dtype) * (at[1:] - at[:-1])
    return steps[:, None, None] * d[None, None] + bump(metric, x, y, times.reshape(-1)).reshape(u.shape)


@functools.cache
def _samples() -> tuple[np.ndarray, np.ndarray]:
    """The middles and the widths of intervals from 0 to 1 that are short at both ends."""
    ends = (1 - np.cos(np.linspace(0, np.pi, SAMPLES + 1))) / 2
    return (ends[1:] + ends[:-1]) / 2, np.diff(ends)
