"""Contacts: what may not come closer than zero. Hard spheres, walls, and any gap function of the user's."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from geodyn._jit import as_pytree, with_time
from geodyn._typing import Array, Float, Int
from geodyn.geometry.geodesic import distance
from geodyn.geometry.manifold import AbstractManifold
from geodyn.geometry.spaces import Product
from geodyn.integrators.gaps import nearest, picked
from geodyn.integrators.system import Neighbours
from geodyn.mechanics.elements import Tuples, curvature_of, index_tuples, measured, number, one_per_point

LISTED_PER_POINT = 8


class AbstractContact(eqx.Module):
    """Unilateral contacts: gaps that stay ≥ 0. Where one closes, the system is reflected in its kinetic metric,
    v⁺ = v − (1+e)<v, n>n, with the coefficient of restitution e of that contact, one number or [c], from 0 to 1. A
    contact without velocity of approach that is pressed stays closed, whatever its restitution; where `elastic` is
    true all are 1, and none is followed to rest: then those pressed at the start need `System(…, resting=True)`, which
    `integrate` sees to outside of jit."""

    restitution: eqx.AbstractVar[Array]
    elastic: bool = eqx.field(static=True, default=False, kw_only=True)

    @abc.abstractmethod
    def gap(self, space: AbstractManifold, x: Float[Array, "N dim"]) -> Float[Array, " c"]:
        """The room left at every contact, positive where there is none, with a gradient that does not vanish at zero.
        A method that names a parameter `t` is given the time: a wall may move."""


class Contact(AbstractContact):
    """Hard spheres: `Contact(radii, restitution=1.0, pairs=None)`, gap = dist(x_i, x_j) − (r_i + r_j) between all pairs
    of points, or between `pairs` [c, 2] only, in the order (0, 1), (0, 2), …; `radii` are one number or [N]. Of many
    pairs only those that are near are watched, until others may have come as near: the result is the same.

    Spheres are sets of points at a distance, which is meant to be that of `gd.distance`: of a metric without closed
    form it is that of the geodesic found there, and radii have to stay below where that has conjugate points, which
    nobody checks. Raises ValueError for radii that are not positive, a restitution outside [0, 1], pairs that are none;
    and, in `integrate`, for spheres that overlap at the start, or that are too large for the sphere or product they are
    in. Inside jit these cannot be raised: overlap is a status there.
    """

    radii: Float[Array, "..."]
    restitution: Float[Array, "..."]
    pairs: Tuples | None = eqx.field(static=True)

    def __init__(self, radii, restitution=1.0, pairs=None):
        self.radii = number("radii", radii, positive=True)
        self.restitution, self.elastic = number("restitution", restitution, most=1.0), is_elastic(restitution)
        self.pairs = None if pairs is None else index_tuples("pairs", pairs, 2)

    def pairs_of(self, x: Float[Array, "N dim"]) -> Int[np.ndarray, "c 2"]:
        """The pairs that are watched. Raises ValueError where there are none, or points that do not exist."""
        pairs = np.stack(np.triu_indices(len(x), 1), axis=1) if self.pairs is None else np.array(self.pairs)
        if not len(pairs):
            raise ValueError("Contact needs two or more points; for one point against a wall use gd.Wall(gap)")
        if pairs.max() >= len(x):
            raise ValueError(f"pairs of Contact name point {pairs.max()}, but there are {len(x)} points")
        return pairs

    def reach(self, x: Float[Array, "N dim"], pairs) -> Float[Array, " c"]:
        """r_i + r_j of these pairs."""
        radii = one_per_point("radii", self.radii, x)
        return radii[pairs[:, 0]] + radii[pairs[:, 1]]

    def gap(self, space, x):
        return self.room(space, x, self.pairs_of(x))

    def room(self, space: AbstractManifold, x: Float[Array, "N dim"], pairs) -> Float[Array, " c"]:
        """The gaps of these pairs."""
        return measured(distance, space, x, pairs) - self.reach(x, pairs)


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


def gaps(
    contact: AbstractContact, t, space: AbstractManifold, x: Float[Array, "N dim"], which: Array | None = None
) -> Float[Array, " c"]:
    """The gaps of a contact at time t, or `which` of them. Raises ValueError for a gap function of another shape."""
    if isinstance(contact, Contact) and which is not None:
        return contact.room(space, x, jnp.asarray(contact.pairs_of(x))[which])
    value, name = with_time(contact.gap, 2)(t, space, x), type(contact).__name__
    if jnp.ndim(value) != 1:
        wanted = "a number for each point" if isinstance(contact, Wall) else "shape [c]"
        raise ValueError(f"gap of {name} must return {wanted}, got {jnp.shape(value)}")
    if jnp.shape(contact.restitution) not in ((), value.shape):
        raise ValueError(
            f"restitution of {name} must be one number or one per contact ({value.size}), got shape "
            f"{jnp.shape(contact.restitution)}"
        )
    return value if which is None else value[which]


def sizes(contacts: list[AbstractContact], space: AbstractManifold, x: Float[Array, "N dim"]) -> list[int]:
    """How many gaps each contact has."""
    size = lambda e: jax.eval_shape(lambda x: gaps(e, jnp.zeros((), x.dtype), space, x), x).size  # noqa: E731
    return [len(e.pairs_of(x)) if isinstance(e, Contact) else size(e) for e in contacts]


def gaps_of(contacts: list[AbstractContact], t, space, x, which: Int[Array, " K"] | None = None) -> Float[Array, " c"]:
    """The gaps of several contacts in a row, or those of the numbers `which`."""
    sized = sizes(contacts, space, x)
    if which is None or which.size == sum(sized):
        return jnp.concatenate([jnp.zeros(0, x.dtype), *(gaps(e, t, space, x) for e in contacts)])
    value, start = jnp.zeros(which.shape, x.dtype), 0
    for contact, size in zip(contacts, sized, strict=True):
        here = (which >= start) & (which < start + size)
        value = jnp.where(here, gaps(contact, t, space, x, jnp.clip(which - start, 0, size - 1)), value)
        start += size
    return value


def restitutions_of(contacts: list[AbstractContact], space, x, which: Int[Array, " K"] | None = None):
    """The restitutions of all gaps, or those of the numbers `which`."""
    each = [jnp.broadcast_to(e.restitution, n).astype(x.dtype) for e, n in zip(contacts, sizes(contacts, space, x))]
    return picked(jnp.concatenate([jnp.zeros(0, x.dtype), *each]), which)


def neighbours_of(contacts: list[AbstractContact], t, space, x) -> Neighbours | None:
    """Of the hard spheres, where they are many, the pairs that are near; all other contacts."""
    most, lists, start = LISTED_PER_POINT * len(x), [], 0
    sized = sizes(contacts, space, x)
    many = [isinstance(e, Contact) and n > most for e, n in zip(contacts, sized, strict=True)]
    if not any(many):
        return None
    for contact, size, listed in zip(contacts, sized, many, strict=True):
        everything = Neighbours(jnp.arange(size), jnp.asarray(jnp.inf, x.dtype))
        near = nearest(gaps(contact, t, space, x), most) if listed else everything
        lists.append(Neighbours(start + near.which, near.room))
        start += size
    return Neighbours(jnp.concatenate([a.which for a in lists]), jnp.min(jnp.stack([a.room for a in lists])))


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
        if isinstance(contact, Contact):
            reach, most = np.asarray(contact.reach(x, contact.pairs_of(x))), diameter(space)
            if reach.max() >= most:
                raise ValueError(
                    f"radii {label(int(np.argmax(reach)))} add up to {reach.max():.6g}, but no two points of this "
                    f"space are further apart than {most:.6g}: make them smaller"
                )
        # A change in which nothing cancels shows what is not finite; gradients are wanted of few, if any.
        values, change = map(np.asarray, jax.jvp(gap, (x,), (1 + jnp.abs(x),)))
        for i in np.flatnonzero(~np.isfinite(values + change)):
            raise ValueError(f"the gap of {name} {label(i)} or its gradient is not finite at q0")
        back = jax.vjp(gap, x)[1]
        for i in np.flatnonzero(values <= 0):
            size = np.abs(np.asarray(back(jnp.asarray(np.arange(len(values)) == i, values.dtype))[0])).max()
            if values[i] < -(np.finfo(values.dtype).eps ** 0.5) * size * (1 + np.abs(np.asarray(x)).max()):
                room = f"they overlap by {-values[i]:.6g}; start from gaps ≥ 0"
                raise ValueError(f"q0 violates {name} {label(i)}: {room}")
            if size == 0:
                raise ValueError(f"the gap of {name} {label(i)} is zero at q0 and has no gradient there")


def diameter(space: AbstractManifold) -> float:
    """The largest distance, where it is known: π on the unit sphere, by Pythagoras in a product; else infinite."""
    if isinstance(space, Product):
        return float(np.hypot(diameter(space.a), diameter(space.b)))
    return np.pi if curvature_of(space) > 0 else np.inf


def _label(contact, x, i):
    return f"between points {tuple(contact.pairs_of(x)[i].tolist())}" if isinstance(contact, Contact) else f"number {i}"
