"""Geodesics with and without closed form: the same laws, and each against the other."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case

import geodyn as gd
from geodyn._geometry.geodesics.between import energy_between, short_path
from geodyn._geometry.geodesics.distances import chord, distance_or_far
from geodyn._geometry.geodesics.relaxation import Effort

CASES = {name: case(name) for name in ["G01", "G04", "G08", "T01", "T02"]}


def floats(strings):
    return jnp.asarray(np.array(strings, dtype=float))


def plain(space):
    """The same space without its closed forms."""
    return gd.Manifold(space.metric, space.dim)


def torus(x):
    return jnp.diag(jnp.stack([jnp.ones_like(x[0]), (2 + jnp.cos(x[0])) ** 2]))


S2, H2, H3 = gd.spaces.Sphere(2, "polar"), gd.spaces.Hyperbolic(2, "polar"), gd.spaces.Hyperbolic(3, "polar")
TORUS = gd.Manifold(torus, 2)
ZOO = {
    "torus": TORUS,
    "E2 polar": gd.spaces.Euclidean(2, "polar"),
    "S3": gd.spaces.Sphere(3),
    "S3 polar": gd.spaces.Sphere(3, "polar"),
    "H3": gd.spaces.Hyperbolic(3),
    "H3 polar": H3,
    "H3 halfspace": gd.spaces.Hyperbolic(3, "halfspace"),
    "IH3": gd.spaces.Inhomogeneous(3),
    "H2xtorus": gd.spaces.Product(gd.spaces.Hyperbolic(2), TORUS),
}
X = jnp.array([0.2, 0.5, 0.4, 0.3])
V = jnp.array([0.2, 0.3, -0.2, 0.4])


def initial(space):
    return X[4 - space.dim :], V[4 - space.dim :]


flow = eqx.filter_jit(gd.geodesic)
shortest = eqx.filter_jit(gd.distance)
to = eqx.filter_jit(gd.log)


@pytest.mark.parametrize("name, space", [("G01", S2), ("G04", H3), ("G04", plain(H3))])
def test_geodesics_of_the_cases(name, space):
    """Cases G01, G04, tolerance 1e-10; measured ≤ 1e-15, closed and integrated."""
    case = CASES[name]
    given, wanted = case["inputs"], case["reference"]
    q, v = flow(space, floats(given["q0"]), floats(given["v0"]), floats([given["t"]]))
    np.testing.assert_allclose(jnp.angle(jnp.exp(1j * (q[0] - floats(wanted["q"])))), 0, atol=1e-12)
    np.testing.assert_allclose(v[0], floats(wanted["v"]), atol=1e-12)
    np.testing.assert_allclose((S2 if name == "G01" else H3).embed(q[0]), floats(wanted["X"]), atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("name", ZOO)
def test_geodesic_laws(name):
    """Constant speed, exp at time 1, both directions of time in any order, and log as its inverse, with
    dist = |log|; measured ≤ 2e-15."""
    space = ZOO[name]
    x, v = initial(space)
    qs, vs = flow(space, x, v, jnp.array([1.0, -0.7, 0.0, 0.0, 1.0]))
    speed = jax.vmap(lambda x, v: gd.norm(space, x, v))(qs, vs)
    np.testing.assert_allclose(speed, gd.norm(space, x, v), rtol=1e-13)
    np.testing.assert_allclose([qs[2], qs[3], vs[3]], [x, x, v], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose([qs[4], vs[4]], [qs[0], vs[0]], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(qs[0], gd.exp(space, x, v), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(to(space, x, qs[0]), v, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(shortest(space, x, qs[0]), speed[0], rtol=1e-13)


@pytest.mark.parametrize(
    "space", [gd.spaces.Hyperbolic(3), H3, gd.spaces.Hyperbolic(3, "halfspace")], ids=["ball", "polar", "halfspace"]
)
def test_exp_far_out_in_hyperbolic_space(space):
    """From far out back past the origin, a chart's worst direction: the length of v comes back to 1e-9 (its condition
    number there is e^9·1e2, measured 2e-12); X cosh w + V sinh w would lose w = 18 decimal powers of e twice over."""
    x = space.coordinates(H3.embed(jnp.array([9.0, 1.0, 0.25])))
    inwards = gd.log(space, x, space.coordinates(H3.embed(jnp.array([0.5, 2.0, 3.0]))))
    y = gd.exp(space, x, inwards)
    np.testing.assert_allclose(H3.coordinates(space.embed(y)), [0.5, 2.0, 3.0], rtol=1e-9)


def test_boundary_value_solve_against_closed_forms():
    """Distance (1e-12) and gradient (1e-10) of case G08 by the solver; measured 2e-16 and 4e-16. The last pair, which
    passes the origin at 1/60 of its length, is too long for 32 nodes: NaN, in the gradient too."""
    space, case = plain(gd.spaces.Inhomogeneous(3)), CASES["G08"]
    solve = eqx.filter_jit(jax.value_and_grad(gd.distance, 2))
    for pair, wanted in zip(case["inputs"]["pairs"], case["reference"]["rows"]):
        x, y, exact = floats(pair["p"]), floats(pair["q"]), floats(wanted["grad_q"])
        length, slope = solve(space, x, y)
        if float(wanted["dist"]) > 100:
            failed = solve(space, x, y, nodes=32)
            assert jnp.isnan(failed[0]) and jnp.all(jnp.isnan(failed[1]))
        np.testing.assert_allclose(length, float(wanted["dist"]), rtol=1e-12)
        np.testing.assert_allclose(slope, exact, rtol=1e-10, atol=1e-10 * float(jnp.max(jnp.abs(exact))))


@pytest.mark.long
@pytest.mark.parametrize("R, wanted", [(3.0, 12.966211672688686), (4.0, 20.519921386162665), (8.0, None)])
def test_long_distances_take_the_nodes_they_need(R, wanted):
    """From (−R, 0.1) to (R, 0.2) with the metric (|x|² + 2) I, alone and in a batch with a short pair: the distance as
    by scipy's solve_bvp of the geodesic equation (1e-13; measured 5e-16) and in closed form, with gradient and Hessian
    of its square (1e-10; measured 5e-15)."""
    closed, x, y = gd.spaces.Inhomogeneous(2), jnp.array([-R, 0.1]), jnp.array([R, 0.2])
    short = jnp.array([0.1, 0.3])
    pairs = jnp.array([[x, y], [short, short + 0.3]])
    both = eqx.filter_jit(jax.vmap(_two_derivatives, (None, 0)))
    for one, other in zip(both(plain(closed), pairs), both(closed, pairs)):
        for found, exact in zip(one, other):
            np.testing.assert_allclose(found, exact, rtol=1e-10, atol=1e-10 * float(jnp.max(jnp.abs(exact))))
    if wanted is not None:
        np.testing.assert_allclose(shortest(plain(closed), x, y), wanted, rtol=1e-13)
        stretched = [gd.Spring([(0, 1)], 2.0, 0.5, n).energy(plain(closed), pairs[0]) for n in (None, 32)]
        np.testing.assert_allclose(stretched, [(wanted - 0.5) ** 2, np.nan], rtol=1e-13)


# Angles of points at the radius 20 of the chart, and their distances from (0.3, 0.1), by shooting in ordinary space.
FAR_ON_A_SPHEROID = {3.0: 2.46885905, 4.0: 2.46494625, 9.0: 2.45115459}


@pytest.mark.long
def test_far_out_a_tolerance_finds_what_the_nodes_do_not_resolve():
    """Far out in a stereographic chart a path is almost a pole. Seen, with a tolerance of 1e-8: 1e-9, as shooting."""
    axes = jnp.array([1.0, 1.0, 0.9])

    def place(x):
        return axes * jnp.stack([2 * x[0], 2 * x[1], 1 - x @ x]) / (1 + x @ x)

    spheroid, x = gd.spaces.Embedded(place, ambient=3, dim=2), jnp.array([0.3, 0.1])
    for angle, wanted in FAR_ON_A_SPHEROID.items():
        y = 20 * jnp.array([jnp.cos(angle), jnp.sin(angle)])
        with pytest.warns(UserWarning, match="or a tolerance, such as tolerance=1e-8"):
            assert jnp.isnan(gd.distance(spheroid, x, y))
        found = gd.distance(spheroid, x, y, tolerance=1e-8)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-8)
        assert found == gd.distance(spheroid, y, x, tolerance=1e-8) > jnp.linalg.norm(place(y) - place(x))


@pytest.mark.long
def test_a_tolerance_takes_fewer_nodes():
    """32 nodes, which do not resolve paths to rounding, resolve them to 1e-6 and 1e-4 (seen 2e-9 and 6e-7); elements
    say so as well, and the default is as exact as ever."""
    closed, space = gd.spaces.Inhomogeneous(2), plain(gd.spaces.Inhomogeneous(2))
    for R, tolerance in ((3.0, 1e-6), (4.0, 1e-4)):
        points = jnp.array([[-R, 0.1], [R, 0.2]])
        exact = gd.distance(closed, *points)
        assert np.isnan(shortest(space, *points, nodes=32, tolerance=0.0))
        rough = shortest(space, *points, nodes=32, tolerance=tolerance)
        assert 1e-12 < abs(rough / exact - 1) < tolerance
        np.testing.assert_allclose(
            to(space, *points, tolerance=tolerance), gd.log(closed, *points), rtol=10 * tolerance
        )
        options = {"nodes": 32, "tolerance": tolerance}
        np.testing.assert_allclose(gd.Rod([(0, 1)], 1.0, **options).residual(space, points)[0], rough - 1, rtol=1e-13)
        energy = gd.Spring([(0, 1)], 2.0, 0.0, **options).energy(space, points)
        pull = gd.Harmonic(2.0, points[1], **options).energy(space, points[:1], jnp.ones(1))
        np.testing.assert_allclose([energy, pull], rough**2, rtol=1e-13)
    with pytest.raises(ValueError, match=r"tolerance, a relative error, must be at least 0 and less than 1, got 2"):
        gd.Spring([(0, 1)], 1.0, 1.0, tolerance=2.0)
    with pytest.raises(ValueError, match="tolerance, a relative error"):
        gd.distance(space, *points, tolerance=-1e-3)


@pytest.mark.weekly
@pytest.mark.long
def test_second_derivatives_of_the_boundary_value_solve():
    """Hessian of dist² times a vector against the closed form, forward over reverse = reverse over reverse; measured
    ≤ 4e-15. The envelope rule alone would drop the motion of the path."""
    x, y = jnp.array([1.0, 1.0, 0.25]), jnp.array([1.5, 0.75, 1.0])
    slope, change = jax.grad(gd.squared_distance, (1, 2)), (jnp.array([0.3, -0.7, 0.5]), jnp.array([-0.2, 0.4, 0.9]))
    forward = eqx.filter_jit(lambda space, *z: jax.jvp(lambda *z: slope(space, *z), z, change)[1])
    reverse = eqx.filter_jit(jax.grad(lambda *z: jnp.sum(jnp.stack(slope(*z)) * jnp.stack(change)), (1, 2)))
    wanted = np.array(forward(H3, x, y))
    np.testing.assert_allclose(np.array(forward(plain(H3), x, y)), wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.array(reverse(plain(H3), x, y)), wanted, rtol=1e-12, atol=1e-12)
    here = np.array(forward(plain(H3), x, x))
    np.testing.assert_allclose(here, np.array(forward(H3, x, x)), rtol=1e-13, atol=1e-13)
    assert np.all(np.isfinite(eqx.filter_jit(jax.grad(gd.distance, (1, 2)))(plain(H3), x, x)))


class Torus(eqx.Module):
    radius: jax.Array

    def __call__(self, x):
        return jnp.diag(jnp.stack([jnp.ones_like(x[0]), (self.radius + jnp.cos(x[0])) ** 2]))


@pytest.mark.weekly
@pytest.mark.long
def test_derivatives_in_the_metric():
    """d dist/dR on a torus, the metric a module or a closure, first and second, against differences: 1e-8; measured
    3e-11 and 1e-12."""
    x, y = jnp.array([0.2, 0.3]), jnp.array([2.0, 1.0])

    def module(R):
        return gd.distance(gd.Manifold(Torus(R), 2), x, y)

    def closure(R):
        return gd.distance(gd.Manifold(lambda x: Torus(R)(x), 2), x, y)

    step, radii = 1e-5, 2 + 1e-5 * np.array([-1.0, 0.0, 1.0])
    values, slopes = np.transpose(list(map(jax.jit(jax.value_and_grad(module)), radii)))
    np.testing.assert_allclose(slopes[1], (values[2] - values[0]) / (2 * step), rtol=1e-8)
    np.testing.assert_allclose(jax.jit(jax.grad(closure))(2.0), slopes[1], rtol=1e-13)
    np.testing.assert_allclose(jax.jit(jax.hessian(module))(2.0), (slopes[2] - slopes[0]) / (2 * step), rtol=1e-8)

    def end(R):
        return gd.exp(gd.Manifold(lambda x: Torus(R)(x), 2), x, y)

    both = jax.jit(lambda R: jax.jvp(end, (R,), (jnp.ones_like(R),)))
    ends, rates = zip(*map(both, radii))
    np.testing.assert_allclose(rates[1], (ends[2] - ends[0]) / (2 * step), rtol=1e-8)


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.parametrize("end, tolerance", [(0.8, 1e-13), (12.0, 1e-11)])
def test_momenta_change_with_the_metric(end, tolerance):
    """The plane in the coordinates x of (x₀, x₁ + sin kx₀/10), with a path of one piece and of two: first and second
    derivatives of the logarithm in k and the points; measured 6e-15 and 1e-12."""
    x, y = jnp.array([0.1, -0.2]), jnp.array([end, 0.5])

    def embedded(k, x):
        return jnp.stack([x[0], x[1] + jnp.sin(k * x[0]) / 10])

    def solved(k, x, y):
        jacobian = jax.jacfwd(embedded, 1)
        return gd.log(gd.Manifold(lambda x: jacobian(k, x).T @ jacobian(k, x), 2), x, y)

    def exact(k, x, y):
        return jnp.linalg.solve(jax.jacfwd(embedded, 1)(k, x), embedded(k, y) - embedded(k, x))

    def derivatives(log):
        first = jax.jacrev(log, (0, 1, 2))
        return jax.jit(lambda *args: (log(*args), first(*args), jax.jacfwd(first)(*args)))(3.0, x, y)

    for found, wanted in zip(*map(jax.tree.leaves, map(derivatives, (solved, exact))), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.long
def test_a_number_on_which_the_metric_does_not_depend():
    """Such as one that only chooses between two metrics: its derivatives are zeros, of whatever asks for a path."""
    x, y = jnp.array([0.0, 0.1]), jnp.array([0.5, 0.2])

    def of(b):
        return gd.Manifold(lambda x: (1 + jnp.where(b > 0.2, 0.3, 0.1) * x @ x) * jnp.eye(2), 2)

    def springs(b):
        system = gd.System(of(b), [1.0, 1.0], gd.Spring([(0, 1)], 1.0, 0.4))
        return jnp.sum(gd.integrate(system, jnp.stack([x, y]), jnp.full((2, 2), 0.1), t1=0.5, steps=5).q[-1])

    asked = [
        lambda b: gd.distance(of(b), x, y),
        lambda b: jnp.sum(gd.log(of(b), x, y)),
        lambda b: jnp.sum(jax.grad(lambda y: gd.distance(of(b), x, y) ** 2)(y)),
        lambda b: jnp.sum(gd.mean_point(of(b), jnp.stack([x, y, 2 * x]))),
        lambda b: jnp.sum(short_path(of(b), x, y, 12)),
        springs,
    ]
    assert [float(jax.grad(function)(0.3)) for function in asked] == [0.0] * len(asked)


@pytest.mark.long
def test_a_spring_without_closed_form():
    """Ten symplectic Euler steps of a particle on a spring, batched, jitted and differentiated backwards: the gradient
    agrees with the closed form to 1e-12 (measured 1e-16), in the member that starts at the spring's foot too."""
    foot = jnp.array([0.1, 0.2, -0.1])

    def final(space, x):
        def step(state, _):
            x, p = state
            p = p - 0.1 * jax.grad(gd.squared_distance, 2)(space, foot, x)
            return (x + 0.1 * jnp.linalg.solve(space.metric(x), p), p), None

        return jnp.sum(jax.lax.scan(step, (x, jnp.ones(3)), length=10)[0][0] ** 2)

    ball = gd.spaces.Hyperbolic(3)
    starts = jnp.stack([foot, jnp.array([0.4, -0.3, 0.2])])
    slopes = [eqx.filter_jit(jax.vmap(jax.grad(final, 1), (None, 0)))(space, starts) for space in (ball, plain(ball))]
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-12, atol=1e-13)


