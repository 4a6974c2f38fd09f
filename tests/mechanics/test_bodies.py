"""Bodies of every kind: measures of simplices, fields, builders, meshes, combined bodies; and what they conserve."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import geodyn as gd
from geodyn._engine.program.members import natively
from geodyn._integrators.step.collocation import acceleration_level, position_level, velocity_level

CURVED = {
    "S3": gd.spaces.Sphere(3),
    "H3": gd.spaces.Hyperbolic(3),
    "H3 polar": gd.spaces.Hyperbolic(3, "polar"),
    "S2": gd.spaces.Sphere(2),
    "H2": gd.spaces.Hyperbolic(2),
}
SIGN = {"S": 1, "H": -1}
POINTS = np.array([[0.3, 0.1, -0.2], [-0.4, 0.2, 0.1], [0.1, -0.5, 0.3], [0.2, 0.3, 0.6]])


def placed(space, X):
    """Coordinates of the points of a space of constant curvature with the gnomonic coordinates X."""
    sign = 1 if isinstance(space, gd.spaces.Sphere) else -1
    w = 1 / np.sqrt(1 + sign * np.sum(X**2, axis=1, keepdims=True))
    return jax.vmap(space.coordinates)(jnp.asarray(np.hstack([X, np.ones_like(w)]) * w))


def angles(space, X):
    """Angles of a triangle of the embedding, by tangent vectors and arccos."""
    sign = 1 if isinstance(space, gd.spaces.Sphere) else -1
    J = np.diag([1.0] * (X.shape[1] - 1) + [sign])
    turned = [np.roll(X, -i, axis=0) for i in range(3)]

    def tangent(a, b):
        return (lambda u: u / np.sqrt(u @ J @ u))(b - sign * (a @ J @ b) * a)

    return [np.arccos(tangent(a, b) @ J @ tangent(a, c)) for a, b, c in turned]


@pytest.mark.parametrize("name", CURVED)
def test_area_is_the_excess_of_the_angles(name):
    """Girard's theorem, with angles from the embedding; and the angle itself."""
    space = CURVED[name]
    q = placed(space, POINTS[:3, : space.dim] * 0.8)
    wanted = angles(space, np.asarray(jax.vmap(space.embed)(q)))
    np.testing.assert_allclose(gd.cells.area(space, *q), SIGN[name[0]] * (sum(wanted) - np.pi), rtol=1e-12)
    np.testing.assert_allclose(gd.cells.angle(space, q[2], q[0], q[1]), wanted[0], rtol=1e-12)


@pytest.mark.parametrize("name", ["S3", "H3"])
def test_small_triangles_lose_no_digits(name):
    """A triangle of size 1e-6 has the flat area; the excess of the angles would keep no digit."""
    x = 1e-6 * POINTS[:3]
    flat = 4 * np.linalg.norm(np.cross(x[1] - x[0], x[2] - x[0])) / 2
    np.testing.assert_allclose(gd.cells.area(CURVED[name], *jnp.asarray(x)), flat, rtol=1e-10)


def test_points_may_be_lists():
    np.testing.assert_allclose(gd.cells.angle(FLAT, [0, 0], [0, 1], [1, 0]), np.pi / 4, rtol=1e-14)
    np.testing.assert_allclose(gd.cells.area(FLAT, [0, 0], [0, 1], [1, 0]), 0.5, rtol=1e-14)


def cone_volume(space, q, nodes=14):
    """Volume of a geodesic tetrahedron: det(X)/6 times the mean of (κ|X|²)⁻² over the flat one, by Gauss quadrature."""
    sign = 1 if isinstance(space, gd.spaces.Sphere) else -1
    X, J = np.asarray(jax.vmap(space.embed)(q)), np.diag([1.0, 1.0, 1.0, sign])
    t, w = np.polynomial.legendre.leggauss(nodes)
    total = 0.0
    for (a, wa), (b, wb), (c, wc) in itertools.product(zip((t + 1) / 2, w / 2), repeat=3):
        weights = np.array([a, (1 - a) * b, (1 - a) * (1 - b) * c, (1 - a) * (1 - b) * (1 - c)])
        y = weights @ X
        total += 6 * wa * wb * wc * (1 - a) ** 2 * (1 - b) * (sign * y @ J @ y) ** -2
    return abs(np.linalg.det(X)) / 6 * total


