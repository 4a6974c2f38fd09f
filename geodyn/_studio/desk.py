"""What the studio computes for a page: every request of a page is a method of its `Desk`."""

import tempfile
from base64 import b64encode
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._control.families.families import stroke_family
from geodyn._control.methods.method import Direct
from geodyn._control.problem.optimum import OptimalStroke
from geodyn._control.search.failure import is_certified
from geodyn._control.search.strokes import optimal_stroke
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Float
from geodyn._locomotion.connections.connection import AbstractConnection, AbstractInvariantMetric
from geodyn._locomotion.connections.coordinates import minimum_perturbation
from geodyn._locomotion.connections.kaluza_klein import Heading
from geodyn._locomotion.connections.measured import read_connection
from geodyn._locomotion.motion.along import minimum_perturbation_along
from geodyn._locomotion.motion.flux import flux
from geodyn._locomotion.motion.holonomy import cost, holonomy, path
from geodyn._locomotion.motion.passive import AbstractPassiveSwimmer
from geodyn._locomotion.strokes.stroke import FourierStroke, LegendreStroke, Stroke
from geodyn._plot.shapes.swimmers import check_swimmer, swim
from geodyn._studio.assemble import assembled
from geodyn._studio.bodies import Kind, describe, made, measured, with_metric
from geodyn._studio.checks import HARMONICS, choice, number, numbers, words
from geodyn._studio.fields import FRAMES, Slice, drawing, fields, look
from geodyn._studio.maps import Mapped, make_map, whole_turns
from geodyn._studio.places import places
from geodyn._studio.words import sentences

STEPS = 128

Report = Callable[[dict], None]
# (pair, at, lower, upper) of a slice: which two shape variables move, the whole shape, and the corners of their box.
Cut = tuple[tuple[int, int], np.ndarray, np.ndarray, np.ndarray]


class Made(NamedTuple):
    """A body with what it was made of: its kind and the parameters as a text; and the Python that makes it."""

    kind: Kind
    told: str
    body: AbstractConnection
    python: str


