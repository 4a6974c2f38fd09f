"""Convex polyhedra and their contacts in flat space: vertices on faces and edges on edges, by separating planes (Baraff
& Witkin, Physically Based Modeling, SIGGRAPH 1997)."""

import itertools
from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial import ConvexHull, QhullError

from geodyn._foundations.checks import numbers
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Each, Float, Indices, Number, Numbers, Scalar
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._mechanics.elements.abstract import index_tuples, number
from geodyn._mechanics.elements.contact import AbstractFrictionalContact, coefficient
from geodyn._mechanics.elements.friction import tangential
from geodyn._mechanics.elements.poses import AbstractOnBodies, Poses
from geodyn._mechanics.rigid.inertia import rows

MARGIN = 1e-6  # Relative: what counts as the end of an edge, as parallel edges, and as a place on a face.
NEARLY = 1e-3  # Relative to the size of both bodies: by how much faces that lie on each other may tilt.
Vector = Float[Array, " 3"]


class Polyhedron(eqx.Module):
    """A convex polyhedron of uniform density: the convex hull of points, with its centre of mass moved to the origin.

    Its fields are `vertices` [V, 3]; faces with outward `normals` [F, 3], where `normal·x = offset` on each, and
    `offsets` [F]; `edges`, pairs of vertices; and `volume`. `inertia(mass)` [3, 3] about the centre of mass is for
    `gd.rigid.RigidBodies`.

    Args:
        points: [N, 3], of which those inside the hull are left out.

    Raises:
        ValueError: for points that span no volume.

    Example:
        A regular tetrahedron in a cube with the side 2.

        >>> solid = gd.rigid.Polyhedron([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
        >>> print(f"volume {solid.volume:.6f}", solid.normals.shape, len(solid.edges))
        volume 2.666667 (4, 3) 6
        >>> print(solid.inertia(1.0).diagonal().round(6))  # m a²/20, a² = 8
        [0.4 0.4 0.4]
    """

    vertices: Float[Array, "V 3"]
    normals: Float[Array, "F 3"]
    offsets: Float[Array, " F"]
    volume: Float[Array, ""]
    second_moment: Float[Array, "3 3"]
    edges: tuple[tuple[int, int], ...] = eqx.field(static=True)

    @checked
    def __init__(self, points: Numbers):
        points = np.asarray(numbers("points", points), float)
        if points.ndim != 2 or points.shape[1] != 3:
            raise ValueError(f"points of a Polyhedron must have shape [V, 3], got {points.shape}")
        try:
            hull = ConvexHull(points)
        except QhullError as error:
            raise ValueError(f"points of a Polyhedron must span a volume, these do not: {points.tolist()}") from error
        centre = _centre_of_mass(points, hull)
        vertices = points[hull.vertices] - centre
        # The hull has triangles: those of one face have the same normal.
        normals = np.unique(np.round(hull.equations[:, :3], 9), axis=0)
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        heights = vertices @ normals.T
        self.vertices = jnp.asarray(vertices)
        self.normals = jnp.asarray(normals)
        self.offsets = jnp.asarray(heights.max(axis=0))
        self.volume = jnp.asarray(hull.volume)
        self.second_moment = jnp.asarray(_second_moment(points[hull.simplices] - centre, hull.volume))
        self.edges = _edges(vertices, heights)

    @checked
    def inertia(self, mass: Number) -> Float[Array, "3 3"]:
        """The inertia about the centre of mass, for `gd.rigid.RigidBodies`."""
        return mass * (jnp.trace(self.second_moment) * jnp.eye(3) - self.second_moment)


def _centre_of_mass(points: Float[np.ndarray, "V 3"], hull: ConvexHull) -> Float[np.ndarray, "3"]:
    """The centre of mass of the tetrahedra over the triangles of a hull, with their tips in the middle."""
    middle = points.mean(axis=0)
    corners = points[hull.simplices] - middle
    volumes = np.abs(np.linalg.det(corners)) / 6
    # A tetrahedron with a corner at 0 has its centre at a quarter of the sum of the others.
    return middle + volumes @ corners.sum(axis=1) / 4 / hull.volume


