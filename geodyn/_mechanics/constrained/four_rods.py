"""Chains of unit rods between two pins, and the configuration space of four rods, the sphere M⁴_L.

Source: Abrams, Bachmann & Harriss on spherical configuration spaces of planar linkages; the embedding is derived here.
"""

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import DTypeLike

from geodyn._engine.jit import static_count
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Number, Scalar
from geodyn._mechanics.constrained.linkage import Linkage, linkage
from geodyn._mechanics.elements.abstract import number


@checked
def pinned_chain(
    count: Count = 4,
    span: Number = 3.0,
    *,
    rod_mass: Number = 0.0,
    hinge_mass: Number = 1.0,
    gravity: Number | None = None,
    dim: Count = 2,
) -> tuple[Linkage, Float[Array, "F d"]]:
    """A chain of unit rods between two pins, at 0 and at `span` on the first axis, hanging up in an arc.

    With four rods and 2 < span < 4 its configurations in the plane form a sphere; see
    `gd.linkages.four_rod_configuration`.

    Args:
        count: number of rods, at least 2.
        span: distance of the pins.
        rod_mass: mass of each rod.
        hinge_mass: mass of each hinge.
        gravity: acceleration along minus the last coordinate; None: none.
        dim: dimension of the space, at least 2.

    Returns:
        (system, q0), a `gd.linkages.Linkage` and the positions [count − 1, dim] of its hinges.

    Raises:
        ValueError: for a span that is not between 0 and `count`: at span = count the chain is tight, and singular.

    Example:
        >>> chain, q0 = gd.linkages.pinned_chain(4, span=3.0)
        >>> print(q0.shape, jnp.linalg.norm(jnp.diff(chain.joints(q0), axis=0), axis=1).round(6))
        (3, 2) [1. 1. 1. 1.]
    """
    if static_count("count", count) < 2 or dim < 2:
        raise ValueError(f"a pinned chain has at least 2 rods in at least 2 dimensions, got count={count}, dim={dim}")
    span = number("span", span)
    # A guess, a parabola over the span: `linkage` moves the hinges to where the rods have their lengths.
    fraction = jnp.arange(count + 1) / count
    height = jnp.sqrt(jnp.maximum(count**2 - span**2, 0.0)) * 2 * fraction * (1 - fraction)
    joints = jnp.zeros((count + 1, dim))
    joints = joints.at[:, 0].set(span * fraction)
    joints = joints.at[:, -1].set(height)
    return linkage(
        joints,
        edges=[(i, i + 1) for i in range(count)],
        pins=(0, count),
        lengths=1.0,
        rod_masses=rod_mass,
        hinge_masses=hinge_mass,
        gravity=gravity,
    )


@checked
def four_rod_configuration(span: Number, X: Float[Array, "3"]) -> Float[Array, "3 2"]:
    """The configuration of four unit rods pinned at (0, 0) and (span, 0) that belongs to a point X of the unit sphere.

    It is an analytic embedding of S² into the positions of the three hinges, onto all configurations, for 2 < span < 4.
    The rods of a pair turn by 4 arcsin(ρX₁) and 4 arcsin(ρX₂) against each other, `ρ² = 1 − span/4`, and the sign
    of the middle hinge's height is that of X₃: at ±e₃ elbows are straight.

    Args:
        span: distance of the pins.
        X: point [3] of the unit sphere.

    Returns:
        The hinges [3, 2].

    Raises:
        ValueError: for other spans, and for a point that is not on the sphere.

    Example:
        >>> q = gd.linkages.four_rod_configuration(3.0, jnp.array([0.6, 0.0, 0.8]))
        >>> joints = jnp.concatenate([jnp.zeros((1, 2)), q, jnp.array([[3.0, 0.0]])])
        >>> print(q.shape, jnp.linalg.norm(jnp.diff(joints, axis=0), axis=1).round(6))
        (3, 2) [1. 1. 1. 1.]

    Source:
        Abrams, Bachmann & Harriss, on spherical configuration spaces of planar linkages.
    """
    span = _checked_span(span, X.dtype)
    if not isinstance(X, Tracer) and not abs(float(X @ X) - 1) < 1e-6:
        raise ValueError(
            f"X must be a point of the unit sphere, got {X.tolist()} of length {float(jnp.sqrt(X @ X)):.6g}"
        )
    rho = jnp.sqrt(1 - span / 4)
    # The sines of a quarter of the angles by which the rods of the two pairs turn against each other.
    a = rho * X[0]
    b = rho * X[1]
    # The lengths of the two pairs, from their pin to the middle hinge: 2 cos of half these angles.
    left = 2 * (1 - 2 * a**2)
    right = 2 * (1 - 2 * b**2)
    # Heron's formula, in which left + right − span = (2ρX₃)² on the sphere.
    height = rho * X[2] * _height_factor(span, left, right) / span
    middle = jnp.stack([(span**2 + left**2 - right**2) / (2 * span), height])
    end = jnp.stack([span, jnp.zeros_like(span)])
    start = jnp.zeros_like(end)
    return jnp.stack([_elbow(start, middle, left, a), middle, _elbow(middle, end, right, b)])


