"""Three ways to the same strokes: Newton's method on the energy, Wong's equations, gradient flow."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import geodyn as gd
from geodyn._locomotion.strokes.stroke import shape_and_rate

BASE = {"base": (10.0, 4 * np.pi / 3), "displacement": 0.1}


def sizes(found):
    """Of the harmonics of both shape variables, free of phase, and with the two arms in order: free of reflections."""
    waves = jnp.abs(found.stroke.cosine - 1j * found.stroke.sine)
    return jnp.sort(waves, axis=0)


METHODS = {"direct": gd.Direct(), "wong": gd.Wong(), "descent": gd.Descent(tolerance=1e-7, max_iterations=600)}


class Strokes(dict):
    """Of Purcell's swimmer, by displacement and method, each from the same ellipse: those that are asked for."""

    def __missing__(self, case):
        displacement, name = case
        self[case] = gd.optimal_stroke(gd.swimmers.Purcell(), displacement=displacement, method=METHODS[name])
        return self[case]


@pytest.fixture(scope="module")
def strokes():
    return Strokes()


@pytest.mark.long
@pytest.mark.parametrize("displacement", [0.1, 0.2, 0.25])
def test_wong_agrees(strokes, displacement):
    """Measured E: 1e-12, 5e-11, 2e-10; shapes: 3e-8, 1e-6, 4e-6; second variation: 1e-9, 1e-8, 1e-8."""
    direct, wong = strokes[displacement, "direct"], strokes[displacement, "wong"]
    np.testing.assert_allclose(wong.cost, direct.cost, rtol=1e-8)
    np.testing.assert_allclose(wong.multiplier, direct.multiplier, rtol=1e-7)
    np.testing.assert_allclose(sizes(wong), sizes(direct), atol=1e-5)
    np.testing.assert_allclose(wong.second_order, direct.second_order, atol=1e-6)
    assert wong.kkt_residual < 1e-3  # its coefficients are those of another discretisation: measured 1e-4
    assert wong.stats["flat"] == 1


@pytest.mark.long
def test_wongs_tolerance_is_of_the_kkt_residual(strokes):
    """What too few harmonics leave, 7e-6 at 0.1, is a success up to `tolerance`, and beyond it none."""
    good = strokes[0.1, "wong"]
    assert good.result == gd.RESULTS.successful and 1e-6 < good.kkt_residual < gd.Wong().tolerance
    given = {"displacement": 0.1, "method": gd.Wong(tolerance=1e-6)}
    found = gd.optimal_stroke(gd.swimmers.Purcell(), good.stroke, throw=False, **given)
    assert found.result == gd.RESULTS.too_few_harmonics and 1e-6 < found.kkt_residual < 1e-4
    with pytest.raises(gd.StrokeError, match=r"too few harmonics= .*KKT residual .*e-06 after"):
        gd.optimal_stroke(gd.swimmers.Purcell(), good.stroke, **given)


@pytest.mark.long
@pytest.mark.parametrize("displacement", [0.1, 0.2])
def test_descent_agrees(strokes, displacement):
    direct, descent = strokes[displacement, "direct"], strokes[displacement, "descent"]
    np.testing.assert_allclose(descent.cost, direct.cost, rtol=1e-8)
    np.testing.assert_allclose(sizes(descent), sizes(direct), atol=1e-5)
    assert descent.kkt_residual < 1.1e-7


