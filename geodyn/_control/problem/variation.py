"""PURPOSE: the first and second variations of the cost and the holonomy of a stroke, in closed form.

A holonomy is a product of steps, `G = g₁ … g_S`. With `g_i → exp(ψ_i) g_i` and `ζ_i = Ad_{g₁…g_{i−1}} ψ_i` it becomes
`exp(Φ) G`, `Φ = Σ_i ζ_i + ½ Σ_{j<i} [ζ_j, ζ_i] + …` (Baker, Campbell, Hausdorff). So the second variation is the sum of
terms that are local to nodes and steps, and of the area that ζ encloses in the Lie algebra. Autodiff is needed only for
functions of few numbers, evaluated at many points; no tangents are propagated along the stroke.

Letters of the shapes: Q nodes, three in a step; m shape variables, and s = 2 m numbers of a state (r, r'), 3 m of
(r, r', r'') where the cost takes accelerations; k dimensions of the group, and d = 1 + k with the cost; n unknowns;
v numbers in f, c and h together, as many as there are weights.
"""

from collections.abc import Callable
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from geodyn._control.problem.minimise import null_space
from geodyn._control.problem.pointwise import jet
from geodyn._control.problem.problem import StrokeProblem, means_of_pieces, power_mean
from geodyn._engine.jit import for_one_run
from geodyn._engine.native import native_of, native_rows
from geodyn._engine.numerics.roots import without_derivatives
from geodyn._foundations.typing import Array, Float, Int, PyTree, Scalar
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._locomotion.connections.connection import reduction
from geodyn._locomotion.connections.force_balance import metric_of
from geodyn._locomotion.motion.holonomy import gauss_times, increment, mean, step_ends


class AtNodes(NamedTuple):
    """The density of the cost, by default the power, the body velocity, and the unbalanced forces at every node; their
    derivatives by the state (r, r', …); and `bend`, which makes the weighted second derivatives [Q, s, s] from weights
    [Q, d]."""

    values: Float[Array, "Q d"]
    slopes: Float[Array, "Q d s"]
    bend: Callable[[Float[Array, "Q d"]], Float[Array, "Q s s"]]


class OfPoses(NamedTuple):
    """The error `miss` of the holonomy and the gaps to obstacles, with their jacobians by the unknowns; the adjoint
    variables `prices`, which are the derivatives of `weights @ (miss, gaps)` by the body velocities ξ at the nodes; and
    the Hessian of `weights @ (miss, gaps)` without the terms with second derivatives of ξ."""

    miss: Float[Array, " p"]
    dmiss: Float[Array, "p n"]
    gaps: Float[Array, " q"]
    dgaps: Float[Array, "q n"]
    prices: Float[Array, "Q k"]
    hessian: Float[Array, "n n"]


class Way(NamedTuple):
    """The way through the group: the exponents of its S steps, the adjoint matrices of the poses before them, the poses
    after them, and the last of these."""

    exponents: Float[Array, "S k"]
    adjoints: Float[Array, "S k k"]
    ends: Float[Array, "S e e"]
    end: Float[Array, "e e"]


class OfSteps(NamedTuple):
    """What is local to each step: the derivatives of ψ by its exponent, and of the exponent by the velocities at its
    nodes, with the weighted second ones; and the adjoint variables of these velocities."""

    dpsi: Float[Array, "S k k"]
    ddpsi: Float[Array, "S k k"]
    dexponents: Float[Array, "S k u"]
    ddexponents: Float[Array, "S u u"]
    prices: Float[Array, "S u"]


class Clearance(NamedTuple):
    """The gaps to obstacles at the ends of the steps; their derivatives by the change (Φ, δr) of the pose exp(Φ) g and
    of the shape, and the weighted second ones; the changes `dshapes` of the shapes there by the unknowns."""

    gaps: Float[Array, "S o"]
    slopes: Float[Array, "S o c"]
    bend: Float[Array, "S c c"]
    dshapes: Float[Array, "S m n"]
    weights: Float[Array, "S o"]


