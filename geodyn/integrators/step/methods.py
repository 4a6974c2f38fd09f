"""Methods: which tableau, which formulation of the constraints, and one step of it."""

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._typing import Array, Bool, Count, Float, Int
from geodyn.integrators.contract.constraints import reactions
from geodyn.integrators.contract.results import RESULTS
from geodyn.integrators.contract.system import AbstractSystem
from geodyn.integrators.contract.tableau import ButcherTableau, gauss, radau_iia
from geodyn.integrators.step.charts import in_best_charts, start_frame
from geodyn.integrators.step.collocation import FORMULATIONS, UNCONSTRAINED, Formulation, Problem, acceleration_level
from geodyn.integrators.step.stages import Root, stage_values


class AbstractMethod(eqx.Module):
    """A one-step method: a tableau (`AbstractCollocation`), or a step of its own (`AbstractStepper`)."""


class AbstractCollocation(AbstractMethod):
    """A Runge–Kutta method: a tableau, and how it holds holonomic constraints."""

    tableau: eqx.AbstractVar[ButcherTableau]
    formulation: eqx.AbstractVar[str | None]


class Gauss(AbstractCollocation):
    """Gauss collocation with s stages, order 2s: symplectic in (q, p) and time-reversible; for systems without
    constraints, whose velocity it would leave violated by O(1) (Hairer, Lubich & Wanner, II.1.3 and VI.4)."""

    tableau: ButcherTableau = eqx.field(static=True)
    formulation: str | None = eqx.field(static=True)

    def __init__(self, stages: Count = 3):
        self.tableau, self.formulation = gauss(stages), None


class RadauIIA(AbstractCollocation):
    """Radau IIA with s stages, order 2s − 1: stiffly accurate, for stiff and for constrained systems; not symplectic.

    `formulation` says what the step imposes on the constraints φ = 0:
    - "ggl" (default): φ and dφ/dt at every stage, with a second multiplier (Gear, Gupta & Leimkuhler 1985);
    - "index3", "index2", "index1": only φ, only dφ/dt, only d²φ/dt² at every stage;
    - "rs2", "rs3" (for 2 and 3 stages): φ, dφ/dt and, for 3 stages, d²φ/dt² at the end of the step only, with one
      multiplier set per stage (after Schweizer & Li 2015).
    Orders (position, velocity, multiplier), 2 stages: index3 3/2/1, index2 and ggl 3/3/2, index1 3/3/3; 3 stages:
    index3 5/3/2, index2 and ggl 5/5/3, index1 5/5/5 (Hairer & Wanner, Solving ODEs II, VI–VII). Nonholonomic
    constraints are held at every stage, as in index2 (in index1 as there); rs2 and rs3 are not for them.
    """

    tableau: ButcherTableau = eqx.field(static=True)
    formulation: str | None = eqx.field(static=True)

    def __init__(self, stages: Count = 3, formulation: str = "ggl"):
        if formulation not in FORMULATIONS:
            raise ValueError(f"formulation must be one of {', '.join(FORMULATIONS)}; got {formulation!r}")
        if FORMULATIONS[formulation].at_end and len(FORMULATIONS[formulation].levels) != stages:
            raise ValueError(f"formulation={formulation!r} is for {formulation[-1]} stages, got stages={stages}")
        self.tableau, self.formulation = radau_iia(stages), formulation


class Collocation(AbstractCollocation):
    """The method of any `ButcherTableau`; it holds constraints where the tableau is stiffly accurate and its a
    invertible. Where a is singular, as in Lobatto IIIA, whose first stage is the state itself, only "index1" does: its
    equations hold the multipliers of their own stage, those of the others only a times the multipliers."""

    tableau: ButcherTableau = eqx.field(static=True)
    formulation: str | None = eqx.field(static=True)

    def __init__(self, tableau: ButcherTableau, formulation: str = "ggl"):
        if not isinstance(tableau, ButcherTableau):
            raise ValueError(f"tableau must be a ButcherTableau, got {type(tableau).__name__}")
        if formulation not in FORMULATIONS or FORMULATIONS[formulation].at_end:
            raise ValueError(f"formulation must be ggl, index1, index2 or index3; got {formulation!r}")
        self.tableau = tableau
        self.formulation = formulation if tableau.is_stiffly_accurate else None


class Advanced(NamedTuple):
    """What a step leads to: q[n], p and λ; whether its equations were solved, and in how many iterations."""

    q: Array
    p: Array
    lam: Array
    converged: Array
    iterations: Array | int


