"""Many steps of collocation without constraints, and their derivatives, as loops over members that lie last.

A step is solved by iteration on the pair (u, f) of stage velocities and forces, u ← velocity(Q, P), f ← force(Q, u)
with Q = q + hA u, P = p + hA f: that is Newton's method with the mass matrix for Jacobian, and the physics stands once
in the program. What that does not bring to rest, one member at a time is solved with a matrix (`by_matrix`). All arrays
here are [own, *B]: stage values [n, s, *B], the history of two steps [n, 2s, *B].

Derivatives are those of the path as one large root (`path.py`): with the stage values U of a step known, the adjoint

    F̄ = h (b p̄ + Aᵀ P̄),  Ū = h (b q̄ + Aᵀ Q̄) + w̄,  (Q̄, P̄) = (∂force/∂Q)ᵀ F̄ + (∂velocity/∂(Q, P))ᵀ (Ū + (∂force/∂u)ᵀ F̄)

is the same iteration on (Q̄, P̄), and the tangent on (dU, dF).
"""

from functools import partial, reduce
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._lanes import Split, at_once, lanes
from geodyn._typing import Array
from geodyn.integrators.iteration import MOST_PLAIN, by_matrix
from geodyn.integrators.methods import State, backwards, extrapolation
from geodyn.integrators.results import RESULTS
from geodyn.integrators.tableau import ButcherTableau


def mixed(matrix, x):
    """x[n, s, *B] combined over the stages by a constant matrix, without a product of matrices: XLA would call a
    library for it."""
    columns = [jnp.asarray(c, x.dtype).reshape(1, -1, *[1] * (x.ndim - 2)) for c in np.asarray(matrix).T]
    total = columns[0] * x[:, :1]
    for j, column in enumerate(columns[1:], start=1):
        total = total + column * x[:, j : j + 1]
    return total


def summed(weights, x):
    """Σ weights · x over the stages of x[n, s, *B]."""
    return mixed(np.asarray(weights)[None], x)[:, 0]


def coupled(tableau: ButcherTableau, h, x):
    """hA x as `collocation.accumulate` has it."""
    m, weights = tableau.couplings
    return mixed(m, h * (column(weights, x) * x))


def column(weights, x):
    """Numbers of the stages, for x[n, s, *B]."""
    return jnp.asarray(weights, x.dtype).reshape(1, -1, *[1] * (x.ndim - 2))


def top(x, axes: int = 2):
    """The largest absolute value over the first axes, without a reduction: XLA would call a library for it."""
    for _ in range(axes):
        x = reduce(jnp.maximum, [jnp.abs(y) for y in x]) if x.shape[0] else jnp.zeros(x.shape[1:], x.dtype)
    return x


class Pair(NamedTuple):
    """Where an iteration stands: the iterate, in which only `w` is judged; the size of its last increments and of
    itself; the count; which members go on, and which have converged (as `iteration.Progress` says)."""

    w: Array
    others: Array
    increment: Array
    previous: Array
    earlier: Array
    scale: Array
    count: Array
    going: Array
    converged: Array


def iterated(improve, w, others, floor, active) -> Pair:
    """The fixed point of `improve`, (w, others) -> (w, others), of every active member, after two turns at least: what
    `others` are now shows in the next w only."""
    batch, eps = active.shape, jnp.finfo(w.dtype).eps
    huge = jnp.full(batch, jnp.inf, w.dtype)

    def turn(s: Pair):
        new, others = improve(s.w, s.others)
        increment, scale, count = top(new - s.w), floor + top(new), s.count + 1
        rate = jnp.where(count > 1, increment / s.increment, jnp.nan)
        left = jnp.where(rate < 0.5, increment * rate / (1 - jnp.minimum(rate, 0.5)), jnp.inf)
        slow = (count > 2) & (increment > 0.5 * s.previous)
        stagnant = slow & (increment <= 2**14 * eps * scale)
        converged = (increment <= 2 * eps * scale) | (left <= eps * scale / 128) | stagnant
        hopeless = (count >= 6) & slow | ~jnp.isfinite(increment) | (count >= MOST_PLAIN)
        converged = converged & (count > 1)
        going = s.going & ~converged & ~hopeless
        after = Pair(new, others, increment, s.increment, s.previous, scale, count, going, converged)
        if not batch:
            return after
        return jax.tree.map(lambda a, b: jnp.where(s.going, a, b), after, s)

    begin = Pair(w, others, huge, huge, huge, huge, jnp.zeros(batch, int), active, jnp.zeros(batch, bool))
    return jax.lax.while_loop(lambda s: jnp.any(s.going), turn, begin)


