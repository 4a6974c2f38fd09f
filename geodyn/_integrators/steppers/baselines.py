"""Methods for comparison: Newmark's method, Störmer–Verlet, and an adaptive explicit solver.

Explicit Runge–Kutta methods are tableaux, `gd.methods.Collocation(gd.tableaus.rk4())`.
"""

from collections.abc import Callable
from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
from jax.core import Tracer

from geodyn._engine.jit import static_count
from geodyn._engine.numerics.roots import with_derivative, without_derivatives
from geodyn._foundations.checks import a_number
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Count, Float, Int, Number, Numbers, Scalar
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.step.methods import AbstractStepper, Advanced

MOST_NEWTON = 30


class Newmark(AbstractStepper):
    """Newmark's method, with the accelerations a and a⁺ of the equations of motion at both ends of a step.

    q⁺ = q + hv + h²((½ − β)a + βa⁺), v⁺ = v + h((1 − γ)a + γa⁺). It is of order 2 for γ = ½: β = ¼ is the trapezoidal
    rule, β = 0 central differences. For systems without constraints.

    Args:
        beta: β, by default ¼.
        gamma: γ, by default ½.

    Raises:
        ValueError: for β or γ outside [0, 1]; in `gd.integrate`, for constraints, contacts, dry friction and
            plasticity.

    Example:
        Half the step, a quarter of the error.

        >>> body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Harmonic(1.0, [0.0]))
        >>> def error(steps):
        ...     method = gd.methods.Newmark()
        ...     return abs(gd.integrate(body, [[1.0]], t1=2.0, steps=steps, method=method).q[-1, 0, 0] - np.cos(2.0))
        >>> print(f"{error(20) / error(40):.1f}")
        4.0

    Source:
        Newmark, *J. Eng. Mech. Div. ASCE* 85 (1959) 67.
    """

    beta: Float[Array, ""]
    gamma: Float[Array, ""]

    @checked
    def __init__(self, beta: Number = 0.25, gamma: Number = 0.5):
        self.beta, self.gamma = _between("beta", beta, 0.0, 1.0), _between("gamma", gamma, 0.0, 1.0)

    def start(
        self, system: AbstractSystem, t: Scalar, h: Scalar, q: Float[Array, " n"], p: Array, v: Float[Array, " n"]
    ) -> Float[Array, " 0"]:
        return _unbound(self, system, q)

    def advance(
        self, system: AbstractSystem, t: Scalar, h: Scalar, q: Float[Array, " n"], p: Array, lam: Array
    ) -> Advanced:
        v = system.velocity(t, q, p)
        a, weights = _acceleration(system, t, q, v), (self.beta.astype(q.dtype), self.gamma.astype(q.dtype))

        def end(last: Float[Array, " n"], args: tuple) -> tuple[Array, Array]:
            h, q, v, a, (beta, gamma) = args[2:]
            return q + h * v + h**2 * ((0.5 - beta) * a + beta * last), v + h * ((1 - gamma) * a + gamma * last)

        def missed(last: Float[Array, " n"], args: tuple) -> Float[Array, " n"]:
            return _acceleration(args[0], args[1] + args[2], *end(last, args)) - last

        args = system, t, h, q, v, a, weights
        last, converged, iterations = _root(missed, a, args)
        moved, rate = end(last, args)
        stable = (self.beta >= 0.25) | _is_stable(h, q, v, moved, rate)
        return Advanced(moved, system.momentum(t + h, moved, rate), lam, converged & stable, iterations)


