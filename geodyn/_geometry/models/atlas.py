"""Atlases: several charts of a space, so that bodies pass through poles, and travel far, without losing digits.

There are two kinds. Several charts may lie side by side in one coordinate space: then the coordinates of a point tell
its chart, and every formula of the space works on points of different charts. Or one chart moves with the body by
isometries of the space: then the position of the chart, its frame, is stored apart from the coordinates in it, which
stay small.
"""

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._foundations.typing import Array, Float, Scalar


class Sizes(NamedTuple):
    """How many numbers a switch has for each point, and for the body as a whole. A frame has those of the body."""

    per_point: int
    per_body: int


class AbstractAtlas(eqx.Module):
    """Charts between which the points x[N, n] of a body move after a step. The `switch`, which says to which charts
    they move, and the `frame`, the position of charts that move, are piecewise constant and have no derivatives."""

    @abc.abstractmethod
    def sizes(self, dim: int) -> Sizes:
        """The sizes of a switch, in a space of this dimension."""

    @abc.abstractmethod
    def switch(self, x: Float[Array, "N n"]) -> Float[Array, " s"]:
        """The switch to the charts that suit x, zeros if it is in them."""

    @abc.abstractmethod
    def another(self, x: Float[Array, "N n"]) -> Float[Array, " s"]:
        """A switch to other charts that suit x about as well, with which the charts are compared; zeros if there are
        none."""

    @abc.abstractmethod
    def switched(self, switch: Float[Array, " s"], x: Float[Array, "N n"]) -> Float[Array, "N n"]:
        """The same points after the switch."""

    @abc.abstractmethod
    def start_frame(self, x: Float[Array, "N n"]) -> Float[Array, " f"]:
        """The frame of the charts at the start of a motion; empty for charts that do not move."""

    @abc.abstractmethod
    def moved_frame(self, frame: Float[Array, " f"], switch: Float[Array, " s"]) -> Float[Array, " f"]:
        """The frame after a switch."""

    @abc.abstractmethod
    def from_frame(self, frame: Float[Array, " f"], x: Float[Array, "N n"]) -> Float[Array, "N n"]:
        """The points x of the charts with this frame, in the charts of the start."""


class AbstractPatches(AbstractAtlas):
    """Charts that lie side by side in one coordinate space, numbered from 1. Each point of a body has its own chart."""

    @abc.abstractmethod
    def target(self, x: Float[Array, " n"], reach: float) -> Scalar:
        """The number of the chart to which x should move, or 0 if it should stay: it stays until its distance from the
        centre of its chart exceeds `reach` times the size of the chart."""

    @abc.abstractmethod
    def move(self, target: Scalar, x: Float[Array, " n"]) -> Float[Array, " n"]:
        """The point x in the chart with the number `target`; x itself for 0."""

    def sizes(self, dim: int) -> Sizes:
        return Sizes(per_point=1, per_body=0)

    def switch(self, x: Float[Array, "N n"]) -> Float[Array, " s"]:
        return jax.lax.stop_gradient(jax.vmap(lambda x: self.target(x, 1.0))(x))

    def another(self, x: Float[Array, "N n"]) -> Float[Array, " s"]:
        return jax.vmap(lambda x: self.target(x, 0.8))(x)

    def switched(self, switch: Float[Array, " s"], x: Float[Array, "N n"]) -> Float[Array, "N n"]:
        return jax.vmap(self.move)(switch, x)

    def start_frame(self, x: Float[Array, "N n"]) -> Float[Array, " f"]:
        return jnp.zeros(0, x.dtype)

    def moved_frame(self, frame: Float[Array, " f"], switch: Float[Array, " s"]) -> Float[Array, " f"]:
        return frame

    def from_frame(self, frame: Float[Array, " f"], x: Float[Array, "N n"]) -> Float[Array, "N n"]:
        return x
