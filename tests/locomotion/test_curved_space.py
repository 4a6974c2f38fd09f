"""Bodies that swim in spaces with symmetries. References: a net displacement in Nil that was computed elsewhere (S06),
and Noether's theorem: the momentum of every Killing field stays zero while the body moves."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case
from helpers.marks import slow
from scipy.integrate import solve_ivp

import geodyn as gd
from geodyn._geometry.groups.isometries import fields_of_group

STROKE = gd.FourierStroke.circle(0.2, centre=(0.6, 0.5))


def three_masses(r):
    """Points around the origin that are on no line."""
    zero = jnp.zeros_like(r[0])
    rows = [[zero, zero, zero], [r[0], zero, r[1] / 2], [zero - 0.3, r[1], zero + 0.2]]
    return jnp.stack([jnp.stack(row) for row in rows])


def above_the_line(r):
    """The same in the half plane, whose origin is (0, 1)."""
    return three_masses(r) / 2 + jnp.array([[0.0, 1.0, 0.0]])


def masses_in(space) -> gd.swimmers.PointMasses:
    shape = above_the_line if isinstance(space, gd.spaces.SL2) else three_masses
    return gd.swimmers.PointMasses(space, [1.0, 1.0, 2.0], shape)


def on_a_surface(r):
    zero = jnp.zeros_like(r[0])
    return jnp.stack([jnp.stack([zero, zero]), jnp.stack([r[0], r[1]]), jnp.stack([0.2 * r[1], zero - 0.4])])


SURFACES = {
    "torus": gd.Manifold(lambda x: jnp.diag(jnp.stack([1.0 + 0 * x[0], (2 + jnp.cos(x[0])) ** 2])), 2),
    "catenoid": gd.spaces.Embedded(
        lambda x: jnp.stack([jnp.cosh(x[0]) * jnp.cos(x[1]), jnp.cosh(x[0]) * jnp.sin(x[1]), x[0]]), 3, 2
    ),
}


def largest_momentum(body, space, places):
    """The largest momentum Σ m g(K, y') of a Killing field on the way of the masses along a stroke, over the momentum
    that a mass has."""
    group = body.group

    @jax.jit
    def momenta(t):
        g = gd.path(body, lambda s: STROKE(s * t), steps=32)[-1]
        xi = -gd.connection(body, STROKE(t)) @ jax.jvp(STROKE, (t,), (jnp.ones_like(t),))[1]

        def at(g):
            return jax.vmap(lambda x: gd.groups.act(space, g, x))

        x, rates = jax.jvp(lambda s: places(STROKE(s)), (t,), (jnp.ones_like(t),))
        y, by_shape = jax.jvp(at(g), (x,), (rates,))
        by_motion = jax.jvp(lambda g: at(g)(x), (g,), (group.rate(g, xi),))[1]
        parts = jax.vmap(lambda m, y, v: m * fields_of_group(space, y) @ space.metric(y) @ v)(
            body.masses, y, by_shape + by_motion
        )
        return jnp.sum(parts, axis=0), parts

    total, parts = jax.vmap(momenta)(jnp.array([0.3, 0.8]))
    return float(np.max(np.abs(total)) / np.max(np.abs(parts)))


def test_the_net_displacement_in_nil():
    """S06: the error is that of the steps, of order six; measured 1e-14 with 128."""
    space, known = gd.spaces.Nil(), np.array(case("S06")["value"], float)
    body = gd.swimmers.PointMasses(space, [1.0, 1.0, 2.0], three_masses)
    end = gd.holonomy(body, gd.FourierStroke.circle(0.3, centre=(0.8, 0.5)))
    np.testing.assert_allclose(jnp.append(end[:3, 3], jnp.arctan2(end[1, 0], end[0, 0])), known, atol=1e-13)


@pytest.mark.long
def test_the_net_displacement_in_nil_from_its_metric_alone():
    found = gd.symmetries(gd.Manifold(gd.spaces.Nil().metric, 3), jnp.zeros(3))
    body = gd.swimmers.PointMasses(found.space, [1.0, 1.0, 2.0], three_masses)
    end = gd.holonomy(body, gd.FourierStroke.circle(0.3, centre=(0.8, 0.5)), steps=64)
    known = np.array(case("S06")["value"], float)
    np.testing.assert_allclose(jnp.append(end[:3, 3], jnp.arctan2(end[1, 0], end[0, 0])), known, atol=1e-12)


MASSES = np.array([1.0, 1.0, 2.0])


def along_the_stroke(rate, start):
    """The end of y' = rate(r, r', y) along the stroke, by scipy."""

    def at(t, y):
        angle = 2 * np.pi * t
        way = np.array([np.cos(angle), np.sin(angle)])
        turned = 2 * np.pi * np.array([-way[1], way[0]])
        return np.ravel(rate(np.array([0.6, 0.5]) + 0.2 * way, 0.2 * turned, y.reshape(np.shape(start))))

    ends = solve_ivp(at, (0, 1), np.ravel(start), "DOP853", rtol=1e-13, atol=1e-14).y
    return ends[:, -1].reshape(np.shape(start))


def places(r, rdot):
    """The masses of `three_masses`, and their velocities; both are linear in the shape."""
    fixed = np.array([[0, 0, 0], [0, 0, 0], [-0.3, 0, 0.2]])
    first = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0]])
    second = np.array([[0, 0, 0], [0, 0, 0.5], [0, 1, 0]])
    return fixed + r[0] * first + r[1] * second, rdot[0] * first + rdot[1] * second


def without_momentum(fields, rates, products):
    """The velocity ξ with Σ m <K_a, x' + Σ ξ_b K_b> = 0, for fields [N, k, n] and the metrics [N, n, n]."""
    weighted = MASSES[:, None, None] * products
    inertia = np.einsum("iam,imn,ibn->ab", fields, weighted, fields)
    return -np.linalg.solve(inertia, np.einsum("iam,imn,in->a", fields, weighted, rates))


