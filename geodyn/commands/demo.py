"""`geodyn demo`: two computations with pictures."""

from functools import partial

import jax
import numpy as np

import geodyn as gd
from geodyn import plot as draw
from geodyn.commands.report import folder
from geodyn.commands.stroke import stroke
from geodyn.exact import RODS, exact_half_separation
from geodyn.integrators.trajectory import Trajectory
from geodyn.scenario import Scenario, read_scenario


def demo(out: str) -> int:
    """Elastic rods in H³ and S³ with the exact separation of their ends, and Purcell's optimal stroke at D = 0.1."""
    place = folder(out)
    print("Two masses on a spring fly side by side; curvature pulls them apart (H³) or presses them together (S³).")
    runs = {name: read_scenario(name) for name in RODS}
    trajectories = {name: given.integrate() for name, given in runs.items()}
    for name, trajectory in trajectories.items():
        trajectory.save(place / f"{name}.npz")
    _draw_rods(runs, trajectories).savefig(place / "rods.png", dpi=120)
    print("\nThe cheapest stroke by which Purcell's three-link swimmer moves a tenth of a link's length.")
    stroke("purcell", ["--displacement", "0.1", "--out", out])
    print(f"""
Drawn in {place}/:
  rods.png            the rods on their way, and their separation on top of the exact one
  purcell_stroke.png  the curvature that the stroke encloses, and the swimmer on its way
Next: geodyn simulate --list; geodyn simulate elastic_triangle_h3 --plot; geodyn stroke; geodyn stroke pmpy;
or a metric of your own: the README shows how.""")
    return 0


def _draw_rods(runs: dict[str, Scenario], trajectories: dict[str, Trajectory]):
    """The trajectories of the rods, and the computed and the exact separation of their ends."""
    figure, curves = draw.figure(9, 8), {}
    for place, (name, trajectory) in enumerate(trajectories.items(), 1):
        space, t = runs[name].system.space, np.asarray(trajectory.t)
        title = "H³, Poincaré ball" if place == 1 else "S³, stereographic projection"
        draw.trajectory(trajectory, figure.add_subplot(2, 2, place, projection="3d", title=title))
        separation = jax.vmap(partial(gd.distance, space))(trajectory.q[:, 0], trajectory.q[:, 1])
        curves[title[:2]] = np.asarray(separation), 2 * exact_half_separation(name, t)
    draw.comparison(t, curves, figure.add_subplot(2, 1, 2, ylabel="separation of the masses"))
    return figure
