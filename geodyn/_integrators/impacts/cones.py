"""Coulomb's law for several contacts at once, as a complementarity problem on friction cones.

Each contact has an impulse z = (z_n, z_t) and a velocity u = G z + b, where G is the Delassus operator. The law is

    z_n ≥ 0,   u_n ≥ 0,   z_n u_n = 0;    |z_t| ≤ μ z_n,   and   z_t = −μ z_n u_t/|u_t|   where it slips,

Its solutions are the roots of z = P(z − r u), where P projects z_n onto z_n ≥ 0 and z_t onto the disc of radius μ z_n
(Alart & Curnier, Comput. Methods Appl. Mech. Engrg. 92 (1991) 353). They are found by Newton's method, which starts
from the result of projected Gauss–Seidel sweeps (Jourdan, Alart & Jean, ibid. 155 (1998) 31).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from geodyn._engine.numerics.linalg import Factors, factorise
from geodyn._engine.tracing import batched_as
from geodyn._foundations.typing import Array, Bool, Float, Int, Scalar

MOST_ITERATIONS = 96
TRIES = 12
GUESSED = 3
SWEEPS = 8
LARGEST_ELIMINATION = 32
SOFTEST = 1e-3


class Law(NamedTuple):
    """What the impulses z have to obey: the velocities are matrix z + b, the coefficients μ are `friction`."""

    matrix: Float[Array, "K d K d"]
    b: Float[Array, "K d"]
    friction: Float[Array, " K"]


class Tried(NamedTuple):
    """Impulses, and by how much they miss the law."""

    z: Float[Array, "K d"]
    defect: Scalar


class Search(NamedTuple):
    """The state of the iteration: the best impulses so far, those of now, the defect `before`, the `base` that sweeps
    have reached, and the number of iterations, which is negative while the guess is improved."""

    best: Tried
    now: Tried
    before: Scalar
    base: Float[Array, "K d"]
    count: Int[Array, ""]


def in_cone(y: Float[Array, " d"], friction: Scalar) -> Float[Array, " d"]:
    """The projection P: (y_n, y_t) with negative y_n replaced by zero, and y_t shortened to μ y_n if it is longer."""
    normal = jnp.maximum(y[0], 0)
    radius = friction * normal
    square = jnp.sum(y[1:] ** 2)
    slips = square > radius**2
    # The root has no derivative at zero, where nothing slips: there it is not taken.
    length = jnp.sqrt(jnp.where(slips, square, 1))
    shrink = jnp.where(slips, radius / length, radius > 0)
    return jnp.concatenate([normal[None], shrink * y[1:]])


def nearer_of(a: Tried, b: Tried, a_is_nearer: Bool[Array, ""]) -> Tried:
    """One of two."""
    return Tried(jnp.where(a_is_nearer, a.z, b.z), jnp.where(a_is_nearer, a.defect, b.defect))


def steps_of(matrix: Float[Array, "K d K d"], allowed: Bool[Array, " K"]) -> Float[Array, "K d"]:
    """The step r of the projection for each impulse: one over what the impulse alone changes its velocity by. The slips
    of a contact have one step together, since their disc is round. It is zero where nothing may push."""
    k, d = matrix.shape[:2]
    of_same_contact = jnp.eye(k, dtype=matrix.dtype)[:, None, :, None]
    diagonal = jnp.einsum("kikj->kij", matrix * of_same_contact)
    normal = diagonal[:, 0, 0]
    tangent = jnp.einsum("kii->k", diagonal[:, 1:, 1:])
    size = jnp.concatenate([normal[:, None], jnp.broadcast_to(tangent[:, None], (k, d - 1))], axis=1)
    steps = jnp.where((size > 0) & allowed[:, None], 1 / jnp.where(size > 0, size, 1), 0)
    return jax.lax.stop_gradient(steps)


def cone_complementarity(
    matrix: Float[Array, "K d K d"],
    b: Float[Array, "K d"],
    friction: Float[Array, " K"],
    allowed: Bool[Array, " K"],
    guess: Float[Array, "K d"] | float = 0.0,
) -> tuple[Float[Array, "K d"], Bool[Array, ""]]:
    """(z [K, d], whether it was found), with z = 0 at contacts that are not `allowed`. It is differentiable with
    respect to matrix, b and μ, by the implicit-function theorem. If contacts are redundant, the impulses are not
    unique, but the velocities are. If their conditions are only nearly compatible, z may be off by eps^0.3 of the
    largest impulse, 2e-5."""
    k, d = b.shape
    eps = jnp.finfo(b.dtype).eps
    rate = steps_of(matrix, allowed)
    both_allowed = allowed[:, None, None, None] & allowed[None, None, :, None]
    law = Law(jnp.where(both_allowed, matrix, 0), jnp.where(allowed[:, None], b, 0), friction)
    # The search needs no derivatives: those of the solution are made at the end.
    still = jax.lax.stop_gradient(law)
    scale = jnp.max(rate * jnp.abs(still.b), initial=0.0)
    eye = jnp.eye(k * d, dtype=b.dtype)
    # The derivative of `moved`.
    near = eye - rate.reshape(-1, 1) * still.matrix.reshape(k * d, k * d)

    def moved(z: Float[Array, "K d"], law: Law) -> Float[Array, "K d"]:
        """z − r u, before the projection."""
        velocity = jnp.einsum("kilj,lj->ki", law.matrix, z) + law.b
        return z - rate * velocity

    def defect(z: Float[Array, "K d"], law: Law) -> Float[Array, "K d"]:
        projected = jax.vmap(in_cone)(moved(z, law), law.friction)
        return jnp.where(allowed[:, None], z - projected, z)

    def size_of(z: Float[Array, "K d"]) -> Scalar:
        return jnp.max(jnp.abs(z), initial=0.0)

    def left(z: Float[Array, "K d"]) -> Scalar:
        """The size of the defect. A NaN is as bad as can be."""
        return jnp.nan_to_num(size_of(defect(z, still)), nan=jnp.inf)

    def tried(z: Float[Array, "K d"]) -> Tried:
        return Tried(z, left(z))

    def newton(z: Float[Array, "K d"], part: Scalar | float) -> Factors:
        """The derivative of the defect, regularised as by Levenberg & Marquardt: at least by what
        redundant contacts need, and by `part` times the defect relative to the impulses. If the conditions of redundant
        contacts are only nearly compatible, their impulses must be redistributed, and without regularisation the Newton
        steps are far too long."""
        size = size_of(z)
        soft = jnp.clip(part * left(z) / jnp.where(size > 0, size, 1), eps**0.6, SOFTEST)
        slopes = jax.vmap(jax.jacfwd(in_cone))(moved(z, still), still.friction)
        change = jnp.einsum("kij,kjm->kim", slopes, near.reshape(k, d, k * d)).reshape(k * d, k * d)
        return factorise((1 + soft) * eye - change, LARGEST_ELIMINATION)

    def corrected(z: Float[Array, "K d"], factors: Factors, law: Law) -> Float[Array, "K d"]:
        """z after a step of Newton's method."""
        return z - factors.solve(defect(z, law).reshape(-1)).reshape(k, d)

    is_gap = jnp.arange(d) == 0

    def sweep(i: Int[Array, ""], z: Float[Array, "K d"]) -> Float[Array, "K d"]:
        """The impulse of one contact for the impulses of all others, first along its gap and then along its slips."""
        here = i % k
        row, force, speed, coefficient = (x[here] for x in (still.matrix, still.b, rate, still.friction))

        def moved_here(z: Float[Array, "K d"]) -> Float[Array, " d"]:
            return z[here] - speed * (jnp.einsum("ilj,lj->i", row, z) + force)

        along_gap = jnp.where(is_gap, moved_here(z), z[here])
        z = z.at[here].set(in_cone(along_gap, coefficient))
        along_slips = jnp.where(is_gap, z[here], moved_here(z))
        return z.at[here].set(in_cone(along_slips, coefficient))

    def stuck(z: Float[Array, "K d"]) -> Float[Array, "K d"]:
        """The smallest impulses for which all contacts that push stick."""
        push = jnp.broadcast_to((z[:, 0] > 0)[:, None], (k, d)).reshape(-1)
        among_pushing = jnp.where(push[:, None] & push[None, :], eye - near, 0)
        # Softened, since redundant contacts have no single answer; elsewhere the identity, which gives zero.
        soft = among_pushing + jnp.where(push, eps**0.6, 1)[:, None] * eye
        factors = factorise(soft, LARGEST_ELIMINATION)
        wanted = jnp.where(push, -(rate * still.b).reshape(-1), 0)
        # What the softening took away is put back once.
        return factors.solve(wanted + eps**0.6 * factors.solve(wanted)).reshape(k, d)

    def begun(
        _: Float[Array, "K d"], base: Float[Array, "K d"], count: Int[Array, ""]
    ) -> tuple[Tried, Float[Array, "K d"]]:
        """A new start for Newton's method, and the new `base`. The `base` is swept further, twice as far as the time
        before, since sweeps make progress where Newton's method does not. The start is the result, or the impulses with
        which all pushing contacts stick, which may solve the problem if sweeps only slip to and fro."""
        base = jax.lax.fori_loop(0, SWEEPS * k * 2 ** (count // TRIES), sweep, base)
        sticking = tried(stuck(base))
        slipping = tried(base)
        better = (sticking.defect < slipping.defect) | (count == TRIES)
        return nearer_of(sticking, slipping, better), base

    def proceed(state: Search) -> Bool[Array, ""]:
        now = state.now.defect
        # A defect of some roundings is settled, and a larger one once it gets no smaller.
        stalled = now > state.before / 2
        settled = (now <= 16 * eps * scale) | (now <= 2**12 * eps * scale) & stalled
        # At contacts between slipping and sticking rounding decides which they do, differently in each iteration.
        enough = (state.best.defect <= 2**20 * eps * scale) & (state.count > TRIES)
        return ~settled & ~enough & (state.count < MOST_ITERATIONS)

    def improve(state: Search) -> Search:
        """One iteration. Newton's method may have to pass through larger defects, so it is left alone for TRIES
        iterations (for GUESSED ones from the guess) before a new start. Every other time it starts near the best
        impulses found so far, with more regularisation."""
        count = state.count
        from_best = (count // TRIES) % 2 == 1
        anew = count % TRIES == 0
        base = jnp.where(from_best & anew, state.best.z, state.base)
        part = jnp.where(from_best, 1, 0.1)

        def nearer(
            z: Float[Array, "K d"], base: Float[Array, "K d"], _: Int[Array, ""]
        ) -> tuple[Tried, Float[Array, "K d"]]:
            return tried(corrected(z, newton(z, part), still)), base

        now, base = jax.lax.cond(anew, begun, nearer, state.now.z, base, count)
        best = nearer_of(now, state.best, now.defect < state.best.defect)
        return Search(best, now, state.now.defect, base, count + 1)

    zero = jax.lax.stop_gradient(jnp.zeros_like(b))
    first = Tried(jnp.where(allowed[:, None], jax.lax.stop_gradient(guess), zero), jnp.asarray(jnp.inf, b.dtype))
    # Even a good guess is improved at least once, lest its errors add up from step to step: its defect counts as
    # infinite.
    begin = Search(first, first, first.defect, zero, jnp.asarray(-GUESSED))
    found = jax.lax.while_loop(proceed, improve, batched_as(still, begin)).best
    # Two more Newton steps, only for their derivatives: the second one undoes the regularisation.
    factors = newton(found.z, 0.0)
    again = corrected(corrected(found.z, factors, law), factors, law)
    z = found.z + (again - jax.lax.stop_gradient(again))
    # Conditions that are only nearly compatible leave a defect in proportion to the impulses.
    return z, found.defect <= jnp.maximum(2**20 * eps * scale, eps**0.3 * size_of(found.z))
