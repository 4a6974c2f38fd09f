"""The first contact along a step, found on its collocation polynomial."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from geodyn._engine.tracing import batched_as
from geodyn._foundations.typing import Array, Bool, Float, Int, Scalar

# Far more than the 30 halvings to the smallest piece. If they do not suffice, the leg ends where they have come.
MOST_CUTS = 200
# In parts of the step: a dip in so short a time is no contact.
SMALLEST_PIECE = 2.0**-30
# In parts of the step: the estimate of a root so close to an end of the piece is that end, to the rounding of single
# precision. Newton's method then finds the exact time.
NEAR = 1e-7
# A cut keeps this distance from the ends, in parts of the piece, so that every cut makes the piece shorter.
MARGIN = 0.02


class Piece(NamedTuple):
    """A piece [lo, hi] of the step, before which there was no contact: the gaps and their rates at both ends, and the
    number of pieces so far."""

    lo: Scalar
    gap_lo: Float[Array, " g"]
    rate_lo: Float[Array, " g"]
    hi: Scalar
    gap_hi: Float[Array, " g"]
    rate_hi: Float[Array, " g"]
    count: Int[Array, ""]

    @property
    def width(self) -> Scalar:
        """hi − lo."""
        return self.hi - self.lo

    def vertices(self) -> tuple[Float[Array, " g"], Float[Array, " g"]]:
        """(θ, height) of the point at which the tangents at the two ends meet, below which no convex gap can fall."""
        turns = (self.rate_lo < 0) & (self.rate_hi > 0)
        bend = jnp.where(turns, self.rate_hi - self.rate_lo, 1)
        # Where gap_lo + rate_lo (θ − lo) = gap_hi + rate_hi (θ − hi).
        ahead = jnp.where(turns, (self.gap_lo - self.gap_hi + self.rate_hi * self.width) / bend, 0)
        return self.lo + ahead, jnp.where(turns, self.gap_lo + self.rate_lo * ahead, jnp.inf)

    def roots(self) -> Float[Array, " g"]:
        """Estimates of the zeros of the gaps: by the tangent at hi, else by that at lo, else the midpoint."""

        def by_tangent(at: Scalar, gap: Float[Array, " g"], rate: Float[Array, " g"]) -> Float[Array, " g"]:
            return at - gap / jnp.where(rate < 0, rate, 1)

        def is_inside(root: Float[Array, " g"], rate: Float[Array, " g"]) -> Bool[Array, " g"]:
            return (rate < 0) & (root >= self.lo) & (root <= self.hi)

        late = by_tangent(self.hi, self.gap_hi, self.rate_hi)
        early = by_tangent(self.lo, self.gap_lo, self.rate_lo)
        midpoint = (self.lo + self.hi) / 2
        early = jnp.where(is_inside(early, self.rate_lo), early, midpoint)
        return jnp.where(is_inside(late, self.rate_hi), late, early)


class Verdict(NamedTuple):
    """What is known of a piece: the gaps that fall below zero in it (`crossing`); whether no other gap can fall below
    zero and come back in it (`single`); where to cut it; whether no gap falls below zero in it (`clear`); whether it
    locates the first contact accurately enough (`found`)."""

    crossing: Bool[Array, " g"]
    single: Bool[Array, ""]
    cut: Scalar
    clear: Bool[Array, ""]
    found: Bool[Array, ""]


def judge(piece: Piece, noise: Float[Array, " g"]) -> Verdict:
    """The verdict on a piece, for gaps that are convex or concave on it."""
    small = (piece.width < SMALLEST_PIECE) & (piece.width > 0)
    below = piece.gap_hi < -noise
    # A contact that is closed at the start and opens does not cross there. If it is below zero and falling at the end,
    # it has come back in between.
    leaves = (piece.gap_lo <= noise) & (piece.rate_lo >= 0)
    falls = piece.rate_hi < 0
    crossing = below & (~leaves | (small & falls))
    returned = below & leaves & ~small & falls
    vertex, height = piece.vertices()
    dips = ~below & (height < -noise) & ~small
    root = jnp.min(jnp.where(crossing, piece.roots(), jnp.inf))
    midpoint = (piece.lo + piece.hi) / 2
    doubt = jnp.where(dips, vertex, jnp.where(returned, midpoint, jnp.inf))
    single = ~jnp.any(dips | returned)
    to_nearest_end = jnp.minimum(jnp.abs(root - piece.lo), jnp.abs(root - piece.hi))
    crosses = jnp.any(crossing)
    found = crosses & single & ((to_nearest_end < NEAR) | small)
    # What is in doubt comes first, since it may be a contact before the root.
    cut = jnp.where(single, root, jnp.min(doubt))
    return Verdict(crossing, single, cut, clear=~crosses & single, found=found)


def first_contact(
    along: Callable[[Scalar], tuple[Float[Array, " g"], Float[Array, " g"]]],
    gap: Float[Array, " g"],
    rate: Float[Array, " g"],
    noise: Float[Array, " g"],
    pieces: int,
    active: Bool[Array, ""],
) -> tuple[Scalar, Bool[Array, " g"]]:
    """(θ, crossing[g]): approximately where in [0, 1] the first gaps fall below zero, and which gaps do. If none does,
    θ is how far this is certain: 1, or less if too many gaps come near zero. `along(θ) -> (gaps, rates)` gives the gaps
    on the step; gap and rate are those at θ = 0.

    The search misses no contact if each gap is convex or concave on each of the `pieces` equal pieces of the step. A
    convex gap cannot fall below the tangents at its ends, so a piece is cut where these meet, until they stay above
    zero or a gap below zero is found. (The distance of two points that move uniformly in flat space is convex, however
    small and fast they are.) A gap above −`noise`, the rounding error of a gap, does not count as a contact.
    """

    def proceed(state: tuple[Piece, Verdict]) -> Bool[Array, ""]:
        piece, verdict = state
        ended = verdict.found | (verdict.clear & (piece.hi >= 1))
        return active & ~ended & (piece.count < MOST_CUTS)

    def cut(state: tuple[Piece, Verdict]) -> tuple[Piece, Verdict]:
        piece, verdict = state
        margin = MARGIN * piece.width
        inside = jnp.clip(verdict.cut, piece.lo + margin, piece.hi - margin)
        # After a piece without contacts comes one up to the next multiple of 1/pieces. If `hi` is such a multiple,
        # rounding may have left it below: hence the 1e-3.
        ahead = jnp.minimum((jnp.floor(piece.hi * pieces + 1e-3) + 1) / pieces, 1)
        at = jnp.where(verdict.clear, ahead, inside)
        gap, rate = along(at)
        # If no gap is below zero at the cut of a piece with a single crossing, the cut is the new start of the piece.
        onwards = jnp.any(verdict.crossing) & ~jnp.any(gap < -noise) & verdict.single

        def start(lo: Array, hi: Array, new: Array) -> Array:
            """What holds at the start of the next piece, from this piece's start and end, and from the cut."""
            return jnp.where(verdict.clear, hi, jnp.where(onwards, new, lo))

        def end(hi: Array, new: Array) -> Array:
            """What holds at the end of the next piece."""
            return jnp.where(onwards, hi, new)

        piece = Piece(
            lo=start(piece.lo, piece.hi, at),
            gap_lo=start(piece.gap_lo, piece.gap_hi, gap),
            rate_lo=start(piece.rate_lo, piece.rate_hi, rate),
            hi=end(piece.hi, at),
            gap_hi=end(piece.gap_hi, gap),
            rate_hi=end(piece.rate_hi, rate),
            count=piece.count + 1,
        )
        return piece, judge(piece, noise)

    zero = jnp.zeros((), noise.dtype)
    yes = jnp.ones((), bool)
    # Of width zero and clear: so the first cut is at the end of the first piece.
    at_start = Piece(zero, gap, rate, zero, gap, rate, jnp.zeros((), int))
    none = gap != gap
    nothing_crosses = Verdict(crossing=none, single=yes, cut=zero, clear=yes, found=~yes)
    begin = batched_as(gap, (at_start, nothing_crosses))
    piece, verdict = jax.lax.while_loop(proceed, cut, begin)
    certain = jnp.where(verdict.clear, piece.hi, piece.lo)
    theta = jnp.where(verdict.found, jnp.clip(verdict.cut, piece.lo, piece.hi), certain)
    return jnp.where(active, theta, 1), verdict.crossing & active & verdict.found
