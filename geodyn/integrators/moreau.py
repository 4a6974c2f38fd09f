"""Contacts that strike, slide, stick and rest, in equal steps: a complementarity problem of velocities in every step.

A step of length h is that of Störmer and Verlet, symplectic and of order 2 where nothing touches: half a step at the
first velocity to the configuration q in the middle, where all forces act, and half a step at the last (Hairer, Lubich &
Wanner, VI.3; of a metric that depends on q: their (3.4)). In the middle, between the two halves of the forces,
- contacts that would close in the step, and approach faster than their forces can make them in it, strike, with
  restitution and friction; those that this sets in motion follow;
then the second half of the forces is applied together with
- the impulses of what touches at the end: 0 ≤ z_n ⊥ gap at the end ≥ 0, without restitution, and friction.
Positions that still leave a gap below zero are moved back along its gradient, in the kinetic metric.

So contact forces are impulses over the step, and nothing need be known of when they set in (Moreau 1988; Jean, Comput.
Methods Appl. Mech. Engrg. 177 (1999) 235; Stewart & Trinkle, Int. J. Numer. Methods Engrg. 39 (1996) 2673): where they
do, the order is one. In uniform fields, where gaps are linear, the energy never grows: neither in a strike (`coulomb`),
nor by the normal impulses, whose work is z_n(u_n⁺ + u_n⁻)/2 ≤ 0; where friction stops a slip within the step, so that
the mean of both velocities would be too far uphill, the way is shortened to what the energy is enough for.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._typing import Array, Float
from geodyn.integrators.cones import cone_complementarity
from geodyn.integrators.coulomb import Frame, frame, impact, rates
from geodyn.integrators.gaps import chosen, gap_motion, is_watched, rounding, sizes_of_gaps
from geodyn.integrators.impulse import complementarity
from geodyn.integrators.methods import AbstractStepper, Advanced
from geodyn.integrators.system import AbstractCollidingSystem

STRIKES = 8
FIXED_POINT = 10
CORRECTIONS = 3


class Moreau(AbstractStepper):
    """Time steps for systems with contacts, that need not follow each impact: `Moreau(most_contacts=16)`, with at most
    so many contacts closed at once, the nearest; a step that closes others too fails.

    For friction at rest and in sliding, stacks, and bounces without end: `integrate(..., method=gd.Moreau())`. Of order
    2 without contact and 1 with; impacts happen in the middle of the step that they fall in, so positions are wrong by
    up to h times the change of velocity. Several contacts: those that approach strike together, and what that sets in
    motion follows, up to 8 times a step, so Newton's cradle sends its last ball off; what then still approaches stops.
    Energy does not grow in uniform fields where gaps are linear. Where bodies turn on their contacts it may, by O(h²)
    in a step and O(h) in all: that of a cube which topples, 20, by 4e-6 and 2e-5 with h = 0.01.

    `trajectory.multipliers` [T, c + g (1 + s)] are the mean forces over the step: those of the constraints, then those
    of each of the g contacts, along the gap and along the slip. `trajectory.impacts` is None. Raises ValueError for
    a system without contacts.
    """

    most_contacts: int = eqx.field(static=True, default=16)

    def __check_init__(self):
        if isinstance(self.most_contacts, bool) or not isinstance(self.most_contacts, int) or self.most_contacts < 1:
            raise ValueError(f"most_contacts must be a positive whole number, got {self.most_contacts!r}")

    def start(self, system, t, h, q, p, v):
        if not is_watched(system):
            raise ValueError("Moreau is for systems with contacts, such as gd.Wall; without them take gd.Gauss(3)")
        if not system.is_smooth:
            raise ValueError("elements such as gd.DryFriction are for gd.IncrementalPotential(), contacts are not")
        contacts = jax.eval_shape(lambda q: rates(system, jnp.arange(self._gaps(system, t, q)), t, q, q), q)
        return jnp.zeros(system.count_constraints(q) + contacts.size, q.dtype)

    def _gaps(self, system, t, q):
        return jax.eval_shape(system.gap, t, q).size

    def advance(self, system, t, h, q, p, lam):
        middle, none = t + h / 2, jnp.zeros(system.count_constraints(q), q.dtype)
        q, near = settled(lambda x: q + h / 2 * system.velocity(middle, x, p), q)
        force = lambda p: system.force(middle, q, system.velocity(middle, q, p), none)  # noqa: E731
        which = chosen(-system.gap(middle, q), self.most_contacts)
        at, applied = frame(system, which, middle, q, p), force(p)
        touch = Touch(system, which, middle, h, q, at, applied)
        struck, hits, found = touch.strikes(touch.held(p + h / 2 * applied))
        free, also_near = settled(lambda x: touch.held(struck + h / 2 * force(x)), struck)
        guess = lam[none.size :].reshape(-1, at.pushes.shape[1])[which] * h
        pressed, also_found = touch.pressed(free, guess)
        after = free + touch.push(pressed)
        end = touch.apart(q + h / 2 * system.velocity(middle, q, after) - touch.too_far(struck, free, pressed))
        impulses = hits + pressed
        mean = (applied + force(free)) / 2 + jnp.einsum("ki,kin->n", impulses, at.rows) / h
        bonds = at.bonds.inverse @ (at.bonds.raised @ ((after - p) / h - mean))
        end, after = system.without_idle(end, after)
        place = jnp.arange(self._gaps(system, t, q))[:, None] == which[None, :]
        forces = (place.astype(q.dtype) @ impulses / h).reshape(-1)
        others = jnp.where(jnp.any(place, axis=1), jnp.inf, system.gap(t + h, end))
        # What closes at once where gaps jump is moved back in the next step, if any place was left for it.
        room = jnp.max(touch.gap) > h * jnp.max(jnp.abs(touch.rates(p))) if system.jumping else False
        converged = near & also_near & found & also_found & ((jnp.min(others) >= 0) | room)
        return Advanced(end, after, jnp.concatenate([bonds, forces]), converged, 1)


class Touch(eqx.Module):
    """The contacts `which` in the middle of a step of length h, at the time t and the configuration q, where the forces
    are `applied`."""

    system: AbstractCollidingSystem
    which: Array
    t: Array
    h: Array
    q: Array
    at: Frame
    applied: Array

    @property
    def gap(self):
        """The gaps."""
        return self.system.gap(self.t, self.q, self.which)

    def rates(self, p) -> Float[Array, "K d"]:
        """Their rates, and the slips."""
        return rates(self.system, self.which, self.t, self.q, self.system.velocity(self.t, self.q, p))

    def push(self, impulses) -> Float[Array, " n"]:
        """The momentum that impulses give."""
        return jnp.einsum("ki,kin->n", impulses, self.at.pushes)

    def held(self, p):
        """The momentum with what constraints take from it."""
        moving = (jnp.ones_like(self.t), self.system.velocity(self.t, self.q, p))
        rate = jax.jvp(self.system.constraint, (self.t, self.q), moving)[1]
        return p - rate @ self.at.bonds.inverse @ self.at.bonds.pushes if rate.size else p

    def strikes(self, p):
        """(p⁺, impulses, whether they were found) of contacts that close, each faster than it is pressed."""
        system, h, gap = self.system, self.h, self.gap
        v, restitution = system.velocity(self.t, self.q, p), system.restitution(self.q, self.which)
        pressing = -gap_motion(system, self.which, self.t, self.q, v, self.applied)[2]
        noise = rounding(sizes_of_gaps(system, self.which, self.t, self.q)) / h
        slow = 1.5 * h * jnp.maximum(pressing, 0) + noise

        def again(state, _):
            p, impulses, found = state
            before = self.rates(p)
            rate = before[:, 0]
            closing = (gap + h / 2 * (rate - h / 2 * pressing) < 0) & (rate < -slow)
            nothing = lambda: (jnp.zeros_like(before), jnp.ones((), bool))  # noqa: E731
            z, ok = jax.lax.cond(jnp.any(closing), lambda: impact(self.at, before, restitution, closing), nothing)
            return (p + self.push(z), impulses + z, found & ok), None

        begin = (p, jnp.zeros_like(self.at.pushes[:, :, 0]), jnp.ones((), bool))
        return jax.lax.scan(again, begin, None, length=STRIKES)[0]

    def pressed(self, free, guess):
        """(impulses, whether they were found) that keep the gaps at the end of the step from falling below zero."""
        rate, normal = self.rates(free), (jnp.arange(self.at.pushes.shape[1]) == 0)[None, :]
        ahead = rate + jnp.where(normal, 2 / self.h * jnp.maximum(self.gap, 0)[:, None], 0)
        yes = jnp.ones(self.which.shape, bool)
        return cone_complementarity(self.at.matrix, ahead, self.at.friction, yes, guess)

    def too_far(self, struck, free, impulses):
        """The part of the way with the mean velocity for which there is no energy, where friction ends a slip."""
        halfway, late, slips = self.rates(struck), self.rates(free), (jnp.arange(impulses.shape[1]) > 0)[None, :]
        early, tangent = 2 * halfway - late, jnp.where(slips, impulses, 0)
        last = late + jnp.einsum("kilj,lj->ki", self.at.matrix, impulses)
        work, pull = jnp.sum(tangent * (early + last) / 2, axis=1), -jnp.sum(tangent * (late - early), axis=1)
        stops = (work > 0) & (pull > 0)
        own = jnp.einsum("kikj,kj->ki", self.at.matrix, tangent)
        ways = [jnp.sqrt(jnp.sum(jnp.where(stops[:, None], x, 1) ** 2, axis=1)) for x in ((early + last) / 2, own)]
        part = jnp.minimum(jnp.minimum(work / jnp.where(stops, pull, 1), ways[0] / ways[1]), 0.5)
        part = jnp.where(stops, part, 0)
        return self.h * jnp.einsum("k,ki,kin->n", part, tangent, self.at.raised)

    def apart(self, q):
        """q at the end of the step, where constraints hold and no gap is below zero."""
        system, end, bonds = self.system, self.t + self.h / 2, self.at.bonds
        yes = jnp.ones(self.which.shape, bool)
        for _ in range(CORRECTIONS):
            q = q - system.constraint(end, q) @ bonds.inverse @ bonds.raised
            lift, _ = complementarity(self.at.matrix[:, 0, :, 0], system.gap(end, q, self.which), yes)
            q = q + lift @ self.at.raised[:, 0]
        return q


def settled(function, x):
    """(the fixed point of a function that contracts, whether it was found)."""
    x = jax.lax.fori_loop(0, FIXED_POINT - 1, lambda _, x: function(x), x)
    last = function(x)
    return last, jnp.max(jnp.abs(last - x)) <= jnp.finfo(x.dtype).eps ** 0.5 * (1 + jnp.max(jnp.abs(last)))
