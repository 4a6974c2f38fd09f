"""MOTION: the periodic motion of a swimmer with passive hinges, found by Newton's method for the whole period at once.

The passive shapes y obey `dy/dt = f(t, y)` on a period of length 1, where f is `passive_rate`. They are found by
collocation at the nodes of Radau IIA with four stages in each step, of order 7, which damps what is too fast for the
steps. Newton's method has the ends y_n of the steps and the slopes k_n in them as unknowns; its corrections are
eliminated step by step. The derivatives with respect to all numbers are those of the implicit-function theorem.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import as_pytree, change_of, custom_jvp, jit, traced_numbers
from geodyn._engine.native import native, native_rows
from geodyn._engine.numerics.failure import nan_unless, no_derivative_where
from geodyn._engine.numerics.linalg import inverse, solve
from geodyn._engine.numerics.roots import without_derivatives
from geodyn._engine.tracing import batched_as
from geodyn._foundations.gate import checked
from geodyn._foundations.results import RESULTS, AbstractOutcome
from geodyn._foundations.typing import Array, Bool, Count, Float, Int, Number, Scalar, Vector
from geodyn._geometry.groups.magnus import NODES, exponent
from geodyn._integrators.contract.tableau import radau_iia
from geodyn._locomotion.connections.checks import require_positive
from geodyn._locomotion.motion.holonomy import gauss_times, magnus, mean, require_defined_along, step_ends, true_along
from geodyn._locomotion.motion.passive import AbstractPassiveSwimmer, motor_forces, rate_at, whole_shape
from geodyn._locomotion.strokes.stroke import Stroke, breaks, check_closed, floating, shape_and_rate, shape_at

RADAU = radau_iia(4)

MOST_ITERATIONS = 50
"""The bound on the corrections of Newton's method, halved ones too. No more than 6 were needed for any of 100 motions
of Purcell's swimmer with an elastic tail: stiffnesses from 0.02 to 200, amplitudes from 0.1 to 2.8 and periods from 0.1
to 30."""


class PeriodicStroke(eqx.Module):
    """The shapes of a periodic motion, a stroke of period 1: the driven ones as they are driven, the passive ones as a
    spline with two continuous derivatives where the drive has them, of polynomials of degree 5.

    `gd.periodic_motion` makes it. Call it to get the shape, `stroke(t) -> r[m]`.

    Args:
        drive: the stroke of the driven shapes.
        hinges: the indices of the passive shapes.
        ends: the ends of the steps, from 0 to 1 [N + 1].
        values: passive shapes, at both ends of each step [N, 2, p].
        slopes: their rates there [N, 2, p].
        bends: their second derivatives there [N, 2, p].

    Example:
        >>> swimmer = gd.swimmers.Passive(gd.swimmers.Purcell(), hinges=[1], stiffness=1.0)
        >>> motion = gd.periodic_motion(swimmer, gd.FourierStroke([0.0], [[0.0]], [[1.0]]), 6.0)
        >>> print(bool(jnp.allclose(motion.stroke(0.0), motion.stroke(1.0))), motion.stroke(0.25)[0])
        True 1.0
    """

    drive: Stroke
    hinges: tuple[int, ...] = eqx.field(static=True)
    ends: Float[Array, " T"]
    values: Float[Array, "N 2 p"]
    slopes: Float[Array, "N 2 p"]
    bends: Float[Array, "N 2 p"]

    @property
    def breaks(self) -> Float[Array | np.ndarray, " B"]:
        """The times of the corners of the drive."""
        return breaks(self.drive)

    @checked
    def __call__(self, t: Number) -> Float[Array, " m"]:
        """The shape at time t, for t from 0 to 1."""
        t = jnp.asarray(t)
        return whole_shape(self.hinges, shape_at(self.drive, t), self.passive(t))

    def passive(self, t: Scalar) -> Float[Array, " p"]:
        """The passive shapes at time t, by Hermite's interpolation of degree 5."""
        t = jnp.mod(t, 1.0)
        i = jnp.clip(jnp.sum(self.ends <= t) - 1, 0, self.values.shape[0] - 1)
        start = self.ends[i]
        h = self.ends[i + 1] - start
        x = (t - start) / jnp.where(h > 0, h, 1.0)
        return hermite(x, h, self.values[i], self.slopes[i], self.bends[i])


