"""A check that the elements of a body have the same values in all charts of its space."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from geodyn._engine.jit import with_time
from geodyn._foundations.typing import Array, ArrayLike, Float, Number
from geodyn._geometry.derived.patches import atlas_of
from geodyn._geometry.manifold.manifold import AbstractManifold
from geodyn._mechanics.elements.abstract import (
    AbstractConstraint,
    AbstractDissipation,
    AbstractPfaffian,
    AbstractPotential,
    with_masses,
)
from geodyn._mechanics.points.body import Element


def check_charts(
    space: AbstractManifold,
    elements: Sequence[Element],
    masses: Float[Array, " N"],
    t: Number,
    x: np.ndarray,
    v: np.ndarray,
) -> None:
    """Raises ValueError for an element whose value changes if the same points are given in another chart: one that
    depends on the coordinates or, in a chart that moves with the body, is not invariant under isometries."""
    atlas = atlas_of(space)
    if atlas is None:
        return
    points = jnp.asarray(x)
    switch = atlas.another(points)
    moved = jax.jvp(lambda x: atlas.switched(switch, x), (points,), (jnp.asarray(v),))
    for element in elements:
        here, there = (np.asarray(_value(element, masses, t, space, *phase)) for phase in ((points, v), moved))
        if np.any(np.abs(here - there) > np.sqrt(np.finfo(here.dtype).eps) * (1 + np.abs(here))):
            raise ValueError(
                f"{type(element).__name__} is not the same in all charts of the space, at q0 {here} and {there}: it "
                "must be a function of the points, as by gd.distance, and in a chart that moves with the body one that "
                "isometries do not change; else give the space another chart"
            )


def _value(
    element: Element,
    masses: Float[Array, " N"],
    t: Number,
    space: AbstractManifold,
    x: Float[ArrayLike, "N dim"],
    v: Float[ArrayLike, "N dim"],
) -> ArrayLike:
    if isinstance(element, AbstractPotential):
        return with_time(with_masses(element.energy, masses), 2)(t, space, x)
    if isinstance(element, AbstractDissipation):
        return with_time(with_masses(element.rayleigh, masses), 3)(t, space, x, v)
    if isinstance(element, AbstractPfaffian):
        return with_time(with_masses(element.rate, masses), 3)(t, space, x, v)
    if isinstance(element, AbstractConstraint):
        return with_time(with_masses(element.residual, masses), 2)(t, space, x)
    return 0.0 * t
