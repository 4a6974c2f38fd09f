"""Hulls: whether they are apart by linear programs in the embedding, how far by a search; impacts of polyhedra."""

from functools import cache, partial
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.marks import slow
from scipy.linalg import block_diag, null_space
from scipy.optimize import linprog, minimize

import geodyn as gd

KINDS = {"E": (gd.spaces.Euclidean, 0), "S": (gd.spaces.Sphere, 1), "H": (gd.spaces.Hyperbolic, -1)}
CUBE = np.stack(np.meshgrid(*[[-0.6, 0.6]] * 3, indexing="ij"), axis=-1).reshape(8, 3)


def space_of(name):
    kind, curvature = KINDS[name[0]]
    return kind(int(name[1])), curvature


def gap_of(space, counts, x):
    return gd.contact.Hulls([range(counts[0]), range(counts[0], sum(counts))]).gap(space, x)[0]


def embedded(space, x):
    """The points with the component w first; 1 in flat space."""
    X = np.array(jax.vmap(space.embed)(jnp.asarray(x)))
    return np.insert(X, 0, 1, axis=1) if X.shape[1] == x.shape[1] else np.roll(X, 1, axis=1)


def are_apart(X, Y):
    """Whether there is a plane with σ<N, X> ≥ 1 for all points."""
    signed = np.concatenate([-X, Y])
    found = linprog(np.zeros(X.shape[1]), -signed, -np.ones(len(signed)), bounds=(None, None))
    return found.status == 0


def least_distance(curvature, X, Y):
    """The distance of two hulls, over all convex weights; and the weights of both."""
    form = np.array([1.0, *[curvature] * (X.shape[1] - 1)])

    def points(weights):
        both = np.stack([weights[: len(X)] @ X, weights[len(X) :] @ Y])
        return both / np.sqrt(both**2 @ form)[:, None]

    def square(weights):
        first, second = points(weights)
        across = np.sum((first - second)[1:] ** 2)
        return across if curvature == 0 else across + curvature * (first - second)[0] ** 2

    sums = [{"type": "eq", "fun": lambda w, part=part: np.sum(w[part]) - 1} for part in np.s_[: len(X), len(X) :]]
    start = np.concatenate([np.full(len(X), 1 / len(X)), np.full(len(Y), 1 / len(Y))])
    options = {"ftol": 1e-14, "maxiter": 500}
    found = minimize(square, start, bounds=[(0, 1)] * len(start), constraints=sums, options=options)
    half = np.sqrt(max(found.fun, 0)) / 2
    return 2 * {1: np.arcsin, 0: float, -1: np.arcsinh}[curvature](half), found.x


def cosh_of_radius(X):
    """cosh R of a ball around some middle of points of hyperbolic space."""
    form = np.array([1.0, *[-1.0] * (X.shape[1] - 1)])
    middle = X.sum(axis=0)
    return np.max(X @ (form * middle)) / np.sqrt(middle**2 @ form)


def drawn(rng, name, counts):
    """Two bodies around places that are some 0.5 apart, so that about half of them overlap."""
    n = int(name[1])
    x = 0.25 * rng.normal(size=(sum(counts), n))
    if 8 in counts:
        turns = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in counts]
        bodies = [CUBE if count == 8 else rng.normal(size=(count, 3)) for count in counts]
        x = 0.25 * np.concatenate([body @ turn for body, turn in zip(bodies, turns, strict=True)])
    x[counts[0] :] += rng.normal(size=n) * 0.25
    return x * (0.6 if name[0] != "E" else 1)


SIMPLICES = [(f"{kind}{n}", (n + 1, n + 1)) for kind in "ESH" for n in (2, 3)]


