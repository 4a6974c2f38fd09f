"""Initial data on the constraints: what is checked before an integration."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._typing import Array, Float
from geodyn.integrators.system import AbstractSystem


@eqx.filter_jit
def constraint_state(system: AbstractSystem, q, v, t) -> tuple[Array, Array, Array]:
    """(φ, dφ/dt, J M⁻¹Jᵀ) at flat q[n], v[n]."""
    return system.constraint(t, q), constraint_rate(system, t, q, v), normals(system, t, q, v)[1]


def constraint_rate(system: AbstractSystem, t, q, v) -> Float[Array, " c"]:
    """dφ/dt at flat q[n], v[n]."""
    return jax.jvp(system.constraint, (t, q), (jnp.ones_like(t), v))[1]


def normals(system: AbstractSystem, t, q, v) -> tuple[Float[Array, "n c"], Float[Array, "c c"]]:
    """M⁻¹Jᵀ and J M⁻¹Jᵀ."""
    jacobian = jax.jacfwd(system.constraint, 1)(t, q)
    momentum = system.momentum(t, q, v)
    raise_index = lambda row: jax.jvp(lambda p: system.velocity(t, q, p, v), (momentum,), (row,))[1]  # noqa: E731
    normal = jax.vmap(raise_index)(jacobian)
    return normal.T, jacobian @ normal.T


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
    involved = [names[i] for i in dependent_rows(gram)]
    if involved:
        raise ValueError(f"constraints are redundant or contradictory at q0: {', '.join(involved)}; remove one of them")


def dependent_rows(gram: Float[np.ndarray, "c c"]) -> list[int]:
    """The rows of J that are linearly dependent, from J M⁻¹Jᵀ: those in its null vectors."""
    diagonal = np.diag(gram)
    if not np.all(diagonal > 0):
        return [int(i) for i in np.flatnonzero(~(diagonal > 0))]
    scale = 1 / np.sqrt(diagonal)
    values, vectors = np.linalg.eigh(gram * scale[:, None] * scale[None, :])
    null = vectors[:, values <= 100 * np.finfo(gram.dtype).eps * len(gram)]
    return [int(i) for i in np.flatnonzero(np.any(np.abs(null) > 0.05, axis=1))]
