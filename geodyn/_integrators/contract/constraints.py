"""Constraint reactions, the Delassus matrix of the constraints, and checks of initial data."""

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._engine.native import native_of
from geodyn._foundations.typing import Array, Bool, Float
from geodyn._integrators.contract.couplings import form_of
from geodyn._integrators.contract.system import AbstractSystem, constraint_rate, is_configuration


def reactions(system: AbstractSystem, t, q, p, v, wanted=0.0) -> Float[Array, " c"]:
    """The multipliers λ for which the constraints at the velocity level change at the rates `wanted`: the solution of a
    linear system."""
    lam = jnp.zeros(system.count_constraints(q), q.dtype)
    if lam.size == 0:
        return lam

    def acceleration(lam):
        one, pdot = jnp.ones_like(t), system.force(t, q, v, lam)
        vdot = jax.jvp(lambda t, q, p: system.velocity(t, q, p, v), (t, q, p), (one, v, pdot))[1]
        return jax.jvp(lambda *x: constraint_rate(system, *x), (t, q, v), (one, v, vdot))[1] - wanted

    level, push = jax.linearize(acceleration, lam)
    form = form_of(system.couplings, 1, 0, 1, False)
    return -form.solved(form.factors(form.matrix(push, lam)), level)


def normals(system: AbstractSystem, t, q, v) -> tuple[Float[Array, "n c"], Float[Array, "c c"]]:
    """M⁻¹Jᵀ and J M⁻¹Jᵀ, with J = ∂(constraint_rate)/∂v."""
    jacobian = jax.jacfwd(lambda v: constraint_rate(system, t, q, v))(v)
    momentum = system.momentum(t, q, v)

    def raise_index(row):
        return jax.jvp(lambda p: system.velocity(t, q, p, v), (momentum,), (row,))[1]

    normal = jax.vmap(raise_index)(jacobian)
    return normal.T, jacobian @ normal.T


@jit
def constraint_state(system: AbstractSystem, q, v, t) -> tuple[Array, Array, Array]:
    """(φ, constraints at the velocity level, J M⁻¹Jᵀ) at flat q[n], v[n]."""

    def state(system, q, v, t):
        return system.constraint(t, q), constraint_rate(system, t, q, v), normals(system, t, q, v)[1]

    return native_of(state, system, q, v, t)


@jit
def bend(system: AbstractSystem, q, v, t) -> tuple[Array, Array]:
    """The differences between the derivatives of the constraints at the velocity level at several velocities, which are
    zero if these are affine in v, and the size of the derivatives."""
    jacobian = jax.jacfwd(lambda v: constraint_rate(system, t, q, v))
    unlike = 1 + jnp.abs(v) * jnp.cos(jnp.arange(v.size, dtype=v.dtype))  # In a direction along which nothing cancels.
    first, *others = (jacobian(x) for x in (0 * v, v, unlike * (1 + jnp.arange(v.size)), -unlike))
    bent = jnp.max(jnp.stack([jnp.abs(other - first) for other in others]), axis=(0, 2))
    return bent, jnp.max(jnp.abs(jnp.stack([first, *others])))


def check_constraints(system: AbstractSystem, names: list[str], q, v, t) -> None:
    """Raises ValueError if q, v violate a constraint, if constraints are redundant (J M⁻¹Jᵀ singular), or if a
    nonholonomic constraint is not affine in v."""
    residual, rate, gram = map(np.asarray, constraint_state(system, q, v, t))
    tolerance = np.finfo(rate.dtype).eps ** 0.5
    if len(rate) > len(residual):
        bent, size = map(np.asarray, bend(system, q, v, t))
        worst = int(np.argmax(bent))
        if not bent[worst] <= tolerance * (1 + size):
            raise ValueError(
                f"{names[worst]} must be affine in v, A(q)v − b(q): only then is it clear which reactions do no work; "
                f"its derivative changes with v by {bent[worst]:.3g}"
            )
    for what, values, size in (("q0", residual, np.abs(q).max()), ("v0", rate, np.abs(v).max())):
        worst = int(np.argmax(np.abs(values))) if values.size else 0
        if values.size and not np.abs(values[worst]) <= tolerance * (1 + size):
            raise ValueError(
                f"{what} violates the constraint {names[worst]} by {values[worst]:.3g}; "
                "start from q0, v0 = gd.project(system, q0, v0)"
            )
    if rows := dependent_rows(gram):
        raise ValueError(
            f"constraints are redundant or contradictory at q0: {', '.join(names[i] for i in rows)}; remove one of "
            "them, or start where they are independent"
        )


def is_consistent(system: AbstractSystem, t, q, v) -> Bool[Array, ""]:
    """Whether flat q[n] is a configuration, and q, v[n] satisfy the constraints, as `check_constraints` judges it."""
    tolerance = jnp.finfo(q.dtype).eps ** 0.5
    valid = is_configuration(system, q)
    if system.count_constraints(q) == 0:
        return valid
    missed, rate = (
        jnp.max(jnp.abs(x), initial=0.0) for x in (system.constraint(t, q), constraint_rate(system, t, q, v))
    )
    held = missed <= tolerance * (1 + jnp.max(jnp.abs(q)))
    return valid & held & (rate <= tolerance * (1 + jnp.max(jnp.abs(v))))


def independence(gram: Float[np.ndarray, "c c"]) -> float:
    """How far the rows of J are from being linearly dependent, 1 if they are orthogonal: the least singular value of
    M^(−1/2) Jᵀ with columns of length 1."""
    diagonal = np.diag(gram)
    if not np.min(diagonal) > 0:
        return 0.0
    scale = 1 / np.sqrt(diagonal)
    return float(np.sqrt(max(np.linalg.eigvalsh(gram * scale[:, None] * scale[None, :])[0], 0.0)))


def dependent_rows(gram: Float[np.ndarray, "c c"]) -> list[int]:
    """The linearly dependent rows of J: those that occur in the null vectors of J M⁻¹Jᵀ."""
    diagonal = np.diag(gram)
    if not np.all(diagonal > 0):
        return [int(i) for i in np.flatnonzero(~(diagonal > 0))]
    scale = 1 / np.sqrt(diagonal)
    values, vectors = np.linalg.eigh(gram * scale[:, None] * scale[None, :])
    null = vectors[:, values <= 100 * np.finfo(gram.dtype).eps * len(gram)]
    return [int(i) for i in np.flatnonzero(np.any(np.abs(null) > 0.05, axis=1))]