def hermite(
    x: Scalar, h: Scalar, values: Float[Array, "2 p"], slopes: Float[Array, "2 p"], bends: Float[Array, "2 p"]
) -> Float[Array, " p"]:
    """The polynomial of degree 5 at the part x of a step of the length h, from what it has at the two ends."""
    # The derivatives by x.
    slopes = h * slopes
    bends = h**2 * bends
    rise = values[1] - values[0]
    cubic = 10 * rise - 6 * slopes[0] - 4 * slopes[1] - 1.5 * bends[0] + bends[1] / 2
    quartic = -15 * rise + 8 * slopes[0] + 7 * slopes[1] + 1.5 * bends[0] - bends[1]
    quintic = 6 * rise - 3 * slopes[0] - 3 * slopes[1] - bends[0] / 2 + bends[1] / 2
    return values[0] + x * (slopes[0] + x * (bends[0] / 2 + x * (cubic + x * (quartic + x * quintic))))


class PeriodicMotion(AbstractOutcome):
    """The motion of a swimmer with passive hinges that repeats itself; the result of `gd.periodic_motion`.

    All numbers but `error`, `result` and `iterations` are differentiable, to any order. Inside jit, vmap and grad,
    where nothing can be raised, the search may have failed: then `displacement`, `cost` and `multipliers` are NaN, and
    with the default `throw` the stroke too; the derivatives of what a search that failed has found are NaN.

    Args:
        body: the swimmer.
        stroke: the shapes, all of them, as a stroke of period 1, for `gd.holonomy`, `gd.path`, `gd.plot` and others.
        period: the time that it takes.
        displacement: the group element [d, d] by which one period moves the body, `gd.holonomy` of the stroke.
        cost: the energy that is dissipated in one period, by drag and by dampers. The motors do this work: springs
            give back what they take. It is `gd.cost` of the stroke over the period.
        multipliers: Floquet's multipliers [p], complex numbers: by these a small deviation of the passive shapes grows
            in one period.
        error: an estimate of the largest error of the passive shapes.
        result: how the search ended, a member of `gd.RESULTS`.
        iterations: the number of iterations of Newton's method.

    Example:
        The faster the drive, the less time has the spring: a deviation fades more slowly.

        >>> swimmer = gd.swimmers.Passive(gd.swimmers.Purcell(), hinges=[1], stiffness=0.2)
        >>> drive = gd.FourierStroke([0.0], [[0.0]], [[1.0]])
        >>> for period in (6.0, 1.0):
        ...     motion = gd.periodic_motion(swimmer, drive, period)
        ...     print(f"{motion.multipliers[0].real:.2e}", bool(motion.stable))
        1.51e-03 True
        3.27e-01 True
    """

    body: AbstractPassiveSwimmer
    stroke: PeriodicStroke
    period: Scalar
    displacement: Float[Array, "*B d d"]
    cost: Float[Array, "*B"]
    multipliers: Array
    error: Float[Array, "*B"]
    result: Int[Array, "*B"]
    iterations: Int[Array, "*B"]

    @property
    def stable(self) -> Bool[Array, "*B"]:
        """Whether all small deviations of the passive shapes fade: the multipliers are inside of the unit circle."""
        return jnp.all(jnp.abs(self.multipliers) < 1, axis=-1)

    @checked
    def forces(self, t: Number) -> Float[Array, " d"]:
        """The forces (torques) of the motors at the driven shapes, at the time t from 0 to 1."""
        return _forces(self.body, self.stroke, self.period, jnp.asarray(t))


class MotionError(RuntimeError):
    """A search by `gd.periodic_motion` that found no periodic motion; its `motion` is where the search stood.

    Args:
        message: what went wrong.
        motion: the PeriodicMotion where the search stood.

    Example:
        Two steps cannot follow a drive with eight waves.

        >>> swimmer = gd.swimmers.Passive(gd.swimmers.Purcell(), hinges=[1], stiffness=1.0)
        >>> waves = gd.FourierStroke([0.0], jnp.zeros((1, 8)), jnp.eye(1, 8, 7))
        >>> try:
        ...     gd.periodic_motion(swimmer, waves, 6.0, steps=2)
        ... except gd.bundles.MotionError as error:
        ...     print(gd.RESULTS(int(error.motion.result)).name)
        under_resolved
    """

    def __init__(self, message: str, motion: PeriodicMotion):
        super().__init__(message)
        self.motion = motion


