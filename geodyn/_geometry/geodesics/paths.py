"""Piecewise polynomial paths between two points of a chart, their energy ∫₀¹ ½ g(x', x') dt, and its derivatives.

A path is given by its velocities u[k, q, n] at the Gauss nodes of pieces of the lengths h[k], which sum to 1. A piece
of length 0 is unused, so that arrays of one shape hold paths of few and of many pieces. The momenta are p = g u and the
forces f = ½ ∂g(u, u). Along a geodesic p + ∫_t^1 f, the derivative of the energy with respect to u (`slope`), is the
same at every node.
"""

import functools
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.native import for_each
from geodyn._engine.numerics.linalg import small_inverse, solve
from geodyn._engine.tracing import batched_as
from geodyn._foundations.typing import Array, Bool, Float, Int, PyTree, Scalar

Metric = Callable[[Float[Array, " n"]], Float[Array, "n n"]]

# So many pieces are computed at once, which costs little more than one: a vector of a processor has four or eight
# numbers.
TOGETHER = 4


class Quadrature(NamedTuple):
    """The Gauss nodes, the matrix and the weights of collocation on [0, 1], and the Legendre polynomials at the nodes,
    orthonormal on [0, 1]: a column for each degree."""

    nodes: Float[np.ndarray, " q"]
    matrix: Float[np.ndarray, "q q"]
    weights: Float[np.ndarray, " q"]
    polynomials: Float[np.ndarray, "q q"]