@pytest.mark.parametrize("name, counts", [*SIMPLICES, ("E2", (4, 3)), ("H3", (8, 4)), ("S3", (8, 8))])
def test_gaps(name, counts):
    """Positive where a linear program finds a plane between. In flat space and on the sphere the gap is at most the
    distance, in hyperbolic space at most about cosh R times it, for bodies in balls of the radius R. In flat space it
    is the distance where n + 1 points are the corners of the nearest places."""
    space, curvature = space_of(name)
    measured = jax.jit(partial(gap_of, space, counts))
    rng = np.random.default_rng(1)
    apart = exact = 0
    for _ in range(25):
        x = drawn(rng, name, counts)
        X, Y = np.split(embedded(space, x), counts[:1])
        gap = float(measured(jnp.asarray(x)))
        assert abs(gap) > 1e-6
        assert (gap > 0) == are_apart(X, Y)
        if gap < 0:
            continue
        apart += 1
        distance, weights = least_distance(curvature, X, Y)
        if curvature < 0:
            assert np.sinh(gap / 2) <= max(cosh_of_radius(X), cosh_of_radius(Y)) * np.sinh(distance / 2) + 1e-6
        else:
            assert gap <= distance + 1e-6
        if curvature == 0 and np.sum(weights > 1e-4) == X.shape[1]:
            exact += 1
            assert gap == pytest.approx(distance, abs=1e-6)
    assert 5 <= apart <= 20
    assert exact >= 2 or curvature


def test_gaps_far_out():
    """The same pair moved by 6: along a geodesic of the half-space, and by a boost of the ball, whose coordinates lose
    five digits there."""
    x = 0.3 * np.random.default_rng(3).normal(size=(8, 3))
    x[4:, 0] += 1.6
    for chart, tolerance in (("halfspace", 1e-13), ("ball", 1e-10)):
        space = gd.spaces.Hyperbolic(3, chart)
        ball = gd.spaces.Hyperbolic(3)
        X = jax.vmap(ball.embed)(jnp.asarray(0.4 * x))
        near = jax.vmap(space.coordinates)(X)
        if chart == "halfspace":
            far = np.exp(6.0) * near + np.array([[40.0, 3.0, 0.0]])
        else:
            boost = np.eye(4)
            boost[np.ix_([0, 3], [0, 3])] = [[np.cosh(6), np.sinh(6)], [np.sinh(6), np.cosh(6)]]
            far = jax.vmap(space.coordinates)(X @ boost)
        measured = jax.jit(partial(gap_of, space, (4, 4)))
        assert float(measured(near)) > 0.1
        assert float(measured(far)) == pytest.approx(float(measured(near)), abs=tolerance)


def test_gaps_very_far_apart():
    """Also where exp(d) has no digits left they are apart; so are hulls about opposite points of the sphere, the
    smaller one within the reflection of the larger."""
    space = gd.spaces.Hyperbolic(3, "halfspace")
    measured = jax.jit(jax.vmap(partial(gap_of, space, (4, 4))))
    x = np.array([0.0, 0.0, 1.0]) + 0.2 * np.random.default_rng(3).normal(size=(20, 8, 3))
    for distance in (20, 40, 200):
        far = np.concatenate([x[:, :4], np.exp(distance) * x[:, 4:]], axis=1)
        gaps = measured(jnp.asarray(far))
        assert np.all((gaps > distance - 3) & (gaps < distance + 1))
    around = np.exp(2j * np.pi * np.arange(3) / 3)
    triangle = np.stack([around.real, around.imag], axis=1)
    x = jnp.asarray(np.concatenate([0.5 * triangle, 1e3 * triangle]))
    # All corners of the larger are at cos a = 0.6 from its plane, with tan a/2 = 0.5, and those of the other further.
    assert float(gap_of(gd.spaces.Sphere(2), (3, 3), x)) == pytest.approx(2 * np.arcsin(0.6), abs=1e-12)


def test_derivatives_of_the_gap():
    """Of a pair that is apart, in all points and twice, against differences; those of the points that do not matter are
    zero."""
    space = gd.spaces.Hyperbolic(3)
    measured = jax.jit(partial(gap_of, space, (4, 4)))
    x = jnp.asarray(0.2 * np.random.default_rng(5).normal(size=(8, 3)))
    x = x.at[4:, 0].add(0.5)
    slope, step = jax.jit(jax.grad(measured)), 1e-5 * np.random.default_rng(6).normal(size=(8, 3))
    assert float(jnp.sum(slope(x) * step)) == pytest.approx(
        float(measured(x + step) - measured(x - step)) / 2, abs=1e-12
    )
    assert int(jnp.sum(jnp.any(slope(x) != 0, axis=1))) == 4
    turned = jax.jvp(slope, (x,), (jnp.asarray(step),))[1]
    np.testing.assert_allclose(turned, (slope(x + step) - slope(x - step)) / 2, atol=1e-12)


