"""`geodyn simulate`: computes the trajectory of a scenario, with a summary and pictures."""

import time
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import jax
import numpy as np

from geodyn import plot as draw
from geodyn._commands.report import folder, report
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Float
from geodyn._integrators.saving.checkpoint import remove_checkpoint
from geodyn._integrators.trajectory import Trajectory
from geodyn._mechanics.elements.abstract import AbstractConstraint
from geodyn._mechanics.elements.springs import Rod, Spring
from geodyn._mechanics.points.body import elements_of
from geodyn._mechanics.points.system import System, killing_momentum
from geodyn._scenarios.scenario import Scenario, read_scenario, shipped


def simulate(scenario: str | None, list_shipped: bool, plot: bool, out: str) -> int:
    """Integrate a scenario and write DIR/NAME.npz (`gd.load` reads it) and DIR/NAME.json; with `plot`, DIR/NAME.png and
    .html.

    An interrupted run leaves a checkpoint, DIR/NAME.checkpoint, from which the same command goes on.
    """
    if list_shipped or scenario is None:
        for name, title in shipped().items():
            print(f"{name:24}{title}")
        return 0
    name = Path(scenario).stem
    given = read_scenario(scenario)
    target = folder(out) / name
    checkpoint = Path(f"{target}.checkpoint")
    trajectory, rate = _timed(given, checkpoint)
    trajectory.save(f"{target}.npz")
    conserved = _conserved(given.system, trajectory)
    result = RESULTS(int(trajectory.result))
    stats = trajectory.stats
    reached = float(trajectory.t[0] + stats.steps * trajectory.step_size)
    lines = {f"drift of {key}": f"{np.abs(value - value[0]).max():.2g}" for key, value in conserved.items()}
    lines["steps per second"] = rate
    if np.isfinite(stats.local_error):
        lines["local error of a step"] = f"at most some {float(stats.local_error):.1g} in a coordinate"
    lines["iterations per step"] = f"{int(stats.iterations) / max(1, int(stats.steps)):.3g}"
    report(f"{name}: {int(stats.steps)} steps to t = {reached:g}: {result.message}", lines, target)
    if plot:
        _draw_trajectory(given, trajectory, conserved).savefig(f"{target}.png", dpi=120)
        draw.player(trajectory, f"{target}.html", title=name, labels=given.labels)
    print(f"written: {target}.npz (gd.load)" + f", {target}.png, {target}.html (plays in a browser)" * plot)
    if result == RESULTS.interrupted:
        print("the same command goes on from here")
        return 130
    remove_checkpoint(checkpoint)
    return int(result != RESULTS.successful)


def _timed(given: Scenario, checkpoint: Path) -> tuple[Trajectory, str]:
    """(the trajectory, a text with the steps per second and what they include)."""
    begun = checkpoint.exists()
    start = time.perf_counter()
    trajectory = given.integrate(checkpoint)
    seconds = time.perf_counter() - start
    steps = int(trajectory.stats.steps)
    if begun:
        return trajectory, "not known (the run went on from a checkpoint)"
    if seconds > 30 or int(trajectory.result) == RESULTS.interrupted:
        return trajectory, f"{steps / seconds:.3g} (compilation included)"
    # Run the same compiled code again for the time, without a second progress bar.
    with redirect_stderr(StringIO()):
        start = time.perf_counter()
        given.integrate()
    return trajectory, f"{steps / (time.perf_counter() - start):.3g} (a second run, compiled)"


def _conserved(system: System, trajectory: Trajectory) -> dict:
    """Energy, residuals of constraints, and Killing momenta if these are conserved, at the finite saved states."""
    momenta = np.asarray(trajectory.p).reshape(len(trajectory.t), -1)
    done = np.isfinite(trajectory.t) & np.isfinite(momenta).all(axis=1)
    conserved = {"energy": trajectory.energy}
    constraints = jax.vmap(system.constraint)(trajectory.t, trajectory.q.reshape(len(trajectory.t), -1))
    if constraints.size:
        conserved["constraints"] = constraints
    # Springs and rods are invariant under all isometries; gravity, a fixed point and drag are not.
    has_fields = getattr(system.space, "killing_fields", None) is not None
    if has_fields and all(isinstance(e, Spring | Rod) for e in system.elements):
        momentum = jax.jit(jax.vmap(lambda q, v: killing_momentum(system, q, v)))
        conserved["Killing momenta"] = momentum(*_in_first_charts(system, trajectory))
    return {name: np.asarray(values)[done] for name, values in conserved.items()}


def _in_first_charts(system: System, trajectory: Trajectory) -> tuple[Float[Array, "T N n"], Float[Array, "T N n"]]:
    """(positions, velocities) in charts that have not moved along with the body."""
    charts = system.charts
    if trajectory.frame is None or charts is None:
        return trajectory.q, trajectory.v

    def in_first(frame: Float[Array, " f"], q: Float[Array, "N n"], v: Float[Array, "N n"]) -> tuple[Array, Array]:
        def moved_back(q: Float[Array, "N n"]) -> Float[Array, "N n"]:
            return charts.from_frame(frame, q.reshape(-1)).reshape(q.shape)

        return jax.jvp(moved_back, (q,), (v,))

    return jax.vmap(in_first)(trajectory.frame, trajectory.q, trajectory.v)


def _draw_trajectory(given: Scenario, trajectory: Trajectory, conserved: dict[str, np.ndarray]):
    """A figure of the motion, of the multipliers, separations or coordinates, and of the drift of conserved
    quantities."""
    system = given.system
    labels = given.labels
    figure = draw.figure(11, 5.5)
    grid = figure.add_gridspec(2, 2)
    place = figure.add_subplot(grid[:, 0], projection=draw.projection(system.space))
    above = figure.add_subplot(grid[0, 1])
    below = figure.add_subplot(grid[1, 1])
    draw.trajectory(trajectory, place, labels=labels)
    if elements_of(system, AbstractConstraint):
        draw.multipliers(trajectory, above, labels=labels)
    elif any(isinstance(element, Spring) for element in system.elements):
        draw.separation(trajectory, None, above, labels=labels)
    else:
        draw.coordinates(trajectory, above, labels=labels)
    draw.drift(np.asarray(trajectory.t)[: len(conserved["energy"])], conserved, below, labels=labels)
    return figure
