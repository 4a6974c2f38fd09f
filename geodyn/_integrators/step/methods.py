"""Integration methods: a Butcher tableau, a formulation of the constraints, and one step of the method."""

import abc
import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Bool, Float, Int, Number, Scalar, Stages
from geodyn._integrators.contract.constraints import reactions
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.contract.tableau import ButcherTableau, gauss, radau_iia
from geodyn._integrators.step.charts import in_best_charts, start_frame
from geodyn._integrators.step.collocation import FORMULATIONS, UNCONSTRAINED, Formulation, Problem, acceleration_level
from geodyn._integrators.step.errors import next_errors, no_errors
from geodyn._integrators.step.stages import Root, stage_values


class AbstractMethod(eqx.Module):
    """A method of integration with steps of its own kind; the base class of all methods.

    It is either a tableau (`gd.Gauss`, `gd.RadauIIA`, `gd.methods.Collocation`) or a stepper
    (`gd.methods.AbstractStepper`).

    Example:
        >>> methods = gd.Gauss(3), gd.methods.Moreau(), gd.tableaus.rk4()
        >>> print([isinstance(method, gd.methods.AbstractMethod) for method in methods])
        [True, True, False]
    """


class AbstractCollocation(AbstractMethod):
    """A Runge–Kutta method: a Butcher tableau and a formulation of the constraints."""

    tableau: eqx.AbstractVar[ButcherTableau]
    formulation: eqx.AbstractVar[str | None]


class Gauss(AbstractCollocation):
    """Gauss collocation, of order 2s with s stages: symplectic in (q, p) and time-reversible.

    For systems without constraints: of a constrained system it would leave the velocity constraints violated by O(1),
    and `gd.integrate` refuses it.

    Args:
        stages: the number s of stages, by default 3.

    Raises:
        ValueError: unless `stages` is a positive whole number.

    Example:
        With half the step the error is 2⁶ times smaller.

        >>> body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Harmonic(1.0, [0.0]))
        >>> def error(steps):
        ...     end = gd.integrate(body, [[1.0]], t1=5.0, steps=steps, method=gd.Gauss(3)).q[-1, 0, 0]
        ...     return abs(end - jnp.cos(5.0))
        >>> print(f"{jnp.log2(error(10) / error(20)):.1f}")
        6.0

    Source:
        Hairer, Lubich & Wanner, *Geometric Numerical Integration*, II.1.3 and VI.4.
    """

    tableau: ButcherTableau = eqx.field(static=True)
    formulation: str | None = eqx.field(static=True)

    @checked
    def __init__(self, stages: Stages = 3):
        self.tableau, self.formulation = gauss(stages), None


class RadauIIA(AbstractCollocation):
    """Radau IIA collocation, of order 2s − 1 with s stages: stiffly accurate, for stiff and for constrained systems.

    It is not symplectic: it damps. The formulation says what a step imposes on the constraints φ = 0:

    - "ggl": φ and dφ/dt at every stage, with a second multiplier (Gear, Gupta & Leimkuhler 1985).
    - "index3", "index2", "index1": only φ, only dφ/dt, only d²φ/dt² at every stage.
    - "rs2", "rs3" (for 2 and 3 stages): φ, dφ/dt and, for 3 stages, d²φ/dt² at the end of the step only, with one set
      of multipliers per stage (after Schweizer & Li 2015).

    Orders (position, velocity) with 2 stages: index3 3/2, the others 3/3; with 3 stages: index3 5/3, the others 5/5.
    The multipliers of a trajectory are those of its states, and at least as accurate as the velocities. Nonholonomic
    constraints are held at every stage, as in index2 (in index1 as there); rs2 and rs3 are not for them.

    Args:
        stages: the number s of stages, by default 3.
        formulation: how constraints are held, by default "ggl".

    Raises:
        ValueError: unless `stages` is a positive whole number and `formulation` one of these, fit for the stages.

    Example:
        A pendulum keeps to its circle.

        >>> pendulum = gd.Lagrangian(lambda q, v: v @ v / 2 - 9.81 * q[1], constraint=lambda q: (q @ q - 1) / 2)
        >>> trajectory = gd.integrate(pendulum, [1.0, 0.0], t1=1.0, steps=50, method=gd.RadauIIA(3))
        >>> q, v = trajectory.q[-1], trajectory.v[-1]
        >>> print(bool(abs(q @ q - 1) < 1e-12), bool(abs(q @ v) < 1e-12))
        True True

    Source:
        Hairer & Wanner, *Solving Ordinary Differential Equations II*, VI–VII.
    """

    tableau: ButcherTableau = eqx.field(static=True)
    formulation: str | None = eqx.field(static=True)

    @checked
    def __init__(self, stages: Stages = 3, formulation: str = "ggl"):
        if formulation not in FORMULATIONS:
            raise ValueError(f"formulation must be one of {', '.join(FORMULATIONS)}; got {formulation!r}")
        if FORMULATIONS[formulation].at_end and len(FORMULATIONS[formulation].levels) != stages:
            raise ValueError(f"formulation={formulation!r} is for {formulation[-1]} stages, got stages={stages}")
        self.tableau, self.formulation = radau_iia(stages), formulation


