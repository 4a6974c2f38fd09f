"""Costs of accelerations: of one stroke, and the best strokes by them."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import geodyn as gd
from geodyn._engine.jit import as_pytree
from geodyn._locomotion.motion.costs import derivatives_taken

ACCELERATION = gd.costs.covariant_acceleration
LINKS = gd.swimmers.FloatingLinks([1.0, 0.7, 1.2])
AT = jnp.array([0.3, -0.4]), jnp.array([1.1, 0.6]), jnp.array([-0.5, 2.0])


class Planimeter(gd.AbstractConnection):
    """Leads along a line as far as the area that the stroke encloses."""

    group: gd.groups.Translation = gd.groups.Translation(1)

    def form(self, r):
        return jnp.stack([-r[1], r[0]])[None] / 2


FLAT = gd.bundles.KaluzaKlein(Planimeter())
BUMPY = gd.bundles.KaluzaKlein(Planimeter(), lambda r: jnp.diag(jnp.stack([1 + r[0] ** 2, 2.0 + jnp.sin(r[0])])))


def test_acceleration_does_not_depend_on_the_coordinates():
    """In shapes s = r + r³/3 of each variable."""

    def old(s):
        y = jnp.cbrt(1.5 * s + jnp.sqrt(1 + 2.25 * s**2))
        return y - 1 / y

    def new(r):
        return r + r**3 / 3

    r, rdot, rddot = AT
    np.testing.assert_allclose(old(new(r)), r, rtol=1e-14)

    def curve(t):
        return new(r + rdot * t + rddot * t**2 / 2)

    rate = jax.jacfwd(curve)
    there = curve(0.0), rate(0.0), jax.jacfwd(rate)(0.0)
    reshaped = gd.bundles.Reshaped(LINKS, old)
    np.testing.assert_allclose(ACCELERATION(reshaped, *there), ACCELERATION(LINKS, *AT), rtol=1e-12)


def test_torques_of_the_whole_body():
    """By Lagrange's equations of the pose and the shape together, of a body that moves by its connection."""
    body = LINKS
    r, rdot, rddot = AT

    def lagrangian(q, u):
        """With the pose (x, y, θ) in space and the shape."""
        c, s = jnp.cos(q[2]), jnp.sin(q[2])
        xi = jnp.stack([c * u[0] + s * u[1], -s * u[0] + c * u[1], u[2]])
        return body.quadratic_form(q[3:], xi, u[3:]) / 2

    def velocity(t, q):
        rate = rdot + rddot * t
        xi = body.velocity(q[3:], rate)
        c, s = jnp.cos(q[2]), jnp.sin(q[2])
        return jnp.concatenate([jnp.stack([c * xi[0] - s * xi[1], s * xi[0] + c * xi[1], xi[2]]), rate])

    q = jnp.concatenate([jnp.array([0.1, -0.2, 0.4]), r])
    u = velocity(0.0, q)

    def momentum(t, q):
        return jax.grad(lagrangian, 1)(q, velocity(t, q))

    change = jax.jvp(momentum, (0.0, q), (1.0, u))[1]
    forces = change - jax.grad(lagrangian)(q, u)
    np.testing.assert_allclose(forces[:3], 0.0, atol=1e-12)  # Nothing pushes it from outside.
    np.testing.assert_allclose(gd.costs.inertial_torque(body, *AT), jnp.sum(forces[3:] ** 2), rtol=1e-12)


def test_a_body_without_inertia_has_no_such_torques():
    with pytest.raises(ValueError, match=r"Purcell has no inertia.*gd.costs.torque"):
        gd.costs.inertial_torque(gd.swimmers.Purcell(), *AT)


def test_the_cost_of_a_circle():
    """Its acceleration is (2π)² R."""
    cost = gd.cost(FLAT, gd.FourierStroke.circle(0.3), density=ACCELERATION)
    np.testing.assert_allclose(cost, (2 * np.pi) ** 4 * 0.3**2, rtol=1e-13)


class Kinked(eqx.Module):
    """Two arcs of parabolas, which meet at a corner or smoothly."""

    jump: float
    breaks: jax.Array = eqx.field(default_factory=lambda: jnp.array([0.5]))

    def __call__(self, t):
        after = jnp.maximum(t - 0.5, 0.0)
        return jnp.stack([t + self.jump * after, t**2 + 30.0 * after**2])


