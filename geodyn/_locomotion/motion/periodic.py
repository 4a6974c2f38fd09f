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
        start, h = self.ends[i], self.ends[i + 1] - self.ends[i]
        x = (t - start) / jnp.where(h > 0, h, 1.0)
        return hermite(x, h, self.values[i], self.slopes[i], self.bends[i])


def hermite(
    x: Scalar, h: Scalar, values: Float[Array, "2 p"], slopes: Float[Array, "2 p"], bends: Float[Array, "2 p"]
) -> Float[Array, " p"]:
    """The polynomial of degree 5 at the part x of a step of the length h, from what it has at the two ends."""
    slopes, bends = h * slopes, h**2 * bends
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
    """The equations of the steps, linearised: the slopes of f [N, s, p, p] at the nodes, and for each step the inverse
    [N, s p, s p] of the matrix that maps changes of its slopes to changes of its residual, with the sign reversed."""

    rates: Float[Array, "N s p p"]
    inverses: Float[Array, "N q q"]


class _Along(NamedTuple):
    """Along a motion: in each step the matrix [p, p] by which small deviations of the passive shapes grow, and what the
    spline misses of the equation [p]; at the Gauss nodes [Q] the velocity of the body [k] and the power, per period."""

    growths: Float[Array, "N p p"]
    defects: Float[Array, "N p"]
    velocities: Float[Array, "Q k"]
    powers: Float[Array, " Q"]


class _Search(NamedTuple):
    """A state of Newton's method."""

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
    body, period = traced_numbers(body), floating(period, "period")
    _check(body, drive, period, steps)
    guess = _first_shapes(body, guess)
    motion = _periodic_motion(_Problem(body, as_pytree(drive), period), guess, steps, throw)
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
    ends = jax.lax.stop_gradient(step_ends(steps, breaks(problem.drive)))
    found = _found(without_derivatives(problem), jax.lax.stop_gradient(guess), ends)
    z = _implicit(problem, jax.lax.stop_gradient(found.z), ends)
    stroke = _stroke(problem, z, ends)
    along = _along(problem, stroke)
    multipliers = _eigenvalues(native(_product, along.growths))
    error, is_resolved = _accuracy(*jax.lax.stop_gradient((stroke, along)))
    result = jax.lax.stop_gradient(_result(found, multipliers, is_resolved))
    good = result == RESULTS.successful
    body, period, widths = problem.body, problem.period, jnp.diff(ends)
    is_true = true_along(body, stroke, gauss_times(steps, breaks(stroke)))
    displacement = magnus(body.group, is_true * along.velocities, widths)[-1]
    spent = is_true * mean(along.powers, widths) / period
    claims = displacement, spent, multipliers
    displacement, spent, multipliers = nan_unless(good, claims, problem)
    shapes = stroke.values, stroke.slopes, stroke.bends
    shapes = nan_unless(good, shapes, problem) if throw else no_derivative_where(~good, shapes, problem)
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


def _result(found: _Search, multipliers: Array, is_resolved: Bool[Array, ""]) -> Int[Array, ""]:
    """How the search ended. A motion with a multiplier 1 has others beside it, and so is determined by nothing."""
    apart = jnp.min(jnp.abs(multipliers - 1))
    is_one = found.done & (apart > jnp.sqrt(jnp.finfo(apart.dtype).eps))
    ended = jnp.where(is_one, RESULTS.successful, RESULTS.no_periodic_motion)
    ended = jnp.where(is_one & ~is_resolved, RESULTS.under_resolved, ended)
    return jnp.where(jnp.isfinite(found.far), ended, RESULTS.not_finite)


def _accuracy(stroke: PeriodicStroke, along: _Along) -> tuple[Scalar, Bool[Array, ""]]:
    """(an estimate of the largest error of the passive shapes, whether they have a correct digit)."""
    error = jnp.max(jnp.abs(_cyclic(along.growths, along.defects)))
    y = stroke.values[:, 0]
    amplitude = jnp.max(jnp.abs(y - jnp.mean(y, axis=0)[None]))
    largest = jnp.max(jnp.abs(y)) + jnp.max(jnp.abs(jax.vmap(lambda t: shape_at(stroke.drive, t))(stroke.ends)))
    rounding = 1e3 * jnp.finfo(y.dtype).eps * largest
    return error, error <= jnp.maximum(0.1 * amplitude, rounding)


