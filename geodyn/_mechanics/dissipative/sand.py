"""MATTER: sand that resists plates moving in a vertical plane, by resistive-force theory."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._foundations.checks import floats
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Number, Row, Scalar

GENERIC = (0.206, 0.169, 0.212, 0.358, 0.055, -0.124, 0.253, 0.007, 0.088)
"""Of any dry sand, in units in which a horizontal plate that sinks meets the stress 1 per depth."""
LOOSE_POPPY_SEEDS = (0.051, 0.047, 0.053, 0.083, 0.020, -0.026, 0.057, 0.0, 0.025)
"""Of loosely packed poppy seeds, in N/cm³."""
PACKED_POPPY_SEEDS = (0.094, 0.092, 0.092, 0.151, 0.035, -0.039, 0.086, 0.018, 0.046)
"""Of closely packed poppy seeds, in N/cm³."""

GAUSS_NODES, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(16)


class PlateForce(NamedTuple):
    """What sand exerts on a plate, per width: a force (x, z) and the torque about the origin, from x to z.

    Args:
        force: (x, z).
        torque: about the origin.

    Example:
        A plate of length 2 at the depth 3, which sinks.

        >>> found = gd.granular.SandBed().on_plate([0.0, -3.0], [2.0, -3.0], [0.0, -1.0], [0.0, -1.0])
        >>> print(found.force.round(6), found.torque.round(6))
        [0. 6.] 6.0
    """

    force: Float[Array, "2"]
    torque: Scalar


@checked
class SandBed(eqx.Module):
    """Sand below the level z = 0, which resists plates that move slowly in the plane of x and of the height z.

    The stress on a piece of a plate is its depth times a function of the tilt β of the plate and of the direction γ of
    its velocity, and does not depend on the speed. The function is a Fourier series of nine coefficients, which were
    measured in several sands and are nearly the same in all of them up to a factor. It holds for slow intruders, in a
    plane, without cohesion; of a closed body only the faces that move ahead are resisted.

    Args:
        coefficients: (A00, A10, B11, B01, B−11, C11, C01, C−11, D10); also `gd.granular.LOOSE_POPPY_SEEDS` and
            `gd.granular.PACKED_POPPY_SEEDS`, in N/cm³.
        scale: factor of the stress; the sands that were measured have some 0.2 to 2.5 N/cm³ with the coefficients
            `gd.granular.GENERIC`.

    Raises:
        ValueError: unless there are nine finite coefficients, and the scale is positive.

    Example:
        A horizontal plate resists four times as much when it is pushed down as when it is pulled up.

        >>> sand = gd.granular.SandBed()
        >>> print(sand.stress(0.0, jnp.pi / 2).round(3) + 0.0, sand.stress(0.0, -jnp.pi / 2).round(3) + 0.0)
        [0. 1.] [ 0.   -0.25]

    Source:
        Li, Zhang & Goldman, *Science* 339 (2013) 1408, supplement (the coefficients).
    """

    coefficients: Float[Array, "9"]
    scale: Number

    def __init__(self, coefficients: Row = GENERIC, scale: Number = 1.0):
        self.coefficients = floats("coefficients", coefficients)
        self.scale = floats("scale", scale)
        if not isinstance(self.scale, Tracer) and not self.scale > 0:
            raise ValueError(f"SandBed: scale must be positive, got {self.scale}.")

    def stress(self, tilt: Number, intrusion: Number) -> Float[Array, "2"]:
        """The stress (x, z) per depth on a plate that moves to the right.

        Args:
            tilt: β, the angle by which the plate rises to the right.
            intrusion: γ, the angle by which its velocity sinks below the horizontal, −π/2 to π/2.

        Returns:
            The force per area and depth [2] on the plate, against its motion.
        """
        dtype = self.coefficients.dtype
        return self._stress(jnp.asarray(tilt, dtype), jnp.asarray(intrusion, dtype))

    def _stress(self, tilt: Scalar, intrusion: Scalar) -> Float[Array, "2"]:
        """`stress` of arrays: sums over cosines and sines of 2mβ + nγ, where m and n are the indices of a
        coefficient, such as −1 and 1 of B−11."""
        a00, a10, b11, b01, b_11, c11, c01, c_11, d10 = self.coefficients
        twice = 2 * tilt
        up = a00 + a10 * jnp.cos(twice)
        up += b11 * jnp.sin(twice + intrusion)
        up += b01 * jnp.sin(intrusion)
        up += b_11 * jnp.sin(intrusion - twice)
        back = c11 * jnp.cos(twice + intrusion)
        back += c01 * jnp.cos(intrusion)
        back += c_11 * jnp.cos(intrusion - twice)
        back += d10 * jnp.sin(twice)
        return self.scale * jnp.stack([-back, up])

    def stress_on(self, direction: Row, velocity: Row) -> Float[Array, "2"]:
        """The stress per depth on a plate with a direction that moves with a velocity, both (x, z)."""
        return self._stress_on(floats("direction", direction), floats("velocity", velocity))

    def _stress_on(self, direction: Float[Array, "2"], velocity: Float[Array, "2"]) -> Float[Array, "2"]:
        # What moves to the left is the mirror image of what moves to the right.
        side = jnp.where(velocity[0] < 0, -1.0, 1.0)
        tilt = jnp.arctan2(side * direction[1], direction[0])
        intrusion = jnp.arctan2(-velocity[1], side * velocity[0])
        mirror = jnp.stack([side, jnp.ones_like(side)])
        return self._stress(tilt, intrusion) * mirror

    def on_plate(self, start: Row, end: Row, start_velocity: Row, end_velocity: Row) -> PlateForce:
        """What the sand exerts on a straight plate, per width of it: integrated over the part below z = 0 by Gauss's
        rule with 16 nodes, which is exact where the plate does not turn.

        Args:
            start: (x, z), one end of the plate.
            end: the other one.
            start_velocity: of the first end.
            end_velocity: of the other one; the velocities between are linear.

        Returns:
            `force` [2] and `torque`, about the origin and from x to z. Both are NaN if the whole plate is at rest,
            where any force below the yield is possible.
        """
        start = _pair("start", start)
        end = _pair("end", end)
        start_velocity = _pair("start_velocity", start_velocity)
        end_velocity = _pair("end_velocity", end_velocity)
        side = end - start
        low, high = _below_the_surface(start, side)
        nodes = low + (high - low) * jnp.asarray((1 + GAUSS_NODES) / 2, side.dtype)
        weights = (high - low) * jnp.linalg.norm(side) * jnp.asarray(GAUSS_WEIGHTS / 2, side.dtype)

        def piece(s: Scalar, weight: Scalar) -> tuple[Float[Array, "2"], Scalar]:
            """The force on a piece of the plate, and its torque."""
            place = start + s * side
            velocity = start_velocity + s * (end_velocity - start_velocity)
            depth = jnp.maximum(-place[1], 0.0)
            force = weight * depth * self._stress_on(side, velocity)
            torque = place[0] * force[1] - place[1] * force[0]
            return force, torque

        forces, torques = jax.vmap(piece)(nodes, weights)
        moves = jnp.any(jnp.stack([start_velocity, end_velocity]) != 0)
        known = jnp.where(moves, 1.0, jnp.nan)
        force = known * jnp.sum(forces, axis=0)
        torque = known * jnp.sum(torques)
        return PlateForce(force, torque)


def _pair(name: str, value: Row) -> Float[Array, "2"]:
    """(x, z) as an array; else ValueError."""
    pair = floats(name, value)
    if jnp.shape(pair) != (2,):
        raise ValueError(f"on_plate: {name} must be two numbers, (x, z), got shape {jnp.shape(pair)}.")
    return pair


def _below_the_surface(start: Float[Array, "2"], side: Float[Array, "2"]) -> tuple[Scalar, Scalar]:
    """The part of a plate that is below z = 0, from s = 0 at its start to s = 1 at its end."""
    is_level = side[1] == 0
    # Where the surface cuts the plate the depth is 0, so that it does not matter how this place moves.
    crossing = jax.lax.stop_gradient(-start[1] / jnp.where(is_level, 1.0, side[1]))
    all_or_none = jnp.where(start[1] < 0, 0.0, 1.0)
    cut = jnp.where(is_level, all_or_none, jnp.clip(crossing, 0.0, 1.0))
    # A plate that sinks is below from the cut on, one that rises up to it.
    sinks = side[1] < 0
    low = jnp.where(sinks | is_level, cut, 0.0)
    high = jnp.where(sinks | is_level, 1.0, cut)
    return low, high
