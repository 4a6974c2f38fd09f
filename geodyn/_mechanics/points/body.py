"""The base class of bodies: points in a space, and elements (potentials, constraints, contacts, …) that act on them."""

import abc
from collections.abc import Sequence
from types import UnionType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from geodyn._engine.jit import jit, with_time
from geodyn._foundations.checks import check_arguments, is_whole, one_number, returned, shown
from geodyn._foundations.typing import Array, Float, Int, Number, Scalar, TypeAliasType
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._integrators.contract.contacts import Contacts, Neighbours
from geodyn._integrators.contract.system import AbstractLagrangianSystem
from geodyn._mechanics.elements.abstract import (
    AbstractConstraint,
    AbstractDissipation,
    AbstractFriction,
    AbstractPfaffian,
    AbstractPlasticity,
    AbstractPotential,
    with_masses,
)
from geodyn._mechanics.elements.contact import AbstractContact, AbstractFrictionalContact, Seen
from geodyn._mechanics.elements.parts import kind, point_lists
from geodyn._mechanics.touching.together import (
    are_frictional,
    frictions_of,
    gaps_of,
    neighbours_of,
    restitutions_of,
    slips_of,
)

Yielding = AbstractFriction | AbstractPlasticity
ELEMENTS = AbstractPotential | AbstractDissipation | Yielding | AbstractConstraint | AbstractPfaffian | AbstractContact
Element = TypeAliasType("Element", ELEMENTS)

MOST_CONSTRAINTS = 10**6
METHODS = {
    AbstractPotential: {"energy": "space x"},
    AbstractDissipation: {"rayleigh": "space x v"},
    AbstractFriction: {"slip": "space x v"},
    AbstractPlasticity: {"strain": "space x"},
    AbstractConstraint: {"residual": "space x"},
    AbstractPfaffian: {"rate": "space x v"},
    AbstractContact: {"gap": "space x"},
    AbstractFrictionalContact: {"slip": "space x v"},
}
"""The arguments of the methods of each kind of element. A method may also have parameters `t` and `masses`."""


