"""The data of a page on which a body swims: its outline, and the picture of the stroke with the point of its shape."""

from base64 import b64encode
from collections.abc import Callable
from io import BytesIO
from typing import Any

import jax.numpy as jnp
import numpy as np

from geodyn._locomotion.connections.locomotion import AbstractLocomotion
from geodyn._locomotion.strokes.stroke import Stroke, shapes_at
from geodyn._plot.pages.encoding import box, quantise, series, text
from geodyn._plot.shapes.names import pose_names
from geodyn._plot.shapes.strokes import curvature
from geodyn._plot.shapes.strokes import stroke as draw_stroke
from geodyn._plot.shapes.swimmers import over_strokes, pose_coordinates, seen, track
from geodyn._plot.style import COLOURS, GREY, INK, PALE, figure

EACH = 96
"""Frames of a stroke."""


def swimming(
    swimmer: AbstractLocomotion,
    stroke: Stroke,
    strokes: int,
    component: int | None,
    variables: tuple[int, int],
    at: Any,
    outline: Callable | None = None,
) -> dict:
    """The data of the page. The path of the frame of the body is the trail."""
    g = over_strokes(swimmer, stroke, strokes, EACH)
    times = np.arange(len(g)) / EACH
    outlines = seen(swimmer, stroke, times % 1, g, outline)
    path = track(swimmer, g)
    frames, parts, points, _ = outlines.shape
    moving = np.concatenate([path[:, None], outlines.reshape(frames, parts * points, 2)], axis=1)
    centre, scale = box(moving.reshape(-1, 2), True)
    shapes = np.asarray(shapes_at(stroke, jnp.asarray(times % 1)))
    coordinates = dict(zip(pose_names(swimmer.group), pose_coordinates(swimmer.group, g).T, strict=True))
    none = text(np.zeros(0, "<f4"))
    planar = component is not None and shapes.shape[1] > 1  # A single shape variable has no curvature.
    return {
        "dim": 2,
        "points": 1,
        "inner": 0,
        "edges": [],
        "rigid": [],
        "radii": [0.3],
        "colours": [COLOURS[1]],
        "ink": [INK, GREY, PALE, COLOURS[1]],
        "outlines": [parts, points],
        "outline": [COLOURS[0], 4],
        "series": series(coordinates, COLOURS),
        "shapes": _shapes(swimmer, stroke, shapes, component, variables, at) if planar else None,
        "spheres": [],
        "sizes": none,
        "flashes": [],
        "times": text(times.astype("<f4")),
        "moving": text(quantise(moving, centre, scale)),
        "still": text(np.zeros(0, "<i2")),
        "lengths": [],
        "reach": 1.0,
        "axes": [],
        "note": f"{strokes} strokes · time in strokes" if strokes > 1 else "one stroke",
    }


def _shapes(
    swimmer: AbstractLocomotion,
    stroke: Stroke,
    shapes: np.ndarray,
    component: int | None,
    variables: tuple[int, int],
    at: Any,
) -> dict:
    """The picture of the curvature with the stroke on it, and where the shapes [frames, m] are in it, as fractions."""
    pair = list(variables)
    low = shapes.min(axis=0)
    high = shapes.max(axis=0)
    at = (low + high) / 2 if at is None else at
    margin = 0.25 * np.maximum(high - low, 0.1 * np.max(high - low))
    picture = figure(4.8, 4.2)
    ax = picture.add_subplot()
    corners = (low - margin)[pair], (high + margin)[pair]
    curvature(swimmer, component, *corners, ax, variables=variables, at=at)
    draw_stroke(stroke, ax, variables=variables)
    picture.set_dpi(110)
    written = BytesIO()
    picture.savefig(written, format="png", dpi="figure")
    places = ax.transData.transform(shapes[:, pair]) / picture.bbox.size
    image = "data:image/png;base64," + b64encode(written.getvalue()).decode("ascii")
    return {"image": image, "points": np.round([[x, 1 - y] for x, y in places], 4).tolist()}