def variations(
    problem: StrokeProblem, x: PyTree, weights: Float[Array, " v"]
) -> tuple[Float[Array, " v"], Float[Array, "v n"], Float[Array, "n n"]]:
    """The values (f, c, h) of a problem at x, their jacobian with respect to the numbers in x, and the Hessian of
    `weights @ (f, c, h)`: the `Derivatives` that `minimise` takes."""
    # Gaps are affine in the states and `late` is linear in the coefficients, so that they do not add to the Hessian.
    states, basis = _states(problem, x)
    late, dlate = _late(problem, x)
    gaps, dgaps = _bounds(problem, states, basis)

    # At each node the power, the body velocity and the unbalanced forces, and their changes by the unknowns.
    nodes = _at_nodes(problem, states)
    change = _pull(nodes.slopes, basis)
    k = problem.swimmer.group.dim
    powers = nodes.values[:, 0]
    dpowers = change[:, 0]
    xi = nodes.values[:, 1 : 1 + k]
    dxi = change[:, 1 : 1 + k]
    unbalanced = nodes.values[:, 1 + k :]
    dunbalanced = change[:, 1 + k :]

    # The derivatives of the cost, in units of the energy of the problem, by the powers.
    shares = jax.grad(lambda powers: problem.total(x, powers))(powers) / problem.energy
    modes = problem.modes(x)
    balance = jnp.ravel(modes @ unbalanced)
    dbalance = jnp.tensordot(modes, dunbalanced, 1).reshape(balance.size, basis.shape[2])
    # The weights are those of (cost, miss, late, balance, gaps, gaps to obstacles), in this order.
    between = late.size + balance.size + gaps.size
    poses = _of_poses(problem, x, xi, dxi, weights, between)
    before = 1 + poses.miss.size + late.size
    of_balance = weights[before : before + balance.size].reshape(modes.shape[0], unbalanced.shape[1])
    prices = [weights[0] * shares[:, None], poses.prices, modes.T @ of_balance]
    bent = nodes.bend(jnp.concatenate(prices, axis=1))

    cost = (shares @ powers)[None]
    dcost = (shares @ dpowers)[None]
    values = jnp.concatenate([cost, poses.miss, late, balance, gaps, poses.gaps])
    jacobian = jnp.concatenate([dcost, poses.dmiss, dlate, dbalance, dgaps, poses.dgaps])
    hessian = _sum_of_products(basis, _pull(bent, basis)) + poses.hessian
    if problem.degree is not None:
        hessian += weights[0] * _bend_of_pace(problem, x, powers, dpowers)
    return values, jacobian, hessian


def _bend_of_pace(
    problem: StrokeProblem, x: PyTree, powers: Float[Array, " Q"], dpowers: Float[Array, "Q n"]
) -> Float[Array, "n n"]:
    """What the Hessian has besides because the cost is not linear in those of the pieces, whose times change too."""
    costs = means_of_pieces(x, powers)
    dcosts = jax.vmap(lambda column: means_of_pieces(x, column), in_axes=1, out_axes=1)(dpowers)
    second = jax.hessian(power_mean)(costs, cast(Scalar, problem.degree))
    return dcosts.T @ second @ dcosts / problem.energy


def _late(problem: StrokeProblem, x: PyTree) -> tuple[Float[Array, " l"], Float[Array, "l n"]]:
    """What the unknowns have to fulfil besides, and its jacobian."""
    flat, unravel = ravel_pytree(x)

    def late_at(flat: Float[Array, " n"]) -> Float[Array, " l"]:
        return problem.late(unravel(flat))

    return late_at(flat), jax.jacfwd(late_at)(flat)


def _bounds(
    problem: StrokeProblem, states: Float[Array, "Q s"], basis: Float[Array, "Q s n"]
) -> tuple[Float[Array, " b"], Float[Array, "b n"]]:
    """The gaps between the states at all nodes and the bounds, and their jacobian by the unknowns."""

    def at(state: Float[Array, " s"]) -> tuple[Float[Array, " a"], Float[Array, "a s"]]:
        return problem.gaps(state), jax.jacfwd(problem.gaps)(state)

    gaps, by_state = jax.vmap(at)(states)
    dgaps = _pull(by_state, basis)
    return gaps.ravel(), dgaps.reshape(gaps.size, basis.shape[2])


