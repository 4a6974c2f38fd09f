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

Components = Float[Array, "K d"]  # of impulses or velocities at K contacts: along the gap, then along the slips
Operator = Float[Array, "K d K d"]
Matrix = Float[Array, "D D"]

MOST_ITERATIONS = 96
TRIES = 12  # Iterations of Newton's method from one start.
GUESSED = 3  # The same from the guess.
SWEEPS = 8  # Over all contacts, before the first start.
LARGEST_ELIMINATION = 32
SOFTEST = 1e-3  # The largest regularisation of Newton's method, relative to the steps r.
# Defects, in roundings of the largest impulse: of a solution, of one that gets no better, and of one that will do.
SETTLED = 16
STALLED = 2**12
ENOUGH = 2**20


class Law(NamedTuple):
    """What the impulses z have to obey: the velocities are matrix z + b, the coefficients μ are `friction`."""

    matrix: Operator
    b: Components
    friction: Float[Array, " K"]

    def velocity(self, z: Components) -> Components:
        """u = G z + b."""
        return jnp.einsum("kilj,lj->ki", self.matrix, z) + self.b


class Tried(NamedTuple):
    """Impulses, and by how much they miss the law."""

    z: Components
    defect: Scalar


class Search(NamedTuple):
    """The state of the iteration: the best impulses so far, those of now, the defect `before`, the `base` that sweeps
    have reached, and the number of iterations, which is negative while the guess is improved."""

    best: Tried
    now: Tried
    before: Scalar
    base: Components
    count: Int[Array, ""]


class Problem(NamedTuple):
    """The equation z = P(z − r u), without derivatives, as the search needs it: the law, which contacts are `allowed`
    to push, the `steps` r, and the `slope` 1 − r G of z − r u, a matrix of D = K d rows. `scale` is the largest impulse
    that stops one contact alone: defects are judged by it."""

    law: Law
    allowed: Bool[Array, " K"]
    steps: Components
    scale: Scalar
    eye: Matrix
    slope: Matrix

    def before_projection(self, z: Components, law: Law) -> Components:
        """z − r u, for this law or another one that has derivatives."""
        return z - self.steps * law.velocity(z)

    def defect(self, z: Components, law: Law) -> Components:
        """z − P(z − r u), and z itself where nothing may push."""
        projected = jax.vmap(in_cone)(self.before_projection(z, law), law.friction)
        return jnp.where(self.allowed[:, None], z - projected, z)

    def left(self, z: Components) -> Scalar:
        """The size of the defect. A NaN is as bad as can be."""
        return jnp.nan_to_num(size_of(self.defect(z, self.law)), nan=jnp.inf)

    def trial(self, z: Components) -> Tried:
        """The impulses z with their defect."""
        return Tried(z, self.left(z))

    def newton(self, z: Components, part: Scalar | float) -> Factors:
        """The derivative of the defect, regularised as by Levenberg & Marquardt: at least by what redundant contacts
        need, and by `part` times the defect relative to the impulses. If the conditions of redundant contacts are only
        nearly compatible, their impulses must be redistributed, and without regularisation the Newton steps are far too
        long."""
        k, d = z.shape
        least = jnp.finfo(z.dtype).eps ** 0.6
        size = size_of(z)
        relative = part * self.left(z) / jnp.where(size > 0, size, 1)
        soft = jnp.clip(relative, least, SOFTEST)
        of_projections = jax.vmap(jax.jacfwd(in_cone))(self.before_projection(z, self.law), self.law.friction)
        of_projected = jnp.einsum("kij,kjm->kim", of_projections, self.slope.reshape(k, d, k * d))
        matrix = (1 + soft) * self.eye - of_projected.reshape(k * d, k * d)
        return factorise(matrix, LARGEST_ELIMINATION)

    def newton_step(self, z: Components, factors: Factors, law: Law) -> Components:
        """z after a step of Newton's method."""
        change = factors.solve(self.defect(z, law).reshape(-1))
        return z - change.reshape(z.shape)

    def sweep(self, i: Int[Array, ""], z: Components) -> Components:
        """The impulse of one contact for the impulses of all others, first along its gap and then along its slips."""
        k, d = z.shape
        here = i % k
        row = self.law.matrix[here]
        force = self.law.b[here]
        step = self.steps[here]
        coefficient = self.law.friction[here]
        is_gap = jnp.arange(d) == 0

        def before_projection_here(z: Components) -> Float[Array, " d"]:
            velocity = jnp.einsum("ilj,lj->i", row, z) + force
            return z[here] - step * velocity

        along_gap = jnp.where(is_gap, before_projection_here(z), z[here])
        z = z.at[here].set(in_cone(along_gap, coefficient))
        along_slips = jnp.where(is_gap, z[here], before_projection_here(z))
        return z.at[here].set(in_cone(along_slips, coefficient))

    def sticking(self, z: Components) -> Components:
        """The smallest impulses for which all contacts that push stick."""
        pushes = jnp.broadcast_to((z[:, 0] > 0)[:, None], z.shape).reshape(-1)
        both_push = pushes[:, None] & pushes[None, :]
        least = jnp.finfo(z.dtype).eps ** 0.6
        # Softened, since redundant contacts have no single answer; elsewhere the identity, which gives zero.
        added = jnp.where(pushes, least, 1)
        matrix = jnp.where(both_push, self.eye - self.slope, 0) + added[:, None] * self.eye
        factors = factorise(matrix, LARGEST_ELIMINATION)
        wanted = jnp.where(pushes, -(self.steps * self.law.b).reshape(-1), 0)
        # What the softening took away is put back once.
        restored = wanted + least * factors.solve(wanted)
        return factors.solve(restored).reshape(z.shape)


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


