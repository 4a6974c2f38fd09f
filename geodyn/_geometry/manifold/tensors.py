"""The tensors of a metric at a point, all from the same derivatives of it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.typing import Array, Float
from geodyn._geometry.manifold.manifold import AbstractManifold


class Curvature(NamedTuple):
    """Tensors at a point: the metric and its inverse, Γ[a, b, c] = Γ^a_bc, and the curvature R[a, b, c, d] = R_abcd
    with all indices lowered."""

    metric: Float[Array, "n n"]
    inverse: Float[Array, "n n"]
    christoffel: Float[Array, "n n n"]
    riemann: Float[Array, "n n n n"]


def curvature_at(space: AbstractManifold, x: Float[Array, " n"]) -> Curvature:
    """The tensors at x."""
    return _curvature(*_derivatives(space, x, 2))


def christoffel_at(space: AbstractManifold, x: Float[Array, " n"]) -> Float[Array, "n n n"]:
    """Γ[a, b, c] = Γ^a_bc at x."""
    g, dg = _derivatives(space, x, 1)
    first = _first_kind(dg)
    columns = jax.vmap(lambda column: solve(g, column), 1, 1)(first.reshape(x.size, -1))
    return columns.reshape(first.shape)


def curvature_and_gradient_at(
    space: AbstractManifold, x: Float[Array, " n"]
) -> tuple[Curvature, Float[Array, "n n n n n"]]:
    """(the tensors at x, the covariant derivative R[a, b, c, d, e] = ∇_e R_abcd)."""
    g, dg, ddg, dddg = _derivatives(space, x, 3)
    at = _curvature(g, dg, ddg)

    def riemann(
        g: Float[Array, "n n"], dg: Float[Array, "n n n"], ddg: Float[Array, "n n n n"]
    ) -> Float[Array, "n n n n"]:
        return _curvature(g, dg, ddg).riemann

    def partial_derivative(*changes: Float[Array, "..."]) -> Float[Array, "n n n n"]:
        """∂_e R_abcd for one e, from the derivatives of g, dg and ddg along it."""
        return jax.jvp(riemann, (g, dg, ddg), changes)[1]

    gradient = jax.vmap(partial_derivative, -1, -1)(dg, ddg, dddg)
    for slot in range(4):
        # −Γ^f_ea R_fbcd, and likewise for each of the other indices.
        turned = jnp.tensordot(at.riemann, at.christoffel, axes=([slot], [0]))
        gradient = gradient - jnp.moveaxis(turned, -1, slot)
    return at, gradient


def _derivatives(space: AbstractManifold, x: Float[Array, " n"], order: int) -> list[Array]:
    """The metric at x and its derivatives up to this order, the last index being that of the last derivative."""
    function = space.metric
    found = []
    for _ in range(order + 1):
        found.append(function(x))
        function = jax.jacfwd(function)
    return found


def _curvature(g: Float[Array, "n n"], dg: Float[Array, "n n n"], ddg: Float[Array, "n n n n"]) -> Curvature:
    """The tensors, from the metric and its first two derivatives."""
    first = _first_kind(dg)
    # ∂_d Γ_abc, with d as the last index.
    slope = jax.vmap(_first_kind, -1, -1)(ddg)
    unit_vectors = jnp.eye(g.shape[0], dtype=g.dtype)
    # The rows are the images of the unit vectors: the inverse is symmetric.
    inverse = jax.vmap(lambda unit: solve(g, unit))(unit_vectors)
    gamma = jnp.tensordot(inverse, first, 1)
    # R_abcd = ∂_c Γ_adb − ∂_d Γ_acb − Γ_eca Γ^e_db + Γ_eda Γ^e_cb: two terms, less the same with c and d exchanged.
    half = jnp.einsum("adbc->abcd", slope) - jnp.einsum("eca,edb->abcd", first, gamma)
    return Curvature(g, inverse, gamma, half - half.swapaxes(2, 3))


def _first_kind(dg: Float[Array, "n n n"]) -> Float[Array, "n n n"]:
    """Γ_abc = ½ (∂_b g_ac + ∂_c g_ab − ∂_a g_bc)."""
    return 0.5 * (dg.transpose(0, 2, 1) + dg - dg.transpose(2, 0, 1))
