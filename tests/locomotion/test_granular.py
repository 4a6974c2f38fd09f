"""Links in sand, and on ground with friction opposite to the velocity: integrals, the balance, tables."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.laws import check_balance_of_degree_one
from scipy.integrate import quad
from scipy.optimize import root

import geodyn as gd
from geodyn._locomotion.swimmers.creep import creeping_lines, inverse_tangent
from geodyn._locomotion.swimmers.granular import table_forces
from geodyn._locomotion.swimmers.nonlinear_drag import opposite_forces

SHAPE, RATE = jnp.array([0.4, -0.9]), jnp.array([1.0, 0.3])
CIRCLE = gd.FourierStroke.circle(1.0)
# The tail sticks to the ground here, while both hinges turn.
STUCK = 0.03515625
SAND = gd.granular.surface_of_beads()
MOTIONS = [
    (0.3, -0.2, 0.9),
    (0.0, 0.4, 0.01),
    (-0.1, 0.0, 2.0),
    (1.0, 0.3, 1e-5),
    (0.001, 0.3, -1.0),
    (-1.2, -0.6, 0.0),
]


def law_of_scales(angle):
    """Forces of a body with scales, which slides more easily forwards; without a potential."""
    return np.cos(angle) * (1 + 0.4 * np.sin(angle) ** 2) - 0.3 * np.sin(angle / 2) ** 2, 2 * np.sin(angle)


def opposite(angle):
    size = np.sqrt(np.cos(angle) ** 2 + 4 * np.sin(angle) ** 2)
    return size * np.cos(angle), size * np.sin(angle)


def fine_table(law, end, count):
    angles = np.linspace(0, end, count)
    along, across = law(angles)
    across[0] = 0.0
    (along if end < 2 else across)[-1] = 0.0
    return gd.granular.StressTable(angles, along, across)


def on_a_line(law, v_t, v_n, turning, low, high, corners=()):
    """The forces and the torque about 0 of the points from low to high of a line, by scipy's quadrature."""

    def density(s, kind):
        angle = np.arctan2(v_n + turning * s, v_t)
        along, across = law(abs(angle))
        return (along, np.copysign(across, angle), s * np.copysign(across, angle))[kind]

    tangents = [0.0, *np.tan(corners)]
    places = [(sign * x * abs(v_t) - v_n) / turning for x in tangents for sign in (1, -1)] if turning else []
    inside = sorted({low, high, *(s for s in places if low < s < high)})
    pairs = list(pairwise(inside))
    return [sum(quad(density, *pair, kind, epsabs=1e-13, epsrel=1e-12)[0] for pair in pairs) for kind in range(3)]


def resistance_by_quadrature(law, r, xi, rdot):
    """Of three links of length 1, in the frame of the middle one; by numpy and scipy alone."""
    total = np.zeros(3)
    for side in (-1, 0, 1):
        hinge = np.array([side / 2, 0.0])
        angle = (-r[0], 0.0, r[1])[side + 1]
        turning = xi[2] + (-rdot[0], 0.0, rdot[1])[side + 1]
        along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
        of_hinge = np.array([xi[0], xi[1]]) + xi[2] * np.array([-hinge[1], hinge[0]])
        low, high = (-0.5, 0.5) if side == 0 else (0.0, float(side)) if side > 0 else (-1.0, 0.0)
        f_t, f_n, torque = on_a_line(law, of_hinge @ along, of_hinge @ across, turning, low, high)
        force = f_t * along + f_n * across
        total += [force[0], force[1], torque + hinge[0] * force[1] - hinge[1] * force[0]]
    return total


@pytest.mark.parametrize("motion", MOTIONS)
def test_forces_of_a_table_on_a_link(motion):
    """Against a quadrature of the table, between its corners: measured 1e-14 of forces of 0.2."""
    lines = creeping_lines(jnp.array([motion]), jnp.ones(1), 0.0)
    table = jax.jit(lambda angle: SAND(angle))
    known = on_a_line(lambda angle: np.asarray(table(angle)), *motion, -0.5, 0.5, SAND.angles[1:-1])
    np.testing.assert_allclose(table_forces(SAND, lines)[0], known, atol=1e-12)


@pytest.mark.parametrize("friction", [(1.0, 2.0), (2.0, 1.0), (1.0, 1.0), (1.0, 1.03), (1.0, 9.0)])
@pytest.mark.parametrize("motion", [MOTIONS[0], *MOTIONS[2:]])
def test_forces_of_opposite_friction_on_a_link(motion, friction):
    lines = creeping_lines(jnp.array([motion]), jnp.ones(1), 0.0)

    def law(angle):
        size = np.hypot(friction[0] * np.cos(angle), friction[1] * np.sin(angle))
        return size * np.cos(angle), size * np.sin(angle)

    known = on_a_line(law, *motion, -0.5, 0.5, [0.1, 0.7, 1.3, 1.5, 1.56])
    np.testing.assert_allclose(opposite_forces(jnp.array(friction), lines)[0], known, atol=1e-10)


