"""Loops under `vmap`: their bodies are traced no more often than it takes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geodyn._compile.loops import batched_as
from geodyn.integrators.step.iteration import iterate

START = (jnp.array([[1.0, jnp.nan]]), jnp.array(True), jnp.array(3), None, jnp.zeros((0, 2)))


@pytest.mark.parametrize("x", [jnp.ones(3), jnp.full(3, jnp.nan), jnp.arange(3)], ids=["numbers", "nan", "integers"])
def test_a_start_is_batched_with_its_values(x):
    """It has the same values, one for each member."""
    found = jax.vmap(lambda x: batched_as({"x": x}, START))(x)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, jnp.stack([b] * 3)), found, START)
    jax.tree.map(np.testing.assert_array_equal, batched_as((), START), START)
    with pytest.raises(ValueError, match="out_axes"):
        jax.vmap(lambda x: batched_as((jnp.ones(()), x), START[1]), out_axes=None)(x)


def test_derivatives_of_a_start():
    def start(x, y):
        return batched_as(x, x * y)

    assert jax.grad(start, (0, 1))(2.0, 3.0) == (3.0, 2.0)


def test_a_loop_is_batched_at_once():
    """An iteration whose state begins with constants. JAX asks for the batched form of its body once to learn what is
    batched, and once with the axes that it then takes; it was four times."""
    asked = []

    @jax.custom_batching.custom_vmap
    def halved(w, x):
        return w / 2 - x

    @halved.def_vmap
    def _(size, batched, w, x):
        asked.append(batched)
        return w / 2 - x, True

    def root(x):
        yes = jnp.ones((), bool)
        return iterate(lambda w: halved(w, x), 0 * x, lambda r: r, jnp.zeros(()), 80, yes).w

    x = jnp.arange(3.0)[:, None]
    np.testing.assert_allclose(jax.jit(jax.vmap(root))(x), 2 * x, rtol=1e-15)
    assert len(asked) <= 2
