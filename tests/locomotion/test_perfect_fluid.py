"""Bodies that disturb each other in a perfect fluid: added masses, connections and refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.cases import case

import geodyn as gd
from geodyn._locomotion.swimmers.panels import added_mass, boundaries_of, inertias_of

E03 = case("E03")
FISH = gd.swimmers.FluidLinks(E03["lengths"], E03["aspect"], interaction=True, gap=E03["gap"], nodes=48)
BENT = jnp.array(E03["A_at"])


@eqx.filter_jit
def masses(boundary, poses, nodes=32):
    """The added mass [3L, 3L] of bodies with these boundaries."""
    poses = jnp.asarray(poses)
    mass, _ = added_mass(boundaries_of(boundary, nodes, poses), poses)
    return mass.reshape(2 * (poses.size,))


@eqx.filter_jit
def masses_of(fish, r):
    poses = fish.links(r)
    return added_mass(boundaries_of(fish.boundary, fish.nodes, r), poses)[0].reshape(2 * (poses.size,))


def ellipse(s, a, b):
    return jnp.stack([a * jnp.cos(s), b * jnp.sin(s)])


def cylinders(row, nodes):
    first, second = row["radii"]
    poses = [[0.0, 0.0, 0.3], [row["distance"], 0.0, 0.3]]
    found = masses(lambda s: jnp.stack([ellipse(s, first, first), ellipse(s, second, second)]), poses, nodes)
    cos, sin = np.cos(0.3), np.sin(0.3)
    turn = np.kron(np.eye(2), [[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    return turn @ found @ turn.T


@pytest.mark.parametrize("row", case("E02")["rows"], ids=lambda row: f"{row['radii']} at {row['distance']}")
def test_two_cylinders(row):
    """Also with a gap of a tenth of a radius; turning a cylinder moves no water."""
    known = np.zeros((6, 6))
    known[0, 0] = known[1, 1] = float(row["first"])
    known[3, 3] = known[4, 4] = float(row["second"])
    known[0, 3] = known[3, 0] = float(row["along"])
    known[1, 4] = known[4, 1] = float(row["across"])
    gap = row["distance"] - sum(row["radii"])
    nodes = 64 if gap > 0.15 else 128
    np.testing.assert_allclose(cylinders(row, nodes), known, atol=case("E02")["tolerance"])


def test_the_error_falls_exponentially():
    """Two cylinders a fifth of a radius apart: a factor of more than 30 with 16 nodes more."""
    row = case("E02")["rows"][1]
    errors = [abs(cylinders(row, nodes)[0, 0] - float(row["first"])) for nodes in (16, 32, 48)]
    assert errors[0] < 0.01
    assert errors[1] < errors[0] / 30
    assert errors[2] < errors[1] / 30


def test_one_ellipse_alone():
    """Lamb's added masses, from 24 nodes on an ellipse of the aspect 0.1."""
    a, b = 0.5, 0.05
    found = masses(lambda s: ellipse(s, a, b)[None], [[0.3, -0.2, 0.7]], 24)
    known = np.pi * np.array([b**2, a**2, (a**2 - b**2) ** 2 / 8])
    np.testing.assert_allclose(found, np.diag(known), atol=1e-12)


def test_a_tricuspid_turns_water_of_its_own():
    """The boundary z = ζ + e ζ⁻² of the unit circle has the stream functions sin θ − e sin 2θ and e cos 3θ of a motion
    and of a turn, and each harmonic A cos kθ the energy π k A²/2."""
    e = 0.3

    def boundary(s):
        return jnp.stack([jnp.cos(s) + e * jnp.cos(2 * s), jnp.sin(s) - e * jnp.sin(2 * s)])[None]

    found = masses(boundary, [[0.0, 0.0, 0.0]], 48)
    known = np.pi * np.diag([1 + 2 * e**2, 1 + 2 * e**2, 3 * e**2])
    np.testing.assert_allclose(found, known, atol=1e-12)
    area = np.pi * (1 - 2 * e**2)
    inertia = inertias_of(boundaries_of(boundary, 48, jnp.zeros(1)))[0]
    np.testing.assert_allclose(inertia[:2, :2], area * np.eye(2), atol=1e-12)


