"""Optimal strokes: known optima, and certificates that must fail when a stroke is not optimal."""

import dataclasses
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._control.problem.minimise import Directions, _newton_step, minimise
from geodyn._control.problem.pointwise import pointwise
from geodyn._control.search.guess import small_stroke
from geodyn._control.search.strokes import stroke_problem

pytestmark = pytest.mark.users


class Heisenberg(gd.AbstractSwimmer):
    """Cost |r'|², displacement the area: the isoperimetric problem."""

    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        area = (r[1] * rdot[0] - r[0] * rdot[1]) / 2
        return jnp.sum(rdot**2) + (xi[0] + area) ** 2


@pytest.fixture(scope="module")
def purcell():
    return gd.optimal_stroke(gd.swimmers.Purcell(), displacement=0.1)


@pytest.mark.long
def test_purcell(purcell):
    """Reference: an independent solution with 50-digit checks. Measured 4e-12 (E), 2e-11 (dE/dD), 3e-11 (p, m)."""
    np.testing.assert_allclose(purcell.cost, 3.89371688872341, rtol=1e-10)
    np.testing.assert_allclose(purcell.multiplier, 49.6145032417, rtol=1e-9)
    np.testing.assert_allclose(purcell.displacement, 0.1, rtol=1e-10)
    assert purcell.kkt_residual < 1e-10
    assert purcell.wong_residual < 1e-4  # measured 5e-6, 16 harmonics; a wrong charge gives O(1)
    assert purcell.power_variation < 1e-4  # measured 1e-6
    assert purcell.stats["flat"] == 1  # a shift of time
    np.testing.assert_allclose(purcell.second_order, 0.22786, atol=1e-4)  # a minimum
    # p = (α₁+α₂)/√2 and m = (α₂−α₁)/√2 up to a shift of time and a reflection, from the sizes of the harmonics.
    waves = purcell.stroke.cosine - 1j * purcell.stroke.sine
    p, m = (waves[0] + waves[1]) / np.sqrt(2), (waves[1] - waves[0]) / np.sqrt(2)
    np.testing.assert_allclose(np.abs(p[:5:2]), [0.6449373109, 0.0298627961, 0.0028669720], atol=2e-10)
    np.testing.assert_allclose(np.abs(m[:5:2]), [1.0005014284, 0.0584333407, 0.0054269658], atol=2e-10)


def test_purcell_from_other_numbers_without_compiling_again(purcell):
    """D = 0.05, and units: E scales like c_t L³, so that nothing in the search may be absolute."""
    half = gd.optimal_stroke(gd.swimmers.Purcell(), displacement=0.05)
    np.testing.assert_allclose(half.cost, 1.69213241672794, rtol=1e-10)
    np.testing.assert_allclose(half.multiplier, 38.7073648472, rtol=1e-9)
    tiny = gd.optimal_stroke(gd.swimmers.Purcell(lengths=(1e-6, 1e-6, 1e-6), drag=1e-3), displacement=1e-7)
    np.testing.assert_allclose(tiny.cost, 1e-21 * purcell.cost, rtol=1e-10)
    large = gd.optimal_stroke(gd.swimmers.Purcell(lengths=(1e6, 1e6, 1e6), drag=1e3), displacement=1e5)
    np.testing.assert_allclose(large.cost, 1e21 * purcell.cost, rtol=1e-10)
    small = gd.optimal_stroke(gd.swimmers.Purcell(), displacement=1e-4)
    np.testing.assert_allclose(small.cost / 1e-4, 29.201606467, rtol=4e-4)  # 12π√(3/5) as D → 0; measured 3.03 D


def test_the_multiplier_is_the_slope_of_the_energy(purcell):
    near = [gd.optimal_stroke(gd.swimmers.Purcell(), purcell.stroke, displacement=d).cost for d in (0.0999, 0.1001)]
    np.testing.assert_allclose((near[1] - near[0]) / 2e-4, purcell.multiplier, rtol=1e-5)  # measured 1e-6


@pytest.mark.long
def test_bounds(purcell):
    """Bounds that are not felt change nothing; bounds that are felt hold along the stroke, and cost energy."""
    wide = gd.optimal_stroke(gd.swimmers.Purcell(), displacement=0.1, bounds=((-2.0, -2.0), (2.0, 2.0)))
    np.testing.assert_allclose(wide.cost, purcell.cost, rtol=1e-10)  # measured 3e-12, the barrier's
    tight = gd.optimal_stroke(gd.swimmers.Purcell(), displacement=0.1, bounds=((-0.75, -0.75), (0.75, 0.75)))
    shapes = jax.vmap(tight.stroke)(jnp.arange(960) / 960)
    assert jnp.max(jnp.abs(jax.vmap(purcell.stroke)(jnp.arange(960) / 960))) > 0.8
    assert jnp.max(jnp.abs(shapes)) < 0.7505  # between the nodes; measured 0.7502
    assert tight.kkt_residual < 1e-10
    assert 1.04 * purcell.cost < tight.cost < 1.06 * purcell.cost


