"""PURPOSE: families of optimal strokes: how the best stroke changes with the displacement or with the body."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq
from tqdm import tqdm

from geodyn._control.families.branch import KKT, Point, advance, farthest
from geodyn._control.families.varied import VariedProblem, constant
from geodyn._control.methods.method import Direct, steps_of
from geodyn._control.problem.minimise import Progress
from geodyn._control.problem.optimum import OptimalStroke
from geodyn._control.problem.problem import StrokeProblem
from geodyn._control.search.checks import (
    check_pace,
    check_smooth,
    checked_limits,
    known,
    numbers,
    told_by,
    without_free,
)
from geodyn._control.search.strokes import optimal_stroke
from geodyn._engine.jit import as_pytree, jit, static_count
from geodyn._foundations.gate import checked
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Count, Float, Index, Number, Scalar, Vector
from geodyn._locomotion.motion.costs import Costly
from geodyn._locomotion.motion.holonomy import gauss_times
from geodyn._locomotion.strokes.stroke import FourierStroke, LegendreStroke, Stroke, floating, shape_and_rate

# How a family ends after a point with this mark of `_follow`.
LAST = {"edge": RESULTS.end_of_interval, "farthest": RESULTS.farthest}


class StrokeFamily(eqx.Module):
    """Optimal strokes along a branch, N of them in order; the result of `gd.stroke_family`.

    Folds and the largest efficiency are among the strokes, computed to rounding. `family.stroke(i)` is the stroke at
    the index i.

    Args:
        parameter: [N] the displacement or the parameter of the body, by which the branch is followed.
        displacement: [N] or [N, k] of each stroke.
        cost: [N] the energy of each stroke.
        multiplier: [N] or [N, k] dE/d(displacement), infinite at the largest displacement, 0 of components that are
            free.
        efficiency: [N] as by `gd.efficiency`, with the `drag` of `gd.stroke_family` (by default 1 for other swimmers
            than links).
        second_order: [N] positive where the stroke is a minimum, see `gd.OptimalStroke`.
        kkt_residual: [N] of each stroke.
        strokes: a stroke with all coefficients, their first axis along the branch.
        folds: the indices where the parameter turns back.
        best: the index of the largest maximum of the efficiency, None if there is none on the branch.
        end: why the branch ends, a member of `gd.RESULTS`; its `message` says it in words.

    Example:
        Shortest curves around growing areas D: circles, whose energy 4π D grows in proportion.

        >>> class Planimeter(gd.AbstractConnection):
        ...     group: gd.groups.Translation = gd.groups.Translation(1)
        ...     def form(self, r):
        ...         return jnp.stack([-r[1], r[0]])[None] / 2
        >>> body, settings = gd.bundles.KaluzaKlein(Planimeter()), gd.Direct(harmonics=2, steps=8)
        >>> family = gd.stroke_family(body, [0.0, 0.0], interval=(0.1, 0.3), method=settings, points=3)
        >>> print(family.parameter.shape, (family.cost / family.parameter).round(6), family.folds)
        (3,) [12.566371 12.566371 12.566371] ()
    """

    parameter: Float[Array, " N"]
    displacement: Float[Array, "N ..."]
    cost: Float[Array, " N"]
    multiplier: Float[Array, "N ..."]
    efficiency: Float[Array, " N"]
    second_order: Float[Array, " N"]
    kkt_residual: Float[Array, " N"]
    strokes: FourierStroke | LegendreStroke
    folds: tuple[int, ...] = eqx.field(static=True)
    best: int | None = eqx.field(static=True)
    end: RESULTS = eqx.field(static=True)

    @checked
    def stroke(self, i: int) -> FourierStroke | LegendreStroke:
        """The stroke at index i."""
        return jax.tree.map(lambda x: x[i], self.strokes)


def _root(kkt: KKT, here: Point, h: float, measure: Callable[[Point], Scalar]) -> Point:
    """The point of the branch between `here` and arclength h at which `measure` is zero, by Brent's method."""

    def at(h: Number) -> Point:
        return advance(kkt, here.z, here.tangent, floating(h))

    # scipy's types want a number of numpy for `rtol`.
    length = brentq(lambda h: float(measure(at(h))), 0.0, h, xtol=1e-13, rtol=np.float64(1e-13))
    return at(cast(float, length))


