"""Steps with constraints as loops over the members of a batch: each gets what it gets alone, in values and derivatives.
What is right is computed apart, as for `test_loop.py`."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.collocated import assert_close, slope

import geodyn as gd


class Held(gd.systems.AbstractSystem):
    """No faster than light on a rod that grows, with drag; the inertia depends on where it is, and grows."""

    gravity: jax.Array
    bend: jax.Array
    length: jax.Array
    drag: jax.Array
    shares: bool = eqx.field(static=True)

    def inertia(self, t, q):
        return (1 + self.bend * q[0] ** 2) * (1 + t)

    def momentum(self, t, q, v):
        w = self.inertia(t, q) * v
        return w / jnp.sqrt(1 - w @ w)

    def velocity(self, t, q, p, v=None):
        return p / jnp.sqrt(1 + p @ p) / self.inertia(t, q)

    def force(self, t, q, v, lam):
        return jnp.stack([0.0, -1.0]) * self.gravity - self.drag * v + lam * q

    def constraint(self, t, q):
        return (q @ q - self.length**2 * (1 + t / 5) ** 2)[None] / 2

    def count_constraints(self, q):
        return 1

    def energy(self, t, q, v):
        return jnp.zeros(())

    def check(self, t, q, v):
        """Whatever it is."""

    @property
    def shares_jacobian(self):
        return self.shares


def held(length, angle, turning, t):
    """(q, v) on the rod."""
    out, along = np.array([np.sin(angle), -np.cos(angle)]), np.array([np.cos(angle), np.sin(angle)])
    return length * (1 + t / 5) * out, length / 5 * out + length * (1 + t / 5) * turning * along


def right_on_the_rod(formulation, numbers, angle, turning, times):
    """The position, the momentum and the multiplier, at which the acceleration keeps to the rod, after three steps of
    RadauIIA(2)."""
    (gravity, bend, length, drag), (t0, h), a = numbers, times, gd.RadauIIA(2).tableau.a

    def inertia(t, q):
        return (1 + bend * q[0] ** 2) * (1 + t)

    q, v = held(length, angle, turning, t0)
    w = inertia(t0, q) * v
    p, w = w / np.sqrt(1 - w @ w), np.array([*v, -gravity / length * np.cos(angle), 0] * 2, complex)

    def stage(t, q, p, u, lam, mu):
        gamma = np.sqrt(1 + p @ p)
        v = u - mu * (q / gamma - p * (p @ q) / gamma**3) / inertia(t, q)
        return v, np.array([0, -gravity]) - drag * v + lam * q

    def off_the_rod(t, q, p, f):
        """The second derivative of the constraint."""
        gamma, rest = np.sqrt(1 + p @ p), inertia(t, q)
        v = p / gamma / rest
        change = (f / gamma - p * (p @ f) / gamma**3) / rest
        change = change - v / (1 + t) - v * 2 * bend * q[0] * v[0] / (1 + bend * q[0] ** 2)
        return v @ v + q @ change - length**2 / 25

    def residual(w, begin, values=False):
        u, (lam, mu) = w.reshape(2, 4)[:, :2], w.reshape(2, 4)[:, 2:].T
        times, at = begin + h * np.array([1 / 3, 1]), q + h * a @ u
        vs, fs = np.transpose([stage(*x) for x in zip(times, at, [p, p], u, lam, mu)], (1, 0, 2))
        momenta = p + h * a @ fs
        if values:
            return at[1], momenta[1]
        rows = []
        for t, q1, v, p1, f, second in zip(times, at, vs, momenta, fs, mu):
            rate = p1 / np.sqrt(1 + p1 @ p1) / inertia(t, q1)
            levels = [q1 @ v - length**2 * (1 + t / 5) / 5, (q1 @ q1 - length**2 * (1 + t / 5) ** 2) / 2 / h]
            if formulation == "index1":
                levels = [off_the_rod(t, q1, p1, f), second]
            rows += [*(v - rate), *levels]
        return np.array(rows)

    for begin in t0 + h * np.arange(3):
        for _ in range(12):
            off = 1e-6 * (1 + np.abs(w).max()) * np.eye(8)
            matrix = np.array([(residual(w + d, begin) - residual(w - d, begin)).real / 2 / d.max() for d in off]).T
            w = w - np.linalg.solve(matrix, residual(w, begin))
        q, p = residual(w, begin, values=True)
    end, v = t0 + 3 * h, p / np.sqrt(1 + p @ p) / inertia(t0 + 3 * h, q)
    free, pulled = (off_the_rod(end, q, p, np.array([0, -gravity]) - drag * v + lam * q) for lam in (0, 1))
    lam = free / (free - pulled)
    return q[0] + 0.3 * p[1] + 0.1 * lam


# The second is stiff, the third far from where the matrices of its guesses serve.
RODS = jnp.array([[1.0, 0.3, 0.9, 0.2], [50.0, 0.1, 0.5, 0.4], [3.0, 0.4, 0.2, 0.1]]), jnp.array([0.5, 0.01, 2.5])
RODS = *RODS, jnp.array([0.2, 0.0, 0.5]), jnp.array([[0.2, 0.02], [0.1, 0.2], [0.0, 0.2]])


@pytest.mark.long
@pytest.mark.parametrize("formulation, shares", [("ggl", True), ("index1", False)])
def test_constraints(formulation, shares):
    """In positions and velocities, by one Jacobian for all stages, or in accelerations, by the whole one: values, both
    derivatives, and in about as many turns as alone (to rounding). Seen: 24, 46 and 68; 9, 29 and 42."""
    method = gd.RadauIIA(2, formulation)

    def last(numbers, angle, turning, times):
        out, along = jnp.stack([jnp.sin(angle), -jnp.cos(angle)]), jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        length = numbers[2] * (1 + times[0] / 5)
        start = length * out, numbers[2] / 5 * out + length * turning * along
        system = Held(*numbers, shares)
        t = gd.integrate(system, *start, t0=times[0], t1=times[0] + 3 * times[1], steps=3, method=method)
        return t.q[-1, 0] + 0.3 * t.p[-1, 1] + 0.1 * t.multipliers[-1, 0], (t.stats.iterations, t.stats.jacobians)

    derived = jax.value_and_grad(last, (0, 1, 2, 3), has_aux=True)
    (values, (iterations, jacobians)), slopes = jax.jit(jax.vmap(derived))(*RODS)
    alone = jax.jit(lambda *x: last(*x)[1])
    for i in range(3):
        x = [y[i] for y in RODS]
        turns, matrices = alone(*x)
        assert abs(matrices - jacobians[i]) <= 1 and abs(turns - iterations[i]) <= 6
        x = [np.asarray(y) for y in x]
        right = partial(right_on_the_rod, formulation)
        assert_close((values[i], tuple(y[i] for y in slopes)), (right(*x).real, tuple(slope(right, *x))), 1e-9)
    changes = jnp.arange(12.0).reshape(3, 4), jnp.ones(3), jnp.arange(3.0), 1 + jnp.arange(6.0).reshape(3, 2)
    forward = jax.jit(lambda x, dx: jax.jvp(jax.vmap(lambda *x: last(*x)[0]), x, dx)[1])(RODS, changes)
    assert_close(forward, sum(jnp.sum((x * dx).reshape(3, -1), 1) for x, dx in zip(slopes, changes)))
    most = {"ggl": [28, 54, 80], "index1": [12, 33, 48]}[formulation]
    assert jacobians[0] == 3 < jacobians[2] and all(iterations <= np.array(most))
