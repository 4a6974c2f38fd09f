"""Areas and volumes of cones of geodesics, in any metric.

The cone over a point z from y is the geodesic between them; over that from x, the surface of the geodesics from x to
all of its points; over that from w, a solid. With s, t, … in [0, 1] along the geodesics its content is the integral of
√det(Jᵀ g J), J = ∂x/∂(s, t, …): Gauss' rule in each of them. How the geodesics change with their ends is the derivative
of the boundary-value solve, by the implicit-function theorem."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._typing import Array, Bool, Scalar
from geodyn.geometry.geodesics.between import FEW_NODES, short_path
from geodyn.geometry.geodesics.geodesic import nearest_image
from geodyn.geometry.geodesics.paths import gauss
from geodyn.geometry.manifold.manifold import AbstractManifold, Manifold, safe_sqrt

ROUNDING = 16


def content(space: AbstractManifold, points, nodes: int) -> tuple[Scalar, Bool[Array, ""]]:
    """(the content of the cone from the first of the points over that of the others, whether the nodes resolve it).

    A rule of so many nodes is exact for twice as many modes of the integrand as it can tell apart, whose size falls
    geometrically. So the error is about the square of the last modes, and they may be as large as √eps, in units of the
    mean product of the lengths of ∂x/∂s, ∂x/∂t, …"""
    if isinstance(space, Manifold) and space.signature[1] > 0:
        raise ValueError(f"areas and volumes need a positive definite metric; this one has signature {space.signature}")
    *before, last = points
    corners = [last]
    for point in reversed(before):
        corners.append(nearest_image(space, corners[-1], point))
    x, J = corners[0][None], jnp.zeros((1, 0, corners[0].size), corners[0].dtype)
    for corner in corners[1:]:
        x, J = _cone(space, corner, x, J, nodes)
    density, size = jax.vmap(lambda x, J: _density(space.metric(x), J))(x, J)
    order = len(corners) - 1
    modes, scale = (_modes(a.reshape((nodes,) * order), nodes) for a in (density, size))
    highest = [jnp.max(jnp.abs(jnp.moveaxis(modes, axis, 0)[-2:])) for axis in range(order)]
    mean = modes[(0,) * order]
    unresolved = jnp.max(jnp.stack(highest)) > jnp.finfo(mean.dtype).eps ** 0.5 * scale[(0,) * order]
    return mean, ~unresolved & jnp.isfinite(mean)


def _cone(space, apex, x, J, nodes):
    """Points x[Q, n] of a cone, and its tangents J[Q, k, n], at all nodes of the cone from `apex` over it."""
    path_nodes = max(FEW_NODES, nodes)
    at, rate = _along_path(nodes, path_nodes)

    def one(x, J):
        u, push = jax.linearize(lambda x: short_path(space, apex, x, path_nodes), x)
        weights, slopes = jnp.asarray(at, x.dtype), jnp.asarray(rate, x.dtype)
        tangents = [slopes @ u, *(weights @ push(J[k]) for k in range(len(J)))]
        return apex[None] + weights @ u, jnp.stack(tangents, axis=1)

    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), jax.vmap(one)(x, J))


@functools.cache
def _along_path(nodes, path_nodes):
    """[nodes, path_nodes] matrices that take the velocities of a path of one piece to where it has got at Gauss' nodes,
    and to its velocities there."""
    _, _, b, P = gauss(path_nodes)
    z, k = 2 * gauss(nodes)[0] - 1, np.arange(path_nodes)
    L = np.polynomial.legendre.legvander(z, path_nodes)
    integrals = np.concatenate([1 + z[:, None], (L[:, 2:] - L[:, :-2]) / (2 * k[1:] + 1)], axis=1) / 2
    modes = (P * b[:, None]).T * np.sqrt(2 * k + 1)[:, None]
    return integrals @ modes, L[:, :-1] @ modes


def _density(g, J):
    """(√det(J g Jᵀ) of tangents J[k, n], the product of their lengths); 0 where that is rounding."""
    gram = J @ g @ J.T
    size = safe_sqrt(jnp.prod(jnp.diag(gram)))
    square = jnp.linalg.det(gram)
    square = jnp.where(square <= ROUNDING * jnp.finfo(g.dtype).eps * size**2, 0, square)
    return safe_sqrt(square), size


def _modes(a, nodes):
    """Legendre's modes of what is given at the nodes of a cube; the first is the mean."""
    _, _, b, P = gauss(nodes)
    matrix = jnp.asarray((P * b[:, None]).T, a.dtype)
    for axis in range(a.ndim):
        a = jnp.moveaxis(jnp.tensordot(matrix, a, (1, axis)), 0, axis)
    return a
