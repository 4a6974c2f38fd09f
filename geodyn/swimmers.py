"""Bodies with a name. Each is a metric or a set of constraints; nothing else is written by hand."""

from geodyn._locomotion.swimmers.continuous import ConstantCurvature, Serpenoid, TriangleWave, polar_serpenoid
from geodyn._locomotion.swimmers.curved_space import AbstractPointMasses, PointMasses, TwoLegged
from geodyn._locomotion.swimmers.free_bodies import Beanie, FallingCat, FloatingLinks, PendulumRaft, Satellite
from geodyn._locomotion.swimmers.granular import GranularLinks
from geodyn._locomotion.swimmers.links import Modes, NLink, Purcell, SymmetricPurcell, bowed_links, waving_links
from geodyn._locomotion.swimmers.nonlinear_drag import AbstractResistedLinks, CarreauLinks, DryLinks, PowerLawLinks
from geodyn._locomotion.swimmers.passive import Passive, passive_links
from geodyn._locomotion.swimmers.perfect_fluid import (
    AbstractFluidLinks,
    FluidLinks,
    TapeMeasure,
    fish_tail,
    flapper,
    fluid_arcs,
    fluid_waves,
    three_fluid_links,
)
from geodyn._locomotion.swimmers.spheres import PushMePullYou, ThreeSphere
from geodyn._locomotion.swimmers.wheeled import DifferentialDrive, KinematicCar, KinematicSnake, RollingDisc

__all__ = [
    "AbstractFluidLinks",
    "AbstractPointMasses",
    "AbstractResistedLinks",
    "Beanie",
    "CarreauLinks",
    "ConstantCurvature",
    "DifferentialDrive",
    "DryLinks",
    "FallingCat",
    "FloatingLinks",
    "FluidLinks",
    "GranularLinks",
    "KinematicCar",
    "KinematicSnake",
    "Modes",
    "NLink",
    "Passive",
    "PendulumRaft",
    "PointMasses",
    "PowerLawLinks",
    "Purcell",
    "PushMePullYou",
    "RollingDisc",
    "Satellite",
    "Serpenoid",
    "SymmetricPurcell",
    "TapeMeasure",
    "ThreeSphere",
    "TriangleWave",
    "TwoLegged",
    "bowed_links",
    "fish_tail",
    "flapper",
    "fluid_arcs",
    "fluid_waves",
    "passive_links",
    "polar_serpenoid",
    "three_fluid_links",
    "waving_links",
]
