"""Shortest paths between points, and what moves along them."""
