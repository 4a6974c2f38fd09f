"""Connections: what motion belongs to a change of shape."""
