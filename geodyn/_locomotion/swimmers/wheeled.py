"""MOTION: bodies on wheels, which roll without slipping."""

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Number, Scalar
from geodyn._geometry.groups.rigid import SE2, Translation
from geodyn._locomotion.connections.checks import require_positive, require_shape
from geodyn._locomotion.connections.kinematic import AbstractKinematicBody
from geodyn._locomotion.connections.linkages import bars, chain, link_velocities, wheels
from geodyn._locomotion.strokes.stroke import floating


@checked
class RollingDisc(AbstractKinematicBody):
    """An upright disc that rolls on the plane; its shape is r = (angle rolled, heading) in radians.

    Its position is that of the contact. Any consistent unit of length.

    Args:
        radius: of the disc.
        group: `gd.groups.Translation(2)`, the motions of the contact.

    Raises:
        ValueError: unless the radius is positive.

    Example:
        It rolls by one radian and turns by a quarter at the same time, on a quarter of a circle of the radius 2R/π.

        >>> disc = gd.swimmers.RollingDisc(radius=1.0)
        >>> way = gd.strokes.OpenStroke([0.0, 0.0], [1.0, jnp.pi / 2], jnp.zeros((2, 1)))
        >>> print(disc.group.log(gd.holonomy(disc, way)).round(6), f"{2 / np.pi:.6f}")
        [0.63662 0.63662] 0.636620

    Source:
        Bloch et al., *Arch. Rational Mech. Anal.* 136 (1996) 21, section 2.
    """

    shape_names = ("angle rolled (rad)", "heading (rad)")

    radius: Number = eqx.field(default=1.0, converter=floating)
    group: Translation = Translation(2)

    def __check_init__(self):
        require_positive("RollingDisc", radius=self.radius)

    def constraints(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Float[Array, "2"]:
        require_shape("RollingDisc", "the shape r", r, (2,))
        return xi - self.radius * rdot[0] * jnp.stack([jnp.cos(r[1]), jnp.sin(r[1])])

    @checked
    def outline(self, r: Float[Array, "2"]) -> Float[Array, "2 2 2"]:
        """The disc and a mark on its rim, which turns with it, seen from above."""
        along = jnp.stack([jnp.cos(r[1]), jnp.sin(r[1])])
        # From above one sees how far ahead of the contact the mark is.
        mark = self.radius * jnp.sin(r[0]) * along
        disc_pose = jnp.append(0 * mark, r[1])
        mark_pose = jnp.append(mark, r[1] + jnp.pi / 2)
        poses = jnp.stack([disc_pose, mark_pose])
        sizes: Float[Array, "2"] = self.radius * jnp.array([2.0, 0.4])
        return bars(poses, sizes)


@checked
class KinematicCar(AbstractKinematicBody):
    """A car that rolls without slip; its shape is r = (roll, steering angle δ) in radians.

    The first is the angle that the rear wheels have rolled. The frame sits at the middle of the rear axle, and |δ| <
    π/2. Any consistent unit of length.

    Args:
        wheelbase: distance of the axles.
        radius: of the rear wheels.
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless both are positive.

    Example:
        It turns by (radius/wheelbase) tan δ of the angle rolled.

        >>> car = gd.swimmers.KinematicCar(wheelbase=2.0, radius=0.5)
        >>> print(-gd.connection(car, [0.0, 0.6])[:, 0].round(6) + 0.0, f"{0.5 / 2.0 * np.tan(0.6):.6f}")
        [0.5      0.       0.171034] 0.171034

    Source:
        Kelly & Murray, *J. Robotic Systems* 12 (1995) 417; Murray & Sastry, *IEEE Trans. Autom. Control* 38 (1993) 700.
    """

    shape_names = ("roll (rad)", "steering angle (rad)")

    wheelbase: Number = eqx.field(default=1.0, converter=floating)
    radius: Number = eqx.field(default=1.0, converter=floating)
    group: SE2 = SE2()

    def __check_init__(self):
        require_positive("KinematicCar", wheelbase=self.wheelbase, radius=self.radius)

    def constraints(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Float[Array, "3"]:
        require_shape("KinematicCar", "the shape r", r, (2,))
        # The rear wheels roll, and neither axle moves along itself; the front one is turned by δ.
        rolling = xi[0] - self.radius * rdot[0]
        rear = xi[1]
        front = jnp.cos(r[1]) * (xi[1] + self.wheelbase * xi[2]) - jnp.sin(r[1]) * xi[0]
        return jnp.stack([rolling, rear, front])

    @checked
    def outline(self, r: Float[Array, "2"]) -> Float[Array, "7 2 2"]:
        """The wheelbase and the axles with their wheels, seen from above; the axles are half as long."""
        wheelbase: Scalar = self.wheelbase
        zero = jnp.zeros_like(r[0])
        middle = jnp.stack([0.5 * wheelbase, zero, zero])
        rear = jnp.stack([0.0 * wheelbase, zero, zero])
        front = jnp.stack([wheelbase, zero, r[1]])
        chassis = bars(middle[None], wheelbase[None])
        axles = wheels(jnp.stack([rear, front]), wheelbase / jnp.full(2, 2.0))
        return jnp.concatenate([chassis, axles])


@checked
class DifferentialDrive(AbstractKinematicBody):
    """A cart with two wheels on one axle, each driven for itself; its shape is r = (left, right), the angles rolled.

    The frame sits at the middle of the axle and points ahead. The connection is the same at all shapes, so that only
    the order of the turns counts. Angles in radians, any consistent unit of length.

    Args:
        track: distance of the wheels.
        radius: of the wheels.
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless both are positive.

    Example:
        The right wheel alone rolls by one turn: the cart goes around the left one, by `radius/track` of that turn.

        >>> cart = gd.swimmers.DifferentialDrive(track=2.0, radius=0.5)
        >>> way = gd.strokes.OpenStroke([0.0, 0.0], [0.0, 2 * jnp.pi], jnp.zeros((2, 1)))
        >>> print(gd.holonomy(cart, way).round(6) + 0.0)
        [[ 0. -1.  1.]
         [ 1.  0.  1.]
         [ 0.  0.  1.]]

    Source:
        LaValle, *Planning Algorithms* (2006), section 13.1.2.2.
    """

    shape_names = ("left wheel (rad)", "right wheel (rad)")

    track: Number = eqx.field(default=1.0, converter=floating)
    radius: Number = eqx.field(default=1.0, converter=floating)
    group: SE2 = SE2()

    def __check_init__(self):
        require_positive("DifferentialDrive", track=self.track, radius=self.radius)

    def constraints(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Float[Array, "3"]:
        require_shape("DifferentialDrive", "the shape r", r, (2,))
        # Both wheels roll, and the axle does not move along itself.
        left = xi[0] - self.track / 2 * xi[2] - self.radius * rdot[0]
        right = xi[0] + self.track / 2 * xi[2] - self.radius * rdot[1]
        return jnp.stack([left, right, xi[1]])

    @checked
    def outline(self, r: Float[Array, "2"]) -> Float[Array, "6 2 2"]:
        """The axle, its wheels with a mark on each that turns with it, and a bar ahead, seen from above."""
        track: Scalar = self.track
        zeros = jnp.zeros_like(r)
        zero = zeros[0]
        quarter_turn = jnp.pi / 2
        sides = track / 2 * jnp.array([1.0, -1.0], r.dtype)
        wheel_poses = jnp.stack([zeros, sides, zeros], axis=1)
        mark_poses = jnp.stack([self.radius * jnp.sin(r), sides, zeros + quarter_turn], axis=1)
        ahead_pose = jnp.stack([track / 4, zero, zero])
        axle_pose = jnp.stack([zero, zero, zero + quarter_turn])
        axle = bars(axle_pose[None], track[None])
        treads = bars(wheel_poses, jnp.full_like(r, 2 * self.radius))
        marks = bars(mark_poses, track * jnp.full(2, 0.1, r.dtype))
        ahead = bars(ahead_pose[None], track[None] / 2)
        return jnp.concatenate([axle, treads, marks, ahead])


@checked
class KinematicSnake(AbstractKinematicBody):
    """Three links on wheels in the middle of each; its shape is r = (α₁, α₂), the hinge angles in radians.

    The frame sits at the centre of the middle link and along it. It is singular where the three axles meet in one point
    or are parallel, as for equal links at α₁ = α₂: strokes must keep away from there. Any consistent unit of length.

    Args:
        lengths: of the links [3].
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless there are three positive lengths.

    Example:
        No wheel slips: the middle link has no velocity across itself, the second row of the connection.

        >>> snake = gd.swimmers.KinematicSnake()
        >>> print(gd.connection(snake, [0.5, -0.7])[1].round(6) + 0.0)
        [0. 0.]
        >>> stroke = gd.FourierStroke.circle(0.3, centre=(0.8, -0.8))
        >>> print(snake.group.log(gd.holonomy(snake, stroke)).round(4) + 0.0)
        [ 0.1376 -0.0716  0.    ]

    Source:
        Ostrowski & Burdick, *Int. J. Robot. Res.* 17 (1998) 683; Shammas, Choset & Rizzi, *Int. J. Robot. Res.* 26
        (2007) 1043.
    """

    shape_names = ("first hinge angle (rad)", "second hinge angle (rad)")

    lengths: Float[Array, "3"] = eqx.field(default=(1.0, 1.0, 1.0), converter=floating)
    group: SE2 = SE2()

    def __check_init__(self):
        require_shape("KinematicSnake", "lengths", self.lengths, (3,))
        require_positive("KinematicSnake", lengths=self.lengths)

    def constraints(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Float[Array, "3"]:
        poses, rates = jax.jvp(lambda r: chain(self.lengths, r), (r,), (rdot,))
        across = link_velocities(poses, rates, xi)[:, 1]
        return across

    @checked
    def outline(self, r: Float[Array, "2"]) -> Float[Array, "12 2 2"]:
        """The links, and a pair of wheels in the middle of each, seen from above."""
        poses = chain(self.lengths, r)
        links = bars(poses, self.lengths)
        return jnp.concatenate([links, wheels(poses, self.lengths / 4)])
