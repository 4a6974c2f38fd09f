"""PURPOSE: why a search did not end at an optimal stroke, and what would help."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._control.methods.method import AbstractStrokeMethod, Direct
from geodyn._control.problem.optimum import OptimalStroke
from geodyn._control.problem.problem import StrokeProblem
from geodyn._control.search.checks import where_outside
from geodyn._engine.jit import jit
from geodyn._foundations.results import RESULTS, AbstractOutcome
from geodyn._foundations.typing import Array, Bool, Float, PyTree, Scalar
from geodyn._locomotion.connections.force_balance import AbstractForceBalance
from geodyn._locomotion.connections.locomotion import AbstractLocomotion
from geodyn._locomotion.motion.costs import Costly
from geodyn._locomotion.strokes.pieces import SequenceStroke
from geodyn._locomotion.strokes.stroke import FourierStroke, Stroke, bumps, shape_and_rate

FEW_ITERATIONS = 30
"""The bound on the iterations of each search by which `farthest_led` goes on."""

SHORT = 0.02
"""A piece between two corners counts as vanished if it is shorter than this part of the mean of the pieces."""

STRAIGHT = 0.05
"""A corner counts as none if the stroke turns there by less than this angle, in radians."""

SINGULAR = 30.0
"""A stroke comes close to a singular shape if the velocity for a unit rate is somewhere so many times its median. It
grows as one over the distance: `gd.swimmers.KinematicSnake` has 6 and 34 times the median on circles whose radii are
0.88 and 0.97 of the distance from their middle to its singular shapes. Purcell's swimmer, floating links and pairs of
spheres, which are singular nowhere, stay below 3 on circles."""

FLAT = 1e-4
"""A second variation below this size counts as 0; most of its eigenvalues are near 1, see `second_variation`."""

REACHED = 0.1
"""A displacement is reached if it misses by less than this part. On twice the steps the error, of sixth order, is 64
times smaller, so that a miss is the error of the steps of the search: beyond this they do not resolve the stroke."""


class StrokeError(RuntimeError):
    """A search by `gd.optimal_stroke` or `gd.plan` that found no optimum; its `optimum` is where the search stood.

    Its message says how far strokes around the start lead, where that can be found out. It is a RuntimeError.

    Args:
        message: what went wrong.
        optimum: the OptimalStroke, or the Plan, where the search stood.

    Example:
        >>> swimmer, settings = gd.swimmers.SymmetricPurcell(), gd.Direct(harmonics=2, steps=8, max_iterations=10)
        >>> try:
        ...     gd.optimal_stroke(swimmer, [1.0, 1.0], displacement=9.0, method=settings)
        ... except gd.StrokeError as error:
        ...     print("converged:", bool(error.optimum.kkt_residual < 1e-9))
        converged: False
    """

    def __init__(self, message: str, optimum: AbstractOutcome):
        super().__init__(message)
        self.optimum = optimum


def failure(
    optimum: OptimalStroke, problem: StrokeProblem, start: PyTree, method: AbstractStrokeMethod, search: Callable
) -> StrokeError:
    """The error for a search that began at the unknowns `start`: where it stopped, and what may be the reason.

    `search` is `gd.optimal_stroke`, which tries nearer displacements. It is an argument because its module imports this
    one.
    """
    if optimum.result in (RESULTS.successful, RESULTS.astray):
        reason = _singular_shape(optimum) or "; the steps of the search are too few to tell where it leads"
    elif optimum.result in (RESULTS.too_few_harmonics, RESULTS.largest):
        reason = ""
    elif optimum.result == RESULTS.has_corners:
        corners = method.corners if isinstance(method, Direct) else None
        other = (
            "method=gd.Direct(corners=3)"
            if corners is None
            else f"a method with another number of corners= than {corners} or more harmonics="
        )
        reason = (
            f"; the power of the stroke differs from its mean by {100 * float(optimum.power_variation):.0f} %. Under"
            " forces that are not linear in the velocities even small loops with corners move the body, so that smooth"
            f" strokes need not be best: pass {other}, or compare strokes by gd.holonomy and gd.cost"
        )
    else:
        reason = _needless_corner(optimum.stroke) or _sticking_parts(optimum)
        reason = reason or _singular_shape(optimum) or _flat_direction(optimum)
        reason = reason or _place_outside(problem, start)
        if problem.springs is None:
            reason = reason or _reach(problem, start, method, search)
    more = "more max_iterations= of the method, " if optimum.result == RESULTS.too_many_iterations else ""
    ended = RESULTS(int(optimum.result)).message
    message = (
        f"optimal_stroke: {ended} (KKT residual {float(optimum.kkt_residual):.1e} after"
        f" {int(optimum.iterations)} iterations). On twice the steps it reached the displacement"
        f" {np.asarray(optimum.displacement)} of {np.asarray(problem.displacement)}{reason}. Pass {more}a guess= nearer"
        " to the optimum, a smaller displacement, more steps= of the method if the residual is small, or throw=False to"
        " see what was found (`.optimum` here)."
    )
    return StrokeError(message, optimum)


def is_certified(optimum: OptimalStroke, displacement: Float[Array, "..."]) -> bool:
    """Whether the search converged to a stroke that reaches the displacement to 10 % on twice the steps too."""
    problem = getattr(optimum.evidence, "problem", None)
    free = getattr(problem, "free", ())
    return bool(optimum.successful) and bool(reaches(optimum.displacement, displacement, free))


def reaches(
    displacement: Float[Array, "..."], wanted: Float[Array, "..."], free: tuple[int, ...] = ()
) -> Bool[Array, ""]:
    """Whether a displacement is the wanted one to 10 %, leaving out the components with the indices `free`. The answer
    has no derivative, also where its arguments are differentiated."""
    return _reaches(jax.lax.stop_gradient(displacement), jax.lax.stop_gradient(wanted), free)


@jit
def _reaches(displacement: Float[Array, "..."], wanted: Float[Array, "..."], free: tuple[int, ...]) -> Bool[Array, ""]:
    miss = jnp.atleast_1d(displacement - wanted)
    bound_miss = miss.at[np.array(free, int)].set(0.0)
    return jnp.linalg.norm(bound_miss) < REACHED * jnp.linalg.norm(wanted)


def _singular_shape(optimum: OptimalStroke) -> str:
    """For the message: the shape near which the swimmer is singular or not defined, if the stroke comes close to one;
    else empty."""
    shapes = np.asarray(jax.vmap(optimum.stroke)(np.linspace(0.0, 1.0, 257)))
    if not np.all(np.isfinite(shapes)):
        return ""
    # Also at shapes 1 % farther from the middle of the stroke: the search accepts no step to shapes where the swimmer
    # is not defined, so that the stroke itself only comes near to them.
    around = np.concatenate([shapes, shapes + 0.01 * (shapes - shapes.mean(axis=0))])
    body = optimum.swimmer
    rates = jnp.eye(shapes.shape[1])

    def fastest(r: Float[Array, " m"]) -> Scalar:
        """The largest velocity for a unit rate of one shape variable."""
        return jnp.max(jnp.abs(jax.vmap(lambda rate: body.velocity(r, rate))(rates)))

    speeds = np.asarray(jax.vmap(fastest)(jnp.asarray(around)))
    speeds = np.where(np.isfinite(speeds), speeds, np.inf)
    if np.max(speeds) <= SINGULAR * np.median(speeds):
        return ""
    singular = around[np.argmax(speeds)]
    return (
        f"; {type(optimum.swimmer).__name__} is singular, or not defined, near its shape"
        f" {singular.round(4).tolist()}, and ever cheaper strokes may lead there: bounds= that keep"
        " away from there make one the best"
    )


def _needless_corner(stroke: Stroke) -> str:
    """For the message: a piece of a stroke with corners that has all but vanished, or a corner at which the stroke
    hardly turns; else empty. A search cannot settle where such a corner lies: the stroke is as good without it."""
    if not isinstance(stroke, SequenceStroke) or stroke.widths is None:
        return ""
    pieces = stroke.coefficients.shape[0]
    # The shares of the time are those of the length too, since a best stroke runs at a constant cost.
    shortest = float(jnp.min(stroke.widths))
    if shortest < SHORT / pieces:
        return (
            f"; a piece between two of its {pieces} corners has shrunk to {100 * shortest:.2g} % of the stroke: ask for"
            " fewer corners= of the method, or begin at a guess= that has none so near to each other"
        )
    straightest = float(jnp.min(_turns(stroke)))
    if straightest < STRAIGHT:
        return (
            f"; at one of its {pieces} corners it turns by {np.rad2deg(straightest):.1f}° only, so that this corner can"
            " lie anywhere along the stroke: ask for fewer corners= of the method"
        )
    return ""


def _turns(stroke: SequenceStroke) -> Float[Array, " N"]:
    """The angles, in radians, by which a closed stroke turns at its corners, as directions in the space of shapes."""
    knots = stroke.knots
    sides = jnp.roll(knots, -1, axis=0) - knots
    terms = stroke.coefficients.shape[2]
    bump_rates = jax.jacfwd(lambda s: bumps(s, terms))
    # The velocities with which the stroke leaves each corner and arrives there, at the end of the piece before.
    leaving = sides + stroke.coefficients @ bump_rates(0.0)
    arriving = jnp.roll(sides + stroke.coefficients @ bump_rates(1.0), 1, axis=0)
    products = jnp.sum(leaving * arriving, axis=1)
    sizes = jnp.linalg.norm(leaving, axis=1) * jnp.linalg.norm(arriving, axis=1)
    # Rounding can take the cosine beyond 1.
    cosines = jnp.clip(products / sizes, -1.0, 1.0)
    return jnp.arccos(cosines)


def _sticking_parts(optimum: OptimalStroke) -> str:
    """For the message: that parts of the body stick to the ground along the stroke; else empty."""
    body = optimum.swimmer
    if not isinstance(body, AbstractForceBalance) or body.held is None:
        return ""
    held = body.held

    def sticks_at(t: Scalar) -> Bool[Array, ""]:
        r, rdot = shape_and_rate(optimum.stroke, t)
        return held(r, rdot)[0]

    if not jnp.any(jax.vmap(sticks_at)(jnp.linspace(0.0, 1.0, 257))):
        return ""
    return (
        "; parts of the body stick to the ground along it, where the power has a kink: search with a law by which they"
        " creep, as gd.swimmers.DryLinks(creep=0.001) has it, and then with less creep from the stroke that was found"
    )


def _flat_direction(optimum: OptimalStroke) -> str:
    """For the message: the second variation if it is almost zero; else empty. Then the energy is flat in one direction,
    and the search is slow along it, also because the truncated series distorts so small differences."""
    if not abs(optimum.second_order) < FLAT:
        return ""
    return (
        f"; strokes beside it cost almost the same (second variation {float(optimum.second_order):.1e}), as where the"
        " body has a symmetry: more harmonics= of the method resolve it, or base= chooses one of them"
    )


def _place_outside(problem: StrokeProblem, start: PyTree) -> str:
    """For the message: where the first stroke leaves the bounds of the shape; empty if it does not."""
    shapes = np.asarray(jax.vmap(problem.stroke(start))(np.linspace(0.0, 1.0, 65)))
    m = shapes.shape[1]
    limits = np.tile([[-np.inf], [np.inf]], m)
    for place, variable in enumerate(problem.bounded):
        if variable < m:  # From m on they are bounds of rates.
            limits[:, variable] = [bound[place] for bound in problem.bounds]
    if np.all((limits[0] <= shapes) & (shapes <= limits[1])):
        return ""
    return (
        f"; the search began at a stroke that leaves the bounds, {where_outside(problem.swimmer, shapes, *limits)}: one"
        " inside of them is a better guess"
    )


def _reach(problem: StrokeProblem, start: PyTree, method: AbstractStrokeMethod, search: Callable) -> str:
    """For the message: how far strokes around the initial shape can lead, as far as `farthest_led` finds out."""
    target = problem.displacement
    is_confined = problem.bounded or problem.base is not None
    hint = "" if is_confined else "; if ever cheaper strokes lead there, bounds= or base= make one the best"
    # Strokes are followed to growing numbers D: not to vectors, and not from strokes with other unknowns.
    if target.ndim or problem.bounded or not isinstance(start, FourierStroke):
        return ", which may be more than strokes like the guess can reach" + hint_if_it_stays(problem.swimmer) + hint
    around = f" strokes around the shape {(np.round(start.mean, 6) + 0.0).tolist()}"
    method = method if isinstance(method, Direct) else Direct()
    led, fold = farthest_led(problem.swimmer, start.mean, target, method, search)
    if fold is not None:
        return f";{around} lead no further than {fold:.6g}, where their family folds back, see gd.stroke_family"
    if led is None:
        return f"; nor were{around} found that lead an eighth as far{hint}"
    return f";{around} were followed to {abs(led):.6g}: begin a gd.stroke_family there{hint}"


class _Followed(NamedTuple):
    """An optimal stroke of the family that `farthest_led` follows."""

    displacement: float
    energy: float
    slope: float
    """The size of the derivative dE/dD of the energy by the displacement."""
    stroke: Any


def farthest_led(
    swimmer: Costly, centre: Float[Array, " m"], target: float | Scalar, method: Direct, search: Callable
) -> tuple[float | None, float | None]:
    """(the largest displacement to which strokes around a shape were followed, the displacement at which their family
    folds back); each is None if not found.

    It runs the compiled search at growing displacements D, each time from the last stroke. The energy E(D) is convex up
    to the fold. At the fold (dE/dD)⁻² has a simple zero, so that its position is found by linear extrapolation."""
    method = dataclasses.replace(method, max_iterations=FEW_ITERATIONS)
    sign = np.sign(float(target))
    most = abs(float(target))
    followed: list[_Followed] = []
    failures = 0
    fold = np.inf
    aim = most / 8
    # Without a fold six steps lead from an eighth to all of it, and near a fold each step leaves a tenth of the way to
    # it; the other searches are a reserve.
    while failures < 4 and len(followed) < 24:
        guess = followed[-1].stroke if followed else centre
        wanted = jnp.asarray(sign * aim, float)
        try:
            found = search(swimmer, guess, displacement=wanted, method=method, throw=False)
        except ValueError:
            break
        here = _Followed(aim, float(found.cost), abs(float(found.multiplier)), found.stroke)
        if not is_certified(found, wanted) or (followed and not _may_follow(followed[-1], here)):
            failures += 1
            # Half of the step, or a much smaller first stroke.
            aim = (aim + followed[-1].displacement) / 2 if followed else aim / 4
            continue
        followed.append(here)
        if aim >= most:
            break
        if len(followed) > 1:
            fold = _extrapolated_fold(followed[-2], followed[-1])
        # The message gives the fold to six digits.
        if fold - aim < 1e-6 * aim:
            break
        aim = min(most, 1.5 * aim, aim + 0.9 * (fold - aim))
    if not followed:
        return None, None
    last = followed[-1].displacement
    # A fold that was extrapolated from afar is not taken for one.
    is_near_fold = last < most and fold < min(1.1 * last, most)
    return last, fold if is_near_fold else None


def _extrapolated_fold(before: _Followed, after: _Followed) -> float:
    """The displacement at which the line through the two values of (dE/dD)⁻² is zero; ∞ if they do not decrease."""
    if not before.slope < after.slope:
        return np.inf
    step = after.displacement - before.displacement
    return after.displacement + step / ((after.slope / before.slope) ** 2 - 1)


def _may_follow(before: _Followed, after: _Followed) -> bool:
    """Whether two strokes may lie on one branch: there E(D) is convex, so that between them it rises by at least its
    slope at the first and at most its slope at the second, here to 1 % for the errors of the steps."""
    step = after.displacement - before.displacement
    rise = after.energy - before.energy
    return before.slope * step * 0.99 <= rise <= 1.01 * after.slope * step


def hint_if_it_stays(swimmer: AbstractLocomotion) -> str:
    """For the message: what the body says of displacements that are not found; else empty."""
    hint = swimmer._hint_if_it_stays
    return "" if hint is None else f"; {hint}"
