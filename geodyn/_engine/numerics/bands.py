"""Dense and block-tridiagonal matrices of linear functions of arrays: their assembly, and linear solves with them.

A matrix is assembled by applying the function to unit vectors. In a block-tridiagonal matrix, columns three blocks
apart have no row in common, so that one application serves them all: as many applications suffice as three blocks have
columns (Curtis, Powell & Reid, J. Inst. Math. Appl. 13 (1974) 117). The cost of the elimination is linear in the number
of blocks (Golub & Van Loan, Matrix Computations, 4.5.1). lineax and jax.lax solve tridiagonal systems of numbers only,
not of blocks.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.numerics.linalg import columns, inverse
from geodyn._foundations.typing import Array, Float


class Full(NamedTuple):
    """Dense matrices."""

    def matrix(self, push: Callable, near: Array) -> Array:
        """The matrix of a function `push`, linear in arrays of the shape of `near`."""

        def image(unit: Float[Array, " n"]) -> Float[Array, " n"]:
            return push(unit.reshape(near.shape)).reshape(-1)

        # The images of the unit vectors are the columns of the matrix, and come as rows.
        return columns(image, near.size, near).T

    def factors(self, matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
        """What `solve` takes: the inverse."""
        return inverse(matrix)

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
        rows = x.reshape(-1, self.size)
        # A block that is not full names the column after the last one, which is zero.
        nothing = jnp.zeros((rows.shape[0], 1), x.dtype)
        padded = jnp.concatenate([rows, nothing], axis=1)
        by_block = jnp.swapaxes(padded[:, self.blocks], 0, 1)
        return by_block.reshape(len(self.blocks), -1)

    def spread(self, y: Float[Array, "K B"], shape: Sequence[int]) -> Float[Array, "... m"]:
        """The array of this shape with the blocks y, the inverse of `gather`."""
        count, width = self.blocks.shape
        # Where each column stands among the blocks; what pads them comes last.
        places = np.argsort(self.blocks, axis=None, kind="stable")[: self.size]
        by_block = y.reshape(count, -1, width)
        rows = jnp.swapaxes(by_block, 0, 1).reshape(-1, count * width)
        return rows[:, places].reshape(shape)

    def matrix(self, push: Callable, near: Array) -> Float[Array, "K 3 B B"]:
        """The matrix of a function `push`, linear in arrays of the shape of `near`."""
        count, columns_per_block = self.blocks.shape
        # An array has several numbers for each column: one for every place along its other axes.
        width = columns_per_block * near.size // self.size
        block = np.arange(count)[:, None]
        # Blocks of one colour are three apart, so that their images do not overlap.
        is_of_colour = block % 3 == np.arange(3)
        colours = jnp.asarray(is_of_colour, near.dtype)

        def image(unit: Float[Array, " _"]) -> Array:
            """The image of the same unit vector in all blocks of a colour."""
            in_blocks = colours @ unit.reshape(3, width)
            return self.gather(push(self.spread(in_blocks, near.shape)))

        images = columns(image, 3 * width, near).reshape(3, width, count, width)
        # Each row of blocks takes its part of the images of three colours: those of the block to the left, of its own
        # and of the block to the right. The first row has no block to the left, and the last none to the right: they
        # take a colour there of which no block reaches them, and so zeros.
        neighbours = block + np.arange(-1, 2)
        of_rows = images[neighbours % 3, :, block]
        # From [row of blocks, neighbour, column, row] to [row of blocks, neighbour, row, column].
        return jnp.swapaxes(of_rows, 2, 3)

    def factors(self, matrix: Float[Array, "K 3 B B"]) -> Float[Array, "K 3 B B"]:
        """The factors that `solve` takes: D⁻¹, D⁻¹L and D⁻¹U. D are the diagonal blocks after elimination, L and U the
        blocks left and right of them."""
        width = matrix.shape[-1]
        # The columns that pad the blocks. A block has the places along the other axes one after the other.
        others = width // self.blocks.shape[1]
        missing = np.tile(self.blocks == self.size, others)
        eye = jnp.eye(width, dtype=matrix.dtype)

        def eliminate(before: Float[Array, "B B"], row: tuple[Array, Array]) -> tuple[Array, Array]:
            """One row of blocks, where `before` is D⁻¹U of the row above."""
            (left, middle, right), missing = row
            # Ones on the diagonal for the columns that pad the block, which are zero: else it would be singular.
            full = middle + missing[:, None] * eye
            inverted = jnp.linalg.inv(full - left @ before)
            right_factor = inverted @ right
            return right_factor, jnp.stack([inverted, inverted @ left, right_factor])

        rows = (matrix, jnp.asarray(missing, matrix.dtype))
        _, factors = jax.lax.scan(eliminate, jnp.zeros_like(eye), rows)
        return factors

    def solve(self, factors: Float[Array, "K 3 B B"], r: Float[Array, "... m"]) -> Float[Array, "... m"]:
        """x with matrix x = r."""

        def substitute(x: Float[Array, " B"], row: tuple[Array, Array]) -> tuple[Array, Array]:
            factor, r = row
            x = r - factor @ x
            return x, x

        # Forwards y = D⁻¹r − D⁻¹L y with the y of the row above, then backwards x = y − D⁻¹U x with the x of the row
        # below.
        scaled = jax.vmap(jnp.dot)(factors[:, 0], self.gather(r))
        zero = jnp.zeros_like(scaled[0])
        _, y = jax.lax.scan(substitute, zero, (factors[:, 1], scaled))
        _, x = jax.lax.scan(substitute, zero, (factors[:, 2], y), reverse=True)
        return self.spread(x, r.shape)