@pytest.mark.parametrize("d", [2.0, 1e-3, 0.0, -1e-3, -0.9])
def test_the_inverse_tangent_of_either_sign(d):
    z = np.array([0.01, 0.3, 0.99])
    root_of_d = np.sqrt(complex(d)) if d else 1e-9
    known = (np.arctan(root_of_d * z) / root_of_d).real
    np.testing.assert_allclose(inverse_tangent(jnp.array(d), jnp.asarray(z)), known, rtol=1e-12)


def test_a_table_is_met_and_has_slopes():
    """The values at its angles, and there the slopes of parabolas by numpy; between them a law that is smooth."""
    angles = np.array(SAND.angles)
    table = jax.jit(jax.vmap(SAND))
    np.testing.assert_allclose(table(angles), np.stack([SAND.along, SAND.across], axis=1), atol=1e-15)
    slopes_of = jax.jit(jax.vmap(jax.jacfwd(SAND)))
    for side in (-1e-9, 1e-9):
        slopes = slopes_of(angles[1:-1] + side)
        known = [np.gradient(values, angles)[1:-1] for values in (SAND.along, SAND.across)]
        np.testing.assert_allclose(slopes, np.stack(known, axis=1), rtol=1e-5, atol=1e-6)
    scales = fine_table(law_of_scales, np.pi, 61)
    between = np.linspace(0.01, 3.1, 50)
    np.testing.assert_allclose(jax.jit(jax.vmap(scales))(between), np.stack(law_of_scales(between), axis=1), atol=1e-5)


def test_published_curves():
    """The two fits of Schiebel et al., written down again, between the angles of the table; and where its authors see
    as much force along the plate as across it, at a small angle."""
    beta = np.deg2rad(np.array([2.5, 7.0, 12.0, 25.0, 52.0, 70.0]))
    series = [0.00593, 0.01974, -0.001129, -0.008861, 0.004105]
    waves = [np.cos(0 * beta), np.cos(1.232 * beta), np.sin(1.232 * beta), np.cos(2.464 * beta), np.sin(2.464 * beta)]
    normal = 0.15 * np.sin(beta) + 0.15 * 0.198 * np.sin(beta) / np.hypot(np.sqrt(0.00389), np.sin(beta))
    known = np.stack([np.array(series) @ np.array(waves), normal], axis=1)
    np.testing.assert_allclose(jax.vmap(SAND)(beta), known, atol=3e-4)
    assert SAND(np.deg2rad(1.0))[1] < SAND(np.deg2rad(1.0))[0] < SAND(np.deg2rad(3.0))[1]


BODIES = {
    "opposite": (gd.swimmers.DryLinks(opposite=True), opposite, 1e-8),
    "scales": (gd.swimmers.GranularLinks(stresses=fine_table(law_of_scales, np.pi, 181)), law_of_scales, 1e-6),
}


@pytest.mark.parametrize("name", ["opposite", pytest.param("scales", marks=pytest.mark.long)])
@pytest.mark.parametrize("sense", [1, -1])
def test_the_balance(name, sense):
    """Against a root by scipy of the resistance of all points by quadrature."""
    body, law, tolerance = BODIES[name]
    rate = sense * np.asarray(RATE)
    found = np.asarray(body.velocity(SHAPE, rate))
    known = root(lambda xi: resistance_by_quadrature(law, np.asarray(SHAPE), xi, rate), found + 0.01, tol=1e-11)
    assert known.success
    np.testing.assert_allclose(found, known.x, atol=tolerance)
    back = np.asarray(body.velocity(SHAPE, -rate))
    assert np.allclose(back, -found, atol=1e-12) == (name == "opposite")


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.parametrize(
    "body", [gd.swimmers.DryLinks(opposite=True), gd.swimmers.GranularLinks()], ids=["dry", "sand"]
)
def test_the_law(body):
    """Of degree one and odd in r', at rest with the shape; derivatives in both modes against differences: 1e-10."""
    check_balance_of_degree_one(body, SHAPE, RATE, 1e-5)


