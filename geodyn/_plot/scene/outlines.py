"""What a body looks like: lines, by a function of its configuration or of its shape."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import with_time
from geodyn._foundations.typing import Array, Float, Numbers

WANTED = "lines [points, {0}] or [parts, points, {0}], or a list of lines [points, {0}]"


def lines_of(outline: Callable, t: Numbers, states: Numbers, dims: tuple[int, ...]) -> Float[np.ndarray, "T L K D"]:
    """The lines of a body in each of its states [T, …]: what `outline(state)` returns, or `outline(state, t)` where it
    has an argument t. ValueError unless they are lines in a space of one of these dimensions."""
    outline_at = with_time(outline, 1)
    lines_at = jax.jit(jax.vmap(lambda t, state: _lines(outline_at(t, state), dims)))
    return np.asarray(lines_at(jnp.asarray(t), jnp.asarray(states)))


def _lines(found: Any, dims: tuple[int, ...]) -> Array:
    """The lines as one array [parts, points, D], in which short ones stay at their last point."""
    try:
        parts = [jnp.asarray(part) for part in found] if isinstance(found, list | tuple) else jnp.asarray(found)
        # A list whose parts are no lines is one array, written as lists.
        if isinstance(parts, list) and {part.ndim for part in parts} != {2}:
            parts = jnp.asarray(found)
    except (TypeError, ValueError):
        raise _unfit(type(found).__name__, dims) from None
    if isinstance(parts, list):
        longest = max(map(len, parts))
        fits = all(len(part) and part.shape[1] == parts[0].shape[1] for part in parts)
        # What does not fit is refused below.
        parts = jnp.stack([_lengthened(part, longest) for part in parts]) if fits else jnp.zeros(0)
    elif parts.ndim == 2:
        parts = parts[None]
    if parts.ndim != 3 or not parts.size or parts.shape[-1] not in dims:
        raise _unfit(f"the shape {np.shape(parts)}", dims)
    return parts


def _lengthened(line: Float[Array, "K D"], count: int) -> Float[Array, "P D"]:
    """The line with its last point so often that it has `count` points."""
    missing = (count - len(line), *line.shape[1:])
    return jnp.concatenate([line, jnp.broadcast_to(line[-1], missing)])


def _unfit(got: str, dims: tuple[int, ...]) -> ValueError:
    return ValueError(f"outline must return {WANTED.format(' or '.join(map(str, dims)))}; got {got}")
