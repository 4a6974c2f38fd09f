"""Loops under `vmap`, whose bodies are traced no more often than it takes; no search for garbage meanwhile."""

import gc
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._engine import internals
from geodyn._engine.tracing import batched_as
from geodyn._integrators.step.iteration import iterate

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


@pytest.fixture
def collecting():
    """Python's collector is on, as users have it: for the tests it is off."""
    gc.enable()
    yield
    gc.disable()


def end(factor, run=lambda: None):
    """Where a mass on a spring ends; `run` is called whenever the force is traced."""

    def lagrangian(q, v):
        run()
        return v @ v / 2 - factor * q @ q / 2

    return gd.integrate(gd.Lagrangian(lagrangian), [1.0, 0.5], t1=1.0, steps=2).q[-1, 0]


def of_many(function):
    return jax.jit(jax.grad(lambda x: jnp.sum(jax.vmap(function)(x * jnp.ones(3)))))


@pytest.mark.parametrize(
    "made", [lambda function: function, jax.jit, jax.grad, pytest.param(of_many, marks=pytest.mark.long)]
)
def test_no_garbage_is_looked_for_while_a_program_is_made(made, collecting):
    """Neither in what geodyn traces by itself nor in what it adds to a user's program."""
    seen = []
    made(partial(end, run=lambda: seen.append(gc.isenabled())))(1.0)
    assert seen and not any(seen) and gc.isenabled()


def test_no_garbage_is_looked_for_in_the_rules_of_an_operation(collecting):
    seen = {}

    def noted(rule, value):
        def function(*args, **_):
            seen[rule] = gc.isenabled()
            return value(*args)

        return function

    def moved(primals, tangents):
        return operation.bind(*primals), operation.bind(*tangents)

    rules = {
        "lowered": lambda x: [x],
        "batched": lambda args, axes: (operation.bind(*args), axes),
        "pushed_forward": moved,
        "pulled_back": lambda cts, x: cts,
    }
    noting = {rule: noted(rule, value) for rule, value in rules.items()}
    operation = internals.new_operation("noting", run=lambda x: [x], abstract=lambda x: [x], **noting)
    jax.jit(jax.vmap(jax.value_and_grad(lambda x: operation.bind(x)[0])))(jnp.ones(3))
    assert seen == dict.fromkeys(("lowered", "batched", "pushed_forward", "pulled_back"), False) and gc.isenabled()


def test_garbage_is_looked_for_again(collecting):
    """Also where a function of the user raises; not where the user has turned it off."""

    def fails():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        end(1.0, fails)
    assert gc.isenabled()
    gc.disable()
    end(1.0)
    assert not gc.isenabled()
