"""The page of the studio in a real browser: what one does with the hand, and what one reads then."""

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from conftest import QUICK
from helpers.legs import ON_TORUS

import geodyn as gd

pytest.importorskip("tornado", reason="tornado is not installed: pip install 'geodyn[studio]'")
matplotlib.use("agg")

OWN = """
import geodyn as gd
import jax.numpy as jnp

def eel(length=1.0):
    waves = jnp.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    return gd.swimmers.Modes(gd.swimmers.NLink([length] * 4), waves)
"""


def started(folder, *words):
    """(the process of `geodyn studio`, its address)."""
    command = [sys.executable, "-m", "geodyn", "studio", *words, "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, env={**os.environ, **QUICK})
    return process, re.search(r"http://\S+", process.stdout.readline())[0]


def stopped(process):
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130  # Ctrl-C ends it
    process.stdout.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    process, at = started(tmp_path_factory.mktemp("studio"))
    yield at
    stopped(process)


def until(page, expression, seconds=120):
    """Waits until an expression of the page is true. The page forbids evaluating texts, so that it is asked again and
    again from outside."""
    end = time.monotonic() + seconds
    while not page.evaluate(f"Boolean({expression})"):
        assert time.monotonic() < end, f"{expression}: {page.inner_text('#status')} {page.inner_text('#progress')}"
        page.wait_for_timeout(20)


def opened(browser, address, **options):
    page = browser.new_page(viewport={"width": 1280, "height": 800}, accept_downloads=True, **options)
    page.faults = []
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("console", lambda message: page.faults.append(message.text) if message.type == "error" else None)
    page.goto(address)
    until(page, "panels.length && result")
    return page


@pytest.fixture
def page(browser, address):
    page = opened(browser, address)
    yield page
    page.close()
    assert not page.faults


def drag(page, selector, shift, nth=0):
    box = page.locator(selector).nth(nth).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + shift[0], y + shift[1], steps=4)
    page.mouse.up()
    page.wait_for_timeout(50)


def stroke_of(page):
    return gd.FourierStroke(
        **page.evaluate("({mean: state.stroke.mean, cosine: state.stroke.cosine, sine: state.stroke.sine})")
    )


def harmonics_of(page):
    return stroke_of(page).cosine.shape[1]


def motion_of(page, body, stroke):
    return np.asarray(body.group.log(gd.holonomy(body, stroke)))


def test_drag_and_read(page):
    """A point is dragged: the numbers at once are those of gd.holonomy, to 1e-6 of the displacement."""
    before = stroke_of(page)
    page.evaluate("void (server.ask = () => new Promise(() => {}))")  # the grid alone
    drag(page, "#panels svg .handle", (30, -25))
    stroke, swimmer = stroke_of(page), gd.swimmers.Purcell()
    moved = np.asarray(stroke(0.0) - before(0.0))
    assert (moved > 0.1).all() and np.abs(stroke(0.5) - before(0.5)).max() < 0.1 * moved.max()
    exact, read = motion_of(page, swimmer, stroke), page.evaluate("result.motion")
    np.testing.assert_allclose(read, exact, atol=1e-6 * np.abs(exact).max())
    np.testing.assert_allclose(page.evaluate("result.cost"), gd.cost(swimmer, stroke), rtol=1e-4)
    flux = np.asarray(gd.bundles.flux(swimmer, stroke))
    np.testing.assert_allclose(page.evaluate("result.predicted"), -flux, atol=1e-3 * np.abs(flux).max())
    told = page.locator("#rows tr").first.inner_text().split()
    np.testing.assert_allclose([float(told[1]), float(told[2])], [exact[0], -flux[0]], atol=2e-5)


def test_at_rest_the_server_checks(page):
    until(page, "exact")
    assert "Checked by gd.holonomy" in page.inner_text("#check")
    np.testing.assert_allclose(
        page.evaluate("exact.motion"), motion_of(page, gd.swimmers.Purcell(), stroke_of(page)), atol=1e-12
    )


