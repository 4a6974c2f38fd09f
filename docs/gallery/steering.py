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
pose = gd.groups.pose(body.group, [0.4, 0.1, 0.5])
centre = np.array([0.5, -0.35])
radius = 0.2


def clear(g, r):
    """The gap of the nearest of five points of each link to the disc, rounded off so that it is smooth."""
    ends = body.outline(r)
    along = jnp.linspace(0.0, 1.0, 5)[None, :, None]
    points = (ends[:, :1] * (1 - along) + ends[:, 1:] * along).reshape(-1, 2)
    places = points @ g[:2, :2].T + g[None, :2, 2]
    gaps = jnp.sqrt(jnp.sum((places - centre[None]) ** 2, axis=1)) - radius
    return -jax.nn.logsumexp(-100 * gaps) / 100


plan = gd.plan(body, pose, base=[0.0, 0.0], obstacles=clear, loops=6)
poses = np.asarray(gd.path(body, plan.stroke, steps=240))
times = np.linspace(0.0, 1.0, 241)
shapes = np.asarray(jax.vmap(plan.stroke)(times))

figure, (space, angles) = plt.subplots(1, 2, figsize=(9, 4), width_ratios=(3, 2), layout="constrained")
space.add_patch(plt.Circle(centre, radius, color="0.85"))
space.plot(*poses[:, :2, 2].T, color="C0", lw=1)
for i in range(0, 241, 40):
    for link in np.asarray(body.outline(jnp.asarray(shapes[i]))):
        ends = link @ poses[i, :2, :2].T + poses[i, :2, 2]
        space.plot(*ends.T, color="C1", lw=2, alpha=0.35 + 0.65 * i / 240, solid_capstyle="round")
space.set(aspect="equal", xlabel="x", ylabel="y", title=f"a plan of the length {float(plan.cost) ** 0.5:.2f}")
angles.plot(*shapes.T, color="C0", lw=1)
angles.plot(*shapes[0], "o", color="C1")
angles.set(aspect="equal", xlabel="α₁", ylabel="α₂", title="its angles")
figure.savefig("steering.png")
