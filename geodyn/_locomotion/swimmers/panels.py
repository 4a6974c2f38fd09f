"""MOTION: the water around bodies in the plane that disturb each other, by integral equations on their boundaries.

Without vortices the water outside of the bodies has a potential φ with the normal derivative g = u·n on the boundaries,
where u is the velocity of the body there and n points into the water. Green's formula makes it the solution of
`(½ + K) φ = S g`, with the double layer K and the single layer S of log|y − x|/2π. Inside of each body there is a
harmonic function h with the same normal derivative, x and y of its frame for the translations, and `(½ − K) h = −S g`
there. So φ = h − χ on the boundary, where

    (½ + K) χ = h,

and the kinetic energy of the water is −½ρ ∮ φ g = ½ρ ∮ (χ − h) g. For rotations the conjugate of h is −½|x|² on the
boundary: it is the real part of a Cauchy integral, whose imaginary part is h. No kernel is singular then, and the
trapezoidal rule converges exponentially for smooth boundaries (Nyström's method). The density is known at some nodes,
and is interpolated to more of them, from which its layer acts. What the parts of K on one body are does not depend on
where it is.

Source: Kress, *Linear Integral Equations* (2014), sections 6.4 and 12.2; Lamb, *Hydrodynamics* (1932), section 72.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.native import by_xla
from geodyn._foundations.typing import Array, Bool, Count, Float, Int, Scalar

# For each node of the density a layer has so many nodes to act on its own boundary, and on others. On an ellipse of the
# aspect a the harmonics of its own kernel fall as ((1 − a)/(1 + a))^k: with 8 × 24 nodes to 2e-17 at a = 0.1. This
# kernel is computed once for all shapes. The kernels on others, at a distance, have fewer harmonics; whether the nodes
# suffice for them is seen by the defects.
FINER = 8
FINER_ON_OTHERS = 2
# So far the double layer of 1 may differ from ½ on its own boundary and from 0 on others. Connections of three links
# then had relative errors of up to 5 times that; bodies that overlap have larger defects, see `added_mass`.
LARGEST_DEFECT = 1e-3


class Boundaries(NamedTuple):
    """Closed curves y(s) in the frames of their bodies, counterclockwise: the points y, the slopes y' and the bends y''
    at M equally spaced parameters s from 0 to 2π."""

    points: Float[Array, "L M 2"]
    slopes: Float[Array, "L M 2"]
    bends: Float[Array, "L M 2"]


class Alone(NamedTuple):
    """What belongs to each body alone, at n nodes: its part of K, the `layers`; for unit velocities along x and y of
    its frame and a unit turn about the origin of this, the functions h, `inner`, and the `fluxes`, g times the weights
    of the nodes; and the `defects`, by how much the double layer of the density 1 differs from ½."""

    layers: Float[Array, "L n n"]
    inner: Float[Array, "L n 3"]
    fluxes: Float[Array, "L n 3"]
    defects: Float[Array, "L n"]


def boundaries_of(boundary: Callable[[Scalar], Float[Array, "L 2"]], nodes: Count, like: Array) -> Boundaries:
    """The closed curves `boundary(s)`, which are turned round if they go clockwise, in the precision of `like`."""
    s = jnp.asarray(2 * np.pi * np.arange(FINER * nodes) / (FINER * nodes), like.dtype)

    def with_slope(s: Scalar) -> tuple[Array, Array]:
        return jax.jvp(boundary, (s,), (jnp.ones_like(s),))

    def with_slope_and_bend(s: Scalar) -> tuple[Array, Array, Array]:
        values, changes = jax.jvp(with_slope, (s,), (jnp.ones_like(s),))
        point, slope = values
        _, bend = changes
        return point, slope, bend

    points, slopes, bends = jax.vmap(with_slope_and_bend, out_axes=1)(s)
    # In proportion to the area that a curve goes around, which is negative clockwise.
    area = jnp.sum(_cross(points, slopes), axis=1)
    sense = jnp.sign(area)[:, None, None]

    def counterclockwise(x: Float[Array, "L M 2"]) -> Float[Array, "L M 2"]:
        """In the reverse order from the same first point on, if the curve goes clockwise."""
        return jnp.where(sense < 0, jnp.roll(x[:, ::-1], 1, axis=1), x)

    # With −s as the parameter first derivatives change their sign, and second ones do not.
    return Boundaries(counterclockwise(points), sense * counterclockwise(slopes), counterclockwise(bends))


def inertias_of(boundaries: Boundaries) -> Float[Array, "L 3 3"]:
    """The inertia of each body of density 1 in velocities (along, across, turning) at the origin of its frame."""
    x, y = jnp.moveaxis(boundaries.points, 2, 0)
    dx, dy = jnp.moveaxis(boundaries.slopes, 2, 0)
    weight = 2 * np.pi / x.shape[1]
    # The integrals of 1, x, y and x² + y² over the area, as integrals around it (Green's theorem).
    area = weight * jnp.sum(x * dy - y * dx, axis=1) / 2
    first_x = weight * jnp.sum(x**2 * dy, axis=1) / 2
    first_y = -weight * jnp.sum(y**2 * dx, axis=1) / 2
    second = weight * jnp.sum(x**3 * dy - y**3 * dx, axis=1) / 3
    zero = jnp.zeros_like(area)
    # Of the energy ½ ∫ (u − ω y)² + (v + ω x)² over the area.
    rows = [
        jnp.stack([area, zero, -first_y], axis=1),
        jnp.stack([zero, area, first_x], axis=1),
        jnp.stack([-first_y, first_x, second], axis=1),
    ]
    return jnp.stack(rows, axis=1)


@by_xla
def added_mass(
    boundaries: Boundaries, poses: Float[Array, "L 3"]
) -> tuple[Float[Array, "L 3 L 3"], Float[Array, "L L"]]:
    """The added masses of bodies with these poses, in a fluid of density 1, in the velocities of each body along,
    across and turning; and the defects, how far the double layer of the density 1 on each body (second index) is from
    its true value, ½ or 0, at the nodes of each body (first).

    Where bodies overlap a defect is never small, since nodes of one are inside of the other or near to its boundary: at
    least 2e-3 for 15000 pairs of ellipses of the aspects 0.01 to 0.3."""
    count = poses.shape[0]
    alone = jax.vmap(_alone)(*boundaries)
    n = alone.layers.shape[1]
    unknowns = count * n
    layers, defects = _layers_on_others(boundaries, poses)
    own = jnp.eye(count, dtype=poses.dtype)[:, None, :, None]
    layers = layers + own * alone.layers[:, :, None]
    defects = defects + jnp.diag(jnp.max(jnp.abs(alone.defects), axis=1))
    inner = (own * alone.inner[:, :, None]).reshape(unknowns, count * 3)
    # (½ + K) χ = h for each of the motions; the energy of the fluid is ½ ∮ (χ − h) g.
    matrix = layers.reshape(unknowns, unknowns) + jnp.eye(unknowns, dtype=poses.dtype) / 2
    outer = jnp.linalg.solve(matrix, inner) - inner
    mass = jnp.einsum("ita,itb->iab", alone.fluxes, outer.reshape(count, n, 3 * count))
    return mass.reshape(count, 3, count, 3), jax.lax.stop_gradient(defects)


def _cross(a: Float[Array, "*#N 2"], b: Float[Array, "*#N 2"]) -> Float[Array, "..."]:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _interpolation(nodes: int, points: int) -> Float[np.ndarray, "points nodes"]:
    """The trigonometric polynomial through values at equally spaced nodes, at equally spaced points."""
    at = np.arange(points)[:, None] / points
    node = np.arange(nodes)[None] / nodes
    s = 2 * np.pi * (at - node)
    total = np.ones_like(s)
    for k in range(1, (nodes + 1) // 2):
        total += 2 * np.cos(k * s)
    # Of the highest harmonic of an even number of nodes only the cosine is seen there.
    if nodes % 2 == 0:
        total += np.cos(nodes / 2 * s)
    return total / nodes


def _differentiation(nodes: int) -> Float[np.ndarray, "nodes nodes"]:
    """The derivative, at the nodes, of the trigonometric polynomial through values there; that of the highest cosine of
    an even number of nodes is 0."""
    s = 2 * np.pi * (np.arange(nodes)[:, None] - np.arange(nodes)[None]) / nodes
    total = np.zeros_like(s)
    for k in range(1, (nodes + 1) // 2):
        total -= 2 * k * np.sin(k * s)
    return total / nodes


def _alone(points: Float[Array, "M 2"], slopes: Float[Array, "M 2"], bends: Float[Array, "M 2"]) -> Alone:
    """What belongs to one body: every `FINER`-th of the points is a node."""
    total = points.shape[0]
    nodes = total // FINER
    at = points[::FINER]
    tangent = slopes[::FINER]
    interpolation = jnp.asarray(_interpolation(nodes, total), points.dtype)
    radial, turning = _cauchy_kernel(points, slopes, bends)
    layer = turning @ interpolation
    # The flux through the boundary at unit velocities is the normal, and at a unit turn its moment.
    normal = jnp.stack([tangent[:, 1], -tangent[:, 0]], axis=1)
    moment = _cross(at, normal)
    flux = jnp.concatenate([normal, moment[:, None]], axis=1) * (2 * np.pi / nodes)
    of_turn = _inner_of_turn(at, layer, radial, interpolation)
    inner = jnp.concatenate([at, of_turn[:, None]], axis=1)
    # The double layer of the density 1 is ½ on its own boundary.
    defect = jnp.sum(turning, axis=1) - 0.5
    return Alone(layer, inner, flux, defect)


def _cauchy_kernel(
    points: Float[Array, "M 2"], slopes: Float[Array, "M 2"], bends: Float[Array, "M 2"]
) -> tuple[Float[Array, "n M"], Float[Array, "n M"]]:
    """The real and the imaginary part of the kernel y'/(y − x)/2π of Cauchy's integral, in complex numbers, times the
    weight 2π/M of a point y, at the nodes x. The imaginary part is the double layer, which at y = x is half of the
    curvature times |y'|. The real part is singular there, and given as 0."""
    total = points.shape[0]
    nodes = total // FINER
    away = points[None] - points[::FINER][:, None]
    is_same = jnp.asarray(np.arange(total)[None] == FINER * np.arange(nodes)[:, None])
    squared = jnp.where(is_same, 1.0, jnp.sum(away**2, axis=2))
    curvature = _cross(slopes, bends) / jnp.sum(slopes**2, axis=1)
    turning = jnp.where(is_same, curvature[None] / 2, _cross(away, slopes[None]) / squared) / total
    radial = jnp.where(is_same, 0.0, jnp.sum(away * slopes[None], axis=2) / squared) / total
    return radial, turning


