"""`geodyn sweep`: a scenario, or the best stroke of a swimmer, for many values of its numbers."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import geodyn as gd
from geodyn import plot as draw
from geodyn._catalogue.options import body_of
from geodyn._commands.members import Sweep, members_of
from geodyn._commands.report import folder, report
from geodyn._foundations.files.toml import Source
from geodyn._foundations.results import RESULTS, AbstractOutcome
from geodyn._foundations.typing import Array, Axes, Float, Int, Scalar
from geodyn._mechanics.points.system import edges
from geodyn._plot.style import axes
from geodyn._scale.ensemble import Ensemble
from geodyn._scenarios.scenario import scenario_of

PHASES = 65


def sweep(file: str, out: str, plot: bool) -> int:
    """Compute all members that the table [sweep] of a file describes and write DIR/NAME.zarr, which xarray opens, and
    DIR/NAME.json; with `plot`, DIR/NAME.png. The same command goes on where it was interrupted.

    The file is a scenario, or has the tables [swimmer] and [stroke]: then a member is an optimal stroke.
    """
    source = Source(Path(file))
    given = members_of(source)
    name = Path(file).stem
    function = _stroke if "swimmer" in source.tables else _trajectory
    first = given.member(source, 0)
    for i in given.extremes:
        _check(given.member(source, i))
    jax.eval_shape(lambda: _arrays(function(first, first)))
    target = folder(out) / name
    found = gd.ensemble(
        lambda member: function(given.put(source, member), first),
        given.values,
        folder=f"{target}.zarr",
        progress=jax.process_index() == 0,
    )
    if jax.process_index() > 0:
        return 0
    if np.any(found.status == RESULTS.interrupted):
        done = int(np.sum(found.status != RESULTS.interrupted))
        print(f"{done} of {len(found)} members are in {target}.zarr; the same command goes on from there")
        return 130
    codes, counts = np.unique(found.status, return_counts=True)
    lines = {RESULTS(code).name: int(count) for code, count in zip(codes, counts, strict=True)}
    report(f"{name}: {len(found)} members", lines, target)
    if plot:
        picture = _draw_strokes if function is _stroke else _draw_motions
        picture(first, given, found).savefig(f"{target}.png", dpi=120)
    print(f"written: {target}.zarr (xarray.open_zarr)" + f", {target}.png" * plot)
    return int(len(found.failed) == len(found))


def _check(source: Source) -> None:
    """Raises the error, with its line, of what a system or a swimmer does not accept, while no number is traced."""
    if "swimmer" in source.tables:
        _swimmer(source)
    else:
        given = scenario_of(source)
        source.build(("body",), lambda: given.system.check(0.0, np.asarray(given.q0), np.asarray(given.v0)))


def _arrays(tree: Any) -> list[Array]:
    return [x for x in jax.tree.leaves(tree) if isinstance(x, jax.Array)]


def _trajectory(source: Source, first: Source) -> gd.Trajectory:
    given = scenario_of(source)
    return gd.integrate(given.system, given.q0, given.v0, **{**given.options, "throw": False})


class _Stroke(AbstractOutcome):
    """What is kept of an optimal stroke: its energy, `PHASES` of its shapes and the certificate."""

    energy: Scalar
    shapes: Float[Array, "phases m"]
    result: Int[Array, ""]
    displacement: Float[Array, "..."]
    multiplier: Float[Array, "..."]
    kkt_residual: Scalar


def _stroke(source: Source, first: Source) -> _Stroke:
    """The optimal stroke of a swimmer. All members begin where the first one does."""
    known, body = _swimmer(source)
    table = source.allow(("stroke",), ["displacement", "harmonics"])
    displacement = table.get("displacement", known.displacement)
    harmonics = source.get(("stroke", "harmonics"), int, 8)
    wanted = jnp.asarray(displacement, float)
    wanted = wanted[0] if wanted.shape == (1,) else wanted
    start = None if known.start is None else np.asarray(known.start(_swimmer(first)[1]), float)
    begin: dict[str, Any] = {"base": start} if known.based else {"guess": start}
    if known.bounded and known.region is not None:
        begin["bounds"] = known.region(_swimmer(first)[1])
    method = gd.Direct(harmonics=harmonics, steps=6 * harmonics)
    posed = known.posed(body, wanted.size)
    best = source.build(
        ("stroke",), lambda: gd.optimal_stroke(posed, displacement=wanted, method=method, throw=False, **begin)
    )
    shapes = jax.vmap(best.stroke)(jnp.linspace(0.0, 1.0, PHASES))
    return _Stroke(best.cost, shapes, best.result, best.displacement, best.multiplier, best.kkt_residual)


def _swimmer(source: Source):
    """(what the command line knows of the swimmer, the swimmer with the parameters of the file)."""
    known = body_of(source.get(("swimmer", "name"), str))
    return known, source.call(("swimmer",), partial(known.kind, **known.parameters), "name")


def _draw_motions(first: Source, given: Sweep, found: Ensemble):
    """What one watches, the distance of two points that are joined or the first coordinate of a single one, for all
    members: over time, and at the end over the numbers that vary."""
    system = scenario_of(first).system
    q = jnp.asarray(found.values.q[:])
    t = np.asarray(found.values.t[:])
    if q.shape[2] > 1:
        (i, j), *_ = [*edges(system), (0, 1)]
        watched = jax.jit(jax.vmap(jax.vmap(lambda q: gd.distance(system.space, q[i], q[j]))))(q)
        name = f"distance of the points {i} and {j}"
    else:
        watched = q[:, :, 0, 0]
        name = "first coordinate"
    watched = np.asarray(watched)
    figure = draw.figure(11, 4.5)
    left, right = figure.subplots(1, 2)
    one = given.draws == 1 and len(given.values) == 1
    colours = {"parameter": next(iter(given.values.values())), "name": next(iter(given.values))} if one else {}
    draw.fan(t, watched, left, **colours).set_ylabel(name)
    _over_parameters(given, watched[:, -1], right, f"{name}, at the end")
    return figure


def _draw_strokes(first: Source, given: Sweep, found: Ensemble):
    """The best strokes in the plane of the first two shape variables, and their energies over the numbers that vary."""
    shapes = found.values.shapes[:]
    figure = draw.figure(11, 4.5)
    left, right = figure.subplots(1, 2)
    axes(left, xlabel="first shape variable", ylabel="second shape variable")
    for values in shapes[np.unique(np.linspace(0, len(shapes) - 1, 50).astype(int))]:
        left.plot(values[:, 0], values[:, 1], color=draw.COLOURS[0], alpha=0.4, linewidth=1)
    _over_parameters(given, found.values.energy[:], right, "energy of the stroke")
    return figure


def _over_parameters(given: Sweep, values: np.ndarray, ax: Axes, name: str) -> None:
    """One number of each member: a curve over one parameter, a map over two, else how it is distributed."""
    names = list(given.grid)
    means = values.reshape(*map(len, given.grid.values()), given.draws).mean(axis=-1)
    if len(names) == 1:
        axes(ax, xlabel=names[0], ylabel=name).plot(given.grid[names[0]], means, ".-" if len(means) < 50 else "-")
    elif len(names) == 2:
        first, second = given.grid.values()
        draw.heatmap(first, second, means, ax, name=name).set(xlabel=names[0], ylabel=names[1])
    else:
        axes(ax, xlabel=name, ylabel="members").hist(values[np.isfinite(values)], bins="auto", color=draw.COLOURS[0])
