"""Hard spheres that collide in spheres, hyperbolic and inhomogeneous spaces, against closed-form flights."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.impacts import times
from helpers.marks import slow
from scipy.integrate import solve_ivp

import geodyn as gd

CURVED = {
    "S3": (gd.spaces.Sphere(3), 1),
    "H3": (gd.spaces.Hyperbolic(3), -1),
    "IH3": (gd.spaces.Inhomogeneous(3), None),
}


@pytest.fixture(scope="module", params=[x if x == "H3" else pytest.param(x, marks=pytest.mark.long) for x in CURVED])
def curved(request):
    """(curvature, space, run): two spheres in a space for t = 2."""
    space, curvature = CURVED[request.param]

    @jax.jit
    def run(masses, radii, q0, v0, e):
        system = gd.System(space, masses, gd.Contact(radii, e))
        return gd.integrate(system, q0, v0, t1=2.0, steps=40, max_impacts=3)

    return curvature, space, run


@pytest.mark.long
def test_head_on_in_curved_space(curved):
    """Equal spheres that meet on a geodesic through the origin swap velocities: the distance to the origin is exact.
    Measured: times and positions 1e-15, at 40 steps of Gauss 3."""
    _, space, run = curved
    axis, speed, radius, half = jnp.array([0.6, 0.0, 0.8]), 0.37, 0.2, 0.5
    axis = axis / gd.norm(space, jnp.zeros(3), axis)
    q0 = jnp.stack([gd.exp(space, jnp.zeros(3), side * half * axis) for side in (1, -1)])
    v0 = jnp.stack([-side * speed * axis / gd.norm(space, q, axis) for side, q in zip((1, -1), q0, strict=True)])
    trajectory = run(jnp.ones(2), jnp.array([radius, radius]), q0, v0, 1.0)
    np.testing.assert_allclose(times(trajectory), [(half - radius) / speed], rtol=0, atol=1e-11)
    apart = jax.vmap(lambda x: gd.distance(space, x, jnp.zeros(3)))(trajectory.q[-1])
    np.testing.assert_allclose(apart, radius + speed * (2.0 - (half - radius) / speed), rtol=0, atol=1e-11)


OBLIQUE = {"masses": np.array([1.0, 2.5]), "radii": np.array([0.15, 0.3])}
OBLIQUE |= {"q0": jnp.array([[-0.35, 0.02, 0.05], [0.3, 0.1, -0.02]])}
OBLIQUE |= {"v0": jnp.array([[0.5, 0.1, 0.02], [-0.1, -0.05, 0.03]])}


def test_conserved_through_an_impact(curved):
    """Energy (e = 1) and all momenta of Killing fields (any e: the impulse acts along a geodesic) of two spheres that
    collide obliquely; e = 0 leaves no overlap. Measured: momenta 2e-14, energy 4e-14."""
    _, space, run = curved
    system = gd.System(space, OBLIQUE["masses"], gd.Contact(OBLIQUE["radii"]))
    for e in (1.0, 0.5, 0.0):
        t = run(*map(jnp.asarray, OBLIQUE.values()), e)
        assert int(t.impacts.count) == 1 or (e == 0 and int(t.impacts.count) >= 1)
        momentum = jax.vmap(lambda q, v: gd.hamilton.killing_momentum(system, q, v))(t.q, t.v)
        np.testing.assert_allclose(momentum, np.tile(momentum[0], (41, 1)), rtol=0, atol=1e-12)
        if e == 1:
            np.testing.assert_allclose(t.energy, t.energy[0], rtol=1e-12)
        else:
            assert t.energy[-1] < 0.999 * t.energy[0]
        assert np.min(jax.vmap(lambda q: system.contacts.gap(jnp.zeros(()), q.ravel()))(t.q)) > -1e-12


@pytest.mark.parametrize("curved", slow("S3", quick="H3"), indirect=True)
def test_oblique_in_curved_space(curved):
    """Unequal spheres, e = 0.7, against DOP853 with an event in the embedding, X'' = −κ<X', X'>X. Measured 8e-12."""
    curvature, space, run = curved
    (masses, radii, q0, v0), e = OBLIQUE.values(), 0.7
    metric = np.diag([1.0, 1.0, 1.0, curvature])
    X, V = (np.array(x) for x in jax.vmap(lambda q, v: jax.jvp(space.embed, (q,), (v,)))(q0, v0))

    def rate(t, y):
        X, V = y.reshape(2, 2, 4)
        return np.concatenate([V, -curvature * np.einsum("ia,ab,ib->i", V, metric, V)[:, None] * X]).ravel()

    def product(y):
        X = y.reshape(2, 2, 4)[0]
        return X[0] @ metric @ X[1] * curvature

    closed = (np.cos if curvature > 0 else np.cosh)(radii.sum())

    def touch(t, y):
        return (closed - product(y)) * curvature

    touch.terminal = True
    options = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-14}
    there = solve_ivp(rate, (0, 2), np.concatenate([X, V]).ravel(), events=touch, **options)
    X, V = there.y[:, -1].reshape(2, 2, 4)
    # Unit normals at both centres, away from the other: −(Y − <Y, X>X/<X, X>) normalised.
    normals = -np.stack([Y - curvature * (Y @ metric @ X_) * X_ for X_, Y in zip(X, X[::-1], strict=True)])
    normals /= np.sqrt(np.einsum("ia,ab,ib->i", normals, metric, normals))[:, None]
    opening = np.einsum("ia,ab,ib->", normals, metric, V)
    V = V - (1 + e) * opening / np.sum(1 / masses) * normals / masses[:, None]
    after = solve_ivp(rate, (there.t[-1], 2), np.concatenate([X, V]).ravel(), **options)
    trajectory = run(jnp.asarray(masses), jnp.asarray(radii), q0, v0, e)
    np.testing.assert_allclose(times(trajectory), there.t[-1:], rtol=0, atol=1e-9)
    got = jax.vmap(space.embed)(trajectory.q[-1])
    np.testing.assert_allclose(got, after.y[: 4 * 2, -1].reshape(2, 4), rtol=0, atol=1e-9)


def saltated(space, system, z, moments, t1, tangent):
    """The tangent after impacts at the `moments`: of the closed-form flights between them, and of the saltation matrix
    dz⁺ = R_z (dz − f⁻ τ) + f⁺ τ, τ = dσ(dz)/dσ(f⁻), R_z that of v⁺ = v − 2 σ'(v)/(σ' M⁻¹ σ'ᵀ) M⁻¹ σ'ᵀ."""

    def fly(z, t):
        q, v = z

        def along(t):
            return jax.vmap(lambda q, v: gd.exp(space, q, t * v))(q, v)

        return jax.jvp(along, (t,), (jnp.ones(()),))

    def reflect(z, gap):
        q, v = z
        slope = jax.grad(gap)(q)
        raised = jax.vmap(lambda m, x, s: jnp.linalg.solve(m * space.metric(x), s))(system.masses, q, slope)
        return q, v - 2 * jnp.sum(slope * v) / jnp.sum(slope * raised) * raised

    now, field = 0.0, lambda z: jax.jvp(lambda t: fly(z, t), (jnp.zeros(()),), (jnp.ones(()),))[1]
    for moment in moments:
        z, tangent = jax.jvp(lambda z, t=moment - now: fly(z, t), (z,), (tangent,))
        closest = int(np.argmin(system.contacts.gap(jnp.zeros(()), z[0].ravel())))

        def gap(q, i=closest):
            return system.contacts.gap(jnp.zeros(()), q.ravel())[i]

        def closing(dz, q=z[0], gap=gap):
            return jax.jvp(gap, (q,), (dz[0],))[1]

        before = field(z)
        late = closing(tangent) / closing(before)
        held = jax.tree.map(lambda dz, f, late=late: dz - late * f, tangent, before)
        z, tangent = jax.jvp(lambda z, gap=gap: reflect(z, gap), (z,), (held,))
        tangent = jax.tree.map(lambda dz, f, late=late: dz + late * f, tangent, field(z))
        now = moment
    return jax.jvp(lambda z: fly(z, t1 - now), (z,), (tangent,))


@pytest.mark.long
def test_derivatives_in_curved_space():
    """Two discs in a disc of H², which meet each other and the wall: tangents and gradients through all impacts,
    against products of saltation matrices and closed-form flights. Measured: 1e-11, and 3e-12 of the gradient."""
    space, t1 = gd.spaces.Hyperbolic(2), 3.0
    wall = gd.Wall(lambda x: 0.5**2 - x @ x)
    system = gd.System(space, [1.0, 2.5], gd.Contact([0.15, 0.3]), wall)

    def end(z):
        t = gd.integrate(system, *z, t1=t1, steps=60, max_impacts=12)
        return (t.q[-1], t.v[-1]), t.impacts

    @jax.jit
    def derivatives(z, direction, weight):
        last, push, impacts = jax.linearize(end, z, has_aux=True)
        return (*last, *push(direction)), jax.linear_transpose(push, z)(weight)[0], impacts

    z, rng = (OBLIQUE["q0"][:, :2], OBLIQUE["v0"][:, :2]), np.random.default_rng(0)
    direction, weight = (tuple(jnp.asarray(rng.normal(size=(2, 2))) for _ in range(2)) for _ in range(2))
    forward, gradient, impacts = derivatives(z, direction, weight)
    moments = np.asarray(impacts.t[: int(impacts.count)])
    assert len(moments) == 3 and len(set(impacts.contact[:3].tolist())) > 1
    end_, wanted = saltated(space, system, z, moments, t1, direction)
    for got, exact in zip(forward, (*end_, *wanted), strict=True):
        np.testing.assert_allclose(got, exact, rtol=0, atol=1e-10)
    got = sum(jnp.sum(a * b) for a, b in zip(gradient, direction, strict=True))
    np.testing.assert_allclose(got, sum(jnp.sum(a * b) for a, b in zip(wanted, weight, strict=True)), rtol=1e-9)


@pytest.mark.long
def test_friction_far_out():
    """An isometry of H³ takes two rough spheres six radii away: they meet there as they do by the centre of the ball,
    with the same friction, at 16 steps of Gauss 5: the times, impulses, distances and speeds after it to 1e-13 (seen).
    Catches friction measured in the chart. Fewer steps tell on the method, which is none of an isometry's there."""
    space = gd.spaces.Hyperbolic(3)
    q0, v0 = jnp.array([[0.0, 0.2, 0.02], [0.0, -0.2, 0.0]]), jnp.array([[0.2, -0.4, 0.0], [0.0, 0.3, 0.1]])
    body = gd.System(space, [1.0, 2.0], gd.Contact([0.2, 0.15], restitution=0.7, friction=0.3))

    @jax.jit
    def after(far):
        boost = jnp.eye(4).at[0, 0].set(jnp.cosh(far)).at[3, 3].set(jnp.cosh(far))
        boost = boost.at[0, 3].set(jnp.sinh(far)).at[3, 0].set(jnp.sinh(far))

        def moved(x):
            return space.coordinates(boost @ space.embed(x))

        q, v = jax.vmap(lambda x, u: jax.jvp(moved, (x,), (u,)))(q0, v0)
        run = gd.integrate(body, q, v, t1=1.0, steps=16, save_every=16, method=gd.Gauss(5), max_impacts=2)

        def speeds(x, u):
            return jax.vmap(lambda x, u: gd.norm(space, x, u))(x, u)

        hit, apart = (run.impacts.t[0], run.impacts.impulse[0]), gd.distance(space, *run.q[-1])
        return jnp.stack([*hit, apart, *speeds(run.q[-1], run.v[-1])]), speeds(q, v)

    near, begin = after(0.0)
    there, _ = after(6.0)
    assert np.max(np.abs(near[-2:] - begin)) > 0.05
    np.testing.assert_allclose(there, near, rtol=0, atol=1e-11)


