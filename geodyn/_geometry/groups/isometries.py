"""Isometries of the unit sphere and of hyperbolic space, in two and three dimensions.

With ε² = κ, the Lie algebra of the rotations J and translations K splits into two commuting halves L± = (J ± K/ε)/2,
each of which is the algebra of the quaternions. The group element of a rotation vector and a translation vector is
`exp(ζ·L₊) exp(ζ'·L₋)` with ζ = rotation + ε translation and ζ' = rotation − ε translation, which are complex for κ < 0.
Source: SO(4) and SO⁺(3,1) by quaternions (Ratcliffe, *Foundations of Hyperbolic Manifolds*, chapters 2–4; Misner,
Thorne & Wheeler, *Gravitation*, section 41.5).
"""

import functools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Numbers
from geodyn._geometry.groups.frame_group import FrameGroup, base_of
from geodyn._geometry.groups.homogeneous import Nil, Sol
from geodyn._geometry.groups.lie_group import AbstractLieGroup, algebra_vector, element, inverse_of, square
from geodyn._geometry.groups.product import Product
from geodyn._geometry.groups.rigid import LEVI_CIVITA, SE2, SE3, Translation
from geodyn._geometry.manifold.manifold import AbstractManifold, checked_points
from geodyn._geometry.models.spaces import AbstractConstantCurvature, Euclidean
from geodyn._geometry.models.spaces import Product as ProductSpace
from geodyn._geometry.models.thurston import SL2
from geodyn._geometry.models.thurston import Nil as NilSpace
from geodyn._geometry.models.thurston import Sol as SolSpace


class Isometries(AbstractLieGroup):
    """The isometries of the sphere Sⁿ (the group SO(n+1)) or of hyperbolic space Hⁿ (SO⁺(n, 1)), n = 2 or 3.

    Elements are matrices that act on the points X = (X', w) of the embedding space, those of `space.embed`. ξ holds the
    velocity of the origin (0, 1), then the rotation about it: an angle, or axis times angle, as in the flat limits
    SE(2) and SE(3). `log` is that of the smallest rotations.

    Args:
        n: the dimension of the space, 2 or 3.
        curvature: 1 for the sphere, −1 for hyperbolic space.

    Raises:
        ValueError: for other dimensions and curvatures.

    Example:
        A translation by 0.5 along the first direction of the hyperbolic plane.

        >>> group, space = gd.groups.Isometries(2, -1), gd.spaces.Hyperbolic(2)
        >>> X = group.exp(jnp.array([0.5, 0.0, 0.0])) @ space.embed(jnp.zeros(2))
        >>> print(f"{gd.distance(space, jnp.zeros(2), space.coordinates(X)):.6f}")
        0.500000

    Source:
        Ratcliffe, *Foundations of Hyperbolic Manifolds*, chapters 2–4; Misner, Thorne & Wheeler, *Gravitation*, section
        41.5.
    """

    n: int = eqx.field(static=True)
    curvature: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    translations: int = eqx.field(static=True)

    @checked
    def __init__(self, n: Count, curvature: int):
        if n not in (2, 3) or curvature not in (1, -1):
            raise ValueError(
                f"Isometries: n must be 2 or 3, the curvature 1 or -1, got {n}, {curvature}; flat: SE2, SE3."
            )
        self.n = self.translations = int(n)
        self.curvature = curvature
        self.dim = self.n * (self.n + 1) // 2

    @property
    def generators(self):
        keep = [0, 1, 5] if self.n == 2 else range(6)
        return _generators(self.curvature)[np.ix_(keep, self._rows, self._rows)]

    @checked
    def exp(self, xi: Float[Array, " k"]):
        xi = algebra_vector(self, xi)
        zero = jnp.zeros(1, xi.dtype)
        # The plane lies in the space of the first two axes: it has translations along these, and turns about the third.
        x = jnp.concatenate([xi[:2], zero, zero, zero, xi[2:]]) if self.n == 2 else xi
        shift = _epsilon(self.curvature) * x[:3]
        left, right = _quaternion_units(self.curvature)
        g = jnp.einsum("a,aij,b,bjk->ik", _quaternion(x[3:] + shift), left, _quaternion(x[3:] - shift), right)
        return g.real[np.ix_(self._rows, self._rows)].astype(xi.dtype)

    @checked
    def log(self, g: Float[Array, "d d"]):
        g = element(self, g)
        if self.n == 2:
            # The same isometry in three dimensions, which leaves the third coordinate as it is.
            into = np.eye(4)[:, self._rows]
            g = into @ g @ into.T + np.diag([0.0, 0.0, 1.0, 0.0])
        # g is a product of two quaternions, so that its coordinates in the 16 products of a unit of each half are the
        # outer product of the two, a matrix of rank 1. Each coordinate is a quarter of the trace of g times the inverse
        # of such a product, and the inverse of a unit is its conjugate.
        left, right = _quaternion_units(self.curvature)
        outer = jnp.einsum("a,b,aij,bjk,ki->ab", _CONJUGATE, _CONJUGATE, left, right, g) / 4
        # The largest column is a multiple of the first quaternion.
        column = jnp.take(outer, jnp.argmax(jnp.sum(jnp.abs(outer) ** 2, axis=0)), axis=1)
        first = column / jnp.sqrt(jnp.sum(column**2))
        second = first @ outer
        # Both quaternions with the opposite sign give the same g: those of the smaller rotations are taken.
        sign = jnp.where((first[0] + second[0]).real < 0, -1, 1)
        # The ζ and ζ' of the module's docstring.
        zeta = _rotation(sign * first)
        other = _rotation(sign * second)
        shift = (zeta - other) / (2 * _epsilon(self.curvature))
        rotation = (zeta + other) / 2
        x = jnp.concatenate([shift, rotation]).real.astype(g.dtype)
        return jnp.append(x[:2], x[5]) if self.n == 2 else x

    @checked
    def inverse(self, g: Float[Array, "d d"]):
        signs = np.append(np.ones(self.n), self.curvature)
        return inverse_of(self, g, lambda g: g.T * jnp.asarray(np.outer(signs, signs), g.dtype))

    @property
    def _plane(self) -> int | None:
        return self.curvature if self.n == 2 else None

    @property
    def _is_homogeneous(self) -> bool:
        # They act on the embedding space, and move its origin nowhere.
        return False

    @property
    def _rows(self):
        return [0, 1, 3] if self.n == 2 else [0, 1, 2, 3]


