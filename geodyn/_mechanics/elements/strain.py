"""Strain of cells, from the lengths of their edges alone: no frame is needed, and any space will do."""

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._engine.numerics.linalg import cholesky, solve
from geodyn._foundations.checks import floats
from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Count, Float, Indices, Int, Numbers
from geodyn._geometry.geodesics.distances import squared_distance
from geodyn._geometry.geodesics.limits import NODES
from geodyn._geometry.manifold.manifold import AbstractManifold


@checked
def strain(
    space: AbstractManifold, before: Numbers, after: Numbers, cells: Indices, *, nodes: Count = NODES
) -> Float[Array, "C k k"]:
    """Green's strain of cells: E = ½ (FᵀF − 1) with the deformation F of each cell from one state to another.

    Edges, triangles and tetrahedra are compared as flat ones with the same lengths of edges. So the strain of a rigid
    motion is zero to rounding, in any space.

    Args:
        space: the space.
        before, after: the points in the two states [N, n]. The strain is relative to the first.
        cells: the indices of the corners of each cell [C, k + 1], k = 1, 2 or 3.
        nodes: as for `gd.distance`.

    Returns:
        The strain [C, k, k] in an orthonormal frame of the cell as it was before, which begins along the edge between
        its first two corners. NaN for a cell that was degenerate, and where a distance is not found.

    Raises:
        ValueError: for points and cells of other shapes, and indices of points that do not exist.

    Example:
        A triangle stretched to twice its width: ½ (2² − 1) along the first edge.

        >>> before, after = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]]
        >>> found = gd.cells.strain(gd.spaces.Euclidean(2), before, after, [[0, 1, 2]])
        >>> print(np.round(found[0], 6).tolist())
        [[1.5, 0.0], [0.0, 0.0]]

    Source:
        Marsden & Hughes, *Mathematical Foundations of Elasticity* (1983), section 1.3.
    """
    return _strain(space, *_points_and_corners(space, before, after, cells), nodes)


@checked
def stretches(
    space: AbstractManifold, before: Numbers, after: Numbers, cells: Indices, *, nodes: Count = NODES
) -> Float[Array, "C k"]:
    """The principal stretches of cells: by which factors lengths along the principal axes have grown.

    Args:
        space: the space.
        before, after: the points in the two states [N, n].
        cells: the indices of the corners of each cell [C, k + 1], k = 1, 2 or 3.
        nodes: as for `gd.distance`.

    Returns:
        The stretches [C, k], the smallest first; NaN as for `gd.cells.strain`. Where two of them coincide, only what
        does not depend on their order, such as their sum, has a derivative.

    Raises:
        ValueError: as for `gd.cells.strain`.

    Example:
        A triangle sheared by one: the golden ratio and its inverse.

        >>> before, after = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]
        >>> found = gd.cells.stretches(gd.spaces.Euclidean(2), before, after, [[0, 1, 2]])
        >>> print([f"{x:.6f}" for x in found[0]])
        ['0.618034', '1.618034']

    Source:
        Marsden & Hughes, *Mathematical Foundations of Elasticity* (1983), section 1.3.
    """
    found = _strain(space, *_points_and_corners(space, before, after, cells), nodes)
    return jnp.sqrt(1 + 2 * jnp.linalg.eigvalsh(found))


def _points_and_corners(
    space: AbstractManifold, before: Numbers, after: Numbers, cells: Indices
) -> tuple[Array, Array, Int[np.ndarray, "C s"]]:
    """The points and the cells as arrays; ValueError unless they fit."""
    before = floats("before", before)
    after = floats("after", after)
    if before.ndim != 2 or before.shape[1] != space.dim or after.shape != before.shape:
        raise ValueError(
            f"before and after must have the same shape (N, {space.dim}), points of the space in two states; got "
            f"{before.shape} and {after.shape}"
        )
    corners = np.asarray(cells, int)
    if corners.ndim != 2 or corners.shape[1] not in (2, 3, 4):
        raise ValueError(f"cells must be rows of 2, 3 or 4 indices of points, got shape {corners.shape}")
    if corners.size and not 0 <= corners.min() <= corners.max() < len(before):
        raise ValueError(f"cells name points 0 to {len(before) - 1}, got {corners.min()} to {corners.max()}")
    return before, after, corners


@jit
def _strain(
    space: AbstractManifold,
    before: Float[Array, "N n"],
    after: Float[Array, "N n"],
    cells: Int[Array, "C s"],
    nodes: int,
) -> Float[Array, "C k k"]:
    def of_one(corners: Int[Array, " s"]) -> Float[Array, "k k"]:
        was = _gram(space, before[corners], nodes)
        now = _gram(space, after[corners], nodes)
        root = cholesky(was)

        def undo_root(columns: Float[Array, "k k"]) -> Float[Array, "k k"]:
            return jax.vmap(lambda column: solve(root, column), -1, -1)(columns)

        return (undo_root(undo_root(now).T) - jnp.eye(len(was), dtype=was.dtype)) / 2

    return jax.vmap(of_one)(jnp.asarray(cells))


def _gram(space: AbstractManifold, corners: Float[Array, "s n"], nodes: int) -> Float[Array, "k k"]:
    """The inner products of the edges from the first corner, by the law of cosines."""
    first = corners[0]
    others = corners[1:]

    def to_others(y: Float[Array, " n"]) -> Float[Array, " k"]:
        return jax.vmap(lambda z: squared_distance(space, y, z, nodes=nodes))(others)

    from_first = to_others(first)
    across = jax.vmap(to_others)(others)
    return (from_first[:, None] + from_first[None] - across) / 2
