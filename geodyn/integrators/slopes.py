"""The derivative of many steps without constraints, forwards and backwards, as loops like theirs (`loop.py`).

With the stage values U of a step known its adjoint is

    F̄ = h (b p̄ + Aᵀ P̄),   Ū = h (b q̄ + Aᵀ Q̄) + w̄,
    (Q̄, P̄) = (∂force/∂q)ᵀ F̄ + (∂velocity/∂(q, p))ᵀ (Ū + (∂force/∂v)ᵀ F̄),   q̄ += Σ Q̄,   p̄ += Σ P̄,

the same iteration as that of the step, on (Q̄, P̄); the tangent is one on (dU, dF). What does not depend on the unknowns
is computed once a step. Momenta of stages are those of their velocities: p = ∂L/∂v.
"""

import jax
import jax.numpy as jnp

from geodyn._lanes import Split, lanes, over_last
from geodyn.integrators.iteration import by_matrix
from geodyn.integrators.loop import Stages, by_stage, column, iterated, like, mixed, one_by_one, staged, summed
from geodyn.integrators.tableau import ButcherTableau


class Slopes:
    """The derivatives of the physics of one stage, by the numbers of the system at the places `moving`."""

    def __init__(self, stages: Stages, moving: list[int]):
        self.stages, self.moving = stages, moving
        self.early = (stages.t, stages.q, stages.q, *stages.theta)
        self.changes = [stages.theta[i] for i in moving]
        # A change of the system by a function that is not arithmetic is summed over the members at once.
        self.force = Split(stages.force, self.early)

    def parts(self, v, theta):
        """(force, velocity) of one stage as functions of t, q, v or p, and the numbers that move."""

        def joined(moving):
            moved = dict(zip(self.moving, moving, strict=True))
            return [moved.get(i, x) for i, x in enumerate(theta)]

        return (
            lambda t, q, v, *x: self.stages.force(t, q, v, *joined(x))[0],
            lambda t, q, p, *x: self.stages.velocity(t, q, p, v, *joined(x))[0],
        )

    def pulled(self, t, q, v, *rest):
        """[Q̄, P̄, t̄, *x̄], linear in the last arguments, F̄ and Ū."""
        *theta, f_bar, u_bar = rest
        force, velocity = self.parts(v, theta)
        moving = [theta[i] for i in self.moving]
        t1, q1, v1, *x1 = jax.vjp(force, t, q, v, *moving)[1](f_bar)
        p = self.stages.system(theta).momentum(t, q, v)
        t2, q2, p2, *x2 = jax.vjp(velocity, t, q, p, *moving)[1](u_bar + v1)
        return [q1 + q2, p2, t1 + t2, *(a + b for a, b in zip(x1, x2, strict=True))]

    def of_places(self, *args):
        """[Q̄, P̄]"""
        return self.pulled(*args)[:2]

    def of_numbers(self, *args):
        """[t̄, *x̄]"""
        return self.pulled(*args)[2:]

    def pushed_force(self, t, q, v, *rest):
        """[dF], linear in dt, *dx, dq, dv."""
        theta, (dt, *dx, dq, dv) = self._split(rest)
        force, _ = self.parts(v, theta)
        return [jax.jvp(force, (t, q, v, *(theta[i] for i in self.moving)), (dt, dq, dv, *dx))[1]]

    def pushed_velocity(self, t, q, v, *rest):
        """[dU], linear in dt, *dx, dq, dp."""
        theta, (dt, *dx, dq, dp) = self._split(rest)
        (_, velocity), p = self.parts(v, theta), self.stages.system(theta).momentum(t, q, v)
        return [jax.jvp(velocity, (t, q, p, *(theta[i] for i in self.moving)), (dt, dq, dp, *dx))[1]]

    def _split(self, rest):
        count = len(self.stages.theta)
        return rest[:count], rest[count:]


