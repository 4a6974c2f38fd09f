"""Time integration: `integrate`, from initial data to a trajectory. Only here is the failure of a step raised."""

import functools
import os
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import Carried, jit, short_errors, static_count, traced_numbers
from geodyn._engine.native import native_of
from geodyn._engine.numerics.failure import no_derivative_where
from geodyn._engine.tracing import batched_as, undisturbed
from geodyn._foundations.checks import a_number, array_of, numbers
from geodyn._foundations.gate import checked
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Bool, Count, Float, Int, Number, Numbers, Scalar, Steps
from geodyn._integrators.contract.constraints import is_consistent
from geodyn._integrators.contract.contacts import Contacts
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.failures import raise_failure
from geodyn._integrators.impacts.gaps import is_nearly_closed
from geodyn._integrators.impacts.path import advance_with_impacts, no_impacts, walk_with_impacts, with_padding
from geodyn._integrators.impacts.substep import Moving, pressed_contacts, start_of_path
from geodyn._integrators.judgement import Facts, judge, no_facts
from geodyn._integrators.saving.checkpoint import Piece, open_checkpoint
from geodyn._integrators.saving.inputs import named_inputs
from geodyn._integrators.saving.parts import Plan, by_parts, plan
from geodyn._integrators.step.methods import (
    AbstractCollocation,
    AbstractMethod,
    AbstractStepper,
    Gauss,
    RadauIIA,
    State,
    formulation_of,
    start,
)
from geodyn._integrators.step.path import Whole, path, walk
from geodyn._integrators.steppers.stepper import run_stepper, start_stepper
from geodyn._integrators.trajectory import Impacts, Inputs, Run, Stats, Trajectory

# The memory in bytes that reverse mode may take for the stage values of a run.
STAGE_MEMORY = 2**28
# The numbers of all saved states; in double precision they take 16 GiB.
MOST_NUMBERS = 2**31
# The number of arrays that are saved of a state: q, p, λ, frame, local error, v.
ROWS = 6

# Outside of jit, what is not traced stays in numpy, whose calls take less time.
AnyArray = Array | np.ndarray
# The arrays (q, p, λ, frame, local error, v) of the saved states.
Rows = tuple[AnyArray, ...]
# The (t, contact, impulse) of the impacts.
Struck = tuple[AnyArray, ...]


