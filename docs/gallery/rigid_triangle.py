"""A rigid triangle in S³

Three masses on rigid rods drift along a great circle of the three-sphere, in stereographic projection. The lengths
hold to rounding.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

space = gd.spaces.Sphere(3)
triangle, q0 = gd.builders.triangle(space, 0.8, stiffness=None)
v0 = gd.builders.velocities(space, 0, q0)
motion = gd.integrate(triangle, q0, 0.6 * v0, t1=3.6, steps=200)
gd.plot.trajectory(motion, bodies=9).figure.savefig("rigid_triangle.png")
