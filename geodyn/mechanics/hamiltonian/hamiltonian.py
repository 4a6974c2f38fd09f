"""The Hamiltonian view: H(q, p) as a system, the Legendre transform both ways, brackets, symmetries, and what a flow
does to phase space.

Sources: Arnold, *Mathematical Methods of Classical Mechanics*, 14–15 and 38–40; Goldstein, chapters 8 and 9.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._checks import check_arguments, one_number, returned
from geodyn._compile.jit import as_pytree, jit, with_time
from geodyn._numerics.roots import root
from geodyn._typing import Array, Float, Numbers, Scalar
from geodyn.integrators.contract.lagrangian import Lagrangian
from geodyn.integrators.contract.system import AbstractLagrangianSystem, AbstractSystem
from geodyn.integrators.integrate import integrate
from geodyn.integrators.step.methods import AbstractMethod
from geodyn.mechanics.elements.abstract import AbstractPotential
from geodyn.mechanics.points.body import AbstractBody
from geodyn.mechanics.points.system import momentum


class Hamiltonian(AbstractSystem):
    """A system from its energy: `Hamiltonian(H)`, q' = ∂H/∂p, p' = −∂H/∂q, with `H(q, p) -> number` on flat q[n], p[n].

    `gd.integrate(system, q0, p0=p0, …)` starts from a momentum, or from a velocity v0. H may name a parameter `t`, and
    may be an `eqx.Module`, whose arrays are traced and differentiable. The momentum of a velocity is found by Newton's
    method from p = v, in one iteration where H is quadratic in p; so H must have a regular ∂²H/∂p². One that has not
    (linear in p, as H = <p, X(q)>, or |p|) is refused where a motion starts: integrate y = (q, p) instead, by
    `gd.ODE(gd.hamilton.hamiltonian_field(H))`, with `Gauss` symplectic as well. Any consistent units.
    """

    hamiltonian: Callable

    def __init__(self, hamiltonian):
        if not callable(hamiltonian):
            raise ValueError(f"hamiltonian must be a function H(q, p), got {hamiltonian!r}")
        check_arguments("hamiltonian", hamiltonian, "q", "p")
        self.hamiltonian = as_pytree(hamiltonian)

    def hamiltonian_at(self, t, q, p) -> Scalar:
        """H(t, q, p)."""
        return one_number("hamiltonian", returned("hamiltonian", with_time(self.hamiltonian, 2), t, q, p))

    def velocity(self, t, q, p, v=None):
        return jax.grad(self.hamiltonian_at, 2)(t, q, p)

    def momentum(self, t, q, v):
        return root(lambda p: self.velocity(t, q, p), v, v)

    def force(self, t, q, v, lam):
        return -jax.grad(self.hamiltonian_at, 1)(t, q, self.momentum(t, q, v))

    def constraint(self, t, q):
        return jnp.zeros(0, q.dtype)

    def count_constraints(self, q):
        return 0

    def energy(self, t, q, v):
        return self.hamiltonian_at(t, q, self.momentum(t, q, v))

    def check(self, t, q, v):
        if q.ndim != 1:
            raise ValueError(f"q0 of a Hamiltonian must be flat [n], got shape {q.shape}")
        if v is None:
            raise ValueError("a Hamiltonian starts from a momentum, p0=..., or from a velocity v0; got neither")
        p, hessian = map(np.asarray, _legendre_map(self, t, jnp.asarray(q), jnp.asarray(v)))
        scale = np.sqrt(np.abs(np.diag(hessian)))
        if not (
            np.all(np.isfinite(p)) and np.linalg.cond(hessian / np.outer(scale, scale)) < np.finfo(p.dtype).eps ** -0.75
        ):
            raise ValueError(
                f"hamiltonian gives no momentum for the velocity {np.asarray(v)} at q0: ∂H/∂p = v has no solution, or "
                "∂²H/∂p² is singular. Where H is degenerate integrate y = (q, p): "
                "gd.ODE(gd.hamilton.hamiltonian_field(H))"
            )


@eqx.filter_jit
def _legendre_map(system, t, q, v):
    p = system.momentum(t, q, v)
    return p, jax.hessian(system.hamiltonian_at, 2)(t, q, p)


def hamiltonian_field(hamiltonian: Callable) -> Callable:
    """Hamilton's equations as a vector field of y = (q, p)[2n]: `f(t, y) = (∂H/∂p, −∂H/∂q)`, for any H, degenerate ones
    too: `gd.ODE(gd.hamilton.hamiltonian_field(H))`."""
    H = with_time(hamiltonian, 2)

    def field(t, y):
        q, p = jnp.split(y, 2)
        dq, dp = jax.grad(H, (1, 2))(t, q, p)
        return jnp.concatenate([dp, -dq])

    return field


class _Energy(eqx.Module):
    """<p, v> − L at the velocity that p stands for."""

    system: AbstractSystem

    def __call__(self, q, p, t):
        return self.system.energy(t, q, self.system.velocity(t, q, p))


class _Lagrange(eqx.Module):
    """<p, v> − H at the momentum that v stands for."""

    system: Hamiltonian

    def __call__(self, q, v, t):
        p = self.system.momentum(t, q, v)
        return jnp.dot(p, v) - self.system.hamiltonian_at(t, q, p)


def legendre(system: AbstractSystem) -> Hamiltonian | Lagrangian:
    """The Legendre transform, its own inverse: of a `Lagrangian` or a body the `Hamiltonian`, H(q, p) = <p, v> − L on
    flat q[n], p[n]; of a `Hamiltonian` the `Lagrangian`, L(q, v) = <p, v> − H (Arnold, 14).

    Raises ValueError for a system that its energy does not describe: with constraints, dissipation or contacts.
    """
    if isinstance(system, Hamiltonian):
        return Lagrangian(_Lagrange(system))
    check_conservative(system)
    return Hamiltonian(_Energy(system))


def check_conservative(system: AbstractSystem) -> None:
    """Raises ValueError for a system that has no Lagrangian, or more than that."""
    if not isinstance(system, AbstractLagrangianSystem):
        raise ValueError(f"system must be a Lagrangian, System or Hamiltonian, got {type(system).__name__}")
    if isinstance(system, AbstractBody):
        others = [type(e).__name__ for e in system.elements if not isinstance(e, AbstractPotential)]
    else:
        names = ("constraints", "dissipation", "nonholonomic")
        others = [name for name in names if getattr(system, name, None) is not None]
    if others:
        raise ValueError(f"system must have nothing but an energy, got {', '.join(others)}: leave them out")


def poisson_bracket(f: Callable, g: Callable) -> Callable:
    """{f, g} = <∂f/∂q, ∂g/∂p> − <∂f/∂p, ∂g/∂q> of two functions of (q, p), as a function of (q, p), in arrays of any
    shape: {q, p} = 1, and the rate of f along a motion is {f, H} (Goldstein 9.5)."""

    def bracket(q, p):
        (f_q, f_p), (g_q, g_p) = jax.grad(f, (0, 1))(q, p), jax.grad(g, (0, 1))(q, p)
        return jnp.vdot(f_q, g_p) - jnp.vdot(f_p, g_q)

    return bracket


def noether_momentum(system: AbstractSystem, field: Callable, q: Numbers, v: Numbers, t=0.0) -> Scalar:
    """<p, Y(q)> of a vector field `field(q) -> Y` in the shape of q: kept along the motion where the flow of Y leaves
    L alone (Arnold, 20), as `symmetry_defect` says. Any consistent units."""
    q = jnp.asarray(q, float)
    return jnp.vdot(momentum(system, q, v, t), field(q))


def symmetry_defect(system: AbstractSystem, field: Callable, q: Numbers, v: Numbers, t=0.0) -> Scalar:
    """The rate at which L changes under the flow of a vector field `field(q) -> Y` that carries q and v along,
    <∂L/∂q, Y> + <p, Y'(q) v>: zero for a symmetry, and else the rate at which `noether_momentum` grows. Dissipation
    counts, as −<∂R/∂v, Y>; reactions of constraints do not, which do no work where Y keeps the constraints."""
    q, v = jnp.asarray(q, float), jnp.asarray(v, float)
    Y, rate = jax.jvp(field, (q,), (v,))
    flat, t = q.reshape(-1), jnp.asarray(t, q.dtype)
    force = system.force(t, flat, v.reshape(-1), jnp.zeros(system.count_constraints(q), q.dtype))
    return jnp.vdot(force, Y) + jnp.vdot(momentum(system, q, v, t), rate)


def flow_derivative(
    system: AbstractSystem, q0: Numbers, p0: Numbers, *, t1, steps: int, method: AbstractMethod | None = None
) -> Float[Array, "D D"]:
    """∂(q, p)/∂(q0, p0) at t1 [2n, 2n], of the flow as the method computes it (for systems without constraints)."""
    return _flow_derivative(system, *(jnp.asarray(x, float) for x in (q0, p0, t1)), steps=steps, method=method)


@jit
def _flow_derivative(system, q0, p0, t1, steps, method):
    def flow(y):
        q, p = (x.reshape(q0.shape) for x in jnp.split(y, 2))
        end = integrate(system, q, p0=p, t1=t1, steps=steps, save_every=steps, method=method)
        return jnp.concatenate([end.q[-1].reshape(-1), end.p[-1].reshape(-1)])

    return jax.jacfwd(flow)(jnp.concatenate([q0.reshape(-1), p0.reshape(-1)]))


def liouville_defect(system: AbstractSystem, q0: Numbers, p0: Numbers, **options) -> Scalar:
    """det D − 1, D the `flow_derivative` (and its options): by how much the flow changes volumes of phase space. Zero
    for a Hamiltonian flow (Liouville; Arnold, 16); with dissipation, exp(∫ div dt) − 1."""
    return jnp.linalg.det(flow_derivative(system, q0, p0, **options)) - 1


def symplectic_defect(system: AbstractSystem, q0: Numbers, p0: Numbers, **options) -> Scalar:
    """The largest entry of |DᵀΩD − Ω|, D the `flow_derivative` (and its options): zero for a symplectic step, to
    rounding (Hairer, Lubich & Wanner, VI.2)."""
    D = flow_derivative(system, q0, p0, **options)
    one = jnp.eye(D.shape[0] // 2, dtype=D.dtype)
    omega = jnp.block([[0 * one, one], [-one, 0 * one]])
    return jnp.max(jnp.abs(D.T @ omega @ D - omega))
