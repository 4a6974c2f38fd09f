"""Plots against time: coordinates, separations, and drifts of conserved quantities; force–displacement loops."""

from collections.abc import Sequence
from functools import singledispatch
from itertools import cycle

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._compile.jit import jit
from geodyn._typing import Float
from geodyn.geometry.geodesics.geodesic import distance
from geodyn.geometry.manifold.manifold import AbstractManifold
from geodyn.geometry.models.spaces import Hyperbolic, Sphere
from geodyn.integrators.contract.system import AbstractSystem, constraint_rate
from geodyn.integrators.trajectory import Trajectory
from geodyn.mechanics.points.body import AbstractBody, constraint_names
from geodyn.mechanics.points.system import System, edges
from geodyn.plot.scene import points_of, system_of
from geodyn.plot.style import COLOURS, GREY, INK, TIME, axes, legend

STYLES = ("-", "--", "-.", ":")
MOST_CURVES = 200


def coordinates(trajectory: Trajectory, ax=None):
    """Every coordinate of the configuration against time."""
    ax = axes(ax, xlabel=TIME, ylabel="coordinates")
    q = np.asarray(trajectory.q)
    for index in np.ndindex(q.shape[1:]):
        ax.plot(trajectory.t, q[:, *index], label="$q_{" + ",".join(str(i + 1) for i in index) + "}$")
    return legend(ax, q[0].size)


@singledispatch
def separation(
    trajectory: Trajectory, pairs: Sequence[tuple[int, int]] | None = None, ax=None, *, system: System | None = None
):
    """Geodesic distance between the two points of each pair, by default of every edge of the body, against time.

    `separation(space, trajectory, pairs, ax)` is for points that are not those of a `System`. `system` is needed for a
    trajectory read from a file. Raises ValueError if there is no pair.
    """
    body = system_of(trajectory, system)
    return _separation(
        body.space, trajectory.t, points_of(trajectory, body), edges(body) if pairs is None else pairs, ax
    )


@separation.register
def _(space: AbstractManifold, trajectory: Trajectory, pairs: Sequence[tuple[int, int]], ax=None):
    return _separation(space, trajectory.t, trajectory.coordinates(), pairs, ax)


def _separation(space, t, q, pairs, ax):
    if len(pairs) == 0:
        raise ValueError("pairs: this body has no edges; name pairs of points, such as [(0, 1)]")
    unit = "radii of curvature" if isinstance(space, Sphere | Hyperbolic) else "any consistent unit"
    ax = axes(ax, xlabel=TIME, ylabel=f"geodesic separation\n({unit})")
    first, second = (jnp.asarray(q)[:, np.array(ends)] for ends in zip(*pairs))
    distances = jax.jit(jax.vmap(jax.vmap(lambda x, y: distance(space, x, y))))(first, second)
    for (i, j), values, style in zip(pairs, distances.T, cycle(STYLES)):
        ax.plot(t, values, style, linewidth=2, label=f"points {i} and {j}")
    return legend(ax, len(pairs))


def comparison(t: Float[np.ndarray, " T"], curves: dict[str, tuple], ax=None):
    """Computed curves with the exact ones as dots, both [T] under each name, and the largest error in the legend."""
    ax = axes(ax, xlabel=TIME)
    for (name, (computed, exact)), colour in zip(curves.items(), cycle(COLOURS[2:])):
        ax.plot(t, computed, color=colour, linewidth=2, label=f"{name}, error {np.abs(computed - exact).max():.0e}")
        ax.plot(t[::4], exact[::4], ".", color=INK, markersize=6)
    ax.plot([], [], ".", color=INK, markersize=6, label="exact")
    return legend(ax, len(curves))


def drift(t: Float[np.ndarray, " T"], conserved: dict[str, Float[np.ndarray, "T ..."]], ax=None):
    """The distance of conserved quantities from their first values, in the largest component, on a logarithmic axis.
    A curve has gaps where the distance is exactly zero; the axis ends far below rounding."""
    ax = axes(ax, xlabel=TIME, ylabel="distance from the first value\n(any consistent unit)")
    for name, values in conserved.items():
        _logarithmic(ax, t[1:], np.abs(values - values[0])[1:], name)
    _end_below(ax)
    return legend(ax, len(conserved))


def energy(trajectory: Trajectory, ax=None):
    """The distance of the energy from its first value, on a logarithmic axis. A line shows the rounding error of this
    value, a lower bound for the error of a conservative motion. Energy lost to drag and impacts is included."""
    E = np.asarray(trajectory.energy)
    ax = drift(np.asarray(trajectory.t), {f"energy, at first {E[0]:.6g}": E}, ax)
    ax.set_ylabel("|E(t) − E(0)|\n(any consistent unit)")
    if E[0] != 0:
        _rounding(ax, np.finfo(E.dtype).eps * abs(E[0]), "rounding, ε |E(0)|")
    return legend(ax, 2)


def multipliers(trajectory: Trajectory, ax=None, *, system: System | None = None):
    """The multipliers of the constraints against time, with a line at zero; that of a rod is the force along it,
    negative in tension. Raises ValueError for a system without constraints."""
    lam = np.asarray(trajectory.multipliers)
    if lam.shape[-1] == 0:
        raise ValueError("trajectory has no multipliers: its system has no constraints")
    known = system or trajectory.system
    numbered = [f"$\\lambda_{{{k + 1}}}$" for k in range(lam.shape[-1])]
    names = constraint_names(known) if isinstance(known, AbstractBody) else []
    names += numbered[len(names) :]  # The forces of friction and of plastic elements.
    ax = axes(ax, xlabel=TIME, ylabel="multiplier λ\n(any consistent unit)")
    ax.axhline(0.0, color=INK, linewidth=0.8)
    for values, name, style in zip(lam.T, names, cycle(STYLES)):
        ax.plot(trajectory.t, values, style, linewidth=2, label=name)
    return legend(ax, len(names))