def one_by_one(needed, solve, args, values):
    """`values` with `solve(*args)` in the place of those of each member that needs it."""

    def turn(state):
        needed, values = state
        if needed.ndim == 0:
            return jnp.zeros_like(needed), solve(*args)
        i = jnp.unravel_index(jnp.argmax(needed), needed.shape)
        own = lambda x: x.ndim - needed.ndim  # noqa: E731
        place = lambda x: [j if n > 1 else 0 for j, n in zip(i, x.shape[own(x) :], strict=True)]  # noqa: E731
        one = solve(*(x[(..., *place(x))] for x in args))
        return needed.at[i].set(False), [x.at[(..., *i)].set(y) for x, y in zip(values, one, strict=True)]

    return jax.lax.while_loop(lambda state: jnp.any(state[0]), turn, (needed, values))[1]


class Stages:
    """The physics of one stage as functions of arrays: t, q, v, p and the numbers `theta` of the system."""

    def __init__(self, system, q, p):
        arrays, static = eqx.partition(system, eqx.is_array)
        self.numbers, structure = jax.tree.flatten(arrays)
        self.system = lambda theta: eqx.combine(structure.unflatten(theta), static)
        self.none = np.zeros(0, q.dtype)
        self.t, self.q, self.p = jax.ShapeDtypeStruct((), q.dtype), like(q), like(p)
        self.theta = tuple(map(like, self.numbers))

    def force(self, t, q, v, *theta):
        """[p']"""
        return [self.system(theta).force(t, q, v, self.none)]

    def velocity(self, t, q, p, v, *theta):
        """[q']"""
        return [self.system(theta).velocity(t, q, p, v)]


def like(x):
    """Shape and type of an array."""
    return jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x))


def by_stage(split: Split, *args):
    """The first of the values of `split` at the stages, which lie last, one after another: a program that runs seldom
    is to be short."""
    s = max(x.shape[-1] for x in args)
    some = [jnp.moveaxis(jnp.broadcast_to(x, (*x.shape[:-1], s)), -1, 0) for x in args]
    return jnp.moveaxis(jax.lax.map(lambda x: split(*x)[0], some), 0, -1)


def staged(arrays, batch):
    """The same arrays for all stages, whose axis stands before those of the batch."""
    return [jnp.expand_dims(x, x.ndim - len(batch)) for x in arrays]


def forward(stages: Stages, force: Split, velocity: Split, tableau: ButcherTableau, saves: int, every: int, keep: bool):
    """run(batch, kept, t0, h, *carried, *theta) -> [*carried, q, p, alive, error[, u]], the latter after every
    `every`-th of the steps."""
    s, ahead, back = tableau.stages, extrapolation(tableau), backwards(tableau)
    count = len(_Carried._fields)

    def solve_one(t, h, q, p, u, *theta):
        """One member, with a matrix."""

        def forces(u):
            return by_stage(force, t, q[:, None] + coupled(tableau, h, u), u, *theta)

        def residual(u):
            f = forces(u)
            at, momenta = q[:, None] + coupled(tableau, h, u), p[:, None] + coupled(tableau, h, f)
            return u - by_stage(velocity, t, at, momenta, u, *theta)

        found = by_matrix(residual, u, top(q, 1) / h / 2**6, jnp.ones((), bool))
        return [found.w, forces(found.w), found.converged, found.iterations, found.jacobians]

    def run(batch, _, t0, h, *rest):
        begun, theta = _Carried(*rest[:count]), staged(rest[count:], batch)
        c = column(tableau.c, begun.q[:, None])[0]

        def step(carry):
            state, forces, done = carry
            q, p = state.q, state.p
            t = t0 + h * (begun.step + done + c)

            def improve(u, f):
                (u,) = velocity(t, q[:, None] + coupled(tableau, h, u), p[:, None] + coupled(tableau, h, f), u, *theta)
                (f,) = force(t, q[:, None] + coupled(tableau, h, u), u, *theta)
                return u, f

            alive, guess = state.result == RESULTS.successful, mixed(ahead, state.history)
            # Increments below eps · |q|/h move no position by more than its rounding.
            found = iterated(improve, guess, mixed(ahead, forces), top(q, 1) / h / 2**6, alive)
            values = [found.w, found.others, found.converged, found.count, 0 * found.count]
            args = (t, h, q, p, guess, *theta)
            u, f, converged, turns, jacobians = one_by_one(alive & ~found.converged, solve_one, args, values)

            def ends(u, f, q, p, lost_q, lost_p):
                """What the step adds, where it ends, and whether it does, compensated as in `methods.after_step`."""
                dq, dp = h * summed(tableau.b, u) + lost_q, h * summed(tableau.b, f) + lost_p
                finite = jnp.isfinite(top(u)) & jnp.isfinite(top(q + dq, 1)) & jnp.isfinite(top(p + dp, 1))
                return [dq, dp, q + dq, p + dp, finite, alive & converged & finite]

            dq, dp, q1, p1, finite, good = at_once(ends, u, f, q, p, state.lost_q, state.lost_p)
            u = jnp.where(good, u, state.history[:, s:])
            before = jnp.where(state.since == 0, mixed(back, u), state.history[:, s:])
            f_before = jnp.where(done == 0, mixed(back, f), forces[:, s:])
            failure = jnp.where(finite, RESULTS.not_converged, RESULTS.not_finite)
            after = _Carried(
                step=state.step + alive,
                q=jnp.where(good, q1, q),
                p=jnp.where(good, p1, p),
                lost_q=jnp.where(good, dq - (q1 - q), state.lost_q),
                lost_p=jnp.where(good, dp - (p1 - p), state.lost_p),
                history=jnp.where(good, jnp.concatenate([before, u], 1), state.history),
                result=jnp.where(alive & ~good, failure, state.result),
                iterations=state.iterations + jnp.where(alive, turns, 0),
                jacobians=state.jacobians + jacobians,
                since=state.since + good,
                errors=_errors(tableau, h, state, u, q1, good),
            )
            return after, jnp.where(good, jnp.concatenate([f_before, f], 1), forces), done + 1

        def several(carry, _):
            carry = step(carry) if every == 1 else jax.lax.fori_loop(0, every, lambda _, carry: step(carry), carry)
            state = carry[0]
            saved = [state.q, state.p, state.result == RESULTS.successful, state.errors[:1]]
            return carry, [*saved, state.history[:, s:]] if keep else saved

        state = jax.tree.map(lambda x: jnp.broadcast_to(x, x.shape[: x.ndim - len(batch)] + batch), begun)
        forces = jnp.zeros((state.p.shape[0], 2 * s, *batch), state.q.dtype)
        (state, *_), rows = jax.lax.scan(several, (state, forces, jnp.zeros((), int)), None, length=saves)
        return [*state, *rows]

    return run


