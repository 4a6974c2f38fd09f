"""Coordinates that come round: the geodesic goes to the nearest image, for everything that measures distances."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._scenarios.scenario import read_scenario

TURN = 2 * np.pi


def torus(x):
    return jnp.diag(jnp.stack([jnp.ones_like(x[0]), (2 + jnp.cos(x[0])) ** 2]))


def embedding(x):
    radius = 2 + jnp.cos(x[0])
    return jnp.stack([radius * jnp.cos(x[1]), radius * jnp.sin(x[1]), jnp.sin(x[0])])


class OwnTorus(gd.AbstractManifold):
    dim: int = eqx.field(static=True, default=2)
    period = (TURN, TURN)

    def metric(self, x):
        return torus(x)


class Cylinder(gd.AbstractManifold):
    dim: int = eqx.field(static=True, default=2)
    period: ClassVar[tuple] = (None, TURN)

    def metric(self, x):
        return jnp.diag(jnp.array([1.0, 4.0]))

    def squared_distance(self, x, y):
        return (x[0] - y[0]) ** 2 + 4 * (x[1] - y[1]) ** 2


PLAIN, TORUS = gd.Manifold(torus, 2), gd.Manifold(torus, 2, period=(TURN, TURN))
SPACES = {
    "Manifold": TORUS,
    "AbstractManifold": OwnTorus(),
    "Conformal": gd.spaces.Conformal(lambda x: 1 + 0 * x[0], TORUS),
    "Embedded": gd.spaces.Embedded(embedding, 3, 2, period=(TURN, TURN)),
}
X, Y = jnp.array([0.1, 0.1]), jnp.array([TURN - 0.1, TURN - 0.1])


@pytest.mark.long
@pytest.mark.parametrize("name", SPACES)
def test_the_nearest_image(name):
    """Distance and log across the seam and some turns further are those to (−0.1, −0.1): 1e-12; measured 2e-15."""
    both = eqx.filter_jit(lambda space, x, y: (gd.distance(space, x, y), gd.log(space, x, y)))
    length, v = both(PLAIN, X, Y - TURN)
    for there in (Y, Y + jnp.array([-2 * TURN, 5 * TURN])):
        found = both(SPACES[name], X, there)
        np.testing.assert_allclose(found[0], length, rtol=1e-12)
        np.testing.assert_allclose(found[1], v, rtol=1e-12)


def test_the_nearest_image_of_an_oblique_torus():
    """It need not be the nearest in coordinates: (0.45 − 1, 0.45), not (0.45, 0.45)."""
    oblique = gd.Manifold(lambda x: jnp.array([[1.0, 0.9], [0.9, 1.0]]), 2, period=(1, 1))
    wanted = np.sqrt(0.55**2 + 0.45**2 - 1.8 * 0.55 * 0.45)
    np.testing.assert_allclose(gd.distance(oblique, [0.0, 0.0], [0.45, 0.45]), wanted, rtol=1e-12)


@pytest.mark.long
def test_springs_contacts_and_products_see_it():
    q = jnp.stack([X, Y])
    length = gd.distance(PLAIN, X, Y - TURN)
    np.testing.assert_allclose(gd.Spring([(0, 1)], 2.0, 0.2).energy(TORUS, q), (length - 0.2) ** 2, rtol=1e-12)
    np.testing.assert_allclose(gd.Contact(0.1).gap(TORUS, q), [length - 0.2], rtol=1e-12)
    product = gd.spaces.Product(TORUS, gd.spaces.Euclidean(1))
    np.testing.assert_allclose(gd.distance(product, [*X, 0.0], [*Y, 0.0]), length, rtol=1e-12)


def test_own_distances_have_images_too():
    np.testing.assert_allclose(gd.distance(Cylinder(), [0.0, 0.1], [0.3, TURN - 0.1]), 0.5, rtol=1e-12)
    gd.check_manifold(Cylinder(), [0.0, 0.1])


@pytest.mark.long
def test_far_discs_are_far():
    """Twenty discs all over the torus, many of them beyond conjugate points of each other: gaps and their gradients are
    finite, no longer than the chart's segments, and exact where discs are near."""
    x = np.stack(np.meshgrid(np.arange(5) * TURN / 5, np.arange(4) * TURN / 4), -1).reshape(-1, 2) + 0.1
    discs, x = gd.Contact(0.15), jnp.asarray(x)
    gaps, pull = eqx.filter_jit(lambda x: jax.vjp(lambda x: discs.gap(TORUS, x), x))(x)
    assert jnp.all(jnp.isfinite(gaps)) and jnp.all(gaps > 0) and jnp.all(jnp.isfinite(pull(jnp.ones_like(gaps))[0]))
    pairs = discs.pairs_of(x)
    inner = [k for k, (i, j) in enumerate(pairs) if x[i, 0] == x[j, 0] == x[2, 0] and j - i == 5]  # around the hole
    np.testing.assert_allclose(gaps[inner[0]], gd.distance(PLAIN, *x[pairs[inner[0]]]) - 0.3, rtol=1e-12)


def test_periods_that_are_none():
    with pytest.raises(ValueError, match=r"period must be 2 positive numbers, one for each coordinate.*\(1.0,\)"):
        gd.Manifold(torus, 2, period=(1.0,))
    with pytest.raises(ValueError, match="period must be 2 positive numbers"):
        gd.spaces.Embedded(embedding, 3, 2, period=(TURN, -1.0))
    with pytest.raises(ValueError, match=r"the metric is not the same a period further: period\[0\] is 3.0"):
        gd.check_manifold(gd.Manifold(torus, 2, period=(3.0, None)), X)


def test_a_scenario_may_say_its_period(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = '[space]\nmetric = "test_periodic:torus"\ndim = 2\nperiod = [6.5, inf]\n'
    rest = "[body]\nmasses = [1.0]\npositions = [[0.0, 0.0]]\n[time]\nt1 = 1.0\nsteps = 10\n"
    (tmp_path / "torus.toml").write_text(space + rest)
    assert read_scenario("torus.toml").system.space.period == (6.5, np.inf)
    (tmp_path / "torus.toml").write_text(space.replace('metric = "test_periodic:torus"', 'name = "sphere"') + rest)
    with pytest.raises(ValueError, match="'period' goes with 'metric'"):
        read_scenario("torus.toml")
