"""Level sets and linkages: curvature and bending from constraints alone, and motion."""

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from helpers.cases import case
from scipy.integrate import solve_ivp

import geodyn as gd
from geodyn._geometry.derived.level_set import regular_inverse

matplotlib.use("Agg")

L01, L02 = (case(name) for name in ("L01", "L02"))


def ring(x):
    return (jnp.sqrt(x[0] ** 2 + x[1] ** 2) - 2) ** 2 + x[2] ** 2 - 0.36


def clifford(x):
    return jnp.stack([x[:2] @ x[:2] - 0.5, x[2:] @ x[2:] - 0.5])


# The set, a point near it, and the Gaussian curvature and |II|² there: of a sphere of radius r in E³ 1/r², 2/r²; of a
# sphere of geodesic radius r in H³ 1/sinh² r, 2 coth² r; of a torus cos θ/(r (R + r cos θ)) (do Carmo, Curves and
# Surfaces, 3.3); of Clifford's torus in E⁴ 0 and 1/r² from each circle.
ZOO = {
    "great sphere": (gd.surfaces.LevelSet(gd.spaces.Sphere(3), lambda x: x[2]), [0.1, 0.4, 0.0], 1.0, 0.0),
    "sphere in H3": (
        gd.surfaces.LevelSet(gd.spaces.Hyperbolic(3), lambda x: x @ x - np.tanh(0.5) ** 2),
        [0.1, 0.4, 0.2],
        1 / np.sinh(1.0) ** 2,
        2 / np.tanh(1.0) ** 2,
    ),
    "torus": (gd.surfaces.LevelSet(3, ring), [2.0, 0.0, 0.6], 0.0, 1 / 0.36),
    "Clifford torus": (gd.surfaces.LevelSet(4, clifford), [0.7, 0.2, 0.3, 0.6], 0.0, 4.0),
}


@pytest.mark.long
@pytest.mark.parametrize("level_set, near, K, bending", ZOO.values(), ids=ZOO)
def test_known_surfaces(level_set, near, K, bending):
    """Closed forms at a point that `project` finds. Measured: 2e-15."""

    @jax.jit
    def found(x):
        x = level_set.project(x)
        E = level_set.tangent_basis(x)
        sectional = gd.sectional_curvature(level_set, x, E[0], E[0] + 2 * E[1])
        return x, E @ level_set.induced_metric(x) @ E.T, sectional, gd.surfaces.total_bending(level_set, x)

    x, gram, sectional, bent = found(jnp.array(near))
    gd.surfaces.check_level_set(level_set, x)
    np.testing.assert_allclose(level_set.residual(x), 0, atol=1e-15)
    np.testing.assert_allclose(gram, np.eye(2), atol=1e-14)
    np.testing.assert_allclose([sectional, bent], [K, bending], atol=1e-13)


@pytest.mark.long
def test_parametrisation_agrees():
    """An ellipsoid in an inhomogeneous space: constraints with the Gauss equation; a parametrisation, with its own
    metric; and the local chart of the level set. Measured: 2e-14."""
    space, axes = gd.spaces.Inhomogeneous(3), np.array([1.0, 1.3, 0.8])
    level_set = gd.surfaces.LevelSet(space, lambda x: jnp.sum((x / axes) ** 2) - 1)

    def angles(y):
        return axes * jnp.stack([jnp.sin(y[0]) * jnp.cos(y[1]), jnp.sin(y[0]) * jnp.sin(y[1]), jnp.cos(y[0])])

    surface, y = gd.spaces.Embedded(angles, space, 2), jnp.array([0.9, 0.6])

    def measures(s, x):
        return jnp.stack([gd.surfaces.gaussian_curvature(s, x), gd.surfaces.total_bending(s, x)])

    @jax.jit
    def found(y):
        chart = level_set.chart(angles(y))
        return measures(surface, y), measures(level_set, angles(y)), measures(chart, jnp.zeros(2))

    of_surface, of_set, of_chart = found(y)
    np.testing.assert_allclose(of_set, of_surface, rtol=1e-12)
    np.testing.assert_allclose(of_chart, of_surface, rtol=1e-12)


