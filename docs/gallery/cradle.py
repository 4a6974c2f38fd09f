"""Newton's cradle

Five balls in a row; the first is let go. Simultaneous contacts are solved one after the other where physics says so.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

line = gd.spaces.Euclidean(1)
x = jnp.arange(5.0)[:, None]


class Strings(gd.AbstractPotential):
    def energy(self, space, q):
        return 0.5 * jnp.sum((q - x) ** 2)


balls = gd.System(line, jnp.ones(5), Strings(), gd.Contact(0.5, restitution=1.0))
motion = gd.integrate(balls, x.at[0].add(-1.0), t1=4 * jnp.pi, steps=200)
ax = gd.plot.coordinates(motion, labels=gd.plot.Labels(("x",)))
ax.figure.savefig("cradle.png")
