"""Charts of the geometries Nil, Sol and SL2, each of which is a group: translations of the group carry them along with
a body."""

import abc

import jax
import jax.numpy as jnp

from geodyn._foundations.typing import Array, Bool, Float
from geodyn._geometry.models.atlas import AbstractAtlas, Sizes


class AbstractMovingFrame(AbstractAtlas):
    """The chart of a space that is a group, carried along with a body by translations of the group. If the mean of the
    points is far from the identity, the chart moves so that the mean becomes the identity. The frame is the element of
    the group that leads from the chart back to that of the start. A switch is the mean less the identity, so that
    zeros mean that the chart stays.

    Translations are affine functions of the coordinates. So in exact arithmetic a step of any Runge–Kutta method is the
    same in all of these charts.
    """

    @abc.abstractmethod
    def identity(self, x: Float[Array, "N n"]) -> Float[Array, " n"]:
        """The coordinates of the identity, in the precision of x."""

    @abc.abstractmethod
    def product(self, by: Float[Array, " n"], x: Float[Array, " n"]) -> Float[Array, " n"]:
        """The product of the elements `by` and x."""

    @abc.abstractmethod
    def inverse(self, of: Float[Array, " n"]) -> Float[Array, " n"]:
        """The inverse of an element."""

    @abc.abstractmethod
    def is_far(self, x: Float[Array, " n"]) -> Bool[Array, ""]:
        """Whether a point is so far from the identity that the chart should move."""

    @abc.abstractmethod
    def nearby(self, x: Float[Array, "N n"]) -> Float[Array, " n"]:
        """An element near the identity: the chart that it leads to is compared with this one, in `another`."""

    def sizes(self, dim: int) -> Sizes:
        return Sizes(per_point=0, per_body=dim)

    def switch(self, x: Float[Array, "N n"]) -> Float[Array, " s"]:
        # Which chart is used makes no difference to the motion: so it has no derivative.
        centre = jax.lax.stop_gradient(jnp.mean(x, axis=0))
        return jnp.where(self.is_far(centre), centre - self.identity(x), 0)

    def another(self, x: Float[Array, "N n"]) -> Float[Array, " s"]:
        return self.nearby(x) - self.identity(x)

    def switched(self, switch: Float[Array, " s"], x: Float[Array, "N n"]) -> Float[Array, "N n"]:
        to_identity = self.inverse(self.identity(x) + switch)
        moved = jax.vmap(lambda point: self.product(to_identity, point))(x)
        return jnp.where(jnp.any(switch != 0), moved, x)

    def start_frame(self, x: Float[Array, "N n"]) -> Float[Array, " f"]:
        return self.identity(x)

    def moved_frame(self, frame: Float[Array, " f"], switch: Float[Array, " s"]) -> Float[Array, " f"]:
        # The mean, as the chart before the switch has it, becomes the identity of the next.
        mean = self.identity(frame[None]) + switch
        moved = self.product(frame, mean)
        return jnp.where(jnp.any(switch != 0), moved, frame)

    def from_frame(self, frame: Float[Array, " f"], x: Float[Array, "N n"]) -> Float[Array, "N n"]:
        return jax.vmap(lambda point: self.product(frame, point))(x)


class AbstractMovingOrigin(AbstractMovingFrame):
    """A moving chart of a three-dimensional group, in which the coordinates of the identity are zeros."""

    def identity(self, x: Float[Array, "N n"]) -> Float[Array, " n"]:
        return jnp.zeros(3, x.dtype)

    def is_far(self, x: Float[Array, " n"]) -> Bool[Array, ""]:
        # At the identity the coordinates of these groups are orthonormal: this is a length of about 1.
        return jnp.any(jnp.abs(x) > 1)

    def nearby(self, x: Float[Array, "N n"]) -> Float[Array, " n"]:
        # Any element whose coordinates all differ from zero and from each other.
        return jnp.asarray([0.4, -0.3, 0.2], x.dtype)


class MovingNil(AbstractMovingOrigin):
    """(a, b, c)(x, y, z) = (a + x, b + y, c + z + (a y − b x)/2)."""

    def product(self, by: Float[Array, " n"], x: Float[Array, " n"]) -> Float[Array, " n"]:
        # The area of the triangle that (a, b) and (x, y) span in the plane.
        area = (by[0] * x[1] - by[1] * x[0]) / 2
        zero = jnp.zeros_like(area)
        return by + x + jnp.stack([zero, zero, area])

    def inverse(self, of: Float[Array, " n"]) -> Float[Array, " n"]:
        # (a, b) and −(a, b) span no area.
        return -of


class MovingSol(AbstractMovingOrigin):
    """(a, b, c)(x, y, z) = (a + e⁻ᶜ x, b + eᶜ y, c + z)."""

    def product(self, by: Float[Array, " n"], x: Float[Array, " n"]) -> Float[Array, " n"]:
        stretch = jnp.exp(by[2])
        return by + jnp.stack([x[0] / stretch, x[1] * stretch, x[2]])

    def inverse(self, of: Float[Array, " n"]) -> Float[Array, " n"]:
        # In (a, b, c)(x, y, z) = 0, z = −c, x = −eᶜ a and y = −e⁻ᶜ b.
        stretch = jnp.exp(of[2])
        return -jnp.stack([of[0] * stretch, of[1] / stretch, of[2]])


class MovingSL2(AbstractMovingFrame):
    """(a, b, c)(x, y, z) = (a + b x, b y, c + z): the affine isometries of the half plane (x, y), y > 0, and the shifts
    along the fibres over its points."""

    def identity(self, x: Float[Array, "N n"]) -> Float[Array, " n"]:
        return jnp.asarray([0.0, 1.0, 0.0], x.dtype)

    def product(self, by: Float[Array, " n"], x: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.stack([by[0] + by[1] * x[0], by[1] * x[1], by[2] + x[2]])

    def inverse(self, of: Float[Array, " n"]) -> Float[Array, " n"]:
        # In (a, b, c)(x, y, z) = (0, 1, 0), y = 1/b and x = −a/b.
        return jnp.stack([-of[0] / of[1], 1 / of[1], -of[2]])

    def is_far(self, x: Float[Array, " n"]) -> Bool[Array, ""]:
        # The metric of the half plane measures lengths in heights y above its boundary: these are lengths of about 1,
        # aside arcosh 3/2 = 0.96, in height log 2 = 0.69.
        far_aside = jnp.abs(x[0]) > x[1]
        far_in_height = (x[1] > 2) | (x[1] < 0.5)
        far_along_fibre = jnp.abs(x[2]) > 1
        return far_aside | far_in_height | far_along_fibre

    def nearby(self, x: Float[Array, "N n"]) -> Float[Array, " n"]:
        # Any element none of whose coordinates is that of the identity.
        return jnp.asarray([0.4, 1.5, 0.2], x.dtype)
