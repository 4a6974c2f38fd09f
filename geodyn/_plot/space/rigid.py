"""Plots of rigid bodies: Poinsot's ellipsoid with polhodes, sequences of attitudes, and angular velocities."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Axes, Each, Index, Numbers
from geodyn._integrators.trajectory import Trajectory
from geodyn._mechanics.rigid.bodies import RigidBodies, rigid_motion
from geodyn._plot.style import COLOURS, GREY, INK, PLAIN, axes, check_index, legend, polylines

HANDLE = ([(-1.0, 0.0, 0.0), (1.0, 0.0, 0.0)], [(0.0, 0.0, 0.0), (0.0, 1.6, 0.0)])
"""Lines of a T-handle in the principal axes (in the order of growing moments): its bar, and its stem along the second
axis."""
ANGLES = np.linspace(0, 2 * np.pi, 181)


@checked
def angular_velocity(trajectory: Trajectory, body: Index = 0, ax: Axes = None):
    """The components of the angular velocity in the principal axes of a rigid body, against time.

    Args:
        trajectory: what `gd.integrate` returns.
        body: the number of the body.
        ax: the Axes; by default a new one.

    Returns:
        The Axes.

    Example:
        >>> handle = gd.rigid.RigidBodies([1.0, 2.0, 3.0])
        >>> q0, v0 = handle.state(angular_velocity=[0.02, 1.0, 0.03])
        >>> motion = gd.integrate(handle, q0, v0, t1=1.0, steps=10)
        >>> len(gd.plot.angular_velocity(motion).lines)
        3
    """
    ax = axes(ax, xlabel=PLAIN.clock, ylabel="angular velocity in the body")
    moments, _, W = _principal(trajectory, body)
    for values, moment in zip(W.T, moments, strict=True):
        ax.plot(trajectory.t, values, linewidth=1.5, label=f"about the axis of I = {moment:.4g}")
    return legend(ax, 3)


@checked
def poinsot(trajectory: Trajectory, body: Index = 0, ax: Axes = None):
    """The path of the angular velocity W of a rigid body in its principal axes, on the ellipsoid W·IW = 2K of its
    initial kinetic energy. Also drawn are the polhodes W·I²W = L² for several angular momenta, and the separatrix
    through the second axis (Landau & Lifshitz, Mechanics, §37). The path of a free body is a polhode. Raises ValueError
    for a flat Axes.

    Args:
        trajectory: what `gd.integrate` returns.
        body: the number of the body.
        ax: the Axes, with `projection="3d"`; by default a new one.

    Returns:
        The Axes.

    Example:
        >>> handle = gd.rigid.RigidBodies([1.0, 2.0, 3.0])
        >>> q0, v0 = handle.state(angular_velocity=[0.02, 1.0, 0.03])
        >>> motion = gd.integrate(handle, q0, v0, t1=1.0, steps=10)
        >>> gd.plot.poinsot(motion).name
        '3d'
    """
    moments, _, W = _principal(trajectory, body)
    ax = axes(ax, projection="3d")
    twice_the_energy = W[0] @ (moments * W[0])
    radii = np.sqrt(twice_the_energy / moments)
    low, middle, high = moments
    # L²/2K of three polhodes on each side of the separatrix, on which it is the middle moment. At the ends of either
    # range there are no curves, but the axes and the separatrix.
    below = np.linspace(low, middle, 5)[1:-1]
    above = np.linspace(middle, high, 5)[1:-1]
    polhodes = [line for level in (*below, *above) for line in _polhodes(moments, level)]
    ax.set(xlim=(-radii[0], radii[0]), ylim=(-radii[1], radii[1]), zlim=(-radii[2], radii[2]))
    ax.set_box_aspect(radii)
    ax.view_init(elev=18, azim=30)
    ax.set_axis_off()
    polylines(ax, [radii * line for line in polhodes], GREY, 0.8)
    polylines(ax, [radii * line for line in _separatrix(moments)], INK, 1.2)
    polylines(ax, [W], COLOURS[1], 2.2, zorder=3)
    # The principal axes, from the surface of the ellipsoid outwards.
    for k, end in enumerate(np.diag(radii)):
        x, y, z = np.stack([end, 1.25 * end], axis=1)
        ax.plot(x, y, z, color=INK, linewidth=1)
        ax.text(*(1.45 * end), f"$W_{k + 1}$", ha="center", va="center")
    return ax


@checked
def attitudes(
    trajectory: Trajectory,
    times: Each | None = None,
    body: Index = 0,
    shape: Sequence[Numbers] = HANDLE,
    ax: Axes = None,
):
    """A rigid body at several times (by default eight), side by side, at the nearest saved states. `shape` is a list of
    lines [K, 3] in its principal axes, by default a T-handle, seen from slightly above; a dot marks the end of the last
    line.

    Args:
        trajectory: what `gd.integrate` returns.
        times: the times; by default eight.
        body: the number of the body.
        shape: lines [K, 3] in the principal axes.
        ax: the Axes; by default a new one.

    Returns:
        The Axes.

    Example:
        >>> handle = gd.rigid.RigidBodies([1.0, 2.0, 3.0])
        >>> q0, v0 = handle.state(angular_velocity=[0.02, 1.0, 0.03])
        >>> motion = gd.integrate(handle, q0, v0, t1=1.0, steps=10)
        >>> len(gd.plot.attitudes(motion, [0.0, 0.5, 1.0]).get_xticks())
        3
    """
    ax = axes(ax, xlabel=PLAIN.clock)
    t = np.asarray(trajectory.t)
    frames = _nearest_frames(t, times)
    _, rotations, _ = _principal(trajectory, body)
    lines = [np.asarray(line, float) for line in shape]
    largest = max(np.linalg.norm(line, axis=1).max() for line in lines)
    # A little more than the body needs in any attitude, so that neighbours do not touch.
    room = 2.2 * largest
    middles = room * np.arange(len(frames))
    for middle, frame in zip(middles, frames, strict=True):
        _draw_lines(ax, lines, rotations[frame], middle)
    labels = [f"{x:.3g}" for x in t[frames]]
    ax.set(aspect="equal", xticks=middles, xticklabels=labels, yticks=[])
    ax.set(xlim=(-room / 2, middles[-1] + room / 2), ylim=(-room / 2, room / 2))
    ax.grid(False)
    ax.spines["left"].set_visible(False)
    return ax


def _nearest_frames(t: np.ndarray, times: Each | None) -> np.ndarray:
    """The numbers of the saved states at the times t that are nearest to those wanted, by default to eight."""
    wanted = np.linspace(t[0], t[-1], 8) if times is None else np.atleast_1d(np.asarray(times, float))
    is_list = wanted.ndim == 1 and wanted.size > 0
    if not is_list or wanted.min() < t[0] or wanted.max() > t[-1]:
        raise ValueError(f"times must lie within the trajectory, [{t[0]:.6g}, {t[-1]:.6g}]; got {times}")
    distances = np.abs(t[:, None] - wanted[None])
    return distances.argmin(axis=0)


def _draw_lines(ax: Any, lines: Sequence[np.ndarray], rotation: np.ndarray, middle: float):
    """A body of these lines in one attitude, at a place on the axis of time, with a dot at the end of the last line."""
    end = np.zeros(2)
    for line, colour in zip(lines, COLOURS):
        seen = line @ rotation.T @ VIEW
        ax.plot(middle + seen[:, 0], seen[:, 1], color=colour, linewidth=4, solid_capstyle="round")
        end = seen[-1]
    ax.plot(middle + end[0], end[1], "o", color=INK, markersize=5)


VIEW = np.array([[0.87, -0.15], [0.0, 0.95], [-0.49, -0.27]])
"""Two directions of the paper as columns [3, 2] in the world, orthonormal to two digits: a view from above."""


def _principal(trajectory: Trajectory, body: Index) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(principal moments [3] of a body, rotations [T, 3, 3] from its principal axes to the world, angular velocities
    [T, 3] in the principal axes)."""
    motion = rigid_motion(trajectory)
    inertia = cast(RigidBodies, trajectory.system).inertia
    check_index("body", body, len(inertia), "bodies")
    moments, directions = np.linalg.eigh(np.asarray(inertia[body]))
    # The columns of `directions` are the principal axes in the frame of the body: W @ directions are the components of
    # W along them.
    rotations = np.asarray(motion.rotation[:, body]) @ directions
    velocities = np.asarray(motion.angular_velocity[:, body]) @ directions
    return moments, rotations, velocities


