"""Best strokes with corners: a body for which they are known in closed form, and a fluid that thins."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import geodyn as gd
from geodyn._control.problem.variation import variations

METHOD = gd.Direct(harmonics=4, steps=12, corners=3)
START = gd.strokes.PolygonStroke([[0.0, 0.0], [1.0, 0.1], [0.3, 0.9]])
DISPLACEMENT = 0.5


class ThreeWays(gd.bundles.AbstractForceBalance):
    """A body whose shape is a point of the plane, and which moves by −c cos³α of the way of that point in the direction
    α: as cos 3α adds up to it round a closed way, and cos α to nothing, the best way of the length L is the triangle
    with sides along 60°, 180° and 300°, and leads to c L/4. At a constant pace it costs L²."""

    factor: float | jax.Array = 1.0
    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        square = rdot @ rdot
        moves = self.factor * rdot[0] ** 3 / jnp.where(square > 0, square, 1.0)
        return (xi[0] + moves) ** 2 + square


@pytest.fixture(scope="module")
def triangle():
    return gd.optimal_stroke(ThreeWays(), START, displacement=DISPLACEMENT, method=METHOD)


@pytest.mark.long
def test_the_best_triangle(triangle):
    np.testing.assert_allclose(triangle.cost, 16 * DISPLACEMENT**2, rtol=1e-12)
    np.testing.assert_allclose(triangle.multiplier, 32 * DISPLACEMENT, rtol=1e-12)
    sides = np.roll(triangle.stroke.knots, -1, axis=0) - triangle.stroke.knots
    np.testing.assert_allclose(np.hypot(*sides.T), 4 * DISPLACEMENT / 3, rtol=1e-9)
    np.testing.assert_allclose(np.sort(np.abs(sides[:, 0])), 4 * DISPLACEMENT / 3 * np.array([0.5, 0.5, 1]), rtol=1e-9)
    assert triangle.power_variation < 1e-9
    smallest, flat = triangle.second_variation
    assert smallest > 0.1
    assert flat == 2  # It can lie anywhere in the plane.


@pytest.mark.long
def test_too_few_corners():
    """Two pieces do not make a triangle: what is said does not advise the number of corners that was asked for."""
    with pytest.raises(gd.StrokeError, match=r"another number of corners= than 2 or more harmonics="):
        gd.optimal_stroke(
            ThreeWays(), START, displacement=DISPLACEMENT, method=gd.Direct(harmonics=2, steps=12, corners=2)
        )


@pytest.mark.long
def test_what_is_said_of_it_is_so_of_the_stroke(triangle):
    body, stroke = ThreeWays(), triangle.stroke
    np.testing.assert_allclose(gd.cost(body, stroke), triangle.cost, rtol=1e-9)
    np.testing.assert_allclose(gd.holonomy(body, stroke)[0, 1], DISPLACEMENT, rtol=1e-9)
    gd.strokes.check_closed(stroke)


@pytest.mark.long
def test_its_derivatives(triangle):
    """Those of 16 D²/c²; the length of a side is 4 D/(3 c)."""

    def cost_and_side(factor, displacement):
        body = ThreeWays(factor)
        best = gd.optimal_stroke(body, triangle.stroke, displacement=displacement, method=METHOD)
        side = best.stroke.knots[1] - best.stroke.knots[0]
        return best.cost, jnp.sqrt(side @ side)

    at = jnp.array(1.0), jnp.array(DISPLACEMENT)
    by_factor, by_displacement = jax.jit(jax.jacfwd(cost_and_side, (0, 1)))(*at)
    np.testing.assert_allclose(by_factor[0], -32 * DISPLACEMENT**2, rtol=1e-9)
    np.testing.assert_allclose(by_factor[1], 32 * DISPLACEMENT, rtol=1e-9)
    np.testing.assert_allclose(by_displacement[0], -4 * DISPLACEMENT / 3, rtol=1e-8)
    np.testing.assert_allclose(by_displacement[1], 4 / 3, rtol=1e-8)


@pytest.mark.long
def test_it_comes_back_from_a_file(triangle, tmp_path):
    triangle.save(tmp_path / "triangle.npz")
    again = gd.strokes.load_stroke(tmp_path / "triangle.npz", ThreeWays())
    assert eqx.tree_equal(again.stroke, triangle.stroke)
    assert again.second_order == triangle.second_order


@pytest.mark.long
def test_variations_of_unequal_pieces(triangle):
    """Those in closed form beside automatic derivatives of the whole problem, away from the optimum."""
    problem = triangle.evidence.problem
    uneven = gd.strokes.SequenceStroke([[0.1, 0.0], [1.0, 0.2], [0.3, 0.7]], 0.1 * np.ones((3, 2, 2)))
    flat, unravel = ravel_pytree(uneven)
    weights = jnp.array([1.0, -0.7])

    def values_at(flat):
        cost, held, gaps = problem.plain(unravel(flat))
        return jnp.concatenate([cost[None], held, gaps])

    values, jacobian, hessian = variations(problem, uneven, weights)
    np.testing.assert_allclose(values, values_at(flat), rtol=1e-12)
    np.testing.assert_allclose(jacobian, jax.jacrev(values_at)(flat), rtol=0, atol=1e-11)
    by_autodiff = jax.hessian(lambda flat: weights @ values_at(flat))(flat)
    np.testing.assert_allclose(hessian, by_autodiff, rtol=0, atol=1e-10 * float(jnp.max(jnp.abs(by_autodiff))))


def test_pieces_that_take_their_times():
    """The same way as with equal times, at the times of the knots and between them."""
    random = np.random.default_rng(0)
    even = gd.strokes.SequenceStroke(random.normal(size=(3, 2)), random.normal(size=(3, 2, 2)))
    own = dataclasses.replace(even, widths=[0.5, 0.2, 0.3])
    times, places = np.array([0.0, 0.25, 0.5, 0.6, 0.7, 0.85]), np.array([0, 1 / 6, 1 / 3, 1 / 2, 2 / 3, 5 / 6])
    np.testing.assert_allclose(jax.vmap(own)(times), jax.vmap(even)(places), rtol=0, atol=1e-14)
    np.testing.assert_allclose(own.breaks, [0.0, 0.5, 0.7], rtol=0, atol=1e-15)
    with pytest.raises(ValueError, match=r"widths must have shape \[N\] with N = 3"):
        dataclasses.replace(even, widths=[0.5, 0.5])
    for none in ([0.5, 0.5, 0.5], [1.2, -0.5, 0.3]):
        with pytest.raises(ValueError, match="SequenceStroke: widths must be positive and 1 together, got"):
            dataclasses.replace(even, widths=none)
    for stroke in (even, own):
        np.testing.assert_allclose(stroke(1.6), stroke(0.6), rtol=0, atol=1e-13)
        np.testing.assert_allclose(stroke(-0.9), stroke(0.1), rtol=0, atol=1e-13)


THINS = gd.swimmers.PowerLawLinks((1 / 3, 1 / 3, 1 / 3), power=1.3)
NEAR = gd.strokes.PolygonStroke([[0.91, -0.45], [0.24, -0.24], [0.45, -0.91]])


@pytest.mark.long
def test_corners_in_a_fluid_that_thins():
    """No smooth stroke is the best one there. With corners the pieces take the times at which the power is the same in
    all of them, and the slope of the cost is that of neighbours."""
    corners = gd.Direct(harmonics=9, steps=48, corners=3)
    best = gd.optimal_stroke(THINS, NEAR, displacement=0.03, method=corners)
    assert best.kkt_residual < 1e-10
    assert best.second_order > 0
    assert best.power_variation < 0.05
    assert np.ptp(best.stroke.widths) > 0.1
    np.testing.assert_allclose(gd.cost(THINS, best.stroke, steps=240), best.cost, rtol=1e-5)
    costs = []
    for displacement in (0.03001, 0.02999):
        again = gd.optimal_stroke(THINS, best.stroke, displacement=displacement, method=corners)
        costs.append(again.cost)
    np.testing.assert_allclose((costs[0] - costs[1]) / 2e-5, best.multiplier, rtol=1e-5)


THREE, DRY_WAY = (1 / 3, 1 / 3, 1 / 3), 0.03
TRIANGLE = gd.strokes.PolygonStroke([[-1.0, 0.4], [-0.3, 0.1], [-0.5, 0.8]])
EVENLY = gd.Direct(harmonics=9, steps=48, corners=3)


def squared_power(body, r, rdot):
    return gd.costs.energy(body, r, rdot) ** 2


def crawl(creep, guess, method=EVENLY):
    """The best stroke of three links that creep on dry ground."""
    body = gd.swimmers.DryLinks(THREE, creep=creep)
    return gd.optimal_stroke(body, guess, displacement=DRY_WAY, method=method, density=squared_power)


@pytest.mark.long
def test_best_strokes_on_dry_ground():
    """By Coulomb's law alone scipy's SLSQP came to the work 0.184992, from the stroke for the creep 6e-5, for sides of
    four terms; for straight sides it is 0.18885 (lesson 21). With creep that goes to nothing the work falls to this,
    and so does what the strokes cost by Coulomb's law, when they are made to lead as far by dE/dD."""
    known = 0.184992
    exact = gd.swimmers.DryLinks(THREE)
    guess = TRIANGLE
    works, of_coulomb = [], []
    for creep in (4e-3, 1e-3, 2.5e-4, 6.25e-5):
        best = crawl(creep, guess)
        assert best.kkt_residual < 2e-11
        assert best.second_order > 0.02
        assert best.power_variation < 0.02
        guess = best.stroke
        work = np.sqrt(best.cost)
        works.append(work)
        spent = gd.cost(exact, guess, steps=960)
        moved = np.linalg.norm(gd.holonomy(exact, guess, steps=960)[:2, 2])
        of_coulomb.append(spent - best.multiplier / (2 * work) * (moved - DRY_WAY))
    assert np.all(np.diff(works) < 0) and np.all(np.diff(of_coulomb) < 0)
    assert known < of_coulomb[-1] < works[-1] < 0.1851
    # What remains falls by about the same factor each time.
    for values in (works, of_coulomb):
        first, second = np.diff(values[1:])
        np.testing.assert_allclose(values[-1] - second**2 / (second - first), known, rtol=1.5e-4)


