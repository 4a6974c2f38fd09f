"""PURPOSE: joint optimisation of a body and its stroke."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from geodyn._control.families.varied import VariedProblem, towing_drag
from geodyn._control.methods.method import Direct, steps_of
from geodyn._control.problem.minimise import minimise
from geodyn._control.problem.optimum import OptimalStroke
from geodyn._control.problem.problem import StrokeProblem
from geodyn._control.search.checks import known
from geodyn._control.search.strokes import efficiency, optimal_stroke
from geodyn._engine.jit import as_pytree
from geodyn._engine.numerics.failure import nan_unless
from geodyn._foundations.gate import checked
from geodyn._foundations.results import RESULTS, AbstractOutcome
from geodyn._foundations.typing import Array, Float, Int, Number, PyTree, Scalar, Tree, Vector
from geodyn._locomotion.motion.costs import Costly
from geodyn._locomotion.strokes.stroke import Stroke, floating


class OptimalDesign(AbstractOutcome):
    """A body and its stroke that are best together; the result of `gd.design.optimal_design`.

    Args:
        parameters: the best parameters of the body, in the form in which they were given.
        optimum: OptimalStroke of the best body, with the certificate of the stroke alone.
        efficiency: as by `gd.efficiency` (with the drag 1 for other swimmers than links).
        kkt_residual: of stroke and parameters together, bounds included; zero at an exact optimum.
        bound_multipliers: multipliers [b] of the lower, then the upper bounds of the parameters; zero where a bound is
            not felt, empty where there are none.
        result: how the search ended, a member of `gd.RESULTS`.

    Example:
        The energy is proportional to the drag, so that the best drag is the least that is allowed.

        >>> def body(drag):
        ...     return gd.swimmers.SymmetricPurcell(drag=drag)
        >>> settings = gd.Direct(harmonics=3, steps=12)
        >>> best = gd.design.optimal_design(
        ...     body, 1.0, [1.0, 1.0], displacement=0.05, bounds=(0.5, 2.0), method=settings
        ... )
        >>> print(f"drag {best.parameters:.6f}", bool(best.kkt_residual < 1e-9), bool(best.bound_multipliers[0] > 0))
        drag 0.500000 True True
    """

    parameters: PyTree
    optimum: OptimalStroke
    efficiency: Scalar
    kkt_residual: Scalar
    bound_multipliers: Float[Array, " b"]
    result: Int[Array, ""]


class DesignProblem(eqx.Module):
    """The problem of least energy at a displacement or, if the displacement is free, of best efficiency, as (f, c, h)
    for `minimise`.

    The unknowns are those of the stroke, the parameters of the body, and the displacement relative to the initial one,
    which is None if the displacement is not free.
    """

    varied: VariedProblem
    bounds: tuple[Float[Array, " b"], Float[Array, " b"]]

    def __call__(self, x: PyTree) -> tuple[Scalar, Float[Array, " p"], Float[Array, " q"]]:
        stroke, (parameters, size) = x
        energy, g = self.varied.outcome(stroke, (parameters, size))
        here, (lower, upper) = self.varied.at((parameters, size)), self.bounds
        values = ravel_pytree(parameters)[0] if lower.size else lower
        gaps = jnp.concatenate([values - lower, upper - values]) / jnp.tile(upper - lower, 2)
        drag = towing_drag(here.swimmer) / towing_drag(self.varied.problem.swimmer)
        worth = 1.0 if size is None else drag * size**2
        return energy / (worth * here.energy), here.miss(g), gaps


def _body(swimmer: Callable[[PyTree], Costly], parameters: tuple[PyTree, Scalar | None]) -> Costly:
    return swimmer(parameters[0])


def _size(displacement: Float[Array, "..."], parameters: tuple[PyTree, Scalar | None]) -> Float[Array, "..."]:
    return displacement if parameters[1] is None else displacement * parameters[1]


def _checked_bounds(
    parameters: PyTree, bounds: tuple[PyTree, PyTree] | None
) -> tuple[Float[Array, " b"], Float[Array, " b"]]:
    """The lower and upper bounds of the parameters as flat arrays; empty arrays if `bounds` is None."""
    values = ravel_pytree(parameters)[0]
    if values.size == 0:
        raise ValueError("optimal_design: parameters must hold at least one number, where the search begins.")
    if bounds is None:
        return jnp.zeros(0), jnp.zeros(0)
    lower, upper = (ravel_pytree(jax.tree.map(lambda x: floating(x, "bounds"), b))[0] for b in bounds)
    if lower.shape != values.shape or upper.shape != values.shape:
        raise ValueError(
            f"optimal_design: bounds must be (lower, upper), each like the parameters, of {values.size} numbers, got"
            f" {lower.size} and {upper.size}."
        )
    if known((lower, values, upper)) and not np.all((lower < values) & (values < upper)):
        raise ValueError(f"optimal_design: the parameters {values} must lie between their bounds {lower} and {upper}.")
    return lower, upper


@jax.custom_jvp
def _refuse_derivatives(x: Array) -> Array:
    return x


@_refuse_derivatives.defjvp
def _(primals: tuple[Any, ...], tangents: tuple[Any, ...]):
    raise ValueError(
        "optimal_design cannot be differentiated: gd.design.sensitivity gives the derivatives of the least energy with "
        "respect to every number of the body, and gd.optimal_stroke has derivatives for a given body"
    )


@checked
def optimal_design(
    swimmer: Callable[[PyTree], Costly],
    parameters: Tree,
    guess: Stroke | Vector | None = None,
    *,
    displacement: Number | Vector,
    free: bool = False,
    bounds: tuple[PyTree, PyTree] | None = None,
    method: Direct = Direct(),  # noqa: B008
    progress: bool = False,
    throw: bool = True,
) -> OptimalDesign:
    """The parameters of a body and its stroke that together cost the least energy for a displacement, or do so best.

    With `free` the displacement, a length, is free as well and begins at `displacement`, and the efficiency is
    maximised; directions that change nothing, such as the size of the whole body, are left alone. The search begins at
    the best stroke of the first body by `gd.optimal_stroke`, by which the optimum is certified in the end as well. Any
    consistent units.

    Args:
        swimmer: function parameters -> swimmer.
        parameters: any pytree of numbers, where the search begins.
        guess: stroke or shape [m] to begin at, as for `gd.optimal_stroke`.
        displacement: length, or exponential coordinates [k] of the holonomy.
        free: whether the displacement is free, for the best efficiency.
        bounds: (lower, upper), two pytrees like the parameters; they must lie between.
        method: `gd.Direct` with its settings.
        progress: whether to print the iterations.
        throw: whether to raise an error if the search does not converge.

    Returns:
        OptimalDesign.

    Raises:
        ValueError: for bad arguments, and where a derivative is taken: there is `gd.design.sensitivity`.
        RuntimeError: if `throw` and the search does not converge. Inside jit and vmap nothing can be raised: the
            efficiency of a search that failed is NaN, with the default `throw` the parameters and the optimum too, and
            `result` says why.

    Example:
        At the best length of the arms the energy does not change with it to first order.

        >>> def body(arm):
        ...     return gd.swimmers.SymmetricPurcell(arm=arm)
        >>> settings = gd.Direct(harmonics=4, steps=16)
        >>> best = gd.design.optimal_design(body, 1.0, [1.0, 1.0], displacement=0.05, method=settings)
        >>> slope = gd.design.sensitivity(best.optimum).arm
        >>> print(f"arm {best.parameters:.4f}, slope of the energy below 1e-5: {abs(slope) < 1e-5}")
        arm 0.4329, slope of the energy below 1e-5: True
    """
    parameters = jax.tree.map(lambda x: _refuse_derivatives(floating(x, "parameters")), parameters)
    limits, body = _checked_bounds(parameters, bounds), jax.tree.map(_refuse_derivatives, as_pytree(swimmer))
    displacement = _refuse_derivatives(floating(displacement, "displacement"))
    if free and displacement.ndim:
        raise ValueError(
            f"optimal_design: with free=True displacement must be a length to begin with, got {displacement}."
        )
    first = optimal_stroke(body(parameters), guess, displacement=displacement, method=method)
    steps = steps_of(method, first.stroke)
    none = (jnp.zeros(0), jnp.zeros(0))
    problem = StrokeProblem(first.swimmer, displacement, first.cost, None, none, (), steps)
    partial = jax.tree_util.Partial
    varied = VariedProblem(problem, partial(_body, body), partial(_size, problem.displacement))
    tolerance = 1e5 * float(jnp.finfo(first.cost.dtype).eps) if method.tolerance is None else method.tolerance
    begin = (first.stroke, (parameters, floating(1.0) if free else None))
    joint = DesignProblem(varied, limits)
    found = minimise(joint, begin, tolerance=tolerance, max_iterations=int(method.max_iterations), progress=progress)
    if throw and known(found.result) and not found.successful:
        raise RuntimeError(
            f"optimal_design: {RESULTS(int(found.result)).message} (KKT residual {float(found.kkt_residual):.1e} after"
            f" {int(found.iterations)} iterations); begin nearer to the optimum, bound the parameters, or pass"
            " throw=False to see what was found."
        )
    good, (stroke, there) = found.successful, found.x
    if throw and not known(good):
        there = nan_unless(good, there, ())
    target = varied.displacement(there)
    optimum = optimal_stroke(body(there[0]), stroke, displacement=target, method=method, throw=throw)
    drag = towing_drag(optimum.swimmer)
    best = efficiency(optimum.swimmer, optimum.stroke, drag=drag, steps=2 * steps)
    multipliers = found.bound_multipliers
    if not known(good):
        best, multipliers = nan_unless(good, (best, multipliers), ())
    return OptimalDesign(there[0], optimum, best, found.kkt_residual, multipliers, found.result)
