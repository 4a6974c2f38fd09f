"""Areas and volumes of geodesic simplices in any metric, by quadrature over cones of geodesics.

The cone from a point over a set consists of the geodesics from the point to all points of the set. The cone from y over
the point z is a geodesic, the cone from x over this geodesic a surface, and the cone from w over the surface a solid.
With parameters s, t, … in [0, 1] along the geodesics the content (length, area, volume) is the integral of
√det(Jᵀ g J), J = ∂x/∂(s, t, …), computed by Gauss' rule in each parameter. The derivatives of a geodesic with respect
to its ends follow from the boundary-value problem by the implicit-function theorem."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._foundations.typing import Array, Bool, Float, Scalar
from geodyn._geometry.geodesics.between import short_path
from geodyn._geometry.geodesics.geodesic import nearest_image
from geodyn._geometry.geodesics.paths import gauss
from geodyn._geometry.geodesics.relaxation import NODES
from geodyn._geometry.manifold.manifold import AbstractManifold, safe_sqrt, signature_of

ROUNDING = 16


def content(
    space: AbstractManifold, points: Sequence[Float[Array, " n"]], nodes: int
) -> tuple[Scalar, Bool[Array, ""]]:
    """(the content of the geodesic simplex with these corners, whether the quadrature nodes resolve it).

    The simplex is built from the last corner, as the cone from one corner after the other. Gauss' rule with n nodes
    resolves n Legendre modes of the integrand and integrates twice as many exactly. The modes decay geometrically, so
    the error is about the square of the highest resolved modes. The integrand counts as resolved if these are below
    √eps times the mean of the product of the lengths of ∂x/∂s, ∂x/∂t, …"""
    signature = signature_of(space)
    if signature[1] > 0:
        raise ValueError(f"areas and volumes need a positive definite metric; this one has signature {signature}")
    *before, last = points
    corners = [last]
    for point in reversed(before):
        corners.append(nearest_image(space, corners[-1], point))
    x = corners[0][None]
    J = jnp.zeros((1, 0, corners[0].size), corners[0].dtype)
    for corner in corners[1:]:
        x, J = _cone(space, corner, x, J, nodes)
    density, size = jax.vmap(lambda x, J: _density(space.metric(x), J))(x, J)
    order = len(corners) - 1
    cube = (nodes,) * order
    modes = _modes(density.reshape(cube), nodes)
    scale = _modes(size.reshape(cube), nodes)
    highest = [jnp.max(jnp.abs(jnp.moveaxis(modes, axis, 0)[-2:])) for axis in range(order)]
    mean = modes[(0,) * order]
    unresolved = jnp.max(jnp.stack(highest)) > jnp.finfo(mean.dtype).eps ** 0.5 * scale[(0,) * order]
    return mean, ~unresolved & jnp.isfinite(mean)


def _cone(
    space: AbstractManifold, apex: Float[Array, " n"], x: Float[Array, "Q n"], J: Float[Array, "Q k n"], nodes: int
) -> tuple[Float[Array, "P n"], Float[Array, "P l n"]]:
    """Points and tangents of the cone from `apex` over a base with points x[Q, n] and tangents J[Q, k, n], at Gauss'
    nodes along the geodesic to each point of the base: [nodes · Q, n] and [nodes · Q, k + 1, n]."""
    path_nodes = max(NODES, nodes)
    at, rate = _along_path(nodes, path_nodes)

    def one(x: Float[Array, " n"], J: Float[Array, "k n"]) -> tuple[Float[Array, "Q n"], Float[Array, "Q l n"]]:
        u, push = jax.linearize(lambda x: short_path(space, apex, x, path_nodes), x)
        weights = jnp.asarray(at, x.dtype)
        slopes = jnp.asarray(rate, x.dtype)
        tangents = [slopes @ u, *(weights @ push(J[k]) for k in range(len(J)))]
        return apex[None] + weights @ u, jnp.stack(tangents, axis=1)

    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), jax.vmap(one)(x, J))


@functools.cache
def _along_path(nodes: int, path_nodes: int) -> tuple[Float[np.ndarray, "a b"], Float[np.ndarray, "a b"]]:
    """Two matrices [nodes, path_nodes] that act on the velocities of a path at its own `path_nodes` Gauss nodes: they
    give the displacements from its start at the `nodes` Gauss nodes of the quadrature, and the velocities there."""
    _, _, b, P = gauss(path_nodes)
    z = 2 * gauss(nodes)[0] - 1
    k = np.arange(path_nodes)
    L = np.polynomial.legendre.legvander(z, path_nodes)
    integrals = np.concatenate([1 + z[:, None], (L[:, 2:] - L[:, :-2]) / (2 * k[1:] + 1)], axis=1) / 2
    modes = (P * b[:, None]).T * np.sqrt(2 * k + 1)[:, None]
    return integrals @ modes, L[:, :-1] @ modes


def _density(g: Float[Array, "n n"], J: Float[Array, "k n"]) -> tuple[Scalar, Scalar]:
    """(√det(J g Jᵀ) of tangents J[k, n], the product of their lengths). A determinant within rounding error is 0."""
    gram = J @ g @ J.T
    size = safe_sqrt(jnp.prod(jnp.diag(gram)))
    square: Scalar = jnp.linalg.det(gram)
    square = jnp.where(square <= ROUNDING * jnp.finfo(g.dtype).eps * size**2, 0, square)
    return safe_sqrt(square), size


def _modes(a: Float[Array, "..."], nodes: int) -> Float[Array, "..."]:
    """Legendre coefficients, in every axis, of a function given at Gauss' nodes of a cube; the first is the mean."""
    _, _, b, P = gauss(nodes)
    matrix = jnp.asarray((P * b[:, None]).T, a.dtype)
    for axis in range(a.ndim):
        a = jnp.moveaxis(jnp.tensordot(matrix, a, (1, axis)), 0, axis)
    return a
