"""Bodies that balance forces which are not linear in the velocities: the balance, its derivatives, where it leads."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case
from helpers.laws import check_balance_of_degree_one
from scipy.integrate import quad
from scipy.optimize import minimize

import geodyn as gd
from geodyn._locomotion.connections.force_balance import MeanMetric
from geodyn._locomotion.swimmers.nonlinear_drag import dry_integral, line_integral

CASE = case("E05")
SHAPE, RATE = jnp.array([0.4, -0.9]), jnp.array([1.0, 0.3])
CIRCLE = gd.FourierStroke.circle(1.0)
# The tail sticks to the ground here, while both hinges turn.
STUCK = 0.03515625


def net(body, stroke, steps):
    g = np.asarray(gd.holonomy(body, stroke, steps=steps))
    return np.array([g[0, 2], g[1, 2], np.arctan2(g[1, 0], g[0, 0])])


def power_by_quadrature(r, xi, rdot, mu, power):
    """Of three links of length 1, in the frame of the middle one, from the velocities of their points; by numpy and
    scipy alone."""
    total = 0.0
    for side in (-1, 0, 1):
        hinge = np.array([side / 2, 0.0])
        angle = (-r[0], 0.0, r[1])[side + 1]
        turning = xi[2] + (-rdot[0], 0.0, rdot[1])[side + 1]
        along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
        of_hinge = np.array([xi[0], xi[1]]) + xi[2] * np.array([-hinge[1], hinge[0]])
        v_t, v_n = of_hinge @ along, of_hinge @ across
        low, high = (-0.5, 0.5) if side == 0 else (0.0, float(side)) if side > 0 else (-1.0, 0.0)
        zero = -v_n / turning if turning else low
        inside = [zero] if low < zero < high else None

        def density(s, v_t=v_t, v_n=v_n, turning=turning):
            return ((mu[0] * v_t) ** 2 + (mu[1] * (v_n + turning * s)) ** 2) ** (power / 2)

        total += quad(density, low, high, points=inside, epsabs=1e-12, epsrel=1e-12)[0]
    return total


@pytest.mark.parametrize("e", [-0.45, -0.15, 0.3])
@pytest.mark.parametrize("y, a", [(0.99, 1.0), (1.01, 1.0), (1.0, 1e-2), (-2.0, 0.5)])
def test_integrals_along_a_line(e, y, a):
    """Against scipy's quadrature, 1e-13; derivatives by y, a and e against differences."""
    point = min(abs(a), abs(y)) * np.sign(y)
    known = quad(lambda x: (a * a + x * x) ** e, 0, y, epsabs=1e-14, epsrel=1e-12, points=[point], limit=200)[0]

    def integral(y, a, e):
        return line_integral(y[None], a[None], e)[0]

    numbers = jnp.array(y), jnp.array(a), jnp.array(e)
    np.testing.assert_allclose(integral(*numbers), known, rtol=1e-11)
    for i, slope in enumerate(jax.grad(integral, (0, 1, 2))(*numbers)):
        h = 1e-6 * (1.0 if i == 2 else abs(numbers[i]))
        ends = [integral(*(x + sign * h if i == j else x for j, x in enumerate(numbers))) for sign in (1, -1)]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * h), rtol=1e-6, atol=1e-8)


def test_the_integral_of_dry_friction_is_a_limit():
    y, a = jnp.array([0.3, 2.0, -4.0]), jnp.array([1.0, 0.5, 1e-3])
    np.testing.assert_allclose(dry_integral(y, a), np.arcsinh(y / a), rtol=1e-14)
    nearly = line_integral(y, a, jnp.array(-0.4999))
    np.testing.assert_allclose(dry_integral(y, a), nearly, rtol=2e-3)


@pytest.mark.long
def test_of_degree_two_it_is_the_linear_drag():
    """Velocity and power of `NLink`, with drags 1 and 2: measured 1e-16."""
    body, linear = gd.swimmers.PowerLawLinks(power=2.0), gd.swimmers.NLink([1.0, 1.0, 1.0])
    np.testing.assert_allclose(body.velocity(SHAPE, RATE), linear.velocity(SHAPE, RATE), rtol=1e-13)
    np.testing.assert_allclose(gd.costs.energy(body, SHAPE, RATE), gd.costs.energy(linear, SHAPE, RATE), rtol=1e-13)
    np.testing.assert_allclose(gd.shape_metric(MeanMetric(body), SHAPE), gd.shape_metric(linear, SHAPE), rtol=1e-10)
    np.testing.assert_allclose(gd.efficiency(body, CIRCLE), gd.efficiency(linear, CIRCLE), rtol=1e-10)


