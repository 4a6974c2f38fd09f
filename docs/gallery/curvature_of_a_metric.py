"""The curvature of a metric

The scalar curvature of (|x|² + 2) I in the plane: curved around the origin, flat far from it. One line of automatic
differentiation.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

space = gd.spaces.Inhomogeneous(2)
x = jnp.linspace(-4.0, 4.0, 161)
points = jnp.stack(jnp.meshgrid(x, x, indexing="ij"), axis=-1)
R = jax.jit(jax.vmap(jax.vmap(lambda x: gd.scalar_curvature(space, x))))(points)
ax = gd.plot.heatmap(x, x, R, name="scalar curvature")
ax.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
ax.figure.savefig("curvature_of_a_metric.png")
