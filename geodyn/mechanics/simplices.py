"""Areas of triangles, volumes of tetrahedra and angles between edges.

Areas and volumes of geodesic simplices are functions of the geodesic lengths of their edges alone, by way of the half
chords sin(d/2), d/2 or sinh(d/2), so that they exist in any metric; away from constant curvature they are those of the
flat simplex with these edges, right to O(K L²) for edges of length L and curvatures K.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._jit import jit
from geodyn._typing import Array, Float, Numbers, Scalar
from geodyn.geometry.charts import arc_ratio, sine_ratio
from geodyn.geometry.geodesic import checked_points, log, squared_distance
from geodyn.geometry.manifold import AbstractManifold, norm, safe_sqrt
from geodyn.geometry.spaces import AbstractConstantCurvature
from geodyn.mechanics.elements import curvature_of, select

Point = Float[Array, " n"]
PAIRS = [(i, j) for i in range(3) for j in range(3)]
UNIT = np.eye(7, 6)
GRAM = np.array([UNIT[i] + UNIT[j] - (i != j) * UNIT[2 + i + j] for i, j in PAIRS])
"""Of the half squared edges wx, wy, wz, xy, xz, yz: the inner products of wx, wy, wz, as [9, 6]."""


@jit
def area(space: AbstractManifold, x: Numbers, y: Numbers, z: Numbers) -> Scalar:
    """Area of the triangle between three points [n]: exact in constant curvature κ, where it is κ times the excess of
    the angles over π (Eriksson, *Math. Mag.* 63 (1990) 184, in half chords); Heron's formula on the geodesic lengths in
    any other space. Its derivative where the triangle degenerates, where it has none, is given as 0."""
    curvature = curvature_of(space)
    s = _squared_half_chords(space, checked_points(space, x=x, y=y, z=z))
    # Heron's product; what is below zero is rounding.
    square = jnp.maximum(jnp.sum(s) ** 2 - 2 * s @ s - 4 * curvature * jnp.prod(s), 0)
    if curvature == 0:
        return safe_sqrt(square)
    return 2 * jnp.arctan2(safe_sqrt(square), 2 - curvature * jnp.sum(s))


@jit
def volume(space: AbstractManifold, w: Numbers, x: Numbers, y: Numbers, z: Numbers) -> Scalar:
    """Volume of the tetrahedron between four points [n]: the Cayley–Menger determinant of the geodesic lengths, exact
    in flat space. In constant curvature κ that of the chords in the embedding space, (det(X_w, X_x, X_y, X_z)/6)
    <X²>⁻², with <X²> the mean of κ|X|² over the flat tetrahedron: right to O(L⁴) for edges of length L.

    0, with derivative 0, for flat tetrahedra and, away from constant curvature, where no flat one has these edges.
    """
    curvature = curvature_of(space)
    half = 2 * _squared_half_chords(space, checked_points(space, w=w, x=x, y=y, z=z))
    # Gram matrix of the edges from w, less the part of them along X_w.
    gram = (jnp.asarray(GRAM, half.dtype) @ half).reshape(3, 3) - curvature * jnp.outer(half[:3], half[:3])
    square = jnp.maximum(jnp.dot(gram[0], jnp.cross(gram[1], gram[2])), 0)
    return safe_sqrt(square) / (6 * (1 - curvature * jnp.sum(half) / 10) ** 2)


@jit
def angle(space: AbstractManifold, x: Numbers, y: Numbers, z: Numbers) -> Scalar:
    """Angle at y between the geodesics to x and to z, points [n], from 0 to π, in radians, in any metric. Its
    derivative where they are parallel, where it has none, is given as 0."""
    points = checked_points(space, x=x, y=y, z=z)
    return np.pi - safe_sqrt(jnp.maximum(squared_bend(space, *points), 0))


def squared_bend(space: AbstractManifold, x: Point, y: Point, z: Point) -> Scalar:
    """(π − `angle`)², smooth where the path x, y, z is straight (rounding may make it negative there)."""
    constant = isinstance(space, AbstractConstantCurvature)
    hav, complement = _bend_by_edges(space, x, y, z) if constant else _bend_by_tangents(space, x, y, z)
    return 4 * hav * arc_ratio(1, hav, complement) ** 2


def _bend_by_edges(space, x, y, z):
    """cos² and sin² of half the angle at y, by the half-angle formulas of trigonometry (Ratcliffe, *Foundations of
    Hyperbolic Manifolds*, 2.5 and 3.5) in half chords."""
    curvature = curvature_of(space)
    c, b, a = _squared_half_chords(space, (x, y, z))  # of the pairs xy, xz, yz
    one, other = jnp.sqrt(a * (1 - curvature * c)), jnp.sqrt(c * (1 - curvature * a))
    return ((one + other) ** 2 - b) / (4 * one * other), (b - (one - other) ** 2) / (4 * one * other)


def _bend_by_tangents(space, x, y, z):
    """The same from the directions of the two geodesics, as the geodesic equation has it."""
    metric = space.metric(y)
    u, w = (v / norm(space, y, v) for v in (log(space, y, x), log(space, y, z)))
    return (u + w) @ metric @ (u + w) / 4, (u - w) @ metric @ (u - w) / 4


def _squared_half_chords(space, points):
    """sin²(d/2), d²/4 or sinh²(d/2) of the distances of every pair of the points, in the order of `combinations`."""
    first, second = np.array(list(itertools.combinations(range(len(points)), 2))).T
    x, curvature = jnp.stack(points), curvature_of(space)
    square = jax.vmap(lambda x, y: squared_distance(space, x, y) / 4)(select(x, first), select(x, second))
    return square * jax.vmap(lambda square: sine_ratio(curvature, square))(square) ** 2
