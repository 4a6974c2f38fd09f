"""Connections: the motion of a body that a change of its shape causes."""
