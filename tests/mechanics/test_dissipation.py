"""Dissipation: Rayleigh functions and their balance, minimising steps, friction that sticks, plasticity, hysteresis."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case

import geodyn as gd
from geodyn._mechanics.dissipative.exponential import exp_and_transport

LINE, PLANE = gd.spaces.Euclidean(1), gd.spaces.Euclidean(2)
MINIMISING = gd.friction.IncrementalPotential()
F01 = case("F01")
ROWS = [
    {name: float(x) if isinstance(x, str) and name != "name" else x for name, x in (row | wanted).items()}
    for row, wanted in zip(F01["inputs"]["rows"], F01["reference"]["rows"], strict=True)
]


def damped(m, k, b):
    return gd.System(LINE, [m], gd.Harmonic(k, [0.0]), gd.Drag(b))


@jax.jit
@jax.grad
def slope_in_drag(b, m, k, start):
    return gd.integrate(damped(m, k, b), *start, t1=3.0, steps=300).q[-1, 0, 0]


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_damped_oscillator(row):
    """Case F01. Seen: 1e-13 in x and v, 1e-13 in the balance, 2e-12 in dx/db, 4e-16 in the minimising steps."""
    m, k, b = row["m"], row["k"], row["b"]
    start = ([[1.0]], [[-0.5]])
    trajectory = gd.integrate(damped(m, k, b), *start, t1=3.0, steps=300)
    found = trajectory.q[-1, 0, 0], trajectory.v[-1, 0, 0]
    np.testing.assert_allclose(found, [row["x_t"], row["v_t"]], rtol=0, atol=1e-10)
    taken = gd.friction.dissipated(trajectory)
    assert abs(taken[-1] - row["dissipated"]) < 1e-9
    np.testing.assert_allclose(trajectory.energy + taken, trajectory.energy[0], rtol=0, atol=1e-10)
    assert abs(slope_in_drag(b, m, k, start) - row["dx_db"]) < 1e-8
    steps = gd.integrate(damped(m, k, b), *start, t1=1.0, steps=100, method=MINIMISING)
    wanted = np.array(row["incremental_potential_h001_100steps"], float)
    np.testing.assert_allclose([steps.q[-1, 0, 0], steps.v[-1, 0, 0]], wanted, rtol=0, atol=1e-12)


class QuadraticDrag(gd.AbstractDissipation):
    coefficient: jax.Array

    def rayleigh(self, space, x, v):
        squares = jax.vmap(lambda x, v: v @ space.metric(x) @ v)(x, v)
        return self.coefficient @ squares**1.5 / 3


@pytest.mark.long
def test_drag_on_a_curved_surface():
    """Along a geodesic of H² only the speed changes: v₀ exp(−ct), v₀/(1 + c v₀ t). Seen: 2e-14, also in the energy."""
    space, c = gd.spaces.Hyperbolic(2), 0.7
    system = gd.System(space, [1.0, 1.0], gd.Drag([c, 0.0]), QuadraticDrag(jnp.array([0.0, c])))
    q0, v0 = jnp.array([[0.1, 0.2], [-0.2, 0.3]]), jnp.array([[0.3, 0.1], [0.2, -0.4]])
    speed = jax.vmap(lambda x, v: gd.norm(space, x, v))
    trajectory = gd.integrate(system, q0, v0, t1=2.0, steps=100)
    first = speed(q0, v0)
    last = jnp.stack([first[0] * jnp.exp(-c * 2), first[1] / (1 + c * first[1] * 2)])
    np.testing.assert_allclose(speed(trajectory.q[-1], trajectory.v[-1]), last, rtol=1e-12)
    arcs = jnp.stack([first[0] * (1 - jnp.exp(-c * 2)) / c, jnp.log1p(c * first[1] * 2) / c])
    ends = jax.vmap(lambda x, v, s: gd.exp(space, x, s * v))(q0, v0, arcs / first)
    np.testing.assert_allclose(trajectory.q[-1], ends, atol=1e-12)
    np.testing.assert_allclose(gd.friction.dissipated(trajectory)[-1], (first @ first - last @ last) / 2, rtol=1e-12)


G, MU = 9.81, 0.3


def blocks(mu, pushes):
    return gd.System(PLANE, [2.0] * 3, gd.friction.DryFriction(2 * G * mu), gd.loads.PointLoad(pushes))


def slide(mu):
    """Three blocks: one that slides to rest, one pushed by less than friction holds, one by more."""
    pushes = jnp.zeros((3, 2)).at[1:, 0].set(2 * G * jnp.array([0.29, 0.4]))
    v0 = jnp.array([[0.6, 0.8], [0.0, 0.0], [0.0, 0.0]])
    return gd.integrate(blocks(mu, pushes), jnp.ones((3, 2)), v0, t1=1.0, steps=200, method=MINIMISING)


@pytest.mark.long
def test_blocks_slide_and_stick():
    """v falls by hμg in each step until it is 0, exactly, and stays; the sum of these is the distance, h v₀/2 short of
    v₀²/2μg. Seen: 1e-15; the derivative of the distance to the friction 1e-14."""
    trajectory = jax.tree.map(np.asarray, slide(MU))
    h = 1.0 / 200
    speed = np.maximum(1 - h * MU * G * np.arange(1, 201), 0)
    stop = int(np.argmax(speed == 0))
    assert abs(h * stop - 1 / (MU * G)) < h
    direction = np.array([0.6, 0.8])
    np.testing.assert_allclose(trajectory.v[1:, 0], speed[:, None] * direction, atol=1e-13)
    np.testing.assert_allclose(trajectory.q[-1, 0], 1 + h * speed.sum() * direction, atol=1e-13)
    assert abs(h * speed.sum() - 1 / (2 * MU * G)) < 0.51 * h
    assert np.all(trajectory.v[stop + 1 :, 0] == 0) and np.all(trajectory.q[stop + 1 :, 0] == trajectory.q[-1, 0])
    assert np.all(trajectory.v[:, 1] == 0) and np.all(trajectory.q[:, 1] == 1)
    np.testing.assert_allclose(trajectory.v[-1, 2], [G * (0.4 - MU), 0], atol=1e-12)
    held = trajectory.multipliers[-1].reshape(3, 2)
    np.testing.assert_allclose(held, [[0, 0], [-2 * G * 0.29, 0], [-2 * G * MU, 0]], atol=1e-12)
    work = h * 2 * G * 0.4 * jnp.sum(trajectory.v[1:, 2, 0])
    damped = np.sum(np.diff(trajectory.v, axis=0) ** 2)  # ½m|Δv|²: what backward Euler takes besides.
    lost = trajectory.energy[0] - trajectory.energy[-1]
    assert abs(gd.friction.dissipated(trajectory)[-1] + damped - lost) < 1e-12, work
    slope = jax.jit(jax.grad(lambda mu: slide(mu).q[-1, 0] @ direction))(MU)
    np.testing.assert_allclose(slope, -h * h * G * stop * (stop + 1) / 2, rtol=1e-12)


class Belt(gd.friction.AbstractFriction):
    """A belt that moves back and forth."""

    strength: jax.Array
    speed: float

    def slip(self, space, x, v, t):
        return v - self.speed * jnp.sin(t)


def on_belt(m, k, F, speed, start, t1):
    system = gd.System(LINE, [m], gd.Harmonic(k, [0.0]), Belt(jnp.array(F), speed))
    method = gd.friction.IncrementalPotential(theta=0.5)
    return gd.integrate(system, [[start]], [[0.0]], t1=t1, steps=2400, method=method)


@pytest.mark.long
def test_friction_in_oblique_coordinates():
    """In a constant metric a point slides on straight ahead, and its speed in that metric falls by F/m."""
    G = jnp.array([[2.0, 1.0], [1.0, 3.0]])
    point = gd.System(gd.Manifold(lambda x: G, 2), [1.0], gd.friction.DryFriction(0.5))
    v0 = jnp.array([1.0, 0.5])
    t = gd.integrate(point, [[0.0, 0.0]], v0[None], t1=1.0, steps=4, method=MINIMISING)
    np.testing.assert_allclose(t.v[:, 0], np.outer(1 - 0.5 * t.t / jnp.sqrt(v0 @ G @ v0), v0), rtol=1e-12)


def test_damping_that_grows_with_time():
    """R = t v²/2 in the middle of the steps: v⁺ = v (1 − ht/2)/(1 + ht/2)."""
    fading = gd.Lagrangian(lambda q, v: v @ v / 2, dissipation=lambda q, v, t: t * v @ v / 2)
    t = gd.integrate(fading, [0.0], [1.0], t1=2.0, steps=20, method=gd.friction.IncrementalPotential(theta=0.5))
    half = 0.05 * (t.t[:-1] + 0.05)
    np.testing.assert_allclose(t.v[1:, 0], np.cumprod((1 - half) / (1 + half)), rtol=1e-12)


def test_oscillator_with_friction():
    """Extremes fall by 2F/k in each half cycle, and it stays at the first below F/k: 1, −0.7, 0.4, −0.1. Seen: 1e-5,
    from the steps in which it turns; the same with theta=1: 0.013."""
    k, F = 4.0, 0.6
    trajectory = on_belt(1.0, k, F, 0.0, 1.0, 6.0)
    x, half = trajectory.q[:, 0, 0], np.pi / 2
    at = [round(400 * half * i) for i in range(4)]
    np.testing.assert_allclose(x[np.array(at)], [1.0, -0.7, 0.4, -0.1], atol=5e-5)
    assert np.all(x[at[3] + 20 :] == x[-1]) and np.all(trajectory.v[at[3] + 20 :] == 0)
    np.testing.assert_allclose(trajectory.multipliers[-1, 0], k * x[-1], rtol=1e-12)
    # What friction takes at the mean velocities, where it stops as well, is all that is lost. Seen: 1e-15.
    np.testing.assert_allclose(
        trajectory.energy + gd.friction.dissipated(trajectory), trajectory.energy[0], rtol=0, atol=1e-13
    )


def test_carried_by_a_belt():
    """A friction of one's own, affine in v: while it holds, the mass moves as the belt does, and the force is what the
    equation of motion asks for in the middle of the step. Seen: one rounding in v, 1e-7 in the force."""
    trajectory = on_belt(2.0, 0.3, 4.0, 1.0, 0.0, 3.0)
    t, v = np.asarray(trajectory.t), np.asarray(trajectory.v[:, 0, 0])
    np.testing.assert_allclose(v, np.sin(t), rtol=0, atol=1e-15)
    wanted = 2 * np.cos(t) + 0.3 * (1 - np.cos(t))
    np.testing.assert_allclose(trajectory.multipliers[1:, 0], (wanted[1:] + wanted[:-1]) / 2, atol=1e-6)


@pytest.mark.long
def test_friction_on_a_sphere():
    """Along a great circle the arc is that of the block on a line, step by step, also in the metric of a user, whose
    geodesics are only those of Kutta's method. Seen after 300 steps: 6e-13."""
    polar, F, h = gd.spaces.Sphere(2, "polar"), 0.5, 0.01
    system = gd.System(gd.Manifold(polar.metric, 2), [1.0], gd.friction.DryFriction(F))
    q0, v0 = jnp.array([[1.2, -0.1]]), jnp.array([[0.3, 0.4]])
    trajectory = gd.integrate(system, q0, v0, t1=3.0, steps=300, method=MINIMISING)
    first = gd.norm(polar, q0[0], v0[0])
    arc = h * np.sum(np.maximum(first - h * F * np.arange(1, 301), 0))
    np.testing.assert_allclose(trajectory.q[-1, 0], gd.exp(polar, q0[0], arc / first * v0[0]), atol=1e-11)
    assert np.all(trajectory.v[-40:] == 0) and np.all(jnp.diff(trajectory.q[-40:], axis=0) == 0)