def _second_moment(corners: Float[np.ndarray, "T 3 3"], volume: float) -> Float[np.ndarray, "3 3"]:
    """∫ x xᵀ/V about the centre of mass, from the corners of the triangles of the hull."""
    # The centre is inside of the hull, so that the tetrahedra over its triangles fill it, each once.
    volumes = np.abs(np.linalg.det(corners)) / 6
    # A tetrahedron with corners 0 and c has ∫ x xᵀ = V/20 (Σ c cᵀ + (Σ c)(Σ c)ᵀ).
    sums = corners.sum(axis=1)
    squares = np.einsum("fci,fcj->fij", corners, corners)
    moments = squares + sums[:, :, None] * sums[:, None, :]
    return np.einsum("f,fij->ij", volumes, moments) / 20 / volume


def _edges(vertices: Float[np.ndarray, "V 3"], heights: Float[np.ndarray, "V F"]) -> tuple[tuple[int, int], ...]:
    """The pairs of vertices that are on two faces together, from their heights along the normals of the faces."""
    rounding = 1e-9 * np.abs(vertices).max()
    is_on = (heights > heights.max(axis=0) - rounding).astype(int)
    in_common = is_on @ is_on.T
    edges = np.argwhere(np.triu(in_common, 1) >= 2)
    return tuple((first, second) for first, second in edges.tolist())


@checked
def box(sides: Numbers) -> Polyhedron:
    """The box with three given sides, along the axes, with its centre at the origin.

    Args:
        sides: [3], positive.

    Returns:
        Polyhedron with 8 vertices, 6 faces and 12 edges.

    Raises:
        ValueError: unless there are three positive sides.

    Example:
        >>> box = gd.rigid.box([1.0, 2.0, 3.0])
        >>> print(f"volume {box.volume:.6f}", box.inertia(12.0).diagonal().round(6))  # m (b² + c²)/12, …
        volume 6.000000 [13. 10.  5.]
    """
    sides = np.asarray(rows("sides", number("sides", sides, positive=True), (3,)))
    signs = list(itertools.product([-1.0, 1.0], repeat=3))
    return Polyhedron(sides / 2 * np.array(signs))


class Touching(eqx.Module):
    """Possible contacts of two bodies, one or several: gaps, unit normals from one body to the other, and places."""

    gap: Float[Array, "*c"]
    normal: Float[Array, "*c 3"]
    place: Float[Array, "*c 3"]


class Placed(eqx.Module):
    """A polyhedron in its pose in the world."""

    shape: Polyhedron
    position: Vector
    rotation: Float[Array, "3 3"]

    @property
    def vertices(self) -> Float[Array, "V 3"]:
        """The vertices [V, 3] in world coordinates."""
        return self.position[None, :] + self.shape.vertices @ self.rotation.T

    @property
    def size(self) -> Scalar:
        """The largest distance of a vertex from the centre."""
        return jnp.sqrt(jnp.max(jnp.sum(self.shape.vertices**2, axis=1)))

    def heights(self, x: Float[Array, "W 3"]) -> tuple[Float[Array, "W F"], Float[Array, "F 3"]]:
        """(the heights [V, F] of points x[V, 3] above the planes of the faces, the outward normals [F, 3])."""
        normals = self.shape.normals @ self.rotation.T
        from_centre = x - self.position[None, :]
        return from_centre @ normals.T - self.shape.offsets[None, :], normals

    @property
    def ends(self) -> tuple[Float[Array, "E 3"], Float[Array, "E 3"]]:
        """Starts and directions [E, 3] of the edges in world coordinates."""
        first, second = np.array(self.shape.edges).T
        vertices = self.vertices
        start = vertices[first]
        return start, vertices[second] - start


