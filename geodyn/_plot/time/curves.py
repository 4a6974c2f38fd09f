"""Plots against time: coordinates, separations, computed curves beside exact ones; force–displacement loops."""

from collections.abc import Sequence
from functools import singledispatch
from itertools import cycle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Axes, Float
from geodyn._geometry.geodesics.distances import distance
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._geometry.models.spaces import Hyperbolic, Sphere
from geodyn._integrators.trajectory import Trajectory
from geodyn._mechanics.points.system import System, edges
from geodyn._plot.scene.scene import check_one, points_of, system_of
from geodyn._plot.style import COLOURS, INK, PLAIN, STYLES, Labels, axes, check_index, check_lengths, legend, steady


@checked
def coordinates(trajectory: Trajectory, ax: Axes = None, *, labels: Labels = PLAIN):
    """Every coordinate of the configuration against time, with the moments of impacts below.

    `labels` names the coordinates of a point and the unit of time. What is constant to rounding is drawn as a straight
    line.

    Args:
        trajectory: what `gd.integrate` returns.
        ax: the Axes; by default a new one.
        labels: names of the coordinates and units, a `gd.plot.Labels`.

    Returns:
        The Axes.

    Example:
        >>> rod, q0 = gd.builders.rod(gd.spaces.Hyperbolic(2), 1.0)
        >>> motion = gd.integrate(rod, q0, t1=1.0, steps=10)
        >>> gd.plot.coordinates(motion, labels=gd.plot.Labels(("x", "y"), time="s")).get_xlabel()
        'time t (s)'
    """
    check_one(trajectory)
    ax = axes(ax, xlabel=labels.clock, ylabel="coordinates")
    q = np.asarray(trajectory.q)
    for index in np.ndindex(q.shape[1:]):
        ax.plot(trajectory.t, q[:, *index], label=_name(index, q.shape[1:], labels.coordinates))
    return legend(mark(steady(ax, q), trajectory), len(ax.lines))


def _name(index: tuple[int, ...], shape: tuple[int, ...], names: tuple[str, ...]) -> str:
    """The name of a coordinate q[index], with the number of the point if there are several."""
    if len(names) != shape[-1]:
        return "$q_{" + ",".join(str(i + 1) for i in index) + "}$"
    return names[index[-1]] + (f", point {index[0]}" if len(shape) > 1 and shape[0] > 1 else "")


def mark(ax: Axes, trajectory: Trajectory) -> Any:
    """Marks the moments of the impacts of a trajectory on the lower edge of the Axes, and returns the Axes."""
    impacts = trajectory.impacts
    if impacts is None:
        return ax
    count = min(int(impacts.count), len(impacts.t))
    if count:
        # In this transform x is a time, and y a fraction of the height of the Axes: 0 is its lower edge.
        on_edge = {"transform": ax.get_xaxis_transform(), "clip_on": False, "color": COLOURS[1]}
        ax.plot(np.asarray(impacts.t)[:count], np.zeros(count), "|", markersize=9, label="impacts", **on_edge)
    return ax


@checked
@singledispatch
def separation(
    trajectory: Trajectory,
    pairs: Sequence[tuple[int, int]] | None = None,
    ax: Axes = None,
    *,
    system: System | None = None,
    labels: Labels = PLAIN,
):
    """Geodesic distance between the two points of each pair, by default of every edge of the body, against time.

    `separation(space, trajectory, pairs, ax)` is for points that are not those of a `System`. `system` is needed for a
    trajectory read from a file; `labels` has the units. Raises ValueError if there is no pair.

    Args:
        trajectory: what `gd.integrate` returns.
        pairs: pairs of points; by default the edges of the body.
        ax: the Axes; by default a new one.
        system: the system, for a trajectory that was read from a file.
        labels: names of the coordinates and units, a `gd.plot.Labels`.

    Returns:
        The Axes.

    Example:
        >>> rod, q0 = gd.builders.rod(gd.spaces.Hyperbolic(2), 1.0)
        >>> motion = gd.integrate(rod, q0, t1=1.0, steps=10)
        >>> print(gd.plot.separation(motion).get_ylabel())
        geodesic separation (radii of curvature)
    """
    body = system_of(trajectory, system)
    pairs = edges(body) if pairs is None else pairs
    return _separation(body.space, trajectory.t, points_of(trajectory, body), pairs, ax, labels)


@separation.register
def _(
    space: AbstractManifold,
    trajectory: Trajectory,
    pairs: Sequence[tuple[int, int]],
    ax: Any = None,
    *,
    labels: Labels = PLAIN,
):
    return _separation(space, trajectory.t, trajectory.coordinates(), pairs, ax, labels)