def size_of(z: Components) -> Scalar:
    """The largest of the numbers."""
    return jnp.max(jnp.abs(z), initial=0.0)


def nearer_of(a: Tried, b: Tried, a_is_nearer: Bool[Array, ""]) -> Tried:
    """One of two."""
    z = jnp.where(a_is_nearer, a.z, b.z)
    defect = jnp.where(a_is_nearer, a.defect, b.defect)
    return Tried(z, defect)


def steps_of(matrix: Operator, allowed: Bool[Array, " K"]) -> Components:
    """The step r of the projection for each impulse: one over what the impulse alone changes its velocity by. The slips
    of a contact have one step together, since their disc is round. It is zero where nothing may push."""
    k, d = matrix.shape[:2]
    of_same_contact = jnp.eye(k, dtype=matrix.dtype)[:, None, :, None]
    diagonal = jnp.einsum("kikj->kij", matrix * of_same_contact)
    normal = diagonal[:, 0, 0]
    tangent = jnp.einsum("kii->k", diagonal[:, 1:, 1:])
    of_slips = jnp.broadcast_to(tangent[:, None], (k, d - 1))
    size = jnp.concatenate([normal[:, None], of_slips], axis=1)
    moves = size > 0
    steps = jnp.where(moves & allowed[:, None], 1 / jnp.where(moves, size, 1), 0)
    return jax.lax.stop_gradient(steps)


def cone_complementarity(
    matrix: Operator,
    b: Components,
    friction: Float[Array, " K"],
    allowed: Bool[Array, " K"],
    guess: Components | float = 0.0,
) -> tuple[Components, Bool[Array, ""]]:
    """(z [K, d], whether it was found), with z = 0 at contacts that are not `allowed`. It is differentiable with
    respect to matrix, b and μ, by the implicit-function theorem. If contacts are redundant, the impulses are not
    unique, but the velocities are. If their conditions are only nearly compatible, z may be off by eps^0.3 of the
    largest impulse, 2e-5."""
    eps = jnp.finfo(b.dtype).eps
    steps = steps_of(matrix, allowed)
    both_allowed = allowed[:, None, None, None] & allowed[None, None, :, None]
    law = Law(jnp.where(both_allowed, matrix, 0), jnp.where(allowed[:, None], b, 0), friction)
    # The search needs no derivatives: those of the solution are made at the end.
    problem = _problem(jax.lax.stop_gradient(law), allowed, steps)
    found = _search(problem, guess)
    # Two more Newton steps, only for their derivatives: the second one undoes the regularisation.
    factors = problem.newton(found.z, 0.0)
    once = problem.newton_step(found.z, factors, law)
    twice = problem.newton_step(once, factors, law)
    z = found.z + (twice - jax.lax.stop_gradient(twice))
    # Conditions that are only nearly compatible leave a defect in proportion to the impulses.
    bound = jnp.maximum(ENOUGH * eps * problem.scale, eps**0.3 * size_of(found.z))
    return z, found.defect <= bound


