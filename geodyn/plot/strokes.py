"""Swimmers: the curvature of their connection, their strokes, and how they move."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from geodyn.locomotion.connection import AbstractLinkSwimmer, AbstractSwimmer
from geodyn.locomotion.connection import curvature as curvature_form
from geodyn.locomotion.holonomy import path as group_path
from geodyn.locomotion.swimmers import PushMePullYou
from geodyn.plot.style import COLOURS, INK, PALE, axes


def curvature(
    swimmer: AbstractSwimmer, component: int, lower: Sequence | np.ndarray, upper: Sequence | np.ndarray, ax=None
):
    """The height function F^component_12 over two shape variables, its zero line in black.

    A small stroke around an area moves the swimmer by minus the integral of this function over it.
    """
    ax = axes(ax, xlabel="$r_1$", ylabel="$r_2$")
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
    ax = axes(ax, xlabel="$r_1$", ylabel="$r_2$")
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
    ax = axes(ax, xlabel="net displacement →", yticks=-spacing * np.arange(frames), yticklabels=labels)
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
