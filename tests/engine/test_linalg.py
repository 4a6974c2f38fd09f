"""Linear algebra of the stage equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geodyn._engine.numerics.linalg import columns, inverse, refined
from geodyn._engine.numerics.roots import root


@pytest.mark.parametrize("size", [3, 150])
def test_columns_are_those_of_the_matrix(size):
    """Few at once, many in batches, of which the last is not full."""
    matrix = np.random.default_rng(0).normal(size=(5, size))
    found = jax.jit(lambda near: columns(lambda x: (matrix @ x, x[:2]), size, near))(jnp.ones(2))
    np.testing.assert_allclose(found[0], matrix.T, rtol=1e-15)
    np.testing.assert_array_equal(found[1], np.eye(size)[:, :2])


def test_elimination_finds_its_pivots():
    """A matrix with zeros on its diagonal, which is regular."""
    a = jnp.roll(jnp.diag(jnp.arange(1.0, 7.0)), 2, axis=0) + jnp.diag(jnp.ones(4), 2)
    np.testing.assert_allclose(inverse(a) @ a, np.eye(6), rtol=0, atol=1e-14)


def test_inverses_of_many_at_once():
    """Each with pivots of its own."""
    a = np.random.default_rng(0).normal(size=(2, 3, 5, 5)) * (1 - np.eye(5))
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.vmap(inverse)))(a), np.linalg.inv(a), rtol=1e-10)


def test_an_infinite_slope_ends_no_search():
    """There Newton's step is 0 at any distance from the root. A root that is met exactly is one all the same."""
    bent = jax.grad(lambda x: jnp.sum(jnp.abs(x) ** 1.5) / 1.5)  # the root of |x|, with the sign of x
    found = jax.jit(lambda target, start: root(bent, target, start))
    assert np.isnan(found(jnp.ones(1), jnp.zeros(1))).all()
    assert found(jnp.zeros(1), jnp.zeros(1)) == 0
    np.testing.assert_allclose(found(2 * jnp.ones(1), jnp.ones(1)), 4.0, rtol=1e-14)


def test_a_root_that_is_none_is_nan():
    found = jax.jit(lambda target: root(lambda x: x**2, target, jnp.ones(1)))
    assert np.isnan(found(-jnp.ones(1))).all()
    np.testing.assert_allclose(found(2 * jnp.ones(1)), np.sqrt(2.0), rtol=1e-15)


def test_a_root_has_all_its_digits_wherever_a_search_begins():
    """Against numpy's cube root. The search ends at different distances from the root."""
    starts = jnp.linspace(1.0, 3.0, 500)[:, None]
    found = jax.jit(jax.vmap(lambda start: root(lambda x: x**3, 5 * jnp.ones(1), start)))(starts)
    np.testing.assert_allclose(found, np.cbrt(5.0), rtol=1e-15)


def test_a_search_whose_whole_steps_lead_away():
    """Newton's method for the root of arctan diverges from 1.4 and beyond; with half steps it does not."""
    assert abs(root(jnp.arctan, jnp.zeros(1), 3 * jnp.ones(1))[0]) <= 1e-15


def test_a_root_that_is_one_of_many_is_nan():
    """The line of roots of a singular matrix, met exactly and by a step."""
    assert np.isnan(root(lambda x: 0 * x, jnp.zeros(1), jnp.zeros(1))).all()
    on_line = jax.jit(lambda start: root(lambda x: jnp.sum(x) * jnp.ones(2), jnp.ones(2), start))
    assert np.isnan(on_line(jnp.array([0.25, 0.5]))).all()
    assert np.isnan(on_line(jnp.array([0.25, 0.75]))).all()


def test_a_refined_solution_whatever_the_units():
    """Of rows and columns in units 10¹⁸ apart, against numpy; so is the transpose, by reverse mode. NaN where the
    matrix is singular to rounding."""
    rng = np.random.default_rng(0)
    regular = np.eye(3) + 0.3 * rng.normal(size=(3, 3))
    rows, columns = np.array([1e-12, 1.0, 1e6]), np.array([1e9, 1.0, 1e-9])
    matrix, b = jnp.asarray(rows[:, None] * regular * columns), jnp.asarray(rng.normal(size=3))
    exact = np.linalg.solve(regular, np.asarray(b) / rows) / columns
    np.testing.assert_allclose(refined(matrix, b), exact, rtol=1e-14)
    pulled = jax.vjp(lambda b: refined(matrix, b), b)[1](b)[0]
    np.testing.assert_allclose(pulled, np.linalg.solve(regular.T, np.asarray(b) / columns) / rows, rtol=1e-14)
    of_rank_two = jnp.asarray(regular[:, :2] @ regular[:2])
    assert np.isnan(refined(of_rank_two, b)).all()
