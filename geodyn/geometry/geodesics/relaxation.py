"""Relaxation of a path between two points to a shortest one, a geodesic, on as many pieces as resolve it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from geodyn._compile.tracing import batched_as, once
from geodyn._typing import Array, Float, Int, Number, Scalar
from geodyn.geometry.geodesics.paths import cut, ends, joints, on_pieces, piece, residual, tail, total

NODES = 12
ITERATIONS = 3000
ITERATIONS_IF_FAR = 100
PATIENCE = 20
RESOLVED = 64
COARSE = 1e-3
SAFETY = 0.1
ROUNDED = 2


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
    """A path of `pieces` pieces, in arrays with room for more: the velocities u[k, q, n], the `ends` (E, p(0), p(1)),
    and the fraction of the energy in the last modes (`tail`)."""

    u: Float[Array, "k q n"]
    pieces: Int[Array, ""]
    ends: tuple[Scalar, Float[Array, " n"], Float[Array, " n"]]
    tail: Scalar

    @property
    def on_all_pieces(self) -> Float[Array, "k q n"]:
        """The velocities of the same path, cut into as many pieces as there is room for."""

        def more(state):
            return state[1] < len(self.u)

        return jax.lax.while_loop(more, lambda state: (_halved(state[0]), 2 * state[1]), (self.u, self.pieces))[0]


def lengths(u, pieces):
    """The lengths of the pieces of u: 1/pieces for the first `pieces` of them, 0 for the unused ones."""
    return jnp.where(jnp.arange(len(u)) < pieces, 1 / pieces, 0).astype(u.dtype)


def _halved(u):
    return cut(u, 2)[: len(u)]


class _Relaxing(NamedTuple):
    """The state of the relaxation: the velocities `u`, the residual `r` there and its `square`, and the length of the
    next step along it; the best path so far with this number of pieces and the square of its residual (`least`); the
    steps since then (`stalled`) and all steps with this number of pieces (`count`); the energy that none of them may
    exceed (`highest`); and whether these steps are over."""

    u: Array
    r: Array
    square: Scalar
    length: Scalar
    best: Path
    least: Scalar
    stalled: Array
    count: Array
    highest: Scalar
    over: Array


def relaxed(metric, x, y, u, effort: Effort) -> Path:
    """The shortest path to which the path u of one piece relaxes, or the straight segment if u is not finite. The
    pieces are halved until they resolve the path, up to the number of nodes in `effort`. If these do not suffice, or
    the result is not a minimum, u is NaN and the ends are as `effort` says.

    The path descends along the residual, with a step length that follows from the change of the residual in the last
    step (Barzilai & Borwein, *IMA J. Numer. Anal.* 8 (1988) 141) and is reduced if the energy would exceed that of the
    start. It never converges to a path that is not a minimum, since no step of positive length is stable there. It
    descends until the residual is `ROUNDED` times the rounding error of the velocities, or as small as it gets in
    `PATIENCE` steps; on pieces that do not resolve the path and can still be halved, only as far as they are
    accurate. All of this is one loop, since two nested loops take half as long again to compile.
    """
    eps, room = jnp.finfo(x.dtype).eps, most_pieces(effort.nodes)
    most = ITERATIONS_IF_FAR if effort.far else ITERATIONS

    def resolved(path):
        return path.tail <= effort.enough(RESOLVED * eps)

    def converged(least, highest):
        """Whether a path is a minimum to rounding."""
        return least <= highest * eps**1.25

    def step(s):
        (u,) = once(s.over, lambda u: (_halved(u),), s.u)
        pieces, count = jnp.where(s.over, 2, 1) * s.best.pieces, jnp.where(s.over, 0, s.count)
        known = (0, s.r), (0, s.square), (0, s.length), (jnp.inf, s.least), (0, s.stalled)
        r, before, length, least, stalled = (jnp.where(count == 0, *pair) for pair in known)
        trial, h = u - length * r, lengths(u, pieces)
        starts, _ = joints(x, h, trial)
        at = on_pieces(lambda k: piece(metric, starts[k], h[k], trial[k]), room, pieces)
        (new, lowered), found = residual(x, y, h, trial, at), ends(h, at)
        highest = jnp.where(count == 0, found[0] * (1 + 64 * eps), s.highest)
        below = found[0] <= highest

        def inner(v):
            return total(h, jnp.sum(v * lowered, axis=2))

        turned, square = before - inner(r), jnp.where(below, inner(new), jnp.inf)
        longer = jnp.clip(jnp.where(turned > 0, length * before / turned, 1.0), 0.25, 64.0)
        better = square < least

        def keep(new, old, where=below):
            return jnp.where(where, new, old)

        this = Path(trial, pieces, found, tail(at))
        best = jax.tree.map(lambda new, old: keep(new, old, better | (count == 0)), this, s.best)
        least, stalled = keep(square, least, better), jnp.where(better, 0, stalled + 1)
        coarse = (pieces < room) & ~resolved(best)
        enough = (least <= highest * (ROUNDED * eps) ** 2) | coarse & (least <= COARSE * best.tail * highest)
        stuck = (stalled >= PATIENCE) & (converged(least, highest) | coarse)
        over = enough | stuck | (count + 1 >= most)
        u = jnp.where(over, best.u, keep(trial, u))
        step = keep(new, r), keep(square, s.square), keep(longer, length / 4)
        return _Relaxing(u, *step, best, least, stalled, count + 1, highest, over)

    u = jnp.where(jnp.all(jnp.isfinite(u)), u, jnp.broadcast_to(y - x, u.shape))
    u = jnp.concatenate([u, jnp.zeros((room - 1, *u.shape[1:]), u.dtype)])
    zero, none, no = jnp.zeros((), x.dtype), jnp.zeros((), int), jnp.zeros((), bool)
    start = _Relaxing(u, 0 * u, zero, zero, Path(u, none + 1, (zero, x, x), zero), zero, none, none, zero, no)

    def going(s):
        return ~s.over | ~resolved(s.best) & (s.best.pieces < room)

    last = jax.lax.while_loop(going, step, batched_as(u, start))
    end, found = last.best, converged(last.least, last.highest) & resolved(last.best)
    lost = (jnp.inf, 0, 0) if effort.far else (jnp.nan, jnp.nan, jnp.nan)
    known = tuple(jnp.where(found, a, b) for a, b in zip(end.ends, lost))
    return end._replace(u=jnp.where(found, end.u, jnp.nan), ends=known)
