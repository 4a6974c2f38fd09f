"""Ways to step through time beside Gauss and RadauIIA, and what a method of one's own is."""

from geodyn._integrators.contract.tableau import ButcherTableau
from geodyn._integrators.step.methods import AbstractMethod, AbstractStepper, Advanced, Collocation
from geodyn._integrators.steppers.baselines import Adaptive, Newmark, StormerVerlet
from geodyn._integrators.steppers.moreau import Moreau
from geodyn._mechanics.constrained.constraint_forces import ConstraintForces

__all__ = [
    "AbstractMethod",
    "AbstractStepper",
    "Adaptive",
    "Advanced",
    "ButcherTableau",
    "Collocation",
    "ConstraintForces",
    "Moreau",
    "Newmark",
    "StormerVerlet",
]
