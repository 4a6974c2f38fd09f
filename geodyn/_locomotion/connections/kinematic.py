"""MOTION: kinematic connections of bodies on wheels and blades, with as many constraints as dimensions of the group."""

from abc import abstractmethod

import jax
import jax.numpy as jnp

from geodyn._engine.numerics.linalg import inverse
from geodyn._foundations.typing import Array, Float, Scalar
from geodyn._locomotion.connections.checks import (
    basis_and_trial,
    check_homogeneous,
    one_if,
    same_to_rounding,
    trial_velocity,
)
from geodyn._locomotion.connections.connection import ROUNDING, AbstractConnection, check_law, law, true_form


class AbstractKinematicBody(AbstractConnection):
    """A body whose velocity follows from that of its shape by nonholonomic constraints alone (principal kinematic).

    A subclass has a field `group`, one of `gd.groups`, of dimension k, and defines
    `constraints(r, xi, rdot) -> [k]`, k numbers linear in the body velocity ξ and the rate r' that must vanish,
    such as the velocities of wheels across themselves. Where they depend on each other, in singular shapes, the
    connection is infinite. With fewer than k constraints momentum decides as well, and this class does not fit. There
    is no metric of shapes: `gd.bundles.KaluzaKlein(body, metric)` adds one.

    Example:
        A wheel of the radius 2 on a line.

        >>> class Wheel(gd.bundles.AbstractKinematicBody):
        ...     group: gd.groups.Translation = gd.groups.Translation(1)
        ...     def constraints(self, r, xi, rdot):
        ...         return xi - 2.0 * rdot
        >>> print(gd.connection(Wheel(), [0.0]))
        [[-2.]]

    Source:
        Bloch et al., *Arch. Rational Mech. Anal.* 136 (1996) 21, section 6; Kelly & Murray, *J. Robotic Systems* 12
        (1995) 417.
    """

    @abstractmethod
    def constraints(
        self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]
    ) -> Float[Array, " k"]:
        """The k constraints, linear in (ξ, r') and zero for admissible motions: the velocities across the wheels."""

    def form(self, r: Float[Array, " m"]) -> Float[Array, "k m"]:
        return _form_and_law(self, r)[0]


def _form_and_law(body: AbstractKinematicBody, r: Float[Array, " m"]) -> tuple[Float[Array, "k m"], Scalar]:
    """The form, and `law`."""
    k, u = body.group.dim, trial_velocity(body.group.dim + r.shape[0], r.dtype)
    columns = jax.vmap(lambda u: body.constraints(r, u[:k], u[k:]), out_axes=1)(basis_and_trial(u.shape[0], r.dtype))
    if columns.shape[0] != k:
        raise ValueError(
            f"{type(body).__name__}.constraints must return {k} numbers, one for each coordinate of its"
            f" {type(body.group).__name__}; got {columns.shape[0]}. With fewer, momentum decides as well."
        )
    columns, found = columns[:, :-1], columns[:, -1]
    parts = columns * u[None]
    linear = same_to_rounding(found, jnp.sum(parts, axis=1), jnp.sum(jnp.abs(parts), axis=1))
    matrix = columns[:, :k]
    inverted = inverse(matrix)
    # A condition of the matrix that depends on no units: it grows without bound where the matrix becomes singular, and
    # there rounding decides whether the inverse is finite.
    condition = jnp.max(jnp.sum(jnp.abs(inverted) * jnp.abs(matrix.T), axis=1))
    is_regular = condition * ROUNDING * jnp.finfo(matrix.dtype).eps < 1
    known = jnp.where(is_regular, 1.0, jnp.nan).astype(matrix.dtype)
    return known * inverted @ columns[:, k:], one_if(linear)


@law.register
def _(swimmer: AbstractKinematicBody, r: Float[Array, " m"]):
    return _form_and_law(swimmer, r)[1]


@true_form.register
def _(swimmer: AbstractKinematicBody, r: Float[Array, " m"]):
    form, true = _form_and_law(swimmer, r)
    return true * form


@check_law.register
def _(swimmer: AbstractKinematicBody, r: Float[Array, " m"]):
    check_homogeneous(type(swimmer).__name__, "constraints", swimmer.constraints, swimmer.group.dim, r, 1)
