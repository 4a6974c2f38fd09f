"""Rods on pins, their configuration spaces, and what holds constraints."""

from geodyn.mechanics.constrained.configurations import configuration_space
from geodyn.mechanics.constrained.constraint_forces import ConstraintForces
from geodyn.mechanics.constrained.four_rods import four_rod_configuration, four_rod_point, pinned_chain
from geodyn.mechanics.constrained.linkage import Linkage, linkage

__all__ = [
    "ConstraintForces",
    "Linkage",
    "configuration_space",
    "four_rod_configuration",
    "four_rod_point",
    "linkage",
    "pinned_chain",
]
