"""MOTION: the plane in which a stroke lies, and the frame that it disturbs least, for any number of shape variables.

A frame that is fitted on a grid over all shapes costs (degree + 2)^m nodes for m shape variables. Where a stroke leads
depends only on the form on a surface that it bounds, so that the nodes here lie on one: the cone from the mean shape.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import jit
from geodyn._engine.numerics.failure import nan_unless
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Bool, Float, Index, Scalar
from geodyn._geometry.groups.magnus import WEIGHTS
from geodyn._locomotion.connections.connection import AbstractConnection, form_of, law
from geodyn._locomotion.connections.coordinates import (
    MOST_POLYNOMIALS,
    ChebyshevFrame,
    Nodes,
    Reframed,
    integral,
    least_perturbation,
)
from geodyn._locomotion.connections.polynomials import exponents
from geodyn._locomotion.motion.holonomy import gauss_times, step_ends
from geodyn._locomotion.strokes.stroke import Stroke, breaks, check_closed, shape_and_rate

STEPS = 24
"""Steps along the stroke, with three nodes in each."""
FLAT = 1e-4
"""The least width of a stroke that spans a surface, relative to its length."""


RESOLVED = 0.1
"""The largest relative difference of ∫|A|² by other nodes where there is no singular shape."""


class PlaneFrame(eqx.Module):
    """A frame that depends on the shape r through its two coordinates `directions @ (r − centre)`."""

    frame: ChebyshevFrame
    centre: Float[Array, " m"]
    directions: Float[Array, "2 m"]

    def __call__(self, r: Float[Array, " m"]) -> Float[Array, "d d"]:
        """The group element at the shape r."""
        return self.frame(self.directions @ (r - self.centre))


class Cone(eqx.Module):
    """Nodes along a closed stroke: how far the shapes are from their mean `centre`, their rates, and the weights of a
    mean over the time."""

    centre: Float[Array, " m"]
    away: Float[Array, "Q m"]
    rates: Float[Array, "Q m"]
    weights: Float[Array, " Q"]

    def __init__(self, stroke: Stroke, steps: int = STEPS):
        corners = breaks(stroke)
        shapes, self.rates = jax.vmap(lambda t: shape_and_rate(stroke, t))(gauss_times(steps, corners))
        widths = jnp.diff(step_ends(steps, corners))
        self.weights = (widths[:, None] * jnp.asarray(WEIGHTS, shapes.dtype)[None]).ravel()
        self.centre = self.weights @ shapes
        self.away = shapes - self.centre[None]

    def spread(self) -> Float[Array, "m m"]:
        """The mean of the products of the distances from the mean shape."""
        return (self.weights[:, None] * self.away).T @ self.away


@jax.custom_jvp
def _largest_two(spread: Float[Array, "m m"]) -> Float[Array, "2 m"]:
    """The eigenvectors of the two largest eigenvalues of a symmetric matrix.

    They turn with the plane that they span, but not in it, so that a circle has derivatives too."""
    return jnp.linalg.eigh(spread)[1][:, :-3:-1].T


@_largest_two.defjvp
def _(primals: tuple[Any, ...], tangents: tuple[Any, ...]):
    values, vectors = jnp.linalg.eigh(primals[0])
    inside = vectors[:, :-3:-1]
    outside = vectors[:, :-2]
    gaps = values[:-3:-1][None] - values[:-2][:, None]
    turn = (outside.T @ tangents[0] @ inside) / gaps
    return inside.T, (outside @ turn).T


@jit
def _plane(stroke: Stroke) -> tuple[Float[Array, " m"], Float[Array, "2 m"], Bool[Array, ""]]:
    """The mean shape, the two directions, and whether the stroke spans a surface."""
    cone = Cone(stroke)
    directions = _largest_two(cone.spread())
    widths = jnp.sqrt(jnp.mean((cone.away @ directions.T) ** 2, axis=0))
    return cone.centre, directions, widths[1] > FLAT * widths[0]


@checked
def principal_plane(stroke: Stroke) -> tuple[Float[Array, " m"], Float[Array, "2 m"]]:
    """The plane nearest to a closed stroke in any number of shape variables: its mean, and two orthonormal directions.

    They are the first two principal directions of its shapes, taken over the time. A shape r is seen in the plane at
    `directions @ (r - mean)`. A stroke with one harmonic lies in its plane. Derivatives are those of the plane: the
    directions do not turn in it.

    Args:
        stroke: closed stroke, a function t -> r[m], t from 0 to 1, of two shape variables or more.

    Returns:
        The mean shape [m], and the directions [2, m], the one along which the stroke is widest first.

    Raises:
        ValueError: for a stroke that is not closed, or that goes to and fro on a line.

    Example:
        >>> ellipse = gd.FourierStroke([1.0, 2.0, 3.0], [[0.0], [0.0], [0.8]], [[0.3], [0.4], [0.0]])
        >>> mean, directions = gd.strokes.principal_plane(ellipse)
        >>> print(mean.round(6), jnp.abs(directions).round(6).ravel())
        [1. 2. 3.] [0.  0.  1.  0.6 0.8 0. ]

    Source:
        Jolliffe, *Principal Component Analysis* (2002), chapter 1.
    """
    check_closed(stroke)
    _check_count("principal_plane", stroke)
    centre, directions, spans = _plane(stroke)
    _check_spans("principal_plane", spans)
    return centre, nan_unless(spans, directions, centre)


def _check_count(name: str, stroke: Stroke) -> None:
    count = jax.eval_shape(stroke, jax.ShapeDtypeStruct((), float)).size
    if count < 2:
        raise ValueError(f"{name}: the stroke must have two shape variables or more, got {count}: it encloses nothing.")


def _check_spans(name: str, spans: Bool[Array, ""]) -> None:
    if not isinstance(spans, Tracer) and not spans:
        raise ValueError(
            f"{name}: the stroke goes to and fro on a line and encloses nothing; give one with a phase between its"
            " shape variables."
        )


@checked
def minimum_perturbation_along(swimmer: AbstractConnection, stroke: Stroke, *, degree: Index = 4) -> Reframed:
    """The body in the frame that one stroke disturbs least, for any number of shape variables.

    It has the least ∫|A|² over the cone from the mean shape to the stroke, with A along the cone: the surface of
    `gd.bundles.flux`, of which `exp(−flux)` then comes near the displacement. There is no grid over the shapes: the
    nodes are on the cone, and the frame is a polynomial of the two coordinates of the shape in the stroke's
    `gd.strokes.principal_plane`; changes of shape across that plane do not move it. Use it near the cone, which must
    hold no singular shape. For two shape variables it is `gd.bundles.minimum_perturbation` over what the stroke
    encloses in place of a box.

    Args:
        swimmer: body with a connection.
        stroke: closed stroke, a function t -> r[m], t from 0 to 1.
        degree: total degree of the polynomial.

    Returns:
        The body in that frame, a `gd.bundles.Reframed`. Inside jit its frame is NaN if none is found.

    Raises:
        ValueError: unless degree ≥ 1, for a stroke that is not closed or goes to and fro on a line, and if no frame is
            found.

    Example:
        A wave of five hinges: how far `exp(−flux)` ends from where it leads, in the frame of the middle link and in
        this one.

        >>> swimmer, phases = gd.swimmers.NLink([1.0] * 6), 2 * jnp.pi * jnp.arange(5)[:, None] / 5
        >>> wave = gd.FourierStroke(jnp.zeros(5), 0.5 * jnp.cos(phases), 0.5 * jnp.sin(phases))
        >>> best = gd.bundles.minimum_perturbation_along(swimmer, wave, degree=3)
        >>> for body in (swimmer, best):
        ...     moved = body.group.log(gd.holonomy(body, wave, steps=32))
        ...     print(f"{jnp.linalg.norm(moved + gd.bundles.flux(body, wave, steps=32)):.3f}")
        0.104
        0.000

    Source:
        Hatton & Choset, *Eur. Phys. J. Spec. Top.* 224 (2015) 3141, section 4.
    """
    check_closed(stroke)
    _check_count("minimum_perturbation_along", stroke)
    count = math.comb(degree + 2, 2)
    if degree < 1 or count > MOST_POLYNOMIALS:
        raise ValueError(
            f"minimum_perturbation_along: degree must be at least 1 and polynomials of it have at most"
            f" {MOST_POLYNOMIALS} terms, got {degree} with {count}; 4 suits most strokes."
        )
    frame, gain, spans = _fit(swimmer, stroke, exponents(int(degree), 2))
    _check_spans("minimum_perturbation_along", spans)
    found = spans & (gain < 1e-3)
    if not isinstance(found, Tracer) and not found:
        raise ValueError(
            "minimum_perturbation_along: no frame of least perturbation was found; keep singular shapes of the body out"
            " of the cone from the mean of the stroke to it, or make the stroke smaller."
        )
    coefficients = nan_unless(found, frame.frame.coefficients, frame.centre)
    return Reframed(swimmer, eqx.tree_at(lambda f: f.frame.coefficients, frame, coefficients))


def _root(x: Scalar) -> Scalar:
    """√x, at 0 with the derivative 0."""
    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)


def _size_and_unit(v: Float[Array, " m"]) -> tuple[Scalar, Float[Array, " m"]]:
    """The length of a vector and its direction, which is zero for the vector zero."""
    size = _root(v @ v)
    return size, v / jnp.where(size > 0, size, 1.0)


@jit
def _fit(swimmer: AbstractConnection, stroke: Stroke, powers: tuple[tuple[int, ...], ...]):
    """The frame, the decrease of ∫|A|² that its last step predicted, and whether the stroke spans a surface."""
    cone = Cone(stroke)
    centre, directions, spans = _plane(stroke)
    flat = cone.away @ directions.T
    lower = jnp.min(flat, axis=0)
    upper = jnp.max(flat, axis=0)
    rings = max(map(max, powers)) + 2
    nodes = _nodes(swimmer, cone, directions, rings)
    coefficients, gain = least_perturbation(swimmer.group, lower, upper, powers, nodes)
    frame = PlaneFrame(ChebyshevFrame(swimmer.group, coefficients, lower, upper, powers), centre, directions)
    # Near a singular shape other nodes see another form.
    size = integral(nodes)
    other = integral(_nodes(swimmer, Cone(stroke, STEPS + 1), directions, rings + 1))
    return frame, jnp.where(jnp.abs(other - size) <= RESOLVED * size, gain, jnp.nan), spans


def _nodes(swimmer: AbstractConnection, cone: Cone, directions: Float[Array, "2 m"], rings: int) -> Nodes:
    """The nodes of a cone, with A along its rays and across them."""
    x, w = np.polynomial.legendre.leggauss(rings)
    parts = jnp.asarray((1 + x) / 2, cone.away.dtype)
    shares = jnp.asarray(w / 2, cone.away.dtype)

    def at(away: Float[Array, " m"], rate: Float[Array, " m"], weight: Scalar, s: Scalar, share: Scalar):
        """What `Nodes` has of the shape at the part s of the way from the mean."""
        reach, outwards = _size_and_unit(away)
        speed, across = _size_and_unit(rate - (rate @ outwards) * outwards)
        tangents = jnp.stack([outwards, across], axis=1)
        form = form_of(swimmer, cone.centre + s * away) @ tangents
        area = weight * share * s * reach * speed
        return directions @ (s * away), directions @ tangents, form, _root(area)

    of_ring = jax.vmap(at, (None, None, None, 0, 0))
    rows = jax.vmap(of_ring, (0, 0, 0, None, None))(cone.away, cone.rates, cone.weights, parts, shares)
    coordinates, tangents, forms, roots = (x.reshape(-1, *x.shape[2:]) for x in rows)
    return Nodes(coordinates, tangents, law(swimmer, cone.centre) * forms, roots)
