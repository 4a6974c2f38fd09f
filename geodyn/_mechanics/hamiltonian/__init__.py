"""Hamiltonian systems on phase space, and paths of least action."""
