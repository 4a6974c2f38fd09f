"""Small dense linear algebra without LAPACK, a call of which costs more than the arithmetic of a small matrix.

LAPACK calls also hang inside a large `vmap` on JAX 0.10 with several CPU devices.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from geodyn._engine.native import for_each
from geodyn._foundations.typing import Array, Float, Int

# Up to this size elimination takes less time than a call of LAPACK.
LARGEST_ELIMINATION = 16
# By so much may the product of a matrix and its inverse differ from the unit matrix, for one refinement to suffice.
LARGEST_DEFECT = 1e-3
# At most so many vectors are processed at once, and so many numbers of them.
LARGEST_BATCH = 64
LARGEST_BATCH_SIZE = 2**15


def solve(a: Float[Array, "n n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
    """x with a x = b, for symmetric or general a: elimination for n ≤ 16, LAPACK beyond."""
    n = a.shape[0]
    if n == 1:
        return b / a[0]
    if n <= 4:
        cofactors = adjugate(a)
        of_b = cofactors @ b
        determinant = jnp.dot(a[0], cofactors[:, 0])
        return of_b / determinant
    if n <= LARGEST_ELIMINATION:
        return inverse(a) @ b
    return jnp.linalg.solve(a, b)


def adjugate(a: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Adjugate of a matrix with n ≤ 4, so that a⁻¹ = adjugate / det (Cramer)."""
    n = a.shape[0]
    if n == 3:
        return _adjugate_of_three(a)
    rows = []
    for i in range(n):
        # The transpose of the matrix of cofactors: row i has the minors without column i.
        rows.append([(-1) ** (i + j) * _minor(a, j, i) for j in range(n)])
    return jnp.stack([jnp.stack(row) for row in rows])