@pytest.mark.long
def test_derivatives_and_batches():
    """dK/dr = −2/r³ of spheres, where r is in the constraint and moves the point, both modes, many at once."""

    def curvature(r):
        level_set = gd.surfaces.LevelSet(3, lambda x: jnp.sum(x**2) - r**2)
        return gd.surfaces.gaussian_curvature(level_set, level_set.project(jnp.array([0.3, -1.0, 0.8])))

    r = jnp.array([1.0, 1.7])
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(curvature)))(r), -2 / r**3, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(curvature))(r[1]), -2 / r[1] ** 3, rtol=1e-12)


@pytest.mark.long
def test_geodesic_on_a_level_set():
    """A great circle of the sphere of radius 2. Measured: 7e-11 (Radau IIA, order 5)."""
    motion = gd.surfaces.LevelSet(3, lambda x: x @ x - 4).motion()
    x, v = jnp.array([2.0, 0.0, 0.0]), jnp.array([0.0, 0.6, 0.8])
    trajectory = gd.integrate(motion, x, v, t1=1.0, steps=10)
    np.testing.assert_allclose(trajectory.q[-1], x * np.cos(0.5) + 2 * v * np.sin(0.5), atol=1e-9)


@pytest.mark.long
def test_exponential_map_of_a_level_set():
    """On the sphere of radius 2: great circles, and back by `log`; NaN for a point off the set. Measured 4e-13."""
    x, v = jnp.array([2.0, 0.0, 0.0]), jnp.array([0.0, 0.6, 0.8])

    @jax.jit
    def there_and_back(r, y):
        sphere = gd.surfaces.LevelSet(3, lambda x: x @ x - r**2)
        ways = gd.exp(sphere, x, v), gd.log(sphere, x, y), gd.distance(sphere, x, y)
        return gd.geodesic(sphere, x, v, jnp.array([-2.0])), *ways

    y = x * np.cos(0.5) + 2 * v * np.sin(0.5)
    (point, velocity), there, back, length = there_and_back(2.0, y)
    np.testing.assert_allclose(point[0], x * np.cos(1) - 2 * v * np.sin(1), rtol=0, atol=1e-9)
    np.testing.assert_allclose(velocity[0], v * np.cos(1) + x / 2 * np.sin(1), rtol=0, atol=1e-9)
    np.testing.assert_allclose(there, y, rtol=0, atol=1e-9)
    np.testing.assert_allclose(back, v, rtol=0, atol=1e-9)
    np.testing.assert_allclose(length, 1, rtol=0, atol=1e-9)
    assert np.all(np.isnan(jnp.append(*there_and_back(2.0, 1.1 * y)[2:])))


@pytest.mark.long
def test_configurations_of_a_rigid_body():
    """Two masses on a rod: E³ × S² with the reduced mass, R = 2/(μℓ²). Measured: 2e-15."""
    system, q = gd.builders.rod(gd.spaces.Euclidean(3), 1.5, masses=jnp.array([1.0, 3.0]), stiffness=None)
    space = gd.linkages.configuration_space(system, q)
    assert space.dim == 5
    R = jax.jit(lambda x: gd.scalar_curvature(space, x))(q.reshape(-1))
    np.testing.assert_allclose(R, 2 / (0.75 * 1.5**2), rtol=1e-13)


@jax.jit
def measures(span, rod_mass, hinge_mass, q):
    system, _ = gd.linkages.pinned_chain(4, span, rod_mass=rod_mass, hinge_mass=hinge_mass)
    space = gd.linkages.configuration_space(system, q)
    return gd.surfaces.gaussian_curvature(space, q.reshape(-1)), gd.surfaces.total_bending(space, q.reshape(-1))


