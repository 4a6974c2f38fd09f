"""Fixed-point iteration and simplified Newton's method, converged to rounding error.

optimistix stops at a given tolerance. Here an iteration stops at the rounding error of the unknowns, and whether it got
there becomes the status of the time step.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from geodyn._engine.numerics.linalg import inverse
from geodyn._engine.tracing import batched_as, once
from geodyn._foundations.typing import Array, ArrayLike, Bool, Float, Int, Scalar

MOST_PLAIN = 40
MOST_WITH_MATRIX = 12
MOST_MATRICES = 5


Function = Callable[[Float[Array, "..."]], Float[Array, "..."]]


class Progress(NamedTuple):
    """The state of an iteration: the iterate `w`; the norms of the last `increment`, of the `previous` one and of the
    iterate (`scale`); the number of iterations; whether it goes on (`going`), and whether it has converged."""

    w: Array
    increment: Array
    previous: Array
    scale: Array
    count: Int[Array, ""]
    going: Bool[Array, ""]
    converged: Bool[Array, ""]


def size(w: Float[Array, "..."]) -> Scalar:
    """The maximum norm of w."""
    return jnp.max(jnp.abs(w))


def first_progress(w: Float[Array, "..."], active: Bool[Array, ""]) -> Progress:
    """The state before the first iteration, which is made if the problem is `active`."""
    huge = jnp.full((), jnp.inf, w.dtype)
    return Progress(w, huge, huge, huge, jnp.zeros((), int), active, jnp.zeros((), bool))


def next_progress(
    s: Progress,
    w: Float[Array, "..."],
    floor: Scalar,
    most: int,
    size: Callable[[Float[Array, "..."]], Scalar] = size,
    cancelling: ArrayLike = 0.0,
) -> Progress:
    """The state after one more iteration, which gave w.

    An iteration has converged if the remaining error, estimated from the contraction rate ρ as ρ/(1−ρ) times the last
    increment, is far below rounding error (unlike rounding, it has the same sign in every time step: Hairer, McLachlan
    & Razakarivony 2008), or if the increments have stopped shrinking at the level of rounding, which is higher where
    numbers of the size `cancelling` cancel. It is slow if its increments do not halve in two iterations (in two, since
    an oscillating iteration alternates between good and bad ones). It is given up if it is slow after six iterations,
    not finite, or at `most` iterations."""
    eps = jnp.finfo(w.dtype).eps
    increment = size(w - s.w)
    scale = floor + size(w)
    count = s.count + 1
    rate = jnp.where(count > 1, increment / s.increment, jnp.nan)
    left = jnp.where(rate < 0.5, increment * rate / (1 - jnp.minimum(rate, 0.5)), jnp.inf)
    slow = (count > 2) & (increment > 0.5 * s.previous)
    stagnant = slow & (increment <= 2**14 * eps * scale + 2**3 * eps * cancelling)
    converged = (increment <= 2 * eps * scale) | (left <= eps * scale / 128) | stagnant
    hopeless = (count >= 6) & slow | ~jnp.isfinite(increment) | (count >= most)
    going = s.going & ~converged & ~hopeless
    return Progress(w, increment, s.increment, scale, count, going, converged)


def iterate(
    residual: Function,
    w: Float[Array, "..."],
    precondition: Function,
    floor: Scalar,
    most: int,
    active: Bool[Array, ""],
    measured: int | None = None,
) -> Progress:
    """Iterates w ← w − precondition(residual(w)) until it converges, stops contracting, or has made `most` iterations.
    Convergence is judged by the first `measured` columns, the velocities: in some charts the multipliers have no scale
    of their own."""

    def turn(s: Progress) -> Progress:
        after = s.w - precondition(residual(s.w))
        return next_progress(s, after, floor, most, lambda w: size(w[..., :measured]))

    return jax.lax.while_loop(lambda s: s.going, turn, batched_as(w, first_progress(w, active)))


class Root(NamedTuple):
    """A root `w`, whether the iteration converged, and how many iterations and Jacobians it took."""

    w: Array
    converged: Bool[Array, ""]
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]


class Search(NamedTuple):
    """The state of `search` for N unknowns. At `place` −1 it evaluates the residual at `start`, which is `base`. At
    0 … N − 1 it evaluates the residual at `start` plus a small multiple of each unit vector, and the difference
    quotients are the columns of `matrix`, which is then inverted. At N it iterates."""

    at: Progress
    place: Int[Array, ""]
    start: Array
    base: Array
    matrix: Array
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]


def find_root(
    residual: Function,
    start: Float[Array, "..."],
    floor: Scalar,
    active: Bool[Array, ""],
    afresh: Callable[[Float[Array, "..."]], tuple[Float[Array, "..."], Scalar]] | None = None,
) -> Root:
    """A root near `start` of residual(w), whose Jacobian is near the identity: by the fixed-point iteration
    w ← w − residual, or, if that does not contract, by `search`. If that fails too, and `afresh(start)` returns another
    start and the size of what cancels there, it searches once more."""
    first = iterate(residual, start, lambda r: r, floor, MOST_PLAIN, active)

    def attempt(
        s: tuple[Int[Array, ""], Float[Array, "..."], Scalar, Root],
    ) -> tuple[Int[Array, ""], Float[Array, "..."], Scalar, Root]:
        tries, begin, cancelling, before = s
        if afresh is not None:
            begin, cancelling = once(tries > 0, lambda w, _, again=afresh: again(w), begin, cancelling)
        found = search(residual, begin, floor, cancelling)
        w = jnp.where(found.converged | (tries == 0), found.w, before.w)
        iterations, jacobians = before.iterations + found.iterations, before.jacobians + found.jacobians
        return tries + 1, begin, cancelling, Root(w, found.converged, iterations, jacobians)

    def sought(*before: Array) -> tuple[Array, ...]:
        most, none = (1 if afresh is None else 2), jnp.zeros((), start.dtype)
        untried = 0 * first.count, start, none, Root(*before)
        return tuple(jax.lax.while_loop(lambda s: (s[0] < most) & ~s[-1].converged, attempt, untried)[-1])

    done, none = ~active | first.converged, 0 * first.count
    return Root(*once(~done, sought, first.w, done, first.count, none))


def search(residual: Function, start: Float[Array, "..."], floor: Scalar, cancelling: ArrayLike = 0.0) -> Root:
    """A root near `start` of residual(w), by simplified Newton with Jacobians of difference quotients.

    All of this is one loop in which the residual appears once, since compiling the residual takes most of the compile
    time. A Jacobian accurate to √eps suffices: the root is as exact as the residual."""
    count, shape, eps = start.size, start.shape, jnp.finfo(start.dtype).eps
    index, zero, whether = jnp.arange(count), jnp.zeros((), int), jnp.ones((), bool)

    def length(begin: Float[Array, "..."]) -> Scalar:
        # A linear problem may start at zero, where any length will do.
        return jnp.where(floor + size(begin) > 0, eps**0.5 * (floor + size(begin)), 1)

    def learn(s: Search, r: Float[Array, "..."]) -> Search:
        base = jnp.where(s.place < 0, r, s.base)
        column = (r - base) / length(s.start)
        matrix = jnp.where(index == s.place, column[:, None], s.matrix)

        def invert(m: Float[Array, "N N"]) -> tuple[Array]:
            return (inverse(m, largest_elimination=count),)

        is_last = s.place == count - 1
        (matrix,) = once(is_last, invert, matrix)
        place, jacobians = s.place + 1, s.jacobians + is_last
        off = jnp.where((index == place) & ~is_last, length(s.start), 0).reshape(shape)
        # A residual that cannot be evaluated, such as a distance that is not found, has no derivatives either.
        finite = jnp.all(jnp.isfinite(r))
        fresh = first_progress(jnp.where(finite, s.start + off, jnp.nan), finite)
        return Search(fresh, place, s.start, base, matrix, s.iterations, jacobians)

    def improve(s: Search, r: Float[Array, "..."]) -> Search:
        change = jnp.sum(s.matrix * r[None], axis=1).reshape(shape)
        after = next_progress(s.at, s.at.w - change, floor, MOST_WITH_MATRIX, cancelling=cancelling)
        failed = ~after.going & ~after.converged & (s.jacobians < MOST_MATRICES)
        begin = jnp.where(failed & jnp.isfinite(size(after.w)), after.w, s.start)
        again = first_progress(begin, whether)
        at = jax.tree.map(lambda a, b: jnp.where(failed, a, b), again, after)
        place = jnp.where(failed, -1, s.place)
        return Search(at, place, begin, s.base, s.matrix, s.iterations + 1, s.jacobians)

    def turn(s: Search) -> Search:
        r = residual(s.at.w).reshape(-1)
        return jax.lax.cond(s.place < count, learn, improve, s, r)

    matrix, flat = jnp.zeros((count, count), start.dtype), 0 * start.reshape(-1)
    first = Search(first_progress(start, whether), zero - 1, start, flat, matrix, zero, zero)
    end = jax.lax.while_loop(lambda s: s.at.going, turn, first)
    return Root(end.at.w, end.at.converged, end.iterations, end.jacobians)
