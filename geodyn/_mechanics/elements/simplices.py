"""Areas of triangles, volumes of tetrahedra and angles between edges.

In constant curvature they are computed from the lengths d of the edges alone, by way of the half chords sin(d/2), d/2
or sinh(d/2). In any other space areas and volumes are integrals over cones of geodesics (`cones`)."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit, static_count
from geodyn._engine.numerics.failure import nan_unless
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Numbers, Scalar
from geodyn._geometry.geodesics.geodesic import log, squared_distance, told
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
FACE_NODES = 32
LONG = 0.45
PAIRS = [(i, j) for i in range(3) for j in range(3)]
UNIT = np.eye(7, 6)
GRAM = np.array([UNIT[i] + UNIT[j] - (i != j) * UNIT[2 + i + j] for i, j in PAIRS])
"""Matrix [9, 6] from half the squared lengths of the edges wx, wy, wz, xy, xz, yz to the inner products of the edge
vectors wx, wy, wz."""


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
    points, nodes = checked_points(space, x=x, y=y, z=z), static_count("nodes", nodes)
    if isinstance(space, AbstractConstantCurvature):
        return jit(_area)(space, points)
    return told(jit(_content)(space, points, nodes), UNRESOLVED)


def _content(space, points, nodes):
    value, found = content(space, points, nodes)
    return nan_unless(found, jnp.abs(value), (space, points))


def _area(space, points):
    curvature = curvature_of(space)
    s = _squared_half_chords(space, points)
    # Heron's product; negative values are rounding errors.
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
    points, nodes = checked_points(space, w=w, x=x, y=y, z=z), static_count("nodes", nodes)
    if isinstance(space, AbstractConstantCurvature):
        return jit(_volume)(space, points)
    if space.dim < 3:
        raise ValueError(
            f"volume needs a space of three or more dimensions, this one has {space.dim}: take gd.cells.area"
        )
    return told(jit(_content)(space, points, nodes), UNRESOLVED)


def _volume(space, points):
    """The volume ∫ S(r) dΩ over the directions of the geodesics from w to the face x, y, z, with their lengths r and
    S(r) = ∫₀ʳ s(ρ)² dρ, s = sin or sinh. Points of the face have projective coordinates λ: up to length they are
    Σ λ_i X_i in the embedding. Let T be the part of this vector orthogonal to X_w, and c its component along X_w. Then
    the volume is det(T_x, T_y, T_z) ∫ S/|T|³ dλ, with an analytic integrand."""
    curvature = curvature_of(space)
    half = 2 * _squared_half_chords(space, points)
    # Gram matrix of the vectors T of x, y, z: that of the edges from w, minus the products of their parts along X_w.
    gram = (jnp.asarray(GRAM, half.dtype) @ half).reshape(3, 3) - curvature * jnp.outer(half[:3], half[:3])
    determinant = safe_sqrt(jnp.maximum(jnp.dot(gram[0], jnp.cross(gram[1], gram[2])), 0))
    if curvature == 0:
        return determinant / 6
    weights, corners = _face(half)
    along, edges = 1 - curvature * half[:3], 1 - curvature * half[3:]  # <X_w, X_i> and <X_i, X_j>, times κ
    products = corners[:, [0, 0, 1]] * corners[:, [1, 2, 2]]
    squares = jnp.sum(corners**2, axis=1) + 2 * jnp.sum(products * edges[None], axis=1)
    across = jnp.sum((corners @ gram) * corners, axis=1)
    cone = jax.vmap(lambda *at: _cone(curvature, *at))(across, jnp.sum(corners * along[None], axis=1), squares)
    return determinant * jnp.dot(weights, cone)


def _face(half):
    """Quadrature weights [Q] and nodes λ [Q, 3] on a triangle, in projective coordinates. The nodes come from a square,
    with coordinates ½ (1 + tanh ms / tanh m) of Gauss' nodes s. For long edges m is large and the nodes crowd near the
    corners, where the integrand changes fast."""
    s, b = (jnp.asarray(a, half.dtype) for a in np.polynomial.legendre.leggauss(FACE_NODES))
    longest = jax.lax.stop_gradient(jnp.max(2 * jnp.arcsinh(jnp.sqrt(half / 2))))
    m = jnp.maximum(LONG * longest, 0.01)
    up, down = (jnp.sinh(m * (1 + sign * s)) / (2 * jnp.sinh(m) * jnp.cosh(m * s)) for sign in (1, -1))
    b = b * m / (2 * jnp.tanh(m) * jnp.cosh(m * s) ** 2)

    def full(a):
        return jnp.broadcast_to(a, (FACE_NODES, FACE_NODES)).reshape(-1)

    first, rest, second, third = full(up[:, None]), full(down[:, None]), full(up[None]), full(down[None])
    weights = full(b[:, None]) * full(b[None]) * rest
    return weights, jnp.stack([first, rest * second, rest * third], axis=1)


def _cone(curvature, across, along, square):
    """The integrand S(r)/|T|³ from |T|², c and c² + κ|T|². On the sphere it is (r − |T|c/(c² + |T|²))/(2|T|³). For
    small r its terms cancel, and the power series in |T|²/c² is used instead."""
    near = (along > 0) & (across < 0.1 * along**2)
    ratio, series = jnp.where(near, across, 0) / jnp.where(near, along, 1.0) ** 2, 0.0
    for k in reversed(range(18)):
        series = series * ratio + (-curvature) ** k * (k + 1) / (2 * k + 3)
    T, c, square = jnp.sqrt(jnp.where(near, 1.0, across)), jnp.where(near, 2.0, along), jnp.where(near, 5.0, square)
    r = jnp.arctan2(T, c) if curvature > 0 else jnp.arcsinh(T / jnp.sqrt(square))
    return jnp.where(near, series / jnp.where(near, along, 1.0) ** 3, curvature * (r - T * c / square) / (2 * T**3))


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
def _angle(space, x, y, z):
    return np.pi - safe_sqrt(jnp.maximum(squared_bend(space, x, y, z), 0))


def squared_bend(space: AbstractManifold, x: Point, y: Point, z: Point) -> Scalar:
    """(π − `angle`)², smooth even if the path x, y, z is straight (there rounding may make it negative)."""
    constant = isinstance(space, AbstractConstantCurvature)
    hav, complement = _bend_by_edges(space, x, y, z) if constant else _bend_by_tangents(space, x, y, z)
    return squared_arc(1, hav, complement)


def _bend_by_edges(space, x, y, z):
    """cos² and sin² of half the angle at y in constant curvature, by the half-angle formulas (Ratcliffe, *Foundations
    of Hyperbolic Manifolds*, 2.5 and 3.5), written in half chords."""
    curvature = curvature_of(space)
    c, b, a = _squared_half_chords(space, (x, y, z))  # of the pairs xy, xz, yz
    one, other = jnp.sqrt(a * (1 - curvature * c)), jnp.sqrt(c * (1 - curvature * a))
    return ((one + other) ** 2 - b) / (4 * one * other), (b - (one - other) ** 2) / (4 * one * other)


def _bend_by_tangents(space, x, y, z):
    """cos² and sin² of half the angle at y in any metric, from the initial directions of the geodesics to x and z."""
    metric = space.metric(y)
    u, w = (v / norm(space, y, v) for v in (log(space, y, x), log(space, y, z)))
    return (u + w) @ metric @ (u + w) / 4, (u - w) @ metric @ (u - w) / 4


def _squared_half_chords(space, points):
    """sin²(d/2), d²/4 or sinh²(d/2) for the distance d of every pair of points, in the order of `combinations`."""
    first, second = np.array(list(itertools.combinations(range(len(points)), 2))).T
    x, curvature = jnp.stack(points), curvature_of(space)
    square = jax.vmap(lambda x, y: squared_distance(space, x, y) / 4)(x[first], x[second])
    return square * jax.vmap(lambda square: sine_ratio(curvature, square))(square) ** 2