@pytest.mark.parametrize(
    "power", [pytest.param(p, marks=[pytest.mark.long] * (p != 1.7)) for p in (1.0, 1.2, 1.7, 2.5)]
)
def test_the_power_is_least(power):
    """Against a quadrature of the velocities of all points by scipy, and its least value by Nelder and Mead."""
    mu = 1.0, 1.4
    body = gd.swimmers.DryLinks(friction=mu)
    if power > 1:
        body = gd.swimmers.PowerLawLinks(drag=np.array(mu) ** power, power=power)
    xi = np.asarray(body.velocity(SHAPE, RATE))

    def powers(xi):
        return power_by_quadrature(SHAPE, xi, RATE, mu, power)

    assert body.dissipation(SHAPE, jnp.asarray(xi), RATE) == pytest.approx(powers(xi), rel=1e-11)
    found = minimize(powers, xi + 0.01, method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-14})
    np.testing.assert_allclose(xi, found.x, atol=2e-6)
    assert powers(xi) <= found.fun + 1e-13


@pytest.mark.long
@pytest.mark.parametrize("body", [gd.swimmers.PowerLawLinks(), gd.swimmers.DryLinks()], ids=["power", "dry"])
def test_the_law(body):
    """Of degree one and odd in r', at rest with the shape; derivatives in both modes against differences: 1e-7."""
    check_balance_of_degree_one(body, SHAPE, RATE, 1e-6)


def test_a_fluid_that_thins_at_some_speed():
    """A linear drag far below the speed, a power law far above; between, a balance of the forces on all points."""
    linear, law = gd.swimmers.NLink([1.0, 1.0, 1.0]), gd.swimmers.PowerLawLinks(drag=[1.0, 2.0**0.7], power=1.4)
    slow, fast = (gd.swimmers.CarreauLinks(speed=speed, power=1.4) for speed in (1e4, 1e-7))
    np.testing.assert_allclose(slow.velocity(SHAPE, RATE), linear.velocity(SHAPE, RATE), rtol=1e-7)
    np.testing.assert_allclose(fast.velocity(SHAPE, RATE), law.velocity(SHAPE, RATE), rtol=1e-7)

    body = gd.swimmers.CarreauLinks(speed=0.5, power=1.4)
    velocities = jnp.array([[0.3, -0.2, 0.9], [0.0, 0.4, 0.01], [-0.1, 0.0, 2.0]])
    for found, (v_t, v_n, turning) in zip(body.forces(velocities), np.asarray(velocities), strict=True):

        def stress(s, across, arm, v_t=v_t, v_n=v_n, turning=turning):
            at = v_n + turning * s
            factor = (1 + (v_t**2 + 2 * at**2) / 0.25) ** -0.3
            return (2 * at if across else v_t) * factor * (s if arm else 1.0)

        known = [quad(stress, -0.5, 0.5, kind, epsabs=1e-14)[0] for kind in ((0, 0), (1, 0), (1, 1))]
        np.testing.assert_allclose(found, known, rtol=1e-12, atol=1e-14)
    assert not np.allclose(body.velocity(SHAPE, 2 * RATE), 2 * body.velocity(SHAPE, RATE), rtol=1e-3)


@pytest.mark.long
def test_it_follows_the_numbers_of_the_body():
    """The derivative of a displacement by the drags, the power and a length, against differences: 1e-6."""

    def moved(drag, power, length):
        lengths = jnp.stack([jnp.ones(()), length, jnp.ones(())])
        body = gd.swimmers.PowerLawLinks(lengths, drag, power)
        return gd.holonomy(body, CIRCLE, steps=32)[0, 2]

    numbers = jnp.array([1.0, 2.0]), jnp.array(1.7), jnp.array(1.1)
    slopes = jax.jit(jax.grad(moved, (0, 1, 2)))(*numbers)
    for i, slope in enumerate(slopes):
        change = 1e-5 * (jnp.array([0.0, 1.0]) if i == 0 else jnp.ones(()))
        ends = [moved(*(x + sign * change if i == j else x for j, x in enumerate(numbers))) for sign in (1, -1)]
        np.testing.assert_allclose(jnp.ravel(slope)[-1], (ends[0] - ends[1]) / 2e-5, rtol=1e-5)