CLOSED = {"IH2": gd.spaces.Inhomogeneous(2), "S2": S2}


@pytest.mark.long
@pytest.mark.parametrize("name", CLOSED)
def test_distance_of_a_plain_metric(name):
    """Distance, and gradient and Hessian of its square, in both points, solved against closed: 1e-10 at lengths from
    0.01 to 0.5; measured 3e-16, 5e-16 and 9e-16."""
    space, rng = CLOSED[name], np.random.default_rng(3)
    x = jnp.asarray(rng.uniform(0.4, 0.6, (6, space.dim)))
    d = rng.standard_normal((6, space.dim))
    d /= np.linalg.norm(d, axis=1, keepdims=True)
    size = jax.vmap(lambda x, d: gd.norm(space, x, d))(x, jnp.asarray(d))
    lengths = np.array([0.01, 0.1, 0.2, 0.3, 0.4, 0.5])
    pairs = jnp.stack([x, x + d * (lengths / size)[:, None]], axis=1)
    derivatives = eqx.filter_jit(jax.vmap(_two_derivatives, (None, 0)))
    found, wanted = (derivatives(s, pairs) for s in (plain(space), space))
    for one, other in zip(found, wanted):
        scale = float(jnp.max(jnp.abs(other)))
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10 * scale)


def _two_derivatives(space, z):
    def square(z):
        return gd.squared_distance(space, z[0], z[1])

    return gd.distance(space, z[0], z[1]), jax.grad(square)(z), jax.hessian(square)(z)