@checked
@undisturbed()
def integrate(
    system: AbstractSystem,
    q0: Numbers,
    v0: Numbers | None = None,
    *,
    p0: Numbers | None = None,
    t1: Numbers,
    steps: Steps,
    t0: Numbers = 0.0,
    method: AbstractMethod | None = None,
    save_every: Steps = 1,
    max_impacts: Count = 64,
    progress: bool = False,
    checkpoint: str | os.PathLike | None = None,
    throw: bool = True,
) -> Trajectory:
    """Integrates a system from (q0, v0) at the time t0 to the time t1 in equal steps.

    The default method is `gd.Gauss(3)`, or `gd.RadauIIA(3)` for a system with constraints. Systems with dry friction or
    plasticity need `gd.friction.IncrementalPotential()`; contacts that slide, stick or rest with friction need
    `gd.methods.Moreau()`. To compare with, there are `gd.methods.Collocation(gd.tableaus.rk4())`,
    `gd.methods.Newmark()`, `gd.methods.StormerVerlet()` and `gd.methods.Adaptive()`.

    The impacts of a system with contacts happen at their own moments between the steps and stand in
    `trajectory.impacts`; the saved times stay as they are. A restitution below 1 ends flights of less than a sixteenth
    of a step.

    The result can be differentiated, in both modes, with respect to every number in the system, q0, v0, t0 and t1, by
    the implicit-function theorem, and batched with `jax.vmap` over any of them. Outside of jit, vmap and grad one
    compiled program serves any number of steps, of saved states and, up to the next power of 2, of impacts.

    Args:
        system: a `System`, a `Lagrangian`, an `ODE` or another system.
        q0: the initial configuration, [N, dim] of a `System`, [n] of a `Lagrangian` or `ODE`.
        v0: the initial velocity, in the shape of q0. Without it the motion starts from rest. An `ODE` takes none, and a
            `gd.hamilton.Hamiltonian` needs v0 or p0.
        p0: the initial momentum, in the shape of q0, in the place of v0.
        t1: the end time, in any consistent units. An earlier one than t0 is reached backwards, without contacts, dry
            friction and plasticity.
        steps: the number of steps.
        t0: the initial time.
        method: the method of integration.
        save_every: the start and every so many-th step are saved; it must divide `steps`.
        max_impacts: the largest number of impacts.
        progress: True shows the steps done, the rate and the time left, and before that for how long it has been
            compiling.
        checkpoint: a folder, new or of a run with the same inputs, which then goes on where it stopped, bit for bit
            (with the same versions on the same machine). It is written every few seconds and at the end.
        throw: False returns the trajectory where a step has failed.

    Returns:
        A `Trajectory` with T = steps/save_every + 1 saved states. With `progress` or `checkpoint`, Ctrl-C returns what
        was computed so far. Inside jit or vmap nothing can be raised: look at `trajectory.result`. What follows a
        failed step is NaN, and so are its derivatives; the other members of a batch are not affected.

    Raises:
        ValueError: for arguments that do not fit, and for a checkpoint of another run, before anything is compiled.
        IntegrationError: where a step fails, unless throw=False.

    Example:
        A mass on a spring, x = cos √k t, and the derivative with respect to the stiffness k, −t sin(√k t)/(2√k).

        >>> def position(k):
        ...     body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Harmonic(k, [0.0]))
        ...     return gd.integrate(body, [[1.0]], t1=1.0, steps=20).q[-1, 0, 0]
        >>> print("%.6f %.6f" % jax.value_and_grad(position)(4.0))
        -0.416147 -0.227324
        >>> print(f"{np.cos(2.0):.6f} {-np.sin(2.0) / 4:.6f}")
        -0.416147 -0.227324
    """
    if p0 is not None:
        v0 = _velocity_of_momentum(system, q0, v0, p0, t0)
    q, v = _initial_values(system, q0, v0)
    steps = static_count("steps", steps)
    save_every = static_count("save_every", save_every)
    max_impacts = static_count("max_impacts", max_impacts)
    reversible = system.contacts is None and system.is_smooth
    _check_times(t0, t1, steps, save_every, reversible)
    kind = type(system)  # Equinox makes a pytree of every bound method, `system.check`, which takes 50 µs.
    constraints = kind.count_constraints(system, q)
    method = _checked_method(system, method, q, constraints)
    system = traced_numbers(system)
    method = traced_numbers(method)
    h = _number((t1 - t0) / steps, q.dtype)  # It is traced wherever anything is.
    if isinstance(h, Tracer) and not reversible:
        # Nothing can be raised for a traced time.
        h = h * jnp.where(h > 0, 1.0, jnp.nan)
    saves = steps // save_every
    if saves * ROWS * q.size > MOST_NUMBERS:
        raise ValueError(
            f"steps={steps} with save_every={save_every} would save {saves} states of {q.size} coordinates, more than "
            "fit into the memory: save fewer of them, by a larger save_every"
        )
    most = _most_impacts(system, method, max_impacts)
    concrete = not any(isinstance(x, Tracer) for x in jax.tree.leaves((system, method, q, v, t0, t1, h)))
    as_array = np.asarray if concrete else jnp.asarray
    t0 = as_array(t0, q.dtype)
    t1 = as_array(t1, q.dtype)
    if concrete:
        kind.check(system, t0, np.asarray(q), None if v is None else np.asarray(v))
        contacts = system.contacts
        if contacts is not None and most and contacts.elastic:
            system = _with_rest(system, contacts, method, t0, h, q, v)
    elif checkpoint is not None:
        raise ValueError(f"checkpoint={checkpoint} has no place inside of jit, vmap or grad")
    counts = {"steps": steps, "save_every": save_every, "max_impacts": max_impacts}
    initial = (system, method, t0, h, q, v)
    if concrete:
        folder = None
        if checkpoint is not None:
            folder = open_checkpoint(checkpoint, named_inputs(system, method, q0=q, v0=v, t0=t0, t1=t1, **counts))
        size = 2 * ROWS * (q.size + constraints)
        end, rows, struck = _concrete_run(initial, saves, save_every, most, size, folder, progress)
    else:
        end, rows, struck = _compiled_run(*initial, saves=saves, every=save_every, most=most)
    impacts = Impacts(*jit(with_padding)(most, *(struck or ()))) if most else None
    trajectory = _trajectory(system, method, (t0, t1, h), q, v, end, rows, impacts, counts)
    if throw and not isinstance(trajectory.result, Tracer):  # It is known outside of jit, in derivatives too.
        with short_errors():
            raise_failure(trajectory)
    return trajectory