@pytest.mark.long
def test_friction_that_is_the_same_in_all_directions():
    """The associated law and the opposite one agree then, also where a link sticks: it creeps."""
    bodies = [gd.swimmers.DryLinks(friction=(1.0, 1.0), opposite=opposite) for opposite in (False, True)]
    for t in (STUCK, 0.2, 0.7):
        r, rdot = CIRCLE(t), jax.jacfwd(CIRCLE)(t)
        one, other = (body.velocity(r, rdot) for body in bodies)
        np.testing.assert_allclose(one, other, atol=2e-8)
        if t == STUCK:
            speeds = np.max(np.abs(bodies[1].velocities(r, other, rdot)), axis=1)
            assert 0 < np.min(speeds) < 1e-7 < 0.1 < np.max(speeds)


@pytest.mark.long
def test_where_a_link_turns_about_a_point_of_itself_there_is_no_derivative():
    body, straight = gd.swimmers.DryLinks(opposite=True), jnp.zeros(2)
    np.testing.assert_allclose(body.velocity(straight, jnp.ones(2)), [0.0, -0.25, 0.0], atol=1e-12)
    assert np.isnan(jax.jacfwd(body.velocity)(straight, jnp.ones(2))).all()


@pytest.mark.long
def test_front_and_back():
    """A table up to π of a body that is the same in front and behind is that up to π/2."""
    angles, along, across = np.array(SAND.angles), np.asarray(SAND.along), np.asarray(SAND.across)
    mirrored = slice(-2, None, -1)
    whole = gd.granular.StressTable(
        np.concatenate([angles, np.pi - angles[mirrored]]),
        np.concatenate([along, -along[mirrored]]),
        np.concatenate([across, across[mirrored]]),
    )
    bodies = gd.swimmers.GranularLinks(), gd.swimmers.GranularLinks(stresses=whole)
    np.testing.assert_allclose(*(body.velocity(SHAPE, RATE) for body in bodies), rtol=1e-12)


@pytest.mark.weekly
@pytest.mark.long
def test_it_follows_the_table():
    """The derivative of a displacement by the forces of the table, against differences."""

    def moved(across):
        stresses = gd.granular.StressTable(SAND.angles, SAND.along, across)
        return gd.holonomy(gd.swimmers.GranularLinks(stresses=stresses), CIRCLE, steps=16)[0, 2]

    direction = jnp.zeros_like(SAND.across).at[7].set(0.01)
    slope = jax.jit(jax.grad(moved))(SAND.across) @ direction
    change = (moved(SAND.across + 1e-2 * direction) - moved(SAND.across - 1e-2 * direction)) / 2e-2
    np.testing.assert_allclose(slope, change, rtol=1e-5)


@pytest.mark.long
def test_a_stroke_in_sand():
    """It leads farther than in a viscous fluid, since sand resists across a link much more than along it."""
    moved = gd.holonomy(gd.swimmers.GranularLinks(), CIRCLE, steps=64)[0, 2]
    assert moved == pytest.approx(-0.5050, abs=1e-4)
    assert abs(moved) > 3 * abs(gd.holonomy(gd.swimmers.NLink([1.0, 1.0, 1.0]), CIRCLE)[0, 2])


@pytest.mark.long
def test_small_loops():
    """The limit of the displacement of a small triangle, whose next term is of the first order in its size, in either
    sense; none for a body with a connection, and for loops that go back along their sides."""
    body, size = gd.swimmers.PowerLawLinks(), 1e-4
    limit = gd.bundles.small_loops(body, SHAPE, [0.2])[0]
    assert np.max(np.abs(limit)) > 1e-3
    for sense in (1, -1):
        angles = 0.2 + sense * 2 * np.pi / 3 * np.arange(3)
        sides = size / 3 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        places = [np.asarray(SHAPE), *(np.asarray(SHAPE) + np.cumsum(sides, axis=0))]
        g = np.eye(3)
        for start, end in pairwise(places):
            g = g @ np.asarray(body.group.exp(body.velocity(jnp.asarray((start + end) / 2), jnp.asarray(end - start))))
        np.testing.assert_allclose(body.group.log(g) / size, limit, atol=1e-5)
    for other, corners in ((gd.swimmers.NLink([1.0, 1.0, 1.0]), 3), (body, 4)):
        np.testing.assert_allclose(gd.bundles.small_loops(other, SHAPE, [0.2, 1.0], corners=corners), 0, atol=1e-14)


