"""Pages: the template, and arrays as text in them."""

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from json import dumps
from pathlib import Path
from typing import NamedTuple

import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import File

GAP = -32768


@checked
class Player(NamedTuple):
    """A page that plays a motion, with its source `html`. A notebook shows it inline.

    Args:
        html: the source of the page.

    Example:
        >>> rod, q0 = gd.builders.rod(gd.spaces.Hyperbolic(2), 1.0)
        >>> motion = gd.integrate(rod, q0, t1=1.0, steps=10)
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     gd.plot.player(motion).save(f"{folder}/rod.html")
    """

    html: str

    @checked
    def save(self, path: File) -> None:
        """Writes the page to a file, which any browser opens."""
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html)}" style="width:100%;height:560px;border:0"></iframe>'


def page(title: str, data: dict, path: File | None) -> Player:
    """The page of these data, written to `path` if that is given."""
    template = (files("geodyn._plot.pages") / "player.html").read_text(encoding="utf-8")
    told = dumps({"title": title} | data).replace("</", "<\\/")
    shown = Player(template.replace("__TITLE__", escape(title)).replace("__DATA__", told))
    if path is not None:
        shown.save(path)
    return shown


def series(curves: dict, colours: Sequence[str]) -> list[dict]:
    """Numbers against time, [frames] under each name, for the strip below the picture."""
    return [
        {"name": name, "values": text(np.asarray(values, "<f4")), "colour": colour}
        for (name, values), colour in zip(curves.items(), colours)
    ]


def box(points: np.ndarray, equal: bool) -> tuple[np.ndarray, np.ndarray]:
    """The middle and the half-widths of a box around the points; a cube if all axes have one scale (`equal`)."""
    low = np.nanmin(points, axis=0)
    high = np.nanmax(points, axis=0)
    half = (high - low) / 2
    most = half.max() or 1.0
    return (low + high) / 2, np.full_like(half, most) if equal else np.where(half > 0, half, most)


def quantise(points: np.ndarray, centre: np.ndarray | float, scale: np.ndarray | float | np.floating) -> np.ndarray:
    """Points in a box as int16, with GAP for what is not finite."""
    whole = np.round(32767 * (points - centre) / scale)
    return np.where(np.isfinite(whole), whole, GAP).astype("<i2")


def text(array: np.ndarray) -> str:
    """The bytes of an array in base64."""
    return b64encode(array.tobytes()).decode("ascii")
