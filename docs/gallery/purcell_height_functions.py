"""The height functions of Purcell's swimmer

All components of the curvature of its connection, with the stroke that is cheapest for its displacement on them.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

swimmer = gd.swimmers.Purcell(lengths=(1.0, 0.7, 1.0))
best = gd.optimal_stroke(swimmer, displacement=0.2)
figure = gd.plot.height_functions(swimmer, [-1.8, -1.8], [1.8, 1.8], stroke=best.stroke)
figure.savefig("purcell_height_functions.png")