def _polhodes(moments: np.ndarray, level: float | np.floating) -> list[np.ndarray]:
    """The two closed curves Σ I_i u_i² = level on the unit sphere. With W_i = √(2K/I_i) u_i they are the polhodes for
    L² = 2K · level."""
    # The axis that the curves encircle: that of the least moment below the separatrix, that of the greatest above it.
    inner = 0 if level < moments[1] else 2
    others = [i for i in range(3) if i != inner]
    # The equation Σ I_i u_i² = level, less I_inner |u|² = I_inner, is that of an ellipse in the two other components.
    semi_axes = np.sqrt((level - moments[inner]) / (moments[others] - moments[inner]))
    curve = np.zeros((len(ANGLES), 3))
    curve[:, others] = semi_axes * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
    squares_of_others = np.sum(curve**2, axis=1)
    curve[:, inner] = np.sqrt(1 - squares_of_others)
    mirrored = curve * np.where(np.arange(3) == inner, -1, 1)
    return [curve, mirrored]


def _separatrix(moments: np.ndarray) -> list[np.ndarray]:
    """The separatrix on the unit sphere: two great circles through the second axis."""
    low, middle, high = moments
    # Three equal moments have no separatrix: nothing is divided by 0.
    length = np.sqrt(max(high - low, 1e-300))
    # The unit vectors across the second axis that satisfy Σ I_i u_i² = I₂ are this one and its mirror image.
    across = np.array([np.sqrt(high - middle), 0.0, np.sqrt(middle - low)]) / length
    axis = np.array([0.0, 1.0, 0.0])
    mirrored = across * np.array([1, 1, -1])
    cos = np.cos(ANGLES)[:, None]
    sin = np.sin(ANGLES)[:, None]
    return [cos * axis + sin * across, cos * axis + sin * mirrored]
