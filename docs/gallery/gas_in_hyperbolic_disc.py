"""A gas in a hyperbolic disc

Twelve hard discs in a round table of the hyperbolic plane: equal discs look smaller near the horizon.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

space = gd.spaces.Hyperbolic(2)
inside = gd.Wall(lambda x: 1.9 - gd.distance(space, x, jnp.zeros(2)))
angle = jnp.arange(12) * 2 * jnp.pi / 12
q0 = (0.3 + 0.2 * (jnp.arange(12) % 2))[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
v0 = 0.3 * jax.random.normal(jax.random.key(1), (12, 2))
gas = gd.System(space, jnp.ones(12), gd.Contact(0.12), inside)
motion = gd.integrate(gas, q0, v0, t1=4.0, steps=160, max_impacts=256)
gd.plot.body(motion, [4.0]).figure.savefig("gas_in_hyperbolic_disc.png")
