"""MOTION: swimmers of slender links under resistive-force theory."""

import equinox as eqx
import jax.numpy as jnp

from geodyn._typing import Array, Float, Number
from geodyn.geometry.groups import SE2
from geodyn.locomotion.checks import require_positive
from geodyn.locomotion.connection import AbstractLinkSwimmer, slender_drags
from geodyn.locomotion.stroke import floating


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
        require_positive("Purcell", lengths=self.lengths, drag_ratio=self.drag_ratio, drag=self.drag)
        if self.rotational_drag is not None:
            require_positive("Purcell", rotational_drag=self.rotational_drag)

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
