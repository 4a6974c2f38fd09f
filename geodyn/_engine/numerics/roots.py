"""Small systems of equations by Newton's method with backtracking, and exact derivatives of the root.

Not by optimistix.root_find: its Newton's method does not backtrack, and for the velocity of a fast relativistic
particle (p = 5) it ends at another point; its Dogleg finds the root by a program twice as long (636 lines of StableHLO
beside 365, with second derivatives 2167 beside 732).
"""

from collections.abc import Callable
from typing import NamedTuple

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
    found = _newton_root(fixed, still, *begin)
    return with_derivative(function, found, target)


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


class _Place(NamedTuple):
    """A place of the search, and what is known there."""

    x: Float[Array, " n"]
    far: Scalar  # the largest component of the residual
    step: Float[Array, " n"]  # Newton's
    reach: Scalar  # the size of the x that would meet the target if the function were linear
    is_steady: Bool[Array, ""]  # whether all slopes are finite: an infinite one makes a step of 0 anywhere


def _newton_root(
    function: Callable, target: Float[Array, " n"], start: Float[Array, " n"], size: ArrayLike
) -> Float[Array, " n"]:
    """The root x by Newton steps that are halved until they reduce the residual. At each place the function and its
    slopes are computed once, and once in the program."""

    def largest(x: Float[Array, " n"]) -> Scalar:
        return jnp.max(jnp.abs(x), initial=0)

    def value_twice(x: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        value = function(x)
        return value, value

    def place(x: Float[Array, " n"]) -> _Place:
        jacobian, value = jax.jacfwd(value_twice, has_aux=True)(x)
        residual = target - value
        step = solve(jacobian, residual)
        linear = solve(jacobian, target)
        is_steady = jnp.all(jnp.isfinite(jacobian))
        return _Place(x, largest(residual), step, largest(linear), is_steady)

    def is_last(here: _Place) -> Bool[Array, ""]:
        """Whether one more step leads to the root, to rounding."""
        small = jnp.finfo(here.x.dtype).eps ** 0.75 * (size + largest(here.x) + here.reach)
        # If the slope vanishes both are infinite.
        settled = here.is_steady & jnp.isfinite(small) & (largest(here.step) <= small)
        return settled | (here.far == 0)

    def improve(state: tuple) -> tuple:
        here, part, _, count = state
        there = place(here.x + part * here.step)
        nearer = there.far < here.far
        after = jax.tree.map(lambda new, old: jnp.where(nearer, new, old), there, here)
        part = jnp.asarray(jnp.where(nearer, 1.0, part / 2), part.dtype)
        return after, part, is_last(after), count + 1

    # The first place is as if a step of 0 had led there from an infinite distance.
    one = jnp.ones((), start.dtype)
    unknown = _Place(start, one * jnp.inf, jnp.zeros_like(start), one, jnp.zeros((), bool))
    before = (unknown, one, jnp.zeros((), bool), jnp.zeros((), int))
    state = batched_as((function, target, start, size), before)
    here, _, done, _ = jax.lax.while_loop(lambda s: ~s[2] & (s[3] < MOST_ITERATIONS), improve, state)
    # Where a slope is infinite at a root that was met exactly, there is no last step. (Where slopes are finite, but
    # singular, a root is one of many: NaN.)
    last = jnp.where(~here.is_steady & (here.far == 0), 0.0, here.step)
    return jnp.where(done, here.x + last, jnp.nan)
