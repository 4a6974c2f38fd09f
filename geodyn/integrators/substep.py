"""One substep of a system with contacts: to the next grid time, or to the first impact before it and through it.

Every substep is a step of the method, solved by the same stage equations: its length is what is left of the grid's
step, or the τ for which the end of the substep is the moment of the impact, gap(t + τ, q(τ)) = 0, found on the
polynomial of the whole and then by Newton's method on τ. So the order of the method is kept.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._scalars import on_arrays
from geodyn._typing import Array, Bool, Int
from geodyn.integrators.collocation import Problem
from geodyn.integrators.detection import first_contact
from geodyn.integrators.impulse import Struck, strike
from geodyn.integrators.methods import (
    AbstractMethod,
    State,
    after_step,
    dense_weights,
    formulation_of,
    next_guess,
)
from geodyn.integrators.resting import Resting, gap_acceleration
from geodyn.integrators.stages import Root, stage_values
from geodyn.integrators.system import AbstractCollidingSystem

MOST_AT_ONCE = 8
MOST_CORRECTIONS = 40
SETTLING = 8
SHORTEST_FLIGHT = 1 / 16
TOO_MANY_IMPACTS = 4


class Moving(eqx.Module):
    """Where an integration with contacts stands, between grid times as well: how many `struck` until then, which are
    `held` closed, how large the things are that meet there (`size`); whether this is a grid time (`whole`), and the
    substep before was a whole step (`regular`)."""

    time: Array
    state: State
    struck: Int[Array, ""]
    held: Bool[Array, " g"]
    size: Array
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
    size, (gap, rate) = sizes_of_gaps(system, t0, q), gap_rates(system, t0, q, p)
    if system.elastic:
        return Moving(t0, state, jnp.zeros((), int), gap != gap, size, yes, ~yes)
    v, c = system.velocity(t0, q, p), system.count_constraints(q)
    pressed = gap_acceleration(system, t0, q, v, system.force(t0, q, v, state.history[-1, q.size : q.size + c] / h)) < 0
    held = pressed & (jnp.abs(gap) <= rounding(size)) & (jnp.abs(rate) * h <= rounding(size))
    return Moving(t0, state, jnp.zeros((), int), held, size, yes, ~yes)


def chosen(urgent, count: int = MOST_AT_ONCE):
    """The indices of up to `count` contacts, urgent ones first."""
    return jnp.arange(urgent.size) if urgent.size <= count else jax.lax.top_k(urgent + 0.0, count)[1].astype(int)


def is_watched(system) -> bool:
    """Whether a system has to be watched for impacts."""
    return isinstance(system, AbstractCollidingSystem) and system.has_contacts


def gap_rates(system, t, q, p):
    """Gaps, and their rates."""
    return jax.jvp(system.gap, (t, q), (jnp.ones_like(t), system.velocity(t, q, p)))


def sizes_of_gaps(system, t, q):
    """The size of what the gaps are differences of, which is that of their rounding: by the gaps themselves and one
    derivative in a direction without meaning, in which nothing cancels."""
    shake = jnp.asarray(np.where(np.arange(q.size) % 2, 1.0, -1.0) * (1 + np.sin(np.arange(q.size)) / 2), q.dtype)
    gap, change = jax.jvp(lambda q: system.gap(t, q), (q,), (q * shake,))
    return jnp.maximum(jnp.abs(gap), jnp.abs(change))


def rounding(size):
    """What a gap between things of that size is known to."""
    return 2**8 * jnp.finfo(size.dtype).eps * size


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


class Leg(eqx.Module):
    """One substep to be made: from `moving`, over the time `left` to the grid time or less; how far rounding moves the
    gaps (`noise`, infinite for those that are held), and how far they must open to be released (`loose`)."""

    system: AbstractCollidingSystem
    moving: Moving
    left: Array
    h: Array
    noise: Array
    loose: Array
    method: AbstractMethod

    @property
    def held(self):
        """Indices of the contacts that may be held, and which of these are."""
        which = chosen(self.moving.held)
        return which, self.moving.held[which]

    @property
    def watched(self):
        """The system, with the forces of the contacts that are held."""
        return self.system if self.system.elastic else Resting(self.system, *self.held, SETTLING * self.h)

    @property
    def tiny(self):
        """The shortest length."""
        return jnp.finfo(self.h.dtype).eps * self.h

    def closed(self, gap, rate):
        """Which contacts are closed and approach."""
        return (gap <= self.noise) & (-rate * self.h > self.noise)

    def pose(self, length) -> Problem:
        """The stage equations of a substep."""
        state = self.moving.state
        formulation = formulation_of(self.method, self.system.count_constraints(state.q))
        return Problem(self.watched, self.moving.time, length, state.q, state.p, self.method.tableau, formulation)

    def along(self, length, w):
        """θ -> (gaps, d gaps/dθ) on the polynomial of a substep."""
        q, t = self.moving.state.q, self.moving.time

        def at(theta):
            moved = length * (dense_weights(self.method.tableau, theta) @ w[:, : q.size])
            return self.system.gap(t + length * theta, q + moved)

        return lambda theta: jax.jvp(at, (theta,), (jnp.ones_like(theta),))

    def attempts(self, active) -> tuple[Attempt, Array]:
        """The substep, and whether it ends at an impact: at once where a contact is closed, or at the first one found
        on the polynomial of the whole, whose moment is then the root of Newton's method on the length."""
        state, t, tableau, left = self.moving.state, self.moving.time, self.method.tableau, self.left
        gap, rate = gap_rates(self.system, t, state.q, state.p)
        now = jnp.any(self.closed(gap, rate))

        def attempt(s: Attempt):
            trial = s.count == 0
            root = stage_values(self.pose(s.length), s.guess, jnp.ones((), bool))
            gap_end, rate_end = self.along(s.length, root.w)(jnp.ones_like(t))
            search = active & trial & ~now & root.converged
            along = self.along(left, root.w)
            theta, crossing = first_contact(along, gap, rate * left, self.noise, tableau.stages + 1, search)
            s = s._replace(gap=gap_end, rate=rate_end / s.length, crossing=jnp.where(trial, crossing, s.crossing))
            length, moved, done = self.corrected(s, theta * left)
            guess = resampled(tableau, jnp.where(trial, root.w, s.guess), length / jnp.where(trial, left, s.length))
            root = root._replace(iterations=s.root.iterations + root.iterations)
            return s._replace(length=length, guess=guess, root=root, moved=moved, count=s.count + 1, done=done)

        zero = jnp.zeros((), int)
        before = Root(state.history[tableau.stages :], jnp.ones((), bool), zero, zero)
        first = jnp.where(now, self.tiny, left)
        start = Attempt(first, next_guess(self.method, state), before, gap, rate, gap != gap, first, zero, ~active)
        end = jax.lax.while_loop(lambda s: ~s.done, attempt, start)
        return end, now | jnp.any(end.crossing)

    def corrected(self, s: Attempt, found):
        """(length, how far it moved, whether that is all): after the trial where a contact was `found` on it, then by
        Newton's method for the first of the gaps that cross."""
        trial, closing = s.count == 0, s.crossing & (s.rate < 0)
        zeros = jnp.where(closing, s.length - s.gap / jnp.where(closing, s.rate, 1), jnp.inf)
        length = jnp.clip(jnp.where(trial, found, jnp.min(zeros)), self.tiny, self.left)
        moved = jnp.where(trial, jnp.inf, jnp.abs(length - s.length))
        eps = jnp.finfo(length.dtype).eps * s.length
        stagnant = (moved > s.moved / 4) & (moved <= 2**20 * eps)
        settled = (moved <= 4 * eps) | stagnant | ~jnp.any(closing)
        done = jnp.where(trial, ~jnp.any(s.crossing), settled | (s.count > MOST_CORRECTIONS))
        return jnp.where(done, s.length, length), moved, done

    def impact(self, end: Attempt, time, q, p, lam):
        """(p⁺, what struck, the contacts held from then on), where the substep has ended."""
        system, h = self.system, self.h
        shut = self.closed(end.gap, end.rate)
        which = chosen(2.0 * shut + self.moving.held)

        def slow(p):
            """Rates at which a flight would last less than a fraction of a step."""
            v = system.velocity(time, q, p)
            pressing = -gap_acceleration(system, time, q, v, self.watched.force(time, q, v, lam))
            least = jnp.where(system.restitution(q) < 1, SHORTEST_FLIGHT, jnp.finfo(h.dtype).eps ** 0.75) / 2
            return jnp.where(pressing > 0, least * h * pressing, -jnp.inf)[which]

        p, struck, rest, leave = strike(
            system, which, shut[which], self.moving.held[which], None if system.elastic else slow, time, q, p
        )
        at = which[:, None] == jnp.arange(shut.size)[None, :]
        parted = jnp.any(at & (~rest & (leave * h > self.loose[which]))[:, None], axis=0)
        return p, struck, (self.moving.held & ~parted) | jnp.any(at & rest[:, None], axis=0)


