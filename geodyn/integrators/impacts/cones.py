"""Coulomb's law for several contacts at once, as a complementarity problem on friction cones.

Each contact has an impulse z = (z_n, z_t) and a velocity u = G z + b, where G is the Delassus operator. The law is

    z_n ≥ 0,   u_n ≥ 0,   z_n u_n = 0;    |z_t| ≤ μ z_n,   and   z_t = −μ z_n u_t/|u_t|   where it slips,

Its solutions are the roots of z = P(z − r u), where P projects z_n onto z_n ≥ 0 and z_t onto the disc of radius μ z_n
(Alart & Curnier, Comput. Methods Appl. Mech. Engrg. 92 (1991) 353). They are found by Newton's method, which starts
from the result of projected Gauss–Seidel sweeps (Jourdan, Alart & Jean, ibid. 155 (1998) 31).
"""

import jax
import jax.numpy as jnp

from geodyn._compile.tracing import batched_as
from geodyn._numerics.linalg import Factors, factored
from geodyn._typing import Array, Bool, Float

MOST_ITERATIONS = 96
TRIES = 12
GUESSED = 3
SWEEPS = 8
LARGEST_ELIMINATION = 32
SOFTEST = 1e-3


def in_cone(y: Float[Array, " d"], friction) -> Float[Array, " d"]:
    """The projection P: (y_n, y_t) with negative y_n replaced by zero, and y_t shortened to μ y_n if it is longer."""
    normal = jnp.maximum(y[0], 0)
    square, radius = jnp.sum(y[1:] ** 2), friction * normal
    slips = square > radius**2
    shrink = jnp.where(slips, radius / jnp.sqrt(jnp.where(slips, square, 1)), radius > 0)
    return jnp.concatenate([normal[None], shrink * y[1:]])


