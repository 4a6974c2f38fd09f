"""The best drive of swimmers with passive hinges: certificates, against the periodic motion that the drive makes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd

SETTINGS = gd.Direct(harmonics=12, steps=48)


def tail(stiffness=1.0):
    return gd.swimmers.Passive(gd.swimmers.Purcell(), hinges=[1], stiffness=stiffness)


def best(displacement=0.02, stiffness=1.0, period=6.0, guess=None, **options):
    options = {"method": SETTINGS, **options}
    return gd.optimal_stroke(tail(stiffness), guess, displacement=displacement, period=period, **options)


def length(group, g):
    return jnp.linalg.norm(group.log(g)[:2])


def test_the_drive_makes_the_motion():
    """`gd.periodic_motion`, which knows of no optimum and has other unknowns, finds the same motion for the drive, to
    3e-6; it does not turn, and moves the body as far at the same cost."""
    optimum = best()
    body = optimum.swimmer
    motion = gd.periodic_motion(body, lambda t: optimum.stroke(t)[:1], 6.0)
    times = jnp.linspace(0.0, 1.0, 65)
    np.testing.assert_allclose(jax.vmap(optimum.stroke)(times), jax.vmap(motion.stroke)(times), atol=2e-5)
    assert float(length(body.group, motion.displacement)) == pytest.approx(0.02, rel=1e-5)
    assert float(6.0 * motion.cost) == pytest.approx(float(optimum.cost), rel=1e-5)
    assert bool(motion.stable)


@pytest.mark.long
def test_other_strokes_cost_what_they_should():
    """A stroke all of whose shapes are driven costs less, and each drive of one harmonic that goes as far more."""
    optimum = best()
    body = optimum.swimmer
    assert float(optimum.kkt_residual) < 1e-10
    assert float(optimum.wong_residual) < 2e-3
    assert float(optimum.second_order) > 0
    assert float(gd.optimal_stroke(body, displacement=0.02, method=SETTINGS).cost) < 0.9 * float(optimum.cost)
    amplitude = jnp.asarray(0.8)

    def moved(amplitude):
        drive = gd.FourierStroke(jnp.zeros(1), jnp.zeros((1, 1)), amplitude.reshape(1, 1))
        there = gd.periodic_motion(body, drive, 6.0)
        return length(body.group, there.displacement), 6.0 * there.cost

    for _ in range(6):
        (reached, cost), (slope, _) = moved(amplitude), jax.jacfwd(moved)(amplitude)
        amplitude = amplitude + (0.02 - reached) / slope
    assert float(reached) == pytest.approx(0.02, rel=1e-8)
    assert float(optimum.cost) < float(cost) < 1.1 * float(optimum.cost)


@pytest.mark.long
def test_derivatives_of_the_cost():
    """By the displacement, which is the multiplier, the stiffness and the period, against differences; and that of the
    swing of the drive."""
    found = best()

    def cost(displacement, stiffness, period):
        return best(displacement, stiffness, period).cost

    def swing(displacement, stiffness, period):
        stroke = best(displacement, stiffness, period).stroke
        return jnp.hypot(stroke.cosine[0, 0], stroke.sine[0, 0])

    at = (0.02, 1.0, 6.0)
    slopes = jax.grad(cost, (0, 1, 2))(*at)
    softer, stiffer = (swing(0.02, 1.0 + sign * 1e-3, 6.0) for sign in (-1, 1))
    assert float(jax.grad(swing, 1)(*at)) == pytest.approx(float(stiffer - softer) / 2e-3, rel=1e-4)
    assert float(slopes[0]) == pytest.approx(float(found.multiplier), rel=1e-6)
    for k, h in enumerate((1e-4, 1e-3, 1e-3)):
        above, below = (cost(*(x + sign * h * (j == k) for j, x in enumerate(at))) for sign in (1, -1))
        assert float(slopes[k]) == pytest.approx(float(above - below) / (2 * h), rel=1e-4)


def test_stiff_springs_and_long_periods_are_the_same():
    """(G r')_p = −T k r_p: the stroke depends on the period times the stiffness."""
    soft, stiff = best(stiffness=0.5, period=12.0), best(stiffness=1.5, period=4.0)
    np.testing.assert_allclose(soft.cost, stiff.cost, rtol=1e-10)


@pytest.mark.long
def test_a_displacement_with_a_turn():
    """A stroke with a corner at its start, by polynomials: the motion turns by 0.01."""
    bent = gd.FourierStroke([0.4, 0.1], [[0.0], [-0.1]], [[0.8], [0.1]])
    optimum = best(displacement=[-0.015, None, 0.01], guess=bent, method=gd.Direct(harmonics=8, steps=24))
    xi = optimum.swimmer.group.log(gd.holonomy(optimum.swimmer, optimum.stroke))
    np.testing.assert_allclose(xi[np.array([0, 2])], [-0.015, 0.01], rtol=1e-4)
    assert float(optimum.wong_residual) < 0.02
    motion = gd.periodic_motion(optimum.swimmer, lambda t: optimum.stroke(t)[:1], 6.0)
    times = jnp.linspace(0.0, 1.0, 65)
    np.testing.assert_allclose(jax.vmap(optimum.stroke)(times), jax.vmap(motion.stroke)(times), atol=2e-3)


@pytest.mark.long
def test_too_few_harmonics_are_a_status():
    """At a large displacement four harmonics leave more than a tenth of the force over."""
    coarse = best(displacement=0.05, method=gd.Direct(harmonics=4, steps=16), throw=False)
    assert coarse.result == gd.RESULTS.too_few_harmonics
    assert float(coarse.wong_residual) > 0.1
    with pytest.raises(gd.StrokeError, match="too few harmonics="):
        best(displacement=0.05, method=gd.Direct(harmonics=4, steps=16))


def test_a_file_knows_the_period(tmp_path):
    optimum = best()
    optimum.save(tmp_path / "best.npz")
    again = gd.strokes.load_stroke(tmp_path / "best.npz")
    assert float(again.period) == 6.0
    for result in (optimum, again):
        with pytest.raises(ValueError, match="springs move some of this one"):
            gd.design.sensitivity(result)


def test_refusals(as_users_run):
    with pytest.raises(ValueError, match="Purcell has none: leave it out"):
        gd.optimal_stroke(gd.swimmers.Purcell(), displacement=0.02, period=6.0)
    with pytest.raises(ValueError, match=r"period must be a positive number, got -1\.0"):
        best(period=-1.0)
    with pytest.raises(ValueError, match=r"base and ends hold all shapes .* hinges \(1,\)"):
        best(base=jnp.zeros(2))
    with pytest.raises(ValueError, match=r"method must be gd\.Direct"):
        best(method=gd.Wong())
