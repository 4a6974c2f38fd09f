"""Constraint reactions, the Delassus matrix of the constraints, and checks of initial data.

Letters of the shapes: n coordinates, c constraints, h of which are holonomic.
"""

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._engine.native import native_of
from geodyn._foundations.typing import Array, Bool, Float, Number, Scalar
from geodyn._integrators.contract.couplings import form_of
from geodyn._integrators.contract.system import AbstractSystem, constraint_rate, is_configuration


def reactions(
    system: AbstractSystem,
    t: Number,
    q: Float[Array, " n"],
    p: Float[Array, " p"],
    v: Float[Array, " n"],
    wanted: Float[Array, " c"] | float = 0.0,
) -> Float[Array, " c"]:
    """The multipliers λ for which the constraints at the velocity level change at the rates `wanted`: the solution of a
    linear system."""
    lam = jnp.zeros(system.count_constraints(q), q.dtype)
    if lam.size == 0:
        return lam

    def acceleration(lam: Float[Array, " c"]) -> Float[Array, " c"]:
        """By how much the constraints at the velocity level change faster than `wanted` under the reactions λ."""
        one = jnp.ones_like(t)
        pdot = system.force(t, q, v, lam)
        vdot = jax.jvp(lambda t, q, p: system.velocity(t, q, p, v), (t, q, p), (one, v, pdot))[1]
        return jax.jvp(lambda *x: constraint_rate(system, *x), (t, q, v), (one, v, vdot))[1] - wanted

    # The acceleration is affine in λ: `level` is its value without reactions, `push` its linear part.
    level, push = jax.linearize(acceleration, lam)
    form = form_of(system.couplings, 1, 0, 1, False)
    return -form.solve(form.factors(form.matrix(push, lam)), level)


def normals(
    system: AbstractSystem, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]
) -> tuple[Float[Array, "n c"], Float[Array, "c c"]]:
    """M⁻¹Jᵀ and J M⁻¹Jᵀ, with J = ∂(constraint_rate)/∂v."""
    jacobian = jax.jacfwd(lambda v: constraint_rate(system, t, q, v))(v)
    momentum = system.momentum(t, q, v)

    def raise_index(row: Float[Array, " n"]) -> Float[Array, " n"]:
        """The velocity of a momentum."""
        return jax.jvp(lambda p: system.velocity(t, q, p, v), (momentum,), (row,))[1]

    normal = jax.vmap(raise_index)(jacobian)
    return normal.T, jacobian @ normal.T


@jit
def constraint_state(
    system: AbstractSystem, q: Float[Array, " n"], v: Float[Array, " n"], t: Number
) -> tuple[Float[Array, " h"], Float[Array, " c"], Float[Array, "c c"]]:
    """(φ, constraints at the velocity level, J M⁻¹Jᵀ) at flat q[n], v[n]."""

    def state(
        system: AbstractSystem, q: Float[Array, " n"], v: Float[Array, " n"], t: Number
    ) -> tuple[Float[Array, " h"], Float[Array, " c"], Float[Array, "c c"]]:
        residual = system.constraint(t, q)
        rate = constraint_rate(system, t, q, v)
        _, gram = normals(system, t, q, v)
        return residual, rate, gram

    return native_of(state, system, q, v, t)


@jit
def nonlinearity(
    system: AbstractSystem, q: Float[Array, " n"], v: Float[Array, " n"], t: Number
) -> tuple[Float[Array, " c"], Scalar]:
    """The differences between the derivatives of the constraints at the velocity level at several velocities, which are
    zero if these are affine in v, and the size of the derivatives."""
    jacobian = jax.jacfwd(lambda v: constraint_rate(system, t, q, v))
    unlike = 1 + jnp.abs(v) * jnp.cos(jnp.arange(v.size, dtype=v.dtype))  # In a direction along which nothing cancels.
    first, *others = (jacobian(x) for x in (0 * v, v, unlike * (1 + jnp.arange(v.size)), -unlike))
    differences = jnp.stack([jnp.abs(other - first) for other in others])
    largest = jnp.max(differences, axis=(0, 2))
    return largest, jnp.max(jnp.abs(jnp.stack([first, *others])))


