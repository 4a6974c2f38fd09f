"""PURPOSE: the strokes that do most for least: minimal energy at a given holonomy, with a certificate."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._jit import jit
from geodyn._typing import Array, ArrayLike, Float, Number, Scalar
from geodyn.control.guess import small_stroke
from geodyn.control.implicit import solved
from geodyn.control.method import AbstractStrokeMethod, Direct
from geodyn.control.minimise import RESULTS
from geodyn.control.optimum import OptimalStroke
from geodyn.control.problem import StrokeProblem, certificate, second_variation
from geodyn.locomotion.connection import AbstractLinkSwimmer, AbstractSwimmer
from geodyn.locomotion.holonomy import cost, holonomy
from geodyn.locomotion.stroke import FourierStroke, LegendreStroke, Stroke, floating
from geodyn.locomotion.swimmers import PushMePullYou

Vector = Float[ArrayLike, " _"] | Sequence[float]


def _known(tree) -> bool:
    """No number in it is traced: inside jit, vmap and grad nothing can be raised."""
    return not any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(tree))


def checked_displacement(swimmer, displacement) -> Float[Array, "..."]:
    """The displacement that is asked for as an array, if the swimmer can have it."""
    target, k, free = floating(displacement), swimmer.group.dim, swimmer.group.translations
    name = type(swimmer.group).__name__
    values = np.asarray(target) if _known(target) else np.ones(target.shape)
    if values.shape not in ((), (k,)) or not (np.all(np.isfinite(values)) and np.any(values != 0)):
        raise ValueError(
            f"optimal_stroke: displacement must be a number or {k} coordinates, not all zero, got {displacement}."
        )
    if values.ndim == 0 and free != 1 and k > 1 and (free == 0 or values < 0):
        wanted = "a positive length" if free else f"a vector of {k} coordinates, since {name} has no translations"
        raise ValueError(
            f"optimal_stroke: the displacement of a swimmer in {name} must be {wanted}, got {displacement}."
        )
    return target


def checked_bounds(bounds, m: int):
    """Lower and upper bounds of the shape variables that have them, and which these are."""
    lower, upper = (np.asarray(b, float) for b in bounds)
    if lower.shape != (m,) or upper.shape != (m,) or not np.all(lower < upper):
        raise ValueError(f"optimal_stroke: bounds must be (lower[{m}], upper[{m}]) with lower < upper, got {bounds}.")
    bounded = np.isfinite(lower) & np.isfinite(upper)
    if np.any(np.isfinite(lower) != np.isfinite(upper)):
        raise ValueError(f"optimal_stroke: bound a shape variable on both sides or leave both infinite, got {bounds}.")
    return (floating(lower[bounded]), floating(upper[bounded])), tuple(np.flatnonzero(bounded).tolist())


def _centre(swimmer, guess, bounds, base) -> Float[Array, " m"]:
    """The shape about which the first ellipse lies: the guess, the base, the middle of the bounds, or straight."""
    if guess is not None:
        return floating(guess)
    if base is not None:
        return floating(base)
    if bounds is not None and np.all(np.isfinite(np.asarray(bounds, float))):
        return floating(np.mean(np.asarray(bounds, float), axis=0))
    if isinstance(swimmer, AbstractLinkSwimmer):
        return jnp.zeros(swimmer.lengths.shape[0] - 1)
    raise ValueError(f"optimal_stroke: {type(swimmer).__name__} needs guess=, a stroke or the shape to start around.")


def _first_stroke(swimmer, guess, displacement, bounds, base) -> Stroke:
    if callable(guess):
        return guess
    centre = _centre(swimmer, guess, bounds, base)
    ellipse, exists = small_stroke(swimmer, centre, displacement)
    if _known(exists) and not exists:
        raise ValueError(
            f"optimal_stroke: small strokes about the shape {np.asarray(centre)} do not lead to"
            f" {np.asarray(displacement)}; pass guess=, a stroke or another shape to start around."
        )
    return ellipse if base is None else FourierStroke(centre - ellipse.cosine[:, 0], ellipse.cosine, ellipse.sine)


@jit
def unknowns(swimmer, start, base, target, method):
    """The unknowns of `StrokeProblem` for a first stroke, and its energy."""
    energy = cost(swimmer, start, steps=method.steps)
    if base is None and (target.ndim == 0 or swimmer.group.dim == swimmer.group.translations):
        return FourierStroke.fit(start, method.harmonics), energy
    stroke = LegendreStroke.fit(start, start(floating(0.0)), 2 * method.harmonics)
    return stroke if base is None else stroke.coefficients, energy


def optimal_stroke(
    swimmer: AbstractSwimmer,
    guess: Stroke | Vector | None = None,
    *,
    displacement: Number | Vector,
    method: AbstractStrokeMethod = Direct(),  # noqa: B008
    bounds: tuple[Vector, Vector] | None = None,
    base: Vector | None = None,
    progress: bool = False,
    throw: bool = True,
) -> OptimalStroke:
    """The stroke of period 1 and locally least energy `E = ∫ r'ᵀ G r' dt` that moves the swimmer as wanted.

    `displacement`: a number is a net translation of that length without net rotation, heading free (on a line, the
    signed translation); a vector[k] fixes the exponential coordinates of the holonomy. `guess`: a stroke, or the shape
    to start around, where the best small ellipse is the start (None: `base`, the middle of the bounds, or the straight
    shape of links). `bounds = (lower[m], upper[m])` on the shape along the stroke, infinite where there is none.
    `base[m]`: the stroke starts and ends at this shape, with a corner if that is best. `progress` prints iterations,
    and Ctrl-C keeps the best stroke so far. Any consistent units.
    Raises ValueError for bad arguments, RuntimeError if the search does not converge, unless `throw=False`.
    Source of the problem: Alouges, DeSimone & Lefebvre, *J. Nonlinear Sci.* 18 (2008) 277.
    """
    if isinstance(swimmer, PushMePullYou) and bounds is None and base is None:
        raise ValueError(
            "optimal_stroke: PushMePullYou has no optimal stroke with a free shape: ever smaller distances and volumes"
            " cost ever less. Pass bounds=((l_min, v_min), (l_max, v_max)) or base=(l, v)."
        )
    target = checked_displacement(swimmer, displacement)
    m = guess(floating(0.0)).size if callable(guess) else _centre(swimmer, guess, bounds, base).size
    if isinstance(swimmer, AbstractLinkSwimmer) and m != swimmer.lengths.size - 1:
        raise ValueError(
            f"optimal_stroke: {swimmer.lengths.size} links have {swimmer.lengths.size - 1} hinges, got {m}."
        )
    limits, bounded = ((jnp.zeros(0),) * 2, ()) if bounds is None else checked_bounds(bounds, m)
    start = _first_stroke(swimmer, guess, target, bounds, base)
    base = None if base is None else floating(base)
    x, energy = unknowns(swimmer, start, base, target, method)
    steps = method.steps if isinstance(x, FourierStroke) else 2 * method.steps
    problem = StrokeProblem(swimmer, target, jax.lax.stop_gradient(energy), base, limits, bounded, steps)
    found = solved(problem, x, method, progress)
    second_order, flat = second_variation(problem, found.x, found.hessian, found.jacobian)
    optimum = OptimalStroke(
        swimmer=swimmer,
        kkt_residual=found.kkt_residual,
        second_order=second_order,
        result=found.result,
        stats={"iterations": found.iterations, "flat": flat},
        **certificate(problem, found.x, found.multipliers),
    )
    if throw and _known(found.result) and found.result != RESULTS.converged:
        raise RuntimeError(
            f"optimal_stroke: {RESULTS[found.result]} (KKT residual {float(found.kkt_residual):.1e} after"
            f" {int(found.iterations)} iterations); pass a guess= nearer to the optimum, a smaller displacement, or"
            " throw=False to see what was found."
        )
    return optimum


@jit
def efficiency(swimmer: AbstractSwimmer, stroke: Stroke, *, drag: Number | None = None, steps: int = 128) -> Scalar:
    """Lighthill's efficiency `drag D²/(E T)`, T = 1: the power of towing the body at its mean speed over that spent.

    `drag` (force per speed) is that of the body that is towed; a swimmer of links is towed straight and along itself,
    `c_t L_tot`. D is the length of the net translation. Raises ValueError for other swimmers without `drag`.
    Source: Tam & Hosoi, *PRL* 98 (2007) 068105.
    """
    if drag is None:
        if not isinstance(swimmer, AbstractLinkSwimmer):
            raise ValueError(f"efficiency: {type(swimmer).__name__} needs drag=, the towing drag to compare with.")
        drag = jnp.sum(swimmer.drags()[:, 0])
    moves = swimmer.group.log(holonomy(swimmer, stroke, steps=steps))[: swimmer.group.translations]
    return drag * jnp.sum(moves**2) / cost(swimmer, stroke, steps=steps)
