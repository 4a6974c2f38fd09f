"""Operations that are programs of simpler ones: factors of small matrices, and what is sorted."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from geodyn._engine.cells import fill
from geodyn._engine.internals import Operation, double_precision
from geodyn._engine.llvm.code import NotUnderstood
from geodyn._engine.program.arrays import ProgramArray
from geodyn._engine.program.block import Block
from geodyn._foundations.typing import Array, Float

# More numbers are not sorted here: to compare all pairs of n takes n² operations, of 64 some 4000, as many as the step
# of a rod.
MOST_SORTED = 64
# Matrices with more rows or columns are left to LAPACK, which works block by block and so waits less for the memory.
LARGEST_MATRIX = 64


def by_program(block: Block, equation: Operation, args: Sequence) -> list[ProgramArray]:
    """The results of an operation by the program that stands for it here."""
    if not any(v.aval.size for v in equation.outvars):
        return [fill(v.aval.shape, []) for v in equation.outvars]
    function = partial(PROGRAMS[equation.primitive.name], **equation.params)
    likes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in equation.invars]
    types = [v.aval.dtype for v in equation.outvars]

    def with_types(*x: Array) -> list[Array]:
        results = function(*x)
        return [y.astype(dtype) for y, dtype in zip(results, types, strict=True)]

    with double_precision(), jax.numpy_rank_promotion("allow"):
        program = jax.make_jaxpr(with_types)(*likes)
        return block.run(program, args)


def _of_matrices(function: Callable) -> Callable:
    """The function of matrices, of which there may be more along the axes before."""

    def of(*args: Array, **params: Any) -> list[Array]:
        if max(args[0].shape[-2:]) > LARGEST_MATRIX:
            raise NotUnderstood(f"a matrix of {args[0].shape}")
        mapped = partial(function, **params)
        for _ in range(args[0].ndim - 2):
            mapped = jax.vmap(mapped)
        return mapped(*args)

    return of


def _lu(a: Float[Array, "m n"], **_: Any) -> tuple[Array, Array, Array]:
    """The factors, the rows that were exchanged, and the order of the rows after that (Golub & Van Loan, 3.4)."""
    rows = jnp.arange(a.shape[0])
    columns = jnp.arange(a.shape[1])
    count = min(a.shape)

    def step(k: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        a, pivots, order = state
        # Rows above k are done: −1 is less than any absolute value.
        candidates = jnp.where(rows >= k, jnp.abs(a[:, k]), -1.0)
        pivot = jnp.argmax(candidates)
        # Row k and that of the pivot change places.
        a = a.at[k].set(a[pivot]).at[pivot].set(a[k])
        order = order.at[k].set(order[pivot]).at[pivot].set(order[k])
        below = rows > k
        # A column of zeros has nothing to eliminate; LAPACK leaves it as it is.
        eliminated = below & (a[k, k] != 0)
        undivided = jnp.where(below, a[:, k], 0)
        factors = jnp.where(eliminated, a[:, k] / a[k, k], undivided)
        # The factors take the place of the zeros that the elimination leaves below the diagonal.
        subtracted = jnp.where(eliminated, factors, 0)
        right_of_pivot = jnp.where(columns > k, a[k], 0)
        rest = a - subtracted[:, None] * right_of_pivot
        is_factor = below[:, None] & (columns == k)
        a = jnp.where(is_factor, factors[:, None], rest)
        return a, pivots.at[k].set(pivot), order

    return jax.lax.fori_loop(0, count, step, (a, jnp.zeros(count, int), rows))


def _triangular(
    a: Float[Array, "n n"],
    b: Float[Array, "n k"],
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> list[Array]:
    """x with a x = b, or x a = b, for a triangular a: forward substitution."""
    if jnp.iscomplexobj(a):
        raise NotUnderstood("a triangular system of complex numbers")
    if not left_side:
        # x a = b is aᵀ xᵀ = bᵀ.
        options = {"lower": lower, "conjugate_a": conjugate_a, "unit_diagonal": unit_diagonal}
        (x,) = _triangular(a, b.T, left_side=True, transpose_a=not transpose_a, **options)
        return [x.T]
    if transpose_a:
        a = a.T
        lower = not lower
    if not lower:
        # With the unknowns and the equations in the opposite order, an upper triangle is a lower one.
        a = a[::-1, ::-1]
        b = b[::-1]
    columns = jnp.arange(a.shape[0])

    def step(k: Array, x: Array) -> Array:
        before = jnp.where(columns < k, a[k], 0)
        known = jnp.sum(before[:, None] * x, axis=0)
        left = b[k] - known
        return x.at[k].set(left if unit_diagonal else left / a[k, k])

    x = jax.lax.fori_loop(0, a.shape[0], step, jnp.zeros_like(b))
    return [x if lower else x[::-1]]


def _cholesky(a: Float[Array, "n n"], **_: Any) -> list[Array]:
    """L with L Lᵀ = a, of which the lower half is read; NaN where a is not positive."""
    rows = jnp.arange(a.shape[0])

    def step(k: Array, factor: Array) -> Array:
        before = jnp.where(rows < k, factor[k], 0)
        column = a[:, k] - jnp.sum(factor * before, axis=1)
        column = jnp.where(rows >= k, column / jnp.sqrt(column[k]), 0)
        return factor.at[:, k].set(column)

    factor = jax.lax.fori_loop(0, a.shape[0], step, jnp.zeros_like(a))
    is_positive = jnp.all(jnp.isfinite(factor))
    # As from LAPACK: NaN in the lower half alone.
    nothing = jnp.where(rows[:, None] >= rows, jnp.nan, 0)
    return [jnp.where(is_positive, factor, nothing)]


def _comes_before(x: Array, y: Array) -> tuple[Array, Array]:
    """(whether x stands before y when sorted, whether they are alike): NaN comes last, and all of them are alike."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x < y, x == y
    before = (x < y) | (~jnp.isnan(x) & jnp.isnan(y))
    alike = (x == y) | (jnp.isnan(x) & jnp.isnan(y))
    return before, alike


