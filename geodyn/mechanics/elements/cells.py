"""Elements on triangles, tetrahedra and pairs of edges: springs on areas, volumes, angles, and constraints on them."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._compile.jit import static_count
from geodyn._typing import Array, Float
from geodyn.geometry.manifold.manifold import AbstractManifold, safe_sqrt
from geodyn.geometry.models.spaces import AbstractConstantCurvature
from geodyn.mechanics.elements.abstract import (
    AbstractConstraint,
    AbstractPotential,
    Tuples,
    index_tuples,
    measured,
    one_each,
)
from geodyn.mechanics.elements.simplices import NODES, squared_bend
from geodyn.mechanics.elements.simplices import angle as angle_at
from geodyn.mechanics.elements.simplices import area as area_of
from geodyn.mechanics.elements.simplices import volume as volume_of


class Area(AbstractPotential):
    """Triangles (i, j, k) that resist a change of `area`, that of `gd.cells.area`, with its `nodes`: V = Σ ½ k (A −
    A₀)²; stiffness and area one number or [E].

    Raises ValueError for triangles that are no triples of distinct points, for numbers that are negative, not finite,
    or not one per triangle, and for `nodes` that are no positive whole number.
    """

    points: Tuples = eqx.field(static=True)
    stiffness: Float[Array, " E"]
    area: Float[Array, " E"]
    nodes: int = eqx.field(static=True)

    def __init__(self, triangles, stiffness, area, *, nodes=NODES):
        self.points = index_tuples("triangles", triangles, 3)
        self.stiffness = one_each("stiffness", stiffness, self.points)
        self.area, self.nodes = one_each("area", area, self.points), static_count("nodes", nodes)

    def energy(self, space, x):
        area = measured(partial(area_of, nodes=self.nodes), space, x, self.points)
        excess = area - self.area.astype(x.dtype)
        return 0.5 * jnp.dot(self.stiffness.astype(x.dtype), excess**2)


class Volume(AbstractPotential):
    """Tetrahedra (i, j, k, l) that resist a change of `volume`, that of `gd.cells.volume`, with its `nodes`: V = Σ ½ k
    (vol − vol₀)²; stiffness and volume one number or [E]. Raises ValueError as `Area` does."""

    points: Tuples = eqx.field(static=True)
    stiffness: Float[Array, " E"]
    volume: Float[Array, " E"]
    nodes: int = eqx.field(static=True)

    def __init__(self, tetrahedra, stiffness, volume, *, nodes=NODES):
        self.points = index_tuples("tetrahedra", tetrahedra, 4)
        self.stiffness = one_each("stiffness", stiffness, self.points)
        self.volume, self.nodes = one_each("volume", volume, self.points), static_count("nodes", nodes)

    def energy(self, space, x):
        volume = measured(partial(volume_of, nodes=self.nodes), space, x, self.points)
        excess = volume - self.volume.astype(x.dtype)
        return 0.5 * jnp.dot(self.stiffness.astype(x.dtype), excess**2)


class Angle(AbstractPotential):
    """Bending springs: the `angle` at j of triples (i, j, k) resists change, V = Σ ½ k (θ − θ₀)²; stiffness and angle,
    from 0 to π, by default π (straight), one number or [E]. Raises ValueError as `Area` does."""

    points: Tuples = eqx.field(static=True)
    stiffness: Float[Array, " E"]
    angle: Float[Array, " E"]

    def __init__(self, triples, stiffness, angle=np.pi):
        self.points = index_tuples("triples", triples, 3)
        self.stiffness = one_each("stiffness", stiffness, self.points)
        self.angle = one_each("angle", angle, self.points, most=np.pi)

    def energy(self, space, x):
        squares = measured(squared_bend, space, x, self.points)
        # The square of β − β₀ with β = π − θ, in a form that is smooth at β = 0 where β₀ = 0.
        rest = np.pi - self.angle.astype(x.dtype)
        bends = jax.vmap(safe_sqrt)(jnp.maximum(squares, 0))
        return 0.5 * jnp.dot(self.stiffness.astype(x.dtype), squares - 2 * rest * bends + rest**2)


def _has_closed_form(name: str, space: AbstractManifold, instead: str) -> None:
    """Raises ValueError for spaces in which steps with such a constraint would take the second derivatives of an
    integral over geodesics, which are themselves found by iteration."""
    if not isinstance(space, AbstractConstantCurvature):
        raise ValueError(
            f"{name} needs a space of constant curvature (gd.spaces.Euclidean, Sphere, Hyperbolic), got "
            f"{type(space).__name__}. There take {instead}, stiff enough to hold it"
        )


class RigidArea(AbstractConstraint):
    """Triangles of constant `area` > 0, that of `gd.cells.area`: a body that cannot be compressed; in spaces of
    constant curvature, where areas have a closed form. Raises ValueError as `Area` does, and in other spaces."""

    points: Tuples = eqx.field(static=True)
    area: Float[Array, " E"]
    size: int = eqx.field(static=True)

    def __init__(self, triangles, area):
        self.points = index_tuples("triangles", triangles, 3)
        self.area = one_each("area", area, self.points, positive=True)
        self.size = len(self.points)

    def residual(self, space, x):
        _has_closed_form("RigidArea", space, "gd.Area(triangles, stiffness, area)")
        return measured(area_of, space, x, self.points) - self.area.astype(x.dtype)


class RigidVolume(AbstractConstraint):
    """Tetrahedra of constant `volume` > 0, that of `gd.cells.volume`: a body that cannot be compressed; in spaces of
    constant curvature. Raises ValueError as `Area` does, and in other spaces."""

    points: Tuples = eqx.field(static=True)
    volume: Float[Array, " E"]
    size: int = eqx.field(static=True)

    def __init__(self, tetrahedra, volume):
        self.points = index_tuples("tetrahedra", tetrahedra, 4)
        self.volume = one_each("volume", volume, self.points, positive=True)
        self.size = len(self.points)

    def residual(self, space, x):
        _has_closed_form("RigidVolume", space, "gd.Volume(tetrahedra, stiffness, volume)")
        return measured(volume_of, space, x, self.points) - self.volume.astype(x.dtype)


class RigidAngle(AbstractConstraint):
    """Constant `angle` at j of triples (i, j, k), between 0 and π (there it has no derivative). λ is the moment.

    Raises ValueError as `Area` does, and for other angles.
    """

    points: Tuples = eqx.field(static=True)
    angle: Float[Array, " E"]
    size: int = eqx.field(static=True)

    def __init__(self, triples, angle):
        self.points = index_tuples("triples", triples, 3)
        self.angle = one_each("angle", angle, self.points, positive=True, most=np.pi)
        self.size = len(self.points)

    def residual(self, space, x):
        return measured(angle_at, space, x, self.points) - self.angle.astype(x.dtype)
