"""Connections of drag, inertia and constraints: laws over all bodies, and one independent number for each."""

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case
from helpers.marks import slow
from jax.flatten_util import ravel_pytree
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq
from scipy.spatial.transform import Rotation

import geodyn as gd
from geodyn import swimmers
from geodyn._locomotion.connections.connection import reduction
from geodyn._locomotion.connections.linkages import chain

H01 = case("H01")["reference"]
SATELLITE = gd.swimmers.Satellite(np.diag([1.0, 1.2, 1.5]), [[0.6, 0.8, 0.0], [0.0, 0.6, 0.8]], [0.1, 0.3])
LINKS = gd.swimmers.FloatingLinks((1.0, 0.8, 1.2), (1.0, 2.0, 0.7))
RAFT = gd.swimmers.PendulumRaft(bob=0.7, raft=2.5, length=1.2, inertia=0.9)


class Heisenberg(gd.AbstractConnection):
    group: gd.groups.Translation = gd.groups.Translation(1)

    def form(self, r):
        return jnp.stack([r[1], -r[0]])[None] / 2


BODIES = {
    "Purcell": (gd.swimmers.Purcell(lengths=(0.8, 1.2, 1.0)), [0.4, -0.9]),
    "PushMePullYou": (gd.swimmers.PushMePullYou(), [7.0, 3.0]),
    "Heisenberg": (Heisenberg(), [0.4, -0.9]),
    "Satellite": (SATELLITE, [0.1, 0.2]),
    "FallingCat": (gd.swimmers.FallingCat(), [0.5, 0.2]),
    "FloatingLinks": (LINKS, [0.3, -0.5]),
    "FluidLinks": (gd.swimmers.FluidLinks((1.0, 0.8, 1.2), [0.1, 0.3, 0.2], 1.1, 0.7), [0.3, -0.5]),
    "FluidLinks together": (
        gd.swimmers.FluidLinks((1.0, 0.8, 1.2), [0.1, 0.3, 0.2], interaction=True, gap=0.05, nodes=16),
        [0.3, -0.5],
    ),
    "PendulumRaft": (RAFT, [0.6, 0.2]),
    "RollingDisc": (gd.swimmers.RollingDisc(0.7), [0.6, 0.2]),
    "KinematicCar": (gd.swimmers.KinematicCar(1.3, 0.3), [0.6, 0.2]),
    "DifferentialDrive": (gd.swimmers.DifferentialDrive(1.3, 0.3), [0.6, 0.2]),
    "TapeMeasure": (swimmers.TapeMeasure(6.5, 0.1, 0.3, 0.5, 0.2), [0.5, 3.5]),
    "Reshaped": (swimmers.fish_tail(tail=3, head=2), [0.6, 0.2]),
    "KinematicSnake": (gd.swimmers.KinematicSnake(), [0.9, -0.4]),
    "TwoLegged in S2": (gd.swimmers.TwoLegged(gd.spaces.Sphere(2), (1.0, 0.7)), [0.8, 0.6]),
}
SIZE = 1e-3


class Timed(eqx.Module):
    """A stroke at other times: from `start`, at the rate `pace`, to and fro by `sway`."""

    stroke: gd.FourierStroke
    start: jax.Array
    pace: jax.Array
    sway: jax.Array

    def __call__(self, t):
        return self.stroke(self.start + self.pace * t + self.sway * jnp.sin(2 * jnp.pi * t))


WAYS = {
    "once": [0.0, 1.0, 0.0],
    "backwards": [1.0, -1.0, 0.0],
    "unevenly": [0.0, 1.0, 0.1],
    "to and fro": [0.3, 0.0, 0.2],
    "from elsewhere": [0.3, 1.0, 0.0],
    "to there": [0.0, 0.3, 0.0],
}


def loop(centre, size):
    """A loop about a shape: an ellipse of that size, and a second harmonic."""
    return gd.FourierStroke(centre, [[size, 0.0], [0.0, size / 6]], [[0.0, 0.0], [0.8 * size, 0.0]])


@eqx.filter_jit
def measured(body, centre):
    """Where a stroke leads in all the ways, and a small one; the curvature."""

    def lead(way):
        return gd.holonomy(body, Timed(loop(centre, 0.3), *way), steps=24)

    return (
        jax.vmap(lead)(jnp.array([*WAYS.values()])),
        gd.holonomy(body, loop(centre, SIZE), steps=6),
        gd.curvature(body, centre),
    )


