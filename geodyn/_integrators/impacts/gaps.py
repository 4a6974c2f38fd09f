"""Gaps along a motion: their rates, accelerations and rounding errors, and which of many contacts are watched."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._foundations.typing import Array, Bool, Float, Int, Scalar
from geodyn._integrators.contract.contacts import Neighbours
from geodyn._integrators.contract.system import AbstractSystem

# An impact, or the forces of contacts that rest, are found for so many contacts at once: their matrices stay small.
MOST_AT_ONCE = 8
# So many halvings find a bound to 2⁻²⁴ of the range of the gaps, a rounding error of single precision.
BISECTIONS = 24


def nearest(gap: Float[Array, " g"], count: int) -> Neighbours:
    """The contacts with the smallest gaps, up to `count`: all whose gaps are below a bound, which is found by
    bisection; if more than `count` have the smallest one, some of these. Places that are left over get the number of
    the contact with the largest gap."""

    def halve(_: Int[Array, ""], bounds: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        low, high = bounds
        middle = (low + high) / 2
        fits = jnp.sum(gap < middle) <= count
        return jnp.where(fits, middle, low), jnp.where(fits, high, middle)

    # Bisection by comparing and counting, since sorting takes twenty times longer.
    limits = (jnp.min(gap), jnp.max(gap))
    bound, _ = jax.lax.fori_loop(0, BISECTIONS, halve, limits)
    below = jnp.where(jnp.any(gap < bound), gap < bound, gap <= bound)
    (near,) = jnp.nonzero(below, size=count, fill_value=gap.size)
    which = jnp.where(near < gap.size, near, jnp.argmax(gap))
    return Neighbours(which, jnp.maximum(bound, 0))


def most_urgent(urgent: Float[Array, " g"] | Bool[Array, " g"], count: int = MOST_AT_ONCE) -> Int[Array, " K"]:
    """The indices of up to `count` contacts: of all, or of those with the largest values of `urgent`."""
    if urgent.size <= count:
        return jnp.arange(urgent.size)
    # Truth values become the numbers 0 and 1, which can be compared.
    _, indices = jax.lax.top_k(urgent + 0.0, count)
    return indices.astype(int)


class GapState(NamedTuple):
    """The gaps, their rates, and the size of the quantities whose differences the gaps are, which determines their
    rounding errors."""

    gap: Float[Array, " g"]
    rate: Float[Array, " g"]
    size: Float[Array, " g"]


def gap_state(
    system: AbstractSystem, which: Int[Array, " g"] | None, t: Scalar, q: Float[Array, " n"], p: Float[Array, " n"]
) -> GapState:
    """The `GapState` of the contacts `which`."""
    # Along the motion, and in the direction that tells the size, at one time.
    dts = jnp.asarray([1.0, 0.0], q.dtype)
    dqs = jnp.stack([system.velocity(t, q, p), _shaken(q)])

    def along(dt: Scalar, dq: Float[Array, " n"]) -> tuple[Float[Array, " g"], Float[Array, " g"]]:
        """The gaps, and their derivative in a direction."""
        return jax.jvp(lambda t, q: system.contacts.gap(t, q, which), (t, q), (dt, dq))

    gap, (rate, change) = jax.vmap(along, out_axes=(None, 0))(dts, dqs)
    return GapState(gap, rate, _size_of(gap, change))


def is_nearly_closed(system: AbstractSystem, t: Scalar, q: Float[Array, " n"]) -> Bool[Array, ""]:
    """Whether any contact is closed, or as good as that: open by half of the digits of what its gap is a difference of,
    at most."""
    gap, change = jax.jvp(lambda q: system.contacts.gap(t, q), (q,), (_shaken(q),))
    return jnp.any(gap <= jnp.sqrt(jnp.finfo(q.dtype).eps) * _size_of(gap, change))


def _shaken(q: Float[Array, " n"]) -> Float[Array, " n"]:
    """A relative change of each coordinate, each by another number: so the changes of those whose difference is a gap
    do not cancel."""
    places = np.arange(q.size)
    signs = np.where(places % 2, 1.0, -1.0)
    return q * jnp.asarray(signs * (1 + np.sin(places) / 2), q.dtype)


def _size_of(gap: Float[Array, " g"], change: Float[Array, " g"]) -> Float[Array, " g"]:
    """The size of the quantities whose differences the gaps are, from the gaps themselves and from their `change` along
    `_shaken`. Where this is not finite it is infinite if the gap is closed, and says nothing if it is open, as at the
    centre of a round table."""
    size = jnp.maximum(jnp.abs(gap), jnp.abs(change))
    unknown = jnp.where(gap > 0, gap, jnp.inf)
    return jnp.where(jnp.isfinite(change), size, unknown)


class Expansion(NamedTuple):
    """Gaps along a motion: their rates, their gradients N, and `bend`, with which d²gap/dt² = N dv/dt + bend."""

    gap: Float[Array, " g"]
    rate: Float[Array, " g"]
    normals: Float[Array, "g n"]
    bend: Float[Array, " g"]


def expansion(
    system: AbstractSystem, which: Int[Array, " g"] | None, t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"]
) -> Expansion:
    """The `Expansion` of the gaps at the velocity v, all from one derivative of their gradients."""

    def at(t: Scalar, q: Float[Array, " n"]) -> tuple[Float[Array, " g"], Float[Array, " g"], Float[Array, "g n"]]:
        """The gaps, and their derivatives with respect to t and to q."""
        gap, pull = jax.vjp(lambda t, q: system.contacts.gap(t, q, which), t, q)
        return gap, *jax.vmap(pull)(jnp.eye(gap.size, dtype=q.dtype))

    values, rates = jax.jvp(at, (t, q), (jnp.ones_like(t), v))
    gap, _, normals = values
    # With rate = ∂gap/∂t + N v, d²gap/dt² = d(∂gap/∂t)/dt + dN/dt v + N dv/dt.
    rate, drift, turned = rates
    return Expansion(gap, rate, normals, drift + turned @ v)


def accelerations(
    system: AbstractSystem,
    at: Expansion,
    t: Scalar,
    q: Float[Array, " n"],
    v: Float[Array, " n"],
    pdot: Float[Array, " n"],
) -> Float[Array, " g"]:
    """d²gap/dt² under the force pdot."""

    def velocity(t: Scalar, q: Float[Array, " n"], p: Float[Array, " n"]) -> Float[Array, " n"]:
        return system.velocity(t, q, p, v)

    state = (t, q, system.momentum(t, q, v))
    _, vdot = jax.jvp(velocity, state, (jnp.ones_like(t), v, pdot))
    return at.bend + at.normals @ vdot


def rounding(size: Float[Array, "*g"]) -> Float[Array, "*g"]:
    """The rounding error of gaps that are differences of quantities of this size."""
    return 2**8 * jnp.finfo(size.dtype).eps * size