class StormerVerlet(AbstractStepper):
    """The method of Störmer and Verlet, of order 2: symplectic and symmetric.

    p½ = p + ½h force(q, p½), q⁺ = q + ½h (v(q, p½) + v(q⁺, p½)), p⁺ = p½ + ½h force(q⁺, p½). It is explicit where the
    kinetic energy does not depend on q. For systems without constraints.

    Raises:
        ValueError: in `gd.integrate`, for constraints, contacts, dry friction and plasticity, and for an `ODE`, which
            has no momenta.

    Example:
        Half the step, a quarter of the error.

        >>> body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Harmonic(1.0, [0.0]))
        >>> def error(steps):
        ...     method = gd.methods.StormerVerlet()
        ...     return abs(gd.integrate(body, [[1.0]], t1=2.0, steps=steps, method=method).q[-1, 0, 0] - np.cos(2.0))
        >>> print(f"{error(20) / error(40):.1f}")
        4.0

    Source:
        Hairer, Lubich & Wanner, *Geometric Numerical Integration*, I.1.4 and VI.3.4.
    """

    def start(
        self, system: AbstractSystem, t: Scalar, h: Scalar, q: Float[Array, " n"], p: Array, v: Float[Array, " n"]
    ) -> Float[Array, " 0"]:
        if not p.size:
            raise ValueError(f"StormerVerlet steps momenta, and {type(system).__name__} has none: take gd.Gauss(3)")
        return _unbound(self, system, q)

    def advance(
        self, system: AbstractSystem, t: Scalar, h: Scalar, q: Float[Array, " n"], p: Array, lam: Array
    ) -> Advanced:
        half, args, start = h / 2, (system, t, h, q, p), system.velocity(t, q, p)

        def of_momentum(middle: Float[Array, " n"], args: tuple) -> Float[Array, " n"]:
            system, t, h, q, p = args
            return p + h / 2 * _force(system, t, q, middle) - middle

        middle, first, turns = _root(of_momentum, p + half * _force(system, t, q, p), args)

        def of_position(end: Float[Array, " n"], args: tuple) -> Float[Array, " n"]:
            system, t, h, q, middle = args
            velocities = system.velocity(t, q, middle) + system.velocity(t + h, end, middle)
            return q + h / 2 * velocities - end

        guess = q + h * system.velocity(t, q, middle)
        end, second, more = _root(of_position, guess, (system, t, h, q, middle))
        p = middle + half * _force(system, t + h, end, middle)
        stable = _is_stable(h, q, start, end, system.velocity(t + h, end, p))
        return Advanced(end, p, lam, first & second & stable, turns + more)


class Adaptive(AbstractStepper):
    """Each step of `gd.integrate` by an adaptive explicit solver, as a general-purpose code takes it.

    It is the Runge–Kutta method of Tsitouras of order 5 within tolerances, of the package diffrax
    (`pip install diffrax`). For systems without constraints. A step that takes the solver more than `max_steps` of its
    own fails.

    Args:
        rtol: relative tolerance, from 0 to 0.1.
        atol: absolute tolerance, in the units of the coordinates, at least 0.
        max_steps: the most steps of the solver in one step of `gd.integrate`.

    Raises:
        ImportError: without diffrax.
        ValueError: for tolerances outside of these bounds; in `gd.integrate`, for constraints, contacts, dry friction
            and plasticity.

    Example:
        >>> body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Harmonic(1.0, [0.0]))
        >>> trajectory = gd.integrate(body, [[1.0]], t1=2.0, steps=4, method=gd.methods.Adaptive())
        >>> print(f"{trajectory.q[-1, 0, 0]:.6f} {np.cos(2.0):.6f}")
        -0.416147 -0.416147
    """

    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    max_steps: int = eqx.field(static=True)

    @checked
    def __init__(self, rtol: Number = 1e-8, atol: Numbers = 1e-10, max_steps: Count = 4096):
        _diffrax()
        self.rtol, self.atol = _between("rtol", rtol, 0.0, 0.1), _between("atol", atol, 0.0, np.inf)
        self.max_steps = static_count("max_steps", max_steps)

    def start(
        self, system: AbstractSystem, t: Scalar, h: Scalar, q: Float[Array, " n"], p: Array, v: Float[Array, " n"]
    ) -> Float[Array, " 0"]:
        return _unbound(self, system, q)

    def advance(
        self, system: AbstractSystem, t: Scalar, h: Scalar, q: Float[Array, " n"], p: Array, lam: Array
    ) -> Advanced:
        diffrax = _diffrax()

        def rates(t: Scalar, y: tuple[Array, Array], system: AbstractSystem) -> tuple[Array, Array]:
            q, p = y
            v = system.velocity(t, q, p)
            return v, system.force(t, q, v, lam)

        found = diffrax.diffeqsolve(
            *(diffrax.ODETerm(rates), diffrax.Tsit5(), t, t + h, h, (q, p), system),
            stepsize_controller=diffrax.PIDController(rtol=self.rtol, atol=self.atol),
            saveat=diffrax.SaveAt(t1=True),
            adjoint=diffrax.DirectAdjoint(),
            max_steps=self.max_steps,
            throw=False,
        )
        q, p = jax.tree.map(lambda y: y[0], found.ys)
        return Advanced(q, p, lam, found.result == diffrax.RESULTS.successful, found.stats["num_steps"])


