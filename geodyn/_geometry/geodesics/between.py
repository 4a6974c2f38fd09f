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

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import change_of, custom_jvp, jit
from geodyn._engine.native import native_of
from geodyn._engine.numerics.bands import Full
from geodyn._engine.numerics.linalg import small_inverse
from geodyn._engine.tracing import batched_as, once
from geodyn._foundations.typing import Array, Bool, Float, Int, Scalar
from geodyn._geometry.geodesics.paths import (
    Ends,
    Metric,
    action,
    choose,
    combine,
    cut,
    defect,
    ends,
    energy_at,
    gauss,
    joints,
    pieces_of,
    residual,
    tail,
)
from geodyn._geometry.geodesics.relaxation import COLLAPSED, NODES, Effort, lengths, most_pieces, relax, straight
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._integrators.step.iteration import Progress, first_progress, iterate, next_progress

# So many iterations reach rounding if each reduces the error to 0.4 of what it was, 0.4⁴⁰ = 1e-16. Paths that contract
# less are relaxed, and linear equations solved with their matrix.
MOST_PLAIN = 40


@jit
def energy_between(space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort) -> Scalar:
    """½ dist² of two points, along the geodesic to which the chart's straight segment relaxes; smooth where x = y.

    The path has as many nodes as it takes to resolve E as well as `effort` wants, up to its number of nodes. E is NaN,
    or infinite, if these are not enough, if no path is found, or if it is not a minimum (beyond a conjugate point).
    """
    # From x to y and from y to x the computation is the same, so that E is symmetric to the last bit. It begins at the
    # point that comes first in the lexicographic order of the coordinates: the first coordinate that differs decides
    # the sign of the sum, since 1/3ᵏ is more than all later weights together.
    weights = jnp.asarray(3.0 ** -np.arange(x.size), x.dtype)
    y_is_first = jnp.sum(jnp.sign(y - x) * weights) < 0
    start = jnp.where(y_is_first, y, x)
    end = jnp.where(y_is_first, x, y)
    # The values that the metric closes over become explicit arguments, so that E has derivatives with respect to them.
    metric = eqx.filter_closure_convert(space.metric, start)
    return _energy(metric, start, end, effort)


def short_path(
    space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"], nodes: int
) -> Float[Array, "{nodes} n"]:
    """The velocities, at `nodes` Gauss nodes of the time from 0 to 1, of the geodesic from x to y; NaN if these nodes
    do not resolve it to rounding."""
    return _short_path(eqx.filter_closure_convert(space.metric, x), x, y, nodes=nodes)


@custom_jvp
def _short_path(metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], *, nodes: int) -> Float[Array, "q n"]:
    found = _short(metric, x, y, Effort(nodes), nodes)
    return jnp.where(found.good, found.u[0], jnp.nan)


@_short_path.def_jvp
def _short_path_jvp(
    primals: tuple[Any, ...], tangents: tuple[Any, ...], *, nodes: int
) -> tuple[Float[Array, "q n"], Float[Array, "q n"]]:
    metric, x, y = primals
    dmetric, dx, dy = tangents
    u = _short_path(*primals, nodes=nodes)
    change = jnp.zeros_like(u)
    if dx is not None or dy is not None:
        by_ends = native_of(_derivatives_by_ends, metric, x, y, u)
        change = change + by_ends @ _both_changes(x, dx, dy)
    if jax.tree.leaves(dmetric):
        _, of_metric = change_of(lambda metric: _residual(metric, x, y, u[None]), (metric,), (dmetric,))
        undone = _undo(metric, x, y, u, of_metric.reshape(-1, 1))
        change = change + undone[..., 0]
    return u, change


def _both_changes(
    x: Float[Array, " n"], dx: Float[Array, " n"] | None, dy: Float[Array, " n"] | None
) -> Float[Array, " d"]:
    """The changes of both ends of a path, one after the other; None stands for no change."""
    return jnp.concatenate([jnp.zeros_like(x) if d is None else d for d in (dx, dy)])


