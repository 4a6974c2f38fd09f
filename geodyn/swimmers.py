"""Bodies with a name. Each is a metric or a set of constraints; nothing else is written by hand."""

from geodyn._locomotion.swimmers.continuous import Serpenoid
from geodyn._locomotion.swimmers.curved_space import AbstractPointMasses, PointMasses, TwoLegged
from geodyn._locomotion.swimmers.free_bodies import Beanie, FallingCat, FloatingLinks, PendulumRaft, Satellite
from geodyn._locomotion.swimmers.links import Modes, NLink, Purcell, SymmetricPurcell
from geodyn._locomotion.swimmers.perfect_fluid import FluidLinks
from geodyn._locomotion.swimmers.spheres import PushMePullYou, ThreeSphere
from geodyn._locomotion.swimmers.wheeled import KinematicCar, KinematicSnake, RollingDisc

__all__ = [
    "AbstractPointMasses",
    "Beanie",
    "FallingCat",
    "FloatingLinks",
    "FluidLinks",
    "KinematicCar",
    "KinematicSnake",
    "Modes",
    "NLink",
    "PendulumRaft",
    "PointMasses",
    "Purcell",
    "PushMePullYou",
    "RollingDisc",
    "Satellite",
    "Serpenoid",
    "SymmetricPurcell",
    "ThreeSphere",
    "TwoLegged",
]
