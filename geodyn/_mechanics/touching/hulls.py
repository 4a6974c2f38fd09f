"""Convex polyhedra of points, which touch in spaces of constant curvature.

In the embedding a geodesic hull is flat: it is where the cone over its points meets the space. So two hulls are
disjoint if a plane <N, X> = 0 separates their points. Let σ be −1 for the points of the first hull and 1 for those of
the second. In the space of the normals N, those with σ<N, X> ≥ 1 at all points make up a pointed polyhedron, which is
empty unless the hulls are apart. At its corners n + 1 points have the same height σ<N, X>. So it is enough to try, for
each choice of n + 1 points, the plane above which they have the same height, and to take the plane whose least height
is the greatest.

Letters of the shapes: n coordinates of a point, D = n + 1 of its embedding, A and B points of a body, P of both, c
pairs of bodies, s components of a slip."""

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._engine.native import native
from geodyn._engine.numerics.linalg import adjugate
from geodyn._foundations.checks import shown
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Each, Float, Indices, Int, Scalar
from geodyn._geometry.geodesics.distances import log_of
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._geometry.models.charts import cosine, sine_ratio
from geodyn._geometry.models.spaces import AbstractConstantCurvature, Euclidean
from geodyn._mechanics.elements.abstract import Tuples, number, once_each
from geodyn._mechanics.elements.contact import AbstractFrictionalContact, coefficient, is_elastic
from geodyn._mechanics.elements.friction import tangential
from geodyn._mechanics.touching.pairs import meeting, pairs_of


