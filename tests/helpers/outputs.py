"""Whether outputs of another run agree in what matters: words, numbers to a few digits, pictures by their patches."""

import io
import math
import re

import numpy as np
from PIL import Image

NUMBER = re.compile(r"[-+−]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+−]?\d+)?")
DIGITS, ROUNDING = 2e-3, 1e-9


def texts_differ(one: str, other: str, digits: float = DIGITS) -> str:
    """How two texts differ: in words, or in numbers by more than `digits` of the larger; "" if they agree. Numbers at
    the level of rounding are all alike, and spaces do not count."""
    words = [re.sub(r"\s+", " ", NUMBER.sub("#", text)).strip() for text in (one, other)]
    if words[0] != words[1]:
        return f"{words[0]!r} is now {words[1]!r}"
    for a, b in zip(*(NUMBER.findall(text) for text in (one, other)), strict=True):
        x, y = (float(number.replace("−", "-")) for number in (a, b))
        if not math.isclose(x, y, rel_tol=digits, abs_tol=ROUNDING):
            return f"{a} is now {b}"
    return ""


def pictures_differ(one: bytes, other: bytes) -> str:
    """How two pictures differ: in their form, or in the mean darkness of some patch; "" if they agree. Another font or
    version of matplotlib changes less than what is drawn."""
    a, b = (np.asarray(Image.open(io.BytesIO(data)).convert("L"), float) / 255 for data in (one, other))
    if max(abs(m / n - 1) for m, n in zip(a.shape, b.shape, strict=True)) > 0.05:
        return f"its size {a.shape} is now {b.shape}"
    difference = np.abs(_patches(a) - _patches(b))
    if difference.mean() > 0.02 or difference.max() > 0.3:
        return f"its patches differ by {difference.mean():.3f}, at most by {difference.max():.2f}"
    return ""


def _patches(picture: np.ndarray, rows: int = 18, columns: int = 24) -> np.ndarray:
    strips = [strip.mean(axis=0) for strip in np.array_split(picture, rows, axis=0)]
    return np.stack([part.mean(axis=1) for part in np.array_split(np.stack(strips), columns, axis=1)])


def frames(path) -> list[bytes]:
    """A picture, or the first and the last frame of a film, as PNG."""
    found = []
    with Image.open(path) as seen:
        count = getattr(seen, "n_frames", 1)
        for k in sorted({0, count - 1}):
            seen.seek(k)
            written = io.BytesIO()
            seen.convert("RGB").save(written, format="png")
            found.append(written.getvalue())
    return found
