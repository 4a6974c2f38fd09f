"""MOTION: chains of links under drag that is not linear in the speed: fluids that thin or thicken, and dry ground."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import custom_jvp, jit
from geodyn._engine.numerics.failure import no_derivative_where
from geodyn._engine.numerics.linalg import solve
from geodyn._engine.numerics.roots import root
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Float, Int, Number, Scalar
from geodyn._geometry.groups.rigid import SE2
from geodyn._locomotion.connections.checks import require_positive, require_shape
from geodyn._locomotion.connections.connection import slender_drags
from geodyn._locomotion.connections.force_balance import AbstractForceBalance
from geodyn._locomotion.connections.linkages import AbstractLinks, chain, hinge_names, link_velocities
from geodyn._locomotion.strokes.stroke import floating, floating_unless_none
from geodyn._locomotion.swimmers.creep import (
    Lines,
    creeping_guess,
    creeping_lines,
    inverse_tangent,
    least_creep,
    speed_of,
    turns_about_itself,
)

TERMS = 54
"""Terms of Gauss's series up to an argument of ½: the remainder is 2⁻⁵⁴ of the sum."""

NEARLY_PARALLEL = 0.3
"""A link whose velocity differs from that of its middle by at most this part of it, at every point, is integrated by
Gauss's rule instead of in closed form. The singularities of its integrands are then at least 1/0.3 half lengths from
the middle of the link, so that the rule with G nodes errs by some ϱ^(−2G), ϱ = 1/0.3 + √(1/0.3² − 1): 5e-17 for 10."""

HARDLY = 400.0
"""Velocities that differ by at most this many times the least creep differ by creep alone. Of 4500 random shapes and
rates of three equal links those at which friction can hold one had up to 130 times it, and those at which all slide
1600 times and more: this is between the two."""

RESTS = 64.0
"""A link counts as at rest if its speed is at most this many roundings of that of the fastest. The root of the balance
leaves less than one of them in either precision; a link that creeps has a thousand of them and more."""

GAUSS_NODES, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(10)