@checked
def four_rod_point(span: Number, q: Float[Array, "3 2"]) -> Float[Array, "3"]:
    """The point of the unit sphere to which a configuration of four rods belongs.

    The inverse of `gd.linkages.four_rod_configuration`.

    Args:
        span: distance of the pins.
        q: the hinges [3, 2].

    Returns:
        The point [3] of the unit sphere.

    Raises:
        ValueError: for a span that is not between 2 and 4, and for hinges that are not a rod of length 1 apart.

    Example:
        >>> q = gd.linkages.four_rod_configuration(3.0, jnp.array([0.6, 0.0, 0.8]))
        >>> print(gd.linkages.four_rod_point(3.0, q).round(6) + 0.0)
        [0.6 0.  0.8]
    """
    span = _checked_span(span, q.dtype)
    start = jnp.zeros((1, 2), q.dtype)
    end = jnp.stack([span, jnp.zeros_like(span)])[None]
    rods = jnp.diff(q, axis=0, prepend=start, append=end)
    if not isinstance(rods, Tracer) and not np.allclose(np.linalg.norm(rods, axis=1), 1, atol=1e-6):
        raise ValueError(f"q must be hinges [3, 2] that four rods of length 1 join, got {q.tolist()} with span={span}")
    # The angles by which the second rod of each pair turns to the right against the first.
    first = rods[::2]
    second = rods[1::2]
    sines = first[:, 1] * second[:, 0] - first[:, 0] * second[:, 1]
    turns = jnp.arctan2(sines, jnp.sum(first * second, axis=1))
    rho = jnp.sqrt(1 - span / 4)
    left, right = 2 * jnp.cos(turns / 2)
    height = q[1, 1] * span / (rho * _height_factor(span, left, right))
    return jnp.append(jnp.sin(turns / 4) / rho, height)


def _checked_span(span: Number, dtype: DTypeLike) -> Scalar:
    """The span as an array; ValueError where the configurations are no sphere."""
    span = jnp.asarray(span, dtype)
    if not isinstance(span, Tracer) and not 2 < float(span) < 4:
        raise ValueError(
            f"span must lie between 2 and 4, got {float(span):.6g}: at 4 four unit rods are stretched tight, at 2 they "
            "can lie on one line, and the configurations are no smooth sphere"
        )
    return span


def _height_factor(span: Scalar, left: Scalar, right: Scalar) -> Scalar:
    """4 times the area of the triangle with these sides, divided by √(left + right − span)."""
    return jnp.sqrt((left + right + span) * (span**2 - (left - right) ** 2))


def _elbow(start: Float[Array, "2"], end: Float[Array, "2"], apart: Scalar, a: Scalar) -> Float[Array, "2"]:
    """The joint of two unit rods from `start` to `end`, which are `apart` = 2 cos(s/2); s is the angle by which the
    second rod turns to the right against the first, and a = sin(s/4). The joint is on the left side if a > 0."""
    along = (end - start) / apart
    to_the_left = jnp.stack([-along[1], along[0]])
    # Its distance from the line is sin(s/2).
    return (start + end) / 2 + 2 * a * jnp.sqrt(1 - a**2) * to_the_left
