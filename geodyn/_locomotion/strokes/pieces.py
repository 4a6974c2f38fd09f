"""MOTION: strokes made of pieces: polygons, cubic splines and series of polynomials, closed or open."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import jit
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, ArrayLike, Count, Float, Number, Numbers
from geodyn._locomotion.strokes.stroke import Stroke, bumps, floating, floating_unless_none


def _require_points(owner: str, name: str, points: Any, least: int, closed: bool) -> None:
    """Raise ValueError unless `points` has the shape [N, m] with N ≥ least."""
    if len(jnp.shape(points)) != 2 or jnp.shape(points)[0] < least:
        kind = "a closed" if closed else "an open"
        raise ValueError(
            f"{owner}: {name} must be [N, m], a shape in each row, N ≥ {least} for {kind} one; got shape"
            f" {jnp.shape(points)}."
        )


@checked
class PolygonStroke(eqx.Module):
    """A stroke that goes straight from corner to corner, each side in the same time.

    It returns to the first corner if `closed`, else it ends at the last. Call it to get the shape,
    `stroke(t) -> r[m]`; its `breaks` are the times of the corners, so that quadratures are exact to their order.
    `PolygonStroke.square(half, centre)` is a square in two shape variables, anticlockwise.

    Args:
        corners: [N, m], a shape in each row.
        closed: whether it returns to the first corner.

    Raises:
        ValueError: unless there are at least two corners.

    Example:
        A car drives ahead, steers, drives back and steers back: it has moved and turned.

        >>> car = gd.swimmers.KinematicCar()
        >>> stroke = gd.strokes.PolygonStroke([[0.0, 0.0], [1.0, 0.0], [1.0, jnp.pi / 4], [0.0, jnp.pi / 4]])
        >>> print(stroke(0.125), car.group.log(gd.holonomy(car, stroke)).round(6))  # It turns by −tan δ.
        [0.5 0. ] [-0.084756  0.5      -1.      ]
    """

    corners: Float[Array, "N m"] = eqx.field(converter=floating)
    closed: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        _require_points("PolygonStroke", "corners", self.corners, 2, self.closed)

    @classmethod
    @checked
    def square(cls, half: Number, centre: Numbers = (0.0, 0.0)) -> "PolygonStroke":
        """The square `centre ± half` in two shape variables, anticlockwise from its lower left corner."""
        centre = floating(centre, "centre")
        if centre.shape != (2,):
            raise ValueError(f"centre must have shape (2,), one number for each shape variable, got {centre.shape}")
        return cls(centre[None] + floating(half, "half") * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]))

    @property
    def sides(self) -> int:
        """The number of sides."""
        return self.corners.shape[0] - (not self.closed)

    @property
    def breaks(self) -> np.ndarray:
        """The times of the corners."""
        return np.arange(self.sides) / self.sides

    @checked
    def __call__(self, t: Number) -> Float[Array, " m"]:
        """The shape at time t; an open stroke has t in [0, 1]."""
        place = self.sides * (jnp.mod(t, 1.0) if self.closed else jnp.asarray(t))
        side = jnp.clip(jnp.floor(place), 0, self.sides - 1).astype(int)
        start, end = self.corners[side], self.corners[(side + 1) % self.corners.shape[0]]
        return start + (place - side) * (end - start)


@checked
class SplineStroke(eqx.Module):
    """A stroke as a cubic B-spline with equal spans, twice continuously differentiable: `r(t) = Σ_j controls_j B_j(t)`.

    If `closed` it is periodic; else its knots are clamped, so that it leads from the first control to the last and
    leaves and arrives along the first and the last side of the control polygon. Call it to get the shape,
    `stroke(t) -> r[m]`. `SplineStroke.through(points)` passes through points, `SplineStroke.fit(stroke, count)`
    approximates another stroke.

    Args:
        controls: [N, m], a control shape in each row.
        closed: whether it is periodic.

    Raises:
        ValueError: unless there are at least 3 controls (closed) or 4 (open).

    Example:
        >>> spline = gd.strokes.SplineStroke.through([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
        >>> print(spline(0.25).round(6) + 0.0, spline(0.125).round(3))  # between the points near the unit circle
        [0. 1.] [0.688 0.688]

    Source:
        de Boor, *A Practical Guide to Splines* (2001), chapter IX.
    """

    controls: Float[Array, "N m"] = eqx.field(converter=floating)
    closed: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        _require_points("SplineStroke", "controls", self.controls, 3 if self.closed else 4, self.closed)

    @classmethod
    @checked
    def through(cls, points: Numbers, closed: bool = True) -> "SplineStroke":
        """The spline that passes through points[N, m] at equal times: i/N if closed, else i/(N − 1)."""
        points = floating(points, "points")
        _require_points("SplineStroke.through", "points", points, 3 if closed else 4, closed)
        t = jnp.arange(len(points)) / (len(points) - (not closed))
        return cls(jnp.linalg.solve(_bases(t, len(points), closed), points), closed)

    @classmethod
    @checked
    def fit(cls, stroke: Stroke, count: Count, closed: bool = True) -> "SplineStroke":
        """The spline with `count` control points that fits a stroke by least squares, from 4 × count samples."""
        t = (jnp.arange(4 * count) + 0.5) / (4 * count)
        return cls(jnp.linalg.lstsq(_bases(t, count, closed), jax.vmap(stroke)(t))[0], closed)

    @property
    def breaks(self) -> np.ndarray:
        """The times of the knots, where the third derivative jumps."""
        spans = _spans(self.controls.shape[0], self.closed)
        return np.arange(spans) / spans

    @checked
    def __call__(self, t: Number) -> Float[Array, " m"]:
        """The shape at time t; an open stroke has t in [0, 1]."""
        return _basis(jnp.mod(t, 1.0) if self.closed else jnp.asarray(t), self.controls.shape[0], self.closed) @ (
            self.controls
        )


def _require_times(widths: Array | None) -> None:
    """Raise ValueError for widths that are known not to make up the time 1; those of a failed search are NaN."""
    if widths is None or isinstance(widths, Tracer):
        return
    given = np.asarray(widths)  # Inside jit even a comparison of known numbers is traced by JAX.
    if np.any(given < 0) or abs(np.sum(given) - 1) > np.sqrt(jnp.finfo(given.dtype).eps):
        raise ValueError(
            f"SequenceStroke: widths must be positive and 1 together, got {given}: pass widths / jnp.sum(widths)."
        )


@checked
class SequenceStroke(eqx.Module):
    """A stroke in N pieces, one after the other, of which each is a series of polynomials.

    The piece i leads from a knot to the next, with x = 2s − 1 and s from 0 to 1 along it:
    `r = knot_i + (knot_{i+1} − knot_i) s + Σ_k c_{i,k} (P_{k+1}(x) − P_{k−1}(x))`, the series of
    `gd.strokes.OpenStroke`. If `closed` the last piece leads back to the first knot. `gd.plan` returns strokes of this
    kind, and `gd.optimal_stroke` with `gd.Direct(corners=N)`. Call it to get the shape, `stroke(t) -> r[m]`; the time
    is taken modulo 1 if `closed`, else it goes from 0 to 1. Its `breaks` are the times of the knots.

    Args:
        knots: [N, m] shapes between the pieces if closed, else [N + 1, m].
        coefficients: c [N, m, K], for each piece a row for each shape variable.
        closed: whether it returns to the first knot.
        widths: [N] the times that the pieces take, 1 together; None: the same for each.

    Raises:
        ValueError: if the shapes of knots, coefficients and widths do not agree, and for widths that are negative or do
            not make up the time 1.

    Example:
        >>> pieces = gd.strokes.SequenceStroke([[0.0], [1.0], [1.0]], [[[0.0]], [[0.5]]], closed=False)
        >>> print(pieces(0.25), pieces(0.5), pieces(0.75))
        [0.5] [1.] [0.25]
    """

    knots: Float[Array, "_ m"] = eqx.field(converter=floating)
    coefficients: Float[Array, "N m K"] = eqx.field(converter=floating)
    closed: bool = eqx.field(static=True, default=True)
    widths: Float[Array, " N"] | None = eqx.field(default=None, converter=floating_unless_none("widths"))

    def __check_init__(self):
        knots = jnp.shape(self.knots)
        coefficients = jnp.shape(self.coefficients)
        agree = len(knots) == 2 and len(coefficients) == 3 and knots[1] == coefficients[1]
        if not agree or coefficients[0] < 1 or knots[0] != coefficients[0] + (not self.closed):
            wanted = "knots[N, m]" if self.closed else "knots[N + 1, m]"
            raise ValueError(
                f"SequenceStroke: got knots {knots}, coefficients {coefficients}; want {wanted} and"
                f" coefficients[N, m, K], since closed is {self.closed}: a series for each piece from knot to knot."
            )
        _require_times(self.widths)

    @classmethod
    @checked
    def fit(cls, stroke: Stroke, pieces: Count, terms: Count, closed: bool = True) -> "SequenceStroke":
        """The sequence that passes through another stroke at the knots, and fits it by least squares between them, from
        4 × terms samples in each piece."""
        knots = jax.vmap(stroke)(jnp.arange(pieces + 1) / pieces)
        inside: Float[Array, " S"] = (jnp.arange(4 * terms) + 0.5) / (4 * terms)
        starts: Float[Array, " N"] = jnp.arange(pieces) / pieces
        shapes: Float[Array, "N S m"] = jax.vmap(jax.vmap(stroke))(starts[:, None] + inside[None] / pieces)
        straight = knots[:-1, None] + inside[None, :, None] * jnp.diff(knots, axis=0)[:, None]
        basis: Float[Array, "S K"] = jax.vmap(lambda s: bumps(s, int(terms)))(inside)
        coefficients = jnp.einsum("ks,nsm->nmk", jnp.linalg.pinv(basis), shapes - straight)
        return cls(knots[:-1] if closed else knots, coefficients, closed)

    @property
    def breaks(self) -> Float[ArrayLike, " N"]:
        """The times of the knots."""
        pieces = self.coefficients.shape[0]
        if self.widths is None:
            return np.arange(pieces) / pieces
        return jnp.cumsum(self.widths) - self.widths

    @checked
    def __call__(self, t: Number) -> Float[Array, " m"]:
        """The shape at time t; an open stroke has t in [0, 1]."""
        pieces, _, terms = self.coefficients.shape
        t = jnp.mod(t, 1.0) if self.closed else jnp.asarray(t)
        if self.widths is None:
            place = pieces * t
            piece = jnp.clip(jnp.floor(place), 0, pieces - 1).astype(int)
            inside = place - piece
        else:
            begin = jnp.asarray(self.breaks)
            piece = jnp.clip(jnp.sum(begin <= t) - 1, 0, pieces - 1)
            inside = (t - begin[piece]) / self.widths[piece]
        start = self.knots[piece]
        end = self.knots[(piece + 1) % self.knots.shape[0]]
        return start + inside * (end - start) + self.coefficients[piece] @ bumps(inside, terms)


def _spans(count: Count, closed: bool) -> int:
    return count if closed else count - 3


@jit
def _bases(t: Float[Array, " T"], count: Count, closed: bool) -> Array:
    return jax.vmap(lambda t: _basis(t, count, closed))(t)


def _basis(t: Number, count: Count, closed: bool) -> Float[Array, " N"]:
    """The values of the N cubic B-splines at t, by the recurrence of Cox and de Boor; periodic for a closed spline."""
    spans = _spans(count, closed)
    knots = np.arange(-3, spans + 4) / spans
    knots = knots if closed else np.clip(knots, 0, 1)
    here = jnp.clip(jnp.floor(t * spans), 0, spans - 1) + 3
    b = (jnp.arange(spans + 6) == here).astype(jnp.result_type(t, float))
    for p in (1, 2, 3):
        width = knots[p:] - knots[:-p]
        slope = jnp.asarray(np.divide(1, width, out=np.zeros_like(width), where=width > 0), b.dtype)
        rise = (t - knots[: -p - 1]) * slope[:-1]
        fall = (knots[p + 1 :] - t) * slope[1:]
        b = rise * b[:-1] + fall * b[1:]
    return b[:count] + jnp.concatenate([b[count:], jnp.zeros(count - 3, b.dtype)]) if closed else b
