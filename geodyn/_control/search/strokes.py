"""PURPOSE: optimal strokes: minimal energy at a given holonomy, with a certificate of optimality."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._control.methods.method import AbstractStrokeMethod, Direct, steps_of
from geodyn._control.problem.minimise import Directions, Minimum, Progress
from geodyn._control.problem.optimum import Evidence, OptimalStroke
from geodyn._control.problem.problem import (
    StrokeProblem,
    clock_of,
    outcome,
    springs_of,
    wong_residual,
)
from geodyn._control.search.checks import (
    check_acceleration,
    check_corners,
    check_count,
    check_density,
    check_guess,
    check_kinds,
    check_moves,
    check_needs_bounds,
    check_shapes,
    checked_displacement,
    checked_limits,
    checked_period,
    checked_shape,
    known,
    numbers,
    shape_ends,
    without_free,
)
from geodyn._control.search.failure import failure, hint_if_it_stays, reaches
from geodyn._control.search.guess import small_stroke, unknowns
from geodyn._control.search.implicit import solve_implicitly
from geodyn._control.search.led import LED_MISS, STARTS, led_stroke
from geodyn._engine.jit import jit, traced_numbers
from geodyn._engine.numerics.failure import nan_unless, no_derivative_where
from geodyn._engine.numerics.roots import without_derivatives
from geodyn._foundations.checks import a_number
from geodyn._foundations.gate import checked
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Bool, Count, Float, Int, Number, PyTree, Scalar, Vector
from geodyn._locomotion.connections.force_balance import AbstractForceBalance
from geodyn._locomotion.connections.locomotion import AbstractLocomotion
from geodyn._locomotion.motion.costs import Costly, Density, energy, is_energy, value_of
from geodyn._locomotion.motion.holonomy import cost, gauss_times, holonomy, require_defined_along
from geodyn._locomotion.strokes.pieces import SequenceStroke
from geodyn._locomotion.strokes.stroke import FourierStroke, OpenStroke, Stroke, floating, shape_and_rate, shape_at

FIRST_TRIES = 16
"""How many ellipses are tried if the body cannot do the first one."""

STEADY = 0.05
"""The largest relative deviation of the power from its mean that a few harmonics may leave at a smooth optimum."""

UNEVEN = 0.5
"""The same of the energy of a body with a connection, of which every best stroke has a constant power: what deviates
more has, somewhere along it, not one digit of the best stroke."""

TOUCHING = 1e-2
"""The distance from its bounds, in parts of their width, within which a stroke may be led along them."""

UNRESOLVED = 0.1
"""The largest force, over that of the drag, that too few harmonics may leave over at a hinge without a motor."""


class Wanted(NamedTuple):
    """What `optimal_stroke` is asked for, after the checks of its arguments. A `guess` is a stroke here, None if none
    is given; the `centre` is then the shape to start around. `base` and `end` are the first and the last shape."""

    swimmer: Costly
    guess: Stroke | None
    centre: Float[Array, " m"] | None
    displacement: Float[Array, "..."]
    free: tuple[int, ...]
    base: Float[Array, " m"] | None
    end: Float[Array, " m"] | None
    limits: tuple[Float[Array, " b"], Float[Array, " b"]]
    bounded: tuple[int, ...]
    density: Density


def stroke_problem(
    swimmer: Any,
    guess: Any,
    displacement: Any,
    method: Any,
    bounds: Any,
    base: Any,
    ends: Any,
    density: Any,
    rates: Any = None,
    period: Any = None,
) -> tuple[StrokeProblem, PyTree]:
    """(the problem that the arguments of `optimal_stroke` pose, the unknowns to start from)."""
    check_kinds(swimmer, method, density)
    check_acceleration(density, method, base, ends)
    wanted = _checked_arguments(swimmer, guess, displacement, bounds, base, ends, density, rates)
    period = checked_period(swimmer, period, base, ends, method)
    check_corners(method, base, ends, rates, period)
    x, size = _first_unknowns(wanted, _first_stroke(wanted), method)
    steps = steps_of(method, x)
    degree = None
    if isinstance(x, SequenceStroke):
        steps = _whole_steps(method.steps, x)
        degree = _degree_of_cost(swimmer, density, x)
    problem = StrokeProblem(
        swimmer=swimmer,
        displacement=wanted.displacement,
        # The unit of the cost, which may be negative: the search is for the least cost, and not for the largest.
        energy=jax.lax.stop_gradient(jnp.abs(size)),
        base=wanted.base,
        bounds=wanted.limits,
        bounded=wanted.bounded,
        steps=steps,
        end=wanted.end,
        density=density,
        clock=clock_of(x, wanted.bounded),
        free=wanted.free,
        springs=None if period is None else springs_of(swimmer, period, x),
        degree=degree,
    )
    return problem, x


def _whole_steps(steps: int, stroke: SequenceStroke) -> int:
    """At least so many steps, the same number in each piece."""
    pieces = stroke.coefficients.shape[0]
    return pieces * -(-steps // pieces)


def _degree_of_cost(swimmer: Costly, density: Density, stroke: SequenceStroke) -> Scalar:
    """The degree of the density in the rates; ValueError if it has none, or none above 1; inside jit NaN."""

    def at(t: Scalar) -> Scalar:
        r, rdot = shape_and_rate(stroke, t)
        value, slope = jax.jvp(lambda u: value_of(density, swimmer, (r, u)), (rdot,), (rdot,))
        return slope / value

    degrees = jax.lax.stop_gradient(jax.vmap(at)(gauss_times(2)))
    degree = jnp.median(degrees)
    tolerance = max(1e-6, float(np.sqrt(jnp.finfo(degrees.dtype).eps)))
    one_degree = jnp.all(jnp.abs(degrees - degree) <= tolerance * degree) & (degree > 1 + tolerance)
    if known(one_degree) and not one_degree:
        raise ValueError(
            f"optimal_stroke: corners need a density of one degree above 1 in the rates of the shapes, so that there is"
            f" a best time for each piece; this one has the degrees {np.asarray(degrees).round(3)}. Where forces do not"
            " depend on the speed take density=lambda swimmer, r, rdot: gd.costs.energy(swimmer, r, rdot) ** 2."
        )
    # Inside jit the search then fails, and says so by its status.
    return jnp.where(one_degree, degree, jnp.nan)


def _checked_arguments(
    swimmer: Costly, guess: Any, displacement: Any, bounds: Any, base: Any, ends: Any, density: Density, rates: Any
) -> Wanted:
    """What is asked for; ValueError for arguments by which no stroke can be found."""
    check_needs_bounds(swimmer, bounds, base, ends)
    displacement, free = without_free(displacement)
    target = checked_displacement(swimmer, displacement)
    if ends is None:
        check_moves(swimmer, target)
    base, end = shape_ends(base, ends)
    stroke = cast(Stroke, guess) if callable(guess) else None
    centre = None if stroke is not None or end is not None else centre_of(swimmer, guess, bounds, base)
    shape = base if base is not None else centre
    # Where nothing else says which shapes, there is a stroke.
    m = (shape_at(cast(Stroke, stroke), floating(0.0)) if shape is None else shape).size
    check_count(swimmer, m, closed=end is None)
    check_density(swimmer, density, m)
    limits, bounded = checked_limits(bounds, rates, m)
    if known((swimmer, target, base, end)):
        check_shapes(swimmer, bounds, **{"base or ends[0]": base, "ends[1]": end, "the guess": centre})
        if stroke is not None:
            check_guess(swimmer, stroke, m, bounds, base, end)
    return Wanted(swimmer, stroke, centre, target, free, base, end, limits, bounded, density)


def centre_of(
    swimmer: AbstractLocomotion, guess: Any, bounds: Any, base: Float[Array, " m"] | None
) -> Float[Array, " m"]:
    """The centre of the first ellipse: the guess, the base, the middle of the bounds, or the body's first shape."""
    if guess is not None:
        return checked_shape("guess", guess)
    if base is not None:
        return base
    if bounds is not None and numbers(bounds).ndim == 2 and np.all(np.isfinite(numbers(bounds))):
        return jnp.atleast_1d(jnp.mean(numbers(bounds), axis=0))
    name, first = type(swimmer).__name__, swimmer.first_shape
    if first is None:
        raise ValueError(
            f"optimal_stroke: {name} needs guess=, a stroke or the shape to start around, such as"
            f" jnp.zeros({swimmer.shape_count or 2}); or let the class say such a shape by first_shape."
        )
    return checked_shape(f"first_shape of {name}", first)


