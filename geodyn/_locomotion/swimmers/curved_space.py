"""MOTION: bodies that swim in spaces with symmetries: they move by changing shape, without momentum.

In flat space such a body cannot displace its centre of mass by a closed stroke; in a curved space it can move. The mass
at the point x(r) of the body has the velocity `∂x/∂r r' + Σ ξ_a K_a(x)` with the Killing fields K of the space. Lengths
are in units of the radius of curvature. Source: Wisdom, *Science* 299 (2003) 1865; Avron & Kenneth, *New J. Phys.* 8
(2006) 68.
"""

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import as_pytree
from geodyn._foundations.checks import returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Scalar
from geodyn._geometry.geodesics.rays import Fan, end_of_ray
from geodyn._geometry.groups.isometries import fields_of_group, group_of, origin_of
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._geometry.manifold.manifold import AbstractManifold, domain_of, within
from geodyn._geometry.models.charts import cosine, sine_ratio
from geodyn._geometry.models.spaces import AbstractConstantCurvature, Product
from geodyn._geometry.models.thurston import SL2, Nil
from geodyn._locomotion.connections.checks import require_positive, require_shape, rounding
from geodyn._locomotion.connections.connection import check_law, metric_matrix
from geodyn._locomotion.motion.mechanical import AbstractDeformableBody
from geodyn._locomotion.strokes.stroke import floating


