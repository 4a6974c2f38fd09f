"""MOTION: checks of a user's body: of its metric, constraints, connection form and group."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Number, Numbers, Scalar
from geodyn._locomotion.connections.connection import (
    AbstractConnection,
    AbstractInvariantMetric,
    check_law,
    connection,
    curvature,
    metric_matrix,
)
from geodyn._locomotion.motion.holonomy import holonomy
from geodyn._locomotion.strokes.stroke import FourierStroke, floating


@checked
def check_connection(swimmer: AbstractConnection, r: Numbers, *, size: float = 0.01) -> None:
    """Check that a body of your own is what it says it is, at one shape.

    It checks that its power or energy is a positive definite quadratic form; that its constraints are linear; that its
    form is [k, m] and finite; and that loops of the radius `size` about r have the holonomy `exp(−F a)` up to the
    third order in their size, which fails where the form is not smooth and where exp, log and bracket of a group of
    your own do not belong together. For concrete numbers, not inside jit.

    Args:
        swimmer: body with a connection.
        r: shape [m].
        size: radius of the loops.

    Returns:
        None.

    Raises:
        ValueError: saying what is wrong.

    Example:
        >>> class Wrong(gd.AbstractSwimmer):
        ...     group: gd.groups.Translation = gd.groups.Translation(1)
        ...     def dissipation(self, r, xi, rdot):
        ...         return (xi[0] + r[0] * rdot[1]) ** 2 + rdot @ rdot + rdot[0]
        >>> gd.bundles.check_connection(gd.swimmers.Purcell(), [0.3, 0.5])
        >>> try:
        ...     gd.bundles.check_connection(Wrong(), [0.3, 0.5])
        ... except ValueError as error:
        ...     print(str(error).split(" in (")[0])
        Wrong: the metric (dissipation, kinetic energy) must be a quadratic form
    """
    r, name = floating(r, "r"), type(swimmer).__name__
    if r.ndim != 1 or not np.all(np.isfinite(r)):
        raise ValueError(f"check_connection: r must be a list of finite numbers, the shape; got {r}.")
    check_law(swimmer, r)
    if isinstance(swimmer, AbstractInvariantMetric):
        metric = np.asarray(metric_matrix(swimmer, r))
        if not np.all(np.isfinite(metric)) or not np.linalg.eigvalsh(metric)[0] > 0:
            raise ValueError(f"{name}: the metric in (ξ, r') at r = {r} must be positive definite, it is\n{metric}")
    shape, wanted = jax.eval_shape(swimmer.form, r).shape, (swimmer.group.dim, r.size)
    if shape != wanted:
        raise ValueError(f"{name}: the form must have the shape {wanted}, a column a shape variable; it has {shape}.")
    form = np.asarray(connection(swimmer, r))
    rounding = 100 * np.finfo(form.dtype).eps * (1 + size * np.max(np.abs(form)))
    for i, j in combinations(range(r.size), 2):
        plane = jnp.eye(r.size, dtype=r.dtype)[:, (i, j)]
        near, far = (float(_defect(swimmer, r, plane, s)) for s in (size, 2 * size))
        if not near <= far / 5 + rounding:
            raise ValueError(
                f"{name}: loops of the radii {size} and {2 * size} in the shape variables {i} and {j} about r = {r} end"
                f" {near:.1e} and {far:.1e} away from exp(−F a), which is no third power: the form is not smooth there,"
                f" or exp, log and bracket of {type(swimmer.group).__name__} do not belong together."
            )


@jit
def _defect(swimmer: AbstractConnection, r: Float[Array, " m"], plane: Float[Array, "m 2"], size: Number) -> Scalar:
    """The error of the curvature's estimate −F·area of log(holonomy), for a circle of radius `size` in a plane."""
    circle = FourierStroke(r, size * plane[:, :1], size * plane[:, 1:])
    moved = swimmer.group.log(holonomy(swimmer, circle, steps=8))
    flux = curvature(swimmer, r) @ plane[:, 1] @ plane[:, 0]
    return jnp.max(jnp.abs(moved + jnp.pi * size**2 * flux))