def _inner_of_turn(
    at: Float[Array, "n 2"],
    layer: Float[Array, "n n"],
    radial: Float[Array, "n M"],
    interpolation: Float[Array, "M n"],
) -> Float[Array, " n"]:
    """The function h of a unit turn at the nodes: the real part of a Cauchy integral whose imaginary part is known."""
    nodes, total = radial.shape
    conjugate = -jnp.sum(at**2, axis=1) / 2
    density = jnp.linalg.solve(layer + jnp.eye(nodes, dtype=at.dtype) / 2, conjugate)
    # The differences μ(y) − μ(x) of the density μ make the singular part finite, and their product with it at y = x is
    # the derivative of μ.
    differences = (interpolation @ density)[None] - density[:, None]
    change = jnp.asarray(_differentiation(nodes), at.dtype) @ density
    return jnp.sum(radial * differences, axis=1) + change / total


def _layers_on_others(
    boundaries: Boundaries, poses: Float[Array, "L 3"]
) -> tuple[Float[Array, "L n L n"], Float[Array, "L L"]]:
    """The parts of K by which bodies (third axis) act on others (first); how far they are from 0 for the density 1."""
    nodes = boundaries.points.shape[1] // FINER
    total = FINER_ON_OTHERS * nodes
    stride = FINER // FINER_ON_OTHERS
    interpolation = jnp.asarray(_interpolation(nodes, total), poses.dtype)
    points = _rotate(boundaries.points[:, ::stride], poses) + poses[:, None, :2]
    slopes = _rotate(boundaries.slopes[:, ::stride], poses)
    nodes_of = points[:, ::FINER_ON_OTHERS]

    def on(i: Int[Array, ""]) -> tuple[Array, Array]:
        """The parts that act on body i."""
        is_other = (jnp.arange(points.shape[0]) != i)[None, :, None]
        away = points[None] - nodes_of[i][:, None, None]
        squared = jnp.where(is_other, jnp.sum(away**2, axis=3), 1.0)
        kernel = jnp.where(is_other, _cross(away, slopes[None]), 0.0) / squared / total
        of_one = jax.lax.stop_gradient(jnp.sum(kernel, axis=2))
        defect = jnp.max(jnp.abs(of_one), axis=0)
        return kernel @ interpolation, defect

    # One body after the other, since the kernels of many shapes at once fill the memory.
    return jax.lax.map(on, jnp.arange(points.shape[0]))