def test_volume():
    """Exact in flat space, and in S³ and H³ (1e-12 against a quadrature in the embedding; measured 2e-15)."""
    flat = abs(np.linalg.det(POINTS[1:] - POINTS[0])) / 6
    np.testing.assert_allclose(gd.cells.volume(gd.spaces.Euclidean(3), *jnp.asarray(POINTS)), flat, rtol=1e-13)
    for name in ("S3", "H3"):
        for size in (1.0, 0.25, 1e-3):
            q = placed(CURVED[name], size * POINTS)
            np.testing.assert_allclose(gd.cells.volume(CURVED[name], *q), cone_volume(CURVED[name], q, 20), rtol=1e-11)


@pytest.mark.parametrize("name, edges", [("S3", [1e-3, 1.0, np.pi / 2, 1.8]), ("H3", [1e-3, 1.0, 3.0, 5.0])])
def test_regular_tetrahedra(name, edges):
    """Volume and its derivative in the edge by Schläfli's formula, dV = κ/2 Σ ℓ dθ with the dihedral angle
    cos θ = C/(1 + 2C), C = cos ℓ or cosh ℓ: 1e-12; measured 1e-14. An octant of S³ is π²/8."""
    space, kappa, cos, sin = CURVED[name], SIGN[name[0]], *((np.cos, np.sin) if name == "S3" else (np.cosh, np.sinh))

    # θ' = −C'/((1 + 2C)² sin θ) with (1 + 2C)² sin² θ = (1 + C)(1 + 3C)
    def rate(d):
        return 3 * d * sin(d) / ((1 + 2 * cos(d)) * np.sqrt((1 + cos(d)) * (1 + 3 * cos(d))))

    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3)

    @jax.jit
    @jax.value_and_grad
    def volume(edge):
        half = {1: jnp.sin, -1: jnp.sinh}[kappa](edge / 2) * np.sqrt(3 / 8) * 2  # the chord's circumradius
        X = half * jnp.asarray(corners)
        w = jnp.sqrt(1 - kappa * half**2)
        return gd.cells.volume(space, *jax.vmap(lambda x: space.coordinates(jnp.append(x, w)))(X))

    for edge in edges:
        value, slope = volume(edge)
        np.testing.assert_allclose(value, quad(rate, 0, edge, epsabs=0, epsrel=1e-13)[0], rtol=1e-12)
        np.testing.assert_allclose(slope, rate(edge), rtol=1e-11)
    if kappa > 0:
        np.testing.assert_allclose(volume(np.pi / 2)[0], np.pi**2 / 8, rtol=1e-13)


@pytest.mark.long
def test_measures_where_simplices_degenerate():
    """Zero, with the derivative zero that is promised, not NaN."""
    for space in (gd.spaces.Euclidean(3), gd.spaces.Sphere(3), gd.spaces.Hyperbolic(3)):
        line = jnp.array([[-0.1, 0.0, 0.0], [0.0, 0.0, 0.0], [0.1, 0.0, 0.0], [0.2, 0.0, 0.0]])
        for measure, points in ((gd.cells.area, line[:3]), (gd.cells.volume, line)):
            value, slope = jax.value_and_grad(lambda x, measure=measure, space=space: measure(space, *x))(points)
            assert value < 1e-8 and bool(jnp.all(jnp.isfinite(slope)))


@pytest.mark.long
def test_a_straight_bending_spring_is_smooth():
    """Energy ½ k β² of the bend β: at β = 0 its second derivative is that of three points on a line, k (2/ℓ)² for the
    middle one, and its gradient vanishes. Catches a guard that drops it."""
    x = jnp.array([[-0.5, 0.0], [0.0, 0.0], [0.5, 0.0]])

    def energy(y):
        return gd.Angle([(0, 1, 2)], 3.0).energy(gd.spaces.Euclidean(2), jnp.stack([x[0], y, x[2]]))

    np.testing.assert_allclose(jax.grad(energy)(x[1]), 0, atol=1e-15)
    np.testing.assert_allclose(jax.hessian(energy)(x[1]), [[0, 0], [0, 3 * 16]], atol=1e-10)


