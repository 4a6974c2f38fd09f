"""Tangent and discrete adjoint of many Runge–Kutta steps, as loops like that of `loop.py`.

At the known stage values w of a step, let r be its residual, and let a bar mark cotangents. The unknown r̄ and the
other cotangents satisfy

    P̄ = r_Pᵀ r̄,   F̄ = h (b p̄ + Aᵀ P̄),   Q̄ = r_Qᵀ r̄ + f_Qᵀ F̄,   q̄ += Σ Q̄,   p̄ += Σ P̄,
    0 = w̄ + r_wᵀ r̄ + f_wᵀ F̄ + h (b q̄ + Aᵀ Q̄) in the rows of the velocities u,

They are solved by the iteration of the step or its transpose. Its first guess is extrapolated from the step solved
before, in the variables r̄ / b and F̄ / b, which are smooth in time. The tangent is solved for dw in the same way.
Whatever does not depend on the unknowns is computed once per step.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._compile.lanes import lanes
from geodyn._compile.native import LARGEST
from geodyn._compile.split import Split, over_last
from geodyn.integrators.step.equations import Stages, column, coupled, like, mixed, only_at, pushed, summed
from geodyn.integrators.step.loop import Step, solved, staged
from geodyn.integrators.step.methods import shifted

# The places of t, h, q, p(, v), w, with respect to which `Stages.inner` and `Stages.outer` are differentiated.
OF_INNER, OF_OUTER = (0, 1, 2, 3, 4), (0, 1, 2, 3, 4, 5)


def tangent(equations: Step, moving: list[int]):
    """The function run(batch, kept, t0, h, good, k, q, p, w, *theta, dt0, dh, dq, dp, *dx) -> [dq, dp, dw], the
    tangents after every step. The tangents dx belong to the parameters of the system at the places `moving`."""
    stages, tableau = equations.stages, equations.tableau
    a, b, n, count = tableau.a, tableau.b, stages.q.shape[0], len(stages.theta)
    ahead = partial(mixed, shifted(tableau, 1))

    def numbers(likes):
        return tuple(len(likes) - count + i for i in moving)

    scalar = equations.by_scalars
    of_inner = pushed(stages.inner, stages.before, OF_INNER, (0, 1, 3, *numbers(stages.before)), scalar=scalar)
    of_outer = pushed(stages.outer, stages.after, OF_OUTER, (0, 1, *numbers(stages.after)), scalar=scalar)

    def evaluate(known, dw, often=True):
        """The tangent of `inner`, df or (df, dv), at dw."""
        h, base_q, _, begun, _ = known
        return of_inner.end(begun, base_q + h * mixed(a, dw[:n]), dw, often=often)

    def residual(known, dw, found, often=True):
        """The tangent of the residual at dw, with the `found` tangent of `inner`."""
        h, base_q, base_p, _, begun = known
        at, momenta = base_q + h * mixed(a, dw[:n]), base_p + h * mixed(a, found[0])
        return of_outer.end(begun, at, momenta, stages.velocities(dw, found), dw, often=often)[0]

    def run(batch, _, t0, h, good, k, q, p, w, *rest):
        theta, (dt0, dh, dq, dp, *dx) = staged(rest[:count], batch), rest[count:]
        c, dx = column(tableau.c, w[0])[0], staged(dx, batch)
        h, dt0, dh = staged([h, dt0, dh], batch)

        def full(x):
            return jnp.broadcast_to(x, x.shape[: x.ndim - len(batch)] + batch)

        def one(carry, x):
            dq, dp, dw, dfound = carry
            good, k, q, p, w = x
            w = jnp.where(good, w, 0)  # The forces may be undefined at the stage values of a failed step.
            t, dt, active = t0 + h * (k + c), dt0 + dh * (k + c), full(good)
            step = t, h, q, p, theta
            at, found, momenta = equations.evaluated(step, w)
            base_q, base_p = dq[:, None] + dh * mixed(a, w[:n]), dp[:, None] + dh * mixed(a, found[0])
            v = stages.velocities(w, found)
            known = (
                *(h, base_q, base_p),
                of_inner.begin(t, h, at, p[:, None], w, *theta, dt, dh, dp[:, None], *dx, often=bool(batch)),
                of_outer.begin(t, h, at, momenta, v, w, *theta, dt, dh, *dx, often=bool(batch)),
            )
            options = {"correct": equations.correction(step, w, found), "jointly": equations.jointly}
            guess = ahead(dw), [ahead(x) for x in dfound]
            end = solved(residual, evaluate, known, *guess, jnp.zeros(batch, dw.dtype), active, **options)
            values = [jnp.where(end.converged, x, jnp.nan) for x in (end.w, *end.others)]
            dw, *dfound = (jnp.where(good, x, 0) for x in values)
            dq = dq + jnp.where(good, dh[0] * summed(b, w[:n]) + h[0] * summed(b, dw[:n]), 0)
            dp = dp + jnp.where(good, dh[0] * summed(b, found[0]) + h[0] * summed(b, dfound[0]), 0)
            return (dq, dp, dw, dfound), [dq, dp, dw]

        def zeros(x):
            return jnp.zeros((*x.shape, tableau.stages, *batch), w.dtype)

        dfound = [zeros(stages.p), *([zeros(stages.q)] if stages.has_velocities else [])]
        return jax.lax.scan(one, (full(dq), full(dp), zeros(stages.w), dfound), (good, k, q, p, w))[1]

    return run


class Pull:
    """The vector–Jacobian products of the two halves of the physics of a stage: of `outer` with r̄, of `inner` with F̄
    and, if the stages have velocities of their own, v̄. That of `inner` gives the forces as well, so that they are not
    evaluated once more. If `together`, both also give the cotangents of the parameters of the system at the places
    `moving`."""

    def __init__(self, stages: Stages, moving: list[int], scalar: bool):
        self.stages, self.moving = stages, moving
        self.found = (stages.p, stages.q) if stages.has_velocities else (stages.p,)
        # Many parameters, as of a network, are differentiated separately, in `of_numbers`, where their cotangents are
        # summed before they are stored.
        self.together = scalar or sum(math.prod(stages.theta[i].shape) for i in moving) <= LARGEST
        self.numbers = (0, 1, *moving) if self.together else ()
        self.inner = Split(self._inner, (*stages.before, *self.found), len(stages.before), scalar)
        self.outer = Split(self._outer, (*stages.after, stages.w), len(stages.after), scalar)

    def _places(self, early: tuple, first: int):
        """The places of arguments to differentiate by: `early`, then time, step size and numbers, of which those of the
        system begin at the place `first`."""
        return (*early, *self.numbers[:2], *(first + i for i in self.numbers[2:]))

    def _inner(self, *args):
        given, bars = args[: len(self.stages.before)], args[len(self.stages.before) :]
        of_these, these = only_at(self.stages.inner, given, self._places((2, 3, 4), len(OF_INNER)))
        found, pull = jax.vjp(of_these, *these)
        return [*found, *pull(list(bars))]

    def _outer(self, *args):
        of_these, these = only_at(self.stages.outer, args[:-1], self._places((2, 3, 4, 5), len(OF_OUTER)))
        return jax.vjp(of_these, *these)[1]([args[-1]])

    def moved(self, theta, x):
        """The parameters of the system, with those at the places `moving` replaced by x."""
        new = dict(zip(self.moving, x, strict=True))
        return [new.get(i, y) for i, y in enumerate(theta)]

    def forces(self, begun, w):
        """[f] or [f, v] of the stages with the stage values w."""
        none = [jnp.zeros((*x.shape, *w.shape[1:]), w.dtype) for x in self.found]
        return self.inner.end(begun, *none, wanted=range(len(none)), often=w.ndim > 2)

    def of_outer(self, begun, r_bar, often):
        """The cotangents [Q̄, P̄, v̄, w̄] of the arguments of `outer`."""
        return self.outer.end(begun, r_bar, wanted=range(4), often=often)

    def of_inner(self, begun, found_bar, often):
        """The cotangents [Q̄, p̄, w̄] of the arguments of `inner`."""
        first = len(self.found)
        return self.inner.end(begun, *found_bar, wanted=range(first, first + 3), often=often)

    def of_numbers(self, early, begun, common, bars):
        """The cotangents [t̄, h̄, *x̄] of time, step size and parameters, with the stage axis behind their own axes. If
        they are not computed together, x̄ is already summed over the stages and over the members that share the
        parameters `common`."""
        if self.together:
            count, often, first = len(self.numbers), bars[0].ndim > 2, len(self.found) + 3
            of_inner = self.inner.end(begun[0], *bars[1:], wanted=range(first, first + count), often=often)
            of_outer = self.outer.end(begun[1], bars[0], wanted=range(4, 4 + count), often=often)
            return [x + y for x, y in zip(of_outer, of_inner, strict=True)]
        axes = bars[0].ndim - 1
        t, h, q, stage_p, p, v, w, *theta = early
        t, h = (jnp.broadcast_to(x, bars[0].shape[1:]) for x in (t, h))

        def of(function):
            return over_last(function, axes)

        def outer(t, h, *x):
            return of(self.stages.outer)(t, h, q, stage_p, v, w, *self.moved(theta, x))

        def inner(t, h, *x):
            return of(self.stages.inner)(t, h, q, p, w, *self.moved(theta, x))

        first = jax.vjp(outer, t, h, *common)[1](bars[:1])
        second = jax.vjp(inner, t, h, *common)[1](bars[1:])
        return [x + y for x, y in zip(first, second, strict=True)]


def adjoint(equations: Step, moving: list[int]):
    """The function run(batch, kept, t0, h, good, k, q, p, w, *theta, dq, dp, dw) -> [t0, h, q, p, *x]. It takes the
    cotangents dq, dp, dw of the values after every step, and gives the cotangents of t0, h, of q and p at the start,
    and of the parameters at the places `moving`."""
    stages, tableau, pull = equations.stages, equations.tableau, Pull(equations.stages, moving, equations.by_scalars)
    a, b, n, count = tableau.a, tableau.b, stages.q.shape[0], len(stages.theta)
    scale = np.where(b == 0, 1, b)
    before = partial(mixed, scale[:, None] * shifted(tableau, -1) / scale)

    def pulled(known, r_bar, often=True):
        """[r_wᵀ r̄ + f_wᵀ F̄, Q̄, P̄, p̄, F̄(, v̄)] of the equations at the top of this file."""
        h, _, p_bar, _, (of_inner, of_outer) = known
        q1, stage_p, v_bar, w1 = pull.of_outer(of_outer, r_bar, often)
        f_bar = h * (column(b, r_bar) * p_bar[:, None] + mixed(a.T, stage_p))
        found_bar = [f_bar, v_bar] if stages.has_velocities else [f_bar]
        q2, p, w2 = pull.of_inner(of_inner, found_bar, often)
        own = w1 + w2
        if not stages.has_velocities:
            own = jnp.concatenate([own[:n] + v_bar, own[n:]])
        return [own, q1 + q2, stage_p, p, *found_bar]

    def residual(known, r_bar, others, **_):
        """The right-hand side of the last equation at the top of this file, which is to be zero."""
        (h, q_bar, _, w_bar, _), (own, at_bar, *_) = known, others
        u_bar = h * (column(b, r_bar) * q_bar[:, None] + mixed(a.T, at_bar))
        rest = w_bar + own
        return jnp.concatenate([rest[:n] + u_bar, rest[n:]])

    def run(batch, kept, t0, h, good, k, q, p, w, *rest):
        theta, rows = staged(rest[:count], batch), rest[count:]
        common = [_in_common(rest[i], batch, k) for i, k in zip(moving, kept[4:], strict=True)]
        c, (h,) = column(tableau.c, w[0])[0], staged([h], batch)
        own = [stages.theta[i] for i in moving]

        def one(carry, x):
            q_bar, p_bar, h_bar, sums, r_bar, others = carry
            good, k, q, p, w, added_q, added_p, w_bar = x
            # The forces may be undefined at the stage values of a failed step.
            w, w_bar, q_bar, p_bar = *(jnp.where(good, x, 0) for x in (w, w_bar)), q_bar + added_q, p_bar + added_p
            t, active = t0 + h * (k + c), jnp.broadcast_to(good, batch)
            at, at_start, often = equations.positions(h, q, w), p[:, None], bool(batch)
            of_inner = pull.inner.begin(t, h, at, at_start, w, *theta, often=often)
            found = pull.forces(of_inner, w)
            momenta, v = at_start + coupled(tableau, h, found[0]), stages.velocities(w, found)
            of_outer = pull.outer.begin(t, h, at, momenta, v, w, *theta, often=often)
            early, begun, step = (t, h, at, momenta, at_start, v, w, *theta), (of_inner, of_outer), (t, h, q, p, theta)
            options = {"correct": equations.correction(step, w, found, transposed=True)}
            known, guess = (h, q_bar, p_bar, w_bar, begun), (before(r_bar), [before(x) for x in others])
            end = solved(residual, pulled, known, *guess, jnp.zeros(batch, w.dtype), active, **options)
            values = [jnp.where(end.converged, x, jnp.nan) for x in (end.w, *end.others)]
            r_bar, *others = (jnp.where(good, x, 0) for x in values)
            _, at_bar, stage_p_bar, start_p_bar, *found_bar = others
            t_bar, own_h, *x_bar = pull.of_numbers(early, begun, staged(common, batch), [r_bar, *found_bar])
            by_h = _dot(at_bar, mixed(a, w[:n])) + _dot(stage_p_bar, mixed(a, found[0]))
            by_h = by_h + jnp.sum((k + c) * t_bar + own_h, 0)
            by_h = by_h + jnp.sum(q_bar * summed(b, w[:n]), 0) + jnp.sum(p_bar * summed(b, found[0]), 0)
            h_bar = h_bar + jnp.where(good, by_h, 0)
            sums = [x + jnp.sum(y, x.ndim - len(batch)) for x, y in zip(sums, [t_bar, *x_bar], strict=True)]
            q_bar, p_bar = q_bar + jnp.sum(at_bar, 1), p_bar + jnp.sum(stage_p_bar + start_p_bar, 1)
            return (q_bar, p_bar, h_bar, sums, r_bar, others), None

        def zero(x):
            return jnp.zeros((*x.shape, *batch), x.dtype)

        def at_stages(x):
            return jnp.zeros((*x.shape, tableau.stages, *batch), w.dtype)

        found = (stages.p, stages.q) if stages.has_velocities else (stages.p,)
        others = [at_stages(x) for x in (stages.w, stages.q, stages.p, stages.p, *found)]
        sums = [zero(stages.t), *(map(zero, own) if pull.together else map(jnp.zeros_like, common))]
        begin = (zero(stages.q), zero(stages.p), zero(stages.t), sums, at_stages(stages.w), others)
        carry, _ = jax.lax.scan(one, begin, (good, k, q, p, w, *rows), reverse=True)
        q_bar, p_bar, h_bar, (t_bar, *x_bar), *_ = carry
        return [t_bar, h_bar, q_bar, p_bar, *x_bar]

    return run


def _dot(x, y):
    return jnp.sum(jnp.sum(x * y, 0), 0)


def _in_common(x, batch, kept):
    """A parameter x, broadcast along the batch axes that its cotangent keeps. Along an axis over which the cotangent
    may be summed x stays as it is, of length one if all members share it."""
    own = x.ndim - len(batch)
    sizes = [b if k else n for n, b, k in zip(x.shape[own:], batch, kept, strict=True)]
    return jnp.broadcast_to(x, (*x.shape[:own], *sizes))


def slope(equations: Step, known, rates, moving: list[int], plain):
    """The tangents [dq, dp, dw] after every step, linear in `rates`, (dt0, dh, dq, dp, *dx), where dx belong to the
    parameters of the system at the places `moving`. `known` is (t0, h, good, k, q, p, w), with q, p before each step.
    `plain(*known, *numbers, *rates)` computes the same for one member, in a form that JAX can differentiate."""
    numbers, (*_, q, p, w) = equations.stages.numbers, known
    options = {"plain": plain, "nonlinear": len(known) + len(numbers), "transposed": adjoint(equations, moving)}
    args, outs = (*known, *numbers, *rates), [like(q), like(p), like(w)]
    return lanes(tangent(equations, moving), args, outs, **options)
