"""MOTION: a connection says how a change of shape moves a body. Metric, curvature and the rest follow by autodiff.

Shape r, group element g, body velocity `ξ = g⁻¹ g' = −A(r) r'`. The form A is written down (`AbstractConnection`), or
follows from a metric, drag (`AbstractSwimmer`) or inertia (`AbstractDeformableBody`), or from constraints
(`AbstractKinematicBody`). Source: Kelly & Murray, *J. Robotic Systems* 12 (1995) 417; Koon & Marsden, *SIAM J. Control
Optim.* 35 (1997) 901; Bloch et al., *Arch. Rational Mech. Anal.* 136 (1996) 21.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._checks import require
from geodyn._compile.jit import jit
from geodyn._typing import Array, Float, Number, Numbers, Scalar
from geodyn.geometry.groups.lie_group import AbstractLieGroup
from geodyn.locomotion.connections.checks import require_defined
from geodyn.locomotion.connections.linkages import bars
from geodyn.locomotion.strokes.stroke import floating


class AbstractConnection(eqx.Module):
    """A connection: a group and the form A(r), by which shape moves the body, `ξ = −A(r) r'`."""

    group: eqx.AbstractVar[AbstractLieGroup]

    @abstractmethod
    def form(self, r: Float[Array, " m"]) -> Float[Array, "k m"]:
        """The connection form A at the shape r."""


class AbstractInvariantMetric(AbstractConnection):
    """A metric on poses and shapes that the group leaves alone: the body moves at right angles to the group."""

    @abstractmethod
    def quadratic_form(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        """The squared length of the velocity (ξ, r') at the shape r, positive definite."""

    def form(self, r):
        return reduction(self, r)[0]


class AbstractSwimmer(AbstractInvariantMetric):
    """A swimmer: the power that it dissipates, a positive definite quadratic form in (ξ, r').

    One that can be drawn says how it looks in its own frame, `outline(r) -> [parts, points, 2]`: lines in the plane.
    """

    @abstractmethod
    def dissipation(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        """The power dissipated at shape r, body velocity ξ and shape rate r'; any consistent units."""

    def quadratic_form(self, r, xi, rdot):
        return self.dissipation(r, xi, rdot)


class AbstractLinkSwimmer(AbstractSwimmer):
    """Rigid straight links in the plane under resistive-force theory: a link resists along, across and turning.

    Source: Gray & Hancock, *J. Exp. Biol.* 32 (1955) 802.
    """

    lengths: eqx.AbstractVar[Float[Array, " L"]]

    @abstractmethod
    def links(self, r: Float[Array, " m"]) -> Float[Array, "L 3"]:
        """Centre and heading (x, y, angle) of each link in the frame of the body."""

    @abstractmethod
    def drags(self) -> Float[Array, "L 3"]:
        """Drag coefficient of each link along it, across it, and against turning it."""

    def dissipation(self, r, xi, rdot):
        return resistive_power(*jax.jvp(self.links, (r,), (rdot,)), self.drags(), xi)

    def outline(self, r: Float[Array, " m"]) -> Float[Array, "L 2 2"]:
        """The links, from end to end."""
        return bars(self.links(r), self.lengths)


def link_velocities(
    poses: Float[Array, "L 3"], rates: Float[Array, "L 3"], xi: Float[Array, "3"]
) -> Float[Array, "L 3"]:
    """Velocities along, across and turning, of pieces at (x, y, angle) in a frame of velocity ξ."""
    x, y, angle = poses.T
    u = xi[0] - xi[2] * y + rates[:, 0]
    v = xi[1] + xi[2] * x + rates[:, 1]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([cos * u + sin * v, cos * v - sin * u, xi[2] + rates[:, 2]], axis=1)


def resistive_power(
    poses: Float[Array, "L 3"], rates: Float[Array, "L 3"], drags: Float[Array, "L 3"], xi: Float[Array, "3"]
) -> Scalar:
    """The power against drags along, across and turning, of pieces at (x, y, angle) in a frame of velocity ξ."""
    return jnp.sum(drags * link_velocities(poses, rates, xi) ** 2)


def slender_drags(
    lengths: Float[Array, " L"], tangential: Number, normal: Number, rotational: Number
) -> Float[Array, "L 3"]:
    """Drags `(c_t l, c_n l, c_r l³/12)` of slender links from drags per length; theory has `c_r = c_n`."""
    return jnp.stack([tangential * lengths, normal * lengths, rotational * lengths**3 / 12], axis=1)


class AbstractSlenderSwimmer(AbstractLinkSwimmer):
    """Slender links that resist `drag_ratio` times more across than along; unit of drag per length: the one along."""

    drag_ratio: eqx.AbstractVar[Number]

    def drags(self):
        return slender_drags(self.lengths, 1.0, self.drag_ratio, self.drag_ratio)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _reduced(matrix: Float[Array, "d d"], k: int) -> tuple[Array, Array, Array]:
    """`R_gg⁻¹`, `A = R_gg⁻¹ R_gs` and `G = R_ss − R_sg A` of a positive definite matrix whose first k rows are R_g.

    By Gauss–Jordan elimination: such matrices need no pivoting, and matrices this small no LAPACK call.
    """
    d = matrix.shape[0]
    swept = jnp.concatenate([matrix, jnp.eye(d, k, dtype=matrix.dtype)], axis=1)
    for i in range(k):
        row = swept[i] / swept[i, i]
        rest = swept - swept[:, i, None] * row[None]
        swept = jnp.concatenate([rest[:i], row[None], rest[i + 1 :]])
    return swept[:k, d:], swept[:k, k:d], swept[k:, k:d]


@_reduced.defjvp
def _(k, matrices, changes):
    """With v = (−A, 1), how bodies move with their shapes: `A' = R_gg⁻¹ (R' v)_g` and `G' = vᵀ R' v`."""
    inverse, form, metric = _reduced(*matrices, k)
    (change,) = changes
    v = jnp.concatenate([-form, jnp.eye(metric.shape[0], dtype=form.dtype)])
    forces = change @ v
    slopes = -inverse @ change[:k, :k] @ inverse, inverse @ forces[:k], v.T @ forces
    return (inverse, form, metric), slopes


def reduction(
    swimmer: AbstractInvariantMetric, r: Float[Array, " m"]
) -> tuple[Float[Array, "k m"], Float[Array, "m m"]]:
    """Connection form and shape metric: `A = R_gg⁻¹ R_gs`, `G = R_ss − R_sg A`, with the metric `(ξ,r')ᵀ R (ξ,r')`."""
    if not isinstance(swimmer, AbstractInvariantMetric):
        name = type(swimmer).__name__
        raise ValueError(
            f"{name} has a connection but no metric of shapes: gd.bundles.KaluzaKlein(body, metric) has both."
        )
    k, m = swimmer.group.dim, r.shape[0]
    half = jax.grad(lambda u: swimmer.quadratic_form(r, u[:k], u[k:]) / 2)
    # The gradient of a quadratic form is linear, so its values on a basis are its matrix.
    return _reduced(jax.vmap(half)(jnp.eye(k + m, dtype=r.dtype)), k)[1:]


def check_swimmer(swimmer) -> None:
    """Raise ValueError for what has no connection."""
    require("swimmer", swimmer, AbstractConnection, "a body with a connection, such as gd.swimmers.Purcell()")


def connection(swimmer: AbstractConnection, r: Numbers) -> Float[Array, "k m"]:
    """The connection form A at the shape r[m]: the body velocity of least drag, of zero momentum or without slip is
    `ξ = −A(r) r'`.

    Raises ValueError for a shape that the body cannot have; so do `shape_metric` and `curvature`.
    """
    check_swimmer(swimmer)
    r = floating(r)
    return require_defined("connection", swimmer, r, _connection(swimmer, r))


def shape_metric(swimmer: AbstractInvariantMetric, r: Numbers) -> Float[Array, "m m"]:
    """The shape metric G: what remains of the power, or of twice the kinetic energy, is `r'ᵀ G(r) r'`."""
    check_swimmer(swimmer)
    r = floating(r)
    return require_defined("shape_metric", swimmer, r, _shape_metric(swimmer, r))


def curvature(swimmer: AbstractConnection, r: Numbers) -> Float[Array, "k m m"]:
    """The curvature `F_ij = ∂_i A_j − ∂_j A_i − [A_i, A_j]`: a small loop of area a has the holonomy `exp(−F a)`.

    Source: Marsden, Montgomery & Ratiu, *Mem. AMS* 436 (1990), with the sign that belongs to `ξ = −A r'`.
    """
    check_swimmer(swimmer)
    r = floating(r)
    return require_defined("curvature", swimmer, r, _curvature(swimmer, r))


@jit
def _connection(swimmer, r):
    return swimmer.form(r)


@jit
def _shape_metric(swimmer, r):
    return reduction(swimmer, r)[1]


@jit
def _curvature(swimmer, r):
    return exterior_derivative(swimmer.group, swimmer.form(r), jax.jacfwd(swimmer.form)(r))


def exterior_derivative(
    group: AbstractLieGroup, form: Float[Array, "k m"], slope: Float[Array, "k m m"]
) -> Float[Array, "k m m"]:
    """The covariant exterior derivative of a connection form, from `form[:, j]` and `slope[:, j, i] = ∂_i A_j`."""
    brackets = jax.vmap(jax.vmap(group.bracket, (None, 1), 1), (1, None), 1)(form, form)
    return jnp.swapaxes(slope, 1, 2) - slope - brackets


@jit
def covariant_derivative(swimmer: AbstractConnection, section: Callable, r: Float[Array, " m"]) -> Float[Array, "k *_"]:
    """`D_i v = ∂_i v − [A_i, v]` of algebra vectors `section(r)[k, …]` in the frame of the body, i the last index.

    The vector stands still in space while the shape moves if it vanishes. Of the curvature, as the section
    `lambda r: gd.curvature(swimmer, r)`, the cyclic sum over (i, j, k) vanishes (Bianchi).
    Source: Cendra, Marsden & Ratiu, *Mem. AMS* 722 (2001), section 2.3.
    """
    value, form = section(r), connection(swimmer, r)
    flat = value.reshape(value.shape[0], -1)
    brackets = jax.vmap(jax.vmap(swimmer.group.bracket, (1, None), 1), (None, 1), 1)(form, flat)
    return jax.jacfwd(section)(r) - brackets.reshape(*value.shape, r.shape[0])
