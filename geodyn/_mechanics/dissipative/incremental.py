"""Implicit time steps that minimise an incremental potential (proximal maps), with friction and plasticity."""

from typing import NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix

from geodyn._engine.numerics.roots import with_derivative, without_derivatives
from geodyn._engine.tracing import once
from geodyn._foundations.checks import a_number
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Float, Int, Scalar
from geodyn._integrators.contract.constraints import reactions
from geodyn._integrators.contract.system import AbstractLagrangianSystem, AbstractSystem
from geodyn._integrators.step.methods import AbstractStepper, Advanced
from geodyn._mechanics.dissipative.increment import Increment, plastic_of, slips_of
from geodyn._mechanics.dissipative.search import solution_nearby

MOST_NEWTON = 60


class Search(NamedTuple):
    """The state of a step: its unknowns `w`, divided by their units, whether they are a solution, the number of turns
    of Newton's method so far, and that of its attempts."""

    w: Float[Array, " w"]
    converged: Bool[Array, ""]
    turns: Int[Array, ""]
    attempts: Int[Array, ""]


@checked
class IncrementalPotential(AbstractStepper):
    """Implicit steps by minimisation, of order 1 or 2, for dry friction, plasticity and Rayleigh functions.

    The step is v = argmin ½|v − v_old|²_M + V(exp_q hv) + h R(q, v), which is the backward Euler method; then q⁺ =
    exp_q hv, along which v is carried. It is for any `System` or `Lagrangian` L = K − V, with Rayleigh functions,
    constraints, `gd.friction.DryFriction` (what sticks has velocity 0 exactly) and `gd.friction.PlasticSpring`.
    `trajectory.multipliers` are those of the constraints, then the forces of every friction and of every plastic
    spring, in the order of the elements.

    Args:
        theta: from 0.5 to 1. 1 is of order 1 and damps. 0.5 moves by the mean of both velocities, under the mean of
            both forces: it is of order 2 wherever nothing begins to stick or to yield, does not damp, and is for
            systems without constraints only.
        inertia: False leaves out the masses, see `gd.friction.quasi_static`; then theta must be 1.

    Raises:
        ValueError: for numbers that do not fit, and, in `gd.integrate`, for what it does not hold, such as contacts.

    Example:
        An oscillator through one period: theta = 1 damps it, theta = 0.5 does not.

        >>> body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Harmonic(1.0, [0.0]))
        >>> def amplitude(theta):
        ...     method = gd.friction.IncrementalPotential(theta=theta)
        ...     return gd.integrate(body, [[1.0]], t1=2 * np.pi, steps=100, method=method).q[-1, 0, 0]
        >>> print(f"{amplitude(1.0):.3f} {amplitude(0.5):.3f}")
        0.821 1.000

    Source:
        Ortiz & Stainier, *Comput. Methods Appl. Mech. Engng* 171 (1999) 419; Kane, Marsden, Ortiz & West, *Int. J.
        Numer. Meth. Engng* 49 (2000) 1295; Acary & Brogliato, *Numerical Methods for Nonsmooth Dynamical Systems*
        (2008), 10.1.
    """

    theta: float = eqx.field(static=True, default=1.0)
    inertia: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        a_number("theta", self.theta)
        if not 0.5 <= self.theta <= 1 or (self.theta < 1 and not self.inertia):
            raise ValueError(f"theta must be from 0.5 to 1, and 1 without inertia; got {self.theta!r}")

    def start(
        self, system: AbstractSystem, t: Scalar, h: Scalar, q: Float[Array, " n"], p: Array, v: Float[Array, " n"]
    ) -> Array:
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
        k, most, strain = plastic_of(system, t, q)
        return jnp.concatenate([lam if self.inertia else 0 * lam, friction, -jnp.clip(k * strain, -most, most)])

    def advance(
        self, system: AbstractSystem, t: Scalar, h: Scalar, q: Float[Array, " n"], p: Array, lam: Array
    ) -> Advanced:
        system = cast(AbstractLagrangianSystem, system)  # Of others `start` raises ValueError.
        increment = Increment(system, t, h, q, p, lam, self.theta, self.inertia)
        still = without_derivatives(increment)
        # Unknowns and equations are divided by their scales, so that one tolerance fits all of them.
        first, units, rows, r = still.scaling()
        tolerance = 2**8 * float(jnp.finfo(q.dtype).eps)

        def residual(w: Float[Array, " w"], increment: Increment) -> Float[Array, " w"]:
            return increment.residual(w * units, r) / rows

        def attempt(state: Search) -> Search:
            """Newton's method: from the first guess; then from near the solution; then on from where this led, for the
            velocities alone. Where more hold than are needed, the forces are not unique, and wander; that they balance
            is looked at then."""
            attempts = state.attempts
            (start,) = once(attempts == 1, lambda _: (solution_nearby(still, first, units[0]) / units,), state.w)
            counted = (jnp.arange(first.size) < q.size) | (attempts < 2)

            def norm(x: Float[Array, " w"]) -> Scalar:
                return jnp.max(jnp.where(counted, jnp.abs(x), 0))

            newton = optimistix.Newton(rtol=tolerance, atol=tolerance, norm=norm)
            found = optimistix.root_find(residual, newton, start, still, max_steps=MOST_NEWTON, throw=False)
            balanced = jnp.max(jnp.abs(residual(found.value, still))) <= 2**8 * tolerance
            converged = (found.result == optimistix.RESULTS.successful) & (balanced | (attempts < 2))
            return Search(found.value, converged, state.turns + found.stats["num_steps"], attempts + 1)

        # Without friction the equations are smooth, and Newton's method has no need of a second start.
        most = 3 if slips_of(system, t, q, jnp.zeros_like(q)) else 1

        def proceed(state: Search) -> Bool[Array, ""]:
            return ~state.converged & (state.attempts < most)

        none = jnp.zeros((), int)
        begin = Search(first / units, jnp.zeros((), bool), none, none)
        end = jax.lax.while_loop(proceed, attempt, begin)
        w = with_derivative(lambda w: residual(w, increment), end.w)
        return Advanced(*increment.end(w * units), end.converged, end.turns)
