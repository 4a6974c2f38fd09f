"""Bodies that roll, and bodies on blades: each a system by itself, ready for `integrate`.

    body = gd.nonholonomic.Sleigh(mass=1.2, inertia=0.3, offset=0.25)
    q0 = jnp.zeros(3)
    trajectory = gd.integrate(body, q0, body.basis(q0) @ jnp.array([0.4, 2.5]), t1=3.0, steps=300)

holds the constraints by multipliers, with `RadauIIA`; `gd.QuasiVelocities(body, body.basis)` in place of `body` has
none and takes `Gauss`. All move on a plane with coordinates x, y; `downhill` is the acceleration g sin(slope) along x,
where it is inclined. Angles in radians, else any consistent units; masses, lengths and moments of inertia must be
positive and finite, else ValueError.
"""

import abc

import jax
import jax.numpy as jnp

from geodyn._typing import Array, Float, Scalar
from geodyn.integrators.lagrangian import AbstractFlatLagrangian
from geodyn.mechanics.elements import number


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


class Ball(AbstractRollingBody):
    """A ball that rolls: q = (x, y, Q[4]), the unit quaternion Q = (w, i, j, k) its attitude, u = ω its angular
    velocity in space [3]. |Q| = 1 is a holonomic constraint, beside which the rolling stands.

    `inertia` is about its centre, one number or those of its principal axes [3] (Chaplygin's ball, whose centre of mass
    is in the middle); by default that of a homogeneous ball. The table turns with the angular velocity `turntable`
    about the origin: then `rolling(q, velocity, spin)` are the velocities v0.
    Source: Neimark & Fufaev (1972), I, II; Bloch, *Nonholonomic Mechanics and Control*, 1.9 (on a turntable a
    homogeneous ball goes in circles, with 2/7 of its angular velocity).
    """

    mass: Scalar
    radius: Scalar
    inertia: Float[Array, "3"]
    turntable: Scalar
    downhill: Scalar

    def __init__(self, mass=1.0, radius=1.0, inertia=None, turntable=0.0, downhill=0.0):
        self.mass, self.radius = _positive(mass=mass, radius=radius)
        homogeneous = 0.4 * self.mass * self.radius**2
        inertia = number("inertia", homogeneous if inertia is None else inertia, positive=True)
        if inertia.shape not in ((), (3,)):
            raise ValueError(f"inertia of Ball must be one number or [3], of the principal axes; got {inertia.shape}")
        self.inertia = jnp.broadcast_to(inertia, (3,))
        self.turntable, self.downhill = jnp.asarray(turntable, float), jnp.asarray(downhill, float)

    def lagrangian_at(self, t, q, v):
        w, r, wdot, rdot = q[2], q[3:], v[2], v[3:]
        omega = 2 * (w * rdot - wdot * r - jnp.cross(r, rdot))
        # |Q| does not change, but without an inertia of that the metric would be singular.
        stretch = 2 * jnp.dot(q[2:], v[2:])
        turning = jnp.dot(self.inertia, omega**2) + jnp.mean(self.inertia) * stretch**2
        return (self.mass * jnp.dot(v[:2], v[:2]) + turning) / 2 + self.mass * self.downhill * q[0]

    def constraint(self, t, q):
        return jnp.stack([(jnp.dot(q[2:], q[2:]) - 1) / 2])

    def pfaffian(self, t, q, v):
        w, r, wdot, rdot = q[2], q[3:], v[2], v[3:]
        omega = 2 * (w * rdot - wdot * r + jnp.cross(r, rdot))
        table = self.turntable * jnp.stack([-q[1], q[0]])
        return v[:2] + self.radius * jnp.stack([-omega[1], omega[0]]) - table

    def basis(self, q):
        unit = jnp.eye(3, dtype=q.dtype)
        return jax.vmap(lambda omega: jnp.concatenate([self.radius * _turned(omega), _spun(omega, q[2:])]), 0, 1)(unit)

    def rolling(self, q, velocity, spin=0.0) -> Float[Array, "6"]:
        """The v[6] with which the centre moves with `velocity` [2] and the ball spins with ω_z = `spin`."""
        q, velocity = jnp.asarray(q, float), jnp.asarray(velocity, float)
        relative = velocity - self.turntable * jnp.stack([-q[1], q[0]])
        omega = jnp.stack([-relative[1] / self.radius, relative[0] / self.radius, jnp.asarray(spin, float)])
        return jnp.concatenate([velocity, _spun(omega, q[2:])])


def _positive(**given):
    return [number(name, value, positive=True) for name, value in given.items()]


def _ahead(angle):
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def _across(angle, v):
    """The velocity to the left of this direction."""
    return jnp.cos(angle) * v[1] - jnp.sin(angle) * v[0]


def _turned(omega):
    """ω × z, how fast a ball of unit radius rolls."""
    return jnp.stack([omega[1], -omega[0]])


def _spun(omega, attitude):
    """Q' = ½ωQ."""
    w, r = attitude[0], attitude[1:]
    return jnp.append(-jnp.dot(omega, r), w * omega + jnp.cross(omega, r)) / 2
