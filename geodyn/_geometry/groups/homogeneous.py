"""The isometries of Nil and of Sol, which act on the points of `gd.spaces.Nil` and `gd.spaces.Sol` as affine maps."""

from math import factorial

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Scalar
from geodyn._geometry.groups.lie_group import AbstractLieGroup, algebra_vector, element, inverse_of
from geodyn._geometry.groups.rigid import SE2, rigid_inverse
from geodyn._geometry.models.thurston import area_of_arc

# Below this |w| the function (eʷ − 1)/w is its series, of so many terms.
SMALL, TERMS = 0.5, 14


@checked
class Nil(AbstractLieGroup):
    """The isometries of `gd.spaces.Nil` that can be reached from the identity: translations, then turns about its axis.

    Elements are matrices [4, 4] that act on the points (x, y, z, 1): (a, b, c, θ) turns a point by θ about the z-axis
    and then takes it to (x + a, y + b, z + c + (a y − b x)/2). The exponential coordinates ξ = (x, y, z, θ) are the
    coefficients of the space's `killing_fields`.

    Example:
        A loop in the plane (x, y) leads upwards, by the area that it encloses.

        >>> group = gd.groups.Nil()
        >>> g = group.identity()
        >>> for step in ([1.0, 0, 0, 0], [0, 1.0, 0, 0], [-1.0, 0, 0, 0], [0, -1.0, 0, 0]):
        ...     g = group.compose(g, group.exp(jnp.array(step)))
        >>> print(group.log(g))
        [0. 0. 1. 0.]

    Source:
        Scott, *The geometries of 3-manifolds*, Bull. London Math. Soc. 15 (1983) 401, section 4.
    """

    dim: int = eqx.field(static=True, default=4, init=False)
    translations: int = eqx.field(static=True, default=3, init=False)

    @property
    def generators(self):
        e = np.zeros((4, 4, 4))
        e[0, 0, 3] = e[1, 1, 3] = e[2, 2, 3] = e[3, 1, 0] = 1
        e[0, 2, 1], e[1, 2, 0] = 0.5, -0.5
        e[3, 0, 1] = -1
        return e

    @checked
    def exp(self, xi: Float[Array, " k"]):
        xi = algebra_vector(self, xi)
        flat = SE2().exp(jnp.stack([xi[0], xi[1], xi[3]]))
        return _lift(flat, xi[2] + area_of_arc(xi[:2], xi[3]))

    @checked
    def log(self, g: Float[Array, "d d"]):
        g = element(self, g)
        flat = SE2().log(_flat(g))
        height = g[2, 3] - area_of_arc(flat[:2], flat[2])
        return jnp.stack([flat[0], flat[1], height, flat[2]])

    @checked
    def inverse(self, g: Float[Array, "d d"]):
        return inverse_of(self, g, lambda g: _lift(rigid_inverse(_flat(g)), -g[2, 3]))


def _flat(g: Float[Array, "4 4"]) -> Float[Array, "3 3"]:
    """The motion of the plane below."""
    keep = np.array([0, 1, 3])
    return g[np.ix_(keep, keep)]


def _lift(flat: Float[Array, "3 3"], height: Scalar) -> Float[Array, "4 4"]:
    """The isometry above a motion of the plane that lifts the axis to this height."""
    x, y = flat[0, 2], flat[1, 2]
    zero, one = jnp.zeros_like(x), jnp.ones_like(x)
    lift = (x * flat[1, :2] - y * flat[0, :2]) / 2
    rows = [
        [flat[0, 0], flat[0, 1], zero, x],
        [flat[1, 0], flat[1, 1], zero, y],
        [lift[0], lift[1], one, height],
        [zero, zero, zero, one],
    ]
    return jnp.stack([jnp.stack(row) for row in rows])


@checked
class Sol(AbstractLieGroup):
    """The isometries of `gd.spaces.Sol` that can be reached from the identity, which are its translations.

    Elements are matrices [4, 4] that act on the points (x, y, z, 1): (a, b, c) takes a point to (a + e⁻ᶜ x, b + eᶜ y,
    c + z). The exponential coordinates ξ = (x, y, z) are the coefficients of the space's `killing_fields`.

    Example:
        >>> group = gd.groups.Sol()
        >>> up, along = group.exp(jnp.array([0.0, 0.0, np.log(2.0)])), group.exp(jnp.array([1.0, 1.0, 0.0]))
        >>> print(group.compose(up, along)[:3, 3].round(6))
        [0.5      2.       0.693147]

    Source:
        Scott, *The geometries of 3-manifolds*, Bull. London Math. Soc. 15 (1983) 401, section 4.
    """

    dim: int = eqx.field(static=True, default=3, init=False)
    translations: int = eqx.field(static=True, default=3, init=False)

    @property
    def generators(self):
        e = np.zeros((3, 4, 4))
        e[0, 0, 3] = e[1, 1, 3] = e[2, 2, 3] = e[2, 1, 1] = 1
        e[2, 0, 0] = -1
        return e

    @checked
    def exp(self, xi: Float[Array, " k"]):
        x, y, z = algebra_vector(self, xi)
        return _stretching(x * _mean_growth(-z), y * _mean_growth(z), z)

    @checked
    def log(self, g: Float[Array, "d d"]):
        x, y, z = element(self, g)[:3, 3]
        return jnp.stack([x / _mean_growth(-z), y / _mean_growth(z), z])

    @checked
    def inverse(self, g: Float[Array, "d d"]):
        def close(g: Float[Array, "4 4"]) -> Float[Array, "4 4"]:
            x, y, z = g[:3, 3]
            return _stretching(-jnp.exp(z) * x, -jnp.exp(-z) * y, -z)

        return inverse_of(self, g, close)


def _stretching(x: Scalar, y: Scalar, z: Scalar) -> Float[Array, "4 4"]:
    """The isometry of Sol that takes the origin to (x, y, z)."""
    one, zero = jnp.ones_like(x), jnp.zeros_like(x)
    rows = [
        [jnp.exp(-z), zero, zero, x],
        [zero, jnp.exp(z), zero, y],
        [zero, zero, one, z],
        [zero, zero, zero, one],
    ]
    return jnp.stack([jnp.stack(row) for row in rows])


def _mean_growth(w: Scalar) -> Scalar:
    """(eʷ − 1)/w, smooth at 0."""
    is_small = jnp.abs(w) < SMALL
    small, large = jnp.where(is_small, w, 0.0), jnp.where(is_small, 1.0, w)
    series = jnp.full_like(w, 1 / factorial(TERMS + 1))
    for n in range(TERMS, 0, -1):
        series = 1 / factorial(n) + small * series
    return jnp.where(is_small, series, jnp.expm1(large) / large)
