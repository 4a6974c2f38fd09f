"""Points outside of their chart, numbers that are none, and matrices that are no rotations: refused by name outside of
jit, NaN in value and derivative inside."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd

BALL, SPHERE = gd.spaces.Hyperbolic(2), gd.spaces.Sphere(2)
OUT, IN, THIRD = [1.2, 0.0], [0.1, 0.2], [0.3, -0.2]
OF_A_POINT = {
    "distance": lambda space, x: gd.distance(space, x, IN),
    "back": lambda space, x: gd.distance(space, IN, x),
    "log": lambda space, x: gd.log(space, x, IN)[0],
    "exp": lambda space, x: gd.exp(space, x, IN)[0],
    "geodesic": lambda space, x: gd.geodesic(space, x, IN, [1.0])[1][0, 0],
    "inner": lambda space, x: gd.inner(space, x, IN, IN),
    "area": lambda space, x: gd.cells.area(space, x, IN, THIRD),
    "angle": lambda space, x: gd.cells.angle(space, IN, x, THIRD),
    "curvature": gd.scalar_curvature,
}


@pytest.mark.parametrize("name", OF_A_POINT)
def test_points_outside_of_the_chart(name):
    """In the Poincaré ball (1.2, 0) is no point; `log`, `exp`, areas and curvatures answered."""
    function = OF_A_POINT[name]
    with pytest.raises(ValueError, match=r"\[1.2, 0.0\] is no point of Hyperbolic: this chart has \|x\| < 1"):
        function(BALL, OUT)
    with pytest.raises(ValueError, match="must be finite"):
        function(BALL, [np.nan, 0.1])
    found = jax.jit(jax.value_and_grad(lambda x: function(BALL, x)))(jnp.array(OUT))
    assert all(np.all(np.isnan(x)) for x in found)


@pytest.mark.parametrize("name", ["distance", "area", "angle"])
def test_nan_stays_nan(name):
    """On the sphere the distance from (NaN, 0.1) was π, with the derivative 0."""
    found = jax.jit(jax.value_and_grad(lambda x: OF_A_POINT[name](SPHERE, x)))(jnp.array([np.nan, 0.1]))
    assert all(np.all(np.isnan(x)) for x in found)


def test_bodies_are_not_built_outside():
    for build in (gd.builders.rod, lambda *args, **keywords: gd.builders.chain(args[0], 3, args[1], **keywords)):
        with pytest.raises(ValueError, match=r"centre = .* is no point"):
            build(BALL, 0.1, centre=OUT)


@pytest.mark.parametrize("chart, x, v", [("ball", [0.0, 0.0], [20.0, 0.0]), ("halfspace", [0.0, 1.0], [0.0, -800.0])])
def test_where_a_chart_has_no_digits_left(chart, x, v):
    """At the distance 40 the last point before the boundary of the ball is passed: |y| > 1 was returned."""
    with pytest.warns(UserWarning, match="only the chart 'polar' has digits left"):
        y = gd.exp(gd.spaces.Hyperbolic(2, chart), x, v)
    assert np.all(np.isnan(y))
    with pytest.warns(UserWarning, match="only the chart 'polar' has digits left"):
        _, velocities = gd.geodesic(gd.spaces.Hyperbolic(2, chart), x, v, [0.1, 1.0])
    assert np.array_equal(np.isnan(velocities), [[False] * 2, [True] * 2])


@pytest.mark.parametrize("distance", [36.5, 38.0, 45.0, 300.0])
@pytest.mark.parametrize("direction", [0.0, 1.0, 4.0])
def test_what_is_rounded_into_the_ball_is_no_point(distance, direction):
    """Some directions were rounded to |y| = 1 − 1e-16, whatever the distance: 37.4 for 45."""
    v = distance / 2 * np.array([np.cos(direction), np.sin(direction)])
    with pytest.warns(UserWarning, match="has digits left"):
        assert np.all(np.isnan(gd.exp(BALL, [0.0, 0.0], v)))


@pytest.mark.parametrize("x", [[0.0, 0.0], [0.3, -0.5]])
def test_the_last_points_of_the_ball(x):
    for direction in np.arange(8.0):
        v = np.array([np.cos(direction), np.sin(direction)])
        v *= 33.0 / gd.norm(BALL, x, v)
        assert gd.distance(BALL, x, gd.exp(BALL, x, v)) == pytest.approx(33.0, abs=0.1)


def test_what_is_no_rotation():
    for matrix in (np.zeros((3, 3)), -np.eye(3), 2 * np.eye(3)):
        with pytest.raises(ValueError, match="must be a rotation"):
            gd.groups.quaternion(matrix)
        with pytest.raises(ValueError, match="must be a rotation"):
            gd.groups.SO3().log(jnp.asarray(matrix))
        assert np.all(np.isnan(jax.jit(gd.groups.SO3().log)(jnp.asarray(matrix))))
    with pytest.raises(ValueError, match=r"rotation must be a rotation matrix \[3, 3\], got shape \(3,\)"):
        gd.groups.quaternion([0.0, 0.0, 0.1])


def test_shapes_of_vectors():
    for xi in ([1.0, 2.0], [1.0, 2.0, 3.0, 4.0]):
        with pytest.raises(ValueError, match=r"xi must have shape \(3,\)"):
            gd.groups.SE2().exp(xi)
    with pytest.raises(ValueError, match=r"x must have shape \(2,\)"):
        SPHERE.embed(jnp.zeros(3))
    with pytest.raises(ValueError, match=r"got a Manifold.*gd.symmetries\(space, x\) finds them"):
        gd.groups.isometry_group(gd.Manifold(lambda x: jnp.eye(2), dim=2))
    with pytest.raises(ValueError, match=r"write them as one gd.spaces.Euclidean\(n\)"):
        gd.groups.isometry_group(gd.spaces.Product(gd.spaces.Euclidean(2), gd.spaces.Euclidean(1)))


def test_a_skew_metric_measures_nothing():
    skew = gd.Manifold(lambda x: jnp.array([[1.0, 0.5], [0.0, 1.0]]), dim=2)
    for measure in (gd.distance, gd.log, lambda space, x, y: gd.inner(space, x, y, y)):
        with pytest.raises(ValueError, match="must be symmetric"):
            measure(skew, IN, THIRD)


def test_a_declared_signature_is_not_asked_for_again():
    lorentz = gd.Manifold(lambda x: jnp.diag(jnp.array([1.0, -1.0])), dim=2, signature=(1, 1))
    with pytest.raises(ValueError, match="dynamics needs a positive definite one"):
        gd.integrate(gd.System(lorentz, [1.0]), [[0.0, 0.0]], [[1.0, 0.0]], t1=1.0, steps=3)


def test_points_of_two_precisions():
    """The derivative along a geodesic was an error from inside."""
    x, v = jnp.array([0.1, 0.2], jnp.float32), jnp.array([0.3, 0.1], jnp.float64)
    for space in (BALL, SPHERE):
        there, _ = gd.geodesic(space, x, v, [0.5])
        np.testing.assert_allclose(there[0], gd.exp(space, x, v / 2), rtol=1e-6)
        assert gd.exp(space, x, v).dtype == gd.log(space, v, x).dtype == v.dtype
