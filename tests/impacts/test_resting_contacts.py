"""Bodies that bounce until they rest, and contacts that hold them: alone, in stacks, in batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.impacts import times

import geodyn as gd

LINE, PLANE = map(gd.spaces.Euclidean, (1, 2))
GRAVITY = 9.81


@jax.jit
def dropped(height, e):
    """A ball on the floor under gravity."""
    system = gd.System(LINE, jnp.ones(1), gd.Gravity(GRAVITY), gd.Wall(lambda x: x[0], e))
    q0 = jnp.reshape(height, (1, 1))
    return gd.integrate(system, q0, jnp.zeros((1, 1)), t1=2.0, steps=200, max_impacts=32)


def test_bouncing_ball_comes_to_rest():
    """Infinitely many bounces in a finite time, the last of which are not followed: then it rests. Measured: the times
    of the bounces to 1e-15, the rest at 0 to 1e-17. Several bounces fall into one step."""
    t, first, e = dropped(1.0, 0.5), np.sqrt(2 / GRAVITY), 0.5
    n = int(t.impacts.count)
    exact = first * (1 + 2 * np.cumsum(np.concatenate([[0.0], e ** np.arange(1, n)])))
    np.testing.assert_allclose(times(t), exact, rtol=1e-13)
    assert n < 12 and np.max(np.abs(t.q[-5:])) < 1e-13 and np.max(np.abs(t.v[-5:])) < 1e-13


def test_rest_in_small_steps():
    """With e = 0 a ball rests at once, where nothing is left that sets a scale but the weight and the force that it is
    held by. Catches stage equations that are iterated below the rounding of those."""
    t = dropped(1.0, 0.0)
    assert int(t.impacts.count) == 1 and np.max(np.abs(t.q[60:])) < 1e-15


@pytest.mark.long
def test_contacts_that_are_held():
    """Off by less than rounding a ball settles in some tens of steps; thrown up slowly it is not held; of nine that
    fall at once one is too many, which is a status."""

    def run(x, v, throw=True):
        floor = gd.Wall(lambda x: x[0] - 1, 0.0)
        balls = gd.System(LINE, [1.0] * len(x), gd.Gravity(GRAVITY), floor)
        return gd.integrate(balls, np.reshape(x, (-1, 1)), np.reshape(v, (-1, 1)), t1=0.5, steps=100, throw=throw)

    assert abs(run([1 + 4e-14], [0.0]).q[-1, 0, 0] - 1) <= 4 * np.spacing(1.0)
    thrown, t = run([1.0], [0.1]), 0.005 * np.arange(5)  # It is back after 4.08 steps.
    np.testing.assert_allclose(thrown.q[:5, 0, 0], 1 + 0.1 * t - GRAVITY / 2 * t**2, rtol=1e-13)
    assert int(run(np.full(9, 1.1), np.zeros(9), throw=False).result) == gd.RESULTS.too_many_impacts


@pytest.mark.parametrize("unit", [1.0, 1e9])
def test_a_ball_is_laid_down_in_any_unit_of_length(unit):
    """One rounding above the floor, on which it rests though it is elastic."""
    system = gd.System(LINE, [1.0], gd.Gravity(GRAVITY * unit), gd.Wall(lambda x: x[0] - unit))
    start = np.nextafter(unit, 2 * unit)
    t = gd.integrate(system, [[start]], [[0.0]], t1=0.5, steps=10)
    np.testing.assert_allclose(t.q, unit, rtol=1e-15)


@pytest.mark.parametrize("resting", [True, False])
def test_what_cannot_be_raised_is_a_status(resting):
    """Inside of jit: an elastic ball laid on the floor rests where the system says that it may, else that is a status;
    so are a start below the floor, and a gap that is not finite."""

    @jax.jit
    def run(x, v):
        floor = gd.Wall(lambda x: jnp.where(x[0] > 2, jnp.nan, x[0]))
        system = gd.System(LINE, [1.0], gd.Gravity(GRAVITY), floor, resting=resting)
        return gd.integrate(system, x.reshape(1, 1), v.reshape(1, 1), t1=1.0, steps=10, max_impacts=8)

    laid = run(jnp.zeros(1), jnp.zeros(1))
    assert int(laid.result) == (gd.RESULTS.successful if resting else gd.RESULTS.pressed_at_rest)
    assert np.all(np.isnan(laid.q[1:]) ^ resting) and np.all(np.abs(laid.q) < 1e-15) == resting
    assert int(run(-jnp.ones(1), jnp.zeros(1)).result) == gd.RESULTS.overlapping
    assert int(run(jnp.ones(1), 6 * jnp.ones(1)).result) == gd.RESULTS.not_finite
    bounced = run(jnp.ones(1), jnp.zeros(1))
    fall = np.sqrt(2 / GRAVITY)
    np.testing.assert_allclose(bounced.q[-1, 0, 0], 1 - GRAVITY / 2 * (1 - 2 * fall) ** 2, rtol=1e-13)


@pytest.mark.long
def test_elastic_balls_at_rest():
    """A stack of two laid on the floor stays there, though its contacts are elastic; nothing has to be said."""
    floor = gd.Wall(lambda x: x[0] - 0.5)
    system = gd.System(LINE, [1.0, 1.0], gd.Gravity(GRAVITY), gd.Contact(0.5), floor)
    t = gd.integrate(system, [[0.5], [1.5]], [[0.0], [0.0]], t1=1.0, steps=10)
    np.testing.assert_allclose(t.q[:, :, 0], np.tile([0.5, 1.5], (11, 1)), rtol=0, atol=1e-13)
    assert int(t.impacts.count) == 0


@pytest.mark.long
def test_ball_in_a_bowl():
    """Dropped into a bowl without friction it ends as a pendulum. The gradient through all of that with respect to the
    height and the restitution, and central differences. Measured: on the bowl 3e-11, differences 1e-8."""

    def run(z):
        bowl = gd.Wall(lambda x: 1 - jnp.sqrt(x @ x), z[1])
        system = gd.System(PLANE, jnp.ones(1), gd.Gravity(GRAVITY), bowl)
        q0 = jnp.stack([z[0], jnp.zeros(())])[None]
        return gd.integrate(system, q0, jnp.zeros((1, 2)), t1=2.0, steps=100, max_impacts=16)

    def last(z):
        t = run(z)
        return t.q[-1, 0, 0] + t.v[-1, 0, 1], t

    z = jnp.array([0.5, 0.3])
    both = jax.jit(jax.value_and_grad(last, has_aux=True))
    ((_, t), gradient), end = both(z), lambda z: both(z)[0][0]
    late = np.asarray(t.t) > times(t)[-1]
    assert np.max(np.abs(1 - np.linalg.norm(t.q[late, 0], axis=1))) < 1e-9 and np.ptp(t.energy[late]) < 1e-8
    for i, step in enumerate(1e-6 * np.eye(2)):
        np.testing.assert_allclose((end(z + step) - end(z - step)) / 2e-6, gradient[i], rtol=0, atol=1e-6)


def test_stack_at_rest():
    """Two balls on each other and on the floor: the contacts share the weight. Catches contacts held one by one."""

    @jax.jit
    def run(x):
        two = gd.Gravity(GRAVITY), gd.Contact(0.5, 0.4), gd.Wall(lambda x: x[0] - 0.5, 0.4)
        return gd.integrate(gd.System(LINE, [1.0, 1.0], *two), x, jnp.zeros((2, 1)), t1=4.0, steps=100)

    fallen = run(jnp.array([[1.0], [3.0]]))
    np.testing.assert_allclose(fallen.q[-1, :, 0], [0.5, 1.5], rtol=0, atol=1e-12)
    still = run(jnp.array([[0.5], [1.5]]))
    np.testing.assert_allclose(still.q[:, :, 0], np.tile([0.5, 1.5], (101, 1)), rtol=0, atol=1e-12)
    assert np.sum(np.abs(np.asarray(still.impacts.impulse))) < 1e-6


@pytest.mark.long
def test_a_shaken_floor():
    """A ball on a floor that moves as a sin ωt stays on it if aω² < g (measured: to 5e-14), else it is thrown when the
    floor falls away, aω² sin ωt = g (to 2e-7, where that happens within a step)."""

    @jax.jit
    def run(a):
        floor = gd.Wall(lambda x, t: x[0] - a * jnp.sin(6 * t), restitution=0.0)
        ball = gd.System(LINE, [1.0], gd.Gravity(GRAVITY), floor)
        return gd.integrate(ball, [[0.0]], 6 * a[None, None], t1=0.3, steps=60)

    still, t = run(jnp.array(0.2)), np.asarray(run(jnp.array(0.4)).t)
    np.testing.assert_allclose(still.q[:, 0, 0], 0.2 * np.sin(6 * t), rtol=0, atol=1e-12)
    off = np.arcsin(GRAVITY / (0.4 * 36)) / 6
    flight = 0.4 * (np.sin(6 * off) + 6 * np.cos(6 * off) * (t - off)) - GRAVITY / 2 * (t - off) ** 2
    thrown = np.where(t < off, 0.4 * np.sin(6 * t), flight)
    np.testing.assert_allclose(run(jnp.array(0.4)).q[:, 0, 0], thrown, rtol=0, atol=2e-6)


@pytest.mark.long
def test_batches_equal_single_runs():
    """A hundred balls with different heights and restitutions. Measured 4e-16; catches a loop that runs on for a member
    whose batch has not finished."""
    height, e = np.linspace(0.3, 1.5, 100), np.linspace(0.0, 1.0, 100)
    together, alone = jax.jit(jax.vmap(dropped))(height, e), [dropped(*x) for x in zip(height, e, strict=True)]
    for read in (lambda t: t.q, lambda t: t.impacts.t):
        np.testing.assert_allclose(read(together), np.stack([read(t) for t in alone]), rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    "restitution, wanted",
    [
        pytest.param(1.0, [0, 0, 1], marks=pytest.mark.long),
        (0.5, [13 / 64, 15 / 64, 36 / 64]),
        (0.0, [1 / 3] * 3),
    ],
)
def test_a_gap_within_rounding_is_zero_whatever_its_sign(restitution, wanted):
    """One ball runs into two that touch. The elastic impact goes through to the last, the plastic one moves all three;
    between, e = ½ by hand: the balls strike in turn until they part. Gaps of −1e-16 were held, as if pressed."""

    @jax.jit
    def run(gap):
        balls = gd.System(gd.spaces.Euclidean(1), jnp.ones(3), gd.Contact(0.1, restitution=restitution))
        q0 = jnp.stack([jnp.zeros(()), jnp.array(0.5), 0.7 + gap])[:, None]
        trajectory = gd.integrate(balls, q0, [[1.0], [0.0], [0.0]], t1=1.0, steps=10, throw=False)
        return trajectory.v[-1, :, 0], trajectory.result

    for gap in (-1e-13, -1e-15, -1e-16, 0.0, 1e-16, 1e-15, 1e-13, 1e-11):
        v, result = run(gap)
        assert int(result) == 0
        np.testing.assert_allclose(v, wanted, atol=1e-12)


@pytest.mark.parametrize(
    "apart", [*(pytest.param(apart, marks=pytest.mark.long) for apart in (0.2, 1 / 3, 0.4, 0.7, 1.0)), 0.3]
)
def test_a_cradle_of_balls_of_any_size(apart):
    """Balls on strings that touch to rounding: after half a period the last is where the first began, mirrored, and
    after two periods the first is back. Wrong by 0.4 for all sizes but 1."""
    x = apart * jnp.arange(5.0)[:, None]

    class Strings(gd.AbstractPotential):
        rest: jax.Array

        def energy(self, space, q):
            return 0.5 * jnp.sum((q - self.rest) ** 2)

    balls = gd.System(gd.spaces.Euclidean(1), jnp.ones(5), Strings(x), gd.Contact(apart / 2, restitution=1.0))
    motion = gd.integrate(balls, x.at[0].add(-1.0), t1=4 * jnp.pi, steps=200, save_every=50)
    np.testing.assert_allclose(motion.q[1], x.at[-1].add(1.0), atol=1e-9)
    np.testing.assert_allclose(motion.q[-1], motion.q[0], atol=1e-9)
