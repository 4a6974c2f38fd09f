"""A connection, and the metric of shapes

Arrows: a change of shape along them moves the body forwards. Ellipses: the rates of equal power, small where motion
costs most.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

swimmer = gd.swimmers.Purcell()
figure = gd.plot.figure(9, 4.5)
left, right = figure.subplots(1, 2)
gd.plot.connection(swimmer, 0, (-1.5, -1.5), (1.5, 1.5), left)
gd.plot.shape_metric(swimmer, (-1.5, -1.5), (1.5, 1.5), right)
figure.savefig("connection_and_metric.png", dpi=80)
