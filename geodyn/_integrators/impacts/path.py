"""Many steps of a system with contacts, and their derivative through impacts.

Letters of the shapes: n coordinates, c constraints, S substeps, s saves, i impacts, K contacts that may be struck in
one impact.
"""

from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import custom_jvp
from geodyn._engine.native import native, native_linear, native_of
from geodyn._engine.tracing import batched_as, once
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Bool, Float, Int, Scalar
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.impacts.impulse import Struck
from geodyn._integrators.impacts.saltation import Delay, Walked
from geodyn._integrators.impacts.substep import Moving, Substeps, not_made, substep
from geodyn._integrators.step.methods import AbstractCollocation, formulation_of

Written = TypeVar("Written", bound=tuple)


class Saves(NamedTuple):
    """The values after every save: q, p and λ, the frame of the chart and the local error, which contacts leave as they
    were at the start; and the (t, contact, impulse) of the impacts, padded."""

    q: Float[Array, "s n"]
    p: Float[Array, "s n"]
    lam: Float[Array, "s c"]
    frame: Float[Array, "s f"]
    error: Float[Array, "s 1"]
    impacts: tuple[Float[Array, " i"], Int[Array, " i"], Float[Array, " i"]]


class Rows(NamedTuple):
    """q, p and λ of every save, or of one of them."""

    q: Float[Array, "*s n"]
    p: Float[Array, "*s n"]
    lam: Float[Array, "*s c"]


class Hits(NamedTuple):
    """For every impact, or for one of them, the time, the number and the impulse of each contact that was struck; the
    number is −1 where fewer than K were."""

    time: Float[Array, "*i K"]
    contact: Int[Array, "*i K"]
    impulse: Float[Array, "*i K"]


class Walk(NamedTuple):
    """A path on its way: the state, what was saved and what struck so far, the number of substeps, and the number of
    impacts, each of which may have been of several contacts."""

    moving: Moving
    rows: Rows
    hits: Hits
    count: Int[Array, ""]
    struck: Int[Array, ""]


class Recorded(NamedTuple):
    """A substep, with the grid step, time, q and p from which it started."""

    step: Int[Array, "*S"]
    time: Float[Array, "*S"]
    q: Float[Array, "*S n"]
    p: Float[Array, "*S n"]
    record: Substeps


@custom_jvp
def path_with_impacts(
    system: AbstractSystem,
    t0: Scalar,
    h: Scalar,
    start: Moving,
    *,
    method: AbstractCollocation,
    steps: int,
    most: int,
) -> tuple[Moving, Substeps]:
    """The end, and the record of all substeps, after `steps` grid steps with up to `most` impacts."""

    def run(system: AbstractSystem, t0: Scalar, h: Scalar, start: Moving) -> tuple[Moving, Substeps]:
        last = start.state.step + steps
        start = batched_as((system, t0, h, start), start)

        def one(moving: Moving, _: None) -> tuple[Moving, Substeps]:
            grid = t0 + h * (moving.state.step + 1)
            active = moving.state.alive & (moving.state.step < last)

            # By `once` the turns of the scan that are reserved for impacts cost nothing if these do not occur.
            def made(moving: Moving, _: Substeps) -> tuple[Moving, Substeps]:
                return substep(method, system, grid, h, moving, active)

            nothing = not_made(method, moving)
            return once(active, made, moving, batched_as(moving, nothing))

        after, record = jax.lax.scan(one, start, None, length=steps + most)
        return with_result(after, last, most), record

    return native_of(run, system, t0, h, start)


def advance_with_impacts(
    system: AbstractSystem,
    method: AbstractCollocation,
    t0: Scalar,
    h: Scalar,
    start: Moving,
    saves: int,
    every: int,
    most: int,
) -> tuple[Moving, Saves]:
    """The end, and what is saved, after `saves` × `every` steps with up to `most` impacts. Saved are the states after
    every `every`-th step, with q, p and λ NaN after a failure."""
    after, record = path_with_impacts(system, t0, h, start, method=method, steps=saves * every, most=most)
    n = start.state.q.size
    c = system.count_constraints(start.state.q)
    wanted = start.state.step + every * (1 + jnp.arange(saves))
    last = record.step.size - 1
    # The first substep after which so many grid steps are done is the one that ends there.
    at = jnp.minimum(jnp.searchsorted(record.step, wanted), last)
    reached = record.good[at] & (record.step[at] == wanted)
    lam = record.w[at, -1, n : n + c] / record.length[at, None]

    def where_reached(x: Float[Array, "s _"]) -> Float[Array, "s _"]:
        return jnp.where(reached[:, None], x, jnp.nan)

    struck = record.struck
    times = jnp.broadcast_to(record.time[:, None], struck.impulse.shape)
    contact: Int[Array, "S K"] = jnp.where(struck.pushed, struck.which, -1)
    impacts = with_padding(most, times.reshape(-1), contact.reshape(-1), struck.impulse.reshape(-1))
    frame, error = _of_the_start(start, saves)
    saved = Saves(
        q=where_reached(record.q[at]),
        p=where_reached(record.p[at]),
        lam=where_reached(lam),
        frame=frame,
        error=error,
        impacts=impacts,
    )
    return after, saved


