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
    found = jax.jit(jax.vmap(lambda t, state: _lines(with_time(outline, 1)(t, state), dims)))
    return np.asarray(found(jnp.asarray(t), jnp.asarray(states)))


def _lines(found: Any, dims: tuple[int, ...]) -> Array:
    """The lines as one array [parts, points, D], in which short ones stay at their last point."""
    try:
        parts = [jnp.asarray(part) for part in found] if isinstance(found, list | tuple) else jnp.asarray(found)
        if isinstance(parts, list) and {part.ndim for part in parts} != {2}:
            parts = jnp.asarray(found)
    except (TypeError, ValueError):
        raise _unfit(type(found).__name__, dims) from None
    if isinstance(parts, list):
        longest = max(map(len, parts))
        fits = all(len(part) and part.shape[1] == parts[0].shape[1] for part in parts)
        parts = jnp.stack([_longer(part, longest) for part in parts]) if fits else jnp.zeros(0)
    elif parts.ndim == 2:
        parts = parts[None]
    if parts.ndim != 3 or not parts.size or parts.shape[-1] not in dims:
        raise _unfit(f"the shape {np.shape(parts)}", dims)
    return parts


def _longer(line: Float[Array, "K D"], count: int) -> Float[Array, "P D"]:
    return jnp.concatenate([line, jnp.broadcast_to(line[-1], (count - len(line), *line.shape[1:]))])


def _unfit(got: str, dims: tuple[int, ...]) -> ValueError:
    return ValueError(f"outline must return {WANTED.format(' or '.join(map(str, dims)))}; got {got}")