def test_own_geodesic_carries_the_velocity():
    """`exp_and_transport` is exp and parallel transport, in a space, and in the metric of a Lagrangian up to h⁵.
    Seen: 2e-15 and 1e-8."""
    space = gd.spaces.Sphere(2, "polar")
    q, v, h = jnp.array([1.1, 0.3]), jnp.array([0.4, -0.7]), jnp.asarray(0.1)

    def metric(q, v):
        return 0.5 * (v @ space.metric(q) @ v)

    def curve(t):
        return gd.exp(space, q, t * v)

    other = jnp.array([0.6, 0.2])
    wanted = [gd.parallel_transport(space, curve, w, jnp.array([0.0, 0.1]), steps=1)[-1] for w in (v, other)]
    on_space = gd.System(space, [1.0])
    for system, accuracy in ((on_space, 1e-13), (gd.Lagrangian(metric), 1e-7)):
        end, carried = exp_and_transport(system, jnp.asarray(0.0), q, h, v)
        np.testing.assert_allclose(end, curve(h), atol=accuracy)
        np.testing.assert_allclose(carried, wanted[0], atol=accuracy)
    error = jnp.max(jnp.abs(exp_and_transport(on_space, jnp.asarray(0.0), q, h, v, other)[1] - wanted[1]))
    assert 1e-4 < error < 2e-3  # h²K/6 of it, for what is not parallel.


