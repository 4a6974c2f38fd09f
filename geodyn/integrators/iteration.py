"""Roots by iteration, with an honest stop, and with a matrix where plain iteration does not contract."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from geodyn._linalg import inverse
from geodyn._scalars import on_arrays
from geodyn._typing import Array, Bool, Int

MOST_PLAIN = 40
MOST_WITH_MATRIX = 12
MOST_MATRICES = 5


class Progress(NamedTuple):
    """Where an iteration stands: iterate, size of its last three increments and of itself, count."""

    w: Array
    increment: Array
    previous: Array
    earlier: Array
    scale: Array
    count: Int[Array, ""]

    @property
    def converged(self) -> Bool[Array, ""]:
        """The error left, estimated from the contraction ρ as ρ/(1−ρ) of the last increment, is far below rounding,
        since unlike rounding it has the same sign from step to step (Hairer, McLachlan & Razakarivony 2008); or the
        increments have stopped shrinking at the level of rounding."""
        eps = jnp.finfo(self.w.dtype).eps
        rate = jnp.where(self.count > 1, self.increment / self.previous, jnp.nan)
        left = jnp.where(rate < 0.5, self.increment * rate / (1 - jnp.minimum(rate, 0.5)), jnp.inf)
        stagnant = self.slow & (self.increment <= 2**14 * eps * self.scale)
        return (self.increment <= 2 * eps * self.scale) | (left <= eps * self.scale / 128) | stagnant

    @property
    def slow(self) -> Bool[Array, ""]:
        """Contracting by less than a half in two iterations: an oscillation alternates between good and bad ones."""
        return (self.count > 2) & (self.increment > 0.5 * self.earlier)

    @property
    def hopeless(self) -> Bool[Array, ""]:
        """Not finite, or still slow after six iterations."""
        return (self.count >= 6) & self.slow | (self.count > 0) & ~jnp.isfinite(self.increment)

    @property
    def unsettled(self) -> Bool[Array, ""]:
        """Neither converged nor hopeless."""
        return ~self.converged & ~self.hopeless

    def after(self, w, change, floor, measured: int | None = None) -> "Progress":
        """One iteration further, at w; judged by the first `measured` columns."""
        increment, scale = (size(x[..., :measured]) for x in (change, w))
        return Progress(w, increment, self.increment, self.previous, floor + scale, self.count + 1)


def iterate(residual, w, precondition, floor, most, active, measured: int | None = None) -> Progress:
    """w ← w − precondition(residual(w)) until it converges, stops contracting, or `most` iterations are done; judged
    by the first `measured` columns, the velocities: multipliers have no scale of their own in every chart."""

    def proceed(state):
        return active & state.unsettled & (state.count < most)

    def improve(state):
        change = precondition(residual(state.w))
        return state.after(state.w - change, change, floor, measured)

    return jax.lax.while_loop(proceed, improve, fresh(w, floor))


def fresh(w, floor) -> Progress:
    """Before the first iteration."""
    huge = jnp.asarray(jnp.inf, w.dtype)
    return Progress(w, huge, huge, huge, floor, jnp.zeros((), int))


class Root(NamedTuple):
    """A root, whether it was reached, and the iterations and Jacobians that it took."""

    w: Array
    converged: Bool[Array, ""]
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]


class Search(NamedTuple):
    """Where `search` stands: iterating (probe = size of w), or evaluating the residual at w (probe = −1), then `length`
    off along every unit vector (probe = 0, 1, …), which gives the columns of the matrix."""

    w: Array
    converged: Bool[Array, ""]
    probe: Int[Array, ""]
    length: Array
    base: Array
    matrix: Array
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]


def search(residual, start, floor, active) -> Root:
    """A root near `start` of a residual near the identity, by plain iteration; where that does not contract, by
    simplified Newton with a Jacobian of difference quotients.

    All of it is one loop, with one evaluation of the residual in it: that is most of the program, and compiling it is
    most of the waiting. A Jacobian good to √eps loses nothing: the root is as exact as the residual. Not for a batch,
    of which every member would carry the matrix through every iteration.
    """
    count, index = start.size, jnp.arange(start.size)
    zero, flat = jnp.zeros((), int), start.reshape(-1)

    def may_learn(s):
        return (s.probe < count) | (s.jacobians < MOST_MATRICES)

    def proceed(s):
        return ~s.converged & may_learn(s) & jnp.all(jnp.isfinite(s.w))

    def run(s):
        """(w, converged, count, residual) after iterating; where probing, the residual at w."""
        iterating, turned = s.probe == count, s.jacobians > 0
        most = jnp.where(iterating, jnp.where(turned, MOST_WITH_MATRIX, MOST_PLAIN), 1)
        applied = lambda r: (jnp.where(iterating, s.matrix @ r.reshape(-1), 0).reshape(r.shape),)  # noqa: E731

        def improve(state):
            progress, _ = state
            r = residual(progress.w)
            change = once(turned | ~iterating, on_arrays(applied), r)[0]
            return progress.after(progress.w - change, change, floor), r

        more = lambda state: state[0].unsettled & (state[0].count < most)  # noqa: E731
        progress, r = jax.lax.while_loop(more, improve, (fresh(s.w, floor), s.w))
        return progress.w, iterating & progress.converged, progress.count, r

    def learn(w, r, probe, length, base, matrix, jacobians):
        """The next probe, or the matrix of all of them."""
        r, first = r.reshape(-1), probe == count
        restart = jnp.where(jacobians == 0, start, w)
        w = jnp.where(first, restart, w)
        length = jnp.where(first, jnp.finfo(w.dtype).eps ** 0.5 * (floor + size(w)), length)
        base = jnp.where(probe == -1, r, base)
        matrix = jnp.where(index == probe, ((r - base) / length)[:, None], matrix)
        last = probe == count - 1
        (matrix,) = once(last, lambda m: (inverse(m, largest_elimination=count),), matrix)
        step = jnp.where(index == probe + 1, length, 0) - jnp.where(index == probe, length, 0)
        w = w + jnp.where(first, 0, step).reshape(w.shape)
        return w, r.reshape(w.shape), jnp.where(first, -1, probe + 1), length, base, matrix, jacobians + last

    def advance(s):
        w, converged, turns, r = run(s)
        iterations = s.iterations + jnp.where(s.probe == count, turns, 0)
        learned = once(
            ~converged & may_learn(s), on_arrays(learn), w, r, s.probe, s.length, s.base, s.matrix, s.jacobians
        )
        w, _, probe, length, base, matrix, jacobians = learned
        return Search(w, converged, probe, length, base, matrix, iterations, jacobians)

    matrix = jnp.zeros((count, count), start.dtype)
    first = Search(start, ~active, zero + count, floor, jnp.zeros_like(flat), matrix, zero, zero)
    end = jax.lax.while_loop(proceed, advance, first)
    return Root(end.w, end.converged, end.iterations, end.jacobians)


class Columns(NamedTuple):
    """Where `by_matrix` stands: at `place` −1 it evaluates the residual at w, at 0 … N − 1 `length` off along each unit
    vector, which gives the columns of the matrix, and from N on it iterates with the inverse of that."""

    progress: Progress
    place: Int[Array, ""]
    base: Array
    matrix: Array
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]


def by_matrix(residual, start, floor, active) -> Root:
    """A root near `start` by simplified Newton with a Jacobian of difference quotients, formed again where it serves no
    longer; of linear ones too.

    One loop with one evaluation of the residual in it: that is most of the program, and compiling it most of the
    waiting. A Jacobian good to √eps loses nothing: the root is as exact as the residual.
    """
    count, zero = start.size, jnp.zeros((), int)
    index = jnp.arange(count)

    def going(s: Columns):
        trying = (s.jacobians < MOST_MATRICES) | (s.place < count) | s.progress.unsettled
        return active & ~(s.progress.converged & (s.place >= count)) & trying & jnp.isfinite(size(s.progress.w))

    def turn(s: Columns):
        w, probing = s.progress.w, s.place < count
        length = jnp.finfo(w.dtype).eps ** 0.5 * (floor + size(w))
        off = jnp.where(index == s.place, length, 0).reshape(w.shape)
        r = residual(w + off).reshape(-1)
        base = jnp.where(s.place < 0, r, s.base)
        matrix = jnp.where(index == s.place, ((r - base) / length)[:, None], s.matrix)
        last = s.place == count - 1
        (matrix,) = once(last, lambda m: (inverse(m, largest_elimination=count),), matrix)
        change = jnp.sum(matrix * r[None], axis=1).reshape(w.shape)
        after = s.progress.after(w - change, change, floor)
        progress = jax.tree.map(lambda a, b: jnp.where(probing, a, b), fresh(w, floor), after)
        tired = ~probing & ~progress.unsettled & ~progress.converged | (progress.count >= MOST_WITH_MATRIX)
        place = jnp.where(tired & (s.jacobians < MOST_MATRICES), -1, s.place + 1)
        return Columns(progress, place, base, matrix, s.iterations + ~probing, s.jacobians + last)

    begin = Columns(
        fresh(start, floor), zero - 1, 0 * start.reshape(-1), jnp.zeros((count, count), start.dtype), zero, zero
    )
    end = jax.lax.while_loop(going, turn, begin)
    return Root(end.progress.w, ~active | end.progress.converged, end.iterations, end.jacobians)


def size(w) -> Array:
    """The largest component."""
    return jnp.max(jnp.abs(w))


def once(wanted, function, *args):
    """`function(*args)` where `wanted`, else the args: a loop of at most one turn and no `cond`, both of whose branches
    a `vmap` would compute for every member."""
    turn = lambda state: (jnp.zeros_like(wanted), *function(*state[1:]))  # noqa: E731
    return jax.lax.while_loop(lambda state: state[0], turn, (wanted, *args))[1:]
