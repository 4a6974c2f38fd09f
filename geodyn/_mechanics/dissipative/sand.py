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
        """`stress` of arrays."""
        direction = jnp.stack([jnp.cos(tilt), jnp.sin(tilt)])
        velocity = jnp.stack([jnp.cos(intrusion), -jnp.sin(intrusion)])
        return self.creeping_stress(direction, velocity, jnp.zeros((), tilt.dtype))

    def stress_on(self, direction: Row, velocity: Row) -> Float[Array, "2"]:
        """The stress per depth on a plate with a direction that moves with a velocity, both (x, z); NaN at rest, where
        any stress below the yield is possible."""
        direction = floats("direction", direction)
        velocity = floats("velocity", velocity)
        return self.creeping_stress(direction, velocity, jnp.zeros((), velocity.dtype))

    def creeping_stress(
        self, direction: Float[Array, "2"], velocity: Float[Array, "2"], creep: Scalar
    ) -> Float[Array, "2"]:
        """`stress_on` of arrays, of a plate that creeps: its stress falls to zero with its speed below `creep`.

        The stress is a sum of the cosines and sines of 2mβ + nγ, where m and n are the indices of a coefficient, such
        as −1 and 1 of B−11. Hence it is s₀(β) + S₁(β)(cos γ, sin γ), of plates that move to the left too, which are the
        mirror images β → −β, γ → π − γ. With c = |v|/√(|v|² + creep²) a creeping plate meets c (c s₀ + S₁ (cos γ,
        sin γ)), which is smooth in v. It is against the motion if the stress without creep is: between c = 0, the mean
        of a motion there and back, and c = 1 its power is linear in c.
        """
        a00, a10, b11, b01, b_11, c11, c01, c_11, d10 = self.coefficients.astype(velocity.dtype)
        square = jnp.dot(direction, direction)
        cosine = (direction[0] ** 2 - direction[1] ** 2) / square  # of 2β
        sine = 2 * direction[0] * direction[1] / square
        speed = jnp.dot(velocity, velocity)
        reach = speed + creep**2
        ahead = velocity[0] / jnp.sqrt(reach)  # c cos γ
        down = -velocity[1] / jnp.sqrt(reach)  # c sin γ
        up = (a00 + a10 * cosine) * speed / reach
        up += b11 * (sine * ahead + cosine * down)
        up += b01 * down
        up += b_11 * (down * cosine - ahead * sine)
        back = d10 * sine * speed / reach
        back += c11 * (cosine * ahead - sine * down)
        back += c01 * ahead
        back += c_11 * (ahead * cosine + down * sine)
        return jnp.asarray(self.scale, velocity.dtype) * jnp.stack([-back, up])

    def on_plate(self, start: Row, end: Row, start_velocity: Row, end_velocity: Row) -> PlateForce:
        """What the sand exerts on a straight plate, per width of it: integrated over the part below z = 0 by Gauss's
        rule with 16 nodes on either side of the place that is slowest, which is exact where the plate does not turn.

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
        ends = jnp.stack([start, end])
        velocities = jnp.stack([start_velocity, end_velocity])
        on_ends = forces_on_ends(self, ends, velocities, jnp.zeros((), ends.dtype))
        moves = jnp.any(velocities != 0)
        known = jnp.where(moves, 1.0, jnp.nan)
        force = known * jnp.sum(on_ends, axis=0)
        torques = ends[:, 0] * on_ends[:, 1] - ends[:, 1] * on_ends[:, 0]
        torque = known * jnp.sum(torques)
        return PlateForce(force, torque)


def forces_on_ends(
    sand: SandBed, ends: Float[Array, "2 2"], velocities: Float[Array, "2 2"], creep: Scalar
) -> Float[Array, "2 2"]:
    """The two forces on the ends of a plate that have the power, the force and the torque of the stress along it.

    A force f at the part s of the way from the first end to the other one is divided into (1 − s) f and s f, since the
    velocity there is divided so. Where the plate moves slowest its stress turns quickly: there the integral is divided.
    """
    start = ends[0]
    side = ends[1] - start
    change = velocities[1] - velocities[0]
    low, high = _below_the_surface(start, side)
    slowest = jnp.clip(_slowest(velocities[0], change), low, high)
    reference = jnp.asarray((1 + GAUSS_NODES) / 2, side.dtype)
    share = jnp.linalg.norm(side) * jnp.asarray(GAUSS_WEIGHTS / 2, side.dtype)
    nodes = jnp.concatenate([low + (slowest - low) * reference, slowest + (high - slowest) * reference])
    weights = jnp.concatenate([(slowest - low) * share, (high - slowest) * share])

    def piece(s: Scalar, weight: Scalar) -> Float[Array, "2 2"]:
        place = start + s * side
        # A part of no length may be at rest, where there is no stress.
        velocity = jnp.where(weight > 0, velocities[0] + s * change, 1.0)
        depth = jnp.maximum(-place[1], 0.0)
        force = weight * depth * sand.creeping_stress(side, velocity, creep)
        return jnp.stack([(1 - s) * force, s * force])

    return jnp.sum(jax.vmap(piece)(nodes, weights), axis=0)


def _slowest(velocity: Float[Array, "2"], change: Float[Array, "2"]) -> Scalar:
    """The s at which the velocity v + s Δv is least."""
    square = jnp.dot(change, change)
    found = -jnp.dot(velocity, change) / jnp.where(square > 0, square, 1.0)
    # The integral does not depend on where it is divided.
    return jax.lax.stop_gradient(found)


def _pair(name: str, value: Row) -> Float[Array, "2"]:
    """(x, z) as an array; else ValueError."""
    pair = floats(name, value)
    if jnp.shape(pair) != (2,):
        raise ValueError(f"on_plate: {name} must be two numbers, (x, z), got shape {jnp.shape(pair)}.")
    return pair


def _below_the_surface(start: Float[Array, "2"], side: Float[Array, "2"]) -> tuple[Scalar, Scalar]:
    """The part of a plate that is below z = 0, from s = 0 at its start to s = 1 at its end."""
    is_level = side[1] == 0
    crossing = -start[1] / jnp.where(is_level, 1.0, side[1])
    all_or_none = jnp.where(start[1] < 0, 0.0, 1.0)
    cut = jnp.where(is_level, all_or_none, jnp.clip(crossing, 0.0, 1.0))
    # A plate that sinks is below from the cut on, one that rises up to it.
    sinks = side[1] < 0
    low = jnp.where(sinks | is_level, cut, 0.0)
    high = jnp.where(sinks | is_level, 1.0, cut)
    return low, high
