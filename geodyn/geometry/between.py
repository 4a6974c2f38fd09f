"""The geodesic between two points of any metric: the path that makes the energy ∫₀¹ ½ g(x', x') dt stationary.

It is one step of Gauss collocation from one point to the other: a polynomial x(t), of which the velocities u at the
nodes are the unknowns, and the integral Gauss' quadrature (Marsden & West, *Acta Numerica* 10 (2001); Hall & Leok,
*Numer. Math.* 130 (2015)). With momenta p = g u and forces f = ½ ∂g(u, u) the energy E(x, y) = ½ dist² is stationary
where g u = p(0) + ∫f. For short edges that is iterated as it stands, which is Newton's method with the metric held
fixed; what is left is smaller by a factor like the curvature times dist²/π² each time. The step being symplectic, E
generates it: dE = p(1) dy − p(0) dx, so that a force needs no more than the path, and log_x y = g⁻¹ p(0). Second
derivatives are those of p(0) and p(1), by the implicit-function theorem. A guess from a neighbouring path would save
little: the iteration contracts linearly, and from a start right to six digits takes half to four fifths of its turns.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._bands import Full
from geodyn._jit import custom_jvp, jit
from geodyn._linalg import adjugate, inverse, solve
from geodyn._scalars import on_arrays
from geodyn._typing import Array, Float, Scalar
from geodyn.geometry.manifold import AbstractManifold
from geodyn.integrators.iteration import iterate, once

ITERATIONS = 3000
PATIENCE = 20
MOST_PLAIN = 40
FEW_NODES = 12
BUMP = 1e-3


@jit
def energy_between(space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"], nodes: int) -> Scalar:
    """½ dist² of two points, along the geodesic to which the chart's straight segment relaxes; smooth where x = y.

    NaN if no path is found, if it is no minimum (beyond a conjugate point), or if the last two modes of a polynomial
    path of degree `nodes` have more than √eps of its energy: then more than half of the digits of E could be wrong.
    """
    # What the metric closes over becomes an explicit argument, so that derivatives with respect to it exist as well.
    return _energy(eqx.filter_closure_convert(space.metric, x), x, y, nodes)


@functools.cache
def _gauss(nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Gauss' nodes t[q], matrix a[q, r] and weights b[q], and Legendre's polynomials P[q, k], orthonormal on [0, 1]; of
    many nodes, for which a tableau's exact fractions are none."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    P, size = np.polynomial.legendre.legvander(points, nodes), np.sqrt(2 * np.arange(nodes) + 1)
    integrals = np.concatenate([1 + points[:, None], (P[:, 2:] - P[:, :-2]) / (2 * np.arange(1, nodes) + 1)], axis=1)
    P = P[:, :-1] * size
    return (points + 1) / 2, (integrals * size / 2) @ (P * weights[:, None] / 2).T, weights / 2, P


def _collocation(nodes: int, dtype):
    """Gauss' matrix a[q, r] and weights b[q]."""
    return tuple(jnp.asarray(array, dtype) for array in _gauss(nodes)[1:3])


def _lagrangian(metric, x, u):
    return 0.5 * jnp.sum(u[:, None] * metric(x) * u[None, :])


def _mixed(matrix, x):
    """matrix @ x, by sums: products of matrices are unrolled where a step is one native function (`_native`)."""
    return jnp.sum(jnp.asarray(matrix, x.dtype)[:, :, None] * x[None], axis=1)


def _positions(x, u):
    return x[None, :] + _mixed(_collocation(len(u), x.dtype)[0], u)


def _action(metric, x, u):
    """∫ ½ g(x', x') dt by quadrature, of the path from x with the velocities u[q, n] at the nodes."""
    b = _collocation(len(u), x.dtype)[1]
    return jnp.sum(b * jax.vmap(lambda x, u: _lagrangian(metric, x, u))(_positions(x, u), u))


def _slope(metric, x, u):
    """Its derivative in the velocities, per weight: p + ∫_t^1 f at every node, all equal to p(1) along a geodesic."""
    return jax.grad(_action, 2)(metric, x, u) / _collocation(len(u), x.dtype)[1][:, None]


def _inverses(metric, x, u):
    """g⁻¹ at the nodes."""
    return jax.vmap(lambda x: _inverse(metric(x)))(_positions(x, u))


def _inverse(g):
    """g⁻¹, by Cramer's rule where it is small."""
    if len(g) > 4:
        return inverse(g)
    cofactors = adjugate(g) if len(g) > 1 else jnp.ones_like(g)
    return cofactors / jnp.sum(g[0] * cofactors[:, 0])


def _raised(inverses, slope, excess):
    """g⁻¹ (slope − p) with the p for which the displacement of that is `excess`."""
    b = _collocation(len(slope), slope.dtype)[1]
    moved = jnp.sum(inverses * slope[:, None, :], axis=2)
    p = solve(jnp.sum(b[:, None, None] * inverses, axis=0), _mean(b, moved) - excess)
    return moved - jnp.sum(inverses * p[None, None, :], axis=2)


def _mean(weights, x):
    return jnp.sum(weights[:, None] * x, axis=0)