def vertices_on_face(a: Placed, b: Placed) -> Touching:
    """The contacts of the vertices of a with the face of b that separates the two bodies best. A vertex beside this
    face gets a gap that is out of reach."""
    x = a.vertices
    heights, normals = b.heights(x)
    face = jnp.argmax(jnp.min(heights, axis=0))
    here = jnp.arange(normals.shape[0]) == face
    beside = jnp.max(jnp.where(here[None, :], -jnp.inf, heights), axis=1) > MARGIN * b.size
    normal = here.astype(x.dtype) @ normals
    gap = jnp.where(beside, a.size + b.size, heights @ here.astype(x.dtype))
    return Touching(gap, jnp.broadcast_to(normal[None, :], x.shape), x)


def edges_on_edges(a: Placed, b: Placed) -> Touching:
    """The contacts of all pairs of edges, one of a and one of b. The gap of a pair is set out of reach unless the edges
    cross, and the plane of their directions separates a and b, and does so as well as any face, all within a tolerance.
    The tolerance is for faces that lie on each other: if they tilt a little, it is the crossing edges that touch next.
    """
    of_a = len(a.shape.edges)
    of_b = len(b.shape.edges)
    each_of_a = np.repeat(np.arange(of_a), of_b)
    each_of_b = np.tile(np.arange(of_b), of_a)
    start, along = a.ends
    other, across = b.ends
    apart = jnp.maximum(face_separation(a, b), face_separation(b, a))

    def touch(start: Vector, along: Vector, other: Vector, across: Vector) -> Touching:
        return _edge_on_edge(a, b, apart, start, along, other, across)

    return jax.vmap(touch)(start[each_of_a], along[each_of_a], other[each_of_b], across[each_of_b])


def face_separation(a: Placed, b: Placed) -> Scalar:
    """The height of the lowest vertex of a above a face of b, for the face where it is largest."""
    heights, _ = b.heights(a.vertices)
    return jnp.max(jnp.min(heights, axis=0))


def _edge_on_edge(
    a: Placed,
    b: Placed,
    apart: Scalar,
    start: Vector,
    along: Vector,
    other: Vector,
    across: Vector,
) -> Touching:
    """The contact of an edge of a, from `start` in the direction `along`, with one of b, from `other` in the direction
    `across`; `apart` is how far the faces separate the bodies."""
    size = a.size + b.size
    normal = jnp.cross(along, across)
    between = other - start
    square = normal @ normal
    crossing = square > MARGIN**2 * (along @ along) * (across @ across)
    square = jnp.where(crossing, square, 1)
    unit = jnp.where(crossing, normal / jnp.sqrt(square), jnp.asarray([1.0, 0.0, 0.0], square.dtype))
    # The parameters, from 0 to 1, of the places at which the lines of the edges are nearest to each other.
    s = jnp.cross(between, across) @ normal / square
    t = jnp.cross(between, along) @ normal / square
    inside = (jnp.abs(s - 0.5) < 0.5 - MARGIN) & (jnp.abs(t - 0.5) < 0.5 - MARGIN)
    # The heights of all vertices above their own edge. The normal points away from a.
    mine = (a.vertices - start[None, :]) @ unit
    theirs = (b.vertices - other[None, :]) @ unit
    sign = jnp.where(jnp.max(mine) < -jnp.min(mine), 1, -1)
    separates = (jnp.max(sign * mine) < NEARLY * size) & (jnp.min(sign * theirs) > -NEARLY * size)
    gap = sign * (unit @ between)
    as_well_as_faces = gap > apart - NEARLY * size
    gap = jnp.where(crossing & inside & separates & as_well_as_faces, gap, size)
    place = (start + s * along + other + t * across) / 2
    return Touching(gap, sign * unit, place)


