"""Builders of bodies (system, q0) in any space: rods, triangles, chains, rings, lattices, …

They share their keyword arguments. `masses` is one number or [N]. `stiffness`, one number or [E], makes springs; None
makes rigid rods. `length`, one number or [E], is by default the distances as built, so that springs are at rest.
`centre[dim]` is by default the origin of the space. A shape is given in the tangent space at the centre, in an
orthonormal frame whose first vector points along the first coordinate, and mapped into the space by the exponential
map. All raise ValueError for numbers that `Spring`, `Rod` and `System` refuse, and if the dimension of the space is too
small.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import jit, static_count
from geodyn._engine.native import native_of
from geodyn._foundations.checks import floats
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Each, Float, Int, Number, Numbers
from geodyn._geometry.geodesics.distances import distance
from geodyn._geometry.geodesics.geodesic import exp
from geodyn._geometry.manifold.manifold import AbstractManifold, checked_points
from geodyn._geometry.models.spaces import AbstractConstantCurvature
from geodyn._mechanics.elements.abstract import measure_each, number
from geodyn._mechanics.elements.springs import Rod, Spring
from geodyn._mechanics.points.projection import project
from geodyn._mechanics.points.system import System

GOLDEN = (1 + 5**0.5) / 2


@checked
def rod(
    space: AbstractManifold,
    length: Number = 2.0,
    *,
    masses: Each = 1.0,
    stiffness: Number | None = 1.0,
    centre: Float[Array, " dim"] | None = None,
) -> tuple[System, Float[Array, "2 dim"]]:
    """A body of two points joined by a spring at rest, or by a rigid rod.

    The points lie on both sides of the centre, in its second direction (in one dimension in the only one).

    Args:
        space: the space.
        length: distance of the points > 0.
        masses: one number or [2].
        stiffness: of the spring; None makes a rigid rod.
        centre: coordinates of the centre [dim], by default the origin of the space.

    Returns:
        (system, q0), the body and its configuration [2, dim].

    Raises:
        ValueError: for numbers that `gd.System`, `gd.Spring` and `gd.Rod` refuse.

    Example:
        >>> system, q0 = gd.builders.rod(gd.spaces.Hyperbolic(3), length=2.0, stiffness=None)
        >>> print(q0.shape, type(system.elements[0]).__name__, f"{gd.distance(system.space, *q0):.6f}")
        (2, 3) Rod 2.000000
    """
    across = np.eye(2)[1:] if space.dim > 1 else np.eye(1)
    length = number("length", length, positive=True)
    return simplex(space, 0.5 * length * np.concatenate([across, -across]), length, masses, stiffness, centre)


@checked
def triangle(
    space: AbstractManifold,
    side: Number = 1.0,
    *,
    masses: Each = 1.0,
    stiffness: Each | None = 1.0,
    centre: Float[Array, " dim"] | None = None,
) -> tuple[System, Float[Array, "3 dim"]]:
    """A body of three points with all distances equal, joined by springs at rest or by rigid rods.

    The first point lies ahead in the first direction at the centre, the others on both sides in the second.

    Args:
        space: the space, of dimension 2 or more.
        side: distance of the points > 0.
        masses: one number or [3].
        stiffness: of the springs, one number or [3]; None makes rigid rods.
        centre: coordinates of the centre [dim], by default the origin of the space.

    Returns:
        (system, q0), the body and its configuration [3, dim].

    Raises:
        ValueError: where the space has no such triangle, and for numbers that `gd.System`, `gd.Spring` and `gd.Rod`
            refuse.

    Example:
        >>> system, q0 = gd.builders.triangle(gd.spaces.Sphere(2), side=0.5)
        >>> print([f"{gd.distance(system.space, q0[i], q0[j]):.6f}" for i, j in gd.builders.edges(system)])
        ['0.500000', '0.500000', '0.500000']
    """
    side = number("side", side, positive=True)
    corners = np.array([[1 / 3**0.5, 0], [-1 / 12**0.5, 0.5], [-1 / 12**0.5, -0.5]])
    return simplex(space, side * corners, side, masses, stiffness, centre)


@checked
def tetrahedron(
    space: AbstractManifold,
    side: Number = 1.0,
    *,
    masses: Each = 1.0,
    stiffness: Each | None = 1.0,
    centre: Float[Array, " dim"] | None = None,
) -> tuple[System, Float[Array, "4 dim"]]:
    """A body of four points with all distances equal, joined by springs at rest or by rigid rods.

    Args:
        space: the space, of dimension 3 or more.
        side: distance of the points > 0.
        masses: one number or [4].
        stiffness: of the springs, one number or [6]; None makes rigid rods.
        centre: coordinates of the centre [dim], by default the origin of the space.

    Returns:
        (system, q0), the body and its configuration [4, dim].

    Raises:
        ValueError: where the space has no such tetrahedron, and for numbers that `gd.System`, `gd.Spring` and `gd.Rod`
            refuse.

    Example:
        >>> system, q0 = gd.builders.tetrahedron(gd.spaces.Hyperbolic(3), side=0.5)
        >>> lengths = [gd.distance(system.space, q0[i], q0[j]) for i, j in gd.builders.edges(system)]
        >>> print(len(lengths), bool(np.allclose(lengths, 0.5)))
        6 True
    """
    side = number("side", side, positive=True)
    corners = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]) / 8**0.5
    return simplex(space, side * corners, side, masses, stiffness, centre)


@checked
def chain(
    space: AbstractManifold,
    count: Count,
    spacing: Number = 1.0,
    *,
    masses: Each = 1.0,
    stiffness: Each | None = 1.0,
    length: Each | None = None,
    centre: Float[Array, " dim"] | None = None,
) -> tuple[System, Float[Array, "N dim"]]:
    """A body of points in a row on a geodesic, each joined to the next by a spring or a rigid rod.

    The geodesic goes through the centre in its first direction.

    Args:
        space: the space.
        count: the number N of points.
        spacing: distance of neighbours, as built.
        masses: one number or [N].
        stiffness: of the springs, one number or [N − 1]; None makes rigid rods.
        length: rest length, one number or [N − 1]; by default the distances as built, so that the body starts at rest.
        centre: coordinates of the centre [dim], by default the origin of the space.

    Returns:
        (system, q0), the body and its configuration [N, dim].

    Raises:
        ValueError: for numbers that `gd.System`, `gd.Spring` and `gd.Rod` refuse.

    Example:
        >>> system, q0 = gd.builders.chain(gd.spaces.Sphere(2), count=4, spacing=0.2)
        >>> print(gd.builders.edges(system), f"{gd.distance(system.space, q0[0], q0[-1]):.6f}")
        [(0, 1), (1, 2), (2, 3)] 0.600000
    """
    shape = (static_count("count", count),)
    return lattice(space, shape, spacing, masses=masses, stiffness=stiffness, length=length, centre=centre)


@checked
def ring(
    space: AbstractManifold,
    count: Count,
    radius: Number = 1.0,
    *,
    masses: Each = 1.0,
    stiffness: Each | None = 1.0,
    length: Each | None = None,
    centre: Float[Array, " dim"] | None = None,
) -> tuple[System, Float[Array, "N dim"]]:
    """A body of points on a circle, each joined to the next by a spring or a rigid rod.

    Args:
        space: the space, of dimension 2 or more.
        count: the number N ≥ 3 of points.
        radius: radius of the circle.
        masses: one number or [N].
        stiffness: of the springs, one number or [N]; None makes rigid rods.
        length: rest length, one number or [N]; by default the distances as built, so that the body starts at rest.
        centre: coordinates of the centre [dim], by default the origin of the space.

    Returns:
        (system, q0), the body and its configuration [N, dim].

    Raises:
        ValueError: for fewer than 3 points, and for numbers that `gd.System`, `gd.Spring` and `gd.Rod` refuse.

    Example:
        The sides of a regular hexagon in the plane are as long as its radius.

        >>> system, q0 = gd.builders.ring(gd.spaces.Euclidean(2), count=6, radius=2.0)
        >>> print(q0.shape, f"{gd.distance(system.space, q0[0], q0[1]):.6f}")
        (6, 2) 2.000000
    """
    count = static_count("count", count)
    if count < 3:
        raise ValueError(f"count must be at least 3 for a ring, got {count}")
    turn = 2 * np.pi * np.arange(count) / count
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    edges = [(i, (i + 1) % count) for i in range(count)]
    q0 = around(space, radius * circle, centre)
    return join(space, q0, edges, masses, stiffness, length)


@checked
def lattice(
    space: AbstractManifold,
    shape: tuple[int, ...],
    spacing: Number = 1.0,
    *,
    diagonals: bool = False,
    masses: Each = 1.0,
    stiffness: Each | None = 1.0,
    length: Each | None = None,
    centre: Float[Array, " dim"] | None = None,
) -> tuple[System, Float[Array, "N dim"]]:
    """A body of points in a rectangular lattice around a centre, each joined to its nearest neighbours.

    Args:
        space: the space, of as many dimensions as the lattice or more.
        shape: the numbers of points in each direction; of the points the last index grows first.
        spacing: distance of neighbours, as built in flat space.
        diagonals: True also joins points across each face; without that the lattice does not resist shear.
        masses: one number or [N].
        stiffness: of the springs, one number or [E]; None makes rigid rods.
        length: rest length, one number or [E]; by default the distances as built, so that the body starts at rest.
        centre: coordinates of the centre [dim], by default the origin of the space.

    Returns:
        (system, q0), the body and its configuration [N, dim].

    Raises:
        ValueError: for a shape that is no row of numbers of points, not all 1, for a space of fewer dimensions, and for
            numbers that `gd.System`, `gd.Spring` and `gd.Rod` refuse.

    Example:
        A sheet of 3 × 4 points: 2·4 + 3·3 edges, and two diagonals in each of 6 squares.

        >>> for diagonals in (False, True):
        ...     system, q0 = gd.builders.lattice(gd.spaces.Euclidean(3), (3, 4), spacing=0.1, diagonals=diagonals)
        ...     print(q0.shape, len(gd.builders.edges(system)))
        (12, 3) 17
        (12, 3) 29
    """
    whole = np.ndim(shape) == 1 and np.issubdtype(np.asarray(shape).dtype, np.integer)
    if not (whole and min(shape) >= 1 and max(shape) >= 2):
        raise ValueError(f"shape must be numbers of points in each direction, ≥ 1 and not all 1, got {shape}")
    shape = tuple(int(size) for size in shape)
    sites = np.array(list(np.ndindex(*shape)))
    middle = (np.array(shape) - 1) / 2
    edges = _lattice_edges(sites, shape, 2 if diagonals else 1)
    q0 = around(space, spacing * (sites - middle), centre)
    return join(space, q0, edges, masses, stiffness, length)


def _lattice_edges(sites: Int[np.ndarray, "N k"], shape: tuple[int, ...], furthest: int) -> list[tuple[int, int]]:
    """The pairs of sites of a lattice of this shape that are next to each other in one of the directions, or, if
    `furthest` is 2, in up to two of them."""
    forward = []
    for step in map(np.array, itertools.product((0, 1, -1), repeat=len(shape))):
        moves = np.flatnonzero(step)
        # Of a step and its opposite one is enough.
        if 0 < len(moves) <= furthest and step[moves[0]] > 0:
            forward.append(step)
    edges = []
    for i, site in enumerate(sites):
        for step in forward:
            other = site + step
            if np.all((other >= 0) & (other < shape)):
                edges.append((i, int(np.ravel_multi_index(other, shape))))
    return edges


@checked
def icosahedron(
    space: AbstractManifold,
    radius: Number = 1.0,
    *,
    masses: Each = 1.0,
    stiffness: Each | None = 1.0,
    length: Each | None = None,
    centre: Float[Array, " dim"] | None = None,
) -> tuple[System, Float[Array, "12 dim"]]:
    """A body of 12 points, the corners of an icosahedron, joined along its 30 edges: a shell.

    Args:
        space: the space, of dimension 3 or more.
        radius: distance of the points from the centre.
        masses: one number or [12].
        stiffness: of the springs, one number or [30]; None makes rigid rods.
        length: rest length, one number or [30]; by default the distances as built, so that the body starts at rest.
        centre: coordinates of the centre [dim], by default the origin of the space.

    Returns:
        (system, q0), the body and its configuration [12, dim].

    Raises:
        ValueError: for numbers that `gd.System`, `gd.Spring` and `gd.Rod` refuse.

    Example:
        In flat space the edges are 4 radius/√(10 + 2√5) long.

        >>> system, q0 = gd.builders.icosahedron(gd.spaces.Euclidean(3))
        >>> i, j = gd.builders.edges(system)[0]
        >>> print(q0.shape, f"{gd.distance(system.space, q0[i], q0[j]):.6f} {4 / np.sqrt(10 + 2 * np.sqrt(5)):.6f}")
        (12, 3) 1.051462 1.051462
    """
    # The corners of three golden rectangles, each in a coordinate plane; the edges are 2 long.
    rectangle = np.array([(0.0, a, b * GOLDEN) for a in (1, -1) for b in (1, -1)])
    corners = np.concatenate([np.roll(rectangle, turn, axis=1) for turn in range(3)])
    edges = []
    for i, j in itertools.combinations(range(12), 2):
        if np.linalg.norm(corners[i] - corners[j]) < 2.1:
            edges.append((i, j))
    q0 = around(space, radius / np.linalg.norm(corners[0]) * corners, centre)
    return join(space, q0, edges, masses, stiffness, length)


def around(space: AbstractManifold, vectors: Numbers, centre: Numbers | None = None) -> Float[Array, "N dim"]:
    """The points exp_centre(vector) for `vectors[N, k]`, k ≤ dim, in the orthonormal frame at the centre."""
    vectors = jnp.asarray(vectors, float)
    if vectors.shape[1] > space.dim:
        raise ValueError(f"space must have dim ≥ {vectors.shape[1]} for this body, got dim {space.dim}")
    if centre is None and isinstance(space, AbstractConstantCurvature):
        # The origin is a singular point of some charts: build in the default chart, which is regular there.
        kind: Any = type(space)
        regular = kind(space.dim)
        if regular != space:
            return _in_chart(regular, space, around(regular, vectors))
    centre = np.zeros(space.dim) if centre is None else floats("centre", centre)
    (centre,) = checked_points(space, centre=centre)
    x = _around(space, vectors, centre)
    if not isinstance(x, Tracer) and not np.isfinite(x).all():
        raise ValueError(
            f"the body is too large for this {type(space).__name__}: give a smaller side, radius or spacing, or a "
            "source of points that are nearer to each other"
        )
    return x


@jit
def _in_chart(
    source: AbstractConstantCurvature, target: AbstractConstantCurvature, x: Float[Array, "N dim"]
) -> Float[Array, "N dim"]:
    """The points x of the space `source` in the chart of `target`, the same space in another chart."""
    return jax.vmap(lambda x: target.coordinates(source.embed(x)))(x)


@jit
def _around(
    space: AbstractManifold, vectors: Float[Array, "N k"], centre: Float[Array, " dim"]
) -> Float[Array, "N dim"]:
    def points(
        space: AbstractManifold, vectors: Float[Array, "N k"], centre: Float[Array, " dim"]
    ) -> Float[Array, "N dim"]:
        lower = jnp.linalg.cholesky(space.metric(centre))
        orthonormal = jnp.linalg.inv(lower).T
        frame = orthonormal[:, : vectors.shape[1]]
        return jax.vmap(lambda vector: exp(space, centre, frame @ vector))(vectors)

    return native_of(points, space, vectors, centre)


def join(
    space: AbstractManifold,
    q0: Float[Array, "N dim"],
    edges: Sequence[tuple[int, ...]],
    masses: Each,
    stiffness: Each | None,
    length: Each | None,
) -> tuple[System, Float[Array, "N dim"]]:
    """A body (system, q0) with springs or rods along the edges. If lengths of rods are given, q0 is projected onto
    them."""
    lengths = measure_each(distance, space, q0, tuple(edges)) if length is None else length
    masses = floats("masses", masses)
    if masses.ndim == 0:
        masses = jnp.broadcast_to(masses, (len(q0),))
    element = Rod(edges, lengths) if stiffness is None else Spring(edges, stiffness, lengths)
    system = System(space, masses, element)
    if length is not None and stiffness is None:
        q0 = project(system, q0, jnp.zeros_like(q0))[0]
    return system, q0


def simplex(
    space: AbstractManifold,
    corners: Float[Array | np.ndarray, "N k"],
    side: Number,
    masses: Each,
    stiffness: Each | None,
    centre: Numbers | None,
) -> tuple[System, Float[Array, "N dim"]]:
    """A body (system, q0) of points with all distances equal to `side`. The points exp_centre(corner) are projected
    onto these distances, since the exponential map preserves the distances between corners in flat space only."""
    edges = list(itertools.combinations(range(len(corners)), 2))
    rigid, q0 = join(space, around(space, corners, centre), edges, masses, None, side)
    if stiffness is None:
        return rigid, q0
    return join(space, q0, edges, masses, stiffness, side)
