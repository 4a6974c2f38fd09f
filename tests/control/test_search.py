"""The search for all local optima: closed forms, symmetries, and Purcell's strokes off the straight shape."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._control.search.starts import checked_region
from geodyn._engine.jit import jit_over_cores

METHOD = gd.Direct(harmonics=4, steps=16)
REGION = (-1.0, -1.0), (4.0, 1.0)


class TwoHills(gd.AbstractSwimmer):
    """Cost |r'|² on the plane; displacement the integral of `2 + (cos 2x + cos y)/2 + tilt cos x`."""

    tilt: jax.Array
    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        x, y = r
        form = (2 * x + jnp.sin(2 * x) / 4 + self.tilt * jnp.sin(x)) * rdot[1] - jnp.sin(y) * rdot[0] / 2
        return jnp.sum(rdot**2) + (xi[0] - form) ** 2


def test_a_swimmer_of_ones_own_says_the_region():
    class Around(TwoHills):
        shape_region = ((-1.0, -2.0), (3.0, 2.0))

    corners = checked_region(Around(jnp.array(0.0)), None, None)
    np.testing.assert_array_equal(jnp.stack(corners), Around.shape_region)


@pytest.mark.long
def test_each_hill_has_its_stroke():
    """For small D a circle about a maximum F of the curvature, of energy 4πD/F; hills alike are one."""
    D = 0.02
    alike = gd.optimal_strokes(TwoHills(jnp.array(0.0)), displacement=D, starts=16, region=REGION, method=METHOD)
    assert len(alike) == 1
    unlike = gd.optimal_strokes(TwoHills(jnp.array(0.3)), displacement=D, starts=16, region=REGION, method=METHOD)
    heights = np.array([3.3, 2.7])
    np.testing.assert_allclose([o.cost for o in unlike], 4 * np.pi * D / heights, rtol=2e-3)  # measured 4e-4
    np.testing.assert_allclose([o.stroke.mean for o in unlike], [[0.0, 0.0], [np.pi, 0.0]], atol=1e-7)
    assert all(o.kkt_residual < 1e-10 and o.second_order > 0 for o in (*alike, *unlike))


@pytest.mark.long
def test_rates_that_are_felt():
    """At 0.8 of the circle's: the stroke of `test_rates` in tests/test_strokes.py, of 1.017257470 times its energy."""
    D = 0.02
    rates = (0.8 * 2 * np.sqrt(np.pi * D / 3), np.inf)
    method = gd.Direct(harmonics=8, steps=48)
    swimmer = TwoHills(jnp.array(0.0))
    (found,) = gd.optimal_strokes(swimmer, displacement=D, starts=16, region=REGION, rates=rates, method=method)
    np.testing.assert_allclose(found.cost, 1.017257470 * 4 * np.pi * D / 3, rtol=2e-3)


@pytest.mark.long
def test_purcell_off_the_straight_shape():
    """Reference: CasADi with IPOPT, 16 harmonics, E = 3.595194781218; and the stroke about the straight shape."""
    off, straight, *_ = gd.optimal_strokes(
        gd.swimmers.Purcell(), displacement=0.1, starts=12, method=gd.Direct(harmonics=8, steps=48)
    )
    np.testing.assert_allclose(off.cost, 3.595194781218, rtol=1e-9)
    np.testing.assert_allclose(off.multiplier, 41.036873183, rtol=1e-8)
    np.testing.assert_allclose(straight.cost, 3.89371688872341, rtol=1e-6)  # 8 harmonics leave 3e-7
    np.testing.assert_allclose(jnp.abs(off.stroke.mean), 1.7266682, rtol=1e-6)
    assert max(off.kkt_residual, straight.kkt_residual) < 1e-10 and min(off.second_order, straight.second_order) > 0.1


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"starts": 0}, "starts must be a positive whole number, got 0"),
        ({"region": ((0.0, 0.0), (0.0, 1.0))}, "with lower < upper"),
        ({"displacement": -0.1, "swimmer": gd.swimmers.Purcell()}, "must be a positive length"),
        ({}, r"TwoHills needs region=.*; or let the class say it by shape_region"),
    ],
)
def test_bad_arguments_are_named(wrong, message):
    swimmer = wrong.pop("swimmer", TwoHills(jnp.array(0.0)))
    with pytest.raises(ValueError, match=message):
        gd.optimal_strokes(swimmer, **{"displacement": 0.1} | wrong)


@pytest.mark.long
def test_what_leads_elsewhere_on_twice_the_steps_is_not_found(monkeypatch):
    def astray(*args, **options):
        found = gd.optimal_stroke(*args, **options)
        return eqx.tree_at(lambda o: o.displacement, found, 1.2 * found.displacement)

    monkeypatch.setattr("geodyn._control.search.starts.optimal_stroke", astray)
    with pytest.raises(RuntimeError, match="none of 16 starts"):
        gd.optimal_strokes(TwoHills(jnp.array(0.0)), displacement=0.02, starts=16, region=REGION, method=METHOD)


@pytest.mark.long
def test_nothing_found_is_an_error():
    """No stroke at all moves Purcell's swimmer by ten times the length of a link."""
    with pytest.raises(RuntimeError, match=r"none of 12 starts .* try a smaller one, more starts"):
        gd.optimal_strokes(gd.swimmers.Purcell(), displacement=10.0, starts=12, method=gd.Direct(harmonics=8, steps=48))


def test_a_batch_is_spread_over_the_cores(monkeypatch):
    """21 members on 3 cores: two parts of 11, the last one filled up, from one program; all come back, in order."""
    monkeypatch.setattr("geodyn._engine.jit._cores", lambda: 3)
    traced = []

    @jit_over_cores
    def scaled(scale, x):
        traced.append(x.shape)
        return {"all": scale * x}

    x = np.arange(21.0)
    np.testing.assert_array_equal(scaled(2.0, x)["all"], 2 * x)
    assert traced == [(11,)]
