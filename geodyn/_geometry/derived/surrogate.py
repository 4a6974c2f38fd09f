"""Tabulated distances: a polynomial for the distance in a space without a closed form, several times faster than the
solve for the geodesic.

In the midpoint m = (x + y)/2 and the difference d = y − x of the coordinates, the squared distance is smooth, even in
d, and vanishes with d: dist² = g_ij(m) d^i d^j + O(d⁴) (half of it is Synge's world function; Poisson, Pound & Vega,
*Living Rev. Relativity* 14:7 (2011), §3). So it is expanded in the monomials of d of degree 2, 4, …, whose coefficients
are Chebyshev series in m. Then it is zero and smooth at coincident points, and its relative error is uniform in d.
"""

import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Each, Float, Number, Scalar, Vector
from geodyn._geometry.geodesics.geodesic import NODES, squared_distance
from geodyn._geometry.manifold.manifold import AbstractManifold, period_of

HIGHEST_POWER = 16
HIGHEST_DEGREE = 64
MOST_PAIRS = 2_000_000
NEAREST = 0.05
MOST_STALLED = 2  # So many larger tables in a row that are hardly better.
BATCH = 64  # What is not found takes a hundred times as long, and with it all of its batch.
FEW_NODES = 16
TESTS = 2048
SAFETY = 2.0
MARGIN = 1.02


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
        self.space, self.dim = space, space.dim
        box = _box(space, lower, upper, reach)
        _check_rounding(*box, tolerance)
        table, self.error = _fitted(space, *box, tolerance)
        self.centre, self.half, self.reach = (jnp.asarray(x) for x in box)
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
        centre, half, reach = (a.astype(x.dtype) for a in (self.centre, self.half, self.reach))
        u, d = ((x + y) / 2 - centre) / half, (y - x) / reach  # half is inf where the coordinate is unbounded
        slack = 1 + 64 * jnp.finfo(x.dtype).eps
        inside = (jnp.sum(d**2) <= slack) & jnp.all(jnp.abs(u) <= slack / MARGIN)
        return _evaluate(self.table.astype(x.dtype), u, d) * jnp.where(inside, 1.0, jnp.nan)


def _evaluate(table, u, d):
    """Σ_kα table[k_1, …, k_n, α] T_k1(u_1) … T_kn(u_n) d^α over the even monomials of d, for |u| < 1.

    Written with sums, since a matrix product of few numbers becomes a call of a library in XLA."""
    angles = jnp.arccos(u)
    for angle, size in zip(angles, table.shape):
        T = jnp.cos(angle * jnp.arange(size, dtype=u.dtype))
        table = jnp.sum(T.reshape(-1, *[1] * (table.ndim - 1)) * table, axis=0)
    return jnp.sum(table * _monomials(d, table.size))


def _exponents(n, terms):
    """The exponents [count, n] of the monomials of degree 2, 4, … 2 terms in n variables, by degree."""
    powers = itertools.product(range(2 * terms + 1), repeat=n)
    return np.array(sorted((a for a in powers if sum(a) in range(2, 2 * terms + 1, 2)), key=sum))


def _monomials(d, count):
    """d^α for the first `count` even monomials. The powers are selected by sums, whose derivatives have no scatters."""
    terms = next(terms for terms in itertools.count(1) if len(_exponents(d.size, terms)) == count)
    powers = jnp.stack([d**k for k in range(2 * terms + 1)], axis=1)  # [i, k]
    chosen = jnp.asarray(np.eye(2 * terms + 1)[_exponents(d.size, terms)], d.dtype)  # [α, i, k]
    return functools.reduce(jnp.multiply, jnp.sum(chosen * powers[None], axis=2).T)