def _residual(metric, x, y, u):
    """What vanishes along the geodesic from x to y: the change of u to the next iterate, reversed."""
    excess = _mean(_collocation(len(u), x.dtype)[1], u) - (y - x)
    return _raised(_inverses(metric, x, u), _slope(metric, x, u), excess)


def _ends_of(metric, x, u):
    """(E, p(0), p(1)) of a geodesic from x."""
    energy, (gained, slope) = jax.value_and_grad(_action, (1, 2))(metric, x, u)
    end = jnp.sum(slope, axis=0)
    return energy, end - gained, end


def _tail(metric, x, u):
    """The part of the energy that is in the last two modes, about the square of the path's error."""
    energies = [_action_at(metric, x, u, part) for part in (_mixed(_last_modes(len(u)), u), u)]
    return energies[0] / jnp.where(energies[1] > 0, energies[1], 1.0)


def _action_at(metric, x, u, velocities):
    b = _collocation(len(u), x.dtype)[1]
    return jnp.sum(b * jax.vmap(lambda x, u: _lagrangian(metric, x, u))(_positions(x, u), velocities))


@functools.cache
def _last_modes(nodes: int) -> np.ndarray:
    """[q, r] matrix that leaves Legendre's last two polynomials of what is given at the nodes."""
    _, _, b, P = _gauss(nodes)
    return P[:, -2:] @ (P[:, -2:] * b[:, None]).T


@functools.cache
def _prolongation(few: int, many: int) -> np.ndarray:
    """[many, few] matrix: a polynomial given at few nodes, at many."""
    _, _, b, P = _gauss(few)
    return _gauss(many)[3][:, :few] @ (P * b[:, None]).T


def _straight(metric, x, y, nodes):
    """The straight segment of the chart with a small bump in every direction, from which iteration leaves a geodesic
    that is no minimum, as it leaves every unstable point."""
    d, c = y - x, jnp.asarray(_gauss(nodes)[0], x.dtype)
    g = metric((x + y) / 2)
    bump = BUMP * jnp.sqrt(d @ g @ d / jnp.diag(g)) * jnp.cos(1 + jnp.arange(x.size, dtype=x.dtype))
    return d[None, :] + (1 - 2 * c)[:, None] * bump[None, :]


def _short(metric, x, y, nodes):
    """(u on few nodes, whether plain iteration found it and they resolve it to rounding)."""
    zero, start = jnp.zeros((), x.dtype), _straight(metric, x, y, min(nodes, FEW_NODES))
    found = iterate(lambda u: _residual(metric, x, y, u), start, lambda r: r, zero, MOST_PLAIN, jnp.ones((), bool))
    return found.w, found.converged & (_tail(metric, x, found.w) <= jnp.finfo(x.dtype).eps)


def _long(metric, x, y, u, nodes):
    """u on all nodes, from the one on few; NaN if that does not converge to a minimum, or does not resolve the path to
    half of the digits of its energy."""
    start = jnp.where(jnp.all(jnp.isfinite(u)), u, jnp.broadcast_to(y - x, u.shape))
    u, converged = _relaxed(metric, x, y, _on_nodes(start, nodes))
    return jnp.where(converged & (_tail(metric, x, u) <= jnp.finfo(x.dtype).eps ** 0.5), u, jnp.nan)


def _on_nodes(u, nodes):
    return _mixed(_prolongation(len(u), nodes), u)


def _relaxed(metric, x, y, start):
    """The path to which `start` relaxes, and whether it does: along the residual, by steps whose length follows from
    its change in the last one (Barzilai & Borwein, *IMA J. Numer. Anal.* 8 (1988) 141), shorter where the energy would
    exceed that of the start. Never to one that is no minimum: no step of positive length is stable there."""
    eps, b = jnp.finfo(x.dtype).eps, _collocation(len(start), x.dtype)[1]
    energy = _action(metric, x, start)
    highest, enough = energy * (1 + 64 * eps), energy * eps**1.25

    def inner(u, v, w):
        g = jax.vmap(metric)(_positions(x, u))
        return jnp.sum(b[:, None, None] * v[:, :, None] * g * w[:, None, :])

    def step(state):
        u, r, length, best, least, stalled, count = state
        trial = u - length * r
        new, below = _residual(metric, x, y, trial), _action(metric, x, trial) <= highest
        moved, turned = length**2 * inner(trial, r, r), length * inner(trial, r, r - new)
        longer = jnp.clip(jnp.where(turned > 0, moved / turned, 1.0), 0.25, 64.0)
        size = jnp.where(below, inner(trial, new, new), jnp.inf)
        better = size < least
        keep = lambda new, old, where=below: jnp.where(where, new, old)  # noqa: E731
        length, stalled = keep(longer, length / 4), jnp.where(better, 0, stalled + 1)
        best, least = keep(trial, best, better), keep(size, least, better)
        return keep(trial, u), keep(new, r), length, best, least, stalled, count + 1

    def proceed(state):
        least, stalled, count = state[4:]
        return (count < ITERATIONS) & (least > 0) & ((stalled < PATIENCE) | (least > enough))

    first, one = _residual(metric, x, y, start), jnp.ones((), x.dtype)
    state = (start, first, one, start, one * jnp.inf, 0, 0)
    _, _, _, best, least, _, _ = jax.lax.while_loop(proceed, step, state)
    return best, least <= enough