def _derivatives_by_ends(
    metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], u: Float[Array, "q n"]
) -> Float[Array, "q n d"]:
    """The derivatives of the velocities u of a geodesic of one piece with respect to both of its ends."""

    def residual_of(both: Float[Array, " d"]) -> Float[Array, " m"]:
        return _residual(metric, *jnp.split(both, 2), u[None]).reshape(-1)

    changes = jax.jacfwd(residual_of)(jnp.concatenate([x, y]))
    return _undo(metric, x, y, u, changes)


def _undo(
    metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], u: Float[Array, "q n"], changes: Float[Array, "m d"]
) -> Float[Array, "q n d"]:
    """The changes of the velocities u of a geodesic of one piece that undo `changes` of the residual."""
    path = u[None]
    _, push = jax.linearize(lambda u: _residual(metric, x, y, u), path)
    undone = -jnp.linalg.solve(Full().matrix(push, path), changes)
    return undone.reshape(*u.shape, changes.shape[1])


def _residual(
    metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], u: Float[Array, "k q n"]
) -> Float[Array, "k q n"]:
    """What the geodesic from x to y makes zero, of a path on pieces of equal length."""
    h = _equal_lengths(u)
    return residual(x, y, h, u, pieces_of(metric, x, h, u))[0]


def _ends_of(metric: Metric, x: Float[Array, " n"], u: Float[Array, "k q n"]) -> Ends:
    """The `Ends` of the geodesic from x with the velocities u, on pieces of equal length."""
    h = _equal_lengths(u)
    return ends(h, pieces_of(metric, x, h, u))


def _equal_lengths(u: Float[Array, "k q n"]) -> Float[Array, " k"]:
    """Equal lengths of the pieces of u."""
    return jnp.full(len(u), 1 / len(u), u.dtype)


class Short(NamedTuple):
    """The velocities u of one piece, its ends, whether fixed-point iteration found it and its few nodes resolve it as
    well as was wanted (`good`), and g⁻¹ at both ends."""

    u: Float[Array, "1 q n"]
    ends: Ends
    good: Bool[Array, ""]
    inverses: Float[Array, "2 n n"]


def _short(metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort, nodes: int = NODES) -> Short:
    """A geodesic of one piece by fixed-point iteration. Where the iteration diverged u is the straight segment of the
    chart. Like `relax` it is a program of its own, which is compiled once for all that begins with it."""
    return native_of(_of_one_piece, metric, x, y, effort, nodes)


def _of_one_piece(metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort, nodes: int) -> Short:
    zero = jnp.zeros((), x.dtype)
    yes = jnp.ones((), bool)
    start = straight(metric, x, y, jnp.zeros((nodes, x.size), x.dtype))[None]
    h = _equal_lengths(start)

    def evaluate(u: Float[Array, "1 q n"]) -> tuple[Float[Array, "1 q n"], tuple[Ends, Scalar]]:
        """The residual; the ends, and the fraction of the energy that is not resolved."""
        at = pieces_of(metric, x, h, u)
        return residual(x, y, h, u, at)[0], (ends(h, at), tail(at))

    def turn(state: tuple[Progress, tuple[Ends, Scalar]]) -> tuple[Progress, tuple[Ends, Scalar]]:
        """One iteration; the ends and the unresolved fraction are those of the iterate before it."""
        s, _ = state
        r, others = evaluate(s.w)
        return next_progress(s, s.w - r, zero, MOST_PLAIN), others

    _, shapes = jax.eval_shape(evaluate, start)
    unknown = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
    begin = batched_as(start, (first_progress(start, yes), unknown))
    found, (at_ends, unresolved) = jax.lax.while_loop(lambda state: state[0].going, turn, begin)
    inverses = jax.vmap(lambda x: small_inverse(metric(x)))(jnp.stack([x, y]))
    off = defect(inverses, at_ends)
    # As in a `Path`: the defect is about the error of the path, and the unresolved fraction about its square.
    resolved = jnp.maximum(unresolved, off**2) <= effort.enough(jnp.finfo(x.dtype).eps)
    u = jnp.where(off < COLLAPSED, found.w, start)
    return Short(u, at_ends, found.converged & resolved, inverses)


