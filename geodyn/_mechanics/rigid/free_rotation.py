"""Free rotation of a rigid body by explicit steps at constant angular momentum: two baseline methods used in games.

They are functions of their own, not methods of `integrate`, because they apply to free bodies only: the angular
momentum L in the world is given and constant, and a step only changes the attitude. So L is exact and the attitude is
orthogonal, but the energy drifts. `gd.rigid.RigidBodies` with `gd.Gauss` works for all bodies, and is better for free
bodies too.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from geodyn._engine.jit import jit
from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Number, Scalar
from geodyn._geometry.groups.rigid import SO3
from geodyn._mechanics.rigid.inertia import check_rotations, inertias, rows

Matrix = Float[Array, "3 3"]
Vector = Float[Array, " 3"]


@checked
def momentum_step(inertia: Matrix, rotation: Matrix, momentum: Vector, h: Number) -> Matrix:
    """One step of a free rigid body of first order: `R ← exp(h [ω×]) R` with `ω = M⁻¹L`, `M = R I Rᵀ`.

    The angular momentum L is exact, since it is given; the attitude stays orthogonal; the energy drifts. For
    `gd.rigid.free_rotation`.

    Args:
        inertia: I [3, 3] about the centre of mass, in the axes of the body.
        rotation: R [3, 3] from body to world.
        momentum: angular momentum L [3] in the world.
        h: time step.

    Returns:
        R [3, 3] after the step.

    Example:
        Exact for a ball, which turns by |L| h/I.

        >>> turned = gd.rigid.momentum_step(2.0 * jnp.eye(3), jnp.eye(3), jnp.array([0.0, 0.0, 1.0]), 0.5)
        >>> print(f"{jnp.arctan2(turned[1, 0], turned[0, 0]):.6f}")
        0.250000
    """
    turn: Vector = h * _velocity(inertia, rotation, momentum)
    return SO3().exp(turn) @ rotation


@checked
def buss_step(inertia: Matrix, rotation: Matrix, momentum: Vector, h: Number) -> Matrix:
    """One step of a free rigid body of second order, Buss's augmented method.

    `R ← exp(h [ω̄×]) R` with `ω̄ = ω + (h/2) α + (h²/12) α × ω`, `ω = M⁻¹L`, `α = −M⁻¹(ω × L)` and
    `M = R I Rᵀ`. The angular momentum L is exact, since it is given; the attitude stays orthogonal; the energy
    drifts. For `gd.rigid.free_rotation`.

    Args:
        inertia: I [3, 3] about the centre of mass, in the axes of the body.
        rotation: R [3, 3] from body to world.
        momentum: angular momentum L [3] in the world.
        h: time step.

    Returns:
        R [3, 3] after the step.

    Example:
        The energy ½ L·ω after one step, beside that of the step of first order.

        >>> inertia, L = jnp.diag(jnp.array([1.0, 2.0, 3.0])), jnp.array([1.0, 2.0, 1.0])
        >>> def energy(R):
        ...     return L @ R @ jnp.linalg.solve(inertia, R.T @ L) / 2
        >>> start = jnp.eye(3)
        >>> steps = gd.rigid.momentum_step, gd.rigid.buss_step
        >>> print([f"{abs(energy(step(inertia, start, L, 0.01)) - energy(start)):.0e}" for step in steps])
        ['3e-05', '1e-07']

    Source:
        Buss, *J. Comput. Phys.* 164 (2000) 377.
    """
    turning = _velocity(inertia, rotation, momentum)
    change = -_velocity(inertia, rotation, jnp.cross(turning, momentum))
    mean = turning + h / 2 * change + h**2 / 12 * jnp.cross(change, turning)
    turn: Vector = h * mean
    return SO3().exp(turn) @ rotation


@checked
def free_rotation(
    inertia: Float[Array, "3"] | Float[Array, "3 3"],
    rotation: Float[Array, "3 3"],
    angular_velocity: Float[Array, "3"],
    *,
    t1: Number,
    steps: Count,
    step: Callable[[Array, Array, Array, Scalar], Array] = buss_step,
) -> Float[Array, "T 3 3"]:
    """Attitudes of a free rigid body by equal explicit steps of its conserved angular momentum.

    A baseline of order 2 (`gd.rigid.buss_step`) or 1 (`gd.rigid.momentum_step`): the momentum is exact and the attitude
    orthogonal, but the energy drifts. For high orders and an energy that does not drift, integrate a
    `gd.rigid.RigidBodies` by `gd.Gauss(s)`, of order 2s.

    Args:
        inertia: [3] or [3, 3] about the centre of mass, in the axes of the body.
        rotation: R [3, 3] from body to world at the start.
        angular_velocity: [3] in the axes of the body, radians per unit of time.
        t1: end of the time.
        steps: number of equal steps.
        step: function (inertia, rotation, momentum, h) -> rotation.

    Returns:
        R [steps + 1, 3, 3], at the start and after each step.

    Raises:
        ValueError: for an inertia that no body has, and a matrix that is no rotation.

    Example:
        A symmetric body, whose axis goes round the momentum at the rate |L|/I₁.

        >>> R = gd.rigid.free_rotation([1.0, 1.0, 2.0], jnp.eye(3), [1.0, 0.0, 1.0], t1=1.0, steps=1000)
        >>> known = gd.groups.SO3().exp(jnp.array([1.0, 0.0, 2.0]))[:, 2]  # L = (1, 0, 2), I₁ = 1
        >>> print(R[-1, :, 2].round(4), known.round(4))
        [ 0.6469 -0.3518  0.6765] [ 0.6469 -0.3518  0.6765]
    """
    moments, first = inertias(inertia, 1)[0], rows("rotation", rotation, (1, 3, 3))
    check_rotations(first)
    return _attitudes(step, moments, first[0], jnp.asarray(angular_velocity, float), t1 / steps, length=steps)


@jit
def _attitudes(
    step: Callable, inertia: Matrix, first: Matrix, angular_velocity: Vector, h: Scalar, *, length: int
) -> Float[Array, "T 3 3"]:
    momentum = first @ inertia @ angular_velocity

    def turn(R: Matrix, _: None) -> tuple[Matrix, Matrix]:
        R = step(inertia, R, momentum, h)
        return R, R

    return jnp.concatenate([first[None], jax.lax.scan(turn, first, None, length=length)[1]])


def _velocity(inertia: Matrix, rotation: Matrix, momentum: Vector) -> Vector:
    """The angular velocity M⁻¹ L in world coordinates, M = R I Rᵀ."""
    return rotation @ solve(inertia, rotation.T @ momentum)
