"""Roots by iteration, which stop at the level of rounding, and with a matrix where plain iteration does not contract.

optimistix stops at a tolerance that is given: in a step the rounding error of each unknown is what ends the iteration,
and whether it was reached is the status of the step.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from geodyn._numerics.linalg import inverse
from geodyn._typing import Array, Bool, Int

MOST_PLAIN = 40
MOST_WITH_MATRIX = 12
MOST_MATRICES = 5


class Progress(NamedTuple):
    """Where the iterations of some members stand: the iterate, and what else follows from it; the size of its last
    increments and of itself; the count; which members go on, and which have converged."""

    w: Array
    others: list
    increment: Array
    previous: Array
    scale: Array
    count: Int[Array, "*B"]
    going: Bool[Array, "*B"]
    converged: Bool[Array, "*B"]


def size(w) -> Array:
    """The largest component."""
    return jnp.max(jnp.abs(w))


def begun(w, others, active) -> Progress:
    """Before the first iteration."""
    huge = jnp.full(active.shape, jnp.inf, w.dtype)
    return Progress(w, others, huge, huge, huge, jnp.zeros(active.shape, int), active, jnp.zeros_like(active))


def advanced(s: Progress, w, others, floor, most, size: Callable = size, least: int = 0) -> Progress:
    """One iteration further, at w.

    Converged is where the error left, estimated from the contraction ρ as ρ/(1−ρ) of the last increment, is far below
    rounding, since unlike rounding it has the same sign from step to step (Hairer, McLachlan & Razakarivony 2008), or
    where the increments have stopped shrinking at the level of rounding; slow is contracting by less than a half in two
    iterations, as an oscillation alternates between good and bad ones; hopeless, slow after six."""
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
    improve, w, others, floor, active, most: int = MOST_PLAIN, size: Callable = size, before: bool = False
) -> Progress:
    """The fixed point of `improve`, (w, others) -> (w, others), of every active member. What else follows from w is
    found after each change of that, and shows in the next one only, so that there are two at least; or `before`, and
    in one more turn for the fixed point itself."""
    least = 2 if others and not before else 0

    def turn(state):
        s, _ = state
        after = advanced(s, *improve(s.w, s.others), floor, most, size, least)
        kept = jax.tree.map(lambda a, b: jnp.where(s.going, a, b), after, s) if active.shape or before else after
        return (kept._replace(others=after.others), jnp.any(s.going)) if before else (kept, jnp.any(kept.going))

    return jax.lax.while_loop(lambda state: state[1], turn, (begun(w, others, active), jnp.any(active)))[0]


def iterate(residual, w, precondition, floor, most, active, measured: int | None = None) -> Progress:
    """w ← w − precondition(residual(w)) until it converges, stops contracting, or `most` iterations are done; judged
    by the first `measured` columns, the velocities: multipliers have no scale of their own in every chart."""

    def improve(w, _):
        return (w - precondition(residual(w)), [])

    return iterated(improve, w, [], floor, active, most, lambda w: size(w[..., :measured]))


class Root(NamedTuple):
    """A root, what else follows from it, whether it was reached, and the iterations and Jacobians that it took."""

    w: Array
    others: list
    converged: Bool[Array, ""]
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]


class Search(NamedTuple):
    """Where `search` stands: at `place` N it iterates; at −1 it evaluates the residual at `start`, and at 0 … N − 1
    `length` off along each unit vector, which gives the columns of the matrix."""

    at: Progress
    place: Int[Array, ""]
    start: Array
    base: Array
    matrix: Array
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]


def search(residual, start, floor, active, evaluate=lambda w: [], others=(), size: Callable = size) -> Root:
    """A root near `start` of residual(w, others), near the identity, with others = `evaluate`(w), by plain iteration;
    where that does not contract, by simplified Newton with a Jacobian of difference quotients.

    All of it is one loop, with one evaluation of the residual in it: that is most of the program, and compiling it is
    most of the waiting. A Jacobian good to √eps loses nothing: the root is as exact as the residual. Not for a batch,
    of which every member would carry the matrix through every iteration.
    """
    count, shape, eps = start.size, start.shape, jnp.finfo(start.dtype).eps
    index, zero, others = jnp.arange(count), jnp.zeros((), int), list(others)

    def turn(s: Search):
        r, probing = residual(s.at.w, s.at.others).reshape(-1), s.place < count
        # A linear problem may start at zero: any length does there.
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
        after = advanced(s.at, s.at.w - change.reshape(shape), [], floor, most, size, 2 if others else 0)
        iterations, jacobians = s.iterations + ~probing, s.jacobians + learned
        failed = ~probing & ~after.going & ~after.converged & (jacobians < MOST_MATRICES)
        again = jnp.where((jacobians > 0) & jnp.isfinite(size(after.w)), after.w, s.start)
        begin = jnp.where(failed, again, s.start)
        place = jnp.where(failed, -1, jnp.minimum(s.place + 1, count))
        off = jnp.where((index == place) & (place < count), length, 0).reshape(shape)
        w = jnp.where(probing | failed, begin + off, after.w)
        fresh, made = begun(w, [], jnp.ones((), bool)), after._replace(w=w)
        progress = jax.tree.map(lambda a, b: jnp.where(probing | failed, a, b), fresh, made)
        return Search(progress._replace(others=evaluate(w)), place, begin, base, matrix, iterations, jacobians)

    matrix, flat = jnp.zeros((count, count), start.dtype), 0 * start.reshape(-1)
    first = Search(begun(start, others, active), zero + count, start, flat, matrix, zero, zero)
    end = jax.lax.while_loop(lambda s: s.at.going, turn, first)
    return Root(end.at.w, end.at.others, ~active | end.at.converged, end.iterations, end.jacobians)


def once(wanted, function, *args):
    """`function(*args)` where `wanted`, else the args: a loop of at most one turn and no `cond`, both of whose branches
    a `vmap` would compute for every member."""

    def turn(state):
        return (jnp.zeros_like(wanted), *function(*state[1:]))

    return jax.lax.while_loop(lambda state: state[0], turn, (wanted, *args))[1:]
