"""Balls that spin and bounce, on a plane and off each other."""

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._typing import Array, Float
from geodyn.mechanics.elements.abstract import number
from geodyn.mechanics.elements.contact import AbstractFrictionalContact, AbstractSpheres, coefficient, is_elastic
from geodyn.mechanics.elements.friction import tangential
from geodyn.mechanics.elements.poses import AbstractOnBodies
from geodyn.mechanics.rigid.joints import across


class BallsOnPlane(AbstractFrictionalContact, AbstractOnBodies):
    """Rigid balls, whose centres are the origins of the bodies, above the plane normal · x = offset:
    `BallsOnPlane(radii, restitution=1.0, friction=0.0, normal=(0, 0, 1), offset=0.0)`, one contact for each, with the
    slip of the point that touches, v − r ω × n. A ball that is dropped spinning:

        ball = gd.rigid.RigidBodies([0.4] * 3, 1.0, gd.Gravity(9.81), gd.rigid.BallsOnPlane(1.0, 0.8, friction=0.2))
        q0, v0 = ball.state(position=[0.0, 0.0, 2.0], velocity=[1.0, 0.0, 0.0], angular_velocity=[0.0, 5.0, 0.0])

    Balls that slide or roll on are for `method=gd.methods.Moreau()`. `radii` are one number or one for each body; the
    normal points to where the balls are, its length does not matter. Raises ValueError for radii that are not positive,
    a restitution outside [0, 1], friction below 0, and a normal that is none.
    """

    radii: Float[Array, "..."]
    restitution: Float[Array, "..."]
    friction: Float[Array, "..."] | None
    normal: Float[Array, " 3"]
    offset: Float[Array, ""]

    def __init__(self, radii, restitution=1.0, friction=0.0, normal=(0.0, 0.0, 1.0), offset=0.0):
        self.radii, self.friction = number("radii", radii, positive=True), coefficient(friction)
        self.restitution, self.elastic = number("restitution", restitution, most=1.0), is_elastic(restitution)
        self.normal, self.offset = jnp.asarray(normal, float), jnp.asarray(offset, float)
        traced = isinstance(self.normal, jax.core.Tracer)
        if self.normal.shape != (3,) or not (traced or np.any(np.asarray(self.normal) != 0)):
            raise ValueError(f"normal must be a vector [3] other than zero, got {normal}")

    def _normal(self, dtype):
        return (self.normal / jnp.sqrt(jnp.sum(self.normal**2))).astype(dtype)

    def gap(self, space, bodies):
        x = bodies.position
        return x @ self._normal(x.dtype) - self.offset.astype(x.dtype) - self.radii.astype(x.dtype)

    def slip(self, space, bodies, rates):
        normal = self._normal(bodies.position.dtype)
        radii = jnp.broadcast_to(self.radii.astype(normal.dtype), bodies.position.shape[:1])
        arms = jnp.einsum("bji,j,b->bi", bodies.rotation, -normal, radii)
        touching = rates.position + jnp.einsum("bij,bj->bi", rates.rotation, arms)
        return touching @ across(normal).T


class Balls(AbstractSpheres, AbstractOnBodies):
    """Rigid balls that touch each other, whose centres are the origins of the bodies: `Balls(radii, restitution=1.0,
    friction=0.0, pairs=None)`, all pairs or `pairs` [c, 2], with the slip of the points that touch,
    v_j − v_i − (r_i ω_i + r_j ω_j) × n. Two billiard balls, one with side spin:

        balls = gd.rigid.RigidBodies([[0.4] * 3] * 2, [1.0, 1.0], gd.rigid.Balls(1.0, restitution=0.9, friction=0.06))
        q0, v0 = balls.state(position=[[-2.0, 0, 0], [1.0, 0, 0]], velocity=[[1.0, 0, 0], [0, 0, 0]],
                             angular_velocity=[[0.0, 0, 2.0], [0, 0, 0]])

    `radii` are one number or one for each body. Raises ValueError for radii that are not positive, a restitution
    outside [0, 1], friction below 0, and pairs of bodies that do not exist."""

    def _ends(self, x):
        """Numbers and radii of the bodies that meet, [2, c]."""
        pairs = self.pairs_of(x).T
        return pairs, jnp.broadcast_to(self.radii.astype(x.dtype), len(x))[pairs]

    def gap(self, space, bodies):
        (i, j), radii = self._ends(bodies.position)
        return jnp.sqrt(jnp.sum((bodies.position[j] - bodies.position[i]) ** 2, axis=1)) - jnp.sum(radii, axis=0)

    def slip(self, space, bodies, rates):
        (i, j), radii = self._ends(bodies.position)
        spins = jnp.einsum("bij,bj->bi", bodies.rotation, bodies.angular_velocity(rates))
        between = bodies.position[j] - bodies.position[i]
        normal = between / jnp.sqrt(jnp.sum(between**2, axis=1, keepdims=True))
        turning = jnp.cross(radii[0][:, None] * spins[i] + radii[1][:, None] * spins[j], normal)
        relative = rates.position[j] - rates.position[i] - turning
        return jax.vmap(lambda x, n, u: tangential(space, x, n, u))(bodies.position[i], normal, relative)
