"""From a pose to a pose

Purcell's swimmer goes ahead and turns, by the cheapest change of shape that keeps all of its links clear of the disc:
four loops to swim, one to turn. To the right, the way of its two angles.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import geodyn as gd

jax.config.update("jax_enable_x64", True)

body = gd.swimmers.Purcell(lengths=(1 / 3, 1 / 3, 1 / 3))
centre, radius = np.array([0.5, -0.35]), 0.2


def clear(g, r):
    """The gap of the nearest of five points of each link to the disc, rounded off so that it is smooth."""
    points = jnp.einsum("ke,led->lkd", np.linspace([1.0, 0.0], [0.0, 1.0], 5), body.outline(r)).reshape(-1, 2)
    gaps = jnp.linalg.norm(points @ g[:2, :2].T + g[:2, 2] - centre, axis=1) - radius
    return -jax.nn.logsumexp(-100 * gaps) / 100


plan = gd.plan(body, gd.groups.pose(body.group, [0.4, 0.1, 0.5]), base=[0.0, 0.0], obstacles=clear, loops=6)
poses, shapes = gd.path(body, plan.stroke, steps=240), jax.vmap(plan.stroke)(jnp.linspace(0.0, 1.0, 241))
figure, (space, angles) = plt.subplots(1, 2, figsize=(9, 4), width_ratios=(3, 2), layout="constrained")
space.add_patch(plt.Circle(centre, radius, color="0.85"))
space.plot(*poses[:, :2, 2].T, color="C0", lw=1)
for i in range(0, 241, 40):
    links = body.outline(shapes[i]) @ poses[i, :2, :2].T + poses[i, :2, 2]
    space.plot(*links.transpose(2, 1, 0), color="C1", lw=2, alpha=0.35 + 0.65 * i / 240, solid_capstyle="round")
space.set(aspect="equal", xlabel="x", ylabel="y", title=f"a plan of the length {float(plan.cost) ** 0.5:.2f}")
angles.plot(*shapes.T, color="C0", lw=1)
angles.set(aspect="equal", xlabel="α₁", ylabel="α₂", title="its angles")
figure.savefig("steering.png")
