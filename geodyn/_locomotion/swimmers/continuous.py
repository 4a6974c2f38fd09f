"""MOTION: slender bodies that bend everywhere, under resistive-force theory."""

import functools
import math
from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import legendre

from geodyn._engine.jit import as_pytree
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Number, Scalar
from geodyn._geometry.groups.rigid import SE2
from geodyn._geometry.models.stumpff import sine_ratio
from geodyn._locomotion.connections.checks import require_positive, require_shape
from geodyn._locomotion.connections.connection import AbstractSwimmer, resistive_power
from geodyn._locomotion.connections.linkages import seen_from
from geodyn._locomotion.connections.reshaped import Reshaped
from geodyn._locomotion.strokes.stroke import floating

POINTS = 65
"""Of a centreline that is drawn."""


class AbstractBackbone(AbstractSwimmer):
    """What slender bodies share that bend everywhere: a centreline, and the drag on its pieces."""

    length: eqx.AbstractVar[Number]
    drag_ratio: eqx.AbstractVar[Number]
    drag: eqx.AbstractVar[Number]

    @abstractmethod
    def centreline(self, r: Float[Array, " m"], s: Float[np.ndarray, " S"]) -> Float[Array, "S 3"]:
        """Positions and headings (x, y, angle) of the points s in [0, 1] of the body, in its frame."""

    @abstractmethod
    def quadrature(self) -> tuple[np.ndarray, np.ndarray]:
        """The nodes and weights of integrals along the body, from 0 to 1."""

    def dissipation(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        nodes, weights = self.quadrature()
        drag = self.drag * self.length * jnp.asarray(weights, r.dtype)
        # Along the body, across it, and against turning: pieces are so short that their own turning costs nothing.
        drags = jnp.stack([drag, self.drag_ratio * drag, 0 * drag], axis=1)
        poses, rates = jax.jvp(lambda r: self.centreline(r, nodes), (r,), (rdot,))
        return resistive_power(poses, rates, drags, xi)

    @checked
    def outline(self, r: Float[Array, " m"]) -> Float[Array, "1 points 2"]:
        """The centreline."""
        return self.centreline(r, np.linspace(0, 1, POINTS))[None, :, :2]


@checked
class Serpenoid(AbstractBackbone):
    """A slender body that bends everywhere, with the curvature `κ = Σ_i r_i φ_i(s)/length`.

    Here s goes from 0 (tail) to 1 (head). The modes φ are `cos 2πws` and `sin 2πws` for each number w of waves on the
    body, by default one wave, that of Hirose's serpenoid curve; or any smooth functions. The shape r is in radians over
    the length of the body. The frame sits at the middle of the body, along it. Drag follows resistive-force theory. The
    centreline is integrated with Gauss–Legendre nodes, which converges exponentially. Any consistent units.

    Args:
        length: of the body.
        drag_ratio: drag across over that along.
        drag: drag per length along.
        modes: function s -> φ[m]; None: the waves.
        nodes: number of nodes. With 24 the connection of two waves has errors of 1e-6 to 1e-4 of its size,
            with 40 of 1e-10 to 1e-8.
        waves: numbers of waves on the body, with two modes each.
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless all numbers are positive, and for a shape that has not as many numbers as there are modes.

    Example:
        A wave that travels from head to tail drives the body ahead.

        >>> snake = gd.swimmers.Serpenoid(drag_ratio=2.0)
        >>> wave = gd.strokes.reverse(gd.FourierStroke.circle(3.0))
        >>> moved = [snake.group.log(gd.holonomy(snake, s, steps=64)) for s in (wave, gd.strokes.reverse(wave))]
        >>> print([f"{x[0]:.4f}" for x in moved])
        ['0.0662', '-0.0662']

        With a second wave there are four modes.

        >>> print(gd.connection(gd.swimmers.Serpenoid(waves=(1.0, 2.0)), [2.0, 1.0, 0.5, 0.0]).shape)
        (3, 4)

    Source:
        Hirose, *Biologically Inspired Robots* (1993), chapter 2; Gray & Hancock, *J. Exp. Biol.* 32 (1955) 802.
    """

    length: Number = eqx.field(default=1.0, converter=floating)
    drag_ratio: Number = eqx.field(default=2.0, converter=floating)
    drag: Number = eqx.field(default=1.0, converter=floating)
    modes: Callable[[Scalar], Float[Array, " m"]] | None = eqx.field(
        default=None, converter=lambda modes: None if modes is None else as_pytree(modes)
    )
    nodes: Count = eqx.field(static=True, default=24)
    waves: Float[Array, " w"] = eqx.field(default=(1.0,), converter=floating)
    group: SE2 = SE2()

    def __check_init__(self):
        require_positive("Serpenoid", length=self.length, drag_ratio=self.drag_ratio, drag=self.drag, nodes=self.nodes)
        require_positive("Serpenoid", waves=self.waves)

    def _modes(self, s: Scalar) -> Float[Array, " m"]:
        """The modes at one point of the body."""
        if self.modes is not None:
            return self.modes(s)
        angles = 2 * jnp.pi * s * self.waves.astype(s.dtype)
        return jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1).ravel()

    @checked
    def centreline(self, r: Float[Array, " m"], s: Float[np.ndarray, " S"]) -> Float[Array, "S 3"]:
        """Positions and headings (x, y, angle) of the points s in [0, 1] of the body, in its frame."""
        nodes, _ = _gauss(self.nodes)
        shapes = jax.vmap(self._modes)(jnp.asarray(nodes, r.dtype))
        if shapes.shape[1:] != r.shape:
            raise ValueError(f"Serpenoid: modes gives {shapes.shape[1:]} numbers, but the shape r has {r.shape}.")
        return _centreline_of(self.length, shapes @ r, s)

    def quadrature(self):
        return _gauss(self.nodes)


