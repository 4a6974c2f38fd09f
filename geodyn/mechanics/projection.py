"""Initial data on the constraints: checked, and projected onto them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._jit import traced_numbers
from geodyn._typing import Array
from geodyn.integrators.system import AbstractSystem

MOST_ITERATIONS = 50


@eqx.filter_jit
def constraint_state(system: AbstractSystem, q, v, t):
    """(φ, dφ/dt, J M⁻¹Jᵀ) at flat q[n], v[n]."""
    gram = _gram(system, t, q, v)[1]
    return system.constraint(t, q), _rate(system, t, q, v), gram


def _rate(system, t, q, v):
    return jax.jvp(system.constraint, (t, q), (jnp.ones_like(t), v))[1]


def _gram(system, t, q, v):
    """M⁻¹Jᵀ [n, c] and J M⁻¹Jᵀ [c, c]."""
    jacobian = jax.jacfwd(system.constraint, 1)(t, q)
    momentum = system.momentum(t, q, v)
    raise_index = lambda row: jax.jvp(lambda p: system.velocity(t, q, p, v), (momentum,), (row,))[1]  # noqa: E731
    normal = jax.vmap(raise_index)(jacobian)
    return normal.T, jacobian @ normal.T


@eqx.filter_jit
def _project(system, q, v, t):
    size = 1 + jnp.max(jnp.abs(q))

    def proceed(state):
        _, change, previous, count = state
        return (count < MOST_ITERATIONS) & (change > 0) & ((change < previous / 2) | (count < 4))

    def improve(state):
        q, change, _, count = state
        normal, gram = _gram(system, t, q, v)
        dq = normal @ jnp.linalg.solve(gram, system.constraint(t, q))
        return q - dq, jnp.max(jnp.abs(dq)), change, count + 1

    huge = jnp.asarray(jnp.inf, q.dtype)
    q, change, _, _ = jax.lax.while_loop(proceed, improve, (q, huge, huge, 0))
    normal, gram = _gram(system, t, q, v)
    v = v - normal @ jnp.linalg.solve(gram, _rate(system, t, q, v))
    v = v - normal @ jnp.linalg.solve(gram, _rate(system, t, q, v))
    return q, v, change <= jnp.finfo(q.dtype).eps ** 0.75 * size


def project(system: AbstractSystem, q, v, t=0.0) -> tuple[Array, Array]:
    """The (q, v) nearby on the constraints: q by Newton steps orthogonal in the kinetic metric, v by the orthogonal
    projection onto the tangent space (Hairer, Lubich & Wanner, VII.2). In the shapes of q and v.

    Raises ValueError where no such q was reached: constraints that contradict each other, or a q too far away.
    """
    system, q, v, t = traced_numbers((system, jnp.asarray(q, float), jnp.asarray(v, float), t))
    t = jnp.asarray(t, q.dtype)
    if system.constraint(t, q.reshape(-1)).size == 0:
        return q, v
    flat_q, flat_v, reached = _project(system, q.reshape(-1), v.reshape(-1), t)
    if not isinstance(reached, jax.core.Tracer) and not bool(reached):
        raise ValueError(
            "project reached no q on the constraints: they are redundant or contradict each other there, or q is too "
            f"far from them; q = {np.asarray(q).tolist()}"
        )
    return flat_q.reshape(q.shape), flat_v.reshape(v.shape)


def check_constraints(system: AbstractSystem, names: list[str], q, v, t) -> None:
    """Raises ValueError where q, v violate a constraint, and where constraints are redundant (J M⁻¹Jᵀ singular)."""
    residual, rate, gram = map(np.asarray, constraint_state(system, jnp.asarray(q), jnp.asarray(v), t))
    tolerance = np.finfo(residual.dtype).eps ** 0.5
    for what, values, size in (("q0", residual, np.abs(q).max()), ("v0", rate, np.abs(v).max())):
        worst = int(np.argmax(np.abs(values)))
        if not np.abs(values[worst]) <= tolerance * (1 + size):
            raise ValueError(
                f"{what} violates the constraint {names[worst]} by {values[worst]:.3g}; "
                "start from q0, v0 = gd.project(system, q0, v0)"
            )
    scale = 1 / np.sqrt(np.diag(gram))
    values, vectors = np.linalg.eigh(gram * scale[:, None] * scale[None, :])
    if not values[0] > 100 * np.finfo(residual.dtype).eps * residual.size:
        involved = [names[i] for i in np.flatnonzero(np.abs(vectors[:, 0]) > 0.05)]
        raise ValueError(f"constraints are redundant or contradictory at q0: {', '.join(involved)}; remove one of them")