@pytest.mark.parametrize("name", [*slow("E3", "S3", "H2", quick="E2"), "H3"])
def test_slip_and_rate_of_the_gap(name):
    """A vertex on a face: the relative velocity of the place, which is the sum Σ λX of its corners, has the gap's rate
    as its normal part, and the slip as its tangential part, in the units of the gap. Measured: 1e-15."""
    space, curvature = space_of(name)
    rng, n = np.random.default_rng(0), space.dim
    form = np.array([curvature if curvature else 1.0, *[1.0] * n])
    face = 0.2 * rng.normal(size=(n + 1, n))
    weights = rng.uniform(0.2, 1, size=n)
    X = embedded(space, face)[:n]
    weights /= np.sqrt(np.abs((weights @ X) ** 2 @ form)) if curvature else np.sum(weights)
    P = weights @ X
    tip = np.array(space.coordinates(jnp.asarray(P[1:] if curvature == 0 else np.roll(P, -1))))
    # The rest of the second body is beyond the face.
    rest = tip + 0.3 * (tip - face[-1]) + 0.1 * rng.normal(size=(n, n))
    x = jnp.asarray(np.concatenate([face, tip[None], rest]))
    v = jnp.asarray(rng.normal(size=x.shape))
    touching = gd.contact.Hulls([range(n + 1), range(n + 1, 2 * n + 2)], friction=0.3)
    (gap,), (rate,) = jax.jvp(partial(touching.gap, space), (x,), (v,))
    assert abs(float(gap)) < 1e-13
    moved = np.array(jax.vmap(lambda x, v: jax.jvp(space.embed, (x,), (v,))[1])(x, v))
    moved = np.insert(moved, 0, 0, axis=1) if curvature == 0 else np.roll(moved, 1, axis=1)
    relative = moved[n + 1] - weights @ moved[:n]
    if curvature:
        relative = relative - P * np.sum(form * P * relative) / np.sum(form * P**2)
    grows = 2 / (1 + np.sum(weights))
    slip = touching.slip(space, x, v)[0]
    assert slip.shape == (n - 1,)
    assert float(rate**2 + jnp.sum(slip**2)) == pytest.approx(grows**2 * (form @ relative**2), rel=1e-12)
    # Affine in the velocity, and none of a motion of both as one.
    for field in jnp.swapaxes(jax.vmap(space.killing_fields)(x), 0, 1):
        np.testing.assert_allclose(touching.slip(space, x, field)[0], 0, atol=1e-13)


# With a vertex down and a face up; with an edge down and another, across it, up.
ON_A_TIP = np.array(
    [[0, 0, -1], [np.sqrt(8) / 3, 0, 1 / 3], *([-np.sqrt(2) / 3, y, 1 / 3] for y in (np.sqrt(2 / 3), -np.sqrt(2 / 3)))]
)
ON_AN_EDGE = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3)
TRIANGLE = np.array([[0, -1], [0.9, 0.5], [-0.8, 0.6]])
MASSES = {2: jnp.array([1.0, 2.0, 1.5, 1.0, 1.2, 0.7]), 3: jnp.array([1.0, 2.0, 1.5, 1.0, 1.0, 1.2, 0.7, 1.5])}


def edges_of(n):
    return [pair for first in (0, n + 1) for pair in combinations(range(first, first + n + 1), 2)]


