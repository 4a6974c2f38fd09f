"""Pictures of swimmers: what is drawn is what was computed, for every body that says how it looks."""

from itertools import combinations, pairwise

import equinox as eqx
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.transforms import Bbox

import geodyn as gd
from geodyn import swimmers

matplotlib.use("Agg")

PURCELL, CIRCLE = swimmers.Purcell(), gd.FourierStroke.circle(1.0)


def ax():
    return gd.plot.figure(4, 4).add_subplot()


def lines(drawn):
    return [np.stack(c.get_segments()) for c in drawn.collections if isinstance(c, LineCollection)]


ZOO = {
    "Purcell": (PURCELL, jnp.array([0.4, -0.9]), 3.0),
    "NLink": (swimmers.NLink([1.0, 0.7, 1.1, 0.9]), jnp.array([0.3, -0.5, 0.8]), 3.7),
    "SymmetricPurcell": (swimmers.SymmetricPurcell(1.0, 1.3), jnp.array([0.7, 1.1]), 5.3),
    "Serpenoid": (swimmers.Serpenoid(2.0), jnp.array([2.0, 1.5]), 2.0),
    "PushMePullYou": (swimmers.PushMePullYou(), jnp.array([7.0, 4 * np.pi / 3]), 4 * np.pi),
    "ThreeSphere": (swimmers.ThreeSphere((1.0, 0.8, 1.2)), jnp.array([6.0, 8.0]), 6 * np.pi),
    "FloatingLinks": (swimmers.FloatingLinks((1.0, 0.8, 1.2)), jnp.array([0.4, -0.9]), 3.0),
    "KinematicSnake": (swimmers.KinematicSnake((1.0, 0.8, 1.2)), jnp.array([0.4, -0.9]), 3.0 + 3 * 3.0 / 4),
    "KinematicCar": (swimmers.KinematicCar(1.3), jnp.array([0.4, -0.9]), 1.3 + 6 * 1.3 / 2),
    "RollingDisc": (swimmers.RollingDisc(0.7), jnp.array([0.4, -0.9]), 2.4 * 0.7),
    "PendulumRaft": (
        swimmers.PendulumRaft(raft=2.0, inertia=3.0, length=1.2),
        jnp.array([0.5, -0.9]),
        4 * 3.0 + 1.2 * np.sin(0.5) + np.pi * 1.2 / 6,
    ),
    "Beanie": (swimmers.Beanie((1.3, 0.4)), jnp.array([0.4]), np.sqrt(1.3) + np.sqrt(0.4)),
}


@pytest.mark.parametrize("swimmer, r, length", ZOO.values(), ids=ZOO)
def test_outlines(swimmer, r, length):
    """The length of what is drawn: of links, of a body that bends, around spheres (61 points: 5e-4 less)."""
    drawn = np.asarray(swimmer.outline(r))
    assert drawn.ndim == 3 and drawn.shape[2] == 2
    np.testing.assert_allclose(np.linalg.norm(np.diff(drawn, axis=1), axis=2).sum(), length, rtol=1e-3)


@pytest.mark.long
def test_curvature_of_a_pair():
    """Of the variables that are named, the others held: the value in a corner of the picture, and white where spheres
    overlap."""
    swimmer, at = swimmers.NLink([1.0, 0.7, 1.1, 0.9]), (0.0, 0.5, 0.0)
    drawn = gd.plot.curvature(swimmer, 1, (-1.0, -0.5), (1.0, 0.5), ax(), variables=(0, 2), at=at)
    mesh = drawn.collections[0].get_array().reshape(81, 81)
    flux = gd.curvature(swimmer, jnp.array([1.0, 0.5, -0.5]))[1, 0, 2]
    np.testing.assert_allclose(mesh[0, -1], flux, rtol=1e-12)
    assert drawn.get_xlabel() == "hinge angle 1 (rad)" and drawn.get_ylabel() == "hinge angle 3 (rad)"
    white = gd.plot.curvature(swimmers.ThreeSphere(), 0, (1.0, 1.0), (6.0, 6.0), ax()).collections[0].get_array()
    assert list(np.ma.getmaskarray(white).ravel()[[0, -1]]) == [True, False]
    with pytest.raises(ValueError, match=r"variables must be two different ones of 2, got \(0, 2\): give at="):
        gd.plot.curvature(swimmer, 1, (-1.0, -0.5), (1.0, 0.5), ax(), variables=(0, 2))


