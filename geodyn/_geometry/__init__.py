"""SPACE: spaces given by their metric, geodesics, and matrix Lie groups."""
