"""A passive tail

Purcell's swimmer with one driven hinge and a spring in the other: how far a period moves it, over the frequency. Each
spring has its best frequency, marked where the derivative vanishes.
"""

import jax
import jax.numpy as jnp
from scipy.optimize import brentq

import geodyn as gd

jax.config.update("jax_enable_x64", True)


@jax.jit
def moved(frequency, stiffness):
    swimmer = gd.swimmers.Passive(gd.swimmers.Purcell(), hinges=[1], stiffness=stiffness)
    motion = gd.periodic_motion(swimmer, gd.FourierStroke([0.0], [[0.0]], [[1.0]]), 2 * jnp.pi / frequency)
    return jnp.linalg.norm(motion.displacement[:2, 2])


ax = gd.plot.figure(6.4, 4).add_subplot()
frequencies, slope = jnp.geomspace(0.1, 100.0, 200), jax.jit(jax.grad(moved))
for stiffness, colour in zip((0.2, 0.6, 2.0), gd.plot.COLOURS):
    lengths = jax.jit(jax.vmap(moved, (0, None)))(frequencies, stiffness)
    best = brentq(lambda w, k=stiffness: slope(w, k), 2 * stiffness, 20 * stiffness)
    ax.semilogx(frequencies, lengths, color=colour, label=f"stiffness {stiffness}")
    ax.plot(best, moved(best, stiffness), "o", color=colour)
ax.set(xlabel="angular frequency (1/time)", ylabel="displacement in a period (lengths of a link)")
ax.legend(frameon=False)
ax.figure.savefig("passive_tail.png", dpi=100)
