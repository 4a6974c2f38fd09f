"""Statistics computed chunk by chunk are those of numpy for all members at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd

X = np.random.default_rng(0).normal(size=(101, 3)) * [1.0, 1e-3, 1.0] + [0.0, 1e6, 5.0]
MEAN, HISTOGRAM, QUANTILES = gd.ensembles.Mean, gd.ensembles.Histogram, gd.ensembles.Quantiles


def itself(x):
    return x


@pytest.mark.parametrize("chunk", [101, 10, 1])
def test_mean(chunk):
    """The deviation 1e-3 beside the mean 1e6 needs the joined squares; those of E[x²] − E[x]² would have no digit."""
    found = gd.ensemble(itself, X, reduce=MEAN(), chunk=chunk).reduced
    np.testing.assert_allclose(found.mean, X.mean(0), rtol=1e-13)
    np.testing.assert_allclose(found.std, X.std(0, ddof=1), rtol=1e-6)
    assert found.count == 101


@pytest.mark.long
def test_mean_of_a_gradient():
    """As learning needs it: the gradient of a mean loss through trajectories, none of which is kept."""

    def loss(k, q):
        spring = gd.Lagrangian(lambda q, v: 0.5 * v @ v - 0.5 * k * q @ q)
        return (gd.integrate(spring, q, [0.0], t1=1.0, steps=4).q[-1, 0] - 0.3) ** 2

    q = np.linspace(0.5, 1.5, 12)[:, None]
    found = gd.ensemble(lambda q: jax.value_and_grad(loss)(2.0, q), q, reduce=MEAN(), chunk=5).reduced.mean
    want = jax.jit(jax.value_and_grad(lambda k: jnp.mean(jax.vmap(lambda q: loss(k, q))(q))))(2.0)
    np.testing.assert_allclose(found, want, rtol=1e-12)


def test_mean_of_too_few():
    one = gd.ensemble(itself, X[:1], reduce=MEAN()).reduced
    assert np.isnan(one.std).all() and np.array_equal(one.mean, X[0])
    none = gd.ensemble(lambda x: x / 0.0, X[:2] * 0, reduce=MEAN()).reduced
    assert none.count == 0 and np.isnan(none.mean).all()


def test_histogram():
    edges = [-1.0, 0.0, 0.5, 5.0]
    found = gd.ensemble(itself, X, reduce=HISTOGRAM(edges, of=lambda x: x[jnp.array([0, 2])]), chunk=10).reduced
    for i, x in enumerate(X[:, [0, 2]].T):
        np.testing.assert_array_equal(found.inside[i], np.histogram(x[x < 5.0], edges)[0])
        assert (found.below[i], found.above[i]) == ((x < -1).sum(), (x >= 5).sum())


def test_quantiles():
    """To within a bin; what lies outside is said to."""
    wanted, x = [0.1, 0.5, 0.9], X[:, 2]
    found = gd.ensemble(lambda x: x[2], X, reduce=QUANTILES(wanted, 0.0, 10.0, bins=500), chunk=10).reduced
    exact = np.quantile(x, wanted, method="inverted_cdf")
    np.testing.assert_allclose(found, exact, atol=2 * 10 / 500)
    cut = gd.ensemble(lambda x: x[2], X, reduce=QUANTILES(wanted, x.min() + 1.8, x.max() - 1.8)).reduced
    assert cut[0] == -np.inf and np.isfinite(cut[1]) and cut[2] == np.inf
    assert gd.ensemble(itself, X, reduce=QUANTILES(0.5, 0.0, 10.0)).reduced.shape == (3,)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HISTOGRAM([1.0, 0.0]), r"edges must be at least two increasing numbers, got"),
        (lambda: HISTOGRAM([1.0]), r"edges must be at least two"),
        (lambda: HISTOGRAM("ab"), r"edges must be real numbers"),
        (lambda: QUANTILES(1.5, 0.0, 1.0), r"probabilities must lie in \[0, 1\], got 1\.5"),
        (lambda: QUANTILES(0.5, 1.0, 1.0), r"low must be smaller than high, got 1\.0 and 1\.0"),
        (lambda: QUANTILES(0.5, 0.0, 1.0, bins=0), r"bins must be a positive whole number, got 0"),
    ],
)
def test_wrong_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_moments_are_shown_with_their_numbers():
    shown = repr(gd.ensembles.Moments(np.array(3), np.array(1.25), np.array(0.5)))
    assert "3" in shown and "1.25" in shown and "0.5" in shown