class Polar(eqx.Module):
    """The two numbers of a wave from its amplitude and phase."""

    def __call__(self, r: Float[Array, "2"]) -> Float[Array, "2"]:
        return r[0] * jnp.stack([jnp.cos(r[1]), jnp.sin(r[1])])


@checked
def polar_serpenoid(waves: float | int = 1.0, length: Number = 1.0, drag_ratio: Number = 2.0) -> Reshaped:
    """A serpenoid whose shape is r = (amplitude, phase), in radians, of the wave that stands on it.

    The curvature is `r₁ cos(2πws − r₂)/length`, see `gd.swimmers.Serpenoid`. At the amplitude 0 the phase changes
    nothing, so that the metric is degenerate there: keep strokes away by bounds. A wave that travels on is a stroke
    that is open, from the phase 0 to 2π; closed strokes here do not go around the straight body.

    Args:
        waves: number of waves on the body, w.
        length: of the body.
        drag_ratio: drag across over that along.

    Returns:
        The body, a `gd.bundles.Reshaped`.

    Example:
        >>> body = gd.swimmers.polar_serpenoid()
        >>> print([f"{gd.shape_metric(body, [amplitude, 0.3])[1, 1]:.6f}" for amplitude in (2.0, 0.0)])
        ['0.001112', '0.000000']
    """
    nodes = 24 * max(1, math.ceil(waves))
    body = Serpenoid(length=length, drag_ratio=drag_ratio, nodes=nodes, waves=np.array([float(waves)]))
    return Reshaped(body, Polar(), ("amplitude (rad)", "phase (rad)"))


