"""Distributions, planes of admissible directions at every point: ker A(q), and whether surfaces fit them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._numerics.linalg import inverse
from geodyn._typing import Array, Float, Numbers, Scalar


def bracket(X: Callable, Y: Callable, q: Numbers) -> Float[Array, " n"]:
    """The Lie bracket [X, Y] = Y'X − X'Y of two vector fields q[n] -> [n] at q: the direction in which one gets by
    following X, Y, −X, −Y for a short time ε, over ε² (do Carmo, *Riemannian Geometry*, 0.5)."""
    q = jnp.asarray(q, float)

    def along(field, u):
        return jax.jvp(field, (q,), (u,))[1]

    return along(Y, X(q)) - along(X, Y(q))


def integrability_defect(form: Callable, q: Numbers) -> Scalar:
    """How far the distribution ker A(q) is from closed under brackets at q: the norm of the parts of [X_i, X_j] outside
    of it, i < j, for fields with orthonormal values in ker A. Where it is zero all around, surfaces φ(q) = const fit
    it, and the constraint Av = 0 is holonomic in disguise; else it is nonholonomic.

    `form(q) -> A[k, n]`, or [n] for one constraint; the norm is that of the coordinates, and is the same for other rows
    of the same kernel. Raises ValueError where the rows of A depend on each other.
    Source: Frobenius' theorem, dα = 0 on the kernel (Bloch, *Nonholonomic Mechanics and Control*, 2.3, 5.3).
    """
    q = jnp.asarray(q, float)

    def rows(q):
        return jnp.atleast_2d(form(q))

    a, slopes = rows(q), jax.jacfwd(rows)(q)
    right = a.T @ inverse(a @ a.T)
    if not isinstance(right, jax.core.Tracer) and np.linalg.matrix_rank(np.asarray(a)) < a.shape[0]:
        raise ValueError(f"form must have independent rows at q; got A = {np.asarray(a).tolist()}: remove some of them")
    curl = jnp.swapaxes(slopes, 1, 2) - slopes
    along = jnp.eye(q.size, dtype=q.dtype) - right @ a
    outside = jnp.einsum("ia,ajk,jl,km->ilm", right, curl, along, along)
    square = jnp.sum(outside**2) / 2
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)
