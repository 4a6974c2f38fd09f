"""Pictures. Each function takes a matplotlib Axes (or makes one) and returns it.

matplotlib is imported where it is used, so that nothing else of geodyn needs it.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._typing import Float
from geodyn.geometry import AbstractManifold, distance
from geodyn.geometry.spaces import Hyperbolic, Sphere
from geodyn.integrators import Trajectory
from geodyn.locomotion.connection import AbstractLinkSwimmer, AbstractSwimmer
from geodyn.locomotion.connection import curvature as curvature_form
from geodyn.locomotion.holonomy import path as group_path
from geodyn.locomotion.swimmers import PushMePullYou

COLOURS = ("#20639b", "#d1495b", "#3caea3", "#edae49", "#7b4b94", "#5c6b73")
INK = "#222831"
GREY, PALE = "#7d8790", "#c3c9cf"


def figure(width: float | int, height: float | int):
    """An empty Figure of that size in inches, which no window has to show: `figure.savefig` writes it."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _axes(ax: Any, projection: str | None = None, **labels) -> Any:
    """The given Axes or a new one, in the house style."""
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.figure(layout="constrained").add_subplot(projection=projection)
    ax.set_prop_cycle(color=COLOURS)
    ax.set(**labels)
    if projection is None:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25, linewidth=0.6)
        ax.set_axisbelow(True)
    return ax


