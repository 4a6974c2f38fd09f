"""Plots on shape space: the curvature of a connection, the connection, the shape metric, and strokes.

If there are more than two shape variables, the plots are over a pair of them (`variables`), with the values of the
others taken from the shape `at`.

Arguments stand in one order: the swimmer, the component of the pose where there is one, and the corners `lower` and
`upper` of the picture.
"""

import functools
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._control.families.families import StrokeFamily
from geodyn._engine.jit import jit
from geodyn._foundations.checks import is_whole, shown
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Axes, Float, Index
from geodyn._locomotion.connections.connection import (
    AbstractConnection,
    AbstractInvariantMetric,
    check_law,
)
from geodyn._locomotion.connections.connection import connection as connection_form
from geodyn._locomotion.connections.connection import curvature as curvature_form
from geodyn._locomotion.connections.connection import shape_metric as metric_form
from geodyn._locomotion.connections.coordinates import minimum_perturbation
from geodyn._locomotion.strokes.stroke import Stroke, shapes_at
from geodyn._plot.shapes.names import pose_names, shape_names
from geodyn._plot.style import COLOURS, INK, axes
from geodyn._plot.style import figure as new_figure

Corner = Float[np.ndarray, "2"]
# The least side of a panel, in inches, around which letters of the usual size have room.
ROOMY, TINY, SMALL = 2.2, 1.2, "x-small"


def _in_either_order(picture: Callable) -> Callable:
    """A picture of (swimmer, component, lower, upper) that also takes the component after the corners, where
    `height_functions` has them: a whole number is none."""

    @functools.wraps(picture)
    def drawn(swimmer: Any, *args: Any, **kwargs: Any) -> Any:
        first, more = args[:1], args[2:3]
        if "component" in kwargs and len(args) > 1:
            args = kwargs.pop("component"), *args
        elif isinstance(more[0] if more else None, int | np.integer) and not isinstance(first[0], int | np.integer):
            args = *more, *args[:2], *args[3:]
        return picture(swimmer, *args, **kwargs)

    return drawn


@_in_either_order
@checked
def curvature(
    swimmer: AbstractConnection,
    component: Index,
    lower: Corner,
    upper: Corner,
    ax: Axes = None,
    *,
    variables: tuple[Index, Index] = (0, 1),
    at: Float[np.ndarray, " m"] | None = None,
):
    """The height function F^component_ij over two shape variables, its zero line in black.

    A small stroke around an area moves the swimmer by minus the integral of this function over the area. `component` is
    the number of the coordinate of the pose: x, y, then θ in the plane; `height_functions` draws all. `lower[2]` and
    `upper[2]` are the limits of the picture. Shapes at which the swimmer is not defined stay white. `at[m]` gives the
    values of the other shape variables if there are more than two. Raises ValueError if the swimmer has another number
    of shape variables, and for a component that its group does not have.

    Args:
        swimmer: body with a connection.
        component: the number of the coordinate of the pose.
        lower, upper: the corners [2] of the picture, in the two shape variables.
        ax: the Axes; by default a new one.
        variables: the two shape variables of the picture.
        at: a whole shape [m], at which the other variables are held.

    Returns:
        The Axes.

    Example:
        >>> swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(0.5)
        >>> gd.plot.curvature(swimmer, 0, (-1, -1), (1, 1)).figure.axes[1].get_ylabel()
        '$F^{x}_{12}$'
    """
    _check_component(swimmer, component)
    i, j = variables
    ax = _plane(ax, variables, swimmer, at)
    grids, F = _over(curvature_form, swimmer, lower, upper, 81, variables, at)
    F = clear(F[..., i, j])[..., component]
    # Near a singularity, as where spheres touch, the scale would else leave all other values without colour.
    largest = np.nanmax(np.abs(F))
    bound = min(largest, 4 * np.nanmedian(np.abs(F))) or largest or 1.0
    image = ax.pcolormesh(*grids, F, cmap="RdBu_r", vmin=-bound, vmax=bound, shading="gouraud", rasterized=True)
    if np.nanmin(F) < 0 < np.nanmax(F):
        ax.contour(*grids, F, [0.0], colors=INK, linewidths=0.8)
    beyond = "both" if bound < largest else "neither"
    label = f"$F^{{{pose_names(swimmer.group)[component]}}}_{{{i + 1}{j + 1}}}$"
    ax.figure.colorbar(image, ax=ax, shrink=0.85, label=label, extend=beyond)
    return ax


