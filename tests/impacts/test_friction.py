"""Coulomb friction: impacts in the friction cone, sliding, sticking and resting contacts, against closed forms."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import geodyn as gd
from geodyn._integrators.impacts.coulomb import Bonds, Frame, impact
from geodyn._mechanics.elements.friction import slip_of_pair

LINE, PLANE = map(gd.spaces.Euclidean, (1, 2))
G = 9.81
MASS, RADIUS = 2.0, 0.3
INERTIA = 0.4 * MASS * RADIUS**2


def ball(e, mu):
    """A solid ball above the floor that turns about the horizontal: (x, y, θ)."""

    def metric(x):
        return jnp.diag(jnp.array([MASS, MASS, INERTIA]))

    floor = gd.Wall(lambda x: x[1] - RADIUS, e, mu, slip=lambda x, v: v[0] + RADIUS * v[2])
    return gd.System(gd.Manifold(metric, 3), [1.0], gd.Gravity(MASS * G, axis=1), floor)


def bounced(z, t1=1.5):
    """The end of its flight from the height 1, bounce by bounce, and how many there were."""
    e, mu, vx, vy, spin = map(float, z)
    x, y, angle, t, count = 0.0, 1.0, 0.0, 0.0, 0
    while (flight := (vy + np.sqrt(vy**2 + 2 * G * (y - RADIUS))) / G) < t1 - t:
        x, y, angle, vy, t, count = (
            x + vx * flight,
            RADIUS,
            angle + spin * flight,
            vy - G * flight,
            t + flight,
            count + 1,
        )
        normal, slip = -(1 + e) * vy * MASS, vx + RADIUS * spin
        push = np.clip(-slip / (1 / MASS + RADIUS**2 / INERTIA), -mu * normal, mu * normal)
        vx, spin, vy = vx + push / MASS, spin + RADIUS * push / INERTIA, -e * vy
    left = t1 - t
    return np.array(
        [x + vx * left, y + vy * left - G * left**2 / 2, angle + spin * left, vx, vy - G * left, spin]
    ), count


@pytest.mark.long
def test_spinning_ball_bounces():
    """A ball with spin that bounces with friction, sliding at the first bounce and rolling from then on: state and
    derivative to restitution, friction and velocity. Measured 5e-15, and 1e-9 of the differences. Catches a tangential
    impulse that does not know of the spin, or is not limited by the cone."""

    def end(z):
        t = gd.integrate(ball(z[0], z[1]), jnp.array([[0.0, 1.0, 0.0]]), z[None, 2:], t1=1.5, steps=15, max_impacts=8)
        state = jnp.concatenate([t.q[-1, 0], t.v[-1, 0]])
        return state @ weights, (state, t.impacts.count)

    z, weights = jnp.array([0.8, 0.2, 1.0, 0.0, 5.0]), np.random.default_rng(0).normal(size=6)
    gradient, (state, count) = jax.jit(jax.grad(end, has_aux=True))(z)
    wanted, bounces = bounced(z)
    assert count == bounces == 3
    np.testing.assert_allclose(state, wanted, rtol=0, atol=1e-13)
    slopes = [(bounced(z + step)[0] - bounced(z - step)[0]) @ weights / 2e-6 for step in 1e-6 * np.eye(5)]
    np.testing.assert_allclose(gradient, slopes, rtol=0, atol=1e-7)


@jax.jit
def rolling(e, mu, q0, v0):
    """The motion on the floor by Moreau's steps, and its derivative to μ."""

    def run(mu):
        t = gd.integrate(ball(e, mu), q0[None], v0[None], t1=2.0, steps=200, method=gd.methods.Moreau())
        return t.q[:, 0], (t.t, t.q[:, 0], t.v[:, 0], t.energy, t.multipliers)

    _, slope, motion = jax.jvp(run, (mu,), (jnp.ones(()),), has_aux=True)
    return *motion, slope


