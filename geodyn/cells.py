"""Areas, volumes, angles and strain of a body's points, and elements that hold them."""

from geodyn._mechanics.elements.cells import RigidAngle, RigidArea, RigidVolume
from geodyn._mechanics.elements.simplices import angle, area, volume
from geodyn._mechanics.elements.strain import strain, stretches

__all__ = ["RigidAngle", "RigidArea", "RigidVolume", "angle", "area", "strain", "stretches", "volume"]