def test_hands_and_keys(page):
    """Move from inside, draw, ellipse, presets, keys, undo and redo; type and load."""
    first = stroke_of(page)
    page.locator("#panels svg .handle").first.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(60)
    assert stroke_of(page)(0.0)[0] > first(0.0)[0] + 0.1
    page.keyboard.press("Control+z")
    page.wait_for_timeout(60)
    np.testing.assert_allclose(stroke_of(page).cosine, first.cosine)
    page.click("#redo")
    assert stroke_of(page)(0.0)[0] > first(0.0)[0] + 0.1
    box = page.locator("#panels svg .stroke").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    mean = np.asarray(stroke_of(page).mean)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 + 20, box["y"] + box["height"] / 2, steps=3)
    page.mouse.up()
    assert (np.asarray(stroke_of(page).mean) - mean)[0] > 0.2
    page.check("[name=mode][value=ellipse]")
    page.wait_for_timeout(60)
    assert page.locator("#panels svg").first.locator(".handle").count() == 3 and not np.any(
        stroke_of(page).cosine[:, 1:]
    )
    page.check("[name=mode][value=draw]")
    field = page.locator("#panels svg .field").first.bounding_box()
    corner = lambda u, v: (field["x"] + u * field["width"], field["y"] + v * field["height"])  # noqa: E731
    page.mouse.move(*corner(0.25, 0.25))
    page.mouse.down()
    for place in ((0.75, 0.25), (0.75, 0.75), (0.25, 0.75), (0.25, 0.3)):
        page.mouse.move(*corner(*place), steps=10)
    page.mouse.up()
    page.wait_for_timeout(60)
    np.testing.assert_allclose(stroke_of(page).mean, 0.0, atol=0.1)
    assert np.abs(stroke_of(page)(0.125)).max() > 1.3  # a corner of the square at ±π/2
    page.check("[name=mode][value=pull]")
    page.evaluate("find('typed').closest('details').open = true")
    page.fill("#typed", "\n".join(f"{np.cos(t)} {0.5 * np.sin(t)}" for t in np.linspace(0, 2 * np.pi, 60)))
    page.click("#take")
    np.testing.assert_allclose(np.abs(stroke_of(page)(0.0)), [1.0, 0.0], atol=0.03)
    told = json.dumps({"mean": [0, 0], "cosine": [[1], [0]], "sine": [[0], [0.25]]})
    page.fill("#typed", told)
    page.click("#take")
    assert stroke_of(page).sine[1, 0] == 0.25
    page.fill("#typed", "x,y,theta\n0,0,0\n1,0,0\n1,1,0")
    page.click("#take")
    assert "columns r1, r2; got 3 lines and the columns x, y, theta" in page.inner_text("#typing")
    page.fill("#typed", '{"mean": [0')
    page.click("#take")
    assert "the coefficients cannot be read" in page.inner_text("#typing")
    page.fill("#typed", "alert(1)")
    page.click("#take")
    assert "wanted at least 3 lines of 2 numbers" in page.inner_text("#typing")


@pytest.mark.long
def test_optimise_and_cancel(page):
    until(page, "exact")
    cost = page.evaluate("result.cost")
    page.click("#optimise")
    until(page, f"state.optimum && result.cost < {cost} && exact")
    assert "found in" in page.inner_text("#progress")
    heads = page.inner_text("#heads")
    assert "old" in heads and page.evaluate("panels[0].old.getAttribute('points').length") > 100
    until(page, "find('certificate').innerText.includes('minimum')")
    page.click("[data-preset=eight]")
    until(page, "exact")
    page.evaluate("server.cancelSoon = server.waiting")  # the search is ended at its first word
    page.click("#optimise")
    until(page, "find('progress').textContent.startsWith('iteration') || !searching")
    page.click("#cancel", force=True)
    until(page, "!searching")
    assert page.locator("#optimise").is_enabled() and np.isfinite(page.evaluate("result.cost"))


