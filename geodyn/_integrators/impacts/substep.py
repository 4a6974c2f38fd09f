"""One substep of a system with contacts: a leg to the next grid time, or to the first impact before it and through it.
It is shorter if contacts that are not watched could close."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._engine.tracing import once
from geodyn._foundations.typing import Array, Bool, Int
from geodyn._integrators.contract.contacts import Neighbours
from geodyn._integrators.contract.results import RESULTS
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.impacts.gaps import MOST_AT_ONCE, chosen, gap_state, rounding
from geodyn._integrators.impacts.impulse import Struck
from geodyn._integrators.impacts.leg import Leg
from geodyn._integrators.impacts.resting import laid_down
from geodyn._integrators.step.methods import State, after_step

CAUTION = 1.25


class Moving(eqx.Module):
    """The state of an integration with contacts, at a grid time or between two: how many contacts `struck` until then;
    the contacts that are watched, out of many (`near`), and the factor `caution` on the speed from which follows for
    how long they suffice; which of these are `held` closed, and the `size` of the quantities whose differences the gaps
    are; whether this is a grid time (`whole`), and whether the last substep was a whole grid step (`regular`)."""

    time: Array
    state: State
    struck: Int[Array, ""]
    near: Neighbours | None
    caution: Array
    held: Bool[Array, " g"]
    size: Array
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
    stage values; what struck at its end; which contacts were held in it; whether it was made."""

    step: Array
    time: Array
    length: Array
    q: Array
    p: Array
    w: Array
    struck: Struck
    held: tuple[Array, Array]
    good: Bool[Array, " S"]


def moving(system: AbstractSystem, t0, h, state: State) -> Moving:
    """The state at the start of a path. Contacts that are closed, at rest and pressed are held. The state is a failure
    if contacts are violated, if one is pressed in a system whose contacts are not followed to rest, or if one that is
    held has friction."""
    near, yes = system.contacts.neighbours(t0, state.q), jnp.ones((), bool)
    which = None if near is None else near.which
    (gap, _, size), held = pressed(system, which, t0, h, state)
    refused = jnp.where(system.contacts.elastic & jnp.any(held), RESULTS.pressed_at_rest, state.result)
    overlap = jnp.any(gap < -jnp.sqrt(jnp.finfo(h.dtype).eps) * size)
    refused = jnp.where(rubs(system, which, state.q, held), RESULTS.friction_at_rest, refused)
    state = eqx.tree_at(lambda s: s.result, state, jnp.where(overlap, RESULTS.overlapping, refused))
    caution = jnp.asarray(CAUTION, h.dtype)
    return Moving(t0, state, jnp.zeros((), int), near, caution, held, size, yes, ~yes)


def rubs(system: AbstractSystem, which, q, held) -> Bool[Array, ""]:
    """Whether a contact that is held has friction, which the forces that hold it do not include."""
    if not system.contacts.frictional:
        return jnp.zeros((), bool)
    return jnp.any(held & (system.contacts.friction(q, which) > 0))


def pressed(system: AbstractSystem, which, t0, h, state: State) -> tuple[tuple, Bool[Array, " g"]]:
    """The `gap_state` of the first state, and the contacts that are pressed at rest there."""
    gaps = gap_state(system, which, t0, state.q, state.p)
    n, c, v = state.q.size, system.count_constraints(state.q), system.velocity(t0, state.q, state.p)
    force = system.force(t0, state.q, v, state.history[-1, n : n + c] / h)
    return gaps, laid_down(system, which, h, t0, state.q, v, force, gaps)


