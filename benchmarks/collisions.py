"""Hard spheres in S³: the time of a step of n spheres alone, and of a thousand systems of two to four by vmap.

200 spheres have 19900 pairs. The list of those that are near is what keeps them from being the cost: beside it stands
what the gaps of all pairs and their rates take once; a step without a list needs them about ten times.
"""

import jax
import jax.numpy as jnp
import numpy as np
from timing import exponent, machine, medians, table

import geodyn as gd

SPACE, MEMBERS, H, STEPS, FILLED = gd.spaces.Sphere(3), 1000, 0.02, 40, 0.05
SIZES, FEW = (25, 50, 100, 200), (2, 4)


def spheres(n, seed=0, filled=FILLED, lowest=-0.9):
    """(system, q0, v0) of n equal spheres that fill a part of S³, of volume 2π², at random places above `lowest`: away
    from the one point, at −1, that the chart leaves out."""
    radius = (filled * 2 * np.pi**2 / n / (4 / 3 * np.pi)) ** (1 / 3)
    draw, X = np.random.default_rng(seed), np.zeros((0, 4))
    while len(X) < n:
        new = draw.normal(size=4)
        new /= np.linalg.norm(new)
        if new[3] > lowest and np.all(X @ new < np.cos(2 * radius)):
            X = np.concatenate([X, new[None]])
    q0 = jax.vmap(SPACE.coordinates)(jnp.asarray(X))
    v0 = draw.normal(size=(n, 3)) * (1 + np.sum(np.asarray(q0) ** 2, axis=1, keepdims=True)) / 2
    return gd.System(SPACE, jnp.ones(n), gd.Contact(radius)), q0, jnp.asarray(v0)


def run(system, q0, v0):
    """The last positions, and how many impacts there were."""
    options = {"steps": STEPS, "save_every": STEPS, "max_impacts": 20 * len(q0)}
    t = gd.integrate(system, q0, v0, t1=STEPS * H, **options)
    return t.q[-1], t.impacts.count, t.result


def runner(system, q0, v0, batch=False):
    """A compiled call without arguments."""

    def one(q0, v0):
        return run(system, q0, v0)

    compiled = jax.jit(jax.vmap(one) if batch else one)
    return lambda: compiled(q0, v0)


def all_pairs(system, q0, v0):
    """The same for the gaps of all pairs and their rates."""

    def gap(q):
        return system.gap(jnp.zeros(()), q)

    compiled, at = jax.jit(lambda q, v: jax.jvp(gap, (q,), (v,))), (q0.reshape(-1), v0.reshape(-1))
    return lambda: compiled(*at)


def many():
    """Time a step of n spheres, and its exponent."""
    bodies = {n: spheres(n) for n in SIZES}
    compiled, pairs = ({n: make(*body) for n, body in bodies.items()} for make in (runner, all_pairs))
    times, once = medians(compiled), medians(pairs)
    rows = []
    for n, t in times.items():
        _, count, result = compiled[n]()
        substeps = STEPS + int(count)
        cells = [1e6 * t / STEPS, 1e6 * t / substeps, 1e6 * once[n], t / substeps / once[n]]
        rows.append([str(n), str(int(count)), gd.RESULTS(int(result)).name, *cells])
    head = ["n", "impacts", "result", "a step [µs]", "a substep [µs]", "all gaps, rates [µs]", "substep / that"]
    table(f"n spheres in S³, {STEPS} steps of h = {H}, Gauss 3", head, rows)
    substep = [row[4] for row in rows]
    print(f"time of a substep ~ n^{exponent(SIZES, substep):.2f}")


def batches():
    """Time a step and a member, of a batch and of one."""
    calls = {}
    for n in FEW:
        systems = [spheres(n, seed, 0.1, lowest=0.0) for seed in range(MEMBERS)]
        system, q0, v0 = systems[0][0], *(jnp.stack([s[i] for s in systems]) for i in (1, 2))
        # So slow that none of a thousand comes to the point that the chart leaves out.
        v0 = 0.7 * v0 / jax.vmap(jax.vmap(lambda q, v: gd.norm(SPACE, q, v)))(q0, v0)[..., None]
        calls[n, 1], calls[n, MEMBERS] = runner(system, q0[0], v0[0]), runner(system, q0, v0, batch=True)
    times, rows = medians(calls), []
    for n in FEW:
        one, each = times[n, 1], times[n, MEMBERS] / MEMBERS
        _, count, result = calls[n, MEMBERS]()
        assert not np.any(np.asarray(result))
        rows.append([str(n), f"{np.mean(np.asarray(count)):.1f}", 1e6 * one / STEPS, 1e6 * each / STEPS, one / each])
    head = ["spheres", "impacts each", "one [µs]", f"{MEMBERS} by vmap, each [µs]", "ratio"]
    table(f"Systems of few spheres in S³, a step, {STEPS} steps of h = {H}", head, rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    print(machine())
    many()
    batches()
