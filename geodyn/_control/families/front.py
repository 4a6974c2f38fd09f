"""PURPOSE: optimal strokes for many demands at once: the solutions that begin at predicted strokes, and their slopes.

A demand is two numbers that a stroke has to reach. The optimum is a function of it where the second variation is
positive: `J dx = dc`, `H dx = Jᵀ dy` (the implicit-function theorem for the KKT conditions), by which a solution
predicts its neighbours.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from geodyn._control.methods.method import Direct, steps_of
from geodyn._control.problem.problem import Pace, StrokeProblem, clock_of, outcome
from geodyn._control.problem.variation import lowest_direction, second_variation
from geodyn._control.search.failure import reaches
from geodyn._control.search.guess import unknowns
from geodyn._control.search.implicit import kkt_solution
from geodyn._control.search.starts import COARSE, centre_and_size, random_stroke
from geodyn._engine.jit import jit
from geodyn._engine.numerics.roots import without_derivatives
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Float, Int, PyTree, Scalar
from geodyn._locomotion.motion.costs import Costly
from geodyn._locomotion.strokes.stroke import FourierStroke, LegendreStroke, Stroke

PUSH = 0.1
"""How far beside a saddle the next search begins, as a part of the length of the stroke. Less, and it would lose its
iterations near the saddle; what is too far is shortened by its line searches."""


class Demands(eqx.Module):
    """What the two numbers of a demand are: two `components` of the exponential coordinates [dim] of the holonomy; or,
    if they are None, the length of the translation and the rotation."""

    dim: int = eqx.field(static=True)
    components: tuple[int, int] | None = eqx.field(static=True)

    @property
    def free(self) -> tuple[int, ...]:
        """The coordinates that are not asked for."""
        return () if self.components is None else tuple(i for i in range(self.dim) if i not in self.components)

    @property
    def left(self) -> tuple[int, ...]:
        """The coordinates of `vector` that are not asked for."""
        return tuple(range(1, self.dim - 1)) if self.components is None else self.free

    @property
    def order(self) -> np.ndarray:
        """Where the two numbers stand among the constraints of a `StrokeProblem`."""
        return np.arange(2) if self.components is None else np.argsort(np.argsort(self.components))

    def target(self, demand: Float[Array, "2"]) -> Float[Array, " _"]:
        """The `displacement` of a `StrokeProblem`."""
        if self.components is None:
            return demand
        return jnp.zeros(self.dim, demand.dtype).at[np.array(self.components)].set(demand)

    def vector(self, demand: Float[Array, "2"]) -> Float[Array, " k"]:
        """Exponential coordinates that meet the demand."""
        if self.components is None:
            return jnp.zeros(self.dim, demand.dtype).at[0].set(demand[0]).at[-1].set(demand[1])
        return self.target(demand)

    def prices(self, multiplier: Float[Array, " _"]) -> Float[Array, "2"]:
        """The multipliers of the two numbers, from those of the `displacement`."""
        return multiplier if self.components is None else multiplier[np.array(self.components)]


class Optimum(NamedTuple):
    """A solution for one demand. `x` are its coefficients, or if it is a saddle those of a stroke downhill of it;
    `slopes` their derivatives by the demand; `prices` and `bending` the first and second derivatives of the cost by the
    demand; `length` is that of the translation."""

    x: Float[Array | np.ndarray, "... n"]
    slopes: Float[Array | np.ndarray, "... 2 n"]
    cost: Float[Array | np.ndarray, "..."]
    prices: Float[Array | np.ndarray, "... 2"]
    bending: Float[Array | np.ndarray, "... 2 2"]
    length: Float[Array | np.ndarray, "..."]
    amplitude: Float[Array | np.ndarray, "..."]
    kkt_residual: Float[Array | np.ndarray, "..."]
    second_order: Float[Array | np.ndarray, "..."]
    room: Float[Array | np.ndarray, "..."]
    result: Int[Array | np.ndarray, "..."]


class Task(eqx.Module):
    """The problem of all demands: a body, limits of its shape, the method, and `like`, unknowns of the right form."""

    swimmer: Costly
    demands: Demands
    limits: tuple[Float[Array, " b"], Float[Array, " b"]]
    bounded: tuple[int, ...] = eqx.field(static=True)
    method: Direct
    like: PyTree

    def problem(self, x: PyTree, demand: Float[Array, "2"], unit: Scalar) -> StrokeProblem:
        """The problem of one demand, to begin at the unknowns x, with the unit of energy."""
        return StrokeProblem(
            swimmer=self.swimmer,
            displacement=self.demands.target(demand),
            energy=unit,
            base=None,
            bounds=self.limits,
            bounded=self.bounded,
            steps=steps_of(self.method, self.like),
            clock=self.clock(x, demand),
            free=self.demands.free,
            sized=self.demands.components is None,
        )

    def clock(self, x: PyTree, demand: Float[Array, "2"]) -> FourierStroke | Pace | None:
        """What holds the phase: with bounds, and of a stroke whose displacement does not depend on where it begins, as
        without a turn; for there its coefficients would say a little about that by their errors, and the search would
        creep along."""
        if self.demands.components is not None or not isinstance(x, LegendreStroke):
            return clock_of(x, self.bounded)
        return without_derivatives(Pace(x, jnp.where(demand[1] == 0, 1.0, 0.0)))

    def unknowns(self, flat: Float[Array, " n"]) -> PyTree:
        """The unknowns from their numbers."""
        return ravel_pytree(self.like)[1](flat)


def optimum_from(task: Task, flat: Float[Array, " n"], demand: Float[Array, "2"], unit: Scalar) -> Optimum:
    """The solution for a demand that the method finds from the coefficients `flat`. `unit` is an energy of the size of
    the least."""
    x = task.unknowns(flat)
    problem = task.problem(x, demand, unit)
    found = task.method.solve(problem, x, False)
    values = outcome(problem, found.x, found.multipliers)
    there = reaches(values["displacement"], problem.displacement, problem.free)
    result = jnp.where(found.successful & ~there, RESULTS.astray, found.result)
    smallest = second_variation(problem, found.x, found.hessian, found.jacobian)[0]
    # A saddle is a stationary stroke and no best one. A search that begins beside it goes on downhill.
    is_saddle = (result == RESULTS.successful) & ~(smallest > 0)
    result = jnp.where(is_saddle, RESULTS.stalled, result)
    downhill = lowest_direction(problem, found.x, found.hessian, found.jacobian)
    push = jnp.where(is_saddle, PUSH * jnp.sqrt(values["cost"]), 0.0)
    size = jnp.linalg.norm(problem.displacement)

    def change_of_x(place: int) -> tuple[Array, Array]:
        change = jnp.zeros_like(found.multipliers).at[place].set(-1 / size)
        return kkt_solution(found.hessian, found.jacobian, jnp.zeros_like(flat), change)

    order = task.demands.order
    slopes, dual = (jnp.stack(rows) for rows in zip(*(change_of_x(int(place)) for place in order), strict=True))
    bending = unit / size * dual[:, order]
    stroke = problem.stroke(found.x)
    shapes = jax.vmap(stroke)(jnp.arange(128) / 128)
    xi = values["displacement"]
    moves = xi[:1] if problem.sized else xi[: task.swimmer.group.translations]
    return Optimum(
        x=ravel_pytree(found.x)[0] + push * downhill,
        slopes=slopes,
        cost=values["cost"],
        prices=task.demands.prices(values["multiplier"]),
        bending=(bending + bending.T) / 2,
        length=jnp.sqrt(jnp.sum(moves**2)),
        amplitude=jnp.max(jnp.ptp(shapes, axis=0)) / 2,
        kkt_residual=found.kkt_residual,
        second_order=smallest,
        room=values["room"],
        result=result,
    )


front_of = jit(optimum_from)


def solve_front(task: Task, flats: np.ndarray, demands: np.ndarray, units: np.ndarray) -> Optimum:
    """`optimum_from` for B strokes [B, n], demands [B, 2] and units [B]: numpy arrays with the axis [B]."""
    # One by one: a batch would take as long as its slowest member, and its matrices do not gain from batching. Not in
    # threads: on two cores JAX 0.9 has been seen to stop for ever where this program runs twice at once.
    found = [_ready(task, *row) for row in zip(flats, demands, units, strict=True)]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *found)


def _ready(task: Task, *row) -> Optimum:
    return jax.tree.map(np.asarray, jax.block_until_ready(front_of(task, *map(jnp.asarray, row))))


@jit
def coarse_from(
    task: Task, demand: Float[Array, "2"], region: tuple[Float[Array, " m"], Float[Array, " m"]], keys: Array
) -> tuple[Stroke, Float[Array, "S 4"], Int[Array, " S"]]:
    """The ends of coarse searches from random strokes: the strokes, a signature of each that is invariant under
    symmetries (cost, prices, mean square), and how the searches ended."""
    coarse = eqx.tree_at(lambda t: t.method, task, COARSE)
    target = task.demands.vector(demand)

    def one(key: Array) -> tuple[Stroke, Float[Array, "4"], Int[Array, ""]]:
        x, energy = unknowns(task.swimmer, random_stroke(task.swimmer, target, region, key), None, target, COARSE)
        coarsely = eqx.tree_at(lambda t: t.like, coarse, x)
        problem = coarsely.problem(x, demand, energy)
        found = COARSE.solve(problem, x, False)
        stroke = problem.stroke(found.x)
        size = centre_and_size(stroke)[1]
        prices = energy * found.multipliers[:2]
        signature = jnp.concatenate([(energy * problem(found.x)[0])[None], prices, size[None]])
        return stroke, signature, found.result

    return jax.vmap(one)(keys)
