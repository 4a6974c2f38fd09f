"""A run: from initial data, so many steps on, and what is saved of them.

`_from_start` is all of it as one function, which is differentiated and compiled. A run whose numbers are all known may
also be made in parts, each of which begins where the part before it has `Reached`.
"""

from pathlib import Path
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._engine.native import native_of
from geodyn._engine.numerics.failure import no_derivative_where
from geodyn._engine.tracing import batched_as
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Bool, Float, Int, Scalar
from geodyn._integrators.contract.constraints import is_consistent
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.impacts.path import advance_with_impacts, no_impacts, walk_with_impacts
from geodyn._integrators.impacts.substep import Moving, start_of_path
from geodyn._integrators.judgement import Facts, judge, no_facts
from geodyn._integrators.saving.checkpoint import Piece
from geodyn._integrators.saving.parts import Plan, by_parts, plan
from geodyn._integrators.step.methods import AbstractCollocation, AbstractMethod, AbstractStepper, State, start
from geodyn._integrators.step.path import Whole, path, walk
from geodyn._integrators.steppers.stepper import run_stepper, start_stepper

# The memory in bytes that reverse mode may take for the stage values of a run: 256 MiB, a small part of what
# machines have. Longer runs are computed a second time, piece by piece.
STAGE_MEMORY = 2**28
# The number of arrays that are saved of a state: q, p, λ, frame, local error, v.
ROWS = 6

# Outside of jit, what is not traced stays in numpy, whose calls take less time.
AnyArray = Array | np.ndarray
# The arrays (q, p, λ, frame, local error, v) of the saved states.
Rows = tuple[AnyArray, ...]
# The (t, contact, impulse) of the impacts.
Hits = tuple[AnyArray, ...]
# The (system, method, t0, h, q, v) from which a run starts.
Initial = tuple[AbstractSystem, AbstractMethod, AnyArray, AnyArray, AnyArray, AnyArray | None]


class Reached(eqx.Module):
    """How far a run has got: the state, the facts about the accuracy of the saved states, and the result if the run
    ends here."""

    state: State | Moving
    facts: Facts
    result: Array

    @property
    def alive(self) -> Array:
        """Whether no step has failed."""
        return self.state.alive


class End(NamedTuple):
    """What a trajectory tells of the end of a run: the numbers of steps, of iterations and of Jacobians, the `errors`
    of the last state, and the result."""

    steps: Int[Array, ""]
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]
    errors: Float[Array, " e"]
    result: Int[Array, ""]


def _from_start(
    system: AbstractSystem,
    method: AbstractMethod,
    t0: Scalar,
    h: Scalar,
    q: Float[Array, "..."],
    v: Float[Array, "..."] | None,
    *,
    saves: int,
    every: Whole,
    most: int,
    made: Whole | None = None,
    limit: Whole | None = None,
) -> tuple[End, Rows, Hits | None]:
    """(end, rows, impacts) of a run from its start, as of `_run`; the derivatives of rows after a failure are NaN."""
    begin = _start_of_run(system, method, t0, h, q, v, most)
    reached, rows, hits = _run(
        system, method, t0, h, begin, saves=saves, every=every, most=most, made=made, limit=limit
    )
    ends = (_at_grid_time(begin.state), _at_grid_time(reached.state))
    # The same function for all rows, which is traced once.
    lost = jax.tree_util.Partial(jit(_without_derivative), system, method, t0, h, ends, rows[:3], every, most)
    first, *others = rows
    rows = (first, *batched_as(first, tuple(others)))  # Not all depend on what the positions depend on.
    sources = (system, method, t0, h, q, v)
    rows = tuple(no_derivative_where(lost, row, sources) for row in rows)  # One by one, since many need not all.
    return _end_of(reached), rows, hits  # Each array that is returned takes some microseconds.


def _start_of_run(
    system: AbstractSystem,
    method: AbstractMethod,
    t0: Scalar,
    h: Scalar,
    q: Float[Array, "..."],
    v: Float[Array, "..."] | None,
    most: int,
) -> Reached:
    """The start of a run, in which contacts are watched if `most` is positive."""

    def begin(
        system: AbstractSystem,
        method: AbstractMethod,
        t0: Scalar,
        h: Scalar,
        q: Float[Array, "..."],
        v: Float[Array, "..."] | None,
    ) -> tuple[State | Moving, Array]:
        first = initial_state(system, method, t0, h, q, v)
        return start_of_path(system, t0, h, first) if most else first, first.result

    # By our compiler with contacts too: XLA would take seconds to compile which of them are pressed.
    state, result = native_of(begin, system, method, t0, h, q, v)
    return Reached(state, no_facts(q.dtype), result)


