"""Constraints of velocity, linkages, and the forces that hold constraints."""
