"""Many steps of a one-step method other than collocation, by a plain scan."""

import jax
import jax.numpy as jnp

from geodyn._engine.tracing import batched_as
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Float, Int, Scalar
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.step.charts import in_best_charts, start_frame
from geodyn._integrators.step.errors import no_errors
from geodyn._integrators.step.methods import AbstractStepper, State
from geodyn._integrators.step.path import Whole, turns


def start_stepper(
    system: AbstractSystem,
    method: AbstractStepper,
    t: Scalar,
    h: Scalar,
    q: Float[Array, " n"],
    p: Array,
    v: Float[Array, " n"],
) -> State:
    """The state before the first step, whose history holds (v, λ)."""
    lam = method.start(system, t, h, q, p, v)
    zero, rounding = jnp.zeros((), int), (jnp.zeros_like(q), jnp.zeros_like(p))
    history = jnp.tile(jnp.concatenate([v, lam]), (2, 1))
    frame = start_frame(system, q)
    return State(zero, q, p, rounding, history, zero, zero, zero, frame, zero, no_errors(q.dtype), q)


def run_stepper(
    system: AbstractSystem,
    t0: Scalar,
    h: Scalar,
    state: State,
    *,
    method: AbstractStepper,
    saves: int,
    every: Whole,
    made: Whole | None = None,
) -> tuple[State, tuple]:
    """(state, (q, p, λ, frame, local error)) after `saves` × `every` steps, of which every `every`-th is saved, NaN
    after a failure. If `made` is given, only the first `made` saves are computed, as in `path.walk`."""
    n = state.q.shape[0]

    def several(state: State, row: Int[Array, ""]) -> tuple[State, tuple]:
        count = every if made is None else turns(row, made, every)
        state = jax.lax.fori_loop(0, count, lambda _, state: _step(method, system, t0, h, state), state)
        saved = state.q, state.p, state.history[-1, n:], state.frame, state.errors[:1]
        return state, jax.tree.map(lambda x: jnp.where(state.alive, x, jnp.nan), saved)

    start = batched_as((system, t0, h, state.q, state.p), state)
    return jax.lax.scan(several, start, jnp.arange(saves))


def _step(method: AbstractStepper, system: AbstractSystem, t0: Scalar, h: Scalar, state: State) -> State:
    """The state after one step. If the step fails, q, p and λ stay as they were, and `result` says why."""
    n = state.q.shape[0]
    t = t0 + h * state.step
    new = method.advance(system, t, h, state.q, state.p, state.history[-1, n:])
    finite = jnp.all(jnp.isfinite(jnp.concatenate([new.q, new.p, new.lam])))
    good = state.alive & new.converged & finite

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(good, new, old)

    last = jnp.concatenate([state.history[-1, :n], new.lam])
    state = State(
        state.step + state.alive,
        keep(new.q, state.q),
        keep(new.p, state.p),
        state.rounding,
        keep(jnp.stack([state.history[-1], last]), state.history),
        jnp.where(state.alive & ~good, jnp.where(finite, RESULTS.not_converged, RESULTS.not_finite), state.result),
        state.iterations + jnp.where(state.alive, new.iterations, 0),
        state.jacobians,
        state.frame,
        state.since,
        state.errors,
        state.origin,
    )
    return in_best_charts(system, t + h, state)[0]