@pytest.mark.parametrize("row", CASE["power_law"]["rows"], ids=lambda row: str(row["power"]))
def test_power_law_against_the_reference(row):
    """A circle, by numpy and scipy alone; the integral over time converges slowly, since links stop sliding along
    themselves at moments. Measured 5e-15 for the degree 2, 5e-9 for 1.7 with 1024 steps."""
    body = gd.swimmers.PowerLawLinks(drag=np.array(row["mu"]) ** row["power"], power=row["power"])
    stroke = gd.FourierStroke.circle(row["radius"], centre=row["centre"])
    np.testing.assert_allclose(net(body, stroke, 1024), row["net"], atol=1e-8)


@pytest.mark.long
@pytest.mark.parametrize("row", CASE["dry_ground"]["rows"])
def test_dry_ground_against_the_reference(row):
    """The reference is right to 1e-4."""
    body = gd.swimmers.DryLinks(friction=row["mu"])
    stroke = gd.FourierStroke.circle(row["radius"], centre=row["centre"])
    np.testing.assert_allclose(net(body, stroke, 512), row["net"], atol=CASE["dry_ground"]["tolerance"])


@pytest.mark.long
def test_a_link_sticks():
    """The tail is at rest, any other motion takes more power, and the derivative is that of a tail at rest."""
    body = gd.swimmers.DryLinks()
    r, rdot = CIRCLE(STUCK), jax.jacfwd(CIRCLE)(STUCK)
    xi = body.velocity(r, rdot)
    np.testing.assert_allclose(body.velocities(r, xi, rdot)[0], 0, atol=1e-14)
    least = power_by_quadrature(r, np.asarray(xi), rdot, (1.0, 2.0), 1.0)
    for direction in np.random.default_rng(0).normal(size=(40, 3)):
        step = 1e-4 * direction / np.linalg.norm(direction)
        assert power_by_quadrature(r, np.asarray(xi) + step, rdot, (1.0, 2.0), 1.0) > least

    def tail(rdot):
        return body.velocities(r, body.velocity(r, rdot), rdot)[0]

    for derivative in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(derivative(tail)(rdot), 0, atol=1e-13)


@pytest.mark.long
def test_links_that_a_locked_hinge_joins_stick_together():
    """With one hinge at rest two links are one body: together they hold what neither of them could alone."""
    straight, rdot = jnp.zeros(2), jnp.array([0.0, 1.0])
    assert np.all(gd.swimmers.DryLinks((2.0, 2.0, 1.0)).velocity(straight, rdot) == 0)
    assert np.any(gd.swimmers.DryLinks((0.1, 2.0, 1.0)).velocity(straight, rdot) != 0)
    assert np.any(gd.swimmers.DryLinks((2.0, 0.1, 1.0)).velocity(straight, rdot) != 0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "rate", "friction"),
    [
        ([1.7082, 1.7067], [-0.074, -0.238], (1.0, 1.0)),
        ([1.919, 1.896], [-1.229, -1.175], (1.0, 2.0)),
        ([-1.73, -1.727], [-0.34, -0.412], (1.0, 0.2)),
    ],
)
def test_a_link_sticks_where_the_slopes_of_friction_are_steep(shape, rate, friction):
    """The power is convex: no velocity near takes less, and one of the links is at rest."""
    body = gd.swimmers.DryLinks(friction=friction)
    r, rdot = jnp.array(shape), jnp.array(rate)
    xi = body.velocity(r, rdot)
    least = body.dissipation(r, xi, rdot)
    near = xi[None] + 1e-6 * np.random.default_rng(0).normal(size=(500, 3))
    assert (jax.vmap(lambda xi: body.dissipation(r, xi, rdot))(near) >= least * (1 - 1e-15)).all()
    speeds = np.abs(body.velocities(r, xi, rdot)).max(axis=1)
    assert speeds.min() < 1e-12 * speeds.max()