def in_the_embedding(curvature, n):
    """The displacement in S^n or H^n of the projections to its n coordinates, as a matrix of the embedding space."""
    form = np.diag(np.append(np.ones(n), curvature))
    pairs = [(a, b) for a in range(n + 1) for b in range(a)]
    generators = np.zeros((len(pairs), n + 1, n + 1))
    for generator, (a, b) in zip(generators, pairs, strict=True):
        generator[a, b], generator[b, a] = form[b, b], -form[a, a]

    def rate(r, rdot, g):
        (x, v), square = (y[:, :n] for y in places(r, rdot)), lambda x, y: np.sum(x * y, axis=1, keepdims=True)
        below = 1 + curvature * square(x, x)
        slope = 2 * curvature * square(x, v)
        X = np.hstack([2 * x, 2 - below]) / below
        rates = np.hstack([2 * v, -slope]) / below - X * slope / below
        xi = without_momentum(np.einsum("amn,in->iam", generators, X), rates, np.broadcast_to(form, (3, *form.shape)))
        return g @ np.tensordot(xi, generators, 1)

    return along_the_stroke(rate, np.eye(n + 1))


def in_sol():
    """(a, b, c) of the isometry (x, y, z) ↦ (e^{−c}x + a, e^{c}y + b, z + c)."""

    def rate(r, rdot, g):
        x, v = places(r, rdot)
        fields = np.array([[[1, 0, 0], [0, 1, 0], [-p[0], p[1], 1]] for p in x])
        metrics = np.array([np.diag([np.exp(2 * p[2]), np.exp(-2 * p[2]), 1]) for p in x])
        a, b, c = without_momentum(fields, v, metrics)
        return np.array([np.exp(-g[2]) * a, np.exp(g[2]) * b, c])

    return along_the_stroke(rate, np.zeros(3))


def in_sl2():
    """Where (0, 1, 0) comes. Matrices (a b; c d) move τ = x + iy to (aτ + b)/(cτ + d) and raise it by −2 arg(cτ + d);
    the rotation lowers it besides."""
    generators = np.array([[[0, 1], [0, 0]], [[0.5, 0], [0, -0.5]], [[0, 0], [0, 0]], [[0, 0.5], [-0.5, 0]]])

    def rate(r, rdot, state):
        x, v = (y / 2 for y in places(r, rdot))
        x = x + np.array([0, 1, 0])
        fields = [
            [[1, 0, 0], [p[0], p[1], 0], [0, 0, 1], [(1 + p[0] ** 2 - p[1] ** 2) / 2, p[0] * p[1], p[1] - 1]] for p in x
        ]
        coframes = np.array([[[1 / p[1], 0, 0], [0, 1 / p[1], 0], [1 / p[1], 0, 1]] for p in x])
        xi = without_momentum(np.array(fields), v, coframes.transpose(0, 2, 1) @ coframes)
        turned = state[:4].reshape(2, 2) @ np.tensordot(xi, generators, 1)
        return np.append(turned, xi[2] - xi[3])

    (a, b, c, d, height) = along_the_stroke(rate, np.array([1.0, 0.0, 0.0, 1.0, 0.0]))
    moved = (a * 1j + b) / (c * 1j + d)
    return np.array([moved.real, moved.imag, height - 2 * np.angle(c * 1j + d)])