class Collocation(AbstractCollocation):
    """The implicit or explicit Runge–Kutta method of any Butcher tableau.

    It holds constraints where the tableau is stiffly accurate and its matrix a invertible. Where a is singular, as in
    Lobatto IIIA, whose first stage is the state itself, only "index1" holds them: its equations contain the multipliers
    of their own stage, those of the other formulations only a times the multipliers.

    Args:
        tableau: a `gd.methods.ButcherTableau`, such as those in `gd.tableaus`.
        formulation: how constraints are held: "ggl", "index1", "index2" or "index3", see `gd.RadauIIA`.

    Raises:
        ValueError: for another formulation, and for what is no tableau.

    Example:
        The classical Runge–Kutta method loses energy, where Gauss collocation of the same order does not.

        >>> body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Harmonic(1.0, [0.0]))
        >>> def energy(tableau):
        ...     method = gd.methods.Collocation(tableau)
        ...     return gd.integrate(body, [[1.0]], t1=100.0, steps=200, method=method).energy[-1]
        >>> print(f"{energy(gd.tableaus.rk4()):.4f} {energy(gd.tableaus.gauss(2)):.4f}")
        0.4794 0.5000

    Source:
        Hairer, Nørsett & Wanner, *Solving Ordinary Differential Equations I* (1993), II.1 (explicit methods, such as
        the classical one of order 4) and II.7 (implicit ones).
    """

    tableau: ButcherTableau = eqx.field(static=True)
    formulation: str | None = eqx.field(static=True)

    @checked
    def __init__(self, tableau: ButcherTableau, formulation: str = "ggl"):
        if not isinstance(tableau, ButcherTableau):
            raise ValueError(f"tableau must be a ButcherTableau, got {type(tableau).__name__}")
        if formulation not in FORMULATIONS or FORMULATIONS[formulation].at_end:
            raise ValueError(f"formulation must be ggl, index1, index2 or index3; got {formulation!r}")
        self.tableau = tableau
        self.formulation = formulation if tableau.is_stiffly_accurate else None


class Advanced(NamedTuple):
    """What a step of a `gd.methods.AbstractStepper` leads to.

    Args:
        q: the configuration at the end of the step [n].
        p: the momentum there [n].
        lam: the multipliers λ, or what else the step hands on [c].
        converged: whether the equations of the step were solved.
        iterations: in how many iterations.

    Example:
        One step of Störmer and Verlet on q'' = −q, from (1, 0): q = 1 − h²/2.

        >>> body, h = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Harmonic(1.0, [0.0])), jnp.array(0.1)
        >>> q, p, lam = jnp.array([1.0]), jnp.array([0.0]), jnp.zeros(0)
        >>> step = gd.methods.StormerVerlet().advance(body, jnp.array(0.0), h, q, p, lam)
        >>> print(f"{step.q[0]:.6f}", bool(step.converged))
        0.995000 True
    """

    q: Array
    p: Array
    lam: Array
    converged: Array
    iterations: Array | int


