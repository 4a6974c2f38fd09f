"""Methods that are no collocation: what any stepper gets from `integrate`, and the baselines' orders."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.programs import length

import geodyn as gd


class SymplecticEuler(gd.methods.AbstractStepper):
    """p⁺ = p + h force(q), q⁺ = q + h velocity(p⁺): a user's own stepper, with a λ that counts its steps."""

    damping: float = 0.0

    def start(self, system, t, h, q, p, v):
        return jnp.zeros(1, q.dtype)

    def advance(self, system, t, h, q, p, lam):
        p = (1 - h * self.damping) * p + h * system.force(t, q, system.velocity(t, q, p), lam[:0])
        return gd.methods.Advanced(q + h * system.velocity(t, q, p), p, lam + 1, jnp.all(jnp.abs(q) < 5), 2)


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
    assert int(failed.result) == gd.RESULTS.not_converged and np.isnan(failed.q[-1, 0]) and failed.stats.steps == 2


SPACE = gd.Manifold(lambda x: jnp.diag(jnp.stack([jnp.ones(()), (2.0 + jnp.cos(x[0])) ** 2])), dim=2)
CURVED = gd.System(SPACE, [1.5], gd.Gravity(0.7, axis=0), gd.Drag(0.2))
START = [[0.3, 0.1]], [[0.4, 0.5]]
STEPS = 24
BASELINES = {
    "Euler": (gd.methods.Collocation(gd.tableaus.explicit_euler()), 1),
    "midpoint": (gd.methods.Collocation(gd.tableaus.explicit_midpoint()), 2),
    "Heun": (gd.methods.Collocation(gd.tableaus.heun()), 2),
    "Kutta": (gd.methods.Collocation(gd.tableaus.rk4()), 4),
    "Newmark": (gd.methods.Newmark(), 2),
    "Störmer–Verlet": (gd.methods.StormerVerlet(), 2),
    "minimising": (gd.friction.IncrementalPotential(theta=0.5), 2),
}


