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
from geodyn._integrators.impacts.cones import Components, Operator, cone_complementarity


class Bonds(NamedTuple):
    """The holonomic constraints at a configuration: their gradients C (`pushes`), the corresponding velocities C M⁻¹
    (`raised`), and (C M⁻¹ Cᵀ)⁻¹ (`inverse`)."""

    pushes: Float[Array, "c n"]
    raised: Float[Array, "c n"]
    inverse: Float[Array, "c c"]

    def project(self, pushes: Float[Array, "... n"]) -> Float[Array, "... n"]:
        """The momenta `pushes` projected onto the tangent space of the constraints."""
        if len(self.pushes) == 0:
            return pushes
        reactions = (pushes @ self.raised.T) @ self.inverse
        return pushes - reactions @ self.pushes


class Frame(NamedTuple):
    """The contacts in a state. For each contact and direction, the gap first and then the slips, `rates` are the
    velocities, `rows` the changes of momentum by unit impulses, `pushes` their projections onto the tangent space of
    the constraints, and `raised` the corresponding velocities. `matrix` is the Delassus operator, which maps impulses
    to changes of the rates."""

    rates: Components
    rows: Float[Array, "K d n"]
    pushes: Float[Array, "K d n"]
    raised: Float[Array, "K d n"]
    matrix: Operator
    friction: Float[Array, " K"]
    bonds: Bonds


def rates(
    system: AbstractSystem, which: Int[Array, " K"], t: Scalar, q: Float[Array, " n"], v: Float[Array, " n"]
) -> Components:
    """d gap/dt and the slip velocities of the contacts `which`."""

    def gap(t: Scalar, q: Float[Array, " n"]) -> Float[Array, " K"]:
        return system.contacts.gap(t, q, which)

    _, rate = jax.jvp(gap, (t, q), (jnp.ones_like(t), v))
    if not system.contacts.frictional:
        return rate[:, None]
    slip = system.contacts.slip(t, q, v, which)
    return jnp.concatenate([rate[:, None], slip], axis=1)


def frame(
    system: AbstractSystem, which: Int[Array, " K"], t: Scalar, q: Float[Array, " n"], p: Float[Array, " n"]
) -> Frame:
    """The `Frame` of the contacts `which` at q."""
    v = system.velocity(t, q, p)

    def raise_index(row: Float[Array, " n"]) -> Float[Array, " n"]:
        """The velocity of a momentum."""
        return jax.jvp(lambda p: system.velocity(t, q, p), (p,), (row,))[1]

    gradients = jax.jacrev(lambda q: system.constraint(t, q))(q)
    their_velocities = jax.vmap(raise_index)(gradients)
    gram = gradients @ their_velocities.T
    # Without constraints the matrix is empty, which `inverse` does not take.
    bonds = Bonds(gradients, their_velocities, inverse(gram) if len(gradients) else gram)

    def twice(v: Float[Array, " n"]) -> tuple[Components, Components]:
        """The rates, to be differentiated and as they are."""
        here = rates(system, which, t, q, v)
        return here, here

    rows, before = jax.jacrev(twice, has_aux=True)(v)
    pushes = bonds.project(rows)
    raised = jax.vmap(jax.vmap(raise_index))(pushes)
    matrix = jnp.einsum("kin,ljn->kilj", pushes, raised)
    if system.contacts.frictional:
        friction = system.contacts.friction(q, which)
    else:
        friction = jnp.zeros(len(rows), q.dtype)
    return Frame(before, rows, pushes, raised, matrix, friction, bonds)


def impact(
    frame: Frame, before: Components, restitution: Float[Array, " K"], allowed: Bool[Array, " K"]
) -> tuple[Components, Bool[Array, ""]]:
    """(impulses z [K, d], whether they were found) of an impact at the `allowed` contacts, with the rates u⁻ `before`
    it."""
    is_gap = (jnp.arange(before.shape[1]) == 0)[None, :]
    approach = jnp.minimum(before, 0)
    # With u_n⁺ + e u_n⁻ in place of u_n.
    bounce = jnp.where(is_gap, restitution[:, None] * approach, 0)

    def solve(b: Components) -> tuple[Components, Bool[Array, ""]]:
        return cone_complementarity(frame.matrix, b, frame.friction, allowed)

    # One after the other by one program, which is long to compile.
    (z, still), found = jax.lax.map(solve, jnp.stack([before + bounce, before]))
    part = part_without_gain(frame.matrix, still, z, before)
    return still + part * (z - still), jnp.all(found)


def creates(matrix: Operator, z: Components, u: Components, more: Scalar | int = 0) -> Bool[Array, ""]:
    """Whether the impulses z create energy: whether their work z·(u⁻ + Gz/2) plus `more` is positive."""
    change = jnp.einsum("kilj,lj->ki", matrix, z)
    work = jnp.sum(z * (u + change / 2)) + more
    # The terms of the work may cancel, to rounding errors of this size.
    size = jnp.sum(jnp.abs(z) * (jnp.abs(u) + jnp.abs(change)))
    return work > 64 * jnp.finfo(z.dtype).eps * size


def part_without_gain(
    matrix: Operator,
    still: Components,
    z: Components,
    u: Components,
    more: Float[Array, "2"] | tuple[int, int] = (0, 0),
) -> Scalar:
    """The fraction of the way from the impulses `still`, which create no energy, to z: 1 if z creates no energy either,
    else the fraction at which the work is zero. The two numbers `more` are added to the work of `still` and of z."""

    def times(z: Components) -> Components:
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