@pytest.mark.long
def test_rounding_is_no_curvature():
    """The cat turns about its spine only: the picture of another component is empty, not noise on its own scale."""
    cat = swimmers.FallingCat()
    mesh = [gd.plot.curvature(cat, k, (-1.0, -1.0), (1.0, 1.0), ax()).collections[0].get_array() for k in (0, 2)]
    assert not np.any(mesh[0]) and np.all(mesh[1])


@pytest.mark.long
def test_height_functions():
    """Every coordinate of the pose by its name, in the frame that is asked for, with the stroke on each."""
    low, high = (-1.0, -1.0), (1.0, 1.0)
    figure = gd.plot.height_functions(PURCELL, low, high, stroke=gd.FourierStroke.circle(0.5))
    panels, bars = figure.axes[:3], figure.axes[3:]
    assert [bar.get_ylabel() for bar in bars] == ["$F^{x}_{12}$", "$F^{y}_{12}$", "$F^{θ}_{12}$"]
    F = gd.curvature(PURCELL, jnp.array([1.0, 1.0]))[:, 0, 1]
    corners = [panel.collections[0].get_array().reshape(81, 81)[-1, -1] for panel in panels]
    np.testing.assert_allclose(corners, F, rtol=1e-12)
    assert all(panel.lines for panel in panels)
    other = gd.bundles.minimum_perturbation(PURCELL, low, high)
    figure = gd.plot.height_functions(PURCELL, low, high, frame="minimum perturbation")
    best = gd.curvature(other, jnp.array([1.0, 1.0]))[0, 0, 1]
    corner = figure.axes[0].collections[0].get_array().reshape(81, 81)[-1, -1]
    np.testing.assert_allclose(corner, best, rtol=1e-9)
    assert abs(best / F[0] - 1) > 0.01
    with pytest.raises(ValueError, match="frame must be one of 'body', 'minimum perturbation'; got 'world'"):
        gd.plot.height_functions(PURCELL, low, high, frame="world")


@pytest.mark.parametrize("size", [(3.4, 3.4), (3.4, 6.0), (7.0, 3.0)])
def test_height_functions_are_legible_in_a_column(size):
    """In a figure as wide as one column of a paper, or two, no panel reaches into another or out of the figure, each is
    half an inch wide at least, and the numbers of an axis stand beside each other."""
    figure = gd.plot.height_functions(PURCELL, (-1, -1), (1, 1), gd.plot.figure(*size), stroke=CIRCLE)
    figure.draw_without_rendering()
    boxes = [part.get_tightbbox() for part in figure.axes]
    titles = [text.get_window_extent() for text in figure.texts]
    for one, other in combinations(boxes + titles, 2):
        shared = Bbox.intersection(one, other)
        assert shared is None or min(shared.width, shared.height) < 1.0
    assert all(figure.bbox.padded(1.0).containsx(x) for box in boxes for x in (box.x0, box.x1))
    assert all(panel.bbox.width > 0.5 * figure.dpi for panel in figure.axes[:3])
    for panel in figure.axes[:3]:
        inside = [tick.label1 for tick in panel.xaxis.get_major_ticks() if abs(tick.get_loc()) <= 1]
        ends = [(box.x0, box.x1) for box in (label.get_window_extent() for label in inside)]
        assert len(ends) > 1 and all(right < left for (_, right), (left, _) in pairwise(sorted(ends)))


def test_the_component_stands_before_the_corners_or_after_them():
    low, high = (-1.0, -1.0), (1.0, 1.0)
    for picture, numbers in ((gd.plot.connection, lambda q: q.U), (gd.plot.curvature, lambda image: image.get_array())):
        wanted = numbers(picture(PURCELL, 1, low, high, ax()).collections[0])
        for drawn in (picture(PURCELL, low, high, 1, ax()), picture(PURCELL, low, high, ax=ax(), component=1)):
            np.testing.assert_array_equal(numbers(drawn.collections[0]), wanted)
    for wrong in ((low, high), (low, high, 7), (1, low, 2)):
        with pytest.raises((ValueError, TypeError), match=r"component|lower|upper"):
            gd.plot.connection(PURCELL, *wrong)


