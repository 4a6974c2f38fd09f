"""The elastic rod in H³ over 1000 steps of Gauss 3: what derivatives cost beside the trajectory, and how true they are.

Differentiated: a weighted sum of the final positions, with respect to q0, v0 and the stiffness, 13 numbers.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from problems import elastic_rod
from timing import machine, medians, table

import geodyn as gd

T1, STEPS = 10.0, 1000


def main():
    """Print the tables."""
    print(machine())
    _, q0, v0 = elastic_rod()
    at, unflatten = ravel_pytree((q0, v0, jnp.array(1.0)))
    rng = np.random.default_rng(0)
    weights, direction = rng.normal(size=(2, 3)), rng.normal(size=13) / 13**0.5

    def value(flat):
        q, v, stiffness = unflatten(flat)
        end = gd.integrate(elastic_rod(stiffness)[0], q, v, t1=T1, steps=STEPS, save_every=STEPS).q[-1]
        return jnp.sum(weights * end)

    functions = {
        "trajectory": value,
        "gradient, reverse mode": jax.grad(value),
        "one directional derivative": lambda x: jax.jvp(value, (x,), (jnp.asarray(direction),))[1],
        "gradient, forward mode": jax.jacfwd(value),
    }
    compiled = {name: jax.jit(f) for name, f in functions.items()}
    times = medians({name: lambda f=f: f(at) for name, f in compiled.items()})
    unit = times["trajectory"]
    rows = [[name, 1e3 * time, time / unit] for name, time in times.items()]
    table("Elastic rod, Gauss 3, 1000 steps", ["computation", "time [ms]", "ratio to the trajectory"], rows)

    _, reverse, along, forward = (f(at) for f in compiled.values())
    step = 1e-4

    def f(multiple):
        return compiled["trajectory"](at + multiple * step * direction)

    central = (8 * (f(1) - f(-1)) - (f(2) - f(-2))) / (12 * step)
    size = jnp.linalg.norm(reverse)
    rows = [
        ["forward and reverse gradients", jnp.linalg.norm(forward - reverse) / size],
        ["directional derivative and reverse gradient", abs(along - reverse @ direction) / size],
        ["central differences of order 4 and reverse gradient", abs(central - reverse @ direction) / size],
    ]
    table("Differences over the size of the gradient", ["of", "relative"], [[n, float(x)] for n, x in rows])


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
