"""Tabulated distances: a polynomial for the distance in a space without a closed form, several times faster than the
solve for the geodesic.

In the midpoint m = (x + y)/2 and the difference d = y − x of the coordinates, the squared distance is smooth, even in
d, and vanishes with d: dist² = g_ij(m) d^i d^j + O(d⁴) (half of it is Synge's world function; Poisson, Pound & Vega,
*Living Rev. Relativity* 14:7 (2011), §3). So it is expanded in the monomials of d of degree 2, 4, …, whose coefficients
are Chebyshev series in m. Then it is zero and smooth at coincident points, and its relative error is uniform in d.
"""

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Each, Float, Int, Number, Scalar, Vector
from geodyn._geometry.geodesics.distances import squared_distance
from geodyn._geometry.geodesics.limits import NODES
from geodyn._geometry.manifold.manifold import AbstractManifold, period_of

# The largest table: in powers of d, in degrees of each Chebyshev series, and in pairs of points to which it is fitted.
# The coefficients of a power k are up to 2^(k − 1) times as large as what they describe: of the power 16 they lose four
# and a half digits. A pair takes some 40 µs in a metric of two dimensions, so many of them a minute and a half.
HIGHEST_POWER = 16
HIGHEST_DEGREE = 64
MOST_PAIRS = 2_000_000
# The first table: of 2205 pairs in two dimensions, which take a tenth of a second.
FIRST_DEGREE = 6
FIRST_TERMS = 3
# The points of a pair are at least about this fraction of the reach apart.
NEAREST = 0.05
# So many larger tables in a row may be hardly better.
MOST_STALLED = 2
# Pairs that are computed at once. A distance that is not found takes a hundred times as long, and with it its batch.
BATCH = 64
# Nodes of the geodesics to which the table is fitted, fewer than for those that it is compared with.
FEW_NODES = 16
# Random pairs at which the error is measured, and the factor by which that may be larger elsewhere.
TESTS = 2048
SAFETY = 2.0
# The table is fitted in a box that is larger by this factor, since a polynomial is worst at the edges.
MARGIN = 1.02


class Box(NamedTuple):
    """Where distances are tabulated: the centre and the half-widths of the box of midpoints, infinite where a
    coordinate is unbounded, and the half-axes of the ellipsoid of differences."""

    centre: Float[np.ndarray, " n"]
    half: Float[np.ndarray, " n"]
    reach: Float[np.ndarray, " n"]

    @property
    def bounded_half(self) -> Float[np.ndarray, " n"]:
        """The half-widths, 0 where a coordinate is unbounded: there one value stands for all."""
        return np.where(np.isinf(self.half), 0, self.half)


class Pairs(NamedTuple):
    """Pairs of points by their scaled midpoints u in the cube |u_i| ≤ 1 and differences d in the ball |d| ≤ 1."""

    u: Float[np.ndarray, "P n"]
    d: Float[np.ndarray, "P n"]


