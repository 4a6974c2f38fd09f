"""How the best stroke changes with the body: through the solver, by the envelope theorem, by central differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd


class Area(gd.AbstractSwimmer):
    """Cost |r'|², displacement the area that the shape goes round."""

    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        return jnp.sum(rdot**2) + (xi[0] + (r[1] * rdot[0] - r[0] * rdot[1]) / 2) ** 2


@pytest.mark.long
def test_where_bounds_are_felt():
    """The slope of the least energy through the solver is the multiplier, also where the stroke leans on walls, along
    which alone it can move: seen 5e-7, as stiff as the walls are. Were they not felt, it would be 27 % less."""
    wall = (-0.3, -2.0), (0.3, 2.0)

    def least(area):
        found = gd.optimal_stroke(
            Area(), (0.0, 0.0), displacement=area, bounds=wall, method=gd.Direct(harmonics=4, steps=24)
        )
        return found.cost, found

    slope, found = jax.grad(least, has_aux=True)(0.5)
    assert found.room < 1e-4
    np.testing.assert_allclose(slope, found.multiplier, rtol=1e-5)


class Mound(gd.AbstractSwimmer):
    """Displacement the integral of 1/(1 + |r|²)² over what the shape goes round, at most π; cost |r'|²."""

    stiffness: jax.Array = eqx.field(default=1.0, converter=jnp.asarray)
    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        return self.stiffness * rdot @ rdot + (xi[0] - (r[0] * rdot[1] - r[1] * rdot[0]) / (2 + 2 * r @ r)) ** 2


def found_on_the_mound(displacement, **options):
    """The best loop of the displacement D is the circle of the energy 4π² D/(π − D)."""
    method = gd.Direct(harmonics=2, steps=8, max_iterations=20)
    return gd.optimal_stroke(Mound(), (0.0, 0.0), displacement=displacement, method=method, **options)


def test_what_was_not_found_claims_nothing():
    """The energies and multipliers of members that failed were numbers."""
    found = jax.jit(jax.vmap(found_on_the_mound))(jnp.array([1.0, 4.0]))
    np.testing.assert_array_equal(found.result == gd.RESULTS.successful, [True, False])
    np.testing.assert_allclose(found.cost, [4 * np.pi**2 / (np.pi - 1), np.nan], rtol=1e-10)
    np.testing.assert_allclose(found.multiplier, [4 * np.pi**3 / (np.pi - 1) ** 2, np.nan], rtol=1e-9)
    assert jnp.isnan(found.charge[1]).all() and jnp.isnan(found.stroke.cosine[1]).all()
    assert jnp.isfinite(found.kkt_residual[1]) and jnp.isfinite(found.stroke.cosine[0]).all()


@pytest.mark.long
def test_what_failed_has_no_derivative():
    def cost_and_stroke(displacement):
        found = found_on_the_mound(displacement)
        return found.cost, found

    slope, found = jax.jit(jax.vmap(jax.grad(cost_and_stroke, has_aux=True)))(jnp.array([1.0, 4.0]))
    np.testing.assert_allclose(slope, [4 * np.pi**3 / (np.pi - 1) ** 2, np.nan], rtol=1e-9)
    assert found.second_order[0] > 0 and jnp.isnan(found.second_order[1]) and jnp.isnan(found.wong_residual[1])

    where_it_stood = jax.jit(lambda d: found_on_the_mound(d, throw=False))(4.0)
    assert jnp.isfinite(where_it_stood.stroke.cosine).all() and jnp.isnan(where_it_stood.cost)
    slopes = jax.jvp(lambda d: found_on_the_mound(d, throw=False).stroke.cosine, (4.0,), (1.0,))[1]
    assert jnp.isnan(slopes).all()
    with pytest.raises(gd.StrokeError):
        jax.grad(lambda d: found_on_the_mound(d).cost)(4.0)
    with pytest.raises(ValueError, match="sensitivity: optimum must be an optimal stroke, but its search failed"):
        gd.design.sensitivity(found_on_the_mound(4.0, throw=False))


@pytest.mark.long
def test_a_design_that_failed_claims_nothing():
    """Under vmap it was an error from inside. The energy is in proportion to the stiffness."""

    def found(displacement):
        options = {"bounds": (0.5, 2.0), "method": gd.Direct(harmonics=2, steps=8, max_iterations=20)}
        return gd.design.optimal_design(Mound, 1.0, (0.0, 0.0), displacement=displacement, **options)

    best = jax.vmap(found)(jnp.array([1.0, 4.0]))
    np.testing.assert_allclose(best.parameters, [0.5, np.nan], rtol=1e-8)
    np.testing.assert_allclose(best.optimum.cost, [2 * np.pi**2 / (np.pi - 1), np.nan], rtol=1e-8)
    assert jnp.isfinite(best.efficiency[0]) and jnp.isnan(best.efficiency[1])


