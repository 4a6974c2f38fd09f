"""Derivatives through the step: forward, reverse, second; to initial data and parameters; through constraints."""

import importlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case

import geodyn as gd

pytestmark = pytest.mark.users

CASE = case("A01")["reference"]


def central(function, x, i, eps):
    x = np.asarray(x)
    step = eps * np.eye(x.size)[i]
    return (function(jnp.asarray(x + step)) - function(jnp.asarray(x - step))) / (2 * eps)


class Pendulum(eqx.Module):
    length: jax.Array
    gravity: jax.Array

    def __call__(self, q, v):
        return 0.5 * self.length**2 * v[0] ** 2 + self.gravity * self.length * jnp.cos(q[0])


@jax.jit
def pendulum_at_three(p):
    system = gd.Lagrangian(Pendulum(p[2], p[3]))
    trajectory = gd.integrate(system, p[:1], p[1:2], t1=3.0, steps=150, save_every=150)
    return jnp.concatenate([trajectory.q[-1], trajectory.v[-1]])


SWINGING = gd.Lagrangian(Pendulum(jnp.array(0.8), jnp.array(9.81)))
PENDULUM = jnp.array([1.0, 0.3, 0.8, 9.81])


@pytest.mark.long
@pytest.mark.newest
def test_pendulum():
    """Case A01 a. Expected: 2e-12 relative against the reference, forward − reverse 2e-14, differences 1e-9."""
    wanted = np.array(CASE["a_jacobian"], float)
    forward, reverse = (jax.jit(d(pendulum_at_three))(PENDULUM) for d in (jax.jacfwd, jax.jacrev))
    np.testing.assert_allclose(forward, wanted, rtol=1e-8)
    np.testing.assert_allclose(reverse, forward, rtol=1e-12, atol=1e-12)
    for i in range(4):
        np.testing.assert_allclose(central(pendulum_at_three, PENDULUM, i, 1e-5), forward[:, i], rtol=1e-7, atol=1e-8)


@pytest.mark.long
def test_second_derivative():
    """d²θ(3)/dθ₀² of case A01 a, forward over forward and forward over reverse. Expected 1e-10."""

    def angle(theta):
        return pendulum_at_three(PENDULUM.at[0].set(theta))[0]

    for second in (jax.jacfwd(jax.jacfwd(angle)), jax.jacfwd(jax.jacrev(angle))):
        np.testing.assert_allclose(jax.jit(second)(PENDULUM[0]), float(CASE["a_second"]), rtol=1e-7)


@pytest.mark.long
def test_pendulum_as_a_constrained_point():
    """The same numbers through the constraint and its multiplier, the length of the rod included. Expected 1e-8."""

    def run(p):
        system = gd.System(gd.spaces.Euclidean(2), jnp.ones(2), gd.Gravity(p[3]), gd.Rod([(0, 1)], p[2]), Pin())
        q0 = jnp.stack([jnp.zeros(2), p[2] * jnp.stack([jnp.sin(p[0]), -jnp.cos(p[0])])])
        v0 = jnp.stack([jnp.zeros(2), p[2] * p[1] * jnp.stack([jnp.cos(p[0]), jnp.sin(p[0])])])
        q, v = (
            x[-1, 1] for x in (lambda t: (t.q, t.v))(gd.integrate(system, q0, v0, t1=3.0, steps=150, save_every=150))
        )
        return jnp.stack([jnp.arctan2(q[0], -q[1]), (q[0] * v[1] - q[1] * v[0]) / p[2] ** 2])

    wanted = np.array(CASE["a_jacobian"], float)
    for derivative in (jax.jacrev, jax.jacfwd):
        np.testing.assert_allclose(jax.jit(derivative(run))(PENDULUM), wanted, rtol=1e-6)


class Pin(gd.AbstractConstraint):
    size: int = 2

    def residual(self, space, x):
        return x[0]


@pytest.mark.long
@pytest.mark.newest
def test_metric_parameter():
    """Case A01 b: the end of a geodesic of the ellipsoid with respect to a semi-axis and the start. Expected 1e-11."""

    @jax.jit
    def run(p):
        system = gd.System(gd.spaces.Embedded(Ellipsoid(p[0]), 3, 2), jnp.ones(1))
        trajectory = gd.integrate(system, jnp.array([[0.9, 0.4]]), p[None, 1:], t1=2.0, steps=100, save_every=100)
        return Ellipsoid(p[0])(trajectory.q[-1, 0])

    wanted = np.array(CASE["b_jacobian"], float)
    p = jnp.array([0.7, 0.5, 0.6])
    np.testing.assert_allclose(jax.jacrev(run)(p), wanted, rtol=1e-8)


