"""Builders of bodies: (system, q0) in any space.

All share their keywords. `masses` are one number or [N]; `stiffness`, one number or [E], makes springs, None rigid
rods; `length`, one number or [E], is by default the distances as built, so that the body starts at rest; `centre[dim]`
is by default the origin of the space. Shapes are drawn in the tangent space at the centre, in an orthonormal frame
whose first vector points along the first coordinate, and carried over by its geodesics. All raise ValueError for
numbers that `Spring`, `Rod` and `System` refuse, and for a space of too small a dimension.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._checks import numbers, require
from geodyn._compile.jit import jit, static_count
from geodyn._typing import Array, Float
from geodyn.geometry.geodesics.geodesic import distance, exp
from geodyn.geometry.manifold.manifold import AbstractManifold
from geodyn.geometry.models.spaces import AbstractConstantCurvature
from geodyn.mechanics.elements.abstract import measured, number
from geodyn.mechanics.elements.springs import Rod, Spring
from geodyn.mechanics.points.projection import project
from geodyn.mechanics.points.system import System

GOLDEN = (1 + 5**0.5) / 2


def rod(
    space: AbstractManifold, length=2.0, *, masses=1.0, stiffness=1.0, centre=None
) -> tuple[System, Float[Array, "2 dim"]]:
    """Two points at the distance `length`, on both sides of `centre` in its second direction, joined by a spring at
    rest, or by a rigid rod for stiffness=None."""
    require("space", space, AbstractManifold, "a manifold such as gd.spaces.Sphere(2)")
    across = np.eye(2)[1:] if space.dim > 1 else np.eye(1)
    length = number("length", length, positive=True)
    return simplex(space, 0.5 * length * np.concatenate([across, -across]), length, masses, stiffness, centre)


def triangle(
    space: AbstractManifold, side=1.0, *, masses=1.0, stiffness=1.0, centre=None
) -> tuple[System, Float[Array, "3 dim"]]:
    """Three points with all distances equal to `side`, the first one ahead in the first direction at `centre`, the
    others on both sides in the second. Raises ValueError where the space has no such triangle."""
    side = number("side", side, positive=True)
    corners = np.array([[1 / 3**0.5, 0], [-1 / 12**0.5, 0.5], [-1 / 12**0.5, -0.5]])
    return simplex(space, side * corners, side, masses, stiffness, centre)


def tetrahedron(
    space: AbstractManifold, side=1.0, *, masses=1.0, stiffness=1.0, centre=None
) -> tuple[System, Float[Array, "4 dim"]]:
    """Four points with all distances equal to `side`. Raises ValueError where the space has no such tetrahedron."""
    side = number("side", side, positive=True)
    corners = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]) / 8**0.5
    return simplex(space, side * corners, side, masses, stiffness, centre)


def chain(
    space: AbstractManifold, count: int, spacing=1.0, *, masses=1.0, stiffness=1.0, length=None, centre=None
) -> tuple[System, Float[Array, "N dim"]]:
    """`count` points on the geodesic in the first direction at `centre`, each joined to the next at `spacing`."""
    shape = (static_count("count", count),)
    return lattice(space, shape, spacing, masses=masses, stiffness=stiffness, length=length, centre=centre)


def ring(
    space: AbstractManifold, count: int, radius=1.0, *, masses=1.0, stiffness=1.0, length=None, centre=None
) -> tuple[System, Float[Array, "N dim"]]:
    """`count` ≥ 3 points on the circle of `radius` around `centre`, each joined to the next."""
    if static_count("count", count) < 3:
        raise ValueError(f"count must be at least 3 for a ring, got {count}")
    turn = 2 * np.pi * np.arange(count) / count
    edges = [(i, (i + 1) % count) for i in range(count)]
    q0 = around(space, radius * np.stack([np.cos(turn), np.sin(turn)], axis=1), centre)
    return join(space, q0, edges, masses, stiffness, length)


def lattice(
    space: AbstractManifold,
    shape: tuple[int, ...],
    spacing=1.0,
    *,
    diagonals: bool = False,
    masses=1.0,
    stiffness=1.0,
    length=None,
    centre=None,
) -> tuple[System, Float[Array, "N dim"]]:
    """A rectangular lattice of shape[0] × shape[1] × … points, the last index first to grow, around `centre`; nearest
    neighbours are joined and, with `diagonals`, those across each face, without which it does not resist shear."""
    whole = np.ndim(shape) == 1 and np.issubdtype(np.asarray(shape).dtype, np.integer)
    if not (whole and min(shape) >= 1 and max(shape) >= 2):
        raise ValueError(f"shape must be numbers of points in each direction, ≥ 1 and not all 1, got {shape}")
    shape = tuple(int(size) for size in shape)
    sites = np.array(list(np.ndindex(*shape)))
    steps = [np.array(step) for step in itertools.product((0, 1, -1), repeat=len(shape))]
    forward = [s for s in steps if 0 < np.abs(s).sum() <= (2 if diagonals else 1) and s[np.flatnonzero(s)[0]] > 0]
    pairs = [(i, site + step) for i, site in enumerate(sites) for step in forward]
    inside = [(i, site) for i, site in pairs if np.all((site >= 0) & (site < shape))]
    edges = [(i, int(np.ravel_multi_index(site, shape))) for i, site in inside]
    q0 = around(space, spacing * (sites - (np.array(shape) - 1) / 2), centre)
    return join(space, q0, edges, masses, stiffness, length)


def icosahedron(
    space: AbstractManifold, radius=1.0, *, masses=1.0, stiffness=1.0, length=None, centre=None
) -> tuple[System, Float[Array, "12 dim"]]:
    """A shell: the 12 corners of an icosahedron at the distance `radius` from `centre`, and its 30 edges."""
    flat = np.array([(0.0, a, b * GOLDEN) for a in (1, -1) for b in (1, -1)])
    corners = np.concatenate([np.roll(flat, turn, axis=1) for turn in range(3)])
    edges = [(i, j) for i, j in itertools.combinations(range(12), 2) if np.linalg.norm(corners[i] - corners[j]) < 2.1]
    q0 = around(space, radius / np.linalg.norm(corners[0]) * corners, centre)
    return join(space, q0, edges, masses, stiffness, length)


def around(space: AbstractManifold, vectors, centre=None) -> Float[Array, "N dim"]:
    """Points at the ends of geodesics from the centre: `vectors[N, k]` in its orthonormal frame, k ≤ dim."""
    require("space", space, AbstractManifold, "a manifold such as gd.spaces.Sphere(2)")
    vectors = jnp.asarray(vectors, float)
    if vectors.shape[1] > space.dim:
        raise ValueError(f"space must have dim ≥ {vectors.shape[1]} for this body, got dim {space.dim}")
    if centre is None and isinstance(space, AbstractConstantCurvature):
        # The origin is a singular point of some charts: build in the chart that is regular there.
        regular = type(space)(space.dim)
        if regular != space:
            return _carried(regular, space, around(regular, vectors))
    centre = jnp.zeros(space.dim) if centre is None else numbers("centre", centre).astype(float)
    return _around(space, vectors, centre)


@jit
def _carried(source, target, x):
    """The same points in the other chart."""
    return jax.vmap(lambda x: target.coordinates(source.embed(x)))(x)


@jit
def _around(space, vectors, centre):
    frame = jnp.linalg.inv(jnp.linalg.cholesky(space.metric(centre))).T[:, : vectors.shape[1]]
    return jax.vmap(lambda vector: exp(space, centre, frame @ vector))(vectors)


def join(space: AbstractManifold, q0, edges, masses, stiffness, length) -> tuple[System, Float[Array, "N dim"]]:
    """Points with springs or rods along the edges; on the rods, where other lengths are asked for."""
    lengths = measured(distance, space, q0, tuple(edges)) if length is None else length
    masses = numbers("masses", masses).astype(float)
    masses = jnp.broadcast_to(masses, (len(q0),)) if masses.ndim == 0 else masses
    element = Rod(edges, lengths) if stiffness is None else Spring(edges, stiffness, lengths)
    system = System(space, masses, element)
    if length is not None and stiffness is None:
        q0 = project(system, q0, jnp.zeros_like(q0))[0]
    return system, q0


def simplex(space: AbstractManifold, corners, side, masses, stiffness, centre):
    """Points with all distances equal to `side`: the corners, moved onto them, since the chords between the ends of
    geodesics from a centre are as long as wanted in flat space only."""
    edges = list(itertools.combinations(range(len(corners)), 2))
    rigid, q0 = join(space, around(space, corners, centre), edges, masses, None, side)
    return (rigid, q0) if stiffness is None else join(space, q0, edges, masses, stiffness, side)
