"""Steps that minimise: the incremental potential, backward Euler as a proximal map, friction and plasticity included.

Unknowns of a step are w = (v, hλ, y). Its equations are those of a saddle point of the incremental potential with the
constraints, semi-smooth where a friction begins to slip: with slip velocities s(v) and a force from the ball |f| ≤ F,

    0 = ∂/∂v [½|v − v_old|²_M + hR + V(q⁺) − λ·φ(q⁺)] + s'ᵀ proj_hF(y),   0 = φ(q⁺)/h,   r s = y − proj_hF(y)

for any r > 0 (Alart & Curnier, *Comput. Methods Appl. Mech. Engng* 92 (1991) 353); nonholonomic constraints stand
beside φ. Plastic strain is eliminated: what is left of its energy and dissipation in a step is Huber's function of the
strain (the return map; Simo & Hughes, *Computational Inelasticity*, 1.4).
"""

from functools import singledispatch

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix
from jax.extend.core import Literal

from geodyn._typing import Array
from geodyn.geometry.geodesic import geodesic
from geodyn.geometry.manifold import AbstractManifold, christoffel
from geodyn.geometry.spaces import AbstractConstantCurvature
from geodyn.integrators.constraints import reactions
from geodyn.integrators.gaps import is_watched
from geodyn.integrators.methods import AbstractStepper, Advanced
from geodyn.integrators.system import AbstractLagrangianSystem, pfaffian
from geodyn.integrators.tableau import rk4
from geodyn.mechanics.body import AbstractBody
from geodyn.mechanics.system import System

MOST_NEWTON = 60


class IncrementalPotential(AbstractStepper):
    """Steps by minimisation: v = argmin ½|v − v_old|²_M + V(exp_q hv) + h R(q, v), which is backward Euler, then q⁺ =
    exp_q hv, along which v is carried (Ortiz & Stainier, *Comput. Methods Appl. Mech. Engng* 171 (1999) 419; Kane,
    Marsden, Ortiz & West, *Int. J. Numer. Meth. Engng* 49 (2000) 1295).

    For any `System` or `Lagrangian` L = K − V, with Rayleigh functions, constraints, `DryFriction` (what
    sticks has velocity 0 exactly) and `PlasticSpring`. `trajectory.multipliers` are those of the constraints, then the
    forces of every friction and of every plastic spring, in the order of the elements.

    `theta=1` is of order 1 and damps. `theta=0.5` moves by the mean of both velocities, under the mean of both forces:
    of order 2 wherever nothing begins to stick or to yield, without damping, and without constraints (Acary &
    Brogliato, *Numerical Methods for Nonsmooth Dynamical Systems* (2008), 10.1). `inertia=False` leaves out M, see
    `gd.quasi_static`. Raises ValueError for what it does not hold, contacts among them.
    """

    theta: float = eqx.field(static=True, default=1.0)
    inertia: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        if not 0.5 <= self.theta <= 1 or (self.theta < 1 and not self.inertia):
            raise ValueError(f"theta must be from 0.5 to 1, and 1 without inertia; got {self.theta!r}")

    def start(self, system, t, h, q, p, v):
        if not isinstance(system, AbstractLagrangianSystem):
            raise ValueError(f"IncrementalPotential needs a System or a Lagrangian, got {type(system).__name__}")
        if is_watched(system):
            raise ValueError(
                "IncrementalPotential does not see contacts: take gd.Gauss(3), or gd.Moreau() for friction"
            )
        if self.theta < 1 and system.count_constraints(q):
            raise ValueError(
                "theta < 1 leaves constraints oscillating: take gd.IncrementalPotential(), which is theta=1"
            )
        lam = reactions(system, t, q, p, v)
        friction = jnp.zeros(sum(s.size for _, s in _slips(system, t, q, v)), q.dtype)
        k, most, strain = _strains(system, t, q)
        return jnp.concatenate([lam if self.inertia else 0 * lam, friction, -jnp.clip(k * strain, -most, most)])

    def advance(self, system, t, h, q, p, lam):
        increment = Increment(system, t, h, q, p, lam, self.theta, self.inertia)
        # The unknowns as multiples of what they are measured by, so that one tolerance fits all of them.
        first, units, rows, r = jax.lax.stop_gradient(increment.scaled())
        tolerance = 2**8 * float(jnp.finfo(q.dtype).eps)
        found = optimistix.root_find(
            lambda w, increment: increment.residual(w * units, r) / rows,
            optimistix.Newton(rtol=tolerance, atol=tolerance),
            first / units,
            increment,
            max_steps=MOST_NEWTON,
            throw=False,
        )
        converged = found.result == optimistix.RESULTS.successful
        return Advanced(*increment.end(found.value * units), converged, found.stats["num_steps"])


