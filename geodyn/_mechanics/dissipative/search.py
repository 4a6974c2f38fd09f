"""A search for the solution of a step with friction that comes near it from anywhere.

Newton's method on the equations of `Increment` goes round in circles, or meets a singular matrix, where several points
slip and little or nothing but friction holds them. The step is a minimisation, though. With the impulses y of friction
so far, the augmented Lagrangian puts for every hF|s| the smooth function of s whose gradient is proj_hF(y + r s); its
minimum is found by Newton's method with line searches, and y becomes proj_hF(y + r s). For a convex step this converges
for any r > 0, in a finite number of turns if it is piecewise quadratic (Rockafellar, *Math. Oper. Res.* 1 (1976) 97).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.typing import Array, Float
from geodyn._mechanics.dissipative.increment import Increment

OUTER, INNER, HALVINGS = 12, 12, 50
RATIO = 2.0**20  # Of the r to that of the largest slips and impulses.
SMALL = 2.0**-20  # Of the stiffest: what is added where a direction has no stiffness.


def searched(increment: Increment, w: Float[Array, " w"], speed: Float[Array, ""]) -> Float[Array, " w"]:
    """The unknowns w of a step, near its solution, from a first guess; slips are of the order of `speed`."""
    v, multipliers, y = increment.split(w)
    n, r = v.size, RATIO * increment.most_friction() / speed
    known = jnp.arange(n + multipliers.size) < n

    def equations(x: Array, y: Array) -> Array:
        """The gradient of the augmented Lagrangian by v, and the residuals of the constraints, at x = (v, hλ)."""
        v, multipliers = jnp.split(x, [n])
        slips, push = jax.vjp(increment.slips, v)
        rest, missed = increment.smooth(v, multipliers)
        return jnp.append(rest + push(increment.friction(y + r * slips))[0], missed)

    def descended(_, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, y = state
        matrix = jax.jacfwd(equations)(x, y)
        soft = SMALL * (jnp.max(jnp.abs(matrix[:n, :n])) + r)
        step = -solve(matrix + jnp.diag(jnp.where(known, soft, 0.0)), equations(x, y))
        # The linearised equations give the multipliers, wherever the search along the velocities ends.
        along, x = jnp.where(known, step, 0.0), jnp.where(known, x, x + step)
        part = _lowest(lambda part: jnp.dot(equations(x + part * along, y), along), x.dtype)
        return x + part * along, y

    def improved(_, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, y = jax.lax.fori_loop(0, INNER, descended, state)
        return x, increment.friction(y + r * increment.slips(x[:n]))

    x, y = jax.lax.fori_loop(0, OUTER, improved, (jnp.append(v, multipliers), increment.friction(y)))
    return jnp.concatenate([x, y + r * increment.slips(x[:n])])


def _lowest(slope: Callable[[Array], Array], dtype) -> Float[Array, ""]:
    """The part of a step in [0, 1] at which a convex function, of which `slope` is the derivative, is least."""

    def halved(_, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bracket
        middle = (low + high) / 2
        rises = slope(middle) > 0
        return jnp.where(rises, low, middle), jnp.where(rises, middle, high)

    none, all_of_it = jnp.zeros((), dtype), jnp.ones((), dtype)
    low, high = jax.lax.fori_loop(0, HALVINGS, halved, (none, all_of_it))
    return jnp.where(slope(all_of_it) > 0, (low + high) / 2, all_of_it)
