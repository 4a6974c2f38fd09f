"""PURPOSE: the first and second variations of the cost and the holonomy of a stroke, in closed form.

A holonomy is a product of steps, `G = g₁ … g_S`. With `g_i → exp(ψ_i) g_i` and `ζ_i = Ad_{g₁…g_{i−1}} ψ_i` it becomes
`exp(Φ) G`, `Φ = Σ_i ζ_i + ½ Σ_{j<i} [ζ_j, ζ_i] + …` (Baker, Campbell, Hausdorff). So the second variation is the sum of
terms that are local to nodes and steps, and of the area that ζ encloses in the Lie algebra. Autodiff is needed only for
functions of few numbers, evaluated at many points; no tangents are propagated along the stroke.
"""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from geodyn._control.problem.minimise import null_space
from geodyn._control.problem.pointwise import jet
from geodyn._control.problem.problem import StrokeProblem, without_derivatives
from geodyn._engine.jit import for_one_run
from geodyn._engine.native import native_rows
from geodyn._foundations.typing import Array, Float
from geodyn._locomotion.connections.connection import reduction
from geodyn._locomotion.motion.costs import is_energy
from geodyn._locomotion.motion.holonomy import gauss_times, increment, mean
from geodyn._locomotion.strokes.stroke import shape_and_rate


def variations(problem: StrokeProblem, x, weights: Float[Array, " w"]):
    """The values (f, c, h) of a problem at x, their jacobian with respect to the numbers in x, and the Hessian of
    `weights @ (f, c, h)`: the `Derivatives` that `minimise` takes."""
    flat, unravel = ravel_pytree(x)

    def bounds_at(state):
        return problem.gaps(state), jax.jacfwd(problem.gaps)(state)

    # Gaps are affine in the states and `late` is linear in the coefficients, so that they do not add to the Hessian.
    states, basis = _states(problem, x)

    def late_at(flat):
        return problem.late(unravel(flat))

    late, dlate = late_at(flat), jax.jacfwd(late_at)(flat)
    gaps, dgaps = jax.vmap(bounds_at)(states)

    told, push, bend = _at_nodes(problem, states)
    change = _pull(push, basis)
    powers, xi = told[:, 0], told[:, 1:]
    shares = jax.grad(mean)(powers) / problem.energy
    missing = weights[1 : weights.size - late.size - gaps.size]
    miss, dmiss, prices, of_holonomy = _of_holonomy(problem, xi, change[:, 1:], missing)
    bent = bend(jnp.concatenate([weights[0] * shares[:, None], prices], axis=1))

    values = jnp.concatenate([(shares @ powers)[None], miss, late, gaps.ravel()])
    rows = (shares @ change[:, 0])[None], dmiss, dlate, _pull(dgaps, basis).reshape(gaps.size, flat.size)
    return values, jnp.concatenate(rows), _sum_of_products(basis, _pull(bent, basis)) + of_holonomy


@for_one_run
def second_variation(problem: StrokeProblem, x, hessian: Float[Array, "n n"], jacobian: Float[Array, "p n"]):
    """The smallest eigenvalue of the second variation of the energy at fixed displacement, without flat directions, and
    the number of flat directions. These are symmetries, such as a shift of time.

    `hessian` is that of the Lagrangian, and `jacobian` that of the constraints. The eigenvalues are relative to the
    metric `∫ (δr'ᵀ G δr' + 4π² δrᵀ G δr) dt`, so that they have no units and do not depend on the basis; most are near
    1.
    """
    problem, x, hessian, jacobian = without_derivatives((problem, x, hessian, jacobian))
    unit = jnp.linalg.inv(jnp.linalg.cholesky(sobolev_metric(problem, x)))
    null = null_space(jacobian @ unit.T)[1].T
    tangent = null @ unit
    values = problem.energy / 2 * jnp.linalg.eigvalsh(tangent @ hessian @ tangent.T)
    curved = ~(jnp.abs(values) <= 100 * jnp.sqrt(jnp.finfo(values.dtype).eps))  # What is NaN is no flat direction.
    return jnp.min(jnp.where(curved, values, jnp.inf)), jnp.sum(~curved) - jnp.sum(jnp.all(null == 0, axis=1))