def test_case_L01():
    """K and |II|² of M⁴_L at seven configurations and four masses. Measured: 3e-15, of 1e-10."""
    for row in L01["reference"]["rows"]:
        q = jnp.array(list(map(float, L01["inputs"]["configurations"][row["config"]]))).reshape(3, 2)
        K, bending = measures(*(float(row[name]) for name in ("L", "me", "mv")), q)
        np.testing.assert_allclose([K, bending], [float(row["K"]), float(row["II2"])], rtol=1e-13)


@pytest.mark.long
def test_case_L02():
    """The area of M⁴_L and Gauss–Bonnet, over the sphere that it is. Measured: area 2e-12, of 1e-8, ∫K dA 3e-7, of
    1e-5: exponentially better with more nodes, 2e-13 with 96."""

    @jax.jit
    def found(span, rod_mass, hinge_mass):
        system, q = gd.linkages.pinned_chain(4, span, rod_mass=rod_mass, hinge_mass=hinge_mass)
        space = gd.linkages.configuration_space(system, q)

        def onto(X):
            return gd.linkages.four_rod_configuration(span, X).reshape(-1)

        x, weights = gd.surfaces.sphere_quadrature(onto, space.space, 48)
        K = jax.lax.map(lambda x: gd.surfaces.gaussian_curvature(space, x), x, batch_size=512)
        return jnp.max(jnp.abs(jax.vmap(space.residual)(x))), jnp.sum(weights), weights @ K

    for row, wanted in zip(L02["inputs"]["rows"], L02["reference"]["rows"], strict=True):
        off, area, total = found(*(row[name] for name in ("L", "me", "mv")))
        assert off < 1e-14
        np.testing.assert_allclose(area, wanted["area"], rtol=1e-11)
        np.testing.assert_allclose(total, 4 * np.pi * wanted["total_curvature_over_4pi"], atol=2e-6)


def in_angles(q, v, rod_mass, hinge_mass, gravity, t1):
    """Hinges of four unit rods in a row at t1, from the angles of the rods: bodies with the moment of inertia
    rod_mass/12 about their middles, held together at both ends by forces (λ); DOP853."""
    ends = np.concatenate([np.zeros((1, 2)), q, [[3.0, 0.0]]])
    rods, turning = np.diff(ends, axis=0), np.diff(np.concatenate([np.zeros((1, 2)), v, np.zeros((1, 2))]), axis=0)
    angle, rate = np.arctan2(rods[:, 1], rods[:, 0]), rods[:, 0] * turning[:, 1] - rods[:, 1] * turning[:, 0]
    # Hinges and middles of rods, as sums of the rods before them.
    places = np.concatenate([np.tri(3, 4), np.tri(4, 4, -1) + np.eye(4) / 2])
    masses = np.array([hinge_mass] * 3 + [rod_mass] * 4)
    S, lever = places.T @ (masses[:, None] * places), places.T @ masses

    def rates(t, y):
        angle, rate = y[:4], y[4:]
        between = angle[:, None] - angle[None, :]
        C = np.stack([-np.sin(angle), np.cos(angle)])
        M = np.block([[S * np.cos(between) + rod_mass / 12 * np.eye(4), -C.T], [C, np.zeros((2, 2))]])
        forces = -(S * np.sin(between)) @ rate**2 - gravity * lever * np.cos(angle)
        closing = np.stack([np.cos(angle), np.sin(angle)]) @ rate**2
        return np.concatenate([rate, np.linalg.solve(M, np.concatenate([forces, closing]))[:4]])

    end = solve_ivp(rates, (0, t1), np.concatenate([angle, rate]), "DOP853", rtol=1e-13, atol=1e-14).y[:4, -1]
    return np.cumsum(np.stack([np.cos(end), np.sin(end)], axis=1), axis=0)[:3]


