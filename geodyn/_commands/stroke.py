"""`geodyn stroke`: computes the optimal stroke of a body, with the evidence of its optimality and pictures."""

import time
from pathlib import Path
from typing import Any, cast

import jax.numpy as jnp
import numpy as np

import geodyn as gd
from geodyn import plot as draw
from geodyn._catalogue.bodies import Body
from geodyn._catalogue.options import body_of, listing, parse
from geodyn._commands.report import folder, report
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Numbers
from geodyn._locomotion.connections.force_balance import AbstractForceBalance
from geodyn._locomotion.connections.locomotion import AbstractLocomotion
from geodyn._locomotion.motion.costs import Costly
from geodyn._locomotion.strokes.stroke import Stroke, shapes_at


def stroke(name: str | None, words: list[str]) -> int:
    """Compute the optimal stroke of a body and write DIR/NAME_stroke.npz (`gd.strokes.load_stroke` reads it), .json and
    .png; on request also a film, and the family of strokes.

    Without a name, print the list of the bodies. If the search fails, the stroke where it stood is saved, and the error
    of `gd.optimal_stroke` is raised.
    """
    if name is None:
        print(listing())
        return 0
    known = body_of(name)
    body, options = parse(name, known, words)
    posed, problem = _problem(known, body, options)
    name = name.replace(":", ".")
    start = time.perf_counter()
    film = options["animate"] and f"{folder(options['out'])}/{name}_stroke.{options['animate']}"
    if film:
        draw.check_swimmer(body, film)
    target = folder(options["out"]) / f"{name}_stroke"
    optimum = _optimum(posed, problem, options, target)
    optimum.save(f"{target}.npz")
    _draw(body, posed, problem["displacement"], optimum.stroke).savefig(f"{target}.png", dpi=120)
    lines = {
        "displacement": _told(optimum.displacement),
        "energy": float(optimum.cost),
        "multiplier dE/dD": _told(optimum.multiplier),
        "KKT residual": float(optimum.kkt_residual),
        "Wong residual": float(optimum.wong_residual),
        "second variation, least": float(optimum.second_order),
        "seconds, compiling": time.perf_counter() - start,
    }
    report(f"optimal stroke of {name}: {verdict(optimum)}", lines, target)
    print(f"stroke {target}.npz (gd.strokes.load_stroke), picture {target}.png")
    if _can_be_drawn(body) and isinstance(body, gd.AbstractConnection):
        draw.player(body, optimum.stroke, f"{target}.html", title=f"optimal stroke of {name}")
        print(f"page {target}.html (plays in a browser)")
    if film:
        draw.swim(body, optimum.stroke, film)
        print(f"film {film}")
    if options["family"] is not None:
        _family(name, posed, problem, options["family"], optimum.stroke, target)
    return 0


def _problem(known: Body, body: AbstractLocomotion, options: dict[str, Any]) -> tuple[Costly, dict[str, Any]]:
    """(the body with a cost of strokes, the arguments for `gd.optimal_stroke` or `gd.optimal_strokes`)."""
    given, bounds = np.array(options["displacement"]), (options["lower"], options["upper"])
    if (bounds[0] is None) != (bounds[1] is None):
        raise ValueError("bounds of the shape are --lower and --upper: give both.")
    if options["harmonics"] < 1:
        raise ValueError(f"--harmonics must be at least 1, got {options['harmonics']}; 16 suit most strokes.")
    base, guess, rates = options["base"], options["guess"], options["rates"]
    timed = {} if known.period is None else {"period": options["period"]}
    if timed and (options["everywhere"] or options["family"] is not None):
        raise ValueError("--global and --family are for bodies without springs, whose pace does not matter.")
    if options["everywhere"] and (base or guess):
        raise ValueError("--global looks everywhere: leave out --base and --guess, or --global.")
    start = None if known.start is None else np.asarray(known.start(body), float)
    given_shapes = {"base": base, "guess": guess, "lower": bounds[0], "upper": bounds[1], "rates": rates}
    for option, shape in given_shapes.items():
        if start is not None and shape is not None and len(shape) != len(start):
            raise ValueError(
                f"--{option} needs {len(start)} numbers, as shapes of this body have, such as {start.tolist()}; got"
                f" {shape}."
            )
    free = bounds[0] is None
    kept_in = known.bounded or (known.based and options["everywhere"])
    if free and kept_in and known.region is not None:
        bounds = known.region(body)
    if start is not None and not base and not guess and free:
        base, guess = (start, None) if known.based else (None, start)
    if any(shape is not None and len(shape) == 1 for shape in (base, guess, start)):
        raise ValueError(
            "a body of one shape variable goes back the way that it came: no closed stroke moves it. For a change of"
            " shape that stays see gd.strokes.OpenStroke and gd.path."
        )
    method = gd.Direct(harmonics=options["harmonics"], steps=6 * options["harmonics"])
    displacement = given if given.size > 1 else given[0]
    posed = known.posed(body, given.size)
    held = {"bounds": None if bounds[0] is None else bounds, "rates": rates}
    problem = {"displacement": displacement, "method": method} | held | timed
    if options["everywhere"]:
        return posed, problem | {"region": None if known.region is None else known.region(body)}
    return posed, problem | {"base": base, "guess": guess}


