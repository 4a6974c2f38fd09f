"""Rods on pins, and their configuration spaces."""

from geodyn._mechanics.constrained.configurations import configuration_space
from geodyn._mechanics.constrained.four_rods import four_rod_configuration, four_rod_point, pinned_chain
from geodyn._mechanics.constrained.linkage import Linkage, linkage

__all__ = [
    "Linkage",
    "configuration_space",
    "four_rod_configuration",
    "four_rod_point",
    "linkage",
    "pinned_chain",
]