@cache
def flying(name, held, friction=0.0):
    """(a motion until t1; a start at which the second of two simplices flies to the first, from the shape of both)."""
    space, _ = space_of(name)
    n = space.dim
    edges = edges_of(n)

    def lengths(x):
        return jnp.stack([gd.distance(space, x[i], x[j]) for i, j in edges])

    @jax.jit
    def run(x, v, t1, e=1.0):
        between = gd.Rod(edges, lengths(x)) if held == "rods" else gd.Spring(edges, 10.0, lengths(x))
        hulls = gd.contact.Hulls([range(n + 1), range(n + 1, 2 * n + 2)], e, friction)
        return gd.integrate(gd.System(space, MASSES[n], between, hulls), x, v, t1=t1, steps=40, max_impacts=3)

    def start(shape, along=0.0):
        scale = 1.0 if name[0] == "E" else 0.5
        turn = np.linalg.qr(np.eye(n) + 0.1 * np.random.default_rng(7).normal(size=(n, n)))[0]
        first, second = 0.15 * shape, 0.15 * shape @ (turn * np.sign(np.diag(turn)))
        height = np.max(first[:, -1]) - np.min(second[:, -1]) + 0.1
        x = np.concatenate([first, second + np.array([0.02, 0.01, height])[-n:]])
        v = np.zeros_like(x)
        v[n + 1 :, -1], v[n + 1 :, 0] = -0.3, along
        rods = gd.System(space, MASSES[n], gd.Rod(edges, lengths(jnp.asarray(scale * x))))
        return gd.project(rods, scale * x, scale * v)

    return run, start


def momenta(name, motion):
    free = gd.System(space_of(name)[0], MASSES[int(name[1])])
    return jax.vmap(lambda q, v: gd.hamilton.killing_momentum(free, q, v))(motion.q, motion.v)


def gap_of_two(name):
    n = int(name[1])
    return jax.jit(partial(gap_of, space_of(name)[0], (n + 1, n + 1)))


def masses_of(name, x):
    """The kinetic metric, of all coordinates in a row."""
    space, n = space_of(name)[0], int(name[1])
    blocks = MASSES[n][:, None, None] * jax.vmap(space.metric)(x)
    return block_diag(*np.array(blocks))


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.parametrize("name", ["E3", "H3"])
def test_tetrahedra_collide(name):
    """Energy and the momenta of all Killing fields, through impacts of a vertex on a face and of an edge on an edge.
    Measured: momenta 3e-15, energy 2e-14."""
    run, start = flying(name, "rods")
    if name == "H3":  # A program with restitution, which another test runs too.
        run = partial(run, e=1.0)
    for shape, met in ((ON_A_TIP, [3, 1]), (ON_AN_EDGE, [2, 2])):
        x, v = start(shape)
        motion = run(x, v, 1.0)
        assert int(motion.impacts.count) == 1
        there = run(x, v, motion.impacts.t[0] * (1 - 1e-7)).q[-1]
        moves = jnp.any(jax.grad(gap_of_two(name))(there) != 0, axis=1)
        assert jnp.sum(moves.reshape(2, 4), axis=1).tolist() == met
        found = momenta(name, motion)
        np.testing.assert_allclose(found, np.tile(found[0], (41, 1)), atol=1e-10)
        np.testing.assert_allclose(motion.energy, motion.energy[0], rtol=1e-10)
        # The first moves, and turns.
        assert float(jnp.max(jnp.abs(motion.v[-1, 0] - motion.v[-1, 1]))) > 0.01


@pytest.mark.long
@pytest.mark.parametrize(
    "name, held",
    [
        ("H2", "rods"),
        ("S2", "springs"),
        ("H3", "springs"),
        pytest.param("E2", "rods", marks=pytest.mark.weekly),
        pytest.param("S3", "rods", marks=pytest.mark.weekly),
    ],
)
def test_bodies_collide(name, held):
    """Polygons, and elastic bodies. Measured: momenta 4e-14, energy 4e-11 with springs, 2e-15 with rods."""
    run, start = flying(name, held)
    motion = run(*start(TRIANGLE if name[1] == "2" else ON_A_TIP), 1.0)
    assert int(motion.impacts.count) >= 1
    found = momenta(name, motion)
    np.testing.assert_allclose(found, np.tile(found[0], (41, 1)), atol=1e-10)
    np.testing.assert_allclose(motion.energy, motion.energy[0], rtol=1e-10)


