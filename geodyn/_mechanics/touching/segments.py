"""Geodesic segments between points of any space, and where two of them are nearest to each other.

A point of a segment is that of its geodesic at a parameter from 0 to 1, on the polynomial that solves for the geodesic.
The half square of the distance of two such points, E(s, t), is least in the square [0, 1]². Its slope is that of the
first variation, (−p(0) · γ', p(1) · γ'), with the momenta that the distance gives anyway. So is the slope of the least
distance in the ends of the segments, for which s and t stay as they are. In constant curvature no path is needed: the
chord of the two points follows from those of the ends.

Where no curvature is positive E is convex, and a search from anywhere ends where it is least. Else it may have several
valleys, of nearly parallel arcs one at each end. On the sphere the search is known to begin above the lowest. In
products with a sphere and in general metrics the least of what five searches find is taken: in 21600 drawn pairs of
arcs in S²×E that run side by side none of them was wrong, but nothing rules out that there is a lower valley.

Letters of the shapes: n coordinates of a point, q nodes of a path, k polynomials, c pairs of segments."""

import abc
import functools
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import change_of, custom_jvp, jit
from geodyn._engine.native import native_of
from geodyn._engine.numerics.roots import without_derivatives
from geodyn._engine.tracing import batched_as
from geodyn._foundations.typing import Array, Bool, Float, Int, Scalar
from geodyn._geometry.geodesics.between import short_path
from geodyn._geometry.geodesics.distances import distance_or_far, half_square, is_solved, log_of, nearest_image
from geodyn._geometry.geodesics.paths import gauss
from geodyn._geometry.geodesics.relaxation import Effort
from geodyn._geometry.manifold.manifold import AbstractManifold, safe_sqrt
from geodyn._geometry.models.charts import cosine, sine_ratio, squared_arc
from geodyn._geometry.models.spaces import AbstractConstantCurvature, Product

PATH_NODES = 16
MOST_TURNS = 40
# Of the eigenvalues of a matrix [2, 2]: what is smaller, relative to the sum of both, is rounding.
SINGULAR = 1e-12
NOISE = 16  # Roundings in a half square and its slope.
EDGES = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])
# Where the search may begin, the middle first. It begins elsewhere only where that is nearer by more than rounding.
MIDDLE_AND_CORNERS = np.array([(0.5, 0.5), (0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)])
SIDES = np.array([(0.0, 0.5), (0.5, 0.0), (0.5, 1.0), (1.0, 0.5)])
STARTS = np.concatenate([MIDDLE_AND_CORNERS, SIDES])
NONE = np.zeros((0, 2))
NEARER = 1e-6  # Where the half square comes from a path.


class Path(eqx.Module):
    """A segment in any space: its start, and its velocities at the Gauss nodes of the time from 0 to 1."""

    start: Float[Array, " n"]
    velocities: Float[Array, "q n"]

    def at(self, s: Scalar) -> Float[Array, " n"]:
        """The point at the parameter s."""
        to_position = jnp.asarray(_integrals(len(self.velocities)), self.start.dtype)
        z = jnp.asarray(2 * s - 1, self.start.dtype)
        return self.start + _legendre(z, count=len(to_position)) @ (to_position @ self.velocities)


@functools.cache
def _integrals(nodes: int) -> Float[np.ndarray, "k q"]:
    """The matrix from the velocities at Gauss nodes to the Legendre coefficients of the displacement."""
    rule = gauss(nodes)
    degrees = np.arange(nodes)
    # From values at the nodes to coefficients of the P_k, whose mean squares are 1 / (2 k + 1).
    modes = (rule.polynomials * rule.weights[:, None]).T * np.sqrt(2 * degrees + 1)[:, None]
    # Their integrals over time: (2 k + 1) ∫ P_k dz = P_(k + 1) − P_(k − 1), and ∫ P_0 dz = P_1 + P_0, with dz = 2 dt.
    integral = np.zeros((nodes + 1, nodes))
    integral[degrees + 1, degrees] = 0.5 / (2 * degrees + 1)
    integral[degrees[:-1], degrees[1:]] = -0.5 / (2 * degrees[1:] + 1)
    integral[0, 0] = 0.5
    return integral @ modes


