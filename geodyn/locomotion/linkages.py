"""MOTION: chains of rigid links in the plane."""

import jax.numpy as jnp
import numpy as np

from geodyn._typing import Array, Float


def chain(lengths: Float[Array, " L"], r: Float[Array, " _"]) -> Float[Array, "L 3"]:
    """Centre and heading (x, y, angle) of each link of a chain, seen from its middle link, the left one of two.

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
