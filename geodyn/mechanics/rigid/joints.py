"""Joints between two rigid bodies, or of one with the world: what of their relative pose is held."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._typing import Array, Float
from geodyn.geometry.groups.rigid import SO3
from geodyn.mechanics.elements.abstract import AbstractConstraint
from geodyn.mechanics.elements.poses import AbstractOnBodies, Poses

ORIGINS = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))


class AbstractJoint(AbstractConstraint, AbstractOnBodies):
    """A joint between `bodies` (a, b), None for the world, at the places `at` [2, 3], each in the coordinates of its
    body; a holonomic constraint as all others, held by `gd.RadauIIA`. `rotation` [3, 3] is R_aᵀR_b, that of b as a sees
    it, in the pose in which the joint was made (by default none). Raises ValueError for bodies that are no pair."""

    bodies: tuple[int | None, int | None] = eqx.field(static=True)
    at: Float[Array, "2 3"]
    rotation: Float[Array, "3 3"]

    def __init__(self, bodies, at=ORIGINS, rotation=None):
        if np.ndim(bodies) != 1 or not all(body is None or isinstance(body, int | np.integer) for body in bodies):
            raise ValueError(f"bodies of a joint must be a pair of numbers of bodies, or one and None, got {bodies!r}")
        self.bodies, self.at = tuple(bodies), jnp.asarray(at, float)
        self.rotation = jnp.asarray(np.eye(3) if rotation is None else rotation, float)
        if len(self.bodies) != 2 or self.bodies[0] == self.bodies[1]:
            raise ValueError(f"bodies of a joint must be two different ones, or one and None, got {bodies}")
        if self.at.shape != (2, 3) or self.rotation.shape != (3, 3):
            raise ValueError(f"at must be two places [2, 3] and rotation [3, 3], got {self.at.shape} and {rotation}")

    def relative(self, poses: Poses) -> tuple[Float[Array, " 3"], Float[Array, "3 3"]]:
        """(d, C) as body a sees them: from its place to that of b, and what has turned b since the joint was made."""
        (x, R), (y, S) = (_pose(poses, body) for body in self.bodies)
        here, there = self.at.astype(y.dtype)
        return R.T @ (y + S @ there - x) - here, R.T @ S @ self.rotation.T.astype(y.dtype)


class BallJoint(AbstractJoint):
    """Both places coincide: `BallJoint((a, b), at=(place in a, place in b))`. Three constraints."""

    size: int = eqx.field(static=True, default=3, init=False)

    def residual(self, space, bodies):
        return self.relative(bodies)[0]


class Weld(AbstractJoint):
    """Both bodies are one: `Weld((a, b), at, rotation)`. Six constraints."""

    size: int = eqx.field(static=True, default=6, init=False)

    def residual(self, space, bodies):
        shift, turn = self.relative(bodies)
        return jnp.concatenate([shift, _sine(turn)])


class AbstractAxialJoint(AbstractJoint):
    """A joint with an axis [3], in the coordinates of the body a."""

    axis: Float[Array, " 3"]

    def __init__(self, bodies, at=ORIGINS, axis=(0.0, 0.0, 1.0), rotation=None):
        AbstractJoint.__init__(self, bodies, at, rotation)
        self.axis = jnp.asarray(axis, float)
        if self.axis.shape != (3,):
            raise ValueError(f"axis must be a vector [3], got shape {self.axis.shape}")
        if not isinstance(self.axis, jax.core.Tracer) and not np.any(np.asarray(self.axis) != 0):
            raise ValueError("axis must have a direction, got zeros: give it in the coordinates of the first body")


class Hinge(AbstractAxialJoint):
    """Both places coincide and the bodies turn about the axis, in the coordinates of a:
    `Hinge((a, b), at, axis, rotation)`. Five constraints."""

    size: int = eqx.field(static=True, default=5, init=False)

    def residual(self, space, bodies):
        shift, turn = self.relative(bodies)
        return jnp.concatenate([shift, across(self.axis).astype(turn.dtype) @ turn @ self.axis.astype(turn.dtype)])


class Slider(AbstractAxialJoint):
    """The place of b moves along the axis through that of a, in the coordinates of a, without turning (a prismatic
    joint): `Slider((a, b), at, axis, rotation)`. Five constraints."""

    size: int = eqx.field(static=True, default=5, init=False)

    def residual(self, space, bodies):
        shift, turn = self.relative(bodies)
        return jnp.concatenate([across(self.axis).astype(turn.dtype) @ shift, _sine(turn)])


def across(axis: Float[Array, " 3"]) -> Float[Array, "2 3"]:
    """Two unit vectors across an axis, and each other."""
    unit = axis / jnp.sqrt(jnp.sum(axis**2))
    least = (jnp.arange(3) == jnp.argmin(jnp.abs(unit))).astype(unit.dtype)
    first = jnp.cross(unit, least)
    first = first / jnp.sqrt(jnp.sum(first**2))
    return jnp.stack([first, jnp.cross(unit, first)])


def _pose(poses, body):
    if body is None:
        return jnp.zeros(3, poses.position.dtype), jnp.eye(3, dtype=poses.position.dtype)
    return poses.position[body], poses.rotation[body]


def _sine(turn):
    """Axis times sine of the angle of a rotation."""
    return SO3().vee((turn - turn.T) / 2)