@functools.cache
def gauss(nodes: int) -> Quadrature:
    """The `Quadrature` for any number of nodes, also those that are too large for the exact fractions of
    `tableau.gauss`."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    # One degree more than there are nodes: the integrals below need it.
    values = np.polynomial.legendre.legvander(points, nodes)
    degrees = np.arange(nodes)
    # A Legendre polynomial of degree k has the mean square 1 / (2 k + 1).
    norms = np.sqrt(2 * degrees + 1)
    # The integrals of the Legendre polynomials from −1 to the nodes: (2 k + 1) ∫ Pₖ = Pₖ₊₁ − Pₖ₋₁, and for P₀ = 1 it is
    # 1 + x.
    of_first = 1 + points[:, None]
    of_higher = (values[:, 2:] - values[:, :-2]) / (2 * degrees[1:] + 1)
    integrals = np.concatenate([of_first, of_higher], axis=1)
    polynomials = values[:, :-1] * norms
    # From values at the nodes to coefficients, and from these to integrals up to the nodes. [0, 1] is half as long as
    # [−1, 1], hence the halves.
    to_coefficients = (polynomials * weights[:, None] / 2).T
    matrix = (integrals * norms / 2) @ to_coefficients
    return Quadrature((points + 1) / 2, matrix, weights / 2, polynomials)


@functools.cache
def _last_modes(nodes: int) -> Float[np.ndarray, "q q"]:
    """The matrix that projects values at the nodes onto the two Legendre polynomials of the highest degrees."""
    rule = gauss(nodes)
    last = rule.polynomials[:, -2:]
    to_coefficients = (last * rule.weights[:, None]).T
    return last @ to_coefficients


@functools.cache
def _resampling(nodes: int, pieces: int) -> Float[np.ndarray, "r q"]:
    """The matrix that evaluates a polynomial at as many nodes of each of the pieces into which its interval is cut."""
    rule = gauss(nodes)
    starts = np.arange(pieces)
    # The nodes of all pieces, on the interval [0, 1] that is cut.
    t = (rule.nodes[None, :] + starts[:, None]).reshape(-1) / pieces
    norms = np.sqrt(2 * np.arange(nodes) + 1)
    polynomials_there = np.polynomial.legendre.legvander(2 * t - 1, nodes - 1) * norms
    to_coefficients = (rule.polynomials * rule.weights[:, None]).T
    return polynomials_there @ to_coefficients


def combine(matrix: Float[np.ndarray, "r q"], x: Float[Array, "q n"]) -> Float[Array, "r n"]:
    """matrix @ x, written as a sum: for a product of matrices XLA would call a routine of a library."""
    return jnp.sum(jnp.asarray(matrix, x.dtype)[:, :, None] * x[None], axis=1)


def _combine_each(matrix: Float[np.ndarray, "r q"], x: Float[Array, "k q n"]) -> Float[Array, "k r n"]:
    """matrix @ x[k] for every piece k."""
    return jnp.sum(jnp.asarray(matrix, x.dtype)[None, :, :, None] * x[:, None], axis=2)


def _means(x: Float[Array, "k q ..."]) -> Float[Array, "k ..."]:
    """The mean of x over each piece: its integral if the piece had the length 1."""
    weights = jnp.asarray(gauss(x.shape[1]).weights, x.dtype)
    further_axes = [1] * (x.ndim - 2)
    return jnp.sum(weights.reshape(1, -1, *further_axes) * x, axis=1)


def total(h: Float[Array, " k"], x: Float[Array, "k q ..."]) -> Float[Array, "..."]:
    """The integral of x over the path."""
    means = _means(x)
    return jnp.sum(_with_axes_of(h, means) * means, axis=0)


def joints(
    x: Float[Array, " n"], h: Float[Array, " k"], u: Float[Array, "k q n"]
) -> tuple[Float[Array, "k n"], Float[Array, "k n"]]:
    """The start and end points of the pieces of the path from x."""
    displacements = h[:, None] * _means(u)
    # A piece starts where all earlier ones have led: row k of this matrix sums those before k.
    of_earlier_pieces = np.tri(len(u), k=-1)
    start = x[None, :] + combine(of_earlier_pieces, displacements)
    return start, start + displacements


class Pieces(NamedTuple):
    """Quantities of one piece of a path, or of all pieces: its energy ∫ ½ g(u, u), and the `unresolved` part of it in
    the last two modes of u, which is about the square of the error of the path; g⁻¹ at the nodes; the `slope`, p + ∫ f
    from each node to the end of the piece; and the `impulse`, ∫ f over the whole piece."""

    energy: Float[Array, "*k"]
    unresolved: Float[Array, "*k"]
    inverse: Float[Array, "*k q n n"]
    slope: Float[Array, "*k q n"]
    impulse: Float[Array, "*k n"]


def piece(metric: Metric, start: Float[Array, " n"], h: Scalar, u: Float[Array, "q n"]) -> Pieces:
    """The `Pieces` of one piece, which begins at the point `start`."""
    rule = gauss(len(u))
    weights = jnp.asarray(rule.weights, u.dtype)[:, None]
    points = start[None] + h * combine(rule.matrix, u)
    energies, forces, g = jax.vmap(partial(_at_node, metric))(points, u)
    momenta = jnp.sum(g * u[:, None, :], axis=2)
    # A smooth path has next to nothing in the last modes: what is there tells the error.
    last = combine(_last_modes(len(u)), u)
    unresolved_squares = jnp.sum(last[:, :, None] * g * last[:, None, :], (1, 2))
    # ∫ f from each node to the end. The matrix is the adjoint of that of the integrals from the start to each node, in
    # the scalar product Σ weight · f · g.
    to_end = rule.matrix.T * rule.weights[None, :] / rule.weights[:, None]
    slope = momenta + h * combine(to_end, forces)

    def integral(x: Float[Array, "q a"]) -> Float[Array, " a"]:
        return h * jnp.sum(weights * x, axis=0)

    # `integral` takes vectors at the nodes: numbers are vectors with one component.
    (energy,) = integral(energies[:, None])
    (unresolved_energy,) = integral(unresolved_squares[:, None] / 2)
    impulse = integral(forces)
    inverse = jax.vmap(small_inverse)(g)
    return Pieces(energy, unresolved_energy, inverse, slope, impulse)


def energy_at(metric: Metric, x: Float[Array, " n"], u: Float[Array, " n"]) -> Scalar:
    """The integrand ½ g(u, u) at the point x."""
    return 0.5 * jnp.sum(u[:, None] * metric(x) * u[None, :])


def _at_node(
    metric: Metric, x: Float[Array, " n"], u: Float[Array, " n"]
) -> tuple[Scalar, Float[Array, " n"], Float[Array, "n n"]]:
    """The energy, the force and the metric at a node."""
    energy, force = jax.value_and_grad(energy_at, 1)(metric, x, u)
    return energy, force, metric(x)


def pieces_of(metric: Metric, x: Float[Array, " n"], h: Float[Array, " k"], u: Float[Array, "k q n"]) -> Pieces:
    """The `Pieces` of all pieces of the path from x."""
    starts, _ = joints(x, h, u)
    return jax.vmap(partial(piece, metric))(starts, h, u)


def _with_axes_of(values: Array, like: Array) -> Array:
    """The values [k], with axes of length 1 added until they have as many as an array [k, …]."""
    further_axes = [1] * (like.ndim - 1)
    return values.reshape(-1, *further_axes)


def choose(here: Bool[Array, " k"], x: Float[Array, "k ..."]) -> Float[Array, "..."]:
    """The one of x[k] for which here[k] is true. It is a mask, since under `vmap` an index becomes a gather."""
    chosen = jnp.where(_with_axes_of(here, x), x, 0)
    return jnp.sum(chosen, axis=0)


def on_pieces(function: Callable[[Int[Array, ""]], PyTree], size: int, pieces: Int[Array, ""]) -> PyTree:
    """function(k) for the first `pieces` of `size` pieces, rounded up to a multiple of `TOGETHER`, and zeros for the
    others."""
    width = min(size, TOGETHER)
    on_batch = partial(for_each, function)
    shapes = jax.eval_shape(on_batch, jnp.arange(width))
    zeros = jax.tree.map(lambda a: jnp.zeros((size // width, *a.shape), a.dtype), shapes)

    def put(k: Int[Array, ""], known: PyTree) -> PyTree:
        """What is known, with the k-th batch of pieces."""

        def put_one(old: Array, new: Array) -> Array:
            # A mask, since under `vmap` an index becomes a scatter.
            here = jnp.arange(len(old)) == k
            return jnp.where(_with_axes_of(here, old), new[None], old)

        found = on_batch(width * k + jnp.arange(width))
        return jax.tree.map(put_one, known, found)

    # Under `vmap` the number of pieces may be batched: with a start that is batched too, JAX traces the loop only once.
    first, start = batched_as(pieces, (jnp.zeros_like(pieces), zeros))
    batches = (pieces + width - 1) // width
    done = jax.lax.fori_loop(first, batches, put, start)
    return jax.tree.map(lambda a: a.reshape(size, *a.shape[2:]), done)


def action(metric: Metric, x: Float[Array, " n"], h: Float[Array, " k"], u: Float[Array, "k q n"]) -> Scalar:
    """The energy of the path from x."""
    starts, _ = joints(x, h, u)
    displacements = h[:, None, None] * _combine_each(gauss(u.shape[1]).matrix, u)
    points = starts[:, None] + displacements
    energy = jax.vmap(jax.vmap(partial(energy_at, metric)))
    return total(h, energy(points, u))


def _slope(at: Pieces) -> Float[Array, "k q n"]:
    """p + ∫_t^1 f at every node: the derivative of the energy with respect to the velocities, divided by the weights of
    the nodes."""
    # Row k of this matrix sums the pieces after k.
    of_later_pieces = np.tri(len(at.impulse), k=-1).T
    later_impulse = combine(of_later_pieces, at.impulse)
    return at.slope + later_impulse[:, None, :]


def residual(
    x: Float[Array, " n"], y: Float[Array, " n"], h: Float[Array, " k"], u: Float[Array, "k q n"], at: Pieces
) -> tuple[Float[Array, "k q n"], Float[Array, "k q n"]]:
    """(g⁻¹ (slope − p), slope − p), where p is such that the path ends in y. Both vanish along the geodesic from x to
    y; the first is the change of u to the next iterate, with the opposite sign."""
    slope = _slope(at)
    raised = jnp.sum(at.inverse * slope[:, :, None, :], axis=3)
    # The next velocities u − g⁻¹ (slope − p) shall lead from x to y, a linear equation for p.
    gap = total(h, raised) - total(h, u) + (y - x)
    p = solve(total(h, at.inverse), gap)
    raised_p = jnp.sum(at.inverse * p[None, None, None, :], axis=3)
    return raised - raised_p, slope - p[None, None, :]


class Ends(NamedTuple):
    """The energy of a geodesic, and the momenta at its ends."""

    energy: Scalar
    begin: Float[Array, " n"]
    end: Float[Array, " n"]


def ends(h: Float[Array, " k"], at: Pieces) -> Ends:
    """The `Ends` of a geodesic."""
    # The slope is p(1) everywhere along a geodesic: take its mean.
    end = total(h, _slope(at))
    # p' = f.
    begin = end - jnp.sum(at.impulse, axis=0)
    return Ends(jnp.sum(at.energy), begin, end)


def tail(at: Pieces) -> Scalar:
    """The fraction of the energy that the path does not resolve; 0 for a path without energy."""
    energy = jnp.sum(at.energy)
    unresolved = jnp.sum(at.unresolved)
    return unresolved / jnp.where(energy > 0, energy, 1.0)


def defect(inverses: Float[Array, "2 n n"], at_ends: Ends) -> Scalar:
    """How far the speed at the ends of a path is from that in between, relative to it: max |½ p g⁻¹ p − E| / E, with
    g⁻¹ at both ends. The speed of a geodesic is constant. That of a path whose nodes miss what lies between
    them, so that its energy is wrong, is not."""
    energy = at_ends.energy
    p = jnp.stack([at_ends.begin, at_ends.end])
    kinetic = jnp.sum(p[:, :, None] * inverses * p[:, None, :], axis=(1, 2)) / 2
    deviation = jnp.abs(kinetic - energy)
    return jnp.max(deviation) / jnp.where(energy > 0, energy, 1.0)


def cut(u: Float[Array, "k q n"], pieces: int) -> Float[Array, "K q n"]:
    """The velocities u of the same path, with every piece cut into so many, of as many nodes each."""
    resampled = _combine_each(_resampling(u.shape[1], pieces), u)
    return resampled.reshape(-1, *u.shape[1:])