def _rotate(vectors: Float[Array, "L k 2"], poses: Float[Array, "L 3"]) -> Float[Array, "L k 2"]:
    """The vectors in frames with these poses, in the frame in which these are given."""
    cos = jnp.cos(poses[:, 2, None])
    sin = jnp.sin(poses[:, 2, None])
    ahead, aside = jnp.moveaxis(vectors, 2, 0)
    return jnp.stack([cos * ahead - sin * aside, sin * ahead + cos * aside], axis=2)


def _sides_that_cross(one: Float[Array, "n 2"], other: Float[Array, "k 2"]) -> Bool[Array, "n k"]:
    """Which sides of one closed polygon cross which of the other."""
    sides = jnp.roll(one, -1, axis=0) - one
    other_sides = jnp.roll(other, -1, axis=0) - other
    away = other[None] - one[:, None]
    # To the left or to the right of each side of one polygon: the corners of the other one, by their signs.
    of_other_corners = _cross(sides[:, None], away)
    of_corners = _cross(other_sides[None], away)
    # Two sides cross where the two ends of each lie on different sides of the other.
    other_ends_differ = of_other_corners * jnp.roll(of_other_corners, -1, axis=1) < 0
    ends_differ = of_corners * jnp.roll(of_corners, -1, axis=0) < 0
    return other_ends_differ & ends_differ