@custom_jvp
def _energy(metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort) -> Scalar:
    return _ends(metric, x, y, effort).energy


@_energy.def_jvp
def _energy_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Scalar, Scalar]:
    metric, x, y, effort = primals
    dmetric, dx, dy, _ = tangents
    if not jax.tree.leaves(dmetric):
        energy, begin, end = _ends(*primals)
        return energy, _rate_of_energy(begin, end, dx, dy)
    # Where the metric varies too, the path is needed. It makes the energy stationary: so to first order it may stay as
    # it is.
    u = _path(metric, x, y, effort)
    if effort.far:
        # A path that was not found is NaN. With the straight segment in its place what is put aside below is finite:
        # else its own derivatives would be NaN.
        found = jnp.all(jnp.isfinite(u))
        u = jnp.where(found, u, y - x)
    energy, begin, end = _ends_of(metric, x, u)
    rate = _rate_of_energy(begin, end, dx, dy)
    _, of_metric = change_of(lambda metric: action(metric, x, _equal_lengths(u), u), (metric,), (dmetric,))
    rate = rate + of_metric
    if effort.far:
        energy = jnp.where(found, energy, jnp.inf)
        rate = jnp.where(found, rate, 0)
    return energy, rate


def _rate_of_energy(
    begin: Float[Array, " n"], end: Float[Array, " n"], dx: Float[Array, " n"] | None, dy: Float[Array, " n"] | None
) -> Scalar:
    """The change of the energy of a geodesic as its ends move: its momenta are the derivatives."""
    rate = jnp.zeros((), begin.dtype)
    if dx is not None:
        rate = rate + -begin @ dx
    if dy is not None:
        rate = rate + end @ dy
    return rate


@custom_jvp
def _ends(metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort) -> Ends:
    """The `Ends` of the geodesic from x to y."""
    return native_of(_found_ends, metric, x, y, effort)


def _found_ends(metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort) -> Ends:
    u, at_ends, good, inverses = _short(metric, x, y, effort)

    # XLA computes before a loop what depends only on values that the loop leaves unchanged, though this loop seldom
    # makes a turn. That is why u is among the values of the loop and changes its sign.
    def longer(u: Float[Array, "1 q n"], _: Ends) -> tuple[Float[Array, "1 q n"], Ends]:
        return -u, native_of(relax, metric, x, y, u, inverses, effort).ends

    _, found = once(~good, longer, u, at_ends)
    return found


@_ends.def_jvp
def _ends_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Ends, Ends]:
    metric, x, _, _ = primals
    dmetric, dx, dy, _ = tangents
    # Newton's method applies the derivative of a force to many tangents. It is a product with the Hessian, a matrix, so
    # that the path is not iterated again for each of them.
    change = _both_changes(x, dx, dy)
    rate = jnp.zeros((), x.dtype)
    rates = jnp.zeros_like(change)
    if jax.tree.leaves(dmetric):
        # −p(0) and p(1) are the derivatives of E along the changes `moved` of the path, which lead to neighbouring
        # geodesics. To first order these derivatives do not depend on the path, so that how the path changes with the
        # metric is not needed.
        values, hessian, h, u, moved = _vary(*primals)

        def variation(metric: Metric) -> tuple[Scalar, Float[Array, " d"]]:
            return _first_variation(metric, x, h, u, moved)

        _, (rate, rates) = change_of(variation, (metric,), (dmetric,))
    else:
        values, hessian = _expand(*primals)
    _, begin, end = values
    # The gradient of E is (−p(0), p(1)), and this is its change.
    of_minus_begin, of_end = jnp.split(hessian @ change + rates, 2)
    gradient = jnp.concatenate([-begin, end])
    return values, Ends(gradient @ change + rate, -of_minus_begin, of_end)