class AbstractStepper(AbstractMethod):
    """A one-step method that is no collocation: a function from state to state, on flat arrays; a base class.

    A subclass has two methods. `start(system, t, h, q, p, v)` returns λ[c] before the first step, and refuses what the
    method cannot hold (constraints, contacts, friction) with a ValueError. `advance(system, t, h, q, p, lam)` takes one
    step of length h from the state at the time t and returns a `gd.methods.Advanced`. λ is all that a step hands on
    beside (q, p): multipliers, or whatever forces have a memory; it is saved as `trajectory.multipliers`. JAX
    differentiates through the steps: solve equations by what has an implicit derivative, such as
    `optimistix.root_find`.

    Example:
        The symplectic Euler method: of order 1, but its energy does not drift.

        >>> class SymplecticEuler(gd.methods.AbstractStepper):
        ...     def start(self, system, t, h, q, p, v):
        ...         return jnp.zeros(0, q.dtype)
        ...     def advance(self, system, t, h, q, p, lam):
        ...         p = p + h * system.force(t, q, system.velocity(t, q, p), lam)
        ...         q = q + h * system.velocity(t, q, p)
        ...         return gd.methods.Advanced(q, p, lam, jnp.array(True), 1)
        >>> body = gd.System(gd.spaces.Euclidean(1), [1.0], gd.Harmonic(1.0, [0.0]))
        >>> trajectory = gd.integrate(body, [[1.0]], t1=100.0, steps=1000, method=SymplecticEuler())
        >>> print(f"{trajectory.energy.min():.3f} {trajectory.energy.max():.3f}")
        0.476 0.526
    """

    @abc.abstractmethod
    def start(self, system: AbstractSystem, t: Scalar, h: Scalar, q: Array, p: Array, v: Array) -> Array:
        """The λ before the first step."""

    @abc.abstractmethod
    def advance(self, system: AbstractSystem, t: Scalar, h: Scalar, q: Array, p: Array, lam: Array) -> Advanced:
        """One step of length h from the state (q, p, λ) at the time t."""


@functools.singledispatch
def advice(method: AbstractMethod, system: AbstractSystem, t: Number, h: Number, q: Array, v: Array) -> str:
    """Why a step from this state could not be solved and what to do, where the method registers a function that can say
    more than that it was not."""
    return ""


def formulation_of(method: AbstractCollocation, constraints: int) -> Formulation:
    """The formulation of the constraints in a step of the method; ValueError if the method cannot hold constraints."""
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
    """The state of an integration: everything that a step needs from the steps before it. `since` counts the equal
    steps in one chart since the last start. The `errors` are those of `errors.py`, with the `origin`, the q at the
    start."""

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
    errors: Float[Array, " 5"]
    origin: Float[Array, " n"]

    @property
    def alive(self) -> Bool[Array, ""]:
        """Whether no step has failed."""
        return self.result == RESULTS.successful

    def constant(self, v: Float[Array, " n"]) -> Float[Array, "r m"]:
        """The history of a motion with the constant velocity v and the multipliers of the last stage."""
        return jnp.broadcast_to(jnp.concatenate([v, self.history[-1, v.size :]]), self.history.shape)


def start(
    system: AbstractSystem,
    method: AbstractCollocation,
    t: Scalar,
    h: Scalar,
    q: Float[Array, " n"],
    p: Array,
    v: Float[Array, " n"],
) -> State:
    """The state before the first step, whose stage values are guessed to be constant."""
    s, lam = method.tableau.stages, reactions(system, t, q, p, v)
    formulation, holonomic = formulation_of(method, lam.size), system.constraint(t, q).size
    w = jnp.concatenate([v, h * lam, jnp.zeros((formulation.sets - 1) * holonomic, q.dtype)])
    zero, rounding = jnp.zeros((), int), (jnp.zeros_like(q), jnp.zeros_like(p))
    history, frame = jnp.tile(w, (2 * s, 1)), start_frame(system, q)
    return State(zero, q, p, rounding, history, zero, zero, zero, frame, zero, no_errors(q.dtype), q)


def step(
    method: AbstractCollocation, formulation: Formulation, system: AbstractSystem, t0: Scalar, h: Scalar, state: State
) -> tuple[State, Array, Array]:
    """(state, w, switch) after one step: the state, the stage values, and the switch of charts after the step. If the
    step fails, q, p and the history stay as they were, and `result` says why."""
    problem = Problem(system, t0 + h * state.step, h, state.q, state.p, method.tableau, formulation)
    root = stage_values(problem, next_guess(method, state), state.alive)
    after, w = after_step(problem, state, root, state.since == 0)
    after = _with_errors(method.tableau, h, state, after, w)
    after, switch = in_best_charts(system, problem.t + h, after)
    return after, w, switch


def next_guess(method: AbstractCollocation, state: State) -> Float[Array, "s m"]:
    """A guess of the stage values of the next step, extrapolated from those of the last two."""
    return jnp.asarray(extrapolation(method.tableau), state.history.dtype) @ state.history


