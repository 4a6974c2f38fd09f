"""Bodies with plates in sand, against the same law written in numpy and integrated by scipy; energy, derivatives,
rest."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import geodyn as gd

PLANE = gd.spaces.Euclidean(2)
CREEP = 0.01
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)


def series(tilt, intrusion):
    """(back, up), the Fourier series of Li et al. for a plate that moves to the right."""
    a00, a10, b11, b01, b_11, c11, c01, c_11, d10 = gd.granular.GENERIC
    sin, cos = np.sin, np.cos
    up = a00 + a10 * cos(2 * tilt) + b11 * sin(2 * tilt + intrusion) + b01 * sin(intrusion)
    up += b_11 * sin(-2 * tilt + intrusion)
    back = c11 * cos(2 * tilt + intrusion) + c01 * cos(intrusion) + c_11 * cos(-2 * tilt + intrusion)
    return back + d10 * sin(2 * tilt), up


def creeping(tilt, vx, vz, creep):
    """The stress (x, z) per depth: what is odd in the velocity falls as c, what is even as c²."""
    c = np.hypot(vx, vz) / np.sqrt(vx**2 + vz**2 + creep**2)

    def stress(vx, vz):
        side = np.where(vx < 0, -1.0, 1.0)
        back, up = series(side * tilt, np.arctan2(-vz, side * vx))
        return np.array([-side * back, up])

    there, again = stress(vx, vz), stress(-vx, -vz)
    return c * (there - again) / 2 + c**2 * (there + again) / 2


def rigid(length, mass, inertia, creep):
    """The equations of motion of a rigid plate by its middle and its tilt, with 200 Gauss nodes below the surface."""

    def rates(t, y):
        z, tilt, vx, vz, turn = y[1:]
        along = np.array([np.cos(tilt), np.sin(tilt)])
        low, high = -length / 2, length / 2
        if along[1] != 0:
            cut = np.clip(-z / along[1], low, high)
            low, high = (low, cut) if along[1] > 0 else (cut, high)
        elif z >= 0:
            high = low
        s = (low + high) / 2 + (high - low) / 2 * NODES
        depth = np.maximum(-(z + s * along[1]), 0)
        piece = WEIGHTS * (high - low) / 2 * depth
        stress = creeping(tilt, vx - turn * s * along[1], vz + turn * s * along[0], creep)
        fx, fz = np.sum(piece * stress, axis=1)
        torque = np.sum(piece * s * (along[0] * stress[1] - along[1] * stress[0]))
        return vx, vz, turn, fx / mass, fz / mass - 1, torque / inertia

    return rates


def dumbbell(sand=None, creep=CREEP, width=1.0):
    plate = gd.granular.Plates([(0, 1)], creep, sand, width)
    return gd.System(PLANE, [0.5, 0.5], gd.Rod([(0, 1)], 1.0), gd.Gravity(1.0), plate)


def state(y):
    """The ends of a plate of length 1 and their velocities."""
    x, z, tilt, vx, vz, turn = y
    along = np.array([np.cos(tilt), np.sin(tilt)]) / 2
    across = turn * np.array([-along[1], along[0]])
    middle, velocity = np.array([x, z]), np.array([vx, vz])
    return np.stack([middle - along, middle + along]), np.stack([velocity - across, velocity + across])


THROWS = {
    "falls": (0.0, 0.2, 0.3, 0.0, 0.0, 0.0),
    "thrown": (0.0, 0.4, -0.5, 1.2, -0.5, 0.0),
    "turning": (0.0, 0.3, 0.2, -0.5, -1.0, 1.0),
}


@pytest.mark.parametrize("name", THROWS)
def test_a_rigid_plate(name):
    """Two masses on a rod, against the rigid plate of scipy; 6e-11, and 5e-9 where the plate turns on itself."""
    start = THROWS[name]
    known = solve_ivp(rigid(1.0, 1.0, 0.25, CREEP), (0, 2.0), start, rtol=1e-9, atol=1e-11, max_step=0.02).y[:, -1]
    fall = gd.integrate(dumbbell(), *state(start), t1=2.0, steps=800)
    q, v = state(known)
    np.testing.assert_allclose(fall.q[-1], q, atol=2e-8)
    np.testing.assert_allclose(fall.v[-1], v, atol=2e-8)
    assert np.all(np.diff(fall.energy) <= 1e-13)
    assert fall.energy[0] - fall.energy[-1] > 0.3


def test_a_rigid_body():
    """The same plate as part of a rigid body with another inertia, in space."""
    start = np.array(THROWS["thrown"])
    known = solve_ivp(rigid(1.0, 1.0, 0.1, CREEP), (0, 1.5), start, rtol=1e-9, atol=1e-11, max_step=0.02).y[:, -1]
    plate = gd.granular.BodyPlate(0, [-0.5, 0.0, 0.0], [0.5, 0.0, 0.0], CREEP)
    body = gd.rigid.RigidBodies([0.05, 0.1, 0.07], 1.0, gd.Gravity(1.0), plate)
    turned = gd.groups.SO3().exp(jnp.array([0.0, -start[2], 0.0]))
    q0, v0 = body.state(turned, position=[start[0], 0.0, start[1]], velocity=[start[3], 0.0, start[4]])
    fall = gd.integrate(body, q0, v0, t1=1.5, steps=300)
    motion = gd.rigid.rigid_motion(fall)
    np.testing.assert_allclose(motion.position[-1, 0], [known[0], 0.0, known[1]], atol=1e-8)
    np.testing.assert_allclose(motion.angular_velocity[-1, 0], [0.0, -known[5], 0.0], atol=1e-8)


def test_a_body_that_leaves_the_plane():
    """There is no law for it: the run fails."""
    plate = gd.granular.BodyPlate(0, [-0.5, 0.0, 0.0], [0.5, 0.0, 0.0], CREEP)
    body = gd.rigid.RigidBodies([0.1, 0.1, 0.1], 1.0, gd.Gravity(1.0), plate)
    q0, v0 = body.state(velocity=[0.0, 0.01, 0.0])
    assert gd.integrate(body, q0, v0, t1=0.5, steps=20, throw=False).result != gd.RESULTS.successful


def test_a_point_falls_and_creeps():
    """z'' = 1 − z until it stops at the depth 2 at t = π; then the weight 1 is in balance with 2c(0.375 c + 0.625), and
    the depth grows at the speed creep c/√(1 − c²)."""
    plate = gd.granular.PointPlate(0, [1.0, 0.0], 1e-3)
    body = gd.System(PLANE, [1.0], gd.Gravity(1.0), plate)
    fall = gd.integrate(body, [[0.0, 0.0]], t1=4.0, steps=1600)
    np.testing.assert_allclose(fall.q[800, 0, 1], np.cos(2.0) - 1, atol=2e-6)
    depth = -fall.q[-1, 0, 1]
    c = (-0.625 + np.sqrt(0.625**2 + 4 * 0.375 / depth)) / (2 * 0.375)
    np.testing.assert_allclose(-fall.v[-1, 0, 1], 1e-3 * c / np.sqrt(1 - c**2), rtol=1e-3)
    assert 0 < depth - 2 < 2e-3


@pytest.mark.long
def test_steps_that_do_not_resolve_the_stop():
    """They fail, and the adaptive method takes smaller ones."""
    plate = gd.granular.PointPlate(0, [1.0, 0.0], 1e-4)
    body = gd.System(PLANE, [1.0], gd.Gravity(1.0), plate)
    coarse = gd.integrate(body, [[0.0, 0.0]], t1=4.0, steps=100, throw=False)
    assert coarse.result != gd.RESULTS.successful
    adaptive = gd.integrate(body, [[0.0, 0.0]], t1=4.0, steps=20, method=gd.methods.Adaptive())
    assert 0 < -2 - adaptive.q[-1, 0, 1] + 2e-3 < 4e-3


def test_above_the_sand_nothing_happens():
    plate = gd.granular.PointPlate(0, [1.0, 0.5], CREEP)
    body = gd.System(PLANE, [1.0], gd.Gravity(1.0), plate)
    flight = gd.integrate(body, [[0.0, 3.0]], [[1.0, 0.0]], t1=1.0, steps=10)
    np.testing.assert_allclose(flight.q[-1, 0], [1.0, 2.5], atol=1e-14)


@pytest.mark.long
@pytest.mark.parametrize("start", ["falls", "turning"])
def test_gradient_by_the_scale(start):
    """Forwards and backwards against differences."""
    q0, v0 = state(THROWS[start])

    def depth(scale, width=1.0):
        sand = gd.granular.SandBed(scale=scale)
        return gd.integrate(dumbbell(sand, width=width), q0, v0, t1=1.0, steps=200).q[-1, 0, 1]

    known = (depth(1.3 + 1e-4) - depth(1.3 - 1e-4)) / 2e-4
    assert abs(known) > 1e-2
    np.testing.assert_allclose(jax.grad(depth)(1.3), known, rtol=1e-4)
    np.testing.assert_allclose(jax.jvp(depth, (1.3,), (1.0,))[1], known, rtol=1e-4)
    np.testing.assert_allclose(depth(2.6, 0.5), depth(1.3), rtol=1e-12)


@pytest.mark.long
@pytest.mark.float32
def test_single_precision():
    """Against scipy in double precision."""
    start = THROWS["thrown"]
    known = solve_ivp(rigid(1.0, 1.0, 0.25, CREEP), (0, 1.0), start, rtol=1e-9, atol=1e-11, max_step=0.02).y[:, -1]
    q0, v0 = (jnp.asarray(x, jnp.float32) for x in state(start))
    found = gd.integrate(dumbbell(), q0, v0, t1=1.0, steps=200)
    assert found.q.dtype == jnp.float32
    np.testing.assert_allclose(found.q[-1], state(known)[0], atol=2e-5)


WRONG = {
    "no creep": (lambda: gd.granular.Plates([(0, 1)], 0.0), "creep must be positive.*jumps where the motion stops"),
    "edges": (lambda: gd.granular.Plates([(0, 0)], 1.0), "edges must join two different points"),
    "width": (lambda: gd.granular.Plates([(0, 1)], 1.0, width=-1.0), "width must be positive"),
    "widths": (lambda: gd.granular.Plates([(0, 1)], 1.0, width=[1.0, 2.0]), "width must be one number or one per edge"),
    "side": (lambda: gd.granular.PointPlate(0, [0.0, 0.0], 1.0), "side must have a length"),
    "side in space": (lambda: gd.granular.PointPlate(0, [1.0, 0.0, 0.0], 1.0), "side must be two numbers"),
    "index": (lambda: gd.granular.PointPlate(-1, [1.0, 0.0], 1.0), "index"),
    "corner": (lambda: gd.granular.BodyPlate(0, [1.0, 0.0], [0.0, 0.0, 0.0], 1.0), r"start must be a place \[3\]"),
    "no plate": (lambda: gd.granular.BodyPlate(0, [1.0, 0, 0], [1.0, 0, 0], 1.0), "start and end must differ"),
    "sand that pushes": (
        lambda: gd.granular.Plates([(0, 1)], 1.0, gd.granular.SandBed([0.5, *gd.granular.GENERIC[1:]])),
        "coefficients of sand must give a stress against every motion; its power is 0.2",
    ),
    "point": (lambda: gd.System(PLANE, [1.0], gd.granular.PointPlate(1, [1.0, 0.0], 1.0)), "PointPlate name point 1"),
    "space": (
        lambda: gd.integrate(
            gd.System(gd.spaces.Euclidean(2, "polar"), [1.0], gd.granular.PointPlate(0, [1.0, 0.0], 1.0)),
            [[1.0, 0.0]],
            t1=1.0,
            steps=1,
        ),
        r"plates in sand need gd.spaces.Euclidean\(2\)",
    ),
    "points of a rigid body": (
        lambda: gd.System(PLANE, [1.0], gd.granular.BodyPlate(0, [1.0, 0, 0], [0.0, 0, 0], 1.0)),
        "BodyPlate acts on rigid bodies",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input(name):
    call, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        call()
