"""MOTION: a swimmer is its dissipation."""

from geodyn.locomotion import costs, swimmers
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
from geodyn.locomotion.pieces import PolygonStroke, SplineStroke
from geodyn.locomotion.retiming import by_arclength, join, reverse, segment, shift
from geodyn.locomotion.stroke import FourierStroke, LegendreStroke, OpenStroke, check_closed

__all__ = [
    "AbstractConnection",
    "AbstractLinkSwimmer",
    "AbstractSlenderSwimmer",
    "AbstractSwimmer",
    "FourierStroke",
    "LegendreStroke",
    "OpenStroke",
    "PolygonStroke",
    "SplineStroke",
    "by_arclength",
    "check_closed",
    "connection",
    "cost",
    "costs",
    "curvature",
    "holonomy",
    "join",
    "path",
    "power",
    "reverse",
    "segment",
    "shape_metric",
    "shift",
    "swimmers",
]