@checked
class TriangleWave(AbstractBackbone):
    """A slender body bent nearly at corners, which run along it as its shape changes: a wave of straight pieces.

    The curvature is `κ = C |r| cosⁿ(2πws − φ)/length` with n the `sharpness`, an odd number, where w is the number of
    `waves` on the body, φ the angle of the shape r = |r| (cos φ, sin φ), and C such that half a wave turns as much as
    that of `gd.swimmers.Serpenoid`, by |r|/(πw); with n = 1 it is that body. With larger n the bends come near to
    corners. The shape r is in radians over the length of the body. The frame sits at the middle of the body, along it.
    Drag follows resistive-force theory. Any consistent units.

    The straight body, r = 0, is a singular shape if n > 1: what a small change of shape does there depends on its
    direction, so that connection and metric are NaN. Strokes around it, such as circles, are smooth.

    Args:
        length: of the body.
        drag_ratio: drag across over that along.
        drag: drag per length along.
        waves: number of waves on the body.
        sharpness: odd number n, at least 1.
        nodes: number of nodes of integrals along the body. With 64 of them the connection of one wave has an error of
            2e-5 of its size, with 96 of 4e-8; two waves need 160, and sharper bends more.
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless all numbers are positive and the sharpness is odd.

    Example:
        Corners that travel from head to tail drive the body ahead.

        >>> body = gd.swimmers.TriangleWave()
        >>> wave = gd.strokes.reverse(gd.FourierStroke.circle(3.0))
        >>> print(f"{body.group.log(gd.holonomy(body, wave))[0]:.4f}")
        0.1027

    Source:
        Hatton & Choset, *IEEE Trans. Robot.* 29 (2013) 615, for bodies in such coordinates; Gray & Hancock, *J. Exp.
        Biol.* 32 (1955) 802.
    """

    shape_names = ("cosine wave (rad)", "sine wave (rad)")

    length: Number = eqx.field(default=1.0, converter=floating)
    drag_ratio: Number = eqx.field(default=2.0, converter=floating)
    drag: Number = eqx.field(default=1.0, converter=floating)
    waves: Number = eqx.field(default=1.0, converter=floating)
    sharpness: Count = eqx.field(static=True, default=21)
    nodes: Count = eqx.field(static=True, default=96)
    group: SE2 = SE2()

    def __check_init__(self):
        numbers = {"length": self.length, "drag_ratio": self.drag_ratio, "drag": self.drag, "waves": self.waves}
        require_positive("TriangleWave", **numbers, nodes=self.nodes)
        if self.sharpness < 1 or self.sharpness % 2 == 0:
            raise ValueError(f"TriangleWave: sharpness must be an odd number, at least 1, got {self.sharpness}.")

    @checked
    def centreline(self, r: Float[Array, "2"], s: Float[np.ndarray, " S"]) -> Float[Array, "S 3"]:
        """Positions and headings (x, y, angle) of the points s in [0, 1] of the body, in its frame."""
        nodes, _ = _gauss(self.nodes)
        angles = 2 * jnp.pi * self.waves * jnp.asarray(nodes, r.dtype)
        wave = r[0] * jnp.cos(angles) + r[1] * jnp.sin(angles)
        if self.sharpness == 1:
            return _centreline_of(self.length, wave, s)
        # |r| cosⁿ = (|r| cos) cosⁿ⁻¹.
        size = jnp.sqrt(jnp.sum(r**2))
        bend = _turn_of(int(self.sharpness)) * wave * (wave / size) ** (self.sharpness - 1)
        return _centreline_of(self.length, bend, s)

    def quadrature(self):
        return _gauss(self.nodes)


