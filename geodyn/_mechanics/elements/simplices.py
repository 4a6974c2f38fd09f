"""Areas of triangles, volumes of tetrahedra and angles between edges.

In constant curvature they are computed from the lengths d of the edges alone, by way of the half chords sin(d/2), d/2
or sinh(d/2). In any other space areas and volumes are integrals over cones of geodesics (`cones`).

Letters of the shapes: n coordinates of a point, P pairs of corners (the edges), Q nodes of a quadrature."""

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit, static_count
from geodyn._engine.numerics.failure import nan_unless
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Numbers, Scalar
from geodyn._geometry.geodesics.distances import log, squared_distance
from geodyn._geometry.geodesics.limits import with_warning
from geodyn._geometry.manifold.manifold import AbstractManifold, checked_points, norm, safe_sqrt
from geodyn._geometry.models.charts import sine_ratio, squared_arc
from geodyn._geometry.models.spaces import AbstractConstantCurvature
from geodyn._mechanics.elements.abstract import curvature_of
from geodyn._mechanics.elements.cones import content

Point = Float[Array, " n"]
NODES = 12
UNRESOLVED = (
    "the geodesics of this simplex are not resolved, or not found: they must be in the chart, and no conjugate point "
    f"on them. Cut it into smaller ones, or give more nodes: the default is nodes={NODES}"
)
FACE_NODES = 32  # Of Gauss' rule, in each of two directions on the face of a tetrahedron.
LONG = 0.45  # How much the nodes crowd near the corners of a face, for each unit of its longest edge.

# The edges of a tetrahedron in the order wx, wy, wz, xy, xz, yz, as unit vectors; and a row of zeros.
EDGE = np.eye(7, 6)
GRAM = np.array([EDGE[i] + EDGE[j] - (i != j) * EDGE[2 + i + j] for i in range(3) for j in range(3)])
"""Matrix [9, 6] from half the squared lengths of the edges to the inner products of the edge vectors wx, wy, wz, by the
law of cosines: that of wx and wy is (|wx|² + |wy|² − |xy|²)/2, and of wx with itself |wx|²."""


@checked
def area(space: AbstractManifold, x: Numbers, y: Numbers, z: Numbers, *, nodes: Count = NODES) -> Scalar:
    """Area of the geodesic triangle between three points.

    In a space of constant curvature κ the closed form is used: for κ = ±1 the area is κ times the excess of the sum of
    the angles over π. In any other metric the area is an integral over the geodesics from x to the points of the
    geodesic from y to z, accurate to 1e-12 of the product of two edges (measured: 1e-15 to 2e-14). In two dimensions
    the edges bound this triangle. In more dimensions they bound many surfaces, and the one taken here depends on which
    point comes first, unless it is totally geodesic. Where the triangle degenerates, where the area has no derivative,
    its derivative is given as 0.

    Args:
        space: the space, with a positive definite metric.
        x, y, z: the corners [n].
        nodes: number of geodesics, and of points on each of them, where there is no closed form.

    Returns:
        The area, one number, in squared units of length. NaN, of which a call outside of jit warns, where the nodes do
        not resolve the triangle or its edges are not shortest geodesics: give more nodes, or cut it into smaller
        triangles.

    Raises:
        ValueError: for points that are not [n], `nodes` that are no positive whole number, and a metric that is not
            positive definite.

    Example:
        A triangle on the unit sphere, by the closed form and by the integral.

        >>> corners = [0.0, 0.0], [0.3, 0.0], [0.0, 0.3]
        >>> sphere = gd.Manifold(lambda x: 4 / (1 + x @ x) ** 2 * jnp.eye(2), dim=2)
        >>> print([f"{gd.cells.area(s, *corners):.6f}" for s in (gd.spaces.Sphere(2), sphere)])
        ['0.179516', '0.179516']

    Source:
        Eriksson, *Math. Mag.* 63 (1990) 184.
    """
    points = checked_points(space, x=x, y=y, z=z)
    nodes = static_count("nodes", nodes)
    if isinstance(space, AbstractConstantCurvature):
        return jit(_area)(space, points)
    return with_warning(jit(_content)(space, points, nodes), UNRESOLVED)


