"""Pictures. Each function takes a matplotlib Axes (or makes one) and returns it.

A trajectory in space: `trajectory`, `path`, `body`, `animate`, `player`. Numbers against time: `coordinates`,
`separation`, `energy`, `multipliers`, `constraints`, `drift`, `comparison`. Swimmers: `curvature`, `stroke`, `swimmer`.
matplotlib is imported where it is used, so that nothing else of geodyn needs it.
"""

from geodyn.plot.animation import animate
from geodyn.plot.bodies import body, path, projection, trajectory
from geodyn.plot.curves import comparison, constraints, coordinates, drift, energy, multipliers, separation
from geodyn.plot.player import Player, player
from geodyn.plot.strokes import curvature, stroke, swimmer
from geodyn.plot.style import COLOURS, figure

__all__ = [
    "COLOURS",
    "Player",
    "animate",
    "body",
    "comparison",
    "constraints",
    "coordinates",
    "curvature",
    "drift",
    "energy",
    "figure",
    "multipliers",
    "path",
    "player",
    "projection",
    "separation",
    "stroke",
    "swimmer",
    "trajectory",
]
