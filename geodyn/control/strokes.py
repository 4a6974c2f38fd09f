"""PURPOSE: the strokes that do most for least: minimal energy at a given holonomy, with a certificate."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._jit import jit
from geodyn._typing import Array, ArrayLike, Float, Number, Scalar
from geodyn.control.guess import small_stroke
from geodyn.control.minimise import RESULTS, minimise, pointwise
from geodyn.control.optimum import OptimalStroke
from geodyn.control.wong import wong_forces
from geodyn.locomotion.connection import AbstractLinkSwimmer, AbstractSwimmer, reduction
from geodyn.locomotion.holonomy import cost, gauss_times, holonomy, magnus, mean
from geodyn.locomotion.stroke import FourierStroke, LegendreStroke, Stroke, floating, shape_and_rate
from geodyn.locomotion.swimmers import PushMePullYou

Vector = Float[ArrayLike, " _"] | Sequence[float]


class Direct(eqx.Module):
    """Newton's method on the coefficients of the stroke.

    `harmonics` of the Fourier series, `steps` of the quadrature and of the bounds (a stroke with a corner gets twice
    as many Legendre terms and steps), `tolerance` of the KKT residual (None: 1e5 eps).
    """

    harmonics: int = eqx.field(static=True, default=16)
    steps: int = eqx.field(static=True, default=96)
    tolerance: float | None = eqx.field(static=True, default=None)
    max_iterations: int = eqx.field(static=True, default=200)


class StrokeProblem(eqx.Module):
    """Minimal energy at a given holonomy, as `minimise` takes it: scaled f, c, h of the coefficients of a stroke.

    With `base` None the unknown is the stroke itself, else the coefficients of a LegendreStroke through `base`.
    A FourierStroke where the best stroke is smooth; where the start matters it has a corner there, since then
    `p = G r' + Aᵀμ` is periodic but the charge μ is not, and a LegendreStroke resolves it.
    """

    swimmer: AbstractSwimmer
    displacement: Float[Array, "..."]
    energy: Scalar
    base: Float[Array, " m"] | None
    bounds: tuple[Float[Array, " b"], Float[Array, " b"]]
    bounded: tuple[int, ...] = eqx.field(static=True)
    steps: int = eqx.field(static=True)

    def stroke(self, x) -> FourierStroke | LegendreStroke:
        """The stroke of the unknowns x."""
        return x if self.base is None else LegendreStroke(self.base, x)

    def __call__(self, x):
        shapes, rates = jax.vmap(lambda t: shape_and_rate(self.stroke(x), t))(gauss_times(self.steps))
        values = pointwise(self.rates)(jnp.concatenate([shapes, rates], axis=1))
        g = magnus(self.swimmer.group, values[:, 1:])[-1]
        return mean(values[:, 0]) / self.energy, self.miss(g), jax.vmap(self.gaps)(shapes).ravel()

    def rates(self, point: Float[Array, " _"]) -> Float[Array, " _"]:
        """Power and body velocity at (r, r')."""
        r, rdot = jnp.split(point, 2)
        form, metric = reduction(self.swimmer, r)
        return jnp.concatenate([(rdot @ metric @ rdot)[None], -form @ rdot])

    def gaps(self, r: Float[Array, " m"]) -> Float[Array, " _"]:
        """The distances of a shape from its bounds, relative to their width."""
        lower, upper = self.bounds
        bounded = r[np.array(self.bounded, int)]
        return jnp.concatenate([bounded - lower, upper - bounded]) / jnp.tile(upper - lower, 2)

    def reached(self, g: Float[Array, "d d"]) -> Float[Array, "..."]:
        """What the holonomy g has of the displacement that is asked for: its coordinates, or the length of its move."""
        xi = self.swimmer.group.log(g)
        if self.displacement.ndim:
            return xi
        if xi.shape[0] == 1:
            return xi[0]
        moves = xi[: self.swimmer.group.translations]
        return jnp.sqrt(jnp.sum(moves**2) + (jnp.finfo(xi.dtype).eps * self.displacement) ** 2)

    def miss(self, g: Float[Array, "d d"]) -> Float[Array, " p"]:
        """How far g is from the displacement, relative to it; and, where that is a number, its net rotation."""
        target = self.displacement
        move = jnp.atleast_1d((self.reached(g) - target) / jnp.linalg.norm(target))
        return move if target.ndim else jnp.append(move, self.swimmer.group.log(g)[max(self.swimmer.group.translations, 1) :])


@jit
def _certificate(problem: StrokeProblem, x, multipliers: Float[Array, " p"]) -> dict:
    """What OptimalStroke says of the stroke of the unknowns x and the multipliers of `miss`, on twice the steps."""
    swimmer, stroke, steps = problem.swimmer, problem.stroke(x), 2 * problem.steps
    values = jax.vmap(lambda t: problem.rates(jnp.concatenate(shape_and_rate(stroke, t))))(gauss_times(steps))
    elements, energy = magnus(swimmer.group, values[:, 1:]), mean(values[:, 0])
    slope = jax.jacfwd(lambda e: problem.miss(swimmer.group.exp(e) @ elements[-1]))(jnp.zeros(swimmer.group.dim))
    charge = problem.energy / 2 * multipliers @ slope
    times = jnp.arange(1, steps) / steps
    needed, felt = jax.vmap(lambda t, g: wong_forces(swimmer, stroke, charge, t, g))(times, elements[:-1])
    inside = jax.vmap(lambda t: jnp.min(problem.gaps(stroke(t)), initial=1.0) > 0.01)(times)
    defect = jnp.max(jnp.where(inside[:, None], jnp.abs(needed - felt), 0.0), axis=0) / jnp.max(jnp.abs(felt), axis=0)
    scale = problem.energy / jnp.linalg.norm(problem.displacement)
    return {
        "stroke": stroke,
        "cost": energy,
        "displacement": problem.reached(elements[-1]),
        "multiplier": scale * (multipliers if problem.displacement.ndim else multipliers[0]),
        "wong_residual": jnp.max(defect),
        "power_variation": jnp.max(jnp.abs(values[:, 0] / energy - 1)),
    }


def _checked_displacement(swimmer, displacement) -> Float[Array, "..."]:
    target, k, free = floating(displacement), swimmer.group.dim, swimmer.group.translations
    name = type(swimmer.group).__name__
    if target.shape not in ((), (k,)) or not bool(jnp.all(jnp.isfinite(target)) & jnp.any(target != 0)):
        raise ValueError(f"optimal_stroke: displacement must be a number or {k} coordinates, not all zero, got {displacement}.")
    if target.ndim == 0 and free != 1 and k > 1 and (free == 0 or target < 0):
        wanted = "a positive length" if free else f"a vector of {k} coordinates, since {name} has no translations"
        raise ValueError(f"optimal_stroke: the displacement of a swimmer in {name} must be {wanted}, got {displacement}.")
    return target


def _checked_bounds(bounds, m: int):
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
    ellipse, flux = small_stroke(swimmer, centre, displacement)
    if not flux > 1e-6 * jnp.linalg.norm(reduction(swimmer, centre)[1]):
        raise ValueError(
            f"optimal_stroke: small strokes about the shape {np.asarray(centre)} do not lead to {np.asarray(displacement)}"
            f" (curvature {float(flux):.1e}); pass guess=, a stroke, or another shape to start around."
        )
    return ellipse if base is None else FourierStroke(centre - ellipse.cosine[:, 0], ellipse.cosine, ellipse.sine)


@jit
def _unknowns(swimmer, start, base, target, method):
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
    method: Direct = Direct(),
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
    target = _checked_displacement(swimmer, displacement)
    m = guess(floating(0.0)).size if callable(guess) else _centre(swimmer, guess, bounds, base).size
    if isinstance(swimmer, AbstractLinkSwimmer) and m != swimmer.lengths.size - 1:
        raise ValueError(f"optimal_stroke: {swimmer.lengths.size} links have {swimmer.lengths.size - 1} hinges, got {m}.")
    limits, bounded = ((jnp.zeros(0),) * 2, ()) if bounds is None else _checked_bounds(bounds, m)
    start = _first_stroke(swimmer, guess, target, bounds, base)
    base = None if base is None else floating(base)
    x, energy = _unknowns(swimmer, start, base, target, method)
    steps = method.steps if isinstance(x, FourierStroke) else 2 * method.steps
    problem = StrokeProblem(swimmer, target, energy, base, limits, bounded, steps)
    tolerance = 1e5 * jnp.finfo(energy.dtype).eps if method.tolerance is None else method.tolerance
    found = minimise(problem, x, tolerance=tolerance, max_iterations=method.max_iterations, progress=progress)
    optimum = OptimalStroke(
        swimmer=swimmer,
        kkt_residual=found.kkt_residual,
        result=found.result,
        stats={"iterations": found.iterations},
        **_certificate(problem, found.x, found.multipliers),
    )
    if throw and found.result != RESULTS.converged:
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
