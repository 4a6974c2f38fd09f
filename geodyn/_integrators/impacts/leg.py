"""A leg: an integration step up to the next grid time, or up to and through the first impact before it.

A leg is a step of the method, solved by the same stage equations. Its length is what is left of the grid step, or the τ
at whose end the impact occurs, gap(t + τ, q(τ)) = 0. This τ is first located on the collocation polynomial of the whole
remaining step, and then found by Newton's method. So the order of the method is kept.

Letters of the shapes: n coordinates, c constraints, g watched contacts, K contacts of an impact, and r stages with w
stage values each.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.tracing import batched_as
from geodyn._foundations.typing import Array, Bool, Float, Int, Scalar
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.contract.tableau import ButcherTableau
from geodyn._integrators.impacts.detection import first_contact
from geodyn._integrators.impacts.gaps import most_urgent
from geodyn._integrators.impacts.impulse import Struck, strike
from geodyn._integrators.impacts.resting import SETTLING, Resting
from geodyn._integrators.step.collocation import Problem
from geodyn._integrators.step.methods import AbstractCollocation, State, dense_weights, formulation_of, next_guess
from geodyn._integrators.step.stages import Root, stage_values

MOST_CORRECTIONS = 40
SHORTEST_FLIGHT = 1 / 16  # Of a step: contacts that would be closed again sooner come to rest.


class Attempt(NamedTuple):
    """An iterate in the search for the length of a leg: the length, the guess of the stage values and their solution
    `root`, the gaps and their rates at the end, the gaps of which one is to be zero there (`crossing`), how far the
    length `moved` in the last iteration, the number of iterations, and whether the search is done."""

    length: Scalar
    guess: Float[Array, "r w"]
    root: Root
    gap: Float[Array, " g"]
    rate: Float[Array, " g"]
    crossing: Bool[Array, " g"]
    moved: Scalar
    count: Int[Array, ""]
    done: Bool[Array, ""]


class Leg(eqx.Module):
    """A leg to be computed, from a `state` at the time t over the time `left` or less. `which` are the numbers of the
    watched contacts (None for all), with their gaps and rates at the start, and `holding` marks those that are held
    closed. `noise` is the rounding error of the gaps, infinite for contacts that are held, and `loose` is how far a
    held contact must open to be released."""

    system: AbstractSystem
    t: Scalar
    state: State
    which: Int[Array, " g"] | None
    gap: Float[Array, " g"]
    rate: Float[Array, " g"]
    holding: Bool[Array, " g"]
    left: Scalar
    h: Scalar
    noise: Float[Array, " g"]
    loose: Float[Array, " g"]
    method: AbstractCollocation

    def numbers(self, at: Int[Array, " K"]) -> Int[Array, " K"]:
        """The numbers, among all contacts, of the watched contacts at the places `at`."""
        return at if self.which is None else self.which[at]

    @property
    def held(self) -> tuple[Int[Array, " K"], Bool[Array, " K"]]:
        """The numbers of the contacts that may be held, and a mask of those that are."""
        at = most_urgent(self.holding)
        return self.numbers(at), self.holding[at]

    @property
    def held_system(self) -> AbstractSystem:
        """The system, with the reaction forces of the contacts that are held."""
        return self.system if self.system.contacts.elastic else Resting(self.system, *self.held, SETTLING * self.h)

    @property
    def tiny(self) -> Scalar:
        """The shortest length of a leg."""
        return jnp.finfo(self.h.dtype).eps * self.h

    def are_closing(self, gap: Float[Array, " g"], rate: Float[Array, " g"]) -> Bool[Array, " g"]:
        """Which contacts are closed and still approaching."""
        return (gap <= self.noise) & (-rate * self.h > self.noise)

    def pose(self, length: Scalar) -> Problem:
        """The stage equations of the leg with this length."""
        state = self.state
        formulation = formulation_of(self.method, self.system.count_constraints(state.q))
        return Problem(self.held_system, self.t, length, state.q, state.p, self.method.tableau, formulation)

    def along(
        self, length: Scalar, w: Float[Array, "r w"]
    ) -> Callable[[Scalar], tuple[Float[Array, " g"], Float[Array, " g"]]]:
        """The function θ -> (gaps, d gaps/dθ) on the collocation polynomial of a leg with the stage values w."""
        q = self.state.q
        t = self.t

        def gaps_at(theta: Scalar) -> Float[Array, " g"]:
            moved = length * (dense_weights(self.method.tableau, theta) @ w[:, : q.size])
            return self.system.contacts.gap(t + length * theta, q + moved, self.which)

        return lambda theta: jax.jvp(gaps_at, (theta,), (jnp.ones_like(theta),))

    @property
    def held_back(self) -> Scalar | float:
        """The largest velocity that the forces would give in this step and that the held contacts cancel; 0 if no
        contact is held."""
        if self.system.contacts.elastic:
            return 0.0
        q = self.state.q
        n = q.size
        c = self.system.count_constraints(q)
        lam = self.state.history[-1, n : n + c] / self.h
        v = self.system.velocity(self.t, q, self.state.p)
        gained = self.system.velocity(self.t, q, self.left * self.system.force(self.t, q, v, lam))
        return jnp.where(jnp.any(self.holding), jnp.max(jnp.abs(gained)), 0)

    def attempts(self, active: Bool[Array, ""]) -> tuple[Attempt, Bool[Array, ""]]:
        """The leg, and whether it ends at an impact. If a contact is closed and approaching at the start, the impact
        is immediate. Else the first contact is located on the polynomial of the whole remaining step, and Newton's
        method on the length finds its time."""
        state = self.state
        tableau = self.method.tableau
        left = self.left
        immediate = jnp.any(self.are_closing(self.gap, self.rate))
        cancelling = self.held_back

        def attempt(s: Attempt) -> Attempt:
            """The leg with the length of now, and the next length. The first attempt is a trial over all that is left,
            unless the impact is immediate."""
            trial = s.count == 0
            root = stage_values(self.pose(s.length), s.guess, jnp.ones((), bool), cancelling)
            search = active & trial & ~immediate & root.converged
            along = self.along(s.length, root.w)
            gap, change = along(jnp.ones_like(left))
            # Where there is a search, the length is `left`.
            pieces = tableau.stages + 1
            theta, found = first_contact(along, self.gap, self.rate * left, self.noise, pieces, search)
            crossing = jnp.where(trial, found, s.crossing)
            s = s._replace(gap=gap, rate=change / s.length, crossing=crossing)
            length, moved, done = self.next_length(s, theta * left)
            of_guess = jnp.where(trial, root.w, s.guess)
            guess = resample(tableau, of_guess, length / jnp.where(trial, left, s.length))
            root = root._replace(iterations=s.root.iterations + root.iterations)
            return s._replace(length=length, guess=guess, root=root, moved=moved, count=s.count + 1, done=done)

        zero = jnp.zeros((), int)
        first = jnp.where(immediate, self.tiny, left)
        start = Attempt(
            length=first,
            guess=next_guess(self.method, state),
            root=Root(state.history[tableau.stages :], jnp.ones((), bool), zero, zero),
            gap=self.gap,
            rate=self.rate,
            crossing=self.gap != self.gap,
            moved=first,
            count=zero,
            done=~active,
        )
        end = jax.lax.while_loop(lambda s: ~s.done, attempt, batched_as(self.gap, start))
        return end, immediate | jnp.any(end.crossing)

    def next_length(self, s: Attempt, found: Scalar) -> tuple[Scalar, Scalar, Bool[Array, ""]]:
        """(length, how far it moved, whether the search is done). After the trial over the whole remaining step the
        length is `found`, the time of the first contact or the time up to which there certainly is none. Later it is a
        Newton iterate for the first zero of the gaps that cross."""
        trial = s.count == 0
        closing = s.crossing & (s.rate < 0)
        zeros = jnp.where(closing, s.length - s.gap / jnp.where(closing, s.rate, 1), jnp.inf)
        length = jnp.clip(jnp.where(trial, found, jnp.min(zeros)), self.tiny, self.left)
        moved = jnp.where(trial, jnp.inf, jnp.abs(length - s.length))
        eps = jnp.finfo(length.dtype).eps * s.length
        # Newton's method converges quadratically: once it is near and gains little more, rounding is what is left.
        stagnant = (moved > s.moved / 4) & (moved <= 2**20 * eps)
        settled = (moved <= 4 * eps) | stagnant | ~jnp.any(closing)
        no_impact = ~jnp.any(s.crossing) & (found >= self.left)
        done = jnp.where(trial, no_impact, settled | (s.count > MOST_CORRECTIONS))
        return jnp.where(done, s.length, length), moved, done

    def impact(
        self, end: Attempt, time: Scalar, q: Float[Array, " n"], p: Float[Array, " n"], lam: Float[Array, " c"]
    ) -> tuple[Float[Array, " n"], Struck, Bool[Array, " g"]]:
        """(p⁺, what struck, the contacts held from then on) for an impact at the end of the leg."""
        system = self.system
        h = self.h
        shut = self.are_closing(end.gap, end.rate)
        touching = (end.gap <= self.noise) & ~shut
        # If there are too many of them, those that approach come first.
        at = most_urgent(2.0 * shut + touching)
        which = self.numbers(at)
        closed = shut[at]
        # Without restitution the contacts that touch are struck together: one by one they would never be done.
        held = self.holding[at] | (touching[at] & (system.contacts.restitution(q, which) == 0))

        def slow(p: Float[Array, " n"]) -> Float[Array, " K"]:
            """The rates of separation below which a flight would last less than a given fraction of a step: a gap that
            opens at the rate u and is pressed by the acceleration a is closed again after 2 u/a."""
            v = system.velocity(time, q, p)
            resting = Resting(system, which, held, SETTLING * h)
            *_, opening = resting.pushes(time, q, v, system.force(time, q, v, lam))
            pressing = -opening
            bouncing = system.contacts.restitution(q, which) < 1
            least = jnp.where(bouncing, SHORTEST_FLIGHT, jnp.finfo(h.dtype).eps ** 0.75) / 2
            return jnp.where(pressing > 0, least * h * pressing, -jnp.inf)

        never_rests = system.contacts.elastic
        after = strike(system, which, closed, held, None if never_rests else slow, time, q, p)
        # From the contacts of the impact [K] to those that are watched [g].
        places = at[:, None] == jnp.arange(shut.size)[None, :]
        leaves = ~after.rest & (after.leave * h > self.loose[at])
        parted = jnp.any(places & leaves[:, None], axis=0)
        comes_to_rest = jnp.any(places & after.rest[:, None], axis=0)
        return after.p, after.struck, (self.holding & ~parted) | comes_to_rest


def resample(tableau: ButcherTableau, w: Float[Array, "r w"], ratio: Scalar) -> Float[Array, "r w"]:
    """Stage values of a step that is `ratio` times as long from the same start, on the polynomial of the stage values
    w."""
    powers = jnp.stack([(jnp.asarray(tableau.c, w.dtype) * ratio) ** k for k in range(tableau.stages)], axis=-1)
    coefficients = jnp.asarray(np.linalg.inv(np.vander(tableau.c, increasing=True)), w.dtype) @ w
    return powers @ coefficients
