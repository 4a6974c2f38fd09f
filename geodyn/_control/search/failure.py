"""PURPOSE: why a search did not end at an optimal stroke, and what would help."""

import dataclasses
from collections.abc import Callable
from typing import Any

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
from geodyn._geometry.groups.rigid import SE2
from geodyn._locomotion.connections.force_balance import AbstractForceBalance
from geodyn._locomotion.connections.locomotion import AbstractLocomotion
from geodyn._locomotion.motion.costs import Costly
from geodyn._locomotion.motion.mechanical import AbstractDeformableBody
from geodyn._locomotion.strokes.pieces import SequenceStroke
from geodyn._locomotion.strokes.stroke import FourierStroke, Stroke, bumps, shape_and_rate

FEW_ITERATIONS = 30

SHORT = 0.02
"""A piece between corners that has shrunk to this part of its share of the stroke has vanished."""

STRAIGHT = 0.05
"""A corner by which a stroke turns less than by this angle, in radians, is none."""


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
    """The error for a search that began at the unknowns `start`; `search` is `optimal_stroke`, to try others."""
    if optimum.result in (RESULTS.successful, RESULTS.astray):
        reason = _singular(optimum) or "; the steps of the search are too few to tell where it leads"
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
        reason = _needless_corner(optimum.stroke) or _sticking(optimum) or _singular(optimum) or _flat(optimum)
        reason = reason or _outside(problem, start)
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
    return bool(optimum.successful) and bool(
        reaches(optimum.displacement, displacement, getattr(getattr(optimum.evidence, "problem", None), "free", ()))
    )


def reaches(
    displacement: Float[Array, "..."], wanted: Float[Array, "..."], free: tuple[int, ...] = ()
) -> Bool[Array, ""]:
    """Whether a displacement is the wanted one to 10 % but for its `free` components; inside of grad, of the values
    alone."""
    return _near(*jax.lax.stop_gradient((displacement, wanted)), free)


@jit
def _near(displacement: Float[Array, "..."], wanted: Float[Array, "..."], free: tuple[int, ...]) -> Bool[Array, ""]:
    miss = jnp.atleast_1d(displacement - wanted)
    return jnp.linalg.norm(miss.at[np.array(free, int)].set(0.0)) < 0.1 * jnp.linalg.norm(wanted)


def _singular(optimum: OptimalStroke) -> str:
    """For the message: the shape near which the swimmer is singular or not defined, if the stroke comes close to one;
    else empty."""
    shapes = np.asarray(jax.vmap(optimum.stroke)(np.linspace(0.0, 1.0, 257)))
    if not np.all(np.isfinite(shapes)):
        return ""
    # Also slightly outside of the stroke, since the search accepts no step to shapes where the swimmer is not defined.
    around = np.concatenate([shapes, shapes + 0.01 * (shapes - shapes.mean(axis=0))])
    body = optimum.swimmer
    rates = jnp.eye(shapes.shape[1])

    def fastest(r: Float[Array, " m"]) -> Scalar:
        """The largest velocity for a unit rate of one shape variable."""
        return jnp.max(jnp.abs(jax.vmap(lambda rate: body.velocity(r, rate))(rates)))

    sizes = np.asarray(jax.vmap(fastest)(jnp.asarray(around)))
    sizes = np.where(np.isfinite(sizes), sizes, np.inf)
    if np.max(sizes) <= 30 * np.median(sizes):
        return ""
    return (
        f"; {type(optimum.swimmer).__name__} is singular, or not defined, near its shape"
        f" {around[np.argmax(sizes)].round(4).tolist()}, and ever cheaper strokes may lead there: bounds= that keep"
        " away from there make one the best"
    )


def _needless_corner(stroke: Stroke) -> str:
    """For the message: a piece of a stroke with corners that has all but vanished, or a corner without an angle; else
    empty. Both wander, since the stroke is as good without them."""
    if not isinstance(stroke, SequenceStroke) or stroke.widths is None:
        return ""
    pieces = stroke.coefficients.shape[0]
    # The times of the pieces are as their lengths, since the cost is constant along a best stroke.
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
    slope = jax.jacfwd(lambda s: bumps(s, terms))
    leaving = sides + stroke.coefficients @ slope(0.0)
    arriving = jnp.roll(sides + stroke.coefficients @ slope(1.0), 1, axis=0)
    products = jnp.sum(leaving * arriving, axis=1)
    sizes = jnp.linalg.norm(leaving, axis=1) * jnp.linalg.norm(arriving, axis=1)
    return jnp.arccos(jnp.clip(products / sizes, -1.0, 1.0))


