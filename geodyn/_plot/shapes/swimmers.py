"""Plots of swimming bodies: filmstrips, films, paths in the plane, and displacements against time."""

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Axes, Count, File, Float, Index, Row
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._locomotion.connections.locomotion import AbstractLocomotion
from geodyn._locomotion.motion.holonomy import path as group_path
from geodyn._locomotion.motion.small_loops import small_loops as limits_of_loops
from geodyn._locomotion.strokes.stroke import Stroke, check_closed, shape_at, shapes_at
from geodyn._plot.scene.outlines import lines_of
from geodyn._plot.shapes.names import pose_names
from geodyn._plot.shapes.strokes import curvature
from geodyn._plot.shapes.strokes import stroke as draw_stroke
from geodyn._plot.space.animation import film, film_writer
from geodyn._plot.style import COLOURS, INK, PALE, axes, legend


@checked
def swimmer(
    swimmer: AbstractLocomotion, stroke: Stroke, ax: Axes = None, *, frames: Count = 9, outline: Callable | None = None
):
    """A filmstrip of one stroke, with time downwards: the body at its place, and at its initial place in grey.

    The net displacement, if there is one, points to the right. Raises ValueError for a swimmer without an
    `outline`, or one that does not move in a plane.

    Args:
        swimmer: body with a connection.
        stroke: a stroke, a function t -> r[m].
        ax: the Axes; by default a new one.
        frames: how many pictures of the body.
        outline: how the body looks: a function r -> lines in its own frame, as in `player`; by default its method.

    Returns:
        The Axes.

    Example:
        >>> swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(0.5)
        >>> len(gd.plot.swimmer(swimmer, stroke, frames=3).get_yticks())
        3
    """
    times = np.linspace(0.0, 1.0, frames)
    g = np.asarray(group_path(swimmer, stroke, steps=16 * (frames - 1)))[::16]
    outlines = seen(swimmer, stroke, times, g, outline)
    x, y = track(swimmer, g[-1:])[0]
    length = np.hypot(x, y)
    if length > 1e-9 * np.ptp(outlines):
        outlines = outlines @ np.array([[x, -y], [y, x]]) / length
    outlines = outlines - np.array([0.0, np.mean([outlines[..., 1].min(), outlines[..., 1].max()])])
    spacing = 1.25 * np.ptp(outlines[..., 1], axis=(1, 2)).max()
    labels = [f"t = {t:.3g}" for t in times]
    ax = axes(ax, xlabel="net displacement →", yticks=-spacing * np.arange(frames), yticklabels=labels)
    for k, parts in enumerate(outlines):
        for points, colour in ((outlines[0], PALE), (parts, COLOURS[0])):
            _draw(ax, points - np.array([0, k * spacing]), colour)
    ax.autoscale_view()
    # Room for the labels below a body that is taller than wide.
    low, high = outlines[..., 0].min(), outlines[..., 0].max()
    half = 0.52 * max(high - low, frames * spacing / 4)
    ax.set_xlim((low + high) / 2 - half, (low + high) / 2 + half)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.grid(False, axis="y")
    ax.set_aspect("equal")
    return ax


@checked
def displacement(swimmer: AbstractLocomotion, stroke: Stroke, ax: Axes = None, *, strokes: Count = 1):
    """The position and the angles (radians) of the body against time, over several strokes.

    Raises ValueError if there is more than one stroke and the stroke is not closed.

    Args:
        swimmer: body with a connection.
        stroke: a stroke, a function t -> r[m].
        ax: the Axes; by default a new one.
        strokes: how many.

    Returns:
        The Axes.

    Example:
        >>> swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(0.5)
        >>> [line.get_label() for line in gd.plot.displacement(swimmer, stroke).lines]
        ['x', 'y', 'θ']
    """
    turns = swimmer.group.dim - swimmer.group.translations
    what = [word for word, count in (("displacement", swimmer.group.translations), ("angle (rad)", turns)) if count]
    ax = axes(ax, xlabel="time (strokes)", ylabel=", ".join(what))
    places = pose_coordinates(swimmer.group, over_strokes(swimmer, stroke, strokes, 128))
    for name, place, colour in zip(pose_names(swimmer.group), places.T, COLOURS):
        ax.plot(np.linspace(0, strokes, len(place)), place, color=colour, label=name)
    return legend(ax, places.shape[1])