def sobolev_metric(problem: StrokeProblem, x) -> Float[Array, "n n"]:
    """The metric `∫ (δr'ᵀ G δr' + 4π² δrᵀ G δr) dt` of the unknowns x."""
    states, basis = _states(problem, x)
    m = states.shape[1] // 2
    metric = native_rows(lambda r: reduction(problem.swimmer, r)[1], states[:, :m])
    shares = jax.grad(mean)(states[:, 0])[:, None, None]

    def product(part):
        return _sum_of_products(shares * part, _pull(metric, part))

    return product(basis[:, m:]) + 4 * jnp.pi**2 * product(basis[:, :m])


def _states(problem, x) -> tuple[Float[Array, "Q s"], Float[Array, "Q s n"]]:
    """The states (r, r') at the nodes, and their jacobian, which does not depend on x."""
    flat, unravel = ravel_pytree(x)

    def states(flat):
        def shape_and_rate_at(t):
            return jnp.concatenate(shape_and_rate(problem.stroke(unravel(flat)), t))

        return jax.vmap(shape_and_rate_at)(gauss_times(problem.steps))

    return states(flat), jax.jacfwd(states)(flat)


def _at_nodes(problem, states: Float[Array, "Q s"]):
    """The power and the body velocity at each state (r, r'), [Q, 1 + k]; their derivatives by the state, [Q, 1 + k, s];
    and a function from weights [Q, 1 + k] to the weighted second derivatives [Q, s, s]."""
    k = problem.swimmer.group.dim
    if not is_energy(problem.density):
        signs = jnp.where(jnp.arange(1 + k) == 0, 1.0, -1.0).astype(states.dtype)
        told, push, second = (
            x * signs.reshape(-1, *[1] * (x.ndim - 2))[None] for x in native_rows(jet(problem.local, 2), states)
        )
        return told, push, lambda weights: jnp.sum(weights[:, :, None, None] * second, axis=1)
    r, u = jnp.split(states, 2, axis=1)
    forms, slope, second = native_rows(jet(problem.local, 2), r)  # of (A, G)
    forces, by_r = _pull(forms, u[:, :, None])[..., 0], jnp.sum(slope * u[:, None, :, None], axis=2)

    def along(rows):
        return jnp.sum(u[:, :, None] * rows, axis=1, keepdims=True)

    power, turning = along(forces[:, k:, None])[..., 0], -forces[:, :k]
    by_r, by_u = ([f * along(x[:, k:]), -x[:, :k]] for f, x in ((1, by_r), (2, forms)))
    told = jnp.concatenate([power, turning], axis=1)
    push = jnp.concatenate([jnp.concatenate(by_r, axis=1), jnp.concatenate(by_u, axis=1)], axis=2)

    def bend(weights):
        power, prices = weights[:, :1] * u, -weights[:, 1:]
        twice = jnp.sum(second * u[:, None, :, None, None], axis=2)
        rr = jnp.sum(jnp.concatenate([prices, power], 1)[:, :, None, None] * twice, axis=1)
        ur = jnp.sum(jnp.concatenate([prices, 2 * power], 1)[:, :, None, None] * slope, axis=1)
        uu = 2 * weights[:, :1, None] * forms[:, k:]
        ru = jnp.swapaxes(ur, 1, 2)
        return jnp.concatenate([jnp.concatenate([rr, ru], 2), jnp.concatenate([ur, uu], 2)], axis=1)

    return told, push, bend