class Desk:
    """The computations for one page. `kinds` are the bodies that it may ask for, by name; `maps` the maps of strokes
    that are known, by the name of the body and the Python that makes it; `cancelled` is set to end a search, which then
    keeps the best stroke so far."""

    def __init__(self, kinds: dict[str, Kind], maps: dict[tuple[str, str], Mapped] | None = None):
        self.kinds = dict(kinds)
        self.maps = dict(maps or {})
        self.cancelled = Event()
        self.optimum: OptimalStroke | None = None
        self.wanted = jnp.zeros(0)
        # Made again, a body whose metric is a user's function would be compiled again, for each stroke that is drawn.
        self.last: Made | None = None
        self.goal = "whole"

    def answer(self, ask: str, given: dict, report: Report) -> dict:
        """The answer to a request; ValueError or RuntimeError with what the page is to say."""
        known = {name: getattr(self, name) for name in ASKS}
        return known[choice("ask", ask, known)](given, report)

    def body(self, given: dict, report: Report) -> dict:
        """What there is to say of a body."""
        return self._about(given)

    def fields(self, given: dict, report: Report) -> dict:
        """The grids of a slice, and how the body looks there."""
        body, slice, frame = self._slice(given)
        drawn = look(body, *slice) if given.get("look", True) else None
        return fields(with_metric(body), *slice, frame) | {"look": drawn}

    def exact(self, given: dict, report: Report) -> dict:
        """The net motion and the cost of a stroke of any shape variables, and the poses along it. For one that leaves
        the slice the motion is in the body frame, and there is what the curvature enclosed by it predicts, if the
        isometries are matrices."""
        body, slice, frame = self._slice(given)
        stroke = self._stroke(given, len(slice[1]))
        moving = with_metric(body)
        elements = np.asarray(path(body, stroke, steps=STEPS))
        motion = body.group.log(jnp.asarray(elements[-1]))
        predicted = None
        if _leaves(slice, stroke):
            # The curvature at all shapes of a cone takes minutes, and gigabytes, where isometries are no matrices.
            predicted = None if drawing(body) == "places" else _enclosed(moving, stroke, frame)
        elif frame != "body":
            motion = _reframed(moving, slice, stroke)
        answer = {
            "motion": np.asarray(motion).tolist(),
            "predicted": predicted,
            "cost": float(cost(moving, stroke, steps=STEPS)),
        }
        if given.get("poses"):
            answer |= {"poses": elements.tolist(), "outlines": None}
            outline = getattr(body, "outline", None)
            if outline is not None:
                lines = jax.vmap(lambda t: outline(stroke(t)))(jnp.arange(STEPS + 1) / STEPS)
                answer["outlines"] = np.round(np.asarray(lines), 5).tolist()
        return answer

    def places(self, given: dict, report: Report) -> dict:
        """Where a stroke leads a body whose isometries are no matrices, as pictures that the page draws."""
        body, slice, _ = self._slice(given)
        if drawing(body) != "places":
            raise ValueError(f"the page itself computes where {type(body).__name__} is.")
        return places(body, self._stroke(given, len(slice[1])))

    def optimise(self, given: dict, report: Report) -> dict:
        """The stroke of least cost near the given one, with the evidence that is at hand."""
        posed, problem = self._problem(given)
        self.cancelled.clear()
        best = optimal_stroke(posed, **problem, progress=self._watched(report, "iteration"), throw=False)
        ended = RESULTS(int(best.result)).message
        self._keep(best, jnp.asarray(problem["displacement"]), given["goal"])
        if best.result in (RESULTS.cost_not_finite, RESULTS.stalled) or not np.isfinite(float(best.cost)):
            raise ValueError(
                f"no optimal stroke was found: {ended}. Begin with another stroke, ask for a shorter"
                " displacement, or set bounds."
            )
        return self._found(best, posed, _call(problem, isinstance(posed, Heading)))

    def certificate(self, given: dict, report: Report) -> dict:
        """What is known of the last optimal stroke, in words."""
        if self.optimum is None:
            raise ValueError("there is no optimal stroke yet: optimise first.")
        return {"sentences": sentences(self.optimum, self.wanted, self.goal)}

    def family(self, given: dict, report: Report) -> dict:
        """The optimal strokes of smaller and larger displacements, in order."""
        posed, problem = self._problem(given)
        self.cancelled.clear()
        amount = float(np.linalg.norm(np.atleast_1d(problem["displacement"])))
        direction = np.asarray(problem.pop("displacement")) / amount
        ways: dict[str, Any] = {"displacement": direction if direction.ndim else np.sign(direction), "points": 60}
        watch = self._watched(report, "strokes")
        up = stroke_family(posed, interval=(amount, 8 * amount), **ways, **problem, progress=watch)
        down = None
        if not self.cancelled.is_set():
            from_there: dict[str, Any] = {**problem, "guess": up.stroke(0)}
            down = stroke_family(posed, interval=(amount, amount / 8), **ways, **from_there, progress=watch)
        parts = [(down, i) for i in range(len(down.parameter) - 1, 0, -1)] if down is not None else []
        parts += [(up, i) for i in range(len(up.parameter))]
        return {
            "strokes": [
                self._told(of.stroke(i), float(of.cost[i]))
                | {
                    "displacement": float(of.parameter[i]),
                    "efficiency": float(of.efficiency[i]),
                    "minimum": bool(of.second_order[i] > 0),
                }
                for of, i in parts
            ],
            "here": len(parts) - len(up.parameter),
            "end": up.end.message,
        }

    def map(self, given: dict, report: Report) -> dict:
        """A map of the best strokes around the displacement and the turn of the given one."""
        kind, body, python = self._made(given)
        self._check_pace(body)
        about = describe(kind, body, python)
        stroke = self._stroke(given, len(about["start"]))
        region = (np.asarray(about["lower"]), np.asarray(about["upper"]))
        self.cancelled.clear()
        watch = self._watched(report, "points")
        mapped = make_map(with_metric(body), stroke, region, self._bounds(given, stroke), watch)
        self.maps[kind.name, python] = mapped
        return {"map": mapped.told, "end": mapped.found.end.message}

    def demand(self, given: dict, report: Report) -> dict:
        """The best stroke at a place of the map, as `optimise` tells it."""
        kind, body, python = self._made(given)
        mapped = self.maps.get((kind.name, python))
        if mapped is None:
            raise ValueError(f"there is no map of {python}: make one first.")
        place = numbers("demand", given.get("demand"), (2,))
        best = mapped.found.optimum(*place)
        demands = mapped.found.task.demands
        goal = "map" if demands.components is None else "components"
        self._keep(best, demands.target(jnp.asarray(place)), goal)
        told = self._found(best, with_metric(body), f"{mapped.python}.optimum({place[0]!s}, {place[1]!s})")
        mean = np.asarray(told["stroke"]["mean"])
        told["stroke"]["mean"] = (mean - whole_turns(with_metric(body), mean)).tolist()
        return told

    def film(self, given: dict, report: Report) -> dict:
        """A GIF of the body that swims."""
        body, slice, _ = self._slice(given)
        stroke = self._stroke(given, len(slice[1]))
        check_swimmer(body)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "stroke.gif"
            swim(body, stroke, file)
            return {"gif": b64encode(file.read_bytes()).decode("ascii")}

    def page(self, given: dict, report: Report) -> dict:
        """The page as it is, in one file that needs no server."""
        state = given.get("state")
        if not isinstance(state, dict):
            raise ValueError("state must be what the page shows.")
        return {"html": assembled(self.alone(given, state))}

    def measure(self, given: dict, report: Report) -> dict:
        """A new body from the data of a file: A(r), or shapes and poses over time."""
        name = words("name", given.get("name"), 200)
        text = words("text", given.get("text"), 20_000_000)
        try:
            fitted = read_connection(StringIO(text))
        except ValueError as error:
            raise ValueError(str(error).replace("read_connection: the stream", name, 1)) from None
        self.kinds[name] = kind = measured(name, fitted)
        return describe(kind, fitted, f"gd.bundles.read_connection({name!r})")

    def alone(self, given: dict, state: dict) -> dict:
        """The data of a page without a server: the body, its fields and what the page showed."""
        about = self._about(given)
        here = {"pair": [0, 1], "at": about["start"], "lower": about["lower"][:2], "upper": about["upper"][:2]}
        asked = {name: given.get(name, here[name]) for name in here}
        shown = {
            frame: self.fields(given | asked | {"frame": frame, "look": frame == "body"}, _silent)
            for frame in about["frames"]
        }
        alone = {"alone": True, "bodies": [], "body": about, "fields": shown}
        if about["drawing"] == "places":
            state = {"stroke": _circle(asked)} | state
            alone["places"] = self.places(given | asked | {"stroke": state["stroke"]}, _silent)
        return alone | {"state": state}

    def _made(self, given: dict) -> tuple[Kind, AbstractConnection, str]:
        kind = self.kinds[choice("body", given.get("body"), self.kinds)]
        values = given.get("parameters", {})
        if not isinstance(values, dict):
            raise ValueError("parameters must be names with values.")
        told = repr(values)
        if self.last is None or self.last.kind is not kind or self.last.told != told:
            self.last = Made(kind, told, *made(kind, values))
        return kind, self.last.body, self.last.python

    def _about(self, given: dict) -> dict:
        """What the page says of a body, with its map if there is one."""
        kind, body, python = self._made(given)
        mapped = self.maps.get((kind.name, python))
        return describe(kind, body, python) | {"map": None if mapped is None else mapped.told}

    def _slice(self, given: dict) -> tuple[AbstractConnection, Cut, str]:
        """(the body, (pair, at, lower, upper), the frame) of a request."""
        _, body, _ = self._made(given)
        at = numbers("at", given.get("at"), (None,))
        first, second = numbers("pair", given.get("pair"), (2,))
        pair = (int(first), int(second))
        if len(at) < 2 or len(set(pair)) != 2 or not all(0 <= i < len(at) for i in pair):
            raise ValueError(f"pair must be two different shape variables of {len(at)}, got {pair}")
        jax.eval_shape(body.form, jax.ShapeDtypeStruct(at.shape, float))
        lower = numbers("lower", given.get("lower"), (2,))
        upper = numbers("upper", given.get("upper"), (2,))
        if not (lower < upper).all():
            raise ValueError(f"lower must be less than upper, got {lower.tolist()} and {upper.tolist()}")
        return body, (pair, at, lower, upper), choice("frame", given.get("frame", "body"), FRAMES)

    def _stroke(self, given: dict, count: int) -> FourierStroke:
        """The stroke of a request, in all shape variables."""
        told = given.get("stroke")
        if not isinstance(told, dict):
            raise ValueError("stroke must have mean, cosine and sine.")
        mean = numbers("mean of the stroke", told.get("mean"), (count,))
        cosine = numbers("cosine of the stroke", told.get("cosine"), (count, None))
        sine = numbers("sine of the stroke", told.get("sine"), (count, None))
        if not 1 <= cosine.shape[1] <= HARMONICS:
            raise ValueError(f"a stroke has 1 to {HARMONICS} harmonics, got {cosine.shape[1]}")
        return FourierStroke(mean, cosine, sine)

    def _problem(self, given: dict) -> tuple[AbstractInvariantMetric, dict[str, Any]]:
        """(the body as `optimal_stroke` takes it, the other arguments)."""
        kind, body, _ = self._made(given)
        self._check_pace(body)
        goals = describe(kind, body, "")["goals"]
        goal = choice("goal", given.get("goal"), goals)
        wanted = 1 if goal != "whole" else body.group.dim
        amounts = numbers("displacement", given.get("displacement"), (wanted,))
        harmonics = int(number("harmonics", given.get("harmonics"), 1, HARMONICS, whole=True))
        stroke = self._stroke(given, len(numbers("at", given.get("at"), (None,))))
        bounds = self._bounds(given, stroke)
        posed = kind.known.posed(body, wanted) if goal == "turn" else with_metric(body)
        method = Direct(harmonics=harmonics, steps=max(6 * harmonics, 24))
        problem: dict[str, Any] = {
            "displacement": amounts[0] if goal != "whole" else amounts,
            "guess": stroke,
            "method": method,
            "bounds": bounds,
        }
        if kind.known.based and bounds is None:
            problem["base"] = np.asarray(stroke(0.0))
        return posed, problem

    def _check_pace(self, body: AbstractConnection) -> None:
        if isinstance(body, AbstractPassiveSwimmer):
            raise ValueError(
                "springs move some of the shapes of this body, at a pace: gd.optimal_stroke(swimmer, displacement=…,"
                " period=…) finds its best drive, as does `geodyn stroke passive-links`"
            )

    def _bounds(self, given: dict, stroke: FourierStroke) -> tuple[np.ndarray, ...] | None:
        """The box of the request, of all shape variables."""
        bounds = given.get("bounds")
        return None if bounds is None else tuple(numbers("bounds", bounds, (2, stroke.mean.size)))

    def _watched(self, report: Report, what: str) -> Callable[[int, float], None]:
        def watch(count: int, value: float) -> None:
            report({"what": what, "count": count, "value": value})
            if self.cancelled.is_set():
                raise KeyboardInterrupt

        return watch

    def _keep(self, best: OptimalStroke, wanted: Float[Array, "..."], goal: str) -> None:
        """Keeps an optimum and what was asked for, until its certificate is."""
        self.optimum = best
        self.wanted = wanted
        self.goal = goal

    def _found(self, best: OptimalStroke, posed: AbstractInvariantMetric, python: str) -> dict:
        """The optimum that was kept, for the page, and the Python that gives it."""
        told = self._told(best.stroke, float(best.cost))
        return told | {
            "drawn": self._drawn(best, told["stroke"], posed),
            "result": RESULTS(int(best.result)).message,
            "converged": bool(is_certified(best, self.wanted)),
            "iterations": int(best.iterations),
            "multiplier": np.atleast_1d(np.asarray(best.multiplier)).tolist(),
            "python": python,
        }

    def _told(self, stroke: Stroke, energy: float) -> dict:
        """A stroke for the page: as Fourier coefficients, and as Python."""
        if isinstance(stroke, LegendreStroke) or stroke.cosine.shape[1] > HARMONICS:
            stroke = FourierStroke.fit(stroke, HARMONICS)
        parts = {name: np.asarray(getattr(stroke, name)).tolist() for name in ("mean", "cosine", "sine")}
        return {"stroke": parts, "cost": energy}

    def _drawn(self, best: OptimalStroke, shown: dict, posed: AbstractInvariantMetric) -> float:
        """By how much the stroke of the page moves otherwise than the optimal one, relative to its net motion."""
        if not isinstance(best.stroke, LegendreStroke):
            return 0.0
        drawn = np.asarray(posed.group.log(holonomy(posed, FourierStroke(**shown))))
        wanted = np.asarray(posed.group.log(holonomy(posed, best.stroke)))
        return float(np.abs(drawn - wanted).max() / max(np.abs(wanted).max(), 1e-300))


