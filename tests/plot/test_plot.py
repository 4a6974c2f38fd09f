"""Pictures: the right model for each space, edges that are geodesics, curves that show what was computed."""

from itertools import combinations
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from matplotlib import colors
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image

import geodyn as gd
from geodyn._plot.pages.player import _axes, _knots
from geodyn._plot.scene import models, scene
from geodyn._plot.space.animation import film

matplotlib.use("Agg")


def torus(x):
    return jnp.stack([(2 + jnp.cos(x[0])) * jnp.cos(x[1]), (2 + jnp.cos(x[0])) * jnp.sin(x[1]), jnp.sin(x[0])])


H2, H3, S2, S3 = gd.spaces.Hyperbolic(2), gd.spaces.Hyperbolic(3), gd.spaces.Sphere(2), gd.spaces.Sphere(3)
E1, E3 = gd.spaces.Euclidean(1), gd.spaces.Euclidean(3, "polar")
CYLINDER, TORUS = gd.spaces.Product(H2, E1), gd.spaces.Embedded(torus, 3, 2)
ZOO = {
    "E3": (E3, "cartesian", {"coordinates"}),
    "H2": (H2, "ball", {"half-space", "coordinates"}),
    "H3": (H3, "ball", {"half-space", "coordinates"}),
    "S2": (S2, "sphere", {"stereographic", "coordinates"}),
    "S3": (S3, "stereographic", {"coordinates"}),
    "H2×E": (CYLINDER, "cylinder", {"coordinates"}),
    "E×S2": (gd.spaces.Product(E1, S2), "cylinder", {"coordinates"}),
    "SL2": (gd.spaces.SL2(), "cylinder", {"coordinates"}),
    "torus": (TORUS, "surface", {"coordinates"}),
    "sphere in H3": (gd.spaces.Embedded(lambda x: 0.4 * S2.embed(x), H3, 2), "surface", {"coordinates"}),
    "any metric": (gd.Manifold(lambda x: jnp.diag(1 + x**2), 3), "coordinates", set()),
}


def still(space, masses=(1.0, 8.0), steps=4):
    """A motion that is cheap to compute: in straight lines of the chart."""
    q0, v0 = jnp.full((2, space.dim), 0.3), 0.1 * jnp.array([[1.0, 0.5, 0.2], [-1.0, -0.5, -0.2]])[:, : space.dim]
    flat = gd.System(gd.spaces.Euclidean(space.dim), masses)
    straight = gd.integrate(flat, q0.at[0].add(0.2), v0, t1=2.0, steps=steps)
    return straight.with_system(gd.System(space, masses, gd.Spring([(0, 1)], 1.0, 0.5)))


@pytest.fixture(scope="module")
def rigid():
    """A rigid rod in H²."""
    system, q0 = gd.builders.rod(H2, 1.0, masses=(1.0, 2.0), stiffness=None)
    q0, v0 = gd.project(system, q0, jnp.array([[0.3, 0.1], [0.1, -0.2]]))
    return gd.integrate(system, q0, v0, t1=1.0, steps=20)


def axes(space, model=None):
    return gd.plot.figure(4, 4).add_subplot(projection=gd.plot.projection(space, model))


@pytest.mark.parametrize("name", ZOO)
def test_models(name):
    """The default and every model that fits draw; any other is refused with the names of those that fit."""
    space, default, others = ZOO[name]
    x = np.full((3, space.dim), 0.3) + 0.1 * np.eye(3, space.dim)
    assert models.model_of(space, None, x).title == models.model_of(space, default, x).title
    for model in {default} | others:
        drawn = models.model_of(space, model, x)
        points, lines = models.places_of(drawn.place, x), drawn.backdrop(x)
        assert points.shape in ((3, 2), (3, 3)) and np.isfinite(points).all()
        assert all(line.shape[1] == points.shape[1] and np.isfinite(line).all() for line in lines)
        assert gd.plot.projection(space, model) == ("3d" if points.shape[1] == 3 else None)
    for model in set(models.MODELS) - {default} - others:
        with pytest.raises(ValueError, match=f"{model!r} does not fit.*{default!r}"):
            models.model_of(space, model, x)