@pytest.mark.long
def test_a_search_that_is_cancelled_before_it_begins(page):
    """The stroke is as it was."""
    before = stroke_of(page)
    page.fill("#harmonics", "13")  # which is compiled first
    page.keyboard.press("Tab")
    page.click("#optimise")
    page.click("#cancel")
    until(page, "!searching")
    assert "the stroke is as it was" in page.inner_text("#progress") and page.evaluate("state.optimum === null")
    np.testing.assert_array_equal(stroke_of(page).cosine[:, :4], before.cosine)
    page.click("#optimise")
    page.select_option("#body", "pmpy")  # another body meanwhile: what is found is not its stroke
    until(page, "!searching && state.body.name === 'pmpy' && panels.length && exact")
    assert "was ended" in page.inner_text("#progress") and page.evaluate("state.optimum === null")
    assert stroke_of(page).mean.shape == (2,) and harmonics_of(page) == 13


@pytest.mark.long
def test_the_area_of_a_stroke_of_eight_hinges(page):
    """The wave moves all hinges and leaves the slice: its area integral is off by a sixth in the body frame, and by
    less than a hundredth in the frame that it disturbs least."""
    page.select_option("#body", "nine-link")
    until(page, "state.body.name === 'nine-link' && panels.length && exact")
    phases = 2 * np.pi * np.arange(8)[:, None] / 8
    wave = {"mean": [0.0] * 8, "cosine": (0.4 * np.cos(phases)).tolist(), "sine": (0.4 * np.sin(phases)).tolist()}
    page.evaluate("document.querySelector('#typed').closest('details').open = true")
    page.fill("#typed", json.dumps(wave))
    page.click("#take")
    until(page, "exact && exact.predicted")
    off = "Math.hypot(...exact.predicted.map((x, i) => x - exact.motion[i])) / Math.hypot(...exact.motion)"
    assert "area integral is over the cone from its mean shape." in page.inner_text("#check")
    assert page.evaluate(off) > 0.1
    page.check("[name=frame][value='minimum perturbation']")
    until(page, "panels[0].field.frame === 'minimum perturbation' && exact && !asking")
    until(page, "find('check').innerText.includes('disturbs least')")
    assert page.evaluate(off) < 0.01


@pytest.mark.long
def test_undo_brings_back_what_was_known(page):
    """The evidence for an optimal stroke of three hinges goes with the slice, and comes back with it."""
    page.select_option("#body", "nlink")
    until(page, "state.body.name === 'nlink' && panels.length && exact")
    page.click("#optimise")
    until(page, "find('certificate').innerText.includes('minimum') && !searching")
    found, shown = stroke_of(page), page.inner_text("#certificate")
    until(page, "exact")
    assert "in the body frame" in page.inner_text("#check")  # all three hinges move
    page.select_option("#axes select >> nth=1", "2")
    until(page, "state.pair[1] === 2 && !asking && exact")
    np.testing.assert_array_equal(stroke_of(page).cosine, found.cosine)
    page.click("[data-preset=circle]")
    assert stroke_of(page).cosine[1].max() == 0.0
    held = page.locator("#others input[type=range]")
    held.focus()
    page.keyboard.press("ArrowRight")
    until(page, "!asking && state.at[1] > 0")
    assert stroke_of(page).mean[1] == page.evaluate("state.at[1]") and page.inner_text("#certificate") == ""
    for _ in range(3):
        page.keyboard.press("Control+z")
    until(page, "!asking && state.pair[1] === 1 && find('certificate').innerText")
    np.testing.assert_array_equal(stroke_of(page).cosine, found.cosine)
    assert page.inner_text("#certificate") == shown


@pytest.mark.long
def test_sliders_change_the_body(page):
    until(page, "exact")
    before = page.evaluate("result.motion")
    page.locator("#parameters input[type=number]").nth(3).fill("3")  # the drag ratio
    page.keyboard.press("Enter")
    until(page, "state.body.python.includes('drag_ratio=3') && exact && !asking")
    until(page, f"Math.abs(result.motion[0] - {before[0]}) > 1e-3")
    exact = motion_of(page, gd.swimmers.Purcell(drag_ratio=3.0), stroke_of(page))
    np.testing.assert_allclose(page.evaluate("result.motion"), exact, atol=1e-4 * np.abs(exact).max())
    page.locator("#parameters input[type=number]").nth(3).fill("-1")
    page.keyboard.press("Enter")
    until(page, "find('status').textContent.includes('drag_ratio must be positive')")
    until(page, "state.parameters.drag_ratio === 3 && !bodyAsked")  # the last that was good
    box = page.locator("#parameters input[type=number]").nth(3)
    box.fill("")
    page.keyboard.press("Enter")
    assert float(box.input_value()) == 3.0 and page.evaluate("state.parameters.drag_ratio") == 3.0
    page.select_option("#body", "pmpy")
    until(page, "state.body.name === 'pmpy' && exact")
    page.select_option("#body", "purcell")
    until(page, "state.body.name === 'purcell' && state.body.python.includes('drag_ratio=3')")