@checked
def isometry_group(space: AbstractManifold) -> AbstractLieGroup:
    """The group of the isometries of a space that can be reached from the identity, its rigid motions.

    Args:
        space: a line, a `gd.spaces.Euclidean`, `Sphere` or `Hyperbolic` of dimension 2 or 3, a `Product` of such
            spaces, one of `gd.spaces.THURSTON`, or the `space` of what `gd.symmetries` has found.

    Returns:
        The group: `Translation(1)`, `SE2` or `SE3` of a Euclidean space, `Isometries` of a sphere or a hyperbolic
        space, a `gd.groups.Product` of a product, `gd.groups.Nil` or `Sol`, else a `gd.groups.FrameGroup`.

    Raises:
        ValueError: for other spaces, and other dimensions.

    Example:
        >>> spaces = gd.spaces.Euclidean(2), gd.spaces.Euclidean(3), gd.spaces.Sphere(3), gd.spaces.THURSTON["H2xE"]
        >>> groups = [gd.groups.isometry_group(space) for space in spaces]
        >>> print([(type(group).__name__, group.dim) for group in groups])
        [('SE2', 3), ('SE3', 6), ('Isometries', 6), ('Product', 4)]
    """
    return group_of(space)


@functools.singledispatch
def group_of(space: Any) -> AbstractLieGroup:
    """The computation of `isometry_group`; spaces of which it is known register here."""
    raise ValueError(
        f"space must be one whose isometries are known as a group, got a {type(space).__name__}: where it has "
        "symmetries, gd.symmetries(space, x) finds them, and its .space is such a space"
    )