def initial_state(
    system: AbstractSystem,
    method: AbstractMethod,
    t0: Scalar,
    h: Scalar,
    q: Float[Array, "..."],
    v: Float[Array, "..."] | None,
) -> State:
    """The initial `State`, of flat arrays, with the multipliers there. It is a failure if q and v are no state of the
    system, of which `check` tells more where they are known."""
    flat = q.reshape(-1)
    # Without v the velocity follows from the position alone, as that of an ODE.
    velocity = system.velocity(t0, flat, jnp.zeros(0, q.dtype)) if v is None else v.reshape(-1)
    momentum = system.momentum(t0, flat, velocity)
    if isinstance(method, AbstractStepper):
        first = start_stepper(system, method, t0, h, flat, momentum, velocity)
    else:
        first = start(system, cast(AbstractCollocation, method), t0, h, flat, momentum, velocity)
    if isinstance(method, AbstractCollocation) and system.contacts is None:
        # It only says where the search for the stage values begins.
        first = eqx.tree_at(lambda s: s.history, first, jax.lax.stop_gradient(first.history))
    valid = is_consistent(system, t0, flat, velocity)
    result = jnp.where(valid, first.result, RESULTS.inconsistent_start)
    return eqx.tree_at(lambda s: s.result, first, result)


def _run(
    system: AbstractSystem,
    method: AbstractMethod,
    t0: Scalar,
    h: Scalar,
    begin: Reached,
    *,
    saves: int,
    every: Whole,
    most: int,
    made: Whole | None = None,
    limit: Whole | None = None,
) -> tuple[Reached, Rows, Hits | None]:
    """(Reached, rows, impacts) after `saves` × `every` steps. The rows are (q, p, λ, frame, local error, v) at the
    start and after every `every`-th step, NaN after a failure. If `made` and `limit` are given, only the first `made`
    saves are computed, with up to `limit` impacts."""
    state = _at_grid_time(begin.state)
    after, (*saved, hits) = _advance(system, method, t0, h, begin.state, saves, every, most, made, limit)
    end = _at_grid_time(after)
    multipliers: Float[Array, "s c"] = saved[2]
    lam_at_start = _multipliers_of(method, state, h, multipliers.shape[1])
    at_start = (state.q, state.p, lam_at_start, state.frame, state.errors[:1])
    q, p, lam, frame, error = (jnp.concatenate([row[None], rows]) for row, rows in zip(at_start, saved, strict=True))
    t = t0 + h * (state.step + every * jnp.arange(saves + 1))
    is_first = state.step == 0
    judged = native_of(judge, system, method, h, is_first, end, begin.facts, (t, q, p, lam), made, most)
    v, lam, facts, result = judged
    return Reached(after, facts, result), (q, p, lam, frame, error, v), hits


def _multipliers_of(method: AbstractMethod, state: State, h: Scalar, count: int) -> Float[Array, " c"]:
    """The multipliers of a state, so many of them: they stand in its history behind the velocities."""
    n = state.q.shape[0]
    stored = state.history[-1, n : n + count]
    # Collocation stores ℓ = hλ.
    return stored / (1 if isinstance(method, AbstractStepper) else h)


def _at_grid_time(state: State | Moving) -> State:
    """The state without what is known of contacts between two grid times."""
    return state.state if isinstance(state, Moving) else state


def _advance(
    system: AbstractSystem,
    method: AbstractMethod,
    t0: Scalar,
    h: Scalar,
    state: State | Moving,
    saves: int,
    every: Whole,
    most: int,
    made: Whole | None,
    limit: Whole | None,
) -> tuple[State | Moving, tuple[Any, ...]]:
    """(state, (q, p, λ, frame, local error, impacts)) after `saves` × `every` steps. The values are those after every
    `every`-th step, NaN after a failure. The impacts are None unless `most` is positive."""
    if isinstance(state, Moving):
        collocation = cast(AbstractCollocation, method)  # Only along these are contacts watched.
        if made is not None:
            return walk_with_impacts(system, collocation, t0, h, state, saves, every, most, made, cast(Whole, limit))
        return advance_with_impacts(system, collocation, t0, h, state, saves, cast(int, every), most)
    if made is not None:
        end, saved = _steps(system, method, t0, h, state, saves, every, made)
    else:
        # It is static where `made` is not given.
        end, saved = _differentiable_steps(system, method, t0, h, state, saves, cast(int, every))
    return end, (*saved, None)


