"""Spaces derived from others: atlases, tabulated distances, level sets."""