def test_models_show_what_they_say():
    """Against closed forms: measured 3e-16."""
    x = np.array([[0.1, -0.2, 0.3], [0.4, 0.2, 0.1]])

    def place(space, name, x=x):
        return models.places_of(models.model_of(space, name, x).place, x)

    np.testing.assert_allclose(place(H3, "ball"), x, atol=1e-15)
    # Near the origin the farthest pole is that of the chart; projected from the opposite one |x| would be 1/|x|.
    np.testing.assert_allclose(place(S3, "stereographic"), x, atol=1e-15)
    np.testing.assert_allclose(place(gd.spaces.Hyperbolic(3, "halfspace"), "half-space", x + 1), x + 1, atol=1e-14)
    a, b, g = x.T
    polar = np.stack([a * np.sin(b) * np.cos(g), a * np.sin(b) * np.sin(g), a * np.cos(b)], axis=1)
    np.testing.assert_allclose(place(E3, None), polar, atol=1e-15)
    np.testing.assert_allclose(place(CYLINDER, None), x, atol=1e-15)
    np.testing.assert_allclose(place(TORUS, None, x[:, :2]), jax.vmap(torus)(x[:, :2]), atol=1e-15)
    # Inversion in the boundary's sphere: heights of the half-space are (1 − |x|²)/|x − e₃|² of the ball.
    height = (1 - (x**2).sum(axis=1)) / ((x - [0, 0, 1]) ** 2).sum(axis=1)
    np.testing.assert_allclose(place(H3, "half-space")[:, 2], height, rtol=1e-14)
    assert models.model_of(H3, "half-space").labels[2] == "height"


def test_stereographic_projection_is_from_afar():
    """A motion on a great sphere of S³ is drawn on the unit sphere, wherever it goes; angles are kept."""
    angle = np.linspace(0, 2 * np.pi, 40)
    X = np.stack([np.sin(angle), 0.3 * np.cos(2 * angle), 0 * angle, np.cos(angle)], axis=1)
    x = np.asarray(jax.vmap(S3.coordinates)(X / np.linalg.norm(X, axis=1, keepdims=True)))
    model = models.model_of(S3, "stereographic", x)
    # Measured 2e-16; from the chart's own pole the points would reach a radius of 7.
    np.testing.assert_allclose(np.linalg.norm(models.places_of(model.place, x), axis=1), 1, atol=1e-14)
    assert "X_{3}" in model.title
    J, g = jax.jacfwd(model.place)(jnp.asarray(x[5])), S3.metric(jnp.asarray(x[5]))
    scale = jnp.trace(J.T @ J) / jnp.trace(g)
    np.testing.assert_allclose(J.T @ J, scale * g, atol=1e-14)


@pytest.mark.long
@pytest.mark.parametrize("name", ["H2", "S3", "H2×E", "torus"])
def test_edges_are_geodesics(name):
    """Equally spaced: each eighth is an eighth of the distance. Measured 3e-15 where the space has closed forms, 7e-11
    on the torus (Gauss 2, 32 steps); a chord of the chart misses by 0.2 to 0.6, and by 0.02 on the torus."""
    space = ZOO[name][0]
    trajectory = still(space)
    drawn = scene.scene(trajectory, lambda x: jnp.pad(x, (0, 3 - space.dim)), None)
    curve = jnp.asarray(drawn.geodesics([2])[0, 0, :, : space.dim])
    np.testing.assert_allclose(curve[jnp.array([0, -1])], trajectory.q[2], atol=1e-9)
    parts = jax.vmap(lambda x, y: gd.distance(space, x, y))(curve[:-1:4], curve[4::4])
    whole = gd.distance(space, *trajectory.q[2])
    np.testing.assert_allclose(parts, whole / 8, rtol=1e-8 if name == "torus" else 1e-12)


def test_pictures_of_a_body():
    """Each picture takes an Axes and gives it back; masses show as volumes; earlier states are paler."""
    trajectory = still(H3)
    for draw in (gd.plot.trajectory, gd.plot.body):
        for model in ("ball", "half-space", lambda x: 2 * x):
            ax = axes(H3, model)
            assert (draw(trajectory, ax=ax, model=model)) is ax
    ax = gd.plot.body(trajectory, [0.0, 2.0], axes(H3))
    light, heavy = ax.lines[2:4]
    assert (heavy.get_markersize() / light.get_markersize()) ** 3 == pytest.approx(8)
    pale = np.mean(colors.to_rgb(ax.lines[0].get_color()))
    assert pale > np.mean(colors.to_rgb(light.get_color())) + 0.1
    np.testing.assert_allclose(np.ravel(light.get_data_3d()), trajectory.q[-1, 0], atol=1e-15)
    for time, frame in ((1.2, 2), (1.4, 3)):
        nearest = gd.plot.body(trajectory, time, axes(H3)).lines[0]
        np.testing.assert_allclose(np.ravel(nearest.get_data_3d()), trajectory.q[frame, 0], atol=1e-15)
    space_first = gd.plot.path(H3, trajectory, axes(H3), edges=[(0, 1)], bodies=3)
    assert space_first.get_title() == "Poincaré ball"


@pytest.mark.long
def test_rods_are_heavier_than_springs(rigid):
    widths = [
        max(part.get_linewidths()[0] for part in gd.plot.body(motion, 0.0, axes(space)).collections)
        for motion, space in ((rigid, H2), (still(H2), H2))
    ]
    assert widths[0] > widths[1]


