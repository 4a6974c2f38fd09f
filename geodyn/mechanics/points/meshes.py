"""Bodies from triangular and tetrahedral meshes."""

import itertools
import os

import numpy as np

from geodyn._typing import Array, Float
from geodyn.geometry.manifold.manifold import AbstractManifold
from geodyn.mechanics.elements.abstract import index_tuples
from geodyn.mechanics.points.builders import around, join
from geodyn.mechanics.points.system import System

CORNERS = {"triangle": 3, "tetra": 4}


def mesh(
    space: AbstractManifold, source, *, masses=1.0, stiffness=1.0, length=None, centre=None
) -> tuple[System, Float[Array, "N dim"]]:
    """The body of a mesh of triangles or tetrahedra: its vertices, joined along the edges of its cells.

    `source` is (points[N, k], cells[C, 3 or 4]) or the name of a file that meshio reads (the extra `geodyn[mesh]`), of
    which the tetrahedra are taken or, where there are none, the triangles; `read_mesh` gives its points and cells, for
    elements such as `Area`. Points are vectors at `centre`, and the keywords those of every builder.

    Raises ValueError for cells with repeated or missing vertices, for vertices that coincide or that no cell uses, and
    for a file without such cells; ImportError without meshio.
    """
    if not isinstance(source, str | os.PathLike) and not (isinstance(source, tuple | list) and len(source) == 2):
        raise ValueError(f"source must be (points[N, k], cells[C, 3 or 4]) or the name of a file, got {source!r}")
    points, cells = read_mesh(source) if isinstance(source, str | os.PathLike) else source
    points, cells = _checked(points, cells)
    edges = sorted({tuple(sorted(pair)) for cell in cells for pair in itertools.combinations(cell, 2)})
    return join(space, around(space, points, centre), edges, masses, stiffness, length)


def read_mesh(path: str | os.PathLike) -> tuple[np.ndarray, np.ndarray]:
    """The points[N, k] and the tetrahedra[C, 4] or, where there are none, the triangles[C, 3] of a mesh file.

    A third coordinate that is zero everywhere is dropped from a mesh of triangles. ImportError without meshio;
    ValueError for a file without such cells.
    """
    try:
        import meshio
    except ImportError:
        raise ImportError("reading mesh files needs meshio: pip install 'geodyn[mesh]'") from None
    data = meshio.read(path)
    for kind in ("tetra", "triangle"):
        if kind in data.cells_dict:
            flat = kind == "triangle" and data.points.shape[1] == 3 and not np.any(data.points[:, 2])
            return data.points[:, : 2 if flat else None], data.cells_dict[kind]
    raise ValueError(f"{path} must hold triangles or tetrahedra; it has {', '.join(data.cells_dict) or 'no cells'}")


def _checked(points, cells) -> tuple[np.ndarray, tuple[tuple[int, ...], ...]]:
    """Points and cells as they can be used; else ValueError."""
    points, cells = np.asarray(points, float), np.asarray(cells)
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
    _, first, inverse = np.unique(points, axis=0, return_index=True, return_inverse=True)
    repeated = np.flatnonzero(first[inverse.reshape(-1)] != np.arange(len(points)))
    if repeated.size:
        pairs = [(int(first[inverse.reshape(-1)[i]]), int(i)) for i in repeated]
        raise ValueError(f"points must be different; these coincide: {pairs}: merge them")
    return points, joined
