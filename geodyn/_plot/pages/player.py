"""Interactive HTML pages that play a trajectory or a stroke in any browser, without a server or network."""

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import File
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.trajectory import Trajectory
from geodyn._locomotion.connections.locomotion import AbstractLocomotion
from geodyn._plot.pages.encoding import Player, box, page, quantise, series, text
from geodyn._plot.pages.swimming import swimming
from geodyn._plot.scene.scene import SAMPLES, THIN, Scene, scene
from geodyn._plot.style import COLOURS, GREY, INK, PALE, PLAIN, Labels, colours

LARGEST = 300_000
"""The most bytes of positions in a page, before they are encoded as text, which takes four thirds of this."""


@checked
@singledispatch
def player(
    trajectory: Trajectory,
    path: File | None = None,
    *,
    model: str | Callable | None = None,
    title: str = "Trajectory",
    seconds: float | int = 10.0,
    autoplay: bool = False,
    system: AbstractSystem | None = None,
    labels: Labels = PLAIN,
    outline: Callable | None = None,
) -> Player:
    """The motion as one self-contained page: play, pause, scrub, turn with the mouse, zoom with the wheel; with a
    choice of speed and trail, and the energy below.

    It plays in `seconds`, by itself and again and again with `autoplay`, is written to `path` if that is given, and is
    shown inline by a notebook. Edges are geodesics. Rigid bodies without points are drawn as the ellipsoids of their
    inertia, with the path of the end of the longest axis. Spheres of contacts are drawn with their radii; points that
    take part in an impact flash.

    Positions are rounded to 1/65000 of the picture. If the page would be larger than half a megabyte, only every n-th
    saved state is kept, and the page says so. `model`, `system` and `labels` are as in `trajectory`.

    `player(swimmer, stroke, path, *, strokes=3, component=0, outline=None, …)` plays a body that swims, beside the
    point that its shape goes through on the curvature of its connection, and below where it is. `component`,
    `variables` and `at` are as in `curvature`; `component=None` leaves the curvature out. Raises ValueError for a body
    that cannot be drawn.

    Args:
        trajectory: what `gd.integrate` returns; or a swimmer, and then its stroke.
        path: of the page; None: only for a notebook.
        model: the name of a model of the space, or a function x[n] -> [2 or 3]; by default the first that fits.
        title: of the page.
        seconds: how long it plays.
        autoplay: whether it plays by itself, again and again.
        system: the system, for a trajectory that was read from a file.
        labels: names of the coordinates and units, a `gd.plot.Labels`.
        outline: how the body looks: a function of the configuration q, in the shape of q0, or of (q, t), that returns
            lines [points, n], [parts, points, n] or a list of lines. For a `gd.Lagrangian`, a `gd.ODE` and what else is
            not in a space they lie in the plane or in ordinary space, n = 2 or 3; for a body in a space they are of
            points of it. Of a swimmer, as one that was measured, a function of its shape r, lines in its own frame. By
            default the method `outline` of the system or the swimmer, if it has one.

    Returns:
        A `gd.plot.Player`.

    Example:
        >>> rod, q0 = gd.builders.rod(gd.spaces.Hyperbolic(2), 1.0)
        >>> motion = gd.integrate(rod, q0, t1=1.0, steps=10)
        >>> gd.plot.player(motion, title="a rod").html.count("<title>a rod</title>")
        1

        A pendulum, of which geodyn knows an angle only.

        >>> pendulum = gd.Lagrangian(lambda q, v: 0.5 * v[0] ** 2 + jnp.cos(q[0]))
        >>> swing = gd.integrate(pendulum, [1.0], t1=6.0, steps=60)
        >>> def rod(q):
        ...     return jnp.stack([jnp.zeros(2), jnp.stack([jnp.sin(q[0]), -jnp.cos(q[0])])])
        >>> gd.plot.player(swing, outline=rod).html.count("61 saved states")
        1
    """
    drawn = scene(trajectory, model, system, labels, outline)
    known = trajectory if system is None else trajectory.with_system(system)
    curves = {}
    if known.recorded_energy is not None or (known.system is not None and known.p.size):  # An ODE has no energy.
        is_drawn = np.isin(trajectory.t, drawn.t)
        curves[labels.of("energy", labels.energy)] = np.asarray(known.energy)[is_drawn]
    return page(title, {"seconds": seconds, "autoplay": autoplay} | _contents(drawn, curves), path)


@player.register
def _(
    swimmer: AbstractLocomotion,
    stroke: Callable | None = None,
    path: File | None = None,
    *,
    strokes: int = 3,
    component: int | None = 0,
    variables: tuple[int, int] = (0, 1),
    at: Any = None,
    title: str = "Stroke",
    seconds: float | int = 10.0,
    autoplay: bool = False,
    outline: Callable | None = None,
) -> Player:
    if not callable(stroke):
        raise ValueError(f"stroke must be a function t -> r[m]: player(swimmer, stroke, path); got {stroke!r}")
    data = swimming(swimmer, stroke, strokes, component, variables, at, outline)
    return page(title, {"seconds": seconds, "autoplay": autoplay} | data, path)


