"""Elements on triangles, tetrahedra and angles: potentials of areas, volumes and angles, and constraints on them."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import static_count
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Each, Float, Indices, Scalar
from geodyn._geometry.manifold.manifold import AbstractManifold, safe_sqrt
from geodyn._geometry.models.spaces import AbstractConstantCurvature
from geodyn._mechanics.elements.abstract import (
    AbstractConstraint,
    AbstractPotential,
    Tuples,
    index_tuples,
    measure_each,
    one_each,
)
from geodyn._mechanics.elements.simplices import NODES, squared_bend
from geodyn._mechanics.elements.simplices import angle as angle_at
from geodyn._mechanics.elements.simplices import area as area_of
from geodyn._mechanics.elements.simplices import volume as volume_of


class Area(AbstractPotential):
    """Triangles that resist a change of their area, V = Σ ½ k (A − A₀)², with the area of `gd.cells.area`.

    Args:
        triangles: triples of different indices of points [E, 3].
        stiffness: k ≥ 0, one number or one per triangle [E].
        area: rest area A₀ ≥ 0, one number or one per triangle [E].
        nodes: nodes of `gd.cells.area`, for spaces that are not of constant curvature.

    Raises:
        ValueError: for triangles that are no triples of different points, for numbers that are negative, not finite, or
            not one per triangle, and for `nodes` that are no positive whole number.

    Example:
        One eighth of the unit sphere has the area π/2.

        >>> body = gd.System(gd.spaces.Sphere(2), [1.0, 1.0, 1.0], gd.Area([(0, 1, 2)], stiffness=2.0, area=0.0))
        >>> q = jnp.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> print(f"{gd.energy(body, q, jnp.zeros((3, 2))):.6f} {(np.pi / 2) ** 2:.6f}")
        2.467401 2.467401
    """

    points: Tuples = eqx.field(static=True)
    stiffness: Float[Array, " E"]
    area: Float[Array, " E"]
    nodes: int = eqx.field(static=True)

    @checked
    def __init__(self, triangles: Indices, stiffness: Each, area: Each, *, nodes: Count = NODES):
        self.points = index_tuples("triangles", triangles, 3)
        self.stiffness = one_each("stiffness", stiffness, self.points)
        self.area = one_each("area", area, self.points)
        self.nodes = static_count("nodes", nodes)

    def energy(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Scalar:
        area = measure_each(partial(area_of, nodes=self.nodes), space, x, self.points)
        excess = area - self.area.astype(x.dtype)
        return 0.5 * jnp.dot(self.stiffness.astype(x.dtype), excess**2)


class Volume(AbstractPotential):
    """Tetrahedra that resist a change of their volume, V = Σ ½ k (vol − vol₀)², with the volume of `gd.cells.volume`.

    Args:
        tetrahedra: quadruples of different indices of points [E, 4].
        stiffness: k ≥ 0, one number or one per tetrahedron [E].
        volume: rest volume vol₀ ≥ 0, one number or one per tetrahedron [E].
        nodes: nodes of `gd.cells.volume`, for spaces that are not of constant curvature.

    Raises:
        ValueError: for tetrahedra that are no quadruples of different points, for numbers that are negative, not
            finite, or not one per tetrahedron, and for `nodes` that are no positive whole number.

    Example:
        The tetrahedron of the origin and the three unit vectors has the volume 1/6.

        >>> body = gd.System(gd.spaces.Euclidean(3), [1.0] * 4, gd.Volume([(0, 1, 2, 3)], stiffness=72.0, volume=0.0))
        >>> q = jnp.concatenate([jnp.zeros((1, 3)), jnp.eye(3)])
        >>> print(f"{gd.energy(body, q, jnp.zeros((4, 3))):.6f}")
        1.000000
    """

    points: Tuples = eqx.field(static=True)
    stiffness: Float[Array, " E"]
    volume: Float[Array, " E"]
    nodes: int = eqx.field(static=True)

    @checked
    def __init__(self, tetrahedra: Indices, stiffness: Each, volume: Each, *, nodes: Count = NODES):
        self.points = index_tuples("tetrahedra", tetrahedra, 4)
        self.stiffness = one_each("stiffness", stiffness, self.points)
        self.volume = one_each("volume", volume, self.points)
        self.nodes = static_count("nodes", nodes)

    def energy(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Scalar:
        volume = measure_each(partial(volume_of, nodes=self.nodes), space, x, self.points)
        excess = volume - self.volume.astype(x.dtype)
        return 0.5 * jnp.dot(self.stiffness.astype(x.dtype), excess**2)


class Angle(AbstractPotential):
    """Bending springs: the angle θ at j of triples (i, j, k) resists change, V = Σ ½ k (θ − θ₀)².

    The energy is smooth where three points are in line and θ₀ = π.

    Args:
        triples: triples of different indices of points [E, 3]; the angle is that at the second one.
        stiffness: k ≥ 0, one number or one per triple [E].
        angle: rest angle θ₀ from 0 to π, in radians, one number or one per triple [E]; by default π, straight.

    Raises:
        ValueError: for triples that are not three different points, and for numbers that are negative, not finite, not
            one per triple, or angles above π.

    Example:
        A right angle where a straight one is at rest: ½ k (π/2)².

        >>> body = gd.System(gd.spaces.Euclidean(2), [1.0] * 3, gd.Angle([(0, 1, 2)], stiffness=2.0))
        >>> q = jnp.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
        >>> print(f"{gd.energy(body, q, jnp.zeros((3, 2))):.6f} {(np.pi / 2) ** 2:.6f}")
        2.467401 2.467401
    """

    points: Tuples = eqx.field(static=True)
    stiffness: Float[Array, " E"]
    angle: Float[Array, " E"]

    @checked
    def __init__(self, triples: Indices, stiffness: Each, angle: Each = np.pi):
        self.points = index_tuples("triples", triples, 3)
        self.stiffness = one_each("stiffness", stiffness, self.points)
        self.angle = one_each("angle", angle, self.points, most=np.pi)

    def energy(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Scalar:
        squares = measure_each(squared_bend, space, x, self.points)
        # (β − β₀)² with β = π − θ, written so that it is smooth at β = 0 if β₀ = 0.
        rest = np.pi - self.angle.astype(x.dtype)
        bends = jax.vmap(safe_sqrt)(jnp.maximum(squares, 0))
        return 0.5 * jnp.dot(self.stiffness.astype(x.dtype), squares - 2 * rest * bends + rest**2)


def _has_closed_form(name: str, space: AbstractManifold, instead: str) -> None:
    """Raises ValueError unless the space has constant curvature. In other spaces a step with the constraint `name`
    would need second derivatives of an integral over geodesics, which are themselves found by iteration."""
    if not isinstance(space, AbstractConstantCurvature):
        raise ValueError(
            f"{name} needs a space of constant curvature (gd.spaces.Euclidean, Sphere, Hyperbolic), got "
            f"{type(space).__name__}. There take {instead}, stiff enough to hold it"
        )


class RigidArea(AbstractConstraint):
    """Triangles of constant area, as constraints: a body that cannot be compressed.

    Only in spaces of constant curvature, where areas have a closed form; in others take a stiff `gd.Area`.

    Args:
        triangles: triples of different indices of points [E, 3].
        area: the area > 0, that of `gd.cells.area`, one number or one per triangle [E].

    Raises:
        ValueError: for triangles that are no triples of different points, for areas that are not positive, not finite,
            or not one per triangle, and in spaces that are not of constant curvature.

    Example:
        Three points are brought to the area 1/2, and their velocities, which would stretch it, to those that keep it.

        >>> plane, q0 = gd.spaces.Euclidean(2), jnp.array([[0.0, 0.0], [1.1, 0.0], [0.0, 1.0]])
        >>> drop = gd.System(plane, [1.0] * 3, gd.cells.RigidArea([(0, 1, 2)], area=0.5))
        >>> q, v = gd.project(drop, q0, q0)
        >>> rate = jax.jvp(lambda q: gd.cells.area(plane, *q), (q,), (v,))[1]
        >>> print(f"{gd.cells.area(plane, *q):.6f} {abs(rate):.6f}")
        0.500000 0.000000
    """

    points: Tuples = eqx.field(static=True)
    area: Float[Array, " E"]
    size: int = eqx.field(static=True)

    @checked
    def __init__(self, triangles: Indices, area: Each):
        self.points = index_tuples("triangles", triangles, 3)
        self.area = one_each("area", area, self.points, positive=True)
        self.size = len(self.points)

    def residual(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " E"]:
        _has_closed_form("RigidArea", space, "gd.Area(triangles, stiffness, area)")
        return measure_each(area_of, space, x, self.points) - self.area.astype(x.dtype)


class RigidVolume(AbstractConstraint):
    """Tetrahedra of constant volume, as constraints: a body that cannot be compressed.

    Only in spaces of constant curvature; in others take a stiff `gd.Volume`.

    Args:
        tetrahedra: quadruples of different indices of points [E, 4].
        volume: the volume > 0, that of `gd.cells.volume`, one number or one per tetrahedron [E].

    Raises:
        ValueError: for tetrahedra that are no quadruples of different points, for volumes that are not positive, not
            finite, or not one per tetrahedron, and in spaces that are not of constant curvature.

    Example:
        >>> space, q0 = gd.spaces.Euclidean(3), jnp.concatenate([jnp.zeros((1, 3)), jnp.eye(3)])
        >>> drop = gd.System(space, [1.0] * 4, gd.cells.RigidVolume([(0, 1, 2, 3)], volume=0.2))
        >>> q, v = gd.project(drop, q0, jnp.zeros((4, 3)))
        >>> print(f"{gd.cells.volume(space, *q0):.6f} {gd.cells.volume(space, *q):.6f}")
        0.166667 0.200000
    """

    points: Tuples = eqx.field(static=True)
    volume: Float[Array, " E"]
    size: int = eqx.field(static=True)

    @checked
    def __init__(self, tetrahedra: Indices, volume: Each):
        self.points = index_tuples("tetrahedra", tetrahedra, 4)
        self.volume = one_each("volume", volume, self.points, positive=True)
        self.size = len(self.points)

    def residual(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " E"]:
        _has_closed_form("RigidVolume", space, "gd.Volume(tetrahedra, stiffness, volume)")
        return measure_each(volume_of, space, x, self.points) - self.volume.astype(x.dtype)


class RigidAngle(AbstractConstraint):
    """Constant angles at j of triples (i, j, k), as constraints; the multipliers are the moments that hold them.

    Args:
        triples: triples of different indices of points [E, 3]; the angle is that at the second one.
        angle: the angle, strictly between 0 and π (where it has no derivative), in radians, one number or one per
            triple.

    Raises:
        ValueError: for triples that are not three different points, and for angles outside of (0, π) or not one per
            triple.

    Example:
        Points nearby are brought to a right angle.

        >>> plane, held = gd.spaces.Euclidean(2), gd.cells.RigidAngle([(0, 1, 2)], np.pi / 2)
        >>> q0 = jnp.array([[1.0, 0.1], [0.0, 0.0], [0.0, 1.0]])
        >>> q, v = gd.project(gd.System(plane, [1.0] * 3, held), q0, jnp.zeros((3, 2)))
        >>> print(f"{gd.cells.angle(plane, *q0) / np.pi:.6f} {gd.cells.angle(plane, *q) / np.pi:.6f}")
        0.468274 0.500000
    """

    points: Tuples = eqx.field(static=True)
    angle: Float[Array, " E"]
    size: int = eqx.field(static=True)

    @checked
    def __init__(self, triples: Indices, angle: Each):
        self.points = index_tuples("triples", triples, 3)
        self.angle = one_each("angle", angle, self.points, positive=True, most=np.pi)
        self.size = len(self.points)

    def residual(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " E"]:
        return measure_each(angle_at, space, x, self.points) - self.angle.astype(x.dtype)
