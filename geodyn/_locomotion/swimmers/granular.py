"""MOTION: chains of links in sand: forces that depend on the direction of the velocity, but not on its size.

Such forces jump where a link comes to rest, so that a balance need not exist. Each piece of a link creeps instead: its
force falls to zero with its velocity below a small speed, which is a part of the rate of the shape.
"""

import csv
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import jit
from geodyn._foundations.checks import shown
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, File, Float, Number, Row, Scalar
from geodyn._geometry.groups.rigid import SE2
from geodyn._locomotion.strokes.stroke import floating
from geodyn._locomotion.swimmers.creep import (
    Lines,
    creeping_guess,
    creeping_lines,
    least_creep,
    speed_of,
    turns_about_itself,
)
from geodyn._locomotion.swimmers.nonlinear_drag import AbstractResistedChain, check_chain, linear_velocity

WIDE = 1.1
"""Where tangents differ by more than this factor a steep piece is integrated in closed form, else by Gauss's rule. With
five nodes this is exact for pieces that are not steep, and errs by 6e-15 of the integral of 1/x³ at this factor."""

GAUSS_NODES, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(5)


class Law(NamedTuple):
    """Forces along and across a link that moves forwards, or backwards, as cubic polynomials between angles of its
    velocity from itself: of the tangent x of the angle, or of 1/x where the angle is steep."""

    lower: Float[Array, " K"]
    upper: Float[Array, " K"]
    is_steep: Bool[Array, " K"]
    along: Float[Array, "K 4"]
    across: Float[Array, "K 4"]


@checked
class StressTable(eqx.Module):
    """What resists a straight slender body in sand or on it, by the direction in which it moves.

    The force per length does not depend on the speed, but on the angle of the velocity from the direction in which the
    body points. Between the angles of the table it is cubic, with a continuous slope. To the left and to the right the
    body is the same, and it is the same in front and behind if the table ends at a right angle.

    Args:
        angles: K in radians, from 0 to π/2 or to π, growing, with π/2 among them.
        along: of the force per length against the direction of the body [K]; 0 at π/2 if the table ends there, negative
            behind it.
        across: of the force against the motion to the side [K]; 0 at 0, and at π if the table ends there.

    Raises:
        ValueError: if the angles are not as above, if there are fewer than three, if what must be zero by symmetry is
            not, or if the forces push a body that moves at an angle of the table or at one of seven between each two.

    Example:
        A body that resists three times as much across itself.

        >>> angles = jnp.linspace(0, jnp.pi / 2, 7)
        >>> table = gd.granular.StressTable(angles, jnp.cos(angles), 3 * jnp.sin(angles))
        >>> print(table(0.6).round(2), jnp.array([jnp.cos(0.6), 3 * jnp.sin(0.6)]).round(2))
        [0.83 1.69] [0.83 1.69]
    """

    angles: tuple[float, ...] = eqx.field(static=True)
    along: Float[Array, " K"]
    across: Float[Array, " K"]

    def __init__(self, angles: Row, along: Row, across: Row):
        self.angles = tuple(np.asarray(angles, float).tolist())
        self.along = floating(along, "forces")
        self.across = floating(across, "forces")
        _check_table(self)

    def __call__(self, angle: Number) -> Float[Array, "2"]:
        """The forces along and across a body whose velocity has an angle, in radians, from its direction."""
        a = jnp.cos(jnp.asarray(angle, self.along.dtype))[None]
        c = jnp.sin(jnp.asarray(angle, self.along.dtype))[None]
        lines = creeping_lines(jnp.stack([a, c, 0 * a], axis=1), jnp.ones_like(a), jnp.zeros((), a.dtype))
        return table_forces(self, lines)[0, :2]

    @property
    def is_symmetric(self) -> bool:
        """Whether the body is the same in front and behind."""
        return self.angles[-1] < 2

    def slopes(self) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
        """Of the forces along and across by the angle: those of parabolas through three neighbours."""
        angles = np.array(self.angles)
        end = angles[-1]
        with_mirrors = np.concatenate([[-angles[1]], angles, [2 * end - angles[-2]]])
        # About the direction of the body, at 0 and at π, the force along is even and the force across is odd; about the
        # right angle it is the other way round, if the body is the same in front and behind.
        parity = -1.0 if self.is_symmetric else 1.0
        along = jnp.concatenate([self.along[1:2], self.along, parity * self.along[-2:-1]])
        across = jnp.concatenate([-self.across[1:2], self.across, -parity * self.across[-2:-1]])
        return _parabolic_slopes(with_mirrors, along), _parabolic_slopes(with_mirrors, across)

    def laws(self) -> tuple[Law, ...]:
        """Of a body that moves forwards and, if it differs, of one that moves backwards."""
        along, across = self.slopes()
        angles = np.array(self.angles)
        middle = int(np.argmin(np.abs(angles - np.pi / 2)))
        front = slice(0, middle + 1)
        ahead = _law(angles[front], self.along[front], along[front], self.across[front], across[front])
        if self.is_symmetric:
            return (ahead,)
        back = slice(None, middle - 1 if middle else None, -1)
        # By the angle from the direction backwards, which falls when the angle from the heading grows.
        return ahead, _law(np.pi - angles[back], self.along[back], -along[back], self.across[back], -across[back])