def _ranks(keys: Sequence[Array]) -> Array:
    """The place of each entry of the last axis when it is sorted by the first key, then by the second, …; what is alike
    keeps its order."""
    count = keys[0].shape[-1]
    if count > MOST_SORTED:
        raise NotUnderstood(f"{count} numbers that are sorted")
    index = jnp.arange(count)
    before = index[:, None] < index  # Entry i before entry j.
    for key in reversed(keys):
        less, alike = _comes_before(key[..., :, None], key[..., None, :])
        before = less | (alike & before)
    # The rank of entry j is the number of entries i before it.
    return jnp.sum(before, axis=-2)


def _place_by_rank(x: Array, ranks: Array) -> Array:
    """The entries of the last axis at the places that their ranks say."""
    here = ranks[..., None, :] == jnp.arange(x.shape[-1])[:, None]
    if x.dtype == bool:
        return jnp.any(here & x[..., None, :], axis=-1)
    return jnp.sum(jnp.where(here, x[..., None, :], 0), axis=-1)


def _sort(*args: Array, dimension: int, is_stable: bool, num_keys: int) -> list[Array]:
    """The arrays sorted along an axis by the first of them."""
    rows = [jnp.moveaxis(x, dimension, -1) for x in args]
    ranks = _ranks(rows[:num_keys])
    return [jnp.moveaxis(_place_by_rank(x, ranks), -1, dimension) for x in rows]


def _largest(x: Array, *, k: int, **params: Any) -> list[Array]:
    """The k largest entries of the last axis, and their indices."""
    last = x.ndim - 1
    if params.get("axis", last) not in (-1, last):
        raise NotUnderstood("the largest numbers along another axis than the last")
    # Ranks from the largest number on. Those of the numbers in the opposite order, so that of numbers that are alike
    # the first one comes first.
    ascending = _ranks([x[..., ::-1]])[..., ::-1]
    ranks = x.shape[-1] - 1 - ascending
    index = jnp.broadcast_to(jnp.arange(x.shape[-1]), x.shape)
    return [_place_by_rank(x, ranks)[..., :k], _place_by_rank(index, ranks)[..., :k]]


PROGRAMS = {"lu": _of_matrices(_lu), "triangular_solve": _of_matrices(_triangular)}
PROGRAMS |= {"cholesky": _of_matrices(_cholesky), "sort": _sort, "top_k": _largest}
