"""The path of a system with contacts: steps that end at an impact where there is one, and the derivative of all.

Every substep is a step of the method, solved by the same stage equations: its length is what is left of the grid's
step, or the τ for which the end of the substep is the moment of the impact, gap(t + τ, q(τ)) = 0. So the order of the
method is kept. The derivative is that of `path`, with dτ = −d gap / (d gap/dτ) at an impact (the saltation matrix:
Aizerman & Gantmacher 1958; Leine & Nijmeijer, Dynamics and Bifurcations of Non-Smooth Mechanical Systems, 2004).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._native import native, native_linear
from geodyn._typing import Array, Bool, Int
from geodyn.integrators.collocation import Problem
from geodyn.integrators.detection import first_contact
from geodyn.integrators.impulse import Struck, strike, strike_tangent
from geodyn.integrators.methods import (
    State,
    after_step,
    dense_weights,
    formulation_of,
    increments,
    next_guess,
)
from geodyn.integrators.resting import Resting, gap_acceleration
from geodyn.integrators.stages import Root, stage_tangent, stage_values
from geodyn.integrators.system import AbstractCollidingSystem

MOST_AT_ONCE = 8
MOST_CORRECTIONS = 12
SETTLING = 8
SHORTEST_FLIGHT = 1 / 16
TOO_MANY_IMPACTS = 4


class Moving(eqx.Module):
    """Where an integration with contacts stands, between grid times as well: how many `struck` until then, which are
    `held` closed; whether this is a grid time (`whole`), and the substep before was a whole step (`regular`)."""

    time: Array
    state: State
    struck: Int[Array, ""]
    held: Bool[Array, " g"]
    whole: Bool[Array, ""]
    regular: Bool[Array, ""]

    @property
    def alive(self) -> Bool[Array, ""]:
        """No step has failed."""
        return self.state.alive


class Substeps(NamedTuple):
    """After every substep: grid steps done, time, its length, q, p, stage values; what struck at its
    end; which contacts were held in it; whether it was made."""

    step: Array
    time: Array
    length: Array
    q: Array
    p: Array
    w: Array
    struck: Struck
    held: tuple[Array, Array]
    good: Bool[Array, " S"]


def moving(system, t0, h, state: State) -> Moving:
    """At the start of a path: contacts that are closed, at rest, and would be pressed further are held."""
    q, p, yes = state.q, state.p, jnp.ones((), bool)
    noise, (gap, rate) = rounding_of_gaps(system, t0, q), gap_rates(system, t0, q, p)
    if system.elastic:
        return Moving(t0, state, jnp.zeros((), int), gap != gap, yes, ~yes)
    v, c = system.velocity(t0, q, p), system.count_constraints(q)
    pressed = gap_acceleration(system, t0, q, v, system.force(t0, q, v, state.history[-1, q.size : q.size + c] / h)) < 0
    held = pressed & (jnp.abs(gap) <= noise) & (jnp.abs(rate) * h <= noise)
    return Moving(t0, state, jnp.zeros((), int), held, yes, ~yes)


def chosen(urgent, count: int = MOST_AT_ONCE):
    """The indices of up to `count` contacts, urgent ones first."""
    return jnp.arange(urgent.size) if urgent.size <= count else jax.lax.top_k(urgent + 0.0, count)[1]


def is_watched(system) -> bool:
    """Whether a system has to be watched for impacts."""
    return isinstance(system, AbstractCollidingSystem) and system.has_contacts


@eqx.filter_custom_jvp
def path_with_impacts(system: AbstractCollidingSystem, t0, h, start: Moving, *, method, steps: int, most: int):
    """(Moving, Substeps): `steps` steps with up to `most` impacts."""
    formulation = formulation_of(method, system.count_constraints(start.state.q))
    dynamic, static = eqx.partition((system, t0, h, start), eqx.is_array)

    def run(dynamic):
        system, t0, h, start = eqx.combine(dynamic, static)
        last = start.state.step + steps

        def one(moving, _):
            grid = t0 + h * (moving.state.step + 1)
            active = moving.state.alive & (moving.state.step < last)
            return substep(method, formulation, system, grid, h, moving, active)

        after, record = jax.lax.scan(one, start, None, length=steps + most)
        state = after.state
        exhausted = state.alive & ((state.step < last) | (after.struck > most))
        result = jnp.where(exhausted, TOO_MANY_IMPACTS, state.result)
        return eqx.tree_at(lambda m: m.state.result, after, result), record

    return native(run, dynamic, size=_size(method, start.state))


def _size(method, state):
    return method.tableau.stages * state.history.shape[1]


def gap_rates(system, t, q, p):
    """Gaps, and their rates."""
    return jax.jvp(system.gap, (t, q), (jnp.ones_like(t), system.velocity(t, q, p)))


def rounding_of_gaps(system, t, q):
    """How far rounding of the positions moves the gaps (by one direction without meaning, in which nothing cancels)."""
    shake = jnp.asarray(np.where(np.arange(q.size) % 2, 1.0, -1.0) * (1 + np.sin(np.arange(q.size)) / 2), q.dtype)
    return 2**8 * jnp.finfo(q.dtype).eps * jnp.abs(jax.jvp(lambda q: system.gap(t, q), (q,), (q * shake,))[1])


class Attempt(NamedTuple):
    """A substep that is tried: its length, the stage values that started it and those that solve it, gaps and rates at
    its end, which gaps it is to end at, how far its length moved."""

    length: Array
    guess: Array
    root: Root
    gap: Array
    rate: Array
    crossing: Bool[Array, " g"]
    moved: Array
    count: Array
    done: Bool[Array, ""]


def substep(method, formulation, system, grid, h, moving: Moving, active):
    """(Moving, Substeps): up to the grid time ahead, or to the first impact before it and through it."""
    state, t, tableau = moving.state, moving.time, method.tableau
    eps = jnp.finfo(h.dtype).eps
    tiny = eps * h
    left = jnp.maximum(grid - t, tiny)
    noise = rounding_of_gaps(system, t, state.q)
    loose = noise / (2**8 * jnp.sqrt(eps))
    noise = jnp.where(moving.held, jnp.inf, noise)
    gap, rate = gap_rates(system, t, state.q, state.p)
    closed = lambda gap, rate: (gap <= noise) & (-rate * h > noise)  # noqa: E731
    now = closed(gap, rate)
    which = chosen(moving.held)
    watched = system if system.elastic else Resting(system, which, moving.held[which], SETTLING * h)
    pose = lambda length: Problem(watched, t, length, state.q, state.p, tableau, formulation)  # noqa: E731

    def along(length, w):
        def at(theta):
            q = state.q + length * (dense_weights(tableau, theta) @ w[:, : state.q.size])
            return system.gap(t + length * theta, q)

        return lambda theta: jax.jvp(at, (theta,), (jnp.ones_like(theta),))

    def attempt(s: Attempt):
        problem, trial = pose(s.length), s.count == 0
        root = stage_values(problem, s.guess, jnp.ones((), bool))
        gap_end, rate_end = along(s.length, root.w)(jnp.ones_like(t))
        rate_end = rate_end / s.length
        search = active & trial & ~jnp.any(now) & root.converged
        theta, crossing = first_contact(along(left, root.w), gap, rate * left, noise, tableau.stages + 1, search)
        crossing = jnp.where(trial, crossing, s.crossing)
        # Newton's method for the first of the gaps that cross.
        closing = crossing & (rate_end < 0)
        zeros = jnp.where(closing, s.length - gap_end / jnp.where(closing, rate_end, 1), jnp.inf)
        length = jnp.clip(jnp.where(trial, theta * left, jnp.min(zeros)), tiny, left)
        moved = jnp.where(trial, jnp.inf, jnp.abs(length - s.length))
        settled = (moved <= 4 * eps * s.length) | ((s.count > 3) & (moved > s.moved / 2)) | ~jnp.any(closing)
        done = jnp.where(trial, ~jnp.any(crossing), settled | (s.count > MOST_CORRECTIONS))
        length = jnp.where(done, s.length, length)
        root = root._replace(iterations=s.root.iterations + root.iterations)
        guess = resampled(tableau, jnp.where(trial, root.w, s.guess), length / jnp.where(trial, left, s.length))
        return Attempt(length, guess, root, gap_end, rate_end, crossing, moved, s.count + 1, done)

    zero = jnp.zeros((), int)
    before = Root(state.history[tableau.stages :], jnp.ones((), bool), zero, zero)
    first = jnp.where(jnp.any(now), tiny, left)
    start = Attempt(first, next_guess(method, state), before, gap, rate, now & False, first, zero, ~active)
    end = jax.lax.while_loop(lambda s: ~s.done, attempt, start)
    hit = jnp.any(now) | jnp.any(end.crossing)
    time = jnp.where(hit, t + end.length, grid)
    after, w = after_step(pose(end.length), state, end.root, ~moving.regular)

    def impact(s):
        shut = closed(end.gap, end.rate)
        which = chosen(2.0 * shut + moving.held)
        lam = w[-1, state.q.size :][: system.count_constraints(state.q)] / end.length

        def slow_rates(p):
            """Rates at which a flight would last less than a fraction of a step."""
            v = system.velocity(time, after.q, p)
            pressing = -gap_acceleration(system, time, after.q, v, watched.force(time, after.q, v, lam))
            least = jnp.where(system.restitution(after.q) < 1, SHORTEST_FLIGHT, eps**0.75) / 2
            return jnp.where(pressing > 0, least * h * pressing, -jnp.inf)[which]

        slow = None if system.elastic else slow_rates
        p, struck, rest, leave = strike(system, which, shut[which], moving.held[which], slow, time, after.q, after.p)
        at = which[:, None] == jnp.arange(shut.size)[None, :]
        parted = jnp.any(at & (~rest & (leave * h > loose[which]))[:, None], axis=0)
        return False, p, struck, (moving.held & ~parted) | jnp.any(at & rest[:, None], axis=0)

    k = min(noise.size, MOST_AT_ONCE)
    none = Struck(jnp.zeros(k, int), jnp.zeros(k, bool), jnp.zeros(k, bool), jnp.zeros(k, h.dtype))
    # A loop of at most one turn and no `cond`: under vmap a cond would do it for every member at every step.
    open_again = (end.gap > loose) & (end.rate > 0)
    turn = (hit & active & after.alive, after.p, none, moving.held & ~open_again)
    _, p, struck, held = jax.lax.while_loop(lambda s: s[0], impact, turn)
    crowded = after.alive & (jnp.sum(held) > MOST_AT_ONCE)
    regular = moving.whole & ~hit
    v = system.velocity(time, after.q, p)
    still = jnp.tile(jnp.concatenate([v, after.history[-1, v.size :]]), (2 * tableau.stages, 1))
    after = eqx.tree_at(
        lambda s: (s.step, s.p, s.history, s.result),
        after,
        (
            state.step + ~(hit & after.alive),
            p,
            jnp.where(regular, after.history, still),
            jnp.where(crowded, TOO_MANY_IMPACTS, after.result),
        ),
    )
    ended = Moving(time, after, moving.struck + jnp.sum(struck.pushed), held, ~hit, regular)
    ended = jax.tree.map(lambda a, b: jnp.where(active, a, b), ended, moving)
    s = ended.state
    return ended, Substeps(
        s.step, ended.time, end.length, s.q, s.p, w, struck, (which, moving.held[which]), active & s.alive
    )


def resampled(tableau, w, ratio):
    """Stage values of a step from the same start, `ratio` times as long, on the polynomial of this one."""
    powers = jnp.stack([(jnp.asarray(tableau.c, w.dtype) * ratio) ** k for k in range(tableau.stages)], axis=-1)
    return powers @ (jnp.asarray(np.linalg.inv(np.vander(tableau.c, increasing=True)), w.dtype) @ w)


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
    """(t, contact, impulse) of none."""
    return np.zeros(0, dtype), np.zeros(0, int), np.zeros(0, dtype)


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
    dts, dqs, dps, dws, djs = native_linear(recursion, known, t, size=_size(method, start.state))
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
    gap = lambda system, t, q: jnp.dot(weight, system.gap(t, q)[struck.which])  # noqa: E731
    at = (system, record.time, record.q)
    closing = eqx.filter_jvp(gap, at, (still[0], jnp.ones_like(t), q_rate))[1]
    opened = eqx.filter_jvp(gap, at, (rates[0], dt, dq))[1]
    late = jnp.where(hit, -opened / jnp.where(hit, closing, 1), 0)
    dq, dp, dw = dq + late * q_rate, dp + late * p_rate, dw + late * w_rate
    dt = jnp.where(landed, dgrid, dt + late)
    primals = (*at, p + increments(problem, w)[1])
    struck_p, dj = strike_tangent(primals, (rates[0], dt, dq, dp), struck)
    return (dt, dq, jnp.where(hit, struck_p, dp)), dw, jnp.where(hit, dj, 0)
