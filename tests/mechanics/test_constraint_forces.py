"""Constraint forces as a function of the state, with the drift that comes of it; a mechanism of seven bodies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case

import geodyn as gd

PENDULUM = gd.Lagrangian(lambda q, v: v @ v / 2 - 13.750371636040745655 * q[1], lambda q: (q @ q - 1) / 2)


def test_drift_grows_and_is_bounded_with_baumgarte():
    """Case M01's pendulum by Radau IIA with two stages, h = 0.01: |φ| in the thirds of the time is 2.2e-5, 4.1e-5,
    6.4e-5, and with α = 10 4.2e-6 in each; as a constraint of the same tableau it is 2e-16."""
    drifts = []
    for alpha in (0.0, 10.0):
        system = gd.methods.ConstraintForces(PENDULUM, alpha)
        motion = gd.integrate(system, [1.0, 0.0], [0.0, 0.0], t1=7.7, steps=770, method=gd.RadauIIA(2))
        phi = np.abs(np.sum(motion.q**2, axis=1) - 1) / 2
        drifts.append([np.max(part) for part in np.array_split(phi, 3)])
        np.testing.assert_allclose(motion.q[-1], [0.8190646817, -0.5737011828], atol=1e-3)
    assert drifts[0][2] > 1.4 * drifts[0][1] > 1.8 * drifts[0][0] > 2e-5
    np.testing.assert_allclose(drifts[1], drifts[1][0], rtol=1e-3)
    assert drifts[1][0] < 5e-6


def test_what_is_off_comes_back_as_baumgarte_says():
    """φ'' + 2αφ' + α²φ = 0: from rest φ₀ = 1e-9 falls to (1 + αt) exp(−αt) φ₀."""
    point = gd.Lagrangian(lambda q, v: v @ v / 2, lambda q: q[:1] - 1)
    t = gd.integrate(gd.methods.ConstraintForces(point, 5.0), [1 + 1e-9, 0.0], [0.0, 0.0], t1=0.4, steps=20)
    np.testing.assert_allclose(t.q[-1, 0] - 1, 3 * np.exp(-2) * 1e-9, rtol=1e-5)


def test_projection_at_a_time():
    """Onto a constraint that moves, where it is then, and with its velocity."""
    moved = gd.Lagrangian(lambda q, v: v @ v / 2, lambda q, t: q[:1] - jnp.sin(t))
    q, v = gd.project(moved, [0.0, 2.0], [0.0, 3.0], 0.5)
    np.testing.assert_allclose([q, v], [[np.sin(0.5), 2.0], [np.cos(0.5), 3.0]], rtol=1e-14)


def test_multipliers_of_a_state():
    """Tensions of the chain of case M04, from its reference positions and velocities at t = 1. Seen: 1e-15."""
    reference = case("M04")["reference"]
    q, v = (jnp.array([0, 0, *np.array(reference[name], float)], float) for name in ("xy", "vxy"))
    rods = gd.Pin(0, [0.0, 0.0]), gd.Rod([(i, i + 1) for i in range(5)], 0.2)
    chain = gd.System(gd.spaces.Euclidean(2), jnp.ones(6), gd.Gravity(9.81), *rods)
    lam = jax.jit(lambda q, v: gd.methods.ConstraintForces(chain).multipliers(jnp.zeros(()), q, v))(q, v)
    np.testing.assert_allclose(-lam[2:], np.array(reference["tension"], float), rtol=1e-13)


def test_wrong_inputs_are_named():
    with pytest.raises(ValueError, match="baumgarte must be ≥ 0"):
        gd.methods.ConstraintForces(PENDULUM, -1.0)
    with pytest.raises(ValueError, match="knows no contacts"):
        gd.methods.ConstraintForces(gd.System(gd.spaces.Euclidean(2), [1.0], gd.Wall(lambda x: x[1])))
    free = gd.methods.ConstraintForces(gd.Lagrangian(lambda q, v: v @ v / 2))
    with pytest.raises(ValueError, match="system has no constraints"):
        gd.integrate(free, [0.0], [1.0], t1=1.0, steps=10)