@pytest.mark.long
def test_plastic_impact(tmp_path):
    """A mass against a spring that yields comes to rest at Y/k + (½mv² − Y²/2k)/Y, then swings about the permanent set
    Y/k below. Seen at h = 5e-4, of first order: 3e-4."""
    k, Y, v = 10.0, 1.0, 1.0
    spring = gd.friction.PlasticSpring([(0, 1)], k, 1.0, Y)
    system = gd.System(LINE, [1.0, 1.0], spring, gd.Pin(1, [-1.0]))
    trajectory = gd.integrate(system, [[0.0], [-1.0]], [[v], [0.0]], t1=2.0, steps=4000, method=MINIMISING)
    x = trajectory.q[:, 0, 0]
    far = Y / k + (v**2 / 2 - Y**2 / 2 / k) / Y
    lasting = x + trajectory.multipliers[:, -1] / k
    assert abs(x.max() - far) < 1e-3 and abs(lasting[-1] - (far - Y / k)) < 1e-3
    assert np.all(jnp.diff(lasting) > -1e-15) and np.all(jnp.abs(trajectory.multipliers[:, -1]) <= Y)
    assert abs(gd.friction.dissipated(trajectory)[-1] - Y * lasting[-1]) < 1e-12
    assert np.all(jnp.diff(trajectory.energy) < 1e-14)
    trajectory.save(tmp_path / "impact.npz")
    back = gd.load(tmp_path / "impact.npz", system)
    assert back.method == trajectory.method and np.array_equal(back.energy, trajectory.energy)


