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

# How far apart the centres of the two charts are, and the largest |x|² from them after a step.
APART = 8.0
LARGEST = 1.25


class StereographicPair(AbstractChart, AbstractPatches):
    """Both stereographic charts of the sphere: x = X'/(1 + w), and X'/(1 − w) shifted so that its centre is (8, 0, …,
    0) instead of the origin. In coordinates relative to the centre of its chart, a point has |x|² ≤ 1.25 after a step.
    It may be up to 4 away from the centre, so that a step may be up to one radian long; further away it is NaN."""

    curvature: int = eqx.field(static=True, default=1)

    def _local(self, x: Float[Array, " n"]) -> tuple[Float[Array, " n"], Scalar]:
        """The coordinates of x relative to the centre of its chart, and the sign of w at this centre."""
        second = x[0] > APART / 2
        local = x - jnp.where(second, self._centre(x), 0)
        valid = local @ local < (APART / 2) ** 2
        sign = jnp.where(second, -1.0, 1.0).astype(x.dtype)
        return jnp.where(valid, local, jnp.nan), sign

    def _centre(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        """The centre of the second chart."""
        return jnp.where(jnp.arange(x.shape[0]) == 0, APART, 0.0).astype(x.dtype)

    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        local, _ = self._local(x)
        return 4 / (1 + local @ local) ** 2 * jnp.eye(x.shape[0], dtype=x.dtype)

    def embed(self, x: Float[Array, " n"]) -> Float[Array, " D"]:
        local, sign = self._local(x)
        square = local @ local
        return jnp.append(2 * local, sign * (1 - square)) / (1 + square)

    def coordinates(self, X: Float[Array, " D"]) -> Float[Array, " n"]:
        first = X[-1] >= 0
        local = X[:-1] / (1 + jnp.abs(X[-1]))
        return local + jnp.where(first, 0, self._centre(local))

    def havs(self, x: Float[Array, " n"], y: Float[Array, " n"]) -> tuple[Scalar, Scalar]:
        x, sign = self._local(x)
        y, other = self._local(y)
        # In the other chart y is y/|y|², whose haversine with x is that of −y with the antipode of x.
        same = sign == other
        near, far = stereographic_havs(x, jnp.where(same, y, -y))
        return jnp.where(same, near, far), jnp.where(same, far, near)

    def exp(self, x: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " n"]:
        X, V = jax.jvp(self.embed, (x,), (v,))
        square = V @ V
        return self.coordinates(cosine(1, square) * X + sine_ratio(1, square) * V)

    def target(self, x: Float[Array, " n"], reach: float) -> Scalar:
        local, sign = self._local(x)
        return jnp.where(local @ local > LARGEST * reach**2, (3 + sign) / 2, 0)

    def move(self, target: Scalar, x: Float[Array, " n"]) -> Float[Array, " n"]:
        local, _ = self._local(x)
        square = local @ local
        # From one chart to the other points are mirrored in the unit circle: x ↦ x/|x|².
        inverted = local / jnp.where(target == 0, 1, square)
        other = inverted + jnp.where(target == 2, self._centre(x), 0)
        return jnp.where(target == 0, x, other)


class MovingHalfSpace(AbstractHalfSpace, AbstractAtlas):
    """Poincaré's half-space, carried along with a body by the isometries x ↦ (h₀, 0) + z₀x. If the height of the mean
    of the points is below one half or above 2, or if the mean is further to a side than its height, the chart moves so
    that the mean becomes the point (0, 1). The frame is (h₀, z₀).

    In exact arithmetic a step of any Runge–Kutta method is the same in all of these charts, which are affine functions
    of each other.
    """

    curvature: int = eqx.field(static=True, default=-1)

    def sizes(self, dim: int) -> Sizes:
        return Sizes(per_point=0, per_body=dim)

    def switch(self, x: Float[Array, "N n"]) -> Float[Array, " s"]:
        centre = jax.lax.stop_gradient(jnp.mean(x, axis=0))
        height = centre[-1]
        away = (height > 2) | (height < 0.5) | jnp.any(jnp.abs(centre[:-1]) > height)
        return jnp.where(away, centre, 0)

    def another(self, x: Float[Array, "N n"]) -> Float[Array, " s"]:
        height = x[0, -1]
        return jnp.append(0.4 * height + x[0, :-1], 1.5 * height)

    def switched(self, switch: Float[Array, " s"], x: Float[Array, "N n"]) -> Float[Array, "N n"]:
        height = jnp.where(switch[-1] == 0, 1, switch[-1])
        return (x - jnp.append(switch[:-1], 0)[None]) / height

    def start_frame(self, x: Float[Array, "N n"]) -> Float[Array, " f"]:
        return jnp.append(jnp.zeros(x.shape[1] - 1, x.dtype), 1.0)

    def moved_frame(self, frame: Float[Array, " f"], switch: Float[Array, " s"]) -> Float[Array, " f"]:
        moved = self.from_frame(frame, switch[None])[0]
        return jnp.where(switch[-1] == 0, frame, moved)

    def from_frame(self, frame: Float[Array, " f"], x: Float[Array, "N n"]) -> Float[Array, "N n"]:
        return frame[-1] * x + jnp.append(frame[:-1], 0)[None]
