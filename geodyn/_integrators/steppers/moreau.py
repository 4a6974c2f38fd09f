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

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._engine.jit import static_count
from geodyn._engine.tracing import batched_as
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Count, Float, Int, Scalar
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.impacts.complementarity import complementarity
from geodyn._integrators.impacts.cones import cone_complementarity
from geodyn._integrators.impacts.coulomb import Frame, creates, frame, impact, part_without_gain, rates
from geodyn._integrators.impacts.gaps import accelerations, expansion, gap_state, most_urgent, rounding
from geodyn._integrators.step.methods import AbstractStepper, Advanced, advice

# Strikes that follow on each other in a step, such as those that run through a row of balls: eight lead to the end of a
# row of nine equal ones. In a row of ten the last two leave together, with half of the velocity each.
STRIKES = 8
# Each iteration leaves a part O(h) of the error. If it is 0.03, ten of them come to rounding; if it is 0.16, to the
# square root of that, at which they count as converged.
FIXED_POINT = 10
# Each correction, with the gradients of the middle of the step, leaves a part O(h) of what was wrong: of gaps that are
# wrong by O(h²) three leave O(h⁵), less than the error O(h³) of a step.
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

    Source:
        Moreau, *Unilateral contact and dry friction in finite freedom dynamics*, in *Nonsmooth Mechanics and
        Applications*, CISM 302 (1988) 1; Jean, *Comput. Methods Appl. Mech. Engrg.* 177 (1999) 235; Stewart &
        Trinkle, *Int. J. Numer. Methods Engrg.* 39 (1996) 2673; Acary & Brogliato, *Numerical Methods for Nonsmooth
        Dynamical Systems* (2008).
    """

    max_contacts: int = eqx.field(static=True)

    @checked
    def __init__(self, max_contacts: Count = 16):
        self.max_contacts = static_count("max_contacts", max_contacts)

    def start(
        self,
        system: AbstractSystem,
        t: Scalar,
        h: Scalar,
        q: Float[Array, " n"],
        p: Float[Array, " n"],
        v: Float[Array, " n"],
    ) -> Float[Array, " multipliers"]:
        if system.contacts is None:
            raise ValueError("Moreau is for systems with contacts, such as gd.Wall; without them take gd.Gauss(3)")
        if not system.is_smooth:
            raise ValueError(
                "elements such as gd.friction.DryFriction are for gd.friction.IncrementalPotential(), contacts are not"
            )
        all_of_them = jnp.arange(self._gaps(system, t, q))
        contacts = jax.eval_shape(lambda q: rates(system, all_of_them, t, q, q), q)
        return jnp.zeros(system.count_constraints(q) + contacts.size, q.dtype)

    def _gaps(self, system: AbstractSystem, t: Scalar, q: Float[Array, " n"]) -> int:
        """The number of contacts of the system, those that are not watched too."""
        return jax.eval_shape(system.contacts.gap, t, q).size

    def advance(
        self,
        system: AbstractSystem,
        t: Scalar,
        h: Scalar,
        q: Float[Array, " n"],
        p: Float[Array, " n"],
        lam: Float[Array, " multipliers"],
    ) -> Advanced:
        middle = t + h / 2
        none = jnp.zeros(system.count_constraints(q), q.dtype)

        # To the middle of the step, where all forces act.
        q, near = fixed_point(lambda x: q + h / 2 * system.velocity(middle, x, p), q)

        def force(p: Float[Array, " n"]) -> Float[Array, " n"]:
            """The force in the middle at the momentum p."""
            return system.force(middle, q, system.velocity(middle, q, p), none)

        which = most_urgent(-system.contacts.gap(middle, q), self.max_contacts)
        at = frame(system, which, middle, q, p)
        applied = force(p)
        touch = Touch(system, which, middle, h, q, at, applied)

        # The first half of the forces, then the strikes.
        struck, hits, found = touch.strikes(touch.hold(p + h / 2 * applied))

        # The second half of the forces, as if no contact pushed.
        turn = touch.turn(touch.rates_at, struck)
        bend = touch.turn(touch.bond_rates_at, struck)
        free, also_near = fixed_point(lambda x: touch.hold(struck + h / 2 * force(x), bend), struck)

        # The impulses of contacts that touch at the end. The search for them begins at those of the last step.
        last_forces = lam[none.size :].reshape(-1, at.pushes.shape[1])
        pressed = touch.press(struck, hits, free, turn, last_forces[which] * h)
        after = free + touch.push(pressed.impulses)
        lifted = q + pressed.lift @ at.raised[:, 0]
        end = touch.separate(lifted + h / 2 * system.velocity(middle, q, after))

        # The multipliers are the mean forces over the step.
        impulses = hits + pressed.impulses
        bonds = touch.bond_forces(after - p, (applied + force(free)) / 2, impulses)
        end, after = system.contacts.without_idle(end, after)
        is_watched_as = jnp.arange(self._gaps(system, t, q))[:, None] == which[None, :]
        forces = (is_watched_as.astype(q.dtype) @ impulses / h).reshape(-1)

        # The step failed if a contact that was not watched has closed.
        is_watched = jnp.any(is_watched_as, axis=1)
        others = jnp.where(is_watched, jnp.inf, system.contacts.gap(t + h, end))
        all_seen = (jnp.min(others) >= 0) | touch.has_room(p)
        converged = near & also_near & found & pressed.found & all_seen
        return Advanced(end, after, jnp.concatenate([bonds, forces]), converged, 1)


@advice.register
def _(
    method: Moreau, system: AbstractSystem, t: Scalar, h: Scalar, q: Float[Array, " n"], v: Float[Array, " n"]
) -> str:
    gap, rate = jax.jvp(system.contacts.gap, (t, q), (jnp.ones_like(t), v))
    within_reach = h * jnp.max(jnp.abs(rate)) + rounding(jnp.max(jnp.abs(q)))
    near = int(jnp.sum(gap <= within_reach))
    if near <= method.max_contacts:
        return ""
    return (
        f"{near} contacts are closed or may close in this step, and max_contacts={method.max_contacts} are "
        f"watched: take gd.methods.Moreau(max_contacts={near}) or more"
    )


class Strikes(NamedTuple):
    """The momentum after strikes, their impulses, and whether these were found."""

    p: Float[Array, " n"]
    impulses: Float[Array, "K d"]
    found: Bool[Array, ""]


class Pressed(NamedTuple):
    """The impulses and the lifts with which no gap is below zero at the end of the step, and whether they were
    found."""

    impulses: Float[Array, "K d"]
    lift: Float[Array, " K"]
    found: Bool[Array, ""]


class Attempt(NamedTuple):
    """Impulses and lifts that were tried, the energy that is lost with these lifts and in strikes, and whether the
    impulses were found."""

    impulses: Float[Array, "K d"]
    lift: Float[Array, " K"]
    work: Scalar
    found: Bool[Array, ""]


class Touch(eqx.Module):
    """The contacts `which` in the middle of a step of length h: at the time t, at the configuration q, with the
    `applied` forces there."""

    system: AbstractSystem
    which: Int[Array, " K"]
    t: Scalar
    h: Scalar
    q: Float[Array, " n"]
    at: Frame
    applied: Float[Array, " n"]

    @property
    def gap(self) -> Float[Array, " K"]:
        """The gaps in the middle of the step."""
        return self.system.contacts.gap(self.t, self.q, self.which)

    def rates_at(self, t: Scalar, q: Float[Array, " n"], p: Float[Array, " n"]) -> Float[Array, "K d"]:
        """The rates of the gaps and the slips at any time, configuration and momentum."""
        return rates(self.system, self.which, t, q, self.system.velocity(t, q, p))

    def bond_rates_at(self, t: Scalar, q: Float[Array, " n"], p: Float[Array, " n"]) -> Float[Array, " c"]:
        """The rates of the constraints."""
        along = (jnp.ones_like(t), self.system.velocity(t, q, p))
        _, rate = jax.jvp(self.system.constraint, (t, q), along)
        return rate

    def rates(self, p: Float[Array, " n"]) -> Float[Array, "K d"]:
        """The rates of the gaps and the slips in the middle of the step, for the momentum p."""
        return self.rates_at(self.t, self.q, p)

    def turn(self, rates_at: Callable[..., Float[Array, "..."]], p: Float[Array, " n"]) -> Float[Array, "..."]:
        """The change of rates over half a step because the configuration changes, at constant momentum p."""
        along = (jnp.ones_like(self.t), self.system.velocity(self.t, self.q, p))
        _, derivative = jax.jvp(lambda t, q: rates_at(t, q, p), (self.t, self.q), along)
        return self.h / 2 * derivative

    def push(self, impulses: Float[Array, "K d"]) -> Float[Array, " n"]:
        """The change of momentum by the impulses."""
        return jnp.einsum("ki,kin->n", impulses, self.at.pushes)

    def hold(self, p: Float[Array, " n"], bend: Float[Array, " c"] | float = 0.0) -> Float[Array, " n"]:
        """The momentum p after impulses of the constraints that bring their rates to −`bend`, so that these are zero
        after a change by `bend`."""
        rate = self.bond_rates_at(self.t, self.q, p) + bend
        if not rate.size:
            return p
        return p - rate @ self.at.bonds.inverse @ self.at.bonds.pushes

    def bond_forces(
        self, change: Float[Array, " n"], force: Float[Array, " n"], impulses: Float[Array, "K d"]
    ) -> Float[Array, " c"]:
        """The mean forces of the constraints: what changed the momentum in the step, and neither the mean of the other
        forces nor the impulses of the contacts explain."""
        # The gradients `rows` of the gaps and slips, without what the constraints add to `pushes`.
        of_contacts = jnp.einsum("ki,kin->n", impulses, self.at.rows) / self.h
        rest = change / self.h - (force + of_contacts)
        return self.at.bonds.inverse @ (self.at.bonds.raised @ rest)

    def has_room(self, p: Float[Array, " n"]) -> Bool[Array, ""] | bool:
        """Whether a contact that is not watched may close: a gap that jumps below zero is lifted in the next step, if
        the list of watched contacts has room to spare, so that the last of them cannot close in this one."""
        if not self.system.contacts.jumping:
            return False
        farthest = jnp.max(self.gap)
        return farthest > self.h * jnp.max(jnp.abs(self.rates(p)))

    def strikes(self, p: Float[Array, " n"]) -> Strikes:
        """The strikes at contacts that would close in the step and approach faster than the forces could make them in
        it."""
        system = self.system
        h = self.h
        gap = self.gap
        v = system.velocity(self.t, self.q, p)
        restitution = system.contacts.restitution(self.q, self.which)
        at = expansion(system, self.which, self.t, self.q, v)
        pressing = -accelerations(system, at, self.t, self.q, v, self.applied)
        noise = rounding(gap_state(system, self.which, self.t, self.q, p).size) / h
        # The rate of approach that the forces could make in the step.
        slow = 1.5 * h * jnp.maximum(pressing, 0) + noise

        def again(done: Strikes, _: None) -> tuple[Strikes, None]:
            before = self.rates(done.p)
            rate = before[:, 0]
            # The gap at the end, by the rate there.
            gap_at_end = gap + h / 2 * (rate - h / 2 * pressing)
            closing = (gap_at_end < 0) & (rate < -slow)

            def strike() -> tuple[Float[Array, "K d"], Bool[Array, ""]]:
                return impact(self.at, before, restitution, closing)

            def nothing() -> tuple[Float[Array, "K d"], Bool[Array, ""]]:
                return jnp.zeros_like(before), jnp.ones((), bool)

            z, ok = jax.lax.cond(jnp.any(closing), strike, nothing)
            return Strikes(done.p + self.push(z), done.impulses + z, done.found & ok), None

        none = jnp.zeros_like(self.at.pushes[:, :, 0])
        begin = batched_as(p, Strikes(p, none, jnp.ones((), bool)))
        done, _ = jax.lax.scan(again, begin, None, length=STRIKES)
        return done

    def press(
        self,
        struck: Float[Array, " n"],
        hits: Float[Array, "K d"],
        free: Float[Array, " n"],
        turn: Float[Array, "K d"],
        guess: Float[Array, "K d"],
    ) -> Pressed:
        """What keeps the gaps from being below zero at the end of the step. `struck` is the momentum after the strikes
        `hits`, and `free` the one after the second half of the forces.

        The rates at the end are those in the middle plus `turn`. Contacts below zero are lifted, and contacts stick and
        rest at the end of the step. If this would create energy, contacts return part of the way to where they were at
        the start."""
        h = self.h
        matrix = self.at.matrix
        all_of_them = jnp.ones(self.which.shape, bool)
        now = self.rates(struck)
        # Without further impulses the rates come to be `late`; `early` is as far before `now` as `late` is after it.
        late = self.rates(free)
        is_normal = (jnp.arange(turn.shape[1]) == 0)[None, :]
        early = 2 * now - late
        # With the rate u in the middle, the gap half a step later is gap + h/2 u + h/4 turn. By the rate at that end,
        # u + turn, it is `straight` + h/2 (u + turn); half a step earlier it was `straight` − h/2 (u − turn).
        straight = self.gap - h / 4 * turn[:, 0]
        leaving = jnp.maximum((late + turn)[:, 0], 0)
        returning = jnp.minimum((early - turn)[:, 0], 0)

        def solve(returns: Scalar) -> Attempt:
            """With `returns` = 0 contacts come to rest at the end; with 1 they are where they were at the start."""
            # A contact that returns to where it was may stay as far below zero. From the rest it is lifted, but for
            # what it leaves by itself.
            back = jnp.clip(straight, returns * h / 2 * returning, 0)
            rest = straight - back
            lift, _ = complementarity(matrix[:, 0, :, 0], rest + h / 2 * leaving, all_of_them)
            moved = matrix[:, :, :, 0] @ lift
            room = jnp.maximum(rest + moved[:, 0], 0) + back
            slip = (1 - returns) * turn + returns * (early + 2 / h * moved)
            ahead = late + jnp.where(is_normal, turn + 2 / h * room[:, None], slip)
            z, found = cone_complementarity(matrix, ahead, self.at.friction, all_of_them, guess)
            work = lift @ (early - late)[:, 0] / h + lost
            return Attempt(z, lift, work, found)

        def again(
            before: tuple[Bool[Array, ""], Attempt], returns: Scalar
        ) -> tuple[tuple[Bool[Array, ""], Attempt], Attempt]:
            """The second problem is solved only if the first one's solution creates energy."""
            gains, attempt = before
            attempt = jax.lax.cond(gains, lambda: solve(returns), lambda: attempt)
            return (creates(matrix, attempt.impulses, (early + late) / 2, attempt.work), attempt), attempt

        # The work of the strikes: with the rates after them, `now`, less half of the change that they made.
        change_by_hits = jnp.einsum("kilj,lj->ki", matrix, hits)
        lost = jnp.sum(hits * (now - change_by_hits / 2))
        yes = jnp.ones((), bool)
        begin = batched_as(straight, (yes, Attempt(guess, guess[:, 0], lost, yes)))
        _, attempts = jax.lax.scan(again, begin, jnp.arange(2, dtype=h.dtype))
        wanted, safe = attempts.impulses
        wanted_lift, safe_lift = attempts.lift
        work_of_safe_and_wanted = attempts.work[::-1]
        part = part_without_gain(matrix, safe, wanted, (early + late) / 2, work_of_safe_and_wanted)
        impulses = safe + part * (wanted - safe)
        lift = safe_lift + part * (wanted_lift - safe_lift)
        return Pressed(impulses, lift, jnp.all(attempts.found))

    def separate(self, q: Float[Array, " n"]) -> Float[Array, " n"]:
        """The configuration at the end of the step, corrected so that the constraints hold and no gap is below zero."""
        system = self.system
        end = self.t + self.h / 2
        bonds = self.at.bonds
        all_of_them = jnp.ones(self.which.shape, bool)

        def correct(_: Int[Array, ""], q: Float[Array, " n"]) -> Float[Array, " n"]:
            q = q - system.constraint(end, q) @ bonds.inverse @ bonds.raised
            normals = self.at.matrix[:, 0, :, 0]
            lift, _ = complementarity(normals, system.contacts.gap(end, q, self.which), all_of_them)
            return q + lift @ self.at.raised[:, 0]

        return jax.lax.fori_loop(0, CORRECTIONS, correct, q)


def fixed_point(
    function: Callable[[Float[Array, " n"]], Float[Array, " n"]], x: Float[Array, " n"]
) -> tuple[Float[Array, " n"], Bool[Array, ""]]:
    """(the fixed point of a contraction by iteration from x, whether the iteration converged)."""
    x = jax.lax.fori_loop(0, FIXED_POINT - 1, lambda _, x: function(x), x)
    last = function(x)
    change = jnp.max(jnp.abs(last - x))
    size = 1 + jnp.max(jnp.abs(last))
    return last, change <= jnp.finfo(x.dtype).eps ** 0.5 * size