@pytest.mark.long
def test_hysteresis():
    """Jenkins elements, an elastic-plastic spring and a damper side by side, driven between ±u: each loop dissipates
    4F(u − F/k), and the damper πbωu². Seen: 1e-14 for the loops, 2e-4 for the damper (of first order)."""
    k, F, u, b = np.array([2.0, 1.0, 3.0]), np.array([0.3, 0.4, 0.6]), 1.0, 0.05
    drive = gd.loads.Driven(0, lambda t: jnp.array([u * jnp.sin(t)]))
    elements = (
        gd.Spring([(0, 1), (0, 2)], k[:2], 2.0),
        gd.friction.DryFriction(np.array([0.0, F[0], F[1], 0.0])),
        gd.friction.PlasticSpring([(0, 3)], k[2], 2.0, F[2]),
        gd.Pin(3, [-2.0]),
        drive,
    )
    start, run = [[0.0], [2.0], [2.0], [-2.0]], {"t1": 4.5 * np.pi, "steps": 450}
    taken = []
    for damping in (0.0, b):
        system = gd.System(LINE, np.ones(4), *elements, gd.Drag([damping, 0.0, 0.0, 0.0]))
        trajectory = gd.friction.quasi_static(system, start, **run)
        taken.append(gd.friction.dissipated(trajectory))
        if damping == 0.0:
            force, x = trajectory.multipliers[:, 1], trajectory.q[:, 0, 0]
    loops = np.sum(4 * F * (u - F / k))
    np.testing.assert_allclose([taken[0][250] - taken[0][50], taken[0][450] - taken[0][250]], loops, rtol=1e-12)
    np.testing.assert_allclose(taken[1][450] - taken[1][250], loops + np.pi * b * u**2, rtol=1e-3)
    x, force = np.asarray(x), np.asarray(force)
    np.testing.assert_allclose(x, u * np.sin(trajectory.t), atol=1e-14)
    ax = gd.plot.hysteresis(x[50:251], force[50:251], gd.plot.figure(4, 3).add_subplot(), label="both")
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), force[50:251])
    found = float(ax.get_legend().get_texts()[0].get_text().removeprefix("both, work done "))
    assert abs(found - loops) < 2e-3 * loops  # By the trapezoidal rule, which cuts corners.
    wanted = np.sum(np.clip(k[:, None] * x[:51], -F[:, None], F[:, None]), axis=0)  # The first loading.
    np.testing.assert_allclose(force[:51], wanted, atol=1e-13)
    back = F.sum() - np.sum(np.minimum(k[:, None] * (u - x[50:150]), 2 * F[:, None]), axis=0)  # Masing's rule.
    np.testing.assert_allclose(force[50:150], back, atol=1e-12)


