"""MOTION: the same body, driven by other shape variables."""

from collections.abc import Callable

import equinox as eqx
import jax

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