class _Problem(eqx.Module):
    """What is asked for: the numbers on which the motion depends."""

    body: AbstractPassiveSwimmer
    drive: Stroke
    period: Scalar


class _Unknowns(NamedTuple):
    """The passive shapes [N, p] at the beginning of each step, and their slopes [N, s, p] at its nodes."""

    y: Float[Array, "N p"]
    slopes: Float[Array, "N s p"]


class _Linear(NamedTuple):
    """The equations of the steps, linearised: the slopes ∂f/∂y [N, s, p, p] at the nodes, and for each step the inverse
    [N, s p, s p] of the matrix that maps changes of its slopes k to changes of its residual, with the sign reversed."""

    slopes: Float[Array, "N s p p"]
    inverses: Float[Array, "N q q"]


class _Along(NamedTuple):
    """Along a motion: in each step the matrix [p, p] by which small deviations of the passive shapes grow, and what the
    spline misses of the equation [p]; at the Gauss nodes [Q] the velocity of the body [k] and the power, per period."""

    growths: Float[Array, "N p p"]
    defects: Float[Array, "N p"]
    velocities: Float[Array, "Q k"]
    powers: Float[Array, " Q"]


class _State(NamedTuple):
    """A state of Newton's method: the unknowns, the correction of these of which a `part` is tried next, how `far` from
    0 their residual is, whether the search is done, and the count of its iterations."""

    z: _Unknowns
    change: _Unknowns
    far: Scalar
    part: Scalar
    done: Bool[Array, ""]
    count: Int[Array, ""]


@checked
def periodic_motion(
    body: AbstractPassiveSwimmer,
    drive: Stroke,
    period: Number,
    *,
    guess: Vector | None = None,
    steps: Count = 64,
    throw: bool = True,
) -> PeriodicMotion:
    """The periodic motion of a swimmer with passive hinges, along with shapes that are driven.

    The passive shapes obey a first-order equation, `(G r')_p + ∂U/∂r_p = 0`. The motion that repeats itself after one
    period is found by Newton's method for all of the period at once, whether it is stable or not. Nothing is waited
    for. How stable it is say Floquet's multipliers. The pace matters: with the period T the springs have more or less
    time.

    The result is differentiable to any order with respect to the numbers in the body and the drive and to the period,
    in forward and in reverse mode, by the implicit-function theorem. The guess has no derivatives. A drive with
    numbers in it, such as a `gd.FourierStroke`, is compiled once; of functions each one is compiled anew.

    Args:
        body: swimmer with passive hinges, a `gd.swimmers.Passive`.
        drive: function t -> driven shapes [m − p], in order, of period 1, closed; for one shape a function that returns
            one number [1]. Where it has corners its attribute `breaks` says when.
        period: the time T of one period, positive.
        guess: passive shapes [p] around which the motion is looked for, where there may be several; None: `body.rest`.
        steps: number of equal steps. The error is O(steps⁻⁶).
        throw: whether to raise MotionError if the search fails; if not, the motion where it stood is kept.

    Returns:
        PeriodicMotion: the stroke of all shapes, the displacement and the cost of a period, and the multipliers. Any
        consistent units.

    Raises:
        ValueError: for a period that is not positive, a drive that is not closed or has another number of shapes than
            the body has driven ones, unless steps ≥ 1, and where the body cannot have a shape of the motion.
        MotionError: a RuntimeError, if `throw` and the search fails, or if the steps are so few that no digit of the
            motion is correct. Inside jit and vmap nothing can be raised: what a search that failed would claim is NaN,
            and `result` says why.

    Example:
        The best frequency of Purcell's swimmer with an elastic tail, where the displacement per period is largest, by
        Newton's method: too slow a drive is followed without a lag, too fast a one without any bending by the spring.

        >>> swimmer = gd.swimmers.Passive(gd.swimmers.Purcell(), hinges=[1], stiffness=0.2)
        >>> drive = gd.FourierStroke([0.0], [[0.0]], [[0.5]])
        >>> def moved(period):
        ...     return jnp.linalg.norm(gd.periodic_motion(swimmer, drive, period).displacement[:2, 2])
        >>> slope, bend, period = jax.jit(jax.grad(moved)), jax.jit(jax.grad(jax.grad(moved))), 2.0
        >>> for _ in range(6):
        ...     period = period - slope(period) / bend(period)
        >>> print(f"period {period:.4f}, best: {bend(period) < 0 and abs(slope(period)) < 1e-9}")
        period 6.3370, best: True

    Source:
        Passov & Or, *Eur. Phys. J. E* 35 (2012) 78; Ascher, Mattheij & Russell, *Numerical Solution of Boundary Value
        Problems for Ordinary Differential Equations* (1995), section 5.6.
    """
    body = traced_numbers(body)
    period = floating(period, "period")
    _check(body, drive, period, steps)
    guess = _first_shapes(body, guess)
    problem = _Problem(body, as_pytree(drive), period)
    motion = _periodic_motion(problem, guess, steps, throw)
    if isinstance(motion.result, Tracer):
        return motion
    if throw and np.any(np.asarray(motion.result) != RESULTS.successful):
        raise _failure(without_derivatives(motion))
    if motion.successful:
        require_defined_along("periodic_motion", body, motion.stroke, motion.displacement)
    return motion


