"""Parallel transport depends on the way

The same arrow, carried from one point of a sphere to another on two ways, arrives with two directions. They differ by
the curvature between the ways: here by a right angle, for an eighth of the sphere.
"""

import functools
import itertools

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

space = gd.spaces.Sphere(2)
a, b, c = (space.coordinates(corner) for corner in jnp.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
arrow, times = gd.log(space, a, b) / 5, jnp.linspace(0, 1, 9)
ax = gd.plot.figure(6.4, 5).add_subplot(projection="3d")
u, v = jnp.meshgrid(jnp.linspace(0, 2 * jnp.pi, 25), jnp.linspace(0, jnp.pi, 13))
ax.plot_wireframe(jnp.cos(u) * jnp.sin(v), jnp.sin(u) * jnp.sin(v), jnp.cos(v), color="0.85", linewidth=0.6)
for way, colour in (((a, b), gd.plot.COLOURS[0]), ((a, c, b), gd.plot.COLOURS[1])):
    carried = arrow
    for x, y in itertools.pairwise(way):
        line = functools.partial(lambda x, y, t: gd.exp(space, x, t * gd.log(space, x, y)), x, y)
        arrows = gd.parallel_transport(space, line, carried, times)
        X, W = jax.vmap(lambda t, w, line=line: jax.jvp(space.embed, (line(t),), (w,)))(times, arrows)
        ax.plot(*X.T, color=colour, linewidth=2)
        ax.quiver(*X.T, *W.T, color=colour)
        carried = arrows[-1]
ax.set_box_aspect((1, 1, 1), zoom=1.5)
ax.view_init(25, 45)
ax.set_axis_off()
ax.figure.savefig("parallel_transport.png", dpi=100)