def _contents(drawn: Scene, curves: dict) -> dict:
    """The data of the page: positions in a box as int16 in base64, everything else as plain numbers. `curves` are
    numbers against time, by their names, which are drawn below the picture."""
    knots = _knots(drawn)
    dim = drawn.points.shape[-1]
    count = len(drawn.radii)
    inner = len(drawn.edges) * len(knots)
    outlined = drawn.outlines.shape[1] * drawn.outlines.shape[2]
    balls = len(drawn.spheres.points)
    # Each number takes two bytes; a sphere counts as two points, for its centre and its radius.
    all_bytes = len(drawn.t) * (count + inner + outlined + 2 * balls) * dim * 2
    every = -(-all_bytes // LARGEST)
    frames = np.unique(np.append(np.arange(0, len(drawn.t), every), len(drawn.t) - 1))
    moving = drawn.points[frames]
    if inner:
        middles = drawn.geodesics(frames)[:, :, knots].reshape(len(frames), inner, dim)
        moving = np.concatenate([moving, middles], axis=1)
    outlines = drawn.outlines[frames].reshape(len(frames), outlined, dim)
    moving = np.concatenate([moving, outlines, drawn.spheres.centres[frames]], axis=1)
    lines = drawn.model.backdrop(drawn.q.reshape(-1, drawn.space.dim))
    still = np.concatenate([np.zeros((0, dim)), *lines])
    # The spheres must fit into the box, and not only their centres: so their opposite corners are points of it too.
    sizes = drawn.spheres.radii[frames]
    ends = [drawn.spheres.centres[frames] + sign * sizes[:, :, None] for sign in (1, -1)]
    everything = np.concatenate([x.reshape(-1, dim) for x in (moving, *ends, still)])
    centre, scale = box(everything, drawn.model.equal)
    kept = f"1 in {every} of " if every > 1 else ""
    return {
        "dim": dim,
        "points": count,
        "inner": len(knots),
        "edges": drawn.edges.tolist(),
        "rigid": drawn.rigid.tolist(),
        "radii": drawn.radii.tolist(),
        "colours": colours(count),
        "ink": [INK, GREY, PALE, COLOURS[1]],
        "outlines": list(drawn.outlines.shape[1:3]),
        "outline": [GREY, 1] if drawn.look == THIN else [drawn.look[0], 4],
        "shapes": None,
        "series": series({name: np.asarray(values)[frames] for name, values in curves.items()}, COLOURS),
        "spheres": drawn.spheres.points,
        "sizes": text((sizes / scale[0]).astype("<f4")),
        "flashes": drawn.flashes,
        "times": text(drawn.t[frames].astype("<f4")),
        "moving": text(quantise(moving, centre, scale)),
        "still": text(quantise(still, centre, scale)),
        "lengths": [len(line) for line in lines],
        "reach": float(np.nanmax(np.linalg.norm((everything - centre) / scale, axis=1))) if dim == 3 else 1.0,
        "axes": _axes(drawn.model.labels[:dim], everything, centre, scale),
        "note": (f"{drawn.model.title} · " if drawn.model.title else "") + f"{kept}{len(drawn.t)} saved states",
    }


def _knots(drawn: Scene) -> list[int]:
    """The indices of the fewest samples between the ends of an edge for which the polygon through them is nowhere
    farther than 1/500 of the picture from the geodesic."""
    if len(drawn.edges) == 0:
        return []
    curves = drawn.geodesics(np.unique(np.linspace(0, len(drawn.t) - 1, 24).astype(int)))
    size = np.ptp(drawn.points, axis=(0, 1)).max()
    for step in (32, 16, 8, 4, 2, 1):
        # Every step-th sample is a corner of the polygon. Each sample lies between the corner to its left and the next,
        # at the fraction `rest` of the way.
        rest = np.arange(SAMPLES - 1) % step / step
        left = np.arange(SAMPLES - 1) // step * step
        chords = (1 - rest)[:, None] * curves[:, :, left] + rest[:, None] * curves[:, :, left + step]
        # False if there are gaps (NaN): an edge in two halves needs all samples.
        if np.max(np.abs(chords - curves[:, :, :-1])) < size / 500:
            break
    return list(range(step, SAMPLES - 1, step))


def _axes(labels: Sequence[str], points: np.ndarray, centre: np.ndarray, scale: np.ndarray | float) -> list[dict]:
    """For every axis with a label: its line in the box, and the label with the numbers at its ends."""
    low = np.nanmin(points, axis=0)
    high = np.nanmax(points, axis=0)
    corner = (low - centre) / scale
    size = (high - low) / scale
    largest = np.max(np.abs([low, high]))
    # What is only rounding error is 0 in a label.
    low, high = (np.where(np.abs(x) < 1e-10 * largest, 0.0, x) for x in (low, high))
    return [
        {
            "label": f"{label.strip('$').replace('_', '')}: {low[k]:.3g} … {high[k]:.3g}",
            "ends": [corner.tolist(), (corner + size * np.eye(len(size))[k]).tolist()],
        }
        for k, label in enumerate(labels)
        if label
    ]
