"""What may not come closer than zero: contacts of one's own, and the impacts of a motion."""

from geodyn._integrators.trajectory import Impacts
from geodyn._mechanics.elements.contact import AbstractContact, AbstractFrictionalContact
from geodyn._mechanics.elements.friction import painleve_number

__all__ = ["AbstractContact", "AbstractFrictionalContact", "Impacts", "painleve_number"]
