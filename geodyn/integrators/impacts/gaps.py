"""Gaps along a motion: their rates and accelerations, how far rounding moves them, and which of many are watched."""

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._typing import Array, Float, Int
from geodyn.integrators.contract.contacts import Neighbours

MOST_AT_ONCE = 8
BISECTIONS = 24


def nearest(gap: Float[Array, " g"], count: int) -> Neighbours:
    """The contacts of the smallest gaps, up to `count`: all below a bound that bisection finds; places left over are
    given to the contact with the largest gap."""

    def halve(_, bounds):
        low, high = bounds
        middle = (low + high) / 2
        fits = jnp.sum(gap < middle) <= count
        return jnp.where(fits, middle, low), jnp.where(fits, high, middle)

    # Compared and counted, not sorted: that takes twenty times longer.
    bounds = jnp.min(gap), jnp.max(gap)
    bound = jax.lax.fori_loop(0, BISECTIONS, halve, bounds)[0]
    near = jnp.nonzero(gap < bound, size=count, fill_value=gap.size)[0]
    return Neighbours(jnp.where(near < gap.size, near, jnp.argmax(gap)), jnp.maximum(bound, 0))


def chosen(urgent, count: int = MOST_AT_ONCE) -> Int[Array, " K"]:
    """The indices of up to `count` contacts, urgent ones first."""
    return jnp.arange(urgent.size) if urgent.size <= count else jax.lax.top_k(urgent + 0.0, count)[1].astype(int)


def gap_rates(system, which, t, q, p):
    """Gaps, and their rates."""
    return jax.jvp(lambda t, q: system.contacts.gap(t, q, which), (t, q), (jnp.ones_like(t), system.velocity(t, q, p)))


def gap_motion(system, which, t, q, v, pdot):
    """Gaps, their rates, and their accelerations d²gap/dt² under the force pdot."""
    one, p = jnp.ones_like(t), system.momentum(t, q, v)
    vdot = jax.jvp(lambda t, q, p: system.velocity(t, q, p, v), (t, q, p), (one, v, pdot))[1]

    def rates(t, q, v):
        return jax.jvp(lambda t, q: system.contacts.gap(t, q, which), (t, q), (one, v))

    (gap, rate), (_, acceleration) = jax.jvp(rates, (t, q, v), (one, v, vdot))
    return gap, rate, acceleration


def sizes_of_gaps(system, which, t, q):
    """The size of what the gaps are differences of, which is that of their rounding: by the gaps themselves and one
    derivative in a direction without meaning, in which nothing cancels."""
    shake = jnp.asarray(np.where(np.arange(q.size) % 2, 1.0, -1.0) * (1 + np.sin(np.arange(q.size)) / 2), q.dtype)
    gap, change = jax.jvp(lambda q: system.contacts.gap(t, q, which), (q,), (q * shake,))
    return jnp.maximum(jnp.abs(gap), jnp.abs(change))


def rounding(size):
    """What a gap between things of that size is known to."""
    return 2**8 * jnp.finfo(size.dtype).eps * size
