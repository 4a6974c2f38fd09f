"""Spaces of several charts, so that bodies travel through poles, and far, without losing digits.

Charts that lie side by side in one coordinate space: the coordinates of a point tell its chart, and every formula of
the space works on points of different charts. Or one chart that moves with the body by isometries of the space: where
it stands, the frame, is kept apart from the coordinates in it, which stay small.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._typing import Array, Float, Scalar


class AbstractAtlas(eqx.Module):
    """Charts between which the points x[N, n] of a body move after a step. What says where to, `switch` and `frame`, is
    piecewise constant and has no derivative."""

    @abc.abstractmethod
    def switch(self, x: Float[Array, "N n"]) -> Float[Array, " s"]:
        """The switch to the charts that suit x, zeros if it is in them."""

    @abc.abstractmethod
    def another(self, x: Float[Array, "N n"]) -> Float[Array, " s"]:
        """A switch to charts that hold x about as well, zeros where there are none: to compare them."""

    @abc.abstractmethod
    def switched(self, switch: Float[Array, " s"], x: Float[Array, "N n"]) -> Float[Array, "N n"]:
        """The same points in those charts."""

    @abc.abstractmethod
    def start_frame(self, x: Float[Array, "N n"]) -> Float[Array, " f"]:
        """Where the charts stand at the start of a motion; empty for charts that do not move."""

    @abc.abstractmethod
    def moved_frame(self, frame: Float[Array, " f"], switch: Float[Array, " s"]) -> Float[Array, " f"]:
        """Where they stand after a switch."""

    @abc.abstractmethod
    def from_frame(self, frame: Float[Array, " f"], x: Float[Array, "N n"]) -> Float[Array, "N n"]:
        """Points of charts that stand there, in the charts of the start."""


class AbstractPatches(AbstractAtlas):
    """Charts that lie side by side in one coordinate space, numbered from 1; every point is in one of its own."""

    @abc.abstractmethod
    def target(self, x: Float[Array, " n"], reach: float) -> Scalar:
        """The number of the chart that x should go to once it is further than `reach` times the size of its own from
        the centre of that; 0 to stay."""

    @abc.abstractmethod
    def moved(self, target: Scalar, x: Float[Array, " n"]) -> Float[Array, " n"]:
        """The point x in the chart of that number, x itself for 0."""

    def switch(self, x):
        return jax.lax.stop_gradient(jax.vmap(lambda x: self.target(x, 1.0))(x))

    def another(self, x):
        return jax.vmap(lambda x: self.target(x, 0.8))(x)

    def switched(self, switch, x):
        return jax.vmap(self.moved)(switch, x)

    def start_frame(self, x):
        return jnp.zeros(0, x.dtype)

    def moved_frame(self, frame, switch):
        return frame

    def from_frame(self, frame, x):
        return x