@partial(jax.jit, static_argnums=1)
def _number(x: Number, dtype: np.dtype) -> Scalar:
    return jnp.asarray(x, dtype)  # Without jit it takes three times as long.


def _cast(x: AnyArray, dtype: np.dtype) -> AnyArray:
    if isinstance(x, np.ndarray):
        return np.array(x, dtype)  # A copy, since the steps may still read it when the caller changes the original.
    # A weak type would give way to that of other numbers, and take a program of its own.
    return x if x.dtype == dtype and not x.weak_type else x.astype(dtype)


def _precision_of(q: AnyArray) -> np.dtype:
    """The precision in which a motion from q is computed: that of q, or the usual one of JAX, which a list of numbers
    has, too."""
    usual = jnp.result_type(float)
    is_float = jnp.issubdtype(q.dtype, jnp.floating)
    return q.dtype if is_float and q.dtype.itemsize <= usual.itemsize else usual


def _initial_values(system: AbstractSystem, q0: Numbers, v0: Numbers | None) -> tuple[AnyArray, AnyArray | None]:
    """(q, v), checked, as arrays of the same shape and precision."""
    wanted = "real numbers in the shape of a configuration"
    q = array_of("q0", q0, wanted)
    dtype = _precision_of(q)
    if dtype.itemsize < 4:
        raise ValueError(f"q0 must be numbers of float32 or float64, got {dtype}: give q0.astype(float)")
    q = _cast(q, dtype)
    v = None
    if v0 is not None:
        v = _cast(array_of("v0", v0, wanted), dtype)
    elif system.starts_at_rest:
        v = np.zeros(q.shape, dtype)
    if v is not None and v.shape != q.shape:
        raise ValueError(f"v0 must have the shape of q0, {q.shape}; got {v.shape}")
    for name, value in (("q0", q), ("v0", v)):
        if value is None or isinstance(value, Tracer):
            continue
        if not np.all(np.isfinite(np.asarray(value))):
            raise ValueError(f"{name} must be finite, got {np.asarray(value)}")
    return q, v


def _velocity_of_momentum(system: AbstractSystem, q0: Numbers, v0: Numbers | None, p0: Numbers, t0: Numbers) -> Array:
    """The initial velocity that belongs to the momentum p0."""
    if v0 is not None:
        raise ValueError("give either v0 or p0, not both")
    q, _ = _initial_values(system, q0, None)
    p = numbers("p0", p0, "real numbers in the shape of a configuration")
    if p.shape != q.shape:
        raise ValueError(f"p0 must have the shape of q0, {q.shape}; got {p.shape}")
    return jit(_velocity_at)(system, jnp.asarray(t0, q.dtype), q, p.astype(q.dtype))


def _velocity_at(
    system: AbstractSystem, t: Scalar, q: Float[Array, "..."], p: Float[Array, "..."]
) -> Float[Array, "..."]:
    """The velocity of a momentum, both in the shape of a configuration."""
    return system.velocity(t, q.reshape(-1), p.reshape(-1)).reshape(q.shape)


def _check_times(t0: Numbers, t1: Numbers, steps: int, save_every: int, reversible: bool) -> None:
    if steps % save_every:
        raise ValueError(f"save_every must divide steps={steps}, got {save_every}")
    a_number("t0", t0)
    a_number("t1", t1)
    if isinstance(t0, Tracer) or isinstance(t1, Tracer):
        return
    if not (np.isfinite(t1) and np.isfinite(t0) and t1 != t0):
        raise ValueError(f"t1 must be finite and another time than t0={t0}, got {t1}")
    if not reversible and t1 < t0:
        raise ValueError(
            f"t1 must be later than t0={t0}, got {t1}: impacts, dry friction and plasticity are not followed backwards"
        )


