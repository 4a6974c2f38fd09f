"""Swimming on a sphere

A mass with two legs moves over a sphere by changing its shape: without a fluid, without momentum. In the plane the
same stroke leads nowhere.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

ax = gd.plot.figure(6.4, 4).add_subplot(xlabel="time (strokes)", ylabel="displacement (radii of curvature)")
ax.set_prop_cycle(color=gd.plot.COLOURS)
stroke = gd.FourierStroke([0.8, 0.9], [[0.3], [0.0]], [[0.0], [0.4]])
for space in (gd.spaces.Sphere(2), gd.spaces.Euclidean(2), gd.spaces.Hyperbolic(2)):
    body = gd.swimmers.TwoLegged(space)
    g = gd.path(body, stroke, steps=128)
    ax.plot(jnp.linspace(0, 1, 129), jax.vmap(body.group.log)(g)[:, 0], label=type(space).__name__)
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
ax.figure.savefig("swimming_on_a_sphere.png", dpi=100)