def _first_variation(
    metric: Metric,
    x: Float[Array, " n"],
    h: Float[Array, " k"],
    u: Float[Array, "k q n"],
    moved: Float[Array, "k q n d"],
) -> tuple[Scalar, Float[Array, " d"]]:
    """The energy of the path from x, and its derivatives along the changes `moved` of u, which belong to unit
    changes of both ends."""
    energy, (at_start, slope) = jax.value_and_grad(action, (1, 3))(metric, x, h, u)
    along = jnp.sum(slope[..., None] * moved, (0, 1, 2))
    # The path begins at x: so with the first end all of it is shifted as well.
    return energy, along + jnp.pad(at_start, (0, x.size))


@custom_jvp
def _expand(
    metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort
) -> tuple[Ends, Float[Array, "d d"]]:
    """The `Ends` of the geodesic from x to y, and the Hessian of E with respect to both points."""
    return _solve(metric, x, y, effort)[:2]


@_expand.def_jvp
def _expand_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    return eqx.filter_jvp(lambda *point: _at_path(*point, primals[3])[:2], primals[:3], tangents[:3])


class Varied(NamedTuple):
    """A geodesic and how it changes: its ends, the Hessian of E with respect to both points, the lengths h and the
    velocities u of its pieces, and the derivatives of u with respect to both points; d = 2n."""

    ends: Ends
    hessian: Float[Array, "d d"]
    h: Float[Array, " k"]
    u: Float[Array, "k q n"]
    moved: Float[Array, "k q n d"]


@custom_jvp
def _vary(metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort) -> Varied:
    """The geodesic from x to y."""
    return _solve(metric, x, y, effort)


@_vary.def_jvp
def _vary_jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Varied, Any]:
    return eqx.filter_jvp(lambda *point: _at_path(*point, primals[3]), primals[:3], tangents[:3])


def _at_path(metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort) -> Varied:
    """What `_vary` returns, as a function of `_path`, so that it can be differentiated again."""
    u = _path(metric, x, y, effort)
    h = _equal_lengths(u)
    at_ends, hessian, moved = _chain(metric, x, h, u, len(u))
    return Varied(at_ends, hessian, h, u, moved)


def _solve(metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort) -> Varied:
    """What `_vary` returns."""
    return native_of(_search, metric, x, y, effort)


def _search(metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort) -> Varied:
    u, _, good, inverses = _short(metric, x, y, effort)

    def longer(u: Float[Array, "k q n"], _: Int[Array, ""]) -> tuple[Float[Array, "k q n"], Int[Array, ""]]:
        path = native_of(relax, metric, x, y, u[:1], inverses, effort)
        return path.u, path.pieces

    room = jnp.zeros((most_pieces(effort.nodes) - 1, *u.shape[1:]), u.dtype)
    u, pieces = once(~good, longer, jnp.concatenate([u, room]), jnp.ones((), int))
    h = lengths(u, pieces)
    expansion = _chain(metric, x, h, u, pieces)
    if effort.far:
        # Points between which no path is found are infinitely far apart, and remain so when they move.
        is_lost = jnp.isnan(u[0, 0, 0])
        # Each of these numbers stands for a whole array: `where` broadcasts it.
        infinite: Any = jnp.inf
        zero: Any = 0
        lost = Expansion(Ends(infinite, zero, zero), zero, zero), zero
        expansion, u = jax.tree.map(lambda a, b: jnp.where(is_lost, b, a), (expansion, u), lost)
    return Varied(expansion.ends, expansion.hessian, h, u, expansion.moved)


