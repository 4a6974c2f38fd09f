"""Geodesics that leave a point at an angle, beside spherical trigonometry."""

import jax
import jax.numpy as jnp
import numpy as np

import geodyn as gd
from geodyn._geometry.geodesics.rays import Fan, end_of_ray

COLATITUDE = 0.9


def sphere(radius) -> gd.Manifold:
    """In colatitude and longitude, known by its metric only."""
    return gd.Manifold(lambda x: radius**2 * jnp.diag(jnp.stack([jnp.ones_like(x[0]), jnp.sin(x[0]) ** 2])), 2)


def by_metric(radius, length, angle):
    """The first side points away from the pole, the second along the parallel."""
    sides = jnp.array([[1.0, 0.0], [0.0, 1 / np.sin(COLATITUDE)]]) / radius
    return end_of_ray(sphere(radius), Fan(jnp.array([COLATITUDE, 0.2]), sides), length, angle)


def by_trigonometry(radius, length, angle):
    """Todhunter, *Spherical Trigonometry* (1886), art. 37 and 44."""
    way = length / radius
    ahead = jnp.sin(way) * jnp.cos(angle)
    aside = jnp.sin(way) * jnp.sin(angle)
    height = np.cos(COLATITUDE) * jnp.cos(way) - np.sin(COLATITUDE) * ahead
    out = np.sin(COLATITUDE) * jnp.cos(way) + np.cos(COLATITUDE) * ahead
    return jnp.stack([jnp.arccos(height), 0.2 + jnp.arctan2(aside, out)])


def third_derivatives(function):
    """By the length and the angle; and the gradient of a second one, of the number in the metric too."""
    by_shape = jax.jacfwd(jax.jacfwd(jax.jacfwd(function, (1, 2)), (1, 2)), (1, 2))
    gradients = jax.jacfwd(jax.jacrev(function, (0, 1)), 2)
    return jax.jit(lambda *at: (by_shape(*at), gradients(*at)))


def test_third_derivatives_of_the_end_of_a_leg():
    at = tuple(map(jnp.asarray, (1.3, 0.8, 0.4)))
    np.testing.assert_allclose(by_metric(*at), by_trigonometry(*at), rtol=1e-13)
    found = jax.tree.leaves(third_derivatives(by_metric)(*at))
    wanted = jax.tree.leaves(third_derivatives(by_trigonometry)(*at))
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-11)


def test_a_leg_that_is_too_long_is_none():
    length, angle = jnp.asarray(60.0), jnp.asarray(0.4)
    assert np.all(np.isnan(by_metric(1.0, length, angle)))
