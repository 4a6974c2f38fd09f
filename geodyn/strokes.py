"""Strokes beside FourierStroke, strokes made of others."""

from geodyn._control.families.maps import StrokeMap, StrokeSheet, load_map
from geodyn._control.plans.plan import load_plan
from geodyn._control.problem.optimum import load_stroke
from geodyn._control.problem.wong import WongSystem
from geodyn._locomotion.motion.along import principal_plane
from geodyn._locomotion.motion.retiming import by_arclength, join, reverse, segment, shift
from geodyn._locomotion.strokes.pieces import PolygonStroke, SequenceStroke, SplineStroke
from geodyn._locomotion.strokes.stroke import LegendreStroke, OpenStroke, check_closed

__all__ = [
    "LegendreStroke",
    "OpenStroke",
    "PolygonStroke",
    "SequenceStroke",
    "SplineStroke",
    "StrokeMap",
    "StrokeSheet",
    "WongSystem",
    "by_arclength",
    "check_closed",
    "join",
    "load_map",
    "load_plan",
    "load_stroke",
    "principal_plane",
    "reverse",
    "segment",
    "shift",
]