class Ellipsoid(eqx.Module):
    c: jax.Array

    def __call__(self, x):
        a, b = jnp.sin(x[0]), jnp.cos(x[0])
        return jnp.stack([1.2 * a * jnp.cos(x[1]), a * jnp.sin(x[1]), self.c * b])


class DoublePendulum(eqx.Module):
    masses: jax.Array

    def __call__(self, q, v):
        second, total = self.masses[1], self.masses.sum()
        kinetic = 0.5 * total * v[0] ** 2 + 0.5 * second * v[1] ** 2 + second * v[0] * v[1] * jnp.cos(q[0] - q[1])
        return kinetic + 9.81 * (total * jnp.cos(q[0]) + second * jnp.cos(q[1]))


@pytest.mark.long
def test_double_pendulum():
    """Case A01 c: a loss with respect to the start and to the masses, in both modes, at the case's tolerances."""

    def loss(p):
        system = gd.Lagrangian(DoublePendulum(p[2:]))
        return (
            gd.integrate(system, p[:2], jnp.zeros(2), t1=2.0, steps=150, save_every=150, method=gd.Gauss(5)).q[-1, 0]
            ** 2
        )

    p = jnp.array([1.2, -0.7, 1.0, 1.5])
    value, reverse = jax.jit(jax.value_and_grad(loss))(p)
    np.testing.assert_allclose(value, float(CASE["c_loss"]), rtol=1e-10)
    forward = jax.jit(jax.jacfwd(loss))(p)
    np.testing.assert_allclose(reverse, np.array(CASE["c_gradient"], float), rtol=1e-8)
    np.testing.assert_allclose(forward, reverse, rtol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("walled", [False, True])
def test_the_end_moves_with_the_final_time_as_it_moves_in_time(walled):
    """q'' = t, in one dimension with a wall at 0: dq/dt1 = v and dv/dt1 = t1, through all stage times, and by the
    closed form what a later start changes. Expected: rounding, since the motion is a polynomial of degree 3."""

    def law(q, v, t):
        return v @ v / 2 + t * q[0]

    push = gd.loads.PointLoad(lambda t: t[None, None])

    def end(times):
        kinds = gd.System(gd.spaces.Euclidean(1), [1.0], push, gd.Wall(lambda x: x[0])), gd.Lagrangian(law)
        q0 = jnp.full((1, 1), 1.0) if walled else jnp.ones(1)
        t = gd.integrate(kinds[not walled], q0, -q0, t0=times[0], t1=times[1], steps=8, save_every=4)
        return jnp.concatenate([t.q[-1].ravel(), t.v[-1].ravel()])

    t0, t1 = times = jnp.array([0.2, 1.9])
    at = jax.jit(end)(times)
    forward, reverse = (jax.jit(d(end))(times) for d in (jax.jacfwd, jax.jacrev))
    np.testing.assert_allclose(forward, reverse, rtol=1e-12)
    np.testing.assert_allclose(forward[:, 1], [at[1], t1], rtol=1e-12)
    if not walled:
        np.testing.assert_allclose(forward[:, 0], [1 - t0 * (t1 - t0), -t0], rtol=1e-12)


@pytest.mark.long
def test_memory_of_reverse_mode(monkeypatch):
    """1e5 steps in parts, each computed again when its turn comes: the same gradient, in a fraction of the memory."""

    def loss(theta):
        start = theta[None], jnp.array([0.3])
        return gd.integrate(SWINGING, *start, t1=3.0, steps=100_000, save_every=100_000).q[-1, 0]

    def gradient():
        jax.clear_caches()
        compiled = jax.jit(jax.grad(loss)).lower(jnp.array(1.0)).compile()
        return compiled(jnp.array(1.0)), compiled.memory_analysis().temp_size_in_bytes

    whole, memory = gradient()
    monkeypatch.setattr(importlib.import_module("geodyn._integrators.run"), "STAGE_MEMORY", 2**18)
    parts, memory_of_parts = gradient()
    monkeypatch.undo()
    jax.clear_caches()
    np.testing.assert_allclose(parts, whole, rtol=1e-12)
    assert memory_of_parts < memory / 5
