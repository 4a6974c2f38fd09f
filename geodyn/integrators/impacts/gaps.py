"""Gaps along a motion: their rates, accelerations and rounding errors, and which of many contacts are watched."""

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._typing import Array, Float, Int
from geodyn.integrators.contract.contacts import Neighbours

MOST_AT_ONCE = 8
BISECTIONS = 24


def nearest(gap: Float[Array, " g"], count: int) -> Neighbours:
    """The contacts with the smallest gaps, up to `count`: all whose gaps are below a bound, which is found by
    bisection. Places that are left over get the number of the contact with the largest gap."""

    def halve(_, bounds):
        low, high = bounds
        middle = (low + high) / 2
        fits = jnp.sum(gap < middle) <= count
        return jnp.where(fits, middle, low), jnp.where(fits, high, middle)

    # Bisection by comparing and counting, since sorting takes twenty times longer.
    bounds = jnp.min(gap), jnp.max(gap)
    bound = jax.lax.fori_loop(0, BISECTIONS, halve, bounds)[0]
    near = jnp.nonzero(gap < bound, size=count, fill_value=gap.size)[0]
    return Neighbours(jnp.where(near < gap.size, near, jnp.argmax(gap)), jnp.maximum(bound, 0))


def chosen(urgent, count: int = MOST_AT_ONCE) -> Int[Array, " K"]:
    """The indices of up to `count` contacts: of all, or of those with the largest values of `urgent`."""
    return jnp.arange(urgent.size) if urgent.size <= count else jax.lax.top_k(urgent + 0.0, count)[1].astype(int)


def gap_rates(system, which, t, q, p):
    """The gaps and their rates."""
    return jax.jvp(lambda t, q: system.contacts.gap(t, q, which), (t, q), (jnp.ones_like(t), system.velocity(t, q, p)))


def gap_motion(system, which, t, q, v, pdot):
    """The gaps, their rates, and their accelerations d²gap/dt² under the force pdot."""
    one, p = jnp.ones_like(t), system.momentum(t, q, v)
    vdot = jax.jvp(lambda t, q, p: system.velocity(t, q, p, v), (t, q, p), (one, v, pdot))[1]

    def rates(t, q, v):
        return jax.jvp(lambda t, q: system.contacts.gap(t, q, which), (t, q), (one, v))

    (gap, rate), (_, acceleration) = jax.jvp(rates, (t, q, v), (one, v, vdot))
    return gap, rate, acceleration


def sizes_of_gaps(system, which, t, q):
    """The size of the quantities whose differences the gaps are, which determines their rounding errors. It is
    estimated by the gaps themselves and by their derivative in an arbitrary direction, in which nothing cancels."""
    shake = jnp.asarray(np.where(np.arange(q.size) % 2, 1.0, -1.0) * (1 + np.sin(np.arange(q.size)) / 2), q.dtype)
    gap, change = jax.jvp(lambda q: system.contacts.gap(t, q, which), (q,), (q * shake,))
    return jnp.maximum(jnp.abs(gap), jnp.abs(change))


def rounding(size):
    """The rounding error of gaps that are differences of quantities of this size."""
    return 2**8 * jnp.finfo(size.dtype).eps * size
