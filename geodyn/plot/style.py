"""The house style: colours, figures, Axes."""

from typing import Any

import numpy as np

# Told apart by colour-blind readers: at least 24 apart in CIELAB for each of the three kinds (Machado et al. 2009).
COLOURS = ("#20639b", "#d1495b", "#3caea3", "#edae49", "#500ba8", "#5a3210")
INK = "#222831"
GREY, PALE = "#7d8790", "#c3c9cf"
TIME = "time (any consistent unit)"


def figure(width: float | int, height: float | int):
    """An empty Figure of that size in inches, which no window has to show: `figure.savefig` writes it."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def axes(ax: Any, projection: str | None = None, **labels) -> Any:
    """The given Axes or a new one, in the house style. Raises ValueError for a flat Axes where one in space is needed,
    and the other way round."""
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
    """A legend, where its entries are few enough to be read."""
    if count <= 12:
        ax.legend(fontsize="small", ncols=1 + (count - 1) // 4, edgecolor="none", framealpha=0.8)
    return ax


def polylines(ax, lines, colour: str, width: float = 1.0, strength=1.0, zorder: int = 2) -> list:
    """Draws lines [K, 2 or 3] in a colour mixed with white, in space the more so the farther away they are in the
    present view; returns what was drawn."""
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
    """A colour of this strength on white paper: what is drawn over it does not shine through."""
    from matplotlib.colors import to_rgb

    return 1 - strength * (1 - np.array(to_rgb(colour)))


def nearness(ax, points) -> np.ndarray:
    """How near points of an Axes in space are to the eye: 1 in front, 0 at the back of the box."""
    turn, tilt = np.radians([ax.azim, ax.elev])
    towards = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
    low, high = np.array([ax.get_xlim(), ax.get_ylim(), ax.get_zlim()]).T
    depth = (2 * points - low - high) / (high - low) @ towards
    return np.clip(0.5 + depth / 2, 0.0, 1.0)


def colours(count: int) -> list[str]:
    """One colour for each of so many points: different ones for few, the same for more than can be told apart."""
    return list(COLOURS[:count]) if count <= len(COLOURS) else [COLOURS[0]] * count
