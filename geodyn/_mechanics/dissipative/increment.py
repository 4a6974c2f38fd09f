"""The equations of one step of the incremental potential, with friction and plasticity.

The unknowns of a step are w = (v, hλ, y): the velocity v at its end, the impulses hλ of the constraints, and y, whose
projection onto the ball of radius hF is minus the friction impulse. The equations are those of a saddle point of the
incremental potential with constraints; they are semi-smooth, with a kink where friction begins to slip. With slip
velocities s(v) and friction forces |f| ≤ F,

    0 = ∂/∂v [½|v − v_old|²_M + hR + V(q⁺) − λ·φ(q⁺)] + s'ᵀ proj_hF(y),   0 = φ(q⁺)/h,   r s = y − proj_hF(y)

for any r > 0 (Alart & Curnier, *Comput. Methods Appl. Mech. Engng* 92 (1991) 353). Nonholonomic constraints A v = b are
imposed in the same way as φ. The plastic strain is eliminated: the minimum over it of energy plus dissipation in a step
is Huber's function of the strain (return map; Simo & Hughes, *Computational Inelasticity*, 1.4).
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._foundations.typing import Array, Float
from geodyn._integrators.contract.system import AbstractLagrangianSystem, pfaffian
from geodyn._mechanics.dissipative.exponential import travelled
from geodyn._mechanics.points.body import AbstractBody, sliding, strains


class Increment(eqx.Module):
    """The equations of one step from (t, q, p) of length h; `lam` holds the multipliers of the step before. All arrays
    can be differentiated."""

    system: AbstractLagrangianSystem
    t: Array
    h: Array
    q: Array
    p: Array
    lam: Array
    theta: float = eqx.field(static=True)
    inertia: bool = eqx.field(static=True)

    def split(self, w):
        """The parts (v, hλ, y) of the unknowns w."""
        n, c = self.q.size, self.system.count_constraints(self.q)
        return w[:n], w[n : n + c], w[n + c :]

    @property
    def before(self):
        """The velocity before the step."""
        return self.system.velocity(self.t, self.q, self.p)

    def mean(self, v):
        """The velocity θv + (1 − θ)v_old of the displacement, from the velocity v at the end of the step."""
        return v if self.theta == 1 else self.theta * v + (1 - self.theta) * self.before

    def potential(self, q, lam):
        """V + Huber's function − λ·φ at q at the end of the step; the first entries of `lam` are the λ of φ."""
        t, (k, most, _) = self.t + self.h, strains_of(self.system, self.t, self.q)
        size = jnp.abs(self.trial(q))
        held = jnp.sum(jnp.where(size <= most, size**2, most * (2 * size - most)) / (2 * k))
        constraint = self.system.constraint(t, q)
        return self.system.energy(t, q, jnp.zeros_like(q)) + held - jnp.dot(lam[: constraint.size], constraint)

    def trial(self, q):
        """The trial forces of plastic springs: their forces at the end q if no plastic strain flows in this step."""
        k, _, before = strains_of(self.system, self.t, self.q)
        return k * (strains_of(self.system, self.t + self.h, q)[2] - before) - self.yielding

    @property
    def yielding(self):
        """The forces of plastic springs before the step, with the sign of multipliers."""
        return self.lam[self.lam.size - strains_of(self.system, self.t, self.q)[0].size :]

    def earlier(self):
        """∂V/∂q at the beginning of the step, including the plastic springs."""

        def potential(q):
            strain = strains_of(self.system, self.t, q)[2]
            return self.system.energy(self.t, q, jnp.zeros_like(q)) - jnp.dot(self.yielding, strain)

        return jax.grad(potential)(self.q)

    def smooth(self, v, multipliers):
        """(the residual of the momentum balance without friction, the residuals of the constraints)."""
        u = self.mean(v)
        end, pull = jax.vjp(lambda u: travelled(self.system, self.t, self.q, self.h, u)[0], u)
        impulse = pull(jax.grad(self.potential)(end, multipliers / self.h))[0]
        if self.theta < 1:
            impulse = self.theta * impulse + (1 - self.theta) * self.h * self.earlier()
        damping = self.h * jax.grad(self.system.rayleigh_at, 2)(self.t + self.theta * self.h, self.q, u)
        inertia = self.system.momentum(self.t, self.q, v) - self.p if self.inertia else 0
        missed = self.system.constraint(self.t + self.h, end) / self.h
        rate, react = jax.vjp(lambda v: pfaffian(self.system, self.t, self.q, v), v)
        rest = inertia + damping + impulse
        return rest - react(multipliers[missed.size :])[0] if rate.size else rest, jnp.append(missed, rate)

    def slips(self, v):
        """All slip velocities s(v), concatenated."""
        parts = [s.reshape(-1) for _, s in slips_of(self.system, self.t + self.h, self.q, v)]
        return jnp.concatenate([jnp.zeros(0, v.dtype), *parts])

    def friction(self, y):
        """proj_hF(y): minus the friction impulses."""
        impulses, at = [jnp.zeros(0, y.dtype)], 0
        for most, s in slips_of(self.system, self.t + self.h, self.q, jnp.zeros_like(self.q)):
            part = y[at : at + s.size].reshape(s.shape)
            square, at = jnp.sum(part**2, axis=1), at + s.size
            slipping = square >= (self.h * most) ** 2
            factor = jnp.where(slipping, self.h * most / jnp.sqrt(jnp.where(square > 0, square, 1)), 1)
            impulses.append((factor[:, None] * part).reshape(-1))
        return jnp.concatenate(impulses)

    def most_friction(self):
        """The largest hF."""
        most = slips_of(self.system, self.t + self.h, self.q, jnp.zeros_like(self.q))
        return self.h * jnp.max(
            jnp.concatenate([self.q[:0], *(strength.reshape(-1) for strength, _ in most)]), initial=0.0
        )

    def residual(self, w, r):
        """The equations of the module docstring at w, zero at the solution."""
        v, multipliers, y = self.split(w)
        s, push = jax.vjp(self.slips, v)
        held, (rest, missed) = self.friction(y), self.smooth(v, multipliers)
        # A force that both a constraint and friction can hold has no unique split: give almost all to the constraint.
        give = jnp.finfo(y.dtype).eps ** 0.75 if multipliers.size else 0
        return jnp.concatenate([rest + push(held)[0], missed, r * s - (1 + give) * y + held])

    def scaled(self):
        """(the initial guess of w, scales of the entries of w, scales of the equations, the constant r)."""
        n, c, v = self.q.size, self.system.count_constraints(self.q), self.before
        multipliers, impulses = self.h * self.lam[:c], -self.h * self.lam[c:]
        stiffness, force = jax.jacfwd(lambda v: (self.smooth(v, multipliers)[0],) * 2, has_aux=True)(v)
        s, a = self.slips(v), jax.jacfwd(self.slips)(v)

        def largest(*x):
            return jnp.max(jnp.abs(jnp.concatenate(x)))

        # A plastic spring counts with its elastic stiffness here: while it flows, its tangent stiffness is 0, or noise.
        hardest = _positive(largest(jnp.diag(stiffness), self.h**2 * strains_of(self.system, self.t, self.q)[0]))
        speed, held = _positive(largest(v, self.q / self.h / 2**6)), self.most_friction()
        # Friction holds too: what it leaves of a force may move little, however small the masses are.
        velocity = jnp.maximum(speed, largest(force) / jnp.maximum(hardest, held / speed))
        momentum = jnp.maximum(hardest * velocity, largest(multipliers, impulses, force, held[None]))
        least = jnp.maximum(2**-10 * hardest, held / velocity)
        r = jnp.maximum(jnp.sum((stiffness @ a.T) * a.T), least) / _positive(jnp.sum((a @ a.T) ** 2))
        row = jnp.arange(n + c + s.size)
        units = jnp.where(row < n, velocity, momentum)
        rows = jnp.where((row >= n) & (row < n + c), velocity, momentum)
        return jnp.concatenate([v, multipliers, impulses[: s.size] + r * s]), units, rows, r

    def end(self, w):
        """(q, p, λ) after the step."""
        v, multipliers, y = self.split(w)
        held = self.friction(y)
        v = self.stuck(v, jax.lax.stop_gradient(held == y))
        q, v = travelled(self.system, self.t, self.q, self.h, self.mean(v), None if self.theta == 1 else v)
        most = strains_of(self.system, self.t, q)[1]
        lam = jnp.concatenate([multipliers / self.h, -held / self.h, -jnp.clip(self.trial(q), -most, most)])
        return q, self.system.momentum(self.t + self.h, q, v), lam

    def stuck(self, v, sticks):
        """v, where the components that the sticking slips (mask `sticks`) determine get their exact values: 0 unless
        the surface moves."""
        rows: Float[Array, "s n"] = jnp.where(sticks[:, None], jax.lax.stop_gradient(jax.jacfwd(self.slips)(v)), 0)
        if rows.size == 0:
            return v
        inverse = jnp.linalg.pinv(rows)
        determined = 1 - jnp.sum(inverse * rows.T, axis=1) < jnp.sqrt(jnp.finfo(v.dtype).eps)
        return jnp.where(determined, -inverse @ jnp.where(sticks, self.slips(jnp.zeros_like(v)), 0), v)


def _positive(x):
    return jnp.where(x > 0, x, 1)


def slips_of(system, t, q, v):
    """(F, s) of every friction element; an empty list for a system that is not a body of elements."""
    return sliding(system, t, q, v) if isinstance(system, AbstractBody) else []


def strains_of(system, t, q):
    """(k, Y, e) of all plastic elements; empty arrays for a system that is not a body of elements."""
    return strains(system, t, q) if isinstance(system, AbstractBody) else (jnp.zeros(0, q.dtype),) * 3
