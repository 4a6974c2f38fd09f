"""MOTION: bodies that swim in spaces of constant curvature: they move by changing shape, without momentum.

In flat space such a body cannot displace its centre of mass by a closed stroke; in a curved space it can move. Lengths
are in units of the radius of curvature. Source: Wisdom, *Science* 299 (2003) 1865; Avron & Kenneth, *New J. Phys.* 8
(2006) 68.
"""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._engine.jit import as_pytree
from geodyn._foundations.checks import returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float
from geodyn._geometry.groups.isometries import isometry_group
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._geometry.models.charts import cosine, sine_ratio
from geodyn._geometry.models.spaces import AbstractConstantCurvature
from geodyn._locomotion.connections.checks import require_positive, require_shape
from geodyn._locomotion.motion.mechanical import AbstractDeformableBody
from geodyn._locomotion.strokes.stroke import floating


class AbstractPointMasses(AbstractDeformableBody):
    """Masses at points of a Euclidean, spherical or hyperbolic space, set by the shape in the frame of the body.

    A subclass has the fields `space` (`gd.spaces.Euclidean`, `Sphere` or `Hyperbolic`, of dimension 2 or 3) and `group`
    (`gd.groups.isometry_group(space)`) and defines `weights() -> [N]`, the masses, and `points(r) -> [N, D]`, the
    points of the embedding space with their last coordinate 1 in Euclidean space; the frame of the body is at (0, …, 0,
    1). Lengths are in units of the radius of curvature. `gd.swimmers.PointMasses` takes points of a chart instead.

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

    space: eqx.AbstractVar[AbstractConstantCurvature]

    @abstractmethod
    def weights(self) -> Float[Array, " N"]:
        """The masses."""

    @abstractmethod
    def points(self, r: Float[Array, " m"]) -> Float[Array, "N D"]:
        """The points (X, w) in the embedding space, with w = 1 in Euclidean space; the body frame is at (0, 1)."""

    def kinetic_energy(self, r, xi, rdot):
        X, rates = jax.jvp(self.points, (r,), (rdot,))
        velocity = rates + X @ self.group.hat(xi).T
        squares = jnp.sum(velocity[:, :-1] ** 2, axis=1) + self.space.chart.curvature * velocity[:, -1] ** 2
        return jnp.dot(self.weights(), squares) / 2


@checked
class PointMasses(AbstractPointMasses):
    """A free body of point masses in a space of constant curvature, whose places its shape sets.

    In the plane a body that changes its shape and takes the change back has not moved; curvature lets it swim. Space
    and masses may be those of a `gd.System` whose configuration `shape(r)` is, in the frame of the body. Lengths are in
    units of the radius of curvature.

    Args:
        space: `gd.spaces.Euclidean(n)`, `Sphere(n)` or `Hyperbolic(n)`, n = 2 or 3.
        masses: [N], positive.
        shape: function r[m] -> x[N, n], the points in the chart of the space; an `eqx.Module` has its arrays traced.

    Raises:
        ValueError: for other spaces, masses that are not positive, and where shape(r) has another shape than [N, n].

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

    space: AbstractConstantCurvature
    masses: Float[Array, " N"] = eqx.field(converter=floating)
    shape: Callable[[Array], Array] = eqx.field(converter=as_pytree)
    group: AbstractLieGroup = eqx.field(init=False)

    def __post_init__(self):
        self.group = _group_of("PointMasses", self.space)

    def __check_init__(self):
        require_positive("PointMasses", masses=self.masses)

    def weights(self):
        return self.masses

    def points(self, r):
        x = returned("shape", self.shape, r)
        require_shape("PointMasses", "the points shape(r)", x, (self.masses.size, self.space.dim))
        X = jax.vmap(self.space.embed)(x)
        flat = self.space.chart.curvature == 0
        return jnp.concatenate([X, jnp.ones((X.shape[0], 1), X.dtype)], axis=1) if flat else X


@checked
class TwoLegged(AbstractPointMasses):
    """A mass with two legs in a space of constant curvature K; its shape is r = (leg l, half angle a).

    The feet are at the distance l from the body, at the angles ±a. It moves along its axis, the first direction, by
    `dX = −w df` with `w = 2m₁c²/(m₀ + 2m₁c²)`, `c² = 1 − K s²`, `s = sin(√K l) sin a/√K` and
    `tan(√K f) = tan(√K l) cos a`. In the plane `f = l cos a` and `w = 2m₁/(m₀ + 2m₁)`, so that a closed
    stroke leads nowhere. Lengths are in units of the radius of curvature.

    Args:
        space: `gd.spaces.Euclidean(n)`, `Sphere(n)` or `Hyperbolic(n)`, n = 2 or 3.
        masses: (m₀, m₁) of the body and of each foot.

    Raises:
        ValueError: for other spaces, and unless there are two positive masses.

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

    space: AbstractConstantCurvature
    masses: Float[Array, "2"] = eqx.field(default=(1.0, 1.0), converter=floating)
    group: AbstractLieGroup = eqx.field(init=False)

    def __post_init__(self):
        self.group = _group_of("TwoLegged", self.space)

    def __check_init__(self):
        require_shape("TwoLegged", "masses", self.masses, (2,))
        require_positive("TwoLegged", masses=self.masses)

    def weights(self):
        return self.masses[jnp.array([0, 1, 1])]

    def points(self, r):
        require_shape("TwoLegged", "the shape r", r, (2,))
        curvature, zero, one = self.space.chart.curvature, jnp.zeros_like(r[0]), jnp.ones_like(r[0])
        sine, last = r[0] * sine_ratio(curvature, r[0] ** 2), cosine(curvature, r[0] ** 2)
        ahead, aside = sine * jnp.cos(r[1]), sine * jnp.sin(r[1])
        rest = [zero] * (self.space.dim - 2)
        rows = [[zero, zero, *rest, one], [ahead, aside, *rest, last], [ahead, -aside, *rest, last]]
        return jnp.stack([jnp.stack(row) for row in rows])

    @checked
    def outline(self, r: Float[Array, "2"]) -> Float[Array, "2 17 D"]:
        """The legs, as points on geodesics in the embedding space."""
        fractions = jnp.linspace(0.0, 1.0, 17, dtype=r.dtype)
        feet = jax.vmap(lambda s: self.points(jnp.stack([s * r[0], r[1]]))[1:])(fractions)
        return jnp.swapaxes(feet, 0, 1)


def _group_of(owner: str, space) -> AbstractLieGroup:
    if not isinstance(space, AbstractConstantCurvature) or space.dim not in (2, 3):
        raise ValueError(
            f"{owner}: space must be gd.spaces.Euclidean(n), Sphere(n) or Hyperbolic(n) with n = 2 or 3, got {space!r}."
        )
    return isometry_group(space)
