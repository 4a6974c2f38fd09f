"""Linear algebra of the stage equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geodyn._linalg import columns


@pytest.mark.parametrize("size", [3, 150])
def test_columns_are_those_of_the_matrix(size):
    """Few at once, many in batches, of which the last is not full."""
    matrix = np.random.default_rng(0).normal(size=(5, size))
    found = jax.jit(lambda near: columns(lambda x: (matrix @ x, x[:2]), size, near))(jnp.ones(2))
    np.testing.assert_allclose(found[0], matrix.T, rtol=1e-15)
    np.testing.assert_array_equal(found[1], np.eye(size)[:, :2])
