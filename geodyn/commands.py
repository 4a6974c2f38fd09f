"""What the commands of `geodyn` do. Each prints a summary, writes into the folder `out` and returns the exit status."""

import json
import time
from contextlib import redirect_stderr
from functools import partial
from io import StringIO
from pathlib import Path

import jax
import numpy as np

import geodyn as gd
from geodyn import plot as draw
from geodyn.control.families import ENDS
from geodyn.exact import RODS, exact_half_separation
from geodyn.geometry.spaces import AbstractModelSpace
from geodyn.integrators import RESULTS, Trajectory
from geodyn.integrators.checkpoint import removed
from geodyn.mechanics import Rod, Spring, System, killing_momentum
from geodyn.scenario import Scenario, read_scenario, shipped


def simulate(scenario: str | None, list_shipped: bool, plot: bool, out: str) -> int:
    """Integrate a scenario: DIR/NAME.npz (`gd.load` reads it), DIR/NAME.json; with `plot`, DIR/NAME.png and .html.

    Until its end the run has a checkpoint, DIR/NAME.checkpoint, from which the same command goes on.
    """
    if list_shipped or scenario is None:
        for name, title in shipped().items():
            print(f"{name:24}{title}")
        return 0
    name, given = Path(scenario).stem, read_scenario(scenario)
    target = _folder(out) / name
    checkpoint = target.with_suffix(".checkpoint")
    trajectory, rate = _timed(given, checkpoint)
    trajectory.save(target.with_suffix(".npz"))
    conserved = _conserved(given.system, trajectory)
    result, stats = RESULTS(int(trajectory.result)), trajectory.stats
    reached = float(trajectory.t[0] + stats.steps * trajectory.step_size)
    lines = {f"drift of {key}": f"{np.abs(value - value[0]).max():.2g}" for key, value in conserved.items()}
    lines["steps per second"] = rate
    lines["iterations per step"] = f"{int(stats.iterations) / max(1, int(stats.steps)):.3g}"
    _report(f"{name}: {int(stats.steps)} steps to t = {reached:g}: {result.message}", lines, target)
    if plot:
        _draw_trajectory(given.system, trajectory, conserved).savefig(target.with_suffix(".png"), dpi=120)
        draw.player(trajectory, target.with_suffix(".html"), title=name)
    print(f"written: {target}.npz (gd.load)" + f", {target}.png, {target}.html (plays in a browser)" * plot)
    if result == RESULTS.interrupted:
        print("the same command goes on from here")
        return 130
    removed(checkpoint)
    return int(result != RESULTS.successful)


def _timed(given: Scenario, checkpoint: Path) -> tuple[Trajectory, str]:
    """The trajectory, and its steps per second with what they count."""
    begun, start = checkpoint.exists(), time.perf_counter()
    trajectory = given.integrate(checkpoint)
    seconds, steps = time.perf_counter() - start, int(trajectory.stats.steps)
    if begun:
        return trajectory, "not known (the run went on from a checkpoint)"
    if seconds > 30 or int(trajectory.result) == RESULTS.interrupted:
        return trajectory, f"{steps / seconds:.3g} (compilation included)"
    # The same compiled code again, without a second progress bar.
    with redirect_stderr(StringIO()):
        start = time.perf_counter()
        given.integrate()
    return trajectory, f"{steps / (time.perf_counter() - start):.3g} (a second run, compiled)"


def _conserved(system: System, trajectory: Trajectory) -> dict:
    """Energy, constraints and Killing momenta over time, as far as they were computed and are conserved."""
    done = np.isfinite(trajectory.t) & np.isfinite(np.asarray(trajectory.p).reshape(len(trajectory.t), -1)).all(axis=1)
    conserved = {"energy": trajectory.energy}
    constraints = jax.vmap(system.constraint)(trajectory.t, trajectory.q.reshape(len(trajectory.t), -1))
    if constraints.size:
        conserved["constraints"] = constraints
    # Springs and rods look the same to every isometry; gravity, a fixed point and drag do not.
    if isinstance(system.space, AbstractModelSpace) and all(isinstance(e, Spring | Rod) for e in system.elements):
        momentum = jax.jit(jax.vmap(lambda q, v: killing_momentum(system, q, v)))
        conserved["Killing momenta"] = momentum(trajectory.q, trajectory.v)
    return {name: np.asarray(values)[done] for name, values in conserved.items()}


def _folder(out: str) -> Path:
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _report(title: str, lines: dict, target: Path) -> None:
    """Print a summary and keep it as JSON beside the result."""
    print(f"\n{title}")
    for name, value in lines.items():
        print(f"  {name:26}{value:.12g}" if isinstance(value, float) else f"  {name:26}{value}")
    target.with_suffix(".json").write_text(json.dumps({"title": title, **lines}, indent=1) + "\n")


def stroke_purcell(lengths: list, drag: float, drag_ratio: float, displacement: float, everywhere: bool, **how) -> int:
    """The optimal stroke of Purcell's swimmer around the straight shape, or `everywhere`, around any."""
    swimmer, guess = gd.swimmers.Purcell(lengths=lengths, drag=drag, drag_ratio=drag_ratio), None
    if everywhere:
        found = gd.optimal_strokes(swimmer, displacement=displacement, progress=True)
        for optimum in found:
            print(f"energy {float(optimum.cost):.12g} around the shape {np.asarray(optimum.stroke.mean)}")
        guess = found[0].stroke
    return _stroke("purcell", swimmer, displacement=displacement, guess=guess, **how)


def stroke_pmpy(volume: float, viscosity: float, base: list | None, **how) -> int:
    """The optimal loop of the pushmepullyou through a base point, by default at distance 10 with equal volumes."""
    swimmer = gd.swimmers.PushMePullYou(volume=volume, viscosity=viscosity)
    return _stroke("pmpy", swimmer, base=base or [10.0, volume / 2], **how)


