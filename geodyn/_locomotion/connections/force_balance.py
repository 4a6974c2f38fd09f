"""MOTION: bodies whose velocity follows from a balance of forces that are not linear in the velocities.

Such a body has no connection: its velocity ξ is of degree one in the rate r' of its shape, but not linear. The
balance is solved by Newton's method at each shape and rate, to rounding; derivatives are those of the
implicit-function theorem.
"""

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from geodyn._engine.jit import jit
from geodyn._engine.native import native_of
from geodyn._engine.numerics.failure import no_derivative_where
from geodyn._engine.numerics.roots import root
from geodyn._foundations.checks import one_number, returned
from geodyn._foundations.typing import Array, ArrayLike, Bool, Float, Scalar
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._locomotion.connections.checks import (
    basis_and_trial,
    one_if,
    rounding,
    same_to_rounding,
    trial_velocity,
)
from geodyn._locomotion.connections.connection import (
    AbstractInvariantMetric,
    check_law,
    law,
    metric_matrix,
    not_negative,
    power_of,
)
from geodyn._locomotion.connections.locomotion import AbstractLocomotion

TRIALS = 6
"""How many velocities are tried, in the checks of a dissipation and in the mean of a `MeanMetric`."""


class AbstractForceBalance(AbstractLocomotion):
    """A body without inertia that balances forces of any kind, such as dry friction or the drag of a fluid that thins.

    At each moment it moves with the velocity ξ at which no net force is on it. A subclass has a field `group`, one of
    `gd.groups`, and defines one of two functions of the shape r[m], the body velocity `ξ = g⁻¹ g'` [k] and the rate
    r'[m], or both:

    - `dissipation(r, xi, rdot)`, the power that is dissipated, convex and of some degree p ≥ 1 in (ξ, r'): ξ is where
      it is least. The powers of costs and efficiencies are its values.
    - `resistance(r, xi, rdot)`, the forces and torques [k] that resist ξ: ξ is where they vanish. With this alone a
      body has a way along a stroke, but costs nothing.

    Then ξ is of degree one in r', so that a stroke leads to the same place at any pace; this is checked at a few
    shapes. Where it is not so, the class says `depends_on_pace = True`, and a stroke is taken to last the time 1.

    A class may also define `guess(r, rdot) -> [k]`, the velocity at which Newton's method starts. Where forces jump,
    since parts of the body can stick to the ground, the balance may have no solution, and ξ is NaN, unless the class
    defines `held(r, rdot) -> (whether a part sticks, ξ[k] if it does)`, as `gd.swimmers.DryLinks` does. Where slopes of
    forces are infinite, `has_kink(r, xi, rdot)` says that ξ has no derivative, which is NaN then.

    `gd.path`, `gd.holonomy`, `gd.bundles.dense_path`, `gd.cost`, `gd.efficiency` and `gd.optimal_stroke` take such a
    body. It has no connection and no curvature. A small loop with corners, such as a triangle, moves it in the first
    order of the size of the loop (`gd.bundles.small_loops`), so that the best stroke may have corners;
    `gd.optimal_stroke` says so by the status `has_corners`, and finds those of `gd.Direct(corners=3)`.

    Example:
        Two beads on a line in a fluid that thins: the force is the square root of the speed, and stronger by c for the
        second bead. When their distance r grows, the first moves back by c²/(1 + c²) of it.

        >>> class TwoBeads(gd.bundles.AbstractForceBalance):
        ...     drag: float
        ...     group: gd.groups.Translation = gd.groups.Translation(1)
        ...     def dissipation(self, r, xi, rdot):
        ...         return jnp.abs(xi[0]) ** 1.5 + self.drag * jnp.abs(xi[0] + rdot[0]) ** 1.5
        >>> beads = TwoBeads(2.0)
        >>> print(beads.velocity(jnp.array([1.0]), jnp.array([1.0])).round(6), -(2.0**2) / (1 + 2.0**2))
        [-0.8] -0.8

    Source:
        Hu, Nirody, Scott & Shelley, *PNAS* 106 (2009) 10081 (dry ground); Hatton, Ding, Choset & Goldman, *PRL* 110
        (2013) 078101 (sand).
    """

    dissipation: ClassVar[Callable[..., Scalar] | None] = None
    resistance: ClassVar[Callable[..., Array] | None] = None
    guess: ClassVar[Callable[..., Array] | None] = None
    held: ClassVar[Callable[..., tuple[Array, Array]] | None] = None
    has_kink: ClassVar[Callable[..., Array] | None] = None

    def velocity(self, r: Float[ArrayLike, " m"], rdot: Float[ArrayLike, " m"]) -> Float[Array, " k"]:
        return _velocity(self, r, rdot)

    def degree(self, r: Float[Array, " m"]) -> Scalar:
        """The degree p of the dissipation in the velocities, at the shape r: 1 for dry friction, 2 for linear drag."""
        k = self.group.dim
        at = trial_velocity(k + r.size, r.dtype)
        power, change = jax.jvp(lambda u: _dissipation(self, r, u[:k], u[k:]), (at,), (at,))
        return change / power


