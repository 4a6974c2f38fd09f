"""Builders of bodies: (system, q0) in any space."""

import itertools

import jax.numpy as jnp

from geodyn._typing import Array, Float
from geodyn.geometry.geodesic import exp
from geodyn.geometry.manifold import AbstractManifold, norm
from geodyn.geometry.spaces import AbstractConstantCurvature
from geodyn.mechanics.bodies import Rod, Spring
from geodyn.mechanics.projection import project
from geodyn.mechanics.system import System


def rod(
    space: AbstractManifold, length: float = 2.0, *, masses=(1.0, 1.0), stiffness: float | None = 1.0, centre=None
) -> tuple[System, Float[Array, "2 dim"]]:
    """Two points at the distance `length`, on both sides of `centre` in its second coordinate direction, joined by a
    spring at rest, or by a rigid rod for stiffness=None. `centre[dim]` is by default the origin of the space.

    Raises ValueError for numbers that `Spring`, `Rod` and `System` refuse.
    """
    half = 0.5 * length
    return _joined(space, _around(space, centre, [(0, half), (0, -half)]), length, masses, stiffness)


def triangle(
    space: AbstractManifold, side: float = 1.0, *, masses=(1.0, 1.0, 1.0), stiffness: float | None = 1.0, centre=None
) -> tuple[System, Float[Array, "3 dim"]]:
    """Three points with all distances equal to `side`, near the plane of the first two coordinate directions at
    `centre`, the first point ahead; joined by springs at rest, or by rigid rods for stiffness=None.

    Raises ValueError as `rod` does, and where the space has no such triangle.
    """
    ahead = [(side / 3**0.5, 0), (-side / 12**0.5, side / 2), (-side / 12**0.5, -side / 2)]
    return _joined(space, _around(space, centre, ahead), side, masses, stiffness)


def _around(space, centre, vectors):
    """Points at the ends of geodesics from the centre, whose components are in unit vectors along the coordinates."""
    if centre is None and isinstance(space, AbstractConstantCurvature):
        # The origin is a singular point of some charts: build in the chart that is regular there.
        regular = type(space)(space.dim)
        points = _around(regular, jnp.zeros(space.dim), vectors)
        return points if regular == space else jnp.stack([space.coordinates(regular.embed(x)) for x in points])
    centre = jnp.zeros(space.dim) if centre is None else jnp.asarray(centre, float)
    axes = jnp.eye(space.dim)[:2]
    units = [axis / norm(space, centre, axis) for axis in axes]
    return jnp.stack([exp(space, centre, a * units[0] + b * units[1]) for a, b in vectors])


def _joined(space, q0, length, masses, stiffness):
    edges = list(itertools.combinations(range(len(q0)), 2))
    rigid = System(space, masses, Rod(edges, length))
    system = rigid if stiffness is None else System(space, masses, Spring(edges, stiffness, length))
    # The chords at the ends of geodesics from a centre are as long as wanted in flat space only.
    return system, project(rigid, q0, jnp.zeros_like(q0))[0]
