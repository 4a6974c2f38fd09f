"""Long runs: energy errors over 10⁶ steps, and constraints over 10⁵.

An elastic rod flies head first round a great circle of S³, on which it stays (flying broadside it would turn over, and
sooner or later pass the far point of the chart); rods from many initial data are one batch. By Brouwer's law the error
of the energy that rounding leaves grows like the root of the steps, if nothing in the step is systematic (Hairer,
McLachlan & Razakarivony, BIT 48, 2008). Beside geodyn's step stands the naive one: the same tableau, stages iterated
from the slope at the start to a tolerance, increments simply added.

A rigid rod on the same way, by Radau IIA with the constraint, its rate and its acceleration zero after every step.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from timing import elapsed, exponent, machine, table

import geodyn as gd
from geodyn._engine.native import native
from geodyn._integrators.step.collocation import acceleration_level, velocity_level

STEP, SAVES, MEMBERS = 0.01, 500, 32


def rod(stiffness):
    """A rod of length 1 on the unit circle of the stereographic chart, along which rotations move it."""
    angle = np.array([0.5, -0.5])
    q0 = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    force = gd.Rod([(0, 1)], 1.0) if stiffness is None else gd.Spring([(0, 1)], stiffness, 1.0)
    return gd.System(gd.spaces.Sphere(3), [1.0, 1.0], force), q0, np.stack([-q0[:, 1], q0[:, 0], 0 * angle], axis=1)


def naive(system, q, p, tolerance, saves, every):
    """Energies of Gauss 3, stages iterated until they change by less than the tolerance, or no longer less than before.
    As one native function: that changes the time only."""
    tableau, none = gd.Gauss(3).tableau, jnp.zeros(0)
    a, b = jnp.asarray(tableau.a), jnp.asarray(tableau.b)

    def slope(q, p):
        return (v := system.velocity(0.0, q, p), system.force(0.0, q, v, none))

    def step(_, y):
        def improve(state):
            (u, f), change, _ = state
            new = jax.vmap(slope)(y[0] + STEP * (a @ u), y[1] + STEP * (a @ f))
            return new, jnp.maximum(jnp.max(jnp.abs(new[0] - u)), jnp.max(jnp.abs(new[1] - f))), change

        guess = jax.tree.map(lambda x: jnp.tile(x, (3, 1)), slope(*y))

        def proceed(state):
            return (state[1] > tolerance) & (state[1] < state[2])

        u, f = jax.lax.while_loop(proceed, improve, (guess, jnp.asarray(1e300), jnp.asarray(jnp.inf)))[0]
        return y[0] + STEP * (b @ u), y[1] + STEP * (b @ f)

    def several(y, _):
        y = jax.lax.fori_loop(0, every, step, y)
        return y, y

    def run(q, p):
        return jax.lax.scan(several, (q, p), None, length=saves)[1]

    q, p = native(run, q, p)
    return jax.vmap(lambda q, p: system.energy(0.0, q, system.velocity(0.0, q, p)))(q, p)


def energies(steps):
    """The table of energy errors: geodyn, the naive step to 1e-10, and the naive step to rounding."""
    system, q0, v0 = rod(1.0)
    rng = np.random.default_rng(0)
    q, v = (jnp.asarray(x + 0.1 * rng.normal(size=(MEMBERS, 2, 3))) for x in (q0, v0))
    every = steps // SAVES

    def careful(q, v):
        return gd.integrate(system, q, v, t1=STEP * steps, steps=steps, save_every=every).energy[1:]

    def plain(q, v, tolerance):
        flat = q.reshape(-1)
        return naive(system, flat, system.momentum(0.0, flat, v.reshape(-1)), tolerance, SAVES, every)

    start = jax.vmap(lambda q, v: gd.energy(system, q, v))(q, v)
    careful, plain = jax.jit(jax.vmap(careful)), jax.jit(jax.vmap(plain, (0, 0, None)))
    runs = {"geodyn": (careful, ()), "naive, to 1e-10": (plain, (1e-10,)), "naive, to rounding": (plain, (0.0,))}
    rows = []
    for name, (run, more) in runs.items():
        seconds, energy = elapsed(lambda run=run, more=more: run(q, v, *more))
        error = np.asarray((energy - start[:, None]) / start[:, None])
        rms, mean = np.sqrt(np.mean(error**2, axis=0)), np.mean(error, axis=0)
        late = slice(SAVES // 50, None)
        count = every * (1 + np.arange(SAVES))
        # Of rms/√members the mean of errors without a trend would be.
        trend = abs(mean[-1]) / rms[-1] * MEMBERS**0.5
        rows.append([name, *rms[[0, SAVES // 10 - 1, -1]], exponent(count[late], rms[late]), trend, seconds])
    head = ["step", f"{every:.0e} steps", f"{steps / 10:.0e}", f"{steps:.0e}", "exponent", "mean·√n/rms", "seconds"]
    table(f"Relative energy error, rms of {MEMBERS} elastic rods, h = {STEP}", head, rows)


def constraints(steps):
    """The table of constraint residuals along a rigid rod."""
    system, q0, v0 = rod(None)
    q0, v0 = gd.project(system, q0, v0 + np.array([[0.05, 0.1, 0.2], [0.0, -0.1, 0.1]]))
    method, h = gd.RadauIIA(3, "rs3"), 0.05
    t = gd.integrate(system, q0, v0, t1=h * steps, steps=steps, save_every=max(1, steps // 1000), method=method)

    def residuals(t, q, v, p, lam):
        q, v, p, one = q.reshape(-1), v.reshape(-1), p.reshape(-1), jnp.ones(())
        at = (system, one, t, q, v, p, lam)
        return jnp.stack([system.constraint(t, q), velocity_level(*at), acceleration_level(*at)])

    levels = np.abs(jax.vmap(residuals)(t.t, t.q, t.v, t.p, t.multipliers))[..., 0]
    rows = [[name, *levels[[1, len(levels) // 10], i], levels[1:, i].max()] for i, name in enumerate(LEVELS)]
    table(f"Rigid rod, Radau IIA 3 'rs3', h = {h}", ["constraint", "first", f"{steps / 10:.0e} steps", "largest"], rows)
    drift = abs(t.energy - t.energy[0]).max() / t.energy[0]
    print(f"energy: largest relative error {float(drift):.2g}; farthest from the circle {abs(far(t.q)).max():.2g}")


LEVELS = ("position", "velocity", "acceleration")


def far(q):
    return jnp.linalg.norm(q, axis=-1) - 1


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10**6)
    steps = parser.parse_args().steps
    print(machine())
    energies(steps)
    constraints(steps // 10)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
