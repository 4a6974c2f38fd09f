"""MOTION: bodies in a perfect fluid, which swim by the momentum of the water that moves with them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Number
from geodyn._geometry.groups.rigid import SE2
from geodyn._locomotion.connections.checks import require_positive, require_shape
from geodyn._locomotion.connections.connection import link_velocities
from geodyn._locomotion.connections.linkages import chain
from geodyn._locomotion.motion.mechanical import AbstractDeformableBody
from geodyn._locomotion.strokes.stroke import floating

CORNERS = 33


@checked
class FluidLinks(AbstractDeformableBody):
    """A chain of ellipses in a perfect fluid, which starts from rest; its shape r is the hinge angles.

    Water moves with a body that moves, and has its share of the energy: more across a slender link than along it. So a
    chain swims without friction and without shedding vortices. Each ellipse moves as if it were alone in the plane. It
    is as long as its link. How the chain moves after a push, `gd.bundles.drifting_path` says. The frame sits at the
    centre of the middle link, the left one of two, and along it. Angles in radians, else any consistent units; masses
    are per unit of depth.

    Args:
        lengths: of the links [L].
        aspect: width of an ellipse over its length, one number or one per link [L].
        density: of the fluid, mass per area; positive.
        body_density: of the links, one number or one per link [L]; None: that of the fluid, so that they neither rise
            nor sink.
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless all numbers are positive, and there are as many of each as links, or one.

    Example:
        The effective masses of a link along and across itself, and against turning: π b² and π a² of them are water.

        >>> fish = gd.swimmers.FluidLinks(aspect=0.1)
        >>> print(fish.inertias[0].round(6))
        [0.086394 0.863938 0.029013]
        >>> end = gd.holonomy(fish, gd.FourierStroke.circle(1.0))
        >>> print(fish.group.log(end).round(6) + 0.0)
        [-0.787769  0.237471  0.      ]

    Source:
        Lamb, *Hydrodynamics* (1932), sections 71 and 124; Kanso, Marsden, Rowley & Melli-Huber, *J. Nonlinear Sci.* 15
        (2005) 255; Hatton & Choset, *IEEE Trans. Robot.* 29 (2013) 615.
    """

    lengths: Float[Array, " L"] = eqx.field(default=(1.0, 1.0, 1.0), converter=floating)
    aspect: Number | Float[Array, " L"] = eqx.field(default=0.1, converter=floating)
    density: Number = eqx.field(default=1.0, converter=floating)
    body_density: Number | Float[Array, " L"] | None = eqx.field(
        default=None, converter=lambda x: None if x is None else floating(x)
    )
    group: SE2 = SE2()

    @property
    def shape_names(self) -> tuple[str, ...]:
        """The hinge angles."""
        return tuple(f"hinge angle {i + 1} (rad)" for i in range(self.lengths.size - 1))

    def __check_init__(self):
        require_positive("FluidLinks", lengths=self.lengths, aspect=self.aspect, density=self.density)
        require_shape("FluidLinks", "density", self.density, ())
        each = {"aspect": self.aspect}
        if self.body_density is not None:
            require_positive("FluidLinks", body_density=self.body_density)
            each["body_density"] = self.body_density
        for name, value in each.items():
            if jnp.ndim(value):
                require_shape("FluidLinks", name, value, (self.lengths.size,))

    @property
    def inertias(self) -> Float[Array, "L 3"]:
        """The effective masses of each link along and across itself, and its effective moment of inertia."""
        a, b = self._half_axes
        own = self.density if self.body_density is None else self.body_density
        mass = jnp.pi * own * a * b
        along = mass + jnp.pi * self.density * b**2
        across = mass + jnp.pi * self.density * a**2
        turning = mass * (a**2 + b**2) / 4 + jnp.pi * self.density * (a**2 - b**2) ** 2 / 8
        return jnp.stack([along, across, turning], axis=1)

    @property
    def _half_axes(self) -> tuple[Float[Array, " L"], Float[Array, " L"]]:
        return self.lengths / 2, self.aspect * self.lengths / 2

    def kinetic_energy(self, r, xi, rdot):
        poses, rates = jax.jvp(lambda r: chain(self.lengths, r), (r,), (rdot,))
        return jnp.sum(self.inertias * link_velocities(poses, rates, xi) ** 2) / 2

    @checked
    def outline(self, r: Float[Array, " m"]) -> Float[Array, "L 33 2"]:
        """The ellipses."""
        turn = np.linspace(0, 2 * np.pi, CORNERS)
        circle = jnp.asarray(np.stack([np.cos(turn), np.sin(turn)]), r.dtype)

        def ellipse(pose: Float[Array, "3"], a: Array, b: Array) -> Float[Array, "33 2"]:
            x, y, angle = pose
            cos, sin = jnp.cos(angle), jnp.sin(angle)
            ahead, aside = a * circle[0], b * circle[1]
            return jnp.stack([x + cos * ahead - sin * aside, y + sin * ahead + cos * aside], axis=1)

        return jax.vmap(ellipse)(chain(self.lengths, r), *self._half_axes)
