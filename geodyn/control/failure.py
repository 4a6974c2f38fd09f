"""PURPOSE: why a search did not end at an optimal stroke, and what would help."""

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._typing import Array, Float
from geodyn.control.method import AbstractStrokeMethod, Direct
from geodyn.control.minimise import RESULTS
from geodyn.control.optimum import OptimalStroke
from geodyn.control.problem import StrokeProblem
from geodyn.geometry.groups import SE2
from geodyn.locomotion.connection import connection
from geodyn.locomotion.mechanical import AbstractDeformableBody
from geodyn.locomotion.stroke import FourierStroke


class StrokeError(RuntimeError):
    """A search that did not end at an optimal stroke; `optimum` is where it stood."""

    def __init__(self, message: str, optimum: OptimalStroke):
        super().__init__(message)
        self.optimum = optimum


def failure(optimum: OptimalStroke, problem: StrokeProblem, start, method: AbstractStrokeMethod) -> StrokeError:
    """The error for a search that began at the unknowns `start`."""
    if optimum.result == RESULTS.converged:
        reason = _singular(optimum) or "; the steps of the search are too few to tell where it leads"
    else:
        reason = _singular(optimum) or _flat(optimum) or _reach(problem, start, method)
    message = (
        f"optimal_stroke: {RESULTS[optimum.result]} (KKT residual {float(optimum.kkt_residual):.1e} after"
        f" {int(optimum.stats['iterations'])} iterations). On twice the steps it reached the displacement"
        f" {np.asarray(optimum.displacement)} of {np.asarray(problem.displacement)}{reason}. Pass a guess= nearer to"
        " the optimum, a smaller displacement, more steps= of the method if the residual is small, or throw=False to"
        " see what was found (`.optimum` here)."
    )
    return StrokeError(message, optimum)


def certified(optimum: OptimalStroke, displacement: Float[Array, "..."]) -> bool:
    """Whether the search converged, to a stroke that leads there as seen on twice the steps of the search too."""
    miss = jnp.linalg.norm(optimum.displacement - displacement) / jnp.linalg.norm(displacement)
    return bool((optimum.result == RESULTS.converged) & (miss < 0.1))


def _singular(optimum: OptimalStroke) -> str:
    """Where the search came to a shape at which the swimmer is not defined, or so singular that quadratures fail."""
    shapes = np.asarray(jax.vmap(optimum.stroke)(np.linspace(0.0, 1.0, 257)))
    if not np.all(np.isfinite(shapes)):
        return ""
    # A little beyond the stroke as well, since no step leads to where nothing is defined.
    around = np.concatenate([shapes, shapes + 0.01 * (shapes - shapes.mean(axis=0))])
    sizes = np.linalg.norm(jax.vmap(lambda r: connection(optimum.swimmer, r))(around), axis=(1, 2))
    sizes = np.where(np.isfinite(sizes), sizes, np.inf)
    if np.max(sizes) <= 30 * np.median(sizes):
        return ""
    return (
        f"; {type(optimum.swimmer).__name__} is singular, or not defined, near its shape"
        f" {around[np.argmax(sizes)].round(4).tolist()}, and ever cheaper strokes may lead there: bounds= that keep"
        " away from there make one the best"
    )


def _flat(optimum: OptimalStroke) -> str:
    """Where the energy has a valley so flat that a series that is cut off changes it there, and the search creeps."""
    if not abs(optimum.second_order) < 1e-4:
        return ""
    return (
        f"; strokes beside it cost almost the same (second variation {float(optimum.second_order):.1e}), as where the"
        " body has a symmetry: more harmonics= of the method resolve it, or base= chooses one of them"
    )


def _reach(problem: StrokeProblem, start, method: AbstractStrokeMethod) -> str:
    """How far strokes around the shape where the search began can lead, if the family of them tells."""
    from geodyn.control.families import ENDS, stroke_family  # These raise what is made here.
    from geodyn.control.strokes import optimal_stroke

    target = problem.displacement
    held = problem.bounded or problem.base is not None
    hint = "" if held else "; if ever cheaper strokes lead there, bounds= or base= make one the best"
    if target.ndim or problem.bounded or not isinstance(start, FourierStroke):
        return ", which may be more than strokes like the guess can reach" + afloat(problem.swimmer) + hint
    method = method if isinstance(method, Direct) else Direct()
    small = optimal_stroke(problem.swimmer, start.mean, displacement=target / 8, method=method, throw=False)
    around = f" strokes around the shape {(np.round(start.mean, 6) + 0.0).tolist()}"
    if small.result != RESULTS.converged:
        return f"; nor were{around} found that lead an eighth as far{hint}"
    family = stroke_family(problem.swimmer, small.stroke, interval=(float(target) / 8, float(target)), method=method)
    most, fold = float(jnp.max(family.displacement)), family.end == ENDS.farthest or family.folds
    if fold:
        return f";{around} lead no further than {most:.6g}, where their family folds back, see gd.stroke_family"
    return f";{around} were followed to {most:.6g} by gd.stroke_family, whose last .stroke(-1) is a guess{hint}"


def afloat(swimmer) -> str:
    """What a free body cannot do."""
    free = isinstance(swimmer, AbstractDeformableBody) and isinstance(swimmer.group, SE2)
    return "; a body afloat keeps its centre of mass where it is: ask for its turn, gd.Heading(body)" if free else ""
