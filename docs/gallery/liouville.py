"""Phase space flows like water

A disc of initial states of a pendulum is drawn out to a thread, and keeps its area: Liouville's theorem.
"""

import jax
import jax.numpy as jnp

import geodyn as gd

jax.config.update("jax_enable_x64", True)

pendulum = gd.Lagrangian(lambda q, v: v[0] ** 2 / 2 + jnp.cos(q[0]))
angle = jnp.linspace(0, 2 * jnp.pi, 400)
q0, v0 = 1.2 + 0.5 * jnp.cos(angle)[:, None], 0.5 * jnp.sin(angle)[:, None]
motion = jax.vmap(lambda q, v: gd.integrate(pendulum, q, v, t1=30.0, steps=300))(q0, v0)
ax = gd.plot.figure(6.4, 4).add_subplot(xlabel="angle (rad)", ylabel="momentum")
for k, colour in zip((0, 100, 300), gd.plot.COLOURS):
    q, p = motion.q[:, k, 0], motion.p[:, k, 0]
    area = jnp.abs(jnp.sum(q * jnp.roll(p, -1) - p * jnp.roll(q, -1))) / 2
    ax.fill(q, p, color=colour, alpha=0.6, label=f"t = {motion.t[0, k]:.0f}, area {area:.4f}")
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
ax.figure.savefig("liouville.png", dpi=100)
