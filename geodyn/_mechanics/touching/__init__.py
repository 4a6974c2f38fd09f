"""Bodies with an extent that touch: near a geodesic in any space, hulls of points in constant curvature."""