@pytest.mark.long
def test_sliding_ball_rolls():
    """A ball set down at v0 slides until it rolls at 5/7 v0 (any μ), at the time 2 v0/(7 μ g). Measured 1e-15; that
    time to a step. The derivative of where it is to μ while it slides: −g t²/2."""
    v0, mu = 3.0, 0.2
    t, q, v, energy, forces, slope = map(
        np.asarray, rolling(0.5, mu, jnp.array([0.0, RADIUS, 0.0]), jnp.array([v0, 0.0, 0.0]))
    )
    np.testing.assert_allclose(v[-1], [5 / 7 * v0, 0, -5 / 7 * v0 / RADIUS], rtol=0, atol=1e-13)
    rolls = np.abs(v[:, 0] + RADIUS * v[:, 2]) < 1e-13
    assert 0 <= t[np.argmax(rolls)] - 2 * v0 / (7 * mu * G) < 0.01 and np.all(np.diff(rolls.astype(int)) >= 0)
    assert np.max(np.diff(energy)) < 1e-13 and np.all(np.abs(q[:, 1] - RADIUS) < 1e-14)
    # The mean forces of the first step: weight, and friction against the slip.
    np.testing.assert_allclose(forces[1], [MASS * G, -mu * MASS * G], rtol=1e-13)
    np.testing.assert_allclose(slope[:40, 0], -G * t[:40] ** 2 / 2, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("e", [0.0, 0.5, 0.9, 1.0])
def test_bounces_in_equal_steps(e):
    """The same ball dropped, by Moreau's steps: the energy never grows, no gap falls below zero, horizontal speed and
    spin are those of the closed form (they do not depend on when it bounces), and it comes to rest. Measured: energy
    7e-15 of 21, speeds 1e-15, height of the elastic one within h |Δv| = 0.09 for each bounce."""
    start = jnp.array([0.0, 1.0, 0.0]), jnp.array([1.0, 0.0, 5.0])
    _, q, v, energy, *_ = map(np.asarray, rolling(e, 0.2, *start))
    assert np.max(np.diff(energy)) < 1e-13 and np.min(q[:, 1]) >= RADIUS
    np.testing.assert_allclose(v[-1, 0], 2 / 7, rtol=1e-13)
    if e <= 0.5:
        assert abs(q[-1, 1] - RADIUS) < 1e-15 and np.all(np.abs(v[-20:, 1]) < 1e-15)
    if e == 1:
        np.testing.assert_allclose(energy[100:], energy[100], rtol=1e-13)


@jax.jit
def on_incline(angle, mu, v0):
    """A block on an incline, whose gap is no distance; v0 counts uphill."""
    uphill, normal = jnp.stack([jnp.cos(angle), jnp.sin(angle)]), jnp.stack([-jnp.sin(angle), jnp.cos(angle)])
    plane = gd.Wall(lambda x: 3 * (normal @ x), 0.3, mu)
    system = gd.System(PLANE, [2.0], gd.Gravity(G), plane)
    t = gd.integrate(system, jnp.zeros((1, 2)), (v0 * uphill)[None], t1=2.0, steps=200, method=gd.methods.Moreau())
    return t.q[:, 0] @ uphill, t.v[:, 0] @ uphill, t.energy, t.q[:, 0] @ normal


@pytest.mark.parametrize(
    "angle, mu, v0", [(0.3, 0.31, 0), (0.3, 0.3, 0), (0.3, 0.3, 1), (0.3, 0.4, 1), (0.3, 0.4, -1), (0, 0.25, 1)]
)
def test_block_on_an_incline(angle, mu, v0):
    """Below the angle of friction, tan 0.3 = 0.3093, it sticks, else it slides at g (sin − μ cos); launched it stops
    and sticks, or comes back. Measured: sliding 2e-15, at rest 4e-17, where it stops to 2e-5 (a step); energy 6e-17."""
    s, v, energy, off = map(np.asarray, on_incline(float(angle), mu, float(v0)))
    sine, cosine = np.sin(angle), np.cos(angle)
    slows, t = G * (sine * np.sign(v0) + mu * cosine), np.linspace(0, 2, 201)
    stop = abs(v0) / slows if v0 else 0.0
    moving = t <= stop
    np.testing.assert_allclose(v[moving], v0 - np.sign(v0) * slows * t[moving], rtol=0, atol=1e-13)
    np.testing.assert_allclose(s[moving], v0 * t[moving] - np.sign(v0) * slows * t[moving] ** 2 / 2, rtol=0, atol=1e-13)
    assert np.max(np.diff(energy)) < 1e-13 and np.max(np.abs(off)) < 1e-15
    if mu > np.tan(angle):
        rest = t > stop + 0.02
        np.testing.assert_allclose(s[rest], np.sign(v0) * stop * abs(v0) / 2, rtol=0, atol=1e-4)
        assert np.max(np.abs(v[rest])) < 1e-16 and np.ptp(s[rest]) < 1e-15
    elif v0 <= 0:
        np.testing.assert_allclose(v[-1] - v[100], -G * (sine - mu * cosine), rtol=1e-12)


LEANING = np.deg2rad(55)


@jax.jit
def ladder(mu):
    q0 = jnp.array([[np.cos(LEANING), 0.0], [0.0, np.sin(LEANING)]])
    rough = gd.Wall(lambda x: x[1], 0.0, mu), gd.Wall(lambda x: x[0], 0.0, mu)
    system = gd.System(PLANE, [1.0, 1.0], gd.Gravity(G), gd.Rod([(0, 1)], 1.0), *rough)
    return gd.integrate(system, q0, jnp.zeros((2, 2)), t1=0.5, steps=50, method=gd.methods.Moreau())


@pytest.mark.long
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_a_gap_in_other_units(scale):
    """What slides under its weight slows down by 0.3 g, whatever the gap of the floor measures."""
    floor = gd.Wall(lambda x: scale * x[1], friction=0.3)
    block = gd.System(PLANE, [1.0], gd.Gravity(G), floor)
    t = gd.integrate(block, [[0.0, 0.0]], [[1.0, 0.0]], t1=0.2, steps=20, method=gd.methods.Moreau())
    np.testing.assert_allclose(t.v[:, 0, 0], 1 - 0.3 * G * t.t, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("mu", [0.4, 0.2])
def test_leaning_ladder(mu):
    """A ladder, two masses on a rigid rod, leans on a rough wall and floor. It rests where tan θ ≥ (1 − μ²)/2μ
    (Timoshenko & Young, Engineering Mechanics), here tan 55° = 1.43: for 0.4, not for 0.2. Measured: at rest 1e-13."""
    t = ladder(mu)
    moved, rests = np.max(np.abs(t.q[-1] - t.q[0])), np.tan(LEANING) >= (1 - mu**2) / (2 * mu)
    assert rests == (mu == 0.4) and (moved < 1e-11 if rests else moved > 0.05)
    np.testing.assert_allclose(np.linalg.norm(t.q[:, 1] - t.q[:, 0], axis=1), 1.0, rtol=1e-12)
    assert np.max(np.diff(t.energy)) < 1e-4


@pytest.mark.long
def test_cradle_and_stack_in_equal_steps():
    """Newton's cradle sends its last ball off, and a stack of three that was dropped comes to rest, each contact
    bearing what is above it. Measured 0, 6e-17 and 3e-15; the energy never grows (3e-14 of 78)."""

    @jax.jit
    def run(x, v, g, e):
        three = gd.System(LINE, jnp.ones(3), gd.Gravity(g), gd.Contact(0.5, e), gd.Wall(lambda x: x[0] - 0.5, e))
        return gd.integrate(three, x[:, None], v[:, None], t1=9.0, steps=900, method=gd.methods.Moreau())

    t = run(jnp.array([1.0, 3.0, 4.0]), jnp.array([1.0, 0.0, 0.0]), 0.0, 1.0)
    np.testing.assert_allclose(t.v[-1, :, 0], [0, 0, 1], rtol=0, atol=1e-15)
    t = run(jnp.array([1.0, 3.0, 4.5]), jnp.zeros(3), G, 0.8)
    np.testing.assert_allclose(t.q[-1, :, 0], [0.5, 1.5, 2.5], rtol=0, atol=1e-13)
    np.testing.assert_allclose(t.multipliers[-1], [2 * G, 0, G, 3 * G, 0, 0], rtol=0, atol=1e-11)
    assert np.max(np.diff(t.energy)) < 1e-12


@jax.jit
def pyramid(mu):
    q0 = jnp.array([[-0.5, 0.5], [0.5, 0.5], [0.0, 0.5 + np.sqrt(3) / 2]])
    floor = gd.Wall(lambda x: x[1] - 0.5, 0.0, mu)
    system = gd.System(PLANE, [1.0] * 3, gd.Gravity(G), gd.Contact(0.5, 0.0, mu), floor)
    return gd.integrate(system, q0, jnp.zeros((3, 2)), t1=2.0, steps=200, method=gd.methods.Moreau())


@pytest.mark.long
def test_pyramid_of_discs():
    """One disc on two others, which do not turn: it rests where friction holds them, else they slide apart; redundant
    contacts all the while. Measured: at rest 1e-12; apart to rounding of no overlap; the energy never grows."""
    rests = pyramid(0.5)
    assert int(rests.result) == gd.RESULTS.successful and np.max(np.abs(rests.q - rests.q[:1])) < 1e-10
    falls = pyramid(0.1)
    np.testing.assert_allclose(falls.q[-1, :, 1], 0.5, rtol=0, atol=1e-13)
    assert np.max(np.diff(falls.energy)) < 1e-13
    gaps = jax.vmap(lambda q: falls.system.contacts.gap(jnp.zeros(()), q.ravel()))
    assert np.min(jax.jit(gaps)(falls.q)) > -1e-12


def framed(rows, mu):
    matrix = jnp.einsum("kin,ljn->kilj", rows, rows)
    return Frame(jnp.zeros(rows.shape[:2]), rows, rows, rows, matrix, mu, Bonds(*[jnp.zeros((0, 0))] * 3))


def test_laws_of_an_impact():
    """Three contacts of six coordinates at once, of any directions: impulses are in their cones, push only what leaves
    at e times its approach or less, oppose what slips; energy never grows. Measured 2e-13."""
    rng = np.random.default_rng(1)
    rows, v = rng.normal(size=(60, 3, 3, 6)), rng.normal(size=(60, 6))
    mu, e = rng.uniform(0, 0.5, size=(60, 3)), rng.uniform(0, 1, size=(60, 3))
    before = np.einsum("bkin,bn->bki", rows, v)

    def struck(rows, before, mu, e):
        return impact(framed(rows, mu), before, e, jnp.ones(3, bool))

    z, found = map(np.asarray, jax.jit(jax.vmap(struck))(rows, before, mu, e))
    assert np.mean(found) > 0.97
    z, rows, before, mu = z[found], rows[found], before[found], mu[found]
    after = before + np.einsum("bkin,blmn,blm->bki", rows, rows, z)
    tangent, slip = (np.linalg.norm(x[..., 1:], axis=-1) for x in (z, after))
    assert np.min(z[..., 0]) > -1e-12 and np.max(tangent - mu * z[..., 0]) < 1e-11 and np.min(after[..., 0]) > -1e-11
    works = np.sum(z * (before + after), axis=(1, 2))
    assert np.max(works) < 1e-11
    # Where nothing had to be taken back, friction has the direction and the size of Coulomb's law.
    plain = works < -1e-9
    law = mu[..., None] * z[..., :1] * after[..., 1:] + slip[..., None] * z[..., 1:]
    assert np.max(np.abs(law[plain])) < 1e-10


@pytest.mark.long
def test_no_energy_from_friction():
    """A rod that falls on its end at 45°, where the blow makes it slip backwards: Newton's law with Coulomb's would
    create energy (after Kane & Levinson 1985); here it is kept. Measured 1e-16."""
    inertia, arm = 1 / 12, np.array([-0.5, -0.5]) / np.sqrt(2)
    rows = jnp.array([[[0.0, 1.0, arm[0] / np.sqrt(inertia)], [1.0, 0.0, -arm[1] / np.sqrt(inertia)]]])
    before, mu, e = jnp.array([[-1.0, 0.3]]), jnp.ones(1), jnp.ones(1)
    struck = jax.jit(lambda rows: impact(framed(rows, mu), before, e, jnp.ones(1, bool)))
    z, found = struck(rows)
    matrix = np.asarray(jnp.einsum("kin,kjn->ij", rows, rows))
    stick = np.linalg.solve(matrix, -before[0] + np.array([1.0, 0.0]))
    naive = stick @ (np.asarray(before[0]) + matrix @ stick / 2)
    after = before[0] + matrix @ z[0]
    assert found and naive > 0.01 and abs(stick[1]) < stick[0]
    np.testing.assert_allclose(z[0] @ (before[0] + after) / 2, 0, rtol=0, atol=1e-15)
    assert 0 < after[0] < 1 and abs(z[0, 1]) <= z[0, 0]


@pytest.mark.parametrize("space", [gd.spaces.Sphere(2), pytest.param(gd.spaces.Hyperbolic(3), marks=pytest.mark.long)])
def test_slip_in_curved_space(space):
    """The slip of two spheres: the difference of one velocity and the other, transported along the geodesic, across it.
    Against the transport by its differential equation. Measured 2e-10, its tolerance."""
    x, y = jnp.array([0.3, 0.2, 0.1])[: space.dim], jnp.array([0.5, -0.1, 0.2])[: space.dim]
    u, w = jnp.array([0.7, -0.4, 0.5])[: space.dim], jnp.array([-0.2, 0.3, 0.9])[: space.dim]

    @jax.jit
    def squares(x, y):
        log = gd.log(space, x, y)

        def line(t):
            return gd.exp(space, x, t * log)

        relative = w - gd.parallel_transport(space, line, u, jnp.array([0.0, 1.0]))[-1]
        along = -gd.log(space, y, x) / gd.distance(space, x, y)
        across = relative - gd.inner(space, y, relative, along) * along
        slip = slip_of_pair(space, x, y, u, w)
        return slip @ slip, gd.inner(space, y, across, across)

    slip, across = squares(x, y)
    np.testing.assert_allclose(slip, across, rtol=1e-8)


@pytest.mark.long
def test_contacts_at_rest_need_moreau():
    """Gauss follows impacts with friction, not what comes to rest with it: that is a status, with the remedy."""
    system = gd.System(PLANE, [1.0], gd.Gravity(G), gd.Wall(lambda x: x[1], 0.5, 0.3))

    def run(height, **options):
        return gd.integrate(system, [[0.0, height]], [[1.0, 0.0]], t1=2.0, steps=20, **options)

    with pytest.raises(gd.IntegrationError, match=r"friction came to rest.*method=gd.methods.Moreau"):
        run(0.2)
    still = run(0.0, throw=False)
    assert int(still.result) == gd.RESULTS.friction_at_rest


@pytest.mark.long
def test_more_contacts_than_allowed_is_a_status():
    """Two points fall to the floor. Catches a contact that is left out and falls through."""
    system = gd.System(LINE, [1.0, 1.0], gd.Gravity(G), gd.Wall(lambda x: x[0], 0.0))
    for most, result in ((1, gd.RESULTS.not_converged), (2, gd.RESULTS.successful)):
        method = gd.methods.Moreau(max_contacts=most)
        t = gd.integrate(system, [[0.1], [0.1]], [[0.0], [0.0]], t1=0.5, steps=10, method=method, throw=False)
        assert int(t.result) == result


def test_painleve():
    """The sliding rod of Painlevé, its lower end on the floor at θ: 3 μ sin θ cos θ/(1 + 3 cos² θ), which first exceeds
    1 for μ = 4/3, at tan θ = 2. Measured 1e-16."""
    theta, mu = np.arctan(2.0), 4 / 3

    def lowest(x):
        return x[1] - 0.5 * jnp.sin(x[2])

    floor = gd.Wall(lowest, 0.0, mu, slip=lambda x, v: v[0] + 0.5 * jnp.sin(x[2]) * v[2])
    rod = gd.System(gd.Manifold(lambda x: jnp.diag(jnp.array([1.0, 1.0, 1 / 12])), 3), [1.0], floor)
    q = [[0.0, 0.5 * np.sin(theta), theta]]
    found = jax.jit(lambda q, v: gd.contact.painleve_number(rod, q, v))(jnp.array(q), jnp.zeros((1, 3)))
    np.testing.assert_allclose(found, [1.0], rtol=1e-14)


class OnFloor(gd.contact.AbstractFrictionalContact, gd.rigid.AbstractOnBodies):
    radius: float
    restitution: jax.Array
    friction: jax.Array

    def gap(self, space, bodies):
        return bodies.position[:, 2] - self.radius

    def slip(self, space, bodies, rates):
        turning = rates.rotation @ jnp.swapaxes(bodies.rotation, 1, 2)
        return rates.position[:, :2] - self.radius * turning[:, :2, 2]


@pytest.mark.long
def test_billiard_ball():
    """A ball in space with side spin and back spin slides until it rolls, at (5 v + 2 r ω × e_z)/7, whatever the way
    (Coriolis, Théorie du jeu de billard, 1835); the spin about the vertical stays. Measured 1e-14."""
    contact = OnFloor(RADIUS, jnp.zeros(()), jnp.asarray(0.3))
    bodies = gd.rigid.RigidBodies(INERTIA * np.ones(3), MASS, gd.Gravity(G), contact)
    v, spin = np.array([2.0, 0.0, 0.0]), np.array([5.0, -8.0, 3.0])
    q0, v0 = bodies.state(angular_velocity=spin, position=[0.0, 0.0, RADIUS], velocity=v)
    t = gd.integrate(bodies, q0, v0, t1=1.0, steps=50, method=gd.methods.Moreau())
    motion = gd.rigid.rigid_motion(t)
    rolling = (5 * v[:2] + 2 * RADIUS * np.array([spin[1], -spin[0]])) / 7
    np.testing.assert_allclose(motion.velocity[-1, 0], [*rolling, 0.0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(motion.world_angular_velocity[-1, 0, 2], spin[2], rtol=1e-12)


@pytest.mark.long
def test_spinning_balls_collide():
    """Two balls of different mass and size: the normal impulse is (1 + e) m v_n, m the reduced mass, the one along the
    slip s is −2/7 m s where they stick, since 1/m + r²/I = 7/2m of each (Goldsmith, Impact, 1960, ch. 2), else μ times
    the normal one; and it turns both the same way. Measured 2e-15."""
    masses, radii, e = np.array([1.0, 2.0]), np.array([1.0, 0.5]), 0.8
    inertia = 0.4 * masses * radii**2
    velocity, spin = np.array([[1.0, 0.3, 0.0], [-0.5, 0.0, 0.2]]), np.array([[0.3, 0.5, 2.0], [-0.2, -1.0, 1.0]])
    normal, reduced = np.array([1.0, 0.0, 0.0]), masses.prod() / masses.sum()

    @jax.jit
    def after(mu):
        bodies = gd.rigid.RigidBodies(inertia[:, None] * np.ones(3), masses, gd.rigid.Balls(radii, e, mu))
        touching = np.array([[0.0, 0.0, 0.0], [1.5, 0.0, 0.0]])  # In the middle of the step.
        start = bodies.state(position=touching - 0.1 * velocity, velocity=velocity, angular_velocity=spin)
        motion = gd.rigid.rigid_motion(gd.integrate(bodies, *start, t1=0.2, steps=1, method=gd.methods.Moreau()))
        return motion.velocity[-1], motion.world_angular_velocity[-1]

    relative = velocity[1] - velocity[0]
    slip = relative - relative @ normal * normal - np.cross(radii @ spin, normal)
    for mu, stuck in ((2.0, True), (0.1, False)):
        found, spun = after(mu)
        push = -(1 + e) * reduced * (relative @ normal)
        along = -2 / 7 * reduced * slip if stuck else -mu * push * slip / np.linalg.norm(slip)
        impulse = push * normal + along
        np.testing.assert_allclose(found, velocity + np.outer([-1, 1], impulse) / masses[:, None], rtol=0, atol=1e-13)
        turned = -np.cross(normal, along) * (radii / inertia)[:, None]
        np.testing.assert_allclose(spun, spin + turned, rtol=0, atol=1e-13)


class Sticky(gd.contact.AbstractFrictionalContact):
    restitution: jax.Array
    friction: jax.Array

    def gap(self, space, x):
        return x[:, 1]

    def slip(self, space, x, v):
        return v[:, 0]


def run(*elements, **options):
    q0, v0 = np.array([[0.0, 1.0]]), np.zeros((1, 2))
    return gd.integrate(gd.System(PLANE, [1.0], *elements), q0, v0, t1=1.0, steps=1, **options)


WRONG = {
    "friction": (lambda: gd.Contact(0.1, friction=-0.2), "friction must be .*finite"),
    "friction of a wall": (lambda: gd.Wall(lambda x: x[1], 1.0, np.nan), "friction must be .*finite"),
    "restitution": (lambda: gd.Wall(lambda x: x[1], 1.2, 0.1), "restitution must be ≥ 0, at most 1"),
    "slip": (lambda: gd.Wall(lambda x: x[1], 1.0, 0.1, slip=3.0), "slip must be a function"),
    "frictions": (lambda: run(gd.Wall(lambda x: x[1], 0.5, [0.1] * 3)), r"friction of Wall.*one per contact \(1\)"),
    "slips": (lambda: run(Sticky(jnp.ones(()), jnp.ones(()))), r"slip of Sticky must return shape \[1, s\]"),
    "most contacts": (lambda: gd.methods.Moreau(0), "max_contacts must be a positive whole number"),
    "no contacts": (lambda: run(method=gd.methods.Moreau()), "Moreau is for systems with contacts"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_named(name):
    call, words = WRONG[name]
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with pytest.raises(ValueError, match=words):
            call()
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@jax.jit
def swung(h):
    """A pendulum on a rod, from the horizontal, far above a floor."""
    held, floor = gd.Pin(0, [0.0, 0.0]), gd.Wall(lambda x: x[1] + 9.0, 0.0)
    system = gd.System(PLANE, [1.0, 1.0], gd.Gravity(G), gd.Rod([(0, 1)], 1.0), held, floor)
    q0 = jnp.array([[0.0, 0.0], [1.0, 0.0]])
    t = gd.integrate(system, q0, jnp.zeros((2, 2)), t1=40 * h, steps=40, method=gd.methods.Moreau())
    return t.energy, t.q[:, 1], t.v[:, 1]


@pytest.mark.long
def test_constraints_to_order_two():
    """A pendulum on a rod where nothing touches, against its angle by DOP853. Measured in steps of 0.02 and 0.01:
    2.7e-4 and 6.7e-5; energy swings by 6e-4 of 10, its rod stretches by 1.4e-3 per second at most. Catches constraints
    that are held by the velocities in the middle of the step: of order 1."""

    def fall(t, y):
        return [y[1], -G * np.cos(y[0])]

    end = solve_ivp(fall, (0, 0.4), [0.0, 0.0], "DOP853", rtol=1e-12, atol=1e-12).y[0, -1]
    errors = []
    for h, k in ((0.02, 20), (0.01, 40)):
        energy, q, v = map(np.asarray, swung(jnp.asarray(h)))
        errors.append(abs(np.arctan2(q[k, 1], q[k, 0]) - end))
    assert 3.5 < errors[0] / errors[1] < 4.5 and errors[1] < 1e-4
    assert np.max(np.abs(energy - energy[0])) < 1e-3 and np.max(np.abs(np.sum(q * v, axis=1))) < 2e-3


@pytest.mark.long
def test_sliding_in_a_bowl_is_of_order_two():
    """Without friction it is a pendulum: the error falls by 4.2 with half the steps; where it is forgotten that the
    wall turns on the way, by 2."""
    bowl = gd.System(PLANE, [1.0], gd.Gravity(G), gd.Wall(lambda x: 1 - jnp.sqrt(x @ x)))

    def swing(t, y):
        return [y[1], -G * np.cos(y[0])]

    a, last = np.pi + 0.3, []
    exact = solve_ivp(swing, (0, 0.6), (a, 1.0), "DOP853", rtol=1e-12, atol=1e-12).y[0, -1]
    for steps in (30, 60):
        start = [[np.cos(a), np.sin(a)]], [[-np.sin(a), np.cos(a)]]
        x = gd.integrate(bowl, *start, t1=0.6, steps=steps, method=gd.methods.Moreau()).q[-1, 0]
        last.append(np.arctan2(x[1], x[0]) % (2 * np.pi) - exact)
    assert 3.5 < last[0] / last[1] < 4.5


@pytest.mark.long
def test_gradient_of_what_slides_in_a_bowl():
    """Backwards through 30 steps, against differences. Measured 1e-9. Catches the root of a sum that is zero."""

    @jax.jit
    @jax.value_and_grad
    def end(a):
        bowl = gd.System(PLANE, [1.0], gd.Gravity(G), gd.Wall(lambda x: 1 - jnp.sqrt(x @ x), 0.0))
        q0 = jnp.stack([jnp.sin(a), -jnp.cos(a)])[None]
        return gd.integrate(bowl, q0, jnp.zeros((1, 2)), t1=0.3, steps=30, method=gd.methods.Moreau()).q[-1, 0, 0]

    a, e = jnp.asarray(1.0), 1e-5
    np.testing.assert_allclose(end(a)[1], (end(a + e)[0] - end(a - e)[0]) / (2 * e), rtol=1e-7)


@pytest.mark.long
def test_more_contacts_than_are_watched():
    """Six discs fall into a box: the error says how many contacts close, and with enough they come to rest."""
    radius, (i, j) = 0.25, np.divmod(np.arange(6), 3)
    sides = lambda x: x[1] - radius, lambda x: x[0] - radius, lambda x: 1.58 - radius - x[0]
    box = [gd.Wall(side, restitution=0.0, friction=0.3) for side in sides]
    discs = gd.Contact(radius, restitution=0.0, friction=0.3)
    system = gd.System(gd.spaces.Euclidean(2), np.ones(6), discs, *box, gd.Gravity(9.81))
    q0 = 0.52 * np.stack([j, i], axis=1) + 0.27

    def fallen(max_contacts):
        method = gd.methods.Moreau(max_contacts=max_contacts)
        return gd.integrate(system, q0, t1=1.0, steps=100, method=method)

    with pytest.raises(gd.IntegrationError, match=r"may close in this step, and max_contacts=4 are watched: take gd"):
        fallen(4)
    assert np.max(np.abs(fallen(12).v[-1])) < 1e-12
