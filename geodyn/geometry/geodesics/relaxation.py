"""Relaxation of a path between two points to a shortest one, a geodesic, on as many pieces as resolve it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from geodyn._compile.tracing import batched_as, once
from geodyn._typing import Array, Bool, Float, Int, Number, Scalar
from geodyn.geometry.geodesics.paths import cut, ends, joints, on_pieces, piece, residual, tail, total

NODES = 32
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
    the fraction of the energy in the last modes (`tail`), and whether it is a minimum to rounding (`converged`)."""

    u: Float[Array, "k q n"]
    pieces: Int[Array, ""]
    ends: tuple[Scalar, Float[Array, " n"], Float[Array, " n"]]
    tail: Scalar
    converged: Bool[Array, ""]

    @property
    def h(self) -> Float[Array, " k"]:
        """The lengths of the pieces, 0 for unused pieces."""
        return lengths(self.u, self.pieces)

    def on_all_pieces(self, u: Float[Array, "k q m"]) -> Float[Array, "k q m"]:
        """Velocities along this path, or other polynomials, cut into as many pieces as there is room for."""

        def more(state):
            return state[1] < len(u)

        return jax.lax.while_loop(more, lambda state: (_halved(state[0]), 2 * state[1]), (u, self.pieces))[0]


def lengths(u, pieces):
    """The lengths of the pieces of u: 1/pieces for the first `pieces` of them, 0 for the unused ones."""
    return jnp.where(jnp.arange(len(u)) < pieces, 1 / pieces, 0).astype(u.dtype)


def _halved(u):
    return cut(u, u.shape[1], 2)[: len(u)]


class _Relaxing(NamedTuple):
    """The state of the relaxation: the velocities `u`, the residual there with upper and with lower index (`r`,
    `lowered`), and the length of the next step along it; the best path so far with this number of pieces and its
    squared residual (`least`); the steps since then (`stalled`) and all steps with this number of pieces (`count`); the
    energy that none of them may exceed (`highest`); and whether these steps are over."""

    u: Array
    r: Array
    lowered: Array
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

    def step(s):
        (u,) = once(s.over, lambda u: (_halved(u),), s.u)
        pieces, count = jnp.where(s.over, 2, 1) * s.best.pieces, jnp.where(s.over, 0, s.count)
        r, length, least, stalled = (
            jnp.where(count == 0, a, b) for a, b in zip((0, 0, jnp.inf, 0), (s.r, s.length, s.least, s.stalled))
        )
        trial, h = u - length * r, lengths(u, pieces)
        starts, _ = joints(x, h, trial)
        at = on_pieces(lambda k: piece(metric, starts[k], h[k], trial[k]), room, pieces)
        (new, lowered), found = residual(x, y, h, trial, at), ends(h, at)
        highest = jnp.where(count == 0, found[0] * (1 + 64 * eps), s.highest)
        below = found[0] <= highest

        def inner(v, p):
            return total(h, jnp.sum(v * p, axis=2))

        moved, turned = length**2 * inner(r, s.lowered), length * inner(r, s.lowered - lowered)
        longer = jnp.clip(jnp.where(turned > 0, moved / turned, 1.0), 0.25, 64.0)
        size = jnp.where(below, inner(new, lowered), jnp.inf)
        better = size < least

        def keep(new, old, where=below):
            return jnp.where(where, new, old)

        this = Path(trial, pieces, found, tail(at), size <= highest * eps**1.25)
        best = jax.tree.map(lambda new, old: keep(new, old, better | (count == 0)), this, s.best)
        least, stalled = keep(size, least, better), jnp.where(better, 0, stalled + 1)
        coarse = (pieces < room) & ~resolved(best)
        enough = (least <= highest * (ROUNDED * eps) ** 2) | coarse & (least <= COARSE * best.tail * highest)
        stuck = (stalled >= PATIENCE) & (best.converged | coarse)
        over = enough | stuck | (count + 1 >= most)
        u = jnp.where(over, best.u, keep(trial, u))
        step = keep(new, r), keep(lowered, s.lowered), keep(longer, length / 4)
        return _Relaxing(u, *step, best, least, stalled, count + 1, highest, over)

    u = cut(jnp.where(jnp.all(jnp.isfinite(u)), u, jnp.broadcast_to(y - x, u.shape)), NODES, 1)
    u = jnp.concatenate([u, jnp.zeros((room - 1, *u.shape[1:]), u.dtype)])
    zero, none, no = jnp.zeros((), x.dtype), jnp.zeros((), int), jnp.zeros((), bool)
    start = _Relaxing(u, 0 * u, 0 * u, zero, Path(u, none + 1, (zero, x, x), zero, no), zero, none, none, zero, no)

    def going(s):
        return ~s.over | ~resolved(s.best) & (s.best.pieces < room)

    end = jax.lax.while_loop(going, step, batched_as(u, start)).best
    found = end.converged & resolved(end)
    lost = (jnp.inf, 0, 0) if effort.far else (jnp.nan, jnp.nan, jnp.nan)
    known = tuple(jnp.where(found, a, b) for a, b in zip(end.ends, lost))
    return end._replace(u=jnp.where(found, end.u, jnp.nan), ends=known)
