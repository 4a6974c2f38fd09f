"""Areas of triangles, volumes of tetrahedra and angles between edges.

Those of geodesic simplices are functions of the geodesic lengths of their edges alone, by way of the half chords
sin(d/2), d/2 or sinh(d/2), so that they exist in any metric; away from constant curvature they are those of the flat
simplex with these edges, right to O(K L²) for edges of length L and curvatures K.
"""

import jax.numpy as jnp
import numpy as np

from geodyn._typing import Array, Float, Scalar
from geodyn.geometry.charts import arc_ratio, sine_ratio
from geodyn.geometry.geodesic import log, squared_distance
from geodyn.geometry.manifold import AbstractManifold, norm, safe_sqrt
from geodyn.mechanics.elements import curvature_of

Point = Float[Array, " n"]


def area(space: AbstractManifold, x: Point, y: Point, z: Point) -> Scalar:
    """Area of the triangle between three points: exact in constant curvature κ, where it is κ times the excess of the
    angles over π (Eriksson, *Math. Mag.* 63 (1990) 184, in half chords); Heron's formula on the geodesic lengths in any
    other space. Its derivative where the triangle degenerates, where it has none, is given as 0."""
    curvature = curvature_of(space)
    a, b, c = (_squared_half_chord(space, *pair) for pair in ((y, z), (z, x), (x, y)))
    # Heron's product as 4ab − (a + b − c)²; what is below zero is rounding.
    square = jnp.maximum(4 * a * b * (1 - curvature * c) - (a + b - c) ** 2, 0)
    if curvature == 0:
        return safe_sqrt(square)
    return 2 * jnp.arctan2(safe_sqrt(square), 2 - curvature * (a + b + c))


def volume(space: AbstractManifold, w: Point, x: Point, y: Point, z: Point) -> Scalar:
    """Volume of the tetrahedron between four points: the Cayley–Menger determinant of the geodesic lengths, exact in
    flat space. In constant curvature κ that of the chords in the embedding space, (det(X_w, X_x, X_y, X_z)/6) <X²>⁻²,
    with <X²> the mean of κ|X|² over the flat tetrahedron: right to O(L⁴) for edges of length L.

    0, with derivative 0, for flat tetrahedra and, away from constant curvature, where no flat one has these edges.
    """
    curvature = curvature_of(space)
    half = lambda x, y: 2 * _squared_half_chord(space, x, y)  # noqa: E731
    a, b, c, p, q, r = half(w, x), half(w, y), half(w, z), half(y, z), half(z, x), half(x, y)
    # Gram matrix of the edges from w, less the part of them along X_w.
    A, B, C = (s * (2 - curvature * s) for s in (a, b, c))
    F, G, H = b + c - p - curvature * b * c, c + a - q - curvature * c * a, a + b - r - curvature * a * b
    square = jnp.maximum(A * B * C + 2 * F * G * H - A * F**2 - B * G**2 - C * H**2, 0)
    return safe_sqrt(square) / (6 * (1 - curvature * (a + b + c + p + q + r) / 10) ** 2)


def angle(space: AbstractManifold, x: Point, y: Point, z: Point) -> Scalar:
    """Angle at y between the geodesics to x and to z, from 0 to π, in radians. Its derivative where they are parallel,
    where it has none, is given as 0."""
    return np.pi - safe_sqrt(squared_bend(space, x, y, z))


def squared_bend(space: AbstractManifold, x: Point, y: Point, z: Point) -> Scalar:
    """(π − `angle`)², smooth where the path x, y, z is straight."""
    u, w = (_unit(space, y, log(space, y, end)) for end in (x, z))
    metric = space.metric(y)
    hav, complement = ((side @ metric @ side) / 4 for side in (u + w, u - w))
    return 4 * hav * arc_ratio(1, hav, complement) ** 2


def _squared_half_chord(space, x, y):
    """sin²(d/2), d²/4 or sinh²(d/2) of the distance of two points."""
    square = squared_distance(space, x, y) / 4
    return square * sine_ratio(curvature_of(space), square) ** 2


def _unit(space, x, v):
    return v / norm(space, x, v)
