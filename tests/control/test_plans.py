"""Plans: from a pose to a pose, past obstacles."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._control.plans.loops import best_loops, loops_of
from geodyn._control.plans.route import Route, best_routes
from geodyn._control.problem.problem import wong_residual

PURCELL = gd.swimmers.Purcell()
SE2 = PURCELL.group
POSE = SE2.exp(jnp.array([0.25, 0.1, 0.4]))
STRAIGHT = [0.0, 0.0]


class Planimeter(gd.AbstractConnection):
    """It moves by the area that its shape goes round."""

    group: gd.groups.Translation = gd.groups.Translation(1)

    def form(self, r):
        return jnp.stack([-r[1], r[0]])[None] / 2


def disc(g, r):
    """The gap between the origin of the body's frame and a disc."""
    apart = g[:2, 2] - jnp.array([0.4, -0.1])
    return jnp.sqrt(jnp.sum(apart**2)) - 0.12


@pytest.fixture(scope="module")
def free():
    return gd.plan(PURCELL, POSE, base=STRAIGHT, loops=3)


def test_a_plan_in_closed_form():
    """The isoperimetric problem: once round the area 1/2 by a circle, whose energy is 4π/2."""
    body = gd.bundles.KaluzaKlein(Planimeter())
    plan = gd.plan(body, body.group.exp(jnp.array([0.5])), base=[0.2, 0.1], loops=2)
    np.testing.assert_allclose(plan.cost, 2 * np.pi, rtol=1e-7)
    np.testing.assert_allclose(plan.multiplier, [4 * np.pi], rtol=1e-6)
    assert plan.successful
    assert plan.route_cost > plan.cost


@pytest.mark.float32
@pytest.mark.long
def test_a_plan_arrives_in_single_precision_too(free):
    """To half of the digits, on other steps than those of the search."""
    reached = gd.holonomy(PURCELL, free.stroke, steps=400)
    precision = max(1e-6, np.sqrt(np.finfo(reached.dtype).eps))
    assert free.successful
    np.testing.assert_allclose(reached, POSE, rtol=0, atol=precision)


class Thinning(gd.bundles.AbstractForceBalance):
    """It moves as the planimeter, by the least of a power that is no square of the velocities."""

    power: float
    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        slip = xi[0] + (r[0] * rdot[1] - r[1] * rdot[0]) / 2
        return (slip**2 + rdot @ rdot) ** (self.power / 2)


def power_squared(body, r, rdot):
    """A cost that is least at a constant power."""
    return gd.costs.energy(body, r, rdot) ** 2


@pytest.mark.long
@pytest.mark.parametrize("power, density", [(1.5, gd.costs.energy), (1.0, power_squared)], ids=["thins", "dry"])
def test_a_plan_without_a_connection(power, density):
    """The circle round the area 1/2 has the length √(2π): its cost is that to the power of the density."""
    body = Thinning(power)
    plan = gd.plan(body, body.group.exp(jnp.array([0.5])), base=[0.2, 0.1], density=density, loops=2)
    degree = 1.5 if power == 1.5 else 2.0
    np.testing.assert_allclose(plan.cost, (2 * np.pi) ** (degree / 2), rtol=1e-7)
    np.testing.assert_allclose(gd.holonomy(body, plan.stroke, steps=1024)[0, 1], 0.5, rtol=0, atol=1e-9)
    assert plan.successful


@pytest.mark.long
def test_loops_without_a_connection():
    """Backwards this body returns, as the one with a connection does, round the areas of its loops."""
    box = (jnp.full(2, -1.0), jnp.full(2, 1.0))
    loops = best_loops(Thinning(1.5), jnp.zeros(2), box, box, 0)
    count = len(loops.outlines)
    moves = loops.displacements[:, 0, 1]
    # The area of a curve x + iy = Σ c_k exp(ikφ) is π Σ k |c_k|².
    waves = np.fft.fft(loops.outlines[:, :, 0] + 1j * loops.outlines[:, :, 1], axis=1) / loops.outlines.shape[1]
    wavenumbers = np.fft.fftfreq(loops.outlines.shape[1], 1 / loops.outlines.shape[1])
    areas = np.pi * np.abs(waves) ** 2 @ wavenumbers
    np.testing.assert_allclose(moves[:count], -areas, rtol=0, atol=1e-6)
    np.testing.assert_allclose(moves[count:], areas, rtol=0, atol=1e-6)


