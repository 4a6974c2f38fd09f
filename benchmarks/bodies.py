"""Rigid rods and triangles, a lattice, and long chains in H³: steps a second, alone and in batches by `vmap`; the rigid
rod beside CasADi's IDAS, posed to it by hand as a system of index 1; the cost of a step against the length of a chain.
"""

import jax
import numpy as np
from orders import SPACES, embedded_end, rigid
from problems import chart, lattice
from timing import exponent, machine, medians, table

import geodyn as gd

H, STEPS = 0.02, 100
THESIS = {"rigid rod": "19 to 63", "rigid triangle": "0.2 to 4"}
"""Steps a second of the thesis's own solver with rs3: 16–54 ms and 240–6000 ms a step on a machine of this class."""
T1, TOLERANCE = 5.0, 1e-9
SIZES = (30, 100, 300, 1000)
ACROSS = 4


def bodies():
    """name: (members of a batch, method, system, q0, v0)."""
    rod, triangle = rigid("rod", "H3"), rigid("triangle", "H3")
    return {
        "rigid rod, ggl": (1000, gd.RadauIIA(3), *rod),
        "rigid rod, rs3": (1000, gd.RadauIIA(3, "rs3"), *rod),
        "rigid triangle, ggl": (1000, gd.RadauIIA(3), *triangle),
        "rigid triangle, rs3": (1000, gd.RadauIIA(3, "rs3"), *triangle),
        "lattice of 100 masses, Gauss 3": (1000, gd.Gauss(3), *lattice(10, 10)),
    }


def runs(members, method, system, q0, v0):
    """Compiled calls without arguments: one body, and a batch with velocities of all sizes."""

    def end(v):
        return gd.integrate(system, q0, v, t1=STEPS * H, steps=STEPS, save_every=STEPS, method=method).q[-1]

    one, many = jax.jit(end), jax.jit(jax.vmap(end))
    batch = np.linspace(0.5, 1.0, members)[:, None, None] * v0
    return lambda: one(v0), lambda: many(batch)


def speeds():
    """Steps a second of every body."""
    rows = []
    for name, (members, *body) in bodies().items():
        times = medians(dict(zip(("one", "many"), runs(members, *body))))
        alone, together = STEPS / times["one"], members * STEPS / times["many"]
        rows.append([name, alone, f"{members}", together, together / alone, THESIS.get(name.split(",")[0], "")])
    table("Steps a second", ["body", "alone", "batch of", "together", "ratio", "the thesis"], rows)


def idas():
    """A call to CasADi's IDAS for the rigid rod in H³, to [X, V] in the embedding; a, b, λ follow from the constraints
    differentiated twice."""
    import casadi

    system, q0, v0 = rigid("rod", "H3")
    X, V, z = (casadi.SX.sym(name, *shape) for name, shape in (("X", (4, 2)), ("V", (4, 2)), ("z", (3,))))
    metric, masses = casadi.diag(casadi.SX([1, 1, 1, -1])), np.asarray(system.masses)
    A = [(z[i] * X[:, i] + z[2] * X[:, 1 - i]) / masses[i] for i in range(2)]

    def inner(x, y):
        return casadi.dot(x, metric @ y)

    own = [inner(A[i], X[:, i]) + inner(V[:, i], V[:, i]) for i in range(2)]
    joint = inner(A[0], X[:, 1]) + inner(A[1], X[:, 0]) + 2 * inner(V[:, 0], V[:, 1])
    x = casadi.vertcat(casadi.vec(X), casadi.vec(V))
    dae = {"x": x, "z": z, "ode": casadi.vertcat(casadi.vec(V), *A), "alg": casadi.vertcat(*own, joint)}
    options = {"reltol": TOLERANCE, "abstol": TOLERANCE, "max_num_steps": 100000}
    solver = casadi.integrator("solver", "idas", dae, 0.0, T1, options)
    start = np.ravel(jax.vmap(lambda q, v: jax.jvp(system.space.embed, (q,), (v,)))(q0, v0))

    return lambda: np.array(solver(x0=start, z0=[-1.0, -1.0, 0.5])["xf"])


def beside_idas():
    """Time of the motion of one rod at like accuracy."""
    system, q0, v0 = rigid("rod", "H3")

    def ours(steps):
        run = jax.jit(lambda v: gd.integrate(system, q0, v, t1=T1, steps=steps, save_every=steps).q[-1])
        return lambda: run(v0)

    calls = {"geodyn Radau IIA 3, 100 steps": ours(100), "geodyn Radau IIA 3, 200 steps": ours(200)}
    try:
        calls["CasADi, IDAS"] = idas()
    except ImportError:
        print("casadi is not installed: its row is left out (pip install casadi)")
    times, wanted = medians(calls), embedded_end("rod", "H3", T1)[0]
    unit = times["geodyn Radau IIA 3, 100 steps"]

    def in_chart(end):
        return end if end.shape == (2, 3) else chart(system.space, *end.reshape(2, 2, 4))[0]

    errors = {name: float(np.max(np.abs(in_chart(call()) - wanted))) for name, call in calls.items()}
    rows = [[name, 1e3 * time, errors[name], time / unit] for name, time in times.items()]
    table(f"Rigid rod in H³ to t = {T1:g}", ["method", "time [ms]", "error", "ratio to first"], rows)


def waving(shape, stiffness):
    """(system, q0, v0): masses in rows of this shape on springs, or rods for None, with a wave along."""
    system, q0 = gd.builders.lattice(SPACES["H3"], shape, 2.0 / shape[0], stiffness=stiffness, diagonals=len(shape) > 1)
    wave = 0.1 * np.stack([0 * q0[:, 0], np.sin(3 * q0[:, 0]), np.cos(2 * q0[:, 0])], axis=1)
    return system, *gd.project(system, q0, wave)


def scaling(sizes=SIZES):
    """Time of a step against the number of masses: plain iteration on soft springs, Newton's on stiff ones and rods."""
    kinds = {"chain, soft springs": (1, 1.0), "chain, stiff springs": (1, 1e6), "chain, rigid rods": (1, None)}
    kinds |= {"strip, soft springs": (ACROSS, 1.0), "strip, stiff springs": (ACROSS, 1e4)}
    for name, (across, stiffness) in kinds.items():
        times, turns = {}, []
        for n in sizes:
            system, q0, v0 = waving((n,) if across == 1 else (n // across, across), stiffness)
            run = jax.jit(lambda v, s=system, q=q0: gd.integrate(s, q, v, t1=10 * H, steps=10, save_every=10))
            end = run(v0)
            assert int(end.result) == 0, f"{name} of {n}: {gd.RESULTS(int(end.result)).message}"
            turns.append((int(end.stats.iterations) / 10, int(end.stats.jacobians) / 10))
            times |= medians({n: lambda run=run, v=v0: run(v).q})
        rows = [[str(n), 1e5 * t, 1e5 * t / n, *k] for (n, t), k in zip(times.items(), turns)]
        head = ["n", "time a step [µs]", "per mass [µs]", "iterations", "Jacobians"]
        table(f"{name}, of n masses", head, rows)
        print(f"time ~ n^{exponent(list(times), list(times.values())):.2f}")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    print(machine())
    beside_idas()
    scaling()
    speeds()