class AbstractBody(AbstractLagrangianSystem):
    """A Lagrangian system L = K − Σ V with elements; the base class of bodies. An element is evaluated at the points of
    the body, or at the poses of rigid bodies: `seen_by` returns which."""

    space: eqx.AbstractVar[AbstractManifold]
    elements: eqx.AbstractVar[tuple[Element, ...]]
    resting: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def kinetic_energy(self, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        """K, quadratic in v."""

    @abc.abstractmethod
    def points(self, q: Float[Array, " n"]) -> Float[Array, "N dim"]:
        """The points [N, dim] of the body in its space."""

    @abc.abstractmethod
    def seen_by(self, element: Element, q: Float[Array, " n"]) -> Seen:
        """The argument of an element at q: the points, or the poses of rigid bodies."""

    @abc.abstractmethod
    def masses_seen_by(self, element: Element) -> Float[Array, " N"]:
        """The masses of the points, or bodies, that `seen_by` returns for an element."""

    @abc.abstractmethod
    def with_rest(self) -> "AbstractBody":
        """The same body with resting=True: its contacts may be at rest."""

    @abc.abstractmethod
    def without_idle(self, q: Float[Array, " n"], p: Float[Array, " n"]) -> tuple[Array, Array]:
        """(q, p) of the same physical state, in which coordinates without physical meaning (lengths of quaternions) are
        reset and their momenta are 0."""

    def potential_energy(self, t: Number, q: Float[Array, " n"]) -> Scalar:
        """Σ V(t, x) over all potentials."""
        # A program of its own, as that of the constraints: it is traced once, wherever it is used.
        return jit(_potential_energy)(self, t, q)

    def lagrangian_at(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        return self.kinetic_energy(q, v) - self.potential_energy(t, q)

    def rayleigh_at(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
        return rayleigh_of(self, elements_of(self, AbstractDissipation), t, q, v)

    def constraint(self, t: Number, q: Float[Array, " n"]) -> Float[Array, " c"]:
        return jit(_constraint)(self, t, q)

    def pfaffian(self, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]) -> Float[Array, " k"]:
        return _row(self, AbstractPfaffian, "rate", t, q, v)

    def count_constraints(self, q: Array | np.ndarray) -> int:
        return sum(element.size for element in elements_of(self, AbstractConstraint | AbstractPfaffian))

    @property
    def is_smooth(self) -> bool:
        return not any(isinstance(e, Yielding) for e in self.elements)

    def stored_energy(self, t: Number, q: Float[Array, " n"], lam: Float[Array, " c"]) -> Scalar:
        """The elastic energy Σ λ²/2k of plastic elements, whose forces λ are the last of the multipliers."""
        k = strains(self, t, q)[0]
        return jnp.sum(lam[lam.size - k.size :] ** 2 / k) / 2

    @property
    def contacts(self) -> Contacts | None:
        return self._contacts() if elements_of(self, AbstractContact) else None

    def _contacts(self, which: Int[Array, " K"] | None = None) -> Contacts:
        """The contacts of all elements, or only those numbered `which`."""
        elements = elements_of(self, AbstractContact)
        space = self.space
        frictional = are_frictional(elements)

        def gap(q: Float[Array, " n"], t: Scalar) -> Float[Array, " K"]:
            return gaps_of(elements, t, space, seen_by_contacts(self, q), which)

        def restitution(q: Float[Array, " n"]) -> Float[Array, " K"]:
            return restitutions_of(elements, space, seen_by_contacts(self, q), q.dtype, which)

        def friction(q: Float[Array, " n"]) -> Float[Array, " K"]:
            return frictions_of(elements, space, seen_by_contacts(self, q), q.dtype, which)

        def slip(q: Float[Array, " n"], v: Float[Array, " n"], t: Scalar) -> Float[Array, "K s"]:
            seen, rates = jax.jvp(lambda q: seen_by_contacts(self, q), (q,), (v,))
            return slips_of(elements, t, space, seen, rates, which)

        def neighbours(t: Scalar, q: Float[Array, " n"]) -> Neighbours | None:
            return neighbours_of(elements, t, space, seen_by_contacts(self, q))

        def closing(q: Float[Array, " n"], v: Float[Array, " n"]) -> Scalar:
            """The fastest that two points can approach each other."""
            x, u = jax.jvp(self.points, (q,), (v,))
            squares = jax.vmap(lambda x, u: u @ space.metric(x) @ u)(x, u)
            return 2 * jnp.sqrt(jnp.max(squares))

        return Contacts(
            gap,
            restitution,
            friction if frictional else None,
            slip if frictional else None,
            elastic=not self.resting and all(e.elastic for e in elements),
            jumping=any(e.jumping for e in elements),
            among=self._contacts,
            neighbours=neighbours,
            closing=closing,
            without_idle=self.without_idle,
            with_rest=self.with_rest,
        )


def elements_of(body: AbstractBody, of: type | UnionType) -> list:
    """The elements of a body that are instances of `of`, in their order."""
    return [e for e in body.elements if isinstance(e, of)]


def seen_by_contacts(body: AbstractBody, q: Float[Array, " n"]) -> list:
    """The argument of each contact of a body at q: the points, or the poses of rigid bodies."""
    return [body.seen_by(e, q) for e in elements_of(body, AbstractContact)]


def values_of(body: AbstractBody, elements: list, name: str, t: Number, *state: Float[Array, " n"]) -> list:
    """The values of the method `name` of each of the elements, at time t and the `state` (q,) or (q, v)."""

    def value(element: Element) -> Array:
        def seen_by(q: Float[Array, " n"]) -> Seen:
            return body.seen_by(element, q)

        seen = jax.jvp(seen_by, state[:1], state[1:]) if len(state) > 1 else (seen_by(*state),)
        method = with_masses(getattr(element, name), body.masses_seen_by(element))
        of_time = with_time(method, 1 + len(state))
        return returned(f"{name} of {kind(element)}", of_time, t, body.space, *seen)

    return [value(element) for element in elements]


def rayleigh_of(
    body: AbstractBody, dissipations: list, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]
) -> Scalar:
    """Σ R(t, x, v) over the given dissipation elements."""
    return _sum("rayleigh", dissipations, values_of(body, dissipations, "rayleigh", t, q, v), q.dtype)


def sliding(
    body: AbstractBody, t: Number, q: Float[Array, " n"], v: Float[Array, " n"]
) -> list[tuple[Float[Array, " c"], Float[Array, "c d"]]]:
    """(F, s) of every friction element: its largest forces, and its slip velocities."""
    frictions = elements_of(body, AbstractFriction)
    slips = values_of(body, frictions, "slip", t, q, v)
    found = []
    for element, slip in zip(frictions, slips, strict=True):
        if slip.ndim != 2:
            raise ValueError(f"slip of {kind(element)} must return shape [c, d], got {slip.shape}")
        strength = element.strength.astype(q.dtype)
        found.append((jnp.broadcast_to(strength, slip.shape[:1]), slip))
    return found


def strains(
    body: AbstractBody, t: Number, q: Float[Array, " n"]
) -> tuple[Float[Array, " c"], Float[Array, " c"], Float[Array, " c"]]:
    """(k, Y, e) of all plastic elements, concatenated: stiffnesses, yield forces, and strains."""
    plastic = elements_of(body, AbstractPlasticity)
    if not plastic:
        none = jnp.zeros(0, q.dtype)
        return none, none, none
    stiffnesses = [element.stiffness.astype(q.dtype) for element in plastic]
    yield_forces = [element.yield_force.astype(q.dtype) for element in plastic]
    found = values_of(body, plastic, "strain", t, q)
    return jnp.concatenate(stiffnesses), jnp.concatenate(yield_forces), jnp.concatenate(found)


def check_elements(elements: Sequence[Any], count: int, what: str) -> None:
    """Raises ValueError for elements of an unknown kind, for point indices of `count` or more, and for nonholonomic
    constraints together with contacts. `what` says in the message what the points are (masses, joints, …)."""
    for element in elements:
        _check_kind(element)
    contacts = [kind(e) for e in elements if isinstance(e, AbstractContact)]
    pfaffians = [kind(e) for e in elements if isinstance(e, AbstractPfaffian)]
    if contacts and pfaffians:
        raise ValueError(
            f"elements must not hold contacts ({contacts[0]}) and nonholonomic constraints ({pfaffians[0]}) together: "
            "what an impact does to the latter is not modelled. Give one of them as a force: a potential wall, or a "
            "Rayleigh function that resists slipping"
        )
    for element in elements:
        _check_methods(element)
        for points in point_lists(element):
            if max(points) >= count:
                argument = "edges" if len(points) == 2 else "points"
                raise ValueError(
                    f"{argument} of {kind(element)} name point {max(points)}, but there are {count} {what}: points 0 "
                    f"to {count - 1}"
                )


def _check_kind(element: object) -> None:
    if isinstance(element, list | tuple):
        raise ValueError(
            f"elements must be given one by one, not in a {type(element).__name__}: System(space, masses, *elements)"
        )
    if not isinstance(element, ELEMENTS):
        raise ValueError(
            "elements must be potentials, dissipations, constraints or contacts such as gd.Spring(...); got "
            f"{shown(element)}"
        )


def _check_methods(element: Element) -> None:
    """Raises ValueError if a method does not take the arguments in `METHODS`, or if `size` is not a whole number."""
    for of, methods in METHODS.items():
        for name, wanted in methods.items() if isinstance(element, of) else ():
            # Contacts do not need the masses: they act by the kinetic metric in which velocities are reflected.
            named = ("t",) if isinstance(element, AbstractContact) else ("t", "masses")
            check_arguments(f"{name} of {kind(element)}", getattr(element, name), *wanted.split(), named=named)
    size = getattr(element, "size", 1)
    if not is_whole(size):
        raise ValueError(f"size of {kind(element)} must be the number of its residuals, got {size!r}")
    if size > MOST_CONSTRAINTS:
        raise ValueError(f"size of {kind(element)} must be at most {MOST_CONSTRAINTS}, got {size}")


def constraint_names(body: AbstractBody) -> list[str]:
    """A name for every constraint, such as 'Rod between points (0, 1)', in the order of their multipliers."""
    named = [*elements_of(body, AbstractConstraint), *elements_of(body, AbstractPfaffian)]
    return [f"{kind(e)}{_label(e, i)}" for e in named for i in range(e.size)]


def _label(element: AbstractConstraint | AbstractPfaffian, i: int) -> str:
    points = point_lists(element)
    if len(points) != element.size:
        return f"[{i}]" if not points else f"[{i}] of point {points[0][0]}"
    return f" between points {points[i]}"


def _sum(name: str, elements: Sequence[Element], values: Sequence[Array], dtype: DTypeLike) -> Scalar:
    """The sum of the values of the method `name` of these elements, one number each; else ValueError."""
    total = jnp.zeros((), dtype)
    for element, value in zip(elements, values, strict=True):
        total = total + one_number(f"{name} of {kind(element)}", value)
    return total


def _potential_energy(body: AbstractBody, t: Number, q: Float[Array, " n"]) -> Scalar:
    acting = elements_of(body, AbstractPotential)
    return _sum("energy", acting, values_of(body, acting, "energy", t, q), q.dtype)


def _constraint(body: AbstractBody, t: Number, q: Float[Array, " n"]) -> Float[Array, " c"]:
    return _row(body, AbstractConstraint, "residual", t, q)


def _row(
    body: AbstractBody, of: type | UnionType, name: str, t: Number, *state: Float[Array, " n"]
) -> Float[Array, " c"]:
    """The values of the method `name` of all elements of the kind `of`, concatenated."""
    elements = elements_of(body, of)
    values = values_of(body, elements, name, t, *state)
    rows = [_in_size(e, name, value) for e, value in zip(elements, values, strict=True)]
    return jnp.concatenate([jnp.zeros(0, state[0].dtype), *rows])


def _in_size(element: AbstractConstraint | AbstractPfaffian, name: str, value: Array) -> Float[Array, " c"]:
    value = jnp.atleast_1d(value)
    if value.shape != (element.size,):
        raise ValueError(
            f"{type(element).__name__}.{name} must return shape ({element.size},), its size; got {value.shape}"
        )
    return value
