"""Chaplygin's sleigh

A body on a blade, its centre of mass ahead of the blade: whatever the push, it ends up going straight.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

sleigh = gd.nonholonomic.Sleigh(offset=0.5)
ax = gd.plot.figure(6.4, 4).add_subplot(xlabel="x", ylabel="y", aspect="equal")
ax.set_prop_cycle(color=gd.plot.COLOURS)
for turn in (0.5, 1.0, 2.0, 4.0):
    q0 = jnp.zeros(3)
    motion = gd.integrate(sleigh, q0, sleigh.basis(q0) @ jnp.array([1.0, turn]), t1=6.0, steps=400)
    ax.plot(*motion.q[:, :2].T, label=f"turning at {turn} at first")
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
ax.figure.savefig("sleigh.png", dpi=100)
