"""Lie groups: how bodies stand and move."""

from geodyn._geometry.groups.frame_group import FrameGroup
from geodyn._geometry.groups.homogeneous import Nil, Sol
from geodyn._geometry.groups.isometries import Isometries, act, isometry_group
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._geometry.groups.poses import place_and_turn, pose
from geodyn._geometry.groups.product import Product
from geodyn._geometry.groups.rigid import SE2, SE3, SO2, SO3, Translation, quaternion

__all__ = [
    "SE2",
    "SE3",
    "SO2",
    "SO3",
    "AbstractLieGroup",
    "FrameGroup",
    "Isometries",
    "Nil",
    "Product",
    "Sol",
    "Translation",
    "act",
    "isometry_group",
    "place_and_turn",
    "pose",
    "quaternion",
]