def _check(body: AbstractPassiveSwimmer, drive: Stroke, period: Scalar, steps: Count) -> None:
    """Raises ValueError for a period, steps or a drive by which there can be no periodic motion."""
    if period.ndim:
        raise ValueError(f"periodic_motion: period must be one number, got shape {period.shape}; jax.vmap takes more.")
    require_positive("periodic_motion", period=period)
    step_ends(int(steps))
    found = shape_at(drive, jnp.zeros((), period.dtype)).size
    count = body.shape_count if body.first_shape is None else body.first_shape.size
    wanted = None if count is None else count - len(body.hinges)
    if found == 0 or (wanted is not None and found != wanted):
        known = "at least one" if wanted is None else str(wanted)
        raise ValueError(
            f"periodic_motion: drive must give {known} driven shape(s), those that are not among the hinges"
            f" {list(body.hinges)}, got {found}."
        )
    try:
        check_closed(drive)
    except ValueError as error:
        raise ValueError(f"periodic_motion: drive: {error}") from None


def _first_shapes(body: AbstractPassiveSwimmer, guess: Any) -> Float[Array, " p"]:
    """The passive shapes at which the search begins."""
    guess = floating(body.rest if guess is None else guess, "guess")
    if guess.shape != (len(body.hinges),):
        raise ValueError(
            f"periodic_motion: guess must have the shape ({len(body.hinges)},), one number for each of the hinges"
            f" {list(body.hinges)}, got {guess.shape}."
        )
    return guess


def _failure(motion: PeriodicMotion) -> MotionError:
    """The error for a search that failed."""
    result = RESULTS(int(motion.result))
    if result == RESULTS.under_resolved:
        how = f": the passive shapes are off by {float(motion.error):.1e}; take more steps="
    else:
        how = (
            f" after {int(motion.iterations)} iterations; pass guess=, the passive shapes around which it may be, more"
            " steps=, or throw=False to see where the search stood"
        )
    return MotionError(f"periodic_motion: {result.message}{how}.", motion)


@jit
def _forces(body: AbstractPassiveSwimmer, stroke: Stroke, period: Scalar, t: Scalar) -> Array:
    r, rdot = shape_and_rate(stroke, t)
    return motor_forces(body, period, r, rdot)


