"""PURPOSE: the search for the best strokes over a grid of two demands, from each point to its neighbours."""

import dataclasses
import os
import time
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from tqdm import tqdm

from geodyn._control.families.front import Demands, Optimum, Task, coarse_from, solve_front
from geodyn._control.families.maps import StrokeMap, StrokeSheet, load_map, task_differences
from geodyn._control.families.varied import towing_drag
from geodyn._control.methods.method import Direct
from geodyn._control.problem.minimise import Progress
from geodyn._control.search.checks import (
    check_count,
    check_kinds,
    check_moves,
    check_pace,
    check_smooth,
    checked_limits,
    numbers,
    told_by,
)
from geodyn._control.search.guess import small_stroke, unknowns
from geodyn._control.search.led import LED_MISS, led_stroke
from geodyn._control.search.starts import checked_region, distinct
from geodyn._control.search.strokes import centre_of
from geodyn._engine.jit import traced_numbers
from geodyn._foundations.gate import checked
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Count, File, Float, Index, Number, Vector
from geodyn._locomotion.motion.costs import Costly, energy
from geodyn._locomotion.strokes.stroke import FourierStroke, Stroke, floating, shape_at

WORTH = 1.05
"""How much more than the best a stroke of another branch may cost, to be followed and kept."""

SEEDS = 4
"""The most strokes of the random search that are followed from one point."""

ATTEMPTS = 10
"""The most attempts for each point of the grid, on the mean."""

CHALLENGES = 2
"""The most strokes of neighbours that are tried at a point that has a stroke already, counted from when that last
became cheaper."""

RETRIES = 4
"""How often a search that ended too early at a point, for want of iterations or at a saddle, may go on there: near a
place where the best stroke changes its kind, the energy is flat and a search takes long."""

NEIGHBOURS = ((0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))

AT_ONCE = 16
"""How many strokes are tried at once; between these the file is written and the bar shown."""

EVERY = 20.0
"""How many seconds pass at least before the file is written again."""


# The indices (i, j) of a point of the grid.
Place = tuple[int, int]


class _Record(NamedTuple):
    """An optimum at the place (i, j) of the grid. No two have the same number, by which others refer to it."""

    number: int
    place: Place
    optimum: Optimum


