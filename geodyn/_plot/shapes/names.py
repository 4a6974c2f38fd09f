"""What the variables of a shape and the coordinates of a pose are called on the axes of pictures."""

from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._locomotion.connections.locomotion import AbstractLocomotion


def shape_names(swimmer: AbstractLocomotion | None, count: int) -> list[str]:
    """The names of the variables of a shape: those that the body gives as `shape_names`, else r₁, r₂, …"""
    own = getattr(swimmer, "shape_names", None) or ()
    if len(own) == count:
        return list(own)
    return [f"$r_{{{i}}}$" for i in range(1, count + 1)]


def pose_names(group: AbstractLieGroup) -> list[str]:
    """The names of the coordinates of a pose: translations x, y, z, then rotations θ."""
    return _shift_names(group.translations) + _turn_names(group.dim - group.translations)


def _shift_names(count: int) -> list[str]:
    if count <= 3:
        return ["x", "y", "z"][:count]
    return [f"x{i}" for i in range(1, count + 1)]


def _turn_names(count: int) -> list[str]:
    if count == 1:
        return ["θ"]
    return [f"θ{i}" for i in range(1, count + 1)]
