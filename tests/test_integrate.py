"""Steps of every method against exact discrete solutions, closed forms and expected orders."""

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geodyn.integrators import (
    ODE,
    Gauss,
    Lagrangian,
    RadauIIA,
    integrate,
)

pytestmark = pytest.mark.scalars


def case(name):
    return json.loads((Path(__file__).parent / "cases" / f"{name}.json").read_text())


METHODS = {
    **{f"gauss{s}": Gauss(s) for s in (1, 2, 3)},
    **{f"radauIIA{s}": RadauIIA(s) for s in (2, 3)},
}
I02 = case("I02")["reference"]


def pendulum(q, v):
    return 0.5 * v[0] ** 2 + jnp.cos(q[0])


def sphere(q, v):
    return 0.5 * (v[0] ** 2 + (jnp.sin(q[0]) * v[1]) ** 2)


def hyperbolic(q, v):
    return 0.5 * (v[0] ** 2 + (jnp.sinh(q[0]) * v[1]) ** 2 + (jnp.sinh(q[0]) * jnp.sin(q[1]) * v[2]) ** 2)


PENDULUM, SPHERE, HYPERBOLIC = Lagrangian(pendulum), Lagrangian(sphere), Lagrangian(hyperbolic)


def pendulum_in_the_plane(gravity):
    return Lagrangian(lambda q, v: 0.5 * jnp.dot(v, v) - gravity * q[1], constraint=lambda q: (jnp.dot(q, q) - 1) / 2)


@pytest.mark.parametrize("name", METHODS)
def test_states_of_the_exact_discrete_solution(name):
    """50 steps of h = 0.2 in (q, p). Expected 2e-15; catches an unconverged stage and a wrong coefficient."""
    for system, key, q0, v0 in (
        (PENDULUM, "pendulum", [1.3], [0.5]),
        (SPHERE, "S2_qp", [1.1, 0.3], [0.4, 0.7]),
    ):
        trajectory = integrate(system, q0, v0, t1=10.0, steps=50, method=METHODS[name])
        for step, tolerance in ((1, 1e-14), (50, 5e-14)):
            got = np.concatenate([trajectory.q[step], trajectory.p[step]])
            np.testing.assert_allclose(got, np.array(I02[name][f"{key}_{step}"], float), rtol=0, atol=tolerance)


