"""PURPOSE: constrained Newton's method: `min f(x)` under `c(x) = 0` and `h(x) ≥ 0`, with exact Hessians by autodiff.

A primal-dual interior-point method: slacks `h = s`, `s z = μ → 0`; each step solves the Newton system of the Lagrangian
`f − y·c − z·h` in the null space of c', where an eigendecomposition turns saddles into descent and leaves directions
alone that cost nothing (symmetries: a shift of time, a change of heading). A backtracking search on the ℓ₁ merit
function with a second-order correction decides how far to go. Source: Nocedal & Wright, *Numerical Optimization*
(2006), chapters 18 and 19. The problem should be scaled: f and c of order one.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from geodyn._typing import Array, Bool, Float, Int, PyTree, Scalar

Problem = Callable[[PyTree], tuple[Scalar, Float[Array, " p"], Float[Array, " q"]]]


class RESULTS(eqx.Enumeration):
    """How a minimisation ended."""

    converged = "converged"
    running = "the limit of iterations was reached before the KKT residual fell below the tolerance"
    stalled = "no step along the search direction lowers the merit function"
    not_finite = "the objective or a constraint is not finite at the start"


class Minimum(eqx.Module):
    """A point where the search stands or ended, with what certifies it.

    `x` is the point; `multipliers` y[p] of c and `bound_multipliers` z[q] of h with slacks s[q]; `barrier` μ;
    `kkt_residual` the largest of: gradient of the Lagrangian over gradient of f, |c|, violation of h, s z.
    """

    x: PyTree
    multipliers: Float[Array, " p"]
    bound_multipliers: Float[Array, " q"]
    slacks: Float[Array, " q"]
    barrier: Scalar
    kkt_residual: Scalar
    iterations: Int[Array, ""]
    result: RESULTS


def _largest(v: Float[Array, " _"]) -> Scalar:
    return jnp.max(jnp.abs(v), initial=0.0)


def _newton_step(hessian, gradient, jacobian, c, flat):
    """Minimise `½ dᵀHd + g·d` under `Jd = −c`: d, its multipliers y, and the least-norm right inverse of J.

    Directions of curvature below `flat` are left alone, those of negative curvature are descended.
    """
    u, sigma, vt = jnp.linalg.svd(jacobian, full_matrices=True)
    p = c.shape[0]
    inverse = vt[:p].T @ (jnp.where(sigma > 1e-10 * sigma[0], 1 / sigma, 0.0)[:, None] * u.T)
    null = vt[p:].T
    normal = -inverse @ c
    values, vectors = jnp.linalg.eigh(null.T @ hessian @ null)
    slope = vectors.T @ (null.T @ (gradient + hessian @ normal))
    free = jnp.abs(values) > flat
    step = normal - null @ (vectors @ jnp.where(free, slope / jnp.where(free, jnp.abs(values), 1.0), 0.0))
    return step, inverse.T @ (gradient + hessian @ step), inverse


def _line_search(merit, move, longest, slope):
    """The first of `longest, longest/2, …` whose merit falls by 1e-4 of what the slope promises; 0 if none does."""
    start = merit(0.0, move(0.0))
    rounding = 100 * jnp.finfo(start.dtype).eps * jnp.abs(start)

    def fails(a):
        return ~(merit(a, move(a)) <= start + 1e-4 * a * slope + rounding)

    a = jax.lax.while_loop(lambda a: (a > 1e-6) & fails(a), lambda a: a / 2, longest)
    return jnp.where(a > 1e-6, a, 0.0)


def _to_boundary(v, dv):
    """How far v may go along dv, 1 at most, keeping 0.5 % of its distance to zero."""
    return jnp.min(jnp.where(dv < 0, -0.995 * v / jnp.where(dv < 0, dv, -1.0), 1.0), initial=1.0)


def _newton(problem: Problem, state: Minimum, tolerance: Scalar) -> Minimum:
    """One iteration; a state that has converged stays where it is."""
    x, unravel = ravel_pytree(state.x)
    eps = jnp.finfo(x.dtype).eps

    def values(x):
        f, c, h = problem(unravel(x))
        return jnp.concatenate([f[None], c, h])

    p = state.multipliers.shape[0]
    split = lambda v: (v[0], v[1 : 1 + p], v[1 + p :])  # noqa: E731
    f, c, h = split(values(x))
    df, dc, dh = split(jax.jacfwd(values)(x))
    first = state.iterations == 0
    s = jnp.where(first, jnp.maximum(h, 0.01), state.slacks)
    z = jnp.where(first, state.barrier / s, state.bound_multipliers)
    y = jnp.where(first, jnp.linalg.lstsq(dc.T, df - z @ dh)[0], state.multipliers)

    stationarity = _largest(df - y @ dc - z @ dh) / _largest(df)
    violation = jnp.maximum(_largest(c), _largest(h - s))
    # The barrier falls when its own problem is solved; the certificate is that of the problem without barrier.
    solved = jnp.maximum(jnp.maximum(stationarity, violation), _largest(s * z - state.barrier)) < 10 * state.barrier
    barrier = jnp.where(solved, jnp.minimum(state.barrier / 5, state.barrier**1.5), state.barrier)
    barrier = jnp.maximum(barrier, 1e3 * eps)
    residual = jnp.maximum(jnp.maximum(stationarity, violation), _largest(s * z))

    weights = jnp.concatenate([jnp.ones(1, x.dtype), -y, -z])
    hessian = jax.jacfwd(jax.grad(lambda x: weights @ values(x)))(x)
    flat = jnp.sqrt(eps) * _largest(jnp.diagonal(hessian))
    stiffness = z / s
    gradient = df - (barrier / s - stiffness * (h - s)) @ dh
    dx, y_new, inverse = _newton_step(hessian + dh.T @ (stiffness[:, None] * dh), gradient, dc, c, flat)
    ds = dh @ dx + h - s
    dz = barrier / s - z - stiffness * ds

    correction = -inverse @ split(values(x + dx))[1]
    correction = jnp.where(_largest(correction) < _largest(dx), correction, 0.0)
    weight = 2 * jnp.maximum(_largest(y_new), _largest(z + dz)) + 1

    def move(a):
        return values(x + a * dx + a**2 * correction)

    def merit(a, v):
        f, c, h = split(v)
        slack = s + a * ds
        penalty = jnp.sum(jnp.abs(c)) + jnp.sum(jnp.abs(h - slack))
        return f - barrier * jnp.sum(jnp.log(slack)) + weight * penalty

    slope = df @ dx - barrier * jnp.sum(ds / s) - weight * (jnp.sum(jnp.abs(c)) + jnp.sum(jnp.abs(h - s)))
    a = _line_search(merit, move, _to_boundary(s, ds), slope)
    moves = RESULTS.where(a > 0, RESULTS.running, RESULTS.stalled)
    finite = jnp.all(jnp.isfinite(jnp.concatenate([dx, y_new, df])))
    result = RESULTS.where(finite, moves, RESULTS.not_finite)
    result = RESULTS.where(residual <= tolerance, RESULTS.converged, result)
    here = (x, y, z, s)
    there = (x + a * dx + a**2 * correction, y_new, z + _to_boundary(z, dz) * dz, s + a * ds)
    x, y, z, s = jax.tree.map(lambda old, new: jnp.where(result == RESULTS.running, new, old), here, there)
    return Minimum(unravel(x), y, z, s, barrier, residual, state.iterations + 1, result)


@eqx.filter_jit
def _advance(problem: Problem, state: Minimum, tolerance: Scalar, limit: Int[Array, ""]) -> Minimum:
    """Iterate until the search ends or the count of iterations reaches the limit."""
    goes_on = lambda state: (state.result == RESULTS.running) & (state.iterations < limit)  # noqa: E731
    return jax.lax.while_loop(goes_on, lambda state: _newton(problem, state, tolerance), state)


def minimise(
    problem: Problem, x: PyTree, *, tolerance: float, max_iterations: int, progress: bool = False
) -> Minimum:
    """A local minimum of f(x) under c(x) = 0 and h(x) ≥ 0, with `problem(x) = (f, c, h)`, from the pytree x.

    Ends when the KKT residual is below the tolerance, or with a status in `result` that says why not. With `progress`
    it prints the iterations, and Ctrl-C returns the point reached so far.
    Numbers inside `problem` (a module) and x are traced, so that other values of them do not compile again.
    """
    _, c, h = jax.eval_shape(problem, x)
    number = jnp.zeros((), c.dtype)
    state = Minimum(
        x, jnp.zeros(c.shape), jnp.zeros(h.shape), jnp.ones(h.shape), number + 0.1, number, jnp.array(0), RESULTS.running
    )
    try:
        for limit in range(1, max_iterations + 1) if progress else [max_iterations]:
            state = _advance(problem, state, jnp.asarray(tolerance, c.dtype), jnp.array(limit))
            if progress:
                print(f"iteration {limit}: KKT residual {float(state.kkt_residual):.2e}", flush=True)
                if state.result != RESULTS.running:
                    break
    except KeyboardInterrupt:
        print(f"interrupted after {int(state.iterations)} iterations")
    return state


def pointwise(function: Callable[[Float[Array, " n"]], Array]) -> Callable[[Float[Array, "Q n"]], Array]:
    """`vmap(function)` that forms its derivatives point by point, once, before any direction is applied.

    A pays-off for many directions (the unknowns of a stroke) through few arguments (shape and rate). Derivatives with
    respect to what the function closes over are not available.
    """

    @jax.custom_jvp
    def values(points):
        return jax.vmap(function)(points)

    @values.defjvp
    def derivative(points, directions):
        slope = pointwise(jax.jacfwd(function))(*points)
        return values(*points), jnp.einsum("q...n,qn->q...", slope, *directions)

    return values
