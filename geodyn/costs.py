"""What a stroke costs: densities for `gd.optimal_stroke`."""

from geodyn._locomotion.motion.costs import energy, length, torque

__all__ = ["energy", "length", "torque"]
