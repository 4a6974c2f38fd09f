"""PURPOSE: maps of optimal strokes: the best stroke for every pair of two demands, such as a step and a turn."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._control.families.front import Demands, Optimum, Task, front_of
from geodyn._control.methods.method import Direct
from geodyn._control.problem.optimum import OptimalStroke, pack, swimmer_of_file
from geodyn._control.search.checks import known
from geodyn._control.search.failure import StrokeError
from geodyn._control.search.implicit import solve_implicitly
from geodyn._control.search.strokes import optimum_of
from geodyn._foundations.files.archive import differences, named_arrays, read_archive, write_archive
from geodyn._foundations.gate import checked
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Bool, File, Float, Index, Int, Number
from geodyn._locomotion.motion.costs import Costly
from geodyn._locomotion.strokes.stroke import FourierStroke, LegendreStroke, floating

_FORMAT = "geodyn map 1"


class StrokeSheet(eqx.Module):
    """Optimal strokes at the points [N, M] of a grid of demands, one for each point; part of a `StrokeMap`.

    What was not found is NaN, and `result` says why.

    Args:
        cost: [N, M] the energy of each stroke.
        multiplier: [N, M, 2] dE/d(displacement) and dE/d(turn).
        hessian: [N, M, 2, 2] the second derivatives of the energy along the branch of the stroke.
        length: [N, M] of the translation.
        efficiency: [N, M] as by `gd.efficiency`.
        amplitude: [N, M] half of the range of the shape variable that moves farthest.
        kkt_residual: [N, M] of each stroke.
        second_order: [N, M] positive where the stroke is a minimum, see `gd.OptimalStroke`.
        room: [N, M] least distance from the bounds, in parts of their width; infinite where there are none.
        result: [N, M] how the search ended, members of `gd.RESULTS`.
        coefficients: [N, M, n] the numbers of each stroke.
        slopes: [N, M, 2, n] their derivatives by the displacement and the turn, along the branch.

    Example:
        >>> class Planimeters(gd.AbstractConnection):
        ...     group: gd.groups.Translation = gd.groups.Translation(2)
        ...     def form(self, r):
        ...         area = jnp.stack([-r[1], r[0], -r[3], r[2]]) / 2
        ...         return area[None] * jnp.array([[1, 1, 0, 0], [0, 0, 1, 1]])
        >>> body, settings = gd.bundles.KaluzaKlein(Planimeters()), gd.Direct(harmonics=1, steps=4)
        >>> given = {"displacement": [0.5, 1.0], "turn": [0.1, 0.2], "components": (0, 1), "method": settings}
        >>> found = gd.stroke_map(body, **given, region=(-jnp.ones(4), jnp.ones(4)), starts=4)
        >>> print(found.best.found.all(), (found.best.multiplier[1, 1] / (4 * np.pi)).round(6))
        True [1. 1.]
    """

    cost: Float[np.ndarray, "N M"]
    multiplier: Float[np.ndarray, "N M 2"]
    hessian: Float[np.ndarray, "N M 2 2"]
    length: Float[np.ndarray, "N M"]
    efficiency: Float[np.ndarray, "N M"]
    amplitude: Float[np.ndarray, "N M"]
    kkt_residual: Float[np.ndarray, "N M"]
    second_order: Float[np.ndarray, "N M"]
    room: Float[np.ndarray, "N M"]
    result: Int[np.ndarray, "N M"]
    coefficients: Float[np.ndarray, "N M n"]
    slopes: Float[np.ndarray, "N M 2 n"]

    @property
    def found(self) -> Bool[np.ndarray, "N M"]:
        """Where there is an optimal stroke."""
        return np.asarray(self.result) == RESULTS.successful


class StrokeMap(eqx.Module):
    """The best strokes over a grid of two demands, N × M of them; the result of `gd.stroke_map`.

    `map.stroke(d, turn)` is the best stroke between the points of the grid, computed to rounding, and
    `map.optimum(d, turn)` the same with its certificate; both are differentiable. The fields of `best`, such as
    `map.cost`, are fields of the map too.

    Args:
        displacement: [N] the first demand.
        turn: [M] the second demand.
        best: the best stroke that is known at each point, a `gd.strokes.StrokeSheet`.
        other: the second best, of another branch, where one is known that costs no more than 5 % more: where branches
            cross, both are kept.
        branch: [N, M] numbers from 0 of the branches that the best strokes lie on, the largest first; −1 where there is
            none. Neighbours of one number are on one smooth branch; where numbers meet, the best stroke changes its
            kind.
        task: the problem that all points share: the body, the method, the limits.
        end: whether everything was tried, a member of `gd.RESULTS`: successful, interrupted or enough_points.
        untried: how many of the first strokes an interrupted search has not tried yet; it goes on with them.

    Example:
        >>> class Planimeters(gd.AbstractConnection):
        ...     group: gd.groups.Translation = gd.groups.Translation(2)
        ...     def form(self, r):
        ...         area = jnp.stack([-r[1], r[0], -r[3], r[2]]) / 2
        ...         return area[None] * jnp.array([[1, 1, 0, 0], [0, 0, 1, 1]])
        >>> body, settings = gd.bundles.KaluzaKlein(Planimeters()), gd.Direct(harmonics=1, steps=4)
        >>> given = {"displacement": [0.5, 1.0], "turn": [0.1, 0.2], "components": (0, 1), "method": settings}
        >>> found = gd.stroke_map(body, **given, region=(-jnp.ones(4), jnp.ones(4)), starts=4)
        >>> between = found.optimum(0.75, 0.15)
        >>> print(found.gaps, f"{between.cost / (4 * np.pi):.6f}", bool(between.successful))
        0 0.900000 True
    """

    displacement: Float[Array, " N"]
    turn: Float[Array, " M"]
    best: StrokeSheet
    other: StrokeSheet
    branch: Int[np.ndarray, "N M"]
    task: Task
    end: RESULTS = eqx.field(static=True)
    untried: int = eqx.field(static=True, default=0)

    @property
    def cost(self) -> Float[np.ndarray, "N M"]:
        """The energy of the best strokes."""
        return self.best.cost

    @property
    def multiplier(self) -> Float[np.ndarray, "N M 2"]:
        """The derivatives of the energy by displacement and turn."""
        return self.best.multiplier

    @property
    def efficiency(self) -> Float[np.ndarray, "N M"]:
        """The efficiency of the best strokes."""
        return self.best.efficiency

    @property
    def amplitude(self) -> Float[np.ndarray, "N M"]:
        """Half of the range of the shape variable that moves farthest."""
        return self.best.amplitude

    @property
    def kkt_residual(self) -> Float[np.ndarray, "N M"]:
        """The KKT residuals of the best strokes."""
        return self.best.kkt_residual

    @property
    def second_order(self) -> Float[np.ndarray, "N M"]:
        """The smallest eigenvalues of the second variations of the best strokes."""
        return self.best.second_order

    @property
    def result(self) -> Int[np.ndarray, "N M"]:
        """How the search ended at each point."""
        return self.best.result

    @checked
    def save(self, path: File) -> None:
        """Write everything to one `.npz` file that `gd.strokes.load_map` reads; the file appears whole or not at
        all."""
        arrays = _arrays(self.task) | {"displacement": np.asarray(self.displacement), "turn": np.asarray(self.turn)}
        sheets = {"best": self.best, "other": self.other}
        arrays |= {f"{name}.{f}": np.asarray(x) for name, sheet in sheets.items() for f, x in vars(sheet).items()}
        arrays["branch"] = self.branch
        arrays |= {f"like.{name}": np.asarray(x) for name, x in vars(self.task.like).items()}
        about = {
            "form": type(self.task.like).__name__,
            "swimmer": pack(self.task.swimmer, "swimmer", arrays),
        } | _texts(self.task)
        write_archive(path, arrays, {"format": _FORMAT, "map": about, "end": self.end.name, "untried": self.untried})

    @property
    def gaps(self) -> int:
        """The number of points without an optimal stroke."""
        return int(np.sum(~self.best.found))

    @property
    def swimmer(self) -> Costly:
        """The body."""
        return self.task.swimmer

    @checked
    def at(self, i: Index, j: Index) -> FourierStroke | LegendreStroke:
        """The best stroke at the point (i, j) of the grid."""
        return self.task.unknowns(jnp.asarray(self.best.coefficients[i, j]))

    @checked
    def stroke(self, displacement: Number, turn: Number) -> FourierStroke | LegendreStroke:
        """The best stroke that is known for a demand within the grid; see `optimum`."""
        return self.optimum(displacement, turn).stroke

    @checked
    def optimum(self, displacement: Number, turn: Number) -> OptimalStroke:
        """The best stroke for a demand within the grid, with its certificate: the best of those to which the strokes at
        the corners of its cell lead, on either sheet, by Newton's method to rounding.

        Differentiable with respect to both numbers. Raises ValueError for a demand outside of the grid or in a cell
        without strokes, and StrokeError where no stroke is found. Inside jit, what was not found is NaN, and so is what
        was asked for outside of the grid.
        """
        given = floating(displacement, "displacement"), floating(turn, "turn")
        axes = self.displacement, self.turn
        for name, value, axis in zip(("displacement", "turn"), given, axes, strict=True):
            if known(value) and not axis[0] <= value <= axis[-1]:
                raise ValueError(
                    f"StrokeMap: {name} must lie on the grid, from {axis[0]:g} to {axis[-1]:g}, got {value:g}; make a"
                    " map of a larger one."
                )
        demand = jnp.stack(given)
        x, unit, exists = _nearest(self, jax.lax.stop_gradient(demand))
        if known(exists) and not exists:
            raise ValueError(
                f"StrokeMap: no stroke is known at the corners of the cell of displacement {given[0]:g} and turn"
                f" {given[1]:g}: `map.result` says why; make a map with more starts= or a finer grid."
            )
        problem = self.task.problem(x, demand, unit)
        found = solve_implicitly(problem, x, self.task.method, False)
        optimum = optimum_of(problem, found, True)
        if known(optimum.result) and not optimum.successful:
            raise StrokeError(
                f"StrokeMap: {RESULTS(int(optimum.result)).message} (KKT residual {float(optimum.kkt_residual):.1e}) at"
                f" displacement {given[0]:g} and turn {given[1]:g}; make a map of a finer grid.",
                optimum,
            )
        return optimum


def _nearest(found: StrokeMap, demand: Float[Array, "2"]):
    """(the unknowns of the cheapest stroke to which the corners of the cell of a demand lead, its cost, whether any
    corner has one)."""
    axes = found.displacement, found.turn
    cell = [jnp.clip(jnp.searchsorted(a, x, side="right") - 1, 0, a.size - 2) for a, x in zip(axes, demand)]
    places = [(cell[0] + i, cell[1] + j) for i in (0, 1) for j in (0, 1)]

    def of(leaf: Array | np.ndarray) -> Array:
        return jnp.stack([jnp.asarray(leaf)[place] for place in places])

    sheets = [jax.tree.map(of, sheet) for sheet in (found.best, found.other)]
    corners = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *sheets)
    at = jnp.stack([jnp.stack([axes[0][i], axes[1][j]]) for i, j in places])
    step = demand[None] - jnp.concatenate([at, at])
    good = corners.result == RESULTS.successful
    flats = corners.coefficients + jnp.sum(step[:, :, None] * corners.slopes, axis=1)
    first = jnp.argmax(good)
    flats = jnp.where(good[:, None], flats, flats[first][None])
    # Inside jit nothing refuses a demand outside of the grid.
    on_grid = jnp.all(jnp.stack([(axis[0] <= x) & (x <= axis[-1]) for axis, x in zip(axes, demand)]))
    flats = jnp.where(on_grid, flats, jnp.nan)
    units = jnp.where(good, corners.cost, corners.cost[first])
    led = _search_from(found.task, jnp.asarray(flats), demand, units)
    cost = jnp.where((led.result == RESULTS.successful) & good, led.cost, jnp.inf)
    least = jnp.argmin(cost)
    best = jnp.where(jnp.isfinite(cost[least]), jnp.asarray(led.x)[least], jnp.asarray(flats)[first])
    return found.task.unknowns(jnp.asarray(best)), units[least], jnp.any(good)


def _search_from(
    task: Task, flats: Float[Array, "C n"], demand: Float[Array, "2"], units: Float[Array, " C"]
) -> Optimum:
    """The optima for a demand from several strokes."""
    if known((flats, demand, units)):
        each = [front_of(task, flat, demand, unit) for flat, unit in zip(flats, units, strict=True)]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)
    return jax.lax.map(lambda row: front_of(task, row[0], demand, row[1]), (flats, units))


def _arrays(task: Task) -> dict[str, np.ndarray]:
    """The numbers of a task by name."""
    limits = {"lower": np.asarray(task.limits[0]), "upper": np.asarray(task.limits[1])}
    return {f"swimmer.{name}": x for name, x in named_arrays(task.swimmer).items()} | limits


def _texts(task: Task) -> dict:
    """What else makes a task."""
    components = task.demands.components
    return {
        "components": None if components is None else list(components),
        "bounded": list(task.bounded),
        "method": {name: getattr(task.method, name) for name in ("harmonics", "steps", "tolerance", "max_iterations")},
    }


def task_differences(before: Task, beside: dict, now: Task, beside_now: dict) -> list[str]:
    """How two tasks, with arrays beside them, differ: a line for each difference."""
    lines = differences(_arrays(before) | beside, _arrays(now) | beside_now)
    old, new = _texts(before), _texts(now)
    return lines + [f"{name} was {old[name]}, is {new[name]}" for name in old if old[name] != new[name]]


@checked
def load_map(path: File, swimmer: Costly | None = None) -> StrokeMap:
    """The StrokeMap that `map.save(path)` wrote, or `gd.stroke_map(…, save=path)`, complete or not.

    Args:
        path: the `.npz` file.
        swimmer: the body, if it is one of your own.

    Returns:
        The StrokeMap.

    Raises:
        ValueError: if the file is not such a file, is damaged, or holds a map of another swimmer or of one that has to
            be passed.

    Example:
        Areas in two planes, of which the first leads along x and the second along y, each at the cost 4π.

        >>> import tempfile
        >>> class Planimeters(gd.AbstractConnection):
        ...     group: gd.groups.Translation = gd.groups.Translation(2)
        ...     def form(self, r):
        ...         area = jnp.stack([-r[1], r[0], -r[3], r[2]]) / 2
        ...         return area[None] * jnp.array([[1, 1, 0, 0], [0, 0, 1, 1]])
        >>> body, settings = gd.bundles.KaluzaKlein(Planimeters()), gd.Direct(harmonics=1, steps=4)
        >>> given = {"displacement": [0.5, 1.0], "turn": [0.1, 0.2], "components": (0, 1), "method": settings}
        >>> found = gd.stroke_map(body, **given, region=(-jnp.ones(4), jnp.ones(4)), starts=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found.save(f"{folder}/map.npz")
        ...     again = gd.strokes.load_map(f"{folder}/map.npz", body)
        >>> print((again.cost / (4 * np.pi)).round(6).tolist())
        [[0.6, 0.7], [1.1, 1.2]]
    """
    arrays, about = read_archive(path, _FORMAT)
    told = about["map"]
    swimmer = swimmer_of_file("map", path, told["swimmer"], arrays, swimmer)
    components = None if told["components"] is None else (told["components"][0], told["components"][1])
    method = Direct(**told["method"])
    forms = {"FourierStroke": FourierStroke, "LegendreStroke": LegendreStroke}
    parts = {name.removeprefix("like."): jnp.asarray(x) for name, x in arrays.items() if name.startswith("like.")}
    like = forms[told["form"]](**parts)
    limits = jnp.asarray(arrays["lower"]), jnp.asarray(arrays["upper"])
    task = Task(swimmer, Demands(swimmer.group.dim, components), limits, tuple(told["bounded"]), method, like)
    fields = StrokeSheet.__dataclass_fields__
    best, other = (StrokeSheet(**{f: arrays[f"{name}.{f}"] for f in fields}) for name in ("best", "other"))
    axes = jnp.asarray(arrays["displacement"]), jnp.asarray(arrays["turn"])
    return StrokeMap(*axes, best, other, arrays["branch"], task, RESULTS[about["end"]], about.get("untried", 0))