@checked
def small_loops(
    swimmer: AbstractLocomotion,
    component: Index,
    r: Row,
    ax: Axes = None,
    *,
    corners: Count = 3,
    variables: tuple[Index, Index] = (0, 1),
):
    """Where small regular polygons of shapes lead a body that has no curvature, against the direction of their first
    side: one coordinate of the pose per length of the perimeter, in the limit of small loops, in either sense.

    For a body with a connection it is 0, and `curvature` is the picture of its small loops. Raises ValueError for a
    component that its group does not have, and as `gd.bundles.small_loops`.

    Args:
        swimmer: body by its forces, such as `gd.swimmers.DryLinks`.
        component: the number of the coordinate of the pose.
        r: the shape [m] around which the loops are.
        ax: the Axes; by default a new one.
        corners: of the polygon.
        variables: the two shape variables in whose plane the loops are.

    Returns:
        The Axes.

    Example:
        >>> ax = gd.plot.small_loops(gd.swimmers.PowerLawLinks(), 0, [0.5, -0.5])
        >>> ax.get_ylabel()
        'x per perimeter of a small triangle'
    """
    if component >= swimmer.group.dim:
        raise ValueError(f"component must be from 0 to {swimmer.group.dim - 1}, got {component}.")
    degrees = np.linspace(0.0, 360.0, 145)
    moved = np.asarray(limits_of_loops(swimmer, r, np.deg2rad(degrees), corners=corners, variables=variables))
    name = pose_names(swimmer.group)[component]
    form = "triangle" if corners == 3 else f"polygon of {corners} corners"
    ax = axes(ax, xlabel="direction of the first side (degrees)", ylabel=f"{name} per perimeter of a small {form}")
    ax.axhline(0.0, color=INK, linewidth=0.8)
    ax.plot(degrees, moved[:, component], color=COLOURS[0])
    ax.set_xlim(0, 360)
    ax.set_xticks(np.arange(0, 361, 60))
    return ax


@checked
def wake(
    swimmer: AbstractLocomotion, stroke: Stroke, ax: Axes = None, *, strokes: Count = 3, outline: Callable | None = None
):
    """The path of the body frame in the plane over several strokes, and the body at the start and after each stroke,
    with earlier ones paler.

    Raises ValueError if there is more than one stroke and the stroke is not closed, for a swimmer without an
    `outline`, and for one that does not move in a plane.

    Args:
        swimmer: body with a connection.
        stroke: a stroke, a function t -> r[m].
        ax: the Axes; by default a new one.
        strokes: how many.
        outline: how the body looks: a function r -> lines in its own frame, as in `player`; by default its method.

    Returns:
        The Axes.

    Example:
        >>> swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(0.5)
        >>> len(gd.plot.wake(swimmer, stroke, strokes=2).collections)
        3
    """
    ax = axes(ax, xlabel="x", ylabel="y")
    g = over_strokes(swimmer, stroke, strokes, 128)
    outlines = seen(swimmer, stroke, np.zeros(strokes + 1), g[::128], outline)
    for k, parts in enumerate(outlines):
        _draw(ax, parts, COLOURS[0], 0.25 + 0.75 * k / strokes)
    ax.plot(*track(swimmer, g).T, color=COLOURS[1], linewidth=1.5)
    ax.autoscale_view()
    ax.set_aspect("equal")
    return ax


