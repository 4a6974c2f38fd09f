"""`geodyn demo`: two computations with pictures."""

import sys
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen

import jax
import numpy as np

import geodyn as gd
from geodyn import plot as draw
from geodyn._commands.report import folder
from geodyn._commands.stroke import stroke
from geodyn._foundations.progress import compiling
from geodyn._integrators.trajectory import Trajectory
from geodyn._scenarios.exact import RODS, exact_half_separation
from geodyn._scenarios.scenario import Scenario, read_scenario


def demo(part: str | None, out: str) -> int:
    """Elastic rods in H³ and S³ with the exact separation of their ends, and Purcell's optimal stroke at D = 0.1; with
    the part "rods" these only."""
    place = folder(out)
    if part == "rods":
        return _rods(place)
    # Most of both is tracing and compiling, which takes one core: so the rods have a process of their own.
    words = ["demo", "rods", "--out", out]
    rods = Popen([sys.executable, "-m", "geodyn", *words], stdout=PIPE, stderr=PIPE, text=True)
    try:
        print("The cheapest stroke by which Purcell's three-link swimmer moves a tenth of a link's length.", flush=True)
        stroke("purcell", ["--displacement", "0.1", "--out", out])
        with compiling(True):
            told, errors = rods.communicate()
    finally:
        rods.kill()
    print(f"\n{told}", end="")
    if rods.returncode:
        print(errors, end="", file=sys.stderr)
        return rods.returncode
    print(f"""
Drawn in {place}/:
  purcell_stroke.png  the curvature that the stroke encloses, and the swimmer on its way
  rods.png            the rods on their way, and their separation in time, with dots for the exact one
Next: geodyn simulate --list; geodyn simulate elastic_triangle_h3 --plot; geodyn stroke; geodyn stroke pmpy;
or a metric of your own: the README shows how.""")
    return 0


def _rods(place: Path) -> int:
    print("Two masses on a spring fly side by side; curvature pulls them apart (H³) or presses them together (S³).")
    runs = {name: read_scenario(name) for name in RODS}
    trajectories = {name: given.integrate() for name, given in runs.items()}
    for name, trajectory in trajectories.items():
        trajectory.save(place / f"{name}.npz")
    _draw_rods(runs, trajectories).savefig(place / "rods.png", dpi=120)
    return 0


def _draw_rods(runs: dict[str, Scenario], trajectories: dict[str, Trajectory]):
    """The trajectories of the rods, and the computed and the exact separation of their ends."""
    figure = draw.figure(9, 8)
    curves = {}
    for place, (name, trajectory) in enumerate(trajectories.items(), 1):
        space = runs[name].system.space
        t = np.asarray(trajectory.t)
        title = "H³, Poincaré ball" if place == 1 else "S³, stereographic projection"
        draw.trajectory(trajectory, figure.add_subplot(2, 2, place, projection="3d", title=title))
        separation = jax.vmap(partial(gd.distance, space))(trajectory.q[:, 0], trajectory.q[:, 1])
        curves[title[:2]] = np.asarray(separation), 2 * exact_half_separation(name, t)
    draw.comparison(t, curves, figure.add_subplot(2, 1, 2, ylabel="separation of the masses"))
    return figure