def after_step(problem: Problem, state: State, root: Root, first: Bool[Array, ""]) -> tuple[State, Array]:
    """(state, w) after a step with the stage values of `root`; the `first` step has no step before it."""
    tableau, n = problem.tableau, state.q.shape[0]
    finite = jnp.all(jnp.isfinite(root.w))
    good = state.alive & root.converged & finite
    w = jnp.where(good, root.w, state.history[tableau.stages :])
    q, p, rounding = _compensated_sum(problem, w, problem.rates(w), state.rounding)
    good = good & jnp.all(jnp.isfinite(q)) & jnp.all(jnp.isfinite(p))

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(good, new, old)

    guessable = jnp.where(jnp.arange(w.shape[1]) < n + problem.system.count_constraints(state.q), w, 0)
    before = jnp.where(
        first, jnp.asarray(shift_matrix(tableau, -1), w.dtype) @ guessable, state.history[tableau.stages :]
    )
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
        state.origin,
    )
    return after, w


def _with_errors(tableau: ButcherTableau, h: Scalar, state: State, after: State, w: Float[Array, "s m"]) -> State:
    """The state `after` a step, with the estimates of its error."""
    velocities = jnp.concatenate([state.history, w])[:, : state.q.size]
    rounded = jnp.sqrt(jnp.finfo(w.dtype).eps) * jnp.abs(state.q)

    def largest(weights: np.ndarray) -> Float[Array, " _"]:
        return jnp.max(jnp.abs(jnp.asarray(weights, w.dtype) @ velocities), axis=1)

    moved = jnp.max(jnp.abs(after.q - state.q) + rounded)
    far = jnp.max(jnp.abs(after.q - state.origin) + rounded)
    errors = next_errors(tableau, state.since, state.errors, h, largest, moved, far)
    good = after.alive
    since, errors = state.since + good, jnp.where(good, errors, state.errors)
    return eqx.tree_at(lambda s: (s.since, s.errors), after, (since, errors))


def _compensated_sum(
    problem: Problem, w: Float[Array, "s m"], pdot: Array, rounding: tuple[Array, Array]
) -> tuple[Array, Array, tuple[Array, Array]]:
    """(q, p, rounding) at the end of a step by compensated summation: `rounding` is the part of the increments that was
    lost to rounding, which the next step adds (Hairer, McLachlan & Razakarivony 2008)."""
    changes = [change + lost for change, lost in zip(problem.increments(w, pdot), rounding, strict=True)]
    q, p = problem.q + changes[0], problem.p + changes[1]
    return q, p, (changes[0] - (q - problem.q), changes[1] - (p - problem.p))


def _vandermonde(points: Float[np.ndarray, " _"], degree: int) -> np.ndarray:
    return np.polynomial.legendre.legvander(np.asarray(points), degree)


def _distinct(c: Float[np.ndarray, " _"]) -> bool:
    return len(np.unique(np.round(c, 12))) == len(c)


def extrapolation(tableau: ButcherTableau) -> np.ndarray:
    """The matrix [s, 2s] that extrapolates the stage values of the last two steps to the next one."""
    c, s = tableau.c, tableau.stages
    past = np.concatenate([c - 1, c])
    if not _distinct(past):
        matrix = np.eye(s, 2 * s, s)
    else:
        matrix = _vandermonde(c + 1, 2 * s - 1) @ np.linalg.inv(_vandermonde(past, 2 * s - 1))
    return matrix


def shift_matrix(tableau: ButcherTableau, steps: int) -> np.ndarray:
    """The matrix [s, s] that extrapolates the stage values of one step to those `steps` steps later."""
    c, s = tableau.c, tableau.stages
    matrix = np.eye(s) if not _distinct(c) else _vandermonde(c + steps, s - 1) @ np.linalg.inv(_vandermonde(c, s - 1))
    return matrix


def dense_weights(tableau: ButcherTableau, theta: Float[Array, "..."]) -> Float[Array, "... s"]:
    """The weights [..., s] of the stage velocities in the collocation polynomial at the fractions θ of a step: the
    integrals from 0 to θ of the Lagrange polynomials of the nodes. ValueError if nodes coincide."""
    s, c = tableau.stages, tableau.c
    if not tableau.has_distinct_nodes:
        raise ValueError(f"between its steps only a method with distinct nodes c is defined; these are {c.tolist()}")
    powers = jnp.stack([theta ** (k + 1) / (k + 1) for k in range(s)], axis=-1)
    return powers @ jnp.asarray(np.linalg.inv(np.vander(c, s, increasing=True)), theta.dtype)
