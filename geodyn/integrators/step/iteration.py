"""Fixed-point iteration and simplified Newton's method, converged to rounding error.

optimistix stops at a given tolerance. Here an iteration stops at the rounding error of the unknowns, and whether it got
there becomes the status of the time step.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from geodyn._compile.tracing import batched_as, once
from geodyn._numerics.linalg import inverse
from geodyn._typing import Array, Bool, Int

MOST_PLAIN = 40
MOST_WITH_MATRIX = 12
MOST_MATRICES = 5


class Progress(NamedTuple):
    """The state of an iteration: the iterate `w`, and the values `others` derived from it; the norms of the last
    `increment`, of the `previous` one and of the iterate (`scale`); the number of iterations; which members of a batch
    still iterate (`going`), and which have converged."""

    w: Array
    others: list
    increment: Array
    previous: Array
    scale: Array
    count: Int[Array, "*B"]
    going: Bool[Array, "*B"]
    converged: Bool[Array, "*B"]


def size(w) -> Array:
    """The maximum norm of w."""
    return jnp.max(jnp.abs(w))


def begun(w, others, active) -> Progress:
    """The state before the first iteration of the `active` members."""
    huge = jnp.full(active.shape, jnp.inf, w.dtype)
    return Progress(w, others, huge, huge, huge, jnp.zeros(active.shape, int), active, jnp.zeros_like(active))


def advanced(s: Progress, w, others, floor, most, size: Callable = size, least: int = 0) -> Progress:
    """The state after one more iteration, which gave w and `others`.

    An iteration has converged if the remaining error, estimated from the contraction rate ρ as ρ/(1−ρ) times the last
    increment, is far below rounding error (unlike rounding, it has the same sign in every time step: Hairer, McLachlan
    & Razakarivony 2008), or if the increments have stopped shrinking at the level of rounding. It is slow if its
    increments do not halve in two iterations (in two, since an oscillating iteration alternates between good and bad
    ones). It is given up if it is slow after six iterations, not finite, or at `most` iterations."""
    eps = jnp.finfo(w.dtype).eps
    increment, scale, count = size(w - s.w), floor + size(w), s.count + 1
    rate = jnp.where(count > 1, increment / s.increment, jnp.nan)
    left = jnp.where(rate < 0.5, increment * rate / (1 - jnp.minimum(rate, 0.5)), jnp.inf)
    slow = (count > 2) & (increment > 0.5 * s.previous)
    stagnant = slow & (increment <= 2**14 * eps * scale)
    converged = (increment <= 2 * eps * scale) | (left <= eps * scale / 128) | stagnant
    converged = converged & (count >= least)
    hopeless = (count >= 6) & slow | ~jnp.isfinite(increment) | (count >= most)
    going = s.going & ~converged & ~hopeless
    return Progress(w, others, increment, s.increment, scale, count, going, converged)


def iterated(
    improve, start: Progress, floor, most: int = MOST_PLAIN, size: Callable = size, before: bool = False
) -> Progress:
    """The fixed point of `improve`, (w, others) -> (w, others), for every member that is active at the `start`.

    `improve` returns the new w and the `others` at the new w, which only the next iteration uses: so it makes at least
    two. With `before`, it returns the `others` at the old w, and one more turn evaluates them at the fixed point."""
    least = 2 if start.others and not before else 0

    def turn(state):
        s, _ = state
        after = advanced(s, *improve(s.w, s.others), floor, most, size, least)
        kept = jax.tree.map(lambda a, b: jnp.where(s.going, a, b), after, s) if s.going.shape or before else after
        return (kept._replace(others=after.others), jnp.any(s.going)) if before else (kept, jnp.any(kept.going))

    return jax.lax.while_loop(lambda state: state[1], turn, (start, jnp.any(start.going)))[0]


def iterate(residual, w, precondition, floor, most, active, measured: int | None = None, others=()) -> Progress:
    """Iterates w ← w − precondition(residual(w)) until it converges, stops contracting, or has made `most` iterations.
    Convergence is judged by the first `measured` columns, the velocities: in some charts the multipliers have no scale
    of their own. If `others` are given, `residual` returns such values as well, and those at the last w are kept."""

    def improve(w, _):
        r, found = residual(w) if others else (residual(w), [])
        return (w - precondition(r), found)

    start = batched_as(w, begun(w, list(others), active))
    return iterated(improve, start, floor, most, lambda w: size(w[..., :measured]), bool(others))


class Root(NamedTuple):
    """A root `w` with the values `others` derived from it, whether the iteration converged, and how many iterations and
    Jacobians it took."""

    w: Array
    others: list
    converged: Bool[Array, ""]
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]


class Search(NamedTuple):
    """The state of `search` for N unknowns. At `place` N it iterates. At −1 it evaluates the residual at `start`, which
    is `base`. At 0 … N − 1 it evaluates the residual at `start` plus a small multiple of each unit vector, and the
    difference quotients are the columns of `matrix`, which is then inverted."""

    at: Progress
    place: Int[Array, ""]
    start: Array
    base: Array
    matrix: Array
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]


def search(
    residual, start, floor, active, evaluate=lambda w: [], others=(), size: Callable = size, jointly: bool = False
) -> Root:
    """A root near `start` of residual(w, others) with others = `evaluate`(w), whose Jacobian is near the identity.

    It is found by the fixed-point iteration w ← w − residual, or, if that does not contract, by simplified Newton with
    a Jacobian of difference quotients. All of this is one loop in which the residual appears once, since compiling the
    residual takes most of the compile time. A Jacobian accurate to √eps suffices: the root is as exact as the residual.
    It is not for batches, in which every member would carry the matrix through every iteration. With `jointly`,
    `residual` returns the `others` as well, and one more turn evaluates them at the root.
    """
    count, shape, eps = start.size, start.shape, jnp.finfo(start.dtype).eps
    index, zero, others = jnp.arange(count), jnp.zeros((), int), list(others)

    def turn(s: Search):
        r, found = residual(s.at.w, s.at.others) if jointly else (residual(s.at.w, s.at.others), None)
        r, probing = r.reshape(-1), s.place < count
        # A linear problem may start at zero, where any length will do.
        length = jnp.where(floor + size(s.start) > 0, eps**0.5 * (floor + size(s.start)), 1)

        def solved(r):
            return (jnp.sum(s.matrix * r[None], axis=1),)

        (change,) = once(~probing & (s.jacobians > 0), solved, r)

        def learn(r, base, matrix):
            base = jnp.where(s.place < 0, r, base)
            matrix = jnp.where(index == s.place, ((r - base) / length)[:, None], matrix)

            def invert(m):
                return (inverse(m, largest_elimination=count),)

            return r, base, once(s.place == count - 1, invert, matrix)[0]

        _, base, matrix = once(probing, learn, r, s.base, s.matrix)
        learned = s.place == count - 1
        most = jnp.where(s.jacobians > 0, MOST_WITH_MATRIX, MOST_PLAIN)
        least = 2 if others and not jointly else 0
        after = advanced(s.at, s.at.w - change.reshape(shape), [], floor, most, size, least)
        iterations, jacobians = s.iterations + ~probing, s.jacobians + learned
        failed = ~probing & ~after.going & ~after.converged & (jacobians < MOST_MATRICES)
        again = jnp.where((jacobians > 0) & jnp.isfinite(size(after.w)), after.w, s.start)
        begin = jnp.where(failed, again, s.start)
        place = jnp.where(failed, -1, jnp.minimum(s.place + 1, count))
        off = jnp.where((index == place) & (place < count), length, 0).reshape(shape)
        w = jnp.where(probing | failed, begin + off, after.w)
        fresh, made = begun(w, [], jnp.ones((), bool)), after._replace(w=w)
        # A residual that cannot be evaluated, such as a distance that is not found, has no derivatives either.
        evaluated = failed | jnp.all(jnp.isfinite(r))
        fresh = fresh._replace(w=jnp.where(evaluated, w, jnp.nan), going=evaluated)
        progress = jax.tree.map(lambda a, b: jnp.where(probing | failed, a, b), fresh, made)
        found = found if jointly else evaluate(w)
        return Search(progress._replace(others=found), place, begin, base, matrix, iterations, jacobians)

    def turned(state):
        s, _ = state
        after = turn(s)
        if not jointly:
            return after, after.at.going
        kept = jax.tree.map(lambda a, b: jnp.where(s.at.going, a, b), after, s)
        return kept._replace(at=kept.at._replace(others=after.at.others)), s.at.going

    matrix, flat = jnp.zeros((count, count), start.dtype), 0 * start.reshape(-1)
    first = Search(begun(start, others, active), zero + count, start, flat, matrix, zero, zero)
    end, _ = jax.lax.while_loop(lambda state: state[1], turned, (first, active))
    return Root(end.at.w, end.at.others, ~active | end.at.converged, end.iterations, end.jacobians)