class Tabulated(AbstractManifold):
    """A space with its distances tabulated, several times faster than solving for the geodesics.

    The metric is that of `space`. The squared distance is a polynomial fitted to `gd.squared_distance` for pairs of
    points whose midpoint is in the box lower ≤ m ≤ upper and whose difference of coordinates d is in the ellipsoid Σ
    (d_i/reach_i)² ≤ 1. Beyond both it is NaN, so that an integration fails there.

    The field `error` is the relative error of the distance: twice the largest one found at 2048 random pairs.
    Derivatives are exactly those of the polynomial, so that energy is conserved; they differ from those of the true
    distance by some ten times `error`, second derivatives by some hundred times. A smaller box or reach, or a larger
    tolerance, makes a smaller table, and the time of an evaluation is proportional to `table.size`. The table is made
    once, from concrete numbers: derivatives with respect to numbers in the metric do not see it.

    Args:
        space: the space, regular half a reach around the box.
        lower, upper: the corners of the box [n]; −inf and inf for a coordinate on which the metric does not depend,
            which saves its dimension of the table.
        reach: the half-axes of the ellipsoid, one number or [n].
        tolerance: the relative error of the distance that is good enough.

    Raises:
        ValueError: for bounds, a reach or a tolerance that are none, for a metric that does depend on an unbounded
            coordinate, where distances are not found, or where the tolerance is not reached: then take a smaller box or
            reach.

    Example:
        The surface of revolution with the radius 2 + cos u; its metric does not depend on the angle.

        >>> torus = gd.Manifold(lambda x: jnp.diag(jnp.stack([jnp.ones(()), (2 + jnp.cos(x[0])) ** 2])), dim=2)
        >>> table = gd.spaces.Tabulated(torus, [-0.5, -np.inf], [0.5, np.inf], reach=0.3, tolerance=1e-4)
        >>> x, y = jnp.array([0.1, 0.0]), jnp.array([0.2, 0.1])
        >>> print(bool(table.error < 1e-4), f"{gd.distance(table, x, y):.5f} {gd.distance(torus, x, y):.5f}")
        True 0.31512 0.31512
    """

    space: AbstractManifold
    centre: Float[Array, " n"]
    half: Float[Array, " n"]
    reach: Float[Array, " n"]
    error: float
    table: Array
    dim: int = eqx.field(static=True)

    @checked
    def __init__(self, space: AbstractManifold, lower: Vector, upper: Vector, reach: Each, tolerance: Number = 1e-8):
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((space, lower, upper, reach))):
            raise ValueError("Tabulated needs concrete numbers: make it outside of jit, grad and vmap, and hand it in")
        if not (np.ndim(tolerance) == 0 and 0 < tolerance < 1):
            raise ValueError(f"tolerance must be between 0 and 1, got {tolerance!r}")
        box = _box(space, lower, upper, reach)
        _check_rounding(box, tolerance)
        table, error = _fit_table(space, box, tolerance)
        self.space = space
        self.dim = space.dim
        self.centre = jnp.asarray(box.centre)
        self.half = jnp.asarray(box.half)
        self.reach = jnp.asarray(box.reach)
        self.error = error
        self.table = jnp.asarray(table)

    @property
    def period(self) -> tuple[float, ...] | None:
        """The periods of the coordinates, those of `space`."""
        return period_of(self.space)

    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """The metric of `space`."""
        return self.space.metric(x)

    def squared_distance(self, x: Float[Array, " n"], y: Float[Array, " n"]) -> Scalar:
        """The polynomial for dist²; NaN, derivatives included, outside of the table."""
        centre = self.centre.astype(x.dtype)
        half = self.half.astype(x.dtype)
        reach = self.reach.astype(x.dtype)
        # Where a coordinate is unbounded, `half` is infinite, and u is 0.
        u = ((x + y) / 2 - centre) / half
        d = (y - x) / reach
        # A pair on the edge of the table is in it, whatever rounding does to it.
        slack = 1 + 64 * jnp.finfo(x.dtype).eps
        inside = (jnp.sum(d**2) <= slack) & jnp.all(jnp.abs(u) <= slack / MARGIN)
        value = _evaluate(self.table.astype(x.dtype), u, d)
        # The factor makes NaN of the derivatives too.
        return value * jnp.where(inside, 1.0, jnp.nan)


def _evaluate(table: Float[Array, "..."], u: Float[Array, " n"], d: Float[Array, " n"]) -> Scalar:
    """Σ_kα table[k_1, …, k_n, α] T_k1(u_1) … T_kn(u_n) d^α over the even monomials of d, for |u| < 1.

    Written with sums, since a matrix product of few numbers becomes a call of a library in XLA."""
    angles = jnp.arccos(u)
    for angle, size in zip(angles, table.shape):
        # The Chebyshev polynomials T_k(cos θ) = cos kθ. Each turn sums over the first axis that is left.
        T = jnp.cos(angle * jnp.arange(size, dtype=u.dtype))
        further_axes = [1] * (table.ndim - 1)
        table = jnp.sum(T.reshape(-1, *further_axes) * table, axis=0)
    return jnp.sum(table * _monomials(d, table.size))


