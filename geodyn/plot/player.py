"""Interactive HTML pages that play a trajectory in any browser, without a server or network."""

import json
import os
from base64 import b64encode
from collections.abc import Callable
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np

from geodyn.integrators.trajectory import Trajectory
from geodyn.mechanics.points.body import AbstractBody
from geodyn.plot.scene import SAMPLES, Scene, scene
from geodyn.plot.style import COLOURS, GREY, INK, PALE, colours

LARGEST = 300_000
"""The most bytes of positions in a page, before they are encoded as text, which takes four thirds of this."""
GAP = -32768


class Player(NamedTuple):
    """A page that plays a trajectory, with its source `html`. A notebook shows it inline."""

    html: str

    def save(self, path: str | os.PathLike) -> None:
        """Writes the page to a file, which any browser opens."""
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html)}" style="width:100%;height:560px;border:0"></iframe>'


def player(
    trajectory: Trajectory,
    path: str | os.PathLike | None = None,
    *,
    model: str | Callable | None = None,
    title: str = "Trajectory",
    seconds: float | int = 10.0,
    system: AbstractBody | None = None,
) -> Player:
    """The motion as one self-contained page: play, pause, scrub, turn with the mouse, zoom with the wheel.

    It plays in `seconds`, is written to `path` if that is given, and is shown inline by a notebook. Edges are
    geodesics. Rigid bodies without points are drawn as the ellipsoids of their inertia, with the path of the end of the
    longest axis. Spheres of contacts are drawn with their radii; points that take part in an impact flash.

    Positions are rounded to 1/65000 of the picture. If the page would be larger than half a megabyte, only every n-th
    saved state is kept, and the page says so. `model` and `system` are as in `trajectory`.
    """
    drawn = scene(trajectory, model, system)
    page = (files("geodyn.plot") / "player.html").read_text(encoding="utf-8")
    data = json.dumps({"title": title, "seconds": seconds} | _contents(drawn)).replace("</", "<\\/")
    shown = Player(page.replace("__TITLE__", escape(title)).replace("__DATA__", data))
    if path is not None:
        shown.save(path)
    return shown


def _contents(drawn: Scene) -> dict:
    """The data of the page: positions in a box as int16 in base64, everything else as plain numbers."""
    knots = _knots(drawn)
    dim, count = drawn.points.shape[-1], len(drawn.radii)
    inner = len(drawn.edges) * len(knots)
    outlined, balls = drawn.outlines.shape[1] * drawn.outlines.shape[2], len(drawn.spheres.points)
    every = -(-len(drawn.t) * (count + inner + outlined + 2 * balls) * dim * 2 // LARGEST)
    frames = np.unique(np.append(np.arange(0, len(drawn.t), every), len(drawn.t) - 1))
    moving = drawn.points[frames]
    if inner:
        middles = drawn.geodesics(frames)[:, :, knots].reshape(len(frames), inner, dim)
        moving = np.concatenate([moving, middles], axis=1)
    outlines = drawn.outlines[frames].reshape(len(frames), outlined, dim)
    moving = np.concatenate([moving, outlines, drawn.spheres.centres[frames]], axis=1)
    lines = drawn.model.backdrop(drawn.q.reshape(-1, drawn.space.dim))
    still = np.concatenate([np.zeros((0, dim)), *lines])
    sizes = drawn.spheres.radii[frames]
    ends = [drawn.spheres.centres[frames] + sign * sizes[:, :, None] for sign in (1, -1)]
    everything = np.concatenate([x.reshape(-1, dim) for x in (moving, *ends, still)])
    centre, scale = _box(everything, drawn.model.equal)
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
        "spheres": drawn.spheres.points,
        "sizes": _text((sizes / scale[0]).astype("<f4")),
        "flashes": drawn.flashes,
        "times": _text(drawn.t[frames].astype("<f4")),
        "moving": _text(_quantised(moving, centre, scale)),
        "still": _text(_quantised(still, centre, scale)),
        "lengths": [len(line) for line in lines],
        "reach": float(np.nanmax(np.linalg.norm((everything - centre) / scale, axis=1))) if dim == 3 else 1.0,
        "axes": _axes(drawn.model.labels[:dim], everything, centre, scale),
        "note": (f"{drawn.model.title} · " if drawn.model.title else "") + f"{kept}{len(drawn.t)} saved states",
    }


def _knots(drawn) -> list[int]:
    """The indices of the fewest samples between the ends of an edge for which the polygon through them is nowhere
    farther than 1/500 of the picture from the geodesic."""
    if len(drawn.edges) == 0:
        return []
    curves = drawn.geodesics(np.unique(np.linspace(0, len(drawn.t) - 1, 24).astype(int)))
    size = np.ptp(drawn.points, axis=(0, 1)).max()
    for step in (32, 16, 8, 4, 2, 1):
        rest = np.arange(SAMPLES - 1) % step / step
        left = np.arange(SAMPLES - 1) // step * step
        chords = (1 - rest)[:, None] * curves[:, :, left] + rest[:, None] * curves[:, :, left + step]
        # False if there are gaps (NaN): an edge in two halves needs all samples.
        if np.max(np.abs(chords - curves[:, :, :-1])) < size / 500:
            break
    return list(range(step, SAMPLES - 1, step))


def _axes(labels, points, centre, scale) -> list[dict]:
    """For every axis with a label: its line in the box, and the label with the numbers at its ends."""
    low, high = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
    corner, size = (low - centre) / scale, (high - low) / scale
    return [
        {
            "label": f"{label.strip('$').replace('_', '')}: {low[k]:.3g} … {high[k]:.3g}",
            "ends": [corner.tolist(), (corner + size * np.eye(len(size))[k]).tolist()],
        }
        for k, label in enumerate(labels)
        if label
    ]


def _box(points, equal):
    """The middle and the half-widths of a box around the points; a cube if all axes have one scale (`equal`)."""
    low, high = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
    half = (high - low) / 2
    most = half.max() or 1.0
    return (low + high) / 2, np.full_like(half, most) if equal else np.where(half > 0, half, most)


def _quantised(points, centre, scale):
    whole = np.round(32767 * (points - centre) / scale)
    return np.where(np.isfinite(whole), whole, GAP).astype("<i2")


def _text(array) -> str:
    return b64encode(array.tobytes()).decode("ascii")