def check_constraints(
    system: AbstractSystem,
    names: list[str],
    q: Float[np.ndarray | Array, " n"],
    v: Float[np.ndarray | Array, " n"],
    t: Number,
) -> None:
    """Raises ValueError if q, v violate a constraint, if constraints are redundant (J M⁻¹Jᵀ singular), or if a
    nonholonomic constraint is not affine in v. The names are those of the constraints."""
    residual, rate, gram = map(np.asarray, constraint_state(system, q, v, t))
    tolerance = np.finfo(rate.dtype).eps ** 0.5
    has_nonholonomic = len(rate) > len(residual)
    if has_nonholonomic:
        changes, size = map(np.asarray, nonlinearity(system, q, v, t))
        worst = int(np.argmax(changes))
        # Written so that a NaN is refused, here and below.
        if not changes[worst] <= tolerance * (1 + size):
            raise ValueError(
                f"{names[worst]} must be affine in v, A(q)v − b(q): only then is it clear which reactions do no work; "
                f"its derivative changes with v by {changes[worst]:.3g}"
            )
    _check_held("q0", names, residual, tolerance * (1 + np.abs(q).max()))
    _check_held("v0", names, rate, tolerance * (1 + np.abs(v).max()))
    if rows := dependent_rows(gram):
        raise ValueError(
            f"constraints are redundant or contradictory at q0: {', '.join(names[i] for i in rows)}; remove one of "
            "them, or start where they are independent"
        )


def _check_held(what: str, names: list[str], values: Float[np.ndarray, " c"], most: float | np.floating) -> None:
    """Raises ValueError if a value of the constraints at `what`, q0 or v0, is further from zero than `most`."""
    if not values.size:
        return
    worst = int(np.argmax(np.abs(values)))
    if not np.abs(values[worst]) <= most:
        raise ValueError(
            f"{what} violates the constraint {names[worst]} by {values[worst]:.3g}; "
            "start from q0, v0 = gd.project(system, q0, v0)"
        )


def is_consistent(system: AbstractSystem, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Bool[Array, ""]:
    """Whether flat q[n] is a configuration, and q, v[n] satisfy the constraints, as `check_constraints` judges it."""
    tolerance = jnp.finfo(q.dtype).eps ** 0.5
    valid = is_configuration(system, q)
    if system.count_constraints(q) == 0:
        return valid
    missed = jnp.max(jnp.abs(system.constraint(t, q)), initial=0.0)
    rate = jnp.max(jnp.abs(constraint_rate(system, t, q, v)), initial=0.0)
    held = missed <= tolerance * (1 + jnp.max(jnp.abs(q)))
    return valid & held & (rate <= tolerance * (1 + jnp.max(jnp.abs(v))))


def independence(gram: Float[np.ndarray, "c c"]) -> float:
    """How far the rows of J are from being linearly dependent, 1 if they are orthogonal: the least singular value of
    M^(−1/2) Jᵀ with columns of length 1."""
    if not np.min(np.diag(gram)) > 0:
        return 0.0
    smallest = np.linalg.eigvalsh(_of_unit_rows(gram))[0]
    return float(np.sqrt(max(smallest, 0.0)))


def dependent_rows(gram: Float[np.ndarray, "c c"]) -> list[int]:
    """The linearly dependent rows of J: those that occur in the null vectors of J M⁻¹Jᵀ."""
    diagonal = np.diag(gram)
    if not np.all(diagonal > 0):
        return [int(i) for i in np.flatnonzero(~(diagonal > 0))]
    values, vectors = np.linalg.eigh(_of_unit_rows(gram))
    null = vectors[:, values <= 100 * np.finfo(gram.dtype).eps * len(gram)]
    return [int(i) for i in np.flatnonzero(np.any(np.abs(null) > 0.05, axis=1))]


def _of_unit_rows(gram: Float[np.ndarray, "c c"]) -> Float[np.ndarray, "c c"]:
    """The matrix J M⁻¹Jᵀ if the rows of J had the length 1: then units and sizes of constraints do not matter."""
    scale = 1 / np.sqrt(np.diag(gram))
    return gram * scale[:, None] * scale[None, :]
