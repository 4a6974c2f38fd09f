"""Roots of the stage equations: iteration by need, an honest stop, and derivatives by the implicit-function theorem."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._linalg import basis, inverse
from geodyn._scalars import on_arrays
from geodyn._typing import Array, Bool, Int
from geodyn.integrators.collocation import Problem

MOST_FIXED_POINT = 40
MOST_NEWTON = 12
MOST_JACOBIANS = 5


class Progress(NamedTuple):
    """Where an iteration stands: iterate, size of its last three increments and of itself, count."""

    w: Array
    increment: Array
    previous: Array
    earlier: Array
    scale: Array
    count: Int[Array, ""]

    @property
    def converged(self) -> Bool[Array, ""]:
        """The error left, estimated from the contraction ρ as ρ/(1−ρ) of the last increment, is below rounding; or
        the increments have stopped shrinking at the level of rounding."""
        eps = jnp.finfo(self.w.dtype).eps
        rate = jnp.where(self.count > 1, self.increment / self.previous, jnp.nan)
        left = jnp.where(rate < 0.5, self.increment * rate / (1 - jnp.minimum(rate, 0.5)), jnp.inf)
        stagnant = self.slow & (self.increment <= 2**14 * eps * self.scale)
        return (self.increment <= 2 * eps * self.scale) | (left <= eps * self.scale / 4) | stagnant

    @property
    def slow(self) -> Bool[Array, ""]:
        """Contracting by less than a half in two iterations: an oscillation alternates between good and bad ones."""
        return (self.count > 2) & (self.increment > 0.5 * self.earlier)

    @property
    def hopeless(self) -> Bool[Array, ""]:
        """Not finite, or still slow after six iterations."""
        return (self.count >= 6) & self.slow | (self.count > 0) & ~jnp.isfinite(self.increment)


def iterate(residual, w, precondition, floor, most, active, measured: int | None = None) -> Progress:
    """w ← w − precondition(residual(w)) until it converges, stops contracting, or `most` iterations are done; judged
    by the first `measured` columns, the velocities: multipliers have no scale of their own in every chart."""
    size = lambda x: jnp.max(jnp.abs(x[..., :measured]))  # noqa: E731

    def proceed(state):
        return active & ~state.converged & ~state.hopeless & (state.count < most)

    def improve(state):
        change = precondition(residual(state.w))
        w = state.w - change
        return Progress(w, size(change), state.increment, state.previous, floor + size(w), state.count + 1)

    huge = jnp.asarray(jnp.inf, w.dtype)
    return jax.lax.while_loop(proceed, improve, Progress(w, huge, huge, huge, floor, jnp.zeros((), int)))


class Root(NamedTuple):
    """A root, whether it was reached, and the iterations and Jacobians that it took."""

    w: Array
    converged: Bool[Array, ""]
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]


def root(problem: Problem, start, floor, active) -> Root:
    """A root of the stage equations near `start`: plain iteration where there are no constraints, which is Newton with
    the mass matrix for Jacobian; then, or where that contracts too slowly, simplified Newton, its Jacobian renewed only
    when the contraction is slow."""
    zero = jnp.zeros((), int)
    first = Root(start, ~active, zero, zero)
    if not problem.formulation.levels:
        state = iterate(problem.residual, start, lambda r: r, floor, MOST_FIXED_POINT, active)
        first = Root(jnp.where(state.converged, state.w, start), ~active | state.converged, state.count, zero)

    def proceed(best):
        return ~best.converged & (best.jacobians < MOST_JACOBIANS) & jnp.all(jnp.isfinite(best.w))

    def improve(best):
        factors = problem.factors(best.w)
        state = iterate(
            problem.residual,
            best.w,
            lambda r: problem.newton(factors, r),
            floor,
            MOST_NEWTON,
            active,
            problem.q.shape[0],
        )
        return Root(state.w, state.converged, best.iterations + state.count, best.jacobians + 1)

    return on_arrays(lambda first: jax.lax.while_loop(proceed, improve, first))(first)


def stage_values(problem: Problem, guess, active, cancelling=0.0) -> Root:
    """Stage values w[s, m] that solve the stage equations, from a guess; nothing is done where not `active`. Velocities
    of the size `cancelling` leave their rounding in what is left of them."""
    # Increments below eps · |q|/h move no position by more than its rounding: there, stagnation is convergence.
    floor = jnp.max(jnp.abs(problem.q)) / problem.h / 2**6 + cancelling
    return root(problem, guess, floor, active)


def stage_tangent(problem: Problem, tangent: Problem, w, active) -> Array:
    """The change of the stage values with the problem: dw = −(∂R/∂w)⁻¹ ∂R/∂problem (implicit-function theorem)."""
    change = eqx.filter_jvp(lambda problem: problem.residual(w), (problem,), (tangent,))[1]
    contracts = not problem.formulation.levels
    solve = lambda apply, b: linear_root(apply, b, contracts, active)  # noqa: E731
    return jax.lax.custom_linear_solve(jax.linearize(problem.residual, w)[1], -change, solve, solve)


def linear_root(apply, b, contracts: bool, active) -> Array:
    """x with apply(x) = b, as `root` finds it: by plain iteration where that contracts, else with the whole matrix; NaN
    where neither converges."""
    zero = jnp.zeros((), b.dtype)
    residual = lambda x: apply(x) - b  # noqa: E731
    x, done = b, ~active
    if contracts:
        state = iterate(residual, b, lambda r: r, zero, MOST_FIXED_POINT, active)
        x, done = state.w, done | state.converged

    def with_matrix(state):
        columns = jax.vmap(apply)(basis(b.size, state[0]).reshape(b.size, *b.shape))
        inverted = inverse(columns.reshape(b.size, b.size).T, largest_elimination=b.size)
        precondition = lambda r: (inverted @ r.reshape(-1)).reshape(b.shape)  # noqa: E731
        state = iterate(residual, precondition(b), precondition, zero, MOST_NEWTON, active)
        return jnp.where(state.converged, state.w, jnp.nan), jnp.ones_like(done)

    # A loop of at most one turn and no `cond`: under vmap a cond would form the matrix for every member.
    return on_arrays(lambda *state: jax.lax.while_loop(lambda state: ~state[1], with_matrix, state))(x, done)[0]
