"""Areas and volumes of geodesic simplices in spaces whose metric is all that is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd

POINTS = jnp.array([[0.3, 0.1, -0.2], [-0.4, 0.2, 0.1], [0.1, -0.5, 0.3], [0.2, 0.3, 0.6]])


def odd(x):
    """Another chart."""
    return x + 0.1 * jnp.sin(x[::-1]) + 0.05 * x**2


@pytest.mark.long
def test_areas_in_an_odd_chart():
    """Of H³, whose triangles have a closed form, and its derivatives: 1e-12; seen 1e-15."""
    x, space = 0.5 * POINTS[:3], gd.spaces.Hyperbolic(3)
    wanted = jax.value_and_grad(lambda x: gd.cells.area(space, *jax.vmap(odd)(x)))(x)
    found = jax.jit(jax.value_and_grad(lambda x: gd.cells.area(gd.spaces.Embedded(odd, space, 3), *x)))(x)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], wanted[1], atol=1e-12)


@pytest.mark.long
def test_long_edges_take_more_nodes():
    """Of S², a triangle of edges near 1.5, against the closed form: 1e-12; NaN with the nodes of short ones."""
    x, space = 1.2 * POINTS[:3, :2], gd.spaces.Sphere(2)
    there = gd.spaces.Embedded(odd, space, 2)
    with pytest.warns(UserWarning, match="more nodes"):
        assert np.isnan(gd.cells.area(there, *x))
    wanted = gd.cells.area(space, *jax.vmap(odd)(x))
    np.testing.assert_allclose(gd.cells.area(there, *x, nodes=16), wanted, rtol=1e-12)
    resists = gd.Area([(0, 1, 2)], stiffness=2.0, area=0.0, nodes=16)
    np.testing.assert_allclose(resists.energy(there, x), wanted**2, rtol=1e-12)


@pytest.mark.long
def test_volume_in_an_odd_chart():
    """Of S³: 1e-12."""
    x, space = 0.4 * POINTS, gd.spaces.Sphere(3)
    wanted = gd.cells.volume(space, *jax.vmap(odd)(x))
    np.testing.assert_allclose(gd.cells.volume(gd.spaces.Embedded(odd, space, 3), *x), wanted, rtol=1e-12)


@pytest.mark.long
def test_area_on_a_surface_of_revolution():
    """The excess of the angles of a triangle on a torus is the integral of its curvature (Gauss & Bonnet): small
    triangles of the size ε have area K⁻¹ excess + O(ε³), and a fan of three adds up to the whole, which edges bound."""
    space = gd.Manifold(lambda x: jnp.diag(jnp.stack([jnp.ones(()), (2.0 + jnp.cos(x[0])) ** 2])), 2)
    area, angle = (jax.jit(lambda *x, f=f: f(space, *x)) for f in (gd.cells.area, gd.cells.angle))
    x = jnp.array([[0.3, 0.1], [0.9, 0.2], [0.5, 0.5]])
    middle = jnp.array([0.55, 0.25])
    parts = [area(middle, x[i], x[(i + 1) % 3]) for i in range(3)]
    np.testing.assert_allclose(sum(parts), area(*x), rtol=1e-12)
    np.testing.assert_allclose(area(*x[jnp.array([1, 2, 0])]), area(*x), rtol=1e-12)
    small = middle[None] + 1e-2 * (x - middle[None])
    excess = sum(angle(*(small[(i + j) % 3] for j in range(3))) for i in range(3)) - np.pi
    centre = jnp.mean(small, axis=0)
    curvature = gd.scalar_curvature(space, centre) / 2
    np.testing.assert_allclose(excess / curvature, area(*small), rtol=1e-4)


def test_a_prism_in_a_product():
    """In S² × R a triangle that lies in S² × {z} has its area there."""
    x = 0.4 * POINTS[:3, :2]
    flat = jnp.concatenate([x, jnp.full((3, 1), 0.7)], axis=1)
    wanted = gd.cells.area(gd.spaces.Sphere(2), *x)
    np.testing.assert_allclose(
        gd.cells.area(gd.spaces.Product(gd.spaces.Sphere(2), gd.spaces.Euclidean(1)), *flat), wanted, rtol=1e-12
    )


def test_what_is_not_resolved_is_nan():
    """With a warning, outside of jit; too few dimensions, or a metric that is not positive, are errors."""
    flat = gd.Manifold(lambda x: jnp.eye(2), 2)
    with pytest.warns(UserWarning, match="more nodes: the default is nodes=12"):
        far = gd.cells.area(
            gd.Manifold(lambda x: (1 + jnp.sin(8 * x[0]) ** 2 / 2) * jnp.eye(2), 2), *(3 * POINTS[:3, :2])
        )
    assert np.isnan(far)
    with pytest.raises(ValueError, match=r"three or more dimensions, this one has 2: take gd\.cells\.area"):
        gd.cells.volume(flat, *POINTS[:, :2])
    with pytest.raises(ValueError, match="need a positive definite metric"):
        gd.cells.area(gd.Manifold(lambda x: jnp.diag(jnp.array([1.0, -1.0])), 2, signature=(1, 1)), *POINTS[:3, :2])


@pytest.mark.long
def test_a_flat_triangle_in_a_curved_space():
    """No area, with the derivative zero that is promised."""
    line = jnp.array([[-0.1, 0.0, 0.0], [0.0, 0.0, 0.0], [0.1, 0.0, 0.0]])
    value, slope = jax.jit(jax.value_and_grad(lambda x: gd.cells.area(gd.spaces.Inhomogeneous(3), *x)))(line)
    assert value == 0 and bool(jnp.all(slope == 0))