@pytest.mark.long
def test_where_a_link_turns_about_a_point_of_itself_there_is_no_derivative():
    """Its friction along itself has an infinite slope there, which no difference resolves: NaN. Where links turn, but
    slide along themselves as well, the derivative is that of differences."""
    body, straight = gd.swimmers.DryLinks(), jnp.zeros(2)
    np.testing.assert_allclose(body.velocity(straight, jnp.ones(2)), [0.0, -0.25, 0.0], atol=1e-15)
    assert np.isnan(jax.jacfwd(body.velocity)(straight, jnp.ones(2))).all()
    assert np.isnan(jax.jacrev(body.velocity)(straight, jnp.ones(2))).all()


LENGTHS, FRICTION, CREEP = np.array([0.8, 1.0, 1.5]), np.array([1.0, 2.0]), 0.07
CREEPS = gd.swimmers.DryLinks(LENGTHS, FRICTION, creep=CREEP)


def creeping_power(r, xi, rdot):
    """∫ √(f² + μ_t² v_t² + μ_n² v_n²) over three links, in the frame of the middle one, by numpy and scipy alone."""
    floor = CREEP * np.mean(LENGTHS) * np.hypot(*rdot) * np.min(FRICTION)
    total = 0.0
    for side, length in zip((-1, 0, 1), LENGTHS, strict=True):
        angle = (-r[0], 0.0, r[1])[side + 1]
        turning = xi[2] + (-rdot[0], 0.0, rdot[1])[side + 1]
        along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
        hinge = np.array([side * LENGTHS[1] / 2, 0.0])
        of_hinge = xi[:2] + xi[2] * np.array([-hinge[1], hinge[0]])
        v_t, v_n = of_hinge @ along, of_hinge @ across + turning * side * length / 2

        def density(s, v_t=v_t, v_n=v_n, turning=turning):
            return np.sqrt(floor**2 + (FRICTION[0] * v_t) ** 2 + (FRICTION[1] * (v_n + turning * s)) ** 2)

        total += quad(density, -length / 2, length / 2, epsabs=1e-12, epsrel=1e-12)[0]
    return total


@pytest.mark.parametrize("rate", [RATE, jnp.array([-0.2, 1.0]), jnp.array([0.0, 1.0])], ids=str)
def test_links_that_creep_move_with_what_is_least(rate):
    """A convex function of the velocity, against its least value by Nelder and Mead."""
    xi = np.asarray(CREEPS.velocity(SHAPE, rate))
    found = minimize(
        lambda xi: creeping_power(SHAPE, xi, rate), xi + 0.01, method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 0}
    )
    np.testing.assert_allclose(xi, found.x, atol=1e-6)