@pytest.mark.long
def test_the_best_work_on_dry_ground_follows_the_friction():
    """Its derivative, by the implicit-function theorem, against a difference."""
    near = crawl(1e-3, crawl(4e-3, TRIANGLE).stroke).stroke

    @jax.jit
    @jax.value_and_grad
    def work(across):
        body = gd.swimmers.DryLinks(THREE, jnp.stack([jnp.ones(()), across]), creep=1e-3)
        best = gd.optimal_stroke(body, near, displacement=DRY_WAY, method=EVENLY, density=squared_power)
        return jnp.sqrt(best.cost)

    slope = work(2.0)[1]
    change = (work(2.001)[0] - work(1.999)[0]) / 0.002
    np.testing.assert_allclose(slope, change, rtol=1e-5)


@pytest.mark.long
def test_few_steps_do_not_pass_for_a_best_stroke():
    """From a triangle far away the search ends at one whose power jumps between the nodes of the quadrature."""
    guess = gd.strokes.PolygonStroke(np.random.default_rng(0).uniform(-1.2, 1.2, size=(3, 2)))
    with pytest.raises(gd.StrokeError, match="the power of the stroke differs from its mean by"):
        crawl(3e-3, guess)


@pytest.mark.long
@pytest.mark.parametrize(
    "parts, message",
    [
        ([0.001], r"has shrunk to 0\.0\d* % of the stroke: ask for fewer corners="),
        ([0.5], r"of its 4 corners it turns by 0\.0° only.*ask for fewer corners="),
        ([], "^((?!fewer corners).)*$"),
    ],
)
def test_more_corners_than_needed(parts, message):
    """The best triangle with another corner in one of its sides, and a tolerance that no search can meet."""
    side = 4 * DISPLACEMENT / 3
    top = [side / 2, np.sqrt(3) / 2 * side]
    between = [np.multiply(part, top) for part in parts]
    knots = np.array([[0.0, 0.0], *between, top, [side, 0.0]])
    method = gd.Direct(harmonics=4, steps=12, corners=len(knots), max_iterations=3, tolerance=1e-30)
    body = ThreeWays(-1.0)
    with pytest.raises(gd.StrokeError, match=message):
        gd.optimal_stroke(body, gd.strokes.PolygonStroke(knots), displacement=DISPLACEMENT, method=method)