@jit
def _periodic_motion(problem: _Problem, guess: Float[Array, " p"], steps: Count, throw: bool):
    body = problem.body
    period = problem.period
    ends = jax.lax.stop_gradient(step_ends(steps, breaks(problem.drive)))
    widths = jnp.diff(ends)
    found = _search(without_derivatives(problem), jax.lax.stop_gradient(guess), ends)
    z = _implicit_solution(problem, jax.lax.stop_gradient(found.z), ends)
    stroke = _stroke(problem, z, ends)
    along = _along(problem, stroke)
    multipliers = _eigenvalues(native(_product, along.growths))
    error, is_resolved = _accuracy(*jax.lax.stop_gradient((stroke, along)))
    result = jax.lax.stop_gradient(_result(found, multipliers, is_resolved))
    is_found = result == RESULTS.successful

    # The factor 1, or NaN where the law of the body is not of its kind.
    is_true = true_along(body, stroke, gauss_times(steps, breaks(stroke)))
    displacement = magnus(body.group, is_true * along.velocities, widths)[-1]
    # The powers are quadratic in rates per period: in time they are 1/period² of that, for the time of a period.
    spent = is_true * mean(along.powers, widths) / period
    claims = (displacement, spent, multipliers)
    displacement, spent, multipliers = nan_unless(is_found, claims, problem)
    shapes = (stroke.values, stroke.slopes, stroke.bends)
    if throw:
        shapes = nan_unless(is_found, shapes, problem)
    else:
        shapes = no_derivative_where(~is_found, shapes, problem)
    return PeriodicMotion(
        body=body,
        stroke=PeriodicStroke(stroke.drive, stroke.hinges, ends, *shapes),
        period=period,
        displacement=displacement,
        cost=spent,
        multipliers=multipliers,
        error=error,
        result=result,
        iterations=found.count,
    )


def _result(found: _State, multipliers: Array, is_resolved: Bool[Array, ""]) -> Int[Array, ""]:
    """How the search ended. A motion with a multiplier 1 has others beside it, and so is determined by nothing."""
    from_one = jnp.min(jnp.abs(multipliers - 1))
    # The last solve divides by this distance: where it is less than √eps, more than half of the digits are lost.
    is_isolated = from_one > jnp.sqrt(jnp.finfo(from_one.dtype).eps)
    is_motion = found.done & is_isolated
    ended = jnp.where(is_motion, RESULTS.successful, RESULTS.no_periodic_motion)
    ended = jnp.where(is_motion & ~is_resolved, RESULTS.under_resolved, ended)
    return jnp.where(jnp.isfinite(found.far), ended, RESULTS.not_finite)


def _accuracy(stroke: PeriodicStroke, along: _Along) -> tuple[Scalar, Bool[Array, ""]]:
    """(an estimate of the largest error of the passive shapes, whether they have a correct digit)."""
    # What the steps miss adds up as small deviations do, which grow from step to step.
    error = jnp.max(jnp.abs(_cyclic(along.growths, along.defects)))
    y = stroke.values[:, 0]
    amplitude = jnp.max(jnp.abs(y - jnp.mean(y, axis=0)[None]))
    driven = jax.vmap(lambda t: shape_at(stroke.drive, t))(stroke.ends)
    largest = jnp.max(jnp.abs(y)) + jnp.max(jnp.abs(driven))
    # Of passive shapes that hardly move no digit of the amplitude is asked for: a thousand roundings are allowed.
    rounding = 1e3 * jnp.finfo(y.dtype).eps * largest
    return error, error <= jnp.maximum(0.1 * amplitude, rounding)


def _search(problem: _Problem, guess: Float[Array, " p"], ends: Float[Array, " T"]) -> _State:
    """The motion, by Newton's method from passive shapes that stay at the guess; corrections are halved until they
    make the residual smaller. It ends with a correction after which the error is below rounding."""
    widths = jnp.diff(ends)
    count = widths.size
    p = guess.size
    y = jnp.broadcast_to(guess, (count, p))
    start = _Unknowns(y, jnp.zeros((count, RADAU.stages, p), guess.dtype))
    # The first trial is the start itself, which is nearer than what is infinitely far.
    first = _State(
        z=start,
        change=jax.tree.map(jnp.zeros_like, start),
        far=jnp.asarray(jnp.inf, guess.dtype),
        part=jnp.ones((), guess.dtype),
        done=jnp.zeros((), bool),
        count=jnp.zeros((), int),
    )

    def improve(state: _State) -> _State:
        trial = _corrected(state.z, state.change, state.part)
        residual, linear = _equations(problem, trial, ends)
        gaps = _gaps(trial, widths)
        far = jnp.sqrt(jnp.sum((widths[:, None, None] * residual) ** 2) + jnp.sum(gaps**2))
        change = _correction(linear, residual, gaps, widths)
        is_nearer = far < state.far
        size = jnp.max(jnp.abs(trial.y)) + jnp.max(jnp.abs(widths[:, None, None] * trial.slopes))
        # The error after a correction is of the order of its square, here eps^1.5.
        is_small = jnp.max(jnp.abs(change.y)) <= jnp.finfo(far.dtype).eps ** 0.75 * size
        done = is_nearer & is_small
        # Only the last correction is made without a look at where it leads.
        accepted = _corrected(trial, change, jnp.where(done, 1.0, 0.0).astype(far.dtype))
        nearer = _State(accepted, change, far, jnp.ones_like(far), done, state.count + 1)
        halved = state._replace(part=state.part / 2, count=state.count + 1)
        return jax.tree.map(lambda x, y: jnp.where(is_nearer, x, y), nearer, halved)

    numbers = [x for x in jax.tree.leaves((problem, guess)) if eqx.is_array(x)]
    first = batched_as(numbers, first)
    last = jax.lax.while_loop(lambda state: ~state.done & (state.count < MOST_ITERATIONS), improve, first)
    return last._replace(far=jnp.where(jnp.isfinite(last.far), last.far, jnp.nan))