@pytest.mark.parametrize(
    ("stroke", "time"),
    [
        (gd.strokes.PolygonStroke([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), "0.333"),
        (gd.strokes.LegendreStroke([0.1, 0.2], [[0.3, 0.0, 0.1], [0.0, 0.2, 0.1]]), "1"),
        (Kinked(1e-3), "0.5"),
    ],
    ids=["polygon", "base", "kink"],
)
def test_a_corner_costs_an_infinite_acceleration(stroke, time):
    with pytest.raises(ValueError, match=rf"cost: at t = {time} the stroke turns a corner.* a gd.FourierStroke"):
        gd.cost(FLAT, stroke, density=ACCELERATION, steps=8)
    assert jnp.isposinf(jax.jit(lambda s: gd.cost(FLAT, s, density=ACCELERATION, steps=8))(stroke))
    slopes = jax.jit(jax.grad(lambda s: gd.cost(FLAT, s, density=ACCELERATION, steps=8)))(stroke)
    assert all(jnp.all(jnp.isnan(x)) for x in jax.tree.leaves(slopes))
    assert jnp.isfinite(gd.cost(FLAT, stroke, steps=8))


def test_pieces_that_meet_smoothly_have_no_corner():
    """Also with many harmonics, whose rates change much in a short time; the acceleration is 2, then 62."""
    np.testing.assert_allclose(gd.cost(FLAT, Kinked(0.0), density=ACCELERATION), (2**2 + 62**2) / 2, rtol=1e-13)
    waves = np.zeros((2, 200))
    waves[0, 199] = 1.0
    fast = gd.FourierStroke([0.0, 0.0], waves, waves[::-1])
    np.testing.assert_allclose(gd.cost(FLAT, fast, density=ACCELERATION, steps=800), (400 * np.pi) ** 4, rtol=1e-10)


def test_how_many_derivatives_a_density_takes():
    def with_default(swimmer, r, rdot, factor=2.0):
        return factor * rdot @ rdot

    class Weighted(eqx.Module):
        weight: jax.Array

        def __call__(self, swimmer, r, rdot, rddot):
            return self.weight * rddot @ rddot

    def of_five(weight, swimmer, r, rdot, rddot):
        return weight * rddot @ rddot

    of_rates = [gd.costs.energy, gd.costs.PeakRate(), with_default, max]
    of_accelerations = [ACCELERATION, Weighted(jnp.array(2.0)), functools.partial(of_five, 2.0)]
    for density in [*of_rates, *of_accelerations]:
        count = 1 if any(density is x for x in of_rates) else 2
        assert derivatives_taken(density) == count
        assert derivatives_taken(as_pytree(density)) == count

    def cost(weight):
        density = lambda swimmer, r, rdot, rddot: weight * rddot @ rddot  # noqa: E731
        assert derivatives_taken(as_pytree(density)) == 2
        return gd.cost(FLAT, gd.FourierStroke.circle(0.3), density=density)

    np.testing.assert_allclose(jax.grad(cost)(2.0), (2 * np.pi) ** 4 * 0.3**2, rtol=1e-13)


METHOD = gd.Direct(harmonics=4, steps=16)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"base": [0.1, 0.2]}, "turns a corner, as it may with base=; leave that out"),
        ({"ends": ([0.1, 0.2], [0.3, 0.1])}, "turns a corner, as it may with ends=; leave that out"),
        ({"method": gd.Direct(corners=3)}, "turns a corner, as it may with corners=; leave that out"),
        ({"method": gd.Wong()}, r"gd.Wong solves equations of second order.*take gd.Direct"),
    ],
    ids=["base", "ends", "corners", "Wong"],
)
def test_what_has_corners_is_refused(asked, message):
    with pytest.raises(ValueError, match=message):
        gd.optimal_stroke(FLAT, displacement=1.0, density=ACCELERATION, **asked)


def test_a_plan_has_corners():
    with pytest.raises(ValueError, match=r"plan: density takes accelerations.* of rates alone"):
        gd.plan(FLAT, FLAT.group.exp(jnp.array([0.5])), base=[0.2, 0.1], density=ACCELERATION)


@pytest.mark.long
def test_the_best_curve_round_an_area_is_a_circle():
    """Of all with the least ∫|r''|²: each harmonic n costs (2πn)⁴ |c_n|² and encloses at most π n |c_n|², so that the
    first is the best, and the area D costs 16 π³ D."""
    start = gd.FourierStroke([0.0, 0.0], [[0.8], [0.1]], [[0.0], [0.4]])
    best = gd.optimal_stroke(FLAT, start, displacement=-1.2, density=ACCELERATION, method=METHOD)
    np.testing.assert_allclose(best.cost, 16 * np.pi**3 * 1.2, rtol=1e-10)
    np.testing.assert_allclose(best.multiplier, -16 * np.pi**3, rtol=1e-10)
    assert best.kkt_residual < 1e-9
    assert best.wong_residual < 1e-11
    assert best.second_order > 0
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(gd.cost(FLAT, start, density=ACCELERATION), best.cost, rtol=1e-2)


