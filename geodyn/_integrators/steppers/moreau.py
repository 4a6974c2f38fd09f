"""Moreau's time stepping for contacts with friction: a complementarity problem of the velocities in every step.

Without contact a step of length h is that of Störmer and Verlet, symplectic and of order 2: half a step with the first
velocity to the configuration q in the middle, where all forces act, and half a step with the last velocity (Hairer,
Lubich & Wanner, VI.3; for a metric that depends on q their (3.4)). Contacts act in the middle. Between the two halves
of the forces
- contacts strike, with restitution and friction, if they would close in the step and approach faster than their forces
  could make them in it; contacts that these strikes set in motion strike next.
With the second half of the forces
- contacts that touch at the end get impulses z with 0 ≤ z_n ⊥ gap at the end ≥ 0, without restitution, and friction.
The rates in the second conditions are those at the end of the step: the rates in the middle plus h/2 times their
derivative along the motion, so that rolling and pivoting are of order 2. Gaps below zero in the middle are lifted along
their gradients, in the kinetic metric. So are gaps that are below zero at the end because they are not linear.

So contact forces are impulses over a step, and the time at which a contact closes or opens need not be found (Moreau
1988; Jean, Comput. Methods Appl. Mech. Engrg. 177 (1999) 235; Stewart & Trinkle, Int. J. Numer. Methods Engrg. 39
(1996) 2673); in a step in which one does, the order is one. With the rates u⁻ before the impulses, u⁺ after them and u
without them, the impulses do the work z·(u⁺ + u⁻)/2 and the lifts l the work l·(u⁻ − u). In uniform fields their sum,
with the loss in strikes, is the change of energy in the step. It is never positive for the impulses with which contacts
return to where they were at the start: u_n⁺ ≤ −u_n⁻ along the normals, and friction opposite to u⁺ + u⁻. So, on the
segment from these impulses to the wanted ones, the nearest to the wanted ones that create no energy are used.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._engine.jit import static_count
from geodyn._engine.tracing import batched_as
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.impacts.complementarity import complementarity
from geodyn._integrators.impacts.cones import cone_complementarity
from geodyn._integrators.impacts.coulomb import Frame, creates, frame, impact, part_without_gain, rates
from geodyn._integrators.impacts.gaps import accelerations, chosen, expanded, gap_state, rounding
from geodyn._integrators.step.methods import AbstractStepper, Advanced, advice

STRIKES = 8
FIXED_POINT = 10
CORRECTIONS = 3


class Moreau(AbstractStepper):
    """Time steps for contacts that strike, slide, stick and rest, which need not follow each impact.

    For friction at rest and in sliding, stacks, and bounces without end. The method is of order 2 while the same
    contacts touch, slide or stick, and of order 1 where that changes. Impacts happen in the middle of the step in which
    they fall, so positions are wrong by up to h times the change of velocity.

    Several contacts that approach strike together, and what that sets in motion follows, up to 8 times a step, so that
    Newton's cradle sends its last ball off; what still approaches then stops. In uniform fields contacts create no
    energy: as measured, it grows by 1e-14 (of 20) in a step where cubes topple or rest, and at times by 1e-6 (for h =
    0.01) where they are dropped askew, because of the third derivatives of gaps. As in any steps of Störmer and Verlet
    the energy swings by O(h³) in a step where constraints hold, walls curve, or bodies tumble whose inertia is not that
    of a ball; of a plank by 1e-5 of itself.

    `trajectory.multipliers` [T, c + g (1 + s)] are the mean forces over the step: those of the c constraints, then
    those of each of the g contacts, along the gap and along its s slips. `trajectory.impacts` is None.

    Args:
        max_contacts: the most contacts that may be closed at once; the nearest are watched, and a step that closes
            others too fails.

    Raises:
        ValueError: unless `max_contacts` is a positive whole number; in `gd.integrate`, for a system without contacts,
            or with elements such as `gd.friction.DryFriction`.

    Example:
        A block slides on the floor until friction has stopped it, after v²/(2μg) = 0.509684.

        >>> floor = gd.Wall(lambda x: x[1], restitution=0.0, friction=0.4)
        >>> block = gd.System(gd.spaces.Euclidean(2), [1.0], gd.Gravity(9.81), floor)
        >>> trajectory = gd.integrate(block, [[0.0, 0.0]], [[2.0, 0.0]], t1=1.0, steps=200, method=gd.methods.Moreau())
        >>> print(f"{trajectory.q[-1, 0, 0]:.4f} {abs(trajectory.v[-1, 0, 0]):.6f} {trajectory.multipliers[-1, 0]:.6f}")
        0.5097 0.000000 9.810000
    """

    max_contacts: int = eqx.field(static=True)

    @checked
    def __init__(self, max_contacts: Count = 16):
        self.max_contacts = static_count("max_contacts", max_contacts)

    def start(self, system, t, h, q, p, v):
        if system.contacts is None:
            raise ValueError("Moreau is for systems with contacts, such as gd.Wall; without them take gd.Gauss(3)")
        if not system.is_smooth:
            raise ValueError(
                "elements such as gd.friction.DryFriction are for gd.friction.IncrementalPotential(), contacts are not"
            )
        contacts = jax.eval_shape(lambda q: rates(system, jnp.arange(self._gaps(system, t, q)), t, q, q), q)
        return jnp.zeros(system.count_constraints(q) + contacts.size, q.dtype)

    def _gaps(self, system, t, q):
        return jax.eval_shape(system.contacts.gap, t, q).size

    def advance(self, system, t, h, q, p, lam):
        middle, none = t + h / 2, jnp.zeros(system.count_constraints(q), q.dtype)
        q, near = settled(lambda x: q + h / 2 * system.velocity(middle, x, p), q)

        def force(p):
            return system.force(middle, q, system.velocity(middle, q, p), none)

        which = chosen(-system.contacts.gap(middle, q), self.max_contacts)
        at, applied = frame(system, which, middle, q, p), force(p)
        touch = Touch(system, which, middle, h, q, at, applied)
        struck, hits, found = touch.strikes(touch.held(p + h / 2 * applied))
        turn, bend = touch.turned(touch.rates_at, struck), touch.turned(touch.bond_rates_at, struck)
        free, also_near = settled(lambda x: touch.held(struck + h / 2 * force(x), bend), struck)
        guess = lam[none.size :].reshape(-1, at.pushes.shape[1])[which] * h
        pressed, lift, also_found = touch.pressed(struck, hits, free, turn, guess)
        after = free + touch.push(pressed)
        end = touch.apart(q + lift @ at.raised[:, 0] + h / 2 * system.velocity(middle, q, after))
        impulses = hits + pressed
        mean = (applied + force(free)) / 2 + jnp.einsum("ki,kin->n", impulses, at.rows) / h
        bonds = at.bonds.inverse @ (at.bonds.raised @ ((after - p) / h - mean))
        end, after = system.contacts.without_idle(end, after)
        place = jnp.arange(self._gaps(system, t, q))[:, None] == which[None, :]
        forces = (place.astype(q.dtype) @ impulses / h).reshape(-1)
        others = jnp.where(jnp.any(place, axis=1), jnp.inf, system.contacts.gap(t + h, end))
        # A gap that jumps below zero is lifted in the next step, if the list of watched contacts had room to spare.
        room = jnp.max(touch.gap) > h * jnp.max(jnp.abs(touch.rates(p))) if system.contacts.jumping else False
        converged = near & also_near & found & also_found & ((jnp.min(others) >= 0) | room)
        return Advanced(end, after, jnp.concatenate([bonds, forces]), converged, 1)


@advice.register
def _(method: Moreau, system, t, h, q, v) -> str:
    gap, rate = jax.jvp(system.contacts.gap, (t, q), (jnp.ones_like(t), v))
    near = int(jnp.sum(gap <= h * jnp.max(jnp.abs(rate)) + rounding(jnp.max(jnp.abs(q)))))
    if near <= method.max_contacts:
        return ""
    return (
        f"{near} contacts are closed or may close in this step, and max_contacts={method.max_contacts} are "
        f"watched: take gd.methods.Moreau(max_contacts={near}) or more"
    )


class Touch(eqx.Module):
    """The contacts `which` in the middle of a step of length h: at the time t, at the configuration q, with the
    `applied` forces there."""

    system: AbstractSystem
    which: Array
    t: Array
    h: Array
    q: Array
    at: Frame
    applied: Array

    @property
    def gap(self):
        """The gaps in the middle of the step."""
        return self.system.contacts.gap(self.t, self.q, self.which)

    def rates_at(self, t, q, p) -> Float[Array, "K d"]:
        """The rates of the gaps and the slips at any time, configuration and momentum."""
        return rates(self.system, self.which, t, q, self.system.velocity(t, q, p))

    def bond_rates_at(self, t, q, p) -> Float[Array, " c"]:
        """The rates of the constraints."""
        return jax.jvp(self.system.constraint, (t, q), (jnp.ones_like(t), self.system.velocity(t, q, p)))[1]

    def rates(self, p) -> Float[Array, "K d"]:
        """The rates of the gaps and the slips in the middle of the step, for the momentum p."""
        return self.rates_at(self.t, self.q, p)

    def turned(self, rates_at, p):
        """The change of rates over half a step because the configuration changes, at constant momentum p."""
        along = (jnp.ones_like(self.t), self.system.velocity(self.t, self.q, p))
        return self.h / 2 * jax.jvp(lambda t, q: rates_at(t, q, p), (self.t, self.q), along)[1]

    def push(self, impulses) -> Float[Array, " n"]:
        """The change of momentum by the impulses."""
        return jnp.einsum("ki,kin->n", impulses, self.at.pushes)

    def held(self, p, bend=0.0):
        """The momentum p after impulses of the constraints that bring their rates to −`bend`, so that these are zero
        after a change by `bend`."""
        rate = self.bond_rates_at(self.t, self.q, p) + bend
        return p - rate @ self.at.bonds.inverse @ self.at.bonds.pushes if rate.size else p

    def strikes(self, p):
        """(p⁺, impulses, whether they were found) of the strikes, at contacts that would close in the step and approach
        faster than the forces could make them in it."""
        system, h, gap = self.system, self.h, self.gap
        v, restitution = system.velocity(self.t, self.q, p), system.contacts.restitution(self.q, self.which)
        at = expanded(system, self.which, self.t, self.q, v)
        pressing = -accelerations(system, at, self.t, self.q, v, self.applied)
        noise = rounding(gap_state(system, self.which, self.t, self.q, p)[2]) / h
        slow = 1.5 * h * jnp.maximum(pressing, 0) + noise

        def again(state, _):
            p, impulses, found = state
            before = self.rates(p)
            rate = before[:, 0]
            closing = (gap + h / 2 * (rate - h / 2 * pressing) < 0) & (rate < -slow)

            def nothing():
                return (jnp.zeros_like(before), jnp.ones((), bool))

            z, ok = jax.lax.cond(jnp.any(closing), lambda: impact(self.at, before, restitution, closing), nothing)
            return (p + self.push(z), impulses + z, found & ok), None

        begin = batched_as(p, (p, jnp.zeros_like(self.at.pushes[:, :, 0]), jnp.ones((), bool)))
        return jax.lax.scan(again, begin, None, length=STRIKES)[0]

    def pressed(self, struck, hits, free, turn, guess):
        """(impulses, lifts, whether they were found) that keep the gaps from being below zero at the end of the step.
        The rates there are those in the middle plus `turn`. Contacts below zero are lifted, and contacts stick and rest
        at the end of the step. If this would create energy, contacts return part of the way to where they were at the
        start."""
        matrix, h, yes = self.at.matrix, self.h, jnp.ones(self.which.shape, bool)
        now, late, normal = self.rates(struck), self.rates(free), (jnp.arange(turn.shape[1]) == 0)[None, :]
        early, straight = 2 * now - late, self.gap - h / 4 * turn[:, 0]
        leaving, returning = jnp.maximum((late + turn)[:, 0], 0), jnp.minimum((early - turn)[:, 0], 0)

        def solve(returns):
            back = jnp.clip(straight, returns * h / 2 * returning, 0)
            lift, _ = complementarity(matrix[:, 0, :, 0], straight - back + h / 2 * leaving, yes)
            moved = matrix[:, :, :, 0] @ lift
            room = jnp.maximum(straight - back + moved[:, 0], 0) + back
            slip = (1 - returns) * turn + returns * (early + 2 / h * moved)
            ahead = late + jnp.where(normal, turn + 2 / h * room[:, None], slip)
            z, found = cone_complementarity(matrix, ahead, self.at.friction, yes, guess)
            return z, lift, lift @ (early - late)[:, 0] / h + lost, found

        def again(before, returns):
            after = jax.lax.cond(before[0], lambda: solve(returns), lambda: before[1])
            return (creates(matrix, after[0], (early + late) / 2, after[2]), after), after

        lost = jnp.sum(hits * (now - jnp.einsum("kilj,lj->ki", matrix, hits) / 2))
        begin = (jnp.ones((), bool), (guess, guess[:, 0], lost, jnp.ones((), bool)))
        begin = batched_as(straight, begin)
        z, lift, work, found = jax.lax.scan(again, begin, jnp.arange(2, dtype=h.dtype))[1]
        part = part_without_gain(matrix, z[1], z[0], (early + late) / 2, work[::-1])
        return z[1] + part * (z[0] - z[1]), lift[1] + part * (lift[0] - lift[1]), jnp.all(found)

    def apart(self, q):
        """The configuration at the end of the step, corrected so that the constraints hold and no gap is below zero."""
        system, end, bonds = self.system, self.t + self.h / 2, self.at.bonds
        yes = jnp.ones(self.which.shape, bool)

        def correct(_, q):
            q = q - system.constraint(end, q) @ bonds.inverse @ bonds.raised
            lift, _ = complementarity(self.at.matrix[:, 0, :, 0], system.contacts.gap(end, q, self.which), yes)
            return q + lift @ self.at.raised[:, 0]

        return jax.lax.fori_loop(0, CORRECTIONS, correct, q)


def settled(function, x):
    """(the fixed point of a contraction by iteration from x, whether the iteration converged)."""
    x = jax.lax.fori_loop(0, FIXED_POINT - 1, lambda _, x: function(x), x)
    last = function(x)
    return last, jnp.max(jnp.abs(last - x)) <= jnp.finfo(x.dtype).eps ** 0.5 * (1 + jnp.max(jnp.abs(last)))
