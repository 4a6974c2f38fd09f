"""PURPOSE: plans: the cheapest change of shape that takes a body from a pose to a pose, past obstacles."""

from collections.abc import Callable
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._control.families.maps import StrokeMap
from geodyn._control.methods.method import Direct
from geodyn._control.plans.asked import Asked, asked_for
from geodyn._control.plans.chain import check_routes, first_strokes
from geodyn._control.problem.minimise import Minimum, Progress
from geodyn._control.problem.optimum import Evidence, read_optimum, when_asked_for, write_optimum
from geodyn._control.problem.problem import Between, StrokeProblem, outcome, wong_residual
from geodyn._control.problem.variation import second_variation
from geodyn._control.search.checks import check_smooth, known, told_by
from geodyn._control.search.failure import StrokeError
from geodyn._control.search.implicit import solve_implicitly
from geodyn._engine.jit import jit, static_count, traced_numbers
from geodyn._engine.numerics.failure import nan_unless, no_derivative_where
from geodyn._engine.numerics.roots import without_derivatives
from geodyn._foundations.gate import checked
from geodyn._foundations.results import RESULTS, AbstractOutcome
from geodyn._foundations.typing import Array, Bool, Count, File, Float, Index, Int, Numbers, PyTree, Scalar, Vector
from geodyn._geometry.groups.lie_group import ELEMENT
from geodyn._locomotion.connections.force_balance import name_of
from geodyn._locomotion.motion.costs import Costly, Density, energy
from geodyn._locomotion.motion.holonomy import cost, path
from geodyn._locomotion.strokes.pieces import SequenceStroke
from geodyn._locomotion.strokes.stroke import FourierStroke

ARRIVED = 1e-6
"""How far the end of a plan may be from the pose on finer steps, in parts of the displacement; in single precision half
of the digits."""

FINER = 8
"""On how many times as many steps a plan is looked at in the end."""

_FORMAT = "geodyn plan 1"

TOUCHING = 1e-3
"""How far the body may be in an obstacle between the steps, in parts of the largest gap along the plan."""


class Plan(AbstractOutcome):
    """The cheapest change of shape that leads from a pose to a pose; the result of `gd.plan`.

    `stroke` is a stroke as any other: `gd.path`, `gd.plot.player` and `gd.plot.wake` take it. Its period is 1, so that
    `cost` is the energy of a motion in the time 1, and what takes the time T costs cost/T; √cost is its length. The
    route from which the search began is kept as `route`, with its cost.

    `plan.save(path)` writes one `.npz` file that `gd.strokes.load_plan` reads.

    Args:
        swimmer: the body.
        stroke: the change of shape, a SequenceStroke.
        cost: its energy.
        pose: the pose that is reached, an element [d, d], as seen from the start.
        multiplier: dE/dξ [k] for a pose that is moved on by exp(ξ).
        gap: the least gap to the obstacles along the way, infinite without obstacles.
        room: least distance from the bounds, in parts of their width; infinite where there are none.
        kkt_residual: relative residual of the conditions for an optimum, bounds and obstacles included.
        power_variation: largest relative deviation of the power from its mean; zero at an exact optimum that feels
            neither bounds nor obstacles.
        charge: μ₀ [k], what Wong's equations conserve.
        route: a SequenceStroke, the sequence of loops with which the search began.
        route_cost: its energy.
        result: how the search ended, a member of `gd.RESULTS`.
        iterations: number of iterations.
        evidence: what the evidence is computed from.

    Example:
        Parallel parking of a planimeter, whose plane is that of its shapes: once round an area.

        >>> class Planimeter(gd.AbstractConnection):
        ...     group: gd.groups.Translation = gd.groups.Translation(1)
        ...     def form(self, r):
        ...         return jnp.stack([-r[1], r[0]])[None] / 2
        >>> body = gd.bundles.KaluzaKlein(Planimeter())
        >>> plan = gd.plan(body, body.group.exp(jnp.array([0.5])), base=[0.0, 0.0])
        >>> print(f"{plan.cost:.6f} {2 * np.pi:.6f}", bool(plan.successful))
        6.283185 6.283185 True
    """

    swimmer: Costly
    stroke: SequenceStroke
    cost: Scalar
    pose: Float[Array, "d d"]
    multiplier: Float[Array, " k"]
    gap: Scalar
    room: Scalar
    kkt_residual: Scalar
    power_variation: Scalar
    charge: Float[Array, " k"]
    route: SequenceStroke
    route_cost: Scalar
    result: Int[Array, ""]
    iterations: Int[Array, ""]
    evidence: Evidence | dict[str, Array]

    @when_asked_for
    def wong_residual(self) -> Scalar:
        """The largest defect of Wong's equations along the plan, away from bounds and behind the last obstacle that
        it touches, over the largest force, as of `gd.OptimalStroke`; zero at an exact optimum."""
        known = cast(Evidence, self.evidence)
        return wong_residual(known.problem, known.x, self.charge)

    @when_asked_for
    def second_variation(self) -> tuple[Scalar, Int[Array, ""]]:
        """The smallest eigenvalue of the second variation, and the number of flat directions."""
        known = cast(Evidence, self.evidence)
        return second_variation(known.problem, known.x, known.hessian, known.jacobian)

    @property
    def second_order(self) -> Scalar:
        """The smallest eigenvalue of the second variation at the pose, positive at a minimum."""
        return self.second_variation[0]

    @checked
    def save(self, path: File) -> None:
        """Write everything but the obstacles, of which the least gap is kept, to one `.npz` file that `load_plan`
        reads; the file appears whole or not at all."""
        write_optimum(path, self, _FORMAT)


