"""Integrals over closed surfaces."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._foundations.checks import returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Scalar
from geodyn._geometry.manifold.manifold import AbstractManifold


@checked
def sphere_quadrature(
    embedding: Callable[[Array], Array], space: AbstractManifold, nodes: Count = 48
) -> tuple[Float[Array, "Q n"], Float[Array, " Q"]]:
    """Points and weights of a quadrature over a closed surface that is a deformed sphere: ∫ f dA ≈ Σ weights f(x).

    It is Gauss's rule along the axis and the trapezoidal rule around it, with twice as many points. The error falls
    exponentially with `nodes` where the embedding is analytic.

    Args:
        embedding: function X[3] -> x[n], the point of the surface for each unit vector X.
        space: the space of the surface, whose metric gives the area.
        nodes: number of points along the axis.

    Returns:
        (points x[Q, n], weights[Q]) with Q = 2 nodes². The sum of the weights is the area.

    Example:
        A spheroid with the semi-axes 2, 2, 1: its area has a closed form.

        >>> axes, e = jnp.array([2.0, 2.0, 1.0]), np.sqrt(0.75)
        >>> points, weights = gd.surfaces.sphere_quadrature(lambda X: axes * X, gd.spaces.Euclidean(3), nodes=24)
        >>> print(points.shape, f"{weights.sum():.6f} {2 * np.pi * (4 + np.arctanh(e) / e):.6f}")
        (1152, 3) 34.687531 34.687531

    Source:
        Atkinson & Han, *Spherical Harmonics*, 5.2.
    """
    # dA = dz dφ on the unit sphere (Archimedes): so Gauss's rule is in the height z, and not in the angle.
    z, weights = np.polynomial.legendre.leggauss(nodes)
    turn = np.pi * (np.arange(2 * nodes) + 0.5) / nodes
    # Every point along the axis goes with every turn around it.
    z = np.repeat(z, 2 * nodes)
    turn = np.tile(turn, nodes)
    out = np.sqrt(1 - z**2)
    cosine = np.cos(turn)
    sine = np.sin(turn)
    X = np.stack([out * cosine, out * sine, z], axis=1)
    # Orthonormal tangents of the unit sphere.
    along_meridian = np.stack([z * cosine, z * sine, -out], axis=1)
    along_parallel = np.stack([-sine, cosine, 0 * z], axis=1)
    frames = np.stack([along_meridian, along_parallel], axis=1)

    def point(X: Float[Array, "3"]) -> Array:
        return returned("embedding", embedding, X)

    def point_and_stretch(X: Float[Array, "3"], frame: Float[Array, "2 3"]) -> tuple[Array, Scalar]:
        x, tangents = jax.vmap(lambda u: jax.jvp(point, (X,), (u,)), out_axes=(None, 0))(frame)
        # The area of the parallelogram of the images of two orthonormal vectors.
        gram = tangents @ space.metric(x) @ tangents.T
        return x, jnp.sqrt(gram[0, 0] * gram[1, 1] - gram[0, 1] ** 2)

    x, stretch = jax.vmap(point_and_stretch)(jnp.asarray(X), jnp.asarray(frames))
    areas_on_sphere = np.repeat(weights, 2 * nodes) * np.pi / nodes
    return x, stretch * jnp.asarray(areas_on_sphere)
