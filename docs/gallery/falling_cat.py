"""A falling cat

It bends once around, and has turned without angular momentum; its attitude during the stroke, in exponential
coordinates.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

cat = gd.swimmers.FallingCat()
bend = gd.FourierStroke.circle(1.2)
gd.plot.displacement(cat, bend).figure.savefig("falling_cat.png")
