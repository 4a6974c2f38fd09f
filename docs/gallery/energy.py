"""Energy that does not drift

A pendulum by Gauss collocation and by the classical Runge–Kutta method, with the same step: the error of one stays,
that of the other grows.
"""

import jax
import jax.numpy as jnp
import numpy as np

import geodyn as gd

jax.config.update("jax_enable_x64", True)

pendulum = gd.Lagrangian(lambda q, v: v[0] ** 2 / 2 + jnp.cos(q[0]))
methods = {"Gauss, 2 stages": gd.Gauss(2), "Runge–Kutta, order 4": gd.methods.Collocation(gd.tableaus.rk4())}
runs = {n: gd.integrate(pendulum, [2.0], t1=400.0, steps=4000, method=m) for n, m in methods.items()}
t = np.asarray(runs["Gauss, 2 stages"].t)
ax = gd.plot.drift(t, {name: np.asarray(run.energy) for name, run in runs.items()})
ax.figure.savefig("energy.png")