def moved(mass, place, angle):
    """A mass matrix in velocities at the origin of a frame, in which its own has this place and angle."""
    cos, sin = np.cos(angle), np.sin(angle)
    to_own = np.array([[cos, sin, -cos * place[1] + sin * place[0]], [-sin, cos, sin * place[1] + cos * place[0]]])
    velocity = np.vstack([to_own, [0.0, 0.0, 1.0]])
    return velocity.T @ mass @ velocity


@pytest.mark.parametrize("way", [1, -1], ids=["counterclockwise", "clockwise"])
def test_the_frame_of_a_link_may_be_anywhere(way):
    """An ellipse aside of its frame, turned in it: its masses are those of its own frame, moved."""
    a, b, place, angle = 0.5, 0.2, np.array([0.3, -0.4]), 0.8
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

    def boundary(s):
        return (place + turn @ ellipse(way * s, a, b))[None]

    area = np.pi * a * b
    water = np.pi * np.diag([b**2, a**2, (a**2 - b**2) ** 2 / 8])
    own = area * np.diag([1.0, 1.0, (a**2 + b**2) / 4])
    np.testing.assert_allclose(masses(boundary, [[1.0, 2.0, 0.4]], 40), moved(water, place, angle), atol=1e-12)
    inertia = inertias_of(boundaries_of(boundary, 40, jnp.zeros(1)))[0]
    np.testing.assert_allclose(inertia, moved(own, place, angle), atol=1e-13)


def test_bodies_far_away_are_alone():
    """What two ellipses do to each other falls with the square of their distance, what they do to themselves by the
    other one with the fourth power."""

    def at(distance):
        found = masses(
            lambda s: jnp.stack([ellipse(s, 0.5, 0.1), ellipse(s, 0.3, 0.2)]), [[0, 0, 0.4], [distance, 0, 1.1]]
        )
        alone = np.pi * np.array([0.01, 0.25, 0.24**2 / 8])
        return np.max(np.abs(found[:2, 3:5])), np.max(np.abs(found[:3, :3] - np.diag(alone)))

    near, far = at(10.0), at(20.0)
    np.testing.assert_allclose(near[0] / far[0], 4, rtol=0.02)
    np.testing.assert_allclose(near[1] / far[1], 16, rtol=0.05)


def test_three_ellipses_as_they_were_computed_elsewhere():
    """Case E03: the masses, which are symmetric and positive, the connection and the metric; measured 2e-12."""
    found = masses_of(FISH, BENT)
    density = np.pi * FISH._half_axes[0] * FISH._half_axes[1]
    wanted = np.array(E03["added_mass"])
    for i, mass in enumerate(density):
        a, b = (float(x[i]) for x in FISH._half_axes)
        wanted[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] -= mass * np.diag([1.0, 1.0, (a**2 + b**2) / 4])
    np.testing.assert_allclose(found, wanted, atol=E03["tolerance"])
    np.testing.assert_allclose(found, found.T, atol=1e-11)
    assert np.min(np.linalg.eigvalsh((found + found.T) / 2)) > 0
    np.testing.assert_allclose(gd.connection(FISH, BENT), E03["A"], atol=E03["tolerance"])
    np.testing.assert_allclose(gd.shape_metric(FISH, BENT), E03["G"], atol=E03["tolerance"])


def displaced(end):
    return [end[0, 2], end[1, 2], jnp.arctan2(end[1, 0], end[0, 0])]


STROKE = gd.FourierStroke.circle(E03["radius"], centre=E03["centre"])


def test_a_fish_swims_and_drifts():
    """From rest and with an impulse; measured 6e-10, the error of 32 nodes (with 48 nodes and 96 steps 1e-12)."""
    fish = gd.swimmers.FluidLinks(FISH.lengths, FISH.aspect, interaction=True, gap=FISH.gap, nodes=32)
    for row in E03["rows"]:
        end = gd.bundles.drifting_path(fish, STROKE, row["impulse"], steps=24)[-1]
        np.testing.assert_allclose(displaced(end), row["net"], atol=2e-9)


@pytest.mark.long
def test_a_fish_from_rest_has_the_holonomy_of_its_stroke():
    """Measured 2e-13. A stroke with links that overlap is refused at the first such shape."""
    np.testing.assert_allclose(displaced(gd.holonomy(FISH, STROKE)), E03["rows"][0]["net"], atol=E03["tolerance"])
    with pytest.raises(ValueError, match="links 1 and 2 overlap"):
        gd.holonomy(FISH, gd.FourierStroke([2.0, 0.0], [[0.8], [0.0]], [[0.0], [0.8]]))