@checked
class ConstantCurvature(AbstractBackbone):
    """A slender body of equal pieces, each of which bends to an arc of a circle, as soft robots do; shape r[pieces].

    The curvature of a piece is `r_i/length`, so that r is in radians over the length of the body. The centreline is
    known in closed form. The frame sits at the middle of the body, along it. Drag follows resistive-force theory. Any
    consistent units.

    Args:
        length: of the body.
        drag_ratio: drag across over that along.
        drag: drag per length along.
        pieces: number of pieces.
        nodes: number of nodes on each piece, by which the drag is integrated; this converges exponentially.
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless all numbers are positive, and for a shape that has not as many numbers as pieces.

    Example:
        Two arcs of a quarter of a circle, opposite to each other: an S, whose ends have the same heading.

        >>> body = gd.swimmers.ConstantCurvature(length=2.0, pieces=2)
        >>> ends = body.centreline(jnp.array([jnp.pi, -jnp.pi]), np.array([0.0, 1.0]))
        >>> print(ends.round(6))
        [[-0.63662  0.63662 -1.570796]
         [ 0.63662 -0.63662 -1.570796]]

    Source:
        Webster & Jones, *Int. J. Robot. Res.* 29 (2010) 1661; Gray & Hancock, *J. Exp. Biol.* 32 (1955) 802.
    """

    length: Number = eqx.field(default=1.0, converter=floating)
    drag_ratio: Number = eqx.field(default=2.0, converter=floating)
    drag: Number = eqx.field(default=1.0, converter=floating)
    pieces: Count = eqx.field(static=True, default=2)
    nodes: Count = eqx.field(static=True, default=8)
    group: SE2 = SE2()

    @property
    def shape_names(self) -> tuple[str, ...]:
        """The bends of the pieces."""
        return tuple(f"bend of piece {i + 1} (rad)" for i in range(self.pieces))

    def __check_init__(self):
        numbers = {"length": self.length, "drag_ratio": self.drag_ratio, "drag": self.drag}
        require_positive("ConstantCurvature", **numbers, pieces=self.pieces, nodes=self.nodes)

    @checked
    def centreline(self, r: Float[Array, " m"], s: Float[np.ndarray, " S"]) -> Float[Array, "S 3"]:
        """Positions and headings (x, y, angle) of the points s in [0, 1] of the body, in its frame."""
        require_shape("ConstantCurvature", "the shape r", r, (int(self.pieces),))
        starts = self._starts(r)
        middle = self._points(r, starts, np.array([0.5]))[0]
        return seen_from(middle, self._points(r, starts, s))

    def _starts(self, r: Float[Array, " m"]) -> Float[Array, "m 3"]:
        """Position and heading of the beginning of each piece, seen from the tail."""
        turns = r / self.pieces
        # What all earlier pieces turn, and in the same way how far they lead.
        angles = jnp.cumsum(turns) - turns
        steps = self._chord(r, jnp.full_like(r, 1 / self.pieces), angles)
        places = jnp.cumsum(steps, axis=0) - steps
        return jnp.concatenate([places, angles[:, None]], axis=1)

    def _points(
        self, r: Float[Array, " m"], starts: Float[Array, "m 3"], s: Float[np.ndarray, " S"]
    ) -> Float[Array, "S 3"]:
        """Position and heading of points of the body, seen from the tail."""
        # The head, s = 1, is the end of the last piece.
        piece = np.minimum((s * self.pieces).astype(int), self.pieces - 1)
        along = jnp.asarray(s - piece / self.pieces, r.dtype)
        start = starts[piece]
        bend = r[piece]
        places = start[:, :2] + self._chord(bend, along, start[:, 2])
        headings = start[:, 2] + bend * along
        return jnp.concatenate([places, headings[:, None]], axis=1)

    def _chord(
        self, bend: Float[Array, " S"], along: Float[Array, " S"], angle: Float[Array, " S"]
    ) -> Float[Array, "S 2"]:
        """The chords of arcs with so much bend over the length of the body, which begin at these headings."""
        # An arc of the length ℓ that turns by 2h has a chord of ℓ sin(h)/h, at the angle h to its beginning.
        half = bend * along / 2
        size = self.length * along * jax.vmap(sine_ratio)(half**2)
        return size[:, None] * jnp.stack([jnp.cos(angle + half), jnp.sin(angle + half)], axis=1)

    def quadrature(self):
        nodes, weights = _gauss(self.nodes)
        starts = np.arange(self.pieces)[:, None]
        of_all_pieces = (starts + nodes) / self.pieces
        return of_all_pieces.ravel(), np.tile(weights / self.pieces, self.pieces)


def _turn_of(sharpness: int) -> float:
    """The factor by which half a wave of cosⁿ turns as much as one of cos: 1 / ∫₀^{π/2} cosⁿ, by Wallis's product."""
    even = np.arange(2, sharpness, 2)
    return float(np.prod((even + 1) / even))


def _centreline_of(length: Number, bend: Float[Array, " n"], s: np.ndarray) -> Float[Array, "S 3"]:
    """Positions and headings of the points s of a body, seen from its middle, from its curvature times its length at
    as many nodes of Gauss and Legendre as `bend` has."""
    count = bend.size
    nodes, _ = _gauss(count)
    to_nodes = jnp.asarray(_integrals_from_middle(count, tuple(nodes)), bend.dtype)
    to_points = jnp.asarray(_integrals_from_middle(count, tuple(s)), bend.dtype)
    # The heading is the integral of the curvature, and the place that of the unit vector with this heading.
    angle = to_nodes @ bend
    place = length * to_points @ jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    heading = to_points @ bend
    return jnp.concatenate([place, heading[:, None]], axis=1)


@functools.cache
def _gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre nodes and weights of [0, 1]."""
    nodes, weights = legendre.leggauss(count)
    return (1 + nodes) / 2, weights / 2


@functools.cache
def _integrals_from_middle(count: int, s: tuple[float, ...]) -> np.ndarray:
    """The matrix of `∫_{1/2}^s f` from the values of f at the nodes, exact for polynomials up to degree count − 1."""
    nodes, _ = _gauss(count)
    # On [−1, 1], where ds = dx/2: the integrals of the Legendre polynomials P_k, k < count.
    x = 2 * np.array(s) - 1
    integrals = np.stack([legendre.legval(x, legendre.legint(p, lbnd=0)) for p in np.eye(count)], axis=1) / 2
    to_coefficients = np.linalg.inv(legendre.legvander(2 * nodes - 1, count - 1))
    return integrals @ to_coefficients