SNAKE = gd.swimmers.KinematicSnake()
LINKS = gd.swimmers.NLink(SNAKE.lengths)


def friction(r):
    """The power of friction in the hinges, and of the wheels of each link that roll."""
    x, y, heading = LINKS.links(r).T
    way = jnp.stack([jnp.cos(heading), jnp.sin(heading)])

    def rolling(rdot):
        xdot, ydot, _ = jax.jvp(LINKS.links, (r,), (rdot,))[1].T
        u, v, turning = -SNAKE.form(r) @ rdot
        return jnp.sum(way * jnp.stack([u - turning * y + xdot, v + turning * x + ydot]), axis=0)

    rolls = jax.jacfwd(rolling)(jnp.zeros_like(r))
    return jnp.eye(2) + rolls.T @ rolls


BODIES = {
    "Purcell": (PURCELL, ([-2.0, -2.0], [2.0, 2.0])),
    "fluid": (gd.swimmers.FluidLinks(), ([-2.0, -2.0], [2.0, 2.0])),
    "crawler": (gd.bundles.KaluzaKlein(SNAKE, friction), ([0.05, -2.5], [2.5, -0.05])),
}


@pytest.mark.long
@pytest.mark.weekly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("name", BODIES)
def test_random_poses_are_reached(name, which):
    """On finer steps than those of the plan, which is refined from its own stroke."""
    body, bounds = BODIES[name]
    finer = gd.Direct(harmonics=4, steps=64)
    poses = np.random.default_rng(0).uniform([-0.5, -0.5, -1.0], [0.5, 0.5, 1.0], (3, 3))
    pose = gd.groups.pose(body.group, poses[which])
    rough = gd.plan(body, pose, bounds=bounds)
    plan = gd.plan(body, pose, bounds=bounds, guess=rough.stroke, method=finer)
    steps = 128 * plan.stroke.coefficients.shape[0]
    np.testing.assert_allclose(gd.holonomy(body, plan.stroke, steps=steps), pose, rtol=0, atol=1e-9)


@pytest.mark.long
def test_a_plan_is_an_optimal_stroke(free):
    """`gd.optimal_stroke` finds the same from the plan, by one series for the whole curve."""
    np.testing.assert_allclose(gd.holonomy(PURCELL, free.stroke, steps=1024), POSE, rtol=0, atol=1e-9)
    assert free.successful
    assert free.kkt_residual < 1e-10
    assert free.room == np.inf
    assert free.gap == np.inf
    smooth = gd.Direct(harmonics=20, steps=96)
    one = gd.optimal_stroke(PURCELL, free.stroke, displacement=SE2.log(POSE), base=STRAIGHT, method=smooth)
    np.testing.assert_allclose(free.cost, one.cost, rtol=1e-5)
    np.testing.assert_allclose(free.charge, one.charge, rtol=0, atol=1e-2 * float(jnp.max(jnp.abs(one.charge))))


@pytest.mark.long
def test_derivatives_of_a_plan(free):
    """By the implicit-function theorem, beside differences and the multiplier, from the plan as a guess, inside jit."""

    @jax.jit
    def least(move, lengths):
        body = gd.swimmers.Purcell(lengths=lengths)
        pose = SE2.compose(POSE, SE2.exp(move))
        return gd.plan(body, pose, base=STRAIGHT, guess=free.stroke).cost

    at = jnp.zeros(3), PURCELL.lengths
    np.testing.assert_allclose(least(*at), free.cost, rtol=1e-12)
    slopes = jax.grad(least, (0, 1))(*at)
    np.testing.assert_allclose(slopes[0], free.multiplier, rtol=1e-6)
    h = 1e-4
    for which, direction in ((0, jnp.array([0.3, -0.5, 0.8])), (1, jnp.array([1.0, -0.4, 0.2]))):
        ends = []
        for sign in (1, -1):
            moved = list(at)
            moved[which] = at[which] + sign * h * direction
            ends.append(least(*moved))
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * h), slopes[which] @ direction, rtol=1e-5)


