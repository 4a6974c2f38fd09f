"""Plots with matplotlib. Each function takes an Axes (or makes one) and returns it.

A trajectory in space: `trajectory`, `path`, `body`, `animate`, `player`. Numbers against time: `coordinates`,
`separation`, `energy`, `multipliers`, `constraints`, `drift`, `comparison`. Many members: `fan`, `heatmap`.
Force against displacement: `hysteresis`.
Shape space: `curvature`, `connection`, `shape_metric`, `stroke`, `family`. Swimmers: `swimmer`, `swim`, `wake`,
`displacement`; `check_swimmer` checks whether a swimmer can be drawn.
Rigid bodies: `poinsot`, `attitudes`, `angular_velocity`. Linkages: `linkage`, `on_sphere`.
matplotlib is imported inside of these functions, so that the rest of geodyn does not need it.
"""

from geodyn.plot.animation import animate
from geodyn.plot.bodies import body, path, projection, trajectory
from geodyn.plot.curves import (
    comparison,
    constraints,
    coordinates,
    drift,
    energy,
    fan,
    heatmap,
    hysteresis,
    multipliers,
    separation,
)
from geodyn.plot.linkages import linkage, on_sphere
from geodyn.plot.player import Player, player
from geodyn.plot.rigid import angular_velocity, attitudes, poinsot
from geodyn.plot.strokes import connection, curvature, family, shape_metric, stroke
from geodyn.plot.style import COLOURS, figure
from geodyn.plot.swimmers import check_swimmer, displacement, swim, swimmer, wake

__all__ = [
    "COLOURS",
    "Player",
    "angular_velocity",
    "animate",
    "attitudes",
    "body",
    "check_swimmer",
    "comparison",
    "connection",
    "constraints",
    "coordinates",
    "curvature",
    "displacement",
    "drift",
    "energy",
    "family",
    "fan",
    "figure",
    "heatmap",
    "hysteresis",
    "linkage",
    "multipliers",
    "on_sphere",
    "path",
    "player",
    "poinsot",
    "projection",
    "separation",
    "shape_metric",
    "stroke",
    "swim",
    "swimmer",
    "trajectory",
    "wake",
]
