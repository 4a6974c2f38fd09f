"""Steps that minimise: the incremental potential, a proximal map, with friction and plasticity."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix

from geodyn._checks import a_number
from geodyn.integrators.contract.constraints import reactions
from geodyn.integrators.contract.system import AbstractLagrangianSystem
from geodyn.integrators.step.methods import AbstractStepper, Advanced
from geodyn.mechanics.dissipative.increment import Increment, slips_of, strains_of

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
    `gd.friction.quasi_static`. Raises ValueError for what it does not hold, contacts among them.
    """

    theta: float = eqx.field(static=True, default=1.0)
    inertia: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        a_number("theta", self.theta)
        if not 0.5 <= self.theta <= 1 or (self.theta < 1 and not self.inertia):
            raise ValueError(f"theta must be from 0.5 to 1, and 1 without inertia; got {self.theta!r}")

    def start(self, system, t, h, q, p, v):
        if not isinstance(system, AbstractLagrangianSystem):
            raise ValueError(f"IncrementalPotential needs a System or a Lagrangian, got {type(system).__name__}")
        if system.contacts is not None:
            raise ValueError(
                "IncrementalPotential does not see contacts: take gd.Gauss(3), or gd.methods.Moreau() for friction"
            )
        if self.theta < 1 and system.count_constraints(q):
            raise ValueError(
                "theta < 1 leaves constraints oscillating: take gd.friction.IncrementalPotential(), which is theta=1"
            )
        lam = reactions(system, t, q, p, v)
        friction = jnp.zeros(sum(s.size for _, s in slips_of(system, t, q, v)), q.dtype)
        k, most, strain = strains_of(system, t, q)
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