MASSES = np.array([0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498])
INERTIAS = np.array([2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5])
A, B, C = -0.06934 - 0.00227j, -0.03635 + 0.03273j, 0.014 + 0.072j
# What points are fixed to, and how far along and across (as an imaginary part) which links they are from there: the
# centres of mass of the links, the end of the spring, what closes the three loops.
POINTS = [
    (0, {0: 0.00092}),
    (0, {0: 0.007, 1: -0.0115}),
    (B, {2: 0.01043 + 0.01874j}),
    (A, {4: 0.04, 3: -0.00579j}),
    (A, {4: 0.02308 + 0.00916j}),
    (A, {6: -0.04j, 5: 0.00579}),
    (A, {6: 0.01228 + 0.00449j}),
    (B, {2: 0.02 - 0.018j}),
    (-B, {0: 0.007, 1: -0.028, 2: 0.035j}),
    (-A, {0: 0.007, 1: -0.028, 4: -0.04, 3: 0.02j}),
    (-A, {0: 0.007, 1: -0.028, 5: -0.02, 6: 0.04j}),
]
BASE = np.array([base for base, _ in POINTS])
ARMS = np.array([[arms.get(k, 0) for k in range(7)] for _, arms in POINTS])
# β, Θ, γ, Φ, δ, Ω, ε to the angles of the links.
ANGLES = np.eye(7)
ANGLES[[1, 3, 5], [0, 4, 6]] = 1


def points(q):
    """x [11] and y [11] of the points."""
    c, s = jnp.cos(ANGLES @ q), jnp.sin(ANGLES @ q)
    return BASE.real + ARMS.real @ c - ARMS.imag @ s, BASE.imag + ARMS.real @ s + ARMS.imag @ c


def squeezer(q, v):
    (x, y), (dx, dy) = jax.jvp(points, (q,), (v,))
    kinetic = (MASSES @ (dx[:7] ** 2 + dy[:7] ** 2) + INERTIAS @ (ANGLES @ v) ** 2) / 2
    spring = jnp.sqrt((x[7] - C.real) ** 2 + (y[7] - C.imag) ** 2) - 0.07785
    return kinetic - 4530 * spring**2 / 2 + 0.033 * q[0]


def closed(q):
    x, y = points(q)
    return jnp.concatenate([x[8:], y[8:]])


@pytest.mark.long
def test_andrews_squeezer():
    """The seven-body mechanism from where its links are: multipliers at the start, and angles at t = 0.03, when the
    crank has turned two and a half times, as published (Test Set for IVP Solvers 2.4, II-10; Hairer & Wanner, Solving
    ODEs II, VII.7; their λ have the other sign). Seen: 1e-6, 4e-8 with 600 steps, 1e-9 with 3000."""
    q0 = [-0.0617138900142764496, 0.0, 0.455279819163070380, 0.222668390165885885, 0.487364979543842550]
    q0 += [-0.222668390165885885, 1.23054744454982119]
    motion = gd.integrate(gd.Lagrangian(squeezer, closed), q0, np.zeros(7), t1=0.03, steps=300, save_every=100)
    angles = [15.81077119629904, -15.75637105984298, 0.04082224013073101, -0.5347301163226948, 0.5244099658805304]
    np.testing.assert_allclose(motion.q[-1], [*angles, 0.5347301163226948, 1.048080741042263], atol=5e-6)
    np.testing.assert_allclose(motion.multipliers[0, [0, 3]], [-98.56687039624109, 6.122688344255663], rtol=1e-10)
    assert np.max(np.abs(jax.vmap(closed)(motion.q))) < 1e-15


@pytest.mark.long
def test_slider_crank():
    """A crank pin of mass 1 on a circle of radius 1, and a slider of mass 2 on a rod of length 2.5, coast: with x(θ) =
    cos θ + √(2.5² − sin² θ) the energy is (1 + 2x'²) θ'²/2, so a turn takes ∫ √((1 + 2x'²)/2E) dθ, after which all is
    as it was. Measured: 1.7e-6, and 32 times less in half the step; the constraints 4e-15."""
    masses = jnp.array([1.0, 1.0, 2.0, 2.0])

    def held(q):
        return jnp.stack([q[:2] @ q[:2] - 1, q[3], (q[:2] - q[2:]) @ (q[:2] - q[2:]) - 2.5**2])

    crank = gd.Lagrangian(lambda q, v: 0.5 * jnp.sum(masses * v**2), held)
    angle = 2 * np.pi * np.arange(256) / 256
    slope = -np.sin(angle) - np.sin(angle) * np.cos(angle) / np.sqrt(2.5**2 - np.sin(angle) ** 2)
    period = 2 * np.pi * np.mean(np.sqrt(1 + 2 * slope**2))  # θ' = 1 at θ = 0, where x' = 0: E = 1/2.
    q0, v0 = jnp.array([1.0, 0.0, 3.5, 0.0]), jnp.array([0.0, 1.0, 0.0, 0.0])
    trajectory = gd.integrate(crank, q0, v0, t1=period, steps=100)
    np.testing.assert_allclose(trajectory.q[-1], q0, rtol=0, atol=4e-6)
    np.testing.assert_allclose(trajectory.v[-1], v0, rtol=0, atol=5e-6)
    assert np.max(np.abs(jax.vmap(held)(trajectory.q))) < 2e-14
