"""Many steps of a Runge–Kutta method, with the tangent and the discrete adjoint of the whole path.

The stage values of all steps solve one large system of equations, whose derivative is a linear recursion over the
steps. Run forwards it is the tangent, run backwards the discrete adjoint. So neither mode differentiates an iteration,
and reverse mode stores the stage values only (Hairer, Lubich & Wanner, VI.4: the adjoint of a symplectic method is the
same method, applied to the adjoint equation).
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._engine.jit import custom_jvp, jit
from geodyn._engine.native import native, native_linear
from geodyn._foundations.typing import Array, Bool, Float, Int, Scalar
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.step.charts import no_switch, switched_tangent
from geodyn._integrators.step.collocation import Problem
from geodyn._integrators.step.methods import AbstractCollocation, State, formulation_of, step
from geodyn._integrators.step.stages import step_tangent

# A number of steps or of saves: static, or an argument of a program that serves any number.
Whole = int | Int[Array, ""]


class Steps(NamedTuple):
    """The values after every saved step: q, p, the stage values, whether the step succeeded, the switch of charts at
    its end, the frame of the charts, and the local error."""

    q: Array
    p: Array
    w: Array
    good: Bool[Array, " T"]
    switch: Array
    frame: Array
    error: Array


@custom_jvp
def path(
    system: AbstractSystem, t0: Scalar, h: Scalar, state: State, *, method: AbstractCollocation, saves: int, every: int
) -> tuple[State, Steps]:
    """(state, Steps) after `saves` × `every` steps, of which every `every`-th is saved."""
    # Traced once, though its derivative needs it too.
    return jit(walk)(system, t0, h, state, method, saves, every)


def walk(
    system: AbstractSystem,
    t0: Scalar,
    h: Scalar,
    state: State,
    method: AbstractCollocation,
    saves: int,
    every: Whole,
    made: Whole | None = None,
) -> tuple[State, Steps]:
    """The computation of `path`. If `made` is given, only the first `made` saves are computed, and the others mean
    nothing; then `made` and `every` may be traced."""
    formulation = formulation_of(method, system.count_constraints(state.q))
    dynamic, static = eqx.partition((system, t0, h, state, every, made), eqx.is_array)

    def run(dynamic: tuple) -> tuple[State, Steps]:
        system, t0, h, state, every, made = eqx.combine(dynamic, static)

        def advance(state: State) -> tuple[State, Array, Array]:
            return step(method, formulation, system, t0, h, state)

        def several(state: State, row: Int[Array, ""]) -> tuple[State, Steps]:
            if made is None and every == 1:
                state, w, switch = advance(state)
            else:  # The step appears only once in the program, since compiling it takes most of the compile time.
                count = every if made is None else turns(row, made, every)
                begin = state, state.history[method.tableau.stages :], no_switch(system, state.q)
                state, w, switch = jax.lax.fori_loop(0, count, lambda _, x: advance(x[0]), begin)
            return state, Steps(state.q, state.p, w, state.alive, switch, state.frame, state.errors[:1])

        return jax.lax.scan(several, state, jnp.arange(saves))

    return native(run, dynamic)


@path.def_jvp
def _(primals: tuple, tangents: tuple, *, method: AbstractCollocation, saves: int, every: int) -> tuple:
    system, t0, h, state = primals
    # Every step is needed for the derivative, whatever is saved.
    after, steps = path(*primals, method=method, saves=saves * every, every=1)
    moving = (*tangents[:3], tangents[3].q, tangents[3].p)
    change = _tangent(system, t0, h, state, steps, moving, method)
    saved, change = jax.tree.map(lambda x: x[every - 1 :: every], (steps, change))
    none = jax.tree.map(lambda x: None, after)
    end = eqx.tree_at(lambda s: (s.q, s.p), none, (change.q[-1], change.p[-1]), is_leaf=lambda x: x is None)
    return (after, saved), (end, change)


def turns(row: Int[Array, ""], rows: Whole, every: Whole) -> Int[Array, ""]:
    """The number of steps that lead to this row: `every` for the first `rows` rows, zero for the others."""
    return jnp.where(row < rows, every, 0)


def _tangent(
    system: AbstractSystem,
    t0: Scalar,
    h: Scalar,
    state: State,
    steps: Steps,
    moving: tuple,
    method: AbstractCollocation,
) -> Steps:
    """The tangents of q, p, w after every step, linear in `moving`, the tangents of (system, t0, h, q, p). A tangent of
    None is zero."""
    formulation = formulation_of(method, system.count_constraints(state.q))
    before = [jnp.concatenate([x[None], xs[:-1]]) for x, xs in ((state.q, steps.q), (state.p, steps.p))]
    count = state.step + jnp.arange(steps.good.shape[0])
    arrays, static = eqx.partition((system, t0, h), eqx.is_array)
    *rates, dq, dp = moving

    def recursion(known: tuple, t: tuple) -> tuple[Array, Array, Array]:
        arrays, xs = known
        system, t0, h = eqx.combine(arrays, static)

        def one(t: tuple, x: tuple) -> tuple[tuple, tuple[Array, Array, Array]]:
            # The tangents of the parameters are in the carry, since JAX transposes a scan that is linear in its carry.
            *rates, dq, dp = t
            k, q, p, w, good, switch = x

            def pose(system: AbstractSystem, t0: Scalar, h: Scalar, q: Float[Array, " n"], p: Array) -> Problem:
                return Problem(system, t0 + h * k, h, q, p, method.tableau, formulation)

            problem, rate = eqx.filter_jvp(pose, (system, t0, h, q, p), (*rates, dq, dp))
            change, added, dw = step_tangent(problem, rate, w, good)
            dw = jnp.where(good, dw, 0)
            # Without any force the tangent of p' is not an array but None, which stands for zero.
            dq, dp = (c if a is None else c + jnp.where(good, a, 0) for c, a in zip((dq, dp), added, strict=True))
            if system.charts is not None:
                end, dend = eqx.filter_jvp(lambda t0, h: t0 + h * (k + 1), (t0, h), tuple(rates[1:]))
                at = (system, end, switch, q + change[0], p + change[1])
                dq, dp = switched_tangent(at, (rates[0], dend, dq, dp))
            return (*rates, dq, dp), (dq, dp, dw)

        return jax.lax.scan(jax.checkpoint(one, prevent_cse=False), t, xs)[1]

    t = (*rates, *(jnp.zeros_like(x) if d is None else d for x, d in ((state.q, dq), (state.p, dp))))
    known = (arrays, (count, *before, steps.w, steps.good, steps.switch))
    dqs, dps, dws = native_linear(recursion, known, t)
    none: Any = None
    return Steps(dqs, dps, dws, none, none, none, none)