@pytest.mark.long
@pytest.mark.parametrize("body, centre", BODIES.values(), ids=BODIES)
def test_laws_of_holonomy(body, centre):
    """Backwards is the inverse (measured 2e-15), to and fro leads nowhere (scallops, 1e-15), the pace does not matter
    (5e-9, of the steps), another start conjugates (6e-11), small loops enclose the curvature (3e-4, of their size)."""
    elements, small, flux = measured(body, jnp.array(centre))
    g, group = dict(zip(WAYS, elements, strict=True)), body.group
    one, area = group.identity(), 0.8 * np.pi * SIZE**2
    assert np.max(np.abs(g["once"] - one)) > 1e-3
    np.testing.assert_allclose(g["once"] @ g["backwards"], one, atol=2e-14)
    np.testing.assert_allclose(g["to and fro"], one, atol=1e-14)
    np.testing.assert_allclose(g["unevenly"], g["once"], atol=5e-8)
    np.testing.assert_allclose(g["to there"] @ g["from elsewhere"], g["once"] @ g["to there"], atol=1e-9)
    np.testing.assert_allclose(group.log(small) / area, -flux[:, 0, 1], atol=2e-3 * np.max(np.abs(flux[:, 0, 1])))


def test_a_differential_drive_is_a_unicycle():
    """Its curvature, −[A₁, A₂], is sideways alone; and its way along a stroke, by adaptive integration of the unicycle:
    measured 2e-11."""
    cart, stroke = (
        gd.swimmers.DifferentialDrive(track=1.3, radius=0.4),
        gd.FourierStroke([0.1, 0.2], [[1.0], [0.3]], [[0.2], [1.2]]),
    )
    np.testing.assert_allclose(gd.curvature(cart, [0.6, 0.2])[:, 0, 1], [0, 0.4**2 / 1.3, 0], atol=1e-15)
    slope = jax.jit(jax.jacfwd(stroke))

    def rates(t, pose):
        left, right = np.asarray(slope(t))
        speed, turn = 0.4 * (left + right) / 2, 0.4 * (right - left) / 1.3
        return [speed * np.cos(pose[2]), speed * np.sin(pose[2]), turn]

    known = solve_ivp(rates, (0, 1), np.zeros(3), rtol=1e-11, atol=1e-12).y[:2, -1]
    np.testing.assert_allclose(gd.holonomy(cart, stroke, steps=64)[:2, 2], known, atol=1e-9)


def test_the_energy_of_folding_tapes():
    """By points of the tapes, whose folds are found from their lengths, and differences in time: the water takes part
    in what moves across, and the mass of a tape along it moves as its middle."""
    body = swimmers.TapeMeasure(1.3, 0.1, 0.3, 0.5, 0.2, symmetric=False)
    r, xi, rdot = np.array([0.5, 0.3, 0.7]), np.array([0.3, -0.2, 0.4]), np.array([0.2, -0.5, 0.3])
    nodes, weights = np.polynomial.legendre.leggauss(4)
    parts = np.append((1 + nodes) / 2, 0.5)[:, None]

    def folded(way, end):
        """The point in this direction at which the tape folds."""
        return way * brentq(lambda x: x + np.linalg.norm(end - x * way) - 1.3, 0.0, 1.3, xtol=1e-15)

    def pieces(t):
        """The ends of the pieces at a time, in space."""
        left, right, length = r + t * rdot
        end = np.array([length, 0.0])
        turn = t * xi[2]
        turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        for angle in (left, -right):
            fold = folded(np.array([np.cos(angle), np.sin(angle)]), end)
            for start, stop in ((0 * end, fold), (fold, end)):
                yield np.array([start, stop]) @ turned.T + t * xi[:2]

    energy = 0.5 * (xi[:2] @ xi[:2]) / 2 + 0.2 * xi[2] ** 2 / 2
    for now, before, after in zip(pieces(0.0), pieces(-1e-5), pieces(1e-5)):
        length = np.linalg.norm(now[1] - now[0])
        tangent = (now[1] - now[0]) / length
        rates = (after - before) / 2e-5
        speeds = rates[0] + parts * (rates[1] - rates[0])
        across = speeds[:-1] @ np.array([-tangent[1], tangent[0]])
        energy += length * (0.4 * (weights / 2) @ across**2 + 0.1 * (speeds[-1] @ tangent) ** 2) / 2
    np.testing.assert_allclose(body.kinetic_energy(*map(jnp.asarray, (r, xi, rdot))), energy, rtol=1e-8)
    assert np.isnan(body.kinetic_energy(jnp.array([0.5, 0.3, 1.4]), jnp.ones(3), jnp.ones(3)))


