"""Matrix Lie groups, whose elements are the poses of bodies."""
