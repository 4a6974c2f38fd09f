"""Trajectories as tables of text and as meshes, for programs that know nothing of geodyn."""

from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from geodyn._foundations.typing import File

AXES = 3


def write_csv(path: File, trajectory: Any) -> None:
    """What `Trajectory.to_csv` does."""
    t = np.asarray(trajectory.t)
    q = np.asarray(trajectory.q)
    v = np.asarray(trajectory.v)
    if t.ndim != 1:
        raise ValueError("a batch of trajectories has no one table: take jax.tree.map(lambda x: x[i], trajectory)")
    places = ["_".join(map(str, index)) for index in np.ndindex(q.shape[1:])]
    names = ["t", *(f"{kind}{place}" for kind in "qv" for place in places)]
    rows = np.column_stack([t, q.reshape(len(t), -1), v.reshape(len(t), -1)])
    # With 17 digits each number is read as it was.
    np.savetxt(path, rows, fmt="%.17g", delimiter=",", header=",".join(names), comments="")


def write_vtk(path: Any, t: Any, points: Any, edges: Any) -> None:
    """What `Trajectory.to_vtk` does with points [T, N, at most 3]."""
    try:
        import meshio
    except ImportError:
        raise ImportError("to_vtk needs meshio: pip install 'geodyn[mesh]'") from None
    path = Path(path)
    t = np.asarray(t)
    points = np.asarray(points)
    edges = np.asarray(edges, int).reshape(-1, 2)
    if path.suffix != ".pvd":
        raise ValueError(f"path must end in .pvd, got {str(path)!r}")
    if t.ndim != 1:
        raise ValueError("a batch of trajectories has no one file: take jax.tree.map(lambda x: x[i], trajectory)")
    if points.ndim != 3 or len(points) != len(t) or not 1 <= points.shape[2] <= AXES:
        raise ValueError(
            f"points must be [T, N, 2 or 3] with T = {len(t)} to be seen in space, got shape {points.shape}: give "
            "those of a model of the space, such as jax.vmap(jax.vmap(space.embed))(trajectory.q)[..., :3]"
        )
    count = points.shape[1]
    if edges.size and not (edges.min() >= 0 and edges.max() < count):
        raise ValueError(f"edges must be pairs of the {count} points, 0 to {count - 1}; got {edges.tolist()}")
    # A mesh of VTK lies in space: a plane has z = 0.
    in_space = np.pad(points, ((0, 0), (0, 0), (0, AXES - points.shape[2])))
    lines = [("line", edges)] if edges.size else []
    cells = [("vertex", np.arange(count)[:, None]), *lines]
    folder = path.with_suffix("")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"path must leave {str(folder)!r} to the folder of its meshes, which is a file: give another")
    folder.mkdir(exist_ok=True)
    entries = []
    # After a failure the rows are NaN, of which there is no mesh.
    is_known = np.isfinite(in_space).all(axis=(1, 2))
    for k in np.flatnonzero(is_known):
        name = f"{k:06d}.vtu"
        meshio.Mesh(in_space[k], cells).write(folder / name)
        entries.append(f'<DataSet timestep="{t[k]:.17g}" file="{escape(folder.name)}/{name}"/>')
    whole = ['<VTKFile type="Collection" version="0.1"><Collection>', *entries, "</Collection></VTKFile>"]
    path.write_text("\n".join(whole), encoding="utf-8")
