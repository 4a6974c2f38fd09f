"""MATTER: mechanical systems, given by their Lagrangians."""