@pytest.mark.long
def test_beside_another_search():
    """Three harmonics of a stroke in a metric that is not flat, by SciPy's SLSQP with sums over equal times, which are
    exact for them but for what the metric adds."""
    times = np.arange(256) / 256
    angles = 2 * np.pi * np.arange(1, 4)[:, None] * times[None]

    def parts(x):
        """r, r' and r'' at the times."""
        c = x[2:8].reshape(2, 3)
        s = x[8:].reshape(2, 3)
        n = 2 * np.pi * np.arange(1, 4)[None]
        r = x[:2, None] + c @ np.cos(angles) + s @ np.sin(angles)
        rate = (n * s) @ np.cos(angles) - (n * c) @ np.sin(angles)
        return r, rate, -(n**2 * c) @ np.cos(angles) - (n**2 * s) @ np.sin(angles)

    def cost(x):
        """By Christoffel symbols: of G = diag(E(x), F(x)) they are E'/2E, −F'/2E and F'/2F."""
        r, u, a = parts(x)
        E, dE = 1 + r[0] ** 2, 2 * r[0]
        F, dF = 2 + np.sin(r[0]), np.cos(r[0])
        first = a[0] + (dE * u[0] ** 2 - dF * u[1] ** 2) / (2 * E)
        second = a[1] + dF / F * u[0] * u[1]
        return np.mean(E * first**2 + F * second**2)

    def area(x):
        r, u, _ = parts(x)
        return np.mean(r[0] * u[1] - r[1] * u[0]) / 2 - 0.5

    x = np.zeros(14)
    x[0], x[2], x[11] = -0.3, 0.5, 0.4
    found = minimize(cost, x, constraints={"type": "eq", "fun": area}, method="SLSQP", options={"ftol": 1e-14})
    start = gd.FourierStroke(x[:2], x[2:8].reshape(2, 3), x[8:].reshape(2, 3))
    method = gd.Direct(harmonics=3, steps=48)
    best = gd.optimal_stroke(BUMPY, start, displacement=-0.5, density=ACCELERATION, method=method)
    np.testing.assert_allclose(best.cost, found.fun, rtol=1e-7)
    assert best.second_order > 0


@pytest.mark.long
def test_a_best_stroke_of_three_links_against_their_inertia():
    """Its price is the derivative of its cost, and it obeys the equations of fourth order but for its few harmonics."""
    asked = {"density": gd.costs.inertial_torque, "method": gd.Direct(harmonics=6, steps=32)}
    fish = gd.swimmers.FluidLinks()
    residuals = []
    best = gd.optimal_stroke(fish, displacement=0.1, **asked)
    for displacement in (0.101, 0.099):
        residuals.append(gd.optimal_stroke(fish, best.stroke, displacement=displacement, **asked).cost)
    np.testing.assert_allclose((residuals[0] - residuals[1]) / 0.002, best.multiplier, rtol=1e-4)
    assert best.kkt_residual < 1e-8
    assert best.wong_residual < 0.05
    np.testing.assert_allclose(gd.cost(fish, best.stroke, density=gd.costs.inertial_torque), best.cost, rtol=1e-8)


@pytest.mark.long
def test_slower_motors_by_the_peak_rate():
    """The root of the cost is below the highest rate, and near it; that is lower than on the stroke of least energy."""
    body = gd.swimmers.Purcell()
    times = jnp.arange(512) / 512

    def highest(stroke):
        return jnp.max(jnp.abs(jax.vmap(jax.jacfwd(stroke))(times)))

    least_energy = gd.optimal_stroke(body, displacement=0.1, method=gd.Direct(harmonics=8, steps=48))
    best = gd.optimal_stroke(
        body,
        least_energy.stroke,
        displacement=0.1,
        density=gd.costs.PeakRate(4),
        method=gd.Direct(harmonics=8, steps=48),
    )
    assert best.cost**0.25 < highest(best.stroke) < 0.8 * highest(least_energy.stroke)


def test_bad_peak_rates():
    for power in (1, 3):
        with pytest.raises(ValueError, match="PeakRate: power must be even and at least 2"):
            gd.costs.PeakRate(power)
    with pytest.raises(ValueError, match="PeakRate: limits must be positive and finite"):
        gd.costs.PeakRate(limits=[1.0, 0.0])
    too_many = gd.costs.PeakRate(limits=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"PeakRate: limits must be one number or one for each of the 2 .* \(3,\)"):
        gd.cost(FLAT, gd.FourierStroke.circle(0.3), density=too_many)
