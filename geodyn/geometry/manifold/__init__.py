"""A metric and what follows from it at a point: connection, curvature, frames."""
