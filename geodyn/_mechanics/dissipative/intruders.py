"""MATTER: plates of a body in motion that sand resists, by resistive-force theory."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import custom_jvp
from geodyn._foundations.checks import floats
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Each, Float, Index, Indices, Number, Row, Scalar
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._geometry.models.charts import Cartesian
from geodyn._geometry.models.spaces import Euclidean
from geodyn._mechanics.dissipative.sand import SandBed, forces_on_ends
from geodyn._mechanics.elements.abstract import AbstractDissipation, Tuples, index_tuples, number, one_each
from geodyn._mechanics.elements.poses import AbstractOnBodies, Poses


class Law(eqx.Module):
    """What the forces on E plates depend on besides their motion: the sand, the speed below which the resistance falls
    to zero (`creep`), and the widths of the plates."""

    sand: SandBed
    creep: Float[Array, ""]
    width: Float[Array, " E"]


@custom_jvp
def sand_power(law: Law, ends: Float[Array, "E 2 2"], velocities: Float[Array, "E 2 2"]) -> Scalar:
    """Minus the power of the sand on plates with the `ends` [plate, end, (x, z)], in place of a Rayleigh function.

    The equations of motion use nothing but the derivative of a Rayleigh function with respect to the velocities, which
    is minus the force. The stress of sand is no gradient, so that no function has this derivative. Hence it is defined
    below, by hand: there only the change of the velocities counts.
    """
    return -jnp.sum(_forces(law, ends, velocities) * velocities)


@sand_power.def_jvp
def _(primals: tuple, tangents: tuple) -> tuple[Scalar, Scalar]:
    law, ends, velocities = primals
    forces = _forces(law, ends, velocities)
    change = tangents[2]  # of the velocities; None where they do not change
    slope = jnp.zeros(()) if change is None else -jnp.sum(forces * change)
    return -jnp.sum(forces * velocities), slope.astype(velocities.dtype)


def _forces(law: Law, ends: Float[Array, "E 2 2"], velocities: Float[Array, "E 2 2"]) -> Float[Array, "E 2 2"]:
    """The forces on the ends of the plates."""
    creep = law.creep.astype(velocities.dtype)
    per_width = jax.vmap(lambda ends, velocities: forces_on_ends(law.sand, ends, velocities, creep))(ends, velocities)
    return law.width.astype(velocities.dtype)[:, None, None] * per_width


class Plates(AbstractDissipation):
    """Straight plates between points of a `gd.System` that sand resists, in the plane of x and of the height z.

    The sand fills z < 0. The stress on a piece of a plate is proportional to its depth, depends on the direction of its
    velocity and not on the speed (`gd.granular.SandBed`), and is against the motion. Such a resistance jumps where a
    piece comes to rest, and could hold it there. Here it falls smoothly to zero with the speed below `creep`, so that
    what sand would hold creeps instead, at a part of this speed. Results are those of the law only where pieces in the
    sand move much faster than `creep`; a body that creeps is no body at rest. The last part of a motion, slower than
    `creep`, takes some time creep/a, where a is its deceleration. Steps that are longer than some four times this time
    fail (they do not converge), with any method; `gd.methods.Adaptive()` finds steps by itself.

    Both faces of a plate are resisted. Of the surface of a closed body take only the parts that move ahead. Inertia of
    the sand, which counts for fast impacts, is neglected.

    Args:
        edges: pairs of different indices of points [E, 2], the ends of the plates; usually there is a `gd.Rod` between
            them. The velocity is linear between them.
        creep: the speed below which the resistance falls to zero, positive.
        sand: coefficients and scale of the sand.
        width: of the plates at right angles to the plane, one number or one per edge [E].

    Raises:
        ValueError: for edges that are no pairs of different points, numbers that are not positive, sand whose force
            would be with the motion, and (in use) for a space other than `Euclidean(2)` with Cartesian coordinates.

    Example:
        A level plate of length 1, which weighs 1, is let go at the surface. The stress is its depth z, so that it sinks
        with z'' = 1 − z, comes to rest at the depth 2, and creeps.

        >>> rod, plate = gd.Rod([(0, 1)], 1.0), gd.granular.Plates([(0, 1)], creep=2e-3)
        >>> body = gd.System(gd.spaces.Euclidean(2), [0.5, 0.5], rod, gd.Gravity(1.0), plate)
        >>> fall = gd.integrate(body, [[0.0, 0.0], [1.0, 0.0]], t1=4.0, steps=800)
        >>> print(f"{fall.q[200, 0, 1]:.4f} {np.cos(1.0) - 1:.4f}, at last {fall.q[-1, 0, 1]:.3f}")
        -0.4597 -0.4597, at last -2.001

    Source:
        Li, Zhang & Goldman, *Science* 339 (2013) 1408.
    """

    points: Tuples = eqx.field(static=True)
    law: Law

    @checked
    def __init__(self, edges: Indices, creep: Number, sand: SandBed | None = None, width: Each = 1.0):
        self.points = index_tuples("edges", edges, 2)
        self.law = Law(_sand(sand), _creep(creep), one_each("width", width, self.points, positive=True))

    def rayleigh(self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"]) -> Scalar:
        _check_plane(space)
        edges = np.array(self.points)
        return sand_power(self.law, x[edges], v[edges])


class PointPlate(AbstractDissipation):
    """A plate that moves with one point of a `gd.System` without turning, and is resisted by sand.

    For a foot or an intruder that is guided; see `gd.granular.Plates`, also for what happens at rest.

    Args:
        index: index of the point, which is the middle of the plate.
        side: (x, z) from one end of the plate to the other.
        creep: the speed below which the resistance falls to zero, positive.
        sand: coefficients and scale of the sand.
        width: of the plate at right angles to the plane.

    Raises:
        ValueError: for what is no index, a side that is not two numbers or has no length, numbers that are not
            positive, sand whose force would be with the motion, and (in use) for a space other than `Euclidean(2)` with
            Cartesian coordinates.

    Example:
        A level plate that is thrown sideways into the sand.

        >>> plate = gd.granular.PointPlate(0, [1.0, 0.0], creep=1e-3)
        >>> body = gd.System(gd.spaces.Euclidean(2), [1.0], gd.Gravity(1.0), plate)
        >>> throw = gd.integrate(body, [[0.0, 0.5]], [[1.0, 0.0]], t1=4.0, steps=400)
        >>> print(throw.q[-1, 0].round(3), bool(jnp.all(jnp.diff(throw.energy) < 1e-12)))
        [ 3.498 -2.816] True
    """

    points: Tuples = eqx.field(static=True)
    side: Float[Array, "2"]
    law: Law

    @checked
    def __init__(self, index: Index, side: Row, creep: Number, sand: SandBed | None = None, width: Number = 1.0):
        self.points = index_tuples("index", [(index,)], 1)
        self.side = _side("side", side)
        self.law = Law(_sand(sand), _creep(creep), one_each("width", width, self.points, positive=True))

    def rayleigh(self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"]) -> Scalar:
        _check_plane(space)
        index = self.points[0][0]
        half = self.side.astype(x.dtype) / 2
        ends = jnp.stack([x[index] - half, x[index] + half])
        velocities = jnp.stack([v[index], v[index]])
        return sand_power(self.law, ends[None], velocities[None])


class BodyPlate(AbstractDissipation, AbstractOnBodies):
    """A plate of a rigid body of `gd.rigid.RigidBodies`, which is resisted by sand.

    The sand fills z < 0, the third coordinate, and the plate moves in a plane y = const. For other motions no
    resistance is known: where the plate leaves its plane by more than rounding the run fails. See `gd.granular.Plates`,
    also for what happens at rest.

    Args:
        body: number of the body.
        start: one end of the plate [3], in the coordinates of the body.
        end: the other end.
        creep: the speed below which the resistance falls to zero, positive.
        sand: coefficients and scale of the sand.
        width: of the plate, along y.

    Raises:
        ValueError: for what is no number of a body, ends that are not three different numbers, numbers that are not
            positive, and sand whose force would be with the motion.

    Example:
        A body with a level plate on its left side only turns as it sinks.

        >>> plate = gd.granular.BodyPlate(0, [-0.5, 0.0, 0.0], [0.0, 0.0, 0.0], creep=1e-3)
        >>> body = gd.rigid.RigidBodies([0.1, 0.1, 0.1], 1.0, plate, gd.Gravity(1.0))
        >>> fall = gd.integrate(body, *body.state(), t1=0.5, steps=50)
        >>> spin = gd.rigid.rigid_motion(fall).angular_velocity[-1, 0]
        >>> print(spin.round(4) + 0.0)
        [0.     0.0257 0.    ]
    """

    bodies: tuple[int] = eqx.field(static=True)
    ends: Float[Array, "2 3"]
    law: Law

    @checked
    def __init__(
        self, body: Index, start: Row, end: Row, creep: Number, sand: SandBed | None = None, width: Number = 1.0
    ):
        self.bodies = (int(body),)
        self.ends = jnp.stack([_corner("start", start), _corner("end", end)])
        if not isinstance(self.ends, Tracer) and np.array_equal(self.ends[0], self.ends[1]):
            raise ValueError(f"start and end must differ, got {self.ends[0]} twice")
        self.law = Law(_sand(sand), _creep(creep), one_each("width", width, ((0,),), positive=True))

    def rayleigh(self, space: AbstractManifold, bodies: Poses, rates: Poses) -> Scalar:
        (b,) = self.bodies
        ends = self.ends.astype(bodies.position.dtype)
        arms = ends @ bodies.rotation[b].T
        places = bodies.position[b][None] + arms
        # `rates.rotation` is the time derivative of the rotation matrix.
        velocities = rates.position[b][None] + ends @ rates.rotation[b].T
        x_and_z = np.array([0, 2])
        one_plate, its_velocities = places[None], velocities[None]
        power = sand_power(self.law, one_plate[:, :, x_and_z], its_velocities[:, :, x_and_z])
        return power * jnp.where(self._is_in_plane(places, velocities), 1.0, jnp.nan)

    def _is_in_plane(self, places: Float[Array, "2 3"], velocities: Float[Array, "2 3"]) -> Bool[Array, ""]:
        """Whether the plate and its velocities have no part along y, up to rounding."""
        tolerance = jnp.sqrt(jnp.finfo(places.dtype).eps)
        side = places[1] - places[0]
        speed = jnp.max(jnp.abs(velocities)) + self.law.creep.astype(places.dtype)
        lies_in_plane = jnp.abs(side[1]) <= tolerance * jnp.max(jnp.abs(side))
        return lies_in_plane & jnp.all(jnp.abs(velocities[:, 1]) <= tolerance * speed)


def _sand(sand: SandBed | None) -> SandBed:
    """The sand, by default the generic one; ValueError if its force would be with some motion."""
    sand = SandBed() if sand is None else sand
    if isinstance(sand.coefficients, Tracer):
        return sand
    # All pairs of a tilt from −π/2 to π/2 and a direction of motion from −π to π, every five degrees.
    directions = np.linspace(-np.pi, np.pi, 73)
    tilts = directions[::2] / 2
    tilt, intrusion = (grid.ravel() for grid in np.meshgrid(tilts, directions))
    of_scale_one = SandBed(sand.coefficients)
    stress = np.asarray(jax.vmap(of_scale_one.stress)(jnp.asarray(tilt), jnp.asarray(intrusion)))
    # The velocity is (cos γ, −sin γ), since the intrusion γ is measured downwards.
    power = stress[:, 0] * np.cos(intrusion) - stress[:, 1] * np.sin(intrusion)
    worst = int(np.argmax(power))
    if not power[worst] < 0:
        raise ValueError(
            f"coefficients of sand must give a stress against every motion; its power is {power[worst]:.3g} for a "
            f"plate with the tilt {tilt[worst]:.3g} that moves {intrusion[worst]:.3g} below the horizontal"
        )
    return sand


def _creep(creep: Number) -> Float[Array, ""]:
    """The speed as an array; ValueError unless it is positive."""
    try:
        return number("creep", creep, positive=True)
    except ValueError as failure:
        raise ValueError(
            f"{failure}: without it the force of sand jumps where the motion stops; take some 1e-3 of the speeds"
        ) from None


def _check_plane(space: AbstractManifold) -> None:
    """Raises ValueError for any other space than the plane with Cartesian coordinates."""
    if isinstance(space, Euclidean) and space.dim == 2 and isinstance(space.chart, Cartesian):
        return
    raise ValueError(f"plates in sand need gd.spaces.Euclidean(2), with the coordinates x and z; got {space!r}")


def _side(name: str, value: Row) -> Float[Array, "2"]:
    """(x, z), of some length; else ValueError."""
    side = floats(name, value)
    if side.shape != (2,):
        raise ValueError(f"{name} must be two numbers, (x, z), got shape {side.shape}")
    if not isinstance(side, Tracer) and not np.any(np.asarray(side)):
        raise ValueError(f"{name} must have a length, got {side}")
    return side


def _corner(name: str, value: Row) -> Float[Array, "3"]:
    """A place [3]; else ValueError."""
    corner = floats(name, value)
    if corner.shape != (3,):
        raise ValueError(f"{name} must be a place [3] in the coordinates of the body, got shape {corner.shape}")
    return corner