def walk_with_impacts(
    system: AbstractSystem,
    method: AbstractCollocation,
    t0: Scalar,
    h: Scalar,
    start: Moving,
    saves: int,
    every: Int[Array, ""] | int,
    most: int,
    made: Int[Array, ""] | int,
    limit: Int[Array, ""] | int,
) -> tuple[Moving, Saves]:
    """The same as `advance_with_impacts` for the first `made` of the saves and up to `limit` impacts. The arrays have
    room for `saves` saves and `most` impacts, so that one program serves all smaller numbers. The other saves are
    NaN."""
    n = start.state.q.size
    c = system.count_constraints(start.state.q)

    def run(
        system: AbstractSystem,
        t0: Scalar,
        h: Scalar,
        start: Moving,
        every: Int[Array, ""],
        made: Int[Array, ""],
        limit: Int[Array, ""],
    ) -> tuple[Moving, Rows, Hits]:
        first = start.state.step
        last = first + every * made

        def proceed(walk: Walk) -> Bool[Array, ""]:
            state = walk.moving.state
            return state.alive & (state.step < last) & (walk.count < every * made + limit)

        def one(walk: Walk) -> Walk:
            before = walk.moving
            grid = t0 + h * (before.state.step + 1)
            moving, record = substep(method, system, grid, h, before, proceed(walk))
            done = record.step - first
            saved = record.good & (record.step > before.state.step) & (done % every == 0)
            row = Rows(record.q, record.p, record.w[-1, n : n + c] / record.length)
            rows = with_row(walk.rows, saved, done // every - 1, row)
            is_impact = jnp.any(record.struck.pushed)
            contact = jnp.where(record.struck.pushed, record.struck.which, -1)
            hit = Hits(jnp.broadcast_to(record.time, contact.shape), contact, record.struck.impulse)
            # Impacts for which there is no room are written to the last row, which is not read.
            hits = with_row(walk.hits, is_impact, jnp.minimum(walk.struck, most), hit)
            return Walk(moving, rows, hits, walk.count + 1, walk.struck + is_impact)

        rows = Rows(*(jnp.full((saves, size), jnp.nan, h.dtype) for size in (n, start.state.p.size, c)))
        k = not_made(method, start).struck.which.size
        zero = jnp.zeros((), int)
        hits = Hits(
            jnp.full((most + 1, k), jnp.inf, h.dtype),
            jnp.full((most + 1, k), -1),
            jnp.zeros((most + 1, k), h.dtype),
        )
        end = jax.lax.while_loop(proceed, one, Walk(start, rows, hits, zero, zero))
        return with_result(end.moving, last, limit), end.rows, end.hits

    after, rows, hits = native_of(run, system, t0, h, start, every, made, limit)
    frame, error = _of_the_start(start, saves)
    impacts = with_padding(most, hits.time.reshape(-1), hits.contact.reshape(-1), hits.impulse.reshape(-1))
    return after, Saves(rows.q, rows.p, rows.lam, frame, error, impacts)


def _of_the_start(start: Moving, saves: int) -> tuple[Float[Array, "s f"], Float[Array, "s 1"]]:
    """The frame and the local error at the start, once for every save."""
    frame = start.state.frame
    error = start.state.errors[:1]
    return jnp.broadcast_to(frame, (saves, frame.size)), jnp.broadcast_to(error, (saves, error.size))


def with_row(arrays: Written, wanted: Bool[Array, ""], place: Int[Array, ""], row: Written) -> Written:
    """The arrays with the arrays of `row` written at this place, if it is `wanted`."""
    place = jnp.clip(place, 0, len(arrays[0]) - 1)

    def put(x: Array, new: Array) -> Array:
        old = jax.lax.dynamic_index_in_dim(x, place, keepdims=False)
        kept = jnp.asarray(jnp.where(wanted, new, old), x.dtype)
        return jax.lax.dynamic_update_index_in_dim(x, kept, place, 0)

    return jax.tree.map(put, arrays, row)


def with_result(after: Moving, last: Int[Array, ""], most: Int[Array, ""] | int) -> Moving:
    """The end of a path, whose result is a failure if it is not the `last` step or if there were too many impacts."""
    state = after.state
    exhausted = state.alive & ((state.step < last) | (after.struck > most))
    reason = jnp.where(after.struck < most, RESULTS.contact_unresolved, RESULTS.too_many_impacts)
    return eqx.tree_at(lambda m: m.state.result, after, jnp.where(exhausted, reason, state.result))


def no_impacts(dtype: np.dtype) -> tuple[Float[np.ndarray, "1"], Int[np.ndarray, "1"], Float[np.ndarray, "1"]]:
    """(t, contact, impulse) of no impact: a row of padding."""
    return np.full(1, np.inf, dtype), np.full(1, -1), np.zeros(1, dtype)


def with_padding(
    size: int, t: Float[Array, " j"], contact: Int[Array, " j"], impulse: Float[Array, " j"]
) -> tuple[Float[Array, " i"], Int[Array, " i"], Float[Array, " i"]]:
    """(t, contact, impulse) as arrays of length `size`: the impacts, then padding with t = ∞, contact = −1,
    impulse = 0. What is no impact has contact −1 before, too, and stands anywhere among the j rows."""
    valid = contact >= 0
    order = jnp.argsort(~valid, stable=True)[:size]
    order = jnp.concatenate([order, jnp.zeros(size - order.size, order.dtype)])
    valid = valid[order] & (jnp.arange(size) < jnp.sum(valid))
    t = jnp.where(valid, t[order], jnp.inf)
    contact = jnp.where(valid, contact[order], -1)
    impulse = jnp.where(valid, impulse[order], 0)
    return t, contact, impulse


@path_with_impacts.def_jvp
def tangent_of_path(
    primals: tuple[AbstractSystem, Scalar, Scalar, Moving],
    tangents: tuple[Any, Any, Any, Any],
    *,
    method: AbstractCollocation,
    steps: int,
    most: int,
) -> tuple[tuple[Moving, Substeps], tuple[Any, Substeps]]:
    """The path, and the tangents of its end and of its record; None for what has none, as counts and results."""
    system, t0, h, start = primals
    after, record = path_with_impacts(*primals, method=method, steps=steps, most=most)
    given = tangents[3]
    motion = (given.time, given.state.q, given.state.p)
    change = _tangent(system, t0, h, start, record, tangents[:3], motion, method)
    none = jax.tree.map(lambda x: None, after)

    def places(m: Moving) -> tuple[Any, Any, Any]:
        return (m.time, m.state.q, m.state.p)

    ends = (change.time[-1], change.q[-1], change.p[-1])
    return (after, record), (eqx.tree_at(places, none, ends, is_leaf=lambda x: x is None), change)


def _tangent(
    system: AbstractSystem,
    t0: Scalar,
    h: Scalar,
    start: Moving,
    record: Substeps,
    rates: tuple[Any, Any, Any],
    motion: tuple[Any, Any, Any],
    method: AbstractCollocation,
) -> Substeps:
    """The tangents after every substep, linear in `rates`, the tangents of (system, t0, h), and in `motion`, those of
    (time, q, p) at the start."""
    formulation = formulation_of(method, system.count_constraints(start.state.q))

    def shift(first: Array, rest: Array) -> Array:
        """The values before every substep, from those after."""
        return jnp.concatenate([first[None], rest[:-1]])

    substeps = Recorded(
        shift(start.state.step, record.step),
        shift(start.time, record.time),
        shift(start.state.q, record.q),
        shift(start.state.p, record.p),
        record,
    )
    arrays, static = eqx.partition((system, t0, h), eqx.is_array)

    def leg(arrays: Any, x: Recorded) -> Walked:
        system, t0, h = eqx.combine(arrays, static)
        return Walked(system, t0, h, x.step, x.time, x.q, x.p, x.record, method.tableau, formulation)

    def delays(known: tuple[Any, Recorded]) -> Delay:
        arrays, substeps = known
        return jax.lax.map(lambda x: leg(arrays, x).delay(), substeps)

    def recursion(known: tuple[Any, Delay, Recorded], t: tuple[Any, tuple]) -> tuple[tuple, Array, Array, Array]:
        """The tangents of (time, q, p), the stage values, the impulses and the length of every substep, from those of
        (system, t0, h) and of the (time, q, p) at the start."""
        arrays, delay, substeps = known

        def one(t: tuple[Any, tuple], x: tuple[Delay, Recorded]) -> tuple[tuple[Any, tuple], tuple]:
            rates, motion = t
            delay, substep = x
            motion, dw, dj, dlength = leg(arrays, substep).tangent(rates, motion, delay)
            return (rates, motion), (motion, dw, dj, dlength)

        return jax.lax.scan(jax.checkpoint(one, prevent_cse=False), t, (delay, substeps))[1]

    origin = (start.time, start.state.q, start.state.p)
    motion = tuple(jnp.zeros_like(x) if d is None else d for x, d in zip(origin, motion, strict=True))
    # What does not depend on the tangents is computed apart, once for all directions.
    known = (arrays, native(delays, (arrays, substeps)), substeps)
    (dts, dqs, dps), dws, djs, dlengths = native_linear(recursion, known, (rates, motion))
    none: Any = None  # The tangent of what has none.
    struck = Struck(none, none, none, djs)
    return Substeps(none, dts, dlengths, dqs, dps, dws, struck, (none, none), none)