class _Search:
    """The search of the best strokes at all points of a grid: each solution is offered to the neighbours of its point,
    where it may be the first, cheaper than what is known there, or of another branch."""

    def __init__(self, task: Task, axes: tuple[np.ndarray, np.ndarray]):
        self.task = task
        self.axes = axes
        self.shape = len(axes[0]), len(axes[1])
        # The best strokes of each point, at most two, the cheaper one first.
        self.kept: dict[Place, list[_Record]] = {}
        # Of a point without a stroke, how the last search ended.
        self.why = np.full(self.shape, RESULTS.lost)
        # Of a point, the cheapest stroke at which a search ended too early, and how many went on from such strokes.
        self.unfinished: dict[Place, Optimum] = {}
        self.retried: dict[Place, int] = {}
        # (number of a record, point at which its stroke was tried).
        self.tried: set[tuple[int, Place]] = set()
        # Pairs of numbers of records that are on one smooth branch.
        self.linked: set[tuple[int, int]] = set()
        # The points whose neighbours have something new to offer: a dictionary, as a set that keeps the order.
        self.waiting: dict[Place, None] = {}
        # How many strokes of neighbours were tried at a point since its own last became cheaper.
        self.spent: dict[Place, int] = {}
        self.attempts = 0
        self.count = 0

    def demand(self, place: Place) -> np.ndarray:
        """The two numbers of a point."""
        return np.array([self.axes[0][place[0]], self.axes[1][place[1]]])

    def around(self, place: Place) -> list[tuple[int, int]]:
        """The neighbours of a point on the grid."""
        i, j = place
        moved = [(i + di, j + dj) for di, dj in NEIGHBOURS]
        rows, columns = self.shape
        return [(i, j) for i, j in moved if 0 <= i < rows and 0 <= j < columns]

    def solve(self, offers: list[tuple[Place, np.ndarray, float, _Record | None]]) -> None:
        """Solves from the offered strokes (place, coefficients, cost, where from), and keeps what is worth it."""
        flats = np.stack([flat for _, flat, _, _ in offers])
        demands = np.stack([self.demand(place) for place, _, _, _ in offers])
        units = np.array([cost for _, _, cost, _ in offers])
        found = solve_front(self.task, flats, demands, units)
        self.attempts += len(offers)
        for i, (place, _, _, source) in enumerate(offers):
            optimum = jax.tree.map(lambda leaf, i=i: leaf[i], found)
            self._keep(place, optimum, source)

    def _keep(self, place: Place, optimum: Optimum, source: _Record | None) -> None:
        """Keeps what a search from the stroke `source` found, if it is new and one of the two best at its point; then
        this point and its neighbours wait for offers again."""
        here = self.kept.setdefault(place, [])
        if optimum.result != RESULTS.successful:
            if not here:
                self.why[place] = optimum.result
            before = self.unfinished.get(place)
            ended_early = optimum.result in (RESULTS.too_many_iterations, RESULTS.stalled)
            if ended_early and (before is None or optimum.cost < before.cost):
                self.unfinished[place] = optimum
            return
        for record in here:
            if _is_same(record.optimum, optimum):
                # Known already, but not that the branch of the source leads to it.
                self._link(source, record)
                return
        new = _Record(self.count, place, optimum)
        self.count += 1
        least = min([optimum.cost, *(record.optimum.cost for record in here)])
        ranked = sorted([*here, new], key=lambda record: float(record.optimum.cost))
        self.kept[place] = [record for record in ranked[:2] if record.optimum.cost <= WORTH * least]
        if any(record is new for record in self.kept[place]):
            if optimum.cost == least:
                self.spent[place] = 0
            self._link(source, new)
            self.waiting |= dict.fromkeys([place, *self.around(place)])

    def _link(self, a: _Record | None, b: _Record) -> None:
        """Notes that two strokes are on one smooth branch."""
        if a is not None:
            self.linked |= {(a.number, b.number), (b.number, a.number)}

    def are_linked(self, a: _Record, b: _Record) -> bool:
        """Whether two optima at neighbouring points are on one smooth branch, so far as is known."""
        pair = (a.number, b.number)
        if pair in self.linked:
            return True
        step = self.demand(b.place) - self.demand(a.place)
        if _are_on_one_branch(a, b, step):
            self._link(a, b)
        return pair in self.linked

    def offers(self) -> list:
        """What to try next: strokes of neighbours, and where no neighbour has any to offer, unfinished ones."""
        return self._from_neighbours() or self._to_go_on()

    def _to_go_on(self) -> list:
        """For each point at which a search ended too early with the cheapest stroke that is known there, this stroke;
        not too often."""
        chosen = []
        unfinished = self.unfinished
        self.unfinished = {}
        for place, optimum in unfinished.items():
            cheapest = min((record.optimum.cost for record in self.kept.get(place, [])), default=np.inf)
            count = self.retried.get(place, 0)
            if optimum.cost < cheapest and count < RETRIES:
                self.retried[place] = count + 1
                chosen.append((place, np.asarray(optimum.x), float(optimum.cost), None))
        return chosen

    def _from_neighbours(self) -> list:
        """For each point that waits, the most promising stroke of its neighbours, unless it was tried."""
        chosen = []
        waiting = self.waiting
        self.waiting = {}
        for place in waiting:
            here = self.kept.get(place, [])
            best = min((record.optimum.cost for record in here), default=np.inf)
            options = []
            for there in self.around(place):
                step = self.demand(place) - self.demand(there)
                for record in self.kept.get(there, []):
                    was_tried = (record.number, place) in self.tried
                    # What is on the branch of a stroke that is known here leads to that again.
                    if was_tried or any(self.are_linked(record, known) for known in here):
                        continue
                    optimum = record.optimum
                    # What the cost and the coefficients will be here, by their Taylor series in the demand.
                    cost = optimum.cost + step @ optimum.prices + step @ optimum.bending @ step / 2
                    if cost <= (best if len(here) > 1 else WORTH * best):
                        options.append((cost, record, optimum.x + step @ optimum.slopes))
            if not options or (here and self.spent.get(place, 0) >= CHALLENGES):
                continue
            if here:
                self.spent[place] = self.spent.get(place, 0) + 1
            cost, record, flat = min(options, key=lambda option: option[0])
            self.tried.add((record.number, place))
            # The cost is the unit of the search, which must be positive; a parabola can predict any.
            unit = max(float(cost), float(record.optimum.cost) / 4)
            chosen.append((place, flat, unit, record))
            self.waiting[place] = None
        first = [offer for offer in chosen if not self.kept.get(offer[0])]
        if not first:
            return chosen
        # What has no stroke yet comes first: the others may gain from it.
        for place, _, _, record in chosen:
            if self.kept.get(place) and record is not None:
                self.tried.discard((record.number, place))
                self.spent[place] -= 1
        return first

    def branches(self) -> np.ndarray:
        """The number of the branch of the best stroke at each point, the largest branch first; −1 where is none."""
        label = np.full(self.shape, -1)
        sizes = []
        for first in np.ndindex(*self.shape):
            if label[first] >= 0 or not self.kept.get(first):
                continue
            # All points to which links lead from the first one are on its branch.
            label[first] = len(sizes)
            stack = [first]
            size = 0
            while stack:
                place = stack.pop()
                size += 1
                for there in self.around(place):
                    linked = label[there] < 0 and self.kept.get(there)
                    if linked and self.are_linked(self.kept[place][0], self.kept[there][0]):
                        label[there] = len(sizes)
                        stack.append(there)
            sizes.append(size)
        if not sizes:
            return label
        # The rank of each branch by its size: sorting twice inverts the order.
        rank = np.argsort(np.argsort(-np.array(sizes), kind="stable"), kind="stable")
        return np.where(label < 0, -1, rank[label])

    def begin_at(self, found: StrokeMap) -> None:
        """Goes on from a map that is not complete: all that is in it is offered again."""
        for sheet in (found.best, found.other):
            fields = Optimum(
                x=sheet.coefficients,
                slopes=sheet.slopes,
                cost=sheet.cost,
                prices=sheet.multiplier,
                bending=sheet.hessian,
                length=sheet.length,
                amplitude=sheet.amplitude,
                kkt_residual=sheet.kkt_residual,
                second_order=sheet.second_order,
                room=sheet.room,
                result=sheet.result,
            )
            for i, j in np.argwhere(sheet.found):
                here = int(i), int(j)
                optimum = Optimum(*(np.asarray(field)[here] for field in fields))
                self.kept.setdefault(here, []).append(_Record(self.count, here, optimum))
                self.count += 1
                self.waiting |= dict.fromkeys(self.around(here))

    def map_so_far(self, drag: float, end: RESULTS, untried: int) -> StrokeMap:
        """The map so far; `untried` is how many of the strokes to begin with are still to be tried."""
        n = ravel_pytree(self.task.like)[0].size
        displacement, turn = map(floating, self.axes)
        best = self.sheet(0, drag, n)
        other = self.sheet(1, drag, n)
        return StrokeMap(displacement, turn, best, other, self.branches(), self.task, end, untried)

    def sheet(self, rank: int, drag: float, n: int) -> StrokeSheet:
        """The optima of one rank, 0 for the best and 1 for the other, as arrays of n coefficients and so on; NaN where
        there is none."""
        fields: dict[str, np.ndarray] = {}
        # Of x, slopes, cost, prices, bending and of five numbers.
        shapes = ((n,), (2, n), (), (2,), (2, 2), (), (), (), (), ())
        nothing = Optimum(*(np.full(shape, np.nan) for shape in shapes), result=np.array(RESULTS.lost))
        grid = []
        for place in np.ndindex(*self.shape):
            here = self.kept.get(place, [])
            grid.append(here[rank].optimum if len(here) > rank else nothing)
        for name in Optimum._fields:
            values = np.stack([np.asarray(getattr(optimum, name)) for optimum in grid])
            fields[name] = values.reshape(*self.shape, *values.shape[1:])
        result = fields["result"]
        if rank == 0:
            result = np.where(result == RESULTS.lost, self.why, result)
        return StrokeSheet(
            cost=fields["cost"],
            multiplier=fields["prices"],
            hessian=fields["bending"],
            length=fields["length"],
            efficiency=drag * fields["length"] ** 2 / fields["cost"],
            amplitude=fields["amplitude"],
            kkt_residual=fields["kkt_residual"],
            second_order=fields["second_order"],
            room=fields["room"],
            result=result,
            coefficients=fields["x"],
            slopes=fields["slopes"],
        )


