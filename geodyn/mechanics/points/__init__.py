"""Bodies of points in a space, and how they are built."""
