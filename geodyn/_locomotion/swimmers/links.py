"""MOTION: swimmers of slender links under resistive-force theory."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Number, Numbers, Row, Scalar
from geodyn._geometry.groups.rigid import SE2, Translation
from geodyn._locomotion.connections.checks import require_positive, require_shape
from geodyn._locomotion.connections.connection import AbstractLinkSwimmer, AbstractSwimmer, slender_drags
from geodyn._locomotion.connections.linkages import chain, from_the_centre, hinge_names, standing_waves
from geodyn._locomotion.strokes.stroke import floating


@checked
class Purcell(AbstractLinkSwimmer):
    """Purcell's swimmer: three slender links and two hinges in the plane; its shape is r = (α₁, α₂) in radians.

    The frame of the body sits at the centre of the middle link, of heading θ; link 1, behind it, has the heading θ − α₁
    and link 3, ahead, θ + α₂. Drag follows resistive-force theory. Any consistent units. Differentiable with respect to
    all numbers.

    Args:
        lengths: of the three links [3].
        drag_ratio: drag across a link over that along it.
        drag: drag per length along a link.
        rotational_drag: c_r of the drag `c_r l³/12` against turning a link of length l; None: the drag per length
            across, as resistive-force theory has it.
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless there are three lengths and all numbers are positive.

    Example:
        Purcell's square stroke moves it without turning it.

        >>> swimmer = gd.swimmers.Purcell(lengths=(1.0, 1.0, 1.0), drag_ratio=2.0)
        >>> stroke = gd.strokes.PolygonStroke.square(0.5)
        >>> moved = swimmer.group.log(gd.holonomy(swimmer, stroke))
        >>> print(f"turned {abs(moved[2]):.6f}, moved {jnp.linalg.norm(moved[:2]):.6f}")
        turned 0.000000, moved 0.057397

    Source:
        Purcell, *Am. J. Phys.* 45 (1977) 3; Tam & Hosoi, *PRL* 98 (2007) 068105.
    """

    shape_names = ("first hinge angle (rad)", "second hinge angle (rad)")

    lengths: Float[Array, "3"] = eqx.field(default=(1.0, 1.0, 1.0), converter=floating)
    drag_ratio: Number = eqx.field(default=2.0, converter=floating)
    drag: Number = eqx.field(default=1.0, converter=floating)
    rotational_drag: Number | None = eqx.field(default=None, converter=lambda x: None if x is None else floating(x))
    group: SE2 = SE2()

    def __check_init__(self):
        if jnp.shape(self.lengths) != (3,):
            raise ValueError(f"Purcell: lengths must be three numbers, got shape {jnp.shape(self.lengths)}.")
        require_positive("Purcell", lengths=self.lengths, drag_ratio=self.drag_ratio, drag=self.drag)
        if self.rotational_drag is not None:
            require_positive("Purcell", rotational_drag=self.rotational_drag)

    def links(self, r: Float[Array, " m"]) -> Float[Array, "L 3"]:
        require_shape("Purcell", "the shape r", r, (2,))
        l1, l2, l3 = self.lengths / 2
        behind, ahead = -r[0], r[1]
        zero = jnp.zeros_like(ahead)
        first = jnp.stack([-l2 - l1 * jnp.cos(behind), -l1 * jnp.sin(behind), behind])
        last = jnp.stack([l2 + l3 * jnp.cos(ahead), l3 * jnp.sin(ahead), ahead])
        return jnp.stack([first, jnp.stack([zero, zero, zero]), last])

    def drags(self):
        normal = self.drag * self.drag_ratio
        rotational = normal if self.rotational_drag is None else self.rotational_drag
        return slender_drags(self.lengths, self.drag, normal, rotational)


@checked
class NLink(AbstractLinkSwimmer):
    """A swimmer of N slender links in a chain, from tail to head, in the plane; its shape r is the N − 1 hinge angles.

    Each hinge angle, in radians, is the turn from one link to the next. The frame of the body sits at the centre of the
    middle link, the left one of two; or at the centre of mass of all links, with their mean heading. For N = 3 this is
    `gd.swimmers.Purcell`. Drag follows resistive-force theory. Any consistent units.

    Args:
        lengths: of the links [N], at least two.
        drag_ratio: drag across a link over that along it.
        drag: drag per length along a link.
        centred: whether the frame sits at the centre of mass, if the links are as heavy as long, and has the mean of
            their headings, by mass.
        group: `gd.groups.SE2()`, the rigid motions of the plane.

    Raises:
        ValueError: unless there are at least two lengths and all numbers are positive.

    Example:
        >>> five = gd.swimmers.NLink([1.0] * 5)
        >>> three, purcell = gd.swimmers.NLink([1.0] * 3), gd.swimmers.Purcell()
        >>> same = jnp.allclose(gd.connection(three, [0.3, 0.5]), gd.connection(purcell, [0.3, 0.5]))
        >>> print(gd.shape_metric(five, jnp.zeros(4)).shape, bool(same))
        (4, 4) True

    Source:
        Gray & Hancock, *J. Exp. Biol.* 32 (1955) 802; Hatton & Choset, *Int. J. Robot. Res.* 30 (2011) 988, for the
        frame at the centre of mass.
    """

    lengths: Float[Array, " L"] = eqx.field(converter=floating)
    drag_ratio: Number = eqx.field(default=2.0, converter=floating)
    drag: Number = eqx.field(default=1.0, converter=floating)
    centred: bool = eqx.field(default=False, static=True)
    group: SE2 = SE2()

    @property
    def shape_names(self) -> tuple[str, ...]:
        """The hinge angles."""
        return hinge_names(self.lengths)

    def __check_init__(self):
        if len(jnp.shape(self.lengths)) != 1 or jnp.size(self.lengths) < 2:
            raise ValueError(f"NLink: lengths must be two numbers or more, got shape {jnp.shape(self.lengths)}.")
        require_positive("NLink", lengths=self.lengths, drag_ratio=self.drag_ratio, drag=self.drag)

    def links(self, r: Float[Array, " m"]) -> Float[Array, "L 3"]:
        poses = chain(self.lengths, r)
        return from_the_centre(poses, self.lengths) if self.centred else poses

    def drags(self):
        return slender_drags(self.lengths, self.drag, self.drag * self.drag_ratio, self.drag * self.drag_ratio)


class Modes(AbstractLinkSwimmer):
    """A swimmer of links whose hinges move together: the hinge angles are `rest + matrix @ r`, with a shape r of fewer
    variables.

    Args:
        base: the swimmer of links, with h hinges.
        matrix: [h, m], a column for each mode.
        rest: the hinge angles [h] at r = 0, in radians; None: straight.

    Raises:
        ValueError: for a base that is no swimmer of links, and for a matrix or rest that is not of real numbers in
            these shapes.

    Example:
        Four links that bend in two waves, as a short snake.

        >>> waves = jnp.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
        >>> snake = gd.swimmers.Modes(gd.swimmers.NLink([1.0] * 4), waves)
        >>> print(gd.connection(snake, [0.3, 0.2]).shape, gd.shape_metric(snake, [0.3, 0.2]).shape)
        (3, 2) (2, 2)
    """

    base: AbstractLinkSwimmer
    matrix: Float[Array, "h m"]
    rest: Float[Array, " h"]

    @checked
    def __init__(self, base: AbstractLinkSwimmer, matrix: Numbers, rest: Numbers | None = None):
        self.base, self.matrix = base, floating(matrix, "matrix")
        if self.matrix.ndim != 2:
            raise ValueError(f"Modes: matrix must be [h, m], a column for each mode, got shape {self.matrix.shape}.")
        self.rest = jnp.zeros(self.matrix.shape[0]) if rest is None else floating(rest, "rest")
        require_shape("Modes", "rest", self.rest, (self.matrix.shape[0],))
        try:
            jax.eval_shape(base.links, self.rest)
        except ValueError as error:
            raise ValueError(f"Modes: matrix, or rest, does not fit the links of base: {error}") from None

    @property
    def group(self) -> SE2:
        """That of the base."""
        return self.base.group

    @property
    def lengths(self) -> Float[Array, " L"]:
        """Those of the links of the base."""
        return self.base.lengths

    @property
    def shape_names(self) -> tuple[str, ...]:
        """The numbers of the modes."""
        return tuple(f"mode {i + 1}" for i in range(self.matrix.shape[1]))

    def links(self, r: Float[Array, " m"]) -> Float[Array, "L 3"]:
        require_shape("Modes", "the shape r", r, (self.matrix.shape[1],))
        return self.base.links(self.rest + self.matrix @ r)

    def drags(self):
        return self.base.drags()


@checked
def bowed_links(lengths: Row = (1.0, 1.0, 1.0), drag_ratio: Number = 2.0) -> Modes:
    """A slender chain that bends to a C and to an S: its hinges move in the two lowest modes; shape r[2] in radians.

    All hinges have the angle r₁; to it r₂ adds its whole at the first hinge, its opposite at the last, and evenly what
    is between. Any consistent unit of length.

    Args:
        lengths: of the links [L], at least three.
        drag_ratio: drag across a link over that along it.

    Returns:
        The swimmer, a `gd.swimmers.Modes`.

    Example:
        >>> body = gd.swimmers.bowed_links((1.0, 1.0, 1.0, 1.0))
        >>> print(body.matrix)
        [[ 1.  1.]
         [ 1.  0.]
         [ 1. -1.]]
    """
    hinges = np.size(lengths) - 1
    if hinges < 2:
        raise ValueError(f"bowed_links: lengths must be three or more, got {hinges + 1}.")
    return Modes(
        NLink(lengths=lengths, drag_ratio=drag_ratio),
        np.stack([np.ones(hinges), np.linspace(1.0, -1.0, hinges)], axis=1),
    )


@checked
def waving_links(lengths: Row = (1.0,) * 9, waves: float | int = 1.0, drag_ratio: Number = 2.0) -> Modes:
    """A slender chain on whose hinges a wave stands in two phases, cosine and sine; shape r[2] in radians.

    The angle of hinge i, of h, is `r₁ cos(2πw i/(h + 1)) + r₂ sin(2πw i/(h + 1))`, where w is the number of waves. With
    many links it is a `gd.swimmers.Serpenoid`. Any consistent unit of length.

    Args:
        lengths: of the links [L], at least three.
        waves: number of waves on the body.
        drag_ratio: drag across a link over that along it.

    Returns:
        The swimmer, a `gd.swimmers.Modes`.

    Example:
        A wave from head to tail moves it ahead.

        >>> body = gd.swimmers.waving_links()
        >>> wave = gd.strokes.reverse(gd.FourierStroke.circle(0.5))
        >>> print(f"{body.group.log(gd.holonomy(body, wave, steps=32))[0]:.3f}")
        1.047

    Source:
        Hirose, *Biologically Inspired Robots* (1993), chapter 2.
    """
    hinges = np.size(lengths) - 1
    if hinges < 2:
        raise ValueError(f"waving_links: lengths must be three or more, got {hinges + 1}.")
    return Modes(NLink(lengths=lengths, drag_ratio=drag_ratio), standing_waves("waving_links", hinges, [float(waves)]))


@checked
class SymmetricPurcell(AbstractSwimmer):
    """Purcell's swimmer made symmetric: a body with a pair of arms at each end, which swims along its axis.

    Its shape is r = (θ₁, θ₂) in radians: the arms of the tail and of the head make these angles with the axis outwards,
    both sides alike; at 0 they prolong the body. Drag follows resistive-force theory. Any consistent units.

    Args:
        arm: length of an arm.
        body: length of the body.
        drag_ratio: drag across over that along.
        drag: drag per length along.
        group: `gd.groups.Translation(1)`, the motions along the axis.

    Raises:
        ValueError: unless all numbers are positive.

    Example:
        Where both pairs of arms move alike it rests; a loop of shapes moves it.

        >>> swimmer = gd.swimmers.SymmetricPurcell()
        >>> moved = -gd.connection(swimmer, [1.0, 1.0]) @ jnp.array([1.0, 1.0])
        >>> stroke = gd.FourierStroke.circle(0.5, centre=(1.0, 1.0))
        >>> print((moved.round(6) + 0.0), swimmer.group.log(gd.holonomy(swimmer, stroke)).round(4))
        [0.] [-0.0701]

    Source:
        Avron & Raz, *New J. Phys.* 10 (2008) 063016.
    """

    shape_names = ("arms of the tail (rad)", "arms of the head (rad)")

    arm: Number = eqx.field(default=1.0, converter=floating)
    body: Number = eqx.field(default=1.0, converter=floating)
    drag_ratio: Number = eqx.field(default=2.0, converter=floating)
    drag: Number = eqx.field(default=1.0, converter=floating)
    group: Translation = Translation(1)

    def __check_init__(self):
        numbers = {"arm": self.arm, "body": self.body, "drag_ratio": self.drag_ratio, "drag": self.drag}
        require_positive("SymmetricPurcell", **numbers)

    def dissipation(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        require_shape("SymmetricPurcell", "the shape r", r, (2,))
        # Velocities along and across the arms of the tail and the head, at their middles; a tail arm points backwards.
        forward = jnp.stack([-xi[0], xi[0]])
        along, across = forward * jnp.cos(r), self.arm * rdot / 2 - forward * jnp.sin(r)
        arm: Scalar = self.arm
        c_t, c_n, c_r = slender_drags(arm[None], self.drag, self.drag * self.drag_ratio, self.drag * self.drag_ratio)[0]
        return self.drag * self.body * xi[0] ** 2 + 2 * jnp.sum(c_t * along**2 + c_n * across**2 + c_r * rdot**2)

    @checked
    def outline(self, r: Float[Array, "2"]) -> Float[Array, "5 2 2"]:
        """The body and the four arms."""
        half = jnp.stack([self.body / 2, 0 * self.body])
        tips = half[None] + self.arm * jnp.stack([jnp.cos(r), jnp.sin(r)], axis=1)
        tail, head = (jnp.stack([half, tip]) for tip in tips)
        up, back = np.array([1.0, -1.0]), np.array([-1.0, 1.0])
        return jnp.stack([jnp.stack([-half, half]), tail * back[None], -tail, head, head * up[None]])
