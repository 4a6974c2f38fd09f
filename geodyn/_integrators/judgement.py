"""Checks of the accuracy of the saved states: by the energy, if it is known to be constant, by the rounding errors of
the chart, and by the local error."""

from collections.abc import Callable
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.internals import is_constant
from geodyn._engine.native import native
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Bool, Float, Int, Scalar
from geodyn._integrators.contract.constraints import reactions
from geodyn._integrators.contract.system import (
    AbstractLagrangianSystem,
    AbstractSystem,
    pfaffian,
    rounding,
    total_energy,
)
from geodyn._integrators.step.methods import AbstractCollocation, AbstractMethod, State

# The largest relative rounding error of a position: four digits must be left.
MOST_ROUNDING = 1e-4
# The largest sum of the errors of coarse steps, as a part of the extent of the motion. Oscillations and rotations of
# whose amplitude a half is wrong have a larger one.
MOST_ERROR = 0.25
# How many rounding errors a body at rest may seem to move in a step.
ROUNDINGS = 16


# The times and the q, p and λ of the saved states.
SavedRows = tuple[Float[Array, " T"], Float[Array, "T n"], Float[Array, "T k"], Float[Array, "T c"]]


class Facts(NamedTuple):
    """What the saved states so far say about their accuracy: the energy of the first state, the extremes of the energy
    and the largest kinetic energy (only if the energy is to be checked), and the largest relative rounding error of a
    position in units of eps (`rounding`)."""

    first: Array
    highest: Array
    lowest: Array
    kinetic: Array
    rounding: Array


def no_facts(dtype: np.dtype) -> Facts:
    """The facts before the first saved state."""
    number = jnp.zeros((), dtype)
    return Facts(number, number - jnp.inf, number + jnp.inf, number, number)


def judge(
    system: AbstractSystem,
    method: AbstractMethod,
    h: Scalar,
    is_first: Bool[Array, ""],
    state: State,
    facts: Facts,
    rows: SavedRows,
    made: Int[Array, ""] | int | None,
    most: int,
) -> tuple[Float[Array, "T n"], Float[Array, "T c"], Facts, Int[Array, ""]]:
    """(the velocities of the rows (t, q, p, λ), their multipliers, the facts including these rows, the result of the
    run so far); `made` is passed to `_of_rows`."""
    t, q, _, multipliers = rows
    collocation = cast(AbstractCollocation, method)  # It is one where `smooth` is true, and is asked only there.
    smooth = isinstance(method, AbstractCollocation) and not most and system.is_smooth
    conservative = smooth and _is_conservative(system, t[0], q[0])
    followed = conservative and not collocation.tableau.is_explicit

    # The multipliers of the last stage are two orders less accurate than the motion. Those of the state are not; but of
    # contacts that rest the state does not tell.
    solved = isinstance(method, AbstractCollocation) and system.contacts is None and multipliers.shape[1] > 0

    def of_row(t: Scalar, q: Float[Array, " n"], p: Float[Array, " k"], lam: Float[Array, " c"]) -> list[Array]:
        v = system.velocity(t, q, p)
        known = jnp.concatenate([v, reactions(system, t, q, p, v)]) if solved else v
        energy = [total_energy(system, t, q, v, lam), jnp.abs(p @ v) / 2] if followed else []
        # What is judged by them has no derivative, and theirs would be as much work as that of the velocities.
        return [known, *map(jax.lax.stop_gradient, [rounding(system, q), *energy])]

    known, rounded, *others = _of_rows(of_row, rows, made)
    v, lam = jnp.split(known, [q.shape[1]], axis=1) if solved else (known, multipliers)
    # This is checked after a failure too, since lost digits may have caused it.
    facts = facts._replace(rounding=jnp.fmax(facts.rounding, jnp.nanmax(rounded)))
    lost = facts.rounding * jnp.finfo(rounded.dtype).eps > MOST_ROUNDING
    result = jnp.where(lost & (state.result <= RESULTS.not_finite), RESULTS.digits_lost, state.result)
    # A method that damps forgets the errors of steps that were too long for what it damped.
    remembers = smooth and (conservative or collocation.tableau.is_symplectic or collocation.tableau.is_explicit)
    # What these numbers are is written in `errors.py`.
    sum_of_errors = state.errors[3]
    extent = state.errors[4]
    wrong = (sum_of_errors > MOST_ERROR * extent) & remembers
    if followed:
        energy, kinetic = others
        facts = Facts(
            jnp.where(is_first, energy[0], facts.first),
            jnp.maximum(facts.highest, jnp.max(energy)),
            jnp.minimum(facts.lowest, jnp.min(energy)),
            jnp.maximum(facts.kinetic, jnp.max(kinetic)),
            facts.rounding,
        )
        largest_reaction = jnp.nanmax(jnp.abs(multipliers), initial=0)
        noise = _noise(system, t[0], q[0], largest_reaction, h)
        resolved = _is_resolved(facts, noise, damping=not collocation.tableau.is_symplectic)
        # An error that exceeds the displacement in its step.
        largest_ratio = state.errors[2]
        wrong = wrong | ~resolved | (largest_ratio > 1)
    result = jnp.where((result == RESULTS.successful) & wrong, RESULTS.under_resolved, result)
    return v, lam, facts, result


