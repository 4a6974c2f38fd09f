"""MOTION: rigid links in the plane: their poses in a chain, their velocities, outlines of links and wheels."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Row
from geodyn._locomotion.connections.checks import require_positive
from geodyn._locomotion.connections.locomotion import AbstractLocomotion


class AbstractLinks(AbstractLocomotion):
    """What all bodies of rigid straight links in the plane share, whatever resists their motion: the lengths and the
    places of the links, their outline, and the shapes with which a search begins."""

    lengths: eqx.AbstractVar[Float[Array, " L"]]

    @abstractmethod
    def links(self, r: Float[Array, " m"]) -> Float[Array, "L 3"]:
        """Centre and heading (x, y, angle) of each link in the frame of the body."""

    @property
    def first_shape(self) -> Float[Array, " m"] | None:
        """The straight shape; None if the number of shape variables is not known: the class does not name them, and
        `links` does not take a hinge angle for each two neighbouring links."""
        if self.shape_count is not None:
            return _straight(self.shape_count)
        hinges = _straight(self.lengths.shape[0] - 1)
        try:
            jax.eval_shape(self.links, hinges)
        except (TypeError, ValueError, IndexError):
            return None
        return hinges

    @property
    def shape_region(self) -> tuple[Float[Array, " m"], Float[Array, " m"]] | None:
        """All angles, from −π to π, of as many shape variables as `first_shape` has; None where there is none."""
        first = self.first_shape
        if first is None:
            return None
        half = jnp.asarray(np.full(np.shape(first), np.pi))
        return -half, half

    @checked
    def outline(self, r: Float[Array, " m"]) -> Float[Array, "L 2 2"]:
        """The links as line segments [L, 2, 2], each by its two ends."""
        return bars(self.links(r), self.lengths)


def _straight(count: int) -> Float[Array, " m"]:
    """The shape with this many angles, all zero. They are made by NumPy, so that inside jit too they are known numbers,
    which checks can read."""
    return jnp.asarray(np.zeros(count))


def link_velocities(
    poses: Float[Array, "L 3"], rates: Float[Array, "L 3"], xi: Float[Array, "3"]
) -> Float[Array, "L 3"]:
    """The velocity of each piece along itself, across itself, and its angular velocity. The pieces have the poses
    (x, y, angle) and the `rates` of these in the frame of the body, which moves with the velocity ξ."""
    x, y, angle = poses.T
    # The velocity (u, v) of each piece, in the directions of the frame of the body.
    u = xi[0] - xi[2] * y + rates[:, 0]
    v = xi[1] + xi[2] * x + rates[:, 1]
    cos = jnp.cos(angle)
    sin = jnp.sin(angle)
    along = cos * u + sin * v
    across = cos * v - sin * u
    turning = xi[2] + rates[:, 2]
    return jnp.stack([along, across, turning], axis=1)


def hinge_names(lengths: Float[Array, " L"]) -> tuple[str, ...]:
    """The names of the hinge angles of a chain."""
    return tuple(f"hinge angle {i + 1} (rad)" for i in range(lengths.size - 1))


def chain(lengths: Float[Array, " L"], r: Float[Array, " _"]) -> Float[Array, "L 3"]:
    """Centre and heading (x, y, angle) of each link of a chain, in the frame of its middle link (of the two middle ones
    the first).

    The L − 1 numbers in r are the angles by which the chain turns from link to link, from tail to head. Raises
    ValueError for r of another size.
    """
    n = lengths.shape[0]
    if r.shape != (n - 1,):
        raise ValueError(f"{n} links have {n - 1} angles, got a shape r of {r.shape}.")
    # Seen from the tail, a link has turned by all angles before it, and its centre is half a link beyond those before.
    # So headings and centres are sums, with the coefficients in the rows of `turns` and `ways`. The row of the middle
    # link is subtracted, so that they are seen from there.
    middle = (n - 1) // 2
    before = np.tri(n, n, -1)
    turns = before[:, : n - 1]
    ways = before + np.eye(n) / 2
    angle = jnp.asarray(turns - turns[middle], r.dtype) @ r
    steps = lengths[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    centres = jnp.asarray(ways - ways[middle], r.dtype) @ steps
    return jnp.concatenate([centres, angle[:, None]], axis=1)


def standing_waves(owner: str, hinges: int, waves: Row) -> np.ndarray:
    """Two modes for each number of waves, cosine and sine along the hinges. Raises ValueError unless all numbers are
    positive and there are enough hinges to tell the modes apart."""
    numbers = np.atleast_1d(np.asarray(waves, float))
    require_positive(owner, waves=numbers)
    places = np.arange(1, hinges + 1) / (hinges + 1)
    angles = 2 * np.pi * places[:, None] * numbers
    modes = np.stack([np.cos(angles), np.sin(angles)], axis=2).reshape(hinges, 2 * numbers.size)
    if hinges < modes.shape[1] or np.linalg.matrix_rank(modes) < modes.shape[1]:
        raise ValueError(
            f"{owner}: waves {numbers} are {modes.shape[1]} modes, which {hinges} hinges cannot tell apart: take more"
            " links, or other numbers of waves."
        )
    return modes


def from_the_centre(poses: Float[Array, "L 3"], masses: Float[Array, " L"]) -> Float[Array, "L 3"]:
    """The poses (x, y, angle) of links, seen from a frame at their centre of mass that has their mean heading."""
    return seen_from(masses @ poses / jnp.sum(masses), poses)


def seen_from(frame: Float[Array, "3"], poses: Float[Array, "L 3"]) -> Float[Array, "L 3"]:
    """Poses (x, y, angle), seen from one of them or from any other frame."""
    x, y, angle = (poses - frame[None]).T
    cos = jnp.cos(frame[2])
    sin = jnp.sin(frame[2])
    ahead = cos * x + sin * y
    aside = cos * y - sin * x
    return jnp.stack([ahead, aside, angle], axis=1)


def bars(poses: Float[Array, "L 3"], lengths: Float[Array, " L"]) -> Float[Array, "L 2 2"]:
    """Line segments of the given lengths with the poses (x, y, angle) of their centres, each by its two ends."""
    x, y, angle = poses.T
    heading = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    half = lengths[:, None] / 2 * heading
    centre = jnp.stack([x, y], axis=1)
    return jnp.stack([centre - half, centre + half], axis=1)


def wheels(poses: Float[Array, "W 3"], sizes: Float[Array, " W"]) -> Float[Array, "_ 2 2"]:
    """Line segments of axles with two wheels each. `poses` (x, y, angle) are the middles of the axles and the
    directions in which the wheels roll; `sizes` are the diameters of the wheels, and also the lengths of the axles."""
    quarter_turn = jnp.array([0.0, 0.0, jnp.pi / 2])
    axles = bars(poses + quarter_turn[None], sizes)
    heading = poses[:, 2:]
    treads = []
    for end in (0, 1):
        at_end = jnp.concatenate([axles[:, end], heading], axis=1)
        treads.append(bars(at_end, sizes))
    return jnp.concatenate([axles, *treads])
