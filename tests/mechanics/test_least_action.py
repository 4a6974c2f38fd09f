"""Paths of stationary action between two configurations: closed forms, conjugate points, geodesics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._mechanics.hamiltonian.action import fractions

MASS, RATE, START = 1.3, 0.9, jnp.array([0.4])
OSCILLATOR = gd.Lagrangian(lambda q, v: 0.5 * MASS * (v @ v - RATE**2 * q @ q))
HALF = np.pi / RATE


ACTION = jax.jit(lambda nodes, t1: gd.hamilton.discrete_action(OSCILLATOR, nodes, t1=t1, stages=3))


def found(q1, t1):
    return gd.hamilton.least_action_path(OSCILLATOR, START, q1, t1=t1, steps=12)


def of_oscillator(a, b, t1):
    """Hamilton's principal function (Feynman & Hibbs, problem 2-2)."""
    return MASS * RATE / (2 * np.sin(RATE * t1)) * ((a**2 + b**2) * np.cos(RATE * t1) - 2 * a * b)


@pytest.mark.parametrize("t1, index", [(0.5 * HALF, 0), (0.95 * HALF, 0), (1.05 * HALF, 1), (2.4 * HALF, 2)])
def test_oscillator(t1, index):
    """The action, how often it falls beyond the conjugate times kπ/ω, and the motion, which Gauss (3) retraces: action
    to 1e-5 of its size where a step is a tenth of a period, retraced to 2e-14."""
    path = found(jnp.array([1.0]), t1)
    np.testing.assert_allclose(path.action, of_oscillator(0.4, 1.0, t1), rtol=2e-5)
    assert path.index == index and bool(path.is_least) == (index == 0)
    np.testing.assert_array_equal(path.q[[0, -1], 0], [0.4, 1.0])
    again = gd.integrate(OSCILLATOR, START, p0=path.p[0], t1=t1, steps=12, method=gd.Gauss(3))
    for name in ("t", "q", "v", "p"):
        np.testing.assert_allclose(getattr(path, name), getattr(again, name), atol=1e-12)

    # Where it is not least, it falls along the first mode between the ends.
    def action(nodes):
        return ACTION(nodes, t1)

    np.testing.assert_allclose(action(path.nodes), path.action, rtol=1e-12)
    mode = np.sin(np.pi * np.append(0, np.linspace(0, 1, 13)[:-1, None] + np.array([0.27639, 0.72361, 1.0]) / 12))
    aside = [action(path.nodes + size * mode[:, None]) - path.action for size in (-0.1, 0.1)]
    assert np.all(np.sign(aside) == (1 if index == 0 else -1))


def test_conjugate_is_nan():
    """Inside jit nothing can be raised: between conjugate ends no path of any size is returned."""
    path = jax.jit(found)(jnp.array([1.0]), HALF)
    assert path.conjugate and np.isnan(path.q[:, 0]).any() and np.isnan(path.action)


def test_hamilton_jacobi():
    """∂S/∂q1 = p1 and ∂S/∂t1 = −E, by the derivative through the solution; and ∂p0/∂q1 in both modes, which is that of
    the closed form, −mω/sin ωt. Measured: 1e-15, 3e-9 (the error of the action)."""
    q1, t1 = jnp.array([1.0]), jnp.array(1.7)
    path = found(q1, t1)
    by_end, by_time = jax.jit(jax.grad(lambda q1, t1: found(q1, t1).action, (0, 1)))(q1, t1)
    np.testing.assert_allclose(by_end, path.p[-1], rtol=1e-13)
    np.testing.assert_allclose(by_time, -gd.energy(OSCILLATOR, path.q[0], path.v[0]), rtol=1e-6)

    def start(q1):
        return found(q1, t1).p[0]

    forwards, backwards = jax.jit(lambda q1: (jax.jacfwd(start)(q1), jax.jacrev(start)(q1)))(q1)
    np.testing.assert_allclose(forwards, MASS * RATE / np.sin(RATE * t1) * np.eye(1), rtol=1e-7)
    np.testing.assert_allclose(backwards, forwards, rtol=1e-13)


def test_action_of_a_driven_path():
    """q = t² pulled by the force t, from 1 to 2: S = ∫ 2t² + t³ = 14/3 + 15/4, exact with two stages."""
    pulled = gd.Lagrangian(lambda q, v, t: v @ v / 2 + t * q[0])
    times = 1 + fractions(3, 2)
    action = gd.hamilton.discrete_action(pulled, times[:, None] ** 2, t0=1.0, t1=2.0, stages=2)
    np.testing.assert_allclose(action, 14 / 3 + 15 / 4, rtol=1e-14)


