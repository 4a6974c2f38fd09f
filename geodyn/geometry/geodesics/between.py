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

from geodyn._compile.jit import custom_jvp, jit
from geodyn._numerics.bands import Full
from geodyn._typing import Array, Float, Scalar
from geodyn.geometry.geodesics.paths import cut, ends, gauss, joints, pieces_of, residual, tail
from geodyn.geometry.geodesics.relaxation import NODES, Effort, most_pieces, relaxed
from geodyn.geometry.manifold.manifold import AbstractManifold
from geodyn.integrators.step.iteration import iterate, once

MOST_PLAIN = 40
FEW_NODES = 12
BUMP = 1e-3


@jit
def energy_between(space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"], effort: Effort) -> Scalar:
    """½ dist² of two points, along the geodesic to which the chart's straight segment relaxes; smooth where x = y.

    The path has as many nodes as it takes to resolve E as well as `effort` wants, up to its number of nodes. E is NaN,
    or infinite, if these are not enough, if no path is found, or if it is not a minimum (beyond a conjugate point).
    """
    # The values that the metric closes over become explicit arguments, so that E has derivatives with respect to them.
    return _energy(eqx.filter_closure_convert(space.metric, x), x, y, effort)


def short_path(
    space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"], nodes: int
) -> Float[Array, "{nodes} n"]:
    """The velocities, at `nodes` Gauss nodes of the time from 0 to 1, of the geodesic from x to y; NaN if these nodes
    do not resolve it to rounding."""
    return _short_path(eqx.filter_closure_convert(space.metric, x), x, y, nodes=nodes)


@custom_jvp
def _short_path(metric, x, y, *, nodes):
    u, _, good = _short(metric, x, y, Effort(nodes), nodes)
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


def _straight(metric, x, y, nodes):
    """The velocities of the straight segment of the chart, with a small perturbation in every direction: with it the
    iteration leaves a geodesic that is not a minimum, which is an unstable fixed point."""
    d, c = y - x, jnp.asarray(gauss(nodes)[0], x.dtype)
    g = metric((x + y) / 2)
    bump = BUMP * jnp.sqrt(d @ g @ d / jnp.diag(g)) * jnp.cos(1 + jnp.arange(x.size, dtype=x.dtype))
    return d[None, None, :] + (1 - 2 * c)[None, :, None] * bump[None, None, :]


def _short(metric, x, y, effort, nodes=FEW_NODES):
    """(u of one piece, its ends, whether fixed-point iteration found it and its few nodes resolve it as well as
    `effort` wants)."""
    zero, yes = jnp.zeros((), x.dtype), jnp.ones((), bool)
    start = _straight(metric, x, y, nodes)
    h = _equal(start)

    def evaluated(u):
        at = pieces_of(metric, x, h, u)
        return residual(x, y, h, u, at)[0], [ends(h, at), tail(at)]

    unknown = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(evaluated, start)[1])
    found = iterate(evaluated, start, lambda r: r, zero, MOST_PLAIN, yes, others=unknown)
    at_ends, unresolved = found.others
    return found.w, at_ends, found.converged & (unresolved <= effort.enough(jnp.finfo(x.dtype).eps))


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
        rate = rate + eqx.filter_jvp(lambda metric: _action(metric, x, u), (metric,), (dmetric,))[1]
    return energy, rate


def _action(metric, x, u):
    return jnp.sum(pieces_of(metric, x, _equal(u), u).energy)


@custom_jvp
def _ends(metric, x, y, effort):
    """(E, p(0), p(1)) of the geodesic from x to y."""
    u, at_ends, good = _short(metric, x, y, effort)

    # u is in the carry and changes sign, since otherwise XLA would compute what follows from u before the loop, which
    # seldom turns.
    def longer(u, *_):
        return (-u, *relaxed(metric, x, y, u, effort).ends)

    return once(~good, longer, u, *at_ends)[1:]


@_ends.def_jvp
def _ends_jvp(primals, tangents):
    (_, x, y, effort), (dmetric, dx, dy, _) = primals, tangents
    if jax.tree.leaves(dmetric):

        def ends_of(metric, x, y):
            return _ends_of(metric, x, _path(metric, x, y, effort))

        return eqx.filter_jvp(ends_of, primals[:3], tangents[:3])
    # The derivatives are a matrix, so that nothing is iterated again for each tangent to which Newton's method applies
    # the derivative of a force.
    values, slopes = _expanded(*primals)
    change = jnp.concatenate([jnp.zeros_like(at) if d is None else d for at, d in ((x, dx), (y, dy))])
    return values, tuple(slope @ change for slope in slopes)


