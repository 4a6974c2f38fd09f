"""What may not come closer than zero: contacts of one's own, and the impacts of a motion."""

from geodyn._integrators.trajectory import Impacts
from geodyn._mechanics.elements.contact import AbstractContact, AbstractFrictionalContact
from geodyn._mechanics.elements.friction import painleve_number
from geodyn._mechanics.touching.capsules import Capsules
from geodyn._mechanics.touching.hulls import Hulls
from geodyn._mechanics.touching.walls import CapsulesOnWall

__all__ = [
    "AbstractContact",
    "AbstractFrictionalContact",
    "Capsules",
    "CapsulesOnWall",
    "Hulls",
    "Impacts",
    "painleve_number",
]