@pytest.mark.long
def test_derivatives_outside_of_jit(free):
    """There a search that fails can be raised."""

    def least(move, most):
        few = gd.Direct(harmonics=4, steps=24, max_iterations=most)
        pose = SE2.compose(POSE, SE2.exp(move))
        return gd.plan(PURCELL, pose, base=STRAIGHT, guess=free.stroke, method=few).cost

    np.testing.assert_allclose(jax.grad(least)(jnp.zeros(3), 100), free.multiplier, rtol=1e-6)
    with pytest.raises(gd.StrokeError, match="the limit of iterations was reached"):
        jax.grad(least)(jnp.array([0.5, 0.0, 0.0]), 1)


@pytest.mark.long
def test_inside_jit_a_pose_that_is_none_is_no_success(free):
    """A turn that stretches, which the coordinates of the rest of the way do not see."""

    def cost_and_end(pose):
        plan = gd.plan(PURCELL, pose, base=STRAIGHT, guess=free.stroke)
        return plan.cost, plan.result

    (cost, result), slope = jax.jit(jax.value_and_grad(cost_and_end, has_aux=True))(POSE.at[:2, :2].multiply(1.1))
    assert result != gd.RESULTS.successful
    assert np.isnan(cost)
    assert np.isnan(slope[:2]).all()  # Nothing is read from the last row.


@pytest.mark.long
def test_obstacles_are_kept_clear_of(free):
    """The way without them would touch the disc; the plan touches it in one point, and costs more."""
    poses = gd.path(PURCELL, free.stroke, steps=400)
    assert min(disc(g, None) for g in poses) < -0.01
    plan = gd.plan(PURCELL, POSE, base=STRAIGHT, guess=free.stroke, obstacles=disc)
    assert plan.successful
    assert plan.kkt_residual < 1e-10
    assert -3e-4 < plan.gap < 1e-3
    assert plan.cost > free.cost
    np.testing.assert_allclose(gd.holonomy(PURCELL, plan.stroke, steps=1024), POSE, rtol=0, atol=1e-8)
    # Wong's equations hold behind the obstacle, with the charge there. Measured 0.38, at the end of the polynomial that
    # bends at the obstacle, and 0.84 all along.
    assert plan.wong_residual < 0.5
    unaware = dataclasses.replace(plan.evidence.problem, obstacles=None)
    assert wong_residual(unaware, plan.evidence.x, plan.charge) > 0.7


@pytest.mark.long
def test_derivatives_by_what_obstacles_close_over(free):
    """Beside differences; nothing of the pose or the body changes."""

    def least(radius):
        def gap(g, r):
            return disc(g, r) + 0.12 - radius

        return gd.plan(PURCELL, POSE, base=STRAIGHT, guess=free.stroke, obstacles=gap).cost

    slope = jax.jit(jax.grad(least))(0.12)
    assert slope > 0.1
    h = 1e-4
    difference = (least(0.12 + h) - least(0.12 - h)) / (2 * h)
    np.testing.assert_allclose(slope, difference, rtol=1e-4)
    np.testing.assert_allclose(jax.grad(least)(0.12), slope, rtol=1e-9)


@pytest.mark.long
def test_a_route_goes_round_obstacles():
    """The route keeps clear of the disc, and so does the plan, which need not touch it."""
    plan = gd.plan(PURCELL, POSE, base=STRAIGHT, loops=4, obstacles=disc)
    assert plan.successful
    assert plan.gap > -3e-4
    assert plan.cost < plan.route_cost


@pytest.mark.long
def test_what_is_jumped_over_is_no_success(free):
    """A wall across the way, thinner than a step."""

    def wall(g, r):
        return jnp.abs(g[1, 2] + 0.15) - 0.004

    plan = gd.plan(PURCELL, POSE, base=STRAIGHT, guess=free.stroke, obstacles=wall, throw=False)
    assert plan.result == gd.RESULTS.obstructed
    with pytest.raises(gd.StrokeError, match="but not between them"):
        gd.plan(PURCELL, POSE, base=STRAIGHT, guess=free.stroke, obstacles=wall)


