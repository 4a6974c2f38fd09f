"""PURPOSE: optimal strokes as the motion of a charged particle: Wong's equations.

With the momentum `p = G r'` and a charge μ that is constant in space, `μ(t) = Ad*_{g(t)} μ₀`, an extremal of ½∫r'ᵀGr'
obeys `d/dt (G r')_i − ½ r'ᵀ ∂_iG r' = ⟨μ, F_ij⟩ r'^j`, and its power is constant.
Source: Montgomery, *Commun. Math. Phys.* 128 (1990) 565; Koon & Marsden, *SIAM J. Control Optim.* 35 (1997) 901.
"""

import jax
import jax.numpy as jnp

from geodyn._typing import Array, Float, Number
from geodyn.locomotion.connection import AbstractSwimmer, exterior_derivative, reduction
from geodyn.locomotion.stroke import Stroke, shape_and_rate


def wong_forces(
    swimmer: AbstractSwimmer, stroke: Stroke, charge: Float[Array, " k"], t: Number, g: Float[Array, "d d"]
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """Both sides of Wong's equation at time t: the force that the stroke needs, and the one that its charge feels.

    `charge` is μ₀, half of dE/d(displacement) as a covector at the start of the stroke; g the group element reached
    at t. Any consistent units.
    """
    t = jnp.asarray(t, float)
    (r, rdot), (_, rddot) = jax.jvp(lambda t: shape_and_rate(stroke, t), (t,), (jnp.ones_like(t),))
    form, metric = reduction(swimmer, r)
    form_slope, metric_slope = jax.jacfwd(lambda r: reduction(swimmer, r))(r)
    needed = metric @ rddot + metric_slope @ rdot @ rdot - rdot @ jnp.tensordot(rdot, metric_slope, 1) / 2
    flux = exterior_derivative(swimmer.group, form, form_slope) @ rdot
    return needed, (swimmer.group.adjoint(g).T @ charge) @ flux
