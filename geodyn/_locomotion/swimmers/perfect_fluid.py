"""MOTION: bodies in a perfect fluid, which swim by the momentum of the water that moves with them."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import jit
from geodyn._foundations.checks import returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Count, Float, Number, Numbers, Row, Scalar
from geodyn._geometry.groups.rigid import SE2
from geodyn._locomotion.connections.checks import one_if, require_positive, require_shape
from geodyn._locomotion.connections.connection import AbstractInvariantMetric, check_law
from geodyn._locomotion.connections.linkages import bars, chain, hinge_names, link_velocities, standing_waves
from geodyn._locomotion.connections.reshaped import Reshaped
from geodyn._locomotion.motion.mechanical import AbstractDeformableBody
from geodyn._locomotion.strokes.stroke import floating
from geodyn._locomotion.swimmers.panels import (
    LARGEST_DEFECT,
    Boundaries,
    added_mass,
    boundaries_of,
    crossing_themselves,
    inertias_of,
    overlapping,
)

CORNERS = 33
FEWEST_NODES = 8


class AbstractFluidLinks(AbstractDeformableBody):
    """Rigid links of any outline in a perfect fluid in the plane, which disturb each other through the water.

    The water has no friction, sheds no vortices and has none around the links: it moves only as they push it. Its
    kinetic energy, a quadratic form in the velocities of all links, follows from the boundaries of the links by an
    integral equation, which is solved at each shape. The error falls exponentially with the number of `nodes` on a
    boundary: three ellipses of the aspects 0.1 to 0.3 whose tips are a tenth of a length apart, bent by 1 and −0.6,
    have a connection with a relative error of 3e-5 with 16 nodes, 4e-7 with 24, 3e-8 with 32 and 2e-11 with 48.
    Narrower gaps, aspects below 0.05 and boundaries that are less smooth need more; twice as many show the error.

    A subclass has the fields `group` (`gd.groups.SE2()`), `density` of the fluid, `body_density`, one number or one per
    link, or None for the density of the fluid, and `nodes`, a static one. It defines `links(r) -> [L, 3]`, the
    place and heading (x, y, angle) of the frame of each link in the frame of the body, and `boundary(s) -> [L, 2]`, the
    point of the boundary of each link at the parameter s, from 0 to 2π, in the frame of the link. Boundaries are
    closed, smooth and do not cross themselves. A body of which links overlap, or are too close for so many nodes, has
    no connection at that shape. Any consistent units; masses are per unit of depth.

    Example:
        A drop-shaped body with a tail: its boundary is a Fourier series. A flapper with one hinge comes back to where
        it was after each stroke, unless it has an impulse.

        >>> class Flapper(gd.swimmers.AbstractFluidLinks):
        ...     group: gd.groups.SE2 = gd.groups.SE2()
        ...     density: float = 1.0
        ...     body_density: float | None = None
        ...     nodes: int = eqx.field(static=True, default=32)
        ...     def links(self, r):
        ...         tail = jnp.stack([-0.7 - 0.4 * jnp.cos(r[0]), -0.4 * jnp.sin(r[0]), r[0]])
        ...         return jnp.stack([jnp.zeros(3), tail])
        ...     def boundary(self, s):
        ...         drop = jnp.stack([0.6 * jnp.cos(s), (0.15 + 0.05 * jnp.cos(s)) * jnp.sin(s)])
        ...         return jnp.stack([drop, jnp.stack([0.3 * jnp.cos(s), 0.06 * jnp.sin(s)])])
        >>> flap = gd.FourierStroke([0.0], [[0.5]], [[0.0]])
        >>> still = gd.bundles.drifting_path(Flapper(), flap, [0.0, 0.0, 0.0], steps=16)[-1]
        >>> pushed = gd.bundles.drifting_path(Flapper(), flap, [0.2, 0.0, 0.0], steps=16)[-1]
        >>> print(bool(jnp.allclose(still, jnp.eye(3))), pushed[:2, 2].round(3))
        True [0.462 0.048]

    Source:
        Lamb, *Hydrodynamics* (1932), chapter 6; Kanso, Marsden, Rowley & Melli-Huber, *J. Nonlinear Sci.* 15 (2005)
        255; Kress, *Linear Integral Equations* (2014), section 12.2.
    """

    density: eqx.AbstractVar[Number]
    body_density: eqx.AbstractVar[Number | Float[Array, " L"] | None]
    nodes: eqx.AbstractVar[int]

    @abstractmethod
    def links(self, r: Float[Array, " m"]) -> Float[Array, "L 3"]:
        """Place and heading (x, y, angle) of the frame of each link in the frame of the body."""

    @abstractmethod
    def boundary(self, s: Scalar) -> Float[Array, "L 2"]:
        """The point of the boundary of each link at the parameter s, from 0 to 2π, in the frame of the link."""

    def kinetic_energy(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        return _energy_together(self, r, xi, rdot)

    @checked
    def outline(self, r: Float[Array, " m"]) -> Float[Array, "L points 2"]:
        """The boundaries of the links."""
        return _outline(self, r, 2 * self.nodes + 1)


@checked
class FluidLinks(AbstractDeformableBody):
    """A chain of ellipses in a perfect fluid, which starts from rest; its shape r is the hinge angles.

    Water moves with a body that moves, and has its share of the energy: more across a slender link than along it. So a
    chain swims without friction and without shedding vortices. Each ellipse moves as if it were alone in the plane, or
    with `interaction` in the water that all of them move, see `gd.swimmers.AbstractFluidLinks`. It is as long as its
    link, less the `gap` at both ends: the hinges are where links meet, and without gaps the ellipses would touch there
    and overlap as soon as they turn. How the chain moves after a push, `gd.bundles.drifting_path` says. The frame sits
    at the centre of the middle link, the left one of two, and along it. Angles in radians, else any consistent units;
    masses are per unit of depth.

    Args:
        lengths: of the links [L].
        aspect: width of an ellipse over its length, one number or one per link [L]. A fish has a wide link, and narrow
            ones as its tail.
        density: of the fluid, mass per area; positive.
        body_density: of the links, one number or one per link [L]; None: that of the fluid, so that they neither rise
            nor sink.
        interaction: whether the ellipses disturb each other.
        gap: distance from a hinge to the tips of the ellipses on both sides, less than half of each link; positive with
            `interaction`, such as a twentieth of a link.
        nodes: on each ellipse, at least 8, of the computation with `interaction`; slender ones and narrow gaps need
            more, and twice as many show the error.
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless all numbers are positive, and there are as many of each as links, or one; for a gap that is
            too large, or is zero with `interaction`; for fewer than 8 nodes.

    Example:
        The effective masses of a link along and across itself, and against turning: π b² and π a² of them are water.

        >>> fish = gd.swimmers.FluidLinks(aspect=0.1)
        >>> print(fish.inertias[0].round(6))
        [0.086394 0.863938 0.029013]
        >>> end = gd.holonomy(fish, gd.FourierStroke.circle(1.0))
        >>> print(fish.group.log(end).round(6) + 0.0)
        [-0.787769  0.237471  0.      ]

        With gaps the ellipses are shorter. Those that disturb each other have another connection.

        >>> alone = gd.swimmers.FluidLinks(gap=0.05)
        >>> together = gd.swimmers.FluidLinks(gap=0.05, interaction=True)
        >>> for fish in (alone, together):
        ...     print(gd.connection(fish, [0.4, -0.9])[0].round(4))
        [0.2191 0.2745]
        [0.2109 0.2636]

    Source:
        Lamb, *Hydrodynamics* (1932), sections 71 and 124; Kanso, Marsden, Rowley & Melli-Huber, *J. Nonlinear Sci.* 15
        (2005) 255; Hatton & Choset, *IEEE Trans. Robot.* 29 (2013) 615.
    """

    lengths: Float[Array, " L"] = eqx.field(default=(1.0, 1.0, 1.0), converter=floating)
    aspect: Number | Float[Array, " L"] = eqx.field(default=0.1, converter=floating)
    density: Number = eqx.field(default=1.0, converter=floating)
    body_density: Number | Float[Array, " L"] | None = eqx.field(
        default=None, converter=lambda x: None if x is None else floating(x)
    )
    interaction: bool = eqx.field(static=True, default=False)
    gap: Number = eqx.field(default=0.0, converter=floating)
    nodes: Count = eqx.field(static=True, default=32)
    group: SE2 = SE2()

    @property
    def shape_names(self) -> tuple[str, ...]:
        """The hinge angles."""
        return hinge_names(self.lengths)

    @property
    def first_shape(self) -> Float[Array, " m"]:
        """The straight shape, around which small strokes move the chain along itself: the curvature is not zero."""
        return jnp.asarray(np.zeros(self.lengths.shape[0] - 1))

    def __check_init__(self):
        require_positive("FluidLinks", lengths=self.lengths, aspect=self.aspect, density=self.density)
        require_shape("FluidLinks", "density", self.density, ())
        each = {"aspect": self.aspect}
        if self.body_density is not None:
            require_positive("FluidLinks", body_density=self.body_density)
            each["body_density"] = self.body_density
        for name, value in each.items():
            if jnp.ndim(value):
                require_shape("FluidLinks", name, value, (self.lengths.size,))
        self._check_gap()
        if self.nodes < FEWEST_NODES:
            raise ValueError(
                f"FluidLinks: nodes must be at least {FEWEST_NODES}, got {self.nodes}; 24 to 64 suit most."
            )

    def _check_gap(self) -> None:
        require_shape("FluidLinks", "gap", self.gap, ())
        if isinstance(self.gap, Tracer) or isinstance(self.lengths, Tracer):
            return
        gap = np.asarray(self.gap).item()
        most = np.min(self.lengths).item() / 2
        if self.interaction and not gap > 0:
            raise ValueError(
                f"FluidLinks: with interaction=True the ellipses must not touch at the hinges: gap must be positive,"
                f" such as {most / 10:.3g}, got {gap:g}."
            )
        if not 0 <= gap < most:
            raise ValueError(f"FluidLinks: gap must be from 0 to less than half of each link, {most:g}; got {gap:g}.")

    @property
    def inertias(self) -> Float[Array, "L 3"]:
        """The effective masses of each link alone along and across itself, and its effective moment of inertia."""
        a, b = self._half_axes
        own = self.density if self.body_density is None else self.body_density
        mass = jnp.pi * own * a * b
        along = mass + jnp.pi * self.density * b**2
        across = mass + jnp.pi * self.density * a**2
        turning = mass * (a**2 + b**2) / 4 + jnp.pi * self.density * (a**2 - b**2) ** 2 / 8
        return jnp.stack([along, across, turning], axis=1)

    @property
    def _half_axes(self) -> tuple[Float[Array, " L"], Float[Array, " L"]]:
        half = self.lengths / 2 - self.gap
        return half, self.aspect * half

    def links(self, r: Float[Array, " m"]) -> Float[Array, "L 3"]:
        return chain(self.lengths, r)

    def boundary(self, s: Scalar) -> Float[Array, "L 2"]:
        a, b = self._half_axes
        return jnp.stack([a * jnp.cos(s), b * jnp.sin(s)], axis=1)

    def kinetic_energy(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        if self.interaction:
            return _energy_together(self, r, xi, rdot)
        poses, rates = jax.jvp(self.links, (r,), (rdot,))
        return jnp.sum(self.inertias * link_velocities(poses, rates, xi) ** 2) / 2

    @checked
    def outline(self, r: Float[Array, " m"]) -> Float[Array, "L 33 2"]:
        """The ellipses."""
        return _outline(self, r, CORNERS)


def _energy_together(
    body: AbstractFluidLinks | FluidLinks, r: Float[Array, " m"], xi: Float[Array, "3"], rdot: Float[Array, " m"]
) -> Scalar:
    """The kinetic energy of links that disturb each other, and of their water."""
    poses, rates = jax.jvp(lambda r: _poses(body, r), (r,), (rdot,))
    velocities = link_velocities(poses, rates, xi)
    boundaries = _boundaries(body, r, poses.shape[0])
    water, defects = added_mass(boundaries, poses)
    possible = jnp.all(defects <= LARGEST_DEFECT)
    densities = body.density if body.body_density is None else body.body_density
    masses = jnp.broadcast_to(densities, poses.shape[:1])[:, None, None] * inertias_of(boundaries)
    own = jnp.einsum("la,lab,lb->", velocities, masses, velocities)
    moved = jnp.einsum("ia,iajb,jb->", velocities, water, velocities)
    return one_if(possible) * (own + body.density * moved) / 2


def _poses(body: AbstractFluidLinks | FluidLinks, r: Float[Array, " m"]) -> Float[Array, "L 3"]:
    name = f"{type(body).__name__}.links"
    poses = returned(name, body.links, r)
    if np.ndim(poses) != 2 or poses.shape[1] != 3:
        raise ValueError(f"{name} must return (x, y, angle) of each link, the shape (L, 3); got {np.shape(poses)}.")
    return poses


def _boundaries(body: AbstractFluidLinks | FluidLinks, r: Float[Array, " m"], count: int) -> Boundaries:
    """The boundaries of so many links, in the precision of the shape r."""
    name = f"{type(body).__name__}.boundary"

    def points(s: Scalar) -> Float[Array, "L 2"]:
        found = returned(name, body.boundary, s)
        if np.shape(found) != (count, 2):
            raise ValueError(f"{name} must return a point of each link, the shape {(count, 2)}; got {np.shape(found)}.")
        return found

    return boundaries_of(points, body.nodes, r)


def _outline(body: AbstractFluidLinks | FluidLinks, r: Float[Array, " m"], count: int) -> Float[Array, "L points 2"]:
    """So many points of each boundary, the last of which is the first again, in the frame of the body."""
    s = jnp.asarray(np.linspace(0, 2 * np.pi, count), r.dtype)
    return _place(body.links(r), jax.vmap(body.boundary, out_axes=1)(s))


def _place(poses: Float[Array, "L 3"], points: Float[Array, "L points 2"]) -> Float[Array, "L points 2"]:
    """The points, given in frames with these poses, in the frame of the body."""
    x, y, angle = poses[:, :, None].swapaxes(0, 1)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    ahead, aside = jnp.moveaxis(points, 2, 0)
    return jnp.stack([x + cos * ahead - sin * aside, y + sin * ahead + cos * aside], axis=2)


@check_law.register(AbstractFluidLinks)
@check_law.register(FluidLinks)
def _(body: AbstractFluidLinks | FluidLinks, r: Float[Array, " m"]):
    check_law.dispatch(AbstractInvariantMetric)(body, r)
    if isinstance(body, FluidLinks) and not body.interaction:
        return
    defects, overlap, crossing_itself = _diagnosis(body, r)
    name = type(body).__name__
    for i, defect in enumerate(np.diag(defects)):
        if crossing_itself[i]:
            raise ValueError(f"{name}: the boundary of link {i + 1} crosses itself: give a closed curve that does not.")
        if not defect <= LARGEST_DEFECT:
            raise ValueError(
                f"{name}: the boundary of link {i + 1} is not known well enough by {body.nodes} nodes: take more, such"
                f" as {2 * body.nodes}, or a wider link, or round its corners off."
            )
    for i, j in np.argwhere(overlap | ~(defects <= LARGEST_DEFECT)):
        links = f"{name}: at the shape {np.asarray(r)} links {min(i, j) + 1} and {max(i, j) + 1}"
        if overlap[i, j] or overlap[j, i]:
            raise ValueError(f"{links} overlap: keep to shapes where they do not (smaller angles), or widen the gap.")
        raise ValueError(
            f"{links} are too close for {body.nodes} nodes: take more, such as {2 * body.nodes}, or widen the gap."
        )


@jit
def _diagnosis(
    body: AbstractFluidLinks | FluidLinks, r: Float[Array, " m"]
) -> tuple[Float[Array, "L L"], Bool[Array, "L L"], Bool[Array, " L"]]:
    """The defects of the layers, which links overlap, and which boundaries cross themselves."""
    poses = body.links(r)
    boundaries = _boundaries(body, r, poses.shape[0])
    _, defects = added_mass(boundaries, poses)
    return defects, overlapping(boundaries, poses), crossing_themselves(boundaries)


class Combined(eqx.Module):
    """The hinge angles `matrix @ r`."""

    matrix: Float[Array, "h m"]

    def __init__(self, matrix: Numbers):
        self.matrix = floating(matrix, "matrix")

    def __call__(self, r: Float[Array, " m"]) -> Float[Array, " h"]:
        return self.matrix.astype(r.dtype) @ r


def _in_fluid(links: int, aspect: Number, matrix: np.ndarray, names: tuple[str, ...]) -> Reshaped:
    """A chain of equal ellipses of the total length 1 in a perfect fluid, driven by modes of its hinges."""
    chain = FluidLinks(lengths=np.full(links, 1 / links), aspect=aspect)
    return Reshaped(chain, Combined(matrix), names)


@checked
def fluid_waves(links: Count = 20, waves: Row = (1.0,), aspect: Number = 0.1) -> Reshaped:
    """A chain of equal ellipses in a perfect fluid on whose hinges waves stand, in two phases each; shape in radians.

    The hinges bend as those of `gd.swimmers.waving_links`, by cosine and sine modes of each number of waves. The length
    of the body is 1.

    Args:
        links: number of ellipses.
        waves: numbers of waves on the body, with two modes each.
        aspect: width of an ellipse over its length.

    Returns:
        The body, a `gd.bundles.Reshaped`.

    Example:
        >>> body = gd.swimmers.fluid_waves(links=6, waves=(1.0, 2.0))
        >>> print(gd.connection(body, [0.1, 0.2, 0.0, 0.1]).shape)
        (3, 4)
    """
    matrix = standing_waves("fluid_waves", links - 1, waves)
    return _in_fluid(int(links), aspect, matrix, tuple(f"mode {i + 1} (rad)" for i in range(matrix.shape[1])))


@checked
def fluid_arcs(links: Count = 21, pieces: Count = 2, aspect: Number = 0.1) -> Reshaped:
    """A chain of equal ellipses in a perfect fluid that bends evenly in each of its pieces; shape r[pieces] in radians.

    The bend of a piece is that of all its hinges together over its share of the body, as that of
    `gd.swimmers.ConstantCurvature`: hinges have the angle `r_i/(links − 1)`. The length of the body is 1.

    Args:
        links: number of ellipses; one more than a multiple of the pieces makes these alike.
        pieces: number of pieces.
        aspect: width of an ellipse over its length.

    Returns:
        The body, a `gd.bundles.Reshaped`.

    Raises:
        ValueError: for fewer hinges than pieces.

    Example:
        >>> body = gd.swimmers.fluid_arcs(links=7, pieces=3)
        >>> print(gd.connection(body, [1.0, 0.5, -1.0]).shape)
        (3, 3)

    Source:
        Webster & Jones, *Int. J. Robot. Res.* 29 (2010) 1661, for such bodies.
    """
    hinges = links - 1
    if hinges < pieces:
        raise ValueError(f"fluid_arcs: links must be more than pieces, got {links} and {pieces}.")
    piece = np.arange(hinges) * pieces // hinges
    matrix = (piece[:, None] == np.arange(pieces)) / hinges
    return _in_fluid(int(links), aspect, matrix, tuple(f"bend of piece {i + 1} (rad)" for i in range(pieces)))


@checked
def three_fluid_links(ellipses: Count = 10, aspect: Number = 0.1) -> Reshaped:
    """Three links in a perfect fluid, each a row of small ellipses; its shape r is the two hinge angles, in radians.

    The more ellipses, the nearer is the added mass along a link to that of a thin plate, and the one across it to that
    of a row of small bodies. The length of the body is 1.

    Args:
        ellipses: number on each link.
        aspect: width of an ellipse over its length.

    Returns:
        The body, a `gd.bundles.Reshaped`.

    Example:
        With one ellipse on each link it is the chain of three.

        >>> plain = gd.swimmers.FluidLinks(lengths=(1 / 3, 1 / 3, 1 / 3))
        >>> A, B = (gd.connection(body, [0.3, -0.6]) for body in (gd.swimmers.three_fluid_links(1), plain))
        >>> print(bool(jnp.allclose(A, B)))
        True
    """
    hinges = np.arange(1, 3 * ellipses)
    bends = hinges[:, None] == ellipses * np.array([1, 2])
    return _in_fluid(3 * ellipses, aspect, bends.astype(float), ("first hinge angle (rad)", "second hinge angle (rad)"))


@checked
def fish_tail(tail: Count = 20, head: Count = 10, aspect: Number = 0.1) -> Reshaped:
    """A fish in a perfect fluid: a stiff head and a tail that bends as a beam does, both of small ellipses; shape r[2].

    The shape is r = (the hinge between tail and head, the bend of the tail), in radians. The tail is a chain from its
    tip; its hinge i, at the part x = i/tail of its length, has the share `x − x²/3` of its bend, in units in which the
    shares add up to 1. So it bends little at its tip, and most where it is held. The length of the body is 1.

    Args:
        tail: number of ellipses of the tail, at least two.
        head: number of ellipses of the head.
        aspect: width of an ellipse over its length.

    Returns:
        The body, a `gd.bundles.Reshaped`.

    Raises:
        ValueError: for a tail of one ellipse, which cannot bend.

    Example:
        >>> fish = gd.swimmers.fish_tail(tail=4, head=2)
        >>> print(fish.shapes(jnp.array([0.5, 1.0])).round(3))
        [0.19  0.345 0.466 0.5   0.   ]
    """
    if tail < 2:
        raise ValueError(f"fish_tail: tail must be at least two ellipses, got {tail}.")
    x = np.arange(1, tail) / tail
    share = x - x**2 / 3
    matrix = np.zeros((tail + head - 1, 2))
    matrix[tail - 1, 0] = 1.0
    matrix[: tail - 1, 1] = share / np.sum(share)
    return _in_fluid(tail + head, aspect, matrix, ("hinge of the tail (rad)", "bend of the tail (rad)"))


@checked
def flapper(aspect: Number = 0.1) -> Reshaped:
    """Five equal ellipses in a perfect fluid that flap alike on both sides: a body with two wings of two links each.

    The shape is r = (the outer hinges, the inner hinges), in radians; the hinges of a pair have the same angle. The
    length of the body is 1.

    Args:
        aspect: width of an ellipse over its length.

    Returns:
        The body, a `gd.bundles.Reshaped`.

    Example:
        Its halves are mirror images, so that it moves across the middle link alone.

        >>> body, stroke = gd.swimmers.flapper(), gd.FourierStroke.circle(0.5, centre=(0.6, 0.6))
        >>> print(body.group.log(gd.holonomy(body, stroke)).round(4) + 0.0)
        [0.     0.0621 0.    ]
    """
    pairs = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    return _in_fluid(5, aspect, pairs, ("outer hinges (rad)", "inner hinges (rad)"))


@checked
class TapeMeasure(AbstractDeformableBody):
    """A head in a perfect fluid with two fins of steel tape, such as that of a tape measure, which folds at one point.

    Each tape begins at the head and ends behind it, at the distance L on the axis of the body; the head turns its
    beginning away from the axis by an angle α, a motor moves its end, and the tape folds where it has to: with the
    length C its pieces are `l₁ = (C² − L²) / (2 (C − L cos α))` and `C − l₁`. The shape is r = (α, L) with tapes that
    are mirror images, or (α₁, α₂, L), the left and the right one, unless `symmetric`; 0 < L < C, else connection and
    metric are NaN. A piece of a tape is a straight strip; water goes with it where it moves across itself, in
    proportion to its length. The frame sits at the head, along the axis. Angles in radians, else any consistent units.

    Args:
        tape: length of each tape, C.
        mass: of a tape, per length.
        water: mass per length that moves across with a tape, `π ρ w²/4` for the width w and the density ρ.
        head_mass: of the head and what moves with it.
        head_inertia: its moment of inertia.
        symmetric: whether the tapes are mirror images.
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless all numbers are positive, and for a shape of another size.

    Example:
        Symmetric tapes move the body along its axis alone.

        >>> body = gd.swimmers.TapeMeasure()
        >>> stroke = gd.FourierStroke.circle(0.15, centre=(0.6, 0.6))
        >>> print(body.group.log(gd.holonomy(body, stroke)).round(4) + 0.0)
        [0.0167 0.     0.    ]

    Source:
        Lamb, *Hydrodynamics* (1932), section 71, for a plate; `sysf_symmetricTapeMeasure` of sysplotter for the body.
    """

    tape: Number = eqx.field(default=1.0, converter=floating)
    mass: Number = eqx.field(default=0.001, converter=floating)
    water: Number = eqx.field(default=0.2, converter=floating)
    head_mass: Number = eqx.field(default=0.25, converter=floating)
    head_inertia: Number = eqx.field(default=1.0, converter=floating)
    symmetric: bool = eqx.field(static=True, default=True)
    group: SE2 = SE2()

    @property
    def shape_names(self) -> tuple[str, ...]:
        """The angles of the tapes, and the distance of their ends."""
        return ("angle (rad)", "length") if self.symmetric else ("left angle (rad)", "right angle (rad)", "length")

    def __check_init__(self):
        numbers = {"tape": self.tape, "mass": self.mass, "water": self.water}
        head = {"head_mass": self.head_mass, "head_inertia": self.head_inertia}
        require_positive("TapeMeasure", **numbers, **head)

    def links(self, r: Float[Array, " m"]) -> Float[Array, "4 3"]:
        """Middle and heading (x, y, angle) of each piece: of the left tape from the head, then of the right one."""
        left, right = self._folds(r)
        end = jnp.stack([r[-1], jnp.zeros_like(r[-1])])
        head = 0 * end
        pieces = [_piece(head, left), _piece(left, end), _piece(head, right), _piece(right, end)]
        return jnp.stack(pieces)

    def _lengths(self, r: Float[Array, " m"]) -> Float[Array, " 4"]:
        """The lengths of these pieces."""
        left, right = self._folds(r)
        first = jnp.stack([jnp.sqrt(left @ left), jnp.sqrt(right @ right)])
        return jnp.stack([first, self.tape - first], axis=1).ravel()

    def _folds(self, r: Float[Array, " m"]) -> Float[Array, "2 2"]:
        """The points at which the left and the right tape fold."""
        require_shape("TapeMeasure", "the shape r", r, (2 if self.symmetric else 3,))
        length = r[-1]
        right = r[0] if self.symmetric else r[1]
        angles = jnp.stack([r[0], -right])
        along = (self.tape**2 - length**2) / (2 * (self.tape - length * jnp.cos(angles)))
        along = jnp.where((length > 0) & (length < self.tape), along, jnp.nan)
        return along[:, None] * jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)

    def kinetic_energy(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        poses, rates = jax.jvp(self.links, (r,), (rdot,))
        lengths = self._lengths(r)
        across = self.mass + self.water
        inertias = jnp.stack([self.mass * lengths, across * lengths, across * lengths**3 / 12], axis=1)
        of_tapes = jnp.sum(inertias * link_velocities(poses, rates, xi) ** 2)
        of_head = self.head_mass * (xi[0] ** 2 + xi[1] ** 2) + self.head_inertia * xi[2] ** 2
        return (of_tapes + of_head) / 2

    @checked
    def outline(self, r: Float[Array, " m"]) -> Float[Array, "4 2 2"]:
        """The pieces of the tapes as line segments."""
        return bars(self.links(r), self._lengths(r))


def _piece(start: Float[Array, "2"], end: Float[Array, "2"]) -> Float[Array, "3"]:
    """The middle of a straight line and its heading."""
    middle = (start + end) / 2
    way = end - start
    heading: Scalar = jnp.arctan2(way[1], way[0])
    return jnp.concatenate([middle, heading[None]])