class AbstractResistedLinks(AbstractLinks, AbstractForceBalance):
    """A body of rigid straight links in the plane, each of which resists its own motion by any law of forces.

    A subclass has the fields `group` and `lengths[L]` and defines `links(r) -> [L, 3]`, the centre and heading (x, y,
    angle) of each link in the frame of the body, and `forces(velocities[L, 3]) -> [L, 3]`, the resistance of each link
    along itself, across itself and against turning, to its velocity along, across and turning. The force is against the
    velocity where it has the same sign.

    Example:
        Links whose drag grows with the square of their speed, as in air, without resistance to turning but through
        their places.

        >>> class Sailor(gd.swimmers.AbstractResistedLinks):
        ...     lengths: jax.Array = eqx.field(default=(1.0, 1.0, 1.0), converter=jnp.asarray)
        ...     group: gd.groups.SE2 = gd.groups.SE2()
        ...     def links(self, r):
        ...         return gd.swimmers.NLink(self.lengths).links(r)
        ...     def forces(self, velocities):
        ...         speed = jnp.linalg.norm(velocities[:, :2], axis=1, keepdims=True)
        ...         return jnp.array([[1.0, 5.0, 0.5]]) * speed * velocities
        >>> print(Sailor().velocity(jnp.array([0.3, 0.2]), jnp.array([1.0, 0.0])).round(4))
        [-0.0335 -0.1493  0.2521]
    """

    @abstractmethod
    def forces(self, velocities: Float[Array, "L 3"]) -> Float[Array, "L 3"]:
        """What resists the velocities of the links along and across themselves and turning."""

    def velocities(self, r: Float[Array, " m"], xi: Float[Array, "3"], rdot: Float[Array, " m"]) -> Float[Array, "L 3"]:
        """The velocity of each link along itself, across itself and turning."""
        places, rates = jax.jvp(self.links, (r,), (rdot,))
        return link_velocities(places, rates, xi)

    def resistance(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Float[Array, " k"]:
        velocities, pull = jax.vjp(lambda xi: self.velocities(r, xi, rdot), xi)
        # By the principle of virtual work forces go back by the transpose of what takes velocities there.
        return pull(self.forces(velocities))[0]

    def dissipation(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        velocities = self.velocities(r, xi, rdot)
        return jnp.sum(velocities * self.forces(velocities))


class AbstractResistedChain(AbstractResistedLinks):
    """`AbstractResistedLinks` joined in a chain; the shape is the hinge angles."""

    @property
    def shape_names(self) -> tuple[str, ...]:
        """The hinge angles."""
        return hinge_names(self.lengths)

    def links(self, r: Float[Array, " m"]) -> Float[Array, "L 3"]:
        return chain(self.lengths, r)


def raise_to(base: Float[Array, "*n"], exponent: Float[Array, ""]) -> Float[Array, "*n"]:
    """base^exponent for base ≥ 0, with the value 0 and no slope where the base is 0."""
    is_zero = base == 0
    positive = jnp.where(is_zero, 1.0, base)
    return jnp.where(is_zero, 0.0, jnp.exp(exponent * jnp.log(positive)))


@custom_jvp
def line_integral(y: Float[Array, " n"], a: Float[Array, " n"], e: Scalar) -> Float[Array, " n"]:
    """`∫₀^y (a² + x²)^e dx`, for −1/2 < e < 1/2.

    By Gauss's series, of 2F1(1, −e; 3/2; y²/q) with q = a² + y² where y is less than a, else of
    2F1(1, −e; 1/2 − e; a²/q) and the value for y = a. Each term is half of the one before or less. Near the ends of the
    range of e the two parts of the second are large, and digits are lost.
    """
    return _by_series(y, a, e)


def _by_series(y: Float[Array, " n"], a: Float[Array, " n"], e: Scalar) -> Float[Array, " n"]:
    """`line_integral` by the two series that it names; its derivatives by y and a are not taken of these."""
    size = jnp.abs(a)
    q = a**2 + y**2
    is_long = jnp.abs(y) > size
    argument = jnp.where(is_long, a**2, y**2) / jnp.where(q == 0, 1.0, q)
    # The third parameters of the series; besides, both series at y = a, where their argument is ½.
    short_bottom = jnp.full_like(e, 1.5)
    long_bottom = 0.5 - e
    bottoms = jnp.where(is_long, long_bottom, short_bottom)
    at_corner = jnp.stack([short_bottom, long_bottom])
    half = jnp.full_like(argument, 0.5, shape=2)
    sums = _gauss_series(jnp.concatenate([argument, half]), e, jnp.concatenate([bottoms, at_corner]))
    by_series = sums[:-2]
    short_there, long_there = sums[-2:]
    # By how much the integral to y = a exceeds what the second series gives there, for a = 1.
    corner = jnp.exp2(e) * (short_there - long_there / (2 * e + 1))
    series_part = y * raise_to(q, e) * by_series / jnp.where(is_long, 2 * e + 1, 1.0)
    corner_part = jnp.sign(y) * raise_to(size, 2 * e + 1) * corner
    return series_part + jnp.where(is_long, corner_part, 0.0)


@line_integral.def_jvp
def _(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    y, a, e = primals
    dy, da, de = tangents
    value = line_integral(y, a, e)
    change = _integral_change(value, y, a, e, dy, da)
    if de is not None:
        change += jax.jvp(lambda e: _by_series(y, a, e), (e,), (de,))[1]
    return value, change


def _integral_change(
    value: Float[Array, " n"],
    y: Float[Array, " n"],
    a: Float[Array, " n"],
    e: Scalar,
    dy: Float[Array, " n"] | None,
    da: Float[Array, " n"] | None,
) -> Float[Array, " n"]:
    """The change of a line integral with y and a. The slope by a follows from Euler's theorem, as the integral is of
    degree 2 e + 1 in (y, a)."""
    density = raise_to(a**2 + y**2, e)
    change = jnp.zeros_like(value)
    if dy is not None:
        change += density * dy
    if da is not None:
        is_zero = a == 0
        slope = ((2 * e + 1) * value - y * density) / jnp.where(is_zero, 1.0, a)
        # At a = 0 the slope is infinite where e < 0. But forces are a times the integral, and a times the slope is 0.
        slope = jnp.where(is_zero, 0.0, slope)
        change += no_derivative_where(is_zero, slope, (value, y, a)) * da
    return change


def _gauss_series(x: Float[Array, " n"], e: Scalar, c: Float[Array, " n"]) -> Float[Array, " n"]:
    """2F1(1, −e; c; x), for x up to 1/2."""

    # By Horner's rule from the last term on: the term k + 1 is x (k − e)/(k + c) times the term k.
    def with_one_more(i: Int[Array, ""], total: Float[Array, " n"]) -> Float[Array, " n"]:
        k = TERMS - i
        return 1 + x * ((k - e) / (k + c)) * total

    return jax.lax.fori_loop(0, TERMS + 1, with_one_more, jnp.ones_like(x))


@custom_jvp
def dry_integral(y: Float[Array, " n"], a: Float[Array, " n"]) -> Float[Array, " n"]:
    """`∫₀^y (a² + x²)^(−1/2) dx = asinh(y/a)`; for a = 0 it is that for the smallest a."""
    size = jnp.maximum(jnp.abs(a), jnp.finfo(y.dtype).tiny)
    far = jnp.maximum(jnp.abs(y) + jnp.sqrt(size**2 + y**2), size)  # size² may be rounded to 0
    return jnp.sign(y) * (jnp.log(far) - jnp.log(size))


@dry_integral.def_jvp
def _(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    y, a = primals
    dy, da = tangents
    value = dry_integral(y, a)
    e = jnp.full((), -0.5, y.dtype)
    return value, _integral_change(value, y, a, e, dy, da)


@jit
def forces_of_lines(
    velocities: Float[Array, "L 3"],
    lengths: Float[Array, " L"],
    along: Number,
    across: Number,
    e: Scalar,
    integral: Callable[[Array, Array], Array],
    floor: Scalar | None = None,
) -> Float[Array, "L 3"]:
    """The forces along and across links and the torques that resist their velocities along, across and turning, if a
    piece ds of a link resists v with the forces (k_t² v_t, k_n² v_n) (f² + k_t² v_t² + k_n² v_n²)^e ds.

    Args:
        velocities: of the links along themselves, across themselves and turning.
        lengths: of the links.
        along: k_t.
        across: k_n.
        e: exponent.
        integral: (y, a) -> `∫₀^y (a² + x²)^e dx`.
        floor: f, which makes the forces linear in small velocities; None: 0.
    """
    half = lengths / 2
    # With a = k_t v_t, and k_n v_n = c + w s at the distance s from the middle of a link.
    a = jnp.asarray(along * velocities[:, 0])
    c = jnp.asarray(across * velocities[:, 1])
    w = jnp.asarray(across * velocities[:, 2])
    reach = a if floor is None else jnp.sqrt(a**2 + floor**2)
    middle = reach**2 + c**2
    # Where the velocity hardly changes along a link the closed form would divide by the small w.
    speed = jnp.sqrt(jnp.where(middle == 0, 1.0, middle))
    is_parallel = jnp.abs(w) * half <= NEARLY_PARALLEL * speed
    # A link that turns about its middle has no speed there, however slowly it turns.
    is_parallel = is_parallel & ((middle > 0) | (w == 0))
    # Each form is evaluated at harmless numbers where the other one is taken.
    turning_c = jnp.where(is_parallel, 0.0, c)
    turning_w = jnp.where(is_parallel, 1.0, w)
    closed = _turning_forces(a, turning_c, turning_w, half, reach, e, integral)
    by_rule = _gauss_forces(a, c, jnp.where(is_parallel, w, 0.0), half, reach, e)
    scaled_forces = jnp.where(is_parallel[:, None], by_rule, closed)
    # Torques are s times the forces across, and so have their factor.
    return scaled_forces * jnp.stack([along, across, across])[None]


def _turning_forces(
    a: Float[Array, " L"],
    c: Float[Array, " L"],
    w: Float[Array, " L"],
    half: Float[Array, " L"],
    reach: Float[Array, " L"],
    e: Scalar,
    integral: Callable[[Array, Array], Array],
) -> Float[Array, "L 3"]:
    """∫ (a, y, s y) (reach² + y²)^e ds with y = c + w s, over the links, in closed form."""
    y_at_ends = jnp.concatenate([c - w * half, c + w * half])
    reach_at_ends = jnp.concatenate([reach, reach])
    powers = raise_to(reach_at_ends**2 + y_at_ends**2, e + 1)

    def difference(values: Float[Array, " n"]) -> Float[Array, " L"]:
        """Of the values at the ends of each link."""
        before, after = jnp.split(values, 2)
        return after - before

    # The integrals of 1, y and y² times (reach² + y²)^e, that of y² by parts: the derivative of y (reach² + y²)^(e+1)
    # by y is (reach² + (2 e + 3) y²) (reach² + y²)^e. Then s = (y − c)/w.
    of_one = difference(integral(y_at_ends, reach_at_ends)) / w
    of_y = difference(powers) / (2 * (e + 1) * w)
    of_square = (difference(y_at_ends * powers) / w - reach**2 * of_one) / (2 * e + 3)
    moment = (of_square - c * of_y) / w
    return jnp.stack([a * of_one, of_y, moment], axis=1)


def _gauss_forces(
    a: Float[Array, " L"],
    c: Float[Array, " L"],
    w: Float[Array, " L"],
    half: Float[Array, " L"],
    reach: Float[Array, " L"],
    e: Scalar,
) -> Float[Array, "L 3"]:
    """The integrals of `_turning_forces` by Gauss's rule, for links whose points all move nearly alike."""
    s = half[:, None] * jnp.asarray(GAUSS_NODES, a.dtype)[None]
    y = c[:, None] + w[:, None] * s
    weights = jnp.asarray(GAUSS_WEIGHTS, a.dtype)
    density = raise_to(reach[:, None] ** 2 + y**2, e) * half[:, None] * weights[None]
    along = jnp.sum(a[:, None] * density, axis=1)
    across = jnp.sum(y * density, axis=1)
    moment = jnp.sum(s * y * density, axis=1)
    return jnp.stack([along, across, moment], axis=1)


@checked
class PowerLawLinks(AbstractResistedChain):
    """A chain of slender links in a fluid whose drag is a power of the speed; its shape r is the hinge angles.

    Each piece of a link resists its own velocity, v_t along the link and v_n across it, with the power
    `(C_t^{2/p} v_t² + C_n^{2/p} v_n²)^{p/2}` per length: `C_t v^{p−1}` is the force per length on a link that moves
    along itself, `C_n v^{p−1}` on one that moves across itself. With p = 2 this is `gd.swimmers.NLink`; fluids that
    thin, such as mucus, have p < 2. A stroke leads to the same place at any pace. The frame sits at the centre of the
    middle link, the left one of two, and along it. Any consistent units; angles in radians.

    The velocity has a kink in its derivative where a link turns about a point of itself and does not move along
    itself, so that `gd.holonomy` needs more steps than for a linear drag: its error is some 1e-7 of a link
    with 128 steps, 5e-9 with 1024.

    Args:
        lengths: of the links [L].
        drag: (C_t, C_n), drags per length along and across a link, at the speed 1.
        power: p, between 1.001 and 2.999; the force is of degree p − 1 in the velocities. Dry friction, p = 1, is
            `gd.swimmers.DryLinks`.
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless there are two lengths or more, all numbers are positive, and the power is in its range.

    Example:
        A stroke in two fluids that resist alike at the speed 1.

        >>> stroke = gd.FourierStroke.circle(1.0)
        >>> bodies = [gd.swimmers.PowerLawLinks(power=power) for power in (2.0, 1.7)]
        >>> print([f"{gd.holonomy(body, stroke)[0, 2]:.5f}" for body in bodies])
        ['-0.14850', '-0.15995']

    Source:
        Chhabra & Richardson, *Non-Newtonian Flow and Applied Rheology* (2008), chapter 5.
    """

    lengths: Float[Array, " L"] = eqx.field(default=(1.0, 1.0, 1.0), converter=floating)
    drag: Float[Array, "2"] = eqx.field(default=(1.0, 2.0), converter=floating)
    power: Number = eqx.field(default=1.7, converter=floating)
    group: SE2 = SE2()

    @property
    def towing_drag(self) -> Number:
        """The force by which the straight body is dragged along itself at the speed 1."""
        return self.drag[0] * jnp.sum(self.lengths)

    def __check_init__(self):
        check_links("PowerLawLinks", self.lengths, "drag", self.drag)
        check_power("PowerLawLinks", self.power)

    def guess(self, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> Float[Array, "3"]:
        return linear_velocity(self, self.drag, r, rdot)

    def forces(self, velocities: Float[Array, "L 3"]) -> Float[Array, "L 3"]:
        # The slopes of the power C_t^{2/p} v_t² + …, to p/2, divided by p: k = C^{1/p} and e = p/2 − 1.
        coefficients = self.drag ** (1 / self.power)
        e = jnp.asarray(self.power / 2 - 1, velocities.dtype)

        def integral(y: Float[Array, " n"], a: Float[Array, " n"]) -> Float[Array, " n"]:
            return line_integral(y, a, e)

        return forces_of_lines(velocities, self.lengths, coefficients[0], coefficients[1], e, integral)


@checked
class CarreauLinks(AbstractResistedChain):
    """A chain of slender links in a fluid whose drag is linear at low speeds and a power of the speed at high ones; its
    shape r is the hinge angles.

    Each piece of a link resists its own velocity, v_t along the link and v_n across it, with the forces
    `(C_t v_t, C_n v_n) (1 + (v_t² + v_n² C_n/C_t)/speed²)^{(power − 2)/2}` per length. Far below `speed` it is
    `gd.swimmers.NLink`, far above `gd.swimmers.PowerLawLinks` of the power p, whose drags have the ratio
    `(C_n/C_t)^{p/2}`. So the pace of a stroke matters: it is taken to last the time 1. The frame sits at the centre of
    the middle link, the left one of two, and along it. Any consistent units; angles in radians.

    Args:
        lengths: of the links [L].
        drag: (C_t, C_n), drags per length along and across a link, at low speeds.
        speed: of a link along itself, above which the drag is no longer linear.
        power: p, between 1.001 and 2.999; the force is of degree p − 1 in high velocities.
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless there are two lengths or more, all numbers are positive, and the power is in its range.

    Example:
        A fast stroke thins the fluid, and leads less far than a slow one.

        >>> body, stroke = gd.swimmers.CarreauLinks(speed=1.0, power=1.4), gd.FourierStroke.circle(1.0)
        >>> slow = gd.swimmers.CarreauLinks(speed=100.0, power=1.4)
        >>> print([f"{gd.holonomy(x, stroke)[0, 2]:.5f}" for x in (slow, body)])
        ['-0.14849', '-0.12722']

    Source:
        Carreau, *Trans. Soc. Rheol.* 16 (1972) 99.
    """

    depends_on_pace = True

    lengths: Float[Array, " L"] = eqx.field(default=(1.0, 1.0, 1.0), converter=floating)
    drag: Float[Array, "2"] = eqx.field(default=(1.0, 2.0), converter=floating)
    speed: Number = eqx.field(default=1.0, converter=floating)
    power: Number = eqx.field(default=1.7, converter=floating)
    group: SE2 = SE2()

    def __check_init__(self):
        check_links("CarreauLinks", self.lengths, "drag", self.drag)
        require_positive("CarreauLinks", speed=self.speed)
        check_power("CarreauLinks", self.power)

    def guess(self, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> Float[Array, "3"]:
        return linear_velocity(self, self.drag, r, rdot)

    def forces(self, velocities: Float[Array, "L 3"]) -> Float[Array, "L 3"]:
        roots = jnp.sqrt(self.drag)
        e = jnp.asarray(self.power / 2 - 1, velocities.dtype)
        floor = roots[0] * self.speed

        def integral(y: Float[Array, " n"], a: Float[Array, " n"]) -> Float[Array, " n"]:
            return line_integral(y, a, e)

        scaled_forces = forces_of_lines(velocities, self.lengths, roots[0], roots[1], e, integral, floor)
        # (1 + k² v²/f²)^e is (f² + k² v²)^e / f^{2e}.
        return scaled_forces / floor ** (2 * e)


@checked
class DryLinks(AbstractResistedChain):
    """A chain of slender links on dry ground, with friction by Coulomb's law; its shape r is the hinge angles.

    Each piece of a link that slides resists with a force that does not depend on its speed: friction[0] per length if
    it slides along the link, friction[1] across it, and between the two the force that dissipates
    `√(μ_t² v_t² + μ_n² v_n²)`, so that the body moves with the least power (the associated law). With `opposite` the
    force is against the velocity instead, and has the size `√(μ_t² v_t² + μ_n² v_n²) / v` per length; if both
    coefficients are equal, this is the same. A link can stick to the ground while the others move. For the associated
    law it is found out whether friction can hold it, and it does not move at all; a link with opposite friction creeps
    then, with some 1e-9 of the speed of the body. A stroke leads to the same place at any pace. The frame sits at the
    centre of the middle link, the left one of two, and along it. Any consistent units; angles in radians.

    The velocity has kinks in time, where links begin to stick, so that `gd.holonomy` converges slowly: twice the
    steps show the error. With `creep` it is smooth, as searches for best strokes need: below the speed
    s = creep · (mean of the lengths) · |r'| the force falls to zero with the velocity, so that a piece that would stick
    creeps with some part of s. The velocity of the body is then wrong by some part of `creep` where links stick, and by
    some part of its square where all of them slide. With the associated law the body moves with the ξ at which the
    integral of `√(f² + μ_t² v_t² + μ_n² v_n²)` over the links is least, f = s times the smaller coefficient; this is
    smooth and convex in ξ.

    Args:
        lengths: of the links [L].
        friction: (μ_t, μ_n), forces per length along and across a link.
        opposite: whether friction is opposite to the velocity.
        creep: above 0 and below 1, as above; None: Coulomb's law.
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless there are two lengths or more, all numbers are positive, and `creep` is below 1.

    Example:
        While a short link at its end turns, a long body sticks to the ground, or creeps.

        >>> straight, rate = jnp.zeros(2), jnp.array([0.0, 1.0])
        >>> for creep in (None, 0.001):
        ...     body = gd.swimmers.DryLinks((3.0, 1.0, 1.0), friction=(1.0, 2.0), creep=creep)
        ...     print(body.velocity(straight, rate).round(4) + 0.0)
        [0. 0. 0.]
        [ 0.     -0.0013 -0.0006]

    Source:
        Hu, Nirody, Scott & Shelley, *PNAS* 106 (2009) 10081; Alexander & Maddocks, *J. Appl. Mech.* 60 (1993) 575 (the
        least power).
    """

    lengths: Float[Array, " L"] = eqx.field(default=(1.0, 1.0, 1.0), converter=floating)
    friction: Float[Array, "2"] = eqx.field(default=(1.0, 2.0), converter=floating)
    opposite: bool = eqx.field(default=False, static=True)
    creep: Number | None = eqx.field(default=None, converter=floating_unless_none("creep"))
    group: SE2 = SE2()

    @property
    def towing_drag(self) -> Number:
        """The force by which the straight body is dragged along itself."""
        return self.friction[0] * jnp.sum(self.lengths)

    def __check_init__(self):
        check_links("DryLinks", self.lengths, "friction", self.friction)
        if self.creep is not None and not isinstance(self.creep, Tracer) and not 0 < self.creep < 1:
            raise ValueError(
                f"DryLinks: creep must be above 0 and below 1, got {self.creep}; without creep= links stick, by"
                " Coulomb's law."
            )

    def guess(self, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> Float[Array, "3"]:
        start = linear_velocity(self, self.friction, r, rdot)
        least = least_creep(rdot.dtype) if self.creep is None else self.creep
        return creeping_guess(self, r, rdot, start, jnp.asarray(least, rdot.dtype))

    def forces(self, velocities: Float[Array, "L 3"]) -> Float[Array, "L 3"]:
        if self.creep is not None:
            return self.creeping_forces(velocities, self.creep)
        if self.opposite:
            return self.creeping_forces(velocities, least_creep(velocities.dtype))
        e = jnp.full((), -0.5, velocities.dtype)
        return forces_of_lines(velocities, self.lengths, self.friction[0], self.friction[1], e, dry_integral)

    def creeping_forces(self, velocities: Float[Array, "L 3"], creep: Number) -> Float[Array, "L 3"]:
        """The forces of friction, if pieces creep below a part `creep` of the mean length times |r'|."""
        rates = jnp.diff(velocities[:, 2])
        # Of the rates of the hinges alone: so the forces are slopes of a convex function of the velocity of the body.
        slow = creep * jnp.mean(self.lengths) * jnp.sqrt(jnp.sum(rates**2))
        if self.opposite:
            return opposite_forces(self.friction, creeping_lines(velocities, self.lengths, slow))
        e = jnp.full((), -0.5, velocities.dtype)
        floor = slow * jnp.min(self.friction)
        return forces_of_lines(velocities, self.lengths, self.friction[0], self.friction[1], e, dry_integral, floor)

    def held(self, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> tuple[Bool[Array, ""], Float[Array, "3"]]:
        """Whether a link sticks to the ground, and the velocity of the body if it does."""
        if self.creep is not None:
            return jnp.zeros((), bool), jnp.zeros(3, rdot.dtype)
        resting = _resting_link(self, r, rdot)
        if self.opposite:
            return jnp.zeros((), bool), resting
        sticks = jax.lax.stop_gradient(_can_hold(self, r, resting, rdot))
        return sticks, resting

    def has_kink(self, r: Float[Array, " m"], xi: Float[Array, "3"], rdot: Float[Array, " m"]) -> Bool[Array, ""]:
        """Whether a link turns about a point of itself: the slope of the friction along it is infinite there."""
        if self.creep is not None:
            return jnp.zeros((), bool)
        velocities = self.velocities(r, xi, rdot)
        if self.opposite:
            return turns_about_itself(velocities, self.lengths)
        along, across, turning = velocities.T
        turns = (along == 0) & (jnp.abs(across) <= jnp.abs(turning) * self.lengths / 2)
        return jnp.any(turns & ~_at_rest(velocities))


@jit
def opposite_forces(friction: Float[Array, "2"], lines: Lines) -> Float[Array, "L 3"]:
    """The forces along and across links and the torques, if a piece ds that moves with (v_t, v_n) is resisted against
    its velocity with the force μ ds, `μ² v² = μ_t² v_t² + μ_n² v_n²`.

    With the tangent x = (c + w s)/a of the direction of the velocity at the distance s from the middle of a link the
    forces are √(μ_t² + μ_n² x²) (1, x) / (1 + x²), whose integrals by x are elementary.
    """
    mu_t = friction[0]
    mu_n = friction[1]
    a = lines.reach
    c = lines.across
    by_turning = jnp.abs(lines.turning) * lines.half
    # Nearly parallel as velocities, and as velocities times the coefficients of friction.
    is_parallel = by_turning <= NEARLY_PARALLEL * jnp.hypot(a, c)
    is_parallel = is_parallel & (mu_n * by_turning <= NEARLY_PARALLEL * jnp.hypot(mu_t * a, mu_n * c))
    by_rule = _opposite_by_rule(mu_t, mu_n, lines)
    # The closed form divides by the turning: it takes a harmless one where the other form is taken.
    turning = jnp.where(is_parallel, 1.0, lines.turning)
    closed = _opposite_in_closed_form(mu_t, mu_n, lines._replace(turning=turning))
    forces = jnp.where(is_parallel[:, None], by_rule, closed)
    # These are the forces of links that move along themselves with `reach`, which creep makes larger than their speed.
    one = jnp.ones_like(a)
    return forces * jnp.stack([lines.along / a, one, one], axis=1)


def _opposite_by_rule(mu_t: Scalar, mu_n: Scalar, lines: Lines) -> Float[Array, "L 3"]:
    """The integrals √(μ_t² + μ_n² x²) (1, x, s x) / (1 + x²) ds over the links by Gauss's rule."""
    a = lines.reach
    half = lines.half
    s: Float[Array, "L G"] = half[:, None] * jnp.asarray(GAUSS_NODES, a.dtype)[None]
    x = (lines.across[:, None] + lines.turning[:, None] * s) / a[:, None]
    weights = half[:, None] * jnp.asarray(GAUSS_WEIGHTS, a.dtype)[None]
    density = weights * jnp.sqrt(mu_t**2 + (mu_n * x) ** 2) / (1 + x**2)
    factors = (jnp.ones_like(x), x, s * x)
    return jnp.stack([jnp.sum(factor * density, axis=1) for factor in factors], axis=1)


def _opposite_in_closed_form(mu_t: Scalar, mu_n: Scalar, lines: Lines) -> Float[Array, "L 3"]:
    """The integrals of `_opposite_by_rule` in closed form, with s = (a x − c)/w and ds = a/w dx."""
    a = lines.reach
    c = lines.across
    w = lines.turning
    before = _opposite_integrals(mu_t, mu_n, (c - w * lines.half) / a)
    after = _opposite_integrals(mu_t, mu_n, (c + w * lines.half) / a)
    integrals = (after - before) * a[:, None] / w[:, None]
    of_one, of_x, of_square = integrals.T
    moment = (a * of_square - c * of_x) / w
    return jnp.stack([of_one, of_x, moment], axis=1)


def _opposite_integrals(mu_t: Scalar, mu_n: Scalar, x: Float[Array, " L"]) -> Float[Array, "L 3"]:
    """∫ √(μ_t² + μ_n² x²) (1, x, x²) / (1 + x²) dx, up to constants."""
    size = jnp.sqrt(mu_t**2 + (mu_n * x) ** 2)
    d = mu_t**2 - mu_n**2
    area_sine = dry_integral(mu_n * x, mu_t + 0 * x)  # asinh(μ_n x/μ_t)
    of_one = mu_n * area_sine + d * inverse_tangent(d, x / size)
    of_x = size - d * inverse_tangent(-d, 1 / size)
    # x²/(1 + x²) is 1 − 1/(1 + x²).
    of_square = (x * size + mu_t**2 / mu_n * area_sine) / 2 - of_one
    return jnp.stack([of_one, of_x, of_square], axis=1)


def _resting_link(body: DryLinks, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> Float[Array, "3"]:
    """Of the velocities ξ of the body at which one of its links is at rest, the one that dissipates least. Where a link
    sticks, it is this one: the power has a kink where a link is at rest, and is least at this kink then."""
    places, rates = jax.jvp(body.links, (r,), (rdot,))
    # For each link at (x, y), the ξ that undoes the velocity (x', y', angle') that the rate of the shape gives it: its
    # velocity is (ξ_x − ξ_ω y + x', ξ_y + ξ_ω x + y', ξ_ω + angle').
    turning = -rates[:, 2]
    ahead = turning * places[:, 1] - rates[:, 0]
    aside = -turning * places[:, 0] - rates[:, 1]
    undoing = jnp.stack([ahead, aside, turning], axis=1)
    powers = jnp.stack([body.dissipation(r, xi, rdot) for xi in undoing])
    return undoing[jnp.argmin(jax.lax.stop_gradient(powers))]


def _can_hold(
    body: DryLinks, r: Float[Array, " m"], xi: Float[Array, "3"], rdot: Float[Array, " m"]
) -> Bool[Array, ""]:
    """Whether friction can hold the links that are at rest when the body moves with ξ.

    Friction that dissipates D(w) at the velocity w can hold them against the force F if F·w ≤ D(w) for all w. As D is
    of degree one, the largest ratio F·w / D(w) is the value D(w) at the w where D ∂D/∂w = F; this w is found as a root.
    """
    velocities, pull = jax.vjp(lambda xi: body.velocities(r, xi, rdot), xi)
    rests = _at_rest(velocities)[:, None]
    # F, by which the friction of the links that slide drives those at rest.
    sliding = jnp.where(rests, 0.0, body.forces(velocities))
    driving: Float[Array, "3"] = -pull(sliding)[0]

    def holding(w: Float[Array, "3"]) -> tuple[Float[Array, "3"], Scalar]:
        """D ∂D/∂w, and D."""
        moved, pull = jax.vjp(lambda w: body.velocities(r, w, jnp.zeros_like(rdot)), w)
        forces: Float[Array, "L 3"] = jnp.where(rests, body.forces(moved), 0.0)
        power: Scalar = jnp.sum(forces * moved)
        return power * pull(forces)[0], power

    # Where nothing drives the links they are held, and any force will do in place of F = 0, whose root is singular.
    is_free = jnp.all(driving == 0)
    asked = jnp.where(is_free, jnp.ones_like(driving), driving)
    hardest = root(lambda w: holding(w)[0], asked, asked)
    most: Scalar = holding(hardest)[1]
    is_known = is_free | ~jnp.isnan(most)
    return jax.lax.cond(is_known, lambda: is_free | (most <= 1), lambda: _hardly_creeps(body, r, xi, rdot))


def _hardly_creeps(
    body: DryLinks, r: Float[Array, " m"], xi: Float[Array, "3"], rdot: Float[Array, " m"]
) -> Bool[Array, ""]:
    """Whether a body whose pieces creep moves with the velocity ξ, but for the creep. This decides where `_can_hold`
    found no root, because slopes of the friction are steep."""
    creeping = body.velocities(r, body.guess(r, rdot), rdot)
    asked = body.velocities(r, xi, rdot)
    speed = speed_of(asked, body.lengths)
    return speed_of(creeping - asked, body.lengths) <= HARDLY * least_creep(speed.dtype) * speed


def _at_rest(velocities: Float[Array, "L 3"]) -> Bool[Array, " L"]:
    """Which links are at rest, but for rounding."""
    sizes = jnp.max(jnp.abs(velocities), axis=1)
    return sizes <= RESTS * jnp.finfo(sizes.dtype).eps * jnp.max(sizes)


def linear_velocity(
    body: AbstractResistedLinks, drag: Float[Array, "2"], r: Float[Array, " m"], rdot: Float[Array, " m"]
) -> Float[Array, "3"]:
    """The velocity of a body under a linear drag along and across its links, where Newton's method begins."""
    drags = slender_drags(body.lengths, drag[0], drag[1], drag[1])

    def resistance(xi: Float[Array, "3"]) -> Float[Array, "3"]:
        velocities, pull = jax.vjp(lambda xi: body.velocities(r, xi, rdot), xi)
        return pull(drags * velocities)[0]

    # The resistance is affine in ξ, so that its value and its slope at 0 tell where it vanishes.
    zero = jnp.zeros(3, rdot.dtype)
    slope = jax.jacfwd(resistance)(zero)
    return -solve(slope, resistance(zero))


def check_power(owner: str, power: Number) -> None:
    """Raise ValueError unless a power p is one for which the integrals along a link are accurate: e = p/2 − 1 must keep
    away from the ends of (−1/2, 1/2), where `line_integral` loses digits: some three of them 0.0005 from the ends."""
    if not isinstance(power, Tracer) and not 1.001 <= power <= 2.999:
        raise ValueError(
            f"{owner}: power must be from 1.001 to 2.999, got {power}; 2 is a linear drag, and gd.swimmers.DryLinks has"
            " dry friction, whose power is of degree 1."
        )


def check_chain(owner: str, lengths: Float[Array, " L"]) -> None:
    """Raise ValueError unless there are two lengths or more, all positive."""
    if len(jnp.shape(lengths)) != 1 or jnp.size(lengths) < 2:
        raise ValueError(f"{owner}: lengths must be two numbers or more, got shape {jnp.shape(lengths)}.")
    require_positive(owner, lengths=lengths)


def check_links(owner: str, lengths: Float[Array, " L"], name: str, pair: Float[Array, "2"]) -> None:
    """Raise ValueError unless there are two lengths or more, and a pair of numbers along and across, all positive."""
    check_chain(owner, lengths)
    require_shape(owner, f"{name} (along and across a link)", pair, (2,))
    require_positive(owner, **{name: pair})