@for_one_run
def second_variation(
    problem: StrokeProblem, x: PyTree, hessian: Float[Array, "n n"], jacobian: Float[Array, "p n"]
) -> tuple[Scalar, Int[Array, ""]]:
    """The smallest eigenvalue of the second variation of the energy at fixed displacement, without flat directions, and
    the number of flat directions. These are symmetries, such as a shift of time.

    `hessian` is that of the Lagrangian, and `jacobian` that of the constraints. The eigenvalues are relative to the
    metric `∫ (δr'ᵀ G δr' + 4π² δrᵀ G δr) dt`, so that they have no units and do not depend on the basis; most are near
    1.
    """
    problem, x, hessian, jacobian = without_derivatives((problem, x, hessian, jacobian))
    tangent, null = _tangent_basis(problem, x, jacobian)
    eigenvalues: Float[Array, " e"] = problem.energy / 2 * jnp.linalg.eigvalsh(tangent @ hessian @ tangent.T)
    # Far below the eigenvalues near 1, and far above what a search that has converged leaves of that of a symmetry.
    rounding = 100 * jnp.sqrt(jnp.finfo(eigenvalues.dtype).eps)
    is_curved = ~(jnp.abs(eigenvalues) <= rounding)  # What is NaN is no flat direction.
    smallest = jnp.min(jnp.where(is_curved, eigenvalues, jnp.inf))
    # Rows of zeros fill up the basis of the null space, and look like flat directions.
    padding = jnp.sum(jnp.all(null == 0, axis=1))
    return smallest, jnp.sum(~is_curved) - padding


def lowest_direction(
    problem: StrokeProblem, x: PyTree, hessian: Float[Array, "n n"], jacobian: Float[Array, "p n"]
) -> Float[Array, " n"]:
    """The change of the unknowns to which the smallest eigenvalue of the second variation belongs, of size 1 in the
    metric of `second_variation`: from a saddle the energy falls that way, and against it."""
    problem, x, hessian, jacobian = without_derivatives((problem, x, hessian, jacobian))
    tangent, _ = _tangent_basis(problem, x, jacobian)
    _, vectors = jnp.linalg.eigh(tangent @ hessian @ tangent.T)
    lowest = vectors[:, 0]  # The eigenvalues ascend.
    return lowest @ tangent


def _tangent_basis(
    problem: StrokeProblem, x: PyTree, jacobian: Float[Array, "p n"]
) -> tuple[Float[Array, "n n"], Float[Array, "n n"]]:
    """(orthonormal changes of the unknowns at fixed displacement, as rows; their coordinates in an orthonormal basis of
    all changes). Rows of zeros fill both up."""
    # The rows of `unit` are an orthonormal basis in the metric.
    unit = jnp.linalg.inv(jnp.linalg.cholesky(sobolev_metric(problem, x)))
    null = null_space(jacobian @ unit.T)[1].T
    return null @ unit, null


def sobolev_metric(problem: StrokeProblem, x: PyTree) -> Float[Array, "n n"]:
    """The metric `∫ (δr'ᵀ G δr' + 4π² δrᵀ G δr) dt` of the unknowns x."""
    states, basis = _states(problem, x)
    m = states.shape[1] // (1 + problem.taken)
    metric = native_rows(lambda r: reduction(metric_of(problem.swimmer), r)[1], states[:, :m])
    # The weights of the nodes in a mean, which is linear: its slope is the same everywhere.
    node_weights = jax.grad(mean)(states[:, 0])[:, None, None]

    def product(part: Float[Array, "Q m n"]) -> Float[Array, "n n"]:
        """The integral of δᵀ G δ, for δ = r or r' as functions of the unknowns."""
        return _sum_of_products(node_weights * part, _pull(metric, part))

    return product(basis[:, m : 2 * m]) + 4 * jnp.pi**2 * product(basis[:, :m])


def _states(problem: StrokeProblem, x: PyTree) -> tuple[Float[Array, "Q s"], Float[Array, "Q s n"]]:
    """The states (r, r', …) at the nodes, and their jacobian, which does not depend on x."""
    flat, unravel = ravel_pytree(x)

    def states(flat: Float[Array, " n"]) -> Float[Array, "Q s"]:
        stroke = problem.stroke(unravel(flat))
        return jax.vmap(lambda t: problem.state(stroke, t))(gauss_times(problem.steps))

    return states(flat), jax.jacfwd(states)(flat)


def _at_nodes(problem: StrokeProblem, states: Float[Array, "Q s"]) -> AtNodes:
    """What the stroke does and costs at each state (r, r', …)."""
    if problem.is_quadratic:
        return _with_power(problem, states)
    k = problem.swimmer.group.dim

    def with_signs(x: Float[Array, "Q d ..."]) -> Float[Array, "Q d ..."]:
        """With the sign of ξ reversed, the rows 1 to k: `local` gives −ξ."""
        row = np.arange(x.shape[1])
        signs = jnp.asarray(np.where((row >= 1) & (row <= k), -1.0, 1.0), x.dtype)
        ones = [1] * (x.ndim - 2)
        return x * signs.reshape(-1, *ones)[None]

    local = native_rows(jet(problem.local, 2), states)
    values, slopes, second = map(with_signs, local)

    def bend(weights: Float[Array, "Q d"]) -> Float[Array, "Q s s"]:
        return jnp.sum(weights[:, :, None, None] * second, axis=1)

    return AtNodes(values, slopes, bend)