@group_of.register
def _(space: AbstractConstantCurvature):
    curvature = space.chart.curvature
    n = space.dim
    if n > 3 or (n < 2 and curvature):
        raise ValueError(
            f"space must have the dimension 2 or 3, or be a line, got {space!r}: gd.symmetries(space, x) finds the "
            "symmetries of a space of any dimension, and its .space is one whose isometries are known as a group"
        )
    if curvature == 0:
        return (Translation(1), SE2(), SE3())[n - 1]
    return Isometries(n, curvature)


@group_of.register
def _(space: ProductSpace):
    if sum(isinstance(factor, Euclidean) for factor in _factors(space)) > 1:
        raise ValueError(
            "space is a product with several Euclidean factors, which turn into each other: write them as one "
            "gd.spaces.Euclidean(n)"
        )
    return Product(*map(group_of, _factors(space)))


def _factors(space: ProductSpace) -> list[AbstractManifold]:
    """The factors of a product, and those of factors that are products."""
    return [
        factor
        for part in (space.a, space.b)
        for factor in (_factors(part) if isinstance(part, ProductSpace) else [part])
    ]


@group_of.register
def _(space: NilSpace):
    return Nil()


@group_of.register
def _(space: SolSpace):
    return Sol()


@group_of.register
def _(space: SL2):
    return FrameGroup(space)


@checked
def act(space: AbstractManifold, g: Float[Array, "d d"], x: Numbers) -> Float[Array, " n"]:
    """Where an isometry of a space takes a point.

    Args:
        space: a space of which `gd.groups.isometry_group` knows the group.
        g: an element of that group, such as one of `gd.path`.
        x: the point of the chart [n]: of a body that swims, a point in its own frame.

    Returns:
        The point of the chart [n].

    Raises:
        ValueError: for other spaces, and unless g and x have these shapes.

    Example:
        A translation of Nil along x lifts the points beside the axis.

        >>> space = gd.spaces.Nil()
        >>> g = gd.groups.isometry_group(space).exp(jnp.array([1.0, 0.0, 0.0, 0.0]))
        >>> print(gd.groups.act(space, g, [0.0, 0.5, 0.0]))
        [1.   0.5  0.25]
    """
    (x,) = checked_points(space, x=x)
    return act_on(space, square(group_of(space), g), x)


@functools.singledispatch
def act_on(space: AbstractManifold, g: Float[Array, "d d"], x: Float[Array, " n"]) -> Float[Array, " n"]:
    """The computation of `act`."""
    return group_of(space)._moved(g, x)


@act_on.register
def _(space: AbstractConstantCurvature, g: Float[Array, "d d"], x: Float[Array, " n"]) -> Float[Array, " n"]:
    X = space.embed(x)
    if space.chart.curvature == 0:
        return space.coordinates((g @ jnp.append(X, jnp.ones_like(X[0])))[:-1])
    return space.coordinates(g @ X)


@act_on.register
def _(space: ProductSpace, g: Float[Array, "d d"], x: Float[Array, " n"]) -> Float[Array, " n"]:
    size = group_of(space.a).size
    first, second = space.split(x)
    return jnp.concatenate([act_on(space.a, g[:size, :size], first), act_on(space.b, g[size:, size:], second)])


@functools.singledispatch
def origin_of(space: AbstractManifold) -> Float[Array, " n"]:
    """The point of the chart whose frame the identity of `isometry_group(space)` is."""
    base = base_of(space)
    return jnp.zeros(space.dim) if base is None else base.origin


@origin_of.register
def _(space: AbstractConstantCurvature):
    return jnp.zeros(space.dim) if space.chart.curvature == 0 else space.coordinates(jnp.eye(space.dim + 1)[-1])


@origin_of.register
def _(space: ProductSpace):
    return jnp.concatenate([origin_of(space.a), origin_of(space.b)])


@functools.singledispatch
def fields_of_group(space: Any, x: Float[Array, " n"]) -> Float[Array, "k n"]:
    """How the generators of `isometry_group(space)` move a point x of the chart."""
    return space.killing_fields(x)


