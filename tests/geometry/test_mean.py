"""The mean of points: closed cases, and that Σ m log_c x vanishes, which the search does not look at."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd

POINTS = 0.25 * np.random.default_rng(0).normal(size=(5, 3))
WEIGHTS = np.array([1.0, 2.0, 0.5, 3.0, 0.0])
NIL_METRIC = gd.Manifold(lambda x: gd.spaces.Nil().metric(x), 3)
SPACES = {"H3": gd.spaces.Hyperbolic(3)}
LONG = {"S3": gd.spaces.Sphere(3), "S2xE": gd.spaces.THURSTON["S2xE"], "Nil": gd.spaces.Nil(), "NilMetric": NIL_METRIC}


def pull(space, c, points, weights):
    """Σ m log_c x / Σ m."""
    logs = np.stack([gd.log(space, c, x) for x in points])
    return weights @ logs / weights.sum()


def test_in_flat_space_it_is_the_centre_of_mass():
    """Also where coordinates are not Cartesian, and go round: (r, θ) with angles around π."""
    flat = gd.spaces.Euclidean(3)
    np.testing.assert_allclose(gd.mean_point(flat, POINTS, WEIGHTS), WEIGHTS @ POINTS / WEIGHTS.sum(), atol=1e-15)
    np.testing.assert_allclose(gd.mean_point(flat, POINTS), POINTS.mean(axis=0), atol=1e-15)
    polar = gd.spaces.Euclidean(2, "polar")
    r, angle = gd.mean_point(polar, [[1.0, 0.3], [1.0, 2 * np.pi - 0.3], [2.0, 0.0]])
    assert float(r) == pytest.approx((2 * np.cos(0.3) + 2) / 3, abs=1e-14)
    assert float(np.sin(angle)) == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("name", [*SPACES, *[pytest.param(name, marks=pytest.mark.long) for name in LONG]])
def test_the_mean_is_pulled_nowhere(name):
    """Seen: 2e-15; of a pair, the midpoint."""
    space = (SPACES | LONG)[name]
    c = gd.mean_point(space, POINTS, WEIGHTS)
    np.testing.assert_allclose(pull(space, c, POINTS, WEIGHTS), 0, atol=1e-14)
    first, second = POINTS[:2]
    middle = gd.exp(space, first, gd.log(space, first, second) / 2)
    np.testing.assert_allclose(gd.mean_point(space, [first, second]), middle, atol=1e-13)


@pytest.mark.long
def test_closed_cases():
    """Three points around the pole of S²; far apart in H², where a step that is right in flat space goes astray."""
    around = np.stack([[np.cos(a), np.sin(a)] for a in 2 * np.pi * np.arange(3) / 3 + 0.3])
    np.testing.assert_allclose(gd.mean_point(gd.spaces.Sphere(2), 0.7 * around), 0, atol=1e-15)
    np.testing.assert_allclose(gd.mean_point(gd.spaces.Hyperbolic(2), np.tanh(4.0) * around), 0, atol=1e-14)
    # On a geodesic it is the mean of the distances along it.
    along = np.array([0.0, 0.5, 5.0, -7.0])
    half_plane = gd.spaces.Hyperbolic(2, "halfspace")
    x, y = gd.mean_point(half_plane, np.stack([0 * along, np.exp(along)], axis=1))
    assert (float(x), float(np.log(y))) == pytest.approx((0, along.mean()), abs=1e-13)


@pytest.mark.parametrize("name", ["H3", pytest.param("NilMetric", marks=pytest.mark.long)])
def test_it_follows_points_weights_and_the_metric(name):
    """Against differences; the metric by a factor that depends on the place."""
    base = (SPACES | LONG)[name]

    @jax.jit
    def component(points, weights, bend):
        space = gd.Manifold(lambda x: (1 + bend * jnp.sin(x[0])) * base.metric(x), 3) if name == "NilMetric" else base
        return gd.mean_point(space, points, weights) @ jnp.array([1.0, 2.0, -1.0])

    # The weight 0 has no difference to both sides.
    given = jnp.asarray(POINTS), jnp.asarray(WEIGHTS + 0.5), jnp.asarray(0.1)
    slopes, h = jax.grad(component, (0, 1, 2))(*given), 1e-5
    for k, at in ((0, (1, 2)), (0, (3, 0)), (1, (1,)), (2, ())):
        if name == "H3" and k == 2:
            continue
        up, down = ([*given[:k], given[k].at[at].add(step), *given[k + 1 :]] for step in (h, -h))
        difference = (component(*up) - component(*down)) / (2 * h)
        assert float(slopes[k][at]) == pytest.approx(float(difference), abs=1e-9)


def test_points_close_together():
    """The last steps change the spread by less than its rounding. The mean is that of the coordinates, but for the
    square of the extent, 6e-15."""
    rng = np.random.default_rng(0)
    points = 0.3 * rng.uniform(-1, 1, size=(60, 1, 3)) + 1e-7 * rng.normal(size=(60, 5, 3))
    means = jax.jit(jax.vmap(lambda x: gd.mean_point(gd.spaces.Nil(), x)))(points)
    np.testing.assert_allclose(means, points.mean(axis=1), atol=1e-13)


@pytest.mark.long
def test_no_mean_has_no_derivative():
    """Antipodal points of a sphere are as far from a whole circle."""
    sphere, ends = gd.spaces.Sphere(2, "polar"), jnp.array([[np.pi / 2, 0.0], [np.pi / 2, np.pi]])
    with pytest.warns(UserWarning, match="nearer to each other"):
        assert np.isnan(gd.mean_point(sphere, ends)).all()
    slope = jax.jacobian(jax.jit(lambda ends: gd.mean_point(sphere, ends)))(ends)
    assert np.isnan(slope).all()
    # The first is stationary, but the others around it are so far that it is no minimum.
    around = 2.5 * np.array([[1.0, 0], [0, 1], [-1, 0], [0, -1]])
    space, pole = gd.spaces.Sphere(2), np.zeros(2)
    points = np.stack([pole, *[gd.exp(space, pole, v / 2) for v in around]])
    with pytest.warns(UserWarning, match="nearer to each other"):
        assert np.isnan(gd.mean_point(space, points, [1.0, 0.9, 0.9, 0.9, 0.9])).all()
    weighted = jax.jit(lambda m: gd.mean_point(gd.spaces.Sphere(2), POINTS[:, :2], m))
    assert np.isnan(weighted(-jnp.asarray(WEIGHTS))).all()


def test_refusals():
    sphere = gd.spaces.Sphere(3)
    for points in (POINTS[0], POINTS[:, :2], np.zeros((0, 3))):
        with pytest.raises(ValueError, match=r"points must have shape \[N, 3\]"):
            gd.mean_point(sphere, points)
    with pytest.raises(ValueError, match=r"points\[1\] = .* this chart has"):
        gd.mean_point(gd.spaces.Hyperbolic(3), [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="one number for each of the 5 points, got shape"):
        gd.mean_point(sphere, POINTS, [1.0, 2.0])
    for weights in (-WEIGHTS, 0 * WEIGHTS):
        with pytest.raises(ValueError, match="weights must be ≥ 0, finite, and one of them positive"):
            gd.mean_point(sphere, POINTS, weights)