@custom_jvp
def _legendre(z: Scalar, *, count: int) -> Float[Array, " k"]:
    """The Legendre polynomials P_0, P_1, … at z."""
    values = [jnp.ones_like(z), z]
    for k in range(1, count - 1):
        values.append(((2 * k + 1) * z * values[k] - k * values[k - 1]) / (k + 1))
    return jnp.stack(values)


@_legendre.def_jvp
def _(primals: tuple[Scalar], tangents: tuple[Scalar], *, count: int) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    values = _legendre(*primals, count=count)
    k, j = np.ogrid[:count, :count]
    # P_k' is the sum of (2 j + 1) P_j over j = k − 1, k − 3, …
    slopes = jnp.asarray(np.where((j < k) & ((k - j) % 2 == 1), 2 * j + 1, 0), values.dtype)
    return values, (slopes @ values) * tangents[0]


def path(space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"]) -> Path:
    """The segment from x to y; NaN where it is so long that its nodes do not resolve it."""
    return Path(x, short_path(space, x, nearest_image(space, x, y), PATH_NODES))


class Arc(eqx.Module):
    """A segment in constant curvature: its start, and its velocity there."""

    space: AbstractConstantCurvature
    start: Float[Array, " n"]
    velocity: Float[Array, " n"]

    def at(self, s: Scalar) -> Float[Array, " n"]:
        """The point at the parameter s."""
        return self.space.exp(self.start, s * self.velocity)


@functools.singledispatch
def segment_of(space: AbstractManifold, x: Float[Array, " n"], y: Float[Array, " n"]) -> Path | Arc:
    """The segment from x to y, whose points are `at` the parameters from 0 to 1."""
    return path(space, x, y)


@segment_of.register
def _(space: AbstractConstantCurvature, x: Float[Array, " n"], y: Float[Array, " n"]) -> Arc:
    return Arc(space, x, log_of(space, x, y, PATH_NODES))


class AbstractTouch(eqx.Module):
    """Two segments that may touch, as functions of two parameters."""

    @property
    @abc.abstractmethod
    def dtype(self) -> np.dtype:
        """The precision of its numbers."""

    @property
    @abc.abstractmethod
    def is_convex(self) -> bool:
        """Whether the half square has one valley only, since no curvature is positive."""

    @abc.abstractmethod
    def starts(self) -> Float[Array, "k 2"]:
        """Where the search for the least distance may begin, the middle first. It begins at the nearest of them."""

    @abc.abstractmethod
    def other_starts(self) -> Float[np.ndarray, "m 2"]:
        """Where further searches begin, where the first one may end in a valley that is not the lowest."""

    @abc.abstractmethod
    def noise(self, half_square: Float[Array, "..."]) -> Float[Array, "..."]:
        """By how much another half square must be less for its place to be clearly nearer."""

    @abc.abstractmethod
    def half_square(self, at: Float[Array, "2"]) -> Scalar:
        """Half the square of the distance of the points at two parameters. Infinite where it is not found."""

    @abc.abstractmethod
    def distance(self, at: Float[Array, "2"]) -> Scalar:
        """The distance of the points at two parameters."""

    @abc.abstractmethod
    def expand(self, at: Float[Array, "2"]) -> "Expansion":
        """A function of two parameters that grows with the distance, such as its half square, and its derivatives."""


class Expansion(NamedTuple):
    """A function of two parameters, its slope and its second derivative."""

    value: Scalar
    slope: Float[Array, "2"]
    hessian: Float[Array, "2 2"]


def _by_autodiff(function: Callable[[Float[Array, "2"]], Scalar], at: Float[Array, "2"]) -> Expansion:
    def slope(at: Float[Array, "2"]) -> tuple[Float[Array, "2"], tuple[Scalar, Float[Array, "2"]]]:
        value, slope = jax.value_and_grad(function)(at)
        return slope, (value, slope)

    hessian, (value, there) = jax.jacfwd(slope, has_aux=True)(at)
    return Expansion(value, there, hessian)


class OfEdges(AbstractTouch):
    """Two segments in constant curvature, by the six squared chords of their ends alone, in the order 01, 02, 03, 12,
    13, 23, and the squares of their lengths. So no digits are lost far out.

    In the embedding, points of segments are sums of their ends with coefficients that are sines, and the products of
    these are κ<P, Q> = 1 − κ chord²/2. With the coefficients c of the first point and minus those of the second, the
    square of their chord is κ(Σ c)² − Σ c_i c_j chord_ij² over the six pairs. In flat space Σ c = 0."""

    chords: Float[Array, "6"]
    squares: Float[Array, "2"]
    curvature: int = eqx.field(static=True)

    @property
    def dtype(self) -> np.dtype:
        return self.chords.dtype

    @property
    def is_convex(self) -> bool:
        return self.curvature <= 0

    def starts(self) -> Float[Array, "k 2"]:
        """On the sphere the nearest place of the edges of the square is among them. If no place inside is nearer, that
        is the one searched for. If one is, the cosine of the distance is A cos(s − t) + B cos(s + t) with A and B ≥ 0,
        in lengths from there, so that the way there is downhill from all places with |s − t| and |s + t| < π. And the
        nearest place of the edges is one of these: any other has the distance of (s ± π, t ± π), which is outside of
        the square, and on the way from there a place of an edge is nearer."""
        if self.is_convex:
            return jnp.asarray(STARTS, self.dtype)
        return jnp.concatenate([jnp.asarray(MIDDLE_AND_CORNERS, self.dtype), self._nearest_on_edges()])

    def _nearest_on_edges(self) -> Float[Array, "4 2"]:
        """On the edges of the square, of which each is an end of a segment, the places that are nearest on the whole
        great circle of the other one, cut off at the edges."""
        chords = self._chord_matrix()
        found = []
        for segment, end in itertools.product((0, 1), (0, 1)):
            other = 1 - segment
            point = 2 * segment + end
            to_first = chords[point, 2 * other]
            to_last = chords[point, 2 * other + 1]
            length = jnp.sqrt(self.squares[other])
            # P·Q = 1 − chord²/2, of the point P and the ends Q of the other segment.
            along = jnp.sin(length) * (1 - to_first / 2)
            across = 1 - to_last / 2 - jnp.cos(length) * (1 - to_first / 2)
            part = jnp.arctan2(across, along) / jnp.where(length > 0, length, 1)
            place = jnp.clip(part, 0, 1)
            held = jnp.full((), end, self.dtype)
            found.append(jnp.stack([held, place] if segment == 0 else [place, held]))
        return jnp.stack(found)

    def other_starts(self) -> Float[np.ndarray, "m 2"]:
        return NONE

    def noise(self, half_square: Float[Array, "..."]) -> Float[Array, "..."]:
        return NOISE * jnp.finfo(self.dtype).eps * (half_square + jnp.sum(self.squares))

    def half_square(self, at: Float[Array, "2"]) -> Scalar:
        c = self._coefficients(at)
        hav = jnp.maximum(jnp.dot(c, self._dual(c)) / 4, 0)
        return squared_arc(self.curvature, hav, 1 - self.curvature * hav) / 2

    def distance(self, at: Float[Array, "2"]) -> Scalar:
        return safe_sqrt(2 * self.half_square(at))

    def expand(self, at: Float[Array, "2"]) -> Expansion:
        """Of half the square of the chord, which is least where the distance is."""
        c = self._coefficients(at)
        rates = self._rates(at)
        dual = self._dual(c)
        duals = jax.vmap(self._dual)(rates)
        # A sine has the second derivative −κd² times itself.
        bend = jnp.sum((c * dual).reshape(2, 2), axis=1)
        hessian = rates @ duals.T - self.curvature * jnp.diag(self.squares * bend)
        return Expansion(jnp.dot(c, dual) / 2, rates @ dual, hessian)

    def _coefficients(self, at: Float[Array, "2"]) -> Float[Array, "4"]:
        """c at s and t: of an end at the part s of a segment of length d it is sin(sd)/sin d on the sphere."""
        parts = jnp.stack([1 - at, at], axis=1)
        sines = parts * sine_ratio(self.curvature, parts**2 * self.squares[:, None])
        return self._of_ends(sines).reshape(4)

    def _rates(self, at: Float[Array, "2"]) -> Float[Array, "2 4"]:
        """The derivatives of c in s and in t."""
        parts = jnp.stack([1 - at, at], axis=1)
        cosines = cosine(self.curvature, parts**2 * self.squares[:, None])
        rates = self._of_ends(cosines * jnp.asarray([[-1.0, 1.0]], self.dtype))
        none = jnp.zeros(2, self.dtype)
        return jnp.stack([jnp.concatenate([rates[0], none]), jnp.concatenate([none, rates[1]])])

    def _of_ends(self, sines: Float[Array, "2 2"]) -> Float[Array, "2 2"]:
        """The sines [segment, end] in units of that of the whole segment, of the second with the other sign."""
        signs = jnp.asarray([1.0, -1.0], self.dtype)
        return sines * (signs / sine_ratio(self.curvature, self.squares))[:, None]

    def _dual(self, c: Float[Array, "4"]) -> Float[Array, "4"]:
        """c° such that c · c° is the square of the chord."""
        return self.curvature * jnp.sum(c) - self._chord_matrix() @ c / 2

    def _chord_matrix(self) -> Float[Array, "4 4"]:
        """The squared chord of any two of the ends."""
        i, j = EDGES.T
        return jnp.zeros((4, 4), self.dtype).at[i, j].set(self.chords).at[j, i].set(self.chords)


class OfFactors(AbstractTouch):
    """Two segments in a product, by those in its factors: their squares add up."""

    a: AbstractTouch
    b: AbstractTouch

    @property
    def dtype(self) -> np.dtype:
        return self.a.dtype

    @property
    def is_convex(self) -> bool:
        return self.a.is_convex and self.b.is_convex

    def starts(self) -> Float[Array, "k 2"]:
        return jnp.asarray(STARTS, self.dtype)

    def other_starts(self) -> Float[np.ndarray, "m 2"]:
        return NONE if self.is_convex else SIDES

    def noise(self, half_square: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.a.noise(half_square) + self.b.noise(jnp.zeros_like(half_square))

    def half_square(self, at: Float[Array, "2"]) -> Scalar:
        return self.a.half_square(at) + self.b.half_square(at)

    def distance(self, at: Float[Array, "2"]) -> Scalar:
        return safe_sqrt(2 * self.half_square(at))

    def expand(self, at: Float[Array, "2"]) -> Expansion:
        return _by_autodiff(self.half_square, at)


class OfPaths(AbstractTouch):
    """Two segments in any space; of how many nodes paths between them may be, and at which distance they touch, below
    which there must be a path."""

    space: AbstractManifold
    first: Path
    second: Path
    reach: Scalar
    effort: Effort

    @property
    def dtype(self) -> np.dtype:
        return self.reach.dtype

    @property
    def is_convex(self) -> bool:
        return False

    def starts(self) -> Float[Array, "k 2"]:
        return jnp.asarray(STARTS, self.dtype)

    def other_starts(self) -> Float[np.ndarray, "m 2"]:
        return SIDES

    def noise(self, half_square: Float[Array, "..."]) -> Float[Array, "..."]:
        return NEARER * half_square

    def half_square(self, at: Float[Array, "2"]) -> Scalar:
        s, t = at
        return half_square(self.space, self.first.at(s), self.second.at(t), self.effort._replace(far=True))

    def distance(self, at: Float[Array, "2"]) -> Scalar:
        s, t = at
        return distance_or_far(self.space, self.first.at(s), self.second.at(t), self.effort, self.reach)

    def expand(self, at: Float[Array, "2"]) -> Expansion:
        return _by_autodiff(self.half_square, at)


@functools.singledispatch
def touch_of(space: AbstractManifold, ends: Float[Array, "4 n"], reach: Scalar, effort: Effort) -> AbstractTouch:
    """The segments between the first two and the last two of four points."""
    return _of_paths(space, ends, reach, effort)


def _of_paths(space: AbstractManifold, ends: Float[Array, "4 n"], reach: Scalar, effort: Effort) -> OfPaths:
    first = path(space, ends[0], ends[1])
    second = path(space, ends[2], ends[3])
    return OfPaths(space, first, second, reach, effort)


@touch_of.register
def _(space: AbstractConstantCurvature, ends: Float[Array, "4 n"], reach: Scalar, effort: Effort) -> AbstractTouch:
    i, j = EDGES.T
    curvature = space.chart.curvature
    havs, complements = jax.vmap(space.chart.havs)(ends[i], ends[j])
    lengths = np.array([0, 5])
    squares = jax.vmap(partial(squared_arc, curvature))(havs[lengths], complements[lengths])
    return OfEdges(4 * havs, squares, curvature)


@touch_of.register
def _(space: Product, ends: Float[Array, "4 n"], reach: Scalar, effort: Effort) -> AbstractTouch:
    if is_solved(space):
        return _of_paths(space, ends, reach, effort)
    of_a, of_b = jax.vmap(space.split)(ends)
    return OfFactors(touch_of(space.a, of_a, reach, effort), touch_of(space.b, of_b, reach, effort))


@jit
def least_distances(
    space: AbstractManifold, ends: Float[Array, "c 4 n"], reach: Float[Array, " c"], effort: Effort
) -> Float[Array, " c"]:
    """The distances of pairs of segments, the least of all distances of their points; as `distance_or_far` where that
    is not found. A program of its own, which a step asks for many times and which is traced and differentiated once."""
    return jax.vmap(lambda ends, reach: _least(touch_of(space, ends, reach, effort)))(ends, reach)


@jit
def nearest_places(
    space: AbstractManifold, ends: Float[Array, "c 4 n"], reach: Float[Array, " c"], effort: Effort
) -> Float[Array, "c 2"]:
    """The parameters at which pairs of segments are nearest to each other."""
    return jax.vmap(lambda ends, reach: nearest(touch_of(space, ends, reach, effort)))(ends, reach)


def _least(touch: AbstractTouch) -> Scalar:
    return _distance(touch, _found(touch))


def nearest(touch: AbstractTouch) -> Float[Array, "2"]:
    """The parameters at which two segments are nearest to each other. Where that is so along a whole stretch, for
    parallel ones, it is one place of it, which stays where it is."""
    return _place(touch, _found(touch))


@custom_jvp
def _distance(touch: AbstractTouch, found: Float[Array, "2"]) -> Scalar:
    """The least distance, from the parameters that were found."""
    return touch.distance(found)


@_distance.def_jvp
def _(primals: tuple[AbstractTouch, Array], tangents: tuple[AbstractTouch, Any]) -> tuple[Scalar, Scalar]:
    touch = primals[0]
    at = _place(*primals)
    # Where the distance is least it does not change with the parameters.
    return eqx.filter_jvp(lambda touch: touch.distance(at), (touch,), (tangents[0],))


@custom_jvp
def _place(touch: AbstractTouch, found: Float[Array, "2"]) -> Float[Array, "2"]:
    """The parameters of the least distance, which were found, with their derivatives."""
    return found


@_place.def_jvp
def _(
    primals: tuple[AbstractTouch, Array], tangents: tuple[AbstractTouch, Any]
) -> tuple[Float[Array, "2"], Float[Array, "2"]]:
    touch = primals[0]
    at = _place(*primals)
    # The slope stays 0: at the nearest place its change is that by the segments and by the parameters together.
    _, change = change_of(lambda touch: touch.expand(at).slope, (touch,), (tangents[0],))
    here = touch.expand(at)
    return at, -_undo(here.hessian, change, _is_free(at, here.slope))


def _is_free(at: Float[Array, "2"], slope: Float[Array, "2"]) -> Bool[Array, "2"]:
    """Which of the parameters are not held at an end of their segment."""
    return ~(((at <= 0) & (slope >= 0)) | ((at >= 1) & (slope <= 0)))


def _undo(hessian: Float[Array, "2 2"], change: Float[Array, "2"], free: Bool[Array, "2"]) -> Float[Array, "2"]:
    """The change of the parameters that are free whose image under the second derivative is the given one. Where that
    is singular, as for parallel segments, it is the smallest such change."""
    among = _among(hessian, free)
    a, b, c = among[0, 0], among[0, 1], among[1, 1]
    change = jnp.where(free, change, 0)
    total = a + c
    determinant = a * c - b * b
    regular = determinant > max(SINGULAR, _least_eigenvalue(total.dtype)) * total**2
    # A matrix of rank one is its own inverse on its image, but for the square of its trace.
    scale = jnp.where(regular, determinant, jnp.where(total > 0, total**2, 1))
    first_row = jnp.where(regular, jnp.stack([c, -b]), jnp.stack([a, b]))
    second_row = jnp.where(regular, jnp.stack([-b, a]), jnp.stack([b, c]))
    product = jnp.stack([jnp.sum(first_row * change), jnp.sum(second_row * change)])
    return product / scale


def _among(hessian: Float[Array, "2 2"], free: Bool[Array, "2"]) -> Float[Array, "2 2"]:
    """The second derivative by the parameters that are free, and 0 elsewhere."""
    return jnp.where(free[:, None] & free[None, :], (hessian + hessian.T) / 2, 0)


def _convex(matrix: Float[Array, "2 2"]) -> Float[Array, "2 2"]:
    """The symmetric matrix with the absolute values of its eigenvalues."""
    total = jnp.trace(matrix)
    determinant = matrix[0, 0] * matrix[1, 1] - matrix[0, 1] ** 2
    # On two eigenvalues of different signs the absolute value is a linear function.
    apart = jnp.sqrt(jnp.where(determinant < 0, total**2 - 4 * determinant, 1))
    mixed = (total * matrix - 2 * determinant * jnp.eye(2, dtype=matrix.dtype)) / apart
    return jnp.where(determinant < 0, mixed, jnp.where(total < 0, -matrix, matrix))


def _descent(hessian: Float[Array, "2 2"], slope: Float[Array, "2"], free: Bool[Array, "2"]) -> Float[Array, "2"]:
    """The step of Newton's method in the parameters that are free, downhill also where the second derivative is not
    positive, as between great circles, which are nearest at an end. Along parallel segments it is long where there is
    any slope, since a small angle between them says at which end they are nearest."""
    convex = _convex(_among(hessian, free))
    total = jnp.trace(convex)
    matrix = convex + _least_eigenvalue(total.dtype) * total * jnp.eye(2, dtype=total.dtype)
    a, b, c = matrix[0, 0], matrix[0, 1], matrix[1, 1]
    determinant = a * c - b * b
    adjugate = jnp.stack([jnp.stack([c, -b]), jnp.stack([-b, a])])
    downhill = jnp.where(free, -slope, 0)
    return adjugate @ downhill / jnp.where(determinant > 0, determinant, 1)


def _least_eigenvalue(dtype: np.dtype) -> float:
    """What is rounding of the eigenvalues of a second derivative, relative to its trace."""
    return 64 * float(jnp.finfo(dtype).eps)


class Search(NamedTuple):
    """Two parameters and what is known there, the part of the step that is tried next, whether the last one was `flat`,
    on which nothing changes but roundings, whether the search is `done`, and the number of turns."""

    at: Float[Array, "2"]
    here: Expansion
    part: Scalar
    flat: Bool[Array, ""]
    done: Bool[Array, ""]
    turns: Int[Array, ""]


class Nearest(NamedTuple):
    """The parameters of the nearest place that is known, half the square of its distance, and the number of searches
    that have ended."""

    at: Float[Array, "2"]
    value: Scalar
    searches: Int[Array, ""]


def _found(touch: AbstractTouch) -> Float[Array, "2"]:
    """The parameters of the least distance, by Newton's method with projections onto the square (Bertsekas, *SIAM J.
    Control Optim.* 20 (1982) 221), from the best of a few starts, and from others where it could end elsewhere. NaN if
    the first search does not end."""
    return native_of(_search, without_derivatives(touch))


def _search(touch: AbstractTouch) -> Float[Array, "2"]:
    best = _best_start(touch)
    others = touch.other_starts()
    if len(others) == 0:
        return _descend(touch, best)
    starts = jnp.concatenate([best[None], jnp.asarray(others, touch.dtype)])

    def search(nearest: Nearest) -> Nearest:
        is_next = jnp.arange(len(starts)) == nearest.searches
        at = _descend(touch, jnp.sum(jnp.where(is_next[:, None], starts, 0), axis=0))
        value = touch.half_square(at)
        # Where a later search does not end, its value is NaN, and the place that is known stays.
        nearer = (nearest.searches == 0) | (value + touch.noise(value) < nearest.value)
        at = jnp.where(nearer, at, nearest.at)
        return Nearest(at, jnp.where(nearer, value, nearest.value), nearest.searches + 1)

    begin = Nearest(best, jnp.full((), jnp.inf, touch.dtype), jnp.zeros((), int))
    end = jax.lax.while_loop(lambda nearest: nearest.searches < len(starts), search, batched_as(touch, begin))
    return end.at


def _descend(touch: AbstractTouch, start: Float[Array, "2"]) -> Float[Array, "2"]:
    """The place where one search ends. NaN if it does not."""
    dtype = touch.dtype
    rounding = jnp.finfo(dtype).eps

    def turn(state: Search) -> Search:
        value, slope, hessian = state.here
        free = _is_free(state.at, slope)
        step = _descent(hessian, slope, free)
        # At an end that the step leaves, the other parameter moves alone.
        free = free & ~(((state.at <= 0) & (step < 0)) | ((state.at >= 1) & (step > 0)))
        step = _descent(hessian, slope, free)
        # What is a sum of squares as large as those of the segments is no more exact than these.
        noise = NOISE * rounding * (value + jnp.abs(jnp.trace(hessian)))
        # Where only rounding is left to gain, a step along parallel segments would be rounding as well.
        flat = jnp.abs(jnp.sum(slope * step)) <= noise
        step = jnp.where(flat, -_undo(hessian, slope, free), step)
        # The step ends where the first parameter does: each of them cut by itself would leave the valley in which
        # parallel segments are near to each other.
        size = jnp.where(step == 0, 1, jnp.abs(step))
        ends = jnp.where(step == 0, jnp.inf, jnp.where(step > 0, 1 - state.at, state.at) / size)
        part = jnp.minimum(state.part, jnp.min(ends))
        inside = jnp.clip(state.at + part * step, 0, 1)
        trial = jnp.where(ends <= part, jnp.where(step > 0, 1, 0), inside)
        there = touch.expand(trial)
        lower = flat | (there.value <= value + noise)
        return Search(
            at=jnp.where(lower, trial, state.at),
            here=jax.tree.map(lambda new, old: jnp.where(lower, new, old), there, state.here),
            part=jnp.where(lower, jnp.minimum(2 * state.part, 1), state.part / 2),
            flat=flat,
            # A step that ends at an end of a segment may leave something for the next.
            done=flat & ((part == 1) | state.flat) & (state.turns > 0),
            turns=state.turns + 1,
        )

    def proceed(state: Search) -> Bool[Array, ""]:
        return ~state.done & (state.turns < MOST_TURNS)

    # The first turn stays where it is and finds out what is there.
    unknown = Expansion(jnp.full((), jnp.inf, dtype), jnp.zeros(2, dtype), jnp.eye(2, dtype=dtype))
    no = jnp.zeros((), bool)
    begin = Search(start, unknown, jnp.ones((), dtype), no, no, jnp.zeros((), int))
    end = jax.lax.while_loop(proceed, turn, batched_as(touch, begin))
    return jnp.where(end.done, end.at, jnp.nan)


def _best_start(touch: AbstractTouch) -> Float[Array, "2"]:
    """The start of the search with the least half square."""
    starts = touch.starts()
    values = jax.vmap(lambda at: touch.half_square(at))(starts)
    number = jnp.arange(len(starts))
    # The middle is taken unless another start is clearly nearer.
    handicap = jnp.where(number > 0, touch.noise(values), 0)
    best = number == jnp.argmin(values + handicap)
    return jnp.sum(jnp.where(best[:, None], starts, 0), axis=0)
