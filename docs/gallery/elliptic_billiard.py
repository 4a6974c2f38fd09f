"""Elliptic billiard

A ball between the foci of an ellipse: its paths stay tangent to a hyperbola with the same foci.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

table = gd.Wall(lambda x: 1 - (x[0] / 2) ** 2 - x[1] ** 2)
ball = gd.System(gd.spaces.Euclidean(2), [1.0], table)
motion = gd.integrate(ball, [[0.3, 0.0]], [[0.35, 1.0]], t1=120.0, steps=2400, max_impacts=128)
ax = gd.plot.trajectory(motion, bodies=1)
angle = jnp.linspace(0, 2 * jnp.pi, 200)
ax.plot(2 * jnp.cos(angle), jnp.sin(angle), color="black")
ax.set(xlim=(-2.1, 2.1), ylim=(-1.1, 1.1))
ax.figure.savefig("elliptic_billiard.png")
