"""Nonholonomic systems: bodies that roll and bodies on blades, ready for `integrate`.

    body = gd.nonholonomic.Sleigh(mass=1.2, inertia=0.3, offset=0.25)
    q0 = jnp.zeros(3)
    trajectory = gd.integrate(body, q0, body.basis(q0) @ jnp.array([0.4, 2.5]), t1=3.0, steps=300)

enforces the constraints by multipliers, with `RadauIIA`. With `gd.nonholonomic.QuasiVelocities(body, body.basis)` in
place of `body` there are no multipliers, and `Gauss` can be used. All bodies move on a plane with coordinates x, y. If
the plane is inclined, `downhill` is the acceleration g sin(slope) along x. Angles are in radians, all other quantities
in any consistent units. Masses, lengths and moments of inertia must be positive and finite, else ValueError is raised.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Each, Float, Number, Scalar
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._integrators.contract.lagrangian import AbstractFlatLagrangian
from geodyn._mechanics.elements.abstract import AbstractPfaffian, number
from geodyn._mechanics.elements.poses import AbstractOnBodies, Poses


class AbstractRollingBody(AbstractFlatLagrangian):
    """A body that rolls or slides on a blade without losses: a system by itself, ready for `gd.integrate`.

    A subclass defines `lagrangian_at(t, q, v)`, a number; `constraint(t, q)`, holonomic constraints, `jnp.zeros(0)`
    for none; `pfaffian(t, q, v)`, the values [k] that must vanish, linear in v; and `basis(q) -> [n, m]`, the
    velocities that they admit, as columns. A motion starts with `v0 = basis(q0) @ u0` for any u0[m]. `gd.RadauIIA`
    holds the constraints by multipliers; `gd.nonholonomic.QuasiVelocities(body, body.basis)` has none and takes
    `gd.Gauss`. `gd.nonholonomic.Penny`, `Sleigh` and `Car` are of this kind.

    Example:
        A skate, q = (x, y, heading), that keeps its speed and its spin: it goes in circles of the radius speed/spin.

        >>> class Skate(gd.nonholonomic.AbstractRollingBody):
        ...     def lagrangian_at(self, t, q, v):
        ...         return v @ v / 2
        ...     def constraint(self, t, q):
        ...         return jnp.zeros(0)
        ...     def pfaffian(self, t, q, v):
        ...         return jnp.stack([jnp.cos(q[2]) * v[1] - jnp.sin(q[2]) * v[0]])
        ...     def basis(self, q):
        ...         ahead = jnp.stack([jnp.cos(q[2]), jnp.sin(q[2]), 0.0 * q[2]])
        ...         return jnp.stack([ahead, jnp.array([0.0, 0.0, 1.0])], axis=1)
        >>> q0 = jnp.zeros(3)
        >>> motion = gd.integrate(Skate(), q0, Skate().basis(q0) @ jnp.array([3.0, 2.0]), t1=jnp.pi / 2, steps=40)
        >>> print(motion.q[-1, :2].round(6) + 0.0)  # half a circle of the radius 1.5
        [0. 3.]
    """

    @abc.abstractmethod
    def basis(self, q: Float[Array, " n"]) -> Float[Array, "n m"]:
        """The velocities that the constraints admit, as columns."""

    def rayleigh_at(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        return jnp.zeros((), v.dtype)


class Penny(AbstractRollingBody):
    """An upright disc that rolls on the plane: q = (x, y, heading, angle rolled), with free u = (heading', roll').

    It does not slip: `x' = R cos(heading) roll'`, `y' = R sin(heading) roll'`. `basis(q) @ u` is the velocity
    of u. Angles in radians, else any consistent units.

    Args:
        mass: of the disc.
        radius: R of the disc.
        rolling_inertia: about its axis; default that of a uniform disc of unit mass and radius.
        turning_inertia: about a diameter.
        downhill: acceleration g sin(slope) along x, where the plane is inclined.

    Raises:
        ValueError: unless masses, lengths and moments of inertia are positive and finite.

    Example:
        It keeps both rates, and rolls on a circle of the radius R roll'/heading'.

        >>> penny = gd.nonholonomic.Penny(radius=0.5)
        >>> q0 = jnp.zeros(4)
        >>> motion = gd.integrate(penny, q0, penny.basis(q0) @ jnp.array([1.0, 4.0]), t1=jnp.pi / 2, steps=40)
        >>> print(motion.q[-1].round(6))  # a quarter of a circle of the radius 2
        [2.       2.       1.570796 6.283185]

    Source:
        Bloch, *Nonholonomic Mechanics and Control*, 1.4.
    """

    mass: Scalar
    radius: Scalar
    rolling_inertia: Scalar
    turning_inertia: Scalar
    downhill: Scalar

    @checked
    def __init__(
        self,
        mass: Number = 1.0,
        radius: Number = 1.0,
        rolling_inertia: Number = 0.5,
        turning_inertia: Number = 0.25,
        downhill: Number = 0.0,
    ):
        self.mass, self.radius, self.rolling_inertia, self.turning_inertia = _positive(
            mass=mass, radius=radius, rolling_inertia=rolling_inertia, turning_inertia=turning_inertia
        )
        self.downhill = jnp.asarray(downhill, float)

    def lagrangian_at(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        turning = self.rolling_inertia * v[3] ** 2 + self.turning_inertia * v[2] ** 2
        drift = self.mass * (v[0] ** 2 + v[1] ** 2)
        return (drift + turning) / 2 + self.mass * self.downhill * q[0]

    def constraint(self, t: Number, q: Float[Array, " n"]) -> Float[Array, " c"]:
        return jnp.zeros(0, q.dtype)

    def pfaffian(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " k"]:
        return v[:2] - self.radius * v[3] * _ahead(q[2])

    @checked
    def basis(self, q: Float[Array, "4"]) -> Float[Array, "4 2"]:
        turn = jnp.array([0.0, 0.0, 1.0, 0.0], q.dtype)
        roll = jnp.concatenate([self.radius * _ahead(q[2]), jnp.array([0.0, 1.0], q.dtype)])
        return jnp.stack([turn, roll], 1)


class Sleigh(AbstractRollingBody):
    """A body on a blade that does not slip sideways, Chaplygin's sleigh.

    Configurations are q = (x, y, heading), with (x, y) the place of the blade; u = (speed, heading') is free. With
    `offset` 0 it is a knife edge, which on an incline, spinning, does not go down. `basis(q) @ u` is the velocity of
    u. Angles in radians, else any consistent units.

    Args:
        mass: of the body.
        inertia: about its centre of mass.
        offset: by which the centre of mass is ahead of the blade.
        downhill: acceleration g sin(slope) along x, where the plane is inclined.

    Raises:
        ValueError: unless mass and inertia are positive and finite.

    Example:
        A knife edge that spins with ω on an incline: x = (downhill/2ω²) sin² ωt, which does not grow.

        >>> edge = gd.nonholonomic.Sleigh(downhill=3.0)
        >>> q0 = jnp.zeros(3)
        >>> motion = gd.integrate(edge, q0, edge.basis(q0) @ jnp.array([0.0, 2.0]), t1=1.0, steps=50)
        >>> print(f"{motion.q[-1, 0]:.6f} {3.0 / (2 * 2.0**2) * np.sin(2.0) ** 2:.6f}")
        0.310058 0.310058

    Source:
        Bloch, *Nonholonomic Mechanics and Control*, 1.6 and 1.7; Neimark & Fufaev, *Dynamics of Nonholonomic Systems*
        (1972), II.
    """

    mass: Scalar
    inertia: Scalar
    offset: Scalar
    downhill: Scalar

    @checked
    def __init__(self, mass: Number = 1.0, inertia: Number = 1.0, offset: Number = 0.0, downhill: Number = 0.0):
        self.mass, self.inertia = _positive(mass=mass, inertia=inertia)
        self.offset = jnp.asarray(offset, float)
        self.downhill = jnp.asarray(downhill, float)

    def lagrangian_at(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        centre, rate = jax.jvp(lambda q: q[:2] + self.offset * _ahead(q[2]), (q,), (v,))
        kinetic = (self.mass * jnp.dot(rate, rate) + self.inertia * v[2] ** 2) / 2
        return kinetic + self.mass * self.downhill * centre[0]

    def constraint(self, t: Number, q: Float[Array, " n"]) -> Float[Array, " c"]:
        return jnp.zeros(0, q.dtype)

    def pfaffian(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " k"]:
        return jnp.stack([_across(q[2], v)])

    @checked
    def basis(self, q: Float[Array, "3"]) -> Float[Array, "3 2"]:
        return jnp.stack([jnp.append(_ahead(q[2]), 0.0), jnp.array([0.0, 0.0, 1.0], q.dtype)], 1)


class Car(AbstractRollingBody):
    """A car with inertia that rolls without slip.

    Configurations are q = (x, y, heading, roll, steering angle δ); u = (roll', δ') is free. (x, y) is the middle of the
    rear axle and roll the angle that the rear wheels have rolled; |δ| < π/2. `basis(q) @ u` is the velocity of u.
    `gd.swimmers.KinematicCar` is what is left of it where roll and δ are prescribed. Angles in radians, else any
    consistent units.

    Args:
        mass: of the car.
        inertia: of the whole about its centre of mass.
        wheelbase: distance of the axles.
        radius: of the rear wheels.
        offset: by which the centre of mass is ahead of the rear axle.
        wheel_inertia: of the wheels about their axles.
        steering_inertia: of the front axle about its middle.
        downhill: acceleration g sin(slope) along x, where the plane is inclined.

    Raises:
        ValueError: unless mass, lengths and moments of inertia are positive and finite.

    Example:
        Downhill, straight ahead: the wheels add wheel_inertia/radius² to the mass that is accelerated.

        >>> car = gd.nonholonomic.Car(mass=2.0, radius=0.5, wheel_inertia=0.1, downhill=3.0)
        >>> motion = gd.integrate(car, jnp.zeros(5), t1=1.0, steps=20)
        >>> print(f"{motion.q[-1, 0]:.6f} {3.0 / 2 * 2.0 / (2.0 + 0.1 / 0.5**2):.6f}")
        1.250000 1.250000

    Source:
        Murray & Sastry, *IEEE Trans. Autom. Control* 38 (1993) 700, for the constraints.
    """

    mass: Scalar
    inertia: Scalar
    wheelbase: Scalar
    radius: Scalar
    offset: Scalar
    wheel_inertia: Scalar
    steering_inertia: Scalar
    downhill: Scalar

    @checked
    def __init__(
        self,
        mass: Number = 1.0,
        inertia: Number = 1.0,
        wheelbase: Number = 1.0,
        radius: Number = 1.0,
        offset: Number = 0.5,
        wheel_inertia: Number = 0.1,
        steering_inertia: Number = 0.1,
        downhill: Number = 0.0,
    ):
        self.mass, self.inertia, self.wheelbase, self.radius = _positive(
            mass=mass, inertia=inertia, wheelbase=wheelbase, radius=radius
        )
        self.wheel_inertia, self.steering_inertia = _positive(
            wheel_inertia=wheel_inertia, steering_inertia=steering_inertia
        )
        self.offset = jnp.asarray(offset, float)
        self.downhill = jnp.asarray(downhill, float)

    def lagrangian_at(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        centre, rate = jax.jvp(lambda q: q[:2] + self.offset * _ahead(q[2]), (q,), (v,))
        turning = self.inertia * v[2] ** 2
        # The front axle turns with the body and against it.
        turning += self.steering_inertia * (v[4] ** 2 + 2 * v[2] * v[4])
        turning += self.wheel_inertia * v[3] ** 2
        kinetic = (self.mass * jnp.dot(rate, rate) + turning) / 2
        return kinetic + self.mass * self.downhill * centre[0]

    def constraint(self, t: Number, q: Float[Array, " n"]) -> Float[Array, " c"]:
        return jnp.zeros(0, q.dtype)

    def pfaffian(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " k"]:
        front = _across(q[2] + q[4], v) + self.wheelbase * v[2] * jnp.cos(q[4])
        return jnp.append(v[:2] - self.radius * v[3] * _ahead(q[2]), front)

    @checked
    def basis(self, q: Float[Array, "5"]) -> Float[Array, "5 2"]:
        turn = self.radius * jnp.tan(q[4]) / self.wheelbase
        angles = jnp.stack([turn, jnp.ones_like(turn), 0 * turn])
        drive = jnp.concatenate([self.radius * _ahead(q[2]), angles])
        steer = jnp.array([0.0, 0.0, 0.0, 0.0, 1.0], q.dtype)
        return jnp.stack([drive, steer], 1)


class Rolling(AbstractPfaffian, AbstractOnBodies):
    """Spheres that roll on a horizontal plane or turntable: an element of `gd.rigid.RigidBodies`.

    The origins of the bodies are the centres of the spheres. The velocity `v + ω × (−R ẑ)` of the point that
    touches is that of the table, and the height stays as it is. `gd.project` makes initial velocities roll. The
    multipliers are the forces of the table [3] on each body. Different moments of inertia are Chaplygin's ball. For
    `gd.nonholonomic.QuasiVelocities` the rates of the quaternions determine the others: of one ball its basis is (3, 4,
    5, 6). Any consistent units.

    Args:
        count: number of bodies.
        radii: R, one number or [count].
        turntable: angular velocity with which the table turns about the origin.

    Raises:
        ValueError: for radii that are not positive, or not one number or [count].

    Example:
        A homogeneous ball on a turntable goes in circles with 2/7 of its angular velocity: after the time π it is back.

        >>> ball = gd.rigid.RigidBodies([0.4, 0.4, 0.4], 1.0, gd.nonholonomic.Rolling(radii=1.0, turntable=7.0))
        >>> q0, v0 = ball.state(position=[0.5, 0.1, 1.0], velocity=[0.2, -0.4, 0.0])
        >>> q0, v0 = gd.project(ball, q0, v0)
        >>> motion = gd.rigid.rigid_motion(gd.integrate(ball, q0, v0, t1=jnp.pi, steps=100))
        >>> print(motion.position[0, 0].round(6), motion.position[-1, 0].round(6))
        [0.5 0.1 1. ] [0.5 0.1 1. ]

    Source:
        Neimark & Fufaev, *Dynamics of Nonholonomic Systems* (1972), I and II; Bloch, *Nonholonomic Mechanics and
        Control*, 1.9.
    """

    radii: Float[Array, " B"]
    turntable: Scalar
    size: int = eqx.field(static=True)

    @checked
    def __init__(self, count: Count = 1, radii: Each = 1.0, turntable: Number = 0.0):
        radii = number("radii", radii, positive=True)
        if radii.shape not in ((), (count,)):
            raise ValueError(f"radii must be one number or one for each of {count} spheres, got shape {radii.shape}")
        self.radii = jnp.broadcast_to(radii, (count,))
        self.turntable = jnp.asarray(turntable, float)
        self.size = 3 * count

    def rate(self, space: AbstractManifold, bodies: Poses, rates: Poses) -> Float[Array, " k"]:
        spins = jnp.einsum("bij,bj->bi", bodies.rotation, bodies.angular_velocity(rates))
        up = jnp.array([[0.0, 0.0, 1.0]], spins.dtype)
        table = self.turntable * jnp.cross(up, bodies.position)
        return (rates.position - self.radii[:, None] * jnp.cross(spins, up) - table).reshape(-1)


def _positive(**given: Number) -> list[Scalar]:
    """The numbers as arrays; ValueError, with their names, unless they are positive and finite."""
    return [number(name, value, positive=True) for name, value in given.items()]


def _ahead(angle: Scalar) -> Float[Array, "2"]:
    """The unit vector in the direction `angle`."""
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def _across(angle: Scalar, v: Float[Array, " n"]) -> Scalar:
    """The component of the velocity v to the left of the direction `angle`."""
    return jnp.cos(angle) * v[1] - jnp.sin(angle) * v[0]