def test_a_solved_force_changes_by_a_matrix():
    """Newton's method pushes many vectors through the derivative of a force: nothing iterates for each of them."""
    z = jnp.array([[0.1, 0.3], [0.2, -0.2]])
    force = jax.grad(lambda z: gd.squared_distance(plain(CLOSED["IH2"]), z[0], z[1]))
    push = jax.linearize(force, z)[1]
    assert "while" not in str(jax.make_jaxpr(push)(z))


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.parametrize("element", [gd.Spring([(0, 1)], 2.0, 0.7), gd.Rod([(0, 1)], 0.7)], ids=["spring", "rod"])
def test_motion_without_closed_form(element):
    """Two steps of two points in IH², solved against closed, q and p to 1e-10 (a rod: measured 1e-16)."""
    space = gd.spaces.Inhomogeneous(2)
    masses, q0, v0 = [1.0, 2.0], jnp.array([[0.1, 0.3], [0.2, -0.2]]), jnp.array([[0.2, 0.1], [0.3, -0.1]])
    q0, v0 = gd.project(gd.System(space, masses, gd.Rod([(0, 1)], 0.7)), q0, v0)
    systems, method = [gd.System(s, masses, element) for s in (plain(space), space)], gd.RadauIIA(2, "index3")
    runs = [gd.integrate(system, q0, v0, t1=0.2, steps=2, method=method) for system in systems]
    np.testing.assert_allclose(runs[0].q, runs[1].q, atol=1e-10)
    np.testing.assert_allclose(runs[0].p, runs[1].p, atol=1e-10)
    np.testing.assert_allclose(runs[0].multipliers, runs[1].multipliers, atol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("space", [S2, plain(S2)], ids=["closed", "solved"])
def test_singular_loci(space):
    """As `distance` says: at coincident points a spring has the force 0 whatever its length; short of the antipode the
    gradient has length 1, and at it, it is finite, or NaN by the solve, never infinite."""
    x, y = jnp.array([1.0, 0.2]), jnp.array([np.pi - 1.0, 0.2 + np.pi])
    force = eqx.filter_jit(
        lambda k: jax.grad(lambda z: gd.Spring([(0, 1)], 1.0, k).energy(space, z))(jnp.stack([x, x]))
    )
    for length in (0.0, 0.5):
        np.testing.assert_array_equal(force(length), 0)
    slope = eqx.filter_jit(jax.value_and_grad(gd.distance, 2))
    length, short = slope(space, x, y - jnp.array([0.0, 1e-3]))
    np.testing.assert_allclose(short @ jnp.linalg.solve(space.metric(y), short), 1, rtol=1e-8)
    assert np.pi - 1e-3 < length < np.pi
    length, at = slope(space, x, y)
    assert (jnp.isnan(length) and jnp.all(jnp.isnan(at))) or (abs(length - np.pi) < 1e-7 and jnp.all(jnp.abs(at) < 2))


@pytest.mark.weekly
@pytest.mark.long
def test_beyond_a_conjugate_point():
    """The equator beyond half of the sphere is a geodesic but no shortest one: NaN, in the gradient too; and a spring
    that is carried there ends its integration with a status."""
    x, y = jnp.array([np.pi / 2, 0.0]), jnp.array([np.pi / 2, np.pi + 0.3])
    length, slope = eqx.filter_jit(jax.value_and_grad(gd.distance, 2))(plain(S2), x, y)
    assert jnp.isnan(length) and jnp.all(jnp.isnan(slope))
    system = gd.System(plain(S2), [1.0, 1.0], gd.Spring([(0, 1)], 1.0, 0.7))
    q0, v0 = jnp.stack([x, y - jnp.array([0.0, 0.4])]), jnp.array([[0.0, 0.0], [0.0, 8.0]])
    trajectory = gd.integrate(system, q0, v0, t1=0.1, steps=1, method=gd.Gauss(1), throw=False)
    assert trajectory.result != 0 and jnp.all(jnp.isnan(trajectory.q[-1]))


@pytest.mark.parametrize("circle", CASES["T01"]["reference"]["circles"], ids=lambda c: f"{c['space']} {c['a0']:.3}")
def test_transport_around_a_circle(circle):
    """Case T01, tolerance 1e-10, with its orientation; measured ≤ 4e-16; |v| kept to 1e-12."""
    space, a = {"S2": S2, "H2": H2}[circle["space"]], float(circle["a0"])

    def turn(t):
        return jnp.stack([jnp.full_like(t, a), t])

    ts = jnp.array([0.0, np.pi, 2 * np.pi])
    start, half, full = gd.parallel_transport(space, turn, jnp.array([1.0, 0.0]), ts)
    np.testing.assert_array_equal(start, [1, 0])
    np.testing.assert_allclose(half, floats(circle["v_coord_half"]), atol=1e-12)
    np.testing.assert_allclose(full, floats(circle["v_coord_full"]), atol=1e-12)
    g = space.metric(turn(ts[0]))
    np.testing.assert_allclose(full @ g @ full, 1, rtol=1e-12)
    angle = np.arctan2(full[1] * np.sqrt(g[1, 1]), full[0])
    np.testing.assert_allclose(np.exp(1j * angle), np.exp(1j * float(circle["holonomy_angle"])), atol=1e-12)


def test_transport_around_a_triangle():
    """Case T01's geodesic triangle in a chart where no corner is special: a vector at A turns by the area."""
    case, space = CASES["T01"], gd.spaces.Sphere(2)
    corners = [space.coordinates(floats(corner)) for corner in case["inputs"]["triangle"]]
    w = jax.jvp(space.coordinates, (floats(case["inputs"]["triangle"][0]),), (jnp.array([0.0, 1.0, 0.0]),))[1]
    for x, y in zip(corners, corners[1:] + corners[:1]):
        v = gd.log(space, x, y)
        w = gd.parallel_transport(space, eqx.Partial(_along, space, x, v), w, jnp.array([0.0, 1.0]))[-1]
    turned = jax.jvp(space.embed, (corners[0],), (w,))[1]
    np.testing.assert_allclose(turned, floats(case["reference"]["triangle_final_vector"]), atol=1e-12)


def _along(space, x, v, t):
    return gd.exp(space, x, t * v)


def test_a_jacobi_field_begins_as_it_is_told():
    start = [jnp.array(a) for a in ([0.9, 0.3], [0.5, 0.7], [0.2, -0.4], [0.3, 0.1])]  # Where Γ(v, j) is not zero.
    for got, wanted in zip(gd.jacobi_field(S2, *start, [0.0]), start[2:], strict=True):
        np.testing.assert_allclose(got[0], wanted, rtol=0, atol=1e-14)


@pytest.mark.long
@pytest.mark.parametrize("name, closed", [("S2", True), ("H2", True), ("S2", False)])
def test_jacobi_fields(name, closed):
    """Case T02: |J| = sin t, sinh t (1e-8; measured 5e-15), conjugate point included; J is d(end)/d(direction), forward
    = reverse = differences, and satisfies D²J/dt² = −R(J, x')x' with differences in time (1e-8; measured 1e-9)."""
    case, space = CASES["T02"], {"S2": S2, "H2": H2}[name]
    x, psi, ts = floats(case["inputs"]["q0"]), float(case["inputs"]["psi"]), floats(case["inputs"]["t"])
    g = space.metric(x)
    space = space if closed else plain(space)
    frame = 1 / jnp.sqrt(jnp.diag(g))
    v, dj = frame * jnp.array([np.cos(psi), np.sin(psi)]), frame * jnp.array([-np.sin(psi), np.cos(psi)])
    J, DJ = gd.jacobi_field(space, x, v, 0 * x, dj, ts)

    def end(psi):
        return flow(space, x, frame * jnp.stack([jnp.cos(psi), jnp.sin(psi)]), ts)

    qs, vs = end(psi)
    lengths = jax.vmap(lambda x, j: gd.norm(space, x, j))(qs, J)
    np.testing.assert_allclose(lengths, floats(case["reference"][name]), atol=1e-12)
    later, earlier = (gd.jacobi_field(space, x, v, 0 * x, dj, ts + dt)[1] for dt in (1e-5, -1e-5))

    @jax.jit
    @jax.vmap
    def sides(q, u, j, dj_, rate):
        second = rate + jnp.einsum("kij,i,j", gd.christoffel(space, q), u, dj_)
        return second, -jnp.einsum("abcd,b,c,d", gd.riemann(space, q), u, j, u)

    np.testing.assert_allclose(*sides(qs, vs, J, DJ, (later - earlier) / 2e-5), atol=1e-8)
    seen = np.random.default_rng(0).normal(size=J.shape)
    reverse = jax.jit(jax.grad(lambda psi: jnp.sum(seen * end(psi)[0])))
    np.testing.assert_allclose(reverse(psi), np.sum(seen * J), rtol=1e-12)  # J itself is the forward derivative
    np.testing.assert_allclose((end(psi + 1e-5)[0] - end(psi - 1e-5)[0]) / 2e-5, J, atol=1e-8)


@pytest.mark.weekly
@pytest.mark.long
def test_geodesics_too_long_for_their_steps():
    """On the torus to t = 200: 48 steps are too few, which jacobi_field raises and geodesic and exp warn of; 1000 and
    2000 agree to 1e-9 (measured 1e-12). Beyond the digits of the ball the closed form says so as well."""
    x, v, zero, dj = jnp.array([0.1, 0.2]), jnp.array([0.6, 0.3]), jnp.zeros(2), jnp.array([1.0, 0.0])
    with pytest.raises(ValueError, match=r"too long for its steps.* default is steps=48"):
        gd.jacobi_field(TORUS, x, v, zero, dj, [200.0])
    with pytest.warns(UserWarning, match="too long for its steps"):
        assert np.all(np.isnan(gd.geodesic(TORUS, x, v, [200.0])))
    some, more = (gd.jacobi_field(TORUS, x, v, zero, dj, [200.0], steps=steps) for steps in (1000, 2000))
    np.testing.assert_allclose(some, more, rtol=1e-9)
    with pytest.raises(ValueError, match="leaves the chart"):
        gd.jacobi_field(gd.spaces.Hyperbolic(2), zero, 0.5 * dj, zero, dj[::-1], [60.0])


def test_lorentzian_geodesics():
    """A circular orbit around a unit mass at r = 10: Ω = r^(-3/2) (MTW 25.6); measured 2e-15. Distances are refused."""

    def schwarzschild(x):
        lapse = 1 - 2 / x[1]
        return jnp.diag(jnp.stack([-lapse, 1 / lapse, x[1] ** 2]))

    space = gd.Manifold(schwarzschild, 3, signature=(2, 1))
    x, v = jnp.array([0.0, 10.0, 0.0]), jnp.array([1.0, 0.0, 10**-1.5])
    qs, _ = gd.geodesic(space, x, v, jnp.array([50.0]))
    np.testing.assert_allclose(qs[0], [50.0, 10.0, 50 * 10**-1.5], rtol=1e-12)
    with pytest.raises(ValueError, match="positive definite"):
        gd.distance(space, x, x + v)


class Plane(gd.AbstractManifold):
    """A plane that says its distances, right or wrong."""

    square: Callable = eqx.field(static=True)
    dim: int = eqx.field(static=True, default=2)

    def metric(self, x):
        return jnp.eye(2)

    def squared_distance(self, x, y):
        return self.square(x, y)


RIGHT = Plane(lambda x, y: jnp.sum((x - y) ** 2))
DOUBLE = Plane(lambda x, y: 4 * jnp.sum((x - y) ** 2))


def test_what_measures_distances_asks_the_space():
    """One method, `squared_distance`, on a subclass of the user's: twice the distance, and everything sees it."""
    x, y = jnp.array([0.1, 0.2]), jnp.array([0.4, -0.2])
    q = jnp.stack([x, y])
    np.testing.assert_allclose(gd.distance(DOUBLE, x, y), 1.0, rtol=1e-14)
    np.testing.assert_allclose(
        gd.distance(gd.spaces.Product(DOUBLE, gd.spaces.Euclidean(1)), [*x, 0.0], [*y, 0.0]), 1.0, rtol=1e-14
    )
    np.testing.assert_allclose(gd.log(DOUBLE, x, y), 4 * (y - x), rtol=1e-14)
    np.testing.assert_allclose(gd.Spring([(0, 1)], 2.0, 0.7).energy(DOUBLE, q), 0.09, rtol=1e-13)
    np.testing.assert_allclose(gd.Contact(0.2).gap(DOUBLE, q), [0.6], rtol=1e-14)
    with pytest.raises(TypeError, match=r"Own has a method log, which nothing calls: give it squared_distance"):
        type("Own", (gd.AbstractManifold,), {"metric": lambda self, x: jnp.eye(2), "log": lambda self, x, y: y - x})


class Frozen(gd.AbstractManifold):
    """A metric that changes, and distances with that of the origin."""

    dim: int = eqx.field(static=True, default=1)

    def metric(self, x):
        return (1 + x @ x) * jnp.eye(1)

    def squared_distance(self, x, y):
        return (x - y) @ (x - y)


@pytest.mark.long
def test_check_manifold():
    for name, space in ZOO.items():
        if name != "H2xtorus":
            gd.check_manifold(space, initial(space)[0])
    gd.check_manifold(RIGHT, [1, 1])
    for square, words in (
        (DOUBLE.square, "with the Hessian 2g"),
        (lambda x, y: jnp.linalg.norm(x - y) ** 2, "smooth, with the Hessian 2g"),
        (lambda x, y: 0.1 + jnp.sum((x - y) ** 2), r"coincident points x = \[1.0, 1.0\] it must be 0, got 0.1"),
        (lambda x, y: jnp.sum((x - y) ** 2) + jnp.sum((x - y) ** 3), "must be symmetric"),
        (lambda x, y: jnp.sum((x - y) ** 2) * (1 + jnp.sum((x - y) ** 2)), r"\|grad distance\| must be 1, got 1.00"),
        (lambda x, y: (x - y) ** 2, r"squared_distance of Plane must return one number, got shape \(2,\)"),
    ):
        with pytest.raises(ValueError, match=words):
            gd.check_manifold(Plane(square), jnp.ones(2))
    with pytest.raises(ValueError, match=r"grad distance\| must be 1, got .* at \["):
        gd.check_manifold(Frozen(), jnp.zeros(1))
    with pytest.raises(ValueError, match="positive definite"):
        gd.check_manifold(gd.Manifold(lambda x: -jnp.eye(2), 2), jnp.ones(2))
    gd.check_manifold(gd.Manifold(lambda x: -jnp.eye(2), 2, signature=(0, 2)), jnp.ones(2))


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"v must have shape \(2,\) in this space of dim 2, got \(3,\)"):
        gd.exp(S2, jnp.ones(2), jnp.ones(3))
    with pytest.raises(ValueError, match=r"y must have shape \(2,\)"):
        gd.log(S2, jnp.ones(2), jnp.ones(3))
    with pytest.raises(ValueError, match="one or more times"):
        gd.geodesic(S2, jnp.ones(2), jnp.ones(2), jnp.zeros(0))


