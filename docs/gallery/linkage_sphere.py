"""A sphere of linkages

Four rods in a row, pinned at both ends: their configurations are a sphere. Its Gaussian curvature follows from the
constraints alone.
"""

import jax

import geodyn as gd

jax.config.update("jax_enable_x64", True)

chain, q0 = gd.linkages.pinned_chain(4, span=3.0)
surface = gd.linkages.configuration_space(chain, q0)


def curvature(X):
    """Of the configurations, at the point of the unit sphere that stands for one of them."""
    return gd.surfaces.gaussian_curvature(surface, gd.linkages.four_rod_configuration(3.0, X).reshape(-1))


gd.plot.on_sphere(curvature, label="Gaussian curvature", detail=40).figure.savefig("linkage_sphere.png")