def test_free_fall():
    """A parabola, exact with two stages, S = m(Δx² + Δy²)/2T − mg(y0 + y1)T/2 − mg²T³/24, and least.
    Measured: 2e-15. The midpoint rule along it errs by 1/K²."""
    space, gravity, T = gd.spaces.Euclidean(2), 9.81, 0.8
    ball = gd.System(space, [0.5], gd.Gravity(gravity))
    q0, q1 = jnp.array([[0.0, 1.0]]), jnp.array([[2.0, 0.5]])
    path = gd.hamilton.least_action_path(ball, q0, q1, t1=T, steps=4, stages=2)
    wanted = 0.25 * (4 + 0.25) / T - 0.25 * gravity * 1.5 * T - 0.5 * gravity**2 * T**3 / 24
    np.testing.assert_allclose(path.action, wanted, rtol=1e-13)
    assert path.is_least and path.q.shape == (5, 1, 2)

    def fall(t):
        return q0 + t * path.v[0] - 0.5 * gravity * t**2 * jnp.array([[0.0, 1.0]])

    np.testing.assert_allclose(path.q[2], fall(0.4), atol=1e-14)
    rough = jax.jit(lambda x: gd.hamilton.discrete_action(ball, x, t1=T))
    rough = [rough(np.stack([fall(t) for t in np.linspace(0, T, count + 1)])) - path.action for count in (8, 16)]
    np.testing.assert_allclose(rough[0] / rough[1], 4, rtol=1e-6)


def test_geodesics():
    """A free particle moves along the geodesic: it starts with gd.log, and its action is half the squared distance.
    Measured: 8e-11 (order 6)."""
    space, x, y = gd.spaces.Hyperbolic(2), jnp.array([0.1, 0.2]), jnp.array([-0.3, 0.5])
    path = gd.hamilton.least_action_path(gd.System(space, [1.0]), x[None], y[None], t1=1.0, steps=8)
    np.testing.assert_allclose(path.v[0, 0], gd.log(space, x, y), atol=1e-9)
    np.testing.assert_allclose(path.action, gd.squared_distance(space, x, y) / 2, rtol=1e-9)


def test_two_ways_of_a_pendulum():
    """Between the same ends, from the guesses of both sides: two motions, of which one is the least."""
    pendulum = gd.Lagrangian(lambda q, v: 0.5 * v @ v + 5 * jnp.cos(q[0]))
    straight = jnp.linspace(0, 1, 37)[:, None]
    paths = [
        gd.hamilton.least_action_path(
            pendulum, [0.0], [1.0], t1=2.0, steps=12, guess=straight + side * jnp.sin(np.pi * straight)
        )
        for side in (-1.0, 3.0)
    ]
    for path in paths:
        energy = path.v[:, 0] ** 2 / 2 - 5 * np.cos(path.q[:, 0])
        assert np.ptp(energy) < 1e-4 * np.max(np.abs(energy))
    assert [int(path.index) for path in paths] == [1, 0] and paths[1].action < paths[0].action


WRONG = {
    "conjugate": (lambda: found(jnp.array([1.0]), HALF), "q0 and q1 are conjugate at t1=3.49066.*Choose another t1"),
    "shape": (lambda: found(jnp.zeros(2), 1.0), r"q1 must have the shape of q0, \(1,\); got \(2,\)"),
    "steps": (
        lambda: gd.hamilton.least_action_path(OSCILLATOR, START, START, t1=1.0, steps=0),
        "steps must be a positive whole",
    ),
    "guess": (
        lambda: gd.hamilton.least_action_path(OSCILLATOR, START, START, t1=1.0, steps=2, guess=np.zeros((3, 1))),
        r"guess must have shape \(7, 1\)",
    ),
    "nodes": (
        lambda: gd.hamilton.discrete_action(OSCILLATOR, np.zeros((3, 1)), t1=1.0, stages=3),
        "must have K · stages",
    ),
    "friction": (
        lambda: gd.hamilton.discrete_action(
            gd.System(gd.spaces.Euclidean(1), [1.0], gd.Drag(1.0)), np.zeros((2, 1, 1)), t1=1.0
        ),
        "nothing but an energy, got Drag",
    ),
    "no path": (
        lambda: gd.hamilton.least_action_path(NOWHERE, [0.0], [1.0], t1=1.0, steps=3, stages=1),
        "no path of stationary action was found from this guess: give guess=",
    ),
}
NOWHERE = gd.Lagrangian(lambda q, v: jnp.sqrt(1 - v @ v))  # Faster than light.


@pytest.mark.parametrize("call, message", WRONG.values(), ids=WRONG)
def test_wrong_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
