"""Swimmers with inertia and drag at once: the limits in which one of them is left, and a closed form between."""

import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd

CIRCLE = gd.FourierStroke.circle(1.0)
SINE = gd.FourierStroke([0.1], [[0.0]], [[0.8]])


RODS = gd.swimmers.FloatingLinks((1.0, 0.8, 1.2), (1.0, 2.0, 0.7))


@pytest.mark.parametrize(
    "body", [gd.swimmers.FluidLinks(), pytest.param(RODS, marks=pytest.mark.long)], ids=["fish", "rods"]
)
def test_without_drag(body):
    """It moves by the connection of its kinetic energy, but for what is proportional to the drag: halving the drag
    halves that, to a part in a thousand."""
    known = gd.holonomy(body, CIRCLE)

    def beyond(drag):
        system = gd.bundles.InertialSwimmer(body, gd.swimmers.Purcell(body.lengths, drag=drag), CIRCLE, 2.0)
        motion = gd.integrate(system, *system.start(), t1=2.0, steps=60)
        return np.asarray(system.pose(motion.q[-1]) - known)

    large, small = beyond(2e-5), beyond(1e-5)
    assert np.max(np.abs(large)) > 1e-6
    np.testing.assert_allclose(2 * small, large, atol=1e-3 * np.max(np.abs(large)))


def test_a_drive_that_is_run_through_once():
    """Its end is that of the drive, which need not be closed."""
    way = gd.strokes.OpenStroke([0.0, 0.0], [0.5, -0.3], [[0.0], [0.0]])
    system = gd.bundles.InertialSwimmer(gd.swimmers.FluidLinks(), gd.swimmers.Purcell(), way, 2.0)
    q, _ = system.start()
    np.testing.assert_allclose(system.shape(2.0, q), [0.5, -0.3], rtol=0, atol=1e-15)
    np.testing.assert_allclose(system.shape(1.0, q), [0.25, -0.15], rtol=0, atol=1e-15)


def test_a_drive_that_is_known_for_one_period():
    """Every period is as the first, also of a stroke that is a function of the times from 0 to 1 only."""
    system = gd.bundles.InertialSwimmer(
        gd.swimmers.FluidLinks(), gd.swimmers.Purcell(), gd.strokes.join(CIRCLE, gd.strokes.reverse(CIRCLE)), 2.0
    )
    q, v = jnp.array([0.1, 0.2, 0.3]), jnp.array([0.4, -0.2, 0.5])
    for t in (0.2, 1.3):
        np.testing.assert_allclose(system.shape(t + 4.0, q), system.shape(t, q), rtol=0, atol=1e-12)
        np.testing.assert_allclose(system.lagrangian_at(t + 4.0, q, v), system.lagrangian_at(t, q, v), rtol=1e-11)


@pytest.mark.long
def test_without_inertia():
    """It settles to the periodic motion of its drag and springs, but for what is proportional to its density:
    halving that halves it, to a part in a hundred."""
    body, period, steps = gd.swimmers.Passive(gd.swimmers.Purcell(), [1], 1.0, rest=0.1, damping=0.02), 3.0, 80
    known = gd.periodic_motion(body, SINE, period)

    def beyond(density):
        system = gd.bundles.InertialSwimmer(gd.swimmers.FluidLinks(density=density), body, SINE, period)
        start = system.start()
        motion = gd.integrate(system, *start, t1=3 * period, steps=3 * steps, method=gd.RadauIIA(3))
        before, after = system.pose(motion.q[-1 - steps]), system.pose(motion.q[-1])
        moved = jnp.linalg.inv(before) @ after - known.displacement
        np.testing.assert_allclose(system.shape(0.0, start[0]), [0.1, 0.1])
        return np.append(np.asarray(moved).ravel(), motion.q[-1, 3] - known.stroke(0.0)[1])

    large, small = beyond(2e-3), beyond(1e-3)
    assert np.max(np.abs(large)) > 1e-5
    np.testing.assert_allclose(2 * small, large, atol=1e-2 * np.max(np.abs(large)))


