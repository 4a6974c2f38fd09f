"""Long paths: relaxed to a shortest one, in as many pieces as resolve it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from geodyn._typing import Array, Bool, Float, Int, Number, Scalar
from geodyn.geometry.geodesics.paths import Pieces, cut, ends, joints, piece, residual, tail, total
from geodyn.integrators.step.iteration import once

NODES = 32
ITERATIONS = 3000
ITERATIONS_IF_FAR = 100
PATIENCE = 20
RESOLVED = 64
COARSE = 1e-3
SAFETY = 0.1


def most_pieces(nodes: int) -> int:
    """How many pieces there are room for: a power of 2."""
    return 2 ** (-(-nodes // NODES) - 1).bit_length()


class Effort(NamedTuple):
    """The most nodes of a path, what a path that is not found is: NaN, or infinitely long, without derivatives; then it
    is not sought as long; and the relative error of its length that is good enough."""

    nodes: int
    far: bool = False
    tolerance: float = 0.0

    def enough(self, rounding: Number) -> Scalar:
        """The part of the energy that may be unresolved, at least `rounding`."""
        return jnp.maximum(rounding, SAFETY * self.tolerance)


class Path(NamedTuple):
    """A path of `pieces` pieces in arrays with room for more: velocities u[k, q, n], (E, p(0), p(1)), the part of the
    energy in its last modes, and whether it is a minimum to rounding."""

    u: Float[Array, "k q n"]
    pieces: Int[Array, ""]
    ends: tuple[Scalar, Float[Array, " n"], Float[Array, " n"]]
    tail: Scalar
    converged: Bool[Array, ""]

    @property
    def h(self) -> Float[Array, " k"]:
        """The lengths of the pieces, 0 for those that are none."""
        return lengths(self.u, self.pieces)

    def on_all_pieces(self) -> Float[Array, "k q n"]:
        """The same path, of as many pieces as there is room for."""

        def more(state):
            return state[1] < len(self.u)

        return jax.lax.while_loop(more, lambda state: (_halved(state[0]), 2 * state[1]), (self.u, self.pieces))[0]


def lengths(u, pieces):
    """1/pieces for the first of them, 0 for the others."""
    return jnp.where(jnp.arange(len(u)) < pieces, 1 / pieces, 0).astype(u.dtype)


def _halved(u):
    return cut(u, u.shape[1], 2)[: len(u)]


class _Relaxing(NamedTuple):
    """Velocities, the residual there, raised and lowered, how far the next step goes along it; the best path of so many
    pieces so far and its squared residual; steps since then, steps, the energy that none may exceed, and whether they
    are over."""

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
    """The shortest path to which the one of one piece, or the straight segment, relaxes: pieces are halved until they
    resolve it, up to so many nodes. Where that is not enough, or it is no minimum, u is NaN and the ends are as the
    `effort` says.

    It goes along the residual, by steps whose length follows from its change in the last one (Barzilai & Borwein, *IMA
    J. Numer. Anal.* 8 (1988) 141), shorter where the energy would exceed that of the start. Never to a path that is no
    minimum: no step of positive length is stable there. To rounding, or, on pieces that do not resolve it and can be
    halved, as far as they are worth it. All of it is one loop: one inside of the other compile half as long again.
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
        at = _evaluated(metric, x, h, trial, pieces)
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
        enough = (least == 0) | coarse & (least <= COARSE * best.tail * highest)
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

    end = jax.lax.while_loop(going, step, start).best
    found = end.converged & resolved(end)
    lost = (jnp.inf, 0, 0) if effort.far else (jnp.nan, jnp.nan, jnp.nan)
    known = tuple(jnp.where(found, a, b) for a, b in zip(end.ends, lost))
    return end._replace(u=jnp.where(found, end.u, jnp.nan), ends=known)


def _evaluated(metric, x, h, u, pieces) -> Pieces:
    """What the metric says about the pieces; zeros for those that are none."""
    starts, _ = joints(x, h, u)

    def one(k):
        return piece(metric, starts[k], h[k], u[k])

    nothing = jax.tree.map(lambda a: jnp.zeros((len(u), *a.shape), a.dtype), jax.eval_shape(one, 0))

    def put(k, known):  # By a mask: an index becomes a scatter under `vmap`, which no native function may hold.
        def here(a):
            return (jnp.arange(len(u)) == k).reshape(-1, *[1] * (a.ndim - 1))

        return jax.tree.map(lambda a, new: jnp.where(here(a), new, a), known, one(k))

    return jax.lax.fori_loop(0, pieces, put, nothing)
