"""Joints between two rigid bodies, or a body and the world: constraints on their relative pose."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._foundations.checks import is_whole
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Row, Rows
from geodyn._geometry.groups.rigid import SO3
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._mechanics.elements.abstract import AbstractConstraint
from geodyn._mechanics.elements.poses import AbstractOnBodies, Poses
from geodyn._mechanics.rigid.inertia import check_rotations

ORIGINS = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))


class AbstractJoint(AbstractConstraint, AbstractOnBodies):
    """A joint between `bodies` (a, b), None for the world, at the places `at` [2, 3], each in coordinates of its body:
    a holonomic constraint, enforced by `gd.RadauIIA`. `rotation` [3, 3] is R_aᵀR_b, the rotation of b relative to a, in
    the reference pose of the joint (by default the identity). Raises ValueError if `bodies` is not a pair."""

    bodies: tuple[int | None, int | None] = eqx.field(static=True)
    at: Float[Array, "2 3"]
    rotation: Float[Array, "3 3"]

    def __init__(self, bodies: Any, at: Rows = ORIGINS, rotation: Rows | None = None):
        if np.ndim(bodies) != 1 or not all(body is None or is_whole(body) for body in bodies):
            raise ValueError(f"bodies of a joint must be a pair of numbers of bodies, or one and None, got {bodies!r}")
        self.bodies = tuple(bodies)
        self.at = jnp.asarray(at, float)
        self.rotation = jnp.asarray(np.eye(3) if rotation is None else rotation, float)
        if len(self.bodies) != 2 or self.bodies[0] == self.bodies[1]:
            raise ValueError(f"bodies of a joint must be two different ones, or one and None, got {bodies}")
        if self.at.shape != (2, 3) or self.rotation.shape != (3, 3):
            raise ValueError(f"at must be two places [2, 3] and rotation [3, 3], got {self.at.shape} and {rotation}")
        check_rotations(self.rotation[None])

    def relative(self, poses: Poses) -> tuple[Float[Array, " 3"], Float[Array, "3 3"]]:
        """(d, C) in coordinates of body a: the vector from its place to that of b, and the rotation of b from the
        reference pose of the joint."""
        first, second = self.bodies
        x, R = _pose(poses, first)
        y, S = _pose(poses, second)
        here, there = self.at.astype(y.dtype)
        shift = R.T @ (y + S @ there - x) - here
        turn = R.T @ S @ self.rotation.T.astype(y.dtype)
        return shift, turn


@checked
class BallJoint(AbstractJoint):
    """A ball joint: a place of one rigid body coincides with a place of another, or of the world; three constraints.

    It is a holonomic constraint, held by `gd.RadauIIA`, for `gd.rigid.RigidBodies`.

    Args:
        bodies: (a, b), numbers of two bodies, or one of them None for the world.
        at: places [2, 3] in a and in b, each in the coordinates of its body; default the origins.
        rotation: plays no part here; see `gd.rigid.FixedJoint`.

    Raises:
        ValueError: for bodies that are no pair, and places of another shape.

    Example:
        A bar hung at one end: the end stays where it is, and the energy is conserved.

        >>> joint = gd.rigid.BallJoint((None, 0), at=[[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
        >>> bar = gd.rigid.RigidBodies([0.34, 0.34, 0.02], 1.0, gd.Gravity(9.81), joint, points=[(0, [0.0, 0.0, 1.0])])
        >>> q0, v0 = bar.state(position=[0.0, 0.0, -1.0], velocity=[0.5, 0.0, 0.0], angular_velocity=[0.0, -0.5, 0.0])
        >>> motion = gd.integrate(bar, q0, v0, t1=1.0, steps=50)
        >>> end = gd.rigid.rigid_motion(motion).points[:, 1]
        >>> print(bool(jnp.max(jnp.abs(end)) < 1e-10), f"{jnp.ptp(motion.energy):.6f}")
        True 0.000000
    """

    size: int = eqx.field(static=True, default=3, init=False)

    def residual(self, space: AbstractManifold, bodies: Poses) -> Float[Array, " size"]:
        return self.relative(bodies)[0]


@checked
class FixedJoint(AbstractJoint):
    """A fixed joint: two rigid bodies, or one and the world, move as one; six constraints.

    It is a holonomic constraint, held by `gd.RadauIIA`, for `gd.rigid.RigidBodies`.

    Args:
        bodies: (a, b), numbers of two bodies, or one of them None for the world.
        at: places [2, 3] in a and in b that coincide, each in the coordinates of its body; default the origins.
        rotation: R_aᵀR_b [3, 3], the attitude of b as a sees it; default the same as that of a.

    Raises:
        ValueError: for bodies that are no pair, and places or a rotation of another shape.

    Example:
        Held in the world against gravity: the force in the joint is the weight m g, and there is no torque.

        >>> joint = gd.rigid.FixedJoint((None, 0))
        >>> body = gd.rigid.RigidBodies([1.0, 1.0, 2.0], 3.0, gd.Gravity(10.0), joint)
        >>> motion = gd.integrate(body, *body.state(), t1=1.0, steps=4, method=gd.RadauIIA(2))
        >>> print(motion.multipliers[-1].round(6) + 0.0)
        [ 0.  0. 30.  0.  0.  0.]
    """

    size: int = eqx.field(static=True, default=6, init=False)

    def residual(self, space: AbstractManifold, bodies: Poses) -> Float[Array, " size"]:
        shift, turn = self.relative(bodies)
        return jnp.concatenate([shift, _sine(turn)])


class AbstractAxialJoint(AbstractJoint):
    """A joint with an axis [3], in coordinates of the first body."""

    axis: Float[Array, " 3"]

    def __init__(self, bodies: Any, at: Rows = ORIGINS, axis: Row = (0.0, 0.0, 1.0), rotation: Rows | None = None):
        AbstractJoint.__init__(self, bodies, at, rotation)
        self.axis = jnp.asarray(axis, float)
        if self.axis.shape != (3,):
            raise ValueError(f"axis must be a vector [3], got shape {self.axis.shape}")
        if not isinstance(self.axis, Tracer) and not np.any(np.asarray(self.axis) != 0):
            raise ValueError("axis must have a direction, got zeros: give it in the coordinates of the first body")


@checked
class Hinge(AbstractAxialJoint):
    """A hinge: two places coincide, and the bodies turn against each other about an axis; five constraints.

    It is a holonomic constraint, held by `gd.RadauIIA`, for `gd.rigid.RigidBodies`.

    Args:
        bodies: (a, b), numbers of two bodies, or one of them None for the world.
        at: places [2, 3] in a and in b that coincide, each in the coordinates of its body; default the origins.
        axis: [3], in the coordinates of a; its length does not matter.
        rotation: R_aᵀR_b [3, 3], the attitude of b as a sees it in a pose in which the joint can be; default the same.

    Raises:
        ValueError: for bodies that are no pair, an axis of zeros, and places or a rotation of another shape.

    Example:
        A disc hinged to the world turns under a torque with ω = τ t/I about the axis of the hinge alone.

        >>> hinge, push = gd.rigid.Hinge((None, 0), axis=[0.0, 0.0, 1.0]), gd.rigid.Load(0, torque=[5.0, 0.0, 6.0])
        >>> disc = gd.rigid.RigidBodies([1.0, 1.0, 2.0], 1.0, hinge, push)
        >>> motion = gd.rigid.rigid_motion(gd.integrate(disc, *disc.state(), t1=1.0, steps=20))
        >>> print(motion.angular_velocity[-1, 0].round(6) + 0.0)
        [0. 0. 3.]
    """

    size: int = eqx.field(static=True, default=5, init=False)

    def residual(self, space: AbstractManifold, bodies: Poses) -> Float[Array, " size"]:
        shift, turn = self.relative(bodies)
        # The axis, which turns with the second body, has no part across the axis of the first one.
        tilt = across(self.axis).astype(turn.dtype) @ turn @ self.axis.astype(turn.dtype)
        return jnp.concatenate([shift, tilt])


@checked
class Slider(AbstractAxialJoint):
    """A slider (prismatic joint): b moves along an axis that is fixed in a, without turning; five constraints.

    The place of b moves along the axis through the place of a.

    It is a holonomic constraint, held by `gd.RadauIIA`, for `gd.rigid.RigidBodies`.

    Args:
        bodies: (a, b), numbers of two bodies, or one of them None for the world.
        at: places [2, 3] in a and in b, each in the coordinates of its body; default the origins.
        axis: [3], in the coordinates of a; its length does not matter.
        rotation: R_aᵀR_b [3, 3], the attitude of b as a sees it; default the same as that of a.

    Raises:
        ValueError: for bodies that are no pair, an axis of zeros, and places or a rotation of another shape.

    Example:
        A bead on an inclined rail: down by ½ g t² sin² 45°.

        >>> rail = gd.rigid.Slider((None, 0), axis=[1.0, 0.0, -1.0])
        >>> bead = gd.rigid.RigidBodies([1.0, 1.0, 1.0], 1.0, rail, gd.Gravity(10.0))
        >>> motion = gd.rigid.rigid_motion(gd.integrate(bead, *bead.state(), t1=1.0, steps=20))
        >>> print(motion.position[-1, 0].round(6) + 0.0)
        [ 2.5  0.  -2.5]
    """

    size: int = eqx.field(static=True, default=5, init=False)

    def residual(self, space: AbstractManifold, bodies: Poses) -> Float[Array, " size"]:
        shift, turn = self.relative(bodies)
        sideways = across(self.axis).astype(turn.dtype) @ shift
        return jnp.concatenate([sideways, _sine(turn)])


def across(axis: Float[Array, " 3"]) -> Float[Array, "2 3"]:
    """Two unit vectors that are orthogonal to an axis and to each other."""
    unit = axis / jnp.sqrt(jnp.sum(axis**2))
    # The coordinate axis that is least parallel to it, so that the cross product is not short.
    least = (jnp.arange(3) == jnp.argmin(jnp.abs(unit))).astype(unit.dtype)
    first = jnp.cross(unit, least)
    first = first / jnp.sqrt(jnp.sum(first**2))
    return jnp.stack([first, jnp.cross(unit, first)])


def _pose(poses: Poses, body: int | None) -> tuple[Float[Array, " 3"], Float[Array, "3 3"]]:
    """The position and the rotation of a body, or of the world."""
    dtype = poses.position.dtype
    if body is None:
        return jnp.zeros(3, dtype), jnp.eye(3, dtype=dtype)
    return poses.position[body], poses.rotation[body]


def _sine(turn: Float[Array, "3 3"]) -> Float[Array, " 3"]:
    """The axis of a rotation times the sine of its angle."""
    return SO3().vee((turn - turn.T) / 2)
