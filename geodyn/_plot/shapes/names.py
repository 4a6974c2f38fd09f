"""What the variables of a shape and the coordinates of a pose are called on the axes of pictures."""

from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._locomotion.connections.locomotion import AbstractLocomotion


def shape_names(swimmer: AbstractLocomotion | None, count: int) -> list[str]:
    """The names of the variables of a shape: those that the body gives as `shape_names`, else r₁, r₂, …"""
    names = getattr(swimmer, "shape_names", None) or ()
    return list(names) if len(names) == count else [f"$r_{{{i + 1}}}$" for i in range(count)]


def pose_names(group: AbstractLieGroup) -> list[str]:
    """The names of the coordinates of a pose: translations x, y, z, then rotations θ."""
    turns = group.dim - group.translations
    shifts = ["x", "y", "z"][: group.translations] if group.translations <= 3 else []
    shifts = shifts or [f"x{i + 1}" for i in range(group.translations)]
    return shifts + (["θ"] if turns == 1 else [f"θ{i + 1}" for i in range(turns)])