def _first_stroke(wanted: Wanted) -> Stroke:
    """The stroke to start from: the guess, a straight line between two ends, the best small ellipse, or, where none
    leads along a displacement vector, the best of many strokes."""
    if wanted.guess is not None:
        return wanted.guess
    if wanted.end is not None and wanted.base is not None:
        return OpenStroke(wanted.base, wanted.end, jnp.zeros((wanted.base.size, 1)))
    centre, target = wanted.centre, wanted.displacement
    ellipse, exists = small_stroke(wanted.swimmer, centre, target, wanted.free)
    if target.ndim and not (known(exists) and exists):
        return _best_of_many(wanted)
    if known(exists) and not exists:
        raise ValueError(
            f"optimal_stroke: small strokes about the shape {np.asarray(centre)} do not lead to"
            f" {np.asarray(target)}; pass guess=, a stroke or another shape to start around."
        )
    if wanted.base is None:
        return ellipse
    return FourierStroke(centre - ellipse.cosine[:, 0], ellipse.cosine, ellipse.sine)


def _best_of_many(wanted: Wanted) -> Stroke:
    """A stroke about a shape, or through a base, found by `led_stroke`; else ValueError."""
    swimmer, centre, target = wanted.swimmer, wanted.centre, wanted.displacement
    led = led_stroke(swimmer, centre, target, wanted.base, wanted.limits, wanted.bounded, wanted.density, wanted.free)
    if known(led.miss) and not led.miss < LED_MISS:
        hint = hint_if_it_stays(swimmer)
        raise ValueError(
            f"optimal_stroke: none of {STARTS} strokes that were tried around the shape {np.asarray(centre)} leads to"
            f" {np.asarray(target)}; the nearest misses by {100 * float(led.miss):.0f} %{hint}. Pass"
            " guess=, a stroke or another shape to start around, or a smaller displacement."
        )
    return led.stroke


