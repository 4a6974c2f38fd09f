"""Piecewise polynomial paths between two points of a chart, their energy ∫₀¹ ½ g(x', x') dt, and its derivatives.

A path is given by its velocities u[k, q, n] at the Gauss nodes of pieces of the lengths h[k], which sum to 1. A piece
of length 0 is unused, so that arrays of one shape hold paths of few and of many pieces. The momenta are p = g u and the
forces f = ½ ∂g(u, u). Along a geodesic p + ∫_t^1 f, the derivative of the energy with respect to u (`slope`), is the
same at every node.
"""

import functools
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.native import for_each
from geodyn._engine.numerics.linalg import small_inverse, solve
from geodyn._engine.tracing import batched_as
from geodyn._foundations.typing import Array

TOGETHER = 4


@functools.cache
def gauss(nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The Gauss nodes t[q], matrix a[q, r] and weights b[q], and the Legendre polynomials P[q, k], orthonormal on
    [0, 1]. It is for numbers of nodes that are too large for the exact fractions of `tableau.gauss`."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    P, size = np.polynomial.legendre.legvander(points, nodes), np.sqrt(2 * np.arange(nodes) + 1)
    integrals = np.concatenate([1 + points[:, None], (P[:, 2:] - P[:, :-2]) / (2 * np.arange(1, nodes) + 1)], axis=1)
    P = P[:, :-1] * size
    return (points + 1) / 2, (integrals * size / 2) @ (P * weights[:, None] / 2).T, weights / 2, P


@functools.cache
def _last_modes(nodes: int) -> np.ndarray:
    """The matrix [q, r] that projects values at the nodes onto the last two Legendre polynomials."""
    _, _, b, P = gauss(nodes)
    return P[:, -2:] @ (P[:, -2:] * b[:, None]).T


@functools.cache
def _resampling(nodes: int, pieces: int) -> np.ndarray:
    """The matrix [pieces nodes, nodes] that evaluates a polynomial at as many nodes of each of the pieces into which
    its interval is cut."""
    c, _, b, P = gauss(nodes)
    t = (c[None, :] + np.arange(pieces)[:, None]).reshape(-1) / pieces
    orders = np.sqrt(2 * np.arange(nodes) + 1)
    return np.polynomial.legendre.legvander(2 * t - 1, nodes - 1) * orders @ (P * b[:, None]).T


def mixed(matrix, x):
    """matrix @ x[q, n], written as a sum: for a product XLA would call a library."""
    return jnp.sum(jnp.asarray(matrix, x.dtype)[:, :, None] * x[None], axis=1)


def _along(matrix, x):
    """matrix @ x[k] for every piece k of x[k, q, n]."""
    return jnp.sum(jnp.asarray(matrix, x.dtype)[None, :, :, None] * x[:, None], axis=2)


def _means(x):
    """The integrals [k, …] of x[k, q, …] over pieces of length 1."""
    b = jnp.asarray(gauss(x.shape[1])[2], x.dtype)
    return jnp.sum(b.reshape(1, -1, *[1] * (x.ndim - 2)) * x, axis=1)


def total(h, x):
    """The integral of x[k, q, …] over the path."""
    means = _means(x)
    return jnp.sum(h.reshape(-1, *[1] * (means.ndim - 1)) * means, axis=0)


def joints(x, h, u):
    """The start and end points of the pieces of the path from x, [k, n] each."""
    moved = h[:, None] * _means(u)
    start = x[None, :] + mixed(np.tri(len(u), k=-1), moved)
    return start, start + moved


class Pieces(NamedTuple):
    """Quantities of one piece of a path, or of all pieces: its energy ∫ ½ g(u, u), and the `unresolved` part of it in
    the last two modes of u, which is about the square of the error of the path; g⁻¹ at the nodes; the `slope`, p + ∫ f
    from each node to the end of the piece; and the `impulse`, ∫ f over the whole piece."""

    energy: Array
    unresolved: Array
    inverse: Array
    slope: Array
    impulse: Array


def piece(metric, start, h, u) -> Pieces:
    """The `Pieces` of one piece, which begins at the point `start`."""
    _, a, b, _ = gauss(len(u))
    weights = jnp.asarray(b, u.dtype)[:, None]
    energies, forces, g = jax.vmap(lambda x, u: _at_node(metric, x, u))(start[None] + h * mixed(a, u), u)
    last = mixed(_last_modes(len(u)), u)
    momenta, unresolved = jnp.sum(g * u[:, None, :], axis=2), jnp.sum(last[:, :, None] * g * last[:, None, :], (1, 2))
    slope = momenta + h * mixed(a.T * b[None, :] / b[:, None], forces)
    integrals = (h * jnp.sum(weights * x, axis=0) for x in (energies[:, None], unresolved[:, None] / 2, forces))
    (energy,), (rest,), impulse = integrals
    return Pieces(energy, rest, jax.vmap(small_inverse)(g), slope, impulse)


def energy_at(metric, x, u):
    """The integrand ½ g(u, u) at the point x."""
    return 0.5 * jnp.sum(u[:, None] * metric(x) * u[None, :])


def _at_node(metric, x, u):
    energy, force = jax.value_and_grad(energy_at, 1)(metric, x, u)
    return energy, force, metric(x)


def pieces_of(metric, x, h, u) -> Pieces:
    """The `Pieces` of all pieces of the path from x."""
    return jax.vmap(lambda start, h, u: piece(metric, start, h, u))(joints(x, h, u)[0], h, u)


def chosen(here, x):
    """The one of x[k, …] for which here[k] is true. It is a mask, since under `vmap` an index becomes a gather."""
    return jnp.sum(jnp.where(here.reshape(-1, *[1] * (x.ndim - 1)), x, 0), axis=0)


def on_pieces(function, size: int, pieces):
    """function(k) for the first `pieces` of `size` pieces, rounded up to a multiple of `TOGETHER`, and zeros for the
    others. Several at a time cost little more than one."""
    width, every = min(size, TOGETHER), partial(for_each, function)
    nothing = jax.eval_shape(every, jnp.arange(width))
    nothing = jax.tree.map(lambda a: jnp.zeros((size // width, *a.shape), a.dtype), nothing)

    def put(k, known):  # A mask, since under `vmap` an index becomes a scatter.
        def here(a):
            return (jnp.arange(len(a)) == k).reshape(-1, *[1] * (a.ndim - 1))

        found = every(width * k + jnp.arange(width))
        return jax.tree.map(lambda a, new: jnp.where(here(a), new[None], a), known, found)

    first, nothing = batched_as(pieces, (jnp.zeros_like(pieces), nothing))
    done = jax.lax.fori_loop(first, (pieces + width - 1) // width, put, nothing)
    return jax.tree.map(lambda a: a.reshape(size, *a.shape[2:]), done)


def action(metric, x, h, u):
    """The energy of the path from x."""
    _, a, _, _ = gauss(u.shape[1])
    points = joints(x, h, u)[0][:, None] + h[:, None, None] * _along(a, u)
    return total(h, jax.vmap(jax.vmap(lambda x, u: energy_at(metric, x, u)))(points, u))


def _slope(at: Pieces):
    """p + ∫_t^1 f at every node [k, q, n]: the derivative of the energy with respect to the velocities, divided by the
    weights of the nodes."""
    later = mixed(np.tri(len(at.impulse), k=-1).T, at.impulse)
    return at.slope + later[:, None, :]


def residual(x, y, h, u, at: Pieces):
    """(g⁻¹ (slope − p), slope − p), where p is such that the path ends in y. Both vanish along the geodesic from x to
    y; the first is the change of u to the next iterate, with the opposite sign."""
    slope = _slope(at)
    moved = jnp.sum(at.inverse * slope[:, :, None, :], axis=3)
    p = solve(total(h, at.inverse), total(h, moved) - total(h, u) + (y - x))
    return moved - jnp.sum(at.inverse * p[None, None, None, :], axis=3), slope - p[None, None, :]


def ends(h, at: Pieces):
    """(E, p(0), p(1)) of a geodesic: its energy, and the momenta at its ends."""
    end = total(h, _slope(at))
    return jnp.sum(at.energy), end - jnp.sum(at.impulse, axis=0), end


def tail(at: Pieces):
    """The fraction of the energy that the path does not resolve."""
    energy = jnp.sum(at.energy)
    return jnp.sum(at.unresolved) / jnp.where(energy > 0, energy, 1.0)


def defect(inverses, at_ends):
    """How far the speed at the ends of a path is from that in between, relative to it: max |½ p g⁻¹ p − E| / E, with
    g⁻¹ at both ends [2, n, n]. A geodesic has one speed. A path whose nodes miss what lies between them, so that its
    energy is wrong, has not."""
    energy, begin, end = at_ends
    p = jnp.stack([begin, end])
    off = jnp.abs(jnp.sum(p[:, :, None] * inverses * p[:, None, :], axis=(1, 2)) / 2 - energy)
    return jnp.max(off) / jnp.where(energy > 0, energy, 1.0)


def cut(u, pieces: int):
    """The velocities u of the same path, with every piece cut into so many, of as many nodes each."""
    return _along(_resampling(u.shape[1], pieces), u).reshape(-1, *u.shape[1:])
