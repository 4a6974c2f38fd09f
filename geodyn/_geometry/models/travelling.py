"""Atlases of the sphere and of hyperbolic space, with closed forms, in which a body may travel arbitrarily far."""

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._foundations.typing import Array, Float, Scalar
from geodyn._geometry.models.atlas import AbstractAtlas, AbstractPatches, Sizes
from geodyn._geometry.models.charts import (
    AbstractChart,
    AbstractHalfSpace,
    cosine,
    sine_ratio,
    stereographic_havs,
)

# The distance of the centres of the two charts in their common coordinate space.
APART = 8.0
# The largest square of the distance from the centre of its chart that a point has after a step. On the equator it is 1
# in both charts. With the bound 1 a point that moves along the equator could change charts again and again; at 1.25 it
# comes to 1/1.25 in the other chart.
LARGEST = 1.25


class StereographicPair(AbstractChart, AbstractPatches):
    """Both stereographic charts of the sphere: x = X'/(1 + w), and X'/(1 − w) shifted so that its centre is (8, 0, …,
    0) instead of the origin. In coordinates relative to the centre of its chart, a point has |x|² ≤ 1.25 after a step.
    It may be up to 4 away from the centre, so that a step may be up to one radian long; further away it is NaN."""

    curvature: int = eqx.field(static=True, default=1)

    def _local(self, x: Float[Array, " n"]) -> tuple[Float[Array, " n"], Scalar]:
        """The coordinates of x relative to the centre of its chart, and the sign of w at this centre."""
        is_in_second = x[0] > APART / 2
        local = x - jnp.where(is_in_second, self._centre(x), 0)
        valid = local @ local < (APART / 2) ** 2
        sign = jnp.where(is_in_second, -1.0, 1.0).astype(x.dtype)
        return jnp.where(valid, local, jnp.nan), sign

    def _centre(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        """The centre of the second chart."""
        is_first = jnp.arange(x.shape[0]) == 0
        return jnp.where(is_first, APART, 0.0).astype(x.dtype)

    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        local, _ = self._local(x)
        return 4 / (1 + local @ local) ** 2 * jnp.eye(x.shape[0], dtype=x.dtype)

    def embed(self, x: Float[Array, " n"]) -> Float[Array, " D"]:
        local, sign = self._local(x)
        square = local @ local
        return jnp.append(2 * local, sign * (1 - square)) / (1 + square)

    def coordinates(self, X: Float[Array, " D"]) -> Float[Array, " n"]:
        # In the chart whose centre is nearer, 1 + |w| is at least 1.
        is_in_first = X[-1] >= 0
        local = X[:-1] / (1 + jnp.abs(X[-1]))
        return local + jnp.where(is_in_first, 0, self._centre(local))

    def havs(self, x: Float[Array, " n"], y: Float[Array, " n"]) -> tuple[Scalar, Scalar]:
        x, sign_x = self._local(x)
        y, sign_y = self._local(y)
        # If the two are in different charts, −y are the coordinates of the antipode of y in the chart of x. Its
        # haversine with x is the complement, 1 − hav, of that of y.
        same = sign_x == sign_y
        hav, complement = stereographic_havs(x, jnp.where(same, y, -y))
        return jnp.where(same, hav, complement), jnp.where(same, complement, hav)

    def exp(self, x: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " n"]:
        X, V = jax.jvp(self.embed, (x,), (v,))
        # The geodesic is an arc of the length |V| of a great circle; it ends in X cos |V| + V sin |V|/|V|.
        square = V @ V
        return self.coordinates(cosine(1, square) * X + sine_ratio(1, square) * V)

    def target(self, x: Float[Array, " n"], reach: float) -> Scalar:
        local, sign = self._local(x)
        outside = local @ local > LARGEST * reach**2
        # From the first chart, where the sign is 1, to the chart number 2, and from the second to the chart number 1.
        other = (3 + sign) / 2
        return jnp.where(outside, other, 0)

    def move(self, target: Scalar, x: Float[Array, " n"]) -> Float[Array, " n"]:
        local, _ = self._local(x)
        square = local @ local
        # From one chart to the other points are mirrored in the unit sphere: x ↦ x/|x|². A point that stays may be the
        # centre, where this would divide by 0.
        stays = target == 0
        inverted = local / jnp.where(stays, 1, square)
        other = inverted + jnp.where(target == 2, self._centre(x), 0)
        return jnp.where(stays, x, other)


class MovingHalfSpace(AbstractHalfSpace, AbstractAtlas):
    """Poincaré's half-space, carried along with a body by the isometries x ↦ (h₀, 0) + z₀x. If the height of the mean
    of the points is below one half or above 2, or if the mean is further to a side than its height, the chart moves so
    that the mean becomes the point (0, 1). The frame is (h₀, z₀), and a switch is the mean: its height is above 0, so
    that zeros mean that the chart stays.

    In exact arithmetic a step of any Runge–Kutta method is the same in all of these charts, which are affine functions
    of each other.
    """

    curvature: int = eqx.field(static=True, default=-1)

    def sizes(self, dim: int) -> Sizes:
        return Sizes(per_point=0, per_body=dim)

    def switch(self, x: Float[Array, "N n"]) -> Float[Array, " s"]:
        # Which chart is used makes no difference to the motion: so it has no derivative.
        centre = jax.lax.stop_gradient(jnp.mean(x, axis=0))
        height = centre[-1]
        # A length of about 1 away from the point (0, 1), as the metric measures lengths in heights.
        away = (height > 2) | (height < 0.5) | jnp.any(jnp.abs(centre[:-1]) > height)
        return jnp.where(away, centre, 0)

    def another(self, x: Float[Array, "N n"]) -> Float[Array, " s"]:
        # Any point near the first one, at another height.
        height = x[0, -1]
        return jnp.append(0.4 * height + x[0, :-1], 1.5 * height)

    def switched(self, switch: Float[Array, " s"], x: Float[Array, "N n"]) -> Float[Array, "N n"]:
        # Where the chart stays, the switch is zero: height 1 and nothing below change no point.
        height = jnp.where(switch[-1] == 0, 1, switch[-1])
        below = jnp.append(switch[:-1], 0)
        return (x - below[None]) / height

    def start_frame(self, x: Float[Array, "N n"]) -> Float[Array, " f"]:
        return jnp.append(jnp.zeros(x.shape[1] - 1, x.dtype), 1.0)

    def moved_frame(self, frame: Float[Array, " f"], switch: Float[Array, " s"]) -> Float[Array, " f"]:
        moved = self.from_frame(frame, switch[None])[0]
        return jnp.where(switch[-1] == 0, frame, moved)

    def from_frame(self, frame: Float[Array, " f"], x: Float[Array, "N n"]) -> Float[Array, "N n"]:
        scaled = frame[-1] * x
        below = jnp.append(frame[:-1], 0)
        return scaled + below[None]
