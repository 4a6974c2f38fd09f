"""MOTION: swimmers. Each is the power that it dissipates; nothing else is written by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._typing import Array, Float, Number
from geodyn.geometry.groups import SE2, Translation
from geodyn.locomotion.connection import AbstractLinkSwimmer, AbstractSwimmer, slender_drags
from geodyn.locomotion.stroke import floating


def _require_positive(owner: str, **numbers) -> None:
    """Raise ValueError unless every number that is known already is finite and positive."""
    for name, value in numbers.items():
        if not isinstance(value, jax.core.Tracer) and not np.all(np.isfinite(value) & (np.asarray(value) > 0)):
            raise ValueError(f"{owner}: {name} must be positive and finite, got {value}.")


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
        _require_positive("PushMePullYou", volume=self.volume, viscosity=self.viscosity)

    def dissipation(self, r, xi, rdot):
        volumes = jnp.stack([r[1], self.volume - r[1]])
        radii = jnp.cbrt(3 * volumes / (4 * jnp.pi))
        flow = rdot[1] / (4 * jnp.pi * r[0] ** 2)
        slip = xi[0] - flow + jnp.stack([-rdot[0], rdot[0]]) / 2
        drag = 6 * jnp.pi * radii * slip**2
        return self.viscosity * jnp.sum(drag + 4 / 3 * rdot[1] ** 2 / volumes)


class Purcell(AbstractLinkSwimmer):
    """Purcell's swimmer: three slender links, two hinges, shape r = (α₁, α₂) in radians.

    The frame of the body sits at the centre of the middle link, of heading θ; link 1, behind it, has the heading
    θ − α₁ and link 3, ahead, θ + α₂. `drag` is the drag per length along a link, `drag_ratio` times that across it;
    a link of length l resists turning with `rotational_drag l³/12`, where None stands for the drag across, as
    resistive-force theory has it. Any consistent units. Raises ValueError unless there are three lengths and all
    numbers are positive. Source: Purcell, *Am. J. Phys.* 45 (1977) 3; Tam & Hosoi, *PRL* 98 (2007) 068105.
    """

    lengths: Float[Array, "3"] = eqx.field(default=(1.0, 1.0, 1.0), converter=floating)
    drag_ratio: Number = eqx.field(default=2.0, converter=floating)
    drag: Number = eqx.field(default=1.0, converter=floating)
    rotational_drag: Number | None = eqx.field(default=None, converter=lambda x: None if x is None else floating(x))
    group: SE2 = SE2()

    def __check_init__(self):
        if jnp.shape(self.lengths) != (3,):
            raise ValueError(f"Purcell: lengths must be three numbers, got shape {jnp.shape(self.lengths)}.")
        _require_positive("Purcell", lengths=self.lengths, drag_ratio=self.drag_ratio, drag=self.drag)
        if self.rotational_drag is not None:
            _require_positive("Purcell", rotational_drag=self.rotational_drag)

    def links(self, r):
        l1, l2, l3 = self.lengths / 2
        behind, ahead = -r[0], r[1]
        zero = jnp.zeros_like(ahead)
        first = jnp.stack([-l2 - l1 * jnp.cos(behind), -l1 * jnp.sin(behind), behind])
        last = jnp.stack([l2 + l3 * jnp.cos(ahead), l3 * jnp.sin(ahead), ahead])
        return jnp.stack([first, jnp.stack([zero, zero, zero]), last])

    def drags(self):
        normal = self.drag * self.drag_ratio
        rotational = normal if self.rotational_drag is None else self.rotational_drag
        return slender_drags(self.lengths, self.drag, normal, rotational)
