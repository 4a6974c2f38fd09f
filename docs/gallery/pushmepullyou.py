"""PushMePullYou

Two spheres that exchange volume and change their distance: a filmstrip of the best stroke through a shape.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

swimmer = gd.swimmers.PushMePullYou()
best = gd.optimal_stroke(swimmer, displacement=0.1, base=(10.0, 4.19))
gd.plot.swimmer(swimmer, best.stroke).figure.savefig("pushmepullyou.png")