def test_a_body_by_other_shape_variables(as_users_run):
    """The chain rule, written out; polar coordinates have no rank at 0; what is no function of shapes is refused."""
    body, at = swimmers.FluidLinks((1.0, 0.8, 1.2, 0.9)), jnp.array([0.7, 0.4])

    def shapes(r):
        return jnp.stack([r[0] * r[1], r[0] - r[1], r[1] ** 2])

    slope = np.array([[0.4, 0.7], [1.0, -1.0], [0.0, 0.8]])
    shape = jnp.array([0.28, 0.3, 0.16])
    made = gd.bundles.Reshaped(body, shapes)
    np.testing.assert_allclose(gd.connection(made, at), gd.connection(body, shape) @ slope, rtol=1e-12)
    np.testing.assert_allclose(gd.shape_metric(made, at), slope.T @ gd.shape_metric(body, shape) @ slope, rtol=1e-12)
    np.testing.assert_allclose(made.outline(at), body.outline(shape), rtol=1e-14)
    assert gd.bundles.Reshaped(gd.swimmers.FallingCat(), lambda r: r).outline is None
    polar = gd.shape_metric(swimmers.polar_serpenoid(), [0.0, 0.3])
    assert polar[0, 0] > 1e-4 and np.max(np.abs(polar[1])) < 1e-18
    with pytest.raises(ValueError, match="original must be"):
        gd.bundles.Reshaped(gd.swimmers.KinematicCar(), lambda r: r)


