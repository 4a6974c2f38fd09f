"""Convex polyhedra of points, which touch in spaces of constant curvature.

In the embedding a geodesic hull is flat: it is where the cone over its points meets the space. So two hulls are disjoint
if a plane <N, X> = 0 separates their points. With the signs σ = −1 for the points of the first hull and 1 for those of
the second, the planes with σ<N, X> ≥ 1 at all points are a pointed polyhedron, which is empty unless the hulls are
apart. At its corners n + 1 points have the same height σ<N, X>: so it is enough to try the planes of all choices of n +
1 points, and to take the one whose least height is the greatest.

Letters of the shapes: n coordinates of a point, D = n + 1 of its embedding, A and B points of a body, P of both, c pairs
of bodies, s components of a slip."""

import functools
import itertools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._engine.native import native
from geodyn._foundations.checks import shown
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Each, Float, Indices, Int, Scalar
from geodyn._geometry.geodesics.geodesic import log_of
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._geometry.models.charts import cosine, sine_ratio
from geodyn._geometry.models.spaces import AbstractConstantCurvature
from geodyn._mechanics.elements.abstract import Tuples, number
from geodyn._mechanics.elements.contact import AbstractContact, is_elastic
from geodyn._mechanics.touching.pairs import pairs_of


class Hulls(AbstractContact):
    """Convex polyhedra."""

    bodies: Tuples = eqx.field(static=True)
    restitution: Float[Array, "..."]
    pairs: Tuples = eqx.field(static=True)

    @checked
    def __init__(self, bodies: Indices, restitution: Each = 1.0, pairs: Indices | None = None):
        self.bodies = _bodies(bodies)
        self.restitution = number("restitution", restitution, most=1.0)
        self.elastic = is_elastic(restitution)
        self.pairs = pairs_of("Hulls", "body", self.bodies, pairs)

    def gap(self, space, x):
        groups = self._groups(space, x)
        found = [gaps_of_hulls(space, x[first], x[second]) for _, first, second in groups]
        return _in_order(groups, found)

    def _groups(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> list:
        """The pairs by the sizes of their bodies: their numbers [c], and the points [c, A] and [c, B] of the bodies.
        Raises ValueError where there are no such hulls."""
        if not isinstance(space, AbstractConstantCurvature) or space.dim not in (2, 3):
            raise ValueError(
                "Hulls are for Euclidean, Sphere and Hyperbolic spaces of dim 2 and 3, not for this "
                f"{type(space).__name__} of dim {space.dim}: use gd.contact.Capsules or gd.Contact there"
            )
        for body in self.bodies:
            if len(body) <= space.dim:
                raise ValueError(f"bodies of Hulls must have {space.dim + 1} points or more in dim {space.dim}, got {body}")
            if max(body) >= len(x):
                raise ValueError(f"bodies of Hulls name point {max(body)}, but there are {len(x)} points")
        sizes = [tuple(len(self.bodies[k]) for k in pair) for pair in self.pairs]
        groups = []
        for size in sorted(set(sizes)):
            which = [i for i, other in enumerate(sizes) if other == size]
            first, second = (np.array([self.bodies[self.pairs[i][k]] for i in which]) for k in (0, 1))
            groups.append((np.array(which), first, second))
        return groups


def _in_order(groups, found):
    order = np.argsort(np.concatenate([which for which, *_ in groups]))
    every = jnp.concatenate(found)
    return every if len(groups) == 1 else every[order]


@jit
def gaps_of_hulls(
    space: AbstractConstantCurvature, first: Float[Array, "c A n"], second: Float[Array, "c B n"]
) -> Float[Array, " c"]:
    """The gaps of pairs of hulls. A program of its own, which a step asks for many times and which is traced and
    differentiated once."""
    return jax.vmap(lambda first, second: _gap(space, first, second))(first, second)


def _gap(space: AbstractConstantCurvature, first: Float[Array, "A n"], second: Float[Array, "B n"]) -> Scalar:
    curvature = space.chart.curvature
    X = _embedded(space, first, second)
    found = native(functools.partial(_widest, curvature), jax.lax.stop_gradient(X))
    corners = _picked(found.corners, X)
    normal, square = _plane(curvature, corners)
    known = square > 0
    height = found.sign * (normal @ _picked(found.lowest[None], X)[0]) / jnp.sqrt(jnp.where(known, square, 1))
    arc = {1: jnp.arcsin, 0: lambda h: h, -1: jnp.arcsinh}[curvature]
    return jnp.where(known, 2 * arc(height), -1)


def _embedded(space, first: Float[Array, "A n"], second: Float[Array, "B n"]) -> Float[Array, "P D"]:
    """The points of both hulls in the embedding, times −1 for the first, as (w, X')."""
    curvature = space.chart.curvature
    x = jnp.concatenate([first, second])
    if curvature < 0:
        # About a point between both: no digits are lost far out. That point changes nothing, so it has no derivative.
        a, b = jax.lax.stop_gradient((first[0], second[0]))
        middle = space.exp(a, log_of(space, a, b, 0) / 2)
        lengths = jnp.sqrt(jnp.diagonal(space.metric(middle)))
        y = jax.vmap(lambda x: lengths * log_of(space, middle, x, 0))(x)
        squares = jnp.sum(y**2, axis=1)
        w = jax.vmap(lambda square: cosine(-1, square))(squares)
        X = jax.vmap(lambda square: sine_ratio(-1, square))(squares)[:, None] * y
    else:
        X = jax.vmap(space.embed)(x)
        if curvature == 0:
            w, X = jnp.ones(len(x), x.dtype), X - jax.lax.stop_gradient(X[:1])
        else:
            w, X = X[:, -1], X[:, :-1]
    signs = jnp.asarray(np.repeat([-1.0, 1.0], [len(first), len(second)]), x.dtype)
    return signs[:, None] * jnp.concatenate([w[:, None], X], axis=1)


class Plane(NamedTuple):
    """A plane, by the points that have the same height, the sign of its normal, and the lowest of all points."""

    corners: Int[Array, " D"]
    sign: Scalar
    lowest: Int[Array, ""]


def _widest(curvature: int, X: Float[Array, "P D"]) -> Plane:
    """The plane from which all points are furthest away, on their side."""
    choices = jnp.asarray(_choices(*X.shape))
    normals, squares = jax.vmap(lambda choice: _plane(curvature, X[choice]))(choices)
    heights = normals @ X.T
    low, high = jnp.min(heights, axis=1), jnp.max(heights, axis=1)
    known = squares > 0
    size = jnp.sqrt(jnp.where(known, squares, 1))
    best = jnp.argmax(jnp.where(known, jnp.maximum(low, -high) / size, -jnp.inf))
    sign = jnp.where(low[best] > -high[best], 1, -1).astype(X.dtype)
    return Plane(choices[best], sign, jnp.argmin(sign * heights[best]))


@functools.cache
def _choices(points: int, size: int) -> Int[np.ndarray, "_ D"]:
    """All choices of so many points."""
    return np.array(list(itertools.combinations(range(points), size)))


def _picked(which: Int[Array, " k"], X: Float[Array, "P D"]) -> Float[Array, "k D"]:
    """X[which]; by a product, whose derivative is one too."""
    return (which[:, None] == jnp.arange(len(X))[None, :]).astype(X.dtype) @ X


def _plane(curvature: int, corners: Float[Array, "D D"]) -> tuple[Float[Array, " D"], Scalar]:
    """A normal N of the plane above which all corners have the same height, and <N, N>: positive where it is one."""
    along = corners[1:] - corners[:1]
    if len(along) == 2:
        normal = jnp.cross(along[0], along[1])
    else:
        w, X = along[:, 0], along[:, 1:]
        faces = jnp.cross(X[np.array([1, 2, 0])], X[np.array([2, 0, 1])])
        normal = jnp.append(X[0] @ faces[0], -w @ faces)
    return normal, curvature * normal[0] ** 2 + jnp.sum(normal[1:] ** 2)


def _bodies(bodies: Indices) -> Tuples:
    """The bodies as tuples of different points."""
    try:
        found = tuple(tuple(map(int, body)) for body in bodies)
        same = all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(bodies, found))
    except (TypeError, ValueError):
        same, found = False, ()
    if not (same and found):
        raise ValueError(f"bodies must be tuples of point indices, one for each body, got {shown(bodies)}")
    for body in found:
        if min(body, default=-1) < 0 or len(set(body)) < max(len(body), 3):
            raise ValueError(f"bodies must have 3 or more different points with indices ≥ 0 each, got {body}")
    return found
