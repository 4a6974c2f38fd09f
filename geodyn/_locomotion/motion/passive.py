"""MOTION: swimmers some of whose shape variables nobody drives: springs hold them, and the fluid bends them.

With the shape metric G, by which `r'ᵀ G r'` is the power, the shape variables are moved by the forces `G r'`. At a
hinge without a motor a spring gives them: `(G r')_p + ∂U/∂r_p = 0`, a first-order equation for the shapes r_p of these
hinges, which the other shapes r_d(t) drive. So the pace matters, as it does not where all shapes are driven.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.numerics.linalg import solve
from geodyn._foundations.typing import Array, Float, Number, Scalar
from geodyn._locomotion.connections.connection import AbstractSwimmer, reduction


class AbstractPassiveSwimmer(AbstractSwimmer):
    """A swimmer of which only some shape variables are driven: springs hold the others, and the fluid bends them.

    Its shape r[m] is that of all variables; those of the indices `hinges` are passive. They move by
    `(G r')_p + ∂U/∂r_p = 0`, with the shape metric G of the dissipation and the energy U of the springs.
    `gd.periodic_motion` finds how they move along with the others. Where all shapes are given, as by a stroke of
    `gd.holonomy` or `gd.cost`, the springs do not matter: they do no work on a closed one.

    A subclass has the fields `group`, `hinges`, the p indices, and `rest`, the shapes [p] of the hinges around which
    the search for a motion begins. It defines `dissipation(r, xi, rdot)`, in which dampers count, and
    `elastic_energy(r)`, at the shape r[m]. Linear springs have a class of their own, `gd.swimmers.Passive`.

    Example:
        A hinge that clicks: its spring is slack at ±1/2, and pushes away from the middle.

        >>> class Clicker(gd.bundles.AbstractPassiveSwimmer):
        ...     hinges: tuple[int, ...] = eqx.field(default=(1,), static=True)
        ...     rest: jax.Array = eqx.field(default=(0.5,), converter=jnp.asarray)
        ...     group: gd.groups.SE2 = gd.groups.SE2()
        ...     def dissipation(self, r, xi, rdot):
        ...         return gd.swimmers.Purcell().dissipation(r, xi, rdot)
        ...     def elastic_energy(self, r):
        ...         return (r[1] ** 2 - 0.25) ** 2
        >>> motion = gd.periodic_motion(Clicker(), gd.FourierStroke([0.0], [[0.0]], [[0.3]]), 6.0)
        >>> print(bool(motion.stable), bool(jnp.all(jax.vmap(motion.stroke)(jnp.arange(8) / 8)[:, 1] > 0.2)))
        True True
    """

    hinges: eqx.AbstractVar[tuple[int, ...]]
    rest: eqx.AbstractVar[Float[Array, " p"]]

    @abstractmethod
    def elastic_energy(self, r: Float[Array, " m"]) -> Scalar:
        """The energy U of the springs at the shape r."""


def whole_shape(hinges: tuple[int, ...], driven: Float[Array, " d"], passive: Float[Array, " p"]) -> Float[Array, " m"]:
    """The whole shape r[m]: the passive shapes in the places `hinges`, the driven ones in the others, in order."""
    places = [*others(hinges, driven.size + passive.size), *hinges]
    return jnp.concatenate([driven, passive])[np.argsort(places)]


def others(hinges: tuple[int, ...], m: int) -> tuple[int, ...]:
    """The indices of the driven shapes, of m shapes."""
    return tuple(i for i in range(m) if i not in hinges)


def rate_at(
    body: AbstractPassiveSwimmer,
    period: Number,
    driven: Float[Array, " d"],
    driven_rate: Float[Array, " d"],
    passive: Float[Array, " p"],
) -> tuple[Float[Array, " p"], Float[Array, "k m"], Float[Array, "m m"]]:
    """The rate of the passive shapes per period, `G_pp r_p' = −G_pd r_d' − period ∂U/∂r_p`, for driven shapes and their
    rate per period; with the connection form and the shape metric there."""
    r = whole_shape(body.hinges, driven, passive)
    form, metric = reduction(body, r)
    own = np.array(body.hinges)
    rest = np.array(others(body.hinges, r.size), int)
    springs = jax.grad(body.elastic_energy)(r)[own]
    pushed = metric[own][:, rest] @ driven_rate + period * springs
    return -solve(metric[own][:, own], pushed), form, metric


def all_forces(
    body: AbstractPassiveSwimmer, period: Number, r: Float[Array, " m"], rdot: Float[Array, " m"]
) -> Float[Array, " m"]:
    """The forces `G r' + ∂U/∂r` that motors have to give, at the shape r and the rate r' per period."""
    drag = reduction(body, r)[1] @ rdot / period
    return drag + jax.grad(body.elastic_energy)(r)


def unbalanced_forces(
    body: AbstractPassiveSwimmer, period: Number, r: Float[Array, " m"], rdot: Float[Array, " m"]
) -> Float[Array, " p"]:
    """Those that are left over at the passive hinges, which have no motor: zero as they move."""
    return all_forces(body, period, r, rdot)[np.array(body.hinges)]


def motor_forces(
    body: AbstractPassiveSwimmer, period: Number, r: Float[Array, " m"], rdot: Float[Array, " m"]
) -> Float[Array, " d"]:
    """The forces `(G r')_d + ∂U/∂r_d` of the motors, at the shape r and the rate r' per period."""
    return all_forces(body, period, r, rdot)[np.array(others(body.hinges, r.size), int)]
