"""Pictures of maps of strokes: cost, efficiency and amplitude over two demands, with strokes at chosen points."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from geodyn._control.families.maps import StrokeMap
from geodyn._foundations.checks import is_whole
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Axes
from geodyn._plot.style import COLOURS, INK, PALE, axes
from geodyn._plot.style import figure as new_figure


@checked
def stroke_map(found: StrokeMap, points: Sequence[tuple[int, int]] | None = None, figure: Any = None):
    """A map of strokes: its cost, efficiency and amplitude over the two demands, and strokes at chosen points.

    Dashed lines run where the best stroke changes its kind, between points of different branches. Points without a
    stroke stay grey. The last panel shows the strokes in the plane of the first two shape variables, in the colours of
    the marks on the maps.

    Args:
        found: what `gd.stroke_map` returns.
        points: (i, j) of the points of the grid whose strokes are drawn; by default four with a stroke.
        figure: the Figure; by default a new one.

    Returns:
        The Figure.

    Raises:
        ValueError: for points that are not on the grid, or have no stroke.

    Example:
        >>> class Planimeters(gd.AbstractConnection):
        ...     group: gd.groups.Translation = gd.groups.Translation(2)
        ...     def form(self, r):
        ...         area = jnp.stack([-r[1], r[0], -r[3], r[2]]) / 2
        ...         return area[None] * jnp.array([[1, 1, 0, 0], [0, 0, 1, 1]])
        >>> body, settings = gd.bundles.KaluzaKlein(Planimeters()), gd.Direct(harmonics=1, steps=4)
        >>> given = {"displacement": [0.5, 1.0], "turn": [0.1, 0.2], "components": (0, 1), "method": settings}
        >>> found = gd.stroke_map(body, **given, region=(-jnp.ones(4), jnp.ones(4)), starts=4)
        >>> print(gd.plot.stroke_map(found, [(0, 0)]).axes[1].get_title())
        efficiency
    """
    points = _four_near_corners(found) if points is None else points
    for point in points:
        _check_point(found, point)
    figure = new_figure(9.6, 7.6) if figure is None else figure
    panels = figure.subplots(2, 2).ravel()
    names = ("cost: energy of the stroke", "efficiency", "amplitude")
    values = (found.cost, found.efficiency, found.amplitude)
    for ax, name, value in zip(panels[:3], names, values, strict=True):
        _draw_map(found, ax, name, np.asarray(value), points)
    _draw_strokes(found, panels[3], points)
    return figure


def _edges(axis: np.ndarray) -> np.ndarray:
    """The edges of the cells around the points of an axis."""
    between = (axis[1:] + axis[:-1]) / 2
    # The first point and the last one are in the middle of their cells.
    first = 2 * axis[0] - between[0]
    last = 2 * axis[-1] - between[-1]
    return np.concatenate([[first], between, [last]])


def _draw_map(found: StrokeMap, ax: Axes, name: str, values: np.ndarray, points: Sequence[tuple[int, int]]) -> None:
    """One map."""
    displacement = np.asarray(found.displacement)
    turn = np.asarray(found.turn)
    first_name, second_name = _names(found)
    ax = axes(ax, title=name, xlabel=first_name, ylabel=second_name)
    ax.grid(visible=False)
    ax.set_facecolor(PALE)
    edges = (_edges(displacement), _edges(turn))
    image = ax.pcolormesh(*edges, values.T, cmap="viridis", shading="flat", rasterized=True)
    # Contours need several points, and values that differ.
    if np.sum(np.isfinite(values)) > 3 and np.nanmax(values) > np.nanmin(values):
        ax.contour(displacement, turn, np.ma.masked_invalid(values.T), 8, colors="white", linewidths=0.6, alpha=0.7)
    for line in _borders(found.branch, edges):
        ax.plot(*line, color=COLOURS[1], linewidth=1.4, linestyle="--")
    for colour, (i, j) in zip(COLOURS[1:], points):
        ax.plot(displacement[i], turn[j], "o", color=colour, markeredgecolor="white", markersize=8)
    ax.figure.colorbar(image, ax=ax, shrink=0.9)


def _borders(branch: np.ndarray, edges: tuple[np.ndarray, np.ndarray]) -> list:
    """The sides of cells between different branches, each as the two x and the two y of its ends. A point without a
    stroke has the branch −1, and no border."""
    x, y = edges
    lines = []
    for i, j in np.ndindex(*branch.shape):
        here = branch[i, j]
        right = branch[i + 1, j] if i + 1 < branch.shape[0] else -1
        above = branch[i, j + 1] if j + 1 < branch.shape[1] else -1
        if min(here, right) >= 0 and here != right:
            lines.append(([x[i + 1], x[i + 1]], [y[j], y[j + 1]]))
        if min(here, above) >= 0 and here != above:
            lines.append(([x[i], x[i + 1]], [y[j + 1], y[j + 1]]))
    return lines


def _draw_strokes(found: StrokeMap, ax: Axes, points: Sequence[tuple[int, int]]) -> None:
    """The chosen strokes in the plane of the first two shape variables, each with a mark where it begins."""
    ax = axes(ax, title="strokes at the marks", xlabel="$r_1$", ylabel="$r_2$", aspect="equal")
    times = np.linspace(0.0, 1.0, 201)
    for colour, (i, j) in zip(COLOURS[1:], points):
        shapes = np.asarray(jax.vmap(found.at(int(i), int(j)))(times))
        r1 = shapes[:, 0]
        r2 = shapes[:, 1]
        ax.plot(r1, r2, color=colour, linewidth=1.8)
        ax.plot(r1[0], r2[0], "o", color=colour, markersize=5)
    ax.axhline(0.0, color=INK, linewidth=0.4)
    ax.axvline(0.0, color=INK, linewidth=0.4)


def _names(found: StrokeMap) -> tuple[str, str]:
    """What the two demands are."""
    chosen = found.task.demands.components
    if chosen is None:
        return "displacement", "turn (rad)"
    return f"component {chosen[0]} of the displacement", f"component {chosen[1]}"


def _four_near_corners(found: StrokeMap) -> list[tuple[int, int]]:
    """Four points near the corners of the map that have a stroke."""
    with_stroke = np.argwhere(found.best.found)
    shape = np.array(found.best.cost.shape)
    chosen = []
    for corner in ((0.15, 0.15), (0.85, 0.15), (0.15, 0.85), (0.85, 0.85)):
        if len(with_stroke):
            # In parts of the sides of the map, as the corner.
            offsets = with_stroke / shape - np.array(corner)
            nearest = with_stroke[np.argmin(np.sum(offsets**2, axis=1))]
            chosen.append((int(nearest[0]), int(nearest[1])))
    # Each point once, in this order.
    return list(dict.fromkeys(chosen))


def _check_point(found: StrokeMap, point: tuple[int, int]) -> None:
    """Raise ValueError unless the point is on the grid and has a stroke."""
    shape = found.best.cost.shape
    are_in_range = [is_whole(index) and 0 <= index < size for index, size in zip(point, shape)]
    on_grid = len(point) == 2 and all(are_in_range)
    if not on_grid or not found.best.found[point]:
        raise ValueError(
            f"points must be (i, j) on the grid of {shape[0]} × {shape[1]} points, where the map has a stroke, got"
            f" {point!r}"
        )
