"""A search for the solution of a step with friction that comes near it from anywhere.

Newton's method on the equations of `Increment` goes round in circles, or meets a singular matrix, where several points
slip and little or nothing but friction holds them. The step is a minimisation, though. With the impulses y of friction
so far, the augmented Lagrangian puts for every hF|s| the smooth function of s whose gradient is proj_hF(y + r s); its
minimum is found by Newton's method with line searches, and y becomes proj_hF(y + r s). For a convex step this converges
for any r > 0, in a finite number of turns if it is piecewise quadratic (Rockafellar, *Math. Oper. Res.* 1 (1976) 97).

Letters of the shapes: n coordinates, s components of slip velocities, x = n + c of velocities v and impulses hλ of
constraints together, w = x + s unknowns.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.typing import Array, Float, Int, Scalar
from geodyn._mechanics.dissipative.increment import Increment

OUTER = 12  # Turns, in which y is renewed.
INNER = 12  # Steps of Newton's method in a turn.
HALVINGS = 50  # Of the interval of a line search.
RATIO = 2.0**20  # Of the r to that of the largest slips and impulses.
SMALL = 2.0**-20  # Of the stiffest: what is added where a direction has no stiffness.


class State(NamedTuple):
    """The state of the search: the velocities and the impulses of constraints x = (v, hλ), and the impulses y of
    friction."""

    x: Float[Array, " x"]
    y: Float[Array, " s"]


def solution_nearby(increment: Increment, w: Float[Array, " w"], speed: Scalar) -> Float[Array, " w"]:
    """The unknowns w of a step, near its solution, from a first guess; slips are of the order of `speed`."""
    v, multipliers, y = increment.split(w)
    n = v.size
    r = RATIO * increment.most_friction() / speed
    is_velocity = jnp.arange(n + multipliers.size) < n

    def equations(x: Float[Array, " x"], y: Float[Array, " s"]) -> Float[Array, " x"]:
        """The gradient of the augmented Lagrangian by v, and the residuals of the constraints, at x = (v, hλ)."""
        v, multipliers = jnp.split(x, [n])
        slips, push = jax.vjp(increment.slips, v)
        rest, missed = increment.smooth(v, multipliers)
        held = push(increment.friction(y + r * slips))[0]
        return jnp.append(rest + held, missed)

    def newton(_: Int[Array, ""], state: State) -> State:
        """(x, y) with x after a step of Newton's method, as long as the line search along the velocities finds best."""
        x, y = state
        matrix = jax.jacfwd(equations)(x, y)
        stiffest = jnp.max(jnp.abs(matrix[:n, :n])) + r
        soft = jnp.where(is_velocity, SMALL * stiffest, 0.0)
        step = -solve(matrix + jnp.diag(soft), equations(x, y))
        # The linearised equations give the multipliers, wherever the search along the velocities ends.
        along = jnp.where(is_velocity, step, 0.0)
        x = jnp.where(is_velocity, x, x + step)

        def slope(part: Scalar) -> Scalar:
            return jnp.dot(equations(x + part * along, y), along)

        return State(x + _lowest(slope, x.dtype) * along, y)

    def turn(_: Int[Array, ""], state: State) -> State:
        """(x, y) after the minimisation over x, with the friction impulses y that follow from it."""
        x, y = jax.lax.fori_loop(0, INNER, newton, state)
        return State(x, increment.friction(y + r * increment.slips(x[:n])))

    begin = State(jnp.append(v, multipliers), increment.friction(y))
    x, y = jax.lax.fori_loop(0, OUTER, turn, begin)
    return jnp.concatenate([x, y + r * increment.slips(x[:n])])


def _lowest(slope: Callable[[Scalar], Scalar], dtype: np.dtype) -> Scalar:
    """The part of a step in [0, 1] at which a convex function, of which `slope` is the derivative, is least."""

    def halve(_: Int[Array, ""], bracket: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        low, high = bracket
        middle = (low + high) / 2
        rises = slope(middle) > 0
        low = jnp.where(rises, low, middle)
        high = jnp.where(rises, middle, high)
        return low, high

    none = jnp.zeros((), dtype)
    all_of_it = jnp.ones((), dtype)
    low, high = jax.lax.fori_loop(0, HALVINGS, halve, (none, all_of_it))
    return jnp.where(slope(all_of_it) > 0, (low + high) / 2, all_of_it)