@pytest.mark.long
def test_nine_links():
    """Twice as many nodes change the connection by 3e-7 at most, and the curvature is that of differences."""
    r = jnp.array([0.5, -0.4, 0.6, 0.3, -0.7, 0.5, -0.3, 0.4])
    coarse, fine = (gd.swimmers.FluidLinks(np.ones(9), interaction=True, gap=0.05, nodes=nodes) for nodes in (16, 32))
    alone = gd.connection(gd.swimmers.FluidLinks(np.ones(9), gap=0.05), r)
    found = gd.connection(fine, r)
    np.testing.assert_allclose(gd.connection(coarse, r), found, atol=2e-4)
    assert np.max(np.abs(found - alone)) > 5e-3


@pytest.mark.long
def test_small_links_are_alone():
    """Ellipses that are small beside their distance disturb each other by the square of their ratio."""

    def difference(size):
        pair = [gd.swimmers.FluidLinks(aspect=0.3, gap=0.5 - size, interaction=x, nodes=16) for x in (False, True)]
        alone, together = (gd.connection(fish, BENT) for fish in pair)
        return np.max(np.abs(together - alone))

    assert difference(0.1) > 1e-4
    np.testing.assert_allclose(difference(0.1) / difference(0.05), 4, rtol=0.2)


@pytest.mark.long
def test_derivatives():
    """With respect to the shape and to all numbers of the body, forwards, backwards and by differences."""

    def value(numbers):
        r, lengths, aspect, gap, density = numbers
        fish = gd.swimmers.FluidLinks(lengths, aspect, density, 0.7, interaction=True, gap=gap, nodes=16)
        weights = jnp.cos(jnp.arange(6.0)).reshape(3, 2)
        return jnp.sum(weights * gd.connection(fish, r))

    numbers = (BENT, jnp.array([1.0, 0.8, 0.5]), jnp.array([0.3, 0.2, 0.15]), jnp.array(0.06), jnp.array(1.1))
    direction = (jnp.array([0.3, -0.7]), jnp.array([0.2, 0.5, -0.3]), jnp.array([0.1, -0.2, 0.1]), 0.1, 0.4)
    direction = jax.tree.map(jnp.asarray, direction)

    @jax.jit
    def slopes(numbers):
        forwards = jax.jvp(value, (numbers,), (direction,))[1]
        backwards = jax.grad(value)(numbers)
        return forwards, sum(jax.tree.leaves(jax.tree.map(lambda x, y: jnp.sum(x * y), backwards, direction)))

    def at(h):
        return jax.jit(value)(jax.tree.map(lambda x, y: x + h * y, numbers, direction))

    forwards, backwards = slopes(numbers)
    np.testing.assert_allclose(forwards, backwards, rtol=1e-11)
    np.testing.assert_allclose(forwards, (at(1e-5) - at(-1e-5)) / 2e-5, rtol=1e-7)
    assert abs(forwards) > 0.01


class Outlines(gd.swimmers.AbstractFluidLinks):
    """Two links whose boundaries are Fourier series, at the distance r from each other."""

    series: jax.Array = eqx.field(converter=jnp.asarray)  # [L, (x, y), (cosines, sines), harmonics 0, 1, 2]
    group: gd.groups.SE2 = gd.groups.SE2()
    density: float = 1.0
    body_density: float | None = None
    nodes: int = eqx.field(static=True, default=32)

    def links(self, r):
        return jnp.stack([jnp.zeros(3), jnp.stack([r[0], 0 * r[0], 0 * r[0]])])

    def boundary(self, s):
        k = jnp.arange(3)
        waves = jnp.stack([jnp.cos(k * s), jnp.sin(k * s)])
        return jnp.sum(self.series * waves[None, None], axis=(2, 3))


def oval(a, b):
    return [[[0.0, a, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, b, 0.0]]]


EIGHT = [[[0.0, 0.0, 0.0], [0.0, 0.5, 0.0]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.2]]]
SNAIL = [[[0.15, 0.2, 0.15], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 0.2, 0.15]]]
BALL = oval(0.3, 0.3)


