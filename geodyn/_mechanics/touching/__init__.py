"""Bodies with an extent in any space: what touches is near a geodesic, and not only a point."""