def _fitted(space, centre, half, reach, tolerance):
    """The table of the lowest degrees that reach the tolerance, and its error."""
    distances = _sampler(space, centre, half, reach)
    rng = np.random.default_rng(0)
    # The test points are denser near the edges, where the errors of polynomials are largest.
    tests = np.cos(np.pi * rng.random((TESTS, space.dim))) / MARGIN, _in_ball(rng, rng.random(TESTS) ** 0.5, space.dim)
    tried = jax.jit(jax.vmap(_evaluate, (None, 0, 0)))
    degrees, terms = np.where(np.isinf(half), 0, 6), 3
    last, stalled = np.inf, 0
    table = _coefficients(distances, degrees, terms)  # It has few nodes: what they do not find is told soon.
    wanted = distances(*tests)
    while True:
        error = SAFETY * float(np.max(np.abs(np.sqrt(np.maximum(tried(table, *tests), 0) / wanted) - 1)))
        if error <= tolerance:
            return table, error
        tails = _tails(table, terms) / np.min(wanted / np.sum(tests[1] ** 2, axis=1))
        grow = tails >= 0.1 * np.max(tails)
        degrees, terms = np.where(grow[1:], degrees * 3 // 2, degrees), terms + int(grow[0])
        pairs = np.prod(degrees + 1) * len(_offsets(terms, space.dim)[0])
        last, stalled = error, stalled + 1 if error > last / 2 else 0  # Rounding, or a metric that is not smooth.
        if stalled == MOST_STALLED or 2 * terms > HIGHEST_POWER or max(degrees) > HIGHEST_DEGREE or pairs > MOST_PAIRS:
            raise ValueError(
                f"tolerance={tolerance} is not reached with reach={reach.tolist()}: the error is {error:.1e} with "
                f"polynomials of degree {2 * terms - 2} in the difference. Take a smaller reach, a smaller "
                "box or a larger tolerance"
            )
        table = _coefficients(distances, degrees, terms)


def _coefficients(distances, degrees, terms):
    """The table [k_1, …, k_n, α]: least squares in d, interpolation in m."""
    nodes = [np.cos(np.pi * (np.arange(k + 1) + 0.5) / (k + 1)) for k in degrees]
    u = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, len(degrees))
    d, inverse = _offsets(terms, len(degrees))
    pairs = np.repeat(u, len(d), axis=0), np.tile(d, (len(u), 1))
    values = distances(*pairs, FEW_NODES).reshape(len(u), len(d)) / np.sum(d**2, axis=1)
    table = (values @ inverse.T).reshape(*(degrees + 1), -1)
    for axis, x in enumerate(nodes):
        to_coefficients = np.linalg.inv(np.polynomial.chebyshev.chebvander(x, len(x) - 1))
        table = np.moveaxis(np.tensordot(to_coefficients, table, (1, axis)), 0, axis)
    return table


def _offsets(terms, n):
    """Differences d in the unit ball, three for each monomial, and the matrix that maps dist²/|d|² there to the
    coefficients of the monomials."""
    exponents = _exponents(n, terms)
    rng = np.random.default_rng(1)
    radii = np.cos(np.pi * (np.arange(terms + 1) + 0.5) / (2 * terms + 2))
    d = _in_ball(rng, np.resize(radii, 3 * len(exponents)), n)
    return d, np.linalg.pinv(np.prod(d[:, None] ** exponents, axis=2) / np.sum(d**2, axis=1, keepdims=True))


def _in_ball(rng, radii, n):
    direction = rng.standard_normal((len(radii), n))
    return radii[:, None] * direction / np.linalg.norm(direction, axis=1, keepdims=True)


def _tails(table, terms):
    """The size of the terms of the highest degree in d, then of those of the highest two degrees in each coordinate of
    m."""
    # On the unit interval x^2j is, up to lower degrees, a Chebyshev polynomial divided by 2^(2j − 1).
    power = np.sum(_exponents(table.ndim - 1, terms), axis=1)
    size = np.abs(table) / 2.0 ** (power - 1)
    along = [np.moveaxis(size, a, 0)[-2:].max() if size.shape[a] > 1 else 0 for a in range(size.ndim - 1)]
    return np.array([size[..., power == 2 * terms].max(), *along])