def test_pmpy_needs_a_frame():
    with pytest.raises(ValueError, match=r"no optimal stroke with a free shape.*bounds=.*or base="):
        gd.optimal_stroke(gd.swimmers.PushMePullYou(), displacement=0.1)


@pytest.mark.long
def test_pmpy_through_a_point():
    """Reference: an independent solution, E = 67.5480568226558. Measured 4e-12 (E), 2e-11 (dE/dD)."""
    base = (10.0, 4 * np.pi / 3)
    found = gd.optimal_stroke(gd.swimmers.PushMePullYou(), displacement=0.1, base=base)
    np.testing.assert_allclose(found.cost, 67.5480568226558, rtol=1e-10)
    np.testing.assert_allclose(found.multiplier, 576.59419946, rtol=1e-9)
    np.testing.assert_allclose(found.stroke(0.0), base, atol=1e-14)
    assert found.wong_residual < 5e-3  # measured 7e-4
    back = gd.optimal_stroke(gd.swimmers.PushMePullYou(), displacement=-0.1, base=base)
    np.testing.assert_allclose(back.cost, found.cost, rtol=1e-10)


@pytest.mark.long
def test_isoperimetric():
    """The best loop of area D is a circle: E = 4πD, whichever way round; the certificate sees an ellipse."""
    circle = gd.optimal_stroke(
        Heisenberg(), jnp.array([0.3, 0.1]), displacement=-0.5, method=gd.Direct(harmonics=2, steps=24)
    )
    np.testing.assert_allclose(circle.cost, 2 * np.pi, rtol=1e-12)
    np.testing.assert_allclose(circle.multiplier, -4 * np.pi, rtol=1e-11)
    ellipse = gd.FourierStroke([0.0, 0.0], [[1.0], [0.0]], [[0.0], [0.2]])
    stopped = gd.optimal_stroke(
        Heisenberg(),
        ellipse,
        displacement=0.5,
        method=gd.Direct(harmonics=2, steps=24, max_iterations=1),
        throw=False,
    )
    assert stopped.result == gd.RESULTS.too_many_iterations
    assert min(stopped.kkt_residual, stopped.wong_residual, stopped.power_variation) > 0.01


@pytest.mark.long
def test_another_cost():
    """Where G is the unit matrix the squares of the torques are the power: the circle again, by general formulas."""
    method, options = gd.Direct(harmonics=2, steps=24), {"density": gd.costs.torque, "displacement": -0.5}
    circle = gd.optimal_stroke(Heisenberg(), jnp.array([0.3, 0.1]), method=method, **options)
    np.testing.assert_allclose(circle.cost, 2 * np.pi, rtol=1e-12)
    np.testing.assert_allclose(circle.multiplier, -4 * np.pi, rtol=1e-11)
    assert circle.wong_residual < 1e-10
    with pytest.raises(ValueError, match=r"density=length is the same at any pace.* leave it out"):
        gd.optimal_stroke(gd.swimmers.Purcell(), displacement=0.1, density=gd.costs.length)


@pytest.mark.long
def test_second_variation():
    """With r = Σ cₙ exp(2πint) in the complex plane, E = 4π²Σn²|cₙ|² and D = πΣn|cₙ|²: around the circle n = 1 the
    eigenvalues are n(n − 1)/(n² + 1), 0.4 the least, flat for shifts of time and place; twice round, n(n − 2)/(n² + 1),
    −0.5 for n = 1, a saddle."""
    method = gd.Direct(harmonics=3, steps=24)

    def best(guess):
        return gd.optimal_stroke(Heisenberg(), guess, displacement=0.5, method=method)

    a = 0.5 / np.pi**0.5
    once = best(jnp.array([0.3, 0.1]))
    twice = best(gd.FourierStroke([0.0, 0.0], [[0.0, a], [0.0, 0.0]], [[0.0, 0.0], [0.0, a]]))
    assert (once.stats["flat"], twice.stats["flat"]) == (3, 3)
    np.testing.assert_allclose(once.second_order, 0.4, rtol=1e-9)
    np.testing.assert_allclose(twice.second_order, -0.5, rtol=1e-9)