@pytest.mark.long
def test_motion_of_four_rods():
    """Free motion, which is a geodesic of M⁴_L, and motion in gravity, with masses on rods and hinges: against an
    integration in the angles of the rods. Measured: 2e-9, of which the energy drifts 3e-10."""
    rod_mass, hinge_mass = 1.0, 0.5

    @jax.jit
    def run(gravity, v):
        system, q = gd.linkages.pinned_chain(4, 3.0, rod_mass=rod_mass, hinge_mass=hinge_mass, gravity=gravity)
        q, v = gd.project(system, q, v)
        trajectory = gd.integrate(system, q, v, t1=1.0, steps=40, save_every=20)
        return trajectory.q, trajectory.v, trajectory.energy

    for gravity in (0.0, 1.0):
        q, v, energy = run(gravity, jnp.array([[1.0, 0.0], [0.3, 0.2], [0.0, -0.5]]))
        np.testing.assert_allclose(q[-1], in_angles(q[0], v[0], rod_mass, hinge_mass, gravity, 1.0), atol=1e-8)
        assert np.ptp(energy) < 1e-8


@pytest.mark.long
def test_a_spatial_linkage():
    """Two rods in space, pinned apart, swing as a pendulum about the line of the pins: with the radius
    r² = 1 − L²/4, θ'' = −(g/r) (m_e + m_v)/(⅔m_e + m_v) sin θ. Its end and the derivative of that in the rods' mass
    against scipy and its differences. Measured: 2e-10 and 4e-10."""
    span, hinge_mass, gravity = 1.2, 0.4, 2.0
    radius = np.sqrt(1 - span**2 / 4)
    q = jnp.array([[span / 2, radius * np.sin(1.0), -radius * np.cos(1.0)]])

    def height(rod_mass):
        pins = {0: (0.0, 0.0, 0.0), 2: (span, 0.0, 0.0)}
        masses = {"rod_masses": rod_mass, "hinge_masses": hinge_mass}
        system = gd.linkages.Linkage([(0, 1), (1, 2)], 1.0, pins, **masses, gravity=gravity, dim=3)
        return gd.integrate(system, q, 0 * q, t1=1.0, steps=20, save_every=20).q[-1, 0, 2]

    def swung(rod_mass):
        pull = gravity / radius * (rod_mass + hinge_mass) / (2 * rod_mass / 3 + hinge_mass)

        def rates(t, y):
            return (y[1], -pull * np.sin(y[0]))

        return -radius * np.cos(solve_ivp(rates, (0, 1.0), (1.0, 0.0), "DOP853", rtol=1e-13, atol=1e-14).y[0, -1])

    found, slope = jax.jit(lambda m: jax.jvp(height, (m,), (jnp.ones(()),)))(jnp.array(0.7))
    np.testing.assert_allclose(found, swung(0.7), atol=1e-9)
    np.testing.assert_allclose(slope, (swung(0.7 + 1e-4) - swung(0.7 - 1e-4)) / 2e-4, atol=1e-8)


def test_a_linkage_from_a_drawing():
    """A closed chain with a brace and one pin: lengths as drawn or as asked for; rods and hinges have their masses."""
    drawing, edges = [[0.0, 0.0], [1.1, 0.0], [1.0, 0.9], [0.0, 1.0]], [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]
    system, q = gd.linkages.linkage(drawing, edges, pins=(0,), rod_masses=[1.0, 2.0, 3.0, 4.0, 5.0], hinge_masses=0.5)
    np.testing.assert_array_equal(q, drawing[1:])
    np.testing.assert_array_equal(system.joints(q), drawing)
    mass = np.array([[1.0 + 2.0, 1.0, 0.0], [1.0, 10.0, 1.5], [0.0, 1.5, 7.0]]) / 3 + 0.5 * np.eye(3)
    np.testing.assert_allclose(system.mass, mass, rtol=1e-15)
    assert gd.linkages.configuration_space(system, q).dim == 1
    _, q = gd.linkages.linkage(drawing, edges[:4], pins=(0,), lengths=1.0)
    sides = np.diff(np.concatenate([[[0.0, 0.0]], q, [[0.0, 0.0]]]), axis=0)
    np.testing.assert_allclose(np.linalg.norm(sides, axis=1), 1, rtol=1e-14)


