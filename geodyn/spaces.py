"""Spaces with a name, spaces made of others, and what a space of one's own may be."""

from geodyn._geometry.derived.patches import Atlas
from geodyn._geometry.derived.surrogate import Tabulated
from geodyn._geometry.models.spaces import (
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