class Polyhedra(AbstractFrictionalContact, AbstractOnBodies):
    """Convex polyhedra that touch each other, one for each of the `gd.rigid.RigidBodies`.

    The contacts of each pair are the vertices of the first on a face of the second, those of the second on a face of
    the first, and edges on edges. They are for `method=gd.methods.Moreau()`, since gaps jump where features lose each
    other. A floor is a `gd.Wall`, which the vertices touch that are given as `points` of the bodies:
    `points=[(0, x) for x in cube.vertices]`.

    Args:
        shapes: list with a `gd.rigid.Polyhedron` for each body.
        restitution: rate of separation over rate of approach, from 0 to 1.
        friction: Coulomb's coefficient.
        pairs: pairs of bodies [P, 2] that may touch; None: all pairs.

    Raises:
        ValueError: for what is no polyhedron, a restitution outside [0, 1], friction below 0, and pairs of bodies that
            do not exist.

    Example:
        A cube runs into another at the speed 1, with the restitution e = 0.5: (1 ∓ e)/2 are the speeds after it.

        >>> cube = gd.rigid.box([1.0, 1.0, 1.0])
        >>> touching = gd.rigid.Polyhedra([cube, cube], restitution=0.5)
        >>> cubes = gd.rigid.RigidBodies([cube.inertia(1.0)] * 2, [1.0, 1.0], touching)
        >>> q0, v0 = cubes.state(position=[[0.0, 0, 0], [2.0, 0, 0]], velocity=[[1.0, 0, 0], [0.0, 0, 0]])
        >>> motion = gd.integrate(cubes, q0, v0, t1=2.0, steps=20, method=gd.methods.Moreau())
        >>> print(gd.rigid.rigid_motion(motion).velocity[-1, :, 0].round(6))
        [0.25 0.75]

    Source:
        Baraff & Witkin, *Physically Based Modeling*, SIGGRAPH 1997.
    """

    jumping: ClassVar[bool] = True
    shapes: tuple[Polyhedron, ...]
    restitution: Float[Array, "..."]
    friction: Float[Array, "..."] | None
    pairs: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    @checked
    def __init__(
        self,
        shapes: Sequence[Polyhedron],
        restitution: Each = 0.0,
        friction: Each = 0.0,
        pairs: Indices | None = None,
    ):
        self.shapes = tuple(shapes)
        self.restitution = number("restitution", restitution, most=1.0)
        self.friction = coefficient(friction)
        every = np.stack(np.triu_indices(len(self.shapes), 1), axis=1)
        self.pairs = index_tuples("pairs", every if pairs is None else pairs, 2)
        if not self.pairs or np.max(self.pairs) >= len(self.shapes):
            raise ValueError(f"pairs of Polyhedra must be of the {len(self.shapes)} shapes, got {self.pairs}")

    @checked
    def touching(self, bodies: Poses) -> list[tuple[int, int, Touching]]:
        """All possible contacts as (body that the normals point away from, body that they point to, contacts)."""
        if len(bodies.position) != len(self.shapes):
            raise ValueError(f"shapes must be one for each body ({len(bodies.position)}), got {len(self.shapes)}")
        poses = zip(self.shapes, bodies.position, bodies.rotation, strict=True)
        placed = [Placed(*pose) for pose in poses]
        found = []
        for i, j in self.pairs:
            a = placed[i]
            b = placed[j]
            found.append((j, i, vertices_on_face(a, b)))
            found.append((i, j, vertices_on_face(b, a)))
            found.append((i, j, edges_on_edges(a, b)))
        return found

    def gap(self, space: AbstractManifold, bodies: Poses) -> Float[Array, " c"]:
        return jnp.concatenate([touch.gap for *_, touch in self.touching(bodies)])

    def slip(self, space: AbstractManifold, bodies: Poses, rates: Poses) -> Float[Array, "c s"]:
        def at(body: int, x: Vector) -> Vector:
            """The velocity of a body at a place x of the world."""
            from_origin = x - bodies.position[body]
            return rates.position[body] + rates.rotation[body] @ bodies.rotation[body].T @ from_origin

        def one(i: int, j: int, touch: Touching) -> Float[Array, "c s"]:
            relative = jax.vmap(lambda x: at(j, x) - at(i, x))(touch.place)
            return jax.vmap(lambda x, n, u: tangential(space, x, n, u))(touch.place, touch.normal, relative)

        return jnp.concatenate([one(*touch) for touch in self.touching(bodies)])
