"""Surfaces as level sets of a function, and how they bend."""

from geodyn._geometry.derived.level_set import (
    LevelSet,
    check_level_set,
    gaussian_curvature,
    second_fundamental_form,
    total_bending,
)
from geodyn._geometry.manifold.quadrature import sphere_quadrature

__all__ = [
    "LevelSet",
    "check_level_set",
    "gaussian_curvature",
    "second_fundamental_form",
    "sphere_quadrature",
    "total_bending",
]