def constraints(trajectory: Trajectory, ax=None, *, system: AbstractSystem | None = None):
    """The largest residual of the constraints in positions, |φ(q)|, and in velocities, |dφ/dt| and |Av − b|, against
    time on a logarithmic axis, with the rounding unit as a line. Curves have gaps where a residual is exactly zero.

    `system` is needed for a trajectory read from a file. Raises ValueError for a system without constraints.
    """
    known = system or trajectory.system
    if known is None or known.count_constraints(trajectory.q[0]) == 0:
        raise ValueError(
            "trajectory has no constraints"
            + (", since it was read from a file: give its system as system=" if known is None else " in its system")
        )
    flat = trajectory.t.shape[0], -1
    states = trajectory.t, trajectory.q.reshape(flat), trajectory.v.reshape(flat)
    ax = axes(ax, xlabel=TIME, ylabel="largest residual\n(any consistent unit)")
    for name, values, style in zip(("position, |φ|", "velocity, |dφ/dt|"), _residuals(known, *states), STYLES):
        _logarithmic(ax, trajectory.t, np.abs(values).max(axis=1, initial=0.0), name, style)
    _end_below(ax)
    return legend(_rounding(ax, np.finfo(trajectory.q.dtype).eps, "rounding unit ε"), 3)


@jit
def _residuals(system, t, q, v):
    """The residuals of the constraints of positions φ [T, c], and of those of velocities (dφ/dt, Av − b) [T, c']."""
    return jax.vmap(lambda t, q, v: (system.constraint(t, q), constraint_rate(system, t, q, v)))(t, q, v)


def _logarithmic(ax, t, values, name, style="-"):
    """Plots the largest component against time on a logarithmic axis; zeros become gaps."""
    values = np.asarray(values).reshape(len(t), -1).max(axis=1)
    ax.semilogy(t, np.where(values > 0, values, np.nan), style, label=name)


def _end_below(ax):
    """Ends a logarithmic axis three decades below ε, or below the maximum of the smallest curve if that is less: what
    lies below is rounding."""
    curves = [np.asarray(line.get_ydata(), float) for line in ax.lines]
    tops = [np.nanmax(values) for values in curves if np.isfinite(values).any()]
    floor = min([np.finfo(float).eps, *tops]) / 1000
    if 0 < ax.get_ylim()[0] < floor:
        ax.set_ylim(bottom=floor)


def _rounding(ax, level, name):
    ax.axhline(level, color=GREY, linewidth=0.8, linestyle=":", label=name)
    return ax


def hysteresis(
    displacement: Float[np.ndarray, " T"], force: Float[np.ndarray, " T"], ax=None, *, label: str | None = None
):
    """Force against displacement, both [T], with an arrow that shows the direction, and the work ∫ f dx in the legend:
    for closed loops the dissipated energy. Any consistent units."""
    x, f = np.asarray(displacement), np.asarray(force)
    work = np.sum((f[1:] + f[:-1]) / 2 * np.diff(x))
    ax = axes(ax, xlabel="displacement\n(any consistent unit)", ylabel="force\n(any consistent unit)")
    (line,) = ax.plot(x, f, linewidth=2, label=f"{label + ', ' if label else ''}work done {work:.4g}")
    early = (len(x) - 1) // 5
    style = {"arrowstyle": "-|>", "color": line.get_color(), "mutation_scale": 18}
    ax.annotate("", xy=(x[early + 1], f[early + 1]), xytext=(x[early], f[early]), arrowprops=style)
    return legend(ax, len(ax.lines))


def fan(t: Float[np.ndarray, "N T"], values: Float[np.ndarray, "N T"], ax=None, *, parameter=None, name: str = ""):
    """Curves of many members. With a `parameter` [N] each has the colour of its value, on a scale called `name`.
    Without one: the median, and the bands in which half of the members and nine of ten lie at each time."""
    ax = axes(ax, xlabel=TIME)
    t, values = np.broadcast_to(t, np.shape(values)), np.asarray(values)
    if parameter is None:
        bands = np.nanquantile(values, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
        for low, high, strength, label in ((0, 4, 0.2, "9 of 10 members"), (1, 3, 0.35, "half of them")):
            ax.fill_between(t[0], bands[low], bands[high], color=COLOURS[0], alpha=strength, label=label, lw=0)
        ax.plot(t[0], bands[2], color=COLOURS[0], linewidth=2, label="median")
        return legend(ax, 3)
    from matplotlib.collections import LineCollection

    shown = np.unique(np.linspace(0, len(values) - 1, MOST_CURVES).astype(int))
    lines = np.stack([t[shown], values[shown]], axis=2)
    curves = LineCollection(lines, array=np.asarray(parameter)[shown], cmap="viridis", linewidths=1.2)
    ax.add_collection(curves)
    ax.autoscale_view()
    ax.figure.colorbar(curves, ax=ax, label=name)
    return ax


def heatmap(
    x: Float[np.ndarray, " K"],
    y: Float[np.ndarray, " L"],
    values: Float[np.ndarray, "K L"],
    ax=None,
    *,
    name: str = "",
):
    """A value over a grid of two numbers, on a scale called `name`; NaN stays empty."""
    ax = axes(ax)
    ax.grid(False)
    field = ax.pcolormesh(x, y, np.asarray(values).T, cmap="viridis", shading="nearest")
    ax.figure.colorbar(field, ax=ax, label=name)
    return ax