def _found(problem: _Problem, guess: Float[Array, " p"], ends: Float[Array, " T"]) -> _Search:
    """The motion, by Newton's method from passive shapes that stay at the guess; corrections are halved until they
    make the residual smaller. It ends with a correction after which the error is below rounding."""
    widths = jnp.diff(ends)
    shape = widths.size, guess.size
    start = _Unknowns(jnp.broadcast_to(guess, shape), jnp.zeros((shape[0], RADAU.stages, shape[1]), guess.dtype))
    still = jax.tree.map(jnp.zeros_like, start)
    infinite = jnp.asarray(jnp.inf, guess.dtype)
    first = _Search(start, still, infinite, jnp.ones((), guess.dtype), jnp.zeros((), bool), jnp.zeros((), int))

    def improve(search: _Search) -> _Search:
        trial = _moved(search.z, search.change, search.part)
        residual, linear = _equations(problem, trial, ends)
        gaps = _gaps(trial, widths)
        far = jnp.sqrt(jnp.sum((widths[:, None, None] * residual) ** 2) + jnp.sum(gaps**2))
        change = _correction(linear, residual, gaps, widths)
        is_nearer = far < search.far
        size = jnp.max(jnp.abs(trial.y)) + jnp.max(jnp.abs(widths[:, None, None] * trial.slopes))
        is_small = jnp.max(jnp.abs(change.y)) <= jnp.finfo(far.dtype).eps ** 0.75 * size
        done = is_nearer & is_small
        accepted = _moved(trial, change, jnp.where(done, 1.0, 0.0).astype(far.dtype))
        nearer = _Search(accepted, change, far, jnp.ones_like(far), done, search.count + 1)
        halved = search._replace(part=search.part / 2, count=search.count + 1)
        return jax.tree.map(lambda x, y: jnp.where(is_nearer, x, y), nearer, halved)

    like = jax.tree.leaves(problem), guess
    first = batched_as([x for x in jax.tree.leaves(like) if eqx.is_array(x)], first)
    search = jax.lax.while_loop(lambda s: ~s.done & (s.count < MOST_ITERATIONS), improve, first)
    return search._replace(far=jnp.where(jnp.isfinite(search.far), search.far, jnp.nan))


def _moved(z: _Unknowns, change: _Unknowns, part: Scalar) -> _Unknowns:
    return jax.tree.map(lambda x, dx: x + part * dx, z, change)


def _driven(drive: Stroke, t: Scalar, aside: Scalar) -> tuple[Array, Array, Array]:
    """Shape, rate and second derivative of a drive at the time t, extrapolated from the time t + aside."""
    t = t + aside

    def rate_too(t: Scalar) -> tuple[Array, Array]:
        return shape_and_rate(drive, t)

    (r, rate), (_, bend) = jax.jvp(rate_too, (t,), (jnp.ones_like(t),))
    return r - aside * rate + aside**2 / 2 * bend, rate - aside * bend, bend


def _aside(drive: Stroke, h: Float[Array, " N"]) -> Float[Array, " N"]:
    """How far from the ends of steps of the lengths h a drive with corners is looked at; 0 for one without."""
    return jnp.sqrt(jnp.finfo(h.dtype).eps) * h if breaks(drive).size else jnp.zeros_like(h)


