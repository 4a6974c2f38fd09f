"""Strokes beside FourierStroke, strokes made of others, and how searches for the best one end."""

from geodyn.control.families.families import ENDS
from geodyn.control.problem.minimise import OUTCOMES
from geodyn.control.problem.optimum import load_stroke
from geodyn.locomotion.motion.retiming import by_arclength, join, reverse, segment, shift
from geodyn.locomotion.strokes.pieces import PolygonStroke, SplineStroke
from geodyn.locomotion.strokes.stroke import LegendreStroke, OpenStroke, check_closed

__all__ = [
    "ENDS",
    "OUTCOMES",
    "LegendreStroke",
    "OpenStroke",
    "PolygonStroke",
    "SplineStroke",
    "by_arclength",
    "check_closed",
    "join",
    "load_stroke",
    "reverse",
    "segment",
    "shift",
]
