"""1000 elastic rods in H³ at once, Gauss 3 at h = 0.1: geodyn under vmap, beside the naive Newton step under vmap.

The naive step is the yardstick: the same stage equations, `jacfwd` of the whole of them and `jnp.linalg.solve` in each
iteration, from a constant guess.
"""

import jax
import jax.numpy as jnp
import numpy as np
from problems import elastic_rod
from timing import machine, medians, table

import geodyn as gd

MEMBERS, H, STEPS, NAIVE_STEPS = 1000, 0.1, 100, 10


def naive_step(system, tableau, h, q, p):
    """One step from flat (q, p), to an increment of the stage velocities below 1e-13."""
    a, b = jnp.array(tableau.a), jnp.array(tableau.b)
    none = jnp.zeros(0)

    def stages(v):
        positions = q[None] + h * a @ v
        return positions, jax.vmap(lambda q, v: system.force(0.0, q, v, none))(positions, v)

    def residual(flat):
        v = flat.reshape(len(b), -1)
        positions, pdot = stages(v)
        momenta = p[None] + h * a @ pdot
        return jax.vmap(lambda q, v, p: system.momentum(0.0, q, v) - p)(positions, v, momenta).ravel()

    def improve(state):
        v, _, count = state
        change = jnp.linalg.solve(jax.jacfwd(residual)(v), residual(v))
        return v - change, jnp.max(jnp.abs(change)), count + 1

    start = jnp.tile(system.velocity(0.0, q, p), len(b)), jnp.inf, 0
    v, _, _ = jax.lax.while_loop(lambda s: (s[1] > 1e-13) & (s[2] < 20), improve, start)
    v = v.reshape(len(b), -1)
    return q + h * b @ v, p + h * b @ stages(v)[1]


def main():
    """Print the table."""
    print(machine())
    _, q0, v0 = elastic_rod()
    stiffness = np.linspace(0.5, 1.5, MEMBERS)
    tableau = gd.Gauss(3).tableau

    def ours(k, steps):
        return gd.integrate(elastic_rod(k)[0], q0, v0, t1=steps * H, steps=steps, save_every=steps).q[-1]

    def naive(k, steps):
        system, q = elastic_rod(k)[0], q0.ravel()

        def one(state, _):
            return (naive_step(system, tableau, H, *state), None)

        return jax.lax.scan(one, (q, system.momentum(0.0, q, v0.ravel())), None, length=steps)[0][0].reshape(2, 3)

    cases = {
        "geodyn, one rod": (ours, 1.0, 1, STEPS),
        "geodyn, 1000 by vmap": (jax.vmap(ours, (0, None)), stiffness, MEMBERS, STEPS),
        "naive Newton, one rod": (naive, 1.0, 1, STEPS),
        "naive Newton, 1000 by vmap": (jax.vmap(naive, (0, None)), stiffness, MEMBERS, NAIVE_STEPS),
    }
    compiled = {name: jax.jit(f, static_argnums=1) for name, (f, *_) in cases.items()}
    calls = {name: lambda f=compiled[name], k=k, n=n: f(k, n) for name, (_, k, _, n) in cases.items()}
    same = compiled["geodyn, 1000 by vmap"](stiffness, NAIVE_STEPS) - calls["naive Newton, 1000 by vmap"]()
    print(f"largest difference of the two after {NAIVE_STEPS} steps: {np.max(np.abs(same)):.1e}")
    times = {n: t / cases[n][2] / cases[n][3] for n, t in medians(calls).items()}
    single, batch = times["geodyn, one rod"], times["geodyn, 1000 by vmap"]
    rows = [[name, 1e6 * time, time / batch, time / single] for name, time in times.items()]
    head = ["per trajectory and step", "time [µs]", "over geodyn's 1000", "over geodyn's one"]
    table("Elastic rods in H³, Gauss 3, h = 0.1", head, rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
