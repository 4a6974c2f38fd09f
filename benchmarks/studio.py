"""The studio in a real browser: how fluently one drags, how soon there is a page, how right its numbers are.

    python benchmarks/studio.py [BODY]

It needs playwright and a chromium. A figure that misses its aim is marked with !.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np
from playwright.sync_api import sync_playwright

import geodyn as gd
from geodyn._catalogue.bodies import BODIES
from geodyn._studio.bodies import kind_of, made

jax.config.update("jax_enable_x64", True)
STROKES, HARMONICS, SECONDS = 1000, 3, 4
MEASURE = """() => {
  window.studioTimes = [];
  let event = 0;
  document.addEventListener("pointermove", e => { event = e.timeStamp; }, true);
  const plain = compute;
  compute = () => { plain(); studioTimes.push(performance.now() - event); };
}"""
# The driver of the browser waits for a frame after each movement of its mouse, and would measure itself: the frames are
# counted while the page gets one movement in each, with the button held by the real mouse.
EACH_FRAME = """([x, y, seconds]) => new Promise(done => {
  const svg = document.querySelector("#panels svg"), from = performance.now(), before = studioTimes.length;
  let k = 0;
  const next = () => {
    const now = performance.now();
    if (now > from + 1000 * seconds) { done(1000 * (studioTimes.length - before) / (now - from)); return; }
    k++;
    const place = {clientX: x + 30 * Math.sin(k / 20), clientY: y + 30 * Math.cos(k / 31)};
    svg.dispatchEvent(new PointerEvent("pointermove", place));
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
})"""


def shown(what, value, aim, unit, good):
    print(f"{what:58}{value:>12}{unit:4} (aim {aim}) {'' if good else '!'}", flush=True)


def start(name, cache):
    """(the process, its address) of the studio in a new process."""
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    command = [sys.executable, "-m", "geodyn", "studio", name, "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    return process, re.search(r"http://\S+", process.stdout.readline())[0]


def until(page, expression):
    while not page.evaluate(f"Boolean({expression})"):
        page.wait_for_timeout(5)


def first_page(browser, name, cache):
    """Seconds from the command to the curvature in the browser, and to the word that something is being computed."""
    begin = time.perf_counter()
    process, address = start(name, cache)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(address)
    until(page, "find('status').textContent || panels.length")
    said = time.perf_counter() - begin
    until(page, "panels.length && result")
    return time.perf_counter() - begin, said, process, page


def dragging(page):
    """(frames a second with new numbers, milliseconds from the movement to the number: median and 95 %) while a point
    is dragged."""
    until(page, "exact")
    page.evaluate(MEASURE)
    box = page.locator("#panels svg .handle").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    end, k = time.perf_counter() + SECONDS, 0
    while time.perf_counter() < end:
        k += 1
        page.mouse.move(x + 30 * np.sin(k / 20), y + 30 * np.cos(k / 31))
    late = np.array(page.evaluate("studioTimes"))
    frames = page.evaluate(EACH_FRAME, [x, y, SECONDS])
    page.mouse.up()
    return frames, np.median(late), np.quantile(late, 0.95)


def random_strokes(lower, upper):
    """Smooth strokes of every size that stay in the box."""
    rng = np.random.default_rng(0)
    for _ in range(STROKES):
        cosine, sine = rng.normal(size=(2, 2, HARMONICS)) / np.arange(1, HARMONICS + 1) ** 2
        reach = np.sum(np.hypot(cosine, sine), axis=1)
        size = rng.uniform(0.1, 1.0) * (upper - lower) / 2 / reach
        cosine, sine = (size[:, None] * c for c in (cosine, sine))
        half = np.sum(np.hypot(cosine, sine), axis=1)
        mean = rng.uniform(lower + half, np.maximum(upper - half, lower + half + 1e-12))
        yield {"mean": mean.tolist(), "cosine": cosine.tolist(), "sine": sine.tolist()}


def accuracy(page, name):
    """The largest difference of displacements of the page and of gd.holonomy, relative to the largest displacement."""
    body, _ = made(kind_of(name), {})
    lower, upper = (np.array(page.evaluate(f"field().{end}")) for end in ("lower", "upper"))
    strokes = list(random_strokes(lower, upper))
    read = np.array(page.evaluate("strokes => strokes.map(s => field().swim(s).motion)", strokes))
    parts = [jnp.asarray([s[key] for s in strokes]) for key in ("mean", "cosine", "sine")]
    moved = jax.jit(jax.vmap(lambda *p: body.group.log(gd.holonomy(body, gd.FourierStroke(*p)))))(*parts)
    moved = np.asarray(moved)
    return np.abs(read - moved).max() / np.abs(moved).max()


def main(name):
    with tempfile.TemporaryDirectory() as cache, sync_playwright() as playwright:
        names = ("chromium", "chromium-browser", "google-chrome")
        found = next(filter(None, map(shutil.which, names)), None)
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        cold, said, process, page = first_page(browser, name, cache)
        until(page, "exact")
        page.close()
        process.terminate()
        process.wait()
        warm, _, process, page = first_page(browser, name, cache)
        shown("first page, nothing compiled yet", f"{cold:.1f}", "≤ 20", " s", cold <= 20)
        shown("  what is being computed is said after", f"{said:.1f}", "", " s", True)
        shown("first page, from the cache", f"{warm:.1f}", "≤ 5", " s", warm <= 5)
        frames, middle, late = dragging(page)
        shown("frames a second while dragging", f"{frames:.0f}", "≥ 50", "", frames >= 50)
        shown("from the movement to the number, median", f"{middle:.1f}", "≤ 50", " ms", middle <= 50)
        shown("  95 % of them within", f"{late:.1f}", "≤ 50", " ms", late <= 50)
        miss = accuracy(page, name)
        shown(
            f"{STROKES} random strokes: largest miss over the largest motion", f"{miss:.1e}", "≤ 1e-4", "", miss <= 1e-4
        )
        process.terminate()
        process.wait()
        with tempfile.NamedTemporaryFile(suffix=".html") as file:
            subprocess.run(
                [sys.executable, "-m", "geodyn", "studio", name, "--export", file.name], stdout=subprocess.DEVNULL
            )
            size = os.path.getsize(file.name) / 1e6
        shown("an exported page", f"{size:.2f}", "≤ 1", " MB", size <= 1)
        browser.close()


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else "purcell"
    assert given in BODIES, f"{given} is none of {', '.join(BODIES)}"
    print(f"geodyn studio {given}")
    main(given)
