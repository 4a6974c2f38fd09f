"""What a run says of itself: steps that are too long, starts that are none, wrong numbers inside of jit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn import RESULTS

LINE, PLANE = map(gd.spaces.Euclidean, (1, 2))
OSCILLATOR = gd.System(LINE, [1.0], gd.Harmonic(1.0, [0.0]))
DECAY = gd.ODE(lambda t, y: -100 * y)
RK4 = gd.methods.Collocation(gd.tableaus.rk4())


COARSE = [(2, 150), (3, 100), (3, 150), (3, 200), (4, 100), (5, 70)]


@pytest.mark.parametrize(
    "stages, steps", [(1, 250), *(pytest.param(*given, marks=pytest.mark.long) for given in COARSE)]
)
def test_a_rotation_that_the_steps_do_not_resolve(stages, steps):
    """A charge in a field B = 50 for t = 10: 500 radians. The phase of these runs is off by a radian or more, that of
    twice the steps with one stage more by less than a tenth of that."""
    charge = gd.Lagrangian(lambda q, v: v @ v / 2 + 25 * (q[0] * v[1] - q[1] * v[0]))

    def run(stages, steps):
        return gd.integrate(charge, [0.0, 0.0], [1.0, 0.0], t1=10.0, steps=steps, method=gd.Gauss(stages), throw=False)

    assert int(run(stages, steps).result) == RESULTS.under_resolved
    fine = run(5, 1000)
    assert int(fine.result) == RESULTS.successful
    np.testing.assert_allclose(fine.v[-1], [np.cos(500), -np.sin(500)], atol=1e-6)


@pytest.mark.parametrize("stages, steps, missed", [(2, 25, 0.53), (2, 40, 0.052), (2, 60, 0.0095)])
def test_where_half_of_an_amplitude_is_wrong(stages, steps, missed):
    """An oscillator for 50 radians."""
    run = gd.integrate(OSCILLATOR, [[1.0]], t1=50.0, steps=steps, method=gd.Gauss(stages), throw=False)
    assert abs(run.q[-1, 0, 0] - np.cos(50)) == pytest.approx(missed, rel=0.1)
    assert int(run.result) == (RESULTS.under_resolved if missed > 0.1 else RESULTS.successful)


@pytest.mark.parametrize("stages", [3, 4])
@pytest.mark.parametrize("system", [OSCILLATOR, gd.ODE(lambda t, y: -y)], ids=["oscillator", "decay"])
def test_one_step_of_a_thousand(system, stages):
    """Its polynomial ends at ±1, as if nothing had happened in a thousand units of time."""
    q0 = [[1.0]] if system is OSCILLATOR else [1.0]
    run = gd.integrate(system, q0, t1=1000.0, steps=1, method=gd.Gauss(stages), throw=False)
    assert int(run.result) == RESULTS.under_resolved
    assert int(gd.integrate(system, q0, t1=1.0, steps=1, method=gd.Gauss(stages)).result) == RESULTS.successful


@pytest.mark.parametrize("h, fails", [(50.0, True), (2.1, True), (1.9, False)])
@pytest.mark.parametrize("method", [gd.methods.StormerVerlet(), gd.methods.Newmark(0.0)], ids=["verlet", "newmark"])
def test_beyond_the_limit_of_stability(method, h, fails):
    """Both are central differences, stable for ωh < 2 (Hairer, Lubich & Wanner, I.5)."""
    run = gd.integrate(OSCILLATOR, [[1.0]], t1=20 * h, steps=20, method=method, throw=False)
    assert (int(run.result) != RESULTS.successful) == fails


def test_an_explicit_method_that_is_unstable():
    run = gd.integrate(DECAY, [1.0], t1=10.0, steps=20, method=RK4, throw=False)
    assert int(run.result) == RESULTS.under_resolved
    assert int(gd.integrate(DECAY, [1.0], t1=1.0, steps=50, method=RK4).result) == RESULTS.successful


def test_motions_that_are_resolved_stay_so():
    """A stiff spring whose own motion is too small to matter; a long way to a circle with two digits a step; rest."""
    stiff = gd.System(PLANE, [1.0, 1.0], gd.Spring([(0, 1)], 1e6, length=1.0))
    q0, v0 = jnp.array([[0.0, 0.0], [1.0, 0.0]]), jnp.array([[0.0, 0.3], [0.0, -0.3]])
    assert int(gd.integrate(stiff, q0, v0, t1=1.0, steps=50).result) == RESULTS.successful
    assert int(gd.integrate(OSCILLATOR, [[1.0]], t1=2000.0, steps=4000).result) == RESULTS.successful
    assert int(gd.integrate(OSCILLATOR, [[0.0]], t1=100.0, steps=10).result) == RESULTS.successful


@pytest.mark.parametrize("name", ["rtol", "atol", "beta", "gamma"])
@pytest.mark.parametrize("value", [-1.0, np.nan, 1e10])
def test_numbers_of_methods_that_cannot_be(name, value):
    if name == "atol" and value == 1e10:
        return
    method = gd.methods.Adaptive if name.endswith("tol") else gd.methods.Newmark
    with pytest.raises(ValueError, match=name):
        method(**{name: value})


RIGID = gd.rigid.RigidBodies([1.0, 2.0, 3.0])
REST, SPIN = RIGID.state(angular_velocity=[0.1, 1.0, 0.2])
ROD = gd.System(PLANE, [1.0, 1.0], gd.Rod([(0, 1)], 1.0))
ENDS = jnp.array([[0.0, 0.0], [1.0, 0.0]])


def of_spring(mass=1.0, stiffness=1.0, length=1.0):
    body = gd.System(PLANE, jnp.stack([mass, 1.0]), gd.Spring([(0, 1)], stiffness, length=length))
    return gd.integrate(body, ENDS, t1=0.1, steps=2, throw=False)


WRONG = {
    "a quaternion of length 2": lambda x: gd.integrate(RIGID, (3 - x) / 2 * REST, SPIN, t1=0.1, steps=2, throw=False),
    "a negative moment of inertia": lambda x: gd.integrate(
        gd.rigid.RigidBodies(jnp.stack([x, 2.0, 2.5])), REST, SPIN, t1=0.1, steps=2, throw=False
    ),
    "a negative mass": lambda x: of_spring(mass=2 * x),
    "a negative stiffness": lambda x: of_spring(stiffness=3 * x),
    "a negative rest length": lambda x: of_spring(length=x),
    "an end before the start, with contacts": lambda x: gd.integrate(
        gd.System(PLANE, [1.0, 1.0], gd.Contact(0.1)), ENDS, t1=0.1 * x, steps=2, throw=False
    ),
    "a velocity that a rod forbids": lambda x: gd.integrate(
        ROD, ENDS, ENDS * (1 - x), t1=0.1, steps=2, throw=False
    ),
    "a position that a rod forbids": lambda x: gd.integrate(
        ROD, ENDS * (3 - x) / 2, 0 * ENDS, t1=0.1, steps=2, throw=False
    ),
}  # fmt: skip


FEW = "a negative mass", "a velocity that a rod forbids"


@pytest.mark.parametrize("name", [x if x in FEW else pytest.param(x, marks=pytest.mark.long) for x in WRONG])
def test_what_is_refused_eagerly_is_a_status_inside_of_jit(name):
    """Each run is right for x = 1 and wrong for x = −1, outside of jit an error and inside a status and NaN."""
    run = WRONG[name]

    def end(x):
        trajectory = run(x)
        return jnp.sum(trajectory.q[-1]), trajectory.result

    inside = jax.jit(end)
    assert int(inside(1.0)[1]) == RESULTS.successful
    value, result = inside(-1.0)
    assert int(result) != RESULTS.successful
    assert np.isnan(value)
    assert np.isnan(jax.jit(jax.grad(lambda x: end(x)[0]))(-1.0))
    with pytest.raises(ValueError):
        run(-1.0)


def test_an_attitude_without_unit_length_has_no_energy():
    with pytest.raises(ValueError, match="unit length"):
        gd.energy(RIGID, 2 * REST, SPIN)
    with pytest.raises(ValueError, match="unit length"):
        gd.momentum(RIGID, 2 * REST, SPIN)
    assert np.isnan(jax.jit(lambda q: gd.energy(RIGID, q, SPIN))(2 * REST))


@pytest.mark.parametrize(
    "system, q0, v0",
    [
        (OSCILLATOR, [[1.0]], [[0.3]]),
        pytest.param(RIGID, REST, SPIN, marks=pytest.mark.long),
        (gd.Lagrangian(lambda q, v: v @ v / 2 - q[1], constraint=lambda q: (q @ q - 1) / 2), [1.0, 0.0], [0.0, 0.4]),
        (gd.System(gd.spaces.Hyperbolic(2), [1.0]), [[0.1, 0.2]], [[0.3, 0.1]]),
    ],
    ids=["oscillator", "rigid", "pendulum", "geodesic"],
)
def test_back_in_time(system, q0, v0):
    """From the end backwards to the start, with positions in between."""
    there = gd.integrate(system, q0, v0, t1=2.0, steps=40)
    back = gd.integrate(system, there.q[-1], there.v[-1], t0=2.0, t1=0.0, steps=40)
    assert float(back.t[0]) == 2.0 and float(back.t[-1]) == 0.0
    atol = 1e-6 if system.count_constraints(jnp.ravel(jnp.asarray(q0))) else 1e-12
    np.testing.assert_allclose(back.q[-1], there.q[0], atol=atol)
    np.testing.assert_allclose(back.v[-1], there.v[0], atol=atol)
    times = jnp.array([0.0, 0.33, 1.0, 1.99, 2.0])
    np.testing.assert_allclose(back.evaluate(times), there.evaluate(times), atol=1e-5)


def test_what_has_no_way_back_is_refused_by_name():
    balls = gd.System(LINE, [1.0, 1.0], gd.Contact(0.1))
    sliding = gd.System(LINE, [1.0], gd.friction.DryFriction(1.0))
    for system, q0, method in (
        (balls, [[0.0], [1.0]], None),
        (sliding, [[0.0]], gd.friction.IncrementalPotential()),
    ):
        with pytest.raises(ValueError, match="t1 must be later than t0"):
            gd.integrate(system, q0, t1=-1.0, steps=5, method=method)
    with pytest.raises(ValueError, match="another time"):
        gd.integrate(OSCILLATOR, [[0.0]], t1=0.0, steps=5)


@pytest.mark.parametrize("v", [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.5, -0.5, 0.2]])
def test_a_rate_that_is_not_affine_is_refused_from_everywhere(v):
    """v₀² − v₁², v₀v₁ and v₀³ vanish, or do not change, from some velocities."""
    for bent in (lambda q, v: v[0] ** 2 - v[1] ** 2, lambda q, v: v[2] + v[0] ** 3, lambda q, v: v[0] * v[1]):
        system = gd.Lagrangian(lambda q, v: v @ v / 2, nonholonomic=bent)
        with pytest.raises(ValueError, match="affine in v"):
            gd.integrate(system, [0.0, 0.0, 0.0], v, t1=0.1, steps=2)


@pytest.mark.parametrize("formulation", ["ggl", "index3", "rs3"])
def test_multipliers_are_those_of_the_state(formulation):
    """Of a pendulum minus the tension, v² − g·q, at every saved state; those of the last stages were off by 0.07 to 1
    with these steps, where the positions are right to 1e-4."""
    pendulum = gd.Lagrangian(lambda q, v: v @ v / 2 - 9.81 * q[1], constraint=lambda q: (q @ q - 1) / 2)
    motion = gd.integrate(pendulum, [1.0, 0.0], t1=1.0, steps=10, method=gd.RadauIIA(3, formulation))
    tension = jnp.sum(motion.v**2, axis=1) - 9.81 * motion.q[:, 1]
    np.testing.assert_allclose(-motion.multipliers[:, 0], tension, atol=1e-11)
