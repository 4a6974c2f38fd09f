"""MOTION: locomotion by changes of shape, due to drag, inertia or constraints."""
