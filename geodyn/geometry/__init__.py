"""SPACE: a space is its metric, a group is its generators."""

from geodyn.geometry.manifold import AbstractManifold as AbstractManifold
from geodyn.geometry.manifold import Manifold as Manifold
