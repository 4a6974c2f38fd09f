"""Swimmers with hinges that springs hold: their periodic motions, how stable and how good these are."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case
from scipy.integrate import quad, solve_ivp

import geodyn as gd
from geodyn._locomotion.connections.connection import reduction


def tail(stiffness=1.0, rest=0.0, damping=0.0, drag=1.0):
    return gd.swimmers.Passive(gd.swimmers.Purcell(drag=drag), [1], stiffness, rest, damping)


def sine(amplitude=1.0, mean=0.0):
    return gd.FourierStroke([mean], [[0.0]], [[amplitude]])


def net(motion):
    g = np.asarray(motion.displacement)
    return [g[0, 2], g[1, 2], np.arctan2(g[1, 0], g[0, 0])]


@pytest.mark.parametrize("row", case("E04")["rows"], ids=lambda row: f"omega {row['omega']}")
def test_against_a_long_run(row):
    """Case E04, of the tolerance 1e-9; measured 4e-12."""
    motion = gd.periodic_motion(tail(row["stiffness"]), sine(row["amplitude"]), 2 * np.pi / row["omega"])
    assert motion.result == gd.RESULTS.successful and motion.stable
    np.testing.assert_allclose(motion.stroke(0.0), [0.0, row["start"]], atol=1e-11)
    np.testing.assert_allclose(net(motion), row["net"], atol=1e-11)


@pytest.mark.long
def test_the_motors_do_the_work():
    """What they do in a period is what drag and damper dissipate, since the spring gives back what it took; measured
    1e-12. It is the cost of the stroke over the period, and the displacement is that of the base along the stroke."""
    body, period = tail(0.7, 0.2, 0.03), 3.0
    motion = gd.periodic_motion(body, sine(0.8, 0.1), period)
    times = jnp.arange(256) / 256
    rates = jax.vmap(jax.jacfwd(lambda t: motion.stroke(t)[0]))(times)
    work = jnp.mean(jax.vmap(motion.forces)(times)[:, 0] * rates)
    np.testing.assert_allclose(work, motion.cost, rtol=1e-10)
    np.testing.assert_allclose(gd.cost(body, motion.stroke, steps=64) / period, motion.cost, rtol=1e-12)
    np.testing.assert_allclose(gd.holonomy(body.base, motion.stroke, steps=64), motion.displacement, atol=1e-13)
    assert motion.cost > gd.cost(body.base, motion.stroke, steps=64) / period + 0.01


def test_units_of_time_and_force():
    """The stroke depends on stiffness × period / drag alone; the work on the drag over the period."""
    one = gd.periodic_motion(tail(0.8, 0.1, 0.02), sine(), 4.0)
    faster = gd.periodic_motion(tail(1.6, 0.1, 0.02), sine(), 2.0)
    thicker = gd.periodic_motion(tail(2.4, 0.1, 0.06, drag=3.0), sine(), 4.0)
    for other, ratio in ((faster, 2.0), (thicker, 3.0)):
        np.testing.assert_allclose(other.displacement, one.displacement, atol=1e-13)
        np.testing.assert_allclose(other.multipliers, one.multipliers, rtol=1e-10)
        np.testing.assert_allclose(other.cost, ratio * one.cost, rtol=1e-12)


def test_a_stiff_hinge_is_a_scallop():
    """With one shape that changes it leads nowhere: the displacement falls as 1/k. The spring is up to 1e5 times faster
    than the steps, and the deviation is gone at once."""
    moved = []
    for stiffness in (1e3, 1e4, 1e6):
        motion = gd.periodic_motion(tail(stiffness), sine(), 2 * np.pi)
        moved.append(stiffness * motion.displacement[0, 2])
        assert motion.stable and abs(motion.multipliers[0]) < 1e-300
        assert jnp.max(jnp.abs(motion.stroke.values)) < 1 / stiffness
    np.testing.assert_allclose(moved[1:], moved[2], rtol=1e-4)


def small(period, stiffness=1.0, amplitude=1e-3):
    return gd.periodic_motion(tail(stiffness), sine(amplitude), period)


def test_small_strokes():
    """The hinge follows as the low-pass filter `y = −i ω G_pd/(k + i ω G_pp) a`, the body moves by minus the curvature
    at the straight shape times the area, and deviations fade by `exp(−k T/G_pp)`."""
    G = np.asarray(gd.shape_metric(gd.swimmers.Purcell(), [0.0, 0.0]))
    F = np.asarray(gd.curvature(gd.swimmers.Purcell(), [0.0, 0.0]))[0, 0, 1]
    period, a = 0.4, 1e-3
    omega = 2 * np.pi / period
    motion = small(period)
    follows = -1j * omega * G[1, 0] / (1 + 1j * omega * G[1, 1]) * a  # Of the drive a exp iωt.
    np.testing.assert_allclose(motion.stroke(0.0)[1], follows.imag, rtol=1e-5)
    np.testing.assert_allclose(motion.stroke(0.25)[1], follows.real, rtol=1e-5)
    area = -np.pi * a * follows.imag  # Σ π (a × y) of α₁ = a sin, α₂ = Re y sin + Im y cos.
    np.testing.assert_allclose(motion.displacement[0, 2], -F * area, rtol=1e-5)
    np.testing.assert_allclose(motion.multipliers[0], np.exp(-period / G[1, 1]), rtol=1e-5)


AT = tuple(map(jnp.asarray, (0.3, 0.2, 0.01, 1.5, 0.8, 2.2)))
PLACES = tuple(range(6))
WEIGHTS = np.array([1.0, -2.0, 0.3, 5.0, 0.7])


def asked(stiffness, rest, damping, period, amplitude, ratio):
    """Displacement, cost, multiplier and start."""
    body = gd.swimmers.Passive(gd.swimmers.Purcell(drag_ratio=ratio), [1], stiffness, rest, damping)
    motion = gd.periodic_motion(body, gd.FourierStroke([0.1], [[0.0]], amplitude[None, None]), period)
    moved = motion.displacement[:2, 2]
    return jnp.stack([*moved, motion.cost, motion.multipliers[0].real, motion.stroke(0.0)[1]])


def differences(function, at, h):
    """The central differences with respect to each argument."""
    slopes = []
    for i in PLACES:
        up, down = (tuple(x + sign * h * (i == j) for j, x in enumerate(at)) for sign in (1, -1))
        slopes.append((function(*up) - function(*down)) / (2 * h))
    return jnp.stack(slopes, axis=-1)


@pytest.mark.long
def test_derivatives():
    """In reverse mode, against central differences; measured 1e-8."""
    backwards = jnp.stack(jax.jit(jax.grad(lambda *x: WEIGHTS @ asked(*x), PLACES))(*AT))
    expected = differences(jax.jit(asked), AT, 2e-5)
    np.testing.assert_allclose(backwards, WEIGHTS @ expected, atol=2e-7)
    assert jnp.min(jnp.abs(backwards)) > 1e-3


@pytest.mark.long
def test_derivatives_in_both_modes():
    """And second ones, with respect to the stiffness."""
    forwards = jnp.stack(jax.jit(jax.jacfwd(asked, PLACES))(*AT), axis=1)
    np.testing.assert_allclose(forwards, differences(jax.jit(asked), AT, 2e-5), atol=1e-7)
    slopes = jax.jit(jax.grad(lambda *x: WEIGHTS @ asked(*x), PLACES))
    np.testing.assert_allclose(jnp.stack(slopes(*AT)), WEIGHTS @ forwards, rtol=1e-9, atol=1e-12)
    bends = jax.jit(jax.grad(lambda *x: jax.grad(lambda *x: WEIGHTS @ asked(*x), 0)(*x), PLACES))(*AT)
    np.testing.assert_allclose(jnp.stack(bends), differences(lambda *x: slopes(*x)[0], AT, 2e-5), rtol=1e-5)


@pytest.mark.long
def test_best_frequency_and_stiffness():
    """Newton's method on the derivative finds the largest displacement in a period among 400 periods, and the best
    stiffness among 400; of small strokes the best is `ω = k/G_pp`, where the filter turns by 45°."""

    def moved(period, stiffness, amplitude):
        return jnp.linalg.norm(small(period, stiffness, amplitude).displacement[:2, 2])

    for k, start in ((0, 0.5), (1, 1.0)):
        slope = jax.jit(jax.grad(moved, k))
        bend = jax.jit(jax.grad(jax.grad(moved, k), k))
        for amplitude in (1e-3, 0.8):
            at = [0.5, 1.0, amplitude]
            at[k] = start
            for _ in range(8):
                at[k] = at[k] - slope(*at) / bend(*at)
            assert bend(*at) < 0
            tried = jnp.linspace(0.3 * at[k], 3 * at[k], 400)
            found = jax.jit(jax.vmap(moved, [0 if i == k else None for i in range(3)]))
            values = found(*(tried if i == k else x for i, x in enumerate(at)))
            assert abs(tried[jnp.argmax(values)] - at[k]) < tried[1] - tried[0]
            assert moved(*at) >= jnp.max(values)
            if amplitude < 0.01:
                G = gd.shape_metric(gd.swimmers.Purcell(), [0.0, 0.0])[1, 1]
                np.testing.assert_allclose(2 * np.pi / at[0], at[1] / G, rtol=1e-5)


@pytest.mark.long
def test_two_passive_hinges_against_waiting():
    """Four links, the middle hinge driven in two harmonics: a run by scipy for many periods ends in the motion, and
    deviations from it grow by the multipliers."""
    body = gd.swimmers.Passive(gd.swimmers.NLink([1.0, 0.8, 0.9, 1.1]), [0, 2], [0.5, 0.3], [0.2, -0.1], [0.0, 0.02])
    drive, period = gd.FourierStroke([0.1], [[0.0, 0.2]], [[0.7, 0.0]]), 2.5
    motion = gd.periodic_motion(body, drive, period)

    @jax.jit
    def rate(t, y):
        r = jnp.stack([y[0], drive(t)[0], y[1]])
        G = reduction(body, r)[1]
        torque = G[:, 1] * jax.jacfwd(drive)(t)[0] + period * jnp.array([0.5, 0.0, 0.3]) * (
            r - jnp.array([0.2, 0, -0.1])
        )
        return jnp.linalg.solve(G[np.ix_([0, 2], [0, 2])], -torque[np.array([0, 2])])

    def later(y, periods):
        return solve_ivp(rate, (0, periods), y, method="DOP853", rtol=1e-11, atol=1e-13).y[:, -1]

    start = motion.stroke(0.0)[np.array([0, 2])]
    np.testing.assert_allclose(later([0.0, 0.0], 20), start, atol=1e-8)
    h = 1e-4
    ups = [(later(start + h * e, 1) - later(start - h * e, 1)) / (2 * h) for e in np.eye(2)]
    expected = np.sort(np.linalg.eigvals(np.stack(ups, axis=1)))
    np.testing.assert_allclose(np.sort(motion.multipliers), expected, rtol=2e-6, atol=1e-9)
    assert motion.stable and np.max(np.abs(motion.multipliers)) > 1e-3


class Clicker(gd.bundles.AbstractPassiveSwimmer):
    """A hinge whose spring is slack at ±1/2."""

    base: gd.swimmers.Purcell = gd.swimmers.Purcell()
    hinges: tuple[int, ...] = eqx.field(default=(1,), static=True)
    rest: jax.Array = eqx.field(default=(0.0,), converter=jnp.asarray)
    height: jax.Array = eqx.field(default=0.3, converter=jnp.asarray)
    group: gd.groups.SE2 = gd.groups.SE2()

    def dissipation(self, r, xi, rdot):
        return self.base.dissipation(r, xi, rdot)

    def elastic_energy(self, r):
        return self.height * (r[1] ** 2 - 0.25) ** 2


@pytest.mark.long
def test_a_motion_that_is_not_stable():
    """About the middle, where the spring pushes away; the multiplier is the exponential of the slope of the rate, by
    quadrature. About a slack shape there is another motion, which is stable."""
    drive, period = sine(0.3), 2.0
    middle = gd.periodic_motion(Clicker(), drive, period, guess=[0.0])
    beside = gd.periodic_motion(Clicker(), drive, period, guess=[0.5])
    assert middle.successful and not middle.stable and middle.multipliers[0].real > 2
    assert beside.successful and beside.stable

    @jax.jit
    def slope(t):
        def rate(y):
            r = middle.stroke(t).at[1].set(y)
            G = gd.shape_metric(Clicker(), r)
            return -(G[1, 0] * jax.jacfwd(drive)(t)[0] + period * 0.3 * 4 * y * (y**2 - 0.25)) / G[1, 1]

        return jax.grad(rate)(middle.stroke(t)[1])

    exponent = quad(slope, 0, 1, epsabs=1e-10)[0]
    np.testing.assert_allclose(middle.multipliers[0].real, np.exp(exponent), rtol=1e-8)


@pytest.mark.long
def test_a_drive_with_corners():
    """To and fro at a constant rate; against scipy, piece by piece."""
    body, drive, period = tail(0.5), gd.strokes.PolygonStroke([[-0.5], [0.7]]), 2.0
    motion = gd.periodic_motion(body, drive, period)
    assert motion.successful

    def piece(way):
        @jax.jit
        def rate(t, y):
            r = jnp.stack([-0.5 + 2.4 * t if way > 0 else 0.7 - 2.4 * t, y[0]])
            G = reduction(body, r)[1]
            return -(G[1, :1] * 2.4 * way + period * 0.5 * y) / G[1, 1]

        return lambda y: solve_ivp(rate, (0, 0.5), y, method="DOP853", rtol=1e-12, atol=1e-14).y[:, -1]

    half = piece(1)(motion.stroke(0.0)[1:])
    np.testing.assert_allclose(half, motion.stroke(0.5)[1:], atol=1e-10)
    np.testing.assert_allclose(piece(-1)(half), motion.stroke(0.0)[1:], atol=1e-10)
    rates = jax.vmap(jax.jacfwd(motion.stroke))(jnp.array([0.5 - 1e-9, 0.5 + 1e-9]))[:, 1]
    assert rates[0] < -0.1 and rates[1] > 0.1


@pytest.mark.long
def test_batches():
    """Each member as if it were alone."""
    stiffnesses = jnp.array([0.1, 1.0, 4.0])
    motions = jax.vmap(lambda k: gd.periodic_motion(tail(k), sine(), 2.0))(stiffnesses)
    assert motions.stable.shape == (3,) and jnp.all(motions.successful)
    for i, stiffness in enumerate(stiffnesses):
        alone = gd.periodic_motion(tail(stiffness), sine(), 2.0)
        np.testing.assert_allclose(motions.displacement[i], alone.displacement, atol=1e-13)
        np.testing.assert_allclose(motions.multipliers[i], alone.multipliers, rtol=1e-10)


WAVES = gd.FourierStroke([0.0], np.zeros((1, 8)), np.eye(1, 8, 7))


@pytest.mark.long
def test_what_fails_says_so():
    """With too few steps nothing is claimed."""
    with pytest.raises(gd.bundles.MotionError, match=r"no correct digit.*take more steps=") as failed:
        gd.periodic_motion(tail(), WAVES, 6.0, steps=2)
    assert failed.value.motion.result == gd.RESULTS.under_resolved
    kept = gd.periodic_motion(tail(), WAVES, 6.0, steps=2, throw=False)
    assert np.isnan(kept.cost) and np.all(np.isfinite(kept.stroke.values)) and kept.error > 0


@pytest.mark.long
def test_what_fails_has_no_derivative():
    """Neither with too few steps, nor where spheres touch; and what is without a restoring force is not determined."""
    slope = jax.grad(lambda k: gd.periodic_motion(tail(k), WAVES, 6.0, steps=2, throw=False).stroke(0.2)[1])(1.0)
    assert np.isnan(slope)
    spheres = gd.swimmers.Passive(gd.swimmers.ThreeSphere(), [0], 1.0, rest=3.0)
    with pytest.raises(gd.bundles.MotionError, match="not finite"):
        gd.periodic_motion(spheres, sine(4.0, 3.0), 6.0)
    slack = eqx.tree_at(lambda body: body.stiffness, tail(), jnp.zeros(1))
    with pytest.raises(gd.bundles.MotionError, match="no periodic motion"):
        gd.periodic_motion(slack, sine(), 6.0)


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: gd.swimmers.Passive(gd.swimmers.Purcell(), [2], 1.0),
            "Purcell, which has the shape variables 0 to 1; got .2.",
        ),
        (lambda: gd.swimmers.Passive(gd.swimmers.Purcell(), [], 1.0), "one index or more, got none"),
        (lambda: gd.swimmers.Passive(gd.swimmers.Purcell(), [1, 1], 1.0), "must be different"),
        (lambda: gd.swimmers.Passive(gd.swimmers.Purcell(), [0, 1], 1.0), "leave one out, to be driven"),
        (
            lambda: gd.swimmers.Passive(gd.swimmers.Purcell(), [1], 0.0),
            "stiffness must be positive.*AbstractPassiveSwimmer",
        ),
        (lambda: gd.swimmers.Passive(gd.swimmers.Purcell(), [1], np.nan), "stiffness must be finite"),
        (lambda: gd.swimmers.Passive(gd.swimmers.Purcell(), [1], 1.0, damping=-1.0), "damping must not be negative"),
        (lambda: gd.swimmers.Passive(gd.swimmers.Purcell(), [1], [1.0, 2.0]), "one for each of the 1 hinges"),
        (lambda: gd.swimmers.Passive(gd.swimmers.ThreeSphere(), [1], 1.0), "needs rest="),
        (lambda: gd.swimmers.Passive(gd.swimmers.Beanie(), [0], 1.0), "base must be a Swimmer"),
        (lambda: gd.swimmers.Passive(tail(), [0], 1.0), "base has springs already, a Passive with the hinges .1."),
        (lambda: gd.periodic_motion(tail(), sine(), 0.0), "period must be positive"),
        (lambda: gd.periodic_motion(tail(), gd.FourierStroke.circle(1.0), 1.0), "must give 1 driven shape.*got 2"),
        (lambda: gd.periodic_motion(tail(), lambda t: t[None], 1.0), "drive: the stroke is not closed"),
        (lambda: gd.periodic_motion(tail(), sine(), 1.0, guess=[0.0, 1.0]), "guess must have the shape .1,."),
        (lambda: gd.periodic_motion(tail(), sine(), 1.0, steps=0), "steps"),
        (lambda: gd.periodic_motion(gd.swimmers.Purcell(), sine(), 1.0), "body must be a PassiveSwimmer"),
    ],
)
def test_refusals(make, message, as_users_run):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_the_body_says():
    body = gd.swimmers.Passive(gd.swimmers.Purcell(), [0], 1.0)
    assert body.driven_names == ("second hinge angle (rad)",) and body.shape_count == 2
    assert (
        body.outline(jnp.zeros(2)).shape == (3, 2, 2)
        and gd.swimmers.Passive(gd.swimmers.ThreeSphere(), [0], 1.0, 3.0).first_shape is None
    )
