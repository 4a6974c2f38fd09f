"""Areas, volumes and angles of a body's points, and elements that hold them."""

from geodyn._mechanics.elements.cells import RigidAngle, RigidArea, RigidVolume
from geodyn._mechanics.elements.simplices import angle, area, volume

__all__ = ["RigidAngle", "RigidArea", "RigidVolume", "angle", "area", "volume"]