def test_counts_may_be_those_of_numpy():
    x, three = jnp.array([0.3, 0.4]), np.int64(3)
    assert jax.eval_shape(lambda: gd.exp(TORUS, x, x, steps=three)).shape == (2,)
    assert jax.eval_shape(lambda: gd.distance(TORUS, x, 2 * x, nodes=three)).shape == ()
    assert gd.Gauss(three) == gd.Gauss(3) and gd.methods.Moreau(three) == gd.methods.Moreau(3)


@pytest.mark.long
@pytest.mark.float32
def test_single_precision():
    """exp, log and distance of the torus undo each other to 1e-4 of the length; measured 2e-6."""
    space, (x, v) = TORUS, (a.astype(jnp.float32) for a in initial(TORUS))
    y = gd.exp(space, x, v)
    assert y.dtype == jnp.float32
    np.testing.assert_allclose(gd.log(space, x, y), v, atol=1e-4)
    np.testing.assert_allclose(gd.distance(space, x, y), gd.norm(space, x, v), rtol=1e-4)


class Hill(gd.AbstractManifold):
    """A plane with a steep hill, behind which paths of few nodes are lost."""

    height: float = 1e4
    dim = 2

    def metric(self, x):
        return (1 + self.height * jnp.exp(-200 * jnp.sum((x - 0.5) ** 2))) ** 2 * jnp.eye(2)


