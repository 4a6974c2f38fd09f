"""The path of a system with contacts, and its derivative: that of `path`, with dτ = −d gap / (d gap/dτ) where a substep
of length τ ends at an impact (the saltation matrix: Aizerman & Gantmacher 1958; Leine & Nijmeijer, Dynamics and
Bifurcations of Non-Smooth Mechanical Systems, 2004).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._native import native, native_linear
from geodyn.integrators.collocation import Problem
from geodyn.integrators.impulse import Struck, picked, strike_tangent
from geodyn.integrators.methods import formulation_of, increments
from geodyn.integrators.resting import Resting
from geodyn.integrators.stages import stage_tangent
from geodyn.integrators.substep import SETTLING, TOO_MANY_IMPACTS, Moving, Substeps, substep
from geodyn.integrators.system import AbstractCollidingSystem


@eqx.filter_custom_jvp
def path_with_impacts(system: AbstractCollidingSystem, t0, h, start: Moving, *, method, steps: int, most: int):
    """(Moving, Substeps): `steps` steps with up to `most` impacts."""
    dynamic, static = eqx.partition((system, t0, h, start), eqx.is_array)

    def run(dynamic):
        system, t0, h, start = eqx.combine(dynamic, static)
        last = start.state.step + steps

        def one(moving, _):
            grid = t0 + h * (moving.state.step + 1)
            active = moving.state.alive & (moving.state.step < last)
            return substep(method, system, grid, h, moving, active)

        after, record = jax.lax.scan(one, start, None, length=steps + most)
        state = after.state
        exhausted = state.alive & ((state.step < last) | (after.struck > most))
        result = jnp.where(exhausted, TOO_MANY_IMPACTS, state.result)
        return eqx.tree_at(lambda m: m.state.result, after, result), record

    return native(run, dynamic, size=_size(method, start.state), turns=steps)


def _size(method, state):
    return method.tableau.stages * state.history.shape[1]


def advance_with_impacts(system, method, t0, h, start: Moving, saves: int, every: int, most: int):
    """`saves` × `every` steps with up to `most` impacts: where they end, and (q, p, λ) after every `every`-th step, NaN
    after a failure; with it (t, contact, impulse) of every impact, padded."""
    after, record = path_with_impacts(system, t0, h, start, method=method, steps=saves * every, most=most)
    n, c = start.state.q.size, system.count_constraints(start.state.q)
    wanted = start.state.step + every * (1 + jnp.arange(saves))
    last = record.step.size - 1
    at = jnp.minimum(jnp.searchsorted(record.step, wanted), last)
    reached = record.good[at] & (record.step[at] == wanted)
    lam = record.w[at, -1, n : n + c] / record.length[at, None]
    saved = [jnp.where(reached[:, None], x, jnp.nan) for x in (record.q[at], record.p[at], lam)]
    struck = record.struck
    times = jnp.broadcast_to(record.time[:, None], struck.impulse.shape)
    contact = jnp.where(struck.pushed, struck.which, -1)
    rows = padded(most, *(x.reshape(-1) for x in (times, contact, struck.impulse)))
    return after, (*saved, rows)


def no_impacts(dtype):
    """(t, contact, impulse) of none: a row of padding."""
    return np.full(1, np.inf, dtype), np.full(1, -1), np.zeros(1, dtype)


def padded(size: int, t, contact, impulse):
    """(t, contact, impulse)[size]: the impacts first, then t = ∞, contact = −1, impulse = 0."""
    valid = contact >= 0
    order = jnp.argsort(~valid, stable=True)[:size]
    order = jnp.concatenate([order, jnp.zeros(size - order.size, order.dtype)])
    valid = valid[order] & (jnp.arange(size) < jnp.sum(valid))
    return tuple(jnp.where(valid, x[order], nothing) for x, nothing in ((t, jnp.inf), (contact, -1), (impulse, 0)))


@path_with_impacts.def_jvp
def _(primals, tangents, *, method, steps, most):
    system, t0, h, start = primals
    after, record = path_with_impacts(*primals, method=method, steps=steps, most=most)
    given = tangents[3]
    motion = (given.time, given.state.q, given.state.p)
    change = _tangent(system, t0, h, start, record, tangents[:3], motion, method)
    none = jax.tree.map(lambda x: None, after)
    places = lambda m: (m.time, m.state.q, m.state.p)  # noqa: E731
    ends = (change.time[-1], change.q[-1], change.p[-1])
    return (after, record), (eqx.tree_at(places, none, ends, is_leaf=lambda x: x is None), change)


def _tangent(system, t0, h, start, record, rates, motion, method):
    """Changes after every substep, linear in the changes of (system, t0, h) and of (time, q, p) at the start."""
    formulation = formulation_of(method, system.count_constraints(start.state.q))
    shifted = lambda first, rest: jnp.concatenate([first[None], rest[:-1]])  # noqa: E731
    before = (
        shifted(start.state.step, record.step),
        shifted(start.time, record.time),
        shifted(start.state.q, record.q),
        shifted(start.state.p, record.p),
    )
    arrays, static = eqx.partition((system, t0, h), eqx.is_array)

    def recursion(known, t):
        arrays, xs = known
        system, t0, h = eqx.combine(arrays, static)

        def one(t, x):
            *rates, dt, dq, dp = t
            changes, dw, dj = _substep_tangent(system, t0, h, rates, (dt, dq, dp), x, method.tableau, formulation)
            return (*rates, *changes), (*changes, dw, dj)

        return jax.lax.scan(jax.checkpoint(one, prevent_cse=False), t, xs)[1]

    origin = (start.time, start.state.q, start.state.p)
    t = (*rates, *(jnp.zeros_like(x) if d is None else d for x, d in zip(origin, motion, strict=True)))
    known = (arrays, (before, record))
    dts, dqs, dps, dws, djs = native_linear(recursion, known, t, size=_size(method, start.state), turns=0)
    struck = Struck(None, None, None, djs)
    return Substeps(None, dts, None, dqs, dps, dws, struck, (None, None), None)


def _substep_tangent(system, t0, h, rates, motion, x, tableau, formulation):
    """(changes of (time, q, p) after a substep, of its stage values, of the impulses at its end)."""
    (k, t, q, p), record = x
    dt, dq, dp = motion
    w, good, struck = record.w, record.good, record.struck
    hit, landed = good & jnp.any(struck.pushed), good & (record.step > k)

    def pose(system, t, length, q, p):
        watched = system if system.elastic else Resting(system, *record.held, SETTLING * h, differentiable=True)
        return Problem(watched, t, length, q, p, tableau, formulation)

    here = (system, t, record.length, q, p)
    problem = pose(*here)
    dgrid = eqx.filter_jvp(lambda t0, h: t0 + h * (k + 1), (t0, h), tuple(rates[1:]))[1]
    dgrid = jnp.zeros_like(t) if dgrid is None else dgrid
    dlength = jnp.where(landed, dgrid - dt, 0)
    given = eqx.filter_jvp(pose, here, (rates[0], dt, dlength, dq, dp))[1]
    # How the end moves with the length of the substep: needed where that is the moment of an impact.
    still = jax.tree.map(lambda x: None, system), None, jnp.ones_like(t), None, None
    longer = eqx.filter_jvp(pose, here, still)[1]

    def ended(rate, active):
        dw = jnp.where(active, stage_tangent(problem, rate, w, active), 0)
        added = eqx.filter_jvp(increments, (problem, w), (rate, dw))[1]
        return *(jnp.zeros_like(x) if d is None else jnp.where(active, d, 0) for d, x in zip(added, (q, p))), dw

    (dq_, dp_, dw), (q_rate, p_rate, w_rate) = ended(given, good), ended(longer, hit)
    dq, dp = dq + dq_, dp + dp_
    weight = jnp.abs(struck.impulse) / jnp.where(hit, jnp.sum(jnp.abs(struck.impulse)), 1)
    gap = lambda system, t, q: jnp.dot(weight, picked(system.gap(t, q), struck.which))  # noqa: E731
    at = (system, record.time, record.q)
    closing = eqx.filter_jvp(gap, at, (still[0], jnp.ones_like(t), q_rate))[1]
    opened = eqx.filter_jvp(gap, at, (rates[0], dt, dq))[1]
    late = jnp.where(hit, -opened / jnp.where(hit, closing, 1), 0)
    dq, dp, dw = dq + late * q_rate, dp + late * p_rate, dw + late * w_rate
    dt = jnp.where(landed, dgrid, dt + late)
    primals = (*at, p + increments(problem, w)[1])
    struck_p, dj = strike_tangent(primals, (rates[0], dt, dq, dp), struck)
    return (dt, dq, jnp.where(hit, struck_p, dp)), dw, jnp.where(hit, dj, 0)
