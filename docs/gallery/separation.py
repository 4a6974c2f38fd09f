"""What curvature does to a rod

The same rod in three spaces: in H³ it is stretched, in E³ nothing happens, in S³ it is pressed together.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

ax = gd.plot.figure(6.4, 4).add_subplot()
ax.set_prop_cycle(color=gd.plot.COLOURS)
for space in (gd.spaces.Hyperbolic(3), gd.spaces.Euclidean(3), gd.spaces.Sphere(3)):
    rod, q0 = gd.builders.rod(space, 1.0)
    v0 = gd.builders.velocities(space, 0, q0)
    motion = gd.integrate(rod, q0, v0, t1=10.0, steps=400)
    gap = jax.jit(jax.vmap(lambda x, space=space: gd.distance(space, x[0], x[1])))(motion.q)
    ax.plot(motion.t, gap, label=type(space).__name__)
ax.set(xlabel="time t", ylabel="length of the rod (radii of curvature)")
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
ax.figure.savefig("separation.png", dpi=100)
