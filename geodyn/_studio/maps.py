"""Maps of strokes for the page: those of a file, those that are made for it, and what it knows of one."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from geodyn._control.families.mapping import stroke_map
from geodyn._control.families.maps import StrokeMap, load_map
from geodyn._foundations.typing import Array, Float
from geodyn._locomotion.connections.connection import AbstractInvariantMetric, reduction
from geodyn._locomotion.motion.holonomy import cost, holonomy
from geodyn._locomotion.strokes.stroke import FourierStroke, LegendreStroke, Stroke
from geodyn._plot.pages.encoding import text
from geodyn._plot.shapes.names import pose_names
from geodyn._studio.checks import HARMONICS

POINTS = 6
"""Points along each axis of a map that is made for the page."""
STARTS = 8
"""Random strokes at each of its first nine points: a map of the page is to be there within a minute."""


class Mapped(NamedTuple):
    """A map of strokes of a body of the page; the Python that gives it where `body` is known; and what the page is told
    of it."""

    found: StrokeMap
    python: str
    told: dict


def read_map(path: str, body: AbstractInvariantMetric, called: str) -> Mapped:
    """The map in a file, which must be one of this body; `called` is the Python that makes it."""
    remedy = (
        f"The map must be one of the body that the page begins with, {called}: open the studio with the body of the map"
        " (`geodyn studio module:name` takes a body of your own), or save a map of this one, gd.stroke_map(body,"
        " …).save(FILE)."
    )
    try:
        found = load_map(path, body)
    except ValueError as error:
        raise ValueError(f"--map {path}: {error}. {remedy}") from None
    places = np.argwhere(found.best.found)
    if not len(places):
        raise ValueError(f"--map {path}: no stroke was found at any of its points, so that there is nothing to show.")
    # Bodies of different kinds may have the same numbers: a stroke tells them apart.
    i, j = (int(index) for index in places[0])
    stroke = found.at(i, j)
    told = np.array([found.displacement[i], found.turn[j], found.cost[i, j]])
    here = np.array([*_reached(found, stroke), cost(body, stroke)])
    if not np.allclose(here, told, rtol=1e-2, atol=1e-2 * np.abs(told[:2]).max()):
        names = ", ".join([*_names(found)[0], "cost"])
        raise ValueError(
            f"--map {path} is of another body: its stroke at the point ({i}, {j}) has ({names}) {told.round(6)} in the"
            f" map, {here.round(6)} here. {remedy}"
        )
    return Mapped(found, f"gd.strokes.load_map({path!r}, body)", told_map(found, body))


def _reached(found: StrokeMap, stroke: Stroke) -> np.ndarray:
    """The two numbers that a stroke reaches, of which the demands are made."""
    group = found.swimmer.group
    motion = np.asarray(group.log(holonomy(found.swimmer, stroke)))
    chosen = found.task.demands.components
    if chosen is None:
        return np.array([np.linalg.norm(motion[:-1]), motion[-1]])
    return motion[list(chosen)]


def make_map(
    body: AbstractInvariantMetric,
    stroke: FourierStroke,
    region: tuple[np.ndarray, np.ndarray],
    bounds: tuple[np.ndarray, ...] | None,
    progress: Callable[[int, float], None],
) -> Mapped:
    """A small map around the displacement and the turn of a stroke. What random strokes are tried lie in the region."""
    group = body.group
    if group.translations < 2 or group.dim - group.translations != 1:
        raise ValueError(
            "a map is over the length of a step and a turn, which only bodies that move in a plane have. Of any body"
            " gd.stroke_map(body, components=(i, j), …) makes one over two components of its net motion;"
            " `geodyn studio BODY --map FILE` shows it when it is saved."
        )
    motion = np.asarray(group.log(holonomy(body, stroke)))
    far = float(np.linalg.norm(motion[:-1]))
    turn = float(motion[-1])
    if not far > 1e-6:
        raise ValueError("a map is made around the displacement of the stroke, and this one has none: draw another.")
    # To either side, turns that move the parts of the body about as far as the stroke moves it.
    spread = far / _arm(body, stroke.mean)
    axes: dict[str, Any] = {
        "displacement": _rounded(np.linspace(0.5 * far, 1.5 * far, POINTS)),
        "turn": _rounded(np.linspace(turn - spread, turn + spread, POINTS)),
        "region": tuple(np.asarray(corner).tolist() for corner in region),
        "starts": STARTS,
    }
    if bounds is not None:
        axes["bounds"] = tuple(np.asarray(corner).tolist() for corner in bounds)
    found = stroke_map(body, **axes, progress=progress)
    if not found.best.found.any():
        raise ValueError("cancelled before a stroke was found.")
    given = ", ".join(f"{name}={value!r}" for name, value in axes.items())
    return Mapped(found, f"gd.stroke_map(body, {given})", told_map(found, body))


def _arm(body: AbstractInvariantMetric, r: Float[Array, " m"]) -> float:
    """The length of the arm at which a turn is as hard as a step, of a body in the plane with its shape held."""
    still = jnp.zeros_like(r)
    drags = [float(body.quadratic_form(r, along, still)) for along in jnp.eye(3)]
    of_step = (drags[0] + drags[1]) / 2
    return float(np.sqrt(drags[2] / of_step))


def _rounded(axis: np.ndarray) -> list[float]:
    """An axis in numbers that one can read; its steps keep three digits."""
    digits = 3 - int(np.floor(np.log10(axis[1] - axis[0])))
    return np.round(axis, digits).tolist()


def told_map(found: StrokeMap, body: AbstractInvariantMetric) -> dict:
    """What the page knows of a map of a body: its axes, and for each point a row of numbers of its best stroke, as
    float64 in base64: cost, efficiency, amplitude, branch, prices[2], hessian[4], coefficients[n] and slopes[2 n]; NaN
    where there is none. `basis` [m (1 + 2 K), n] gives mean[m], cosine[m, K] and sine[m, K] from the coefficients."""
    best = found.best
    points = best.cost.size
    basis = _basis(found)
    coefficients = _unwound(found, body, basis)
    parts = (best.cost, best.efficiency, best.amplitude, found.branch, best.multiplier, best.hessian)
    rows = [np.asarray(x, float).reshape(points, -1) for x in (*parts, coefficients, best.slopes)]
    names, units = _names(found)
    table = np.where(best.found.reshape(points, 1), np.concatenate(rows, axis=1), np.nan)
    return {
        "displacement": np.asarray(found.displacement, float).tolist(),
        "turn": np.asarray(found.turn, float).tolist(),
        "names": names,
        "units": units,
        "harmonics": _harmonics(found),
        "basis": text(np.ascontiguousarray(basis, "<f8")),
        "table": text(np.ascontiguousarray(table, "<f8")),
    }


def _unwound(found: StrokeMap, body: AbstractInvariantMetric, basis: Float[Array, "P n"]) -> np.ndarray:
    """The coefficients [N, M, n] of the best strokes, about shapes without whole turns."""
    coefficients = np.array(found.best.coefficients)
    count = len(basis) // (1 + 2 * _harmonics(found))
    for place in np.argwhere(found.best.found):
        flat = coefficients[tuple(place)]
        turns = whole_turns(body, np.asarray(basis[:count] @ flat))
        if turns.any():
            stroke = found.task.unknowns(jnp.asarray(flat))
            coefficients[tuple(place)] = ravel_pytree(_shifted(stroke, -turns))[0]
    return coefficients


def _shifted(stroke: FourierStroke | LegendreStroke, shift: np.ndarray) -> FourierStroke | LegendreStroke:
    """The stroke with all of its shapes moved."""
    if isinstance(stroke, FourierStroke):
        return FourierStroke(stroke.mean + shift, stroke.cosine, stroke.sine)
    return LegendreStroke(stroke.base + shift, stroke.coefficients)


def whole_turns(body: AbstractInvariantMetric, mean: np.ndarray) -> np.ndarray:
    """By how many whole turns, in radians, each shape variable is off the straight body, where that leaves the body as
    it is: a search may wind up angles, which the page draws where they begin."""
    straight = np.zeros(len(mean)) if body.first_shape is None else np.asarray(body.first_shape)
    turns = 2 * np.pi * np.round((mean - straight) / (2 * np.pi))
    if not turns.any():
        return turns
    here = reduction(body, jnp.asarray(mean))
    for i in np.flatnonzero(turns):
        there = reduction(body, jnp.asarray(mean - turns * (np.arange(len(mean)) == i)))
        if not all(np.allclose(a, b, rtol=1e-6, atol=1e-9) for a, b in zip(here, there, strict=True)):
            turns[i] = 0.0
    return turns


def _names(found: StrokeMap) -> tuple[list[str], list[str]]:
    """What the two demands are, and their units where they are angles."""
    chosen = found.task.demands.components
    if chosen is None:
        return ["displacement", "turn"], ["", "rad"]
    group = found.swimmer.group
    names = pose_names(group)
    return [names[i] for i in chosen], ["rad" if i >= group.translations else "" for i in chosen]


def _harmonics(found: StrokeMap) -> int:
    """Those of its strokes, or as many as the page can have: more of them, or strokes that are no Fourier series."""
    like = found.task.like
    return min(like.cosine.shape[1], HARMONICS) if isinstance(like, FourierStroke) else HARMONICS


def _basis(found: StrokeMap) -> Float[Array, "P n"]:
    """The Fourier coefficients of a stroke of the map are linear in its own."""
    harmonics = _harmonics(found)

    def fourier(flat: Float[Array, " n"]) -> Float[Array, " P"]:
        stroke = FourierStroke.fit(found.task.unknowns(flat), harmonics)
        return jnp.concatenate([stroke.mean, stroke.cosine.ravel(), stroke.sine.ravel()])

    count = found.best.coefficients.shape[-1]
    return jax.vmap(fourier, out_axes=1)(jnp.eye(count))
