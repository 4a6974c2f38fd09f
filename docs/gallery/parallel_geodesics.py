"""Parallels that do not stay parallel

Free particles that leave one geodesic of the hyperbolic plane at right angles, in Poincaré's disc: they part.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

space = gd.spaces.Hyperbolic(2)
start = jnp.stack([jnp.zeros(11), jnp.linspace(-0.7, 0.7, 11)], axis=1)
speeds = jax.vmap(lambda x: 1 / jnp.sqrt(space.metric(x)[0, 0]))(start)
velocity = jnp.stack([speeds, 0 * speeds], axis=1)
motion = gd.integrate(gd.System(space, jnp.ones(11)), start, velocity, t1=2.5, steps=100)
gd.plot.trajectory(motion, bodies=1).figure.savefig("parallel_geodesics.png")