class Hulls(AbstractFrictionalContact):
    """Convex polyhedra that touch, in 2 dimensions polygons: each the geodesic hull of points of the body.

    Something holds the points of a polyhedron together: with a `gd.Rod` between any two of them it is rigid, with
    `gd.Spring` elastic. So vertices strike faces, and edges strike edges, in Euclidean, spherical and hyperbolic spaces
    of dimension 2 and 3. Other spaces have no flat faces; `gd.contact.Capsules` are for them. An impact moves the
    points at the corners of the faces and edges that meet. So the momenta of all symmetries of the space are conserved,
    and with the restitution 1 the energy.

    Two bodies have one contact. If two faces meet flat, or an edge and a face, the blow acts at a corner or a crossing
    of what they have in common, the one that rounding picks, as if the bodies were tilted by as little; and at another
    one right after, where they still approach. So two cubes that meet face to face spin afterwards, though by symmetry
    they would not. `gd.rigid.Polyhedra` has all contacts of two faces, with the method `gd.methods.Moreau`; against a
    plane a `gd.Wall` has one for each vertex.

    The gap is positive where the hulls are disjoint, 0 where they touch, and negative where they overlap. It is twice
    the distance from a plane between both to the nearest of all points, for the best of the planes that have the same
    distance from n + 1 of the points, in n dimensions. In flat space it is the distance of the hulls where these points
    are the corners of what is nearest, such as a vertex and a face, else less. In curved space it is not a distance:
    where they are about to touch, it is less on the sphere and more in hyperbolic space, by a factor between 1 and cos
    R or cosh R for bodies in balls of the radius R.

    With friction they slip on each other at the point where they touch.

    The planes of all choices of n + 1 points are tried: 70 for two tetrahedra, 1820 for two cubes.

    Args:
        bodies: a tuple of points for each body, n + 1 or more; they may have different numbers of points. On the sphere
            each body is in an open hemisphere.
        restitution: Newton's coefficient of restitution, from 0 to 1, one number or one per pair.
        friction: Coulomb's coefficient of friction ≥ 0, one number or one per pair.
        pairs: the pairs of bodies [c, 2], by their numbers, that may touch; by default all that have no point in
            common.

    Raises:
        ValueError: for bodies that are no tuples of different points, have fewer than n + 1, name points that do not
            exist, or stand there twice; for a restitution outside [0, 1] and a friction below 0; for pairs that are
            none, name bodies that do not exist, have a point in common, or stand there twice; and in other spaces.

    Example:
        A triangle flies at 1 with a vertex ahead and strikes the side of another in its middle: they exchange their
        velocities.

        >>> hulls = gd.contact.Hulls([(0, 1, 2), (3, 4, 5)])
        >>> sides = gd.Rod([(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)], length=1.0)
        >>> triangles = gd.System(gd.spaces.Euclidean(2), [1.0] * 6, sides, hulls)
        >>> h = np.sqrt(0.75)
        >>> q0 = [[0.0, 0.0], [-h, 0.5], [-h, -0.5], [1.0, 0.5], [1.0, -0.5], [1.0 + h, 0.0]]
        >>> v0 = [[1.0, 0.0]] * 3 + [[0.0, 0.0]] * 3
        >>> motion = gd.integrate(triangles, q0, v0, t1=2.0, steps=20)
        >>> print(f"{motion.impacts.t[0]:.6f}", (motion.v[-1, :, 0].round(6) + 0.0).tolist())
        1.000000 [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]

    Source:
        Ericson, *Real-Time Collision Detection* (2005), section 9.2; Ratcliffe, *Foundations of Hyperbolic Manifolds*,
        section 6.2.
    """

    bodies: Tuples = eqx.field(static=True)
    restitution: Float[Array, "..."]
    friction: Float[Array, "..."] | None
    pairs: Tuples = eqx.field(static=True)

    @checked
    def __init__(
        self, bodies: Sequence[Indices], restitution: Each = 1.0, friction: Each = 0.0, pairs: Indices | None = None
    ):
        self.bodies = _bodies(bodies)
        self.restitution = number("restitution", restitution, most=1.0)
        self.elastic = is_elastic(restitution)
        self.friction = coefficient(friction)
        self.pairs = pairs_of("Hulls", "body", self.bodies, pairs)

    def gap(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " c"]:
        found = []
        for a, b in self._alike(space, x):
            found.append(gaps_of_hulls(space, x[a], x[b]))
        return self._in_order(found)

    def slip(self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"]) -> Float[Array, "c s"]:
        found = []
        for a, b in self._alike(space, x):
            found.append(slips_of_hulls(space, x[a], x[b], v[a], v[b]))
        return self._in_order(found)

    def _alike(self, space: AbstractManifold, x: Float[Array, "N n"]) -> list[tuple[np.ndarray, np.ndarray]]:
        """The points [c, A] and [c, B] of the first and the second bodies of all pairs, those with bodies of the same
        sizes together. Raises ValueError where there are no such hulls."""
        if not isinstance(space, AbstractConstantCurvature) or space.dim not in (2, 3):
            raise ValueError(
                "Hulls are for Euclidean, spherical and hyperbolic spaces of dim 2 and 3, not for "
                f"{type(space).__name__} of dim {space.dim}: take gd.contact.Capsules or gd.Contact there"
            )
        for body in self.bodies:
            if len(body) <= space.dim:
                wanted = f"{space.dim + 1} points or more each in dim {space.dim}"
                raise ValueError(f"bodies of Hulls must have {wanted}, got {body}")
            if max(body) >= len(x):
                raise ValueError(f"bodies of Hulls name point {max(body)}, but there are {len(x)} points")
        found = []
        for which in self._groups().values():
            first = [self.bodies[self.pairs[i][0]] for i in which]
            second = [self.bodies[self.pairs[i][1]] for i in which]
            found.append((np.array(first), np.array(second)))
        return found

    def _points_at(self, points: int, contacts: int) -> list[tuple[int, ...]]:
        return meeting(self.bodies, self.pairs)

    def _groups(self) -> dict[tuple[int, ...], list[int]]:
        """The numbers of the pairs, by the sizes of their bodies."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, pair in enumerate(self.pairs):
            sizes = tuple(len(self.bodies[k]) for k in pair)
            groups.setdefault(sizes, []).append(i)
        return groups

    def _in_order(self, found: list[Array]) -> Float[Array, "c ..."]:
        """What was found for pairs of the same sizes, in the order of the pairs."""
        order = np.argsort(np.concatenate([*self._groups().values()]))
        return found[0] if len(found) == 1 else jnp.concatenate(found)[order]


@jit
def gaps_of_hulls(
    space: AbstractConstantCurvature, first: Float[Array, "c A n"], second: Float[Array, "c B n"]
) -> Float[Array, " c"]:
    """The gaps of pairs of hulls. A program of its own, which a step asks for many times and which is traced and
    differentiated once."""
    return jax.vmap(lambda first, second: _gap(space, first, second))(first, second)


@jit
def slips_of_hulls(
    space: AbstractConstantCurvature,
    first: Float[Array, "c A n"],
    second: Float[Array, "c B n"],
    u: Float[Array, "c A n"],
    w: Float[Array, "c B n"],
) -> Float[Array, "c s"]:
    """The slips of pairs of hulls whose points have the velocities u and w."""
    return jax.vmap(lambda *pair: _slip(space, *pair))(first, second, u, w)


def _gap(space: AbstractConstantCurvature, first: Float[Array, "A n"], second: Float[Array, "B n"]) -> Scalar:
    curvature = space.chart.curvature
    X = _embed(space, first, second)
    found = _widest_of(curvature, X, len(first))
    normal, square = _plane(curvature, _pick(found.corners, X))
    if curvature:
        is_middle = found.corners[1] == found.corners[2]
        middle, middle_square = _middle(curvature, X[0], X[len(first)])
        normal = jnp.where(is_middle, middle, normal)
        square = jnp.where(is_middle, middle_square, square)
    # False where the square is NaN, so that the gap is NaN there too.
    is_none = square <= 0
    length = jnp.sqrt(jnp.where(is_none, 1, square))
    lowest = _pick(found.lowest[None], X)[0]
    height = found.sign * (normal @ lowest) / length
    arc = {1: jnp.arcsin, 0: lambda h: h, -1: jnp.arcsinh}[curvature]
    # Hulls that no plane separates overlap: a negative number, the same in all units, which has no slope to follow.
    return jnp.where(is_none, -1, 2 * arc(height))


def _slip(
    space: AbstractConstantCurvature,
    first: Float[Array, "A n"],
    second: Float[Array, "B n"],
    u: Float[Array, "A n"],
    w: Float[Array, "B n"],
) -> Float[Array, " s"]:
    """The relative velocity of the places of two hulls that touch, without its parts along the place and along the
    normal. The place is a sum P = Σ λX of points of one hull, and also of the other. The result is multiplied by 2/Σ λ,
    the rate at which the gap grows with the relative velocity along the normal (see `tangential`)."""
    curvature = space.chart.curvature
    X, V = jax.jvp(lambda *x: _embed(space, *x), (first, second), (u, w))
    corners = _widest_of(curvature, X, len(first)).corners
    X = _pick(corners, X)
    V = _pick(corners, V)
    normal, square = _plane(curvature, X)
    share = _shares(X, normal)
    of_first = corners < len(first)
    here = share * of_first
    there = share * ~of_first
    # Divided by its size each sum is a point: the same place of both hulls, for the first with the opposite sign.
    P = here @ X
    size = _size(curvature, P)
    here = here / size
    there = there / _size(curvature, there @ X)
    velocity = (here + there) @ V
    if curvature:
        # A reflection takes the place to the origin. The first coordinates of tangent vectors there are 0, and their
        # others are those of a vector of flat space.
        form = jnp.asarray([1.0, *[curvature] * space.dim], X.dtype)  # w² + κ X'·X', which is constant on the space
        mirror = _mirror(-P / size)
        normal = _reflect(form, mirror, form * normal)
        velocity = _reflect(form, mirror, velocity)
    total = jnp.sum(here + there)
    grows = 2 / jnp.where(total > 0, total, 1) / jnp.sqrt(jnp.where(square > 0, square, 1))
    return tangential(Euclidean(space.dim), jnp.zeros_like(first[0]), grows * normal[1:], velocity[1:])


def _shares(X: Float[Array, "D D"], normal: Float[Array, " D"]) -> Float[Array, " D"]:
    """The λ ≥ 0 with Σ λX = 0: where two hulls touch, their points X, with both signs, are linearly dependent."""
    share = adjugate(X).T @ normal
    share = jnp.where(jnp.sum(share) < 0, -share, share)
    return jnp.maximum(share, 0)


def _mirror(P: Float[Array, " D"]) -> Float[Array, " D"]:
    """The vector of the reflection that maps the point P to the origin or to minus the origin: to the farther of the
    two, so that the vector is not short."""
    origin = jnp.asarray(np.arange(len(P)) == 0, P.dtype)
    return P + origin * jnp.where(P[0] < 0, -1, 1)


def _reflect(form: Float[Array, " D"], mirror: Float[Array, " D"], y: Float[Array, " D"]) -> Float[Array, " D"]:
    """The mirror image of y in the plane that is normal to `mirror` in the quadratic form."""
    return y - mirror * (2 * jnp.sum(form * mirror * y) / jnp.sum(form * mirror**2))


def _size(curvature: int, P: Float[Array, " D"]) -> Scalar:
    """The factor by which a sum of points is longer than a point; 1 where there is none."""
    square = P[0] ** 2 + curvature * jnp.sum(P[1:] ** 2)
    return jnp.sqrt(jnp.where(square > 0, square, 1))


def _embed(
    space: AbstractConstantCurvature, first: Float[Array, "A n"], second: Float[Array, "B n"]
) -> Float[Array, "P D"]:
    """The points of both hulls in the embedding, times −1 for the first, as (w, X')."""
    curvature = space.chart.curvature
    x = jnp.concatenate([first, second])
    if curvature < 0:
        w, X = _embed_about_the_middle(space, x, first[0], second[0])
    elif curvature == 0:
        X = jax.vmap(space.embed)(x)
        w = jnp.ones(len(x), x.dtype)
        # Measured from the first point, so that no digits are lost far from the origin.
        X = X - jax.lax.stop_gradient(X[:1])
    else:
        X = jax.vmap(space.embed)(x)
        w = X[:, -1]
        X = X[:, :-1]
    signs = jnp.asarray(np.repeat([-1.0, 1.0], [len(first), len(second)]), x.dtype)
    return signs[:, None] * jnp.concatenate([w[:, None], X], axis=1)


def _embed_about_the_middle(
    space: AbstractConstantCurvature, x: Float[Array, "P n"], a: Float[Array, " n"], b: Float[Array, " n"]
) -> tuple[Float[Array, " P"], Float[Array, "P n"]]:
    """(w, X') of points of hyperbolic space, with the origin in the middle between a and b: no digits are lost far
    out. Where the origin is changes nothing, so it has no derivative."""
    a, b = jax.lax.stop_gradient((a, b))
    middle = space.exp(a, log_of(space, a, b, 0) / 2)
    lengths = jnp.sqrt(jnp.diagonal(space.metric(middle)))
    y = jax.vmap(lambda x: lengths * log_of(space, middle, x, 0))(x)
    squares = jnp.sum(y**2, axis=1)
    w = jax.vmap(lambda square: cosine(-1, square))(squares)
    ratios = jax.vmap(lambda square: sine_ratio(-1, square))(squares)
    return w, ratios[:, None] * y


class Plane(NamedTuple):
    """A plane, by the points that have the same height, the sign of its normal, and the lowest of all points. Of the
    plane in the middle between the first points of both bodies the last corners are the same."""

    corners: Int[Array, " D"]
    sign: Scalar
    lowest: Int[Array, ""]


def _widest_of(curvature: int, X: Float[Array, "P D"], first: int) -> Plane:
    """The plane with the greatest distance from the nearest of all points, with each body on its own side; `first` is
    the number of points of the first body. A search has no derivative."""
    return native(functools.partial(_widest, curvature, first), jax.lax.stop_gradient(X))


def _widest(curvature: int, first: int, X: Float[Array, "P D"]) -> Plane:
    choices = jnp.asarray(_choices(*X.shape))
    normals, squares = jax.vmap(lambda choice: _plane(curvature, X[choice]))(choices)
    if curvature:
        # Far out in hyperbolic space the other planes lose their digits.
        middle, square = _middle(curvature, X[0], X[first])
        its_corners = [0, *[first] * (X.shape[1] - 1)]
        normals = jnp.concatenate([normals, middle[None]])
        squares = jnp.append(squares, square)
        choices = jnp.concatenate([choices, jnp.asarray([its_corners], choices.dtype)])
    heights = normals @ X.T
    # All points are on the same side of a plane that separates the bodies, since those of the first have the sign −1.
    low = jnp.min(heights, axis=1)
    high = jnp.max(heights, axis=1)
    known = squares > 0
    size = jnp.sqrt(jnp.where(known, squares, 1))
    separation = jnp.where(known, jnp.maximum(low, -high) / size, -jnp.inf)
    best = jnp.argmax(separation)
    sign = jnp.where(low[best] > -high[best], 1, -1).astype(X.dtype)
    return Plane(choices[best], sign, jnp.argmin(sign * heights[best]))


@functools.cache
def _choices(points: int, size: int) -> Int[np.ndarray, "_ D"]:
    """All choices of so many points."""
    choices = itertools.combinations(range(points), size)
    return np.array(list(choices))


def _pick(which: Int[Array, " k"], X: Float[Array, "P D"]) -> Float[Array, "k D"]:
    """X[which]; by a product, whose derivative is one too."""
    is_picked = which[:, None] == jnp.arange(len(X))[None, :]
    return is_picked.astype(X.dtype) @ X


def _plane(curvature: int, corners: Float[Array, "D D"]) -> tuple[Float[Array, " D"], Scalar]:
    """A normal N of the plane above which all corners have the same height, and <N, N>. This is positive if there is
    such a plane in the space."""
    along = corners[1:] - corners[:1]
    if len(along) == 2:
        normal = jnp.cross(along[0], along[1])
    else:
        w = along[:, 0]
        X = along[:, 1:]
        # The cross product of three vectors of R⁴, which is normal to all of them, by cross products in R³.
        faces = jnp.cross(X[np.array([1, 2, 0])], X[np.array([2, 0, 1])])
        normal = jnp.append(X[0] @ faces[0], -w @ faces)
    return normal, curvature * normal[0] ** 2 + jnp.sum(normal[1:] ** 2)


def _middle(curvature: int, a: Float[Array, " D"], b: Float[Array, " D"]) -> tuple[Float[Array, " D"], Scalar]:
    """The plane in the middle between two points of curved space, as in `_plane`. The points are −a and b: those of the
    first body have the opposite sign."""
    form = jnp.asarray([curvature, *[1] * (len(a) - 1)], a.dtype)
    normal = form * (a + b)
    return normal, curvature * normal[0] ** 2 + jnp.sum(normal[1:] ** 2)


def _bodies(bodies: Sequence[Indices]) -> Tuples:
    """The bodies as tuples of different points; ValueError where they are none."""
    found = []
    for body in map(np.asarray, bodies):
        points = body.tolist()
        # Points that stand there twice leave fewer different ones than there are indices.
        if body.ndim != 1 or len(set(points)) < max(body.size, 3) or body.min() < 0:
            wanted = "3 or more different points with indices ≥ 0 each"
            raise ValueError(f"bodies of Hulls must have {wanted}, got {shown(points)}")
        found.append(tuple(points))
    return once_each("bodies of Hulls", tuple(found))