@checked
def load_plan(path: File, swimmer: Costly | None = None) -> Plan:
    """Read the plan that `Plan.save` wrote.

    The swimmer is built again, or passed, as by `load_stroke`. The obstacles are not in the file: `gap` is what it was,
    and who plans on from the plan, with `guess=plan.stroke`, gives them again.

    Args:
        path: the `.npz` file.
        swimmer: the body of the plan, if it is one of your own.

    Returns:
        The Plan.

    Raises:
        ValueError: as `load_stroke`, for a file that holds no plan.

    Example:
        >>> import tempfile
        >>> body = gd.swimmers.Purcell()
        >>> plan = gd.plan(body, gd.groups.pose(body.group, [0.2, 0.0, 0.0]), base=[0.0, 0.0], loops=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plan.save(f"{folder}/plan.npz")
        ...     again = gd.strokes.load_plan(f"{folder}/plan.npz")
        >>> print(type(again.swimmer).__name__, bool(again.successful), bool(again.cost == plan.cost))
        Purcell True True
    """
    return Plan(**read_optimum("plan", path, _FORMAT, swimmer))


@checked
def plan(
    swimmer: Costly,
    pose: Numbers,
    *,
    start: Numbers | None = None,
    base: Vector | None = None,
    ends: tuple[Vector, Vector] | None = None,
    bounds: tuple[Vector, Vector] | None = None,
    rates: Vector | None = None,
    obstacles: Callable | None = None,
    density: Density = energy,
    loops: Count = 12,
    strokes: StrokeMap | None = None,
    guess: SequenceStroke | None = None,
    method: Direct = Direct(harmonics=4, steps=24),  # noqa: B008
    seed: Index = 0,
    progress: Progress = False,
    throw: bool = True,
) -> Plan:
    """The change of shape that takes a body from a pose to a pose past obstacles and costs least; a local optimum.

    First a route is sought: of many loops through one shape those are kept that lead farthest for their length, in
    every direction, and a best-first search puts them one after the other, so that the body keeps clear of the
    obstacles and arrives near the pose. Where a map of strokes is known, as `gd.stroke_map` makes it, pass it as
    `strokes`: they are better than random loops, and so are the plans, as far as the map has turns and steps of the
    size that is needed. Then the loops, and the ways between them, become one curve in the space of
    shapes, a `gd.strokes.SequenceStroke`, all of whose coefficients are moved together by Newton's method with exact
    derivatives, until the curve arrives at the pose and no other near it costs less. Three routes are tried,
    and three more if no plan comes of these.

    A body without a connection is slower to ask. Its velocity may have kinks along the plan, so that more `steps` of
    the method may be needed until it arrives (begin again at the stroke of the first plan, as `guess`), and where its
    best way has corners `power_variation` of the plan is not small. Where forces do not depend on the speed pass a
    `density`, such as the square of the energy.

    The result is differentiable to first order with respect to the numbers in the body, the poses and what `obstacles`
    closes over, by the implicit-function theorem. Inside jit, vmap and grad no route can be sought: give the stroke of
    another plan as `guess`.

    Args:
        swimmer: body with a metric of shapes, such as one of `gd.swimmers`, or one that balances forces.
        pose: where it shall go, an element [d, d] of its group, as `gd.groups.pose(group, (x, y, θ))` makes it.
        start: where it is, an element [d, d]; by default the identity.
        base: shape [m] at which the plan starts and ends; by default the best one, at which it starts and ends.
        ends: (start[m], end[m]), two shapes between which the plan leads.
        bounds: (lower[m], upper[m]) of the shape along the plan, infinite where there is none.
        rates: largest |r'| [m] of the plan in the time 1, infinite where there is none.
        obstacles: function (g[d, d], r[m]) -> gap or gaps [q], at least 0 where the body may be, at a pose g and a
            shape r; of the order of the size of the body. It is asked at the end of each step of the quadrature; what
            is thinner than the way of a step may be jumped over, and is looked for in the end on finer steps.
        density: function (swimmer, r, r') -> cost per time, as for `gd.optimal_stroke`; default `gd.costs.energy`.
        loops: largest number of loops of the route.
        strokes: a map of strokes, of which the route shall be, forwards and backwards, in place of random loops.
        guess: a stroke to begin with in place of a route, the `stroke` of another plan.
        method: `gd.Direct`: each piece of the plan, about half a loop, has twice as many Legendre terms as `harmonics`,
            and `steps` steps of the quadrature.
        seed: of the random loops.
        progress: whether to print the iterations, or a function (iteration, KKT residual) that is called after each.
        throw: whether to raise StrokeError if the search fails; if not, the plan where it stood is kept.

    Returns:
        Plan. Any consistent units.

    Raises:
        ValueError: for bad arguments, and for a start or a pose inside of an obstacle.
        StrokeError: if no plan is found: it says how near the search came and which demand binds. Inside jit and vmap
            what a search that failed would claim is NaN.

    Example:
        >>> body = gd.swimmers.Purcell()
        >>> pose = gd.groups.pose(body.group, [0.2, 0.0, 0.0])
        >>> plan = gd.plan(body, pose, base=[0.0, 0.0], loops=2)
        >>> reached = gd.groups.place_and_turn(body.group, gd.holonomy(body, plan.stroke, steps=200))
        >>> print(bool(plan.successful), bool(jnp.all(jnp.abs(reached - jnp.array([0.2, 0.0, 0.0])) < 1e-6)))
        True True

    Source:
        Kelly & Murray, *J. Robotic Systems* 12 (1995) 417, for loops as moves; Hart, Nilsson & Raphael, *IEEE Trans.
        Syst. Sci. Cybern.* 4 (1968) 100, for the search; Alouges, DeSimone & Lefebvre, *J. Nonlinear Sci.* 18 (2008)
        277, for the problem.
    """
    swimmer = traced_numbers(swimmer)
    check_smooth("plan", method)
    if guess is None:
        check_routes(swimmer)
    elif strokes is not None:
        raise ValueError("plan: give strokes=, of which a route is made, or guess=, the whole route, not both.")
    with told_by("plan"):
        known_strokes = None if strokes is None else _strokes_of(strokes, swimmer)
        asked = asked_for(swimmer, pose, start, base, ends, bounds, rates, obstacles, density, known_strokes)
    if guess is None:
        most = static_count("loops", loops)
        batches = first_strokes(asked, known_strokes, most, int(seed), 2 * int(method.harmonics))
    else:
        batches = [[_checked_guess(asked, guess)]]
    plans: list[Plan] = []
    for firsts in batches:
        plans += _refined(asked, firsts, method, progress, throw)
        if not known(plans[-1].result) or any(p.successful or p.result == RESULTS.interrupted for p in plans):
            break
    if len(plans) == 1 and not known(plans[0].result):
        return plans[0]
    # Where it is differentiated without jit, numbers can be compared, but those with derivatives are traced.
    numbers = without_derivatives(plans)
    good = [i for i, told in enumerate(numbers) if told.successful]
    if good:
        return plans[min(good, key=lambda i: float(numbers[i].cost))]
    place = without_derivatives(asked)
    nearest = min(range(len(plans)), key=lambda i: float(_miss(place, numbers[i].pose)))
    if throw:
        raise _failure(place, numbers[nearest])
    return plans[nearest]