class Weighed(gd.AbstractSwimmer):
    """Displacement the area that the shape goes round, and the integral of 0.3 + r₀ over it; cost |r'|²."""

    group: gd.groups.Translation = gd.groups.Translation(2)

    def dissipation(self, r, xi, rdot):
        area = (r[0] * rdot[1] - r[1] * rdot[0]) / 2
        return rdot @ rdot + (xi[0] - area) ** 2 + (xi[1] - 0.3 * area - r[0] ** 2 * rdot[1] / 2) ** 2


def test_a_component_that_is_free():
    """The best loop around an area is a circle wherever it lies, of the energy 4π D; the other component is what comes
    of it, and has no price."""
    options = {"method": gd.Direct(harmonics=2, steps=8)}
    found = gd.optimal_stroke(Weighed(), (0.0, 0.0), displacement=[0.2, None], **options)
    np.testing.assert_allclose([found.cost, *found.multiplier], [0.8 * np.pi, 4 * np.pi, 0.0], rtol=1e-10)
    moved = Weighed().group.log(gd.holonomy(Weighed(), found.stroke))
    np.testing.assert_allclose(found.displacement, moved, rtol=1e-9)
    np.testing.assert_allclose(moved[0], 0.2, rtol=1e-9)
    with pytest.raises(ValueError, match="not all zero"):
        gd.optimal_stroke(Weighed(), (0.0, 0.0), displacement=[None, None], **options)


@pytest.mark.long
def test_what_is_free_is_the_best_of_all():
    """Purcell's swimmer, of which only x is asked for: energies at other y, and their slopes, by searches of their own.
    Their second difference says what slope the step allows."""
    method = gd.Direct(harmonics=4, steps=24)
    free = gd.optimal_stroke(gd.swimmers.Purcell(), (0.4, 0.6), displacement=[0.1, None, None], method=method)
    np.testing.assert_array_equal(free.multiplier[1:], 0.0)
    for aside in (-2e-3, 2e-3):
        wanted = [0.1, float(free.displacement[1]) + aside, None]
        other = gd.optimal_stroke(gd.swimmers.Purcell(), free.stroke, displacement=wanted, method=method)
        assert other.cost > free.cost + 1e-4
        np.testing.assert_allclose(other.multiplier[1] * aside / 2, other.cost - free.cost, rtol=1e-3)


METHOD = gd.Direct(harmonics=5, steps=32)
LENGTHS, DIRECTION = jnp.array([1.0, 1.2, 0.9]), jnp.array([0.3, -0.5, 0.8])


def best(lengths, displacement=0.1, **options):
    return gd.optimal_stroke(gd.swimmers.Purcell(lengths), displacement=displacement, method=METHOD, **options)


@pytest.fixture(scope="module")
def differences():
    """Of energy and multiplier along the direction. The error of the differences is 1e-8."""
    there, back = (best(LENGTHS + h * DIRECTION) for h in (1e-4, -1e-4))
    return [(getattr(there, name) - getattr(back, name)) / 2e-4 for name in ("cost", "multiplier")]


@pytest.mark.long
def test_envelope_theorem(differences):
    """Measured 3e-9; without the multiplier's part the slope is 2.5 times too small."""
    slope = gd.design.sensitivity(best(LENGTHS))
    np.testing.assert_allclose(slope.lengths @ DIRECTION, differences[0], rtol=1e-7)


@pytest.mark.long
def test_through_the_solver(differences):
    """The multiplier tells whether the stroke moves along as it must."""

    def measures(lengths):
        found = best(lengths)
        return found.cost, found.multiplier

    pull = jax.vjp(measures, LENGTHS)[1]
    one, zero = jnp.ones(()), jnp.zeros(())
    np.testing.assert_allclose(pull((one, zero))[0], gd.design.sensitivity(best(LENGTHS)).lengths, rtol=1e-8)
    np.testing.assert_allclose(pull((zero, one))[0] @ DIRECTION, differences[1], rtol=1e-6)
    forward = jax.jvp(measures, (LENGTHS,), (DIRECTION,))[1]
    np.testing.assert_allclose(forward[1], differences[1], rtol=1e-6)
