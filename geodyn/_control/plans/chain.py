"""PURPOSE: the first strokes of a plan: routes of loops, or of strokes of a map, as one curve at constant power."""

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._control.plans.asked import Asked
from geodyn._control.plans.loops import SAMPLES, Loops, best_loops, loops_of
from geodyn._control.plans.route import Route, best_routes
from geodyn._control.search.checks import known
from geodyn._engine.jit import jit
from geodyn._foundations.typing import Array, Count, Float, PyTree, Scalar
from geodyn._locomotion.connections.force_balance import metric_of
from geodyn._locomotion.motion import costs
from geodyn._locomotion.motion.costs import Costly
from geodyn._locomotion.motion.holonomy import cost, path
from geodyn._locomotion.strokes.pieces import SequenceStroke
from geodyn._locomotion.strokes.stroke import OpenStroke

PIECES = 2
"""How many pieces of a SequenceStroke there are for each loop of the route."""

NUMBERS_OF_PIECES = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Of how many pieces a plan may be, so that plans of about as many loops have one program."""

TRIED = 3
"""How many routes are tried at first."""

TIMES = 2
"""How many times so many routes are tried, if no plan comes of those before."""


def check_routes(swimmer: Costly) -> None:
    """Raise ValueError for a body of which no loop leads to a certain place."""
    if swimmer.depends_on_pace:
        raise ValueError(
            f"plan: where a loop leads {type(swimmer).__name__} depends on the time that it takes, so that no route of"
            " loops can be sought; pass guess=, such as the stroke of a plan of a body whose drag is linear."
        )


def first_strokes(asked: Asked, strokes: PyTree | None, most: int, seed: int, terms: int) -> list[list[SequenceStroke]]:
    """The best routes as strokes: those to try at first, and those to try if no plan comes of these.

    Routes are of the given strokes, stacked in one pytree, or of random loops.
    """
    if not known((asked.swimmer, asked.way, asked.obstacles, asked.home)):
        raise ValueError(
            "plan: inside jit, vmap and grad no route can be sought; pass guess=, the stroke of a plan that was made"
            " outside."
        )
    if strokes is None:
        loops = best_loops(asked.swimmer, asked.home, _reach(asked), asked.bounds, seed)
    else:
        loops = loops_of(asked.swimmer, asked.home, strokes, asked.bounds)
    group = asked.swimmer.group
    begin = Route((), 0.0, 0.0, np.asarray(group.identity()))
    if asked.end is not None:
        straight = _straight(asked)
        moved = path(asked.swimmer, straight)[-1]
        begin = begin._replace(length=float(jnp.sqrt(cost(metric_of(asked.swimmer), straight))), pose=np.asarray(moved))
    routes = best_routes(group, loops, begin, asked.way, asked.obstacles, most)
    best: dict[int, Route] = {}
    for route in routes:
        if route.loops:
            best.setdefault(len(route.loops), route)
    if not best:
        raise ValueError(
            f"plan: from the start {type(asked.swimmer).__name__} can do no loop through the shape"
            f" {np.asarray(asked.home)} that keeps clear of the obstacles and leads towards the pose: pass base= with"
            " another shape, more room around the start, or a pose to which its loops can lead."
        )
    chosen = sorted(best.values(), key=lambda route: route.merit)[: TIMES * TRIED]
    return [_strokes_of(asked, loops, chosen[i : i + TRIED], terms) for i in range(0, len(chosen), TRIED)]


def _strokes_of(asked: Asked, loops: Loops, routes: list[Route], terms: int) -> list[SequenceStroke]:
    """Routes as strokes, all with the same number of pieces."""
    longest = max(len(route.loops) for route in routes) + (asked.end is not None)
    pieces = next((n for n in NUMBERS_OF_PIECES if n >= PIECES * longest), PIECES * longest)
    return [_stroke_of(asked, loops, route, pieces, terms) for route in routes]


def _reach(asked: Asked) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """The box of shapes in which loops are sought: the bounds, the `shape_region` of the body, or one about `home`."""
    home = np.asarray(asked.home)
    lower, upper = asked.bounds
    region = asked.swimmer.shape_region
    if region is None:
        region = (home - 1, home + 1)
    lower = np.where(np.isfinite(lower), lower, np.asarray(region[0]))
    upper = np.where(np.isfinite(upper), upper, np.asarray(region[1]))
    return np.minimum(lower, home - 1e-3), np.maximum(upper, home + 1e-3)


def _straight(asked: Asked) -> OpenStroke:
    """The straight way from the first shape to the last."""
    return OpenStroke(asked.base, asked.end, jnp.zeros((asked.home.size, 1)))


def _stroke_of(asked: Asked, loops: Loops, route: Route, pieces: int, terms: int) -> SequenceStroke:
    """A route as one curve, at constant power, as a series in each of its pieces."""
    parts = [loops.along(route.loops)]
    if asked.end is not None:
        t = np.arange(SAMPLES) / SAMPLES
        way = np.asarray(asked.base) + t[:, None] * np.asarray(asked.end - asked.base)
        parts = [way, *parts]
    shapes = np.concatenate([*parts, np.asarray(asked.home)[None]])
    lengths = np.concatenate(
        [_lengths(asked.swimmer, shapes[i : i + SAMPLES + 1]) for i in range(0, len(shapes) - 1, SAMPLES)]
    )
    passed = np.concatenate([[0.0], np.cumsum(lengths)])
    even = np.linspace(0.0, passed[-1], pieces * SAMPLES + 1)
    table = np.stack([np.interp(even, passed, column) for column in shapes.T], axis=1)
    return _fit(jnp.asarray(table), pieces, terms, asked.base is None)


def _lengths(swimmer: Costly, shapes: Float[np.ndarray, "_ m"]) -> np.ndarray:
    """The lengths between neighbouring shapes."""
    return np.asarray(_lengths_of_steps(swimmer, jnp.asarray(shapes)))


@jit
def _lengths_of_steps(swimmer: Costly, shapes: Float[Array, "N m"]) -> Float[Array, " _"]:
    metric = metric_of(swimmer)

    def length(r: Float[Array, " m"], after: Float[Array, " m"]):
        return jnp.sqrt(costs.energy(metric, (r + after) / 2, after - r))

    return jax.vmap(length)(shapes[:-1], shapes[1:])


@jit
def _fit(table: Float[Array, "N m"], pieces: Count, terms: Count, closed: bool) -> SequenceStroke:
    times = jnp.arange(len(table)) / (len(table) - 1)

    def along(t: Scalar) -> Float[Array, " m"]:
        return jax.vmap(lambda column: jnp.interp(t, times, column))(table.T)

    return SequenceStroke.fit(along, pieces, terms, closed)
