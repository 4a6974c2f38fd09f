"""Families of optimal strokes: closed forms, folds, and Purcell's swimmer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._control.families.branch import advance
from geodyn._control.search.failure import farthest_led

METHOD = gd.Direct(harmonics=2, steps=12)


class Plane(gd.bundles.AbstractInvariantMetric):
    """Cost |r'|² on the plane; displacement the integral of `1 − 2 fading (x² + y²)`, and with a tilt also of
    `tilt x − x³/3 − y²/2`."""

    fading: jax.Array
    tilt: jax.Array | None = None
    group: gd.groups.Translation = gd.groups.Translation(1)

    def quadratic_form(self, r, xi, rdot):
        x, y = r
        form = (1 - self.fading * (r @ r)) * (x * rdot[1] - y * rdot[0]) / 2
        if self.tilt is not None:
            form = form + (self.tilt * x**2 / 2 - x**4 / 12 - x * y**2 / 2) * rdot[1]
        return jnp.sum(rdot**2) + (xi[0] - form) ** 2


@pytest.mark.weekly
@pytest.mark.long
def test_closed_form_up_to_the_largest_displacement():
    """Circles of radius ρ: `D = π(ρ² − bρ⁴)`, `E = 4π²ρ²`. D is largest at ρ² = 1/2b, D²/E at ρ² = 1/3b."""
    b = 0.3  # measured 4e-16, and 2e-14 for the largest displacement, where the stroke is known to half the digits
    family = gd.stroke_family(Plane(jnp.array(b)), (0.0, 0.0), interval=(0.05, 5.0), method=METHOD)
    square = family.cost / (4 * np.pi**2)
    np.testing.assert_allclose(family.displacement, np.pi * (square - b * square**2), rtol=1e-12)
    np.testing.assert_allclose(family.displacement, family.parameter, rtol=1e-12)
    np.testing.assert_allclose(family.multiplier[:-1], 4 * np.pi / (1 - 2 * b * square[:-1]), rtol=1e-6)
    np.testing.assert_allclose(family.efficiency, family.displacement**2 / family.cost, rtol=1e-12)
    np.testing.assert_allclose(square[family.best], 1 / (3 * b), rtol=1e-11)
    assert family.end == gd.RESULTS.farthest and family.folds == ()
    np.testing.assert_allclose(family.parameter[-1], np.pi / (4 * b), rtol=1e-11)
    np.testing.assert_allclose(square[-1], 1 / (2 * b), rtol=1e-5)
    assert jnp.all(family.kkt_residual[:-1] < 1e-12) and jnp.all(family.second_order > 0)


@pytest.mark.long
@pytest.mark.parametrize("held", [{"bounds": ((-1.0, -1.0), (1.0, 1.0))}, {"rates": (np.inf, 2 * np.pi)}])
def test_a_family_ends_at_its_bounds(held):
    """Circles of radius 1 at most: `D = π(1 − b)`; one that feels the bounds from the start is refused."""
    given = {"interval": (0.05, 5.0), "method": METHOD} | held
    family = gd.stroke_family(Plane(jnp.array(0.3)), (0.0, 0.0), **given)
    assert family.end == gd.RESULTS.at_bounds
    assert 1.8 < family.displacement[-1] < np.pi * 0.7
    with pytest.raises(ValueError, match="the first stroke feels the bounds"):
        gd.stroke_family(Plane(jnp.array(0.3)), (0.0, 0.0), **given | {"interval": (2.2, 5.0)})


@pytest.mark.long
def test_what_cannot_be_reached_is_said():
    """With where the strokes fold back, π/4b = 2.617994 (to 1e-12: the law by which it is foreseen is exact
    here), after a few searches more; below the fold there is none; nothing computed is lost."""
    plane, start = Plane(jnp.array(0.3)), jnp.zeros(2)
    np.testing.assert_allclose(farthest_led(plane, start, 5.0, METHOD, gd.optimal_stroke)[1], np.pi / 1.2, rtol=1e-12)
    assert farthest_led(plane, start, 2.0, METHOD, gd.optimal_stroke) == (2.0, None)
    with pytest.raises(
        gd.StrokeError, match=r" of 5\.0; strokes around the shape .* lead no further than 2\.61799,"
    ) as info:
        gd.optimal_stroke(Plane(jnp.array(0.3)), (0.0, 0.0), displacement=5.0, method=METHOD)
    assert 0 < info.value.optimum.displacement < 5.0 and jnp.isfinite(info.value.optimum.cost)


@pytest.mark.long
def test_a_family_has_the_efficiency_of_its_drag():
    """That of `gd.efficiency` with the same drag; one that is no positive number is refused."""
    given = {"interval": (0.05, 5.0), "method": METHOD, "points": 3}
    family = gd.stroke_family(Plane(jnp.array(0.3)), (0.0, 0.0), drag=2.5, **given)
    np.testing.assert_allclose(family.efficiency, 2.5 * family.displacement**2 / family.cost, rtol=1e-12)
    with pytest.raises(ValueError, match=r"drag must be a positive number, got -1\.0"):
        gd.stroke_family(Plane(jnp.array(0.3)), (0.0, 0.0), drag=-1.0, **given)


@pytest.mark.long
def test_a_family_that_leads_nowhere_says_so():
    """The first circle, of radius 0.1267, fits into the bounds by 1 % of them, the next does not."""
    size = 0.129
    with pytest.raises(RuntimeError, match=r"no stroke was found beside the first, at 0\.05 .* reached the bounds"):
        bounds = (-size, -size), (size, size)
        gd.stroke_family(Plane(jnp.array(0.3)), (0.0, 0.0), interval=(0.05, 5.0), method=METHOD, bounds=bounds)


class TwoPlanes(gd.bundles.AbstractInvariantMetric):
    """Cost |r'|² in two planes; the displacement is the areas that are enclosed in them, D and D'. Circles are best,
    and E = 4π (|D| + |D'|)."""

    group: gd.groups.Translation = gd.groups.Translation(2)

    def quadratic_form(self, r, xi, rdot):
        areas = jnp.stack([r[0] * rdot[1] - r[1] * rdot[0], r[2] * rdot[3] - r[3] * rdot[2]]) / 2
        return jnp.sum(rdot**2) + jnp.sum((xi - areas) ** 2)


COMPONENTS = {
    "held": ({"displacement": [None, 0.2], "component": 0}, lambda D: (4 * np.pi * (D + 0.2), [1, 1], 0.2)),
    "free": ({"displacement": [0.1, None], "component": 0}, lambda D: (4 * np.pi * D, [1, 0], 0.0)),
    "others free": ({"component": 0}, lambda D: (4 * np.pi * D, [1, 0], 0.0)),
    "direction": ({"displacement": [1.0, None]}, lambda D: (4 * np.pi * D, [1, 0], 0.0)),
}


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.parametrize("name", COMPONENTS)
def test_a_family_in_one_component(name):
    """The other component stays where it is held, or is free and has no price."""
    given, law = COMPONENTS[name]
    cosine, sine = jnp.array([[0.2, 0.0, 0.25, 0.0]]).T, jnp.array([[0.0, 0.2, 0.0, 0.25]]).T
    start, method = gd.FourierStroke(jnp.zeros(4), cosine, sine), gd.Direct(harmonics=1, steps=6)
    family = gd.stroke_family(TwoPlanes(), start, interval=(0.1, 0.3), method=method, points=4, **given)
    E, prices, other = law(family.parameter)
    np.testing.assert_allclose(family.cost, E, rtol=1e-9)
    np.testing.assert_allclose(family.displacement, jnp.stack([family.parameter, 0 * E + other], axis=1), atol=1e-9)
    np.testing.assert_allclose(family.multiplier / (4 * np.pi), np.tile(prices, (len(E), 1)), atol=1e-6)
    tangents = gd.plot.family(family).lines[0].get_xydata()
    np.testing.assert_allclose(np.diff(tangents[:, 1]) / np.diff(tangents[:, 0]), 4 * np.pi, rtol=1e-6)


@pytest.mark.weekly
@pytest.mark.long
def test_a_family_along_a_found_symmetry():
    """A torus turns about its axis, as `gd.symmetries` finds from its metric alone: along the branch the multiplier is
    the slope of the cost, and strokes lead where they say, on finer steps too."""
    torus = gd.Manifold(lambda x: jnp.diag(jnp.stack([(2 + jnp.cos(x[1])) ** 2, jnp.ones_like(x[0])])), 2)
    body = gd.swimmers.TwoLegged(gd.symmetries(torus, [0.0, 0.3]).space)
    start = gd.FourierStroke.circle(0.2, centre=(0.8, 0.8))
    first = float(body.group.log(gd.holonomy(body, start))[0])
    method = gd.Direct(harmonics=4, steps=24)
    family = gd.stroke_family(body, start, interval=(first, 1.3 * first), component=0, points=4, method=method)
    assert family.end == gd.RESULTS.enough_points and jnp.all(family.second_order > 0)
    np.testing.assert_allclose(family.parameter[0], first, rtol=1e-10)
    assert family.parameter[-1] / first > 1.01
    slopes = family.multiplier[:, 0]
    by_trapezoids = np.diff(family.parameter) * (slopes[1:] + slopes[:-1]) / 2
    np.testing.assert_allclose(np.diff(family.cost), by_trapezoids, rtol=1e-7)
    last = family.stroke(-1)
    np.testing.assert_allclose(gd.cost(body, last, steps=96), family.cost[-1], rtol=1e-6)
    np.testing.assert_allclose(body.group.log(gd.holonomy(body, last, steps=96))[0], family.parameter[-1], rtol=1e-5)


@pytest.mark.long
def test_fold():
    """A maximum and a saddle of the curvature meet: for small loops of area D at tilt D/4π, by averaging over them."""
    D = 0.02  # measured 1 + 0.5 D
    family = gd.stroke_family(
        lambda tilt: Plane(0.0 * tilt, tilt), (0.4, 0.0), interval=(0.16, -0.1), displacement=D, method=METHOD
    )
    (fold,) = family.folds
    np.testing.assert_allclose(family.parameter[fold], D / (4 * np.pi), rtol=0.03)
    assert family.end == gd.RESULTS.end_of_interval and jnp.argmin(family.parameter) == fold
    np.testing.assert_allclose(family.parameter[jnp.array([0, -1])], 0.16, rtol=1e-13)
    np.testing.assert_allclose(family.displacement, D, rtol=1e-11)
    assert jnp.all(family.second_order[:fold] > 0) and jnp.all(family.second_order[fold + 1 :] < 0)
    assert jnp.all(family.kkt_residual < 1e-11)


@pytest.mark.weekly
@pytest.mark.long
def test_purcell():
    """The ends are the reference values of tests/test_strokes.py; 8 harmonics leave 3e-7. On to the largest
    displacement, where these steps tell phases apart; 9 harmonics on 54 steps find it at 0.31059669."""
    method = gd.Direct(harmonics=8, steps=40)
    family = gd.stroke_family(gd.swimmers.Purcell(), interval=(0.05, 0.1), method=method, step=0.3)
    ends = jnp.array([0, -1])
    np.testing.assert_allclose(family.cost[ends], [1.69213241672794, 3.89371688872341], rtol=1e-6)
    np.testing.assert_allclose(family.multiplier[ends], [38.7073648472, 49.6145032417], rtol=1e-5)
    np.testing.assert_allclose(gd.cost(gd.swimmers.Purcell(), family.stroke(1)), family.cost[1], rtol=1e-9)
    np.testing.assert_allclose(gd.efficiency(gd.swimmers.Purcell(), family.stroke(1)), family.efficiency[1], rtol=1e-9)
    assert jnp.all(family.second_order > 0) and jnp.all(family.kkt_residual < 1e-12)
    onwards = gd.stroke_family(gd.swimmers.Purcell(), family.stroke(-1), interval=(0.1, 1.0), method=method, step=0.5)
    assert onwards.end == gd.RESULTS.farthest
    np.testing.assert_allclose(onwards.displacement[-1], 0.31059669, rtol=1e-6)  # measured 3e-7


@pytest.mark.long
def test_interrupt_keeps_what_was_computed(monkeypatch):
    calls = []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return advance(*args)

    monkeypatch.setattr("geodyn._control.families.families.advance", interrupted)
    family = gd.stroke_family(Plane(jnp.array(0.3)), (0.0, 0.0), interval=(0.05, 5.0), method=METHOD)
    assert family.end == gd.RESULTS.interrupted and family.cost.shape == (3,)
    assert jnp.all(jnp.diff(family.parameter) > 0)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"interval": (0.0, 1.0)}, r"from 0 to 1, .*start at a small displacement"),
        ({"interval": (-0.1, 1.0)}, "no stroke is optimal at zero"),
        ({"interval": (1.0, 1.0)}, "two different numbers"),
        ({"interval": (0.1, 1.0), "points": 1}, "points of 2 at least"),
        ({"interval": (0.1, 1.0), "swimmer": lambda x: Plane()}, "needs displacement="),
        ({"interval": (0.1, 1.0), "component": 1}, "component must be one of the 1 of the displacement, got 1"),
        ({"interval": (-0.1, 1.0), "component": 0}, "no stroke is optimal at zero"),
        ({"interval": (0.1, 1.0), "component": 0, "displacement": 0.1}, "must be 1 coordinates, None for those"),
    ],
)
def test_bad_arguments_are_named(wrong, message):
    swimmer = wrong.pop("swimmer", Plane(jnp.array(0.3)))
    with pytest.raises(ValueError, match=message):
        gd.stroke_family(swimmer, (0.0, 0.0), **wrong)


@pytest.mark.long
def test_many_displacements_at_once():
    """By `vmap`, each with its own certificate: circles as above."""
    d = jnp.array([0.3, 0.6, 1.2])
    found = jax.vmap(lambda d: gd.optimal_stroke(Plane(jnp.array(0.3)), (0.0, 0.0), displacement=d, method=METHOD))(d)
    square = found.cost / (4 * np.pi**2)
    np.testing.assert_allclose(np.pi * (square - 0.3 * square**2), d, rtol=1e-10)
    assert jnp.all(found.kkt_residual < 1e-10) and jnp.all(found.second_order > 0)