def _content(space: AbstractManifold, points: list[Point], nodes: int) -> Scalar:
    """The area or volume of the simplex with these corners, in any metric; NaN where the nodes do not resolve it."""
    value, found = content(space, points, nodes)
    return nan_unless(found, jnp.abs(value), (space, points))


def _area(space: AbstractConstantCurvature, points: list[Point]) -> Scalar:
    """The area of a triangle in constant curvature, by Heron's formula in half chords."""
    curvature = curvature_of(space)
    s = _squared_half_chords(space, points)
    # Heron's product, 16 times the squared area in flat space; negative values are rounding errors.
    square = jnp.maximum(jnp.sum(s) ** 2 - 2 * s @ s - 4 * curvature * jnp.prod(s), 0)
    if curvature == 0:
        return safe_sqrt(square)
    return 2 * jnp.arctan2(safe_sqrt(square), 2 - curvature * jnp.sum(s))


@checked
def volume(space: AbstractManifold, w: Numbers, x: Numbers, y: Numbers, z: Numbers, *, nodes: Count = NODES) -> Scalar:
    """Volume of the geodesic tetrahedron between four points; 0, with derivative 0, for flat ones.

    In spaces of constant curvature it is accurate to rounding; for edges longer than 6 radii of curvature in hyperbolic
    space the error was measured as 6e-12 (length 8) and 1e-7 (length 12). In any other metric the volume is an integral
    over the geodesics from w to the points of the surface that `gd.cells.area` takes for x, y, z, accurate to 1e-12 of
    the product of three edges. Where faces are not totally geodesic, three edges bound many surfaces, and the solid
    depends on the order of the points.

    Args:
        space: a space of three or more dimensions, with a positive definite metric.
        w, x, y, z: the corners [n].
        nodes: the integral takes nodes³ points, where there is no closed form.

    Returns:
        The volume, one number, in cubed units of length; NaN where `gd.cells.area` gives NaN.

    Raises:
        ValueError: for points that are not [n], `nodes` that are no positive whole number, fewer than three dimensions,
            and a metric that is not positive definite.

    Example:
        The tetrahedron with right angles at all edges is one sixteenth of S³, whose volume is 2π².

        >>> corners = [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
        >>> print(f"{gd.cells.volume(gd.spaces.Sphere(3), *corners):.6f} {np.pi**2 / 8:.6f}")
        1.233701 1.233701
    """
    points = checked_points(space, w=w, x=x, y=y, z=z)
    nodes = static_count("nodes", nodes)
    if isinstance(space, AbstractConstantCurvature):
        return jit(_volume)(space, points)
    if space.dim < 3:
        raise ValueError(
            f"volume needs a space of three or more dimensions, this one has {space.dim}: take gd.cells.area"
        )
    return with_warning(jit(_content)(space, points, nodes), UNRESOLVED)