@pytest.mark.long
def test_an_optimal_stroke_is_a_motion_of_wongs_system(strokes):
    """Integrated from its start with its charge, shape and momentum come back and the holonomy is reached. Measured
    2e-5: what 16 harmonics leave of the first rate."""
    found = strokes[0.1, "wong"]
    system = gd.strokes.WongSystem(found.swimmer)
    state = system.state(*shape_and_rate(found.stroke, 0.0), found.charge)
    end = gd.integrate(system, state, t1=1.0, steps=64, method=gd.Gauss(4), save_every=64).q[-1]
    (r0, p0, _, _), (r, p, _, g) = system.split(state), system.split(end)
    np.testing.assert_allclose(r, r0, atol=1e-4)
    np.testing.assert_allclose(p, p0, atol=1e-4)
    moved = found.swimmer.group.log(g)
    np.testing.assert_allclose([jnp.hypot(moved[0], moved[1]), moved[2]], [0.1, 0.0], atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("displacement, least", [(0.1, 0.2), (0.2, 0.1)])
def test_wongs_equations_hold_ever_better(strokes, displacement, least):
    """The residual of the direct optimum falls spectrally with the harmonics, by `least` decades each."""
    few = gd.optimal_stroke(gd.swimmers.Purcell(), displacement=displacement, method=gd.Direct(harmonics=6, steps=32))
    fall = np.log10(few.wong_residual / strokes[displacement, "direct"].wong_residual) / 10
    assert fall > least, fall


@pytest.mark.long
def test_pmpy_through_a_point():
    """Reference as in test_strokes; by Wong's equations see test_isoholonomic. Measured E: 2e-8, at a KKT residual of
    1e-7."""
    found = gd.optimal_stroke(gd.swimmers.PushMePullYou(), method=gd.Descent(steps=48, tolerance=1e-7), **BASE)
    np.testing.assert_allclose(found.cost, 67.5480568226558, rtol=1e-7)
    np.testing.assert_allclose(found.multiplier, 576.59419946, rtol=1e-6)
    assert found.second_order > 0


@pytest.mark.long
def test_descent_in_the_plain_metric_is_slower():
    """As in the thesis, whose 10⁶ steps did not converge; and with another optimiser of optax."""
    plain, heavy = (
        gd.optimal_stroke(
            gd.swimmers.PushMePullYou(), method=gd.Descent(8, 24, max_iterations=200, **options), throw=False, **BASE
        )
        for options in ({"natural": False}, {"optimiser": optax.sgd(0.5, momentum=0.5)})
    )
    assert plain.result == gd.RESULTS.too_many_iterations
    assert plain.kkt_residual > 100 * heavy.kkt_residual
    assert abs(plain.displacement - 0.1) < 1e-6


@pytest.mark.parametrize("method", [gd.Wong(), gd.Descent()])
def test_bounds_need_direct(method):
    with pytest.raises(ValueError, match=r"knows no bounds; leave bounds= and rates= out, or take gd\.Direct\(\)"):
        gd.optimal_stroke(gd.swimmers.Purcell(), displacement=0.1, bounds=((-2.0, -2.0), (2.0, 2.0)), method=method)


@pytest.mark.weekly
@pytest.mark.long
def test_a_displacement_in_all_coordinates():
    """Where it leads, and by how much the energy grows, from an integration with ten times the steps and from energies
    nearby; SciPy's SLSQP on other coefficients, integrated by the midpoint rule, finds 1.37796 as the cheapest of 5
    optima from 8 random starts. Bounds that are not felt change nothing; others cost energy, and lead from strokes that
    keep between them."""
    swimmer, target, method = gd.swimmers.Purcell(), np.array([0.05, 0.0, 0.1]), gd.Direct(4, 12)

    def within(size):
        return {"method": method, "bounds": ((-size, -size), (size, size))}

    found = gd.optimal_stroke(swimmer, (0.3, 0.2), displacement=target, **within(2.5))
    reached = swimmer.group.log(gd.holonomy(swimmer, found.stroke, steps=256))
    np.testing.assert_allclose(reached, target, atol=1e-4)
    np.testing.assert_allclose(found.cost, 1.37796, rtol=3e-3)
    assert found.kkt_residual < 1e-10 and found.second_order > 0
    further = gd.optimal_stroke(swimmer, found.stroke, displacement=1.001 * target, **within(2.5))
    np.testing.assert_allclose((further.cost - found.cost) / 1e-3, found.multiplier @ target, rtol=1e-2)
    with pytest.raises(ValueError, match=r"none of 32 strokes .* the nearest misses by .* %\. Pass guess="):
        gd.optimal_stroke(swimmer, (0.3, 0.2), displacement=(0.0, 9.0, 0.5), **within(2.5))
    tight = gd.optimal_stroke(swimmer, (0.3, 0.2), displacement=target, **within(1.5))
    assert jnp.max(jnp.abs(jax.vmap(tight.stroke)(jnp.arange(100) / 100))) < 1.51 and tight.cost > 1.1 * found.cost
    assert tight.kkt_residual < 1e-10


@pytest.mark.weekly
@pytest.mark.long
def test_a_turn_on_the_spot():
    """Of a car. The small ellipse turns it, but takes it a hair forwards as well, and it is so symmetric that no small
    change of it takes the car back: another stroke does. The cheapest way ahead has the front wheels across."""
    car, method = gd.bundles.KaluzaKlein(gd.swimmers.KinematicCar()), gd.Direct(4, 24)
    asked = {"base": (0.0, 0.0), "method": method}
    found = gd.optimal_stroke(car, displacement=(0.0, 0.0, 0.1), **asked)
    reached = car.group.log(gd.holonomy(car, found.stroke, steps=256))
    np.testing.assert_allclose(reached, [0.0, 0.0, 0.1], atol=1e-8)
    np.testing.assert_allclose(found.cost, 1.87482, rtol=5e-3)  # that of 8 and of 12 harmonics; measured 3e-3
    assert found.kkt_residual < 1e-10 and found.second_order > 0
    with pytest.raises(
        gd.StrokeError, match=r"singular, or not defined, near its shape \[.*, -?1\.57\d*\].*bounds= that"
    ):
        gd.optimal_stroke(car, displacement=(0.05, 0.0, 0.0), **asked)


class Shear(gd.bundles.AbstractInvariantMetric):
    """Cost |r'|² on the plane; moves by the area that is enclosed, never aside."""

    group: gd.groups.Translation = gd.groups.Translation(2)

    def quadratic_form(self, r, xi, rdot):
        form = jnp.stack([(r[0] * rdot[1] - r[1] * rdot[0]) / 2, 0 * r[0]])
        return jnp.sum(rdot**2) + jnp.sum((xi - form) ** 2)


@pytest.mark.long
def test_descent_where_a_symmetry_keeps_a_constraint():
    """The circle, `E = 4π D`."""
    found = gd.optimal_stroke(Shear(), (0.0, 0.0), displacement=(0.3, 0.0), method=gd.Descent(harmonics=1, steps=8))
    np.testing.assert_allclose(found.cost, 4 * np.pi * 0.3, rtol=1e-9)  # measured 5e-14
