"""Bodies against independent reference solutions: springs, rods, chains, multipliers, momenta, projection."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case
from helpers.marks import slow

import geodyn as gd

SPACES = {"S3": gd.spaces.Sphere(3, "polar"), "H3": gd.spaces.Hyperbolic(3, "polar")}


def in_chart(space, X, V):
    """Coordinates and coordinate velocities of points and velocities of the embedding."""
    pairs = [
        jax.jvp(space.coordinates, (jnp.array(x, float),), (jnp.array(v, float),)) for x, v in zip(X, V, strict=True)
    ]
    return jnp.stack([q for q, _ in pairs]), jnp.stack([v for _, v in pairs])


def symmetric_pair(space, name, half):
    s, c = (np.sin(half), np.cos(half)) if name == "S3" else (np.sinh(half), np.cosh(half))
    return in_chart(space, [[0, s, 0, c], [0, -s, 0, c]], [[c, 0, 0, 0]] * 2)


def elastic_rod(name):
    space = SPACES[name]
    return (gd.System(space, [1.0, 1.0], gd.Spring([(0, 1)], 1.0, 2.0)), *symmetric_pair(space, name, 1.0))


@pytest.mark.long
@pytest.mark.parametrize("name", SPACES)
def test_elastic_rod(name):
    """Case B01. Seen at h = 0.01: the position in the embedding to 3e-16 (S³), 1e-13 (H³); momenta 6e-16, 1e-14."""
    system, q0, v0 = elastic_rod(name)
    reference = case("B01")["reference"][name]
    trajectory = gd.integrate(system, q0, v0, t1=5.0, steps=500)
    middle, end = (gd.distance(system.space, *trajectory.q[i]) for i in (250, 500))
    assert abs(end - float(reference["separation_t5"])) < 1e-12
    assert abs(middle - float(reference["separation_t2p5"])) < 1e-12
    np.testing.assert_allclose(system.space.embed(trajectory.q[-1, 0]), np.array(reference["X1_t5"], float), atol=1e-11)
    np.testing.assert_allclose(trajectory.energy, float(reference["energy"]), rtol=1e-13)
    momenta = jax.vmap(lambda q, v: gd.hamilton.killing_momentum(system, q, v))(trajectory.q, trajectory.v)
    np.testing.assert_allclose(momenta, jnp.broadcast_to(momenta[:1], momenta.shape), atol=5e-12)


SEPARATIONS = {
    "H3": (1.5085309250054799759, 1.9509687652647628660),
    "S3": (0.6830909871950977890, 0.7423842017138894106),
}


@pytest.mark.parametrize("name", slow("S3", quick="H3"))
def test_elastic_rod_of_unit_length(name):
    """Separations at t = 1 and 10 against l'' = σ C(½)⁴ S(l)/C(l)³ − 2 (l − ½), to 20 digits. Seen: 3e-12."""
    space = SPACES[name]
    system = gd.System(space, [1.0, 1.0], gd.Spring([(0, 1)], 1.0, 1.0))
    trajectory = gd.integrate(system, *symmetric_pair(space, name, 0.5), t1=10.0, steps=500)
    found = [gd.distance(space, *trajectory.q[i]) for i in (50, 500)]
    np.testing.assert_allclose(found, SEPARATIONS[name], atol=2e-11)


@pytest.mark.long
@pytest.mark.parametrize("name", SPACES)
def test_elastic_triangle(name):
    """Case B02. Seen: 2e-14 in the sides; catches a wrong edge order and a force that is not symmetric."""
    space, reference = SPACES[name], case("B02")["reference"][name]
    height = float(reference["H0"])
    sine, cosine, sign = (np.sin, np.cos, -1) if name == "S3" else (np.sinh, np.cosh, 1)
    X = [[sine(height), 0, 0, cosine(height)], [0, sine(0.5), 0, cosine(0.5)], [0, -sine(0.5), 0, cosine(0.5)]]
    q0, v0 = in_chart(space, X, [[x[3], 0, 0, sign * x[0]] for x in X])
    system = gd.System(space, [1.0, 1.0, 1.0], gd.Spring([(0, 1), (0, 2), (1, 2)], 1.0, 1.0))
    trajectory = gd.integrate(system, q0, v0, t1=3.0, steps=300)
    sides = [gd.distance(space, trajectory.q[-1, i], trajectory.q[-1, j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    np.testing.assert_allclose(sides, [float(reference[s]) for s in ("s12", "s13", "s23")], rtol=0, atol=1e-11)
    assert abs(sides[0] - sides[1]) < 1e-12
    np.testing.assert_allclose(jax.vmap(space.embed)(trajectory.q[-1]), np.array(reference["X"], float), atol=1e-9)


class Tube(gd.spaces.AbstractModelSpace):
    """H² around a geodesic: x = (arc length along it, distance from it), where its translation is linear."""

    dim: int = eqx.field(static=True, default=2)

    def metric(self, x):
        return jnp.diag(jnp.stack([jnp.cosh(x[1]) ** 2, jnp.ones_like(x[1])]))

    def squared_distance(self, x, y):
        half = jnp.sinh((x - y) / 2) ** 2
        return 4 * jnp.arcsinh(jnp.sqrt(half[1] + jnp.cosh(x[1]) * jnp.cosh(y[1]) * half[0])) ** 2

    def embed(self, x):
        return jnp.stack([jnp.cosh(x[1]) * jnp.sinh(x[0]), jnp.sinh(x[1]), jnp.cosh(x[1]) * jnp.cosh(x[0])])

    def coordinates(self, X):
        return jnp.stack([jnp.arctanh(X[0] / X[2]), jnp.arcsinh(X[1])])

    def killing_fields(self, x):
        return jnp.array([[1.0, 0.0]])


FLOWS = {
    "S2": (gd.spaces.Sphere(2, "polar"), [np.pi / 2, 0.0], [0.5, 0.0], [0.0, 1.0]),
    "H2": (Tube(), [0.0, 0.0], [0.0, 0.5], [1.0, 0.0]),
}


@pytest.mark.long
@pytest.mark.parametrize("name, formulation", [("S2", "ggl"), ("H2", "rs2"), ("H2", "rs3")])
def test_rigid_rod_on_a_killing_flow(name, formulation):
    """Case B04 a: λ = −½ sinh 2l (H³), +½ sin 2l (S³) at every step, in charts where the flow is linear; planes of S³
    and H³ do. Only what the rounding of a distance leaves is seen: 2e-15 for GGL and rs3. rs2 finds λ through
    positions, at the cost of eps/h²: 2e-13 and 3e-11."""
    space, middle, half, velocity = FLOWS[name]
    wanted = -float(case("B04")["reference"][f"{name[0]}3"]["lambda_killing"])
    ahead, behind = np.subtract(middle, half), np.add(middle, half)
    system = gd.System(space, [1.0, 1.0], gd.Rod([(0, 1)], 1.0))
    for h in 0.1 * np.array([1, 0.1] if formulation == "rs2" else [1, 0.1, 0.01]):
        method = gd.RadauIIA(2 if formulation == "rs2" else 3, formulation)
        trajectory = gd.integrate(system, [ahead, behind], [velocity] * 2, t1=40 * h, steps=40, method=method)
        np.testing.assert_allclose(trajectory.multipliers, wanted, rtol=3e-9 if formulation == "rs2" else 1e-9)


@pytest.mark.long
def test_rigid_rod_in_generic_motion():
    """Case B04 b in H³, given in polar coordinates; the orders of Radau IIA have it in S³, too. Seen: X 2e-13."""
    polar, space, data, reference = (
        SPACES["H3"],
        gd.spaces.Hyperbolic(3),
        case("B04")["inputs"],
        case("B04")["reference"]["H3"],
    )

    def to_ball(q, v):
        return jax.jvp(lambda q: space.coordinates(polar.embed(q)), (q,), (v,))

    q0, v0 = jax.vmap(to_ball)(*(jnp.array(data[name], float) for name in ("q", "v_unprojected")))
    system = gd.System(space, np.array(data["m"], float), gd.Rod([(0, 1)], float(reference["length"])))
    q0, v0 = gd.project(system, q0, v0)
    V0 = jax.vmap(lambda q, v: jax.jvp(space.embed, (q,), (v,))[1])(q0, v0)
    np.testing.assert_allclose(V0, np.array(reference["V0_projected"], float), atol=1e-13)
    trajectory = gd.integrate(system, q0, v0, t1=4.0, steps=400)
    np.testing.assert_allclose(jax.vmap(space.embed)(trajectory.q[-1]), np.array(reference["X_T"], float), atol=1e-9)
    assert abs(trajectory.multipliers[-1, 0] / -float(reference["lambda_T"]) - 1) < 1e-6
    lengths = jax.vmap(lambda q: gd.distance(space, *q))(trajectory.q)
    assert np.max(np.abs(lengths - float(reference["length"]))) < 1e-13
    rate = jax.vmap(lambda q, v: jax.jvp(lambda q: gd.distance(space, *q), (q,), (v,))[1])(trajectory.q, trajectory.v)
    assert np.max(np.abs(rate)) < 1e-13


def test_pendulum_as_constrained_point():
    """Case M01. Seen at dt = 0.002, t = 7.7: position 2e-11, tension 1e-6; at dt = 0.00035, t = 1.35: 1e-15, 2e-9; at
    t = 30, in four runs: 2e-11. With rs3 the acceleration is bound too, |φ''| < 2e-14."""
    data = case("M01")
    gravity = float(data["inputs"]["g"])
    system = gd.System(gd.spaces.Euclidean(2), [1.0], gd.Gravity(gravity), Circle())
    trajectory = gd.integrate(system, [[1.0, 0.0]], [[0.0, 0.0]], t1=7.7, steps=3850, save_every=25)
    row = data["reference"]["rows"][2]
    np.testing.assert_allclose(trajectory.q[-1, 0], [float(row["x"]), float(row["y"])], atol=1e-9)
    assert abs(-trajectory.multipliers[-1, 0] - float(row["T"])) < 1e-5
    assert np.max(np.abs(jnp.sum(trajectory.q**2, axis=(1, 2)) - 1)) < 1e-14
    assert np.max(np.abs(jnp.sum(trajectory.q * trajectory.v, axis=(1, 2)))) < 1e-12
    trajectory = gd.integrate(system, [[1.0, 0.0]], [[0.0, 0.0]], t1=1.35, steps=3850, save_every=25)
    row = data["reference"]["rows"][1]
    np.testing.assert_allclose(trajectory.q[-1, 0], [float(row["x"]), float(row["y"])], rtol=0, atol=1e-12)
    assert abs(-trajectory.multipliers[-1, 0] - float(row["T"])) < 1e-6
    q, v = jnp.array([[1.0, 0.0]]), jnp.zeros((1, 2))
    for _ in range(4):
        trajectory = gd.integrate(system, q, v, t1=7.5, steps=3850, save_every=25)
        q, v = trajectory.q[-1], trajectory.v[-1]
    np.testing.assert_allclose(q, [[1, 0]], rtol=0, atol=1e-9)
    t = gd.integrate(system, q, v, t1=7.5, steps=3850, save_every=25, method=gd.RadauIIA(3, "rs3"))
    swing = jnp.sum(t.v**2, axis=(1, 2)) + t.multipliers[:, 0] * jnp.sum(t.q**2, axis=(1, 2)) - gravity * t.q[:, 0, 1]
    assert np.max(np.abs(swing)) < 1e-9


class Circle(gd.AbstractConstraint):
    size: int = 1

    def residual(self, space, x):
        return (jnp.sum(x**2, keepdims=True)[0] - 1) / 2


@pytest.mark.weekly
@pytest.mark.long
def test_chain_of_rods():
    """Case M04: five rods released from the horizontal. Seen at dt = 1e-3: 3e-11; tensions 1.4e-7 relative."""
    data = case("M04")
    system = gd.System(
        gd.spaces.Euclidean(2),
        jnp.ones(6),
        gd.Gravity(9.81),
        gd.Pin(0, [0.0, 0.0]),
        gd.Rod([(i, i + 1) for i in range(5)], 0.2),
    )
    q0 = np.stack([0.2 * np.arange(6), np.zeros(6)], axis=1)
    trajectory = gd.integrate(system, q0, np.zeros((6, 2)), t1=1.0, steps=1000, save_every=25)
    reference = data["reference"]
    np.testing.assert_allclose(trajectory.q[-1, 1:].reshape(-1), np.array(reference["xy"], float), atol=1e-9)
    np.testing.assert_allclose(-trajectory.multipliers[-1, 2:], np.array(reference["tension"], float), rtol=1e-6)
    lengths = jnp.linalg.norm(jnp.diff(trajectory.q, axis=1), axis=2)
    assert np.max(np.abs(lengths - 0.2)) < 1e-15 * 4
    rates = jnp.sum(jnp.diff(trajectory.q, axis=1) * jnp.diff(trajectory.v, axis=1), axis=2)
    assert np.max(np.abs(rates)) < 1e-14
    assert np.max(np.abs(trajectory.energy)) < 1e-6


@pytest.mark.long
def test_chain_in_angles():
    """Case M04 without constraints, by Gauss. Seen: angles 2e-15, their rates 7e-15, energy 3e-14."""

    def chain(theta, omega):
        def down(theta):
            return 0.2 * jnp.cumsum(jnp.stack([jnp.sin(theta), -jnp.cos(theta)]), axis=1)

        (_, y), velocities = jax.jvp(down, (theta,), (omega,))
        return jnp.sum(velocities**2) / 2 - 9.81 * jnp.sum(y)

    reference = case("M04")["reference"]
    trajectory = gd.integrate(gd.Lagrangian(chain), np.full(5, np.pi / 2), np.zeros(5), t1=1.0, steps=2000)
    np.testing.assert_allclose(trajectory.q[-1], np.array(reference["theta"], float), atol=1e-13)
    np.testing.assert_allclose(trajectory.v[-1], np.array(reference["omega"], float), atol=1e-12)
    assert np.max(np.abs(trajectory.energy)) < 1e-12


@pytest.mark.long
@pytest.mark.users  # XLA's older emitter, with which the tests compile, computes other multipliers.
def test_car_axis_with_a_constraint_that_depends_on_time():
    """Case D02, to 34 digits. Seen at dt = 1e-3: 2e-10, 2e-8, 2e-6 relative; at a third: 7e-13, 7e-11, 9e-8."""
    data = case("D02")
    mass = 1e-4 * 10 / 2

    def lagrangian(q, v, t):
        yb = 0.1 * jnp.sin(10 * t)
        xb = jnp.sqrt(1 - yb**2)
        left, right = jnp.hypot(q[0], q[1]), jnp.hypot(q[2] - xb, q[3] - yb)
        springs = (left - 0.5) ** 2 / 2 + (right - 0.5) ** 2 / 2
        return 0.5 * mass * jnp.dot(v, v) - springs - mass * (q[1] + q[3])

    def constraint(q, t):
        yb = 0.1 * jnp.sin(10 * t)
        xb = jnp.sqrt(1 - yb**2)
        return jnp.array([q[0] * xb + q[1] * yb, (q[0] - q[2]) ** 2 + (q[1] - q[3]) ** 2 - 1])

    system = gd.Lagrangian(lagrangian, constraint)
    inputs = data["inputs"]
    q0, v0 = np.array(inputs["p0"], float), np.array(inputs["q0"], float)
    for parts, tolerances in ((1, (1e-8, 1e-6, 1e-4)), (3, (1e-11, 1e-9, 1e-6))):
        q, v = q0, v0
        for k in range(parts):
            trajectory = gd.integrate(
                system, q, v, t0=3 * k / parts, t1=3 * (k + 1) / parts, steps=3000, save_every=100
            )
            q, v = trajectory.q[-1], trajectory.v[-1]
        for value, name, rtol in zip((q, v, trajectory.multipliers[-1]), ("p", "q", "lam"), tolerances, strict=True):
            np.testing.assert_allclose(value, np.array(data["reference"][name], float), rtol=rtol)
        residual = jax.vmap(constraint)(trajectory.q, trajectory.t)
        assert np.max(np.abs(residual)) < 1e-12


def test_drag_loses_what_the_rayleigh_function_says():
    """dE/dt = −2R: on the line with drag c the velocity is exp(−c t/m). Expected 2e-16."""
    system = gd.System(gd.spaces.Euclidean(1), [2.0], gd.Drag(0.6))
    trajectory = gd.integrate(system, [[0.0]], [[1.0]], t1=1.0, steps=50)
    np.testing.assert_allclose(trajectory.v[:, 0, 0], np.exp(-0.3 * trajectory.t), rtol=1e-13)


def test_energy_momentum_hamiltonian():
    """p = m g v and H(q, p) = E(q, v) on H³, by hand."""
    system, q0, v0 = elastic_rod("H3")
    p = gd.momentum(system, np.asarray(q0).tolist(), np.asarray(v0).tolist())  # lists as good as arrays
    by_hand = jax.vmap(lambda q, v: system.space.metric(q) @ v)(q0, v0)
    np.testing.assert_allclose(p, by_hand, rtol=1e-15)
    kinetic = 0.5 * np.sum(np.asarray(p) * np.asarray(v0))
    np.testing.assert_allclose(gd.energy(system, q0, v0), kinetic, rtol=1e-14)
    np.testing.assert_allclose(gd.hamilton.hamiltonian(system, q0, p), kinetic, rtol=1e-14)


@pytest.mark.long
@pytest.mark.parametrize(
    "space", [gd.spaces.Euclidean(2), gd.spaces.Sphere(3, "polar"), gd.spaces.Hyperbolic(2)], ids=repr
)
@pytest.mark.parametrize("stiffness", [1.0, None])
def test_builders(space, stiffness):
    """Distances as asked for, at rest: no force, and a rigid body on its constraints."""
    for builder, count in ((gd.builders.rod, 2), (gd.builders.triangle, 3)):
        system, q0 = builder(space, 1.2, stiffness=stiffness)
        for i in range(count):
            for j in range(i):
                assert abs(gd.distance(space, q0[i], q0[j]) - 1.2) < 1e-14
        system.check(jnp.zeros(()), np.asarray(q0), np.zeros((count, space.dim)))