def _first_unknowns(wanted: Wanted, start: Stroke, method: AbstractStrokeMethod) -> tuple[PyTree, Scalar]:
    """(the unknowns of the problem for the first stroke, its cost). An ellipse from the theory of small strokes may be
    too large for the body: then they are those of another one; ValueError if the body can do none."""

    def of(stroke: Stroke) -> tuple[PyTree, Scalar]:
        return unknowns(wanted.swimmer, stroke, wanted.base, wanted.displacement, method, wanted.end, wanted.density)

    x, size = of(start)
    if wanted.guess is None and isinstance(start, FourierStroke):
        for attempt in range(FIRST_TRIES):
            if not _is_impossible(size):
                break
            start = _next_ellipse(start, wanted.base, attempt)
            x, size = of(start)
        if _is_impossible(size):
            raise ValueError(
                f"optimal_stroke: the body cannot do the strokes around {np.asarray(start.mean)} that would lead to"
                f" {np.asarray(wanted.displacement)}: ask for less, or pass guess=, a stroke."
            )
    return x, require_defined_along("optimal_stroke, the first stroke", wanted.swimmer, start, size)


def _is_impossible(size: Scalar) -> bool:
    """Whether a stroke is known to have no finite cost, so that the body cannot do it."""
    return known(size) and not np.isfinite(size)


def _next_ellipse(ellipse: FourierStroke, base: Float[Array, " m"] | None, attempt: int) -> FourierStroke:
    """The next ellipse to try: half as large, or, for ellipses through a base, first moved so that the base is at each
    of the other three vertices."""
    size = 0.5 if base is None or attempt % 4 == 3 else 1.0
    if base is None:
        return FourierStroke(ellipse.mean, size * ellipse.cosine, size * ellipse.sine)
    return FourierStroke(base - size * ellipse.sine[:, 0], size * ellipse.sine, -size * ellipse.cosine)