def test_straight_chains_have_no_nan():
    """Where rounding puts the square of a bend below zero: the angle is π, the force of a straight spring zero."""
    space = gd.spaces.Sphere(3)

    @jax.jit
    def angle_and_slope(x):
        return gd.cells.angle(space, *x), jax.grad(lambda x: gd.Angle([(0, 1, 2)], 3.0).energy(space, x))(x)

    for direction in np.random.default_rng(0).normal(size=(8, 3)):
        angle, slope = angle_and_slope(jnp.asarray(np.outer([-0.11, 0.07, 0.23], direction / 4)))
        assert abs(angle - np.pi) < 1e-7
        assert np.max(np.abs(slope)) < 1e-12


ELASTIC = [
    gd.Spring(list(itertools.combinations(range(4), 2)), 2.0, 0.7),
    gd.Area([(0, 1, 2), (1, 2, 3)], 3.0, 0.2),
    gd.Volume([(0, 1, 2, 3)], 50.0, 0.03),
    gd.Angle([(0, 1, 2), (1, 2, 3)], 0.2, [1.0, np.pi]),
]


@pytest.mark.long
@pytest.mark.parametrize("element", ELASTIC, ids=lambda e: type(e).__name__)
def test_internal_forces_leave_every_momentum_map_alone(element):
    """dV(K) = 0 for the Killing fields of S³ and H³ (Noether), while V does change along other fields;
    and no scatter in the force, so that a step can be machine code of our own."""
    for name in ("S3", "H3"):
        space = CURVED[name]
        system = gd.System(space, [1.0, 2.0, 1.5, 0.7], element)
        q = jnp.asarray(POINTS)

        def value(q, s=system):
            return s.potential_energy(0.0, q.reshape(-1))

        def change(v, q=q, value=value):
            return jax.jvp(value, (q,), (v,))[1]

        rates = jax.vmap(change)(jax.vmap(space.killing_fields)(q).swapaxes(0, 1))
        assert np.max(np.abs(rates)) < 1e-13 and abs(change(q**2)) > 1e-3
        jaxpr = jax.make_jaxpr(lambda q, s=system: s.force(0.0, q, q, jnp.zeros(0)))(q.reshape(-1))
        assert natively(jaxpr, [q.reshape(-1)], ()) is not None


@pytest.mark.long
def test_a_membrane_moves_and_conserves():
    """A triangle with springs and an area on S², launched by a Killing field: energy, three momenta over t = 2."""
    space = gd.spaces.Sphere(2)
    system, q0 = gd.builders.combine(
        gd.builders.triangle(space, 0.6, masses=[1.0, 2.0, 1.5]), elements=[gd.Area([(0, 1, 2)], 30.0, 0.2)]
    )
    trajectory = gd.integrate(
        system, q0, gd.builders.velocities(space, [0.3, 0.1, 0.4], q0), t1=2.0, steps=100, method=gd.Gauss(2)
    )
    momenta = jax.vmap(lambda q, v: gd.hamilton.killing_momentum(system, q, v))(trajectory.q, trajectory.v)
    np.testing.assert_allclose(momenta, jnp.broadcast_to(momenta[:1], momenta.shape), atol=2e-12)
    np.testing.assert_allclose(trajectory.energy, trajectory.energy[0], rtol=1e-7)


MOVING = {
    "triangle in H3": (gd.builders.triangle, gd.spaces.Hyperbolic(3), 0.8),
    "rod in S3": (gd.builders.rod, gd.spaces.Sphere(3), 0.7),
    "rod in H2 x E": (gd.builders.rod, gd.spaces.Product(gd.spaces.Hyperbolic(2), gd.spaces.Euclidean(1)), 0.9),
}


@pytest.mark.long
@pytest.mark.parametrize("name", MOVING)
def test_every_momentum_map_is_conserved(name):
    """Of all Killing fields of the space, by Gauss 3 in a generic motion that stretches every spring: within 1e-12 per
    unit of time. Seen: 3e-16."""
    builder, space, size = MOVING[name]
    system, q0 = builder(space, size)
    system = gd.System(space, np.linspace(1.0, 2.0, len(q0)), *system.elements)
    trajectory = gd.integrate(system, q0, 0.4 * POINTS[: len(q0)], t1=2.0, steps=200, save_every=20)
    momenta = jax.vmap(lambda q, v: gd.hamilton.killing_momentum(system, q, v))(trajectory.q, trajectory.v)
    np.testing.assert_allclose(momenta, jnp.broadcast_to(momenta[:1], momenta.shape), rtol=0, atol=2e-12)
    assert system.potential_energy(0.0, trajectory.q[-1].reshape(-1)) > 1e-3


