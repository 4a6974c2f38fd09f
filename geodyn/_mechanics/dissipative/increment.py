"""The equations of one step of the incremental potential, with friction and plasticity.

The unknowns of a step are w = (v, hλ, y): the velocity v at its end, the impulses hλ of the constraints, and y, whose
projection onto the ball of radius hF is minus the friction impulse. The equations are those of a saddle point of the
incremental potential with constraints; they are semi-smooth, with a kink where friction begins to slip. With slip
velocities s(v) and friction forces |f| ≤ F,

    0 = ∂/∂v [½|v − v_old|²_M + hR + V(q⁺) − λ·φ(q⁺)] + s'ᵀ proj_hF(y),   0 = φ(q⁺)/h,   r s = y − proj_hF(y)

for any r > 0 (Alart & Curnier, *Comput. Methods Appl. Mech. Engng* 92 (1991) 353). Nonholonomic constraints A v = b are
imposed in the same way as φ. The plastic strain is eliminated: the minimum over it of energy plus dissipation in a step
is Huber's function of the strain (return map; Simo & Hughes, *Computational Inelasticity*, 1.4).

A step hands on l = c + s + e numbers, and has w = n + c + s unknowns.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._foundations.typing import Array, Bool, Float, Scalar
from geodyn._integrators.contract.system import AbstractLagrangianSystem, pfaffian
from geodyn._mechanics.dissipative.exponential import exp_and_transport
from geodyn._mechanics.points.body import AbstractBody, sliding, strains

Coordinates = Float[Array, " n"]  # or their velocities and momenta
OfConstraints = Float[Array, " c"]
OfSlips = Float[Array, " s"]  # the components of all slip velocities
OfSprings = Float[Array, " e"]  # those that are plastic
Unknowns = Float[Array, " w"]


class Plastic(NamedTuple):
    """All plastic elements, at a configuration: their stiffnesses k, yield forces Y, and strains."""

    stiffness: OfSprings
    yield_force: OfSprings
    strain: OfSprings


class Scaling(NamedTuple):
    """How the equations of a step are to be solved: a first guess of the unknowns w, the scales of the unknowns
    (`units`), the scales of the equations (`rows`), and the constant r."""

    guess: Unknowns
    units: Unknowns
    rows: Unknowns
    r: Scalar


class Increment(eqx.Module):
    """The equations of one step from (t, q, p) of length h; `lam` holds the multipliers of the step before: those of
    the constraints, the friction forces, and the forces of plastic springs. All arrays can be differentiated."""

    system: AbstractLagrangianSystem
    t: Scalar
    h: Scalar
    q: Coordinates
    p: Coordinates
    lam: Float[Array, " l"]
    theta: float = eqx.field(static=True)
    inertia: bool = eqx.field(static=True)

    def split(self, w: Unknowns) -> tuple[Coordinates, OfConstraints, OfSlips]:
        """The parts (v, hλ, y) of the unknowns w."""
        n = self.q.size
        c = self.system.count_constraints(self.q)
        return w[:n], w[n : n + c], w[n + c :]

    @property
    def velocity_before(self) -> Coordinates:
        """The velocity v_old before the step."""
        return self.system.velocity(self.t, self.q, self.p)

    def mean_velocity(self, v: Coordinates) -> Coordinates:
        """The velocity θv + (1 − θ)v_old of the displacement, from the velocity v at the end of the step."""
        return v if self.theta == 1 else self.theta * v + (1 - self.theta) * self.velocity_before

    def potential(self, q: Coordinates, lam: OfConstraints) -> Scalar:
        """V + Huber's function − λ·φ at q at the end of the step; the first entries of `lam` are the λ of φ."""
        end = self.t + self.h
        k, most, _ = plastic_of(self.system, self.t, self.q)
        size = jnp.abs(self.trial_forces(q))
        # Huber's function: the elastic energy up to the yield force, and linear beyond it.
        square = jnp.where(size <= most, size**2, most * (2 * size - most))
        held = jnp.sum(square / (2 * k))
        constraint = self.system.constraint(end, q)
        energy = self.system.energy(end, q, jnp.zeros_like(q))
        return energy + held - jnp.dot(lam[: constraint.size], constraint)

    def trial_forces(self, q: Coordinates) -> OfSprings:
        """The forces that the plastic springs have at the end q if no plastic strain flows in this step."""
        k, _, before = plastic_of(self.system, self.t, self.q)
        after = plastic_of(self.system, self.t + self.h, q).strain
        return k * (after - before) - self.plastic_multipliers

    @property
    def plastic_multipliers(self) -> OfSprings:
        """The forces of the plastic springs before the step, with the sign of multipliers: minus the force."""
        count = plastic_of(self.system, self.t, self.q).stiffness.size
        return self.lam[self.lam.size - count :]

    def gradient_before(self) -> Coordinates:
        """∂V/∂q at the beginning of the step, including the plastic springs."""

        def potential(q: Coordinates) -> Scalar:
            strain = plastic_of(self.system, self.t, q).strain
            energy = self.system.energy(self.t, q, jnp.zeros_like(q))
            return energy - jnp.dot(self.plastic_multipliers, strain)

        return jax.grad(potential)(self.q)

    def smooth(self, v: Coordinates, multipliers: OfConstraints) -> tuple[Coordinates, OfConstraints]:
        """(the residual of the momentum balance without friction, the residuals of the constraints), for the velocity v
        at the end of the step and the impulses hλ of the constraints."""
        u = self.mean_velocity(v)

        def end_of(u: Coordinates) -> Coordinates:
            return exp_and_transport(self.system, self.t, self.q, self.h, u)[0]

        end, pull = jax.vjp(end_of, u)
        impulse = pull(jax.grad(self.potential)(end, multipliers / self.h))[0]
        if self.theta < 1:
            impulse = self.theta * impulse + (1 - self.theta) * self.h * self.gradient_before()
        drag = jax.grad(self.system.rayleigh_at, 2)
        damping = self.h * drag(self.t + self.theta * self.h, self.q, u)
        inertia = self.system.momentum(self.t, self.q, v) - self.p if self.inertia else 0
        missed = self.system.constraint(self.t + self.h, end) / self.h
        rate, react = jax.vjp(lambda v: pfaffian(self.system, self.t, self.q, v), v)
        rest = inertia + damping + impulse
        if rate.size:
            # The multipliers of the nonholonomic constraints are the last; those of φ are in the potential.
            rest = rest - react(multipliers[missed.size :])[0]
        return rest, jnp.append(missed, rate)

    def slips(self, v: Coordinates) -> OfSlips:
        """All slip velocities s(v), concatenated."""
        parts = [jnp.zeros(0, v.dtype)]
        for _, slip in slips_of(self.system, self.t + self.h, self.q, v):
            parts.append(slip.reshape(-1))
        return jnp.concatenate(parts)

    def friction(self, y: OfSlips) -> OfSlips:
        """proj_hF(y): minus the friction impulses."""
        impulses = [jnp.zeros(0, y.dtype)]
        first = 0
        for most, slip in slips_of(self.system, self.t + self.h, self.q, jnp.zeros_like(self.q)):
            part = y[first : first + slip.size].reshape(slip.shape)
            square = jnp.sum(part**2, axis=1)
            slipping = square >= (self.h * most) ** 2
            # The root has no derivative at zero: there it is not taken.
            length = jnp.sqrt(jnp.where(square > 0, square, 1))
            shrink = jnp.where(slipping, self.h * most / length, 1)
            impulse = shrink[:, None] * part
            impulses.append(impulse.reshape(-1))
            first += slip.size
        return jnp.concatenate(impulses)

    def most_friction(self) -> Scalar:
        """The largest hF."""
        elements = slips_of(self.system, self.t + self.h, self.q, jnp.zeros_like(self.q))
        strengths = [self.q[:0]]
        for strength, _ in elements:
            strengths.append(strength.reshape(-1))
        return self.h * jnp.max(jnp.concatenate(strengths), initial=0.0)

    def residual(self, w: Unknowns, r: Scalar) -> Unknowns:
        """The equations of the module docstring at w, zero at the solution."""
        v, multipliers, y = self.split(w)
        slips, push = jax.vjp(self.slips, v)
        held = self.friction(y)
        rest, missed = self.smooth(v, multipliers)
        # A force that both a constraint and friction can hold has no unique split: give almost all to the constraint.
        give = jnp.finfo(y.dtype).eps ** 0.75 if multipliers.size else 0
        balance = rest + push(held)[0]
        law_of_friction = r * slips - (1 + give) * y + held
        return jnp.concatenate([balance, missed, law_of_friction])

    def linearise(self, v: Coordinates, multipliers: OfConstraints) -> tuple[Float[Array, "n n"], Coordinates]:
        """(the derivative by v, the value) of the momentum balance without friction."""

        def balance(v: Coordinates) -> tuple[Coordinates, Coordinates]:
            """The residual, to be differentiated and as it is."""
            rest, _ = self.smooth(v, multipliers)
            return rest, rest

        return jax.jacfwd(balance, has_aux=True)(v)

    def scaling(self) -> Scaling:
        """A first guess, from the step before, and the scales of unknowns and equations there."""
        n = self.q.size
        c = self.system.count_constraints(self.q)
        v = self.velocity_before
        multipliers = self.h * self.lam[:c]
        impulses = -self.h * self.lam[c:]
        stiffness, force = self.linearise(v, multipliers)
        slips = self.slips(v)
        a = jax.jacfwd(self.slips)(v)
        of_coordinates = jnp.diag(stiffness)
        # A plastic spring counts with its elastic stiffness here: while it flows, its tangent stiffness is 0, or noise.
        of_springs = self.h**2 * plastic_of(self.system, self.t, self.q).stiffness
        hardest = _positive(_largest(of_coordinates, of_springs))
        speed = _positive(_largest(v, self.q / self.h / 2**6))
        held = self.most_friction()
        # Friction holds too: what it leaves of a force may move little, however small the masses are.
        velocity = jnp.maximum(speed, _largest(force) / jnp.maximum(hardest, held / speed))
        momentum = jnp.maximum(hardest * velocity, _largest(multipliers, impulses, force, held[None]))
        # The r at which friction is as stiff as the rest, in the least-squares sense: r aᵀa ≈ stiffness.
        least = jnp.maximum(2**-10 * hardest, held / velocity)
        along_slips = jnp.sum((stiffness @ a.T) * a.T)
        r = jnp.maximum(along_slips, least) / _positive(jnp.sum((a @ a.T) ** 2))
        # Velocities are followed by impulses, and equations for momenta by those of constraints, in velocities.
        row = jnp.arange(n + c + slips.size)
        is_constraint = (row >= n) & (row < n + c)
        units = jnp.where(row < n, velocity, momentum)
        rows = jnp.where(is_constraint, velocity, momentum)
        guess = jnp.concatenate([v, multipliers, impulses[: slips.size] + r * slips])
        return Scaling(guess, units, rows, r)

    def end(self, w: Unknowns) -> tuple[Coordinates, Coordinates, Float[Array, " l"]]:
        """(q, p, λ) after the step."""
        v, multipliers, y = self.split(w)
        held = self.friction(y)
        sticks = jax.lax.stop_gradient(held == y)
        v = self.without_noise(v, sticks)
        u = self.mean_velocity(v)
        # With θ = 1 the velocity at the end is the mean one, carried along with the displacement.
        carried = None if self.theta == 1 else v
        q, v = exp_and_transport(self.system, self.t, self.q, self.h, u, carried)
        most = plastic_of(self.system, self.t, q).yield_force
        plastic = -jnp.clip(self.trial_forces(q), -most, most)
        lam = jnp.concatenate([multipliers / self.h, -held / self.h, plastic])
        p = self.system.momentum(self.t + self.h, q, v)
        return q, p, lam

    def without_noise(self, v: Coordinates, sticks: Bool[Array, " s"]) -> Coordinates:
        """v, where the components that the sticking slips (mask `sticks`) determine get their exact values: 0 unless
        the surface moves."""
        slopes = jax.lax.stop_gradient(jax.jacfwd(self.slips)(v))
        rows: Float[Array, "s n"] = jnp.where(sticks[:, None], slopes, 0)
        if rows.size == 0:
            return v
        inverse = jnp.linalg.pinv(rows)
        # The diagonal of inverse @ rows, the projection onto what sticks, is 1 where a component is determined.
        diagonal = jnp.sum(inverse * rows.T, axis=1)
        determined = 1 - diagonal < jnp.sqrt(jnp.finfo(v.dtype).eps)
        drift = jnp.where(sticks, self.slips(jnp.zeros_like(v)), 0)
        return jnp.where(determined, -inverse @ drift, v)


def _positive(x: Scalar) -> Scalar:
    """x, or 1 where x is zero, to divide by."""
    return jnp.where(x > 0, x, 1)


def _largest(*x: Float[Array, " _"]) -> Scalar:
    """The largest size of any number in these arrays."""
    return jnp.max(jnp.abs(jnp.concatenate(x)))


def slips_of(
    system: AbstractLagrangianSystem, t: Scalar, q: Coordinates, v: Coordinates
) -> list[tuple[Float[Array, " _"], Float[Array, "_ _"]]]:
    """(F [m], slip velocities [m, d]) of every friction element with m contacts; an empty list for a system that is not
    a body of elements."""
    return sliding(system, t, q, v) if isinstance(system, AbstractBody) else []


def plastic_of(system: AbstractLagrangianSystem, t: Scalar, q: Coordinates) -> Plastic:
    """All plastic elements at q; empty arrays for a system that is not a body of elements."""
    if isinstance(system, AbstractBody):
        return Plastic(*strains(system, t, q))
    none = jnp.zeros(0, q.dtype)
    return Plastic(none, none, none)
