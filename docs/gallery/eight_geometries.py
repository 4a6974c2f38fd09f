"""Eight geometries

The same three masses with the same stroke, larger and larger, in each of Thurston's geometries: how far the stroke
moves them, in units of their size. In flat space it moves them nowhere. Where the bracket of two translations is a
turn (dashed) it moves them as the square of their size; in Nil, Sol and SL₂, where it is a translation, as the size.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

sizes, ways = jnp.array([0.1, 0.2, 0.4, 0.8]), jnp.array([[0.98, 0.2, 0.0], [0.0, 0.85, 0.53]])
colours = (*gd.plot.COLOURS, "k")
ax = gd.plot.figure(6.4, 4).add_subplot(xlabel="size (radii of curvature)", ylabel="displacement / size")
for k, name in enumerate(["S3", "H3", "S2xE", "H2xE", "Nil", "Sol", "SL2"]):
    space = gd.spaces.THURSTON[name]
    origin = jnp.array([0.0, 1.0 * (name == "SL2"), 0.0])
    frame = jnp.linalg.inv(jnp.linalg.cholesky(space.metric(origin))).T

    def places(r, space=space, origin=origin, frame=frame):
        return jnp.stack([origin, *(gd.exp(space, origin, r[i] * frame @ ways[i]) for i in range(2))])

    def displacement(size, space=space, origin=origin, places=places):
        body = gd.swimmers.PointMasses(space, [1.0, 1.0, 1.0], places)
        end = gd.holonomy(body, gd.FourierStroke.circle(0.4 * size, centre=(size, size)), steps=16)
        return gd.distance(space, origin, gd.groups.act(space, end, origin)) / size

    ax.loglog(sizes, jax.vmap(displacement)(sizes), "-" if k > 3 else "--", color=colours[k], label=name)
ax.set_xticks(sizes, [f"{size:.1f}" for size in sizes])
ax.minorticks_off()
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
ax.figure.savefig("eight_geometries.png", dpi=100)