BY_SCIPY = {
    "S3": lambda end: (end, in_the_embedding(1, 3)),
    "H3": lambda end: (end, in_the_embedding(-1, 3)),
    "S2xE": lambda end: (end[:3, :3], in_the_embedding(1, 2)),
    "H2xE": lambda end: (end[:3, :3], in_the_embedding(-1, 2)),
    "Sol": lambda end: (end[:3, 3], in_sol()),
    "SL2": lambda end: (end[:3, 3], in_sl2()),
}


@pytest.mark.parametrize("name", slow("S3", "H3", "S2xE", "SL2", "H2xE", quick="Sol"))
def test_net_displacements_by_scipy(name):
    """Of the same three masses, from the formulas of each space."""
    body = masses_in(gd.spaces.THURSTON[name])
    found, wanted = BY_SCIPY[name](gd.holonomy(body, STROKE, steps=128))
    np.testing.assert_allclose(found, wanted, atol=1e-11)
    assert np.max(np.abs(wanted)) > 1e-3


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.parametrize("name", SURFACES)
def test_net_turns_on_surfaces_by_scipy(name):
    """Of the three masses on a torus and a catenoid, whose radius is f(u): the angle by which they turn."""
    radius = {"torus": lambda u: 2 + np.cos(u), "catenoid": np.cosh}[name]

    def rate(r, rdot, angle):
        radii = radius(np.array([0.0, r[0], 0.2 * r[1]]))
        return np.array([-np.sum(MASSES * radii**2 * [0, rdot[1], 0]) / np.sum(MASSES * radii**2)])

    found = gd.symmetries(SURFACES[name], [0.3, 0.0])
    body = gd.swimmers.PointMasses(found.space, MASSES, on_a_surface)
    turned = gd.groups.act(found.space, gd.holonomy(body, STROKE), [0.3, 0.0])
    np.testing.assert_allclose(turned, [0.3, along_the_stroke(rate, np.zeros(1))[0]], atol=1e-11)


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.parametrize("name", SURFACES)
def test_two_legs_on_surfaces_by_scipy(name):
    """With the axis of the body along the parallel, (angle, u): feet at the ends of geodesics that scipy integrates, at
    64 times, between which the stroke is a series of Fourier's. With its axis along the meridian it is a mirror image
    of itself and does not turn."""
    radius, slope = {"torus": (lambda u: 2 + np.cos(u), lambda u: -np.sin(u)), "catenoid": (np.cosh, np.sinh)}[name]
    stretch = (lambda u: 1.0 + 0 * u) if name == "torus" else np.cosh  # the length of ∂u
    change = (lambda u: 0.0) if name == "torus" else lambda u: np.tanh(u)  # that of its logarithm
    start = 0.3

    def turning(t, y):
        _, u, rate, along = y
        bend = radius(u) * slope(u) * rate**2 / stretch(u) ** 2 - change(u) * along**2
        return [rate, along, -2 * slope(u) / radius(u) * rate * along, bend]

    def foot(leg, half, side):
        v = [leg * np.cos(half) / radius(start), side * leg * np.sin(half) / stretch(start)]
        return solve_ivp(turning, (0, 1), [0.0, start, *v], "DOP853", rtol=1e-13, atol=1e-14).y[:2, -1]

    count = 64
    times = np.arange(count) / count
    shapes = [np.array([0.7 + 0.2 * np.cos(2 * np.pi * t), 0.8 + 0.2 * np.sin(2 * np.pi * t)]) for t in times]
    feet = np.array([[foot(*r, side) for side in (1, -1)] for r in shapes])
    waves = 2j * np.pi * np.fft.fftfreq(count, 1 / count)
    rates = np.fft.ifft(waves[:, None] * np.fft.fft(feet[..., 0], axis=0), axis=0).real
    weights = radius(feet[..., 1]) ** 2
    wanted = -np.mean(np.sum(weights * rates, axis=1) / (radius(start) ** 2 + np.sum(weights, axis=1)))

    def metric(x):
        u = x[1]
        squares = ((2 + jnp.cos(u)) ** 2, jnp.ones_like(u)) if name == "torus" else (jnp.cosh(u) ** 2, jnp.cosh(u) ** 2)
        return jnp.diag(jnp.stack(squares))

    found = gd.symmetries(gd.Manifold(metric, 2), [0.0, start])
    end = gd.holonomy(gd.swimmers.TwoLegged(found.space), gd.FourierStroke.circle(0.2, centre=(0.7, 0.8)), steps=32)
    turned = gd.groups.act(found.space, end, [0.0, start])
    np.testing.assert_allclose(turned, [wanted, start], atol=1e-10)
    assert abs(wanted) > 1e-4


