"""A swimming snake

A wave of bending goes along a slender body; the path of its frame over three strokes, and the body after each.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

snake = gd.swimmers.Serpenoid(length=3.0, drag_ratio=8.0)
stroke = gd.strokes.reverse(gd.FourierStroke.circle(7.0))  # the wave goes from head to tail
ax = gd.plot.wake(snake, stroke, gd.plot.figure(8, 2.6).add_subplot(), strokes=3)
ax.figure.savefig("serpenoid.png", dpi=100)
