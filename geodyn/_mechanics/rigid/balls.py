"""Balls that spin and bounce, on a plane and off each other."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import DTypeLike

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Each, Float, Int, Number, Row
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._mechanics.elements.abstract import number
from geodyn._mechanics.elements.contact import AbstractFrictionalContact, AbstractSpheres, coefficient, is_elastic
from geodyn._mechanics.elements.friction import tangential
from geodyn._mechanics.elements.poses import AbstractOnBodies, Poses
from geodyn._mechanics.rigid.joints import across


class BallsOnPlane(AbstractFrictionalContact, AbstractOnBodies):
    """Rigid balls above the plane `normal · x = offset`, with the origins of the bodies as their centres.

    There is one contact for each ball, with the slip of the point that touches, `v − r ω × n`. Restitution is
    Newton's, friction Coulomb's. Balls that go on sliding or rolling on the plane need `method=gd.methods.Moreau()`.

    Args:
        radii: one number or [B].
        restitution: rate of separation over rate of approach, from 0 to 1, one number or one for each ball.
        friction: Coulomb's coefficient, one number or one for each ball.
        normal: vector [3] that points to the side where the balls are; its length does not matter.
        offset: place of the plane along the unit normal.

    Raises:
        ValueError: for radii that are not positive, a restitution outside [0, 1], friction below 0, and a normal that
            is zero or no vector [3].

    Example:
        A ball that slides through its bounce at the speed w loses μ (1 + e) w along the plane.

        >>> plane = gd.rigid.BallsOnPlane(1.0, restitution=0.8, friction=0.1)
        >>> ball = gd.rigid.RigidBodies([0.4] * 3, 1.0, plane)
        >>> q0, v0 = ball.state(position=[0.0, 0.0, 2.0], velocity=[3.0, 0.0, -2.0])
        >>> motion = gd.rigid.rigid_motion(gd.integrate(ball, q0, v0, t1=1.0, steps=20))
        >>> print(motion.velocity[-1, 0].round(6) + 0.0, f"{3.0 - 0.1 * 1.8 * 2.0:.6f} {0.8 * 2.0:.6f}")
        [2.64 0.   1.6 ] 2.640000 1.600000
    """

    radii: Float[Array, "..."]
    restitution: Float[Array, "..."]
    friction: Float[Array, "..."] | None
    normal: Float[Array, " 3"]
    offset: Float[Array, ""]

    @checked
    def __init__(
        self,
        radii: Each,
        restitution: Each = 1.0,
        friction: Each = 0.0,
        normal: Row = (0.0, 0.0, 1.0),
        offset: Number = 0.0,
    ):
        self.radii = number("radii", radii, positive=True)
        self.friction = coefficient(friction)
        self.restitution = number("restitution", restitution, most=1.0)
        self.elastic = is_elastic(restitution)
        self.normal = jnp.asarray(normal, float)
        self.offset = jnp.asarray(offset, float)
        traced = isinstance(self.normal, Tracer)
        if self.normal.shape != (3,) or not (traced or np.any(np.asarray(self.normal) != 0)):
            raise ValueError(f"normal must be a vector [3] other than zero, got {normal}")

    def _normal(self, dtype: DTypeLike) -> Float[Array, " 3"]:
        length = jnp.sqrt(jnp.sum(self.normal**2))
        return (self.normal / length).astype(dtype)

    def gap(self, space: AbstractManifold, bodies: Poses) -> Float[Array, " c"]:
        x = bodies.position
        height = x @ self._normal(x.dtype) - self.offset.astype(x.dtype)
        return height - self.radii.astype(x.dtype)

    def slip(self, space: AbstractManifold, bodies: Poses, rates: Poses) -> Float[Array, "c s"]:
        normal = self._normal(bodies.position.dtype)
        radii = jnp.broadcast_to(self.radii.astype(normal.dtype), bodies.position.shape[:1])
        # The places that touch, from the centres, in the coordinates of the bodies.
        arms = jnp.einsum("bji,j,b->bi", bodies.rotation, -normal, radii)
        touching = rates.position + jnp.einsum("bij,bj->bi", rates.rotation, arms)
        return touching @ across(normal).T


class Balls(AbstractSpheres, AbstractOnBodies):
    """Rigid balls that touch each other, with the origins of the bodies as their centres.

    There is one contact for each pair, with the slip of the points that touch,
    `v_j − v_i − (r_i ω_i + r_j ω_j) × n`. Restitution is Newton's, friction Coulomb's.

    Args:
        radii: one number or [B].
        restitution: rate of separation over rate of approach, from 0 to 1, one number or one for each contact.
        friction: Coulomb's coefficient, one number or one for each contact.
        pairs: pairs of bodies [c, 2] that may touch; None: all pairs.

    Raises:
        ValueError: for radii that are not positive, a restitution outside [0, 1], friction below 0, and pairs of bodies
            that do not exist.

    Example:
        Two equal billiard balls exchange their velocities in a head-on collision.

        >>> balls = gd.rigid.RigidBodies([[0.4] * 3] * 2, [1.0, 1.0], gd.rigid.Balls(1.0, restitution=1.0))
        >>> q0, v0 = balls.state(position=[[-2.0, 0, 0], [1.0, 0, 0]], velocity=[[1.0, 0, 0], [0, 0, 0]])
        >>> motion = gd.rigid.rigid_motion(gd.integrate(balls, q0, v0, t1=2.0, steps=20))
        >>> print(motion.velocity[-1, :, 0].round(6) + 0.0)
        [0. 1.]
    """

    def _ends(self, x: Float[Array, "B 3"]) -> tuple[Int[np.ndarray, "2 c"], Float[Array, "2 c"]]:
        """The indices and the radii of the two bodies of every pair, each [2, c]."""
        pairs = self.pairs_of(x).T
        radii = jnp.broadcast_to(self.radii.astype(x.dtype), len(x))
        return pairs, radii[pairs]

    def gap(self, space: AbstractManifold, bodies: Poses) -> Float[Array, " c"]:
        (i, j), radii = self._ends(bodies.position)
        between = bodies.position[j] - bodies.position[i]
        distance = jnp.sqrt(jnp.sum(between**2, axis=1))
        return distance - jnp.sum(radii, axis=0)

    def slip(self, space: AbstractManifold, bodies: Poses, rates: Poses) -> Float[Array, "c s"]:
        (i, j), radii = self._ends(bodies.position)
        spins = jnp.einsum("bij,bj->bi", bodies.rotation, bodies.angular_velocity(rates))
        between = bodies.position[j] - bodies.position[i]
        normal = between / jnp.sqrt(jnp.sum(between**2, axis=1, keepdims=True))
        turning = jnp.cross(radii[0][:, None] * spins[i] + radii[1][:, None] * spins[j], normal)
        relative = rates.position[j] - rates.position[i] - turning
        return jax.vmap(lambda x, n, u: tangential(space, x, n, u))(bodies.position[i], normal, relative)