def derivative_of_a_step(system, method, h=0.2):
    """x -> the Jacobian of one step in (q, p), column by column."""
    n = 3 if system is HYPERBOLIC else 2

    def flow(x):
        q, p = x[:n], x[n:]
        v = system.velocity(jnp.zeros(()), q, p)
        trajectory = integrate(system, q, v, t1=h, steps=1, method=method)
        return jnp.concatenate([trajectory.q[-1], trajectory.p[-1]])

    push = jax.jit(lambda x, dx: jax.jvp(flow, (x,), (dx,))[1])
    return lambda x: np.stack([push(x, dx) for dx in np.eye(2 * n)], axis=1)


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("system", [SPHERE, HYPERBOLIC], ids=["S2", "H3"])
def test_gauss_is_symplectic(system, stages):
    """max |JᵀΩJ − Ω| of one step in (q, p). Expected 4e-16 (in (q, v) it would be 1.8e-3 for one stage)."""
    x = jnp.array([1.1, 0.9, 0.3, 0.4, 0.5, 0.7] if system is HYPERBOLIC else [1.1, 0.3, 0.4, 0.6])
    jacobian = derivative_of_a_step(system, Gauss(stages))(x)
    omega = np.kron([[0, 1], [-1, 0]], np.eye(x.size // 2))
    assert np.max(np.abs(jacobian.T @ omega @ jacobian - omega)) < 1e-13


def test_radau_is_not_symplectic():
    jacobian = derivative_of_a_step(SPHERE, RadauIIA(2))(jnp.array([1.1, 0.3, 0.4, 0.6]))
    omega = np.kron([[0, 1], [-1, 0]], np.eye(2))
    assert np.max(np.abs(jacobian.T @ omega @ jacobian - omega)) > 1e-7


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_gauss_is_reversible(stages):
    """1000 steps there and 1000 back. Expected 2e-14; catches a stopping rule that depends on the direction."""
    there = integrate(SPHERE, [1.1, 0.3], [0.4, 0.7], t1=50.0, steps=1000, method=Gauss(stages), save_every=1000)
    back = integrate(SPHERE, there.q[-1], -there.v[-1], t1=50.0, steps=1000, method=Gauss(stages), save_every=1000)
    np.testing.assert_allclose(back.q[-1], [1.1, 0.3], rtol=0, atol=1e-12)
    np.testing.assert_allclose(back.v[-1], [-0.4, -0.7], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_order_on_a_geodesic(name):
    """Errors against the closed form on the sphere, halving h twice: the order to ±0.25."""
    method = METHODS[name]
    counts = {2: (32, 64, 128), 4: (16, 32, 64), 6: (6, 12, 24), 3: (32, 64, 128), 5: (12, 24, 48)}[
        method.tableau.order
    ]
    point = np.array([np.sin(1.1) * np.cos(0.3), np.sin(1.1) * np.sin(0.3), np.cos(1.1)])
    speed = np.hypot(0.4, 0.7 * np.sin(1.1))
    east, south = (
        np.array([-np.sin(0.3), np.cos(0.3), 0]),
        np.array([np.cos(1.1) * np.cos(0.3), np.cos(1.1) * np.sin(0.3), -np.sin(1.1)]),
    )
    velocity = 0.4 * south + 0.7 * np.sin(1.1) * east
    exact = point * np.cos(2 * speed) + velocity / speed * np.sin(2 * speed)
    errors = []
    for steps in counts:  # One program for all: the same number of steps, of which the first lead to t = 2.
        run = integrate(SPHERE, [1.1, 0.3], [0.4, 0.7], t1=2.0 * counts[-1] / steps, steps=counts[-1], method=method)
        a, b = np.asarray(run.q[steps])
        errors.append(np.linalg.norm([np.sin(a) * np.cos(b), np.sin(a) * np.sin(b), np.cos(a)] - exact))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert abs(orders[-1] - method.tableau.order) < 0.25, (errors, orders)


@pytest.mark.parametrize("name", METHODS)
def test_stability_function(name):
    """y' = λy, one step of h = 1 gives R(λ): stiff members need Newton's method. Expected 3e-16 relative."""
    for z, wanted in zip(case("I01")["inputs"]["z"], case("I01")["reference"][name]["R"], strict=True):
        re, im = float(z[0]), float(z[1])
        matrix = jnp.array([[re, -im], [im, re]])
        system = ODE(Linear(matrix))
        y = integrate(system, [1.0, 0.0], t1=1.0, steps=1, method=METHODS[name]).q[-1]
        np.testing.assert_allclose(y, np.array(wanted, float), rtol=0, atol=1e-13 * np.hypot(*map(float, wanted)))


class Linear(eqx.Module):
    matrix: jax.Array

    def __call__(self, t, y):
        return self.matrix @ y


I03 = case("I03")["reference"]


@pytest.mark.parametrize("name", I03["orders"])
def test_orders_of_the_index_formulations(name):
    """Position, velocity and multiplier orders and errors on the pendulum, against an independent implementation."""
    method, formulation = name.split()
    reference = I03["orders"][name]
    exact = np.array(I03["exact"]["xyuv"], float)
    q0 = np.array([np.sin(1.0), -np.cos(1.0)])
    v0 = 0.3 * np.array([np.cos(1.0), np.sin(1.0)])
    errors, drift = [], []
    for steps in (16, 32):
        method_ = RadauIIA(int(method[-1]), formulation)
        t = integrate(I03_PENDULUM, q0, v0, t1=1.0, steps=steps, method=method_)
        errors.append(
            [
                np.linalg.norm(t.q[-1] - exact[:2]),
                np.linalg.norm(t.v[-1] - exact[2:]),
                abs(-t.multipliers[-1, 0] - float(I03["exact"]["lam"])),
            ]
        )
        drift.append(np.max(np.abs(jnp.sum(t.q**2, axis=1) - 1)) / 2)
    errors = np.array(errors)
    orders = np.log2(errors[0] / errors[1])
    wanted = np.array([float(reference[f"order_{x}"]) for x in ("q", "v", "lambda")])
    assert np.all(orders > wanted - 0.3), (orders, wanted)
    assert np.all(errors[1] < 3 * np.array(reference["err_N32"], float)), (errors[1], reference["err_N32"])
    assert drift[1] < max(1e-13, 3 * float(reference["drift_N32"]))


I03_PENDULUM = pendulum_in_the_plane(1.0)
