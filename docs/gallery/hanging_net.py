"""A net that hangs

A lattice of masses and springs, held at two corners, swings under gravity.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

plane = gd.spaces.Euclidean(2)
net, q0 = gd.builders.lattice(plane, (9, 5), 0.25, diagonals=True, stiffness=40.0)
held = [gd.Pin(k, q0[k]) for k in (4, 44)]
hanging = gd.System(plane, net.masses, *net.elements, *held, gd.Gravity(2.0, axis=1))
motion = gd.integrate(hanging, q0, t1=3.0, steps=150)
gd.plot.body(motion, [0.0, 1.5, 3.0]).figure.savefig("hanging_net.png")
