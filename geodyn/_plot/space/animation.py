"""Animations of a trajectory, as a film file or in a notebook."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Axes, Count, File
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.trajectory import Trajectory
from geodyn._plot.scene.scene import scene
from geodyn._plot.space.bodies import draw_body, stage
from geodyn._plot.style import INK, PLAIN, Labels, colours, polylines

WRITERS = {".mp4": "ffmpeg", ".gif": "pillow"}


@checked
def animate(
    trajectory: Trajectory,
    path: File | None = None,
    ax: Axes = None,
    *,
    model: str | Callable | None = None,
    seconds: float | int = 8.0,
    fps: Count = 25,
    system: AbstractSystem | None = None,
    labels: Labels = PLAIN,
    outline: Callable | None = None,
):
    """The motion as a matplotlib `FuncAnimation` of the given number of seconds, at equal steps of time.

    A notebook shows it inline (for a long motion `player` needs far less space). The paths grow behind the points.
    `model`, `system` and `labels` are as in `trajectory`. If `path` is given, the film is written there, as an .mp4
    (by ffmpeg) or a .gif. Raises ValueError for any other ending of `path`, and if ffmpeg is missing.

    Args:
        trajectory: what `gd.integrate` returns.
        path: of the film, ending in .mp4 or .gif; None: only for a notebook.
        ax: the Axes; by default a new one.
        model: the name of a model of the space, or a function x[n] -> [2 or 3]; by default the first that fits.
        seconds: how long it plays.
        fps: pictures a second.
        system: the system, for a trajectory that was read from a file.
        labels: names of the coordinates and units, a `gd.plot.Labels`.
        outline: how the body looks, a function q -> lines, as in `player`.

    Returns:
        A matplotlib `FuncAnimation`.

    Example:
        >>> rod, q0 = gd.builders.rod(gd.spaces.Hyperbolic(2), 1.0)
        >>> motion = gd.integrate(rod, q0, t1=1.0, steps=10)
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     film = gd.plot.animate(motion, f"{folder}/rod.gif", seconds=0.3, fps=10)
        ...     print(os.listdir(folder))
        ['rod.gif']
    """
    from matplotlib.figure import Figure

    film_writer(path)
    drawn = scene(trajectory, model, system, labels, outline)
    flat = drawn.points.shape[-1] == 2
    ax = Figure(figsize=(6, 6)).add_subplot(projection=None if flat else "3d") if ax is None else ax
    stage(drawn, ax)
    frames = drawn.nearest(np.linspace(drawn.t[0], drawn.t[-1], max(2, round(seconds * fps))))
    edges = drawn.geodesics(frames)
    clock = ax.figure.text(0.02, 0.02, "", color=INK)
    moving = []

    def draw(k: int) -> None:
        frame = frames[k]
        while moving:
            moving.pop().remove()
        clock.set_text(f"t = {drawn.t[frame]:.2f}")
        for points, colour in zip(drawn.points[: frame + 1].swapaxes(0, 1), colours(len(drawn.radii))):
            moving.extend(polylines(ax, [points], colour, 1.5, 0.8, zorder=3) if frame else [])
        moving.extend(draw_body(ax, drawn, frame, edges[k]))

    return film(ax.figure, draw, len(frames), path, fps)


def film(figure: Any, draw: Callable, frames: int, path: File | None, fps: Count) -> Any:
    """A `FuncAnimation` of draw(0) … draw(frames − 1), shown inline in a notebook and written to `path` if given.

    Raises ValueError for a path that does not end in .mp4 or .gif, and where ffmpeg is missing.
    """
    from matplotlib.animation import FuncAnimation

    writer = film_writer(path)
    animation = FuncAnimation(figure, draw, frames, init_func=lambda: None, interval=1000 / fps)
    if writer is not None:
        how: dict[str, Any] = {"writer": writer, "fps": fps}
        if writer == "pillow":
            how = {"writer": _gif_writer(fps)}
        animation.save(cast(str, path), **how, dpi=100)
    animation._repr_html_ = animation.to_jshtml
    return animation


def _gif_writer(fps: Count) -> Any:
    """A writer of films with one palette and without dithering: what stands still then costs nothing in the file, which
    is several times smaller than that of matplotlib's own writer."""
    from matplotlib.animation import AbstractMovieWriter
    from PIL import Image

    class Gif(AbstractMovieWriter):
        def setup(self, fig: Any, outfile: Any, dpi: float | int | None = None) -> None:
            # It is abstract, but sets the figure, the file and the dpi, as matplotlib's own writers have it do.
            super().setup(fig, outfile, dpi)  # pyright: ignore[reportAbstractUsage]
            self.pictures = []

        def grab_frame(self, **options: Any) -> None:
            drawn = BytesIO()
            self.fig.savefig(drawn, format="rgba", dpi=self.dpi, **options)
            self.pictures.append(Image.frombuffer("RGBA", self.frame_size, drawn.getvalue()).convert("RGB"))

        def finish(self):
            plain = {"dither": Image.Dither.NONE}
            palette = _palette(self.pictures[len(self.pictures) // 2])
            first, *rest = (picture.quantize(palette=palette, **plain) for picture in self.pictures)
            first.save(self.outfile, save_all=True, append_images=rest, duration=round(1000 / self.fps), loop=0)

    return Gif(cast(int, fps))


def _palette(picture: Any) -> Any:
    """The most frequent colour of each of the 32 cells of colours that most points have, and 224 that lie evenly among
    the other cells, however few points have them: of a colour bar every shade is there."""
    from PIL import Image

    found, counts = np.unique(np.asarray(picture).reshape(-1, 3), axis=0, return_counts=True)
    found = found[np.argsort(-counts, kind="stable")]
    _, first = np.unique(found // 8, axis=0, return_index=True)
    frequent, others = np.split(found[np.sort(first)], [32])
    spread = Image.fromarray(others[None]).quantize(224).getpalette() or [] if len(others) else []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*frequent.ravel().tolist(), *spread][:768])
    return palette


def film_writer(path: File | None) -> str | None:
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