def test_connection_and_metric():
    arrows = gd.plot.connection(PURCELL, 2, (-1.0, -1.0), (1.0, 1.0), ax()).collections[0]
    row = -gd.connection(PURCELL, jnp.array([1.0, -1.0]))[2]
    np.testing.assert_allclose([arrows.U[16], arrows.V[16]], row, rtol=1e-12)
    none = gd.plot.connection(swimmers.Satellite(), 2, (-1.0, -1.0), (1.0, 1.0), ax()).collections[0]
    assert not none.U.any() and np.isfinite(none.scale)
    # The axles of the wheels are parallel on the diagonal.
    locked = gd.plot.connection(swimmers.KinematicSnake(), 0, (-2.0, -2.0), (2.0, 2.0), ax()).collections[0]
    sizes = np.hypot(locked.U, locked.V)[~np.ravel(locked.Umask)]
    np.testing.assert_allclose(np.nanmax(sizes), 4 * np.nanmedian(sizes), rtol=1e-12)
    ellipses = lines(gd.plot.shape_metric(PURCELL, (-1.0, -1.0), (1.0, 1.0), ax()))[0]
    assert ellipses.shape == (81, 49, 2)
    centre = jnp.array([-0.75, -1.0])
    rates = ellipses[1] - np.asarray(centre)
    powers = np.einsum("pi,ij,pj->p", rates, gd.shape_metric(PURCELL, centre), rates)
    others = ellipses[40] - np.zeros(2)
    same = np.einsum("pi,ij,pj->p", others, gd.shape_metric(PURCELL, jnp.zeros(2)), others)
    np.testing.assert_allclose(powers / same[0], 1.0, rtol=1e-12)


def test_strokes():
    closed = gd.plot.stroke(gd.strokes.PolygonStroke([(0, 0), (1, 0), (1, 2)]), ax())
    assert len(closed.lines) == 1 and len(closed.texts) == 4
    (end, _), (begin, _) = closed.texts[0].xy, closed.texts[0].get_position()
    assert 0 < begin < end < 1
    assert all(drawn.get_path_effects() for drawn in (*closed.lines, *(text.arrow_patch for text in closed.texts)))
    other = gd.plot.stroke(
        gd.strokes.OpenStroke([0.0, 1.0, 2.0], [1.0, 1.0, 3.0], jnp.zeros((3, 1))), ax(), variables=(2, 0)
    )
    np.testing.assert_allclose(np.ravel(other.lines[1].get_data()), [2.0, 0.0], atol=1e-15)


