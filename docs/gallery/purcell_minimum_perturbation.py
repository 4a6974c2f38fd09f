"""The frame that a swimmer disturbs least

The height functions of Purcell's swimmer in minimum-perturbation coordinates: there the area under them predicts
large strokes.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

swimmer = gd.swimmers.Purcell()
stroke = gd.FourierStroke.circle(1.0)
figure = gd.plot.height_functions(swimmer, [-1.5, -1.5], [1.5, 1.5], stroke=stroke, frame="minimum perturbation")
figure.savefig("purcell_minimum_perturbation.png")