def _legend(ax, count):
    if count <= 12:
        ax.legend(frameon=False, fontsize="small", ncols=1 + (count - 1) // 3)
    return ax


def trajectory(trajectory: Trajectory, ax=None):
    """Every coordinate of the configuration over time."""
    ax = _axes(ax, xlabel="time", ylabel="coordinates")
    q = np.asarray(trajectory.q)
    for index in np.ndindex(q.shape[1:]):
        ax.plot(trajectory.t, q[:, *index], label="$q_{" + ",".join(str(i + 1) for i in index) + "}$")
    return _legend(ax, q[0].size)


def separation(space: AbstractManifold, trajectory: Trajectory, edges: Sequence[tuple[int, int]], ax=None):
    """Geodesic distance between the two points of each edge, over time."""
    ax = _axes(ax, xlabel="time", ylabel="geodesic separation")
    first, second = (trajectory.q[:, np.array(ends)] for ends in zip(*edges))
    distances = jax.jit(jax.vmap(jax.vmap(lambda x, y: distance(space, x, y))))(first, second)
    for (i, j), values in zip(edges, distances.T):
        ax.plot(trajectory.t, values, linewidth=2, label=f"points {i} and {j}")
    return _legend(ax, len(edges))


def comparison(t: Float[np.ndarray, " T"], curves: dict[str, tuple], ax=None):
    """Computed curves with the exact ones as dots, both [T] under each name, and the largest error in the legend."""
    ax = _axes(ax, xlabel="time")
    for (name, (computed, exact)), colour in zip(curves.items(), cycle(COLOURS[2:])):
        ax.plot(t, computed, color=colour, linewidth=2, label=f"{name}, error {np.abs(computed - exact).max():.0e}")
        ax.plot(t[::4], exact[::4], ".", color=INK, markersize=6)
    ax.plot([], [], ".", color=INK, markersize=6, label="exact")
    return _legend(ax, len(curves))


def drift(t: Float[np.ndarray, " T"], conserved: dict[str, Float[np.ndarray, "T ..."]], ax=None):
    """How far conserved quantities have moved from their first values, in the largest component."""
    ax = _axes(ax, xlabel="time", ylabel="distance from the first value")
    for name, values in conserved.items():
        change = np.abs(values - values[0]).reshape(len(t), -1).max(axis=1)
        ax.semilogy(t[1:], np.where(change > 0, change, np.nan)[1:], label=name)
    return _legend(ax, len(conserved))


def path(
    space: AbstractManifold, trajectory: Trajectory, ax=None, *, edges: Sequence[tuple[int, int]] = (), bodies: int = 12
):
    """The paths of the points, and the edges between them as geodesics at `bodies` times.

    Hyperbolic spaces are drawn in the Poincaré disc or ball, spheres in the first three components of their embedding;
    any other space in its first two or three coordinates, with edges that are straight there.
    """
    model = jax.jit(jax.vmap(jax.vmap(lambda X: _model(space, X))))
    embed = space.embed if isinstance(space, Hyperbolic | Sphere) else lambda x: x
    X = jax.jit(jax.vmap(jax.vmap(embed)))(trajectory.q)
    ax = _axes(ax, projection(space))
    if isinstance(space, Hyperbolic | Sphere):
        _unit_sphere(ax, 3 if projection(space) else 2)
    chord = jnp.linspace(0.0, 1.0, 33)[:, None, None]
    moments = np.linspace(0, X.shape[0] - 1, bodies).astype(int)
    for i, j in edges:
        for points in np.asarray(
            model((1 - chord) * X[None, moments, i] + chord * X[None, moments, j]).transpose(1, 2, 0)
        ):
            ax.plot(*points[:3], color=GREY, linewidth=1.2)
    for points, colour in zip(np.asarray(model(X)).transpose(1, 2, 0), cycle(COLOURS)):
        ax.plot(*points[:3], color=colour, linewidth=2)
        ax.plot(*points[:3, :1], "o", color=colour, markerfacecolor="white", markersize=6)
        ax.plot(*points[:3, -1:], "o", color=colour, markersize=6)
    ax.set_aspect("equal")
    if projection(space):
        ax.view_init(elev=50, azim=-75)
        ax.set_box_aspect(None, zoom=1.35)
    return ax


def projection(space: AbstractManifold) -> str | None:
    """The projection that an Axes for `path` must have."""
    return "3d" if space.dim > 2 or (isinstance(space, Sphere) and space.dim == 2) else None


def _model(space, X):
    """Where a multiple of a point of the embedding space is drawn: chords of the embedding become geodesics."""
    if not isinstance(space, Hyperbolic | Sphere):
        return X
    if isinstance(space, Sphere):
        return X / jnp.sqrt(jnp.sum(X**2))
    return X[:-1] / (jnp.sqrt(X[-1] ** 2 - jnp.sum(X[:-1] ** 2)) + X[-1])


def _unit_sphere(ax, dim):
    """The unit circle or sphere: the boundary of the ball models, S² itself, where S³ turns its back."""
    angle = np.linspace(0, 2 * np.pi, 181)
    ax.set_axis_off()
    if dim == 2:
        ax.plot(np.cos(angle), np.sin(angle), color=INK, linewidth=1)
        return
    for height in np.sin(np.linspace(-np.pi / 2, np.pi / 2, 9)):
        radius = np.sqrt(1 - height**2)
        ax.plot(radius * np.cos(angle), radius * np.sin(angle), height, color=PALE, linewidth=0.5)
    for turn in np.linspace(0, np.pi, 6, endpoint=False):
        ax.plot(np.cos(angle) * np.cos(turn), np.cos(angle) * np.sin(turn), np.sin(angle), color=PALE, linewidth=0.5)


def curvature(
    swimmer: AbstractSwimmer, component: int, lower: Sequence | np.ndarray, upper: Sequence | np.ndarray, ax=None
):
    """The height function F^component_12 over two shape variables, its zero line in black.

    A small stroke around an area moves the swimmer by minus the integral of this function over it.
    """
    ax = _axes(ax, xlabel="$r_1$", ylabel="$r_2$")
    grids = [np.linspace(low, high, 81) for low, high in zip(lower, upper)]
    r = jnp.stack(jnp.meshgrid(*grids), axis=-1)
    F = np.asarray(jax.jit(jax.vmap(jax.vmap(lambda r: curvature_form(swimmer, r)[component, 0, 1])))(r))
    bound = np.abs(F).max()
    image = ax.pcolormesh(*grids, F, cmap="RdBu_r", vmin=-bound, vmax=bound, shading="gouraud", rasterized=True)
    if F.min() < 0 < F.max():
        ax.contour(*grids, F, [0.0], colors=INK, linewidths=0.8)
    ax.figure.colorbar(image, ax=ax, shrink=0.85, label=f"$F^{{{component + 1}}}_{{12}}$")
    return ax


def stroke(stroke, ax=None):
    """A closed stroke in the plane of its first two shape variables, with its direction."""
    ax = _axes(ax, xlabel="$r_1$", ylabel="$r_2$")
    r = np.asarray(jax.vmap(stroke)(jnp.linspace(0.0, 1.0, 257)))
    ax.plot(r[:, 0], r[:, 1], color=INK, linewidth=2.2)
    for i in (0, 64, 128, 192):
        ax.annotate(
            "",
            tuple(r[i + 2, :2]),
            tuple(r[i, :2]),
            arrowprops={"arrowstyle": "-|>", "color": INK, "mutation_scale": 16},
        )
    return ax


def swimmer(swimmer: AbstractSwimmer, stroke, ax=None, *, frames: int = 9):
    """A filmstrip of one stroke, time downwards: the body where it is, and where it began in grey.

    The net displacement points to the right. Raises ValueError for a swimmer that is neither links nor spheres.
    """
    times = jnp.linspace(0.0, 1.0, frames)
    g = group_path(swimmer, stroke, steps=16 * (frames - 1))[::16]
    outlines = np.asarray(jax.vmap(lambda t, g: _placed(g, _outline(swimmer, stroke(t))))(times, g))
    x, y = _placed(g[-1], jnp.zeros((1, 2)))[0]
    forward = np.asarray([[x, y], [-y, x]]) / np.hypot(x, y)
    outlines = outlines @ forward.T
    spacing = 1.25 * np.ptp(outlines[..., 1], axis=(1, 2)).max()
    labels = [f"t = {t:.3g}" for t in times]
    ax = _axes(ax, xlabel="net displacement →", yticks=-spacing * np.arange(frames), yticklabels=labels)
    for frame, parts in enumerate(outlines):
        for part, start in zip(parts, outlines[0]):
            for points, colour in ((start, PALE), (part, COLOURS[0])):
                ax.plot(*(points - [0, frame * spacing]).T, color=colour, linewidth=3, solid_capstyle="round")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.grid(False, axis="y")
    ax.set_aspect("equal")
    return ax


def _outline(swimmer, r):
    """Polygons of the body in its own frame: a segment for a link, a circle for a sphere, [parts, points, 2]."""
    if isinstance(swimmer, AbstractLinkSwimmer):
        x, y, angle = swimmer.links(r).T
        half = swimmer.lengths[:, None] / 2 * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
        centre = jnp.stack([x, y], axis=1)
        return jnp.stack([centre - half, centre + half], axis=1)
    if isinstance(swimmer, PushMePullYou):
        radii = jnp.cbrt(3 * jnp.stack([r[1], swimmer.volume - r[1]]) / (4 * jnp.pi))
        angle = jnp.linspace(0.0, 2 * jnp.pi, 61)
        circle = radii[:, None, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)[None]
        return circle + jnp.stack([jnp.stack([-r[0], 0.0 * r[0]]), jnp.stack([r[0], 0.0 * r[0]])])[:, None] / 2
    raise ValueError(f"swimmer: no picture of {type(swimmer).__name__} is known, only of links and of PushMePullYou")


def _placed(g, points):
    """Points of the plane moved by a motion of the plane or by a translation of its first axis."""
    if g.shape[0] == 2:
        return points + jnp.stack([g[0, 1], 0.0 * g[0, 1]])[(None,) * (points.ndim - 1)]
    return points @ g[:2, :2].T + g[:2, 2][(None,) * (points.ndim - 1)]
