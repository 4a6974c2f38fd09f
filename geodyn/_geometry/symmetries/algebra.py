"""The algebra of the Killing fields of a space: which pairs at one point they are, and their brackets.

It is found outside of JAX, in double precision, since its dimension is a number of singular values that are zero. The
pairs are written in an orthonormal frame e_i at the point, y = (k_i, α_ij for i < j), all indices lowered.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._engine.native import native_rows
from geodyn._foundations.typing import Array, Float
from geodyn._geometry.manifold.manifold import AbstractManifold, domain_of, period_of
from geodyn._geometry.manifold.tensors import curvature_and_gradient_at, curvature_at
from geodyn._geometry.symmetries.prolongation import (
    STAGES,
    changes,
    nodes_between,
    pairs_of,
    rate,
    two_forms,
)
from geodyn._integrators.contract.tableau import gauss

# From the point one looks along so many rays, on each at the ends of so many steps; around a period in so many.
RAYS = 6
STEPS = 4
STEPS_AROUND = 32
# What is carried by that many steps is compared with what half of them say, and more steps are taken until they agree,
# or are too many. What differs more even then is unknown.
MOST_STEPS = 64
RESOLVED, UNKNOWN = 1e-12, 1e-4
# Where pairs grow more than that, their rounding errors hide what they change.
MOST_GROWTH = 1e6
# Tensors at more points than these are computed by the same program, called again.
AT_ONCE = RAYS * STEPS * STAGES // 2
# A singular value, in units of its rounding error, is zero below the first number and is not above the second. Right
# answers had 0.2 at most for what is zero.
ZERO = 30.0
NONZERO = 1e4
# Brackets of Killing fields are Killing fields but for this relative error, where their number is right.
CLOSED = 1e-8


class Frame(NamedTuple):
    """An orthonormal frame at a point: its vectors [n, n] (columns), the signs of their squares [n], and the inverse
    matrix."""

    vectors: Float[np.ndarray, "n n"]
    signs: Float[np.ndarray, " n"]
    inverse: Float[np.ndarray, "n n"]


class Evidence(NamedTuple):
    """What was found around a point: the singular values in units of their rounding errors, ascending [N]; the
    directions in the space of pairs that belong to them, in the `units` [N, N]; the `ends` of the rays [R, n], the
    `metrics` there [R, n, n], and how pairs in the `units` change the curvature there [M, N]. Where pairs are carried
    with an error that is larger than that of rounding, by the factor `blur`, only what is larger by it is not zero for
    certain."""

    singular: Float[np.ndarray, " N"]
    directions: Float[np.ndarray, "N N"]
    ends: Float[np.ndarray, "R n"]
    metrics: Float[np.ndarray, "R n n"]
    changes: Float[np.ndarray, "M N"]
    units: "Units"
    blur: float

    @property
    def least(self) -> int:
        """How many of the singular values are zero."""
        return int(np.sum(self.singular < ZERO))

    @property
    def most(self) -> int:
        """How many may be zero."""
        return int(np.sum(self.singular < NONZERO * self.blur))

    @property
    def gap(self) -> float:
        """The smallest of them that is not zero over the largest that is, or over its rounding error."""
        dim = self.least
        least = self.singular[dim] if dim < self.singular.size else np.inf
        largest_zero = self.singular[dim - 1] if dim else 1.0
        return float(least / max(1.0, largest_zero))


def frame_of(g: Float[np.ndarray, "n n"]) -> Frame:
    """The frame of a metric. That of a positive definite one begins along the first coordinate."""
    unit = np.max(np.abs(g), axis=1) ** -0.5  # Coordinates may have other units, such as angles beside metres.
    eigenvalues, eigenvectors = np.linalg.eigh(unit[:, None] * g * unit)
    if eigenvalues[0] > 0:
        vectors = np.linalg.inv(np.linalg.cholesky(g)).T
        signs = np.ones(len(g))
    else:
        vectors = unit[:, None] * eigenvectors / np.sqrt(np.abs(eigenvalues))
        signs = np.sign(eigenvalues)
    # The products of the vectors are ±1, so that their inverse matrix needs no solution of equations.
    inverse = signs[:, None] * (vectors.T @ g)
    return Frame(vectors, signs, inverse)


def to_coordinates(frame: Frame) -> Float[np.ndarray, "N N"]:
    """The matrix that takes pairs in the frame to pairs in coordinates."""
    return _of_pairs(frame.inverse)


def to_frame(frame: Frame) -> Float[np.ndarray, "N N"]:
    """The matrix that takes pairs in coordinates to pairs in the frame."""
    return _of_pairs(frame.vectors)


def _of_pairs(change: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "N N"]:
    """How pairs change with a basis, if the components of a field are multiplied by this matrix from the right."""
    n = len(change)
    a, b = pairs_of(n)
    forms = np.einsum("ia,pij,jb->pab", change, two_forms(n), change)
    matrix = np.zeros((n + a.size, n + a.size))
    matrix[:n, :n] = change.T
    matrix[n:, n:] = forms[:, a, b].T
    return matrix


@jit
def _rates(space: AbstractManifold, nodes: Float[Array, "M n"], directions: Float[Array, "M n"]):
    """The matrices [M, N, N] of z' = M z at these points, for pairs that move with these velocities."""
    return native_rows(lambda x, u: rate(curvature_at(space, x), u), nodes, directions)


