"""Purcell's optimal stroke: geodyn beside CasADi with IPOPT and exact Hessians, on the same problem.

Equal links, drag ratio 2; least energy at net displacement D without net rotation, heading free. 17 Fourier
coefficients a joint, 96 Magnus steps of order 6 on three Gauss nodes each, and the same first ellipse for both.
"""

import jax
import jax.numpy as jnp
import numpy as np
from timing import elapsed, machine, medians, table

import geodyn as gd
from geodyn._control.search.starts import _coarse
from geodyn._engine.jit import jit

HARMONICS, STEPS = 8, 96


def first_ellipse(displacement):
    """Coefficients [2, 17] of the mean, cosines, sines of an ellipse about the straight shape, near the best."""
    both, apart = 2.0 * displacement**0.5, -3.2 * displacement**0.5
    coefficients = np.zeros((2, 1 + 2 * HARMONICS))
    coefficients[:, 1] = both / 2**0.5
    coefficients[:, 1 + HARMONICS] = np.array([-apart, apart]) / 2**0.5
    return coefficients


def of_geodyn(displacement):
    """A call that returns the optimal stroke."""
    mean, cosine, sine = np.split(first_ellipse(displacement), [1, 1 + HARMONICS], axis=1)
    guess = gd.FourierStroke(mean[:, 0], cosine, sine)
    swimmer, method = gd.swimmers.Purcell(), gd.Direct(harmonics=HARMONICS, steps=STEPS)
    return lambda: gd.optimal_stroke(swimmer, guess, displacement=displacement, method=method)


def purcell(ca):
    """CasADi function (r, r') -> (ξ, power) of Purcell's swimmer by resistive-force theory, c_t = 1, c_n = 2."""
    r, u = ca.SX.sym("r", 2), ca.SX.sym("u", 5)
    x = ca.vertcat(-(1 + ca.cos(r[0])) / 2, 0, (1 + ca.cos(r[1])) / 2)
    y, angle = ca.vertcat(ca.sin(r[0]) / 2, 0, ca.sin(r[1]) / 2), ca.vertcat(-r[0], 0, r[1])
    xdot, ydot, turn = (ca.jtimes(z, r, u[3:]) for z in (x, y, angle))
    along, across, turn = u[0] - u[2] * y + xdot, u[1] + u[2] * x + ydot, u[2] + turn
    cos, sin = ca.cos(angle), ca.sin(angle)
    power = ca.sumsqr(cos * along + sin * across) + 2 * ca.sumsqr(cos * across - sin * along) + ca.sumsqr(turn) / 6
    R = ca.hessian(power, u)[0] / 2
    form = ca.solve(R[:3, :3], R[:3, 3:])
    metric = R[3:, 3:] - R[3:, :3] @ form
    rdot = ca.SX.sym("rdot", 2)
    return ca.Function("purcell", [r, rdot], [-form @ rdot, rdot.T @ metric @ rdot])


def magnus_step(ca):
    """CasADi function: body velocities [3, 3] (columns) at the nodes of a step -> (translation, turn) of the step."""
    xi, h = ca.SX.sym("xi", 3, 3), 1 / STEPS
    J = ca.DM([[0, -1], [1, 0]])

    def bracket(a, b):
        return ca.vertcat(a[2] * J @ b[:2] - b[2] * J @ a[:2], 0)

    a1, a2 = h * xi[:, 1], np.sqrt(15) / 3 * h * (xi[:, 2] - xi[:, 0])
    a3 = 10 / 3 * h * (xi[:, 2] - 2 * xi[:, 1] + xi[:, 0])
    c1 = -bracket(a1, a2)
    c2 = bracket(a1, 2 * a3 + c1) / 60
    e = a1 + a3 / 12 - bracket(-20 * a1 - a3 + c1, a2 + c2) / 240
    half = e[2] / 2
    chord = 1 - half**2 / 6 * (1 - half**2 / 20 * (1 - half**2 / 42))  # sin(half)/half
    return ca.Function("step", [xi], [chord * (ca.cos(half) * e[:2] + ca.sin(half) * J @ e[:2]), e[2]])