FEW = gd.Direct(harmonics=2, steps=8)
ELLIPSE = gd.FourierStroke([0.0, 0.0], [[1.0], [0.0]], [[0.0], [0.2]])


def test_a_cost_below_zero():
    """Less by 100 everywhere, it is least for the same circle, of the energy 4π D."""
    best = gd.optimal_stroke(
        Heisenberg(),
        ELLIPSE,
        displacement=0.5,
        method=FEW,
        density=lambda body, r, rdot: gd.costs.energy(body, r, rdot) - 100,
    )
    np.testing.assert_allclose(best.cost, 2 * np.pi - 100, rtol=1e-9)
    assert best.second_order > 0


def test_the_largest_cost_is_no_success():
    """The circle is where minus the energy is largest. A saddle, such as the circle that is run through twice, passes:
    it is no maximum."""

    def gain(body, r, rdot):
        return -gd.costs.energy(body, r, rdot)

    circle = gd.FourierStroke.circle(float(np.sqrt(0.5 / np.pi)))
    found = gd.optimal_stroke(Heisenberg(), circle, displacement=0.5, method=FEW, density=gain, throw=False)
    assert found.result == gd.RESULTS.largest
    with pytest.raises(gd.StrokeError, match=r"the cost is the largest of all strokes beside it.* the wrong sign"):
        gd.optimal_stroke(Heisenberg(), circle, displacement=0.5, method=FEW, density=gain)

    def same(body, r, rdot):
        return 1.0 * gd.costs.energy(body, r, rdot)

    a = 0.5 / np.pi**0.5
    double = gd.FourierStroke([0.0, 0.0], [[0.0, a], [0.0, 0.0]], [[0.0, 0.0], [0.0, a]])
    twice = gd.optimal_stroke(Heisenberg(), double, displacement=0.5, method=FEW, density=same)
    assert twice.successful
    assert twice.second_order < 0


@pytest.mark.long
def test_failure_is_an_error():
    method = gd.Direct(harmonics=2, steps=24, max_iterations=1)
    guess = gd.FourierStroke([0.0, 0.0], [[1.0], [0.0]], [[0.0], [0.2]])
    with pytest.raises(RuntimeError, match=r"limit of iterations .* Pass more max_iterations= of the method"):
        gd.optimal_stroke(Heisenberg(), guess, displacement=0.5, method=method)


@pytest.mark.long
def test_a_failure_says_where_the_guess_left_the_bounds():
    """The circle of radius 1.3 is farthest beyond ±1 at its start."""
    settings = gd.Direct(harmonics=2, steps=8, max_iterations=1)
    given = {"displacement": 0.02, "bounds": ([-1.0, -1.0], [1.0, 1.0]), "rates": [20.0, 20.0], "method": settings}
    with pytest.raises(RuntimeError, match=r"leaves the bounds, r\[0\] .* is 1.3 at t = 0, 0.3 above 1: one inside"):
        gd.optimal_stroke(gd.swimmers.Purcell(), gd.FourierStroke.circle(1.3), **given)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"displacement": -0.1}, "must be a positive length, got -0.1"),
        ({"displacement": 0.0}, "must be a number or 3 coordinates, not all zero"),
        ({"displacement": (0.1, 0.2)}, "must be a number or 3 coordinates"),
        ({"displacement": float("nan")}, "got nan"),
        ({"displacement": 0.1, "bounds": ((0.0, 0.0), (1.0, -1.0))}, "with lower < upper"),
        (
            {"displacement": 0.1, "bounds": ((-1.0, -1.0, 0.0), (1.0, 1.0, 1.0)), "guess": (0.0, 0.0)},
            r"bounds must be \(lower\[2\]",
        ),
        (
            {"displacement": 0.1, "bounds": ((-1.0,), (1.0,))},
            r"Purcell has 2 shape variables \(first hinge .*, got shapes of 1",
        ),
        ({"displacement": 0.1, "guess": (0.0, np.inf)}, "guess must be a shape, m finite numbers"),
        ({"displacement": 0.1, "guess": lambda t: jnp.stack([t, t**2])}, "the stroke is not closed"),
        (
            {"displacement": 0.1, "base": (0.0, 2.0), "bounds": ((-1.0, -1.0), (1.0, 1.0))},
            r"base .* outside of the bounds: r\[1\] \(second hinge .* is 2, 1 above 1; move it inside",
        ),
        (
            {"displacement": 0.1, "guess": (-1.0, 0.0), "bounds": ((-1.0, -1.0), (1.0, 1.0))},
            r"the guess lies at .* r\[0\] .* is -1, on its bound; move",
        ),
        ({"displacement": 0.1, "ends": ((0.0, 0.0), (0.0, 0.0))}, "ends are the same shape .* that is base="),
        ({"displacement": 0.1, "ends": ((0.0, 0.0), (0.1,))}, "ends must be a shape, 2 finite numbers"),
        ({"displacement": 0.1, "ends": ((0.0, 0.0), (0.1, 0.0)), "base": (0.0, 0.0)}, "without base="),
        (
            {"displacement": 0.1, "ends": ((0.0, 0.0), (0.1, 0.0)), "guess": lambda t: jnp.stack([t, t])},
            r"guess leads from \[0. 0.\] to \[1. 1.\]",
        ),
        ({"displacement": 0.1, "guess": lambda t: (t, t)}, "a stroke is a function .*this one gives tuple"),
        ({"displacement": 0.1, "guess": lambda t: jnp.stack([t, jnp.inf * t])}, "not finite numbers"),
        ({"displacement": 0.1, "guess": lambda t: 0 * t + jnp.zeros(2)}, "stands still at"),
        (
            {
                "displacement": 0.1,
                "guess": gd.FourierStroke.circle(0.7),
                "bounds": ((-0.2, -0.2), (0.2, 0.2)),
            },
            r"outside of the bounds all the way: r\[0\] .* is 0.7 at t = 0, 0.5 above 0.2. Give a guess that passes",
        ),
        ({"displacement": 0.1, "method": gd.Direct(harmonics=16, steps=4)}, "want at least 1, and two steps for each"),
        (
            {"displacement": 0.1, "density": lambda swimmer, r, rdot: rdot},
            r"density must return a scalar, got shape \(2,\)",
        ),
        (
            {"displacement": 0.1, "swimmer": gd.swimmers.Beanie(), "guess": (0.0,)},
            "one shape variable .* and goes back .*ends=",
        ),
        (
            {"displacement": 50.0, "swimmer": gd.swimmers.PushMePullYou(), "base": (10.0, 4.0)},
            "the body cannot do the strokes around .*: ask for less",
        ),
    ],
)
def test_bad_arguments_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        gd.optimal_stroke(**{"swimmer": gd.swimmers.Purcell()} | wrong)


