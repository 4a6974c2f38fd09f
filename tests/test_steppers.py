"""Methods that are no collocation: what any stepper gets from `integrate`, and the baselines' orders."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn.integrators import RESULTS


class SymplecticEuler(gd.AbstractStepper):
    """p⁺ = p + h force(q), q⁺ = q + h velocity(p⁺): a user's own stepper, with a λ that counts its steps."""

    damping: float = 0.0

    def start(self, system, t, h, q, p, v):
        return jnp.zeros(1, q.dtype)

    def advance(self, system, t, h, q, p, lam):
        p = (1 - h * self.damping) * p + h * system.force(t, q, system.velocity(t, q, p), lam[:0])
        return gd.Advanced(q + h * system.velocity(t, q, p), p, lam + 1, jnp.all(jnp.abs(q) < 5), 2)


def lagrangian(q, v):
    return 0.5 * (v @ v) - 2.0 * (q @ q)


OSCILLATOR = gd.Lagrangian(lagrangian)
RUN = {"t1": 1.0, "steps": 40}


def by_hand(q, p, steps, h, damping=0.0):
    for _ in range(steps):
        p = (1 - h * damping) * p - 4 * h * q
        q = q + h * p
    return q, p


def test_any_stepper_has_what_a_collocation_has(tmp_path):
    """Saving, counting, checkpoints bit for bit, files, evaluation between the steps and gradients."""
    method, (q, p) = SymplecticEuler(0.3), by_hand(1.0, -0.5, 40, 1 / 40, 0.3)
    whole = gd.integrate(OSCILLATOR, [1.0], [-0.5], **RUN, method=method)
    np.testing.assert_allclose([whole.q[-1, 0], whole.p[-1, 0]], [q, p], rtol=1e-13)
    np.testing.assert_array_equal(whole.multipliers[:, 0], np.arange(41))
    assert int(whole.stats.steps) == 40 and int(whole.stats.iterations) == 80
    kept = gd.integrate(OSCILLATOR, [1.0], [-0.5], **RUN, method=method, save_every=4, checkpoint=tmp_path / "run")
    again = gd.integrate(OSCILLATOR, [1.0], [-0.5], **RUN, method=method, save_every=4, checkpoint=tmp_path / "run")
    np.testing.assert_allclose(kept.q, whole.q[::4], rtol=1e-13)
    np.testing.assert_array_equal(kept.q, again.q)
    whole.save(tmp_path / "run.npz")
    back = gd.load(tmp_path / "run.npz", OSCILLATOR)
    assert isinstance(back.method, SymplecticEuler) and float(back.method.damping) == 0.3
    np.testing.assert_allclose(back.evaluate(whole.t), whole.q, atol=1e-15)
    exact = np.cos(2 * 0.51) - 0.25 * np.sin(2 * 0.51)
    free = gd.integrate(OSCILLATOR, [1.0], [-0.5], **RUN, method=SymplecticEuler())
    assert abs(free.evaluate(0.51)[0] - exact) < 0.03  # The method's own error: 0.021.

    def end(damping, x):
        return gd.integrate(OSCILLATOR, [x], [-0.5], **RUN, method=SymplecticEuler(damping)).q[-1, 0]

    ends = [
        by_hand(x, -0.5, 40, 1 / 40, damping)[0] for damping, x in ((0.3 + 1e-6, 1.0), (0.3 - 1e-6, 1.0), (0.3, 2.0))
    ]
    wanted = (ends[0] - ends[1]) / 2e-6, ends[2] - q
    np.testing.assert_allclose(jax.grad(end, (0, 1))(0.3, 1.0), wanted, rtol=1e-8)


def test_a_stepper_that_fails_says_so():
    """The failed step is named; what comes after it is NaN."""
    with pytest.raises(gd.IntegrationError, match="step 1 at t = 0 failed: the equations of the step did not converge"):
        gd.integrate(OSCILLATOR, [6.0], [0.0], **RUN, method=SymplecticEuler())
    failed = gd.integrate(OSCILLATOR, [4.9], [50.0], **RUN, method=SymplecticEuler(), throw=False)
    assert int(failed.result) == RESULTS.not_converged and np.isnan(failed.q[-1, 0]) and failed.stats.steps == 2
