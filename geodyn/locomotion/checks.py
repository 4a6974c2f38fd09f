"""MOTION: what is wrong with the numbers of a body, said at its construction."""

import jax
import numpy as np


def require_positive(owner: str, **numbers) -> None:
    """Raise ValueError unless every number that is known already is finite and positive."""
    for name, value in numbers.items():
        if not isinstance(value, jax.core.Tracer) and not np.all(np.isfinite(value) & (np.asarray(value) > 0)):
            raise ValueError(f"{owner}: {name} must be positive and finite, got {value}.")
