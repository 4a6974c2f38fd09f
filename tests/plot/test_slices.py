"""The curvature on the plane of a stroke."""

import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd

LINKS = gd.swimmers.NLink([1.0, 0.8, 1.1, 0.9])
BENT = gd.FourierStroke([0.1, 0.2, -0.1], [[0.5, 0.0], [0.1, 0.05], [0.0, 0.1]], [[0.0, 0.0], [0.4, 0.0], [0.3, 0.1]])


def corners(figure):
    """The values of the three pictures where both coordinates are largest."""
    return [ax.collections[0].get_array().reshape(81, 81)[-1, -1] for ax in figure.axes[:3]]


def expected(body, figure):
    mean, directions = gd.strokes.principal_plane(BENT)
    reach = jnp.array([figure.axes[0].get_xlim()[1], figure.axes[0].get_ylim()[1]])
    F = gd.curvature(body, mean + reach @ directions)
    return jnp.einsum("i,aij,j->a", directions[0], F, directions[1])


@pytest.mark.long
def test_curvature_on_the_plane_of_a_stroke():
    """Both directions of the plane put into the whole F, at the shape that stands in the corner of the picture; and the
    shadow of the stroke lies inside."""
    figure = gd.plot.height_functions_along(LINKS, BENT)
    np.testing.assert_allclose(corners(figure), expected(LINKS, figure), rtol=1e-9)
    mean, directions = gd.strokes.principal_plane(BENT)
    drawn = np.stack(figure.axes[0].lines[0].get_data(), axis=1)
    np.testing.assert_allclose(drawn[64], directions @ (BENT(0.25) - mean), atol=1e-12)
    low, high = figure.axes[0].get_xlim()
    assert low < drawn[:, 0].min() and drawn[:, 0].max() < high


@pytest.mark.long
def test_the_other_frame():
    best = gd.bundles.minimum_perturbation_along(LINKS, BENT, degree=2)
    figure = gd.plot.height_functions_along(LINKS, BENT, frame="minimum perturbation", degree=2)
    np.testing.assert_allclose(corners(figure), expected(best, figure), rtol=1e-9)
    assert "minimum perturbation" in figure.get_suptitle()


def test_other_frames_are_refused():
    with pytest.raises(ValueError, match="frame must be one of 'body', 'minimum perturbation'; got 'world'"):
        gd.plot.height_functions_along(LINKS, BENT, frame="world")
