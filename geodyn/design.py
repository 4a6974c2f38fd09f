"""Bodies that are best at something, and how an optimum changes with the body."""

from geodyn._control.families.design import OptimalDesign, optimal_design
from geodyn._control.search.implicit import sensitivity

__all__ = ["OptimalDesign", "optimal_design", "sensitivity"]
