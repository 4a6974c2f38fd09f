"""How much a geodesic may take, and what is said where it is not found.

Two keywords set the effort in spaces without closed form: `steps`, Gauss steps of order 12 to each time (in each
interval, for a transport), and `nodes`, the most that a path between two points may have: it takes as many as resolve
its energy to rounding, or its length to a relative `tolerance`."""

import warnings
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import static_count
from geodyn._foundations.checks import is_finite
from geodyn._foundations.typing import Count, PyTree
from geodyn._geometry.geodesics.relaxation import Effort
from geodyn._geometry.manifold.manifold import AbstractMetric, checked_points

# 32 pieces of 12 nodes.
NODES = 384
STEPS = 48
NOT_FOUND = (
    "no shortest geodesic between these points was found; they must be in the chart, or table, and no conjugate point "
    f"between them. For long ones give more nodes: the default is nodes={NODES}; or a tolerance, such as tolerance=1e-8"
)
TOO_LONG = (
    "the geodesic is too long for its steps, or leaves the chart. In a space without closed form give more steps: the "
    f"default is steps={STEPS}; far out in hyperbolic space only the chart 'polar' has digits left"
)


def effort_of(nodes: Count | Effort, tolerance: float = 0.0) -> Effort:
    """The `Effort` with these options; ValueError for a tolerance outside [0, 1), and for nodes that are not a positive
    whole number."""
    if isinstance(nodes, Effort):
        return nodes
    if not isinstance(tolerance, Tracer) and not 0 <= tolerance < 1:
        raise ValueError(f"tolerance, a relative error, must be at least 0 and less than 1, got {tolerance}")
    return Effort(static_count("nodes", nodes), tolerance=tolerance)


def with_warning(value: PyTree, why: str = NOT_FOUND) -> Any:
    """The value, with a warning if it is NaN. Inside of jit there is no warning, since the value is not known."""
    if is_nan(value):
        warnings.warn(f"NaN: {why}", stacklevel=4)
    return value


def with_warning_of(space: AbstractMetric, points: dict[str, Any], value: PyTree, why: str = NOT_FOUND) -> Any:
    """The value of a function of `points`. If it is NaN: ValueError for a point outside of the chart, else a warning.
    To look at each point before would take a quarter of the time of a call."""
    if is_nan(value):
        checked_points(space, **points)
        warnings.warn(f"NaN: {why}", stacklevel=4)
    return value


def is_nan(value: PyTree) -> bool:
    # An array alone is looked at first, since to go through a pytree takes time.
    if isinstance(value, jax.Array) and not isinstance(value, Tracer):
        known = np.asarray(value)
        return not is_finite(known) and bool(np.isnan(known).any())
    leaves = jax.tree.leaves(value)
    known = [np.asarray(x) for x in leaves if not isinstance(x, Tracer)]
    return len(known) == len(leaves) and any(not is_finite(x) and np.isnan(x).any() for x in known)
