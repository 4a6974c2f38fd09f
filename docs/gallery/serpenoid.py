"""A swimming snake

A wave of bending goes along a slender body; the path of its frame over six strokes, and the body after each.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

snake = gd.swimmers.Serpenoid(length=3.0, drag_ratio=2.0)
stroke = gd.FourierStroke.circle(1.2)
gd.plot.wake(snake, stroke, strokes=6).figure.savefig("serpenoid.png")