def _corrected(z: _Unknowns, change: _Unknowns, part: Scalar) -> _Unknowns:
    """The unknowns with a part of a correction."""
    return jax.tree.map(lambda x, dx: x + part * dx, z, change)


def _drive_at(drive: Stroke, t: Scalar, aside: Scalar) -> tuple[Array, Array, Array]:
    """Shape, rate and second derivative of a drive at the time t, extrapolated from the time t + aside."""
    looked_at = t + aside

    def with_rate(t: Scalar) -> tuple[Array, Array]:
        return shape_and_rate(drive, t)

    values, changes = jax.jvp(with_rate, (looked_at,), (jnp.ones_like(looked_at),))
    r, rate = values
    _, bend = changes
    return r - aside * rate + aside**2 / 2 * bend, rate - aside * bend, bend


def _aside(drive: Stroke, h: Float[Array, " N"]) -> Float[Array, " N"]:
    """How far from the ends of steps of the lengths h a drive with corners is looked at; 0 for one without. With √eps
    of a step the error of the extrapolation, of third order, is below rounding."""
    return jnp.sqrt(jnp.finfo(h.dtype).eps) * h if breaks(drive).size else jnp.zeros_like(h)


def _equations(problem: _Problem, z: _Unknowns, ends: Float[Array, " T"]) -> tuple[Float[Array, "N s p"], _Linear]:
    """The residual f − k at the nodes of all steps, and its linearisation."""
    body = problem.body
    drive = problem.drive
    period = problem.period
    a = jnp.asarray(RADAU.a, z.y.dtype)
    c = jnp.asarray(RADAU.c, z.y.dtype)
    widths = jnp.diff(ends)
    stages = z.y[:, None] + widths[:, None, None] * jnp.einsum("ij,njp->nip", a, z.slopes)
    times = ends[:-1, None] + widths[:, None] * c[None]
    # The last node is the end of the step, where a corner may be.
    is_end = jnp.asarray(RADAU.c == 1.0, z.y.dtype)
    asides = -_aside(drive, widths)[:, None] * is_end[None]

    def at(t: Scalar, aside: Scalar, y: Float[Array, " p"]) -> tuple[Array, Array]:
        r, rdot = _drive_at(drive, t, aside)[:2] if breaks(drive).size else shape_and_rate(drive, t)

        def rate(y: Float[Array, " p"]) -> tuple[Array, Array]:
            """The rate, to be differentiated and as it is."""
            f = rate_at(body, period, r, rdot, y)[0]
            return f, f

        slope, f = jax.jacfwd(rate, has_aux=True)(y)
        return f, slope

    count, s, p = z.slopes.shape
    f, slopes = native_rows(at, times.ravel(), asides.ravel(), stages.reshape(count * s, p))
    residual = f.reshape(z.slopes.shape) - z.slopes
    slopes = slopes.reshape(count, s, p, p)
    # The residual at the node i changes by h a_ij ∂f_i δk_j − δk_i with the slopes at the nodes j.
    coupled = widths[:, None, None, None, None] * a[None, :, None, :, None] * slopes[:, :, :, None, :]
    one = jnp.eye(s * p, dtype=a.dtype)
    inverses = native_rows(inverse, one[None] - coupled.reshape(count, s * p, s * p))
    return residual, _Linear(slopes, inverses)


