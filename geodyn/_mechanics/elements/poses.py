"""Poses of rigid bodies, with attitudes as quaternions of any length other than 0; only their direction matters.

The quaternion q = (w, u) stands for the rotation R(q) x = q x q⁻¹ from body to world coordinates. With R' = R [ω×] the
angular velocity in body coordinates is ω = 2 Im(q⁻¹q') (Hairer, Lubich & Wanner, VII.5.3).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._foundations.typing import Array, Float
from geodyn._geometry.groups.rigid import SO3


class Poses(NamedTuple):
    """`position` [B, 3] of the origins of the bodies, and `rotation` [B, 3, 3] from body to world coordinates. Time
    derivatives of poses are stored as `Poses` too: velocities, and R' = R [ω×]."""

    position: Float[Array, "B 3"]
    rotation: Float[Array, "B 3 3"]

    def angular_velocity(self, rates: "Poses") -> Float[Array, "B 3"]:
        """ω in body coordinates, for the time derivatives `rates` of these poses."""

        def turning(R: Float[Array, "3 3"], rate: Float[Array, "3 3"]) -> Float[Array, " 3"]:
            return SO3().vee(R.T @ rate)

        return jax.vmap(turning)(self.rotation, rates.rotation)


class AbstractOnBodies(eqx.Module):
    """Marks an element of rigid bodies as a function of their poses instead of points.

    Inherit from it beside `gd.AbstractPotential`, `gd.AbstractDissipation`, `gd.AbstractConstraint` or a contact. Where
    others are given points x[N, 3], the methods are then given `bodies`, with `bodies.position` [B, 3] and
    `bodies.rotation` [B, 3, 3] from body to world; where others are given velocities v, their rates, a pair of the same
    form with `rates.position` and `rates.rotation = R [ω×]`. `bodies.angular_velocity(rates)` [B, 3] is ω in the
    bodies.

    Example:
        A compass needle in a magnetic field along x, as a pinned body.

        >>> class Magnet(gd.AbstractPotential, gd.rigid.AbstractOnBodies):
        ...     strength: float
        ...     def energy(self, space, bodies):
        ...         return -self.strength * bodies.rotation[0, 0, 0]
        >>> needle = gd.rigid.RigidBodies([1.0, 1.0, 1.0], 1.0, Magnet(2.0), pinned=[[0.0, 0.0, 0.0]])
        >>> turned = gd.groups.SO3().exp(jnp.array([0.0, 0.0, jnp.pi / 3]))
        >>> motion = gd.integrate(needle, *needle.state(turned), t1=5.0, steps=100)
        >>> spin = gd.rigid.rigid_motion(motion).angular_velocity[:, 0, 2]
        >>> print(f"fastest turn {jnp.abs(spin).max():.2f}, energy {motion.energy[-1]:.6f}")
        fastest turn 1.41, energy -1.000000
    """


def left_product(q: Float[Array, " 4"]) -> Float[Array, "4 4"]:
    """The matrix of b ↦ q b, the product of quaternions (w, x, y, z)."""
    w, x, y, z = q[0], q[1], q[2], q[3]
    return jnp.stack(
        [
            jnp.stack([w, -x, -y, -z]),
            jnp.stack([x, w, -z, y]),
            jnp.stack([y, z, w, -x]),
            jnp.stack([z, -y, x, w]),
        ]
    )


def rotation(q: Float[Array, " 4"]) -> Float[Array, "3 3"]:
    """R(q), orthogonal to rounding for any length of q."""
    turn = SO3().hat(q[1:])
    identity = jnp.eye(3, dtype=q.dtype)
    return identity + 2 / jnp.dot(q, q) * (q[0] * turn + turn @ turn)


def spin(q: Float[Array, " 4"], v: Float[Array, " 4"]) -> Float[Array, " 4"]:
    """2 q⁻¹v for v = q': twice the rate of log |q|, then the angular velocity ω [3] in body coordinates."""
    product = 2 * left_product(q).T @ v
    return product / jnp.dot(q, q)