def clear(F: np.ndarray) -> np.ndarray:
    """Components [..., k] of a curvature; those that are zero but for rounding are zero, and no noise in a picture."""
    sizes = np.nanmax(np.abs(F), axis=tuple(range(F.ndim - 1)))
    return np.where(sizes < 1e-10 * sizes.max(), 0.0, F)


@checked
def height_functions(
    swimmer: AbstractConnection,
    lower: Corner,
    upper: Corner,
    figure: Any = None,
    *,
    stroke: Stroke | None = None,
    frame: str = "body",
    variables: tuple[Index, Index] = (0, 1),
    at: Float[np.ndarray, " m"] | None = None,
):
    """The height functions of all coordinates of the pose side by side, with a stroke on them if one is given; returns
    the Figure.

    `frame` is "body", that in which the connection is given, or "minimum perturbation", the frame that changes of shape
    between `lower` and `upper` disturb least (`gd.bundles.minimum_perturbation`): there the area under a height
    function comes near the displacement of large strokes too. That frame is for two shape variables. `lower`, `upper`,
    `variables` and `at` are as in `curvature`. A Figure or SubFigure may be given: the panels stand in as many columns
    as give them most room, in a narrow one with smaller letters. Raises ValueError for another frame.

    Args:
        swimmer: body with a connection.
        lower, upper: the corners [2] of the picture, in the two shape variables.
        figure: a Figure or SubFigure; by default a new one.
        stroke: a stroke, drawn on each.
        frame: "body" or "minimum perturbation".
        variables: the two shape variables of the picture.
        at: a whole shape [m], at which the other variables are held.

    Returns:
        The Figure.

    Example:
        >>> swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(0.5)
        >>> figure = gd.plot.height_functions(swimmer, (-1, -1), (1, 1), stroke=stroke)
        >>> [ax.get_ylabel() for ax in figure.axes[3:]]
        ['$F^{x}_{12}$', '$F^{y}_{12}$', '$F^{θ}_{12}$']
    """
    from matplotlib.figure import Figure, SubFigure

    frames = {"body": lambda: swimmer, "minimum perturbation": lambda: minimum_perturbation(swimmer, lower, upper)}
    if frame not in frames:
        raise ValueError(f"frame must be one of {', '.join(map(repr, frames))}; got {frame!r}")
    if figure is not None and not isinstance(figure, Figure | SubFigure):
        raise ValueError(f"figure must be a Figure or SubFigure of matplotlib, got {shown(figure)}")
    moving = frames[frame]()
    count = swimmer.group.dim
    figure = new_figure(4.2 * min(count, 3), 3.8 * -(-count // 3)) if figure is None else figure
    if isinstance(figure, Figure) and figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")
    width = figure.bbox.width / figure.dpi
    height = figure.bbox.height / figure.dpi
    side, columns = max((_side(width / n, height / -(-count // n)), n) for n in range(1, min(count, 3) + 1))
    panels = figure.subplots(-(-count // columns), columns, squeeze=False).ravel()
    for component, ax in enumerate(panels[:count]):
        curvature(moving, component, lower, upper, ax, variables=variables, at=at)
        if stroke is not None:
            draw_stroke(stroke, ax, variables=variables)
    if side < ROOMY:
        _in_little_room(figure, panels[:count], side)
    for ax in panels[count:]:
        ax.set_axis_off()
    figure.suptitle(f"curvature of the connection, {frame} frame", fontsize="medium", color=INK)
    return figure


def _side(width: float, height: float) -> float:
    """What numbers and a colour bar leave of a panel for the picture, in inches."""
    return min(width - 0.9, height - 0.4)


def _in_little_room(figure: Any, panels: np.ndarray, side: float) -> None:
    """Small letters, few ticks, small arrows, and the names of the shape variables once for all panels."""
    figure.supxlabel(panels[0].get_xlabel(), fontsize=SMALL)
    figure.supylabel(panels[0].get_ylabel(), fontsize=SMALL)
    for ax in panels:
        ax.set(xlabel="", ylabel="")
        ax.locator_params(nbins=4 if side > TINY else 2)
        for arrow in ax.texts:
            arrow.arrow_patch.set_mutation_scale(16 * side / ROOMY)
        bar = ax.collections[0].colorbar.ax
        bar.locator_params(axis="y", nbins=5 if side > TINY else 3)
        bar.yaxis.label.set_fontsize(SMALL)
        for one in (ax, bar):
            one.tick_params(labelsize=SMALL)


@_in_either_order
@checked
def connection(
    swimmer: AbstractConnection,
    component: Index,
    lower: Corner,
    upper: Corner,
    ax: Axes = None,
    *,
    variables: tuple[Index, Index] = (0, 1),
    at: Float[np.ndarray, " m"] | None = None,
):
    """Minus a row of the connection form as arrows: ξ^component is the scalar product of the arrow and the rate r'.

    A change of shape along the arrows moves the body forwards in this coordinate, against them backwards, and across
    them not at all. Arrows longer than four times the median are shortened to that length. `lower`, `upper`,
    `variables` and `at` are as in `curvature`.

    Args:
        swimmer: body with a connection.
        component: the number of the coordinate of the pose.
        lower, upper: the corners [2] of the picture, in the two shape variables.
        ax: the Axes; by default a new one.
        variables: the two shape variables of the picture.
        at: a whole shape [m], at which the other variables are held.

    Returns:
        The Axes.

    Example:
        >>> swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(0.5)
        >>> gd.plot.connection(swimmer, 2, (-1, -1), (1, 1)).get_xlabel()
        'first hinge angle (rad)'
    """
    _check_component(swimmer, component)
    ax = _plane(ax, variables, swimmer, at)

    grids, form = _over(connection_form, swimmer, lower, upper, 17, variables, at)
    arrows = -form[..., component, np.asarray(variables)]
    ax.set(xlim=(lower[0], upper[0]), ylim=(lower[1], upper[1]))
    lengths = np.linalg.norm(arrows, axis=-1)
    # Near a singularity, as where a body on wheels locks, the scale would else make all other arrows invisible.
    longest = min(np.nanmax(lengths), 4 * np.nanmedian(lengths)) or np.nanmax(lengths) or 1.0
    arrows = arrows / np.maximum(lengths / longest, 1.0)[..., None]
    scale = 14 * longest
    look = {"pivot": "mid", "angles": "xy", "width": 0.005, "scale_units": "width", "scale": scale}
    ax.quiver(*grids, *np.moveaxis(arrows, -1, 0), color=COLOURS[0], **look)
    name = pose_names(swimmer.group)[component]
    ax.set_title(f"$-A^{{{name}}}$: velocity in {name} per rate of shape", loc="left", fontsize="medium")
    return ax


@checked
def shape_metric(
    swimmer: AbstractInvariantMetric,
    lower: Corner,
    upper: Corner,
    ax: Axes = None,
    *,
    variables: tuple[Index, Index] = (0, 1),
    at: Float[np.ndarray, " m"] | None = None,
):
    """Ellipses of the rates r' of equal power, with the same scale for all: small ellipses where motion costs most.

    `lower`, `upper`, `variables` and `at` are as in `curvature`.

    Args:
        swimmer: body with a metric of shapes.
        lower, upper: the corners [2] of the picture, in the two shape variables.
        ax: the Axes; by default a new one.
        variables: the two shape variables of the picture.
        at: a whole shape [m], at which the other variables are held.

    Returns:
        The Axes.

    Example:
        >>> swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(0.5)
        >>> len(gd.plot.shape_metric(swimmer, (-1, -1), (1, 1)).collections[0].get_segments())
        81
    """
    from matplotlib.collections import LineCollection

    ax = _plane(ax, variables, swimmer, at)
    grids, metrics = _over(metric_form, swimmer, lower, upper, 9, variables, at)
    chosen = np.asarray(variables)
    metrics = metrics[..., *np.ix_(chosen, chosen)]
    centres = np.stack(np.meshgrid(*grids), axis=-1).reshape(-1, 2)
    metrics = metrics.reshape(-1, 2, 2)
    defined = np.isfinite(metrics).all(axis=(1, 2))
    centres = centres[defined]
    metrics = metrics[defined]
    angle = np.linspace(0, 2 * np.pi, 49)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    factors = np.swapaxes(np.linalg.cholesky(metrics), 1, 2)
    ellipses = np.swapaxes(np.linalg.solve(factors, circle[None]), 1, 2)
    spacing = (np.asarray(upper, float) - np.asarray(lower, float)) / 8
    ellipses = ellipses * 0.45 / np.max(np.abs(ellipses) / spacing)
    lines = LineCollection(cast(list, ellipses + centres[:, None]), colors=COLOURS[0], linewidths=1.2)
    ax.add_collection(lines)
    ax.autoscale_view()
    return ax


@checked
def stroke(stroke: Stroke, ax: Axes = None, *, variables: tuple[Index, Index] = (0, 1)):
    """A stroke in the plane of two shape variables, with arrows; an open stroke has a dot at its start.

    Args:
        stroke: a stroke, a function t -> r[m].
        ax: the Axes; by default a new one.
        variables: the two shape variables of the picture.

    Returns:
        The Axes.

    Example:
        >>> swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(0.5)
        >>> x = gd.plot.stroke(stroke).lines[0].get_xdata()
        >>> print(f"{x.min():.2f} {x.max():.2f}")
        -0.50 0.50
    """
    from matplotlib.patheffects import withStroke

    ax = ax if ax is not None and ax.get_xlabel() else _plane(ax, variables)
    seen = {"color": INK, "path_effects": [withStroke(linewidth=4, foreground="white")]}  # on dark colours too
    r = np.asarray(shapes_at(stroke, jnp.linspace(0.0, 1.0, 257)))[:, np.asarray(variables)]
    ax.plot(*r.T, linewidth=2.2, **seen)
    if np.abs(r[-1] - r[0]).max() > 1e-6 * np.ptp(r, axis=0).max():
        ax.plot(*r[0], "o", **seen)
    for i in (32, 96, 160, 224):
        ax.annotate(
            "",
            tuple(r[i + 2]),
            tuple(r[i]),
            arrowprops={"arrowstyle": "-|>", "mutation_scale": 16, **seen},
        )
    return ax


draw_stroke = stroke


@checked(gaps=("displacement", "cost", "multiplier"))
def family(
    displacement: StrokeFamily | Float[np.ndarray, " S"],
    cost: Float[np.ndarray, " N"] | None = None,
    multiplier: Float[np.ndarray, " N"] | None = None,
    ax: Axes = None,
):
    """The energy of a family of optimal strokes over their displacement, with tangents of the slope dE/dD given by the
    multipliers.

    The family itself is given alone, or `displacement[S]`, `cost[S]` and `multiplier[S]` of S strokes. At the largest
    displacement of a family the multiplier is infinite and the tangent vertical. If tangents do not touch the curve,
    the steps along the family were too large, or the strokes are not optimal.

    Args:
        displacement: what `gd.stroke_family` returns, followed by a number of displacement; or the displacements [S].
        cost: [S]; not with a family.
        multiplier: [S], dE/dD; not with a family.
        ax: the Axes; by default a new one.

    Returns:
        The Axes.

    Raises:
        ValueError: for cost or multiplier missing beside displacements, or given beside a family; and for a family of
            bodies, followed in a parameter.

    Example:
        >>> D = np.linspace(0.1, 0.3, 5)
        >>> gd.plot.family(D, D**2, 2 * D).get_ylabel()
        'energy of the stroke'
    """
    if isinstance(displacement, StrokeFamily):
        if cost is not None or multiplier is not None:
            raise ValueError("cost and multiplier belong to the family: give the family alone")
        displacement, cost, multiplier = _along(displacement)
    elif cost is None or multiplier is None:
        missing = "cost" if cost is None else "multiplier"
        raise ValueError(f"{missing} must be numbers [S] beside displacements, got None: or give the family alone")
    displacement, cost, multiplier = (np.asarray(x, float) for x in (displacement, cost, multiplier))
    if len(displacement) != len(cost):
        raise ValueError(f"displacement must have the length of cost, {len(cost)}; got {len(displacement)}")
    ax = axes(ax, xlabel="net displacement", ylabel="energy of the stroke")
    wide, high = np.ptp(displacement) or 1.0, np.ptp(cost) or 1.0
    angle = np.arctan(multiplier * wide / high)
    reach = 0.35 / max(1, len(displacement)) * np.stack([wide * np.cos(angle), high * np.sin(angle)], axis=1)
    for point, step in zip(np.stack([displacement, cost], axis=1), reach):
        ax.plot(*np.stack([point - step, point + step]).T, color=COLOURS[1], linewidth=3)
    ax.plot(displacement, cost, "o-", color=COLOURS[0], markersize=4, linewidth=1.2)
    return ax


def _along(family: StrokeFamily) -> tuple[Any, Any, Any]:
    """The displacement [N] along which a family was followed, its cost, and the slope of the cost."""
    parameter = np.asarray(family.parameter)
    displacement = np.asarray(family.displacement).reshape(len(parameter), -1)
    multiplier = np.asarray(family.multiplier).reshape(len(parameter), -1)
    change = parameter - parameter[0]
    last = np.argmax(np.abs(change))
    held = np.any(multiplier != 0, axis=0)  # Components that are free have no price.
    direction = np.where(held, (displacement[last] - displacement[0]) / (change[last] or 1.0), 0.0)
    fits = np.isclose(displacement, displacement[0] + change[:, None] * direction, rtol=1e-6, atol=1e-9)
    moved = np.abs(direction) > 1e-9
    if not moved.any() or not fits[:, held].all():
        raise ValueError(
            "displacement: this is a family of bodies, along which the multipliers are no slopes of the cost; draw "
            "family.cost over family.parameter"
        )
    return parameter, family.cost, multiplier[:, moved] @ direction[moved]


def _check_component(swimmer: AbstractConnection, component: Any) -> None:
    count = swimmer.group.dim
    if not is_whole(component) or not 0 <= component < count:
        name = type(swimmer.group).__name__
        raise ValueError(f"component must be one of the coordinates 0 to {count - 1} of {name}, got {component!r}")


def _plane(
    ax: Axes, variables: tuple[Index, Index], swimmer: AbstractConnection | None = None, at: np.ndarray | None = None
) -> Any:
    names = shape_names(swimmer, max(variables) + 1 if at is None else np.size(at))
    first, second = (names[k] for k in variables)
    ax = axes(ax, xlabel=first, ylabel=second)
    if first.endswith("(rad)") and second.endswith("(rad)"):
        ax.set_aspect("equal")
    return ax


def _over(
    form: Callable,
    swimmer: AbstractConnection,
    lower: np.ndarray,
    upper: np.ndarray,
    count: int,
    variables: tuple[Index, Index],
    at: np.ndarray | None,
) -> tuple[list[np.ndarray], np.ndarray]:
    """(the two axes of a grid over two shape variables, the values of form(swimmer, r) on it [count, count, …])."""
    if not np.all(lower < upper):
        raise ValueError(f"lower must be below upper in both variables, got {lower.tolist()} and {upper.tolist()}")
    grids = [np.linspace(low, high, count) for low, high in zip(lower, upper, strict=True)]
    at = np.zeros(2) if at is None else np.asarray(at, float)
    if len(set(variables)) != 2 or min(variables) < 0 or max(variables) >= at.size:
        raise ValueError(
            f"variables must be two different ones of {at.size}, got {variables}: give at=, the shape at which the "
            "other variables are held"
        )
    r = np.broadcast_to(at, (count, count, at.size)).copy()
    r[..., np.asarray(variables)] = np.stack(np.meshgrid(*grids), axis=-1)
    try:
        values = np.asarray(jit(_at_shapes)(form, swimmer, jnp.asarray(r)))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"a shape of {at.size} variables does not suit this swimmer ({error}); give at=, a whole shape at which all"
            f" variables but {variables} are held."
        ) from error
    defined = np.isfinite(values).reshape(count, count, -1).all(axis=-1)
    if not defined.all():
        check_law(swimmer, jnp.asarray(r[~defined][0]))
    if not defined.any():
        raise ValueError(
            f"{type(swimmer).__name__} is not defined at any shape from {lower} to {upper}: give other corners."
        )
    return grids, values


def _at_shapes(form: Callable, swimmer: AbstractConnection, r: Float[Array, "K L m"]) -> Float[Array, "K L ..."]:
    return jax.vmap(jax.vmap(partial(form, swimmer)))(r)
