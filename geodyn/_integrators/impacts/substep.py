"""One substep of a system with contacts: a leg to the next grid time, or to the first impact before it and through it.
It is shorter if contacts that are not watched could close.

Letters of the shapes: n coordinates, c constraints, g watched contacts, K contacts of an impact, S substeps (none where
it is one), and r rows of stage values with w numbers each.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._engine.tracing import once
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Bool, Float, Int, Scalar
from geodyn._integrators.contract.contacts import Neighbours
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.impacts.gaps import MOST_AT_ONCE, gap_state, most_urgent, rounding
from geodyn._integrators.impacts.impulse import Struck
from geodyn._integrators.impacts.leg import Leg
from geodyn._integrators.impacts.resting import resting_contacts
from geodyn._integrators.step.methods import AbstractCollocation, State, after_step

CAUTION = 1.25


class Moving(eqx.Module):
    """The state of an integration with contacts, at a grid time or between two: how many contacts `struck` until then;
    the contacts that are watched, out of many (`near`), and the factor `caution` on the speed from which follows for
    how long they suffice; which of these are `held` closed, and the `size` of the quantities whose differences the gaps
    are; whether this is a grid time (`whole`), and whether the last substep was a whole grid step (`regular`)."""

    time: Scalar
    state: State
    struck: Int[Array, ""]
    near: Neighbours | None
    caution: Scalar
    held: Bool[Array, " g"]
    size: Float[Array, " g"]
    whole: Bool[Array, ""]
    regular: Bool[Array, ""]

    @property
    def alive(self) -> Bool[Array, ""]:
        """Whether no step has failed."""
        return self.state.alive

    @property
    def which(self) -> Int[Array, " g"] | None:
        """The numbers of the contacts that are watched; None for all."""
        return None if self.near is None else self.near.which


class Substeps(NamedTuple):
    """The record of every substep: the number of grid steps done after it, the time after it, its length, q, p and
    stage values; what struck at its end; the contacts that may be held and which of them were, in it; whether it was
    made."""

    step: Int[Array, "*S"]
    time: Float[Array, "*S"]
    length: Float[Array, "*S"]
    q: Float[Array, "*S n"]
    p: Float[Array, "*S n"]
    w: Float[Array, "*S r w"]
    struck: Struck
    held: tuple[Int[Array, "*S K"], Bool[Array, "*S K"]]
    good: Bool[Array, "*S"]


def start_of_path(system: AbstractSystem, t0: Scalar, h: Scalar, state: State) -> Moving:
    """The state at the start of a path. Contacts that are closed, at rest and pressed are held. The state is a failure
    if contacts are violated, if one is pressed in a system whose contacts are not followed to rest, or if one that is
    held has friction."""
    near = system.contacts.neighbours(t0, state.q)
    yes = jnp.ones((), bool)
    which = None if near is None else near.which
    (gap, _, size), held = pressed_contacts(system, which, t0, h, state)
    result = jnp.where(system.contacts.elastic & jnp.any(held), RESULTS.pressed_at_rest, state.result)
    overlap = jnp.any(gap < -jnp.sqrt(jnp.finfo(h.dtype).eps) * size)
    result = jnp.where(rubs(system, which, state.q, held), RESULTS.friction_at_rest, result)
    state = eqx.tree_at(lambda s: s.result, state, jnp.where(overlap, RESULTS.overlapping, result))
    return Moving(
        time=t0,
        state=state,
        struck=jnp.zeros((), int),
        near=near,
        caution=jnp.asarray(CAUTION, h.dtype),
        held=held,
        size=size,
        whole=yes,
        regular=~yes,
    )


def rubs(
    system: AbstractSystem, which: Int[Array, " g"] | None, q: Float[Array, " n"], held: Bool[Array, " g"]
) -> Bool[Array, ""]:
    """Whether a contact that is held has friction, which the forces that hold it do not include."""
    if not system.contacts.frictional:
        return jnp.zeros((), bool)
    return jnp.any(held & (system.contacts.friction(q, which) > 0))


def pressed_contacts(
    system: AbstractSystem, which: Int[Array, " g"] | None, t0: Scalar, h: Scalar, state: State
) -> tuple[tuple[Float[Array, " g"], Float[Array, " g"], Float[Array, " g"]], Bool[Array, " g"]]:
    """The `gap_state` of the first state, and a mask of the contacts that are pressed at rest there."""
    gaps = gap_state(system, which, t0, state.q, state.p)
    n = state.q.size
    c = system.count_constraints(state.q)
    v = system.velocity(t0, state.q, state.p)
    lam = state.history[-1, n : n + c] / h
    force = system.force(t0, state.q, v, lam)
    return gaps, resting_contacts(system, which, h, t0, state.q, v, force, gaps)


def substep(
    method: AbstractCollocation,
    system: AbstractSystem,
    grid: Scalar,
    h: Scalar,
    moving: Moving,
    active: Bool[Array, ""],
) -> tuple[Moving, Substeps]:
    """One substep, up to the time `grid` ahead, or to the first impact before it and through it; none if it is not
    `active`."""
    eps = jnp.finfo(h.dtype).eps
    t = moving.time
    left, moving = within_reach(system, moving, jnp.maximum(grid - t, eps * h), active)
    state = moving.state
    gap, rate, size = gap_state(system, moving.which, t, state.q, state.p)
    size = jnp.maximum(moving.size, size)
    loose = jnp.sqrt(eps) * size
    leg = Leg(
        system=system,
        t=t,
        state=state,
        which=moving.which,
        gap=gap,
        rate=rate,
        holding=moving.held,
        left=left,
        h=h,
        noise=jnp.where(moving.held, jnp.inf, rounding(size)),
        loose=loose,
        method=method,
    )
    end, hit = leg.attempts(active)
    arrived = ~hit & (end.length >= grid - t)
    # The grid time itself, not a sum of lengths that rounds.
    time = jnp.where(arrived, grid, t + end.length)
    after, w = after_step(leg.pose(end.length), state, end.root, ~moving.regular)
    after = _with_failures_of_gaps(after, end.gap, size)
    hit = hit & after.alive
    lam = w[-1, state.q.size :][: system.count_constraints(state.q)] / end.length
    none = nothing_struck(size)
    held = moving.held & ~((end.gap > loose) & (end.rate > 0))

    def through(
        p: Float[Array, " n"], struck: Struck, held: Bool[Array, " g"]
    ) -> tuple[Float[Array, " n"], Struck, Bool[Array, " g"]]:
        return leg.impact(end, time, after.q, after.p, lam)

    p, struck, held = once(hit & active, through, after.p, none, held)
    regular = moving.whole & arrived
    result = jnp.where(after.alive & rubs(system, moving.which, after.q, held), RESULTS.friction_at_rest, after.result)
    result = jnp.where(after.alive & jnp.any(jnp.isnan(p)), RESULTS.impact_unsolved, result)
    after = eqx.tree_at(lambda s: (s.step, s.p, s.result), after, (state.step + arrived, p, result))
    ended = Moving(
        time=time,
        state=next_start(system, after, time, regular, jnp.sum(held) > MOST_AT_ONCE),
        struck=moving.struck + jnp.sum(struck.pushed),
        near=moving.near,
        caution=moving.caution,
        held=held,
        size=size,
        whole=arrived,
        regular=regular,
    )
    made, ended = acceptance(system, leg, moving, ended, end.length, w)
    ended = jax.tree.map(lambda new, old: jnp.where(active, new, old), ended, moving)
    last = ended.state
    record = Substeps(
        step=last.step,
        time=ended.time,
        length=end.length,
        q=last.q,
        p=last.p,
        w=w,
        struck=struck,
        held=leg.held,
        good=active & made & last.alive,
    )
    return ended, record


def _with_failures_of_gaps(after: State, gap: Float[Array, " g"], size: Float[Array, " g"]) -> State:
    """The state after a leg, which is a failure where a gap says nothing."""
    unknown = after.alive & jnp.any(jnp.isnan(gap))
    # Where the slope of a gap is infinite nothing tells on which side of zero it is.
    steep = after.alive & ~jnp.all(jnp.isfinite(size))
    result = jnp.where(steep, RESULTS.contact_unresolved, jnp.where(unknown, RESULTS.not_finite, after.result))
    return eqx.tree_at(lambda s: s.result, after, result)


def nothing_struck(size: Float[Array, " g"]) -> Struck:
    """The `Struck` of no impact, for as many gaps as there are sizes."""
    k = min(size.size, MOST_AT_ONCE)
    return Struck(jnp.zeros(k, int), jnp.zeros(k, bool), jnp.zeros(k, bool), jnp.zeros(k, size.dtype))


def not_made(method: AbstractCollocation, moving: Moving) -> Substeps:
    """The record of a substep that is not made."""
    state = moving.state
    none = nothing_struck(moving.size)
    return Substeps(
        step=state.step,
        time=moving.time,
        length=jnp.ones_like(moving.time),
        q=state.q,
        p=state.p,
        w=state.history[method.tableau.stages :],
        struck=none,
        held=(none.which, none.pushed),
        good=jnp.zeros((), bool),
    )


def within_reach(
    system: AbstractSystem, moving: Moving, left: Scalar, active: Bool[Array, ""]
) -> tuple[Scalar, Moving]:
    """(time, moving): the time `left`, or the shorter time until contacts that are not watched could close. `moving`
    has new neighbours if the old ones do not suffice for the time `left`."""
    old = moving.near
    if old is None:
        return left, moving
    t = moving.time
    q = moving.state.q
    closing: Callable = system.contacts.closing  # It is given where neighbours are.
    rate = moving.caution * closing(q, system.velocity(t, q, moving.state.p))
    # The speed now says little about a motion that starts from rest: after a substep that led too far, half the time is
    # tried.
    left = left * (CAUTION / moving.caution)

    def renew(
        old: Neighbours, holding: Bool[Array, " g"], size: Float[Array, " g"]
    ) -> tuple[Neighbours, Bool[Array, " g"], Float[Array, " g"]]:
        """The contacts that are near now, which of them are held, as before, and sizes that are not known."""
        near = system.contacts.neighbours(t, q)
        held = most_urgent(holding)
        was_held = (near.which[:, None] == old.which[held][None, :]) & holding[held][None, :]
        return near, jnp.any(was_held, axis=1), jnp.zeros_like(size)

    stale = active & (old.room < rate * left)
    renewed: tuple[Neighbours, Bool[Array, " g"], Float[Array, " g"]] = once(
        stale, renew, old, moving.held, moving.size
    )
    near, held, size = renewed
    moving = eqx.tree_at(lambda m: (m.near, m.held, m.size), moving, (near, held, size))
    return jnp.where(near.room < rate * left, near.room / rate, left), moving


def acceptance(
    system: AbstractSystem, leg: Leg, before: Moving, after: Moving, length: Scalar, w: Float[Array, "r w"]
) -> tuple[Bool[Array, ""], Moving]:
    """(made, moving): whether no contact that is not watched could have closed in the substep, and the state `after`
    it, or, if one could, the state `before` it with twice the caution."""
    if before.near is None:
        return jnp.ones((), bool), after
    n = before.state.q.size
    closing: Callable = system.contacts.closing  # It is given where neighbours are.
    speeds = jax.vmap(closing)(leg.pose(length).positions(w), w[:, :n])
    # The largest speed at the stages, with a margin for the times between them.
    room = before.near.room - 1.05 * jnp.max(speeds) * length
    made = (room >= 0) | ~after.alive
    ended = eqx.tree_at(lambda m: (m.near.room, m.caution), after, (room, jnp.asarray(CAUTION, room.dtype)))
    back = eqx.tree_at(lambda m: m.caution, before, 2 * before.caution)
    return made, jax.tree.map(lambda new, old: jnp.where(made, new, old), ended, back)


def next_start(
    system: AbstractSystem, state: State, time: Scalar, regular: Bool[Array, ""], crowded: Bool[Array, ""]
) -> State:
    """The state after a substep. Unless the substep was `regular`, its stage values are no guess for the next, and the
    velocity takes their place. The state is a failure if more contacts are held than is possible (`crowded`)."""
    v = system.velocity(time, state.q, state.p)
    history = jnp.where(regular, state.history, state.constant(v))
    result = jnp.where(state.alive & crowded, RESULTS.too_many_impacts, state.result)
    return eqx.tree_at(lambda s: (s.history, s.result), state, (history, result))
