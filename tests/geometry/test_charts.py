"""Several charts: motions through poles and far away keep their digits, invariants and derivatives."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.marks import slow
from scipy.integrate import solve_ivp

import geodyn as gd

PAIR, MOVING = "stereographic pair", "moving halfspace"
GROUPS = (gd.spaces.Nil, gd.spaces.Sol, gd.spaces.SL2)


@pytest.mark.parametrize("n", [1, 3])
def test_the_pair_is_one_space(n):
    """Points all over the sphere, some nearly coincident or antipodal, each in both charts: one embedding (seen 8e-16),
    and the distances of the chords (seen 4e-15), whatever the charts."""
    space, X = gd.spaces.Sphere(n, PAIR), np.random.default_rng(1).standard_normal((12, n + 1))
    X = np.concatenate([X, -X[:3], X[:3] + 1e-7])
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    X = X[np.abs(X[:, -1]) < 0.85]
    x = jax.vmap(space.coordinates)(jnp.asarray(X))

    def swap(x):
        return space.chart.move(jnp.where(x[0] > 4, 1.0, 2.0), x)

    both = jnp.concatenate([x, jax.vmap(swap)(x)])
    assert set(np.asarray(x[:, 0] > 4)) == {True, False} and np.all((both[len(x) :, 0] > 4) != (x[:, 0] > 4))
    X = np.concatenate([X, X])
    np.testing.assert_allclose(jax.vmap(space.embed)(both), X, rtol=0, atol=5e-15)
    distance = jax.vmap(jax.vmap(lambda x, y: gd.distance(space, x, y), (None, 0)), (0, None))(both, both)
    chords = (np.linalg.norm(X[:, None] + sign * X[None], axis=2) for sign in (-1, 1))
    np.testing.assert_allclose(distance, 2 * np.arctan2(*chords), rtol=0, atol=2e-14)


@jax.jit
def flight(x, v):
    """A particle that flies three times round S³: (saved states, the error of its place, its Killing momenta)."""
    space = gd.spaces.Sphere(3, PAIR)
    body = gd.System(space, [1.0])
    v = v / gd.norm(space, x, v)
    trajectory = gd.integrate(body, x[None], v[None], t1=6 * np.pi, steps=48, method=gd.Gauss(6))
    (X, V), t = jax.jvp(space.embed, (x,), (v,)), trajectory.t[:, None]
    momenta = jax.vmap(lambda q, v: gd.hamilton.killing_momentum(body, q, v))(trajectory.q, trajectory.v)
    return (
        trajectory.q[:, 0],
        trajectory.embedding[:, 0] - jnp.cos(t) * X[None] - jnp.sin(t) * V[None],
        momenta,
        trajectory.energy,
    )


@pytest.mark.long
def test_a_geodesic_through_the_poles_is_as_exact_as_any():
    """Side by side through both poles, between them, and along the equator of the charts, where none is preferred.
    Errors seen: 3e-14, 1.5e-14, 3e-15; of momenta and energy 8e-15. Members of a batch, which change charts at
    different steps, are what they are alone."""
    x = jnp.array([[0.1, 0.05, -0.03], [0.5, 0.2, 0.0], [0.6, 0.0, 0.8]])
    v = jnp.array([[1.0, 0.5, -0.3], [0.0, 0.1, 0.7], [0.0, 1.0, 0.0]])
    q, errors, momenta, energy = jax.vmap(flight)(x, v)
    switches = np.flatnonzero(np.diff(q[0, :, 0] > 4)), np.flatnonzero(np.diff(q[1, :, 0] > 4))
    assert len(switches[0]) == len(switches[1]) == 6 and not set(switches[0]) & set(switches[1])
    assert np.max(np.abs(errors)) < 3e-13
    np.testing.assert_allclose(momenta, np.broadcast_to(momenta[:, :1], momenta.shape), rtol=0, atol=1e-13)
    np.testing.assert_allclose(energy, 0.5, rtol=0, atol=1e-13)
    np.testing.assert_allclose(flight(x[0], v[0])[0], q[0], rtol=0, atol=1e-13)


@pytest.mark.long
def test_derivatives_go_through_a_change_of_charts():
    """Of the place of a particle after it left the chart, against the derivative of the closed form: both modes, seen
    1e-9, the order of the method; they are equal to 1e-13."""
    space, weights = gd.spaces.Sphere(2, PAIR), jnp.array([0.3, 0.7, -0.4])

    def place(x, v, mass):
        trajectory = gd.integrate(gd.System(space, mass[None]), x[None], v[None], t1=4.0, steps=48)
        return trajectory.embedding[-1, 0] @ weights, trajectory.q[-1, 0, 0]

    def exact(x, v, mass):
        (X, V), s = jax.jvp(space.embed, (x,), (v,)), gd.norm(space, x, v)
        return (jnp.cos(4 * s) * X + jnp.sin(4 * s) / s * V) @ weights + 0 * mass

    at = jnp.array([0.5, 0.2]), jnp.array([0.6, 0.1]), jnp.array(2.0)
    along = jnp.array([0.4, -0.9]), jnp.array([0.7, 0.2]), jnp.array(-0.5)

    @jax.jit
    def derivatives(*at):
        _, push, last = jax.linearize(place, *at, has_aux=True)
        return push(*along), jax.linear_transpose(push, *at)(1.0), jax.grad(exact, (0, 1, 2))(*at), last

    forward, reverse, wanted, last = derivatives(*at)
    assert last > 4
    np.testing.assert_allclose(forward, sum(np.sum(a * b) for a, b in zip(reverse, along)), rtol=0, atol=1e-12)
    for a, b in zip(reverse, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-8)


def half_separation(sigma, t):
    """Of two unit masses on a spring k = 1 that fly side by side, by their reduced equation l'' = σ C(1)⁴ S(l)/C(l)³ −
    2(l − 1), S, C = sinh, cosh (H³, σ = 1) or sin, cos (S³, σ = −1), integrated by scipy."""
    S, C = (np.sinh, np.cosh) if sigma > 0 else (np.sin, np.cos)

    def rate(t, y):
        return [y[1], sigma * C(1) ** 4 * S(y[0]) / C(y[0]) ** 3 - 2 * (y[0] - 1)]

    return solve_ivp(rate, (0, t[-1]), [1.0, 0.0], method="DOP853", rtol=1e-13, atol=1e-14, t_eval=t).y[0]


def rod(space, element=None):
    """Two unit masses at ±1 on both sides of the geodesic through the origin along the first axis, their way."""
    C, S = (np.cosh(1), np.sinh(1)) if isinstance(space, gd.spaces.Hyperbolic) else (np.cos(1), np.sin(1))
    X, V = np.zeros((2, space.dim + 1)), np.zeros((2, space.dim + 1))
    X[:, 1], X[:, -1], V[:, 0] = [S, -S], C, C
    q0, v0 = jax.vmap(lambda X, V: jax.jvp(space.coordinates, (X,), (V,)))(jnp.asarray(X), jnp.asarray(V))
    return gd.System(space, [1.0, 1.0], element or gd.Spring([(0, 1)], 1.0, 2.0)), q0, v0


def separations(trajectory):
    return jax.vmap(lambda x: gd.distance(trajectory.system.space, *x))(trajectory.q)


@pytest.fixture(scope="module")
def far():
    """An elastic rod that flies a distance of 20 in H³."""
    return gd.integrate(*rod(gd.spaces.Hyperbolic(3, MOVING)), t1=40.0, steps=1600, save_every=20)


def test_a_rod_far_out_keeps_its_separation(far):
    """To 2.7e-12 (seen) at t = 40, where the fixed half-space keeps 1.5e-10 and the ball 3e-8; the energy to 8e-13, and
    its place in the embedding, |X| = 4e8 there, mirrored at the axis."""
    exact = 2 * half_separation(1, np.asarray(far.t))
    np.testing.assert_allclose(separations(far), exact, rtol=1e-11)
    np.testing.assert_allclose(far.energy, far.energy[0], rtol=1e-11)
    assert far.frame[-1, -1] < 1e-8
    X = np.asarray(far.embedding)
    np.testing.assert_allclose(X[:, 0] * [1, -1, 1, 1], X[:, 1], rtol=1e-10, atol=1e-12 * np.max(X))


def test_a_chart_out_of_digits_is_a_status():
    """Thirty radii from the centre of the ball fewer than four digits are left, which is a status, in a batch and a
    product too; 24 radii leave six; at 60 there are none left, and no number either: that is the same status."""

    def flown(length):
        one = gd.System(gd.spaces.Product(gd.spaces.Euclidean(1), gd.spaces.Hyperbolic(2)), [1.0])
        rest, v = jnp.zeros((1, 3)), jnp.zeros((1, 3)).at[0, 1].set(length / 2)
        return gd.integrate(one, rest, v, t1=1.0, steps=400, save_every=200, throw=False).result

    ends = jax.jit(jax.vmap(flown))(jnp.array([30.0, 24.0, 60.0]))
    assert ends.tolist() == [gd.RESULTS.digits_lost, gd.RESULTS.successful, gd.RESULTS.digits_lost]
    assert "Hyperbolic(n, 'moving halfspace')" in gd.RESULTS.digits_lost.message


def test_the_rod_of_the_case_in_the_embedding(far):
    """Case B01: the first vertex at t = 5; seen 1.2e-11."""
    wanted = [23.43953359278737780184, 3.586512973007945002334, 0.0, 23.73341126667134312593]
    np.testing.assert_allclose(far.embedding[10, 0], wanted, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(
        jax.vmap(gd.spaces.Hyperbolic(3).coordinates)(far.embedding[10]),
        far.coordinates(gd.spaces.Hyperbolic(3))[10],
        rtol=1e-15,
    )


@pytest.mark.long
def test_a_rod_circles_the_sphere():
    """The elastic rod of S³, through the pole that a single chart leaves out. Seen: separation 5e-13, Killing momenta
    1e-15."""
    trajectory = gd.integrate(*rod(gd.spaces.Sphere(3, PAIR)), t1=12.0, steps=48, method=gd.Gauss(6))
    exact = 2 * half_separation(-1, np.asarray(trajectory.t))
    np.testing.assert_allclose(separations(trajectory), exact, rtol=0, atol=1e-11)
    momenta = jax.vmap(lambda q, v: gd.hamilton.killing_momentum(trajectory.system, q, v))(trajectory.q, trajectory.v)
    np.testing.assert_allclose(momenta, np.broadcast_to(momenta[:1], momenta.shape), rtol=0, atol=1e-12)


@pytest.mark.long
def test_a_rigid_rod_keeps_its_force():
    """A Killing flow carries it: λ = ½ sin 2 (S²), through a change of charts. Seen: 2.9e-6, five times less than the
    truncation error of the single chart; the constraint 3e-15."""
    trajectory = gd.integrate(*rod(gd.spaces.Sphere(2, PAIR), gd.Rod([(0, 1)], 2.0)), t1=2.4, steps=48)
    assert np.any(trajectory.q[..., 0] > 4)
    np.testing.assert_allclose(trajectory.multipliers, np.sin(2) / 2, rtol=0, atol=6e-6)
    np.testing.assert_allclose(separations(trajectory), 2, rtol=0, atol=2e-14)


@pytest.mark.long
def test_derivatives_in_a_chart_that_moves():
    """Those of the places in the fixed half-space, of which the moving one is an affine function: the same method, so
    the same derivative."""

    def place(q, v, chart):
        body = gd.System(gd.spaces.Hyperbolic(2, chart), [1.0])
        trajectory = gd.integrate(body, q[None], v[None], t1=3.0, steps=48, save_every=16)
        return jnp.sum(trajectory.coordinates()[1:, 0] @ jnp.array([1.0, 0.3])), trajectory.q[-1, 0, -1]

    at = jnp.array([0.3, 1.1]), jnp.array([1.5, -1.0])
    (moving, height), (fixed, low) = (
        jax.jit(jax.grad(lambda *at, chart=chart: place(*at, chart), (0, 1), has_aux=True))(*at)
        for chart in (MOVING, "halfspace")
    )
    assert height > 0.4 > low
    for a, b in zip(moving, fixed, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("space", [gd.spaces.Sphere(1, PAIR), gd.spaces.Hyperbolic(2, MOVING)], ids=["S1", "H2"])
def test_between_the_steps_and_with_progress(space, capsys):
    """Dense output after changes of charts since the last save, of a run in parts, is on the geodesic: 1e-13."""
    q0, v0 = jnp.array([[0.3, 1.1]])[:, : space.dim], jnp.array([[1.5, -1.0]])[:, : space.dim]
    run = {"t1": 4.0, "steps": 48, "save_every": 24, "method": gd.Gauss(6), "progress": True}
    trajectory = gd.integrate(gd.System(space, [1.0]), q0, v0, **run)
    assert "48.0/48.0" in capsys.readouterr().err
    times = np.array([2.0, 41 / 12])
    between = trajectory.evaluate(times)
    if trajectory.frame is not None:
        between = jax.vmap(lambda x: space.chart.from_frame(trajectory.frame[1], x))(between)
    exact = space.embed(gd.geodesic(space, q0[0], v0[0], times)[0][1])
    np.testing.assert_allclose(space.embed(between[1, 0]), exact, rtol=1e-11)
    np.testing.assert_allclose(trajectory.embedding[1, 0], space.embed(between[0, 0]), rtol=1e-13)


H2_BY_A_LINE = {
    "fixed": gd.spaces.Product(gd.spaces.Hyperbolic(2, "halfspace"), gd.spaces.Euclidean(1)),
    "moving": gd.spaces.Product(gd.spaces.Hyperbolic(2, MOVING), gd.spaces.Euclidean(1)),
}
TRANSLATED = {
    **{space.__name__: {chart: space(chart) for chart in ("fixed", "moving")} for space in GROUPS},
    "H2xE": H2_BY_A_LINE,
}


@pytest.mark.parametrize("name", slow("Nil", "SL2", "H2xE", quick="Sol"))
def test_a_chart_that_translations_move(name):
    """It is an affine function of the fixed one: the same method, so the same motion. Seen: 5e-15."""
    q0, v0 = [[0.1, 1.1, 0.2]], [[0.5, 0.3, 0.7]]
    moving, fixed = (
        gd.integrate(gd.System(TRANSLATED[name][chart], [1.0]), q0, v0, t1=6.0, steps=60)
        for chart in ("moving", "fixed")
    )
    np.testing.assert_allclose(moving.coordinates(), fixed.q, rtol=1e-13, atol=1e-13)
    assert float(jnp.max(jnp.abs(fixed.q))) > 4
    assert float(jnp.max(jnp.abs(moving.q))) < (4.5 if name == "H2xE" else 2.5)


@pytest.mark.long
@pytest.mark.parametrize("name", ["Sol", "SL2"])
def test_the_same_journey_from_elsewhere(name):
    """Two masses and a spring that fly far, and the same moved by a translation: the spring has the same lengths. Seen:
    6e-15; in the fixed chart 1e-13 and 3e-11."""
    space = TRANSLATED[name]["moving"]
    half_plane = name == "SL2"
    x = jnp.array([[0.2, 0.05 + half_plane, 0.0], [-0.2, half_plane, 0.1]])
    v = jnp.array([[0.1, 1.0, 0.0], [0.0, 1.0, 0.2]]) if half_plane else jnp.array([[0.1, 0, 1.0], [0.0, 0.05, 1.0]])

    def moved(x):
        if half_plane:
            return jnp.stack([0.3 + 1.7 * x[0], 1.7 * x[1], 0.4 + x[2]])
        return jnp.stack([0.3 + jnp.exp(0.7) * x[0], -0.2 + jnp.exp(-0.7) * x[1], x[2] - 0.7])

    @jax.jit
    def lengths(x, v):
        body = gd.System(space, [1.0, 1.5], gd.Spring([(0, 1)], 1.0, 0.5))
        motion = gd.integrate(body, x, v, t1=20.0, steps=200, save_every=20)
        return jax.vmap(lambda q: gd.distance(space, q[0], q[1]))(motion.q)

    np.testing.assert_allclose(lengths(x, v), lengths(*jax.jvp(jax.vmap(moved), (x,), (v,))), rtol=1e-13)


@pytest.mark.long
def test_charts_of_factors():
    """A product of spaces of two charts, of one that moves, and of one: each factor moves as it does alone."""
    factors = [gd.spaces.Sphere(2, PAIR), gd.spaces.Hyperbolic(2, MOVING), gd.spaces.Euclidean(1)]
    space = gd.spaces.Product(gd.spaces.Product(factors[0], factors[1]), factors[2])
    q0, v0 = np.array([[0.3, 0.2, 0.3, 1.1, 0.5]] * 2), np.array([[0.9, 0.4, 1.5, -1.0, 0.7], [0.2, -0.9, -1, 1, 0.1]])
    both = gd.integrate(gd.System(space, [1.0, 2.0]), q0, v0, t1=4.0, steps=40)
    places = np.split(both.coordinates(), [2, 4], axis=2)
    assert np.any(both.q[:, :, 0] > 4)
    assert both.frame.shape[1] == 2
    for factor, part, x, v in zip(factors, places, np.split(q0, [2, 4], 1), np.split(v0, [2, 4], 1), strict=True):
        alone = gd.integrate(gd.System(factor, [1.0, 2.0]), x, v, t1=4.0, steps=40)
        np.testing.assert_allclose(part, alone.coordinates(), rtol=1e-12, atol=1e-12)


class Cap(gd.AbstractManifold):
    """An ellipsoid without a pole."""

    axes: jax.Array
    sign: float
    dim: int = eqx.field(static=True, default=2)

    def embed(self, x):
        return self.axes * jnp.append(2 * x, self.sign * (1 - x @ x)) / (1 + x @ x)

    def coordinates(self, X):
        return (X / self.axes)[:2] / (1 + self.sign * X[2] / self.axes[2])

    def metric(self, x):
        J = jax.jacfwd(self.embed)(x)
        return J.T @ J


@pytest.mark.long
def test_an_atlas_of_ones_own():
    """A geodesic of a triaxial ellipsoid, against that of its equation in space, X'' = −(V·DV)/|DX|² DX, by scipy."""
    axes = np.array([1.0, 1.3, 0.8])
    ellipsoid = gd.spaces.Atlas([Cap(jnp.asarray(axes), 1.0), Cap(jnp.asarray(axes), -1.0)], 1.2)
    X, V, D = axes * [0.6, 0.0, 0.8], axes * [-0.56, 0.3, 0.42], axes**-2.0

    def rate(t, y):
        X, V = y[:3], y[3:]
        return np.append(V, -(V @ (D * V)) / np.sum((D * X) ** 2) * D * X)

    x, v = jax.jvp(ellipsoid.coordinates, (jnp.asarray(X),), (jnp.asarray(V),))
    trajectory = gd.integrate(gd.System(ellipsoid, [1.0]), x[None], v[None], t1=10.0, steps=48, method=gd.Gauss(6))
    exact = solve_ivp(rate, (0, 10), np.append(X, V), method="DOP853", rtol=1e-13, atol=1e-13, t_eval=trajectory.t)
    assert len(np.flatnonzero(np.diff(trajectory.q[:, 0, 0] > 4.8))) == 2
    np.testing.assert_allclose(trajectory.embedding[:, 0], exact.y[:3].T, rtol=0, atol=3e-11)
    np.testing.assert_allclose(trajectory.energy, trajectory.energy[0], rtol=1e-11)


def test_distances_in_an_atlas():
    """Across its charts, by the boundary-value solve of one of them."""
    sphere = gd.spaces.Atlas([Cap(jnp.ones(3), 1.0), Cap(jnp.ones(3), -1.0)], 1.2)
    X = jnp.array([[0.6, 0.0, 0.8], [0.8, 0.36, -0.48]])
    x = jax.vmap(sphere.coordinates)(X)
    assert x[0, 0] < 4.8 < x[1, 0]
    np.testing.assert_allclose(gd.distance(sphere, *x), np.arccos(X[0] @ X[1]), rtol=1e-10)


class Height(gd.AbstractPotential):
    """A potential of the coordinates, which is none in several charts."""

    def energy(self, space, x):
        return jnp.sum(x[:, 1])


def test_what_depends_on_the_chart_is_refused(as_users_run):
    q0, v0 = jnp.array([[0.3, 1.1]]), jnp.array([[1.5, -1.0]])
    far_away = gd.spaces.Hyperbolic(2, MOVING)
    for element in (gd.Kepler(1.0, [0.0, 1.0]), gd.Gravity(), gd.Pin(0, [0.3, 1.1]), Height()):
        with pytest.raises(ValueError, match=f"{type(element).__name__} is not the same in all charts"):
            gd.integrate(gd.System(far_away, [1.0], element), q0, 0 * v0, t1=1.0, steps=10)
    with pytest.raises(ValueError, match="Height is not the same"):
        gd.integrate(gd.System(gd.spaces.Sphere(2, PAIR), [1.0], Height()), q0, v0, t1=1.0, steps=10)
    # Where there is but one chart at q0, on the way.
    with pytest.raises(gd.IntegrationError, match="not the same in the next chart") as failed:
        gd.integrate(gd.System(gd.spaces.Sphere(2, PAIR), [1.0], Height()), q0 / 10, v0, t1=3.0, steps=60)
    assert int(failed.value.trajectory.result) == gd.RESULTS.charts_disagree
    with pytest.raises(ValueError, match="contacts"):
        gd.integrate(
            gd.System(gd.spaces.Sphere(2, PAIR), [1.0, 1.0], gd.Contact([0.1, 0.1], 1.0)),
            jnp.eye(2),
            jnp.eye(2),
            t1=1,
            steps=1,
        )
    with pytest.raises(ValueError, match="chart must be 'fixed' or 'moving', got 'halfspace'"):
        gd.spaces.Sol("halfspace")
    for charts, radius, named in (
        ([gd.spaces.Sphere(2), gd.spaces.Sphere(3)], 1.0, "same dim"),
        ([Height()], 1.0, "charts"),
        ([gd.spaces.Sphere(2)], -1.0, "radius"),
    ):
        with pytest.raises(ValueError, match=named):
            gd.spaces.Atlas(charts, radius)


def test_distances_by_the_antipode_keep_their_digits():
    """Stereographic coordinates grow by the point that they leave out as the sphere shrinks in them: distances of
    points there, or of points antipodal to each other but for a small angle, keep all digits (seen 0 to 2e-16);
    logarithms lose one for each power of ten (seen 4e-16 at 1e-3, 5e-5 at 1e-12)."""
    for space, unit in ((gd.spaces.Sphere(n), jnp.eye(n)[0]) for n in (2, 3)):
        for near, other in ((1e-3, 3e-3), (1e-8, 2e-8), (1e-12, 0.5)):
            x, y = (unit / np.tan(angle / 2) for angle in (near, other))
            np.testing.assert_allclose(gd.distance(space, x, y), other - near, rtol=1e-14)
            np.testing.assert_allclose(gd.norm(space, x, gd.log(space, x, y)), other - near, rtol=1e-15 / near)
            y = -unit * np.tan((np.pi - 0.3 - near) / 2)
            np.testing.assert_allclose(gd.distance(space, unit * np.tan(0.15), y), np.pi - near, rtol=1e-15)


def test_a_great_circle_by_the_antipode():
    """A tenth of a radius from the point that the chart leaves out it comes to where it should: seen 4e-16 in 2000
    steps. So near to it that fewer than four digits are left of what is a derivative is a status; of single precision,
    with its own rounding, too, as far out in the ball."""
    sphere, by = gd.spaces.Sphere(2), 0.1
    aim = jnp.array([0.0, np.sin(by), -np.cos(by)])
    v0 = jax.jvp(sphere.coordinates, (jnp.array([1.0, 0.0, 0.0]),), (aim,))[1]
    motion = gd.integrate(gd.System(sphere, [1.0]), [[1.0, 0.0]], v0[None], t1=np.pi, steps=2000, save_every=2000)
    np.testing.assert_allclose(motion.embedding[-1, 0], [-1, 0, 0], atol=1e-14)

    def rests(space, x):
        q = jnp.array([[x, 0.0]]) if isinstance(x, float) else jnp.stack([x, 0 * x])[None]
        run = gd.integrate(gd.System(space, [1.0]), q, 0 * q, t1=1.0, steps=1, throw=False)
        assert run.q.dtype == q.dtype
        return int(run.result) == gd.RESULTS.digits_lost

    single = jnp.float32
    assert [rests(sphere, x) for x in (1e12, 1e11, single(1e3), single(1e2))] == [True, False, True, False]
    assert [rests(gd.spaces.Hyperbolic(2), single(x)) for x in (0.9999, 0.99)] == [True, False]
