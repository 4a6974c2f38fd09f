"""What acts on points: springs, rods, gravity, drag; and builders of bodies made of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._typing import Array, Float
from geodyn.geometry.geodesic import distance
from geodyn.geometry.manifold import AbstractManifold
from geodyn.mechanics.elements import AbstractConstraint, AbstractDissipation, AbstractPotential

Edges = tuple[tuple[int, int], ...]
LARGEST_SELECTION = 256


class Spring(AbstractPotential):
    """Springs along edges (i, j): V = Σ ½ k (dist(x_i, x_j) − ℓ)²; stiffness and length are one number or [E].

    Raises ValueError for edges that are no pairs of distinct points, and for lengths or stiffnesses that are negative,
    not finite, or not one per edge.
    """

    edges: Edges = eqx.field(static=True)
    stiffness: Float[Array, " E"]
    length: Float[Array, " E"]

    def __init__(self, edges, stiffness, length):
        self.edges = _edges(edges)
        self.stiffness = _per_edge(stiffness, self.edges, "stiffness")
        self.length = _per_edge(length, self.edges, "length")

    def energy(self, space, x):
        stretch = edge_lengths(space, x, self.edges) - self.length.astype(x.dtype)
        return 0.5 * jnp.dot(self.stiffness.astype(x.dtype), stretch**2)


class Rod(AbstractConstraint):
    """Rigid massless rods along edges (i, j): dist(x_i, x_j) = ℓ > 0, so λ is the force along the rod, negative where
    it is stretched. Raises ValueError as `Spring` does."""

    edges: Edges = eqx.field(static=True)
    length: Float[Array, " E"]
    size: int = eqx.field(static=True)

    def __init__(self, edges, length):
        self.edges = _edges(edges)
        self.length = _per_edge(length, self.edges, "length", positive=True)
        self.size = len(self.edges)

    def residual(self, space, x):
        return edge_lengths(space, x, self.edges) - self.length.astype(x.dtype)


class FixedPoint(AbstractConstraint):
    """Point `index` held at the coordinates `position[dim]`."""

    index: int = eqx.field(static=True)
    position: Float[Array, " dim"]
    size: int = eqx.field(static=True)

    def __init__(self, index, position):
        self.index, self.position = index, jnp.asarray(position, float)
        self.size = self.position.shape[0]

    def residual(self, space, x):
        return x[self.index] - self.position.astype(x.dtype)


class Gravity(AbstractPotential):
    """A uniform field along a coordinate: V = strength · Σ m_i x_i[axis], for Cartesian-like charts.

    `masses[N]` are those of the system; `axis` is the coordinate that counts upwards, by default the last.
    """

    masses: Float[Array, " N"]
    strength: Float[Array, ""]
    axis: int = eqx.field(static=True)

    def __init__(self, masses, strength=9.81, axis=-1):
        self.masses, self.strength, self.axis = jnp.asarray(masses, float), jnp.asarray(strength, float), axis

    def energy(self, space, x):
        return self.strength.astype(x.dtype) * jnp.dot(self.masses.astype(x.dtype), x[:, self.axis])


class Drag(AbstractDissipation):
    """Linear drag on every point: R = ½ Σ c_i g(x_i)(v_i, v_i); coefficient ≥ 0, one number or [N]."""

    coefficient: Float[Array, "..."]

    def __init__(self, coefficient):
        self.coefficient = _numbers(coefficient, "coefficient")

    def rayleigh(self, space, x, v):
        squares = jax.vmap(lambda x, v: v @ space.metric(x) @ v)(x, v)
        return 0.5 * jnp.sum(self.coefficient.astype(x.dtype) * squares)


def edge_lengths(space: AbstractManifold, x: Float[Array, "N dim"], edges: Edges) -> Float[Array, " E"]:
    """Geodesic length of every edge."""
    starts, ends = np.array(edges).T
    return jax.vmap(lambda a, b: distance(space, a, b))(_select(x, starts), _select(x, ends))


def _select(x, indices):
    """x[indices]; of few points by a product, since an index differentiates into a scatter, which is slow where all
    else of a step is one native function."""
    if x.shape[0] * indices.size > LARGEST_SELECTION:
        return x[indices]
    return jnp.asarray(np.eye(x.shape[0])[indices], x.dtype) @ x


def _edges(edges) -> Edges:
    array = np.asarray(edges)
    if array.ndim != 2 or array.shape[1] != 2 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"edges must be pairs of point indices [E, 2], got {edges!r}")
    if np.any(array < 0) or np.any(array[:, 0] == array[:, 1]):
        raise ValueError(f"edges must join two different points with indices ≥ 0, got {array.tolist()}")
    return tuple((int(i), int(j)) for i, j in array)


def _numbers(value, name, positive=False):
    value = jnp.asarray(value, float)
    if not isinstance(value, jax.core.Tracer):
        concrete = np.asarray(value)
        if not np.all(np.isfinite(concrete) & ((concrete > 0) if positive else (concrete >= 0))):
            raise ValueError(f"{name} must be {'positive' if positive else '≥ 0'} and finite, got {concrete}")
    return value


def _per_edge(value, edges, name, positive=False):
    value = _numbers(value, name, positive)
    if value.shape not in ((), (len(edges),)):
        raise ValueError(f"{name} must be one number or one per edge ({len(edges)}), got shape {value.shape}")
    return jnp.broadcast_to(value, (len(edges),))
