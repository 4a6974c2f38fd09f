"""From chart to chart between two steps: where a configuration leaves the charts that suit it, it is told in others,
with its velocity, and the momentum that belongs to that. The motion is the same."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn.integrators.contract.results import RESULTS
from geodyn.integrators.contract.system import AbstractSystem
from geodyn.integrators.step.iteration import once


def start_frame(system: AbstractSystem, q):
    """The frame of the charts in which a motion starts."""
    return system.charts.start_frame(q) if system.charts is not None else jnp.zeros(0, q.dtype)


def no_switch(system: AbstractSystem, q):
    """The switch that leaves all in its chart."""
    like = jax.eval_shape(system.charts.switch, q) if system.charts is not None else jax.ShapeDtypeStruct((0,), q.dtype)
    return jnp.zeros(like.shape, like.dtype)


def in_best_charts(system: AbstractSystem, t, state):
    """(state, switch): the state in the charts that suit it, and the switch that led there, zeros where it stays."""
    if system.charts is None:
        return state, no_switch(system, state.q)
    switch = system.charts.switch(state.q)
    move = partial(_in_charts, system, t, switch)
    return once(jnp.any(switch != 0), lambda state: (move(state),), state)[0], switch


def _in_charts(system, t, switch, state):
    """The state in the charts of a switch; it fails where its energy depends on the charts, by more than √ε."""
    v = system.velocity(t, state.q, state.p)
    q, u = jax.jvp(lambda q: system.charts.switched(switch, q), (state.q,), (v,))
    p = system.momentum(t, q, u)
    before, after = system.energy(t, state.q, v), system.energy(t, q, u)
    agree = jnp.abs(before - after) <= jnp.sqrt(jnp.finfo(q.dtype).eps) * (jnp.abs(before) + jnp.abs(jnp.dot(p, u)))
    # The velocity is the next guess: extrapolated, what a chart makes of past stage values would lead far off.
    new = (
        *(
            q,
            p,
            jax.tree.map(jnp.zeros_like, state.rounding),
            state.constant(u),
            system.charts.moved_frame(state.frame, switch),
        ),
        jnp.where(state.alive & ~agree, RESULTS.charts_disagree, state.result),
        jnp.zeros_like(state.since),
    )
    return eqx.tree_at(lambda s: (s.q, s.p, s.rounding, s.history, s.frame, s.result, s.since), state, new)


def switched_tangent(primals, tangents):
    """The change of (q, p), as a switch has it, with (system, t, q, p); the switch itself does not change."""
    system, t, switch, q, p = primals
    *others, dq, dp = tangents

    def switched(system, t, q, p):
        moved, v = jax.jvp(lambda q: system.charts.switched(switch, q), (q,), (system.velocity(t, q, p),))
        return moved, system.momentum(t, moved, v)

    def move(dq, dp):
        return eqx.filter_jvp(switched, (system, t, q, p), (*others, dq, dp))[1]

    return jax.lax.cond(jnp.any(switch != 0), move, lambda *d: d, dq, dp)
