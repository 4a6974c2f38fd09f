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

# So many iterations reach the machine epsilon of double precision if each contracts the error to 0.4 of it. What
# contracts less is left to Newton's method.
MOST_PLAIN = 40
# The same for a contraction to 0.05. A matrix that contracts less belongs to too distant a place, and the next one is
# formed at the last iterate.
MOST_WITH_MATRIX = 12
# Of 800 random steps of a double pendulum and of a Kepler orbit, many of them far too long, five matrices solve 592,
# and thirty 4 more. Of 400 steps of a stiff chain, longer still, five solve 79 and thirty 187; but then each step that
# fails costs six times as much.
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
    # A first increment has none before it: its rate is NaN, and the error left is unknown.
    rate = jnp.where(count > 1, increment / s.increment, jnp.nan)
    left = jnp.where(rate < 0.5, increment * rate / (1 - jnp.minimum(rate, 0.5)), jnp.inf)
    # Rounding errors add up like √steps, errors of one sign like steps: 1/128 of one stays below it for 128² steps.
    is_far_below_rounding = left <= eps * scale / 128
    slow = (count > 2) & (increment > 0.5 * s.previous)
    # Increments that no longer shrink at this level are rounding errors, which the residual may magnify; above it the
    # iteration does not contract. Without the second term needles fail, whose large velocities cancel.
    stagnant = slow & (increment <= 2**14 * eps * scale + 2**3 * eps * cancelling)
    converged = (increment <= 2 * eps * scale) | is_far_below_rounding | stagnant
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


class Searches(NamedTuple):
    """The state of `find_root`: the number of searches, where the last one began and the size of what cancels there,
    and what is found."""

    count: Int[Array, ""]
    start: Array
    cancelling: Scalar
    found: Root


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
    most = 1 if afresh is None else 2
    # A zero that `vmap` batches as the count.
    zero = 0 * first.count

    def search_once_more(s: Searches) -> Searches:
        begin = s.start
        cancelling = s.cancelling
        if afresh is not None:
            begin, cancelling = once(s.count > 0, lambda w, _, again=afresh: again(w), begin, cancelling)
        before = s.found
        found = search(residual, begin, floor, cancelling)
        root = Root(
            # If the second search fails too, the iterate of the first one is kept.
            w=jnp.where(found.converged | (s.count == 0), found.w, before.w),
            converged=found.converged,
            iterations=before.iterations + found.iterations,
            jacobians=before.jacobians + found.jacobians,
        )
        return Searches(s.count + 1, begin, cancelling, root)

    def goes_on(s: Searches) -> Bool[Array, ""]:
        return (s.count < most) & ~s.found.converged

    def search_from_start(*before: Array) -> tuple[Array, ...]:
        nothing_cancels = jnp.zeros((), start.dtype)
        begin = Searches(zero, start, nothing_cancels, Root(*before))
        return tuple(jax.lax.while_loop(goes_on, search_once_more, begin).found)

    done = ~active | first.converged
    return Root(*once(~done, search_from_start, first.w, done, first.count, zero))


def search(residual: Function, start: Float[Array, "..."], floor: Scalar, cancelling: ArrayLike = 0.0) -> Root:
    """A root near `start` of residual(w), by simplified Newton with Jacobians of difference quotients.

    All of this is one loop in which the residual appears once, since compiling the residual takes most of the compile
    time. A Jacobian accurate to √eps suffices: the root is as exact as the residual."""
    count = start.size
    shape = start.shape
    eps = jnp.finfo(start.dtype).eps
    index = jnp.arange(count)
    zero = jnp.zeros((), int)
    yes = jnp.ones((), bool)

    def length(begin: Float[Array, "..."]) -> Scalar:
        """By how much a component is changed for a difference quotient."""
        # A linear problem may start at zero, where any length will do.
        return jnp.where(floor + size(begin) > 0, eps**0.5 * (floor + size(begin)), 1)

    def learn(s: Search, r: Float[Array, "..."]) -> Search:
        base = jnp.where(s.place < 0, r, s.base)
        column = (r - base) / length(s.start)
        # At place −1 no column is written.
        matrix = jnp.where(index == s.place, column[:, None], s.matrix)

        def invert(m: Float[Array, "N N"]) -> tuple[Array]:
            return (inverse(m, largest_elimination=count),)

        is_last = s.place == count - 1
        (matrix,) = once(is_last, invert, matrix)
        place = s.place + 1
        # After the last column the iteration begins at `start` itself.
        offset = jnp.where((index == place) & ~is_last, length(s.start), 0).reshape(shape)
        # A residual that cannot be evaluated, such as a distance that is not found, has no derivatives either.
        finite = jnp.all(jnp.isfinite(r))
        fresh = first_progress(jnp.where(finite, s.start + offset, jnp.nan), finite)
        return Search(fresh, place, s.start, base, matrix, s.iterations, s.jacobians + is_last)

    def improve(s: Search, r: Float[Array, "..."]) -> Search:
        change = jnp.sum(s.matrix * r[None], axis=1).reshape(shape)
        after = next_progress(s.at, s.at.w - change, floor, MOST_WITH_MATRIX, cancelling=cancelling)
        failed = ~after.going & ~after.converged & (s.jacobians < MOST_MATRICES)
        # The next matrix is formed where this one has led.
        begin = jnp.where(failed & jnp.isfinite(size(after.w)), after.w, s.start)
        again = first_progress(begin, yes)
        at = jax.tree.map(lambda a, b: jnp.where(failed, a, b), again, after)
        place = jnp.where(failed, -1, s.place)
        return Search(at, place, begin, s.base, s.matrix, s.iterations + 1, s.jacobians)

    def turn(s: Search) -> Search:
        r = residual(s.at.w).reshape(-1)
        return jax.lax.cond(s.place < count, learn, improve, s, r)

    matrix = jnp.zeros((count, count), start.dtype)
    base = 0 * start.reshape(-1)
    first = Search(first_progress(start, yes), zero - 1, start, base, matrix, zero, zero)
    end = jax.lax.while_loop(lambda s: s.at.going, turn, first)
    return Root(end.at.w, end.at.converged, end.iterations, end.jacobians)
