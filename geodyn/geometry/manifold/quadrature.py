"""Integrals over closed surfaces."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._typing import Array, Float
from geodyn.geometry.manifold.manifold import AbstractManifold


def sphere_quadrature(
    embedding: Callable, space: AbstractManifold, nodes: int = 48
) -> tuple[Float[Array, "Q n"], Float[Array, " Q"]]:
    """(points x[Q, n], weights[Q]) with ∫ f dA ≈ Σ weights f(x) over a surface in a space that is a sphere:
    `embedding(X) -> x[n]` of the unit vectors X in R³, with the area that the metric of the space gives it.

    Gauss's rule along the axis with `nodes` points, the trapezoidal rule around it with twice as many: the error falls
    exponentially where the embedding is analytic (Atkinson & Han, *Spherical Harmonics*, 5.2). Their sum is the area.
    """
    z, weights = np.polynomial.legendre.leggauss(nodes)
    turn = np.pi * (np.arange(2 * nodes) + 0.5) / nodes
    z, turn = (x.reshape(-1) for x in np.broadcast_arrays(z[:, None], turn[None, :]))
    out, cosine, sine = np.sqrt(1 - z**2), np.cos(turn), np.sin(turn)
    X = np.stack([out * cosine, out * sine, z], axis=1)
    frames = np.stack([np.stack([z * cosine, z * sine, -out], 1), np.stack([-sine, cosine, 0 * z], 1)], axis=1)

    def at(X, frame):
        x, tangents = jax.vmap(lambda u: jax.jvp(embedding, (X,), (u,)), out_axes=(None, 0))(frame)
        h = tangents @ space.metric(x) @ tangents.T
        return x, jnp.sqrt(h[0, 0] * h[1, 1] - h[0, 1] ** 2)

    x, stretch = jax.vmap(at)(jnp.asarray(X), jnp.asarray(frames))
    return x, stretch * jnp.asarray(np.repeat(weights, 2 * nodes) * np.pi / nodes)
