"""PURPOSE: constrained Newton's method: `min f(x)` under `c(x) = 0` and `h(x) ≥ 0`, with exact Hessians.

A primal-dual interior-point method with slacks `h = s` and `s z = μ → 0`. Each step solves the Newton system of the
Lagrangian `f − y·c − z·h` in the null space of c'. The reduced Hessian is diagonalised: the sign of negative
eigenvalues is changed, so that steps descend from saddles, and zero eigenvalues are skipped, which belong to symmetries
(a shift of time, a change of heading). A backtracking line search on the ℓ₁ merit function gives the length of the
step. Source: Nocedal & Wright, *Numerical Optimization* (2006), chapters 18 and 19. The problem should be scaled so
that f and c are of order one.
Why not a library: those maintained for JAX (optimistix, optax) minimise without constraints, and IPOPT cannot be traced
by JAX, so that searches could be neither batched nor differentiated.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from geodyn._engine.jit import for_few_runs, for_one_run
from geodyn._foundations.progress import compiling
from geodyn._foundations.results import RESULTS, AbstractOutcome
from geodyn._foundations.typing import Array, Bool, Float, Int, Number, PyTree, Scalar

STIFFEST = 1e6
Problem = Callable[[PyTree], tuple[Scalar, Float[Array, " p"], Float[Array, " q"]]]
# (problem, x, weights) ↦ the values (f, c, h), their jacobian, and the Hessian of `weights @ (f, c, h)`.
Derivatives = Callable[[Any, PyTree, Array], tuple[Array, Array, Array]]


class Minimum(AbstractOutcome):
    """The state of the search at a point, with the evidence of its optimality.

    `x` is the point; `multipliers` y[p] of c, `bound_multipliers` z[q] of h with `slacks` s[q]; `barrier` is μ, and
    `reach` the length of the last step. `kkt_residual` is the largest of: the gradient of the Lagrangian relative to
    that of f (`size_of_gradient`), |c|, the violation of h, and s z. After convergence only its part along flat
    directions may exceed the tolerance, up to √eps. `hessian` is that of the Lagrangian, with large entries for active
    bounds, and `jacobian` is c', both at the point where the search ended.
    """

    x: PyTree
    multipliers: Float[Array, " p"]
    bound_multipliers: Float[Array, " q"]
    slacks: Float[Array, " q"]
    barrier: Scalar
    reach: Scalar
    hessian: Float[Array, "n n"]
    jacobian: Float[Array, "p n"]
    kkt_residual: Scalar
    iterations: Int[Array, ""]
    result: Int[Array, ""]


def _largest(v: Array) -> Scalar:
    return jnp.max(jnp.abs(v), initial=0.0)


def size_of_gradient(f: Scalar, df: Float[Array, " n"], hessian: Float[Array, "n n"]) -> Scalar:
    """What the gradient of the Lagrangian is compared with: the largest component of that of f. Where f is stationary
    by itself, so that this is rounding, it is a thousandth of the slope over which f would change by itself."""
    bends = _largest(jnp.diagonal(hessian))
    return jnp.maximum(_largest(df), 1e-3 * jnp.sqrt(jnp.abs(f) * bends))


def _sum_of_sizes(v: Array) -> Scalar:
    return jnp.sum(jnp.abs(v))


def null_space(jacobian: Float[Array, "p n"]) -> tuple[Float[Array, "n p"], Float[Array, "n n"]]:
    """The pseudo-inverse J⁺, and an orthonormal basis of the null space of J as columns of an [n, n] matrix. The other
    columns are zero: the rank is not known at trace time, since constraints may be linearly dependent."""
    u, sigma, vt = jnp.linalg.svd(jacobian, full_matrices=True)
    p = jacobian.shape[0]
    rank = sigma > 100 * jnp.finfo(sigma.dtype).eps * _largest(sigma)
    reciprocals = jnp.where(rank, 1 / jnp.where(rank, sigma, 1.0), 0.0)
    inverse = vt[:p].T @ (reciprocals[:, None] * u.T)
    # Constraints that depend on others leave their directions to the null space.
    dependent = jnp.where(rank[:, None], 0.0, vt[:p])
    return inverse, jnp.concatenate([dependent, vt[p:]]).T


class Directions(eqx.Module):
    """The pseudo-inverse J⁺ (`inverse`), and the eigenvectors (columns of `vectors`) and eigenvalues (`values`) of H
    restricted to the null space of J, padded with zeros. `curved` marks the eigenvalues of size above `flat`."""

    inverse: Float[Array, "n p"]
    vectors: Float[Array, "n n"]
    values: Float[Array, " n"]
    curved: Bool[Array, " n"]

    def __init__(self, hessian: Float[Array, "n n"], jacobian: Float[Array, "p n"], flat: Scalar):
        self.inverse, null = null_space(jacobian)
        self.values, vectors = jnp.linalg.eigh(null.T @ hessian @ null)
        self.vectors = null @ vectors
        self.curved = jnp.abs(self.values) > flat

    def divide_by(self, slope: Float[Array, " n"], values: Float[Array, " n"]) -> Float[Array, " n"]:
        """The slope divided by the eigenvalues `values` in the eigenbasis; zero along flat directions."""
        divisors = jnp.where(self.curved, values, 1.0)
        parts = jnp.where(self.curved, self.vectors.T @ slope / divisors, 0.0)
        return self.vectors @ parts

    def shift(self, slope: Float[Array, " n"], sizes: Float[Array, " n"], longest: Scalar) -> Scalar:
        """What to add to the sizes of the eigenvalues, so that the slope divided by them is not much shorter, and no
        longer, than `longest`: 0 if it is shorter anyway."""
        parts = jnp.where(self.curved, self.vectors.T @ slope, 0.0)
        sizes = jnp.where(self.curved, sizes, 1.0)

        def is_short(shift: Scalar) -> Bool[Array, ""]:
            return jnp.linalg.norm(parts / (sizes + shift)) <= longest

        # The length falls as the shift grows, so that its logarithm is found by halving.
        def halve(_: Int[Array, ""], ends: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
            low, high = ends
            middle = jnp.sqrt(low * high)
            short = is_short(middle)
            return jnp.where(short, low, middle), jnp.where(short, middle, high)

        most = jnp.linalg.norm(parts) / longest
        least = most * jnp.finfo(most.dtype).eps
        # Twelve halvings of the exponent leave a hundredth of the shift.
        shift = jax.lax.fori_loop(0, 12, halve, (least, most))[1]
        return jnp.where(is_short(jnp.zeros_like(most)), 0.0, shift)

    def along_flat(self, slope: Float[Array, " n"]) -> Float[Array, " n"]:
        """The part of the slope along flat directions."""
        return self.vectors @ jnp.where(self.curved, 0.0, self.vectors.T @ slope)


def _newton_step(
    hessian: Float[Array, "n n"],
    gradient: Float[Array, " n"],
    directions: Directions,
    c: Float[Array, " p"],
    longest: Scalar,
) -> tuple[Float[Array, " n"], Float[Array, " p"]]:
    """The minimum d of `½ dᵀHd + g·d` under `Jd = −c`, and its multipliers y.

    d has no part along flat directions; along those of negative curvature it is a descent direction. Within the
    constraints it is no longer than `longest`: it is the minimum in a region of this size, where the quadratic model is
    trusted (Nocedal & Wright, section 4.3).
    """
    normal = -directions.inverse @ c
    slope = gradient + hessian @ normal
    sizes = jnp.abs(directions.values)
    step = normal - directions.divide_by(slope, sizes + directions.shift(slope, sizes, longest))
    return step, directions.inverse.T @ (gradient + hessian @ step)


def _lowered_barrier(barrier: Scalar, feasible: Scalar, products: Float[Array, " q"], tolerance: Scalar) -> Scalar:
    """The barrier of the next step, which is lower once its own problem is solved: once its KKT residual, with the
    `products` s z and the part `feasible` of all else, is small."""
    solved = jnp.maximum(feasible, _largest(products - barrier)) < 10 * barrier
    lowered = jnp.where(solved, jnp.minimum(barrier / 5, barrier**1.5), barrier)
    return jnp.maximum(lowered, tolerance / 100)


def _result_of(a: Scalar, residual: Scalar, tolerance: Scalar) -> Int[Array, ""]:
    """How the search ends if it ends here, from the part a of the step that is taken and the KKT residual before it."""
    result = jnp.where(a > 0, RESULTS.too_many_iterations, RESULTS.stalled)
    result = jnp.where(jnp.isfinite(residual), result, RESULTS.cost_not_finite)
    return jnp.where(residual <= tolerance, RESULTS.successful, result)


class Step(NamedTuple):
    """The Newton step (`dx`, `ds`) from the point `x` with slacks `s`, and what the line search asks of parts of it.

    The part a of the step, 0 ≤ a ≤ 1, leads to `x + a dx + a² bend`. Where constraints are curved, c(x + a dx) is about
    a² c''(dx, dx)/2 away from what their tangents say; `bend` [n] takes the point back by that, and is 0 as long as the
    straight step has not failed. `unravel` makes the unknowns of `problem` from x; `dh` is h', `inverse` is c'⁺, and
    `weight` that of the violation of constraints in the merit function.
    """

    problem: Problem
    unravel: Callable[[Array], PyTree]
    x: Float[Array, " n"]
    s: Float[Array, " q"]
    dx: Float[Array, " n"]
    ds: Float[Array, " q"]
    dh: Float[Array, "q n"]
    inverse: Float[Array, "n p"]
    barrier: Scalar
    weight: Scalar

    def point(self, a: Number, bend: Float[Array, " n"]) -> Float[Array, " n"]:
        """Where the part a of the step leads."""
        return self.x + a * self.dx + a**2 * bend

    def slacks(self, a: Number, bend: Float[Array, " n"]) -> Float[Array, " q"]:
        """The slacks there. They are corrected too: else they would miss what the correction adds to h, and creep along
        the bounds."""
        return self.s + a * self.ds + a**2 * (self.dh @ bend)

    def values(self, a: Number, bend: Float[Array, " n"]) -> Float[Array, " w"]:
        """(f, c, h) there, in one row."""
        return _in_one_row(self.problem, self.unravel(self.point(a, bend)))

    def merit(self, a: Number, bend: Float[Array, " n"], values: Float[Array, " w"]) -> Scalar:
        """The ℓ₁ merit function f − μ Σ log s + weight (Σ |c| + Σ |h − s|) there, from the `values`."""
        p = self.inverse.shape[1]
        f, c, h = jnp.split(values, [1, 1 + p])
        slacks = _nearest_slacks(h, self.slacks(a, bend))
        violation = _sum_of_sizes(c) + _sum_of_sizes(h - slacks)
        return f[0] - self.barrier * jnp.sum(jnp.log(slacks)) + self.weight * violation

    def correction(self, values: Float[Array, " w"]) -> Float[Array, " n"]:
        """The smallest change of a point with these values that leads to c = 0, to first order."""
        p = self.inverse.shape[1]
        return -self.inverse @ values[1 : 1 + p]


class Attempt(NamedTuple):
    """A trial of the line search: the part a of the step (`length`), the correction `bend` (see `Step`), whether none
    was tried yet, and whether the last one was accepted."""

    length: Scalar
    bend: Float[Array, " n"]
    straight: Bool[Array, ""]
    accepted: Bool[Array, ""]


def _line_search(step: Step, start: Scalar, slope: Scalar, longest: Scalar) -> tuple[Scalar, Float[Array, " n"]]:
    """(the part a of the step that is taken, its second-order correction `bend`), by backtracking from a = `longest`;
    `start` is the merit at a = 0, `slope` its derivative by a there.

    A step is accepted if the merit function falls by at least 1e-4 of what its slope predicts. Otherwise a is shortened
    to the minimum of a parabola through the merit, but to no less than 0.3 a; a = 0 if no step is accepted. If the
    first step fails, a correction of second order towards the constraints is tried before: without it the merit
    function would reject good steps along curved constraints (the Maratos effect)."""
    rounding = 100 * jnp.finfo(start.dtype).eps * jnp.abs(start)

    def attempt(search: Attempt) -> Attempt:
        a = search.length
        reached = step.values(a, search.bend)
        rise = step.merit(a, search.bend, reached) - start
        accepted = rise <= 1e-4 * a * slope + rounding
        # The parabola with this slope at 0 and this rise at a has its minimum at the part `least` of a.
        least: Array = -slope * a / (rise - slope * a) / 2
        may_bend = search.straight & ~accepted & jnp.all(jnp.isfinite(reached))
        # Over a², as the correction of a shorter step is smaller by the square.
        bend = jnp.asarray(jnp.where(may_bend, step.correction(reached) / a**2, search.bend))
        shorter = a * jnp.where(least > 0.3, least, 0.3)
        length = jnp.asarray(jnp.where(accepted | search.straight, a, shorter))
        return Attempt(length, bend, jnp.array(False), accepted)

    def goes_on(search: Attempt) -> Bool[Array, ""]:
        return ~search.accepted & (search.length > 1e-6 * longest)

    first = Attempt(longest, jnp.zeros_like(step.dx), jnp.array(True), jnp.array(False))
    last = jax.lax.while_loop(goes_on, attempt, first)
    return jnp.where(last.accepted, last.length, 0.0), last.bend


def _to_boundary(v: Float[Array, " w"], dv: Float[Array, " w"]) -> Scalar:
    """The largest a ≤ 1 for which v + a dv keeps at least 0.5 % of every component of v > 0."""
    falls = dv < 0
    reach = -0.995 * v / jnp.where(falls, dv, -1.0)
    return jnp.min(jnp.where(falls, reach, 1.0), initial=1.0)


def _nearest_slacks(h: Float[Array, " q"], predicted: Float[Array, " q"]) -> Float[Array, " q"]:
    """The slacks after a step: h itself, but where that fell to less than a tenth of what was predicted. Else a bound
    that is far away would hold a step up, only because h is not linear."""
    if not h.size:  # Of a loop with a comparison of nothing, XLA loses how it has to call our programs.
        return h
    return jnp.where(h > 0.1 * predicted, h, predicted)


def _in_one_row(problem: Problem, x: PyTree) -> Float[Array, " w"]:
    f, c, h = problem(x)
    return jnp.concatenate([f[None], c, h])


def by_autodiff(problem: Problem, x: PyTree, weights: Float[Array, " w"]) -> tuple[Array, Array, Array]:
    """`Derivatives` of any problem, by automatic differentiation."""
    flat, unravel = ravel_pytree(x)

    def values(flat: Float[Array, " n"]) -> Float[Array, " w"]:
        return _in_one_row(problem, unravel(flat))

    # The gradient is linear in the weights: forward mode over it gives both the Hessian and the jacobian.
    def gradient(flat: Float[Array, " n"], weights: Float[Array, " w"]) -> Float[Array, " n"]:
        return jax.grad(lambda flat: weights @ values(flat))(flat)

    hessian, rows = jax.jacfwd(gradient, (0, 1))(flat, weights)
    return values(flat), rows.T, hessian


def _newton(problem: Problem, derivatives: Derivatives, state: Minimum, tolerance: Scalar) -> Minimum:
    """One iteration. The point moves only while the result is `too_many_iterations`, which it is if the search ends
    here for no other reason: not at convergence or failure."""
    x, unravel = ravel_pytree(state.x)
    eps = jnp.finfo(x.dtype).eps
    y = state.multipliers
    p = y.size
    weights = jnp.concatenate([jnp.ones(1, x.dtype), -y, -state.bound_multipliers])
    values, jacobian, hessian = derivatives(problem, state.x, weights)
    c, h = jnp.split(values[1:], [p])
    df = jacobian[0]
    dc = jacobian[1 : 1 + p]
    dh = jacobian[1 + p :]
    first = state.iterations == 0
    s = _nearest_slacks(h, state.slacks)
    z = jnp.where(first, state.barrier / s, state.bound_multipliers)

    flat = jnp.sqrt(eps) * _largest(jnp.diagonal(hessian))
    stiff = hessian + dh.T @ ((z / s)[:, None] * dh)
    directions = Directions(stiff, dc, flat)
    # A quadrature may break a symmetry by its error: no step removes the small gradient along such a flat direction.
    gap = df - y @ dc - z @ dh
    broken = directions.along_flat(gap)
    size = size_of_gradient(values[0], df, hessian)
    broken = jnp.where(_largest(broken) < jnp.sqrt(eps) * size, broken, 0.0)
    feasible = jnp.maximum(_largest(gap - broken) / size, _largest(jnp.concatenate([c, h - s])))
    residual = jnp.maximum(feasible, _largest(s * z))
    barrier = _lowered_barrier(state.barrier, feasible, s * z, tolerance)

    trusted = jnp.minimum(8 * state.reach, 1 + jnp.linalg.norm(x))
    # The slacks and the multipliers z are eliminated: ds = h' dx + h − s, dz = μ/s − z − z/s ds.
    of_bounds = barrier / s - z / s * (h - s)
    dx, y_new = _newton_step(stiff, df - of_bounds @ dh, directions, c, trusted)
    ds = dh @ dx + h - s
    dz = barrier / s - z - z / s * ds

    # As a penalty y_new alone would be too small at the start: with y = 0 the model lacks the curvature of c.
    prices = jnp.concatenate([y_new, directions.inverse.T @ df, z + dz])
    weight = 2 * _largest(prices) + 1

    step = Step(problem, unravel, x, s, dx, ds, dh, directions.inverse, barrier, weight)
    start = step.merit(0.0, jnp.zeros_like(dx), values)
    slope = df @ dx - barrier * jnp.sum(ds / s) - weight * (_sum_of_sizes(c) + _sum_of_sizes(h - s))

    # Newton steps are unbounded where c' nearly vanishes, as for a displacement that cannot be reached. And after a
    # short step most trials of a much longer one would be wasted. So a step is at most 8 times as long as the last.
    length = jnp.linalg.norm(dx) + eps
    longest = jnp.minimum(_to_boundary(s, ds), trusted / length)
    a, bend = _line_search(step, start, slope, longest)

    result = _result_of(a, residual, tolerance)
    # Of the type with which it begins, and not Python's weak one: else the next call would trace all of it again. (And
    # of a loop that compares weak numbers XLA loses how it has to call our programs, in JAX 0.9 and 0.12.)
    result = jax.lax.convert_element_type(result, state.result.dtype)
    here = (x, y, z, s)
    there = (step.point(a, bend), y_new, z + _to_boundary(z, dz) * dz, step.slacks(a, bend))
    x, y, z, s = jax.tree.map(lambda old, new: jnp.where(result == RESULTS.too_many_iterations, new, old), here, there)
    curved = hessian + dh.T @ (jnp.minimum(z / s, STIFFEST)[:, None] * dh)
    residual = jnp.maximum(residual, _largest(broken) / size)
    return Minimum(
        x=unravel(x),
        multipliers=y,
        bound_multipliers=z,
        slacks=s,
        barrier=barrier,
        reach=a * length,
        hessian=curved,
        jacobian=dc,
        kkt_residual=residual,
        iterations=state.iterations + 1,
        result=result,
    )


@for_one_run
def begin(problem: Problem, x: PyTree) -> Minimum:
    """The state before the first iteration; the problem is traced for the shapes of c and h, and only once."""
    _, c, h = jax.eval_shape(problem, x)
    zero = jnp.zeros((), c.dtype)
    n = ravel_pytree(x)[0].size
    barrier = zero + 1.0 / (1 + h.size)
    return Minimum(
        x=x,
        multipliers=jnp.zeros(c.shape),
        bound_multipliers=jnp.full(h.shape, barrier),
        slacks=jnp.full(h.shape, 0.01),
        barrier=barrier,
        reach=zero + jnp.inf,
        hessian=jnp.zeros((n, n), c.dtype),
        jacobian=jnp.zeros((*c.shape, n), c.dtype),
        kkt_residual=zero,
        iterations=jnp.zeros((), int),
        result=jnp.array(RESULTS.too_many_iterations, int),
    )


@for_few_runs
def _advance(
    problem: Problem, derivatives: Derivatives, state: Minimum, tolerance: Scalar, limit: Int[Array, ""]
) -> Minimum:
    """Iterate until the search ends or the count of iterations reaches the limit."""

    def goes_on(state: Minimum) -> Bool[Array, ""]:
        return (state.result == RESULTS.too_many_iterations) & (state.iterations < limit)

    return jax.lax.while_loop(goes_on, lambda state: _newton(problem, derivatives, state, tolerance), state)


Progress = bool | Callable[[int, float], None]


def tell(progress: Progress, iteration: int | Scalar, residual: float | Scalar) -> None:
    """Prints how far a search is, or calls the user's function with it, which may raise KeyboardInterrupt to end it."""
    if callable(progress):
        progress(int(iteration), float(residual))
    elif progress:
        print(f"iteration {int(iteration)}: KKT residual {float(residual):.2e}", flush=True)


