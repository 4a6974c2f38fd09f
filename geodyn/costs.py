"""What a stroke costs: densities for `gd.cost` and `gd.optimal_stroke`."""

from geodyn._locomotion.motion.costs import (
    PeakRate,
    covariant_acceleration,
    energy,
    inertial_torque,
    length,
    torque,
)

__all__ = ["PeakRate", "covariant_acceleration", "energy", "inertial_torque", "length", "torque"]