def _equations(problem: _Problem, z: _Unknowns, ends: Float[Array, " T"]) -> tuple[Float[Array, "N s p"], _Linear]:
    """The residual f − k at the nodes of all steps, and its linearisation."""
    body, drive, period = problem.body, problem.drive, problem.period
    a, c = jnp.asarray(RADAU.a, z.y.dtype), jnp.asarray(RADAU.c, z.y.dtype)
    widths = jnp.diff(ends)
    stages = z.y[:, None] + widths[:, None, None] * jnp.einsum("ij,njp->nip", a, z.slopes)
    times = ends[:-1, None] + widths[:, None] * c[None]
    # The last node is the end of the step, where a corner may be.
    is_end = jnp.asarray(RADAU.c == 1.0, z.y.dtype)
    asides = -_aside(drive, widths)[:, None] * is_end[None]

    def at(t: Scalar, aside: Scalar, y: Float[Array, " p"]) -> tuple[Array, Array]:
        r, rdot = _driven(drive, t, aside)[:2] if breaks(drive).size else shape_and_rate(drive, t)

        def rate(y: Float[Array, " p"]) -> tuple[Array, Array]:
            f = rate_at(body, period, r, rdot, y)[0]
            return f, f

        slope, f = jax.jacfwd(rate, has_aux=True)(y)
        return f, slope

    count, s, p = z.slopes.shape
    f, rates = native_rows(at, times.ravel(), asides.ravel(), stages.reshape(count * s, p))
    residual, rates = f.reshape(z.slopes.shape) - z.slopes, rates.reshape(count, s, p, p)
    coupled = widths[:, None, None, None, None] * a[None, :, None, :, None] * rates[:, :, :, None, :]
    one = jnp.eye(s * p, dtype=a.dtype)
    inverses = native_rows(inverse, one[None] - coupled.reshape(count, s * p, s * p))
    return residual, _Linear(rates, inverses)


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
    gains = jnp.einsum("nij,njq->niq", linear.inverses, linear.rates.reshape(count, stages * p, p))
    gains = gains.reshape(linear.rates.shape)
    growths = jnp.eye(p, dtype=b.dtype)[None] + widths[:, None, None] * jnp.einsum("s,nspq->npq", b, gains)
    own = slopes_of(residual)
    y = _cyclic(growths, gaps + widths[:, None] * jnp.einsum("s,nsp->np", b, own))
    return _Unknowns(y, own + jnp.einsum("nspq,nq->nsp", gains, y))


def _cyclic(growths: Float[Array, "N p p"], gaps: Float[Array, "N p"]) -> Float[Array, "N p"]:
    """The periodic solution of `y_{n+1} = growths_n y_n + gaps_n`, linear in the gaps.

    By a scan of maps, not of values: JAX cannot transpose a loop over both what is linear and what is not."""

    def after(first: tuple[Array, Array], then: tuple[Array, Array]) -> tuple[Array, Array]:
        growth, gap = then
        return growth @ first[0], jnp.einsum("npq,nq->np", growth, first[1]) + gap

    growth, gap = jax.lax.associative_scan(after, (growths, gaps))
    one = jnp.eye(gaps.shape[1], dtype=gaps.dtype)
    start = solve(one - growth[-1], gap[-1])
    later = jnp.einsum("npq,q->np", growth[:-1], start) + gap[:-1]
    return jnp.concatenate([start[None], later])


@custom_jvp
def _implicit(problem: _Problem, z: _Unknowns, ends: Float[Array, " T"]) -> _Unknowns:
    """The solution z, with the derivatives of the implicit-function theorem, of any order."""
    return z


@_implicit.def_jvp
def _(primals: tuple[Any, ...], tangents: tuple[Any, ...]):
    problem, _, ends = primals
    z = _implicit(*primals)
    _, moved = change_of(lambda problem: _equations(problem, z, ends)[0], (problem,), (tangents[0],))
    return z, _correction(_equations(problem, z, ends)[1], moved, jnp.zeros_like(z.y), jnp.diff(ends))