@power_of.register
def _(swimmer: AbstractForceBalance, r: Float[Array, " m"], rdot: Float[Array, " m"]):
    return velocity_and_power(swimmer, r, rdot)[1]


def velocity_and_power(
    swimmer: AbstractForceBalance, r: Float[Array, " m"], rdot: Float[Array, " m"]
) -> tuple[Float[Array, " k"], Scalar]:
    """The velocity of the body for the rate r' of its shape, and the power."""
    xi = swimmer.velocity(r, rdot)
    return xi, _dissipation(swimmer, r, xi, rdot)


@jit
def _velocity(body: AbstractForceBalance, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> Float[Array, " k"]:
    """The velocity of a body; 0 where its shape rests. It has no derivative there, nor at a kink."""
    xi = native_of(_balance, body, r, rdot)
    rests = jnp.all(rdot == 0)
    has_no_slope = rests if body.has_kink is None else rests | body.has_kink(r, jax.lax.stop_gradient(xi), rdot)
    return no_derivative_where(has_no_slope, jnp.where(rests, jnp.zeros_like(xi), xi), (xi, r, rdot))


def _balance(body: AbstractForceBalance, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> Float[Array, " k"]:
    """The velocity at which the resistance of a body vanishes, or at which a part of it is held."""
    zero = jnp.zeros(body.group.dim, r.dtype)
    start = _start(body, r, rdot)
    if body.held is None:
        return root(lambda xi: _resistance(body, r, xi, rdot), zero, start)
    is_held, held_velocity = body.held(r, rdot)

    def residual(xi: Float[Array, " k"]) -> Float[Array, " k"]:
        """The resistance of a body that slides; of one that is held, how its velocity differs from the known one."""
        return jnp.where(is_held, xi - held_velocity, _resistance(body, r, xi, rdot))

    return root(residual, zero, jnp.where(is_held, held_velocity, start))


def _start(body: AbstractForceBalance, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> Float[Array, " k"]:
    """Where Newton's method starts: by default at a velocity in no particular direction. At 0 parts of the body may be
    at rest, where forces have no slope."""
    if body.guess is not None:
        return body.guess(r, rdot)
    return 0.1 * jnp.max(jnp.abs(rdot)) * trial_velocity(body.group.dim, rdot.dtype)


def _dissipation(
    body: AbstractForceBalance, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]
) -> Scalar:
    """The power that a body dissipates; ValueError if it does not define it, or if it is not one number."""
    name = type(body).__name__
    if body.dissipation is None:
        raise ValueError(
            f"{name} does not say what power it dissipates: define dissipation(r, xi, rdot) -> number; costs need it,"
            " and so do motions if there is no resistance(r, xi, rdot)."
        )
    return one_number("dissipation", returned(f"{name}.dissipation", body.dissipation, r, xi, rdot))


def _resistance(
    body: AbstractForceBalance, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]
) -> Float[Array, " k"]:
    """The forces and torques that resist the body velocity ξ. Of a body that defines the dissipation D alone they are
    the slope ∂D/∂ξ, which is the forces up to a factor, the degree of D: they vanish at the same ξ."""
    if body.resistance is None:
        return jax.grad(lambda xi: _dissipation(body, r, xi, rdot))(xi)
    name = type(body).__name__
    forces = returned(f"{name}.resistance", body.resistance, r, xi, rdot)
    wanted = (body.group.dim,)
    if jnp.shape(forces) != wanted:
        raise ValueError(
            f"{name}: the resistance must have the shape {wanted}, a force for each coordinate of"
            f" {type(body.group).__name__}; it has {jnp.shape(forces)}."
        )
    return forces


def _drag_power(body: AbstractForceBalance, r: Float[Array, " m"]) -> Scalar:
    """The least of the powers that it takes against the resistance to drag the body, its shape at rest, along each
    coordinate of its group and with a velocity in no particular direction."""

    def power(xi: Float[Array, " k"]) -> Scalar:
        return xi @ _resistance(body, r, xi, jnp.zeros_like(r))

    return jnp.min(jax.vmap(power)(basis_and_trial(body.group.dim, r.dtype)))


def _at_two_paces(body: AbstractForceBalance, r: Float[Array, " m"]) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Twice the velocity of a body for a rate r' in no particular direction, and the velocity for 2 r'. They are equal
    where the pace of a stroke does not matter."""
    rdot = trial_velocity(r.size, r.dtype)
    return 2 * body.velocity(r, rdot), body.velocity(r, 2 * rdot)


def _powers(body: AbstractForceBalance, r: Float[Array, " m"]) -> tuple[Float[Array, " T"], Float[Array, " U"]]:
    """The powers that a body dissipates at some velocities; and, for each two of these, by how much the power halfway
    between them exceeds the mean of both, which that of a convex dissipation never does. Both are empty if the body
    defines no dissipation; the second also if it defines a resistance, from which its motions follow then."""
    if body.dissipation is None:
        return jnp.zeros(0, r.dtype), jnp.zeros(0, r.dtype)
    k = body.group.dim

    def power(u: Float[Array, " n"]) -> Scalar:
        return _dissipation(body, r, u[:k], u[k:])

    trials = _trials(k + r.size, r.dtype)
    powers = jax.vmap(power)(trials)
    if body.resistance is not None:
        return powers, jnp.zeros(0, r.dtype)
    first, second = np.triu_indices(TRIALS, 1)
    halfway = jax.vmap(power)((trials[first] + trials[second]) / 2)
    return powers, halfway - (powers[first] + powers[second]) / 2


def _is_power(powers: Float[Array, " T"], excess: Float[Array, " U"]) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
    """Whether none of these powers is negative, and whether they are convex, to rounding."""
    tolerance = rounding(powers.dtype) * jnp.max(jnp.abs(powers), initial=0.0)
    return jnp.all(powers >= -tolerance), jnp.all(excess <= tolerance)


@law.register
def _(swimmer: AbstractForceBalance, r: Float[Array, " m"]):
    powers, excess = _powers(swimmer, r)
    is_nonnegative, is_convex = _is_power(powers, excess)
    resists = (_drag_power(swimmer, r) > 0) & is_nonnegative & is_convex
    if swimmer.depends_on_pace:
        return one_if(resists)
    wanted, found = _at_two_paces(swimmer, r)
    return one_if(resists & same_to_rounding(found, wanted, jnp.max(jnp.abs(wanted), initial=0.0)))


@check_law.register
def _(swimmer: AbstractForceBalance, r: Float[Array, " m"]):
    name = type(swimmer).__name__
    _check_finite(swimmer, r)
    power = _drag_power(swimmer, r)
    if np.isfinite(power) and not power > 0:
        raise ValueError(
            f"{name}: the resistance at r = {r} pushes the body instead of resisting it: force times velocity is"
            f" {float(power):.3g} where it must be positive. Is the sign of the forces the opposite?"
        )
    powers, excess = _powers(swimmer, r)
    is_nonnegative, is_convex = _is_power(powers, excess)
    if not is_nonnegative:
        raise ValueError(
            f"{name}: the dissipation at r = {r} is negative, {float(jnp.min(powers)):.3g} for some velocity: forces"
            " that dissipate take power from the body, and never give it any. Is its sign the opposite? What motors"
            " spend besides is a cost of strokes, density= of gd.optimal_stroke."
        )
    if not is_convex:
        raise ValueError(
            f"{name}: the dissipation at r = {r} is not convex in the velocities (ξ, r'): halfway between two of them"
            f" it exceeds the mean of both by {float(jnp.max(excess)):.3g}. Then it is least at several velocities, or"
            " at none: define resistance(r, xi, rdot), the forces themselves, and guess(r, rdot), where to start."
        )
    _check_balance(swimmer, r)
    if swimmer.depends_on_pace:
        return
    wanted, found = _at_two_paces(swimmer, r)
    size = jnp.max(jnp.abs(wanted), initial=0.0)
    if np.all(np.isfinite(found)) and not same_to_rounding(found, wanted, size):
        raise ValueError(
            f"{name}: at twice the rate of its shape, at r = {r}, the body moves with {np.asarray(found)} instead of"
            f" twice as fast, {np.asarray(wanted)}, so that the pace matters. Let the class say depends_on_pace = True:"
            " a stroke then lasts the time 1."
        )


def _check_finite(body: AbstractForceBalance, r: Float[Array, " m"]) -> None:
    """Raise ValueError for forces or a power that are no numbers at some velocity."""
    k = body.group.dim
    for u in _trials(k + r.size, r.dtype):
        xi = u[:k]
        rdot = u[k:]
        values = {"resistance": _resistance(body, r, xi, rdot)}
        if body.dissipation is not None:
            values = {"dissipation": _dissipation(body, r, xi, rdot)} | values
        for what, value in values.items():
            if not np.all(np.isfinite(value)):
                raise ValueError(
                    f"{type(body).__name__}: the {what} at r = {r} is {np.asarray(value)} for the velocity ξ = {xi} and"
                    f" the rate r' = {rdot}. If the body cannot have this shape, the stroke must keep away from it;"
                    " else a root, a logarithm or a quotient in it has no value there, or no slope."
                )


def _check_balance(body: AbstractForceBalance, r: Float[Array, " m"]) -> None:
    """Raise ValueError if no velocity was found at which finite forces balance."""
    rdot = trial_velocity(r.size, r.dtype)
    if np.all(np.isfinite(body.velocity(r, rdot))):
        return
    raise ValueError(
        f"{type(body).__name__}: no velocity was found at which the forces balance, at r = {r} for the rate"
        f" r' = {rdot}. They must grow with the velocity, and against it. If they do, define guess(r, rdot), a"
        " velocity near to that; where parts can stick to the ground, held(r, rdot)."
    )


class MeanMetric(AbstractInvariantMetric):
    """A metric in (ξ, r') in place of the dissipation D of a body, which need not be quadratic: the mean over some
    velocities of half the second derivative of D^{2/p}, where p is the degree of D. It is D itself where that is
    quadratic. Searches begin with the strokes that are best for it, and measure changes of strokes by it.

    Source:
        Matveev & Troyanov, *Geom. Topol.* 16 (2012) 2135 (mean metrics of a Finsler metric).
    """

    body: AbstractForceBalance

    def __init__(self, body: AbstractForceBalance):
        self.body = body

    @property
    def group(self) -> AbstractLieGroup:
        """That of the body."""
        return self.body.group

    def quadratic_form(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        k = self.group.dim
        u = jnp.concatenate([xi, rdot])

        def power(u: Float[Array, " n"]) -> Scalar:
            return _dissipation(self.body, r, u[:k], u[k:])

        def half_second_variation(at: Float[Array, " n"]) -> Scalar:
            """uᵀ H u, with H half the second derivative of D^{2/p} at a velocity."""

            def power_and_slope(at: Float[Array, " n"]) -> tuple[Scalar, Scalar]:
                """D, and its derivative along u."""
                return jax.jvp(power, (at,), (u,))

            value, slope = power_and_slope(at)
            second = jax.jvp(lambda at: power_and_slope(at)[1], (at,), (u,))[1]
            # By Euler's theorem on homogeneous functions.
            degree = jax.jvp(power, (at,), (at,))[1] / value
            # By the chain rule, with ½ · 2/p · D^{2/p − 1} taken out of both terms.
            factor = value ** (2 / degree - 1) / degree
            return factor * (second + (2 / degree - 1) * slope**2 / value)

        return jnp.mean(jax.vmap(half_second_variation)(_trials(u.size, u.dtype)))


def _trials(size: int, dtype: DTypeLike) -> Float[Array, "T n"]:
    """Velocities (ξ, r') of about the size 1, in directions that are random but the same at each call."""
    rng = np.random.default_rng(1)
    return jnp.asarray(rng.normal(size=(TRIALS, size)), dtype)


def metric_of(swimmer: AbstractInvariantMetric | AbstractForceBalance) -> AbstractInvariantMetric:
    """The body itself if it has a metric of shapes; else the mean metric of its dissipation."""
    return swimmer if isinstance(swimmer, AbstractInvariantMetric) else MeanMetric(swimmer)


def name_of(swimmer: AbstractInvariantMetric | AbstractForceBalance) -> str:
    """The name of the class of a body, for messages; for a mean metric, that of its body."""
    return type(swimmer.body if isinstance(swimmer, MeanMetric) else swimmer).__name__


@check_law.register
def _(swimmer: MeanMetric, r: Float[Array, " m"]):
    matrix = metric_matrix(swimmer, r)
    if np.all(np.isfinite(matrix)) and not_negative(matrix):
        return
    raise ValueError(
        f"{name_of(swimmer)}: the power that it dissipates at the shape r = {r} is not convex in the velocities, so"
        " that no metric of shapes is like it, and a search cannot begin at a shape alone. Pass guess=, a stroke, such"
        " as gd.FourierStroke.circle(0.5)."
    )
