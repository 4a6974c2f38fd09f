"""Spaces with a closed form, and their charts."""
