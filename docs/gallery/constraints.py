"""Constraints to rounding

The residuals of a chain of rods, pinned at both ends, that swings for ten thousand steps: positions and velocities
hold to rounding, and do not drift.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

chain, q0 = gd.linkages.pinned_chain(5, span=2.5, gravity=1.0)
motion = gd.integrate(chain, q0, t1=200.0, steps=10_000, save_every=10)
gd.plot.constraints(motion).figure.savefig("constraints.png")
