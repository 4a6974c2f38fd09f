"""Several charts of the configurations of a system, and the changes between them."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Float


class Charts(eqx.Module):
    """Several charts of the configurations of a system, between which it moves after a step.

    A system of one's own hands it over, as the property `charts` or as an argument of `gd.Lagrangian`. The equations of
    the system are one formula, which holds in all of the charts. A `switch` is a row of numbers that say to which
    charts to change, zeros for none. A `frame` is a row of numbers that say where the charts stand by now, where q
    alone does not tell. Both are piecewise constant and have no derivatives.

    Args:
        switch: function q[n] -> [s], the switch to the charts that suit q; zeros if it is in them.
        switched: function (switch[s], q[n]) -> q[n], the same configuration in those charts; anything finite where the
            switch is zeros.
        start_frame: function q[n] -> [f], the frame at the start of a motion; None where there is none.
        moved_frame: function (frame[f], switch[s]) -> [f], the frame after a switch; None where there is none.
        from_frame: function (frame[f], q[n]) -> q[n], q of charts in this frame as the charts of the start have it;
            None where there is none.

    Raises:
        ValueError: unless `switch` and `switched` are functions, and the other three are or none of them is.

    Example:
        A free particle on the sphere in stereographic coordinates, from the south pole or, beyond |q| = 3, from the
        north pole: both charts have the same metric.

        >>> def turned(switch, q):
        ...     return 4 * q / (q @ q + (switch[0] == 0))
        >>> charts = gd.systems.Charts(
        ...     switch=lambda q: jnp.where(q @ q > 9.0, 1.0, 0.0)[None],
        ...     switched=turned,
        ...     start_frame=lambda q: jnp.zeros(1),
        ...     moved_frame=lambda frame, switch: (frame + switch) % 2,
        ...     from_frame=lambda frame, q: jnp.where(frame == 0, q, turned(frame, q)),
        ... )
        >>> particle = gd.Lagrangian(lambda q, v: v @ v / 2 / (1 + q @ q / 4) ** 2, charts=charts)
        >>> way = gd.integrate(particle, jnp.array([0.1, 0.0]), jnp.array([1.0, 0.5]), t1=20.0, steps=400)
        >>> print(bool(jnp.max(jnp.abs(way.q)) < 3.2), bool(jnp.ptp(way.energy) < 1e-9))
        True True
    """

    switch: Callable
    switched: Callable
    start: Callable | None
    moved: Callable | None
    back: Callable | None

    @checked
    def __init__(
        self,
        switch: Callable[[Array], Array],
        switched: Callable[[Array, Array], Array],
        start_frame: Callable[[Array], Array] | None = None,
        moved_frame: Callable[[Array, Array], Array] | None = None,
        from_frame: Callable[[Array, Array], Array] | None = None,
    ):
        frames = (start_frame, moved_frame, from_frame)
        if not all(callable(f) or (f is None and frames == (None, None, None)) for f in frames):
            raise ValueError("start_frame, moved_frame and from_frame must be given together, or none of them")
        self.switch, self.switched = switch, switched
        self.start, self.moved, self.back = frames

    def start_frame(self, q: Float[Array, " n"]) -> Float[Array, " f"]:
        """The frame of the charts at the start of a motion; empty for charts that do not move."""
        return jnp.zeros(0, q.dtype) if self.start is None else self.start(q)

    def moved_frame(self, frame: Float[Array, " f"], switch: Float[Array, " s"]) -> Float[Array, " f"]:
        """The frame after a switch."""
        return frame if self.moved is None else self.moved(frame, switch)

    def from_frame(self, frame: Float[Array, " f"], q: Float[Array, " n"]) -> Float[Array, " n"]:
        """The configuration q, given in charts with this frame, in the charts of the start."""
        return q if self.back is None else self.back(frame, q)


def check_charts(charts: Charts, q: Float[Array, " n"]) -> None:
    """Raises ValueError unless the functions of charts return arrays of the shapes of what they are given."""
    switch = jax.eval_shape(charts.switch, q)
    if len(switch.shape) != 1:
        raise ValueError(f"switch must return numbers [s]; got shape {switch.shape}: put one number into a row, [None]")
    frame = jax.eval_shape(charts.start_frame, q)
    returned = {
        "switched": (jax.eval_shape(charts.switched, switch, q), q),
        "moved_frame": (jax.eval_shape(charts.moved_frame, frame, switch), frame),
        "from_frame": (jax.eval_shape(charts.from_frame, frame, q), q),
    }
    for name, (found, wanted) in returned.items():
        if found.shape != wanted.shape:
            raise ValueError(f"{name} must return an array of shape {wanted.shape}; got {found.shape}")
