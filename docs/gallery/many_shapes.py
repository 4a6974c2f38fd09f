"""Many shape variables on one plane

The best stroke of six links: the curvature on the plane nearest to it, in the frame that it disturbs least. There the
area within the stroke predicts where it leads.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

swimmer = gd.swimmers.NLink([1.0] * 6)
stroke = gd.optimal_stroke(swimmer, displacement=0.2).stroke
figure = gd.plot.height_functions_along(swimmer, stroke, frame="minimum perturbation")
figure.savefig("many_shapes.png")