def _exponents(n: int, terms: int) -> Int[np.ndarray, "α n"]:
    """The exponents of the monomials of degree 2, 4, … 2 terms in n variables, by degree."""
    degrees = range(2, 2 * terms + 1, 2)
    powers = itertools.product(range(2 * terms + 1), repeat=n)
    even = [exponents for exponents in powers if sum(exponents) in degrees]
    return np.array(sorted(even, key=sum))


def _monomials(d: Float[Array, " n"], count: int) -> Float[Array, " α"]:
    """d^α for the first `count` even monomials. The powers are selected by sums, whose derivatives have no scatters."""
    terms = next(terms for terms in itertools.count(1) if len(_exponents(d.size, terms)) == count)
    powers = jnp.stack([d**k for k in range(2 * terms + 1)], axis=1)  # [i, k]
    chosen = jnp.asarray(np.eye(2 * terms + 1)[_exponents(d.size, terms)], d.dtype)  # [α, i, k]
    factors = jnp.sum(chosen * powers[None], axis=2)  # [α, i]
    return functools.reduce(jnp.multiply, factors.T)


# The squared distances of pairs of points, by geodesics of so many nodes.
Distances = Callable[[Pairs, int], Float[np.ndarray, " P"]]


def _fit_table(space: AbstractManifold, box: Box, tolerance: Number) -> tuple[Float[np.ndarray, "..."], float]:
    """The table of the lowest degrees that reach the tolerance, and its error."""
    distances = _sampler(space, box)
    tests = _test_pairs(space.dim)
    evaluate = jax.jit(jax.vmap(_evaluate, (None, 0, 0)))
    # On an unbounded coordinate the metric does not depend, and the distance neither.
    degrees = np.where(np.isinf(box.half), 0, FIRST_DEGREE)
    terms = FIRST_TERMS
    # The first table comes before the tests: it has few pairs, so that a distance that is not found is told soon.
    table = _coefficients(distances, degrees, terms)
    wanted = distances(tests, NODES)
    last = np.inf
    stalled = 0
    while True:
        # A bad polynomial may be negative: then its error is all of the distance.
        found = np.maximum(evaluate(table, tests.u, tests.d), 0)
        relative_errors = np.sqrt(found / wanted) - 1
        error = SAFETY * float(np.max(np.abs(relative_errors)))
        if error <= tolerance:
            return table, error
        # Rounding, or a metric that is not smooth, leaves an error that no larger table makes smaller.
        stalled = stalled + 1 if error > last / 2 else 0
        last = error
        degrees, terms = _larger(table, degrees, terms)
        d, _ = _offsets(terms, space.dim)
        pairs = np.prod(degrees + 1) * len(d)
        too_large = 2 * terms > HIGHEST_POWER or max(degrees) > HIGHEST_DEGREE or pairs > MOST_PAIRS
        if stalled == MOST_STALLED or too_large:
            raise ValueError(
                f"tolerance={tolerance} is not reached with reach={box.reach.tolist()}: the error is {error:.1e} with "
                f"polynomials of degree {2 * terms - 2} in the difference. Take a smaller reach, a smaller "
                "box or a larger tolerance"
            )
        table = _coefficients(distances, degrees, terms)


def _test_pairs(n: int) -> Pairs:
    """Random pairs, denser near the edges, where the errors of polynomials are largest."""
    rng = np.random.default_rng(0)
    u = np.cos(np.pi * rng.random((TESTS, n))) / MARGIN
    d = _in_ball(rng, rng.random(TESTS) ** 0.5, n)
    return Pairs(u, d)


