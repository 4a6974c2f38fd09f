"""PURPOSE: optimal strokes as solutions of Wong's equations, a boundary-value problem solved by spectral collocation.

The unknowns are the coefficients of the stroke and the multipliers of the displacement. If the phase is free, there is
one more equation, which pins the phase, and one more unknown, the coefficient σ of a friction term σ r'. Since Wong's
equations conserve energy, σ is zero at a solution. Source: Doedel, in *Numerical Continuation Methods for Dynamical
Systems* (2007), chapter 1.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from geodyn._control.methods.descent import Descent
from geodyn._control.methods.method import AbstractStrokeMethod, refuse_bounds, stationary
from geodyn._control.problem.minimise import Minimum, Progress, tell
from geodyn._control.problem.pointwise import pointwise
from geodyn._control.problem.problem import StrokeProblem
from geodyn._control.problem.wong import wong_forces
from geodyn._engine.jit import for_few_runs
from geodyn._foundations.gate import checked
from geodyn._foundations.progress import compiling
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Bool, Count, Float, Int, PyTree, Scalar
from geodyn._locomotion.connections.connection import reduction
from geodyn._locomotion.connections.force_balance import metric_of
from geodyn._locomotion.motion.holonomy import NODES, magnus
from geodyn._locomotion.strokes.stroke import FourierStroke, LegendreStroke, Stroke, derivatives_at


@checked
class Wong(AbstractStrokeMethod):
    """Newton's method on Wong's equations, the equations of optimal strokes, by spectral collocation.

    They are collocated at as many times as the stroke has coefficients. From a stroke that is nearly optimal, such as
    one of `gd.Direct`, it converges at once; otherwise the solution is followed from a small stroke to the displacement
    that is asked for. It finds stationary strokes: `second_order` of the result says whether one is a minimum. It knows
    no bounds.

    Wong's equations hold to 1e4 times the machine epsilon at the times of the collocation. The KKT residual of the
    result is that of the coefficients, another discretisation of the same problem, and measures what `harmonics` and
    `steps` leave unresolved: 7e-6 for Purcell's swimmer at the displacement 0.1 with 16 harmonics. Beyond `tolerance`
    the search counts as failed.

    Args:
        harmonics: number of harmonics of the Fourier series; a stroke with `base` or `ends` gets twice as many Legendre
            terms.
        steps: number of steps of the quadrature; twice as many with `base` or `ends`.
        max_iterations: limit of the solutions on the way to the displacement.
        tolerance: the largest KKT residual that counts as success.

    Example:
        The isoperimetric problem: the shortest closed curve around the area 1 has the energy 4π. Its charge in Wong's
        equations is half of dE/dD = 4π.

        >>> class Planimeter(gd.AbstractConnection):
        ...     group: gd.groups.Translation = gd.groups.Translation(1)
        ...     def form(self, r):
        ...         return jnp.stack([-r[1], r[0]])[None] / 2
        >>> body, settings = gd.bundles.KaluzaKlein(Planimeter()), gd.Wong(harmonics=2, steps=8)
        >>> best = gd.optimal_stroke(body, [0.0, 0.0], displacement=1.0, method=settings)
        >>> print(f"energy {best.cost:.6f}, charge {best.charge[0]:.6f}")
        energy 12.566371, charge 6.283185

    Source:
        Montgomery, *Commun. Math. Phys.* 128 (1990) 565; Koon & Marsden, *SIAM J. Control Optim.* 35 (1997) 901;
        Doedel, in *Numerical Continuation Methods for Dynamical Systems* (2007), chapter 1.
    """

    harmonics: Count = eqx.field(static=True, default=16)
    steps: Count = eqx.field(static=True, default=96)
    max_iterations: Count = eqx.field(static=True, default=60)
    tolerance: float = eqx.field(static=True, default=1e-3)

    def solve(self, problem: StrokeProblem, x: PyTree, progress: Progress) -> Minimum:
        refuse_bounds("Wong", problem)
        if isinstance(x, LegendreStroke):
            # The theory of small strokes leaves open at which point an ellipse starts: a descent finds it, and need
            # not go on to the end.
            near = Descent(self.harmonics, self.steps, tolerance=0.01, max_iterations=100)
            x = near.solve(problem, x, False).x
        with compiling(progress is True):
            march = _march(problem, x, self.max_iterations)
        if progress and not callable(progress):
            print(f"{float(march.reached):.4g} of the displacement after {int(march.attempts)} solutions", flush=True)
        result = jnp.where(march.reached == 1, RESULTS.successful, RESULTS.stalled)
        x, y, _ = _split_unknowns(x, march.z)
        # If the march stopped early, the multipliers are those of a fraction of the displacement.
        y = y / jnp.where(march.reached > 0, march.reached, 1.0)
        found = stationary(problem, x, y, march.attempts, result)
        if callable(progress):
            tell(progress, int(march.attempts), found.kkt_residual)
        # What has failed keeps its own result.
        is_resolved = (found.kkt_residual <= self.tolerance) | ~found.successful
        result = jnp.where(is_resolved, found.result, RESULTS.too_few_harmonics)
        return eqx.tree_at(lambda m: m.result, found, result)


def _split_unknowns(like: PyTree, z: Float[Array, " n"]) -> tuple[Any, Float[Array, " p"], Float[Array, " _"]]:
    """The unknowns of the stroke, the multipliers, and σ [1], or [0] if the phase is not free."""
    flat, unravel = ravel_pytree(like)
    has_free_phase = isinstance(like, FourierStroke)
    x, y, sigma = jnp.split(z, [flat.size, z.size - has_free_phase])
    return unravel(x), y, sigma


def _collocation_times(like: PyTree) -> np.ndarray:
    """The collocation times in [0, 1], one for each coefficient of a shape variable. The coordinates of a free base are
    not counted: they belong to the closing conditions."""
    if isinstance(like, FourierStroke):
        count = 2 * like.cosine.shape[1] + 1
        return np.arange(count) / count
    coefficients = like.coefficients if isinstance(like, LegendreStroke) else like
    nodes, _ = np.polynomial.legendre.leggauss(coefficients.shape[1])
    return (nodes + 1) / 2


class _Conditions(eqx.Module):
    """The equations for z = (x, y, σ), zero at a solution, in units of the energy; the phase is that of the stroke
    `like`."""

    problem: StrokeProblem
    like: PyTree

    def __call__(self, z: Float[Array, " n"]) -> Float[Array, " n"]:
        x, y, sigma = _split_unknowns(self.like, z)
        problem = self.problem
        group = problem.swimmer.group
        stroke = problem.stroke(x)
        times = _collocation_times(self.like)
        elements, end = _elements(problem, stroke, times)
        charge = problem.charge(y, end)
        shapes, rates, accelerations = jax.vmap(lambda t: derivatives_at(stroke, t, 2))(jnp.asarray(times, z.dtype))
        # The charge is constant in space; seen from the body it turns with it, μ(t) = Ad*_g μ.
        charges = jax.vmap(lambda g: group.adjoint(g).T @ charge)(elements)
        points = jnp.concatenate([shapes, rates, accelerations, charges], axis=1)
        defects = pointwise(self.defect)(points) / problem.energy
        rest = [problem.miss(end)]
        if isinstance(x, FourierStroke):
            defects = defects + sigma[0] * rates
            # A shift of time changes nothing, so the phase is free: it is held where the stroke `like` has it.
            change = ravel_pytree(x)[0] - ravel_pytree(self.like)[0]
            rest.append((_time_shift(self.like) @ change)[None])
        if isinstance(x, LegendreStroke):
            form, metric = reduction(metric_of(problem.swimmer), x.base)
            k = np.arange(1, x.coefficients.shape[1] + 1)
            # The difference of the rates r' = Σ_k c_k (4k + 2) P_k(2t − 1) at the two ends, where P_k is 1 and (−1)^k.
            jump = x.coefficients @ jnp.asarray((4 * k + 2) * (1 - (-1.0) ** k), z.dtype)
            # The momentum p = G r' + Aᵀμ is the same at both ends of the stroke.
            gain = group.adjoint(end).T @ charge - charge
            rest.append((metric @ jump + form.T @ gain) / problem.energy)
        return jnp.concatenate([defects.ravel(), *rest])

    def defect(self, point: Float[Array, " _"]) -> Float[Array, " m"]:
        """The residual of Wong's equation at the point (r, r', r'', μ)."""
        m = (point.size - self.problem.swimmer.group.dim) // 3
        *motion, charge = jnp.split(point, m * np.arange(1, 4))
        needed, felt = wong_forces(self.problem.swimmer, tuple(motion), charge, self.problem.density)
        return needed - felt


def _elements(
    problem: StrokeProblem, stroke: Stroke, times: Float[np.ndarray, " T"]
) -> tuple[Float[Array, "T d d"], Float[Array, "d d"]]:
    """The group elements at the collocation times, and at the end of the stroke."""
    # Between two collocation times there are as many equal steps as make `problem.steps` of them in all.
    knots = np.unique(np.concatenate([[0.0], times, [1.0]]))
    intervals = len(knots) - 1
    parts = -(-problem.steps // intervals)
    ends = np.interp(np.arange(parts * intervals + 1) / parts, np.arange(len(knots)), knots)
    lengths = np.diff(ends)
    nodes = jnp.asarray((ends[:-1, None] + lengths[:, None] * NODES).ravel(), float)
    velocities = problem.along(stroke, nodes, pointwise(problem.local)).velocities
    group = problem.swimmer.group
    after_steps = magnus(group, velocities, jnp.asarray(lengths, nodes.dtype))
    after_intervals = after_steps[parts - 1 :: parts]
    start = group.identity().astype(after_intervals.dtype)[None]
    at_knots = jnp.concatenate([start, after_intervals])
    return at_knots[np.searchsorted(knots, times)], after_intervals[-1]


def _time_shift(x: FourierStroke) -> Float[Array, " n"]:
    """The unit vector along which a shift of time changes the coefficients."""
    k = jnp.arange(1, x.cosine.shape[1] + 1, dtype=x.mean.dtype)[None]
    rate = FourierStroke(0 * x.mean, k * x.sine, -k * x.cosine)
    change = ravel_pytree(rate)[0]
    return change / jnp.linalg.norm(change)


def _scale_stroke(x: PyTree, factor: Scalar) -> Any:
    """The stroke scaled by a factor about its mean, or its base."""
    if isinstance(x, FourierStroke):
        return FourierStroke(x.mean, factor * x.cosine, factor * x.sine)
    if isinstance(x, LegendreStroke):
        return LegendreStroke(x.base, factor * x.coefficients)
    return factor * x


def _with_multipliers(conditions: _Conditions, x: PyTree, count: int) -> Float[Array, " n"]:
    """z = (x, y, σ = 0) for a stroke x, with the multipliers y by least squares: the conditions are affine in y."""
    flat = ravel_pytree(x)[0]
    sigma = jnp.zeros(int(isinstance(x, FourierStroke)), flat.dtype)

    def at(y: Float[Array, " p"]) -> Float[Array, " w"]:
        return conditions(jnp.concatenate([flat, y, sigma]))

    zero = jnp.zeros(count, flat.dtype)
    y = jnp.linalg.lstsq(jax.jacfwd(at)(zero), -at(zero))[0]
    return jnp.concatenate([flat, y, sigma])


class _Iterate(NamedTuple):
    """A point z of Newton's method, the lengths of the last step and of the first over |z|, and how many there were."""

    z: Float[Array, " n"]
    last: Scalar
    first: Scalar
    count: Int[Array, ""]