def _volume(space: AbstractConstantCurvature, points: list[Point]) -> Scalar:
    """The volume ∫ S(r) dΩ over the directions of the geodesics from w to the face x, y, z, with their lengths r and
    S(r) = ∫₀ʳ s(ρ)² dρ, s = sin or sinh. Points of the face have projective coordinates λ: up to length they are
    Σ λ_i X_i in the embedding. Let T be the part of this vector orthogonal to X_w, and c its component along X_w. Then
    the volume is det(T_x, T_y, T_z) ∫ S/|T|³ dλ, with an analytic integrand."""
    curvature = curvature_of(space)
    half = 2 * _squared_half_chords(space, points)
    # Gram matrix of the vectors T of x, y, z: that of the edges from w, minus the products of their parts along X_w.
    of_edges = (jnp.asarray(GRAM, half.dtype) @ half).reshape(3, 3)
    gram = of_edges - curvature * jnp.outer(half[:3], half[:3])
    square = jnp.dot(gram[0], jnp.cross(gram[1], gram[2]))
    determinant = safe_sqrt(jnp.maximum(square, 0))
    if curvature == 0:
        return determinant / 6
    weights, corners = _face(half)
    # κ <X_w, X_i> for the corners i of the face, and κ <X_i, X_j> for its edges ij.
    along = 1 - curvature * half[:3]
    edges = 1 - curvature * half[3:]
    # The squared length of Σ λ_i X_i times κ, that of T, and c times κ, at every node.
    products = corners[:, [0, 0, 1]] * corners[:, [1, 2, 2]]
    squares = jnp.sum(corners**2, axis=1) + 2 * jnp.sum(products * edges[None], axis=1)
    across = jnp.sum((corners @ gram) * corners, axis=1)
    components = jnp.sum(corners * along[None], axis=1)
    cones = jax.vmap(lambda across, along, square: _cone(curvature, across, along, square))
    integrand = cones(across, components, squares)
    return determinant * jnp.dot(weights, integrand)


def _face(half: Float[Array, "6"]) -> tuple[Float[Array, " Q"], Float[Array, "Q 3"]]:
    """Quadrature weights [Q] and nodes λ [Q, 3] on a triangle, in projective coordinates, for half the squared chords
    of the edges. The nodes come from a square, with coordinates ½ (1 + tanh ms / tanh m) of Gauss' nodes s. For long
    edges m is large and the nodes crowd near the corners, where the integrand changes fast."""
    nodes, weights = np.polynomial.legendre.leggauss(FACE_NODES)
    s = jnp.asarray(nodes, half.dtype)
    b = jnp.asarray(weights, half.dtype)
    lengths = 2 * jnp.arcsinh(jnp.sqrt(half / 2))
    longest = jax.lax.stop_gradient(jnp.max(lengths))
    m = jnp.maximum(LONG * longest, 0.01)

    def coordinate(sign: int) -> Float[Array, " N"]:
        """½ (1 ± tanh ms / tanh m), in a form in which nothing cancels."""
        return jnp.sinh(m * (1 + sign * s)) / (2 * jnp.sinh(m) * jnp.cosh(m * s))

    up = coordinate(1)
    down = coordinate(-1)
    b = b * m / (2 * jnp.tanh(m) * jnp.cosh(m * s) ** 2)

    def full(x: Float[Array, "..."]) -> Float[Array, " Q"]:
        """Values along one side of the square, at all of its nodes."""
        return jnp.broadcast_to(x, (FACE_NODES, FACE_NODES)).reshape(-1)

    # The square becomes a triangle where one of its sides shrinks to a point: λ = (a, (1 − a) b, (1 − a)(1 − b)).
    first = full(up[:, None])
    rest = full(down[:, None])
    second = full(up[None])
    third = full(down[None])
    weights = full(b[:, None]) * full(b[None]) * rest
    return weights, jnp.stack([first, rest * second, rest * third], axis=1)


def _cone(curvature: int, across: Scalar, along: Scalar, square: Scalar) -> Scalar:
    """The integrand S(r)/|T|³ from |T|², c and c² + κ|T|². On the sphere it is (r − |T|c/(c² + |T|²))/(2|T|³). For
    small r its terms cancel, and the power series in |T|²/c² is used instead."""
    near = (along > 0) & (across < 0.1 * along**2)
    ratio = jnp.where(near, across, 0) / jnp.where(near, along, 1.0) ** 2
    series = 0.0
    # By Horner's rule.
    for k in reversed(range(18)):
        coefficient = (-curvature) ** k * (k + 1) / (2 * k + 3)
        series = series * ratio + coefficient
    # Where the series is used, the closed form gets numbers at which it and its derivative are finite.
    T = jnp.sqrt(jnp.where(near, 1.0, across))
    c = jnp.where(near, 2.0, along)
    square = jnp.where(near, 5.0, square)
    if curvature > 0:
        r = jnp.arctan2(T, c)
    else:
        r = jnp.arcsinh(T / jnp.sqrt(square))
    by_series = series / jnp.where(near, along, 1.0) ** 3
    closed = curvature * (r - T * c / square) / (2 * T**3)
    return jnp.where(near, by_series, closed)


