"""PURPOSE: optimal strokes as the motion of a charged particle: Wong's equations.

With a charge that is constant in the world frame, `μ(t) = Ad*_{g(t)} μ₀`, an extremal of ½∫r'ᵀGr' at a given holonomy
obeys `d/dt (G r')_i − ½ r'ᵀ ∂_iG r' = ⟨μ, F_ij⟩ r'^j`, and its power is constant.
Source: Montgomery, *Commun. Math. Phys.* 128 (1990) 565; Koon & Marsden, *SIAM J. Control Optim.* 35 (1997) 901.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Number, Numbers, Scalar
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._locomotion.connections.connection import (
    AbstractConnection,
    AbstractInvariantMetric,
    connection,
    curvature,
    exterior_derivative,
    reduction,
    shape_metric,
)
from geodyn._locomotion.connections.force_balance import metric_of
from geodyn._locomotion.connections.locomotion import AbstractLocomotion
from geodyn._locomotion.motion.costs import Costly, Density, derivatives_taken, energy, is_energy
from geodyn._locomotion.strokes.stroke import derivatives_at, floating


@checked
class WongSystem(AbstractSystem):
    """Wong's equations of a swimmer as a system for `gd.integrate`: its optimal motion from given initial values.

    They are those of a charged particle on the space of shapes. The state is (r[m], p[m], μ[k], g[d, d]), flat, with
    the momentum `p = G r' + Aᵀμ`, the charge μ in the frame of the body and the group element g;
    `system.state(r, rdot, charge)` makes it and `system.split(q)` takes it apart. They are Hamilton's equations,
    Lie–Poisson in μ, of the energy `H = ½ (p − Aᵀμ)ᵀ G⁻¹ (p − Aᵀμ)`: `r' = H_p`, `p' = −H_r`, `ξ = H_μ`,
    `μ' = ad*_ξ μ`, `g' = g ξ`. Conserved are the energy (half the power) and the charge in space, `Ad*_{g⁻¹} μ`.
    Any consistent units.

    Args:
        swimmer: body with a metric of shapes.

    Example:
        >>> swimmer = gd.swimmers.Purcell()
        >>> system = gd.strokes.WongSystem(swimmer)
        >>> start = system.state([0.2, 0.4], [0.5, -0.3], [2.0, 1.0, -0.5])
        >>> motion = gd.integrate(system, start, t1=1.0, steps=50)
        >>> r, p, charge, g = system.split(motion.q[-1])
        >>> in_space = swimmer.group.adjoint(swimmer.group.inverse(g)).T @ charge
        >>> print(in_space.round(6), f"energy changes by less than 1e-9: {jnp.ptp(motion.energy) < 1e-9}")
        [ 2.   1.  -0.5] energy changes by less than 1e-9: True

    Source:
        Montgomery, *Commun. Math. Phys.* 128 (1990) 565; Koon & Marsden, *SIAM J. Control Optim.* 35 (1997) 901.
    """

    swimmer: AbstractInvariantMetric

    @checked
    def state(self, r: Numbers, rdot: Numbers, charge: Numbers) -> Float[Array, " n"]:
        """The flat state at the shape r[m] and its rate r'[m] with the charge μ[k], at the identity of the group.

        Raises ValueError where the numbers of components do not fit.
        """
        r = floating(r, "r")
        rdot = floating(rdot, "rdot")
        charge = floating(charge, "charge")
        k = self.swimmer.group.dim
        if r.ndim != 1 or rdot.shape != r.shape or charge.shape != (k,):
            raise ValueError(
                f"WongSystem.state: r and rdot must be [m] and charge [{k}] in {type(self.swimmer.group).__name__};"
                f" got {r.shape}, {rdot.shape}, {charge.shape}."
            )
        form = connection(self.swimmer, r)
        metric = shape_metric(self.swimmer, r)
        g = self.swimmer.group.identity().astype(r.dtype)
        return jnp.concatenate([r, metric @ rdot + form.T @ charge, charge, g.reshape(-1)])

    @checked
    def split(self, state: Float[Array, " n"]) -> tuple[Array, Array, Array, Array]:
        """The shape r[m], momentum p[m], charge μ[k] and group element g[d, d] of a flat state."""
        k = self.swimmer.group.dim
        identity = self.swimmer.group.identity()
        m = (state.shape[0] - k - identity.size) // 2
        r, p, charge, g = jnp.split(state, [m, 2 * m, 2 * m + k])
        return r, p, charge, g.reshape(identity.shape)

    @checked
    def hamiltonian(self, r: Float[Array, " m"], p: Float[Array, " m"], charge: Float[Array, " k"]) -> Scalar:
        """H(r, p, μ), half the power."""
        form, metric = reduction(self.swimmer, r)
        kinetic = p - form.T @ charge  # The kinetic momentum G r'.
        return kinetic @ solve(metric, kinetic) / 2

    def velocity(
        self, t: Number, q: Float[Array, " n"], p: Array, v: Float[Array, " n"] | None = None
    ) -> Float[Array, " n"]:
        r, p, charge, g = self.split(q)
        slope_r, rdot, xi = jax.grad(self.hamiltonian, (0, 1, 2))(r, p, charge)
        basis = jnp.eye(xi.shape[0], dtype=xi.dtype)
        charge_rate = jax.vmap(lambda e: charge @ self.swimmer.group.bracket(xi, e))(basis)  # ad*_ξ μ
        return jnp.concatenate([rdot, -slope_r, charge_rate, self.swimmer.group.rate(g, xi).reshape(-1)])

    def momentum(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " 0"]:
        return jnp.zeros(0, q.dtype)

    def force(
        self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"], lam: Float[Array, " c"]
    ) -> Float[Array, " 0"]:
        return jnp.zeros(0, q.dtype)

    def constraint(self, t: Number, q: Float[Array, " n"]) -> Float[Array, " 0"]:
        return jnp.zeros(0, q.dtype)

    def count_constraints(self, q: Array | np.ndarray) -> int:
        return 0

    def energy(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        r, p, charge, _ = self.split(q)
        return self.hamiltonian(r, p, charge)

    def check(self, t: Number, q: np.ndarray, v: np.ndarray | None) -> None:
        k = self.swimmer.group.dim
        size = self.swimmer.group.identity().size
        if v is not None or q.ndim != 1 or q.size <= k + size or (q.size - k - size) % 2:
            raise ValueError(
                f"a WongSystem is integrated from system.state(r, rdot, charge), with v0=None; got q0 {q.shape}"
            )


def wong_forces(
    swimmer: Costly,
    motion: tuple[Float[Array, " m"], ...],
    charge: Float[Array, " k"],
    density: Density = energy,
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """Both sides of Wong's equation: the Euler–Lagrange force of the motion, and the force on the charge μ.

    The motion is the shape and its derivatives in time (r, r', r'', …), up to twice as many as the density takes. The
    cost is the integral of `density`, twice the Lagrangian ℓ: `d/dt ∂ℓ/∂r' − ∂ℓ/∂r = ⟨μ, F r'⟩`. For a body without
    a connection the right side is `d/dt ∂⟨μ, ξ⟩/∂r' − ∂⟨μ, ξ⟩/∂r`. Any consistent units.
    """
    r = motion[0]
    rdot = motion[1]
    rddot = motion[2]
    has_connection = isinstance(swimmer, AbstractConnection)
    if is_energy(density) and has_connection:  # Then one derivative of (A, G) gives both sides, which saves time.

        def reduction_twice(r: Float[Array, " m"]):
            """(A, G) to be differentiated, and again as what jacfwd returns besides the derivatives."""
            form_and_metric = reduction(metric_of(swimmer), r)
            return form_and_metric, form_and_metric

        # The last index of a slope is that of ∂_i.
        (form_slope, metric_slope), (form, metric) = jax.jacfwd(reduction_twice, has_aux=True)(r)
        slope = jnp.einsum("jli,l->ji", metric_slope, rdot)  # ∂_i (G r')_j
        field = exterior_derivative(swimmer.group, form, form_slope)
        return metric @ rddot + slope @ rdot - rdot @ slope / 2, charge @ (field @ rdot)
    if has_connection:
        on_charge = charge @ (curvature(swimmer, r) @ rdot)
    else:
        on_charge = _force_on_charge(swimmer, r, rdot, rddot, charge)
    return _euler_lagrange(swimmer, motion, density), on_charge


def _euler_lagrange(swimmer: Costly, motion: tuple[Float[Array, " m"], ...], density: Density) -> Float[Array, " m"]:
    """`d/dt ∂ℓ/∂r' − ∂ℓ/∂r`, and `− d²/dt² ∂ℓ/∂r''` where half the density ℓ takes accelerations."""
    taken = derivatives_taken(density)

    def curve(t: Scalar) -> Float[Array, " m"]:
        """The motion near the time 0, by its Taylor series."""
        return sum(derivative * t**i / math.factorial(i) for i, derivative in enumerate(motion))

    def half(*state: Float[Array, " m"]) -> Scalar:
        return density(swimmer, *state) / 2

    def slopes(t: Scalar) -> tuple[Float[Array, " m"], ...]:
        """∂ℓ/∂r, ∂ℓ/∂r', … at a time."""
        state = derivatives_at(curve, t, taken)
        return jax.grad(half, tuple(range(taken + 1)))(*state)

    now = jnp.zeros((), motion[0].dtype)
    by_shape = slopes(now)[0]
    momentum_rate = derivatives_at(lambda t: slopes(t)[1], now, 1)[1]
    force = momentum_rate - by_shape
    if taken == 1:
        return force
    of_accelerations = derivatives_at(lambda t: slopes(t)[2], now, 2)[2]
    return force - of_accelerations


def _force_on_charge(
    swimmer: AbstractLocomotion,
    r: Float[Array, " m"],
    rdot: Float[Array, " m"],
    rddot: Float[Array, " m"],
    charge: Float[Array, " k"],
) -> Float[Array, " m"]:
    """The force `d/dt ∂⟨μ, ξ⟩/∂r' − ∂⟨μ, ξ⟩/∂r` on the charge of a body without a connection.

    The charge is constant in space, so that in the frame of the body it obeys `μ'·η = μ·[ξ, η]`.
    """

    def coupling(r: Float[Array, " m"], rdot: Float[Array, " m"], charge: Float[Array, " k"]) -> Scalar:
        return charge @ swimmer.velocity(r, rdot)

    basis = jnp.eye(charge.size, dtype=charge.dtype)
    xi = swimmer.velocity(r, rdot)
    charge_rate = jax.vmap(lambda e: charge @ swimmer.group.bracket(xi, e))(basis)
    by_rate = jax.grad(coupling, 1)
    by_shape = jax.grad(coupling, 0)
    rate = jax.jvp(by_rate, (r, rdot, charge), (rdot, rddot, charge_rate))[1]
    return rate - by_shape(r, rdot, charge)
