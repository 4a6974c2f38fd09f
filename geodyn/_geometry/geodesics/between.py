"""The geodesic between two points of any metric: the path that makes the energy ∫₀¹ ½ g(x', x') dt stationary.

The path consists of steps of Gauss collocation from one point to the other: the unknowns are the velocities u at the
nodes of polynomials, and the integral is Gauss quadrature (Marsden & West, *Acta Numerica* 10 (2001); Hall & Leok,
*Numer. Math.* 130 (2015)). The energy E(x, y) = ½ dist² is stationary if g u = p(0) + ∫f, with the momenta p = g u and
the forces f = ½ ∂g(u, u).

For short paths a single polynomial is enough, and this equation is solved by fixed-point iteration, which is Newton's
method with the metric held fixed: each iteration reduces the error by a factor of about the curvature times dist²/π².
Other paths are relaxed (`relaxation`). A guess from a neighbouring path would save little: the iteration converges
linearly, and from a start that is right to six digits it takes half to four fifths of its iterations.

Since the steps are symplectic, E is their generating function, dE = p(1) dy − p(0) dx. So a force needs no more than
the path, and log_x y = g⁻¹ p(0). Second derivatives are those of p(0) and p(1), by the implicit-function theorem.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import custom_jvp, jit
from geodyn._engine.native import native_of
from geodyn._engine.numerics.bands import Full
from geodyn._engine.numerics.linalg import small_inverse
from geodyn._engine.tracing import batched_as, once
from geodyn._foundations.typing import Array, Float, Scalar
from geodyn._geometry.geodesics.paths import (
    action,
    chosen,
    cut,
    defect,
    ends,
    energy_at,
    gauss,
    joints,
    mixed,
    pieces_of,
    residual,
    tail,
)
from geodyn._geometry.geodesics.relaxation import COLLAPSED, NODES, Effort, lengths, most_pieces, relaxed, straight
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._integrators.step.iteration import advanced, begun, iterate

MOST_PLAIN = 40


@jit
def energy_between(space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort) -> Scalar:
    """½ dist² of two points, along the geodesic to which the chart's straight segment relaxes; smooth where x = y.

    The path has as many nodes as it takes to resolve E as well as `effort` wants, up to its number of nodes. E is NaN,
    or infinite, if these are not enough, if no path is found, or if it is not a minimum (beyond a conjugate point).
    """
    # The values that the metric closes over become explicit arguments, so that E has derivatives with respect to them.
    # Both ways are one computation, so that E is symmetric to the last bit. It begins at the first of the points in the
    # order of their coordinates.
    first = jnp.sum(jnp.sign(y - x) * jnp.asarray(3.0 ** -np.arange(x.size), x.dtype)) < 0
    x, y = jnp.where(first, y, x), jnp.where(first, x, y)
    return _energy(eqx.filter_closure_convert(space.metric, x), x, y, effort)


def short_path(
    space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"], nodes: int
) -> Float[Array, "{nodes} n"]:
    """The velocities, at `nodes` Gauss nodes of the time from 0 to 1, of the geodesic from x to y; NaN if these nodes
    do not resolve it to rounding."""
    return _short_path(eqx.filter_closure_convert(space.metric, x), x, y, nodes=nodes)


@custom_jvp
def _short_path(metric, x, y, *, nodes):
    u, _, good, _ = _short(metric, x, y, Effort(nodes), nodes)
    return jnp.where(good, u[0], jnp.nan)


@_short_path.def_jvp
def _short_path_jvp(primals, tangents, *, nodes):
    u = _short_path(*primals, nodes=nodes)
    change = eqx.filter_jvp(lambda *point: _residual(*point, u[None]), primals, tangents)[1]
    push = jax.linearize(lambda u: _residual(*primals, u), u[None])[1]
    return u, -jnp.linalg.solve(Full().matrix(push, u[None]), change.reshape(-1)).reshape(u.shape)


def _residual(metric, x, y, u):
    h = _equal(u)
    return residual(x, y, h, u, pieces_of(metric, x, h, u))[0]


def _ends_of(metric, x, u):
    """(E, p(0), p(1)) of the geodesic from x with the velocities u, on pieces of equal length."""
    h = _equal(u)
    return ends(h, pieces_of(metric, x, h, u))


def _equal(u):
    return jnp.full(len(u), 1 / len(u), u.dtype)


def _short(metric, x, y, effort, nodes=NODES):
    """(u of one piece, its ends, whether fixed-point iteration found it and its few nodes resolve it as well as
    `effort` wants, g⁻¹ at both ends). Where the iteration diverged u is the straight segment of the chart."""
    zero, yes = jnp.zeros((), x.dtype), jnp.ones((), bool)
    start = straight(metric, x, y, jnp.zeros((nodes, x.size), x.dtype))[None]
    h = _equal(start)

    def evaluated(u):
        at = pieces_of(metric, x, h, u)
        return residual(x, y, h, u, at)[0], (ends(h, at), tail(at))

    def turn(state):
        s, _ = state
        r, others = evaluated(s.w)
        return advanced(s, s.w - r, zero, MOST_PLAIN), others

    unknown = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(evaluated, start)[1])
    begin = batched_as(start, (begun(start, yes), unknown))
    found, (at_ends, unresolved) = jax.lax.while_loop(lambda state: state[0].going, turn, begin)
    inverses = jax.vmap(lambda x: small_inverse(metric(x)))(jnp.stack([x, y]))
    off = defect(inverses, at_ends)
    resolved = jnp.maximum(unresolved, off**2) <= effort.enough(jnp.finfo(x.dtype).eps)
    u = jnp.where(off < COLLAPSED, found.w, start)
    return u, at_ends, found.converged & resolved, inverses


@custom_jvp
def _energy(metric, x, y, effort):
    return _ends(metric, x, y, effort)[0]


@_energy.def_jvp
def _energy_jvp(primals, tangents):
    (metric, x, y, effort), (dmetric, dx, dy, _) = primals, tangents
    varies = bool(jax.tree.leaves(dmetric))
    u = _path(metric, x, y, effort) if varies else None
    if varies and effort.far:
        found = jnp.all(jnp.isfinite(u))
        u = jnp.where(found, u, y - x)
    energy, begin, end = _ends_of(metric, x, u) if varies else _ends(*primals)
    energy = jnp.where(found, energy, jnp.inf) if varies and effort.far else energy
    rate = sum((p @ d for p, d in ((-begin, dx), (end, dy)) if d is not None), jnp.zeros((), x.dtype))
    if varies:
        rate = rate + eqx.filter_jvp(lambda metric: action(metric, x, _equal(u), u), (metric,), (dmetric,))[1]
    return energy, rate


@custom_jvp
def _ends(metric, x, y, effort):
    """(E, p(0), p(1)) of the geodesic from x to y."""
    return native_of(_found_ends, metric, x, y, effort)


def _found_ends(metric, x, y, effort):
    u, at_ends, good, inverses = _short(metric, x, y, effort)

    # u is in the carry and changes sign, since otherwise XLA would compute what follows from u before the loop, which
    # seldom turns.
    def longer(u, *_):
        return (-u, *relaxed(metric, x, y, u, inverses, effort).ends)

    return once(~good, longer, u, *at_ends)[1:]


@_ends.def_jvp
def _ends_jvp(primals, tangents):
    (metric, x, y, _), (dmetric, dx, dy, _) = primals, tangents
    # The derivatives are a matrix, so that nothing is iterated again for each tangent to which Newton's method applies
    # the derivative of a force.
    change = jnp.concatenate([jnp.zeros_like(at) if d is None else d for at, d in ((x, dx), (y, dy))])
    rate, rates = jnp.zeros((), x.dtype), jnp.zeros_like(change)
    if jax.tree.leaves(dmetric):
        # −p(0) and p(1) are the derivatives of E along the changes `moved`, which lead to other geodesics. These do not
        # depend to first order on the path, so that how it changes with the metric is not needed.
        values, hessian, h, u, moved = _varied(*primals)
        path = x, h, u, moved
        rate, rates = eqx.filter_jvp(lambda metric: _first_variation(metric, *path), (metric,), (dmetric,))[1]
    else:
        values, hessian = _expanded(*primals)
    _, begin, end = values
    begins, stops = jnp.split(hessian @ change + rates, 2)
    return values, (jnp.concatenate([-begin, end]) @ change + rate, -begins, stops)


def _first_variation(metric, x, h, u, moved):
    """The energy of the path from x, and its derivatives [2n] along the changes `moved` of u, which belong to unit
    changes of both ends."""
    energy, (at_start, slope) = jax.value_and_grad(action, (1, 3))(metric, x, h, u)
    return energy, jnp.sum(slope[..., None] * moved, (0, 1, 2)) + jnp.pad(at_start, (0, x.size))


@custom_jvp
def _expanded(metric, x, y, effort):
    """(E, p(0), p(1)) of the geodesic from x to y, and the Hessian [2n, 2n] of E with respect to both points."""
    return _solved(metric, x, y, effort)[:2]


@_expanded.def_jvp
def _expanded_jvp(primals, tangents):
    return eqx.filter_jvp(lambda *point: _at_path(*point, primals[3])[:2], primals[:3], tangents[:3])


@custom_jvp
def _varied(metric, x, y, effort):
    """What `_expanded` returns; the lengths h[k] and velocities u[k, q, n] of the pieces of the geodesic; and the
    derivatives of u [k, q, n, 2n] with respect to both points."""
    return _solved(metric, x, y, effort)


@_varied.def_jvp
def _varied_jvp(primals, tangents):
    return eqx.filter_jvp(lambda *point: _at_path(*point, primals[3]), primals[:3], tangents[:3])


def _at_path(metric, x, y, effort):
    """What `_varied` returns, as a function of `_path`, so that it can be differentiated again."""
    u = _path(metric, x, y, effort)
    h = _equal(u)
    at_ends, hessian, moved = _chained(metric, x, h, u, len(u))
    return at_ends, hessian, h, u, moved


def _solved(metric, x, y, effort):
    """What `_varied` returns."""
    return native_of(_found, metric, x, y, effort)


def _found(metric, x, y, effort):
    u, _, good, inverses = _short(metric, x, y, effort)

    def longer(u, _):
        path = relaxed(metric, x, y, u[:1], inverses, effort)
        return path.u, path.pieces

    room = jnp.zeros((most_pieces(effort.nodes) - 1, *u.shape[1:]), u.dtype)
    u, pieces = once(~good, longer, jnp.concatenate([u, room]), jnp.ones((), int))
    h = lengths(u, pieces)
    found = *_chained(metric, x, h, u, pieces), u
    if effort.far:
        lost = (jnp.inf, 0, 0), 0, 0, 0
        found = jax.tree.map(lambda a, b: jnp.where(jnp.isnan(u[0, 0, 0]), b, a), found, lost)
    at_ends, hessian, moved, u = found
    return at_ends, hessian, h, u, moved


def _expansion(metric, x, u):
    """(E, p(0), p(1)) of a geodesic of one piece, from x with the velocities u[q, n]; the Hessian [2n, 2n] of E with
    respect to both ends; and the derivatives of u [q, n, 2n].

    The energy of a path is a sum over its nodes, whose positions and velocities are linear in (x, u). For the geodesic
    it is stationary among the paths with ∫ u = y − x; the multiplier is p(1)."""
    n, q, (_, a, b, _) = x.size, len(u), gauss(len(u))
    # Position and velocity at each node from x and u, [q, 2, 1 + q].
    linear = np.stack([np.insert(a, 0, 1, axis=1), np.eye(q, 1 + q, 1)], axis=1)
    linear, weighted = (jnp.asarray(m, x.dtype) for m in (linear, b[:, None, None] * linear))

    def slope(point):
        energy, slope = jax.value_and_grad(lambda point: energy_at(metric, *point))(point)
        return slope, (energy, slope)

    points = jnp.stack([x[None] + mixed(a, u), u], axis=1)
    curvatures, (energies, slopes) = jax.vmap(jax.jacfwd(slope, has_aux=True))(points)
    first = jnp.einsum("qAa,qAi->ai", weighted, slopes)
    second = jnp.einsum("qAa,qAiBj->qaiBj", weighted, curvatures)
    second = jnp.einsum("qaiBj,qBb->aibj", second, linear).reshape((1 + q) * n, -1)
    weights, one = jnp.asarray(b, x.dtype), jnp.eye(n, dtype=x.dtype)
    sums = jnp.kron(weights[:, None], one)
    matrix = jnp.block([[second[n:, n:], sums], [sums.T, jnp.zeros_like(one)]])
    given = jnp.block([[-second[n:, :n], jnp.zeros_like(sums)], [-one, one]])
    moved, end = jnp.split(jnp.linalg.solve(matrix, given), [q * n])
    begin = jnp.pad(second[:n, :n], ((0, 0), (0, n))) + second[:n, n:] @ moved + end
    last = jnp.sum(first[1:], axis=0)
    at_ends = jnp.sum(weights * energies), last - first[0], last
    return at_ends, jnp.concatenate([begin, -end]), moved.reshape(q, n, 2 * n)


def _chained(metric, x, h, u, pieces):
    """The `_expansion` of a geodesic of several pieces, with lengths h[k] and velocities u[k, q, n]. Piece by piece it
    is added to what came before: the joint is where the sum of their energies is stationary."""
    n, starts = x.size, joints(x, h, u)[0]
    to_begin, to_end = jnp.split(jnp.eye(2 * n, dtype=x.dtype), 2)

    def add(k, path):
        (energy, begin, _), before, moved = path
        here = jnp.arange(len(u)) == k
        start, length, velocities = (chosen(here, a) for a in (starts, h, u))
        found = _expansion(metric, start, length * velocities)
        (more, first, end), after, own = jax.tree.map(lambda a: a / length, found)
        coupled = jnp.concatenate([before[n:, :n], after[:n, n:]], axis=1)
        joint = jnp.where(k == 0, to_begin, -small_inverse(before[n:, n:] + after[:n, :n]) @ coupled)
        of_before, of_after = jnp.concatenate([to_begin, joint]), jnp.concatenate([joint, to_end])
        hessian = of_before.T @ before @ of_before + of_after.T @ after @ of_after
        moved = jnp.where(here[:, None, None, None], (own @ of_after)[None], moved @ of_before)
        return (energy + more, jnp.where(k == 0, first, begin), end), hessian, moved

    zero = jnp.zeros((), x.dtype), jnp.zeros_like(x), jnp.zeros_like(x)
    nothing = zero, jnp.zeros((2 * n, 2 * n), x.dtype), jnp.zeros((*u.shape, 2 * n), x.dtype)
    return jax.lax.fori_loop(0, pieces, add, batched_as((x, u), nothing))


@custom_jvp
def _path(metric, x, y, effort):
    """The velocities u[k, q, n] of the geodesic from x to y, with the largest number of nodes, on pieces of equal
    length."""
    return native_of(_found_path, metric, x, y, effort)


def _found_path(metric, x, y, effort):
    u, _, good, inverses = _short(metric, x, y, effort)

    def longer(u, _):
        return -u, relaxed(metric, x, y, u, inverses, effort).on_all_pieces

    return once(~good, longer, u, cut(u, most_pieces(effort.nodes)))[1]


@_path.def_jvp
def _path_jvp(primals, tangents):
    u, point = _path(*primals), primals[:3]
    change = eqx.filter_jvp(lambda *point: _residual(*point, u), point, tangents[:3])[1]
    push = jax.linearize(lambda u: _residual(*point, u), u)[1]
    return u, jax.lax.custom_linear_solve(push, -change, _linear_root, _linear_root)


def _linear_root(apply, b):
    """The solution v of apply(v) = b, by fixed-point iteration if that contracts, else with the matrix."""
    form, yes = Full(), jnp.ones((), bool)
    found = iterate(lambda v: apply(v) - b, b, lambda r: r, jnp.zeros((), b.dtype), MOST_PLAIN, yes)

    def exact(v):
        return (form.solved(form.factors(form.matrix(apply, v)), b),)

    return once(~found.converged, exact, found.w)[0]