class AbstractPointMasses(AbstractDeformableBody):
    """Masses at points of a space with symmetries, set by the shape in the frame of the body.

    A subclass has the field `space`, of which `gd.groups.isometry_group(space)` is known, and `group`, that group, and
    defines `weights() -> [N]`, the masses, and `points(r) -> [N, D]`. In a Euclidean, spherical or hyperbolic space the
    points are those of the embedding space, with their last coordinate 1 in Euclidean space, and the frame of the body
    is at (0, …, 0, 1); in other spaces they are points of the chart, D = n. Lengths are in units of the radius of
    curvature. `gd.swimmers.PointMasses` takes points of a chart in every space.

    Example:
        Two masses on an axis of the plane, the first fixed in the frame of the body: it moves back by m₂/(m₁ + m₂).

        >>> class Pair(gd.swimmers.AbstractPointMasses):
        ...     space: gd.spaces.Euclidean = gd.spaces.Euclidean(2)
        ...     group: gd.groups.AbstractLieGroup = gd.groups.isometry_group(gd.spaces.Euclidean(2))
        ...     def weights(self):
        ...         return jnp.array([3.0, 1.0])
        ...     def points(self, r):
        ...         zero, one = jnp.zeros(()), jnp.ones(())
        ...         return jnp.stack([jnp.stack([zero, zero, one]), jnp.stack([r[0], zero, one])])
        >>> print(gd.connection(Pair(), [1.5])[:, 0].round(6) + 0.0)
        [0.25 0.   0.  ]
    """

    space: eqx.AbstractVar[AbstractManifold]

    @abstractmethod
    def weights(self) -> Float[Array, " N"]:
        """The masses."""

    @abstractmethod
    def points(self, r: Float[Array, " m"]) -> Float[Array, "N D"]:
        """The points: (X, w) in the embedding space of a Euclidean, spherical or hyperbolic space, with w = 1 in the
        first; else in the chart."""

    def kinetic_energy(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        points, rates = jax.jvp(self.points, (r,), (rdot,))
        return jnp.dot(self.weights(), squared_speeds(self.space, points, rates, xi)) / 2


@check_law.register
def _(swimmer: AbstractPointMasses, r: Float[Array, " m"]):
    check_law.dispatch(AbstractDeformableBody)(swimmer, r)
    where = f"{type(swimmer).__name__}: at the shape r = {np.asarray(r)}"
    outside = np.flatnonzero(~np.isfinite(swimmer.points(r)).all(axis=1))
    if outside.size:
        chart = domain_of(swimmer.space).words
        raise ValueError(
            f"{where} the masses {outside.tolist()} are at no points of {type(swimmer.space).__name__}: this chart has "
            f"{chart}, and a leg that is too long loses its digits. Take other shapes"
        )
    k = swimmer.group.dim
    inertia = np.linalg.eigvalsh(metric_matrix(swimmer, r)[:k, :k])
    if inertia[0] <= rounding(inertia.dtype) * inertia[-1]:
        raise ValueError(
            f"{where} a symmetry of the space moves none of the masses, as a turn about an axis on which all of them "
            "are: nothing tells how the body turns. Put a mass beside it"
        )


@functools.singledispatch
def squared_speeds(
    space: Any, points: Float[Array, "N D"], rates: Float[Array, "N D"], xi: Float[Array, " k"]
) -> Float[Array, " N"]:
    """The squared speeds of points of a body with the velocity ξ, which have these rates in its frame."""

    def squared_speed(x: Float[Array, " n"], rate: Float[Array, " n"]) -> Float[Array, ""]:
        velocity = rate + xi @ fields_of_group(space, x)
        return velocity @ space.metric(x) @ velocity

    return jax.vmap(squared_speed)(points, rates)


@squared_speeds.register
def _(
    space: AbstractConstantCurvature, points: Float[Array, "N D"], rates: Float[Array, "N D"], xi: Float[Array, " k"]
) -> Float[Array, " N"]:
    velocity = rates + points @ group_of(space).hat(xi).T
    return jnp.sum(velocity[:, :-1] ** 2, axis=1) + space.chart.curvature * velocity[:, -1] ** 2


@checked
class PointMasses(AbstractPointMasses):
    """A free body of point masses in a space with symmetries, whose places its shape sets.

    In the plane a body that changes its shape and takes the change back has not moved; curvature lets it swim. Space
    and masses may be those of a `gd.System` whose configuration `shape(r)` is, in the frame of the body. It moves along
    the symmetries of the space only, of which `gd.symmetries(space, x).space` knows those of any metric; what none of
    them turns, such as how a body stands in Sol, belongs to its shape. A shape that one of them leaves as it is, such
    as masses on an axis about which the space turns, has no connection, nor has one with points outside of the chart.
    Lengths are in units of the radius of curvature.

    Args:
        space: `gd.spaces.Euclidean(n)`, `Sphere(n)` or `Hyperbolic(n)`, n = 2 or 3, another of `gd.spaces.THURSTON`, a
            product, or the `space` of what `gd.symmetries` has found.
        masses: [N], positive.
        shape: function r[m] -> x[N, n], the points in the chart of the space; an `eqx.Module` has its arrays traced.

    Raises:
        ValueError: for spaces of which no symmetries are known, masses that are not positive, and where shape(r) has
            another shape than [N, n].

    Example:
        Three masses that change two distances move along a sphere, but not in the plane.

        >>> def places(r):
        ...     zero = jnp.zeros(())
        ...     return jnp.stack([jnp.stack([zero, zero]), jnp.stack([r[0], r[1]]), jnp.stack([r[0], -r[1]])])
        >>> stroke = gd.FourierStroke.circle(0.2, centre=(0.3, 0.3))
        >>> for space in (gd.spaces.Euclidean(2), gd.spaces.Sphere(2)):
        ...     body = gd.swimmers.PointMasses(space, [1.0, 1.0, 1.0], places)
        ...     print(f"{jnp.linalg.norm(body.group.log(gd.holonomy(body, stroke))):.6f}")
        0.000000
        0.122615

    Source:
        Wisdom, *Science* 299 (2003) 1865; Avron & Kenneth, *New J. Phys.* 8 (2006) 68.
    """

    space: AbstractManifold
    masses: Float[Array, " N"] = eqx.field(converter=floating)
    shape: Callable[[Array], Array] = eqx.field(converter=as_pytree)

    def __check_init__(self):
        check_space("PointMasses", self.space)
        require_positive("PointMasses", masses=self.masses)

    @property
    def group(self) -> AbstractLieGroup:
        """The isometries of the space."""
        return group_of(self.space)

    def weights(self) -> Float[Array, " N"]:
        return self.masses

    def points(self, r: Float[Array, " m"]) -> Float[Array, "N D"]:
        x = returned("shape", self.shape, r)
        require_shape("PointMasses", "the points shape(r)", x, (self.masses.size, self.space.dim))
        return _embed(self.space, jax.vmap(lambda x: within(self.space, x))(x))


@checked
class TwoLegged(AbstractPointMasses):
    """A mass with two legs in a space with symmetries; its shape is r = (leg l, half angle a).

    The feet are at the distance l from the body, at the angles ±a to the first coordinate, in the plane of the first
    two. In a space of constant curvature K it moves along its axis, the first direction, by `dX = −w df` with
    `w = 2m₁c²/(m₀ + 2m₁c²)`, `c² = 1 − K s²`, `s = sin(√K l) sin a/√K` and `tan(√K f) = tan(√K l) cos a`. In the plane
    `f = l cos a` and `w = 2m₁/(m₀ + 2m₁)`, so that a closed stroke leads nowhere. Lengths are in units of the radius of
    curvature.

    Args:
        space: `gd.spaces.Euclidean(n)`, `Sphere(n)` or `Hyperbolic(n)`, n = 2 or 3, another of `gd.spaces.THURSTON`, a
            product, or the `space` of what `gd.symmetries` has found: the body is then at the point for which it was
            asked.
        masses: (m₀, m₁) of the body and of each foot.

    Raises:
        ValueError: for spaces of which no symmetries are known, and unless there are two positive masses.

    Example:
        >>> stroke = gd.FourierStroke.circle(0.3, centre=(0.6, 0.8))
        >>> for space in (gd.spaces.Euclidean(2), gd.spaces.Sphere(2), gd.spaces.Hyperbolic(2)):
        ...     body = gd.swimmers.TwoLegged(space)
        ...     moved = body.group.log(gd.holonomy(body, stroke))[0]
        ...     print(type(space).__name__, f"{moved.round(6) + 0.0:.4f}")
        Euclidean 0.0000
        Sphere -0.0396
        Hyperbolic 0.0280

    Source:
        Avron & Kenneth, *New J. Phys.* 8 (2006) 68.
    """

    shape_names = ("leg", "half angle (rad)")
    space: AbstractManifold
    masses: Float[Array, "2"] = eqx.field(default=(1.0, 1.0), converter=floating)

    def __check_init__(self):
        check_space("TwoLegged", self.space)
        require_shape("TwoLegged", "masses", self.masses, (2,))
        require_positive("TwoLegged", masses=self.masses)

    @property
    def group(self) -> AbstractLieGroup:
        """The isometries of the space."""
        return group_of(self.space)

    @property
    def first_shape(self) -> Float[Array, "2"]:
        """Half spread legs."""
        return jnp.array([0.8, 0.8])

    @property
    def shape_region(self) -> tuple[Float[Array, "2"], Float[Array, "2"]]:
        """Legs that neither vanish nor meet."""
        return jnp.array([0.3, 0.1]), jnp.array([1.4, 1.4])

    def weights(self) -> Float[Array, " N"]:
        return self.masses[jnp.array([0, 1, 1])]

    def points(self, r: Float[Array, " m"]) -> Float[Array, "N D"]:
        require_shape("TwoLegged", "the shape r", r, (2,))
        return points_of_legs(self.space, r)

    @checked
    def outline(self, r: Float[Array, "2"]) -> Float[Array, "2 17 D"]:
        """The legs, as points on geodesics in the embedding space, or in the chart where `points` are."""
        fractions = jnp.linspace(0.0, 1.0, 17, dtype=r.dtype)
        feet = jax.vmap(lambda s: self.points(jnp.stack([s * r[0], r[1]]))[1:])(fractions)
        return jnp.swapaxes(feet, 0, 1)


@functools.singledispatch
def points_of_legs(space: Any, r: Float[Array, "2"]) -> Float[Array, "3 D"]:
    """The body and the feet of `TwoLegged`."""
    body = origin_of(space).astype(r.dtype)
    frame = jnp.linalg.inv(jnp.linalg.cholesky(space.metric(body))).T

    def foot(side: float) -> Float[Array, " n"]:
        aside = side * frame[:, 1]
        return end_of_leg(space, Fan(body, jnp.stack([frame[:, 0], aside], axis=1)), r[0], r[1])

    return jnp.stack([body, foot(1.0), foot(-1.0)])


@functools.singledispatch
def end_of_leg(space: Any, fan: Fan, length: Scalar, angle: Scalar) -> Float[Array, " n"]:
    """The end of the geodesic of this length at an angle to the axis of the body; NaN where it is too long. Not by
    `gd.exp`, of which the third derivatives that a search for strokes needs compile for minutes."""
    return end_of_ray(space, fan, length, angle)


@end_of_leg.register
def _(space: AbstractConstantCurvature | Nil | SL2, fan: Fan, length: Scalar, angle: Scalar) -> Float[Array, " n"]:
    return space.exp(fan.x, length * fan.velocity(angle))


@end_of_leg.register
def _(space: Product, fan: Fan, length: Scalar, angle: Scalar) -> Float[Array, " n"]:
    sides = jax.vmap(space.split, in_axes=1, out_axes=1)(fan.sides)
    ends = []
    for factor, x, sides_there in zip((space.a, space.b), space.split(fan.x), sides, strict=True):
        ends.append(end_of_leg(factor, Fan(x, sides_there), length, angle))
    return jnp.concatenate(ends)


@points_of_legs.register
def _(space: AbstractConstantCurvature, r: Float[Array, " m"]):
    curvature, zero, one = space.chart.curvature, jnp.zeros_like(r[0]), jnp.ones_like(r[0])
    sine, last = r[0] * sine_ratio(curvature, r[0] ** 2), cosine(curvature, r[0] ** 2)
    ahead, aside = sine * jnp.cos(r[1]), sine * jnp.sin(r[1])
    rest = [zero] * (space.dim - 2)
    rows = [[zero, zero, *rest, one], [ahead, aside, *rest, last], [ahead, -aside, *rest, last]]
    return jnp.stack([jnp.stack(row) for row in rows])


def _embed(space: AbstractManifold, x: Float[Array, "N n"]) -> Float[Array, "N D"]:
    """Points of the chart as `AbstractPointMasses.points` has them."""
    if not isinstance(space, AbstractConstantCurvature):
        return x
    X = jax.vmap(space.embed)(x)
    is_flat = space.chart.curvature == 0
    return jnp.concatenate([X, jnp.ones((X.shape[0], 1), X.dtype)], axis=1) if is_flat else X


def check_space(owner: str, space: AbstractManifold) -> None:
    """ValueError, by the name of a body, unless it can move in this space."""
    if isinstance(space, AbstractConstantCurvature) and space.dim not in (2, 3):
        raise ValueError(f"{owner}: space must have the dimension 2 or 3, got {space!r}.")
    try:
        group_of(space)
    except ValueError as error:
        raise ValueError(f"{owner}: {error}.") from None
