"""PURPOSE: derivatives of a small function at many points, computed point by point."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from geodyn._engine.native import native_rows
from geodyn._foundations.typing import Array, Float


def pointwise(function: Callable[[Float[Array, " n"]], Array]) -> Callable[[Float[Array, "Q n"]], Array]:
    """`vmap(function)` with a JVP rule that computes the derivatives at every point once, and applies them to tangents.

    This is faster if there are many tangents (the unknowns of a stroke) and few arguments (shape and rate). Derivatives
    with respect to values that the function closes over are not available.
    """
    return lambda points: _with_slopes(function, 0)(points)[0]


def _with_slopes(
    function: Callable[[Float[Array, " n"]], Array], order: int
) -> Callable[[Float[Array, "Q n"]], tuple[Array, ...]]:
    """points[Q, n] ↦ the values of the function and of its derivatives up to an order, with a JVP rule."""

    @jax.custom_jvp
    def values(points: Float[Array, "Q n"]) -> tuple[Array, ...]:
        return native_rows(jet(function, order), points)

    @values.defjvp
    def _(points: tuple[Float[Array, "Q n"]], directions: tuple[Float[Array, "Q n"]]):
        known = _with_slopes(function, order + 1)(*points)
        (direction,) = directions

        # Written as a sum: such short sums are slow as matrix products, for which XLA:CPU copies the operands.
        def along(slope: Float[Array, "Q ... n"]) -> Float[Array, "Q ..."]:
            return jnp.sum(slope * jnp.expand_dims(direction, range(1, slope.ndim - 1)), -1)

        values_there = known[:-1]
        slopes = known[1:]
        return values_there, tuple(along(slope) for slope in slopes)

    return values


def jet(
    function: Callable[[Float[Array, " n"]], Array], order: int
) -> Callable[[Float[Array, " n"]], tuple[Array, ...]]:
    """point ↦ the values of the function and of its derivatives up to an order, as a tuple."""
    if order == 0:
        return lambda point: (function(point),)

    def last(point: Float[Array, " n"]) -> tuple[Array, tuple[Array, ...]]:
        known = jet(function, order - 1)(point)
        return known[-1], known

    def values(point: Float[Array, " n"]) -> tuple[Array, ...]:
        slope, known = jax.jacfwd(last, has_aux=True)(point)
        return *known, slope

    return values