def _adjugate_of_three(a: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """The same in few operations: the cross products of the rows, all at once."""
    second, third = _cyclic_shifts(a)
    b1, b2 = _cyclic_shifts(second.T)
    c1, c2 = _cyclic_shifts(third.T)
    return b1 * c2 - b2 * c1


def small_inverse(a: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """a⁻¹, for n ≤ 4 by Cramer's rule."""
    if len(a) > 4:
        return inverse(a)
    cofactors = adjugate(a) if len(a) > 1 else jnp.ones_like(a)
    return cofactors / jnp.sum(a[0] * cofactors[:, 0])


def _cyclic_shifts(rows: Float[Array, "3 _"]) -> tuple[Array, Array]:
    """The rows moved up cyclically by one, and by two."""
    by_one = jnp.concatenate([rows[1:], rows[:1]])
    by_two = jnp.concatenate([by_one[1:], by_one[:1]])
    return by_one, by_two


def _minor(a: Float[Array, "n n"], row: int, column: int) -> Array:
    """The determinant without one row and one column."""
    indices = range(a.shape[0])
    rows = [i for i in indices if i != row]
    columns = [j for j in indices if j != column]
    return _determinant([[a[i, j] for j in columns] for i in rows])


def _determinant(rows: list[list[Array]]) -> Array:
    """By expansion along the first row (Laplace)."""
    first, *rest = rows
    if not rest:
        return first[0]
    if len(rest) == 1:
        (second,) = rest
        return first[0] * second[1] - first[1] * second[0]
    total = 0
    for j, entry in enumerate(first):
        minor = [row[:j] + row[j + 1 :] for row in rest]
        total = total + (-1) ** j * entry * _determinant(minor)
    return jnp.asarray(total)


def cholesky(a: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The lower triangular L with L Lᵀ = a, for a small positive definite matrix, written out entry by entry."""
    n = a.shape[0]
    zero = jnp.zeros((), a.dtype)
    rows: list[list[Array]] = []
    for i in range(n):
        row: list[Array] = []
        for j in range(i):
            rest = a[i, j] - _product(row, rows[j], zero)
            row.append(rest / rows[j][j])
        rest = a[i, i] - _product(row, row, zero)
        row.append(jnp.sqrt(rest))
        rows.append(row)
    full = [jnp.stack(row + [zero] * (n - len(row))) for row in rows]
    return jnp.stack(full)


def _product(x: list[Array], y: list[Array], zero: Array) -> Array:
    """The scalar product of two rows of numbers, as far as both of them go."""
    return sum((a * b for a, b in zip(x, y, strict=False)), zero)


def columns(push: Callable, size: int, near: Array) -> Float[Array, "m ..."]:
    """The images of the `size` unit vectors under a linear function, in the order of the vectors.

    They are processed in batches, which are smaller for longer vectors, so that a batch stays in the caches. Our
    compiler takes them one after the other: so their numbers are in registers, and the function stands there once."""
    batch = min(LARGEST_BATCH, max(1, LARGEST_BATCH_SIZE // near.size))
    if size <= batch:
        return for_each(push, jnp.eye(size, dtype=near.dtype))

    def unit(i: Int[Array, ""]) -> Array:
        return (jnp.arange(size) == i).astype(near.dtype)

    return jax.lax.map(lambda i: push(unit(i)), jnp.arange(size), batch_size=batch)


def inverse(a: Array, largest_elimination: int = LARGEST_ELIMINATION) -> Array:
    """Inverse of a real or complex [n, n] matrix: Gauss–Jordan in its place with partial pivoting, whose pivots are
    found with masks instead of gathers so that it batches into one loop; LAPACK beyond `largest_elimination`."""
    n = a.shape[0]
    if n > largest_elimination:
        return jnp.linalg.inv(a)
    index = jnp.arange(n)

    def eliminate(k: Int[Array, ""], state: tuple[Array, Array]) -> tuple[Array, Array]:
        a, order = state
        here = index == k
        column = a[:, k]
        pivot = index == jnp.argmax(jnp.where(index >= k, jnp.abs(column), -1.0))

        def at_pivot(x: Array) -> Array:
            further_axes = [1] * (x.ndim - 1)
            return jnp.sum(jnp.where(pivot.reshape(-1, *further_axes), x, 0), axis=0)

        # Rows k and the pivot's are exchanged. By masks too, since our compiler copies a small array to change a part.
        # Column k of a becomes one of the unit matrix, which is not kept: in its place stands that of the inverse,
        # which before this turn is one of the unit matrix. Hence the 1 and the 0.
        row = jnp.where(here, 1, at_pivot(a)) / at_pivot(column)
        order = jnp.where(here, at_pivot(order), jnp.where(pivot, order[k], order))
        rest = jnp.where(here[None], 0, jnp.where(pivot[:, None], a[k][None], a))
        factors = jnp.where(pivot, column[k], column)
        rest = rest - factors[:, None] * row[None]
        return jnp.where(here[:, None], row[None], rest), order

    a, order = jax.lax.fori_loop(0, n, eliminate, (a, index))
    # The matrix inverted has the rows of a in this order, and so its inverse has the columns in this order.
    place_in_order = jnp.zeros_like(order).at[order].set(index)
    return a[:, place_in_order]


def refined(matrix: Float[Array, "n n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
    """x with matrix x = b, by elimination and one step of iterative refinement (Golub & Van Loan, Matrix Computations,
    3.5.3); NaN where the matrix is singular to rounding. Linear in b, so that JAX transposes it."""
    inverted = inverse(matrix, len(matrix))
    # The numbers on the diagonal of the product have no unit.
    diagonal = jnp.sum(inverted * matrix.T, axis=1)
    is_regular = jnp.all(jnp.abs(diagonal - 1) < LARGEST_DEFECT)
    inverted = jnp.where(is_regular, inverted, jnp.nan)
    x = inverted @ b
    return x + inverted @ (b - matrix @ x)


class Factors(NamedTuple):
    """A matrix made ready for several right-hand sides: its inverse, or beyond `largest_elimination` its LU factors,
    since XLA takes ten times as long for LAPACK's inverse of a large matrix as for its factors. For what is not to be
    differentiated: `solve` has the better derivatives."""

    inverse: Array | None
    lu: tuple[Array, Array] | None

    def solve(self, b: Float[Array, " n"]) -> Float[Array, " n"]:
        """x with a x = b."""
        if self.inverse is None:
            return jax.scipy.linalg.lu_solve(self.lu, b)
        return self.inverse @ b


def factorise(a: Float[Array, "n n"], largest_elimination: int = LARGEST_ELIMINATION) -> Factors:
    """The `Factors` of a symmetric or general matrix."""
    if a.shape[0] > largest_elimination:
        return Factors(None, jax.scipy.linalg.lu_factor(a))
    return Factors(inverse(a, largest_elimination), None)