def _larger(table: Float[np.ndarray, "..."], degrees: Int[np.ndarray, " n"], terms: int) -> tuple[np.ndarray, int]:
    """The degrees and the number of terms of the next table: those grow whose last terms are not small."""
    of_differences, of_midpoints = _tails(table, terms)
    # What is less than a tenth of the largest adds little to the error.
    large = 0.1 * max(of_differences, np.max(of_midpoints))
    degrees = np.where(of_midpoints >= large, degrees * 3 // 2, degrees)
    return degrees, terms + int(of_differences >= large)


def _tails(table: Float[np.ndarray, "..."], terms: int) -> tuple[float, Float[np.ndarray, " n"]]:
    """The size of the terms of the highest degree in d, and of those of the highest two degrees in each coordinate of
    m."""
    # On the unit interval x^2j is, up to lower degrees, a Chebyshev polynomial divided by 2^(2j − 1).
    power = np.sum(_exponents(table.ndim - 1, terms), axis=1)
    size = np.abs(table) / 2.0 ** (power - 1)
    of_differences = size[..., power == 2 * terms].max()
    of_midpoints = []
    for axis in range(size.ndim - 1):
        # Two, since of an even function every other coefficient vanishes.
        last_two = np.moveaxis(size, axis, 0)[-2:]
        of_midpoints.append(last_two.max() if size.shape[axis] > 1 else 0.0)
    return float(of_differences), np.array(of_midpoints)


def _coefficients(distances: Distances, degrees: Int[np.ndarray, " n"], terms: int) -> Float[np.ndarray, "..."]:
    """The table [k_1, …, k_n, α]: least squares in d, interpolation in m."""
    nodes = [_chebyshev_nodes(degree + 1) for degree in degrees.tolist()]
    u = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, len(degrees))
    d, inverse = _offsets(terms, len(degrees))
    # Every midpoint with every difference.
    pairs = Pairs(np.repeat(u, len(d), axis=0), np.tile(d, (len(u), 1)))
    squares = distances(pairs, FEW_NODES).reshape(len(u), len(d))
    # In parts of |d|²: so least squares make the relative errors small.
    values = squares / np.sum(d**2, axis=1)
    table = (values @ inverse.T).reshape(*(degrees + 1), -1)
    for axis, x in enumerate(nodes):
        to_coefficients = np.linalg.inv(np.polynomial.chebyshev.chebvander(x, len(x) - 1))
        table = np.moveaxis(np.tensordot(to_coefficients, table, (1, axis)), 0, axis)
    return table


def _chebyshev_nodes(count: int) -> Float[np.ndarray, " count"]:
    """The zeros of the Chebyshev polynomial of degree `count`."""
    return np.cos(np.pi * (np.arange(count) + 0.5) / count)


def _offsets(terms: int, n: int) -> tuple[Float[np.ndarray, "D n"], Float[np.ndarray, "α D"]]:
    """Differences d in the unit ball, three for each monomial, and the matrix that maps dist²/|d|² there to the
    coefficients of the monomials."""
    exponents = _exponents(n, terms)
    # The positive Chebyshev nodes: dist² is even in d.
    radii = np.cos(np.pi * (np.arange(terms + 1) + 0.5) / (2 * terms + 2))
    d = _in_ball(np.random.default_rng(1), np.resize(radii, 3 * len(exponents)), n)
    monomials = np.prod(d[:, None] ** exponents, axis=2)
    return d, np.linalg.pinv(monomials / np.sum(d**2, axis=1, keepdims=True))


def _in_ball(rng: np.random.Generator, radii: Float[np.ndarray, " D"], n: int) -> Float[np.ndarray, "D n"]:
    """Points at these distances from the origin, in random directions."""
    direction = rng.standard_normal((len(radii), n))
    return radii[:, None] * direction / np.linalg.norm(direction, axis=1, keepdims=True)


