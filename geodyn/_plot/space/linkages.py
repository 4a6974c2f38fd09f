"""Plots of linkages, and of functions on a sphere, such as a configuration space of linkages."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._foundations.checks import one_number, returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Axes, Count, Float
from geodyn._mechanics.constrained.linkage import Linkage
from geodyn._plot.style import COLOURS, GREY, INK, axes, mix


@checked
def linkage(system: Linkage, q: Float[Array, "F d"] | Float[Array, "T F d"], ax: Axes = None):
    """A linkage in one configuration q[F, d], or in several, q[T, F, d], with the last on top: rods as lines, hinges as
    dots, pins as squares. Raises ValueError unless the Axes has the dimension of the linkage.

    Args:
        system: the linkage.
        q: a configuration [F, d], or several [T, F, d].
        ax: the Axes; by default a new one.

    Returns:
        The Axes.

    Example:
        >>> chain, q0 = gd.linkages.pinned_chain(4, span=3.0)
        >>> len(gd.plot.linkage(chain, q0).lines)
        6
    """
    flat = system.space.dim == 2
    ax = axes(ax, projection=None if flat else "3d", aspect="equal")
    q = np.asarray(q, float).reshape(-1, len(system.free), system.space.dim)
    joints = np.asarray(jax.vmap(system.joints)(jnp.asarray(q)))
    for k, x in enumerate(joints):
        last = k == len(joints) - 1
        # The earlier a configuration, the paler.
        colour = mix(COLOURS[0], 1.0 if last else 0.15 + 0.45 * k / len(joints))
        for i, j in system.edges:
            ax.plot(*x[[i, j]].T, color=colour, linewidth=3.0 if last else 1.2, solid_capstyle="round", zorder=2 + last)
    free = joints[-1][list(system.free)]
    pins = joints[-1][list(system.pins)]
    ax.plot(*free.T, "o", color=INK, markersize=6, zorder=4)
    ax.plot(*pins.T, "s", color=INK, markersize=8, zorder=4)
    if not flat:
        # A cube around all of them, so that lengths look alike in all directions.
        middle = (joints.max((0, 1)) + joints.min((0, 1))) / 2
        half = 0.55 * np.ptp(joints, axis=(0, 1)).max()
        ax.set(**{f"{name}lim": (x - half, x + half) for name, x in zip("xyz", middle, strict=True)})
    return ax


@checked
def on_sphere(
    function: Callable[[Array], Array],
    ax: Axes = None,
    *,
    label: str = "",
    curves: Sequence[Float[np.ndarray, "_ 3"]] = (),
    view: tuple[float, float] = (25.0, 40.0),
    bound: float | None = None,
    detail: Count = 60,
):
    """A function of unit vectors X[3] as colours on the sphere, white at zero, seen from `view` (elevation and azimuth
    in degrees), with the visible parts of `curves` [T, 3].

    The colour scale ends at `bound` and, if there are negative values, at minus `bound`; by default the values on 95 %
    of the sphere are within it. A function that is a `jax.tree_util.Partial` or an `eqx.Module` is compiled once for
    all values of the numbers in it. `detail` is the number of patches from pole to pole. Raises ValueError for a flat
    Axes.

    Args:
        function: of unit vectors X[3], a number.
        ax: the Axes, with `projection="3d"`; by default a new one.
        label: what the scale of colours says.
        curves: curves [T, 3] on the sphere.
        view: elevation and azimuth in degrees.
        bound: where the scale ends.
        detail: patches from pole to pole.

    Returns:
        The Axes.

    Example:
        >>> gd.plot.on_sphere(lambda X: X[2], label="height", detail=6).figure.axes[1].get_ylabel()
        'height'
    """
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    if bound is not None and not bound > 0:
        raise ValueError(f"bound must be above 0, got {bound}: by default it is taken from the values")
    ax = axes(ax, projection="3d")
    tilt = np.linspace(np.pi, 0, detail + 1)
    turn = np.linspace(0, 2 * np.pi, 2 * detail + 1)
    middle_tilt = (tilt[1:] + tilt[:-1]) / 2
    middle_turn = (turn[1:] + turn[:-1]) / 2
    middles = _unit(*np.meshgrid(middle_tilt, middle_turn, indexing="ij"))
    values = np.asarray(_values(function, jnp.asarray(middles.reshape(-1, 3))))
    # Of the patches, up to a factor: there are 2 · detail of them around the axis.
    areas = np.repeat(np.sin(middle_tilt), 2 * detail)
    limit = _covering(np.abs(values), areas) if bound is None else bound
    signed = values.min() < 0
    palette = colormaps["RdBu_r" if signed else "Reds"]
    colours = ScalarMappable(Normalize(-limit if signed else 0, limit), palette)
    faces = colours.to_rgba(values.reshape(detail, 2 * detail))
    corners = np.moveaxis(_unit(*np.meshgrid(tilt, turn, indexing="ij")), -1, 0)
    ax.plot_surface(*corners, facecolors=faces, rcount=detail + 1, ccount=2 * detail + 1, shade=False, zorder=1)
    ax.view_init(*view)
    ax.set_proj_type("ortho")
    ax.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
    ax.set_box_aspect((1, 1, 1), zoom=1.4)
    ax.set_axis_off()
    # Seen from the eye the sphere ends at the great circle across the line of sight.
    elevation, azimuth = np.radians(view)
    eye = _unit(np.pi / 2 - elevation, azimuth)
    across = _unit(np.pi / 2, azimuth + np.pi / 2)
    up = _unit(-elevation, azimuth)
    rim = np.cos(turn)[:, None] * across + np.sin(turn)[:, None] * up
    ax.plot(*rim.T, color=GREY, linewidth=1.0, zorder=4)
    for curve in curves:
        # A little outside of the sphere, which would hide it else.
        near = np.where((curve @ eye > 0)[:, None], 1.01 * curve, np.nan)
        ax.plot(*near.T, color=INK, linewidth=1.6, zorder=5)
    beyond = "neither"
    if np.abs(values).max() > limit:
        beyond = "both" if signed else "max"
    ax.figure.colorbar(colours, ax=ax, shrink=0.7, label=label, extend=beyond)
    return ax


def _covering(sizes: np.ndarray, weights: np.ndarray) -> float:
    """The weighted 95th percentile of the sizes."""
    order = np.argsort(sizes)
    return sizes[order][np.searchsorted(np.cumsum(weights[order]), 0.95 * weights.sum())]


@jit
def _values(function: Callable, X: Float[Array, "P 3"]) -> Float[Array, " P"]:
    return jax.lax.map(lambda x: one_number("function", returned("function", function, x)), X, batch_size=512)


def _unit(tilt: np.ndarray | np.floating | float, turn: np.ndarray | np.floating | float) -> np.ndarray:
    """The unit vector in polar coordinates, [..., 3]."""
    return np.stack([np.sin(tilt) * np.cos(turn), np.sin(tilt) * np.sin(turn), np.cos(tilt) + 0 * turn], axis=-1)
