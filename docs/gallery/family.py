"""The family of best strokes

The energy of Purcell's best strokes over their displacement, with tangents whose slopes are the multipliers, through
the best efficiency to the largest displacement.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

swimmer = gd.swimmers.Purcell()
first = gd.optimal_stroke(swimmer, displacement=0.05)
found = gd.stroke_family(swimmer, first.stroke, interval=(0.05, 0.5))
gd.plot.family(found).figure.savefig("family.png")
