"""A space with the Killing fields that were found in it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import change_of, custom_jvp
from geodyn._engine.native import native_rows
from geodyn._engine.numerics.failure import nan_unless
from geodyn._engine.numerics.roots import without_derivatives
from geodyn._engine.tracing import batched_as
from geodyn._foundations.typing import Array, Bool, Float, Int, Scalar
from geodyn._geometry.geodesics.checks import check_embedding
from geodyn._geometry.groups.frame_group import Base, FrameGroup, base_of, jet_of_fields
from geodyn._geometry.groups.isometries import group_of
from geodyn._geometry.manifold.manifold import (
    AbstractManifold,
    Domain,
    as_floats,
    domain_of,
    knows_distances,
    period_of,
    signature_of,
)
from geodyn._geometry.manifold.tensors import curvature_and_gradient_at, curvature_at
from geodyn._geometry.symmetries.prolongation import carry, changes, pairs_of, rate, two_forms

# On the way to a point as many steps are taken as suffice: by a comparison with half as many, twice the first number to
# the last. Fields are right to a relative error of 1e-10: with twice the steps the error is 4096 times smaller in the
# end, and at least ten times where few steps are taken.
FIRST_STEPS, STEPS = 8, 64
AGREES = 1e-9


class Seeds(eqx.Module):
    """The Killing fields at one point, from which they are known everywhere.

    `pairs` [K, N] are their values and derivatives at the `origin` [n]. `ends` [R, n] are points at which they leave
    the curvature unchanged, and `correction` [N, M] is the least change of a pair for given changes of the curvature
    there: so the fields follow small changes of numbers in the metric, in derivatives. `metrics` [R, n, n] are those at
    the ends, by which another metric is known. `translations` of the fields move the origin,
    and all of them commute if the algebra `is_commutative`.
    """

    origin: Float[Array, " n"]
    pairs: Float[Array, "K N"]
    ends: Float[Array, "R n"]
    correction: Float[Array, "N M"]
    metrics: Float[Array, "R n n"]
    translations: int = eqx.field(static=True)
    is_commutative: bool = eqx.field(static=True)


class AbstractSymmetricSpace(AbstractManifold):
    """A space with the Killing fields that `gd.symmetries` has found; otherwise as the `space` was."""

    space: AbstractManifold
    seeds: Seeds

    def __init__(self, space: AbstractManifold, seeds: Seeds):
        self.space, self.seeds = space, seeds

    @property
    def dim(self) -> int:
        """That of the space."""
        return self.space.dim

    @property
    def period(self) -> tuple[float, ...] | None:
        """That of the space."""
        return period_of(self.space)

    @property
    def signature(self) -> tuple[int, int]:
        """That of the space."""
        return signature_of(self.space)

    def metric(self, x: Float[Array, " n"]) -> Float[Array, "n n"]:
        """That of the space."""
        return self.space.metric(x)

    @property
    def embedding(self) -> Callable[[Array], Array] | None:
        """That of the space, if it has one."""
        return getattr(self.space, "embedding", None)

    def killing_fields(self, x: Float[Array, " n"]) -> Float[Array, "K n"]:
        """The Killing fields at x; NaN where the way there in the chart is too far for their digits."""
        return pairs_at(self.space, self.seeds, as_floats(x))[0]


class SymmetricSpace(AbstractSymmetricSpace):
    """One whose distances are those of geodesics."""


class SymmetricSpaceWithDistances(AbstractSymmetricSpace):
    """One that knows its distances."""

    def squared_distance(self, x: Float[Array, " n"], y: Float[Array, " n"]) -> Scalar:
        """That of the space."""
        return self.space.squared_distance(x, y)  # pyright: ignore[reportAttributeAccessIssue]: it is optional


def with_fields(space: AbstractManifold, seeds: Seeds) -> AbstractSymmetricSpace:
    """The space with its Killing fields."""
    kind = SymmetricSpaceWithDistances if knows_distances(space) else SymmetricSpace
    return kind(space, seeds)  # pyright: ignore[reportCallIssue]: it does not see an inherited __init__


@domain_of.register
def _(space: AbstractSymmetricSpace) -> Domain:
    return domain_of(space.space)


@check_embedding.register
def _(space: AbstractSymmetricSpace, x: Float[Array, " n"]) -> None:
    # Its embedding is that of the space, and means what it means there.
    check_embedding(space.space, x)


@group_of.register
def _(space: AbstractSymmetricSpace):
    return FrameGroup(space)


@base_of.register
def _(space: AbstractSymmetricSpace) -> Base:
    return Base(space.seeds.origin, space.seeds.translations, space.seeds.is_commutative)


@jet_of_fields.register
def _(space: AbstractSymmetricSpace, x: Float[Array, " n"]) -> tuple[Array, Array]:
    return pairs_at(space.space, space.seeds, x)


def pairs_at(space: AbstractManifold, seeds: Seeds, x: Float[Array, " n"]) -> tuple[Array, Array]:
    """(the Killing fields K [K, n] at x, their covariant derivatives ∇_b K^a [K, n, n])."""
    pairs = _pairs_at_origin(space, seeds).astype(x.dtype)
    z, resolved = _carry_to(space, pairs, seeds.origin.astype(x.dtype), x)
    good = resolved & is_that_of(space, seeds)
    z = nan_unless(jnp.broadcast_to(good, z.shape), z, (space, x))
    inverse = curvature_at(space, x).inverse
    forms = jnp.asarray(two_forms(x.size), x.dtype)
    slopes = jnp.einsum("ac,kp,pcb->kab", inverse, z[:, x.size :], forms)
    return z[:, : x.size] @ inverse, slopes


def is_that_of(space: AbstractManifold, seeds: Seeds) -> Bool[Array, ""]:
    """Whether the metric is the one in which the fields were found. One with other numbers has other fields."""
    space, seeds = without_derivatives((space, seeds))
    now = native_rows(space.metric, seeds.ends)
    unit = jnp.sqrt(jnp.max(jnp.abs(seeds.metrics), axis=(0, 2)))  # Coordinates may have different units.
    off = jnp.max(jnp.abs(now - seeds.metrics) / jnp.outer(unit, unit)[None])
    return off <= max(AGREES, 2**10 * float(jnp.finfo(now.dtype).eps))


class Carried(NamedTuple):
    """Pairs at the end of a way, by a number of steps and by half of them, of which the difference says the error."""

    steps: Int[Array, ""]
    half: Float[Array, "K N"]
    full: Float[Array, "K N"]


@custom_jvp
def _carry_to(
    space: AbstractManifold, pairs: Float[Array, "K N"], origin: Float[Array, " n"], x: Float[Array, " n"]
) -> tuple[Float[Array, "K N"], Bool[Array, ""]]:
    """(the pairs, carried from the origin to x, whether by enough steps)."""
    enough = max(AGREES, 2**10 * float(jnp.finfo(x.dtype).eps))

    def by(steps: Int[Array, ""]) -> Float[Array, "K N"]:
        return carry(space, pairs, origin, x, steps)

    def is_enough(half: Float[Array, "K N"], full: Float[Array, "K N"]) -> Bool[Array, ""]:
        return jnp.max(jnp.abs(full - half)) <= enough * jnp.max(jnp.abs(full))

    def goes_on(state: Carried) -> Bool[Array, ""]:
        return ~is_enough(state.half, state.full) & (state.steps < STEPS)

    def double(state: Carried) -> Carried:
        steps = 2 * state.steps
        return Carried(steps, state.full, by(steps))

    first = jnp.full((), FIRST_STEPS)
    start = batched_as(x[0], Carried(first, by(first // 2), by(first)))
    end = jax.lax.while_loop(goes_on, double, start)
    return end.full, is_enough(end.half, end.full)


@_carry_to.def_jvp
def _(primals: tuple[Any, ...], tangents: tuple[Any, ...]):
    space, pairs, origin, x = primals
    *of_start, of_x = tangents
    z, resolved = _carry_to(*primals)
    change = jnp.zeros_like(z)
    if of_x is not None:  # They are parallel on every way.
        change = change + z @ rate(curvature_at(space, x), of_x).T
    if any(leaf is not None for leaf in jax.tree.leaves(of_start, is_leaf=lambda x: x is None)):

        def plain(
            space: AbstractManifold, pairs: Float[Array, "K N"], origin: Float[Array, " n"]
        ) -> Float[Array, "K N"]:
            return carry(space, pairs, origin, x, STEPS)

        _, of_plain = change_of(plain, (space, pairs, origin), tuple(of_start))
        change = change + of_plain
    return (z, resolved), (change, None)


@custom_jvp
def _pairs_at_origin(space: AbstractManifold, seeds: Seeds) -> Float[Array, "K N"]:
    """The pairs at the origin. If numbers in the metric change, they change with it."""
    return seeds.pairs


@_pairs_at_origin.def_jvp
def _(primals: tuple[Any, ...], tangents: tuple[Any, ...]):
    space, seeds = primals
    of_space, of_seeds = tangents
    pairs = _pairs_at_origin(space, seeds)
    change = jnp.zeros_like(pairs)
    if any(x is not None for x in jax.tree.leaves(of_space, is_leaf=lambda x: x is None)):
        _, off = change_of(lambda space: defects(space, seeds), (space,), (of_space,))
        change = -(seeds.correction @ off).T
    return pairs, change if of_seeds.pairs is None else change + of_seeds.pairs


def defects(space: AbstractManifold, seeds: Seeds) -> Float[Array, "M K"]:
    """How each pair changes the curvature at the ends: zero for Killing fields."""

    def at(x: Float[Array, " n"]) -> Array:
        return changes(*curvature_and_gradient_at(space, x))

    a, b = pairs_of(seeds.origin.size)
    first, second = np.triu_indices(a.size)
    change = native_rows(at, seeds.ends)[:, a[first], b[first], a[second], b[second]]
    there = jax.lax.map(lambda end: carry(space, seeds.pairs, seeds.origin, end, STEPS // 8), seeds.ends)
    return jnp.einsum("rmN,rkN->rmk", change, there).reshape(-1, seeds.pairs.shape[0])
