"""The stage equations of an implicit Runge–Kutta step in (q, p), and their Newton matrices.

The unknowns of a stage are w = (u, ℓ, μ): u = q', ℓ = hλ, and in the GGL formulation μ with v = u − M⁻¹φ'ᵀμ, so that
positions and velocities both satisfy the constraints. The multipliers of nonholonomic constraints are among the λ.
These constraints are imposed as they are, A v = b, except in index1, which imposes the time derivative. With
Q = q + hA u, P = p + hA force(Q, v, λ) the equations are 0 = v − velocity(Q, P) and the constraints of the formulation,
each scaled to be a velocity, so that the Newton matrix stays regular as h → 0 (Hairer & Wanner, Solving ODEs II, VII.4;
Gear, Gupta & Leimkuhler 1985).
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Complex

from geodyn._engine.jit import jit
from geodyn._engine.native import for_each
from geodyn._engine.numerics.bands import Banded, Full
from geodyn._engine.numerics.linalg import columns, inverse
from geodyn._foundations.typing import Array, Float, Number, Scalar
from geodyn._integrators.contract.couplings import form_of
from geodyn._integrators.contract.system import AbstractSystem, constraint_rate, pfaffian
from geodyn._integrators.contract.tableau import ButcherTableau


def position_level(
    system: AbstractSystem,
    h: Number,
    t: Scalar,
    q: Float[Array, " n"],
    v: Float[Array, " n"],
    p: Float[Array, " k"],
    lam: Float[Array, " c"],
) -> Float[Array, " r"]:
    """φ(t, q)/h."""
    return system.constraint(t, q) / h


def lowest_level(
    system: AbstractSystem,
    h: Number,
    t: Scalar,
    q: Float[Array, " n"],
    v: Float[Array, " n"],
    p: Float[Array, " k"],
    lam: Float[Array, " c"],
) -> Float[Array, " r"]:
    """φ(t, q)/h, and A v − b of the nonholonomic constraints, which have no position level."""
    return jnp.concatenate([position_level(system, h, t, q, v, p, lam), pfaffian(system, t, q, v)])


def velocity_level(
    system: AbstractSystem,
    h: Number,
    t: Scalar,
    q: Float[Array, " n"],
    v: Float[Array, " n"],
    p: Float[Array, " k"],
    lam: Float[Array, " c"],
) -> Float[Array, " r"]:
    """dφ/dt = φ_t + φ_q v, and A v − b."""
    return constraint_rate(system, t, q, v)


def acceleration_level(
    system: AbstractSystem,
    h: Number,
    t: Scalar,
    q: Float[Array, " n"],
    v: Float[Array, " n"],
    p: Float[Array, " k"],
    lam: Float[Array, " c"],
) -> Float[Array, " r"]:
    """h times the time derivative of `velocity_level`, with the acceleration due to the forces and λ."""
    pdot = system.force(t, q, v, lam)
    one = jnp.ones_like(t)
    _, vdot = jax.jvp(lambda t, q, p: system.velocity(t, q, p, v), (t, q, p), (one, v, pdot))
    _, rate = jax.jvp(lambda t, q, v: constraint_rate(system, t, q, v), (t, q, v), (one, v, vdot))
    return h * rate


# One of the functions above.
Level = Callable[..., Float[Array, " r"]]


class Formulation(NamedTuple):
    """The levels of the constraints that a step imposes, and whether it imposes them at every stage or only at its
    end."""

    levels: tuple[Level, ...]
    at_end: bool = False

    @property
    def sets(self) -> int:
        """The number of sets of multipliers of a stage: one, and one more for the second level of GGL (for holonomic
        constraints only)."""
        return 1 if self.at_end else max(1, len(self.levels))


FORMULATIONS = {
    "index1": Formulation((acceleration_level,)),
    "index2": Formulation((velocity_level,)),
    "index3": Formulation((lowest_level,)),
    "ggl": Formulation((velocity_level, position_level)),
    "rs2": Formulation((position_level, velocity_level), at_end=True),
    "rs3": Formulation((position_level, velocity_level, acceleration_level), at_end=True),
}
UNCONSTRAINED = Formulation(())


class Probe(NamedTuple):
    """An evaluation of the residual, for a step of `length` times its length, with momenta shifted by so much. The
    `change` that has been found becomes `kept` times itself plus `weight` times the residual, and `taken` times it is
    added to the stage values."""

    length: float | Scalar
    shift: float | Scalar
    kept: float | Scalar
    weight: float | Scalar
    taken: float | Scalar


class Spectrum(NamedTuple):
    """The eigenvalues of A in the closed upper half plane, their right eigenvectors as columns and their left ones as
    rows, and their weights: a complex pair counts twice, by its real part."""

    values: Complex[np.ndarray, " e"]
    right: Complex[np.ndarray, "s e"]
    left: Complex[np.ndarray, "e s"]
    weights: Float[np.ndarray, " e"]


class Problem(eqx.Module):
    """The stage equations of one step, with everything that they depend on and can be differentiated by."""

    system: AbstractSystem
    t: Scalar
    h: Scalar
    q: Float[Array, " n"]
    p: Float[Array, " k"]
    tableau: ButcherTableau = eqx.field(static=True)
    formulation: Formulation = eqx.field(static=True)

    @property
    def times(self) -> Float[Array, " s"]:
        """The times of the stages."""
        return self.t + self.h * self.tableau.c

    def stage(
        self, t: Scalar, q: Float[Array, " n"], w: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " k"], Float[Array, " c"]]:
        """(v, p', λ) of a stage at the time t and the position q, with the stage values w."""
        n = q.shape[0]
        c = self.system.count_constraints(q)
        u = w[:n]
        lam = w[n : n + c] / self.h
        mu = w[n + c :]
        v = u
        if mu.size:
            (normal,) = jax.vjp(lambda q: self.system.constraint(t, q), q)[1](mu)
            _, correction = jax.jvp(lambda p: self.system.velocity(t, q, p, u), (self.p,), (normal,))
            v = u - correction
        return v, self.system.force(t, q, v, lam), lam

    def positions(self, w: Float[Array, "s m"]) -> Float[Array, "s n"]:
        """Stage positions Q = q + hA u."""
        u = w[:, : self.q.shape[0]]
        return self.q[None] + _accumulate(self.tableau, self.h, u)

    def residual(self, w: Float[Array, "s m"]) -> Float[Array, "s m"]:
        """The residual of the stage equations at the stage values w."""
        residual, _ = self.evaluate(w)
        return residual

    def evaluate(self, w: Float[Array, "s m"], again: bool = False) -> tuple[Float[Array, "s m"], Float[Array, "s k"]]:
        """(residual, p') of the stages at the stage values w. With `again` the stages are computed once more where they
        are differentiated, instead of keeping what that needs."""
        # A program of its own: it is traced and differentiated once, wherever it is used.
        return jit(_evaluate)(self, w, again)

    def afresh(self, w: Float[Array, "s m"]) -> tuple[Float[Array, "s m"], Scalar]:
        """Stage values without constraints guessed from the state alone, by its velocity and acceleration, and the size
        of what cancels in the residual there. Where an inertia is small, as a needle's about its axis, Newton's method
        contracts only near the solution, and large velocities cancel that belong to the momenta and leave their
        rounding error."""
        eps = float(jnp.finfo(w.dtype).eps)
        soon = eps ** (1 / 3)
        little = eps ** (1 / 2)
        nearby = self.p * jnp.cos(1 + jnp.arange(self.p.size, dtype=w.dtype))

        # By differences, and in a loop in which the residual stands once: to compile it takes most of the compile time.
        def take(
            state: tuple[Float[Array, "s m"], Float[Array, "s m"]], probe: Probe
        ) -> tuple[tuple[Float[Array, "s m"], Float[Array, "s m"]], None]:
            w, change = state
            p = self.p + probe.shift * nearby
            there = eqx.tree_at(lambda problem: (problem.h, problem.p), self, (probe.length * self.h, p))
            change = probe.kept * change + probe.weight * there.residual(w)
            return (w + probe.taken * change, change), None

        velocity = Probe(length=0.0, shift=0.0, kept=0.0, weight=-1.0, taken=1.0)
        before = Probe(length=-soon, shift=0.0, kept=0.0, weight=0.5 / soon, taken=0.0)
        after = Probe(length=soon, shift=0.0, kept=1.0, weight=-0.5 / soon, taken=1.0)
        shifted = Probe(length=1.0, shift=little, kept=0.0, weight=1 / little, taken=0.0)
        unshifted = Probe(length=1.0, shift=0.0, kept=1.0, weight=-1 / little, taken=0.0)
        probes = (velocity, before, after, shifted, unshifted)
        table = Probe(*(jnp.asarray(x, w.dtype) for x in zip(*probes, strict=True)))
        (guess, change), _ = jax.lax.scan(take, (w, jnp.zeros_like(w)), table)
        return guess, jnp.max(jnp.abs(change))

    def rates(self, w: Float[Array, "s m"]) -> Float[Array, "s k"]:
        """p' of the stages at the stage values w."""
        _, pdot, _ = for_each(self.stage, self.times, self.positions(w), w)
        return pdot

    def increments(
        self, w: Float[Array, "s m"], pdot: Float[Array, "s k"]
    ) -> tuple[Float[Array, " n"], Float[Array, " k"]]:
        """The increments of q and p over the step, from the stage values w and p' of the stages."""
        b = jnp.asarray(self.tableau.b, w.dtype)
        u = w[:, : self.q.shape[0]]
        return self.h * (b @ u), self.h * (b @ pdot)

    def constraint_rows(
        self, q: Float[Array, "s n"], v: Float[Array, "s n"], p: Float[Array, "s k"], lam: Float[Array, "s c"]
    ) -> list[Float[Array, "s _"]]:
        """The residuals of the constraints, of the stages in rows."""
        if self.formulation.at_end:
            end = (self.times[-1], q[-1], v[-1], p[-1], lam[-1])
            return [jnp.stack([level(self.system, self.h, *end) for level in self.formulation.levels])]
        return [
            jax.vmap(lambda *stage, level=level: level(self.system, self.h, *stage))(self.times, q, v, p, lam)
            for level in self.formulation.levels
        ]

    @property
    def form(self) -> Full | Banded:
        """The sparsity structure of the Jacobian of the stage equations."""
        far = acceleration_level in self.formulation.levels
        return form_of(self.system.couplings, self.tableau.stages, self.q.shape[0], self.formulation.sets, far)

    @property
    def splits(self) -> bool:
        """Whether Newton's method takes one Jacobian for all stages, which splits by the eigenvalues of A. It does not
        if constraints at the end of the step couple the stages, if the matrix is banded (in large bodies the whole
        matrix costs little more and saves iterations), if the system forbids it, or for an explicit tableau, for which
        there is no splitting (and fixed-point iteration needs only s + 1 iterations)."""
        whole = self.formulation.at_end or self.tableau.is_explicit or isinstance(self.form, Banded)
        return self.system.shares_jacobian and not whole

    def factors(self, w: Float[Array, "s m"]) -> Array:
        """The factors of the Jacobian of the stage equations near w that `newton` takes."""
        if self.splits:
            return self.split_inverses(w)
        _, push = jax.linearize(self.residual, w)
        return self.form.factors(self.form.matrix(push, w))

    def newton(self, factors: Array, r: Float[Array, "s m"]) -> Float[Array, "s m"]:
        """J⁻¹ r, with the factors of J."""
        if not self.splits:
            return self.form.solve(factors, r)
        spectrum = spectrum_of(self.tableau)
        components = jax.vmap(jnp.dot)(factors, _mix(spectrum.left, r + 0j))
        return jnp.real(_mix(spectrum.right * spectrum.weights[None], components)).astype(r.dtype)

    def split_inverses(self, w: Float[Array, "s m"]) -> Complex[Array, "e m m"]:
        """The inverses of the Newton matrix split by the eigenvalues α of A, with one Jacobian for all stages. For each
        α there is one small matrix, in which dQ = hα du and dP = hα dp' (Butcher 1976; Hairer & Wanner, IV.8)."""
        # The Jacobian is that of the means over the stages, in the middle of the step.
        n = self.q.shape[0]
        t = self.t + self.h / 2
        q = jnp.mean(self.positions(w), axis=0)
        mean = jnp.mean(w, axis=0)

        def local(
            q: Float[Array, " n"], p: Float[Array, " k"], w: Float[Array, " m"]
        ) -> tuple[Float[Array, " k"], Float[Array, " m"]]:
            """p' and the residual of one stage."""
            v, pdot, lam = self.stage(t, q, w)
            rows = [level(self.system, self.h, t, q, v, p, lam) for level in self.formulation.levels]
            return pdot, jnp.concatenate([v - self.system.velocity(t, q, p, v), *rows])

        def by(function: Callable, x: Float[Array, " a"]) -> list[Float[Array, "_ a"]]:
            """The derivatives of p' and of the residual by one argument, the others being fixed."""
            images = columns(lambda dx: jax.jvp(function, (x,), (dx,))[1], x.size, mean)
            return [image.T for image in images]

        f_q, r_q = by(lambda q: local(q, self.p, mean), q)
        _, r_p = by(lambda p: local(q, p, mean), self.p)
        f_w, r_w = by(lambda w: local(q, self.p, w), mean)

        def of_w(x: Float[Array, "m n"]) -> Float[Array, "m m"]:
            """A derivative by u as one by w, on whose multipliers nothing depends in this way."""
            return jnp.concatenate([x, jnp.zeros((mean.size, mean.size - n), x.dtype)], axis=1)

        # The coefficients of hα and (hα)².
        first = of_w(r_q) + r_p @ f_w
        second = of_w(r_p @ f_q)
        complex_h = self.h + 0j
        shifts = complex_h * jnp.asarray(spectrum_of(self.tableau).values, complex_h.dtype)
        return for_each(lambda ha: inverse(r_w + ha * first + ha**2 * second), shifts)


def _evaluate(problem: Problem, w: Float[Array, "s m"], again: bool) -> tuple[Float[Array, "s m"], Float[Array, "s k"]]:
    def stage(t: Scalar, q: Float[Array, " n"], w: Float[Array, " m"]) -> tuple[Array, Array, Array]:
        return problem.stage(t, q, w)

    q = problem.positions(w)
    of_stage = jax.checkpoint(stage, prevent_cse=False) if again else stage
    v, pdot, lam = for_each(of_stage, problem.times, q, w)
    p = problem.p[None] + _accumulate(problem.tableau, problem.h, pdot)
    kinetic = v - for_each(problem.system.velocity, problem.times, q, p, v)
    return jnp.concatenate([kinetic, *problem.constraint_rows(q, v, p, lam)], axis=1), pdot


def _mix(a: np.ndarray, x: Array) -> Array:
    """The product of the constant matrix a and the rows of x."""
    return jnp.tensordot(jnp.asarray(a, x.dtype), x, 1)


def _accumulate(tableau: ButcherTableau, h: Scalar, x: Float[Array, "s a"]) -> Float[Array, "s a"]:
    """hA x, from the `couplings` of the tableau, whose rounding leaves the method symplectic. x is multiplied by the
    weights, by h, and then by m: without h in between XLA would multiply the constants m and weights, and round the
    product."""
    m, weights = tableau.couplings
    weighted = jnp.asarray(weights, x.dtype)[:, None] * x
    return _mix(m, h * weighted)


def spectrum_of(tableau: ButcherTableau) -> Spectrum:
    """The `Spectrum` of the matrix A of a tableau."""
    values, vectors = np.linalg.eig(tableau.a.astype(complex))
    dual = np.linalg.inv(vectors)
    keep = np.imag(values) > -1e-14
    weights = np.where(np.imag(values[keep]) > 1e-14, 2.0, 1.0)
    return Spectrum(values[keep], vectors[:, keep], dual[keep], weights)