@pytest.mark.long
def test_outlines_of_ones_own():
    """Two bodies that are pushed apart: the kinetic energy by hand, from the masses of the pair."""
    body, r = Outlines([oval(0.5, 0.2), BALL], density=1.3, body_density=2.0), jnp.array([1.0])
    own = np.pi * np.diag([0.1, 0.1, 0.0, 0.09, 0.09, 0.0])  # The areas: nothing turns.
    mass = 1.3 * masses(body.boundary, body.links(r)) + 2.0 * own
    mass = (mass + mass.T) / 2
    velocity = np.array([0.3, 0.0, 0.0, 0.3 + 0.7, 0.0, 0.0])
    energy = body.kinetic_energy(r, jnp.array([0.3, 0.0, 0.0]), jnp.array([0.7]))
    np.testing.assert_allclose(energy, velocity @ mass @ velocity / 2, rtol=1e-12)
    along = mass[0, 3] + mass[3, 3]
    np.testing.assert_allclose(gd.connection(body, r)[0, 0], along / (along + mass[0, 0] + mass[3, 0]), rtol=1e-12)
    assert body.outline(r).shape == (2, 65, 2)


@pytest.mark.parametrize(
    "first, r, message",
    [
        (EIGHT, 1.5, "Outlines: the boundary of link 1 crosses itself"),
        (SNAIL, 1.5, "Outlines: the boundary of link 1 crosses itself"),
        (oval(0.5, 0.004), 1.5, "link 1 is not known well enough by 32 nodes: take more, such as 64"),
        (oval(0.5, 0.2), 0.6, r"at the shape \[0\.6\] links 1 and 2 overlap"),
        (oval(2.0, 2.0), 0.6, "links 1 and 2 overlap: keep to shapes where they do not"),
        (oval(0.1, 0.1), 0.1, "links 1 and 2 overlap: keep to shapes where they do not"),
        (oval(0.5, 0.2), 0.805, "links 1 and 2 are too close for 32 nodes: take more, such as 64"),
    ],
    ids=["eight", "snail", "needle", "overlap", "around", "inside", "close"],
)
def test_what_cannot_be_is_refused(first, r, message):
    with pytest.raises(ValueError, match=message):
        gd.connection(Outlines([first, BALL]), jnp.array([r]))


def test_links_and_boundaries_of_another_shape_are_named():
    class Single(Outlines):
        def boundary(self, s):
            return super().boundary(s)[0]

    class Pointless(Outlines):
        def links(self, r):
            return jnp.zeros((2, 2))

    with pytest.raises(ValueError, match=r"Single.boundary must return a point of each link, the shape \(2, 2\); got"):
        gd.connection(Single([BALL, BALL]), jnp.array([1.0]))
    with pytest.raises(ValueError, match=r"Pointless.links must return \(x, y, angle\) of each link"):
        gd.connection(Pointless([BALL, BALL]), jnp.array([1.0]))


def test_slender_links_that_cross_between_their_nodes_are_refused():
    with pytest.raises(ValueError, match="links 1 and 2 overlap"):
        gd.connection(Outlines([oval(1.0, 0.03), oval(0.03, 1.0)]), jnp.array([0.05]))


def test_shapes_that_cannot_be_have_nan_inside_jit():
    """In the form and its derivatives."""
    fish = gd.swimmers.FluidLinks(interaction=True, gap=0.05, nodes=16)

    def form_and_slope(r):
        return jax.jvp(lambda r: gd.connection(fish, r), (r,), (jnp.ones(2),))

    form, slope = jax.jit(form_and_slope)(jnp.array([3.0, 0.0]))
    assert np.all(np.isnan(form)) and np.all(np.isnan(slope))


def test_numbers_that_are_refused():
    with pytest.raises(ValueError, match=r"gap must be positive, such as 0\.05, got 0"):
        gd.swimmers.FluidLinks(interaction=True)
    with pytest.raises(ValueError, match=r"gap must be from 0 to less than half of each link, 0\.4; got 0\.4"):
        gd.swimmers.FluidLinks((1.0, 0.8), gap=0.4)
    with pytest.raises(ValueError, match="nodes must be at least 8, got 4"):
        gd.swimmers.FluidLinks(interaction=True, gap=0.05, nodes=4)


def test_a_gap_makes_ellipses_shorter_that_are_alone_too():
    fish = gd.swimmers.FluidLinks((1.0, 0.8), 0.2, gap=0.1)
    np.testing.assert_allclose(
        fish.inertias[0, :2], np.pi * np.array([0.04 * 0.16 * 5 + 0.0064, 0.032 + 0.16]), rtol=1e-12
    )
