"""PURPOSE: strokes that are best at something."""

from geodyn.control.descent import Descent
from geodyn.control.design import OptimalDesign, optimal_design
from geodyn.control.extremal import Wong
from geodyn.control.failure import StrokeError
from geodyn.control.families import ENDS, StrokeFamily, stroke_family
from geodyn.control.implicit import sensitivity
from geodyn.control.minimise import RESULTS, minimise
from geodyn.control.optimum import OptimalStroke, load_stroke
from geodyn.control.search import optimal_strokes
from geodyn.control.strokes import Direct, efficiency, optimal_stroke
from geodyn.control.wong import WongSystem

__all__ = [
    "ENDS",
    "RESULTS",
    "Descent",
    "Direct",
    "OptimalDesign",
    "OptimalStroke",
    "StrokeError",
    "StrokeFamily",
    "Wong",
    "WongSystem",
    "efficiency",
    "load_stroke",
    "minimise",
    "optimal_design",
    "optimal_stroke",
    "optimal_strokes",
    "sensitivity",
    "stroke_family",
]