RIGID = {
    "rod": (gd.spaces.Hyperbolic(3), [gd.Rod([(0, 1)], 1.0)], 2, 3),
    "area": (
        gd.spaces.Euclidean(2),
        [gd.cells.RigidArea([(0, 1, 2)], 0.3), gd.cells.RigidAngle([(0, 1, 2)], 1.0)],
        3,
        2,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", RIGID)
def test_constraints_stay_put(name):
    """800 generic steps of rs2 or rs3: position, velocity and, of rs3, acceleration residuals at the end stay at
    rounding, without drift. Seen of the rod: 7e-16, 3e-16, 1e-15; in a trap 2e-14, also after 10⁵ steps, which
    benchmarks/orders.py takes."""
    space, elements, count, levels = RIGID[name]
    system = gd.System(space, [1.0, 2.0, 1.5][:count], *elements)

    @jax.jit
    def some_steps(q, v):
        run = gd.integrate(system, q, v, t1=0.2, steps=40, save_every=40, method=gd.RadauIIA(levels, f"rs{levels}"))
        return run.q[-1], run.v[-1], residuals(system, levels, run.q[-1], run.v[-1], run.multipliers[-1])

    q, v = gd.project(system, POINTS[:count, : space.dim], 0.5 * POINTS[1 : 1 + count, : space.dim])
    worst = np.zeros(levels)
    for _ in range(20):
        q, v, found = some_steps(q, v)
        worst = np.maximum(worst, found)
    assert np.all(worst < [1e-14, 1e-13, 1e-12][:levels]), worst


@pytest.mark.long
def test_an_incompressible_tetrahedron_is_found():
    """The projection meets a volume, an area and an angle together, to rounding."""
    rigid = [
        gd.cells.RigidVolume([(0, 1, 2, 3)], 0.02),
        gd.cells.RigidArea([(0, 1, 2)], 0.15),
        gd.cells.RigidAngle([(0, 3, 1)], 1.2),
    ]
    system = gd.System(gd.spaces.Euclidean(3), [1.0, 2.0, 1.5, 0.7], *rigid)
    q0, v0 = gd.project(system, POINTS, POINTS[::-1])
    assert np.max(residuals(system, 2, q0, v0, jnp.zeros(3))) < 1e-14


@partial(jax.jit, static_argnums=1)
def residuals(system, count, q, v, lam):
    """Largest |φ|, |dφ/dt| and |d²φ/dt²|, of these the first so many."""
    t, q, v = jnp.zeros(()), q.reshape(-1), v.reshape(-1)
    at = (system, 1.0, t, q, v, system.momentum(t, q, v), lam)
    levels = (position_level, velocity_level, acceleration_level)[:count]
    return jnp.stack([jnp.max(jnp.abs(level(*at))) for level in levels])


PERIODS = {
    ("Kepler", 1): lambda k, E: 2 * np.pi * (-2 * (E + 1j * k)) ** -0.5,
    ("Kepler", 0): lambda k, E: 2 * np.pi * k / (-2 * E) ** 1.5,
    ("Kepler", -1): lambda k, E: np.pi * ((-2 * (E + k)) ** -0.5 - (2 * (k - E)) ** -0.5),
    ("Harmonic", 1): lambda k, E: 2 * np.pi / (k + 2 * E) ** 0.5,
    ("Harmonic", 0): lambda k, E: 2 * np.pi / k**0.5,
    ("Harmonic", -1): lambda k, E: 2 * np.pi / (k - 2 * E) ** 0.5,
}
"""Periods of a unit mass, by residues: ∮ du/((1 + κu²) √(2E + 2ku − L²(κ + u²))) with u = cot r, and likewise."""


@pytest.mark.long
@pytest.mark.parametrize("potential, curvature", PERIODS)
def test_orbits_close(potential, curvature):
    """A generic orbit is back after its period, which depends on its energy alone: Bertrand's theorem in spaces of
    constant curvature. Fails for −k/d or ½ k d² where space is curved."""
    space = {1: gd.spaces.Sphere(3), 0: gd.spaces.Euclidean(3), -1: gd.spaces.Hyperbolic(3)}[curvature]
    k, centre, speed = 2.5, jnp.array([0.1, -0.05, 0.02]), {"Kepler": 1.5, "Harmonic": 0.9}[potential]
    system = gd.System(space, [1.0], getattr(gd, potential)(k, centre))

    def unit(x, v):
        return v / gd.norm(space, x, v)

    q0 = gd.exp(space, centre, 0.7 * unit(centre, jnp.array([0.8, 0.3, 0.4])))[None]
    v0 = speed * unit(q0[0], jnp.array([0.1, 0.5, 0.3]))[None]
    period = PERIODS[potential, curvature](k, float(gd.energy(system, q0, v0)))
    trajectory = gd.integrate(system, q0, v0, t1=abs(np.imag(period)) or period, steps=400)
    np.testing.assert_allclose(trajectory.q[-1], q0, atol=1e-8)
    np.testing.assert_allclose(trajectory.v[-1], v0, atol=1e-8)
    assert np.max(np.abs(trajectory.q[200] - q0)) > 0.2


BUILT = {
    "rod": (gd.builders.rod, (1.2,), 2, 1),
    "tetrahedron": (gd.builders.tetrahedron, (0.9,), 4, 6),
    "ring": (gd.builders.ring, (5, 0.7), 5, 5),
    "chain": (gd.builders.chain, (4, 0.3), 4, 3),
    "lattice": (gd.builders.lattice, ((2, 3), 0.4), 6, 7),
    "icosahedron": (gd.builders.icosahedron, (0.8,), 12, 30),
}


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.parametrize("name", BUILT)
def test_builders(name):
    """Points and edges counted; all edges of one shell equally long, of the length that was asked for; at rest."""
    builder, arguments, points, count = BUILT[name]
    for space in (gd.spaces.Euclidean(3), gd.spaces.Sphere(3, "polar"), gd.spaces.Hyperbolic(3)):
        system, q0 = builder(space, *arguments)
        edges = gd.builders.edges(system)
        assert q0.shape == (points, 3) and len(set(edges)) == count
        lengths = np.array([gd.distance(space, q0[i], q0[j]) for i, j in edges])
        assert gd.energy(system, q0, 0 * q0) < 1e-28
        if name in ("rod", "tetrahedron"):
            np.testing.assert_allclose(lengths, arguments[0], rtol=1e-13)
        if name in ("ring", "chain", "icosahedron"):
            np.testing.assert_allclose(lengths, lengths[0], rtol=1e-12)


def test_lattice_of_the_plane():
    """Sites, diagonals across each cell and not around the corner, a length that is asked for."""
    system, q0 = gd.builders.lattice(gd.spaces.Euclidean(2), (3, 2), 0.5, diagonals=True, length=0.4, centre=[1.0, 2.0])
    np.testing.assert_allclose(q0[:2], [[0.5, 1.75], [0.5, 2.25]], atol=1e-15)
    assert len(gd.builders.edges(system)) == 7 + 4
    np.testing.assert_allclose(system.elements[0].length, 0.4)
    system, q0 = gd.builders.ring(gd.spaces.Hyperbolic(2), 6, 0.5, stiffness=None, length=0.45)
    assert np.max(np.abs(system.constraint(0.0, q0.reshape(-1)))) < 1e-14


SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])