def _gaps(z: _Unknowns, widths: Float[Array, " N"]) -> Float[Array, "N p"]:
    """By how much the end of each step misses the beginning of the next one, periodically."""
    b = jnp.asarray(RADAU.b, z.y.dtype)
    return z.y + widths[:, None] * jnp.einsum("s,nsp->np", b, z.slopes) - jnp.roll(z.y, -1, axis=0)


def _correction(
    linear: _Linear, residual: Float[Array, "N s p"], gaps: Float[Array, "N p"], widths: Float[Array, " N"]
) -> _Unknowns:
    """The changes of the unknowns that take the residual and the gaps away, linear in these."""
    count, stages, p = residual.shape
    b = jnp.asarray(RADAU.b, residual.dtype)

    def slopes_of(right: Float[Array, "N s p"]) -> Float[Array, "N s p"]:
        return jnp.einsum("nij,nj->ni", linear.inverses, right.reshape(count, -1)).reshape(right.shape)

    # The changes of the slopes in a step by a change of each passive shape at its beginning.
    gains = jnp.einsum("nij,njq->niq", linear.inverses, linear.slopes.reshape(count, stages * p, p))
    gains = gains.reshape(linear.slopes.shape)
    growths = jnp.eye(p, dtype=b.dtype)[None] + widths[:, None, None] * jnp.einsum("s,nspq->npq", b, gains)
    # Those that take the residual away if the beginning of the step stays, by which its end moves.
    own = slopes_of(residual)
    gaps_left = gaps + widths[:, None] * jnp.einsum("s,nsp->np", b, own)
    y = _cyclic(growths, gaps_left)
    return _Unknowns(y, own + jnp.einsum("nspq,nq->nsp", gains, y))


def _cyclic(growths: Float[Array, "N p p"], gaps: Float[Array, "N p"]) -> Float[Array, "N p"]:
    """The periodic solution of `y_{n+1} = growths_n y_n + gaps_n`, linear in the gaps.

    By a scan of maps, not of values: JAX cannot transpose a loop over both what is linear and what is not."""

    def after(first: tuple[Array, Array], then: tuple[Array, Array]) -> tuple[Array, Array]:
        """The map y → growth y + gap of first one step, or many, and then another."""
        first_growth, first_gap = first
        growth, gap = then
        return growth @ first_growth, jnp.einsum("npq,nq->np", growth, first_gap) + gap

    growth, gap = jax.lax.associative_scan(after, (growths, gaps))
    one = jnp.eye(gaps.shape[1], dtype=gaps.dtype)
    # All steps together lead back to the start.
    start = solve(one - growth[-1], gap[-1])
    later = jnp.einsum("npq,q->np", growth[:-1], start) + gap[:-1]
    return jnp.concatenate([start[None], later])


@custom_jvp
def _implicit_solution(problem: _Problem, z: _Unknowns, ends: Float[Array, " T"]) -> _Unknowns:
    """The solution z, with the derivatives of the implicit-function theorem, of any order."""
    return z


@_implicit_solution.def_jvp
def _(primals: tuple[Any, ...], tangents: tuple[Any, ...]):
    problem, _, ends = primals
    # Not the argument z: derivatives of a higher order are taken through this one too.
    z = _implicit_solution(*primals)
    _, moved = change_of(lambda problem: _equations(problem, z, ends)[0], (problem,), (tangents[0],))
    _, linear = _equations(problem, z, ends)
    return z, _correction(linear, moved, jnp.zeros_like(z.y), jnp.diff(ends))


