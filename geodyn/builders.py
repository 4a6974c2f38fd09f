"""Bodies that are often wanted, as (system, q0), bodies made of others, and how they may start to move."""

from geodyn._mechanics.points.builders import chain, icosahedron, lattice, ring, rod, tetrahedron, triangle
from geodyn._mechanics.points.combine import combine, velocities
from geodyn._mechanics.points.meshes import mesh, read_mesh
from geodyn._mechanics.points.system import edges

__all__ = [
    "chain",
    "combine",
    "edges",
    "icosahedron",
    "lattice",
    "mesh",
    "read_mesh",
    "ring",
    "rod",
    "tetrahedron",
    "triangle",
    "velocities",
]
