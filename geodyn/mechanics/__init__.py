"""MATTER: a body is its Lagrangian."""
