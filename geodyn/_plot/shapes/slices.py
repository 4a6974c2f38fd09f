"""The curvature of bodies with many shape variables, on the plane of a stroke."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Index, Scalar
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._locomotion.connections.connection import AbstractConnection, check_law, form_of, law
from geodyn._locomotion.motion.along import minimum_perturbation_along, principal_plane
from geodyn._locomotion.strokes.stroke import Stroke, shapes_at
from geodyn._plot.shapes.strokes import height_functions
from geodyn._plot.style import INK

FRAMES = ("body", "minimum perturbation")
MARGIN = 0.3
"""What the picture shows around the stroke, relative to half of its width."""


class OnPlane(AbstractConnection):
    """A body whose shape moves in a plane: its two shape variables are the coordinates along the directions."""

    body: AbstractConnection
    centre: Float[Array, " m"]
    directions: Float[Array, "2 m"]
    group: AbstractLieGroup
    shape_names = ("first direction of the stroke", "second direction of the stroke")

    def __init__(self, body: AbstractConnection, centre: Float[Array, " m"], directions: Float[Array, "2 m"]):
        self.body = body
        self.centre = centre
        self.directions = directions
        self.group = body.group

    def shape(self, x: Float[Array, "2"]) -> Float[Array, " m"]:
        """The whole shape."""
        return self.centre + x @ self.directions

    def form(self, r: Float[Array, "2"]) -> Float[Array, "k 2"]:
        return form_of(self.body, self.shape(r)) @ self.directions.T


@law.register
def _(swimmer: OnPlane, r: Float[Array, "2"]):
    return law(swimmer.body, swimmer.shape(r))


@check_law.register
def _(swimmer: OnPlane, r: Float[Array, "2"]):
    check_law(swimmer.body, swimmer.shape(r))


@checked
def height_functions_along(
    swimmer: AbstractConnection, stroke: Stroke, figure: Any = None, *, frame: str = "body", degree: Index = 4
):
    """The height functions on the plane of a stroke, with the stroke on them, for any number of shape variables.

    The plane is `gd.strokes.principal_plane(stroke)`, and the two coordinates of the picture are those along its
    directions, from the mean shape. A stroke that leaves the plane casts its shadow there. What the stroke encloses in
    the picture is about minus where it leads, the more so in the frame "minimum perturbation", which is
    `gd.bundles.minimum_perturbation_along(swimmer, stroke, degree=degree)`.

    Args:
        swimmer: body with a connection.
        stroke: closed stroke, a function t -> r[m], t from 0 to 1.
        figure: a Figure or SubFigure; by default a new one.
        frame: "body" or "minimum perturbation".
        degree: of the polynomial of that frame.

    Returns:
        The Figure.

    Raises:
        ValueError: for another frame, and for a stroke that is not closed or goes to and fro on a line.

    Example:
        >>> swimmer, phases = gd.swimmers.NLink([1.0] * 6), 2 * jnp.pi * jnp.arange(5)[:, None] / 5
        >>> wave = gd.FourierStroke(jnp.zeros(5), 0.5 * jnp.cos(phases), 0.5 * jnp.sin(phases))
        >>> figure = gd.plot.height_functions_along(swimmer, wave)
        >>> [ax.get_xlabel() for ax in figure.axes[:2]]
        ['first direction of the stroke', 'first direction of the stroke']
    """
    if frame not in FRAMES:
        raise ValueError(f"frame must be one of {', '.join(map(repr, FRAMES))}; got {frame!r}")
    centre, directions = principal_plane(stroke)
    moving = minimum_perturbation_along(swimmer, stroke, degree=degree) if frame == FRAMES[1] else swimmer

    def shadow(t: Scalar) -> Float[Array, "2"]:
        return directions @ (stroke(t) - centre)

    seen = np.asarray(shapes_at(shadow, jnp.linspace(0.0, 1.0, 257)))
    reach = (1 + MARGIN) * np.abs(seen).max(axis=0)
    figure = height_functions(OnPlane(moving, centre, directions), -reach, reach, figure, stroke=shadow)
    figure.suptitle(f"curvature on the plane of the stroke, {frame} frame", fontsize="medium", color=INK)
    return figure
