"""MOTION: an estimate of the displacement of a stroke by Stokes's theorem: the enclosed curvature."""

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float
from geodyn._locomotion.connections.connection import AbstractConnection, field_at, law
from geodyn._locomotion.motion.holonomy import gauss_times, mean, require_defined_along, step_ends
from geodyn._locomotion.strokes.stroke import Stroke, breaks, shape_and_rate


@checked
def flux(swimmer: AbstractConnection, stroke: Stroke, *, steps: Count = 64, rings: Count = 8) -> Float[Array, " k"]:
    """The integral of the curvature over the cone from the mean shape to a closed stroke: by Stokes where it leads.

    A stroke leads to `exp(−∬F)`, exactly in a commutative group, else up to terms of third order in its size, which
    depend on the frame of the body: in that of `gd.bundles.minimum_perturbation` they are small ("corrected body
    velocity integral"). There may be any number of shape variables.

    Args:
        swimmer: body with a connection.
        stroke: closed stroke, a function t -> r[m], t from 0 to 1.
        steps: number of equal steps along the stroke.
        rings: number of Gauss nodes across the cone.

    Returns:
        ∬F [k], an algebra vector.

    Raises:
        ValueError: unless steps ≥ 1, and for shapes that the body cannot have.

    Example:
        >>> swimmer, stroke = gd.swimmers.SymmetricPurcell(), gd.FourierStroke.circle(0.5, centre=(1.0, 1.0))
        >>> moved = swimmer.group.log(gd.holonomy(swimmer, stroke))
        >>> print(gd.bundles.flux(swimmer, stroke).round(6), moved.round(6))
        [0.070096] [-0.070096]

    Source:
        Hatton & Choset, *Int. J. Robot. Res.* 30 (2011) 988; *Eur. Phys. J. Spec. Top.* 224 (2015) 3141.
    """
    return require_defined_along("flux", swimmer, stroke, _flux(swimmer, stroke, steps, rings))


@jit
def _flux(swimmer: AbstractConnection, stroke: Stroke, steps: Count, rings: Count) -> Float[Array, " k"]:
    corners = breaks(stroke)
    widths = jnp.diff(step_ends(steps, corners))
    integral = jax.vmap(lambda values: mean(values, widths), 1)
    shapes, rates = jax.vmap(lambda t: shape_and_rate(stroke, t))(gauss_times(steps, corners))
    centre = integral(shapes)
    nodes, weights = (jnp.asarray(x, shapes.dtype) for x in np.polynomial.legendre.leggauss(rings))
    across = (1 + nodes) / 2

    def density(r: Float[Array, " m"], rdot: Float[Array, " m"]):
        fields = jax.vmap(lambda s: s * field_at(swimmer, centre + s * (r - centre)))(across)
        return jnp.tensordot(weights / 2, fields, 1) @ rdot @ (r - centre)

    return law(swimmer, centre) * integral(jax.vmap(density)(shapes, rates))
