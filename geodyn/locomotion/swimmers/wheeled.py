"""MOTION: bodies on wheels, which roll without slipping."""

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._typing import Array, Float, Number
from geodyn.geometry.groups.rigid import SE2, Translation
from geodyn.locomotion.connections.checks import require_positive, require_shape
from geodyn.locomotion.connections.connection import link_velocities
from geodyn.locomotion.connections.kinematic import AbstractKinematicBody
from geodyn.locomotion.connections.linkages import bars, chain, wheels
from geodyn.locomotion.strokes.stroke import floating


class RollingDisc(AbstractKinematicBody):
    """An upright disc that rolls on the plane: shape r = (angle rolled, heading), position that of the contact.

    Angles in radians. Raises ValueError unless the radius is positive. Source: Bloch et al., *Arch. Rational Mech.
    Anal.* 136 (1996) 21, section 2.
    """

    radius: Number = eqx.field(default=1.0, converter=floating)
    group: Translation = Translation(2)

    def __check_init__(self):
        require_positive("RollingDisc", radius=self.radius)

    def constraints(self, r, xi, rdot):
        require_shape("RollingDisc", "the shape r", r, (2,))
        return xi - self.radius * rdot[0] * jnp.stack([jnp.cos(r[1]), jnp.sin(r[1])])

    def outline(self, r: Float[Array, "2"]) -> Float[Array, "2 2 2"]:
        """From above: the disc, edge on, and a mark across its rim that goes round with it."""
        along = jnp.stack([jnp.cos(r[1]), jnp.sin(r[1])])
        mark = self.radius * jnp.sin(r[0]) * along
        poses = jnp.stack([jnp.append(0 * mark, r[1]), jnp.append(mark, r[1] + jnp.pi / 2)])
        return bars(poses, self.radius * jnp.array([2.0, 0.4]))


class KinematicCar(AbstractKinematicBody):
    """A car: shape r = (angle that the rear wheels have rolled, steering angle δ), |δ| < π/2, in radians.

    The frame sits at the middle of the rear axle; `wheelbase` is the distance of the axles, `radius` that of the rear
    wheels. Any consistent units. Raises ValueError unless both are positive.
    Source: Kelly & Murray, *J. Robotic Systems* 12 (1995) 417; Murray & Sastry, *IEEE Trans. Autom. Control* 38 (1993)
    700.
    """

    wheelbase: Number = eqx.field(default=1.0, converter=floating)
    radius: Number = eqx.field(default=1.0, converter=floating)
    group: SE2 = SE2()

    def __check_init__(self):
        require_positive("KinematicCar", wheelbase=self.wheelbase, radius=self.radius)

    def constraints(self, r, xi, rdot):
        require_shape("KinematicCar", "the shape r", r, (2,))
        front = jnp.cos(r[1]) * (xi[1] + self.wheelbase * xi[2]) - jnp.sin(r[1]) * xi[0]
        return jnp.stack([xi[0] - self.radius * rdot[0], xi[1], front])

    def outline(self, r: Float[Array, "2"]) -> Float[Array, "7 2 2"]:
        """From above: the wheelbase, and the axles with their wheels, half as large."""
        none = jnp.zeros_like(r[0])
        middle, rear = (jnp.stack([x * self.wheelbase, none, none]) for x in (0.5, 0.0))
        front = jnp.stack([self.wheelbase, none, r[1]])
        chassis = bars(middle[None], self.wheelbase[None])
        return jnp.concatenate([chassis, wheels(jnp.stack([rear, front]), self.wheelbase / jnp.full(2, 2.0))])


class KinematicSnake(AbstractKinematicBody):
    """Three links on wheels, which sit in the middle of each link: shape r = (α₁, α₂), the hinge angles in radians.

    The frame sits at the centre of the middle link and along it. Singular where the three axles meet in one point or
    are parallel, as for equal links at α₁ = α₂: strokes must keep away from there. Any consistent units. Raises
    ValueError unless there are three positive lengths. Source: Ostrowski & Burdick, *Int. J. Robot. Res.* 17 (1998)
    683; Shammas, Choset & Rizzi, *Int. J. Robot. Res.* 26 (2007) 1043.
    """

    lengths: Float[Array, "3"] = eqx.field(default=(1.0, 1.0, 1.0), converter=floating)
    group: SE2 = SE2()

    def __check_init__(self):
        require_shape("KinematicSnake", "lengths", self.lengths, (3,))
        require_positive("KinematicSnake", lengths=self.lengths)

    def constraints(self, r, xi, rdot):
        poses, rates = jax.jvp(lambda r: chain(self.lengths, r), (r,), (rdot,))
        return link_velocities(poses, rates, xi)[:, 1]

    def outline(self, r: Float[Array, "2"]) -> Float[Array, "12 2 2"]:
        """From above: the links, and the wheels in the middle of each."""
        poses = chain(self.lengths, r)
        return jnp.concatenate([bars(poses, self.lengths), wheels(poses, self.lengths / 4)])
