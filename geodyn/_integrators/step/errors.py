"""Estimates of the local error, and whether the errors of the steps add up to all of the motion.

`State.errors` are five numbers:

    0  the local error of the last step, NaN where it is not known
    1  the largest local error so far, NaN while none is known
    2  the largest ratio so far of a local error to the displacement in its step, NaN while none is known
    3  the sum of the errors of all coarse steps: of those whose error exceeds COARSE times the extent
    4  the extent of the motion: the largest distance of a coordinate from its start

If number 3 exceeds a given part of number 4 (`judgement.py`), no digit of the positions is left. Errors of finer steps
are not added: there the estimates are upper bounds only, whose sum over many steps would say nothing.

An explicit method for which there is no such estimate is checked for instability instead: number 3 becomes infinite
once the error of a step exceeds the displacement in it and the extent of all the motion before.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from geodyn._foundations.typing import Array, Float, Int
from geodyn._integrators.contract.tableau import ButcherTableau

# As a part of the extent. With three Gauss stages this is the error in an oscillation that turns by some 1.4 radians in
# a step.
COARSE = 5e-4


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
    """`State.errors` after one more step, which follows on `since` steps of the same length.

    `largest(weights[2, 3s])` takes two weighted sums of the stage velocities of the two steps before and of this one,
    oldest first, and returns the largest component of each. `moved` is the displacement in the step, `far` the distance
    from the start.
    """
    extent = jnp.maximum(errors[4], far)
    unused = np.zeros(tableau.stages)  # The weights of a step that does not count.
    if tableau.defect is not None:
        # The estimate needs two steps before this one. Until then the last mode of the step stands for its error. It is
        # much larger than the error, and so it is only added where it exceeds the whole extent.
        last_mode = np.concatenate([unused, unused, tableau.last_mode / 2])
        known = since >= 2
        estimate, mode = jnp.abs(h) * largest(np.stack([tableau.defect, last_mode]))
        error: Float[Array, "*B"] = jnp.where(known, estimate, jnp.nan)
        relative = error / moved
        counted = jnp.where(known, estimate, mode)
        limit = jnp.where(known, COARSE, 1.0) * extent
        total: Float[Array, "*B"] = errors[3] + jnp.where(counted > limit, counted, 0.0)
    elif tableau.trapezoid_defect is not None:
        error = relative = jnp.full_like(moved, jnp.nan)
        # The trapezoidal rule for a step needs the velocity at its end, which is the first stage of the next step: so
        # the step before is checked here.
        step_before = np.concatenate([unused, tableau.b, unused])
        missed, displacement = jnp.abs(h) * largest(np.stack([tableau.trapezoid_defect, step_before]))
        unstable = (since >= 1) & (missed > displacement) & (missed > errors[4])
        total = jnp.where(unstable, jnp.inf, errors[3])
    else:
        return errors
    # `fmax` passes over NaN.
    largest_error = jnp.fmax(error, errors[1])
    largest_relative = jnp.fmax(relative, errors[2])
    return jnp.stack([error, largest_error, largest_relative, total, extent])
