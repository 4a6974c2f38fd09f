"""PURPOSE: a first plan: the sequence of loops that leads past the obstacles to the pose, by a best-first search.

Source: Hart, Nilsson & Raphael, *IEEE Trans. Syst. Sci. Cybern.* 4 (1968) 100 (A*), here over cells of poses.
"""

import heapq
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._control.plans.loops import Loops
from geodyn._engine.jit import jit
from geodyn._foundations.typing import Array, Bool, Float, Int, Number, Scalar
from geodyn._geometry.groups.lie_group import AbstractLieGroup

AT_ONCE = 64
"""How many sequences are extended at a time."""

TIMES = 200
"""How many times that is done at most."""

CELL = 0.5
"""The size of a cell of poses, one sequence being kept in each, in parts of the length of a loop."""

AMISS = 2.0
"""What a unit of the way that is left counts, beside one that was gone, in the choice of a sequence."""

Obstacles = Callable[[Float[Array, "d d"], Float[Array, " m"]], Float[Array, "..."]]


class Route(NamedTuple):
    """A sequence of loops: their indices, the length of all of them, how far the end is from the pose in units of a
    length, and the pose that it reaches."""

    loops: tuple[int, ...]
    length: float
    left: float
    pose: Float[np.ndarray, "d d"]

    @property
    def merit(self) -> float:
        """By which routes are compared; the least is best."""
        return self.length + AMISS * self.left


class Search:
    """What a search has seen: routes, those that wait to be extended, and the least length to each cell of poses."""

    def __init__(self, first: Route, place: bytes):
        self.routes = [first]
        self.waiting = [(first.length + first.left, 0)]
        self.cells = {place: first.length}

    def next(self) -> list[int]:
        """The indices of the routes to extend next."""
        return [heapq.heappop(self.waiting)[1] for _ in range(min(AT_ONCE, len(self.waiting)))]

    def offer(self, route: Route, place: bytes) -> None:
        """Keep a route, if it is the shortest to its cell."""
        if route.length >= self.cells.get(place, np.inf):
            return
        self.cells[place] = route.length
        heapq.heappush(self.waiting, (route.length + route.left, len(self.routes)))
        self.routes.append(route)


def best_routes(
    group: AbstractLieGroup,
    loops: Loops,
    first: Route,
    pose: Float[Array, "d d"],
    obstacles: Obstacles | None,
    most: int,
) -> list[Route]:
    """Routes of at most `most` loops after the first that lead near the pose, the best first; never empty."""
    size = CELL * float(np.median(loops.lengths))
    left = float(way_left(group, jnp.asarray(first.pose), pose, loops.unit))
    first = first._replace(left=left)
    start = jnp.asarray(first.pose)[None, None]
    search = Search(first, np.asarray(jit(_places)(group, start, loops.unit, size))[0, 0].tobytes())
    for _ in range(TIMES):
        extended = [i for i in search.next() if len(search.routes[i].loops) < most]
        if not extended:
            break
        _extend(search, [search.routes[i] for i in extended], group, loops, pose, obstacles, size)
        best = min(search.routes, key=lambda route: route.merit)
        if best.left < size and search.waiting and search.waiting[0][0] >= best.merit:
            break
    return sorted(search.routes, key=lambda route: route.merit)


def _extend(
    search: Search,
    routes: list[Route],
    group: AbstractLieGroup,
    loops: Loops,
    pose: Float[Array, "d d"],
    obstacles: Obstacles | None,
    size: float,
) -> None:
    """Offer each of the routes with one loop more to the search."""
    # Always of one number, so that one program does for all.
    whole = routes + routes[-1:] * (AT_ONCE - len(routes))
    before = jnp.asarray(np.stack([route.pose for route in whole]))
    reached, left = (np.asarray(x)[: len(routes)] for x in jit(_ahead)(group, loops, before, pose))
    lengths = np.array([route.length for route in routes])[:, None] + np.asarray(loops.lengths)[None]
    possible = np.isfinite(left)
    if obstacles is not None:
        possible &= np.asarray(jit(_clear)(group, loops, before, obstacles))[: len(routes)]
    places = np.asarray(jit(_places)(group, jnp.asarray(reached), loops.unit, size))
    for i, loop in np.argwhere(possible):
        sequence = (*routes[i].loops, int(loop))
        route = Route(sequence, float(lengths[i, loop]), float(left[i, loop]), reached[i, loop])
        search.offer(route, places[i, loop].tobytes())


def _ahead(
    group: AbstractLieGroup, loops: Loops, poses: Float[Array, "R d d"], pose: Float[Array, "d d"]
) -> tuple[Float[Array, "R W d d"], Float[Array, "R W"]]:
    """The poses [R, W, d, d] after each loop more, and how far they are from the wanted one [R, W]."""
    displacements = loops.displacements

    def after(g: Float[Array, "d d"], h: Float[Array, "d d"]) -> tuple[Float[Array, "d d"], Scalar]:
        reached = group.compose(g, h)
        return reached, way_left(group, reached, pose, loops.unit)

    return jax.vmap(lambda g: jax.vmap(lambda h: after(g, h))(displacements))(poses)


def way_left(
    group: AbstractLieGroup, reached: Float[Array, "d d"], pose: Float[Array, "d d"], unit: Float[Array, " k"]
) -> Scalar:
    """How far it is from a pose to the wanted one, in units of a length: what loops along each coordinate would take,
    as the sides of a right angle. Infinite along a coordinate in which no loop leads."""
    way = jnp.abs(group.log(group.compose(group.inverse(reached), pose)))
    small = jnp.sqrt(jnp.finfo(way.dtype).eps)
    sides = jnp.where(unit > 0, way / jnp.where(unit > 0, unit, 1.0), jnp.where(way > small, jnp.inf, 0.0))
    return jnp.sqrt(jnp.sum(sides**2))


def _places(
    group: AbstractLieGroup, poses: Float[Array, "R W d d"], unit: Float[Array, " k"], size: Number
) -> Int[Array, "R W k"]:
    """The cells [R, W, k] of poses: their coordinates in units of the way that a loop leads."""

    def place(g: Float[Array, "d d"]):
        ways = group.log(g) / jnp.where(unit > 0, unit, jnp.inf)
        return jnp.round(ways / size).astype(int)

    return jax.vmap(jax.vmap(place))(poses)


def _clear(
    group: AbstractLieGroup, loops: Loops, poses: Float[Array, "R d d"], obstacles: Obstacles
) -> Bool[Array, "R W"]:
    """Whether the body keeps clear of the obstacles along each loop from each pose."""

    def along(g: Float[Array, "d d"], motion: Float[Array, "S d d"], shapes: Float[Array, "S m"]) -> Bool[Array, ""]:
        def gap(h: Float[Array, "d d"], r: Float[Array, " m"]) -> Scalar:
            return jnp.min(obstacles(group.compose(g, h), r))

        return jnp.all(jax.vmap(gap)(motion, shapes) >= 0)

    return jax.vmap(lambda g: jax.vmap(lambda *loop: along(g, *loop))(loops.poses, loops.shapes))(poses)
