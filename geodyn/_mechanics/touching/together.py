"""The contacts of all elements of a body, one after the other, as the law of impacts takes them; their start."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import jit
from geodyn._foundations.typing import Array, Float, Int, Number, Scalar
from geodyn._geometry.manifold.manifold import AbstractManifold, diameter_of
from geodyn._integrators.contract.contacts import Neighbours, pick
from geodyn._mechanics.elements.contact import AbstractContact, Seen
from geodyn._mechanics.elements.parts import kind


def sizes(contacts: list[AbstractContact], space: AbstractManifold, seen: list) -> list[int]:
    """The number of gaps of each contact; `seen` holds what each contact acts on, points or poses."""
    return [contact._count_at(space, x) for contact, x in zip(contacts, seen, strict=True)]


def gaps_of(
    contacts: list[AbstractContact],
    t: Scalar,
    space: AbstractManifold,
    seen: list,
    which: Int[Array, " K"] | None = None,
) -> Float[Array, " c"]:
    """The gaps [c] of several contacts, concatenated, or those numbered `which`."""

    def gaps(contact: AbstractContact, x: Seen, which: Array | None = None) -> Float[Array, " c"]:
        return contact._gaps_at(t, space, x, which)

    return _in_a_row(gaps, (), contacts, t, space, [(x,) for x in seen], which)


def slips_of(
    contacts: list[AbstractContact],
    t: Scalar,
    space: AbstractManifold,
    seen: list,
    rates: list,
    which: Int[Array, " K"] | None = None,
) -> Float[Array, "c s"]:
    """The slip velocities [c, s] of several contacts, concatenated and padded with zeros to the largest s, or those
    numbered `which`."""
    widest = 0
    for contact, x, v in zip(contacts, seen, rates, strict=True):
        shape = jax.eval_shape(lambda x, v, contact=contact: contact._slips_at(t, space, x, v), x, v).shape
        widest = max(widest, shape[1])

    def padded_slips(contact: AbstractContact, x: Seen, v: Seen, which: Array | None = None) -> Float[Array, "c s"]:
        value = contact._slips_at(t, space, x, v, which)
        return jnp.pad(value, ((0, 0), (0, widest - value.shape[1])))

    return _in_a_row(padded_slips, (widest,), contacts, t, space, list(zip(seen, rates, strict=True)), which)


def _in_a_row(
    measure: Callable,
    shape: tuple[int, ...],
    contacts: list[AbstractContact],
    t: Scalar,
    space: AbstractManifold,
    seen: list[tuple[Any, ...]],
    which: Int[Array, " K"] | None,
) -> Float[Array, "c ..."]:
    """What is measured at the gaps of all contacts, an array of this shape at each, or at those numbered `which`."""
    sized = sizes(contacts, space, [x for x, *_ in seen])
    if which is None or which.size == sum(sized):
        each = [measure(e, *x) for e, x in zip(contacts, seen, strict=True)]
        return jnp.concatenate([jnp.zeros((0, *shape), jnp.result_type(t)), *each])
    value = jnp.zeros((which.size, *shape), jnp.result_type(t))
    start = 0
    for contact, x, size in zip(contacts, seen, sized, strict=True):
        is_of_contact = (which >= start) & (which < start + size)
        here = is_of_contact.reshape(-1, *[1] * len(shape))
        measured = measure(contact, *x, jnp.clip(which - start, 0, size - 1))
        value = jnp.where(here, measured, value)
        start += size
    return value


def restitutions_of(
    contacts: list[AbstractContact],
    space: AbstractManifold,
    seen: list,
    dtype: np.dtype,
    which: Int[Array, " K"] | None = None,
) -> Float[Array, " c"]:
    """The coefficients of restitution [c] of all gaps, or those numbered `which`."""
    return _one_per_gap([e.restitution for e in contacts], sizes(contacts, space, seen), dtype, which)


def frictions_of(
    contacts: list[AbstractContact],
    space: AbstractManifold,
    seen: list,
    dtype: np.dtype,
    which: Int[Array, " K"] | None = None,
) -> Float[Array, " c"]:
    """The coefficients of friction [c] of all gaps, or those numbered `which`."""
    values = []
    for contact in contacts:
        friction = contact._coefficient
        values.append(0.0 if friction is None else friction)
    return _one_per_gap(values, sizes(contacts, space, seen), dtype, which)


def are_frictional(contacts: list[AbstractContact]) -> bool:
    """Whether any of the contacts has friction."""
    return any(contact._coefficient is not None for contact in contacts)


def _one_per_gap(values: list, sized: list[int], dtype: np.dtype, which: Int[Array, " K"] | None) -> Float[Array, " c"]:
    """The values of all contacts, one number or one for each gap, as one for each gap."""
    each = [jnp.zeros(0, dtype)]
    for value, size in zip(values, sized, strict=True):
        each.append(jnp.broadcast_to(jnp.asarray(value, dtype), size))
    return pick(jnp.concatenate(each), which)


def neighbours_of(contacts: list[AbstractContact], t: Scalar, space: AbstractManifold, seen: list) -> Neighbours | None:
    """The contacts that must be watched: of those that have very many the nearest ones, and all of the others. None if
    none has so many."""
    found = [contact._nearest_at(t, space, x) for contact, x in zip(contacts, seen, strict=True)]
    if all(near is None for near in found):
        return None
    lists = []
    start = 0
    for near, size in zip(found, sizes(contacts, space, seen), strict=True):
        everything = Neighbours(jnp.arange(size), jnp.asarray(jnp.inf, jnp.result_type(t)))
        watched = everything if near is None else near
        lists.append(Neighbours(start + watched.which, watched.room))
        start += size
    which = jnp.concatenate([each.which for each in lists])
    room = jnp.min(jnp.stack([each.room for each in lists]))
    return Neighbours(which, room)


def check_contacts(space: AbstractManifold, contacts: list[AbstractContact], t: Number, seen: list) -> None:
    """Raises ValueError if spheres do not fit into the space, if a contact is violated, or if a gap is not finite, or
    zero without a gradient; `seen` holds what each contact acts on, points or poses."""
    most = diameter_of(space)
    for contact, x in zip(contacts, seen, strict=True):
        name = kind(contact)
        values, change, apart = map(np.asarray, _at_start(contact, t, space, x))
        if apart.size and apart.max() >= most:
            raise ValueError(
                f"radii {contact._label_at(x, np.argmax(apart))} add up to {apart.max():.6g}, but no two points of "
                f"this space are further apart than {most:.6g}: make them smaller"
            )

        def largest(x: Any) -> float:
            return max(np.abs(np.asarray(leaf)).max() for leaf in jax.tree.leaves(x))

        for i in np.flatnonzero(~np.isfinite(values + change)):
            raise ValueError(f"the gap of {name} {contact._label_at(x, i)} or its gradient is not finite at q0")
        touching = np.flatnonzero(values <= 0)  # Only these need gradients.
        if not touching.size:
            continue
        back = jax.vjp(lambda x, contact=contact: contact._gaps_at(t, space, x), x)[1]
        for i in touching:
            size = largest(back(jnp.asarray(np.arange(len(values)) == i, values.dtype))[0])
            if values[i] < -(np.finfo(values.dtype).eps ** 0.5) * size * (1 + largest(x)):
                room = f"they overlap by {-values[i]:.6g}; start from gaps ≥ 0"
                raise ValueError(f"q0 violates {name} {contact._label_at(x, i)}: {room}")
            if size == 0:
                raise ValueError(f"the gap of {name} {contact._label_at(x, i)} is zero at q0 and has no gradient there")


@jit
def _at_start(
    contact: AbstractContact, t: Scalar, space: AbstractManifold, x: Seen
) -> tuple[Float[Array, " c"], Float[Array, " c"], Float[Array, "..."]]:
    """(gaps, their derivative along 1 + |x|, which is not finite if a gradient is not, and the least distances of
    points that are kept apart)."""
    way = jax.tree.map(lambda x: 1 + jnp.abs(x), x)
    values, change = jax.jvp(lambda x: contact._gaps_at(t, space, x), (x,), (way,))
    return values, change, contact._least_distances(x)