def test_what_is_lost_is_far_and_stands_still():
    """Whichever numbers change, of the metric too: infinitely far, with zero derivatives."""
    behind = jnp.array([1.0, 0.52])

    def half_square(height, x):
        return energy_between(Hill(height), x, behind, Effort(12, far=True))

    at = 1e4, jnp.array([0.0, 0.45])
    assert jnp.isinf(half_square(*at))
    for numbers in ((0,), (1,), (0, 1)):
        value, slopes = jax.value_and_grad(half_square, numbers)(*at)
        assert jnp.isinf(value)
        for slope in slopes:
            np.testing.assert_array_equal(slope, jnp.zeros_like(slope))
    (second,), _ = jax.jacfwd(jax.grad(half_square, (0, 1)), (0,))(*at)
    assert second == 0


@pytest.mark.long
def test_what_is_far_is_decided_late():
    """Where no geodesic is found, by the segment of the chart: two points are far if that is twice what is asked for,
    and unknown if it is not, since the way may be shorter."""
    rough = gd.Manifold(lambda x: (1 + jnp.sin(8 * x[0]) ** 2 / 2) * jnp.eye(2), 2)
    x, y = jnp.array([0.9, 0.3]), jnp.array([-1.2, 0.6])
    measured = jax.jit(lambda near: distance_or_far(rough, x, y, 12, near))
    segment = chord(rough, x, y)
    assert np.isnan(measured(0.51 * segment)) and measured(0.49 * segment) == segment

    def slopes(k):
        space = gd.Manifold(lambda x: (1 + jnp.sin(k * x[0]) ** 2 / 2) * jnp.eye(2), 2)
        return jax.value_and_grad(lambda x: distance_or_far(space, x, y, 12, 0.49 * segment))(x)

    assert not any(map(np.any, jax.jit(jax.jacrev(slopes))(8.0)))