def _is_same(a: Optimum, b: Optimum) -> bool:
    """Whether two optima for one demand are the same up to a symmetry: they agree in cost, prices and amplitude."""
    # The cost is stationary at an optimum: strokes that differ by 1e-3 differ in it by the square of that.
    agree_in_cost = np.isclose(a.cost, b.cost, rtol=1e-6, atol=0.0)
    agree_in_amplitude = np.isclose(a.amplitude, b.amplitude, rtol=1e-3)
    agree_in_prices = np.linalg.norm(a.prices - b.prices) <= 1e-3 * np.linalg.norm(a.prices)
    return bool(agree_in_cost and agree_in_amplitude and agree_in_prices)


def _are_on_one_branch(a: _Record, b: _Record, step: Float[np.ndarray, "2"]) -> bool:
    """Whether two optima at neighbouring points can be on one smooth branch.

    By the trapezoidal rule the coefficients change from one to the other as their derivatives at both say; or, if not,
    the cost and its first derivatives (the prices) do.
    """
    before = a.optimum
    after = b.optimum
    x_change = step @ before.slopes
    x_change_after = step @ after.slopes
    longest = max(np.linalg.norm(x_change), np.linalg.norm(x_change_after))
    miss = np.linalg.norm(after.x - before.x - (x_change + x_change_after) / 2)
    # A quarter of the change is allowed for the bend of a branch; the other term is for optima that hardly change.
    if miss <= 0.25 * longest + 1e-4 * np.linalg.norm(before.x):
        return True
    price_change = before.bending @ step
    price_change_after = after.bending @ step
    size = max(np.linalg.norm(price_change), np.linalg.norm(price_change_after))
    kink = np.linalg.norm(after.prices - before.prices - (price_change + price_change_after) / 2)
    jump = abs(after.cost - before.cost - (before.prices + after.prices) @ step / 2)
    # Where the second derivatives of the cost change linearly by the part δ of them the jump is δ/12 of size·|step|:
    # they may change by a quarter.
    is_smooth = kink <= 0.2 * size
    is_continuous = jump <= 0.02 * size * np.linalg.norm(step) + 1e-9 * abs(before.cost)
    return bool(is_smooth and is_continuous)


