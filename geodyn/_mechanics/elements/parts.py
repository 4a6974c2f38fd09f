"""Elements of a body that is part of a larger one: its points are the points start … stop − 1 of the larger body."""

from typing import cast

import equinox as eqx

from geodyn._engine.jit import with_time
from geodyn._foundations.typing import Array, Float, Number, Scalar
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._mechanics.elements.abstract import (
    AbstractConstraint,
    AbstractDissipation,
    AbstractFriction,
    AbstractPfaffian,
    AbstractPlasticity,
    AbstractPotential,
    Tuples,
    with_masses,
)
from geodyn._mechanics.elements.contact import AbstractContact, AbstractFrictionalContact


class PotentialOn(AbstractPotential):
    """A potential on some of the points."""

    element: AbstractPotential
    start: int = eqx.field(static=True)
    stop: int = eqx.field(static=True)

    def energy(
        self, space: AbstractManifold, x: Float[Array, "N dim"], t: Number, masses: Float[Array, " N"]
    ) -> Scalar:
        part = slice(self.start, self.stop)
        return with_time(with_masses(self.element.energy, masses[part]), 2)(t, space, x[part])


class DissipationOn(AbstractDissipation):
    """A dissipation on some of the points."""

    element: AbstractDissipation
    start: int = eqx.field(static=True)
    stop: int = eqx.field(static=True)

    def rayleigh(
        self,
        space: AbstractManifold,
        x: Float[Array, "N dim"],
        v: Float[Array, "N dim"],
        t: Number,
        masses: Float[Array, " N"],
    ) -> Scalar:
        part = slice(self.start, self.stop)
        return with_time(with_masses(self.element.rayleigh, masses[part]), 3)(t, space, x[part], v[part])


class FrictionOn(AbstractFriction):
    """Dry friction of some of the points."""

    element: AbstractFriction
    start: int = eqx.field(static=True)
    stop: int = eqx.field(static=True)
    strength: Array

    def slip(
        self,
        space: AbstractManifold,
        x: Float[Array, "N dim"],
        v: Float[Array, "N dim"],
        t: Number,
        masses: Float[Array, " N"],
    ) -> Float[Array, "c d"]:
        part = slice(self.start, self.stop)
        return with_time(with_masses(self.element.slip, masses[part]), 3)(t, space, x[part], v[part])


class PlasticityOn(AbstractPlasticity):
    """Plasticity among some of the points."""

    element: AbstractPlasticity
    start: int = eqx.field(static=True)
    stop: int = eqx.field(static=True)
    stiffness: Array
    yield_force: Array

    def strain(
        self, space: AbstractManifold, x: Float[Array, "N dim"], t: Number, masses: Float[Array, " N"]
    ) -> Float[Array, " c"]:
        part = slice(self.start, self.stop)
        return with_time(with_masses(self.element.strain, masses[part]), 2)(t, space, x[part])


class ConstraintOn(AbstractConstraint):
    """Constraints on some of the points."""

    element: AbstractConstraint
    start: int = eqx.field(static=True)
    stop: int = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def residual(
        self, space: AbstractManifold, x: Float[Array, "N dim"], t: Number, masses: Float[Array, " N"]
    ) -> Float[Array, " size"]:
        part = slice(self.start, self.stop)
        return with_time(with_masses(self.element.residual, masses[part]), 2)(t, space, x[part])


class PfaffianOn(AbstractPfaffian):
    """Nonholonomic constraints on some of the points."""

    element: AbstractPfaffian
    start: int = eqx.field(static=True)
    stop: int = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def rate(
        self,
        space: AbstractManifold,
        x: Float[Array, "N dim"],
        v: Float[Array, "N dim"],
        t: Number,
        masses: Float[Array, " N"],
    ) -> Float[Array, " size"]:
        part = slice(self.start, self.stop)
        return with_time(with_masses(self.element.rate, masses[part]), 3)(t, space, x[part], v[part])


class ContactOn(AbstractFrictionalContact):
    """Contacts of some of the points."""

    element: AbstractContact
    start: int = eqx.field(static=True)
    stop: int = eqx.field(static=True)
    restitution: Array
    friction: Array | None

    def gap(self, space: AbstractManifold, x: Float[Array, "N dim"], t: Number) -> Float[Array, " c"]:
        return with_time(self.element.gap, 2)(t, space, x[self.start : self.stop])

    def slip(
        self, space: AbstractManifold, x: Float[Array, "N dim"], v: Float[Array, "N dim"], t: Number
    ) -> Float[Array, "c s"]:
        part = slice(self.start, self.stop)
        slip = cast(AbstractFrictionalContact, self.element).slip  # Others have no friction and are not asked.
        return with_time(slip, 3)(t, space, x[part], v[part])


Element = (
    AbstractPotential
    | AbstractDissipation
    | AbstractFriction
    | AbstractPlasticity
    | AbstractConstraint
    | AbstractPfaffian
    | AbstractContact
)
Part = PotentialOn | DissipationOn | FrictionOn | PlasticityOn | ConstraintOn | PfaffianOn | ContactOn


def place(element: Element, start: int, stop: int) -> Part:
    """The element of a body as an element of the larger body, in which its points are start … stop − 1."""
    if isinstance(element, AbstractConstraint):
        return ConstraintOn(element=element, start=start, stop=stop, size=element.size)
    if isinstance(element, AbstractPfaffian):
        return PfaffianOn(element=element, start=start, stop=stop, size=element.size)
    if isinstance(element, AbstractContact):
        return ContactOn(
            element=element,
            start=start,
            stop=stop,
            restitution=element.restitution,
            friction=element._coefficient,
            elastic=element.elastic,
        )
    if isinstance(element, AbstractFriction):
        return FrictionOn(element=element, start=start, stop=stop, strength=element.strength)
    if isinstance(element, AbstractPlasticity):
        return PlasticityOn(
            element=element,
            start=start,
            stop=stop,
            stiffness=element.stiffness,
            yield_force=element.yield_force,
        )
    if isinstance(element, AbstractPotential):
        return PotentialOn(element, start, stop)
    return DissipationOn(element, start, stop)


def kind(element: Element) -> str:
    """The name of the class of an element, also of one that is wrapped as part of a larger body."""
    return kind(element.element) if isinstance(element, Part) else type(element).__name__


def point_lists(element: Element) -> Tuples:
    """The point indices of each edge, triangle, … of an element; empty for an element without such a list."""
    if isinstance(element, Part):
        return tuple(tuple(element.start + i for i in points) for points in point_lists(element.element))
    return getattr(element, "points", ())


def coupled_points(element: Element) -> Tuples | None:
    """The sets of points that are coupled by the terms of an element; terms of a single point need not be listed.
    None if the element does not declare `points`, so that it may couple all of them."""
    if isinstance(element, Part):
        inner = coupled_points(element.element)
        return (tuple(range(element.start, element.stop)),) if inner is None else point_lists(element)
    return getattr(element, "points", None)
