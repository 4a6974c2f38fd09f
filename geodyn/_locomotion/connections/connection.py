"""MOTION: connections, by which a change of shape moves a body; their metric and curvature by autodiff.

With shape r and group element g, the body velocity is `ξ = g⁻¹ g' = −A(r) r'`. The form A is given explicitly
(`AbstractConnection`), or follows from a metric, which is drag (`AbstractSwimmer`) or inertia
(`AbstractDeformableBody`), or from constraints (`AbstractKinematicBody`). Source: Kelly & Murray, *J. Robotic Systems*
12 (1995) 417; Koon & Marsden, *SIAM J. Control Optim.* 35 (1997) 901; Bloch et al., *Arch. Rational Mech. Anal.* 136
(1996) 21.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._engine.native import native_of
from geodyn._foundations.checks import array_of, returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, ArrayLike, Bool, Float, Number, Row, Scalar
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._locomotion.connections.checks import (
    basis_and_trial,
    check_homogeneous,
    one_if,
    require_defined,
    rounding,
    same_to_rounding,
    trial_velocity,
)
from geodyn._locomotion.connections.linkages import AbstractLinks, link_velocities
from geodyn._locomotion.connections.locomotion import AbstractLocomotion
from geodyn._locomotion.strokes.stroke import floating


class AbstractConnection(AbstractLocomotion):
    """A connection: a group and the form A(r), by which a change of shape moves the body, `ξ = −A(r) r'`.

    Here r[m] is the shape, g the pose of the body, an element of the group, and `ξ = g⁻¹ g'` its velocity in its own
    frame. Subclass it where the form is known; where it follows from a dissipation, a kinetic energy or constraints,
    subclass `gd.AbstractSwimmer`, `gd.bundles.AbstractDeformableBody` or `gd.bundles.AbstractKinematicBody` instead. A
    subclass is an `equinox` module: it has a field `group`, one of `gd.groups`, and defines `form(r) -> A[k, m]`
    with `jax.numpy`, where k is the dimension of the group. Every number in its fields can be differentiated with
    respect to.

    What else a class may say of itself is listed at `gd.bundles.AbstractLocomotion`.

    `gd.connection`, `gd.curvature`, `gd.path`, `gd.holonomy` and `gd.bundles.flux` need no more than a connection. What
    needs a metric of shapes as well, such as `gd.cost` and `gd.optimal_stroke`, takes `gd.bundles.KaluzaKlein(body)`.

    Example:
        A position that changes by the area which the two shape variables enclose; its curvature is 1 everywhere.

        >>> class Planimeter(gd.AbstractConnection):
        ...     group: gd.groups.Translation = gd.groups.Translation(1)
        ...     def form(self, r):
        ...         return jnp.stack([-r[1], r[0]])[None] / 2
        >>> end = gd.holonomy(Planimeter(), gd.FourierStroke.circle(0.5))
        >>> moved = Planimeter().group.log(end)[0]
        >>> print(f"moved {moved:.6f}, minus the area {-np.pi * 0.5**2:.6f}")
        moved -0.785398, minus the area -0.785398

    Source:
        Kelly & Murray, *J. Robotic Systems* 12 (1995) 417.
    """

    group: eqx.AbstractVar[AbstractLieGroup]

    @abstractmethod
    def form(self, r: Float[Array, " m"]) -> Float[Array, "k m"]:
        """The connection form A at the shape r."""

    def velocity(self, r: Float[Array, " m"], rdot: Float[ArrayLike, " m"]) -> Float[Array, " k"]:
        return -form_of(self, r) @ rdot


class AbstractInvariantMetric(AbstractConnection):
    """A metric on poses and shapes that the group leaves invariant; the body moves orthogonally to the group.

    With the metric `(ξ, r')ᵀ R (ξ, r')` in blocks R_gg, R_gs, R_ss, the connection is `A = R_gg⁻¹ R_gs` and the
    shape metric `G = R_ss − R_sg A`: of all velocities ξ with the same r', `ξ = −A r'` is the shortest, and
    `r'ᵀ G r'` is what remains of its squared length.

    A subclass has a field `group`, one of `gd.groups`, and defines `quadratic_form(r, xi, rdot)`, the squared length
    of the velocity (ξ[k], r'[m]) at the shape r[m], which must be positive definite. `gd.AbstractSwimmer` (dissipation)
    and `gd.bundles.AbstractDeformableBody` (kinetic energy) are of this kind, with names for what the metric is.

    Example:
        >>> class Area(gd.bundles.AbstractInvariantMetric):
        ...     group: gd.groups.Translation = gd.groups.Translation(1)
        ...     def quadratic_form(self, r, xi, rdot):
        ...         return (xi[0] + (r[0] * rdot[1] - r[1] * rdot[0]) / 2) ** 2 + rdot @ rdot
        >>> print(gd.connection(Area(), [0.2, 0.4]).round(6), gd.shape_metric(Area(), [0.2, 0.4]).diagonal())
        [[-0.2  0.1]] [1. 1.]

    Source:
        Koon & Marsden, *SIAM J. Control Optim.* 35 (1997) 901.
    """

    @abstractmethod
    def quadratic_form(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        """The squared length of the velocity (ξ, r') at the shape r, positive definite."""

    def form(self, r: Float[Array, " m"]) -> Float[Array, "k m"]:
        return reduction(self, r)[0]


class AbstractSwimmer(AbstractInvariantMetric):
    """A swimmer without inertia, given by the power that it dissipates, a positive definite quadratic form in (ξ, r').

    At each moment it moves with the velocity ξ for which the power is least, which is the one without net force on it.
    From the power follow its connection A and its shape metric G, by which `r'ᵀ G r'` is the power of a change of
    shape.

    A subclass has a field `group`, one of `gd.groups`, and defines `dissipation(r, xi, rdot)`, the power at the shape
    r[m], the body velocity `ξ = g⁻¹ g'`[k] (translations first, then rotations) and the rate r'[m], in any
    consistent units. To be drawn it also defines `outline(r) -> [parts, points, 2]`, lines in the plane in its own
    frame.

    Example:
        Two beads on a line, of which the second has the drag c: when their distance r grows, the first moves back by
        c/(1 + c) of it.

        >>> class TwoBeads(gd.AbstractSwimmer):
        ...     drag: float
        ...     group: gd.groups.Translation = gd.groups.Translation(1)
        ...     def dissipation(self, r, xi, rdot):
        ...         return xi[0] ** 2 + self.drag * (xi[0] + rdot[0]) ** 2
        >>> beads = TwoBeads(3.0)
        >>> print(gd.connection(beads, [1.0]), gd.shape_metric(beads, [1.0]))
        [[0.75]] [[0.75]]
    """

    @abstractmethod
    def dissipation(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        """The power dissipated at shape r, body velocity ξ and shape rate r'; any consistent units."""

    def quadratic_form(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        return returned(f"{type(self).__name__}.dissipation", self.dissipation, r, xi, rdot)


class AbstractLinkSwimmer(AbstractLinks, AbstractSwimmer):
    """A swimmer of rigid straight links in the plane under resistive-force theory.

    Each link resists motion along it, across it and turning, and does not feel the flow of the others. The power is
    `Σ c_t u_t² + c_n u_n² + c_r ω²`, with the velocities of the centre of each link along and across it, and
    its angular velocity. Poses are rigid motions of the plane (`gd.groups.SE2`), with lengths in any consistent unit
    and angles in radians.

    A subclass has the fields `group` and `lengths[L]` and defines `links(r) -> [L, 3]`, the centre and heading (x,
    y, angle) of each link in the frame of the body, and `drags() -> [L, 3]`, the coefficients (c_t, c_n, c_r) of
    each link (not per length). The connection, metric and outline follow. `gd.AbstractSlenderSwimmer` knows the drags
    too.

    A search for a best stroke begins at the straight shape, the m zeros of a class with `shape_names`; without names
    that of the L − 1 hinge angles, if `links` takes as many. A class of which neither is right says its `first_shape`,
    see `gd.AbstractConnection`.

    Example:
        One link that a shape variable pushes along itself, seen from the frame of the body: the frame slides back.

        >>> class Slider(gd.AbstractLinkSwimmer):
        ...     lengths: jax.Array = eqx.field(default=(2.0,), converter=jnp.asarray)
        ...     group: gd.groups.SE2 = gd.groups.SE2()
        ...     def links(self, r):
        ...         return jnp.stack([r[0], jnp.zeros(()), jnp.zeros(())])[None]
        ...     def drags(self):
        ...         return jnp.array([[1.0, 2.0, 0.5]])
        >>> print(gd.connection(Slider(), [0.3]).ravel())
        [1. 0. 0.]

    Source:
        Gray & Hancock, *J. Exp. Biol.* 32 (1955) 802.
    """

    @abstractmethod
    def drags(self) -> Float[Array, "L 3"]:
        """Drag coefficient of each link along it, across it, and against turning it."""

    @property
    def towing_drag(self) -> Scalar:
        """The drag of the straight body along itself, the sum of its links' drags along them."""
        return jnp.sum(self.drags()[:, 0])

    @property
    def _why_it_stays(self) -> str | None:
        along, across = np.asarray(_drags(self))[:, :2].T
        if not np.allclose(along, across, rtol=1e-9, atol=0):
            return None
        return (
            "its drag is the same along the links and across them (drag_ratio=1), so that the centre of drag stays"
            " where it is. The curvature of its connection vanishes but for turns about that: ask for its turn,"
            " gd.bundles.Heading(swimmer), or give it another drag_ratio"
        )

    def dissipation(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        places, rates = jax.jvp(self.links, (r,), (rdot,))
        return resistive_power(places, rates, self.drags(), xi)


@jit
def _drags(swimmer: AbstractLinkSwimmer) -> Float[Array, "L 3"]:
    return swimmer.drags()


def resistive_power(
    poses: Float[Array, "L 3"], rates: Float[Array, "L 3"], drags: Float[Array, "L 3"], xi: Float[Array, "3"]
) -> Scalar:
    """The power dissipated by pieces with the given drag coefficients along, across and against turning; the other
    arguments are those of `link_velocities`."""
    return jnp.sum(drags * link_velocities(poses, rates, xi) ** 2)


def slender_drags(
    lengths: Float[Array, " L"], tangential: Number, normal: Number, rotational: Number
) -> Float[Array, "L 3"]:
    """Drags `(c_t l, c_n l, c_r l³/12)` of slender links from drags per length; in resistive-force theory c_r = c_n."""
    return jnp.stack([tangential * lengths, normal * lengths, rotational * lengths**3 / 12], axis=1)


class AbstractSlenderSwimmer(AbstractLinkSwimmer):
    """A swimmer of slender links, which resist motion across them `drag_ratio` times more than motion along them.

    The drags of a link of length l are `l` along it, `drag_ratio l` across it and `drag_ratio l³/12` against turning;
    the unit of drag per length is that along a link. Slender-body theory has `drag_ratio` near 2.

    A subclass has the fields `group`, `lengths[L]` and `drag_ratio` and defines `links(r) -> [L, 3]`, the centre and
    heading (x, y, angle) of each link in the frame of the body; see `gd.AbstractLinkSwimmer`.

    Example:
        Two links hinged at the origin of the frame, opened symmetrically by the angle r to each side: a scallop. It has
        one shape variable, and so comes back to where it was after any stroke.

        >>> class Scallop(gd.AbstractSlenderSwimmer):
        ...     lengths: jax.Array = eqx.field(default=(1.0, 1.0), converter=jnp.asarray)
        ...     drag_ratio: float = 2.0
        ...     group: gd.groups.SE2 = gd.groups.SE2()
        ...     def links(self, r):
        ...         angles = jnp.stack([r[0], -r[0]])
        ...         return jnp.stack([jnp.cos(angles) / 2, jnp.sin(angles) / 2, angles], axis=1)
        >>> scallop = Scallop()
        >>> stroke = gd.FourierStroke([0.8], [[0.3]], [[0.1]])
        >>> print(f"{gd.cost(scallop, stroke):.6f}", bool(jnp.allclose(gd.holonomy(scallop, stroke), jnp.eye(3))))
        1.318979 True
    """

    drag_ratio: eqx.AbstractVar[Number]

    def drags(self):
        return slender_drags(self.lengths, 1.0, self.drag_ratio, self.drag_ratio)


# A matrix is singular where its smallest eigenvalue, in units in which its diagonal is 1, is so many rounding errors.
ROUNDING = 256


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _reduce(matrix: Float[Array, "d d"], k: int) -> tuple[Array, Array, Array]:
    """`R_gg⁻¹`, `A = R_gg⁻¹ R_gs` and `G = R_ss − R_sg A` of a positive definite matrix whose first k rows are R_g.

    By Gauss–Jordan elimination: positive definite matrices need no pivoting, and small ones no call of LAPACK. NaN
    where a motion of the group moves nothing, to rounding, such as the turn about a line on which all masses are.
    """
    d = matrix.shape[0]
    swept = jnp.concatenate([matrix, jnp.eye(d, k, dtype=matrix.dtype)], axis=1)
    for i in range(k):
        row = swept[i] / swept[i, i]
        rest = swept - swept[:, i, None] * row[None]
        swept = jnp.concatenate([rest[:i], row[None], rest[i + 1 :]])
    inverse = swept[:k, d:]
    # With units in which the diagonal is 1: the largest number here is at least that of the inverse over k.
    largest = jnp.max(jnp.abs(jnp.diagonal(inverse) * jnp.diagonal(matrix)[:k]), initial=0.0)
    is_regular = largest * ROUNDING * jnp.finfo(matrix.dtype).eps < 1
    known = jnp.where(is_regular, 1.0, jnp.nan).astype(matrix.dtype)
    return known * inverse, known * swept[:k, k:d], known * swept[k:, k:d]


@_reduce.defjvp
def _(k: Any, matrices: Any, changes: Any):
    """With v = (−A, 1), the velocities (ξ, r') for unit rates of the shape: `A' = R_gg⁻¹ (R' v)_g`, `G' = vᵀ R' v`."""
    inverse, form, metric = _reduce(*matrices, k)
    (change,) = changes
    v = jnp.concatenate([-form, jnp.eye(metric.shape[0], dtype=form.dtype)])
    forces = change @ v
    slopes = -inverse @ change[:k, :k] @ inverse, inverse @ forces[:k], v.T @ forces
    return (inverse, form, metric), slopes


def reduction(
    swimmer: AbstractInvariantMetric, r: Float[Array, " m"]
) -> tuple[Float[Array, "k m"], Float[Array, "m m"]]:
    """Connection form and shape metric: `A = R_gg⁻¹ R_gs`, `G = R_ss − R_sg A`, with the metric `(ξ,r')ᵀ R (ξ,r')`."""
    _require_metric(swimmer)
    return inverse_and_reduction(swimmer, r)[1:]


@jit  # Traced once for all programs that contain it.
def inverse_and_reduction(
    swimmer: AbstractInvariantMetric, r: Float[Array, " m"]
) -> tuple[Float[Array, "k k"], Float[Array, "k m"], Float[Array, "m m"]]:
    """`R_gg⁻¹`, and `reduction`."""
    half = jax.grad(lambda u: _square(swimmer, r, u) / 2)
    # The gradient of a quadratic form is linear, so that its values on a basis give the matrix R.
    return _reduce(jax.vmap(half)(jnp.eye(swimmer.group.dim + r.shape[0], dtype=r.dtype)), swimmer.group.dim)


def _require_metric(swimmer: Any) -> None:
    if not isinstance(swimmer, AbstractInvariantMetric):
        raise ValueError(_without_metric(swimmer))


def _without_metric(swimmer: Any) -> str:
    name = type(swimmer).__name__
    return f"{name} has a connection but no metric of shapes: gd.bundles.KaluzaKlein(body, metric) has both."


def _square(swimmer: AbstractInvariantMetric, r: Float[Array, " m"], u: Float[Array, " n"]) -> Scalar:
    return swimmer.quadratic_form(r, u[: swimmer.group.dim], u[swimmer.group.dim :])


@singledispatch
def true_reduction(
    swimmer: AbstractInvariantMetric, r: Float[Array, " m"]
) -> tuple[Float[Array, "k m"], Float[Array, "m m"]]:
    """`reduction`, or NaN where the metric is no positive quadratic form, as far as one more velocity tells."""
    _require_metric(swimmer)
    matrix, true = _matrix_and_law(swimmer, r)
    _, form, metric = _reduce(matrix, swimmer.group.dim)
    return true * form, true * metric


def _matrix_and_law(swimmer: AbstractInvariantMetric, r: Float[Array, " m"]) -> tuple[Float[Array, "n n"], Scalar]:
    """The matrix of the metric, and `law`."""
    half = jax.value_and_grad(lambda u: _square(swimmer, r, u) / 2)
    values, slopes = jax.vmap(half)(basis_and_trial(swimmer.group.dim + r.shape[0], r.dtype))
    matrix, u = slopes[:-1], trial_velocity(slopes.shape[1], r.dtype)
    forces, sizes = jnp.sum(matrix * u[None], axis=1), jnp.sum(jnp.abs(matrix * u[None]), axis=1)
    quadratic = same_to_rounding(slopes[-1], forces, jnp.max(sizes))
    whole = same_to_rounding(2 * values[-1], jnp.sum(u * forces), jnp.sum(jnp.abs(u) * sizes))
    return matrix, one_if(quadratic & whole & not_negative(matrix))


def not_negative(matrix: Float[Array, "d d"]) -> Bool[Array, ""]:
    """Whether a symmetric matrix has no negative eigenvalue, beyond the rounding of its entries."""
    matrix = jax.lax.stop_gradient(matrix)
    shift = rounding(matrix.dtype) * jnp.max(jnp.abs(matrix)) * jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    return jnp.all(jnp.isfinite(jnp.linalg.cholesky(matrix + shift)))


@singledispatch
def law(swimmer: AbstractConnection, r: Float[Array, " m"]) -> Scalar:
    """The factor 1; NaN if the law by which the body moves is not of the kind that its class promises, as far as one
    velocity at the shape r tells. What is computed at many shapes is multiplied by it once."""
    return jnp.ones((), r.dtype)


@law.register
def _(swimmer: AbstractInvariantMetric, r: Float[Array, " m"]):
    return _matrix_and_law(swimmer, r)[1]


@singledispatch
def true_form(swimmer: AbstractConnection, r: Float[Array, " m"]) -> Float[Array, "k m"]:
    """A(r), NaN where `law` is."""
    return law(swimmer, r) * form_of(swimmer, r)


@true_form.register
def _(swimmer: AbstractInvariantMetric, r: Float[Array, " m"]):
    return true_reduction(swimmer, r)[0]


@singledispatch
def check_law(swimmer: AbstractConnection, r: Float[Array, " m"]) -> None:
    """Raise ValueError, with the reason, where `law` is NaN, after a closer look."""


@check_law.register
def _(swimmer: AbstractInvariantMetric, r: Float[Array, " m"]):
    name, what = type(swimmer).__name__, "the metric (dissipation, kinetic energy)"
    check_homogeneous(name, what, swimmer.quadratic_form, swimmer.group.dim, r, 2)
    matrix = metric_matrix(swimmer, r)
    if np.all(np.isfinite(matrix)) and not not_negative(matrix):
        raise ValueError(f"{name}: {what} in (ξ, r') at r = {r} must be positive definite, it is\n{matrix}")


@jit
def metric_matrix(swimmer: AbstractInvariantMetric, r: Float[Array, " m"]) -> Float[Array, "d d"]:
    """The matrix of the metric in (ξ, r')."""
    k = swimmer.group.dim
    zero = jnp.zeros(k + r.size, r.dtype)
    return jax.hessian(lambda u: swimmer.quadratic_form(r, u[:k], u[k:]))(zero) / 2


@singledispatch
def power_of(swimmer: AbstractLocomotion, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> Scalar:
    """The power that the motion with the rate r' of the shape takes. Raises ValueError for a body that has none."""
    raise ValueError(_without_metric(swimmer))


@power_of.register
def _(swimmer: AbstractInvariantMetric, r: Float[Array, " m"], rdot: Float[Array, " m"]):
    return rdot @ reduction(swimmer, r)[1] @ rdot


def form_of(swimmer: AbstractConnection, r: Float[Array, " m"]) -> Float[Array, "k m"]:
    """A(r). Raises ValueError unless it is a matrix [k, m]."""
    form, wanted = returned(f"{type(swimmer).__name__}.form", swimmer.form, r), (swimmer.group.dim, r.size)
    if jnp.shape(form) != wanted:
        raise ValueError(
            f"{type(swimmer).__name__}: the form must have the shape {wanted}, a column a shape variable; it has"
            f" {jnp.shape(form)}."
        )
    return form


@checked
def connection(swimmer: AbstractConnection, r: Row) -> Float[Array, "k m"]:
    """The connection form A(r), by which a change of shape moves the body: its velocity is `ξ = −A(r) r'`.

    This is the velocity of least drag (swimmers), of zero momentum (free bodies) or without slip (bodies on wheels). It
    is measured in the frame of the body, `ξ = g⁻¹ g'`, translations first, then rotations. Differentiable with
    respect to r and the numbers in the body.

    Args:
        swimmer: body with a connection, such as one of `gd.swimmers`.
        r: shape [m].

    Returns:
        A [k, m], where k is the dimension of the body's group: lengths or angles per unit of shape.

    Raises:
        ValueError: for a shape that the body cannot have (not inside jit).

    Example:
        Elroy's beanie: one part turns by −I₂/(I₁ + I₂) of the angle between the two.

        >>> beanie = gd.swimmers.Beanie(inertias=(3.0, 1.0))
        >>> print(gd.connection(beanie, [0.7]))
        [[0.25]]

    Source:
        Kelly & Murray, *J. Robotic Systems* 12 (1995) 417; Marsden, Montgomery & Ratiu, *Mem. AMS* 436 (1990).
    """
    r = array_of("r", r, "a row of numbers")
    return require_defined("connection", swimmer, check_law, r, _connection(swimmer, r))


@checked
def shape_metric(swimmer: AbstractInvariantMetric, r: Row) -> Float[Array, "m m"]:
    """The metric G(r) of shapes: `r'ᵀ G(r) r'` is the power of a swimmer, or twice the kinetic energy of a free body.

    It counts only what remains when the body moves by its connection, `G = R_ss − R_sg R_gg⁻¹ R_gs` of the metric
    R in (ξ, r'). Differentiable with respect to r and the numbers in the body.

    Args:
        swimmer: body with a metric: a swimmer, a free body, or `gd.bundles.KaluzaKlein(body, metric)`.
        r: shape [m].

    Returns:
        G [m, m], symmetric and positive definite.

    Raises:
        ValueError: for a shape that the body cannot have (not inside jit), and for a body whose connection has no
            metric, such as one on wheels.

    Example:
        Elroy's beanie: what remains is the reduced moment of inertia I₁ I₂/(I₁ + I₂).

        >>> beanie = gd.swimmers.Beanie(inertias=(3.0, 1.0))
        >>> print(gd.shape_metric(beanie, [0.7]))
        [[0.75]]
    """
    r = array_of("r", r, "a row of numbers")
    return require_defined("shape_metric", swimmer, check_law, r, _shape_metric(swimmer, r))


@checked
def curvature(swimmer: AbstractConnection, r: Row) -> Float[Array, "k m m"]:
    """The curvature `F_ij = ∂_i A_j − ∂_j A_i − [A_i, A_j]` of the connection at a shape.

    A small loop around the shape r whose oriented area in the plane of the shape variables i and j is a has the
    holonomy `exp(−F_ij a)`, up to the third order in its size. The sign belongs to `ξ = −A r'`. Differentiable with
    respect to r and the numbers in the body.

    Args:
        swimmer: body with a connection, such as one of `gd.swimmers`.
        r: shape [m].

    Returns:
        F [k, m, m], an algebra vector [k] for each pair of shape variables, antisymmetric in the last two indices.

    Raises:
        ValueError: for a shape that the body cannot have (not inside jit).

    Example:
        A small stroke of Purcell's swimmer: what it moves by, over the area, is minus the curvature.

        >>> swimmer, r = gd.swimmers.Purcell(), [0.5, -0.3]
        >>> loop = gd.FourierStroke.circle(1e-3, centre=r)
        >>> moved = swimmer.group.log(gd.holonomy(swimmer, loop)) / (np.pi * 1e-6)
        >>> F = gd.curvature(swimmer, r)[:, 0, 1]
        >>> print(F.round(4), bool(jnp.allclose(moved, -F, atol=1e-4)))
        [ 0.0376 -0.022   0.0055] True

    Source:
        Marsden, Montgomery & Ratiu, *Mem. AMS* 436 (1990).
    """
    r = array_of("r", r, "a row of numbers")
    return require_defined("curvature", swimmer, check_law, r, _curvature(swimmer, r))


@jit
def _connection(swimmer: AbstractConnection, r: Array) -> Float[Array, "k m"]:
    return native_of(true_form, swimmer, floating(r, "r"))


@jit
def _shape_metric(swimmer: AbstractInvariantMetric, r: Array) -> Float[Array, "m m"]:
    return native_of(true_reduction, swimmer, floating(r, "r"))[1]


@jit
def _curvature(swimmer: AbstractConnection, r: Array) -> Float[Array, "k m m"]:
    return native_of(_true_field, swimmer, floating(r, "r"))


def _true_field(swimmer: AbstractConnection, r: Float[Array, " m"]) -> Float[Array, "k m m"]:
    """The curvature at a shape, or NaN where the law of the body does not hold."""
    return law(swimmer, r) * field_at(swimmer, r)


def field_at(swimmer: AbstractConnection, r: Float[Array, " m"]) -> Float[Array, "k m m"]:
    """The curvature at a shape, of a body whose law is known to hold."""
    form, slope = form_of(swimmer, r), jax.jacfwd(swimmer.form)(r)
    return exterior_derivative(swimmer.group, form, slope)


def exterior_derivative(
    group: AbstractLieGroup, form: Float[Array, "k m"], slope: Float[Array, "k m m"]
) -> Float[Array, "k m m"]:
    """The curvature [k, m, m] of a connection form, from `form[:, j]` = A_j and `slope[:, j, i]` = ∂_i A_j."""
    brackets = jax.vmap(jax.vmap(group.bracket, (None, 1), 1), (1, None), 1)(form, form)
    return jnp.swapaxes(slope, 1, 2) - slope - brackets


@checked
@jit
def covariant_derivative(
    swimmer: AbstractConnection, section: Callable, r: Float[Array, " m"]
) -> Float[Array, " k *_"]:
    """The covariant derivative `D_i v = ∂_i v − [A_i, v]` of algebra vectors that depend on the shape.

    The vectors `section(r)` are in the frame of the body. If D v vanishes, the vector stands still in space while the
    shape moves. Of the curvature, taken as the section `lambda r: gd.curvature(swimmer, r)`, the cyclic sum over the
    three shape indices vanishes (Bianchi's identity).

    Args:
        swimmer: body with a connection, such as one of `gd.swimmers`.
        section: function r[m] -> v[k, ...], an algebra vector or several, along the first axis.
        r: shape [m].

    Returns:
        D v [k, ..., m], the derivative with respect to r_i in the last index.

    Example:
        Bianchi's identity for a swimmer of four links, which has three shape variables.

        >>> swimmer, r = gd.swimmers.NLink((1.0, 1.0, 1.0, 1.0)), jnp.array([0.3, -0.4, 0.6])
        >>> D = gd.bundles.covariant_derivative(swimmer, lambda r: gd.curvature(swimmer, r), r)
        >>> cyclic = D[:, 0, 1, 2] + D[:, 1, 2, 0] + D[:, 2, 0, 1]
        >>> print(D.shape, bool(jnp.max(jnp.abs(cyclic)) < 1e-12 < jnp.max(jnp.abs(D[:, 0, 1, 2]))))
        (3, 3, 3, 3) True

    Source:
        Cendra, Marsden & Ratiu, *Mem. AMS* 722 (2001), section 2.3.
    """
    value, form = section(r), connection(swimmer, r)
    flat = value.reshape(value.shape[0], -1)
    brackets = jax.vmap(jax.vmap(swimmer.group.bracket, (1, None), 1), (None, 1), 1)(form, flat)
    return jax.jacfwd(section)(r) - brackets.reshape(*value.shape, r.shape[0])