@checked
def angle(space: AbstractManifold, x: Numbers, y: Numbers, z: Numbers) -> Scalar:
    """Angle at y between the geodesics to x and to z, in any metric.

    Where the geodesics are parallel (angle 0 or π), where the angle has no derivative, its derivative is given as 0.

    Args:
        space: the space.
        x, y, z: three points [n]; the angle is that at y.

    Returns:
        The angle in radians, from 0 to π.

    Raises:
        ValueError: for points that are not [n].

    Example:
        The angles of an octant of the sphere are right angles.

        >>> print(f"{gd.cells.angle(gd.spaces.Sphere(2), [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]) / np.pi:.6f}")
        0.500000
    """
    return _angle(space, *checked_points(space, x=x, y=y, z=z))


@jit
def _angle(space: AbstractManifold, x: Point, y: Point, z: Point) -> Scalar:
    return np.pi - safe_sqrt(jnp.maximum(squared_bend(space, x, y, z), 0))


def squared_bend(space: AbstractManifold, x: Point, y: Point, z: Point) -> Scalar:
    """(π − `angle`)², smooth even if the path x, y, z is straight (there rounding may make it negative)."""
    constant = isinstance(space, AbstractConstantCurvature)
    # The angle α at y and the bend π − α have halves with sin² and cos² exchanged.
    hav, complement = _bend_by_edges(space, x, y, z) if constant else _bend_by_tangents(space, x, y, z)
    return squared_arc(1, hav, complement)


def _bend_by_edges(space: AbstractConstantCurvature, x: Point, y: Point, z: Point) -> tuple[Scalar, Scalar]:
    """cos² and sin² of half the angle at y in constant curvature, by the half-angle formulas (Ratcliffe, *Foundations
    of Hyperbolic Manifolds*, 2.5 and 3.5), written in half chords."""
    curvature = curvature_of(space)
    xy, xz, yz = _squared_half_chords(space, (x, y, z))
    one = jnp.sqrt(yz * (1 - curvature * xy))
    other = jnp.sqrt(xy * (1 - curvature * yz))
    squared_cosine = ((one + other) ** 2 - xz) / (4 * one * other)
    squared_sine = (xz - (one - other) ** 2) / (4 * one * other)
    return squared_cosine, squared_sine


def _bend_by_tangents(space: AbstractManifold, x: Point, y: Point, z: Point) -> tuple[Scalar, Scalar]:
    """cos² and sin² of half the angle at y in any metric, from the initial directions of the geodesics to x and z."""
    metric = space.metric(y)
    to_x = log(space, y, x)
    to_z = log(space, y, z)
    u = to_x / norm(space, y, to_x)
    w = to_z / norm(space, y, to_z)
    squared_cosine = (u + w) @ metric @ (u + w) / 4
    squared_sine = (u - w) @ metric @ (u - w) / 4
    return squared_cosine, squared_sine


def _squared_half_chords(space: AbstractConstantCurvature, points: Sequence[Point]) -> Float[Array, " P"]:
    """sin²(d/2), d²/4 or sinh²(d/2) for the distance d of every pair of points, in the order of `combinations`."""
    pairs = np.array(list(itertools.combinations(range(len(points)), 2)))
    first, second = pairs.T
    x = jnp.stack(points)
    curvature = curvature_of(space)
    square = jax.vmap(lambda x, y: squared_distance(space, x, y) / 4)(x[first], x[second])
    ratio = jax.vmap(lambda square: sine_ratio(curvature, square))(square)
    return square * ratio**2
