"""Geodesics: from a point and a velocity, and between two points; distances, parallel transport, Jacobi fields."""
