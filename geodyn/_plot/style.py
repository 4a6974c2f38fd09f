"""The style of all plots: colours, figures, Axes, labels, legends and lines."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Axes, Index, Numbers

# Distinct for colour-blind readers: at least 24 apart in CIELAB for each of the three kinds (Machado et al. 2009).
COLOURS = ("#20639b", "#d1495b", "#3caea3", "#edae49", "#500ba8", "#5a3210")
INK = "#222831"
GREY, PALE = "#7d8790", "#c3c9cf"
STYLES = ("-", "--", "-.", ":")


@checked
class Labels(NamedTuple):
    """What the axes of pictures say: names of the coordinates of a point, and units of length, time and mass.

    The functions of `gd.plot` take it as `labels=`; a scenario file has it as the table `[labels]`. By default
    coordinates are numbered and nothing is said of units.

    Args:
        coordinates: a name for each coordinate of a point, such as ("r", "φ"); or none.
        length: the unit of length, such as "m"; "" if there is none to name.
        time: that of time.
        mass: that of mass.

    Example:
        >>> labels = gd.plot.Labels(length="m", time="s", mass="kg")
        >>> print(labels.of("energy", labels.energy))
        energy (kg m²/s²)
    """

    coordinates: tuple[str, ...] = ()
    length: str = ""
    time: str = ""
    mass: str = ""

    @checked
    def of(self, name: str, unit: str) -> str:
        """A name with its unit, if that is known."""
        return f"{name} ({unit})" if unit else name

    @property
    def clock(self) -> str:
        """The label of an axis of time."""
        return self.of("time t", self.time)

    @property
    def energy(self) -> str:
        """The unit of energy, if those of length, time and mass are known."""
        return f"{self.mass} {self.length}²/{self.time}²" if self.mass and self.length and self.time else ""

    @property
    def force(self) -> str:
        """The unit of force, if those of length, time and mass are known."""
        return f"{self.mass} {self.length}/{self.time}²" if self.mass and self.length and self.time else ""


PLAIN = Labels()


@checked
def figure(width: float | int, height: float | int):
    """An empty Figure of the given size in inches, independent of any window; `figure.savefig` writes it to a file.

    Args:
        width: in inches.
        height: in inches.

    Returns:
        The matplotlib `Figure`.

    Example:
        >>> print(gd.plot.figure(4, 3).get_size_inches())
        [4. 3.]
    """
    from matplotlib.figure import Figure

    if not (width > 0 and height > 0):
        raise ValueError(f"width and height must be positive, got {width} and {height}")
    return Figure(figsize=(width, height), layout="constrained")


def axes(ax: Any, projection: str | None = None, **labels: Any) -> Any:
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
    if not ax.lines:  # What is drawn into the same Axes goes on with the next colour.
        ax.set_prop_cycle(color=COLOURS)
    ax.set(**labels)
    if projection is None:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25, linewidth=0.6)
        ax.set_axisbelow(True)
    return ax


def check_index(name: str, index: Index, count: int, what: str) -> None:
    """Raises ValueError unless there is a thing of this number."""
    if not 0 <= index < count:
        raise ValueError(f"{name} must be the number of one of the {count} {what}, 0 to {count - 1}; got {index}")


def check_lengths(name: str, lengths: dict[str, int], count: int) -> None:
    """Raises ValueError unless there is a value for each time under every name."""
    for key, length in lengths.items():
        if length != count:
            raise ValueError(f"{name}[{key!r}] must have a value for each of the {count} times t, got {length}")


def legend(ax: Axes, count: int) -> Any:
    """Adds a legend above the Axes, where it covers nothing, if it has at most 12 entries; returns the Axes."""
    if 0 < count <= 12:
        _, names = ax.get_legend_handles_labels()
        inches = ax.get_window_extent().width / ax.figure.dpi
        # A letter of the small font takes some 0.08 inches, the sample of the line that of seven.
        room = int(inches / (0.08 * (7 + max(map(len, names), default=1))))
        ax.legend(
            fontsize="small", ncols=max(1, min(count, room)), loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False
        )
    return ax


def steady(ax: Axes, values: Numbers, scale: float = 0.0) -> Any:
    """Keeps what is constant to rounding from filling the Axes with its rounding errors: the vertical axis spans at
    least 1e-9 of the largest value, or of `scale` where that is larger, or of one where all is zero."""
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    if not values.size:
        return ax
    largest = max(np.abs(values).max(), scale)
    if np.ptp(values) <= 1e-9 * (largest if largest > 1e-12 else 1.0):
        middle = float(np.mean(values))
        half = 0.5 * (largest if largest > 1e-12 else 1.0)
        ax.set_ylim(middle - half, middle + half)
    return ax


def polylines(
    ax: Axes,
    lines: Sequence[np.ndarray] | np.ndarray,
    colour: str,
    width: float = 1.0,
    strength: float | np.floating = 1.0,
    zorder: int = 2,
) -> list:
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
    look = {"colors": mix(colour, shade[:, None]), "linewidths": width, "zorder": zorder, "capstyle": "round"}
    return [ax.add_collection(LineCollection(cast(list, pieces), **look), autolim=False)]


def mix(colour: str, strength: float | np.floating | np.ndarray) -> np.ndarray:
    """A colour mixed with white by `strength`, an opaque replacement of transparency."""
    from matplotlib.colors import to_rgb

    return 1 - strength * (1 - np.array(to_rgb(colour)))


def nearness(ax: Axes, points: np.ndarray) -> np.ndarray:
    """How near points of a 3D Axes are to the viewer: 1 at the front, 0 at the back of the box."""
    turn, tilt = np.radians([ax.azim, ax.elev])
    towards = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
    low, high = np.array([ax.get_xlim(), ax.get_ylim(), ax.get_zlim()]).T
    depth = (2 * points - low - high) / (high - low) @ towards
    return np.clip(0.5 + depth / 2, 0.0, 1.0)


def colours(count: int) -> list[str]:
    """A colour for each of `count` points: different ones if there are enough colours, else the same for all."""
    return list(COLOURS[:count]) if count <= len(COLOURS) else [COLOURS[0]] * count
