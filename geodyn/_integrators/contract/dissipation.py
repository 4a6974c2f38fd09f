"""Checks that a Rayleigh function dissipates energy."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._foundations.typing import Array, Float, Number


@jit
def rayleigh_power(rayleigh: Callable, t: Number, q: Float[Array, " n"], v: Float[Array, "k n"]) -> Array:
    """The dissipated power <∂R/∂v, v> for every v[k, n], with R = rayleigh(t, q, v)."""
    return jax.vmap(lambda v: jnp.dot(jax.grad(rayleigh, 2)(t, q, v), v))(v)


def check_dissipation(rayleigh: Callable, t: Number, q: np.ndarray, v: np.ndarray) -> None:
    """Raises ValueError if a Rayleigh function creates energy at q[n], for the velocity v[n] or a velocity along a
    coordinate."""
    size = max(float(np.max(np.abs(v))), 1.0)
    along_coordinates = size * np.eye(v.size)
    velocities = np.concatenate([np.ravel(v)[None], along_coordinates, -along_coordinates]).astype(q.dtype)
    power = np.asarray(rayleigh_power(rayleigh, t, np.ravel(q), velocities))
    worst = int(np.argmin(power))
    # A quarter of the digits is left to the rounding of the function.
    rounding = np.finfo(q.dtype).eps ** 0.75 * np.max(np.abs(power))
    if power[worst] < -rounding:
        raise ValueError(
            f"the dissipation gives energy: <∂R/∂v, v> = {power[worst]:.3g} at v = {velocities[worst].tolist()}, "
            "and it must be ≥ 0. A Rayleigh function is convex in v and least at v = 0, such as b v²/2 with b ≥ 0"
        )
