"""Where a stroke leads a body in a space whose isometries are no matrices: its places are computed here, and the page
draws them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._engine.native import native_rows
from geodyn._foundations.typing import Array, Float
from geodyn._geometry.groups.frames import unpack
from geodyn._geometry.groups.isometries import act_on
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._locomotion.connections.connection import AbstractConnection
from geodyn._locomotion.strokes.stroke import FourierStroke
from geodyn._locomotion.swimmers.curved_space import AbstractPointMasses
from geodyn._plot.pages.encoding import box, quantise, text
from geodyn._plot.scene.models import COORDINATES, Lines, Model, model_of, places_of
from geodyn._plot.shapes.swimmers import over_strokes

STROKES = 3
FRAMES = 32
"""Pictures of a stroke; the page draws straight between them."""
EVERY = 4
"""Steps of the path from one picture to the next: as many as the numbers of a stroke are computed with."""
LONG = 0.3
"""The arms of the cross by which a body without a picture is drawn, in units of the coordinates."""
HEIGHT = np.deg2rad(30.0)
SIDE = np.deg2rad(-60.0)
"""From where one looks at a picture in space."""


class Drawn(NamedTuple):
    """What is drawn of a body: `lines` [T, parts, points, n], its lines after each part of the strokes, and `way`
    [T, n], where the origin of its frame is then, in the chart."""

    lines: np.ndarray
    way: np.ndarray


def places(body: AbstractConnection, stroke: FourierStroke) -> dict:
    """Pictures of a body over three strokes in the plane of the page: the model of the space that suits it, seen from
    one side where that is in space. Numbers are int16 in base64; what is too far in the chart is missing."""
    group: Any = body.group
    g = over_strokes(body, stroke, STROKES, FRAMES * EVERY)[::EVERY]
    times = np.arange(len(g)) / FRAMES % 1
    drawn = _drawn(body, jnp.asarray(g), jax.vmap(stroke)(jnp.asarray(times)))
    space: AbstractManifold = group.space
    known = drawn.lines.reshape(-1, space.dim)
    known = known[np.isfinite(known).all(axis=1)]
    model = model_of(space, None, known)
    begin = np.asarray(group.origin)
    backdrop = [np.asarray(line) for line in model.backdrop(known)]
    eye = _eye(model, backdrop, begin)
    lines = eye(places_of(model.place, drawn.lines))
    way = eye(places_of(model.place, drawn.way))
    is_chart = model.title == COORDINATES
    long = _round_length(known)
    behind = [np.round(eye(line), 4).tolist() for line in backdrop]
    scale = float(np.nanmax(np.abs(np.concatenate([lines.reshape(-1, 2), way]))))
    return {
        "frames": FRAMES,
        "shape": list(lines.shape[1:3]),
        "scale": scale,
        "lines": text(quantise(lines, 0.0, scale)),
        "way": text(quantise(way, 0.0, scale)),
        "behind": behind,
        "arrows": _arrows(begin, long, eye) if is_chart else [],
        "long": long,
        "title": _title(model),
        "missing": not np.isfinite(lines).all(),
    }


def _drawn(body: Any, g: Float[Array, "T d d"], shapes: Float[Array, "T m"]) -> Drawn:
    """The body at these elements and shapes: by its outline, its points, or a cross at its frame."""
    way = np.asarray(g)[:, :-1, -1]
    own = _outlines(body, shapes)
    if own is None:
        return Drawn(np.asarray(_cross(g)), way)
    points = own.reshape(-1, own.shape[-1])
    elements = jnp.repeat(g, len(points) // len(g), axis=0)
    return Drawn(np.asarray(_moved(body.group.space, elements, points)).reshape(own.shape), way)


@jit
def _outlines(body: Any, shapes: Float[Array, "T m"]) -> Float[Array, "T L K n"] | None:
    """How the body looks in its frame at these shapes, in the chart; None for one that does not say."""
    if getattr(body, "outline", None) is not None:
        return native_rows(body.outline, shapes)
    if isinstance(body, AbstractPointMasses):
        return native_rows(body.points, shapes)[:, :, None]  # each mass is a line of one point
    return None


@jit
def _moved(space: AbstractManifold, g: Float[Array, "N d d"], x: Float[Array, "N n"]) -> Float[Array, "N n"]:
    """Where each element takes its point."""
    return native_rows(lambda g, x: act_on(space, g, x), g, x)


def _cross(g: Float[Array, "T d d"]) -> Float[Array, "T n 2 n"]:
    """A line along each vector of the frames g, from their points."""

    def arms(g: Float[Array, "d d"]) -> Array:
        x, vectors = unpack(g)
        return jax.vmap(lambda v: jnp.stack([x, x + LONG * v]))(vectors.T)

    return jax.vmap(arms)(g)


def _eye(model: Model, backdrop: Lines, begin: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """How points of the picture are seen in the plane of the page. A picture in space is seen from the side on which
    the body begins, if it is a surface around something, and from above."""
    first = places_of(model.place, begin[None])[0]
    if len(first) == 2:
        return lambda p: p
    outward = first - box(np.concatenate(backdrop), True)[0] if backdrop else np.zeros(3)
    around = np.hypot(outward[0], outward[1]) > 0.1 * np.abs(first).max(initial=1e-9)
    side = np.arctan2(outward[1], outward[0]) if around else SIDE
    across = np.array([-np.sin(side), np.cos(side), 0.0])
    towards = np.array([np.cos(HEIGHT) * np.cos(side), np.cos(HEIGHT) * np.sin(side), np.sin(HEIGHT)])
    onto = np.stack([across, np.cross(towards, across)], axis=1)
    return lambda p: p @ onto


def _arrows(begin: np.ndarray, long: float, eye: Callable) -> list[dict]:
    """The directions of the first three coordinates where the body begins, by arrows of this length."""
    first = begin[:3]
    directions = np.eye(len(begin))[:, :3]
    return [
        {"line": np.round(eye(np.stack([first, first + long * along])), 5).tolist(), "name": f"x{i + 1}"}
        for i, along in enumerate(directions[:3])
    ]


def _round_length(x: np.ndarray) -> float:
    """A length of one digit that is not far below the extent of the points."""
    reach = float(np.ptp(x, axis=0).max())
    power = 10.0 ** np.floor(np.log10(max(reach, 1e-9)))
    return float(next(power * digit for digit in (5, 2, 1) if power * digit <= reach or digit == 1))


def _title(model: Model) -> str:
    """What the picture shows, in words."""
    if model.title == COORDINATES:
        return "drawn in the coordinates of the chart"
    return f"drawn in the model: {model.title}" if model.title else "drawn as the surface lies in space"