@pytest.mark.parametrize("name", slow("E3", "S3", "H3", "H2xE", "Sol", "SL2", quick="S2xE"))
def test_no_momentum_in_the_eight_geometries(name):
    space = gd.spaces.THURSTON[name]
    body = masses_in(space)
    assert largest_momentum(body, space, body.shape) < 1e-10


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.parametrize("name", SURFACES)
def test_swimmers_in_found_spaces(name):
    """One symmetry: the rotation about the axis. A small loop moves the body by the curvature."""
    found = gd.symmetries(SURFACES[name], [0.3, 0.0])
    body = gd.swimmers.PointMasses(found.space, [1.0, 1.0, 2.0], on_a_surface)
    assert body.group.dim == 1
    assert largest_momentum(body, found.space, body.shape) < 1e-9
    small = gd.FourierStroke.circle(1e-3, centre=(0.6, 0.5))
    moved = body.group.log(gd.holonomy(body, small, steps=8)) / (np.pi * 1e-6)
    np.testing.assert_allclose(moved, -gd.curvature(body, jnp.array([0.6, 0.5]))[:, 0, 1], rtol=1e-4)


@pytest.mark.parametrize("name", slow("S2xE", "H2xE", "Sol", "SL2", quick="Nil"))
def test_small_loops_are_the_curvature(name):
    body, centre = masses_in(gd.spaces.THURSTON[name]), jnp.array([0.6, 0.5])
    small = gd.FourierStroke.circle(1e-4, centre=(0.6, 0.5))
    moved = body.group.log(gd.holonomy(body, small, steps=8)) / (np.pi * 1e-8)
    np.testing.assert_allclose(moved, -gd.curvature(body, centre)[:, 0, 1], atol=2e-4)


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.parametrize("name", ["Nil", "Sol", "SL2", "S2xE", "H2xE"])
def test_two_legs(name):
    """The feet are at the distance of the legs from the body, and a stroke moves it."""
    space = gd.spaces.THURSTON[name]
    body = gd.swimmers.TwoLegged(space)
    points = body.points(jnp.array([0.7, 0.4]))
    np.testing.assert_allclose([gd.distance(space, points[0], x) for x in points[1:]], 0.7, rtol=1e-10)
    assert body.outline(jnp.array([0.7, 0.4])).shape == (2, 17, 3)
    moved = body.group.log(gd.holonomy(body, gd.FourierStroke.circle(0.2, centre=(0.6, 0.8)), steps=16))
    assert float(jnp.max(jnp.abs(moved))) > 1e-3


@pytest.mark.long
def test_the_best_stroke_on_a_torus_of_which_only_the_metric_is_known():
    """On more steps it leads as far and costs as much; Wong's equation and the second variation say that it is a
    minimum."""
    torus = gd.Manifold(lambda x: jnp.diag(jnp.stack([(2 + jnp.cos(x[1])) ** 2, 1.0 + 0 * x[0]])), 2)
    body = gd.swimmers.TwoLegged(gd.symmetries(torus, [0.0, 0.3]).space)
    asked = gd.holonomy(body, gd.FourierStroke.circle(0.2, centre=(0.8, 0.8)))[0, -1]
    best = gd.optimal_stroke(body, displacement=[asked])
    assert best.wong_residual < 1e-6 and best.second_order > 0
    moved = gd.holonomy(body, best.stroke, steps=256)
    np.testing.assert_allclose(body.group.log(moved), asked, rtol=1e-8)
    np.testing.assert_allclose(gd.cost(body, best.stroke, steps=256), best.cost, rtol=1e-8)


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.parametrize("kind", ["legs", "masses"])
@pytest.mark.parametrize("name", ["S3", "H3", "S2xE", "H2xE", "Nil", "Sol", "SL2"])
def test_optimal_strokes(name, kind):
    """With their certificate, and cheaper than the circle that leads as far, of one component of the displacement.
    Measured: a residual of 7e-12, displacements to 3e-7 with the steps of the search."""
    body = gd.swimmers.TwoLegged(gd.spaces.THURSTON[name]) if kind == "legs" else masses_in(gd.spaces.THURSTON[name])
    centre = jnp.array([0.8, 0.8] if kind == "legs" else [0.7, 0.5])
    circle = gd.FourierStroke.circle(0.1, centre=centre)
    reached = body.group.log(gd.holonomy(body, circle))
    which = int(jnp.argmax(jnp.abs(reached)))
    wanted = [float(x) if k == which else None for k, x in enumerate(reached)]
    bounds = (jnp.array([0.3, 0.2]), jnp.array([1.4, 1.4]))
    best = gd.optimal_stroke(body, centre, displacement=wanted, bounds=bounds)
    assert best.kkt_residual < 1e-9 and best.second_order > 0
    found = body.group.log(gd.holonomy(body, best.stroke, steps=256))
    assert float(found[which]) == pytest.approx(float(reached[which]), rel=1e-5)
    assert float(best.cost) < float(gd.cost(body, circle))


