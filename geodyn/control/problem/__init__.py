"""The problem of the best stroke, its conditions, and what an optimum is."""