def _strokes_of(strokes: StrokeMap, swimmer: Costly) -> PyTree:
    """All strokes of a map, stacked in one pytree; ValueError if there are none, or if they are not of this body."""
    sheets = (strokes.best, strokes.other)
    flats = np.concatenate([np.asarray(sheet.coefficients)[sheet.found] for sheet in sheets])
    if not len(flats):
        raise ValueError("plan: strokes is a map without any stroke: `strokes.result` says why none was found.")
    found = jax.vmap(strokes.task.unknowns)(jnp.asarray(flats))
    group = strokes.swimmer.group
    shapes = np.shape(found.mean if isinstance(found, FourierStroke) else found.base)[1]
    alike = type(swimmer.group) is type(group) and swimmer.group.dim == group.dim
    if swimmer.shape_count not in (None, shapes) or not alike:
        raise ValueError(
            f"plan: strokes is a map of a body with {shapes} shapes in {type(group).__name__}; got"
            f" {name_of(swimmer)}, with {swimmer.shape_count} in {type(swimmer.group).__name__}: make a map of it."
        )
    return found


def _refined(asked: Asked, firsts: list[SequenceStroke], method: Direct, progress: Progress, throw: bool) -> list[Plan]:
    """The plans to which Newton's method leads from first strokes, until the user interrupts it."""
    plans = []
    for first in firsts:
        plans.append(_refine(asked, first, method, progress, throw))
        if known(plans[-1].result) and plans[-1].result == RESULTS.interrupted:
            break
    return plans


