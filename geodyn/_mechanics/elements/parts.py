"""Elements of a body that is part of a larger one: its points are the points start … stop − 1 of the larger body."""

import equinox as eqx

from geodyn._engine.jit import with_time
from geodyn._foundations.typing import Array
from geodyn._mechanics.elements.abstract import (
    AbstractConstraint,
    AbstractDissipation,
    AbstractFriction,
    AbstractPfaffian,
    AbstractPlasticity,
    AbstractPotential,
    Tuples,
    asking,
)
from geodyn._mechanics.elements.contact import AbstractContact, AbstractFrictionalContact, friction_of


class PotentialOn(AbstractPotential):
    """A potential on some of the points."""

    element: AbstractPotential
    start: int = eqx.field(static=True)
    stop: int = eqx.field(static=True)

    def energy(self, space, x, t, masses):
        part = slice(self.start, self.stop)
        return with_time(asking(self.element.energy, masses[part]), 2)(t, space, x[part])


class DissipationOn(AbstractDissipation):
    """A dissipation on some of the points."""

    element: AbstractDissipation
    start: int = eqx.field(static=True)
    stop: int = eqx.field(static=True)

    def rayleigh(self, space, x, v, t, masses):
        part = slice(self.start, self.stop)
        return with_time(asking(self.element.rayleigh, masses[part]), 3)(t, space, x[part], v[part])


class FrictionOn(AbstractFriction):
    """Dry friction of some of the points."""

    element: AbstractFriction
    start: int = eqx.field(static=True)
    stop: int = eqx.field(static=True)
    strength: Array

    def slip(self, space, x, v, t, masses):
        part = slice(self.start, self.stop)
        return with_time(asking(self.element.slip, masses[part]), 3)(t, space, x[part], v[part])


class PlasticityOn(AbstractPlasticity):
    """Plasticity among some of the points."""

    element: AbstractPlasticity
    start: int = eqx.field(static=True)
    stop: int = eqx.field(static=True)
    stiffness: Array
    yield_force: Array

    def strain(self, space, x, t, masses):
        part = slice(self.start, self.stop)
        return with_time(asking(self.element.strain, masses[part]), 2)(t, space, x[part])


class ConstraintOn(AbstractConstraint):
    """Constraints on some of the points."""

    element: AbstractConstraint
    start: int = eqx.field(static=True)
    stop: int = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def residual(self, space, x, t, masses):
        part = slice(self.start, self.stop)
        return with_time(asking(self.element.residual, masses[part]), 2)(t, space, x[part])


class PfaffianOn(AbstractPfaffian):
    """Nonholonomic constraints on some of the points."""

    element: AbstractPfaffian
    start: int = eqx.field(static=True)
    stop: int = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def rate(self, space, x, v, t, masses):
        part = slice(self.start, self.stop)
        return with_time(asking(self.element.rate, masses[part]), 3)(t, space, x[part], v[part])


class ContactOn(AbstractFrictionalContact):
    """Contacts of some of the points."""

    element: AbstractContact
    start: int = eqx.field(static=True)
    stop: int = eqx.field(static=True)
    restitution: Array
    friction: Array | None

    def gap(self, space, x, t):
        return with_time(self.element.gap, 2)(t, space, x[self.start : self.stop])

    def slip(self, space, x, v, t):
        part = slice(self.start, self.stop)
        return with_time(self.element.slip, 3)(t, space, x[part], v[part])


Part = PotentialOn | DissipationOn | FrictionOn | PlasticityOn | ConstraintOn | PfaffianOn | ContactOn


def placed(element, start: int, stop: int) -> Part:
    """The element of a body as an element of the larger body, in which its points are start … stop − 1."""
    if isinstance(element, AbstractConstraint | AbstractPfaffian):
        part = ConstraintOn if isinstance(element, AbstractConstraint) else PfaffianOn
        return part(element, start, stop, element.size)
    if isinstance(element, AbstractContact):
        law = element.restitution, friction_of(element)
        return ContactOn(element, start, stop, *law, elastic=element.elastic)
    if isinstance(element, AbstractFriction):
        return FrictionOn(element, start, stop, element.strength)
    if isinstance(element, AbstractPlasticity):
        return PlasticityOn(element, start, stop, element.stiffness, element.yield_force)
    return (PotentialOn if isinstance(element, AbstractPotential) else DissipationOn)(element, start, stop)


def kind(element) -> str:
    """The name of the class of an element, also of one that is wrapped as part of a larger body."""
    return kind(element.element) if isinstance(element, Part) else type(element).__name__


def joined(element) -> Tuples:
    """The point indices of each edge, triangle, … of an element; empty for an element without such a list."""
    if isinstance(element, Part):
        return tuple(tuple(element.start + i for i in points) for points in joined(element.element))
    return getattr(element, "points", ())


def coupled(element) -> Tuples | None:
    """The sets of points that are coupled by the terms of an element; terms of a single point need not be listed.
    None if the element does not declare `points`, so that it may couple all of them."""
    if isinstance(element, Part):
        inner = coupled(element.element)
        return (tuple(range(element.start, element.stop)),) if inner is None else joined(element)
    return getattr(element, "points", None)