def _parabolic_slopes(t: np.ndarray, values: Float[Array, " _"]) -> Float[Array, " K"]:
    """The slopes at all but the ends, of parabolas through three neighbours."""
    steps = np.diff(t)
    means = jnp.diff(values) / steps
    before = steps[:-1]
    after = steps[1:]
    return (before * means[1:] + after * means[:-1]) / (before + after)


def _law(
    angles: np.ndarray,
    along: Float[Array, " J"],
    along_slope: Float[Array, " J"],
    across: Float[Array, " J"],
    across_slope: Float[Array, " J"],
) -> Law:
    """The pieces of a law, from values and slopes at angles from 0 to π/2."""
    sine = np.sin(angles)
    cosine = np.cos(angles)
    # The tangent at π/2 shall be infinite, which it is not after rounding.
    cosine[-1] = 0.0
    is_steep = angles[:-1] + angles[1:] > np.pi / 2
    with np.errstate(divide="ignore"):
        tangent = sine / cosine
        cotangent = cosine / sine
    # Finite numbers in the place of infinite ones, at ends of pieces that are not taken.
    finite_tangent = np.where(cosine > 0, tangent, 2 * tangent[-2])
    finite_cotangent = np.where(sine > 0, cotangent, 2 * cotangent[1])

    def pieces(values: Float[Array, " J"], slopes: Float[Array, " J"]) -> Float[Array, "K 4"]:
        # The tangent changes with the angle by 1/cos², the cotangent by −1/sin².
        gentle = hermite(finite_tangent, values, slopes * cosine**2)
        steep = hermite(finite_cotangent, values, -slopes * sine**2)
        return jnp.where(is_steep[:, None], steep, gentle)

    lower = jnp.asarray(tangent[:-1], along.dtype)
    upper = jnp.asarray(tangent[1:], along.dtype)
    along_pieces = pieces(along, along_slope)
    across_pieces = pieces(across, across_slope)
    return Law(lower, upper, jnp.asarray(is_steep), along_pieces, across_pieces)


def hermite(t: np.ndarray, values: Float[Array, " J"], slopes: Float[Array, " J"]) -> Float[Array, "K 4"]:
    """The coefficients of the powers of t in the cubic polynomials with these values and slopes at their ends."""
    start = t[:-1]
    step = np.diff(t)
    first = slopes[:-1]
    last = slopes[1:]
    mean = (values[1:] - values[:-1]) / step
    # The coefficients of (t − start)² and (t − start)³; those of lower powers are the value and the slope at the start.
    second = (3 * mean - 2 * first - last) / step
    third = (first + last - 2 * mean) / step**2
    # In powers of t.
    constant = values[:-1] - start * first + start**2 * second - start**3 * third
    linear = first - 2 * start * second + 3 * start**2 * third
    return jnp.stack([constant, linear, second - 3 * start * third, third], axis=1)


@jit
def table_forces(table: StressTable, lines: Lines) -> Float[Array, "L 3"]:
    """The forces along and across links and the torques that resist their motion, integrated over their lengths.

    To the accuracy of rounding: each part of a link on which the law is one polynomial is integrated by Gauss's rule,
    or in closed form where the direction of the velocity changes much.
    """
    forwards = lines.along / lines.reach
    ahead, *others = table.laws()
    if not others:
        one = jnp.ones_like(forwards)
        return _moving_ahead(ahead, lines) * jnp.stack([forwards, one, one], axis=1)
    # Where pieces creep, or nearly, the laws of forwards and backwards are mixed.
    share = ((1 + forwards) / 2)[:, None]
    return share * _moving_ahead(ahead, lines) + (1 - share) * _moving_ahead(others[0], lines)