def _with_power(problem: StrokeProblem, states: Float[Array, "Q s"]) -> AtNodes:
    """The power u·G(r)u and the body velocity −A(r)u at each state (r, u). Only A and G need autodiff, at r alone."""
    k = problem.swimmer.group.dim
    r, u = jnp.split(states, 2, axis=1)
    # (A, G) one above the other, [Q, k + m, m], with their first and second derivatives by r behind.
    forms, slope, second = native_rows(jet(problem.local, 2), r)
    forces = _pull(forms, u[:, :, None])[..., 0]  # (A u, G u)
    forces_by_r = jnp.sum(slope * u[:, None, :, None], axis=2)

    def along(rows: Float[Array, "Q m j"]) -> Float[Array, "Q 1 j"]:
        """Σ u_i rows_i."""
        return jnp.sum(u[:, :, None] * rows, axis=1, keepdims=True)

    power = along(forces[:, k:, None])[..., 0]
    values = jnp.concatenate([power, -forces[:, :k]], axis=1)
    by_r = jnp.concatenate([along(forces_by_r[:, k:]), -forces_by_r[:, :k]], axis=1)
    by_u = jnp.concatenate([2 * along(forms[:, k:]), -forms[:, :k]], axis=1)
    slopes = jnp.concatenate([by_r, by_u], axis=2)

    def bend(weights: Float[Array, "Q d"]) -> Float[Array, "Q s s"]:
        """The second derivatives of w₀ u·G(r)u − w·A(r)u, in blocks of r and u."""
        power = weights[:, :1] * u
        prices = -weights[:, 1:]
        second_along = jnp.sum(second * u[:, None, :, None, None], axis=2)
        of_rr = jnp.concatenate([prices, power], axis=1)
        rr = jnp.sum(of_rr[:, :, None, None] * second_along, axis=1)
        # The power is quadratic in u, which gives its slope the factor 2; the velocity is linear.
        of_ur = jnp.concatenate([prices, 2 * power], axis=1)
        ur = jnp.sum(of_ur[:, :, None, None] * slope, axis=1)
        uu = 2 * weights[:, :1, None] * forms[:, k:]
        ru = jnp.swapaxes(ur, 1, 2)
        upper = jnp.concatenate([rr, ru], axis=2)
        lower = jnp.concatenate([ur, uu], axis=2)
        return jnp.concatenate([upper, lower], axis=1)

    return AtNodes(values, slopes, bend)


def _of_poses(
    problem: StrokeProblem,
    x: PyTree,
    xi: Float[Array, "Q k"],
    dxi: Float[Array, "Q k n"],
    weights: Float[Array, " v"],
    between: int,
) -> OfPoses:
    """What depends on the poses to which the body velocities ξ at the nodes lead, whose derivatives by the unknowns are
    dξ. The weights are those of f, of miss, of `between` others, and of the gaps to obstacles."""
    group = problem.swimmer.group
    steps = problem.steps
    k = group.dim
    velocities = xi.reshape(steps, 3 * k)
    dvelocities = dxi.reshape(steps, 3 * k, dxi.shape[-1])
    way = _way(group, velocities)

    missing = jax.eval_shape(problem.miss, way.end).size
    of_miss = weights[1 : 1 + missing]
    clear = None if problem.obstacles is None else _clearance(problem, x, way.ends, weights[1 + missing + between :])
    miss, slope, second = native_of(_of_miss, problem, way.end, of_miss)
    # What a change of Φ, of the end of the stroke, costs; and so a change of ζ of each step.
    charges = _charges(of_miss @ slope, clear, steps)
    local = _of_steps(group, way, velocities, charges)
    prices = local.prices.reshape(-1, k)

    # The changes of the exponents and of ζ with the unknowns.
    change = _pull(local.dexponents, dvelocities)
    zeta = _pull(way.adjoints, _pull(local.dpsi, change))
    moved = jnp.cumsum(zeta, axis=0)  # Φ after each step, to first order
    phi = moved[-1]
    half = _half_area(group, charges, zeta, moved)
    hessian = half + half.T + phi.T @ second @ phi
    # What is local to a step: ψ is no linear function of its exponent, nor the exponent of the velocities.
    bent_exponents = _sum_of_products(change, _pull(local.ddpsi, change))
    bent_velocities = _sum_of_products(dvelocities, _pull(local.ddexponents, dvelocities))
    hessian += bent_exponents + bent_velocities

    if clear is None:
        none = jnp.zeros((0, phi.shape[1]), xi.dtype)
        return OfPoses(miss, slope @ phi, none[:, 0], none, prices, hessian)
    past = jnp.concatenate([moved, clear.dshapes], axis=1)
    hessian += _sum_of_products(past, _pull(clear.bend, past))
    dgaps = _pull(clear.slopes, past).reshape(clear.gaps.size, phi.shape[1])
    return OfPoses(miss, slope @ phi, clear.gaps.ravel(), dgaps, prices, hessian)


