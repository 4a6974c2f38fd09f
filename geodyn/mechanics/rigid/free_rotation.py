"""Free rotation by explicit steps of the conserved momentum: two baselines that games use.

They stand beside `integrate` because they are no methods for a system: they know that nothing acts on the body, take
its world momentum L as given, and only turn it. So the momentum is exact and the attitude orthogonal, but the energy
drifts. For all else, and better than these at free bodies too, there is `gd.rigid.RigidBodies` with `gd.Gauss`.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from geodyn._compile.jit import jit
from geodyn._numerics.linalg import solve
from geodyn._typing import Array, Float, Numbers
from geodyn.geometry.groups.rigid import SO3
from geodyn.mechanics.rigid.inertia import check_rotations, inertias, rows

Matrix = Float[Array, "3 3"]
Vector = Float[Array, " 3"]


def momentum_step(inertia: Matrix, rotation: Matrix, momentum: Vector, h: Numbers) -> Matrix:
    """First order: R ← exp(h [ω×]) R with ω = M⁻¹L, M = R I Rᵀ."""
    return SO3().exp(h * _velocity(inertia, rotation, momentum)) @ rotation


def buss_step(inertia: Matrix, rotation: Matrix, momentum: Vector, h: Numbers) -> Matrix:
    """Augmented second order: R ← exp(h [ω̄×]) R with ω̄ = ω + h/2 α + h²/12 α × ω, α = −M⁻¹(ω × L) (Buss, "Accurate and
    efficient simulation of rigid body rotations", J. Comput. Phys. 164 (2000) 377)."""
    turning = _velocity(inertia, rotation, momentum)
    change = -_velocity(inertia, rotation, jnp.cross(turning, momentum))
    mean = turning + h / 2 * change + h**2 / 12 * jnp.cross(change, turning)
    return SO3().exp(h * mean) @ rotation


def free_rotation(
    inertia: Numbers,
    rotation: Numbers,
    angular_velocity: Numbers,
    *,
    t1: Numbers,
    steps: int,
    step: Callable = buss_step,
) -> Float[Array, "T 3 3"]:
    """Attitudes R(t) at the start and after each of equal steps to t1, by `gd.rigid.buss_step` or
    `gd.rigid.momentum_step`: `inertia` [3] or [3, 3], the angular velocity [3] in the body. Of order 2 and 1: for high
    orders, and an energy that does not drift, integrate `gd.rigid.RigidBodies` by `gd.Gauss(s)`, of order 2s. Raises
    ValueError as that does."""
    moments, first = inertias(inertia, 1)[0], rows("rotation", rotation, (1, 3, 3))
    check_rotations(first)
    return _turned(step, moments, first[0], jnp.asarray(angular_velocity, float), t1 / steps, length=steps)


@jit
def _turned(step, inertia, first, angular_velocity, h, *, length):
    momentum = first @ inertia @ angular_velocity

    def turn(R, _):
        R = step(inertia, R, momentum, h)
        return R, R

    return jnp.concatenate([first[None], jax.lax.scan(turn, first, None, length=length)[1]])


def _velocity(inertia, rotation, momentum):
    """M⁻¹ L in the world."""
    return rotation @ solve(inertia, rotation.T @ momentum)
