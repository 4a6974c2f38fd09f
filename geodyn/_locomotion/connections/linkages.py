"""MOTION: poses of chains of rigid links in the plane, and outlines of links and wheels."""

import jax.numpy as jnp
import numpy as np

from geodyn._foundations.typing import Array, Float


def chain(lengths: Float[Array, " L"], r: Float[Array, " _"]) -> Float[Array, "L 3"]:
    """Centre and heading (x, y, angle) of each link of a chain, in the frame of its middle link (of the two middle ones
    the first).

    r[L − 1] are the angles by which the chain turns from link to link, from tail to head. Raises ValueError for r of
    another size.
    """
    n = lengths.shape[0]
    if r.shape != (n - 1,):
        raise ValueError(f"{n} links have {n - 1} angles, got a shape r of {r.shape}.")
    before = np.tri(n, n, -1)
    turns, ways = before[:, : n - 1], before + np.eye(n) / 2
    angle = jnp.asarray(turns - turns[(n - 1) // 2], r.dtype) @ r
    steps = lengths[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    return jnp.concatenate([jnp.asarray(ways - ways[(n - 1) // 2], r.dtype) @ steps, angle[:, None]], axis=1)


def bars(poses: Float[Array, "L 3"], lengths: Float[Array, " L"]) -> Float[Array, "L 2 2"]:
    """Line segments of the given lengths with the poses (x, y, angle) of their centres, each by its two ends."""
    x, y, angle = poses.T
    half = lengths[:, None] / 2 * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    centre = jnp.stack([x, y], axis=1)
    return jnp.stack([centre - half, centre + half], axis=1)


def wheels(poses: Float[Array, "W 3"], sizes: Float[Array, " W"]) -> Float[Array, "_ 2 2"]:
    """Line segments of axles with two wheels each. `poses` (x, y, angle) are the middles of the axles and the
    directions in which the wheels roll; `sizes` are the diameters of the wheels, and also the lengths of the axles."""
    axles = bars(poses + jnp.array([0.0, 0.0, jnp.pi / 2])[None], sizes)
    treads = [bars(jnp.concatenate([axles[:, end], poses[:, 2:]], axis=1), sizes) for end in (0, 1)]
    return jnp.concatenate([axles, *treads])