class Increment(eqx.Module):
    """The equations of one step: everything they depend on, differentiable."""

    system: AbstractLagrangianSystem
    t: Array
    h: Array
    q: Array
    p: Array
    lam: Array
    theta: float = eqx.field(static=True)
    inertia: bool = eqx.field(static=True)

    def split(self, w):
        """(v, hλ, y)."""
        n, c = self.q.size, self.system.count_constraints(self.q)
        return w[:n], w[n : n + c], w[n + c :]

    @property
    def before(self):
        """The velocity before the step."""
        return self.system.velocity(self.t, self.q, self.p)

    def mean(self, v):
        """The velocity that moves the system, if v is that at the end."""
        return v if self.theta == 1 else self.theta * v + (1 - self.theta) * self.before

    def potential(self, q, lam):
        """V + Huber's function − λ·φ at the end of the step, λ of the holonomic constraints."""
        t, (k, most, _) = self.t + self.h, _strains(self.system, self.t, self.q)
        size = jnp.abs(self.trial(q))
        held = jnp.sum(jnp.where(size <= most, size**2, most * (2 * size - most)) / (2 * k))
        constraint = self.system.constraint(t, q)
        return self.system.energy(t, q, jnp.zeros_like(q)) + held - jnp.dot(lam[: constraint.size], constraint)

    def trial(self, q):
        """The forces of plastic springs at the end q, were they elastic in this step."""
        k, _, before = _strains(self.system, self.t, self.q)
        return k * (_strains(self.system, self.t + self.h, q)[2] - before) - self.yielding

    @property
    def yielding(self):
        """The forces of plastic springs before the step, with the sign of multipliers."""
        return self.lam[self.lam.size - _strains(self.system, self.t, self.q)[0].size :]

    def earlier(self):
        """∂V/∂q and what plastic springs add, before the step."""

        def potential(q):
            strain = _strains(self.system, self.t, q)[2]
            return self.system.energy(self.t, q, jnp.zeros_like(q)) - jnp.dot(self.yielding, strain)

        return jax.grad(potential)(self.q)

    def smooth(self, v, multipliers):
        """(what friction has to balance, by how much the constraints are missed)."""
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
        """s, in one row."""
        parts = [s.reshape(-1) for _, s in _slips(self.system, self.t + self.h, self.q, v)]
        return jnp.concatenate([jnp.zeros(0, v.dtype), *parts])

    def friction(self, y):
        """proj_hF(y), the impulses of friction, reversed."""
        impulses, at = [jnp.zeros(0, y.dtype)], 0
        for most, s in _slips(self.system, self.t + self.h, self.q, jnp.zeros_like(self.q)):
            part = y[at : at + s.size].reshape(s.shape)
            square, at = jnp.sum(part**2, axis=1), at + s.size
            slipping = square >= (self.h * most) ** 2
            factor = jnp.where(slipping, self.h * most / jnp.sqrt(jnp.where(square > 0, square, 1)), 1)
            impulses.append((factor[:, None] * part).reshape(-1))
        return jnp.concatenate(impulses)

    def residual(self, w, r):
        """What vanishes."""
        v, multipliers, y = self.split(w)
        s, push = jax.vjp(self.slips, v)
        held, (rest, missed) = self.friction(y), self.smooth(v, multipliers)
        # What both a constraint and friction hold would be shared out anyhow: almost all of it goes to the constraint.
        give = jnp.finfo(y.dtype).eps ** 0.75 if multipliers.size else 0
        return jnp.concatenate([rest + push(held)[0], missed, r * s - (1 + give) * y + held])

    def scaled(self):
        """(w near the root, the units of w, those of the equations, r)."""
        n, c, v = self.q.size, self.system.count_constraints(self.q), self.before
        multipliers, impulses = self.h * self.lam[:c], -self.h * self.lam[c:]
        stiffness, force = jax.jacfwd(lambda v: (self.smooth(v, multipliers)[0],) * 2, has_aux=True)(v)
        s, a = self.slips(v), jax.jacfwd(self.slips)(v)
        largest = lambda *x: jnp.max(jnp.abs(jnp.concatenate(x)))  # noqa: E731
        # A plastic spring counts as elastic here: where it flows it has no stiffness, or what rounding leaves of none.
        hardest = _positive(largest(jnp.diag(stiffness), self.h**2 * _strains(self.system, self.t, self.q)[0]))
        velocity = _positive(largest(v, self.q / self.h / 2**6, force / hardest))
        momentum = jnp.maximum(hardest * velocity, largest(multipliers, impulses, force))
        r = jnp.maximum(jnp.sum((stiffness @ a.T) * a.T), 2**-10 * hardest) / _positive(jnp.sum((a @ a.T) ** 2))
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
        most = _strains(self.system, self.t, q)[1]
        lam = jnp.concatenate([multipliers / self.h, -held / self.h, -jnp.clip(self.trial(q), -most, most)])
        return q, self.system.momentum(self.t + self.h, q, v), lam

    def stuck(self, v, sticks):
        """v with the components that sticking determines exactly as it does: 0 where nothing that sticks moves."""
        rows = jnp.where(sticks[:, None], jax.lax.stop_gradient(jax.jacfwd(self.slips)(v)), 0)
        if rows.size == 0:
            return v
        inverse = jnp.linalg.pinv(rows)
        determined = 1 - jnp.sum(inverse * rows.T, axis=1) < jnp.sqrt(jnp.finfo(v.dtype).eps)
        return jnp.where(determined, -inverse @ jnp.where(sticks, self.slips(jnp.zeros_like(v)), 0), v)


