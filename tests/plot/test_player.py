"""The page that plays a trajectory: small, self-contained, honest about what it left out; and in a browser it plays."""

import json
import re
import shutil
import subprocess
from base64 import b64decode
from html.parser import HTMLParser

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import geodyn as gd

SPACE = gd.spaces.Hyperbolic(3)


@pytest.fixture(scope="module")
def rod():
    """A thousand steps of an elastic rod in H³."""
    system, q0 = gd.builders.rod(SPACE, 1.5)
    v0 = jnp.array([[0.3, 0.0, 0.1], [0.3, 0.0, -0.1]])
    return gd.integrate(system, q0, v0, t1=5.0, steps=1000)


@pytest.fixture(scope="module")
def page(rod, tmp_path_factory):
    path = tmp_path_factory.mktemp("player") / "rod.html"
    gd.plot.player(rod, path, title="A rod <in> H³", seconds=1.0)
    return path


def contents(html):
    """The data of a page, its positions decoded: [frame, point, axis] in units of the box."""
    data = json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', html, re.S)[1])
    each = data["points"] + len(data["edges"]) * data["inner"] + np.prod(data["outlines"]) + len(data["spheres"])
    moving = np.frombuffer(b64decode(data["moving"]), "<i2").reshape(-1, each, data["dim"]) / 32767
    return data, np.frombuffer(b64decode(data["times"]), "<f4"), moving


def test_page_is_small_and_alone(page):
    """Half a megabyte at most for a thousand steps (measured 105 kB), and nothing in it comes from anywhere else."""
    html = page.read_text(encoding="utf-8")
    assert len(html.encode()) < 200_000
    assert not re.search(r"https?:|[\"']//|@import|url\(|<link|\ssrc=", html)
    assert "<title>A rod &lt;in&gt; H³</title>" in html


def test_positions_are_those_of_the_trajectory(rod, page):
    """To half a unit of an int16, 1/65534: measured 1.53e-5 for points and for the samples of the geodesic edge."""
    data, times, moving = contents(page.read_text(encoding="utf-8"))
    # The ball is the box: its chart is the picture.
    np.testing.assert_allclose(moving[:, :2], rod.q, atol=1.6e-5)
    np.testing.assert_allclose(times, rod.t, rtol=1e-6)
    assert data["edges"] == [[0, 1]] and data["rigid"] == [False] and data["inner"] >= 1
    s = (np.arange(data["inner"]) + 1) / (data["inner"] + 1)
    x, y = rod.q[500]
    points = gd.geodesic(SPACE, x, gd.log(SPACE, x, y), s)[0]
    np.testing.assert_allclose(moving[500, 2:], points, atol=2e-5)


def box_of(data):
    """(middle, half-width) of the cubic box, from the numbers at the ends of its axes."""
    low, high = np.array([re.findall(r"-?[\d.]+(?:e-?\d+)?", axis["label"])[-2:] for axis in data["axes"]], float).T
    return (low + high) / 2, np.max(high - low) / 2


def test_rigid_bodies_are_shown():
    """A body without points is the ellipsoid of its inertia, a² = 5 (I_i + I_j − I_k)/2m: its outlines lie on that,
    turned as the body is, and the end of its longest axis has a path. Labels have three digits."""
    body = gd.rigid.RigidBodies([1.0, 2.0, 2.5], 2.0)
    q0, v0 = body.state(angular_velocity=[0.02, 1.0, 0.03])
    trajectory = gd.integrate(body, q0, v0, t1=10.0, steps=50)
    data, _, moving = contents(gd.plot.player(trajectory).html)
    middle, half = box_of(data)
    R = np.asarray(gd.rigid.rigid_motion(trajectory).rotation[:, 0])
    seen = np.einsum("tji,tkj->tki", R, middle + half * moving)
    axes = np.sqrt(2.5 * np.array([3.5, 1.5, 0.5]) / 2.0)
    assert data["points"] == 2 and data["edges"] == [[0, 1]] and data["outlines"] == [3, 25]
    np.testing.assert_allclose(np.abs(seen[:, 1]), np.tile([axes[0], 0, 0], (51, 1)), rtol=0, atol=2e-2)
    np.testing.assert_allclose(np.sum((seen[:, 2:] / axes) ** 2, axis=2), 1, rtol=0, atol=5e-2)