@checked
def swim(
    swimmer: AbstractLocomotion,
    stroke: Any,
    path: File | None = None,
    ax: Axes = None,
    *,
    component: Index | None = None,
    strokes: Count = 3,
    seconds: float | int = 8.0,
    fps: Count = 25,
    outline: Callable | None = None,
):
    """The moving swimmer as a matplotlib `FuncAnimation` of the given numbers of strokes and seconds; a notebook shows
    it inline. The initial place of the body stays in grey. With a `component` of the pose, that of the curvature is
    drawn beside it, with the point of the shape on the stroke (a body of two shape variables, in a figure of its own).

    If `path` is given, the film is written there, as an .mp4 (by ffmpeg) or a .gif. Raises ValueError for any other
    ending, if ffmpeg is missing, if there is more than one stroke and the stroke is not closed, for a swimmer without
    an `outline`, and for one that does not move in a plane.

    Args:
        swimmer: body with a connection.
        stroke: a stroke, a function t -> r[m].
        path: of the film, ending in .mp4 or .gif; None: only for a notebook.
        ax: the Axes; by default a new one.
        component: the number of a coordinate of the pose; None draws the body only.
        strokes: how many.
        seconds: how long it plays.
        fps: pictures a second.
        outline: how the body looks: a function r -> lines in its own frame, as in `player`; by default its method.

    Returns:
        A matplotlib `FuncAnimation`.

    Example:
        >>> swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(0.5)
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     film = gd.plot.swim(swimmer, stroke, f"{folder}/purcell.gif", strokes=1, seconds=0.3, fps=10)
        ...     print(os.listdir(folder))
        ['purcell.gif']
    """
    from matplotlib.figure import Figure

    film_writer(path)
    dot = None
    if component is not None:
        if ax is not None:
            raise ValueError("ax and component cannot be given together: with a component the film has two Axes")
        ax, beside = Figure(figsize=(9, 4), layout="constrained").subplots(1, 2, width_ratios=[1.3, 1])
        dot = _shapes(swimmer, stroke, component, beside)
    if ax is None:
        ax = Figure(figsize=(7, 4), layout="constrained").add_subplot()
    ax = axes(ax, xlabel="x", ylabel="y")
    each = max(2, round(seconds * fps / strokes))
    fine = -(-96 // each)
    g = over_strokes(swimmer, stroke, strokes, each * fine)
    way = track(swimmer, g)
    g = g[::fine]
    outlines = seen(swimmer, stroke, np.arange(len(g)) / each % 1, g, outline)
    moving = []
    low = outlines.min(axis=(0, 1, 2))
    high = outlines.max(axis=(0, 1, 2))
    middle = (low + high) / 2
    longest = np.max(high - low)
    half = np.maximum(0.54 * (high - low), longest / 4)  # so that a slim body leaves room for the numbers of the axis
    low = middle - half
    high = middle + half
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    _draw(ax, outlines[0], PALE)
    clock = ax.set_title("", loc="left", fontsize="medium", color=INK)

    def draw(k: int) -> None:
        while moving:
            moving.pop().remove()
        clock.set_text(f"stroke {k / each:.2f}")
        moving.extend(ax.plot(*way[: k * fine + 1].T, color=COLOURS[1], linewidth=1.2))
        moving.append(_draw(ax, outlines[k], COLOURS[0]))
        if dot is not None:
            dot.set_data(*np.asarray(shape_at(stroke, jnp.asarray(k / each % 1)))[:, None])

    return film(ax.figure, draw, len(g), path, fps)


def _shapes(swimmer: AbstractLocomotion, stroke: Stroke, component: Index, ax: Axes) -> Any:
    """Draws the curvature with the stroke on it; returns the dot that goes along."""
    r = np.asarray(shapes_at(stroke, jnp.linspace(0.0, 1.0, 129)))
    margin = 0.25 * np.ptp(r, axis=0)
    curvature(swimmer, component, r.min(axis=0) - margin, r.max(axis=0) + margin, ax)
    draw_stroke(stroke, ax)
    (dot,) = ax.plot(*r[:1].T, "o", color=COLOURS[3], markeredgecolor=INK, markersize=10, zorder=6)
    return dot


@checked
def check_swimmer(swimmer: AbstractLocomotion, path: File | None = None, outline: Callable | None = None) -> None:
    """Raise ValueError, with the remedy, if `swimmer`, `swim` and `wake` cannot draw this swimmer, or if no film can be
    written to `path`.

    Args:
        swimmer: body with a connection.
        path: of a film that is to be written.
        outline: how the body looks, as in `player`.

    Returns:
        None, if it can be drawn.

    Example:
        >>> try:
        ...     gd.plot.check_swimmer(gd.swimmers.FallingCat())
        ... except ValueError as error:
        ...     print(str(error)[:60])
        there is no picture in the plane of a body that moves in SO3
    """
    film_writer(path)
    if swimmer.group._plane is None:
        raise ValueError(
            f"there is no picture in the plane of a body that moves in {type(swimmer.group).__name__};"
            " gd.plot.displacement draws where a stroke leads it."
        )
    if outline is None and getattr(swimmer, "outline", None) is None:
        raise ValueError(
            f"{type(swimmer).__name__} does not say how it looks: give outline=, a function r -> [parts, points, 2] of"
            " lines in its own frame, or a class of your own the method outline(r)."
        )


def over_strokes(swimmer: AbstractLocomotion, stroke: Stroke, strokes: Count, steps: int) -> np.ndarray:
    """The group elements over several strokes, [strokes × steps + 1, d, d]."""
    if strokes > 1:
        check_closed(stroke)
    once = group_path(swimmer, stroke, steps=steps)
    parts = [once]
    for _ in range(strokes - 1):
        parts.append(_after(swimmer.group, parts[-1][-1], once))
    return np.concatenate([*(np.asarray(part[:-1]) for part in parts), np.asarray(parts[-1][-1:])])


@jit
def _after(group: AbstractLieGroup, start: Float[Array, "d d"], elements: Float[Array, "T d d"]) -> Array:
    """The elements, of a motion that begins at `start`."""
    return jax.vmap(lambda g: group.compose(start, g))(elements)


def seen(
    swimmer: AbstractLocomotion, stroke: Stroke, times: np.ndarray, g: np.ndarray, outline: Callable | None = None
) -> np.ndarray:
    """The outlines of the body at the given times, moved by the group elements g: [frames, parts, points, 2]."""
    check_swimmer(swimmer, outline=outline)
    looks = cast(Any, swimmer).outline if outline is None else outline
    dims = (3,) if swimmer.group._plane else (2, 3)
    lines = lines_of(looks, times, shapes_at(stroke, jnp.asarray(times)), dims)
    return _place(swimmer.group, g, lines)


def _place(group: AbstractLieGroup, g: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points [frames, parts, points, 2] of the plane, or (x, y, 1) [..., 3], moved by g[frames, d, d]. Points (X, w) of
    a sphere or a hyperbolic plane [..., 3] are moved and then projected to X/(1 + w), which is the stereographic
    projection or the Poincaré disc."""
    maps = group._on_plane(g)
    if points.shape[-1] == 3:
        moved = np.einsum("fij,fpqj->fpqi", maps, points)
        return moved[..., :2] / (1 + moved[..., 2:] if group._plane else 1.0)
    turned = np.einsum("fij,fpqj->fpqi", maps[:, :2, :2], points)
    return turned + maps[:, None, None, :2, 2]


def track(swimmer: AbstractLocomotion, g: np.ndarray) -> np.ndarray:
    """The positions of the body frame, [frames, 2]."""
    # The origin of the flat plane is (0, 0, 1) as well.
    return _place(swimmer.group, g, np.broadcast_to([0.0, 0.0, 1.0], (len(g), 1, 1, 3)))[:, 0, 0]


@jit
def _logs(group: AbstractLieGroup, g: Float[Array, "T d d"]) -> Float[Array, "T k"]:
    return jax.vmap(group.log)(g)


def pose_coordinates(group: AbstractLieGroup, g: np.ndarray) -> np.ndarray:
    """Positions and angles of group elements, [frames, k]; exponential coordinates if the group has no translations."""
    logs = np.array(_logs(group, jnp.asarray(g)))
    if group.translations == g.shape[1] - 1:
        logs[:, : group.translations] = g[:, :-1, -1] - np.asarray(group.identity())[:-1, -1]
    turns = logs[:, group.translations :]
    logs[:, group.translations :] = np.unwrap(turns, axis=0) if turns.shape[1] == 1 else turns
    return logs


def _draw(ax: Axes, parts: np.ndarray, colour: str, strength: float = 1.0) -> Any:
    """Draws the lines of a body [parts, points, 2]; returns the artist."""
    from matplotlib.collections import LineCollection

    look = {"colors": colour, "alpha": strength, "linewidths": 3, "capstyle": "round", "zorder": 3}
    return ax.add_collection(LineCollection(list(parts), **look))
