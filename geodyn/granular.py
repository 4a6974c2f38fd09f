"""Sand: what resists bodies that move in it or on it, by the direction in which they move."""

from geodyn._locomotion.swimmers.granular import StressTable, read_stresses, surface_of_beads

__all__ = ["StressTable", "read_stresses", "surface_of_beads"]
