"""PURPOSE: the interface of methods for optimal strokes, and the direct method."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp

from geodyn._control.problem.minimise import Minimum, Progress, minimise, size_of_gradient
from geodyn._control.problem.problem import StrokeProblem
from geodyn._control.problem.variation import variations
from geodyn._engine.jit import for_one_run
from geodyn._foundations.gate import checked
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Count, Float, Int, PyTree
from geodyn._locomotion.strokes.stroke import FourierStroke


class AbstractStrokeMethod(eqx.Module):
    """A method that solves a `StrokeProblem`, with the number of `harmonics` of the Fourier series and the number of
    `steps` of the quadrature, at whose nodes bounds are enforced. A stroke with a corner gets twice as many Legendre
    terms and steps."""

    harmonics: eqx.AbstractVar[int]
    steps: eqx.AbstractVar[int]

    @abstractmethod
    def solve(self, problem: StrokeProblem, x: PyTree, progress: Progress) -> Minimum:
        """The solution found from the initial unknowns x."""


def steps_of(method: AbstractStrokeMethod, x: PyTree) -> int:
    """The number of steps of the quadrature for a stroke, or its unknowns, x: that of the method for a Fourier series,
    twice as many for Legendre polynomials.

    A Fourier series is periodic, so that the errors of equal steps nearly cancel over a period. Those along a
    polynomial do not, and it bends fastest near its ends. Along the best strokes of Purcell's swimmer for the
    displacement 0.25 the holonomy errs by 2e-11 with 96 steps if the stroke is a Fourier series; with a base, where it
    is a polynomial, by 5e-9 with 96 steps and 9e-11 with 192.
    """
    return int(method.steps if isinstance(x, FourierStroke) else 2 * method.steps)


@checked
class Direct(AbstractStrokeMethod):
    """Newton's method on the coefficients of the stroke, with bounds by an interior-point method.

    The default of `gd.optimal_stroke` and the only method that knows bounds.

    Args:
        harmonics: number of harmonics of the Fourier series of a closed stroke; a stroke with `base` or `ends` gets
            twice as many Legendre terms.
        steps: number of steps of the quadrature, at whose nodes bounds are kept; twice as many with `base` or `ends`.
        tolerance: of the relative KKT residual; None: 1e5 times the machine epsilon (2e-11 in double precision).
        max_iterations: limit of the iterations.
        corners: number of corners of a closed stroke, between which it is smooth, with together as many coefficients as
            a stroke without corners; None: a smooth stroke, but for what `base` and `ends` ask for. For bodies that
            balance forces, such as `gd.swimmers.PowerLawLinks`, the best stroke often has some. The cost must then be
            of one degree above 1 in the rates.

    Example:
        The isoperimetric problem: the shortest closed curve around the area 1 has the length √(4π), the energy 4π.

        >>> class Planimeter(gd.AbstractConnection):
        ...     group: gd.groups.Translation = gd.groups.Translation(1)
        ...     def form(self, r):
        ...         return jnp.stack([-r[1], r[0]])[None] / 2
        >>> body, settings = gd.bundles.KaluzaKlein(Planimeter()), gd.Direct(harmonics=2, steps=8)
        >>> best = gd.optimal_stroke(body, [0.0, 0.0], displacement=1.0, method=settings)
        >>> print(f"{best.cost:.6f} {4 * np.pi:.6f}")
        12.566371 12.566371

    Source:
        Nocedal & Wright, *Numerical Optimization* (2006), chapters 18 and 19.
    """

    harmonics: Count = eqx.field(static=True, default=16)
    steps: Count = eqx.field(static=True, default=96)
    tolerance: float | None = eqx.field(static=True, default=None)
    max_iterations: Count = eqx.field(static=True, default=200)
    corners: Count | None = eqx.field(static=True, default=None)

    def solve(self, problem: StrokeProblem, x: PyTree, progress: Progress) -> Minimum:
        tolerance = 1e5 * float(jnp.finfo(problem.energy.dtype).eps) if self.tolerance is None else self.tolerance
        return minimise(
            problem,
            x,
            derivatives=variations,
            progress=progress,
            tolerance=tolerance,
            max_iterations=int(self.max_iterations),
        )


@for_one_run
def stationary(
    problem: StrokeProblem, x: PyTree, y: Float[Array, " p"], iterations: Int[Array, ""], result: Int[Array, ""]
) -> Minimum:
    """The `Minimum` at the point x and multipliers y where a method other than `minimise` ended, with the KKT residual,
    Hessian and Jacobian there; for problems without bounds."""
    values, jacobian, hessian = variations(problem, x, jnp.append(1.0, -y))
    df, dc = jacobian[0], jacobian[1:]
    residual = jnp.max(jnp.abs(df - y @ dc)) / size_of_gradient(values[0], df, hessian)
    residual = jnp.maximum(residual, jnp.max(jnp.abs(values[1:])))
    none, zero = jnp.zeros(0, y.dtype), jnp.zeros((), y.dtype)
    result = jnp.where(jnp.isfinite(residual), result, RESULTS.cost_not_finite)
    return Minimum(x, y, none, none, zero, zero, hessian, dc, residual, iterations, result)


def refuse_bounds(name: str, problem: StrokeProblem) -> None:
    """Raise ValueError if the problem has bounds."""
    if problem.bounded:
        raise ValueError(f"optimal_stroke: {name} knows no bounds; leave bounds= and rates= out, or take gd.Direct().")
