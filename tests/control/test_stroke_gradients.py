"""How the best stroke changes with the body: through the solver, by the envelope theorem, by central differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geodyn.control.search.implicit import sensitivity
from geodyn.control.search.strokes import Direct, optimal_stroke
from geodyn.geometry.groups.rigid import Translation
from geodyn.locomotion.connections.connection import AbstractSwimmer
from geodyn.locomotion.swimmers.links import Purcell


class Area(AbstractSwimmer):
    """Cost |r'|², displacement the area that the shape goes round."""

    group: Translation = Translation(1)

    def dissipation(self, r, xi, rdot):
        return jnp.sum(rdot**2) + (xi[0] + (r[1] * rdot[0] - r[0] * rdot[1]) / 2) ** 2


@pytest.mark.long
def test_where_bounds_are_felt():
    """The slope of the least energy through the solver is the multiplier, also where the stroke leans on walls, along
    which alone it can move: seen 5e-7, as stiff as the walls are. Were they not felt, it would be 27 % less."""
    wall = (-0.3, -2.0), (0.3, 2.0)

    def least(area):
        found = optimal_stroke(Area(), (0.0, 0.0), displacement=area, bounds=wall, method=Direct(harmonics=4, steps=24))
        return found.cost, found

    slope, found = jax.grad(least, has_aux=True)(0.5)
    assert found.room < 1e-4
    np.testing.assert_allclose(slope, found.multiplier, rtol=1e-5)


METHOD = Direct(harmonics=5, steps=32)
LENGTHS, DIRECTION = jnp.array([1.0, 1.2, 0.9]), jnp.array([0.3, -0.5, 0.8])


def best(lengths, displacement=0.1, **options):
    return optimal_stroke(Purcell(lengths), displacement=displacement, method=METHOD, **options)


@pytest.fixture(scope="module")
def differences():
    """Of energy and multiplier along the direction. The error of the differences is 1e-8."""
    there, back = (best(LENGTHS + h * DIRECTION) for h in (1e-4, -1e-4))
    return [(getattr(there, name) - getattr(back, name)) / 2e-4 for name in ("cost", "multiplier")]


@pytest.mark.long
def test_envelope_theorem(differences):
    """Measured 3e-9; without the multiplier's part the slope is 2.5 times too small."""
    slope = sensitivity(best(LENGTHS))
    np.testing.assert_allclose(slope.lengths @ DIRECTION, differences[0], rtol=1e-7)


@pytest.mark.long
def test_through_the_solver(differences):
    """The multiplier tells whether the stroke moves along as it must."""

    def measures(lengths):
        found = best(lengths)
        return found.cost, found.multiplier

    pull = jax.vjp(measures, LENGTHS)[1]
    one, zero = jnp.ones(()), jnp.zeros(())
    np.testing.assert_allclose(pull((one, zero))[0], sensitivity(best(LENGTHS)).lengths, rtol=1e-8)
    np.testing.assert_allclose(pull((zero, one))[0] @ DIRECTION, differences[1], rtol=1e-6)
    forward = jax.jvp(measures, (LENGTHS,), (DIRECTION,))[1]
    np.testing.assert_allclose(forward[1], differences[1], rtol=1e-6)
