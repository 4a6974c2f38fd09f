"""MOTION: where a stroke leads, estimated by Stokes's theorem: the curvature that it encloses."""

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._compile.jit import jit
from geodyn._typing import Array, Float
from geodyn.locomotion.connections.connection import AbstractConnection, curvature
from geodyn.locomotion.motion.holonomy import gauss_times, mean, require_defined_along, step_ends
from geodyn.locomotion.strokes.stroke import Stroke, breaks, shape_and_rate


def flux(swimmer: AbstractConnection, stroke: Stroke, *, steps: int = 64, rings: int = 8) -> Float[Array, " k"]:
    """The integral of the curvature `∬F` over the cone from the mean shape to a closed stroke, of any number of shapes.

    A stroke leads to `exp(−∬F)`, exactly in a commutative group, else but for terms of third order in its size, which
    depend on the frame of the body: `gd.bundles.minimum_perturbation` has them small ("corrected body velocity
    integral"). `steps` along the stroke and `rings` of Gauss nodes across the cone. Raises ValueError unless steps ≥ 1,
    and for shapes that the body cannot have. Source: Hatton & Choset, *Int. J. Robot. Res.* 30 (2011) 988; *Eur. Phys.
    J. Spec. Top.* 224 (2015) 3141.
    """
    return require_defined_along("flux", swimmer, stroke, _flux(swimmer, stroke, steps, rings))


@jit
def _flux(swimmer, stroke, steps, rings):
    corners = breaks(stroke)
    widths = jnp.diff(step_ends(steps, corners))
    integral = jax.vmap(lambda values: mean(values, widths), 1)
    shapes, rates = jax.vmap(lambda t: shape_and_rate(stroke, t))(gauss_times(steps, corners))
    centre = integral(shapes)
    nodes, weights = (jnp.asarray(x, shapes.dtype) for x in np.polynomial.legendre.leggauss(rings))
    across = (1 + nodes) / 2

    def density(r, rdot):
        fields = jax.vmap(lambda s: s * curvature(swimmer, centre + s * (r - centre)))(across)
        return jnp.tensordot(weights / 2, fields, 1) @ rdot @ (r - centre)

    return integral(jax.vmap(density)(shapes, rates))