@pytest.mark.long
@pytest.mark.weekly
def test_poses_anywhere():
    """Also half a turn away, where the logarithm jumps, from a start that is not the identity, between two shapes, and
    in other groups."""
    start = gd.groups.pose(SE2, [1.0, -2.0, 0.7])
    pose = SE2.compose(start, gd.groups.pose(SE2, [0.1, 0.2, np.pi - 1e-3]))
    plan = gd.plan(PURCELL, pose, start=start, ends=([0.3, -0.2], [0.0, 0.5]))
    reached = SE2.compose(start, gd.holonomy(PURCELL, plan.stroke, steps=1024))
    np.testing.assert_allclose(reached, pose, rtol=0, atol=1e-8)
    np.testing.assert_allclose(plan.stroke(0.0), [0.3, -0.2], rtol=1e-14)
    np.testing.assert_allclose(plan.stroke(1.0), [0.0, 0.5], rtol=1e-14)
    satellite = gd.swimmers.Satellite()
    turn = satellite.group.exp(jnp.array([0.4, -0.2, 0.3]))
    plan = gd.plan(satellite, turn, base=STRAIGHT)
    np.testing.assert_allclose(gd.holonomy(satellite, plan.stroke, steps=1024), turn, rtol=0, atol=1e-8)


@pytest.mark.long
def test_loops_are_what_they_say():
    """Displacements and shapes are those of the loops, forwards and backwards; routes are their products."""
    box = (jnp.full(2, -2.0), jnp.full(2, 2.0))
    loops = best_loops(PURCELL, jnp.zeros(2), box, box, 0)
    count = len(loops.outlines)
    for i in (0, count + 1):
        kept = jnp.asarray(np.concatenate([loops.outline(i), loops.home[None]]))
        stroke = gd.FourierStroke.fit(
            lambda t, r=kept: jnp.stack([jnp.interp(t, jnp.arange(65) / 64, x) for x in r.T]), 4
        )
        np.testing.assert_allclose(loops.displacements[i], gd.holonomy(PURCELL, stroke), rtol=0, atol=2e-3)
        np.testing.assert_allclose(loops.shapes[i], kept[4::4], rtol=0, atol=1e-12)
    begin = Route((), 0.0, 0.0, np.eye(3))
    best = best_routes(SE2, loops, begin, POSE, None, 4)[0]
    product = jnp.eye(3)
    for loop in best.loops:
        product = product @ loops.displacements[loop]
    np.testing.assert_allclose(best.pose, product, rtol=0, atol=1e-13)
    np.testing.assert_allclose(best.length, np.sum(np.asarray(loops.lengths)[list(best.loops)]), rtol=1e-13)
    assert 0 < len(best.loops) <= 4
    assert max(len(route.loops) for route in best_routes(SE2, loops, begin, POSE, None, 1)) == 1
    around = best_routes(SE2, loops, begin, POSE, disc, 8)[0]
    clear = [
        disc(product_before @ g, None) for product_before, loop in _before(loops, around) for g in loops.poses[loop]
    ]
    assert min(clear) >= 0


class TwoPlanimeters(gd.AbstractConnection):
    """The areas in two planes lead along x and along y: the best loop for (a, b) has the cost 4π(|a| + |b|)."""

    group: gd.groups.Translation = gd.groups.Translation(2)

    def form(self, r):
        area = jnp.stack([-r[1], r[0], -r[3], r[2]]) / 2
        return area[None] * jnp.array([[1, 1, 0, 0], [0, 0, 1, 1]])


TWO = gd.bundles.KaluzaKlein(TwoPlanimeters())
COARSE = gd.Direct(harmonics=2, steps=8)


@pytest.fixture(scope="module")
def two_areas():
    region = (-jnp.ones(4), jnp.ones(4))
    demands = {"displacement": [0.5, 1.0], "turn": [0.1, 0.2], "components": (0, 1)}
    return gd.stroke_map(TWO, **demands, method=gd.Direct(harmonics=1, steps=4), region=region, starts=4)


