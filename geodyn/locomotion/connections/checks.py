"""MOTION: checks of the numbers of a body when it is constructed, and of the values at its shapes."""

import jax
import numpy as np

from geodyn._typing import Array, Float


def require_positive(owner: str, **numbers) -> None:
    """Raise ValueError unless every number that is not traced is finite and positive."""
    for name, value in numbers.items():
        if not isinstance(value, jax.core.Tracer) and not np.all(np.isfinite(value) & (np.asarray(value) > 0)):
            raise ValueError(f"{owner}: {name} must be positive and finite, got {value}.")


def require_shape(owner: str, name: str, value, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless an array has this shape."""
    if np.shape(value) != shape:
        raise ValueError(f"{owner}: {name} must have the shape {shape}, got {np.shape(value)}.")


def require_defined(owner: str, body, r: Float[Array, " m"], value: Float[Array, "..."]) -> Float[Array, "..."]:
    """The value; ValueError if it is not traced and not finite: the body cannot have the shape r."""
    if not isinstance(value, jax.core.Tracer) and not np.all(np.isfinite(value)):
        raise ValueError(
            f"{owner}: {type(body).__name__} is singular at the shape {np.asarray(r)}: its docstring says which shapes"
            " it can have."
        )
    return value