def spheroid(x):
    """A spheroid with the axes 1, 1, 0.9, in stereographic coordinates."""
    return jnp.stack([2 * x[0], 2 * x[1], 0.9 * (1 - x @ x)]) / (1 + x @ x)


@pytest.mark.long
@pytest.mark.parametrize("radius", [20.0, pytest.param(10.0, marks=pytest.mark.long)])
def test_distances_of_far_points(radius):
    """In a chart in which far points are close to each other the nodes of a path may miss the space between them: such
    a path was found, of the length 1e-14. A distance is at least the chord, and the same both ways; what `log` says
    leads there."""
    space, x = gd.spaces.Embedded(spheroid, ambient=3, dim=2), jnp.array([0.3, 0.1])
    ys = radius * np.stack([np.cos(np.arange(24)), np.sin(np.arange(24))], axis=1)
    there = jax.jit(lambda y: gd.distance(space, x, y))
    back = jax.jit(lambda y: gd.distance(space, y, x))
    ways = np.array([[there(y), back(y)] for y in ys])
    assert np.array_equal(ways[:, 0], ways[:, 1], equal_nan=True)
    found = np.isfinite(ways[:, 0])
    assert found.sum() >= 14  # 20 and 15 of them; to the others the segment is no minimum
    chords = np.linalg.norm(jax.vmap(lambda y: spheroid(y) - spheroid(x))(ys), axis=1)
    assert np.all(ways[found, 0] > chords[found])
    y = ys[found][0]
    v = gd.log(space, x, y, nodes=384)
    assert gd.norm(space, x, v) == pytest.approx(ways[found, 0][0], rel=1e-9)
    assert gd.exp(space, x, v, steps=200) == pytest.approx(y, rel=1e-7)