def _stroke(
    name: str,
    swimmer: gd.AbstractSwimmer,
    out: str,
    displacement: float,
    family: float | None = None,
    animate: bool = False,
    **options,
) -> int:
    """The best stroke, its pictures and its film; with `family` also the best ones from there to that displacement."""
    start = time.perf_counter()
    optimum = gd.optimal_stroke(swimmer, displacement=displacement, **options, progress=True)
    target = _folder(out) / f"{name}_stroke"
    optimum.save(f"{target}.npz")
    _draw_stroke(swimmer, optimum.stroke).savefig(f"{target}.png", dpi=120)
    lines = {
        "energy": float(optimum.cost),
        "multiplier dE/dD": float(optimum.multiplier),
        "KKT residual": float(optimum.kkt_residual),
        "Wong residual": float(optimum.wong_residual),
        "seconds, compiling": time.perf_counter() - start,
    }
    _report(f"optimal stroke of {name}, net displacement {displacement:g}", lines, target)
    print(f"stroke {target}.npz (gd.load_stroke), picture {target}.png")
    if animate:
        draw.swim(swimmer, optimum.stroke, f"{target}.gif")
        print(f"film {target}.gif")
    if family is not None:
        _family(name, swimmer, (displacement, family), optimum.stroke, options.get("base"), target)
    return 0


def _family(name, swimmer, interval, stroke, base, target):
    """The best strokes over an interval of displacements: DIR/NAME_stroke_family.png and .json."""
    found = gd.stroke_family(swimmer, stroke, interval=interval, base=base, progress=True)
    target = target.with_name(f"{target.name}_family")
    curve = (np.asarray(x) for x in (found.displacement, found.cost, found.multiplier))
    draw.family(*curve).figure.savefig(f"{target}.png", dpi=120)
    lines = {"strokes": len(found.cost), "from": float(found.displacement[0]), "to": float(found.displacement[-1])}
    lines["ends because"] = ENDS[found.end]
    if found.best is not None:
        lines["best D²/E"] = float(found.displacement[found.best] ** 2 / found.cost[found.best])
        lines["at D"] = float(found.displacement[found.best])
    lines["KKT residual, largest"] = float(found.kkt_residual[:-1].max())
    _report(f"family of optimal strokes of {name}", lines, target)
    print(f"picture {target}.png")


def demo(out: str) -> int:
    """Elastic rods in H³ and S³ beside their exact separation, and Purcell's optimal stroke at D = 0.1."""
    folder = _folder(out)
    print("Two masses on a spring fly side by side; curvature pulls them apart (H³) or presses them together (S³).")
    runs = {name: read_scenario(name) for name in RODS}
    trajectories = {name: given.integrate() for name, given in runs.items()}
    for name, trajectory in trajectories.items():
        trajectory.save(folder / f"{name}.npz")
    _draw_rods(runs, trajectories).savefig(folder / "rods.png", dpi=120)
    print("\nThe cheapest stroke by which Purcell's three-link swimmer moves a tenth of a link's length.")
    _stroke("purcell", gd.swimmers.Purcell(), out, 0.1)
    print(f"""
Drawn in {folder}/:
  rods.png            the rods on their way, and their separation on top of the exact one
  purcell_stroke.png  the curvature that the stroke encloses, and the swimmer on its way
Next: geodyn simulate --list; geodyn simulate elastic_triangle_h3 --plot; geodyn stroke pmpy --displacement 0.1;
or a metric of your own: the README shows how.""")
    return 0


def _draw_rods(runs: dict[str, Scenario], trajectories: dict[str, Trajectory]):
    """The rods of the demo on their way, and their separation beside the exact one."""
    figure, curves = draw.figure(9, 8), {}
    for place, (name, trajectory) in enumerate(trajectories.items(), 1):
        space, t = runs[name].system.space, np.asarray(trajectory.t)
        title = "H³, Poincaré ball" if place == 1 else "S³, stereographic projection"
        draw.trajectory(trajectory, figure.add_subplot(2, 2, place, projection="3d", title=title))
        separation = jax.vmap(partial(gd.distance, space))(trajectory.q[:, 0], trajectory.q[:, 1])
        curves[title[:2]] = np.asarray(separation), 2 * exact_half_separation(name, t)
    draw.comparison(t, curves, figure.add_subplot(2, 1, 2, ylabel="separation of the masses"))
    return figure


def _draw_stroke(swimmer, stroke):
    """The curvature that the stroke encloses, and the swimmer on its way."""
    r = np.asarray(jax.vmap(stroke)(np.linspace(0.0, 1.0, 129)))
    margin = 0.2 * np.ptp(r, axis=0)
    figure = draw.figure(10, 5.5)
    left, right = figure.subplots(1, 2, width_ratios=[1.2, 1])
    draw.curvature(swimmer, 0, r.min(axis=0) - margin, r.max(axis=0) + margin, left)
    draw.stroke(stroke, left)
    draw.swimmer(swimmer, stroke, right)
    return figure


def _draw_trajectory(system, trajectory, conserved):
    """The motion, separations or multipliers, and drifts."""
    figure = draw.figure(11, 5.5)
    grid = figure.add_gridspec(2, 2)
    place = figure.add_subplot(grid[:, 0], projection=draw.projection(system.space))
    above, below = figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, 1])
    draw.trajectory(trajectory, place)
    if system.constraints:
        draw.multipliers(trajectory, above)
    elif any(isinstance(element, Spring) for element in system.elements):
        draw.separation(trajectory, None, above)
    else:
        draw.coordinates(trajectory, above)
    draw.drift(np.asarray(trajectory.t)[: len(conserved["energy"])], conserved, below)
    return figure
