"""MOTION: a swimmer is its dissipation."""

from geodyn.locomotion import swimmers
from geodyn.locomotion.connection import (
    AbstractConnection,
    AbstractLinkSwimmer,
    AbstractSlenderSwimmer,
    AbstractSwimmer,
    connection,
    curvature,
    shape_metric,
)
from geodyn.locomotion.holonomy import cost, holonomy, path, power
from geodyn.locomotion.stroke import FourierStroke, LegendreStroke

__all__ = [
    "AbstractConnection",
    "AbstractLinkSwimmer",
    "AbstractSlenderSwimmer",
    "AbstractSwimmer",
    "FourierStroke",
    "LegendreStroke",
    "connection",
    "cost",
    "curvature",
    "holonomy",
    "path",
    "power",
    "shape_metric",
    "swimmers",
]
