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

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.numerics.linalg import Factors, factored, inverse
from geodyn._engine.tracing import once
from geodyn._foundations.typing import Array, Bool, Float
from geodyn._integrators.contract.system import AbstractSystem
from geodyn._integrators.impacts.coulomb import frame, impact

COXETER = np.cos(np.pi / np.arange(3, 13))
LEAST_ANGLE = 1e-3
MOST_PIVOTS = 100
BLOCK_PIVOTS = 8


class Struck(NamedTuple):
    """The contacts of an impact: the numbers of up to K contacts, which of them pushed, which had no restitution
    (`soft`), and their impulses."""

    which: Array
    pushed: Bool[Array, " K"]
    soft: Bool[Array, " K"]
    impulse: Float[Array, " K"]


def rows(system: AbstractSystem, which, t, q) -> Float[Array, " m"]:
    """The gaps of the contacts `which`, then the constraints."""
    return jnp.concatenate([system.contacts.gap(t, q, which), system.constraint(t, q)])


def normals(system, which, t, q):
    """The partial derivatives of `rows` with respect to t and q: N and the drift b in their rates N v + b."""
    return jax.jacrev(lambda t, q: rows(system, which, t, q), (0, 1))(t, q)


def delassus(system, t, q, p, normals):
    """N M⁻¹ Nᵀ."""

    def raise_index(row):
        return jax.jvp(lambda p: system.velocity(t, q, p), (p,), (row,))[1]

    return normals @ jax.vmap(raise_index)(normals).T


def complementarity(matrix: Float[Array, "K K"], b: Float[Array, " K"], allowed: Bool[Array, " K"]):
    """(j, j > 0) with j ≥ 0, s = matrix j + b ≥ 0 and j s = 0 at the `allowed` contacts, and j = 0 at the others. This
    linear complementarity problem is solved by principal pivoting, first in blocks and then by the least index, which
    terminates for every positive definite matrix (Murty 1974)."""
    eye, eps = jnp.eye(b.size, dtype=b.dtype), jnp.finfo(b.dtype).eps
    # Redundant contacts make the matrix singular: any solution will do, since the momenta are the same for all.
    softness = 64 * eps * jnp.max(jnp.abs(jnp.diag(matrix))) * eye
    still, target, softness = jax.lax.stop_gradient((matrix, b, softness))
    slack = 64 * eps * jnp.max(jnp.where(allowed, jnp.abs(target), 0))

    def pivot(state):
        active, wrong, count, _ = state
        first = wrong & (jnp.arange(b.size) == jnp.argmax(wrong))
        active = active ^ jnp.where(count < BLOCK_PIVOTS, wrong, first)
        factors = among(active)
        j = factors.solve(jnp.where(active, -target, 0))
        # The second step undoes the regularisation.
        j = j - factors.solve(jnp.where(active, still @ j + target, 0))
        wrong = jnp.where(active, j * jnp.diag(still) < -slack, allowed & (still @ j + target < -slack))
        return active, wrong, count + 1, (j, factors)

    def among(active) -> Factors:
        return factored(jnp.where(active[:, None] & active[None, :], still + softness, eye))

    active = allowed & (target < 0)
    unknown = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(among, active))
    begin = (active & False, active, jnp.zeros((), int), (target, unknown))

    def unsettled(state):
        return (jnp.any(state[1]) | (state[2] == 0)) & (state[2] < MOST_PIVOTS)

    active, _, _, (j, factors) = jax.lax.while_loop(unsettled, pivot, begin)
    # One more step, for its derivatives.
    return jnp.where(active, j - factors.solve(jnp.where(active, matrix @ j + b, 0)), 0), active


def first_alone(matrix: Float[Array, "K K"], restitution, closed: Bool[Array, " K"], held: Bool[Array, " K"]):
    """The contacts to strike among those `closed`: only the first if the order of single impacts does not matter, else
    all of them."""
    tolerance, eye = jnp.sqrt(jnp.finfo(matrix.dtype).eps), jnp.eye(closed.size, dtype=matrix.dtype)
    either = closed | held
    size = jnp.sqrt(jnp.where(either, jnp.diag(matrix), 1))
    cosine = jnp.where(either[:, None] & either[None, :], matrix / (size[:, None] * size[None, :]), eye)
    elastic = closed & (restitution == 1)
    angles = jnp.asarray(COXETER, cosine.dtype)[None, None, :]
    near = jnp.min(jnp.abs(cosine[:, :, None] + angles), axis=2) <= tolerance
    free = (jnp.abs(cosine) <= tolerance) | near & elastic[:, None] & elastic[None, :]
    # In a ring of contacts, whose normals are linearly dependent, single impacts would never end.
    ends = jnp.max(jnp.diag(inverse(jnp.where(closed[:, None] & closed[None, :], cosine, eye)))) < 1 / LEAST_ANGLE
    alone = ends & jnp.all(free | (eye > 0) | ~closed[:, None])
    return jnp.where(alone, jnp.arange(closed.size) == jnp.argmax(closed), closed)


