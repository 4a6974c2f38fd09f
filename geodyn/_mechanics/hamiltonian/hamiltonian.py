"""Hamiltonian systems H(q, p), the Legendre transform in both directions, Poisson brackets, symmetries, and how a flow
acts on phase space.

Sources: Arnold, *Mathematical Methods of Classical Mechanics*, 14–15 and 38–40; Goldstein, chapters 8 and 9.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import as_pytree, jit, with_time
from geodyn._engine.numerics.roots import root
from geodyn._foundations.checks import check_arguments, one_number, returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Number, Scalar
from geodyn._integrators.contract.lagrangian import Lagrangian
from geodyn._integrators.contract.system import AbstractLagrangianSystem, AbstractSystem
from geodyn._integrators.integrate import integrate
from geodyn._integrators.step.methods import AbstractMethod
from geodyn._mechanics.elements.abstract import AbstractPotential
from geodyn._mechanics.points.body import AbstractBody
from geodyn._mechanics.points.system import momentum


class Hamiltonian(AbstractSystem):
    """A system given by its energy H(q, p): `q' = ∂H/∂p`, `p' = −∂H/∂q`, on flat q[n], p[n].

    `gd.integrate(system, q0, p0=p0, …)` starts from a momentum, or from a velocity v0. The momentum of a velocity is
    found by Newton's method from p = v, in one iteration where H is quadratic in p; so ∂²H/∂p² must be regular. An H
    for which it is not (linear in p, as `H = <p, X(q)>`, or |p|) is refused where a motion starts: integrate y = (q,
    p) instead, by `gd.ODE(gd.hamilton.hamiltonian_field(H))`, with `Gauss` symplectic as well. Any consistent units.

    Args:
        hamiltonian: function H(q, p) -> number; it may name a parameter `t`, and may be an `eqx.Module`, whose arrays
            are traced and differentiable.

    Raises:
        ValueError: for what is no function of q and p.

    Example:
        The pendulum: its energy is conserved.

        >>> pendulum = gd.hamilton.Hamiltonian(lambda q, p: p[0] ** 2 / 2 - jnp.cos(q[0]))
        >>> motion = gd.integrate(pendulum, jnp.array([1.0]), p0=jnp.array([0.0]), t1=10.0, steps=200)
        >>> print(f"{motion.energy[0]:.6f} {motion.energy[-1]:.6f} {-np.cos(1.0):.6f}")
        -0.540302 -0.540302 -0.540302

    Source:
        Arnold, *Mathematical Methods of Classical Mechanics*, 15.
    """

    hamiltonian: Callable

    @checked
    def __init__(self, hamiltonian: Callable):
        check_arguments("hamiltonian", hamiltonian, "q", "p")
        self.hamiltonian = as_pytree(hamiltonian)

    @checked
    def hamiltonian_at(self, t: Number, q: Float[Array, " n"], p: Float[Array, " n"]) -> Scalar:
        """H(t, q, p)."""
        return one_number("hamiltonian", returned("hamiltonian", with_time(self.hamiltonian, 2), t, q, p))

    def velocity(
        self, t: Number, q: Float[Array, " n"], p: Float[Array, " n"], v: Float[Array, " n"] | None = None
    ) -> Float[Array, " n"]:
        return jax.grad(self.hamiltonian_at, 2)(t, q, p)

    def momentum(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Array:
        return root(lambda p: self.velocity(t, q, p), v, v)

    def force(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"], lam: Float[Array, " c"]) -> Array:
        return -jax.grad(self.hamiltonian_at, 1)(t, q, self.momentum(t, q, v))

    def constraint(self, t: Number, q: Float[Array, " n"]) -> Float[Array, " c"]:
        return jnp.zeros(0, q.dtype)

    def count_constraints(self, q: Array | np.ndarray) -> int:
        return 0

    def energy(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        return self.hamiltonian_at(t, q, self.momentum(t, q, v))

    def check(self, t: Number, q: np.ndarray, v: np.ndarray | None) -> None:
        if q.ndim != 1:
            raise ValueError(f"q0 of a Hamiltonian must be flat [n], got shape {q.shape}")
        if v is None:
            raise ValueError("a Hamiltonian starts from a momentum, p0=..., or from a velocity v0; got neither")
        p, hessian = map(np.asarray, _legendre_map(self, t, jnp.asarray(q), jnp.asarray(v)))
        scale = np.sqrt(np.abs(np.diag(hessian)))
        scale[scale == 0] = 1
        if not (
            np.all(np.isfinite(p)) and np.linalg.cond(hessian / np.outer(scale, scale)) < np.finfo(p.dtype).eps ** -0.75
        ):
            raise ValueError(
                f"hamiltonian gives no momentum for the velocity {np.asarray(v)} at q0: ∂H/∂p = v has no solution, or "
                "∂²H/∂p² is singular. Where H is degenerate integrate y = (q, p): "
                "gd.ODE(gd.hamilton.hamiltonian_field(H))"
            )


@jit
def _legendre_map(
    system: Hamiltonian, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]
) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    p = system.momentum(t, q, v)
    return p, jax.hessian(system.hamiltonian_at, 2)(t, q, p)


@checked
def hamiltonian_field(hamiltonian: Callable) -> Callable:
    """Hamilton's equations as a vector field of y = (q, p): `f(t, y) = (∂H/∂p, −∂H/∂q)`.

    It exists for any H, degenerate ones too.

    Args:
        hamiltonian: function H(q[n], p[n]) -> number; it may name a parameter `t`.

    Returns:
        A function (t, y[2n]) -> [2n], for `gd.ODE`.

    Example:
        H = <p, X(q)> moves q along the field X, here q' = −q.

        >>> flow = gd.ODE(gd.hamilton.hamiltonian_field(lambda q, p: -p @ q))
        >>> motion = gd.integrate(flow, jnp.array([2.0, 1.0]), t1=1.0, steps=50)
        >>> print(motion.q[-1].round(6), f"{2 * np.exp(-1):.6f} {np.exp(1):.6f}")
        [0.735759 2.718282] 0.735759 2.718282
    """

    check_arguments("hamiltonian", hamiltonian, "q", "p")

    def H(t: Number, q: Float[Array, " n"], p: Float[Array, " n"]) -> Scalar:
        return one_number("hamiltonian", returned("hamiltonian", with_time(hamiltonian, 2), t, q, p))

    def field(t: Number, y: Float[Array, " D"]) -> Float[Array, " D"]:
        q, p = jnp.split(y, 2)
        dq, dp = jax.grad(H, (1, 2))(t, q, p)
        return jnp.concatenate([dp, -dq])

    return field


class _Energy(eqx.Module):
    """(q, p, t) ↦ <p, v> − L, with the velocity v that belongs to the momentum p."""

    system: AbstractSystem

    def __call__(self, q: Float[Array, " n"], p: Float[Array, " n"], t: Number) -> Scalar:
        return self.system.energy(t, q, self.system.velocity(t, q, p))


class _Lagrange(eqx.Module):
    """(q, v, t) ↦ <p, v> − H, with the momentum p that belongs to the velocity v."""

    system: Hamiltonian

    def __call__(self, q: Float[Array, " n"], v: Float[Array, " n"], t: Number) -> Scalar:
        p = self.system.momentum(t, q, v)
        return jnp.dot(p, v) - self.system.hamiltonian_at(t, q, p)


@checked
def legendre(system: AbstractSystem) -> Hamiltonian | Lagrangian:
    """The Legendre transform of a system, from a Lagrangian to a Hamiltonian or back; it is its own inverse.

    Of a `gd.Lagrangian` or a body it is the `gd.hamilton.Hamiltonian` with `H(q, p) = <p, v> − L` on flat q[n],
    p[n]; of a Hamiltonian the `gd.Lagrangian` with `L(q, v) = <p, v> − H`.

    Args:
        system: a `gd.Lagrangian`, a `gd.System` or another body, or a `gd.hamilton.Hamiltonian`.

    Returns:
        The Hamiltonian, or the Lagrangian.

    Raises:
        ValueError: for a system with constraints, dissipation or contacts, which its energy does not describe.

    Example:
        >>> spring = gd.Lagrangian(lambda q, v: 2.0 * v @ v / 2 - q @ q / 2)
        >>> H = gd.hamilton.legendre(spring)
        >>> q, p = jnp.array([1.0]), jnp.array([3.0])
        >>> print(H.hamiltonian_at(0.0, q, p), 3.0**2 / (2 * 2.0) + 1.0**2 / 2)
        2.75 2.75

    Source:
        Arnold, *Mathematical Methods of Classical Mechanics*, 14.
    """
    if isinstance(system, Hamiltonian):
        return Lagrangian(_Lagrange(system))
    check_conservative(system)
    return Hamiltonian(_Energy(system))


def check_conservative(system: AbstractSystem) -> None:
    """Raises ValueError unless the system is given by a Lagrangian alone, without constraints and dissipation."""
    if not isinstance(system, AbstractLagrangianSystem):
        raise ValueError(f"system must be a Lagrangian, System or Hamiltonian, got {type(system).__name__}")
    if isinstance(system, AbstractBody):
        others = [type(e).__name__ for e in system.elements if not isinstance(e, AbstractPotential)]
    else:
        names = ("constraints", "dissipation", "nonholonomic")
        others = [name for name in names if getattr(system, name, None) is not None]
    if others:
        raise ValueError(f"system must have nothing but an energy, got {', '.join(others)}: leave them out")


@checked
def poisson_bracket(
    f: Callable[[Array, Array], Scalar], g: Callable[[Array, Array], Scalar]
) -> Callable[[Array, Array], Scalar]:
    """The Poisson bracket of two functions of (q, p): `{f, g} = <∂f/∂q, ∂g/∂p> − <∂f/∂p, ∂g/∂q>`.

    So {q, p} = 1, and the rate of f along a motion is {f, H}.

    Args:
        f, g: functions (q, p) -> number, of arrays of any one shape.

    Returns:
        The bracket, a function (q, p) -> number.

    Example:
        Components of the angular momentum: {L_x, L_y} = L_z.

        >>> def component(i):
        ...     return lambda q, p: jnp.cross(q, p)[i]
        >>> q, p = jnp.array([1.0, 2.0, 3.0]), jnp.array([-1.0, 0.5, 2.0])
        >>> print(gd.hamilton.poisson_bracket(component(0), component(1))(q, p), component(2)(q, p))
        2.5 2.5

    Source:
        Goldstein, *Classical Mechanics*, 9.5.
    """

    def gradients(name: str, function: Callable, q: Array, p: Array) -> tuple[Array, Array]:
        return jax.grad(lambda q, p: one_number(name, returned(name, function, q, p)), (0, 1))(q, p)

    def bracket(q: Array, p: Array) -> Scalar:
        (f_q, f_p), (g_q, g_p) = gradients("f", f, q, p), gradients("g", g, q, p)
        return jnp.vdot(f_q, g_p) - jnp.vdot(f_p, g_q)

    return bracket


@checked
def noether_momentum(
    system: AbstractSystem,
    field: Callable[[Array], Array],
    q: Float[Array, "*shape"],
    v: Float[Array, "*shape"],
    t: Number = 0.0,
) -> Scalar:
    """The momentum `<p, Y(q)>` of a vector field Y, which is conserved where the flow of Y leaves the Lagrangian alone.

    `gd.hamilton.symmetry_defect` says whether it does. Any consistent units.

    Args:
        system: a `gd.System`, `gd.Lagrangian` or another system.
        field: function q -> Y in the shape of q.
        q: configuration.
        v: velocity, in the shape of q.
        t: the time.

    Returns:
        The momentum, a number.

    Example:
        The angular momentum of a planet.

        >>> planet = gd.Lagrangian(lambda q, v: v @ v / 2 + 1 / jnp.linalg.norm(q))
        >>> def turn(q):
        ...     return jnp.stack([-q[1], q[0]])
        >>> motion = gd.integrate(planet, jnp.array([1.0, 0.0]), jnp.array([0.0, 1.2]), t1=5.0, steps=200)
        >>> values = [gd.hamilton.noether_momentum(planet, turn, motion.q[i], motion.v[i]) for i in (0, -1)]
        >>> print(f"{values[0]:.6f} {values[1]:.6f}")
        1.200000 1.200000

    Source:
        Arnold, *Mathematical Methods of Classical Mechanics*, 20.
    """
    q = jnp.asarray(q, float)
    return jnp.vdot(momentum(system, q, v, t), field(q))


@checked
def symmetry_defect(
    system: AbstractSystem,
    field: Callable[[Array], Array],
    q: Float[Array, "*shape"],
    v: Float[Array, "*shape"],
    t: Number = 0.0,
) -> Scalar:
    """The rate at which the Lagrangian changes under the flow of a vector field Y, which carries q and v along.

    It is `<∂L/∂q, Y> + <p, Y'(q) v>`: zero for a symmetry, and else the rate at which
    `gd.hamilton.noether_momentum` grows. Dissipation counts, as −<∂R/∂v, Y>. The reactions of constraints do not: they
    do no work where Y keeps the constraints.

    Args:
        system: a `gd.System`, `gd.Lagrangian` or another system.
        field: function q -> Y in the shape of q.
        q: configuration.
        v: velocity, in the shape of q.
        t: the time.

    Returns:
        The rate, a number.

    Example:
        Kepler's Lagrangian knows no direction, but gravity does: its torque on a mass at (1, 0) is −9.81.

        >>> def turn(q):
        ...     return jnp.stack([-q[1], q[0]])
        >>> q, v = jnp.array([1.0, 0.0]), jnp.array([0.3, 1.2])
        >>> planet = gd.Lagrangian(lambda q, v: v @ v / 2 + 1 / jnp.linalg.norm(q))
        >>> stone = gd.Lagrangian(lambda q, v: v @ v / 2 - 9.81 * q[1])
        >>> for system in (planet, stone):
        ...     print(f"{gd.hamilton.symmetry_defect(system, turn, q, v).round(6) + 0.0:.6f}")
        0.000000
        -9.810000

    Source:
        Arnold, *Mathematical Methods of Classical Mechanics*, 20.
    """
    q, v = jnp.asarray(q, float), jnp.asarray(v, float)
    Y, rate = jax.jvp(field, (q,), (v,))
    flat, t = q.reshape(-1), jnp.asarray(t, q.dtype)
    force = system.force(t, flat, v.reshape(-1), jnp.zeros(system.count_constraints(q), q.dtype))
    return jnp.vdot(force, Y) + jnp.vdot(momentum(system, q, v, t), rate)


@checked
def flow_derivative(
    system: AbstractSystem,
    q0: Float[Array, "*shape"],
    p0: Float[Array, "*shape"],
    *,
    t1: Number,
    steps: Count,
    method: AbstractMethod | None = None,
) -> Float[Array, "D D"]:
    """The derivative of the flow, ∂(q, p)/∂(q0, p0) at t1, of the flow as the method computes it.

    For systems without constraints.

    Args:
        system: a `gd.System`, `gd.Lagrangian` or `gd.hamilton.Hamiltonian`.
        q0: configuration at the start.
        p0: momentum at the start, in the shape of q0.
        t1: end of the time, which starts at 0.
        steps: number of steps.
        method: as for `gd.integrate`.

    Returns:
        The derivative [2n, 2n], q flat before p. Inside jit it is NaN where a step fails.

    Raises:
        IntegrationError: where a step fails.

    Example:
        The harmonic oscillator turns phase space.

        >>> oscillator = gd.hamilton.Hamiltonian(lambda q, p: (p @ p + q @ q) / 2)
        >>> D = gd.hamilton.flow_derivative(oscillator, jnp.array([1.0]), jnp.array([0.0]), t1=1.0, steps=20)
        >>> print(D.round(6)[0], f"{np.cos(1.0):.6f} {np.sin(1.0):.6f}")
        [0.540302 0.841471] 0.540302 0.841471
    """
    q0, p0, t1 = (jnp.asarray(x, float) for x in (q0, p0, t1))
    derivative = _flow_derivative(system, q0, p0, t1, steps=steps, method=method)
    if not isinstance(derivative, Tracer) and np.any(np.isnan(derivative)):
        integrate(system, q0, p0=p0, t1=t1, steps=steps, method=method)  # Raises what went wrong.
    return derivative


@jit
def _flow_derivative(
    system: AbstractSystem,
    q0: Float[Array, "*shape"],
    p0: Float[Array, "*shape"],
    t1: Scalar,
    steps: Count,
    method: AbstractMethod | None,
) -> Float[Array, "D D"]:
    def flow(y: Float[Array, " D"]) -> Float[Array, " D"]:
        q, p = (x.reshape(q0.shape) for x in jnp.split(y, 2))
        end = integrate(system, q, p0=p, t1=t1, steps=steps, save_every=steps, method=method)
        return jnp.concatenate([end.q[-1].reshape(-1), end.p[-1].reshape(-1)])

    return jax.jacfwd(flow)(jnp.concatenate([q0.reshape(-1), p0.reshape(-1)]))


@checked
def liouville_defect(
    system: AbstractSystem, q0: Float[Array, "*shape"], p0: Float[Array, "*shape"], **options: Any
) -> Scalar:
    """By how much the flow changes volumes of phase space: det D − 1, with D of `gd.hamilton.flow_derivative`.

    Zero for a Hamiltonian flow (Liouville's theorem); with dissipation, `exp(∫ div dt) − 1`.

    Args:
        system: a `gd.System`, `gd.Lagrangian` or `gd.hamilton.Hamiltonian`.
        q0: configuration at the start.
        p0: momentum at the start, in the shape of q0.
        options: those of `gd.hamilton.flow_derivative`: `t1=`, `steps=` and `method=`.

    Returns:
        The defect, a number.

    Example:
        With the drag c, volumes shrink by exp(−c t).

        >>> def defect(drag):
        ...     body = gd.Lagrangian(lambda q, v: (v @ v - q @ q) / 2, dissipation=lambda q, v: drag * v @ v / 2)
        ...     return gd.hamilton.liouville_defect(body, jnp.array([1.0]), jnp.array([0.0]), t1=1.0, steps=20)
        >>> print(f"{abs(defect(0.0)):.6f} {defect(0.5):.6f} {np.exp(-0.5) - 1:.6f}")
        0.000000 -0.393469 -0.393469

    Source:
        Arnold, *Mathematical Methods of Classical Mechanics*, 16.
    """
    return jnp.linalg.det(flow_derivative(system, q0, p0, **options)) - 1


@checked
def symplectic_defect(
    system: AbstractSystem, q0: Float[Array, "*shape"], p0: Float[Array, "*shape"], **options: Any
) -> Scalar:
    """How far a method is from symplectic: the largest entry of |DᵀΩD − Ω|, with D of `gd.hamilton.flow_derivative`.

    Zero, to rounding, for a symplectic method.

    Args:
        system: a `gd.System`, `gd.Lagrangian` or `gd.hamilton.Hamiltonian`.
        q0: configuration at the start.
        p0: momentum at the start, in the shape of q0.
        options: those of `gd.hamilton.flow_derivative`: `t1=`, `steps=` and `method=`.

    Returns:
        The defect, a number.

    Example:
        >>> pendulum = gd.hamilton.Hamiltonian(lambda q, p: p[0] ** 2 / 2 - jnp.cos(q[0]))
        >>> for method in (gd.Gauss(1), gd.RadauIIA(2)):
        ...     defect = gd.hamilton.symplectic_defect(
        ...         pendulum, jnp.array([1.0]), jnp.array([0.0]), t1=1.0, steps=5, method=method
        ...     )
        ...     print(type(method).__name__, bool(defect < 1e-12))
        Gauss True
        RadauIIA False

    Source:
        Hairer, Lubich & Wanner, *Geometric Numerical Integration* (2006), VI.2.
    """
    D = flow_derivative(system, q0, p0, **options)
    one = jnp.eye(D.shape[0] // 2, dtype=D.dtype)
    omega = jnp.block([[0 * one, one], [-one, 0 * one]])
    return jnp.max(jnp.abs(D.T @ omega @ D - omega))
