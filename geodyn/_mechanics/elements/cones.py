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
from geodyn._geometry.geodesics.distances import nearest_image
from geodyn._geometry.geodesics.paths import gauss
from geodyn._geometry.geodesics.relaxation import NODES
from geodyn._geometry.manifold.manifold import AbstractManifold, safe_sqrt, signature_of

# Rounding errors of a determinant, in eps: that of three tangents adds six products, each rounded a few times.
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
        # In a coordinate with a period a corner has many images: it is the one nearest to the corner before.
        corners.append(nearest_image(space, corners[-1], point))
    x = last[None]
    # A point has no tangents yet: each cone adds one.
    J = jnp.zeros((1, 0, last.size), last.dtype)
    for corner in corners[1:]:
        x, J = _cone(space, corner, x, J, nodes)
    density, size = jax.vmap(lambda x, J: _density(space.metric(x), J))(x, J)
    order = len(corners) - 1
    cube = (nodes,) * order
    modes = _modes(density.reshape(cube), nodes)
    modes_of_size = _modes(size.reshape(cube), nodes)
    highest = []
    for axis in range(order):
        # Two, since of an integrand that is even about the middle every other mode vanishes.
        last_two = jnp.moveaxis(modes, axis, 0)[-2:]
        highest.append(jnp.max(jnp.abs(last_two)))
    lowest = (0,) * order
    # The mean over the cube [0, 1]^order is the integral.
    mean = modes[lowest]
    bound = jnp.finfo(mean.dtype).eps ** 0.5 * modes_of_size[lowest]
    unresolved = jnp.max(jnp.stack(highest)) > bound
    return mean, ~unresolved & jnp.isfinite(mean)


def _cone(
    space: AbstractManifold, apex: Float[Array, " n"], x: Float[Array, "Q n"], J: Float[Array, "Q k n"], nodes: int
) -> tuple[Float[Array, "P n"], Float[Array, "P l n"]]:
    """Points and tangents of the cone from `apex` over a base with points x[Q, n] and tangents J[Q, k, n], at Gauss'
    nodes along the geodesic to each point of the base: [nodes · Q, n] and [nodes · Q, k + 1, n]."""
    path_nodes = max(NODES, nodes)
    displacement_matrix, velocity_matrix = _along_path(nodes, path_nodes)

    def path_to(x: Float[Array, " n"], J: Float[Array, "k n"]) -> tuple[Float[Array, "Q n"], Float[Array, "Q l n"]]:
        # The velocities of the geodesic from the apex to x, and how they change with x.
        u, push = jax.linearize(lambda x: short_path(space, apex, x, path_nodes), x)
        to_displacements = jnp.asarray(displacement_matrix, x.dtype)
        to_velocities = jnp.asarray(velocity_matrix, x.dtype)
        # Along the geodesic, and across to the neighbouring ones.
        tangents = [to_velocities @ u]
        for k in range(len(J)):
            tangents.append(to_displacements @ push(J[k]))
        return apex[None] + to_displacements @ u, jnp.stack(tangents, axis=1)

    places, tangents = jax.vmap(path_to)(x, J)
    return places.reshape(-1, *places.shape[2:]), tangents.reshape(-1, *tangents.shape[2:])


@functools.cache
def _along_path(nodes: int, path_nodes: int) -> tuple[Float[np.ndarray, "a b"], Float[np.ndarray, "a b"]]:
    """Two matrices [nodes, path_nodes] that act on the velocities of a path at its own `path_nodes` Gauss nodes: they
    give the displacements from its start at the `nodes` Gauss nodes of the quadrature, and the velocities there."""
    rule = gauss(path_nodes)
    z = 2 * gauss(nodes).nodes - 1
    k = np.arange(path_nodes)
    # From values at the nodes to coefficients of the Legendre polynomials P_k, whose mean squares are 1 / (2 k + 1).
    modes = (rule.polynomials * rule.weights[:, None]).T * np.sqrt(2 * k + 1)[:, None]
    polynomials = np.polynomial.legendre.legvander(z, path_nodes)
    # Their integrals over time: (2 k + 1) ∫ P_k dz = P_(k + 1) − P_(k − 1), and ∫ P_0 dz = 1 + z, with dz = 2 dt.
    differences = polynomials[:, 2:] - polynomials[:, :-2]
    integrals = np.concatenate([1 + z[:, None], differences / (2 * k[1:] + 1)], axis=1) / 2
    return integrals @ modes, polynomials[:, :-1] @ modes


def _density(g: Float[Array, "n n"], J: Float[Array, "k n"]) -> tuple[Scalar, Scalar]:
    """(√det(J g Jᵀ) of tangents J[k, n], the product of their lengths). A determinant within rounding error is 0."""
    gram = J @ g @ J.T
    size = safe_sqrt(jnp.prod(jnp.diag(gram)))
    square: Scalar = jnp.linalg.det(gram)
    noise = ROUNDING * jnp.finfo(g.dtype).eps * size**2
    square = jnp.where(square <= noise, 0, square)
    return safe_sqrt(square), size


def _modes(a: Float[Array, "..."], nodes: int) -> Float[Array, "..."]:
    """Legendre coefficients, in every axis, of a function given at Gauss' nodes of a cube; the first is the mean."""
    rule = gauss(nodes)
    matrix = jnp.asarray((rule.polynomials * rule.weights[:, None]).T, a.dtype)
    for axis in range(a.ndim):
        a = jnp.moveaxis(jnp.tensordot(matrix, a, (1, axis)), 0, axis)
    return a