@functools.cache
def _default_method(constrained: bool) -> AbstractCollocation:
    return RadauIIA(3) if constrained else Gauss(3)


def _checked_method(system: AbstractSystem, method: Any, q: AnyArray, constraints: int) -> AbstractMethod:
    """The method asked for or the default one, checked against the system's constraints."""
    if method is None:
        method = _default_method(constraints > 0)
    if not isinstance(method, AbstractMethod):
        raise ValueError(
            f"method must be gd.Gauss(3), gd.RadauIIA(3), gd.methods.Collocation(tableau) or a stepper; got {method!r}"
        )
    if isinstance(method, AbstractCollocation):
        _check_collocation(system, method, q, constraints)
    return method


def _check_collocation(system: AbstractSystem, method: AbstractCollocation, q: AnyArray, constraints: int) -> None:
    """ValueError where collocation cannot follow the system."""
    if formulation_of(method, constraints).at_end and constraints > _count_holonomic(system, q):
        raise ValueError(
            f"formulation={method.formulation!r} bounds only the end of a step, and nonholonomic constraints every "
            "stage: use method=gd.RadauIIA(3)"
        )
    if not system.is_smooth:
        raise ValueError(
            "the system has elements such as gd.friction.DryFriction, whose force jumps where they slip the other "
            "way: collocation cannot follow that, take method=gd.friction.IncrementalPotential()"
        )
    if system.contacts is not None and not method.tableau.has_distinct_nodes:
        raise ValueError(
            "the system has contacts, whose impacts are found on the polynomial of a step: that needs a method "
            f"with distinct nodes, and those of {method.tableau} are {method.tableau.c.tolist()}: take "
            "method=gd.Gauss(3), or gd.RadauIIA(3) where there are constraints"
        )
    if system.contacts is not None and system.contacts.jumping:
        raise ValueError(
            "the system has contacts such as gd.rigid.Polyhedra, whose gaps jump where features lose each other: "
            "no moment of impact can be found there, take method=gd.methods.Moreau()"
        )


def _most_impacts(system: AbstractSystem, method: AbstractMethod, max_impacts: int) -> int:
    """The largest number of impacts; 0 where no contacts are watched: only along the polynomials of a collocation are
    moments of impact found."""
    if system.contacts is None or not isinstance(method, AbstractCollocation):
        return 0
    if max_impacts and system.charts is not None:
        raise ValueError("system has contacts, which need a space of a single chart: give the space another chart")
    return max_impacts


def _count_holonomic(system: AbstractSystem, q: AnyArray) -> int:
    return jax.eval_shape(system.constraint, jnp.zeros((), q.dtype), q.reshape(-1)).size


def _with_rest(
    system: AbstractSystem,
    contacts: Contacts,
    method: AbstractMethod,
    t0: AnyArray,
    h: Scalar,
    q: AnyArray,
    v: AnyArray | None,
) -> AbstractSystem:
    """The system, or, if contacts are pressed at rest from the start, the same system whose contacts may be at rest."""
    if not jit(is_nearly_closed)(system, t0, q.reshape(-1)):
        return system
    first = jit(_initial_state)(system, method, t0, h, q, v)
    _, pressed = jit(pressed_contacts)(system, None, t0, h, first)
    if contacts.with_rest is None or not np.any(pressed):
        return system
    return contacts.with_rest()


