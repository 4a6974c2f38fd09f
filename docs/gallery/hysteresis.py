"""A spring that yields

Force against displacement of an elastic and plastic spring, pulled slowly to and fro: the loops dissipate energy.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

line = gd.spaces.Euclidean(1)
ax = gd.plot.figure(6.4, 4).add_subplot()
for limit in (10.0, 2.0, 1.0):
    spring = gd.friction.PlasticSpring([(0, 1)], stiffness=4.0, length=1.0, yield_force=limit)
    pull = gd.loads.Driven(1, lambda t: jnp.array([1.0 + 0.6 * jnp.sin(t)]))
    body = gd.System(line, [1.0, 1.0], gd.Pin(0, [0.0]), pull, spring)
    slow = gd.friction.quasi_static(body, [[0.0], [1.0]], t1=4 * jnp.pi, steps=200)
    gd.plot.hysteresis(slow.q[:, 1, 0], -slow.multipliers[:, -1], ax, label=f"yields at {limit}")
ax.figure.savefig("hysteresis.png", dpi=100)
