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
from geodyn._geometry.models.thurston import SL2, THURSTON, Nil, Sol

__all__ = [
    "SL2",
    "THURSTON",
    "AbstractConstantCurvature",
    "AbstractModelSpace",
    "Atlas",
    "Conformal",
    "Embedded",
    "Euclidean",
    "Hyperbolic",
    "Inhomogeneous",
    "Nil",
    "Product",
    "Sol",
    "Sphere",
    "Tabulated",
]
