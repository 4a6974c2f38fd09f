"""The linear complementarity problem of contacts without friction, for their impulses or for their reaction forces j:

    j ≥ 0,   s = matrix j + b ≥ 0,   j s = 0.

It is solved by principal pivoting, first in blocks and then by the least index, which terminates for every positive
definite matrix (Murty 1974). A set of contacts is guessed to push, for which s = 0, while the others have j = 0; then
those change sides at which j or s has the wrong sign.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from geodyn._engine.numerics.linalg import Factors, factorise
from geodyn._foundations.typing import Array, Bool, Float, Int

# The search by the least index ends for every positive definite matrix, but may take long: it is given up after so many
# pivots.
MOST_PIVOTS = 100
# In the first pivots all contacts that are wrong change sides at once: that takes fewer of them, but may go in circles.
BLOCK_PIVOTS = 8
# Each refinement adds as many digits as the factors have, two where contacts are redundant.
REFINEMENTS = 4


class Pivoting(NamedTuple):
    """The state of principal pivoting: the contacts that may push now, those at which the law is violated then, the
    number of pivots so far, and the impulses with the factors by which they were found."""

    active: Bool[Array, " K"]
    wrong: Bool[Array, " K"]
    count: Int[Array, ""]
    impulse: Float[Array, " K"]
    factors: Factors


def complementarity(
    matrix: Float[Array, "K K"], b: Float[Array, " K"], allowed: Bool[Array, " K"]
) -> tuple[Float[Array, " K"], Bool[Array, " K"]]:
    """(j, j > 0) with j ≥ 0, s = matrix j + b ≥ 0 and j s = 0 at the `allowed` contacts, and j = 0 at the others. It is
    differentiable with respect to matrix and b. K is the number of contacts."""
    eye = jnp.eye(b.size, dtype=b.dtype)
    # The rounding errors of sums over some contacts, relative to the largest terms.
    roundings = 64 * jnp.finfo(b.dtype).eps
    # Redundant contacts make the matrix singular: any solution will do, since the momenta are the same for all.
    softness = roundings * jnp.max(jnp.abs(jnp.diag(matrix))) * eye
    # The search needs no derivatives: those of the solution are made at the end.
    still, target, softness = jax.lax.stop_gradient((matrix, b, softness))
    slack = roundings * jnp.max(jnp.where(allowed, jnp.abs(target), 0))

    def factors_among(active: Bool[Array, " K"]) -> Factors:
        """The factors of the matrix among the active contacts, and of the identity elsewhere."""
        both_active = active[:, None] & active[None, :]
        return factorise(jnp.where(both_active, still + softness, eye))

    def pivot(state: Pivoting) -> Pivoting:
        """All contacts that are wrong change sides, or only the first of them, where blocks have gone on for long."""
        first = state.wrong & (jnp.arange(b.size) == jnp.argmax(state.wrong))
        active = state.active ^ jnp.where(state.count < BLOCK_PIVOTS, state.wrong, first)
        factors = factors_among(active)
        j = factors.solve(jnp.where(active, -target, 0))
        # The second step undoes the regularisation.
        j = j - factors.solve(jnp.where(active, still @ j + target, 0))
        # A negative impulse is compared as the change of its own s, which is j times the diagonal.
        pulls = j * jnp.diag(still) < -slack
        closes = allowed & (still @ j + target < -slack)
        return Pivoting(active, jnp.where(active, pulls, closes), state.count + 1, j, factors)

    def unsettled(state: Pivoting) -> Bool[Array, ""]:
        return (jnp.any(state.wrong) | (state.count == 0)) & (state.count < MOST_PIVOTS)

    approaching = allowed & (target < 0)
    # A loop needs values of the right shape to begin with. The first pivot, which is always made, computes the factors.
    shapes = jax.eval_shape(factors_among, approaching)
    no_factors = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    none_active = approaching & False
    begin = Pivoting(none_active, approaching, jnp.zeros((), int), target, no_factors)
    found = jax.lax.while_loop(unsettled, pivot, begin)

    def refine(_: Int[Array, ""], j: Float[Array, " K"]) -> Float[Array, " K"]:
        """The impulses once more, from what they miss."""
        return j - found.factors.solve(jnp.where(found.active, still @ j + target, 0))

    # Among redundant contacts the inverse of the nearly singular matrix has two correct digits only: with a softness of
    # 64 rounding errors its relative error is about 1/64.
    impulse = jax.lax.fori_loop(0, REFINEMENTS, refine, found.impulse)
    # One more step, for its derivatives.
    missed: Float[Array, " K"] = jnp.where(found.active, matrix @ impulse + b, 0)
    return jnp.where(found.active, impulse - found.factors.solve(missed), 0), found.active
