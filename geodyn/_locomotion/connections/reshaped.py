"""MOTION: the same body, driven by other shape variables."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._engine.jit import as_pytree
from geodyn._foundations.checks import returned
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float, Scalar
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._locomotion.connections.connection import AbstractInvariantMetric


class Reshaped(AbstractInvariantMetric):
    """A body whose shape is a function of other shape variables: modes of its hinges, or amplitude and phase of a wave.

    With the shape `f(r)` of `original`, the connection is `A(f(r)) f'(r)` and the shape metric `f'(r)ᵀ G f'(r)`: motion
    and energy are those of the original. Where f' has not full rank, as that of polar coordinates at the radius zero,
    the metric is degenerate: a change of r that leaves the shape as it is costs nothing. Keep strokes away by bounds.

    Args:
        original: body with a metric of shapes.
        shapes: function r[m] -> shape of the original; an `eqx.Module` has its arrays traced.
        shape_names: names of the m variables; None: without.

    Example:
        A serpenoid by the amplitude and the phase of its wave.

        >>> def wave(r):
        ...     return r[0] * jnp.stack([jnp.cos(r[1]), jnp.sin(r[1])])
        >>> body = gd.swimmers.Serpenoid()
        >>> polar = gd.bundles.Reshaped(body, wave, ("amplitude (rad)", "phase (rad)"))
        >>> once = gd.strokes.OpenStroke([3.0, 0.0], [3.0, 2 * jnp.pi], jnp.zeros((2, 1)))
        >>> moved = gd.holonomy(polar, once), gd.holonomy(body, gd.FourierStroke.circle(3.0))
        >>> print(bool(jnp.allclose(*moved, atol=1e-7)))
        True
    """

    original: AbstractInvariantMetric
    shapes: Callable
    shape_names: tuple[str, ...] | None = eqx.field(static=True)
    group: AbstractLieGroup
    begins_at_zero: bool = eqx.field(static=True)

    @checked
    def __init__(
        self,
        original: AbstractInvariantMetric,
        shapes: Callable[[Float[Array, " m"]], Array],
        shape_names: tuple[str, ...] | None = None,
    ):
        self.original = original
        self.shapes = as_pytree(shapes)
        self.shape_names = shape_names
        self.group = original.group
        self.begins_at_zero = _begins_at_zero(original, self.shapes, shape_names)

    @property
    def first_shape(self) -> Float[Array, " m"] | None:
        """Zero, if the variables have names, and f(0) is the first shape of the original, at which f' has full rank, as
        for modes of hinges. Else None, since which r gives that shape need not be unique, and f need not reach it. None
        of what is made inside of jit or of a derivative too, where f(0) is not known."""
        return jnp.asarray(np.zeros(len(self.shape_names or ()))) if self.begins_at_zero else None

    @property
    def towing_drag(self):
        """That of the original."""
        return self.original.towing_drag

    @property
    def outline(self):
        """How the original looks at the shape f(r); None if it does not say."""
        looks = getattr(self.original, "outline", None)
        return None if looks is None else lambda r: looks(self.shapes(r))

    def quadratic_form(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        shape, rate = jax.jvp(lambda r: returned("Reshaped: shapes", self.shapes, r), (r,), (rdot,))
        return self.original.quadratic_form(shape, xi, rate)


def _begins_at_zero(original: AbstractInvariantMetric, shapes: Callable, names: tuple[str, ...] | None) -> bool:
    """Whether r = 0 is known to give the first shape of the original, and to be regular."""
    first = original.first_shape
    if first is None or not names:
        return False
    zero = jnp.asarray(np.zeros(len(names)))
    shape = returned("Reshaped: shapes", shapes, zero)
    slope = jax.jacfwd(shapes)(zero)
    if isinstance(shape, Tracer) or isinstance(slope, Tracer) or not np.array_equal(shape, first):
        return False
    is_finite = bool(np.all(np.isfinite(slope)))
    return is_finite and bool(np.linalg.matrix_rank(np.asarray(slope)) == zero.size)