def _of_miss(
    problem: StrokeProblem, end: Float[Array, "e e"], weights: Float[Array, " p"]
) -> tuple[Float[Array, " p"], Float[Array, "p k"], Float[Array, "k k"]]:
    """The error of the holonomy exp(Φ) G, its jacobian by Φ, and the weighted second derivatives, at Φ = 0."""
    group = problem.swimmer.group

    def miss_at(phi: Float[Array, " k"]) -> Float[Array, " p"]:
        return problem.miss(group.compose(group.exp(phi), end))

    return _with_derivatives(miss_at, jnp.zeros(group.dim, end.dtype), weights)


def _exponent(group: AbstractLieGroup, steps: int, xi: Float[Array, " u"]) -> Float[Array, " k"]:
    """The exponent of one of so many steps, from the velocities at its three nodes."""
    return increment(group, xi.reshape(3, group.dim), 1 / steps)


def _way(group: AbstractLieGroup, velocities: Float[Array, "S u"]) -> Way:
    """The way from the identity by steps with these velocities."""
    steps = len(velocities)

    def step_of(xi: Float[Array, " u"]) -> tuple[Float[Array, " k"], Float[Array, "e e"]]:
        exponent = _exponent(group, steps, xi)
        return exponent, group.exp(exponent)

    exponents, elements = native_rows(step_of, velocities)

    def follow(g: Float[Array, "e e"], step: Float[Array, "e e"]) -> tuple[Float[Array, "e e"], Float[Array, "e e"]]:
        return group.compose(g, step), g

    start = group.identity().astype(velocities.dtype)
    end, before = jax.lax.scan(follow, start, elements)
    ends = jnp.concatenate([before[1:], end[None]])
    return Way(exponents, native_rows(group.adjoint, before), ends, end)


def _charges(charge: Float[Array, " k"], clear: Clearance | None, steps: int) -> Float[Array, "S k"]:
    """The derivative of `weights @ (miss, gaps)` by ζ of each step: a step moves the end, which costs `charge`, and the
    body past the obstacles at its own end and at those of all later steps."""
    charges = jnp.tile(charge[None], (steps, 1))
    if clear is None:
        return charges
    at_obstacles = jnp.sum(clear.weights[:, :, None] * clear.slopes[:, :, : charge.size], axis=1)
    return charges + jnp.cumsum(at_obstacles[::-1], axis=0)[::-1]


def _of_steps(
    group: AbstractLieGroup, way: Way, velocities: Float[Array, "S u"], charges: Float[Array, "S k"]
) -> OfSteps:
    """The derivatives within each step; the adjoint variables by a reverse sweep: of the step, of its exponent, and of
    the velocities in it."""

    def exponent(xi: Float[Array, " u"]) -> Float[Array, " k"]:
        return _exponent(group, len(velocities), xi)

    of_steps = jnp.sum(charges[:, :, None] * way.adjoints, axis=1)

    def of_exponent(xi: Float[Array, " k"], charge: Float[Array, " k"]) -> tuple[Array, Array]:
        return _of_exponent(group, xi, charge)

    def of_velocities(xi: Float[Array, " u"], charge: Float[Array, " k"]) -> tuple[Array, Array]:
        _, jacobian, hessian = _with_derivatives(exponent, xi, charge)
        return jacobian, hessian

    dpsi, ddpsi = native_rows(of_exponent, way.exponents, of_steps)
    of_exponents = jnp.sum(of_steps[:, :, None] * dpsi, axis=1)
    dexponents, ddexponents = native_rows(of_velocities, velocities, of_exponents)
    prices = jnp.sum(of_exponents[:, :, None] * dexponents, axis=1)
    return OfSteps(dpsi, ddpsi, dexponents, ddexponents, prices)


