"""Impacts with friction: Newton's law of restitution and Coulomb's law of friction, without creation of energy.

The impulses z solve the problem of `cones.py` with u_n⁺ + e u_n⁻ in place of u_n and u_t⁺ in place of u_t: a contact
separates at e times its rate of approach, and sticks or slips at the end. By themselves these two laws may create
kinetic energy if a normal impulse causes slip (Kane & Levinson 1985; Brogliato, Nonsmooth Mechanics, ch. 4). The
impulse z⁰ without restitution never does: its work z⁰·(u⁺ + u⁻)/2 is z⁰·u⁺ − z⁰·Gz⁰/2 ≤ 0. If the work of z is
positive, the impulse used instead is the point nearest to z on the segment from z⁰ to z at which the work is zero. It
is in the cones too, and opens the gaps.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from geodyn._engine.numerics.linalg import inverse
from geodyn._foundations.typing import Array, Bool, Float, Int, Scalar
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.impacts.cones import cone_complementarity


class Bonds(NamedTuple):
    """The holonomic constraints at a configuration: their gradients C (`pushes`), the corresponding velocities C M⁻¹
    (`raised`), and (C M⁻¹ Cᵀ)⁻¹ (`inverse`)."""

    pushes: Float[Array, "c n"]
    raised: Float[Array, "c n"]
    inverse: Float[Array, "c c"]

    def removed(self, pushes: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """The momenta `pushes` projected onto the tangent space of the constraints."""
        return pushes - (pushes @ self.raised.T) @ self.inverse @ self.pushes if len(self.pushes) else pushes


class Frame(NamedTuple):
    """The contacts in a state. For each contact and direction, the gap first and then the slips, `rates` are the
    velocities, `rows` the changes of momentum by unit impulses, `pushes` their projections onto the tangent space of
    the constraints, and `raised` the corresponding velocities. `matrix` is the Delassus operator, which maps impulses
    to changes of the rates."""

    rates: Float[Array, "K d"]
    rows: Float[Array, "K d n"]
    pushes: Float[Array, "K d n"]
    raised: Float[Array, "K d n"]
    matrix: Float[Array, "K d K d"]
    friction: Float[Array, " K"]
    bonds: Bonds


def rates(
    system: AbstractSystem, which: Int[Array, " K"], t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"]
) -> Float[Array, "K d"]:
    """d gap/dt and the slip velocities of the contacts `which`."""
    _, rate = jax.jvp(lambda t, q: system.contacts.gap(t, q, which), (t, q), (jnp.ones_like(t), v))
    if not system.contacts.frictional:
        return rate[:, None]
    return jnp.concatenate([rate[:, None], system.contacts.slip(t, q, v, which)], axis=1)


def frame(
    system: AbstractSystem, which: Int[Array, " K"], t: Scalar, q: Float[Array, " n"], p: Float[Array, " n"]
) -> Frame:
    """The `Frame` of the contacts `which` at q."""
    v = system.velocity(t, q, p)

    def raise_index(row: Float[Array, " n"]) -> Float[Array, " n"]:
        """The velocity of a momentum."""
        return jax.jvp(lambda p: system.velocity(t, q, p), (p,), (row,))[1]

    gradients = jax.jacrev(lambda q: system.constraint(t, q))(q)
    raised = jax.vmap(raise_index)(gradients)
    # Without constraints the matrix is empty, which `inverse` does not take.
    of_bonds = inverse(gradients @ raised.T) if len(gradients) else raised @ raised.T
    bonds = Bonds(gradients, raised, of_bonds)

    def twice(v: Float[Array, " n"]) -> tuple[Float[Array, "K d"], Float[Array, "K d"]]:
        """The rates, to be differentiated and as they are."""
        here = rates(system, which, t, q, v)
        return here, here

    rows, before = jax.jacrev(twice, has_aux=True)(v)
    pushes = bonds.removed(rows)
    raised = jax.vmap(jax.vmap(raise_index))(pushes)
    matrix = jnp.einsum("kin,ljn->kilj", pushes, raised)
    friction = system.contacts.friction(q, which) if system.contacts.frictional else jnp.zeros(len(rows), q.dtype)
    return Frame(before, rows, pushes, raised, matrix, friction, bonds)


def impact(
    frame: Frame, before: Float[Array, "K d"], restitution: Float[Array, " K"], allowed: Bool[Array, " K"]
) -> tuple[Float[Array, "K d"], Bool[Array, ""]]:
    """(impulses z [K, d], whether they were found) of an impact at the `allowed` contacts, with the rates u⁻ `before`
    it."""
    is_gap = (jnp.arange(before.shape[1]) == 0)[None, :]
    approach = jnp.minimum(before, 0)
    bounce = jnp.where(is_gap, restitution[:, None] * approach, 0)

    def solve(b: Float[Array, "K d"]) -> tuple[Float[Array, "K d"], Bool[Array, ""]]:
        return cone_complementarity(frame.matrix, b, frame.friction, allowed)

    # One after the other by one program, which is long to compile.
    (z, still), found = jax.lax.map(solve, jnp.stack([before + bounce, before]))
    part = part_without_gain(frame.matrix, still, z, before)
    return still + part * (z - still), jnp.all(found)


def creates(
    matrix: Float[Array, "K d K d"], z: Float[Array, "K d"], u: Float[Array, "K d"], more: Scalar | int = 0
) -> Bool[Array, ""]:
    """Whether the impulses z create energy: whether their work z·(u⁻ + Gz/2) plus `more` is positive."""
    change = jnp.einsum("kilj,lj->ki", matrix, z)
    work = jnp.sum(z * (u + change / 2)) + more
    # The terms of the work may cancel, to rounding errors of this size.
    size = jnp.sum(jnp.abs(z) * (jnp.abs(u) + jnp.abs(change)))
    return work > 64 * jnp.finfo(z.dtype).eps * size


def part_without_gain(
    matrix: Float[Array, "K d K d"],
    still: Float[Array, "K d"],
    z: Float[Array, "K d"],
    u: Float[Array, "K d"],
    more: Float[Array, "2"] | tuple[int, int] = (0, 0),
) -> Scalar:
    """The fraction of the way from the impulses `still`, which create no energy, to z: 1 if z creates no energy either,
    else the fraction at which the work is zero. The two numbers `more` are added to the work of `still` and of z."""

    def times(z: Float[Array, "K d"]) -> Float[Array, "K d"]:
        return jnp.einsum("kilj,lj->ki", matrix, z)

    way = z - still
    there = times(still)
    # On the way the work is a s² + b s + c for the fraction s, and c is not positive but for rounding.
    a = jnp.sum(way * times(way)) / 2
    b = jnp.sum(way * (u + there)) + more[1] - more[0]
    c = jnp.minimum(jnp.sum(still * (u + there / 2)) + more[0], 0)
    square = b**2 - 4 * a * c
    gains = creates(matrix, z, u, more[1]) & (square > 0)
    root = jnp.sqrt(jnp.where(gains, square, 1))
    # The form of the root in which nothing cancels.
    top = jnp.where(b > 0, -2 * c, root - b)
    bottom = jnp.where(b > 0, root + b, 2 * a)
    fraction = jnp.clip(top / jnp.where(bottom > 0, bottom, 1), 0, 1)
    return jnp.where(gains & (bottom > 0), fraction, 1)
