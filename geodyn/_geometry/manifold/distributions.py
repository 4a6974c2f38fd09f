"""Distributions ker A(q), the admissible directions at each point: Lie brackets and integrability."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.numerics.linalg import inverse
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Row, Scalar
from geodyn._geometry.manifold.manifold import safe_sqrt


@checked
def bracket(X: Callable[[Array], Array], Y: Callable[[Array], Array], q: Row) -> Float[Array, " n"]:
    """The Lie bracket `[X, Y] = Y'X − X'Y` of two vector fields at a point.

    It is the direction in which one gets by following X, Y, −X and −Y for a short time ε each, over ε².

    Args:
        X, Y: vector fields, functions q[n] -> [n].
        q: point [n].

    Returns:
        The bracket [n].

    Example:
        A car that drives and steers can turn: with q = (x, y, heading, δ), [steer, drive] is a turn by 1/cos² δ.

        >>> def drive(q):
        ...     return jnp.stack([jnp.cos(q[2]), jnp.sin(q[2]), jnp.tan(q[3]), 0.0 * q[0]])
        >>> def steer(q):
        ...     return jnp.array([0.0, 0.0, 0.0, 1.0])
        >>> print(gd.nonholonomic.bracket(steer, drive, [0.0, 0.0, 0.5, 0.0]) + 0.0)
        [0. 0. 1. 0.]

    Source:
        do Carmo, *Riemannian Geometry*, 0.5.
    """
    q = jnp.asarray(q, float)

    def along(field: Callable[[Float[Array, " n"]], Array], u: Float[Array, " n"]) -> Array:
        return jax.jvp(field, (q,), (u,))[1]

    return along(Y, X(q)) - along(X, Y(q))


@checked
def integrability_defect(form: Callable[[Array], Array], q: Row) -> Scalar:
    """How far the constraint A(q)v = 0 is from a holonomic one at a point: zero all around where surfaces fit it.

    The distribution ker A(q) is closed under brackets where surfaces φ(q) = const fit it (Frobenius). The defect is the
    norm of the parts of [X_i, X_j], i < j, outside of it, for fields with orthonormal values in ker A. The norm is that
    of the coordinates, and is the same for other rows of the same kernel.

    Args:
        form: function q[n] -> A[k, n], or [n] for one constraint.
        q: point [n].

    Returns:
        The defect, a number, zero or positive.

    Raises:
        ValueError: where the rows of A depend on each other.

    Example:
        dz = y dx holds no surface, with the defect 1/(1 + y²); z dz = −x dx − y dy holds spheres.

        >>> forms = (lambda q: jnp.stack([-q[1], 0.0, 1.0])), (lambda q: q)
        >>> print([f"{gd.nonholonomic.integrability_defect(form, [0.3, 0.5, 0.7]):.6f}" for form in forms])
        ['0.800000', '0.000000']

    Source:
        Bloch, *Nonholonomic Mechanics and Control*, 2.3 and 5.3.
    """
    q = jnp.asarray(q, float)

    def rows(q: Float[Array, " n"]) -> Float[Array, "c n"]:
        return jnp.atleast_2d(form(q))

    a, slopes = rows(q), jax.jacfwd(rows)(q)
    right = a.T @ inverse(a @ a.T)
    if not isinstance(right, Tracer) and np.linalg.matrix_rank(np.asarray(a)) < a.shape[0]:
        raise ValueError(f"form must have independent rows at q; got A = {np.asarray(a).tolist()}: remove some of them")
    curl = jnp.swapaxes(slopes, 1, 2) - slopes
    along = jnp.eye(q.size, dtype=q.dtype) - right @ a
    outside = jnp.einsum("ia,ajk,jl,km->ilm", right, curl, along, along)
    square = jnp.sum(outside**2) / 2
    return safe_sqrt(square)
