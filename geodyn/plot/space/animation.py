"""Animations of a trajectory, as a film file or in a notebook."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from geodyn.integrators.trajectory import Trajectory
from geodyn.mechanics.points.body import AbstractBody
from geodyn.plot.scene.scene import scene
from geodyn.plot.space.bodies import draw_body, stage
from geodyn.plot.style import INK, PLAIN, Labels, colours, polylines

WRITERS = {".mp4": "ffmpeg", ".gif": "pillow"}


def animate(
    trajectory: Trajectory,
    path: str | os.PathLike | None = None,
    ax=None,
    *,
    model: str | Callable | None = None,
    seconds: float | int = 8.0,
    fps: int = 25,
    system: AbstractBody | None = None,
    labels: Labels = PLAIN,
):
    """The motion as a matplotlib `FuncAnimation` of the given number of seconds, at equal steps of time.

    A notebook shows it inline (for a long motion `player` needs far less space). The paths grow behind the points.
    `model`, `system` and `labels` are as in `trajectory`. If `path` is given, the film is written there, as an .mp4
    (by ffmpeg) or a .gif. Raises ValueError for any other ending of `path`, and if ffmpeg is missing.
    """
    from matplotlib.figure import Figure

    film_writer(path)
    drawn = scene(trajectory, model, system, labels)
    flat = drawn.points.shape[-1] == 2
    ax = Figure(figsize=(6, 6)).add_subplot(projection=None if flat else "3d") if ax is None else ax
    stage(drawn, ax)
    frames = drawn.nearest(np.linspace(drawn.t[0], drawn.t[-1], max(2, round(seconds * fps))))
    edges = drawn.geodesics(frames)
    clock = ax.figure.text(0.02, 0.02, "", color=INK)
    moving = []

    def draw(k):
        frame = frames[k]
        while moving:
            moving.pop().remove()
        clock.set_text(f"t = {drawn.t[frame]:.2f}")
        for points, colour in zip(drawn.points[: frame + 1].swapaxes(0, 1), colours(len(drawn.radii))):
            moving.extend(polylines(ax, [points], colour, 1.5, 0.8, zorder=3) if frame else [])
        moving.extend(draw_body(ax, drawn, frame, edges[k]))

    return film(ax.figure, draw, len(frames), path, fps)


def film(figure, draw: Callable, frames: int, path: str | os.PathLike | None, fps: int):
    """A `FuncAnimation` of draw(0) … draw(frames − 1), shown inline in a notebook and written to `path` if given.

    Raises ValueError for a path that does not end in .mp4 or .gif, and where ffmpeg is missing.
    """
    from matplotlib.animation import FuncAnimation

    writer = film_writer(path)
    animation = FuncAnimation(figure, draw, frames, init_func=lambda: None, interval=1000 / fps)
    if writer == "pillow":
        _write_gif(figure, draw, frames, path, fps)
    elif writer is not None:
        animation.save(path, writer=writer, fps=fps, dpi=100)
    animation._repr_html_ = animation.to_jshtml
    return animation


def _write_gif(figure, draw, frames, path, fps):
    """Writes the frames with one palette and without dithering: what stands still then costs nothing in the file, which
    is several times smaller than that of matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas, pictures = FigureCanvasAgg(figure), []
    figure.set_dpi(100)
    for k in range(frames):
        draw(k)
        canvas.draw()
        pictures.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy()))
    palette = pictures[frames // 2].quantize(128, dither=Image.Dither.NONE)
    first, *rest = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    first.save(path, save_all=True, append_images=rest, duration=round(1000 / fps), loop=0)


def film_writer(path):
    """The name of the matplotlib writer for a film at this path; None if the path is None. Raises ValueError for an
    ending other than .mp4 or .gif, and if the writer is not installed."""
    from matplotlib.animation import writers

    if path is None:
        return None
    name = WRITERS.get(Path(path).suffix)
    if name is None:
        raise ValueError(f"path must end in {' or '.join(WRITERS)}, got {str(path)!r}")
    if not writers.is_available(name):
        raise ValueError(
            f"path: a film {Path(path).name} needs {name}, which is not installed (apt install ffmpeg, brew install "
            "ffmpeg, conda install ffmpeg); write a .gif instead, or the page of gd.plot.player"
        )
    return name