@pytest.mark.long
@pytest.mark.parametrize("space", [SPACE, gd.spaces.Euclidean(2)], ids=["H3", "E2"])
def test_spheres_have_radii_and_flash(space):
    """At their impact the spheres of a contact touch in the picture, of curved space too, where their centres are not
    in the middle; it flashes. Off by the saved state nearest to the impact; spheres of the same size
    everywhere would miss by 0.1 in the ball."""
    system = gd.System(space, [1.0, 1.0], gd.Contact([0.4, 0.6]))
    x, v = np.zeros((2, space.dim)), np.zeros((2, space.dim))
    (x[:, 0], x[1, 1]), v[:, 0] = ((0.7, -0.3), 0.1), (-0.2, 0.2)
    trajectory = gd.integrate(system, x, v, t1=2.0, steps=4000)
    data, times, moving = contents(gd.plot.player(trajectory).html)
    (moment, points), at = data["flashes"][0], np.abs(times - float(trajectory.impacts.t[0])).argmin()
    assert points == [0, 1] and abs(moment - trajectory.impacts.t[0]) < 1e-12 and data["spheres"] == [0, 1]
    sizes = np.frombuffer(b64decode(data["sizes"]), "<f4").reshape(-1, 2)[at]
    np.testing.assert_allclose(np.linalg.norm(moving[at, -2] - moving[at, -1]), sizes.sum(), rtol=1e-3)


def test_flashes_of_combined_bodies():
    """Contacts of parts and walls name the points of the whole."""
    wall = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Wall(lambda x: 1 - x[0])), jnp.zeros((1, 1))
    pair = gd.System(gd.spaces.Euclidean(1), [1.0, 1.0], gd.Contact(0.5)), jnp.array([[-4.0], [-2.0]])
    system, q0 = gd.builders.combine(wall, pair)
    trajectory = gd.integrate(system, q0, [[2.0], [1.0], [0.0]], t1=1.6, steps=4)
    data = contents(gd.plot.player(trajectory, model=lambda x: jnp.stack([x[0], 0 * x[0]])).html)[0]
    assert [points for _, points in data["flashes"]] == [[0], [1, 2]] and data["spheres"] == [1, 2]


def test_capsules_end_in_balls_and_flash():
    """The balls are around the ends of the segments, and at an impact both segments flash."""
    ends = [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.5], [0.0, 2.5]]
    capsules = gd.contact.Capsules([(0, 1), (2, 3)], [0.1, 0.2])
    rods = gd.System(gd.spaces.Euclidean(2), [1.0] * 4, capsules)
    trajectory = gd.integrate(rods, ends, [[0.0, 0.0]] * 2 + [[0.0, -1.0]] * 2, t1=0.3, steps=4)
    data = contents(gd.plot.player(trajectory).html)[0]
    assert [points for _, points in data["flashes"]] == [[0, 1, 2, 3]] and data["spheres"] == [0, 1, 2, 3]
    sizes = np.frombuffer(b64decode(data["sizes"]), "<f4").reshape(-1, 4)[0]
    np.testing.assert_allclose(sizes / sizes[0], [1, 1, 2, 2], rtol=1e-6)


def test_long_motions_are_thinned_out_and_say_so():
    """Many points, many states: every n-th, under the limit, the last one kept."""
    masses = [1.0] * 60
    q0 = jnp.stack([jnp.cos(jnp.arange(60.0)), jnp.sin(jnp.arange(60.0))], axis=1)
    trajectory = gd.integrate(gd.System(gd.spaces.Euclidean(2), masses), q0, 0.1 * q0, t1=1.0, steps=3001)
    html = gd.plot.player(trajectory).html
    data, times, _ = contents(html)
    assert len(html) < 500_000 and data["note"] == "1 in 3 of 3002 saved states"
    assert times[0] == 0 and times[-1] == 1