ASKS = (
    "body",
    "fields",
    "exact",
    "places",
    "optimise",
    "certificate",
    "family",
    "map",
    "demand",
    "film",
    "page",
    "measure",
)
LONG = ("optimise", "certificate", "family", "map", "demand", "film", "page", "measure")
"""What may take seconds: a page can ask for other things meanwhile."""


def _silent(_: dict) -> None:
    pass


def _circle(asked: dict) -> dict[str, list]:
    """The stroke with which a page begins: an ellipse about the shape that is held, as the page has it."""
    mean = np.array(asked["at"], float)
    half = np.subtract(asked["upper"], asked["lower"]) / 2
    first, second = pair = list(asked["pair"])
    middle = np.add(asked["upper"], asked["lower"]) / 2
    inside = (mean[pair] > asked["lower"]) & (mean[pair] < asked["upper"])
    mean[pair] = np.where(inside, mean[pair], middle)
    room = np.minimum(mean[pair] - asked["lower"], asked["upper"] - mean[pair])
    radii = 0.4 * np.minimum(half, np.maximum(room, 0.1 * half))
    cosine = np.zeros((len(mean), 4))
    sine = np.zeros((len(mean), 4))
    cosine[first, 0], sine[second, 0] = radii
    return {"mean": mean.tolist(), "cosine": cosine.tolist(), "sine": sine.tolist()}