def strike(system: AbstractSystem, which, closed, held, slow, t, q, p):
    """(p⁺, Struck, rest[K], rates⁺[K]) of one impact at the contacts `which` that are `closed` or `held`. Contacts that
    are held have no restitution. If `slow` is given, contacts that would separate at less than the rates `slow`(p⁺)
    have none either: they come to rest."""
    if system.contacts.frictional:
        return strike_with_friction(system, which, closed, held, slow, t, q, p)
    k = which.size
    drift, gradients = normals(system, which, t, q)
    gram = delassus(system, t, q, p, gradients)
    matrix, push = gram[:k, :k], gradients[:k]
    if gram.shape[0] > k:
        coupling = inverse(gram[k:, k:]) @ gram[k:, :k]
        matrix, push = matrix - gram[:k, k:] @ coupling, push - coupling.T @ gradients[k:]
    approach = (drift + gradients @ system.velocity(t, q, p))[:k]
    restitution = system.contacts.restitution(q, which)

    def alone(closed):
        return (first_alone(matrix, restitution, closed, held),)

    (closed,) = once(jnp.sum(closed) > 1, alone, closed)

    def proceed(state):
        return state[0] < passes

    def again(state):
        """One of two passes: the first with restitution, the second without it for contacts that would separate too
        slowly."""
        count, rest, *_ = state
        e = jnp.where(rest | held, 0, restitution)
        j, pushed = complementarity(matrix, approach + e * jnp.minimum(approach, 0), closed | held)
        leave = approach + matrix @ j
        if slow is not None:
            rest = jnp.where(count == 0, closed & (leave <= slow(p + j @ push)), rest)
        return count + 1, rest, j, pushed, leave

    passes = 1 if slow is None else 2
    begin = (jnp.zeros((), int), held & False, approach, closed, approach)
    _, rest, j, pushed, leave = jax.lax.while_loop(proceed, again, begin)
    return p + j @ push, Struck(which, pushed, rest | held, j), rest, leave


def strike_with_friction(system: AbstractSystem, which, closed, held, slow, t, q, p):
    """The same as `strike`, for contacts with friction."""

    def again(state):
        count, rest, *_ = state
        after, z, leave = struck_in_cones(system, which, closed | held, rest | held, t, q, p)
        if slow is not None:
            rest = jnp.where(count == 0, closed & (leave <= slow(after)), rest)
        return count + 1, rest, after, z, leave

    passes, nothing = 1 if slow is None else 2, jnp.zeros(which.size, q.dtype)
    begin = (jnp.zeros((), int), held & False, p, nothing, nothing)
    _, rest, p, z, leave = jax.lax.while_loop(lambda state: state[0] < passes, again, begin)
    return p, Struck(which, z > 0, rest | held, z), rest, leave


def struck_in_cones(system: AbstractSystem, which, allowed, soft, t, q, p):
    """(p⁺, normal impulses, rates of the gaps) after an impact with friction; NaN if no impulses were found."""
    at = frame(system, which, t, q, p)
    z, found = impact(at, at.rates, jnp.where(soft, 0, system.contacts.restitution(q, which)), allowed)
    z = jnp.where(found, z, jnp.nan)
    leave = at.rates[:, 0] + jnp.einsum("klj,lj->k", at.matrix[:, 0], z)
    return p + jnp.einsum("ki,kin->n", z, at.pushes), z[:, 0], leave


def strike_tangent(primals, tangents, struck: Struck):
    """The tangents of (p⁺, impulses) from those of (system, t, q, p), for a fixed set of pushing contacts: then the
    impulses are the root of a linear system (implicit-function theorem)."""
    system, t, q, p = primals
    which, k = struck.which, struck.which.size
    if system.contacts.frictional:

        def cones(*start):
            return struck_in_cones(start[0], which, struck.pushed, struck.soft, *start[1:])[:2]

        return eqx.filter_jvp(cones, primals, tangents)[1]

    def at(system, t, q):
        return normals(system, which, t, q)

    (drift, gradients), moved = eqx.filter_jvp(at, primals[:3], tangents[:3])
    gram, z = delassus(system, t, q, p, gradients), struck.impulse
    if gram.shape[0] > k:
        z = jnp.concatenate([z, -inverse(gram[k:, k:]) @ gram[k:, :k] @ z])
    pushed = jnp.concatenate([struck.pushed, jnp.ones(z.size - k, bool)])

    def law(system, t, q, p, drift, normal):
        after = p + z @ normal
        e: Float[Array, " k"] = jnp.where(struck.soft, 0, system.contacts.restitution(q, which))
        # Constraints keep their rates, which are not zero if the method lets the constraints drift.
        e = jnp.concatenate([e, -jnp.ones(z.size - k, e.dtype)])
        v = system.velocity(t, q, p)
        return after, (1 + e) * drift + normal @ system.velocity(t, q, after) + e * (normal @ v)

    dp, residual = eqx.filter_jvp(law, (*primals, drift, gradients), (*tangents, *moved))[1]
    inverted = inverse(jnp.where(pushed[:, None], gram, jnp.eye(z.size, dtype=z.dtype)))
    dz = -inverted @ jnp.where(pushed, residual, 0)
    return dp + dz @ gradients, dz[:k]