def tangent(slopes: Slopes, tableau: ButcherTableau):
    """run(batch, kept, t0, h, good, k, q, p, u, *theta, dt0, dh, dq, dp, *dx) -> [dq, dp, du] after every step."""
    stages, a, b = slopes.stages, tableau.a, tableau.b
    early = (*slopes.early, stages.t, *slopes.changes)
    of_force = Split(slopes.pushed_force, (*early, stages.q, stages.q), len(early))
    of_velocity = Split(slopes.pushed_velocity, (*early, stages.q, stages.p), len(early))
    count = len(stages.theta)

    def solve_one(h, base_q, base_p, du, *early):
        def forces(du):
            return by_stage(of_force, *early, base_q + h * mixed(a, du), du)

        def residual(du):
            places, momenta = base_q + h * mixed(a, du), base_p + h * mixed(a, forces(du))
            return du - by_stage(of_velocity, *early, places, momenta)

        found = by_matrix(residual, jnp.ones_like(du), jnp.zeros((), du.dtype), jnp.ones((), bool))
        return [jnp.where(found.converged, found.w, jnp.nan), forces(found.w)]

    def run(batch, _, t0, h, good, k, q, p, u, *rest):
        theta, (dt0, dh, dq, dp, *dx) = staged(rest[:count], batch), rest[count:]
        c, dx = column(tableau.c, u[0])[0], staged(dx, batch)
        full = lambda x: jnp.broadcast_to(x, x.shape[: x.ndim - len(batch)] + batch)  # noqa: E731

        def one(carry, x):
            dq, dp, du, df = carry
            good, k, q, u = x
            t = t0 + h * (k + c)
            (f,) = slopes.force(t, q[:, None] + h * mixed(a, u), u, *theta)
            early = (t, q[:, None] + h * mixed(a, u), u, *theta, dt0 + dh * (k + c), *dx)
            base_q, base_p = dq[:, None] + dh * mixed(a, u), dp[:, None] + dh * mixed(a, f)
            begun_f, begun_v = of_force.begin(*early), of_velocity.begin(*early)

            def improve(du, df):
                (du,) = of_velocity.end(begun_v, base_q + h * mixed(a, du), base_p + h * mixed(a, df))
                (df,) = of_force.end(begun_f, base_q + h * mixed(a, du), du)
                return du, df

            found = iterated(improve, du, df, jnp.zeros(batch, du.dtype), full(good))
            needed, args = full(good) & ~found.converged, (h, base_q, base_p, found.w, *early)
            du, df = one_by_one(needed, solve_one, args, [found.w, found.others])
            du, df = jnp.where(good, du, 0), jnp.where(good, df, 0)
            dq = dq + jnp.where(good, dh * summed(b, u) + h * summed(b, du), 0)
            dp = dp + jnp.where(good, dh * summed(b, f) + h * summed(b, df), 0)
            return (dq, dp, du, df), [dq, dp, du]

        dq, dp = full(dq), full(dp)
        start = tuple(jnp.zeros((x.shape[0], tableau.stages, *batch), x.dtype) for x in (dq, dp))
        return jax.lax.scan(one, (dq, dp, *start), (good, k, q, u))[1]

    return run


def adjoint(slopes: Slopes, tableau: ButcherTableau):
    """run(batch, kept, t0, h, good, k, q, p, u, *theta, dq, dp, du) -> [t0, h, q, p, *x], the cotangents."""
    stages, a, b = slopes.stages, tableau.a, tableau.b
    late = (*slopes.early, stages.p, stages.q)
    of_places = Split(slopes.of_places, late, len(slopes.early))
    of_numbers = Split(slopes.of_numbers, late)
    count, n = len(stages.theta), stages.q.shape[0]

    def forces_on(h, q_bar, p_bar, u_bar, w):
        """(F̄, Ū)"""
        weights = column(b, w)
        return (
            h * (weights * p_bar[:, None] + mixed(a.T, w[n:])),
            h * (weights * q_bar[:, None] + mixed(a.T, w[:n])) + u_bar,
        )

    def solve_one(h, q_bar, p_bar, u_bar, w, *early):
        def residual(w):
            by = (*early, *forces_on(h, q_bar, p_bar, u_bar, w))
            return w - by_stage(of_joined, *by)

        found = by_matrix(residual, jnp.ones_like(w), jnp.zeros((), w.dtype), jnp.ones((), bool))
        return [jnp.where(found.converged, found.w, jnp.nan)]

    of_joined = Split(lambda *x: [jnp.concatenate(slopes.of_places(*x))], late)

    def run(batch, kept, t0, h, good, k, q, p, u, *rest):
        theta, rows = staged(rest[:count], batch), rest[count:]
        common = [_in_common(rest[i], batch, k) for i, k in zip(slopes.moving, kept[4:], strict=True)]
        c, moving = column(tableau.c, u[0])[0], staged(common, batch)

        def one(carry, x):
            q_bar, p_bar, h_bar, sums, w = carry
            good, k, q, u, added_q, added_p, u_bar = x
            q_bar, p_bar, u_bar = q_bar + added_q, p_bar + added_p, jnp.where(good, u_bar, 0)
            t, at = t0 + h * (k + c), q[:, None] + h * mixed(a, u)
            early = (t, at, u, *theta)
            begun = of_places.begin(*early)

            def improve(w, _):
                return jnp.concatenate(of_places.end(begun, *forces_on(h, q_bar, p_bar, u_bar, w))), ()

            active = jnp.broadcast_to(good, batch)
            found = iterated(improve, w, (), jnp.zeros(batch, w.dtype), active)
            args = (h, q_bar, p_bar, u_bar, found.w, *early)
            (w,) = one_by_one(active & ~found.converged, solve_one, args, [found.w])
            w = jnp.where(good, w, 0)
            bars = [jnp.where(good, x, 0) for x in forces_on(h, q_bar, p_bar, u_bar, w)]
            t_bar, *x_bar = _of_numbers(slopes, of_numbers, early, moving, bars)
            (f,) = slopes.force(*early)
            by_h = _dot(w[:n], mixed(a, u)) + _dot(w[n:], mixed(a, f)) + jnp.sum((k + c) * t_bar, 0)
            ends = jnp.sum(q_bar * summed(b, u), 0) + jnp.sum(p_bar * summed(b, f), 0)
            h_bar = h_bar + by_h + jnp.where(good, ends, 0)
            sums = [x + jnp.sum(y, x.ndim - len(batch)) for x, y in zip(sums, [t_bar, *x_bar], strict=True)]
            return (q_bar + jnp.sum(w[:n], 1), p_bar + jnp.sum(w[n:], 1), h_bar, sums, w), None

        zero = lambda x: jnp.zeros((*x.shape, *batch), x.dtype)  # noqa: E731
        w = jnp.zeros((n + stages.p.shape[0], tableau.stages, *batch), u.dtype)
        of_each = map(zero, slopes.changes) if of_numbers.by_scalars else map(jnp.zeros_like, common)
        sums = [zero(stages.t), *of_each]
        begin = (zero(stages.q), zero(stages.p), zero(stages.t), sums, w)
        carry, _ = jax.lax.scan(one, begin, (good, k, q, u, *rows), reverse=True)
        q_bar, p_bar, h_bar, (t_bar, *x_bar), _ = carry
        return [t_bar, h_bar, q_bar, p_bar, *x_bar]

    return run


