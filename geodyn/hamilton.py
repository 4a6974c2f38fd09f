"""Phase space: Hamiltonians, symmetries, and paths of least action."""

from geodyn._mechanics.hamiltonian.action import discrete_action
from geodyn._mechanics.hamiltonian.hamiltonian import (
    Hamiltonian,
    flow_derivative,
    hamiltonian_field,
    legendre,
    liouville_defect,
    noether_momentum,
    poisson_bracket,
    symmetry_defect,
    symplectic_defect,
)
from geodyn._mechanics.hamiltonian.least_action import ActionPath, least_action_path
from geodyn._mechanics.points.system import hamiltonian, killing_momentum

__all__ = [
    "ActionPath",
    "Hamiltonian",
    "discrete_action",
    "flow_derivative",
    "hamiltonian",
    "hamiltonian_field",
    "killing_momentum",
    "least_action_path",
    "legendre",
    "liouville_defect",
    "noether_momentum",
    "poisson_bracket",
    "symmetry_defect",
    "symplectic_defect",
]