def substep(method, system, grid, h, moving: Moving, active):
    """(Moving, Substeps): up to the grid time ahead, or to the first impact before it and through it."""
    state, t = moving.state, moving.time
    eps, size = jnp.finfo(h.dtype).eps, jnp.maximum(moving.size, sizes_of_gaps(system, t, state.q))
    left = jnp.maximum(grid - t, eps * h)
    loose = jnp.sqrt(eps) * size
    leg = Leg(system, moving, left, h, jnp.where(moving.held, jnp.inf, rounding(size)), loose, method)
    end, hit = leg.attempts(active)
    time = jnp.where(hit, t + end.length, grid)
    after, w = after_step(leg.pose(end.length), state, end.root, ~moving.regular)
    hit = hit & after.alive
    lam = w[-1, state.q.size :][: system.count_constraints(state.q)] / end.length
    k = min(size.size, MOST_AT_ONCE)
    none = Struck(jnp.zeros(k, int), jnp.zeros(k, bool), jnp.zeros(k, bool), jnp.zeros(k, h.dtype))
    held = moving.held & ~((end.gap > loose) & (end.rate > 0))
    # A loop of at most one turn and no `cond`: under vmap a cond would do it for every member at every step.
    through = lambda _: (jnp.zeros((), bool), *leg.impact(end, time, after.q, after.p, lam))  # noqa: E731
    turn = on_arrays(lambda *s: jax.lax.while_loop(lambda s: s[0], through, s))
    _, p, struck, held = turn(hit & active, after.p, none, held)
    regular = moving.whole & ~hit
    after = eqx.tree_at(lambda s: (s.step, s.p), after, (state.step + ~hit, p))
    after = restarted(system, method, after, time, regular, jnp.sum(held) > MOST_AT_ONCE)
    ended = Moving(time, after, moving.struck + jnp.sum(struck.pushed), held, size, ~hit, regular)
    ended = jax.tree.map(lambda a, b: jnp.where(active, a, b), ended, moving)
    s = ended.state
    return ended, Substeps(s.step, ended.time, end.length, s.q, s.p, w, struck, leg.held, active & s.alive)


def restarted(system, method, state: State, time, regular, crowded) -> State:
    """The state after a substep: where that was no `regular` one, its stage values are no guess for those of the next,
    but the velocity is; it fails where more contacts are held than can be."""
    v = system.velocity(time, state.q, state.p)
    still = jnp.tile(jnp.concatenate([v, state.history[-1, v.size :]]), (2 * method.tableau.stages, 1))
    history = jnp.where(regular, state.history, still)
    result = jnp.where(state.alive & crowded, TOO_MANY_IMPACTS, state.result)
    return eqx.tree_at(lambda s: (s.history, s.result), state, (history, result))


def resampled(tableau, w, ratio):
    """Stage values of a step from the same start, `ratio` times as long, on the polynomial of this one."""
    powers = jnp.stack([(jnp.asarray(tableau.c, w.dtype) * ratio) ** k for k in range(tableau.stages)], axis=-1)
    return powers @ (jnp.asarray(np.linalg.inv(np.vander(tableau.c, increasing=True)), w.dtype) @ w)