class AbstractStepper(AbstractMethod):
    """A one-step method that is no collocation: a function of its own from state to state, on flat arrays.

    λ[c] is all that a step hands on beside (q, p): multipliers, or whatever forces have a memory; `integrate` saves it
    as `trajectory.multipliers`. What the method cannot hold (constraints, contacts, friction) `start` refuses with a
    ValueError. JAX differentiates through the steps: solve equations by what has an implicit derivative
    (`optimistix.root_find`).
    """

    @abc.abstractmethod
    def start(self, system: AbstractSystem, t, h, q: Array, p: Array, v: Array) -> Array:
        """λ before the first step."""

    @abc.abstractmethod
    def advance(self, system: AbstractSystem, t, h, q: Array, p: Array, lam: Array) -> Advanced:
        """One step of length h from the state (q, p, λ) at the time t."""


def formulation_of(method: AbstractCollocation, constraints: int) -> Formulation:
    """What a step of the method imposes; ValueError where the method cannot hold constraints."""
    if constraints == 0:
        return UNCONSTRAINED
    if method.formulation is None:
        raise ValueError(
            f"method={type(method).__name__}({method.tableau.stages}) cannot hold the system's {constraints} "
            "constraint(s): its step does not end on a stage. Use method=gd.RadauIIA(3), or, where they are "
            "nonholonomic, gd.nonholonomic.QuasiVelocities(system, basis), which has none"
        )
    formulation, tableau = FORMULATIONS[method.formulation], method.tableau
    if acceleration_level not in formulation.levels and np.linalg.matrix_rank(tableau.a) < tableau.stages:
        raise ValueError(
            f"method={type(method).__name__}(tableau, {method.formulation!r}) cannot hold the system's {constraints} "
            "constraint(s): the tableau's a is singular, so that some multipliers are in no equation. Use "
            "method=gd.RadauIIA(3), or formulation='index1'"
        )
    return formulation


class State(eqx.Module):
    """Where an integration stands: what one step needs of the ones before it; how many equal steps in one chart came
    `since` the last start; `errors`, NaN where not known: the local error of the last of them, the largest of all, and
    the largest in units of what its step moved."""

    step: Int[Array, ""]
    q: Float[Array, " n"]
    p: Array
    rounding: tuple[Array, Array]
    history: Float[Array, "r m"]
    result: Int[Array, ""]
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]
    frame: Float[Array, " f"]
    since: Int[Array, ""]
    errors: Float[Array, " 3"]

    @property
    def alive(self) -> Bool[Array, ""]:
        """No step has failed."""
        return self.result == RESULTS.successful

    @property
    def stage_size(self) -> int:
        """The numbers in the stage values of a step: the history is of two."""
        return self.history.size // 2

    def constant(self, v: Float[Array, " n"]) -> Float[Array, "r m"]:
        """The history of a motion with the velocity v, and the multipliers of the last stage."""
        return jnp.broadcast_to(jnp.concatenate([v, self.history[-1, v.size :]]), self.history.shape)


def start(system: AbstractSystem, method: AbstractCollocation, t, h, q, p, v) -> State:
    """State before the first step: stage values guessed constant."""
    s, lam = method.tableau.stages, reactions(system, t, q, p, v)
    formulation, holonomic = formulation_of(method, lam.size), system.constraint(t, q).size
    w = jnp.concatenate([v, h * lam, jnp.zeros((formulation.sets - 1) * holonomic, q.dtype)])
    zero, rounding = jnp.zeros((), int), (jnp.zeros_like(q), jnp.zeros_like(p))
    frame, unknown = start_frame(system, q), jnp.full(3, jnp.nan, q.dtype)
    return State(zero, q, p, rounding, jnp.tile(w, (2 * s, 1)), zero, zero, zero, frame, zero, unknown)


def step(method: AbstractCollocation, formulation: Formulation, system: AbstractSystem, t0, h, state, alone=False):
    """(state, w, switch): after one step, with its stage values, and the switch of charts that followed it. Where the
    step fails the state stays, and says why."""
    problem = Problem(system, t0 + h * state.step, h, state.q, state.p, method.tableau, formulation)
    root = stage_values(problem, next_guess(method, state), state.alive, alone=alone)
    after, w = after_step(problem, state, root, state.since == 0)
    after = _measured(method.tableau, h, state, after, w)
    after, switch = in_best_charts(system, problem.t + h, after)
    return after, w, switch


def next_guess(method: AbstractCollocation, state: State) -> Float[Array, "s m"]:
    """Stage values of the next step, extrapolated from those of the last two."""
    return jnp.asarray(extrapolation(method.tableau), state.history.dtype) @ state.history