def test_a_straight_body_coasts():
    """Along itself it comes to rest as `x = m/c (1 − exp(−c t/m))`; and what it loses is what drag dissipates."""
    fish, drag = gd.swimmers.FluidLinks(density=2.0), gd.swimmers.NLink([1.0, 1.0, 1.0], drag=0.3)
    still = gd.FourierStroke([0.0, 0.0], [[0.0], [0.0]], [[0.0], [0.0]])
    system = gd.bundles.InertialSwimmer(fish, drag, still, 1.0)
    angle = 0.7
    ahead = jnp.array([np.cos(angle), np.sin(angle), 0.0])
    motion = gd.integrate(system, jnp.array([0.5, 0.0, angle]), ahead, t1=2.0, steps=40)
    mass, resistance = float(jnp.sum(fish.inertias[:, 0])), 3 * 0.3
    way = mass / resistance * (1 - np.exp(-resistance * 2.0 / mass))
    np.testing.assert_allclose(motion.q[-1] - motion.q[0], way * ahead, atol=1e-9)


@pytest.mark.long
def test_energy_is_what_was_not_dissipated():
    """A body that is pushed while its motor holds, with a spring that swings: to the order of the quadrature."""
    still = gd.FourierStroke([0.6], [[0.0]], [[0.0]])
    system = gd.bundles.InertialSwimmer(
        gd.swimmers.FluidLinks(), gd.swimmers.Passive(gd.swimmers.Purcell(drag=0.1), [1], 0.5), still, 1.0
    )
    q0, _ = system.start([0.9])
    motion = gd.integrate(system, q0, jnp.array([0.3, -0.2, 0.5, 0.4]), t1=2.0, steps=200)
    power = np.array([2 * system.rayleigh_at(t, q, v) for t, q, v in zip(motion.t, motion.q, motion.v)])
    h = 0.01
    spent = h / 3 * (power[0] + power[-1] + 4 * power[1:-1:2].sum() + 2 * power[2:-1:2].sum())
    np.testing.assert_allclose(motion.energy[0] - motion.energy[-1], spent, rtol=1e-6)
    assert spent > 0.1 * motion.energy[0]


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: gd.bundles.InertialSwimmer(gd.swimmers.FluidLinks(), gd.swimmers.SymmetricPurcell(), CIRCLE, 1.0),
            "the same group, got SE2 of",
        ),
        (
            lambda: gd.bundles.InertialSwimmer(gd.swimmers.FluidLinks(), gd.swimmers.Purcell(), CIRCLE, 0.0),
            "period must be positive",
        ),
        (
            lambda: gd.bundles.InertialSwimmer(gd.swimmers.FluidLinks(), gd.swimmers.Purcell(), SINE, 1.0),
            "inertia has other shapes than the 1 driven",
        ),
        (
            lambda: gd.bundles.InertialSwimmer(gd.swimmers.FluidLinks(), gd.swimmers.NLink([1.0] * 4), CIRCLE, 1.0),
            "drag has other shapes",
        ),
        (
            lambda: gd.bundles.InertialSwimmer(gd.swimmers.FallingCat(), gd.swimmers.Purcell(), CIRCLE, 1.0),
            "the same group, got SO3",
        ),
        (
            lambda: gd.bundles.InertialSwimmer(gd.swimmers.Purcell(), gd.swimmers.Purcell(), CIRCLE, 1.0),
            "inertia must be a DeformableBody",
        ),
        (
            lambda: gd.bundles.InertialSwimmer(gd.swimmers.FluidLinks(), gd.swimmers.Purcell(), CIRCLE, 1.0).start(
                [1.0]
            ),
            "passive must be 0 numbers",
        ),
    ],
)
def test_refusals(make, message, as_users_run):
    with pytest.raises(ValueError, match=message):
        make()