LOOPS = {
    "two corners": (lambda: gd.bundles.small_loops(BODIES["opposite"][0], SHAPE, [0.1], corners=2), "3 or more, got 2"),
    "one variable": (
        lambda: gd.bundles.small_loops(BODIES["opposite"][0], SHAPE, [0.1], variables=(1, 1)),
        "two different ones from 0 to 1",
    ),
    "the pace": (lambda: gd.bundles.small_loops(gd.swimmers.CarreauLinks(), SHAPE, [0.1]), "the pace matters for"),
    "another shape": (
        lambda: gd.bundles.small_loops(BODIES["opposite"][0], jnp.ones(3), [0.1]),
        "has 2 shape variables, got a shape of 3",
    ),
    "a component": (lambda: gd.plot.small_loops(BODIES["opposite"][0], 3, SHAPE), "component must be from 0 to 2"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_that_are_none(name):
    call, message = LOOPS[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_a_table_from_a_file(tmp_path):
    path = tmp_path / "sand.csv"
    for separator, unit, angles in ((",", "deg", (0, 45, 90, 180)), (";", "rad", np.deg2rad([0, 45, 90, 180]))):
        rows = [f"Angle_{unit}, along, across", *(f"{angles[i]}, {1 - i / 2}, {[0, 1.5, 2, 0][i]}" for i in range(4))]
        path.write_text("\n".join(rows).replace(",", separator), encoding="utf-8")
        found = gd.granular.read_stresses(path)
        np.testing.assert_allclose(found.angles, np.deg2rad([0, 45, 90, 180]))
        np.testing.assert_allclose(found.along, [1, 0.5, 0, -0.5])
        np.testing.assert_allclose(found.across, [0, 1.5, 2, 0])
        assert not found.is_symmetric


def table(angles=(0, 0.7, np.pi / 2), along=(1, 1, 0), across=(0, 1, 1)):
    return gd.granular.StressTable(angles, along, across)


FILES = {
    "": "its columns are none; want angle_deg or angle_rad",
    "angle,along,across\n0,1,0": "its columns are angle, along, across; want angle_deg",
    "angle_deg,along,across\n0,1\n": "row 2 has 2 cells, want 3",
    "angle_deg,along,across\n\n0,1,0\n0,1\n": "row 4 has 2 cells, want 3",
    "angle_deg,along,across\n0,1,x\n": "every cell must be a number",
    "angle_deg,along,across\n0,1,0\n": "StressTable: angles must be three or more",
    "angle_rad,along,across\n0,1,0\n45,1,1\n90,0,1": "Are they in degrees",
}
WRONG = {
    "degrees": (lambda: table((0, 45, 90)), "Are they in degrees"),
    "angles that fall": (lambda: table((0, 2, 1)), "three or more that grow"),
    "along at a right angle": (lambda: table(along=(1, 1, 0.1)), r"along\[-1\] must be 0, since"),
    "across at 0": (lambda: table(across=(0.1, 1, 1)), r"across\[0\] must be 0, since"),
    "signs": (lambda: table(along=(-1, 1, 0)), "forces must be against the motion"),
    "pushes between": (
        lambda: table(np.deg2rad([0, 80, 90]), along=(1, 0.001, 0), across=(0, 0.001, 9)),
        "cubic forces between the angles of the table push a body that moves: .* is -0.71 at the angle 1.22",
    ),
    "pushes between, backwards": (
        lambda: table(np.deg2rad([0, 45, 90, 100, 180]), along=(1, 0.7, 0, -0.001, -1), across=(0, 1, 9, 0.001, 0)),
        "cubic forces between the angles of the table push a body that moves: .* is -0.71 at the angle 1.91",
    ),
    "values": (lambda: table(along=(1, 0)), "across must have shape"),
    "traced angles": (
        lambda: jax.jit(table)(jnp.array([0, 0.7, jnp.pi / 2])),
        "must be numbers that are known",
    ),
    "one link": (lambda: gd.swimmers.GranularLinks([1.0]), "lengths must be two numbers or more"),
    "a negative length": (lambda: gd.swimmers.GranularLinks([1.0, -1.0]), "lengths must be positive"),
    "a file": (lambda: gd.granular.read_stresses("/nowhere.csv"), "source must be a table as text"),
    "pace": (
        lambda: gd.optimal_stroke(gd.swimmers.GranularLinks(), displacement=0.1),
        "is the same at any pace, since its forces do not depend on the speed",
    ),
}


@pytest.mark.long
def test_a_search_from_a_shape_is_refused_by_name():
    """The power is not convex, so that no metric is like it."""

    def power_squared(body, r, rdot):
        return gd.costs.energy(body, r, rdot) ** 2

    asked = {"displacement": 0.1, "density": power_squared}
    with pytest.raises(ValueError, match=r"^GranularLinks: the power .* is not convex .* Pass guess=, a stroke"):
        gd.optimal_stroke(gd.swimmers.GranularLinks(), jnp.zeros(2), **asked)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input(name):
    call, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("text", FILES)
def test_wrong_file(text, tmp_path):
    path = tmp_path / "sand.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=FILES[text]):
        gd.granular.read_stresses(path)
