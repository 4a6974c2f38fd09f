"""A thousand pendulums, uncertain by a hundredth

Double pendulums whose starts differ by a hundredth: where half of them, and nine of ten, are at each time.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

pendulums = gd.Lagrangian(
    lambda q, v: v[0] ** 2 + v[1] ** 2 / 2 + v[0] * v[1] * jnp.cos(q[0] - q[1]) + 2 * jnp.cos(q[0]) + jnp.cos(q[1])
)
starts = jnp.array([2.0, 2.0]) + 0.01 * jax.random.normal(jax.random.key(0), (1000, 2))
motions = gd.ensemble(lambda q: gd.integrate(pendulums, q, t1=30.0, steps=600), starts).values
ax = gd.plot.fan(motions.t, motions.q[:, :, 0])
ax.set_ylabel("angle of the first (rad)")
ax.figure.savefig("ensemble.png")