def _refine(asked: Asked, first: SequenceStroke, method: Direct, progress: Progress, throw: bool) -> Plan:
    """The plan to which Newton's method leads from a first stroke."""
    pieces = first.coefficients.shape[0]
    steps = pieces * int(method.steps)
    size = cost(asked.swimmer, first, density=asked.density, steps=steps)
    group = asked.swimmer.group
    problem = StrokeProblem(
        swimmer=asked.swimmer,
        displacement=group.log(asked.way),
        energy=jax.lax.stop_gradient(size),
        base=asked.base,
        bounds=asked.limits,
        bounded=asked.bounded,
        steps=steps,
        end=asked.end,
        density=asked.density,
        obstacles=asked.obstacles,
        back=group.inverse(asked.way),
    )
    x = first if asked.base is None else Between(first.knots[1:-1], first.coefficients)
    found = solve_implicitly(problem, x, method, progress)
    return _plan(asked, problem, found, first, size, throw)


def _plan(
    asked: Asked, problem: StrokeProblem, found: Minimum, first: SequenceStroke, size: Scalar, throw: bool
) -> Plan:
    """What was found. The derivatives of a failure are NaN; where it cannot be raised, so is what it claims."""
    values = outcome(problem, found.x, found.multipliers)
    pose, gap, widest = _on_the_way(problem, values["stroke"])
    arrived = max(ARRIVED, float(np.sqrt(jnp.finfo(pose.dtype).eps)))
    there = jax.lax.stop_gradient((_miss(asked, pose) < arrived) & _is_element(asked))
    clear = jax.lax.stop_gradient(gap > -TOUCHING * widest)
    result = jnp.where(found.successful & ~clear, RESULTS.obstructed, found.result)
    result = jnp.where(found.successful & ~there, RESULTS.astray, result)
    good = result == RESULTS.successful
    claims = {name: values[name] for name in ("stroke", "cost", "multiplier", "charge", "room", "power_variation")}
    claims |= {"pose": pose, "gap": gap}
    if not known(good):
        claimed = ("cost", "multiplier", "charge", *(("stroke",) if throw else ()))
        claims |= nan_unless(good, {name: claims[name] for name in claimed}, ())
    return Plan(
        swimmer=asked.swimmer,
        kkt_residual=found.kkt_residual,
        route=first,
        route_cost=size,
        result=result,
        iterations=found.iterations.astype(int),
        evidence=Evidence(problem, found.x, found.hessian, found.jacobian),
        **no_derivative_where(~good, claims, problem),
    )


