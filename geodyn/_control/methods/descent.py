"""PURPOSE: optimal strokes by projected gradient descent: the energy decreases along strokes of equal displacement.

The gradient is projected onto the tangent space of the constraints. These are coordinates of the holonomy, so that any
Lie group is possible. Each step also corrects the violation of the constraints that the step before left. In the
Euclidean metric of the coefficients the descent is stiff; in the metric `∫ (δr'ᵀ G δr' + 4π² δrᵀ G δr) dt` it is not,
for any number of coefficients.
Source: Amari, *Neural Comput.* 10 (1998) 251, for natural gradients; Rosen, *SIAM J. Appl. Math.* 8 (1960) 181, for
projected ones.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from geodyn._control.methods.method import AbstractStrokeMethod, refuse_bounds, stationary
from geodyn._control.problem.minimise import Minimum, Progress, tell
from geodyn._control.problem.problem import StrokeProblem
from geodyn._control.problem.variation import sobolev_metric
from geodyn._engine.jit import for_few_runs
from geodyn._foundations.gate import checked
from geodyn._foundations.progress import compiling
from geodyn._foundations.results import RESULTS
from geodyn._foundations.typing import Array, Bool, Count, Float, Int, Number, PyTree, Scalar

LONGEST = 0.2


@checked
class Descent(AbstractStrokeMethod):
    """Projected gradient descent on the coefficients of the stroke, with steps by an optimiser of `optax`.

    The gradient is projected onto the strokes of the same displacement. With `natural` it is taken in the metric
    `∫ (δr'ᵀ G δr' + 4π² δrᵀ G δr) dt` of the shapes, which does not become stiff with many coefficients;
    otherwise in the plain metric of the coefficients, scaled so that the same rates are stable. It knows no bounds.

    Args:
        harmonics: number of harmonics of the Fourier series; a stroke with `base` or `ends` gets twice as many Legendre
            terms.
        steps: number of steps of the quadrature; twice as many with `base` or `ends`.
        optimiser: `optax` optimiser; default `optax.sgd(0.5)`.
        natural: whether to take the metric of the shapes.
        tolerance: of the relative KKT residual; None: the root of the machine epsilon (1.5e-8 in double precision).
        max_iterations: limit of the iterations.

    Example:
        The isoperimetric problem, from an ellipse of the wrong shape: the best curve around the area 1 has the energy
        4π.

        >>> class Planimeter(gd.AbstractConnection):
        ...     group: gd.groups.Translation = gd.groups.Translation(1)
        ...     def form(self, r):
        ...         return jnp.stack([-r[1], r[0]])[None] / 2
        >>> body, settings = gd.bundles.KaluzaKlein(Planimeter()), gd.Descent(harmonics=2, steps=8)
        >>> start = gd.FourierStroke([0.0, 0.0], [[0.8], [0.0]], [[0.0], [0.4]])
        >>> best = gd.optimal_stroke(body, start, displacement=-1.0, method=settings)
        >>> print(f"{gd.cost(body, start):.2f} at first, then {best.cost:.6f}")
        15.79 at first, then 12.566371

    Source:
        Amari, *Neural Comput.* 10 (1998) 251, for natural gradients; Rosen, *SIAM J. Appl. Math.* 8 (1960) 181, for
        projected ones.
    """

    harmonics: Count = eqx.field(static=True, default=16)
    steps: Count = eqx.field(static=True, default=96)
    optimiser: optax.GradientTransformation = eqx.field(static=True, default=optax.sgd(0.5))
    natural: bool = eqx.field(static=True, default=True)
    tolerance: float | None = eqx.field(static=True, default=None)
    max_iterations: Count = eqx.field(static=True, default=10_000)

    def solve(self, problem: StrokeProblem, x: PyTree, progress: Progress) -> Minimum:
        refuse_bounds("Descent", problem)
        tolerance = float(jnp.finfo(problem.energy.dtype).eps) ** 0.5 if self.tolerance is None else self.tolerance
        state = _start(self.optimiser, problem, x)
        chunk = self.max_iterations // 100 + 1 if progress else self.max_iterations
        try:
            for limit in range(chunk, self.max_iterations + chunk, chunk):
                with compiling(progress is True and limit == chunk):
                    state = _advance(problem, state, tolerance, jnp.array(limit), self.optimiser, self.natural)
                if progress:
                    tell(progress, int(state.iterations), state.residual)
                    if state.residual <= tolerance or not jnp.isfinite(state.residual):
                        break
            otherwise = RESULTS.too_many_iterations
        except KeyboardInterrupt:
            print(f"interrupted after {int(state.iterations)} iterations")
            otherwise = RESULTS.interrupted
        result = jnp.where(state.residual <= tolerance, RESULTS.successful, otherwise)
        return stationary(problem, state.x, state.multipliers, state.iterations, result)


class _State(eqx.Module):
    """The state of the descent: the unknowns x, the memory of the optimiser, and the multipliers and the KKT residual
    of the unknowns before the last step."""

    x: PyTree
    memory: PyTree
    multipliers: Float[Array, " p"]
    residual: Scalar
    iterations: Int[Array, ""]


def _start(optimiser: optax.GradientTransformation, problem: StrokeProblem, x: PyTree) -> _State:
    count = problem.miss(problem.swimmer.group.identity()).size
    flat = ravel_pytree(x)[0]
    return _State(x, optimiser.init(flat), jnp.zeros(count, flat.dtype), jnp.ones((), flat.dtype), jnp.array(0))


@for_few_runs
def _advance(
    problem: StrokeProblem,
    state: _State,
    tolerance: Number,
    limit: Int[Array, ""],
    optimiser: optax.GradientTransformation,
    natural: bool,
) -> _State:
    """Steps until the KKT residual is below the tolerance, or the limit of iterations is reached."""

    def step(state: _State) -> _State:
        flat, unravel = ravel_pytree(state.x)

        def values(flat: Float[Array, " n"]) -> Float[Array, " w"]:
            f, c, _ = problem(unravel(flat))
            return jnp.append(f, c)

        both, pull = jax.vjp(values, flat)
        rows = jax.vmap(lambda w: pull(w)[0])(jnp.eye(both.size, dtype=flat.dtype))
        slope = rows[0]
        jacobian = rows[1:]
        metric = 2 / problem.energy * sobolev_metric(problem, state.x)
        if not natural:
            metric = jnp.linalg.norm(metric, 2) * jnp.eye(flat.size, dtype=flat.dtype)
        factor = jax.scipy.linalg.cho_factor(metric)
        raised = jax.scipy.linalg.cho_solve(factor, rows.T)  # gradients as vectors
        # By symmetry a constraint may hold for all strokes, as for a cat that turns about its spine: pseudo-inverse.
        inverse = jnp.linalg.pinv(jacobian @ raised[:, 1:], hermitian=True)
        y = inverse @ jacobian @ raised[:, 0]
        back = raised[:, 1:] @ inverse @ -both[1:]  # onto the constraints
        projected = raised @ jnp.append(1.0, -y)  # the gradient along them
        downhill, memory = optimiser.update(projected, state.memory, flat)
        residual = jnp.max(jnp.abs(slope - y @ jacobian)) / jnp.max(jnp.abs(slope))
        residual = jnp.maximum(residual, jnp.max(jnp.abs(both[1:])))
        move = downhill + back
        # The constraints are curved: a step is limited to a tenth of the size of the stroke, which is about 2.
        length = jnp.sqrt(move @ metric @ move)
        shortened = move * jnp.minimum(1.0, LONGEST / length)
        there: Array = jnp.where(residual > tolerance, flat + shortened, flat)
        return _State(unravel(there), memory, y, residual, state.iterations + 1)

    def goes_on(state: _State) -> Bool[Array, ""]:
        return (state.residual > tolerance) & (state.iterations < limit)

    return jax.lax.while_loop(goes_on, step, state)