def _moving_ahead(law: Law, lines: Lines) -> Float[Array, "L 3"]:
    """The forces on links if all their parts obey one law: those of the parts that move to the left, and of those that
    move to the right, which are mirror images."""
    mirrored = lines._replace(across=-lines.across, turning=-lines.turning)
    both = jax.tree.map(lambda one, other: jnp.concatenate([one, other]), lines, mirrored)

    def with_piece(total: Float[Array, "both 3"], piece: Law) -> tuple[Float[Array, "both 3"], None]:
        return total + _on_piece(piece, both), None

    nothing = jnp.zeros((*both.along.shape, 3), lines.reach.dtype)
    total, _ = jax.lax.scan(with_piece, nothing, law)
    left, right = jnp.split(total, 2)
    return left + right * jnp.array([1.0, -1.0, -1.0], lines.reach.dtype)[None]


def _on_piece(piece: Law, lines: Lines) -> Float[Array, "L 3"]:
    """The forces on those parts of links that move to the left at the angles of one piece of a law."""
    a = lines.reach
    c = lines.across
    w = lines.turning
    start, stop = jax.lax.stop_gradient(_ends(piece, lines))
    length: Float[Array, " L"] = stop - start

    def tangent(s: Array, c: Array, w: Array, a: Array) -> Array:
        """Of the angle of the velocity at s; kept near the piece, for those links which have no part in it."""
        return jnp.clip((c + w * s) / a, piece.lower / 2, 2 * piece.upper)

    nodes = jnp.asarray((1 + GAUSS_NODES) / 2, a.dtype)[None]
    weights = jnp.asarray(GAUSS_WEIGHTS / 2, a.dtype)[None] * length[:, None]
    s: Float[Array, "L G"] = start[:, None] + length[:, None] * nodes
    x = tangent(s, c[:, None], w[:, None], a[:, None])
    t = jnp.where(piece.is_steep, 1 / jnp.where(piece.is_steep, x, 1.0), x)
    across = weights * _cubic(piece.across, t)
    at_nodes = [weights * _cubic(piece.along, t), across, s * across]
    by_rule = [jnp.sum(values, axis=1) for values in at_nodes]
    first = tangent(start, c, w, a)
    last = tangent(stop, c, w, a)
    is_wide = piece.is_steep & (jnp.maximum(first, last) > WIDE * jnp.minimum(first, last)) & (length > 0)
    # The closed form divides by w, and is evaluated at a harmless one where the rule is taken.
    turning_lines = lines._replace(turning=jnp.where(is_wide, w, 1.0))
    closed = _closed_form(piece, turning_lines, first, last, length, is_wide)
    forces = [jnp.where(is_wide, one, other) for one, other in zip(closed, by_rule, strict=True)]
    return jnp.stack(forces, axis=1)


def _cubic(coefficients: Float[Array, "4"], t: Float[Array, "L G"]) -> Float[Array, "L G"]:
    """The polynomial with these coefficients of 1, t, t² and t³, by Horner's rule."""
    return coefficients[0] + t * (coefficients[1] + t * (coefficients[2] + t * coefficients[3]))


def _ends(piece: Law, lines: Lines) -> tuple[Float[Array, " L"], Float[Array, " L"]]:
    """The part of each link on which a piece of the law is at work. Where a link hardly turns, it is enough to know
    this nearly, since neighbours are alike near their common end."""
    # Along such a link the angle changes by 1e-7. Values and slopes of neighbours agree at their common end, so that so
    # near to it they differ by the square of that.
    least = 1e-7 * jnp.hypot(lines.reach, lines.across) / lines.half
    hardly_turns = jnp.abs(lines.turning) < least
    w = jnp.where(hardly_turns, least, lines.turning)

    def place(tangent: Scalar) -> Float[Array, " L"]:
        return jnp.clip((tangent * lines.reach - lines.across) / w, -lines.half, lines.half)

    lower = place(piece.lower)
    upper = place(piece.upper)
    return jnp.minimum(lower, upper), jnp.maximum(lower, upper)