def test_sphere_of_four_rods():
    """Points of the sphere and configurations, to and fro, in all eight octants. Measured: 2e-16."""
    X = np.array(np.meshgrid([-0.5, 0.5], [-0.6, 0.6], [-1.0, 1.0])).reshape(3, -1).T
    X = jnp.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))
    q = jax.vmap(lambda X: gd.linkages.four_rod_configuration(2.3, X))(X)
    ends = jnp.pad(q, ((0, 0), (1, 1), (0, 0))).at[:, -1, 0].set(2.3)
    np.testing.assert_allclose(jnp.sum(jnp.diff(ends, axis=1) ** 2, axis=2), 1, rtol=1e-14)
    np.testing.assert_allclose(jax.vmap(lambda q: gd.linkages.four_rod_point(2.3, q))(q), X, atol=1e-14)


def test_pictures():
    """Rods where they are, pins as squares; colours of a function on the sphere, and curves on its near side only."""
    system, q = gd.linkages.pinned_chain(3, 2.0)
    ax = gd.plot.linkage(system, jnp.stack([q, 0.9 * q]), gd.plot.figure(4, 3).add_subplot())
    np.testing.assert_allclose([line.get_xydata() for line in ax.lines[:3]], [[[0, 0], q[0]], [*q], [q[1], [2, 0]]])
    assert [line.get_marker() for line in ax.lines[-2:]] == ["o", "s"]
    hanging = gd.linkages.Linkage([(0, 1)], 1.0, {0: (0, 0, 0)}, dim=3)
    assert gd.plot.linkage(hanging, [[0.6, 0.0, -0.8]]).name == "3d"
    equator = np.stack([np.cos(turn := np.linspace(0, 2 * np.pi, 40)), np.sin(turn), 0 * turn], axis=1)
    space = gd.plot.figure(4, 4).add_subplot(projection="3d")
    ax = gd.plot.on_sphere(lambda X: X[2], space, detail=6, curves=[equator], view=(10.0, 0.0), label="height")
    colours = ax.collections[0].get_facecolor()[:, :3]
    assert colours[0, 0] < colours[0, 2] and colours[-1, 0] > colours[-1, 2]
    x = ax.lines[-1].get_data_3d()[0]
    assert np.nanmin(x) > 0 and 15 < np.isfinite(x).sum() < 25
    with pytest.raises(ValueError, match="must be an Axes with projection='3d'"):
        gd.plot.on_sphere(lambda X: X[2], gd.plot.figure(4, 4).add_subplot())