def test_energy_is_told(rod, page):
    """Below the picture: the energy at the saved times; of a trajectory from a file that which it holds."""
    data, times, _ = contents(page.read_text(encoding="utf-8"))
    (told,) = data["series"]
    values = np.frombuffer(b64decode(told["values"]), "<f4")
    assert told["name"] == "energy" and len(values) == len(times)
    np.testing.assert_allclose(values, rod.energy, rtol=1e-6)


PENDULUM = gd.Lagrangian(lambda q, v: 0.5 * v[0] ** 2 + jnp.cos(q[0]))


def hanging(q):
    return jnp.stack([jnp.zeros(2), jnp.stack([jnp.sin(q[0]), -jnp.cos(q[0])])])


def parts_of(data, moving):
    """The outlines of a page [frame, part, point, axis], in units of the box."""
    return moving[:, moving.shape[1] - np.prod(data["outlines"]) :].reshape(len(moving), *data["outlines"], data["dim"])


def test_outlines_of_systems_that_are_in_no_space():
    """A Lagrangian and an ODE look as the user says, in the plane and in space, at the time too; a failed end is left
    out."""
    swing = gd.integrate(PENDULUM, [1.0], t1=2.0, steps=8)
    data, _, moving = contents(gd.plot.player(swing, outline=hanging).html)
    lines = np.stack([np.zeros((9, 2)), np.stack([np.sin(swing.q[:, 0]), -np.cos(swing.q[:, 0])], axis=1)], axis=1)
    middle, half = (lines.max((0, 1)) + lines.min((0, 1))) / 2, np.ptp(lines, axis=(0, 1)).max() / 2
    assert data["points"] == 0 and data["outlines"] == [1, 2] and data["outline"][1] > 1
    np.testing.assert_allclose(middle + half * parts_of(data, moving)[:, 0], lines, atol=2e-5)
    assert [told["name"] for told in data["series"]] == ["energy"]

    blowing_up = gd.integrate(gd.ODE(lambda t, y: y**2), [1.0], t1=2.0, steps=20, throw=False)

    def flag(y, t):
        return [jnp.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), jnp.stack([t * y[0], 0 * t, 1 + 0 * t])[None]]

    data, times, moving = contents(gd.plot.player(blowing_up, outline=flag).html)
    known = np.isfinite(blowing_up.q[:, 0])
    assert data["dim"] == 3 and data["outlines"] == [2, 2] and data["series"] == [] and len(times) == known.sum()
    far = (blowing_up.t * blowing_up.q[:, 0])[known]
    np.testing.assert_allclose(np.diff(parts_of(data, moving)[:, 1, 1, 0]) / np.diff(far), 2 / np.ptp(far), rtol=2e-3)


def test_outlines_of_points_and_of_measured_bodies():
    """Of a body in a space they are of points of it, drawn by its model; of a swimmer lines in its own frame."""
    space = gd.spaces.Hyperbolic(2)
    body = gd.System(space, [1.0])
    run = gd.integrate(body, [[0.3, 0.0]], [[0.0, 0.3]], t1=1.0, steps=4)

    def shadow(q):
        return jnp.stack([q[0], 0.5 * q[0]])

    data, _, moving = contents(gd.plot.player(run, outline=shadow).html)
    assert data["points"] == 1 and data["outlines"] == [1, 2]
    np.testing.assert_allclose(moving[:, 1:2], run.q, atol=2e-5)
    np.testing.assert_allclose(moving[:, 2:], 0.5 * run.q, atol=2e-5)

    swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(0.5)
    r = jnp.stack(jnp.meshgrid(*[jnp.linspace(-1, 1, 5)] * 2), axis=-1).reshape(-1, 2)
    forms = jax.vmap(lambda r: gd.connection(swimmer, r))(r)
    measured = gd.bundles.fit_connection(swimmer.group, r, forms=forms, degree=2)
    with pytest.raises(ValueError, match=r"MeasuredConnection does not say how it looks: give outline="):
        gd.plot.player(measured, stroke)
    data, _, moving = contents(gd.plot.player(measured, stroke, strokes=1, outline=swimmer.outline).html)
    assert data["outlines"] == [3, 2] and np.ptp(parts_of(data, moving)[0], axis=(0, 1)).max() > 0.5
    assert len(gd.plot.wake(measured, stroke, strokes=1, outline=swimmer.outline).collections) == 2