def substep(method, system, grid, h, moving: Moving, active):
    """(Moving, Substeps) after one substep, up to the time `grid` ahead, or to the first impact before it and through
    it."""
    eps, t = jnp.finfo(h.dtype).eps, moving.time
    left, moving = within_reach(system, moving, jnp.maximum(grid - t, eps * h), active)
    state = moving.state
    gap, rate, size = gap_state(system, moving.which, t, state.q, state.p)
    size = jnp.maximum(moving.size, size)
    loose = jnp.sqrt(eps) * size
    noise = jnp.where(moving.held, jnp.inf, rounding(size))
    leg = Leg(system, t, state, moving.which, gap, rate, moving.held, left, h, noise, loose, method)
    end, hit = leg.attempts(active)
    arrived = ~hit & (end.length >= grid - t)
    time = jnp.where(arrived, grid, t + end.length)
    after, w = after_step(leg.pose(end.length), state, end.root, ~moving.regular)
    unknown = after.alive & jnp.any(jnp.isnan(end.gap))
    # Where the slope of a gap is infinite nothing tells on which side of zero it is.
    steep = after.alive & ~jnp.all(jnp.isfinite(size))
    result = jnp.where(steep, RESULTS.contact_unresolved, jnp.where(unknown, RESULTS.not_finite, after.result))
    after = eqx.tree_at(lambda s: s.result, after, result)
    hit = hit & after.alive
    lam = w[-1, state.q.size :][: system.count_constraints(state.q)] / end.length
    none = nothing_struck(size)
    held = moving.held & ~((end.gap > loose) & (end.rate > 0))
    through = partial(leg.impact, end, time, after.q, after.p, lam)
    p, struck, held = once(hit & active, lambda *_: through(), after.p, none, held)
    regular = moving.whole & arrived
    result = jnp.where(after.alive & rubs(system, moving.which, after.q, held), RESULTS.friction_at_rest, after.result)
    result = jnp.where(after.alive & jnp.any(jnp.isnan(p)), RESULTS.impact_unsolved, result)
    after = eqx.tree_at(lambda s: (s.step, s.p, s.result), after, (state.step + arrived, p, result))
    after = restarted(system, after, time, regular, jnp.sum(held) > MOST_AT_ONCE)
    struck_so_far = moving.struck + jnp.sum(struck.pushed)
    ended = Moving(time, after, struck_so_far, moving.near, moving.caution, held, size, arrived, regular)
    made, ended = travelled(system, leg, moving, ended, end.length, w)
    ended = jax.tree.map(lambda a, b: jnp.where(active, a, b), ended, moving)
    s = ended.state
    return ended, Substeps(s.step, ended.time, end.length, s.q, s.p, w, struck, leg.held, active & made & s.alive)


def nothing_struck(size) -> Struck:
    """The `Struck` of no impact, for as many gaps as there are sizes."""
    k = min(size.size, MOST_AT_ONCE)
    return Struck(jnp.zeros(k, int), jnp.zeros(k, bool), jnp.zeros(k, bool), jnp.zeros(k, size.dtype))


def not_made(method, moving: Moving) -> Substeps:
    """The record of a substep that is not made."""
    s, none = moving.state, nothing_struck(moving.size)
    w, held = s.history[method.tableau.stages :], (none.which, none.pushed)
    return Substeps(s.step, moving.time, jnp.ones_like(moving.time), s.q, s.p, w, none, held, jnp.zeros((), bool))


def within_reach(system, moving: Moving, left, active):
    """(time, moving): the time `left`, or the shorter time until contacts that are not watched could close. `moving`
    has new neighbours if the old ones do not suffice for the time `left`."""
    old = moving.near
    if old is None:
        return left, moving
    t, q = moving.time, moving.state.q
    rate = moving.caution * system.contacts.closing(q, system.velocity(t, q, moving.state.p))
    # The speed now says little about a motion that starts from rest: after a substep that led too far, half the time is
    # tried.
    left = left * (CAUTION / moving.caution)

    def renewed(*_):
        near, before, held = system.contacts.neighbours(t, q), old.which, chosen(moving.held)
        again = jnp.any((near.which[:, None] == before[held][None, :]) & moving.held[held][None, :], axis=1)
        return near, again, jnp.zeros_like(moving.size)

    stale = active & (old.room < rate * left)
    near, held, size = once(stale, renewed, old, moving.held, moving.size)
    moving = eqx.tree_at(lambda m: (m.near, m.held, m.size), moving, (near, held, size))
    return jnp.where(near.room < rate * left, near.room / rate, left), moving


def travelled(system, leg: Leg, before: Moving, after: Moving, length, w):
    """(made, moving): whether no contact that is not watched could have closed in the substep, and the state `after`
    it, or, if one could, the state `before` it with twice the caution."""
    if before.near is None:
        return jnp.ones((), bool), after
    n = before.state.q.size
    speeds = jax.vmap(system.contacts.closing)(leg.pose(length).positions(w), w[:, :n])
    room = before.near.room - 1.05 * jnp.max(speeds) * length
    made = (room >= 0) | ~after.alive
    ended = eqx.tree_at(lambda m: (m.near.room, m.caution), after, (room, jnp.asarray(CAUTION, room.dtype)))
    back = eqx.tree_at(lambda m: m.caution, before, 2 * before.caution)
    return made, jax.tree.map(lambda a, b: jnp.where(made, a, b), ended, back)


def restarted(system, state: State, time, regular, crowded) -> State:
    """The state after a substep. Unless the substep was `regular`, its stage values are no guess for the next, and the
    velocity takes their place. The state is a failure if more contacts are held than is possible (`crowded`)."""
    v = system.velocity(time, state.q, state.p)
    history = jnp.where(regular, state.history, state.constant(v))
    result = jnp.where(state.alive & crowded, RESULTS.too_many_impacts, state.result)
    return eqx.tree_at(lambda s: (s.history, s.result), state, (history, result))
