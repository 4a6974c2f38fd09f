"""Whether a space is well defined: its metric, and what it says of its distances and of its embedding."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Numbers, Scalar
from geodyn._geometry.geodesics.distances import distance, squared_distance
from geodyn._geometry.manifold.manifold import (
    AbstractManifold,
    check_metric,
    checked_points,
    knows_distances,
    signature_of,
)
from geodyn._geometry.models.spaces import Embedded


@checked
def check_manifold(space: AbstractManifold, x: Numbers) -> None:
    """Checks at a point that a space is well defined, and says what is wrong if it is not.

    The metric must be traceable by JAX, finite, symmetric, and of the declared signature at x. A `squared_distance` of
    the space must fit the metric around x: it must be 0 and smooth where the points coincide, with the Hessian 2g,
    symmetric in the points, and satisfy |grad dist| = 1 in both of them (the eikonal equation). An `embedding` with
    the Jacobian J must have the metric JᵀJ. For concrete numbers, outside of jit.

    Args:
        space: the space.
        x: the point, its coordinates [n].

    Returns:
        None, if all is well.

    Raises:
        ValueError: if the metric, the distance or the embedding does not pass; the message says what is wrong and
            where.

    Example:
        >>> gd.check_manifold(gd.spaces.Sphere(2), [0.3, 0.1])
        >>> skewed = gd.Manifold(lambda x: jnp.array([[1.0, 0.5], [0.0, 1.0]]), dim=2)
        >>> try:
        ...     gd.check_manifold(skewed, [0.3, 0.1])
        ... except ValueError as error:
        ...     print(str(error).splitlines()[0])
        the metric at x = [0.3, 0.1] must be symmetric, got
    """
    (x,) = checked_points(space, x=x)
    check_metric(space, x, signature=signature_of(space))
    if knows_distances(space):
        _check_distances(space, x)
    check_embedding(space, x)


@functools.singledispatch
def check_embedding(space: Any, x: Float[Array, " n"]) -> None:
    """Raises ValueError if a space has an embedding in the plane or in ordinary space that does not fit the metric; a
    space whose embedding means something else registers here."""
    if not callable(getattr(space, "embedding", None)):
        return
    J = jax.jacfwd(space.embedding)(x)
    g = space.metric(x)
    scale = jnp.sqrt(jnp.abs(jnp.diag(g)))
    error = float(jnp.max(jnp.abs((J.T @ J - g) / jnp.outer(scale, scale))))
    # Formulas may lose half of their digits, as where they take the root of a difference; two more are left to them.
    if not error < 100 * float(jnp.finfo(x.dtype).eps) ** 0.5:
        raise ValueError(
            f"embedding does not fit the metric: at x = {x.tolist()} lengths in it have the metric\n{J.T @ J}\nbut the"
            f" metric is\n{g}"
        )


@check_embedding.register
def _(space: Embedded, x: Float[Array, " n"]) -> None:
    """Its metric follows from its embedding, in a space that may be curved."""


def _check_distances(space: AbstractManifold, x: Float[Array, " n"]) -> None:
    wanted = "squared_distance does not fit the metric: "
    # The same six digits as of an embedding. A `Tabulated` space knows its `error`; the second derivatives of its
    # distances have some hundred times that, and ten times as much is let pass.
    enough = max(100 * float(jnp.finfo(x.dtype).eps) ** 0.5, 1000 * getattr(space, "error", 0.0))
    scale = jnp.sqrt(jnp.diag(space.metric(x)))

    def square(y: Float[Array, " n"]) -> Scalar:
        return squared_distance(space, x, y)

    here = square(x)
    hessian = jax.hessian(square)(x)
    units = jnp.outer(scale, scale)
    error = hessian / units / 2 - space.metric(x) / units
    if not (abs(here) <= enough**2 and jnp.max(jnp.abs(error)) < enough):
        raise ValueError(
            f"{wanted}at coincident points x = {x.tolist()} it must be 0, got {here}, and smooth, with the Hessian 2g "
            f"in the second one, got\n{hessian}"
        )
    # Three fixed directions.
    for direction in np.cos(1 + np.arange(3 * x.size).reshape(3, -1) ** 1.5):
        # About a hundredth of a unit of length away.
        y = x + 0.01 * direction / scale
        there = squared_distance(space, x, y)
        back = squared_distance(space, y, x)
        if not abs(there - back) <= enough * there:
            raise ValueError(f"{wanted}it must be symmetric, got {there} from {x.tolist()} to {y}, and {back} back")
        for slope, point in zip(jax.grad(distance, (1, 2))(space, x, y), (x, y)):
            size = float(jnp.sqrt(slope @ solve(space.metric(point), slope)))
            if not abs(size - 1) < enough:
                raise ValueError(f"{wanted}|grad distance| must be 1, got {size} at {point}")