def _problem(law: Law, allowed: Bool[Array, " K"], steps: Components) -> Problem:
    """The problem of a law whose derivatives are not asked for."""
    size = law.b.size
    scale = jnp.max(steps * jnp.abs(law.b), initial=0.0)
    eye = jnp.eye(size, dtype=law.b.dtype)
    slope = eye - steps.reshape(-1, 1) * law.matrix.reshape(size, size)
    return Problem(law, allowed, steps, scale, eye, slope)


def _search(problem: Problem, guess: Components | float) -> Tried:
    """The impulses that were found, from a guess."""
    b = problem.law.b

    def improve(state: Search) -> Search:
        return _improve(problem, state)

    def proceed(state: Search) -> Bool[Array, ""]:
        return _is_open(problem, state)

    zero = jax.lax.stop_gradient(jnp.zeros_like(b))
    guessed = jnp.where(problem.allowed[:, None], jax.lax.stop_gradient(guess), zero)
    # Even a good guess is improved at least once, lest its errors add up from step to step: its defect counts as
    # infinite.
    first = Tried(guessed, jnp.asarray(jnp.inf, b.dtype))
    begin = Search(first, first, first.defect, zero, jnp.asarray(-GUESSED))
    return jax.lax.while_loop(proceed, improve, batched_as(problem.law, begin)).best


def _is_open(problem: Problem, state: Search) -> Bool[Array, ""]:
    """Whether the search goes on."""
    rounding = jnp.finfo(problem.law.b.dtype).eps * problem.scale
    now = state.now.defect
    # A defect of some roundings is settled, and a larger one once it gets no smaller.
    stalled = now > state.before / 2
    settled = (now <= SETTLED * rounding) | (now <= STALLED * rounding) & stalled
    # At contacts between slipping and sticking rounding decides which they do, differently in each iteration.
    enough = (state.best.defect <= ENOUGH * rounding) & (state.count > TRIES)
    return ~settled & ~enough & (state.count < MOST_ITERATIONS)


def _improve(problem: Problem, state: Search) -> Search:
    """One iteration. Newton's method may have to pass through larger defects, so it is left alone for TRIES iterations
    (for GUESSED ones from the guess) before a new start. Every other time it starts near the best impulses found so
    far, with more regularisation."""
    count = state.count
    from_best = (count // TRIES) % 2 == 1
    anew = count % TRIES == 0
    base = jnp.where(from_best & anew, state.best.z, state.base)
    part = jnp.where(from_best, 1, 0.1)

    def start(_: Components, base: Components, count: Int[Array, ""]) -> tuple[Tried, Components]:
        return _new_start(problem, base, count)

    def step(z: Components, base: Components, _: Int[Array, ""]) -> tuple[Tried, Components]:
        factors = problem.newton(z, part)
        return problem.trial(problem.newton_step(z, factors, problem.law)), base

    now, base = jax.lax.cond(anew, start, step, state.now.z, base, count)
    best = nearer_of(now, state.best, now.defect < state.best.defect)
    return Search(best, now, state.now.defect, base, count + 1)


def _new_start(problem: Problem, base: Components, count: Int[Array, ""]) -> tuple[Tried, Components]:
    """A new start for Newton's method, and the new `base`. The `base` is swept further, twice as far as the time
    before, since sweeps make progress where Newton's method does not. The start is the result, or the impulses with
    which all pushing contacts stick, which may solve the problem if sweeps only slip to and fro."""
    sweeps = SWEEPS * len(base) * 2 ** (count // TRIES)
    base = jax.lax.fori_loop(0, sweeps, problem.sweep, base)
    sticking = problem.trial(problem.sticking(base))
    slipping = problem.trial(base)
    better = (sticking.defect < slipping.defect) | (count == TRIES)
    return nearer_of(sticking, slipping, better), base