def _half_area(
    group: AbstractLieGroup, charges: Float[Array, "S k"], zeta: Float[Array, "S k n"], moved: Float[Array, "S k n"]
) -> Float[Array, "n n"]:
    """`½ Σ_{j<i} charge_i · [ζ_j, ζ_i]`, half the area that ζ encloses, where `moved` are the sums of ζ."""
    basis = jnp.eye(group.dim, dtype=charges.dtype)
    brackets: Float[Array, "k k k"] = jax.vmap(lambda a: jax.vmap(lambda b: group.bracket(a, b))(basis))(basis)
    area = jnp.einsum("sc,abc->sab", charges, brackets)
    swept = moved - zeta  # Σ_{j<i} ζ_j
    return _sum_of_products(swept, _pull(area, zeta)) / 2


def _clearance(
    problem: StrokeProblem, x: PyTree, poses: Float[Array, "S e e"], weights: Float[Array, " q"]
) -> Clearance:
    """The gaps to obstacles at the poses after each step."""
    group = problem.swimmer.group
    flat, unravel = ravel_pytree(x)
    times = step_ends(problem.steps)[1:]

    def shapes_of(flat: Float[Array, " n"]) -> Float[Array, "S m"]:
        return jax.vmap(problem.stroke(unravel(flat)))(times)

    shapes = shapes_of(flat)

    def gaps_at(
        g: Float[Array, "e e"], r: Float[Array, " m"], weights: Float[Array, " o"]
    ) -> tuple[Float[Array, " o"], Float[Array, "o c"], Float[Array, "c c"]]:
        def gaps_after(change: Float[Array, " c"]) -> Float[Array, " o"]:
            phi, dr = jnp.split(change, [group.dim])
            return problem.clearance(group.compose(group.exp(phi), g), r + dr)

        return _with_derivatives(gaps_after, jnp.zeros(group.dim + r.size, r.dtype), weights)

    of_steps = weights.reshape(problem.steps, -1)
    gaps, slopes, bend = native_rows(gaps_at, poses, shapes, of_steps)
    return Clearance(gaps, slopes, bend, jax.jacfwd(shapes_of)(flat), of_steps)


def _of_exponent(
    group: AbstractLieGroup, xi: Float[Array, " k"], charge: Float[Array, " k"]
) -> tuple[Float[Array, "k k"], Float[Array, "k k"]]:
    """For exp(ξ + δξ) = exp(ψ) exp(ξ): the first derivative of ψ by δξ, and the second derivative of charge·ψ."""

    def price(xi: Float[Array, " k"]) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
        dexp = group.dexp(xi)
        return charge @ dexp, dexp

    second, first = jax.jacfwd(price, has_aux=True)(xi)
    return first, (second + second.T) / 2


def _with_derivatives(
    function: Callable[[Float[Array, " n"]], Float[Array, " v"]], x: Float[Array, " n"], weights: Float[Array, " v"]
) -> tuple[Float[Array, " v"], Float[Array, "v n"], Float[Array, "n n"]]:
    """Value, jacobian, and Hessian of `weights @ function(x)`: in one sweep, which is a shorter program than three."""

    def twice(x: Float[Array, " n"]) -> tuple[Float[Array, " v"], Float[Array, " v"]]:
        """The value, to be differentiated and as it is."""
        value = function(x)
        return value, value

    def slope(x: Float[Array, " n"]) -> tuple[Float[Array, " n"], tuple[Float[Array, " v"], Float[Array, "v n"]]]:
        jacobian, value = jax.jacfwd(twice, has_aux=True)(x)
        return weights @ jacobian, (value, jacobian)

    hessian, (value, jacobian) = jax.jacfwd(slope, has_aux=True)(x)
    return value, jacobian, hessian


def _pull(rows: Float[Array, "Q i j"], columns: Float[Array, "Q j n"]) -> Float[Array, "Q i n"]:
    """Products of small matrices at many points, written as sums: for matrix products XLA:CPU would copy them."""
    return jnp.sum(rows[:, :, :, None] * columns[:, None], axis=2)


def _sum_of_products(a: Float[Array, "Q i m"], b: Float[Array, "Q i n"]) -> Float[Array, "m n"]:
    """`Σ_q a_qᵀ b_q`."""
    return a.reshape(-1, a.shape[-1]).T @ b.reshape(-1, b.shape[-1])