def _sticking(optimum: OptimalStroke) -> str:
    """For the message: that parts of the body stick to the ground along the stroke; else empty."""
    body = optimum.swimmer
    if not isinstance(body, AbstractForceBalance) or body.held is None:
        return ""
    sticks = body.held

    def sticks_at(t: Scalar) -> Bool[Array, ""]:
        return sticks(*shape_and_rate(optimum.stroke, t))[0]

    if not jnp.any(jax.vmap(sticks_at)(jnp.linspace(0.0, 1.0, 257))):
        return ""
    return (
        "; parts of the body stick to the ground along it, where the power has a kink: search with a law by which they"
        " creep, as gd.swimmers.DryLinks(creep=0.001) has it, and then with less creep from the stroke that was found"
    )


def _flat(optimum: OptimalStroke) -> str:
    """For the message: the second variation if it is almost zero, so that the search is slow in a flat valley of the
    energy, which the truncation of the series distorts; else empty."""
    if not abs(optimum.second_order) < 1e-4:
        return ""
    return (
        f"; strokes beside it cost almost the same (second variation {float(optimum.second_order):.1e}), as where the"
        " body has a symmetry: more harmonics= of the method resolve it, or base= chooses one of them"
    )


def _outside(problem: StrokeProblem, start: PyTree) -> str:
    """For the message: where the first stroke leaves the bounds of the shape; empty if it does not."""
    shapes = np.asarray(jax.vmap(problem.stroke(start))(np.linspace(0.0, 1.0, 65)))
    m = shapes.shape[1]
    limits = np.tile([[-np.inf], [np.inf]], m)
    for place, variable in enumerate(problem.bounded):
        if variable < m:  # The others are bounds of rates.
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
    held = problem.bounded or problem.base is not None
    hint = "" if held else "; if ever cheaper strokes lead there, bounds= or base= make one the best"
    if target.ndim or problem.bounded or not isinstance(start, FourierStroke):
        return ", which may be more than strokes like the guess can reach" + afloat(problem.swimmer) + hint
    around = f" strokes around the shape {(np.round(start.mean, 6) + 0.0).tolist()}"
    method = method if isinstance(method, Direct) else Direct()
    led, fold = farthest_led(problem.swimmer, start.mean, target, method, search)
    if fold is not None:
        return f";{around} lead no further than {fold:.6g}, where their family folds back, see gd.stroke_family"
    if led is None:
        return f"; nor were{around} found that lead an eighth as far{hint}"
    return f";{around} were followed to {abs(led):.6g}: begin a gd.stroke_family there{hint}"


def farthest_led(
    swimmer: Costly, centre: Float[Array, " m"], target: float | Scalar, method: Direct, search: Callable
) -> tuple[float | None, float | None]:
    """(the largest displacement to which strokes around a shape were followed, the displacement at which their family
    folds back); each is None if not found.

    It runs the compiled search at growing displacements D, each time from the last stroke. The energy E(D) is convex up
    to the fold. At the fold (dE/dD)⁻² has a simple zero, so that its position is found by linear extrapolation."""
    method, fails, fold = dataclasses.replace(method, max_iterations=FEW_ITERATIONS), 0, np.inf
    sign, most, done = np.sign(float(target)), abs(float(target)), []
    aim = most / 8
    while fails < 4 and len(done) < 24:
        guess, wanted = done[-1][3] if done else centre, jnp.asarray(sign * aim, float)
        try:
            found = search(swimmer, guess, displacement=wanted, method=method, throw=False)
        except ValueError:
            break
        here = (aim, float(found.cost), abs(float(found.multiplier)), found.stroke)
        if not is_certified(found, wanted) or (done and not _goes_on(done[-1], here)):
            fails += 1
            aim = (aim + done[-1][0]) / 2 if done else aim / 4
            continue
        done.append(here)
        if aim >= most:
            break
        if len(done) > 1:
            (d, _, m, _), (D, _, M, _) = done[-2:]
            fold = D + (D - d) / ((M / m) ** 2 - 1) if m < M else np.inf
        if fold - aim < 1e-6 * aim:
            break
        aim = min(most, 1.5 * aim, aim + 0.9 * (fold - aim))
    if not done:
        return None, None
    last = done[-1][0]
    return last, fold if last < most and fold < min(1.1 * last, most) else None


def _goes_on(before: tuple[float, float, float, Any], after: tuple[float, float, float, Any]) -> bool:
    """Whether two strokes (D, E, dE/dD, …) may lie on one branch, on which E(D) is convex."""
    (d, e, m, _), (D, E, M, _) = before, after
    return m * (D - d) * 0.99 <= E - e <= 1.01 * M * (D - d)


def afloat(swimmer: AbstractLocomotion) -> str:
    """A hint for a free body in the plane, whose centre of mass strokes cannot move; empty for others."""
    free = isinstance(swimmer, AbstractDeformableBody) and isinstance(swimmer.group, SE2)
    return (
        "; a body afloat keeps its centre of mass where it is: ask for its turn, gd.bundles.Heading(body)"
        if free
        else ""
    )
