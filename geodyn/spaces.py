"""Spaces with a name, spaces made of others, and what a space of one's own may be."""

from geodyn.geometry.derived.patches import Atlas
from geodyn.geometry.derived.surrogate import Tabulated
from geodyn.geometry.models.spaces import (
    AbstractConstantCurvature,
    AbstractModelSpace,
    Conformal,
    Embedded,
    Euclidean,
    Hyperbolic,
    Inhomogeneous,
    Product,
    Sphere,
)

__all__ = [
    "AbstractConstantCurvature",
    "AbstractModelSpace",
    "Atlas",
    "Conformal",
    "Embedded",
    "Euclidean",
    "Hyperbolic",
    "Inhomogeneous",
    "Product",
    "Sphere",
    "Tabulated",
]
