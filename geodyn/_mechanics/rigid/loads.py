"""External forces and torques on rigid bodies, and drag on their rotation."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp

from geodyn._engine.jit import as_pytree
from geodyn._foundations.checks import check_arguments, floats, returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Each, Float, Index, Number, Numbers, Row, Scalar
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._mechanics.elements.abstract import AbstractDissipation, number
from geodyn._mechanics.elements.poses import AbstractOnBodies, Poses


class Load(AbstractDissipation, AbstractOnBodies):
    """An external force and torque on a rigid body, constant or a function of time.

    As a Rayleigh function it is minus their power, which is linear in the velocities. Any consistent units.

    Args:
        body: number of the body.
        force: vector [3], or a function t -> [3].
        torque: vector [3], or a function t -> [3].
        at: place [3] where the force acts, in the coordinates of the body.
        frame: "world" or "body", in whose axes force and torque are given.

    Raises:
        ValueError: for another frame, what is no number of a body, and vectors of another shape.

    Example:
        A torque that grows in time, τ = t about a principal axis: ω = t²/(2 I).

        >>> push = gd.rigid.Load(0, torque=lambda t: jnp.stack([0.0 * t, 0.0 * t, t]))
        >>> body = gd.rigid.RigidBodies([1.0, 1.0, 2.0], 1.0, push)
        >>> motion = gd.rigid.rigid_motion(gd.integrate(body, *body.state(), t1=2.0, steps=20))
        >>> print(motion.angular_velocity[-1, 0].round(6) + 0.0)
        [0. 0. 1.]
    """

    bodies: tuple[int] = eqx.field(static=True)
    force: Callable
    torque: Callable
    at: Float[Array, " 3"]
    frame: str = eqx.field(static=True)

    @checked
    def __init__(
        self,
        body: Index,
        force: Callable | Numbers = (0.0, 0.0, 0.0),
        torque: Callable | Numbers = (0.0, 0.0, 0.0),
        at: Row = (0.0, 0.0, 0.0),
        frame: str = "world",
    ):
        if frame not in ("world", "body"):
            raise ValueError(f'frame must be "world" or "body", got {frame!r}')
        self.bodies = (int(body),)
        self.frame = frame
        self.at = jnp.asarray(at, float)
        if self.at.shape != (3,):
            raise ValueError(f"at must be a place [3] in the coordinates of the body, got shape {self.at.shape}")
        self.force, self.torque = _function("force", force), _function("torque", torque)

    def rayleigh(self, space: AbstractManifold, bodies: Poses, rates: Poses, t: Number) -> Scalar:
        (b,) = self.bodies
        R, dtype = bodies.rotation[b], bodies.position.dtype
        velocity = rates.position[b] + rates.rotation[b] @ self.at.astype(dtype)
        turning = bodies.angular_velocity(rates)[b]
        seen = (velocity, R @ turning) if self.frame == "world" else (R.T @ velocity, turning)
        pushes = [_vector(name, f, t).astype(dtype) for name, f in (("force", self.force), ("torque", self.torque))]
        return -sum(jnp.dot(push, rate) for push, rate in zip(pushes, seen, strict=True))

    @property
    def _drives(self) -> bool:
        return True


class RotationalDrag(AbstractDissipation, AbstractOnBodies):
    """Linear drag against the turning of rigid bodies: the torque −c ω on each.

    Its Rayleigh function is `½ Σ c_b |ω_b|²`.

    Args:
        coefficient: c ≥ 0, one number or [B], torque per angular velocity.

    Raises:
        ValueError: for a coefficient below zero.

    Example:
        A ball slows down as exp(−c t/I).

        >>> ball = gd.rigid.RigidBodies([2.0, 2.0, 2.0], 1.0, gd.rigid.RotationalDrag(1.0))
        >>> q0, v0 = ball.state(angular_velocity=[0.0, 0.0, 3.0])
        >>> motion = gd.rigid.rigid_motion(gd.integrate(ball, q0, v0, t1=2.0, steps=20))
        >>> print(f"{motion.angular_velocity[-1, 0, 2]:.6f} {3 * np.exp(-1):.6f}")
        1.103638 1.103638
    """

    coefficient: Float[Array, "..."]

    @checked
    def __init__(self, coefficient: Each):
        self.coefficient = number("coefficient", coefficient)

    def rayleigh(self, space: AbstractManifold, bodies: Poses, rates: Poses) -> Scalar:
        squares = jnp.sum(bodies.angular_velocity(rates) ** 2, axis=1)
        return 0.5 * jnp.sum(self.coefficient.astype(squares.dtype) * squares)


class Constant(eqx.Module):
    """A constant function of time."""

    value: Float[Array, " 3"]

    def __call__(self, t: Number) -> Float[Array, " 3"]:
        return self.value


def _vector(name: str, function: Callable, t: Number) -> Array:
    value = returned(name, function, t)
    if value.shape != (3,):
        raise ValueError(f"{name} must return a vector [3], got shape {value.shape}")
    return value


def _function(name: str, value: Callable | Numbers) -> Callable:
    if callable(value):
        check_arguments(name, value, "t", named=())
        return as_pytree(value)
    value = floats(name, value)
    if value.shape != (3,):
        raise ValueError(f"{name} must be a vector [3] or a function t -> [3], got shape {value.shape}")
    return Constant(value)
