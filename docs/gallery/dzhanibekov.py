"""The handle that turns over

A T-handle set spinning about its middle axis turns over, again and again, though nothing acts on it.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

handle = gd.rigid.RigidBodies([1.0, 2.0, 3.0])
q0, v0 = handle.state(angular_velocity=[0.02, 1.0, 0.03])
motion = gd.integrate(handle, q0, v0, t1=30.0, steps=600)
ax = gd.plot.figure(8, 2.4).add_subplot()
gd.plot.attitudes(motion, jnp.linspace(0.0, 22.0, 12), ax=ax).figure.savefig("dzhanibekov.png", dpi=100)