def _steepness(point: Point) -> Scalar:
    """|d log E/d log D| = |dE/dD| |D|/E. It is 1 for small strokes, where E grows like D, and 2 at the best efficiency,
    since D²/E is stationary there; it becomes infinite at the largest displacement."""
    multiplier, displacement, cost = (
        jnp.linalg.norm(jnp.atleast_1d(point.measures[name])) for name in ("multiplier", "displacement", "cost")
    )
    return multiplier * displacement / cost


def _follow(kkt: KKT, here: Point, edges: tuple[float, float], step: float) -> Iterator[tuple[Point, str]]:
    """The points of the branch after `here`, each with a mark: "folds", "best" or "". The last point has the mark
    "edge", "farthest" or "lost".

    The step h in arclength begins small, is halved where a step fails, and grows again where steps are easy.
    """
    h = step / 8
    # Ten halvings of the first step bring it to this.
    while h > 1e-4 * step:
        there = advance(kkt, here.z, here.tangent, floating(h))
        cosine = here.tangent @ there.tangent  # of the angle by which the branch turns
        _, weights, _ = kkt.parts(there.z)
        # The weight of the energy is positive up to the largest displacement, where a family ends, and zero there.
        # A turn by 26° at most, beyond which the point may be one of another branch.
        if not there.converged or cosine < 0.9 or weights[0] <= 0:
            h /= 2
            continue
        # (dE/dD)⁻² has a simple zero at the largest displacement D: so steep, D is about a millionth below that. From
        # such a point `farthest` leaves an error of the square of that.
        if _steepness(there) > 1e3:
            yield farthest(kkt, there), "farthest"
            return
        parameter, mark = there.measures["parameter"], ""
        if not min(edges) < parameter < max(edges):
            # The functions keep the numbers of this turn of the loop as their defaults.
            edge = min(edges, key=lambda e, at=parameter: abs(e - at))
            there, mark = _root(kkt, here, h, lambda p, edge=edge: p.measures["parameter"] - edge), "edge"
        if here.slopes["parameter"] * there.slopes["parameter"] < 0:
            yield _root(kkt, here, h, lambda p: p.slopes["parameter"]), "folds"
        if here.slopes["efficiency"] > 0 > there.slopes["efficiency"]:
            yield _root(kkt, here, h, lambda p: p.slopes["efficiency"]), "best"
        yield there, mark
        if mark == "edge":
            return
        here = there
        # A step half as long again turns by half as much again, from these 14° by less than the 26° above.
        if there.iterations <= 4 and cosine > 0.97:
            h = min(1.5 * h, step)
    yield here, "lost"


def _along_direction(direction: Float[Array, "..."], size: Scalar) -> Float[Array, "..."]:
    """The displacement of this size in a direction."""
    return direction * size


def _through(held: Float[Array, " k"], component: int, size: Scalar) -> Float[Array, " k"]:
    """The displacement of which all components but one are held."""
    return held.at[component].set(size)


def _check_arguments(swimmer: Any, interval: Any, displacement: Any, component: Any, points: Any, step: Any, drag: Any):
    """The body and the displacement as functions of the parameter, the components that are free, and the ends of the
    interval; else ValueError."""
    edges = np.asarray(numbers(interval), float)
    if edges.shape != (2,) or not np.all(np.isfinite(edges)) or edges[0] == edges[1]:
        raise ValueError(f"stroke_family: interval must be two different numbers (start, stop), got {interval}.")
    if drag is not None and known(drag) and not (numbers(drag).shape == () and 0 < numbers(drag) < np.inf):
        raise ValueError(f"stroke_family: drag must be a positive number, got {drag}.")
    if static_count("points", points) < 2 or step <= 0:
        raise ValueError(f"stroke_family: needs points of 2 at least and a positive step, got {points} and {step}.")
    displacement, free = without_free(displacement)
    if not isinstance(swimmer, Costly):
        if displacement is None or component is not None:
            raise ValueError(
                "stroke_family: a family of swimmers needs displacement=, the same for all of them, and no component=."
            )
        return as_pytree(swimmer), jax.tree_util.Partial(constant, floating(displacement, "displacement")), free, edges
    if component is None:
        path = jax.tree_util.Partial(_along_direction, floating(1.0 if displacement is None else displacement))
    else:
        held, free = _held(swimmer, displacement, free, component)
        path = jax.tree_util.Partial(_through, held, component)
    if edges[0] * edges[1] <= 0 and (component is None or not np.any(np.delete(held, component))):
        raise ValueError(
            f"stroke_family: the displacement goes from {edges[0]:g} to {edges[1]:g}, but no stroke is optimal at"
            " zero; start at a small displacement of the same sign, 1 % of the other will do."
        )
    return jax.tree_util.Partial(constant, swimmer), path, free, edges


