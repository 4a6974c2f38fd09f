"""MOTION: bodies in free fall and on ice, which turn by changing shape without angular momentum."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Number, Scalar
from geodyn._geometry.groups.rigid import SE2, SO2, SO3
from geodyn._locomotion.connections.checks import require_positive, require_shape
from geodyn._locomotion.connections.linkages import bars, chain, hinge_names, link_velocities
from geodyn._locomotion.motion.mechanical import AbstractDeformableBody
from geodyn._locomotion.strokes.stroke import floating


@checked
class Beanie(AbstractDeformableBody):
    """Elroy's beanie: two coaxial bodies in free rotation; its shape r is the angle of the second seen from the first.

    The first body turns by −I₂/(I₁ + I₂) of the relative angle. Angles in radians, else any consistent units.

    Args:
        inertias: (I₁, I₂), positive.
        group: `gd.groups.SO2()`, the turns of the first body.

    Raises:
        ValueError: unless both are positive.

    Example:
        >>> beanie = gd.swimmers.Beanie(inertias=(3.0, 1.0))
        >>> end = gd.holonomy(beanie, gd.strokes.OpenStroke([0.0], [1.0], [[0.0]]))
        >>> print(beanie.group.log(end))
        [-0.25]

    Source:
        Marsden, Montgomery & Ratiu, *Mem. AMS* 436 (1990), section 1.
    """

    shape_names = ("relative angle (rad)",)

    inertias: Float[Array, "2"] = eqx.field(default=(1.0, 0.5), converter=floating)
    group: SO2 = SO2()

    def __check_init__(self):
        require_shape("Beanie", "inertias", self.inertias, (2,))
        require_positive("Beanie", inertias=self.inertias)

    def kinetic_energy(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        require_shape("Beanie", "the shape r", r, (1,))
        relative = jnp.stack([jnp.zeros_like(rdot[0]), rdot[0]])
        spins = xi[0] + relative
        return jnp.dot(self.inertias, spins**2) / 2

    @checked
    def outline(self, r: Float[Array, "1"]) -> Float[Array, "2 2 2"]:
        """A bar for each body, as long as its radius of gyration at unit mass."""
        angles = jnp.concatenate([jnp.zeros_like(r), r])
        # Both bars have their centres on the common axis.
        poses = jnp.stack([0 * angles, 0 * angles, angles], axis=1)
        return bars(poses, jnp.sqrt(self.inertias))


@checked
class Satellite(AbstractDeformableBody):
    """A rigid body with balanced rotors, in free rotation; its shape r[R] is the angles of the rotors.

    The frame sits at the centre of mass. The connection is constant, so that only the order of the turns counts. Angles
    in radians, else any consistent units.

    Args:
        inertia: [3, 3] of the whole with its rotors locked.
        axes: [R, 3] of the rotors, unit vectors.
        rotors: [R], their moments of inertia about their axes.
        group: `gd.groups.SO3()`.

    Raises:
        ValueError: for other shapes of these, and unless the inertia less that of the rotors about their axes is
            symmetric and positive definite.

    Example:
        Its curvature is minus the bracket of the columns of the connection, `−I⁻¹a₁ j₁ × I⁻¹a₂ j₂`.

        >>> satellite = gd.swimmers.Satellite()
        >>> A = gd.connection(satellite, [0.0, 0.0])
        >>> print(A[:, 0].round(6), gd.curvature(satellite, [0.0, 0.0])[:, 0, 1].round(6) + 0.0)
        [0.1 0.  0. ] [ 0.        0.       -0.008333]
        >>> print(-jnp.cross(A[:, 0], A[:, 1]).round(6) + 0.0)
        [ 0.        0.       -0.008333]

    Source:
        Krishnaprasad, *Nonlinear Anal.* 9 (1985) 1011; Walsh & Sastry, *IEEE Trans. Robot. Autom.* 11 (1995) 139.
    """

    inertia: Float[Array, "3 3"] = eqx.field(
        default=((1.0, 0.0, 0.0), (0.0, 1.2, 0.0), (0.0, 0.0, 1.5)), converter=floating
    )
    axes: Float[Array, "R 3"] = eqx.field(default=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)), converter=floating)
    rotors: Float[Array, " R"] = eqx.field(default=(0.1, 0.1), converter=floating)
    group: SO3 = SO3()

    @property
    def shape_names(self) -> tuple[str, ...]:
        """The angles of the rotors."""
        return tuple(f"rotor {i + 1} (rad)" for i in range(self.rotors.size))

    @property
    def first_shape(self) -> Float[Array, " R"]:
        """No rotor turned; the connection is the same everywhere."""
        return jnp.zeros(self.rotors.size)

    def __check_init__(self):
        require_shape("Satellite", "inertia", self.inertia, (3, 3))
        require_shape("Satellite", "axes", self.axes, (self.rotors.size, 3))
        require_positive("Satellite", rotors=self.rotors)
        # Values that JAX traces are not known yet.
        if any(isinstance(x, Tracer) for x in (self.inertia, self.axes, self.rotors)):
            return
        # To 1e-6, some roundings of single precision.
        if np.any(np.abs(np.linalg.norm(self.axes, axis=1) - 1) > 1e-6):
            raise ValueError(f"Satellite: axes must be unit vectors, got\n{self.axes}")
        rest = np.asarray(self.inertia - self.axes.T @ (self.rotors[:, None] * self.axes))
        is_asymmetric = np.any(np.abs(rest - rest.T) > 1e-6 * np.abs(rest).max())
        if is_asymmetric or np.any(np.linalg.eigvalsh(rest) <= 0):
            raise ValueError(
                "Satellite: inertia, that of the whole with its rotors, must be symmetric and exceed the rotors' own;"
                f" without them it is\n{rest}"
            )

    def kinetic_energy(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        require_shape("Satellite", "the shape r", r, self.rotors.shape)
        # A rotor with the moment of inertia j about its axis a has the energy ½ j (a·ξ + r')². Of this ½ j (a·ξ)² is
        # contained in that of the locked body; the rest is j (a·ξ + r'/2) r'.
        spin = self.axes @ xi + rdot / 2
        return xi @ self.inertia @ xi / 2 + jnp.sum(self.rotors * spin * rdot)


@checked
class FallingCat(AbstractDeformableBody):
    """Kane and Scher's falling cat: two equal halves that bend at the waist and do not twist; shape r[2].

    The shape is the bend: the front half is turned by the rotation vector (r₁, r₂, 0)/2 from the frame of the body, the
    back half by its opposite; the spine is the third axis, and |r| < π the angle between the halves. One turn of the
    bend at the angle 2β rotates the body about its spine by
    `2π (axial cos β/(axial cos² β + transverse sin² β) − 1)`; mass and arm count for energy and drift alone.
    Angles in radians, else any consistent units.

    Args:
        mass: of each half.
        arm: distance of its centre from the waist.
        axial: moment of inertia of a half about its centre and the spine.
        transverse: the same, across the spine.
        group: `gd.groups.SO3()`.

    Raises:
        ValueError: unless all numbers are positive.

    Example:
        >>> cat, beta = gd.swimmers.FallingCat(axial=0.25, transverse=0.5), np.pi / 6
        >>> turn = cat.group.log(gd.holonomy(cat, gd.FourierStroke.circle(2 * beta)))
        >>> known = 2 * np.pi * (0.25 * np.cos(beta) / (0.25 * np.cos(beta) ** 2 + 0.5 * np.sin(beta) ** 2) - 1)
        >>> print(f"{turn[2]:.6f} {known:.6f}")
        -1.930067 -1.930067

    Source:
        Kane & Scher, *Int. J. Solids Struct.* 5 (1969) 663; Montgomery, *Fields Inst. Commun.* 1 (1993) 193.
    """

    shape_names = ("first bend (rad)", "second bend (rad)")

    mass: Number = eqx.field(default=1.0, converter=floating)
    arm: Number = eqx.field(default=1.0, converter=floating)
    axial: Number = eqx.field(default=0.25, converter=floating)
    transverse: Number = eqx.field(default=0.5, converter=floating)
    group: SO3 = SO3()

    def __check_init__(self):
        require_positive("FallingCat", mass=self.mass, arm=self.arm, axial=self.axial, transverse=self.transverse)

    def kinetic_energy(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        require_shape("FallingCat", "the shape r", r, (2,))

        def halves(r: Float[Array, " m"]) -> Float[Array, "2 3 3"]:
            """The rotations of the front half and the back half from the frame of the body."""
            bend = jnp.concatenate([r, jnp.zeros(1, r.dtype)]) / 2
            return jax.vmap(self.group.exp)(jnp.stack([bend, -bend]))

        def spin(rotation: Float[Array, "3 3"], rate: Float[Array, "3 3"]) -> Float[Array, "3"]:
            """The angular velocity of a half in its own frame."""
            return rotation.T @ xi + self.group.vee(rotation.T @ rate)

        rotations, rates = jax.jvp(halves, (r,), (rdot,))
        spins = jax.vmap(spin)(rotations, rates)
        moments = jnp.stack([self.transverse, self.transverse, self.axial])
        # From the centre of the back half to that of the front half, in units of the arm: the waist is an arm away from
        # both, along their spines.
        between = jnp.sum(rotations[:, :, 2], axis=0)
        between_rate = jnp.sum(rates[:, :, 2], axis=0)
        velocity = self.arm * (between_rate + jnp.cross(xi, between))
        # About their common centre of mass, two masses have the energy of the reduced mass, here mass/2, with their
        # relative velocity.
        return jnp.sum(spins**2 @ moments) / 2 + self.mass / 4 * velocity @ velocity


@checked
class FloatingLinks(AbstractDeformableBody):
    """A chain of uniform rods afloat in the plane, as an astronaut or a space robot; its shape r is the hinge angles.

    The frame sits at the centre of the middle link, the left one of two, and along it. Without momentum, strokes can
    only turn it: its centre of mass stays; `gd.bundles.Heading` asks for the turn alone. Angles in radians, else any
    consistent units.

    Args:
        lengths: of the links [L].
        masses: of the links [L].
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless there are as many masses as lengths, all positive.

    Example:
        A stroke around a bent shape turns it.

        >>> robot = gd.swimmers.FloatingLinks(lengths=(1.0, 1.0, 1.0), masses=(1.0, 2.0, 1.0))
        >>> stroke = gd.FourierStroke.circle(0.7, centre=(1.0, 1.0))
        >>> turn = robot.group.log(gd.holonomy(robot, stroke))[2]
        >>> alone = gd.holonomy(gd.bundles.Heading(robot), stroke)
        >>> print(f"{turn:.6f} {jnp.arctan2(alone[1, 0], alone[0, 0]):.6f}")
        -0.120618 -0.120618

    Source:
        Frohlich, *Am. J. Phys.* 47 (1979) 583; Walsh & Sastry, *IEEE Trans. Robot. Autom.* 11 (1995) 139.
    """

    lengths: Float[Array, " L"] = eqx.field(default=(1.0, 1.0, 1.0), converter=floating)
    masses: Float[Array, " L"] = eqx.field(default=(1.0, 1.0, 1.0), converter=floating)
    group: SE2 = SE2()

    @property
    def shape_names(self) -> tuple[str, ...]:
        """The hinge angles."""
        return hinge_names(self.lengths)

    def __check_init__(self):
        require_shape("FloatingLinks", "masses", self.masses, (self.lengths.size,))
        require_positive("FloatingLinks", lengths=self.lengths, masses=self.masses)

    def kinetic_energy(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        poses, rates = jax.jvp(lambda r: chain(self.lengths, r), (r,), (rdot,))
        # Against motion along the link, across it, and its turning as a uniform rod.
        inertias = jnp.stack([self.masses, self.masses, self.masses * self.lengths**2 / 12], axis=1)
        velocities = link_velocities(poses, rates, xi)
        return jnp.sum(inertias * velocities**2) / 2

    @checked
    def outline(self, r: Float[Array, " m"]) -> Float[Array, "L 2 2"]:
        """The links as line segments [L, 2, 2], each by its two ends."""
        return bars(chain(self.lengths, r), self.lengths)


@checked
class PendulumRaft(AbstractDeformableBody):
    """A raft free to glide and turn, with a spherical pendulum at its centre; its shape is r = (θ, φ) in radians.

    The bob hangs at the angle θ from the vertical, towards φ, seen from the raft. With J = μ l² sin² θ, μ the reduced
    mass of bob and raft, the raft turns by −J/(inertia + J) dφ. Any consistent units.

    Args:
        bob: mass of the bob.
        raft: mass of the raft.
        length: l of the arm of the pendulum.
        inertia: moment of inertia of the raft.
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless all numbers are positive.

    Example:
        >>> raft, theta = gd.swimmers.PendulumRaft(bob=1.0, raft=3.0, length=2.0, inertia=5.0), 0.7
        >>> J = 1.0 * 3.0 / (1.0 + 3.0) * 2.0**2 * np.sin(theta) ** 2
        >>> print(f"{gd.connection(raft, [theta, 0.3])[2, 1]:.6f} {J / (5.0 + J):.6f}")
        0.199366 0.199366

    Source:
        Marsden, *Lectures on Mechanics* (1992), chapter 3, for mechanical connections of this kind.
    """

    shape_names = ("polar angle (rad)", "azimuth (rad)")

    bob: Number = eqx.field(default=1.0, converter=floating)
    raft: Number = eqx.field(default=1.0, converter=floating)
    length: Number = eqx.field(default=1.0, converter=floating)
    inertia: Number = eqx.field(default=1.0, converter=floating)
    group: SE2 = SE2()

    def __check_init__(self):
        require_positive("PendulumRaft", bob=self.bob, raft=self.raft, length=self.length, inertia=self.inertia)

    def kinetic_energy(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        require_shape("PendulumRaft", "the shape r", r, (2,))

        def place_of_bob(r: Float[Array, " m"]) -> Float[Array, "3"]:
            """The place of the bob, seen from the raft."""
            sin = jnp.sin(r[0])
            return self.length * jnp.stack([sin * jnp.cos(r[1]), sin * jnp.sin(r[1]), -jnp.cos(r[0])])

        place, rate = jax.jvp(place_of_bob, (r,), (rdot,))
        x, y, _ = place
        # The velocity of a point that is fixed to the raft there.
        carried = jnp.stack([xi[0] - xi[2] * y, xi[1] + xi[2] * x, jnp.zeros_like(x)])
        velocity = rate + carried
        twice_energy_of_raft = self.raft * jnp.sum(xi[:2] ** 2) + self.inertia * xi[2] ** 2
        return (twice_energy_of_raft + self.bob * velocity @ velocity) / 2

    @checked
    def outline(self, r: Float[Array, "2"]) -> Float[Array, "3 33 2"]:
        """The raft, its pendulum and the bob, seen from above. The raft is drawn as a square plate with its mass and
        inertia."""
        # Eight points in each quarter, so that the corners of the square are among them, and the first one again.
        quarter_turns = np.linspace(0.0, 4.0, 33)
        circle = np.stack([np.cos(np.pi / 2 * quarter_turns), np.sin(np.pi / 2 * quarter_turns)], axis=1)
        # Points of the circle moved outwards to the square of side 1 around the centre.
        square = circle / np.max(np.abs(circle), axis=1, keepdims=True) / 2
        centre_of_bob = self.length * jnp.sin(r[0]) * jnp.stack([jnp.cos(r[1]), jnp.sin(r[1])])
        arm = jnp.linspace(0.0, 1.0, 33, dtype=r.dtype)[:, None] * centre_of_bob[None]
        # A square plate of mass m and side s has the moment of inertia m s²/6.
        raft = jnp.sqrt(6 * self.inertia / self.raft) * jnp.asarray(square, r.dtype)
        bob = centre_of_bob[None] + self.length / 12 * jnp.asarray(circle, r.dtype)
        return jnp.stack([raft, arm, bob])