def _another_start(
    problem: StrokeProblem, found: Minimum, method: AbstractStrokeMethod, guess: Any, bounds: Any
) -> Stroke | None:
    """After a failed search from a small ellipse for a vector displacement, another starting stroke by `led_stroke`;
    None if there is none. An ellipse can be so symmetric that the constraints are linearly dependent there, and then no
    step is accepted."""
    if not problem.displacement.ndim or problem.end is not None or callable(guess) or not isinstance(method, Direct):
        return None
    if found.result == RESULTS.interrupted:
        return None
    p, centre = problem, centre_of(problem.swimmer, guess, bounds, problem.base)
    if not small_stroke(p.swimmer, centre, p.displacement, p.free)[1]:
        return None
    led = led_stroke(p.swimmer, centre, p.displacement, p.base, p.bounds, p.bounded, p.density, p.free)
    return led.stroke if led.miss < LED_MISS else None


def _is_maximum(found: Minimum) -> Bool[Array, ""]:
    """Whether the cost bends downwards in every direction that the constraints leave, but for those in which it is
    flat. Of an energy it never does; a saddle, as beyond the fold of a family or of a loop that is run through twice,
    bends upwards in most directions, and may be what was looked for: `second_order` tells it."""
    flat = jnp.sqrt(jnp.finfo(found.hessian.dtype).eps) * jnp.max(jnp.abs(jnp.diagonal(found.hessian)))
    directions = Directions(found.hessian, found.jacobian, flat)
    return jnp.any(directions.curved) & jnp.all(~directions.curved | (directions.values < 0))


@jit
def _ending(
    problem: StrokeProblem, found: Minimum, values: dict[str, Any]
) -> tuple[Int[Array, ""], Bool[Array, ""], Bool[Array, ""]]:
    """(how the search ended, after what the `outcome` tells on twice the steps; whether it is a success; or not)."""
    there = reaches(values["displacement"], problem.displacement, problem.free)
    result = jnp.where(found.successful & ~there, RESULTS.astray, found.result)
    unsteady = problem.is_steady & (values["room"] > TOUCHING) & (values["power_variation"] > STEADY)
    result = jnp.where((result == RESULTS.successful) & unsteady, RESULTS.has_corners, result)
    if problem.is_quadratic:
        # At an optimum of the energy the power is constant, however small the residual of the few unknowns is.
        uneven = (values["room"] > TOUCHING) & (values["power_variation"] > UNEVEN)
        result = jnp.where((result == RESULTS.successful) & uneven, RESULTS.too_few_harmonics, result)
    if problem.springs is not None:
        unresolved = wong_residual(problem, found.x, values["charge"]) > UNRESOLVED
        result = jnp.where((result == RESULTS.successful) & unresolved, RESULTS.too_few_harmonics, result)
    if not is_energy(problem.density):
        result = jnp.where((result == RESULTS.successful) & _is_maximum(found), RESULTS.largest, result)
    good = result == RESULTS.successful
    return result, good, ~good


def optimum_of(problem: StrokeProblem, found: Minimum, throw: bool) -> OptimalStroke:
    """What was found. The derivatives of a failure are NaN; where it cannot be raised, so is what it claims."""
    values = outcome(problem, found.x, found.multipliers)
    result, good, failed = _ending(problem, found, values)
    x = found.x
    hessian = found.hessian
    if not known(good):
        claims = {name: values[name] for name in ("cost", "multiplier", "charge")}
        claims, hessian = nan_unless(good, (claims, hessian), ())
        values |= claims
        if throw:
            values["stroke"], x = nan_unless(good, (values["stroke"], x), ())
    return OptimalStroke(
        swimmer=problem.swimmer,
        kkt_residual=found.kkt_residual,
        result=result,
        iterations=found.iterations.astype(int),
        evidence=Evidence(problem, x, hessian, found.jacobian),
        period=None if problem.springs is None else problem.springs.period,
        **no_derivative_where(failed, values, problem),
    )