def _axis(name: str, values: Any, least: int = 2) -> Float[np.ndarray, " N"]:
    """An axis of the grid: growing numbers; else ValueError."""
    axis = np.asarray(numbers(values), float)
    if axis.ndim != 1 or axis.size < least or not np.all(np.isfinite(axis)) or not np.all(np.diff(axis) > 0):
        raise ValueError(
            f"stroke_map: {name} must be {least} or more growing finite numbers, such as jnp.linspace(0.02, 0.3, 20),"
            f" got {values}."
        )
    return axis


def _demands(swimmer: Costly, components: Any) -> Demands:
    """What the two demands are; ValueError for components that the group has not."""
    group = swimmer.group
    k = group.dim
    name = type(group).__name__
    if components is None:
        if group.translations < 2 or k - group.translations != 1:
            raise ValueError(
                f"stroke_map: components must be two of the {k} coordinates of the displacement in {name}, such as"
                " (0, 1): only in the plane is a displacement a length and a turn; got None."
            )
        return Demands(k, None)
    is_pair = isinstance(components, tuple | list) and len(components) == 2
    if not is_pair or not all(isinstance(i, int) and 0 <= i < k for i in components) or components[0] == components[1]:
        raise ValueError(
            f"stroke_map: components must be two different coordinates of {name}, from 0 to {k - 1}, got {components}."
        )
    return Demands(k, (components[0], components[1]))


