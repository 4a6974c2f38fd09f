"""Solution of the stage equations, and its derivative by the implicit-function theorem."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._engine.numerics.bands import Banded, Full
from geodyn._engine.numerics.linalg import columns, refined
from geodyn._engine.tracing import once
from geodyn._foundations.typing import Array, ArrayLike, Bool, Float, Scalar
from geodyn._integrators.step.collocation import Problem
from geodyn._integrators.step.iteration import (
    MOST_MATRICES,
    MOST_PLAIN,
    MOST_WITH_MATRIX,
    Function,
    Root,
    find_root,
    iterate,
)

# Of a matrix with more rows the elimination would take longer than an iteration.
MOST_BY_MATRIX = 100


def root(problem: Problem, start: Float[Array, "s m"], floor: Scalar, active: Bool[Array, ""]) -> Root:
    """A root of the stage equations near `start`. Without constraints fixed-point iteration comes first, which is
    Newton's method with the mass matrix as Jacobian. With constraints, or if fixed-point iteration contracts too
    slowly, simplified Newton follows, whose Jacobian is renewed only when it contracts slowly."""
    zero = jnp.zeros((), int)
    first = Root(start, ~active, zero, zero)
    if not problem.formulation.levels:
        if not isinstance(problem.form, Banded):
            return find_root(problem.residual, start, floor, active, problem.afresh)
        state = iterate(problem.residual, start, lambda r: r, floor, MOST_PLAIN, active)
        first = Root(jnp.where(state.converged, state.w, start), ~active | state.converged, state.count, zero)

    def goes_on(best: Root) -> Bool[Array, ""]:
        return ~best.converged & (best.jacobians < MOST_MATRICES) & jnp.all(jnp.isfinite(best.w))

    def improve(best: Root) -> Root:
        factors = problem.factors(best.w)

        def precondition(r: Float[Array, "s m"]) -> Float[Array, "s m"]:
            return problem.newton(factors, r)

        measured = problem.q.shape[0]
        state = iterate(problem.residual, best.w, precondition, floor, MOST_WITH_MATRIX, active, measured)
        return Root(state.w, state.converged, best.iterations + state.count, best.jacobians + 1)

    return jax.lax.while_loop(goes_on, improve, first)


def stage_values(
    problem: Problem, guess: Float[Array, "s m"], active: Bool[Array, ""], cancelling: ArrayLike = 0.0
) -> Root:
    """The stage values w[s, m] that solve the stage equations, from a `guess`; members that are not `active` are
    skipped. `cancelling` is the size of velocities that cancel in the stage values and leave their rounding error
    there."""
    # An increment below eps · |q|/h moves no position by more than its rounding error: at that size stagnation counts
    # as convergence.
    floor = jnp.max(jnp.abs(problem.q)) / jnp.abs(problem.h) / 2**6 + cancelling
    return root(problem, guess, floor, active)


def step_tangent(
    problem: Problem, tangent: Problem, w: Float[Array, "s m"], active: Bool[Array, ""], by_matrix: bool = False
) -> tuple[tuple[Array, Array], tuple[Any, Any], Float[Array, "s m"]]:
    """(increments of q and p, their tangents, dw) of a step with the stage values w, for a tangent of the problem:
    dw = −(∂R/∂w)⁻¹ (∂R/∂problem) dproblem (implicit-function theorem).

    With constraints the matrix ∂R/∂w is computed, else dw is found by iteration, which for a short force is less work;
    `by_matrix` says that the force is a long program, of which an iteration would compile several."""
    moving, still = eqx.partition(problem, jax.tree.map(lambda x: x is not None, tangent, is_leaf=lambda x: x is None))
    is_dense = not isinstance(problem.form, Banded)
    if is_dense and (problem.formulation.levels or (by_matrix and w.size <= MOST_BY_MATRIX)):
        pdot, moved, dw = _change_by_matrix(moving, still, tangent, w, active)
    else:
        pdot, moved, dw = _change_by_iteration(moving, still, tangent, w, active)
    return *eqx.filter_jvp(Problem.increments, (problem, w, pdot), (tangent, dw, moved)), dw


# (p' of the stages, its tangent or None, the tangent of the stage values).
Change = tuple[Float[Array, "s k"], Float[Array, "s k"] | None, Float[Array, "s m"]]


def _change_by_matrix(
    moving: Problem, still: Problem, tangent: Problem, w: Float[Array, "s m"], active: Bool[Array, ""]
) -> Change:
    def evaluate(moving: Problem, w: Float[Array, "s m"]) -> tuple[Float[Array, "s m"], Float[Array, "s k"]]:
        # Else what the derivatives need would be kept of every stage: of a long force, hundreds of small arrays.
        return eqx.combine(moving, still).evaluate(w, again=True)

    def push(x: Float[Array, " N"]) -> tuple[Float[Array, "s m"], Float[Array, "s k"]]:
        return jax.jvp(lambda w: evaluate(moving, w), (w,), (x.reshape(w.shape),))[1]

    (_, pdot), (change, moved) = jax.jvp(evaluate, (moving, w), (tangent, jnp.zeros_like(w)))
    images, images_of_force = columns(push, w.size, w)
    unit = jnp.eye(w.size, dtype=w.dtype)
    # Of a step that failed nothing is known, and its change is not used.
    matrix: Float[Array, "N N"] = jnp.where(active, images.reshape(w.size, w.size).T, unit)
    dw = -refined(matrix, change.reshape(-1))
    moved = moved + jnp.tensordot(dw, images_of_force, 1)
    return pdot, moved, dw.reshape(w.shape)


def _change_by_iteration(
    moving: Problem, still: Problem, tangent: Problem, w: Float[Array, "s m"], active: Bool[Array, ""]
) -> Change:
    problem = eqx.combine(moving, still)
    # Linearised by everything at once, since that takes most of the compile time; then by w, and by the problem.
    (_, pdot), push_both = jax.linearize(lambda moving, w: eqx.combine(moving, still).evaluate(w), moving, w)
    rest, zero = jax.tree.map(jnp.zeros_like, (moving, w))
    push = jax.linearize(lambda dw: push_both(rest, dw), zero)[1]
    change, dpdot = push_both(tangent, zero)
    contracts = not problem.formulation.levels

    def solve(apply: Callable, b: Float[Array, "..."]) -> Float[Array, "..."]:
        return linear_root(apply, b, problem.form, contracts, active)

    dw = jax.lax.custom_linear_solve(lambda x: push(x)[0], -change, solve, solve)
    moved = push(dw)[1]
    return pdot, moved if dpdot is None else moved + dpdot, dw


def linear_root(
    apply: Function, b: Float[Array, "..."], form: Full | Banded, contracts: bool, active: Bool[Array, ""]
) -> Float[Array, "..."]:
    """The solution x of the linear equation apply(x) = b, found as in `root`: by fixed-point iteration if that
    contracts, else with the matrix of `apply`; NaN if neither converges."""
    zero = jnp.zeros((), b.dtype)

    def residual(x: Float[Array, "..."]) -> Float[Array, "..."]:
        return apply(x) - b

    if isinstance(form, Full):
        found = find_root(residual, b, zero, active)
        return jnp.where(found.converged, found.w, jnp.nan)
    x = b
    done = ~active
    if contracts:
        state = iterate(residual, b, lambda r: r, zero, MOST_PLAIN, active)
        x = state.w
        done = done | state.converged

    def with_matrix(x: Float[Array, "..."]) -> tuple[Float[Array, "..."]]:
        factors = form.factors(form.matrix(apply, x))

        def precondition(r: Float[Array, "..."]) -> Float[Array, "..."]:
            return form.solve(factors, r)

        state = iterate(residual, precondition(b), precondition, zero, MOST_WITH_MATRIX, active)
        return (jnp.where(state.converged, state.w, jnp.nan),)

    return once(~done, with_matrix, x)[0]
