"""Contacts: what may not come closer than zero. Hard spheres, walls, and any gap function of the user's."""

import abc
from collections.abc import Callable
from itertools import combinations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._jit import as_pytree, with_time
from geodyn._typing import Array, Float
from geodyn.geometry.geodesic import distance
from geodyn.geometry.manifold import AbstractManifold
from geodyn.mechanics.elements import Tuples, curvature_of, index_tuples, measured, number, one_per_point


class AbstractContact(eqx.Module):
    """Unilateral contacts: gaps that stay ≥ 0. Where one closes, the system is reflected in its kinetic metric,
    v⁺ = v − (1+e)<v, n>n, with the coefficient of restitution e of that contact, one number or [c], from 0 to 1; where
    `elastic` is true all are 1, and no contact can come to rest."""

    restitution: eqx.AbstractVar[Array]
    elastic: bool = eqx.field(static=True, default=False, kw_only=True)

    @abc.abstractmethod
    def gap(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " c"]:
        """The room left at every contact, positive where there is none, with a gradient that does not vanish at zero.
        A method that names a parameter `t` is given the time: a wall may move."""


class Contact(AbstractContact):
    """Hard spheres: `Contact(radii, restitution=1.0, pairs=None)`, gap = dist(x_i, x_j) − (r_i + r_j) between all pairs
    of points, or between `pairs` [c, 2] only, in the order (0, 1), (0, 2), …; `radii` are one number or [N].

    Raises ValueError for radii that are not positive, a restitution outside [0, 1], pairs that are none; and, in
    `integrate`, for spheres that overlap at the start or do not fit into the space.
    """

    radii: Float[Array, "..."]
    restitution: Float[Array, "..."]
    pairs: Tuples | None = eqx.field(static=True)

    def __init__(self, radii, restitution=1.0, pairs=None):
        self.radii = number("radii", radii, positive=True)
        self.restitution, self.elastic = number("restitution", restitution, most=1.0), is_elastic(restitution)
        self.pairs = None if pairs is None else index_tuples("pairs", pairs, 2)

    def pairs_of(self, x: Float[Array, "N dim"]) -> Tuples:
        """The pairs that are watched. Raises ValueError where there are none, or points that do not exist."""
        pairs = tuple(combinations(range(len(x)), 2)) if self.pairs is None else self.pairs
        if not pairs:
            raise ValueError("Contact needs two or more points; for one point against a wall use gd.Wall(gap)")
        if max(map(max, pairs)) >= len(x):
            raise ValueError(f"pairs of Contact name point {max(map(max, pairs))}, but there are {len(x)} points")
        return pairs

    def reach(self, x: Float[Array, "N dim"]) -> Float[Array, " c"]:
        """r_i + r_j of every pair."""
        starts, ends = np.array(self.pairs_of(x)).T
        radii = one_per_point("radii", self.radii, x)
        return radii[starts] + radii[ends]

    def gap(self, space, x):
        return measured(distance, space, x, self.pairs_of(x)) - self.reach(x)


class Wall(AbstractContact):
    """A wall for every point: `Wall(gap, restitution=1.0)`, with `gap(x[dim]) -> room left`, positive inside, which
    need not be a distance. A function that names a parameter `t` is given the time; it may be an `eqx.Module`, whose
    arrays are traced and differentiable. For a sphere, let it be zero where the centre is a radius away. One contact
    for each point. Raises ValueError for what is no function, and a restitution outside [0, 1]."""

    function: Callable
    restitution: Float[Array, "..."]

    def __init__(self, gap, restitution=1.0):
        if not callable(gap):
            raise ValueError(f"gap must be a function x[dim] -> room left, got {gap!r}")
        self.function = as_pytree(gap)
        self.restitution, self.elastic = number("restitution", restitution, most=1.0), is_elastic(restitution)

    def gap(self, space, x, t):
        return jax.vmap(lambda x: with_time(self.function, 1)(t, x))(x)


def gaps(contact: AbstractContact, t, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " c"]:
    """The gaps of a contact at time t. Raises ValueError for a gap function of another shape."""
    value, name = with_time(contact.gap, 2)(t, space, x), type(contact).__name__
    if jnp.ndim(value) != 1:
        wanted = "a number for each point" if isinstance(contact, Wall) else "shape [c]"
        raise ValueError(f"gap of {name} must return {wanted}, got {jnp.shape(value)}")
    if jnp.shape(contact.restitution) not in ((), value.shape):
        raise ValueError(
            f"restitution of {name} must be one number or one per contact ({value.size}), got shape "
            f"{jnp.shape(contact.restitution)}"
        )
    return value


def is_elastic(restitution) -> bool:
    """Whether a coefficient of restitution is known to be 1, so that nothing comes to rest: such contacts are simulated
    by a smaller program, which holds no resting contact."""
    return not isinstance(restitution, jax.core.Tracer) and bool(np.all(np.asarray(restitution) == 1))


def check_contacts(space: AbstractManifold, contacts: list[AbstractContact], t, x: np.ndarray) -> None:
    """Raises ValueError for spheres that do not fit into the space, for contacts that are violated, and for gaps that
    are not finite, or zero without a gradient."""
    x = jnp.asarray(x)
    for contact in contacts:
        name, label = type(contact).__name__, lambda i, contact=contact: _label(contact, x, i)
        gap = lambda x, contact=contact: gaps(contact, t, space, x)  # noqa: E731
        if isinstance(contact, Contact) and curvature_of(space) > 0:
            reach = np.asarray(contact.reach(x))
            if reach.max() >= np.pi:
                raise ValueError(
                    f"radii {label(int(np.argmax(reach)))} add up to {reach.max():.6g}, but no two points of this "
                    "sphere are further apart than π: make them smaller"
                )
        values, gradients = map(np.asarray, (gap(x), jax.jacrev(gap)(x)))
        size = np.abs(gradients).reshape(len(values), -1).max(axis=1)
        slack = np.finfo(values.dtype).eps ** 0.5 * size * (1 + np.abs(np.asarray(x)).max())
        for i in np.flatnonzero(~np.isfinite(values + size)):
            raise ValueError(f"the gap of {name} {label(i)} or its gradient is not finite at q0")
        for i in np.flatnonzero(values < -slack):
            raise ValueError(f"q0 violates {name} {label(i)}: they overlap by {-values[i]:.6g}; start from gaps ≥ 0")
        for i in np.flatnonzero((values <= 0) & (size == 0)):
            raise ValueError(f"the gap of {name} {label(i)} is zero at q0 and has no gradient there")


def _label(contact, x, i):
    return f"between points {contact.pairs_of(x)[i]}" if isinstance(contact, Contact) else f"number {i}"