@pytest.mark.long
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("base", [None, [0.1, 0.0, 0.0, -0.1]], ids=["anywhere", "based"])
def test_a_plan_of_the_strokes_of_a_map(two_areas, sign, base):
    """The circles in both planes at once, forwards and backwards; the route has ways to the strokes and back."""
    way = sign * jnp.array([0.75, 0.15])
    plan = gd.plan(TWO, TWO.group.exp(way), base=base, strokes=two_areas, loops=1, method=COARSE)
    assert plan.successful
    np.testing.assert_allclose(plan.cost, 4 * np.pi * 0.9, rtol=1e-5)
    np.testing.assert_allclose(plan.multiplier, sign * 4 * np.pi * np.ones(2), rtol=1e-4)
    assert plan.route_cost < (7.0 if base is None else 5.0) * plan.cost
    if base is not None:
        np.testing.assert_allclose(plan.stroke(0.0), base, rtol=0, atol=1e-12)


@pytest.mark.long
def test_strokes_of_a_map_are_loops(two_areas):
    """Each leads where it is said to, and back from there; two of the same go to the stroke and back once."""
    strokes = jax.vmap(two_areas.task.unknowns)(jnp.asarray(two_areas.best.coefficients.reshape(4, -1)))
    home = jnp.array([0.1, 0.2, -0.1, 0.0])
    everywhere = np.full(4, -np.inf), np.full(4, np.inf)
    loops = loops_of(TWO, home, strokes, everywhere)
    moves = loops.displacements[:, :2, 2]
    wanted = np.array([[0.5, 0.1], [0.5, 0.2], [1.0, 0.1], [1.0, 0.2]])
    np.testing.assert_allclose(moves, np.concatenate([wanted, -wanted]), rtol=0, atol=1e-8)
    for i in (1, 6):
        outline = np.concatenate([loops.outline(i), home[None]])
        # The area of the polygon, in which a circle of 64 points lacks a part of 1.6e-3.
        areas = np.sum(outline[:-1, ::2] * outline[1:, 1::2] - outline[1:, ::2] * outline[:-1, 1::2], axis=0) / 2
        np.testing.assert_allclose(areas, -moves[i], rtol=2e-3)
        twice = loops.along((i, i))
        assert len(twice) == 4 * 64
        np.testing.assert_array_equal(twice[:64], loops.outline(i)[:64])
        np.testing.assert_array_equal(twice[64:128], twice[128:192])
        np.testing.assert_array_equal(twice[192:], loops.outline(i)[128:])
    small = loops.outline(0)
    within = loops_of(TWO, home, strokes, (small.min(axis=0) - 0.01, small.max(axis=0) + 0.01))
    assert 1 <= len(within.outlines) < 4


@pytest.mark.long
def test_strokes_of_another_body_are_refused(two_areas):
    with pytest.raises(ValueError, match="strokes is a map of a body with 4 shapes in Translation; got Purcell"):
        gd.plan(PURCELL, POSE, base=STRAIGHT, strokes=two_areas)
    none = eqx.tree_at(lambda found: (found.best.result, found.other.result), two_areas, (np.ones((2, 2), int),) * 2)
    with pytest.raises(ValueError, match="strokes is a map without any stroke"):
        gd.plan(TWO, TWO.group.exp(jnp.ones(2)), strokes=none)
    guess = gd.strokes.SequenceStroke(jnp.zeros((1, 4)), jnp.zeros((1, 4, 3)))
    with pytest.raises(ValueError, match="not both"):
        gd.plan(TWO, TWO.group.exp(jnp.ones(2)), strokes=two_areas, guess=guess)


@pytest.mark.weekly
@pytest.mark.long
def test_a_map_makes_plans_shorter():
    """For one pose a plan of the best strokes beside one of the best random loops."""
    demands = {"displacement": np.linspace(0.05, 0.25, 5), "turn": np.linspace(0.0, 0.4, 5)}
    found = gd.stroke_map(PURCELL, **demands, starts=16)
    pose = gd.groups.pose(SE2, [0.14, -0.23, -0.92])
    bounds = ([-2.0, -2.0], [2.0, 2.0])
    of_strokes = gd.plan(PURCELL, pose, bounds=bounds, strokes=found)
    of_loops = gd.plan(PURCELL, pose, bounds=bounds)
    assert of_strokes.successful
    assert of_strokes.cost < of_loops.cost