def test_chains_whose_hinges_move_together():
    """How much the hinges turn all together: an arc by its bend, a wave by nothing, a tail by the sum of its shares."""
    r = jnp.array([2.0, -0.5, 1.0])
    np.testing.assert_allclose(jnp.sum(swimmers.fluid_arcs(links=13, pieces=3).shapes(r)), np.sum(r) / 3, rtol=1e-14)
    np.testing.assert_allclose(swimmers.fluid_arcs(links=4, pieces=3).shapes(r), r / 3, rtol=1e-14)
    waves = swimmers.fluid_waves(links=8, waves=(1.0, 2.0)).shapes.matrix
    np.testing.assert_allclose(waves[:, 1], np.sin(2 * np.pi * np.arange(1, 8) / 8), atol=1e-15)
    np.testing.assert_allclose(waves[:, 2], np.cos(4 * np.pi * np.arange(1, 8) / 8), atol=1e-15)
    np.testing.assert_array_equal(swimmers.three_fluid_links(3).shapes(r[:2]), [0, 0, 2, 0, 0, -0.5, 0, 0])
    tail = swimmers.fish_tail(tail=5, head=3).shapes(jnp.array([0.3, 1.5]))
    np.testing.assert_allclose([jnp.sum(tail[:4]), tail[4]], [1.5, 0.3], rtol=1e-14)
    np.testing.assert_array_equal(tail[5:], 0)
    np.testing.assert_array_equal(swimmers.flapper().shapes(r[:2]), [2, -0.5, -0.5, 2])
    for wrong, message in (
        (lambda: swimmers.fish_tail(tail=1), "fish_tail: tail must be at least two"),
        (lambda: swimmers.fluid_arcs(links=3, pieces=3), "links must be more than pieces"),
        (lambda: swimmers.bowed_links((1.0, 1.0)), "bowed_links: lengths must be three"),
        (lambda: swimmers.waving_links((1.0, 1.0)), "waving_links: lengths must be three"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()


def test_beanie_and_raft():
    """Case H01: closed forms and quadratures; measured ≤ 1e-16."""

    def winding(t):
        return 2 * jnp.pi * jnp.atleast_1d(t)

    beanie = gd.swimmers.Beanie((1.3, 0.4))
    np.testing.assert_allclose(
        beanie.group.log(gd.holonomy(beanie, winding, steps=4)), float(H01["beanie"]), atol=1e-14
    )

    @jax.jit
    def moved(inertia):
        raft = eqx.tree_at(lambda raft: raft.inertia, RAFT, inertia)
        around = gd.holonomy(raft, lambda t: jnp.stack([0.6 + 0 * t, 2 * jnp.pi * t]))
        small = gd.FourierStroke([0.6, 0.0], [[0.3], [0.0]], [[0.0], [0.5]])
        return gd.groups.SE2().log(around)[2], around[:2, 2], gd.groups.SE2().log(gd.holonomy(raft, small))[2]

    yaw, displacement, small = moved(0.9)
    np.testing.assert_allclose(yaw, float(H01["raft_winding_yaw"]), atol=1e-12)
    np.testing.assert_allclose(displacement, np.array(H01["raft_winding_displacement"], float), atol=1e-11)
    np.testing.assert_allclose(small, float(H01["raft_small_loop_yaw"]), atol=1e-11)
    assert abs(moved(1e9)[0]) < 1e-8  # A heavy raft does not turn; measured 2e-9.


def test_falling_cat_against_the_closed_form_of_a_steady_bend():
    """Measured 9e-16. The momentum about the spine of halves that precess without twist vanishes."""
    cat, angle = gd.swimmers.FallingCat(mass=1.3, arm=0.4, axial=0.3, transverse=0.7), 0.6
    turned = cat.group.log(gd.holonomy(cat, gd.FourierStroke.circle(2 * angle), steps=32))
    cos, sin = np.cos(angle), np.sin(angle)
    exact = 2 * np.pi * (0.3 * cos / (0.3 * cos**2 + 0.7 * sin**2) - 1)
    np.testing.assert_allclose(turned, [0.0, 0.0, exact], atol=1e-12)


def test_falling_cat_has_no_angular_momentum():
    """Halves in space, their velocities by central differences: measured 9e-13 of a momentum of 0.5 each."""
    cat, r, rdot = (
        gd.swimmers.FallingCat(mass=1.3, arm=0.4, axial=0.3, transverse=0.7),
        np.array([0.9, -0.5]),
        np.array([0.3, 1.1]),
    )
    xi = -np.asarray(gd.connection(cat, jnp.asarray(r))) @ rdot

    def halves(s):
        bend = Rotation.from_rotvec([*(r + s * rdot) / 2, 0.0])
        turned = np.stack([(Rotation.from_rotvec(s * xi) * b).as_matrix() for b in (bend, bend.inv())])
        places = 0.4 * turned[:, :, 2] * np.array([[1.0], [-1.0]])
        return turned, places - places.mean(axis=0)

    (turned, places), h = halves(0.0), 1e-5
    spinning, moving = ((a - b) / (2 * h) for a, b in zip(halves(h), halves(-h), strict=True))
    momentum = 1.3 * np.cross(places, moving)
    for i, (g, dg) in enumerate(zip(turned, spinning, strict=True)):
        wx = dg @ g.T
        momentum[i] += g @ np.diag([0.7, 0.7, 0.3]) @ g.T @ [wx[2, 1], wx[0, 2], wx[1, 0]]
    assert np.max(np.abs(momentum)) > 0.1
    np.testing.assert_allclose(momentum.sum(axis=0), 0.0, atol=1e-9)


def rectangle(sides):
    """Two shape variables, one after the other, there and back."""

    def stroke(t):
        first = jnp.clip(4 * t, 0, 1) - jnp.clip(4 * t - 2, 0, 1)
        return jnp.stack([first, jnp.clip(4 * t - 1, 0, 1) - jnp.clip(4 * t - 3, 0, 1)]) * jnp.array(sides)

    return stroke


def test_satellite_turns_by_exponentials():
    """Rotors one after the other: a product of four rotations; measured 2e-16."""
    exp = gd.groups.SO3().exp
    a, b = (-j * np.linalg.solve(SATELLITE.inertia, e) for j, e in zip(SATELLITE.rotors, SATELLITE.axes, strict=True))
    exact = exp(3.0 * a) @ exp(2.0 * b) @ exp(-3.0 * a) @ exp(-2.0 * b)
    np.testing.assert_allclose(gd.holonomy(SATELLITE, rectangle([3.0, 2.0]), steps=8), exact, atol=1e-14)
    heavier = jax.jit(
        lambda j: gd.connection(gd.swimmers.Satellite(SATELLITE.inertia, SATELLITE.axes, j), jnp.zeros(2))
    )
    np.testing.assert_allclose(-heavier(jnp.array([0.1, 0.3])), np.stack([a, b], axis=1), atol=1e-15)


def test_disc_and_car_against_their_closed_forms():
    """A disc that rolls, turns, rolls back, turns back; a car on two arcs; measured 2e-16."""
    moved = gd.groups.Translation(2).log(gd.holonomy(gd.swimmers.RollingDisc(0.7), rectangle([2.0, 1.1]), steps=16))
    np.testing.assert_allclose(moved, 0.7 * 2.0 * np.array([1 - np.cos(1.1), -np.sin(1.1)]), atol=1e-14)
    # Steering turns only the wheels: straight ahead, then back on an arc.
    car, exp = gd.swimmers.KinematicCar(wheelbase=1.3, radius=0.3), gd.groups.SE2().exp
    back = exp(jnp.array([-0.6, 0.0, -0.6 * np.tan(0.5) / 1.3]))
    exact = exp(jnp.array([0.6, 0.0, 0.0])) @ back
    np.testing.assert_allclose(gd.holonomy(car, rectangle([2.0, 0.5]), steps=16), exact, atol=1e-14)


def motion(t):
    """Two angles at time t and their rates, for scipy."""
    s, c = np.sin(2 * np.pi * t), np.cos(2 * np.pi * t)
    return np.array([0.9 + 0.3 * c, -0.4 + 0.4 * s]), 2 * np.pi * np.array([-0.3 * s, 0.4 * c])


STROKE = gd.FourierStroke([0.9, -0.4], [[0.3], [0.0]], [[0.0], [0.4]])


def test_snake_against_its_constraints_by_hand():
    """A wheel on each link, written in the frame of the middle one; measured 4e-14."""

    def rate(t, pose):
        (a, b), (da, db) = motion(t)
        forwards, turning = np.linalg.solve(
            [[np.sin(a), -0.5 * np.cos(a) - 0.4], [-np.sin(b), 0.5 * np.cos(b) + 0.6]], [-0.4 * da, -0.6 * db]
        )
        return [forwards * np.cos(pose[2]), forwards * np.sin(pose[2]), turning]

    exact = solve_ivp(rate, (0, 1), [0.0, 0.0, 0.0], method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    g = gd.holonomy(gd.swimmers.KinematicSnake((0.8, 1.0, 1.2)), STROKE)
    np.testing.assert_allclose(g[:2, 2], exact[:2], atol=1e-10)
    np.testing.assert_allclose(gd.groups.SE2().log(g)[2], exact[2], atol=1e-10)


class Rods:
    """LINKS in absolute coordinates: headings, and places from the end of the first rod."""

    masses, lengths = np.asarray(LINKS.masses), np.asarray(LINKS.lengths)

    def __init__(self, t, heading):
        (a, b), (da, db) = motion(t)
        headings = heading + np.array([-a, 0.0, b])
        self.out = self.lengths[:, None] * np.stack([np.cos(headings), np.sin(headings)], axis=1)
        self.rates = np.array([-da, 0.0, db])

    def centred(self, out):
        places = np.cumsum(out, axis=0) - out / 2
        return places - self.masses @ places / self.masses.sum()

    def momentum(self, spins):
        """About the centre of mass, where the rods turn at these rates."""
        x, y = self.centred(self.out).T
        u, v = self.centred(np.stack([-self.out[:, 1], self.out[:, 0]], axis=1) * spins[:, None]).T
        return self.masses @ (x * v - y * u) + np.sum(self.masses * self.lengths**2 / 12 * spins)


def test_floating_links_with_and_without_momentum():
    """The centre of mass drifts steadily, and the momentum about it decides the heading; measured 1e-12 and 2e-14."""
    middle = -Rods(0.0, 0.0).centred(Rods(0.0, 0.0).out)[1]

    def rate(t, heading, momentum):
        rods = Rods(t, heading[0])
        return [(momentum - rods.momentum(rods.rates)) / rods.momentum(np.ones(3))]

    for momentum in ([0.0, 0.0, 0.0], [0.5, -0.3, 0.8]):
        spin = momentum[2] - (middle[0] * momentum[1] - middle[1] * momentum[0])
        exact = solve_ivp(rate, (0, 1), [0.0], args=(spin,), method="DOP853", rtol=1e-12, atol=1e-13).y[0, -1]
        g = gd.bundles.drifting_path(LINKS, STROKE, jnp.array(momentum), steps=48)[-1]
        np.testing.assert_allclose(gd.groups.SE2().log(g)[2], exact, atol=1e-8)
        carried = g[:2, :2] @ middle + g[:2, 2] - middle
        np.testing.assert_allclose(carried, np.array(momentum[:2]) / LINKS.masses.sum(), atol=1e-8)
    still = gd.bundles.drifting_path(LINKS, STROKE, jnp.zeros(3), steps=48)
    np.testing.assert_allclose(still, gd.path(LINKS, STROKE, steps=48), atol=1e-8)


@pytest.mark.long
def test_a_locked_satellite_tumbles_as_eulers_equations_have_it():
    """Momentum fixed in space, seen from the body. The order is measured, 6.0 (4 without the last brackets); the
    derivative against differences: 1e-9."""
    inertia, start = np.asarray(SATELLITE.inertia), np.array([1.0, -2.0, 3.0])

    def euler(t, p):
        return np.cross(p, np.linalg.solve(inertia, p))

    exact = solve_ivp(euler, (0, 1), start, method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]

    def moved(mu, steps):
        return gd.bundles.drifting_path(SATELLITE, lambda t: jnp.zeros(2) * t, mu, steps=steps)[-1].T @ start

    errors = [float(np.max(np.abs(moved(start, steps) - exact))) for steps in (6, 12)]
    assert 5.5 < np.log2(errors[0] / errors[1]) < 6.5
    run = jax.jit(lambda mu: moved(mu, 24))
    np.testing.assert_allclose(run(start), exact, atol=1e-9)
    np.testing.assert_allclose(gd.bundles.locked_inertia(SATELLITE, jnp.zeros(2)), inertia, atol=1e-15)
    direction = np.array([0.3, 0.1, -0.2])
    slope = jax.jvp(run, (start,), (direction,))[1]
    differences = (run(start + 1e-5 * direction) - run(start - 1e-5 * direction)) / 2e-5
    np.testing.assert_allclose(slope, differences, atol=1e-7)


@pytest.mark.parametrize(
    "space",
    [
        pytest.param(gd.spaces.Sphere(2), marks=pytest.mark.long),
        pytest.param(gd.spaces.Hyperbolic(2), marks=pytest.mark.long),
        gd.spaces.Hyperbolic(3),
    ],
    ids=["S2", "H2", "H3"],
)
def test_two_legs_swim_by_curvature(space):
    """The closed form dX = −w df of the class, integrated by quadrature; measured 1e-16."""
    m0, m1, root = 1.0, 0.7, np.sqrt(complex(space.chart.curvature))

    def rate(t):
        (l, a), (dl, da) = (x * [1, -2] for x in motion(t))
        tan, square = np.tan(root * l) * np.cos(a), (1 - np.sin(root * l) ** 2 * np.sin(a) ** 2).real
        foot = (dl * np.cos(a) / np.cos(root * l) ** 2 - da * np.tan(root * l) * np.sin(a) / root) / (1 + tan**2)
        return -2 * m1 * square / (m0 + 2 * m1 * square) * foot.real

    exact = quad(rate, 0, 1, epsabs=1e-12)[0]
    body = gd.swimmers.TwoLegged(space, (m0, m1))
    moved = body.group.log(gd.holonomy(body, lambda t: STROKE(t) * jnp.array([1.0, -2.0])))
    np.testing.assert_allclose(moved[0], exact, atol=1e-11)
    np.testing.assert_allclose(moved[1:], 0.0, atol=1e-14)


def test_nothing_swims_in_the_plane_by_inertia_alone():
    """The centre of mass stays: measured 4e-16; in S², the same stroke leads 0.04 away."""
    body = gd.swimmers.TwoLegged(gd.spaces.Euclidean(2), (1.0, 0.7))
    np.testing.assert_allclose(gd.holonomy(body, lambda t: STROKE(t) * jnp.array([1.0, -2.0])), np.eye(3), atol=1e-14)


@pytest.mark.parametrize(
    "space", [gd.spaces.Euclidean(2), gd.spaces.Sphere(2), gd.spaces.Hyperbolic(3)], ids=["E2", "S2", "H3"]
)
def test_a_body_of_masses_has_no_momentum(space):
    """The connection against the Killing momenta of the same masses as a system, in its chart; measured 2e-15 in H³,
    1e-16 elsewhere."""
    n, rng = space.dim, np.random.default_rng(1)
    places, masses = 0.4 * rng.normal(size=(3, 4, n)), np.array([1.0, 0.5, 2.0, 0.8])

    def shape(r):
        return jnp.asarray(places[0]) + r[0] * places[1] + r[0] * r[1] * places[2]

    system, r, rdot = gd.System(space, masses), jnp.array([0.3, -0.5]), jnp.array([1.0, 0.7])
    body, count = gd.swimmers.PointMasses(system.space, system.masses, shape), space.embed(jnp.zeros(n)).size

    @jax.jit
    def run():
        xi = -gd.connection(body, r) @ rdot

        def moved(s):
            return body.points(r + s * rdot) @ body.group.exp(s * xi).T

        x, v = jax.jvp(lambda s: jax.vmap(space.coordinates)(moved(s)[:, :count]), (0.0,), (1.0,))
        return gd.hamilton.killing_momentum(system, x, v), v

    momenta, v = run()
    assert np.min(np.linalg.norm(v, axis=1)) > 0.01
    np.testing.assert_allclose(momenta, 0.0, atol=2e-14)


@pytest.mark.parametrize("row", case("E01")["rows"], ids=lambda row: f"radius {row['radius']}")
def test_ellipses_in_a_perfect_fluid(row):
    """Effective masses, connection, shape metric and net displacement, as they were computed elsewhere."""
    fish = gd.swimmers.FluidLinks(aspect=row["aspect"])
    for found in fish.inertias:
        np.testing.assert_allclose(found, row["weights"], rtol=1e-14)
    r = jnp.array(row["A_at"])
    np.testing.assert_allclose(gd.connection(fish, r), row["A"], atol=1e-13)
    np.testing.assert_allclose(gd.shape_metric(fish, r), row["G"], atol=1e-14)
    end = gd.holonomy(fish, gd.FourierStroke.circle(row["radius"], centre=row["centre"]), steps=192)
    net = [end[0, 2], end[1, 2], jnp.arctan2(end[1, 0], end[0, 0])]
    np.testing.assert_allclose(net, row["net"], atol=case("E01")["tolerance"])


def test_a_bent_fish_with_an_impulse_obeys_kirchhoffs_equations():
    """As a rigid body in a perfect fluid, whose linear and angular impulse are constant: it turns and weaves."""
    fish, shape = gd.swimmers.FluidLinks(aspect=0.3), [0.6, 0.4]
    impulse = np.array([1.0, 0.3, 0.2])
    inverse = np.linalg.inv(gd.bundles.locked_inertia(fish, jnp.array(shape)))

    def rate(_, pose):
        x, y, angle = pose
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        about = impulse[2] - x * impulse[1] + y * impulse[0]
        xi = inverse @ np.append(turn.T @ impulse[:2], about)
        return np.append(turn @ xi[:2], xi[2])

    known = solve_ivp(rate, (0, 1), np.zeros(3), "DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    end = gd.bundles.drifting_path(fish, gd.FourierStroke(shape, np.zeros((2, 1)), np.zeros((2, 1))), impulse)[-1]
    np.testing.assert_allclose([end[0, 2], end[1, 2], jnp.arctan2(end[1, 0], end[0, 0])], known, atol=1e-9)
    assert abs(known[2]) > 0.1


def test_drags_that_are_half_of_the_masses_have_the_same_connection():
    fish = BODIES["FluidLinks"][0]

    class Dragged(gd.swimmers.NLink):
        def drags(self):
            return fish.inertias / 2

    r = jnp.array([0.3, -0.5])
    np.testing.assert_allclose(gd.connection(Dragged(fish.lengths), r), gd.connection(fish, r), atol=1e-14)


def test_ellipses_in_a_thin_fluid_are_afloat():
    """With hardly any water their effective masses are their masses, with a moment of inertia of m L²/16 if they are
    slender; and their centre of mass stays."""
    links = gd.swimmers.FluidLinks((1.0, 0.8, 1.2), 1e-3, density=1e-12, body_density=1.0)
    masses = links.inertias[:, 0]
    np.testing.assert_allclose(links.inertias[:, 1], masses, rtol=1e-8)
    np.testing.assert_allclose(links.inertias[:, 2], masses * links.lengths**2 / 16, rtol=1e-5)
    end = gd.holonomy(links, STROKE)
    centre = masses @ chain(links.lengths, STROKE(0.0))[:, :2] / jnp.sum(masses)
    assert float(jnp.abs(end[1, 0])) > 0.005
    np.testing.assert_allclose(end[:2, :2] @ centre + end[:2, 2], centre, atol=1e-8)


def test_curvature_obeys_bianchi():
    """D_i F_jk + D_j F_ki + D_k F_ij = 0 on three hinges: measured 6e-18 of 7e-4."""
    body, r = gd.swimmers.FloatingLinks((1.0, 0.8, 1.2, 0.5), (1.0, 2.0, 0.7, 1.0)), jnp.array([0.4, -0.9, 0.6])
    slope = gd.bundles.covariant_derivative(body, lambda r: gd.curvature(body, r), r)
    np.testing.assert_allclose(slope[:, 0, 1, 2] + slope[:, 1, 2, 0] + slope[:, 2, 0, 1], 0.0, atol=1e-15)
    assert np.max(np.abs(slope[:, 0, 1, 2])) > 1e-4


@pytest.mark.parametrize("name", slow("FallingCat", "Satellite", "TwoLegged in S2", quick="KinematicSnake"))
def test_derivatives_with_respect_to_masses_and_lengths(name):
    """Forwards, backwards and by central differences; measured 6e-10 relative."""
    body, centre = BODIES[name]
    numbers, rest = eqx.partition(body, eqx.is_inexact_array)
    flat, restore = ravel_pytree(numbers)
    weights, direction = np.cos(np.arange(2 * body.group.dim)), np.sin(1.0 + np.arange(flat.size))

    def value(flat):
        return jnp.dot(gd.connection(eqx.combine(restore(flat), rest), jnp.array(centre)).ravel(), weights)

    @jax.jit
    def derivatives(flat):
        number, push = jax.linearize(value, flat)
        return number, jax.vmap(push)(jnp.eye(flat.size)), jax.linear_transpose(push, flat)(jnp.ones(()))[0]

    _, forwards, backwards = derivatives(flat)
    ahead, behind = (derivatives(flat + h * direction)[0] for h in (1e-5, -1e-5))
    np.testing.assert_allclose(forwards, backwards, atol=1e-13)
    np.testing.assert_allclose(forwards @ direction, (ahead - behind) / 2e-5, rtol=1e-7)


def test_shape_metric_of_a_body_is_what_remains_of_its_energy():
    """Least kinetic energy is at zero momentum, and twice of it is the metric; measured 6e-17."""
    r, rdot = jnp.array([0.4, 0.7]), jnp.array([0.3, -0.8])
    form, metric = jax.jit(reduction)(RAFT, r)
    energy, momentum = jax.jit(jax.value_and_grad(RAFT.kinetic_energy, 1))(r, -form @ rdot, rdot)
    np.testing.assert_allclose(momentum, 0.0, atol=1e-15)
    np.testing.assert_allclose(rdot @ metric @ rdot, 2 * energy, rtol=1e-14)


def test_waves_that_hinges_cannot_have_are_named():
    with pytest.raises(ValueError, match=r"waving_links: waves must be positive and finite, got \[0"):
        swimmers.waving_links(waves=0.0)
    with pytest.raises(ValueError, match=r"fluid_waves: waves \[1.\] are 2 modes, which 1 hinges cannot tell apart"):
        swimmers.fluid_waves(links=2)
    with pytest.raises(ValueError, match=r"fluid_waves: waves \[1. 1.\] are 4 modes"):  # The same modes twice.
        swimmers.fluid_waves(waves=(1.0, 1.0))


def test_what_is_no_body_is_named():
    class Sledge(gd.bundles.AbstractKinematicBody):
        group: gd.groups.SE2 = gd.groups.SE2()

        def constraints(self, r, xi, rdot):
            return xi[1:2] - rdot

    with pytest.raises(ValueError, match="constraints must return 3 numbers"):
        gd.connection(Sledge(), jnp.zeros(1))
    with pytest.raises(ValueError, match="must be symmetric and exceed the rotors' own"):
        gd.swimmers.Satellite(0.1 * np.eye(3), np.eye(3), [0.2, 0.05, 0.05])
    with pytest.raises(ValueError, match="must have the dimension 2 or 3"):
        gd.swimmers.TwoLegged(gd.spaces.Sphere(4))
    with pytest.raises(ValueError, match="momentum must have 3 numbers"):
        gd.bundles.drifting_path(LINKS, STROKE, jnp.zeros(2))
    with pytest.raises(ValueError, match="axes must be unit vectors"):
        gd.swimmers.Satellite(np.eye(3), 2 * np.eye(3), [0.2, 0.05, 0.05])
    with pytest.raises(
        ValueError, match=r"masses must have shape \[L\] with L = 2 as lengths has it, got shape \(1,\)"
    ):
        gd.swimmers.FloatingLinks((1.0, 1.0), (1.0,))
    with pytest.raises(ValueError, match=r"FluidLinks: aspect must have the shape \(3,\), got \(2,\)"):
        gd.swimmers.FluidLinks(aspect=[0.1, 0.2])
    with pytest.raises(ValueError, match="FluidLinks: body_density must be positive and finite, got 0"):
        gd.swimmers.FluidLinks(body_density=0.0)
    with pytest.raises(ValueError, match=r"the points shape\(r\) must have the shape \(2, 3\), got \(1, 3\)"):
        gd.connection(
            gd.swimmers.PointMasses(gd.spaces.Sphere(3), (1.0, 2.0), lambda r: jnp.stack([r, r, r], axis=1)),
            jnp.ones(1),
        )
    with pytest.raises(ValueError, match="inertias must be positive"):
        gd.swimmers.Beanie((1.0, -1.0))


def test_shapes_of_the_wrong_size_are_named():
    """An index beyond the end of an array is the last one to JAX, and one too many is none: numbers without a sign."""
    for name in BODIES.keys() - {"Heisenberg"}:
        body, r = BODIES[name]
        for size in (len(r) - 1, len(r) + 1):
            with pytest.raises(ValueError, match=rf"shape.*\({size},\)"):
                jax.eval_shape(body.form, jnp.zeros(size))
    with pytest.raises(ValueError, match=r"KinematicSnake has a connection but no metric of shapes: gd\.bundles\.Kalu"):
        inspect.unwrap(reduction)(
            gd.swimmers.KinematicSnake(), jnp.ones(2)
        )  # else the tests' own check of types comes first


def test_shapes_are_lists_of_numbers_of_any_kind():
    np.testing.assert_array_equal(
        gd.connection(gd.swimmers.RollingDisc(0.7), [1, 0]), gd.connection(gd.swimmers.RollingDisc(0.7), jnp.eye(2)[0])
    )


@pytest.mark.parametrize("angle", np.linspace(-1.5, 1.5, 13))
def test_a_snake_with_equal_angles_is_singular_whatever_the_rounding(angle):
    """Its wheels then all roll about one point, or along one line."""
    with pytest.raises(ValueError, match="KinematicSnake is singular at the shape"):
        gd.connection(gd.swimmers.KinematicSnake(), [angle, angle])
