"""The derivative of what failed is NaN, and an error where the failure is one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.marks import slow

import geodyn as gd


def blow_up(x, k, t1, method=None):
    """y' = k y², which is infinite at t = 1/(k x)."""
    return gd.integrate(gd.ODE(lambda t, y: k * y**2), x[None], t1=t1, steps=10, method=method, throw=False)


def explicit(x, k, t1):
    return blow_up(x, k, t1, gd.methods.Collocation(gd.tableaus.rk4()))


def bouncing(x, k, t1):
    """More impacts than there is room for."""
    wall = gd.Wall(lambda x: x[0], restitution=1.0)
    body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Gravity(9.81 * k, axis=0), wall)
    return gd.integrate(body, x[None, None], t1=2 * t1, steps=20, max_impacts=2, throw=False)


def fast(x, k, t1):
    """A spring a thousand times too stiff for the steps: numbers, but without a correct digit."""
    body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Harmonic(1e7 * k, [0.0]))
    return gd.integrate(body, x[None, None], t1=t1, steps=10, throw=False)


def linked(x, k, t1):
    """A pendulum whose length becomes imaginary."""
    system = gd.Lagrangian(lambda q, v: v @ v / 2 - q[1], constraint=lambda q, t: (q @ q - k * (1 - t)) / 2)
    q0 = jnp.stack([x / x, 0 * x])
    return gd.integrate(system, q0, jnp.stack([-k / 2, x]), t1=t1, steps=8, throw=False)


def newmark(x, k, t1):
    return gd.integrate(
        gd.Lagrangian(lambda q, v: v[0] ** 2 / 2 + k * q[0] ** 5 / 5),
        (2 * x)[None],
        t1=5 * t1,
        steps=10,
        method=gd.methods.Newmark(),
        throw=False,
    )


FAILED = {f.__name__: f for f in (blow_up, explicit, bouncing, fast, linked, newmark)}
AT = jnp.array(1.0), jnp.array(1.0), jnp.array(2.0)


@pytest.mark.parametrize(
    "name", ["blow_up", *(pytest.param(name, marks=pytest.mark.long) for name in list(FAILED)[1:])]
)
def test_the_derivatives_of_a_failed_run_are_nan(name):
    """With respect to the start, a parameter and the time, in both modes, and of a batch member by itself; 0 before."""
    run = FAILED[name]

    def end(x, k, t1):
        trajectory = run(x, k, t1)
        return jnp.sum(trajectory.q[-1]), trajectory.result

    reverse, result = jax.jit(jax.grad(end, (0, 1, 2), has_aux=True))(*AT)
    assert int(result) != gd.RESULTS.successful
    assert np.all(np.isnan(reverse)), reverse
    forward = jax.jit(jax.jacfwd(lambda *at: end(*at)[0], (0, 1, 2)))(*AT)
    assert np.all(np.isnan(forward)), forward


def test_other_members_and_earlier_times_keep_their_derivatives():
    """y = x/(1 − xt), ∂y/∂x = (y/x)²."""

    def run(x):
        return blow_up(x, 1.0, 2.0).q[:, 0]

    x = jnp.array([0.1, 1.0, 0.2])

    @jax.jit
    def derivatives(x):
        return jax.vmap(jax.grad(lambda x: run(x)[-1]))(x), jax.jacfwd(run)(x[1]), jax.jacrev(run)(x[1])

    of_members, *of_times = derivatives(x)
    np.testing.assert_allclose(of_members, [1 / 0.8**2, np.nan, 1 / 0.6**2], rtol=1e-7)
    for slopes in of_times:
        np.testing.assert_allclose(slopes[:3], 1 / (1 - 0.2 * np.arange(3)) ** 2, rtol=1e-6)
        assert np.all(np.isnan(slopes[6:]))


@pytest.mark.long
def test_second_derivatives_of_a_failed_run_are_nan():
    def end(x):
        return blow_up(x, 1.0, 2.0).q[-1, 0]

    both = jax.jit(lambda x: [jax.jacfwd(first(end))(x) for first in (jax.jacfwd, jax.jacrev)])
    assert np.isnan(both(1.0)).all()


def test_a_failure_is_raised_in_derivatives_outside_of_jit():
    def end(x):
        return gd.integrate(gd.ODE(lambda t, y: y**2), x[None], t1=2.0, steps=10).q[-1, 0]

    for derivative in (jax.grad, jax.jacfwd):
        with pytest.raises(gd.IntegrationError, match="failed") as raised:
            derivative(end)(1.0)
        kept = raised.value.trajectory
        assert not any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(kept))
        assert np.isfinite(kept.q[3, 0])


