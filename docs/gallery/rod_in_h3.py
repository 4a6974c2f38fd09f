"""An elastic rod in H³

Two masses on a spring, launched broadside in hyperbolic space, in Poincaré's ball. Curvature pulls them apart, the
spring resists.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

space = gd.spaces.Hyperbolic(3)
rod = gd.System(space, [1.0, 1.0], gd.Spring([(0, 1)], stiffness=1.0, length=1.0))
q0 = jnp.array([[-0.5, 0.2, 0.0], [-0.5, -0.2, 0.0]])
v0 = jnp.array([[0.25, 0.0, 0.1], [0.25, 0.0, -0.1]])
motion = gd.integrate(rod, q0, v0, t1=6.0, steps=200)
gd.plot.trajectory(motion).figure.savefig("rod_in_h3.png")