def numbers_of(page):
    """The table of numbers: {name of a column: its first numbers}."""
    heads, *rows = ([cell.strip() for cell in line.split("\t")] for line in page.inner_text("#told table").split("\n"))
    return {head: [row[n] for row in rows if n < len(row)] for n, head in enumerate(heads)}


@pytest.mark.long
def test_old_numbers_are_those_of_the_body_before(page):
    """Another drag ratio, or another body with the same hinges: what there was before stays beside what is now."""
    until(page, "exact")
    first = numbers_of(page)["net motion"]
    box = page.locator("#parameters input[type=number]").nth(3)
    box.fill("4")
    page.keyboard.press("Enter")
    until(page, "state.body.python.includes('drag_ratio=4') && !asking && exact")
    second = numbers_of(page)
    assert second["old"] == first and second["net motion"] != first  # net motion, distance, cost and efficiency
    assert page.inner_text("#kept") == "The old numbers are those with drag ratio 2."
    page.click("#swap")
    until(page, "state.body.python.includes('drag_ratio=2') && !asking && exact")
    assert numbers_of(page)["net motion"] == first and numbers_of(page)["old"] == second["net motion"]
    drag(page, "#panels svg .handle", (20, 0))
    until(page, "exact")
    stroke, third = stroke_of(page), numbers_of(page)["net motion"]
    page.select_option("#body", "floating-links")
    until(page, "state.body.name === 'floating-links' && panels.length && !asking && exact")
    np.testing.assert_array_equal(stroke_of(page).cosine, stroke.cosine)
    assert numbers_of(page)["old"] == third and page.locator("#swap").is_disabled()
    assert page.inner_text("#kept") == "The old numbers are those of Purcell's swimmer: three slender links."
    page.select_option("#body", "pmpy")  # another kind of shapes: nothing to compare
    until(page, "state.body.name === 'pmpy' && panels.length && !asking && exact")
    assert "old" not in numbers_of(page) and page.inner_text("#kept") == ""


def grid_and_holonomy(page, body):
    """(the net motion by the grid of the page alone, that of gd.holonomy) for the stroke of the page."""
    grid = page.evaluate("[...field().swim(state.stroke).motion]")
    return grid, motion_of(page, body, stroke_of(page))


@pytest.mark.weekly
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_body_whose_isometries_are_no_matrices(browser, tmp_path):
    """Two legs on a torus, whose symmetry was found: the page has the displacement of gd.holonomy while one drags, and
    draws the body turned about the axis so far when one lets go; without the server it says that it cannot."""
    (tmp_path / "my_legs.py").write_text(ON_TORUS)
    process, at = started(tmp_path, "my_legs:on_torus")
    known = {}
    exec(ON_TORUS, known)
    body = known["on_torus"]()
    page = opened(browser, at)
    until(page, "exact && view.of === state.stroke")
    drag(page, "#panels svg .handle", (15, -12))
    told = page.inner_text("#seen")
    assert "computed by the server" in told or "lies in space" in told
    until(page, "exact && view.of === state.stroke")
    assert page.inner_text("#seen") == "It is drawn as the surface lies in space."
    grid, exact = grid_and_holonomy(page, body)
    assert abs(exact[0]) > 0.01
    np.testing.assert_allclose(grid, exact, rtol=1e-6)
    assert "Checked by gd.holonomy" in page.inner_text("#check")
    shown = page.locator("#rows tr").first.inner_text().split()
    np.testing.assert_allclose(float(shown[1]), exact[0], atol=2e-5)
    # The Killing field has the length 1 where the body begins, at the distance far from the axis.
    far = 2 + np.cos(0.8)
    along = np.sign(float(body.space.killing_fields(body.group.origin)[0, 0]))
    for strokes in (1, 2):
        turn = along * strokes * exact[0] / far
        seen = [far * np.sin(turn), np.sin(0.8) * np.cos(np.pi / 6) - far * np.cos(turn) * np.sin(np.pi / 6)]
        np.testing.assert_allclose(page.evaluate(f"view.middle({strokes})"), seen, atol=2e-4)
        np.testing.assert_allclose(page.evaluate(f"view.lines({strokes})[1][0]"), seen, atol=2e-4)
    assert page.locator("[name=frame][value='minimum perturbation']").is_disabled()
    alone = saved(page, "page", tmp_path)
    stopped(process)
    until(page, "!server.open")
    drag(page, "#panels svg .handle", (-10, 10))
    assert "needs the server (geodyn studio)" in page.inner_text("#seen")
    np.testing.assert_allclose(*grid_and_holonomy(page, body), rtol=1e-6)
    page.close()
    other = browser.new_page()
    other.goto(alone.as_uri())
    until(other, "panels.length && result && view.told")
    np.testing.assert_allclose(other.evaluate("result.motion"), exact, rtol=1e-6)
    np.testing.assert_allclose(other.evaluate("view.middle(2)"), seen, atol=2e-4)
    drag(other, "#panels svg .handle", (10, 10))
    assert "drawn under an earlier stroke" in other.inner_text("#seen")
    other.close()