def test_obstacles_stand_in_space():
    """The start is in the disc that is seen from it where the body would be at the identity, or is not."""
    start = gd.groups.pose(SE2, [0.4, -0.1, 0.3])
    goal = SE2.compose(start, POSE)
    with pytest.raises(ValueError, match="start lies in an obstacle"):
        gd.plan(PURCELL, goal, start=start, base=STRAIGHT, obstacles=disc)


def wall_of_shapes(g, r):
    """The first number of the shape may not be above 2."""
    return 2.0 - r[0]


@pytest.fixture(scope="module")
def walled():
    body = gd.bundles.KaluzaKlein(Planimeter())
    pose = body.group.exp(jnp.array([0.5]))
    bounds = [-1.5, -1.5], [1.5, 1.5]
    return gd.plan(body, pose, base=[0.2, 0.1], bounds=bounds, loops=2, obstacles=wall_of_shapes)


def as_in_a_file(plan):
    """The plan with its evidence as numbers, which a file has, and not what they are computed from."""
    numbers = {"wong_residual": plan.wong_residual, "second_variation": plan.second_variation}
    return dataclasses.replace(plan, evidence=numbers)


def test_a_plan_comes_back_to_the_last_bit(walled, tmp_path):
    """A file holds no code: neither that of the body nor that of the obstacles. Of these it knows the least gap, and
    the search goes on from its stroke when they are given again."""
    file = tmp_path / "plan.npz"
    walled.save(file)
    assert list(tmp_path.iterdir()) == [file]
    with np.load(file) as archive:
        assert "wall_of_shapes" not in str(archive["metadata"])
    with pytest.raises(ValueError, match=r"load_plan: .* a plan of KaluzaKlein, which holds .*:Planimeter; pass"):
        gd.strokes.load_plan(file)
    again = gd.strokes.load_plan(file, walled.swimmer)
    assert eqx.tree_equal(again, as_in_a_file(walled))
    assert again.second_order == walled.second_order
    assert 0.5 < again.gap <= 1.8
    asked = {"pose": again.swimmer.group.exp(jnp.array([0.5])), "base": [0.2, 0.1], "obstacles": wall_of_shapes}
    once_more = gd.plan(again.swimmer, guess=again.stroke, bounds=([-1.5, -1.5], [1.5, 1.5]), **asked)
    np.testing.assert_allclose(once_more.cost, walled.cost, rtol=1e-9)


@pytest.mark.long
def test_a_failed_plan_comes_back_as_one(tmp_path):
    """With the body of geodyn, which is built again, and with how the search ended."""
    few = gd.Direct(harmonics=2, steps=8, max_iterations=1)
    route = gd.strokes.SequenceStroke.fit(gd.FourierStroke.circle(0.5), 2, 4, True)
    failed = gd.plan(PURCELL, POSE, guess=route, method=few, throw=False)
    assert failed.result == gd.RESULTS.too_many_iterations
    failed.save(tmp_path / "plan.npz")
    again = gd.strokes.load_plan(tmp_path / "plan.npz")
    assert eqx.tree_equal(again, as_in_a_file(failed))
    assert not again.successful
    with pytest.raises(ValueError, match=r"load_plan: .* of another swimmer: lengths was .*, is \[1\. *1\. *2\. *\]"):
        gd.strokes.load_plan(tmp_path / "plan.npz", gd.swimmers.Purcell(lengths=(1.0, 1.0, 2.0)))


