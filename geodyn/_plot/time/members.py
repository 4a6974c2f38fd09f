"""Plots of many members of an ensemble: their curves over time, and one number of each over two others."""

from typing import cast

import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Axes, Float
from geodyn._plot.style import COLOURS, PLAIN, axes, legend

MOST_CURVES = 200


@checked(gaps=("values", "parameter"))
def fan(
    t: Float[np.ndarray, "N T"],
    values: Float[np.ndarray, "N T"],
    ax: Axes = None,
    *,
    parameter: Float[np.ndarray, " N"] | None = None,
    name: str = "",
):
    """Curves of many members. With a `parameter` [N] each has the colour of its value, on a scale called `name`.
    Without one: the median, and the bands in which half of the members and nine of ten lie at each time; `name` is then
    what the vertical axis says. Of more than 200 members with a `parameter` 200 are drawn, evenly chosen, and a title
    says so.

    Args:
        t: the times [N, T].
        values: [N, T].
        ax: the Axes; by default a new one.
        parameter: a number of each member [N], by which it is coloured.
        name: what the scale of colours says, or without a `parameter` the vertical axis.

    Returns:
        The Axes.

    Example:
        >>> t = np.tile(np.linspace(0.0, 1.0, 20), (50, 1))
        >>> values = np.arange(50.0)[:, None] * t
        >>> [text.get_text() for text in gd.plot.fan(t, values).get_legend().get_texts()]
        ['9 of 10 members', 'half of them', 'median']
    """
    ax = axes(ax, xlabel=PLAIN.clock, **({} if parameter is not None or not name else {"ylabel": name}))
    t = np.broadcast_to(t, np.shape(values))
    values = np.asarray(values)
    if parameter is None:
        bands = np.nanquantile(values, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
        for low, high, strength, label in ((0, 4, 0.2, "9 of 10 members"), (1, 3, 0.35, "half of them")):
            ax.fill_between(t[0], bands[low], bands[high], color=COLOURS[0], alpha=strength, label=label, lw=0)
        ax.plot(t[0], bands[2], color=COLOURS[0], linewidth=2, label="median")
        return legend(ax, 3)
    from matplotlib.collections import LineCollection

    shown = np.unique(np.linspace(0, len(values) - 1, MOST_CURVES).astype(int))
    lines = np.stack([t[shown], values[shown]], axis=2)
    curves = LineCollection(cast(list, lines), array=np.asarray(parameter)[shown], cmap="viridis", linewidths=1.2)
    ax.add_collection(curves)
    ax.autoscale_view()
    ax.figure.colorbar(curves, ax=ax, label=name)
    if len(shown) < len(values):
        ax.set_title(f"{len(shown)} of {len(values)} members", loc="left", fontsize="small")
    return ax


@checked(gaps=("values",))
def heatmap(
    x: Float[np.ndarray, " K"],
    y: Float[np.ndarray, " L"],
    values: Float[np.ndarray, "K L"],
    ax: Axes = None,
    *,
    name: str = "",
    names: tuple[str, str] = ("", ""),
):
    """A value over a grid of two numbers, on a scale called `name`; NaN stays empty.

    Args:
        x: the first number [K].
        y: the second number [L].
        values: [K, L].
        ax: the Axes; by default a new one.
        name: what the scale of colours says.
        names: what the two axes say, that of `x` first.

    Returns:
        The Axes.

    Example:
        >>> ax = gd.plot.heatmap(np.arange(3.0), np.arange(4.0), np.ones((3, 4)), name="one")
        >>> ax.figure.axes[1].get_ylabel()
        'one'
    """
    ax = axes(ax, **{label: said for label, said in zip(("xlabel", "ylabel"), names, strict=True) if said})
    ax.grid(False)
    field = ax.pcolormesh(x, y, np.asarray(values).T, cmap="viridis", shading="nearest")
    ax.figure.colorbar(field, ax=ax, label=name)
    return ax
