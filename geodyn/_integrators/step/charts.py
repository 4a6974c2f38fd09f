"""Change of charts between two steps. A configuration that leaves the charts that suit it is transformed to the
coordinates of others, with its velocity and momentum. The motion stays the same."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._engine.tracing import once
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Float, PyTree, Scalar
from geodyn._integrators.contract.system import AbstractSystem


def start_frame(system: AbstractSystem, q: Float[Array, " n"]) -> Array:
    """The frame of the charts in which a motion starts; empty for a system with one chart."""
    return system.charts.start_frame(q) if system.charts is not None else jnp.zeros(0, q.dtype)


def no_switch(system: AbstractSystem, q: Float[Array, " n"]) -> Array:
    """The switch that changes no chart: zeros."""
    like = jax.eval_shape(system.charts.switch, q) if system.charts is not None else jax.ShapeDtypeStruct((0,), q.dtype)
    return jnp.zeros(like.shape, like.dtype)


def in_best_charts(system: AbstractSystem, t: Scalar, state: PyTree) -> tuple[PyTree, Array]:
    """(state, switch): the state in the charts that suit it, and the switch that led there, zeros if it stays."""
    if system.charts is None:
        return state, no_switch(system, state.q)
    switch = system.charts.switch(state.q)
    move = partial(_in_charts, system, t, switch)
    return once(jnp.any(switch != 0), lambda state: (move(state),), state)[0], switch


def _in_charts(system: AbstractSystem, t: Scalar, switch: Array, state: PyTree) -> PyTree:
    """The state after a switch of charts. It fails if the energies in the old and the new charts differ by more than
    √ε, relative to their size."""
    charts = system.charts
    assert charts is not None
    v = system.velocity(t, state.q, state.p)
    q, u = jax.jvp(lambda q: charts.switched(switch, q), (state.q,), (v,))
    p = system.momentum(t, q, u)
    before, after = system.energy(t, state.q, v), system.energy(t, q, u)
    agree = jnp.abs(before - after) <= jnp.sqrt(jnp.finfo(q.dtype).eps) * (jnp.abs(before) + jnp.abs(jnp.dot(p, u)))
    # The next guess is the velocity: an extrapolation of past stage values, transformed to the new chart, would be far
    # off.
    new = (
        *(
            q,
            p,
            jax.tree.map(jnp.zeros_like, state.rounding),
            state.constant(u),
            charts.moved_frame(state.frame, switch),
        ),
        jnp.where(state.alive & ~agree, RESULTS.charts_disagree, state.result),
        jnp.zeros_like(state.since),
    )
    return eqx.tree_at(lambda s: (s.q, s.p, s.rounding, s.history, s.frame, s.result, s.since), state, new)


def switched_tangent(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    """The tangents of (q, p) after a switch, from those of (system, t, q, p); the switch itself is constant."""
    system, t, switch, q, p = primals
    *others, dq, dp = tangents

    def switched(system: AbstractSystem, t: Scalar, q: Float[Array, " n"], p: Array) -> tuple[Array, Array]:
        charts = system.charts
        assert charts is not None
        moved, v = jax.jvp(lambda q: charts.switched(switch, q), (q,), (system.velocity(t, q, p),))
        return moved, system.momentum(t, moved, v)

    def move(dq: Array, dp: Array) -> tuple[Array, Array]:
        return eqx.filter_jvp(switched, (system, t, q, p), (*others, dq, dp))[1]

    return jax.lax.cond(jnp.any(switch != 0), move, lambda *d: d, dq, dp)
