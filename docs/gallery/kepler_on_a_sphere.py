"""Kepler's problem on a sphere

The potential −cot r of the sphere: by Bertrand's theorem its orbits close, as the ellipses of the plane do.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

space = gd.spaces.Sphere(2)
planet = gd.System(space, [1.0, 1.0, 1.0], gd.Kepler(1.0, [0.0, 0.0]))
q0 = jnp.array([[0.2, 0.0], [0.35, 0.0], [0.5, 0.0]])
v0 = jnp.array([[0.0, 0.5], [0.0, 0.35], [0.0, 0.42]])
orbits = gd.integrate(planet, q0, v0, t1=12.0, steps=1500)
gd.plot.trajectory(orbits, bodies=1).figure.savefig("kepler_on_a_sphere.png")
