"""Dense and block-tridiagonal matrices of linear functions of arrays: their assembly, and linear solves with them.

A matrix is assembled by applying the function to unit vectors. For a block-tridiagonal matrix as many applications
suffice as three blocks have columns, since columns three blocks apart have no row in common (Curtis, Powell & Reid, J.
Inst. Math. Appl. 13 (1974) 117). Its elimination is linear in the number of blocks (Golub & Van Loan, Matrix
Computations, 4.5.1). lineax and jax.lax solve tridiagonal systems of numbers only, not of blocks.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.numerics.linalg import LARGEST_ELIMINATION, columns, inverse
from geodyn._foundations.typing import Array, Float


class Full(NamedTuple):
    """Dense matrices, inverted by elimination up to the size `largest_elimination` and by LAPACK beyond."""

    largest_elimination: int = LARGEST_ELIMINATION

    def matrix(self, push: Callable, near: Array) -> Array:
        """The matrix of a function `push`, linear in arrays of the shape of `near`."""
        return columns(lambda x: push(x.reshape(near.shape)).reshape(-1), near.size, near).T

    def factors(self, matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
        """The factors that `solve` takes."""
        return inverse(matrix, self.largest_elimination)

    def solve(self, factors: Float[Array, "n n"], r: Array) -> Array:
        """x with matrix x = r."""
        return (factors @ r.reshape(-1)).reshape(r.shape)


class Banded(NamedTuple):
    """Block-tridiagonal matrices on arrays [..., m]: each of the m columns couples only to columns of its own block and
    of the two neighbouring blocks.

    `blocks` [K, b] are the numbers of the columns of each block, padded with m = `size` if it has fewer than b. A
    matrix is [K, 3, B, B]: for each row of blocks the blocks left of the diagonal, on it and right of it; B is b times
    the lengths of the other axes of an array.
    """

    blocks: np.ndarray
    size: int

    def gather(self, x: Float[Array, "... m"]) -> Float[Array, "K B"]:
        """The array block by block, padded with zeros where a block is not full."""
        x = x.reshape(-1, self.size)
        x = jnp.concatenate([x, jnp.zeros((x.shape[0], 1), x.dtype)], axis=1)
        return jnp.swapaxes(x[:, self.blocks], 0, 1).reshape(len(self.blocks), -1)

    def spread(self, y: Float[Array, "K B"], shape: Sequence[int]) -> Float[Array, "... m"]:
        """The array of this shape with the blocks y, the inverse of `gather`."""
        count, width = self.blocks.shape
        places = np.argsort(self.blocks, axis=None, kind="stable")[: self.size]
        return jnp.swapaxes(y.reshape(count, -1, width), 0, 1).reshape(-1, count * width)[:, places].reshape(shape)

    def matrix(self, push: Callable, near: Array) -> Float[Array, "K 3 B B"]:
        """The matrix of a function `push`, linear in arrays of the shape of `near`."""
        count, width = len(self.blocks), self.blocks.shape[1] * near.size // self.size
        block = np.arange(count)[:, None]
        colours = jnp.asarray(block % 3 == np.arange(3), near.dtype)

        def image(unit: Float[Array, " _"]) -> Array:
            return self.gather(push(self.spread(colours @ unit.reshape(3, width), near.shape)))

        images = columns(image, 3 * width, near).reshape(3, width, count, width)
        return jnp.swapaxes(images[(block + np.arange(-1, 2)) % 3, :, block], 2, 3)

    def factors(self, matrix: Float[Array, "K 3 B B"]) -> Float[Array, "K 3 B B"]:
        """The factors that `solve` takes: D⁻¹, D⁻¹L and D⁻¹U, where D are the diagonal blocks after elimination."""
        missing = np.tile(self.blocks == self.size, matrix.shape[-1] // self.blocks.shape[1])
        eye = jnp.eye(matrix.shape[-1], dtype=matrix.dtype)

        def eliminate(before: Float[Array, "B B"], row: tuple[Array, Array]) -> tuple[Array, Array]:
            (left, middle, right), missing = row
            inverted = jnp.linalg.inv(middle + missing[:, None] * eye - left @ before)
            factors = jnp.stack([inverted, inverted @ left, inverted @ right])
            return factors[2], factors

        return jax.lax.scan(eliminate, jnp.zeros_like(eye), (matrix, jnp.asarray(missing, matrix.dtype)))[1]

    def solve(self, factors: Float[Array, "K 3 B B"], r: Float[Array, "... m"]) -> Float[Array, "... m"]:
        """x with matrix x = r."""

        def substitute(x: Float[Array, " B"], row: tuple[Array, Array]) -> tuple[Array, Array]:
            factor, r = row
            x = r - factor @ x
            return x, x

        y = jax.vmap(jnp.dot)(factors[:, 0], self.gather(r))
        zero = jnp.zeros_like(y[0])
        y = jax.lax.scan(substitute, zero, (factors[:, 1], y))[1]
        x = jax.lax.scan(substitute, zero, (factors[:, 2], y), reverse=True)[1]
        return self.spread(x, r.shape)
