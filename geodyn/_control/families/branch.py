"""PURPOSE: a branch of optimal strokes, followed through folds by pseudo-arclength continuation.

The unknowns are the coefficients of the stroke, the multipliers of the KKT conditions `a ∂E = y ∂c`, and a parameter.
The multipliers are normalised to a² + |y|² = 1. At the largest displacement dE/dD = y/a is infinite and changes sign,
but a just passes through zero there, so that the equations stay regular.
Source: Allgower & Georg, *Introduction to Numerical Continuation Methods* (SIAM 2003), chapters 6 and 10.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from geodyn._control.families.varied import VariedProblem, towing_drag
from geodyn._control.problem.variation import second_variation
from geodyn._engine.jit import for_few_runs, jit
from geodyn._foundations.typing import Array, Bool, Float, Int, PyTree, Scalar
from geodyn._locomotion.strokes.stroke import FourierStroke

_FLAT = 1e-8


class Point(eqx.Module):
    """A point z of the branch with its unit tangent, the `measures` of its stroke, and their `slopes` by arclength.

    `second_order` is as in OptimalStroke; `converged` says whether Newton's method converged.
    """

    z: Float[Array, " _"]
    tangent: Float[Array, " _"]
    measures: dict[str, Array]
    slopes: dict[str, Array]
    kkt_residual: Scalar
    second_order: Scalar
    iterations: Int[Array, ""]
    converged: Bool[Array, ""]


class KKT(eqx.Module):
    """The KKT conditions of an optimal stroke as equations for z = (unknowns with the structure of `like`, (a, y),
    parameter/scale). `drag` is the reference drag of efficiencies; None is that of towing."""

    varied: VariedProblem
    like: PyTree
    scale: Scalar
    drag: Scalar | None = None

    def parts(self, z: Float[Array, " n"]) -> tuple[Any, Float[Array, " w"], Scalar]:
        """Unknowns of the stroke, weights (a, y), and parameter."""
        flat, unravel = ravel_pytree(self.like)
        x, weights, parameter = jnp.split(z, [flat.size, z.size - 1])
        return unravel(x), weights, parameter[0] * self.scale

    @jit
    def beginning(self, x: PyTree, parameter: Scalar) -> Float[Array, " n"]:
        """The point z of an optimal stroke. Its weights are those with which the gradients of all values cancel, the
        multipliers of a net rotation of zero among them."""
        slopes = jax.jacrev(lambda x: self.values(x, parameter))(x)
        gradients = jax.vmap(lambda row: ravel_pytree(row)[0])(slopes)
        # The vector that the gradients take to zero is the singular vector of the least singular value.
        weights = jnp.linalg.svd(gradients, full_matrices=False)[0][:, -1]
        weights = weights * jnp.sign(weights[0])
        return jnp.concatenate([ravel_pytree(x)[0], weights, (parameter / self.scale)[None]])

    def values(self, x: PyTree, parameter: Scalar) -> Float[Array, " w"]:
        """The scaled energy f, and −c, where c is the error of the displacement."""
        energy, g = self.varied.outcome(x, parameter)
        here = self.varied.at(parameter)
        return jnp.append(energy / here.energy, -here.miss(g))

    def residual(self, z: Float[Array, " n"]) -> Float[Array, " e"]:
        """The gradient of `a f − y·c`, the constraints, and the normalisation of (a, y); all zero at a solution."""
        x, weights, parameter = self.parts(z)
        values, pull = jax.vjp(lambda x: self.values(x, parameter), x)
        norm = (weights @ weights - 1)[None] / 2
        gradient = ravel_pytree(pull(weights)[0])[0]
        return jnp.concatenate([gradient, values[1:], norm])

    def second_order(self, z: Float[Array, " n"], jacobian: Float[Array, "e n"]) -> Scalar:
        """The smallest eigenvalue of the second variation, from the jacobian of the residual."""
        x, weights, parameter = self.parts(z)
        n = z.size - 1 - weights.size
        p = weights.size - 1
        hessian = jacobian[:n, :n] / weights[0]
        constraints = jacobian[n : n + p, :n]
        return second_variation(self.varied.at(parameter), x, hessian, constraints)[0]

    def shift(self, z: Float[Array, " n"]) -> Float[Array, " n"]:
        """The direction of a shift of time, a symmetry of the conditions; zero unless x is a FourierStroke."""
        x = self.parts(z)[0]
        if not isinstance(x, FourierStroke):
            return jnp.zeros_like(z)
        k = jnp.arange(1, x.cosine.shape[1] + 1)[None]
        rate = FourierStroke(0 * x.mean, k * x.sine, -k * x.cosine)
        change = ravel_pytree(rate)[0]
        return jnp.concatenate([change, jnp.zeros(z.size - change.size)])

    def essential(self, z: Float[Array, " n"], residual: Float[Array, " e"]) -> Float[Array, " e"]:
        """The residual without its part along a shift of time. With exact integrals this part is zero. But the error of
        the quadrature depends on the phase, and no stroke of a given phase makes it vanish."""
        late = self.shift(z)[:-1]
        return residual - late * (late @ residual) / jnp.maximum(late @ late, jnp.finfo(z.dtype).eps)

    def measures(self, z: Float[Array, " n"]) -> dict[str, Array]:
        """The numbers that a `StrokeFamily` stores for each of its strokes."""
        x, weights, parameter = self.parts(z)
        energy, g = self.varied.outcome(x, parameter)
        here = self.varied.at(parameter)
        xi = here.swimmer.group.log(g)
        drag = towing_drag(here.swimmer) if self.drag is None else self.drag
        prices = here.energy / jnp.linalg.norm(here.displacement) * weights[1:] / weights[0]
        moves = xi[: here.swimmer.group.translations]
        return {
            "parameter": parameter,
            "displacement": here.displacement_of(xi),
            "cost": energy,
            "multiplier": here.of_components(prices[: here.asked_components().size]),
            "efficiency": drag * jnp.sum(moves**2) / energy,
        }


class Newton(NamedTuple):
    """A step of Newton's method on the branch: the point y, the unit vector `along` the branch there, the jacobian
    before the step, the length of the step and the largest residual before it, and the number of steps so far."""

    y: Float[Array, " n"]
    along: Float[Array, " n"]
    jacobian: Float[Array, "e n"]
    step: Scalar
    error: Scalar
    count: Int[Array, ""]


@for_few_runs
def advance(kkt: KKT, z: Float[Array, " n"], tangent: Float[Array, " n"], h: Scalar) -> Point:
    """The point of the branch at distance h from z in the direction of the tangent at z, with the phase of z.

    Newton's method on a consistent system with more equations than unknowns. Each step is the least-squares solution
    of least norm, without singular values below 1e-8 of the largest: those belong to symmetries.
    """
    start = z + h * tangent
    pin = kkt.shift(z)
    eps = jnp.finfo(z.dtype).eps

    def system(y: Float[Array, " n"]) -> Float[Array, " e"]:
        residual = kkt.essential(y, kkt.residual(y))
        return jnp.concatenate([residual, jnp.stack([pin @ (y - z), tangent @ (y - start)])])

    def newton(state: Newton) -> Newton:
        y = state.y
        jacobian, value = jax.jacfwd(lambda y: (system(y),) * 2, has_aux=True)(y)
        # The last equation says how far y is along the branch; the tangent is what changes this one alone.
        onwards = (jnp.arange(value.size) == value.size - 1).astype(value.dtype)
        right = jnp.stack([-value, onwards], axis=1)
        step, along = jnp.linalg.lstsq(jacobian, right, rcond=_FLAT)[0].T
        size = jnp.linalg.norm(step)
        error = jnp.max(jnp.abs(value))
        return Newton(y + step, along / jnp.linalg.norm(along), jacobian, size, error, state.count + 1)

    # Convergence is quadratic: after a step below √eps the next one would be of the order of rounding.
    def rests(state: Newton) -> Bool[Array, ""]:
        return (state.step < jnp.sqrt(eps)) | (state.error < 100 * eps)

    def goes_on(state: Newton) -> Bool[Array, ""]:
        return ~rests(state) & (state.step < 1) & (state.count < 8)

    one = jnp.ones((), z.dtype)
    empty = jnp.zeros((z.size + 1, z.size), z.dtype)
    first = Newton(start, tangent, empty, one / 2, one, jnp.array(0))
    last = jax.lax.while_loop(goes_on, newton, first)
    residual = kkt.residual(last.y)
    measures, slopes = jax.jvp(kkt.measures, (last.y,), (last.along,))
    second_order = kkt.second_order(last.y, last.jacobian)
    solved = jnp.max(jnp.abs(kkt.essential(last.y, residual))) < 1e5 * eps
    return Point(
        z=last.y,
        tangent=last.along,
        measures=measures,
        slopes=slopes,
        kkt_residual=jnp.max(jnp.abs(residual)),
        second_order=second_order,
        iterations=last.count,
        converged=rests(last) & solved,
    )


@for_few_runs
def farthest(kkt: KKT, near: Point) -> Point:
    """The point of largest displacement, a = 0, from a point near it: a step along the tangent, then one onto the
    constraints.

    The displacement is stationary there, so that its error is of fourth order in the distance.
    """
    n = ravel_pytree(kkt.like)[0].size
    a = near.z[n]
    rate = near.tangent[n]
    z = near.z - a / rate * near.tangent

    def constraints(z: Float[Array, " n"]) -> Float[Array, " p"]:
        x, _, parameter = kkt.parts(z)
        return kkt.values(x, parameter)[1:]

    z = z - jnp.linalg.lstsq(jax.jacfwd(constraints)(z), constraints(z))[0]
    measures, slopes = jax.jvp(kkt.measures, (z,), (near.tangent,))
    return Point(
        z=z,
        tangent=near.tangent,
        measures=measures,
        slopes=slopes,
        kkt_residual=jnp.max(jnp.abs(kkt.residual(z))),
        second_order=near.second_order,
        iterations=jnp.array(1),
        converged=jnp.array(True),
    )
