"""Maps of best strokes: a plane of demands whose least energies are known, and Purcell's swimmer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._control.families import mapping
from geodyn._control.families.front import Optimum

PER_AREA = 4 * np.pi
REACH = 0.8


class ThreePlanes(gd.AbstractConnection):
    """Areas a, b and c in three planes lead to (a + 0.8 c, b + 0.8 c)."""

    group: gd.groups.Translation = gd.groups.Translation(2)

    def form(self, r):
        area = jnp.stack([-r[1], r[0]]) / 2, jnp.stack([-r[3], r[2]]) / 2, jnp.stack([-r[5], r[4]]) / 2
        zero = jnp.zeros(2)
        x = jnp.concatenate([area[0], zero, REACH * area[2]])
        y = jnp.concatenate([zero, area[1], REACH * area[2]])
        return jnp.stack([x, y])


X, Y = np.array([0.2, 0.5, 0.8, 1.1]), np.array([0.3, 0.6, 0.9])
METHOD = gd.Direct(harmonics=2, steps=8, max_iterations=40)
GIVEN = {
    "displacement": X,
    "turn": Y,
    "components": (0, 1),
    "method": METHOD,
    "region": (-np.ones(6), np.ones(6)),
    "starts": 8,
}


def least(x, y):
    """The least energy, by linear programming in the areas: the third plane for what both demands share."""
    return PER_AREA * (min(x, y) / REACH + abs(x - y))


def slope(x, y):
    """Its derivatives."""
    more, less = PER_AREA, PER_AREA * (1 / REACH - 1)
    return (more, less) if x > y else (less, more)


@pytest.fixture(scope="module")
def found():
    return gd.stroke_map(gd.bundles.KaluzaKlein(ThreePlanes()), **GIVEN)


def test_least_energies_are_those_of_linear_programming(found):
    wanted = np.array([[least(x, y) for y in Y] for x in X])
    prices = np.array([[slope(x, y) for y in Y] for x in X])
    assert found.gaps == 0 and found.end == gd.RESULTS.successful
    np.testing.assert_allclose(found.cost, wanted, rtol=1e-9)
    np.testing.assert_allclose(found.multiplier, prices, rtol=1e-6)
    np.testing.assert_allclose(found.best.hessian, 0.0, atol=1e-4)
    assert np.all(found.kkt_residual < 1e-9) and np.all(found.second_order > 0)


def test_the_best_stroke_changes_its_kind_where_the_demands_are_equal(found):
    side = X[:, None] > Y[None]
    numbers = [set(np.unique(found.branch[here])) for here in (side, ~side)]
    assert [len(n) for n in numbers] == [1, 1]
    assert numbers[0] != numbers[1]


def test_a_stroke_at_a_point_leads_where_it_should(found):
    moved = gd.holonomy(found.swimmer, found.at(2, 1))
    np.testing.assert_allclose(found.swimmer.group.log(moved), [X[2], Y[1]], rtol=1e-9)
    np.testing.assert_allclose(gd.cost(found.swimmer, found.at(2, 1)), found.cost[2, 1], rtol=1e-9)


def test_slopes_of_the_strokes(found):
    """Beside the strokes of the next points on the same side, which are of the same circles at other sizes."""
    best = found.best
    i, j = 2, 0
    around = best.coefficients[i, j, 6:]  # Behind the mean shape.
    squares = np.sum(around**2)
    by_demand = 2 * best.slopes[i, j, :, 6:] @ around
    # A circle of radius R has the area π R² and the sum of squares 2 R²: the sum is 2/π of the areas, 4π/cost.
    np.testing.assert_allclose(squares, found.cost[i, j] / (2 * np.pi**2), rtol=1e-9)
    np.testing.assert_allclose(by_demand, found.multiplier[i, j] / (2 * np.pi**2), rtol=1e-6)


@pytest.mark.long
def test_components_in_the_other_order(found):
    """The slopes belong to the demands in the order in which they are asked for."""
    other = gd.stroke_map(
        found.swimmer, **GIVEN | {"displacement": Y[:2], "turn": X[:2], "components": (1, 0), "starts": 4}
    )
    np.testing.assert_allclose(other.cost, found.cost[:2, :2].T, rtol=1e-9)
    best = other.best
    by_demand = 2 * np.sum(best.slopes[..., 6:] * best.coefficients[:, :, None, 6:], axis=3)
    np.testing.assert_allclose(by_demand, other.multiplier / (2 * np.pi**2), rtol=1e-6)


def test_the_cheaper_stroke_is_the_best(found):
    """Of two strokes of one demand, in either order, and one that is the same up to a symmetry does not count."""
    search = mapping._Search(found.task, (X, Y))
    best, slopes = found.best, np.zeros((2, 2))
    rest = dict.fromkeys(("length", "amplitude", "kkt_residual", "second_order", "room"), np.array(1.0))

    def optimum(cost):
        shape = {"x": best.coefficients[0, 0], "slopes": best.slopes[0, 0], "prices": slopes[0], "bending": slopes}
        return Optimum(**shape, cost=np.array(cost), result=np.array(0), **rest)

    for cost in (2.0, 1.99, 2.0 + 1e-9, 1.0):
        search._keep((0, 0), optimum(cost), None)
    assert [float(record.optimum.cost) for record in search.kept[0, 0]] == [1.0]
    for cost in (1.04, 1.02):
        search._keep((0, 0), optimum(cost), None)
    assert [float(record.optimum.cost) for record in search.kept[0, 0]] == [1.0, 1.02]


@pytest.mark.long
def test_between_the_points_strokes_are_exact_and_differentiable(found):
    for x, y in ((0.97, 0.41), (0.6, 0.75)):  # In the cell of the second the best stroke changes its kind.
        best = found.optimum(x, y)
        np.testing.assert_allclose(best.cost, least(x, y), rtol=1e-9)
        np.testing.assert_allclose(jax.grad(lambda x, y=y: found.optimum(x, y).cost)(x), slope(x, y)[0], rtol=1e-6)
    size = jax.grad(lambda x: jnp.sum(found.stroke(x, 0.41).cosine ** 2 + found.stroke(x, 0.41).sine ** 2))
    # A circle of radius R has the area π R² and the sum of squares 2 R²; the first demand alone needs the first plane.
    np.testing.assert_allclose(size(0.97), 2 / np.pi, rtol=1e-6)


@pytest.mark.long
def test_in_jit_too(found):
    np.testing.assert_allclose(jax.jit(lambda x: found.optimum(x, 0.41).cost)(0.97), least(0.97, 0.41), rtol=1e-9)


@pytest.mark.long
def test_saved_and_gone_on_from(found, tmp_path):
    path = tmp_path / "map.npz"
    found.save(path)
    again = gd.strokes.load_map(path, found.swimmer)
    np.testing.assert_array_equal(again.best.coefficients, found.best.coefficients)
    np.testing.assert_array_equal(again.branch, found.branch)
    body = gd.bundles.KaluzaKlein(ThreePlanes())
    assert gd.stroke_map(body, **GIVEN, save=path).end == gd.RESULTS.successful
    with pytest.raises(ValueError, match="holds another map: turn was"):
        gd.stroke_map(body, **GIVEN | {"turn": Y + 0.1}, save=path)


@pytest.mark.long
def test_an_interrupted_map_is_finished(found, tmp_path, monkeypatch):
    """Among its first strokes, of which all are tried in the end and none twice, and after them."""
    path, solve, seeds, tried = tmp_path / "map.npz", mapping.solve_front, mapping._seeds, []
    monkeypatch.setattr(mapping, "AT_ONCE", 6)
    body = gd.bundles.KaluzaKlein(ThreePlanes())

    def interrupted(task, flats, *rest):
        if calls.pop():
            raise KeyboardInterrupt
        tried.extend(flats)
        return solve(task, flats, *rest)

    def listed(*args):
        first[:] = seeds(*args)
        return list(first)

    first, calls = [], [True, False]
    monkeypatch.setattr(mapping, "solve_front", interrupted)
    monkeypatch.setattr(mapping, "_seeds", listed)
    part = gd.stroke_map(body, **GIVEN, save=path)
    assert part.end == gd.RESULTS.interrupted
    assert len(tried) == 6
    assert part.untried == len(first) - 6 > 0
    calls = [True] + -(-part.untried // 6) * [False]
    part = gd.stroke_map(body, **GIVEN, save=path)
    assert part.end == gd.RESULTS.interrupted
    assert part.untried == 0
    np.testing.assert_array_equal(tried[: len(first)], [flat for _, flat, _, _ in first])
    monkeypatch.setattr(mapping, "solve_front", solve)
    monkeypatch.setattr(mapping, "_seeds", None)  # What was found is where it goes on from.
    whole = gd.stroke_map(body, **GIVEN, save=path)
    assert whole.gaps == 0
    np.testing.assert_allclose(whole.cost, found.cost, rtol=1e-9)


@pytest.mark.long
def test_picture(found):
    figure = gd.plot.stroke_map(found)
    assert [ax.get_title() for ax in figure.axes[:4]][:3] == ["cost: energy of the stroke", "efficiency", "amplitude"]
    with pytest.raises(ValueError, match=r"points must be \(i, j\) on the grid of 4 × 3"):
        gd.plot.stroke_map(found, [(4, 0)])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"displacement": [0.1]}, "displacement must be 2 or more growing finite numbers"),
        ({"turn": [0.2, 0.1]}, "turn must be 2 or more growing finite numbers"),
        ({"components": None}, "components must be two of the 2 coordinates"),
        ({"components": (0, 0)}, "components must be two different coordinates"),
        ({"components": (0, 2)}, "components must be two different coordinates"),
        ({"displacement": [0.0, 1.0], "turn": [0.0, 1.0]}, "both 0 at one point"),
        ({"drag": -1.0}, "drag must be a positive number"),
        ({"bounds": ([1.0], [0.0])}, "bounds"),
    ],
)
def test_wrong_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        gd.stroke_map(gd.bundles.KaluzaKlein(ThreePlanes()), **GIVEN | wrong)


def test_a_map_in_a_file_and_another_drag(found, tmp_path):
    found.save(tmp_path / "map.npz")
    again = gd.stroke_map(found.swimmer, **GIVEN | {"save": tmp_path / "map.npz", "drag": 3.0})
    np.testing.assert_allclose(again.efficiency, 3.0 * found.best.length**2 / found.cost, rtol=1e-12)


def test_lengths_are_positive():
    with pytest.raises(ValueError, match="displacement must be positive lengths"):
        gd.stroke_map(gd.swimmers.Purcell(), displacement=[0.0, 0.1], turn=[0.1, 0.2])


def test_demands_outside_of_the_grid(found):
    with pytest.raises(ValueError, match=r"turn must lie on the grid, from 0.3 to 0.9, got 1"):
        found.optimum(0.5, 1.0)
    inside, outside = jax.jit(jax.vmap(lambda turn: found.optimum(0.5, turn).cost))(jnp.array([0.8, 1.0]))
    assert np.isfinite(inside)
    assert np.isnan(outside)


@pytest.mark.long
@pytest.mark.parametrize("region", [None, (-3.0 * np.ones(2), 3.0 * np.ones(2))], ids=["about a shape", "random"])
def test_demands_to_which_no_small_loop_leads(region):
    """The curvature of the satellite turns it about its third axis alone: about the others it turns by larger loops,
    to which the ellipses of small ones are no start. Beside the single search, which begins elsewhere."""
    body, method = gd.swimmers.Satellite(), gd.Direct(harmonics=4, steps=12, max_iterations=40)
    grid = {"displacement": [0.1, 0.15], "turn": [0.1, 0.15], "components": (0, 1)}
    found = gd.stroke_map(body, **grid, region=region, starts=8, method=method)
    assert found.gaps == 0
    single = gd.optimal_stroke(body, displacement=[0.1, 0.1, None], method=method)
    np.testing.assert_allclose(found.cost[0, 0], single.cost, rtol=1e-9)
    turned = body.group.log(gd.holonomy(body, found.at(1, 0)))
    np.testing.assert_allclose(turned[:2], [0.15, 0.1], rtol=1e-4)


def test_why_no_random_stroke_leads_anywhere():
    """A turn of 3 within a region of 0.01: the coarse searches end for a reason, and it is theirs that is told."""
    grid = {"displacement": [1.0, 1.1], "turn": [2.9, 3.0], "components": (0, 1)}
    region = (np.full(2, -0.01), np.full(2, 0.01))
    with pytest.raises(
        RuntimeError, match=r"no optimal stroke was found .*(limit of iter|lowers the merit|not finite)"
    ):
        gd.stroke_map(gd.swimmers.Satellite(), **grid, region=region, starts=2, method=METHOD)


@pytest.mark.long
@pytest.mark.weekly
def test_purcell():
    """The map of Purcell's swimmer beside the single searches, its mirror image, and differences."""
    swimmer = gd.swimmers.Purcell()
    grid = {"displacement": [0.08, 0.12, 0.16], "turn": [-0.2, 0.0, 0.2]}
    found = gd.stroke_map(swimmer, **grid)
    assert found.gaps == 0 and np.all(found.kkt_residual < 1e-9) and np.all(found.second_order > 0)
    np.testing.assert_allclose(found.cost[:, 0], found.cost[:, 2], rtol=1e-6)
    for i, d in enumerate(grid["displacement"]):
        straight = gd.optimal_stroke(swimmer, displacement=d)
        assert found.cost[i, 1] <= straight.cost * (1 + 1e-6)
    single = gd.optimal_strokes(swimmer, displacement=0.12, starts=32)
    np.testing.assert_allclose(found.cost[1, 1], single[0].cost, rtol=1e-6)
    at, step = np.array([0.11, 0.15]), 1e-4
    by_hand = (found.optimum(at[0] + step, at[1]).cost - found.optimum(at[0] - step, at[1]).cost) / (2 * step)
    np.testing.assert_allclose(found.optimum(*at).multiplier[0], by_hand, rtol=1e-5)