def _held(swimmer: Costly, displacement: Any, free: tuple[int, ...], component: int):
    """(the displacement whose component varies, the components that are free), without a displacement all others."""
    k = swimmer.group.dim
    if not component < k:
        raise ValueError(f"stroke_family: component must be one of the {k} of the displacement, got {component}.")
    if displacement is None:
        displacement, free = np.zeros(k), tuple(range(k))
    if np.shape(displacement) != (k,):
        raise ValueError(
            f"stroke_family: with component= the displacement must be {k} coordinates, None for those that are free,"
            f" got {displacement}."
        )
    return floating(displacement, "displacement"), tuple(i for i in free if i != component)


def _with_free(displacement: Float[Array, "..."], free: tuple[int, ...]) -> Any:
    """The displacement as `gd.optimal_stroke` takes it, None where it is free."""
    return [None if i in free else x for i, x in enumerate(displacement)] if free else displacement


def _check_room(first: OptimalStroke, bounds: Any, rates: Any) -> None:
    """Raise ValueError if bounds are active at the first stroke: they are not part of the conditions `KKT`."""
    if first.room < 1e-4:
        raise ValueError(
            f"stroke_family: the first stroke feels the bounds {bounds} or the largest rates {rates}, and a family ends"
            " there. Widen them, begin at a smaller displacement, or call optimal_stroke for each displacement, with"
            " the last stroke as its guess."
        )


@jit
def _room(problem: StrokeProblem, stroke: Stroke) -> Scalar:
    """The least distance of a stroke from the bounds, relative to their width."""

    def state(t: Scalar) -> Float[Array, " s"]:
        return jnp.concatenate(shape_and_rate(stroke, t))

    return jnp.min(jax.vmap(lambda t: problem.gaps(state(t)))(gauss_times(problem.steps)))


