"""Impacts with friction: Newton's law along the gaps, Coulomb's along the slips, and no energy from nothing.

The impulses z are in the friction cones, with u_n⁺ + e u_n⁻ for u_n and u_t⁺ for u_t in `cones`: a contact leaves at e
times its rate of approach, and sticks or slips at the end. Alone, these two laws may create kinetic energy where a
normal impulse makes things slip (Kane & Levinson 1985; Brogliato, Nonsmooth Mechanics, ch. 4). The impulse z⁰ without
restitution never does: its work z⁰·(u⁺ + u⁻)/2 is z⁰·u⁺ − z⁰·Gz⁰/2 ≤ 0. Where the work of z is positive, the point
nearest to z on the segment from z⁰, where it is zero, is taken instead; this too is in the cones and opens the gaps.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from geodyn._numerics.linalg import inverse
from geodyn._typing import Array, Bool, Float
from geodyn.integrators.contract.system import AbstractSystem
from geodyn.integrators.impacts.cones import cone_complementarity


class Bonds(NamedTuple):
    """The gradients [c, n] of the constraints, as velocities too, and (C M⁻¹ Cᵀ)⁻¹."""

    pushes: Float[Array, "c n"]
    raised: Float[Array, "c n"]
    inverse: Float[Array, "c c"]

    def removed(self, pushes: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """What is left of momenta on the tangent space of the constraints."""
        return pushes - (pushes @ self.raised.T) @ self.inverse @ self.pushes if len(self.pushes) else pushes


class Frame(NamedTuple):
    """The contacts of a configuration: momenta [K, d, n] by which unit impulses push, gap first, then slips, as they
    are (`rows`) and on the tangent space of the constraints; the velocities that these are; and what rates these give
    (Delassus)."""

    rows: Float[Array, "K d n"]
    pushes: Float[Array, "K d n"]
    raised: Float[Array, "K d n"]
    matrix: Float[Array, "K d K d"]
    friction: Float[Array, " K"]
    bonds: Bonds


def rates(system: AbstractSystem, which, t, q, v) -> Float[Array, "K d"]:
    """d gap/dt and slip of the contacts `which`."""
    rate = jax.jvp(lambda t, q: system.contacts.gap(t, q, which), (t, q), (jnp.ones_like(t), v))[1][:, None]
    return jnp.concatenate([rate, system.contacts.slip(t, q, v, which)], axis=1) if system.contacts.frictional else rate


def frame(system: AbstractSystem, which, t, q, p) -> Frame:
    """The contacts `which` at q."""
    v = system.velocity(t, q, p)

    def raise_index(row):
        return jax.jvp(lambda p: system.velocity(t, q, p), (p,), (row,))[1]

    gradients = jax.jacrev(lambda q: system.constraint(t, q))(q)
    raised = jax.vmap(raise_index)(gradients)
    bonds = Bonds(gradients, raised, inverse(gradients @ raised.T) if len(gradients) else raised @ raised.T)
    rows = jax.jacrev(lambda v: rates(system, which, t, q, v))(v)
    pushes = bonds.removed(rows)
    raised = jax.vmap(jax.vmap(raise_index))(pushes)
    matrix = jnp.einsum("kin,ljn->kilj", pushes, raised)
    friction = system.contacts.friction(q, which) if system.contacts.frictional else jnp.zeros(len(rows), q.dtype)
    return Frame(rows, pushes, raised, matrix, friction, bonds)


def impact(frame: Frame, before: Float[Array, "K d"], restitution: Float[Array, " K"], allowed: Bool[Array, " K"]):
    """(impulses z [K, d], whether they were found) of an impact with the rates u⁻ `before` it."""
    normal = (jnp.arange(before.shape[1]) == 0)[None, :]
    bounce = jnp.where(normal, restitution[:, None] * jnp.minimum(before, 0), 0)
    both = jnp.stack([before + bounce, before])

    def solve(b):
        return cone_complementarity(frame.matrix, b, frame.friction, allowed)

    (z, still), found = jax.lax.map(solve, both)
    return still + part_without_gain(frame.matrix, still, z, before) * (z - still), jnp.all(found)


def creates(matrix: Float[Array, "K d K d"], z: Float[Array, "K d"], u: Float[Array, "K d"], more=0):
    """Whether the work of the impulses z, z·(u⁻ + Gz/2) with what comes `more`, is positive."""
    change = jnp.einsum("kilj,lj->ki", matrix, z)
    work, size = jnp.sum(z * (u + change / 2)) + more, jnp.sum(jnp.abs(z) * (jnp.abs(u) + jnp.abs(change)))
    return work > 64 * jnp.finfo(z.dtype).eps * size


def part_without_gain(matrix, still: Float[Array, "K d"], z: Float[Array, "K d"], u: Float[Array, "K d"], more=(0, 0)):
    """1 if z creates no energy, with what comes `more` (at the start, at the end); else the part of the way there from
    impulses that are `still`, and do not, at which the work is zero."""

    def times(z):
        return jnp.einsum("kilj,lj->ki", matrix, z)

    gains, way, there = creates(matrix, z, u, more[1]), z - still, times(still)
    a, b = jnp.sum(way * times(way)) / 2, jnp.sum(way * (u + there)) + more[1] - more[0]
    c = jnp.minimum(jnp.sum(still * (u + there / 2)) + more[0], 0)
    square = b**2 - 4 * a * c
    gains = gains & (square > 0)
    root = jnp.sqrt(jnp.where(gains, square, 1))
    # Either form of the root cancels where the other does not.
    top, bottom = jnp.where(b > 0, -2 * c, root - b), jnp.where(b > 0, root + b, 2 * a)
    return jnp.where(gains & (bottom > 0), jnp.clip(top / jnp.where(bottom > 0, bottom, 1), 0, 1), 1)
