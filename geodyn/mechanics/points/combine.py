"""Several bodies in one space, and what carries them along."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._checks import numbers, require
from geodyn._typing import Array, Float, Numbers
from geodyn.geometry.manifold.manifold import AbstractManifold
from geodyn.mechanics.elements.parts import placed
from geodyn.mechanics.points.body import ELEMENTS
from geodyn.mechanics.points.system import System, killing_fields


def combine(*bodies: tuple[System, Array], elements=()) -> tuple[System, Float[Array, "N dim"]]:
    """One body (system, q0) of several in the same space, with `elements` that act between them on the joined points.

    The points of the first body come first; each body keeps its own elements, as they are, on its own points. The
    product of the configuration spaces, Lagrangians added. Raises ValueError for bodies in different spaces.
    """
    if not bodies:
        raise ValueError("bodies must be one or more pairs (system, q0), got none")
    for i, body in enumerate(bodies):
        if not (isinstance(body, tuple) and len(body) == 2 and isinstance(body[0], System)):
            raise ValueError(f"bodies must be pairs (system, q0) as the builders return; body {i} is {body!r}")
    if isinstance(elements, ELEMENTS):
        raise ValueError(f"elements must be a list of them, got one {type(elements).__name__}: elements=[…]")
    space, together, start = bodies[0][0].space, [], 0
    for i, (system, q0) in enumerate(bodies):
        wanted = (len(system.masses), system.space.dim)
        if jnp.shape(q0) != wanted:
            raise ValueError(f"q0 of body {i} must have shape {wanted} (masses, dim), got {jnp.shape(q0)}")
        if not eqx.tree_equal(system.space, space):
            raise ValueError(f"bodies must live in one space; body 0 is in {space}, body {i} is in {system.space}")
        stop = start + wanted[0]
        together += system.elements if len(bodies) == 1 else [placed(e, start, stop) for e in system.elements]
        start = stop
    masses = jnp.concatenate([system.masses for system, _ in bodies])
    q0 = jnp.concatenate([jnp.asarray(q0) for _, q0 in bodies])
    return System(space, masses, *together, *elements, resting=any(system.resting for system, _ in bodies)), q0


def velocities(space: AbstractManifold, field: Callable | int | Numbers, q0: Numbers) -> Float[Array, "N dim"]:
    """The velocities v0[N, dim] of points q0[N, dim] that a vector field carries along.

    `field` is a function x[dim] -> v[dim], or the number k of a Killing field of the space, or coefficients [K] of all
    of them (`space.killing_fields`), which move a body without deforming it. Raises ValueError for a space that has no
    list of Killing fields, and for a number or coefficients that do not fit it.
    """
    require("space", space, AbstractManifold, "a manifold such as gd.spaces.Sphere(2)")
    q0 = numbers("q0", q0).astype(float)
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
    coefficients = numbers("field", field, "a function x -> v, or coefficients of the Killing fields").astype(float)
    if coefficients.shape != (count,):
        raise ValueError(f"field must have one coefficient per Killing field ({count}), got {coefficients.shape}")
    return jnp.einsum("k,nkd->nd", coefficients, fields)