@pytest.mark.parametrize("opposite", [False, True])
def test_forces_on_links_that_creep(opposite):
    """Against a quadrature by scipy of the law that is written down: below the speed s they fall to zero."""
    body = gd.swimmers.DryLinks(LENGTHS, FRICTION, opposite=opposite, creep=CREEP)
    velocities = jnp.array([[0.3, -0.2, 0.9], [0.0, 0.4, 0.01], [1e-4, 0.0, 2.0]])
    turnings = np.asarray(velocities[:, 2])
    slow = CREEP * np.mean(LENGTHS) * np.hypot(*np.diff(turnings))
    for force, length, (v_t, v_n, turning) in zip(
        body.forces(velocities), LENGTHS, np.asarray(velocities), strict=True
    ):

        def stress(s, across, arm, v_t=v_t, v_n=v_n, turning=turning):
            at = v_n + turning * s
            square = (FRICTION[0] * v_t) ** 2 + (FRICTION[1] * at) ** 2
            with_floor = np.sqrt(square + (FRICTION[0] * slow) ** 2)
            if opposite:
                size = with_floor / (v_t**2 + at**2 + slow**2)
                return (at if across else v_t) * size * (s if arm else 1.0)
            own = FRICTION[1] ** 2 * at if across else FRICTION[0] ** 2 * v_t
            return own / with_floor * (s if arm else 1.0)

        known = [
            quad(stress, -length / 2, length / 2, kind, epsabs=1e-13, points=[-v_n / turning] if turning else None)[0]
            for kind in ((0, 0), (1, 0), (1, 1))
        ]
        np.testing.assert_allclose(force, known, rtol=1e-10, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("opposite", [False, True])
def test_the_law_of_links_that_creep(opposite):
    """Of degree one and odd in r'; smooth also where a link would stick, or turn about a point of itself."""
    body = gd.swimmers.DryLinks(opposite=opposite, creep=0.05)
    check_balance_of_degree_one(body, SHAPE, RATE, 1e-5)
    check_balance_of_degree_one(body, CIRCLE(STUCK), jax.jacfwd(CIRCLE)(STUCK), 1e-5)
    assert np.isfinite(jax.jacfwd(body.velocity)(jnp.zeros(2), jnp.ones(2))).all()


@pytest.mark.long
@pytest.mark.parametrize("opposite", [False, True])
def test_the_less_links_creep_the_nearer_they_are_to_the_law_of_coulomb(opposite):
    """In the second order where all of them slide, in the first where one sticks."""
    exact = gd.swimmers.DryLinks(opposite=opposite)

    def error(creep, shape, rate):
        body = gd.swimmers.DryLinks(opposite=opposite, creep=creep)
        return np.max(np.abs(body.velocity(shape, rate) - exact.velocity(shape, rate)))

    for shape, rate, order, creep in (
        (SHAPE, RATE, 2, 1e-4),
        (CIRCLE(STUCK), jax.jacfwd(CIRCLE)(STUCK), 1, 1e-6),
    ):
        larger, smaller = error(creep, shape, rate), error(creep / 2, shape, rate)
        assert 0 < larger < 1e3 * creep**order
        np.testing.assert_allclose(np.log2(larger / smaller), order, atol=0.05)


@pytest.mark.long
def test_it_follows_the_creep():
    """The derivative of a displacement by it, in both modes, against differences."""

    def moved(creep):
        return gd.holonomy(gd.swimmers.DryLinks(creep=creep), CIRCLE, steps=32)[0, 2]

    change = (moved(0.02 + 1e-6) - moved(0.02 - 1e-6)) / 2e-6
    for derivative in (jax.jacfwd, jax.grad):
        np.testing.assert_allclose(jax.jit(derivative(moved))(0.02), change, rtol=1e-7)


def test_small_loops_that_go_back_and_forth_lead_nowhere():
    """The law is odd in r': a way and its reverse cancel, at any pace (the theorem of the scallop)."""
    body = gd.swimmers.PowerLawLinks()

    def reciprocal(t):
        return jnp.stack([1.0, 0.7]) * jnp.cos(2 * jnp.pi * t + 0.4 * jnp.sin(2 * jnp.pi * t))

    np.testing.assert_allclose(gd.holonomy(body, reciprocal, steps=256), np.eye(3), atol=1e-7)


@pytest.mark.long
def test_paths_agree():
    body = gd.swimmers.PowerLawLinks()
    path = gd.path(body, CIRCLE, steps=64)
    dense = gd.bundles.dense_path(body, CIRCLE, steps=64)
    np.testing.assert_allclose(dense(0.25), path[16], atol=1e-12)
    np.testing.assert_allclose(gd.holonomy(body, CIRCLE, steps=64), path[-1], atol=1e-14)


@pytest.mark.weekly
@pytest.mark.long
def test_the_best_stroke_of_degree_two_is_that_of_the_linear_drag():
    """By another program, which knows no connection: cost, price and Wong's equations."""
    method = gd.Direct(harmonics=4, steps=24)
    linear = gd.optimal_stroke(gd.swimmers.NLink([1.0, 1.0, 1.0]), displacement=0.05, method=method)
    found = gd.optimal_stroke(gd.swimmers.PowerLawLinks(power=2.0), linear.stroke, displacement=0.05, method=method)
    np.testing.assert_allclose(found.cost, linear.cost, rtol=1e-9)
    np.testing.assert_allclose(found.multiplier, linear.multiplier, rtol=1e-7)
    np.testing.assert_allclose(found.wong_residual, linear.wong_residual, rtol=1e-3)


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.parametrize("bounds", [None, ([-3.0, -3.0], [3.0, 3.0])], ids=["free", "far from its bounds"])
def test_a_best_stroke_with_corners_is_told(bounds):
    """In a fluid that thins the least of smooth strokes is no optimum: it has a status, and is kept."""
    body = gd.swimmers.PowerLawLinks(power=1.7)
    start = gd.FourierStroke([0.0, 0.0], [[-0.3], [0.48]], [[0.38], [0.1]])
    method = gd.Direct(harmonics=4, steps=48)
    found = gd.optimal_stroke(body, start, displacement=0.045, bounds=bounds, method=method, throw=False)
    assert found.result == gd.RESULTS.has_corners
    assert found.power_variation > 0.05
    assert gd.cost(body, found.stroke) < 1.9


class Beads(gd.bundles.AbstractForceBalance):
    """Two beads on a line, by what resists them."""

    sign: float = 1.0
    constant: float = 0.0
    group: gd.groups.Translation = gd.groups.Translation(1)

    def resistance(self, r, xi, rdot):
        first = xi + self.constant * jnp.tanh(xi)
        return self.sign * (first + xi + rdot)


class Slow(Beads):
    depends_on_pace = True


class Two(Beads):
    def resistance(self, r, xi, rdot):
        return jnp.ones(2)


class Thinning(gd.bundles.AbstractForceBalance):
    """Two beads on a line by the power that they dissipate, whose slope is infinite where one rests."""

    drag: float = 2.0
    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        return jnp.abs(xi[0]) ** 1.5 + self.drag * jnp.abs(xi[0] + rdot[0]) ** 1.5

    def guess(self, r, rdot):
        return jnp.zeros(1)


class Oblique(gd.bundles.AbstractForceBalance):
    """A body that drags linearly, by drags along and across itself and against turning."""

    drags: tuple[float, float, float]
    group: gd.groups.SE2 = gd.groups.SE2()

    def resistance(self, r, xi, rdot):
        return jnp.array(self.drags) * (xi + jnp.sin(r[0]) * jnp.stack([rdot[1], rdot[0], rdot[1]]))


LINE = gd.strokes.OpenStroke([0.0], [1.0], [[0.0]])


def test_a_start_with_an_infinite_slope_is_no_root():
    """There a step of Newton's is 0, which must not count as the end: NaN, where the root −0.8 was not looked for."""
    assert np.isnan(Thinning().velocity(jnp.zeros(1), jnp.ones(1))).all()


def test_a_body_by_its_resistance():
    """It has a way, and costs nothing that it could say."""
    assert gd.holonomy(Beads(), LINE)[0, 1] == pytest.approx(-0.5)
    with pytest.raises(ValueError, match="Beads does not say what power it dissipates"):
        gd.cost(Beads(), LINE)


def test_a_body_whose_pace_matters():
    """It is refused unless it says so; then the velocity is where the forces balance at this pace."""
    with pytest.raises(ValueError, match="the pace matters"):
        gd.holonomy(Beads(constant=1.0), LINE)
    xi = Slow(constant=1.0).velocity(jnp.zeros(1), jnp.ones(1))
    assert np.tanh(xi[0]) + 2 * xi[0] + 1 == pytest.approx(0, abs=1e-14)
    assert np.isfinite(gd.holonomy(Slow(constant=1.0), LINE)).all()


class Powered(gd.bundles.AbstractForceBalance):
    """A body on a line, of two shape variables, whose power is given."""

    power: Callable = eqx.field(static=True)
    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        return self.power(r, xi[0], rdot)


class Forced(gd.bundles.AbstractForceBalance):
    """The same, whose force is given."""

    force: Callable = eqx.field(static=True)
    group: gd.groups.Translation = gd.groups.Translation(1)

    def resistance(self, r, xi, rdot):
        return self.force(r, xi, rdot)


def power_between(r, xi, rdot):
    """Of degree 2, positive, and less at ξ = ±r₁' than between."""
    return (xi**2 - rdot[0] ** 2) ** 2 / (xi**2 + rdot @ rdot)


WRONG = {
    "not convex": (
        lambda: gd.holonomy(Powered(power_between), CIRCLE),
        r"Powered: the dissipation at r = .* is not convex in the velocities .*define resistance",
    ),
    "not convex and a cost": (
        lambda: gd.cost(Powered(power_between), CIRCLE),
        r"Powered: the dissipation at r = .* is not convex in the velocities",
    ),
    "pulls": (
        lambda: gd.cost(Powered(lambda r, xi, rdot: (xi + rdot[0]) ** 2 - rdot @ rdot), CIRCLE),
        r"Powered: the dissipation at r = .* is negative, -0\.\d+ for some velocity: forces that dissipate take power",
    ),
    "a power that is none": (
        lambda: gd.holonomy(Powered(lambda r, xi, rdot: xi**2 + rdot @ rdot * jnp.log(r[0] - 5.0)), CIRCLE),
        r"Powered: the dissipation at r = .* is nan for the velocity ξ = .* a logarithm",
    ),
    "a force that is none": (
        lambda: gd.holonomy(Forced(lambda r, xi, rdot: xi + jnp.sqrt(r[:1]) * rdot[:1]), CIRCLE),
        r"Forced: the resistance at r = \[-.* is \[nan\] for the velocity .* must keep away from it; else a root",
    ),
    "no balance": (
        lambda: gd.holonomy(Forced(lambda r, xi, rdot: jnp.sign(xi) + 10 * rdot[:1]), CIRCLE),
        r"Forced: no velocity was found at which the forces balance, at r = .* define guess",
    ),
    "pushes": (lambda: gd.holonomy(Beads(sign=-1.0), LINE), "pushes the body instead of resisting it"),
    "pushes aside": (
        lambda: gd.holonomy(Oblique((1.0, -0.2, 1.0)), CIRCLE),
        "pushes the body instead of resisting it: force times velocity is -0.2",
    ),
    "two forces": (lambda: gd.holonomy(Two(), LINE), r"resistance must have the shape \(1,\)"),
    "a power": (lambda: gd.swimmers.PowerLawLinks(power=1.0), "power must be from 1.001 to 2.999, got 1.0"),
    "one drag": (lambda: gd.swimmers.PowerLawLinks(drag=[1.0, 2.0, 3.0]), "drag"),
    "no friction": (lambda: gd.swimmers.DryLinks(friction=[0.0, 1.0]), "friction must be positive"),
    "one link": (lambda: gd.swimmers.DryLinks([1.0]), "lengths must be two numbers or more"),
    "no creep": (lambda: gd.swimmers.DryLinks(creep=0.0), "above 0 and below 1, got 0.0; without creep= links stick"),
    "only creep": (lambda: gd.swimmers.DryLinks(creep=1.0), "creep must be above 0 and below 1, got 1.0"),
    "curvature": (lambda: gd.curvature(gd.swimmers.DryLinks(), [0.1, 0.2]), "swimmer"),
    "no towing": (
        lambda: gd.efficiency(gd.swimmers.CarreauLinks(), CIRCLE),
        "the power of CarreauLinks depends on the pace",
    ),
    "one pace": (
        lambda: gd.optimal_stroke(gd.swimmers.DryLinks(), displacement=0.1),
        "is the same at any pace, since its forces do not depend on the speed",
    ),
    "one pace of a family": (
        lambda: gd.stroke_family(gd.swimmers.DryLinks(), [0.5, 0.5], interval=(0.02, 0.04)),
        "^stroke_family: the energy of DryLinks is the same at any pace.*Seek one stroke after the other",
    ),
    "one pace of a map": (
        lambda: gd.stroke_map(gd.swimmers.DryLinks(), [0.5, 0.5], displacement=[0.02, 0.04], turn=[0.0, 0.02]),
        "^stroke_map: the energy of DryLinks is the same at any pace.*Seek one stroke after the other",
    ),
    "one pace of many": (
        lambda: gd.optimal_strokes(gd.swimmers.GranularLinks(), displacement=0.1, region=([-1, -1], [1, 1])),
        "^optimal_strokes: the energy of GranularLinks is the same at any pace.*Seek one stroke after the other",
    ),
    "a method": (
        lambda: gd.optimal_stroke(gd.swimmers.PowerLawLinks(), displacement=0.1, method=gd.Wong()),
        "which has no connection",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input(name):
    call, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        call()
