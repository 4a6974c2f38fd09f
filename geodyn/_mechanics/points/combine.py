"""Several bodies combined into one system, and velocities of points along a vector field."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._foundations.checks import floats
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Numbers
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._mechanics.elements.parts import place
from geodyn._mechanics.points.body import ELEMENTS, Element
from geodyn._mechanics.points.system import System, killing_fields


@checked
def combine(*bodies: tuple[System, Array], elements: Sequence[Element] = ()) -> tuple[System, Float[Array, "N dim"]]:
    """One body (system, q0) made of several in the same space: the product of their configuration spaces.

    The points of the first body come first. Each body keeps its own elements, as they are, on its own points;
    Lagrangians are added.

    Args:
        *bodies: pairs (system, q0), as the builders return them.
        elements: a list of elements that act between the bodies, on the joined points.

    Returns:
        (system, q0), the joined body and its configuration [N, dim].

    Raises:
        ValueError: for bodies in different spaces, and for what is no such pair.

    Example:
        Two springs with a third between them.

        >>> plane = gd.spaces.Euclidean(2)
        >>> left, right = gd.builders.rod(plane, centre=[0.0, 0.0]), gd.builders.rod(plane, centre=[3.0, 0.0])
        >>> system, q0 = gd.builders.combine(left, right, elements=[gd.Spring([(1, 3)], stiffness=1.0, length=3.0)])
        >>> print(q0.shape, gd.builders.edges(system))
        (4, 2) [(0, 1), (2, 3), (1, 3)]
    """
    if not bodies:
        raise ValueError("bodies must be one or more pairs (system, q0), got none")
    for i, body in enumerate(bodies):
        if not (isinstance(body, tuple) and len(body) == 2 and isinstance(body[0], System)):
            raise ValueError(f"bodies must be pairs (system, q0) as the builders return; body {i} is {body!r}")
    if isinstance(elements, ELEMENTS):
        raise ValueError(f"elements must be a list of them, got one {type(elements).__name__}: elements=[…]")
    space = bodies[0][0].space
    together = []
    start = 0
    for i, (system, q0) in enumerate(bodies):
        wanted = (len(system.masses), system.space.dim)
        if jnp.shape(q0) != wanted:
            raise ValueError(f"q0 of body {i} must have shape {wanted} (masses, dim), got {jnp.shape(q0)}")
        if not eqx.tree_equal(system.space, space):
            raise ValueError(f"bodies must live in one space; body 0 is in {space}, body {i} is in {system.space}")
        stop = start + wanted[0]
        if len(bodies) == 1:
            together.extend(system.elements)
        else:
            together.extend(place(element, start, stop) for element in system.elements)
        start = stop
    masses = jnp.concatenate([system.masses for system, _ in bodies])
    q0 = jnp.concatenate([jnp.asarray(q0) for _, q0 in bodies])
    resting = any(system.resting for system, _ in bodies)
    return System(space, masses, *together, *elements, resting=resting), q0


@checked
def velocities(space: AbstractManifold, field: Callable | int | Numbers, q0: Numbers) -> Float[Array, "N dim"]:
    """The velocities of points that a vector field carries along, such as a rigid motion of the whole body.

    A Killing field of the space moves a body without deforming it. `space.killing_fields(x)` lists them; for spaces of
    constant curvature these are the n translations of the origin, then the rotations.

    Args:
        space: the space.
        field: a function x[dim] -> v[dim], or the number k of a Killing field of the space, or the coefficients [K] of
            all of them.
        q0: the points [N, dim].

    Returns:
        The velocities v0 [N, dim].

    Raises:
        ValueError: for a space that has no list of Killing fields, and for a number, coefficients or a function that do
            not fit.

    Example:
        A rotation of the plane: its third Killing field, after two translations.

        >>> q0 = jnp.array([[1.0, 0.0], [0.0, 2.0]])
        >>> v0 = gd.builders.velocities(gd.spaces.Euclidean(2), 2, q0)
        >>> print(bool(jnp.allclose(v0, jnp.array([[0.0, 1.0], [-2.0, 0.0]]))))
        True
    """
    q0 = floats("q0", q0)
    if q0.ndim != 2 or q0.shape[1] != space.dim:
        raise ValueError(f"q0 must have shape (N, {space.dim}), points of the space; got {q0.shape}")
    if callable(field):
        v0 = jax.vmap(field)(q0)
        if v0.shape != q0.shape:
            raise ValueError(f"field must map x[{space.dim}] to v[{space.dim}], it returned shape {v0.shape[1:]}")
        return v0
    fields = killing_fields(space, q0)
    count = fields.shape[1]
    if isinstance(field, int | np.integer):
        if not 0 <= field < count:
            raise ValueError(f"field must be one of the Killing fields 0 to {count - 1} of the space, got {field}")
        return fields[:, field]
    coefficients = floats("field", field, "a function x -> v, or coefficients of the Killing fields")
    if coefficients.shape != (count,):
        raise ValueError(f"field must have one coefficient per Killing field ({count}), got {coefficients.shape}")
    return jnp.einsum("k,nkd->nd", coefficients, fields)