def _closed_form(
    piece: Law,
    lines: Lines,
    first: Float[Array, " L"],
    last: Float[Array, " L"],
    length: Float[Array, " L"],
    is_wide: Bool[Array, " L"],
) -> list[Float[Array, " L"]]:
    """The integrals over a piece that is a polynomial in 1/x, from one tangent x to another."""
    a = lines.reach
    w = lines.turning
    x = jnp.where(is_wide, first, 1.0)
    y = jnp.where(is_wide, last, 1.0)
    # The length in place of y - x keeps the digits.
    difference = w * length / a
    logarithm = jnp.log(y / x)
    inverse = difference / x / y
    mean = (x + y) / 2
    # From x to y the integrals of 1, 1/x, 1/x² and 1/x³, and of x times these.
    of_powers = (difference, logarithm, inverse, inverse * mean / x / y)
    of_moments = (difference * mean, difference, logarithm, inverse)

    def integral(coefficients: Float[Array, "4"], of_terms: tuple[Array, ...]) -> Float[Array, " L"]:
        """By s, with ds = a/w dx."""
        return a / w * sum(coefficients[j] * of_terms[j] for j in range(4))

    along = integral(piece.along, of_powers)
    across = integral(piece.across, of_powers)
    # s = (a x − c)/w.
    turning = (a * integral(piece.across, of_moments) - lines.across * across) / w
    return [along, across, turning]


def _check_table(table: StressTable) -> None:
    """Raise ValueError unless a table is one of what resists a body that is the same to the left and to the right."""
    angles = np.array(table.angles)
    if angles.size < 3 or not np.all(np.diff(angles) > 0):
        raise ValueError(f"StressTable: angles must be three or more that grow, in radians, got {shown(angles)}.")
    # Nearly is enough, as for 1.5708 that was typed.
    starts_at_0 = np.isclose(angles[0], 0, atol=1e-6)
    has_right_angle = np.any(np.isclose(angles, np.pi / 2))
    if not starts_at_0 or not has_right_angle or not _is_end(angles[-1]):
        raise ValueError(
            "StressTable: angles must begin at 0, end at π/2 or π and have π/2 among them, in radians, got"
            f" {shown(angles)}. Are they in degrees? np.deg2rad(angles) are radians."
        )
    for name, values in (("along", table.along), ("across", table.across)):
        if jnp.shape(values) != angles.shape:
            raise ValueError(f"StressTable: {name} must have the shape {angles.shape}, got {jnp.shape(values)}.")
    if isinstance(table.along, Tracer) or isinstance(table.across, Tracer):
        return
    along = np.asarray(table.along)
    across = np.asarray(table.across)
    largest = max(np.max(np.abs(along)), np.max(np.abs(across)))
    if not np.isfinite(largest):
        raise ValueError(f"StressTable: along and across must be finite, got {shown(along)} and {shown(across)}.")
    zeros = [("across", 0, across[0])]
    zeros.append(("along", -1, along[-1]) if table.is_symmetric else ("across", -1, across[-1]))
    for name, index, value in zeros:
        # What cos(π/2) is rounded to, 6e-17, counts as 0.
        if abs(value) > 1e-12 * largest:
            raise ValueError(
                f"StressTable: {name}[{index}] must be 0, since a body that is the same on both sides has no such force"
                f" at the angle {angles[index]:.6g}; got {value:.6g}."
            )
    powers = along * np.cos(angles) + across * np.sin(angles)
    if np.any(powers <= 0):
        wrong = int(np.argmin(powers))
        raise ValueError(
            "StressTable: the forces must be against the motion, along·cos(angle) + across·sin(angle) > 0; it is"
            f" {powers[wrong]:.3g} at the angle {angles[wrong]:.6g}. Are the signs those of what acts on the body?"
        )
    least, angle = _least_power_between(table)
    if least <= 0:
        raise ValueError(
            "StressTable: the cubic forces between the angles of the table push a body that moves: along·cos(angle) +"
            f" across·sin(angle) is {least:.3g} at the angle {angle:.6g}. Give more angles where forces change much."
        )