def test_where_it_goes():
    """Against the holonomy: twice of it after two strokes, wherever it is drawn."""
    g = np.asarray(gd.holonomy(PURCELL, CIRCLE))
    drawn = gd.plot.displacement(PURCELL, CIRCLE, ax(), strokes=2)
    assert drawn.get_ylabel() == "displacement, angle (rad)"
    x, y, angle = drawn.lines
    np.testing.assert_allclose([x.get_ydata()[-1], y.get_ydata()[-1]], (g @ g)[:2, 2], atol=1e-12)
    np.testing.assert_allclose([angle.get_ydata()[128], angle.get_ydata()[-1]], 0.0, atol=1e-12)
    drawn = gd.plot.wake(PURCELL, CIRCLE, ax(), strokes=2)
    np.testing.assert_allclose(np.transpose(drawn.lines[0].get_data())[-1], (g @ g)[:2, 2], atol=1e-12)
    assert x.get_xdata()[-1] == 2
    strengths = [body.get_alpha() for body in drawn.collections]
    assert strengths == sorted(strengths) and strengths[0] < 0.5 < strengths[-1]
    first, _, last = lines(drawn)
    np.testing.assert_allclose(last, first + (g @ g)[:2, 2], atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("space", [gd.spaces.Sphere(2), gd.spaces.Hyperbolic(2)])
def test_curved_ways(space):
    """A body in a curved plane is drawn in the chart of its space: feet where the isometry puts them, at X'/(1 + w),
    legs that are circles at right angles to the unit circle or through opposite points of it."""
    body, stroke = swimmers.TwoLegged(space), gd.FourierStroke.circle(0.4, centre=(0.9, 0.8))
    drawn = gd.plot.wake(body, stroke, ax(), strokes=1)
    X = np.asarray(body.points(stroke(0.0))) @ np.asarray(gd.holonomy(body, stroke, steps=128)).T
    after = lines(drawn)[1]
    np.testing.assert_allclose(after[:, -1], X[1:, :2] / (1 + X[1:, 2:]), atol=1e-10)
    np.testing.assert_allclose(after[:, 0], np.transpose(drawn.lines[0].get_data())[[-1, -1]], atol=1e-12)
    leg, right = after[0], np.sum(after[0] ** 2, axis=1) - space.chart.curvature
    circle = np.linalg.lstsq(leg, right, rcond=None)[0]
    np.testing.assert_allclose(leg @ circle, right, atol=1e-12)
    # Taller than wide: its filmstrip is 0.8 of a frame wide all the same, where the labels have room.
    strip = gd.plot.swimmer(body, stroke, ax(), frames=3)
    np.testing.assert_allclose(np.ptp(strip.get_xlim()) / np.ptp(strip.get_yticks()), 1.04 * 3 / 4 / 2, rtol=1e-12)


def test_filmstrip():
    """The net displacement, here to the left, is drawn to the right: first and last differ by its length."""
    strip = lines(gd.plot.swimmer(PURCELL, CIRCLE, ax(), frames=3))
    assert len(strip) == 6
    moved = strip[5] - strip[4]
    far = np.linalg.norm(gd.holonomy(PURCELL, CIRCLE, steps=32)[:2, 2])
    np.testing.assert_allclose(moved, np.broadcast_to([far, 0.0], moved.shape), atol=1e-12)
    # A swimmer that stays is drawn as it stands.
    there_and_back = gd.FourierStroke([0.0, 0.0], [[0.5], [0.5]], [[0.0], [0.0]])
    assert np.isfinite(lines(gd.plot.swimmer(PURCELL, there_and_back, ax(), frames=3))[5]).all()


def test_a_film_beside_the_curvature(tmp_path):
    """Two Axes, of which the second has the dot of the shape; Axes of one's own have no room for that."""
    stroke, options = gd.FourierStroke.circle(0.5), {"strokes": 1, "seconds": 0.3, "fps": 10}
    film = gd.plot.swim(PURCELL, stroke, tmp_path / "film.gif", component=0, **options)
    left, right, *_ = film._fig.axes
    assert left.lines and right.get_xlabel() == "first hinge angle (rad)"
    np.testing.assert_allclose(right.lines[-1].get_xydata(), [stroke(0.0)], atol=1e-12)
    with pytest.raises(ValueError, match="ax and component cannot be given together"):
        gd.plot.swim(PURCELL, stroke, ax=ax(), component=0, **options)


def test_film(tmp_path):
    from PIL import Image

    stroke = gd.FourierStroke.circle(1.5, centre=(5.0, 5.0))
    gd.plot.swim(swimmers.ThreeSphere(), stroke, tmp_path / "a.gif", strokes=2, seconds=0.4, fps=10)
    with Image.open(tmp_path / "a.gif") as film:
        assert film.n_frames == 5
        first = np.array(film.convert("L"), float)
        film.seek(3)
        assert np.abs(np.array(film.convert("L"), float) - first).max() > 50


def test_family():
    """The tangents touch: of E = D² at D = 0.2 with the slope 0.4; an infinite one is upright."""
    d = np.linspace(0.1, 0.5, 5)
    drawn = gd.plot.family(d, d**2, [0.2, 0.4, 0.6, 0.8, np.inf], ax())
    (left, right), (below, above) = drawn.lines[1].get_data()
    np.testing.assert_allclose([(above - below) / (right - left), (above + below) / 2], [0.4, 0.04], rtol=1e-12)
    np.testing.assert_allclose(drawn.lines[4].get_xdata(), 0.5, rtol=1e-12)
    np.testing.assert_allclose(drawn.lines[-1].get_ydata(), d**2)


def test_a_family_is_drawn_as_it_is():
    """In the displacement along its direction: E = D² of steps of D along (0, 3/5, 4/5), whose multiplier 2D has the
    same direction; a family of bodies has no such picture."""
    d = jnp.linspace(0.1, 0.5, 5)
    one = jnp.outer(d, jnp.array([0.0, 0.6, 0.8]))
    strokes, end = gd.FourierStroke.circle(1.0), gd.RESULTS.end_of_interval
    family = gd.StrokeFamily(d, one, d**2, 2 * one, d, d, d, strokes, (), None, end)
    drawn, same = gd.plot.family(family, ax=ax()), gd.plot.family(d, d**2, 2 * d, ax())
    for line, other in zip(drawn.lines, same.lines, strict=True):
        np.testing.assert_allclose(line.get_xydata(), other.get_xydata(), rtol=1e-12)
    bodies = eqx.tree_at(lambda f: f.displacement, family, jnp.full(5, 0.2))
    with pytest.raises(ValueError, match="family of bodies"):
        gd.plot.family(bodies)
    with pytest.raises(ValueError, match="give the family alone"):
        gd.plot.family(family, d)
    with pytest.raises(ValueError, match="displacement must have the length of cost, 5; got 4"):
        gd.plot.family(d[1:], d, d)
    with pytest.raises(ValueError, match="multiplier must be numbers"):
        gd.plot.family(d, d**2)


class Blob(gd.AbstractSwimmer):
    group: gd.groups.Translation = gd.groups.Translation(1)

    def dissipation(self, r, xi, rdot):
        return jnp.sum(rdot**2) + (xi[0] + r[1] * rdot[0]) ** 2


class Spinner(gd.AbstractConnection):
    group: gd.groups.SO3 = gd.groups.SO3()

    def form(self, r):
        return jnp.eye(3, 2)

    def outline(self, r):
        return jnp.zeros((1, 2, 2))


REFUSED = {
    "no outline": (lambda: gd.plot.swimmer(Blob(), CIRCLE, ax()), r"Blob does not say how it looks.*outline\(r\)"),
    "not in a plane": (lambda: gd.plot.wake(Spinner(), CIRCLE, ax()), "moves in SO3"),
    "open": (
        lambda: gd.plot.wake(PURCELL, gd.strokes.OpenStroke([0.0, 0.0], [1.0, 1.0], jnp.zeros((2, 1))), ax()),
        "the stroke is not closed",
    ),
    "a figure that is none": (
        lambda: gd.plot.height_functions(PURCELL, (-1, -1), (1, 1), np.int64(3)),
        "figure must be a Figure or SubFigure of matplotlib, got",
    ),
    "a scale that ends below zero": (
        lambda: gd.plot.on_sphere(lambda X: X[2], bound=-1.0, detail=4),
        "bound must be above 0, got -1.0",
    ),
    "a flat curve": (
        lambda: gd.plot.on_sphere(lambda X: X[2], curves=[np.ones((4, 2))], detail=4),
        r"curves\[0\] must be an array of shape \[_, 3\], got shape \(4, 2\)",
    ),
    "film": (lambda: gd.plot.swim(PURCELL, CIRCLE, "film.avi"), r"path must end in .mp4 or .gif, got 'film.avi'"),
}


@pytest.mark.parametrize("picture, message", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_drawn_is_refused(picture, message):
    with pytest.raises(ValueError, match=message):
        picture()


def test_a_shape_with_more_variables_is_asked_for():
    with pytest.raises(ValueError, match="give at="):
        gd.plot.curvature(gd.swimmers.NLink(np.ones(4)), 0, (-1, -1), (1, 1))


@pytest.mark.long
def test_displacements_where_poses_are_no_matrices():
    """In SL₂ the product of isometries is not that of matrices, and the body begins at (0, 1, 0): as drawn, at zero,
    and over two strokes at the product of the ends of both."""
    start = jnp.array([[0.0, 1.0, 0.0]])

    def places(r):
        feet = jnp.append(r, 0.2), jnp.stack([r[1], -r[0], 0.3 + r[0]])
        return jnp.stack([jnp.zeros(3), *feet]) / 2 + start

    body = gd.swimmers.PointMasses(gd.spaces.SL2(), [1.0, 1.0, 2.0], places)
    stroke = gd.FourierStroke.circle(0.2, centre=(0.6, 0.5))
    drawn = [line.get_ydata() for line in gd.plot.displacement(body, stroke, strokes=2).get_lines()[:3]]
    np.testing.assert_allclose([line[0] for line in drawn], 0.0, atol=1e-14)
    end = gd.holonomy(body, stroke)
    twice = body.group.compose(end, end)[:3, 3] - start[0]
    np.testing.assert_allclose([line[-1] for line in drawn], twice, atol=1e-12)