def _leaves(slice: Cut, stroke: FourierStroke) -> bool:
    """Whether shape variables move that the slice holds, or stand elsewhere; as the page has it."""
    pair, at, _, _ = slice
    others = np.delete(np.arange(len(at)), pair)
    moves = np.abs(np.concatenate([stroke.cosine, stroke.sine], axis=1))[others]
    shifts = np.abs(np.asarray(stroke.mean) - at)[others]
    return bool((moves >= 1e-12).any() or (shifts >= 1e-12).any())


def _enclosed(body: AbstractInvariantMetric, stroke: FourierStroke, frame: str) -> list[float] | None:
    """The net motion in the body frame that the curvature enclosed by a stroke predicts, by its area in the body frame
    or in the one that the stroke disturbs least. None for a stroke that encloses nothing, or around singular shapes."""
    if frame == "body":
        predicted = -flux(body, stroke)
    else:
        try:
            moving = minimum_perturbation_along(body, stroke)
        except ValueError:
            return None
        # Ad_b, with b at the start, takes what is seen in that frame into the body frame.
        predicted = -body.group.adjoint(moving.frame(stroke(0.0))) @ flux(moving, stroke)
    return np.asarray(predicted).tolist()


def _reframed(body: AbstractInvariantMetric, slice: Cut, stroke: FourierStroke) -> Float[Array, " k"]:
    """The net motion in the frame of least perturbation of the slice in which the stroke lies."""
    pair, _, lower, upper = slice
    flat = jax.tree.map(lambda x: x[jnp.array(pair)], stroke)
    moving = minimum_perturbation(Slice(body, stroke.mean, pair), lower, upper)
    return moving.group.log(path(moving, flat, steps=STEPS)[-1])


def _call(problem: dict, heading: bool) -> str:
    """The Python that asks for the same optimal stroke of `body`, which has a metric of shapes."""
    displacement = np.asarray(problem["displacement"]).tolist()
    told = [
        f"displacement={displacement!r}",
        f"method=gd.Direct({problem['method'].harmonics}, {problem['method'].steps})",
    ]
    if problem["bounds"] is not None:
        told.append(f"bounds={tuple(x.tolist() for x in problem['bounds'])!r}")
    if "base" in problem:
        told.append(f"base={problem['base'].tolist()!r}")
    moving = "gd.bundles.Heading(body)" if heading else "body"
    return f"gd.optimal_stroke({moving}, stroke, {', '.join(told)})"