@pytest.mark.weekly
@pytest.mark.long
def test_the_end_follows_the_start():
    """The gradient of a motion of elastic tetrahedra through impacts, against a difference."""
    run, start = flying("H3", "springs")
    x, v = start(ON_A_TIP)

    def end(speed):
        return jnp.sum(run(x, speed * v, 1.0).q[-1] * jnp.arange(24.0).reshape(8, 3))

    h = 1e-4
    difference = (end(1 + h) - end(1 - h)) / (2 * h)
    assert float(jax.grad(end)(1.0)) == pytest.approx(float(difference), rel=1e-6)


@pytest.mark.long
def test_restitution():
    """Half of the rate of approach is the rate of separation; the loss of energy and the velocities are those of an
    impact in the kinetic metric of the rods, from the gap's gradient and those of the distances."""
    run, start = flying("H3", "rods")
    x, v = start(ON_A_TIP)
    e = 0.5
    motion = run(x, v, 1.0, e=e)
    assert int(motion.impacts.count) == 1
    found = momenta("H3", motion)
    np.testing.assert_allclose(found, np.tile(found[0], (41, 1)), atol=1e-10)
    t = motion.impacts.t[0]
    before, after = (run(x, v, t * (1 + shift), e=e) for shift in (-1e-9, 1e-9))
    there, gap = before.q[-1], gap_of_two("H3")
    assert abs(float(gap(there))) < 1e-8
    rates = [float(jax.jvp(gap, (run.q[-1],), (run.v[-1],))[1]) for run in (before, after)]
    assert rates[0] < -0.1
    assert rates[1] == pytest.approx(-e * rates[0], rel=1e-7)

    space, edges = gd.spaces.Hyperbolic(3), edges_of(3)
    lengths = jax.jacfwd(lambda x: jnp.stack([gd.distance(space, x[i], x[j]) for i, j in edges]))(there)
    bound, normal = np.array(lengths).reshape(12, 24), np.array(jax.grad(gap)(there)).ravel()
    M = masses_of("H3", there)
    free = null_space(bound)
    push = free @ np.linalg.solve(free.T @ M @ free, free.T @ normal)
    impulse = -(1 + e) * rates[0] / (normal @ push)
    np.testing.assert_allclose(np.ravel(after.v[-1]), np.ravel(before.v[-1]) + impulse * push, atol=1e-7)
    assert float(motion.impacts.impulse[0]) == pytest.approx(impulse, rel=1e-7)
    lost = (1 - e**2) / 2 * rates[0] ** 2 / (normal @ push)
    assert float(motion.energy[0] - motion.energy[-1]) == pytest.approx(lost, rel=1e-7)


@pytest.mark.long
def test_friction():
    """The second body flies along the face as well: the impulse along the slip is μ times that of the gap, against the
    slip, which goes on; momenta are conserved, energy is not."""
    mu = 0.2
    run, start = flying("H3", "springs", mu)
    x, v = start(ON_A_TIP, along=0.3)
    motion = run(x, v, 1.0)
    assert int(motion.impacts.count) == 1
    found = momenta("H3", motion)
    np.testing.assert_allclose(found, np.tile(found[0], (41, 1)), atol=1e-10)
    assert float(motion.energy[-1]) < float(motion.energy[0]) - 1e-3
    t = motion.impacts.t[0]
    before, after = (run(x, v, t * (1 + shift)) for shift in (-1e-9, 1e-9))
    there, hulls = before.q[-1], gd.contact.Hulls([range(4), range(4, 8)], friction=mu)
    slips = jax.jit(lambda v: hulls.slip(gd.spaces.Hyperbolic(3), there, v)[0])
    forces = np.concatenate([jax.grad(gap_of_two("H3"))(there)[None], jax.jacfwd(slips)(there)]).reshape(3, 24)
    change = masses_of("H3", there) @ np.ravel(after.v[-1] - before.v[-1])
    impulses, *_ = np.linalg.lstsq(forces.T, change)
    np.testing.assert_allclose(impulses @ forces, change, atol=1e-7)
    assert impulses[0] == pytest.approx(float(motion.impacts.impulse[0]), rel=1e-6)
    slip = np.array(slips(after.v[-1]))
    np.testing.assert_allclose(impulses[1:], -mu * impulses[0] * slip / np.linalg.norm(slip), atol=1e-6)


