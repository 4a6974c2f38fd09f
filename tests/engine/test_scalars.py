"""Programs as JAX and as our compiler run them: the same numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._engine.program.members import natively

HYPERBOLIC = gd.spaces.Hyperbolic(3, "polar")
X = np.linspace(0.3, 1.1, 6).reshape(2, 3)


def converges(x):
    """A loop whose length depends on the numbers, around another loop and a large array."""
    large = jnp.zeros(600) + x[0, 0]

    def improve(state):
        y, large, count = state
        y = jax.lax.fori_loop(0, 3, lambda i, y: y - 0.1 * (y - jnp.cos(y)) + 0.0 * i, y)
        return y, large + y[0, 0], count + 1

    def far(state):
        return (jnp.max(jnp.abs(state[0] - jnp.cos(state[0]))) > 1e-3) & (state[2] < 50)

    y, large, count = jax.lax.while_loop(far, improve, (x, large, 0))
    return y, large[7], count


def converges_each(x):
    """Loops side by side, of different lengths."""

    def alone(y):
        return jax.lax.while_loop(lambda y: y < 2, lambda y: 1.5 * y, y)

    return jax.vmap(alone)(x[0])


def marches(x):
    """A scan with constants, sequences read and written, and one that is empty."""

    def turn(c, t):
        return (c @ jnp.array([[0.9, 0.1], [-0.1, 0.9]]), (c[0] * t[0], t[1], c[:0]))

    return jax.lax.scan(turn, x[:, 0], (jnp.arange(4.0), jnp.arange(4)), reverse=True)


def solves(x):
    """A linear solve with a rule of its own."""
    a = jnp.array([[2.0, 0.3], [0.1, 1.5]])

    def solve(matvec, b):
        return jnp.linalg.solve(a, b)

    return jax.lax.custom_linear_solve(lambda y: a @ y, x[:, 1], solve, solve)


PROGRAMS = {
    "moves": lambda x: (x.T[::-1], jnp.roll(x, 1, 1), x[:, 1:], jnp.concatenate([x, 2 * x]), jnp.tile(x, (2, 1))),
    "pads": lambda x: (jnp.pad(x, 1), jax.lax.pad(x, 0.5, [(0, 1, 0), (-1, 2, 0)])),
    "reduces": lambda x: (x.sum(), x.max(0), x.min(1), jnp.all(x > 0), jnp.any(x > 1), x[:0].sum(0)),
    "products": lambda x: (x @ x.T, jnp.einsum("ij,ik->jk", x, x), jax.vmap(jnp.dot)(x, x), jnp.outer(x[0], x[1])),
    "functions": lambda x: (jnp.sin(x) * jnp.cos(x), jnp.sinh(x) / jnp.cosh(x), jax.lax.rsqrt(x), x**3, x**-2, -x + 1),
    "other functions": lambda x: (jnp.arctan2(x, 2), jnp.log1p(x), jnp.tanh(x), jnp.floor(3 * x), jnp.exp(x), x**0.5),
    "chooses": lambda x: (jnp.where(x > 0.5, x, -x), jnp.clip(x, 0.4, 0.6), jnp.abs(x - 0.5), jnp.sign(x - 0.5)),
    "types": lambda x: ((3 * x).astype(int), x.astype(jnp.float32), jnp.arange(3), x > 0.5, x + 1j, jnp.abs(x + 1j)),
    "indices": lambda x: (jax.lax.dynamic_slice(x, (0, 1), (1, 2)), jnp.sort(x, 0), x.at[0, 1].set(2.0)),
    "inverts": lambda x: jnp.linalg.inv(x[:, :2]),
    "derivatives": lambda x: jax.hessian(lambda y: jnp.prod(jnp.sin(y)) * jnp.sum(y**3))(x),
    "curved": lambda x: jax.grad(lambda y: gd.distance(HYPERBOLIC, *y) * gd.spaces.Sphere(3).metric(y[0])[1, 1])(x),
    "converges": converges,
    "converges, each": converges_each,
    "marches": marches,
    "solves": solves,
}


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_arrays(name):
    """To rounding, alone and in a batch."""

    def function(x):
        return [y for y in jax.tree.leaves(PROGRAMS[name](x)) if y.dtype.kind != "c"]

    x = jnp.asarray(X)
    closed = jax.make_jaxpr(function)(x)
    for got, want in zip(jax.jit(lambda x: natively(closed, [x], ()))(x), function(x), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-15)
    batch = jnp.stack([x, x + 0.1, x - 0.2], axis=-1)
    wanted = jax.vmap(function, -1, -1)(batch)
    for got, want in zip(jax.jit(lambda x: natively(closed, [x], (3,)))(batch), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-15)
