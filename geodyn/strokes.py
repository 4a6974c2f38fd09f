"""Strokes beside FourierStroke, and strokes made of others."""

from geodyn.control.problem.optimum import load_stroke
from geodyn.locomotion.motion.retiming import by_arclength, join, reverse, segment, shift
from geodyn.locomotion.strokes.pieces import PolygonStroke, SplineStroke
from geodyn.locomotion.strokes.stroke import LegendreStroke, OpenStroke, check_closed

__all__ = [
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
