"""Loads that depend on time: forces on points, and points that are moved."""

from geodyn._mechanics.elements.fields import PointLoad
from geodyn._mechanics.elements.springs import Driven

__all__ = ["Driven", "PointLoad"]
