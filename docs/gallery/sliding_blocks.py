"""Sliding, and coming to rest

Blocks with different friction slide up an incline and back, or stay: Moreau's time stepping.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

ax = gd.plot.figure(6.4, 4).add_subplot(xlabel="time t (s)", ylabel="way up the incline (m)")
ax.set_prop_cycle(color=gd.plot.COLOURS)
for friction in (0.0, 0.2, 0.5, 0.8):
    floor = gd.Wall(lambda x: x[1], restitution=0.0, friction=friction)
    tilt = [gd.Gravity(9.81 * 0.866, axis=1), gd.Gravity(9.81 * 0.5, axis=0)]
    block = gd.System(gd.spaces.Euclidean(2), [1.0], *tilt, floor)
    motion = gd.integrate(block, [[0.0, 0.0]], [[3.0, 0.0]], t1=1.5, steps=600, method=gd.methods.Moreau())
    ax.plot(motion.t, motion.q[:, 0, 0], label=f"friction {friction}")
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
ax.figure.savefig("sliding_blocks.png", dpi=100)