def _steps(
    system: AbstractSystem,
    method: AbstractMethod,
    t0: Scalar,
    h: Scalar,
    state: State,
    saves: int,
    every: Whole,
    made: Whole | None = None,
) -> tuple[State, tuple[Array, ...]]:
    """(state, (q, p, λ, frame, local error)) as `_advance` returns them, without contacts."""
    if isinstance(method, AbstractStepper):
        return run_stepper(system, t0, h, state, method=method, saves=saves, every=every, made=made)
    if made is None:
        end, steps = path(system, t0, h, state, method=method, saves=saves, every=every)
    else:
        end, steps = walk(system, t0, h, state, cast(AbstractCollocation, method), saves, every, made)
    n = state.q.shape[0]
    c = system.count_constraints(state.q)
    # The multipliers ℓ = hλ of the last stage stand behind its velocities.
    lam = steps.w[:, -1, n : n + c] / h
    saved = (steps.q, steps.p, lam, steps.frame, steps.error)
    return end, jax.tree.map(lambda x: jnp.where(steps.good[:, None], x, jnp.nan), saved)


def _differentiable_steps(
    system: AbstractSystem, method: AbstractMethod, t0: Scalar, h: Scalar, state: State, saves: int, every: int
) -> tuple[State, tuple[Array, ...]]:
    """`_steps`, of which reverse mode stores no more than STAGE_MEMORY at a time, as far as it can."""
    # Reverse mode stores the stage values of all steps. If that is too much, the run is checkpointed, so that only the
    # stage values of one piece are stored at a time.
    stored = saves * every * state.history.size * state.q.dtype.itemsize
    least = stored / STAGE_MEMORY
    if least <= 1:
        return _steps(system, method, t0, h, state, saves, every)
    return _checkpointed_steps(system, method, t0, h, state, saves, every, least)


