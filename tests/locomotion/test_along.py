"""The plane of a stroke, and the frame that a stroke disturbs least, for any number of shape variables."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd


def wave(count: int, amplitude: float, second: float = 0.0) -> gd.FourierStroke:
    """A wave that runs along the hinges, with a second harmonic out of its plane."""
    phases = 2 * np.pi * np.arange(count) / count
    cosine = np.stack([amplitude * np.cos(phases), second * np.cos(2 * phases)], axis=1)
    sine = np.stack([amplitude * np.sin(phases), second * np.sin(phases + 1)], axis=1)
    return gd.FourierStroke(np.linspace(0.0, 0.3, count), cosine, sine)


@pytest.mark.long
def test_over_a_square_it_is_the_frame_of_the_box():
    """Around a square the cone is the box of `minimum_perturbation`, whose nodes are on a grid: |A|², which a constant
    rotation of the frame leaves as it is, is the same there; measured 2e-8 of 1e-3 (of the corners of the quadrature),
    without the fit 0.4."""
    body = gd.swimmers.Purcell()
    square = gd.strokes.PolygonStroke([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    along = gd.bundles.minimum_perturbation_along(body, square, degree=4)
    box = gd.bundles.minimum_perturbation(body, [-1.0, -1.0], [1.0, 1.0], degree=4)
    shapes = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (30, 2)))

    @jax.jit
    def sizes(body):
        return jax.vmap(lambda r: jnp.sum(body.form(r) ** 2))(shapes)

    assert np.max(sizes(body)) > 0.1
    np.testing.assert_allclose(sizes(along), sizes(box), atol=1e-7)
    np.testing.assert_allclose(gd.bundles.flux(along, square), gd.bundles.flux(box, square), atol=1e-8)


@pytest.mark.long
@pytest.mark.parametrize(("second", "bound"), [(0.0, 0.01), (0.1, 0.02)], ids=["plane", "bent"])
def test_what_the_curvature_encloses_comes_near_the_displacement(second, bound):
    """A wave of five hinges that leads 0.25 lengths of a link away: in the body frame the estimate misses a third."""
    body, stroke = gd.swimmers.NLink([1.0] * 6), wave(5, 0.5, second)
    best = gd.bundles.minimum_perturbation_along(body, stroke, degree=3)
    errors = []
    for one in (body, best):
        moved = one.group.log(gd.holonomy(one, stroke))
        errors.append(float(jnp.linalg.norm(moved + gd.bundles.flux(one, stroke)) / jnp.linalg.norm(moved)))
    assert errors[0] > 0.3
    assert errors[1] < bound
    start = best.frame(stroke(0.0))
    seen = body.group.inverse(start) @ gd.holonomy(body, stroke) @ start
    np.testing.assert_allclose(gd.holonomy(best, stroke), seen, atol=1e-8)


@pytest.mark.long
def test_turned_shape_variables_do_not_matter():
    """The frame belongs to the stroke: of the same stroke in other orthonormal shape variables it is the same."""
    body, stroke = gd.swimmers.NLink([1.0] * 4), wave(3, 0.6, 0.1)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    other = gd.bundles.Reshaped(body, lambda y: jnp.asarray(turn) @ y)
    seen = gd.FourierStroke(turn.T @ stroke.mean, turn.T @ stroke.cosine, turn.T @ stroke.sine)
    one = gd.bundles.flux(gd.bundles.minimum_perturbation_along(body, stroke, degree=2), stroke)
    two = gd.bundles.flux(gd.bundles.minimum_perturbation_along(other, seen, degree=2), seen)
    np.testing.assert_allclose(jnp.linalg.norm(one[:2]), jnp.linalg.norm(two[:2]), rtol=1e-9)
    np.testing.assert_allclose(one[2], two[2], atol=1e-11)


@pytest.mark.long
def test_derivatives_are_those_of_the_fit():
    """Of the size of the estimate by the stroke, which turns the plane: against differences; measured 3e-8 of 1e-3."""
    body = gd.swimmers.NLink([1.0] * 4)
    bent = wave(3, 0.6, 0.1)

    @jax.jit
    def size(k):
        stroke = gd.FourierStroke(bent.mean, bent.cosine.at[2, 0].add(k).at[0, 1].add(k), bent.sine)
        return jnp.sum(
            gd.bundles.flux(gd.bundles.minimum_perturbation_along(body, stroke, degree=2), stroke, steps=16, rings=4)
            ** 2
        )

    step = 1e-4
    slope = (size(0.1 + step) - size(0.1 - step)) / (2 * step)
    assert abs(slope) > 1e-3
    np.testing.assert_allclose(jax.grad(size)(0.1), slope, rtol=1e-5)


def test_the_plane_of_a_stroke():
    """Against numpy's singular vectors of many shapes along it, also for a polygon, whose corners are no nodes."""
    for stroke in (wave(4, 0.5, 0.1), gd.strokes.PolygonStroke([[0.0, 0.0, 0.0], [2.0, 0.0, 0.1], [2.0, 1.0, 0.0]])):
        mean, directions = gd.strokes.principal_plane(stroke)
        shapes = np.asarray(jax.vmap(stroke)((jnp.arange(6000) + 0.5) / 6000))
        away = shapes - np.mean(shapes, axis=0)
        expected = np.linalg.svd(away, full_matrices=False)[2][:2]
        np.testing.assert_allclose(mean, np.mean(shapes, axis=0), atol=1e-5)
        np.testing.assert_allclose(directions.T @ directions, expected.T @ expected, atol=1e-5)
        widths = np.std(away @ directions.T, axis=0)
        assert widths[0] >= widths[1] * (1 - 1e-9)