def _stroke(problem: _Problem, z: _Unknowns, ends: Float[Array, " T"]) -> PeriodicStroke:
    """The spline through the solution, with the rates and second derivatives that the equation gives."""
    body = problem.body
    drive = problem.drive
    period = problem.period

    def derivatives(t: Scalar, aside: Scalar, y: Float[Array, " p"]) -> tuple[Array, Array]:
        r, rdot, bend = _drive_at(drive, t, aside)

        def rate(r: Float[Array, " d"], rdot: Float[Array, " d"], y: Float[Array, " p"]) -> Float[Array, " p"]:
            return rate_at(body, period, r, rdot, y)[0]

        slope = rate(r, rdot, y)
        _, slope_change = jax.jvp(rate, (r, rdot, y), (rdot, bend, slope))
        return slope, slope_change

    values = jnp.stack([z.y, jnp.roll(z.y, -1, axis=0)], axis=1)
    times = jnp.stack([ends[:-1], ends[1:]], axis=1)
    # Both ends of a step are looked at from inside of it: a corner of the drive may be there.
    aside = _aside(drive, jnp.diff(ends))
    asides = jnp.stack([aside, -aside], axis=1)
    slopes, bends = native_rows(derivatives, times.ravel(), asides.ravel(), values.reshape(times.size, -1))
    slopes = slopes.reshape(values.shape)
    bends = bends.reshape(values.shape)
    return PeriodicStroke(drive, body.hinges, ends, values, slopes, bends)


def _along(problem: _Problem, stroke: PeriodicStroke) -> _Along:
    """What is needed along the motion, at three Gauss nodes in each step."""
    body = problem.body
    drive = problem.drive
    period = problem.period
    nodes = jnp.asarray(NODES, stroke.ends.dtype)
    widths = jnp.diff(stroke.ends)

    def at(start: Scalar, h: Scalar, x: Scalar, values: Array, slopes: Array, bends: Array) -> tuple:
        t = start + h * x
        # The change of the spline by x, over a whole step.
        y, change = jax.jvp(lambda x: hermite(x, h, values, slopes, bends), (x,), (jnp.ones_like(x),))
        r, rdot = shape_and_rate(drive, t)

        def rate(y: Float[Array, " p"]) -> tuple[Array, tuple]:
            f, form, metric = rate_at(body, period, r, rdot, y)
            return f, (f, form, metric)

        slope, (f, form, metric) = jax.jacfwd(rate, has_aux=True)(y)
        whole_rate = whole_shape(body.hinges, rdot, change / jnp.where(h > 0, h, 1.0))
        defect = jnp.abs(h * f - change)
        velocity = -form @ whole_rate
        power = whole_rate @ metric @ whole_rate
        return h * slope, defect, velocity, power

    count = widths.size
    step_of_node = jnp.repeat(jnp.arange(count), nodes.size)
    steps = (stroke.ends[:-1][step_of_node], widths[step_of_node], jnp.tile(nodes, count))
    splines = (stroke.values[step_of_node], stroke.slopes[step_of_node], stroke.bends[step_of_node])
    rates, defects, velocities, powers = native_rows(at, *steps, *splines)
    p = rates.shape[-1]
    rates = rates.reshape(count, nodes.size, p, p)
    defects = defects.reshape(count, nodes.size, p)
    # Where a spring is stiff a defect d is answered by a deviation of d/stiffness, with the norm of h ∂f/∂y.
    stiffness = jnp.max(jnp.sum(jnp.abs(rates), axis=-1), axis=(1, 2))
    defects = jnp.max(defects, axis=1) / (1 + stiffness)[:, None]

    def commutator(a: Float[Array, "p p"], b: Float[Array, "p p"]) -> Float[Array, "p p"]:
        """With the sign for what multiplies from the left, `Y' = F Y`."""
        return b @ a - a @ b

    # For one passive shape Magnus's series is exact but for the quadrature, however stiff the spring is.
    exponents = jax.vmap(lambda step: exponent(commutator, step))(rates)
    growths = jnp.exp(exponents) if p == 1 else jax.vmap(jax.scipy.linalg.expm)(exponents)
    return _Along(growths, defects, velocities, powers)


def _product(growths: Float[Array, "N p p"]) -> Float[Array, "p p"]:
    """The matrix of all steps, the last one to the left."""
    one = jnp.eye(growths.shape[1], dtype=growths.dtype)
    return jax.lax.scan(lambda whole, step: (step @ whole, None), one, growths)[0]


def _eigenvalues(matrix: Float[Array, "p p"]) -> Array:
    """The eigenvalues [p], complex."""
    complex_type = jnp.result_type(matrix.dtype, jnp.complex64)
    return matrix[0].astype(complex_type) if matrix.shape[0] == 1 else jnp.linalg.eigvals(matrix)
