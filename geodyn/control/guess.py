"""PURPOSE: where a search for a stroke begins: the best small stroke, which is an ellipse."""

import jax.numpy as jnp

from geodyn._jit import jit
from geodyn._typing import Array, Bool, Float
from geodyn.locomotion.connection import AbstractInvariantMetric, curvature, reduction
from geodyn.locomotion.stroke import FourierStroke


@jit
def small_stroke(
    swimmer: AbstractInvariantMetric, centre: Float[Array, " m"], displacement: Float[Array, "..."]
) -> tuple[FourierStroke, Bool[Array, ""]]:
    """The ellipse about a shape that has the displacement to leading order at least energy; and whether there is one.

    With lengths measured by G and the curvature F along the displacement of largest singular value σ, the best small
    loop is a circle in the plane of that singular pair, of area |displacement|/σ and energy 4π |displacement|/σ.
    `displacement` as for `optimal_stroke`. For two shape variables: Avron & Raz, *New J. Phys.* 10 (2008) 063016.
    """
    form, metric = reduction(swimmer, centre)
    field = curvature(swimmer, centre)
    unit = jnp.linalg.inv(jnp.linalg.cholesky(metric)).T
    flux = jnp.einsum("ip,aij,jq->apq", unit, field, unit)
    if displacement.ndim:
        size = jnp.linalg.norm(displacement)
        direction = displacement / size
    else:
        size, free = jnp.abs(displacement), max(swimmer.group.translations, 1)
        direction = jnp.linalg.svd(flux[:free].reshape(free, -1), full_matrices=False)[0][:, 0]
        direction = jnp.concatenate([direction, jnp.zeros(swimmer.group.dim - free)])
        direction = jnp.sign(displacement) * (jnp.abs(direction) if free == 1 else direction)
    u, sigma, vt = jnp.linalg.svd(jnp.einsum("a,aij->ij", direction, flux))
    radius = jnp.sqrt(size / (jnp.pi * sigma[0]))
    # Where a symmetry forbids the displacement, the curvature along it is rounding, of any size beside the form.
    exists = jnp.max(jnp.abs(jnp.tensordot(direction, field, 1))) > 1e-6 * jnp.max(jnp.abs(direction @ form))
    return FourierStroke(centre, radius * unit @ u[:, :1], -radius * unit @ vt[:1].T), exists