def _least_power_between(table: StressTable) -> tuple[float, float]:
    """The least power per length and speed at seven angles between each two of a table, and the angle where it is."""
    parts = np.arange(1, 8) / 8
    found = []
    with jax.ensure_compile_time_eval():
        laws = table.laws()
    # One law, of what moves forwards, or two, the second of what moves backwards.
    for law, forwards in zip(laws, (1, -1), strict=False):
        lower = np.arctan(law.lower)
        upper = np.arctan(law.upper)
        angles = lower[:, None] + (upper - lower)[:, None] * parts
        tangent = np.tan(angles)
        t = np.where(np.asarray(law.is_steep)[:, None], 1 / tangent, tangent)
        monomials = t[:, :, None] ** np.arange(4)
        along = np.einsum("kj,kqj->kq", law.along, monomials)
        across = np.einsum("kj,kqj->kq", law.across, monomials)
        powers = forwards * along * np.cos(angles) + across * np.sin(angles)
        least = np.unravel_index(np.argmin(powers), powers.shape)
        from_heading = angles[least] if forwards > 0 else np.pi - angles[least]
        found.append((float(powers[least]), float(from_heading)))
    return min(found)


def _is_end(angle: float) -> bool:
    return bool(np.isclose(angle, np.pi / 2) or np.isclose(angle, np.pi))


@checked
def read_stresses(source: File) -> StressTable:
    """What resists a slender body in sand, from a file of measurements.

    The file is a table (CSV) under one line of names: `angle_deg` or `angle_rad`, of the velocity from the direction of
    the body; `along` and `across`, the forces per length against the direction and against the motion to the side.
    Commas, semicolons or tabs separate.

    Args:
        source: path of the file.

    Returns:
        The table, a `gd.granular.StressTable`.

    Raises:
        ValueError: for a file that cannot be read, columns that are missing or not known, cells that are not numbers,
            and for what `gd.granular.StressTable` refuses.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "sand.csv"
        >>> _ = path.write_text("angle_deg,along,across\\n0,1,0\\n45,0.8,1.5\\n90,0,2\\n")
        >>> print(gd.granular.read_stresses(path)(jnp.pi / 4))
        [0.8 1.5]
    """
    where = f"read_stresses: {source}"
    try:
        lines = Path(source).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{where}: {error}; source must be a table as text, in UTF-8") from None
    head = lines[0] if lines else ""
    separator = next((mark for mark in ";\t" if mark in head), ",")
    try:
        table_rows = list(csv.reader(lines, delimiter=separator))
    except csv.Error as error:
        raise ValueError(f"{where}: {error}") from None
    filled = {number: [cell.strip() for cell in row] for number, row in enumerate(table_rows, 1) if any(row)}
    rows = list(filled.values())
    names = [name.casefold() for name in rows[0]] if rows else []
    wanted = {"along", "across", "angle_deg" if "angle_deg" in names else "angle_rad"}
    if sorted(names) != sorted(wanted):
        raise ValueError(
            f"{where}: its columns are {', '.join(names) or 'none'}; want angle_deg or angle_rad, along, across, once"
            " each, in the first line"
        )
    for number, row in filled.items():
        if len(row) != len(names):
            raise ValueError(f"{where}: row {number} has {len(row)} cells, want {len(names)}")
    try:
        table = np.array(rows[1:], float).reshape(-1, len(names))
    except ValueError as error:
        raise ValueError(f"{where}: {error}; every cell must be a number") from None
    columns = dict(zip(names, table.T, strict=True))
    angles = np.deg2rad(columns["angle_deg"]) if "angle_deg" in columns else columns["angle_rad"]
    try:
        return StressTable(angles, columns["along"], columns["across"])
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


SURFACE_DEGREES = (0, 1, 2, 3, 4, 6, 8, 10, 15, 20, 30, 45, 60, 75, 90)
"""The angles at which the curves of `surface_of_beads` are taken, close together where they rise."""


@checked
def surface_of_beads() -> StressTable:
    """What resists a plate that is dragged through the surface of glass beads of 0.3 mm, 8 mm deep and at 10 mm/s.

    The forces are in newtons on the plate of that experiment; where a body goes does not depend on their unit. They
    are the published curves at fifteen angles β. Across: `A sin β (1 + C / √(tan²γ + sin²β))`, with the factor sin β
    that is missing in print, but without which the force would not vanish at β = 0. Along: a Fourier series whose last
    two terms are taken for second harmonics (as printed, the force would be negative at other depths), with the zero
    at 90 degrees that symmetry wants, where the series has 0.0017. The plate is of aluminium; the scales of a snake
    have half its friction, so that the authors halve the forces along.

    Returns:
        The table, a `gd.granular.StressTable`.

    Example:
        Even at 10 degrees the force is mostly across.

        >>> print(gd.granular.surface_of_beads()(jnp.deg2rad(10.0)).round(4))
        [0.0186 0.054 ]

    Source:
        Schiebel, Astley, Rieser, Agarwal, Hubicki, Hubbard, Diaz, Mendelson, Kamrin & Goldman, *eLife* 9 (2020) e51412:
        equation 4 with A = 0.15 N, C = 0.198, tan²γ = 0.00389, and table 4 at z = 8 mm.
    """
    angles = np.deg2rad(np.array(SURFACE_DEGREES, float))
    sine = np.sin(angles)
    across = 0.15 * sine * (1 + 0.198 / np.sqrt(0.00389 + sine**2))
    first = 1.232 * angles
    second = 2 * first
    constant = 0.00593
    along = constant + 0.01974 * np.cos(first) - 0.001129 * np.sin(first)
    along += -0.008861 * np.cos(second) + 0.004105 * np.sin(second)
    along[-1] = 0.0
    return StressTable(angles, along, across)