def _separation(
    space: AbstractManifold,
    t: Array | np.ndarray,
    q: Array | np.ndarray,
    pairs: Sequence[tuple[int, int]],
    ax: Axes,
    labels: Labels,
) -> Any:
    """Draws the distance between q[:, i] and q[:, j] for each pair (i, j)."""
    if len(pairs) == 0:
        raise ValueError("pairs: this body has no edges; name pairs of points, such as [(0, 1)]")
    for k in np.ravel(np.asarray(pairs)):
        check_index("pairs", int(k), np.shape(q)[1], "points")
    unit = "radii of curvature" if isinstance(space, Sphere | Hyperbolic) else labels.length
    ax = axes(ax, xlabel=labels.clock, ylabel=labels.of("geodesic separation", unit))
    firsts, seconds = zip(*pairs)
    points = jnp.asarray(q)
    of_pairs = jax.vmap(lambda x, y: distance(space, x, y))
    at_all_times = jax.jit(jax.vmap(of_pairs))
    distances = at_all_times(points[:, np.array(firsts)], points[:, np.array(seconds)])
    for (i, j), values, style in zip(pairs, distances.T, cycle(STYLES)):
        ax.plot(t, values, style, linewidth=2, label=f"points {i} and {j}")
    return legend(steady(ax, distances), len(pairs))


@checked
def comparison(
    t: Float[np.ndarray, " T"],
    curves: dict[str, tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"]]],
    ax: Axes = None,
):
    """Computed curves with the exact ones as dots, both [T] under each name, and the largest error in the legend.

    Args:
        t: the times [T].
        curves: (computed, exact), both [T], under each name.
        ax: the Axes; by default a new one.

    Returns:
        The Axes.

    Example:
        >>> t = np.linspace(0.0, 1.0, 5)
        >>> ax = gd.plot.comparison(t, {"sine": (np.sin(t) + 1e-3, np.sin(t))})
        >>> ax.get_legend().get_texts()[0].get_text()
        'sine, error 1e-03'
    """
    check_lengths("curves", {name: len(x) for name, pair in curves.items() for x in pair}, len(t))
    ax = axes(ax, xlabel=PLAIN.clock)
    for (name, (computed, exact)), colour in zip(curves.items(), cycle(COLOURS[2:])):
        error = np.abs(computed - exact).max()
        ax.plot(t, computed, color=colour, linewidth=2, label=f"{name}, error {error:.0e}")
        # A dot at every fourth time only, so that the curve below stays visible.
        ax.plot(t[::4], exact[::4], ".", color=INK, markersize=6)
    ax.plot([], [], ".", color=INK, markersize=6, label="exact")
    return legend(ax, len(curves) + 1)


@checked(gaps=("displacement", "force"))
def hysteresis(
    displacement: Float[np.ndarray, " T"], force: Float[np.ndarray, " T"], ax: Axes = None, *, label: str | None = None
):
    """Force against displacement, both [T], with an arrow that shows the direction, and the work ∫ f dx in the legend:
    for closed loops the dissipated energy.

    Args:
        displacement: [T].
        force: [T].
        ax: the Axes; by default a new one.
        label: what the legend says before the work.

    Returns:
        The Axes.

    Example:
        >>> angle = np.linspace(0.0, 2 * np.pi, 200)
        >>> ax = gd.plot.hysteresis(np.cos(angle), -np.sin(angle), label="circle")
        >>> ax.get_legend().get_texts()[0].get_text()
        'circle, work done 3.141'
    """
    x = np.asarray(displacement)
    f = np.asarray(force)
    works = (f[1:] + f[:-1]) / 2 * np.diff(x)
    work = np.sum(works)
    # Where the works of the pieces cancel, only their rounding errors are left.
    if not np.abs(work) > 1e-12 * np.sum(np.abs(works)):
        work = 0.0
    ax = axes(ax, xlabel="displacement", ylabel="force")
    (line,) = ax.plot(x, f, linewidth=2, label=f"{label + ', ' if label else ''}work done {work:.4g}")
    # The arrow stands after a fifth of the curve.
    early = (len(x) - 1) // 5
    style = {"arrowstyle": "-|>", "color": line.get_color(), "mutation_scale": 18}
    ax.annotate("", xy=(x[early + 1], f[early + 1]), xytext=(x[early], f[early]), arrowprops=style)
    return legend(ax, len(ax.lines))
