"""Capsules on walls: the nearest points of geodesic segments, and rods that land on obstacles with their sides."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd

ROD = [(0, 1)]


def unit_ball(x):
    return jnp.linalg.norm(x) - 1.0


def test_distances_of_segments_from_a_ball():
    """In flat space, by the nearest point of a segment to the origin (Ericson, *Real-Time Collision Detection* (2005),
    5.1.2), and at the ends of about half of them."""
    points = np.random.default_rng(1).normal([2.0, 0.0, 0.0], 1.0, size=(40, 2, 3))
    along = points[:, 1] - points[:, 0]
    parameter = np.clip(-np.sum(points[:, 0] * along, axis=1) / np.sum(along**2, axis=1), 0, 1)
    assert 10 < np.sum((parameter > 0) & (parameter < 1)) < 30
    wanted = np.linalg.norm(points[:, 0] + parameter[:, None] * along, axis=1) - 1
    wall = gd.contact.CapsulesOnWall(ROD, unit_ball)
    gap = jax.jit(jax.vmap(lambda x: wall.gap(gd.spaces.Euclidean(3), x, 0.0)[0]))
    np.testing.assert_allclose(gap(points), wanted, atol=1e-14)


def test_the_lowest_of_several_valleys():
    """Of a wavy floor under a long rod, beside a million places, of which one is 2e-6 from the lowest, where the floor
    bends by 81."""

    def room(x):
        return x[1] + jnp.sin(9 * x[0]) + x[0] ** 2 / 3

    ends = jnp.array([[-2.0, 0.3], [2.0, 0.0]])
    s = np.linspace(0, 1, 1_000_001)
    x, y = 4 * s - 2, 0.3 - 0.3 * s
    wanted = np.min(y + np.sin(9 * x) + x**2 / 3)
    wall = gd.contact.CapsulesOnWall([(0, 2), (2, 1)], room)
    both = wall.gap(gd.spaces.Euclidean(2), jnp.stack([ends[0], ends[1], (ends[0] + ends[1]) / 2]), 0.0)
    assert wanted - 81 / 2 * 2e-6**2 < float(jnp.min(both)) < wanted


def test_a_rod_lands_beside_its_middle():
    """The impulse at the distance a from the centre of mass is (1 + e) u/(1/M + a²/I), with the mass M and the moment
    of inertia I of the rod."""
    masses, e, a = np.array([1.0, 3.0]), 0.7, 0.4
    ball = gd.contact.CapsulesOnWall(ROD, unit_ball, restitution=e)
    rod = gd.System(gd.spaces.Euclidean(2), masses, gd.Rod(ROD, length=4.0), ball)
    # The centre of mass is 1 from the second end, and a to the left of the top of the ball.
    x = np.array([[-3.0 - a, 1.5], [1.0 - a, 1.5]])
    motion = gd.integrate(rod, x, [[0.0, -1.0], [0.0, -1.0]], t1=0.5 + 1e-9, steps=10)
    impulse = (1 + e) / (1 / 4 + a**2 / (1 * 9 + 3 * 1))
    turning = impulse * a / 12
    wanted = -1 + impulse / 4 + turning * np.array([-3.0, 1.0])
    assert int(motion.impacts.count) == 1
    np.testing.assert_allclose(motion.v[-1, :, 1], wanted, atol=1e-8)
    assert float(motion.impacts.impulse[0]) == pytest.approx(impulse, rel=1e-9)


@pytest.mark.long
def test_a_wall_that_rises_lifts_a_rod():
    """A ball that rises with the velocity 1 under a rod at rest gives it the velocity 2."""
    ball = gd.contact.CapsulesOnWall(ROD, lambda x, t: jnp.linalg.norm(x - t * jnp.array([0.0, 1.0])) - 1.0)
    rod = gd.System(gd.spaces.Euclidean(2), [1.0, 1.0], gd.Rod(ROD, length=4.0), ball)
    motion = gd.integrate(rod, [[-2.0, 1.5], [2.0, 1.5]], np.zeros((2, 2)), t1=1.0, steps=10)
    assert float(motion.impacts.t[0]) == pytest.approx(0.5, abs=1e-12)
    np.testing.assert_allclose(motion.v[-1], [[0.0, 2.0], [0.0, 2.0]], atol=1e-12)


@pytest.mark.long
def test_friction_acts_along_a_rod():
    """Its middle is over the top when it lands; of its velocity along itself it loses μ times the impulse."""
    ball = gd.contact.CapsulesOnWall(ROD, unit_ball, restitution=0.5, friction=0.2)
    rod = gd.System(gd.spaces.Euclidean(2), [1.0, 1.0], gd.Rod(ROD, length=4.0), ball)
    x = np.array([[-2.35, 1.5], [1.65, 1.5]])
    motion = gd.integrate(rod, x, [[0.7, -1.0], [0.7, -1.0]], t1=0.5 + 1e-9, steps=10)
    np.testing.assert_allclose(motion.v[-1], np.tile([0.7 - 0.2 * 1.5, 0.5], (2, 1)), atol=1e-8)


def on_a_ball(space, radius, metric_ball):
    """A rod in space that flies onto a ball about the origin, and its system without the ball."""
    x = jnp.array([[-0.2, 0.05, 0.35], [0.25, 0.0, 0.3]])
    v = jnp.array([[0.05, 0.0, -0.3], [0.05, 0.1, -0.3]])
    masses = jnp.array([1.0, 2.0])
    bar = gd.Rod(ROD, gd.distance(space, x[0], x[1]))
    free = gd.System(space, masses, bar)
    x, v = gd.project(free, x, v)
    ball = gd.contact.CapsulesOnWall(ROD, lambda x: metric_ball(x) - radius)
    return gd.integrate(gd.System(space, masses, bar, ball), x, v, t1=1.4, steps=16, max_impacts=3), free


@pytest.mark.long
def test_a_rod_bounces_on_a_ball_in_hyperbolic_space():
    """The energy, and the momenta of the three rotations about the centre of the ball. Measured: 3e-13."""
    space = gd.spaces.Hyperbolic(3)
    motion, _ = jax.jit(lambda radius: on_a_ball(space, radius, lambda x: gd.distance(space, jnp.zeros(3), x)))(0.2)
    assert int(motion.impacts.count) == 1
    np.testing.assert_allclose(motion.energy, motion.energy[0], rtol=1e-10)
    metric = jax.vmap(jax.vmap(space.metric))(motion.q)
    momentum = jnp.einsum("p,tpij,tpj->tpi", jnp.array([1.0, 2.0]), metric, motion.v)
    rotations = jnp.sum(jnp.cross(motion.q, momentum), axis=1)
    np.testing.assert_allclose(rotations, np.tile(rotations[0], (17, 1)), atol=1e-10)
    assert float(jnp.max(jnp.abs(motion.v[-1, 0] - motion.v[-1, 1]))) > 0.01


@pytest.mark.long
@pytest.mark.parametrize(
    "space", [gd.spaces.Hyperbolic(3), pytest.param(gd.spaces.Nil(), marks=pytest.mark.weekly)], ids=["H3", "Nil"]
)
def test_the_end_follows_the_radius_of_the_ball(space):
    """The gradient of a motion through an impact, against a difference."""

    @jax.jit
    def end(radius):
        motion, _ = on_a_ball(space, radius, jnp.linalg.norm)
        return jnp.sum(motion.q[-1] * jnp.arange(6.0).reshape(2, 3)), motion.impacts.count

    h = 2e-5
    difference = (end(0.1 + h)[0] - end(0.1 - h)[0]) / (2 * h)
    slope, count = jax.jit(jax.grad(end, has_aux=True))(0.1)
    assert int(count) == 1
    assert float(slope) == pytest.approx(float(difference), rel=1e-6)


def test_refusals():
    with pytest.raises(ValueError, match="segments must join two different points"):
        gd.contact.CapsulesOnWall([(0, 0)], unit_ball)
    with pytest.raises(ValueError, match="segments must have each once"):
        gd.contact.CapsulesOnWall([(0, 1), (1, 0)], unit_ball)
    with pytest.raises(ValueError, match="gap must"):
        gd.contact.CapsulesOnWall(ROD, lambda a, b: 1.0)
    with pytest.raises(ValueError, match="restitution must be"):
        gd.contact.CapsulesOnWall(ROD, unit_ball, restitution=1.5)
    with pytest.raises(ValueError, match="name point 1, but there are 1 points"):
        gd.contact.CapsulesOnWall(ROD, unit_ball).gap(gd.spaces.Euclidean(2), jnp.zeros((1, 2)), 0.0)
