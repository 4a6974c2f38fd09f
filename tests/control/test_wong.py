"""Wong's equations: what they keep, and the strokes that they lead along."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd
from geodyn._control.problem.problem import wong_residual


class Heisenberg(gd.AbstractSwimmer):
    """Cost |r'|², displacement the area: a charge in a uniform magnetic field."""

    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        area = (r[1] * rdot[0] - r[0] * rdot[1]) / 2
        return jnp.sum(rdot**2) + (xi[0] + area) ** 2


class RollingBall(gd.AbstractSwimmer):
    """A unit ball that rolls on a plane without slipping, ξ = e₃ × r' seen from the ball: a charge in a uniform field
    of SO(3)."""

    group: gd.groups.SO3 = gd.groups.SO3()

    def dissipation(self, r, xi, rdot):
        return jnp.sum(rdot**2) + jnp.sum((xi - jnp.stack([-rdot[1], rdot[0], 0 * r[0]])) ** 2)


def moved(swimmer, r, rdot, charge, t1=2.0):
    system = gd.strokes.WongSystem(swimmer)
    trajectory = gd.integrate(system, system.state(r, rdot, charge), t1=t1, steps=100, method=gd.Gauss(3))
    return trajectory, *jax.vmap(system.split)(trajectory.q)


@pytest.mark.long
@pytest.mark.parametrize(
    "swimmer, charge",
    [(Heisenberg(), [0.7]), (RollingBall(), [0.4, -1.1, 0.6]), (gd.swimmers.Purcell(), [0.5, 0.3, -0.2])],
    ids=lambda x: type(x).__name__,
)
def test_what_is_kept(swimmer, charge):
    """The power, and the charge in space; g stays in its group. Measured 3e-11; a wrong sign anywhere gives O(1)."""
    trajectory, _, _, charges, g = moved(swimmer, [0.4, -0.9], [1.0, 0.5], charge)
    spatial = jax.vmap(lambda g, mu: swimmer.group.adjoint(swimmer.group.inverse(g)).T @ mu)(g, charges)
    np.testing.assert_allclose(spatial, np.tile(charge, (len(g), 1)), atol=1e-9)
    np.testing.assert_allclose(trajectory.energy, np.full(len(g), trajectory.energy[0]), rtol=1e-9)
    again = jax.vmap(lambda g: swimmer.group.exp(swimmer.group.log(g)))(g)
    np.testing.assert_allclose(again, g, atol=1e-12)  # Gauss keeps quadratic invariants


def test_a_charge_in_a_uniform_field():
    """A circle of curvature μ/|r'|, and the area that it encloses as the displacement."""
    _, r, _, _, g = moved(Heisenberg(), [0.0, 0.0], [1.5, 0.0], [2.0])
    t = jnp.linspace(0, 2.0, 101)
    turned = np.sign(r[5, 1])
    np.testing.assert_allclose(r[:, 0], 0.75 * jnp.sin(2 * t), atol=1e-9)
    np.testing.assert_allclose(r[:, 1], turned * 0.75 * (1 - jnp.cos(2 * t)), atol=1e-9)
    np.testing.assert_allclose(g[:, 0, 1], turned * 0.75**2 / 2 * (2 * t - jnp.sin(2 * t)), atol=1e-9)


def test_a_rolling_ball():
    """Euler's elastica: the balls that roll at least length from one orientation to another (Arthurs & Walsh, *Ann.
    Oxford* 1986; Jurdjevic, *Geometric Control Theory*, 12): κ'² = a + bκ² − κ⁴/4, so κ'' = κ (b − κ²/2)."""
    trajectory, _, _, _, _ = moved(RollingBall(), [0.0, 0.0], [1.0, 0.0], [0.4, -1.1, 0.6])
    rdot = trajectory.v[:, :2]
    np.testing.assert_allclose(jnp.sum(rdot**2, axis=1), np.ones(101), rtol=1e-9)
    angle = np.unwrap(np.arctan2(rdot[:, 1], rdot[:, 0]))
    stencil = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0, 4 / 5, -1 / 5, 4 / 105, -1 / 280]) / 0.02

    def slope(f):
        return np.convolve(f, stencil, mode="valid")

    bend = slope(angle)
    left, right = slope(slope(bend)), bend[8:-8]
    rate = left / right + right**2 / 2
    np.testing.assert_allclose(rate, np.full(len(rate), rate[0]), rtol=1e-4)


