"""Plates in sand, in a vertical plane: the Fourier series, its mirror image, forces over a plate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import geodyn as gd

SAND = gd.granular.SandBed()


def series(beta, gamma):
    """(α_x, α_z) for motions to the left, by a program for wheels written from the supplement of Li et al.; read there,
    not in this package."""
    m = [0.206, 0.169, 0.212, 0.358, 0.055, -0.124, 0.253, 0.007, 0.088]
    z = m[4] * np.sin(2 * np.pi * (-beta / np.pi + gamma / (2 * np.pi))) + m[0] + m[3] * np.sin(gamma)
    z += m[1] * np.cos(2 * beta) + m[2] * np.sin(2 * np.pi * (beta / np.pi + gamma / (2 * np.pi)))
    x = m[7] * np.cos(2 * np.pi * (-beta / np.pi + gamma / (2 * np.pi))) + m[6] * np.cos(gamma)
    x += m[8] * np.sin(2 * beta) + m[5] * np.cos(2 * np.pi * (beta / np.pi + gamma / (2 * np.pi)))
    return np.array([x, z])


@pytest.mark.parametrize("gamma", [-1.2, 0.0, 0.7])
@pytest.mark.parametrize("beta", [-0.9, 0.0, 0.4, np.pi / 2])
def test_stress(beta, gamma):
    """A plate that moves to the left, and its mirror image; either end of the plate may be the first."""
    left = -np.cos(gamma), -np.sin(gamma)
    along = np.array([np.cos(beta), -np.sin(beta)])
    for direction in (along, -along):
        np.testing.assert_allclose(SAND.stress_on(direction, left), series(beta, gamma), atol=1e-14)
    mirrored = SAND.stress_on(along * [-1, 1], [np.cos(gamma), -np.sin(gamma)])
    np.testing.assert_allclose(mirrored, series(beta, gamma) * [-1, 1], atol=1e-14)
    np.testing.assert_allclose(SAND.stress(beta, gamma), mirrored, atol=1e-14)


def test_what_everybody_knows_of_sand():
    """It resists; most if pressed from above; a ski is lifted, and a plate that sinks has no side force."""
    for beta in np.linspace(-1.5, 1.5, 7):
        for gamma in np.linspace(-1.5, 1.5, 7):
            velocity = np.array([np.cos(gamma), -np.sin(gamma)])
            assert SAND.stress(beta, gamma) @ velocity < 0
    assert SAND.stress(0.0, np.pi / 2)[1] == pytest.approx(1.0)
    assert SAND.stress(np.pi / 4, 0.0)[1] > 3 * abs(SAND.stress(-np.pi / 4, 0.0)[1])
    np.testing.assert_allclose(SAND.stress_on([1.0, 0.0], [0.0, -1.0])[0], 0, atol=1e-15)
    ahead, behind = (SAND.stress_on([0.8, 0.6], [side, -1.0]) for side in (1e-9, -1e-9))
    np.testing.assert_allclose(ahead, behind, atol=1e-8)


@pytest.mark.parametrize(
    "start, end", [((0.0, -1.0), (0.5, 0.5)), ((0.2, 0.4), (0.1, -2.0)), ((0.0, -1.0), (1.0, -1.0))]
)
def test_a_plate(start, end):
    """Against a quadrature by scipy over what is below the surface, of a plate that turns; 2e-6."""
    start, end, rate, turning = np.array(start), np.array(end), np.array([0.7, -1.0]), 0.6
    rates = [rate + turning * np.array([-place[1], place[0]]) for place in (start, end)]
    found = SAND.on_plate(start, end, *rates)

    def density(s, kind):
        place = start + s * (end - start)
        velocity = rate + turning * np.array([-place[1], place[0]])
        force = max(-place[1], 0.0) * np.linalg.norm(end - start) * np.asarray(STRESS(end - start, velocity))
        return (*force, place[0] * force[1] - place[1] * force[0])[kind]

    level = [-start[1] / (end - start)[1]] if start[1] != end[1] else None
    known = [quad(density, 0, 1, kind, points=level, epsabs=1e-10)[0] for kind in range(3)]
    np.testing.assert_allclose([*found.force, found.torque], known, atol=2e-6)


def test_a_plate_that_turns_about_a_place_on_it():
    """A vertical plate about its top moves to one side, about a place below it to both: the stress of each side is that
    of a plate in translation, so that the sums are known."""
    top, bottom = np.array([0.0, -1.0]), np.array([0.0, -2.0])
    ahead = float(SAND.stress(np.pi / 2, 0.0)[0])
    whole = SAND.on_plate(top, bottom, [0.0, 0.0], [1.0, 0.0])
    np.testing.assert_allclose(whole.force[0], ahead * (2.0**2 - 1.0**2) / 2, rtol=1e-13)
    there_and_back = SAND.on_plate(top, bottom, [-0.25, 0.0], [0.75, 0.0])
    np.testing.assert_allclose(there_and_back.force[0], ahead * (2.0**2 - 2 * 1.25**2 + 1.0**2) / 2, rtol=1e-13)


@pytest.mark.long
def test_a_second_derivative():
    """Of a plate that dips into the sand: the lift is the square of its depth, times a factor."""

    def lift(depth):
        return SAND.on_plate([0.0, -depth], jnp.stack([1.0, 1.0 - depth]), [1.0, -0.5], [1.0, -0.5]).force[1]

    np.testing.assert_allclose(jax.hessian(lift)(0.3), 2 * lift(0.3) / 0.3**2, rtol=1e-10)


STRESS = jax.jit(lambda direction, velocity: SAND.stress_on(direction, velocity))


def test_a_plate_above_and_one_at_rest():
    above = SAND.on_plate([0.0, 1.0], [1.0, 0.5], [1.0, 0.0], [1.0, 0.0])
    assert np.all(above.force == 0)
    assert above.torque == 0
    rests = SAND.on_plate([0.0, -1.0], [1.0, -0.5], [0.0, 0.0], [0.0, 0.0])
    assert np.isnan(rests.force).all()
    assert np.isnan(SAND.stress_on([1.0, 0.0], [0.0, 0.0])).all()


@pytest.mark.long
def test_derivatives_and_depth():
    """A plate that is wholly in the sand: the force grows linearly with its depth; derivatives against differences."""

    def lift(depth, scale):
        sand = gd.granular.SandBed(gd.granular.PACKED_POPPY_SEEDS, scale)
        return sand.on_plate([0.0, -depth], jnp.stack([1.0, 0.3 - depth]), [1.0, -0.5], [1.0, -0.5]).force[1]

    slope = jax.jit(jax.grad(lift, (0, 1)))(2.0, 1.5)
    np.testing.assert_allclose(slope[0], lift(3.0, 1.5) - lift(2.0, 1.5), rtol=1e-10)
    np.testing.assert_allclose(slope[1] * 1.5, lift(2.0, 1.5), rtol=1e-10)
    half = jax.grad(lift)(0.1, 1.0)
    np.testing.assert_allclose(half, (lift(0.101, 1.0) - lift(0.099, 1.0)) / 2e-3, rtol=1e-4)


WRONG = {
    "eight coefficients": (
        lambda: gd.granular.SandBed(jnp.ones(8)),
        r"coefficients must be an array of shape \[9\], got shape \(8,\)",
    ),
    "no number": (lambda: gd.granular.SandBed([1.0] * 8 + ["a"]), "coefficients"),
    "scale": (lambda: gd.granular.SandBed(scale=-1.0), "scale must be positive, got -1"),
    "a place in space": (
        lambda: SAND.on_plate([0.0, 0.0, 1.0], [1.0, 0.0], [1, 0], [1, 0]),
        "start must be two numbers",
    ),
    "a rate": (lambda: SAND.on_plate([0.0, 0.0], [1.0, 0.0], [1, 0], [1.0]), "end_velocity must be two numbers"),
    "traced": (
        lambda: jax.jit(lambda c: gd.granular.SandBed(c))(jnp.ones(8)),
        r"coefficients must be an array of shape \[9\], got shape \(8,\)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input(name):
    call, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        call()
