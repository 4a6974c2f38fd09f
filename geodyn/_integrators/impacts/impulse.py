"""Impulses of an impact: Newton's law of restitution for several contacts at once, and its derivative.

With the gradients N of the gaps that close and the impulses j, the momenta become p⁺ = p + Nᵀj. The law is the
complementarity problem

    j ≥ 0,   u⁺ + e u⁻ ≥ 0,   jᵀ(u⁺ + e u⁻) = 0,   u = d gap/dt,

whose matrix is the Delassus operator N M⁻¹ Nᵀ. For one contact it is the reflection v⁺ = v − (1+e)<v, n>n in the
kinetic metric. Holonomic constraints add impulses of their own, which keep the rates of the constraints: this replaces
N by its projection onto their tangent space (Moreau 1988; Glocker, Set-Valued Force Laws, 2001). The energy changes by
½ Σ j (1 − e) u⁻ ≤ 0.

If the order of single impacts does not matter, only one contact is struck, and the others follow at the same time. This
is the case if each pair of normals is orthogonal, or encloses the angle π − π/m with e = 1: then the reflections
generate a finite group, of which exactly one element takes the velocity to one at which no contact approaches
(Humphreys, Reflection Groups and Coxeter Groups, 1.12). An example are equal masses in a row, where m = 3. Single
impacts also make the motion differentiable there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.numerics.linalg import inverse
from geodyn._engine.tracing import once
from geodyn._foundations.typing import Array, Bool, Float, Int, Scalar
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.impacts.complementarity import complementarity
from geodyn._integrators.impacts.coulomb import frame, impact

COXETER = np.cos(np.pi / np.arange(3, 13))  # Minus the cosines of the angles π − π/m.
LEAST_ANGLE = 1e-3  # Of a normal with the span of the others, squared: below it they count as linearly dependent.


class Struck(NamedTuple):
    """The contacts of an impact: the numbers of up to K contacts, which of them pushed, which had no restitution
    (`soft`), and their impulses."""

    which: Int[Array, " K"]
    pushed: Bool[Array, " K"]
    soft: Bool[Array, " K"]
    impulse: Float[Array, " K"]


class Strike(NamedTuple):
    """What an impact leads to: the momenta after it, what struck, the contacts that came to rest by it, and the rates
    at which the gaps open after it (`leave`)."""

    p: Float[Array, " n"]
    struck: Struck
    rest: Bool[Array, " K"]
    leave: Float[Array, " K"]


class Approach(NamedTuple):
    """The contacts before an impact without friction: the Delassus operator `matrix`, which maps impulses to changes of
    the gaps' rates; `push`, the change of the momenta by a unit impulse at each contact and by the constraints, which
    answer it; and the `rates` of the gaps before the impact."""

    matrix: Float[Array, "K K"]
    push: Float[Array, "K n"]
    rates: Float[Array, " K"]


class Pass(NamedTuple):
    """The state between the passes of an impact without friction: the number of passes made, the contacts that come to
    rest, the impulses, the contacts that push, and the rates of the gaps after the impact."""

    count: Int[Array, ""]
    rest: Bool[Array, " K"]
    impulse: Float[Array, " K"]
    pushed: Bool[Array, " K"]
    leave: Float[Array, " K"]


class RubbingPass(NamedTuple):
    """The same as `Pass` for contacts with friction: the momenta after the impact take the place of what pushes, and
    the impulses are the normal ones."""

    count: Int[Array, ""]
    rest: Bool[Array, " K"]
    p: Float[Array, " n"]
    impulse: Float[Array, " K"]
    leave: Float[Array, " K"]


def rows(system: AbstractSystem, which: Int[Array, " K"], t: Scalar, q: Float[Array, " n"]) -> Float[Array, " m"]:
    """The gaps of the contacts `which`, then the constraints: m = K + c of them."""
    return jnp.concatenate([system.contacts.gap(t, q, which), system.constraint(t, q)])


def normals(
    system: AbstractSystem, which: Int[Array, " K"], t: Scalar, q: Float[Array, " n"]
) -> tuple[Float[Array, " m"], Float[Array, "m n"]]:
    """The partial derivatives of `rows` with respect to t and q: the drift b and N in their rates N v + b."""
    return jax.jacrev(lambda t, q: rows(system, which, t, q), (0, 1))(t, q)


def delassus(
    system: AbstractSystem, t: Scalar, q: Float[Array, " n"], p: Float[Array, " n"], normals: Float[Array, "m n"]
) -> Float[Array, "m m"]:
    """N M⁻¹ Nᵀ."""

    def raise_index(row: Float[Array, " n"]) -> Float[Array, " n"]:
        """The velocity of a momentum."""
        return jax.jvp(lambda p: system.velocity(t, q, p), (p,), (row,))[1]

    return normals @ jax.vmap(raise_index)(normals).T


def first_alone(
    matrix: Float[Array, "K K"], restitution: Float[Array, " K"], closed: Bool[Array, " K"], held: Bool[Array, " K"]
) -> Bool[Array, " K"]:
    """The contacts to strike among those `closed`: only the first if the order of single impacts does not matter, else
    all of them. The order does not matter under the condition on the angles in the docstring of this file."""
    tolerance = jnp.sqrt(jnp.finfo(matrix.dtype).eps)
    eye = jnp.eye(closed.size, dtype=matrix.dtype)
    either = closed | held
    size = jnp.sqrt(jnp.where(either, jnp.diag(matrix), 1))
    cosine = jnp.where(either[:, None] & either[None, :], matrix / (size[:, None] * size[None, :]), eye)
    elastic = closed & (restitution == 1)
    angles = jnp.asarray(COXETER, cosine.dtype)[None, None, :]
    near = jnp.min(jnp.abs(cosine[:, :, None] + angles), axis=2) <= tolerance
    orthogonal = jnp.abs(cosine) <= tolerance
    free = orthogonal | near & elastic[:, None] & elastic[None, :]
    # In a ring of contacts, whose normals are linearly dependent, single impacts would never end.
    among_closed = jnp.where(closed[:, None] & closed[None, :], cosine, eye)
    ends = jnp.max(jnp.diag(inverse(among_closed))) < 1 / LEAST_ANGLE
    is_itself = eye > 0
    alone = ends & jnp.all(free | is_itself | ~closed[:, None])
    return jnp.where(alone, jnp.arange(closed.size) == jnp.argmax(closed), closed)


def approach_of(
    system: AbstractSystem, which: Int[Array, " K"], t: Scalar, q: Float[Array, " n"], p: Float[Array, " n"]
) -> Approach:
    """The contacts `which` before an impact without friction. The impulses of the constraints are eliminated from the
    equations: they keep the rates of the constraints, whatever the impulses of the contacts are."""
    k = which.size
    drift, gradients = normals(system, which, t, q)
    gram = delassus(system, t, q, p, gradients)
    matrix = gram[:k, :k]
    push = gradients[:k]
    if gram.shape[0] > k:
        # The impulses of the constraints are −coupling j for the impulses j of the contacts.
        coupling = inverse(gram[k:, k:]) @ gram[k:, :k]
        matrix = matrix - gram[:k, k:] @ coupling
        push = push - coupling.T @ gradients[k:]
    rates = drift + gradients @ system.velocity(t, q, p)
    return Approach(matrix, push, rates[:k])


def strike(
    system: AbstractSystem,
    which: Int[Array, " K"],
    closed: Bool[Array, " K"],
    held: Bool[Array, " K"],
    slow: Callable[[Float[Array, " n"]], Float[Array, " K"]] | None,
    t: Scalar,
    q: Float[Array, " n"],
    p: Float[Array, " n"],
) -> Strike:
    """One impact at the contacts `which` that are `closed` or `held`. Contacts that are held have no restitution. If
    `slow` is given, contacts that would separate at less than the rates `slow`(p⁺) have none either: they come to
    rest."""
    if system.contacts.frictional:
        return strike_with_friction(system, which, closed, held, slow, t, q, p)
    at = approach_of(system, which, t, q, p)
    restitution = system.contacts.restitution(q, which)

    def alone(closed: Bool[Array, " K"]) -> tuple[Bool[Array, " K"]]:
        return (first_alone(at.matrix, restitution, closed, held),)

    (closed,) = once(jnp.sum(closed) > 1, alone, closed)

    def proceed(state: Pass) -> Bool[Array, ""]:
        return state.count < passes

    def again(state: Pass) -> Pass:
        """One of two passes: the first with restitution, the second without it for contacts that would separate too
        slowly."""
        e = jnp.where(state.rest | held, 0, restitution)
        j, pushed = complementarity(at.matrix, at.rates + e * jnp.minimum(at.rates, 0), closed | held)
        leave = at.rates + at.matrix @ j
        rest = state.rest
        if slow is not None:
            rest = jnp.where(state.count == 0, closed & (leave <= slow(p + j @ at.push)), rest)
        return Pass(state.count + 1, rest, j, pushed, leave)

    passes = 1 if slow is None else 2
    none_rest = held & False
    # The values that the first pass does not read have only the right shapes.
    begin = Pass(jnp.zeros((), int), none_rest, impulse=at.rates, pushed=closed, leave=at.rates)
    found = jax.lax.while_loop(proceed, again, begin)
    after = p + found.impulse @ at.push
    struck = Struck(which, found.pushed, found.rest | held, found.impulse)
    return Strike(after, struck, found.rest, found.leave)


def strike_with_friction(
    system: AbstractSystem,
    which: Int[Array, " K"],
    closed: Bool[Array, " K"],
    held: Bool[Array, " K"],
    slow: Callable[[Float[Array, " n"]], Float[Array, " K"]] | None,
    t: Scalar,
    q: Float[Array, " n"],
    p: Float[Array, " n"],
) -> Strike:
    """The same as `strike`, for contacts with friction."""

    def proceed(state: RubbingPass) -> Bool[Array, ""]:
        return state.count < passes

    def again(state: RubbingPass) -> RubbingPass:
        after, j, leave = struck_in_cones(system, which, closed | held, state.rest | held, t, q, p)
        rest = state.rest
        if slow is not None:
            rest = jnp.where(state.count == 0, closed & (leave <= slow(after)), rest)
        return RubbingPass(state.count + 1, rest, after, j, leave)

    passes = 1 if slow is None else 2
    nothing = jnp.zeros(which.size, q.dtype)
    none_rest = held & False
    begin = RubbingPass(jnp.zeros((), int), none_rest, p, impulse=nothing, leave=nothing)
    found = jax.lax.while_loop(proceed, again, begin)
    struck = Struck(which, found.impulse > 0, found.rest | held, found.impulse)
    return Strike(found.p, struck, found.rest, found.leave)


def struck_in_cones(
    system: AbstractSystem,
    which: Int[Array, " K"],
    allowed: Bool[Array, " K"],
    soft: Bool[Array, " K"],
    t: Scalar,
    q: Float[Array, " n"],
    p: Float[Array, " n"],
) -> tuple[Float[Array, " n"], Float[Array, " K"], Float[Array, " K"]]:
    """(p⁺, normal impulses, rates of the gaps) after an impact with friction; NaN if no impulses were found."""
    at = frame(system, which, t, q, p)
    restitution = jnp.where(soft, 0, system.contacts.restitution(q, which))
    z, found = impact(at, at.rates, restitution, allowed)
    z = jnp.where(found, z, jnp.nan)
    leave = at.rates[:, 0] + jnp.einsum("klj,lj->k", at.matrix[:, 0], z)
    after = p + jnp.einsum("ki,kin->n", z, at.pushes)
    return after, z[:, 0], leave


def strike_tangent(
    primals: tuple[AbstractSystem, Scalar, Float[Array, " n"], Float[Array, " n"]],
    tangents: tuple[Any, Any, Any, Any],
    struck: Struck,
) -> tuple[Float[Array, " n"], Float[Array, " K"]]:
    """The tangents of (p⁺, impulses) from those of (system, t, q, p), for a fixed set of pushing contacts: then the
    impulses are the root of a linear system (implicit-function theorem)."""
    system, t, q, p = primals
    which = struck.which
    k = which.size
    if system.contacts.frictional:

        def in_cones(
            system: AbstractSystem, t: Scalar, q: Float[Array, " n"], p: Float[Array, " n"]
        ) -> tuple[Float[Array, " n"], Float[Array, " K"]]:
            after, impulse, _ = struck_in_cones(system, which, struck.pushed, struck.soft, t, q, p)
            return after, impulse

        return eqx.filter_jvp(in_cones, primals, tangents)[1]

    def normals_at(
        system: AbstractSystem, t: Scalar, q: Float[Array, " n"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m n"]]:
        return normals(system, which, t, q)

    (drift, gradients), moved = eqx.filter_jvp(normals_at, primals[:3], tangents[:3])
    gram = delassus(system, t, q, p, gradients)
    z = struck.impulse
    if gram.shape[0] > k:
        of_constraints = -inverse(gram[k:, k:]) @ gram[k:, :k] @ z
        z = jnp.concatenate([z, of_constraints])
    pushed = jnp.concatenate([struck.pushed, jnp.ones(z.size - k, bool)])

    def law(
        system: AbstractSystem,
        t: Scalar,
        q: Float[Array, " n"],
        p: Float[Array, " n"],
        drift: Float[Array, " m"],
        normal: Float[Array, "m n"],
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        """(p⁺, u⁺ + e u⁻) for the impulses z: what pushes has zero for the second."""
        after = p + z @ normal
        e: Float[Array, " k"] = jnp.where(struck.soft, 0, system.contacts.restitution(q, which))
        # Constraints keep their rates, which are not zero if the method lets the constraints drift.
        e = jnp.concatenate([e, -jnp.ones(z.size - k, e.dtype)])
        v = system.velocity(t, q, p)
        return after, (1 + e) * drift + normal @ system.velocity(t, q, after) + e * (normal @ v)

    dp, residual = eqx.filter_jvp(law, (*primals, drift, gradients), (*tangents, *moved))[1]
    among_pushing = jnp.where(pushed[:, None], gram, jnp.eye(z.size, dtype=z.dtype))
    dz = -inverse(among_pushing) @ jnp.where(pushed, residual, 0)
    return dp + dz @ gradients, dz[:k]
