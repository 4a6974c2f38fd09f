"""The three of Thurston's eight geometries that are no spaces of constant curvature and no products: Nil, Sol and the
universal cover of SL₂(R). Each is a group with a metric that its own translations leave as it is.

Source: Thurston, *Three-Dimensional Geometry and Topology* (1997), section 3.8; Scott, *The geometries of 3-manifolds*,
Bull. London Math. Soc. 15 (1983) 401.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import zeta

from geodyn._engine.jit import custom_jvp
from geodyn._engine.tracing import batched_as
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Float, Int, Scalar
from geodyn._geometry.manifold.manifold import AbstractManifold, Domain, domain_of
from geodyn._geometry.models.charts import cosine, sine_ratio
from geodyn._geometry.models.spaces import AbstractKnownGeodesics, Euclidean, Hyperbolic, Product, Sphere
from geodyn._geometry.models.stumpff import stumpff
from geodyn._geometry.models.translations import AbstractMovingFrame, MovingNil, MovingSL2, MovingSol

# The root of the equation of a turn is found in far fewer.
MOST_ITERATIONS = 100
# Below this turn φ/2 cot φ/2 = 1 − 2 Σ ζ(2n)/(2π)²ⁿ φ²ⁿ is summed up to rounding.
SMALL_TURN = 1.0
POWERS = 2 * np.arange(1, 13)
OF_POWERS = -2 * zeta(POWERS) / (2 * np.pi) ** POWERS
# The coefficients of the odd powers are 0, that of φ⁰ is 1.
COTANGENT = np.polynomial.Polynomial(np.insert(np.kron(OF_POWERS, [0, 1]), 0, 1))


class AbstractGroupGeometry(AbstractManifold):
    """A geometry that is a group of three dimensions, whose chart may go along with a body."""

    dim = 3
    chart: AbstractMovingFrame | None
    _moving: eqx.AbstractClassVar[type[AbstractMovingFrame]]

    @checked
    def __init__(self, chart: str = "fixed"):
        if chart not in ("fixed", "moving"):
            raise ValueError(f"chart must be 'fixed' or 'moving', got {chart!r}")
        self.chart = self._moving() if chart == "moving" else None


class Nil(AbstractGroupGeometry, AbstractKnownGeodesics):
    """Nil, the geometry of the Heisenberg group: ds² = dx² + dy² + (dz + (y dx − x dy)/2)².

    Its geodesics are helices over circles and lines of the plane (x, y). Distances are known in closed form but for one
    equation of one unknown, the angle by which the circle turns: beyond the cut locus as well, where the vertical line
    is no longer the shortest way. `killing_fields` are ∂x + y/2 ∂z, ∂y − x/2 ∂z, ∂z and the rotation x ∂y − y ∂x.

    Args:
        chart: "fixed", or "moving", which goes along with a body by translations of the group, however far it travels,
            so that no digits are lost within it. Then all that acts on the body must be invariant under them, and
            `trajectory.coordinates()` tells where it is.

    Raises:
        ValueError: for another chart.

    Example:
        Up to a height of 2π the vertical line is the shortest way; above that a helix is.

        >>> for height in (5.0, 9.0):
        ...     print(f"{gd.distance(gd.spaces.Nil(), [0.0, 0.0, 0.0], [0.0, 0.0, height]):.6f}")
        5.000000
        8.580147

    Source:
        Thurston, *Three-Dimensional Geometry and Topology* (1997), section 3.8. The distance: Marenich, *Geodesics in
        Heisenberg groups*, Geom. Dedicata 66 (1997) 175.
    """

    _moving = MovingNil

    @checked
    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """The metric at x."""
        one = jnp.ones_like(x[0])
        zero = jnp.zeros_like(x[0])
        dx = [one, zero, zero]
        dy = [zero, one, zero]
        contact = [x[1] / 2, -x[0] / 2, one]
        return _of_coframe([dx, dy, contact])

    @checked
    def squared_distance(self, x: Float[Array, " n"], y: Float[Array, " n"]) -> Scalar:
        """Squared distance of two points, smooth where they coincide."""
        across = y[:2] - x[:2]
        height = y[2] - x[2] - (x[0] * y[1] - x[1] * y[0]) / 2  # of y, once x is moved to the origin
        energy, _ = _half_square(across @ across, jnp.where(height < 0, -height, height))
        return 2 * energy

    @checked
    def exp(self, x: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " n"]:
        """The point of the geodesic from x with velocity v at time 1.

        It is a helix, or a line: while it rises by c it turns by the angle c.
        """
        rise = v[2] + (x[1] * v[0] - x[0] * v[1]) / 2  # as seen from the origin
        arc = arc_of(v[:2], rise)
        # By the contact form the height changes by the area that the arc sweeps, seen from the axis.
        swept = (x[0] * arc[1] - x[1] * arc[0]) / 2
        height = rise + area_of_arc(v[:2], rise) + swept
        return x + jnp.append(arc, height)

    @checked
    def killing_fields(self, x: Float[Array, " n"]) -> Float[Array, "K n"]:
        """Three translations and a rotation, at x."""
        one = jnp.ones_like(x[0])
        zero = jnp.zeros_like(x[0])
        along_x = [one, zero, x[1] / 2]
        along_y = [zero, one, -x[0] / 2]
        along_z = [zero, zero, one]
        turn = [-x[1], x[0], zero]
        return _matrix([along_x, along_y, along_z, turn])


class Sol(AbstractGroupGeometry):
    """Sol: ds² = e^{2z} dx² + e^{−2z} dy² + dz², the least symmetric of the eight geometries.

    `killing_fields` are ∂x, ∂y and ∂z − x ∂x + y ∂y. (Some authors have z the other way round.)

    Args:
        chart: "fixed", or "moving", which goes along with a body as that of `Nil` does.

    Raises:
        ValueError: for another chart.

    Example:
        The curvature of the planes (x, z) is −1, that of the planes (x, y) is 1.

        >>> along = jnp.eye(3)
        >>> planes = (along[0], along[2]), (along[0], along[1])
        >>> print([f"{gd.sectional_curvature(gd.spaces.Sol(), jnp.zeros(3), *plane):.6f}" for plane in planes])
        ['-1.000000', '1.000000']

    Source:
        Thurston, *Three-Dimensional Geometry and Topology* (1997), section 3.8.
    """

    _moving = MovingSol

    @checked
    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """The metric at x."""
        squares = [jnp.exp(2 * x[2]), jnp.exp(-2 * x[2]), jnp.ones_like(x[2])]
        return jnp.diag(jnp.stack(squares))

    @checked
    def killing_fields(self, x: Float[Array, " n"]) -> Float[Array, "K n"]:
        """Three translations, at x."""
        one = jnp.ones_like(x[0])
        zero = jnp.zeros_like(x[0])
        return _matrix([[one, zero, zero], [zero, one, zero], [-x[0], x[1], one]])


class SL2(AbstractGroupGeometry, AbstractKnownGeodesics):
    """The universal cover of SL₂(R): ds² = (dx² + dy²)/y² + (dz + dx/y)², a line over each point of the half plane.

    The height z counts how often one has turned, so that it is no angle. Geodesics are known in closed form: they lie
    over circles, horocycles and lines of the half plane, and over lines at a distance from these. Of the metrics of
    this family it is the one in which planes through the line have the curvature 1/4. `killing_fields` are ∂x, x ∂x + y
    ∂y, ∂z, and the rotation about the line over (0, 1), (1 + x² − y²)/2 ∂x + x y ∂y + (y − 1) ∂z.

    Args:
        chart: "fixed", or "moving", which goes along with a body as that of `Nil` does.

    Raises:
        ValueError: for another chart.

    Example:
        >>> space = gd.spaces.SL2()
        >>> print(f"{gd.scalar_curvature(space, [0.2, 1.1, 0.3]):.6f}")
        -2.500000

    Source:
        Thurston, *Three-Dimensional Geometry and Topology* (1997), section 3.8; Scott, Bull. London Math. Soc. 15
        (1983) 401. Geodesics: Divjak et al., *Geodesics and geodesic spheres in SL(2, R) geometry*, Math. Commun. 14
        (2009) 413.
    """

    _moving = MovingSL2

    @checked
    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """The metric at x."""
        one = jnp.ones_like(x[0])
        zero = jnp.zeros_like(x[0])
        inverse = 1 / x[1]
        return _of_coframe([[inverse, zero, zero], [zero, inverse, zero], [inverse, zero, one]])

    @checked
    def exp(self, x: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " n"]:
        """The point of the geodesic from x with velocity v at time 1.

        It is the orbit of a one-parameter group: of matrices (a b; c −a) of the half plane, about the point below x,
        which turn a direction there by −2 arg(c τ + d), and of a rise along the line.
        """
        along = v[0] / x[1]
        a = v[1] / x[1] / 2
        b = -v[2] / 2
        c = along + v[2] / 2
        square = -(a**2 + b * c)  # ω², negative where the matrices do not turn
        cosines, sine = _circular(square)
        first = cosines + sine * a, sine * b
        # Far up the last entry is small, and no difference of large numbers.
        is_up = (a > 0) & (square < 0)
        small = (1 + sine**2 * b * c) / jnp.where(is_up, first[0], 1.0)
        last = sine * c, jnp.where(is_up, small, cosines - sine * a)
        size = last[0] ** 2 + last[1] ** 2
        across = first[0] * last[0] + first[1] * last[1]
        rise = v[2] + 2 * c - 2 * _arg_of_orbit(square, c, *last)
        return jnp.stack([x[0] + x[1] * across / size, x[1] / size, x[2] + rise])

    @checked
    def killing_fields(self, x: Float[Array, " n"]) -> Float[Array, "K n"]:
        """Two translations of the half plane, the one along the line, and a rotation, at x."""
        one = jnp.ones_like(x[0])
        zero = jnp.zeros_like(x[0])
        shift = [one, zero, zero]
        stretch = [x[0], x[1], zero]
        along_line = [zero, zero, one]
        turn = [(1 + x[0] ** 2 - x[1] ** 2) / 2, x[0] * x[1], x[1] - 1]
        return _matrix([shift, stretch, along_line, turn])


# The eight geometries by their usual names.
THURSTON: dict[str, AbstractManifold] = {
    "E3": Euclidean(3),
    "S3": Sphere(3),
    "H3": Hyperbolic(3),
    "S2xE": Product(Sphere(2), Euclidean(1)),
    "H2xE": Product(Hyperbolic(2), Euclidean(1)),
    "Nil": Nil(),
    "Sol": Sol(),
    "SL2": SL2(),
}


@domain_of.register
def _(space: SL2) -> Domain:
    return Domain("y > 0", lambda x: x[1] > 0)


def _matrix(rows: list[list[Scalar]]) -> Float[Array, "r n"]:
    return jnp.stack([jnp.stack(row) for row in rows])


def _of_coframe(rows: list[list[Scalar]]) -> Float[Array, "n n"]:
    """The metric in which the one-forms with these components are orthonormal."""
    forms = _matrix(rows)
    return forms.T @ forms


def _circular(square: Scalar) -> tuple[Scalar, Scalar]:
    """cos ω and sin ω/ω for ω² = square, which may be negative."""
    turns = square > 0
    positive = jnp.where(turns, square, 0.0)
    negative = jnp.where(turns, 0.0, -square)
    cosines = jnp.where(turns, cosine(1, positive), cosine(-1, negative))
    sine_ratios = jnp.where(turns, sine_ratio(1, positive), sine_ratio(-1, negative))
    return cosines, sine_ratios


def _arg_of_orbit(square: Scalar, sense: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """arg(high + i low) at the end of a way that begins at 1: by the angle ω around an ellipse about 0, in the `sense`
    of this sign, with ω² = square; or along a branch of a hyperbola, by less than π."""
    turns = square > 1
    rate = jnp.sqrt(jnp.where(turns, square, 1.0))
    passed = jnp.where(turns, jnp.where(sense > 0, rate, -rate), 0.0)
    # What is left is the argument in a plane turned back by that angle, where it is small.
    cosines = jnp.cos(passed)
    sines = jnp.sin(passed)
    across = cosines * low - sines * high
    along = cosines * high + sines * low
    return passed + jnp.arctan2(across, along)


def arc_of(velocity: Float[Array, "2"], turn: Scalar) -> Float[Array, "2"]:
    """The chord of the arc of a plane curve with this velocity at its begin, which turns by this angle in unit time."""
    half = turn / 2
    cosine = jnp.cos(half)
    sine = jnp.sin(half)
    # The chord has the direction that the arc has in its middle.
    x = cosine * velocity[0] - sine * velocity[1]
    y = sine * velocity[0] + cosine * velocity[1]
    return stumpff(half**2)[0] * jnp.stack([x, y])


def area_of_arc(velocity: Float[Array, "2"], turn: Scalar) -> Scalar:
    """The area between this arc and its chord: |v|² (φ − sin φ)/(2 φ²)."""
    return jnp.sum(velocity**2) * turn * stumpff(turn**2)[2] / 2


# E = ½ d² in Nil, from the origin to a point at the distance ρ = √square from the axis and at a height ≥ 0, is that of
# the geodesic which turns by an angle φ < 2π:
#
#     E = φ h − φ²/2 + ρ² k(φ)/2    with    k(φ) = φ/2 cot φ/2,
#
# stationary in φ. So its derivatives by ρ² and by the height h are k/2 and φ, and those of φ follow from
# h = φ − ρ² k'(φ)/2.


class Turn(NamedTuple):
    """The angle φ, and sin φ/2 and cos φ/2, which have all their digits near 2π as well."""

    angle: Scalar
    sine: Scalar
    cosine: Scalar


@custom_jvp
def _half_square(square: Scalar, height: Scalar) -> tuple[Scalar, Turn]:
    """½ d² for ρ² and the height, and the turn."""
    return _search(square, height)


@_half_square.def_jvp
def _(primals: tuple[Scalar, Scalar], tangents: tuple[Any, Any]) -> tuple[tuple[Scalar, Turn], tuple[Scalar, Turn]]:
    energy, turn = _half_square(*primals)
    of_square, of_height = (jnp.zeros_like(energy) if x is None else x for x in tangents)
    square, _ = primals
    slope = _cotangent(turn, 0) / 2
    angle = jnp.where(jnp.isnan(slope), slope, turn.angle)
    rate = slope * of_square + angle * of_height
    # From h = φ − ρ² k'(φ)/2, differentiated.
    stiffness = 1 - square * _cotangent(turn, 2) / 2
    of_angle = (_cotangent(turn, 1) / 2 * of_square + of_height) / stiffness
    of_turn = Turn(of_angle, turn.cosine / 2 * of_angle, -turn.sine / 2 * of_angle)
    return (energy, turn), (rate, of_turn)


def _cotangent(turn: Turn, order: int) -> Scalar:
    """The derivative of this order, up to the second, of k(φ) = φ/2 cot φ/2. NaN at 2π: there are shortest ways in all
    directions to the axis above 2π, where the distance has a ridge."""
    is_small = turn.angle < SMALL_TURN
    is_ridge = ~is_small & (turn.sine == 0)
    series = COTANGENT.deriv(order).coef
    low = jnp.polyval(jnp.asarray(series[::-1], turn.angle.dtype), jnp.where(is_small, turn.angle, 0.0))
    angle = jnp.where(is_small, 1.0, turn.angle)
    sine = jnp.where(is_small | is_ridge, 1.0, turn.sine)
    cotangent = turn.cosine / sine
    high = (
        angle / 2 * cotangent,
        cotangent / 2 - angle / (4 * sine**2),
        (angle / 2 * cotangent - 1) / (2 * sine**2),
    )[order]
    return jnp.where(is_small, low, jnp.where(is_ridge, jnp.nan, high))


def _search(square: Scalar, height: Scalar) -> tuple[Scalar, Turn]:
    """½ d² and the turn, by searches without derivatives. Above 2π, near the axis, φ is nearly 2π, and the unknown is
    q = ρ/sin φ/2, where φ is more than 3π/2."""
    full = 2 * jnp.pi
    most_of_it = 1.5 * jnp.pi
    # The height at which φ = 3π/2, since k' = −(φ + 1)/2 there.
    where_near = most_of_it + square * (most_of_it + 1) / 4
    is_high = height > jnp.maximum(full, where_near)

    def rise(angle: Scalar, square: Scalar) -> Scalar:
        return angle - square * _cotangent(_at(angle), 1) / 2

    def rise_near_axis(q: Scalar, square: Scalar) -> Scalar:
        turn = _near_axis(q, square)
        return turn.angle + q**2 * (turn.angle - 2 * turn.sine * turn.cosine) / 8

    # Both searches run, each with harmless numbers where the other one is meant.
    low = jnp.where(is_high, 1.0, height)
    apart = jnp.where(is_high, 1.0, square)
    angle = _increasing_root(rise, apart, low, jnp.zeros_like(low), jnp.minimum(low, full))
    flat = _at(angle)
    below = angle**2 / 2 + apart * (_cotangent(flat, 0) - angle * _cotangent(flat, 1)) / 2

    high = jnp.where(is_high, height, full + 1)
    close = jnp.where(is_high, square, 0.0)
    most = jnp.sqrt(2 * close + 8 * high / jnp.pi)
    q = _increasing_root(rise_near_axis, close, high, jnp.sqrt(2 * close), most)
    steep = _near_axis(q, close)
    above = steep.angle**2 * (1 + q**2 / 4) / 2

    turn = jax.tree.map(lambda low, high: jnp.where(is_high, high, low), flat, steep)
    return jnp.where(is_high, above, below), turn


def _at(angle: Scalar) -> Turn:
    return Turn(angle, jnp.sin(angle / 2), jnp.cos(angle / 2))


def _near_axis(q: Scalar, square: Scalar) -> Turn:
    """The turn with sin φ/2 = ρ/q, where φ is between π and 2π."""
    squared_sine = jnp.minimum(square / q**2, 1.0)
    # A root of 0 has an infinite slope: there 1 stands in its place, and is multiplied by 0.
    is_less = squared_sine < 1
    cosine = jnp.sqrt(jnp.where(is_less, 1 - squared_sine, 1.0)) * is_less
    is_more = squared_sine > 0
    sine = jnp.sqrt(jnp.where(is_more, squared_sine, 1.0)) * is_more
    angle = 2 * jnp.pi - 2 * jnp.arctan2(sine, cosine)
    return Turn(angle, sine, -cosine)


class Bracket(NamedTuple):
    """A root x between two bounds, whether it is settled, and the number of iterations so far."""

    x: Scalar
    low: Scalar
    high: Scalar
    settled: Bool[Array, ""]
    count: Int[Array, ""]


def _increasing_root(
    function: Callable[[Scalar, Scalar], Scalar], parameter: Scalar, target: Scalar, low: Scalar, high: Scalar
) -> Scalar:
    """The x between low and high where an increasing function reaches the target: by Newton's method, and by halves
    where that leaves them."""

    def goes_on(state: Bracket) -> Bool[Array, ""]:
        return ~state.settled & (state.count < MOST_ITERATIONS)

    def improve(state: Bracket) -> Bracket:
        x = state.x
        value, slope = jax.jvp(lambda x: function(x, parameter), (x,), (jnp.ones_like(x),))
        off = value - target
        low = jnp.where(off < 0, x, state.low)
        high = jnp.where(off > 0, x, state.high)
        newton = x - off / slope
        middle = (low + high) / 2
        after = jnp.asarray(jnp.where((newton > low) & (newton < high), newton, middle))
        settled = jnp.abs(after - x) <= jnp.finfo(x.dtype).eps * jnp.abs(x)
        return Bracket(after, low, high, settled, state.count + 1)

    start = Bracket((low + high) / 2, low, high, jnp.zeros((), bool), jnp.zeros((), int))
    return jax.lax.while_loop(goes_on, improve, batched_as(target, start)).x
