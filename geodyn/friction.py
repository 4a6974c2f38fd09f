"""Dry friction, plasticity, and motions without inertia."""

from geodyn._mechanics.dissipative.dissipation import dissipated, quasi_static
from geodyn._mechanics.dissipative.incremental import IncrementalPotential
from geodyn._mechanics.elements.abstract import AbstractFriction, AbstractPlasticity
from geodyn._mechanics.elements.yielding import DryFriction, PlasticSpring

__all__ = [
    "AbstractFriction",
    "AbstractPlasticity",
    "DryFriction",
    "IncrementalPotential",
    "PlasticSpring",
    "dissipated",
    "quasi_static",
]
