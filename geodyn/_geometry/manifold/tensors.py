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


def curvature_and_gradient_at(space: AbstractManifold, x: Float[Array, " n"]):
    """(the tensors at x, the covariant derivative R[a, b, c, d, e] = ∇_e R_abcd)."""
    g, *derivatives = _derivatives(space, x, 3)
    at = _curvature(g, *derivatives[:2])

    def along(*directions):
        return jax.jvp(lambda *jet: _curvature(*jet).riemann, (g, *derivatives[:2]), directions)[1]

    gradient = jax.vmap(along, -1, -1)(*derivatives)
    for slot in range(4):
        # −Γ^f_ea R_fbcd, and likewise for each of the other indices.
        turned = jnp.tensordot(at.riemann, at.christoffel, axes=([slot], [0]))
        gradient = gradient - jnp.moveaxis(turned, -1, slot)
    return at, gradient


def _derivatives(space: AbstractManifold, x: Float[Array, " n"], order: int) -> list[Array]:
    """The metric at x and its derivatives up to this order, the last index being that of the last derivative."""
    function, found = space.metric, []
    for _ in range(order + 1):
        found.append(function(x))
        function = jax.jacfwd(function)
    return found


def _curvature(g: Float[Array, "n n"], dg: Float[Array, "n n n"], ddg: Float[Array, "n n n n"]) -> Curvature:
    """The tensors, from the metric and its first two derivatives."""
    first, slope = _first_kind(dg), jax.vmap(_first_kind, -1, -1)(ddg)
    inverse = jax.vmap(lambda unit: solve(g, unit))(jnp.eye(g.shape[0], dtype=g.dtype))
    gamma = jnp.tensordot(inverse, first, 1)
    # R_abcd = ∂_c Γ_adb − ∂_d Γ_acb − Γ_eca Γ^e_db + Γ_eda Γ^e_cb
    half = jnp.einsum("adbc->abcd", slope) - jnp.einsum("eca,edb->abcd", first, gamma)
    return Curvature(g, inverse, gamma, half - half.swapaxes(2, 3))


def _first_kind(dg: Float[Array, "n n n"]) -> Float[Array, "n n n"]:
    """Γ_abc = ½ (∂_b g_ac + ∂_c g_ab − ∂_a g_bc)."""
    return 0.5 * (dg.transpose(0, 2, 1) + dg - dg.transpose(2, 0, 1))