def test_what_has_no_space_is_drawn_against_time():
    trajectory = gd.integrate(gd.Lagrangian(lambda q, v: v @ v / 2), [0.0, 1.0], [1.0, 0.0], t1=1.0, steps=4)
    ax = gd.plot.trajectory(trajectory, gd.plot.figure(4, 3).add_subplot())
    assert "time" in ax.get_xlabel() and len(ax.lines) == 2


@pytest.mark.long
def test_rigid_bodies_and_linkages_are_drawn():
    """Where their points are; the twelve edges of a box stand for it, a line for a body with one point on it."""
    box = gd.rigid.box([1.0, 0.6, 0.4])
    sites = [*((0, x) for x in box.vertices), (1, (0.0, 0.0, 2.0))]
    bodies = gd.rigid.RigidBodies([box.inertia(1.0)] * 2, [1.0, 1.0], points=sites)
    lines = scene.rigid_lines(bodies)
    lengths = [np.linalg.norm(bodies.sites[i] - bodies.sites[j]) for i, j in lines]
    np.testing.assert_allclose(np.sort(lengths), [0.4] * 4 + [0.6] * 4 + [1.0] * 4 + [2.0])
    q0, v0 = bodies.state(position=[[0.0, 0.0, 0.0], [3.0, 0.0, 0.0]], angular_velocity=[[0.3, 2.0, 0.5]] * 2)
    turning = jnp.stack([q0 + t * v0 for t in np.linspace(0.0, 0.2, 5)])
    moved = turning, jnp.broadcast_to(v0, (5, 2, 7))
    trajectory = eqx.tree_at(lambda t: (t.q, t.v), still(H2), moved).with_system(bodies)
    drawn = scene.scene(trajectory, None, None)
    np.testing.assert_allclose(drawn.points, gd.rigid.rigid_motion(trajectory).points, atol=1e-15)
    assert drawn.rigid.all() and drawn.edges.tolist() == [list(pair) for pair in lines]
    assert gd.plot.body(trajectory, ax=axes(E3)).name == "3d"
    with pytest.raises(ValueError, match=r"points of rigid bodies are gd.rigid.rigid_motion\(trajectory\).points"):
        print(trajectory.embedding)
    pendulum = gd.linkages.Linkage([(0, 1), (1, 2)], [1.0, 0.8], {0: (0.2, 0.1)}, gravity=1.0)
    swing = still(H2).with_system(pendulum)
    path = gd.plot.trajectory(swing, gd.plot.figure(2, 2).add_subplot())
    joints = np.array([line.get_xydata()[0] for line in path.lines[-3:]])
    np.testing.assert_allclose(joints, pendulum.joints(swing.q[-1]), atol=1e-15)
    rods = gd.plot.separation(swing, ax=gd.plot.figure(2, 2).add_subplot()).lines
    apart = np.linalg.norm(np.asarray(swing.q)[:, 0] - [0.2, 0.1], axis=1)
    np.testing.assert_allclose(rods[0].get_ydata(), apart, atol=1e-15)


def test_files_and_failures_are_drawn(tmp_path):
    """Of a file, with its system given; of a failed run, what was computed."""
    trajectory = still(H2)
    trajectory.save(tmp_path / "a.npz")
    loaded = gd.load(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="read from a file: give its body as system="):
        gd.plot.body(loaded, ax=axes(H2))
    gd.plot.body(loaded, ax=axes(H2), system=trajectory.system)
    failed = eqx.tree_at(lambda t: t.q, trajectory, trajectory.q.at[3:].set(jnp.nan))
    gd.plot.trajectory(failed, axes(H2))
    with pytest.raises(ValueError, match=r"times must lie within the trajectory, \[0, 1\]"):
        gd.plot.body(failed, 1.5, axes(H2))


REFUSED = {
    "flat axes": (lambda t: gd.plot.body(t, ax=gd.plot.figure(2, 2).add_subplot()), "projection='3d'"),
    "batch": (lambda t: gd.plot.body(jax.tree.map(lambda x: x[None], t)), r"Of a batch take one member"),
    "film": (lambda t: gd.plot.animate(t, "film.avi"), r"path must end in .mp4 or .gif, got 'film.avi'"),
    "no multipliers": (gd.plot.multipliers, "no multipliers"),
    "no constraints": (gd.plot.constraints, "no constraints"),
    "no edges": (lambda t: gd.plot.separation(t, []), "name pairs of points"),
    "four dimensions": (
        lambda t: gd.plot.body(t, model=lambda x: jnp.append(x, 0)),
        r"model must be a function x\[3\]",
    ),
}


