"""Families of optimal strokes, and optimal designs of bodies."""
