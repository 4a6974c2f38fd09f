"""A rod on its way through H³

The film of an elastic rod in Poincaré's ball.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

space = gd.spaces.Hyperbolic(3)
rod = gd.System(space, [1.0, 1.0], gd.Spring([(0, 1)], stiffness=3.0, length=0.8))
q0 = jnp.array([[-0.5, 0.2, 0.0], [-0.5, -0.2, 0.0]])
v0 = jnp.array([[0.25, 0.0, 0.1], [0.25, 0.0, -0.1]])
motion = gd.integrate(rod, q0, v0, t1=6.0, steps=200)
gd.plot.animate(motion, "rod_film.gif", seconds=5, fps=10)