def _between(name: str, value: Numbers, least: float, most: float) -> Float[Array, ""]:
    """`value` as one number; ValueError unless it is in [least, most], as far as that is known."""
    a_number(name, value)
    number = jnp.asarray(value, float)
    if not isinstance(number, Tracer) and not least <= number <= most:
        raise ValueError(f"{name} must be a number from {least:g} to {most:g}, got {value}")
    return number


def _diffrax() -> ModuleType:
    try:
        import diffrax
    except ImportError as error:
        raise ImportError(
            "gd.methods.Adaptive needs diffrax: pip install 'geodyn[diffrax]', or pip install diffrax"
        ) from error
    return diffrax


def _unbound(method: AbstractStepper, system: AbstractSystem, q: Float[Array, " n"]) -> Float[Array, " 0"]:
    """The multipliers of a system without constraints, contacts and dry friction, an empty array; ValueError for any
    other system."""
    obstacles = {
        "constraints": system.count_constraints(q),
        "contacts": system.contacts is not None,
        "dry friction or plasticity": not system.is_smooth,
    }
    for name, found in obstacles.items():
        if found:
            remedy = "gd.friction.IncrementalPotential()" if not system.is_smooth else "gd.RadauIIA(3)"
            raise ValueError(f"{type(method).__name__} is for systems without {name}: take method={remedy}")
    return jnp.zeros(0, q.dtype)


def _is_stable(
    h: Scalar, q: Float[Array, " n"], v: Float[Array, " n"], moved: Float[Array, " n"], rate: Float[Array, " n"]
) -> Bool[Array, ""]:
    """Whether a step from (q, v) to (`moved`, `rate`) is shorter than the limit of stability: on a linear oscillator
    the displacement then differs from the trapezoidal rule by less than itself."""
    displacement, noise = moved - q, jnp.finfo(q.dtype).eps ** 0.5 * jnp.max(jnp.abs(q))
    missed = jnp.max(jnp.abs(displacement - h / 2 * (v + rate)))
    return missed <= jnp.max(jnp.abs(displacement)) + noise


def _force(system: AbstractSystem, t: Scalar, q: Float[Array, " n"], p: Array) -> Float[Array, " n"]:
    return system.force(t, q, system.velocity(t, q, p), jnp.zeros(0, q.dtype))


def _acceleration(
    system: AbstractSystem, t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"]
) -> Float[Array, " n"]:
    """The acceleration: d/dt velocity(t, q, p) along the motion."""
    one, pdot = jnp.ones_like(t), system.force(t, q, v, jnp.zeros(0, q.dtype))
    p = system.momentum(t, q, v)
    return jax.jvp(lambda t, q, p: system.velocity(t, q, p, v), (t, q, p), (one, v, pdot))[1]


def _root(
    function: Callable, guess: Float[Array, " n"], args: tuple
) -> tuple[Float[Array, " n"], Bool[Array, ""], Int[Array, ""]]:
    """(x, converged, iterations) with function(x, args) = 0, by Newton's method in units of the size of the guess plus
    the first residual."""
    guess, still = without_derivatives((guess, args))
    unit = jnp.max(jnp.abs(guess)) + jnp.max(jnp.abs(function(guess, still)))
    unit, tolerance = jnp.where(unit > 0, unit, 1), 2**8 * float(jnp.finfo(guess.dtype).eps)
    found = optimistix.root_find(
        lambda x, args: function(x * unit, args) / unit,
        optimistix.Newton(rtol=tolerance, atol=tolerance),
        guess / unit,
        still,
        max_steps=MOST_NEWTON,
        throw=False,
    )
    x = with_derivative(lambda x: function(x, args), found.value * unit)
    return x, found.result == optimistix.RESULTS.successful, found.stats["num_steps"]