def test_files_that_are_no_plans(walled, tmp_path):
    file = tmp_path / "plan.npz"
    walled.save(file)
    whole = file.read_bytes()
    for broken in (b"", whole[: len(whole) // 2], b"not a plan"):
        file.write_bytes(broken)
        with pytest.raises(ValueError, match="no file of geodyn"):
            gd.strokes.load_plan(file, walled.swimmer)
    file.write_bytes(whole)
    with pytest.raises(ValueError, match="holds a 'geodyn plan 1', wanted a 'geodyn stroke"):
        gd.strokes.load_stroke(file, walled.swimmer)


def _before(loops, route):
    """The pose before each loop of a route, with the loop."""
    pose = jnp.eye(3)
    for loop in route.loops:
        yield pose, loop
        pose = pose @ loops.displacements[loop]


def lone_points(g, r):
    """The body may be at its start and at the pose, and nowhere else."""
    return 1e-9 - jnp.sum((g - jnp.eye(3)) ** 2) * jnp.sum((g - POSE) ** 2)


WRONG = {
    "coordinates": (
        lambda: gd.plan(PURCELL, [0.1, 0.0, 0.0]),
        r"pose must be an element \[3, 3\] of SE2, such as gd.gro",
    ),
    "no element": (lambda: gd.plan(PURCELL, np.full((3, 3), 2.0)), "g must be an element of SE2"),
    "already there": (lambda: gd.plan(PURCELL, np.eye(3)), "pose is where the body is already"),
    "inside": (
        lambda: gd.plan(PURCELL, POSE, base=STRAIGHT, obstacles=lambda g, r: g[0, 2] - 0.1),
        "start lies in an obstacle",
    ),
    "inside at the end": (
        lambda: gd.plan(PURCELL, POSE, base=STRAIGHT, obstacles=lambda g, r: 0.1 - g[0, 2]),
        "pose lies in an obstacle: the gaps there are",
    ),
    "gaps of shapes": (lambda: gd.plan(PURCELL, POSE, obstacles=lambda g: g[0, 2]), "obstacles"),
    "base and ends": (lambda: gd.plan(PURCELL, POSE, base=[0, 0], ends=([0, 0], [1, 1])), "plan: ends must be"),
    "shapes": (lambda: gd.plan(PURCELL, POSE, base=[0.0, 0.0, 0.0]), "has 2 shape variables"),
    "bounds": (
        lambda: gd.plan(PURCELL, POSE, base=[2.0, 0.0], bounds=([-1, -1], [1, 1])),
        "^plan: base or ends.* outside of the bounds",
    ),
    "inside jit": (lambda: jax.jit(lambda g: gd.plan(PURCELL, g).cost)(POSE), "inside jit, vmap and grad no route"),
    "guess": (
        lambda: gd.plan(
            PURCELL, POSE, guess=gd.strokes.SequenceStroke([[0.0, 0.0]] * 3, np.zeros((2, 2, 1)), closed=False)
        ),
        "guess must be a SequenceStroke of 2 shape variables with closed=True",
    ),
    "no way out": (
        lambda: gd.plan(PURCELL, POSE, base=STRAIGHT, obstacles=lone_points),
        "can do no loop through the shape .* that keeps clear of the obstacles",
    ),
    "same at any pace": (
        lambda: gd.plan(gd.swimmers.DryLinks(), POSE, base=STRAIGHT),
        "^plan: the energy of DryLinks is the same at any pace",
    ),
    "pace matters": (
        lambda: gd.plan(gd.swimmers.CarreauLinks(), POSE, base=STRAIGHT),
        "^plan: where a loop leads CarreauLinks depends on the time that it takes.* pass guess=",
    ),
    "no loops": (lambda: gd.plan(PURCELL, POSE, loops=0), "loops must be"),
}


@pytest.mark.parametrize("call, message", WRONG.values(), ids=WRONG)
def test_wrong_input(call, message, as_users_run):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.long
def test_what_cannot_be_reached_says_how_near():
    """Within narrow bounds one loop cannot lead so far."""
    far = SE2.exp(jnp.array([1.0, 0.0, 0.0]))
    few = gd.Direct(harmonics=4, steps=16, max_iterations=30)
    with pytest.raises(
        gd.StrokeError, match=r"It came to exp\(.* of exp\(\[1.0, 0.0, 0.0\]\); what binds: the bounds"
    ) as told:
        gd.plan(PURCELL, far, bounds=([-0.4, -0.4], [0.4, 0.4]), loops=1, method=few)
    assert not told.value.optimum.successful