@pytest.mark.parametrize(
    ("outline", "got"),
    [
        (lambda q: q[0], r"the shape \(\)"),
        (lambda q: jnp.zeros((2, 5)), r"the shape \(1, 2, 5\)"),
        (lambda q: [jnp.zeros((2, 2)), jnp.zeros((2, 3))], r"the shape"),
        (lambda q: None, r"NoneType"),
        (lambda q: [], r"the shape"),
    ],
)
def test_outlines_that_are_none(outline, got):
    swing = gd.integrate(PENDULUM, [1.0], t1=2.0, steps=8)
    with pytest.raises(ValueError, match=rf"outline must return lines \[points, 2 or 3\].*got {got}"):
        gd.plot.player(swing, outline=outline)


def test_what_no_outline_says(tmp_path):
    swing = gd.integrate(PENDULUM, [1.0], t1=2.0, steps=8)
    with pytest.raises(ValueError, match=r"Say how it looks by outline="):
        gd.plot.animate(swing)
    with pytest.raises(ValueError, match=r"model belongs to a space"):
        gd.plot.player(swing, model="ball", outline=hanging)
    gd.plot.animate(swing, tmp_path / "swing.gif", seconds=0.2, fps=10, outline=hanging)
    for ax in (gd.plot.trajectory(swing, outline=hanging), gd.plot.body(swing, 1.0, outline=hanging)):
        assert ax.collections


def test_a_swimmer_needs_its_stroke():
    with pytest.raises(ValueError, match=r"stroke must be a function"):
        gd.plot.player(gd.swimmers.Purcell())


def test_a_stroke_is_played():
    """The body where its path leads it, the point of its shape on the picture of the curvature, and its pose below."""
    swimmer, stroke = gd.swimmers.Purcell(), gd.FourierStroke.circle(0.7)
    page = gd.plot.player(swimmer, stroke, strokes=2, title="a swimmer", autoplay=True)
    data, times, moving = contents(page.html)
    assert data["autoplay"] and times[-1] == 2 and data["outlines"] == [3, 2]
    g = gd.path(swimmer, stroke, steps=96)
    names = [told["name"] for told in data["series"]]
    x, y, _ = (np.frombuffer(b64decode(told["values"]), "<f4") for told in data["series"])
    assert names == ["x", "y", "θ"]
    np.testing.assert_allclose(np.stack([x, y])[:, :97].T, g[:, :2, 2], atol=1e-6)
    # Positions are in a box of one scale: distances between frames are in the same ratio.
    way, drawn = np.asarray(g[:, :2, 2]), moving[:97, 0]
    scale = np.linalg.norm(way[48] - way[0]) / np.linalg.norm(drawn[48] - drawn[0])
    np.testing.assert_allclose((drawn - drawn[0]) * scale, way - way[0], atol=2e-4)
    points = np.array(data["shapes"]["points"])
    shapes = np.asarray(jax.vmap(stroke)(times % 1))
    # From the shape to the picture it is a scale and a shift, upside down.
    for k, sign in ((0, 1), (1, -1)):
        slope, shift = np.polyfit(shapes[:, k], points[:, k], 1)
        assert sign * slope > 0
        np.testing.assert_allclose(slope * shapes[:, k] + shift, points[:, k], atol=2e-4)
    assert data["shapes"]["image"].startswith("data:image/png;base64,") and len(page.html) < 400_000
    assert contents(gd.plot.player(swimmer, stroke, component=None).html)[0]["shapes"] is None


