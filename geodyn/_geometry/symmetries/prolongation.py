"""Killing fields as parallel sections.

A Killing field K is known everywhere from its value and its derivative at one point. With the lowered components k of K
and the two-form ω_ab = ∇_b k_a, Killing's equation says that ω is antisymmetric, and then

    ∇_X k = ω X,    ∇_X ω = −R(K, X),

a linear equation along each curve. A pair (k, ω) at one point is a Killing field if and only if what is carried to any
other point leaves the curvature there unchanged, L_K R = 0 (Ambrose & Singer). So three derivatives of the metric at
many points decide, instead of many derivatives at one.

The unknowns are z = (k_a, ω_ab for a < b), N = n(n + 1)/2 numbers, in the coordinates of the chart.

Source: Kobayashi & Nomizu, *Foundations of Differential Geometry I* (1963), VI.2–3; Nomizu, *On local and global
existence of Killing vector fields* (1960).
"""

from itertools import combinations
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.native import native_rows
from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.typing import Array, Float
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._integrators.contract.tableau import gauss

STAGES = 6


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


def pairs_of(n: int) -> np.ndarray:
    """The pairs a < b, [2, n(n − 1)/2]."""
    return np.array(list(combinations(range(n), 2)), int).reshape(-1, 2).T


def two_forms(n: int) -> Float[np.ndarray, "P n n"]:
    """The antisymmetric matrices with ω_ab = 1 for one pair a < b each."""
    a, b = pairs_of(n)
    forms = np.zeros((a.size, n, n))
    which = np.arange(a.size)
    forms[which, a, b], forms[which, b, a] = 1.0, -1.0
    return forms


def rate(at: Curvature, u: Float[Array, " n"]) -> Float[Array, "N N"]:
    """The matrix M of z' = M z for a pair that is carried with the velocity u."""
    n = u.shape[0]
    a, b = pairs_of(n)
    forms = jnp.asarray(two_forms(n), u.dtype)
    turn = jnp.einsum("eac,c->ea", at.christoffel, u)  # k_a' = … + Γ^e_ac u^c k_e
    of_form = jnp.einsum("pac,c->ap", forms, u)
    of_field = -jnp.einsum("abcd,ce,d->abe", at.riemann, at.inverse, u)
    turned = jnp.einsum("ea,peb->abp", turn, forms) + jnp.einsum("eb,pae->abp", turn, forms)
    return jnp.block([[turn.T, of_form], [of_field[a, b], turned[a, b]]])


def changes(at: Curvature, gradient: Float[Array, "n n n n n"]) -> Float[Array, "n n n n N"]:
    """The Lie derivative L_K R of the curvature, for each of the N unknowns."""
    n = at.metric.shape[0]
    of_field = jnp.tensordot(gradient, at.inverse, 1)
    raised = jnp.einsum("ef,pfa->eap", at.inverse, jnp.asarray(two_forms(n), gradient.dtype))  # ∇_a K^e
    of_form = jnp.zeros((n,) * 4 + raised.shape[-1:], gradient.dtype)
    for slot in range(4):
        turned = jnp.tensordot(at.riemann, raised, axes=([slot], [0]))
        of_form = of_form + jnp.moveaxis(turned, -2, slot)
    return jnp.concatenate([of_field, of_form], axis=-1)


def nodes_between(x0, x1, steps: int):
    """The nodes [steps, 6, n] of Gauss steps on the straight segment of the chart from x0 to x1."""
    places = (np.arange(steps)[:, None] + np.asarray(gauss(STAGES).c, float)) / steps
    return x0[None, None] + places[..., None] * (x1 - x0)[None, None]


def rates_between(space: AbstractManifold, x0, x1, steps: int) -> Float[Array, "steps 6 N N"]:
    """The matrices of `rate` at these nodes, on the way from x0 to x1 in unit time."""
    u = x1 - x0
    nodes = nodes_between(x0, x1, steps)
    return jax.vmap(jax.vmap(lambda x: rate(curvature_at(space, x), u)))(nodes)


def carried(
    space: AbstractManifold, z: Float[Array, "d N"], x0: Float[Array, " n"], x1: Float[Array, " n"], steps: int
) -> Float[Array, "d N"]:
    """The pairs z at x0, carried on the straight segment of the chart to x1, by Gauss collocation of order 12."""
    a, b = (jnp.asarray(array, z.dtype) for array in (gauss(STAGES).a, gauss(STAGES).b))
    u, h = x1 - x0, 1 / steps

    def step(z, nodes):
        M = native_rows(lambda x: rate(curvature_at(space, x), u), nodes)
        size = M.shape[0] * M.shape[1]
        matrix = jnp.eye(size, dtype=z.dtype) - h * jnp.einsum("ij,iab->iajb", a, M).reshape(size, size)
        right = jnp.einsum("iab,db->iad", M, z).reshape(size, -1)
        slopes = jnp.linalg.solve(matrix, right).reshape(STAGES, M.shape[1], -1)
        return z + h * jnp.einsum("i,iad->da", b, slopes), None

    return jax.lax.scan(step, z, nodes_between(x0, x1, steps))[0]