@fields_of_group.register
def _(space: AbstractConstantCurvature, x: Float[Array, " n"]) -> Float[Array, "k n"]:
    fields = space.killing_fields(x)
    if space.dim < 3:
        return fields
    # Rotations of the pairs (0, 1), (0, 2), (1, 2) are those about the axes 2, −1, 0.
    translations, (about_2, against_1, about_0) = fields[:3], fields[3:]
    return jnp.concatenate([translations, jnp.stack([about_0, -against_1, about_2])])


@fields_of_group.register
def _(space: ProductSpace, x: Float[Array, " n"]) -> Float[Array, "k n"]:
    first, second = space.split(x)
    return block_diag(fields_of_group(space.a, first), fields_of_group(space.b, second))


_CONJUGATE = np.array([1.0, -1.0, -1.0, -1.0])


def _generators(curvature: int) -> np.ndarray:
    """The translations K and the rotations J, [6, 4, 4]."""
    e = np.zeros((6, 4, 4))
    # The translation K_i moves (X', w) at the rate X_i' = w, w' = −κ X_i.
    e[:3, :3, 3] = np.eye(3)
    e[:3, 3, :3] = -curvature * np.eye(3)
    e[3:, :3, :3] = -LEVI_CIVITA
    return e


def _epsilon(curvature: int) -> float | complex:
    """The square root of the curvature."""
    return 1.0 if curvature == 1 else 1j


def _quaternion_units(curvature: int) -> tuple[np.ndarray, np.ndarray]:
    """The units 1, 2L₊ and 1, 2L₋ of two algebras of quaternions that commute with each other, each [4, 4, 4]."""
    e = _generators(curvature)
    halves = [e[3:] + sign * e[:3] / _epsilon(curvature) for sign in (1, -1)]
    return tuple(np.concatenate([np.eye(4)[None], half]) for half in halves)


def _quaternion(zeta: Array) -> Array:
    """The unit quaternion (cos h, ζ/2 · sin h/h) with h² = ζ·ζ/4, real or complex."""
    y = jnp.sum(zeta**2) / 4
    # For small h both are Taylor series in y = h², without the root, which has no derivative at 0.
    small = jnp.abs(y) < 1.0
    low = jnp.where(small, y, 0.0)
    high = jnp.where(small, 1.0, y)
    cosine = jnp.ones_like(y)
    ratio = jnp.ones_like(y)
    for n in range(10, 0, -1):
        cosine = 1 - low * cosine / ((2 * n - 1) * 2 * n)
        ratio = 1 - low * ratio / (2 * n * (2 * n + 1))
    h = jnp.sqrt(high)
    cosine = jnp.where(small, cosine, jnp.cos(h))
    ratio = jnp.where(small, ratio, jnp.sin(h) / h)
    return jnp.concatenate([cosine[None], zeta / 2 * ratio])


def _rotation(q: Array) -> Array:
    """The vector ζ of a unit quaternion, the inverse of `_quaternion`: 2h / sin h times its vector part.

    The square of the vector part is s² = sin² h. Near the unit 1, h / sin h follows from the series of the arctangent,
    in tan² h = s² / cos² h; elsewhere h is the angle of (cos h, s)."""
    square = jnp.sum(q[1:] ** 2)
    # Then |tan² h| < 0.15/0.85, and the 23 terms leave (0.15/0.85)²³/47 = 1e-19 of the series, less than rounding.
    small = (jnp.abs(square) < 0.15) & (q[0].real > 0)
    low = jnp.where(small, square / jnp.where(small, q[0], 1.0) ** 2, 0.0)
    high = jnp.where(small, 1.0, square)
    series = jnp.zeros_like(low)
    for n in range(22, -1, -1):
        series = 1 / (2 * n + 1) - low * series
    series = series / jnp.where(small, q[0], 1.0)
    s = jnp.sqrt(high)
    if jnp.iscomplexobj(q):
        s = jnp.where((q[0].conj() * 1j * s).real < 0, -s, s)  # Far out, the sum below cancels for the other root.
        closed = -1j * jnp.log(q[0] + 1j * s) / s
    else:
        closed = jnp.arctan2(s, q[0]) / s
    return 2 * jnp.where(small, series, closed) * q[1:]
