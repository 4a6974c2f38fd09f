"""PURPOSE: the problem of the optimal stroke as a constrained minimisation, and the evidence for its solution."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._control.problem.pointwise import pointwise
from geodyn._control.problem.wong import wong_forces
from geodyn._engine.jit import as_pytree, for_one_run
from geodyn._engine.native import native_of, native_rows
from geodyn._engine.numerics.linalg import solve
from geodyn._engine.numerics.roots import without_derivatives
from geodyn._foundations.typing import Array, Bool, Float, PyTree, Scalar
from geodyn._locomotion.connections.connection import AbstractInvariantMetric, reduction
from geodyn._locomotion.connections.force_balance import AbstractForceBalance, metric_of, velocity_and_power
from geodyn._locomotion.motion import costs
from geodyn._locomotion.motion.costs import Costly, Density, derivatives_taken, is_energy
from geodyn._locomotion.motion.holonomy import gauss_times, magnus, mean, step_ends
from geodyn._locomotion.motion.passive import AbstractPassiveSwimmer, unbalanced_forces
from geodyn._locomotion.strokes.pieces import SequenceStroke
from geodyn._locomotion.strokes.stroke import (
    FourierStroke,
    LegendreStroke,
    OpenStroke,
    Stroke,
    derivatives_at,
    legendre,
    shape_and_rate,
)

APART = 0.01
"""What is farther from its bounds, in parts of their width, or from an obstacle, in parts of the largest gap on the
way, is not pressed against them: a search ends much nearer to those that hold it."""

# A function of one point of a stroke, mapped over all of them.
AtPoints = Callable[[Float[Array, "Q s"]], Array]


class Between(NamedTuple):
    """What a SequenceStroke between two given shapes has besides these: the other knots, and the coefficients."""

    knots: Float[Array, "N-1 m"]
    coefficients: Float[Array, "N m K"]


class Passing(NamedTuple):
    """What a stroke passes at some times: its states (r, r', …), the densities of the cost, by default the power, the
    body velocities, and the forces that are left over at the hinges without a motor."""

    states: Float[Array, "Q s"]
    powers: Float[Array, " Q"]
    velocities: Float[Array, "Q k"]
    unbalanced: Float[Array, "Q h"]


class Springs(NamedTuple):
    """That the shapes of hinges without a motor move by themselves: how long the stroke takes, and the size of the
    forces there, as a unit."""

    period: Scalar
    force: Scalar


class StrokeProblem(eqx.Module):
    """Minimal energy at a given holonomy, as `minimise` takes it: scaled f, c, h of the coefficients of a stroke.

    The unknown x is the stroke itself if `base` is None, else the coefficients of a LegendreStroke through `base`, or
    of an OpenStroke from `base` to `end`, or what a SequenceStroke from `base` to `end` has `Between` them. Of a vector
    `displacement` the components `free` are not asked for, and 0. If it is `sized`, it is the length of the
    translation, followed by the rotation [r], and the direction is free. The cost is the integral of `density`, the
    power by default. `bounds` are those of the components `bounded` of (r, r'); if there are any, a `clock` (see
    `clock_of`) fixes the phase. `obstacles(g, r)` is at least 0 where the body may be; it is asked at the end of each
    step. If the holonomy shall be a pose, `back` is the inverse of that, and the displacement its logarithm, whose
    angles jump. With `springs` no force may be left over at the hinges of a body that has no motors there. Where a
    `degree` of the density in the rates is given, the pieces of a SequenceStroke take the times that are best for them,
    and not the same: where a stroke leads does not depend on them, and its cost is in closed form (`total`).

    If the holonomy does not depend on where the stroke starts, the optimal stroke is smooth, and x is a FourierStroke.
    Otherwise the optimal stroke has a corner at its start, since `p = G r' + Aᵀμ` is periodic but the charge μ is not,
    and x is a LegendreStroke, which can represent the corner.
    """

    swimmer: Costly
    displacement: Float[Array, "..."]
    energy: Scalar
    base: Float[Array, " m"] | None
    bounds: tuple[Float[Array, " b"], Float[Array, " b"]]
    bounded: tuple[int, ...] = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    end: Float[Array, " m"] | None = None
    density: Density = eqx.field(default=costs.energy, converter=as_pytree)
    clock: Callable | None = None
    free: tuple[int, ...] = eqx.field(static=True, default=())
    sized: bool = eqx.field(static=True, default=False)
    obstacles: Callable[[Float[Array, "d d"], Float[Array, " m"]], Float[Array, "..."]] | None = None
    back: Float[Array, "d d"] | None = None
    springs: Springs | None = None
    degree: Scalar | None = None

    def stroke(self, x: PyTree) -> FourierStroke | LegendreStroke | OpenStroke | SequenceStroke:
        """The stroke of the unknowns x."""
        if self.base is None:
            return x
        end = self.base if self.end is None else self.end
        if isinstance(x, Between):
            knots = jnp.concatenate([self.base[None], x.knots, end[None]])
            return SequenceStroke(knots, x.coefficients, closed=False)
        return LegendreStroke(self.base, x) if self.end is None else OpenStroke(self.base, end, x)

    def __call__(self, x: PyTree) -> tuple[Scalar, Float[Array, " p"], Float[Array, " q"]]:
        return self._scaled(x, pointwise(self.local))

    def plain(self, x: PyTree) -> tuple[Scalar, Float[Array, " p"], Float[Array, " q"]]:
        """(f, c, h) as by `__call__`, but differentiable with respect to the numbers in the problem as well."""
        return self._scaled(x, partial(native_rows, self.local))

    def _scaled(self, x: PyTree, local: AtPoints) -> tuple[Scalar, Float[Array, " p"], Float[Array, " q"]]:
        energy, g, gaps, unbalanced = self.outcome(x, local)
        held = jnp.concatenate([native_of(StrokeProblem.miss, self, g), self.late(x), self.balance(x, unbalanced)])
        return energy / self.energy, held, gaps

    def balance(self, x: PyTree, unbalanced: Float[Array, "Q h"]) -> Float[Array, " b"]:
        """The forces at the nodes that are left over at hinges without a motor, by their `modes`."""
        return jnp.ravel(self.modes(x) @ unbalanced)

    def modes(self, x: PyTree) -> Float[Array, "B Q"]:
        """The weights with which what the nodes have left over is added up: as many sums as a shape variable has
        coefficients, of trigonometric functions or polynomials."""
        times = gauss_times(self.steps)
        shares = jax.grad(mean)(jnp.zeros_like(times))
        if self.springs is None:
            return jnp.zeros((0, times.size))
        if isinstance(x, FourierStroke):
            angles = 2 * jnp.pi * jnp.arange(1, x.cosine.shape[1] + 1)[:, None] * times[None]
            waves = jnp.concatenate([jnp.ones_like(times)[None], jnp.cos(angles), jnp.sin(angles)])
        else:
            waves = legendre(2 * times - 1, 1 + x.coefficients.shape[1])
        return waves * shares[None] / self.springs.force

    def widths(self, x: PyTree, powers: Float[Array, " Q"]) -> Float[Array, " N"]:
        """The times that are best for the pieces, from the densities at the nodes."""
        shares = means_of_pieces(x, powers) ** (1 / self.degree)
        return shares / jnp.sum(shares)

    def late(self, x: PyTree) -> Float[Array, " l"]:
        """The shift of time against the initial stroke [1]; empty without a clock."""
        if self.clock is None:
            return jnp.zeros(0)
        if isinstance(x, LegendreStroke):
            times = gauss_times(self.steps)
            products = jnp.sum(jax.vmap(self.clock)(times) * jax.vmap(x)(times), axis=1)
            return jnp.mean(products)[None]
        of_cosines = jnp.sum(self.clock.cosine * x.cosine)
        of_sines = jnp.sum(self.clock.sine * x.sine)
        return (of_cosines + of_sines)[None]

    def outcome(
        self, x: PyTree, local: AtPoints
    ) -> tuple[Scalar, Float[Array, "d d"], Float[Array, " q"], Float[Array, "Q h"]]:
        """Energy, holonomy and gaps of the stroke of x, and the unbalanced forces at the nodes. The argument is the
        method `local`, mapped over all points."""
        stroke = self.stroke(x)
        passing = self.along(stroke, gauss_times(self.steps), local)
        poses = magnus(self.swimmer.group, passing.velocities)
        gaps: Float[Array, " b"] = jax.vmap(self.gaps)(passing.states).ravel()
        if self.obstacles is not None:
            shapes = jax.vmap(stroke)(step_ends(self.steps)[1:])
            gaps = jnp.append(gaps, jax.vmap(self.clearance)(poses, shapes))
        return self.total(x, passing.powers), poses[-1], gaps, passing.unbalanced

    def total(self, x: PyTree, powers: Float[Array, " Q"]) -> Scalar:
        """The cost from the densities at the nodes. A piece that takes the part w of the time, and not 1/N, costs
        (N w)^(1 − p) as much for a density of the degree p, so that the best parts of N costs E are as E^(1/p)."""
        if self.degree is None:
            return mean(powers)
        return power_mean(means_of_pieces(x, powers), self.degree)

    def clearance(self, g: Float[Array, "d d"], r: Float[Array, " m"]) -> Float[Array, " q"]:
        """The gaps to obstacles at a pose and a shape; empty where there are none."""
        if self.obstacles is None:
            return jnp.zeros(0, r.dtype)
        return jnp.ravel(self.obstacles(g, r))

    def along(self, stroke: Stroke, times: Float[Array, " Q"], local: AtPoints) -> Passing:
        """What the stroke passes at the times [Q]."""
        states = jax.vmap(lambda t: self.state(stroke, t))(times)
        k = self.swimmer.group.dim
        if not self.is_quadratic:
            values = local(states)
            return Passing(states, values[:, 0], -values[:, 1 : 1 + k], values[:, 1 + k :])
        shapes, rates = jnp.split(states, 2, axis=1)
        both = jnp.sum(local(shapes) * rates[:, None], axis=2)
        motion = both[:, :k]  # A r'
        forces = both[:, k:]  # G r'
        return Passing(states, jnp.sum(forces * rates, axis=1), -motion, jnp.zeros((times.size, 0)))

    @property
    def taken(self) -> int:
        """How many derivatives of the shape a state has, as many as the density takes."""
        return derivatives_taken(self.density)

    def state(self, stroke: Stroke, t: Scalar) -> Float[Array, " s"]:
        """The state (r, r'), or (r, r', r'') if the density takes accelerations, of a stroke at a time."""
        return jnp.concatenate(derivatives_at(stroke, t, self.taken))

    def local(self, point: Float[Array, " _"]) -> Array:
        """The values of the swimmer at a point of a stroke: (A, G) [k + m, m] at r if the problem is quadratic, else
        the density and −ξ [1 + k] at a state, and the unbalanced forces."""
        if self.is_quadratic:
            return jnp.concatenate(reduction(metric_of(self.swimmer), point))
        state = jnp.split(point, 1 + self.taken)
        r = state[0]
        rdot = state[1]
        if self.springs is not None:
            xi = -self.swimmer.velocity(r, rdot)
            body = cast(AbstractPassiveSwimmer, self.swimmer)
            left = unbalanced_forces(body, self.springs.period, r, rdot)
            return jnp.concatenate([self.density(self.swimmer, *state)[None], xi, left])
        if is_energy(self.density) and isinstance(self.swimmer, AbstractForceBalance):
            xi, power = velocity_and_power(self.swimmer, r, rdot)  # One balance of forces for both.
            return jnp.append(power, -xi)
        return jnp.append(self.density(self.swimmer, *state), -self.swimmer.velocity(r, rdot))

    @property
    def is_steady(self) -> bool:
        """Whether the cost is of one degree in the rates of a body that comes to the same place at any pace, so that it
        is constant along a best stroke that stays away from its bounds."""
        balances = isinstance(self.swimmer, AbstractForceBalance) and not self.swimmer.depends_on_pace
        return self.degree is not None or (balances and is_energy(self.density))

    @property
    def is_quadratic(self) -> bool:
        """Whether the cost is the energy of a body with a metric, so that only A and G are asked of it."""
        has_metric = isinstance(self.swimmer, AbstractInvariantMetric)
        return is_energy(self.density) and has_metric and self.springs is None

    def charge(self, multipliers: Float[Array, " p"], g: Float[Array, "d d"]) -> Float[Array, " k"]:
        """The charge μ₀ of Wong's equations from the multipliers, of which those of `miss` are the first, at the
        holonomy g."""
        group = self.swimmer.group

        def miss_after(xi: Float[Array, " k"]) -> Float[Array, " p"]:
            """The error of the holonomy, moved by exp(ξ) in space."""
            return self.miss(group.compose(group.exp(xi), g))

        slope = jax.jacfwd(miss_after)(jnp.zeros(group.dim, g.dtype))
        return self.energy / 2 * multipliers[: slope.shape[0]] @ slope

    def gaps(self, state: Float[Array, " _"]) -> Float[Array, " _"]:
        """The distances of a shape and its rate (r, r') from their bounds, relative to the width of the bounds."""
        lower, upper = self.bounds
        bounded = state[np.array(self.bounded, int)]
        return jnp.concatenate([bounded - lower, upper - bounded]) / jnp.tile(upper - lower, 2)

    def displacement_of(self, xi: Float[Array, " k"]) -> Float[Array, "..."]:
        """The displacement of the holonomy exp(ξ) in the form of the target `displacement`: the coordinates ξ, the
        length of the translation and the rotation, or that length alone (of a group with one dimension, the
        coordinate)."""
        if self.displacement.ndim and not self.sized:
            return xi
        if xi.shape[0] == 1:
            return xi[0]
        wanted = self.displacement[0] if self.sized else self.displacement
        moves = xi[: self.swimmer.group.translations]
        # A length has no derivative at 0: there what is below rounding rounds the corner off.
        rounding = jnp.finfo(xi.dtype).eps * wanted
        length = jnp.sqrt(jnp.sum(moves**2) + rounding**2)
        return jnp.append(length, xi[moves.size :]) if self.sized else length

    def asked_components(self) -> np.ndarray:
        """The indices of the components of the displacement that are asked for."""
        return np.delete(np.arange(self.displacement.size), self.free)

    def of_components(self, prices: Float[Array, " a"]) -> Float[Array, "..."]:
        """Numbers of the components that are asked for, in the form of the displacement, with 0 for those that are
        free."""
        whole = jnp.zeros_like(prices, shape=self.displacement.size).at[self.asked_components()].set(prices)
        return whole.reshape(self.displacement.shape)

    def missing(self, xi: Float[Array, " k"]) -> Float[Array, " p"]:
        """The error of exp(ξ) relative to the displacement; if that is a length, followed by the net rotation."""
        target = self.displacement
        off = (self.displacement_of(xi) - target) / jnp.linalg.norm(target)
        move = jnp.atleast_1d(off)[self.asked_components()]
        if target.ndim:
            return move
        rotation = xi[max(self.swimmer.group.translations, 1) :]
        return jnp.append(move, rotation)

    def miss(self, g: Float[Array, "d d"]) -> Float[Array, " p"]:
        """The error of the holonomy g, as by `missing`; of one that shall be a pose, how far it is beyond that."""
        group = self.swimmer.group
        if self.back is None:
            return self.missing(group.log(g))
        return group.log(group.compose(self.back, g)) / jnp.linalg.norm(self.displacement)


def means_of_pieces(x: SequenceStroke, powers: Float[Array, " Q"]) -> Float[Array, " N"]:
    """The means of values at the nodes over each piece of a stroke."""
    pieces = x.coefficients.shape[0]
    return jax.vmap(mean)(powers.reshape(pieces, -1))


def power_mean(values: Float[Array, " N"], degree: Scalar) -> Scalar:
    """The mean of the roots of this degree, to the power of it."""
    return jnp.mean(values ** (1 / degree)) ** degree


@for_one_run
def springs_of(swimmer: AbstractPassiveSwimmer, period: Scalar, stroke: FourierStroke | LegendreStroke) -> Springs:
    """The `Springs` of a search that begins at a stroke: the unit is the mean drag at the hinges along that."""

    def drag(t: Scalar) -> Float[Array, " p"]:
        r, rdot = shape_and_rate(stroke, t)
        return (reduction(swimmer, r)[1] @ rdot)[np.array(swimmer.hinges)] / period

    mean_square = jnp.mean(jax.vmap(drag)(gauss_times(32)) ** 2)
    return Springs(period, jax.lax.stop_gradient(jnp.sqrt(mean_square)))


def clock_of(stroke: PyTree, bounded: tuple[int, ...]) -> FourierStroke | None:
    """For a problem with bounds, the coefficients with which `StrokeProblem.late` measures the phase of a stroke; else
    None. Bounds are enforced at the quadrature nodes only: with a free phase the search would not settle, since it
    could always shift the stroke to pass better between the nodes."""
    if not bounded or not isinstance(stroke, FourierStroke):
        return None
    order = jnp.arange(1, stroke.cosine.shape[1] + 1)[None]
    size = jnp.sum(stroke.cosine**2 + stroke.sine**2)
    # The derivative of the coefficients by a shift of time, over its size.
    late = FourierStroke(0 * stroke.mean, order * stroke.sine / size, -order * stroke.cosine / size)
    return without_derivatives(late)


class Pace(eqx.Module):
    """The rate of a LegendreStroke over its mean square, times a weight, as a function of time: a `clock` of a
    `StrokeProblem`, which holds the phase where the weight is 1 and says nothing where it is 0."""

    stroke: LegendreStroke
    weight: Scalar

    def __call__(self, t: Scalar) -> Float[Array, " m"]:
        """The weighted rate at a time."""

        def rate_at(t: Scalar) -> Float[Array, " m"]:
            return shape_and_rate(self.stroke, t)[1]

        squares = jax.vmap(lambda t: rate_at(t) ** 2)(gauss_times(32))
        mean_square = jnp.sum(jnp.mean(squares, axis=0))
        return self.weight * rate_at(t) / mean_square


@for_one_run
def outcome(problem: StrokeProblem, x: PyTree, multipliers: Float[Array, " p"]) -> dict:
    """The fields of OptimalStroke for the unknowns x and the multipliers of `miss`, by a quadrature with twice the
    steps."""
    stroke = problem.stroke(x)
    passing, elements = _on_twice_the_steps(problem, x)
    powers = passing.powers
    if problem.degree is not None:
        widths = problem.widths(x, powers)
        stroke = dataclasses.replace(stroke, widths=widths)
        powers = _at_their_pace(widths, powers, problem.degree)
    energy = problem.total(x, passing.powers)
    end = elements[-1]
    prices = problem.energy / jnp.linalg.norm(problem.displacement) * multipliers[: problem.asked_components().size]
    return {
        "stroke": stroke,
        "cost": energy,
        "displacement": problem.displacement_of(problem.swimmer.group.log(end)),
        "charge": problem.charge(multipliers, end),
        "multiplier": problem.of_components(prices),
        "room": jnp.min(jax.vmap(problem.gaps)(passing.states), initial=jnp.inf),
        "power_variation": jnp.max(jnp.abs(powers / energy - 1)),
    }


def _at_their_pace(widths: Float[Array, " N"], powers: Float[Array, " Q"], degree: Scalar) -> Float[Array, " Q"]:
    """Densities at the nodes of pieces that take the same time, where these take the times `widths`."""
    by_piece = powers.reshape(widths.size, -1)
    return (by_piece / (widths.size * widths[:, None]) ** degree).ravel()


def _on_twice_the_steps(problem: StrokeProblem, x: PyTree) -> tuple[Passing, Float[Array, "S d d"]]:
    """(what the stroke passes, the group elements after each step), by a quadrature with twice the steps."""
    times = gauss_times(2 * problem.steps)
    passing = problem.along(problem.stroke(x), times, partial(native_rows, problem.local))
    return passing, magnus(problem.swimmer.group, passing.velocities)


@for_one_run
def wong_residual(problem: StrokeProblem, x: PyTree, charge: Float[Array, " k"]) -> Scalar:
    """The largest defect of Wong's equations along the stroke of the unknowns x, over the largest force.

    Forces are measured by the metric of shapes, `√(Fᵀ G⁻¹ F)`, so that the coordinates of shapes do not count. The
    largest force is that of either side of the equations, or, if that is more, what would stop the motion in the
    time of the stroke, `E/√(∫ r'ᵀ G r' dt)`: along a shortest way through shapes there is none otherwise. The
    defect is evaluated at the ends of twice as many steps, where no bound is active and after the last obstacle
    that the body touches, which changes the charge; NaN where that is nowhere. For a body with passive hinges,
    which move by other equations, it is the largest force that is left over at these, at the nodes of twice as many
    steps."""
    problem, x, charge = without_derivatives((problem, x, charge))
    passing, elements = _on_twice_the_steps(problem, x)
    if problem.springs is not None:
        return jnp.max(jnp.abs(passing.unbalanced)) / problem.springs.force
    stroke = problem.stroke(x)
    times = jnp.arange(1, elements.shape[0]) / elements.shape[0]
    if problem.degree is not None:
        widths = problem.widths(x, passing.powers)
        knots = jnp.arange(widths.size + 1) / widths.size
        times = jnp.interp(times, knots, jnp.append(0.0, jnp.cumsum(widths)))
        stroke = dataclasses.replace(stroke, widths=widths)
    cost = problem.total(x, passing.powers)
    return _wong_residual(problem, stroke, charge, elements[:-1], times, cost)


def _wong_residual(
    problem: StrokeProblem,
    stroke: Stroke,
    charge: Float[Array, " k"],
    elements: Float[Array, "T d d"],
    times: Float[Array, " T"],
    cost: Scalar,
) -> Scalar:
    """`wong_residual` of a stroke, from the group elements at some times."""
    group = problem.swimmer.group
    # The charge is constant in space; the body sees it in its own frame.
    charges = jax.vmap(lambda g: group.adjoint(g).T @ charge)(elements)
    motion = jax.vmap(lambda t: derivatives_at(stroke, t, 2 * problem.taken))(times)
    shapes = motion[0]
    rates = motion[1]

    def forces(*motion_and_charge: Float[Array, " _"]) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        *motion, charge = motion_and_charge
        return wong_forces(problem.swimmer, tuple(motion), charge, problem.density)

    needed, felt = native_rows(forces, *motion, charges)
    metrics = native_rows(lambda r: reduction(metric_of(problem.swimmer), r)[1], shapes)

    def sizes(forces: Float[Array, "T m"]) -> Float[Array, " T"]:
        """The sizes of forces by the metric."""
        return jnp.sqrt(jnp.sum(forces * jax.vmap(solve)(metrics, forces), axis=1))

    told = _obeys_wong(problem, elements, shapes, rates)
    largest = jnp.max(jnp.where(told, jnp.maximum(sizes(needed), sizes(felt)), 0.0))
    pace = jnp.sqrt(jnp.mean(jnp.einsum("ti,tij,tj->t", rates, metrics, rates)))
    defect = jnp.max(jnp.where(told, sizes(needed - felt), 0.0)) / jnp.maximum(largest, cost / pace)
    return jnp.where(jnp.any(told), defect, jnp.nan)


def _obeys_wong(
    problem: StrokeProblem, elements: Float[Array, "T d d"], shapes: Float[Array, "T m"], rates: Float[Array, "T m"]
) -> Bool[Array, " T"]:
    """Where Wong's equations hold along a stroke. On a bound it is pressed against that, and obeys other equations; an
    obstacle pushes the body, whose charge was another one before: it is known from the end of the stroke."""
    states = jnp.concatenate([shapes, rates], axis=1)
    room = jax.vmap(lambda state: jnp.min(problem.gaps(state), initial=1.0))(states)
    gaps = jax.vmap(problem.clearance)(elements, shapes)
    near = gaps < APART * jnp.max(gaps, axis=0, initial=0.0, keepdims=True)
    touches_later = jnp.cumsum(jnp.any(near, axis=1)[::-1])[::-1] > 0
    return (room > APART) & ~touches_later
