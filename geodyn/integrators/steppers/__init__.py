"""Methods that are no collocation: Moreau's for contacts with friction, and baselines to compare with."""
