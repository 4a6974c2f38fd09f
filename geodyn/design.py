"""Bodies that are best at something, and how an optimum changes with the body."""

from geodyn.control.families.design import OptimalDesign, optimal_design
from geodyn.control.problem.wong import WongSystem
from geodyn.control.search.implicit import sensitivity

__all__ = ["OptimalDesign", "WongSystem", "optimal_design", "sensitivity"]
