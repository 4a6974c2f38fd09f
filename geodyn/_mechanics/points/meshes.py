"""Bodies from triangular and tetrahedral meshes."""

import itertools
import os

import numpy as np

from geodyn._foundations.gate import checked
from geodyn._foundations.typing import Array, Each, File, Float, Numbers
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._mechanics.elements.abstract import index_tuples
from geodyn._mechanics.points.builders import around, join
from geodyn._mechanics.points.system import System

CORNERS = {"triangle": 3, "tetra": 4}


@checked
def mesh(
    space: AbstractManifold,
    source: File | tuple[Numbers, Numbers],
    *,
    masses: Each = 1.0,
    stiffness: Each | None = 1.0,
    length: Each | None = None,
    centre: Float[Array, " dim"] | None = None,
) -> tuple[System, Float[Array, "N dim"]]:
    """The body of a mesh of triangles or tetrahedra: its vertices, joined along the edges of its cells.

    Args:
        space: the space, of as many dimensions as the points of the mesh or more.
        source: (points[N, k], cells[C, 3 or 4]), or the name of a file as of `gd.builders.read_mesh`. Points are
            vectors at the centre, in an orthonormal frame, carried over by geodesics.
        masses: one number or [N].
        stiffness: of the springs, one number or [E]; None makes rigid rods.
        length: rest length, one number or [E]; by default the distances as built, so that the body starts at rest.
        centre: coordinates of the centre [dim], by default the origin of the space.

    Returns:
        (system, q0), the body and its configuration [N, dim].

    Raises:
        ValueError: for cells with repeated or missing vertices, for vertices that coincide or that no cell uses, for a
            file without such cells, and for numbers that `gd.System`, `gd.Spring` and `gd.Rod` refuse.
        ImportError: for a file, without meshio (the extra `geodyn[mesh]`).

    Example:
        A square of two triangles, laid on a sphere.

        >>> points, cells = [[0, 0], [1, 0], [1, 1], [0, 1]], [[0, 1, 2], [0, 2, 3]]
        >>> system, q0 = gd.builders.mesh(gd.spaces.Sphere(2), (np.array(points) / 10, cells))
        >>> print(q0.shape, gd.builders.edges(system))
        (4, 2) [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)]
    """
    if not isinstance(source, str | os.PathLike) and not (isinstance(source, tuple | list) and len(source) == 2):
        raise ValueError(f"source must be (points[N, k], cells[C, 3 or 4]) or the name of a file, got {source!r}")
    points, cells = read_mesh(source) if isinstance(source, str | os.PathLike) else source
    points, cells = _check_mesh(points, cells)
    edges = set()
    for cell in cells:
        for pair in itertools.combinations(cell, 2):
            edges.add(tuple(sorted(pair)))
    edges = sorted(edges)
    return join(space, around(space, points, centre), edges, masses, stiffness, length)


@checked
def read_mesh(path: File) -> tuple[np.ndarray, np.ndarray]:
    """The points and cells of a mesh file, for `gd.builders.mesh` and for elements such as `gd.Area`.

    The tetrahedra are taken or, where there are none, the triangles. A third coordinate that is zero everywhere is
    dropped from a mesh of triangles.

    Args:
        path: the name of a file that meshio reads.

    Returns:
        (points[N, k], cells[C, 4 or 3]).

    Raises:
        ImportError: without meshio (the extra `geodyn[mesh]`).
        ValueError: for a file without such cells.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "square.obj"
        ...     square = ["v 0 0 0", "v 1 0 0", "v 1 1 0", "v 0 1 0", "f 1 2 3", "f 1 3 4"]
        ...     _ = path.write_text(chr(10).join(square))
        ...     points, cells = gd.builders.read_mesh(path)
        >>> print(points.shape, cells.tolist())
        (4, 2) [[0, 1, 2], [0, 2, 3]]
    """
    try:
        import meshio
    except ImportError:
        raise ImportError("reading mesh files needs meshio: pip install 'geodyn[mesh]'") from None
    try:
        data = meshio.read(path)
    except meshio.ReadError as error:
        raise ValueError(
            f"path, the source of the mesh, must be a file that meshio reads, got {path!r}: {error}"
        ) from None
    for kind in ("tetra", "triangle"):
        if kind in data.cells_dict:
            flat = kind == "triangle" and data.points.shape[1] == 3 and not np.any(data.points[:, 2])
            return data.points[:, : 2 if flat else None], data.cells_dict[kind]
    raise ValueError(f"{path} must hold triangles or tetrahedra; it has {', '.join(data.cells_dict) or 'no cells'}")


def _check_mesh(points: Numbers, cells: Numbers) -> tuple[np.ndarray, tuple[tuple[int, ...], ...]]:
    """The points as an array and the cells as tuples of indices, once they are found valid; else ValueError."""
    points = np.asarray(points, float)
    cells = np.asarray(cells)
    if points.ndim != 2 or not np.all(np.isfinite(points)):
        raise ValueError(f"points must be finite numbers [N, k], got shape {points.shape}")
    if cells.ndim != 2 or cells.shape[1] not in CORNERS.values() or len(cells) == 0:
        raise ValueError(f"cells must be triangles [C, 3] or tetrahedra [C, 4], got shape {cells.shape}")
    joined = index_tuples("cells", cells, cells.shape[1])
    if np.max(cells) >= len(points):
        raise ValueError(f"cells name point {np.max(cells)}, but there are {len(points)} points")
    unused = np.setdiff1d(np.arange(len(points)), cells)
    if unused.size:
        raise ValueError(f"points must all belong to cells; these do not: {unused.tolist()}: remove them")
    _, index, inverse = np.unique(points, axis=0, return_index=True, return_inverse=True)
    # For each point, the first one that is equal to it.
    first = index[inverse.reshape(-1)]
    repeated = np.flatnonzero(first != np.arange(len(points)))
    if repeated.size:
        pairs = [(int(first[i]), int(i)) for i in repeated]
        raise ValueError(f"points must be different; these coincide: {pairs}: merge them")
    return points, joined