REFUSED = {
    "a corner": (lambda: gd.integrate(blocks(0.1, np.zeros((3, 2))), np.ones((3, 2)), np.ones((3, 2)), t1=1, steps=1),
                 "take method=gd.friction.IncrementalPotential"),
    "energy given": (lambda: gd.integrate(gd.Lagrangian(lambda q, v: v @ v / 2, dissipation=lambda q, v: -(v @ v)),
                                          [1.0], [0.5], t1=1, steps=1), "dissipation gives energy"),
    "energy given to points": (lambda: gd.integrate(gd.System(LINE, [1.0], QuadraticDrag(jnp.array([-1.0]))),
                                                    [[1.0]], [[0.5]], t1=1, steps=1), "dissipation gives energy"),
    "friction": (lambda: gd.friction.DryFriction(-0.1), "strength must be ≥ 0"),
    "yield": (lambda: gd.friction.PlasticSpring([(0, 1)], 1.0, 1.0, 0.0), "yield_force must be positive"),
    "an ODE": (lambda: gd.integrate(gd.ODE(lambda t, y: -y), [1.0], t1=1, steps=1, method=MINIMISING), "a System"),
    "contacts": (lambda: gd.integrate(gd.System(LINE, [1.0, 1.0], gd.Contact([0.1, 0.1])), [[0.0], [1.0]],
                                      [[0.0], [0.0]], t1=1, steps=1, method=MINIMISING), "does not see contacts"),
    "a motion": (lambda: gd.loads.Driven(0, [1.0]), "motion must be a function"),
    "a load": (lambda: gd.energy(gd.System(LINE, [1.0], gd.loads.PointLoad([[1.0, 2.0]])),
                                 [[0.0]], [[0.0]]), "must have"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, as_users_run):
    act, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        act()


def test_a_step_without_balance_fails():
    """Pulled by more than the spring yields at, quasi-statically, there is nowhere to stay."""
    system = gd.System(
        LINE, [1.0, 1.0], gd.friction.PlasticSpring([(0, 1)], 1.0, 1.0, 0.5), gd.Pin(1, [-1.0]),
        gd.loads.PointLoad(lambda t: jnp.array([[t], [0.0]])),
    )  # fmt: skip
    trajectory = gd.friction.quasi_static(system, [[0.0], [-1.0]], t1=1.0, steps=20, throw=False)
    assert int(trajectory.result) != 0 and 9 <= int(trajectory.stats.steps) <= 11
    np.testing.assert_allclose(trajectory.q[:10, 0, 0], trajectory.t[:10], atol=1e-12)


class Strides(gd.AbstractConstraint):
    """The distances of neighbours on a line grow and shrink with time, each with a phase of its own."""

    swing: jax.Array
    phase: jax.Array
    size: int = eqx.field(static=True)

    def lengths(self, t):
        return 1 + self.swing * jnp.sin(t + self.phase)

    def residual(self, space, x, t):
        return jnp.diff(x[:, 0]) - self.lengths(t)


@pytest.mark.long
def test_crawlers():
    """Nothing but dry friction holds them, and the shape is driven. In each step they move so that Σ F |Δx| is least:
    the displacement is a weighted median of those that the shape asks for. Masses of 1e-9 change nothing, masses of 5
    do. Seen: 1e-12."""
    rng, steps, t1 = np.random.default_rng(3), 60, 3.0
    F, swing, phase = rng.uniform(0.3, 3, 5), rng.uniform(0.1, 0.4, 4), rng.uniform(0, 6, 4)
    strides = Strides(jnp.array(swing), jnp.array(phase), 4)
    along = np.array([np.append(0, np.cumsum(strides.lengths(t))) for t in np.linspace(0, t1, steps + 1)])
    x = along[0]
    for asked in np.diff(along, axis=0):
        x = x + min((asked - held for held in asked), key=lambda moved: F @ np.abs(moved))
    q0, v0 = along[0][:, None], np.append(0, np.cumsum(swing * np.cos(phase)))[:, None]

    def crawler(mass):
        return gd.System(LINE, jnp.full(5, mass), strides, gd.friction.DryFriction(F))

    crawled = gd.friction.quasi_static(crawler(1.0), q0, t1=t1, steps=steps)
    np.testing.assert_allclose(crawled.q[-1, :, 0], x, rtol=0, atol=1e-11)
    light, heavy = (gd.integrate(crawler(m), q0, v0, t1=t1, steps=steps, method=MINIMISING).q[-1] for m in (1e-9, 5.0))
    np.testing.assert_allclose(light[:, 0], x, rtol=0, atol=1e-8)
    assert np.max(np.abs(heavy[:, 0] - x)) > 1e-3


def test_a_crawler_of_two():
    """The point with less friction makes all of the way: x₀ = −0.3 sin t."""
    strides = Strides(jnp.array([0.3]), jnp.zeros(1), 1)
    crawler = gd.System(LINE, [1.0, 1.0], strides, gd.friction.DryFriction([1.0, 2.0]))
    trajectory = gd.friction.quasi_static(crawler, [[0.0], [1.0]], t1=1.5, steps=30)
    np.testing.assert_allclose(trajectory.q[-1, :, 0], [-0.3 * np.sin(1.5), 1.0], rtol=0, atol=1e-12)


class Sides(gd.AbstractConstraint):
    """The sides of a triangle, driven."""

    swing: jax.Array
    size: int = eqx.field(static=True, default=3)

    def residual(self, space, x, t):
        sides = x - jnp.roll(x, 1, axis=0)
        return jnp.sum(sides**2, axis=1) - (1 + self.swing * jnp.sin(t + jnp.arange(3.0))) ** 2


@pytest.mark.long
def test_a_crawler_in_the_plane():
    """The forces of friction, F along −v of what slips and at most F of what sticks, and the forces along the sides
    balance at every point; and so all forces of friction together, and their moments. Seen: 1e-12."""
    F, sides = np.array([0.7, 1.3, 2.1]), Sides(jnp.array([0.2, 0.15, 0.25]))
    crawler = gd.System(PLANE, [1.0, 1.0, 1.0], sides, gd.friction.DryFriction(F))
    q0, _ = gd.project(crawler, [[0.0, 0.0], [1.0, 0.0], [0.5, 0.8]], np.zeros((3, 2)))
    trajectory = gd.friction.quasi_static(crawler, q0, t1=6.0, steps=60)
    forces = np.asarray(trajectory.multipliers[1:, 3:]).reshape(60, 3, 2)
    moved, sizes = np.diff(trajectory.q, axis=0), np.linalg.norm(forces, axis=2)
    far = np.linalg.norm(moved, axis=2)
    slips = far > 1e-9
    wanted = np.where(slips[..., None], -F[:, None] * moved / np.where(slips, far, 1.0)[..., None], forces)
    np.testing.assert_allclose(forces, wanted, rtol=0, atol=1e-9)
    assert np.all(sizes <= F + 1e-12) and np.any(slips) and np.any(~slips)
    np.testing.assert_allclose(np.sum(forces, axis=1), 0, atol=1e-10)
    q = np.asarray(trajectory.q[1:])
    moments = np.sum(q[..., 0] * forces[..., 1] - q[..., 1] * forces[..., 0], axis=1)
    np.testing.assert_allclose(moments, 0, atol=1e-10)


class InTurn(gd.AbstractConstraint):
    """Three feet on a line move on one after the other."""

    size: int = eqx.field(static=True, default=2)

    def residual(self, space, x, t):
        moved = jnp.array([[0.0, 0.3, 0.0, 0.0], [0.0, 0.0, 0.3, 0.0]])
        return -jnp.diff(x[:, 0]) - 1 - jax.vmap(lambda part: jnp.interp(t % 3, jnp.arange(4.0), part))(moved)


@pytest.mark.long
def test_feet_that_move_in_turn():
    """Of equal feet the one that is to move slides and the others stick, although the force between these, which the
    shape holds apart too, is not unique."""
    worm = gd.System(LINE, jnp.ones(3), InTurn(), gd.friction.DryFriction(1.0))
    trajectory = gd.friction.quasi_static(worm, [[2.0], [1.0], [0.0]], t1=6.0, steps=60)
    wanted = [[2.3, 1.0, 0.0], [2.3, 1.3, 0.0], [2.3, 1.3, 0.3], [2.6, 1.6, 0.6]]
    np.testing.assert_allclose(trajectory.q[jnp.array([10, 20, 30, 60]), :, 0], wanted, rtol=0, atol=1e-10)