@pytest.mark.long
@pytest.mark.parametrize("name", ["sphere", "half-plane"])
def test_far_points_against_closed_forms(name):
    """A result is right, or NaN. In the half-plane 1 of 16 was found."""
    rng = np.random.default_rng(2)
    if name == "sphere":
        known, metric = gd.spaces.Sphere(2), lambda x: 4 / (1 + x @ x) ** 2 * jnp.eye(2)
        xs, ys = rng.uniform(-1, 1, (16, 2)), 20 * (lambda k: np.stack([np.cos(k), np.sin(k)], 1))(np.arange(16))
    else:
        known, metric = gd.spaces.Hyperbolic(2, "halfspace"), lambda x: jnp.eye(2) / x[1] ** 2
        xs, ys = (np.stack([rng.uniform(-30, 30, 16), 10 ** rng.uniform(-1, 1, 16)], 1) for _ in range(2))
    space = gd.Manifold(metric, dim=2)
    solve = jax.jit(lambda x, y: gd.distance(space, x, y))
    found, wanted = np.array([[solve(*pair), gd.distance(known, *pair)] for pair in zip(xs, ys)]).T
    good = np.isfinite(found)
    assert good.sum() >= 9
    assert found[good] == pytest.approx(wanted[good], rel=1e-9)


