"""When a double pendulum turns over

Fourteen thousand double pendulums in one call: the time until the second one turns over, over both angles at the
start. White: not within 15.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

pendulums = gd.Lagrangian(
    lambda q, v: v[0] ** 2 + v[1] ** 2 / 2 + v[0] * v[1] * jnp.cos(q[0] - q[1]) + 2 * jnp.cos(q[0]) + jnp.cos(q[1])
)


def flip(a, b):
    """The time at which the second pendulum turns over."""
    motion = gd.integrate(pendulums, jnp.stack([a, b]), t1=15.0, steps=150, throw=False)
    over = jnp.abs(motion.q[:, 1]) > jnp.pi
    return jnp.where(over.any(), motion.t[jnp.argmax(over)], jnp.nan)


x = jnp.linspace(-3.1, 3.1, 120)
times = jax.jit(jax.vmap(jax.vmap(flip, (None, 0)), (0, None)))(x, x)
ax = gd.plot.heatmap(x, x, times, name="time of the first turn")
ax.set(xlabel="first angle (rad)", ylabel="second angle (rad)", aspect="equal")
ax.figure.savefig("flip_times.png")
