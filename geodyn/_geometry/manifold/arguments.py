"""What a space may be made from: its dimension, signature and periods, and functions of its points."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._foundations.checks import check_indices, is_whole
from geodyn._foundations.indices import takes_by_index


def check_dim(dim: Any, least: int = 1) -> int:
    """`dim` if it is a whole number ≥ least; else ValueError."""
    if not is_whole(dim) or dim < least:
        raise ValueError(f"dim must be a whole number >= {least}, got {dim!r}")
    return int(dim)


def check_period(period: Any, dim: int) -> tuple[float, ...] | None:
    """The periods of the coordinates, infinite for coordinates that are not periodic; None if none is. Raises
    ValueError unless they are positive and one for each."""
    if period is None:
        return None
    try:
        values = tuple(np.inf if p is None else float(p) for p in period)
    except (TypeError, ValueError, jax.errors.ConcretizationTypeError):
        values = ()
    if len(values) != dim or not all(p > 0 for p in values):
        raise ValueError(
            f"period must be {dim} positive numbers, one for each coordinate, None or infinite where it has none; got "
            f"{period!r}"
        )
    return None if np.all(np.isinf(values)) else values


def check_signature(signature: Any, dim: int) -> tuple[int, int]:
    """(p, q) with p + q = dim, by default (dim, 0); else ValueError."""
    if signature is None:
        return int(dim), 0

    def counts(x: Any) -> bool:
        return is_whole(x) and x >= 0

    is_pair = isinstance(signature, tuple | list) and len(signature) == 2
    if not is_pair or not all(map(counts, signature)) or sum(signature) != dim:
        raise ValueError(
            f"signature must be (p, q), the numbers of positive and negative squares, with p + q = dim = {dim}; "
            f"got {signature!r}"
        )
    return tuple(map(int, signature))


def check_traceable(name: str, function: Any, dim: int, shape: tuple[int, ...], words: str = "") -> None:
    """Raises ValueError unless `function` maps floats x[dim] to floats of `shape` and is written with jax.numpy."""
    if not callable(function):
        raise ValueError(f"{name} must be a function of x[{dim}] written with jax.numpy, got {function!r}")
    point = jax.ShapeDtypeStruct((dim,), jnp.result_type(float))
    try:
        program, y = jax.make_jaxpr(function, return_shape=True)(point)
    except (TypeError, ValueError) as error:
        cause = error.__cause__ or error
        if not isinstance(cause, jax.errors.ConcretizationTypeError | jax.errors.TracerArrayConversionError):
            raise
        raise ValueError(
            f"{name} cannot be traced ({type(cause).__name__}): write it with jax.numpy (jnp.sin, jnp.stack) "
            "instead of math, numpy, float() or an `if` on x, and do not fill an array made by numpy"
        ) from None
    wanted = f"{name} must map x of shape ({dim},) to a floating-point array of shape {shape}"
    if not isinstance(y, jax.ShapeDtypeStruct):
        raise ValueError(f"{wanted}; it returned a {type(y).__name__}: join its parts with jnp.array or jnp.stack")
    if y.shape != shape or not jnp.issubdtype(y.dtype, jnp.floating):
        raise ValueError(f"{wanted}; it returned shape {y.shape} of {y.dtype}{words}")
    if takes_by_index(program.jaxpr):
        check_indices(name, function, point)


def check_embedding(function: Any, dim: int) -> None:
    """Raises ValueError unless `function` maps x[dim] to a point of the plane or of ordinary space."""
    try:
        check_traceable("embedding", function, dim, (3,))
    except ValueError:
        # What is wrong otherwise, this says again.
        check_traceable("embedding", function, dim, (2,))