@checked
def optimal_stroke(
    swimmer: Costly,
    guess: Stroke | Vector | None = None,
    *,
    displacement: Number | Vector | Sequence[Number | None],
    method: AbstractStrokeMethod = Direct(),  # noqa: B008
    bounds: tuple[Vector, Vector] | None = None,
    base: Vector | None = None,
    ends: tuple[Vector, Vector] | None = None,
    rates: Vector | None = None,
    period: Number | None = None,
    density: Density = energy,
    progress: Progress = False,
    throw: bool = True,
) -> OptimalStroke:
    """The stroke of period 1 that moves a body as wanted and costs least, with a certificate; a local optimum.

    The cost is the energy `E = ∫₀¹ r'ᵀ G r' dt`, or the integral of another `density`. A `displacement` that is a
    number asks for a net translation of that length without net rotation, whose direction in the plane or in space is
    free (on a line: the signed translation). A vector [k] fixes the exponential coordinates of the holonomy.

    The search begins at `guess`: a stroke, or a shape around which the best small ellipse is taken. Without a guess
    that shape is `base`, the middle of the bounds, or the `first_shape` of the body, which for links is the straight
    one. If no small ellipse leads along a displacement vector, the best of many strokes is taken.

    The result is differentiable to first order, in forward and in reverse mode, with respect to the numbers in the body
    and the displacement, by the implicit-function theorem. The start has no derivatives, nor have the fields of the
    result that are evidence. Under `jax.vmap` the result has a leading axis for the batch, which takes as long as its
    slowest member; members that failed are NaN, see `gd.OptimalStroke`. Each member ends at a local optimum of its own:
    neighbours may lie on different branches, where `gd.stroke_family` follows one. `gd.optimal_strokes` searches from
    many starts.

    Args:
        swimmer: body with a metric of shapes, such as one of `gd.swimmers`, or `gd.bundles.KaluzaKlein(body)`.
        guess: a stroke, or the shape [m] to start around; None: see above.
        displacement: length, or exponential coordinates [k] of the holonomy (translations first, angles in radians), of
            which those that are None are free: [0.1, None, 0.2].
        method: `gd.Direct`, `gd.Wong` or `gd.Descent`, with their settings.
        bounds: (lower[m], upper[m]) of the shape along the stroke, infinite where there is none.
        base: shape [m] at which the stroke starts and ends, with a corner if that is best.
        ends: (start[m], end[m]), two shapes between which the stroke leads; it is open then.
        rates: largest |r'| [m] of the period 1, infinite where there is none.
        period: how long the stroke takes, for a body with passive hinges, such as `gd.swimmers.Passive`: then springs
            and the fluid move these, and the search is for the best way to drive the others. By default all shapes are
            driven. The cost stays that of the period 1, `period` times the energy.
        density: function (swimmer, r, r') -> cost per time, or (swimmer, r, r', r'') for one of accelerations; default
            `gd.costs.energy`; see `gd.costs`.
        progress: whether to print the iterations, or a function (iteration, KKT residual) that is called after each;
            Ctrl-C, or KeyboardInterrupt raised by that function, then keeps the best stroke so far.
        throw: whether to raise StrokeError if the search fails; if not, the stroke where it stood is kept.

    Returns:
        OptimalStroke, with the stroke, its cost, the multiplier dE/d(displacement) and the evidence. Any consistent
        units.

    Raises:
        ValueError: for bad arguments, without a guess for a body that has no `first_shape`, and without bounds, a base
            or ends for one that `needs_bounds`.
        StrokeError: a RuntimeError, if `throw` and the search does not converge, or converges to a stroke that,
            integrated with twice the steps, leads elsewhere. Inside jit and vmap nothing can be raised: what a search
            that failed would claim is NaN, and `result` says why.

    Example:
        >>> swimmer, settings = gd.swimmers.SymmetricPurcell(), gd.Direct(harmonics=6, steps=32)
        >>> best = gd.optimal_stroke(swimmer, [0.5, 0.5], displacement=0.02, method=settings)
        >>> moved = swimmer.group.log(gd.holonomy(swimmer, best.stroke))[0]
        >>> print(f"energy {best.cost:.4f}, moved {moved:.6f}, optimal: {best.kkt_residual < 1e-9}")
        energy 2.2301, moved 0.020000, optimal: True

    Source:
        Alouges, DeSimone & Lefebvre, *J. Nonlinear Sci.* 18 (2008) 277, for the problem.
    """
    swimmer = traced_numbers(swimmer)

    def pose(guess: Any) -> tuple[StrokeProblem, PyTree]:
        return stroke_problem(swimmer, guess, displacement, method, bounds, base, ends, density, rates, period)

    problem, x = pose(guess)
    found = solve_implicitly(problem, x, method, progress)
    if known((found.result, problem)) and not found.successful:
        another = _another_start(problem, found, method, guess, bounds)
        if another is not None:
            problem, x = pose(another)
            found = solve_implicitly(problem, x, method, progress)
    optimum = optimum_of(problem, found, throw)
    if throw and known(found.result) and not optimum.successful:
        found_there, posed, start = without_derivatives((optimum, problem, x))
        raise failure(found_there, posed, start, method, optimal_stroke)
    return optimum


