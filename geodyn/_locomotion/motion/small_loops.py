"""MOTION: where small loops of shapes lead a body that has no connection, and so no curvature."""

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Index, Row
from geodyn._locomotion.connections.locomotion import AbstractLocomotion
from geodyn._locomotion.strokes.stroke import floating


@checked
def small_loops(
    body: AbstractLocomotion,
    r: Row,
    directions: Row,
    *,
    corners: Count = 3,
    variables: tuple[Index, Index] = (0, 1),
) -> Float[Array, "D k"]:
    """Where small regular polygons of shapes lead, to the first order of their size, by their direction.

    A body with a connection is moved by a small loop in proportion to the area, by the curvature, and not in the first
    order. Where forces are not linear in the velocities it is moved in proportion to the perimeter, by an amount that
    depends on the form of the loop and on its direction. This is the limit: the sum of the velocities ξ(r, e) over the
    sides e, divided by the perimeter.

    The order of the sides does not matter, so that a regular polygon leads to the same place in either sense, if its
    first side is the same. Run through backwards, each side e becomes −e, as in the polygon that is turned by half a
    turn. That leads back if the law is odd, ξ(r, −e) = −ξ(r, e), as it is for a body that is the same in front and
    behind. For an odd law polygons with an even number of corners, and circles, have the limit 0, since with each side
    e they have the side −e.

    Args:
        body: a body by its forces, such as `gd.swimmers.DryLinks`, or any other with a velocity.
        r: the shape [m] around which the loops are.
        directions: D angles in radians of the first side, from the first variable to the second one.
        corners: of the polygon.
        variables: the two shape variables in whose plane the loops are.

    Returns:
        [D, k], algebra vectors per length of the perimeter. NaN where the body has no velocity.

    Raises:
        ValueError: for fewer than three corners, for variables that are the same or none of the body's, and for a body
            for which the pace matters.

    Example:
        A triangle that is run through the other way leads back.

        >>> body, r = gd.swimmers.PowerLawLinks(), jnp.array([0.5, -0.5])
        >>> there, back = gd.bundles.small_loops(body, r, [0.2, 0.2 + jnp.pi])
        >>> print(bool(jnp.allclose(there, -back)), there.round(4))
        True [ 0.0006 -0.0007 -0.0066]

    Source:
        Hatton, Ding, Choset & Goldman, *PRL* 110 (2013) 078101, who replace the law by the nearest connection.
    """
    shape = floating(r, "r")
    if jnp.ndim(shape) != 1:
        raise ValueError(f"small_loops: r must be a shape [m], got an array of shape {jnp.shape(shape)}.")
    if corners < 3:
        raise ValueError(f"small_loops: corners must be 3 or more, got {corners}: a loop of two sides goes back.")
    first, second = variables
    if first == second or max(first, second) >= shape.size:
        raise ValueError(
            f"small_loops: variables must be two different ones from 0 to {shape.size - 1}, since r has {shape.size}"
            f" variables, got {variables}."
        )
    if body.depends_on_pace:
        raise ValueError(
            f"small_loops: the pace matters for {type(body).__name__}, so that small loops have no limit of their own;"
            " give a body whose velocity is of degree one in the rate of its shape, such as PowerLawLinks."
        )
    count = body.shape_count
    if count is not None and count != shape.size:
        raise ValueError(
            f"small_loops: {type(body).__name__} has {count} shape variables, got a shape of {shape.size}."
        )
    angles = jnp.asarray(floating(directions, "directions"), shape.dtype)
    turns = 2 * np.pi / corners * np.arange(corners)
    of_sides: Float[Array, "D C"] = angles[:, None] + jnp.asarray(turns, shape.dtype)[None]
    two_axes = jnp.eye(shape.size, dtype=shape.dtype)[jnp.array([first, second])]
    # Each side has the length 1, so that the mean over the sides is their sum divided by the perimeter.
    sides = jnp.stack([jnp.cos(of_sides), jnp.sin(of_sides)], axis=-1) @ two_axes
    return jnp.mean(_velocities(body, shape, sides), axis=1)


@jit
def _velocities(body: AbstractLocomotion, r: Float[Array, " m"], sides: Float[Array, "D C m"]) -> Float[Array, "D C k"]:
    """The velocity of the body at the shape r as the shape changes along each of the sides."""
    rates = sides.reshape(-1, r.size)
    found = jax.vmap(lambda rate: body.velocity(r, rate))(rates)
    return found.reshape(*sides.shape[:-1], -1)