def test_the_plane_has_derivatives_where_it_is_a_circle():
    """Both directions of a circle are alike; tilted by k out of the first two variables its normal is (0, −k, 1)."""

    def plane(k):
        directions = gd.strokes.principal_plane(
            gd.FourierStroke(jnp.zeros(3), [[1.0], [0.0], [0.0]], [[0.0], [1.0], [k]])
        )[1]
        return directions.T @ directions

    slope = jax.jacfwd(plane)(0.0)
    np.testing.assert_allclose(slope, [[0, 0, 0], [0, 0, 1], [0, 1, 0]], atol=1e-12)


def test_strokes_without_a_plane_are_refused():
    def line(t):
        return jnp.sin(2 * jnp.pi * t) * jnp.array([1.0, 2.0, 0.5])

    for function in (
        gd.strokes.principal_plane,
        lambda stroke: gd.bundles.minimum_perturbation_along(gd.swimmers.NLink([1.0] * 4), stroke, degree=1),
    ):
        with pytest.raises(ValueError, match="goes to and fro on a line"):
            function(line)
        with pytest.raises(ValueError, match="is not closed"):
            function(gd.strokes.OpenStroke(jnp.zeros(3), jnp.ones(3), jnp.ones((3, 1))))
        with pytest.raises(ValueError, match="two shape variables or more, got 1"):
            function(lambda t: jnp.sin(2 * jnp.pi * t)[None])
    assert np.isnan(jax.jit(lambda k: gd.strokes.principal_plane(lambda t: k * line(t))[1])(1.0)).all()


def test_frames_that_cannot_be_are_refused():
    circle = gd.FourierStroke.circle(0.5)
    for degree in (0, 200):
        with pytest.raises(ValueError, match="degree must be at least 1 and"):
            gd.bundles.minimum_perturbation_along(gd.swimmers.Purcell(), circle, degree=degree)
    with pytest.raises(ValueError, match="keep singular shapes of the body out of the cone"):
        gd.bundles.minimum_perturbation_along(gd.swimmers.KinematicSnake(), circle, degree=1)
