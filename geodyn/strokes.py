"""Strokes beside FourierStroke, strokes made of others, and how searches for the best one end."""

from geodyn._control.families.families import ENDS
from geodyn._control.problem.minimise import OUTCOMES
from geodyn._control.problem.optimum import load_stroke
from geodyn._control.problem.wong import WongSystem
from geodyn._locomotion.motion.retiming import by_arclength, join, reverse, segment, shift
from geodyn._locomotion.strokes.pieces import PolygonStroke, SplineStroke
from geodyn._locomotion.strokes.stroke import LegendreStroke, OpenStroke, check_closed

__all__ = [
    "ENDS",
    "OUTCOMES",
    "LegendreStroke",
    "OpenStroke",
    "PolygonStroke",
    "SplineStroke",
    "WongSystem",
    "by_arclength",
    "check_closed",
    "join",
    "load_stroke",
    "reverse",
    "segment",
    "shift",
]
