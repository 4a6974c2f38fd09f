"""The derivative of a substep, through the impact at its end (saltation matrix).

If a substep ends at an impact, a tangent also changes its length τ, by dτ = −d gap / (d gap/dτ), and then the momenta
through the impact (Aizerman & Gantmacher 1958; Leine & Nijmeijer, Dynamics and Bifurcations of Non-Smooth Mechanical
Systems, 2004).
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._engine.jit import change_of
from geodyn._foundations.typing import Array, Bool, Float, Scalar
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.contract.tableau import ButcherTableau
from geodyn._integrators.impacts.impulse import strike_tangent
from geodyn._integrators.impacts.resting import SETTLING, Resting
from geodyn._integrators.impacts.substep import Substeps
from geodyn._integrators.step.collocation import Formulation, Problem
from geodyn._integrators.step.stages import step_tangent

# The tangents of (time, q, p).
Motion = tuple[Scalar, Float[Array, " n"], Float[Array, " n"]]
# Those of (time, q, p) after a substep, of its stage values, of the impulses at its end, and of its length.
Changes = tuple[Motion, Float[Array, "r w"], Float[Array, " K"], Scalar]


class Delay(NamedTuple):
    """The derivatives with respect to the length of a substep: of q and p at its end, of the stage values, and of the
    gap that is zero at its end."""

    q: Array
    p: Array
    w: Array
    gap: Array


class Walked(eqx.Module):
    """A recorded substep that started from (step, t, q, p), to be differentiated."""

    system: AbstractSystem
    t0: Array
    h: Array
    step: Array
    t: Array
    q: Array
    p: Array
    record: Substeps
    tableau: ButcherTableau = eqx.field(static=True)
    formulation: Formulation = eqx.field(static=True)

    @property
    def hit(self) -> Bool[Array, ""]:
        """Whether it ended at an impact."""
        return self.record.good & jnp.any(self.record.struck.pushed)

    @property
    def start(self) -> tuple[AbstractSystem, Scalar, Scalar, Float[Array, " n"], Float[Array, " n"]]:
        """The arguments of `pose`, on which its stage equations depend."""
        return self.system, self.t, self.record.length, self.q, self.p

    def pose(
        self, system: AbstractSystem, t: Scalar, length: Scalar, q: Float[Array, " n"], p: Float[Array, " n"]
    ) -> Problem:
        """Its stage equations."""
        held = self.record.held
        watched = system if system.contacts.elastic else Resting(system, *held, SETTLING * self.h, differentiable=True)
        return Problem(watched, t, length, q, p, self.tableau, self.formulation)

    def end_tangent(
        self, rate: Problem
    ) -> tuple[tuple[Array, Array], tuple[Float[Array, " n"], Float[Array, " n"]], Float[Array, "r w"]]:
        """(increments of q and p, their tangents, the tangent of its stage values), from the tangent `rate` of its
        stage equations."""
        yes = jnp.ones((), bool)
        # The force of resting contacts contains what follows from all gaps and their second derivatives.
        is_long = not self.system.contacts.elastic
        change, added, dw = step_tangent(self.pose(*self.start), rate, self.record.w, yes, by_matrix=is_long)
        added = tuple(jnp.zeros_like(x) if d is None else d for d, x in zip(added, change, strict=True))
        return change, added, dw

    def gap(self, system: AbstractSystem, t: Scalar, q: Float[Array, " n"]) -> Scalar:
        """The quantity that is zero at its end: the mean of the gaps that struck, weighted by their impulses."""
        struck = self.record.struck
        weight = jnp.abs(struck.impulse) / jnp.where(self.hit, jnp.sum(jnp.abs(struck.impulse)), 1)
        return jnp.dot(weight, system.contacts.gap(t, q, struck.which))

    def delay(self) -> Delay:
        """The derivatives with respect to its length if it ends at an impact, else those of a substep that does not
        depend on it."""
        none = jax.tree.map(lambda x: None, self.system)
        one = jnp.ones_like(self.t)
        record = self.record

        def longer() -> Delay:
            rate = eqx.filter_jvp(self.pose, self.start, (none, None, one, None, None))[1]
            _, (dq, dp), dw = self.end_tangent(rate)
            _, closing = change_of(self.gap, (self.system, record.time, record.q), (none, one, dq))
            return Delay(dq, dp, dw, closing)

        still = Delay(jnp.zeros_like(self.q), jnp.zeros_like(self.p), jnp.zeros_like(record.w), one)
        return jax.lax.cond(self.hit, longer, lambda: still)

    def tangent(self, rates: tuple[Any, Any, Any], motion: Motion, delay: Delay) -> Changes:
        """The tangents of (time, q, p) after it, of its stage values, of the impulses at its end, and of its length,
        from `rates`, those of (system, t0, h), and `motion`, those of (time, q, p) before it."""
        record = self.record
        hit = self.hit
        landed = record.good & (record.step > self.step)
        none = (jnp.zeros_like(record.w), jnp.zeros_like(record.struck.impulse), jnp.zeros_like(record.length))

        def grid(t0: Scalar, h: Scalar) -> Scalar:
            return t0 + h * (self.step + 1)

        def made(rates: tuple[Any, Any, Any], motion: Motion) -> Changes:
            dt, dq, dp = motion
            _, dgrid = change_of(grid, (self.t0, self.h), tuple(rates[1:]))
            dlength = jnp.where(landed, dgrid - dt, 0)
            rate = eqx.filter_jvp(self.pose, self.start, (rates[0], dt, dlength, dq, dp))[1]
            (_, push), (dq_added, dp_added), dw = self.end_tangent(rate)
            after = (jnp.where(landed, dgrid, dt), dq + dq_added, dp + dp_added)

            def same(
                momentum: Float[Array, " n"],
                rates: tuple[Any, Any, Any],
                after: Motion,
                dw: Float[Array, "r w"],
                dlength: Scalar,
            ) -> Changes:
                return (after, dw, none[1], dlength)

            return jax.lax.cond(hit, struck, same, self.p + push, rates, after, dw, dlength)

        def struck(
            momentum: Float[Array, " n"],
            rates: tuple[Any, Any, Any],
            after: Motion,
            dw: Float[Array, "r w"],
            dlength: Scalar,
        ) -> Changes:
            dt, dq, dp = after
            end = (self.system, record.time, record.q)
            _, narrowing = change_of(self.gap, end, (rates[0], dt, dq))
            late = -narrowing / delay.gap
            dt = dt + late
            dq = dq + late * delay.q
            dp = dp + late * delay.p
            dw = dw + late * delay.w
            dp, dj = strike_tangent((*end, momentum), (rates[0], dt, dq, dp), record.struck)
            return (dt, dq, dp), dw, dj, dlength + late

        return jax.lax.cond(record.good, made, lambda rates, motion: (motion, *none), rates, motion)
