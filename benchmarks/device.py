"""Batches of 1 to 10⁶ elastic rods in H³ to t = 10 on whatever device there is, beside diffrax under `vmap`: time of a
member, its gradient, and the memory that a member takes.

    python benchmarks/device.py [LARGEST]

geodyn takes 100 steps of Gauss 3, diffrax Dopri8 with an adaptive step at like accuracy, with the same equations
of motion. A batch that would take longer than five minutes, or more than 12 GB, is left out.
"""

import sys

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from problems import elastic_rod  # noqa: E402
from timing import elapsed, machine, table  # noqa: E402

import geodyn as gd  # noqa: E402

T1, STEPS, LONGEST, LARGEST = 10.0, 100, 300.0, 12e9


def ours(scale):
    system, q0, v0 = elastic_rod()
    return gd.integrate(system, q0, scale * v0, t1=T1, steps=STEPS, save_every=STEPS, throw=False).q[-1].reshape(-1)


def diffrax_of():
    """The same by diffrax, or None."""
    try:
        import diffrax
    except ImportError:
        return None
    system, q0, v0 = elastic_rod()
    none = jnp.zeros(0)

    def rate(t, y, _):
        q, p = y
        v = system.velocity(t, q, p)
        return v, system.force(t, q, v, none)

    def end(scale):
        q = q0.reshape(-1)
        start = q, system.momentum(0.0, q, scale * v0.reshape(-1))
        control = diffrax.PIDController(rtol=1e-7, atol=1e-7)
        options = {"stepsize_controller": control, "saveat": diffrax.SaveAt(t1=True), "max_steps": 4096}
        return diffrax.diffeqsolve(diffrax.ODETerm(rate), diffrax.Dopri8(), 0.0, T1, 0.1, start, **options).ys[0][-1]

    return end


def slope(function):
    return jax.grad(lambda scale: jnp.sum(function(scale)))


def row(function, size):
    """(seconds of a member, bytes of a member); compiled before."""
    scales = jnp.linspace(0.9, 1.1, size)
    run = jax.jit(jax.vmap(function)).lower(scales).compile()
    stats = run.memory_analysis()
    seconds = elapsed(lambda: run(scales))[0]
    if seconds < 5:
        seconds = float(np.median([elapsed(lambda: run(scales))[0] for _ in range(3)]))
    return seconds / size, (stats.temp_size_in_bytes + stats.output_size_in_bytes) / size


def main():
    print(machine())
    peer, largest = diffrax_of(), int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**6
    cases = {
        "geodyn": ours,
        "diffrax": peer,
        "geodyn, gradient": slope(ours),
        "diffrax, gradient": peer and slope(peer),
    }
    rows, last = [], {}
    for size in (10**i for i in range(7)):
        for name, function in cases.items():
            before = last.get(name, (0.0, 0.0))
            if function is not None and size <= largest and 10 * before[0] < LONGEST and 10 * before[1] < LARGEST:
                seconds, memory = row(function, size)
                last[name] = seconds * size, memory * size
                rows.append([f"{size:g}", name, 1e6 * seconds / STEPS, memory])
    head = ["members", "", "µs / member / 100", "bytes / member"]
    table("Elastic rods in H³ to t = 10", head, rows)


if __name__ == "__main__":
    main()