def _checkpointed_steps(
    system: AbstractSystem,
    method: AbstractMethod,
    t0: Scalar,
    h: Scalar,
    state: State,
    saves: int,
    every: int,
    least: float,
) -> tuple[State, tuple[Array, ...]]:
    """`_steps`, of which reverse mode stores the stage values of one piece at a time. There are at least `least`
    pieces, as far as these have whole steps: the steps to some of the saves, or some of the steps to one save."""
    parts = _least_divisor(saves, least)
    # More than one only where each part leads to one save: else the parts are enough.
    pieces = _least_divisor(every, least / parts)

    def piece(state: State, _: None) -> tuple[State, tuple[Array, ...]]:
        return _steps(system, method, t0, h, state, saves // parts, every // pieces)

    checkpointed = jax.checkpoint(piece, prevent_cse=False)

    def part(state: State, _: None) -> tuple[State, tuple[Array, ...]]:
        state, saved = jax.lax.scan(checkpointed, state, None, length=pieces)
        # Between two saves the states at the ends of the pieces are not kept.
        return state, jax.tree.map(lambda x: x[-1], saved)

    end, saved = jax.lax.scan(part, state, None, length=parts)
    # From [parts, saves of a part, …].
    return end, jax.tree.map(lambda x: x.reshape(saves, *x.shape[2:]), saved)


def _least_divisor(count: int, least: float) -> int:
    """The smallest divisor of `count` that is at least `least`, or `count`."""
    return next(k for k in range(1, count + 1) if count % k == 0 and k >= min(least, count))


def _end_of(reached: Reached) -> End:
    state = _at_grid_time(reached.state)
    return End(state.step, state.iterations, state.jacobians, state.errors, reached.result)


def _without_derivative(
    system: AbstractSystem,
    method: AbstractMethod,
    t0: Scalar,
    h: Scalar,
    ends: tuple[State, State],
    rows: tuple[Float[Array, "T n"], Float[Array, "T k"], Float[Array, "T c"]],
    every: Whole,
    most: int,
) -> Bool[Array, " T"]:
    """Which rows (q, p, λ) have no derivative: those after a failed step, and all if they are numbers without a correct
    digit. `ends` are the states at the start and at the end."""
    t = t0 + h * every * jnp.arange(len(rows[0]))
    begin, end = ends
    is_first = begin.step == 0
    *_, result = native_of(judge, system, method, h, is_first, end, no_facts(h.dtype), (t, *rows), None, most)
    has_no_digit = (result == RESULTS.digits_lost) | (result == RESULTS.under_resolved)
    return jnp.isnan(rows[0][:, 0]) | has_no_digit


compiled_run = jit(_from_start)
_compiled_start = jit(_start_of_run)
_compiled_part = jit(_run)


def concrete_run(
    initial: Initial, saves: int, every: int, most: int, constraints: int, folder: Path | None, progress: bool
) -> tuple[End, Rows, Hits | None]:
    """(end, rows, impacts) as `_from_start` returns them, of a run whose numbers are all known: by one program that
    serves any number of steps, or by parts if the run is long or in view, by a progress bar or in a folder."""
    in_view = progress or folder is not None
    division = plan(saves, every, _size_of_state(initial, constraints), in_view)
    if in_view or saves > division.room:
        return _by_parts(initial, most, division, folder, progress)
    return compiled_run(*initial, **_traced_counts(saves, every, most, division.room))


def _size_of_state(initial: Initial, constraints: int) -> int:
    """About how many numbers a state has. What is saved of it is half: the other half are the stage values from which
    the next step is guessed, two rows for each of three stages."""
    q = initial[4]
    return 2 * ROWS * (q.size + constraints)


def _by_parts(
    initial: Initial, most: int, division: Plan, folder: Path | None, progress: bool
) -> tuple[End, Rows, Hits]:
    """(end, rows, impacts) by a host loop over jitted parts."""
    system, method, t0, h, q, _ = initial
    begin = _compiled_start(*initial, min(most, 1))

    def advance(reached: Reached, count: int, stride: int) -> tuple[Reached, Rows, Hits]:
        counts = _traced_counts(count, stride, most, division.room)
        reached, saved, hits = _compiled_part(system, method, t0, h, reached, **counts)
        return reached, saved, hits or ()

    no_rows, no_hits = _no_saves(system, method, begin, most)
    nothing = Piece(begin, no_rows, no_hits, 0)
    pieces = by_parts(advance, nothing, division, folder, progress)
    rows = _join([piece.rows for piece in pieces])
    hits = _join([piece.others for piece in pieces])
    end = pieces[-1].state
    missing = division.rows // division.kept + 1 - len(rows[0])
    # Ctrl-C leaves a shorter run, and a failed step rows of NaN.
    if missing and bool(end.alive):
        end = eqx.tree_at(lambda end: end.result, end, jnp.asarray(RESULTS.interrupted))
    elif missing:
        rows = [np.concatenate([x, np.full((missing, *x.shape[1:]), np.nan, x.dtype)]) for x in rows]
    # Where the initial data lie, as the arrays of a run without parts do.
    rows = jax.device_put(list(rows), getattr(q, "sharding", None))
    return _end_of(end), tuple(rows), hits


def _join(parts: list[tuple[AnyArray, ...]]) -> tuple[np.ndarray, ...]:
    return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)


def _traced_counts(saves: int, every: int, most: int, room: int) -> dict[str, Any]:
    """The options of `_run` for one compiled program that serves any number of steps and of saves up to `room`, and any
    number of impacts up to the next power of 2."""
    counts = {"every": np.array(every), "made": np.array(saves), "limit": np.array(most)}
    next_power_of_2 = 1 << (most - 1).bit_length() if most else 0
    return {"saves": room, "most": next_power_of_2, **counts}


def _no_saves(
    system: AbstractSystem, method: AbstractMethod, begin: Reached, most: int
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """The (rows, impacts) of a run before its first step."""
    state = _at_grid_time(begin.state)
    dtype = state.q.dtype
    n = state.q.size
    # A stepper keeps what it knows of its multipliers in the history, and may have more of them than constraints.
    hidden = isinstance(method, AbstractStepper)
    c = state.history.shape[1] - n if hidden else system.count_constraints(state.q)
    sizes = (n, state.p.size, c, state.frame.size, 1, n)
    rows = tuple(np.zeros((0, size), dtype) for size in sizes)
    return rows, no_impacts(dtype) if most else ()
