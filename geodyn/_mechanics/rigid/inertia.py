"""Checks of the inertia matrices and rotations that a user gives."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.devices import placed_anywhere
from geodyn._foundations.checks import floats
from geodyn._foundations.typing import Array, Bool, Float, Numbers


def rows(name: str, value: Numbers, shape: tuple[int, ...]) -> Array:
    """`value` as an array of `shape`; a value of the shape of one row is repeated; else ValueError."""
    value = floats(name, value)
    of_one = shape[1:]
    if value.shape not in (shape, of_one):
        either = f" or {of_one}" if of_one else ""
        raise ValueError(f"{name} must have shape {shape}{either}, got {value.shape}")
    return jnp.broadcast_to(value, shape)


def inertias(inertia: Numbers, count: int) -> Float[Array, "B 3 3"]:
    """Inertia matrices from principal moments [3] or matrices [3, 3], of one body or of each; else ValueError."""
    inertia = floats("inertia", inertia)
    given = inertia.shape
    if inertia.shape in ((3,), (count, 3)):
        inertia = jnp.einsum("...i,ij->...ij", inertia, np.eye(3))
    if inertia.shape not in ((3, 3), (count, 3, 3)):
        raise ValueError(
            "inertia must have shape (3,), (3, 3), or one of these for each body, and there are as many bodies as "
            f"masses, {count}; got shape {given}"
        )
    inertia = jnp.broadcast_to(inertia, (count, 3, 3))
    if isinstance(inertia, Tracer):
        return _possible_or_nan(inertia)
    for b, matrix in enumerate(np.asarray(inertia)):
        _check_possible(b, matrix)
    return inertia


def _check_possible(b: int, matrix: Float[np.ndarray, "3 3"]) -> None:
    """Raises ValueError unless some body has this inertia matrix; it is that of the body number b."""
    tolerance = 100 * np.finfo(matrix.dtype).eps * np.abs(matrix).max()
    if not np.all(np.isfinite(matrix)) or np.abs(matrix - matrix.T).max() > tolerance:
        raise ValueError(f"inertia of body {b} must be a symmetric matrix of finite numbers, got {matrix.tolist()}")
    low, middle, high = np.linalg.eigvalsh(matrix)
    if not low > 0:
        raise ValueError(
            f"inertia of body {b} must be positive, its principal moments are {low:.6g}, {middle:.6g}, {high:.6g}: "
            "what has no inertia about an axis is points in a gd.System, joined by a gd.Rod"
        )
    if low + middle < high - tolerance:
        raise ValueError(
            f"inertia of body {b} breaks the triangle inequality, {low:.6g} + {middle:.6g} < {high:.6g}: no "
            "mass in space has these principal moments; each must be the sum of two of ∫x², ∫y², ∫z²"
        )


@placed_anywhere
def _possible_or_nan(inertia: Float[Array, "B 3 3"]) -> Float[Array, "B 3 3"]:
    """The matrices that are inertias of something, and NaN for the others."""
    # What the principal moments are the sums of, ∫x², ∫y² and ∫z², may be zero.
    half = jnp.trace(inertia, axis1=1, axis2=2) / 2
    slack = 100 * jnp.finfo(inertia.dtype).eps * jnp.max(jnp.abs(inertia))
    spread = (half + slack)[:, None, None] * np.eye(3)[None] - inertia
    valid = jax.vmap(_is_positive)(inertia) & jax.vmap(_is_positive)(spread)
    known = jnp.where(valid, 1.0, jnp.nan)
    return inertia * known[:, None, None]


def _is_positive(matrix: Float[Array, "3 3"]) -> Bool[Array, ""]:
    """Whether a symmetric matrix is positive definite, by its leading minors."""
    first = matrix[0, 0]
    second = matrix[0, 0] * matrix[1, 1] - matrix[0, 1] * matrix[1, 0]
    third = matrix[0] @ jnp.cross(matrix[1], matrix[2])
    return (first > 0) & (second > 0) & (third > 0)


def check_rotations(rotations: Float[Array, "B 3 3"]) -> None:
    """Raises ValueError for a matrix that is not a rotation."""
    if isinstance(rotations, Tracer):
        return
    for b, matrix in enumerate(np.asarray(rotations)):
        off = np.abs(matrix.T @ matrix - np.eye(3)).max()
        if not (off <= np.finfo(matrix.dtype).eps ** 0.5 and np.linalg.det(matrix) > 0):
            raise ValueError(
                f"rotation of body {b} must be orthogonal with determinant 1, RᵀR − 1 has {off:.3g} and the "
                f"determinant is {np.linalg.det(matrix):.6g}: make it with gd.groups.SO3().exp(axis times angle)"
            )
