"""What is said of a run that failed, and what is known of the step at which it did."""

from typing import cast

import jax
import numpy as np

from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Float, Scalar
from geodyn._integrators.contract.constraints import constraint_state, independence
from geodyn._integrators.contract.lagrangian import AbstractFlatLagrangian, check_kinetic
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.step.methods import AbstractStepper, advice
from geodyn._integrators.trajectory import Impacts, Inputs, IntegrationError, Trajectory

# Constraints whose independence is less are called dependent where a step fails: within some 6 degrees.
DEPENDENT = 0.1
# Failures of the initial data, which have no time of their own.
AT_START = RESULTS.overlapping, RESULTS.pressed_at_rest, RESULTS.inconsistent_start


def raise_failure(trajectory: Trajectory) -> None:
    """Raises IntegrationError if a run failed."""
    result = RESULTS(int(trajectory.result))
    if result == RESULTS.successful:
        return
    # In a derivative outside of jit the numbers are known too, behind those of the derivative.
    trajectory = jax.tree.map(jax.lax.stop_gradient, trajectory)
    inputs = cast(Inputs, trajectory.inputs)
    if result == RESULTS.not_finite and isinstance(trajectory.system, AbstractFlatLagrangian):
        check_kinetic(trajectory.system, inputs.t0, inputs.q0, inputs.v0)
    message = _failure_message(result, trajectory)
    if message is not None:
        raise IntegrationError(message, trajectory)


def _failure_message(result: RESULTS, trajectory: Trajectory) -> str | None:
    """What is said of a failure; None where the run was only interrupted."""
    steps = int(trajectory.stats.steps)

    def time_after(steps: int) -> float:
        return float(trajectory.t[0]) + steps * float(trajectory.step_size)

    if result == RESULTS.contact_unresolved:
        return f"after t = {time_after(steps):.6g} {result.message}"
    if result in (RESULTS.too_many_impacts, RESULTS.friction_at_rest, RESULTS.impact_unsolved):
        times = np.asarray(cast(Impacts, trajectory.impacts).t)
        last = np.max(times, where=np.isfinite(times), initial=float(trajectory.t[0]))
        word = "after" if result == RESULTS.too_many_impacts else "at"
        return f"{word} t = {last:.6g} {result.message}"
    if result in (*AT_START, RESULTS.digits_lost, RESULTS.under_resolved):
        return result.message
    if result in (RESULTS.not_converged, RESULTS.not_finite, RESULTS.charts_disagree):
        t = time_after(steps - 1)
        advised = _advice(trajectory, t) if result == RESULTS.not_converged else ""
        reason = advised or result.message
        return (
            f"step {steps} at t = {t:.6g} failed: {reason}. The error's .trajectory (or throw=False) holds "
            "what was computed"
        )
    return None


def _advice(trajectory: Trajectory, failed: float) -> str:
    """What is known of the step from the time `failed`, from the last saved state before it."""
    system = cast(AbstractSystem, trajectory.system)
    finite = np.isfinite(trajectory.q.reshape(len(trajectory.q), -1)[:, 0])
    last = int(np.sum(finite)) - 1
    t = trajectory.t[last]
    q = trajectory.q[last].reshape(-1)
    v = trajectory.v[last].reshape(-1)
    h = trajectory.step_size
    if isinstance(trajectory.method, AbstractStepper):
        return advice(trajectory.method, system, t, h, q, v)
    if not system.count_constraints(q):
        return ""
    # At the last saved state, and at the end of the failed step as far as the velocity tells where that is.
    further = failed - t + h
    places = ((t, q), (t + further, q + further * v))
    if any(_is_dependent(system, t, q, v) for t, q in places):
        return (
            "the constraints become dependent here, as where a linkage goes flat or is stretched tight: it may go on "
            "in several ways, or not at all, and no steps decide which. End before it, or change a length, so that it "
            "keeps clear of this configuration"
        )
    return ""


def _is_dependent(system: AbstractSystem, t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"]) -> bool:
    """Whether the constraints are dependent near a place at which they are about fulfilled."""
    missed, _, gram = map(np.asarray, constraint_state(system, q, v, t))
    # About, since the place may be extrapolated; farther off the gradients tell nothing of the motion.
    is_fulfilled = np.max(np.abs(missed)) < 0.1 * (1 + np.max(np.abs(q)))
    return bool(is_fulfilled and independence(gram) < DEPENDENT)