def test_meshes(tmp_path):
    """Arrays and files make the same body; a solid's tetrahedra are found among other cells."""
    meshio = pytest.importorskip("meshio")
    cells = np.array([[0, 1, 2], [0, 2, 3]])
    system, q0 = gd.builders.mesh(gd.spaces.Euclidean(2), (SQUARE, cells))
    assert gd.builders.edges(system) == [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)]
    np.testing.assert_allclose(q0, SQUARE, atol=1e-15)
    path = tmp_path / "square.vtk"
    meshio.Mesh(np.hstack([SQUARE, np.zeros((4, 1))]), [("triangle", cells)]).write(path)
    again, q = gd.builders.mesh(gd.spaces.Euclidean(2), str(path))
    assert gd.builders.edges(again) == gd.builders.edges(system)
    np.testing.assert_array_equal(q, q0)
    solid = tmp_path / "solid.vtk"
    meshio.Mesh(POINTS, [("triangle", [[0, 1, 2]]), ("tetra", [[0, 1, 2, 3]])]).write(solid)
    assert len(gd.builders.edges(gd.builders.mesh(gd.spaces.Hyperbolic(3), solid)[0])) == 6


class Ramp(gd.AbstractPotential):
    """A potential on all points of its body that depends on time."""

    def energy(self, space, x, t):
        return t * jnp.sum(x[:, 0]) / x.shape[0]


