"""A car that turns by going around loops

A car may drive and steer. Going around a loop of roll and steering turns it on the spot: the curvature of its
connection.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

car = gd.swimmers.KinematicCar(wheelbase=2.0, radius=0.5)
stroke = gd.FourierStroke([0.0, 0.0], [[1.0], [0.0]], [[0.0], [0.3]])
gd.plot.wake(car, stroke, strokes=5).figure.savefig("car.png")