def cone_complementarity(
    matrix: Float[Array, "K d K d"],
    b: Float[Array, "K d"],
    friction: Float[Array, " K"],
    allowed: Bool[Array, " K"],
    guess: Float[Array, "K d"] | float = 0.0,
):
    """(z [K, d], whether it was found), with z = 0 at contacts that are not `allowed`. It is differentiable with
    respect to matrix, b and μ, by the implicit-function theorem. If contacts are redundant, the impulses are not
    unique, but the velocities are. If their conditions are only nearly compatible, z may be off by eps^0.3 of the
    largest impulse, 2e-5."""
    k, d = b.shape
    eps = jnp.finfo(b.dtype).eps
    diagonal = jnp.einsum("kikj->kij", matrix * jnp.eye(k, dtype=b.dtype)[:, None, :, None])
    normal, tangent = diagonal[:, 0, 0], jnp.einsum("kii->k", diagonal[:, 1:, 1:])
    size = jnp.concatenate([normal[:, None], jnp.broadcast_to(tangent[:, None], (k, d - 1))], axis=1)
    rate = jax.lax.stop_gradient(jnp.where((size > 0) & allowed[:, None], 1 / jnp.where(size > 0, size, 1), 0))
    matrix = jnp.where(allowed[:, None, None, None] & allowed[None, None, :, None], matrix, 0)
    b = jnp.where(allowed[:, None], b, 0)

    def moved(z, matrix, b):
        return z - rate * (jnp.einsum("kilj,lj->ki", matrix, z) + b)

    def defect(z, matrix, b, friction):
        return jnp.where(allowed[:, None], z - jax.vmap(in_cone)(moved(z, matrix, b), friction), z)

    still = jax.lax.stop_gradient((matrix, b, friction))
    scale = jnp.max(rate * jnp.abs(still[1]), initial=0.0)
    eye = jnp.eye(k * d, dtype=b.dtype)
    near = eye - rate.reshape(-1, 1) * still[0].reshape(k * d, k * d)

    def size_of(z):
        return jnp.max(jnp.abs(z), initial=0.0)

    def newton(z, part) -> Factors:
        """The derivative of the defect, regularised as by Levenberg & Marquardt: at least by what
        redundant contacts need, and by `part` times the defect relative to the impulses. If the conditions of redundant
        contacts are only nearly compatible, their impulses must be redistributed, and without regularisation the Newton
        steps are far too long."""
        size = size_of(z)
        soft = jnp.clip(part * left(z) / jnp.where(size > 0, size, 1), eps**0.6, SOFTEST)
        slopes = jax.vmap(jax.jacfwd(in_cone))(moved(z, *still[:2]), still[2])
        change = jnp.einsum("kij,kjm->kim", slopes, near.reshape(k, d, k * d)).reshape(k * d, k * d)
        return factored((1 + soft) * eye - change, LARGEST_ELIMINATION)

    def corrected(z, factors: Factors, *given):
        return z - factors.solve(defect(z, *given).reshape(-1)).reshape(k, d)

    gap = jnp.arange(d) == 0

    def sweep(i, z):
        """The impulse of one contact for the impulses of all others, first along its gap and then along its slips."""
        here = i % k
        row, *given = (x[here] for x in (still[0], still[1], rate, still[2]))

        def moved_here(z):
            force, speed, _ = given
            return z[here] - speed * (jnp.einsum("ilj,lj->i", row, z) + force)

        normal = z.at[here].set(in_cone(jnp.where(gap, moved_here(z), z[here]), given[2]))
        return z.at[here].set(in_cone(jnp.where(gap, normal[here], moved_here(normal)), given[2]))

    def left(z):
        return jnp.nan_to_num(size_of(defect(z, *still)), nan=jnp.inf)

    def stuck(z):
        """The smallest impulses for which all contacts that push stick."""
        push = jnp.broadcast_to((z[:, 0] > 0)[:, None], (k, d)).reshape(-1)
        soft = jnp.where(push[:, None] & push[None, :], eye - near, 0) + jnp.where(push, eps**0.6, 1)[:, None] * eye
        factors = factored(soft, LARGEST_ELIMINATION)
        wanted = jnp.where(push, -(rate * still[1]).reshape(-1), 0)
        return factors.solve(wanted + eps**0.6 * factors.solve(wanted)).reshape(k, d)

    def judged(z):
        return (z, left(z))

    def begun(_, base, count):
        """A new start for Newton's method, with its defect, and the new `base`. The `base` is swept further, twice as
        far as the time before, since sweeps make progress where Newton's method does not. The start is the result, or
        the impulses with which all pushing contacts stick, which may solve the problem if sweeps only slip to and
        fro."""
        base = jax.lax.fori_loop(0, SWEEPS * k * 2 ** (count // TRIES), sweep, base)
        stick, slip = judged(stuck(base)), judged(base)
        better = (stick[1] < slip[1]) | (count == TRIES)
        return jnp.where(better, stick[0], slip[0]), jnp.where(better, stick[1], slip[1]), base

    def proceed(state):
        (_, nearest), (_, now), before, _, count = state
        settled = (now <= 16 * eps * scale) | (now <= 2**12 * eps * scale) & (now > before / 2)
        # At contacts between slipping and sticking rounding decides which they do, differently in each iteration.
        enough = (nearest <= 2**20 * eps * scale) & (count > TRIES)
        return ~settled & ~enough & (count < MOST_ITERATIONS)

    def improve(state):
        """One iteration. Newton's method may have to pass through larger defects, so it is left alone for TRIES
        iterations (for GUESSED ones from the guess) before a new start. Every other time it starts near the best
        impulses found so far, with more regularisation."""
        best, (z, before), _, base, count = state
        other = (count // TRIES) % 2 == 1
        base = jnp.where(other & (count % TRIES == 0), best[0], base)
        part = jnp.where(other, 1, 0.1)

        def nearer(z, base, _):
            return (*judged(corrected(z, newton(z, part), *still)), base)

        z, now, base = jax.lax.cond(count % TRIES == 0, begun, nearer, z, base, count)
        best = tuple(jnp.where(now < best[1], a, b) for a, b in zip((z, now), best, strict=True))
        return best, (z, now), before, base, count + 1

    # Even a good guess is improved at least once, lest its errors add up from step to step.
    zero, far = jax.lax.stop_gradient(jnp.zeros_like(b)), jnp.asarray(jnp.inf, b.dtype)
    first = jnp.where(allowed[:, None], jax.lax.stop_gradient(guess), zero)
    begin = ((first, far), (first, far), far, zero, jnp.asarray(-GUESSED))
    z, now = jax.lax.while_loop(proceed, improve, batched_as(still, begin))[0]
    # Two more Newton steps, only for their derivatives: the second one undoes the regularisation.
    factors = newton(z, 0)
    again = corrected(corrected(z, factors, matrix, b, friction), factors, matrix, b, friction)
    return z + (again - jax.lax.stop_gradient(again)), now <= jnp.maximum(2**20 * eps * scale, eps**0.3 * size_of(z))
