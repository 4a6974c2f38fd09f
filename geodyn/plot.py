"""Plots with matplotlib. Each function takes an Axes (or makes one) and returns it.

A trajectory in space: `trajectory`, `path`, `body`, `strain`, `animate`, `player`. Numbers against time: `coordinates`,
`separation`, `energy`, `multipliers`, `constraints`, `drift`, `comparison`. Many members: `fan`, `heatmap`.
Force against displacement: `hysteresis`.
Shape space: `height_functions`, `height_functions_along`, `curvature`, `connection`, `shape_metric`, `stroke`,
`family`, `stroke_map`. Swimmers: `swimmer`, `swim`, `wake`, `displacement`; `small_loops`, where there is no curvature;
`check_swimmer` checks whether a swimmer can be drawn. `Labels` names coordinates and units.
Rigid bodies: `poinsot`, `attitudes`, `angular_velocity`. Linkages: `linkage`, `on_sphere`.
matplotlib is imported inside of these functions, so that the rest of geodyn does not need it.
"""

from geodyn._plot.pages.encoding import Player
from geodyn._plot.pages.player import player
from geodyn._plot.shapes.maps import stroke_map
from geodyn._plot.shapes.slices import height_functions_along
from geodyn._plot.shapes.strokes import connection, curvature, family, height_functions, shape_metric, stroke
from geodyn._plot.shapes.swimmers import check_swimmer, displacement, small_loops, swim, swimmer, wake
from geodyn._plot.space.animation import animate
from geodyn._plot.space.bodies import body, path, projection, trajectory
from geodyn._plot.space.linkages import linkage, on_sphere
from geodyn._plot.space.rigid import angular_velocity, attitudes, poinsot
from geodyn._plot.space.strain import strain
from geodyn._plot.style import COLOURS, Labels, figure
from geodyn._plot.time.curves import comparison, coordinates, hysteresis, separation
from geodyn._plot.time.drift import constraints, drift, energy, multipliers
from geodyn._plot.time.members import fan, heatmap

__all__ = [
    "COLOURS",
    "Labels",
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
    "height_functions",
    "height_functions_along",
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
    "small_loops",
    "strain",
    "stroke",
    "stroke_map",
    "swim",
    "swimmer",
    "trajectory",
    "wake",
]
