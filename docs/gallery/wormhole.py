"""Through a wormhole

Particles fall through the throat of a wormhole, or are turned back by it: it depends on their angular momentum. The
metric is that of the catenoid.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)


def embedding(x):
    r = jnp.sqrt(1 + x[0] ** 2)
    return jnp.stack([r * jnp.cos(x[1]), r * jnp.sin(x[1]), jnp.arcsinh(x[0])])


space = gd.spaces.Embedded(embedding, ambient=3, dim=2, period=(jnp.inf, 2 * jnp.pi))
start = jnp.tile(jnp.array([[4.0, 0.0]]), (6, 1))
velocity = jnp.stack([-jnp.ones(6), jnp.array([0.02, 0.04, 0.055, 0.065, 0.08, 0.1])], axis=1)
motion = gd.integrate(gd.System(space, jnp.ones(6)), start, velocity, t1=8.0, steps=200)
gd.plot.trajectory(motion, bodies=1).figure.savefig("wormhole.png")
