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
from geodyn.locomotion.consistency import check_connection
from geodyn.locomotion.coordinates import Reframed, minimum_perturbation
from geodyn.locomotion.dense import dense_path
from geodyn.locomotion.flux import flux
from geodyn.locomotion.holonomy import cost, holonomy, path, power
from geodyn.locomotion.kaluza_klein import Heading, KaluzaKlein
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
    "Heading",
    "KaluzaKlein",
    "LegendreStroke",
    "OpenStroke",
    "PolygonStroke",
    "Reframed",
    "SplineStroke",
    "by_arclength",
    "check_closed",
    "check_connection",
    "connection",
    "cost",
    "costs",
    "covariant_derivative",
    "curvature",
    "dense_path",
    "drifting_path",
    "flux",
    "holonomy",
    "join",
    "locked_inertia",
    "minimum_perturbation",
    "path",
    "power",
    "reverse",
    "segment",
    "shape_metric",
    "shift",
    "swimmers",
]