@checked
@jit
def efficiency(swimmer: Costly, stroke: Stroke, *, drag: Number | None = None, steps: Count = 128) -> Scalar:
    """Lighthill's efficiency of a stroke, `drag D²/(E T)` with T = 1.

    It is the power of towing the body at its mean speed, over the mean power that it spends. D is the length of the net
    translation, E the energy of the stroke; of a body that balances forces of another degree p in the velocities, it is
    `drag D^p/E`. Differentiable with respect to the numbers in the swimmer and the stroke.

    Args:
        swimmer: body with a metric of shapes, or one that balances forces. Without drag its energy is that of motion,
            and `drag` a mass to compare with.
        stroke: function t -> r[m], t from 0 to 1.
        drag: towing drag (force per speed) to compare with; by default the `towing_drag` of the swimmer, which for
            links is that of the straight body along itself, the sum of its links' drags along them.
        steps: number of equal steps of the quadrature.

    Returns:
        The efficiency, a number without unit.

    Raises:
        ValueError: for a swimmer that has no `towing_drag`, without `drag`, and for one whose pace matters.

    Example:
        >>> swimmer, stroke = gd.swimmers.Purcell(lengths=(1.0, 1.0, 1.0), drag=1.0), gd.FourierStroke.circle(1.0)
        >>> moved = jnp.linalg.norm(swimmer.group.log(gd.holonomy(swimmer, stroke))[:2])
        >>> by_hand = 3.0 * moved**2 / gd.cost(swimmer, stroke)
        >>> print(f"{gd.efficiency(swimmer, stroke):.6f} {by_hand:.6f}")
        0.009526 0.009526

    Source:
        Tam & Hosoi, *PRL* 98 (2007) 068105.
    """
    if swimmer.depends_on_pace:
        raise ValueError(
            f"efficiency: the power of {type(swimmer).__name__} depends on the pace of the stroke, so that there is no"
            " towing drag to compare with; compare gd.cost and gd.holonomy."
        )
    if drag is None:
        drag = swimmer.towing_drag
    if drag is None:
        raise ValueError(
            f"efficiency: {type(swimmer).__name__} needs drag=, the towing drag to compare with; or let the class say"
            " it by towing_drag."
        )
    a_number("drag", drag)
    moves = swimmer.group.log(holonomy(swimmer, stroke, steps=steps))[: swimmer.group.translations]
    square = jnp.sum(moves**2)
    is_linear = not isinstance(swimmer, AbstractForceBalance)
    towing = square if is_linear else square ** (swimmer.degree(shape_at(stroke, floating(0.0))) / 2)
    return drag * towing / cost(swimmer, stroke, steps=steps)