class Caterpillar(gd.bundles.AbstractForceBalance):
    """It moves with the way of its second shape variable, and sticks to the ground while the first one grows."""

    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        return (xi[0] - rdot[1]) ** 2 + rdot @ rdot

    def held(self, r, rdot):
        return rdot[0] > 0, jnp.zeros(1)


@pytest.mark.long
def test_a_body_that_sticks_is_told_of_creep():
    method = gd.Direct(harmonics=4, steps=12, corners=3, max_iterations=1, tolerance=1e-30)
    with pytest.raises(gd.StrokeError, match=r"stick to the ground along it.*by which they creep"):
        gd.optimal_stroke(Caterpillar(), START, displacement=DISPLACEMENT, method=method)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"method": gd.Direct(corners=1)}, "corners of the method must be at least 2, got 1"),
        ({"base": [0.0, 0.0]}, "base= goes with a stroke without other corners"),
        ({"rates": [1.0, 1.0]}, "rates= goes with a stroke without other corners"),
        ({"density": lambda body, r, u: jnp.sqrt(u @ u)}, "a density of one degree above 1 in the rates"),
        ({"density": lambda body, r, u: u @ u + (u @ u) ** 2}, "a density of one degree above 1 in the rates"),
    ],
)
def test_what_goes_without_corners(wrong, message):
    given = {"displacement": DISPLACEMENT, "method": METHOD} | wrong
    with pytest.raises(ValueError, match=message):
        gd.optimal_stroke(ThreeWays(), START, **given)


@pytest.mark.long
def test_inside_jit_a_density_of_no_degree_is_no_success():
    @jax.jit
    def search(factor):
        def density(body, r, u):
            return factor * (u @ u + (u @ u) ** 2)

        best = gd.optimal_stroke(ThreeWays(), START, displacement=DISPLACEMENT, density=density, method=METHOD)
        return best.cost, best.result

    cost, result = search(1.0)
    assert np.isnan(cost)
    assert result != gd.RESULTS.successful


def test_searches_for_smooth_strokes_refuse_corners():
    purcell = gd.swimmers.Purcell()
    with pytest.raises(ValueError, match="stroke_map: method has 3 corners"):
        gd.stroke_map(purcell, displacement=[0.1, 0.2], turn=[0.1, 0.2], method=METHOD)
    with pytest.raises(ValueError, match="stroke_family: method has 3 corners"):
        gd.stroke_family(purcell, interval=(0.1, 0.2), method=METHOD)
    with pytest.raises(ValueError, match="plan: method has 3 corners"):
        gd.plan(purcell, gd.groups.pose(purcell.group, [0.1, 0.0, 0.0]), method=METHOD)