@custom_jvp
def _energy(metric, x, y, nodes):
    return _ends(metric, x, y, nodes)[0]


@_energy.def_jvp
def _energy_jvp(primals, tangents):
    (metric, x, y, nodes), (dmetric, dx, dy, _) = primals, tangents
    varies = bool(jax.tree.leaves(dmetric))
    u = _path(metric, x, y, nodes) if varies else None
    energy, begin, end = _ends_of(metric, x, u) if varies else _ends(*primals)
    rate = sum((p @ d for p, d in ((-begin, dx), (end, dy)) if d is not None), jnp.zeros((), x.dtype))
    if varies:
        rate = rate + eqx.filter_jvp(lambda metric: _action(metric, x, u), (metric,), (dmetric,))[1]
    return energy, rate


@custom_jvp
def _ends(metric, x, y, nodes):
    """(E, p(0), p(1)) of the geodesic from x to y."""
    u, good = _short(metric, x, y, nodes)
    # Carried along, or XLA would compute what follows from u before a loop that seldom turns.
    longer = lambda u, *_: (-u, *_ends_of(metric, x, _long(metric, x, y, u, nodes)))  # noqa: E731
    return once(~good, on_arrays(longer), u, *_ends_of(metric, x, u))[1:]


@_ends.def_jvp
def _ends_jvp(primals, tangents):
    (_, x, y, nodes), (dmetric, dx, dy, _) = primals, tangents
    if jax.tree.leaves(dmetric):
        ends = lambda metric, x, y: _ends_of(metric, x, _path(metric, x, y, nodes))  # noqa: E731
        return eqx.filter_jvp(ends, primals[:3], tangents[:3])
    # A matrix, so that nothing iterates for every vector that Newton's method pushes through a force.
    ends, slopes = _expanded(*primals)
    change = jnp.concatenate([jnp.zeros_like(at) if d is None else d for at, d in ((x, dx), (y, dy))])
    return ends, tuple(slope @ change for slope in slopes)


@custom_jvp
def _expanded(metric, x, y, nodes):
    """(E, p(0), p(1)) of the geodesic from x to y, and their derivatives [2n] and [n, 2n] in both points."""
    u, good = _short(metric, x, y, nodes)
    longer = lambda u, _: (-u, _expansion(metric, x, y, _long(metric, x, y, u, nodes)))  # noqa: E731
    return once(~good, on_arrays(longer), u, _expansion(metric, x, y, u))[1]


@_expanded.def_jvp
def _expanded_jvp(primals, tangents):
    expansion = lambda metric, x, y: _expansion(metric, x, y, _path(metric, x, y, primals[3]))  # noqa: E731
    return eqx.filter_jvp(expansion, primals[:3], tangents[:3])


def _expansion(metric, x, y, u):
    """(E, p(0), p(1)) of a geodesic from x to y, and their derivatives: those of u are the solution of linear
    equations (implicit-function theorem)."""
    n = x.size
    residual = lambda z, u: _residual(metric, z[:n], z[n:], u)  # noqa: E731
    z = jnp.concatenate([x, y])
    ends, push = jax.linearize(lambda z, u: _ends_of(metric, z[:n], u), z, u)
    matrix, change = Full().matrix(jax.linearize(lambda u: residual(z, u), u)[1], u), jax.jacfwd(residual)(z, u)
    moved = -jnp.linalg.solve(matrix, change.reshape(u.size, 2 * n))
    return ends, jax.vmap(push, out_axes=-1)(jnp.eye(2 * n, dtype=x.dtype), moved.T.reshape(2 * n, *u.shape))


@custom_jvp
def _path(metric, x, y, nodes):
    """The velocities u[q, n] of the geodesic from x to y at all nodes."""
    u, good = _short(metric, x, y, nodes)
    longer = lambda u, _: (-u, _long(metric, x, y, u, nodes))  # noqa: E731
    return once(~good, on_arrays(longer), u, _on_nodes(u, nodes))[1]


@_path.def_jvp
def _path_jvp(primals, tangents):
    u, point = _path(*primals), primals[:3]
    change = eqx.filter_jvp(lambda *point: _residual(*point, u), point, tangents[:3])[1]
    push = jax.linearize(lambda u: _residual(*point, u), u)[1]
    return u, jax.lax.custom_linear_solve(push, -change, _linear_root, _linear_root)


def _linear_root(apply, b):
    """v with apply(v) = b, by plain iteration where that contracts, else by LAPACK, which also keeps programs with such
    derivatives, too long for that, from being one native function (`_native`)."""
    form, yes = Full(), jnp.ones((), bool)
    found = iterate(lambda v: apply(v) - b, b, lambda r: r, jnp.zeros((), b.dtype), MOST_PLAIN, yes)
    exact = lambda v: (form.solved(form.factors(form.matrix(apply, v)), b),)  # noqa: E731
    return once(~found.converged, on_arrays(exact), found.w)[0]
