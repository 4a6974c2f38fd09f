"""Killing fields as parallel sections.

A Killing field K is known everywhere from its value and its derivative at one point. With the lowered components k of K
and the two-form ω_ab = ∇_b k_a, Killing's equation says that ω is antisymmetric, and then

    ∇_X k = ω X,    ∇_X ω = −R(K, X),

a linear equation along each curve. A pair (k, ω) at one point is a Killing field if and only if what is carried to any
other point leaves the curvature there unchanged, L_K R = 0 (Ambrose & Singer). So three derivatives of the metric at
many points decide, instead of many derivatives at one.

The unknowns are z = (k_a, ω_ab for a < b), N = n(n + 1)/2 numbers, in the coordinates of the chart. P = n(n − 1)/2 of
them belong to ω.

Source: Kobayashi & Nomizu, *Foundations of Differential Geometry I* (1963), VI.2–3; Nomizu, *On local and global
existence of Killing vector fields* (1960).
"""

from itertools import combinations

import jax.numpy as jnp
import numpy as np

from geodyn._foundations.typing import Array, Count, Float, Int, Scalar
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._geometry.manifold.tensors import Curvature, curvature_at
from geodyn._geometry.manifold.ways import STAGES, follow
from geodyn._integrators.contract.tableau import gauss


def pairs_of(n: int) -> np.ndarray:
    """The pairs of indices a < b, [2, n(n − 1)/2]."""
    return np.array(list(combinations(range(n), 2)), int).reshape(-1, 2).T


def two_forms(n: int) -> Float[np.ndarray, "P n n"]:
    """The antisymmetric matrices with ω_ab = 1 for one pair a < b each."""
    a, b = pairs_of(n)
    forms = np.zeros((a.size, n, n))
    which = np.arange(a.size)
    forms[which, a, b] = 1.0
    forms[which, b, a] = -1.0
    return forms


def rate(at: Curvature, u: Float[Array, " n"]) -> Float[Array, "N N"]:
    """The matrix M of z' = M z for a pair (k, ω) that is carried with the velocity u."""
    n = u.shape[0]
    a, b = pairs_of(n)
    forms = jnp.asarray(two_forms(n), u.dtype)
    turn = jnp.einsum("eac,c->ea", at.christoffel, u)  # k_a' = … + Γ^e_ac u^c k_e
    of_form = jnp.einsum("pac,c->ap", forms, u)  # k_a' = … + ω_ac u^c
    of_field = -jnp.einsum("abcd,ce,d->abe", at.riemann, at.inverse, u)  # ω_ab' = … − R_abcd K^c u^d
    # ω_ab' = … + Γ^e_ac u^c ω_eb + Γ^e_bc u^c ω_ae.
    turned = jnp.einsum("ea,peb->abp", turn, forms) + jnp.einsum("eb,pae->abp", turn, forms)
    return jnp.block([[turn.T, of_form], [of_field[a, b], turned[a, b]]])


def changes(at: Curvature, gradient: Float[Array, "n n n n n"]) -> Float[Array, "n n n n N"]:
    """The Lie derivative of the curvature, for each of the N unknowns: L_K R = K^e ∇_e R, and for each index a of R one
    term more, in which e stands in the place of a and the factor is ∇_a K^e."""
    n = at.metric.shape[0]
    of_field = jnp.tensordot(gradient, at.inverse, 1)
    raised = jnp.einsum("ef,pfa->eap", at.inverse, jnp.asarray(two_forms(n), gradient.dtype))  # ∇_a K^e
    of_form = jnp.zeros((n,) * 4 + raised.shape[-1:], gradient.dtype)
    for slot in range(4):
        turned = jnp.tensordot(at.riemann, raised, axes=([slot], [0]))
        of_form = of_form + jnp.moveaxis(turned, -2, slot)
    return jnp.concatenate([of_field, of_form], axis=-1)


def nodes_between(
    x0: Float[np.ndarray, " n"], x1: Float[np.ndarray, " n"], steps: int
) -> Float[np.ndarray, "steps 6 n"]:
    """The nodes [steps, 6, n] of Gauss steps on the straight segment of the chart from x0 to x1."""
    places = (np.arange(steps)[:, None] + np.asarray(gauss(STAGES).c, float)) / steps
    return x0[None, None] + places[..., None] * (x1 - x0)[None, None]


def carry(
    space: AbstractManifold,
    z: Float[Array, "d N"],
    x0: Float[Array, " n"],
    x1: Float[Array, " n"],
    steps: Count | Int[Array, ""],
) -> Float[Array, "d N"]:
    """Pairs z = (k, ω) at x0, one in each row, carried on the straight segment of the chart to x1 in this number of
    steps."""
    u = x1 - x0

    def known(t: Scalar) -> Float[Array, "N N"]:
        return rate(curvature_at(space, x0 + t * u), u)

    return follow(known, lambda M, z: z @ M.T, z, steps)
