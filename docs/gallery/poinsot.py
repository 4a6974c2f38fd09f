"""Poinsot's ellipsoid

The angular velocity in the body runs along the intersection of two ellipsoids, of constant energy and of constant
momentum.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

handle = gd.rigid.RigidBodies([1.0, 2.0, 3.0])
q0, v0 = handle.state(angular_velocity=[0.02, 1.0, 0.03])
motion = gd.integrate(handle, q0, v0, t1=30.0, steps=600)
gd.plot.poinsot(motion).figure.savefig("poinsot.png")
