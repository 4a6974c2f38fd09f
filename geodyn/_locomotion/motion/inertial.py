"""MOTION: swimmers with inertia and drag at once, between the two kinds of connection.

Without drag a body that starts without momentum moves by the connection of its kinetic energy, without inertia by that
of the power that it dissipates. In between stands a Lagrangian system: `d/dt ∂L/∂v = ∂L/∂q − ∂R/∂v` with L = T − U, in
which twice Rayleigh's function R is the power.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._engine.jit import as_pytree, jit
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Number, Scalar, Vector
from geodyn._integrators.contract.lagrangian import AbstractFlatLagrangian
from geodyn._locomotion.connections.checks import require_positive
from geodyn._locomotion.connections.connection import AbstractSwimmer, form_of
from geodyn._locomotion.motion.mechanical import AbstractDeformableBody
from geodyn._locomotion.motion.passive import AbstractPassiveSwimmer, whole_shape
from geodyn._locomotion.strokes.stroke import Stroke, floating, shape_and_rate, shape_at


class InertialSwimmer(AbstractFlatLagrangian):
    """A swimmer with inertia, drag and springs at once, whose other hinges are driven: a system for `gd.integrate`.

    Its coordinates are q = (the pose, the passive shapes): in the plane x, y, θ, then the shapes [p] of the hinges that
    `drag` has passive, if it is a `gd.swimmers.Passive`; the other shapes are those of the drive. The force is
    `−∂U/∂q − ∂R/∂v`, with the energy U of the springs and half the power R of `drag`. Any consistent units.

    Without inertia its motion is that of `gd.periodic_motion`, or where nothing is passive that of the connection of
    `drag`; without drag, from a start without momentum, that of the connection of `inertia`. Light bodies are stiff:
    take `method=gd.RadauIIA(3)`.

    Args:
        inertia: a body with a kinetic energy, such as `gd.swimmers.FluidLinks` (the fluid's included) or
            `gd.swimmers.FloatingLinks`; its group must be a plane's, `gd.groups.SE2`, or commutative.
        drag: a swimmer with the same group and the same shapes, such as `gd.swimmers.Purcell`, or one with springs, a
            `gd.swimmers.Passive`.
        drive: function t -> driven shapes [m − p], of period 1.
        period: the time in which the drive is run through.

    Raises:
        ValueError: for bodies of different groups or numbers of shapes, or of a group of turns in space, for a drive
            with another number of shapes, and for a period that is not positive.

    Example:
        Purcell's swimmer as a fish: with a thousandth of the drag it swims as in a perfect fluid.

        >>> fish, stroke = gd.swimmers.FluidLinks(), gd.FourierStroke.circle(1.0)
        >>> for drag in (1.0, 0.001):
        ...     system = gd.bundles.InertialSwimmer(fish, gd.swimmers.Purcell(drag=drag), stroke, period=1.0)
        ...     motion = gd.integrate(system, *system.start(), t1=1.0, steps=40)
        ...     print(motion.q[-1, :2].round(3))
        [-0.281  0.082]
        [-0.786  0.237]
        >>> print(gd.holonomy(fish, stroke)[:2, 2].round(3))
        [-0.788  0.237]

    Source:
        Kelly & Murray, *J. Robotic Systems* 12 (1995) 417; Goldstein, *Classical Mechanics*, 1.5.
    """

    inertia: AbstractDeformableBody
    drag: AbstractSwimmer
    drive: Stroke
    period: Scalar
    hinges: tuple[int, ...] = eqx.field(static=True)

    @checked
    def __init__(self, inertia: AbstractDeformableBody, drag: AbstractSwimmer, drive: Stroke, period: Number):
        self.inertia, self.drag, self.drive = inertia, drag, as_pytree(drive)
        self.period = floating(period, "period")
        springs = _springs(drag)
        self.hinges = () if springs is None else springs.hinges
        require_positive("InertialSwimmer", period=self.period)
        _check_bodies(inertia, drag)
        try:
            driven = shape_at(drive, jnp.zeros(()))
        except ValueError as error:
            raise ValueError(f"InertialSwimmer: drive: {error}") from None
        _check_drive(inertia, drag, self.hinges, driven)

    def pose(self, q: Float[Array, " n"]) -> Float[Array, "d d"]:
        """The group element of a configuration."""
        group = self.inertia.group
        return group._posed(q[: group.dim])

    def shape(self, t: Number, q: Float[Array, " n"]) -> Float[Array, " m"]:
        """The whole shape at the time t, in the configuration q."""
        return whole_shape(self.hinges, shape_at(self.drive, self._phase(t)), q[self.inertia.group.dim :])

    @checked
    def start(self, passive: Vector | None = None) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """(q0, v0) at t = 0 with the pose 1, the passive shapes at rest, by default where the springs are slack, and
        the velocity that has no momentum while the others move."""
        if passive is None:
            springs = _springs(self.drag)
            passive = () if springs is None else springs.rest
        passive = floating(passive, "passive")
        if passive.shape != (len(self.hinges),):
            raise ValueError(f"passive must be {len(self.hinges)} numbers, one a hinge, got shape {passive.shape}")
        return _start(self, passive)

    def lagrangian_at(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        r, xi, rdot = self._motion(t, q, v)
        kinetic = self.inertia.kinetic_energy(r, xi, rdot)
        springs = _springs(self.drag)
        return kinetic if springs is None else kinetic - springs.elastic_energy(r)

    def rayleigh_at(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        return self.drag.dissipation(*self._motion(t, q, v)) / 2

    def constraint(self, t: Number, q: Float[Array, " n"]) -> Float[Array, " 0"]:
        return jnp.zeros(0, q.dtype)

    def _motion(
        self, t: Number, q: Array, v: Array
    ) -> tuple[Float[Array, " m"], Float[Array, " k"], Float[Array, " m"]]:
        """The shape, the velocity of the body in its frame, and the rate of the shape."""
        k = self.inertia.group.dim
        driven, rate = shape_and_rate(self.drive, self._phase(t))
        r = whole_shape(self.hinges, driven, q[k:])
        rdot = whole_shape(self.hinges, rate / self.period, v[k:])
        return r, self.inertia.group._posed_velocity(q[:k], v[:k]), rdot

    def _phase(self, t: Number) -> Scalar:
        """The time of the drive, from 0 to 1: a joined stroke, and others, are right only there. The end of the first
        period is 1, since a drive that is run through once need not be closed."""
        phase = jnp.asarray(t) / self.period
        return jnp.where(phase <= 1, phase, jnp.mod(phase, 1.0))


def _springs(drag: AbstractSwimmer) -> AbstractPassiveSwimmer | None:
    """The swimmer, if it has springs."""
    return drag if isinstance(drag, AbstractPassiveSwimmer) else None


@jit
def _start(system: InertialSwimmer, passive: Float[Array, " p"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    driven, rate = shape_and_rate(system.drive, jnp.zeros((), passive.dtype))
    r = whole_shape(system.hinges, driven, passive)
    rdot = whole_shape(system.hinges, rate / system.period, jnp.zeros_like(passive))
    velocity = -form_of(system.inertia, r) @ rdot
    return jnp.concatenate([jnp.zeros_like(velocity), passive]), jnp.concatenate([velocity, jnp.zeros_like(passive)])


def _check_bodies(inertia: AbstractDeformableBody, drag: AbstractSwimmer) -> None:
    """Raises ValueError unless both bodies move in the same group, of which there are coordinates."""
    mine, other = inertia.group, drag.group
    if (type(mine), mine.dim) != (type(other), other.dim):
        raise ValueError(
            f"InertialSwimmer: inertia and drag must move in the same group, got {type(mine).__name__} of dimension"
            f" {mine.dim} and {type(other).__name__} of dimension {other.dim}."
        )
    if not mine._is_posed:
        raise ValueError(
            f"InertialSwimmer: the group must be gd.groups.SE2 or commutative, got {type(mine).__name__}: bodies that"
            " turn in space are those of gd.rigid."
        )


def _check_drive(
    inertia: AbstractDeformableBody, drag: AbstractSwimmer, hinges: tuple[int, ...], driven: Array
) -> None:
    """Raises ValueError unless both bodies have a shape that the drive and the hinges make up."""
    r = jnp.zeros(driven.size + len(hinges), driven.dtype)
    xi = jnp.zeros(inertia.group.dim, driven.dtype)
    for name, power in (("inertia", inertia.kinetic_energy), ("drag", drag.dissipation)):
        try:
            jax.eval_shape(power, r, xi, r)
        except (ValueError, TypeError, IndexError) as error:
            raise ValueError(
                f"InertialSwimmer: {name} has other shapes than the {driven.size} driven and {len(hinges)} passive"
                f" ones: {error}"
            ) from None