def _dot(x, y):
    return jnp.sum(jnp.sum(x * y, 0), 0)


def _in_common(x, batch, kept):
    """A number x of the system with an axis of one for all members that may be summed over, and not else."""
    own = x.ndim - len(batch)
    sizes = [b if k else n for n, b, k in zip(x.shape[own:], batch, kept, strict=True)]
    return jnp.broadcast_to(x, (*x.shape[:own], *sizes))


def _of_numbers(slopes: Slopes, of_numbers: Split, early, moving, bars):
    """[t̄, *x̄] with the stages behind; of what is no arithmetic summed over those that have the numbers `moving` in
    common."""
    if of_numbers.by_scalars:
        return of_numbers(*early, *bars)
    axes = bars[0].ndim - 1
    t, q, v, *theta = early
    t, q, v = (jnp.broadcast_to(x, (*x.shape[: x.ndim - axes], *bars[0].shape[1:])) for x in (t, q, v))
    momentum = lambda t, q, v, *theta: slopes.stages.system(theta).momentum(t, q, v)  # noqa: E731
    p = over_last(momentum, axes)(t, q, v, *theta)

    def joined(x):
        moved = dict(zip(slopes.moving, x, strict=True))
        return [moved.get(i, y) for i, y in enumerate(theta)]

    force = lambda t, v, *x: over_last(slopes.stages.force, axes)(t, q, v, *joined(x))[0]  # noqa: E731
    velocity = lambda t, *x: over_last(slopes.stages.velocity, axes)(t, q, p, v, *joined(x))[0]  # noqa: E731
    t1, v1, *x1 = jax.vjp(force, t, v, *moving)[1](bars[0])
    t2, *x2 = jax.vjp(velocity, t, *moving)[1](bars[1] + v1)
    return [t1 + t2, *(x + y for x, y in zip(x1, x2, strict=True))]


def slope(system, tableau: ButcherTableau, known, rates, places: list[int], plain):
    """[dq, dp, du] after every step, linear in the `rates`, (dt0, dh, dq, dp, *dx) with dx for the numbers of the
    system at these places; `known` is (t0, h, good, k, q, p, u). `plain(*known, *numbers, *rates)` is the same for one
    member, which JAX can differentiate."""
    *_, q, _, u = known
    slopes = Slopes(Stages(system, q[0], rates[3]), places)
    numbers = slopes.stages.numbers
    outs = [like(q), jax.ShapeDtypeStruct((q.shape[0], *rates[3].shape), q.dtype), like(u)]
    options = {"plain": plain, "nonlinear": len(known) + len(numbers), "transposed": adjoint(slopes, tableau)}
    small = slopes.force.scalars is not None
    return lanes(tangent(slopes, tableau), (*known, *numbers, *rates), outs, small=small, **options)