def _optimum(posed: Costly, problem: dict[str, Any], options: dict[str, Any], target: Path) -> gd.OptimalStroke:
    """The optimal stroke; if the search fails, the stroke where it stood is saved before the error is raised."""
    if options["everywhere"]:
        found = gd.optimal_strokes(posed, **problem, starts=options["starts"], progress=True)
        for optimum in found:
            middle = np.mean(shapes_at(optimum.stroke, jnp.arange(128) / 128), axis=0)
            print(f"energy {float(optimum.cost):.12g} around the shape {middle}")
        return found[0]
    try:
        return gd.optimal_stroke(posed, **problem, progress=True)
    except gd.StrokeError as failed:
        cast(gd.OptimalStroke, failed.optimum).save(f"{target}.npz")
        print(f"where the search stood: {target}.npz (gd.strokes.load_stroke)")
        raise


def verdict(optimum: gd.OptimalStroke) -> str:
    """A text that says how the search ended, and what to do if the result is not a minimum."""
    minimum = "" if optimum.second_order > 0 else ", but not to a minimum: pass --guess another shape, or --global"
    return f"{RESULTS(int(optimum.result)).message}{minimum}"


def _told(value: Array) -> float | list[float]:
    """A number or a list of numbers, for JSON."""
    return np.asarray(value).tolist()


def _family(
    name: str,
    posed: Costly,
    problem: dict[str, Any],
    last: float,
    first: Stroke,
    target: Path,
) -> None:
    """Compute the optimal strokes over an interval of displacements: DIR/NAME_stroke_family.png and .json."""
    wanted = np.asarray(problem["displacement"])
    size = float(np.linalg.norm(wanted)) if wanted.ndim else float(wanted)
    direction = wanted / size
    ways = {
        "displacement": direction if wanted.ndim else None,
        "base": problem.get("base"),
        **{name: problem[name] for name in ("bounds", "rates", "method")},
    }
    found = gd.stroke_family(posed, first, interval=(size, last), **ways, progress=True)
    target = target.with_name(f"{target.name}_family")
    sizes = np.asarray(found.parameter)
    slopes = np.asarray(found.multiplier).reshape(len(sizes), -1) @ np.atleast_1d(direction)
    draw.family(sizes, np.asarray(found.cost), slopes).figure.savefig(f"{target}.png", dpi=120)
    lines = {"strokes": len(sizes), "from": float(sizes[0]), "to": float(sizes[-1]), "ends because": found.end.message}
    if found.best is not None:
        lines["best D²/E"] = float(sizes[found.best] ** 2 / found.cost[found.best])
        lines["at D"] = float(sizes[found.best])
    lines["KKT residual, largest"] = float(found.kkt_residual[:-1].max())
    report(f"family of optimal strokes of {name}", lines, target)
    print(f"picture {target}.png")


def _can_be_drawn(body: AbstractLocomotion) -> bool:
    try:
        draw.check_swimmer(body)
    except ValueError:
        return False
    return True


def _draw(body: AbstractLocomotion, posed: Costly, displacement: Numbers, stroke: Stroke):
    """A figure of the curvature that the stroke encloses, in the plane of two shape variables in which it is largest,
    for each coordinate of the pose; and of the moving body or, if that cannot be drawn, of its displacement. Of a body
    without curvature the stroke alone."""
    if isinstance(posed, AbstractForceBalance):
        figure = draw.figure(11, 4.5)
        left, middle, right = figure.subplots(1, 3)
        draw.stroke(stroke, left)
        draw.swimmer(body, stroke, middle)
        draw.displacement(body, stroke, right)
        return figure
    r = np.asarray(shapes_at(stroke, jnp.linspace(0.0, 1.0, 129)))
    middle = (r.min(axis=0) + r.max(axis=0)) / 2
    margin = 0.2 * np.ptp(r, axis=0)
    field = np.abs(gd.curvature(posed, jnp.asarray(middle)))
    free = max(posed.group.translations, 1)
    weights = np.abs(displacement) if np.ndim(displacement) else np.arange(len(field)) < free
    largest = np.argmax(weights[:, None, None] * np.triu(field))
    _, first, second = (int(i) for i in np.unravel_index(largest, field.shape))
    pair = [first, second]
    low = (r.min(axis=0) - margin)[pair]
    high = (r.max(axis=0) + margin)[pair]
    panels = min(posed.group.dim, 3)
    figure = draw.figure(3 + 3.4 * panels, 4.5 if panels == 1 else 8.5)
    parts: Any = figure.subfigures(1, 2) if panels == 1 else figure.subfigures(2, 1, height_ratios=[1, 1.2])
    above, below = np.ravel(parts)
    draw.height_functions(posed, low, high, above, stroke=stroke, variables=(first, second), at=middle)
    if not _can_be_drawn(body):
        draw.displacement(body, stroke, below.subplots())
    else:
        left, right = (below.subplots(), None) if panels == 1 else below.subplots(1, 2)
        draw.swimmer(body, stroke, left)
        if right is not None:
            draw.displacement(body, stroke, right)
    return figure