def _sampler(space: AbstractManifold, box: Box) -> Distances:
    """The function that solves for the distances of pairs; it raises ValueError if one is not found."""

    @eqx.filter_jit
    def solve(
        starts: Float[Array | np.ndarray, "P n"], ends: Float[Array | np.ndarray, "P n"], nodes: int
    ) -> Float[Array, " P"]:
        return jax.vmap(lambda x, y: squared_distance(space, x, y, nodes=nodes))(starts, ends)

    def distances(pairs: Pairs, nodes: int) -> Float[np.ndarray, " P"]:
        middles = box.centre + box.bounded_half * pairs.u
        # Repeated up to full batches, so that one program serves all of them.
        full = -(-len(middles) // BATCH) * BATCH
        starts = np.resize(middles - box.reach * pairs.d / 2, (full, space.dim))
        ends = np.resize(middles + box.reach * pairs.d / 2, (full, space.dim))
        batches = []
        for first in range(0, full, BATCH):
            these = slice(first, first + BATCH)
            values = np.asarray(solve(starts[these], ends[these], nodes))
            if not np.all(values > 0):
                bad = first + int(np.argmin(values > 0))
                raise ValueError(
                    f"the distance from {starts[bad].tolist()} to {ends[bad].tolist()} is not found: the metric must "
                    f"be regular half a reach={box.reach.tolist()} around the box, and the points joined by one "
                    "geodesic. Take a smaller reach or box"
                )
            batches.append(values)
        return np.concatenate(batches)[: len(middles)]

    return distances


def _box(space: AbstractManifold, lower: Vector, upper: Vector, reach: Each) -> Box:
    """The `Box` that the arguments describe; ValueError if they describe none."""
    n = space.dim
    try:
        low = np.asarray(lower, float).reshape(n)
        high = np.asarray(upper, float).reshape(n)
        half_axes = np.broadcast_to(np.asarray(reach, float), (n,))
    except (TypeError, ValueError):
        raise ValueError(
            f"lower and upper must be [{n}] and reach one number or [{n}]; got {lower!r}, {upper!r} and {reach!r}"
        ) from None
    unbounded = np.isneginf(low) & np.isposinf(high)
    bounded = np.isfinite(low) & np.isfinite(high) & (low < high)
    if not np.all(unbounded | bounded):
        raise ValueError(
            f"lower must be below upper, both finite, or -inf and inf where the metric does not depend on the "
            f"coordinate; got {low.tolist()} and {high.tolist()}"
        )
    if not np.all(np.isfinite(half_axes) & (half_axes > 0)):
        raise ValueError(f"reach must be positive and finite, got {half_axes.tolist()}")
    centre = np.zeros(n)
    centre[bounded] = (high[bounded] + low[bounded]) / 2
    half = np.full(n, np.inf)
    half[bounded] = MARGIN * (high[bounded] - low[bounded]) / 2
    box = Box(centre, half, half_axes)
    _check_symmetry(space, box)
    return box


def _check_rounding(box: Box, tolerance: Number) -> None:
    """ValueError where differences of coordinates of the size of the box have not so many digits: two points of the
    table are a few hundredths of the reach apart, or more."""
    size = np.abs(box.centre) + box.bounded_half
    rounding = np.max(float(jnp.finfo(float).eps) * size / (NEAREST * box.reach))
    if rounding > tolerance:
        raise ValueError(
            f"tolerance={tolerance} is not reached with reach={box.reach.tolist()}: for coordinates as large as "
            f"{np.max(size):.3g}, rounding alone makes an error of {rounding:.1e}. Take a larger reach, a box nearer "
            "to the origin or a larger tolerance"
        )


def _check_symmetry(space: AbstractManifold, box: Box) -> None:
    """ValueError unless the metric, at random points, depends on no unbounded coordinate."""
    unbounded = np.isinf(box.half)
    u = np.random.default_rng(2).uniform(-1, 1, (16, len(box.half)))
    # Of an unbounded coordinate some values within half a turn, if it is an angle.
    points = jnp.asarray(box.centre + u * np.where(unbounded, 3.0, box.half))
    sizes = np.abs(jax.vmap(space.metric)(points))  # [point, i, j]
    slopes = np.abs(jax.vmap(jax.jacfwd(space.metric))(points))  # [point, i, j, coordinate]
    # A derivative that is zero but for rounding is far below this part of the metric.
    allowed = 1e-10 * sizes.max(axis=(1, 2))
    for axis in np.flatnonzero(unbounded):
        if np.any(slopes[..., axis].max(axis=(1, 2)) > allowed):
            raise ValueError(f"the metric depends on coordinate {axis}: give it finite bounds in lower and upper")
