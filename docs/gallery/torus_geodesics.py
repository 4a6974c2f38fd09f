"""Geodesics on a torus

A fan of geodesics from a point of the outer rim: they are focused where the curvature is positive, and spread where
it is negative.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)


def embedding(x):
    r = 2.0 + jnp.cos(x[0])
    return jnp.stack([r * jnp.cos(x[1]), r * jnp.sin(x[1]), jnp.sin(x[0])])


space = gd.spaces.Embedded(embedding, ambient=3, dim=2, period=(2 * jnp.pi, 2 * jnp.pi))
angles = jnp.linspace(-1.2, 1.2, 13)
start = jnp.zeros((13, 2))
velocity = jnp.stack([jnp.sin(angles), jnp.cos(angles) / 3.0], axis=1)
fan = gd.integrate(gd.System(space, jnp.ones(13)), start, velocity, t1=9.0, steps=180)
gd.plot.trajectory(fan, bodies=1).figure.savefig("torus_geodesics.png")