@pytest.mark.weekly
@pytest.mark.long
def test_a_tetrahedron_bounces_on_a_plane():
    """A rigid body on a totally geodesic plane of hyperbolic space, by a wall for its vertices, whose gap is the signed
    distance: its energy, the momenta of the fields that leave the plane, and a gradient."""
    space = gd.spaces.Hyperbolic(3)
    edges, masses = list(combinations(range(4), 2)), MASSES[3][:4]
    x = 0.1 * ON_A_TIP + np.array([0.02, 0.01, 0.15])
    bars = gd.Rod(edges, [gd.distance(space, x[i], x[j]) for i, j in edges])
    floor = gd.Wall(lambda x: jnp.arcsinh(space.embed(x)[2]))
    x, v = gd.project(gd.System(space, masses, bars), x, np.tile([0.05, 0.02, -0.15], (4, 1)))

    @jax.jit
    def run(speed):
        return gd.integrate(gd.System(space, masses, bars, floor), x, speed * v, t1=1.0, steps=40, max_impacts=4)

    motion = run(1.0)
    assert int(motion.impacts.count) >= 1
    free = gd.System(space, masses)
    found = jax.vmap(lambda q, v: gd.hamilton.killing_momentum(free, q, v))(motion.q, motion.v)
    # The translations along x and y, and the rotation of x into y.
    along = found[:, np.array([0, 1, 3])]
    np.testing.assert_allclose(along, np.tile(along[0], (41, 1)), atol=1e-10)
    assert float(jnp.abs(found[-1, 2] - found[0, 2])) > 0.1
    np.testing.assert_allclose(motion.energy, motion.energy[0], rtol=1e-10)

    def end(speed):
        return jnp.sum(run(speed).q[-1] * jnp.arange(12.0).reshape(4, 3))

    h = 1e-4
    difference = (end(1 + h) - end(1 - h)) / (2 * h)
    assert float(jax.grad(end)(1.0)) == pytest.approx(float(difference), rel=1e-6)


@pytest.mark.long
def test_squares_that_meet_side_to_side():
    """One contact, at a corner, as the docstring says: they turn, but the energy and the momenta are right, and at the
    end the upper one is above the lower one. Measured: momenta 2e-13, energy 6e-14."""
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    x = np.concatenate([square, square + np.array([0.3, 1.5])])
    edges = [(i + k, j + k) for k in (0, 4) for i, j in ((0, 1), (1, 2), (2, 3), (3, 0), (0, 2))]
    bars = gd.Rod(edges, [np.linalg.norm(x[i] - x[j]) for i, j in edges])
    flat = gd.spaces.Euclidean(2)
    squares = gd.System(flat, jnp.ones(8), bars, gd.contact.Hulls([range(4), range(4, 8)]))
    v = np.repeat([[0.0, 0.0], [0.0, -1.0]], 4, axis=0)
    motion = gd.integrate(squares, x, v, t1=0.6, steps=12, max_impacts=8)
    np.testing.assert_allclose(motion.impacts.t[: motion.impacts.count], 0.5, atol=1e-9)
    free = gd.System(flat, jnp.ones(8))
    found = jax.vmap(lambda q, v: gd.hamilton.killing_momentum(free, q, v))(motion.q, motion.v)
    np.testing.assert_allclose(found, np.tile(found[0], (13, 1)), atol=1e-10)
    np.testing.assert_allclose(motion.energy, motion.energy[0], rtol=1e-10)
    # The lower corners of the upper one are above the upper side of the lower one.
    lower, upper = motion.q[-1, :4], motion.q[-1, 4:]
    side = lower[3] - lower[2]
    normal = jnp.stack([side[1], -side[0]])
    assert float(jnp.min((upper[:2] - lower[2:3]) @ normal)) > 0.01


