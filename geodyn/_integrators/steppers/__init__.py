"""Methods other than collocation: Moreau's time stepping for contacts with friction, and methods for comparison."""
