"""Dry friction, plasticity, and motions that are driven or without inertia."""

from geodyn.mechanics.dissipative.dissipation import dissipated, quasi_static
from geodyn.mechanics.dissipative.incremental import IncrementalPotential
from geodyn.mechanics.elements.abstract import AbstractFriction, AbstractPlasticity
from geodyn.mechanics.elements.fields import PointLoad
from geodyn.mechanics.elements.springs import Driven
from geodyn.mechanics.elements.yielding import DryFriction, PlasticSpring

__all__ = [
    "AbstractFriction",
    "AbstractPlasticity",
    "Driven",
    "DryFriction",
    "IncrementalPotential",
    "PlasticSpring",
    "PointLoad",
    "dissipated",
    "quasi_static",
]
