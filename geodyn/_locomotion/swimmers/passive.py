"""MOTION: swimmers with hinges that springs hold instead of motors."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Each, Float, Index, Number, Scalar, Vector
from geodyn._geometry.groups.lie_group import AbstractLieGroup
from geodyn._locomotion.connections.connection import AbstractSwimmer
from geodyn._locomotion.motion.passive import AbstractPassiveSwimmer, others
from geodyn._locomotion.strokes.stroke import floating
from geodyn._locomotion.swimmers.links import NLink


class Passive(AbstractPassiveSwimmer):
    """A swimmer some of whose hinges have springs instead of motors; its shape r is that of the base.

    The springs have the energy `½ Σ k (r_p − rest)²` and the dampers the power `Σ c r_p'²`, over the hinges p. A hinge
    here is any shape variable: an angle, or the length of an arm. `gd.periodic_motion` finds how the hinges move when
    the others are driven. Differentiable with respect to all numbers.

    Args:
        base: a swimmer, such as one of `gd.swimmers` that have drag.
        hinges: the indices of the p shape variables that are passive, from 0.
        stiffness: k of the springs, a force (torque) per unit of the shape: one positive number, or one per hinge [p].
        rest: the shapes of these hinges at which the springs are slack, one number or [p]; None: those of
            `base.first_shape`, which for links are straight.
        damping: c of the dampers beside the springs, a force per rate of the shape: one number or [p], not negative.

    Raises:
        ValueError: for a base that is no swimmer with drag, or has springs already; for hinges that it does not have,
            that are named twice or that leave nothing to drive, for a stiffness that is not positive, a damping that is
            negative, and numbers that are not as many as hinges.

    Example:
        Purcell's swimmer with an elastic tail: the first hinge is driven, and the second bends along.

        >>> swimmer = gd.swimmers.Passive(gd.swimmers.Purcell(), hinges=[1], stiffness=1.0)
        >>> drive = gd.FourierStroke(mean=[0.0], cosine=[[0.0]], sine=[[1.0]])
        >>> motion = gd.periodic_motion(swimmer, drive, 2 * np.pi)
        >>> print(motion.stroke(0.0).round(4) + 0.0, motion.displacement[:2, 2].round(5), bool(motion.stable))
        [ 0.     -0.1328] [-0.02272  0.00082] True

    Source:
        Passov & Or, *Eur. Phys. J. E* 35 (2012) 78; Montino & DeSimone, *Eur. Phys. J. E* 38 (2015) 42.
    """

    base: AbstractSwimmer
    hinges: tuple[int, ...] = eqx.field(static=True)
    stiffness: Float[Array, " p"]
    rest: Float[Array, " p"]
    damping: Float[Array, " p"]

    @checked
    def __init__(
        self,
        base: AbstractSwimmer,
        hinges: Sequence[Index],
        stiffness: Each,
        rest: Each | None = None,
        damping: Each = 0.0,
    ):
        if isinstance(base, AbstractPassiveSwimmer):
            raise ValueError(
                f"Passive: base has springs already, a {type(base).__name__} with the hinges {list(base.hinges)}, which"
                " would be forgotten: name all passive hinges in one gd.swimmers.Passive."
            )
        self.base, self.hinges = base, _checked_hinges(base, hinges)
        self.stiffness = self._each("stiffness", stiffness)
        self.damping = self._each("damping", damping)
        self.rest = self._each("rest", _rest(base, self.hinges) if rest is None else rest)
        _require_restoring(self.stiffness)
        if not isinstance(self.damping, Tracer) and not np.all(np.asarray(self.damping) >= 0):
            raise ValueError(f"Passive: damping must not be negative, got {self.damping}; 0 for no damper.")

    def _each(self, name: str, values: Any) -> Float[Array, " p"]:
        """One number for each hinge."""
        values, count = floating(values, name), len(self.hinges)
        if values.shape not in ((), (count,)):
            raise ValueError(
                f"Passive: {name} must be one number, or one for each of the {count} hinges, got shape {values.shape}."
            )
        return jnp.broadcast_to(values, (count,))

    @property
    def group(self) -> AbstractLieGroup:
        """That of the base."""
        return self.base.group

    @property
    def shape_names(self) -> tuple[str, ...] | None:
        """Those of the base."""
        return getattr(self.base, "shape_names", None)

    @property
    def driven_names(self) -> tuple[str, ...] | None:
        """The names of the shape variables that are driven."""
        names = self.shape_names
        return None if names is None else tuple(names[i] for i in others(self.hinges, len(names)))

    @property
    def first_shape(self) -> Float[Array, " m"] | None:
        """That of the base."""
        return self.base.first_shape

    @property
    def shape_region(self) -> tuple[Float[Array, " m"], Float[Array, " m"]] | None:
        """That of the base."""
        return self.base.shape_region

    @property
    def needs_bounds(self) -> str | None:
        """That of the base."""
        return self.base.needs_bounds

    @property
    def towing_drag(self) -> Scalar | None:
        """That of the base."""
        return self.base.towing_drag

    @property
    def outline(self):
        """That of the base; None where it has none."""
        return getattr(self.base, "outline", None)

    def dissipation(self, r: Float[Array, " m"], xi: Float[Array, " k"], rdot: Float[Array, " m"]) -> Scalar:
        own = rdot[np.array(self.hinges)]
        return self.base.dissipation(r, xi, rdot) + jnp.sum(self.damping * own**2)

    def elastic_energy(self, r: Float[Array, " m"]) -> Scalar:
        bent = r[np.array(self.hinges)] - self.rest
        return jnp.sum(self.stiffness * bent**2) / 2


@checked
def passive_links(
    lengths: Vector = (1.0, 1.0, 1.0), drag_ratio: Number = 2.0, stiffness: Each = 0.2, damping: Each = 0.0
) -> Passive:
    """Slender links in a viscous fluid with a motor in the first hinge and springs in all others: an elastic tail.

    Args:
        lengths: of the links [L], three or more.
        drag_ratio: drag per length across a link over that along it.
        stiffness: of the springs, a torque per radian: one positive number, or one per spring [L − 2]. The drag along a
            link is 1 per length, so that it is in units of drag times length³ over time.
        damping: of the dampers beside the springs, a torque per rate: one number or [L − 2], not negative.

    Returns:
        The swimmer, a `gd.swimmers.Passive`.

    Raises:
        ValueError: for fewer than three links, and numbers that are not positive.

    Example:
        How far a motor that swings by 1 rad moves it in a period of 6.

        >>> swimmer = gd.swimmers.passive_links()
        >>> drive = gd.FourierStroke(mean=[0.0], cosine=[[0.0]], sine=[[1.0]])
        >>> motion = gd.periodic_motion(swimmer, drive, 6.0)
        >>> print(motion.displacement[:2, 2].round(5))
        [-0.05417  0.00528]

    Source:
        Passov & Or, *Eur. Phys. J. E* 35 (2012) 78.
    """
    base = NLink(lengths=lengths, drag_ratio=drag_ratio)
    count = base.lengths.size
    if count < 3:
        raise ValueError(f"passive_links: lengths must be three or more, so that one hinge has a spring; got {count}.")
    return Passive(base, tuple(range(1, count - 1)), stiffness, damping=damping)


def _checked_hinges(base: AbstractSwimmer, hinges: Sequence[Index]) -> tuple[int, ...]:
    """The indices of the passive shapes; ValueError for those that the base does not have."""
    hinges = tuple(int(i) for i in hinges)
    count, name = _shape_count(base), type(base).__name__
    known = "" if count is None else f", which has the shape variables 0 to {count - 1}"
    if not hinges:
        raise ValueError("Passive: hinges must be one index or more, got none; without springs take the base itself.")
    if len(set(hinges)) < len(hinges):
        raise ValueError(f"Passive: hinges must be different, got {list(hinges)}.")
    if min(hinges) < 0 or (count is not None and max(hinges) >= count):
        raise ValueError(f"Passive: hinges must be indices of shape variables of {name}{known}; got {list(hinges)}.")
    if count is not None and len(hinges) == count:
        raise ValueError(
            f"Passive: hinges {list(hinges)} are all {count} shape variables of {name}: leave one out, to be driven."
        )
    return hinges


def _shape_count(base: AbstractSwimmer) -> int | None:
    """The number of shape variables, as far as the base tells."""
    if base.shape_count is not None:
        return base.shape_count
    return None if base.first_shape is None else np.size(base.first_shape)


def _rest(base: AbstractSwimmer, hinges: tuple[int, ...]) -> Float[Array, " p"]:
    """The shapes of the hinges in the first shape of the base; ValueError if it has none."""
    first = base.first_shape
    if first is None:
        raise ValueError(
            f"Passive: {type(base).__name__} needs rest=, the shapes of the hinges at which the springs are slack: it"
            " has no first_shape."
        )
    return floating(first)[np.array(hinges)]


def _require_restoring(stiffness: Float[Array, " p"]) -> None:
    if not isinstance(stiffness, Tracer) and not np.all(np.asarray(stiffness) > 0):
        raise ValueError(
            f"Passive: stiffness must be positive, got {stiffness}: without a restoring force a hinge has no periodic"
            " motion of its own. Springs that push away are a gd.bundles.AbstractPassiveSwimmer."
        )
