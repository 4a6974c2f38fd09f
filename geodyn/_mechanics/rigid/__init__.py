"""Rigid bodies: inertia, joints, loads, contacts."""