@jit
def _on_the_way(problem: StrokeProblem, stroke: SequenceStroke) -> tuple[Float[Array, "d d"], Scalar, Scalar]:
    """The pose that is reached, and the least and the largest gap to the obstacles, on finer steps."""
    steps = FINER * problem.steps
    poses = path(problem.swimmer, stroke, steps=steps)
    shapes = jax.vmap(stroke)(jnp.arange(steps + 1) / steps)
    gaps = jax.vmap(problem.clearance)(poses, shapes)
    return poses[-1], jnp.min(gaps, initial=jnp.inf), jnp.max(jnp.abs(gaps), initial=0.0)


@jit
def _miss(asked: Asked, pose: Float[Array, "d d"]) -> Scalar:
    """How far a pose is from the one that is asked for, in parts of the way between start and pose."""
    group = asked.swimmer.group
    miss = group.log(group.compose(group.inverse(asked.way), pose))
    return jnp.linalg.norm(miss) / jnp.linalg.norm(group.log(asked.way))


@jit
def _is_element(asked: Asked) -> Bool[Array, ""]:
    """Whether the way to go is an element of the group, which inside jit nothing else finds out."""
    group = asked.swimmer.group
    there_and_back = group.compose(group.inverse(asked.way), asked.way)
    return jnp.all(jnp.abs(there_and_back - group.identity()) < ELEMENT)


def _checked_guess(asked: Asked, guess: SequenceStroke) -> SequenceStroke:
    """The guess; ValueError unless it has the ends that are asked for."""
    closed = asked.base is None
    if guess.closed != closed or guess.knots.shape[1] != asked.home.size:
        kind = (
            "closed=True, since neither base nor ends is given" if closed else "closed=False, since its ends are given"
        )
        raise ValueError(
            f"plan: guess must be a SequenceStroke of {asked.home.size} shape variables with {kind}; got closed="
            f"{guess.closed} and {guess.knots.shape[1]}."
        )
    if asked.base is not None and known((guess, asked.base, asked.end)):
        first = np.asarray(asked.base)
        last = first if asked.end is None else np.asarray(asked.end)
        if not np.allclose(guess.knots[0], first) or not np.allclose(guess.knots[-1], last):
            raise ValueError(
                f"plan: guess leads from {np.asarray(guess.knots[0])} to {np.asarray(guess.knots[-1])}, but from"
                f" {first} to {last} is asked for."
            )
    return guess


def _failure(asked: Asked, plan: Plan) -> StrokeError:
    """The error for a search of which this is the plan that came nearest."""
    ended = RESULTS(int(plan.result)).message
    group = asked.swimmer.group
    reached = np.asarray(group.log(plan.pose)).round(6)
    wanted = np.asarray(group.log(asked.way)).round(6)
    binding = []
    if plan.room < 1e-3:
        binding.append("the bounds, of the shape or of its rates")
    if plan.gap < 1e-3:
        binding.append(f"the obstacles (least gap {float(plan.gap):.2g})")
    binds = " and ".join(binding) or "no bound and no obstacle; the loops of the body may not lead there"
    return StrokeError(
        f"plan: {ended} (KKT residual {float(plan.kkt_residual):.1e} after {int(plan.iterations)} iterations). It came"
        f" to exp({reached.tolist()}) of exp({wanted.tolist()}); what binds: {binds}. Give more loops=, another seed=,"
        " wider bounds, or more room between the obstacles; `.optimum` here is the plan where it stood.",
        plan,
    )