@pytest.mark.long
def test_combined_bodies():
    """Energies add, elements stay with their own points and are named by the joined ones, also the user's own."""
    space = gd.spaces.Hyperbolic(2)
    soft = gd.builders.triangle(space, 0.5)
    ramp = (gd.System(space, [1.0, 3.0], Ramp(), gd.Drag([0.1, 0.2])), jnp.array([[0.3, 0.1], [0.2, 0.4]]))
    rigid = gd.builders.rod(space, 0.3, stiffness=None, centre=[-0.3, -0.3])
    link = gd.Spring([(0, 5)], 2.0, 0.1)
    system, q0 = gd.builders.combine(gd.builders.combine(soft, ramp), rigid, elements=[link])
    assert gd.builders.edges(system) == [(0, 1), (0, 2), (1, 2), (5, 6), (0, 5)]
    np.testing.assert_array_equal(system.masses, [1, 1, 1, 1, 3, 1, 1])
    v0 = 0.1 * (1 + q0)
    parts = [gd.energy(s, x, 0.1 * (1 + x), t=2.0) for s, x in (soft, ramp, rigid)]
    np.testing.assert_allclose(gd.energy(system, q0, v0, t=2.0), sum(parts) + link.energy(space, q0), rtol=1e-14)
    by_hand = ramp[0].rayleigh_at(0.0, ramp[1].reshape(-1), v0[3:5].reshape(-1))
    np.testing.assert_allclose(system.rayleigh_at(0.0, q0.reshape(-1), v0.reshape(-1)), by_hand, rtol=1e-14)
    with pytest.raises(ValueError, match=r"Rod between points \(5, 6\) by"):
        gd.integrate(system, 1.2 * q0, v0, t1=1.0, steps=10)


class Centrifugal(gd.AbstractPotential):
    """A user's potential that asks for the masses, and for the time."""

    def energy(self, space, x, t, masses):
        return -0.5 * t * jnp.sum(masses[:, None] * x**2)


class Turned(gd.AbstractPotential, gd.rigid.AbstractOnBodies):
    """One on the poses of bodies: masses are of the bodies, not of their points."""

    def energy(self, space, bodies, masses):
        return jnp.dot(masses, bodies.rotation[:, 0, 0])


@pytest.mark.long
def test_elements_see_the_masses_of_their_system():
    """V = Σ m_i … of fields by the masses of the system, alone, combined, and on rods and rigid bodies; measured 0."""
    space, centre, x = gd.spaces.Euclidean(2), [0.0, 0.0], np.array([[3.0, 4.0], [0.0, 2.0]])
    pull = np.array([[1.0, 0.5], [0.2, -3.0]])
    wanted = [
        (gd.Gravity(9.81), 9.81 * (1 * 4 + 2 * 2)),
        (gd.Gravity(2.0, axis=0), 2.0 * 3),
        (gd.Kepler(0.7, centre, per_mass=True), -0.7 * (1 / 5 + 2 / 2)),
        (gd.Kepler(0.7, centre), -0.7 * (1 / 5 + 1 / 2)),
        (gd.Harmonic(0.7, centre, per_mass=True), 0.35 * (1 * 25 + 2 * 4)),
        (gd.loads.PointLoad(pull, per_mass=True), -(1 * 5.0 + 2 * -6.0)),
        (Centrifugal(), -0.5 * 0.3 * (25 + 2 * 4)),
    ]

    def energy(system, q):
        return gd.energy(system, q, np.zeros_like(q), 0.3)

    for element, value in wanted:
        alone = gd.System(space, [1.0, 2.0], element), jnp.asarray(x)
        np.testing.assert_allclose(energy(*alone), value, rtol=1e-14)
        heavy = gd.System(space, [50.0]), jnp.ones((1, 2))
        np.testing.assert_allclose(energy(*gd.builders.combine(heavy, alone)), value, rtol=1e-14)
    boxes = gd.rigid.RigidBodies(np.eye(3), [1.0, 2.0], gd.Gravity(9.81), Turned(), points=[(1, [1.0, 0.0, 5.0])])
    np.testing.assert_allclose(energy(boxes, boxes.state(position=np.eye(3)[1:])[0]), 2 * 9.81 + 3, rtol=1e-14)
    rods = {"rod_masses": [0.4, 0.6], "hinge_masses": [9.0, 1.0, 2.0]}
    chain = gd.linkages.Linkage([(0, 1), (1, 2)], 1.0, {0: [0.0, 0.0]}, gd.Gravity(9.81), **rods)
    np.testing.assert_allclose(energy(chain, np.array([[0.0, 1.0], [0.0, 2.0]])), 9.81 * (1.5 + 2 * 2.3), rtol=1e-14)


