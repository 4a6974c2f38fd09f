"""Programs as XLA has them: the loop over the stages of a step is a batch there, wherever it stands."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from geodyn._engine import internals, native, plain
from geodyn._engine.program import members

pytestmark = pytest.mark.newest


def stages(x):
    return lax.map(lambda row: jnp.sin(row) @ row * x[0, 0], x)


def solved(x):
    return lax.custom_linear_solve(lambda y: 2 * y, x[:, 0], lambda _, b: stages(x) + b, lambda _, b: b)


PROGRAMS = {
    "as it is": stages,
    "in a function": lambda x: jax.jit(stages)(x) + 1,
    "in a loop": lambda x: lax.while_loop(
        lambda y: jnp.max(y) < 9, lambda y: y + 1 + stages(x + y[:, None]) ** 2, x[:, 0]
    ),
    "in many turns": lambda x: lax.scan(
        lambda c, y: (c + stages(x + y), c.sum()), x[:, 0], jnp.arange(20.0), reverse=True
    ),
    "in a branch": lambda x: lax.cond(x[0, 0] > 0, lambda x: stages(x), lambda x: x[:, 1], x),
    "in one of three": lambda x: lax.switch(x.astype(int)[0, 0], [stages, lambda x: x[:, 0], lambda x: x[:, 1]], x),
    "in a solve": solved,
    "in the derivative": lambda x: jax.jvp(jax.checkpoint(stages), (x,), (x,))[1],
    "of none": lambda x: lax.scan(lambda c, _: (c, 2 * x[0]), None, None, 3)[1],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_stages_are_a_batch(name):
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)))
    closed = jax.make_jaxpr(lambda x: jax.tree.leaves(PROGRAMS[name](x)))(x)
    rewritten = jax.make_jaxpr(lambda x: plain.evaluate(closed.jaxpr, closed.consts, x))(x)
    for got, want in zip(
        jax.jit(internals.jaxpr_as_fun(rewritten))(x), jax.tree.leaves(PROGRAMS[name](x)), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-13)
    assert "length=3" in str(closed) and "length=3" not in str(rewritten)


def test_turns_that_need_each_other_stay():
    def program(x):
        return lax.scan(lambda total, row: (total + row @ row, total), x[0, 0], x + stages(x)[:, None])

    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)))
    closed = jax.make_jaxpr(program)(x)
    for got, want in zip(plain.evaluate(closed.jaxpr, closed.consts, x), program(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


def test_a_loop_with_a_condition_of_each_row_stays():
    """JAX has batched it; it is right as it is."""

    def program(x):
        return jax.vmap(
            lambda x: lax.while_loop(lambda y: jnp.max(y) < 9, lambda y: y + 1 + stages(x + y[:, None]) ** 2, x[:, 0])
        )(x)

    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 4)))
    closed = jax.make_jaxpr(program)(x)
    (got,) = plain.evaluate(closed.jaxpr, closed.consts, x)
    np.testing.assert_allclose(got, program(x), rtol=1e-13)


@pytest.mark.skipif(members.llvm is None, reason="no llvmlite")
def test_large_products_of_one_member_are_those_of_xla():
    """A network of 256, and one of 16; in a batch both are compiled here."""

    def program(w, x):
        return [jnp.tanh(w @ jnp.tanh(w @ x))]

    for width, is_ours in ((16, True), (256, False)):
        w, x = jnp.full((width, width), 0.1), jnp.ones(width)
        closed = jax.make_jaxpr(program)(w, x)
        assert (members.natively(closed, (w, x), ()) is not None) is is_ours
        (many,) = members.natively(closed, (w, jnp.stack([x, 2 * x], 1)), (2,))
        np.testing.assert_allclose(many[:, 1], program(w, 2 * x)[0], rtol=1e-12)


def test_the_work_of_a_member_counts_every_turn():
    """By hand: 3 × 4 × 4 products and 12 sums in each of 7 turns; what runs until something holds has no bound."""
    w, x = jnp.ones((4, 4)), jnp.zeros((3, 4))

    def seven(x):
        return lax.scan(lambda y, _: (y @ w + 1.0, None), x, None, 7)[0]

    def until(x):
        return lax.while_loop(lambda y: jnp.sum(y) < 9, lambda y: y + 1, x)

    def batch(x):
        return jax.vmap(lambda y: native.native(seven, y))(x)

    work = {f: members.work(jax.make_jaxpr(f)(x).jaxpr) for f in (seven, until)}
    assert work == {seven: 7 * (48 + 12), until: np.inf}
    copies = 2 * 5 * 12  # The axis of the batch is moved to the end, and back.
    assert members.work(jax.make_jaxpr(batch)(jnp.zeros((5, 3, 4))).jaxpr) == 5 * work[seven] + copies