def of_casadi(ca):
    """IPOPT's solver of the problem, with D as its parameter: a call D -> solution."""
    nodes = (np.arange(STEPS)[:, None] + 0.5 + np.sqrt(0.15) * np.array([-1, 0, 1])).ravel() / STEPS
    wave, angle = 2 * np.pi * np.arange(1, HARMONICS + 1)[:, None], 2 * np.pi * np.outer(range(1, HARMONICS + 1), nodes)
    basis = np.concatenate([np.ones((1, nodes.size)), np.cos(angle), np.sin(angle)])
    slope = np.concatenate([np.zeros((1, nodes.size)), -wave * np.sin(angle), wave * np.cos(angle)])
    x, D = ca.MX.sym("x", 2, len(basis)), ca.MX.sym("D")
    xi, power = purcell(ca).map(nodes.size)(x @ basis, x @ slope)
    moves, turns = magnus_step(ca).map(STEPS)(xi)
    heading = turns @ np.triu(np.ones((STEPS, STEPS)), 1)  # before each step
    cos, sin = ca.cos(heading), ca.sin(heading)
    end = ca.vertcat(ca.sum2(cos * moves[0, :] - sin * moves[1, :]), ca.sum2(sin * moves[0, :] + cos * moves[1, :]))
    weights = np.tile(np.array([5, 8, 5]) / 18 / STEPS, STEPS)
    constraints = ca.vertcat(ca.norm_2(end) / D - 1, ca.sum2(turns))
    problem = {"x": ca.vec(x), "p": D, "f": power @ weights, "g": constraints}
    options = {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes", "tol": 1e-10}}
    solver = ca.nlpsol("solver", "ipopt", problem, options)

    def start(d):
        return first_ellipse(d).T.ravel()

    return lambda d: solver(x0=start(d), p=d, lbg=0, ubg=0)


def many_starts():
    """Print what the search from 64 random starts costs, D = 0.25, beside 16 of them one by one, which end when they
    have converged and not when the last of all has."""
    region, limits = (jnp.full(2, -np.pi), jnp.full(2, np.pi)), (jnp.zeros(0), jnp.zeros(0))
    keys = jax.random.split(jax.random.key(0), 64)
    one_vmap = jit(_coarse.__wrapped__)

    def search(run, keys):
        return run(gd.swimmers.Purcell(), jnp.asarray(0.25), region, limits, (), keys)

    calls = {i: lambda i=i: search(_coarse, keys[i : i + 1]) for i in range(16)}
    calls |= {"all": lambda: search(_coarse, keys), "one vmap": lambda: search(one_vmap, keys)}
    times = medians(calls, seconds=0.5)
    together, in_one = times.pop("all"), times.pop("one vmap")
    alone = sorted(times.values())
    rows = [
        [name, time, together / time, in_one / time]
        for name, time in (
            ("64, a vmap on each core", together),
            ("64 in one vmap, on one core", in_one),
            ("one alone, the quickest of 16", alone[0]),
            ("one alone, median", float(np.median(alone))),
            ("one alone, the slowest of 16", alone[-1]),
        )
    ]
    title = "Random starts of the search for all optima, Purcell, D = 0.25"
    table(title, ["starts", "time [s]", "64 on all cores / this", "64 on one core / this"], rows)


def main():
    """Print the tables."""
    print(machine())
    try:
        import casadi
    except ImportError:
        print("casadi is not installed: its rows are left out (pip install casadi)")
        casadi = None
    rows = []
    for D in (0.1, 0.25):
        jax.clear_caches()
        ours = of_geodyn(D)
        cold = {"geodyn": elapsed(ours)[0]}
        calls = {"geodyn": ours}
        if casadi is not None:
            cold["CasADi + IPOPT"] = elapsed(lambda D=D: of_casadi(casadi)(D))[0]
            solver = of_casadi(casadi)
            calls["CasADi + IPOPT"] = lambda D=D, solver=solver: solver(D)
        warm = medians(calls)
        for name, call in calls.items():
            found = call()
            energy, slope = (found.cost, found.multiplier) if name == "geodyn" else (found["f"], -found["lam_g"][0] / D)
            figures = [f"{float(energy):.12f}", f"{float(slope):.9f}", cold[name], warm[name]]
            rows.append([f"{name}, D = {D}", *figures, cold[name] / cold["geodyn"], warm[name] / warm["geodyn"]])
    head = ["method", "energy", "dE/dD", "cold [s]", "warm [s]", "ratio cold", "ratio warm"]
    table("Purcell's optimal stroke", head, rows)
    many_starts()


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