@checked
def stroke_family(
    swimmer: Costly | Callable[[Scalar], Costly],
    guess: Stroke | Vector | None = None,
    *,
    interval: tuple[Number, Number],
    displacement: Number | Vector | Sequence[Number | None] | None = None,
    component: Index | None = None,
    method: Direct = Direct(),  # noqa: B008
    bounds: tuple[Vector, Vector] | None = None,
    rates: Vector | None = None,
    base: Vector | None = None,
    drag: Number | None = None,
    points: Count = 200,
    step: float = 0.2,
    progress: Progress = False,
) -> StrokeFamily:
    """The optimal strokes of a body at all displacements, or of a family of bodies at one displacement, through folds.

    A body is followed in its net displacement, from `interval[0]`, best a small one, towards `interval[1]`: in its size
    along a direction, or in one `component` of it, with the others held or free. A function parameter -> body is
    followed in its parameter at a fixed `displacement`. The branch begins at the stroke that
    `gd.optimal_stroke(swimmer, guess, …)` finds. It ends where the parameter reaches an end of the interval, after
    `points`, where the displacement is the largest that is possible, where the strokes reach the `bounds` or `rates`,
    or where they can no longer be resolved; `end` of the result says which. Beyond folds the strokes obey Wong's
    equations but do not always have the least energy.

    Args:
        swimmer: body with a metric of shapes, or a function parameter -> body.
        guess: stroke or shape [m] to begin at, as for `gd.optimal_stroke`.
        interval: (start, stop) of the displacement or of the parameter; displacements must have one sign, unless
            another component is held at a number that is not 0.
        displacement: the direction [k] of the displacements of a body (None: a translation whose direction is free);
            with a `component` what the others are held at; the displacement, a length or [k], of a family of bodies.
            Components that are None are free, as in `gd.optimal_stroke`.
        component: the component of the displacement of a body that goes through the interval, in place of the size:
            `displacement=[0.1, None, 0.0], component=2` turns it more and more while x is held at 0.1 and y is free.
            Without a displacement all others are free.
        method: `gd.Direct` with its settings.
        bounds, rates, base: as for `gd.optimal_stroke`.
        drag: towing drag of the efficiency, see `gd.efficiency`.
        points: largest number of strokes.
        step: longest arclength between two of them, in radians or in what the coefficients are in.
        progress: whether to show a bar, or a function (number of strokes, parameter) that is called with each; Ctrl-C,
            or KeyboardInterrupt raised by that function, keeps the points so far.

    Returns:
        StrokeFamily.

    Raises:
        ValueError: for bad arguments, and if the first stroke feels the bounds.
        RuntimeError: if no first stroke is found, or no other beside it.

    Example:
        >>> swimmer, settings = gd.swimmers.SymmetricPurcell(), gd.Direct(harmonics=2, steps=8)
        >>> family = gd.stroke_family(swimmer, [0.8, 0.8], interval=(0.01, 0.03), method=settings, step=0.5, points=20)
        >>> rise = jnp.diff(family.cost) / jnp.diff(family.displacement)
        >>> between = (rise > family.multiplier[:-1]) & (rise < family.multiplier[1:])
        >>> print(f"D = {family.displacement[-1]:.6f}; dE/dD is the slope of E:", bool(between.all()))
        D = 0.030000; dE/dD is the slope of E: True

    Source:
        Allgower & Georg, *Introduction to Numerical Continuation Methods* (SIAM 2003).
    """
    check_smooth("stroke_family", method)
    body, target, free, edges = _check_arguments(swimmer, interval, displacement, component, points, step, drag)
    start, stop = floating(edges)
    count = body(start).shape_count
    if count is not None:
        with told_by("stroke_family"):
            check_pace(body(start), count)
    settings = {"method": method, "bounds": bounds, "rates": rates, "base": base}
    first = optimal_stroke(body(start), guess, displacement=_with_free(target(start), free), **settings)
    _check_room(first, bounds, rates)
    limits, bounded = checked_limits(bounds, rates, first.stroke(floating(0.0)).size)
    # A path from a base to a shape is a LegendreStroke, one that closes a FourierStroke.
    x = first.stroke
    steps = steps_of(method, x)
    if isinstance(x, LegendreStroke):
        x = x.coefficients
    # The unit of energy: of the order of the largest energy on the branch.
    scale = jnp.linalg.norm(target(stop)) / jnp.linalg.norm(target(start))
    frame = None if base is None else floating(base)
    problem = StrokeProblem(body(start), target(start), scale * first.cost, frame, limits, bounded, steps, free=free)
    kkt = KKT(VariedProblem(problem, body, target), x, jnp.abs(stop - start), None if drag is None else floating(drag))
    z = kkt.beginning(x, start)
    # At first the branch is followed in the direction of the parameter, the last number of z.
    onwards = jnp.sign(stop - start) * (jnp.arange(z.size) == z.size - 1)
    branch = [advance(kkt, z, onwards, floating(0.0))]
    marks = [""]
    end = RESULTS.enough_points
    try:
        with tqdm(total=int(points), initial=1, disable=progress is not True, unit="strokes", desc="family") as bar:
            for point, mark in _follow(kkt, branch[0], tuple(edges), step):
                if mark == "lost":
                    end = RESULTS.lost
                    break
                if bounded and _room(problem, problem.stroke(kkt.parts(point.z)[0])) < 0:
                    end = RESULTS.at_bounds
                    break
                branch.append(point)
                marks.append(mark)
                bar.update()
                if callable(progress):
                    progress(len(branch), float(point.measures["parameter"]))
                end = LAST.get(mark, end)
                if len(branch) >= points:
                    break
    except KeyboardInterrupt:
        end = RESULTS.interrupted
    if len(branch) == 1 and end != RESULTS.interrupted:
        raise RuntimeError(
            f"stroke_family: no stroke was found beside the first, at {float(start):g} (KKT residual"
            f" {float(first.kkt_residual):.1e}): {end.message}. Give more harmonics= and steps= of the method, a"
            " shorter step=, another guess= or displacement to begin at, or wider bounds."
        )
    measures = {name: jnp.stack([p.measures[name] for p in branch]) for name in branch[0].measures}
    strokes = [problem.stroke(kkt.parts(p.z)[0]) for p in branch]
    best = [i for i, mark in enumerate(marks) if mark == "best"]
    return StrokeFamily(
        **measures,
        second_order=jnp.stack([p.second_order for p in branch]),
        kkt_residual=jnp.stack([p.kkt_residual for p in branch]),
        strokes=jax.tree.map(lambda *leaves: jnp.stack(leaves), *strokes),
        folds=tuple(i for i, mark in enumerate(marks) if mark == "folds"),
        best=max(best, key=lambda i: measures["efficiency"][i], default=None),
        end=end,
    )
