"""MOTION: the law by which a change of shape moves a body, in general: `g⁻¹ g' = ξ(r, r')`."""

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx

from geodyn._foundations.typing import Array, Float, Number
from geodyn._geometry.groups.lie_group import AbstractLieGroup


class AbstractLocomotion(eqx.Module):
    """A body that moves because its shape changes: a group, and the velocity `ξ = g⁻¹ g'` of the body for a shape r[m]
    and its rate r'[m].

    Two kinds are subclassed. `gd.AbstractConnection` has a velocity that is linear in r'.
    `gd.bundles.AbstractForceBalance`
    has one that follows from a balance of any forces; there is no connection then, and no curvature.

    Both may say more of themselves, each by a class attribute or a property:

    - `shape_names`, a tuple of m names such as ("distance", "volume"), labels the axes of pictures;
    - `first_shape` [m], the shape around which a search for a best stroke begins if none is given;
    - `shape_region`, (lower[m], upper[m]), the box of shapes around which `gd.optimal_strokes` tries strokes;
    - `needs_bounds`, a text: why there is no best stroke without bounds or a base;
    - `towing_drag`, the force per speed with which `gd.efficiency` compares;
    - `depends_on_pace`, True where a stroke at another pace leads elsewhere, as none of a connection does.

    Example:
        What follows from the velocity alone serves both kinds, such as the way along a stroke.

        >>> bodies = gd.swimmers.Purcell(), gd.swimmers.PowerLawLinks()
        >>> stroke = gd.FourierStroke.circle(0.5)
        >>> print([gd.path(body, stroke, steps=8).shape for body in bodies])
        [(9, 3, 3), (9, 3, 3)]
    """

    depends_on_pace: ClassVar[bool] = False
    group: eqx.AbstractVar[AbstractLieGroup]

    @abstractmethod
    def velocity(self, r: Float[Array, " m"], rdot: Float[Array, " m"]) -> Float[Array, " k"]:
        """The velocity ξ of the body in its own frame, at the shape r and the rate r'."""

    @property
    def shape_count(self) -> int | None:
        """The number of shape variables: as many as `shape_names`; None where the class names none."""
        names = getattr(self, "shape_names", None)
        return len(names) if names else None

    @property
    def first_shape(self) -> Float[Array, " m"] | None:
        """The shape around which a search for a best stroke begins if none is given; None: it must be given."""
        return None

    @property
    def shape_region(self) -> tuple[Float[Array, " m"], Float[Array, " m"]] | None:
        """The corners (lower, upper) of the box of shapes around which a search from many starts tries strokes; None:
        it must be given."""
        return None

    @property
    def needs_bounds(self) -> str | None:
        """Why strokes have no optimum without bounds or a base; None: they may have one."""
        return None

    @property
    def towing_drag(self) -> Number | None:
        """The force per speed of towing the body, with which efficiencies compare; None: it must be given."""
        return None

    @property
    def _hint_if_it_stays(self) -> str | None:
        """What to ask instead where a stroke that shall displace the body was not found; None: nothing is known."""
        return None

    @property
    def _why_it_stays(self) -> str | None:
        """Why no stroke displaces the body without a turn, and what to ask instead, in view of its numbers, which are
        known; None: some stroke may."""
        return None
