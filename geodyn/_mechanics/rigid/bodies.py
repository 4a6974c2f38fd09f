"""Rigid bodies: positions and attitudes, with a left-invariant kinetic metric, and the elements that act on them.

An attitude is a quaternion q ≠ 0 in R⁴ of any length. With K = ½ ω·I ω + ½ (tr I/3) (2 d log|q|/dt)² the length is an
additional cyclic coordinate: it stays constant, and no force depends on it. Therefore configurations are vectors
without a constraint, the mass matrix is regular, and a rotation of the world, q ↦ g q, is a linear map. So a symplectic
Runge–Kutta method commutes with rotations, and conserves the angular momentum in the world, ½ Im(p q̄), to rounding,
since it is bilinear in (q, p) (Hairer, Lubich & Wanner, IV.2.1; McLachlan, Modin & Verdier, Nonlinearity 27 (2014)
1525): `Gauss(s)` is a variational integrator of order 2s on the group. In charts of the group, fixed or moving, it
would not be one: changes of charts are not affine, and the momentum would be conserved to the order of the method only.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import jit
from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.checks import shaped
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Each, Float, Index, Number, Numbers, Row, Scalar
from geodyn._geometry.groups.rigid import quaternion, quaternion_of
from geodyn._geometry.models.spaces import Euclidean
from geodyn._integrators.contract.constraints import check_constraints
from geodyn._integrators.contract.dissipation import check_dissipation
from geodyn._integrators.contract.system import is_configuration
from geodyn._integrators.trajectory import Trajectory
from geodyn._mechanics.elements.abstract import (
    AbstractConstraint,
    AbstractDissipation,
    AbstractPfaffian,
    AbstractPotential,
    number,
)
from geodyn._mechanics.elements.contact import AbstractContact
from geodyn._mechanics.elements.fields import PointLoad
from geodyn._mechanics.elements.parts import kind
from geodyn._mechanics.elements.poses import AbstractOnBodies, Poses, left_product, rotation, spin
from geodyn._mechanics.points.body import (
    ELEMENTS,
    AbstractBody,
    Element,
    check_elements,
    constraint_names,
    elements_of,
    rayleigh_of,
    seen_by_contacts,
)
from geodyn._mechanics.rigid.inertia import check_rotations, inertias, rows
from geodyn._mechanics.touching.together import check_contacts

MOST_STRETCHED = 0.5  # How far the squared length of a quaternion may be from 1.


class RigidMotion(eqx.Module):
    """What rigid bodies do, in the world and in the bodies: the result of `gd.rigid.rigid_motion`.

    T saved times come first, then B bodies; `body.motion(q, v)` gives one moment, without T.

    Args:
        position: [T, B, 3] of the origins.
        velocity: [T, B, 3] of the origins.
        rotation: R [T, B, 3, 3] from body to world.
        quaternion: [T, B, 4] (w, x, y, z), of length 1.
        angular_velocity: Rᵀω [T, B, 3], in the axes of the body, radians per unit of time.
        world_angular_velocity: ω [T, B, 3], in the axes of the world.
        angular_momentum: [T, B, 3] in the world about its origin, `x × m v + R I Rᵀω`.
        points: [T, N, 3], the points that elements act on, the origins first.

    Example:
        >>> body = gd.rigid.RigidBodies([1.0, 2.0, 3.0])
        >>> motion = body.motion(*body.state(angular_velocity=[0.0, 0.5, 1.0], position=[1.0, 0.0, 0.0]))
        >>> print(motion.angular_momentum[0], motion.points.shape)
        [0. 1. 3.] (1, 3)
    """

    position: Float[Array, "*T B 3"]
    velocity: Float[Array, "*T B 3"]
    rotation: Float[Array, "*T B 3 3"]
    quaternion: Float[Array, "*T B 4"]
    angular_velocity: Float[Array, "*T B 3"]
    world_angular_velocity: Float[Array, "*T B 3"]
    angular_momentum: Float[Array, "*T B 3"]
    points: Float[Array, "*T N 3"]


class RigidBodies(AbstractBody):
    """Rigid bodies in flat space of three dimensions, with positions and attitudes, and what acts on them.

    `state` makes (q0, v0) for `gd.integrate`, and `gd.rigid.rigid_motion` reads the result. Configurations are [B, 7],
    position and quaternion (w, x, y, z) of each body, or [B, 4] where they are pinned. Only the direction of a
    quaternion counts; its length stays as it is.

    Elements are those of any `gd.System` in `Euclidean(3)`. They act on points: 0 … B − 1 are the origins of the
    bodies, and then come those of `points`. So a spring between the origins of two bodies is
    `gd.Spring([(i, j)], …)`, and a box may fall on a `gd.Wall` with its corners. `gd.Gravity` pulls at the origins;
    pinned bodies, whose origins do not move, take a `gd.loads.PointLoad` at their centres of mass instead. An
    element that also inherits from `gd.rigid.AbstractOnBodies` is a function of the poses. External forces are
    `gd.rigid.Load`; joints are BallJoint, Hinge, Slider and FixedJoint.

    `method=gd.Gauss(s)`, of order 2s, conserves the momenta of all rotations that the elements do not notice to
    rounding, and the energy without drift. Joints need `gd.RadauIIA`. Any consistent units.

    Args:
        inertia: about the origins of the bodies, in their axes: [3] (principal moments) or [3, 3] of one body, [B, 3]
            or [B, 3, 3].
        masses: one number or [B].
        elements: potentials, dissipation, constraints and contacts.
        points: pairs (body, site[3]) of a body's number and a place in its coordinates.
        pinned: [B, 3] or [3], places of the world at which the origins are held; None for free bodies, whose origins
            must be their centres of mass.
        resting: whether contacts may stay closed; the integrator sets it, leave it out.

    Raises:
        ValueError: for an inertia that is not symmetric and positive, or breaks the triangle inequality I₁ + I₂ ≥ I₃,
            for masses that are not positive, points of no body, and elements of an unknown kind.

    Example:
        A free body that turns about its middle axis tumbles (Dzhanibekov's effect); its angular momentum stays.

        >>> body = gd.rigid.RigidBodies([1.0, 2.0, 3.0])
        >>> q0, v0 = body.state(angular_velocity=[0.02, 1.0, 0.03])
        >>> motion = gd.rigid.rigid_motion(gd.integrate(body, q0, v0, t1=10.0, steps=100, method=gd.Gauss(2)))
        >>> turns, momentum = motion.angular_velocity[:, 0, 1], motion.angular_momentum[:, 0]
        >>> print(f"{turns[0]:.2f} to {turns.min():.2f}", bool(jnp.max(jnp.abs(momentum - momentum[:1])) < 1e-12))
        1.00 to -0.74 True

    Source:
        Landau & Lifshitz, *Mechanics*, § 32; Hairer, Lubich & Wanner, *Geometric Numerical Integration* (2006), section
        IV.2.1; McLachlan, Modin & Verdier, *Nonlinearity* 27 (2014) 1525.
    """

    inertia: Float[Array, "B 3 3"]
    masses: Float[Array, " B"]
    sites: Float[Array, "N 3"]
    carriers: tuple[int, ...] = eqx.field(static=True)
    pinned: Float[Array, "B 3"] | None
    elements: tuple[Element, ...]
    resting: bool = eqx.field(static=True)
    space: Euclidean

    @checked
    def __init__(
        self,
        inertia: Numbers,
        masses: Each = 1.0,
        *elements: Element,
        points: Sequence[tuple[Index, Row]] = (),
        pinned: Numbers | None = None,
        resting: bool = False,
    ):
        if isinstance(masses, ELEMENTS):
            raise ValueError(f"masses must be numbers, got {type(masses).__name__}: elements come after the masses")
        self.masses = jnp.atleast_1d(number("masses", masses, positive=True))
        count = self.masses.shape[0]
        self.inertia = inertias(inertia, count)
        self.pinned = None if pinned is None else rows("pinned", pinned, (count, 3))
        carriers = [body for body, _ in points]
        if not all(body < count for body in carriers):
            raise ValueError(f"points must be pairs (body, site[3]) with bodies 0 to {count - 1}, got {carriers}")
        self.carriers = (*range(count), *map(int, carriers))
        sites = [rows("a site of points", site, (3,)) for _, site in points]
        self.sites = jnp.concatenate([jnp.zeros((count, 3)), *(site[None] for site in sites)])
        self.elements = elements
        self.resting = resting
        self.space = Euclidean(3)
        check_elements(elements, len(self.carriers), "points")
        for element in elements:
            if pinned is not None and isinstance(element, AbstractPotential) and element._pulls_at_masses:
                raise ValueError(
                    f"{kind(element)} pulls at the origins of bodies, and pinned ones do not move: name their centres "
                    "of mass in points=[(0, centre)], and pull there by gd.loads.PointLoad([[0, 0, 0], [0, 0, -m * "
                    "g]]), as gd.rigid.heavy_top does"
                )
            bodies = getattr(element, "bodies", ())
            if not all(0 <= body < count for body in bodies if body is not None):
                raise ValueError(
                    f"bodies of {type(element).__name__} are {bodies}, but there are {count} masses: bodies 0 "
                    f"to {count - 1}, or None for the world"
                )

    @checked
    def state(
        self,
        rotation: Numbers | None = None,
        angular_velocity: Numbers = (0.0, 0.0, 0.0),
        position: Numbers = (0.0, 0.0, 0.0),
        velocity: Numbers = (0.0, 0.0, 0.0),
    ) -> tuple[Float[Array, "B d"], Float[Array, "B d"]]:
        """(q0, v0) for `gd.integrate`, from the `rotation` R [3, 3] from body to world coordinates (by default the
        identity), the angular velocity Rᵀω [3] in body coordinates, and the position and velocity [3] of the origin.
        Each is one value for all bodies, or [B, …]. Raises ValueError for a matrix that is not a rotation, and for a
        position or velocity of pinned bodies."""
        count = self.masses.shape[0]
        turned = rows("rotation", np.eye(3) if rotation is None else rotation, (count, 3, 3))
        check_rotations(turned)
        turning = rows("angular_velocity", angular_velocity, (count, 3))
        q = jax.vmap(quaternion if isinstance(turned, Tracer) else quaternion_of)(turned)
        v = jax.vmap(lambda q, w: 0.5 * left_product(q)[:, 1:] @ w)(q, turning)
        shift = rows("position", position, (count, 3))
        drift = rows("velocity", velocity, (count, 3))
        if self.pinned is None:
            return jnp.concatenate([shift, q], axis=1), jnp.concatenate([drift, v], axis=1)
        if any(np.any(np.asarray(x) != 0) for x in (position, velocity) if not isinstance(x, Tracer)):
            raise ValueError("position and velocity are of free bodies: these are pinned; leave them out")
        return q, v

    @checked
    def motion(self, q: Float[Array, "B d"], v: Float[Array, "B d"]) -> RigidMotion:
        """Positions, attitudes, velocities and momenta of the bodies, from a configuration and its velocity."""
        poses, rates = jax.jvp(self.poses, (q.reshape(-1),), (v.reshape(-1),))
        quaternions = self._quaternions(q)
        R = poses.rotation
        turning = jax.vmap(spin)(quaternions, self._quaternions(v))[:, 1:]
        spins = jnp.einsum("bij,bjk,bk->bi", R, self.inertia, turning)
        momenta = spins + jnp.cross(poses.position, self.masses[:, None] * rates.position)
        lengths = jnp.sqrt(jnp.sum(quaternions**2, axis=1, keepdims=True))
        world = jnp.einsum("bij,bj->bi", R, turning)
        points = self.points(q.reshape(-1))
        return RigidMotion(
            position=poses.position,
            velocity=rates.position,
            rotation=R,
            quaternion=quaternions / lengths,
            angular_velocity=turning,
            world_angular_velocity=world,
            angular_momentum=momenta,
            points=points,
        )

    def _split(self, q: Array) -> tuple[Float[Array, "B k"], Float[Array, "B 4"]]:
        """Positions [B, 3] (or [B, 0] of pinned bodies) and quaternions [B, 4] of a configuration."""
        size = 7 if self.pinned is None else 4
        each = shaped(q, (self.masses.shape[0], size), "bodies, position and quaternion")
        return each[:, :-4], each[:, -4:]

    def _quaternions(self, q: Array) -> Float[Array, "B 4"]:
        return self._split(q)[1]

    @checked
    def poses(self, q: Float[Array, " n"]) -> Poses:
        """The positions and rotations of the bodies at the flat configuration q."""
        x, quaternions = self._split(q)
        x = x if self.pinned is None else self.pinned.astype(q.dtype)
        return Poses(x, jax.vmap(rotation)(quaternions))

    def points(self, q: Float[Array, " n"]) -> Float[Array, "N 3"]:
        x, R = self.poses(q)
        # A product with the matrix of who carries what, since the derivative of indexing would be a scatter.
        is_carrier = np.array(self.carriers)[:, None] == np.arange(len(x))[None]
        carried = jnp.asarray(is_carrier, q.dtype)
        return carried @ x + jnp.einsum("nb,bij,nj->ni", carried, R, self.sites.astype(q.dtype))

    def seen_by(self, element: Element, q: Float[Array, " n"]) -> Poses | Float[Array, "N 3"]:
        return self.poses(q) if isinstance(element, AbstractOnBodies) else self.points(q)

    def masses_seen_by(self, element: Element) -> Float[Array, " N"]:
        # The points besides the origins are places without masses of their own.
        sites = jnp.zeros(len(self.carriers) - len(self.masses), self.masses.dtype)
        if isinstance(element, AbstractOnBodies):
            return self.masses
        return jnp.concatenate([self.masses, sites])

    def kinetic_energy(self, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        drift, rates = self._split(v)

        def of_turning(q: Float[Array, " 4"], v: Float[Array, " 4"], inertia: Float[Array, "3 3"]) -> Scalar:
            """Twice the energy of the turning of one body, and of the change of length of its quaternion."""
            rates = spin(q, v)
            stretch = rates[0]
            turning = rates[1:]
            return turning @ inertia @ turning + jnp.trace(inertia) / 3 * stretch**2

        turnings = jax.vmap(of_turning)(self._quaternions(q), rates, self.inertia.astype(q.dtype))
        drifts = self.masses.astype(q.dtype)[:, None] * drift**2
        return 0.5 * (jnp.sum(turnings) + jnp.sum(drifts))

    def momentum(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Array:
        return jax.grad(self.kinetic_energy, 1)(q, v)

    def velocity(
        self, t: Number, q: Float[Array, " n"], p: Array, v: Float[Array, " n"] | None = None
    ) -> Float[Array, " n"]:
        pushes, p = self._split(p)

        def turning(q: Float[Array, " 4"], p: Float[Array, " 4"], inertia: Float[Array, "3 3"]) -> Float[Array, " 4"]:
            """The rate of the quaternion q of one body with the momentum p."""
            momentum = left_product(q).T @ p
            stretch = 3 * momentum[0] / jnp.trace(inertia)
            rates = jnp.append(stretch, solve(inertia, momentum[1:]))
            return 0.25 * left_product(q) @ rates

        rates = jax.vmap(turning)(self._quaternions(q), p, self.inertia.astype(q.dtype))
        drifts = pushes / self.masses.astype(q.dtype)[:, None]
        return jnp.concatenate([drifts, rates], axis=1).reshape(-1)

    @property
    def shares_jacobian(self) -> bool:
        # The constraint Jacobian of a joint turns with its bodies. For very unequal bodies that turn by a quarter of a
        # radian per step, Newton's method with one Jacobian for all stages does not contract.
        return not (elements_of(self, AbstractConstraint | AbstractPfaffian))

    def without_idle(
        self, q: Float[Array, " n"], p: Float[Array, " n"]
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        x, quaternions = self._split(q)
        push, p = self._split(p)
        length = jnp.sqrt(jnp.sum(quaternions**2, axis=1, keepdims=True))
        unit = quaternions / length
        # The angular momentum is bilinear in quaternion and momentum, and stays.
        p = p * length
        p = p - jnp.sum(p * unit, axis=1, keepdims=True) * unit
        q_without = jnp.concatenate([x, unit], axis=1)
        p_without = jnp.concatenate([push, p], axis=1)
        return q_without.reshape(-1), p_without.reshape(-1)

    def with_rest(self) -> "RigidBodies":
        points = list(zip(self.carriers, self.sites, strict=True))[len(self.masses) :]
        return RigidBodies(self.inertia, self.masses, *self.elements, points=points, pinned=self.pinned, resting=True)

    def check(self, t: Number, q: np.ndarray, v: np.ndarray) -> None:
        wanted = (len(self.masses), 7 if self.pinned is None else 4)
        for name, value in (("q0", q), ("v0", v)):
            if np.shape(value) != wanted:
                raise ValueError(
                    f"{name} must have shape {wanted}, got {np.shape(value)}: make it with "
                    "q0, v0 = bodies.state(rotation, angular_velocity, …)"
                )
        quaternions = q[:, -4:]
        squares = np.sum(quaternions**2, axis=1)
        stretch = np.sum(quaternions * np.asarray(v)[:, -4:], axis=1)
        tolerance = np.finfo(q.dtype).eps ** 0.5 * (1 + np.abs(v).max())
        if np.any(np.abs(squares - 1) > MOST_STRETCHED) or np.any(np.abs(stretch) > tolerance):
            raise ValueError(
                f"the quaternions in q0 must have a length near 1, which v0 keeps; got squares {squares} with half "
                f"rates {stretch}: make them with q0, v0 = bodies.state(rotation, angular_velocity, …)"
            )
        if elements_of(self, AbstractConstraint | AbstractPfaffian):
            check_constraints(self, constraint_names(self), np.ravel(q), np.ravel(v), t)
        seen = seen_by_contacts(self, jnp.asarray(q).reshape(-1))
        check_contacts(self.space, elements_of(self, AbstractContact), t, seen)
        lossy = [e for e in elements_of(self, AbstractDissipation) if not e._drives]
        if lossy:
            check_dissipation(lambda *at: rayleigh_of(self, lossy, *at), t, np.ravel(q), np.ravel(v))


@is_configuration.register
def _(system: RigidBodies, q: Float[Array, " n"]) -> Bool[Array, ""]:
    squares = jnp.sum(q.reshape(len(system.masses), -1)[:, -4:] ** 2, axis=1)
    return jnp.all(jnp.abs(squares - 1) <= MOST_STRETCHED)


@checked
@jit
def rigid_motion(trajectory: Trajectory) -> RigidMotion:
    """What rigid bodies did, at the saved times of a trajectory: positions, attitudes, velocities, momenta.

    Args:
        trajectory: what `gd.integrate` returned for a `gd.rigid.RigidBodies`; one from a file is read by
            `gd.load(path, system)`.

    Returns:
        RigidMotion, with arrays [T, B, …].

    Raises:
        ValueError: for a trajectory of something else.

    Example:
        A body turns about a principal axis by 1 radian per unit of time.

        >>> body = gd.rigid.RigidBodies([1.0, 2.0, 3.0])
        >>> q0, v0 = body.state(angular_velocity=[0.0, 0.0, 1.0])
        >>> motion = gd.rigid.rigid_motion(gd.integrate(body, q0, v0, t1=1.0, steps=20, method=gd.Gauss(2)))
        >>> print(motion.rotation.shape, motion.rotation[-1, 0, :2, 0].round(6), f"{np.cos(1):.6f} {np.sin(1):.6f}")
        (21, 1, 3, 3) [0.540302 0.841471] 0.540302 0.841471
    """
    if not isinstance(trajectory.system, RigidBodies):
        raise ValueError(
            f"rigid_motion is of a trajectory of gd.rigid.RigidBodies, got one of {type(trajectory.system).__name__}; "
            "one from a file needs gd.load(path, system)"
        )
    return jax.vmap(trajectory.system.motion)(trajectory.q, trajectory.v)


@checked
def heavy_top(
    inertia: Numbers,
    mass: Number = 1.0,
    centre: Float[Array, "3"] = (0.0, 0.0, 1.0),  # pyright: ignore[reportArgumentType]: the gate makes an array of it
    gravity: Number = 9.81,
) -> RigidBodies:
    """A rigid body pinned at the origin of the world, in uniform gravity along −z: a heavy top.

    Lagrange's top has I₁ = I₂ and its centre of mass on the third axis, Kovalevskaya's I₁ = I₂ = 2 I₃ and its centre in
    the plane of the first two axes. The centre of mass is point 1 of the system. Any consistent units.

    Args:
        inertia: [3] or [3, 3] about the pivot, in the axes of the body.
        mass: its mass.
        centre: of mass [3], in the axes of the body.
        gravity: acceleration, along −z.

    Returns:
        The system, a pinned `gd.rigid.RigidBodies`; `state` makes its initial values.

    Example:
        A horizontal Lagrange top that precesses steadily: with I₁ = 1, spin 5, I₃ = 2 and m g l = 1 the rate is m g
        l/(I₃ ω₃) = 0.1.

        >>> top = gd.rigid.heavy_top([1.0, 1.0, 2.0], mass=1.0, centre=[0.0, 0.0, 1.0], gravity=1.0)
        >>> lying = jnp.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])  # Its third axis is the x-axis.
        >>> q0, v0 = top.state(lying, angular_velocity=[-0.1, 0.0, 5.0])
        >>> motion = gd.rigid.rigid_motion(gd.integrate(top, q0, v0, t1=2.0, steps=100))
        >>> print(motion.points[-1, 1].round(6) + 0.0, f"{np.cos(0.2):.6f} {np.sin(0.2):.6f}")
        [0.980067 0.198669 0.      ] 0.980067 0.198669

    Source:
        Audin, *Spinning Tops*, chapter I.
    """
    mass = number("mass", mass, positive=True)
    weight = PointLoad(-mass * gravity * jnp.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
    return RigidBodies(inertia, mass, weight, points=[(0, centre)], pinned=np.zeros((1, 3)))