def _of_holonomy(problem, xi: Float[Array, "Q k"], dxi: Float[Array, "Q k n"], weights: Float[Array, " p"]):
    """For body velocities ξ at the nodes with derivatives dξ by the unknowns: the error `miss` of their holonomy; its
    jacobian; the adjoint variables `weights @ ∂miss/∂ξ` at the nodes; and the Hessian of `weights @ miss` without the
    terms with second derivatives of ξ."""
    group, steps = problem.swimmer.group, problem.steps
    k, n = group.dim, dxi.shape[-1]

    def advance(xi):
        return increment(group, xi.reshape(3, k), 1 / steps)

    velocities, dxi = xi.reshape(steps, 3 * k), dxi.reshape(steps, 3 * k, n)
    turns = jax.vmap(advance)(velocities)

    def follow(g, step):
        return (group.compose(g, step), g)

    g, before = jax.lax.scan(follow, group.identity().astype(xi.dtype), jax.vmap(group.exp)(turns))
    adjoints = jax.vmap(group.adjoint)(before)

    def of_velocities(xi, charge):
        return _weighted(advance, xi, charge)[1:]

    def of_exponent(xi, charge):
        """For exp(ξ + δξ) = exp(ψ) exp(ξ): the first derivative of ψ by δξ, and the weighted second derivative."""

        def weighted(xi):
            dexp = group.dexp(xi)
            return charge @ dexp, dexp

        second, first = jax.jacfwd(weighted, has_aux=True)(xi)
        return first, (second + second.T) / 2

    # Derivatives by Φ, with the holonomy exp(Φ) G, from those by the coordinates log G: the inverse of dexp.
    end = group.log(g)
    miss, slope, second = _weighted(problem.missing, end, weights)
    unturned = jnp.linalg.inv(group.dexp(end))
    slope = slope @ unturned
    charge = weights @ slope

    # Adjoint variables, by a reverse sweep: of each step, of its exponent, and of the velocities in it.
    charges = jnp.sum(charge[None, :, None] * adjoints, axis=1)
    exponents = jnp.concatenate([turns, end[None]]), jnp.concatenate([charges, charge[None]])
    dpsi, ddpsi = jax.vmap(of_exponent)(*exponents)
    second = unturned.T @ (second - ddpsi[-1]) @ unturned
    dpsi, ddpsi = dpsi[:-1], ddpsi[:-1]
    charges = jnp.sum(charges[:, :, None] * dpsi, axis=1)
    dturn, ddturn = jax.vmap(of_velocities)(velocities, charges)
    prices = jnp.sum(charges[:, :, None] * dturn, axis=1)

    change = _pull(dturn, dxi)
    zeta = _pull(adjoints, _pull(dpsi, change))
    phi, swept = jnp.sum(zeta, axis=0), jnp.cumsum(zeta, axis=0) - zeta
    basis = jnp.eye(k, dtype=xi.dtype)
    area = jax.vmap(lambda a: jax.vmap(lambda b: charge @ group.bracket(a, b))(basis))(basis)
    half = _sum_of_products(swept, jnp.sum(area[None, :, :, None] * zeta[:, None], axis=2)) / 2
    hessian = half + half.T + phi.T @ second @ phi
    hessian += _sum_of_products(change, _pull(ddpsi, change)) + _sum_of_products(dxi, _pull(ddturn, dxi))
    return miss, slope @ phi, prices.reshape(-1, k), hessian


def _weighted(function, x: Float[Array, " n"], weights: Float[Array, " v"]):
    """Value, jacobian, and Hessian of `weights @ function(x)`: in one sweep, which is a shorter program than three."""

    def slope(x):
        jacobian, value = jax.jacfwd(lambda x: (function(x),) * 2, has_aux=True)(x)
        return weights @ jacobian, (value, jacobian)

    hessian, known = jax.jacfwd(slope, has_aux=True)(x)
    return *known, hessian


def _pull(rows: Float[Array, "Q i j"], columns: Float[Array, "Q j n"]) -> Float[Array, "Q i n"]:
    """Products of small matrices at many points, written as sums: for matrix products XLA:CPU would copy them."""
    return jnp.sum(rows[:, :, :, None] * columns[:, None], axis=2)


def _sum_of_products(a: Float[Array, "Q i m"], b: Float[Array, "Q i n"]) -> Float[Array, "m n"]:
    """`Σ_q a_qᵀ b_q`."""
    return a.reshape(-1, a.shape[-1]).T @ b.reshape(-1, b.shape[-1])