def test_a_body_without_drag_is_named():
    bare = eqx.tree_at(lambda swimmer: swimmer.lengths, gd.swimmers.Purcell(), jnp.array([0.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match=r"shape metric of Purcell .* is not positive definite: .*; give every part"):
        gd.optimal_stroke(bare, displacement=0.1)


def test_a_swimmer_without_links_needs_a_start():
    with pytest.raises(ValueError, match=r"Heisenberg needs guess=, .* jnp.zeros\(2\); or let .* first_shape"):
        gd.optimal_stroke(Heisenberg(), displacement=0.1)


class Placed(Heisenberg):
    """The isoperimetric problem of a body that says all that may be said."""

    shape_names = ("width", "height")
    first_shape = (0.3, -0.2)
    shape_region = ((-1.0, -1.0), (1.0, 1.0))
    needs_bounds = "circles are the same everywhere"
    towing_drag = 3.0


@pytest.mark.long
def test_a_swimmer_of_ones_own_says_where_to_start():
    """The circle of least energy 4πD about the first shape, between walls that it does not feel."""
    walls = ((-np.inf, -5.0), (np.inf, 5.0))
    found = gd.optimal_stroke(Placed(), displacement=0.5, bounds=walls, method=gd.Direct(3, 18))
    np.testing.assert_allclose(found.cost, 4 * np.pi * 0.5, rtol=1e-8)
    np.testing.assert_allclose(found.stroke.mean[0], 0.3, atol=1e-9)
    by_hand = 3.0 * 0.5**2 / found.cost
    np.testing.assert_allclose(gd.efficiency(Placed(), found.stroke), by_hand, rtol=1e-8)


def test_what_a_swimmer_of_ones_own_says_is_checked():
    class Lost(Placed):
        first_shape = ((0.3, -0.2),)
        needs_bounds = None

    for wrong, message in (
        ({}, r"Placed has no optimal .*: circles are the same everywhere. Pass bounds=.* \(width, height\), or base="),
        (
            {"base": (0.1, 0.2, 0.3)},
            r"Placed has 2 shape variables \(width, height\), got .* of 3 .*give 2 numbers",
        ),
        ({"swimmer": Lost()}, "first_shape of Lost must be a shape, m finite numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            gd.optimal_stroke(**{"swimmer": Placed(), "displacement": 0.1} | wrong)
    with pytest.raises(ValueError, match=r"Heisenberg needs drag=, .*; or let the class say it by towing_drag"):
        gd.efficiency(Heisenberg(), gd.FourierStroke.circle(0.1))


@pytest.mark.long
def test_what_takes_long_is_computed_when_it_is_asked_for(monkeypatch):
    """And then once."""
    asked = []
    for name in ("second_variation", "wong_residual"):
        plain = getattr(sys.modules["geodyn._control.problem.optimum"], name)

        def counted(*args, plain=plain, name=name):
            return asked.append(name) or plain(*args)

        monkeypatch.setattr(sys.modules["geodyn._control.problem.optimum"], name, counted)
    found = gd.optimal_stroke(Heisenberg(), [0.3, 0.0], displacement=0.1, method=gd.Direct(harmonics=2, steps=8))
    assert not asked
    assert found.second_order > 0 and found.stats["flat"] == found.stats["flat"] and found.wong_residual < 1e-6
    assert asked == ["second_variation", "wong_residual"]


def test_save_and_load(purcell, tmp_path):
    file = tmp_path / "stroke.npz"
    purcell.save(file)
    again = gd.strokes.load_stroke(file)
    assert list(tmp_path.iterdir()) == [file]
    known = {"wong_residual": purcell.wong_residual, "second_variation": purcell.second_variation}
    assert eqx.tree_equal(again, dataclasses.replace(purcell, evidence=known))
    assert again.second_order == purcell.second_order and again.stats == purcell.stats
    np.testing.assert_array_equal(gd.cost(again.swimmer, again.stroke), gd.cost(purcell.swimmer, purcell.stroke))
    whole = file.read_bytes()
    for broken in (b"", whole[: len(whole) // 2], b"not a stroke"):
        file.write_bytes(broken)
        with pytest.raises(ValueError, match="no file of geodyn"):
            gd.strokes.load_stroke(file)
    np.savez(file, x=1.0)
    with pytest.raises(ValueError, match="no file of geodyn"):
        gd.strokes.load_stroke(file)


class Valley(eqx.Module):
    """Rosenbrock's valley on a sphere, under a ceiling."""

    radius: jax.Array
    ceiling: float

    def __call__(self, x):
        f = (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2 / 100 + x[2] / 10
        return f, jnp.sum(x**2)[None] - self.radius**2, (self.ceiling - x[:1])


def test_a_search_says_that_it_compiles(capsys, monkeypatch):
    """Until its first iteration is told of; and not where no progress is asked for."""
    monkeypatch.setattr("geodyn._foundations.progress.EVERY", 0.01)
    for progress in (True, False):
        found = minimise(
            lambda x: (jnp.sum(x**4), x[:1] - 1, jnp.zeros(0)),
            jnp.ones(3),
            tolerance=1e-6,
            max_iterations=50,
            progress=progress,
        )
        told = capsys.readouterr()
        assert found.result == gd.RESULTS.successful and ("compiling … 0 s" in told.err) == progress
        assert told.out.startswith("iteration 1: KKT residual ") == progress


@pytest.mark.parametrize("values", [(1.0, 2.0), (-1.0, 2.0), (-1.0, -2.0), (-1e-3, 2.0)])
@pytest.mark.parametrize("longest", [0.1, 1.0, 100.0])
def test_a_step_goes_down_and_is_no_longer_than_trusted(values, longest):
    """Also where the model is concave, whose stationary point is a maximum."""
    hessian, gradient, none = jnp.diag(jnp.array(values)), jnp.array([1.0, 0.5]), jnp.zeros((0, 2))
    directions = Directions(hessian, none, jnp.array(1e-8))
    step, _ = _newton_step(hessian, gradient, directions, none[:, 0], jnp.array(longest))
    assert gradient @ step < 0 and jnp.linalg.norm(step) <= 1.0001 * longest


def test_minimise():
    """Against SciPy's SLSQP at its tolerance 1e-12; with the ceiling at 0.1 felt, and at 5 not felt."""
    from scipy.optimize import minimize

    def check(ceiling):
        problem = Valley(jnp.array(1.5), ceiling)
        found = minimise(problem, jnp.array([-1.2, 1.0, 0.3]), tolerance=1e-11, max_iterations=200)
        assert found.result == gd.RESULTS.successful
        other = minimize(
            lambda x: float(problem(x)[0]),
            found.x + 0.01,
            constraints=[
                {"type": "eq", "fun": lambda x: np.asarray(problem(jnp.asarray(x))[1])},
                {"type": "ineq", "fun": lambda x: np.asarray(problem(jnp.asarray(x))[2])},
            ],
            options={"ftol": 1e-12},
        )
        np.testing.assert_allclose(problem(found.x)[0], other.fun, atol=1e-7)
        np.testing.assert_allclose(problem(found.x)[1], 0.0, atol=1e-10)
        assert (found.bound_multipliers[0] > 1e-3) == (ceiling == 0.1)

    check(0.1)
    check(5.0)


def test_where_only_a_bound_holds():
    """The least x ≥ 0 is 0: on the way there all is linear, and every step solves the equations of its barrier."""
    found = minimise(lambda x: (x[0], jnp.zeros(0), x), jnp.ones(1), tolerance=1e-9, max_iterations=100)
    assert found.result == gd.RESULTS.successful and abs(found.x[0]) < 1e-8


def test_a_step_to_where_nothing_is_defined():
    """x − 2 log x + y on y = log x, from x = 3: the first step ends at x < 0, and NaN must not bend shorter ones."""

    def problem(x):
        return (x[0] - 2 * jnp.log(x[0]) + x[1], x[1:] - jnp.log(x[:1]), jnp.zeros(0))

    found = minimise(problem, jnp.array([3.0, 0.0]), tolerance=1e-11, max_iterations=50)
    assert found.result == gd.RESULTS.successful
    np.testing.assert_allclose(found.x, [1.0, 0.0], atol=1e-10)


def test_constraints_that_depend_on_each_other():
    """The same sphere twice and 0 = 0, and the valley reached as with the sphere alone: symmetric bodies have such
    constraints, rotations that cannot happen."""
    once = Valley(jnp.array(1.5), 5.0)

    def twice(x):
        f, c, h = once(x)
        return f, jnp.concatenate([c, 2 * c, 0 * c]), h

    start = jnp.array([-1.2, 1.0, 0.3])
    alone, found = (minimise(p, start, tolerance=1e-11, max_iterations=200) for p in (once, twice))
    assert found.result == gd.RESULTS.successful
    np.testing.assert_allclose(found.x, alone.x, atol=1e-9)


def test_pointwise_derivatives():
    points = jnp.linspace(0.1, 1.0, 12).reshape(4, 3)

    def plain(z):
        return jnp.stack([jnp.sin(z[0] * z[1]), z[2] ** 3 * z[0]])

    @jax.jit
    def both(points):
        orders = (lambda f: f, lambda f: jax.jacfwd(f), lambda f: jax.jacfwd(jax.jacrev(f)))
        return [(wrt(pointwise(plain))(points), wrt(jax.vmap(plain))(points)) for wrt in orders]

    for found, known in both(points):
        np.testing.assert_allclose(found, known, atol=1e-15)


@pytest.mark.float32
def test_single_precision_converges():
    """The tolerance follows the precision; an absolute one would never be met, and the search would stall."""
    found = gd.optimal_stroke(gd.swimmers.Purcell(), displacement=0.05)
    np.testing.assert_allclose(found.cost, 1.69213241672794, rtol=1e-3)
    np.testing.assert_allclose(gd.holonomy(gd.swimmers.Purcell(), found.stroke)[1, 0], 0.0, atol=1e-3)


@pytest.mark.parametrize(
    "outer, middle, ratio", [(1.0, 1.0, 2.0), (0.8, 1.5, 1.6), (1.2, (np.sqrt(10) - 1) * 0.4, 2.0)]
)
def test_small_strokes_of_any_links(outer, middle, ratio):
    """E/D → (2π/3) c_n c_t L² √((l + 2l₂)/(3l + 2l₂))/(c_n − c_t) as D → 0, with drags per length c_t = 1, c_n."""
    swimmer, D = gd.swimmers.Purcell((outer, middle, outer), drag_ratio=ratio), 1e-8
    ellipse, exists = small_stroke(swimmer, jnp.zeros(2), jnp.asarray(D))
    shape = np.sqrt((outer + 2 * middle) / (3 * outer + 2 * middle))
    wanted = 2 * np.pi / 3 * ratio * (2 * outer + middle) ** 2 * shape / (ratio - 1)
    assert exists
    np.testing.assert_allclose(gd.cost(swimmer, ellipse, steps=16) / D, wanted, rtol=1e-6)
    reached = swimmer.group.log(gd.holonomy(swimmer, ellipse, steps=16))
    np.testing.assert_allclose(jnp.sqrt(reached[0] ** 2 + reached[1] ** 2), D, rtol=1e-6)


class Bent(gd.AbstractSwimmer):
    """`Heisenberg` in the coordinates (x, y + ½ sin 2x): strokes may lie anywhere along x."""

    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        def straight(r):
            return jnp.stack([r[0], r[1] - jnp.sin(2 * r[0]) / 2])

        r, rdot = jax.jvp(straight, (r,), (rdot,))
        return Heisenberg().dissipation(r, xi, rdot)


@pytest.mark.long
def test_a_valley_that_few_harmonics_cannot_resolve():
    """With 4 harmonics the energy changes by 3e-7 along the valley, where the search creeps; with 6 it is flat."""
    with pytest.raises(gd.StrokeError, match=r"cost almost the same \(second variation .*e-06\).* more harmonics="):
        gd.optimal_stroke(Bent(), (0.3, 0.2), displacement=0.5, method=gd.Direct(4, 24, max_iterations=100))
    found = gd.optimal_stroke(Bent(), (0.3, 0.2), displacement=0.5, method=gd.Direct(6, 36))
    np.testing.assert_allclose(found.cost, 4 * np.pi * 0.5, rtol=1e-10)  # measured 7e-12
    assert found.stats["flat"] == 3  # a shift of time, two of the place


class Ridge(gd.AbstractSwimmer):
    """`Heisenberg` with a peak of the connection, `2 exp(−|r − peak|²/0.01²) dy`."""

    peak: jax.Array
    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        more = 2 * jnp.exp(-jnp.sum((r - self.peak) ** 2) / 0.01**2) * rdot[1]
        return Heisenberg().dissipation(r, xi - more, rdot)


@pytest.mark.long
def test_what_falls_between_the_steps_is_seen():
    """A circle on 6 steps, whose three Gauss nodes miss the peak at t = 1/24; it is one of those of 12 steps."""
    circle, method = gd.FourierStroke.circle(1 / np.sqrt(np.pi)), gd.Direct(1, 6)
    smooth = gd.optimal_stroke(Ridge(jnp.array([9.0, 9.0])), circle, displacement=1.0, method=method)
    np.testing.assert_allclose(smooth.cost, 4 * np.pi, rtol=1e-10)
    with pytest.raises(gd.StrokeError, match=r"converged .* displacement 1\.2\d* of 1\.0; the steps .* are too few"):
        gd.optimal_stroke(Ridge(circle(1 / 24)), circle, displacement=1.0, method=method)


@pytest.mark.long
def test_cheaper_and_cheaper_until_spheres_touch():
    """The energy of small strokes of three equal spheres falls from 4362 D about (4, 4) to 437 D where they touch."""
    swimmer, method = gd.swimmers.ThreeSphere(), gd.Direct(3, 18)
    with pytest.raises(
        gd.StrokeError, match=r"ThreeSphere is singular, or not defined, near .*: bounds= that keep away"
    ):
        gd.optimal_stroke(swimmer, (4.0, 4.0), displacement=0.01, method=method)


@pytest.mark.long
def test_the_first_stroke_is_one_that_the_body_can_do():
    """About v₁ = 2.5 the small ellipse that leads far enough is wider than the sphere: it would end in NaN. The other
    one through the base goes the other way; about a centre a smaller one has to do."""
    swimmer, method = gd.swimmers.PushMePullYou(volume=9.0, viscosity=0.7), gd.Direct(harmonics=4, steps=24)
    about = {"guess": (6.0, 2.5), "bounds": ((3.0, 0.1), (9.0, 8.9))}
    for given in ({"base": (6.0, 2.5)}, about):
        chosen = {"guess": None, "bounds": None, "base": None} | given
        problem, _ = stroke_problem(
            swimmer, displacement=0.3, method=method, ends=None, density=gd.costs.energy, **chosen
        )
        assert jnp.isfinite(problem.energy)
    wide = gd.FourierStroke.circle(3.0, 4, (6.0, 2.5))
    with pytest.raises(ValueError, match=r"first stroke: PushMePullYou is singular at the shape \[.*\], t = "):
        gd.optimal_stroke(swimmer, wide, displacement=0.3, method=method, bounds=about["bounds"])


@pytest.mark.long
@pytest.mark.parametrize("box, displacement", [(((4.0, 1.0), (8.0, 8.0)), 0.3), (((3.0, 1.0), (20.0, 7.0)), 0.1)])
def test_along_walls(box, displacement):
    """Strokes that lean on two walls are found quickly, and are the same but for the times at which walls are felt,
    wherever they start. Measured 7e-5, 1e-5 and 24 iterations; had the phase or the slacks their way, the searches
    would stall at 206 instead of 169, or never end."""

    def find(guess):
        return gd.optimal_stroke(
            gd.swimmers.PushMePullYou(), guess, displacement=displacement, bounds=box, method=gd.Direct(6, 36)
        )

    found = find(None)
    again = find(gd.strokes.shift(found.stroke, 0.3))
    np.testing.assert_allclose(again.cost, found.cost, rtol=2e-4)
    assert max(found.stats["iterations"], again.stats["iterations"]) < 40
    assert found.kkt_residual < 1e-11 and found.second_order > 0.1 and abs(found.room) < 2e-5


@pytest.mark.long
def test_rates():
    """Of the area D with |x'| ≤ c: y' is D x/∫x², and x″ = −ω² x, ω = D/∫x², except where |x'| = c, for times up to τ
    from x = 0, `ωτ = cot ω(1/4 − τ)`; solved by SciPy's brentq at c = 0.8 of the circle's: E = 1.017257470 of its 4πD.
    """
    fastest = 0.8 * 2 * np.sqrt(np.pi)
    options = {"displacement": 1.0, "method": gd.Direct(harmonics=12, steps=72)}
    found = gd.optimal_stroke(Heisenberg(), (0.0, 0.0), rates=(fastest, np.inf), **options)
    np.testing.assert_allclose(found.cost / (4 * np.pi), 1.017257470, rtol=5e-4)  # 16 harmonics: 1.01736
    rate = jax.vmap(jax.jacfwd(found.stroke))(jnp.linspace(0.0, 1.0, 400))
    assert jnp.all(jnp.abs(rate[:, 0]) < 1.001 * fastest) and found.kkt_residual < 1e-10
    with pytest.raises(ValueError, match=r"rates must be 2 positive numbers, .* got \(1.0, -1.0\)"):
        gd.optimal_stroke(Heisenberg(), (0.0, 0.0), rates=(1.0, -1.0), **options)


def test_links_with_shapes_of_their_own_need_a_guess():
    """Four links that bend in two modes, written down by hand: where to start is asked for by name."""

    class Bent(gd.AbstractSlenderSwimmer):
        lengths: jax.Array = eqx.field(default=(1.0, 1.0, 1.0, 1.0), converter=jnp.asarray)
        drag_ratio: float = 2.0
        group: gd.groups.SE2 = gd.groups.SE2()

        def links(self, r):
            headings = jnp.cumsum(jnp.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]) @ r)
            steps = jnp.stack([jnp.cos(headings), jnp.sin(headings)], axis=1)
            return jnp.concatenate([jnp.cumsum(steps, axis=0) - steps / 2, headings[:, None]], axis=1)

    with pytest.raises(
        ValueError,
        match=r"Bent needs guess=, .* such as jnp.zeros\(2\); or let the class say such a shape by first_shape",
    ):
        gd.optimal_stroke(Bent(), displacement=0.1)


@pytest.mark.long
def test_the_best_stroke_of_eleven_shapes():
    """Twelve links can do what four do, three of them in one piece; with all hinges they do it for less."""
    method = gd.Direct(harmonics=3, steps=24)
    few = gd.optimal_stroke(gd.swimmers.NLink([1 / 4] * 4), displacement=0.03, method=method)
    body = gd.swimmers.NLink([1 / 12] * 12)
    stiff = jax.tree.map(lambda x: jnp.zeros((11, *x.shape[1:])).at[jnp.array([2, 5, 8])].set(x), few.stroke)
    np.testing.assert_allclose(gd.cost(body, stiff), few.cost, rtol=1e-9)
    np.testing.assert_allclose(jnp.linalg.norm(gd.holonomy(body, stiff)[:2, 2]), 0.03, rtol=1e-6)
    best = gd.optimal_stroke(body, displacement=0.03, method=method)
    assert best.kkt_residual < 1e-9 and best.second_order > 0
    assert best.cost < 0.5 * few.cost
    farther = gd.optimal_stroke(body, best.stroke, displacement=0.0303, method=method)
    slope = (farther.cost - best.cost) / 0.0003
    np.testing.assert_allclose(slope, (best.multiplier + farther.multiplier) / 2, rtol=1e-3)


class Idle(gd.AbstractSwimmer):
    """Moves along a line by the area that its shape sweeps; its shapes are a flat plane."""

    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        area = (r[1] * rdot[0] - r[0] * rdot[1]) / 2
        return jnp.sum(rdot**2) + (xi[0] + area) ** 2


def test_the_straight_way_that_leads_where_it_shall():
    """It asks for no force, so that there is no gradient to which what is left of it could be compared."""
    ends = [0.0, 1.0], [1.0, 0.0]
    straight = gd.optimal_stroke(Idle(), displacement=-0.5, ends=ends, method=gd.Direct(harmonics=3, steps=12))
    np.testing.assert_allclose(straight.cost, 2.0, rtol=1e-13)
    np.testing.assert_allclose(straight.charge, 0.0, atol=1e-12)
    assert straight.kkt_residual < 1e-10