def _initial_state(
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


def _at_grid_time(state: State | Moving) -> State:
    """The state without what is known of contacts between two grid times."""
    return state.state if isinstance(state, Moving) else state


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
        first = _initial_state(system, method, t0, h, q, v)
        return start_of_path(system, t0, h, first) if most else first, first.result

    # By our compiler with contacts too: XLA would take seconds to compile which of them are pressed.
    state, result = native_of(begin, system, method, t0, h, q, v)
    return Reached(state, no_facts(q.dtype), result)


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
) -> tuple[Reached, Rows, Struck | None]:
    """(Reached, rows, impacts) after `saves` × `every` steps. The rows are (q, p, λ, frame, local error, v) at the
    start and after every `every`-th step, NaN after a failure. If `made` and `limit` are given, only the first `made`
    saves are computed, with up to `limit` impacts."""
    state = _at_grid_time(begin.state)
    after, (*saved, struck) = _advance(system, method, t0, h, begin.state, saves, every, most, made, limit)
    end = _at_grid_time(after)
    # The multipliers at the start stand in the history behind the velocities; of collocation these are ℓ = hλ.
    multipliers: Float[Array, "s c"] = saved[2]
    n = state.q.shape[0]
    c = multipliers.shape[1]
    lam = state.history[-1, n : n + c] / (1 if isinstance(method, AbstractStepper) else h)
    at_start = (state.q, state.p, lam, state.frame, state.errors[:1])
    q, p, lam, frame, error = (jnp.concatenate([row[None], rows]) for row, rows in zip(at_start, saved, strict=True))
    t = t0 + h * (state.step + every * jnp.arange(saves + 1))
    judged = native_of(judge, system, method, h, state.step == 0, end, begin.facts, (t, q, p, lam), made, most)
    v, lam, facts, result = judged
    return Reached(after, facts, result), (q, p, lam, frame, error, v), struck


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
        return end, (*saved, None)
    # Reverse mode stores the stage values of all steps. If that is too much, the run is checkpointed, so that only the
    # stage values of one piece are stored at a time.
    every = cast(int, every)  # It is static where `made` is not given.
    stored = saves * every * state.history.size * state.q.dtype.itemsize
    least = stored / STAGE_MEMORY
    if least <= 1:
        end, saved = _steps(system, method, t0, h, state, saves, every)
    else:
        end, saved = _checkpointed_steps(system, method, t0, h, state, saves, every, least)
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


class End(NamedTuple):
    """What a trajectory tells of the end of a run: the numbers of steps, of iterations and of Jacobians, the `errors`
    of the last state, and the result."""

    steps: Int[Array, ""]
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]
    errors: Float[Array, " e"]
    result: Int[Array, ""]


def _end_of(reached: Reached) -> End:
    state = _at_grid_time(reached.state)
    return End(state.step, state.iterations, state.jacobians, state.errors, reached.result)


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
) -> tuple[End, Rows, Struck | None]:
    """(end, rows, impacts) of a run from its start, as of `_run`; the derivatives of rows after a failure are NaN."""
    begin = _start_of_run(system, method, t0, h, q, v, most)
    reached, rows, struck = _run(
        system, method, t0, h, begin, saves=saves, every=every, most=most, made=made, limit=limit
    )
    ends = (_at_grid_time(begin.state), _at_grid_time(reached.state))
    # Traced once for all rows.
    lost = jax.tree_util.Partial(jit(_without_derivative), system, method, t0, h, ends, rows[:3], every, most)
    first, *others = rows
    rows = (first, *batched_as(first, tuple(others)))  # Not all depend on what the positions depend on.
    sources = (system, method, t0, h, q, v)
    rows = tuple(no_derivative_where(lost, row, sources) for row in rows)  # One by one, since many need not all.
    return _end_of(reached), rows, struck  # Each array that is returned takes some microseconds.


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
    *_, result = judge(system, method, h, begin.step == 0, end, no_facts(h.dtype), (t, *rows), None, most)
    has_no_digit = (result == RESULTS.digits_lost) | (result == RESULTS.under_resolved)
    return jnp.isnan(rows[0][:, 0]) | has_no_digit


def _trajectory(
    system: AbstractSystem,
    method: AbstractMethod,
    times: tuple[AnyArray, AnyArray, AnyArray],
    q: AnyArray,
    v: AnyArray | None,
    end: End,
    rows: Rows,
    impacts: Impacts | None,
    counts: dict[str, int],
) -> Trajectory:
    columns, h, further = _columns(times, q, v, end, rows, counts=tuple(counts.items()))
    carried = Carried(Run(system, method))
    return Trajectory(*columns, carried=carried, result=end.result, step_size=h, impacts=impacts, **further)


