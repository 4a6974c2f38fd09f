"""Many steps of a system with contacts, and their derivative through impacts."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import custom_jvp
from geodyn._engine.native import native, native_linear
from geodyn._engine.tracing import batched_as, once
from geodyn._foundations.typing import Array, Int
from geodyn._integrators.contract.results import RESULTS
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.impacts.impulse import Struck
from geodyn._integrators.impacts.saltation import Walked
from geodyn._integrators.impacts.substep import Moving, Substeps, not_made, substep
from geodyn._integrators.step.methods import formulation_of


@custom_jvp
def path_with_impacts(system: AbstractSystem, t0, h, start: Moving, *, method, steps: int, most: int):
    """(Moving, Substeps) after `steps` grid steps with up to `most` impacts."""
    dynamic, static = eqx.partition((system, t0, h, start), eqx.is_array)

    def run(dynamic):
        system, t0, h, start = eqx.combine(dynamic, static)
        last = start.state.step + steps
        start = batched_as(dynamic, start)

        def one(moving, _):
            grid = t0 + h * (moving.state.step + 1)
            active = moving.state.alive & (moving.state.step < last)

            # By `once` the turns of the scan that are reserved for impacts cost nothing if these do not occur.
            def made(moving, _):
                return substep(method, system, grid, h, moving, active)

            nothing = not_made(method, moving)
            return once(active, made, moving, batched_as(moving, nothing))

        after, record = jax.lax.scan(one, start, None, length=steps + most)
        return ended(after, last, most), record

    return native(run, dynamic)


def advance_with_impacts(system, method, t0, h, start: Moving, saves: int, every: int, most: int):
    """(end, (q, p, λ, frame, local error, impacts)) after `saves` × `every` steps with up to `most` impacts. The values
    are those after every `every`-th step, q, p and λ NaN after a failure. The impacts are (t, contact, impulse),
    padded."""
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
    contact: Int[Array, "r k"] = jnp.where(struck.pushed, struck.which, -1)
    rows = padded(most, *(x.reshape(-1) for x in (times, contact, struck.impulse)))
    same = [jnp.broadcast_to(x, (saves, x.size)) for x in (start.state.frame, start.state.errors[:1])]
    return after, (*saved, *same, rows)


def walked_with_impacts(
    system, method, t0, h, start: Moving, saves: int, every, most: int, made, limit
) -> tuple[Moving, tuple]:
    """The same as `advance_with_impacts` for the first `made` of the saves and up to `limit` impacts. The arrays have
    room for `saves` saves and `most` impacts, so that one program serves all smaller numbers. The other saves are
    NaN."""
    n, c = start.state.q.size, system.count_constraints(start.state.q)
    dynamic, static = eqx.partition((system, t0, h, start, every, made, limit), eqx.is_array)

    def run(dynamic):
        system, t0, h, start, every, made, limit = eqx.combine(dynamic, static)
        first = start.state.step
        last = first + every * made

        def going(carry):
            moving, _, _, count, _ = carry
            return moving.state.alive & (moving.state.step < last) & (count < every * made + limit)

        def one(carry):
            before, rows, hits, count, struck = carry
            grid = t0 + h * (before.state.step + 1)
            moving, record = substep(method, system, grid, h, before, going(carry))
            done = record.step - first
            saved = record.good & (record.step > before.state.step) & (done % every == 0)
            row = [record.q, record.p, record.w[-1, n : n + c] / record.length]
            rows = written(rows, saved, done // every - 1, row)
            hit = jnp.any(record.struck.pushed)
            which = jnp.where(record.struck.pushed, record.struck.which, -1)
            times = jnp.broadcast_to(record.time, which.shape)
            # Impacts for which there is no room are written to the last row, which is not read.
            hits = written(hits, hit, jnp.minimum(struck, most), [times, which, record.struck.impulse])
            return moving, rows, hits, count + 1, struck + hit

        rows = [jnp.full((saves, size), jnp.nan, h.dtype) for size in (n, start.state.p.size, c)]
        k, zero = not_made(method, start).struck.which.size, jnp.zeros((), int)
        hits = [
            jnp.full((most + 1, k), jnp.inf, h.dtype),
            jnp.full((most + 1, k), -1),
            jnp.zeros((most + 1, k), h.dtype),
        ]
        after, rows, hits, *_ = jax.lax.while_loop(going, one, (start, rows, hits, zero, zero))
        return ended(after, last, limit), rows, hits

    after, rows, hits = native(run, dynamic)
    same = [jnp.broadcast_to(x, (saves, x.size)) for x in (start.state.frame, start.state.errors[:1])]
    return after, (*rows, *same, padded(most, *(x.reshape(-1) for x in hits)))


def written(arrays, wanted, place, row):
    """The arrays with `row` written at this place, if it is `wanted`."""
    place = jnp.clip(place, 0, len(arrays[0]) - 1)

    def put(x, new):
        old = jax.lax.dynamic_index_in_dim(x, place, keepdims=False)
        kept = jnp.asarray(jnp.where(wanted, new, old), x.dtype)
        return jax.lax.dynamic_update_index_in_dim(x, kept, place, 0)

    return list(map(put, arrays, row))


def ended(after: Moving, last, most) -> Moving:
    """The end of a path, whose result is a failure if it is not the `last` step or if there were too many impacts."""
    state = after.state
    exhausted = state.alive & ((state.step < last) | (after.struck > most))
    reason = jnp.where(after.struck < most, RESULTS.contact_unresolved, RESULTS.too_many_impacts)
    return eqx.tree_at(lambda m: m.state.result, after, jnp.where(exhausted, reason, state.result))


def no_impacts(dtype):
    """(t, contact, impulse) of no impact: a row of padding."""
    return np.full(1, np.inf, dtype), np.full(1, -1), np.zeros(1, dtype)


def padded(size: int, t, contact, impulse):
    """(t, contact, impulse) as arrays of length `size`: the impacts, then padding with t = ∞, contact = −1,
    impulse = 0."""
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

    def places(m):
        return (m.time, m.state.q, m.state.p)

    ends = (change.time[-1], change.q[-1], change.p[-1])
    return (after, record), (eqx.tree_at(places, none, ends, is_leaf=lambda x: x is None), change)


def _tangent(system, t0, h, start, record, rates, motion, method):
    """The tangents after every substep, linear in `rates`, the tangents of (system, t0, h), and in `motion`, those of
    (time, q, p) at the start."""
    formulation = formulation_of(method, system.count_constraints(start.state.q))

    def shifted(first, rest):
        return jnp.concatenate([first[None], rest[:-1]])

    before = (
        shifted(start.state.step, record.step),
        shifted(start.time, record.time),
        shifted(start.state.q, record.q),
        shifted(start.state.p, record.p),
    )
    arrays, static = eqx.partition((system, t0, h), eqx.is_array)

    def leg(arrays, x):
        system, t0, h = eqx.combine(arrays, static)
        return Walked(system, t0, h, *x[0], x[1], method.tableau, formulation)

    def delays(known):
        arrays, xs = known
        return jax.lax.map(lambda x: leg(arrays, x).delay(), xs)

    def recursion(known, t):
        arrays, delay, xs = known

        def one(t, x):
            (*rates, dt, dq, dp), (delay, x) = t, x
            changes, *others = leg(arrays, x).tangent(rates, (dt, dq, dp), delay)
            return (*rates, *changes), (*changes, *others)

        return jax.lax.scan(jax.checkpoint(one, prevent_cse=False), t, (delay, xs))[1]

    origin = (start.time, start.state.q, start.state.p)
    t = (*rates, *(jnp.zeros_like(x) if d is None else d for x, d in zip(origin, motion, strict=True)))
    xs = (before, record)
    known = (arrays, native(delays, (arrays, xs)), xs)
    dts, dqs, dps, dws, djs, dlengths = native_linear(recursion, known, t)
    struck = Struck(None, None, None, djs)
    return Substeps(None, dts, dlengths, dqs, dps, dws, struck, (None, None), None)
