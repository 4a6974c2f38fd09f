"""Matrix Lie groups: how bodies stand and move."""