@jit
def _changes(space: AbstractManifold, points: Float[Array, "M n"]):
    """(the metric, Γ, R, L_K R for each unknown) at these points."""

    def at(x: Float[Array, " n"]) -> tuple[Array, Array, Array, Array]:
        tensors, gradient = curvature_and_gradient_at(space, x)
        return tensors.metric, tensors.christoffel, tensors.riemann, changes(tensors, gradient)

    return native_rows(at, points)


def tensors_at(space: AbstractManifold, points: Float[np.ndarray, "M n"]) -> list[np.ndarray]:
    """The tensors of `_changes`; for up to as many points as `evidence` asks for by one program."""
    missing = max(0, RAYS * STEPS - len(points))
    padded = np.concatenate([points, np.repeat(points[-1:], missing, axis=0)])
    return [np.asarray(x)[: len(points)] for x in _changes(space, jnp.asarray(padded))]


class Units(NamedTuple):
    """Pairs are written with numbers of one size, whatever the units of the coordinates: in a frame, with lengths in
    units of the radius. These are the matrix from there to coordinates, and its inverse."""

    to_coordinates: Float[np.ndarray, "N N"]
    from_coordinates: Float[np.ndarray, "N N"]


def units_of(frame: Frame, radius: float) -> Units:
    """Those of a frame."""
    n = len(frame.signs)
    unit = np.append(np.full(n, radius), np.ones(n * (n - 1) // 2))
    return Units(to_coordinates(frame) * unit, to_frame(frame) / unit[:, None])


def transports(
    space: AbstractManifold, x0: Float[np.ndarray, " n"], ends: Float[np.ndarray, "R n"], steps: int, units: Units
) -> Float[np.ndarray, "R s N N"]:
    """The matrices that carry pairs, in these units, from x0 to the ends of the steps on the segments to each of the
    ends."""
    nodes = np.stack([nodes_between(x0, end, steps) for end in ends])
    directions = np.broadcast_to((ends - x0)[:, None, None], nodes.shape)
    n = nodes.shape[-1]
    rates = _rates_at(space, nodes.reshape(-1, n), directions.reshape(-1, n))
    rates = units.from_coordinates @ rates @ units.to_coordinates
    rates = rates.reshape(len(ends), steps, STAGES, *rates.shape[1:])
    size = rates.shape[-1]
    carrier = np.broadcast_to(np.eye(size), (len(ends), size, size))
    after_each = []
    for k in range(steps):
        carrier = _after_step(carrier, rates[:, k], 1 / steps)
        after_each.append(carrier)
    return np.stack(after_each, axis=1)


def _rates_at(
    space: AbstractManifold, nodes: Float[np.ndarray, "M n"], directions: Float[np.ndarray, "M n"]
) -> Float[np.ndarray, "M N N"]:
    """The matrices of `_rates`, for any number of points."""
    rates = []
    for start in range(0, len(nodes), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        missing = max(0, start + AT_ONCE - len(nodes))
        both = [np.concatenate([x[some], np.repeat(x[-1:], missing, axis=0)]) for x in (nodes, directions)]
        rates.append(np.asarray(_rates(space, *map(jnp.asarray, both)))[: AT_ONCE - missing])
    return np.concatenate(rates)


class Carriers(NamedTuple):
    """The matrices that carry pairs to the places on the segments, and by how much they are off, relative to the
    largest."""

    matrices: Float[np.ndarray, "R s N N"]
    off: float


def _carriers(
    space: AbstractManifold, x0: Float[np.ndarray, " n"], ends: Float[np.ndarray, "R n"], units: Units
) -> Carriers:
    """The `Carriers` from x0, by as many steps as they need."""
    steps = STEPS
    coarse = transports(space, x0, ends, steps // 2, units)
    while True:
        fine = transports(space, x0, ends, steps, units)
        off = float(np.max(np.abs(fine[:, 1::2] - coarse)) / np.max(np.abs(fine)))
        if off <= RESOLVED or steps == MOST_STEPS:
            every = steps // STEPS
            return Carriers(fine[:, every - 1 :: every], off)
        coarse = fine
        steps *= 2


def _after_step(
    carrier: Float[np.ndarray, "R N N"], rates: Float[np.ndarray, "R s N N"], h: float
) -> Float[np.ndarray, "R N N"]:
    """The matrices Z after a step of length h of Gauss collocation for Z' = M Z, with M at its stages. The equation is
    linear, and so are those of the stages: one solution gives them all."""
    tableau = gauss(STAGES)
    size = rates.shape[-1]
    full = STAGES * size
    coupling = np.einsum("ij,riab->riajb", tableau.a, rates).reshape(-1, full, full)
    at_start = (rates @ carrier[:, None]).reshape(-1, full, size)
    try:
        slopes = np.linalg.solve(np.eye(full) - h * coupling, at_start)
    except np.linalg.LinAlgError:  # The steps are far too long.
        return np.full_like(carrier, np.nan)
    return carrier + h * np.einsum("i,riab->rab", tableau.b, slopes.reshape(-1, STAGES, size, size))


def ways_from(n: int) -> Float[np.ndarray, "R n"]:
    """The directions of the rays: any, but always the same."""
    ways = np.random.default_rng(0).normal(size=(RAYS, n))
    return ways / np.linalg.norm(ways, axis=1, keepdims=True)


def evidence(
    space: AbstractManifold, x0: Float[np.ndarray, " n"], frame: Frame, radius: float, error: float
) -> Evidence | None:
    """The `Evidence` within a radius of x0, for tensors with this relative error; None if that leads out of the space:
    the chart ends there, or the metric is not finite, or degenerate, or changes too fast for so many steps."""
    n = x0.size
    ends = x0 + radius * ways_from(n) @ frame.vectors.T
    places = np.arange(1, STEPS + 1) / STEPS
    points = x0 + places[None, :, None] * (ends - x0)[:, None]
    points = points.reshape(-1, n)
    if not all(domain_of(space).holds(x) for x in points):
        return None
    tensors = tensors_at(space, points)
    units = units_of(frame, radius)
    carriers, off = _carriers(space, x0, ends, units)
    if not off <= UNKNOWN or not all(np.isfinite(x).all() for x in tensors):
        return None
    frames = [frame_of(g) for g in tensors[0]]
    if any(not np.array_equal(np.sort(x.signs), np.sort(frame.signs)) for x in frames):
        return None
    vectors = np.stack([x.vectors for x in frames])
    *_, changes_there = tensors
    in_frames = np.einsum("xabcdN,xai,xbj,xck,xdl->xijklN", changes_there, *[vectors] * 4, optimize=True)
    # How pairs at x0 change the curvature at the points, to which they are carried: all zero for Killing fields.
    size = carriers.shape[-1]
    at_points = units.to_coordinates @ carriers
    equations = radius**2 * _independent(in_frames) @ at_points.reshape(-1, size, size)
    equations = equations.reshape(-1, size)
    growth = _growth([units_of(x, radius) for x in frames], at_points.reshape(-1, size, size))
    if not growth <= MOST_GROWTH:
        return None
    noise = error * growth * (1 + radius**2 * _largest(frames, tensors)) * max(1, len(equations)) ** 0.5
    around = _around(space, x0, units).reshape(-1, size)
    nothing = np.zeros((size, size))  # A line has no curvature, and so no equations.
    # The triangular factor has the same singular values, and few rows.
    _, singular, directions = np.linalg.svd(np.concatenate([np.linalg.qr(equations)[1], around, nothing]))
    last_changes = _independent(changes_there).reshape(RAYS, STEPS, -1, size)[:, -1]
    at_ends = last_changes @ at_points[:, -1]
    return Evidence(
        singular=singular[::-1] / noise,
        directions=directions[::-1],
        ends=ends,
        metrics=tensors[0].reshape(RAYS, STEPS, n, n)[:, -1],
        changes=at_ends.reshape(-1, size),
        units=units,
        blur=max(1.0, off / error) if off > RESOLVED else 1.0,
    )


def _largest(frames: list[Frame], tensors: list[np.ndarray]) -> float:
    """The largest size of the numbers that cancel in the curvature, in frames at these points."""
    _, gamma, riemann, _ = tensors
    vectors = np.stack([frame.vectors for frame in frames])
    inverses = np.stack([frame.inverse for frame in frames])
    symbols = np.einsum("xia,xabc,xbj,xck->xijk", inverses, gamma, vectors, vectors)
    curvature = np.einsum("xabcd,xai,xbj,xck,xdl->xijkl", riemann, *[vectors] * 4, optimize=True)
    size_of_symbols = np.sum(np.abs(symbols), axis=(1, 2, 3))
    size_of_curvature = np.sum(np.abs(curvature), axis=(1, 2, 3, 4))
    return float(np.max(size_of_symbols**2 + size_of_curvature))


def _growth(units: list[Units], carriers: Float[np.ndarray, "x N N"]) -> float:
    """By how much pairs grow on the way to points, and their rounding errors with them; 1 where they do not."""
    carried = [there.from_coordinates @ carrier for there, carrier in zip(units, carriers, strict=True)]
    return max(1.0, float(np.max(np.abs(carried))))


def _independent(change: Float[np.ndarray, "x n n n n N"]) -> Float[np.ndarray, "x r N"]:
    """The components of a tensor with the symmetries of the curvature that are not those of others."""
    a, b = pairs_of(change.shape[1])
    first, second = np.triu_indices(a.size)
    return change[:, a[first], b[first], a[second], b[second]]


def _around(space: AbstractManifold, x0: Float[np.ndarray, " n"], units: Units) -> Float[np.ndarray, "L N N"]:
    """What a pair has become once around each period of the chart, less the pair: only what comes back to itself is a
    symmetry of the closed space."""
    n = x0.size
    size = n * (n + 1) // 2
    found = []
    for axis, period in enumerate(period_of(space) or ()):
        if np.isfinite(period):
            end = x0 + period * np.eye(n)[axis]
            carrier = transports(space, x0, end[None], STEPS_AROUND, units)[0, -1]
            found.append(carrier - np.eye(len(carrier)))
    return np.reshape(found, (-1, size, size))


class Algebra(NamedTuple):
    """A basis of pairs in the frame [d, N], the structure constants c[k, i, j] of [K_i, K_j] = Σ_k c_kij K_k, and how
    far brackets are from the span of the basis."""

    basis: Float[np.ndarray, "d N"]
    structure: Float[np.ndarray, "d d d"]
    closure: float


def algebra_of(
    directions: Float[np.ndarray, "d N"],
    curvature: Float[np.ndarray, "n n n n"],
    signs: Float[np.ndarray, " n"],
    radius: float,
) -> Algebra:
    """The algebra of these pairs, in the canonical basis. `curvature` is R_ijkl in the frame. Lengths of the directions
    are in units of the radius, those of the basis are not."""
    n = len(signs)
    basis = _canonical(directions, n)
    curvature = radius**2 * curvature
    i, j = pairs_of(n)
    k = basis[:, :n] * signs  # indices raised
    alpha = signs[:, None] * np.einsum("dp,pij->dij", basis[:, n:], two_forms(n))
    # [K, L] = ∇_K L − ∇_L K, and ∇[K, L] = [∇L, ∇K] + R(K, L)
    fields = np.einsum("jab,ib->ija", alpha, k) - np.einsum("iab,jb->ija", alpha, k)
    forms = np.einsum("jab,ibc->ijac", alpha, alpha) - np.einsum("iab,jbc->ijac", alpha, alpha)
    forms = signs[:, None] * forms + np.einsum("abcd,ic,jd->ijab", curvature, k, k)
    brackets = np.concatenate([fields * signs, forms[..., i, j]], axis=-1)
    structure = np.einsum("ijN,Nk->kij", brackets, np.linalg.pinv(basis))
    rest = brackets - np.einsum("kij,kN->ijN", structure, basis)
    scale = max(1.0, np.max(np.abs(brackets), initial=0.0))
    closure = float(np.max(np.abs(rest), initial=0.0) / scale)
    # A translation is of length 1, no longer of the radius.
    speeds = np.where(np.arange(len(basis)) < orbit_dimension(basis, n), 1 / radius, 1.0)
    units = np.where(np.arange(basis.shape[1]) < n, radius, 1.0)
    structure = structure * speeds[:, None] * speeds / speeds[:, None, None]
    return Algebra(speeds[:, None] * basis * units, structure, closure)


def orbit_dimension(basis: Float[np.ndarray, "d N"], n: int) -> int:
    """How many of the fields of a canonical basis are translations: the others vanish at the point."""
    return int(np.sum(np.any(np.abs(basis[:, :n]) > 1e-8, axis=1)))


def _canonical(directions: Float[np.ndarray, "d N"], n: int) -> Float[np.ndarray, "d N"]:
    """The basis with the translations first, of unit length and as far as they go along the vectors of the frame; then
    what leaves the point where it is, each turning by 2π in the time 2π where it turns at all."""
    if not len(directions):
        return directions
    ways, sizes, _ = np.linalg.svd(directions[:, :n])
    rank = int(np.sum(sizes > 1e-8 * np.max(sizes, initial=0.0)))
    still = _echelon_form(ways[:, rank:].T @ directions)
    still[:, :n] = 0.0
    moving = ways[:, :rank].T @ directions
    # Of two translations that differ by a rotation that with the least turning.
    if len(still):
        turning = moving[:, n:] @ np.linalg.pinv(still[:, n:])
        moving = moving - turning @ still
    moving = _echelon_form(moving)
    moving /= np.linalg.norm(moving[:, :n], axis=1, keepdims=True)
    rotations = np.einsum("dp,pij->dij", still[:, n:], two_forms(n))
    speeds = [np.max(np.abs(np.linalg.eigvals(x)), initial=0.0) for x in rotations]
    still = still / np.reshape([x if x > 1e-8 else 1.0 for x in speeds], (-1, 1))
    return np.concatenate([moving, still])


def _echelon_form(rows: Float[np.ndarray, "d N"]) -> Float[np.ndarray, "d N"]:
    """The reduced echelon form of linearly independent rows: each is 1 in one column in which all others are 0. Columns
    are taken from the left, where they are not small."""
    rows = np.array(rows)
    done = 0
    for column in range(rows.shape[1]):
        rest = np.abs(rows[done:, column])
        if done == len(rows) or not np.max(rest) > 1e-6 * np.max(np.abs(rows[done:])):
            continue
        best = done + int(np.argmax(rest))
        rows[[done, best]] = rows[[best, done]]
        rows[done] /= rows[done, column]
        others = np.arange(len(rows)) != done
        rows[others] -= rows[others, column, None] * rows[done]
        done += 1
    return rows
