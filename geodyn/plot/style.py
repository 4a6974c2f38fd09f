"""The style of all plots: colours, figures, Axes, legends and lines."""

from typing import Any

import numpy as np

# Distinct for colour-blind readers: at least 24 apart in CIELAB for each of the three kinds (Machado et al. 2009).
COLOURS = ("#20639b", "#d1495b", "#3caea3", "#edae49", "#500ba8", "#5a3210")
INK = "#222831"
GREY, PALE = "#7d8790", "#c3c9cf"
TIME = "time (any consistent unit)"


def figure(width: float | int, height: float | int):
    """An empty Figure of the given size in inches, independent of any window; `figure.savefig` writes it to a file."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def axes(ax: Any, projection: str | None = None, **labels) -> Any:
    """The given Axes or a new one, in the style of all plots. Raises ValueError if the given one has another
    projection ("3d" or None)."""
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.figure(layout="constrained").add_subplot(projection=projection)
    if (ax.name == "3d") != (projection == "3d"):
        raise ValueError(
            f"ax must be an Axes with projection={projection!r} for this picture: "
            "figure.add_subplot(projection=gd.plot.projection(space, model))"
        )
    ax.set_prop_cycle(color=COLOURS)
    ax.set(**labels)
    if projection is None:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25, linewidth=0.6)
        ax.set_axisbelow(True)
    return ax


def legend(ax, count: int):
    """Adds a legend if it has at most 12 entries; returns the Axes."""
    if count <= 12:
        ax.legend(fontsize="small", ncols=1 + (count - 1) // 4, edgecolor="none", framealpha=0.8)
    return ax


def polylines(ax, lines, colour: str, width: float = 1.0, strength=1.0, zorder: int = 2) -> list:
    """Draws lines [K, 2 or 3] in a colour mixed with white; in three dimensions distant parts are paler. Returns the
    artists."""
    from matplotlib.collections import LineCollection

    pieces = np.concatenate([np.stack([line[:-1], line[1:]], axis=1) for line in lines])
    pieces = pieces[np.isfinite(pieces).all(axis=(1, 2))]
    shade = np.full(len(pieces), strength)
    if ax.name == "3d":
        from mpl_toolkits.mplot3d.art3d import Line3DCollection as LineCollection

        near = nearness(ax, pieces.mean(axis=1))
        order = np.argsort(near)
        pieces, shade = pieces[order], strength * (0.3 + 0.7 * near[order])
    look = {"colors": mixed(colour, shade[:, None]), "linewidths": width, "zorder": zorder, "capstyle": "round"}
    return [ax.add_collection(LineCollection(pieces, **look), autolim=False)]


def mixed(colour: str, strength) -> np.ndarray:
    """A colour mixed with white by `strength`, an opaque replacement of transparency."""
    from matplotlib.colors import to_rgb

    return 1 - strength * (1 - np.array(to_rgb(colour)))


def nearness(ax, points) -> np.ndarray:
    """How near points of a 3D Axes are to the viewer: 1 at the front, 0 at the back of the box."""
    turn, tilt = np.radians([ax.azim, ax.elev])
    towards = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
    low, high = np.array([ax.get_xlim(), ax.get_ylim(), ax.get_zlim()]).T
    depth = (2 * points - low - high) / (high - low) @ towards
    return np.clip(0.5 + depth / 2, 0.0, 1.0)


def colours(count: int) -> list[str]:
    """A colour for each of `count` points: different ones if there are enough colours, else the same for all."""
    return list(COLOURS[:count]) if count <= len(COLOURS) else [COLOURS[0]] * count