class Expansion(NamedTuple):
    """The ends of a geodesic, the Hessian of its energy with respect to both of its points, and the derivatives of its
    velocities with respect to them; d = 2n."""

    ends: Ends
    hessian: Float[Array, "d d"]
    moved: Float[Array, "*k q n d"]


def _expansion(metric: Metric, x: Float[Array, " n"], u: Float[Array, "q n"]) -> Expansion:
    """The `Expansion` of a geodesic of one piece, from x with the velocities u.

    The energy of a path is a sum over its nodes, whose positions and velocities are linear in (x, u). For the geodesic
    it is stationary among the paths with ∫ u = y − x; the multiplier is p(1)."""
    n = x.size
    q = len(u)
    rule = gauss(q)
    # Position and velocity at each node from x and u, [q, 2, 1 + q]: x + ∫ u, and the node's own u.
    positions = np.insert(rule.matrix, 0, 1, axis=1)
    velocities = np.eye(q, 1 + q, 1)
    of_x_and_u = np.stack([positions, velocities], axis=1)
    linear = jnp.asarray(of_x_and_u, x.dtype)
    weighted = jnp.asarray(rule.weights[:, None, None] * of_x_and_u, x.dtype)

    def slope(point: Float[Array, "2 n"]) -> tuple[Float[Array, "2 n"], tuple[Scalar, Float[Array, "2 n"]]]:
        """The derivative of the energy at a node, to be differentiated; and what needs no more derivatives."""
        energy, slope = jax.value_and_grad(lambda point: energy_at(metric, *point))(point)
        return slope, (energy, slope)

    points = jnp.stack([x[None] + combine(rule.matrix, u), u], axis=1)
    curvatures, (energies, slopes) = jax.vmap(jax.jacfwd(slope, has_aux=True))(points)
    # The first and second derivatives of the energy with respect to (x, u). The indices are q for the node, A and B for
    # position or velocity there, a and b for x or one of the u, and i and j for the coordinate.
    first = jnp.einsum("qAa,qAi->ai", weighted, slopes)
    halfway = jnp.einsum("qAa,qAiBj->qaiBj", weighted, curvatures)
    second = jnp.einsum("qaiBj,qBb->aibj", halfway, linear).reshape((1 + q) * n, -1)
    # The stationary path among those with ∫ u = y − x: linear equations for the changes of u and of the multiplier, the
    # latter with the opposite sign. Each column belongs to a unit change of a coordinate of x or of y.
    weights = jnp.asarray(rule.weights, x.dtype)
    one = jnp.eye(n, dtype=x.dtype)
    sums = jnp.kron(weights[:, None], one)
    matrix = jnp.block([[second[n:, n:], sums], [sums.T, jnp.zeros_like(one)]])
    given = jnp.block([[-second[n:, :n], jnp.zeros_like(sums)], [-one, one]])
    moved, of_minus_p1 = jnp.split(jnp.linalg.solve(matrix, given), [q * n])
    # The gradient of E is (−p(0), p(1)), and the derivative of the energy with respect to x alone is ∫ f = p(1) − p(0).
    of_x_alone = jnp.pad(second[:n, :n], ((0, 0), (0, n)))
    of_minus_p0 = of_x_alone + second[:n, n:] @ moved + of_minus_p1
    p1 = jnp.sum(first[1:], axis=0)
    at_ends = Ends(jnp.sum(weights * energies), p1 - first[0], p1)
    return Expansion(at_ends, jnp.concatenate([of_minus_p0, -of_minus_p1]), moved.reshape(q, n, 2 * n))


