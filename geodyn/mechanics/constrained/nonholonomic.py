"""Bodies that roll, and bodies on blades: each a system by itself, ready for `integrate`.

    body = gd.nonholonomic.Sleigh(mass=1.2, inertia=0.3, offset=0.25)
    q0 = jnp.zeros(3)
    trajectory = gd.integrate(body, q0, body.basis(q0) @ jnp.array([0.4, 2.5]), t1=3.0, steps=300)

holds the constraints by multipliers, with `RadauIIA`; `gd.nonholonomic.QuasiVelocities(body, body.basis)` in place of
`body` has none and takes `Gauss`. All move on a plane with coordinates x, y; `downhill` is the acceleration g
sin(slope) along x, where it is inclined. Angles in radians, else any consistent units; masses, lengths and moments of
inertia must be positive and finite, else ValueError.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._typing import Array, Float, Scalar
from geodyn.integrators.contract.lagrangian import AbstractFlatLagrangian
from geodyn.mechanics.elements.abstract import AbstractPfaffian, number
from geodyn.mechanics.elements.poses import AbstractOnBodies


class AbstractRollingBody(AbstractFlatLagrangian):
    """A body without friction losses whose velocities are bound; it rolls with v0 = basis(q0) @ u0 for any u0[m]."""

    @abc.abstractmethod
    def basis(self, q: Float[Array, " n"]) -> Float[Array, "n m"]:
        """The velocities that the constraints admit, as columns."""

    def rayleigh_at(self, t, q, v):
        return jnp.zeros((), v.dtype)


class Penny(AbstractRollingBody):
    """An upright disc that rolls: q = (x, y, heading, angle rolled), u = (heading', roll').

    x' = R cos(heading) roll', y' = R sin(heading) roll'. `rolling_inertia` is about its axis, `turning_inertia` about a
    diameter; by default they are those of a uniform disc of unit mass and radius.
    Source: Bloch, *Nonholonomic Mechanics and Control*, 1.4.
    """

    mass: Scalar
    radius: Scalar
    rolling_inertia: Scalar
    turning_inertia: Scalar
    downhill: Scalar

    def __init__(self, mass=1.0, radius=1.0, rolling_inertia=0.5, turning_inertia=0.25, downhill=0.0):
        self.mass, self.radius, self.rolling_inertia, self.turning_inertia = _positive(
            mass=mass, radius=radius, rolling_inertia=rolling_inertia, turning_inertia=turning_inertia
        )
        self.downhill = jnp.asarray(downhill, float)

    def lagrangian_at(self, t, q, v):
        turning = self.rolling_inertia * v[3] ** 2 + self.turning_inertia * v[2] ** 2
        return (self.mass * (v[0] ** 2 + v[1] ** 2) + turning) / 2 + self.mass * self.downhill * q[0]

    def constraint(self, t, q):
        return jnp.zeros(0, q.dtype)

    def pfaffian(self, t, q, v):
        return v[:2] - self.radius * v[3] * _ahead(q[2])

    def basis(self, q):
        roll = jnp.concatenate([self.radius * _ahead(q[2]), jnp.array([0.0, 1.0], q.dtype)])
        return jnp.stack([jnp.array([0.0, 0.0, 1.0, 0.0], q.dtype), roll], 1)


class Sleigh(AbstractRollingBody):
    """A body on a blade that does not slip sideways: q = (x, y, heading) of the blade, u = (speed, heading').

    The centre of mass is `offset` ahead of the blade, `inertia` is about it. Chaplygin's sleigh; with offset 0 a knife
    edge, which on an incline, spinning, does not go down. Source: Bloch, *Nonholonomic Mechanics and Control*, 1.6 and
    1.7; Neimark & Fufaev (1972), II.
    """

    mass: Scalar
    inertia: Scalar
    offset: Scalar
    downhill: Scalar

    def __init__(self, mass=1.0, inertia=1.0, offset=0.0, downhill=0.0):
        self.mass, self.inertia = _positive(mass=mass, inertia=inertia)
        self.offset, self.downhill = jnp.asarray(offset, float), jnp.asarray(downhill, float)

    def lagrangian_at(self, t, q, v):
        centre, rate = jax.jvp(lambda q: q[:2] + self.offset * _ahead(q[2]), (q,), (v,))
        kinetic = (self.mass * jnp.dot(rate, rate) + self.inertia * v[2] ** 2) / 2
        return kinetic + self.mass * self.downhill * centre[0]

    def constraint(self, t, q):
        return jnp.zeros(0, q.dtype)

    def pfaffian(self, t, q, v):
        return jnp.stack([_across(q[2], v)])

    def basis(self, q):
        return jnp.stack([jnp.append(_ahead(q[2]), 0.0), jnp.array([0.0, 0.0, 1.0], q.dtype)], 1)


class Car(AbstractRollingBody):
    """A car: q = (x, y, heading, angle that the rear wheels have rolled, steering angle δ), u = (roll', δ'), |δ| < π/2.

    (x, y) is the middle of the rear axle, the centre of mass is `offset` ahead of it; `inertia` is that of the whole
    about its centre of mass, `wheel_inertia` that of the wheels about their axles, `steering_inertia` that of the front
    axle about its middle. `gd.swimmers.KinematicCar` is what is left of it where (roll, δ) are prescribed.
    Source: Murray & Sastry, *IEEE Trans. Autom. Control* 38 (1993) 700, for the constraints.
    """

    mass: Scalar
    inertia: Scalar
    wheelbase: Scalar
    radius: Scalar
    offset: Scalar
    wheel_inertia: Scalar
    steering_inertia: Scalar
    downhill: Scalar

    def __init__(
        self,
        mass=1.0,
        inertia=1.0,
        wheelbase=1.0,
        radius=1.0,
        offset=0.5,
        wheel_inertia=0.1,
        steering_inertia=0.1,
        downhill=0.0,
    ):
        self.mass, self.inertia, self.wheelbase, self.radius = _positive(
            mass=mass, inertia=inertia, wheelbase=wheelbase, radius=radius
        )
        self.wheel_inertia, self.steering_inertia = _positive(
            wheel_inertia=wheel_inertia, steering_inertia=steering_inertia
        )
        self.offset, self.downhill = jnp.asarray(offset, float), jnp.asarray(downhill, float)

    def lagrangian_at(self, t, q, v):
        centre, rate = jax.jvp(lambda q: q[:2] + self.offset * _ahead(q[2]), (q,), (v,))
        turning = self.inertia * v[2] ** 2 + self.steering_inertia * (v[4] ** 2 + 2 * v[2] * v[4])
        turning += self.wheel_inertia * v[3] ** 2
        return (self.mass * jnp.dot(rate, rate) + turning) / 2 + self.mass * self.downhill * centre[0]

    def constraint(self, t, q):
        return jnp.zeros(0, q.dtype)

    def pfaffian(self, t, q, v):
        front = _across(q[2] + q[4], v) + self.wheelbase * v[2] * jnp.cos(q[4])
        return jnp.append(v[:2] - self.radius * v[3] * _ahead(q[2]), front)

    def basis(self, q):
        turn = self.radius * jnp.tan(q[4]) / self.wheelbase
        drive = jnp.concatenate([self.radius * _ahead(q[2]), jnp.stack([turn, jnp.ones_like(turn), 0 * turn])])
        return jnp.stack([drive, jnp.array([0.0, 0.0, 0.0, 0.0, 1.0], q.dtype)], 1)


class Rolling(AbstractPfaffian, AbstractOnBodies):
    """Spheres that roll on the horizontal plane, an element of `gd.rigid.RigidBodies` whose origins are their centres:
    v + ω × (−R ẑ) is the velocity of the table, and their height stays as it is.

        ball = gd.rigid.RigidBodies([0.4, 0.4, 0.4], 1.0, gd.nonholonomic.Rolling(1, radii=1.0, turntable=3.0))
        q0, v0 = ball.state(position=[0.5, 0.1, 1.0], velocity=[0.2, -0.4, 0.0], angular_velocity=[1.9, 0.5, 0.0])

    rolls from the start as it is; `gd.project` makes other v0 roll. The multipliers are the forces of the table [3] on
    each of the `count` bodies. The table turns about the origin with the angular velocity `turntable`: a homogeneous
    ball goes in circles, with 2/7 of that. Different moments of inertia are Chaplygin's ball. For
    `gd.nonholonomic.QuasiVelocities` the rates of the quaternions determine the others: of one ball its basis is (3, 4,
    5, 6). Raises ValueError for radii that are not positive, or not one number or [count]. Source: Neimark & Fufaev
    (1972), I, II; Bloch, *Nonholonomic Mechanics and Control*, 1.9.
    """

    radii: Float[Array, " B"]
    turntable: Scalar
    size: int = eqx.field(static=True)

    def __init__(self, count=1, radii=1.0, turntable=0.0):
        radii = number("radii", radii, positive=True)
        if radii.shape not in ((), (count,)):
            raise ValueError(f"radii must be one number or one for each of {count} spheres, got shape {radii.shape}")
        self.radii, self.turntable = jnp.broadcast_to(radii, (count,)), jnp.asarray(turntable, float)
        self.size = 3 * count

    def rate(self, space, bodies, rates):
        spins = jnp.einsum("bij,bj->bi", bodies.rotation, bodies.angular_velocity(rates))
        up = jnp.array([[0.0, 0.0, 1.0]], spins.dtype)
        table = self.turntable * jnp.cross(up, bodies.position)
        return (rates.position - self.radii[:, None] * jnp.cross(spins, up) - table).reshape(-1)


def _positive(**given):
    return [number(name, value, positive=True) for name, value in given.items()]


def _ahead(angle):
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def _across(angle, v):
    """The velocity to the left of this direction."""
    return jnp.cos(angle) * v[1] - jnp.sin(angle) * v[0]
