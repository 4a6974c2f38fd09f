"""Shortest paths of shapes with a given holonomy, against closed forms (case H07): circles in the plane and on S²."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case

import geodyn as gd

CASE = case("H07")
REFERENCE = {name: {key: float(x) for key, x in part.items()} for name, part in CASE["reference"].items()}
METHODS = {"direct": gd.Direct(harmonics=8, steps=32), "wong": gd.Wong(harmonics=8, steps=32)}
METHODS["descent"] = gd.Descent(harmonics=8, steps=32, tolerance=1e-9)


class Heisenberg(gd.AbstractConnection):
    """z' = (x y' − y x')/2."""

    group: gd.groups.Translation = gd.groups.Translation(1)

    def form(self, r):
        return jnp.stack([r[1], -r[0]])[None] / 2


class Monopole(gd.AbstractConnection):
    """Parallel transport on the unit sphere in stereographic coordinates: the curvature is the area."""

    group: gd.groups.SO2 = gd.groups.SO2()

    def form(self, r):
        return 2 * jnp.stack([r[1], -r[0]])[None] / (1 + r @ r)


def sphere(r):
    return 4 / (1 + r @ r) ** 2 * jnp.eye(2, dtype=r.dtype)


def radial_deviation(points):
    """Of points from the circle that fits them best, by least squares, over its radius."""
    rows = np.concatenate([2 * points, np.ones((len(points), 1))], axis=1)
    fit = np.linalg.lstsq(rows, np.sum(points**2, axis=1), rcond=None)[0]
    radius = np.sqrt(fit[2] + fit[:2] @ fit[:2])
    return np.max(np.abs(np.linalg.norm(points - fit[:2], axis=1) / radius - 1))


def shapes(found):
    return np.asarray(jax.vmap(found.stroke)(jnp.linspace(0, 1, 101)))


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_loop_through_the_origin(method):
    """(a) A circle. Their cost is half of ours. Measured 1e-14 (direct, wong), 1e-16 (descent)."""
    found = gd.optimal_stroke(gd.bundles.KaluzaKlein(Heisenberg()), displacement=0.5, base=(0.0, 0.0), method=method)
    np.testing.assert_allclose(found.cost / 2, REFERENCE["a"]["cost"], rtol=1e-9)
    np.testing.assert_allclose(jnp.sqrt(found.cost), REFERENCE["a"]["length"], rtol=1e-9)
    np.testing.assert_allclose(abs(found.charge[0]), REFERENCE["a"]["multiplier_abs"], rtol=1e-8)
    np.testing.assert_allclose(found.displacement, 0.5, rtol=1e-8)
    assert radial_deviation(shapes(found)) < 1e-6  # measured 1e-7, 16 Legendre terms
    assert found.second_order > 0


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_arc_between_two_points(method):
    """(b) From the straight way. `Wong` starts from a rough optimum."""
    ends = (np.array([0.0, 0.0]), np.array([1.0, 0.0]))
    options = {"displacement": 0.2, "ends": ends}
    guess = None
    if isinstance(method, gd.Wong):
        rough = gd.Direct(harmonics=8, steps=32, max_iterations=3)
        guess = gd.optimal_stroke(gd.bundles.KaluzaKlein(Heisenberg()), method=rough, throw=False, **options).stroke
    found = gd.optimal_stroke(gd.bundles.KaluzaKlein(Heisenberg()), guess, method=method, **options)
    np.testing.assert_allclose(found.cost / 2, REFERENCE["b"]["cost"], rtol=1e-9)
    np.testing.assert_allclose(abs(found.charge[0]), REFERENCE["b"]["curvature_times_speed"], rtol=1e-7)
    np.testing.assert_allclose(found.displacement, 0.2, rtol=1e-8)
    assert radial_deviation(shapes(found)) < 1e-6
    assert np.all(shapes(found)[1:-1, 1] < 0)  # below the chord


@pytest.mark.long
def test_loop_on_the_sphere():
    """(c) Holonomy 1.5 in SO(2), from an ellipse about no special point: a circle of latitude about some pole."""
    swimmer = gd.bundles.KaluzaKlein(Monopole(), sphere)
    guess = gd.FourierStroke([0.1, 0.05], [[0.4], [0.1]], [[0.0], [0.2]])
    found = gd.optimal_stroke(swimmer, guess, displacement=(1.5,), method=METHODS["direct"])
    np.testing.assert_allclose(jnp.sqrt(found.cost), REFERENCE["c"]["length"], rtol=1e-9)
    assert radial_deviation(shapes(found)) < 1e-4
    assert found.stats["flat"] == 3  # rotations of the sphere, one of which shifts the time


@pytest.mark.long
def test_gradient_of_the_cost():
    """The length with respect to the holonomy is the multiplier, and against central differences."""

    def cost(area):
        swimmer = gd.bundles.KaluzaKlein(Heisenberg())
        return gd.optimal_stroke(swimmer, displacement=area, base=(0.0, 0.0), method=METHODS["direct"]).cost

    slope = jax.grad(cost)(jnp.array(0.5))
    np.testing.assert_allclose(slope, 4 * np.pi, rtol=1e-9)
    np.testing.assert_allclose(slope, (cost(0.5001) - cost(0.4999)) / 2e-4, rtol=1e-6)