def after_step(problem: Problem, state: State, root: Root, first):
    """(state, w) after a step with these stage values; the `first` one has no step before it."""
    tableau, n = problem.tableau, state.q.shape[0]
    finite = jnp.all(jnp.isfinite(root.w))
    good = state.alive & root.converged & finite
    w = jnp.where(good, root.w, state.history[tableau.stages :])
    q, p, rounding = _compensated(problem, w, state.rounding)
    good = good & jnp.all(jnp.isfinite(q)) & jnp.all(jnp.isfinite(p))

    def keep(new, old):
        return jnp.where(good, new, old)

    # Not by an index, which would be a scatter: that has no place in a native function.
    guessable = jnp.where(jnp.arange(w.shape[1]) < n + problem.system.count_constraints(state.q), w, 0)
    before = jnp.where(first, jnp.asarray(shifted(tableau, -1), w.dtype) @ guessable, state.history[tableau.stages :])
    after = State(
        state.step + state.alive,
        keep(q, state.q),
        keep(p, state.p),
        jax.tree.map(keep, rounding, state.rounding),
        keep(jnp.concatenate([before, guessable]), state.history),
        jnp.where(state.alive & ~good, jnp.where(finite, RESULTS.not_converged, RESULTS.not_finite), state.result),
        state.iterations + root.iterations,
        state.jacobians + root.jacobians,
        state.frame,
        state.since,
        state.errors,
    )
    return after, w


def _measured(tableau, h, state: State, after: State, w) -> State:
    """The state after a step, with the estimate of its local error."""
    if tableau.defect is None:
        return after
    velocities = jnp.concatenate([state.history, w])[:, : state.q.size]
    weights = jnp.asarray(tableau.defect, w.dtype)[:, None]
    error = jnp.where(state.since >= 2, h * jnp.max(jnp.abs(jnp.sum(weights * velocities, axis=0))), jnp.nan)
    moved = jnp.max(jnp.abs(after.q - state.q) + jnp.sqrt(jnp.finfo(w.dtype).eps) * jnp.abs(state.q))
    largest = jnp.fmax(jnp.stack([error, error / moved]), state.errors[1:])
    errors = jnp.concatenate([error[None], largest])
    good = after.alive
    since, errors = state.since + good, jnp.where(good, errors, state.errors)
    return eqx.tree_at(lambda s: (s.since, s.errors), after, (since, errors))


def increments(problem: Problem, w) -> tuple[Array, Array]:
    """What a step with the stage values w adds to q and p."""
    b = jnp.asarray(problem.tableau.b, w.dtype)
    pdot = jax.vmap(problem.stage)(problem.times, problem.positions(w), w)[1]
    return problem.h * (b @ w[:, : problem.q.shape[0]]), problem.h * (b @ pdot)


def _compensated(problem, w, rounding):
    """Positions and momenta at the end, with what rounding took from the increments handed on to the next step
    (compensated summation; Hairer, McLachlan & Razakarivony 2008)."""
    changes = [change + lost for change, lost in zip(increments(problem, w), rounding, strict=True)]
    q, p = problem.q + changes[0], problem.p + changes[1]
    return q, p, (changes[0] - (q - problem.q), changes[1] - (p - problem.p))


def _vandermonde(points, degree):
    return np.polynomial.legendre.legvander(np.asarray(points), degree)


def _distinct(c):
    return len(np.unique(np.round(c, 12))) == len(c)


def extrapolation(tableau) -> np.ndarray:
    """[s, 2s] matrix: stage values of the next step from those of the last two."""
    c, s = tableau.c, tableau.stages
    past = np.concatenate([c - 1, c])
    if not _distinct(past):
        matrix = np.eye(s, 2 * s, s)
    else:
        matrix = _vandermonde(c + 1, 2 * s - 1) @ np.linalg.inv(_vandermonde(past, 2 * s - 1))
    return matrix


def shifted(tableau, steps: int) -> np.ndarray:
    """[s, s] matrix: stage values so many steps later, from those of one step."""
    c, s = tableau.c, tableau.stages
    matrix = np.eye(s) if not _distinct(c) else _vandermonde(c + steps, s - 1) @ np.linalg.inv(_vandermonde(c, s - 1))
    return matrix


def dense_weights(tableau: ButcherTableau, theta):
    """[..., s] weights of the stage velocities in the collocation polynomial at the fractions θ of a step: ∫₀^θ of the
    Lagrange polynomials of the nodes. ValueError where nodes coincide."""
    s, c = tableau.stages, tableau.c
    if not tableau.has_distinct_nodes:
        raise ValueError(f"between its steps only a method with distinct nodes c is defined; these are {c.tolist()}")
    powers = jnp.stack([theta ** (k + 1) / (k + 1) for k in range(s)], axis=-1)
    return powers @ jnp.asarray(np.linalg.inv(np.vander(c, s, increasing=True)), theta.dtype)
