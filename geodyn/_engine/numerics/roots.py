"""Small systems of equations by Newton's method with backtracking, and exact derivatives of the root.

Not by optimistix.root_find: its Newton's method does not backtrack, and for the velocity of a fast relativistic
particle (p = 5) it ends at another point; its Dogleg finds the root by a program twice as long (636 lines of StableHLO
beside 365, with second derivatives 2167 beside 732).
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._engine.jit import change_of, custom_jvp
from geodyn._engine.numerics.failure import no_derivative_where
from geodyn._engine.numerics.linalg import solve
from geodyn._engine.tracing import batched_as
from geodyn._foundations.typing import Array, ArrayLike, Bool, Float, PyTree, Scalar

MOST_ITERATIONS = 60


def root(
    function: Callable, target: Float[Array, " n"], start: Float[Array, " n"], size: ArrayLike = 0.0
) -> Float[Array, " n"]:
    """The x[n] with function(x) = target, by Newton's method from `start`; NaN if it does not converge. `size` is added
    to the scale of x in the test of convergence, for an x that is a small difference of numbers of that size.
    Derivatives of any order, in both modes, with respect to `target` and to whatever `function` closes over are those
    of the implicit-function theorem."""
    function = eqx.filter_closure_convert(function, start)
    fixed, still, *begin = without_derivatives((function, target, start, size))
    near = _newton_root(fixed, still, *begin)
    last, _, steady = _changes(fixed, still, near)
    # Where a slope is infinite at a root that was met exactly, there is no last step. (Where slopes are finite, but
    # singular, a root is one of many: NaN.)
    last = jnp.where(~steady & (fixed(near) == still), 0.0, last)
    return with_derivative(function, near + last, target)


def without_derivatives(tree: PyTree) -> PyTree:
    """The tree, whose arrays are taken for constants."""
    return jax.tree.map(lambda x: jax.lax.stop_gradient(x) if eqx.is_array(x) else x, tree)


def with_derivative(function: Callable, x: Float[Array, " n"], target: ArrayLike = 0.0) -> Float[Array, " n"]:
    """The root x of function(x) = target, which was found by a search without derivatives or is NaN, with those of the
    implicit-function theorem, of any order, with respect to `target` and to whatever `function` closes over."""
    function, x = eqx.filter_closure_convert(function, x), jax.lax.stop_gradient(x)
    return no_derivative_where(jnp.isnan(x), _implicit(function, target, x), (function, target))


@custom_jvp
def _implicit(function: Callable, target: ArrayLike, x: Float[Array, " n"]) -> Float[Array, " n"]:
    return x


@_implicit.def_jvp
def _(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    x, function = _implicit(*primals), primals[0]
    _, moved = change_of(lambda function, target: function(x) - target, primals[:2], tangents[:2])
    return x, -solve(jax.jacfwd(function)(x), moved)


def _changes(
    function: Callable, target: Float[Array, " n"], x: Float[Array, " n"]
) -> tuple[Array, Array, Bool[Array, ""]]:
    """The Newton step, the x that would reach the target if the function were linear, and whether all slopes are
    finite: an infinite one makes a step of 0 anywhere."""
    jacobian = jax.jacfwd(function)(x)
    steady = jnp.all(jnp.isfinite(jacobian))
    return solve(jacobian, target - function(x)), solve(jacobian, target), steady


def _newton_root(
    function: Callable, target: Float[Array, " n"], start: Float[Array, " n"], size: ArrayLike
) -> Float[Array, " n"]:
    """The root x, accurate to most of its digits, by Newton steps that are halved until they reduce the residual."""

    def largest(x: Float[Array, " n"]) -> Scalar:
        return jnp.max(jnp.abs(x), initial=0)

    def distance(x: Float[Array, " n"]) -> Scalar:
        return largest(target - function(x))

    def improve(state: tuple) -> tuple:
        x, far, part, _, count = state
        change, linear, steady = _changes(function, target, x)
        small = jnp.finfo(x.dtype).eps ** 0.75 * (size + largest(x) + largest(linear))
        settled = steady & jnp.isfinite(small) & (largest(change) <= small)  # If the slope vanishes both are infinite.
        done = settled | (far == 0)
        trial = x + part * change
        left = distance(trial)
        nearer = left < far
        part = jnp.asarray(jnp.where(nearer, 1.0, part / 2), x.dtype)
        return jnp.where(nearer, trial, x), jnp.where(nearer, left, far), part, done, count + 1

    far, zero = distance(start), jnp.zeros((), int)
    state = batched_as(far, (start, far, jnp.ones((), start.dtype), jnp.zeros((), bool), zero))
    x, _, _, done, _ = jax.lax.while_loop(lambda s: ~s[3] & (s[4] < MOST_ITERATIONS), improve, state)
    return jnp.where(done, x, jnp.nan)