@pytest.mark.long
def test_products_of_isometries_that_do_not_commute(page):
    """In SL2(R)~, of which no group of matrices is known: the grid of the page has the displacement of gd.holonomy, all
    four components of it."""
    page.select_option("#body", "two-legged")
    until(page, "state.body.name === 'two-legged' && panels.length && exact")
    page.locator("#parameters select").select_option("sl2")
    until(page, "state.body.group.structure && !asking && panels.length === 5")
    grid, exact = grid_and_holonomy(page, gd.swimmers.TwoLegged(gd.spaces.SL2()))
    assert np.abs(exact).min() > 1e-4
    np.testing.assert_allclose(grid, exact, atol=1e-6 * np.abs(exact).max())
    until(page, "exact && view.of === state.stroke")
    assert "drawn in the model: Poincaré disc × line" in page.inner_text("#seen")


@pytest.mark.long
def test_metric_stands_beside_the_curvature(page):
    assert page.locator("#panels svg").count() == 4
    panel = page.locator("#panels svg").last
    assert panel.get_attribute("aria-label") == "metric of shapes" and "√det G" in panel.text_content()
    drawn = page.evaluate("panels[3].ellipses.getAttribute('d').split('M').length - 1")
    assert drawn == 64
    drag(page, "#panels svg >> nth=3 >> .handle", (15, 0))  # it is a place to draw, too
    until(page, "past.length && exact")
    page.uncheck("#metric")
    assert page.locator("#panels svg").count() == 3
    page.select_option("#body", "rolling-disc")  # which has no metric
    until(page, "state.body.name === 'rolling-disc' && panels.length && exact")
    assert page.locator("#metric").is_disabled() and page.locator("#panels svg").count() == 2


def test_files_can_be_loaded_by_keys(page):
    for name in ("load", "measured"):
        page.locator(f"#{name}").evaluate("e => { e.closest('details').open = true; }")
        page.locator(f"#{name}").focus()
        assert page.evaluate("document.activeElement.id") == name
    box = page.locator("label.button", has=page.locator("#measured"))
    assert box.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"  # one sees where one is


def test_narrow_page(page):
    """At 800 pixels pictures, body and numbers are on the first screen, and nothing reaches beyond the right edge."""
    page.set_viewport_size({"width": 800, "height": 800})
    page.click("#keep")
    until(page, "exact && find('heads').innerText.includes('old')")
    for what in ("#panels", "#view", "#told table"):
        box = page.locator(what).bounding_box()
        assert box["y"] + box["height"] < 800 and box["x"] + box["width"] <= 800
    assert page.evaluate("document.documentElement.scrollWidth") <= 800


def saved(page, what, tmp_path):
    page.click("#export summary")
    with page.expect_download(timeout=120_000) as download:
        page.click(f"[data-export={what}]")
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    return file