@pytest.mark.long
def test_a_step_within_the_reach_of_the_best_turn_costs_nothing():
    """The stroke in a viscous fluid that turns best also moves by some length, in a direction that its phase decides.
    So all shorter steps cost the same, and longer ones more: there the best stroke changes its kind."""
    swimmer = gd.swimmers.Purcell()
    grid = {"displacement": [0.03, 0.09, 0.15], "turn": [0.35, 0.6], "components": (0, 2)}
    found = gd.stroke_map(swimmer, **grid)
    method = gd.Direct(harmonics=12, steps=24)
    turned = gd.optimal_stroke(swimmer, [0.8, 0.5], displacement=[None, None, 0.6], method=method)
    reach = np.linalg.norm(turned.displacement[:2])
    assert found.gaps == 0 and 0.09 < reach < 0.15
    np.testing.assert_allclose(found.cost[:2, 1], turned.cost, rtol=1e-6)  # The phase costs what 24 steps miss.
    np.testing.assert_allclose(found.multiplier[:2, 1, 0], 0.0, atol=1e-3)
    assert found.cost[2, 1] > 1.1 * turned.cost and found.multiplier[2, 1, 0] > 10


@pytest.mark.long
def test_near_where_the_best_stroke_loses_its_symmetry_there_is_no_gap():
    """In a perfect fluid the strokes of small turns are their own mirror images. For larger ones these become saddles,
    and two strokes beside them are cheaper; near that turn the energy is flat, and a search takes long. Steps forwards
    and backwards, which mirror each other, meet in an edge where none is asked for."""
    swimmer = gd.swimmers.FluidLinks()
    grid = {"displacement": [-0.15, -0.03, 0.03, 0.15], "turn": [0.15, 0.35], "components": (0, 2)}
    found = gd.stroke_map(swimmer, **grid, method=gd.Direct(harmonics=10, steps=24, max_iterations=25))
    assert found.gaps == 0 and np.all(found.second_order > 0)
    np.testing.assert_allclose(found.cost, found.cost[::-1], rtol=1e-9)
    np.testing.assert_allclose(found.multiplier[1, :, 0], -found.multiplier[2, :, 0], rtol=1e-6)
    assert np.all(found.multiplier[1, :, 0] > 0.5) and np.all(found.branch[1] != found.branch[2])
    means = found.best.coefficients[3, :, :2]
    np.testing.assert_allclose(means[0, 0], means[0, 1], rtol=1e-6)
    assert abs(means[1, 0] - means[1, 1]) > 0.1
    saddle = gd.optimal_stroke(swimmer, found.at(3, 0), displacement=[0.15, None, 0.35], method=found.task.method)
    assert saddle.second_order < 0 and found.cost[3, 1] < saddle.cost
