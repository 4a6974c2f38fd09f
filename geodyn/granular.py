"""Sand: what resists bodies that move in it or on it, by the direction in which they move."""

from geodyn._locomotion.swimmers.granular import StressTable, read_stresses, surface_of_beads
from geodyn._mechanics.dissipative.intruders import BodyPlate, Plates, PointPlate
from geodyn._mechanics.dissipative.sand import (
    GENERIC,
    LOOSE_POPPY_SEEDS,
    PACKED_POPPY_SEEDS,
    PlateForce,
    SandBed,
)

__all__ = [
    "GENERIC",
    "LOOSE_POPPY_SEEDS",
    "PACKED_POPPY_SEEDS",
    "BodyPlate",
    "PlateForce",
    "Plates",
    "PointPlate",
    "SandBed",
    "StressTable",
    "read_stresses",
    "surface_of_beads",
]
