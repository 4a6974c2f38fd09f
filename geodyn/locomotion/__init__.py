"""MOTION: how a change of shape moves a body: by drag, by inertia, by constraints."""

from geodyn.locomotion import costs, swimmers
from geodyn.locomotion.connection import (
    AbstractConnection,
    AbstractInvariantMetric,
    AbstractLinkSwimmer,
    AbstractSlenderSwimmer,
    AbstractSwimmer,
    connection,
    covariant_derivative,
    curvature,
    shape_metric,
)
from geodyn.locomotion.holonomy import cost, holonomy, path, power
from geodyn.locomotion.kinematic import AbstractKinematicBody
from geodyn.locomotion.mechanical import AbstractDeformableBody, drifting_path, locked_inertia
from geodyn.locomotion.pieces import PolygonStroke, SplineStroke
from geodyn.locomotion.retiming import by_arclength, join, reverse, segment, shift
from geodyn.locomotion.stroke import FourierStroke, LegendreStroke, OpenStroke, check_closed

__all__ = [
    "AbstractConnection",
    "AbstractDeformableBody",
    "AbstractInvariantMetric",
    "AbstractKinematicBody",
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
    "covariant_derivative",
    "curvature",
    "drifting_path",
    "holonomy",
    "join",
    "locked_inertia",
    "path",
    "power",
    "reverse",
    "segment",
    "shape_metric",
    "shift",
    "swimmers",
]