@pytest.mark.long
def test_export(page, browser, tmp_path, monkeypatch, capsys):
    """The Python gives the numbers of the page; the page works without the server; pictures are pictures."""
    drag(page, "#panels svg .handle", (25, 10), nth=2)
    until(page, "exact")
    motion = page.evaluate("exact.motion")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(saved(page, "python", tmp_path)))
    printed = re.search(r"net motion \(x, y, θ\): \[(.*)\]", capsys.readouterr().out)[1]
    np.testing.assert_allclose(np.fromstring(printed, sep=" "), motion, atol=1e-7)
    assert (tmp_path / "stroke.png").stat().st_size > 10_000 and (tmp_path / "stroke.html").exists()
    table = np.genfromtxt(saved(page, "csv", tmp_path), delimiter=",", names=True)
    np.testing.assert_allclose(np.stack([table["r1"], table["r2"]])[:, 0], stroke_of(page)(0.0), atol=1e-12)
    assert saved(page, "png", tmp_path).read_bytes()[:4] == b"\x89PNG"
    svg = saved(page, "svg", tmp_path).read_text()
    assert svg.count("<image") == 4 and "var(--" not in svg
    alone = saved(page, "page", tmp_path)
    assert alone.stat().st_size < 1_000_000
    asked = []
    other = browser.new_page()
    other.on("request", lambda request: asked.append(request.url) if not request.url.startswith("data:") else None)
    other.on("pageerror", lambda error: asked.append(str(error)))
    other.goto(alone.as_uri())
    until(other, "panels.length && result")
    np.testing.assert_allclose(other.evaluate("result.motion"), motion, atol=1e-4 * np.abs(motion).max())
    drag(other, "#panels svg .handle", (20, 0))
    assert np.abs(np.subtract(other.evaluate("result.motion"), motion)).max() > 1e-3
    other.check("[name=frame][value='minimum perturbation']")
    until(other, "panels[0].field.frame === 'minimum perturbation'")
    assert asked == [alone.as_uri()]
    other.close()


@pytest.mark.long
def test_a_turn_is_given_as_the_reason_and_a_family_goes_along(page, browser, tmp_path):
    """A stroke that turns may cost less than the best that does not: it is said. The exported page shows the family,
    and where one is on it."""
    until(page, "exact")
    drag(page, "#panels svg .handle", (16, -12), nth=1)
    until(page, "exact && Math.abs(exact.motion[2]) > 0.05")
    cost = page.evaluate("result.cost")
    page.click("#optimise")
    until(page, "state.optimum && !searching")
    said = "the stroke before also turned by" in page.inner_text("#progress")
    assert said == (page.evaluate("state.optimum.cost") > cost)
    page.click("#family")
    until(page, "find('progress').textContent.includes('strokes') || !searching")
    page.click("#cancel", force=True)
    until(page, "!searching && state.family && exact")
    told = page.inner_text("#progress")
    assert told.startswith("cancelled: the") or "beyond" in told
    shown = page.inner_text("#member")
    alone = saved(page, "page", tmp_path)
    other = browser.new_page()
    other.goto(alone.as_uri())
    until(other, "panels.length && result")
    assert other.inner_text("#member") == shown != ""
    dots = other.evaluate(
        "[...document.querySelectorAll('#charts svg circle:last-of-type')].map(e => e.getAttribute('cx'))"
    )
    assert len(dots) == 2 and None not in dots
    other.close()


@pytest.mark.long
def test_two_tabs(browser, address, page):
    """What is done in one is not seen in the other."""
    other = opened(browser, address)
    before = stroke_of(page)
    drag(other, "#panels svg .handle", (30, 0))
    until(other, "exact")
    assert np.abs(stroke_of(other).cosine - before.cosine).max() > 0.05
    np.testing.assert_array_equal(stroke_of(page).cosine, before.cosine)
    other.close()


