"""Strokes: closed and open curves in the space of shapes."""