def _stresses_or_default(stresses: StressTable | None) -> StressTable:
    return surface_of_beads() if stresses is None else stresses


@checked
class GranularLinks(AbstractResistedChain):
    """A chain of slender links that move horizontally in sand or on it; its shape r is the hinge angles.

    By the resistive-force theory of sand: the force on each piece of a link depends on the direction of its velocity
    from that of the link, as a table says, and not on the speed. So a stroke leads to the same place at any pace. What
    the sand remembers of those who passed is left out, and so is its inertia. The forces are integrated over the links
    to rounding, and balanced to rounding; a link that sand can hold creeps with some 1e-9 of the speed of the body. The
    frame sits at the centre of the middle link, the left one of two, and along it. Any consistent units; angles in
    radians.

    The forces have no potential: where the body goes is not where the power is least. Where a link turns about a point
    of itself without moving along itself, there is no derivative. `gd.holonomy` of the default converges as steps^−2 or
    so: with 64 steps its error is 2e-5 of a link, with 512 it is 2e-8.

    Args:
        lengths: of the links [L].
        stresses: what resists them, by the direction of their velocity; None: `gd.granular.surface_of_beads()`.
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless there are two lengths or more, all positive.

    Example:
        Sand resists motions across a link much more than those along it, so that a stroke leads farther than in a
        viscous fluid.

        >>> stroke = gd.FourierStroke.circle(1.0)
        >>> bodies = gd.swimmers.GranularLinks(), gd.swimmers.NLink([1.0, 1.0, 1.0])
        >>> print([f"{gd.holonomy(body, stroke)[0, 2]:.3f}" for body in bodies])
        ['-0.505', '-0.148']

    Source:
        Maladen, Ding, Li & Goldman, *Science* 325 (2009) 314; Hatton, Ding, Choset & Goldman, *PRL* 110 (2013) 078101;
        the default stresses are of Schiebel et al., *eLife* 9 (2020) e51412.
    """

    lengths: Float[Array, " L"] = eqx.field(default=(1.0, 1.0, 1.0), converter=floating)
    stresses: StressTable = eqx.field(default=None, converter=_stresses_or_default)
    group: SE2 = SE2()

    @property
    def towing_drag(self) -> Number:
        """The force by which the straight body is dragged along itself."""
        return self.stresses.along[0] * jnp.sum(self.lengths)

    def __check_init__(self):
        check_chain("GranularLinks", self.lengths)

    def guess(self, r: Float[Array, " m"], rdot: Float[Array, " m"]):
        # Only a start: the drag of slender links in a viscous fluid.
        drag = jnp.array([1.0, 2.0], rdot.dtype)
        least = jnp.asarray(least_creep(rdot.dtype), rdot.dtype)
        return creeping_guess(self, r, rdot, linear_velocity(self, drag, r, rdot), least)

    def forces(self, velocities: Float[Array, "L 3"]) -> Float[Array, "L 3"]:
        return self.creeping_forces(velocities, least_creep(velocities.dtype))

    def creeping_forces(self, velocities: Float[Array, "L 3"], creep: Number) -> Float[Array, "L 3"]:
        """The forces if pieces creep below a part `creep` of the speed of the body."""
        slow = creep * speed_of(velocities, self.lengths)
        return table_forces(self.stresses, creeping_lines(velocities, self.lengths, slow))

    def has_kink(self, r: Float[Array, " m"], xi: Float[Array, "3"], rdot: Float[Array, " m"]) -> Bool[Array, ""]:
        """Whether a link turns about a point of itself without moving along itself."""
        return turns_about_itself(self.velocities(r, xi, rdot), self.lengths)