def minimise(
    problem: Problem,
    x: PyTree,
    *,
    tolerance: float,
    max_iterations: int,
    derivatives: Derivatives = by_autodiff,
    progress: Progress = False,
) -> Minimum:
    """A local minimum of f(x) under c(x) = 0 and h(x) ≥ 0, with `problem(x) = (f, c, h)`, from the pytree x.

    It ends when the KKT residual is below the tolerance, or with another status in `result`. With `progress` it tells
    of the iterations, and KeyboardInterrupt returns the point reached so far.
    Numbers inside `problem` (a module) and x are traced, so that other values do not cause a new compilation.
    `derivatives` is a function of (problem, x, weights) that returns (f, c, h), their jacobian, and the Hessian of
    `weights @ (f, c, h)`, for problems with derivatives that are cheaper than those of autodiff.
    """
    state = begin(problem, x)
    tolerance = np.asarray(tolerance, jnp.result_type(*jax.tree.leaves(x)))
    try:
        for limit in range(1, max_iterations + 1) if progress else [max_iterations]:
            with compiling(progress is True and limit == 1):
                state = _advance(problem, derivatives, state, tolerance, np.asarray(limit))
            if progress:
                tell(progress, limit, state.kkt_residual)
                if state.result != RESULTS.too_many_iterations:
                    break
    except KeyboardInterrupt:
        print(f"interrupted after {int(state.iterations)} iterations")
        state = eqx.tree_at(lambda s: s.result, state, jnp.array(RESULTS.interrupted, int))
    return state