@custom_jvp
def _expanded(metric, x, y, effort):
    """(E, p(0), p(1)) of the geodesic from x to y, and their derivatives [2n] and [n, 2n] with respect to both
    points."""
    u, _, good = _short(metric, x, y, effort)

    def longer(u, _):
        path = relaxed(metric, x, y, u, effort)
        _, slopes = _chained(metric, x, path.h, path.u, path.pieces)
        far = jnp.isinf(path.ends[0])
        return -u, (path.ends, tuple(jnp.where(far, 0, slope) for slope in slopes))

    return once(~good, longer, u, _expansion(metric, x, y, u))[1]


@_expanded.def_jvp
def _expanded_jvp(primals, tangents):
    def expansion(metric, x, y):
        u = _path(metric, x, y, primals[3])
        return _chained(metric, x, _equal(u), u, len(u))

    return eqx.filter_jvp(expansion, primals[:3], tangents[:3])


def _expansion(metric, x, y, u):
    """(E, p(0), p(1)) of a geodesic of one piece from x to y, and their derivatives. Those of u are the solution of a
    linear system (implicit-function theorem)."""
    n, h = x.size, _equal(u)

    def of(z, u):
        at = pieces_of(metric, z[:n], h, u)
        return ends(h, at), residual(z[:n], z[n:], h, u, at)[0]

    # One derivative of all, with respect to both points and u, is a shorter program than three.
    (values, _), push = jax.linearize(of, jnp.concatenate([x, y]), u)
    units = jnp.eye(2 * n + u.size, dtype=x.dtype)
    slopes, left = jax.vmap(lambda e: push(e[: 2 * n], e[2 * n :].reshape(u.shape)), out_axes=-1)(units)
    left = left.reshape(u.size, -1)
    moved = -jnp.linalg.solve(left[:, 2 * n :], left[:, : 2 * n])
    return values, tuple(slope[..., : 2 * n] + slope[..., 2 * n :] @ moved for slope in slopes)


def _chained(metric, x, h, u, pieces):
    """The `_expansion` of a geodesic of several pieces, from those of its pieces. At a joint z of two pieces the
    momenta agree for all x and y, p(1; x, z) = p(0; z, y), which gives the derivative of z."""
    n, (starts, stops) = x.size, joints(x, h, u)

    def extended(k, chain):
        one = _expansion(metric, starts[k], stops[k], h[k] * u[k][None])
        (energy, begin, end), (_, dbegin, dend) = jax.tree.map(lambda a: a / h[k], one)
        (before, first, _), (_, dfirst, dlast) = chain
        alone = k == 0
        joint = jnp.where(alone, jnp.eye(n, dtype=x.dtype), dlast[:, n:] - dbegin[:, :n])
        moved = jnp.linalg.solve(joint, jnp.concatenate([-dlast[:, :n], dbegin[:, n:]], axis=1))  # dz of (dx, dy)

        def pad(left, right):
            return jnp.concatenate([left, right], axis=1)

        none = jnp.zeros((n, n), x.dtype)
        dfirst = jnp.where(alone, dbegin, pad(dfirst[:, :n], none) + dfirst[:, n:] @ moved)
        dend = jnp.where(alone, dend, pad(none, dend[:, n:]) + dend[:, :n] @ moved)
        first = jnp.where(alone, begin, first)
        return (before + energy, first, end), (jnp.concatenate([-first, end]), dfirst, dend)

    def zero(*shape):
        return jnp.zeros(shape, x.dtype)

    nothing = (zero(), zero(n), zero(n)), (zero(2 * n), zero(n, 2 * n), zero(n, 2 * n))
    return jax.lax.fori_loop(0, pieces, extended, nothing)


@custom_jvp
def _path(metric, x, y, effort):
    """The velocities u[k, q, n] of the geodesic from x to y, with the largest number of nodes, on pieces of equal
    length."""
    u, _, good = _short(metric, x, y, effort)

    def longer(u, _):
        return (-u, relaxed(metric, x, y, u, effort).on_all_pieces())

    return once(~good, longer, u, cut(u, NODES, most_pieces(effort.nodes)))[1]


@_path.def_jvp
def _path_jvp(primals, tangents):
    u, point = _path(*primals), primals[:3]
    change = eqx.filter_jvp(lambda *point: _residual(*point, u), point, tangents[:3])[1]
    push = jax.linearize(lambda u: _residual(*point, u), u)[1]
    return u, jax.lax.custom_linear_solve(push, -change, _linear_root, _linear_root)


def _linear_root(apply, b):
    """The solution v of apply(v) = b, by fixed-point iteration if that contracts, else by LAPACK. The call of LAPACK
    also prevents programs with such derivatives from becoming one native function (`_compile.native`), for which they
    are too long."""
    form, yes = Full(), jnp.ones((), bool)
    found = iterate(lambda v: apply(v) - b, b, lambda r: r, jnp.zeros((), b.dtype), MOST_PLAIN, yes)

    def exact(v):
        return (form.solved(form.factors(form.matrix(apply, v)), b),)

    return once(~found.converged, exact, found.w)[0]
