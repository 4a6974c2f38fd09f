"""One elastic rod in H³ to t = 10: geodyn beside diffrax, SciPy and CasADi, one core each way, at like accuracy.

Error: the largest coordinate of the final positions, against the reduced equations that the symmetry leaves.
"""

import math
import os
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from handwritten import rod_rate
from problems import elastic_rod, elastic_rod_end
from scipy.integrate import solve_ivp
from timing import machine, medians, table

import geodyn as gd

T1 = 10.0


def of_geodyn(system, q0, v0):
    """Inside a jitted function, as in a larger computation; and called from Python as it is."""

    def end(q0, v0, stages, steps):
        return gd.integrate(system, q0, v0, t1=T1, steps=steps, method=gd.Gauss(stages), save_every=steps).q[-1]

    inside = jax.jit(end, static_argnums=(2, 3))
    chosen = {"Gauss 3, 100 steps": (3, 100), "Gauss 3, 200 steps": (3, 200), "Gauss 4, 50 steps": (4, 50)}
    calls = {f"geodyn {name}": lambda s=sizes: inside(q0, v0, *s) for name, sizes in chosen.items()}
    return calls | {"geodyn Gauss 3, 100 steps, called eagerly": lambda: end(q0, v0, 3, 100)}


def of_diffrax(system, q0, v0):
    """(q, p) with geodyn's own right-hand side, by autodiff from the Lagrangian, and (q, v) by hand."""
    try:
        import diffrax
    except ImportError:
        return skipped("diffrax")

    def rate(t, y, _):
        v = system.velocity(t, *y)
        return v, system.force(t, y[0], v, jnp.zeros(0))

    def by_hand(t, y, _):
        return jnp.stack(rod_rate(jnp, t, y))

    def call(rate, solver, tolerance, y0):
        control = diffrax.PIDController(rtol=tolerance, atol=tolerance)
        term, at_end = diffrax.ODETerm(rate), diffrax.SaveAt(t1=True)

        def solve(y):
            return diffrax.diffeqsolve(term, solver, 0.0, T1, 0.1, y, stepsize_controller=control, saveat=at_end)

        run = jax.jit(lambda y: solve(y).ys)
        return lambda: jax.tree.leaves(run(y0))[0][-1, ..., :6]

    canonical = q0.ravel(), system.momentum(0.0, q0.ravel(), v0.ravel())
    return {
        "diffrax Dopri8, same right-hand side": call(rate, diffrax.Dopri8(), 1e-7, canonical),
        "diffrax Dopri8, written by hand": call(by_hand, diffrax.Dopri8(), 1e-8, jnp.concatenate([q0, v0]).ravel()),
        "diffrax Kvaerno5, same right-hand side": call(rate, diffrax.Kvaerno5(), 1e-6, canonical),
    }


def of_scipy(_, q0, v0):
    """The right-hand side by hand on Python floats, which NumPy scalars would only slow down."""
    y0 = np.concatenate([q0, v0]).ravel()

    def rate(t, y):
        return rod_rate(math, t, y.tolist())

    def solve(method, tolerance):
        return solve_ivp(rate, (0, T1), y0, method, rtol=tolerance, atol=tolerance).y[:6, -1]

    return {
        "SciPy DOP853, written by hand": lambda: solve("DOP853", 1e-8),
        "SciPy Radau, written by hand": lambda: solve("Radau", 1e-7),
    }


def of_casadi(_, q0, v0):
    """Collocation of order 6 and 5 in (q, v), symbolic right-hand side by hand; also as C, compiled by cc."""
    try:
        import casadi
    except ImportError:
        return skipped("casadi")
    y0, x = np.concatenate([q0, v0]).ravel(), casadi.SX.sym("x", 12)
    dae = {"x": x, "ode": casadi.vertcat(*rod_rate(casadi, 0.0, casadi.vertsplit(x)))}

    def integrator(scheme):
        options = {"collocation_scheme": scheme, "interpolation_order": 3, "number_of_finite_elements": 100}
        options |= {"simplify": True, "rootfinder": "fast_newton"}
        solver, start = casadi.integrator("solver", "collocation", dae, 0.0, T1, options), casadi.MX.sym("start", 12)
        return casadi.Function("run", [start], [solver(x0=start)["xf"][:6]])

    legendre = integrator("legendre")
    calls = {"legendre 3 x 100": legendre, "radau 3 x 100": integrator("radau")}
    folder, here = tempfile.mkdtemp(), os.getcwd()
    os.chdir(folder)  # CasADi writes where it stands
    legendre.generate("run.c")
    compiler = casadi.Importer("run.c", "shell", {"flags": ["-O3", "-march=native"]})
    os.chdir(here)
    calls["legendre 3 x 100, generated C"] = casadi.external("run", compiler)
    return {f"CasADi collocation {name}": lambda run=run: run(y0).full() for name, run in calls.items()}


def skipped(name):
    """No calls, and a line that says why."""
    print(f"{name} is not installed: its rows are left out (pip install {name})")
    return {}


def main():
    """Print the table."""
    print(machine())
    body, end = elastic_rod(), np.ravel(elastic_rod_end(T1)[0])
    calls = of_geodyn(*body) | of_diffrax(*body) | of_scipy(*body) | of_casadi(*body)
    times = medians(calls)
    unit = times["geodyn Gauss 3, 100 steps"]
    errors = {name: np.max(np.abs(np.ravel(call()) - end)) for name, call in calls.items()}
    rows = [[name, 1e3 * time, errors[name], time / unit] for name, time in times.items()]
    table("Elastic rod in H³ to t = 10", ["method", "time [ms]", "error", "ratio to first"], rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