OLD_GRAVITY = {
    "masses": lambda: gd.Gravity([1.0, 2.0]),
    "masses, strength": lambda: gd.Gravity(1.0, 9.81),
    "masses, strength, axis": lambda: gd.Gravity(1.0, 9.81, axis=0),
    "masses, strength by name": lambda: gd.Gravity(1.0, strength=9.81),
    "masses by name": lambda: gd.Gravity(masses=1.0),
}


@pytest.mark.parametrize("call", OLD_GRAVITY.values(), ids=OLD_GRAVITY)
def test_gravity_of_masses_says_what_to_write(call):
    with pytest.raises(ValueError, match=r"Gravity\(strength=9.81, \*, axis=-1\) takes no masses: it sees"):
        call()


def test_velocities():
    """A Killing field by number, by coefficients and as a function; it strains no edge."""
    space = gd.spaces.Sphere(3)
    system, q0 = gd.builders.tetrahedron(space, 0.7)
    v = gd.builders.velocities(space, 2, q0)
    np.testing.assert_array_equal(v, gd.builders.velocities(space, np.eye(6)[2], q0))
    np.testing.assert_array_equal(v, gd.builders.velocities(space, lambda x: space.killing_fields(x)[2], q0))
    i, j = np.array(gd.builders.edges(system)).T
    lengths = jax.vmap(lambda x, y: gd.distance(space, x, y))
    rates = jax.jit(lambda q, v: jax.jvp(lambda q: lengths(q[i], q[j]), (q,), (v,))[1])(q0, v)
    np.testing.assert_array_less(np.abs(rates), 1e-14)


