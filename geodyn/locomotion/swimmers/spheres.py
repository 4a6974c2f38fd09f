"""MOTION: swimmers of spheres, dragged through the flow of each other."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from geodyn._typing import Number
from geodyn.geometry.groups import Translation
from geodyn.locomotion.checks import require_positive
from geodyn.locomotion.connection import AbstractSwimmer
from geodyn.locomotion.stroke import floating


class PushMePullYou(AbstractSwimmer):
    """Two spheres that exchange volume and change their distance, far apart: leading order in radius/distance.

    Shape r = (distance l, volume v₁ of the first sphere); position X = (x₁+x₂)/2, x₂ = x₁ + l. Each sphere is dragged
    through the source flow of the other, and a sphere that swells dissipates as well. Needs 0 < v₁ < volume.
    Any consistent units. Raises ValueError unless volume and viscosity are positive.
    Source: Avron, Kenneth & Oaknin, *New J. Phys.* 7 (2005) 234, equations 3–8.
    """

    volume: Number = eqx.field(default=8 * np.pi / 3, converter=floating)
    viscosity: Number = eqx.field(default=1.0, converter=floating)
    group: Translation = Translation(1)

    def __check_init__(self):
        require_positive("PushMePullYou", volume=self.volume, viscosity=self.viscosity)

    def dissipation(self, r, xi, rdot):
        volumes = jnp.stack([r[1], self.volume - r[1]])
        radii = jnp.cbrt(3 * volumes / (4 * jnp.pi))
        flow = rdot[1] / (4 * jnp.pi * r[0] ** 2)
        slip = xi[0] - flow + jnp.stack([-rdot[0], rdot[0]]) / 2
        drag = 6 * jnp.pi * radii * slip**2
        return self.viscosity * jnp.sum(drag + 4 / 3 * rdot[1] ** 2 / volumes)
