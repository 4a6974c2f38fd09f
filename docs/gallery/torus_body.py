"""Two masses on a spring, on a torus

A metric and, for the picture, the embedding that it comes from. The spring follows the geodesic between the masses.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)


def embedding(x):
    r = 2.0 + jnp.cos(x[0])
    return jnp.stack([r * jnp.cos(x[1]), r * jnp.sin(x[1]), jnp.sin(x[0])])


space = gd.spaces.Embedded(embedding, ambient=3, dim=2, period=(2 * jnp.pi, 2 * jnp.pi))
body = gd.System(space, [1.0, 2.0], gd.Spring([(0, 1)], stiffness=3.0, length=0.5))
motion = gd.integrate(body, [[0.0, 0.0], [0.5, 0.2]], [[0.3, 0.4], [0.0, 0.4]], t1=20.0, steps=400)
gd.plot.trajectory(motion).figure.savefig("torus_body.png")