@pytest.mark.long
def test_own_body_and_a_server_that_stops(browser, tmp_path):
    """Four links with two modes; then the server stops under the page: it says so, and drawing goes on."""
    (tmp_path / "mine.py").write_text(OWN)
    process, address = started(tmp_path, "mine:eel")
    page = opened(browser, address)
    until(page, "exact")
    body = gd.swimmers.Modes(gd.swimmers.NLink([1.0] * 4), [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    np.testing.assert_allclose(page.evaluate("exact.motion"), motion_of(page, body, stroke_of(page)), atol=1e-12)
    assert page.evaluate("python()").count("from mine import eel") == 1
    stopped(process)
    until(page, "!find('gone').hidden")
    assert "server of the studio has stopped" in page.inner_text("#gone") and page.locator("#optimise").is_disabled()
    before = page.evaluate("result.motion")
    drag(page, "#panels svg .handle", (30, 10))
    exact = motion_of(page, body, stroke_of(page))
    assert not np.allclose(before, exact, atol=1e-3)
    np.testing.assert_allclose(page.evaluate("result.motion"), exact, atol=1e-4 * np.abs(exact).max())
    page.close()


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    """(a map of Purcell's swimmer, its file)."""
    settings = {"starts": 4, "method": gd.Direct(harmonics=4, steps=12)}
    found = gd.stroke_map(gd.swimmers.Purcell(), displacement=[0.1, 0.13, 0.16], turn=[0.1, 0.15, 0.2], **settings)
    file = tmp_path_factory.mktemp("map") / "map.npz"
    found.save(file)
    return found, file


@pytest.fixture(scope="module")
def of_map(mapped):
    process, at = started(mapped[1].parent, "purcell", "--map", mapped[1].name)
    yield at
    stopped(process)


def predicted(found, demand):
    """(the stroke, its cost) by the nearest corner of the cell of a demand: the stroke to first order in what the
    demand differs by, the cost to second."""
    axes = np.asarray(found.displacement), np.asarray(found.turn)
    i, j = (int(np.abs(axis - x).argmin()) for axis, x in zip(axes, demand))
    step = np.array(demand) - [axes[0][i], axes[1][j]]
    best = found.best
    flat = best.coefficients[i, j] + step @ best.slopes[i, j]
    cost = best.cost[i, j] + step @ best.multiplier[i, j] + step @ best.hessian[i, j] @ step / 2
    return gd.FourierStroke.fit(found.task.unknowns(jnp.asarray(flat)), harmonics_of_map(found)), cost


def harmonics_of_map(found):
    return 32 if isinstance(found.task.like, gd.strokes.LegendreStroke) else found.task.like.cosine.shape[1]


def place_on_map(page, u, v):
    box = page.locator("[aria-label='map of strokes'] .field").bounding_box()
    return box["x"] + u * box["width"], box["y"] + (1 - v) * box["height"]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_point_of_a_map(browser, mapped, of_map, tmp_path):
    """While it is dragged, the stroke is what the map predicts there; when one lets go it is the best one itself."""
    found, _ = mapped
    page = opened(browser, of_map)
    until(page, "exact")
    first = stroke_of(page)
    for demand in ([0.1, 0.1], [0.112, 0.18], [0.128, 0.126], [0.16, 0.2]):
        stroke, cost = predicted(found, demand)
        told = page.evaluate(f"chart.map.predict({demand})")
        np.testing.assert_allclose(told["cost"], cost, rtol=1e-12)
        for name in ("cosine", "sine"):
            np.testing.assert_allclose(told["stroke"][name], getattr(stroke, name), atol=1e-9)
        turns = (told["stroke"]["mean"] - np.asarray(stroke.mean)) / (2 * np.pi)  # a search may wind up the hinges
        np.testing.assert_allclose(turns, np.round(turns), atol=1e-9)
        assert np.abs(told["stroke"]["mean"]).max() < np.pi
    page.mouse.move(*place_on_map(page, 0.5, 0.5))
    page.mouse.down()
    page.mouse.move(*place_on_map(page, 0.4, 0.8), steps=5)
    until(page, "state.demand && result.motion[2] > 0.17")
    demand = page.evaluate("state.demand")
    np.testing.assert_allclose(demand, [0.124, 0.18], atol=2e-3)
    assert "predicted from the nearest point of the map" in page.inner_text("#demand")
    np.testing.assert_allclose(stroke_of(page).cosine, predicted(found, demand)[0].cosine, atol=1e-9)
    motion = page.evaluate("result.motion")
    np.testing.assert_allclose([np.hypot(motion[0], motion[1]), motion[2]], demand, rtol=0.02)
    page.mouse.up()
    until(page, "state.optimum && exact && find('certificate').innerText.includes('minimum')", 300)
    best = found.optimum(*demand)
    assert f"cost {float(best.cost):.6g}" in page.inner_text("#demand")
    motion = page.evaluate("exact.motion")
    np.testing.assert_allclose([np.hypot(motion[0], motion[1]), motion[2]], demand, atol=1e-5)
    assert "as far, with the same turn costs more" in page.inner_text("#certificate")
    assert "gd.strokes.load_map('map.npz', body).optimum(" in page.evaluate("python()")

    page.locator("[aria-label='map of strokes'] .handle").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(60)
    np.testing.assert_allclose(page.evaluate("state.demand"), [demand[0] + 0.02 * 0.06, demand[1]], atol=1e-12)
    until(page, "state.optimum")
    assert page.evaluate("state.optimum.cost") > best.cost
    page.keyboard.press("Control+z")
    until(page, "state.optimum && exact")
    assert page.evaluate("state.demand") == demand and page.evaluate("state.optimum.cost") == float(best.cost)
    assert "minimum" in page.inner_text("#certificate")
    alone = saved(page, "page", tmp_path)
    page.keyboard.press("Control+z")
    until(page, "state.demand === null && find('demand').textContent.startsWith('Drag the point')")
    np.testing.assert_array_equal(stroke_of(page).cosine, first.cosine)
    page.select_option("#measure", "1")
    assert page.locator("[aria-label='map of strokes']").text_content().count("efficiency: ") == 1
    page.close()
    assert not page.faults

    other = browser.new_page()
    other.goto(alone.as_uri())
    until(other, "chart && result")
    assert f"cost {float(best.cost):.6g}" in other.inner_text("#demand")
    other.mouse.move(*place_on_map(other, 0.4, 0.8))
    other.mouse.down()
    other.mouse.move(*place_on_map(other, 0.75, 0.25), steps=3)
    other.mouse.up()
    until(other, "Math.abs(result.motion[2] - 0.125) < 0.01")
    assert "predicted from the nearest point of the map: the exact one needs the server" in other.inner_text("#demand")
    there = other.evaluate("state.demand")
    np.testing.assert_allclose(stroke_of(other).cosine, predicted(found, there)[0].cosine, atol=1e-9)
    other.close()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_map_belongs_to_its_body(browser, of_map):
    """It goes when a parameter is changed, and comes back with it; gaps are hatched, and have no stroke."""
    page = opened(browser, of_map)
    until(page, "chart && exact")
    box = page.locator("#parameters input[type=number]").nth(3)
    box.fill("3")
    page.keyboard.press("Enter")
    until(page, "!chart && !asking && !bodyAsked && exact")
    assert page.locator("[aria-label='map of strokes']").count() == 0 and page.locator("#coloured").is_hidden()
    assert page.inner_text("#demand") == ""
    page.click("#undo")
    until(page, "chart && !asking && exact")
    before = stroke_of(page)
    # A map in which nothing was found at its last displacement, and another branch at its first turn.
    page.evaluate(
        "(() => { const map = chart.map; for (const j of [0, 1, 2]) map.rows[6 + j].fill(NaN); map.rows[1][3] = 1;"
        " chart.svg.remove(); chart = new MapPanel(find('panels'), map, false, 0); listenMap(chart); })()"
    )
    assert page.locator(".gap").count() == 3 and page.locator(".border").get_attribute("d").count("M") == 3
    told = page.evaluate(
        "[chart.map.predict([0.15, 0.15]), chart.map.value([0.15, 0.15], 0), chart.map.predict([0.14, 0.1]).cost]"
    )
    assert told[0] is not None and np.isnan(told[1])  # to the left there is one
    page.evaluate("chart.map.rows.forEach(row => row.fill(NaN))")
    page.mouse.click(*place_on_map(page, 0.5, 0.5))  # where the point is
    assert page.inner_text("#demand") == "No stroke is known around there."
    np.testing.assert_array_equal(stroke_of(page).cosine, before.cosine)
    page.close()
    assert not page.faults
