"""Initial data projected onto the constraints."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._checks import numbers, require
from geodyn._compile.jit import traced_numbers
from geodyn._typing import Array
from geodyn.integrators.contract.constraints import constraint_state, dependent_rows, normals
from geodyn.integrators.contract.system import AbstractSystem, constraint_rate
from geodyn.mechanics.points.body import AbstractBody, constraint_names

MOST_ITERATIONS = 50


def project(system: AbstractSystem, q, v, t=0.0) -> tuple[Array, Array]:
    """The (q, v) nearby on the constraints: q by Newton steps orthogonal in the kinetic metric, v by the orthogonal
    projection onto the velocities that all constraints admit, nonholonomic ones too (Hairer, Lubich & Wanner, VII.2).
    In the shapes of q and v.

    Raises ValueError where no such q and v were reached: constraints that contradict each other, or a q too far away.
    """
    require("system", system, AbstractSystem, "a System or Lagrangian")
    system, q, v, t = traced_numbers((system, *(numbers(*x).astype(float) for x in (("q", q), ("v", v))), t))
    if q.shape != v.shape:
        raise ValueError(f"v must have the shape of q, {q.shape}; got {v.shape}")
    t = jnp.asarray(t, q.dtype)
    if system.count_constraints(q) == 0:
        return q, v
    flat_q, flat_v, reached = _project(system, q.reshape(-1), v.reshape(-1), t)
    if not isinstance(reached, jax.core.Tracer) and not bool(reached):
        raise ValueError(
            "project reached no q and v on the constraints: they are redundant or contradict each other there, or q is "
            f"too far from them; {_obstacles(system, q.reshape(-1), flat_q, t)}; q = {np.asarray(q).tolist()}"
        )
    return flat_q.reshape(q.shape), flat_v.reshape(v.shape)


@eqx.filter_jit
def _project(system, q, v, t):
    size = 1 + jnp.max(jnp.abs(q))

    def proceed(state):
        _, change, previous, count = state
        return (count < MOST_ITERATIONS) & (change > 0) & ((change < previous / 2) | (count < 4))

    def improve(state):
        q, change, _, count = state
        residual = system.constraint(t, q)
        normal, gram = (x[..., : residual.size] for x in normals(system, t, q, v))
        dq = normal @ jnp.linalg.solve(gram[: residual.size], residual)
        return q - dq, jnp.max(jnp.abs(dq)), change, count + 1

    huge = jnp.asarray(jnp.inf, q.dtype)
    q, change, _, _ = jax.lax.while_loop(proceed, improve, (q, huge, huge, 0))
    normal, gram = normals(system, t, q, v)
    v = v - normal @ jnp.linalg.solve(gram, constraint_rate(system, t, q, v))
    v = v - normal @ jnp.linalg.solve(gram, constraint_rate(system, t, q, v))
    small = jnp.finfo(q.dtype).eps ** 0.75
    kept = jnp.max(jnp.abs(constraint_rate(system, t, q, v))) <= small * (1 + jnp.max(jnp.abs(v)))
    return q, v, (change <= small * size) & kept


def _obstacles(system, first, last, t) -> str:
    """The dependent constraints, or else those that are violated most, where the projection began and ended."""
    for q in (first, last):
        residual, _, gram = map(np.asarray, constraint_state(system, q, jnp.zeros_like(q), t))
        names = constraint_names(system) if isinstance(system, AbstractBody) else [f"φ[{i}]" for i in range(len(gram))]
        if np.all(np.isfinite(gram)) and (rows := dependent_rows(gram)):
            return f"dependent on each other are {', '.join(names[i] for i in rows)}"
    residual = np.nan_to_num(residual, nan=np.inf)
    worst = np.flatnonzero(np.abs(residual) >= 0.1 * np.max(np.abs(residual), initial=0.0))
    return "violated are " + ", ".join(f"{names[i]} (by {residual[i]:.3g})" for i in worst)
