"""Tabulated distances: the error they state, their limits, and motion with them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._geometry.derived import surrogate


class Wormhole(eqx.Module):
    throat: jax.Array

    def __call__(self, x):
        return jnp.diag(jnp.stack([jnp.ones_like(x[0]), self.throat**2 + x[0] ** 2]))


WORMHOLE, IH2 = gd.Manifold(Wormhole(jnp.array(1.5)), 2), gd.spaces.Inhomogeneous(2)
REACH = np.array([0.8, 0.6])


@pytest.fixture(scope="module")
def tables():
    """A numeric space with a symmetry, and one with closed distances, which judge."""
    return {
        "wormhole": gd.spaces.Tabulated(WORMHOLE, [-1, -np.inf], [1, np.inf], REACH, 1e-7),
        "IH2": gd.spaces.Tabulated(IH2, [-0.5, -0.6], [0.6, 0.5], REACH, 1e-7),
    }


def pairs(table, count=300):
    """Fresh pairs all over the table, the unbounded coordinate anywhere."""
    rng = np.random.default_rng(7)
    half = np.where(np.isinf(table.half), 10.0, np.array(table.half) / 1.02)
    middle = np.array(table.centre) + half * rng.uniform(-1, 1, (count, 2))
    d = rng.standard_normal((count, 2))
    d *= REACH * np.sqrt(rng.random((count, 1))) / np.linalg.norm(d, axis=1, keepdims=True)
    return middle - d / 2, middle + d / 2


@pytest.mark.long
@pytest.mark.parametrize("name", ["wormhole", "IH2"])
def test_the_stated_error_is_honest(tables, name):
    """Distances within the error stated, first and second derivatives of ½ dist² within 30 and 300 times that."""
    table = tables[name]
    assert 1e-12 < table.error <= 1e-7 and f"error={table.error}" in repr(table)
    derivatives = eqx.filter_jit(
        lambda space, x, y: jax.vmap(
            lambda x, y: (
                gd.distance(space, x, y),
                jax.grad(gd.squared_distance, (1, 2))(space, x, y),
                jax.hessian(gd.squared_distance, 2)(space, x, y),
            )
        )(x, y)
    )
    found, wanted = (derivatives(space, *map(jnp.asarray, pairs(table))) for space in (table, table.space))
    np.testing.assert_allclose(found[0], wanted[0], rtol=table.error)
    scale = float(jnp.max(jnp.abs(wanted[2])))
    np.testing.assert_allclose(np.array(found[1]), np.array(wanted[1]), atol=30 * table.error * scale)
    np.testing.assert_allclose(found[2], wanted[2], atol=300 * table.error * scale)


def test_smooth_where_points_coincide(tables):
    """There dist² and its slope are exactly zero and its second derivative is twice the metric, to the error."""
    table, x = tables["IH2"], jnp.array([0.3, -0.2])
    slope, curvature = eqx.filter_jit(
        lambda table, x: (
            jax.grad(gd.squared_distance, 2)(table, x, x),
            jax.hessian(gd.squared_distance, 2)(table, x, x),
        )
    )(table, x)
    np.testing.assert_array_equal(gd.distance(table, x, x), 0)
    np.testing.assert_array_equal(slope, 0)
    np.testing.assert_allclose(curvature, 2 * IH2.metric(x), rtol=10 * table.error, atol=10 * table.error)


def test_outside_is_nan_and_stops_an_integration(tables):
    """Beyond box or reach distance and slope are NaN; a spring that is pulled out there fails with a status."""
    table = tables["IH2"]
    inside, beyond = jnp.array([0.55, 0.45]), jnp.array([0.7, 0.45])
    assert jnp.isfinite(gd.distance(table, inside, inside + 0.04))
    for x, y in ((beyond, beyond), (-inside + 0.1, jnp.array([-0.45 + REACH[0] + 0.01, -0.35]))):
        with pytest.warns(UserWarning, match="no shortest geodesic"):
            assert jnp.isnan(gd.distance(table, x, y))
        assert jnp.all(jnp.isnan(jax.grad(gd.squared_distance, 1)(table, x, y)))
    system = gd.System(table, [1.0, 1.0], gd.Spring([(0, 1)], 1.0, 0.5))
    q0, v0 = jnp.array([[0.0, 0.2], [0.0, -0.2]]), jnp.array([[0.5, 0.0], [0.5, 0.0]])
    trajectory = gd.integrate(system, q0, v0, t1=4.0, steps=40, throw=False)
    assert trajectory.result != 0 and jnp.all(jnp.isnan(trajectory.q[-1]))


@pytest.mark.long
def test_a_spring_moves_as_with_the_closed_form(tables):
    """Ten steps in the table and with closed distances; energy is that of the polynomial, conserved to rounding."""
    table = tables["IH2"]
    q0, v0 = jnp.array([[0.0, 0.2], [0.0, -0.2]]), jnp.array([[0.2, 0.1], [0.2, -0.1]])

    def run(space):
        return gd.integrate(gd.System(space, [1.0, 2.0], gd.Spring([(0, 1)], 3.0, 0.5)), q0, v0, t1=1.0, steps=10)

    closed, tabled = run(IH2), run(table)
    np.testing.assert_allclose(tabled.q, closed.q, atol=10 * table.error)
    np.testing.assert_allclose(tabled.energy, tabled.energy[0], rtol=1e-8)
    assert (
        np.max(np.abs(tabled.energy - tabled.energy[0])) < 2 * np.max(np.abs(closed.energy - closed.energy[0])) + 1e-14
    )


@pytest.mark.parametrize(
    "given, message",
    [
        ({"lower": [-1]}, r"lower and upper must be \[2\]"),
        ({"lower": [1, 1]}, "lower must be below upper"),
        ({"lower": [-1, np.nan]}, "lower must be numbers, got .*nan"),
        ({"upper": [1, np.inf]}, "lower must be below upper"),
        ({"reach": 0.0}, "reach must be positive"),
        ({"reach": [1.0, np.inf]}, "reach must be finite"),
        ({"reach": [1.0, 1.0, 1.0]}, "reach one number or"),
        ({"tolerance": 0.0}, "tolerance must be between 0 and 1"),
        ({"tolerance": 2}, "tolerance must be between 0 and 1"),
        ({"lower": [-1, -np.inf], "upper": [1, np.inf]}, "the metric depends on coordinate 1"),
        ({"space": "IH2"}, "space must be a Manifold .*got 'IH2'"),
    ],
)
def test_bad_arguments_are_refused(given, message, as_users_run):
    good = {"space": IH2, "lower": [-1, -1], "upper": [1, 1], "reach": 0.5, "tolerance": 1e-4}
    with pytest.raises(ValueError, match=message):
        gd.spaces.Tabulated(**(good | given))


@pytest.mark.long
def test_where_no_table_can_be_made():
    """Beyond the chart's edge, where the tolerance is below rounding, and under a transformation."""
    disc = gd.spaces.Hyperbolic(2)
    with pytest.raises(ValueError, match="is not found"):
        gd.spaces.Tabulated(disc, [-0.9, -0.9], [0.9, 0.9], 0.5)
    with pytest.raises(ValueError, match="is not reached"):
        gd.spaces.Tabulated(disc, [-0.1, -0.1], [0.1, 0.1], 0.1, 1e-17)
    with pytest.raises(ValueError, match="outside of jit"):
        jax.grad(lambda throat: gd.spaces.Tabulated(gd.Manifold(Wormhole(throat), 2), [-1, -1], [1, 1], 0.5).error)(1.0)


def test_too_large_a_reach_is_refused_soon(monkeypatch):
    """A distance that is not found takes long. Few of them are looked for before one is reported."""
    asked = []

    def not_found(space, x, y, nodes):
        jax.debug.callback(asked.append, x)
        return jnp.nan * x[0]

    monkeypatch.setattr(surrogate, "squared_distance", not_found)
    with pytest.raises(ValueError, match="Take a smaller reach or box"):
        gd.spaces.Tabulated(IH2, [-1, -1], [1, 1], 12.0)
    jax.effects_barrier()
    assert 0 < len(asked) <= 64
