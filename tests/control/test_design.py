"""Body and stroke optimised together: closed forms, bounds that are felt, and Purcell's best swimmer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd

METHOD = gd.Direct(harmonics=2, steps=12)
FADING = 0.3


class Tuned(gd.AbstractSwimmer):
    """Cost h |r'|² on the plane, h least at a = 0.7, b = −0.2; displacement the integral of
    `1 − 2 fading (x² + y²)`."""

    a: jax.Array
    b: jax.Array
    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        h = 1 + (self.a - 0.7) ** 2 + (self.b + 0.2) ** 2
        form = (1 - FADING * (r @ r)) * (r[0] * rdot[1] - r[1] * rdot[0]) / 2
        return h * jnp.sum(rdot**2) + (xi[0] - form) ** 2


class TunedAfloat(gd.bundles.AbstractInvariantMetric):
    """The same with a metric that is no power, such as the kinetic energy of a body afloat."""

    tuned: Tuned
    group: gd.groups.Translation = gd.groups.Translation(1)

    def quadratic_form(self, r, xi, rdot):
        return self.tuned.dissipation(r, xi, rdot)


def tuned(parameters):
    return Tuned(parameters["a"], parameters["b"])


BEGIN = {"a": 0.3, "b": 0.1}


@pytest.mark.long
def test_a_body_afloat():
    """The best parameters are those of h, and the efficiency is D²/E."""
    found = gd.design.optimal_design(
        lambda p: TunedAfloat(tuned(p)), BEGIN, (0.0, 0.0), displacement=0.3, method=METHOD
    )
    np.testing.assert_allclose([found.parameters["a"], found.parameters["b"]], [0.7, -0.2], atol=1e-6)
    np.testing.assert_allclose(found.efficiency, 0.3**2 / found.optimum.cost, rtol=1e-10)


@pytest.mark.long
def test_closed_form_and_bounds():
    """Circles: `D = π(ρ² − fading ρ⁴)`, `E = 4π²ρ²h`. With a ≤ 1/2 that bound is felt, and h = 1.04."""
    bounds = {"a": -1.0, "b": -1.0}, {"a": 0.5, "b": 1.0}
    found = gd.design.optimal_design(tuned, BEGIN, (0.0, 0.0), displacement=0.2, bounds=bounds, method=METHOD)
    square = (1 - np.sqrt(1 - 4 * FADING * 0.2 / np.pi)) / (2 * FADING)
    np.testing.assert_allclose(found.optimum.cost, 4 * np.pi**2 * square * 1.04, rtol=1e-11)  # measured 3e-13
    np.testing.assert_allclose([found.parameters["a"], found.parameters["b"]], [0.5, -0.2], atol=1e-7)
    assert found.bound_multipliers[2] > 1e-2 and jnp.all(found.bound_multipliers[jnp.array([0, 1, 3])] < 1e-8)
    assert found.kkt_residual < 1e-10 and found.optimum.kkt_residual < 1e-10 and found.optimum.second_order > 0


@pytest.mark.long
def test_best_efficiency_closed_form():
    """D²/E is largest at ρ² = 1/(3 fading), whatever h, which is 1 at its best."""
    found = gd.design.optimal_design(tuned, BEGIN, (0.0, 0.0), displacement=0.2, free=True, method=METHOD)
    square = 1 / (3 * FADING)
    np.testing.assert_allclose(found.efficiency, square * (1 - FADING * square) ** 2 / 4, rtol=1e-13)  # measured 6e-16
    np.testing.assert_allclose(found.optimum.cost, 4 * np.pi**2 * square, rtol=1e-12)
    np.testing.assert_allclose([found.parameters["a"], found.parameters["b"]], [0.7, -0.2], atol=1e-8)


def of_ratio(ratio):
    """Purcell's swimmer with the middle link `ratio` times as long as the outer ones: the longer, the more drag."""
    return gd.swimmers.Purcell(lengths=jnp.stack([jnp.ones(()), ratio, jnp.ones(())]))


@pytest.mark.long
def test_purcell():
    """The best of all around the straight shape: efficiency 0.0130684840 at the ratio 0.7483 (Tam & Hosoi 2007: 1.3 %);
    8 harmonics leave 2e-5. At the best efficiency D dE/dD = 2E."""
    found = gd.design.optimal_design(
        of_ratio, 1.0, displacement=0.2, free=True, bounds=(0.2, 3.0), method=gd.Direct(harmonics=8, steps=48)
    )
    np.testing.assert_allclose(found.efficiency, 0.0130684840, rtol=5e-5)
    np.testing.assert_allclose(found.parameters, 0.7483, atol=2e-4)
    optimum = found.optimum
    np.testing.assert_allclose(optimum.displacement * optimum.multiplier, 2 * optimum.cost, rtol=1e-6)
    assert found.kkt_residual < 1e-10 and optimum.kkt_residual < 1e-10 and optimum.second_order > 0


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"parameters": {}}, "at least one number"),
        ({"bounds": (BEGIN, {"a": 1.0, "b": 1.0})}, "must lie between their bounds"),
        ({"bounds": (0.0, 1.0)}, "of 2 numbers, got 1 and 1"),
        ({"displacement": (0.1,), "free": True}, "must be a length to begin with"),
    ],
)
def test_bad_arguments_are_named(wrong, message):
    given = {"swimmer": tuned, "parameters": BEGIN, "guess": (0.0, 0.0), "displacement": 0.1}
    with pytest.raises(ValueError, match=message):
        gd.design.optimal_design(**(given | wrong))


@pytest.mark.parametrize("by", [jax.grad, jax.jacfwd])
def test_no_derivative(by):
    """Neither by what is given nor by what the body closes over."""

    def best(length, k):
        def body(x):
            return Tuned(k * x["a"], x["b"])

        return gd.design.optimal_design(body, BEGIN, (0.0, 0.0), displacement=length, method=METHOD).efficiency

    for derivative in (by(lambda length: best(length, 1.0)), by(lambda k: best(0.2, k))):
        with pytest.raises(ValueError, match="optimal_design cannot be differentiated"):
            derivative(0.2)