SQUARE = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
AROUND = [(0, 1), (1, 2), (2, 3), (3, 0)]
WRONG = {
    "stretched tight": (
        lambda: gd.linkages.pinned_chain(4, 4.0),
        "pins 0 and 4 are 4 apart .* reach 4, .* is singular",
    ),
    "too far apart": (
        lambda: gd.linkages.pinned_chain(4, 4.5),
        "reach 4, so that the linkage cannot be assembled. Bring",
    ),
    "folded flat": (
        lambda: gd.linkages.linkage([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [1.0, 0.0]], AROUND, pins=(0,)),
        r"singular at this configuration: Rod between points \(0, 1\), .* Start from another configuration",
    ),
    "braced twice": (
        lambda: gd.linkages.linkage(SQUARE, [*AROUND, (0, 2), (1, 3)]),
        "or leave out a rod that braces what is rigid already",
    ),
    "no mass": (
        lambda: gd.linkages.pinned_chain(4, 3.0, hinge_mass=0.0),
        "joint 1 has no mass: give rod_masses or hinge",
    ),
    "rod of two pins": (
        lambda: gd.linkages.linkage(SQUARE, AROUND, pins=(0, 1)),
        r"must not join two pins.*: \(0, 1\)",
    ),
    "unknown pin": (lambda: gd.linkages.Linkage([(0, 1)], 1.0, {5: (0, 0)}), r"some of the joints 0 to 1.*got \[5\]"),
    "loose joint": (lambda: gd.linkages.linkage(SQUARE, AROUND[:2]), "edges must join all of the 4 joints"),
    "pin in space": (lambda: gd.linkages.Linkage([(0, 1)], 1.0, {0: (0, 0, 0)}), r"positions \[2\] in dim=2"),
    "shape of q0": (
        lambda: gd.integrate(gd.linkages.pinned_chain()[0], np.zeros((4, 2)), np.zeros((4, 2)), t1=1.0, steps=1),
        r"q0 must have shape \(3, 2\)",
    ),
    "start at a singular one": (
        lambda: gd.integrate(
            gd.linkages.Linkage(AROUND, 1.0, {0: (0, 0)}), *np.zeros((2, 3, 2)) + FLAT, t1=1.0, steps=1
        ),
        "singular at this configuration",
    ),
    "span of the sphere": (
        lambda: gd.linkages.four_rod_configuration(2.0, jnp.ones(3)),
        "span must lie between 2 and 4, got 2",
    ),
    "nothing held": (
        lambda: gd.linkages.configuration_space(gd.System(gd.spaces.Euclidean(2), [1.0]), np.zeros((1, 2))),
        "system has no constraints",
    ),
    "too many constraints": (
        lambda: gd.surfaces.LevelSet(2, lambda x: x),
        "constraint must return from 1 to 1 numbers",
    ),
    "off the set": (
        lambda: gd.surfaces.check_level_set(ZOO["torus"][0], np.zeros(3)),
        r"not on the set: φ = \[3.64\]; take",
    ),
    "rank of the constraint": (
        lambda: gd.surfaces.check_level_set(gd.surfaces.LevelSet(2, lambda x: x @ x), np.zeros(2)),
        "lose rank at x = .*: of 1 their gradients span 0 directions",
    ),
    "no surface": (
        lambda: gd.surfaces.gaussian_curvature(gd.spaces.Sphere(3), jnp.zeros(3)),
        "surface must have dim 2, got 3",
    ),
}
FLAT = np.array([[[1.0, 0.0], [2.0, 0.0], [1.0, 0.0]], np.zeros((3, 2))])


@pytest.mark.parametrize("call, message", WRONG.values(), ids=WRONG)
def test_wrong_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_singular_is_nan():
    """Inside jit nothing can be raised: curvature where the constraint loses rank is NaN, not a number of any size."""
    nearly = jnp.array([[1.0, 1.0], [1.0, 1.0 + 4e-16]])
    assert np.isnan(regular_inverse(nearly)).all()
    cone = gd.surfaces.LevelSet(3, lambda x: x[0] ** 2 + x[1] ** 2 - x[2] ** 2)
    assert np.isnan(gd.surfaces.gaussian_curvature(cone, jnp.zeros(3)))


@pytest.mark.long
def test_a_linkage_that_goes_flat_says_so():
    """A parallelogram of equal rods, which folds flat with its pins; more steps would not help. A step that is far too
    long, elsewhere, is told to be shorter."""
    box = gd.linkages.Linkage([(0, 1), (1, 2), (2, 3)], 1.0, {0: [0.0, 0.0], 3: [1.0, 0.0]})
    x, y = np.cos(np.pi / 3), np.sin(np.pi / 3)
    q0, v0 = jnp.array([[x, y], [1 + x, y]]), jnp.array([[y, -x], [y, -x]])
    with pytest.raises(gd.IntegrationError, match=r"at t = 1\.0.* failed: the constraints become dependent here"):
        gd.integrate(box, q0, v0, t1=1.5, steps=25)
    with pytest.raises(gd.IntegrationError, match=r"did not converge: take more steps"):
        gd.integrate(box, q0, 1000 * v0, t1=0.03, steps=1)
