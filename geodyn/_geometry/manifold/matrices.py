"""Whether a matrix is a metric: finite, symmetric, and of a signature."""

import numpy as np
from jax.core import Tracer

from geodyn._foundations.typing import Array, Bool, Float

# How many rounding errors, for each dimension, the entries and eigenvalues of a metric may have whose rows are about 1.
# Measured is a third of one: in the eigenvalues, and in the asymmetry of the metrics of embeddings. The rest is for
# metrics that are not exact to the last digits themselves.
ROUNDINGS = 16


def check_symmetric_matrix(x: Float[Array, " n"], g: Array) -> None:
    """Raises ValueError unless the metric g at x is symmetric, for concrete numbers."""
    if isinstance(g, Tracer):
        return
    known = np.asarray(g)
    if (known == known.T).all():  # It takes a quarter of the time of what minds NaN.
        return
    if np.array_equal(known, known.T, equal_nan=True):
        return
    scaled, tolerance = _scale(known)
    if not _is_symmetric(scaled, tolerance):
        raise ValueError(_not_symmetric(x, known))


def check_matrices(
    metrics: Float[np.ndarray, "P n n"],
    points: Float[np.ndarray, "P n"],
    wanted: tuple[int, int],
    declared: tuple[int, int],
) -> None:
    """Raises ValueError unless each of the metrics at these points is finite, symmetric and of the signature `wanted`.
    The remedy depends on the one that the space has `declared`."""
    finite = np.isfinite(metrics).all(axis=(1, 2))
    if not finite.all():
        first = np.argmin(finite)
        raise ValueError(
            f"the metric at x = {points[first].tolist()} is not finite:\n{metrics[first]}\nMove x off the singular "
            "points of the chart, or use another chart"
        )
    # Congruent scaling keeps the signs (Sylvester) and makes the verdict independent of the coordinates' units.
    scaled, tolerance = _scale(metrics)
    symmetric = _is_symmetric(scaled, tolerance)
    if not symmetric.all():
        first = np.argmin(symmetric)
        raise ValueError(_not_symmetric(points[first], metrics[first]))
    eigenvalues = np.linalg.eigvalsh(scaled)
    positive = np.sum(eigenvalues > tolerance, axis=1)
    negative = np.sum(-eigenvalues > tolerance, axis=1)
    right = (positive == wanted[0]) & (negative == wanted[1])
    if not right.all():
        first = np.argmin(right)
        found = (int(positive[first]), int(negative[first]))
        raise ValueError(_of_wrong_signature(points[first], metrics[first], found, wanted, declared))


def _scale(g: np.ndarray) -> tuple[np.ndarray, float]:
    """(the metrics g[..., n, n] in units in which the largest entries of their rows are about 1, the size of rounding
    errors in them)."""
    unit = np.sqrt(np.max(np.abs(g), axis=-1))
    unit[unit == 0] = 1
    tolerance = ROUNDINGS * g.shape[-1] * float(np.finfo(g.dtype).eps)
    return g / unit[..., :, None] / unit[..., None, :], tolerance


def _is_symmetric(scaled: np.ndarray, tolerance: float) -> Bool[np.ndarray, "..."] | np.bool_:
    """Whether each of the scaled metrics is symmetric; NaN is no difference."""
    return ~(np.max(np.abs(scaled - np.swapaxes(scaled, -1, -2)), axis=(-1, -2)) > tolerance)


def _not_symmetric(x: Array | np.ndarray, g: Array | np.ndarray) -> str:
    return (
        f"the metric at x = {x.tolist()} must be symmetric, got\n{g}\nReturn (g + g.T) / 2 if only rounding is at fault"
    )


def _of_wrong_signature(
    x: Float[np.ndarray, " n"],
    g: Float[np.ndarray, "n n"],
    found: tuple[int, int],
    wanted: tuple[int, int],
    declared: tuple[int, int],
) -> str:
    """What is said of a metric with another signature than is wanted, and what to do."""
    positive, negative = found
    if positive + negative < len(x):
        remedy = "x is a singular point of the chart"
    elif found == declared:
        remedy = "dynamics needs a positive definite one; for free motion take gd.geodesic"
    else:
        remedy = "declare it: Manifold(…, signature=(p, q))"
    words = "positive definite" if wanted[1] == 0 else f"of signature {wanted}"
    return (
        f"the metric at x = {x.tolist()} must be {words}, but it has {positive} positive and {negative} negative "
        f"squares in {len(x)} dimensions: {remedy}. It is\n{g}"
    )