@pytest.fixture(scope="module")
def reached():
    """Where the motion is at t = 0.4 and at 0.2, by Gauss of order 6."""
    fine = gd.integrate(CURVED, *START, t1=0.4, steps=STEPS)
    return [np.concatenate([fine.q[i, 0], fine.v[i, 0]]) for i in (STEPS, STEPS // 2)]


def missed(method, t1, wanted):
    trajectory = gd.integrate(CURVED, *START, t1=t1, steps=STEPS, method=method)
    return np.max(np.abs(np.concatenate([trajectory.q[-1, 0], trajectory.v[-1, 0]]) - wanted))


@pytest.mark.long
@pytest.mark.parametrize("name", BASELINES)
def test_orders_of_the_baselines(name, reached):
    """On a torus, with drag: half the step and half the time leave 2^−(p + 1) of the error. Seen: within 0.1 of p."""
    method, order = BASELINES[name]
    errors = [missed(method, t1, wanted) for t1, wanted in zip((0.4, 0.2), reached, strict=True)]
    assert abs(np.log2(errors[0] / errors[1]) - order - 1) < 0.35 and errors[1] > 1e-13


def test_adaptive_solver(reached):
    """diffrax reaches what Gauss reaches. Seen: 2e-14."""
    assert missed(gd.methods.Adaptive(rtol=1e-12, atol=1e-12), 0.4, reached[0]) < 1e-12


DRIVEN = [
    gd.methods.Newmark(1 / 6),
    gd.methods.StormerVerlet(),
    gd.friction.IncrementalPotential(theta=0.5),
    gd.methods.Moreau(),
    gd.methods.Adaptive(),
]


@pytest.mark.long
@pytest.mark.parametrize("method", DRIVEN, ids=lambda method: type(method).__name__)
def test_a_driven_motion_has_the_times_of_its_steps(method):
    """q'' = t: every rule for v here is exact for it, that for q with Newmark's β = 1/6; between the steps a cubic."""
    wall = [gd.Wall(lambda x: x[0] + 9)] if isinstance(method, gd.methods.Moreau) else []
    system = gd.System(gd.spaces.Euclidean(1), [1.0], gd.loads.PointLoad(lambda t: t[None, None]), *wall)
    t = gd.integrate(system, [[1.0]], [[0.5]], t0=0.3, t1=1.7, steps=7, method=method)
    np.testing.assert_allclose(t.v[:, 0, 0], 0.5 + (t.t**2 - 0.09) / 2, rtol=1e-12)
    if isinstance(method, gd.methods.Newmark):

        def path(t):
            return 1 + 0.5 * (t - 0.3) + (t**3 - 0.027) / 6 - 0.09 * (t - 0.3) / 2

        between = np.linspace(0.3, 1.7, 30)
        np.testing.assert_allclose(t.q[:, 0, 0], path(t.t), rtol=1e-13)
        np.testing.assert_allclose(t.evaluate(between)[:, 0, 0], path(between), rtol=1e-13)


@pytest.mark.long
def test_newmark_is_the_trapezoidal_rule():
    """β = ¼, γ = ½ turns a linear oscillator by 2 arctan(hω/2) a step. Explicit tableaux take exactly their polynomial,
    run in batches, and say that they have no dense output."""
    trajectory = gd.integrate(OSCILLATOR, [1.0], [0.0], t1=3.0, steps=30, method=gd.methods.Newmark())
    angle = 2 * np.arctan(0.1) * np.arange(31)
    np.testing.assert_allclose(trajectory.q[:, 0], np.cos(angle), atol=1e-13)
    kutta = gd.methods.Collocation(gd.tableaus.rk4())

    def run(x):
        return gd.integrate(OSCILLATOR, [x], [0.0], t1=3.0, steps=30, method=kutta)

    z = 0.2j
    once = 1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24
    np.testing.assert_allclose(run(1.0).q[-1, 0], (once**30).real, rtol=1e-12)
    assert jax.eval_shape(jax.vmap(lambda x: run(x).q), jnp.ones(2)).shape == (2, 31, 1)
    with pytest.raises(ValueError, match="distinct nodes"):
        run(1.0).evaluate(0.15)


@pytest.mark.parametrize(
    "method", [gd.methods.Newmark(), gd.methods.StormerVerlet(), gd.methods.Adaptive()], ids=lambda m: type(m).__name__
)
def test_baselines_refuse_what_they_cannot_hold(method):
    held = gd.System(SPACE, [1.0], gd.Pin(0, [0.0, 0.0]))
    with pytest.raises(ValueError, match=r"without constraints: take method=gd.RadauIIA\(3\)"):
        gd.integrate(held, [[0.0, 0.0]], [[0.0, 0.0]], t1=1.0, steps=1, method=method)
    rubbing = gd.System(SPACE, [1.0], gd.friction.DryFriction(0.1))
    with pytest.raises(ValueError, match=r"take method=gd.friction.IncrementalPotential\(\)"):
        gd.integrate(rubbing, [[0.0, 0.0]], [[0.0, 0.0]], t1=1.0, steps=1, method=method)


def test_verlet_refuses_what_has_no_momenta():
    with pytest.raises(ValueError, match="steps momenta, and ODE has none: take"):
        gd.integrate(gd.ODE(lambda t, y: -y), [1.0], t1=1.0, steps=1, method=gd.methods.StormerVerlet())


def test_without_diffrax(monkeypatch):
    monkeypatch.setitem(sys.modules, "diffrax", None)
    with pytest.raises(ImportError, match="pip install diffrax"):
        gd.methods.Adaptive()


@pytest.mark.long
def test_a_step_stands_once_in_the_program():
    """However few are saved: it takes most of the time to compile. Measured: 1.05 and 1.46 times a step's length."""
    wall = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Gravity(9.81), gd.Wall(lambda x: x[0], 0.5))
    zero, one = jnp.zeros(()), jnp.ones(1)
    for system, q, method in (
        (wall, one[None], gd.methods.Moreau()),
        (OSCILLATOR, one, gd.friction.IncrementalPotential()),
    ):
        state = method.start(system, zero, zero, one, one, one)
        step = jax.make_jaxpr(lambda q, s=system, m=method, w=state: m.advance(s, zero, zero + 0.1, q, q, w))(one)

        def run(q, s=system, m=method):
            return gd.integrate(s, q, q, t1=1.0, steps=4, save_every=2, method=m).q

        assert length(jax.make_jaxpr(run)(q).jaxpr) < 1.5 * length(step.jaxpr)