@pytest.mark.parametrize("picture, message", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(picture, message):
    with pytest.raises(ValueError, match=message):
        picture(still(H3))


@pytest.mark.long
def test_separation(rigid):
    """The curve is the distance; by default of every edge."""
    ax = gd.plot.separation(rigid, None, gd.plot.figure(4, 3).add_subplot())
    # Measured 2e-16.
    np.testing.assert_allclose(ax.lines[0].get_ydata(), 1.0, atol=1e-14)
    assert ax.get_ylabel() == "geodesic separation (radii of curvature)" and ax.get_xlabel() == "time t"
    ax = gd.plot.separation(H2, rigid, [(0, 1), (1, 0)], gd.plot.figure(4, 3).add_subplot())
    assert len(ax.lines) == 2
    plane = gd.plot.separation(gd.spaces.Euclidean(2), rigid, [(0, 1)], gd.plot.figure(4, 3).add_subplot())
    assert plane.get_ylabel() == "geodesic separation"


def test_comparison_tells_the_largest_error():
    ax = gd.plot.comparison(np.arange(8.0), {"rod": (np.append(np.zeros(7), 2.0), np.zeros(8))})
    assert ax.get_legend().get_texts()[0].get_text() == "rod, error 2e+00"


def test_multipliers(rigid):
    ax = gd.plot.multipliers(rigid, gd.plot.figure(4, 3).add_subplot())
    zero, curve = ax.lines
    assert list(zero.get_ydata()) == [0.0, 0.0]
    np.testing.assert_array_equal(curve.get_ydata(), rigid.multipliers[:, 0])
    assert "(0, 1)" in ax.get_legend().get_texts()[0].get_text()


def test_constraints(rigid):
    """Residuals of positions and velocities; a rod with the wrong length is seen at once."""
    position, velocity, unit = gd.plot.constraints(rigid, gd.plot.figure(4, 3).add_subplot()).lines
    for line in (position, velocity):
        values = line.get_ydata()
        # Measured 2e-16 and 9e-17; what is exactly zero stays at the lower end of the axis, ε/100.
        assert np.max(values) < 1e-12 and np.min(values) >= np.finfo(float).eps / 100
    assert unit.get_ydata()[0] == np.finfo(float).eps
    wrong = rigid.with_system(eqx.tree_at(lambda system: system.elements[0].length, rigid.system, jnp.array([0.9])))
    ax = gd.plot.constraints(wrong, gd.plot.figure(4, 3).add_subplot())
    np.testing.assert_allclose(ax.lines[0].get_ydata(), 0.1, rtol=1e-9)
    assert ax.get_yscale() == "log"


def test_energy(rigid):
    ax = gd.plot.energy(rigid, gd.plot.figure(4, 3).add_subplot())
    drift, rounding = ax.lines
    energy = np.asarray(rigid.energy)
    level = np.finfo(float).eps * energy.max()
    np.testing.assert_allclose(drift.get_ydata(), np.maximum(np.abs(energy - energy[0])[1:], level / 100))
    assert rounding.get_ydata()[0] == pytest.approx(level)
    assert ax.get_yscale() == "log"


LINE, CONSERVED, WORKED_ON = gd.spaces.Euclidean(1), "log", "linear"
ENERGIES = {
    "spring": (CONSERVED, gd.System(LINE, [1.0], gd.Harmonic(1.0, [0.0]))),
    "pendulum": (CONSERVED, gd.hamilton.Hamiltonian(lambda q, p: p @ p / 2 - jnp.cos(q[0]))),
    "motor": (WORKED_ON, gd.Lagrangian(lambda q, v, t: v @ v / 2 - q @ q + q[0] * jnp.sin(t))),
    "linear in v": (WORKED_ON, gd.Lagrangian(lambda q, v, t: v @ v / 2 + jnp.sin(t) * v[0])),
    "driven H": (WORKED_ON, gd.hamilton.Hamiltonian(lambda q, p, t: p @ p / 2 + q[0] * t)),
    "drag": (WORKED_ON, gd.System(LINE, [1.0], gd.Drag(0.5))),
    "dry": (WORKED_ON, gd.System(LINE, [1.0], gd.friction.DryFriction([0.1]))),
    "elastic": (CONSERVED, gd.System(LINE, [1.0], gd.Wall(lambda x: x[0] + 9, restitution=1.0))),
    "inelastic": (WORKED_ON, gd.System(LINE, [1.0], gd.Wall(lambda x: x[0] + 9, restitution=0.5))),
    "unknown": (WORKED_ON, None),
}


@pytest.fixture(scope="module")
def swing():
    run = gd.integrate(ENERGIES["spring"][1], *jnp.ones((2, 1, 1)), t1=1.0, steps=4)
    return eqx.tree_at(lambda r: r.recorded_energy, run, run.energy, is_leaf=lambda x: x is None)


@pytest.mark.parametrize("scale, system", ENERGIES.values(), ids=ENERGIES)
def test_energy_that_is_not_conserved_is_shown_itself(swing, scale, system):
    run = swing.with_system(system)
    ax = gd.plot.energy(run, gd.plot.figure(4, 3).add_subplot(), labels=gd.plot.Labels((), "m", "s", "kg"))
    assert ax.get_yscale() == scale
    if scale == WORKED_ON:
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), run.energy)
        assert ax.get_ylabel() == "energy E(t) (kg m²/s²)"


