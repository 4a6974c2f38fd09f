"""Strokes: closed and open curves in shape space."""