class Cap(gd.contact.AbstractContact):
    """Points that stay within a distance of the origin, and apart from each other."""

    radius: jax.Array
    restitution: float = 0.9

    def gap(self, space, x):
        inside = self.radius - jax.vmap(lambda y: gd.distance(space, jnp.zeros(2), y))(x)
        return jnp.append(inside, gd.distance(space, x[0], x[1]) - 0.2)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_points_in_a_cap():
    """A contact of one's own with three gaps, at two points of a sphere: five impacts, and their derivative with
    respect to the size of the cap, beside central differences. Seen: 1e-10. Such programs are long: this one took more
    than ten minutes to compile as one function."""

    @jax.jit
    @partial(jax.value_and_grad, has_aux=True)
    def run(radius):
        body = gd.System(gd.spaces.Sphere(2), [1.0, 1.0], Cap(radius))
        t = gd.integrate(body, [[0.1, 0.0], [-0.2, 0.05]], [[0.3, 0.1], [0.1, -0.2]], t1=8.0, steps=160)
        gaps = jax.vmap(lambda x: body.contacts.gap(jnp.zeros(()), x.ravel()))(t.q)
        return t.q[-1, 0, 0], (gaps, t.impacts.count)

    (_, (gaps, count)), slope = run(jnp.array(0.8))
    ends = [run(jnp.array(0.8 + h))[0][0] for h in (1e-6, -1e-6)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-7)
    assert int(count) == 5 and np.min(gaps) > -1e-13
