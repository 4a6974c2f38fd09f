"""Estimates of the local error, and whether the errors of the steps add up to all of the motion.

`State.errors` are five numbers: the local error of the last step, the largest of all steps, and the largest relative to
the displacement in its step, which are NaN if unknown; then the sum of the errors of the coarse steps, and the extent
of the motion, the largest distance of a coordinate from its start. If the sum exceeds a part of the extent
(`judgement.py`), no digit of the positions is left. Smaller errors are not added, since their estimates are upper
bounds. Of an explicit method, which has no such estimate, the sum is infinite once it is unstable: once the error of a
step exceeds all of the motion before it.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from geodyn._foundations.typing import Array, Float, Int
from geodyn._integrators.contract.tableau import ButcherTableau

COARSE = 5e-4  # Of the extent: from some 1.4 radians of an oscillation in a step of three Gauss stages on.


def no_errors(dtype: np.dtype) -> Float[Array, " 5"]:
    """`State.errors` before the first step."""
    return jnp.concatenate([jnp.full(3, jnp.nan, dtype), jnp.zeros(2, dtype)])


def next_errors(
    tableau: ButcherTableau,
    since: Int[Array, "*B"],
    errors: Float[Array, "5 *B"],
    h: Float[Array, "*#B"],
    largest: Callable[[np.ndarray], Float[Array, "2 *B"]],
    moved: Float[Array, "*B"],
    far: Float[Array, "*B"],
) -> Float[Array, "5 *B"]:
    """`State.errors` after one more step, the one after `since` equal steps. `largest(weights[2, 3s])` are the largest
    components of two weighted sums of the stage velocities of the two steps before and of this one; `moved` is the
    displacement in the step, `far` the distance from the start."""
    extent = jnp.maximum(errors[4], far)
    none = np.zeros(tableau.stages)
    if tableau.defect is not None:
        # In the first two steps the last mode of a step stands for its error: it is much larger.
        rough = np.concatenate([none, none, tableau.last_mode / 2])
        known = since >= 2
        local, mode = jnp.abs(h) * largest(np.stack([tableau.defect, rough]))
        error: Float[Array, "*B"] = jnp.where(known, local, jnp.nan)
        relative = error / moved
        counted = jnp.where(known, local, mode)
        limit = jnp.where(known, COARSE, 1.0) * extent
        added: Float[Array, "*B"] = errors[3] + jnp.where(counted > limit, counted, 0.0)
    elif tableau.trapezoid_defect is not None:
        error = relative = jnp.full_like(moved, jnp.nan)
        displacing = np.concatenate([none, tableau.b, none])
        missed, displacement = jnp.abs(h) * largest(np.stack([tableau.trapezoid_defect, displacing]))
        unstable = (since >= 1) & (missed > displacement) & (missed > errors[4])
        added = jnp.where(unstable, jnp.inf, errors[3])
    else:
        return errors
    return jnp.stack([error, jnp.fmax(error, errors[1]), jnp.fmax(relative, errors[2]), added, extent])
