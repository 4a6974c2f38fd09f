"""A metric and what follows from it: connection, curvature, integrability of distributions, quadrature."""