class _Carried(NamedTuple):
    """What of a `State` a loop carries."""

    step: Array
    q: Array
    p: Array
    lost_q: Array
    lost_p: Array
    history: Array
    result: Array
    iterations: Array
    jacobians: Array
    since: Array
    errors: Array


def _errors(tableau, h, state, u, q1, good):
    """`State.errors` after a step."""
    if tableau.defect is None:
        return state.errors
    defect = summed(tableau.defect, jnp.concatenate([state.history, u], 1))
    error = jnp.where(state.since >= 2, h * top(defect, 1), jnp.nan)
    eps = jnp.finfo(q1.dtype).eps
    moved = top(jnp.abs(q1 - state.q) + jnp.sqrt(eps) * jnp.abs(state.q), 1)
    errors = jnp.stack([error, jnp.fmax(error, state.errors[1]), jnp.fmax(error / moved, state.errors[2])])
    return jnp.where(good, errors, state.errors)


def stepped(system, t0, h, state: State, tableau: ButcherTableau, saves: int, every: int, keep: bool):
    """(state, [q, p, alive, error[, u]]) of `saves` × `every` steps, u[saves, n, s] the stage velocities."""
    stages = Stages(system, state.q, state.p)
    carried = _Carried(
        *(state.step, state.q, state.p, *state.rounding, state.history.T, state.result),
        *(state.iterations, state.jacobians, state.since, state.errors),
    )
    dtype = state.q.dtype
    rows = [(state.q.shape, dtype), (state.p.shape, dtype), ((), bool), ((1,), dtype)]
    rows += [((state.q.size, tableau.stages), dtype)] if keep else []
    outs = [*map(like, carried), *(jax.ShapeDtypeStruct((saves, *shape), dtype) for shape, dtype in rows)]
    force = Split(stages.force, (stages.t, stages.q, stages.q, *stages.theta))
    velocity = Split(stages.velocity, (stages.t, stages.q, stages.p, stages.q, *stages.theta))
    run = forward(stages, force, velocity, tableau, saves, every, keep)
    small = all(x.scalars is not None for x in (force, velocity))
    values = lanes(run, (t0, h, *carried, *stages.numbers), outs, plain=partial(run, (), ()), small=small)
    c = _Carried(*values[: len(carried)])
    after = State(
        *(c.step, c.q, c.p, (c.lost_q, c.lost_p), c.history.T, c.result, c.iterations, c.jacobians),
        *(state.frame, c.since, c.errors),
    )
    return after, values[len(carried) :]