def _positive(x):
    return jnp.where(x > 0, x, 1)


def _slips(system, t, q, v):
    return system.sliding(t, q, v) if isinstance(system, AbstractBody) else []


def _strains(system, t, q):
    return system.strains(t, q) if isinstance(system, AbstractBody) else (jnp.zeros(0, q.dtype),) * 3


class KineticMetric(AbstractManifold):
    """∂²L/∂v², the metric in which a system without forces moves along geodesics."""

    system: AbstractLagrangianSystem
    t: Array
    dim: int = eqx.field(static=True)

    def metric(self, x):
        return jax.jacfwd(self.system.momentum, 2)(self.t, x, jnp.zeros_like(x))


@singledispatch
def travelled(system: AbstractLagrangianSystem, t, q, h, u, v=None):
    """(exp_q hu, the velocity v, by default u, carried along that geodesic)."""
    space = KineticMetric(system, t, q.size)
    if _is_constant(space.metric, q):
        return q + h * u, u if v is None else v
    return _along(space, h, q, u, v)


@travelled.register
def _(system: System, t, q, h, u, v=None):
    points = [x.reshape(system.masses.size, system.space.dim) for x in ((q, u) if v is None else (q, u, v))]
    q, v = jax.vmap(lambda *x: _along(system.space, h, *x))(*points)
    return q.reshape(-1), v.reshape(-1)


def _along(space, h, x, u, v=None):
    """`travelled` of one point; one at rest stays where it is, bit for bit. What moves is parallel along its geodesic;
    what else is carried is so up to O(h²), as a Jacobi field."""
    flow = lambda u: _flow(space, h, x, u)  # noqa: E731
    exactly = lambda value, known, where: value + jax.lax.stop_gradient(jnp.where(where, known - value, 0))  # noqa: E731
    if v is None:
        end, carried = flow(u)
        return exactly(end, x, jnp.all(u == 0)), carried
    (end, along), (change, _) = jax.jvp(flow, (u,), (v - u,))
    return exactly(end, x, jnp.all(u == 0)), exactly(along + change / h, 0 * v, jnp.all(v == 0))


def _flow(space, h, x, u):
    """(exp_x hu, its velocity): in closed form where there is one, else by a step of Kutta's method, whose error h⁵ is
    beyond that of any step here, and whose derivatives cost little."""
    if isinstance(space, AbstractConstantCurvature):
        return jax.tree.map(lambda a: a[0], geodesic(space, x, u, h[None]))
    rate = lambda x, u: (u, -jnp.einsum("kij,i,j", christoffel(space, x), u, u))  # noqa: E731
    kutta, slopes = rk4(), []
    for row in kutta.a:
        slopes.append(rate(*_moved(h, row, (x, u), slopes)))
    return _moved(h, kutta.b, (x, u), slopes)


def _moved(h, weights, start, slopes):
    """start + h Σ weight · slope."""
    return tuple(
        x + h * sum((w * s[i] for w, s in zip(weights, slopes) if w), jnp.zeros_like(x)) for i, x in enumerate(start)
    )


def _is_constant(function, x):
    """Whether no operation leads from x to the value of the function."""
    program = jax.make_jaxpr(function)(x).jaxpr
    reached = set(program.invars)
    for equation in program.eqns:
        if reached & {v for v in equation.invars if not isinstance(v, Literal)}:
            reached.update(equation.outvars)
    return not reached & {v for v in program.outvars if not isinstance(v, Literal)}