@partial(jax.jit, static_argnames="counts")
def _columns(
    times: tuple[Scalar, Scalar, Scalar],
    q0: Float[Array, "..."],
    v0: Float[Array, "..."] | None,
    end: End,
    rows: Rows,
    *,
    counts: tuple[tuple[str, int], ...],
) -> tuple[tuple[Array, ...], Scalar, dict[str, Any]]:
    """((t, q, v, p, λ), h, the further fields of a `Trajectory`) of the rows, with q, v and p in the shape of a
    configuration. They are made here since that costs less for each call."""
    t0, t1, h = times
    inputs = Inputs(q0, v0, t0, t1, **dict(counts))
    every = inputs.save_every
    # A program that serves any number of saves has room for more rows.
    count = min(len(rows[0]), inputs.steps // every + 1)
    q, p, lam, frame, error, v = (x[:count] for x in rows)
    t = t0 + h * every * jnp.arange(count, dtype=q.dtype)
    shape = (count, *q0.shape)
    # Momenta of which there are not as many as coordinates have no such shape.
    p = p.reshape(shape) if p.shape == q.shape else p
    further = {
        "inputs": inputs,
        "frame": frame if frame.size else None,
        "local_error": error[:, 0],
        "stats": Stats(end.steps, end.iterations, end.jacobians, end.errors[1]),
    }
    return (t, q.reshape(shape), v.reshape(shape), p, lam), h, further


def _concrete_run(
    initial: tuple[AbstractSystem, AbstractMethod, AnyArray, AnyArray, AnyArray, AnyArray | None],
    saves: int,
    every: int,
    most: int,
    size: int,
    folder: Path | None,
    progress: bool,
) -> tuple[End, Rows, Struck | None]:
    """(end, rows, impacts) of a run whose numbers are all known, for states of `size` numbers: by one program that
    serves any number of steps, or by parts if the run is long or in view."""
    in_view = progress or folder is not None
    division = plan(saves, every, size, in_view)
    if in_view or saves > division.room:
        return _by_parts(*initial, most, division, folder, progress)
    return _compiled_run(*initial, **_traced_counts(saves, every, most, division.room))


def _by_parts(
    system: AbstractSystem,
    method: AbstractMethod,
    t0: AnyArray,
    h: AnyArray,
    q: AnyArray,
    v: AnyArray | None,
    most: int,
    division: Plan,
    folder: Path | None,
    progress: bool,
) -> tuple[End, Rows, Struck]:
    """(end, rows, impacts) as `_from_start` returns them, by a host loop over jitted parts."""
    begin = _compiled_start(system, method, t0, h, q, v, min(most, 1))

    def advance(reached: Reached, count: int, stride: int) -> tuple[Reached, Rows, Struck]:
        counts = _traced_counts(count, stride, most, division.room)
        reached, saved, struck = _compiled_part(system, method, t0, h, reached, **counts)
        return reached, saved, struck or ()

    no_rows, no_struck = _no_saves(system, method, begin, most)
    nothing = Piece(begin, no_rows, no_struck, 0)
    pieces = by_parts(advance, nothing, division, folder, progress)
    rows = _join([piece.rows for piece in pieces])
    struck = _join([piece.others for piece in pieces])
    end = pieces[-1].state
    missing = division.rows // division.kept + 1 - len(rows[0])
    # Ctrl-C leaves a shorter run, and a failed step rows of NaN.
    if missing and bool(end.alive):
        end = eqx.tree_at(lambda end: end.result, end, jnp.asarray(RESULTS.interrupted))
    elif missing:
        rows = [np.concatenate([x, np.full((missing, *x.shape[1:]), np.nan, x.dtype)]) for x in rows]
    # Where the initial data lie, as the arrays of a run without parts do.
    rows = jax.device_put(list(rows), getattr(q, "sharding", None))
    return _end_of(end), tuple(rows), struck


def _join(parts: list[tuple[AnyArray, ...]]) -> tuple[np.ndarray, ...]:
    return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)


def _traced_counts(saves: int, every: int, most: int, room: int) -> dict[str, Any]:
    """The options of `_run` for one compiled program that serves any number of steps and of saves up to `room`, and any
    number of impacts up to the next power of 2."""
    counts = {"every": np.array(every), "made": np.array(saves), "limit": np.array(most)}
    next_power_of_2 = 1 << (most - 1).bit_length() if most else 0
    return {"saves": room, "most": next_power_of_2, **counts}


_compiled_start = jit(_start_of_run)
_compiled_run = jit(_from_start)
_compiled_part = jit(_run)


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