def crossing_themselves(boundaries: Boundaries) -> Bool[Array, " L"]:
    """Which boundaries cross themselves, as polygons."""

    def crosses(points: Float[Array, "M 2"]) -> Bool[Array, ""]:
        # Not of the nodes: curves such as figures of eight can cross themselves just there.
        polygon = points[1::FINER]
        count = polygon.shape[0]
        steps = (jnp.arange(count)[:, None] - jnp.arange(count)[None]) % count
        # Neighbouring sides meet in a corner.
        are_apart = (steps > 1) & (steps < count - 1)
        return jnp.any(are_apart & _sides_that_cross(polygon, polygon))

    return jax.vmap(crosses)(boundaries.points)


def overlapping(boundaries: Boundaries, poses: Float[Array, "L 3"]) -> Bool[Array, "L L"]:
    """Which bodies (first axis) cross others or are inside of them, as polygons of their nodes."""
    corners = _rotate(boundaries.points[:, ::FINER], poses) + poses[:, None, :2]

    def overlaps(one: Float[Array, "n 2"], other: Float[Array, "n 2"]) -> Bool[Array, ""]:
        away = other - one[:1]
        after = jnp.roll(away, -1, axis=0)
        # The other one goes around a point inside of it once, by 2π, and around one outside of it by 0.
        turns = jnp.arctan2(_cross(away, after), jnp.sum(away * after, axis=1))
        is_inside = jnp.sum(turns) > np.pi
        return jnp.any(_sides_that_cross(one, other)) | is_inside

    def overlaps_which(one: Float[Array, "n 2"]) -> Bool[Array, " L"]:
        return jax.vmap(lambda other: overlaps(one, other))(corners)

    pairs = jax.vmap(overlaps_which)(corners)
    return pairs & ~jnp.eye(poses.shape[0], dtype=bool)
