"""MOTION: how a change of shape moves a body: by drag, by inertia, by constraints."""
