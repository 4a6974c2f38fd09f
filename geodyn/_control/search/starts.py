"""PURPOSE: the locally optimal strokes, by a search from many random starts at once."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from geodyn._control.methods.method import Direct, steps_of
from geodyn._control.problem.optimum import OptimalStroke
from geodyn._control.problem.problem import StrokeProblem, clock_of
from geodyn._control.search.checks import check_moves, check_pace, checked_displacement, checked_limits, told_by
from geodyn._control.search.failure import is_certified
from geodyn._control.search.guess import small_stroke, unknowns
from geodyn._control.search.strokes import optimal_stroke
from geodyn._engine.jit import jit_over_cores
from geodyn._foundations.gate import checked
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Count, Float, Index, Int, Number, Scalar, Vector
from geodyn._locomotion.connections.locomotion import AbstractLocomotion
from geodyn._locomotion.motion.costs import Costly
from geodyn._locomotion.strokes.stroke import FourierStroke, Stroke, floating

COARSE = Direct(harmonics=3, steps=8, tolerance=1e-4, max_iterations=20)


class _Found(eqx.Module):
    """The result of the coarse search from one start; the `signature` is invariant under symmetries of the problem."""

    stroke: Stroke
    signature: Float[Array, "3"]
    offset: Scalar
    result: Int[Array, ""]


def random_stroke(
    swimmer: Costly,
    target: Float[Array, "..."],
    region: tuple[Float[Array, " m"], Float[Array, " m"]],
    key: Array,
) -> FourierStroke:
    """The best small ellipse about a random shape, no wider than the region, with low harmonics on top of it; where no
    small loop leads that way, harmonics as wide as the region alone."""
    lower, upper = region
    where, how = jax.random.split(key)
    centre = jax.random.uniform(where, lower.shape, lower.dtype, lower, upper)
    ellipse, _ = small_stroke(swimmer, centre, target)
    k = jnp.arange(1, COARSE.harmonics + 1)[None, None]
    widest = jnp.mean(upper - lower) / 4
    radius = jnp.sqrt(jnp.sum(ellipse.cosine**2 + ellipse.sine**2))
    # Where the curvature along the displacement is zero, the ellipse is infinite.
    leads = jnp.isfinite(radius)
    size = jnp.where(leads, jnp.minimum(radius, widest), 0.0)
    ellipse = jax.tree.map(lambda x: jnp.where(leads, x / radius, 0.0), ellipse)
    noise = jnp.where(leads, 0.3 * size, widest) * jax.random.normal(how, (2, lower.size, k.size), lower.dtype) / k**2
    first = jnp.where(k[0] == 1, 1.0, 0.0)
    return FourierStroke(centre, size * ellipse.cosine * first + noise[0], size * ellipse.sine * first + noise[1])


def centre_and_size(stroke: Stroke) -> tuple[Float[Array, " m"], Scalar]:
    """The mean shape, and the mean square of the distance from it."""
    shapes = jax.vmap(stroke)(jnp.arange(128) / 128)
    centre = jnp.mean(shapes, axis=0)
    return centre, jnp.mean((shapes - centre[None]) ** 2)


@jit_over_cores
def _coarse(
    swimmer: Costly,
    target: Float[Array, "..."],
    region: tuple[Float[Array, " m"], Float[Array, " m"]],
    limits: tuple[Float[Array, " b"], Float[Array, " b"]],
    bounded: tuple[int, ...],
    keys: Array,
) -> _Found:
    """Coarse optima from random starts."""

    def one(key: Array) -> _Found:
        x, energy = unknowns(swimmer, random_stroke(swimmer, target, region, key), None, target, COARSE)
        steps = steps_of(COARSE, x)
        clock = clock_of(x, bounded)
        problem = StrokeProblem(swimmer, target, energy, None, limits, bounded, steps, clock=clock)
        found = COARSE.solve(problem, x, False)
        stroke = problem.stroke(found.x)
        centre, size = centre_and_size(stroke)
        # Without the multiplier of the rotation, which depends on where the stroke begins.
        slope = jnp.linalg.norm(found.multipliers[: max(target.size, 1)])
        signature = energy * jnp.stack([problem(found.x)[0], slope, size / energy])
        return _Found(stroke, signature, jnp.linalg.norm(centre), found.result)

    return jax.vmap(one)(keys)


def distinct(signatures: list, tolerance: float) -> list[int]:
    """The indices of the signatures that differ from all before them."""
    kept: list[int] = []
    for i, new in enumerate(signatures):
        if not any(np.allclose(new, signatures[j], rtol=tolerance, atol=0.0) for j in kept):
            kept.append(i)
    return kept


def checked_region(
    swimmer: AbstractLocomotion, region: Any, bounds: Any
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """The corners of the box around whose shapes strokes are tried; ValueError where there is none, or a wrong one."""
    if region is None and bounds is not None and np.all(np.isfinite(np.asarray(bounds, float))):
        region = bounds
    if region is None:
        region = swimmer.shape_region
    if region is None:
        raise ValueError(
            f"optimal_strokes: {type(swimmer).__name__} needs region=(lower[m], upper[m]), where the shapes lie around"
            " which strokes are tried; or let the class say it by shape_region."
        )
    lower, upper = (floating(r) for r in region)
    if lower.ndim != 1 or lower.shape != upper.shape or not bool(jnp.all(lower < upper)):
        raise ValueError(f"optimal_strokes: region must be (lower[m], upper[m]) with lower < upper, got {region}.")
    return lower, upper


@checked
def optimal_strokes(
    swimmer: Costly,
    *,
    displacement: Number | Vector,
    starts: Count = 64,
    seed: Index = 0,
    region: tuple[Vector, Vector] | None = None,
    bounds: tuple[Vector, Vector] | None = None,
    rates: Vector | None = None,
    method: Direct = Direct(),  # noqa: B008
    progress: bool = False,
) -> tuple[OptimalStroke, ...]:
    """The locally best strokes that a search from many random starts finds, each certified, the cheapest first.

    Strokes that a symmetry takes into each other (a shift or reversal of time, a reflection, an exchange of hinges)
    count as one: they agree in energy, dE/d(displacement) and size; the one nearest to the shape zero is kept. The
    starts are random strokes around shapes in `region`; they are solved together with few harmonics and few iterations,
    and those that end at different strokes by `gd.optimal_stroke` with `method`. The same `seed` finds the same
    strokes; more `starts` find more.

    Args:
        swimmer: body with a metric of shapes, such as one of `gd.swimmers`.
        displacement: length, or exponential coordinates [k] of the holonomy, as for `gd.optimal_stroke`.
        starts: number of random starts; 64 suit two shape variables.
        seed: of the random numbers.
        region: (lower[m], upper[m]), where the shapes lie around which strokes are tried; None: the bounds, or the
            `shape_region` of the swimmer, which for links is all angles.
        bounds, rates: limits of the shape and of its rates, as for `gd.optimal_stroke`.
        method: `gd.Direct` with its settings.
        progress: whether to show a bar; Ctrl-C keeps the strokes so far.

    Returns:
        A tuple of OptimalStroke, sorted by their cost.

    Raises:
        ValueError: for bad arguments.
        RuntimeError: if no optimal stroke is found.

    Example:
        The isoperimetric problem has one solution up to shifts of time and of place, a circle of the energy 4π.

        >>> class Planimeter(gd.AbstractConnection):
        ...     group: gd.groups.Translation = gd.groups.Translation(1)
        ...     def form(self, r):
        ...         return jnp.stack([-r[1], r[0]])[None] / 2
        >>> body, settings = gd.bundles.KaluzaKlein(Planimeter()), gd.Direct(harmonics=2, steps=8)
        >>> box = ([-1.0, -1.0], [1.0, 1.0])
        >>> found = gd.optimal_strokes(body, displacement=1.0, starts=4, region=box, method=settings)
        >>> print(len(found), f"{found[0].cost:.6f} {4 * np.pi:.6f}")
        1 12.566371 12.566371
    """
    if not isinstance(starts, int) or starts < 1:
        raise ValueError(f"optimal_strokes: starts must be at least 1, got {starts}; 64 suit two shape variables.")
    target = checked_displacement(swimmer, displacement)
    check_moves(swimmer, target)
    lower, upper = checked_region(swimmer, region, bounds)
    with told_by("optimal_strokes"):
        check_pace(swimmer, lower.size)
    limits, bounded = checked_limits(bounds, rates, lower.size)
    coarse = _coarse(swimmer, target, (lower, upper), limits, bounded, jax.random.split(jax.random.key(seed), starts))
    candidates = np.argsort(np.asarray(coarse.offset))
    candidates = candidates[np.asarray(coarse.result == RESULTS.successful)[candidates]]
    signatures = np.asarray(coarse.signature)[candidates]
    candidates = candidates[distinct(list(signatures), 0.01)]
    problem = {"displacement": target, "bounds": bounds, "rates": rates}
    optima: list[OptimalStroke] = []
    try:
        for i in tqdm(candidates, disable=not progress, desc="local optima", unit="strokes"):
            guess = jax.tree.map(lambda leaf, i=i: leaf[i], coarse.stroke)
            found = optimal_stroke(swimmer, guess, **problem, method=method, throw=False)
            if is_certified(found, target) and found.second_order > 0:
                optima.append(found)
    except KeyboardInterrupt:
        print(f"interrupted after {len(optima)} strokes")
    if not optima:
        raise RuntimeError(
            f"optimal_strokes: none of {starts} starts led to an optimal stroke for the displacement {displacement}; it"
            " may be larger than any stroke's: try a smaller one, more starts, another region, or bounds= if ever"
            " cheaper strokes lead there."
        )
    signatures = [(o.cost, jnp.linalg.norm(o.multiplier), centre_and_size(o.stroke)[1]) for o in optima]
    # With bounds the cost depends slightly on the phase, since they are enforced at the quadrature nodes only.
    kept = distinct(signatures, 1e-3 if bounded else 1e-6)
    return tuple(sorted((optima[i] for i in kept), key=lambda o: float(o.cost)))
