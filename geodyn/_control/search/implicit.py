"""PURPOSE: derivatives of an optimal stroke with respect to the numbers in its problem, by the implicit-function
theorem for the KKT conditions; those of its energy by the envelope theorem.

Source: Fiacco, *Introduction to Sensitivity and Stability Analysis in Nonlinear Programming* (1983), chapter 3.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.flatten_util import ravel_pytree

from geodyn._control.methods.method import AbstractStrokeMethod
from geodyn._control.problem.minimise import STIFFEST, Directions, Minimum, Progress
from geodyn._control.problem.optimum import OptimalStroke
from geodyn._control.problem.problem import StrokeProblem
from geodyn._engine.jit import custom_jvp, jit
from geodyn._engine.numerics.failure import nan_unless
from geodyn._foundations.gate import checked
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Count, Float, PyTree, Scalar
from geodyn._locomotion.motion.costs import Costly
from geodyn._locomotion.motion.holonomy import cost, holonomy


@custom_jvp
def solve_implicitly(problem: StrokeProblem, x: PyTree, method: AbstractStrokeMethod, progress: Progress) -> Minimum:
    """The solution that the method finds from x. Its point and multipliers are differentiable with respect to the
    numbers in the problem."""
    return method.solve(problem, x, progress)


@solve_implicitly.def_jvp
def _(primals: tuple[Any, ...], tangents: tuple[Any, ...]):
    found = solve_implicitly(*primals)
    change = _change(primals[0], tangents[0], found)
    nothing = jax.tree.map(lambda x: None, found)
    return found, eqx.tree_at(lambda m: (m.x, m.multipliers), nothing, change, is_leaf=_is_none)


def _is_none(x: Any) -> bool:
    return x is None


@jit
def _change(problem: StrokeProblem, tangent: Any, found: Minimum) -> tuple[Any, Float[Array, " p"]]:
    """The tangents of the point and the multipliers, from the tangent of the problem."""
    flat, unravel = ravel_pytree(found.x)
    y = found.multipliers
    z = found.bound_multipliers
    stiffness = jax.lax.stop_gradient(jnp.minimum(z / found.slacks, STIFFEST))

    def conditions(
        problem: StrokeProblem, flat: Float[Array, " n"]
    ) -> tuple[Float[Array, " n"], Float[Array, " p"], Float[Array, " q"]]:
        """The gradient of f − y·c − z·h, with c and h."""

        def lagrangian(flat: Float[Array, " n"]) -> tuple[Scalar, tuple[Float[Array, " p"], Float[Array, " q"]]]:
            f, c, h = problem.plain(unravel(flat))
            return f - y @ c - z @ h, (c, h)

        slope, (c, h) = jax.grad(lagrangian, has_aux=True)(flat)
        return slope, c, h

    def eliminate_bounds(
        slope: Float[Array, " n"], c: Float[Array, " p"], h: Float[Array, " q"]
    ) -> tuple[Float[Array, " n"], Float[Array, " p"]]:
        """The tangents (slope, c) of the conditions, with those of the bounds eliminated by dz = −(z/s) dh."""
        pull = jax.vjp(lambda flat: problem.plain(unravel(flat))[2], flat)[1]
        return slope + pull(stiffness * h)[0], c

    # As one vector: JAX transposes no solution of which only a part of the right-hand side changes, as where only
    # obstacles do, and not the displacement.
    def kkt(v: Float[Array, " _"]) -> Float[Array, " _"]:
        """The matrix [[H, −Jᵀ], [−J, 0]] applied to (dx, dy)."""
        dx = v[: flat.size]
        dy = v[flat.size :]
        slope, c = eliminate_bounds(*jax.jvp(lambda flat: conditions(problem, flat), (flat,), (dx,))[1])
        pull = jax.vjp(lambda flat: problem.plain(unravel(flat))[1], flat)[1]
        return jnp.concatenate([slope - pull(dy)[0], -c])

    def solve(_: Any, b: Float[Array, " _"]) -> Float[Array, " _"]:
        hessian, jacobian = jax.lax.stop_gradient((found.hessian, found.jacobian))
        return jnp.concatenate(kkt_solution(hessian, jacobian, b[: flat.size], b[flat.size :]))

    moving, still = eqx.partition(problem, jax.tree.map(lambda t: t is not None, tangent, is_leaf=_is_none))

    def conditions_of(moving: PyTree) -> tuple[Float[Array, " n"], Float[Array, " p"], Float[Array, " q"]]:
        return conditions(eqx.combine(moving, still), flat)

    slope, c = eliminate_bounds(*jax.jvp(conditions_of, (moving,), (tangent,))[1])
    v = jax.lax.custom_linear_solve(kkt, jnp.concatenate([-slope, c]), solve, symmetric=True)
    return unravel(v[: flat.size]), v[flat.size :]


def kkt_solution(
    hessian: Float[Array, "n n"], jacobian: Float[Array, "p n"], b: Float[Array, " n"], c: Float[Array, " p"]
) -> tuple[Float[Array, " n"], Float[Array, " p"]]:
    """(dx, dy) with `H dx − Jᵀ dy = b`, `−J dx = c`; dx has no part along flat directions."""
    flat = jnp.sqrt(jnp.finfo(b.dtype).eps) * jnp.max(jnp.abs(jnp.diagonal(hessian)))
    directions = Directions(hessian, jacobian, flat)
    normal = -directions.inverse @ c
    dx = normal + directions.divide_by(b - hessian @ normal, directions.values)
    return dx, directions.inverse.T @ (hessian @ dx - b)


@checked
def sensitivity(optimum: OptimalStroke, *, steps: Count = 128) -> Costly:
    """The derivative of the least energy at fixed displacement with respect to every number of the swimmer.

    By the envelope theorem it is the derivative of `E − 2⟨charge, log(g g₁⁻¹)⟩` for the same stroke, g₁ being the
    holonomy of the optimum, and costs one gradient of the energy. `jax.grad` through `gd.optimal_stroke` gives the
    same, and the change of the stroke too.

    Args:
        optimum: result of `gd.optimal_stroke`, with the energy as its cost.
        steps: number of equal steps of the quadrature.

    Returns:
        The derivatives in the form of the swimmer: `sensitivity(optimum).lengths` goes with `swimmer.lengths`. NaN
        where the search for the optimum failed inside jit.

    Raises:
        ValueError: for the result of a search that failed, and for a stroke with passive hinges.

    Example:
        The energy is proportional to the drag per length, so that its derivative at the drag 1 is the energy.

        >>> swimmer, settings = gd.swimmers.SymmetricPurcell(drag=1.0), gd.Direct(harmonics=6, steps=32)
        >>> best = gd.optimal_stroke(swimmer, [0.5, 0.5], displacement=0.02, method=settings)
        >>> print(f"{gd.design.sensitivity(best).drag:.6f} {best.cost:.6f}")
        2.230128 2.230128
    """
    if optimum.period is not None:
        raise ValueError(
            "sensitivity: optimum must be a stroke all of whose shapes are driven, but springs move some of this one;"
            " take jax.grad of gd.optimal_stroke(…).cost."
        )
    good = optimum.successful
    if not isinstance(good, Tracer) and not np.all(good):
        ended = RESULTS(int(optimum.result)).message
        raise ValueError(
            f"sensitivity: optimum must be an optimal stroke, but its search failed: {ended} (KKT"
            f" residual {float(optimum.kkt_residual):.1e}); pass one whose result is gd.RESULTS.successful."
        )
    return nan_unless(jnp.asarray(good), _sensitivity(optimum, steps), ())


@jit
def _sensitivity(optimum: OptimalStroke, steps: Count) -> Costly:
    back = optimum.swimmer.group.inverse(holonomy(optimum.swimmer, optimum.stroke, steps=steps))

    def lagrangian(swimmer: Costly) -> Scalar:
        end = holonomy(swimmer, optimum.stroke, steps=steps)
        beyond = swimmer.group.log(swimmer.group.compose(end, back))
        return cost(swimmer, optimum.stroke, steps=steps) - 2 * optimum.charge @ beyond

    return eqx.filter_grad(lagrangian)(optimum.swimmer)
