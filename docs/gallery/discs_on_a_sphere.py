"""Discs that meet on a sphere

Hard discs of different sizes and masses; crosses mark the impacts, found on the collocation polynomial to rounding.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

space = gd.spaces.Sphere(2)
discs = gd.System(space, [1.0, 1.0, 2.0], gd.Contact([0.1, 0.15, 0.2], restitution=1.0))
q0 = jnp.array([[0.0, 0.0], [0.5, 0.03], [-0.5, 0.3]])
v0 = jnp.array([[0.0, 0.0], [-0.3, 0.0], [0.2, -0.1]])
motion = gd.integrate(discs, q0, v0, t1=6.0, steps=100)
gd.plot.trajectory(motion, bodies=6).figure.savefig("discs_on_a_sphere.png")