def _newton(conditions: _Conditions, z: Float[Array, " n"]) -> tuple[Float[Array, " n"], Bool[Array, ""]]:
    """(the result of Newton's method from z, whether it is a solution near z). The steps have least norm; "near" means
    that the first one is shorter than |z|/3."""
    eps = jnp.finfo(z.dtype).eps

    def twice(z: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        value = conditions(z)
        return value, value

    def step(state: _Iterate) -> _Iterate:
        z = state.z
        # The value comes with the Jacobian, as what is not differentiated.
        jacobian, value = jax.jacfwd(twice, has_aux=True)(z)
        # A smaller singular value, in parts of the largest, is zero but for rounding: no step is made along its vector.
        smallest: float = 1e3 * eps
        move, *_ = jnp.linalg.lstsq(jacobian, -value, rcond=smallest)
        size = jnp.linalg.norm(move) / jnp.linalg.norm(z)
        first = jnp.asarray(jnp.where(state.count == 0, size, state.first))
        return _Iterate(z + move, size, first, state.count + 1)

    def near(state: _Iterate) -> Bool[Array, ""]:
        return (state.first < 1 / 3) & (state.last < 1)

    def goes_on(state: _Iterate) -> Bool[Array, ""]:
        return near(state) & (state.last > 1e4 * eps) & (state.count < 12)

    # Any length with which `goes_on` lets it begin.
    before = jnp.full((), 0.3, z.dtype)
    end = jax.lax.while_loop(goes_on, step, _Iterate(z, before, before, jnp.array(0)))
    return end.z, near(end) & (end.last <= 1e4 * eps)


class _March(eqx.Module):
    """The state of the continuation: the solution z at the fraction `reached` of the displacement, the fraction
    `target` to try next, and the `factor` by which the fraction grows."""

    z: Float[Array, " n"]
    reached: Scalar
    target: Scalar
    factor: Scalar
    attempts: Int[Array, ""]


@for_few_runs
def _march(problem: StrokeProblem, x: PyTree, limit: int) -> _March:
    """Solve for the whole displacement from the stroke x at once; if this fails, start at a small fraction of the
    displacement and let it grow. reached = 1 means success."""
    count = problem.miss(problem.swimmer.group.identity()).size
    one = jnp.ones((), problem.energy.dtype)
    rest = jnp.zeros(count + isinstance(x, FourierStroke), one.dtype)

    def attempt(march: _March) -> _March:
        small = march.reached == 0
        growth = march.target / jnp.where(small, 1.0, march.reached)
        stroke, _, _ = _split_unknowns(x, march.z)
        # A small loop moves the body by its area, so its size goes with the root of the displacement.
        start = _scale_stroke(stroke, jnp.sqrt(growth))
        there = eqx.tree_at(lambda p: p.displacement, problem, march.target * problem.displacement)
        conditions = _Conditions(there, start)
        z, found = _newton(conditions, _with_multipliers(conditions, start, count))
        reached = jnp.where(found, march.target, march.reached)
        # Until a first fraction is reached, smaller and smaller ones are tried; after that it grows by less.
        factor = jnp.where(found | small, march.factor, jnp.sqrt(march.factor))
        onwards = jnp.where(reached == 0, march.target / 8, jnp.minimum(1.0, reached * factor))
        return _March(
            z=jnp.where(found, z, march.z),
            reached=reached,
            target=onwards,
            factor=factor,
            attempts=march.attempts + 1,
        )

    def goes_on(march: _March) -> Bool[Array, ""]:
        # It ends at the eighth failure on the way, or at the seventh before the way begins: 2^(1/256), 8⁻⁷.
        useful = (march.factor > 1.003) & (march.target > 1e-6)
        return (march.reached < 1) & useful & (march.attempts < limit)

    z = jnp.append(ravel_pytree(x)[0], rest)
    begin = _March(z=z, reached=0 * one, target=one, factor=2 * one, attempts=jnp.array(0))
    return jax.lax.while_loop(goes_on, attempt, begin)
