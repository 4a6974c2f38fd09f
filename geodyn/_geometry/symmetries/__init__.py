"""Symmetries of any metric: its Killing fields, found from the metric alone, and the motions along them."""
