"""The strain of a net

A net of springs flies through the hyperbolic plane. In flat space it would stay as it is. Here free points that set out
side by side go apart, so that its springs have to hold it together: red ones are stretched, blue ones compressed.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

space = gd.spaces.Hyperbolic(2)
net, q0 = gd.builders.lattice(space, (7, 7), 0.2, diagonals=True, stiffness=60.0)
start = gd.groups.isometry_group(space).exp(jnp.array([-1.2, 0.0, 0.0]))
q0 = jax.vmap(lambda x: gd.groups.act(space, start, x))(q0)
motion = gd.integrate(net, q0, gd.builders.velocities(space, 0, q0), t1=2.4, steps=120)
gd.plot.strain(motion, [0.0, 1.2, 2.4]).figure.savefig("strain.png")