def test_notebooks_show_it_inline(rod):
    """An iframe whose srcdoc is the whole page, escaped."""
    player = gd.plot.player(rod)
    frames = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: frames.append((tag, dict(attributes)))
    parser.feed(player._repr_html_())
    assert [tag for tag, _ in frames] == ["iframe"] and frames[0][1]["srcdoc"] == player.html


def test_models_that_do_not_fit_are_refused(rod):
    with pytest.raises(ValueError, match=r"'sphere' does not fit.*'ball', 'half-space', 'coordinates'"):
        gd.plot.player(rod, model="sphere")


def test_script_is_valid(page, tmp_path):
    """Where there is no browser, at least what a JavaScript engine says of the script."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on the PATH")
    script = re.search(r'<script>\n"use strict";(.*?)</script>', page.read_text(encoding="utf-8"), re.S)[1]
    (tmp_path / "player.js").write_text(script, encoding="utf-8")
    done = subprocess.run([node, "--check", tmp_path / "player.js"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


MODELS = ["ball", "half-space", lambda x: x[:2]]


@pytest.mark.parametrize("model", MODELS, ids=["ball", "half-space", "plane"])
def test_it_plays_in_a_browser(browser, rod, tmp_path, model):
    """Play moves the body and ends, the slider sets the time, the mouse turns or moves, the wheel zooms, without an
    error or a request. A screenshot stays in the test's folder."""
    gd.plot.player(rod, tmp_path / "rod.html", model=model, seconds=0.5)
    page = browser.new_page(viewport={"width": 640, "height": 560})
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "rod.html").as_uri())

    def pixels():
        return page.evaluate("document.querySelector('canvas').toDataURL()")

    first = pixels()
    assert page.evaluate("pen.getImageData(0, 0, canvas.width, canvas.height).data.some(x => x > 0)")
    page.click("#play")
    page.wait_for_function("+slider.value === 1 && play.textContent === 'Play'")
    last = pixels()
    assert page.inner_text("#clock") == "t = 5.000" and last != first
    page.evaluate("slider.value = 0; slider.dispatchEvent(new Event('input'))")
    assert pixels() == first
    page.mouse.move(300, 300)
    page.mouse.down()
    page.mouse.move(380, 330, steps=3)
    page.mouse.up()
    turned = pixels()
    page.mouse.wheel(0, -300)
    page.wait_for_function("view.zoom > 1")
    zoomed = pixels()
    assert len({first, turned, zoomed}) == 3
    page.dblclick("canvas")
    assert pixels() == first
    page.screenshot(path=tmp_path / "rod.png")
    assert said == [] and len(asked) == 1
    page.close()


def test_a_stroke_plays_in_a_browser(browser, tmp_path):
    """By itself and again and again; the point goes along; speed and trail can be chosen; it fits a narrow window."""
    gd.plot.player(
        gd.swimmers.Purcell(), gd.FourierStroke.circle(0.7), tmp_path / "swim.html", seconds=0.4, autoplay=True
    )
    page = browser.new_page(viewport={"width": 900, "height": 560})
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((tmp_path / "swim.html").as_uri())
    page.wait_for_function("+slider.value > 0.5")
    page.wait_for_function("+slider.value < 0.3")
    page.click("#play")
    page.evaluate("slider.value = 0.5; slider.dispatchEvent(new Event('input'))")

    def pixels(canvas):
        return page.evaluate(f"document.querySelector('{canvas}').toDataURL()")

    whole, numbers, where = pixels("#view"), pixels("#chart"), page.evaluate("point.style.left")
    page.select_option("#trail", "0")
    assert pixels("#view") != whole and pixels("#chart") == numbers
    page.evaluate("slider.value = 0.6; slider.dispatchEvent(new Event('input'))")
    assert page.evaluate("point.style.left") != where and pixels("#chart") != numbers
    page.select_option("#speed", "4")
    assert page.evaluate("+speed.value") == 4
    page.set_viewport_size({"width": 420, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    assert page.evaluate("canvas.clientHeight") > 50
    page.screenshot(path=tmp_path / "swim.png")
    assert said == []
    page.close()
