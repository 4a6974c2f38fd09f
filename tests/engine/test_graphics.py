"""Kernels for graphics processors. This machine need not have one: what is lowered for one is looked at, and what a
kernel computes is computed by this processor, one thread after the other. (On a GPU: `benchmarks/device.py`.)"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import members as bodies
from helpers.graphics import on_host

from geodyn._engine.llvm import graphics
from geodyn._engine.program import members

pytestmark = [pytest.mark.users, pytest.mark.newest]

K, X = jnp.asarray(0.8), jnp.linspace(0.2, 0.9, 14).reshape(7, 2)


def many(name):
    """Values and derivatives of a batch, by what all members share, too."""
    run = getattr(bodies, name)

    def loss(k, x):
        values = jax.vmap(lambda x: run(k, x))(x)
        return jnp.sum(values**2), values

    return jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))


def as_kernels(closed, shared, batch):
    """What stands for `members._on_processor`: a call of the kernel, by fewer threads than there are members."""
    kernel = members.kernel_of(closed, shared)

    def run(size, args, results):
        types = [(x.shape, x.dtype) for x in results]
        return jax.pure_callback(
            lambda *arrays: tuple(on_host(kernel, size, map(np.asarray, arrays), types, 3)), tuple(results), *args
        )

    return run


@pytest.mark.parametrize(
    "name", ["oscillator", *(pytest.param(x, marks=pytest.mark.long) for x in ("pendulum", "balls"))]
)
def test_kernels_compute_the_same(name, monkeypatch):
    """Seen: 2e-16."""
    wanted = many(name)(K, X)
    compiled = []

    def compile_kernel(closed, shared, batch):
        compiled.append(batch)
        return as_kernels(closed, shared, batch)

    monkeypatch.setattr(members, "_on_processor", compile_kernel)
    jax.clear_caches()
    found = many(name)(K, X)
    monkeypatch.undo()
    jax.clear_caches()
    assert compiled
    for got, want in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13)


@pytest.mark.long
def test_what_a_graphics_processor_is_given(monkeypatch):
    """All of the motion in kernels, in the language of any graphics processor that is in use, where there is one."""

    def lowered():
        jax.clear_caches()
        return many("oscillator").trace(K, X).lower(lowering_platforms=("cuda",)).as_text()

    assert graphics.TARGET not in lowered()
    monkeypatch.setattr(members, "is_usable", lambda platform="cpu": True)
    text = lowered()
    jax.clear_caches()
    assert text.count(graphics.TARGET) >= 2 and "stablehlo.while" not in text
    assert f".target {graphics.OLDEST}" in text and ".visible .entry run(" in text


def test_remainders_are_exact():
    """Those of C's fmod, of numbers of all sizes: a graphics processor has no such instruction."""
    rng = np.random.default_rng(0)
    of_all_sizes = rng.integers(-(2**63), 2**63 - 1, (2, 2000)).view(float)
    angles = np.stack([100 * rng.normal(size=2000), np.full(2000, 2 * np.pi)])
    edges = [0.0, -0.0, 1.0, -1.5, 5e-324, -3e-310, 2.0**-1022, 1e308, np.inf, -np.inf, np.nan]
    x, y = np.concatenate([of_all_sizes, angles, np.reshape(np.meshgrid(edges, edges), (2, -1))], axis=1)
    closed = jax.make_jaxpr(lambda x, y: [jax.lax.rem(x, y)])(1.0, 1.0)
    (found,) = on_host(members.kernel_of(closed, (False, False)), x.size, [x, y], [(x.shape, x.dtype)], 3)
    with np.errstate(invalid="ignore"):
        exact = np.fmod(x, y)
    assert np.array_equal(found, exact, equal_nan=True)
    assert np.array_equal(np.signbit(found)[~np.isnan(exact)], np.signbit(exact)[~np.isnan(exact)])