def _sampler(space, centre, half, reach):
    """The function (u, d) -> dist² for scaled midpoints u[P, n] and differences d[P, n]; it raises ValueError if a
    distance is not found."""
    solve = eqx.filter_jit(lambda x, y, nodes: jax.vmap(lambda x, y: squared_distance(space, x, y, nodes=nodes))(x, y))

    def distances(u, d, nodes=NODES):
        x, y = (centre + np.where(np.isinf(half), 0, half) * u + sign * reach * d / 2 for sign in (-1, 1))
        full = [np.resize(points, (-(-len(points) // BATCH) * BATCH, space.dim)) for points in (x, y)]
        parts = []
        for i in range(0, len(full[0]), BATCH):
            starts, ends = (points[i : i + BATCH] for points in full)
            values = np.asarray(solve(starts, ends, nodes))
            if not np.all(values > 0):
                bad = int(np.argmin(values > 0))
                raise ValueError(
                    f"the distance from {starts[bad].tolist()} to {ends[bad].tolist()} is not found: the metric must "
                    f"be regular half a reach={reach.tolist()} around the box, and the points joined by one geodesic. "
                    "Take a smaller reach or box"
                )
            parts.append(values)
        return np.concatenate(parts)[: len(x)]

    return distances


def _box(space, lower, upper, reach):
    """(centre, half-width, reach) of the box as arrays [n], with infinite half-widths for unbounded coordinates.
    ValueError if the arguments do not describe a box."""
    n = space.dim
    try:
        lower, upper = (np.asarray(x, float).reshape(n) for x in (lower, upper))
        reach = np.broadcast_to(np.asarray(reach, float), (n,))
    except (TypeError, ValueError):
        raise ValueError(
            f"lower and upper must be [{n}] and reach one number or [{n}]; got {lower!r}, {upper!r} and {reach!r}"
        ) from None
    free = np.isneginf(lower) & np.isposinf(upper)
    if not np.all(free | np.isfinite(lower) & np.isfinite(upper) & (lower < upper)):
        raise ValueError(
            f"lower must be below upper, both finite, or -inf and inf where the metric does not depend on the "
            f"coordinate; got {lower.tolist()} and {upper.tolist()}"
        )
    if not np.all(np.isfinite(reach) & (reach > 0)):
        raise ValueError(f"reach must be positive and finite, got {reach.tolist()}")
    centre, half = np.zeros(n), np.full(n, np.inf)
    centre[~free], half[~free] = (upper[~free] + lower[~free]) / 2, MARGIN * (upper[~free] - lower[~free]) / 2
    _check_symmetry(space, centre, half)
    return centre, half, reach


def _check_rounding(centre, half, reach, tolerance):
    """ValueError where differences of coordinates of the size of the box have not so many digits: two points of the
    table are a few hundredths of the reach apart, or more."""
    size = np.abs(centre) + np.where(np.isinf(half), 0, half)
    rounding = np.max(float(jnp.finfo(float).eps) * size / (NEAREST * reach))
    if rounding > tolerance:
        raise ValueError(
            f"tolerance={tolerance} is not reached with reach={reach.tolist()}: for coordinates as large as "
            f"{np.max(size):.3g}, rounding alone makes an error of {rounding:.1e}. Take a larger reach, a box nearer "
            "to the origin or a larger tolerance"
        )


def _check_symmetry(space, centre, half):
    """ValueError unless the metric, at random points, depends on no unbounded coordinate."""
    free = np.isinf(half)
    u = np.random.default_rng(2).uniform(-1, 1, (16, half.size))
    points = jnp.asarray(centre + u * np.where(free, 3.0, half))
    slopes, sizes = (np.abs(jax.vmap(f)(points)) for f in (jax.jacfwd(space.metric), space.metric))
    for axis in np.flatnonzero(free):
        if np.any(slopes[..., axis].max(axis=(1, 2)) > 1e-10 * sizes.max(axis=(1, 2))):
            raise ValueError(f"the metric depends on coordinate {axis}: give it finite bounds in lower and upper")