def test_drift_is_an_envelope():
    """Of a thousand saved states the largest distance in each interval is drawn, and nothing far below rounding."""
    values = 1 + 1e-13 * np.random.default_rng(0).normal(size=1001)
    drift, _ = gd.plot.drift(np.arange(1001.0), {"x": values}, gd.plot.figure(4, 3).add_subplot()).lines
    t, drawn = drift.get_data()
    assert len(t) == 200 and t[0] == 1 and t[-1] == 1000
    for low, high, top in zip(t[::2], t[1::2], drawn[::2]):
        assert top == np.abs(values - values[0])[int(low) : int(high) + 1].max()


def test_a_body_at_rest_does_not_fill_the_panels():
    """Its rounding errors are a flat line, in every panel."""
    noise = 1e-19 * np.random.default_rng(0).normal(size=(101, 1))
    rest = gd.integrate(gd.Lagrangian(lambda q, v: v @ v / 2 - q @ q), jnp.array([0.0]), t1=1.0, steps=100)
    shaken = eqx.tree_at(lambda r: r.q, rest, jnp.asarray(noise))
    low, high = gd.plot.coordinates(shaken, gd.plot.figure(4, 3).add_subplot()).get_ylim()
    assert high - low >= 0.5
    drift, unit = gd.plot.drift(np.arange(101.0), {"p": noise}, gd.plot.figure(4, 3).add_subplot()).lines
    assert unit.get_ydata()[0] == np.finfo(float).eps
    assert np.ptp(drift.get_ydata()) == 0
    # What is constant but not zero keeps its value in view, and what moves fills the Axes.
    low, high = gd.plot.coordinates(eqx.tree_at(lambda r: r.q, rest, 3 + 0 * shaken.q)).get_ylim()
    assert low < 3 < high
    moving = eqx.tree_at(lambda r: r.q, rest, jnp.linspace(5.0, 5.1, 101)[:, None])
    low, high = gd.plot.coordinates(moving).get_ylim()
    assert high - low < 0.2


def test_labels_name_coordinates_and_units(rigid):
    labels = gd.plot.Labels(("r", "φ"), "m", "s", "kg")
    ax = gd.plot.coordinates(rigid, labels=labels)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["r, point 0", "φ, point 0", "r, point 1", "φ, point 1"] and ax.get_xlabel() == "time t (s)"
    assert gd.plot.energy(rigid, labels=labels).get_ylabel() == "|E(t) − E(0)| (kg m²/s²)"
    assert gd.plot.multipliers(rigid, labels=labels).get_ylabel() == "multiplier λ (kg m/s²)"
    ax = gd.plot.trajectory(rigid, model="coordinates", labels=labels)
    assert ax.get_xlabel() == "r" and ax.get_ylabel() == "φ"
    flat = gd.System(gd.spaces.Euclidean(2), [1.0])
    flown = gd.integrate(flat, jnp.zeros((1, 2)), jnp.ones((1, 2)), t1=1.0, steps=4)
    assert gd.plot.trajectory(flown, labels=labels._replace(coordinates=())).get_xlabel() == "$x_1$ (m)"


def test_a_batch_is_refused_with_the_remedy():
    """A picture is of one motion; that which is taken out of the batch, as the error says, is drawn."""
    body = gd.System(gd.spaces.Euclidean(2), [1.0])
    batch = jax.vmap(lambda v: gd.integrate(body, [[0.0, 0.0]], v[None], t1=1.0, steps=4))(jnp.eye(2))
    for picture in (gd.plot.coordinates, gd.plot.energy, gd.plot.multipliers, gd.plot.constraints, gd.plot.trajectory):
        with pytest.raises(ValueError, match=r"batch.*jax\.tree\.map"):
            picture(batch)
    one = jax.tree.map(lambda x: x[1], batch)
    (line, _) = gd.plot.coordinates(one, axes(S2, "stereographic")).lines
    assert len(gd.plot.trajectory(one).lines) and np.allclose(line.get_ydata(), 0)
    assert gd.plot.fan(np.asarray(batch.t), np.asarray(batch.q[:, :, 0, 0]), name="x").get_ylabel() == "x"


def test_what_is_left_out_is_said():
    t, sizes = np.linspace(0.0, 1.0, 3), np.arange(201.0)
    for count, said in ((200, ""), (201, "200 of 201 members")):
        drawn = gd.plot.fan(np.tile(t, (count, 1)), sizes[:count, None] * t, parameter=sizes[:count])
        assert drawn.get_title(loc="left") == said
    drawn = gd.plot.heatmap(t, t, np.outer(t, t), names=("mass", "speed"))
    assert (drawn.get_xlabel(), drawn.get_ylabel()) == ("mass", "speed")


