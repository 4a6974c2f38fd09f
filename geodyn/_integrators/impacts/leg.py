"""A leg: an integration step up to the next grid time, or up to and through the first impact before it.

A leg is a step of the method, solved by the same stage equations. Its length is what is left of the grid step, or the τ
at whose end the impact occurs, gap(t + τ, q(τ)) = 0. This τ is first located on the collocation polynomial of the whole
remaining step, and then found by Newton's method. So the order of the method is kept.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.tracing import batched_as
from geodyn._foundations.typing import Array, Bool
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.impacts.detection import first_contact
from geodyn._integrators.impacts.gaps import chosen
from geodyn._integrators.impacts.impulse import strike
from geodyn._integrators.impacts.resting import SETTLING, Resting
from geodyn._integrators.step.collocation import Problem
from geodyn._integrators.step.methods import AbstractCollocation, State, dense_weights, formulation_of, next_guess
from geodyn._integrators.step.stages import Root, stage_values

MOST_CORRECTIONS = 40
SHORTEST_FLIGHT = 1 / 16


class Attempt(NamedTuple):
    """An iterate in the search for the length of a leg: the length, the guess of the stage values and their solution
    `root`, the gaps and their rates at the end, the gaps of which one is to be zero there (`crossing`), and how far the
    length `moved` in the last iteration."""

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
    """A leg to be computed, from a `state` at the time t over the time `left` or less. `which` are the numbers of the
    watched contacts (None for all), with their gaps and rates at the start, and `holding` marks those that are held
    closed. `noise` is the rounding error of the gaps, infinite for contacts that are held, and `loose` is how far a
    held contact must open to be released."""

    system: AbstractSystem
    t: Array
    state: State
    which: Array | None
    gap: Array
    rate: Array
    holding: Bool[Array, " g"]
    left: Array
    h: Array
    noise: Array
    loose: Array
    method: AbstractCollocation

    def numbers(self, at):
        """The numbers, among all contacts, of the watched contacts at the places `at`."""
        return at if self.which is None else self.which[at]

    @property
    def held(self):
        """The numbers of the contacts that may be held, and a mask of those that are."""
        at = chosen(self.holding)
        return self.numbers(at), self.holding[at]

    @property
    def watched(self):
        """The system, with the reaction forces of the contacts that are held."""
        return self.system if self.system.contacts.elastic else Resting(self.system, *self.held, SETTLING * self.h)

    @property
    def tiny(self):
        """The shortest length of a leg."""
        return jnp.finfo(self.h.dtype).eps * self.h

    def closed(self, gap, rate):
        """Which contacts are closed and still approaching."""
        return (gap <= self.noise) & (-rate * self.h > self.noise)

    def pose(self, length) -> Problem:
        """The stage equations of the leg with this length."""
        state = self.state
        formulation = formulation_of(self.method, self.system.count_constraints(state.q))
        return Problem(self.watched, self.t, length, state.q, state.p, self.method.tableau, formulation)

    def along(self, length, w):
        """The function θ -> (gaps, d gaps/dθ) on the collocation polynomial of a leg with the stage values w."""
        q, t = self.state.q, self.t

        def at(theta):
            moved = length * (dense_weights(self.method.tableau, theta) @ w[:, : q.size])
            return self.system.contacts.gap(t + length * theta, q + moved, self.which)

        return lambda theta: jax.jvp(at, (theta,), (jnp.ones_like(theta),))

    @property
    def held_back(self):
        """The largest velocity that the forces would give in this step and that the held contacts cancel; 0 if no
        contact is held."""
        if self.system.contacts.elastic:
            return 0.0
        n, c, q = self.state.q.size, self.system.count_constraints(self.state.q), self.state.q
        lam, v = self.state.history[-1, n : n + c] / self.h, self.system.velocity(self.t, q, self.state.p)
        gained = self.system.velocity(self.t, q, self.left * self.system.force(self.t, q, v, lam))
        return jnp.where(jnp.any(self.holding), jnp.max(jnp.abs(gained)), 0)

    def attempts(self, active) -> tuple[Attempt, Array]:
        """The leg, and whether it ends at an impact. If a contact is closed and approaching at the start, the impact
        is immediate. Else the first contact is located on the polynomial of the whole remaining step, and Newton's
        method on the length finds its time."""
        state, gap, rate, tableau, left = self.state, self.gap, self.rate, self.method.tableau, self.left
        now, cancelling = jnp.any(self.closed(gap, rate)), self.held_back

        def attempt(s: Attempt):
            trial = s.count == 0
            root = stage_values(self.pose(s.length), s.guess, jnp.ones((), bool), cancelling)
            # Such a trial has the whole remaining time as its length.
            search, along = active & trial & ~now & root.converged, self.along(s.length, root.w)
            end = along(jnp.ones_like(left))
            theta, crossing = first_contact(along, gap, rate * left, self.noise, tableau.stages + 1, search)
            s = s._replace(gap=end[0], rate=end[1] / s.length, crossing=jnp.where(trial, crossing, s.crossing))
            length, moved, done = self.corrected(s, theta * left)
            guess = resampled(tableau, jnp.where(trial, root.w, s.guess), length / jnp.where(trial, left, s.length))
            root = root._replace(iterations=s.root.iterations + root.iterations)
            return s._replace(length=length, guess=guess, root=root, moved=moved, count=s.count + 1, done=done)

        zero = jnp.zeros((), int)
        before = state.history[tableau.stages :]
        before = Root(before, jnp.ones((), bool), zero, zero)
        first = jnp.where(now, self.tiny, left)
        start = Attempt(first, next_guess(self.method, state), before, gap, rate, gap != gap, first, zero, ~active)
        end = jax.lax.while_loop(lambda s: ~s.done, attempt, batched_as(gap, start))
        return end, now | jnp.any(end.crossing)

    def corrected(self, s: Attempt, found):
        """(length, how far it moved, whether the search is done). After the trial over the whole remaining step the
        length is `found`, the time of the first contact or the time up to which there certainly is none. Later it is a
        Newton iterate for the first zero of the gaps that cross."""
        trial, closing = s.count == 0, s.crossing & (s.rate < 0)
        zeros = jnp.where(closing, s.length - s.gap / jnp.where(closing, s.rate, 1), jnp.inf)
        length = jnp.clip(jnp.where(trial, found, jnp.min(zeros)), self.tiny, self.left)
        moved = jnp.where(trial, jnp.inf, jnp.abs(length - s.length))
        eps = jnp.finfo(length.dtype).eps * s.length
        stagnant = (moved > s.moved / 4) & (moved <= 2**20 * eps)
        settled = (moved <= 4 * eps) | stagnant | ~jnp.any(closing)
        done = jnp.where(trial, ~jnp.any(s.crossing) & (found >= self.left), settled | (s.count > MOST_CORRECTIONS))
        return jnp.where(done, s.length, length), moved, done

    def impact(self, end: Attempt, time, q, p, lam):
        """(p⁺, what struck, the contacts held from then on) for an impact at the end of the leg."""
        system, h = self.system, self.h
        shut = self.closed(end.gap, end.rate)
        touching = (end.gap <= self.noise) & ~shut
        at = chosen(2.0 * shut + touching)
        which, closed = self.numbers(at), shut[at]
        # Without restitution the contacts that touch are struck together: one by one they would never be done.
        held = self.holding[at] | (touching[at] & (system.contacts.restitution(q, which) == 0))

        def slow(p):
            """The rates of separation below which a flight would last less than a given fraction of a step."""
            v = system.velocity(time, q, p)
            pressing = -Resting(system, which, held, SETTLING * h).pushes(time, q, v, system.force(time, q, v, lam))[3]
            bouncing = system.contacts.restitution(q, which) < 1
            least = jnp.where(bouncing, SHORTEST_FLIGHT, jnp.finfo(h.dtype).eps ** 0.75) / 2
            return jnp.where(pressing > 0, least * h * pressing, -jnp.inf)

        never = system.contacts.elastic
        p, struck, rest, leave = strike(system, which, closed, held, None if never else slow, time, q, p)
        places = at[:, None] == jnp.arange(shut.size)[None, :]
        parted = jnp.any(places & (~rest & (leave * h > self.loose[at]))[:, None], axis=0)
        return p, struck, (self.holding & ~parted) | jnp.any(places & rest[:, None], axis=0)


def resampled(tableau, w, ratio):
    """Stage values of a step that is `ratio` times as long from the same start, on the polynomial of the stage values
    w."""
    powers = jnp.stack([(jnp.asarray(tableau.c, w.dtype) * ratio) ** k for k in range(tableau.stages)], axis=-1)
    return powers @ (jnp.asarray(np.linalg.inv(np.vander(tableau.c, increasing=True)), w.dtype) @ w)