def _stroke(problem: _Problem, z: _Unknowns, ends: Float[Array, " T"]) -> PeriodicStroke:
    """The spline through the solution, with the rates and second derivatives that the equation gives."""
    body, drive, period = problem.body, problem.drive, problem.period

    def derivatives(t: Scalar, aside: Scalar, y: Float[Array, " p"]) -> tuple[Array, Array]:
        r, rdot, bend = _driven(drive, t, aside)

        def rate(r: Float[Array, " d"], rdot: Float[Array, " d"], y: Float[Array, " p"]) -> Float[Array, " p"]:
            return rate_at(body, period, r, rdot, y)[0]

        slope = rate(r, rdot, y)
        return slope, jax.jvp(rate, (r, rdot, y), (rdot, bend, slope))[1]

    values = jnp.stack([z.y, jnp.roll(z.y, -1, axis=0)], axis=1)
    times = jnp.stack([ends[:-1], ends[1:]], axis=1)
    aside = _aside(drive, jnp.diff(ends))
    asides = jnp.stack([aside, -aside], axis=1)
    flat = times.ravel(), asides.ravel(), values.reshape(times.size, -1)
    slopes, bends = native_rows(derivatives, *flat)
    return PeriodicStroke(drive, body.hinges, ends, values, slopes.reshape(values.shape), bends.reshape(values.shape))


def _along(problem: _Problem, stroke: PeriodicStroke) -> _Along:
    """What is needed along the motion, at three Gauss nodes in each step."""
    body, drive, period = problem.body, problem.drive, problem.period
    nodes = jnp.asarray(NODES, stroke.ends.dtype)
    widths = jnp.diff(stroke.ends)

    def at(start: Scalar, h: Scalar, x: Scalar, values: Array, slopes: Array, bends: Array) -> tuple:
        t = start + h * x
        y, change = jax.jvp(lambda x: hermite(x, h, values, slopes, bends), (x,), (jnp.ones_like(x),))
        r, rdot = shape_and_rate(drive, t)

        def rate(y: Float[Array, " p"]) -> tuple[Array, tuple]:
            f, form, metric = rate_at(body, period, r, rdot, y)
            return f, (f, form, metric)

        slope, (f, form, metric) = jax.jacfwd(rate, has_aux=True)(y)
        whole = whole_shape(body.hinges, rdot, change / jnp.where(h > 0, h, 1.0))
        return h * slope, jnp.abs(h * f - change), -form @ whole, whole @ metric @ whole

    count = widths.size
    rows = jnp.repeat(jnp.arange(count), nodes.size)
    steps = stroke.ends[:-1][rows], widths[rows], jnp.tile(nodes, count)
    data = stroke.values[rows], stroke.slopes[rows], stroke.bends[rows]
    rates, defects, velocities, powers = native_rows(at, *steps, *data)
    p = rates.shape[-1]
    rates, defects = rates.reshape(count, nodes.size, p, p), defects.reshape(count, nodes.size, p)
    stiffness = jnp.max(jnp.sum(jnp.abs(rates), axis=-1), axis=(1, 2))

    def commutator(a: Float[Array, "p p"], b: Float[Array, "p p"]) -> Float[Array, "p p"]:
        """With the sign for what multiplies from the left, `Y' = F Y`."""
        return b @ a - a @ b

    # For one passive shape Magnus's series is exact but for the quadrature, however stiff the spring is.
    exponents = jax.vmap(lambda step: exponent(commutator, step))(rates)
    growths = jnp.exp(exponents) if p == 1 else jax.vmap(jax.scipy.linalg.expm)(exponents)
    return _Along(growths, jnp.max(defects, axis=1) / (1 + stiffness)[:, None], velocities, powers)


def _product(growths: Float[Array, "N p p"]) -> Float[Array, "p p"]:
    """The matrix of all steps, the last one to the left."""
    one = jnp.eye(growths.shape[1], dtype=growths.dtype)
    return jax.lax.scan(lambda whole, step: (step @ whole, None), one, growths)[0]


def _eigenvalues(matrix: Float[Array, "p p"]) -> Array:
    """The eigenvalues [p], complex."""
    complex_type = jnp.result_type(matrix.dtype, jnp.complex64)
    return matrix[0].astype(complex_type) if matrix.shape[0] == 1 else jnp.linalg.eigvals(matrix)
