"""Checks of what a page asks for: nothing that it sends is trusted, and nothing is ever run as code."""

from collections.abc import Iterable
from typing import Any

import numpy as np

MOST = 100_000
"""The most numbers in one array."""
HARMONICS = 32
"""The most harmonics of a stroke of the page."""


def number(name: str, value: Any, low: float | int = -1e12, high: float | int = 1e12, *, whole: bool = False) -> float:
    """A finite number in [low, high]; else ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{name} must be a number from {low:g} to {high:g}, got {_told(value)}")
    if whole and value != int(value):
        raise ValueError(f"{name} must be a whole number, got {value}")
    return float(value)


def numbers(name: str, value: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """An array of finite numbers with this shape, None being any length; else ValueError."""
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, rows of equal length, got {_told(value)}") from None
    fits = array.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, array.shape))
    if not fits or array.size > MOST:
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"{name} must have the shape [{wanted}], got {list(array.shape)}")
    if not np.isfinite(array).all() or np.abs(array).max(initial=0.0) > 1e12:
        raise ValueError(f"{name} must be finite numbers, got {_told(value)}")
    return array


def choice(name: str, value: Any, options: Iterable) -> Any:
    """One of the options; else ValueError."""
    known = list(options)
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(str, known)) or 'none'}; got {_told(value)}")
    return value


def words(name: str, value: Any, most: int) -> str:
    """A text of at most so many characters; else ValueError."""
    if not isinstance(value, str) or len(value) > most:
        raise ValueError(f"{name} must be a text of at most {most} characters, got {_told(value)}")
    return value


def _told(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."
