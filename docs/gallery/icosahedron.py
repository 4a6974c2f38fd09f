"""A soft icosahedron falls into curved space

Twelve masses and thirty springs, thrown through hyperbolic space: a ball that curvature flattens.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

space = gd.spaces.Hyperbolic(3)
ball, q0 = gd.builders.icosahedron(space, 0.4, stiffness=30.0)
v0 = jnp.tile(jnp.array([0.6, 0.2, 0.0]), (12, 1))
motion = gd.integrate(ball, q0, v0, t1=2.0, steps=80)
gd.plot.body(motion, [0.0, 1.0, 2.0]).figure.savefig("icosahedron.png")