def test_overlaps():
    """The gap is that of the plane between also where faces lie on each other, and is continuous through zero: choices
    of points that have no plane, as those of one face, do not count."""
    flat = gd.spaces.Euclidean(3)
    cube = CUBE / 1.2
    measured = jax.jit(
        lambda height: gap_of(flat, (8, 8), jnp.concatenate([cube, cube + jnp.array([[0, 0, 1.0]]) * height]))
    )
    for height in (0.75, 0.875, 1.0, 1.25):
        assert float(measured(height)) == pytest.approx(height - 1, abs=1e-14)


def test_pairs_of_different_bodies():
    """Their gaps are in the order of the pairs, whatever the numbers of their points; bodies that share a point do not
    touch."""
    flat = gd.spaces.Euclidean(2)
    corner = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    places = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 7.0], [9.0, 9.0]])
    x = jnp.asarray(np.concatenate([body + place for body, place in zip([corner, square] * 2, places, strict=True)]))
    hulls = gd.contact.Hulls([(0, 1, 2), (3, 4, 5, 6), (7, 8, 9), (10, 11, 12, 13)])
    assert hulls.pairs == ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
    every = hulls.gap(flat, x)
    alone = [gd.contact.Hulls([hulls.bodies[i] for i in pair]).gap(flat, x)[0] for pair in hulls.pairs]
    np.testing.assert_allclose(every, alone, atol=1e-14)
    np.testing.assert_allclose(every[:2], [2.0, 6.0], atol=1e-14)
    assert gd.contact.Hulls([(0, 1, 2), (2, 3, 4), (5, 6, 7)]).pairs == ((0, 2), (1, 2))


def test_a_point_that_is_not_a_number():
    x = jnp.zeros((6, 2)).at[0, 0].set(jnp.nan)
    assert bool(jnp.isnan(gap_of(gd.spaces.Hyperbolic(2), (3, 3), x)))


def test_refusals():
    flat, two = gd.spaces.Euclidean(2), [(0, 1, 2), (3, 4, 5)]
    with pytest.raises(ValueError, match="bodies of Hulls must have 3 or more different points"):
        gd.contact.Hulls([(0, 1, 1), (2, 3, 4)])
    with pytest.raises(ValueError, match="bodies of Hulls must have 3 or more different points"):
        gd.contact.Hulls([(0, 1, -1), (2, 3, 4)])
    with pytest.raises(ValueError, match="bodies of Hulls must have each once"):
        gd.contact.Hulls([(0, 1, 2), (3, 4, 5), (5, 4, 3)])
    with pytest.raises(ValueError, match="bodies of Hulls must have two or more that share no point"):
        gd.contact.Hulls([(0, 1, 2), (2, 3, 4)])
    with pytest.raises(ValueError, match=r"bodies \(0, 1\) do: leave that pair out"):
        gd.contact.Hulls([(0, 1, 2), (2, 3, 4)], pairs=[(0, 1)])
    with pytest.raises(ValueError, match="name body 2, but there are 2 bodies"):
        gd.contact.Hulls(two, pairs=[(0, 2)])
    with pytest.raises(ValueError, match="restitution must be"):
        gd.contact.Hulls(two, 1.5)
    with pytest.raises(ValueError, match="name point 5, but there are 5 points"):
        gd.contact.Hulls(two).gap(flat, jnp.zeros((5, 2)))
    with pytest.raises(ValueError, match=r"4 points or more each in dim 3, got \(0, 1, 2\)"):
        gd.contact.Hulls(two).gap(gd.spaces.Euclidean(3), jnp.zeros((6, 3)))
    with pytest.raises(ValueError, match=r"not for Nil of dim 3: take gd\.contact\.Capsules"):
        gd.contact.Hulls(two).gap(gd.spaces.Nil(), jnp.zeros((6, 3)))
    overlapping = gd.System(flat, [1.0] * 6, gd.contact.Hulls(two))
    x = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.4, 0.4], [2.0, 2.0], [2.0, 3.0]]
    with pytest.raises(ValueError, match=r"q0 violates Hulls number 0: they overlap by 0\.1"):
        gd.integrate(overlapping, x, t1=1.0, steps=10)