@pytest.mark.weekly
@pytest.mark.long
def test_the_derivative_follows_the_numbers_in_the_metric():
    """Of a torus that is wider or narrower: the group is computed from the space, not kept beside it. By differences
    the symmetries are those of each torus."""

    class Torus(gd.AbstractManifold):
        radius: jax.Array
        dim = 2

        def metric(self, x):
            return jnp.diag(jnp.stack([1.0 + 0 * x[0], (self.radius + jnp.cos(x[0])) ** 2]))

    def body_on(radius: float):
        found = gd.symmetries(Torus(jnp.array(radius)), [0.3, 0.0])
        return gd.swimmers.PointMasses(found.space, [1.0, 1.0, 2.0], on_a_surface)

    def turn(body):
        return gd.holonomy(body, STROKE, steps=16)[1, 2]

    slope = eqx.filter_grad(turn)(body_on(2.0)).space.space.radius
    h = 1e-3
    difference = (turn(body_on(2.0 + h)) - turn(body_on(2.0 - h))) / (2 * h)
    np.testing.assert_allclose(slope, difference, rtol=1e-5)


def test_spaces_without_symmetries_are_refused():
    with pytest.raises(ValueError, match=r"PointMasses: space must be one whose isometries are known.*gd.symmetries"):
        gd.swimmers.PointMasses(SURFACES["torus"], [1.0], on_a_surface)
    with pytest.raises(ValueError, match="TwoLegged: space is a product with several Euclidean factors"):
        gd.swimmers.TwoLegged(gd.spaces.Product(gd.spaces.Euclidean(1), gd.spaces.Euclidean(1)))


@pytest.mark.parametrize(
    "space",
    [
        gd.spaces.Euclidean(2),
        gd.spaces.Sphere(3),
        *(
            pytest.param(space, marks=pytest.mark.long)
            for space in (
                gd.spaces.Euclidean(3),
                gd.spaces.Sphere(2),
                *map(gd.spaces.Hyperbolic, (2, 3)),
                gd.spaces.Nil(),
            )
        ),
    ],
    ids=lambda space: f"{type(space).__name__}({space.dim})",
)
def test_shapes_that_a_turn_leaves_as_they_are_have_no_connection(space):
    """A point of a plane or of Nil, two points of another space, anywhere: numbers of rounding errors alone were taken
    for the connection. Three points have one."""
    count = 1 if space.dim == 2 or isinstance(space, gd.spaces.Nil) else 2

    def forms(shape, count):
        body = gd.swimmers.PointMasses(space, jnp.ones(count), lambda r: r.reshape(count, space.dim))
        rows = 0.2 * jnp.asarray(np.random.default_rng(0).normal(size=(64, count * space.dim)))
        return jax.jit(jax.vmap(shape(body)))(rows)

    body = gd.swimmers.PointMasses(space, jnp.ones(count), lambda r: r.reshape(count, space.dim))
    with pytest.raises(ValueError, match=r"a symmetry of the space moves none of the masses.*Put a mass beside"):
        gd.connection(body, 0.1 * jnp.arange(1.0, count * space.dim + 1))
    assert np.isnan(forms(lambda body: lambda r: gd.connection(body, r), count)).all()
    assert np.isnan(forms(lambda body: jax.jacfwd(lambda r: gd.connection(body, r)), count)).all()
    assert np.isfinite(forms(lambda body: lambda r: gd.connection(body, r), 3)).all()


@pytest.mark.long
def test_points_outside_of_the_chart_are_none():
    body = gd.swimmers.PointMasses(gd.spaces.SL2(), [1.0, 1.0, 2.0], above_the_line)
    with pytest.raises(ValueError, match=r"shape r = \[ 0.6 -3. \] the masses \[2\] are at no points of SL2.* y > 0"):
        gd.connection(body, [0.6, -3.0])
    assert np.isnan(jax.jit(jax.jacrev(lambda r: gd.connection(body, r)))(jnp.array([0.6, -3.0]))).all()