def _stroke_around(task: Task, centre: Array, demand: Float[np.ndarray, "2"]) -> Stroke:
    """A stroke about a shape that meets a demand: the best small ellipse, or, where no small loop leads that way, the
    best of many strokes, if that meets it better."""
    vector = task.demands.vector(jnp.asarray(demand))
    ellipse, exists = small_stroke(task.swimmer, centre, vector, task.demands.left)
    if exists:
        return ellipse
    led = led_stroke(task.swimmer, centre, vector, None, task.limits, task.bounded, energy, task.demands.left)
    return led.stroke if led.miss < LED_MISS else ellipse


def _seeds(search: _Search, guess: Stroke | Array | None, region: Any, starts: int, seed: int, places: Any) -> list:
    """Strokes to begin with, as offers: the guess, and the distinct ends of coarse searches from random strokes."""
    task = search.task
    offers = []

    def offer(place: Place, stroke: Stroke, cost: float | None = None) -> None:
        vector = task.demands.vector(jnp.asarray(search.demand(place)))
        x, size = unknowns(task.swimmer, stroke, None, vector, task.method)
        offers.append((place, np.asarray(ravel_pytree(x)[0]), float(size) if cost is None else cost, None))

    for number, place in enumerate(places):
        if callable(guess):
            offer(place, guess)
        elif guess is not None:
            offer(place, _stroke_around(task, guess, search.demand(place)))
        if region is None:
            continue
        keys = jax.random.split(jax.random.key(seed + number), starts)
        strokes, signatures, result = coarse_from(task, jnp.asarray(search.demand(place)), region, keys)
        good = np.flatnonzero(np.asarray(result) == RESULTS.successful)
        if not good.size:
            search.why[place] = np.asarray(result)[0]
        order = good[np.argsort(np.asarray(signatures)[good, 0])]
        ranked = np.asarray(signatures)[order]
        for i in distinct(list(ranked), 0.01)[:SEEDS]:
            stroke = jax.tree.map(lambda leaf, at=order[i]: leaf[at], strokes)
            offer(place, stroke, float(ranked[i, 0]))
    return offers


