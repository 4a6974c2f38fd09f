"""How the cost of a step grows with the body: chains of n springs, a lattice, a rigid rod; and what springs cost to
compile. All in H³ at h = 0.05."""

import time

import jax
import numpy as np
from problems import chain, elastic_rod, lattice, rigid_rod
from timing import exponent, machine, medians, table

import geodyn as gd

H, STEPS, SIZES = 0.05, 20, (2, 4, 8, 16, 32, 64, 100)


def run(system, q0, v0, steps=STEPS):
    """Positions after some steps, by the default method of the system."""
    return gd.integrate(system, q0, v0, t1=steps * H, steps=steps, save_every=steps).q[-1]


def runner(body):
    """A compiled call without arguments."""
    compiled = jax.jit(lambda q0, v0: run(body[0], q0, v0))
    return lambda: compiled(*body[1:])


def chains():
    """Time per step of chains of n masses, and the exponent."""
    times = medians({n: runner(chain(n)) for n in SIZES})
    rows = [[str(n), 1e6 * t / STEPS, 1e6 * t / STEPS / n, t / times[SIZES[0]]] for n, t in times.items()]
    table("Chain of n masses, Gauss 3", ["n", "time a step [µs]", "per mass [µs]", "ratio to n = 2"], rows)
    n, t = np.array(list(times)), np.array(list(times.values()))
    print(f"time ~ n^{exponent(n, t):.2f} over all n, n^{exponent(n[n >= 8], t[n >= 8]):.2f} from n = 8 on")


def bodies():
    """Time per step of the bodies beside the smallest."""
    named = {
        "elastic rod, Gauss 3": elastic_rod(),
        "rigid rod, Radau IIA 3": rigid_rod(),
        "lattice of 32 masses, Gauss 3": lattice(),
    }
    times = medians({name: runner(body) for name, body in named.items()})
    unit = times["elastic rod, Gauss 3"]
    rows = [[name, 1e6 * t / STEPS, t / unit] for name, t in times.items()]
    table("Bodies", ["body", "time a step [µs]", "ratio to the rod"], rows)


def compile_seconds(system, q0, v0):
    """Tracing and compiling, once more for every call."""
    jax.clear_caches()
    begin = time.perf_counter()
    jax.jit(lambda q0, v0: run(system, q0, v0)).lower(q0, v0).compile()
    return time.perf_counter() - begin


def springs():
    """Compile time of 60 springs and of one, between 12 masses and between 61."""
    net = [(a, b) for a in range(12) for b in range(a)][:60]
    rows = []
    for masses, edges in ((12, net), (61, [(i, i + 1) for i in range(60)])):
        system, q0, v0 = chain(masses)
        space = system.space
        few, many = (gd.System(space, system.masses, gd.Spring(e, 1.0, 0.1)) for e in (edges[:1], edges))
        one, sixty = np.median([[compile_seconds(s, q0, v0) for s in (few, many)] for _ in range(3)], axis=0)
        rows.append([str(masses), one, sixty, sixty / one])
    table("Compile time [s] of springs", ["masses", "1 spring", "60 springs", "ratio"], rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    print(machine())
    chains()
    bodies()
    springs()
