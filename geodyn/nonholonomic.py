"""Rolling, blades and wheels: constraints of the velocity."""

from geodyn._geometry.manifold.distributions import bracket, integrability_defect
from geodyn._mechanics.constrained.nonholonomic import AbstractRollingBody, Car, Penny, Rolling, Sleigh
from geodyn._mechanics.constrained.quasi_velocities import QuasiVelocities
from geodyn._mechanics.elements.abstract import AbstractPfaffian

__all__ = [
    "AbstractPfaffian",
    "AbstractRollingBody",
    "Car",
    "Penny",
    "QuasiVelocities",
    "Rolling",
    "Sleigh",
    "bracket",
    "integrability_defect",
]