FLAT, CROSSED = (
    gd.spaces.Euclidean(2),
    gd.Rod([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 3)], [1.0, 1.0, 1.0, 1.0, 2**0.5, 2**0.5]),
)
TETRA = list(itertools.combinations(range(4), 2))
WRONG = {
    "no number": (lambda: gd.Spring([(0, 1)], [1.0, None], 1.0), r"stiffness must be real numbers.*got \[1.0, None\]"),
    "triangle twice": (
        lambda: gd.Area([(0, 1, 1)], 1.0, 1.0),
        r"triangles must join three different points.*\(0, 1, 1\)",
    ),
    "triangles shape": (lambda: gd.Area([(0, 1)], 1.0, 1.0), "triangles must be 3-tuples"),
    "area": (lambda: gd.Area([(0, 1, 2)], 1.0, -0.5), "area must be ≥ 0 and finite, got -0.5"),
    "areas": (lambda: gd.Area([(0, 1, 2)], 1.0, [1.0, 2.0]), "area must be one number or one per triple"),
    "rigid volume": (lambda: gd.cells.RigidVolume([(0, 1, 2, 3)], 0.0), "volume must be positive"),
    "rigid area elsewhere": (
        lambda: gd.cells.RigidArea([(0, 1, 2)], 1.0).residual(gd.Manifold(lambda x: jnp.eye(2), 2), np.zeros((3, 2))),
        "RigidArea needs a space of constant curvature.*got Manifold.*gd.Area",
    ),
    "rigid volume elsewhere": (
        lambda: gd.cells.RigidVolume([(0, 1, 2, 3)], 1.0).residual(
            gd.Manifold(lambda x: jnp.eye(3), 3), np.zeros((4, 3))
        ),
        "RigidVolume needs a space of constant curvature.*got Manifold.*gd.Volume",
    ),
    "angle": (lambda: gd.cells.RigidAngle([(0, 1, 2)], 4.0), "angle must be positive, less than 3.14159"),
    "points": (lambda: gd.cells.angle(FLAT, *np.zeros((3, 3))), r"x must have shape \(2,\) in this space"),
    "range": (lambda: gd.System(FLAT, [1.0] * 3, gd.Volume([(0, 1, 2, 3)], 1.0, 1.0)), "Volume name point 3.*3 masses"),
    "fixed point": (lambda: gd.System(FLAT, [1.0], gd.Pin(2, [0.0, 0.0])), "Pin name point 2"),
    "coincident": (lambda: gd.builders.rod(FLAT, 0.0, stiffness=None), "length must be positive"),
    "strength": (
        lambda: gd.energy(gd.System(FLAT, [1.0], gd.Kepler([1.0, 2.0], [0.0, 0.0])), [[1.0, 0.0]], [[0.0, 0.0]]),
        r"strength must be one number or one per point \(1\), got shape \(2,\)",
    ),
    "centre": (
        lambda: gd.energy(gd.System(FLAT, [1.0], gd.Harmonic(1.0, [0.0])), [[1.0, 0.0]], [[0.0, 0.0]]),
        "centre must have shape",
    ),
    "axis": (lambda: gd.Gravity(axis=0.5), "axis must be a whole number, got 0.5"),
    "axis range": (
        lambda: gd.energy(gd.System(FLAT, [1.0], gd.Gravity(axis=2)), [[1.0, 0.0]], [[0.0, 0.0]]),
        "axis must be one of the coordinates 0 to 1, got 2",
    ),
    "dimension": (lambda: gd.builders.tetrahedron(FLAT), "space must have dim ≥ 3"),
    "unused vertex": (lambda: gd.builders.mesh(FLAT, (SQUARE, [[0, 1, 2]])), r"these do not: \[3\]"),
    "repeated vertex": (
        lambda: gd.builders.mesh(FLAT, (SQUARE[[0, 1, 2, 0]], [[0, 1, 2], [1, 2, 3]])),
        r"coincide: \[\(0, 3\)\]",
    ),
    "cells range": (lambda: gd.builders.mesh(FLAT, (SQUARE, [[0, 1, 5]])), "cells name point 5"),
    "cells": (lambda: gd.builders.mesh(FLAT, (SQUARE, [[0, 1, 2, 3, 3]])), "cells must be triangles"),
    "spaces": (
        lambda: gd.builders.combine(gd.builders.rod(FLAT), gd.builders.rod(gd.spaces.Sphere(2))),
        "body 1 is in Sphere",
    ),
    "killing": (lambda: gd.builders.velocities(FLAT, 3, SQUARE), "Killing fields 0 to 2"),
    "killing momentum": (
        lambda: gd.hamilton.killing_momentum(
            gd.System(gd.Manifold(lambda x: jnp.eye(2), 2), [1.0] * 4), SQUARE, SQUARE
        ),
        "Manifold has no list of Killing fields",
    ),
    "coefficients": (lambda: gd.builders.velocities(FLAT, [1.0], SQUARE), r"one coefficient per Killing field \(3\)"),
    "seventh rod": (
        lambda: gd.integrate(
            gd.builders.combine(
                gd.builders.tetrahedron(gd.spaces.Euclidean(3), stiffness=None), elements=[gd.Rod([(2, 3)], 1.0)]
            )[0],
            gd.builders.tetrahedron(gd.spaces.Euclidean(3))[1],
            np.zeros((4, 3)),
            t1=1.0,
            steps=10,
        ),
        r"redundant.*at q0: Rod between points \(2, 3\), Rod between points \(2, 3\); remove",
    ),
    "both diagonals": (
        lambda: gd.integrate(gd.System(FLAT, [1.0] * 4, CROSSED), SQUARE, 0 * SQUARE, t1=1.0, steps=10),
        r"redundant.*\(0, 1\).*\(1, 2\).*\(2, 3\).*\(3, 0\).*\(0, 2\).*\(1, 3\)",
    ),
    "contradictory": (
        lambda: gd.project(
            gd.System(FLAT, [1.0] * 2, gd.Rod([(0, 1), (1, 0)], [1.0, 2.0])), np.eye(2), np.zeros((2, 2))
        ),
        r"dependent on each other are Rod between points \(0, 1\), Rod between points \(1, 0\)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_named(name, as_users_run):
    call, words = WRONG[name]
    with pytest.raises(ValueError, match=words):
        call()
