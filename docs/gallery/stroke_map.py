"""A map of best strokes

Purcell's best strokes over a step and a turn; along the dashed line the best stroke changes its kind, from one that
goes straight to one that turns by itself.
"""

import jax
import numpy as np

import geodyn as gd

jax.config.update("jax_enable_x64", True)

grid = {"displacement": np.linspace(0.02, 0.3, 20), "turn": np.linspace(0.0, 0.8, 20)}
found = gd.stroke_map(gd.swimmers.Purcell(), **grid)
gd.plot.stroke_map(found).savefig("stroke_map.png")
