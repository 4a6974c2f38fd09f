"""Many steps of a Runge–Kutta method as one loop, with the batch axes last in every array.

Without constraints a step is solved by the fixed-point iteration w ← w − r, which is Newton's method with the mass
matrix as Jacobian. A member of a batch for which it does not converge is solved separately, with a matrix (`newton`; a
single problem by `search`). With constraints a step is solved by simplified Newton, whose matrices are renewed when it
contracts slowly. The forces f are carried along with w, so that the physics appears once in the program. The history of
two steps is [m, 2s, *B].
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._compile.lanes import lanes
from geodyn._compile.native import LARGEST
from geodyn._compile.split import Split, at_once
from geodyn._typing import Array
from geodyn.integrators.contract.results import RESULTS
from geodyn.integrators.contract.tableau import ButcherTableau
from geodyn.integrators.step.equations import Newton, Stages, column, coupled, like, mixed, summed, top
from geodyn.integrators.step.errors import next_errors
from geodyn.integrators.step.iteration import (
    MOST_MATRICES,
    MOST_PLAIN,
    MOST_WITH_MATRIX,
    Progress,
    Root,
    begun,
    iterated,
    search,
)
from geodyn.integrators.step.methods import State, extrapolation, shifted


def solved(
    residual, evaluate, known, w, others, floor, active, *, correct=None, most=MOST_PLAIN, size=top, jointly=False
) -> Root:
    """The roots of `residual(known, w, others)` with others = `evaluate(known, w)`, for all active members of a batch.

    The iteration is w ← w − `correct`(residual). Without `correct` it is w ← w − residual, and members for which that
    does not contract are solved one at a time, with a matrix. All arrays in `known` have the batch axes. With `jointly`
    both functions are evaluated at the same w, so that they share what they have in common, at the cost of one more
    `evaluate`. Both functions take a keyword `often`: True for a program that runs fast, False for one that compiles
    fast."""
    alone = correct is None and not active.shape and w.size <= LARGEST
    if jointly and alone:

        def at(w, _):
            return residual(known, w, found := evaluate(known, w)), found

        return search(at, w, floor, active, others=others, size=size, jointly=True)
    if jointly:

        def both(known, w, _, often=True):
            return residual(known, w, evaluate(known, w, often=often), often=often)

        options = {"correct": correct, "most": most, "size": size}
        root = solved(both, lambda known, w, often=True: [], known, w, [], floor, active, **options)
        return root._replace(others=evaluate(known, root.w))
    if alone:
        return search(partial(residual, known), w, floor, active, partial(evaluate, known), others, size)

    def improve(w, others):
        r = residual(known, w, others)
        w = w - (r if correct is None else correct(r))
        return w, evaluate(known, w)

    end = iterated(improve, begun(w, others, active), floor, most, size)
    values = [end.w, *end.others, end.converged, end.count, 0 * end.count]
    if correct is None:

        def by_newton(count, *args):
            end = newton(residual, evaluate, *args, size)
            return [end.w, *end.others, end.converged, count + end.count, end.count]

        values = one_by_one(active & ~end.converged, by_newton, (end.count, known, w, others, floor), values)
    w, *others, converged, iterations, jacobians = values
    return Root(w, others, converged, iterations, jacobians)


def newton(residual, evaluate, known, w, others, floor, size) -> Progress:
    """Newton's method for one member, with the arguments of `solved`. The Jacobian is made of difference quotients, all
    of which are evaluated at once along an axis behind that of the stages."""
    count = w.size
    known = jax.tree.map(lambda x: x[..., None], known)
    units = jnp.eye(count, count + 1, 1, dtype=w.dtype).reshape(*w.shape, count + 1)

    def improve(w, _):
        scale = floor + size(w)
        # A linear problem may start at zero, where any length will do.
        length = jnp.where(scale > 0, jnp.finfo(w.dtype).eps ** 0.5 * scale, 1)
        at = w[..., None] + length * units
        found = evaluate(known, at, often=False)
        r = residual(known, at, found, often=False).reshape(count, count + 1)
        change = eliminated((r[:, 1:] - r[:, :1]) / length, r[:, 0])
        return w - change.reshape(w.shape), [x[..., 0] for x in found]

    return iterated(improve, begun(w, others, jnp.ones((), bool)), floor, MOST_PLAIN, size, before=bool(others))


def eliminated(a, b):
    """The solution x of a x = b by Gauss–Jordan elimination with partial pivoting: a short program, since it seldom
    runs."""
    index = jnp.arange(b.size)

    def eliminate(k, m):
        pivot = jnp.argmax(jnp.where(index >= k, jnp.abs(m[:, k]), -1.0))
        row, m = m[pivot] / m[pivot, k], m.at[pivot].set(m[k])
        return jnp.where((index == k)[:, None], row, m - m[:, k, None] * row)

    return jax.lax.fori_loop(0, b.size, eliminate, jnp.column_stack([a, b]))[:, -1]


def one_by_one(needed, solve, args, values):
    """`values`, with those of each member in `needed` replaced by `solve(*args)`, where `args` are those of the
    member."""

    def turn(state):
        needed, values = state
        i = jnp.unravel_index(jnp.argmax(needed), needed.shape)

        def own(x):
            return x.ndim - needed.ndim

        def place(x):
            return [j if n > 1 else 0 for j, n in zip(i, x.shape[own(x) :], strict=True)]

        one = solve(*jax.tree.map(lambda x: x[(..., *place(x))], args))
        return needed.at[i].set(False), [x.at[(..., *i)].set(y) for x, y in zip(values, one, strict=True)]

    return jax.lax.while_loop(lambda state: jnp.any(state[0]), turn, (needed, values))[1]


def staged(arrays, batch):
    """The arrays with a stage axis of length one, inserted before the axes of the batch."""
    return [jnp.expand_dims(x, x.ndim - len(batch)) for x in arrays]


class Step:
    """The equations of one step, and their solution. The argument `known` of its methods is (t, h, q, p, theta): the
    times t[s, *B] of the stages, h[1, *B], q and p at the start of the step, and the parameters `theta` of the system,
    with a stage axis of length one."""

    def __init__(self, stages: Stages, tableau: ButcherTableau, whole: bool):
        self.stages, self.tableau = stages, tableau
        self.inner = Split(stages.inner, stages.before)
        self.outer = Split(stages.outer, stages.after, scalar=self.inner.scalars is not None)
        # Whether all of the physics is computed scalar by scalar. If only half of it can be, arrays are faster.
        self.by_scalars = self.outer.scalars is not None
        if not self.by_scalars:
            self.inner.scalars = None
        # Both halves are evaluated at the same w, to share work such as the metric, unless the second one is cheap.
        self.jointly = not self.outer.is_arithmetic
        self.newton = Newton(stages, tableau, whole, self.by_scalars) if stages.formulation.levels else None

    def positions(self, h, q, w):
        """The positions of the stages."""
        return q[:, None] + coupled(self.tableau, h, w[: q.shape[0]])

    def found(self, known, w, often=True):
        """[f] or [f, v] of the stages at w."""
        t, h, q, p, theta = known
        return self.inner(t, h, self.positions(h, q, w), p[:, None], w, *theta, often=often)

    def residual(self, known, w, found, often=True):
        """The residual r at w, with the `found` [f] or [f, v]."""
        t, h, q, p, theta = known
        momenta, v = p[:, None] + coupled(self.tableau, h, found[0]), self.stages.velocities(w, found)
        return self.outer(t, h, self.positions(h, q, w), momenta, v, w, *theta, often=often)[0]

    def evaluated(self, known, w):
        """(Q, [f] or [f, v], P) of the stages."""
        # In a batch the function calls that `often` produces cost nothing.
        (_, h, q, p, _), found = known, self.found(known, w, often=w.ndim > 2)
        return self.positions(h, q, w), found, p[:, None] + coupled(self.tableau, h, found[0])

    def correction(self, known, w, found, transposed: bool = False):
        """The function that maps the residual to the correction, by the Newton matrices at w or their transposes; None
        for plain fixed-point iteration."""
        if self.newton is None:
            return None
        correct = self.newton.transposed if transposed else self.newton.corrected
        return partial(correct, self.newton.inverses(known, w, found))

    def solved(self, known, w, found, active) -> Root:
        """The stage values of the active members, and [f] or [f, v] there, from guesses w and `found` of both."""
        # An increment below eps · |q|/h moves no position by more than its rounding error.
        _, h, q, *_ = known
        equations, floor = (self.residual, self.found, known), top(q, 1) / jnp.abs(h[0]) / 2**6
        if self.newton is None:
            return solved(*equations, w, found, floor, active, jointly=self.jointly)

        def wanting(root: Root):
            return active & ~root.converged & (root.jacobians < MOST_MATRICES) & jnp.isfinite(top(root.w))

        def attempt(root: Root):
            correct, active = self.correction(known, root.w, root.others), wanting(root)
            options = {"correct": correct, "most": MOST_WITH_MATRIX, "size": lambda w: top(w[: q.shape[0]])}
            end = solved(*equations, root.w, root.others, floor, active, **options)
            counts = root.iterations + end.iterations, root.jacobians + active
            return Root(end.w, end.others, root.converged | end.converged, *counts)

        zero = jnp.zeros(active.shape, int)
        start = Root(w, found, jnp.zeros_like(active), zero, zero)
        return jax.lax.while_loop(lambda root: jnp.any(wanting(root)), attempt, start)


class Carried(NamedTuple):
    """The parts of a `State` that the loop carries."""

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
    origin: Array


def forward(equations: Step, saves: int, every: int | None):
    """The function run(batch, kept, t0, h, *carried, *theta) -> [*carried, q, p, alive, error, w], in which q, p,
    alive, error, w have a row for every `every`-th step. If `every` is None, run takes (rows, every) before `carried`:
    then only the first `rows` of the saves are computed, and the others are zero."""
    stages, tableau, s = equations.stages, equations.tableau, equations.tableau.stages
    ahead, back, n = extrapolation(tableau), shifted(tableau, -1), stages.q.shape[0]

    def run(batch, _, t0, h, *rest):
        made, rest = ([], rest) if every else (rest[:2], rest[2:])
        begun, theta = Carried(*rest[: len(Carried._fields)]), staged(rest[len(Carried._fields) :], batch)
        c, (h,) = column(tableau.c, begun.q[:, None])[0], staged([h], batch)
        # The second multipliers of GGL are of the size of the errors: no guess for them is better than zero.
        guessed = (jnp.arange(stages.w.shape[0]) < n + stages.count).reshape(-1, 1, *[1] * len(batch))

        def step(carry):
            state, found, done = carry
            q, p = state.q, state.p
            alive, t = state.result == RESULTS.successful, t0 + h * (begun.step + done + c)
            guess = mixed(ahead, state.history), [mixed(ahead, x) for x in found]
            w, new, converged, turns, jacobians = equations.solved((t, h, q, p, theta), *guess, alive)

            def ends(w, f, q, p, lost_q, lost_p):
                """[dq, dp, q, p, finite, good] at the end of the step: the increments with what rounding lost before
                (compensated summation, as in `methods.after_step`), the new state, whether it is finite, and whether
                the step succeeded."""
                dq, dp = h[0] * summed(tableau.b, w[:n]) + lost_q, h[0] * summed(tableau.b, f) + lost_p
                finite = jnp.isfinite(top(w)) & jnp.isfinite(top(q + dq, 1)) & jnp.isfinite(top(p + dp, 1))
                return [dq, dp, q + dq, p + dp, finite, alive & converged & finite]

            dq, dp, q1, p1, finite, good = at_once(ends, w, new[0], q, p, state.lost_q, state.lost_p)

            def remembered(first, old, new):
                """The stage values of the last two steps. At the `first` step those of the step before it are
                extrapolated backwards."""
                before = jnp.where(first, mixed(back, new), old[:, s:])
                return jnp.where(good, jnp.concatenate([before, new], 1), old)

            failure = jnp.where(finite, RESULTS.not_converged, RESULTS.not_finite)
            after = Carried(
                step=state.step + alive,
                q=jnp.where(good, q1, q),
                p=jnp.where(good, p1, p),
                lost_q=jnp.where(good, dq - (q1 - q), state.lost_q),
                lost_p=jnp.where(good, dp - (p1 - p), state.lost_p),
                history=remembered(state.since == 0, state.history, jnp.where(guessed, w, 0)),
                result=jnp.where(alive & ~good, failure, state.result),
                iterations=state.iterations + jnp.where(alive, turns, 0),
                jacobians=state.jacobians + jacobians,
                since=state.since + good,
                errors=_errors(tableau, h[0], state, w[:n], q1, good),
                origin=state.origin,
            )
            last = jnp.where(good, w, state.history[:, s:])
            return (after, [remembered(done == 0, *x) for x in zip(found, new, strict=True)], done + 1), last

        def saved(carry, w):
            state = carry[0]
            return [state.q, state.p, state.result == RESULTS.successful, state.errors[:1], w]

        def several(carry, _):
            carry, w = carry
            if every == 1:
                carry, w = step(carry)
            else:
                carry, w = jax.lax.fori_loop(0, every, lambda _, x: step(x[0]), (carry, w))
            return (carry, w), saved(carry, w)

        def one_of_many(k, state):
            """The step k, in the row of the saves to which it leads: one loop is faster than one in another."""
            carry, w = step(state[0])
            rows = zip(state[1], saved(carry, w), strict=True)
            return carry, [jax.lax.dynamic_update_index_in_dim(x, y, k // made[1], 0) for x, y in rows]

        state = jax.tree.map(lambda x: jnp.broadcast_to(x, x.shape[: x.ndim - len(batch)] + batch), begun)

        def zeros(rows, columns):
            return jnp.zeros((*rows.shape, columns, *batch), state.q.dtype)

        found = [zeros(stages.p, 2 * s), *([state.history[:n]] if stages.has_velocities else [])]
        carry, w = (state, found, jnp.zeros((), int)), zeros(stages.w, s)
        if made:
            rows = [jnp.zeros((saves, *x.shape), x.dtype) for x in saved(carry, w)]
            (state, *_), rows = jax.lax.fori_loop(0, made[0] * made[1], one_of_many, (carry, rows))
        else:
            ((state, *_), _), rows = jax.lax.scan(several, (carry, w), length=saves)
        return [*state, *rows]

    return run


def _errors(tableau, h, state, u, q1, good):
    """`State.errors` after a step."""
    velocities = jnp.concatenate([state.history[: u.shape[0]], u], 1)
    rounded = jnp.sqrt(jnp.finfo(q1.dtype).eps) * jnp.abs(state.q)

    def largest(weights):
        oldest = np.flatnonzero(np.any(weights, axis=0))[0]  # Those before it have the weight 0.
        return top(mixed(weights[:, oldest:], velocities[:, oldest:]), 1)

    moved, far = top(jnp.abs(q1 - state.q) + rounded, 1), top(jnp.abs(q1 - state.origin) + rounded, 1)
    return jnp.where(good, next_errors(tableau, state.since, state.errors, h, largest, moved, far), state.errors)


def stepped(equations: Step, t0, h, state: State, saves: int, every, made=None):
    """(state, [q, p, alive, error, w]) after `saves` × `every` steps, with the stage values w[saves, m, s]. If `made`
    is given, only the first `made` of the saves are computed."""
    carried = Carried(
        *(state.step, state.q, state.p, *state.rounding, state.history.T, state.result),
        *(state.iterations, state.jacobians, state.since, state.errors, state.origin),
    )
    stages, dtype = equations.stages, state.q.dtype
    rows = [(state.q.shape, dtype), (state.p.shape, dtype), ((), bool), ((1,), dtype)]
    rows += [((*stages.w.shape, equations.tableau.stages), dtype)]
    outs = [*map(like, carried), *(jax.ShapeDtypeStruct((saves, *shape), dtype) for shape, dtype in rows)]
    run = forward(equations, saves, every if made is None else None)
    counts = () if made is None else (made, every)
    args, plain = (t0, h, *counts, *carried, *stages.numbers), partial(run, (), ())
    values = lanes(run, args, outs, plain=plain)
    c = Carried(*values[: len(carried)])
    after = State(
        *(c.step, c.q, c.p, (c.lost_q, c.lost_p), c.history.T, c.result, c.iterations, c.jacobians),
        *(state.frame, c.since, c.errors, c.origin),
    )
    return after, values[len(carried) :]