def _is_conservative(system: AbstractSystem, t: Scalar, q: Float[Array, " n"]) -> bool:
    """Whether the energy is known to be constant: there is no dissipation, and nothing depends on time."""
    v = jnp.zeros_like(q)
    if not isinstance(system, AbstractLagrangianSystem) or pfaffian(system, t, q, v).size or not system.is_smooth:
        return False
    same_at_all_times = is_constant(lambda t: (system.lagrangian_at(t, q, v), system.constraint(t, q)), t)
    return same_at_all_times and is_constant(lambda v: system.rayleigh_at(t, q, v), v)


def _noise(system: AbstractSystem, t: Scalar, q: Float[Array, " n"], reaction: Scalar, h: Scalar) -> Scalar:
    """The energy that rounding may give to a body at rest: the kinetic energy of velocities that move it by the
    rounding error of its positions in a step, and the work of the reactions at these."""
    speed = ROUNDINGS * jnp.finfo(q.dtype).eps * jnp.max(jnp.abs(q)) / h
    v = jnp.ones_like(q) * speed
    kinetic = jnp.abs(system.momentum(t, q, v) @ v) / 2
    # Each component of v is the speed.
    work = jnp.abs(reaction * h * v[0])
    return kinetic + work


def _is_resolved(facts: Facts, noise: Scalar, damping: bool) -> Bool[Array, ""]:
    """Whether the energy at all saved times is that of the start, to within a third of the largest kinetic energy and
    the `noise`; a `damping` method may dissipate any part of it. If the steps resolve a motion, its energy is constant
    to many digits; if they do not, as near the pole of a chart or in a close encounter, it changes by any factor."""
    largest = jnp.maximum(jnp.abs(facts.highest), jnp.abs(facts.lowest))
    rounding_off = jnp.sqrt(jnp.finfo(largest.dtype).eps) * largest
    gained = facts.highest - facts.first
    lost = facts.first - facts.lowest
    change = gained if damping else jnp.maximum(gained, lost)
    return change <= facts.kinetic / 3 + rounding_off + noise


def _of_rows(function: Callable, rows: tuple[Array, ...], made: Int[Array, ""] | int | None) -> list[Array]:
    """The function of every row. If `made` is given, only the first row and the `made` rows after it are computed. For
    the other rows, and for rows that are not finite, the first result is NaN, and the further results are those of the
    first row."""
    if made is None:
        return native(lambda *rows: jax.lax.map(lambda row: function(*row), rows), *rows)
    index = jnp.arange(len(rows[0]))

    def with_axes_of(mask: Bool[Array, " T"], x: Float[Array, "T ..."]) -> Bool[Array, "T ..."]:
        further_axes = [1] * (x.ndim - 1)
        return mask.reshape(-1, *further_axes)

    def is_finite(x: Float[Array, "T ..."]) -> Bool[Array, " T"]:
        return jnp.all(jnp.isfinite(x), axis=tuple(range(1, x.ndim)))

    finite = jnp.all(jnp.stack([is_finite(x) for x in rows]), axis=0)
    valid = finite & (index <= made)
    rows = [jnp.where(with_axes_of(valid, x), x, x[:1]) for x in rows]
    likes = jax.eval_shape(function, *(x[0] for x in rows))

    def computed(made: Int[Array, ""], *rows: Array) -> list[Array]:
        def one(k: Int[Array, ""], values: list[Array]) -> list[Array]:
            here = function(*(x[k] for x in rows))
            return [x.at[k].set(y) for x, y in zip(values, here, strict=True)]

        nothing = [jnp.zeros((len(index), *x.shape), x.dtype) for x in likes]
        return jax.lax.fori_loop(0, made + 1, one, nothing)

    values = native(computed, made, *rows)
    first, *others = (jnp.where(with_axes_of(valid, x), x, x[:1]) for x in values)
    return [jnp.where(with_axes_of(valid, first), first, jnp.nan), *others]
