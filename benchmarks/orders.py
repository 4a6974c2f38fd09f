"""Orders of Radau IIA in position, velocity and multiplier: rigid rods and triangles in generic motion in S³ and H³.

Errors are the largest coordinate's at the end, against the same motion in the embedding space, where distances are
inner products and the accelerations have a closed form: integrated by SciPy's DOP853, which shares nothing with
geodyn. And what long runs leave of the constraints.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from problems import chart
from scipy.integrate import solve_ivp
from timing import exponent, machine, table

import geodyn as gd
from geodyn._integrators.step.collocation import acceleration_level, position_level, velocity_level

T1, PIECE, PIECES = 2.0, 10, (1, 2, 4, 8, 16, 32, 64)
ROUNDING, WINDOW = 1e-11, 3
SPACES = {"S3": gd.spaces.Sphere(3), "H3": gd.spaces.Hyperbolic(3)}
METHODS = [(2, name) for name in ("index3", "index2", "ggl", "index1", "rs2")]
METHODS += [(3, name) for name in ("index3", "index2", "ggl", "index1", "rs3")]


def rigid(body, space):
    """(system, q0, v0): a rigid rod or triangle of unequal masses, tumbling."""
    count = {"rod": 2, "triangle": 3}[body]
    system, q0 = getattr(gd, body)(SPACES[space], 0.8, masses=[1.0, 1.7, 1.3][:count], stiffness=None)
    v0 = np.array([[0.3, 0.1, 0.4], [-0.2, 0.3, 0.1], [0.1, -0.3, 0.2]])
    return system, *gd.project(system, q0, v0[:count])


def embedded_end(body, space, t1=T1):
    """(q, v, λ) at t1: m X_i'' = Σ_j b_ij X_j, where b keeps every <X_i, X_j>, twice differentiated."""
    system, q0, v0 = rigid(body, space)
    count, masses = len(q0), np.asarray(system.masses)[:, None]
    metric = np.array([1, 1, 1, 1 if space == "S3" else -1])
    pairs = [(i, i) for i in range(count)] + list(itertools.combinations(range(count), 2))

    def coefficients(X, V):
        pull = np.zeros((len(pairs), *X.shape))
        for k, (i, j) in enumerate(pairs):
            pull[k, i], pull[k, j] = X[j], X[i]
        rates = [(2 - (i == j)) * np.sum(metric * V[i] * V[j]) for i, j in pairs]
        return -np.linalg.solve(np.einsum("kia,a,lia->kl", pull, metric, pull / masses), rates), pull

    def rate(_, y):
        X, V = y.reshape(2, count, 4)
        b, pull = coefficients(X, V)
        return np.stack([V, np.tensordot(b, pull, 1) / masses]).ravel()

    embed = jax.vmap(lambda q, v: jax.jvp(system.space.embed, (q,), (v,)))
    y = solve_ivp(rate, (0, t1), np.ravel(embed(q0, v0)), "DOP853", rtol=1e-13, atol=1e-15).y[:, -1]
    X, V = y.reshape(2, count, 4)
    # The gradient of <X, Y> is that of the distance d times −sin d or −sinh d.
    slope = -np.sin(0.8) if space == "S3" else -np.sinh(0.8)
    return *chart(system.space, X, V), slope * coefficients(X, V)[0][count:]


def errors(system, q0, v0, end, stages, formulation, t1=T1):
    """[pieces, 3] errors of q, v, λ; one compiled run of the most steps serves every step size, and goes on beyond t1
    if the steps are longer."""
    method, most = gd.RadauIIA(stages, formulation), PIECE * PIECES[-1]

    @jax.jit
    def run(h):
        run = gd.integrate(system, q0, v0, t1=most * h, steps=most, save_every=PIECE, method=method, throw=False)
        return run.q, run.v, run.multipliers

    found = []
    for pieces in PIECES:
        rows = run(t1 / pieces / PIECE)
        found.append([np.max(np.abs(x[pieces] - b)) for x, b in zip(rows, end)])
    return np.array(found)


def order(errors):
    """Slope of log(error) over log(h) on the last `WINDOW` step sizes whose error is above `ROUNDING`."""
    seen = np.flatnonzero(errors > ROUNDING)[-WINDOW:]
    return exponent(1 / np.array(PIECES)[seen], errors[seen])


def residuals(system, q, v, lam):
    """Largest |φ|, |dφ/dt| and |d²φ/dt²| at q, v, λ."""
    t, q, v = jnp.zeros(()), q.ravel(), v.ravel()
    at = system, 1.0, t, q, v, system.momentum(t, q, v), lam
    return [jnp.max(jnp.abs(level(*at))) for level in (position_level, velocity_level, acceleration_level)]


def drift():
    """What 10⁵ steps leave of the constraints: a rod of unequal masses tumbling in a potential that it cannot leave."""
    rows = []
    for (name, space), formulation in itertools.product(SPACES.items(), ("rs3", "ggl")):
        rod = gd.builders.rod(space, 1.0, masses=[1.0, 2.0], stiffness=None)
        system, q0 = gd.builders.combine(rod, elements=[gd.Harmonic(5.0, [0.1, -0.1, 0.05])])
        q0, v0 = gd.project(system, q0, [[0.3, 0.1, 0.4], [-0.2, 0.3, 0.1]])
        method = gd.RadauIIA(3, formulation)
        run = gd.integrate(system, q0, v0, t1=1000.0, steps=100_000, save_every=500, method=method)
        worst = np.max(jax.vmap(lambda *x, s=system: residuals(s, *x))(run.q, run.v, run.multipliers), axis=1)
        rows.append([f"{name}, {formulation}", *map(float, worst)])
    head = ["3 stages, h = 0.01", "position", "velocity", "acceleration"]
    table("Largest residuals over 10⁵ steps of a rigid rod", head, rows)


def main():
    """Print a table for each body and space, and one of residuals."""
    print(machine())
    drift()
    for body, space in itertools.product(("rod", "triangle"), SPACES):
        start, end, rows = rigid(body, space), embedded_end(body, space), []
        for stages, formulation in METHODS:
            e = errors(*start, end, stages, formulation)
            rows.append([f"{stages} stages, {formulation}", *map(order, e.T), *e[-1]])
        head = ["method", "order of q", "of v", "of λ", "error of q", "of v", "of λ"]
        table(f"Rigid {body} in {space}, t = {T1:g}", head, rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