def test_a_page_says_zero_where_rounding_is_left():
    """It said "x3: -6.94e-17 … 0.256"."""
    points = np.array([[0.0, 1.0, -6.94e-17], [2.0, 3.0, 0.256]])
    labels = [axis["label"] for axis in _axes(["$x_1$", "$x_2$", "$x_3$"], points, points[0], 1.0)]
    assert labels == ["x1: 0 … 2", "x2: 1 … 3", "x3: 0 … 0.256"]


def test_no_work_is_zero():
    """To and fro on a line: what is left is rounding, and the legend says 0."""
    x = np.sin(np.linspace(0, 2 * np.pi, 201))
    ax = gd.plot.hysteresis(0.3 * x, x, gd.plot.figure(4, 3).add_subplot())
    assert ax.get_legend().get_texts()[0].get_text() == "work done 0"


def test_legends_cover_nothing(rigid):
    ax = gd.plot.coordinates(rigid, gd.plot.figure(4, 3).add_subplot())
    ax.figure.canvas.draw()
    assert ax.get_legend().get_window_extent().y0 >= ax.get_window_extent().y1


def test_spheres_have_their_radii_and_impacts_are_marked():
    plane, radii = gd.spaces.Euclidean(2), [0.1, 0.3]
    discs = gd.System(plane, [1.0, 1.0], gd.Contact(radii, restitution=1.0))
    q0, v0 = jnp.array([[0.0, 0.0], [1.0, 0.0]]), jnp.array([[1.0, 0.0], [0.0, 0.0]])
    hit = gd.integrate(discs, q0, v0, t1=1.3, steps=13)
    ax = gd.plot.body(hit, [0.0], gd.plot.figure(4, 4).add_subplot())
    for disc, radius in zip(ax.patches, radii, strict=True):
        assert np.ptp(disc.get_path().vertices[:, 0]) == pytest.approx(2 * radius, rel=1e-3)
    ax = gd.plot.trajectory(hit, gd.plot.figure(4, 4).add_subplot())
    (mark,) = [line for line in ax.lines if line.get_label() == "impacts"]
    # At the impact the centres are at 0.6 and 1; the mark is in the middle of these.
    np.testing.assert_allclose(mark.get_xydata(), [[0.8, 0.0]], atol=1e-6)
    (times,) = [line for line in gd.plot.energy(hit).lines if line.get_label() == "impacts"]
    np.testing.assert_allclose(times.get_xdata(), [0.6], atol=1e-12)


