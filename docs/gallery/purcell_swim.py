"""Purcell's swimmer at its best stroke

The stroke that is cheapest for a quarter of a link's length, three times, beside the point of its shape on the
curvature of its connection.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

swimmer = gd.swimmers.Purcell(lengths=(1.0, 0.7, 1.0))
best = gd.optimal_stroke(swimmer, displacement=0.25)
gd.plot.swim(swimmer, best.stroke, "purcell_swim.gif", component=0, strokes=3, seconds=6, fps=12)
