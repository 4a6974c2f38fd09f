"""Motions along Killing fields.

Along an orbit of a Killing field K its derivative α = ∇K is constant in a frame E that is carried by parallel
transport, and so dx/dt = E e^{tα} k, with K = k and E = 1 at the start: an equation without the field itself.
"""

import jax
import jax.numpy as jnp

from geodyn._engine.jit import jit
from geodyn._engine.numerics.failure import nan_unless
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Float
from geodyn._geometry.manifold.manifold import AbstractManifold, within
from geodyn._geometry.symmetries.fields import Seeds, pairs_at
from geodyn._geometry.symmetries.prolongation import curvature_at
from geodyn._integrators.contract.system import ODE
from geodyn._integrators.integrate import integrate
from geodyn._integrators.step.methods import Gauss

STEPS, STAGES = 32, 4


@jit
def carried_along(
    space: AbstractManifold, seeds: Seeds, xi: Float[Array, " K"], x: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Where the flow of the Killing field Σ ξ_a K_a takes x in unit time; NaN where it is not found."""
    n = x.size
    fields, slopes = pairs_at(space, seeds, x)
    k, alpha = xi @ fields, jnp.tensordot(xi, slopes, 1)

    def rate(t, y):
        place, frame = y[:n], y[n:].reshape(n, n)
        u = frame @ (jax.scipy.linalg.expm(t * alpha) @ k)
        gamma = curvature_at(space, place).christoffel
        turning = -jnp.einsum("kij,i,jb->kb", gamma, u, frame)
        return jnp.concatenate([u, turning.reshape(-1)])

    begin = jnp.concatenate([x, jnp.eye(n, dtype=x.dtype).reshape(-1)])
    motion = integrate(ODE(rate), begin, t1=1.0, steps=STEPS, method=Gauss(STAGES), throw=False)
    arrived = jnp.broadcast_to(motion.result == RESULTS.successful, x.shape)
    return within(space, nan_unless(arrived, motion.q[-1, :n], (space, xi, x)))