@pytest.mark.long
def test_derivatives():
    """Of the final shape with respect to the charge, against central differences."""

    def end(mu):
        return moved(RollingBall(), [0.4, -0.9], [1.0, 0.5], mu)[1][-1]

    mu, e = jnp.array([0.5, 0.3, -0.2]), jnp.array([0.2, -0.5, 0.3])
    slope = jax.jvp(end, (mu,), (e,))[1]
    np.testing.assert_allclose(slope, (end(mu + 1e-5 * e) - end(mu - 1e-5 * e)) / 2e-5, rtol=1e-6, atol=1e-8)


def test_bad_states_are_named():
    system = gd.strokes.WongSystem(gd.swimmers.Purcell())
    with pytest.raises(ValueError, match=r"charge \[3\] in SE2; got \(2,\), \(2,\), \(2,\)"):
        system.state([0.0, 0.0], [1.0, 0.0], [0.1, 0.2])
    with pytest.raises(ValueError, match=r"integrated from system.state\(r, rdot, charge\)"):
        gd.integrate(system, [0.0, 1.0], t1=1.0, steps=1)


class Idle(gd.AbstractSwimmer):
    """The charge in the plane of two shape variables, which a third one does not enter; in units of its own."""

    unit: float = 1.0
    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        area = (r[1] * rdot[0] - r[0] * rdot[1]) / 2
        return rdot[0] ** 2 + rdot[1] ** 2 + (rdot[2] / self.unit) ** 2 + (xi[0] + area) ** 2


FEW = gd.Direct(harmonics=3, steps=12)


def test_the_residual_where_a_force_is_zero():
    """On the third variable there is none: its rounding is compared with the forces on the others, in any unit."""
    for unit in (1.0, 1e6):
        best = gd.optimal_stroke(Idle(unit), jnp.zeros(3), displacement=0.5, method=FEW)
        assert best.wong_residual < 1e-9


def test_the_residual_without_a_force():
    """Along a straight line, which costs 2 and needs none. A parabola of the height h beside it needs the force 8h all
    the way, in any unit; what would stop the motion in the time 1 is √2."""
    unit, body = 1e3, Idle(1e3)
    ends = jnp.array([0.0, 1.0, 0.0]), jnp.array([1.0, 0.0, 0.0])
    # The displacement of the line is −1/2, that of another one is exact there to a millionth.
    best = gd.optimal_stroke(body, displacement=-0.5 + 1e-6, ends=ends, method=FEW)
    assert abs(best.cost - 2.0) < 1e-9
    assert best.wong_residual < 1e-5
    problem = best.evidence.problem
    bent = jnp.zeros_like(best.evidence.x).at[2, 0].set(1e-3 * unit)
    t = jnp.linspace(0.0, 1.0, 101)
    height = jnp.max(jnp.abs(jax.vmap(problem.stroke(bent))(t)[:, 2])) / unit
    wanted = 8 * height / jnp.sqrt(2.0)
    np.testing.assert_allclose(wong_residual(problem, bent, 0 * best.charge), wanted, rtol=1e-4)


def test_the_residual_of_another_charge():
    """A tenth of the charge too much is a tenth of the force."""
    best = gd.optimal_stroke(Idle(), jnp.zeros(3), displacement=0.5, method=FEW)
    off = wong_residual(best.evidence.problem, best.evidence.x, 1.1 * best.charge)
    np.testing.assert_allclose(off, 0.1 / 1.1, rtol=1e-6)


def test_the_residual_on_bounds_all_the_way():
    """Says nothing there."""
    best = gd.optimal_stroke(Idle(), jnp.zeros(3), displacement=0.5, method=FEW)
    limits = jnp.array([0.0]), jnp.array([1e9])
    problem = dataclasses.replace(best.evidence.problem, bounds=limits, bounded=(0,))
    assert jnp.isnan(wong_residual(problem, best.evidence.x, best.charge))