def _chain(
    metric: Metric,
    x: Float[Array, " n"],
    h: Float[Array, " k"],
    u: Float[Array, "k q n"],
    pieces: Int[Array, ""] | int,
) -> Expansion:
    """The `Expansion` of a geodesic of several pieces, with lengths h and velocities u. Piece by piece it is added to
    what came before: the joint is where the sum of their energies is stationary."""
    n = x.size
    starts, _ = joints(x, h, u)
    to_begin, to_end = jnp.split(jnp.eye(2 * n, dtype=x.dtype), 2)

    def add(k: Int[Array, ""], path: Expansion) -> Expansion:
        here = jnp.arange(len(u)) == k
        start = choose(here, starts)
        length = choose(here, h)
        velocities = choose(here, u)
        # Traversed in unit time, the piece has the velocities h u and h times the energy; so all else is h times too.
        of_unit_length = _expansion(metric, start, length * velocities)
        piece: Expansion = jax.tree.map(lambda a: a / length, of_unit_length)
        # How the joint, and with it both parts, move with the two ends of the whole, from the Hessians of the path so
        # far and of this piece. The first piece has nothing before it: its joint is the begin.
        before = path.hessian
        after = piece.hessian
        coupled = jnp.concatenate([before[n:, :n], after[:n, n:]], axis=1)
        joint = jnp.where(k == 0, to_begin, -small_inverse(before[n:, n:] + after[:n, :n]) @ coupled)
        of_before = jnp.concatenate([to_begin, joint])
        of_after = jnp.concatenate([joint, to_end])
        hessian = of_before.T @ before @ of_before + of_after.T @ after @ of_after
        # The pieces so far move with the begin and the joint, and this one with the joint and the end.
        moved = jnp.where(here[:, None, None, None], (piece.moved @ of_after)[None], path.moved @ of_before)
        energy = path.ends.energy + piece.ends.energy
        begin = jnp.where(k == 0, piece.ends.begin, path.ends.begin)
        return Expansion(Ends(energy, begin, piece.ends.end), hessian, moved)

    zero = Ends(jnp.zeros((), x.dtype), jnp.zeros_like(x), jnp.zeros_like(x))
    nothing = Expansion(zero, jnp.zeros((2 * n, 2 * n), x.dtype), jnp.zeros((*u.shape, 2 * n), x.dtype))
    return jax.lax.fori_loop(0, pieces, add, batched_as((x, u), nothing))


@custom_jvp
def _path(metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort) -> Float[Array, "k q n"]:
    """The velocities of the geodesic from x to y, with the largest number of nodes, on pieces of equal
    length."""
    return native_of(_found_path, metric, x, y, effort)


def _found_path(metric: Metric, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort) -> Float[Array, "k q n"]:
    u, _, good, inverses = _short(metric, x, y, effort)

    def longer(
        u: Float[Array, "1 q n"], _: Float[Array, "k q n"]
    ) -> tuple[Float[Array, "1 q n"], Float[Array, "k q n"]]:
        # u changes its sign for the same reason as in `_found_ends`.
        return -u, native_of(relax, metric, x, y, u, inverses, effort).on_all_pieces

    _, found = once(~good, longer, u, cut(u, most_pieces(effort.nodes)))
    return found


@_path.def_jvp
def _path_jvp(
    primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Float[Array, "k q n"], Float[Array, "k q n"]]:
    u = _path(*primals)
    # The metric and both points. The residual of the path remains zero when they change: what they change in it,
    # `change`, the change of the path undoes.
    point = primals[:3]
    _, change = change_of(lambda *point: _residual(*point, u), point, tangents[:3])
    _, push = jax.linearize(lambda u: _residual(*point, u), u)
    return u, jax.lax.custom_linear_solve(push, -change, _linear_root, _linear_root)


def _linear_root(apply: Callable[[Array], Array], b: Array) -> Array:
    """The solution v of apply(v) = b, by fixed-point iteration if that contracts, else with the matrix."""
    form = Full()
    zero = jnp.zeros((), b.dtype)
    yes = jnp.ones((), bool)
    found = iterate(lambda v: apply(v) - b, b, lambda r: r, zero, MOST_PLAIN, yes)

    def exact(v: Array) -> tuple[Array]:
        inverted = form.factors(form.matrix(apply, v))
        return (form.solve(inverted, b),)

    (v,) = once(~found.converged, exact, found.w)
    return v
