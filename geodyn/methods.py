"""Ways to step through time beside Gauss and RadauIIA, and what a method of one's own is."""

from geodyn.integrators.contract.tableau import ButcherTableau
from geodyn.integrators.step.methods import AbstractMethod, AbstractStepper, Advanced, Collocation
from geodyn.integrators.steppers.baselines import Adaptive, Newmark, StormerVerlet
from geodyn.integrators.steppers.moreau import Moreau

__all__ = [
    "AbstractMethod",
    "AbstractStepper",
    "Adaptive",
    "Advanced",
    "ButcherTableau",
    "Collocation",
    "Moreau",
    "Newmark",
    "StormerVerlet",
]