@pytest.mark.parametrize("direction", [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
def test_numbers_of_flat_motions_do_not_lie_on_each_other(direction):
    """Of motions in a plane and along a line in space, in a narrow figure: the numbers of an axis stand apart, and all
    names and numbers are within the figure."""
    angle = np.linspace(0, 2 * np.pi, 33)[:, None]
    circle = np.cos(angle) * np.eye(3)[0] + np.sin(angle) * np.array(direction)
    points = circle[:, None] * np.array([[1.0], [0.9]])
    run = eqx.tree_at(lambda r: (r.t, r.q), still(gd.spaces.Euclidean(3)), (jnp.array(angle[:, 0]), jnp.array(points)))
    ax = gd.plot.trajectory(run, gd.plot.figure(3.4, 2.7).add_subplot(projection="3d"))
    ax.figure.draw_without_rendering()
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        numbers = [tick.label1.get_window_extent() for tick in axis.get_major_ticks() if tick.label1.get_visible()]
        name = axis.label.get_window_extent()
        for one, other in combinations([box for box in numbers if box.width], 2):
            assert Bbox.intersection(one, other) is None
        assert ax.figure.bbox.containsx(name.x0) and ax.figure.bbox.containsx(name.x1)


def test_a_surface_is_drawn_as_it_lies():
    """A metric whose embedding is known is a surface in pictures, and the two are compared."""

    def torus(x):
        return jnp.diag(jnp.stack([jnp.ones(()), (2.0 + jnp.cos(x[0])) ** 2]))

    def embedding(x):
        r = 2.0 + jnp.cos(x[0])
        return jnp.stack([r * jnp.cos(x[1]), r * jnp.sin(x[1]), jnp.sin(x[0])])

    space = gd.Manifold(torus, 2, period=(2 * np.pi, 2 * np.pi), embedding=embedding)
    gd.check_manifold(space, [0.3, 0.2])
    drawn = models.model_of(space, None)
    np.testing.assert_allclose(drawn.place(jnp.array([0.0, np.pi / 2])), [0.0, 3.0, 0.0], atol=1e-12)
    assert gd.plot.projection(space) == "3d"
    wrong = gd.Manifold(torus, 2, embedding=lambda x: 2 * embedding(x))
    with pytest.raises(ValueError, match="embedding does not fit the metric"):
        gd.check_manifold(wrong, [0.3, 0.2])
    with pytest.raises(ValueError, match=r"embedding must map x of shape \(2,\) to a floating-point array"):
        gd.Manifold(torus, 2, embedding=lambda x: x[0])


def test_animations(tmp_path, monkeypatch):
    """A film of a few frames, moving; inline in a notebook; a clear error without ffmpeg."""
    from matplotlib import animation
    from PIL import Image

    trajectory = still(H2)
    gd.plot.animate(trajectory, tmp_path / "a.gif", seconds=0.4, fps=10)
    with Image.open(tmp_path / "a.gif") as film:
        assert film.n_frames == 4
        first = np.array(film.convert("L"), float)
        film.seek(3)
        assert np.abs(np.array(film.convert("L"), float) - first).max() > 50
    inline = gd.plot.animate(trajectory, seconds=0.2, fps=10)._repr_html_()
    assert inline.count("data:image/png") == 2
    monkeypatch.setattr(animation.FFMpegWriter, "isAvailable", classmethod(lambda cls: False))
    with pytest.raises(ValueError, match=r"needs ffmpeg.*apt install ffmpeg.*\.gif"):
        gd.plot.animate(trajectory, tmp_path / "a.mp4")


# Machado, Oliveira & Fernandes (2009): what protanopes, deuteranopes and tritanopes see, in linear RGB.
SEEN = [
    np.eye(3),
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
]


def test_few_points_keep_their_colours_in_a_film(tmp_path):
    """A colour bar has few of the points of a picture, and every shade of it is near one of the palette of a .gif."""
    figure = Figure(figsize=(6, 4))
    ax, bar = figure.add_axes([0.05, 0.1, 0.8, 0.8]), figure.add_axes([0.92, 0.1, 0.04, 0.8])
    ax.imshow(np.linspace(0.5, 1.0, 400)[None], cmap="RdBu_r", vmin=0, vmax=1, aspect="auto")
    bar.imshow(np.linspace(0.0, 1.0, 256)[:, None], cmap="RdBu_r", aspect="auto", origin="lower")
    film(figure, lambda k: ax.plot([0, 400], [0, 0.1 * k]), 2, str(tmp_path / "bar.gif"), 5)
    with Image.open(tmp_path / "bar.gif") as gif:
        whole = np.asarray(gif.convert("RGB"), float)
        assert np.all(whole[0] == 255)
        pixels = whole[:, int(0.94 * 600)]
    shown = pixels[45:355][::-1]
    wanted = 255 * matplotlib.colormaps["RdBu_r"](np.linspace(0, 1, 310))[:, :3]
    assert np.abs(shown - wanted).max() < 20


@pytest.mark.parametrize("seen", SEEN)
def test_colours_survive_colour_blindness(seen):
    """Any two at least 24 apart in CIELAB (measured 24.8); a blue beside a violet of the same lightness is 5 apart."""
    rgb = np.array([colors.to_rgb(colour) for colour in gd.plot.COLOURS])
    linear = np.clip(np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ np.transpose(seen), 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = linear @ to_xyz.T / [0.9505, 1.0, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    lab = np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)
    apart = np.linalg.norm(lab[:, None] - lab[None], axis=2)[np.triu_indices(len(lab), 1)]
    assert apart.min() > 24


@pytest.mark.long
def test_periodic_coordinates_do_not_tear_a_body():
    """Points of a flat torus that start periods away from what they are joined to are drawn beside it, where the edges
    lead; across the edge of the chart paths go on."""
    space = gd.Manifold(lambda x: jnp.eye(2), 2, period=(1.0, 1.0))
    chain = gd.System(space, [1.0, 1.0, 1.0, 1.0], gd.Spring([(2, 3), (0, 1), (1, 2)], 1.0, 0.2))
    straight = gd.System(gd.spaces.Euclidean(2), [1.0, 1.0, 1.0, 1.0])
    q0, v0 = jnp.array([[0.9, 0.1], [0.1, 1.9], [0.3, -0.2], [2.4, 0.7]]), jnp.tile(jnp.array([1.0, 0.5]), (4, 1))
    free = gd.integrate(straight, q0, v0, t1=2.0, steps=10)
    drawn = scene.scene(free.with_system(chain), None, None)
    edges = drawn.geodesics(np.array([0, 10]))
    for end, side in ((0, 0), (-1, 1)):
        np.testing.assert_allclose(edges[:, :, end], drawn.points[[0, 10]][:, drawn.edges[:, side]], atol=1e-12)
    assert np.abs(np.diff(drawn.points, axis=0)).max() < 0.3


class FlatTorus(gd.AbstractManifold):
    """Two of three coordinates come round."""

    dim: int = eqx.field(static=True, default=3)
    period: ClassVar[tuple] = (1.0, None, 1.0)

    def metric(self, x):
        return jnp.eye(3)

    def squared_distance(self, x, y):
        return jnp.sum((x - y) ** 2)


def test_points_that_wind_differently_have_half_an_edge_each():
    """Towards an image of the other, straight in a flat torus; in an embedding, where images are one, it is whole."""
    straight = gd.System(gd.spaces.Euclidean(3), [1.0, 1.0])
    q0, v0 = jnp.array([[0.1, 0.1, 0.0], [0.3, 0.2, 0.1]]), jnp.array([[0.0, 0.0, 0.0], [0.9, 0.3, 0.0]])
    free = gd.integrate(straight, q0, v0, t1=1.0, steps=1)
    body = gd.System(FlatTorus(), [1.0, 1.0], gd.Spring([(0, 1)], 1.0, 0.2))
    known = free.with_system(body)
    drawn = scene.scene(known, None, None)
    whole, halves = drawn.geodesics(np.array([0, 1]))[:, 0]
    assert np.isfinite(whole).all() and np.flatnonzero(np.isnan(halves).any(axis=1)).tolist() == [16]
    np.testing.assert_allclose(halves[[0, -1]], drawn.points[1], atol=1e-12)
    steps = np.delete(np.diff(np.delete(halves, 16, 0), axis=0), 15, 0)
    np.testing.assert_allclose(steps, [np.array([0.1, 0.4, 0.1]) / 32] * 30, atol=1e-12)
    around = scene.scene(known, lambda x: jnp.stack([jnp.cos(2 * np.pi * x[0]), jnp.sin(2 * np.pi * x[0]), x[1]]), None)
    assert np.abs(np.diff(around.geodesics(np.array([1]))[0, 0], axis=0)).max() < 0.05
    gd.plot.body(known).figure.canvas.draw()
    assert len(_knots(drawn)) == 31  # The player needs all of them.


@pytest.mark.parametrize("space", [pytest.param(S2, marks=pytest.mark.long), H3], ids=["S2", "H3"])
def test_edges_in_the_colours_of_their_strain(space):
    """Of a body of which two points stay at their distance: the other edges are stretched by what their ends are
    further apart."""
    body = gd.System(space, [1.0, 1.0, 1.0], gd.Spring([(0, 1), (1, 2)], 1.0, 0.5))
    q0 = jnp.zeros((3, space.dim)).at[1, 0].set(0.2).at[2, 1].set(0.2)
    q = jnp.stack([q0, q0.at[2, 1].set(0.3)])
    motion = gd.integrate(body, q0, t1=1.0, steps=1)
    moved = eqx.tree_at(lambda motion: motion.q, motion, q)
    ax = gd.plot.strain(moved, 1.0)
    values = ax.collections[-1].get_array()
    wanted = gd.distance(space, q[1, 1], q[1, 2]) / gd.distance(space, q0[1], q0[2]) - 1
    np.testing.assert_allclose(values, [0, wanted], atol=1e-15)
    assert ax.collections[-1].get_clim() == pytest.approx((-wanted, wanted))
    assert len(gd.plot.strain(moved).collections[-1].get_array()) == 2 * 7


def test_strain_needs_edges():
    free = gd.integrate(gd.System(S2, [1.0, 1.0]), [[0.1, 0.0], [0.2, 0.0]], t1=1.0, steps=1)
    with pytest.raises(ValueError, match="this body has none: give it springs or rods"):
        gd.plot.strain(free)
    short = gd.System(S2, [1.0, 1.0], gd.Spring([(0, 1)], 1.0, 0.0))
    motion = gd.integrate(short, [[0.1, 0.0], [0.1, 0.0]], [[0.0, 0.0], [0.0, 0.3]], t1=1.0, steps=2)
    with pytest.raises(ValueError, match=r"the strain of the edge between points \(0, 1\) is relative to its length"):
        gd.plot.strain(motion)


def test_sl2_is_drawn_as_it_turns():
    """The rotation about the axis is a rotation of the picture; horizontal geodesics from the axis lie flat in it."""
    space = gd.spaces.SL2()
    place = models.model_of(space, None).place
    x = jnp.array([0.3, 0.7, -0.4])
    y, moved = jax.jvp(place, (x,), (space.killing_fields(x)[3],))
    np.testing.assert_allclose([y[:2] @ moved[:2], moved[2]], 0, atol=1e-15)
    assert float(moved[0] * y[1] - moved[1] * y[0]) ** 2 == pytest.approx(float(y[:2] @ y[:2]) ** 2)
    axis = jnp.array([0.0, 1.0, 0.2])
    for along in ([0.6, 0.8, -0.6], [0.0, 1.0, 0.0]):
        flat = jax.vmap(place)(gd.geodesic(space, axis, along, [0.0, 0.7, 1.5])[0])[:, 2]
        np.testing.assert_allclose(flat, 0.2, atol=1e-12)
