"""A centre that is no law

Two points of equal mass that do not feel each other, on geodesics of the hyperbolic plane, and the place halfway
between them (black). In flat space it would go straight. Here it leaves the geodesic on which it sets out (dashed).
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

space = gd.spaces.Hyperbolic(2)
points = gd.System(space, [1.0, 1.0])
motion = gd.integrate(points, [[-0.5, -0.4], [-0.4, 0.5]], [[0.35, 0.1], [0.2, -0.1]], t1=3.0, steps=60)
middle = jax.vmap(lambda q: gd.mean_point(space, q))
_, velocity = jax.jvp(middle, (motion.q[:1],), (motion.v[:1],))
straight, _ = gd.geodesic(space, middle(motion.q[:1])[0], velocity[0], motion.t)
ax = gd.plot.trajectory(motion, ax=gd.plot.figure(4.5, 4.5).add_subplot(aspect="equal"))
ax.plot(*middle(motion.q).T, color="k", lw=2)
ax.plot(*straight.T, "k--", lw=1)
ax.figure.savefig("no_centre.png", dpi=100)