@checked
def stroke_map(
    swimmer: Costly,
    guess: Stroke | Vector | None = None,
    *,
    displacement: Vector,
    turn: Vector,
    components: tuple[int, int] | None = None,
    method: Direct = Direct(harmonics=12, steps=24, max_iterations=25),  # noqa: B008
    bounds: tuple[Vector, Vector] | None = None,
    rates: Vector | None = None,
    region: tuple[Vector, Vector] | None = None,
    starts: Count = 24,
    seed: Index = 0,
    drag: Number | None = None,
    save: File | None = None,
    progress: Progress = False,
) -> StrokeMap:
    """The best strokes over a grid of two demands: by default of a length of the translation and a turn in the plane.

    A few points of the grid are searched from random strokes. From there each solution predicts those at the
    neighbours of its point, by the implicit-function theorem, and is kept where it is the first, cheaper than what is
    known, or of another branch of nearly the same cost; until no point has anything to gain from a neighbour. So both
    branches are known where they cross, and each point has the best stroke that any of its neighbours leads to. All
    strokes are certified like those of `gd.optimal_stroke`; where none was found there are NaN, and `map.result` says
    why.

    Args:
        swimmer: body with a metric of shapes.
        guess: a stroke to begin with as well, or the shape [m] around which small strokes are tried.
        displacement: [N] growing; positive lengths of the translational part of the exponential coordinates of the
            holonomy, whose direction is free.
        turn: [M] growing; the rotation, in radians.
        components: two components of the exponential coordinates, instead of the length and the turn: `displacement`
            holds values of the first and `turn` of the second, and all others are free.
        method: `gd.Direct` with its settings; its `max_iterations` bounds the work at a point.
        bounds, rates: as for `gd.optimal_stroke`.
        region: (lower[m], upper[m]) of the shapes around which random strokes are tried, as for `gd.optimal_strokes`.
        starts: random strokes at each of the nine points of the grid that are searched first.
        seed: of the random numbers.
        drag: towing drag of the efficiency, see `gd.efficiency`.
        save: a `.npz` file to keep the map in while it grows; the same call goes on from there after a crash or Ctrl-C,
            and reads it when it is complete. `gd.strokes.load_map` reads it too. To look farther, from another seed,
            guess or region or from more starts, give another file.
        progress: whether to show a bar, or a function (points with a stroke, strokes tried) that is called every few
            strokes; Ctrl-C, or KeyboardInterrupt raised by that function, keeps what was found so far.

    Returns:
        StrokeMap.

    Raises:
        ValueError: for bad arguments, and a file of another map.
        RuntimeError: if no stroke is found at any point.

    Example:
        Areas in two planes, of which the first leads along x and the second along y, each at the cost 4π.

        >>> class Planimeters(gd.AbstractConnection):
        ...     group: gd.groups.Translation = gd.groups.Translation(2)
        ...     def form(self, r):
        ...         area = jnp.stack([-r[1], r[0], -r[3], r[2]]) / 2
        ...         return area[None] * jnp.array([[1, 1, 0, 0], [0, 0, 1, 1]])
        >>> body, settings = gd.bundles.KaluzaKlein(Planimeters()), gd.Direct(harmonics=1, steps=4)
        >>> given = {"displacement": [0.5, 1.0], "turn": [0.1, 0.2], "components": (0, 1), "method": settings}
        >>> found = gd.stroke_map(body, **given, region=(-jnp.ones(4), jnp.ones(4)), starts=4)
        >>> print(found.gaps, (found.cost / (4 * np.pi)).round(6).tolist())
        0 [[0.6, 0.7], [1.1, 1.2]]

    Source:
        Choi, Deng, Justus, Cowan & Hatton, arXiv:2502.17672 (2025), for such maps by a local method.
    """
    swimmer = traced_numbers(swimmer)
    with told_by("stroke_map"):
        check_kinds(swimmer, method, energy)
    check_smooth("stroke_map", method)
    axes = _axis("displacement", displacement), _axis("turn", turn)
    demands = _demands(swimmer, components)
    if demands.components is None and axes[0][0] <= 0:
        raise ValueError(
            f"stroke_map: displacement must be positive lengths, got {axes[0][0]:g}; for turns on the spot give"
            " components=(0, 2), with the component 0 of the translation and the others free."
        )
    if np.any(axes[0] == 0) and np.any(axes[1] == 0):
        raise ValueError(
            "stroke_map: displacement and turn are both 0 at one point of the grid, where the best stroke is none at"
            " all; leave 0 out of one of them."
        )
    with told_by("stroke_map"):
        check_moves(swimmer, demands.vector(floating(np.array([axes[0][-1], axes[1][0]]))))
    if drag is not None and not (numbers(drag).shape == () and 0 < numbers(drag) < np.inf):
        raise ValueError(f"stroke_map: drag must be a positive number, got {drag}.")
    with told_by("stroke_map"):
        corners, begin, m = _beginning(swimmer, guess, bounds, region)
        check_count(swimmer, m, closed=True)
        check_pace(swimmer, m)
        limits, bounded = checked_limits(bounds, rates, m)
    # Any stroke of m variables, here a circle in the first two, shows the structure of the unknowns.
    circle = FourierStroke(jnp.zeros(m), jnp.eye(m)[:, :1], jnp.eye(m, k=-1)[:, :1])
    like, _ = unknowns(swimmer, circle, None, demands.vector(jnp.ones(2)), method)
    task = Task(swimmer, demands, limits, bounded, method, like)
    search = _Search(task, axes)
    # Nine points to begin at, in the middles of the thirds of both axes.
    rows, columns = [np.unique([n // 6, n // 2, n - 1 - n // 6]) for n in search.shape]
    places = [(int(i), int(j)) for i in rows for j in columns]
    towing = float(np.asarray(towing_drag(swimmer) if drag is None else drag))
    before = None if save is None or not Path(save).exists() else _saved_map(save, task, axes)
    if before is not None:
        if before.end == RESULTS.successful:
            return _with_efficiencies(before, towing)
        search.begin_at(before)
    untried = 0 if before is None else before.untried
    end = RESULTS.successful
    last_saved = time.monotonic()
    most = ATTEMPTS * axes[0].size * axes[1].size
    try:
        with tqdm(total=axes[0].size * axes[1].size, disable=progress is not True, unit="points", desc="map") as bar:
            seeds = []
            if untried or not any(search.kept.values()):
                # After an interruption these are the same as before it, and the last `untried` of them are left. At the
                # first call untried is 0, and [-0:] takes all.
                seeds = _seeds(search, begin, corners, int(starts), int(seed), places)[-untried:]
            untried = len(seeds)
            offers = seeds or search.offers()
            while offers:
                for part in range(0, len(offers), AT_ONCE):
                    search.solve(offers[part : part + AT_ONCE])
                    untried = max(untried - AT_ONCE, 0)
                    reached = sum(map(bool, search.kept.values()))
                    bar.update(reached - bar.n)
                    if callable(progress):
                        progress(reached, float(search.attempts))
                    if save is not None and time.monotonic() - last_saved > EVERY:
                        search.map_so_far(towing, RESULTS.interrupted, untried).save(save)
                        last_saved = time.monotonic()
                if search.attempts > most:
                    end = RESULTS.enough_points
                    break
                offers = search.offers()
    except KeyboardInterrupt:
        end = RESULTS.interrupted
    if not any(search.kept.values()) and end != RESULTS.interrupted:
        why = "; ".join(f"at {search.demand(p)}: {RESULTS(search.why[p]).message}" for p in places[:3])
        raise RuntimeError(
            f"stroke_map: no optimal stroke was found at any of the first points ({why}). Give smaller demands, a"
            " guess=, more starts=, another region=, or bounds=."
        )
    found = search.map_so_far(towing, end, untried)
    if save is not None:
        found.save(save)
    return found


def _with_efficiencies(found: StrokeMap, drag: float) -> StrokeMap:
    """A map with its efficiencies by this towing drag: the map in a file may have been made with another."""

    def with_efficiency(sheet: StrokeSheet) -> StrokeSheet:
        return dataclasses.replace(sheet, efficiency=drag * sheet.length**2 / sheet.cost)

    return dataclasses.replace(found, best=with_efficiency(found.best), other=with_efficiency(found.other))


def _saved_map(path: File, task: Task, axes: Any) -> StrokeMap:
    """The map in the file, to go on from; ValueError if it is the map of another task or grid."""
    found = load_map(path, task.swimmer)
    now = {"displacement": axes[0], "turn": axes[1]}
    before = {"displacement": np.asarray(found.displacement), "turn": np.asarray(found.turn)}
    unlike = task_differences(found.task, before, task, now)
    if unlike:
        raise ValueError(
            f"stroke_map: save={os.fspath(path)} holds another map: {'; '.join(unlike)}. Delete it, or give another."
        )
    return found


def _beginning(swimmer: Costly, guess: Any, bounds: Any, region: Any) -> tuple[Any, Any, int]:
    """(the corners of the region of random strokes, or None if none is known; the stroke or the shape to begin with, or
    None if there is that region and no guess; the number of shape variables)."""
    has_region = region is not None or bounds is not None or swimmer.shape_region is not None
    corners = checked_region(swimmer, region, bounds) if has_region else None
    if callable(guess):
        return corners, guess, shape_at(cast(Stroke, guess), floating(0.0)).size
    if guess is None and corners is not None:
        return corners, None, corners[0].size
    centre = centre_of(swimmer, guess, bounds, None)
    return corners, centre, centre.size
