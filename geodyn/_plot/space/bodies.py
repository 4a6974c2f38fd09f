"""Plots of trajectories in space: the paths of the points of a body, and its edges as geodesics."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Axes, Count, Each
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.trajectory import Trajectory
from geodyn._mechanics.points.body import AbstractBody
from geodyn._plot.scene.models import Model, model_of
from geodyn._plot.scene.scene import Scene, scene, scene_of
from geodyn._plot.style import GREY, INK, PALE, PLAIN, Labels, axes, check_index, colours, legend, mix, polylines
from geodyn._plot.time.curves import coordinates

SIZE = 8.0
"""Diameter of the marker of the heaviest point, in typographical points, if a body has few points. The volumes of the
markers are proportional to the masses."""
SHORT = 0.4
"""The least side of a box with numbers, as a part of its longest; those near it have one number each."""
RIM = np.linspace(0, 2 * np.pi, 65)


@checked
def trajectory(
    trajectory: Trajectory,
    ax: Axes = None,
    *,
    model: str | Callable | None = None,
    bodies: Count | None = None,
    system: AbstractSystem | None = None,
    labels: Labels = PLAIN,
    outline: Callable | None = None,
):
    """The paths of the points of a body (`gd.System`, `RigidBodies` or `Linkage`) in a model of its space, and the body
    itself at `bodies` equally spaced times, by default 12, or 4 if it has more than six points.

    `model` is the first of these that fits the space: "cartesian" (Euclidean), "ball", "half-space" (Hyperbolic),
    "sphere", "stereographic" (Sphere), "surface" (Embedded, or any with a method `embedding`), "cylinder" (H² × E and
    other products of a plane and an axis, SL2), "coordinates" (any); or one of them by name; or a function x[n] -> [2
    or 3], such as an embedding of the surface. The trajectory of a system without a space, or in a space of one
    dimension, is drawn by `coordinates`.
    The markers at the start are hollow, those at the end filled. Spheres of contacts have their radii, where the model
    has one scale, and crosses mark impacts. `system` is needed for a trajectory from a file; `labels` names coordinates
    and units. Raises ValueError for a model that does not fit.

    Args:
        trajectory: what `gd.integrate` returns.
        ax: the Axes; by default a new one.
        model: the name of a model of the space, or a function x[n] -> [2 or 3]; by default the first that fits.
        bodies: at how many times the body is drawn.
        system: the system, for a trajectory that was read from a file.
        labels: names of the coordinates and units, a `gd.plot.Labels`.
        outline: how the body looks, as in `player`.

    Returns:
        The Axes.

    Example:
        >>> rod, q0 = gd.builders.rod(gd.spaces.Hyperbolic(2), 1.0)
        >>> motion = gd.integrate(rod, q0, t1=1.0, steps=10)
        >>> gd.plot.trajectory(motion).get_title()
        'Poincaré disc'
    """
    known = system or trajectory.system
    drawn = outline is not None or getattr(known, "outline", None) is not None
    if not drawn and model is None and (not isinstance(known, AbstractBody) or known.space.dim == 1):
        return coordinates(trajectory, ax, labels=labels)
    return _paths(scene(trajectory, model, system, labels, outline), ax, bodies)


@checked
def path(
    space: AbstractManifold,
    trajectory: Trajectory,
    ax: Axes = None,
    *,
    edges: Sequence[tuple[int, int]] = (),
    bodies: Count | None = None,
    model: str | Callable | None = None,
):
    """The same picture as `trajectory`, for a given space and given edges: for a motion of points that is not that of a
    `System`.

    Args:
        space: the space.
        trajectory: what `gd.integrate` returns, of points q[T, N, n].
        ax: the Axes; by default a new one.
        edges: pairs of points that are joined.
        bodies: at how many times they are drawn.
        model: the name of a model of the space, or a function x[n] -> [2 or 3]; by default the first that fits.

    Returns:
        The Axes.

    Example:
        >>> rod, q0 = gd.builders.rod(gd.spaces.Hyperbolic(2), 1.0)
        >>> motion = gd.integrate(rod, q0, t1=1.0, steps=10)
        >>> gd.plot.path(rod.space, motion, edges=[(0, 1)], model="half-space").get_title()
        'upper half-plane'
    """
    q = trajectory.coordinates()
    masses = np.ones(q.shape[-2])
    for k in np.ravel(np.asarray(edges)):
        check_index("edges", int(k), q.shape[-2], "points")
    return _paths(scene_of(space, trajectory.t, q, model, edges, [False] * len(edges), masses), ax, bodies)


@checked
def body(
    trajectory: Trajectory,
    times: Each | None = None,
    ax: Axes = None,
    *,
    model: str | Callable | None = None,
    system: AbstractSystem | None = None,
    labels: Labels = PLAIN,
    outline: Callable | None = None,
):
    """The body at one time or at several, with earlier ones paler; by default at 7 equally spaced times, or at 3 if it
    has more than six points.

    The saved states nearest to the times are drawn. Edges are geodesics, with thicker lines for rods than for springs;
    the volumes of the markers are proportional to the masses. `model`, `system` and `labels` are as in `trajectory`.
    Raises ValueError for times outside of the trajectory.

    Args:
        trajectory: what `gd.integrate` returns.
        times: a time, or several.
        ax: the Axes; by default a new one.
        model: the name of a model of the space, or a function x[n] -> [2 or 3]; by default the first that fits.
        system: the system, for a trajectory that was read from a file.
        labels: names of the coordinates and units, a `gd.plot.Labels`.
        outline: how the body looks, as in `player`.

    Returns:
        The Axes.

    Example:
        >>> rod, q0 = gd.builders.rod(gd.spaces.Hyperbolic(2), 1.0)
        >>> motion = gd.integrate(rod, q0, t1=1.0, steps=10)
        >>> len(gd.plot.body(motion, [0.0, 1.0]).lines)
        4
    """
    drawn = scene(trajectory, model, system, labels, outline)
    frames = moments(drawn, times)
    ax = stage(drawn, ax)
    strengths = np.linspace(0.35, 1.0, len(frames)) if len(frames) > 1 else [1.0]
    for frame, curves, strength in zip(frames, drawn.geodesics(frames), strengths):
        draw_body(ax, drawn, frame, curves, strength)
    return ax


@checked
def projection(space: AbstractManifold, model: str | Callable | None = None) -> str | None:
    """The projection that an Axes for this model must have: "3d" or None.

    Args:
        space: the space.
        model: the name of a model of the space, or a function x[n] -> [2 or 3]; by default the first that fits.

    Returns:
        "3d" or None.

    Example:
        >>> gd.plot.projection(gd.spaces.Hyperbolic(2)), gd.plot.projection(gd.spaces.Sphere(2))
        (None, '3d')
    """
    return _projection(model_of(space, model), space.dim)


def moments(drawn: Scene, times: Each | None) -> np.ndarray:
    """The saved states nearest to the times; by default 7 of equal distances, or 3 if the body has many points."""
    if times is None:
        return drawn.nearest(np.linspace(drawn.t[0], drawn.t[-1], 7 if drawn.few else 3))
    return drawn.nearest(times)


def stage(drawn: Scene, ax: Axes = None) -> Any:
    """The Axes for a scene, with limits that contain all of it, and with the backdrop of its model."""
    ax = axes(ax, _projection(drawn.model, drawn.space.dim))
    lines = drawn.model.backdrop(drawn.q.reshape(-1, drawn.space.dim))
    some = np.linspace(0, len(drawn.t) - 1, 12).astype(int)
    balls = [drawn.spheres.centres + sign * drawn.spheres.radii[:, :, None] for sign in (1, -1)]
    parts = [drawn.points, drawn.geodesics(some), drawn.outlines, *balls, *lines]
    everything = np.concatenate([part.reshape(-1, drawn.points.shape[-1]) for part in parts])
    low = np.nanmin(everything, axis=0)
    high = np.nanmax(everything, axis=0)
    margin = 0.04 * np.where(high > low, high - low, (high - low).max() or 1.0)
    if ax.name == "3d" and drawn.model.equal and any(drawn.model.labels):
        # The names of axes stand aside by a part of the sides of the box: in a flat one they would lie on the numbers.
        margin = np.maximum(margin, (SHORT * (high - low).max() - (high - low)) / 2)
    ax.set(**{f"{axis}lim": ends for axis, *ends in zip("xyz", low - margin, high + margin)})
    if not ax.get_title():
        ax.set_title(drawn.model.title, fontsize="medium", color=INK)
    if ax.name == "3d":
        _dress_space(ax, drawn.model, high - low + 2 * margin)
    else:
        _dress_plane(ax, drawn.model)
    if lines:
        polylines(ax, lines, PALE, 0.7, zorder=0)
    return ax


def _dress_plane(ax: Axes, model: Model) -> None:
    if model.equal:
        ax.set_aspect("equal")
    if any(model.labels):
        ax.set(xlabel=model.labels[0], ylabel=model.labels[1])
    else:
        ax.set_axis_off()


def _dress_space(ax: Axes, model: Model, size: np.ndarray) -> None:
    ax.view_init(elev=30, azim=-65)
    ax.computed_zorder = False
    ax.grid(False)
    box = size if model.equal else np.ones(3)
    # Without tick labels, which need room, the longest side of the box fills the Axes.
    fill = 0.8 if any(model.labels) else 1.4 * np.linalg.norm(box) / (3**0.5 * box.max())
    ax.set_box_aspect(box, zoom=fill)
    ax.locator_params(nbins=4)
    ax.xaxis.labelpad = 8.0
    for axis, label, side in zip((ax.xaxis, ax.yaxis, ax.zaxis), model.labels, box):
        axis.pane.set_visible(False)
        axis.set_label_text(label)
        if side < 1.2 * SHORT * box.max():  # The numbers of a short side would lie on each other.
            axis.set_ticks([axis.get_view_interval().mean()])
        if not label:
            axis.set_ticks([])
            axis.line.set_visible(False)


def draw_body(
    ax: Axes, drawn: Scene, frame: int | np.integer, curves: np.ndarray, strength: float | np.floating = 1.0
) -> list:
    """Draws the body at a saved state, with its edges as curves[E, K, 2 or 3]; returns the artists."""
    outlines = polylines(ax, drawn.outlines[frame], *drawn.look, strength) if drawn.outlines.size else []
    solid = outlines + _balls(ax, drawn, frame, strength)
    return _edges(ax, curves, drawn.rigid, strength) + solid + _points(ax, drawn, frame, strength)


def _balls(ax: Axes, drawn: Scene, frame: int | np.integer, strength: float | np.floating = 1.0) -> list:
    """Draws the spheres of contacts: discs in the plane, in three dimensions their rims as they are seen."""
    shades = colours(len(drawn.radii))
    artists = []
    for point, centre, radius in zip(drawn.spheres.points, drawn.spheres.centres[frame], drawn.spheres.radii[frame]):
        rim = centre + radius * np.stack([np.cos(RIM), np.sin(RIM)], axis=1) @ _facing(ax)[:, : len(centre)]
        artists += polylines(ax, [rim], shades[point], 1.2, strength)
        if ax.name != "3d":
            artists += ax.fill(*rim.T, color=mix(shades[point], 0.25 * strength), zorder=1.5)
    return artists


def _facing(ax: Axes) -> np.ndarray:
    """Two orthonormal vectors [2, 3] of the plane of the paper."""
    if ax.name != "3d":
        return np.eye(2, 3)
    turn, tilt = np.radians([ax.azim, ax.elev])
    across = np.array([-np.sin(turn), np.cos(turn), 0.0])
    upwards = np.array([-np.sin(tilt) * np.cos(turn), -np.sin(tilt) * np.sin(turn), np.cos(tilt)])
    return np.stack([across, upwards])


def _edges(ax: Axes, curves: np.ndarray, rigid: np.ndarray, strength: float | np.floating = 1.0) -> list:
    """Draws the edges, with thicker lines for rods than for springs; returns the artists."""
    kinds = ((curves[~rigid], GREY, 1.3), (curves[rigid], INK, 2.2))
    artists = []
    for lines, colour, width in kinds:
        if len(lines):
            artists += polylines(ax, lines, colour, width, strength)
    return artists


def _points(
    ax: Axes, drawn: Scene, frame: int | np.integer, strength: float | np.floating = 1.0, hollow: bool = False
) -> list:
    points = drawn.points[frame]
    artists = []
    for point, radius, colour in zip(points, drawn.radii, colours(len(points))):
        edge = mix(colour, strength)
        size = max(2.5, SIZE * radius)
        face = "white" if hollow else edge
        artists += ax.plot(*point[:, None], "o", color=edge, markerfacecolor=face, markersize=size, zorder=4)
    return artists


def _paths(drawn: Scene, ax: Axes, bodies: Count | None) -> Any:
    ax = stage(drawn, ax)
    bodies = (12 if drawn.few else 4) if bodies is None else bodies
    frames = np.linspace(0, len(drawn.t) - 1, bodies).astype(int)
    for frame, curves in zip(frames, drawn.geodesics(frames)):
        strength = 0.35 + 0.65 * frame / max(1, len(drawn.t) - 1)
        _edges(ax, curves, drawn.rigid, 0.8)
        if drawn.outlines.size:
            colour, width = drawn.look
            polylines(ax, drawn.outlines[frame], colour, width, strength)
        _balls(ax, drawn, frame, strength)
    for points, colour in zip(drawn.points.swapaxes(0, 1), colours(len(drawn.radii))):
        polylines(ax, [points], colour, 2.0 if drawn.few else 0.7, zorder=3)
    _points(ax, drawn, 0, hollow=True)
    _points(ax, drawn, -1)
    if len(drawn.flashes):
        ax.plot(*drawn.struck.T, "x", color=INK, markersize=6, markeredgewidth=1.5, zorder=5, label="impacts")
        legend(ax, 1)
    return ax


def _projection(model: Model, dim: int) -> str | None:
    picture = jax.eval_shape(model.place, jax.ShapeDtypeStruct((dim,), float))
    return "3d" if picture.shape == (3,) else None