def test_no_band_of_failures_in_sol():
    """Where the first iteration diverged, what it left began the descent: from some of it no descent led back."""
    sol = gd.Manifold(lambda x: jnp.diag(jnp.exp(jnp.stack([2 * x[2], -2 * x[2], 0 * x[2]]))), dim=3)
    v, lengths = jnp.array([2.0, -1.0, 1.0]), np.arange(0.97, 1.06, 0.004)
    ys = jax.vmap(lambda s: gd.exp(sol, jnp.zeros(3), s * v, steps=100))(lengths)
    found = np.array([gd.distance(sol, [0.0, 0.0, 0.0], y) for y in ys])
    assert found == pytest.approx(lengths * np.sqrt(6), rel=1e-10)


def test_a_distance_is_no_longer_than_the_segment():
    """From what the first iteration leaves where it diverged, the descent would lead to a longer geodesic."""
    pairs = [[-0.28890123, -0.38369964, 1.36229536, 2.52594149], [-1.37344094, 0.63362691, 0.3181895, 3.54401219]]
    for x, y in np.array(pairs).reshape(2, 2, 2):
        corners = x + np.linspace(0, 1, 4001)[:, None] * (y - x)
        (across, along), middle = np.diff(corners, axis=0).T, (corners[1:] + corners[:-1]) / 2
        segment = np.sum(np.sqrt(across**2 + (2 + np.cos(middle[:, 0])) ** 2 * along**2))
        assert shortest(TORUS, x, y) < segment


def test_another_curve_compiles_nothing():
    """The metric is traced for the first curve only: each new one took 0.9 s."""
    traced = []

    def metric(x):
        traced.append(1)
        return jnp.diag(jnp.stack([1.0 + 0 * x[0], jnp.sin(x[0]) ** 2]))

    sphere, counts = gd.Manifold(metric, dim=2), []
    for latitude in (0.5, 0.7):
        turn = eqx.Partial(lambda latitude, t: jnp.stack([latitude + 0 * t, t]), latitude)
        w = gd.parallel_transport(sphere, lambda t, turn=turn: turn(t), [1.0, 0.0], [0.0, 2 * np.pi])[-1]
        assert w[0] == pytest.approx(np.cos(2 * np.pi * np.cos(latitude)), abs=1e-9)
        counts.append(len(traced))
    assert counts[0] == counts[1]