@pytest.mark.long
def test_what_follows_from_a_failed_run_is_nan_and_outside_of_jit_an_error():
    stiff = gd.hamilton.Hamiltonian(lambda q, p: p[0] ** 2 / 2 + q[0] ** 4 * 1e8)

    def followed(q):
        options = {"t1": 5.0, "steps": 5}
        derivative = gd.hamilton.flow_derivative(stiff, q, [3.0], **options)
        volume = gd.hamilton.liouville_defect(stiff, q, [3.0], **options)
        area = gd.hamilton.symplectic_defect(stiff, q, [3.0], **options)
        return jnp.append(derivative.reshape(-1), jnp.stack([volume, area]))

    assert np.all(np.isnan(jax.jit(followed)(jnp.ones(1))))
    with pytest.raises(gd.IntegrationError, match="step 1"):
        followed(jnp.ones(1))


def test_a_shape_that_a_body_cannot_have_has_no_derivative():
    """Spheres that overlap: the power is NaN, and its derivative was 0."""
    swimmer = gd.swimmers.ThreeSphere()
    shape = jnp.array([0.1, 0.2])

    def power(r):
        return swimmer.dissipation(r, jnp.ones(1), jnp.ones(2))

    value, slope = jax.jit(jax.value_and_grad(power))(shape)
    assert np.isnan(value) and np.all(np.isnan(slope))


CIRCLE = jnp.array([1.2, -0.9])


def projected(radius, q=CIRCLE):
    system = gd.Lagrangian(lambda q, v: v @ v / 2, constraint=lambda q: q @ q - radius * jnp.abs(radius))
    return gd.project(system, q, jnp.ones(2))


def test_a_projection_has_derivatives_in_both_modes():
    """Onto a circle: radius · q/|q|, whose derivative is q/|q| by the radius, and radius (1 − qqᵀ/|q|²)/|q| by q."""
    size = np.hypot(*CIRCLE)

    @jax.jit
    def both(*at):
        return [derivative(lambda *at: projected(*at)[0], (0, 1))(*at) for derivative in (jax.jacfwd, jax.jacrev)]

    for by_radius, by_q in both(2.0, CIRCLE):
        np.testing.assert_allclose(by_radius, CIRCLE / size, atol=1e-12)
        np.testing.assert_allclose(by_q, 2 / size * (np.eye(2) - np.outer(CIRCLE, CIRCLE) / size**2), atol=1e-12)


def test_a_projection_that_reaches_nothing_is_nan_inside_of_jit():
    (q, v), slope = jax.jit(lambda r: (projected(r), jax.grad(lambda r: jnp.sum(projected(r)[0]))(r)))(-1.0)
    assert np.all(np.isnan(q)) and np.all(np.isnan(v)) and np.isnan(slope)


@pytest.mark.parametrize("name", slow("Newmark", "IncrementalPotential", quick="StormerVerlet"))
def test_a_parameter_that_is_nan_is_no_error_inside_of_jit(name):
    method = getattr(gd.friction if name == "IncrementalPotential" else gd.methods, name)()

    def end(k):
        body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Harmonic(k, [0.0]))
        return gd.integrate(body, [[1.0]], t1=0.3, steps=3, method=method).q[-1, 0, 0]

    run, step = jax.jit(lambda k: (end(k), jax.jacfwd(end)(k), jax.jacrev(end)(k))), 1e-6
    assert np.isnan(run(jnp.nan)).all()
    difference = (run(2.0 + step)[0] - run(2.0 - step)[0]) / (2 * step)
    np.testing.assert_allclose(run(2.0)[1:], [difference, difference], rtol=1e-7)


@pytest.mark.long
def test_quasi_static_motion_with_a_constraint_has_derivatives_in_both_modes():
    """A point on a circle of radius r, pulled by a spring towards (0, −2): it stays at the bottom, y = −r."""

    def height(radius):
        system = gd.Lagrangian(
            lambda q, v: v @ v / 2 - (q[0] ** 2 + (q[1] + 2) ** 2) / 2, constraint=lambda q: (q @ q - radius**2) / 2
        )
        return gd.friction.quasi_static(system, jnp.stack([0 * radius, -radius]), t1=1.0, steps=3).q[-1, 1]

    bottom, *slopes = jax.jit(lambda r: (height(r), jax.jacfwd(height)(r), jax.jacrev(height)(r)))(1.5)
    assert abs(bottom + 1.5) < 1e-12
    assert max(abs(slope + 1) for slope in slopes) < 1e-9
